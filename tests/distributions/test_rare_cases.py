"""Inputs that reach the branches which no other test of distributions reaches."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import (
    Concatenated,
    CopulaJoint,
    Empirical,
    EmpiricalJoint,
    LevelMap,
    Mixture,
    Normal,
    NormalJoint,
    Quantiles,
    Recalibrated,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    Transformed,
    Truncated,
    affine,
    concat,
)
from skuq.exceptions import NoDecompositionError

NORMAL = Normal([0.0, 1.0], [1.0, 2.0])
QUANTILES = Quantiles([0.25, 0.5, 0.75], [[-1.0, 0.0, 1.0], [0.0, 1.0, 3.0]])


def test_levels_have_one_dimension():
    with pytest.raises(ValueError, match="`levels`"):
        NORMAL.quantile([[0.1, 0.9]])


def test_index_has_one_dimension():
    with pytest.raises(IndexError, match="the index of a Normal must be one-dimensional"):
        NORMAL[np.array([[0, 1]])]


def test_epistemic_scale_has_the_shape_of_the_scale():
    with pytest.raises(ValueError, match="`epistemic_scale` must have shape"):
        Normal([0.0, 1.0], [1.0, 1.0], epistemic_scale=[[0.5, 0.5]])


def test_student_t_without_epistemic_scale_has_no_parts():
    dist = StudentT([0.0], [1.0], df=5)
    for part in (dist.epistemic, dist.aleatoric):
        with pytest.raises(NoDecompositionError):
            part()


def test_level_map_may_contain_the_ends():
    inner, whole = LevelMap([0.3, 0.6], [0.2, 0.7]), LevelMap([0.0, 0.3, 0.6, 1.0], [0.0, 0.2, 0.7, 1.0])
    assert inner.equals(whole)
    assert repr(whole) == repr(inner) == "LevelMap(4 knots)"
    assert pickle.loads(pickle.dumps(whole)).equals(whole)


def test_scores_of_a_level_map_have_one_shape():
    with pytest.raises(ValueError, match="scores"):
        LevelMap.from_scores([0.0, 1.0], [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    "dist",
    [
        QUANTILES,
        Recalibrated(NORMAL, LevelMap([0.5], [0.4])),
        Mixture([NORMAL, StudentT([0.0, 1.0], 1.0, df=5)]),
    ],
    ids=lambda dist: type(dist).__name__,
)
def test_affine_map_of_rows_with_different_signs(dist):
    shift, factor = np.array([1.0, 2.0]), np.array([2.0, -1.0])
    mapped = affine(dist, shift, factor)
    expected = np.sort(shift[:, np.newaxis] + factor[:, np.newaxis] * dist.interval(0.5), axis=1)
    np.testing.assert_allclose(mapped.interval(0.5), expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match=r"`factor` must be nonzero in every row, or zero in every row"):
        affine(dist, shift, [0.0, 1.0])


def test_one_joint_distribution_is_its_own_stack():
    dist = EmpiricalJoint(np.arange(12.0).reshape(2, 3, 2))
    assert concat([dist]) is dist


def test_families_of_truncated_distributions_are_stacked():
    parts = [Truncated(NORMAL, lower=0.0), Truncated(Empirical([[1.0, 2.0, 3.0]]), lower=0.0)]
    whole = concat(parts)
    assert isinstance(whole, Concatenated)
    np.testing.assert_allclose(whole.mean(), np.concatenate([part.mean() for part in parts]))


class Doubled:
    """Function that cannot be a key of a dictionary."""

    __hash__ = None

    def __call__(self, x):
        return 2.0 * np.asarray(x)


def test_function_that_cannot_be_hashed_is_differentiated_numerically():
    double, half = Doubled(), lambda x: 0.5 * np.asarray(x)
    dist = Transformed(NORMAL, double, half)
    np.testing.assert_allclose(dist.pdf(1.0), affine(NORMAL, 0.0, 2.0).pdf(1.0), rtol=1e-6)


def test_rows_with_and_without_a_density_are_stacked():
    counts, normals = ScipyDistribution(stats.poisson([1.0, 2.0])), Normal([0.0, 1.0], [1.0, 2.0])
    stacked = concat([counts.clip(upper=3), normals.clip(upper=3)])
    y = np.array([0.0, 1.5, 2.9, 3.0])
    expected = [stats.poisson(1).cdf(0), stats.poisson(2).cdf(1.5), stats.norm(0, 1).cdf(2.9), 1.0]
    np.testing.assert_allclose(stacked.cdf(y), expected)
    other = concat([counts, ScipyDistribution(stats.gamma([1.0, 2.0]))])
    expected = [*stats.poisson([1, 2]).cdf(y[:2]), *stats.gamma([1, 2]).cdf(y[2:])]
    np.testing.assert_allclose(other.cdf(y), expected)


def test_joint_distributions_of_one_target_take_one_dimension():
    joint = NormalJoint(np.zeros((2, 1)), np.ones((2, 1, 1)))
    y = np.array([0.0, 1.0])
    np.testing.assert_allclose(joint.cdf(y), stats.norm.cdf(y))
    np.testing.assert_allclose(joint.logpdf(y), stats.norm.logpdf(y))


def test_joint_distributions_of_different_kinds_are_stacked():
    rng = np.random.default_rng(0)
    normal = NormalJoint(np.zeros((2, 2)), np.broadcast_to(np.eye(2), (2, 2, 2)))
    margin = Normal([0.0, 1.0], [1.0, 2.0])
    copula = CopulaJoint([margin, margin], [[0.25, 0.25], [0.75, 0.75]], correlation=np.eye(2))
    y = rng.standard_normal((4, 2))
    stacked = concat([normal, copula])
    np.testing.assert_allclose(stacked.logpdf(y), [*normal.logpdf(y[:2]), *copula.logpdf(y[2:])])
    few, many = (EmpiricalJoint(rng.standard_normal((2, m, 2))) for m in (5, 7))
    np.testing.assert_allclose(concat([few, many]).mean(), [*few.mean(), *many.mean()])


def test_a_shared_table_with_many_members_has_few_landmarks():
    members = np.sort(np.random.default_rng(0).standard_normal(5000))
    dist = SharedEmpirical([0.0, 2.0], [1.0, 3.0], members)
    np.testing.assert_allclose(dist.mean(), [members.mean(), 2 + 3 * members.mean()])
    table = dist.clip(-1, 4)
    expected = [np.clip(members, -1, 4).mean(), np.clip(2 + 3 * members, -1, 4).mean()]
    np.testing.assert_allclose(table.mean(), expected, rtol=1e-9)
