"""Boxes and ellipsoids that contain several targets."""

import numpy as np
import pytest
from scipy.stats import chi2

from skuq.multivariate._regions import BoxRegion, EllipsoidRegion

COVARIANCE = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, -0.5], [0.0, -0.5, 1.0]])


def box():
    return BoxRegion([[0.0, 0.0], [1.0, 1.0]], [[2.0, 1.0], [2.0, np.inf]])


def ellipsoid(radius=2.0, n=3):
    return EllipsoidRegion(
        np.arange(3.0 * n).reshape(n, 3), np.tile(COVARIANCE, (n, 1, 1)), np.full(n, radius)
    )


def test_bounds_belong_to_the_box():
    assert box().contains([[0.0, 1.0], [2.0, 1e300]]).tolist() == [True, True]
    assert box().contains([[-0.001, 1.0], [2.0, 0.999]]).tolist() == [False, False]


def test_volume_of_boxes():
    assert box().volume().tolist() == [2.0, np.inf]
    assert box().bounds()[0].tolist() == [[0.0, 0.0], [2.0, 1.0]]


def test_ellipsoids_contain_the_chi_square_share_of_normal_draws():
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(3), COVARIANCE, 20_000)
    region = EllipsoidRegion(
        np.zeros_like(draws), np.broadcast_to(COVARIANCE, (20_000, 3, 3)), np.full(20_000, 2.0)
    )
    assert region.contains(draws).mean() == pytest.approx(chi2(3).cdf(4.0), abs=0.01)


def test_volume_of_ellipsoids():
    sphere = 4 / 3 * np.pi * 2.0**3
    assert ellipsoid().volume() == pytest.approx(sphere * np.sqrt(np.linalg.det(COVARIANCE)))
    assert ellipsoid(0.0).volume().tolist() == [0.0, 0.0, 0.0]
    assert ellipsoid(np.inf).volume().tolist() == [np.inf] * 3


def test_bounds_touch_the_ellipsoid():
    region = ellipsoid(n=1)
    for j in range(3):
        touching = region.center[0] + 2.0 * COVARIANCE[j] / np.sqrt(COVARIANCE[j, j])
        assert touching[j] == pytest.approx(region.bounds()[0, 1, j])
        inside, outside = region.center[0] + np.outer([1 - 1e-9, 1 + 1e-9], touching - region.center[0])
        assert region.contains([inside]).all()
        assert not region.contains([outside]).any()


def test_distances_of_several_points_per_row():
    region, points = ellipsoid(n=2), np.random.default_rng(0).normal(size=(2, 5, 3))
    distance = region.distance(points)
    assert distance.shape == (2, 5)
    for k in range(5):
        assert distance[:, k] == pytest.approx(region.distance(points[:, k]), rel=1e-12)


@pytest.mark.parametrize("region", [box(), ellipsoid(n=2)])
def test_rows_are_selected_and_arrays_copied(region):
    part = region[[1]]
    assert len(part) == 1
    assert len(region) == 2
    assert np.array_equal(part.bounds(), region.bounds()[1:])
    assert np.array_equal(region[np.array([False, True])].volume(), region.volume()[1:])
    assert repr(part).endswith(f"(n=1, d={region.shape[1]})")
    lower = np.zeros((1, 2))
    copied = BoxRegion(lower, np.ones((1, 2)))
    lower[:] = 5.0
    assert copied.lower.tolist() == [[0.0, 0.0]]


def test_bad_input(subtests):
    for make, message in (
        (lambda: BoxRegion([[0.0]], [[0.0, 1.0]]), "must have the shape of `lower`"),
        (lambda: BoxRegion([[1.0, 2.0]], [[1.0, 1.5]]), "got 2 and 1.5 at row 0, column 1"),
        (lambda: BoxRegion([[np.nan]], [[1.0]]), "must not contain NaN"),
        (lambda: BoxRegion([0.0], [1.0]), "must have 2 dimensions"),
        (lambda: EllipsoidRegion([[0.0, 0.0]], [np.ones((2, 2))], [1.0]), "must be positive definite"),
        (lambda: EllipsoidRegion([[0.0, 0.0]], [np.eye(2)], [-1.0]), "must be non-negative"),
        (lambda: EllipsoidRegion([[0.0, 0.0]], [np.eye(3)], [1.0]), "must have shape"),
        (lambda: ellipsoid().distance([[0.0, 0.0]]), r"must have shape \(3, 3\) or \(3, m, 3\)"),
        (lambda: box().contains([[0.0, 0.0]]), r"must have shape \(2, 2\)"),
        (lambda: box().contains([[0.0, np.nan], [0.0, 0.0]]), "must not contain NaN"),
    ):
        with subtests.test(message), pytest.raises(ValueError, match=message):
            make()
