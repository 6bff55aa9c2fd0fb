"""E|Y - y| of every family; `tests/evaluation/test_decisions.py` compares it with draws."""

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import ConformalPredictive, Mixture, Normal, StudentT, Transformed
from tests.distributions.families import ALL, LOC, SCALE, N

FAMILIES = {**ALL, "ConformalPredictive": ConformalPredictive(LOC, SCALE, np.linspace(0.1, 3.0, 30) ** 2)}
every_family = pytest.mark.parametrize("dist", FAMILIES.values(), ids=FAMILIES.keys())


@every_family
def test_its_difference_from_the_crps_does_not_depend_on_the_point(dist):
    points = [dist.median(), dist.ppf(0.95), dist.mean() - 1.0]
    spread = [dist._mean_distance(point) - dist.crps(point) for point in points]
    np.testing.assert_allclose(spread, np.broadcast_to(spread[0], (3, N)), rtol=2e-6, atol=1e-9)
    assert (spread[0] >= -1e-12).all()


@every_family
def test_far_away_it_is_the_distance_of_the_mean(dist):
    mean = dist._finite_part().mean()
    far = mean + 1e7
    np.testing.assert_allclose(dist._mean_distance(far), far - mean, rtol=1e-9)


def test_student_t_agrees_with_scipy_and_is_infinite_without_a_mean():
    df, points = np.array([1.2, 3.0, 40.0]), np.array([0.3, -2.0, 5.0])
    dist = StudentT(1.0, 2.0, df)
    expected = []
    for each, point in zip(df, points, strict=True):
        law = stats.t(each, 1.0, 2.0)
        # E|T - z| = 2 f(z) (df + z^2) / (df - 1) + z (2 F(z) - 1)
        z = (point - 1.0) / 2.0
        inner = 2 * stats.t.pdf(z, each) * (each + z * z) / (each - 1) + z * (2 * law.cdf(point) - 1)
        expected.append(2.0 * inner)
    np.testing.assert_allclose(dist._mean_distance(points), expected, rtol=1e-12)
    np.testing.assert_array_equal(StudentT(0.0, 1.0, [1.0, 0.7])._mean_distance(np.zeros(2)), np.inf)
    normal = StudentT(1.0, 2.0, np.inf)._mean_distance(np.array([0.3]))
    np.testing.assert_allclose(normal, Normal(1.0, 2.0)._mean_distance(np.array([0.3])), rtol=1e-13)


def test_a_component_of_weight_zero_may_lack_a_mean():
    mixture = Mixture([Normal(0.0, 1.0), StudentT(0.0, 1.0, 0.5)], [1.0, 0.0])
    np.testing.assert_allclose(mixture._mean_distance(np.zeros(1)), np.sqrt(2 / np.pi), rtol=1e-12)


def test_a_transformation_without_a_mean_is_winsorized_as_in_the_crps():
    dist = Transformed(StudentT(0.0, 1.0, 2.0), np.exp, np.log)
    assert np.isfinite(dist._mean_distance(np.ones(1))).all()
