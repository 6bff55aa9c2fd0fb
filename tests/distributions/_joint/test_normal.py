"""Multivariate normal distributions, compared with scipy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from skuq.distributions import Normal, NormalJoint
from skuq.exceptions import NoDensityError, SkuqWarning
from tests.distributions._joint.families import ALL, CORRELATION, COVARIANCES, LOC, N


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


@pytest.mark.parametrize(
    ("loc", "covariance", "message"),
    [
        (np.zeros(3), np.eye(3), r"`loc` must have shape \(n, d\)"),
        (np.zeros((2, 3)), np.eye(2), r"`covariance` must have shape \(3, 3\) or \(2, 3, 3\)"),
        ([[0.0, np.nan]], np.eye(2), "`loc` must be finite"),
        ([[0.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]], "`covariance` must be positive semidefinite"),
        ([[0.0, 0.0]] * 2, [np.eye(2), [[1.0, 0.1], [0.4, 1.0]]], "be symmetric.*at row 1"),
        ([[0.0, 0.0]], [[np.inf, 0.0], [0.0, 1.0]], "be finite"),
    ],
)
def test_bad_arguments(loc, covariance, message):
    with pytest.raises(ValueError, match=message):
        NormalJoint(loc, covariance)
