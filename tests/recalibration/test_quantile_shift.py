"""Each quantile is shifted by its own residuals: exactly, far out, onto atoms, and without crossing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.stats import betabinom

from skuq.conformal import ConformalRecalibrator
from skuq.distributions import Normal, Quantiles, ScipyDistribution, affine
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import crps_loss
from skuq.recalibration import IsotonicRecalibrator, QuantileShiftRecalibrator
from tests.few_rows import few_rows

LEVELS = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])


def make_rows(n, seed=0, factor=0.6):
    """Quantiles of skewed noise that grows with a feature; their distances from the median are too short."""
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=n), 0.3 + rng.random(n)
    shape = np.expm1(Normal(np.zeros(n), 0.5).quantile(LEVELS))
    values = loc[:, np.newaxis] + factor * scale[:, np.newaxis] * shape
    return Quantiles(LEVELS, values), loc + scale * np.expm1(rng.normal(scale=0.5, size=n))


def units(dist, mean_width):
    lower, upper = dist.interval(0.9).T
    return (upper - lower + mean_width) / 2


# --------------------------------------------------------------------------------- definition


def test_shifts_are_order_statistics_of_the_residuals_of_each_quantile():
    dist, y = make_rows(150)
    fitted = QuantileShiftRecalibrator().fit(dist, y)
    assert_array_equal(fitted.levels_, [0.01, 0.025, *LEVELS, 0.975, 0.99])
    unit = units(dist, fitted.mean_width_)
    residuals = (y[:, np.newaxis] - dist.quantile(fitted.levels_)) / unit[:, np.newaxis]
    expected = [
        np.quantile(column, level, method="weibull")
        for column, level in zip(residuals.T, fitted.levels_, strict=True)
    ]
    assert_allclose(fitted.shifts_, expected, rtol=1e-10)
    new = make_rows(5, seed=1)[0]
    moved = units(new, fitted.mean_width_)[:, np.newaxis] * fitted.shifts_
    recalibrated = fitted.transform(new)
    assert_allclose(recalibrated.values, new.quantile(fitted.levels_) + moved, rtol=1e-12)


@few_rows
def test_tails_are_learned_as_far_out_as_rows_have_ranks():
    for n, outermost in ((5, 0.05), (38, 0.05), (39, 0.025), (198, 0.01), (199, 0.005), (3000, 0.0005)):
        dist, y = make_rows(n)
        levels = QuantileShiftRecalibrator().fit(dist, y).levels_
        assert (levels[0], levels[-1]) == (outermost, 1 - outermost)
        weighted = QuantileShiftRecalibrator().fit(dist[:1], y[:1], sample_weight=[n])
        assert_array_equal(weighted.levels_, levels)


def test_levels_are_those_of_the_quantiles_the_given_or_nineteen():
    dist, y = make_rows(30)
    assert_array_equal(QuantileShiftRecalibrator(levels=[0.2, 0.6]).fit(dist, y).levels_[1:3], [0.2, 0.6])
    own = Quantiles([0.001, 0.5, 0.9999], np.sort(dist.values[:, :3]))
    assert_array_equal(QuantileShiftRecalibrator().fit(own, y).levels_, own.levels)
    normal = QuantileShiftRecalibrator().fit(Normal(y, np.ones(30)), y)
    assert_allclose(normal.levels_, np.linspace(0.05, 0.95, 19))
    # levels of the tails that are given already are not repeated
    dist, y = make_rows(300)
    fitted = QuantileShiftRecalibrator(levels=[0.025 * (1 + 1e-12), 0.5, 0.95 - 1e-16]).fit(dist, y)
    assert_allclose(fitted.levels_, [0.005, 0.01, 0.025, 0.5, 0.95, 0.975, 0.99, 0.995])
    assert (np.diff(fitted.levels_) > 1e-6).all()
    assert np.isfinite(fitted.transform(dist).quantile([1e-6, 1 - 1e-6])).all()


@few_rows
def test_a_level_without_a_rank_is_shifted_as_far_as_the_outermost_one_that_has():
    dist, y = make_rows(1)
    fitted = QuantileShiftRecalibrator().fit(dist, y)
    assert_allclose(fitted.shifts_, fitted.shifts_[0], rtol=1e-12)
    assert_allclose(fitted.transform(dist).median(), y)
    assert_allclose(fitted.transform(dist).values - dist.values, (y - dist.median())[0], rtol=1e-9)


# --------------------------------------------------------------------------------- what it reaches


def test_intervals_cover_new_rows_far_into_the_tails():
    n, m = 1000, 5000
    (dist, y), (new, y_new) = make_rows(n), make_rows(m, seed=1)
    recalibrated = QuantileShiftRecalibrator().fit(dist, y).transform(new)
    assert crps_loss(y_new, recalibrated) < crps_loss(y_new, new)
    for coverage in (0.5, 0.8, 0.9, 0.95, 0.99):
        k = coverage * (n + 1)
        low, high = betabinom.ppf([0.005, 0.995], m, k, n + 1 - k)
        before, after = (
            np.sum((lower <= y_new) & (y_new <= upper))
            for lower, upper in (each.interval(coverage).T for each in (new, recalibrated))
        )
        assert before < low <= after <= high


@pytest.mark.laws
def test_both_tails_of_a_skewed_forecast_are_exceeded_equally_often():
    (dist, y), (new, y_new) = make_rows(4000), make_rows(20_000, seed=1)
    lower, upper = QuantileShiftRecalibrator().fit(dist, y).transform(new).interval(0.98).T
    assert_allclose([np.mean(y_new < lower), np.mean(y_new > upper)], 0.01, atol=0.005)


def test_overfitted_quantiles_stay_sharper_than_by_a_map_of_levels():
    """Quantiles of some rows lie close to each other by chance, far from the target."""
    rng = np.random.default_rng(0)
    n = 1000
    narrow = rng.uniform(0.01, 1.0, size=2 * n)[:, np.newaxis]
    values = rng.normal(scale=0.5, size=(2 * n, 1)) + narrow * Normal([0.0], 1.0).quantile(LEVELS)
    dist, y = Quantiles(LEVELS, values), rng.normal(size=2 * n)
    shifted, mapped = (
        recalibrator.fit(dist[:n], y[:n]).transform(dist[n:])
        for recalibrator in (QuantileShiftRecalibrator(), IsotonicRecalibrator())
    )
    assert crps_loss(y[n:], shifted) < 0.95 * crps_loss(y[n:], mapped)
    assert np.diff(shifted.interval(0.9)).mean() < 0.8 * np.diff(mapped.interval(0.9)).mean()


def test_quantiles_do_not_cross():
    rng = np.random.default_rng(0)
    values = np.sort(rng.normal(size=(40, LEVELS.size)) * rng.exponential(size=(40, 1)), axis=1)
    dist, y = Quantiles(LEVELS, values), rng.standard_cauchy(40)
    recalibrated = QuantileShiftRecalibrator().fit(dist, y).transform(dist)
    assert (np.diff(recalibrated.values, axis=1) >= 0).all()
    assert (np.diff(recalibrated.quantile(np.linspace(0.001, 0.999, 500)), axis=1) >= 0).all()


# --------------------------------------------------------------------------------- atoms


def test_atoms_stay_where_they_are():
    """Waiting times of which four in ten are 0: lower quantiles are 0 and stay 0, to the last bit."""
    rng = np.random.default_rng(0)
    scale = 1 + rng.random(500)
    levels = np.array([0.05, 0.2, 0.35, 0.5, 0.7, 0.9, 0.95])
    y = np.where(rng.random(500) < 0.4, 0.0, rng.exponential(scale))
    shape = -np.log(np.minimum((1 - levels) / 0.6, 1.0))
    dist = Quantiles(levels, 0.5 * scale[:, np.newaxis] * shape)
    recalibrated = QuantileShiftRecalibrator().fit(dist, y).transform(dist)
    assert_array_equal(recalibrated.quantile([0.005, 0.05, 0.2, 0.35]), 0.0)
    lower, upper = recalibrated.interval(0.9).T
    assert np.mean((lower <= y) & (y <= upper)) > 0.93  # half of what lies below 5 % are zeros as well
    assert np.mean(y > upper) == pytest.approx(0.05, abs=0.01)


def test_quantiles_that_are_shifted_onto_atoms_reach_them():
    for value in (0.1, 1 / 3, 1e7 + 0.1, -2e-9):
        y = value * np.repeat([1.0, 2.0, 3.0], 100)
        dist = Quantiles([0.1, 0.5, 0.9], np.tile(np.abs(value) * np.array([0.7, 1.1, 1.3]), (300, 1)))
        lower, upper = QuantileShiftRecalibrator().fit(dist, y).transform(dist).interval(0.8).T
        assert ((lower <= y) & (y <= upper)).all()
        assert_allclose(upper - lower, 2 * np.abs(value), rtol=1e-6)


def test_point_masses_are_shifted_in_the_units_of_y():
    y = 5 + np.arange(99.0)
    dist = Quantiles([0.1, 0.5, 0.9], np.full((99, 3), 3.0))
    fitted = QuantileShiftRecalibrator().fit(dist, y)
    assert fitted.mean_width_ == 0
    assert_allclose(fitted.transform(dist[:1]).interval([0.8, 0.98])[0], [[14, 5], [94, 103]])
    other = QuantileShiftRecalibrator().fit(affine(dist, 0, 1e3), 1e3 * y).transform(affine(dist, 0, 1e3))
    assert_allclose(other.values, 1e3 * fitted.transform(dist).values)
    exact = QuantileShiftRecalibrator().fit(dist, np.full(99, 3.0)).transform(dist)
    assert_array_equal(exact.values, 3.0)


# --------------------------------------------------------------------------------- input


def test_levels_are_checked():
    dist, y = make_rows(20)
    for levels, message in (
        ([0.5], "`levels` must have at least two levels, got 1"),
        ([0.1, 1.0], "`levels` must lie strictly between 0 and 1"),
        ([0.9, 0.1], "`levels` must be strictly increasing"),
        ([10, 90], "Did you mean 0.1"),
    ):
        with pytest.raises(ValueError, match=message):
            QuantileShiftRecalibrator(levels=levels).fit(dist, y)


def test_quantiles_and_targets_must_be_finite_and_within_reach():
    dist, y = make_rows(20)
    infinite = ConformalRecalibrator().fit(dist[:3], y[:3]).transform(dist)
    message = r"`dist` must have finite quantiles at the levels from .* in row 0\. Use IsotonicRecalibrator"
    with pytest.warns(SmallSampleWarning), pytest.raises(ValueError, match=message):
        QuantileShiftRecalibrator().fit(infinite, y)
    narrow = affine(dist, 0.0, 1e-200)
    with pytest.raises(ValueError, match=r"`y` must not be too far.* at row 3.* 90 % intervals"):
        QuantileShiftRecalibrator().fit(narrow, np.where(np.arange(20) == 3, 1e200, 0.0))


def test_no_moments_are_needed():
    y = np.random.default_rng(0).standard_cauchy(300)
    dist = ScipyDistribution(stats.cauchy(np.zeros(300), 0.5))
    lower, upper = QuantileShiftRecalibrator().fit(dist, y).transform(dist[:1]).interval(0.9).T
    assert_allclose([lower[0], upper[0]], [-6.3, 6.3], atol=2)
