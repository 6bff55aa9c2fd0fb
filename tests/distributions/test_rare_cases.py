"""Inputs that reach the branches which no other test of distributions reaches."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from skuq.distributions import (
    Concatenated,
    Empirical,
    EmpiricalJoint,
    LevelMap,
    Mixture,
    Normal,
    Quantiles,
    Recalibrated,
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
