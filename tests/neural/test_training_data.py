"""What a training gets: rows of the members, rows held out, columns as numbers, and its length."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from sklearn.base import clone
from sklearn.model_selection import KFold

from skuq._fitting.training_data import TrainingData
from skuq.neural import DeepEnsembleRegressor, fit_many
from skuq.neural._plan import Columns, Standardizer, hold_out, plan_folds, table_of
from skuq.neural._stacked import MemberSeed
from tests.neural.epochs import keep_the_same

QUICK = {"hidden_layer_sizes": (8,), "batch_size": 500, "random_state": 0}


@pytest.mark.parametrize(("n", "members"), [(3, 9), (10, 3), (10, 4), (11, 9), (12, 4)])
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
    if members == 9 and n > 3:
        assert set(plans[0].drawn) != set(plans[4].drawn)  # new folds after four members
    assert plan_folds(MemberSeed.spawn(0, 2), np.array([7]))[0].drawn.tolist() == [7]


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


@pytest.mark.laws
def test_a_training_that_improves_until_its_end_is_repeated_with_more_epochs():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 1))
    without_noise = X[:, 0] ** 3
    plain = {**QUICK, "n_frequencies": 0, "input_scale": False, "learning_rate": 1e-4}
    model = DeepEnsembleRegressor(2, **plain)
    assert len(model.fit(X, without_noise).history_) == 1000
    assert model.best_epoch_ > 200
    again = DeepEnsembleRegressor(2, n_jobs=2, **plain).fit(X, without_noise)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


def test_a_training_that_ends_with_its_epochs_is_not_repeated():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 1))
    without_noise, noise = X[:, 0] ** 3, rng.normal(size=60)
    model = DeepEnsembleRegressor(2, learning_rate=1e-4, max_epochs=30, **QUICK)
    assert len(model.fit(X, without_noise).history_) == 30
    model.set_params(max_epochs="auto", keep_best=False)
    assert len(model.fit(X, without_noise).history_) == 200
    model.set_params(keep_best="auto", learning_rate=0.03)
    assert len(model.fit(X, noise).history_) == 40


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


@pytest.mark.laws
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
        assert keep_the_same(*[(each.best_epoch_, each.history_) for each in (fitted, alone)])
        assert len(fitted.history_) == len(alone.history_)
        np.testing.assert_allclose(fitted.predict(both), alone.predict(both), rtol=0, atol=1e-8)
        n_epochs.append(len(fitted.history_))
    assert n_epochs[0] == 40 < n_epochs[1]


# ---------------------------------------------------------------------------------- rows held out


def of_classes(*counts, weight=None):
    y = np.repeat(np.arange(float(len(counts))), counts)
    return TrainingData(np.zeros((len(y), 1)), y, weight)


def rows(n=20, weight=None):
    return TrainingData(np.zeros((n, 1)), np.arange(float(n)), weight)


def test_so_many_rows_are_held_out_by_a_number_or_a_share():
    for size in (1, 7, np.int64(7), 19):
        assert hold_out(size, rows(), 0).sum() == size
    for seed in range(5):
        np.testing.assert_array_equal(hold_out(5, rows(), seed), hold_out(0.25, rows(), seed))
    assert (hold_out(5, rows(), 0) != hold_out(5, rows(), 1)).any()
    # More rows hold out the fewer as well.
    assert hold_out(9, rows(), 3)[hold_out(4, rows(), 3)].all()


def test_only_rows_with_weight_are_drawn():
    weight = np.repeat([0.0, 1.0], 10)
    assert not hold_out(9, rows(weight=weight), 0)[:10].any()
    with pytest.raises(ValueError, match="must lie between 1 and 9 as a number of rows"):
        hold_out(10, rows(weight=weight), 0)


def test_no_row_or_all_cannot_be_held_out():
    for size in (0, -1, 20):
        with pytest.raises(ValueError, match=f"must lie between 1 and 19 as a number of rows, got {size}"):
            hold_out(size, rows(), 0)


def test_rows_of_classes_are_held_out_in_their_shares():
    data = of_classes(50, 30, 20)
    for seed in range(3):
        held_out = hold_out(0.2, data, seed, by_class=True)
        assert np.bincount(data.y[held_out].astype(int)).tolist() == [10, 6, 4]
        np.testing.assert_array_equal(hold_out(20, data, seed, by_class=True), held_out)
        assert (hold_out(0.2, data, seed + 10, by_class=True) != held_out).any()


def test_rows_of_classes_without_weight_are_not_held_out():
    weight = np.where(np.arange(40) % 2 == 0, 0.0, 1.0)
    data = of_classes(20, 20, weight=weight)
    held_out = hold_out(0.4, data, 0, by_class=True)
    assert np.bincount(data.y[held_out].astype(int)).tolist() == [4, 4]
    assert not held_out[weight == 0].any()


def test_a_splitter_holds_out_its_first_test_rows_and_needs_no_shares():
    np.testing.assert_array_equal(np.flatnonzero(hold_out(KFold(5), rows(), 0)), np.arange(4))
    np.testing.assert_array_equal(
        np.flatnonzero(hold_out(KFold(2), of_classes(2, 2), 0, by_class=True)), np.arange(2)
    )


@pytest.mark.parametrize(
    ("splits", "error"),
    [
        ([3, 4], TypeError),
        ([], ValueError),
        ([(np.arange(20), [])], ValueError),
        ([(np.arange(19), [20])], ValueError),
        ([(np.arange(19), np.ones(7, dtype=bool))], ValueError),
        (KFold(30), ValueError),
    ],
)
def test_errors_of_a_splitter_name_the_parameter(splits, error):
    with pytest.raises(error, match="`held_out_size`") as caught:
        hold_out(splits, rows(), 0)
    assert "`cv" not in str(caught.value)
    assert caught.value.__cause__ is None


# ----------------------------------------------------------------------------- columns as numbers


WORDS = list("abcdeabcde")
TABLE = pd.DataFrame(
    {
        "word": WORDS,
        "two": pd.Categorical(list("uv") * 5),
        "gaps": [np.nan, *range(9)],
        "number": np.arange(10.0),
    }
)


def test_codes_and_indicators():
    columns = Columns.fit(TABLE, 3)
    numbers, codes = columns(TABLE)
    u = np.tile([1.0, 0.0], 5)
    missing = np.isnan(TABLE["gaps"])
    expected = np.column_stack([TABLE[["gaps", "number"]], missing, u, 1 - u])
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(codes[:, 0], ["abcde".index(word) + 1 for word in WORDS])
    new = TABLE[:3].assign(word=["never seen", None, "a"], two=["w", None, "v"])
    numbers, codes = columns(new)
    np.testing.assert_array_equal(codes[:, 0], [0, 0, 1])
    np.testing.assert_array_equal(numbers[:, 3:], [[0, 0], [0, 0], [0, 1]])


@pytest.mark.parametrize(("most", "n_numbers", "n_codes"), [(1, 3, 2), (2, 5, 1), (4, 5, 1), (5, 10, 0)])
def test_columns_of_few_categories_are_indicators(most, n_numbers, n_codes):
    numbers, codes = Columns.fit(TABLE, most)(TABLE)
    assert (numbers.shape[1], codes.shape[1]) == (n_numbers, n_codes)
    assert Columns.fit(TABLE, most).embedded.sum() == n_codes


def test_an_array_of_numbers_is_unchanged():
    X = np.arange(6.0).reshape(3, 2)
    columns = Columns.fit(X, 3)
    numbers, codes = columns(X)
    assert numbers is X
    assert codes.shape == (3, 0)
    assert not len(columns.embedded)


@pytest.mark.parametrize(
    ("X", "is_table"),
    [
        (TABLE, True),
        (TABLE[["number"]], False),
        (TABLE[["number", "two"]], True),
        (TABLE.to_numpy(), False),
        ([["a", "b"]], False),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), False),
    ],
)
def test_only_data_frames_with_other_columns_than_numbers_are_tables(X, is_table):
    assert (table_of(X) is not None) == is_table


@pytest.mark.parametrize("weight", [None, np.arange(10.0)])
def test_missing_numbers_are_the_mean_and_have_no_effect_on_the_mean(weight):
    data = TrainingData(TABLE, np.arange(10.0), weight)
    scaler = Standardizer.fit(data, 3)
    assert scaler.n_codes == [6]
    share = np.ones(9) if weight is None else weight[1:]
    assert scaler.X_mean[0] == pytest.approx(np.average(np.arange(9.0), weights=share))
    features = scaler.features(TABLE)
    assert features[0, 0] == 0
    assert np.isfinite(features).all()
    np.testing.assert_allclose(np.average(features[:, :5], axis=0, weights=weight), 0, atol=1e-12)
    np.testing.assert_array_equal(features[:, 5], scaler.columns(TABLE)[1][:, 0])


@pytest.mark.parametrize("start", [0.0, 1e9, -1e-9])
def test_large_numbers_beside_missing_ones_keep_their_precision(start):
    X = np.column_stack([start + np.arange(5.0), [np.nan, 1, 2, 3, 4]])
    scaler = Standardizer.fit(TrainingData(X, np.arange(5.0)), 3)
    expected = Standardizer.fit(TrainingData(np.arange(5.0)[:, np.newaxis], np.arange(5.0)), 3)
    np.testing.assert_allclose(
        scaler.features(X)[:, 0], expected.features(np.arange(5.0)[:, np.newaxis])[:, 0], rtol=1e-6
    )


def test_columns_without_values():
    X = np.column_stack([np.full(4, np.nan), np.arange(4.0)])
    scaler = Standardizer.fit(TrainingData(X, np.arange(4.0)), 3)
    features = scaler.features(np.array([[np.nan, 1.0], [5.0, 1.0]]))
    assert np.isfinite(features).all()
    np.testing.assert_array_equal(features[0], features[1])
