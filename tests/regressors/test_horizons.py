"""Horizons as targets: one calibration per horizon, with targets that arrive late."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import TimeSeriesSplit
from sklearn.multioutput import MultiOutputRegressor

from skuq.monitoring import PendingForecasts
from skuq.recalibration import OnlineRecalibrator
from skuq.regressors import (
    ConformalRegressor,
    LeastSquaresRegressor,
    MultiOutputUncertaintyRegressor,
    RecalibratedRegressor,
)

N_SERIES, N_HORIZONS, N_FIT, N_NEW = 8, 12, 500, 250


@pytest.fixture(scope="module")
def series():
    """Autoregressive series of order 2 with noise of Student's t distribution, shape (8, n)."""
    noise = np.random.default_rng(0).standard_t(5, size=(N_SERIES, N_FIT + N_NEW))
    y = np.zeros_like(noise)
    for t in range(2, y.shape[1]):
        y[:, t] = 0.6 * y[:, t - 1] + 0.2 * y[:, t - 2] + noise[:, t]
    return y


def lags(series, t):
    return series[:, t - 2 : t + 1]


@pytest.fixture(scope="module")
def training(series):
    """Lags and the next 12 values, in the order of time."""
    times = range(2, N_FIT - N_HORIZONS)
    X = np.concatenate([lags(series, t) for t in times])
    return X, np.concatenate([series[:, t + 1 : t + 1 + N_HORIZONS] for t in times])


def stream(model, series, n_horizons=N_HORIZONS, every=1):
    """Yield the current rows and their next values, after the late targets are passed to ``partial_fit``."""
    pending, names = PendingForecasts(), np.arange(N_SERIES)
    for t in range(N_FIT, N_FIT + N_NEW - n_horizons):
        rows, y = pending.observe(series[:, t], np.full(N_SERIES, t), names)
        if rows is not None:
            model.partial_fit(rows, y)
        X = lags(series, t)
        pending.add(X, t + np.tile(np.arange(1, n_horizons + 1), (N_SERIES, 1)), names)
        if t % every == 0:
            yield X, series[:, t + 1 : t + 1 + n_horizons]
    assert len(pending) == N_SERIES * n_horizons * (n_horizons + 1) / 2


def test_one_calibration_per_horizon(series, training):
    """The coverage is .88 to .92 at each of 12 horizons; with one calibration for all, .84 to .99."""
    conformal = ConformalRegressor(LinearRegression(), cv="last", adapt="dtaci")
    model = MultiOutputUncertaintyRegressor(conformal, random_state=0).fit(*training)
    model = pickle.loads(pickle.dumps(model))
    points = MultiOutputRegressor(LinearRegression()).fit(*training)
    pooled = np.quantile(np.abs(training[1] - points.predict(training[0])), 0.9)
    inside, together = [], []
    for X, y in stream(model, series):
        bounds = model.predict_interval(X)
        inside.append((bounds[..., 0] <= y) & (y <= bounds[..., 1]))
        together.append(np.abs(y - points.predict(X)) <= pooled)
    coverage = np.mean(inside, axis=(0, 1))
    assert coverage.min() >= 0.88
    assert coverage.max() <= 0.92
    assert np.ptp(np.mean(together, axis=(0, 1))) > 0.1


def test_the_distribution_of_a_path_and_its_sum(series, training):
    """Marginals adapt, and the ranks of the calibration rows join them to a path."""
    recalibrated = RecalibratedRegressor(
        LeastSquaresRegressor(), OnlineRecalibrator(window=1000), cv=TimeSeriesSplit(3)
    )
    model = MultiOutputUncertaintyRegressor(recalibrated, random_state=0)
    model.fit(training[0], training[1][:, :4])
    inside, of_sum, independent = [], [], []
    for X, y in stream(model, series, n_horizons=4, every=6):
        joint = model.predict_dist(X)
        bounds = joint.interval(0.9)
        inside.append((bounds[..., 0] <= y) & (y <= bounds[..., 1]))
        lower, upper = joint.linear(np.ones(4)).interval(0.9).T
        of_sum.append((lower <= y.sum(axis=1)) & (y.sum(axis=1) <= upper))
        half = 1.645 * np.sqrt((joint.std() ** 2).sum(axis=1))
        independent.append(np.abs(y.sum(axis=1) - joint.mean().sum(axis=1)) <= half)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.02)
    assert np.mean(of_sum) == pytest.approx(0.9, abs=0.05)
    assert np.mean(independent) < 0.75


def test_each_target_gets_its_own_rows(training):
    X, y = (part[:120] for part in training)
    y = y[:, :3]
    estimators = [FrozenEstimator(LinearRegression().fit(X, column)) for column in y.T]
    model = MultiOutputUncertaintyRegressor([ConformalRegressor(one) for one in estimators]).fit(X, y)
    late = y[:10].copy()
    late[::2, 0] = late[:, 1] = np.nan
    weight = np.arange(10) % 2 + 1.0
    model.partial_fit(X[:10], late, sample_weight=weight)
    wanted = [ConformalRegressor(one).fit(X, column) for one, column in zip(estimators, y.T, strict=True)]
    wanted[0].partial_fit(X[1:10:2], y[1:10:2, 0], sample_weight=weight[1::2])
    wanted[2].partial_fit(X[:10], y[:10, 2], sample_weight=weight)
    expected = np.stack([one.predict_interval(X, 0.8) for one in wanted], axis=1)
    assert_array_equal(model.predict_interval(X, 0.8), expected)


def test_bad_rows_and_regressors_without_partial_fit(training):
    X, y = (part[:120] for part in training)
    frame = pd.DataFrame(y[:, :2], columns=["one", "two"])
    plain = MultiOutputUncertaintyRegressor(LinearRegression(), random_state=0)
    assert not hasattr(plain, "partial_fit")
    model = MultiOutputUncertaintyRegressor(ConformalRegressor(LinearRegression(), cv="last")).fit(X, frame)
    before = model.predict_interval(X)
    infinite = frame.copy()
    infinite.iloc[3, 1] = np.inf
    for rows, targets, words in (
        (X, y[:, :3], "must have 2 columns"),
        (X, frame[["two", "one"]], r"must have the columns \['one', 'two'\], got \['two', 'one'\]"),
        (X, infinite, "column 'two' at row 3"),
        (X[:9], frame, "inconsistent"),
        (X[:, :2], frame, "2 features"),
        (X, frame["one"], r"shape \(n, d\)"),
    ):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(rows, targets)
    model.partial_fit(X, frame * np.nan)  # no target is known yet
    assert_array_equal(model.predict_interval(X), before)
