"""Empirical distributions of several targets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.distributions import Empirical, EmpiricalJoint
from skuq.exceptions import SkuqWarning

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


def test_members_alone_are_one_row():
    assert EmpiricalJoint(MEMBERS[0]).shape == (1, 2)
    assert EmpiricalJoint(MEMBERS[0], WEIGHTS[0]).shape == (1, 2)


def test_condition_outside_of_the_members_warns():
    dist = EmpiricalJoint(MEMBERS)
    with pytest.warns(SkuqWarning, match="target 1 is outside the support"):
        given = dist.condition([[np.nan, 50.0]] * 4)
    nearest = MEMBERS[np.arange(4), MEMBERS[:, :, 1].argmax(axis=1), 0]
    heaviest = given.weights.argmax(axis=1)
    assert_array_equal(given.members[np.arange(4), heaviest, 0], nearest)


@pytest.mark.parametrize(
    ("members", "weights", "message"),
    [
        (np.zeros(3), None, "`members` must have shape"),
        (np.zeros((2, 0, 3)), None, "`members` must have shape"),
        (np.full((2, 3, 1), np.nan), None, "`members` must be finite"),
        (np.zeros((2, 3, 1)), np.ones(2), "`weights` must have shape"),
        (np.zeros((2, 3, 1)), -np.ones(3), "`weights` must be non-negative"),
        (np.zeros((3, 1)), np.zeros((2, 3)), "positive sum"),
    ],
)
def test_bad_arguments(members, weights, message):
    with pytest.raises(ValueError, match=message):
        EmpiricalJoint(members, weights)
