"""The conversion of targets, the Kaplan-Meier curve and the weights, beside scikit-survival and lifelines."""

import numpy as np
import pandas as pd
import pytest

from skuq._censoring import Bounds, interval_masses, read_bounds, read_event
from skuq.survival import censoring_weights, from_survival, kaplan_meier_curve

Y = np.array([4.0, 1.0, 3.0, 2.0, 3.0, 1.0])
EVENT = np.array([True, False, True, True, False, True])


@pytest.fixture(scope="module")
def gbsg2():
    data = pytest.importorskip("sksurv.datasets")
    return data.load_gbsg2()[1]


def test_kaplan_meier_is_that_of_scikit_survival(gbsg2):
    peer = pytest.importorskip("sksurv.nonparametric")
    y, event = from_survival(gbsg2)
    curve = kaplan_meier_curve(y, event)
    times, survival, (low, high) = peer.kaplan_meier_estimator(event, y, conf_type="log-log")
    np.testing.assert_array_equal(curve.times, times)
    np.testing.assert_allclose(curve.survival, survival, rtol=1e-14)
    np.testing.assert_allclose(np.stack([curve.low, curve.high]), np.stack([low, high]), rtol=1e-12)
    _, reverse = peer.kaplan_meier_estimator(event, y, reverse=True)
    np.testing.assert_allclose(kaplan_meier_curve(y, event, reverse=True).survival, reverse, rtol=1e-14)


def test_kaplan_meier_is_that_of_lifelines_with_weights_and_ties():
    lifelines = pytest.importorskip("lifelines")
    rng = np.random.default_rng(0)
    y, event = rng.integers(1, 15, size=60).astype(float), rng.random(60) < 0.6
    weight = rng.integers(1, 4, size=60).astype(float)
    peer = lifelines.KaplanMeierFitter().fit(y, event, weights=weight)
    curve = kaplan_meier_curve(y, event, sample_weight=weight)
    np.testing.assert_allclose(curve.survival, peer.survival_function_at_times(curve.times), rtol=1e-12)
    repeated = kaplan_meier_curve(np.repeat(y, weight.astype(int)), np.repeat(event, weight.astype(int)))
    np.testing.assert_allclose(curve.survival, repeated.survival, rtol=1e-12)
    np.testing.assert_allclose(curve.low, repeated.low, rtol=1e-12)


def test_without_censoring_the_curve_is_the_empirical_one():
    curve = kaplan_meier_curve(Y)
    np.testing.assert_allclose(curve([0.5, 1.0, 3.0, 4.0]), [1, 4 / 6, 1 / 6, 0])
    np.testing.assert_array_equal(kaplan_meier_curve(Y, np.ones(6, dtype=bool)).low, curve.low)


def test_events_come_before_censorings_at_the_same_time():
    # At y = 1, the event leaves first: 5 rows are at risk of the censoring.
    censoring = kaplan_meier_curve(Y, EVENT, reverse=True)
    np.testing.assert_allclose(censoring([0.5, 1.0, 3.0]), [1, 4 / 5, 4 / 5 * 1 / 2])


def test_weights_are_the_jumps_of_the_curve():
    weight = censoring_weights(Y, EVENT)
    curve = kaplan_meier_curve(Y, EVENT)
    jumps = curve(curve.times - 0.5) - curve(curve.times)
    total = [weight[curve_time == Y].sum() for curve_time in curve.times]
    np.testing.assert_allclose(total, 6 * jumps, atol=1e-14)
    assert (weight[~EVENT] == 0).all()
    np.testing.assert_allclose(weight.sum(), 6)  # the largest y is observed
    np.testing.assert_array_equal(censoring_weights(Y), np.ones(6))
    np.testing.assert_array_equal(censoring_weights(Y, sample_weight=2 * np.ones(6)), 2 * np.ones(6))
    for event in ([True, False, True], [True, False, False]):
        weight = censoring_weights([1.0, 2.0, 3.0], event, sample_weight=[1, 1, 0])
        np.testing.assert_array_equal(weight, [1, 0, 0])


def test_masses_of_intervals_are_those_of_lifelines():
    lifelines = pytest.importorskip("lifelines")
    rng = np.random.default_rng(1)
    lower = rng.uniform(0, 10, size=40)
    upper = lower + rng.uniform(0.5, 5, size=40)
    cells, masses_of = interval_masses(Bounds(lower, upper))
    masses = masses_of(np.ones(lower.size))
    points = (cells.lower + cells.upper) / 2
    peer = lifelines.KaplanMeierFitter().fit_interval_censoring(lower, upper, tol=1e-9)
    at = np.array([2.0, 4.0, 6.0, 8.0, 10.0])
    ours = [masses[points > t].sum() / 40 for t in at]
    low, high = (
        peer.survival_function_[name].to_numpy() for name in ("NPMLE_estimate_lower", "NPMLE_estimate_upper")
    )
    place = np.searchsorted(peer.survival_function_.index.to_numpy(), at, side="right") - 1
    # Inside an interval of the estimate, any curve between both bounds is a maximum of the likelihood.
    assert (ours >= np.minimum(low, high)[place] - 0.02).all()
    assert (ours <= np.maximum(low, high)[place] + 0.02).all()


def test_right_censoring_as_bounds_gives_the_kaplan_meier_masses():
    rng = np.random.default_rng(2)
    y, event = rng.exponential(size=30), rng.random(30) < 0.6
    cells, masses_of = interval_masses(Bounds(y, np.where(event, y, np.inf)))
    np.testing.assert_array_equal(cells.lower, np.sort(y[event]))
    order = np.argsort(y[event])
    np.testing.assert_allclose(
        masses_of(np.ones(y.size)), censoring_weights(y, event)[event][order], atol=1e-3
    )


def test_structured_targets_are_converted(gbsg2):
    y, event = from_survival(gbsg2)
    assert y.dtype == np.float64
    assert event.dtype == bool
    assert (y.shape, event.sum()) == ((686,), 299)
    swapped = np.array([(2, True)], dtype=[("time", int), ("died", bool)])
    assert from_survival(swapped).y == [2.0]
    with pytest.raises(TypeError, match=r"`y` must hold real numbers.*skuq.survival.from_survival"):
        kaplan_meier_curve(gbsg2)


def test_bad_targets():
    for y in (np.ones(3), np.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)]), None):
        with pytest.raises(TypeError, match="one boolean field"):
            from_survival(y)
    with pytest.raises(ValueError, match="non-negative times, got -2 at row 1"):
        from_survival(np.array([(True, 1.0), (False, -2.0)], dtype=[("e", bool), ("t", float)]))
    with pytest.raises(ValueError, match="`y` must be finite, got nan at row 0"):
        kaplan_meier_curve([np.nan, 1.0])
    with pytest.raises(ValueError, match="`t` must not contain NaN"):
        kaplan_meier_curve(Y)(np.nan)


def test_bad_events_and_bounds(subtests):
    assert read_event(pd.Series(EVENT, dtype=object), 6).dtype == bool
    assert read_event(pd.Series([True] * 6), 6) is None
    for event, error, message in (
        (np.zeros(6, dtype=bool), ValueError, "all 6 targets are censored"),
        (np.ones(6, dtype=int), TypeError, "`event` must be boolean.*int64.*`event == 1`"),
        ([True, None, True, True, True, True], TypeError, "`event` must be boolean"),
        (np.full(6, np.nan), TypeError, "`event` must be boolean"),
        (np.ones(5, dtype=bool), ValueError, "`event` must have 6 rows"),
    ):
        for function in (kaplan_meier_curve, censoring_weights):
            with subtests.test(message, function=function.__name__), pytest.raises(error, match=message):
                function(Y, event)
    for bounds, message in (
        ({"event": EVENT, "upper": Y}, "`event` cannot be passed together"),
        ({"lower": Y, "upper": Y - 1}, "`lower` must not be above `upper`"),
        ({"lower": Y + 1, "upper": Y + 2}, "`y` must lie between.*at row 0"),
        ({"upper": np.where(Y > 3, np.nan, Y)}, "`upper` must not contain NaN"),
    ):
        with subtests.test(message), pytest.raises(ValueError, match=message):
            read_bounds(Y, **bounds)
