"""Sharpness in its three readings."""

import numpy as np
import pytest

from skuq.metrics import crps_loss, sharpness


def test_reference_values(het100):
    dist = (het100.mu, het100.s)
    assert sharpness(het100.y, dist, kind="rms") == pytest.approx(0.881711, abs=5e-7)
    assert sharpness(het100.y, dist) == pytest.approx(het100.s.mean(), rel=1e-14)
    assert sharpness(het100.y, dist, kind="variance") == pytest.approx(0.881711**2, abs=1e-6)


def test_three_row_value_of_uncertainty_toolbox():
    assert sharpness(None, ([1, 2, 3], [0.1, 0.5, 1.0]), kind="rms") == pytest.approx(
        0.648074069840786, abs=1e-12
    )


@pytest.mark.parametrize(("kind", "units"), [("std", 1), ("rms", 1), ("variance", 2)])
def test_units_and_weights_of_every_kind(kind, units):
    scale, weight = np.array([1.0, 2.0, 5.0]), np.array([2, 0, 1])
    value = sharpness(None, (np.zeros(3), scale), kind=kind, sample_weight=weight)
    assert value == pytest.approx(sharpness(None, (np.zeros(3), [1.0, 1.0, 5.0]), kind=kind), rel=1e-14)
    scaled = sharpness(None, (np.zeros(3), 4 * scale), kind=kind, sample_weight=weight)
    assert scaled == pytest.approx(4**units * value, rel=1e-14)


def test_the_sharpest_forecast_need_not_be_good():
    y = np.random.default_rng(0).normal(size=100)
    truth, certain = (np.zeros(100), np.ones(100)), (np.full(100, 5.0), np.zeros(100))
    assert sharpness(y, certain) < sharpness(y, truth)
    assert crps_loss(y, truth) < crps_loss(y, certain)
