"""Displays of joint distributions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import cross_validate

from skuq.distributions import Normal
from skuq.multivariate import (
    EmpiricalJoint,
    JointPairDisplay,
    JointRankHistogramDisplay,
    NormalJoint,
    joint_rank_histogram,
)
from tests.multivariate.test_transformed_target import JointRegressor

pytest.importorskip("matplotlib")
COVARIANCE = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.1], [0.2, 0.1, 1.0]])
Y = np.random.RandomState(0).multivariate_normal(np.zeros(3), COVARIANCE, size=300)
DIST = NormalJoint(np.zeros((300, 3)), COVARIANCE, names=["load", "price", "wind"])


@pytest.mark.parametrize("kind", ["average_rank", "band_depth"])
def test_the_rank_histogram_draws_the_numbers_of_the_metric(kind):
    display = JointRankHistogramDisplay.from_predictions(Y, DIST, kind=kind, n_bins=5, name="normal")
    expected = joint_rank_histogram(Y, DIST, kind=kind, n_bins=5)
    assert_array_equal(display.proportions, expected.proportions)
    assert display.n_rows == 300
    assert display.band_ is not None
    assert_allclose(display.line_.get_ydata()[::2], 100 * expected.proportions)
    assert kind.split("_")[1] in display.ax_.get_xlabel()
    again = JointRankHistogramDisplay.from_predictions(Y, DIST, kind=kind, ax=display.ax_, band=None)
    assert again.ax_ is display.ax_
    assert again.band_ is None


def test_the_pair_draws_observed_and_predicted_pit_values():
    display = JointPairDisplay.from_predictions(Y, DIST, targets=("load", "price"), name="Normal")
    assert_array_equal(display.observed, DIST.pit(Y)[:, :2])
    assert np.corrcoef(display.predicted.T)[0, 1] > 0.7
    assert_allclose(display.observed_.get_offsets(), 100 * display.observed)
    assert display.ax_.get_xlabel() == "PIT of load (%)"
    assert display.ax_.get_ylabel() == "PIT of price (%)"
    assert len(display.plot(max_points=50).observed_.get_offsets()) == 50
    same = JointPairDisplay.from_predictions(Y, DIST, targets=(0, 1))
    assert_array_equal(same.predicted, display.predicted)


def test_rows_of_weight_zero_are_left_out():
    weight = np.arange(300) % 2
    display = JointPairDisplay.from_predictions(Y, DIST, sample_weight=weight)
    assert_array_equal(display.observed, DIST.pit(Y)[weight > 0, :2])


@pytest.mark.parametrize("display", [JointPairDisplay, JointRankHistogramDisplay])
def test_estimators_and_cross_validation(display):
    X, y = np.random.RandomState(1).normal(size=(90, 2)), Y[:90, :2]
    drawn = display.from_estimator(JointRegressor().fit(X, y), X, y)
    assert drawn.ax_ is not None
    options = {"cv": 3, "return_estimator": True, "return_indices": True}
    results = cross_validate(JointRegressor("normal"), X, y, **options)
    folds = display.from_cv_results(results, X, y)
    if display is JointRankHistogramDisplay:
        assert folds.n_rows == 90
    else:
        assert folds.observed.shape == (90, 2)


def test_members_with_atoms_have_reproducible_pit_values():
    members = np.random.RandomState(2).poisson(2.0, size=(50, 30, 2))
    y = np.random.RandomState(3).poisson(2.0, size=(50, 2))
    first, second = (JointPairDisplay.from_predictions(y, EmpiricalJoint(members)) for _ in range(2))
    assert_array_equal(first.observed, second.observed)
    assert len(np.unique(first.observed)) > 90


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"targets": (0, 0)}, ValueError, "two different targets"),
        ({"targets": (0,)}, ValueError, "two names or columns"),
        ({"targets": ("load", "heat")}, ValueError, "`target` must be one of"),
    ],
)
def test_bad_pairs(options, error, message):
    with pytest.raises(error, match=message):
        JointPairDisplay.from_predictions(Y, DIST, **options)


@pytest.mark.parametrize("display", [JointPairDisplay, JointRankHistogramDisplay])
def test_one_target_is_an_error(display):
    with pytest.raises(TypeError, match="JointDistribution"):
        display.from_predictions(Y[:, 0], Normal(np.zeros(300), 1.0))
