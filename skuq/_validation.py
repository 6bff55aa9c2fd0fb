"""Validation of the arguments of public functions.

Most functions return the checked value. Error messages contain the argument, the condition, the value and a
remedy.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils import check_consistent_length
from sklearn.utils import check_random_state as sklearn_check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._compat import warn_user
from skuq._typing import ArrayLike, FloatArray
from skuq.exceptions import SmallSampleWarning

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100
"""Smallest and largest accepted sum of weights."""

LEAST_SIZE, MOST_SIZE = 1e-100, 1e100
"""Smallest and largest accepted size of targets. Their weighted squares are floats."""

MOST_REPETITIONS = 2.0**53
"""Maximum number of repetitions that weights may represent."""

MOST_EMPTY_BINS = 1000
"""Number of bins that is accepted for any number of rows."""

DEFAULT_COVERAGE = 0.9
"""Default nominal coverage."""

ONE_MODEL_EACH = (
    "For several targets, use skuq.multivariate.MultiOutputUncertaintyRegressor(...), which fits one model "
    "per column."
)
"""Remedy for a target or a prediction with several columns."""

FEWEST_ROWS = 12
"""Smallest number of rows without a warning. From this number on, 90 % intervals contain 87 to 95 % of the
targets, averaged over training sets."""

LEAST_MEAN_WEIGHT = 0.5
"""Least mean of the positive weights, if weights count repetitions."""

_reported: ContextVar[bool] = ContextVar("few rows are reported by an outer fit", default=False)

EFFECTIVE_ROWS = "effective_rows"
"""Key of the effective numbers of rows in the scores for a `Tilt`."""


def as_float_array(values: ArrayLike, name: str) -> FloatArray:
    """Return ``values`` as a float64 array of any shape. It may contain NaN and infinity."""
    if sparse.issparse(values):
        raise TypeError(f"`{name}` must be a dense array, got a sparse array. Call `.toarray()` on it first.")
    if getattr(values, "__array_ufunc__", True) is None:  # The array of a distribution contains its moments.
        raise TypeError(
            f"`{name}` must hold real numbers, got {values!r}. Pass an array of numbers, not a distribution."
        )
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
        remedy = " Convert censored targets by `skuq.survival.from_survival`." if array.dtype.names else ""
        raise TypeError(f"`{name}` must hold real numbers, got {kind}.{remedy}") from error


def as_array(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"`{name}` must have rows of one length, got rows of different lengths.") from error


def check_mapping(values: Any, name: str) -> dict[Any, Any]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise TypeError(f"`{name}` must be a mapping of names to values, got {type(values).__name__}.")
    return dict(values)


def check_X(X: Any) -> None:
    """Raise an error for a mapping, an empty X, or masked entries."""
    if X is None:
        raise TypeError("`X` must be an array or DataFrame, got None.")
    check_unmasked(X, "X")
    if isinstance(X, Mapping) and not sparse.issparse(X):  # Some sparse arrays are dictionaries.
        raise TypeError(f"`X` must be an array or DataFrame, got {type(X).__name__}. Pass `pd.DataFrame(X)`.")
    if isinstance(X, list | tuple) and not X:
        raise ValueError(f"`X` must have at least one row, got an empty {type(X).__name__}.")


def check_unmasked(values: Any, name: str) -> None:
    """Raise an error for masked entries, because numpy would ignore the mask."""
    if isinstance(values, np.ma.MaskedArray) and (mask := np.ma.getmaskarray(values)).any():
        raise ValueError(
            f"`{name}` must not have masked entries, got {int(mask.sum())}, first{_where(mask)}. Leave "
            f"these rows out, or fill the entries with `.filled(value)`."
        )


def _where(mask: np.ndarray) -> str:
    if mask.ndim == 0:
        return ""
    position = np.unravel_index(int(np.argmax(mask)), mask.shape)
    if len(position) == 1:
        return f" at row {position[0]}"
    return f" at row {position[0]}, column {position[1]}"


def check_no_nan(array: FloatArray, name: str) -> FloatArray:
    with np.errstate(all="ignore"):
        if np.isnan(array.sum()):  # This test is fast, but the sum of inf and -inf is also NaN.
            mask = np.isnan(array)
            if mask.any():
                raise ValueError(f"`{name}` must not contain NaN, got one{_where(mask)}.")
    return array


def _sum_of_squares(array: FloatArray) -> float:
    flat = array.ravel(order="K")
    return float(np.vdot(flat, flat))  # Unlike other products of numpy, it does not warn of an overflow.


def check_finite(array: FloatArray, name: str) -> FloatArray:
    # This test is fast, but the sum of squares of finite values may overflow, so the slower check follows.
    if not math.isfinite(_sum_of_squares(array)):
        mask = ~np.isfinite(array)
        if mask.any():
            value = array[np.unravel_index(int(np.argmax(mask)), mask.shape)] if array.ndim else array
            raise ValueError(f"`{name}` must be finite, got {value}{_where(mask)}.")
    return array


def check_non_negative(array: FloatArray, name: str) -> FloatArray:
    if array.size and array.min() < 0:
        mask = array < 0
        value = array[np.unravel_index(int(np.argmax(mask)), mask.shape)] if array.ndim else array
        raise ValueError(f"`{name}` must be non-negative, got {value}{_where(mask)}.")
    return array


def check_positive(array: FloatArray, name: str) -> FloatArray:
    if array.size and array.min() <= 0:
        mask = array <= 0
        value = array[np.unravel_index(int(np.argmax(mask)), mask.shape)] if array.ndim else array
        raise ValueError(f"`{name}` must be positive, got {value}{_where(mask)}.")
    return array


def check_finite_moments(dist: Any, *moments: str, subject: str, remedy: str) -> tuple[FloatArray, ...]:
    """Return the moments of each row of a Distribution. Raise an error if a moment is not finite."""
    kind = " and ".join(moments).replace("std", "standard deviation")
    requirement = f"{subject} a finite {kind} in every row"
    try:
        values = tuple([getattr(dist, moment)() for moment in moments])
    except ValueError as error:  # Some distributions have no moments, for example the Cauchy distribution.
        raise ValueError(f"{requirement}. {remedy} Reason: {error}") from error
    for moment, value in zip(moments, values, strict=True):
        if not math.isfinite(_sum_of_squares(value)) and not np.isfinite(value).all():
            row = int(np.argmin(np.isfinite(value)))
            got = f"{moment} {value[row]}" if len(moments) > 1 else f"{value[row]}"
            raise ValueError(f"{requirement}, got {got} at row {row}. {remedy}")
    return values


def check_rows(array: FloatArray, name: str, n: int) -> FloatArray:
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have shape ({n},), got {array.shape}.")
    if array.shape[0] != n:
        raise ValueError(f"`{name}` must have {n} rows, one per sample, got {array.shape[0]}.")
    return array


def check_target(y: ArrayLike, name: str = "y_true", n: int | None = None) -> FloatArray:
    """Return a target as a finite float array of shape (n,). The shape (n, 1) is also accepted."""
    if y is None:
        raise ValueError(f"`{name}` must hold observed values, one per row, got None.")
    if hasattr(y, "interval") and hasattr(y, "ppf"):
        raise TypeError(f"`{name}` must be observed values, got the distribution {y!r}. Swap the arguments.")
    array = one_column(as_float_array(y, name), name)
    if array.shape[0] == 0:
        raise ValueError(f"`{name}` must have at least one row, got none.")
    if n is not None:
        check_rows(array, name, n)
    return check_finite(array, name)


def one_column(array: FloatArray, name: str) -> FloatArray:
    """Return an array of shape (n,) or (n, 1) in the shape (n,). Raise an error for other shapes."""
    if array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    if array.ndim == 2:
        raise ValueError(f"`{name}` must have one column, got {array.shape[1]}. {ONE_MODEL_EACH}")
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have shape (n,), got {array.shape}.")
    return array


def check_size(y: FloatArray, name: str) -> FloatArray:
    """Raise an error if sums of squares of the values may overflow or underflow."""
    # If the sum of squares is in range, then so is the largest value. The sum needs one pass and no copy.
    if LEAST_SIZE**2 * y.size <= _sum_of_squares(y) <= MOST_SIZE**2:
        return y
    size = float(np.abs(y).max(initial=0.0))
    if size and not LEAST_SIZE <= size <= MOST_SIZE:
        raise ValueError(
            f"`{name}` must have a largest absolute value from {LEAST_SIZE:g} to {MOST_SIZE:g}, or be 0 in "
            f"all rows, got {size:g}. Squares of other values overflow or underflow. Use another unit."
        )
    return y


def as_labels(values: Any, name: str) -> np.ndarray:
    """Return class labels as an array. Raise an error for missing values and for mixed types."""
    check_unmasked(values, name)
    array = as_array(values, name)
    if array.dtype.kind == "V":
        raise TypeError(f"`{name}` must hold one label per row, got records with fields {array.dtype.names}.")
    # numpy converts missing values in a list of strings to strings, so the list is converted to objects.
    labels = np.asarray(values, dtype=object) if array.dtype.kind in "UST" else array
    missing = np.asarray(pd.isna(labels))
    if missing.any():
        raise ValueError(
            f"`{name}` must not have missing values, got {int(missing.sum())}, the first{_where(missing)}. "
            "Leave these rows out."
        )
    if array.dtype == object and array.ndim == 1:  # A DataFrame may store numbers as objects.
        try:
            array = labels = np.asarray(pd.Series(array).infer_objects())
        except OverflowError as error:
            raise ValueError(f"`{name}` must hold labels up to 1.8e308, got a larger integer.") from error
    if labels.dtype == object and len({isinstance(each, str | bytes) for each in labels.ravel()}) > 1:
        raise TypeError(f"`{name}` must hold labels of one kind, either numbers or strings, got both.")
    return labels.astype(str) if array.dtype.kind == "T" else array


def check_sample_weight(sample_weight: ArrayLike | None, n: int) -> FloatArray | None:
    """Return the weights, or None.

    Raise an error if the weights are not finite and non-negative with a positive sum, or have another shape
    than (n,).
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
    if sample_weight is None:
        return float(n)
    return check_repetitions(float(sample_weight.sum()), int(np.count_nonzero(sample_weight)))


def check_repetitions(total: float, rows: int) -> float:
    """Check that the sum of the weights is a valid number of repetitions.

    Weights with a mean of 1 may have a smaller mean on a part of the rows, such as a fold. Relative weights,
    which sum to 1, have a much smaller mean.
    """
    if total < LEAST_MEAN_WEIGHT * rows:
        raise ValueError(
            f"`sample_weight` counts repetitions, and its sum must be at least {LEAST_MEAN_WEIGHT * rows:g}, "
            f"half of the number of rows with positive weight. Got {total:g}. "
            "For relative weights, pass `sample_weight * len(sample_weight) / sample_weight.sum()`."
        )
    if total > MOST_REPETITIONS:
        raise ValueError(
            f"`sample_weight` counts repetitions, so its sum must be at most {MOST_REPETITIONS:g}, "
            f"got {total:g}. With a larger sum, ranks are not exact. Divide the weights by a constant."
        )
    return total


@contextmanager
def few_rows_reported() -> Iterator[None]:
    """Suppress the warning in inner fits, because the outer fit issues its own warning."""
    token = _reported.set(True)
    try:
        yield
    finally:
        _reported.reset(token)


def repeated_rows(sample_weight: FloatArray | None, n: int) -> float:
    if sample_weight is None:
        return float(n)
    return max(float(sample_weight.sum()), float((sample_weight > 0).sum()))


def warn_of_few_rows(n: float, unit: str = "rows") -> None:
    """Issue one `SmallSampleWarning` if there are too few rows, or groups of rows, for calibration."""
    if n < FEWEST_ROWS and not _reported.get():
        warn_user(
            f"intervals need at least {FEWEST_ROWS} {unit} for calibration, got {n:g}. The coverage of the "
            f"intervals may be far from the nominal coverage. Use more {unit}.",
            SmallSampleWarning,
        )


def check_probabilities(p: ArrayLike, name: str) -> FloatArray:
    if p is None:
        raise TypeError(f"`{name}` must be a number or an array of numbers in [0, 1], got None.")
    array = as_float_array(p, name)
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        mask = ~((array >= 0) & (array <= 1))
        value = array[np.unravel_index(int(np.argmax(mask)), mask.shape)] if array.ndim else array
        raise ValueError(f"`{name}` must lie in [0, 1], got {value}{_where(mask)}.")
    return array


def check_open_unit(values: ArrayLike, name: str) -> FloatArray:
    """Return a scalar or 1-D array. Raise an error if a value is not strictly between 0 and 1."""
    if values is None:
        raise TypeError(f"`{name}` must be a number or an array of numbers between 0 and 1, got None.")
    if type(values) is float and 0.0 < values < 1.0:  # The checks of an array take 5 microseconds.
        return np.asarray(values)
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
    """Return nominal coverages of shape () or (k,), each strictly between 0 and 1."""
    return check_open_unit(coverage, name)


def check_single_coverage(coverage: ArrayLike, name: str = "coverage") -> float:
    array = check_open_unit(coverage, name)
    if array.ndim:
        raise ValueError(f"`{name}` must be one number, got an array of shape {array.shape}.")
    return float(array)


def check_increasing(values: FloatArray, name: str) -> FloatArray:
    if np.any(np.diff(values) <= 0):
        raise ValueError(f"`{name}` must be strictly increasing, got {np.array2string(values, threshold=8)}.")
    return values


def check_option(value: Any, name: str, options: Collection[Any]) -> Any:
    """Return the option that equals ``value``. The numbers 1 and 0 do not equal True and False."""
    for option in options:
        if value is option or (_may_equal(value, option) and value == option):
            return option
    listing = ", ".join(repr(option) for option in options)
    raise ValueError(f"`{name}` must be one of {listing}, got {value!r}.")


def _may_equal(value: Any, option: Any) -> bool:
    if isinstance(option, bool) or isinstance(value, bool | np.bool_):
        return isinstance(option, bool) and isinstance(value, bool | np.bool_)
    return isinstance(value, (int, np.integer) if isinstance(option, int) else type(option))


def check_random_state(random_state: Any) -> np.random.RandomState:
    if isinstance(random_state, np.random.Generator):
        raise ValueError(
            "`random_state` must be an int, a numpy RandomState or None, got a numpy Generator. scikit-learn "
            "does not support numpy Generators. Draw an int from the generator: "
            "`int(generator.integers(2**31))`."
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
    """Check that the number of bins is not much larger than the number of rows."""
    most = max(n, MOST_EMPTY_BINS)
    if n_bins > most:
        raise ValueError(
            f"`{name}` must be at most {most} for {n} rows, got {n_bins}. With this number, most bins are "
            "empty. Use fewer bins."
        )
    return n_bins


def check_integer(value: Any, name: str, minimum: int = 1) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer, got {value!r}.")
    if value < minimum:
        raise ValueError(f"`{name}` must be at least {minimum}, got {value}.")
    return int(value)


def check_integer_or_auto(value: Any, name: str, minimum: int = 1) -> int | str:
    if isinstance(value, str) and value == "auto":
        return value
    message = f"`{name}` must be an integer of at least {minimum} or 'auto', got {value!r}."
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral | str):
        raise TypeError(message)
    if isinstance(value, str) or value < minimum:
        raise ValueError(message)
    return int(value)


def check_number(value: Any, name: str, *, positive: bool = False) -> float:
    """Return ``value`` as a finite float. With ``positive``, raise an error if it is not positive."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the largest float
        number = math.inf
    if not np.isfinite(number) or (positive and number <= 0):
        raise ValueError(f"`{name}` must be {'positive and ' if positive else ''}finite, got {value!r}.")
    return number


def check_bounds(bounds: ArrayLike, name: str = "y_pred", n: int | None = None) -> FloatArray:
    """Return the bounds of intervals, shape (n, 2). Bounds may be infinite."""
    array = as_float_array(bounds, name)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"`{name}` must have shape (n, 2), lower and upper bound, got {array.shape}.")
    if n is not None and array.shape[0] != n:
        raise ValueError(f"`{name}` must have {n} rows, one per sample, got {array.shape[0]}.")
    check_no_nan(array, name)
    mask = array[:, 0] > array[:, 1]
    if mask.any():
        row = int(np.argmax(mask))
        raise ValueError(
            f"`{name}` must have lower bounds (first column) that are at most the upper bounds, "
            f"got {array[row, 0]:g} > {array[row, 1]:g} at row {row}."
        )
    return array


def check_support(
    lower: ArrayLike, upper: ArrayLike, n: int, integer: bool = False
) -> tuple[FloatArray, FloatArray, bool]:
    """Return copies of the bounds of shape (n,), and whether the support is integer.

    Each lower bound must be smaller than the upper bound of the same row.
    """
    integer = check_option(integer, "integer", (True, False))
    low, high = _read_bound(lower, "lower", n), _read_bound(upper, "upper", n)
    wrong = low >= high
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"`lower` must be less than `upper`, got {low[row]:g} >= {high[row]:g} at row {row}."
        )
    for bound, name in ((low, "lower"), (high, "upper")):
        broken = integer & (np.round(bound) != bound)
        if broken.any():
            row = int(np.argmax(broken))
            raise ValueError(
                f"`{name}` must be an integer or infinite with integer=True, got {bound[row]:g} at row {row}."
            )
    return low, high, integer


def _read_bound(values: ArrayLike, name: str, n: int) -> FloatArray:
    if values is None:
        raise TypeError(
            f"`{name}` must be a number or an array, got None. Pass an infinite value for no bound."
        )
    return per_row(check_no_nan(as_float_array(values, name), name), name, n)


def per_row(array: FloatArray, name: str, n: int) -> FloatArray:
    """Return a copy of shape (n,) of a number or of an array of this shape."""
    if array.shape not in {(), (n,)}:
        raise ValueError(f"`{name}` must be a number or have shape ({n},), got {array.shape}.")
    return np.array(np.broadcast_to(array, (n,)))


def check_same_rows(X: Any, y: Any) -> None:
    try:
        check_consistent_length(X, y)
    except ValueError as error:
        raise ValueError(f"`X` and `y` must have the same number of rows. {error}") from error


def check_same_length(lengths: Sequence[int], name: str) -> int:
    if len(set(lengths)) != 1:
        raise ValueError(f"`{name}` must all have the same number of rows, got {list(lengths)}.")
    return lengths[0]


def check_new(owner: Any, X: Any) -> None:
    """Raise an error if ``owner`` is not fitted, or if X does not have the columns of the training data."""
    check_is_fitted(owner)
    check_X(X)
    if hasattr(owner, "n_features_in_") and len(getattr(X, "shape", (0, 0))) == 1:
        raise ValueError(
            f"`X` must be 2-dimensional, got shape {X.shape}. Reshape your data: X.reshape(-1, 1) "
            "if it is one feature, X.reshape(1, -1) if it is one sample."
        )
    validate_data(owner, X, reset=False, skip_check_array=True)


def check_unused(owner: Any, names: Iterable[str], condition: str, remedy: str) -> None:
    """Raise an error if a parameter that the estimator does not use differs from its default."""
    parameters = signature(type(owner)).parameters
    for name in names:
        value, default = getattr(owner, name), parameters[name].default
        if not (_may_equal(value, default) and value == default):
            raise ValueError(f"`{name}` must be {default!r} {condition}, got {value!r}. {remedy}")
