"""Copulas and their templates, normal, empirical and stacked joint distributions."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr, ndtri
from scipy.stats import multivariate_normal

from skuq.distributions import Empirical, Normal, StudentT, Transformed, concat
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.distributions._joint_points import BLOCK
from skuq.exceptions import NoDensityError, SkuqWarning
from skuq.multivariate import CopulaJoint, EmpiricalJoint, NormalJoint, normal_template, rank_template
from skuq.multivariate._concatenated import ConcatenatedJoint
from skuq.multivariate._template import normal_points, weighted_levels
from tests.multivariate.families import (
    ALL,
    CORRELATION,
    COVARIANCES,
    LOC,
    MARGINALS,
    NORMALS,
    POINTS,
    SCALE,
    N,
)

W = np.array([1.0, 1.0, 1.0])


def test_marginals_are_the_given_ones_and_points_are_their_quantiles():
    dist = ALL["template"]
    for given, kept in zip(MARGINALS, dist.marginals(), strict=True):
        assert kept is given
    points, weights = dist._points(slice(0, 2))
    assert weights is None
    for j, marginal in enumerate(MARGINALS):
        assert_allclose(points[:, :, j], marginal[:2].quantile(dist.ranks[:, j]), rtol=1e-12)


def test_the_constructor_ranks_the_template_again():
    values = ndtr(POINTS)
    kept = CopulaJoint(MARGINALS, values[:100])
    assert_array_equal(kept.ranks, rank_template(POINTS[:100]))
    assert_array_equal(np.sort(kept.ranks, axis=0)[:, 0], (np.arange(100) + 0.5) / 100)


def test_a_template_of_300_rows_gives_the_standard_deviation_of_sums():
    errors = []
    correlation = 0.6 + 0.4 * np.eye(3)
    exact = NormalJoint(LOC, SCALE[:, :, None] * correlation * SCALE[:, None]).linear(W)
    for seed in range(20):
        points = np.random.RandomState(seed).multivariate_normal(np.zeros(3), correlation, size=300)
        total = CopulaJoint(NORMALS, rank_template(points)).linear(W)
        errors.append(np.abs(total.std() / exact.std() - 1).mean())
    assert np.mean(errors) < 0.015


def test_sums_of_many_rows_need_little_more_memory_than_their_members():
    n, k = 20_000, 200
    rng = np.random.RandomState(0)
    dist = CopulaJoint([Normal(rng.normal(size=n), 1.0)] * 3, rank_template(rng.normal(size=(k, 3))))
    tracemalloc.start()
    dist.linear(W)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * k + 8 * 4 * BLOCK


def test_equal_weights_change_nothing_and_whole_weights_repeat_points():
    plain = ALL["template"]
    equal = CopulaJoint(MARGINALS, plain.ranks, weights=np.full(len(plain.ranks), 3.0), names=plain.names)
    assert_allclose(equal.linear(W).quantile([0.1, 0.9]), plain.linear(W).quantile([0.1, 0.9]), rtol=1e-9)
    y = plain.mean()
    assert_allclose(equal.cdf(y), plain.cdf(y), rtol=1e-9)
    assert_allclose(equal.corr(), plain.corr(), rtol=1e-9)
    assert_allclose(equal.interval(simultaneous=True), plain.interval(simultaneous=True), rtol=1e-9)


def test_weights_select_the_dependence_and_keep_the_marginals():
    up = np.column_stack([np.linspace(0.01, 0.99, 50)] * 2)
    ranks = np.concatenate([up, np.column_stack([up[:, 0], 1 - up[:, 1]])])
    weights = np.repeat([[1.0, 0.0], [0.0, 1.0]], 50, axis=1)
    dist = CopulaJoint([Normal([0.0, 0.0], 1.0)] * 2, ranks, weights=weights)
    assert_allclose(dist.corr()[:, 0, 1], [1.0, -1.0], atol=1e-3)
    assert_allclose(dist.linear([1, 1]).std(), [2.0, 0.0], atol=0.05)
    points, share = dist._points(slice(None))
    for row in range(2):
        kept = np.sort(points[row, share[row] > 0, 0])
        assert_allclose(kept, Normal(0.0, 1.0).quantile((np.arange(50) + 0.5) / 50)[0], atol=1e-9)


def test_normal_copula_with_normal_marginals_is_multivariate_normal():
    copula, normal = ALL["normal copula and marginals"], ALL["row covariances"]
    y = normal.mean() + 0.3
    assert_allclose(copula.logpdf(y), normal.logpdf(y), rtol=1e-9)
    assert_allclose(copula.cdf(y), normal.cdf(y), rtol=1e-4)
    assert_allclose(copula.cov(), normal.cov(), rtol=1e-9)
    assert_allclose(copula.linear(W).std(), normal.linear(W).std(), rtol=1e-9)
    given = np.where([True, False, False], y, np.nan)
    assert_allclose(copula.condition(given).cov(), normal.condition(given).cov(), rtol=1e-9)


def test_density_is_that_of_the_transformed_normal():
    """The density of exp(X) follows from the density of X."""
    base = Normal(LOC[:, 0], SCALE[:, 0])
    marginals = [Transformed(base, np.exp, np.log), Normal(LOC[:, 1], SCALE[:, 1])]
    correlation = CORRELATION[:2, :2]
    dist = CopulaJoint(marginals, normal_template(correlation), correlation=correlation)
    y = np.column_stack([np.full(len(base), 1.3), LOC[:, 1] + 0.2])
    for row in (0, 5):
        scale = np.diag(SCALE[row, :2])
        at = [np.log(1.3), y[row, 1]]
        exact = multivariate_normal.logpdf(at, LOC[row, :2], scale @ correlation @ scale) - np.log(1.3)
        assert dist.logpdf(y)[row] == pytest.approx(exact, rel=1e-9)
    outside = np.where([True, False], -1.0, y)
    assert_array_equal(dist.logpdf(outside), -np.inf)


def test_independence_is_a_normal_copula_without_correlation():
    dist = CopulaJoint(MARGINALS, normal_template(np.eye(3)), correlation=np.eye(3))
    y = LOC + 0.4
    expected = np.prod([part.cdf(column) for part, column in zip(MARGINALS, y.T, strict=True)], axis=0)
    assert_allclose(dist.cdf(y), expected, rtol=1e-3)
    densities = np.sum([part.logpdf(column) for part, column in zip(MARGINALS, y.T, strict=True)], axis=0)
    assert_allclose(dist.logpdf(y), densities, rtol=1e-12)


def test_conditioning_lowers_the_crps_at_a_correlation_of_08():
    correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    rng = np.random.RandomState(3)
    y = rng.multivariate_normal([0.0, 0.0], correlation, size=400)
    template = rank_template(rng.multivariate_normal([0.0, 0.0], correlation, size=600))
    marginals = [Normal(np.zeros(400), 1.0), StudentT(np.zeros(400), 1.0, df=200)]
    before = marginals[1].crps(y[:, 1]).mean()
    given = np.column_stack([y[:, 0], np.full(400, np.nan)])
    options = {"empirical": {"ranks": template}}
    options["normal"] = {"ranks": normal_template(correlation), "correlation": correlation}
    for kind, arguments in options.items():
        conditional = CopulaJoint(marginals, **arguments).condition(given).marginal(0)
        assert conditional.crps(y[:, 1]).mean() < (1 - 0.3) * before, kind
        low, high = conditional.interval(0.9).T
        assert 0.86 < ((low <= y[:, 1]) & (y[:, 1] <= high)).mean() < 0.95


def test_conditional_marginal_of_a_normal_copula_is_exact():
    dist = ALL["normal copula"]
    given = dist.condition(np.where([True, False, False], LOC + 0.5 * SCALE, np.nan)).marginal("price")
    y = LOC[:, 1] + 0.3
    score = dist.marginal("price")._normal_score(y)
    exact = ndtr((score - 0.8 * 0.5) / 0.6)
    assert_allclose(given.cdf(y), exact, rtol=1e-9)
    assert_allclose(given.ppf(given.cdf(y)), y, rtol=1e-9)
    left, right = given.cdf(y - 1e-5), given.cdf(y + 1e-5)
    assert_allclose(given.pdf(y), (right - left) / 2e-5, rtol=1e-5)
    draws = given.sample(20_000, random_state=0)
    assert_allclose(given.mean(), draws.mean(axis=1), atol=0.05)
    assert_allclose(given.std(), draws.std(axis=1), rtol=0.05)


def test_values_outside_of_the_support_warn_and_stay_finite():
    box = Normal(np.full(4, 0.5), 0.3).clip(0.0, 1.0)
    ranks = rank_template(POINTS[:, :2])
    for arguments in (
        {"ranks": ranks},
        {"ranks": normal_template(CORRELATION[:2, :2]), "correlation": CORRELATION[:2, :2]},
    ):
        dist = CopulaJoint([box, Normal(np.zeros(4), 1.0)], **arguments)
        y = np.column_stack([[0.5, 7.0, -3.0, 0.2], np.full(4, np.nan)])
        with pytest.warns(SkuqWarning, match=r"target 0 is outside the support .* in 2 rows.*row 1"):
            given = dist.condition(y)
        assert np.isfinite(given.mean()).all()
        assert given.mean()[1, 0] > given.mean()[0, 0] > given.mean()[2, 0]


def test_perfect_correlation_determines_the_other_target():
    ones = np.ones((2, 2))
    dist = CopulaJoint(MARGINALS[:2], normal_template(ones), correlation=ones)
    assert not dist.has_density
    given = dist.condition(np.column_stack([LOC[:, 0], np.full(len(LOC), np.nan)]))
    assert_allclose(given.mean()[:, 0], LOC[:, 1], rtol=1e-9)
    assert_array_equal(given.std(), 0.0)


def test_infinite_quantiles_use_the_finite_part():
    conformal = ConformalPredictive(np.zeros(3), np.ones(3), np.linspace(-1, 1, 15))
    dist = CopulaJoint([conformal, Normal(np.zeros(3), 1.0)], rank_template(POINTS[:, :2]))
    total = dist.linear([1.0, 1.0])
    assert np.isfinite(total.members).all()
    assert_allclose(total.mean(), dist.mean().sum(axis=1), atol=1e-9)
    assert np.isfinite(dist.sample(50, random_state=0)).all()


def test_marginals_without_a_mean():
    cauchy = StudentT(np.zeros(3), 1.0, df=1)
    dist = CopulaJoint([cauchy, Normal(np.zeros(3), 1.0)], rank_template(POINTS[:, :2]))
    assert np.isfinite(dist.linear([1.0, 1.0]).quantile([0.1, 0.9])).all()
    with pytest.raises(ValueError, match="std"):
        dist.cov()


# ---------------------------------------------------------------------- templates


def test_ranks_are_evenly_spaced_in_each_column():
    values = np.random.RandomState(0).normal(size=(80, 3))
    ranks = rank_template(values)
    assert_array_equal(np.sort(ranks, axis=0), np.tile(((np.arange(80) + 0.5) / 80)[:, np.newaxis], 3))
    assert_array_equal(ranks.argsort(axis=0), values.argsort(axis=0))
    assert_array_equal(rank_template(np.exp(values)), ranks)
    assert_array_equal(rank_template(ranks), ranks)
    assert_array_equal(rank_template([[-np.inf], [0.0], [np.inf]])[:, 0], [1 / 6, 0.5, 5 / 6])


@pytest.mark.parametrize("d", [2, 3, 8])
def test_normal_template_has_the_correlation(d):
    correlation = 0.6 * np.ones((d, d)) + 0.4 * np.eye(d)
    ranks = normal_template(correlation)
    assert_array_equal(np.sort(ranks, axis=0), np.tile(((np.arange(1024) + 0.5) / 1024)[:, np.newaxis], d))
    assert_allclose(np.corrcoef(ndtri(ranks).T), correlation, atol=0.01)
    assert_array_equal(normal_template(correlation), ranks)
    points = normal_points(d)
    assert_allclose(points.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(points.T @ points / len(points), np.eye(d), atol=1e-12)


def test_weighted_levels_are_those_of_repeated_points():
    order = np.array([[0, 2], [1, 1], [2, 0]])
    weights = np.array([1.0, 2.0, 1.0]) / 4
    assert_allclose(weighted_levels(order, weights), [[0.125, 0.875], [0.5, 0.5], [0.875, 0.125]])
    equal = weighted_levels(order, np.full((5, 3), 1 / 3))
    assert_allclose(equal, np.tile((order[:, ::-1] + 0.5) / 3 * 0 + equal[0], (5, 1, 1)))
    assert_allclose(np.sort(equal[0], axis=0), np.tile([[1 / 6], [0.5], [5 / 6]], 2))
    zeros = weighted_levels(np.array([[0], [1], [2]]), np.array([0.0, 1.0, 0.0]))
    assert_array_equal(zeros, 0.5)


# ---------------------------------------------------------------------- normal


def test_density_and_cdf_are_those_of_scipy():
    y = LOC + 0.3
    for dist, matrices in ((ALL["one covariance"], [CORRELATION] * N), (ALL["row covariances"], COVARIANCES)):
        density = [multivariate_normal.logpdf(*row) for row in zip(y, LOC, matrices, strict=True)]
        assert_allclose(dist.logpdf(y), density, rtol=1e-12)
        cdf = [multivariate_normal.cdf(*row) for row in zip(y, LOC, matrices, strict=True)]
        assert_allclose(dist.cdf(y), cdf, atol=1e-4)
        assert_array_equal(dist.cdf(y), dist.cdf(y))


def test_marginals_sums_and_conditionals_are_closed():
    dist = ALL["row covariances"]
    assert all(type(marginal) is Normal for marginal in dist.marginals())
    w = np.array([1.0, -2.0, 0.5])
    total = dist.linear(w)
    assert type(total) is Normal
    assert_allclose(total.std() ** 2, np.einsum("i,nij,j->n", w, COVARIANCES, w), rtol=1e-12)
    y = LOC + np.array([0.5, 0.0, -0.2])
    given = dist.condition(np.where([True, False, True], y, np.nan))
    for row in range(N):
        within = COVARIANCES[row][np.ix_([0, 2], [0, 2])]
        between = COVARIANCES[row][1, [0, 2]]
        weights = np.linalg.solve(within, between)
        assert given.mean()[row, 0] == pytest.approx(LOC[row, 1] + weights @ [0.5, -0.2])
        assert given.std()[row, 0] ** 2 == pytest.approx(COVARIANCES[row][1, 1] - weights @ between)


def test_the_density_is_the_product_of_marginal_and_conditional():
    dist = ALL["row covariances"]
    y = LOC + 0.4
    given = dist.condition(np.where([True, False, False], y, np.nan))
    assert_allclose(given.logpdf(y[:, 1:]) + dist.marginal(0).logpdf(y[:, 0]), dist.logpdf(y), rtol=1e-9)


def test_targets_of_very_different_units():
    units = np.array([1e-8, 1.0, 1e9])
    dist = NormalJoint(LOC * units, units[:, np.newaxis] * CORRELATION * units)
    assert_allclose(dist.corr()[0], CORRELATION, rtol=1e-9)
    assert_allclose(dist.cdf((LOC + 0.3) * units), ALL["one covariance"].cdf(LOC + 0.3), atol=1e-4)
    shift = np.log(units).sum()
    assert_allclose(
        dist.logpdf((LOC + 0.3) * units) + shift, ALL["one covariance"].logpdf(LOC + 0.3), rtol=1e-9
    )


def test_constant_targets():
    dist = NormalJoint([[1.0, 2.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, 4.0]])
    assert not dist.has_density
    with pytest.raises(NoDensityError):
        dist.logpdf([[1.0, 2.0], [1.0, 2.0]])
    assert_array_equal(dist.corr()[0], np.eye(2))
    assert_allclose(dist.cdf([[1.0, 2.0], [0.9, 2.0]]), [0.5, 0.0])
    with pytest.warns(SkuqWarning, match="target 0 is outside the support"):
        given = dist.condition([[1.0, np.nan], [1.5, np.nan]])
    assert_array_equal(given.mean()[:, 0], 2.0)
    assert_allclose(dist.linear([1.0, 1.0]).std(), 2.0)


# ---------------------------------------------------------------------- empirical


RNG = np.random.RandomState(1)
MEMBERS, WEIGHTS = RNG.normal(size=(4, 30, 2)), RNG.uniform(size=(4, 30))


def test_functionals_are_exact():
    dist = EmpiricalJoint(MEMBERS, WEIGHTS)
    share = WEIGHTS / WEIGHTS.sum(axis=1, keepdims=True)
    for row in range(4):
        exact = np.cov(MEMBERS[row].T, aweights=share[row], bias=True)
        assert_allclose(dist.cov()[row], exact, rtol=1e-9)
    product = dist.apply(lambda y: y[..., 0] * y[..., 1])
    assert_allclose(product.mean(), (MEMBERS.prod(axis=2) * share).sum(axis=1), rtol=1e-9)
    assert_array_equal(dist.marginal(1).members, Empirical(MEMBERS[:, :, 1], WEIGHTS).members)


def test_shared_members_are_members_of_each_row():
    shared = EmpiricalJoint(MEMBERS[0], WEIGHTS)
    copies = EmpiricalJoint(np.tile(MEMBERS[0], (4, 1, 1)), WEIGHTS)
    assert shared.shape == copies.shape == (4, 2)
    y = np.full((4, 2), 0.2)
    assert_allclose(shared.cdf(y), copies.cdf(y), rtol=1e-12)
    assert_allclose(shared.cov(), copies.cov(), rtol=1e-12)
    assert_allclose(shared.linear([1, 2]).std(), copies.linear([1, 2]).std(), rtol=1e-12)
    assert_array_equal(shared.sample(3, random_state=0), copies.sample(3, random_state=0))
    assert_array_equal(shared[[2, 0]].weights, shared.weights[[2, 0]])
    assert EmpiricalJoint(MEMBERS[0]).shape == EmpiricalJoint(MEMBERS[0], WEIGHTS[0]).shape == (1, 2)


def test_condition_outside_of_the_members_warns():
    dist = EmpiricalJoint(MEMBERS)
    with pytest.warns(SkuqWarning, match="target 1 is outside the support"):
        given = dist.condition([[np.nan, 50.0]] * 4)
    nearest = MEMBERS[np.arange(4), MEMBERS[:, :, 1].argmax(axis=1), 0]
    heaviest = given.weights.argmax(axis=1)
    assert_array_equal(given.members[np.arange(4), heaviest, 0], nearest)


# ---------------------------------------------------------------------- stacked


def test_templates_of_folds_stay_apart():
    """The folds of a cross-validation have different templates."""
    parts = [
        CopulaJoint([part[rows] for part in MARGINALS], rank_template(POINTS[start::2]))
        for start, rows in enumerate((slice(0, 5), slice(5, N)))
    ]
    both = concat(parts)
    assert isinstance(both, ConcatenatedJoint)
    y = np.column_stack([part.mean() for part in MARGINALS])
    assert_allclose(both.cdf(y), np.concatenate([parts[0].cdf(y[:5]), parts[1].cdf(y[5:])]))
    again = concat([both[:3], both[3:]])
    assert_allclose(again.linear([1, 1, 1]).std(), both.linear([1, 1, 1]).std())
    dist = ALL["template"]
    assert type(concat([dist[3:], dist[:3]])) is CopulaJoint  # equal templates
    for order in ([0.5], [], [99], [[0]]):
        with pytest.raises(ValueError, match="`order` must"):
            ConcatenatedJoint([dist], order)
