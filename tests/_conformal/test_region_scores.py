"""Nonconformity scores of several targets."""

import numpy as np
import pytest

from skuq._conformal.region_scores import REGION_SCORES
from skuq.distributions import NormalJoint

COVARIANCE = np.array([[4.0, 1.0], [1.0, 1.0]])


def dist(n=5, seed=0):
    rng = np.random.default_rng(seed)
    return NormalJoint(rng.normal(size=(n, 2)), COVARIANCE), rng.normal(size=(n, 2))


def test_box_score_is_the_largest_standardized_residual():
    joint, y = dist()
    score = REGION_SCORES["box"]
    expected = (np.abs(y - joint.mean()) / [2.0, 1.0]).max(axis=1)
    assert score.score(score.read(joint), y) == pytest.approx(expected)


def test_ellipsoid_score_is_the_mahalanobis_distance():
    joint, y = dist()
    score = REGION_SCORES["ellipsoid"]
    difference = y - joint.mean()
    expected = np.sqrt(np.sum(difference @ np.linalg.inv(COVARIANCE) * difference, axis=1))
    assert score.score(score.read(joint), y) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("shape", sorted(REGION_SCORES))
def test_the_region_at_the_score_of_y_contains_y(shape):
    joint, y = dist(n=2000)
    score = REGION_SCORES[shape]
    prediction = score.read(joint)
    radius = score.score(prediction, y)
    assert score.region(prediction, radius).contains(y).all()
    assert not score.region(prediction, 0.999 * radius).contains(y).any()


@pytest.mark.parametrize("shape", sorted(REGION_SCORES))
@pytest.mark.parametrize("std", [0.0, np.inf])
def test_moments_must_be_finite_and_positive(shape, std):
    class Broken(NormalJoint):
        def std(self):
            return np.array([[1.0, std]])

    with pytest.raises(
        ValueError, match=rf"positive standard deviations, got 0 and {std:g} at row 0, target 1"
    ):
        REGION_SCORES[shape].read(Broken([[0.0, 0.0]], COVARIANCE))
