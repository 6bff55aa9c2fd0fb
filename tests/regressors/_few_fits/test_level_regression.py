"""A few quantiles give eleven: by interpolation, and by regression where the rows show that it pays."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import Normal, Quantiles
from skuq.recalibration import QuantileShiftRecalibrator
from skuq.regressors._few_fits.level_regression import LevelRegressionRecalibrator, _interpolation
from skuq.regressors._multi_quantile import DEFAULT_LEVELS
from tests.few_rows import few_rows

FEW = [0.05, 0.35, 0.65, 0.95]


def world(n, seed=0):
    """Normal targets with a standard deviation of their own, and their distribution."""
    rng = np.random.default_rng(seed)
    truth = Normal(rng.normal(size=n), np.exp(0.7 * rng.normal(size=n)))
    return truth, truth.sample(1, random_state=seed)[:, 0]


def fitted(dist, y, weight=None):
    return LevelRegressionRecalibrator().fit(dist, y, weight)


@pytest.mark.parametrize("levels", [FEW, [0.05, 0.5, 0.95], [0.2, 0.3], list(DEFAULT_LEVELS)])
def test_interpolation_is_linear_in_normal_scores(levels):
    knots, shares = _interpolation(np.array(levels), np.array(DEFAULT_LEVELS))
    truth = Normal([2.0, -1.0], [3.0, 0.5])
    values = truth.quantile(levels)
    combined = values[:, knots] + np.diff(values, axis=1) @ shares
    assert_allclose(combined, truth.quantile(DEFAULT_LEVELS), rtol=1e-12)
    own = [DEFAULT_LEVELS.index(level) for level in levels if level in DEFAULT_LEVELS]
    fitted_too = [column for column, level in enumerate(levels) if level in DEFAULT_LEVELS]
    assert np.array_equal(combined[:, own], values[:, fitted_too])


@pytest.mark.parametrize("levels", [FEW, [0.1, 0.5, 0.9], [0.05, 0.2, 0.4, 0.6, 0.8, 0.95]])
def test_quantiles_that_are_right_stay_right(levels):
    truth, y = world(4000)
    recalibrator = fitted(Quantiles(levels, truth.quantile(levels)), y)
    new, y_new = world(4000, 1)
    dist = recalibrator.transform(Quantiles(levels, new.quantile(levels)))
    assert dist.crps(y_new).mean() < 1.005 * new.crps(y_new).mean()


def test_widths_are_corrected_in_proportion():
    """Where all quantiles lie too close together by one factor, shifts alone are wrong for most rows."""
    truth, y = world(4000)
    new, y_new = world(4000, 1)
    narrow, narrow_new = (Quantiles(FEW, Normal(d.mean(), 0.5 * d.std()).quantile(FEW)) for d in (truth, new))
    best = new.crps(y_new).mean()
    regressed = fitted(narrow, y).transform(narrow_new).crps(y_new).mean()
    shifted = QuantileShiftRecalibrator().fit(narrow, y).transform(narrow_new).crps(y_new).mean()
    assert regressed < 1.005 * best < 1.01 * best < shifted
    dist = fitted(narrow, y).transform(narrow_new)
    for rows in np.array_split(np.argsort(new.std()), 3):
        lower, upper = dist[rows].interval(0.9).T
        assert np.mean((lower <= y_new[rows]) & (y_new[rows] <= upper)) == pytest.approx(0.9, abs=0.03)


def test_noise_of_single_levels_averages_out():
    """Quantiles with errors of their own are averaged over the levels, for new rows too."""
    noisy, targets = [], []
    for seed in (0, 1):
        truth, y = world(2000, seed)
        errors = 0.5 * np.random.default_rng(10 + seed).normal(size=(2000, 4))
        noisy.append(Quantiles(FEW, truth.quantile(FEW) + errors))
        targets.append(y)
    regressed = fitted(noisy[0], targets[0]).transform(noisy[1])
    shifted = QuantileShiftRecalibrator(levels=DEFAULT_LEVELS).fit(noisy[0], targets[0]).transform(noisy[1])
    assert regressed.crps(targets[1]).mean() < 0.99 * shifted.crps(targets[1]).mean()


@pytest.mark.parametrize(
    ("factor", "rtol"), [(2.0**-80, 0), (-(2.0**-80), None), (2.0**200, 0), (1e-6, 1e-6), (3e7, 1e-6)]
)
def test_units_do_not_matter(factor, rtol):
    truth, y = world(300)
    values = truth.quantile(FEW) + 0.1 * np.sin(np.arange(1200.0)).reshape(300, 4)
    plain = fitted(Quantiles(FEW, values), y).transform(Quantiles(FEW, values)).values
    scaled = np.sort(factor * values, axis=1)
    other = fitted(Quantiles(FEW, scaled), factor * y).transform(Quantiles(FEW, scaled)).values / factor
    if factor < 0:  # the mirror image has the levels in reverse
        assert_allclose(other[:, ::-1], plain, rtol=1e-4, atol=1e-4)
    else:
        assert_allclose(other, plain, rtol=rtol, atol=rtol)


def test_a_constant_added_to_everything_is_added():
    truth, y = world(300)
    values = truth.quantile(FEW)
    plain = fitted(Quantiles(FEW, values), y).transform(Quantiles(FEW, values)).values
    moved = fitted(Quantiles(FEW, values + 16.0), y + 16.0).transform(Quantiles(FEW, values + 16.0)).values
    assert_allclose(moved - 16.0, plain, atol=1e-5)


def test_weights_are_repetitions():
    truth, y = world(200)
    weight = np.random.default_rng(1).integers(0, 4, size=200)
    rows = np.repeat(np.arange(200), weight)
    dist = Quantiles(FEW, truth.quantile(FEW))
    weighted, repeated = fitted(dist, y, weight), fitted(dist[rows], y[rows])
    assert_allclose(weighted.transform(dist).values, repeated.transform(dist).values, rtol=1e-5, atol=1e-6)


@few_rows
def test_few_rows_are_hardly_regressed():
    _, interpolation = _interpolation(np.array(FEW), np.array(DEFAULT_LEVELS))
    departures = []
    for n in (1, 12, 100, 2000):
        truth, y = world(n)
        narrow = Quantiles(FEW, Normal(truth.mean(), 0.5 * truth.std()).quantile(FEW))
        departures.append(np.abs(fitted(narrow, y).slopes_ - interpolation).max())
    assert departures[0] < 0.05
    assert departures[1] < 0.3 * departures[3]
    assert departures == sorted(departures)


def test_forecasts_without_error_stay_as_they_are():
    y = np.arange(30.0)
    dist = Quantiles(FEW, np.repeat(y[:, np.newaxis], 4, axis=1))
    recalibrated = fitted(dist, y).transform(dist)
    assert np.array_equal(recalibrated.quantile([0.05, 0.5, 0.95]), np.repeat(y[:, np.newaxis], 3, axis=1))


def test_an_atom_of_the_lower_levels_remains():
    """Half of the targets are 0, and the quantiles say so."""
    rng = np.random.default_rng(0)
    scale = np.exp(0.5 * rng.normal(size=2000))
    y = np.where(rng.random(2000) < 0.5, 0.0, scale * rng.exponential(size=2000))
    above = np.array([0.0, 0.0, -np.log(0.35 / 0.5), -np.log(0.05 / 0.5)])
    dist = Quantiles(FEW, scale[:, np.newaxis] * above)
    recalibrated = fitted(dist, y).transform(dist)
    assert (recalibrated.quantile([0.05, 0.3]) == 0).all()
    assert recalibrated.crps(y).mean() < 1.01 * dist.crps(y).mean()


def test_other_families_are_refused():
    with pytest.raises(TypeError, match="`dist` must be Quantiles, got Normal"):
        fitted(Normal([0.0, 1.0], [1.0, 1.0]), [0.0, 1.0])
