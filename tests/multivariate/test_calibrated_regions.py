"""Conformal regions from one model or from the models of folds, and their nonconformity scores."""

import numpy as np
import pytest

from skuq._numeric import WeightedRanks
from skuq.conformal._base import FoldModel
from skuq.multivariate import NormalJoint
from skuq.multivariate._regions import REGION_SCORES, CrossRegions, SplitRegions


class Constant:
    """Model that predicts one normal distribution."""

    def __init__(self, mean, covariance):
        self.mean, self.covariance = mean, covariance

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return np.tile(self.mean, (len(X), 1))

    def predict_dist(self, X):
        return NormalJoint(self.predict(X), self.covariance)


COVARIANCE = np.array([[1.0, 0.6], [0.6, 1.0]])
MODELS = [Constant([0.1 * k, -0.1 * k], (1 + 0.1 * k) * COVARIANCE) for k in range(3)]
X = np.zeros((4, 1))
every_shape = pytest.mark.parametrize("shape", sorted(REGION_SCORES))


def cross(shape, weight=None, n=29, seed=0):
    rng = np.random.default_rng(seed)
    return CrossRegions(
        tuple(FoldModel(one) for one in MODELS),
        REGION_SCORES[shape],
        np.arange(n) % 3,
        rng.uniform(0, 3, size=n),
        np.ones(n) if weight is None else weight,
    )


def accepted(regions, y, coverage):
    """Return whether fewer rows than c (n + 1) have smaller scores than y, by the definition of CV+."""
    score = regions.score
    own = [float(score.score(score.read(one.predict_dist(X[:1])), y[np.newaxis])[0]) for one in MODELS]
    below = regions.weight[regions.scores < np.array(own)[regions.fold]].sum()
    return below < coverage * (regions.n_calibration + 1) - 1e-9


SKEWED = np.array([[4.0, 1.0], [1.0, 1.0]])


@every_shape
def test_scores_and_their_regions(shape):
    """The largest standardized residual, or the Mahalanobis distance; the region at this score ends at y."""
    rng = np.random.default_rng(0)
    joint, y = NormalJoint(rng.normal(size=(2000, 2)), SKEWED), rng.normal(size=(2000, 2))
    score, difference = REGION_SCORES[shape], y - joint.mean()
    prediction = score.read(joint)
    radius = score.score(prediction, y)
    if shape == "box":
        expected = (np.abs(difference) / [2.0, 1.0]).max(axis=1)
    else:
        expected = np.sqrt(np.sum(difference @ np.linalg.inv(SKEWED) * difference, axis=1))
    assert radius == pytest.approx(expected, rel=1e-6 if shape == "box" else 1e-4)
    assert score.region(prediction, radius).contains(y).all()
    assert not score.region(prediction, 0.999 * radius).contains(y).any()


@every_shape
@pytest.mark.parametrize("std", [0.0, np.inf])
def test_moments_must_be_finite_and_positive(shape, std):
    class Broken(NormalJoint):
        def std(self):
            return np.array([[1.0, std]])

    message = rf"positive standard deviations, got 0 and {std:g} at row 0, target 1"
    with pytest.raises(ValueError, match=message):
        REGION_SCORES[shape].read(Broken([[0.0, 0.0]], SKEWED))


@every_shape
def test_the_split_region_has_the_conformal_rank(shape):
    score, scores = REGION_SCORES[shape], np.arange(1.0, 10.0)
    regions = SplitRegions(FoldModel(MODELS[0]), score, WeightedRanks(scores))
    region = regions.region(X, 0.9)  # rank ceil(0.9 * 10) = 9
    assert region.bounds()[0, :, 0] == pytest.approx([-9.0, 9.0])
    assert np.isinf(regions.region(X, 0.91).bounds()).all()
    assert regions.n_calibration == 9


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_cross_ellipsoids_contain_the_accepted_points(weighted, coverage):
    rng = np.random.default_rng(1)
    regions = cross("ellipsoid", rng.integers(1, 4, 29).astype(float) if weighted else None)
    region = regions.region(np.zeros((100, 1)), coverage)
    points = rng.normal(scale=2.0, size=(100, 2))
    expected = [accepted(regions, point, coverage) for point in points]
    assert region.contains(points).tolist() == expected
    assert 0.1 < np.mean(expected) < 0.99


@every_shape
@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_contain_all_accepted_points_and_no_smaller_box_of_order_statistics_does(shape, weighted):
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 4, 29).astype(float) if weighted else None
    regions = cross(shape, weight)
    low, high = regions.region(X[:1], 0.8).bounds()[0]
    points = rng.normal(scale=2.0, size=(150, 2))
    inside = np.array([accepted(regions, point, 0.8) for point in points])
    assert ((low <= points[inside]) & (points[inside] <= high)).all()
    reached = np.repeat(regions.scores, 1 if weight is None else weight.astype(int))
    fold = np.repeat(regions.fold, 1 if weight is None else weight.astype(int))
    for j in range(2):
        center = np.array([one.mean[j] for one in MODELS])[fold]
        half = reached * np.sqrt([one.covariance[j, j] for one in MODELS])[fold]
        rank = int(np.ceil(0.8 * (len(reached) + 1)))
        assert high[j] == pytest.approx(np.sort(center + half)[rank - 1])
        assert low[j] == pytest.approx(-np.sort(half - center)[rank - 1])


def test_volume_of_cross_ellipsoids_is_measured_within_their_box():
    region = cross("ellipsoid").region(X, 0.8)
    lower, upper = region.bounds()[0]
    points = np.random.default_rng(0).uniform(lower, upper, size=(40_000, 2))
    inside = region[np.zeros(40_000, dtype=int)].contains(points).mean()
    assert region.volume() == pytest.approx(inside * np.prod(upper - lower), rel=0.02)


@every_shape
def test_regions_of_too_few_rows_contain_everything(shape):
    region = cross(shape, n=8).region(X, 0.9)
    assert region.contains(np.full((4, 2), 1e6)).all()
    assert np.isinf(region.volume()).all()
    assert len(region[1:]) == 3


def test_equal_models_give_the_region_of_one_model():
    regions = cross("ellipsoid")
    same = CrossRegions(
        (FoldModel(MODELS[0]),) * 3, regions.score, regions.fold, regions.scores, regions.weight
    ).region(X, 0.8)
    one = SplitRegions(FoldModel(MODELS[0]), regions.score, WeightedRanks(regions.scores)).region(X, 0.8)
    assert same.bounds() == pytest.approx(one.bounds())
    points = np.random.default_rng(0).normal(scale=2.0, size=(4, 2))
    assert np.array_equal(same.contains(points), one.contains(points))
    assert same.volume() == pytest.approx(one.volume(), rel=0.02)


def test_a_univariate_model_raises():
    class Univariate(Constant):
        def predict_dist(self, X):
            return super().predict_dist(X).marginal(0)

    with pytest.raises(TypeError, match="joint distribution of several targets"):
        SplitRegions(
            FoldModel(Univariate([0.0, 0.0], COVARIANCE)), REGION_SCORES["box"], WeightedRanks(np.ones(3))
        ).region(X, 0.5)
