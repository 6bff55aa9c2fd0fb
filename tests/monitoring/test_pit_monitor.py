"""The PIT over time: rare false alarms at every row, and wrong distributions found soon."""

import pickle

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import Empirical, Normal
from skuq.monitoring import PITMonitor

BETS = [(a, b) for a in (0.5, 0.7, 0.85, 1, 1.2, 1.5, 2) for b in (0.5, 0.7, 0.85, 1, 1.2, 1.5, 2)]


def update(monitor, y):
    """Add targets with standard normal forecasts."""
    return monitor.update(y, Normal(np.zeros(len(y)), 1.0))


def monitored(y, **options):
    return update(PITMonitor(**options), y)


def median_alarm(change, rng, calm=0, streams=300):
    """Return the median number of rows from a change of the errors until the alarm."""
    rows = []
    for _ in range(streams):
        y = np.concatenate([rng.normal(size=calm), change(rng.normal(size=4000))])
        found = monitored(y).alarm_row_
        rows.append(np.inf if found is None else found - calm)
    return np.median(rows)


def evidence(u):
    """Return the e-value by the formula of the docstring, with one product per bet and start."""
    starts = range(0, len(u), 256)
    stake = np.log(3) / np.log(np.arange(len(starts) + 1) + 3)
    products = [
        (stake[j] - stake[j + 1]) * np.mean([np.prod(stats.beta.pdf(u[s:], a, b)) for a, b in BETS])
        for j, s in enumerate(starts)
    ]
    return sum(products) + stake[-1]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 700])
def test_the_evidence_is_the_mean_of_products_of_densities(n):
    y = np.random.default_rng(0).normal(scale=1.1, size=n)
    assert monitored(y).e_value_ == pytest.approx(evidence(stats.norm.cdf(y)), rel=1e-9)


def test_false_alarms_are_as_rare_as_stated():
    rng = np.random.default_rng(0)
    assert sum(monitored(rng.normal(size=4000)).alarm_ for _ in range(200)) <= 2
    assert sum(monitored(rng.normal(size=2000), false_alarm=0.1).alarm_ for _ in range(200)) <= 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_false_alarms_of_1000_streams(seed):
    rng = np.random.default_rng(seed)
    assert sum(monitored(rng.normal(size=4000)).alarm_ for _ in range(1000)) <= 10


CHANGES = {
    "too narrow": (lambda e: 1.2 * e, 250),
    "too wide": (lambda e: 0.8 * e, 220),
    "biased": (lambda e: e + 0.3, 220),
}


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_distributions_are_found(name):
    change, most = CHANGES[name]
    assert median_alarm(change, np.random.default_rng(1)) <= most
    assert median_alarm(change, np.random.default_rng(2), calm=10_000, streams=15) <= 600


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_the_medians_of_1000_streams(name):
    change, most = CHANGES[name]
    assert median_alarm(change, np.random.default_rng(3), streams=1000) <= most


def test_the_alarm_is_the_first_row_with_enough_evidence():
    y = np.random.default_rng(5).normal(scale=1.4, size=300)
    row = monitored(y).alarm_row_
    assert monitored(y[:row]).e_value_ >= 100 > monitored(y[: row - 1]).e_value_
    assert not monitored(y[: row - 1]).alarm_


def test_the_state_does_not_grow():
    y = np.random.default_rng(7).normal(size=50_000)
    assert len(pickle.dumps(monitored(y, random_state=0))) == len(
        pickle.dumps(monitored(y[:500], random_state=0))
    )


@pytest.mark.parametrize("y", [40.0, -40.0, 1e6, -1e300])
def test_targets_far_out_keep_the_evidence_of_the_logarithms(y):
    # For one row far out, log(u) is -y^2 / 2 up to smaller terms, and the best bet has a - 1 = -1/2.
    monitor = monitored([y])
    assert monitor.alarm_row_ == 1
    if abs(y) == 40:
        log_tail = stats.norm.logcdf(-40.0)
        densities = [-(1 - a) * log_tail - np.log(stats.beta(a, b).pdf(0.5)) for a, b in BETS if a < 1]
        assert np.log(monitor.e_value_) == pytest.approx(max(densities), rel=0.02)
    else:
        assert monitor.e_value_ == np.inf


def test_targets_outside_the_support_are_infinite_evidence():
    for rows in ([-1.0], [2.0], [-1.0, 2.0], [2.0, 0.5, -1.0]):
        forecast = stats.uniform(np.zeros(len(rows)), 1.0)
        monitor = PITMonitor().update(rows, forecast)
        assert monitor.e_value_ == np.inf
        assert monitor.alarm_row_ == 1
        later = np.random.default_rng(0).uniform(size=3000)
        assert monitor.update(later, stats.uniform(np.zeros(3000), 1.0)).e_value_ == np.inf


@pytest.mark.parametrize("mean", [0.5, 3.0])
def test_counts_are_randomized(mean):
    rng = np.random.default_rng(8)

    def alarms(true):
        streams = (rng.poisson(true, size=1500) for _ in range(15))
        forecast = stats.poisson(np.full(1500, mean))
        return sum(PITMonitor(random_state=0).update(y, forecast).alarm_ for y in streams)

    assert alarms(mean) <= 1
    assert alarms(1.5 * mean) == 15


def test_a_point_mass_gives_no_evidence():
    # The PIT of a target at a point mass is uniform on [0, 1].
    monitor = PITMonitor(random_state=0).update(np.zeros(2000), Empirical(np.zeros((2000, 3))))
    assert not monitor.alarm_


def test_random_numbers_do_not_depend_on_blocks_or_pickles():
    y = np.random.default_rng(9).poisson(1.0, size=800)

    def forecast(n):
        return stats.poisson(np.full(n, 1.0))

    once = PITMonitor(random_state=3).update(y, forecast(800))
    twice = PITMonitor(random_state=3).update(y[:300], forecast(300))
    loaded = pickle.loads(pickle.dumps(twice))
    for monitor in (twice, loaded):
        assert monitor.update(y[300:], forecast(500)).e_value_ == pytest.approx(once.e_value_, rel=1e-9)
    assert once.e_value_ != PITMonitor(random_state=4).update(y, forecast(800)).e_value_


def test_invalid_arguments_raise():
    assert repr(PITMonitor()) == "PITMonitor(0 rows, e_value_=1)"
    with pytest.raises(ValueError, match="`false_alarm` must lie strictly between 0 and 1"):
        PITMonitor(false_alarm=0.0)
    with pytest.raises(ValueError, match="`random_state` must be"):
        PITMonitor(random_state=np.random.default_rng(0))
    with pytest.raises(TypeError, match="`y_pred` must"):
        PITMonitor().update([1.0], [[0.0, 1.0]])
