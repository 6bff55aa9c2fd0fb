"""Isotonic regression of the squared error on the predicted variance."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.isotonic import IsotonicRegression

from skuq.distributions import Empirical, Normal, StudentT
from skuq.recalibration import BinnedScalingRecalibrator, StdScalingRecalibrator, VarianceIsotonicRecalibrator
from tests.few_rows import few_rows


def gaussian(std):
    return Normal(np.zeros(len(std)), std)


def variance_after(recalibrator, std):
    return recalibrator.transform(gaussian(np.asarray(std, dtype=float))).var()


def regret(recalibrator, n, world, repetitions, seed=0):
    """Mean Gaussian log score on new rows, less that of the true standard deviation."""
    losses = []
    for repetition in range(repetitions):
        rng = np.random.default_rng([seed, repetition])
        std, new = 0.3 + rng.random(n), 0.3 + rng.random(2000)
        fitted = recalibrator.fit(gaussian(std), world(std) * rng.normal(size=n))
        ratio = fitted.transform(gaussian(new)).std() / world(new)
        losses.append(np.mean(np.log(ratio) + (ratio**-2 - 1) / 2))
    return np.mean(losses)


def test_blocks_of_one_row_are_the_textbook_method_but_for_the_first():
    rng = np.random.default_rng(0)
    std = 0.3 + rng.random(80)
    y = std * rng.normal(size=80)
    recalibrator = VarianceIsotonicRecalibrator(min_rows=1).fit(gaussian(std), y)
    error, weight, first = y**2, np.ones(80), np.argmin(std)
    overall = np.mean(error / std**2)
    error[first], weight[first] = (error[first] + overall * std[first] ** 2) / 2, 2.0
    textbook = IsotonicRegression().fit(std**2, error, sample_weight=weight).predict(std**2)
    assert_allclose(variance_after(recalibrator, std), textbook, rtol=1e-10)


@few_rows
def test_a_block_of_decreasing_errors_is_pooled():
    std = np.array([1.0, 2.0, 4.0])
    recalibrator = VarianceIsotonicRecalibrator(min_rows=1).fit(gaussian(std), [3.0, 1.0, 8.0])
    overall = (9 + 1 / 4 + 4) / 3
    pooled = (9 + overall + 1) / 3
    assert_allclose(recalibrator.predicted_variance_, [1.0, 4.0, 16.0])
    assert_allclose(recalibrator.variance_, [pooled, pooled, 64.0])
    assert_allclose(variance_after(recalibrator, [1.0, 1.7, 2.0]), pooled)
    # between knots the logarithms are linear, beyond them variances are in proportion
    assert_allclose(variance_after(recalibrator, [np.sqrt(8.0)]), np.sqrt(pooled * 64.0))
    assert_allclose(variance_after(recalibrator, [0.1, 40.0]), [pooled * 0.01, 6400.0])


@few_rows
def test_rows_are_pooled_in_proportion_to_their_variance():
    std = np.array([1.0, 2.0, 3.0, 5.0])
    z = np.array([1.0, -1.0, 2.0, 3.0])
    recalibrator = VarianceIsotonicRecalibrator(min_rows=2).fit(gaussian(std), std * z)
    overall = 15 / 4
    assert_allclose(recalibrator.predicted_variance_, [2.0, 15.0])
    assert_allclose(recalibrator.variance_, [2.0 * (2 + overall) / 3, 15.0 * 13 / 2])


@few_rows
@pytest.mark.parametrize("n", [1, 2, 20, 39])
def test_few_rows_are_one_factor(n):
    rng = np.random.default_rng(0)
    std, new = 0.3 + rng.random(n), np.array([0.01, 0.5, 7.0])
    y = std * rng.normal(size=n)
    factor = StdScalingRecalibrator().fit(gaussian(std), y).factor_
    after = VarianceIsotonicRecalibrator().fit(gaussian(std), y)
    assert_allclose(variance_after(after, new), (factor * new) ** 2)


def test_one_standard_deviation_for_all_rows_is_one_factor():
    y = np.random.default_rng(0).normal(size=500)
    dist = Normal(y[::-1], np.full(500, 0.3))
    recalibrator = VarianceIsotonicRecalibrator().fit(dist, y)
    assert_allclose(recalibrator.transform(dist).std(), 0.3 * StdScalingRecalibrator().fit(dist, y).factor_)


def test_power_laws_are_found():
    rng = np.random.default_rng(0)
    std = np.exp(0.5 * rng.normal(size=40_000))
    new = np.array([0.4, 0.7, 1.0, 1.5, 2.5])
    for power in (0.5, 1.0, 2.0):
        recalibrator = VarianceIsotonicRecalibrator().fit(gaussian(std), std**power * rng.normal(size=40_000))
        assert_allclose(np.sqrt(variance_after(recalibrator, new)), new**power, rtol=0.06)


def test_the_variance_never_falls_and_is_never_zero():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        std = np.round(0.3 + rng.random(200), 2)
        y = rng.normal(size=200) / std
        y[rng.random(200) < 0.3] = 0.0
        y[np.argsort(std)[:30]] = 0.0
        recalibrator = VarianceIsotonicRecalibrator(min_rows=int(rng.integers(1, 30)))
        grid = np.geomspace(0.01, 10, 500)
        after = variance_after(recalibrator.fit(gaussian(std), y), grid)
        assert (np.diff(after) >= -1e-12 * after[1:]).all()
        assert (after > 0).all()
        assert (recalibrator.variance_ > 0).all()
        assert (np.diff(recalibrator.predicted_variance_) > 0).all()


def test_a_calibrated_model_loses_little_and_a_wrong_one_gains():
    def true(std):
        return std

    def squared(std):
        return std**2

    def constant(std):
        return np.ones_like(std)

    isotonic, single = VarianceIsotonicRecalibrator(), StdScalingRecalibrator()
    for n, repetitions, most in ((20, 100, 0.04), (100, 100, 0.025), (500, 30, 0.011), (10_000, 3, 0.002)):
        assert 0 < regret(isotonic, n, true, repetitions) < most
    for n, world, most, least in (
        (100, squared, 0.04, 0.12),
        (500, squared, 0.015, 0.12),
        (500, constant, 0.01, 0.16),
    ):
        assert regret(isotonic, n, world, 40) < most
        assert regret(single, n, world, 40) > least


def test_the_first_rows_do_not_decide_alone():
    # the textbook's method costs 2.5 here on average, single runs more than 100
    assert regret(VarianceIsotonicRecalibrator(min_rows=1), 100, lambda std: std, 100) < 0.1


def test_weights_count_repetitions_with_ties_too():
    rng = np.random.default_rng(0)
    std = np.round(0.5 + rng.random(300), 1)
    y, weight = std * rng.normal(size=300), rng.integers(1, 5, size=300)
    rows = np.repeat(np.arange(300), weight)
    new = np.linspace(0.3, 1.7, 57)
    for min_rows in ("auto", 3, 50):
        recalibrator = VarianceIsotonicRecalibrator(min_rows=min_rows)
        weighted = variance_after(recalibrator.fit(gaussian(std), y, sample_weight=weight), new)
        repeated = variance_after(recalibrator.fit(gaussian(std[rows]), y[rows]), new)
        assert_allclose(weighted, repeated, rtol=1e-10)


@few_rows
def test_blocks_of_one_row_are_groups_of_equal_variance_however_they_are_weighted():
    """Rounding errors of the centers of tied blocks were two knots, of which the outer one was outside."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(5, 60))
        std = np.round(0.5 + rng.random(n), 1)
        y, weight = std * rng.normal(size=n), rng.integers(1, 5, size=n)
        rows = np.repeat(np.arange(n), weight)
        recalibrator = VarianceIsotonicRecalibrator(min_rows=1)
        weighted = recalibrator.fit(gaussian(std), y, sample_weight=weight).variance_
        assert_allclose(recalibrator.predicted_variance_, np.unique(std) ** 2, rtol=1e-12)
        assert_allclose(weighted, recalibrator.fit(gaussian(std[rows]), y[rows]).variance_, rtol=1e-12)


def test_extreme_units_change_nothing():
    rng = np.random.default_rng(0)
    std = 0.3 + rng.random(500)
    y = std * rng.normal(size=500)
    expected = np.sqrt(variance_after(VarianceIsotonicRecalibrator().fit(gaussian(std), y), std))
    for unit in (1e-120, 1e120):
        recalibrator = VarianceIsotonicRecalibrator().fit(gaussian(unit * std), unit * y)
        assert_allclose(recalibrator.transform(gaussian(unit * std)).std(), unit * expected, rtol=1e-9)


def test_means_and_families_stay(calibration_rows):
    dist, y = calibration_rows
    recalibrator = VarianceIsotonicRecalibrator().fit(dist, y)
    assert_array_equal(recalibrator.predict(dist), dist.mean())
    assert_allclose(recalibrator.transform(dist).mean(), dist.mean(), rtol=1e-12)
    assert isinstance(recalibrator.transform(StudentT([0.0], [1.0], 5.0)), StudentT)
    members = Empirical(np.random.default_rng(0).normal(5.0, 1.0, size=(10, 30)))
    scaled = recalibrator.transform(members)
    assert_allclose(scaled.mean(), members.mean(), rtol=1e-12)
    assert (scaled.std() / members.std() > 1.3).all()


@few_rows
def test_point_masses():
    std = np.array([0.0, 1.0, 2.0, 0.0])
    dist = Normal([5.0, 0.0, 0.0, 6.0], std)
    recalibrator = VarianceIsotonicRecalibrator(min_rows=1).fit(dist, [5.0, 1.0, 4.0, 6.0])
    alone = VarianceIsotonicRecalibrator(min_rows=1).fit(gaussian(std[1:3]), [1.0, 4.0])
    assert_allclose(recalibrator.variance_, alone.variance_)
    assert_allclose(recalibrator.transform(dist).std()[[0, 3]], 0.0)
    nothing = Normal([1.0, 2.0], [0.0, 0.0])
    assert VarianceIsotonicRecalibrator().fit(nothing, [1.0, 2.0]).transform(nothing) is nothing
    with pytest.raises(ValueError, match="certain"):
        VarianceIsotonicRecalibrator().fit(dist, [5.5, 1.0, 4.0, 6.0])


@few_rows
def test_what_cannot_be_scaled_is_refused():
    heavy = StudentT([0.0, 0.0], [1.0, 1.0], 2.0)
    with pytest.raises(ValueError, match="finite mean and standard deviation"):
        VarianceIsotonicRecalibrator().fit(heavy, [0.0, 1.0])
    fitted = VarianceIsotonicRecalibrator().fit([[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0])
    message = "`dist` must have a finite standard deviation in every row, got inf at row 0"
    with pytest.raises(ValueError, match=message):
        fitted.transform(heavy)
    with pytest.raises(ValueError, match=r"got 0\. In all or most rows, `y` equals the predicted mean"):
        VarianceIsotonicRecalibrator().fit([[0.0, 1.0], [0.0, 2.0]], [0.0, 0.0])


@pytest.mark.parametrize(
    ("min_rows", "error", "match"),
    [(0, ValueError, "at least 1"), (2.5, TypeError, "integer"), ("all", TypeError, "integer")],
)
def test_bad_numbers_of_rows(min_rows, error, match):
    with pytest.raises(error, match=match):
        VarianceIsotonicRecalibrator(min_rows=min_rows).fit([[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0])


def test_relative_weights_raise_because_rows_are_counted():
    with pytest.raises(ValueError, match="counts repetitions"):
        VarianceIsotonicRecalibrator().fit([[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0], sample_weight=[0.5, 0.5])


@pytest.mark.parametrize("repeats", [1e4, 1e6, 1e12])
@pytest.mark.parametrize("recalibrator", [VarianceIsotonicRecalibrator(), BinnedScalingRecalibrator()])
def test_there_are_no_more_bins_than_rows_however_often_they_are_repeated(recalibrator, repeats):
    rng = np.random.default_rng(3)
    dist = Normal(np.zeros(50), rng.uniform(0.5, 2, size=50))
    y = dist.scale * rng.normal(size=50)
    recalibrated = recalibrator.fit(dist, y, sample_weight=np.full(50, repeats)).transform(dist)
    assert np.isfinite(recalibrated.std()).all()
    uneven = np.where(np.arange(50) == 7, repeats, 1.0)
    assert np.isfinite(recalibrator.fit(dist, y, sample_weight=uneven).transform(dist).std()).all()
