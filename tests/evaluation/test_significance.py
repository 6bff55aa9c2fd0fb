"""Bootstrap intervals and permutation tests: scipy, closed forms, simulation, exact enumeration."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skuq.distributions import Normal, StudentT
from skuq.evaluation import bootstrap_interval, paired_permutation_test
from skuq.evaluation._resampling import Rows, bootstrap_weights, evaluations, swap_weights
from skuq.evaluation._significance import _count_extreme
from skuq.metrics import crps_loss
from skuq.metrics._spec import all_specs
from tests.metrics.options import forecast_specs, required

SPECS = list(forecast_specs().values())


def of(specs):
    """Parametrize over metrics. Parts of the CRPS are computed together, so one is enough by default."""
    dear = {"crps_discrimination", "crps_uncertainty"}
    cases = [
        pytest.param(spec, marks=pytest.mark.laws if spec.abbreviation in dear else (), id=spec.abbreviation)
        for spec in specs
    ]
    return pytest.mark.parametrize("spec", cases)


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    y = x + rng.normal(size=120)
    return y, Normal(x, np.ones(120)), Normal(0.6 * x, 1.1 + 0.2 * rng.random(120))


# ------------------------------------------------------------------------------------------ bootstrap


@of(SPECS)
def test_every_metric_has_an_interval_around_its_value(spec, forecast):
    y, dist = (part[:150] for part in forecast)
    result, again = (
        bootstrap_interval(y, dist, name, options=required(spec), n_resamples=60, random_state=0)
        for name in (spec.abbreviation, spec.scorer_name)
    )
    if not spec.random:
        assert result.value == spec.compute(y, dist, **required(spec))
    assert result.low < result.high
    assert result.standard_error > 0
    assert again == result


@pytest.mark.parametrize("method", ["bca", "percentile", "basic"])
def test_interval_agrees_with_scipy(method):
    """A skewed mean, where the methods differ."""
    rng = np.random.default_rng(0)
    y = rng.lognormal(sigma=1.0, size=80)
    point = Normal(np.zeros(80), np.zeros(80))  # the CRPS of a point is |y|
    got = bootstrap_interval(y, point, "crps", n_resamples=20_000, method=method, random_state=0)
    expected = stats.bootstrap(
        (y,), np.mean, n_resamples=20_000, method=method, random_state=np.random.default_rng(1)
    )
    assert got.low == pytest.approx(expected.confidence_interval.low, rel=0.01)
    assert got.high == pytest.approx(expected.confidence_interval.high, rel=0.01)
    assert got.standard_error == pytest.approx(expected.standard_error, rel=0.03)


def test_blocks_and_rows_give_the_same_acceleration():
    rng = np.random.default_rng(0)
    y = rng.lognormal(sigma=1.0, size=150)
    point = Normal(np.zeros(150), np.zeros(150))

    def slow_crps(y_true, dist, *, sample_weight=None):
        return crps_loss(y_true, dist, sample_weight=sample_weight)

    exact, blocks = (
        evaluations(metric, None, Rows(y, None), {"y_pred": point}, np.random.RandomState(0))[0].acceleration(
            np.random.RandomState(0)
        )
        for metric in ("crps", slow_crps)
    )
    u = y - y.mean()
    assert exact == pytest.approx(np.sum(u**3) / (6 * np.sum(u**2) ** 1.5), rel=1e-9)
    assert blocks == pytest.approx(exact, rel=1e-9)  # 150 rows are 150 blocks
    assert exact > 0.02


def test_own_metric_agrees_with_the_same_by_name(pair):
    y, dist, _ = pair

    def own(y_true, dist, *, sample_weight=None, factor=1.0):
        return factor * crps_loss(y_true, dist, sample_weight=sample_weight)

    named = bootstrap_interval(y, dist, crps_loss, n_resamples=200, random_state=3)
    mine = bootstrap_interval(y, dist, own, options={"factor": 2.0}, n_resamples=200, random_state=3)
    assert mine.low == pytest.approx(2 * named.low, rel=1e-9)
    assert mine.standard_error == pytest.approx(2 * named.standard_error, rel=1e-9)


@pytest.mark.laws
def test_most_intervals_cover():
    """Of a mean absolute value, whose true value is known; 93 to 95 % is what BCa attains at n = 60."""
    rng = np.random.default_rng(0)
    truth, hits = np.sqrt(2 / np.pi), []
    for _ in range(300):
        point = Normal(np.zeros(60), np.zeros(60))
        interval = bootstrap_interval(
            rng.normal(size=60), point, "crps", n_resamples=300, random_state=rng_of(rng)
        )
        hits.append(interval.low <= truth <= interval.high)
    assert 0.91 < np.mean(hits) < 0.98


def rng_of(rng):
    return int(rng.integers(2**31))


def test_weights_count_repetitions_in_the_bootstrap():
    rng = np.random.default_rng(0)
    y, weight = rng.normal(size=60), rng.integers(0, 6, size=60)
    dist = Normal(np.zeros(60), np.ones(60))
    rows = np.repeat(np.arange(60), weight)
    for metric in ("crps", "mace"):
        weighted = bootstrap_interval(y, dist, metric, sample_weight=weight, n_resamples=4000, random_state=0)
        repeated = bootstrap_interval(y[rows], dist[rows], metric, n_resamples=4000, random_state=0)
        assert weighted.value == pytest.approx(repeated.value, rel=1e-12)
        assert weighted.standard_error == pytest.approx(repeated.standard_error, rel=0.06)
        assert weighted.low == pytest.approx(repeated.low, rel=0.05)
        assert weighted.high == pytest.approx(repeated.high, rel=0.05)
    counts = np.concatenate(list(bootstrap_weights(Rows(y, weight), 500, np.random.RandomState(0))))
    assert counts.shape == (500, np.count_nonzero(weight))
    assert_array_equal(counts.sum(axis=1), weight.sum())
    assert_allclose(counts.mean(axis=0), weight[weight > 0], rtol=0.3)


def test_intervals_of_few_equal_and_infinite_values():
    for n in (1, 2, 3):
        for metric in ("crps", "mace", "picp"):
            few = bootstrap_interval(
                np.arange(1.0, n + 1), Normal(np.zeros(n), 1.0), metric, n_resamples=50, random_state=0
            )
            assert few.low <= few.high
    constant = bootstrap_interval(
        np.ones(30), Normal(np.zeros(30), 1.0), "crps", n_resamples=50, random_state=0
    )
    assert [constant.low, constant.high] == pytest.approx([constant.value] * 2, rel=1e-12)
    basic = bootstrap_interval(
        [1.0, 2.0], Normal([0.0] * 2, [0.0] * 2), "auucc", method="basic", n_resamples=10
    )
    assert (basic.low, basic.high) == (np.inf, np.inf)
    y, dist = np.ones(10), Normal(np.zeros(10), np.r_[0.0, np.ones(9)])
    result = bootstrap_interval(y, dist, "auucc", n_resamples=100, random_state=0)
    assert result.value == result.high == result.standard_error == np.inf
    assert result.low > 0


def test_bounds_are_forecasts_too(pair):
    y, dist, other = pair
    for metric in ("interval_score", "cwc"):
        a = bootstrap_interval(y, dist, metric, n_resamples=50, random_state=0)
        b = bootstrap_interval(y, dist.interval(0.9), metric, n_resamples=50, random_state=0)
        assert a == b
        pairs = (dist, other), (dist.interval(0.9), other.interval(0.9))
        first, second = (
            paired_permutation_test(y, *pair, metric, n_resamples=50, random_state=0) for pair in pairs
        )
        assert first == second


# ------------------------------------------------------------------------------------------ permutation test


def enumerated(y, a, b, metric, total):
    """All differences under all swaps, computed one by one."""
    differences = []
    for swap in itertools.product([False, True], repeat=total):
        swapped = np.array(swap)
        first = Normal(np.where(swapped, b.loc, a.loc), np.where(swapped, b.scale, a.scale))
        second = Normal(np.where(swapped, a.loc, b.loc), np.where(swapped, a.scale, b.scale))
        differences.append(metric(y, first) - metric(y, second))
    return np.array(differences)


@pytest.mark.parametrize("name", ["crps", "mace", "auucc_gain", "auucc", "ence", "picp"])
def test_few_rows_are_enumerated(name):
    rng = np.random.default_rng(0)
    y = rng.normal(size=7)
    a, b = (Normal(rng.normal(size=7), 0.5 + rng.random(7)) for _ in range(2))
    compute = all_specs()[name].compute
    differences = enumerated(y, a, b, compute, 7)
    observed = compute(y, a) - compute(y, b)
    for alternative, extreme in (
        ("two-sided", np.abs(differences) >= abs(observed) - 1e-12),
        ("less", differences <= observed + 1e-12),
        ("greater", differences >= observed - 1e-12),
    ):
        test = paired_permutation_test(y, a, b, name, alternative=alternative)
        assert (test.exact, test.n_resamples, test.p_value) == (True, 128, extreme.mean())
        assert test.difference == pytest.approx(observed, rel=1e-12)


@pytest.mark.parametrize("name", ["crps", "mace", "auucc"])
def test_weights_count_repetitions_in_the_test(name):
    rng = np.random.default_rng(0)
    y, weight = rng.normal(size=5), np.array([2.0, 1.0, 0.0, 3.0, 1.0])
    a, b = (Normal(rng.normal(size=5), 0.5 + rng.random(5)) for _ in range(2))
    rows = np.repeat(np.arange(5), weight.astype(int))
    weighted = paired_permutation_test(y, a, b, name, sample_weight=weight)
    repeated = paired_permutation_test(y[rows], a[rows], b[rows], name)
    assert weighted.exact
    assert weighted.n_resamples == repeated.n_resamples == 128
    assert weighted.p_value == repeated.p_value
    assert weighted.difference == pytest.approx(repeated.difference, rel=1e-12)
    drawn = paired_permutation_test(
        y, a, b, name, sample_weight=weight * 1.5, n_resamples=4000, random_state=0
    )
    assert not drawn.exact


def test_swaps_of_weighted_rows_are_binomial():
    weight = np.array([3.0, 1.0, 2.5])
    swaps = np.concatenate(list(swap_weights(Rows(np.zeros(3), weight), 4000, np.random.RandomState(0))))
    assert_allclose(swaps.mean(axis=0), weight / 2, atol=0.05)
    assert_allclose(swaps.var(axis=0), [0.75, 0.25, 0.5 + 0.0625], atol=0.05)
    assert set(np.unique(swaps[:, 2])) == {0, 0.5, 1, 1.5, 2, 2.5}


def test_random_swaps_agree_with_scipy():
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    a, b = Normal(np.zeros(40), np.ones(40)), Normal(np.full(40, 0.25), np.ones(40))
    rows = a.crps(y), b.crps(y)
    got = paired_permutation_test(y, a, b, "crps", n_resamples=20_000, random_state=0)
    expected = stats.permutation_test(
        rows,
        lambda u, v, axis: np.mean(u - v, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        random_state=np.random.default_rng(0),
    )
    assert got.p_value == pytest.approx(expected.pvalue, abs=0.015)
    assert 0.01 < got.p_value < 0.99


@of(SPECS)
def test_every_metric_can_be_tested(spec, forecast):
    y, dist = (part[:300] for part in forecast)
    other = StudentT(dist.loc + 0.2, 1.3 * dist.scale, df=4.0)
    arguments = {"options": required(spec), "n_resamples": 25, "random_state": 0}
    test = paired_permutation_test(y, dist, other, spec.function, **arguments)
    assert 1 / 26 <= test.p_value <= 1
    assert test == paired_permutation_test(y, dist, other, spec.function, **arguments)
    reverse = paired_permutation_test(y, other, dist, spec.function, **arguments)
    assert reverse.difference == pytest.approx(-test.difference)
    assert reverse.p_value == pytest.approx(test.p_value, abs=0.2)


def test_a_model_does_not_differ_from_itself(pair):
    y, dist, _ = pair
    for metric in ("crps", "mace"):
        test = paired_permutation_test(y, dist, dist, metric, n_resamples=50, random_state=0)
        assert test.difference == 0
        assert test.p_value == 1


@pytest.mark.laws
@pytest.mark.parametrize("name", ["crps", "ence"])
def test_the_level_is_kept(name):
    """Forecasts that are alike in distribution differ significantly as often as the nominal level.

    39 permutations give p-values in steps of 1 / 40, small beside 1.63 / sqrt(120) = 0.15, the distance from
    the uniform distribution that is found.
    """
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(120):
        y = rng.normal(size=30)
        a, b = (Normal(0.5 * rng.normal(size=30), 0.7 + 0.6 * rng.random(30)) for _ in range(2))
        p_values.append(
            paired_permutation_test(y, a, b, name, n_resamples=39, random_state=rng_of(rng)).p_value
        )
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(np.array(p_values) <= 0.1) < 0.18


def test_ties_count():
    """UQ360 counts only larger differences, and calls equal discrete metrics significant."""
    y = np.zeros(12)
    inside, outside = Normal(np.zeros(12), np.ones(12)), Normal(np.r_[9.0, np.zeros(11)], np.ones(12))
    test = paired_permutation_test(y, inside, outside, "picp", n_resamples=99, random_state=0)
    assert test.difference == pytest.approx(1 / 12)
    assert test.p_value == 1


def test_infinite_metrics_cannot_be_compared():
    y = np.ones(3)
    good, bad = Normal(np.zeros(3), np.ones(3)), Normal(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"`metric` must be finite for both models, got 1\.0 and inf"):
        paired_permutation_test(y, good, bad, "auucc")


def test_a_reference_of_n_rows_stays_with_its_rows():
    """Zero weights, repetitions and swaps all rearrange rows; the reference must follow."""
    rng = np.random.default_rng(0)
    y, weight = rng.normal(size=9), np.array([1.0, 2, 0, 1, 1, 0, 1, 1, 1])
    a, b, reference = (Normal(rng.normal(size=9), 0.5 + rng.random(9)) for _ in range(3))
    rows = np.repeat(np.arange(9), weight.astype(int))

    def own_skill(y_true, dist, *, sample_weight=None, reference):
        own, other = (crps_loss(y_true, d, sample_weight=sample_weight) for d in (dist, reference))
        return 1 - own / other

    for metric in ("crpss", own_skill):
        arguments = {"n_resamples": 2**8, "random_state": 0}
        weighted = paired_permutation_test(
            y, a, b, metric, options={"reference": reference}, sample_weight=weight, **arguments
        )
        repeated = paired_permutation_test(
            y[rows], a[rows], b[rows], metric, options={"reference": reference[rows]}, **arguments
        )
        assert weighted.exact
        assert weighted.p_value == repeated.p_value
        assert weighted.difference == pytest.approx(repeated.difference, rel=1e-12)
        frozen = stats.norm(reference.loc, reference.scale) if metric == "crpss" else reference
        options = {"sample_weight": weight, "n_resamples": 30, "random_state": 0}
        own, same = (
            bootstrap_interval(y, a, metric, options={"reference": each}, **options)
            for each in (reference, frozen)
        )
        assert own.value == pytest.approx(weighted.values[0], rel=1e-12)
        assert [same.low, same.high] == pytest.approx([own.low, own.high])


def test_a_metric_that_is_not_a_number_raises():
    def undefined(y, dist, *, sample_weight=None):
        return np.nan if sample_weight is None or sample_weight.min() == 0 else 1.0

    def at_times(y, dist, *, sample_weight=None):
        return 1.0 if sample_weight is None else np.nan

    forecast = Normal([0.0] * 4, [1.0] * 4)
    for metric in (undefined, at_times):
        with pytest.raises(ValueError, match=r"`metric` must be a number .* got nan"):
            bootstrap_interval([1.0, 2.0, 3.0, 4.0], forecast, metric, n_resamples=10, random_state=0)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_differences_that_are_not_defined_count_as_extreme(alternative):
    draws = np.array([np.nan, 0.0, 0.0])
    difference = -1.0 if alternative == "less" else 1.0
    assert _count_extreme(draws, difference, alternative, scale=1.0) == 1


@pytest.mark.parametrize(
    ("metric", "options"),
    [("crps", {}), ("uce", {}), ("sharpness", {"kind": "rms"}), ("nmpiw", {"scale": "std"})],
)
@pytest.mark.parametrize("unit", [1e-98, 1e96])
def test_intervals_in_large_and_small_units(metric, options, unit):
    rng = np.random.default_rng(0)
    y, std = rng.normal(size=60), rng.uniform(1, 2, size=60)
    plain, scaled = (
        bootstrap_interval(
            c * y, Normal(np.zeros(60), c * std), metric, options=options, n_resamples=50, random_state=0
        )
        for c in (1.0, unit)
    )
    factor = unit ** {"nmpiw": 0, "uce": 2}.get(metric, 1)
    for name in ("low", "high", "value", "standard_error"):
        assert getattr(scaled, name) == pytest.approx(factor * getattr(plain, name), rel=1e-9, abs=0)
