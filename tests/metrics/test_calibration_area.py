"""The area between the calibration curve and the diagonal, by hand and by integration."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from skuq.distributions import Empirical, Normal, StudentT
from skuq.metrics import (
    crps_loss,
    mean_absolute_calibration_error,
    miscalibration_area,
    regression_calibration_curve,
)
from skuq.metrics._calibration_area import area_of_lines, area_of_steps
from skuq.metrics._levels import entries

pytestmark = pytest.mark.usefixtures("few_rows")


def test_quantile_area_is_the_wasserstein_distance_of_the_pit_from_uniform(forecast):
    y, dist = forecast
    pit = np.sort(dist.cdf(y))
    middle = (np.arange(10**6) + 0.5) / 10**6
    quantiles = pit[np.minimum((middle * pit.size).astype(int), pit.size - 1)]
    assert miscalibration_area(y, dist) == pytest.approx(np.mean(np.abs(quantiles - middle)), rel=1e-5)


@pytest.mark.parametrize(
    ("pit", "area"),
    [
        ([0.5], 0.25),
        ([0.0], 0.5),
        ([1.0], 0.5),
        ([0.25, 0.75], 0.125),
        ([0.5, 0.5], 0.25),
        ([0.0, 1.0], 0.25),
    ],
)
def test_by_hand(pit, area):
    assert area_of_steps(np.array(pit))(None) == pytest.approx(area, abs=1e-15)
    y = stats.norm.ppf(np.clip(pit, 1e-300, 1 - 1e-16))
    assert miscalibration_area(y, (np.zeros(len(pit)), np.ones(len(pit)))) == pytest.approx(area, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["quantile", "interval"])
@pytest.mark.parametrize("family", ["normal", "student", "ensemble", "coarse", "point"])
def test_area_is_the_limit_of_ever_more_levels(forecast, family, kind, weighted):
    y, dist = forecast
    y, dist = y[:60], dist[:60]
    ensemble = Empirical(dist.sample(7, random_state=0), weights=np.arange(1.0, 8.0))
    if family == "coarse":
        y = np.round(y)
    dist = {
        "normal": dist,
        "student": StudentT(dist.loc, dist.scale, df=2.5),
        "ensemble": ensemble,
        "coarse": Empirical(np.round(dist.sample(10, random_state=0))),
        "point": Normal(np.where(np.arange(60) % 2, y, dist.loc), np.where(np.arange(60) % 3, dist.scale, 0)),
    }[family]
    weight = np.random.default_rng(0).integers(1, 5, size=60) if weighted else None
    exact = miscalibration_area(y, dist, kind=kind, sample_weight=weight)
    mace = mean_absolute_calibration_error(y, dist, levels=9973, kind=kind, sample_weight=weight)
    assert exact == pytest.approx(mace, abs=2e-4)


@pytest.mark.parametrize("kind", ["quantile", "interval"])
def test_lines_between_levels_by_integration(forecast, kind):
    y, dist = forecast
    for levels in (np.linspace(0, 1, 12), np.array([0.1, 0.15, 0.6, 0.93])):
        curve = regression_calibration_curve(y, dist, levels=levels, kind=kind)

        def gap(p, curve=curve):
            return abs(np.interp(p, curve.levels, curve.observed) - p)

        expected = sum(integrate.quad(gap, a, b, epsabs=1e-12)[0] for a, b in pairwise(curve.levels))
        area = miscalibration_area(y, dist, levels=levels, kind=kind)
        assert area == pytest.approx(expected, rel=1e-6)


@given(gaps=st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=8))
def test_area_of_lines_is_at_most_the_trapezoid_of_the_sizes(gaps):
    levels = np.linspace(0, 1, len(gaps))
    area = area_of_lines(levels, levels + gaps)
    assert -1e-15 <= area <= np.trapezoid(np.abs(gaps), levels) + 1e-12
    assert area >= abs(np.trapezoid(gaps, levels)) - 1e-12


def test_entry_level_of_an_interval():
    y, dist = np.array([0.0, 1.0, -1.0]), Normal(np.zeros(3), np.ones(3))
    (entry,) = entries(y, dist, "interval")
    expected = [0.0, 2 * stats.norm.cdf(1) - 1, 2 * stats.norm.cdf(1) - 1]
    np.testing.assert_allclose(entry.start, expected, atol=1e-15)
    np.testing.assert_array_equal(entry.start, entry.stop)


@pytest.mark.parametrize("kind", ["quantile", "interval"])
def test_a_target_on_an_atom_is_covered_gradually(kind):
    """The share of draws of the randomized PIT that each level covers, by a fine grid of them."""
    ensemble = Empirical(np.tile([0.0, 1.0, 1.0, 2.0, 3.0], (6, 1)))
    y = np.array([0.0, 1.0, 1.5, 2.0, 3.0, 9.0])
    below, reached = np.array([0, 0.2, 0.6, 0.6, 0.8, 1]), np.array([0.2, 0.6, 0.6, 0.8, 1, 1])
    draws = below + np.outer((np.arange(20_000) + 0.5) / 20_000, reached - below)
    place = draws if kind == "quantile" else np.abs(2 * draws - 1)
    for level in (0.07, 0.2, 0.33, 0.5, 0.71, 0.9):
        covered = sum(part.reached(level) for part in entries(y, ensemble, kind))
        np.testing.assert_allclose(covered, (place <= level + 1e-12).mean(axis=0), atol=1e-4)


def test_calibrated_forecast_scores_what_the_docstring_says():
    rng = np.random.default_rng(0)
    n = 1000
    for kind in ("quantile", "interval"):
        values = [
            miscalibration_area(rng.normal(size=n), (np.zeros(n), np.ones(n)), kind=kind) for _ in range(200)
        ]
        assert np.mean(values) == pytest.approx(0.31 / np.sqrt(n), rel=0.12)


def test_worst_case_is_a_half():
    for y in (np.full(50, 99.0), np.full(50, -99.0)):
        assert miscalibration_area(y, (np.zeros(50), np.ones(50))) == pytest.approx(0.5)


@pytest.mark.parametrize("levels", [[0.5], [0.5, 0.1], [0.5, 0.5], 1, [[0.1, 0.2]], [0.1, 1.5], 0])
def test_bad_levels(forecast, levels):
    with pytest.raises(ValueError, match="`levels`"):
        miscalibration_area(*forecast, levels=levels)


def test_bad_kind(forecast):
    with pytest.raises(ValueError, match="`kind` must be"):
        miscalibration_area(*forecast, kind="both")


def test_a_forecast_that_ignores_x_beats_a_useful_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    y = x + rng.normal(scale=0.3, size=5000)
    useful, ignorant = (x, np.full(5000, 0.4)), (0 * x, np.full(5000, np.sqrt(1.09)))
    assert miscalibration_area(y, ignorant) < miscalibration_area(y, useful) / 2
    assert crps_loss(y, useful) < crps_loss(y, ignorant) / 3
