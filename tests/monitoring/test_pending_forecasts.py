"""Queue of forecasts: horizons, several series, gaps, kinds of rows, and the state on disk."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skuq.distributions import Normal
from skuq.monitoring import CoverageMonitor, PendingForecasts
from skuq.recalibration import OnlineRecalibrator

NAN = np.nan


def test_one_horizon_and_two_series():
    pending = PendingForecasts().add([[1.0], [2.0]], due=[5, 5], series=["a", "b"])
    pending.add([[3.0]], due=[6], series="a")
    assert len(pending) == 3
    rows, y = pending.observe([0.2, 0.1], time=[5, 5], series=["b", "a"])
    assert_array_equal(rows, [[2.0], [1.0]])
    assert_array_equal(y, [0.2, 0.1])
    rows, y = pending.observe(0.3, time=6, series="a")
    assert_array_equal(rows, [[3.0]])
    assert (len(pending), repr(pending)) == (0, "PendingForecasts(0 outstanding)")
    assert not pending._blocks


@pytest.mark.parametrize("n_series", [1, 3])
def test_every_forecast_is_returned_once_with_its_target(n_series):
    """A loop over hours, in which some targets come late, together or never, equals a table of shifts."""
    rng = np.random.default_rng(0)
    n, n_horizons = 40, 4
    truth = rng.normal(size=(n_series, n + n_horizons + 1))
    truth[rng.uniform(size=truth.shape) < 0.1] = NAN
    pending, series = PendingForecasts(), np.arange(n_series)
    targets = np.full((n_series, n, n_horizons), NAN)
    unread = []
    for t in range(n + n_horizons + 1):
        unread.append(t)
        if t % 3 == 0 or t > n:  # two or three hours are observed together
            times = np.repeat(unread, n_series)
            rows, y = pending.observe(truth[:, unread].T.ravel(), times, np.tile(series, len(unread)))
            unread = []
            for row, observed in zip([] if rows is None else rows.astype(int), y, strict=True):
                known = ~np.isnan(observed)
                assert np.isnan(targets[row[0], row[1], known]).all()
                targets[row[0], row[1], known] = observed[known]
        if t < n:
            due = t + np.tile(np.arange(1, n_horizons + 1), (n_series, 1))
            pending.add(np.column_stack([series, np.full(n_series, t)]), due, series)
    wanted = np.stack([truth[:, h : n + h] for h in range(1, n_horizons + 1)], axis=2)
    assert_array_equal(targets, wanted)
    assert len(pending) == 0


@pytest.mark.parametrize("kind", ["array", "frame", "sparse", "distribution"])
def test_kinds_of_rows(kind):
    values = np.arange(8.0).reshape(4, 2)
    block = {
        "array": lambda part: values[part],
        "frame": lambda part: pd.DataFrame(values[part], columns=["x", "z"]),
        "sparse": lambda part: sparse.coo_array(values[part]),
        "distribution": lambda part: Normal(values[part][:, 0], values[part][:, 1]),
    }[kind]
    pending = PendingForecasts()
    for part in (slice(0, 2), slice(2, 4)):
        pending.add(block(part), due=pd.to_datetime(["2026-01-01", "2026-01-02"]))
    pending = pickle.loads(pickle.dumps(pending))
    rows, y = pending.observe([1.0, 2.0], time=pd.to_datetime(["2026-01-02", "2026-01-01"]))
    found = rows.toarray() if kind == "sparse" else np.asarray(rows)
    assert_array_equal(found, values[[1, 3, 0, 2]])
    assert_array_equal(y, [1.0, 1.0, 2.0, 2.0])
    assert type(rows) is not np.ndarray or kind == "array"


def test_distributions_go_to_a_recalibrator_and_to_a_monitor():
    dist = Normal(np.zeros(20), 1.0)
    y = np.random.default_rng(0).normal(size=20)
    recalibrator = OnlineRecalibrator().fit(dist, y)
    late, at_once = PendingForecasts().add(dist, due=np.arange(20)), pickle.loads(pickle.dumps(recalibrator))
    rows, targets = late.observe(y[::-1], time=np.arange(20)[::-1])
    recalibrator.partial_fit(rows, targets)
    at_once.partial_fit(dist, y)
    levels = np.array([0.1, 0.5, 0.8])
    np.testing.assert_allclose(recalibrator.level_map_(levels), at_once.level_map_(levels), rtol=1e-12)
    assert CoverageMonitor().update(targets, rows).n_rows_ == 20


def test_gaps():
    pending = PendingForecasts().add([[1.0], [2.0], [3.0]], due=[[1, 2], [2, 3], [3, 4]])
    assert pending.observe(7.0, time=99)[0] is None  # no forecast was due
    assert pending.observe(7.0, time=99)[1].shape == (0, 2)
    rows, y = pending.observe([NAN, 5.0], time=[2, 3])  # the first target is lost
    assert_array_equal(rows, [[2.0], [3.0]])
    assert_array_equal(y, [[NAN, 5.0], [5.0, NAN]])
    assert len(pending) == 2
    assert len(pending.discard(before=4)) == 1
    assert pending.observe(5.0, time=3)[0] is None
    assert list(pending._blocks) == [0]
    assert len(pending.discard(before=5)) == 0


def test_bad_input_changes_nothing():
    pending, frame, row = (
        PendingForecasts().add([[1.0], [2.0]], due=[1, 2]),
        pd.DataFrame({"x": [1.0]}),
        [[1.0]],
    )
    for rows, due, error, words in (
        (row, [1, 2], ValueError, r"must have shape \(1,\) or \(1, h\), .* got \(2,\)"),
        (row, 1, ValueError, r"got \(\)"),
        (row, [[1, 2]], ValueError, r"must have shape \(n,\), as in the first call, got \(1, 2\)"),
        (row, [NAN], ValueError, "no missing values, got nan at row 0"),
        (1.0, [1], ValueError, "at least one dimension"),
        (frame, [1], TypeError, "same kind in all calls, got DataFrame after ndarray"),
    ):
        with pytest.raises(error, match=words):
            pending.add(rows, due=due)
    with pytest.raises(ValueError, match=r"`series` must be one label or have shape \(1,\), got \(2,\)"):
        pending.add(row, due=[1], series=["a", "b"])
    for y, options, words in (
        (np.inf, {"time": 1}, "finite or NaN, got inf"),
        ([[1.0]], {"time": 1}, "a number or a 1-D array"),
        ([1.0, 2.0], {"time": 1}, r"`time` must have shape \(2,\), one time per target, got \(1,\)"),
        (1.0, {"time": 1, "series": ["a", "b"]}, r"shape \(1,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            pending.observe(y, **options)
    assert len(pending) == 2

    class Frame:
        columns = ("x",)

    with pytest.raises(TypeError, match="to_pandas"):  # a frame of another package
        PendingForecasts().add(Frame(), due=[1])
