"""One meaning for every forecast that a public function receives."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_array, as_float_array, check_bounds, check_finite
from skuq.distributions._base import Distribution
from skuq.distributions._row_container import RowContainer, check_univariate
from skuq.distributions._scipy import ScipyDistribution, is_frozen_scipy


def as_distribution(
    y_pred: Any, name: str = "y_pred", y_true: ArrayLike | None = None, *, expected: str = "a Distribution"
) -> Distribution:
    """Return ``y_pred`` as a distribution.

    Parameters
    ----------
    y_pred : Distribution or frozen scipy.stats distribution
        Forecasts of n rows.
    name : str, default="y_pred"
        Name of the argument in error messages.
    y_true : array-like of shape (n,), default=None
        Observed targets. Only the order of the lines in an error message depends on them.
    expected : str, default="a Distribution"
        Description of all valid forecasts in error messages.

    Returns
    -------
    dist : Distribution
        ``y_pred`` itself if it is a Distribution.

    Raises
    ------
    TypeError
        If ``y_pred`` has another type, such as an array, a tuple, or a `JointDistribution` of several
        targets. The message contains the lines of code that make a distribution of ``y_pred``.

    Examples
    --------
    >>> from scipy import stats
    >>> from skuq.distributions import as_distribution
    >>> as_distribution(stats.norm([0.0, 1.0], 1.0))
    ScipyDistribution(n=2)
    """
    if isinstance(y_pred, Distribution):
        return y_pred
    check_univariate(y_pred, name)
    if is_frozen_scipy(y_pred):
        return ScipyDistribution(y_pred)
    if isinstance(y_pred, type):
        raise TypeError(f"`{name}` must be {expected}, got the class {y_pred.__name__}. Pass an instance.")
    if type(y_pred).__module__.startswith("scipy.stats"):
        raise TypeError(
            f"`{name}` must be a frozen univariate distribution if it comes from scipy.stats, such as "
            f"stats.norm(loc, scale), got a scipy.stats.{type(y_pred).__name__}. For several targets, use a "
            "joint distribution such as NormalJoint. scipy's newer classes, such as stats.Normal, are not "
            "converted."
        )
    raise TypeError(f"`{name}` must be {expected}, got {_describe(y_pred)}. {_remedy(y_pred, name, y_true)}")


def as_forecast(y_pred: Any, name: str = "y_pred", y_true: Any = None) -> Distribution | FloatArray:
    """Return ``y_pred`` as a distribution, or as the checked bounds of intervals, shape (n, 2).

    There is at least one interval, no lower bound is inf, and no upper bound is -inf.
    """
    if not is_array(y_pred) or as_array(y_pred, name).shape[1:] != (2,):
        return as_distribution(y_pred, name, y_true, expected="a Distribution or bounds of shape (n, 2)")
    try:
        bounds = check_bounds(y_pred, name)
    except ValueError as error:
        lines, _ = _read_lines(y_pred, name, y_true)
        if not lines:
            raise
        raise ValueError(f"{error} {_shown(lines)}") from None
    if bounds.shape[0] == 0:
        raise ValueError(f"`{name}` must have at least one row, got none.")
    empty = (bounds[:, 0] == np.inf) | (bounds[:, 1] == -np.inf)
    if empty.any():
        row = int(np.argmax(empty))
        raise ValueError(
            f"`{name}` must hold intervals that contain a number, got [{bounds[row, 0]}, {bounds[row, 1]}] "
            f"at row {row}."
        )
    return bounds


def check_not_one_row(dist: Any, y: Any, name: str = "y_pred", y_name: str = "y_true") -> None:
    """Raise an error if one distribution is given for several observed values."""
    if not isinstance(dist, Distribution) or len(dist) != 1:
        return
    shape = as_array(y, y_name).shape
    n = shape[0] if shape else 1
    if n > 1:
        raise ValueError(
            f"`{name}` must have one row per observed value, but `{name}` has 1 row and `{y_name}` has {n}. "
            f"Repeat the row: `skuq.distributions.as_distribution({name})[[0] * {n}]`."
        )


def is_array(y_pred: Any) -> bool:
    """Return whether the forecast is array-like. A Distribution and a tuple are not array-like."""
    return isinstance(y_pred, list) or (hasattr(y_pred, "__array__") and not isinstance(y_pred, RowContainer))


def _read_lines(y_pred: Any, name: str, y_true: Any) -> tuple[list[str], str]:
    """Return the lines of code that make a distribution of an array or a tuple, the likelier first.

    If its numbers cannot be read, there are no lines, and the second value is the reason.
    """
    if not isinstance(y_pred, tuple) and not is_array(y_pred):
        return [], ""
    try:
        table, whole, columns = _read_table(y_pred, name, np.shape(y_true)[:1])
        y = np.empty(0) if y_true is None else as_float_array(y_true, "y_true").ravel()
    except (TypeError, ValueError) as error:
        return [], f"{error} "
    if table.ndim != 2 or len(table) == 0 or table.shape[1] < 2:
        return [], ""
    k = table.shape[1]
    ordered = bool((table[:, :-1] <= table[:, 1:]).all())
    if k > 2:
        levels = f"np.arange(1, {k + 1}) / {k + 1}"
        quantiles = f"Quantiles({levels}, {whole})  # quantiles; pass their levels"
        return [quantiles] * ordered + [f"Empirical({whole})  # samples or members of an ensemble"], ""
    lines = []
    if ordered:
        lines.append(f"Quantiles([0.05, 0.95], {whole})  # bounds of 90 % intervals")
    if (table[:, 1] >= 0).all():
        lines.append(f"Normal({columns})  # means and standard deviations")
    if y.size == len(table) and np.mean((table[:, 0] <= y) & (y <= table[:, 1])) < 0.5:
        lines.reverse()
    return lines, ""


def _read_table(y_pred: Any, name: str, rows: tuple[int, ...]) -> tuple[FloatArray, str, str]:
    """Return an array with one row per target, and the code for the array and for its two columns."""
    if isinstance(y_pred, tuple):
        names = [f"{name}[{i}]" for i in range(len(y_pred))]
        parts = [check_finite(as_float_array(*part), part[1]) for part in zip(y_pred, names, strict=True)]
        try:
            table = np.stack(np.broadcast_arrays(*parts))
        except ValueError:
            raise ValueError(f"The entries of `{name}` must be columns of the same length.") from None
        table = table[:, np.newaxis] if table.ndim == 1 else table
        # The entries are columns, unless the number of targets says that more than two entries are rows.
        by_column = len(table) <= 2 or table.shape[:1] != rows or table.shape[1:] == rows
    else:
        table = check_finite(as_float_array(y_pred, name), name)
        by_column = table.shape[:1] != rows == table.shape[1:]
    is_frame = hasattr(y_pred, "iloc")
    if hasattr(y_pred, "columns") and not is_frame:  # Iteration over a frame of polars gives its columns.
        name = f"np.asarray({name})"
    if by_column and is_frame:
        return table.T, f"{name}.T", f"{name}.iloc[0], {name}.iloc[1]"
    if by_column:
        same = len({np.size(part) for part in y_pred}) == 1
        whole = f"np.column_stack({name if same else f'np.broadcast_arrays(*{name})'})"
        return table.T, whole, f"*{name}"
    if is_frame:
        return table, name, f"{name}.iloc[:, 0], {name}.iloc[:, 1]"
    if isinstance(y_pred, np.ndarray):
        return table, name, f"{name}[:, 0], {name}[:, 1]"
    return table, name, f"*np.transpose({name})"


def _describe(y_pred: Any) -> str:
    if isinstance(y_pred, tuple):
        return f"a tuple of {len(y_pred)} entries"
    shape = getattr(y_pred, "shape", None)
    return f"{type(y_pred).__name__}" if shape is None else f"{type(y_pred).__name__} of shape {tuple(shape)}"


def _remedy(y_pred: Any, name: str, y_true: Any) -> str:
    if isinstance(y_true, Distribution) or is_frozen_scipy(y_true):
        return "The observed values are a distribution: swap the arguments."
    lines, reason = _read_lines(y_pred, name, y_true)
    if lines:
        return _shown(lines)
    if getattr(y_pred, "shape", (0, 0))[1:] in ((), (1,)):
        return reason + (
            "Point predictions have no uncertainty. Wrap the model in `skuq.UncertaintyRegressor`, and pass "
            "the result of `predict_dist`."
        )
    return reason + (
        "Pass the result of `predict_dist`, a frozen scipy distribution, or make a distribution with "
        "`Normal(mean, std)`, `Quantiles(levels, values)` or `Empirical(samples)` of `skuq.distributions`."
    )


def _shown(lines: list[str]) -> str:
    return "Make a distribution with `skuq.distributions`, by the line that fits:\n    " + "\n    ".join(
        lines
    )
