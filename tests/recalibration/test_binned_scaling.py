"""A factor for each bin of predicted standard deviation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.distributions import Empirical, Normal, StudentT
from skuq.recalibration import BinnedScalingRecalibrator, StdScalingRecalibrator
from tests.few_rows import few_rows


def gaussian(std):
    return Normal(np.zeros(len(std)), std)


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


@few_rows
def test_factors_are_root_mean_squares_with_one_row_of_the_overall_factor():
    std = np.array([4.0, 1.0, 3.0, 2.0])
    z = np.array([2.0, 1.0, -4.0, 0.0])
    recalibrator = BinnedScalingRecalibrator(n_bins=2).fit(gaussian(std), std * z)
    overall = 21 / 4
    assert_allclose(recalibrator.factors_, np.sqrt([(1 + overall) / 3, (20 + overall) / 3]))
    assert_allclose(recalibrator.bin_edges_, [1.0, 3.0, 4.0])
    new = np.array([1e-3, 1.0, 2.9, 3.5, 4.0, 1e3])
    expected = recalibrator.factors_[[0, 0, 0, 1, 1, 1]] * new
    assert_allclose(recalibrator.transform(gaussian(new)).std(), expected)


def test_a_large_bin_has_the_factor_of_its_rows_alone():
    rng = np.random.default_rng(0)
    std = 0.3 + rng.random(6000)
    y = np.where(std < 0.8, 2.0, 0.5) * std * rng.normal(size=6000)
    recalibrator = BinnedScalingRecalibrator(n_bins=3).fit(gaussian(std), y)
    order = np.argsort(std)
    alone = [
        StdScalingRecalibrator().fit(gaussian(std[part]), y[part]).factor_ for part in np.split(order, 3)
    ]
    assert_allclose(recalibrator.factors_, alone, rtol=0.003)
    assert recalibrator.factors_[0] > 1.9
    assert recalibrator.factors_[2] < 0.55


def test_one_bin_is_one_factor(calibration_rows):
    dist, y = calibration_rows
    recalibrator = BinnedScalingRecalibrator(n_bins=1).fit(dist, y)
    assert_allclose(recalibrator.factors_, StdScalingRecalibrator().fit(dist, y).factor_, rtol=1e-12)


@pytest.mark.parametrize("n_bins", ["auto", 7])
def test_one_standard_deviation_is_one_bin(n_bins):
    y = np.random.default_rng(0).normal(size=500)
    dist = Normal(y[::-1], np.full(500, 0.3))
    recalibrator = BinnedScalingRecalibrator(n_bins=n_bins).fit(dist, y)
    assert_allclose(recalibrator.factors_, [StdScalingRecalibrator().fit(dist, y).factor_])
    assert_array_equal(recalibrator.bin_edges_, [0.3, 0.3])
    other = recalibrator.transform(gaussian(np.array([0.1, 0.3, 0.9])))
    assert_allclose(other.std(), recalibrator.factors_ * [0.1, 0.3, 0.9])


@few_rows
@pytest.mark.parametrize(("n", "bins"), [(2, 1), (20, 1), (49, 1), (50, 2), (100, 4), (500, 8), (10_000, 22)])
def test_the_number_of_bins_grows_with_the_rows(n, bins):
    rng = np.random.default_rng(0)
    std = 0.3 + rng.random(n)
    assert len(BinnedScalingRecalibrator().fit(gaussian(std), rng.normal(size=n)).factors_) == bins


def test_rows_of_equal_standard_deviation_get_one_factor():
    """Three values and ten bins: edges cut through the groups, which are shared by the bins."""
    rng = np.random.default_rng(0)
    std, truth = np.repeat([1.0, 2.0, 3.0], 400), np.repeat([2.0, 1.0, 0.5], 400)
    y = std * truth * rng.normal(size=1200)
    rows = rng.permutation(1200)
    recalibrator = BinnedScalingRecalibrator(n_bins=10).fit(gaussian(std[rows]), y[rows])
    after = recalibrator.transform(gaussian(np.array([1.0, 2.0, 3.0]))).std() / [1.0, 2.0, 3.0]
    groups = [
        StdScalingRecalibrator().fit(gaussian(std[std == s]), y[std == s]).factor_ for s in (1.0, 2.0, 3.0)
    ]
    # a tenth of the last group lies in a bin that holds twice as many rows of the one before
    assert_allclose(after, groups, rtol=0.16)
    # with as many bins as groups nothing is mixed
    exact = BinnedScalingRecalibrator(n_bins=3).fit(gaussian(std), y)
    assert_allclose(exact.transform(gaussian(std)).std() / std, np.repeat(groups, 400), rtol=0.01)


@few_rows
def test_a_shared_row_has_the_mean_square_of_its_bins():
    std, z = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])
    recalibrator = BinnedScalingRecalibrator(n_bins=2).fit(gaussian(std), std * z)
    overall = 14 / 3
    low, high = (1 + 2 + overall) / 2.5, (2 + 9 + overall) / 2.5
    assert_allclose(recalibrator.factors_, np.sqrt([low, high]))
    after = recalibrator.transform(gaussian(np.array([1.99, 2.0, 2.01]))).std() / [1.99, 2.0, 2.01]
    assert_allclose(after, np.sqrt([low, (low + high) / 2, high]))
    rounded = recalibrator.transform(gaussian(np.array([2.0 * (1 + 1e-12)]))).std() / 2.0
    assert_allclose(rounded, np.sqrt((low + high) / 2))


def test_a_bin_of_exact_rows_keeps_some_spread():
    std = np.repeat([1.0, 2.0], 30)
    y = np.concatenate([np.zeros(30), 2.0 * np.random.default_rng(0).normal(size=30)])
    recalibrator = BinnedScalingRecalibrator(n_bins=2).fit(gaussian(std), y)
    overall = StdScalingRecalibrator().fit(gaussian(std), y).factor_
    assert_allclose(recalibrator.factors_[0], overall / np.sqrt(31))
    assert (recalibrator.transform(gaussian(std)).std() > 0).all()


@few_rows
def test_more_bins_than_rows():
    recalibrator = BinnedScalingRecalibrator(n_bins=50).fit(gaussian(np.array([1.0, 2.0, 3.0])), [1, -2, 0.5])
    after = recalibrator.transform(gaussian(np.array([0.5, 1.0, 1.7, 2.0, 3.0, 9.0]))).std()
    assert np.isfinite(after).all()
    assert (after > 0).all()


def test_weights_count_repetitions_with_ties_too():
    rng = np.random.default_rng(0)
    std = np.round(0.5 + rng.random(300), 1)
    y, weight = std * rng.normal(size=300), rng.integers(1, 5, size=300)
    rows = np.repeat(np.arange(300), weight)
    new = gaussian(np.linspace(0.3, 1.7, 57))
    for n_bins in ("auto", 4, 13):
        recalibrator = BinnedScalingRecalibrator(n_bins=n_bins)
        weighted = recalibrator.fit(gaussian(std), y, sample_weight=weight).transform(new).std()
        repeated = recalibrator.fit(gaussian(std[rows]), y[rows]).transform(new).std()
        assert_allclose(weighted, repeated, rtol=1e-12)


def test_a_calibrated_model_loses_little_and_a_wrong_one_gains():
    def true(std):
        return std

    def reversed_(std):
        return 1 / std

    def squared(std):
        return std**2

    binned, single = BinnedScalingRecalibrator(), StdScalingRecalibrator()
    for n, repetitions, most in ((20, 100, 0.04), (100, 100, 0.025), (500, 30, 0.011), (10_000, 3, 0.002)):
        assert 0 < regret(binned, n, true, repetitions) < most
    for world, most, least in ((squared, 0.02, 0.12), (reversed_, 0.04, 0.6)):
        assert regret(binned, 500, world, 20) < most
        assert regret(single, 500, world, 20) > least


def test_bins_of_two_rows_do_not_ruin_the_log_score():
    # without the row of the overall factor this has no mean: single runs reach the hundreds
    assert regret(BinnedScalingRecalibrator(n_bins=10), 20, lambda std: std, 200) < 0.25


def test_means_and_families_stay(calibration_rows):
    dist, y = calibration_rows
    recalibrator = BinnedScalingRecalibrator().fit(dist, y)
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
    recalibrator = BinnedScalingRecalibrator(n_bins=2).fit(dist, [5.0, 1.0, 4.0, 6.0])
    alone = BinnedScalingRecalibrator(n_bins=2).fit(gaussian(std[1:3]), [1.0, 4.0])
    assert_allclose(recalibrator.factors_, alone.factors_)
    assert_allclose(recalibrator.transform(dist).std()[[0, 3]], 0.0)
    nothing = Normal([1.0, 2.0], [0.0, 0.0])
    assert BinnedScalingRecalibrator().fit(nothing, [1.0, 2.0]).transform(nothing) is nothing
    with pytest.raises(ValueError, match="certain"):
        BinnedScalingRecalibrator().fit(dist, [5.5, 1.0, 4.0, 6.0])


@few_rows
def test_what_cannot_be_scaled_is_refused():
    heavy = StudentT([0.0, 0.0], [1.0, 1.0], 2.0)
    with pytest.raises(ValueError, match="finite mean and standard deviation"):
        BinnedScalingRecalibrator().fit(heavy, [0.0, 1.0])
    fitted = BinnedScalingRecalibrator().fit([[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0])
    message = "`dist` must have a finite standard deviation in every row, got inf at row 0"
    with pytest.raises(ValueError, match=message):
        fitted.transform(heavy)
    with pytest.raises(ValueError, match=r"got 0\. In all or most rows, `y` equals the predicted mean"):
        BinnedScalingRecalibrator().fit([[0.0, 1.0], [0.0, 2.0]], [0.0, 0.0])
    with pytest.raises(ValueError, match="too many standard deviations"):
        BinnedScalingRecalibrator().fit([[0.0, 1e-200], [0.0, 2.0]], [1.0, 2.0])


@pytest.mark.parametrize(
    ("n_bins", "error", "match"),
    [(0, ValueError, "at least 1"), (2.5, TypeError, "integer"), ("all", TypeError, "integer")],
)
def test_bad_numbers_of_bins(n_bins, error, match):
    with pytest.raises(error, match=match):
        BinnedScalingRecalibrator(n_bins=n_bins).fit([[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0])


def test_relative_weights_raise_because_rows_are_counted():
    with pytest.raises(ValueError, match="counts repetitions"):
        BinnedScalingRecalibrator().fit([[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0], sample_weight=[0.5, 0.5])
