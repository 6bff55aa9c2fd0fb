"""Scores with weight on a region: values of the peer and of quadrature, laws at bounds, and bad input."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from skuq.distributions import (
    Empirical,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    SharedEmpirical,
    StudentT,
    Transformed,
    affine,
)
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._recalibrated import Recalibrated
from skuq.metrics import (
    crps_loss,
    get_scorer,
    get_scorer_names,
    make_scorer,
    nll_loss,
    quantile_weighted_crps_loss,
    threshold_weighted_crps_loss,
    threshold_weighted_nll_loss,
)
from skuq.metrics._weighted_scores import LEVEL_WEIGHTS
from tests.distributions.families import LEVEL_MAP

MEMBERS = [[0.2, 1.1, 1.7, 2.5, 4.0]]
STANDARD = Normal(0.0, 1.0)
WEIGHTS = {
    "tails": lambda p: (2 * p - 1) ** 2,
    "left": lambda p: (1 - p) ** 2,
    "right": lambda p: p**2,
    "center": lambda p: p * (1 - p),
}
MIXED = Concatenated([Normal(0.0, 1.0), Empirical(MEMBERS)], [1, 0])
ONE_ROW = {
    "Normal": STANDARD,
    "StudentT": StudentT(0.3, 2.0, 3.0),
    "Quantiles": Quantiles([0.1, 0.4, 0.5, 0.9], [[-1.0, 0.0, 0.0, 2.0]]),
    "NormalMixture": NormalMixture([[-1.0, 1.0, 2.0]], [[0.5, 1.0, 0.1]], [0.2, 0.3, 0.5]),
    "Mixture": Mixture([STANDARD, StudentT(2.0, 0.5, 5.0)], [0.4, 0.6]),
    "Recalibrated": Recalibrated(STANDARD, LEVEL_MAP),
    "Transformed": Transformed(STANDARD, np.exp, np.log),
    "clipped": STANDARD.clip(-0.5, 1.2),
    "affine": affine(Transformed(STANDARD, np.exp, np.log), 1.0, -0.7),
}


def test_the_threshold_weighted_crps_of_scoringrules():
    for dist, y, lower, upper, expected in (
        (STANDARD, 0.5, -1, 1, 0.3169333776),
        (STANDARD, 2.5, 1, 10, 1.3446124100),
        (STANDARD, 0.2, 1, 3, 0.0072348100),
        (Normal(1.0, 2.0), -3.0, 0, 4, 0.5919318694),
        (StudentT(0.0, 1.0, 5), 2.5, 1, 50, 1.2685667738),
        (Empirical(MEMBERS), 1.5, 1, 3, 0.288),
        (Empirical(MEMBERS), 3.5, 1, 3, 0.708),
    ):
        assert_allclose(
            threshold_weighted_crps_loss([y], dist, lower=lower, upper=upper), expected, atol=1e-10
        )


def test_the_quantile_weighted_crps_of_the_reference():
    parts = {name: quantile_weighted_crps_loss([0.5], STANDARD, weighting=name) for name in LEVEL_WEIGHTS}
    assert parts.keys() == WEIGHTS.keys()
    for weighting, expected in (("center", 0.06325476), ("right", 0.06709356), ("left", 0.13780046)):
        assert_allclose(parts[weighting], expected, atol=6e-9)
    # Weights that add up to one give the CRPS.
    crps = crps_loss([0.5], STANDARD)
    assert_allclose(parts["left"] + parts["right"] + 2 * parts["center"], crps, rtol=2e-8)
    assert_allclose(parts["tails"] + 4 * parts["center"], crps, rtol=2e-8)


@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("name", ONE_ROW)
def test_the_quantile_weighted_crps_is_the_integral_of_pinball_losses(name, weighting):
    dist, weight = ONE_ROW[name], WEIGHTS[weighting]
    for y in (-1.7, 0.45):

        def loss(p, y=y):
            return 2 * weight(p) * ((y <= dist.ppf(p)) - p) * (dist.ppf(p) - y)

        # levels between which the quantile function is smooth
        ends = [*dist._level_breaks(), *dist.cdf(y), *dist.cdf(-0.5), *dist.cdf(1.2)]
        ends = np.unique(
            np.clip([0.0, 1e-6, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-3, 1 - 1e-6, 1.0, *ends], 1e-12, 1 - 1e-12)
        )
        expected = sum(
            integrate.quad(lambda p: loss(p).item(), low, high, epsabs=1e-10)[0]
            for low, high in itertools.pairwise(ends)
        )
        actual = quantile_weighted_crps_loss([y], dist, weighting=weighting)
        assert_allclose(actual, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weighting", WEIGHTS)
def test_the_quantile_weighted_crps_of_members_is_a_sum(weighting):
    weights, levels = np.array([0.1, 0.3, 0.2, 0.0, 0.4]), WEIGHTS[weighting]
    ends = np.concatenate([[0.0], np.cumsum(weights)])
    for dist in (Empirical(MEMBERS, weights), SharedEmpirical(0.0, 1.0, MEMBERS[0], weights)):
        for y in (-1.0, 1.7, 2.0, 9.0):
            expected = sum(
                integrate.quad(lambda p, x=x, y=y: 2 * levels(p) * ((y <= x) - p) * (x - y), low, high)[0]
                for x, (low, high) in zip(MEMBERS[0], itertools.pairwise(ends), strict=True)
            )
            assert_allclose(quantile_weighted_crps_loss([y], dist, weighting=weighting), expected, rtol=1e-9)


def test_rows_of_several_families_and_point_masses():
    y = np.array([1.5, 0.5])
    for weighting in WEIGHTS:
        both = quantile_weighted_crps_loss(y, MIXED, weighting=weighting)
        parts = [quantile_weighted_crps_loss(y[[i]], MIXED[i], weighting=weighting) for i in range(2)]
        assert_allclose(both, np.mean(parts), rtol=1e-9)
    # a point forecast has the same error at every level, so the score is a multiple of it
    right = quantile_weighted_crps_loss([3.0, -3.0], Normal([0.0, 0.0], [0.0, 0.0]), weighting="right")
    assert_allclose(right, (3.0 * 2 / 4 + 3.0 * 2 * (1 / 3 - 1 / 4)) / 2, rtol=1e-9)


def test_the_censored_log_score():
    tail = stats.norm.logsf
    for y, dist, bounds, expected in (
        (1.5, STANDARD, {"lower": -1.0, "upper": 1.0}, -np.log(2) - tail(1)),
        (1.0, STANDARD, {"upper": 1.0}, -tail(1)),  # A target on a bound is censored.
        (50.0, STANDARD, {"upper": 45.0}, -tail(45)),  # a probability that underflows
        # An event of probability zero is infinite and not clipped.
        (3.0, stats.uniform(0.0, [1.0]), {"upper": 2.0}, np.inf),
        (1.5, stats.uniform(0.0, [1.0]), {"upper": 2.0}, np.inf),
    ):
        assert_allclose(threshold_weighted_nll_loss([y], dist, **bounds), expected, rtol=1e-12)
    for y, expected in ((2.0, 2.9189385332), (0.3, 0.1727537790)):
        assert_allclose(threshold_weighted_nll_loss([y], STANDARD, lower=1.0), expected, atol=1e-10)


def test_without_bounds_the_scores_are_those_of_all_values(forecast):
    y, dist = forecast
    for member in (dist, StudentT(dist.loc, dist.scale, 4.0), Empirical(dist.sample(9, 0))):
        for options in ({}, {"lower": -np.inf, "upper": np.inf}):
            assert threshold_weighted_crps_loss(y, member, **options) == crps_loss(y, member)
    assert_allclose(threshold_weighted_nll_loss(y, dist), nll_loss(y, dist), rtol=1e-14)
    # The scores of a partition add up.
    locs, scales = np.stack([dist.loc, dist.loc + 1], 1), np.stack([dist.scale, 2 * dist.scale], 1)
    ends = list(itertools.pairwise((-np.inf, -1.0, 0.0, 2.5, np.inf)))
    for member, rtol in ((dist, 1e-12), (NormalMixture(locs, scales), 1e-8)):
        parts = [threshold_weighted_crps_loss(y, member, lower=low, upper=high) for low, high in ends]
        assert_allclose(sum(parts), crps_loss(y, member), rtol=rtol)


@pytest.mark.parametrize("score", [threshold_weighted_crps_loss, threshold_weighted_nll_loss])
def test_the_truth_has_the_best_expected_score_of_a_region(score):
    rng = np.random.default_rng(0)
    loc = rng.normal(size=40_000)
    y, one = rng.normal(loc), np.ones(40_000)
    for bounds in ({"lower": 1.0}, {"upper": -1.0}, {"lower": -0.5, "upper": 0.7}):
        truth = score(y, Normal(loc, one), **bounds)
        for rival in (Normal(loc + 0.3, one), Normal(loc, 1.3 * one), Normal(0.0 * y, np.sqrt(2) * one)):
            assert score(y, rival, **bounds) > truth


def test_translation_and_scale_move_the_bounds(forecast):
    y, dist = forecast
    for factor in (3.0, -3.0):
        moved, bounds = affine(dist, 7.0, factor), sorted((7.0 - 0.5 * factor, 7.0 + 1.5 * factor))
        at = dict(zip(("lower", "upper"), bounds, strict=True))
        crps = threshold_weighted_crps_loss(y, dist, lower=-0.5, upper=1.5)
        assert_allclose(threshold_weighted_crps_loss(7.0 + factor * y, moved, **at), 3 * crps, rtol=1e-9)
        nll = threshold_weighted_nll_loss(y, dist, lower=-0.5, upper=1.5)
        inside = np.mean((y > -0.5) & (y < 1.5))
        assert_allclose(threshold_weighted_nll_loss(7.0 + factor * y, moved, **at), nll + inside * np.log(3))


def test_a_scorer_needs_a_region():
    for name, calls in (
        ("twcrps", r"'lower' or 'upper'. Use make_scorer\('twcrps', lower=...\) or .*'twcrps', upper"),
        ("twnll", r"'lower' or 'upper'. Use make_scorer\('twnll', lower"),
        ("qwcrps", r"'weighting'. Use make_scorer\('qwcrps', weighting=...\)"),
    ):
        with pytest.raises(TypeError, match=f"`options` of '{name}' must include {calls}"):
            make_scorer(name)
        assert f"neg_{name}" not in get_scorer_names()
        with pytest.raises(ValueError, match=r"predefined scorer, got 'neg_.*make_scorer"):
            get_scorer(f"neg_{name}")


def test_blocks_of_rows_give_the_scores_of_all_rows():
    n = 70_000
    rng = np.random.default_rng(0)
    y, dist = rng.normal(size=n), Normal(rng.normal(size=n), np.ones(n))
    parts = [slice(0, 30_000), slice(30_000, n)]
    for score, options in (
        (threshold_weighted_crps_loss, {"lower": 0.4}),
        (quantile_weighted_crps_loss, {}),
    ):
        means = [score(y[rows], dist[rows], **options) for rows in parts]
        assert_allclose(score(y, dist, **options), np.average(means, weights=[3, 4]), rtol=1e-12)


def test_bad_regions_are_named(forecast):
    for options, error, message in (
        ({"lower": 1.0, "upper": 1.0}, ValueError, "`lower` must be less than `upper`, got 1 >= 1"),
        ({"lower": 2.0, "upper": 1.0}, ValueError, "`lower` must be less than `upper`, got 2 >= 1"),
        ({"lower": np.nan}, ValueError, "`lower` must not contain NaN"),
        ({"upper": -np.inf}, ValueError, "`lower` must be less than `upper`"),
        ({"upper": True}, TypeError, "`upper` must be a number, got True"),
        ({"lower": [0.0, 1.0]}, TypeError, r"`lower` must be a number.*For a bound per row, pass clipped"),
    ):
        for score in (threshold_weighted_crps_loss, threshold_weighted_nll_loss):
            with pytest.raises(error, match=message):
                score(*forecast, **options)
        with pytest.raises(error, match=message):
            make_scorer("twcrps", **options)
        with pytest.raises(ValueError, match="`weighting` must be one of"):
            quantile_weighted_crps_loss(*forecast, weighting="centre")
