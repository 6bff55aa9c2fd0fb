"""RMSCE, CalS and ECPE: definitions, identities, ranges."""

import numpy as np
import pytest

from skuq.distributions import Empirical, Normal
from skuq.metrics import (
    calibration_score_loss,
    crps_loss,
    expected_coverage_probability_error,
    mean_absolute_calibration_error,
    regression_calibration_curve,
    root_mean_squared_calibration_error,
)

pytestmark = pytest.mark.usefixtures("few_rows")

rmsce, cals, ecpe = (
    root_mean_squared_calibration_error,
    calibration_score_loss,
    expected_coverage_probability_error,
)


@pytest.mark.parametrize("kind", ["quantile", "interval"])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_are_readings_of_one_curve(forecast, kind, weighted):
    y, dist = forecast
    weight = np.random.default_rng(0).random(y.size) if weighted else None
    options = {"levels": [0.1, 0.4, 0.75, 0.9], "sample_weight": weight}
    curve = regression_calibration_curve(y, dist, kind=kind, **options)
    gap = curve.levels - curve.observed
    assert rmsce(y, dist, kind=kind, **options) == pytest.approx(np.sqrt(np.mean(gap**2)), rel=1e-12)
    assert cals(y, dist, kind=kind, **options) == pytest.approx(np.sum(gap**2), rel=1e-12)
    assert cals(y, dist, kind=kind, reduction="mean", **options) == pytest.approx(
        rmsce(y, dist, kind=kind, **options) ** 2, rel=1e-12
    )
    share = np.array([1.0, 0.0, 2.0, 0.5])
    assert cals(y, dist, kind=kind, level_weights=share, **options) == pytest.approx(
        share @ gap**2, rel=1e-12
    )
    if kind == "interval":
        assert ecpe(y, dist, **options) == pytest.approx(np.mean(np.abs(gap)), rel=1e-12)


def test_defaults(forecast):
    y, dist = forecast
    assert cals(y, dist) == cals(y, dist, levels=np.arange(1, 10) / 10)
    assert ecpe(y, dist) == mean_absolute_calibration_error(y, dist, kind="interval")
    assert rmsce(y, dist) == rmsce(y, dist, levels=99, kind="quantile")
    assert rmsce(y, dist) >= mean_absolute_calibration_error(y, dist)


def test_score_is_the_share_of_pit_values_up_to_each_level(forecast):
    """Eq. 11 of Wibbeke et al. (2025) has F(y) <= p, which is y <= Q(p)."""
    y, dist = forecast
    levels = np.arange(1, 10) / 10
    observed = np.array([np.mean(dist.cdf(y) <= p) for p in levels])
    assert cals(y, dist) == pytest.approx(np.sum((levels - observed) ** 2), rel=1e-12)


def test_worst_cases():
    y = np.full(50, 99.0)
    dist = (np.zeros(50), np.ones(50))
    assert rmsce(y, dist, levels=9999) == pytest.approx(np.sqrt(1 / 3), rel=1e-3)
    assert ecpe(y, dist) == pytest.approx(0.5)
    assert cals(y, dist) == pytest.approx(np.sum((np.arange(1, 10) / 10) ** 2))


def test_ensembles_are_compared_by_their_own_quantiles():
    members = np.arange(10.0)
    y = np.arange(10.0)
    dist = Empirical(np.tile(members, (10, 1)))
    for metric in (rmsce, cals):
        assert metric(y, dist, levels=9) == pytest.approx(0, abs=1e-15)


def test_bias_moves_the_quantile_curve_but_not_the_interval_curve():
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], size=1000) * np.abs(rng.normal(size=1000))
    biased = Normal(np.full(1000, 0.5), np.ones(1000))
    assert ecpe(y, biased) < 0.06
    assert rmsce(y, biased) > 0.12
    assert cals(y, biased, kind="interval") < 0.2 * cals(y, biased)


def test_calibrated_forecast_scores_what_the_docstrings_say():
    rng = np.random.default_rng(0)
    n = 1000
    rows = [rng.normal(size=n) for _ in range(300)]
    dist = (np.zeros(n), np.ones(n))
    levels = np.arange(1, 10) / 10
    assert np.mean([rmsce(y, dist) for y in rows]) == pytest.approx(0.37 / np.sqrt(n), rel=0.12)
    assert np.mean([ecpe(y, dist) for y in rows]) == pytest.approx(0.31 / np.sqrt(n), rel=0.12)
    assert np.mean([cals(y, dist) for y in rows]) == pytest.approx(
        np.sum(levels * (1 - levels)) / n, rel=0.15
    )


@pytest.mark.parametrize("metric", [rmsce, cals, ecpe])
def test_a_forecast_that_ignores_x_beats_a_useful_one(metric):
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    y = x + rng.normal(scale=0.3, size=5000)
    useful, ignorant = (x, np.full(5000, 0.4)), (0 * x, np.full(5000, np.sqrt(1.09)))
    assert metric(y, ignorant) < metric(y, useful) / 2
    assert crps_loss(y, useful) < crps_loss(y, ignorant) / 3


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("reduction", "median"),
        ("kind", "both"),
        ("level_weights", [1.0]),
        ("level_weights", -np.ones(9)),
        ("level_weights", np.full(9, np.nan)),
        ("levels", [1.5]),
    ],
)
def test_bad_options(forecast, option, value):
    with pytest.raises(ValueError, match=f"`{option}`"):
        cals(*forecast, **{option: value})
