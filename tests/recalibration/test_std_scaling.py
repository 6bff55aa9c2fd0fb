import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.distributions import Empirical, Normal, StudentT
from skuq.recalibration import StdScalingRecalibrator


def test_factor_is_the_closed_form(calibration_rows):
    dist, y = calibration_rows
    recalibrator = StdScalingRecalibrator().fit(dist, y)
    z = (y - dist.mean()) / dist.std()
    assert recalibrator.factor_ == pytest.approx(np.sqrt(np.mean(z**2)), rel=1e-14)


def test_factor_minimises_the_gaussian_likelihood(calibration_rows):
    dist, y = calibration_rows
    factor = StdScalingRecalibrator().fit(dist, y).factor_

    def nll(r):
        return -np.mean(Normal(dist.mean(), r * dist.std()).logpdf(y))

    assert nll(factor) < nll(0.99 * factor)
    assert nll(factor) < nll(1.01 * factor)


@pytest.mark.parametrize("truth", [0.02, 0.1, 1.0, 10.0])
def test_far_too_wide_and_far_too_narrow_predictions_are_mended(truth):
    # a search over the calibration error stops at its bound here (uncertainty_toolbox gives 100)
    y = truth * np.random.default_rng(0).normal(size=4000)
    factor = StdScalingRecalibrator().fit(Normal(np.zeros(4000), np.ones(4000)), y).factor_
    assert factor == pytest.approx(truth, rel=0.04)


def test_predictions_do_not_change_by_a_bit(calibration_rows):
    dist, y = calibration_rows
    recalibrator = StdScalingRecalibrator().fit(dist, y)
    assert_array_equal(recalibrator.predict(dist), dist.mean())
    assert_allclose(recalibrator.transform(dist).mean(), dist.mean(), rtol=1e-13)


def test_family_and_decomposition_survive():
    dist = StudentT([0.0, 5.0], [1.0, 2.0], 10, epistemic_scale=[0.5, 0.5])
    recalibrator = StdScalingRecalibrator().fit(dist, [3.0, -1.0])
    recalibrated = recalibrator.transform(dist)
    assert isinstance(recalibrated, StudentT)
    assert_allclose(recalibrated.std(), recalibrator.factor_ * dist.std())
    assert_allclose(recalibrated.epistemic().std(), recalibrator.factor_ * dist.epistemic().std())


def test_empirical_members_are_spread_about_their_mean():
    rng = np.random.default_rng(1)
    dist = Empirical(rng.normal(10.0, 1.0, size=(300, 20)))
    y = rng.normal(10.0, 3.0, size=300)
    recalibrated = StdScalingRecalibrator().fit(dist, y).transform(dist)
    z = (y - recalibrated.mean()) / recalibrated.std()
    assert np.mean(z**2) == pytest.approx(1.0, rel=1e-10)
    assert_allclose(recalibrated.mean(), dist.mean(), rtol=1e-12)


def test_two_rows_and_one_row():
    assert StdScalingRecalibrator().fit([[0.0, 1.0], [0.0, 1.0]], [3.0, 4.0]).factor_ == np.sqrt(12.5)
    assert StdScalingRecalibrator().fit([[0.0, 1.0]], [3.0]).factor_ == 3.0


def test_exact_point_masses_carry_no_information():
    dist = Normal([0.0, 0.0, 7.0], [1.0, 1.0, 0.0])
    assert StdScalingRecalibrator().fit(dist, [2.0, -2.0, 7.0]).factor_ == 2.0


def test_only_exact_point_masses_leave_everything_as_it_is():
    dist = Normal([1.0, 2.0], [0.0, 0.0])
    recalibrator = StdScalingRecalibrator().fit(dist, [1.0, 2.0])
    assert recalibrator.factor_ == 1.0
    assert recalibrator.transform(dist) is dist


def test_point_masses_are_exact_up_to_rounding():
    dist = Normal([0.0, 0.0, 0.3], [1.0, 1.0, 0.0])
    assert StdScalingRecalibrator().fit(dist, [2.0, -2.0, 0.1 + 0.2]).factor_ == 2.0


def test_a_missed_point_mass_raises():
    with pytest.raises(ValueError, match=r"certain \(standard deviation 0\) at row 1"):
        StdScalingRecalibrator().fit(Normal([0.0, 1.0], [1.0, 0.0]), [0.5, 1.5])


def test_residuals_of_zero_raise():
    with pytest.raises(ValueError, match="it equals the predicted mean in every row"):
        StdScalingRecalibrator().fit(Normal([0.0, 1.0], [1.0, 1.0]), [0.0, 1.0])


def test_an_infinite_standard_deviation_raises():
    with pytest.raises(ValueError, match="finite mean and standard deviation"):
        StdScalingRecalibrator().fit(StudentT([0.0, 1.0], [1.0, 1.0], 2), [0.0, 1.0])


def test_an_overflowing_residual_raises():
    with pytest.raises(ValueError, match="too many standard deviations"):
        StdScalingRecalibrator().fit(Normal([0.0, 0.0], [1e-200, 1.0]), [1.0, 1.0])
