"""Monitors over time: few false alarms however often one looks, and changes found soon."""

import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skuq.conformal import ConformalRegressor
from skuq.distributions import Empirical, Normal
from skuq.monitoring import CoverageMonitor, ExchangeabilityMonitor, PITMonitor


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


@pytest.mark.parametrize(("calm", "most"), [(0, 700), (10_000, 1500)])
def test_a_drop_of_coverage_is_found(calm, most):
    rng = np.random.default_rng(2)
    found = []
    for _ in range(15):
        monitor = CoverageMonitor(0.9)
        if calm:
            monitor.update(*missing(0.1, calm, rng))
        found.append(rows_until_alarm(monitor, 0.15, rng, 5000))
    assert np.median(found) <= most


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
    empty, one = [none, [], stats.norm(none, 1.0), stats.norm(loc=[])], Normal([0.0], [1.0])
    bad = [([np.nan], one), ([1.0, 2.0], one), ([1.0], 3.0), ([], None), (None, []), ([], (none, none))]
    if kind is CoverageMonitor:
        empty += [np.empty((0, 2))]
        bad += [([], np.empty((0, 3))), ([], [[0.0, 1.0]]), ([1.0], np.empty((0, 2)))]
    for y_pred in empty:
        for y in ([], none):
            assert monitor.update(y, y_pred) is monitor
    for y, y_pred in bad:
        with pytest.raises((ValueError, TypeError), match=r"`y_pred` must|`y_true` must"):
            monitor.update(y, y_pred)
    assert repr(monitor) == before


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


def test_false_alarms_of_the_pit_are_as_rare_as_stated():
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


@pytest.mark.parametrize("y", [40.0, -40.0, 1e6, -1e100])
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


def test_invalid_arguments_of_the_pit_monitor_raise():
    assert repr(PITMonitor()) == "PITMonitor(0 rows, e_value_=1)"
    with pytest.raises(ValueError, match="`false_alarm` must lie strictly between 0 and 1"):
        PITMonitor(false_alarm=0.0)
    with pytest.raises(ValueError, match="`random_state` must be"):
        PITMonitor(random_state=np.random.default_rng(0))
    with pytest.raises(TypeError, match="`y_pred` must"):
        PITMonitor().update([1.0], [[0.0, 1.0]])


def fitted(n=200, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    y = X[:, 0] + rng.normal(size=n)
    model = FrozenEstimator(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]))
    return ConformalRegressor(model, **options).fit(X, y), rng


def stream(rng, n, scale=1.0):
    X = rng.normal(size=(n, 1))
    return X, X[:, 0] + scale * rng.normal(size=n)


def test_p_values_are_randomized_ranks_among_all_earlier_rows():
    model, rng = fitted(20)
    X, y = stream(rng, 15)
    p = model.predict_p(X, y, random_state=0)
    uniform = np.random.RandomState(0).random_sample(15)
    past = list(model._conformal._calibration().scores[0])
    for row, score in enumerate(np.abs(y - X[:, 0])):
        larger = sum(s > score for s in past)
        assert p[row] == pytest.approx((larger + uniform[row]) / (len(past) + 1), abs=1e-12)
        past.append(score)


@pytest.mark.parametrize("ties", [False, True])
def test_p_values_are_uniform_and_independent(ties):
    p = []
    for seed in range(60):
        model, rng = fitted(30, seed)
        X, y = stream(rng, 40)
        if ties:
            model = ConformalRegressor(model.estimator).fit(*(np.round(a) for a in stream(rng, 30)))
            X, y = np.round(X), np.round(y)
        p.append(model.predict_p(X, y, random_state=seed))
    p = np.array(p)
    assert stats.kstest(p.ravel(), "uniform").pvalue > 0.01
    assert abs(np.corrcoef(p[:, :-1].ravel(), p[:, 1:].ravel())[0, 1]) < 0.08


def test_blocks_with_partial_fit_equal_one_block():
    model, rng = fitted()
    X, y = stream(rng, 60)
    together = model.predict_p(X, y, random_state=np.random.RandomState(0))
    state, blocks = np.random.RandomState(0), []
    for rows in (slice(0, 25), slice(25, 60)):
        blocks.append(model.predict_p(X[rows], y[rows], random_state=state))
        model.partial_fit(X[rows], y[rows])
    assert np.concatenate(blocks) == pytest.approx(together, abs=1e-12)


def test_groups_are_ranked_separately():
    model, rng = fitted(400, group_by=lambda X: X[:, 0] > 0)
    X, y = stream(rng, 50)
    p = model.predict_p(X, y, random_state=0)
    alone, _ = fitted(400)
    assert not np.allclose(p, alone.predict_p(X, y, random_state=0))
    assert 0 <= p.min() <= p.max() <= 1


def test_false_alarms_of_exchangeability_are_as_rare_as_stated():
    alarms = 0
    for seed in range(100):
        model, rng = fitted(200, seed)
        p = model.predict_p(*stream(rng, 500), random_state=seed)
        alarms += ExchangeabilityMonitor(false_alarm=0.05).update(p).alarm_
    assert alarms <= 8


@pytest.mark.parametrize(("scale", "most"), [(1.5, 300), (0.6, 300)])
def test_larger_and_smaller_errors_are_found(scale, most):
    found = []
    for seed in range(20):
        model, rng = fitted(1000, seed)
        p = model.predict_p(*stream(rng, 600, scale), random_state=seed)
        found.append(ExchangeabilityMonitor().update(p).alarm_row_ or np.inf)
    assert np.median(found) < most


def test_the_bets_are_those_of_the_pit_monitor():
    p = np.random.default_rng(0).beta(0.8, 1, size=700)
    monitor = ExchangeabilityMonitor()
    for block in np.split(p, [1, 300]):
        monitor.update(block)
    expected = PITMonitor().update(stats.norm.ppf(p), Normal(np.zeros(700), np.ones(700)))
    assert monitor.e_value_ == pytest.approx(expected.e_value_, rel=1e-6)
    assert monitor.n_rows_ == 700
    assert pickle.loads(pickle.dumps(monitor)).e_value_ == monitor.e_value_
    assert repr(monitor).startswith("ExchangeabilityMonitor(700 rows")


def test_ends_and_bad_input():
    assert ExchangeabilityMonitor().update([0.0]).alarm_
    assert ExchangeabilityMonitor().update([]).n_rows_ == 0
    with pytest.raises(ValueError, match="`p_values` must"):
        ExchangeabilityMonitor().update([0.5, 1.5])
    with pytest.raises(ValueError, match="`p_values` must be 1-D"):
        ExchangeabilityMonitor().update([[0.5]])
    with pytest.raises(ValueError, match="false_alarm"):
        ExchangeabilityMonitor(false_alarm=0)
    model, rng = fitted(density_ratio=lambda X: np.ones(len(X)))
    with pytest.raises(ValueError, match="`density_ratio` must be None with `predict_p`"):
        model.predict_p(*stream(rng, 5))
    X, y = stream(rng, 50)
    weighted = ConformalRegressor(model.estimator).fit(X, y, sample_weight=np.full(50, 2.0))
    with pytest.raises(ValueError, match="without `sample_weight`"):
        weighted.predict_p(X, y)
