"""Standardized residuals: what counts as certain, and what is forecast where there are none."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import cauchy
from sklearn.base import clone

from skuq.conformal import ConformalRecalibrator
from skuq.distributions import Empirical, Normal, ScipyDistribution, StudentT
from skuq.recalibration import (
    BinnedScalingRecalibrator,
    EmpiricalRecalibrator,
    StdScalingRecalibrator,
    VarianceIsotonicRecalibrator,
)
from skuq.recalibration._residuals import standardized_residuals

RECALIBRATORS = [
    StdScalingRecalibrator(),
    StdScalingRecalibrator(objective="crps"),
    StdScalingRecalibrator(robust=True),
    BinnedScalingRecalibrator(),
    VarianceIsotonicRecalibrator(),
    EmpiricalRecalibrator(),
    EmpiricalRecalibrator(smooth=False),
    ConformalRecalibrator(),
    ConformalRecalibrator(group_by=2),
]


def agreeing_members(n=40):
    """An ensemble whose members agree in the last row, but for rounding of their mean and spread."""
    rng = np.random.default_rng(0)
    members = np.vstack([rng.normal(size=(n, 7)), np.full(7, 0.1)])
    dist = Empirical(members)
    return dist, np.append(rng.normal(size=n), 0.1)


def test_members_that_agree_are_certain_whatever_rounding_leaves_of_their_spread():
    dist = Normal([0.0, 0.1, 3e5], [1.0, 1.4e-17, 4e-11])
    mean, std, z = standardized_residuals(dist, np.array([2.0, 0.1 + 2.8e-17, 3e5 + 6e-11]))
    assert_array_equal(mean, dist.loc)
    assert_array_equal(std, [1.0, 0.0, 0.0])
    assert_array_equal(z, [2.0, 0.0, 0.0])


def test_a_small_standard_deviation_around_zero_is_no_rounding():
    assert_array_equal(standardized_residuals(Normal([0.0], [1e-200]), np.array([2e-200])).z, [2.0])


@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=repr)
def test_spreads_of_rounding_agreeing_members_and_distributions_without_moments(recalibrator):
    exact, y = agreeing_members()
    rounded = Normal(exact.mean(), np.append(exact.std()[:-1], 1.4e-17))
    without = Normal(exact.mean(), np.append(exact.std()[:-1], 0.0))
    after = clone(recalibrator).fit(rounded, np.append(y[:-1], y[-1] + 1.4e-17)).transform(without)
    assert_array_equal(after.std(), clone(recalibrator).fit(without, y).transform(without).std())
    for spread in (0.0, 1.4e-17):  # the members of the last row agree, and are wrong
        dist = Normal(np.full(41, 0.1), np.append(np.ones(40), spread))
        with pytest.raises(ValueError, match=r"got .* at row 40.*UncertaintyRegressor\(.*method='residual'"):
            clone(recalibrator).fit(dist, np.append(y[:-1], 0.2))
    for dist in (StudentT(np.zeros(30), 1.0, 1.0), ScipyDistribution(cauchy(np.zeros(30), 1.0))):
        message = r"finite mean and standard deviation in every row.*IsotonicRecalibrator.* at row 0"
        with pytest.raises(ValueError, match=message):
            clone(recalibrator).fit(dist, np.linspace(-1, 1, 30))
    if isinstance(recalibrator, EmpiricalRecalibrator | ConformalRecalibrator):
        with pytest.raises(ValueError, match=r"finite mean and standard deviation .*, got std inf at row 0"):
            clone(recalibrator).fit(exact, y).transform(StudentT([0.0, 1.0], 1.0, 1.5))
