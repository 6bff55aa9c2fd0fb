"""Conformal predictive distributions: ranks, weights, the unseen row, infinite bounds, what is left out."""

import copy
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq._numeric import WeightedRanks, count_reached, rows_needed
from skuq.distributions import Mixture, Normal, SharedEmpirical, Transformed, affine, concat
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.exceptions import NoDensityError, SmallSampleWarning

COVERAGES = ["0.05", "0.1", "0.3", "0.5", "0.6", "0.7", "0.75", "0.8", "0.9", "0.95", "0.99", "0.999"]
SIZES = [1, 2, 3, 4, 5, 8, 9, 10, 11, 18, 19, 20, 29, 38, 39, 40, 98, 99, 100, 198, 199, 200, 999, 1000]
either_side = pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "signed"])
LOC, SCALE = np.array([0.0, 10.0, -3.0]), np.array([1.0, 0.5, 2.0])


def scores_of(n, symmetric, seed=0):
    z = np.random.default_rng(seed).gamma(2.0, size=n) - 1.0
    return np.abs(z) if symmetric else z


def quietly(method, *args):
    """The result of a call that may warn of too few rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return method(*args)


@pytest.mark.parametrize("n", SIZES)
@either_side
def test_interval_ends_at_the_explicit_order_statistics(n, symmetric):
    scores = scores_of(n, symmetric)
    ordered = np.sort(scores)
    dist = ConformalPredictive(LOC, SCALE, scores, symmetric=symmetric)
    for text in COVERAGES:
        bounds = quietly(dist.interval, float(text))
        coverage = Fraction(text)  # exact, where in floating point 10 * 0.9 > 9
        side = coverage if symmetric else (1 + coverage) / 2
        rank = math.ceil((n + 1) * side)
        if rank > n:
            assert_array_equal(bounds, np.tile([-np.inf, np.inf], (3, 1)))
        elif symmetric:
            half = SCALE * ordered[rank - 1]
            assert_array_equal(bounds, np.column_stack([LOC - half, LOC + half]))
        else:
            assert_array_equal(bounds[:, 1], LOC + SCALE * ordered[rank - 1])
            assert_array_equal(bounds[:, 0], LOC + SCALE * ordered[n - rank])


@pytest.mark.parametrize("text", [*COVERAGES, "0.9999", "0.99999", "0.123456"])
def test_rows_needed_is_the_smallest_number_whose_rank_exists(text):
    coverage = Fraction(text)
    n = next(n for n in range(1, 100_001) if math.ceil((n + 1) * coverage) <= n)
    assert rows_needed(float(text)) == n
    ranks = WeightedRanks(np.arange(1.0, n + 1))
    assert ranks.quantile(float(text) * (n + 1)) <= n
    if n > 1:
        assert WeightedRanks(np.arange(1.0, n)).quantile(float(text) * n) == np.inf


@either_side
@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_guarantee_is_exact_by_exchangeability(n, symmetric):
    """Each of n + 1 values in turn is the new one: all these events have the same probability."""
    z = np.random.default_rng(3).normal(size=n + 1)
    for level in [0.05, 0.2, 0.5, 0.62, 0.75, 0.9, 0.95]:
        inside, below, above = 0, 0, 0
        for i in range(n + 1):
            others = np.delete(z, i)
            dist = ConformalPredictive(0.0, 1.0, np.abs(others) if symmetric else others, symmetric=symmetric)
            low, high = quietly(dist.interval, level)[0]
            inside += low <= z[i] <= high
            below += z[i] <= quietly(dist.ppf, level)[0]
            above += z[i] >= quietly(dist.ppf, 1 - level)[0]
        assert level - 1e-12 <= inside / (n + 1)
        assert inside / (n + 1) < level + (1 if symmetric else 2) / (n + 1)
        if level > 0.5 and not symmetric:
            for hits in (below, above):
                assert level - 1e-12 <= hits / (n + 1) < level + 1 / (n + 1)


@either_side
def test_guarantee_under_covariate_shift_is_exact(symmetric):
    """The new one is value i with a probability that is proportional to its density ratio."""
    rng = np.random.default_rng(4)
    for n in [3, 11, 25]:
        z, ratio = rng.normal(size=n + 1), rng.gamma(1.0, size=n + 1) + 0.05
        for level in [0.3, 0.6, 0.8, 0.9]:
            covered = np.empty(n + 1)
            for i in range(n + 1):
                others = np.delete(z, i)
                dist = ConformalPredictive(
                    0.0,
                    1.0,
                    np.abs(others) if symmetric else others,
                    np.delete(ratio, i),
                    ratio[i],
                    symmetric,
                )
                low, high = quietly(dist.interval, level)[0]
                covered[i] = low <= z[i] <= high
            assert covered @ ratio / ratio.sum() >= level - 1e-12


def weighted_by_hand(scores, weights, test_weight, level):
    """Quantile of the weighted scores with the new row's weight at infinity (Tibshirani et al., eq. 7)."""
    values = np.append(scores, np.inf)
    share = np.append(weights, test_weight) / (weights.sum() + test_weight)
    order = np.argsort(values)
    reached = np.cumsum(share[order]) >= level - 1e-12
    return values[order][np.argmax(reached)]


def test_every_row_may_have_its_own_weight():
    rng = np.random.default_rng(5)
    n, k = 12, 30
    loc, scale = rng.normal(size=n), 0.5 + rng.random(n)
    z, weights, test_weight = rng.normal(size=k), rng.random(k), 3 * rng.random(n) + 0.01
    signed = ConformalPredictive(loc, scale, z, weights, test_weight)
    symmetric = ConformalPredictive(loc, scale, np.abs(z), weights, test_weight, symmetric=True)
    for coverage in [0.2, 0.5, 0.8, 0.9, 0.97]:
        low, high = quietly(signed.interval, coverage).T
        half = quietly(symmetric.interval, coverage)[:, 1] - loc
        for i in range(n):
            side = (1 + coverage) / 2
            assert_allclose(high[i], loc[i] + scale[i] * weighted_by_hand(z, weights, test_weight[i], side))
            assert_allclose(low[i], loc[i] - scale[i] * weighted_by_hand(-z, weights, test_weight[i], side))
            expected = scale[i] * weighted_by_hand(np.abs(z), weights, test_weight[i], coverage)
            assert_allclose(half[i], expected, rtol=1e-12, atol=1e-12)


@either_side
def test_weights_are_repetitions(symmetric):
    scores = scores_of(40, symmetric)
    weights = np.random.default_rng(1).integers(0, 4, size=40)
    weighted = ConformalPredictive(LOC, SCALE, scores, weights, symmetric=symmetric)
    repeated = ConformalPredictive(LOC, SCALE, np.repeat(scores, weights), symmetric=symmetric)
    levels = np.linspace(0.02, 0.98, 97)
    assert_array_equal(quietly(weighted.quantile, levels), quietly(repeated.quantile, levels))
    for y in np.linspace(-4, 14, 50):
        assert_allclose(weighted.cdf(y), repeated.cdf(y), rtol=1e-12)
        assert_allclose(weighted.crps(y), repeated.crps(y), rtol=1e-10, atol=1e-12)
    assert_allclose(weighted.mean(), repeated.mean(), rtol=1e-12)
    assert_allclose(weighted.std(), repeated.std(), rtol=1e-12)


@either_side
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
def test_cdf_is_the_inverse_of_the_quantiles(symmetric, ties):
    rng = np.random.default_rng(6)
    scores = scores_of(21, symmetric)
    if ties:
        scores = np.round(2 * scores) / 2
    dist = ConformalPredictive(LOC, SCALE, scores, rng.random(21) + 0.5, [0.5, 1.0, 2.0], symmetric)
    for level in rng.random(300):  # none of them a jump
        y = rng.choice(np.concatenate([LOC + SCALE * s for s in scores]) + rng.choice([-1e-6, 0.0, 1e-6]))
        assert_array_equal(dist._ppf(np.asarray(level)) <= y, level <= dist.cdf(y))


@either_side
def test_cdf_at_a_bound_has_reached_its_level_exactly(symmetric):
    """Also where loc is so large that loc + scale * z is rounded."""
    n = 99
    loc, scale = np.array([0.0, 1e9, 3.3e3, 0.1]), np.array([1.0, 1e-3, 1e-9, 1e-300])
    dist = ConformalPredictive(loc, scale, scores_of(n, symmetric), symmetric=symmetric)
    for j in range(1, n + 1):
        assert (dist.cdf(dist.ppf(j / (n + 1))) >= j / (n + 1) - 1e-12).all()


@either_side
def test_unknown_probability_lies_beyond_all_values(symmetric):
    dist = ConformalPredictive(LOC, SCALE, scores_of(9, symmetric), symmetric=symmetric)
    unknown = 0.05 if symmetric else 0.1
    assert_allclose(dist.cdf(1e300), 1 - unknown)
    assert_allclose(dist.cdf(-1e300), unknown)
    assert_array_equal(dist.cdf(np.inf), 1.0)
    assert_array_equal(dist.cdf(-np.inf), 0.0)
    assert_array_equal(dist.ppf(1.0), np.inf)  # ends of the support, for which no row is too few
    assert_array_equal(dist.quantile([0.0]), -np.inf)
    assert_array_equal(dist.crps(np.inf), np.inf)


@either_side
@pytest.mark.parametrize("size", [1, 6, 19])
def test_reversed_it_is_its_mirror_image(symmetric, size):
    scores = scores_of(size, symmetric)
    dist = ConformalPredictive(LOC, SCALE, scores, np.arange(size) + 1.0, [0.5, 1.0, 4.0], symmetric)
    mirrored = affine(dist, 2.0, -3.0)
    assert type(mirrored) is ConformalPredictive
    levels = np.linspace(0.01, 0.99, 99)
    assert_allclose(
        quietly(mirrored.quantile, levels), 2 - 3 * quietly(dist.quantile, 1 - levels), rtol=1e-12, atol=1e-12
    )
    assert_allclose(
        quietly(mirrored.interval, 0.4), 2 - 3 * quietly(dist.interval, 0.4)[:, ::-1], rtol=1e-12, atol=1e-12
    )
    assert_allclose(mirrored.mean(), 2 - 3 * dist.mean())
    assert_allclose(mirrored.std(), 3 * dist.std())
    y = LOC + 0.123
    assert_allclose(mirrored.crps(2 - 3 * y), 3 * dist.crps(y), rtol=1e-10)
    assert_allclose(mirrored.cdf(2 - 3 * y), 1 - dist.cdf(y), rtol=1e-12)
    back = affine(mirrored, 2 / 3, -1 / 3)
    assert_allclose(quietly(back.quantile, levels), quietly(dist.quantile, levels), rtol=1e-9, atol=1e-12)
    turned = affine(dist, 0.0, [1.0, -1.0, 1.0])  # rows of both signs
    assert_allclose(turned.mean(), [1, -1, 1] * dist.mean())


@either_side
def test_moments_crps_and_samples_leave_the_unknown_part_out(symmetric):
    scores = scores_of(30, symmetric)
    dist = ConformalPredictive(LOC, SCALE, scores, test_weight=5.0, symmetric=symmetric)
    known = SharedEmpirical(LOC, SCALE, np.concatenate([-scores, scores]) if symmetric else scores)
    assert_allclose(dist.mean(), known.mean(), atol=1e-12)
    assert_array_equal(dist.std(), known.std())
    y = LOC + 0.3
    assert_array_equal(dist.crps(y), known.crps(y))
    assert_array_equal(dist.sample(50, 0), known.sample(50, 0))
    if symmetric:
        assert_array_equal(dist.mean(), LOC)
        assert_array_equal(dist.median(), LOC)


def only_warning(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    assert [warning.category for warning in caught] == [SmallSampleWarning]
    assert caught[0].filename == __file__
    return str(caught[0].message), result


def test_too_few_rows_give_infinite_bounds_and_one_warning():
    dist = ConformalPredictive(LOC, SCALE, [1.0, 2.0, 3.0, 4.0, 5.0], symmetric=True)
    message, bounds = only_warning(lambda: dist.interval(0.9))
    assert "90 % needs at least 9 calibration rows, got 5" in message
    assert_array_equal(bounds, np.tile([-np.inf, np.inf], (3, 1)))
    message, bounds = only_warning(lambda: dist.interval([0.5, 0.99, 0.9]))
    assert "99 % needs at least 99 calibration rows, got 5" in message
    assert np.isfinite(bounds[:, :, 0]).all()
    message, _ = only_warning(lambda: dist.quantile([0.5, 0.05]))
    assert "the quantile at level 0.05 needs at least 9 calibration rows" in message
    message, values = only_warning(lambda: dist.ppf([0.5, 0.975, 0.999]))
    assert "level 0.999 needs at least 499" in message
    assert_array_equal(np.isinf(values), [False, True, True])

    signed = ConformalPredictive(LOC, SCALE, [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 1.0, 3.0, 1.0])
    message, _ = only_warning(lambda: signed.interval(0.9))
    assert "90 % needs at least 19 calibration rows, got 8" in message
    message, _ = only_warning(lambda: signed.ppf(0.9))
    assert "level 0.9 needs at least 9" in message
    shifted = ConformalPredictive(LOC, SCALE, np.arange(20.0), test_weight=[1.0, 2.0, 30.0])
    message, bounds = only_warning(lambda: shifted.interval(0.5))
    assert (
        "50 % needs calibration rows with a total weight of at least 90 for a new row of weight 30, got 20"
        in message
    )
    assert_array_equal(np.isinf(bounds).all(axis=1), [False, False, True])


@either_side
def test_no_warning_where_the_bounds_are_finite_or_the_level_is_an_end(symmetric):
    dist = ConformalPredictive(LOC, SCALE, scores_of(19, symmetric), symmetric=symmetric)
    assert np.isfinite(dist.interval(0.9)).all()
    dist.quantile([0.0, 0.05, 1.0])
    dist.ppf([0.0, 1.0, 0.5])
    few = ConformalPredictive(LOC, SCALE, scores_of(2, symmetric), symmetric=symmetric)
    few.cdf(LOC)
    few.crps(LOC)
    few.sample(3, 0)
    np.asarray(few)
    few.median()


def test_groups_that_are_concatenated_warn_once_too():
    parts = [ConformalPredictive(LOC, SCALE, np.arange(size), symmetric=True) for size in (5.0, 40.0, 3.0)]
    dist = concat([*parts, Normal(LOC, SCALE)])[[0, 3, 9, 6, 4]]
    message, bounds = only_warning(lambda: dist.interval(0.9))
    assert "90 % needs at least 9 calibration rows, got 3" in message or "got 5" in message
    assert_array_equal(np.isinf(bounds).all(axis=1), [True, False, False, True, False])
    assert "level 0.97" in only_warning(lambda: dist.quantile([0.97, 0.5]))[0]
    assert "level 0.99" in only_warning(lambda: dist.ppf([0.99, 0.5, 0.5, 0.5, 0.5]))[0]
    dist[[1, 2, 4]].interval(0.9)  # the groups with enough rows
    dist.ppf([0.5, 0.9, 0.99, 0.5, 0.9])


@either_side
def test_rows_concat_pickle_and_copy(symmetric):
    scores = scores_of(25, symmetric)
    dist = ConformalPredictive(LOC, SCALE, scores, np.arange(25) + 1.0, [1.0, 2.0, 3.0], symmetric)
    levels = np.linspace(0.01, 0.99, 33)
    expected = quietly(dist.quantile, levels)
    for twin in (
        pickle.loads(pickle.dumps(dist)),
        copy.copy(dist),
        copy.deepcopy(dist),
        concat([dist[:1], dist[1:]]),
        dist[[2, 0, 1]][[1, 2, 0]],
    ):
        assert type(twin) is ConformalPredictive
        assert twin.symmetric == symmetric
        assert_array_equal(quietly(twin.quantile, levels), expected)
        assert_array_equal(twin.cdf(0.3), dist.cdf(0.3))
    assert_array_equal(dist[1:].test_weight, [2.0, 3.0])
    assert dist[[0]].test_weight.shape == ()  # one number where there is but one
    assert repr(dist) == "ConformalPredictive(n=3)"
    for other in (
        ConformalPredictive(LOC, SCALE, scores + 1, np.arange(25) + 1.0, symmetric=symmetric),
        ConformalPredictive(LOC, SCALE, scores, symmetric=symmetric),
        ConformalPredictive(LOC, SCALE, np.abs(scores), np.arange(25) + 1.0, symmetric=not symmetric),
    ):
        both = concat([dist, other])
        assert type(both).__name__ == "Concatenated"
        assert_array_equal(quietly(both.quantile, levels)[:3], expected)


def test_a_row_of_scale_zero_is_a_point_but_for_unreachable_levels():
    dist = ConformalPredictive([2.0, 2.0], [0.0, 1.0], np.arange(9.0), symmetric=True)
    assert_array_equal(dist.interval(0.9), [[2.0, 2.0], [-6.0, 10.0]])
    assert_array_equal(dist.cdf([2.0, 2.0])[0], 0.95)
    assert_array_equal(dist.crps([5.0, 2.0])[0], 3.0)
    assert_array_equal(quietly(dist.interval, 0.95)[0], [-np.inf, np.inf])
    assert_array_equal(dist.std()[0], 0.0)


@either_side
def test_nothing_of_size_rows_by_scores_is_built(symmetric):
    """An array of rows by scores would take 320 GB here."""
    n = 200_000
    rng = np.random.default_rng(0)
    z = rng.normal(size=n)
    dist = ConformalPredictive(z, 1 + rng.random(n), np.abs(z) if symmetric else z, symmetric=symmetric)
    y = z + 0.5
    bounds = dist.interval([0.5, 0.9])
    assert bounds.shape == (n, 2, 2)
    assert dist.cdf(y).mean() == pytest.approx(0.62, abs=0.02)
    assert dist.crps(y).mean() > 0
    assert len(pickle.dumps(dist)) < 8 * 4 * n
    assert (dist.ppf(rng.random(n)) < 20).all()


def test_a_crowd_of_scores_on_one_number_is_counted():
    """Where loc is so large that many scores give one value of y, the standardized y misleads."""
    values = np.sort(np.random.default_rng(0).normal(size=1000))
    loc, scale = np.array([1e12, -1e12, 1.0, 1e300]), np.array([1e-3, 1e-5, 1e-17, 1e-300])
    for y in (loc, np.nextafter(loc, -np.inf), loc + scale, loc - 3 * scale):
        expected = [(one + width * values <= at).sum() for one, width, at in zip(loc, scale, y, strict=True)]
        assert_array_equal(count_reached(values, loc, scale, y), expected)


# ----------------------------------------------------------------------- what is built on it


BUILT = {
    "transformed": (lambda dist: Transformed(dist, np.exp, np.log), np.exp),
    "transformed, decreasing": (
        lambda dist: Transformed(dist, lambda z: -np.sinh(z), lambda y: -np.arcsinh(y)),
        lambda z: -np.sinh(z),
    ),
    "rows of both signs": (lambda dist: affine(dist, 1.0, [1.0, -2.0, 1.0]), None),
    "concatenated": (lambda dist: concat([dist[:2], Normal(LOC[2:], SCALE[2:])]), None),
    "recalibrated": (lambda dist: Recalibrated(dist, LevelMap([0.2, 0.7], [0.3, 0.8])), None),
    "mixture": (lambda dist: Mixture([dist, affine(dist, 1.0, 1.0)]), None),
    "transformed mixture": (
        lambda dist: Transformed(Mixture([dist, affine(dist, 1.0, 1.0)]), np.exp, np.log),
        None,
    ),
    "transformed of groups": (
        lambda dist: Transformed(concat([dist[:2], affine(dist, 0.0, -1.0)[2:]]), np.exp, np.log),
        None,
    ),
}


@either_side
@pytest.mark.parametrize("name", BUILT)
def test_what_is_built_on_it_has_finite_moments_and_scores_and_warns_once(symmetric, name):
    build, values_of = BUILT[name]
    scores = scores_of(12, symmetric)
    dist = ConformalPredictive(LOC / 10, SCALE / 2, scores, symmetric=symmetric)
    built = build(dist)
    known = build(SharedEmpirical(dist.loc, dist.scale, np.r_[-scores, scores] if symmetric else scores))
    y = known.ppf(0.4) + 0.01
    # A mean may be 0 but for rounding, which is that of the values it is taken of.
    assert_allclose(built.mean(), known.mean(), rtol=0, atol=1e-9 * known.std().max())
    assert_allclose(built.std(), known.std(), rtol=1e-9)
    assert_allclose(built.crps(y), known.crps(y), rtol=1e-9)
    draws = built.sample(4000, 0)
    assert_allclose(draws.mean(axis=1), known.mean(), atol=0.15 * known.std().max())
    assert np.isfinite(np.asarray(built)).all()
    if values_of is not None:
        members = dist.loc[:, np.newaxis] + dist.scale[:, np.newaxis] * known.base.members
        assert_allclose(built.mean(), values_of(members).mean(axis=1), rtol=1e-9, atol=1e-12)
    built.interval(0.4)
    for call in (lambda: built.interval([0.5, 0.99]), lambda: built.quantile([0.5, 0.004])):
        message, values = only_warning(call)
        assert "got 12" in message
        assert not np.isnan(values).any()
    assert "got 12" in only_warning(lambda: built.ppf([0.999, 0.001, 0.5]))[0]


def test_scores_are_sorted_copies_without_those_of_weight_zero():
    scores, weights = np.array([5.0, 1.0, 99.0]), np.array([1.0, 3.0, 0.0])
    dist = ConformalPredictive(LOC, SCALE, scores, weights, 1.0)
    scores[:] = 9.0
    assert_array_equal(dist.scores, [1.0, 5.0])
    assert_array_equal(dist.weights, [3.0, 1.0])
    assert_array_equal(weights, [1.0, 3.0, 0.0])
    with pytest.raises(ValueError, match="read-only"):
        dist.scores[0] = 0.0
    assert not dist.has_density
    with pytest.raises(NoDensityError, match="crps"):
        dist.pdf(0.0)
    built = Transformed(dist, np.exp, np.log)
    assert_array_equal(quietly(built.interval, 0.9), np.tile([0.0, np.inf], (3, 1)))


def test_the_median_lies_halfway_between_the_sides_and_is_that_of_repeated_values():
    for scores, median in (([1.0, 2.0, 3.0, 7.0], 2.5), ([1.0, 2.0, 7.0], 2.0), ([4.0], 4.0)):
        assert_array_equal(ConformalPredictive(LOC, SCALE, scores).median(), LOC + median * SCALE)
    assert_array_equal(ConformalPredictive(LOC, SCALE, [1.0, 2.0, 7.0], symmetric=True).median(), LOC)
    # a new row of so much weight that nothing is known, not even the half
    unknown = ConformalPredictive(LOC, SCALE, [1.0, 3.0], test_weight=50.0)
    assert_array_equal(unknown.median(), LOC + 2 * SCALE)
    assert_array_equal(unknown.ppf(0.5), unknown.median())  # no warning: it is finite
    for n in (1, 2, 5, 8):
        rng = np.random.default_rng(n)
        values = rng.normal(size=n)
        weights = rng.integers(0, 4, size=n) + (np.arange(n) == 0)
        assert WeightedRanks(values).median == pytest.approx(np.median(values), rel=1e-15)
        ranks = WeightedRanks(values, weights.astype(float))
        assert ranks.median == pytest.approx(np.median(np.repeat(values, weights)), rel=1e-15)
    # weights that no float holds exactly leave two halves of .3 = .1 + .2 as they are
    assert WeightedRanks(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.3])).median == 2.5
