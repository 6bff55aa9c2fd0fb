"""Tables with words, dates and missing values as numbers."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from skuq._fitting.table import (
    ENCODINGS,
    MAX_CODES,
    MAX_INDICATORS,
    ScaleFeatures,
    TableEncoder,
    encoder_for,
)

N = 60
RNG = np.random.default_rng(0)
COLUMNS = {
    "number": RNG.normal(size=N),
    "flag": RNG.random(N) < 0.5,
    "digits": [str(k) for k in range(N)],
    "nullable": pd.array([1, None, 3] * (N // 3), dtype="Int64"),
    "word": RNG.choice(["red", "green", "blue"], N),
    "gaps": RNG.choice(["a", None], N),
    "missing": RNG.choice(["a", np.nan], N),
    "string": pd.array(["x", "y", None] * (N // 3), dtype="string"),
    "category": pd.Categorical(RNG.choice([10, 2, 3], N)),
    "mixed": [1, "one"] * (N // 2),
    "name": [f"name {k}" for k in range(N)],
    "date": pd.date_range("2020-01-01", periods=N, freq="7h"),
    "zone": pd.date_range("2020-01-01", periods=N, freq="7h", tz="Europe/Berlin"),
    "iso": [f"2021-{1 + k % 12:02}-{1 + k % 28:02}" for k in range(N)],
    "period": pd.period_range("2020-01", periods=N, freq="M"),
    "duration": pd.to_timedelta(RNG.normal(size=N), unit="h"),
    "nothing": [None] * N,
    "nan": np.full(N, np.nan),
    "never": pd.Series([pd.NaT] * N),
    "no word": pd.Categorical([None] * N),
}
FRAME = pd.DataFrame(COLUMNS)
NUMBERS = ["number", "flag", "digits", "nullable", "duration"]
EMPTY = ["nothing", "nan", "never", "no word"]
DATES = ["date", "zone", "iso", "period"]
each_encoding = pytest.mark.parametrize("encoding", ENCODINGS)


def array(encoded):
    return np.asarray(encoded, dtype=float)


def test_types_of_columns(subtests):
    for name in COLUMNS:
        kind = "number" if name in NUMBERS else "date" if name in DATES else "words"
        kind = "empty" if name in EMPTY else kind
        with subtests.test(msg=name):
            assert TableEncoder().fit(FRAME[[name]].assign(other=1)).kinds_ == [kind, "number"]


@each_encoding
def test_rows_are_encoded_one_by_one(encoding):
    encoder = encoder_for(FRAME, encoding)
    encoded = array(encoder.transform(FRAME))
    assert len(encoded) == N
    rows = RNG.permutation(N)[:7]
    np.testing.assert_array_equal(array(encoder.transform(FRAME.iloc[rows])), encoded[rows])
    for same in (pickle.loads(pickle.dumps(encoder)), clone(encoder).fit(FRAME)):
        np.testing.assert_array_equal(array(same.transform(FRAME)), encoded)


@each_encoding
def test_other_containers_and_equal_words_are_encoded_alike(encoding):
    table = FRAME[["number", "word", "gaps"]]
    expected = array(TableEncoder(encoding).fit_transform(table))
    for other in (table.to_numpy(dtype=object), table.to_numpy(dtype=object).tolist()):
        np.testing.assert_array_equal(array(TableEncoder(encoding).fit_transform(other)), expected)
    encoded = array(TableEncoder(encoding).fit_transform(FRAME[["word"]]))
    same = FRAME["word"].to_numpy()[:, np.newaxis] == FRAME["word"].to_numpy()
    np.testing.assert_array_equal((encoded[:, np.newaxis] == encoded).all(axis=2), same)


@each_encoding
def test_unknown_and_missing_values_of_new_rows(encoding):
    encoder = TableEncoder(encoding).fit(FRAME)
    new = FRAME.copy()
    new["word"], new["category"] = "violet", None
    new["number"], new["date"] = np.nan, pd.NaT
    encoded = array(encoder.transform(new))
    if encoding == "numbers":
        assert np.isfinite(encoded).all()
    else:
        assert np.isnan(encoded).any(axis=0).sum() >= 4
    assert encoded.shape == array(encoder.transform(FRAME)).shape


def test_indicators_of_missing_numbers():
    table = pd.DataFrame({"a": [1.0, np.nan, 5.0, 4.0], "b": [1.0, 2.0, 3.0, 4.0]})
    encoded = encoder_for(table, "numbers").transform(table)
    np.testing.assert_array_equal(encoded, [[1, 1, 0], [4, 2, 1], [5, 3, 0], [4, 4, 0]])


def test_rare_words_share_a_code_or_an_indicator():
    words = pd.DataFrame({"a": np.repeat([f"w{k}" for k in range(600)], 1 + np.arange(600) % 3)})
    for encoding in ("codes", "categories"):
        encoded = array(TableEncoder(encoding).fit_transform(words))
        assert len(np.unique(encoded)) == MAX_CODES
        assert encoded.max() <= MAX_CODES
    assert TableEncoder("numbers").fit_transform(words).shape == (1200, MAX_INDICATORS)


def test_categories_are_of_the_type_category_under_plain_names():
    table = FRAME[["word", "number", "category"]].rename(columns={"word": "a[0]:{"})
    encoded = TableEncoder("categories").fit_transform(table)
    assert encoded.columns.tolist() == ["x0", "x1", "x2"]
    assert [str(one) for one in encoded.dtypes] == ["float64", "category", "category"]


def test_dates_become_days_and_their_position_in_year_week_and_day():
    times = ["1970-01-02 00:00", "1970-02-01 06:00", "1971-01-01 12:00"]
    dates = pd.DataFrame({"a": pd.to_datetime(times)})
    encoded = TableEncoder().fit_transform(dates)
    np.testing.assert_allclose(encoded, [[1, 2, 4, 0], [31.25, 32, 6, 0.25], [365.5, 1, 4, 0.5]])
    days = pd.DataFrame({"a": ["1970-01-02", "1970-01-09", None]})
    np.testing.assert_allclose(TableEncoder().fit_transform(days), [[1, 2], [8, 9], [np.nan, np.nan]])


@each_encoding
def test_numbers_need_no_encoder_unless_new_rows_may_have_gaps(encoding):
    for X in (RNG.normal(size=(5, 2)), RNG.normal(size=(5, 2)).tolist(), FRAME[["number", "flag"]]):
        encoder = encoder_for(X, encoding)
        assert (encoder is None) == (encoding != "numbers")
        if encoder is not None:
            np.testing.assert_array_equal(encoder.transform(X), np.asarray(X, dtype=float))
            gaps = np.array([[np.nan, 0.0]])
            gaps = pd.DataFrame(gaps, columns=X.columns) if isinstance(X, pd.DataFrame) else gaps
            expected = [[np.median(np.asarray(X, dtype=float)[:, 0]), 0.0]]
            np.testing.assert_allclose(encoder.transform(gaps), expected)
    assert encoder_for(sparse.eye_array(5), encoding) is None
    assert encoder_for(FRAME, None) is None


@each_encoding
def test_columns_without_a_value_are_left_out(encoding):
    for names in (["number", "flag"], ["number", "word", "date"]):
        expected = array(TableEncoder(encoding).fit_transform(FRAME[names]))
        encoder = encoder_for(FRAME[[*EMPTY, *names]], encoding)
        np.testing.assert_array_equal(array(encoder.transform(FRAME[[*EMPTY, *names]])), expected)
        new = FRAME[[*EMPTY, *names]].assign(nan=1.0)
        np.testing.assert_array_equal(array(encoder.transform(new)), expected)
    alone = array(TableEncoder(encoding).fit_transform(FRAME[EMPTY]))  # some column is needed
    assert alone.shape[1] >= len(EMPTY)


@each_encoding
@pytest.mark.parametrize("gaps", [False, True])
def test_missing_durations_are_missing_numbers(encoding, gaps):
    hours = np.where(gaps & (np.arange(6) == 2), np.nan, np.arange(6.0))
    seconds = pd.DataFrame({"a": 3600 * hours})
    table = pd.DataFrame({"a": pd.to_timedelta(hours, unit="h")})
    expected, encoder = TableEncoder(encoding).fit(seconds), TableEncoder(encoding).fit(table)
    assert encoder.kinds_ == ["number"]
    for rows in (seconds, seconds.mask(seconds > 7200)):
        new = pd.DataFrame({"a": pd.to_timedelta(rows["a"], unit="s").astype("timedelta64[ms]")})
        np.testing.assert_array_equal(array(encoder.transform(new)), array(expected.transform(rows)))


@each_encoding
@pytest.mark.parametrize("dtype", [float, np.float32, object, "Int64"])
def test_integral_floats_are_the_categories_of_equal_integers(encoding, dtype):
    values = pd.Series([1, 2, 2, 10, 1])
    encoder = TableEncoder(encoding).fit(pd.DataFrame({"a": values.astype("category")}))
    expected = array(encoder.transform(pd.DataFrame({"a": values.astype("category")})))
    new = pd.DataFrame({"a": values.astype(dtype).astype("category")})
    np.testing.assert_array_equal(array(encoder.transform(new)), expected)


@each_encoding
def test_an_error_names_a_column_of_lists(encoding):
    for value in ([1, 2], {"a": 1}, {1}):
        table = FRAME[["number"]].assign(parts=[value] * N)
        with pytest.raises(TypeError, match=f"got {type(value).__name__} in the column 'parts'. Divide"):
            TableEncoder(encoding).fit(table)


@pytest.mark.parametrize("start", [None, pd.Timestamp("2024-01-01")], ids=["durations", "dates"])
@pytest.mark.parametrize("trained", [[0, 1, 3], [0, 1, 2, 3]], ids=["complete", "gaps"])
def test_scale_features_of_missing_durations_and_dates_are_missing_numbers(start, trained):
    hours = np.array([3.0, 1.0, np.nan, 7.0])
    times = pd.to_timedelta(hours, unit="h")
    table = pd.DataFrame({"a": times if start is None else start + times})
    found = ScaleFeatures.from_columns(table.iloc[trained])(table, np.zeros(4))[:, 0]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(hours))
    assert np.argsort(found).tolist() == np.argsort(hours).tolist()


@each_encoding
@pytest.mark.parametrize("gaps", [False, True])
def test_an_array_is_encoded_as_the_columns_of_a_table(encoding, gaps):
    values = np.where(gaps & (np.arange(5) == 1), np.nan, RNG.normal(size=(20, 5)))
    table = pd.DataFrame(values).add_prefix("x").assign(word="a")
    expected = array(TableEncoder(encoding).fit_transform(table))
    encoder = TableEncoder(encoding).fit(values)
    assert encoder.kinds_ == ["empty" if gaps and j == 1 else "number" for j in range(5)]
    np.testing.assert_array_equal(array(encoder.transform(values)), expected[:, : 5 - gaps])
