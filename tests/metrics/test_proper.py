"""Proper scores against closed forms, peers, identities and the reference values."""

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.metrics import mean_absolute_error

from skuq.distributions import Empirical, Hurdle, Normal, ScipyDistribution, StudentT, concat
from skuq.exceptions import NoDensityError
from skuq.metrics import crps_loss, nll_loss, pinball_loss

# ------------------------------------------------------------------------------------------ CRPS


def test_fair_crps_by_brute_force_over_pairs():
    rng = np.random.default_rng(0)
    members, weights, y = rng.normal(size=(20, 6)), rng.random((20, 6)), rng.normal(size=20)
    weights /= weights.sum(axis=1, keepdims=True)
    expected = []
    for x, w, target in zip(members, weights, y, strict=True):
        pairs = np.abs(x[:, np.newaxis] - x) * np.outer(w, w)
        different = np.outer(w, w)[~np.eye(6, dtype=bool)].sum()
        expected.append(w @ np.abs(x - target) - pairs.sum() / different / 2)
    assert crps_loss(y, Empirical(members, weights), estimator="fair") == pytest.approx(
        np.mean(expected), rel=1e-12
    )


def test_fair_crps_is_unbiased_and_the_other_is_not():
    rng = np.random.default_rng(0)
    y = rng.normal(size=40_000)
    truth = crps_loss(y, (np.zeros(y.size), np.ones(y.size)))
    for m in (2, 5):
        ensemble = Empirical(rng.normal(size=(y.size, m)))
        assert crps_loss(y, ensemble, estimator="fair") == pytest.approx(truth, abs=0.01)
        assert crps_loss(y, ensemble) > truth + 0.05


def test_fair_crps_of_ensembles_of_different_size():
    rng = np.random.default_rng(0)
    first, second, third = (
        Empirical(rng.normal(size=(4, 3))),
        Empirical(rng.normal(size=(5, 8))),
        Normal([0.0], [1.0]),
    )
    y = rng.normal(size=10)
    parts = [(y[:4], first), (y[4:9], second), (y[9:], third)]
    expected = sum(crps_loss(target, part, estimator="fair") * len(part) for target, part in parts) / 10
    mixed = concat([first, second, third])
    assert crps_loss(y, mixed, estimator="fair") == pytest.approx(expected, rel=1e-12)
    rows = rng.permutation(10)
    assert crps_loss(y[rows], mixed[rows], estimator="fair") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("ensemble", [Empirical([[1.0]]), Empirical([[1.0, 2.0]], weights=[0.0, 1.0])])
def test_fair_crps_needs_two_members(ensemble):
    assert crps_loss([0.5], ensemble) == pytest.approx(abs(0.5 - ensemble.mean()[0]))
    with pytest.raises(ValueError, match=r"two members of positive weight.*at row 0.*estimator='nrg'"):
        crps_loss([0.5], ensemble, estimator="fair")


def test_crps_is_twice_the_integrated_pinball_loss():
    y, dist = np.array([0.3, 4.0]), StudentT([0.0, 1.0], [1.0, 2.0], df=4.0)
    integral = integrate.quad(
        lambda p: pinball_loss(y, dist, levels=float(p)), 0, 1, epsabs=1e-10, limit=200
    )[0]
    assert crps_loss(y, dist) == pytest.approx(2 * integral, rel=1e-6)


def test_crps_of_a_point_forecast_is_the_absolute_error(forecast):
    y, dist = forecast
    assert crps_loss(y, Normal(dist.loc, 0.0 * dist.scale)) == pytest.approx(mean_absolute_error(y, dist.loc))


def test_log_score_equals_scipy(forecast):
    y, dist = forecast
    frozen = stats.t(4.0, dist.loc, dist.scale)
    assert nll_loss(y, frozen) == pytest.approx(-frozen.logpdf(y).mean(), rel=1e-12)


# ------------------------------------------------------------------------------------- log score


def test_one_outlier_can_decide_the_log_score_but_not_the_crps():
    y = np.zeros(1000)
    y[0] = 40.0
    narrow, wide = (0 * y, np.full(1000, 0.5)), (0 * y, np.full(1000, 1.5))
    assert nll_loss(y, wide) < nll_loss(y, narrow)
    assert crps_loss(y, narrow) < crps_loss(y, wide)


# ------------------------------------------------------------------------------- masses of counts


def test_the_log_score_of_counts_uses_masses():
    y, mean = np.array([0, 2, 7]), np.array([0.5, 2.0, 4.0])
    expected = -stats.poisson.logpmf(y, mean).mean()
    assert nll_loss(y, stats.poisson(mean)) == pytest.approx(expected)
    counts = Normal(mean, 1.0).clip(0.0, integer=True)
    edges = stats.norm.cdf((y[:, np.newaxis] + [-0.5, 0.5] - mean[:, np.newaxis]) / 1.0)
    edges[0, 0] = 0.0
    assert nll_loss(y, counts) == pytest.approx(-np.log(np.diff(edges)).mean())
    assert nll_loss([0.5, 2, 7], counts) == np.inf  # not a possible value


def test_the_true_masses_have_the_best_expected_log_score():
    k = np.arange(60)
    truth = stats.poisson.pmf(k, 3.0)

    def expected_score(mean):
        return truth @ -ScipyDistribution(stats.poisson(np.full(60, mean))).logpmf(k)

    assert expected_score(3.0) < min(expected_score(2.8), expected_score(3.2))


@pytest.mark.parametrize(
    "dist",
    [
        Normal([0.3, 0.3], 1.0).clip(0.0),
        Hurdle(0.5, Normal([2.0, 2.0], 1.0)),
        concat([Normal(0.0, 1.0), ScipyDistribution(stats.poisson([1.0]))]),
    ],
    ids=lambda dist: type(dist).__name__,
)
def test_a_mixture_of_masses_and_densities_has_no_log_score(dist):
    with pytest.raises(NoDensityError, match="only defined if every row is discrete"):
        nll_loss([0.0, 0.0], dist)
