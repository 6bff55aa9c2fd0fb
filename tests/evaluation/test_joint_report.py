"""Report of joint distributions."""

import numpy as np
import pytest

from skuq.distributions import CopulaJoint, Normal, NormalJoint, normal_template
from skuq.evaluation import bootstrap_interval, joint_report, uncertainty_report
from skuq.metrics import crps_loss, energy_score_loss, mean_interval_width, variogram_score_loss
from skuq.monitoring import MetricAccumulator

COVARIANCE = np.array([[1.0, 0.8], [0.8, 1.0]])
Y = np.random.RandomState(0).multivariate_normal([0.0, 0.0], COVARIANCE, size=300)
DIST = NormalJoint(np.zeros((300, 2)), COVARIANCE, names=["load", "price"])


def test_values_are_those_of_the_metrics():
    report = joint_report(Y, DIST, coverage=0.8)
    assert list(report.targets.index) == ["load", "price"]
    assert report.targets.loc["price", "crps"] == crps_loss(Y[:, 1], DIST.marginal("price"))
    width = mean_interval_width(Y[:, 0], DIST.marginal(0), coverage=0.8)
    assert report.targets.loc["load", "mean_width"] == width
    value, independent = report.joint["value"], report.joint["independent"]
    assert value["energy_score"] == energy_score_loss(Y, DIST, scale="std")
    assert value["variogram_score"] == variogram_score_loss(Y, DIST, scale="std")
    product = CopulaJoint(DIST.marginals(), normal_template(np.eye(2)))
    assert independent["energy_score"] == pytest.approx(energy_score_loss(Y, product, scale="std"))
    assert (value.drop("box_coverage") < independent.drop("box_coverage")).all()
    assert value["box_coverage"] == pytest.approx(0.8, abs=0.06)
    assert "Joint distributions of 2 targets, 300 rows, coverage 0.8" in repr(report)
    assert report.n_rows == 300


def test_weights_repeat_rows():
    weight = np.random.RandomState(1).randint(0, 3, size=300)
    rows = np.repeat(np.arange(300), weight)
    found, expected = joint_report(Y, DIST, sample_weight=weight), joint_report(Y[rows], DIST[rows])
    np.testing.assert_allclose(found.targets, expected.targets, rtol=1e-9)
    np.testing.assert_allclose(found.joint, expected.joint, rtol=1e-9)


def test_targets_without_names():
    report = joint_report(Y, NormalJoint(DIST.loc, COVARIANCE))
    assert list(report.targets.index) == ["target 0", "target 1"]


def test_functions_of_one_target_refuse_joint_distributions():
    for call in (
        lambda: uncertainty_report(Y[:, 0], DIST),
        lambda: bootstrap_interval(Y[:, 0], DIST, "crps"),
        lambda: MetricAccumulator().update(Y[:, 0], DIST),
    ):
        with pytest.raises(TypeError, match=r"`\.marginal\(\.\.\.\)`"):
            call()
    with pytest.raises(ValueError, match="joint_report"):
        uncertainty_report(Y[:, 0], Normal(np.zeros(300), 1.0), metrics=["energy_score"])
    for call in (
        lambda: bootstrap_interval(Y[:, 0], Normal(np.zeros(300), 1.0), "energy_score"),
        lambda: MetricAccumulator("energy_score"),
    ):
        with pytest.raises(ValueError, match="joint distributions"):
            call()
    with pytest.raises(TypeError, match="JointDistribution"):
        joint_report(Y, Normal(np.zeros(300), 1.0))
