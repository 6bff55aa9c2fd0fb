"""Scale and tails from residuals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.distributions import Normal, StudentT
from skuq.neural._predictive.calibration import Calibration, conformal_score


def test_the_score_has_the_conformal_rank():
    z = np.random.default_rng(0).permutation(np.arange(1.0, 100.0)) * np.where(np.arange(99) % 2, 1, -1)
    assert conformal_score(z, 0.9, None) == 90.0  # ceil(100 * 0.9)
    assert conformal_score(z, 0.95, None) == 95.0
    assert conformal_score(z[:3], 0.95, None) == np.abs(z[:3]).max()


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    z, weight = rng.normal(size=40), rng.integers(0, 4, size=40).astype(float)
    repeated = np.repeat(z, weight.astype(int))
    for learn in (Calibration.fit_scale, Calibration.fit_scale_and_tails):
        one, other = learn(z, 0.9, weight), learn(repeated, 0.9, None)
        assert one.df == other.df
        assert one.factor == pytest.approx(other.factor)


@pytest.mark.parametrize("df", [4.0, 10.0, 100.0])
def test_the_tails_are_found(df):
    z = 2 * stats.t.ppf((np.arange(5000) + 0.5) / 5000, df)
    found = Calibration.fit_scale_and_tails(z, 0.9, None)
    assert found.df == df
    assert found.factor == pytest.approx(2 * np.sqrt(df / (df - 2)), rel=0.01)


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95])
def test_intervals_at_the_coverage_are_conformal(coverage):
    z = np.random.default_rng(0).standard_t(4, size=199)
    score = conformal_score(z, coverage, None)
    for learn in (Calibration.fit_scale, Calibration.fit_scale_and_tails):
        dist = learn(z, coverage, None).apply(np.zeros(1), np.ones(1))
        np.testing.assert_allclose(dist.interval(coverage), [[-score, score]], rtol=1e-9)


def test_the_factor_is_that_of_standard_deviations():
    loc, scale, part = np.zeros(2), np.array([1.0, 2.0]), np.array([0.5, 2.0])
    for calibration in (Calibration(3.0, 5.0), Calibration(3.0)):
        dist = calibration.apply(loc, scale, part)
        np.testing.assert_allclose(dist.std(), 3 * scale)
        np.testing.assert_allclose(dist.epistemic().std(), 3 * part)
    assert isinstance(Calibration(3.0, 5.0).apply(loc, scale), StudentT)
    assert isinstance(Calibration().apply(loc, scale), Normal)


def test_exact_predictions_change_nothing():
    assert Calibration.fit_scale_and_tails(np.zeros(10), 0.9, None) == Calibration()
    assert Calibration.fit_scale(np.zeros(10), 0.9, None) == Calibration()
