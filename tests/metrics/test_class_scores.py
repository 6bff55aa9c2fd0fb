"""Log loss and Brier score of class probabilities agree with scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from skuq.metrics import class_brier_loss, class_log_loss


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_log_loss_is_that_of_scikit_learn(n_classes):
    rng = np.random.default_rng(0)
    proba, y = rng.dirichlet(np.ones(n_classes), size=300), rng.integers(n_classes, size=300)
    labels, weight = np.arange(n_classes), rng.integers(1, 4, size=300)
    found = class_log_loss(y, proba, labels=labels, sample_weight=weight)
    assert found == pytest.approx(log_loss(y, proba, labels=labels, sample_weight=weight), rel=1e-12)


def test_the_brier_score_of_two_classes_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    share, y = rng.random(300), rng.integers(2, size=300)
    found = class_brier_loss(y, np.column_stack([1 - share, share]), labels=[0, 1])
    assert found == pytest.approx(brier_score_loss(y, share), rel=1e-12)


def test_the_brier_score_is_the_squared_distance_from_the_indicator():
    rng = np.random.default_rng(0)
    proba, y = rng.dirichlet(np.ones(4), size=300), rng.integers(4, size=300)
    expected = np.square(proba - np.eye(4)[y]).sum(axis=1)
    assert class_brier_loss(y, proba) == pytest.approx(expected.mean(), rel=1e-12)


def test_certain_forecasts_have_the_best_and_the_worst_score():
    certain = np.eye(3)
    assert str(class_log_loss([0, 1, 2], certain)) == "0.0"
    assert class_brier_loss([0, 1, 2], certain) == 0
    assert class_log_loss([1, 2, 0], certain) == np.inf
    assert class_brier_loss([1, 2, 0], certain) == 2
    assert class_brier_loss([1, 0], np.eye(2)) == 1


def test_a_target_without_a_column_has_probability_zero():
    proba = [[0.5, 0.5], [0.5, 0.5]]
    assert class_log_loss(["a", "z"], proba, labels=["a", "b"]) == np.inf
    assert class_brier_loss(["z", "z"], proba, labels=["a", "b"]) == pytest.approx((0.5**2 + 0.5**2 + 1) / 2)
