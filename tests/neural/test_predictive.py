"""Calibration by residuals, and class probabilities in blocks of rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.distributions import Normal, StudentT
from skuq.neural import DeepEnsembleClassifier
from skuq.neural import _stacked as evaluate
from skuq.neural._predictive import Calibration, ClassPosterior, conformal_score


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


# ---------------------------------------------------------------------------- class probabilities


class Given(ClassPosterior):
    """Members whose logits are X, in blocks of three rows."""

    def _logits(self, X):
        yield from torch.split(torch.as_tensor(X), 3)


GIVEN = Given(None, None, "cpu")


def test_blocks_are_put_together():
    logits = np.random.default_rng(0).normal(size=(10, 4, 3))
    proba = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(GIVEN.members(logits), proba)
    np.testing.assert_allclose(GIVEN.mean(logits), proba.mean(axis=1))
    total, aleatoric, epistemic = GIVEN.entropies(logits)
    np.testing.assert_allclose(total, stats.entropy(proba.mean(axis=1), axis=1))
    np.testing.assert_allclose(aleatoric, stats.entropy(proba, axis=2).mean(axis=1))
    np.testing.assert_allclose(epistemic, total - aleatoric)


def test_equal_members_have_no_mutual_information():
    """Exactly none, whatever is rounded in their mean."""
    for n_members in (1, 3, 7):
        logits = np.random.default_rng(0).normal(size=(200, 1, 5)).repeat(n_members, axis=1)
        total, aleatoric, epistemic = GIVEN.entropies(logits)
        np.testing.assert_array_equal(epistemic, 0.0)
        np.testing.assert_array_equal(total, aleatoric)


def test_members_that_are_sure_of_other_classes_have_nothing_else():
    logits = 1e4 * np.eye(4)[np.newaxis]
    total, aleatoric, epistemic = GIVEN.entropies(logits)
    assert total == pytest.approx(np.log(4))
    assert aleatoric == 0
    assert epistemic == total


def test_parts_are_bounded_by_the_total():
    logits = 30 * np.random.default_rng(0).normal(size=(500, 6, 3))
    total, aleatoric, epistemic = GIVEN.entropies(logits)
    for part in (aleatoric, epistemic):
        assert (part >= 0).all()
        assert (part <= total).all()
    assert (total <= np.log(3) + 1e-12).all()


def test_rows_of_several_blocks_are_predicted_as_one_by_one(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    model = DeepEnsembleClassifier(3, hidden_layer_sizes=(8,), max_epochs=2, random_state=0).fit(
        X, X[:, 0] > 0
    )
    whole = model.predict_proba(X)
    monkeypatch.setattr(evaluate, "rows_at_once", lambda values_a_row: 7)
    np.testing.assert_allclose(model.predict_proba(X), whole, rtol=1e-12)
