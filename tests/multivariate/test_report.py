"""Report of joint distributions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skuq.metrics import crps_loss, mean_interval_width
from skuq.multivariate import (
    CopulaJoint,
    NormalJoint,
    energy_score_loss,
    joint_report,
    normal_template,
    variogram_score_loss,
)

COVARIANCE = np.array([[1.0, 0.8], [0.8, 1.0]])
Y = np.random.RandomState(0).multivariate_normal([0.0, 0.0], COVARIANCE, size=200)
DIST = NormalJoint(np.zeros((200, 2)), COVARIANCE, names=["load", "price"])


@pytest.fixture(scope="module")
def report():
    return joint_report(Y, DIST, coverage=0.8)


def test_values_are_those_of_the_metrics(report):
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
    assert "Joint distributions of 2 targets, 200 rows, coverage 0.8" in repr(report)
    assert report.n_rows == 200


@pytest.mark.parametrize("n", [40, pytest.param(200, marks=pytest.mark.laws)])
def test_weights_repeat_rows(n):
    weight = np.random.RandomState(1).randint(0, 3, size=n)
    rows = np.repeat(np.arange(n), weight)
    found, expected = joint_report(Y[:n], DIST[:n], sample_weight=weight), joint_report(Y[rows], DIST[rows])
    assert_allclose(found.targets, expected.targets, rtol=1e-9)
    assert_allclose(found.joint, expected.joint, rtol=1e-9)


def test_targets_without_names():
    report = joint_report(Y[:9], NormalJoint(DIST.loc[:9], COVARIANCE))
    assert list(report.targets.index) == ["target 0", "target 1"]
