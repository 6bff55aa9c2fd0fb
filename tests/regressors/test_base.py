"""Laws that hold for every regressor."""

import pickle

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from skuq.distributions import Distribution, Normal, StudentT
from skuq.prediction import predict_dist, supports_dist
from skuq.recalibration import StdScalingRecalibrator
from skuq.regressors import (
    BaseUncertaintyRegressor,
    BootstrapRegressor,
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from tests.regressors.conftest import REGRESSORS, promises_intervals_of_its_own

LEVELS = [0.05, 0.5, 0.95]


def numbers(dist):
    return dist.quantile(LEVELS)


def test_everything_follows_from_the_distribution(regressor, small, fit_once):
    X, y = small
    model = fit_once(regressor)
    dist = model.predict_dist(X)
    assert isinstance(dist, Distribution)
    assert len(dist) == len(X)
    assert np.array_equal(numbers(model.transform(X)), numbers(dist))
    assert np.array_equal(numbers(predict_dist(model, X)), numbers(dist))
    if not promises_intervals_of_its_own(regressor):
        assert np.array_equal(model.predict_interval(X), dist.interval(0.9))
        assert np.array_equal(model.predict_interval(X, [0.5, 0.8]), dist.interval([0.5, 0.8]))
    assert np.array_equal(model.predict_quantiles(X, LEVELS), numbers(dist))
    point, std = model.predict(X, return_std=True)
    assert point.dtype == np.float64
    assert np.array_equal(point, model.predict(X))
    assert np.array_equal(std, dist.std())
    assert model.score(X, y) > 0.3
    assert is_regressor(model)
    assert supports_dist(regressor)
    assert list(model.get_feature_names_out()) == ["mean", "std"]


def test_fit_transform_is_out_of_sample_and_fits_on_all_rows(regressor, small, fit_once, fit_transform_once):
    X, y = small
    model, out_of_sample = fit_transform_once(regressor)
    assert len(out_of_sample) == len(X)
    plain = fit_once(regressor)
    assert np.array_equal(numbers(model.predict_dist(X)), numbers(plain.predict_dist(X)))
    in_sample = np.mean((y - plain.predict_dist(X).mean()) ** 2)
    assert np.mean((y - out_of_sample.mean()) ** 2) > in_sample


def test_fit_transform_of_a_row_does_not_depend_on_its_target(regressor, small, fit_transform_once):
    X, y = small
    moved = y.copy()
    moved[7] += 3.0
    before = fit_transform_once(regressor)[1][[7]].mean()
    model = clone(regressor)
    after = model.fit_transform(X, moved)[[7]].mean()
    seen = model.predict_dist(X[[7]]).mean()
    # what is common to all rows (a shape, a level of noise, a recalibrator) moves a little with any row
    assert abs(after - before) < 0.25 * abs(seen - before) + 0.02


def test_an_integer_random_state_makes_everything_bit_equal(regressor, small, fit_transform_once):
    """With two threads, if the regressor has `n_jobs`."""
    X, y = small
    (one, out_of_sample), two = fit_transform_once(regressor), clone(regressor)
    if "n_jobs" in regressor.get_params():
        two.set_params(n_jobs=2)
    with parallel_config("threading"):
        assert np.array_equal(numbers(out_of_sample), numbers(two.fit_transform(X, y)))
    assert np.array_equal(numbers(one.predict_dist(X)), numbers(two.predict_dist(X)))


@pytest.mark.laws
@pytest.mark.parametrize("name", ["bootstrap", "uncertainty"])
def test_worker_processes_never_change_a_number(name, small, fit_transform_once):
    X, y = small
    two = clone(REGRESSORS[name]).set_params(n_jobs=2)
    out_of_sample = fit_transform_once(REGRESSORS[name])[1]
    assert np.array_equal(numbers(out_of_sample), numbers(two.fit_transform(X, y)))


def test_the_forecast_of_a_row_does_not_depend_on_other_rows(regressor, small, fit_once):
    X, _ = small
    model = fit_once(regressor)
    some, every = (numbers(model.predict_dist(rows)) for rows in (X[::-3], X))
    assert np.allclose(some, every[::-3], rtol=1e-9, atol=1e-9)


def test_pickle_and_clone(regressor, small, fit_once):
    X, _ = small
    model = fit_once(regressor)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(numbers(copy.predict_dist(X)), numbers(model.predict_dist(X)))
    with pytest.raises(NotFittedError):
        clone(model).predict_dist(X)


def test_the_wrapped_estimator_is_not_modified(regressor, small):
    X, y = small
    if not hasattr(regressor, "estimator"):
        pytest.skip("wraps nothing")
    model = clone(regressor)
    before = model.estimator.get_params()
    model.fit(X, y)
    assert model.estimator.get_params() == before
    with pytest.raises(NotFittedError):
        model.estimator.predict(X)


def test_units(regressor, small, fit_once):
    X, y = small
    factor = 1024  # a power of two, so that no tree breaks a tie the other way by rounding
    model = clone(regressor).fit(X, factor * y)
    expected = factor * numbers(fit_once(regressor).predict_dist(X))
    assert np.allclose(numbers(model.predict_dist(X)), expected, rtol=1e-5, atol=1e-3)


def test_a_constant_target(regressor, small):
    X, y = small
    constant = np.full(len(y), 3.0)
    dist = clone(regressor).fit(X, constant).predict_dist(X)
    assert np.allclose(dist.mean(), 3.0)
    assert np.isfinite(dist.interval()).all()


def test_a_data_frame_keeps_its_names(regressor, small, fit_once):
    X, y = small
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = clone(regressor).fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    expected = numbers(fit_once(regressor).predict_dist(X))
    assert np.allclose(numbers(model.predict_dist(frame)), expected, rtol=1e-10, atol=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        model.predict_dist(frame[["b", "a", "c"]])
    for call in (model.predict_dist, model.predict):  # Wrapped models do not repeat the warning.
        with pytest.warns(UserWarning, match="valid feature names") as caught:
            call(X)
        assert len(caught) == 1


def test_it_sits_in_a_pipeline_before_a_recalibrator(regressor, small):
    """A request for data frames changes no distribution."""
    X, y = small
    pipeline = make_pipeline(StandardScaler(), clone(regressor), StdScalingRecalibrator())
    pipeline.set_output(transform="pandas")
    with config_context(transform_output="pandas"):
        dist = predict_dist(pipeline.fit(X, y), X)
    assert isinstance(dist, Distribution)
    assert pipeline.predict(X).shape == (len(X),)


def wrappers(child):
    return {
        "bootstrap": BootstrapRegressor(child, 10, random_state=0),
        "heteroscedastic": BootstrapRegressor(child, 10, noise="heteroscedastic", random_state=0),
        "residual": ResidualRegressor(child, cv=3, random_state=0),
        "uncertainty": UncertaintyRegressor(child, cv=3, random_state=0),
        "recalibrated": RecalibratedRegressor(
            ResidualRegressor(child, cv=2, effort="low"), cv=2, random_state=0
        ),
        "quantiles": MultiQuantileRegressor(child, [0.1, 0.9]),
    }


@pytest.mark.parametrize("name", wrappers(None))
def test_categories_and_missing_values_reach_the_child(name):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"kind": pd.Categorical(rng.choice(["red", "green", "blue"], 90)), "size": rng.normal(size=90)}
    )
    y = X["size"].to_numpy() + 2 * X["kind"].cat.codes.to_numpy() + 0.3 * rng.normal(size=90)
    X = X.assign(size=X["size"].mask(X["size"] > 1.5))
    child = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype", min_samples_leaf=5)
    model = wrappers(child)[name].fit(X, y)
    assert np.isfinite(model.predict_dist(X).interval()).all()
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9
    assert get_tags(model).input_tags.allow_nan


def test_text_reaches_the_child():
    from sklearn.feature_extraction.text import CountVectorizer

    rng = np.random.default_rng(0)
    count = rng.integers(1, 9, size=60)
    X = np.array(["word " * k + "end" for k in count], dtype=object)
    child = make_pipeline(CountVectorizer(), LinearRegression())
    model = ResidualRegressor(child, cv=3, random_state=0).fit(X, count + rng.normal(size=60))
    assert np.allclose(model.predict(["word word word end"]), 3, atol=0.5)


def test_bad_targets(regressor, small):
    X, y = small
    model = clone(regressor)
    for wrong, error, message in (
        (np.where(np.arange(80) == 3, np.nan, y), ValueError, r"Input y contains NaN.*row 3"),
        (np.where(np.arange(80) == 3, np.inf, y), ValueError, r"infinity.*row 3"),
        (np.column_stack([y, y]), ValueError, "one column, got 2"),
        (["high"] * len(X), TypeError, "real numbers"),
        (y[:-1], ValueError, "inconsistent numbers of samples"),
        (None, ValueError, "requires y"),
    ):
        with pytest.raises(error, match=message):
            model.fit(X, wrong)
    for n, message in ((1, "1 sample"), (0, r"minimum of|at least")):
        with pytest.raises(ValueError, match=message):
            model.fit(X[:n], y[:n])


def test_bad_weights(regressor, small):
    X, y = small
    for weight, message in ((-np.ones(80), "non-negative"), (np.ones(3), "80 rows"), (y * 0, "positive sum")):
        with pytest.raises(ValueError, match=message):
            clone(regressor).fit(X, y, sample_weight=weight)
    with pytest.raises((TypeError, ValueError), match="nonsense"):
        clone(regressor).fit(X, y, nonsense=1)


def test_bad_coverage_and_levels(regressor, small, fit_once):
    X, _ = small
    model = fit_once(regressor)
    with pytest.raises(ValueError, match=r"Did you mean 0\.9"):
        model.predict_interval(X, 90)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        model.predict_quantiles(X, [0.5, 1.5])


class MarginalRegressor(BaseUncertaintyRegressor):
    """Ignores X; its `fit_transform` is the one that the base gives."""

    def __init__(self, cv=5, random_state=None):
        self.cv = cv
        self.random_state = random_state

    def _fit(self, data, progress):
        self.loc_, self.scale_ = data.y.mean(), data.y.std()

    def _predict_dist(self, X):
        return Normal(np.full(len(X), self.loc_), self.scale_)


def test_a_subclass_gets_out_of_sample_folds_and_search(small):
    X, y = small
    folds = [(np.arange(40, 80), np.arange(40)), (np.arange(40), np.arange(40, 80))]
    out_of_sample = MarginalRegressor(folds).fit_transform(X, y)
    assert np.allclose(out_of_sample.mean(), np.repeat([y[40:].mean(), y[:40].mean()], 40))
    search = GridSearchCV(MarginalRegressor(random_state=0), {"cv": [2, 3]}, cv=2, error_score="raise")
    assert search.fit(X, y).predict(X).shape == (80,)
    with pytest.raises(ValueError, match="exactly once"):
        MarginalRegressor(folds[:1]).fit_transform(X, y)
    with pytest.raises(TypeError, match="nonsense"):
        MarginalRegressor().fit(X, y, nonsense=1)


def test_without_a_mean_predict_returns_the_median(small):
    class HeavyTails(MarginalRegressor):
        def _predict_dist(self, X):
            return StudentT(np.full(len(X), self.loc_), self.scale_, 1.0)

    X, y = small
    model = HeavyTails().fit(X, y)
    for point in (model.predict(X), model.predict(X, return_std=True)[0]):
        np.testing.assert_array_equal(point, model.loc_)


def test_score_stays_r2(small):
    X, y = small
    assert cross_val_score(LeastSquaresRegressor(), X, y, cv=3).mean() == pytest.approx(
        cross_val_score(LinearRegression(), X, y, cv=3).mean()
    )
