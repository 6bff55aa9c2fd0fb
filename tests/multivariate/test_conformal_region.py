"""Conformal regions of several targets for any regressor."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import betabinom
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.exceptions import SmallSampleWarning
from skuq.multivariate import ConformalRegionRegressor, MultiOutputUncertaintyRegressor
from skuq.multivariate._regions import BoxRegion, EllipsoidRegion
from skuq.prediction import predict_dist
from skuq.regressors import LeastSquaresRegressor

LINEAR = LeastSquaresRegressor()
JOINT = MultiOutputUncertaintyRegressor(LINEAR, random_state=0)
SETTINGS = [(shape, method) for shape in ("box", "ellipsoid") for method in ("split", "cv+")]


def world(n, rho=0.8, seed=0):
    """Linear means of three targets, and skewed errors with one correlation."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    root = np.linalg.cholesky(rho + (1 - rho) * np.eye(3))
    return X, X @ np.ones((2, 3)) + (rng.gamma(2.0, size=(n, 3)) - 2) @ root.T


def model(estimator=JOINT, shape="box", **params):
    return ConformalRegionRegressor(estimator, shape, **{"random_state": 0, **params})


@pytest.mark.parametrize("shape", ["box", pytest.param("ellipsoid", marks=pytest.mark.laws)])
def test_the_number_of_covered_rows_is_beta_binomial(shape):
    # with 19 calibration rows, 90 % takes rank 18; of m new rows, BetaBinomial(m, 18, 2) are covered
    m, repeats = 20, 200
    counts = []
    fitted = FrozenEstimator(clone(JOINT).fit(*world(40, seed=1)))
    for seed in range(repeats):
        X, y = world(19 + m, seed=100 + seed)
        region = model(fitted, shape).fit(X[:19], y[:19]).predict_region(X[19:])
        counts.append(region.contains(y[19:]).sum())
    expected = betabinom(m, 18, 2)
    assert np.mean(counts) == pytest.approx(expected.mean(), abs=3 * expected.std() / np.sqrt(repeats))
    assert np.std(counts) == pytest.approx(expected.std(), rel=0.25)


@pytest.mark.laws
@pytest.mark.parametrize("shape", ["box", "ellipsoid"])
def test_cross_regions_cover(shape):
    coverages = []
    for seed in range(20):
        X, y = world(140, seed=seed)
        region = model(shape=shape, method="cv+").fit(X[:40], y[:40]).predict_region(X[40:])
        coverages.append(region.contains(y[40:]).mean())
    assert np.mean(coverages) == pytest.approx(0.9, abs=0.04)


def test_nine_rows_are_enough_at_ninety_percent():
    X, y = world(60)
    fitted = FrozenEstimator(clone(JOINT).fit(X, y))
    assert np.isfinite(model(fitted).fit(X[:9], y[:9]).predict_interval(X)).all()
    few = model(fitted).fit(X[:8], y[:8])
    with pytest.warns(SmallSampleWarning, match="at least 9 calibration rows, got 8"):
        assert few.predict_region(X).contains(y).all()


def test_boxes_are_narrower_than_one_interval_per_target():
    X, y = world(1000)
    fitted = model(held_out_size=500).fit(X, y)
    dist = fitted.predict_dist(X[fitted.calibration_rows_])
    scores = np.sort(np.abs(y[fitted.calibration_rows_] - dist.mean()) / dist.std(), axis=0)
    rank = int(np.ceil((1 - 0.1 / 3) * 501))
    new = fitted.predict_dist(X[:1])
    bonferroni = 2 * scores[rank - 1] * new.std()[0]
    width = np.diff(fitted.predict_interval(X[:1])[0], axis=0)[0]
    assert np.prod(width / bonferroni) ** (1 / 3) < 0.97
    X, y = world(600, rho=0.95)  # ellipsoids of correlated errors are smaller than boxes
    box, ellipsoid = (model(shape=shape).fit(X, y).predict_region(X) for shape in ("box", "ellipsoid"))
    assert np.median(ellipsoid.volume()) < 0.5 * np.median(box.volume())


def test_tied_targets_are_covered():
    # rounding must not exclude the many rows whose score is the quantile
    X, y = world(400)
    y = np.round(y, 1) + 0.1
    fitted = FrozenEstimator(clone(JOINT).fit(np.zeros_like(X), y))
    region = model(fitted).fit(np.zeros((400, 2)), y).predict_region(np.zeros((400, 2)))
    assert region.contains(y).mean() >= 0.9


def test_the_split_is_held_out():
    X, y = world(60)
    fitted = model().fit(X, y)
    others = np.setdiff1d(np.arange(60), fitted.calibration_rows_)
    assert np.allclose(fitted.predict(X), clone(JOINT).fit(X[others], y[others]).predict(X))
    assert predict_dist(fitted, X).shape == (60, 3)
    crossed = model(method="cv+", cv=KFold(4)).fit(X, y)
    assert np.allclose(crossed.predict(X), clone(JOINT).fit(X, y).predict(X))
    assert not hasattr(crossed, "calibration_rows_")
    for shape, kind in (("box", BoxRegion), ("ellipsoid", EllipsoidRegion)):
        for method, n in (("split", 15), ("cv+", 60)):
            fitted = model(shape=shape, method=method).fit(X, y)
            region = fitted.predict_region(X, coverage=0.8)
            assert method == "cv+" or isinstance(region, kind)
            assert region.shape == (60, 3)
            assert np.array_equal(fitted.predict_interval(X, 0.8), region.bounds())
            assert fitted.n_calibration_ == n


@pytest.mark.parametrize(
    "estimator", [Ridge(), [LINEAR, Ridge(), LINEAR], make_pipeline(StandardScaler(), JOINT)]
)
def test_regressors_are_wrapped(estimator):
    X, y = world(60)
    region = model(estimator).fit(X, pd.DataFrame(y, columns=list("abc"))).predict_region(X)
    assert region.contains(y).mean() > 0.8


@pytest.fixture(scope="module")
def ngboost():
    return pytest.importorskip("ngboost")


def test_multivariate_ngboost_needs_no_wrapper(ngboost):
    X, y = world(60)
    boosting = ngboost.NGBRegressor(
        Dist=ngboost.distns.MultivariateNormal(3), n_estimators=5, verbose=False, random_state=0
    )
    fitted = model(boosting, "ellipsoid").fit(X, y)
    assert type(fitted.estimator_) is ngboost.NGBRegressor
    assert fitted.predict_region(X).shape == (60, 3)


@pytest.mark.parametrize("method", ["split", "cv+"])
def test_weights_count_repetitions(method):
    X, y = world(60)
    weight = np.random.default_rng(0).integers(1, 3, 60).astype(float)
    fitted = model(method=method).fit(X, y, sample_weight=weight)
    if method == "cv+":
        assert fitted.n_calibration_ == weight.sum()
    else:
        assert fitted.n_calibration_ == weight[fitted.calibration_rows_].sum()
    with pytest.raises(ValueError, match="counts repetitions"):
        model(method=method).fit(X, y, sample_weight=weight / 10)


def test_groups_stay_together():
    X, y = world(60)
    groups = np.arange(60) // 5
    held = model(cv=GroupShuffleSplit(1, random_state=0)).fit(X, y, groups=groups).calibration_rows_
    assert set(groups[held]).isdisjoint(np.delete(groups, held))
    expected = model(method="cv+", cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = model(method="cv+", cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert np.array_equal(routed.predict_interval(X), expected.predict_interval(X))


def test_results_are_reproducible():
    X, y = world(40)
    for method in ("split", "cv+"):
        one, two = (
            model(BayesianRidge(), method=method, cv=None if method == "split" else 2)
            .fit(X, y)
            .predict_interval(X[:5])
            for _ in range(2)
        )
        assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("params", "fit_params", "message"),
    [
        ({"shape": "sphere"}, {}, "`shape` must be one of"),
        ({"method": "jackknife+"}, {}, "`method` must be one of"),
        ({"cv": KFold(3)}, {}, "must give one split"),
        ({"cv": ShuffleSplit(1), "held_out_size": 5}, {}, "`held_out_size` must be 0.25"),
        ({"method": "cv+", "held_out_size": 5}, {}, "`held_out_size` must be 0.25"),
        ({}, {"groups": np.zeros(60)}, "without regard to groups"),
        ({"estimator": [LINEAR]}, {}, "a list of 3"),
        ({"estimator": FrozenEstimator(JOINT), "method": "cv+"}, {}, "must not be frozen"),
    ],
)
def test_bad_parameters(params, fit_params, message):
    X, y = world(60)
    with pytest.raises(ValueError, match=message):
        model(**params).fit(X, y, **fit_params)


def test_bad_targets_models_and_coverages():
    X, y = world(60)
    with pytest.raises(TypeError, match="joint distribution of several targets"):
        model(FrozenEstimator(BayesianRidge().fit(X, y[:, 0]))).fit(X, y)
    fitted = model().fit(X, y)
    for coverage in (0.0, 1.0, [0.5, 0.9]):
        with pytest.raises(ValueError, match="`coverage`"):
            fitted.predict_region(X, coverage)
    y[3, 1] = np.nan
    with pytest.raises(ValueError, match="got NaN in column 1 at row 3"):
        fitted.fit(X, y)
