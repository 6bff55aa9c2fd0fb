"""Calibration curve and its readings: MACE, RMSCE, CalS, ECPE and the area between curve and diagonal."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from skuq.distributions import Empirical, Normal, Quantiles, StudentT, concat
from skuq.metrics import (
    adversarial_group_calibration_error,
    calibration_score_loss,
    crps_loss,
    expected_coverage_probability_error,
    expected_normalized_calibration_error,
    mean_absolute_calibration_error,
    miscalibration_area,
    quantile_calibration_error,
    regression_calibration_curve,
    root_mean_squared_calibration_error,
    uncertainty_calibration_error,
)
from skuq.metrics._calibration_scores import area_of_lines, area_of_steps
from skuq.metrics._levels import entries

pytestmark = pytest.mark.usefixtures("few_rows")

KINDS = ("quantile", "interval")
TENTHS = np.arange(1, 10) / 10
mace, rmsce, cals, ecpe = (
    mean_absolute_calibration_error,
    root_mean_squared_calibration_error,
    calibration_score_loss,
    expected_coverage_probability_error,
)


@pytest.fixture(params=["normal", "student", "quantiles", "ensemble", "points", "mixed", "coarse"])
def rows(request, forecast):
    """Targets and forecasts of one family. Coarse: targets are members and levels are steps of the cdf."""
    y, dist = forecast
    ensemble = Empirical(dist.sample(7, random_state=0), weights=np.arange(1.0, 8.0))
    if request.param == "coarse":
        y = np.round(y)
    return y, {
        "normal": dist,
        "student": StudentT(dist.loc, dist.scale, df=2.5),
        "quantiles": Quantiles([0.1, 0.5, 0.9], dist.quantile([0.1, 0.5, 0.9])),
        "ensemble": ensemble,
        "points": Normal(
            np.where(np.arange(600) % 6, dist.loc, y), np.where(np.arange(600) % 3, dist.scale, 0.0)
        ),
        "mixed": concat([ensemble[:300], StudentT(dist.loc[300:], 1.0, df=3.0)]),
        "coarse": Empirical(np.round(dist.sample(10, random_state=0))),
    }[request.param]


def share_of_pit_between(dist, y, low, high):
    """Probability that the randomized PIT, uniform between F(y-) and F(y), lies in [low, high]."""
    below, reached = dist.cdf(np.nextafter(y, -np.inf)), dist.cdf(y)
    jump = reached - below
    atom = jump > 1e-6
    part = np.minimum(reached, high) - np.maximum(below, low)
    tolerance = 1e-12
    inside = (low - tolerance <= reached) & (reached <= high + tolerance)
    return np.where(atom, np.maximum(part, 0) / np.where(atom, jump, 1.0), inside)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_curve_and_all_its_readings_equal_their_definitions(rows, kind, weighted):
    y, dist = rows
    weight = np.random.default_rng(0).integers(1, 5, size=y.size) if weighted else None
    levels = np.array([0.7, 0.01, 0.1, 0.2, 0.3, 0.5, 0.99, 0.3])
    options = {"levels": levels, "sample_weight": weight}
    curve = regression_calibration_curve(y, dist, kind=kind, **options)
    np.testing.assert_array_equal(curve.levels, levels)
    for p, share in zip(levels, curve.observed, strict=True):
        low, high = (0.0, p) if kind == "quantile" else ((1 - p) / 2, (1 + p) / 2)
        inside = share_of_pit_between(dist, y, low, high)
        assert share == pytest.approx(np.average(inside, weights=weight), abs=1e-9)
    gap, options = curve.levels - curve.observed, {**options, "kind": kind}
    assert mace(y, dist, **options) == pytest.approx(np.mean(np.abs(gap)), rel=1e-12)
    assert rmsce(y, dist, **options) == pytest.approx(np.sqrt(np.mean(gap**2)), rel=1e-12)
    assert cals(y, dist, **options) == pytest.approx(np.sum(gap**2), rel=1e-12)
    mean = cals(y, dist, reduction="mean", **options)
    assert mean == pytest.approx(np.mean(gap**2), rel=1e-12)
    share = np.array([1.0, 0.0, 2.0, 0.5, 0.0, 1.0, 3.0, 1.0])
    weighted = cals(y, dist, level_weights=share, **options)
    assert weighted == pytest.approx(share @ gap**2, rel=1e-12)
    if kind == "interval":
        del options["kind"]
        assert ecpe(y, dist, **options) == pytest.approx(np.mean(np.abs(gap)), rel=1e-12)


def test_defaults(forecast):
    y, dist = forecast
    assert cals(y, dist) == cals(y, dist, levels=TENTHS)
    assert ecpe(y, dist) == mace(y, dist, kind="interval")
    assert rmsce(y, dist) == rmsce(y, dist, levels=99, kind="quantile")
    assert rmsce(y, dist) >= mace(y, dist)
    assert regression_calibration_curve(y, dist, levels=4).levels == pytest.approx([0.2, 0.4, 0.6, 0.8])
    # Eq. 11 of Wibbeke et al. (2025) has F(y) <= p, which is y <= Q(p).
    observed = np.array([np.mean(dist.cdf(y) <= p) for p in TENTHS])
    assert cals(y, dist) == pytest.approx(np.sum((TENTHS - observed) ** 2), rel=1e-12)


@pytest.mark.parametrize("dist", [Normal([1.0], [2.0]), Quantiles([0.4, 0.5, 0.6], [[0.0, 1.0, 2.0]])])
def test_targets_on_a_bound_are_inside(dist):
    for kind, level in (("quantile", 0.5), ("interval", 0.0)):
        for weight in (None, [2.0]):
            curve = regression_calibration_curve([1.0], dist, levels=[level], kind=kind, sample_weight=weight)
            assert curve.observed == 1.0


def test_worst_cases():
    dist = Normal(np.zeros(50), np.ones(50))
    for y in (np.full(50, 99.0), np.full(50, -99.0)):
        assert miscalibration_area(y, dist) == pytest.approx(0.5)
        assert mace(y, dist) == pytest.approx(0.5)
    y = np.full(50, 99.0)
    assert rmsce(y, dist, levels=9999) == pytest.approx(np.sqrt(1 / 3), rel=1e-3)
    assert ecpe(y, dist) == pytest.approx(0.5)
    assert cals(y, dist) == pytest.approx(np.sum(TENTHS**2))


def test_bias_moves_the_quantile_curve_but_not_the_interval_curve():
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], size=1000) * np.abs(rng.normal(size=1000))
    biased = Normal(np.full(1000, 0.5), np.ones(1000))
    curve = regression_calibration_curve(y, biased)
    assert (curve.observed[5:-5] > curve.levels[5:-5]).all()
    assert min(mace(y, biased), rmsce(y, biased)) > 0.12
    assert max(mace(y, biased, kind="interval"), ecpe(y, biased)) < 0.06
    assert cals(y, biased, kind="interval") < 0.2 * cals(y, biased)


def test_calibrated_forecast_scores_what_the_docstrings_say():
    rng = np.random.default_rng(0)
    n = 1000
    draws, dist = [rng.normal(size=n) for _ in range(300)], Normal(np.zeros(n), np.ones(n))
    for metric, options, expected, tolerance in (
        (mace, {}, 0.31 / np.sqrt(n), 0.12),
        (mace, {"kind": "interval"}, 0.31 / np.sqrt(n), 0.12),
        (miscalibration_area, {}, 0.31 / np.sqrt(n), 0.12),
        (miscalibration_area, {"kind": "interval"}, 0.31 / np.sqrt(n), 0.12),
        (rmsce, {}, 0.37 / np.sqrt(n), 0.12),
        (ecpe, {}, 0.31 / np.sqrt(n), 0.12),
        (cals, {}, np.sum(TENTHS * (1 - TENTHS)) / n, 0.15),
    ):
        values = [metric(y, dist, **options) for y in draws]
        assert np.mean(values) == pytest.approx(expected, rel=tolerance), metric.__name__


def test_a_forecast_that_ignores_x_beats_a_useful_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    y = x + rng.normal(scale=0.3, size=20_000)
    useful, ignorant = Normal(x, 0.4), Normal(0 * x, np.sqrt(1.09))
    for metric in (
        mace,
        rmsce,
        cals,
        ecpe,
        miscalibration_area,
        uncertainty_calibration_error,
        quantile_calibration_error,
        partial(adversarial_group_calibration_error, random_state=0),
    ):
        assert metric(y, ignorant) < metric(y, useful) / 2
    ence = expected_normalized_calibration_error
    assert ence(y, ignorant) < ence(y, useful) / 3
    assert crps_loss(y, useful) < crps_loss(y, ignorant) / 3


def test_bad_options(forecast):
    for option, value in (
        ("reduction", "median"),
        ("kind", "both"),
        ("level_weights", [1.0]),
        ("level_weights", -np.ones(9)),
        ("level_weights", np.full(9, np.nan)),
        ("levels", [1.5]),
    ):
        with pytest.raises(ValueError, match=f"`{option}`"):
            cals(*forecast, **{option: value})
    for levels in ([0.5], [0.5, 0.1], [0.5, 0.5], 1, [[0.1, 0.2]], [0.1, 1.5], 0):
        with pytest.raises(ValueError, match="`levels`"):
            miscalibration_area(*forecast, levels=levels)
    with pytest.raises(ValueError, match="`kind` must be"):
        miscalibration_area(*forecast, kind="both")


def test_area_is_the_wasserstein_distance_of_the_pit_and_the_limit_of_ever_more_levels(rows, forecast):
    y, dist = forecast
    pit = np.sort(dist.cdf(y))
    middle = (np.arange(10**5) + 0.5) / 10**5
    quantiles = pit[np.minimum((middle * pit.size).astype(int), pit.size - 1)]
    assert miscalibration_area(y, dist) == pytest.approx(np.mean(np.abs(quantiles - middle)), rel=1e-5)
    y, dist = rows[0][:60], rows[1][:60]
    for kind in KINDS:
        for weight in (None, np.random.default_rng(0).integers(1, 5, size=60)):
            exact = miscalibration_area(y, dist, kind=kind, sample_weight=weight)
            limit = mace(y, dist, levels=9973, kind=kind, sample_weight=weight)
            assert exact == pytest.approx(limit, abs=2e-4)


def test_the_area_by_hand():
    for pit, area in (
        ([0.5], 0.25),
        ([0.0], 0.5),
        ([1.0], 0.5),
        ([0.25, 0.75], 0.125),
        ([0.5, 0.5], 0.25),
        ([0.0, 1.0], 0.25),
    ):
        assert area_of_steps(np.array(pit))(np.ones(len(pit))) == pytest.approx(area, abs=1e-15)
        y = stats.norm.ppf(np.clip(pit, 1e-300, 1 - 1e-16))
        assert miscalibration_area(y, Normal(np.zeros(len(pit)), 1.0)) == pytest.approx(area, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
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


@pytest.mark.parametrize("kind", KINDS)
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
