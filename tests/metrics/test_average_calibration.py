"""Calibration curve and MACE: reference values, definitions with atoms, the peer's defect not shared."""

import numpy as np
import pytest

from skuq.distributions import Empirical, Normal, Quantiles, StudentT, concat
from skuq.metrics import crps_loss, mean_absolute_calibration_error, regression_calibration_curve

UT_LEVELS = np.linspace(0, 1, 100)


def test_reference_values(het100, few_rows):
    dist = (het100.mu, het100.s)
    mace = mean_absolute_calibration_error
    assert mace(het100.y, dist) == pytest.approx(0.059293, abs=5e-7)
    assert mace(het100.y, dist, kind="interval", levels=UT_LEVELS) == pytest.approx(0.042336, abs=5e-7)
    assert mace(het100.y, dist, levels=UT_LEVELS) == pytest.approx(0.057808, abs=5e-7)
    tenths = np.arange(1, 10) / 10
    assert mace(het100.y, dist, kind="interval", levels=tenths) == pytest.approx(0.043333, abs=5e-7)
    assert mace(het100.y, dist, kind="interval", levels=np.linspace(0, 1, 6)) == pytest.approx(
        0.031667, abs=5e-7
    )


def test_three_row_values_of_uncertainty_toolbox(few_rows):
    y, dist = [1.5, 3.0, 2.0], ([1.0, 2.0, 3.0], [0.1, 0.5, 1.0])
    mace = mean_absolute_calibration_error
    assert mace(y, dist, kind="interval", levels=UT_LEVELS) == pytest.approx(0.3733333333333335, abs=1e-12)
    assert mace(y, dist, levels=UT_LEVELS) == pytest.approx(0.23757575757575758, abs=1e-12)
    levels = [0, 0.25, 0.5, 0.75, 1]
    inside = regression_calibration_curve(y, dist, kind="interval", levels=levels).observed
    np.testing.assert_allclose(inside, [0, 0, 0, 1 / 3, 1])


def test_curve_is_not_mirrored_as_uncertainty_toolbox_has_it():
    y, dist = [1.5, 3.0, 2.0], ([1.0, 2.0, 3.0], [0.1, 0.5, 1.0])
    below = regression_calibration_curve(y, dist, levels=[0, 0.25, 0.5, 0.75, 1]).observed
    np.testing.assert_allclose(
        below, [0, 1 / 3, 1 / 3, 1 / 3, 1]
    )  # the peer's test fixes 0, 2/3, 2/3, 2/3, 1


def test_forecast_too_high_puts_the_curve_above_the_diagonal():
    rng = np.random.default_rng(0)
    curve = regression_calibration_curve(rng.normal(size=1000), (np.ones(1000), np.ones(1000)))
    assert (curve.observed > curve.levels).all()


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
@pytest.mark.parametrize("kind", ["quantile", "interval"])
@pytest.mark.parametrize(
    "family", ["normal", "student", "quantiles", "ensemble", "points", "mixed", "coarse"]
)
def test_curve_equals_its_definition(forecast, family, kind, weighted):
    y, dist = forecast
    ensemble = Empirical(dist.sample(7, random_state=0), weights=np.arange(1.0, 8.0))
    coarse = Empirical(np.round(dist.sample(10, random_state=0)))
    if family == "coarse":  # targets that are members, levels that are steps of the cdf
        y = np.round(y)
    dist = {
        "normal": dist,
        "student": StudentT(dist.loc, dist.scale, df=2.5),
        "quantiles": Quantiles([0.1, 0.5, 0.9], dist.quantile([0.1, 0.5, 0.9])),
        "ensemble": ensemble,
        "points": Normal(dist.loc, np.where(np.arange(600) % 3 == 0, 0.0, dist.scale)),
        "mixed": concat([ensemble[:300], StudentT(dist.loc[300:], 1.0, df=3.0)]),
        "coarse": coarse,
    }[family]
    weight = np.random.default_rng(0).integers(1, 5, size=y.size) if weighted else None
    levels = np.array([0.7, 0.01, 0.1, 0.2, 0.3, 0.5, 0.99, 0.3])
    curve = regression_calibration_curve(y, dist, levels=levels, kind=kind, sample_weight=weight)
    for p, share in zip(curve.levels, curve.observed, strict=True):
        low, high = (0.0, p) if kind == "quantile" else ((1 - p) / 2, (1 + p) / 2)
        inside = share_of_pit_between(dist, y, low, high)
        assert share == pytest.approx(np.average(inside, weights=weight), abs=1e-9)


def test_levels_come_back_in_their_own_order(forecast):
    y, dist = forecast
    curve = regression_calibration_curve(y, dist, levels=[0.9, 0.1])
    np.testing.assert_array_equal(curve.levels, [0.9, 0.1])
    assert curve.observed[0] > curve.observed[1]
    assert regression_calibration_curve(y, dist, levels=4).levels == pytest.approx([0.2, 0.4, 0.6, 0.8])


@pytest.mark.parametrize("dist", [Normal([1.0], [2.0]), Quantiles([0.4, 0.5, 0.6], [[0.0, 1.0, 2.0]])])
def test_targets_on_a_bound_are_inside(dist):
    for kind, level in (("quantile", 0.5), ("interval", 0.0)):
        assert regression_calibration_curve([1.0], dist, levels=[level], kind=kind).observed == 1.0
        weighted = regression_calibration_curve([1.0], dist, levels=[level], kind=kind, sample_weight=[2.0])
        assert weighted.observed == 1.0


def test_calibrated_forecast_scores_what_the_docstring_says():
    rng = np.random.default_rng(0)
    n = 1000
    for kind in ("quantile", "interval"):
        values = [
            mean_absolute_calibration_error(rng.normal(size=n), (np.zeros(n), np.ones(n)), kind=kind)
            for _ in range(200)
        ]
        assert np.mean(values) == pytest.approx(0.31 / np.sqrt(n), rel=0.12)


def test_worst_case_is_a_half(few_rows):
    error = mean_absolute_calibration_error(np.full(50, 9.0), (np.zeros(50), np.ones(50)))
    assert error == pytest.approx(0.5)


def test_bias_moves_the_quantile_curve_but_not_the_interval_curve():
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], size=1000) * np.abs(rng.normal(size=1000))
    biased = (np.full(1000, 0.5), np.ones(1000))
    assert mean_absolute_calibration_error(y, biased) > 0.12
    assert mean_absolute_calibration_error(y, biased, kind="interval") < 0.06


def test_a_forecast_that_ignores_x_beats_a_useful_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    y = x + rng.normal(scale=0.3, size=5000)
    useful, ignorant = (x, np.full(5000, 0.4)), (0 * x, np.full(5000, np.sqrt(1.09)))
    assert mean_absolute_calibration_error(y, ignorant) < mean_absolute_calibration_error(y, useful) / 2
    assert crps_loss(y, useful) < crps_loss(y, ignorant) / 3
