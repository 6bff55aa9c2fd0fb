"""The record of a metric, and the registry of all records.

A metric enters the registry by the decorator on its public function. Scorers, law tests, reports,
tables and axis labels read the record, so that nothing about a metric is written down twice.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._warnings import warn_user
from skuq.exceptions import SmallSampleWarning

MetricFunction = Callable[..., float]
WeightFunction = Callable[[FloatArray | None], float]
"""A metric of given targets and forecasts, as a function of the weights of the rows."""

RowValues = FloatArray | tuple[FloatArray, ...]
"""One or several numbers for each row, arrays of shape (n,)."""


@dataclass(frozen=True, eq=False)
class OrderedWeights:
    """A metric as a function of weights in an order of its own.

    Parameters
    ----------
    order : ndarray of shape (n,)
        The rows in that order.
    of_ordered : callable
        The metric as a function of the weights in that order, or None.
    """

    order: IntArray
    of_ordered: WeightFunction

    def __call__(self, weight: FloatArray | None) -> float:
        """Return the metric of weights in the order of the rows."""
        return self.of_ordered(None if weight is None else weight[self.order])


P = ParamSpec("P")

SMALL_SAMPLE = 500
"""Rows below which Wibbeke et al. (2025), section 4.5, find calibration metrics unreliable."""

_NOT_OPTIONS = ("y_true", "y_pred", "X", "sample_weight", "labels")

SMALL_REPORT = 50
"""Rows below which intervals of a report are too narrow.

In 150 simulations each, 95 % intervals of coverage, CRPS and interval score covered .37, .79 and .35 with 5
rows, .86, .91 and .77 with 20, and .95, .93 and .93 with 50.
"""


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """Properties of a metric, its definition and its functions.

    Parameters
    ----------
    abbreviation : str
        Short name in the literature's use; the scorer's name is built on it.
    title : str
        Name for tables and axis labels.
    units : int or "log"
        Exponent of the units of y at the default options: under ``y -> c y`` the metric is
        multiplied by ``c ** units``, or gains ``log(c)``.
    direction : {"lower", "higher"} or None
        Whether lower or higher is better; None for a descriptive number.
    optimum : float, str or None
        Value of the best possible forecast; a string names the option with this value.
    bounds : (float, float)
        Smallest and largest value that the metric can have, with any options.
    needs : {"distribution", "density", "interval", "moments", "proba", "set"}
        Required property of the forecast. Interval metrics also accept bounds. The last two are forecasts of
        classes, with the argument ``labels``: probabilities, or sets, which may be given as probabilities.
    proper : bool
        Whether the true distribution has the best expected value among all forecasts.
    random : bool
        Whether the metric draws random numbers.
    needs_X : bool
        Whether the function also takes the features of the rows, as ``function(y_true, y_pred, X)``. Reports
        and resampling have targets and forecasts alone, and leave such metrics out.
    small_sample : bool
        Whether the function warns below `SMALL_SAMPLE` rows.
    one_of : tuple of str
        Options without a usable default, exactly one of which must be given.
    source : str
        Reference of the definition.
    rows : callable or None
        ``rows(y, forecast, **options)`` of checked targets and forecasts: values per row, of shape (n,),
        a tuple of such arrays or a sparse array of shape (n, c), where the metric is their mean, or `combine`
        of their means. The public function computes its value from them, and resampling takes their means
        with other weights. It returns None for options with which the metric is no such mean.
    combine : callable or None
        ``combine(means, **options)``: the metric from means of shape (..., c), or (...) of one column.
    of_weights : callable or None
        ``of_weights(y, forecast, **options)`` of checked targets and forecasts: the metric as a function of
        weights, zeros among them; what does not depend on the weights is computed once. For metrics that are
        not a function of means.
    of_uniform : callable or None
        ``of_uniform(entry, **options)``: the metric of a calibrated forecast with a density, where it depends
        on the PIT values alone. ``entry`` are sorted uniform numbers, one a row: the levels at which
        quantiles, or central intervals, cover their targets.
    calibrated : callable or None
        ``calibrated(n, **options)``: expected value for a perfectly calibrated forecast of n rows, where a
        formula is known.
    meaning : str
        Meaning of a value in plain words, with ``{value}`` for the number; the report adds the comparison.
    function : callable
        The public function.
    compute : callable
        The same without the small-sample warning, for scorers.
    """

    abbreviation: str
    title: str
    units: int | Literal["log"]
    direction: Literal["lower", "higher"] | None
    optimum: float | str | None
    needs: Literal["distribution", "density", "interval", "moments", "proba", "set"]
    proper: bool
    source: str
    bounds: tuple[float, float] = (-np.inf, np.inf)
    random: bool = False
    needs_X: bool = False
    small_sample: bool = False
    one_of: tuple[str, ...] = ()
    rows: Callable[..., RowValues | None] | None = None
    combine: Callable[..., FloatArray] | None = None
    of_weights: Callable[..., WeightFunction] | None = None
    of_uniform: Callable[..., float] | None = None
    calibrated: Callable[..., float] | None = None
    meaning: str = ""
    function: MetricFunction
    compute: MetricFunction

    @property
    def scorer_name(self) -> str:
        """Name in the vocabulary of scorers: losses carry the prefix ``neg_``."""
        return f"neg_{self.abbreviation}" if self.direction == "lower" else self.abbreviation

    @property
    def of_classes(self) -> bool:
        """Whether the target is a class, and the forecast an array with one column a class."""
        return self.needs in ("proba", "set")

    @property
    def options(self) -> dict[str, Any]:
        """Options of the function with their defaults; ``inspect.Parameter.empty`` marks a required one."""
        parameters = inspect.signature(self.function).parameters
        return {name: item.default for name, item in parameters.items() if name not in _NOT_OPTIONS}

    @property
    def required_options(self) -> tuple[str, ...]:
        """Options without a default; a metric that has some comes without a ready-made scorer."""
        return tuple(name for name, value in self.options.items() if value is inspect.Parameter.empty)

    @property
    def ready_made(self) -> bool:
        """Whether the metric can be computed without any option."""
        return not self.required_options and not self.one_of

    @property
    def label(self) -> str:
        """Title with units, for an axis."""
        if self.units in (0, "log"):
            return self.title
        return f"{self.title} (units of y)" if self.units == 1 else f"{self.title} (units of y^{self.units})"


_SPECS: dict[str, MetricSpec] = {}
_ABBREVIATIONS: dict[object, str] = {}


def metric(
    abbreviation: str, *, small_sample: bool = False, **record: Any
) -> Callable[[Callable[P, float]], Callable[P, float]]:
    """Register the decorated public function under its record.

    Parameters
    ----------
    abbreviation : str
        Key of the registry.
    small_sample : bool, default=False
        Whether the function warns of few rows.
    **record
        The other fields of `MetricSpec`.

    Returns
    -------
    decorator : callable
        Returns the function, wrapped only where it warns of few rows.
    """

    def register(compute: Callable[P, float]) -> Callable[P, float]:
        function = _with_small_sample_warning(compute) if small_sample else compute
        _SPECS[abbreviation] = MetricSpec(
            abbreviation=abbreviation, small_sample=small_sample, function=function, compute=compute, **record
        )
        _ABBREVIATIONS[function] = abbreviation
        return function

    return register


def all_specs() -> dict[str, MetricSpec]:
    """Return the records by abbreviation, in the order of definition."""
    return dict(_SPECS)


def find_spec(metric: object) -> MetricSpec | None:
    """Return the record of a metric given by function, abbreviation or scorer name, or None."""
    if not isinstance(metric, str):
        try:
            name = _ABBREVIATIONS.get(metric)
        except TypeError:  # an unhashable object is no metric of skuq
            return None
        return None if name is None else _SPECS[name]
    return _SPECS.get(metric) or _SPECS.get(metric.removeprefix("neg_"))


def _with_small_sample_warning(compute: Callable[P, float]) -> Callable[P, float]:
    """Return the function with a warning when it is given fewer than `SMALL_SAMPLE` rows."""

    @functools.wraps(compute)
    def function(*args: P.args, **kwargs: P.kwargs) -> float:
        value = compute(*args, **kwargs)
        y_true: Any = args[0] if args else kwargs["y_true"]
        weight: Any = kwargs.get("sample_weight")
        _warn_if_small(function.__name__, y_true, weight)
        return value

    return function


def warn_of_small_report(rows: float) -> None:
    """Warn if a report is of few rows or repetitions."""
    if rows < SMALL_REPORT:
        warn_user(
            f"the report is of {rows:g} rows. Below {SMALL_REPORT}, its intervals are too narrow, and its "
            "values say little about other rows. Report more rows, such as all rows out of fold.",
            SmallSampleWarning,
        )


def _warn_if_small(name: str, y_true: ArrayLike, sample_weight: ArrayLike | None) -> None:
    """Warn if the rows, or the repetitions that their weights stand for, are few."""
    rows = float(np.shape(y_true)[0])
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=float)
        rows = max(float(np.count_nonzero(weight)), float(weight.sum()))
    if rows < SMALL_SAMPLE:
        warn_user(
            f"`{name}` was given {rows:g} rows. Below {SMALL_SAMPLE}, chance alone moves a calibration "
            "metric as much as miscalibration does (Wibbeke et al. 2025, section 4.5): compare models by "
            "`crps_loss`, or read the value beside that of a calibrated forecast of the same size.",
            SmallSampleWarning,
        )
