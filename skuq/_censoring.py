"""Censored targets: checks of the arguments, the product-limit estimator, and weights of observed rows.

A row is right-censored if its target is only known to be larger than y. If an event and a censoring have the
same time, the event counts as earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import as_array, as_float_array, check_no_nan, check_rows, check_unmasked

CENSORING = ("event", "lower", "upper")
"""Arguments of ``fit`` that describe the censoring of each row."""


def given_censoring(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that describe the censoring and have one value per row."""
    return {name: params[name] for name in CENSORING if name in params and np.ndim(params[name]) > 0}


@dataclass(frozen=True, eq=False)
class Bounds:
    """Known bounds of each target. The bounds of an observed target are equal."""

    lower: FloatArray
    upper: FloatArray

    @property
    def observed(self) -> BoolArray:
        return np.equal(self.lower, self.upper)

    @property
    def known(self) -> BoolArray:
        """Return whether each target is observed or has a finite upper bound."""
        return np.isfinite(self.upper)

    @property
    def right_censored(self) -> bool:
        return bool((self.observed | (self.upper == np.inf)).all())

    @classmethod
    def from_event(cls, y: FloatArray, event: BoolArray | None) -> Bounds:
        return cls(y, y if event is None else np.where(event, y, np.inf))

    def take(self, rows: IntArray) -> Bounds:
        return Bounds(self.lower[rows], self.upper[rows])


def read_event(event: Any, n: int) -> BoolArray | None:
    """Return the mask of observed targets, or None if all targets are observed."""
    if event is None:
        return None
    check_unmasked(event, "event")
    mask = as_array(event, "event")
    if mask.dtype == object and all(isinstance(each, bool | np.bool_) for each in mask.ravel()):
        mask = mask.astype(bool)  # a column of a DataFrame may have the type object
    if mask.dtype != bool:
        raise TypeError(
            f"`event` must be boolean, True for an observed target and False for a censored target, got "
            f"{mask.dtype}. If the values are 1 and 0, pass `event == 1`."
        )
    check_rows(mask, "event", n)
    return None if mask.all() else mask


def require_events(event: BoolArray | None, weight: FloatArray | float = 1.0) -> None:
    """Raise an error if no row of positive weight has an observed target."""
    if event is not None and not (event & (weight > 0)).any():
        raise ValueError(
            f"`event` must be True in at least one row, but all {event.size} targets are censored. Check "
            "that True means observed, or collect data for a longer time."
        )


def read_bounds(y: FloatArray, event: Any = None, lower: Any = None, upper: Any = None) -> Bounds | None:
    """Return the known bounds of each target, or None if all targets are observed."""
    mask = read_event(event, y.size)
    if event is not None and not (lower is None and upper is None):
        raise ValueError(
            "`event` cannot be passed together with `lower` or `upper`. Pass only the bounds, with "
            "`upper=inf` for a right-censored row."
        )
    if mask is not None:
        return Bounds.from_event(y, mask)
    if lower is None and upper is None:
        return None
    bounds = Bounds(
        y if lower is None else _read_column(lower, "lower", y.size),
        y if upper is None else _read_column(upper, "upper", y.size),
    )
    for wrong, condition in (
        (bounds.lower > bounds.upper, "`lower` must not be above `upper`"),
        ((y < bounds.lower) | (y > bounds.upper), "`y` must lie between `lower` and `upper`"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{condition}, got y = {y[row]:g} and the bounds [{bounds.lower[row]:g}, "
                f"{bounds.upper[row]:g}] at row {row}."
            )
    return None if bounds.observed.all() else bounds


def _read_column(values: ArrayLike, name: str, n: int) -> FloatArray:
    return check_no_nan(check_rows(as_float_array(values, name), name, n), name)


def refuse_censoring(owner: str, y: FloatArray, params: Mapping[str, Any]) -> None:
    """Raise an error if targets are censored, because the owner would treat the targets as observed."""
    censoring = given_censoring(params)
    if censoring and read_bounds(y, **censoring) is not None:
        raise ValueError(
            f"`{next(iter(censoring))}` is given, but {owner} would treat censored targets as observed. Use "
            "CensoredBoostingRegressor, CensoringWeightedRegressor, or RecalibratedRegressor with "
            "recalibrator=IsotonicRecalibrator()."
        )


def read_censoring_time(censoring_time: Any, y: FloatArray, event: BoolArray | None) -> FloatArray:
    """Return the censoring times. They equal y in censored rows and are at least y in observed rows."""
    name = "censoring_time"
    ends = _read_column(censoring_time, name, y.size)
    observed = np.ones(y.size, dtype=bool) if event is None else event
    wrong = np.where(observed, ends < y, ends != y)
    if wrong.any():
        row = int(np.argmax(wrong))
        kind = "be at least y for an observed row" if observed[row] else "equal y for a censored row"
        raise ValueError(f"`{name}` must {kind}, got {ends[row]:g} and y = {y[row]:g} at row {row}.")
    return ends


def check_times(values: FloatArray, name: str) -> FloatArray:
    if values.size and values.min() < 0:
        row = int(np.argmin(values))
        raise ValueError(f"`{name}` must hold non-negative times, got {values[row]:g} at row {row}.")
    return values


# -------------------------------------------------------------------------------------------- estimation

_LATER = 1e-4
"""Relative distance of later times from the last time. It exceeds the rounding error of equal times."""


@dataclass(frozen=True, eq=False)
class StepSurvival:
    """Product-limit estimate: the probability that a target exceeds each distinct time."""

    times: FloatArray
    survival: FloatArray
    log_variance: FloatArray
    """Greenwood's variance of the logarithm of the estimate."""

    def after(self, t: FloatArray) -> FloatArray:
        """Return P(T > t)."""
        return self._at(np.searchsorted(self.times, t, side="right"))

    def before(self, t: FloatArray) -> FloatArray:
        """Return P(T >= t)."""
        return self._at(np.searchsorted(self.times, t, side="left"))

    def interval(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Return the pointwise confidence interval after each time, symmetric for log(-log S)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_survival = np.log(self.survival)
            reach = ndtri((1 + confidence) / 2) * np.sqrt(self.log_variance) / np.abs(log_survival)
            low, high = (np.exp(log_survival * np.exp(sign * reach)) for sign in (1, -1))
        certain, unknown = self.survival == 1, self.survival == 0
        return (
            np.where(certain, 1.0, np.where(unknown, 0.0, low)),
            np.where(certain | unknown, 1.0, high),
        )

    def _at(self, passed: Any) -> FloatArray:
        return np.asarray(np.concatenate([[1.0], self.survival])[passed])


def product_limit(
    y: FloatArray, event: BoolArray | None, weight: FloatArray, *, of_censoring: bool = False
) -> StepSurvival:
    """Estimate the survival function of the targets, or of the censoring times."""
    times, place = np.unique(y, return_inverse=True)
    observed = np.ones(y.size, dtype=bool) if event is None else event
    died, left = (
        np.bincount(place.ravel(), weight * mask, minlength=times.size) for mask in (observed, ~observed)
    )
    later = np.concatenate([np.cumsum((died + left)[:0:-1])[::-1], [0.0]])
    # At equal times, events count as earlier, so they are not at risk of being censored.
    ends, at_risk = (left, later + left) if of_censoring else (died, later + left + died)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(ends > 0, ends / at_risk, 0.0)
        variance = np.where(ends > 0, ends / (at_risk * (at_risk - ends)), 0.0)
    return StepSurvival(times, np.cumprod(1 - share), np.cumsum(variance))


def step_masses(times: FloatArray, survival: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the times and masses of the steps of survival functions, shapes (k + 1,) and (..., k + 1).

    The last step is slightly later than the last time and has the probability of all later times.
    """
    later = times[-1] + _LATER * max(float(np.abs(times).max()), np.finfo(float).tiny)
    none = np.zeros((*survival.shape[:-1], 1))
    return np.append(times, later), -np.diff(survival, prepend=none + 1, append=none, axis=-1)


def event_weights(y: FloatArray, event: BoolArray | None, weight: FloatArray) -> FloatArray:
    """Return the weights of the rows divided by the probability of being uncensored, and 0 for censored rows.

    The results are the jumps of the product-limit estimate, multiplied by the sum of all weights.
    """
    censoring = product_limit(y, event, weight, of_censoring=True)
    counted = weight if event is None else weight * event
    return inverse_weights(counted, censoring.before(y))


def inverse_weights(weight: FloatArray, probability: FloatArray) -> FloatArray:
    """Return the weights divided by the probabilities. A weight of 0 remains 0."""
    return np.divide(weight, probability, out=np.zeros(weight.size), where=weight > 0)


_EM_STEPS, _EM_TOLERANCE = 2000, 1e-7


MassFunction = Callable[[FloatArray], FloatArray]
"""Function of the weights of the rows. The sum of the returned masses is the sum of the weights."""


def interval_masses(bounds: Bounds) -> tuple[Bounds, MassFunction]:
    """Return Turnbull's intervals, and a function of the weights that computes their masses.

    The masses are the nonparametric maximum likelihood estimate. Intervals without a finite upper bound are
    left out.
    """
    low, high, first, last = _innermost_intervals(bounds)
    finite = np.flatnonzero(np.isfinite(high))

    def masses(weight: FloatArray) -> FloatArray:
        return _self_consistent(first, last, weight, low.size)[finite]

    return Bounds(low, high).take(finite), masses


def _innermost_intervals(bounds: Bounds) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Return Turnbull's intervals, and the first and the last interval that each row may lie in."""
    n = bounds.lower.size
    values = np.concatenate([bounds.lower, bounds.upper])
    # Equal values are ordered: observed targets, then upper bounds, then (exclusive) lower bounds.
    kind = np.concatenate([np.where(bounds.observed, 0, 2), np.ones(n, dtype=int)])
    order = np.lexsort([kind, values])
    is_left = order < n
    starts = np.flatnonzero(is_left[:-1] & ~is_left[1:])
    low, high = values[order[starts]], values[order[starts + 1]]
    place = np.empty(2 * n, dtype=np.intp)
    place[order] = np.arange(2 * n)
    first = np.searchsorted(starts, place[:n], side="left")
    last = np.searchsorted(starts, place[n:], side="left") - 1
    return low, high, first, last


def _self_consistent(first: IntArray, last: IntArray, weight: FloatArray, n_cells: int) -> FloatArray:
    """Compute the masses of the intervals with the EM algorithm."""
    masses = np.full(n_cells, weight.sum() / n_cells)
    for _ in range(_EM_STEPS):
        reached = np.concatenate([[0.0], np.cumsum(masses)])
        probability = reached[last + 1] - reached[first]
        share = inverse_weights(weight, probability)
        change = np.bincount(first, share, n_cells + 1) - np.bincount(last + 1, share, n_cells + 1)
        before, masses = masses, masses * np.cumsum(change)[:-1]
        masses = np.maximum(masses, 0.0)
        if np.abs(masses - before).max() <= _EM_TOLERANCE * weight.sum():
            break
    return masses
