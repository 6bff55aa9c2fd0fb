"""Copulas with univariate marginals."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from skuq.distributions import (
    ConformalPredictive,
    CopulaJoint,
    Normal,
    NormalJoint,
    StudentT,
    Transformed,
    normal_template,
    rank_template,
)
from skuq.distributions._joint.points import BLOCK
from skuq.exceptions import SkuqWarning
from tests.distributions._joint.families import ALL, CORRELATION, LOC, MARGINALS, NORMALS, POINTS, SCALE

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


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"marginals": MARGINALS[0]}, TypeError, "`marginals` must be a sequence"),
        ({"marginals": []}, ValueError, "at least one"),
        (
            {"marginals": [MARGINALS[0], "normal", MARGINALS[2]]},
            TypeError,
            "must hold distributions, got str",
        ),
        ({"marginals": [*MARGINALS[:2], Normal(0.0, 1.0)]}, ValueError, "same number of rows"),
        ({"ranks": POINTS}, ValueError, "strictly between 0 and 1"),
        ({"ranks": ndtr(POINTS[:, :2])}, ValueError, r"`ranks` must have shape \(K, 3\)"),
        ({"ranks": ndtr(POINTS[:1])}, ValueError, "K >= 2"),
        ({"weights": np.ones(4)}, ValueError, "`weights` must have shape"),
        ({"weights": np.zeros(300)}, ValueError, "positive sum"),
        ({"weights": np.ones(300), "correlation": np.eye(3)}, ValueError, "`weights` must be None"),
        ({"correlation": np.eye(2)}, ValueError, r"`correlation` must have shape \(3, 3\)"),
    ],
)
def test_bad_arguments(change, error, message):
    with pytest.raises(error, match=message):
        CopulaJoint(**{"marginals": MARGINALS, "ranks": ndtr(POINTS), **change})
