"""Checks of what a user passes in: one function per fact, called once, at the public border.

Each returns the checked value in the form the kernels expect and raises an error that names
the argument, the condition, what came, and what to do.
"""

from __future__ import annotations

import numbers
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils import check_random_state as sklearn_check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._typing import ArrayLike, FloatArray

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100
"""Bounds of the sum of weights."""

MOST_REPETITIONS = 2.0**53
"""Largest number of rows that weights may stand for."""

MOST_EMPTY_BINS = 1000
"""Number of bins that few rows may be put into."""

DEFAULT_COVERAGE = 0.9
"""The one nominal coverage used wherever none is given."""

EFFECTIVE_ROWS = "effective_rows"
"""Key of the numbers of rows that the weights of a tilt are worth, beside those of the scorers."""


def as_float_array(values: ArrayLike, name: str) -> FloatArray:
    """Return ``values`` as a float64 array, without checking shape or content."""
    if sparse.issparse(values):
        raise TypeError(f"`{name}` must be a dense array, got a sparse one. Call `.toarray()` on it first.")
    check_unmasked(values, name)
    array = as_array(values, name)
    try:
        if array.dtype.kind == "c":
            raise TypeError
        if array.dtype.kind in "SUMm":
            raise ValueError
        return np.asarray(array, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"`{name}` must hold numbers up to 1.8e308, got a larger integer.") from error
    except (TypeError, ValueError) as error:
        kind = getattr(values, "dtype", type(values).__name__)
        raise TypeError(f"`{name}` must hold real numbers, got {kind}.") from error


def as_array(values: Any, name: str) -> np.ndarray:
    """Return ``values`` as an array of any type; rows of different lengths raise."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"`{name}` must have rows of one length, got a nested list of others.") from error


def check_mapping(values: Any, name: str) -> dict[Any, Any]:
    """Return a mapping as a dictionary, an empty one for None."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise TypeError(f"`{name}` must be a mapping of names to values, got {type(values).__name__}.")
    return dict(values)


def check_X(X: Any) -> None:
    """Raise for masked entries, and for kinds of X whose columns scikit-learn does not find."""
    check_unmasked(X, "X")
    if isinstance(X, Mapping) and not sparse.issparse(X):  # a sparse array of keys is a mapping
        raise TypeError(f"`X` must be an array or DataFrame, got {type(X).__name__}. Pass `pd.DataFrame(X)`.")
    if isinstance(X, list | tuple) and not X:
        raise ValueError(f"`X` must have at least one row, got an empty {type(X).__name__}.")


def check_unmasked(values: Any, name: str) -> None:
    """Raise if ``values`` is a masked array with masked entries, whose mask numpy would drop."""
    if isinstance(values, np.ma.MaskedArray) and (mask := np.ma.getmaskarray(values)).any():
        raise ValueError(
            f"`{name}` must not have masked entries, got {int(mask.sum())}, the first{_where(mask)}. Leave "
            "these rows out, or fill the entries with `.filled(value)`."
        )


def _where(mask: np.ndarray) -> str:
    """Return where a condition first fails, for an error message."""
    if mask.ndim == 0:
        return ""
    position = np.unravel_index(int(np.argmax(mask)), mask.shape)
    if len(position) == 1:
        return f" at row {position[0]}"
    return f" at row {position[0]}, column {position[1]}"


def check_no_nan(array: FloatArray, name: str) -> FloatArray:
    """Raise if ``array`` holds a NaN; infinities pass."""
    with np.errstate(all="ignore"):
        if np.isnan(array.sum()):  # one pass without a temporary; a sum of both infinities is NaN too
            mask = np.isnan(array)
            if mask.any():
                raise ValueError(f"`{name}` must not contain NaN, got one{_where(mask)}.")
    return array


def check_finite(array: FloatArray, name: str) -> FloatArray:
    """Raise if ``array`` holds a NaN or an infinity."""
    with np.errstate(all="ignore"):
        if not np.isfinite(array.sum()):  # a sum may overflow, so the slow check decides
            mask = ~np.isfinite(array)
            if mask.any():
                value = array[np.unravel_index(int(np.argmax(mask)), mask.shape)] if array.ndim else array
                raise ValueError(f"`{name}` must be finite, got {value}{_where(mask)}.")
    return array


def check_non_negative(array: FloatArray, name: str) -> FloatArray:
    """Raise if a value of ``array`` is negative."""
    if array.size and array.min() < 0:
        mask = array < 0
        value = array[np.unravel_index(int(np.argmax(mask)), mask.shape)] if array.ndim else array
        raise ValueError(f"`{name}` must be non-negative, got {value}{_where(mask)}.")
    return array


def check_positive(array: FloatArray, name: str) -> FloatArray:
    """Raise if a value of ``array`` is zero or negative."""
    if array.size and array.min() <= 0:
        mask = array <= 0
        value = array[np.unravel_index(int(np.argmax(mask)), mask.shape)] if array.ndim else array
        raise ValueError(f"`{name}` must be positive, got {value}{_where(mask)}.")
    return array


def check_finite_moments(dist: Any, *moments: str, subject: str, remedy: str) -> tuple[FloatArray, ...]:
    """Return moments of each row of a Distribution, which must exist and be finite.

    Parameters
    ----------
    dist : Distribution of n rows
        Each moment is computed once, as it may be costly.
    *moments : {"mean", "std"}
        Names of the moments.
    subject : str
        Beginning of the error with the name of the argument, such as "`dist` must have".
    remedy : str
        Sentence of the error that names an alternative.

    Returns
    -------
    values : tuple of ndarray of shape (n,)
        One for each of ``moments``.
    """
    kind = " and ".join("standard deviation" if moment == "std" else moment for moment in moments)
    requirement = f"{subject} a finite {kind} in every row"
    try:
        values = tuple(getattr(dist, moment)() for moment in moments)
    except ValueError as error:  # a Cauchy distribution has none
        raise ValueError(f"{requirement}. {remedy} Here {error}") from error
    for moment, value in zip(moments, values, strict=True):
        finite = np.isfinite(value)
        if not finite.all():
            row = int(np.argmin(finite))
            got = f"{moment} {value[row]}" if len(moments) > 1 else f"{value[row]}"
            raise ValueError(f"{requirement}, got {got} at row {row}. {remedy}")
    return values


def check_rows(array: FloatArray, name: str, n: int) -> FloatArray:
    """Raise unless the 1-D ``array`` has ``n`` rows."""
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have shape ({n},), got {array.shape}.")
    if array.shape[0] != n:
        raise ValueError(f"`{name}` must have {n} rows, one a sample, got {array.shape[0]}.")
    return array


def check_target(y: ArrayLike, name: str = "y_true", n: int | None = None) -> FloatArray:
    """Return a target as a finite float array of shape (n,); a column (n, 1) is flattened."""
    if y is None:
        raise ValueError(f"`{name}` must hold observed values, one a row, got None.")
    if hasattr(y, "interval") and hasattr(y, "ppf"):
        raise TypeError(f"`{name}` must be observed values, got the distribution {y!r}. It comes second.")
    array = as_float_array(y, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        raise ValueError(
            f"`{name}` must have one column, got {array.shape[1]}; skuq handles one target at a time."
        )
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have shape (n,), got {array.shape}.")
    if array.shape[0] == 0:
        raise ValueError(f"`{name}` must have at least one row, got none.")
    if n is not None:
        check_rows(array, name, n)
    return check_finite(array, name)


def as_labels(values: Any, name: str) -> np.ndarray:
    """Return class labels of one kind as an array, none of which is missing; texts of any string type."""
    check_unmasked(values, name)
    array = as_array(values, name)
    if array.dtype.kind == "V":
        raise TypeError(f"`{name}` must hold one label per row, got records with fields {array.dtype.names}.")
    # Of a list numpy makes texts of missing values too; its own strings are of kind T.
    labels = np.asarray(values, dtype=object) if array.dtype.kind in "UST" else array
    missing = np.asarray(pd.isna(labels))
    if missing.any():
        raise ValueError(
            f"`{name}` must not have missing values, got {int(missing.sum())}, the first{_where(missing)}. "
            "Leave these rows out."
        )
    if array.dtype == object and array.ndim == 1:  # a column of a DataFrame may hold numbers as objects
        try:
            array = labels = np.asarray(pd.Series(array).infer_objects())
        except OverflowError as error:
            raise ValueError(f"`{name}` must hold labels up to 1.8e308, got a larger integer.") from error
    if labels.dtype == object and len({isinstance(each, str | bytes) for each in labels.ravel()}) > 1:
        raise TypeError(f"`{name}` must hold labels of one kind, numbers or texts, got a mixture.")
    return labels.astype(str) if array.dtype.kind == "T" else array


def check_sample_weight(sample_weight: ArrayLike | None, n: int) -> FloatArray | None:
    """Return the weights as a finite, non-negative array of shape (n,) with a positive sum, or None.

    The sum is bounded, so that neither it nor weighted squares leave the range of a float.
    """
    if sample_weight is None:
        return None
    weight = as_float_array(sample_weight, "sample_weight")
    check_rows(weight, "sample_weight", n)
    check_finite(weight, "sample_weight")
    check_non_negative(weight, "sample_weight")
    if not weight.any():
        raise ValueError("`sample_weight` must have a positive sum, got only zeros.")
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if not LEAST_WEIGHT <= total <= MOST_WEIGHT:
        raise ValueError(
            f"`sample_weight` must have a sum between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}, got {total:g}. "
            "Divide the weights by their mean."
        )
    return weight


def effective_rows(sample_weight: FloatArray | None, n: int) -> float:
    """Return the number of rows that weighted samples stand for, for formulas in which n itself enters.

    Weights count repetitions, so n is their sum; up to 2**53, beyond which ranks are no longer exact.
    """
    if sample_weight is None:
        return float(n)
    return check_repetitions(float(sample_weight.sum()), int(np.count_nonzero(sample_weight)))


def check_repetitions(total: float, rows: int) -> float:
    """Return the sum of the weights of so many rows with positive weight, if it may be a number of rows."""
    if total < rows * (1 - 1e-9):
        raise ValueError(
            f"`sample_weight` counts repetitions, and the number of rows enters here, so its sum must be at "
            f"least the number of rows with positive weight, {rows}; got {total:g}. "
            "If the weights are relative, pass `sample_weight * len(sample_weight) / sample_weight.sum()`."
        )
    if total > MOST_REPETITIONS:
        raise ValueError(
            f"`sample_weight` counts repetitions, and ranks enter here, so its sum must be at most "
            f"{MOST_REPETITIONS:g}, got {total:g}. Divide the weights by a common factor."
        )
    return total


def check_probabilities(p: ArrayLike, name: str) -> FloatArray:
    """Return probabilities as a float array with every value in [0, 1]."""
    array = as_float_array(p, name)
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        mask = ~((array >= 0) & (array <= 1))
        value = array[np.unravel_index(int(np.argmax(mask)), mask.shape)] if array.ndim else array
        raise ValueError(f"`{name}` must lie in [0, 1], got {value}{_where(mask)}.")
    return array


def check_open_unit(values: ArrayLike, name: str) -> FloatArray:
    """Return a scalar or 1-D array of numbers strictly between 0 and 1."""
    array = as_float_array(values, name)
    if array.ndim > 1 or array.size == 0:
        raise ValueError(f"`{name}` must be a number or a non-empty 1-D array, got shape {array.shape}.")
    mask = ~((array > 0) & (array < 1))
    if mask.any():
        value = float(array[mask][0]) if array.ndim else float(array)
        hint = f" Did you mean {value / 100:g}?" if 1 < value < 100 else ""
        raise ValueError(f"`{name}` must lie strictly between 0 and 1, got {value:g}.{hint}")
    return array


def check_coverage(coverage: ArrayLike, name: str = "coverage") -> FloatArray:
    """Return nominal coverages, a scalar or (k,) array, each strictly between 0 and 1."""
    return check_open_unit(coverage, name)


def check_single_coverage(coverage: float, name: str = "coverage") -> float:
    """Return one nominal coverage strictly between 0 and 1."""
    array = check_open_unit(coverage, name)
    if array.ndim:
        raise ValueError(f"`{name}` must be one number, got an array of shape {array.shape}.")
    return float(array)


def check_increasing(values: FloatArray, name: str) -> FloatArray:
    """Raise unless a 1-D array is strictly increasing."""
    if np.any(np.diff(values) <= 0):
        raise ValueError(f"`{name}` must be strictly increasing, got {np.array2string(values, threshold=8)}.")
    return values


def check_option(value: Any, name: str, options: Collection[Any]) -> Any:
    """Return the option that ``value`` is: numpy's strings and bools count, 1 and 0 are no bools."""
    for option in options:
        if value is option or (_may_equal(value, option) and value == option):
            return option
    listing = ", ".join(repr(option) for option in options)
    raise ValueError(f"`{name}` must be one of {listing}, got {value!r}.")


def _may_equal(value: Any, option: Any) -> bool:
    """Whether a value is of an option's kind; numpy's bool_ is no bool by itself, nor its integers ints."""
    if isinstance(option, bool) or isinstance(value, bool | np.bool_):
        return isinstance(option, bool) and isinstance(value, bool | np.bool_)
    return isinstance(value, (int, np.integer) if isinstance(option, int) else type(option))


def check_random_state(random_state: Any) -> np.random.RandomState:
    """Return the RandomState that a parameter ``random_state`` stands for."""
    if isinstance(random_state, np.random.Generator):
        raise ValueError(
            "`random_state` must be an int, a numpy RandomState or None, got a numpy Generator, which "
            "scikit-learn does not take. Draw an int from it: `int(generator.integers(2**31))`."
        )
    try:
        rng: np.random.RandomState = sklearn_check_random_state(random_state)
    except ValueError as error:
        raise ValueError(
            "`random_state` must be an int from 0 to 2**32 - 1, a numpy RandomState or None, got "
            f"{random_state!r}."
        ) from error
    return rng


def check_n_bins(n_bins: int, n: int, name: str = "n_bins") -> int:
    """Raise if there are far more bins than rows: they would be empty, and take memory all the same."""
    most = max(n, MOST_EMPTY_BINS)
    if n_bins > most:
        raise ValueError(
            f"`{name}` must be at most {most} for {n} rows, got {n_bins}: bins without rows say nothing."
        )
    return n_bins


def check_integer(value: Any, name: str, minimum: int = 1) -> int:
    """Return ``value`` as an int of at least ``minimum``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer, got {value!r}.")
    if value < minimum:
        raise ValueError(f"`{name}` must be at least {minimum}, got {value}.")
    return int(value)


def check_number(value: Any, name: str, *, positive: bool = False) -> float:
    """Return ``value`` as a finite float, positive where required."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number, got {value!r}.")
    number = float(value)
    if not np.isfinite(number) or (positive and number <= 0):
        raise ValueError(f"`{name}` must be {'positive and ' if positive else ''}finite, got {value!r}.")
    return number


def check_bounds(bounds: ArrayLike, name: str = "y_pred", n: int | None = None) -> FloatArray:
    """Return interval bounds, shape (n, 2), lower not above upper; infinite bounds pass."""
    array = as_float_array(bounds, name)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"`{name}` must have shape (n, 2), lower and upper bound, got {array.shape}.")
    if n is not None and array.shape[0] != n:
        raise ValueError(f"`{name}` must have {n} rows, one a sample, got {array.shape[0]}.")
    check_no_nan(array, name)
    mask = array[:, 0] > array[:, 1]
    if mask.any():
        row = int(np.argmax(mask))
        raise ValueError(
            f"`{name}` must have lower bounds (first column) not above upper bounds, "
            f"got {array[row, 0]:g} > {array[row, 1]:g} at row {row}."
        )
    return array


def check_same_length(lengths: Sequence[int], name: str) -> int:
    """Return the one length that all parts share."""
    if len(set(lengths)) != 1:
        raise ValueError(f"`{name}` must all have the same number of rows, got {list(lengths)}.")
    return lengths[0]


def check_new(owner: Any, X: Any) -> None:
    """Check that ``owner`` is fitted and that X, passed on as it is, has the columns of the training data."""
    check_is_fitted(owner)
    check_X(X)
    if hasattr(owner, "n_features_in_") and len(getattr(X, "shape", (0, 0))) == 1:
        raise ValueError(
            f"`X` must be 2-dimensional, got shape {X.shape}. Reshape your data: X.reshape(-1, 1) "
            "if it is one feature, X.reshape(1, -1) if it is one sample."
        )
    validate_data(owner, X, reset=False, skip_check_array=True)
