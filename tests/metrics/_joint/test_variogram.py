"""Variogram score: values of scoringrules, and laws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import EmpiricalJoint, NormalJoint
from skuq.metrics import variogram_score_loss
from tests.distributions._joint.families import ALL, D, N
from tests.metrics._joint.oracle import ENSEMBLE, Y, of_rows, positive

PAIRS = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.25], [0.5, 0.25, 0.0]])
CASES = [
    ({}, (1.015220035980, 6.213159863610)),
    ({"estimator": "fair"}, (0.852956866819, 5.956449829512)),
    ({"p": 1}, (6.699534133729, 9.1208)),
    ({"p": 1, "estimator": "fair"}, (5.922507573726, 8.136)),
    ({"p": 2}, (104.603862606294, 32.5129)),
    ({"p": 2, "estimator": "fair"}, (97.229876213855, 22.5112825)),
    ({"pair_weight": PAIRS}, (0.387043277515, 3.579121505199)),
    ({"chain": positive}, (0.527533925464, 2.092684331493)),
]


@pytest.mark.parametrize(("options", "expected"), CASES)
def test_values_of_scoringrules_0_10(options, expected):
    assert_allclose(of_rows(variogram_score_loss, ENSEMBLE, **options), expected, rtol=0, atol=1e-10)


def test_values_of_the_installed_scoringrules():
    scoringrules = pytest.importorskip("scoringrules")
    rng = np.random.RandomState(0)
    members, y = rng.normal(size=(6, 12, 3)), rng.normal(size=(6, 3))
    for p in (0.5, 1.0):
        expected = scoringrules.vs_ensemble(y, members, p=p, backend="numpy").mean()
        assert variogram_score_loss(y, EmpiricalJoint(members), p=p) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_laws_for_every_family(name):
    dist, rng = ALL[name], np.random.RandomState(3)
    y = dist.mean() + rng.normal(size=(N, D))
    score = variogram_score_loss(y, dist)
    order = rng.permutation(N)
    assert variogram_score_loss(y[order], dist[order]) == pytest.approx(score, rel=1e-12)
    weight = rng.randint(0, 3, size=N)
    repeated = np.repeat(np.arange(N), weight)
    assert variogram_score_loss(y, dist, sample_weight=weight) == pytest.approx(
        variogram_score_loss(y[repeated], dist[repeated]), rel=1e-12
    )
    for p in (0.5, 1.0):
        scaled = variogram_score_loss(y, dist, p=p, scale=2.0)
        assert scaled == pytest.approx(variogram_score_loss(y, dist, p=p) / 2 ** (2 * p), rel=1e-12)
    assert score > 0


def test_a_wrong_dependence_costs_much():
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    y = np.random.RandomState(4).multivariate_normal([0.0, 0.0], covariance, size=600)
    zeros = np.zeros((600, 2))
    true = variogram_score_loss(y, NormalJoint(zeros, covariance))
    assert true < 0.6 * variogram_score_loss(y, NormalJoint(zeros, np.eye(2)))
    for other in (1.4 * covariance, 0.7 * covariance):
        assert true < variogram_score_loss(y, NormalJoint(zeros, other))


def test_a_constant_added_to_all_targets_is_ignored():
    moved = EmpiricalJoint(ENSEMBLE.members + 7.0)
    assert variogram_score_loss(Y, moved) == pytest.approx(variogram_score_loss(Y, ENSEMBLE), rel=1e-12)
    assert variogram_score_loss(Y[:, :1], EmpiricalJoint(ENSEMBLE.members[..., :1])) == 0.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"p": 0}, ValueError, "`p` must be positive"),
        ({"p": "half"}, TypeError, "`p` must be a number"),
        ({"pair_weight": np.ones((2, 2))}, ValueError, r"`pair_weight` must have shape \(3, 3\)"),
        ({"pair_weight": -PAIRS}, ValueError, "`pair_weight` must be non-negative"),
        ({"estimator": "akr"}, ValueError, "`estimator` must be one of"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        variogram_score_loss(Y, ENSEMBLE, **options)
