"""Columns of a table as numbers or categories, and the features of the forest of errors.

The forest of errors needs a dense table of numbers, but X may be a data frame with strings, a sparse
matrix, text or images. The features are the usable columns of X and the point prediction. The point
prediction is a feature, because the size of errors often depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._typing import FloatArray


def column_scale(X: FloatArray, mean: FloatArray, weight: FloatArray) -> FloatArray:
    magnitude = np.abs(X[weight > 0]).max(axis=0)
    safe = np.where(magnitude > 0, magnitude, 1.0)
    scale = safe * np.sqrt(weight @ np.square((X - mean) / safe) / weight.sum())
    constant = scale <= 4 * np.finfo(np.float64).eps * magnitude
    return np.where(constant, np.inf, scale)


@dataclass(frozen=True, eq=False)
class ScaleFeatures:
    """Columns of X as numbers or integer categories, and the point prediction."""

    categories: tuple[pd.Index | None, ...]

    @classmethod
    def from_columns(cls, X: Any, *, pairwise: bool = False) -> Self:
        """Return the features for training rows X. With ``pairwise``, X is a precomputed kernel."""
        if not pairwise and (numbers := as_numbers(X)) is not None:
            return cls((None,) * numbers.shape[1])
        table = None if pairwise else as_table(X)
        return cls(
            () if table is None else tuple(categories_of(table.iloc[:, j]) for j in range(table.shape[1]))
        )

    def __call__(self, X: Any, prediction: FloatArray) -> FloatArray:
        if not self.categories:
            return prediction[:, np.newaxis]
        numbers = as_numbers(X) if all(known is None for known in self.categories) else None
        if numbers is not None:
            return np.column_stack([numbers[:, : len(self.categories)], prediction])
        table = as_table(X)
        if table is None:
            return prediction[:, np.newaxis]
        columns = [numbers_of(table.iloc[:, j], known) for j, known in enumerate(self.categories)]
        return np.column_stack([*columns, prediction])


def as_numbers(X: Any) -> FloatArray | None:
    if isinstance(X, pd.DataFrame):
        if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in X.dtypes):
            return None
        array = X.to_numpy(dtype=np.float64, na_value=np.nan)
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        array = np.asarray(X, dtype=np.float64)
    else:
        return None
    # The array is in C order, because the memory order affects the rounding of sums over columns.
    return np.ascontiguousarray(np.where(np.isfinite(array), array, np.nan))


def as_table(X: Any) -> pd.DataFrame | None:
    if isinstance(X, pd.DataFrame):
        return X
    # X is a data frame of another package, such as polars.
    if hasattr(X, "columns") and hasattr(X, "to_dict"):
        return pd.DataFrame({str(name): np.asarray(X[name]) for name in X.columns})
    if sparse.issparse(X):
        return None
    array = np.asarray(X)
    return pd.DataFrame(array) if array.ndim == 2 else None


def categories_of(column: pd.Series) -> pd.Index | None:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return None
    if _converted(column).notna().equals(column.notna()):
        return None
    distinct: pd.Index = pd.Index(column.dropna().unique())
    return distinct


def numbers_of(column: pd.Series, categories: pd.Index | None) -> FloatArray:
    """Return the numbers of a column, or the index of each value in the categories (NaN if unknown)."""
    if categories is not None:
        index = categories.get_indexer(pd.Index(column))
        return np.where(index < 0, np.nan, index)
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        numbers = _converted(column).to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _converted(column: pd.Series) -> pd.Series:
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        seconds: pd.Series = column.dt.total_seconds()
        return seconds
    numbers: pd.Series = pd.to_numeric(column, errors="coerce")
    return numbers.mask(column.isna())  # `to_numeric` converts NaT to a number, which must be NaN.


Encoding = Literal["codes", "categories", "numbers"]
ENCODINGS = get_args(Encoding)
MAX_CODES = 254
"""Maximum number of codes of a column. It is the limit of histogram boosting. All rare categories get one
code."""
MAX_INDICATORS = 30
"""Maximum number of indicator columns of a column of strings. All rare categories get one indicator
column."""
_MISSING = "missing"
_DAY = np.timedelta64(1, "D")


def encoder_for(X: Any, encoding: str | None) -> TableEncoder | None:
    table = None if encoding is None else as_table(X)
    if table is None:
        return None
    encoder = TableEncoder(encoding).fit(X)  # type: ignore[arg-type]
    are_numbers = all(pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes)
    return None if are_numbers and encoding != "numbers" and "empty" not in encoder.kinds_ else encoder


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encoder that converts strings, dates and numbers to numbers.

    Strings become integer codes ("codes"), pandas columns of type category ("categories") or indicator
    columns ("numbers"). "numbers" also replaces missing values by medians and adds columns that indicate the
    missing values.
    """

    def __init__(self, encoding: Encoding = "codes") -> None:
        self.encoding = encoding

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the type of each column, its categories and its median."""
        validate_data(self, X, skip_check_array=True)
        table = _table(X)
        columns = [table.iloc[:, j] for j in range(table.shape[1])]
        numbers = as_numbers(table)
        if numbers is None:
            self.kinds_ = [_kind(column) for column in columns]
        else:
            n_values = (~np.isnan(numbers)).sum(axis=0)
            self.kinds_ = ["number" if n else "empty" for n in n_values]
        if set(self.kinds_) == {"empty"}:
            self.kinds_ = ["number"] * len(columns)
        dates = [
            _date_parts(_dates(c)) for c, kind in zip(columns, self.kinds_, strict=True) if kind == "date"
        ]
        # Constant parts are dropped, such as the time of day of dates without a time.
        self.date_parts_ = [np.fmax.reduce(parts) > np.fmin.reduce(parts) for parts in dates]
        self.words_ = self._word_encoder().fit(self._words(table)) if "words" in self.kinds_ else None
        self.imputer_ = None
        if self.encoding == "numbers" and set(self.kinds_) != {"words"}:
            self.imputer_ = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
            self.imputer_.fit(self._numbers(table))
        return self

    def transform(self, X: Any) -> Any:
        """Return the encoded columns. Numbers and dates are first, and strings follow."""
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        table = _table(X)
        numbers = self._numbers(table)
        if self.imputer_ is not None:
            numbers = self.imputer_.transform(numbers)
        encoded = numbers
        if self.words_ is not None:
            encoded = np.hstack([numbers, self.words_.transform(self._words(table))])
        if self.encoding != "categories":
            return encoded
        frame = pd.DataFrame(encoded).add_prefix("x")
        for j, categories in enumerate(() if self.words_ is None else self.words_.categories_):
            name = f"x{numbers.shape[1] + j}"
            frame[name] = pd.Categorical(frame[name], categories=range(len(categories)))
        return frame

    def _word_encoder(self) -> Any:
        if self.encoding == "numbers":
            return OneHotEncoder(
                handle_unknown="infrequent_if_exist", max_categories=MAX_INDICATORS, sparse_output=False
            )
        return OrdinalEncoder(
            handle_unknown="use_encoded_value",
            unknown_value=np.nan,
            encoded_missing_value=np.nan,
            max_categories=MAX_CODES,
        )

    def _words(self, table: pd.DataFrame) -> Any:
        missing: Any = _MISSING if self.encoding == "numbers" else np.nan
        columns = [table.iloc[:, j] for j, kind in enumerate(self.kinds_) if kind == "words"]
        return np.column_stack([_texts(column).where(column.notna(), missing) for column in columns])

    def _numbers(self, table: pd.DataFrame) -> FloatArray:
        if set(self.kinds_) <= {"number", "empty"} and (numbers := as_numbers(table)) is not None:
            return numbers[:, [kind == "number" for kind in self.kinds_]]
        parts: list[FloatArray] = [np.empty((len(table), 0))]
        varying = iter(self.date_parts_)
        for j, kind in enumerate(self.kinds_):
            if kind == "number":
                parts.append(numbers_of(table.iloc[:, j], None)[:, np.newaxis])
            elif kind == "date":
                parts.append(_date_parts(_dates(table.iloc[:, j]))[:, next(varying)])
        return np.hstack(parts)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _table(X: Any) -> pd.DataFrame:
    table = as_table(X)
    if table is None:
        raise TypeError(f"`X` must be a dense table, got {type(X).__name__}.")
    return table


def _texts(column: pd.Series) -> pd.Series:
    texts: pd.Series = column.astype(object).map(_text, na_action="ignore")
    return texts


def _text(value: Any) -> str:
    is_integral = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value) if is_integral else value)


def _kind(column: pd.Series) -> str:
    if column.isna().all():
        return "empty"
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "date"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "words"
    try:
        categories = categories_of(column)
    except TypeError as error:  # Lists, dicts and sets are not hashable.
        kinds = sorted({type(one).__name__ for one in column.dropna()})
        raise TypeError(
            f"`X` must have columns of numbers, strings or dates, got {', '.join(kinds)} in the column "
            f"{column.name!r}. Divide the column into columns of these types, or drop it."
        ) from error
    if categories is None:
        return "empty" if np.isnan(numbers_of(column, None)).all() else "number"
    return "date" if _dates(column).notna().equals(column.notna()) else "words"


def _dates(column: pd.Series) -> pd.Series:
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        column = _texts(column)
    dates: pd.Series = pd.to_datetime(column, format="ISO8601", errors="coerce", utc=True)
    return dates


def _date_parts(dates: pd.Series) -> FloatArray:
    """Return the days since 1970, day of the year, day of the week and time of day, shape (n, 4)."""
    days = (dates.dt.tz_localize(None).to_numpy() - np.datetime64(0, "s")) / _DAY
    parts = (dates.dt.dayofyear, dates.dt.dayofweek)
    return np.column_stack([days, *(part.to_numpy(dtype=np.float64) for part in parts), days % 1])
