"""UncertaintyRegressor chooses the method and adds nothing of its own."""

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import betabinom
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import ARDRegression, BayesianRidge, LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq._fitting.cross_fit import cross_fit
from skuq.conformal import ConformalRegressor, CrossConformalRegressor
from skuq.distributions import Normal, Quantiles, StudentT
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import prediction_interval_coverage
from skuq.prediction import predict_dist
from skuq.recalibration import (
    EmpiricalRecalibrator,
    IdentityRecalibrator,
    IsotonicRecalibrator,
    QuantileShiftRecalibrator,
    StdScalingRecalibrator,
)
from skuq.regressors import (
    BootstrapRegressor,
    ForestDistributionRegressor,
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from skuq.regressors._methods import build
from skuq.regressors._multi_quantile import LevelRegressionRecalibrator
from tests.regressors.worlds import heteroscedastic_world, linear_world


class ReportsStd(Ridge):
    """A model of another package, by the convention: its std is half of what it should be."""

    def predict(self, X, return_std=False):
        points = super().predict(X)
        return (points, np.full(len(X), 0.5)) if return_std else points


BOOSTED = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, max_iter=5)
PIPELINE = make_pipeline(StandardScaler(), BOOSTED)


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (LinearRegression(), "residual"),
        (make_pipeline(StandardScaler(), RandomForestRegressor(10)), "residual"),
        (HistGradientBoostingRegressor(max_iter=5), "residual"),
        (BayesianRidge(), "residual"),
        (DummyRegressor(), "residual"),
        (make_pipeline(StandardScaler(), GaussianProcessRegressor(optimizer=None, alpha=0.5)), "native"),
        (LeastSquaresRegressor(), "native"),
        (ARDRegression(), "residual"),
        (TransformedTargetRegressor(BayesianRidge(), func=np.sinh, inverse_func=np.arcsinh), "residual"),
        (GridSearchCV(BayesianRidge(), {"alpha_1": [1e-6]}, cv=2), "residual"),
        (ResidualRegressor(Ridge()), "native"),
        (BootstrapRegressor(Ridge(), 5), "native"),
        (ConformalRegressor(Ridge()), "native"),
        (RecalibratedRegressor(BayesianRidge(), IdentityRecalibrator(), cv=2), "native"),
        (make_pipeline(LeastSquaresRegressor(), StdScalingRecalibrator()), "native"),
        (UncertaintyRegressor(BOOSTED, cv=2), "native"),
        (QuantileRegressor(), "recalibrated"),
        (make_pipeline(StandardScaler(), BOOSTED), "recalibrated"),
        (MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.1, 0.9]), "recalibrated"),
        (UncertaintyRegressor(QuantileRegressor(), "quantile"), "recalibrated"),
        (BootstrapRegressor(Ridge(), 20, noise=None), "recalibrated"),
        (BaggingRegressor(BayesianRidge(), 3), "residual"),
        (BaggingRegressor(LeastSquaresRegressor(), 3), "recalibrated"),
        (VotingRegressor([("a", LeastSquaresRegressor()), ("b", LeastSquaresRegressor())]), "recalibrated"),
        (ReportsStd(), "recalibrated"),
        (make_pipeline(StandardScaler(), GridSearchCV(ReportsStd(), {"alpha": [1.0]}, cv=2)), "recalibrated"),
        (TransformedTargetRegressor(DummyRegressor()), "residual"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_auto_chooses_by_what_the_estimator_offers(estimator, method):
    X, y = linear_world(60)
    model = UncertaintyRegressor(estimator, random_state=0).fit(X, y)
    assert model.method_ == method
    assert np.isfinite(model.predict_interval(X)).all()


COMPOSED = {
    "bootstrap": BootstrapRegressor(LinearRegression(), 10, random_state=3),
    "residual": ResidualRegressor(LinearRegression(), cv=3, random_state=3),
    "conformal": CrossConformalRegressor(LinearRegression(), cv=3, random_state=3),
    "quantile": MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.1, 0.9], cv=3, random_state=3),
    "native": LeastSquaresRegressor(),
    "forest": ForestDistributionRegressor(RandomForestRegressor(60), random_state=3),
}
OPTIONS = {
    "bootstrap": {"n_estimators": 10},
    "conformal": {"method": "cv+"},
    "quantile": {"levels": [0.1, 0.9]},
}


@pytest.mark.parametrize("method", COMPOSED)
def test_each_method_is_its_class(method):
    X, y = linear_world(60)
    own = COMPOSED[method]
    child = getattr(own, "estimator", own)
    front = UncertaintyRegressor(child, method, method_params=OPTIONS.get(method), cv=3, random_state=3)
    assert np.array_equal(
        front.fit_transform(X, y).quantile([0.2, 0.7]), own.fit_transform(X, y).quantile([0.2, 0.7])
    )
    assert np.array_equal(front.predict_interval(X), own.predict_interval(X))
    assert np.array_equal(front.predict(X), own.predict(X))


def test_native_is_the_model_itself_with_folds_for_fit_transform():
    X, y = linear_world(60)
    folds = KFold(3)
    model = UncertaintyRegressor(BayesianRidge(), "native", cv=folds)
    out_of_sample = model.fit_transform(X, y)
    assert np.allclose(out_of_sample.std(), cross_fit(BayesianRidge(), X, y, cv=folds).in_row_order(60).std())
    plain = BayesianRidge().fit(X, y)
    assert np.array_equal(model.predict(X), plain.predict(X))
    assert np.array_equal(model.predict_interval(X), predict_dist(plain, X).interval())
    too_narrow = UncertaintyRegressor(ReportsStd(), "native").fit(X, y)
    assert np.array_equal(too_narrow.predict_dist(X).std(), np.full(60, 0.5))


@pytest.mark.parametrize(
    ("estimator", "model", "recalibrator"),
    [
        (ReportsStd(), ReportsStd(), StdScalingRecalibrator(objective="coverage")),
        (
            PIPELINE,
            MultiQuantileRegressor(PIPELINE, [0.05, 0.35, 0.65, 0.95]),
            LevelRegressionRecalibrator(),
        ),
    ],
    ids=["distribution", "quantiles"],
)
def test_recalibrated_is_its_class(estimator, model, recalibrator):
    X, y = heteroscedastic_world(90)
    own = RecalibratedRegressor(model, recalibrator, cv=KFold(3), random_state=2)
    front = UncertaintyRegressor(estimator, cv=KFold(3), random_state=2)
    out_of_sample = own.fit_transform(X, y)
    assert np.array_equal(front.fit_transform(X, y).quantile([0.2, 0.7]), out_of_sample.quantile([0.2, 0.7]))
    assert np.array_equal(front.predict_interval(X), own.predict_interval(X))
    assert np.allclose(front.predict(X), own.predict(X), rtol=1e-12)
    front.set_params(method_params={"recalibrator": EmpiricalRecalibrator()}).fit(X, y)
    assert isinstance(front.estimator_.recalibrators_[0], EmpiricalRecalibrator)


@pytest.mark.parametrize("method", ["auto", "recalibrated"])
def test_levels_reach_the_quantile_model_inside(method):
    X, y = linear_world(60)
    levels, recalibrator = [0.1, 0.5, 0.9], QuantileShiftRecalibrator()
    own = RecalibratedRegressor(
        MultiQuantileRegressor(QuantileRegressor(alpha=0), levels), recalibrator, cv=KFold(3), random_state=2
    )
    front = UncertaintyRegressor(
        QuantileRegressor(alpha=0), method, method_params={"levels": levels}, cv=KFold(3), random_state=2
    )
    assert np.array_equal(front.fit(X, y).predict_interval(X), own.fit(X, y).predict_interval(X))
    named = clone(front).set_params(method_params={"levels": levels, "quantile_param": "quantile"})
    assert np.array_equal(named.fit(X, y).predict_interval(X), own.predict_interval(X))
    # of a distribution there are none to choose
    with pytest.raises(ValueError, match=r"`method_params` must hold .*, got 'levels'"):
        UncertaintyRegressor(ReportsStd(), method, method_params={"levels": levels}).fit(X, y)


def test_inside_other_containers_a_quantile_loss_is_a_point_model():
    X, y = linear_world(60)
    for container in (
        TransformedTargetRegressor(QuantileRegressor(alpha=0)),
        GridSearchCV(QuantileRegressor(), {"alpha": [0.0, 0.1]}, cv=2),
        BaggingRegressor(QuantileRegressor(alpha=0), 3, random_state=0),
    ):
        model = UncertaintyRegressor(container, random_state=0).fit(X, y)
        assert model.method_ == "residual"
        assert prediction_interval_coverage(y, model.predict_dist(X)) > 0.85
        with pytest.raises(ValueError, match="quantile loss that skuq can set"):
            MultiQuantileRegressor(container).fit(X, y)


class HeavyTailed(Ridge):
    """A model whose standard deviation is infinite."""

    def predict_dist(self, X):
        return StudentT(self.predict(X), 0.5, df=1.5)


def test_around_a_quantile_loss_the_point_prediction_is_the_mean():
    X, y = linear_world(200)
    model = UncertaintyRegressor(QuantileRegressor(quantile=0.9, alpha=0), cv=3, random_state=0).fit(X, y)
    assert np.mean(y < model.predict(X)) == pytest.approx(0.5, abs=0.1)
    assert np.mean(y < model.predict_quantiles(X, 0.9)) == pytest.approx(0.9, abs=0.05)


def test_where_no_factor_helps_the_levels_are_mapped():
    X, y = linear_world(300)
    front = UncertaintyRegressor(HeavyTailed(), random_state=0).fit(X, y)
    assert isinstance(front.estimator_.recalibrators_[0].recalibrator_, IsotonicRecalibrator)
    assert 0.87 < prediction_interval_coverage(y, front.fit_transform(X, y)) < 0.93


class SeparatesQuantiles(Ridge):
    """Quantiles that lie too close together, with an epistemic part."""

    def predict_dist(self, X):
        levels, points = [0.1, 0.5, 0.9], self.predict(X)
        return Quantiles(levels, Normal(points, 0.5).quantile(levels), np.full(len(X), 0.2))


def test_quantiles_keep_their_epistemic_part_where_one_factor_recalibrates_them():
    X, y = linear_world(300)
    front = UncertaintyRegressor(SeparatesQuantiles(), random_state=0).fit(X, y)
    recalibrator = front.estimator_.recalibrators_[0].recalibrator_
    assert isinstance(recalibrator, StdScalingRecalibrator)
    expected = recalibrator.transform(front.estimator_.estimators_[0].predict_dist(X)).epistemic().std()
    np.testing.assert_allclose(front.predict_dist(X).epistemic().std(), expected)
    assert (expected > 0.2).all()


class Certain(Ridge):
    """A model whose std is 0 for half of the rows, and wrong."""

    def predict(self, X, return_std=False):
        points = super().predict(X)
        return (points, np.where(np.asarray(X)[:, 0] > 0, 1.0, 0.0)) if return_std else points


def test_certainty_that_is_wrong_raises_and_names_what_helps():
    X, y = linear_world(80)
    with pytest.raises(ValueError, match="method='residual'"):
        UncertaintyRegressor(Certain(), random_state=0).fit(X, y)
    assert np.isfinite(UncertaintyRegressor(Certain(), "residual").fit(X, y).predict_interval(X)).all()


def test_a_finished_model_is_recalibrated_on_rows_that_are_new_to_it():
    X, y = linear_world(200)
    finished = FrozenEstimator(ReportsStd().fit(X[:100], y[:100]))
    front = UncertaintyRegressor(finished).fit(X[100:], y[100:])
    own = StdScalingRecalibrator(objective="coverage")
    own.fit(predict_dist(finished, X[100:]), y[100:])
    assert np.allclose(front.predict_dist(X).std(), 0.5 * own.factor_)


@pytest.mark.parametrize("estimator", [ReportsStd(), BOOSTED], ids=["native", "quantile"])
def test_recalibrated_with_weights_groups_jobs_routing_and_pickle(estimator):
    X, y = linear_world(60)
    weight, groups = np.tile([1.0, 2.0, 3.0], 20), np.repeat(np.arange(12), 5)
    model = UncertaintyRegressor(estimator, cv=GroupKFold(3), random_state=0)
    one = model.fit(X, y, sample_weight=weight, groups=groups).predict_interval(X)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_interval(X), one)
    with parallel_config("threading"):
        parallel = clone(model).set_params(n_jobs=2).fit(X, y, sample_weight=weight, groups=groups)
    assert np.array_equal(parallel.predict_interval(X), one)
    assert not np.array_equal(clone(model).fit(X, y, groups=groups).predict_interval(X), one)
    with config_context(enable_metadata_routing=True):
        child = clone(estimator).set_fit_request(sample_weight=True)
        routed = clone(model).set_params(estimator=child).fit(X, y, sample_weight=weight, groups=groups)
        assert np.array_equal(routed.predict_interval(X), one)


@pytest.mark.laws
@pytest.mark.parametrize("loss", ["RMSEWithUncertainty", "MultiQuantile:alpha=0.05,0.5,0.95"])
def test_catboost_with_a_distribution_of_its_own(loss):
    package = pytest.importorskip("catboost")
    X, y = heteroscedastic_world(500)
    model = package.CatBoostRegressor(
        iterations=120, loss_function=loss, verbose=0, allow_writing_files=False, thread_count=1
    )
    front = UncertaintyRegressor(model, cv=3, random_state=0).fit(X[:250], y[:250])
    assert front.method_ == "recalibrated"
    raw = UncertaintyRegressor(model, "native").fit(X[:250], y[:250])
    covered, too_few = (np.mean(inside(one, X[250:], y[250:])) for one in (front, raw))
    assert too_few < 0.82
    assert 0.84 < covered < 0.96
    assert front.predict(X).shape == front.predict_dist(X).mean().shape
    in_a_pipeline = make_pipeline(
        StandardScaler(), TransformedTargetRegressor(model, transformer=StandardScaler())
    )
    for wrapped in (ResidualRegressor(in_a_pipeline, cv=2), BootstrapRegressor(model, 3)):
        assert np.corrcoef(wrapped.fit(X[:250], y[:250]).predict(X[250:]), y[250:])[0, 1] > 0.5


def inside(model, X, y):
    low, high = model.predict_interval(X).T
    return (y >= low) & (y <= high)


@pytest.mark.laws
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gal/gal_kin8nm", "boosting"),
        ("paper001/airfoil_self_noise", "NGBoost"),
        ("paper001/abalone", "boosting"),
    ],
)
def test_real_data_is_covered_within_the_exact_band(shared_data, name, kind):
    """Intervals of one factor cover as split conformal ones do: Beta(k, n + 1 - k), seen on m rows."""
    data = shared_data(name).select_dtypes("number").sample(1000, random_state=4).to_numpy(float)
    X, y = data[:, :-1], data[:, -1]
    n, m = 300, 700
    if kind == "boosting":
        model = GradientBoostingRegressor(loss="quantile", n_estimators=60, max_depth=5, random_state=0)
    else:
        ngboost = pytest.importorskip("ngboost")
        model = ngboost.NGBRegressor(n_estimators=80, verbose=False, random_state=0)
    front = UncertaintyRegressor(model, cv=3, random_state=0).fit(X[:n], y[:n])
    k = 0.9 * (n + 1)
    low, high = betabinom.ppf([0.005, 0.995], m, k, n + 1 - k)
    covered = inside(front, X[n:], y[n:])
    assert low <= covered.sum() <= high
    if kind == "boosting":
        raw = front.estimator_.estimators_[0]  # before its recalibration
        assert inside(raw, X[n:], y[n:]).sum() < low


@pytest.mark.laws
def test_intervals_of_quantile_models_reach_into_the_tails():
    """Three levels from 10 % on give intervals of up to 99 %."""
    X, y = heteroscedastic_world(1500)
    n, m = 500, 1000
    boosting = GradientBoostingRegressor(loss="quantile", n_estimators=20, max_depth=5, random_state=0)
    levels = {"levels": [0.1, 0.5, 0.9]}
    front = UncertaintyRegressor(boosting, cv=3, method_params=levels, random_state=0).fit(X[:n], y[:n])
    raw = front.estimator_.estimators_[0]
    for coverage in (0.8, 0.95, 0.99):
        k = coverage * (n + 1)
        low, high = betabinom.ppf([0.005, 0.995], m, k, n + 1 - k)
        covered, too_few = (
            np.sum((lower <= y[n:]) & (y[n:] <= upper))
            for lower, upper in (model.predict_interval(X[n:], coverage).T for model in (front, raw))
        )
        assert too_few < low <= covered <= high


def test_bad_methods():
    X, y = linear_world(30)
    with pytest.raises(ValueError, match=r"`method` must be one of 'auto'.*got 'magic'"):
        UncertaintyRegressor(LinearRegression(), "magic").fit(X, y)
    with pytest.raises(NotProbabilisticError, match=r"LinearRegression has none.*method='auto'"):
        UncertaintyRegressor(LinearRegression(), "native").fit(X, y)
    with pytest.raises(ValueError, match="`method_params` must be empty"):
        UncertaintyRegressor(BayesianRidge(), "native", method_params={"levels": [0.1]}).fit(X, y)
    with pytest.raises(
        ValueError, match=r"`method_params` must hold parameters of ResidualRegressor, got 'nonsense'"
    ):
        UncertaintyRegressor(LinearRegression(), method_params={"nonsense": 1}).fit(X, y)
    with pytest.raises(ValueError, match="but LinearRegression has none"):
        UncertaintyRegressor(LinearRegression(), "quantile").fit(X, y)


def test_errors_name_the_arguments():
    X, y = np.arange(40.0)[:, np.newaxis], np.arange(40.0)
    for params, method in (
        ({"shrink": 1}, "auto"),
        ({"estimator": 1}, "conformal"),
        ({"a": 1}, "recalibrated"),
    ):
        model = UncertaintyRegressor(Ridge(), method, method_params=params)
        with pytest.raises(
            ValueError, match=rf"`method_params` must hold .*, got '{next(iter(params))}'. Valid"
        ):
            model.fit(X, y)
    for given, error, message in (
        ((X, y[1:]), ValueError, r"`X` and `y` must have the same number of rows.*\[40, 39\]"),
        ((None, y), TypeError, "`X` must be an array or DataFrame, got None"),
        ((X[:1], y[:1]), ValueError, "UncertaintyRegressor needs at least 2 samples, got 1 sample"),
    ):
        with pytest.raises(error, match=message):
            UncertaintyRegressor(Ridge()).fit(*given)


def test_weights_by_method():
    X, y = linear_world(60)
    weight = np.arange(60) + 1.0
    with pytest.raises(ValueError, match="`fit` of KNeighborsRegressor does not accept"):
        UncertaintyRegressor(KNeighborsRegressor()).fit(X, y, sample_weight=weight)
    pipeline = make_pipeline(StandardScaler(), Ridge())
    weighted = UncertaintyRegressor(pipeline, cv=KFold(3), method_params={"center": "model"})
    weighted.fit(X, y, sample_weight=weight)
    assert np.allclose(weighted.predict(X), pipeline.fit(X, y, ridge__sample_weight=weight).predict(X))


def test_effort_is_that_of_the_method():
    tree = DecisionTreeRegressor()
    for effort, folds, members in (("low", 3, 20), ("standard", 5, 50), ("high", 10, 100)):
        of = {
            method: build(method, UncertaintyRegressor(tree, method, effort=effort))
            for method in ("residual", "bootstrap", "recalibrated", "conformal")
        }
        assert (of["residual"].effort, of["residual"].cv) == (effort, None)
        assert of["bootstrap"].n_estimators == members
        assert of["recalibrated"].cv == folds
        assert of["conformal"].cv is None
        crossed = UncertaintyRegressor(tree, "conformal", effort=effort, method_params={"method": "cv+"})
        assert build("conformal", crossed).cv == folds
        assert build("recalibrated", UncertaintyRegressor(tree, cv=4, effort=effort)).cv == 4
    with pytest.raises(ValueError, match="`effort` must be one of 'low', 'standard', 'high', got 5"):
        UncertaintyRegressor(tree, effort=5).fit(*linear_world(60))
