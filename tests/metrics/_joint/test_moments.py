"""Scores of marginals, sums, and means and covariances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import EmpiricalJoint, NormalJoint, concat
from skuq.metrics import crps_loss, dawid_sebastiani_loss, linear_crps_loss, mean_crps_loss
from tests.distributions._joint.families import ALL, D, N
from tests.metrics._joint.oracle import ENSEMBLE, MEMBERS, Y, of_rows

VARIED = np.array(MEMBERS)
VARIED[1, :, 0], VARIED[1, :, 2] = [-2, 1, 0, -1, 3], [0.3, -0.1, 0.4, 0.2, -0.6]


def test_dawid_sebastiani_of_scoringrules_0_10():
    found = of_rows(dawid_sebastiani_loss, EmpiricalJoint(VARIED), estimator="fair")
    assert_allclose(found, (134.4985977062, 0.9936695196), rtol=0, atol=1e-10)


def test_dawid_sebastiani_is_the_log_score_of_normals():
    dist = ALL["row covariances"]
    y = dist.mean() + 0.3
    log_score = -dist.logpdf(y).mean()
    assert 2 * log_score - D * np.log(2 * np.pi) == pytest.approx(dawid_sebastiani_loss(y, dist), rel=1e-12)
    assert dawid_sebastiani_loss(y, dist, estimator="fair") == dawid_sebastiani_loss(y, dist)
    moved = NormalJoint(3 * dist.loc, 9 * dist.covariance)
    expected = dawid_sebastiani_loss(y, dist) + 2 * D * np.log(3)
    assert dawid_sebastiani_loss(3 * y, moved) == pytest.approx(expected, rel=1e-12)


def test_dawid_sebastiani_of_several_families():
    ensemble, normal = EmpiricalJoint(VARIED), NormalJoint(Y, np.eye(3))
    both = concat([ensemble, normal])[[0, 3, 1, 2]]
    y = np.concatenate([Y, Y])[[0, 3, 1, 2]]
    parts = [dawid_sebastiani_loss(Y, part, estimator="fair") for part in (ensemble, normal)]
    assert dawid_sebastiani_loss(y, both, estimator="fair") == pytest.approx(np.mean(parts), rel=1e-12)


@pytest.mark.parametrize(
    "dist", [ENSEMBLE, NormalJoint(Y, np.ones((3, 3))), NormalJoint(Y, np.diag([1.0, 0.0, 1.0]))]
)
def test_a_singular_covariance_is_named(dist):
    with pytest.raises(ValueError, match=r"positive definite covariance.*at row [01]"):
        dawid_sebastiani_loss(Y, dist)


@pytest.mark.parametrize("name", ALL)
def test_mean_crps_and_crps_of_a_sum(name):
    dist, rng = ALL[name], np.random.RandomState(3)
    y, weight = dist.mean() + rng.normal(size=(N, D)), rng.randint(0, 3, size=N)
    columns = [
        crps_loss(y[:, j], dist.marginal(j), sample_weight=weight) / unit
        for j, unit in enumerate((1.0, 2.0, 4.0))
    ]
    found = mean_crps_loss(y, dist, sample_weight=weight, scale=[1.0, 2.0, 4.0])
    assert found == pytest.approx(np.mean(columns), rel=1e-12)
    total = crps_loss(y.sum(axis=1), dist.linear(np.ones(D)), sample_weight=weight)
    assert linear_crps_loss(y, dist, sample_weight=weight) == pytest.approx(total, rel=1e-9)
    one = linear_crps_loss(y, dist, w=[0.0, 1.0, 0.0])
    assert one == pytest.approx(crps_loss(y[:, 1], dist.marginal(1)), rel=1e-12)


def test_bad_weights_of_the_sum():
    for w in ([1.0], [1.0, np.nan, 0.0]):
        with pytest.raises(ValueError, match="`w` must"):
            linear_crps_loss(Y, ENSEMBLE, w=w)
