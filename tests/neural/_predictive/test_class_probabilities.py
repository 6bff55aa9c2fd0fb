"""Class probabilities in blocks of rows: means, members and entropies, also of equal and certain members."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.neural import DeepEnsembleClassifier
from skuq.neural._modules import evaluate
from skuq.neural._predictive.class_probabilities import ClassPosterior


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


@pytest.mark.parametrize("n_members", [1, 3, 7])
def test_equal_members_have_no_mutual_information(n_members):
    """Exactly none, whatever is rounded in their mean."""
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
