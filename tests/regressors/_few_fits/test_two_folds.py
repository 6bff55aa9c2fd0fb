"""Quantile models take at most twelve fits by default, and are calibrated all the same."""

import numpy as np
import pytest
from scipy.stats import betabinom
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.recalibration import IsotonicRecalibrator, QuantileShiftRecalibrator
from skuq.regressors import MultiQuantileRegressor, UncertaintyRegressor
from skuq.regressors._few_fits.two_folds import TwoFoldsRegressor
from skuq.regressors._multi_quantile import DEFAULT_LEVELS
from tests.few_rows import few_rows
from tests.regressors.worlds import heteroscedastic_world, linear_world

FITTED = []
"""Level, and training targets, of each fit since the list was emptied."""


@pytest.fixture(autouse=True)
def no_fits():
    FITTED.clear()


class Counted(QuantileRegressor):
    """The quantile of the training targets; each fit is recorded."""

    def fit(self, X, y):
        FITTED.append((self.quantile, np.asarray(y)))
        self.n_features_in_ = X.shape[1]
        self.coef_, self.intercept_ = np.zeros(X.shape[1]), np.quantile(y, self.quantile)
        return self


class CountedBoosting(HistGradientBoostingRegressor):
    def fit(self, X, y):
        FITTED.append((self.quantile, np.asarray(y)))
        return super().fit(X, y)


class OwnQuantiles(RegressorMixin, BaseEstimator):
    """A model whose parameter of the level only the user knows."""

    def __init__(self, tau=0.5):
        self.tau = tau

    def fit(self, X, y):
        FITTED.append((self.tau, np.asarray(y)))
        self.value_ = np.quantile(y, self.tau)
        return self

    def predict(self, X):
        return np.full(len(X), self.value_)


def fits(model, n=120, **params):
    X, y = linear_world(n)
    FITTED.clear()
    model.fit(X, y, **params)
    return len(FITTED)


@few_rows
@pytest.mark.parametrize("n", [5, 40, 99, 100, 120, 401])
@pytest.mark.parametrize("effort", ["low", "standard"])
def test_at_most_twelve_fits(n, effort):
    for estimator in (
        Counted(),
        make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), Counted())),
        CountedBoosting(loss="quantile", quantile=0.3, max_iter=2),
    ):
        assert fits(UncertaintyRegressor(estimator, effort=effort, random_state=0), n) == 12
    own = UncertaintyRegressor(
        OwnQuantiles(), "recalibrated", effort=effort, method_params={"quantile_param": "tau"}
    )
    assert fits(own, n) == 12
    isotonic = {"recalibrator": IsotonicRecalibrator()}
    assert fits(UncertaintyRegressor(Counted(), effort=effort, method_params=isotonic), n) == 12


@pytest.mark.parametrize(
    ("options", "n_fits"),
    [
        ({"effort": "high"}, 11 * 6),
        ({"effort": "high", "cv": 2}, 11 * 3),
        ({"cv": 3}, 4 * 4),
        ({"cv": KFold(5)}, 4 * 6),
        ({"method_params": {"levels": [0.1, 0.5, 0.9]}}, 3 * 3),
        ({"method_params": {"levels": DEFAULT_LEVELS}, "effort": "low"}, 11 * 3),
        ({"method_params": {"levels": [0.1, 0.9]}, "effort": "high"}, 2 * 6),
        ({"method_params": {"levels": [0.1, 0.9]}, "cv": 4}, 2 * 5),
        ({"method_params": {"ensemble": True}}, 8),
        ({"method": "quantile"}, 11),
    ],
    ids=str,
)
def test_options_keep_their_meaning(options, n_fits):
    assert fits(UncertaintyRegressor(Counted(), random_state=0, **options)) == n_fits
    levels = options.get("method_params", {}).get("levels")
    if levels is not None:
        assert {level for level, _ in FITTED} == set(levels)


def test_chosen_levels_are_shifted_one_by_one():
    X, y = linear_world(120)
    levels = [0.1, 0.3, 0.9]
    front = UncertaintyRegressor(Counted(), method_params={"levels": levels}, random_state=0).fit(X, y)
    (recalibrator,) = front.estimator_.recalibrators_
    assert isinstance(recalibrator.recalibrator_, QuantileShiftRecalibrator)
    assert set(levels) <= set(recalibrator.recalibrator_.levels_)


@pytest.mark.parametrize("effort", ["low", "standard"])
def test_one_fit_for_all_levels_keeps_eleven(effort):
    package = pytest.importorskip("catboost")
    X, y = heteroscedastic_world(60)
    model = package.CatBoostRegressor(
        iterations=3,
        loss_function="Quantile:alpha=0.5",
        verbose=False,
        thread_count=1,
        allow_writing_files=False,
    )
    front = UncertaintyRegressor(model, effort=effort, random_state=0).fit(X, y)
    (inner,) = front.estimator_.estimators_
    assert len(inner.estimators_) == 1
    assert tuple(inner.levels_) == DEFAULT_LEVELS
    assert not isinstance(front.estimator_, TwoFoldsRegressor)


@pytest.mark.parametrize(("n", "share"), [(60, 0.5), (100, 0.25), (240, 0.25)])
def test_two_folds_are_disjoint_and_calibrate(n, share):
    X, _ = linear_world(n)
    y = np.arange(n) / 1.0  # a target names its row
    model = TwoFoldsRegressor(MultiQuantileRegressor(Counted(), [0.1, 0.9]), random_state=3)
    model.fit(X, y)
    trained = [set(rows) for level, rows in FITTED if level == 0.1]
    assert [len(rows) for rows in trained] == [round((1 - share) * n), round((1 - share) * n), n]
    left_out = [set(y) - rows for rows in trained[:2]]
    assert not left_out[0] & left_out[1]


@pytest.mark.parametrize("n", [60, 120])
def test_fit_transform_fits_the_same_model_and_leaves_each_row_out(n):
    X, _ = linear_world(n)
    y = np.arange(n) + 0.5
    front = UncertaintyRegressor(Counted(), random_state=1)
    out_of_sample = front.fit_transform(X, y)
    assert len(FITTED) == (12 if n < 100 else 20)
    trained = [set(rows) for level, rows in FITTED if level == 0.05 and len(rows) < n]
    assert sorted(row for rows in trained for row in set(y) - rows) == list(y)
    assert len(out_of_sample) == n
    plain = clone(front).fit(X, y)
    assert np.array_equal(front.predict_interval(X), plain.predict_interval(X))


def test_groups_need_a_splitter():
    X, y = linear_world(60)
    groups = np.repeat(np.arange(12), 5)
    with pytest.raises(ValueError, match="groups"):
        UncertaintyRegressor(Counted()).fit(X, y, groups=groups)
    assert fits(UncertaintyRegressor(Counted(), cv=GroupKFold(2)), 60, groups=groups) == 12


def test_heteroscedastic_noise_is_covered():
    n, m = 600, 2000
    k = n // 2  # rows of the two folds
    boosting = GradientBoostingRegressor(loss="quantile", n_estimators=60, max_depth=2, random_state=0)
    X, y = heteroscedastic_world(n + m, seed=4)
    model = UncertaintyRegressor(boosting, random_state=0).fit(X[:n], y[:n])
    raw = MultiQuantileRegressor(boosting).fit(X[:n], y[:n])
    for coverage in (0.5, 0.8, 0.9, 0.95):
        rank = coverage * (k + 1)
        low, high = betabinom.ppf([0.005, 0.995], m, rank, k + 1 - rank)
        lower, upper = model.predict_interval(X[n:], coverage).T
        assert low <= np.sum((lower <= y[n:]) & (y[n:] <= upper)) <= high
    dist = model.predict_dist(X[n:])
    assert dist.crps(y[n:]).mean() < raw.predict_dist(X[n:]).crps(y[n:]).mean()
    noisy = np.abs(X[n:, 0]) > 1.5
    assert dist.std()[noisy].mean() > 1.25 * dist.std()[np.abs(X[n:, 0]) < 0.5].mean()
