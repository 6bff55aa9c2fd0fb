"""The record of a metric and the registry of all records.

The decorator `metric` registers a public function with its record. Scorers, tests, reports, tables and axis
labels use the record, so that each property of a metric is defined once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, NamedTuple, ParamSpec

import numpy as np
from scipy import sparse

from skuq._compat import warn_user
from skuq._numeric import standard_deviation, weighted, weighted_sum
from skuq._typing import FloatArray, IntArray
from skuq._validation import repeated_rows
from skuq.exceptions import SmallSampleWarning
from skuq.metrics._kernels import BinIndex

MetricFunction = Callable[..., float]
WeightFunction = Callable[[Any], Any]
"""Metric of fixed targets and forecasts as a function of the weights of the rows.

Weights of shape (..., n), which may be 0, give values of shape (...).
"""

Computation = Callable[[Any, Any], WeightFunction]
"""Function of checked targets and forecasts that returns a `WeightFunction`."""


def first_column(means: FloatArray) -> FloatArray:
    return np.asarray(means[..., 0])


@dataclass(eq=False)
class Means:
    """Computation of a metric that is a function of means over the rows.

    Parameters
    ----------
    rows : callable
        ``rows(y, forecast)`` returns one value per row, shape (n,), a tuple of such arrays, or a sparse array
        of shape (n, c).
    combine : callable
        ``combine(means)`` returns the metric, shape (...), from means of shape (..., c). With `spread`, it is
        ``combine(means, spread)``. Without ``combine``, the metric is the mean of ``rows``, and accumulators
        give its standard error.
    spread : {"range", "std", "total"} or None
        Statistic that the metric needs besides the means: range or standard deviation of the targets, or
        total weight of the rows.
    calibrated : callable or None
        ``calibrated(means, n)`` returns the expected value for a calibrated forecast of n rows, if it depends
        on the means. Only accumulators use it. Reports draw targets or use ``MetricSpec.calibrated``.
    cells : ndarray of shape (c,) or None
        Probability of each column for a calibrated forecast with a density, if each row of ``rows`` has a
        single 1.
    """

    rows: Callable[[Any, Any], Any]
    combine: Callable[..., FloatArray] = first_column
    spread: Literal["range", "std", "total"] | None = None
    calibrated: Callable[[FloatArray, float], float] | None = None
    cells: FloatArray | None = None

    def __call__(self, y: Any, forecast: Any) -> MeansOf:
        values = self.rows(y, forecast)
        parts = values if type(values) is tuple else (values,)
        return MeansOf(parts, self.combine, None if self.spread is None else Spread(y, self.spread))


class Binned(NamedTuple):
    """Columns of which one holds the value of a row, the column of its bin. The other columns hold 0."""

    place: BinIndex
    size: int
    values: FloatArray | None = None  # ones

    def sums(self, weights: FloatArray | None) -> FloatArray:
        if weights is not None and weights.ndim == 2:
            return np.array([self.sums(weight) for weight in weights])
        values = weights if self.values is None else weighted(self.values, weights)
        return np.asarray(np.bincount(self.place, values, self.size), dtype=np.float64)

    def matrix(self) -> Any:
        n = self.place.size
        values = np.ones(n) if self.values is None else self.values
        return sparse.csr_array((values, self.place, np.arange(n + 1)), shape=(n, self.size))


def column_sums(parts: tuple[Any, ...], weights: FloatArray | None) -> FloatArray:
    """Return the weighted sums of all columns, shape (..., c). Without weights, the weights are ones."""
    sums = [_sums(part, weights) for part in parts]
    return sums[0] if len(sums) == 1 else np.concatenate(sums, axis=-1)


def _sums(part: Any, weights: FloatArray | None) -> FloatArray:
    if isinstance(part, Binned):
        return part.sums(weights)
    if not isinstance(part, np.ndarray):
        return np.asarray(part.sum(axis=0) if weights is None else weights @ part)
    if weights is None or weights.ndim == 1:
        return np.array([weighted_sum(part, weights)])
    with np.errstate(invalid="ignore"):
        total = weights @ part
    if np.isnan(total).any():  # the product of weight 0 and an infinite value
        total = np.array([weighted_sum(part, weight) for weight in weights])
    return np.asarray(total[:, np.newaxis])


@dataclass(eq=False)
class Spread:
    """Statistic of the targets with positive weight besides means, as a function of the weights."""

    y: FloatArray
    kind: str

    def __call__(self, weights: FloatArray | None) -> FloatArray:
        if self.kind == "total":
            return np.asarray(float(self.y.size) if weights is None else weights.sum(axis=-1))
        if weights is None or weights.ndim == 1:
            if self.kind == "std":
                return np.asarray(standard_deviation(self.y, weights))
            y = self.y if weights is None or weights.min() > 0 else self.y[weights > 0]
            return np.asarray(y.max() - y.min())
        if self.kind == "std":
            return np.array([standard_deviation(self.y, weight) for weight in weights])
        return np.asarray(self._first(weights, self._order[::-1]) - self._first(weights, self._order))

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self.y)

    def _first(self, weights: FloatArray, order: IntArray) -> FloatArray:
        """Return the first target in this order with a positive weight. It is probably among the first 64."""
        size = 64
        while not (counted := weights[:, order[:size]] > 0).any(axis=1).all() and size < order.size:
            size *= 8
        return np.asarray(self.y[order[counted.argmax(axis=1)]])


@dataclass(eq=False)
class MeansOf:
    """Metric as a function of the weights of the rows, computed from weighted means of columns.

    Each part of the columns is an array of shape (n,), a sparse array or `Binned`.
    """

    parts: tuple[Any, ...]
    combine: Callable[..., FloatArray]
    spread: Spread | None

    @cached_property
    def columns(self) -> Any:
        """Return the columns as an array of shape (n, c), which may be sparse."""
        if all(isinstance(part, np.ndarray) for part in self.parts):
            return np.column_stack(self.parts)
        return sparse.hstack(
            [part.matrix() if isinstance(part, Binned) else part for part in self.parts], format="csr"
        )

    def __call__(self, weights: FloatArray | None) -> FloatArray:
        """Return the metric, shape (...). Without weights, the weights are ones."""
        first = self.parts[0]
        n = (first.place if isinstance(first, Binned) else first).shape[0]
        means = column_sums(self.parts, weights) / (
            n if weights is None else weights.sum(axis=-1, keepdims=True)
        )
        return self.combine(means) if self.spread is None else self.combine(means, self.spread(weights))


def one_by_one(of_weight: Callable[[FloatArray], Any]) -> WeightFunction:
    """Return a function of weights of shape (..., n) from a function of weights of shape (n,)."""

    def of_weights(weights: FloatArray) -> Any:
        return of_weight(weights) if weights.ndim == 1 else np.array([of_weight(each) for each in weights])

    return of_weights


def value_of(computation: Computation, y: Any, forecast: Any, weight: FloatArray | None) -> float:
    of = computation(y, forecast)
    if weight is None and not isinstance(of, MeansOf):  # Means of rows do not need an array of ones.
        weight = np.ones(len(forecast))
    return float(of(weight))


P = ParamSpec("P")

SMALL_SAMPLE = 500
"""Calibration metrics are reliable for this number of rows or more (Wibbeke et al. 2025, section 4.5)."""

_NOT_OPTIONS = ("y_true", "y_pred", "X", "sample_weight", "labels", "event")
_BOUNDS = ("lower", "upper")
"""Bounds of each row if their default is None, and options otherwise."""

SMALL_REPORT = 50
"""The confidence intervals of a report are reliable for this number of rows or more.

In 150 simulations, the 95 % confidence intervals of the coverage, the CRPS and the interval score contained
the true value in the following shares: .37, .79 and .35 with 5 rows; .86, .91 and .77 with 20 rows; .95, .93
and .93 with 50 rows.
"""


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """Properties of a metric, its definition and its functions.

    Parameters
    ----------
    abbreviation, title : str
        Short name and long name. The short name is part of the name of the scorer. The long name is shown in
        tables and axis labels.
    units : int or "log"
        Exponent of the units of y. If all y are multiplied by c, the metric with default options is
        multiplied by ``c ** units``. For "log", log(c) is added to the metric.
    direction : {"lower", "higher"} or None
        Better direction. None for a descriptive number.
    optimum : float, str or None
        Value of the best possible forecast. A string is the name of the option that has this value, which
        must be a coverage: reports then compare the share of covered targets with it.
    optimum_of_sets : str or None
        For forecasts that are sets instead of probabilities: name of the option that has the value of the
        best possible sets.
    needs : {"distribution", "density", "interval", "moments", "proba", "set", "joint"}
        Type of forecast that the metric requires. Metrics of intervals also accept bounds. Metrics with
        "proba" and "set" evaluate forecasts of classes and have the argument ``labels``. Metrics of sets also
        accept probabilities. Metrics with "joint" evaluate joint distributions of several targets.
    proper : bool
        Whether the true distribution has the best expected value among all forecasts.
    bounds : (float, float)
        Smallest and largest value of the metric with any options.
    meaning : str
        Sentence that explains a value, with ``{value}`` in place of the number, or with ``{percent}``.
        Reports then show the metric in percent.
    one_of : tuple of str
        Options without a usable default. Exactly one of them must be given.
    any_of : tuple of str
        Options that define the purpose of the metric. A scorer needs at least one of these options, and a
        report contains the metric only if the user requests it.
    kernel : callable or None
        ``kernel(**options)`` checks the options and returns how the metric is computed: `Means`, or a
        function of targets and forecasts that returns a function of the weights. The kernels of metrics with
        X and of metrics of several targets only check the options.
    of_pit : callable or None
        For metrics that depend only on the PIT values if the forecasts have a density: function of the levels
        from which rows are covered, of shape (n,), that returns a function of the weights. For a calibrated
        forecast, these levels are uniform. Not needed with ``Means.cells``.
    of_many_targets : bool
        Whether the function of targets and forecasts also takes targets of shape (b, n). The function of the
        weights then returns b values.
    blocks : {"std", "std_levels", "levels", "characteristics"} or None
        Statistic of blocks of rows from which accumulators compute a metric that is not `Means`. "std": bins
        of rows with similar standard deviations. "std_levels": these bins, divided by the first level that
        covers the target. "levels": calibration curve in place of ``levels=None``. "characteristics":
        uncertainty characteristics curve.
    calibrated : callable or None
        ``calibrated(n, **options)`` returns the expected value for a calibrated forecast of n rows, if a
        formula is known.
    crps_part : {"miscalibration", "discrimination", "uncertainty"} or None
        Part of the CRPS that the metric measures. Reports compute all parts together. Reports omit the
        confidence intervals of the parts, because repeated rows of a resample increase the parts.
    """

    abbreviation: str
    title: str
    needs: Literal["distribution", "density", "interval", "moments", "proba", "set", "joint"]
    source: str
    function: MetricFunction
    units: int | Literal["log"] = 0
    direction: Literal["lower", "higher"] | None = None
    optimum: float | str | None = None
    proper: bool = False
    bounds: tuple[float, float] = (-np.inf, np.inf)
    meaning: str = ""
    one_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    kernel: Callable[..., Any] | None = None
    of_pit: Callable[[FloatArray], WeightFunction] | None = None
    of_many_targets: bool = False
    blocks: str | None = None
    calibrated: Callable[..., float] | None = None
    optimum_of_sets: str | None = None
    crps_part: str | None = None

    @cached_property
    def compute(self) -> MetricFunction:
        compute: MetricFunction = getattr(self.function, "__wrapped__", self.function)
        return compute

    def computation(self, options: Mapping[str, Any]) -> Computation:
        """Return how the metric is computed with these options. Raise an error for invalid options."""
        if self.kernel is not None:
            computation: Computation = self.kernel(**{**self.options, **options})
            return computation
        return lambda y, forecast: one_by_one(
            lambda weight: self.compute(y, forecast, sample_weight=weight, **options)
        )

    @property
    def small_sample(self) -> bool:
        """Return whether the function warns below `SMALL_SAMPLE` rows."""
        return self.compute is not self.function

    @cached_property
    def needs_X(self) -> bool:
        """Return whether the function takes the features. Reports and resampling omit such metrics."""
        return "X" in inspect.signature(self.function).parameters

    @cached_property
    def random(self) -> bool:
        return "random_state" in self.options

    @cached_property
    def scorer_name(self) -> str:
        """Return the name of the scorer. Losses have the prefix ``neg_``."""
        return f"neg_{self.abbreviation}" if self.direction == "lower" else self.abbreviation

    @cached_property
    def of_classes(self) -> bool:
        return self.needs in ("proba", "set")

    @cached_property
    def of_targets(self) -> bool:
        """Return whether the forecast is a joint distribution of several targets."""
        return self.needs == "joint"

    @cached_property
    def options(self) -> dict[str, Any]:
        """Return the options of the function and their defaults.

        A required option has the default ``inspect.Parameter.empty``.
        """
        parameters = inspect.signature(self.function).parameters
        return {
            name: item.default
            for name, item in parameters.items()
            if name not in _NOT_OPTIONS and not (name in _BOUNDS and item.default is None)
        }

    @property
    def definition(self) -> str:
        """Return the first sentence of the function's docstring as a noun phrase."""
        summary = (self.compute.__doc__ or "").strip().partition("\n")[0].removeprefix("Return ")
        return summary[:1].upper() + summary[1:]

    @cached_property
    def required_options(self) -> tuple[str, ...]:
        """Return the options without a default. Metrics with such options have no predefined scorer."""
        return tuple(name for name, value in self.options.items() if value is inspect.Parameter.empty)

    @cached_property
    def ready_made(self) -> bool:
        """Return whether the metric is useful without options."""
        return not (self.required_options or self.one_of or self.any_of)

    @property
    def label(self) -> str:
        if self.units in (0, "log"):
            return self.title
        return f"{self.title} (units of y)" if self.units == 1 else f"{self.title} (units of y^{self.units})"


ORDER = (
    "mace",
    "rmsce",
    "agce",
    "miscal_area",
    "cals",
    "ecpe",
    "ert",
    "picp",
    "interval_coverage_error",
    "mpiw",
    "ece",
    "ence",
    "uce",
    "nmpiw",
    "cwc",
    "set_coverage",
    "set_size",
    "set_coverage_error",
    "class_log_loss",
    "class_brier",
    "crps",
    "crps_miscalibration",
    "crps_discrimination",
    "crps_uncertainty",
    "nll",
    "qce",
    "pinball",
    "interval_score",
    "wis",
    "twcrps",
    "qwcrps",
    "twnll",
    "sharpness",
    "crpss",
    "msll",
    "miss_rate",
    "bandwidth",
    "excess",
    "deficit",
    "auucc",
    "auucc_gain",
    "wsc",
    "energy_score",
    "variogram_score",
    "mean_crps",
    "linear_crps",
    "dawid_sebastiani",
)
"""Order of the metrics of skuq in reports and tables. Metrics of users follow in the order of definition."""

OF_ROOMS = {
    "neg_energy_score": "skuq.multivariate",
    "neg_variogram_score": "skuq.multivariate",
    "neg_mean_crps": "skuq.multivariate",
    "neg_linear_crps": "skuq.multivariate",
    "neg_dawid_sebastiani": "skuq.multivariate",
}
"""Predefined scorers of rooms above the metrics. A room is imported when one of its names is used."""

_SPECS: dict[str, MetricSpec] = {}
_ABBREVIATIONS: dict[object, str] = {}


def metric(
    abbreviation: str, *, small_sample: bool = False, **record: Any
) -> Callable[[Callable[P, float]], Callable[P, float]]:
    """Register a public function with its record; `small_sample` adds a warning about few rows."""

    def register(compute: Callable[P, float]) -> Callable[P, float]:
        function = _with_small_sample_warning(compute) if small_sample else compute
        _SPECS[abbreviation] = MetricSpec(abbreviation=abbreviation, function=function, **record)
        _ABBREVIATIONS[function] = abbreviation
        return function

    return register


def all_specs(*, rooms: bool = False) -> dict[str, MetricSpec]:
    """Return the records by abbreviation. `rooms` includes the metrics of other rooms, which it imports."""
    for room in set(OF_ROOMS.values()) if rooms else ():
        import_module(room)
    listed = [name for name in ORDER if name in _SPECS]
    specs = [_SPECS[name] for name in dict.fromkeys((*listed, *_SPECS))]
    return {spec.abbreviation: spec for spec in specs if rooms or spec.scorer_name not in OF_ROOMS}


def find_spec(metric: object) -> MetricSpec | None:
    if not isinstance(metric, str):
        try:
            name = _ABBREVIATIONS.get(metric)
        except TypeError:  # An unhashable object is not a metric of skuq.
            return None
        return None if name is None else _SPECS[name]
    if room := OF_ROOMS.get(f"neg_{metric.removeprefix('neg_')}"):
        import_module(room)
    return _SPECS.get(metric) or _SPECS.get(metric.removeprefix("neg_"))


def _with_small_sample_warning(compute: Callable[P, float]) -> Callable[P, float]:

    @functools.wraps(compute)
    def function(*args: P.args, **kwargs: P.kwargs) -> float:
        value = compute(*args, **kwargs)
        y_true: Any = args[0] if args else kwargs["y_true"]
        weight: Any = kwargs.get("sample_weight")
        weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        rows = repeated_rows(weight, np.shape(y_true)[0])
        if rows < SMALL_SAMPLE:
            warn_user(
                f"`{function.__name__}` was computed from {rows:g} rows. With fewer than {SMALL_SAMPLE} "
                "rows, calibration metrics vary as much by chance as by miscalibration (Wibbeke et al. 2025, "
                "section 4.5). Compare models by `crps_loss`, or compare the value with the value of a "
                "calibrated forecast with the same number of rows.",
                SmallSampleWarning,
            )
        return value

    return function


def warn_of_small_report(rows: float) -> None:
    if rows < SMALL_REPORT:
        warn_user(
            f"the report has {rows:g} rows. With fewer than {SMALL_REPORT} rows, its confidence intervals "
            "are too narrow, and its values are imprecise. Use more rows, for example the out-of-fold "
            "predictions of all rows.",
            SmallSampleWarning,
        )
