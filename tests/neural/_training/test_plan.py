"""Rows of the members, and the length of the training."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from sklearn.base import clone

from skuq.neural import DeepEnsembleRegressor, fit_many
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._training.plan import plan_folds

QUICK = {"hidden_layer_sizes": (8,), "batch_size": 500, "random_state": 0}


@pytest.mark.parametrize("n", [3, 10, 11, 12])
@pytest.mark.parametrize("members", [3, 4, 9])
def test_each_of_four_members_leaves_out_another_fold(n, members):
    rows = np.arange(100, 100 + n)
    plans = plan_folds(MemberSeed.spawn(0, members), rows)
    sizes = {len(plan.drawn) for plan in plans}
    assert sizes == {n - -(-n // min(4, n))}
    for plan in plans:
        assert len(set(plan.drawn)) == len(plan.drawn)
        assert set(plan.drawn) <= set(rows)
    if members >= 4 and n > 3:
        left_out = np.column_stack([plan.out_of_bag(100 + n) for plan in plans[:4]])[100:]
        assert (left_out.sum(axis=1) >= 1).all()
        assert left_out.sum() <= n + 3  # folds of equal size leave out one more row at most


def test_one_row_is_trained_on():
    assert plan_folds(MemberSeed.spawn(0, 2), np.array([7]))[0].drawn.tolist() == [7]


def test_new_folds_after_four_members():
    plans = plan_folds(MemberSeed.spawn(0, 8), np.arange(40))
    assert set(plans[0].drawn) != set(plans[4].drawn)


def test_members_on_folds_are_calibrated_out_of_bag():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(120, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=120)
    model = DeepEnsembleRegressor(8, bootstrap="folds", max_epochs=20, **QUICK)
    out_of_fold = model.fit_transform(X, y)
    assert model.factor_ != 1
    assert not np.array_equal(out_of_fold.mean(), model.predict(X))
    with pytest.raises(ValueError, match="`bootstrap` must be one of True, False, 'folds', got 'fold'"):
        model.set_params(bootstrap="fold").fit(X, y)


def test_a_training_that_improves_until_its_end_is_repeated_with_more_epochs():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 1))
    without_noise, noise = X[:, 0] ** 3, rng.normal(size=60)
    model = DeepEnsembleRegressor(2, learning_rate=1e-4, **QUICK)
    assert len(model.fit(X, without_noise).history_) == 1000
    assert model.best_epoch_ > 200
    again = DeepEnsembleRegressor(2, learning_rate=1e-4, n_jobs=2, **QUICK).fit(X, without_noise)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    model.set_params(learning_rate=0.03)
    assert len(model.fit(X, noise).history_) == 40
    model.set_params(max_epochs=30, learning_rate=1e-4)
    assert len(model.fit(X, without_noise).history_) == 30
    model.set_params(max_epochs="auto", keep_best=False)
    assert len(model.fit(X, without_noise).history_) == 200


@pytest.mark.parametrize("n_members", [1, 3])
def test_a_noisy_training_ends_at_twice_its_best_epoch(n_members):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 1))
    y = np.sin(3 * X[:, 0]) + rng.normal(size=60)
    model = DeepEnsembleRegressor(n_members, bootstrap="folds", **QUICK).fit(X, y)
    n_epochs = len(model.history_)
    assert n_epochs == max(40, 2 * model.best_epoch_) < 200
    whole = clone(model).set_params(max_epochs=200).fit(X, y)  # a given number of epochs is trained
    assert len(whole.history_) == 200
    losses = [one.history_[:n_epochs, "train_loss"] for one in (model, whole)]
    np.testing.assert_array_equal(*losses)


def test_fits_that_end_at_different_epochs_are_those_trained_alone():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 1))
    targets = [rng.normal(size=60), np.sin(3 * X[:, 0])]
    both = np.vstack([np.column_stack([X, np.zeros(60)]), np.column_stack([X, np.ones(60)])])
    model = DeepEnsembleRegressor(4, dtype="float64", **QUICK)
    rows = [np.arange(60), np.arange(60, 120)]
    together = fit_many([model] * 2, both, np.concatenate(targets), rows)
    n_epochs = []
    for fitted, part in zip(together, rows, strict=True):
        alone = clone(model).fit(both[part], np.concatenate(targets)[part])
        assert fitted.best_epoch_ == alone.best_epoch_
        assert len(fitted.history_) == len(alone.history_)
        np.testing.assert_allclose(fitted.predict(both), alone.predict(both), rtol=0, atol=1e-8)
        n_epochs.append(len(fitted.history_))
    assert n_epochs[0] == 40 < n_epochs[1]
