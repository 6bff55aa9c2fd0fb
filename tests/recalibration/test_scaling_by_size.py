"""Recalibrators whose factor depends on the predicted standard deviation: in bins, and isotonic."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.isotonic import IsotonicRegression

from skuq.distributions import Empirical, Normal, StudentT
from skuq.recalibration import BinnedScalingRecalibrator, StdScalingRecalibrator, VarianceIsotonicRecalibrator
from tests.few_rows import few_rows

both = pytest.mark.parametrize("cls", [BinnedScalingRecalibrator, VarianceIsotonicRecalibrator])
OPTION = {BinnedScalingRecalibrator: "n_bins", VarianceIsotonicRecalibrator: "min_rows"}


def gaussian(std):
    return Normal(np.zeros(len(std)), np.asarray(std, dtype=float))


def std_after(recalibrator, std):
    return recalibrator.transform(gaussian(std)).std()


def draw(n, seed=0):
    """Standard deviations, and residuals of exactly these."""
    rng = np.random.default_rng(seed)
    std = 0.3 + rng.random(n)
    return std, std * rng.normal(size=n)


def single_factor(std, y):
    return StdScalingRecalibrator().fit(gaussian(std), y).factor_


# ---------------------------------------------------------------------------------------- both


@few_rows
@both
def test_one_standard_deviation_or_few_rows_are_one_factor(cls):
    for n in (1, 2, 20, 39):
        std, y = draw(n)
        new = np.array([0.01, 0.5, 7.0])
        fitted = cls().fit(gaussian(std), y)
        assert_allclose(std_after(fitted, new), single_factor(std, y) * new, err_msg=str(n))
    y = np.random.default_rng(0).normal(size=500)
    dist = Normal(y[::-1], np.full(500, 0.3))
    fitted = cls().fit(dist, y)
    factor = StdScalingRecalibrator().fit(dist, y).factor_
    assert_allclose(fitted.transform(dist).std(), 0.3 * factor)
    assert_allclose(std_after(fitted, [0.1, 0.3, 0.9]), factor * np.array([0.1, 0.3, 0.9]))


@both
def test_weights_count_repetitions_with_ties_too(cls):
    rng = np.random.default_rng(0)
    std = np.round(0.5 + rng.random(300), 1)
    y, weight = std * rng.normal(size=300), rng.integers(1, 5, size=300)
    rows, new = np.repeat(np.arange(300), weight), np.linspace(0.3, 1.7, 57)
    for option in ("auto", 3, 13, 50):
        recalibrator = cls(**{OPTION[cls]: option})
        weighted = std_after(recalibrator.fit(gaussian(std), y, sample_weight=weight), new)
        repeated = std_after(recalibrator.fit(gaussian(std[rows]), y[rows]), new)
        assert_allclose(weighted, repeated, rtol=1e-12 if cls is BinnedScalingRecalibrator else 1e-10)


@both
def test_there_are_no_more_bins_than_rows_however_often_they_are_repeated(cls):
    rng = np.random.default_rng(3)
    std = rng.uniform(0.5, 2, size=50)
    y = std * rng.normal(size=50)
    for repeats in (1e4, 1e6, 1e12):
        for weight in (np.full(50, repeats), np.where(np.arange(50) == 7, repeats, 1.0)):
            assert np.isfinite(std_after(cls().fit(gaussian(std), y, sample_weight=weight), std)).all()


def regret(recalibrator, n, world, repetitions, seed=0):
    """Mean Gaussian log score on new rows, less that of the true standard deviation."""
    losses = []
    for repetition in range(repetitions):
        rng = np.random.default_rng([seed, repetition])
        std, new = 0.3 + rng.random(n), 0.3 + rng.random(2000)
        fitted = recalibrator.fit(gaussian(std), world(std) * rng.normal(size=n))
        ratio = std_after(fitted, new) / world(new)
        losses.append(np.mean(np.log(ratio) + (ratio**-2 - 1) / 2))
    return np.mean(losses)


WORLDS = {
    "true": lambda std: std,
    "squared": lambda std: std**2,
    "reversed": lambda std: 1 / std,
    "constant": np.ones_like,
}


@pytest.mark.laws
@both
def test_a_calibrated_model_loses_little_and_a_wrong_one_gains(cls):
    for n, repetitions, most in ((20, 100, 0.04), (100, 100, 0.025), (500, 30, 0.011), (10_000, 3, 0.002)):
        assert 0 < regret(cls(), n, WORLDS["true"], repetitions) < most
    wrong = {
        BinnedScalingRecalibrator: [("squared", 500, 20, 0.02, 0.12), ("reversed", 500, 20, 0.04, 0.6)],
        VarianceIsotonicRecalibrator: [
            ("squared", 100, 40, 0.04, 0.12),
            ("squared", 500, 40, 0.015, 0.12),
            ("constant", 500, 40, 0.01, 0.16),
        ],
    }[cls]
    for world, n, repetitions, most, least in wrong:
        assert regret(cls(), n, WORLDS[world], repetitions) < most
        assert regret(StdScalingRecalibrator(), n, WORLDS[world], repetitions) > least


def test_bins_or_blocks_of_few_rows_do_not_ruin_the_log_score():
    # Without the row of the overall factor, the first has no mean: single runs reach the hundreds. The
    # textbook's isotonic regression costs 2.5 here on average, and single runs cost more than 100.
    assert regret(BinnedScalingRecalibrator(n_bins=10), 20, WORLDS["true"], 200) < 0.25
    assert regret(VarianceIsotonicRecalibrator(min_rows=1), 100, WORLDS["true"], 100) < 0.1


@both
def test_means_and_families_stay(cls, dist, y):
    recalibrator = cls().fit(dist, y)
    assert_array_equal(recalibrator.predict(dist), dist.mean())
    assert_allclose(recalibrator.transform(dist).mean(), dist.mean(), rtol=1e-12)
    assert isinstance(recalibrator.transform(StudentT([0.0], [1.0], 5.0)), StudentT)
    members = Empirical(np.random.default_rng(0).normal(5.0, 1.0, size=(10, 30)))
    scaled = recalibrator.transform(members)
    assert_allclose(scaled.mean(), members.mean(), rtol=1e-12)
    assert (scaled.std() / members.std() > 1.3).all()


@few_rows
@both
def test_what_cannot_be_scaled_is_refused(cls):
    heavy, rows = StudentT([0.0, 0.0], [1.0, 1.0], 2.0), Normal([0.0, 0.0], [1.0, 2.0])
    message = "`dist` must have a finite standard deviation in every row, got inf at row 0"
    with pytest.raises(ValueError, match=message):
        cls().fit(rows, [1.0, 2.0]).transform(heavy)
    with pytest.raises(ValueError, match="too many standard deviations"):
        cls().fit(Normal([0.0, 0.0], [1e-200, 2.0]), [1.0, 2.0])
    for option, error, match in (
        (0, ValueError, "at least 1"),
        (2.5, TypeError, "integer"),
        ("all", ValueError, "or 'auto', got 'all'"),
    ):
        with pytest.raises(error, match=match):
            cls(**{OPTION[cls]: option}).fit(rows, [1.0, 2.0])


# ---------------------------------------------------------------------------------------- bins


@few_rows
def test_factors_are_root_mean_squares_with_one_row_of_the_overall_factor():
    std = np.array([4.0, 1.0, 3.0, 2.0])
    z = np.array([2.0, 1.0, -4.0, 0.0])
    recalibrator = BinnedScalingRecalibrator(n_bins=2).fit(gaussian(std), std * z)
    overall = 21 / 4
    assert_allclose(recalibrator.factors_, np.sqrt([(1 + overall) / 3, (20 + overall) / 3]))
    assert_allclose(recalibrator.bin_edges_, [1.0, 3.0, 4.0])
    new = np.array([1e-3, 1.0, 2.9, 3.5, 4.0, 1e3])
    assert_allclose(std_after(recalibrator, new), recalibrator.factors_[[0, 0, 0, 1, 1, 1]] * new)


def test_a_large_bin_has_the_factor_of_its_rows_alone():
    rng = np.random.default_rng(0)
    std = 0.3 + rng.random(6000)
    y = np.where(std < 0.8, 2.0, 0.5) * std * rng.normal(size=6000)
    recalibrator = BinnedScalingRecalibrator(n_bins=3).fit(gaussian(std), y)
    alone = [single_factor(std[part], y[part]) for part in np.split(np.argsort(std), 3)]
    assert_allclose(recalibrator.factors_, alone, rtol=0.003)
    assert recalibrator.factors_[0] > 1.9
    assert recalibrator.factors_[2] < 0.55
    one = BinnedScalingRecalibrator(n_bins=1).fit(gaussian(std), y)
    assert_allclose(one.factors_, single_factor(std, y), rtol=1e-12)
    tied = BinnedScalingRecalibrator(n_bins=7).fit(gaussian(np.full(6000, 0.3)), y)
    assert_allclose(tied.factors_, [single_factor(np.full(6000, 0.3), y)])
    assert_array_equal(tied.bin_edges_, [0.3, 0.3])


@few_rows
def test_the_number_of_bins_grows_with_the_rows():
    for n, bins in ((2, 1), (20, 1), (49, 1), (50, 2), (100, 4), (500, 8), (10_000, 22)):
        std, y = draw(n)
        assert len(BinnedScalingRecalibrator().fit(gaussian(std), y).factors_) == bins
    after = std_after(BinnedScalingRecalibrator(n_bins=50).fit(gaussian(std[:3]), y[:3]), [0.5, 1.0, 9.0])
    assert np.isfinite(after).all()
    assert (after > 0).all()


def test_rows_of_equal_standard_deviation_get_one_factor():
    """Three values and ten bins: edges cut through the groups, which are shared by the bins."""
    rng = np.random.default_rng(0)
    std, truth = np.repeat([1.0, 2.0, 3.0], 400), np.repeat([2.0, 1.0, 0.5], 400)
    y = std * truth * rng.normal(size=1200)
    rows = rng.permutation(1200)
    recalibrator = BinnedScalingRecalibrator(n_bins=10).fit(gaussian(std[rows]), y[rows])
    after = std_after(recalibrator, [1.0, 2.0, 3.0]) / [1.0, 2.0, 3.0]
    groups = [single_factor(std[std == s], y[std == s]) for s in (1.0, 2.0, 3.0)]
    # a tenth of the last group lies in a bin that holds twice as many rows of the one before
    assert_allclose(after, groups, rtol=0.16)
    # with as many bins as groups nothing is mixed
    exact = BinnedScalingRecalibrator(n_bins=3).fit(gaussian(std), y)
    assert_allclose(std_after(exact, std) / std, np.repeat(groups, 400), rtol=0.01)


@few_rows
def test_a_shared_row_has_the_mean_square_of_its_bins():
    std, z = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])
    recalibrator = BinnedScalingRecalibrator(n_bins=2).fit(gaussian(std), std * z)
    overall = 14 / 3
    low, high = (1 + 2 + overall) / 2.5, (2 + 9 + overall) / 2.5
    assert_allclose(recalibrator.factors_, np.sqrt([low, high]))
    new = np.array([1.99, 2.0, 2.01, 2.0 * (1 + 1e-12)])
    middle = (low + high) / 2
    assert_allclose(std_after(recalibrator, new) / new, np.sqrt([low, middle, high, middle]))


def test_a_bin_of_exact_rows_keeps_some_spread():
    std = np.repeat([1.0, 2.0], 30)
    y = np.concatenate([np.zeros(30), 2.0 * np.random.default_rng(0).normal(size=30)])
    recalibrator = BinnedScalingRecalibrator(n_bins=2).fit(gaussian(std), y)
    assert_allclose(recalibrator.factors_[0], single_factor(std, y) / np.sqrt(31))
    assert (std_after(recalibrator, std) > 0).all()


# ---------------------------------------------------------------------------------------- isotonic


def test_blocks_of_one_row_are_the_textbook_method_but_for_the_first():
    std, y = draw(80)
    recalibrator = VarianceIsotonicRecalibrator(min_rows=1).fit(gaussian(std), y)
    error, weight, first = y**2, np.ones(80), np.argmin(std)
    overall = np.mean(error / std**2)
    error[first], weight[first] = (error[first] + overall * std[first] ** 2) / 2, 2.0
    textbook = IsotonicRegression().fit(std**2, error, sample_weight=weight).predict(std**2)
    assert_allclose(std_after(recalibrator, std) ** 2, textbook, rtol=1e-10)


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


@few_rows
def test_a_block_of_decreasing_errors_is_pooled():
    std = np.array([1.0, 2.0, 4.0])
    recalibrator = VarianceIsotonicRecalibrator(min_rows=1).fit(gaussian(std), [3.0, 1.0, 8.0])
    overall = (9 + 1 / 4 + 4) / 3
    pooled = (9 + overall + 1) / 3
    assert_allclose(recalibrator.predicted_variance_, [1.0, 4.0, 16.0])
    assert_allclose(recalibrator.variance_, [pooled, pooled, 64.0])
    assert_allclose(std_after(recalibrator, [1.0, 1.7, 2.0]) ** 2, pooled)
    # between knots the logarithms are linear, beyond them variances are in proportion
    assert_allclose(std_after(recalibrator, [np.sqrt(8.0)]) ** 2, np.sqrt(pooled * 64.0))
    assert_allclose(std_after(recalibrator, [0.1, 40.0]) ** 2, [pooled * 0.01, 6400.0])


@few_rows
def test_rows_are_pooled_in_proportion_to_their_variance():
    std = np.array([1.0, 2.0, 3.0, 5.0])
    z = np.array([1.0, -1.0, 2.0, 3.0])
    recalibrator = VarianceIsotonicRecalibrator(min_rows=2).fit(gaussian(std), std * z)
    overall = 15 / 4
    assert_allclose(recalibrator.predicted_variance_, [2.0, 15.0])
    assert_allclose(recalibrator.variance_, [2.0 * (2 + overall) / 3, 15.0 * 13 / 2])


def test_power_laws_are_found():
    rng = np.random.default_rng(0)
    std = np.exp(0.5 * rng.normal(size=40_000))
    new = np.array([0.4, 0.7, 1.0, 1.5, 2.5])
    for power in (0.5, 1.0, 2.0):
        recalibrator = VarianceIsotonicRecalibrator().fit(gaussian(std), std**power * rng.normal(size=40_000))
        assert_allclose(std_after(recalibrator, new), new**power, rtol=0.06)


def test_the_variance_never_falls_and_is_never_zero():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        std = np.round(0.3 + rng.random(200), 2)
        y = rng.normal(size=200) / std
        y[rng.random(200) < 0.3] = 0.0
        y[np.argsort(std)[:30]] = 0.0
        recalibrator = VarianceIsotonicRecalibrator(min_rows=int(rng.integers(1, 30)))
        after = std_after(recalibrator.fit(gaussian(std), y), np.geomspace(0.01, 10, 500)) ** 2
        assert (np.diff(after) >= -1e-12 * after[1:]).all()
        assert (after > 0).all()
        assert (recalibrator.variance_ > 0).all()
        assert (np.diff(recalibrator.predicted_variance_) > 0).all()


def test_extreme_units_change_nothing():
    std, y = draw(500)
    expected = std_after(VarianceIsotonicRecalibrator().fit(gaussian(std), y), std)
    for unit in (1e-120, 1e120):
        recalibrator = VarianceIsotonicRecalibrator().fit(gaussian(unit * std), unit * y)
        assert_allclose(std_after(recalibrator, unit * std), unit * expected, rtol=1e-9)
