"""Columns of a table as numbers, indicators and codes."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq._fitting.training_data import TrainingData
from skuq.neural._training.scaling import Columns, Standardizer, table_of

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
