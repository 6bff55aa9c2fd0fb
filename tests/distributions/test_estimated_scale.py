"""Distributions of errors whose scale and shape are estimated from few residuals."""

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import LevelMap, Normal, Recalibrated, StudentT
from skuq.distributions._estimated_scale import (
    fit_student,
    predictive_df,
    predictive_scores,
    prior_share,
    shrunk_level_map,
)
from skuq.recalibration import IsotonicRecalibrator

SCORES = np.linspace(-5, 5, 101)


def shape_of(z):
    """Return the shape of residuals as fitted, and averaged with the predictive distribution."""
    family = Normal(0.0, fit_student(z, None)[1])
    level_map = IsotonicRecalibrator().fit(family[np.zeros(len(z), dtype=int)], z).level_map_
    return Recalibrated(family, level_map), Recalibrated(family, shrunk_level_map(level_map, len(z)))


@pytest.mark.parametrize("n", [12, 20, 50])
@pytest.mark.parametrize(
    "noise", [stats.norm(), stats.gamma(3, loc=-3), stats.t(4)], ids=["normal", "gamma", "t"]
)
def test_intervals_of_few_residuals_cover_on_average(noise, n):
    rng = np.random.default_rng(0)
    coverages = []
    for _ in range(80):
        of_shapes = []
        for shape in shape_of(noise.rvs(size=n, random_state=rng)):
            lower, upper = shape.interval([0.9, 0.98])[0]
            of_shapes.append(noise.cdf(upper) - noise.cdf(lower))
        coverages.append(of_shapes)
    fitted, averaged = np.mean(coverages, axis=0)
    assert 0.88 <= averaged[0] <= 0.93
    assert 0.96 <= averaged[1] <= 0.99
    if n <= 20:  # few residuals have no rank for 98 %
        assert averaged[1] > fitted[1]


def test_normal_residuals_of_known_mean_have_a_student_t_distribution():
    assert np.allclose(predictive_scores(SCORES, 23), stats.t.isf(stats.norm.sf(SCORES), 20))
    assert [predictive_df(n) for n in (1, 5, 6, 7, 100)] == [3, 3, 3, 4, 97]


def test_the_scores_keep_the_farthest_tails():
    far = predictive_scores(np.array([-30.0, 30.0]), 50)
    assert np.isfinite(far).all()
    assert far[0] == -far[1]


@pytest.mark.parametrize("n", [10, 100, 1000, 10**5])
def test_the_correction_vanishes_as_residuals_grow(n):
    own = LevelMap.from_scores([-2.0, 0.5, 2.5], [-1.5, 0.0, 1.8], 0.8, 1.2)
    middle = SCORES[np.abs(SCORES) < 2]
    moved = shrunk_level_map(own, n).pieces.inverse(middle) - own.pieces.inverse(middle)
    assert np.abs(moved).max() < 20 / n
    assert prior_share(n) < 20 / n


def test_an_average_of_quantiles_lies_between_both():
    own = LevelMap.from_scores([-2.0, 2.5], [-1.5, 1.8])
    scores = shrunk_level_map(own, 20).pieces.inverse(own.pieces.values)
    student = predictive_scores(own.pieces.values, 20)
    assert np.allclose(scores, (own.pieces.knots + student) / 2)


@pytest.mark.parametrize("n", [1, 2, 5, 12, 1e6])
def test_every_number_of_residuals_gives_a_distribution_with_moments(n):
    for own in (LevelMap([0.5], [0.6]), LevelMap.from_scores([-9.0, 9.0], [-1.0, 1.0]), LevelMap([], [])):
        level_map = shrunk_level_map(own, n)
        for base in (Normal([0.0], 1.0), StudentT([0.0], 1.0, 4.0)):
            dist = Recalibrated(base, level_map)
            assert np.isfinite(dist.std()).all()
            levels = np.linspace(0.01, 0.99, 21)
            assert np.allclose(dist.cdf(dist.quantile(levels)[0, 10]), 0.5)
