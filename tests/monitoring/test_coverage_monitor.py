"""Coverage over time: few false alarms however often one looks, changes found soon."""

import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from skuq.distributions import Normal
from skuq.monitoring import CoverageMonitor, PITMonitor


def missing(share, n, rng):
    """Return targets of which this share is outside the intervals from 0 to 1, and the intervals."""
    return np.where(rng.random(n) < share, 2.0, 0.5), np.tile([0.0, 1.0], (n, 1))


def rows_until_alarm(monitor, share, rng, most, block=100):
    before = monitor.n_rows_
    while not monitor.alarm_ and monitor.n_rows_ - before < most:
        monitor.update(*missing(share, block, rng))
    return monitor.n_rows_ - before if monitor.alarm_ else np.inf


@pytest.mark.parametrize("alternative", ["less", "two-sided", "greater"])
def test_the_evidence_is_the_integral_of_likelihood_ratios(alternative):
    rows = missing(0.3, 60, np.random.default_rng(0))
    monitor = CoverageMonitor(0.8, alternative=alternative).update(*rows)
    k, m, p = monitor.n_misses_, 60, 0.2

    def ratio(q):
        return np.exp(k * np.log(q / p) + (m - k) * np.log((1 - q) / (1 - p)))

    less, greater = quad(ratio, p, 1)[0] / (1 - p), quad(ratio, 0, p)[0] / p
    evidence = {"less": less, "greater": greater, "two-sided": (less + greater) / 2}[alternative]
    assert monitor.e_value_ == pytest.approx(evidence / 2 + 1 / 2, rel=1e-8)


def test_false_alarms_are_as_rare_as_stated():
    rng = np.random.default_rng(0)
    alarms = sum(
        np.isfinite(rows_until_alarm(CoverageMonitor(0.9, false_alarm=0.1), 0.1, rng, 2000, block=250))
        for _ in range(100)
    )
    assert alarms <= 10


@pytest.mark.slow
@pytest.mark.parametrize("alternative", ["less", "two-sided", "greater"])
def test_false_alarms_of_400_streams(alternative):
    rng = np.random.default_rng(1)
    monitors = (CoverageMonitor(0.9, false_alarm=0.05, alternative=alternative) for _ in range(400))
    assert sum(np.isfinite(rows_until_alarm(each, 0.1, rng, 10_000, 50)) for each in monitors) <= 20


@pytest.mark.parametrize("calm", [0, 10_000])
def test_a_drop_of_coverage_is_found(calm):
    rng = np.random.default_rng(2)
    found = []
    for _ in range(15):
        monitor = CoverageMonitor(0.9)
        if calm:
            monitor.update(*missing(0.1, calm, rng))
        found.append(rows_until_alarm(monitor, 0.15, rng, 5000))
    assert np.median(found) <= 1500


def test_intervals_that_are_too_wide_alarm_only_the_tests_against_them():
    rng = np.random.default_rng(3)
    found = {
        alternative: rows_until_alarm(CoverageMonitor(alternative=alternative), 0.02, rng, 1500)
        for alternative in ("less", "greater", "two-sided")
    }
    assert found["less"] == np.inf
    assert max(found["greater"], found["two-sided"]) < 1000
    monitor = CoverageMonitor(0.9).update(*missing(1.0, 5000, rng))
    assert (monitor.e_value_, monitor.alarm_) == (np.inf, True)


def test_distributions_give_their_central_intervals():
    y = np.random.default_rng(0).normal(size=300)
    dist = Normal(np.zeros(300), 0.5)
    by_dist, by_bounds = (CoverageMonitor(0.8).update(y, each) for each in (dist, dist.interval(0.8)))
    assert by_dist.e_value_ == by_bounds.e_value_ > 1
    assert repr(CoverageMonitor(0.8)) == "CoverageMonitor(0.8, 0 misses in 0 rows, e_value_=1)"


def test_invalid_arguments_raise():
    for arguments, message in [
        ({"coverage": 90}, "Did you mean 0.9"),
        ({"false_alarm": 0.0}, "`false_alarm` must lie strictly between 0 and 1"),
        ({"alternative": "more"}, "`alternative` must be one of"),
    ]:
        with pytest.raises(ValueError, match=message):
            CoverageMonitor(**arguments)


# ------------------------------------------------------------------------- laws of both monitors

both_monitors = pytest.mark.parametrize("kind", [CoverageMonitor, PITMonitor])


def normal(rng, scale, n=2000):
    return scale * rng.normal(size=n), Normal(np.zeros(n), 1.0)


@both_monitors
def test_neither_blocks_nor_pickles_nor_later_rows_matter(kind):
    rng = np.random.default_rng(4)
    y, dist = normal(rng, 1.15)
    once, by_blocks = kind().update(y, dist), kind()
    for rows in np.split(np.arange(2000), [1, 255, 256, 257, 512, 1500]):
        by_blocks = pickle.loads(pickle.dumps(by_blocks)).update(y[rows], dist[rows])
    assert by_blocks.e_value_ == pytest.approx(once.e_value_, rel=1e-9)
    assert by_blocks.n_rows_ == once.n_rows_ == 2000
    if kind is PITMonitor:
        assert by_blocks.alarm_row_ == once.alarm_row_ < 2000
    else:
        assert by_blocks.n_misses_ == once.n_misses_ == np.sum(np.abs(y) > stats.norm.ppf(0.95))
    # An alarm stays.
    row = getattr(once, "alarm_row_", None)
    assert once.alarm_
    once.update(*normal(rng, 0.1, 300)).update(*normal(rng, 1.0, 5000))
    assert once.alarm_
    assert getattr(once, "alarm_row_", None) == row


@both_monitors
def test_bad_blocks_and_blocks_without_rows_change_nothing(kind):
    monitor, none = kind().update(*normal(np.random.default_rng(0), 1.0, 5)), np.empty(0)
    before = repr(monitor)
    empty = [(none, none), ([], 1.0), stats.norm(none, 1.0), stats.norm(loc=[])]
    bad = [([np.nan], ([0.0], [1.0])), ([1.0, 2.0], ([0.0], [1.0])), ([1.0], 3.0), ([], None), (None, [])]
    if kind is CoverageMonitor:
        empty += [np.empty((0, 2)), []]
        bad += [([], np.empty((0, 3))), ([], [[0.0, 1.0]]), ([1.0], np.empty((0, 2)))]
    for y_pred in empty:
        for y in ([], none):
            assert monitor.update(y, y_pred) is monitor
    for y, y_pred in bad:
        with pytest.raises((ValueError, TypeError), match=r"`y_pred` must|`y_true` must"):
            monitor.update(y, y_pred)
    assert repr(monitor) == before
