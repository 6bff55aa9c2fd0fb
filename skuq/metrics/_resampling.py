"""Evaluating one metric on many reweighted versions of the same rows, in bounded memory.

Weights count repetitions, so a bootstrap sample, a left-out block and a swap of models are all a matter of
weights, and every metric can be resampled by its definition alone. Metrics that are a
function of means per row take a matrix product instead.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    as_float_array,
    check_mapping,
    check_random_state,
    check_sample_weight,
    check_target,
    effective_rows,
)
from skuq.distributions import Distribution, as_distribution, concat
from skuq.metrics._class_inputs import check_class_forecast, check_labels
from skuq.metrics._inputs import is_bounds
from skuq.metrics._make_scorer import check_options, require_spec
from skuq.metrics._scorer import MetricScorer
from skuq.metrics._spec import MetricFunction, MetricSpec, OrderedWeights, WeightFunction, find_spec

BLOCK = 2**21
"""Numbers in a matrix of resampled weights at a time: 16 MB."""

MOST_UNITS = 50_000
"""Rows up to which they are drawn one by one, and the number of groups of rows that are drawn above it.

The variance of the resamples errs by a share of about sqrt(2 / number of groups), less than 1 %, and that of
1000 resamples, of whichever kind, by 4 %.
"""

MOST_BLOCKS, FEWER_BLOCKS = 200, 50
"""Blocks left out in turn to estimate an acceleration; fewer of many rows, where it is close to 0."""


class Rows:
    """The rows with positive weight: targets, weights, and the number of repetitions."""

    y: Any  # numbers, or the columns of classes

    def __init__(self, y_true: ArrayLike, sample_weight: ArrayLike | None) -> None:
        y = check_target(y_true)
        self.given = y.size
        weight = check_sample_weight(sample_weight, y.size)
        self.keep: IntArray | None = None
        if weight is not None and weight.min() == 0:
            self.keep = np.flatnonzero(weight)
            y, weight = y[self.keep], weight[self.keep]
        self.y = y
        self.weight = weight
        self.total = effective_rows(weight, y.size)

    def __len__(self) -> int:
        return len(self.y)

    def ordered_by(self, key: FloatArray) -> Rows:
        """Return the same rows by increasing key, of shape (n,)."""
        ordered, order = copy.copy(self), np.argsort(key, kind="stable")
        ordered.keep = order if self.keep is None else self.keep[order]
        ordered.y = self.y[order]
        ordered.weight = None if self.weight is None else self.weight[order]
        return ordered

    @property
    def repetitions(self) -> FloatArray:
        """Weights, ones where none were given."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def of(self, y_pred: Any) -> Any:
        """Return the forecast of these rows: a Distribution, or bounds."""
        forecast = as_float_array(y_pred, "y_pred") if is_bounds(y_pred) else as_distribution(y_pred)
        if forecast.shape[:1] != (self.given,):
            raise ValueError(f"`y_pred` must have {self.given} rows, one per sample, got {forecast.shape}.")
        return forecast if self.keep is None else forecast[self.keep]


class RowsOfClasses(Rows):
    """The same of targets that are classes: their columns in the forecasts, or -1."""

    def __init__(
        self, y_true: ArrayLike, labels: ArrayLike | None, n_classes: int, sample_weight: ArrayLike | None
    ) -> None:
        codes, self.labels = check_labels(y_true, labels, n_classes)
        super().__init__(codes, sample_weight)
        self.y = codes if self.keep is None else codes[self.keep]

    def of(self, y_pred: Any) -> Any:
        """Return the forecast of these rows: probabilities, or sets."""
        forecast = check_class_forecast(y_pred, (self.given, self.labels.size))
        return forecast if self.keep is None else forecast[self.keep]


class Evaluation:
    """A metric of one forecast, ready to be computed for any weights of its rows.

    Parameters
    ----------
    metric : MetricSpec or callable
        What to compute.
    options : mapping
        Its options. A forecast of all rows among them, such as a reference, is reduced to `rows`.
    rows : Rows
        Targets and weights.
    forecast : Distribution or ndarray of shape (n, 2)
        Forecast of these rows.
    """

    def __init__(
        self, metric: MetricSpec | MetricFunction, options: Mapping[str, Any], rows: Rows, forecast: Any
    ) -> None:
        self.metric, self.rows, self.forecast = metric, rows, forecast
        self.options = dict(options) if rows.keep is None else picked_options(options, rows.keep, rows.given)

    @cached_property
    def columns(self) -> Any:
        """Values per row, dense or sparse of shape (n, c), whose means determine the metric, or None."""
        if not isinstance(self.metric, MetricSpec) or self.metric.rows is None:
            return None
        values = self.metric.rows(self.rows.y, self.forecast, **self.options)
        if values is None or is_sparse(values):
            return values
        columns = np.column_stack(values) if isinstance(values, tuple) else values[:, np.newaxis]
        return columns if np.isfinite(columns).all() else None

    @cached_property
    def of_weight(self) -> WeightFunction:
        """The metric as a function of one weight for each row."""
        if isinstance(self.metric, MetricSpec) and self.metric.of_weights is not None:
            return self.metric.of_weights(self.rows.y, self.forecast, **self.options)
        return lambda weight: self.of_rows(self.rows.y, self.forecast, weight)

    def of_means(self, means: FloatArray) -> FloatArray:
        """Return the metric for means of the columns, shape (b, c)."""
        if means.shape[-1] == 1:
            means = means[..., 0]
        combine = self.metric.combine if isinstance(self.metric, MetricSpec) else None
        return means if combine is None else np.asarray(combine(means, **self.options))

    @cached_property
    def cells(self) -> FloatArray | None:
        """Share of the rows in each of c cells, shape (c,), if columns indicate the cell of a row, else None.

        The counts of a resample are then multinomial, and no row needs to be drawn.
        """
        columns, weight = self.columns, self.rows.repetitions
        if not is_sparse(columns) or columns.nnz > len(self.rows) or not (columns.data == 1).all():
            return None
        share = np.asarray(weight @ columns)
        # The sum of the weights, added in another order, may be smaller by rounding: shares must add up to 1.
        return np.asarray(share / share.sum())

    def of_drawn(self, group: IntArray | None) -> Callable[[FloatArray], FloatArray]:
        """Return the metric, by its means, as a function of b sets of weights of rows or groups of rows."""
        columns, size = self.columns, np.ones(len(self.rows))
        if group is not None:
            columns, size = group_sums(columns, group), np.bincount(group).astype(np.float64)
        return lambda weights: self.of_means(weights @ columns / (weights @ size)[:, np.newaxis])

    def value(self) -> float:
        """Return the metric of the rows as they are."""
        return self.of_rows(self.rows.y, self.forecast, self.rows.weight)

    def of_rows(
        self, y: FloatArray, forecast: Any, weight: FloatArray | None, pick: IntArray | None = None
    ) -> float:
        """Return the metric of any rows; `pick` are their positions unless they are all, in order."""
        compute = self.metric.compute if isinstance(self.metric, MetricSpec) else self.metric
        options = self.options if pick is None else picked_options(self.options, pick, len(self.rows))
        if isinstance(self.rows, RowsOfClasses):  # whose targets are columns
            options = {**options, "labels": np.arange(self.rows.labels.size)}
        return float(compute(y, forecast, sample_weight=weight, **options))

    def acceleration(self, rng: np.random.RandomState) -> float:
        """Return the acceleration constant of the BCa interval, from values with rows left out.

        Every repetition of a row is left out in turn where means of few columns determine the metric, else
        one of at most 200 random blocks of rows. Of a metric that draws random numbers these values would
        differ by chance above all: its acceleration is 0.
        """
        weight, n = self.rows.repetitions, len(self.rows)
        if isinstance(self.metric, MetricSpec) and self.metric.random:
            return 0.0
        if self.columns is not None and not is_sparse(self.columns):
            if self.rows.total <= 1:
                return 0.0
            means = (weight @ self.columns - self.columns) / (self.rows.total - 1)
            return _skewness_of_influence(self.of_means(means), weight)
        blocks = min(MOST_BLOCKS if n <= MOST_UNITS else FEWER_BLOCKS, n)
        if blocks < 2:
            return 0.0
        block = rng.permutation(n) % blocks
        if self.columns is None:
            values = np.array([self.of_weight(np.where(block == b, 0.0, weight)) for b in range(blocks)])
        else:
            rest = weight @ self.columns - group_sums(self.columns, block, weight).toarray()
            total = weight.sum() - np.bincount(block, weight)
            values = self.of_means(rest / total[:, np.newaxis])
        return _skewness_of_influence(values, np.ones(blocks))


def evaluations(
    metric: Any,
    options: Mapping[str, Any] | None,
    rows: Rows,
    forecasts: list[Any],
    rng: np.random.RandomState,
) -> list[Evaluation]:
    """Return the metric of each forecast; one that draws random numbers draws the same for all."""
    if isinstance(metric, MetricScorer):
        raise TypeError(
            f"`metric` must be a metric, got the scorer {metric!r}. Pass its name, {metric.__name__!r}, with "
            "what it binds as `options`."
        )
    definition = require_spec(metric) if isinstance(metric, str) else find_spec(metric) or metric
    settings = check_mapping(options, "options")
    if isinstance(definition, MetricSpec):
        check_options(definition, settings)
        if definition.needs_X:
            raise ValueError(
                "`metric` must be of targets and forecasts alone, whose rows are resampled, got "
                f"{definition.abbreviation!r}, with X. Call `{definition.function.__name__}` itself."
            )
        if definition.of_classes:
            raise ValueError(
                f"`metric` must be of distributions or intervals, got {definition.abbreviation!r}, of "
                "classes. `uncertainty_report` resamples it."
            )
        if definition.random:  # one number for the value and all resamples, and for all models
            settings["random_state"] = seed_of(settings, rng)
    elif not callable(definition):
        raise TypeError(f"`metric` must be a name or a function, got {type(metric).__name__}.")
    else:
        _check_takes_weights(definition)
    return [Evaluation(definition, settings, rows, forecast) for forecast in forecasts]


def seed_of(options: Mapping[str, Any], rng: np.random.RandomState) -> int:
    """Return the seed among the options of a metric, or one that is drawn where they hold none."""
    given = options.get("random_state")
    if isinstance(given, int | np.integer):
        return int(given)
    return int(check_random_state(rng if given is None else given).randint(2**31 - 1))


def _check_takes_weights(metric: Any) -> None:
    """Raise for a function without the weights by which rows are resampled."""
    try:
        parameters = inspect.signature(metric).parameters.values()
    except ValueError:  # some callables of compiled code show no signature
        return
    named = {each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY}
    if "sample_weight" not in named and not any(each.kind is each.VAR_KEYWORD for each in parameters):
        name = getattr(metric, "__name__", repr(metric))
        raise TypeError(
            f"`metric` must take the keyword `sample_weight`, but {name} does not: rows are resampled by "
            "weights that count their repetitions. Define it as "
            "`metric(y_true, y_pred, *, sample_weight=None)`."
        )


def picked_options(options: Mapping[str, Any], pick: IntArray, n: int) -> dict[str, Any]:
    """Return options in which a forecast of n rows, such as a reference, has the picked ones."""
    options = dict(options)
    for name, value in options.items():
        dist = as_distribution(value) if name == "reference" and _is_forecast(value) else value
        if isinstance(dist, Distribution) and len(dist) == n > 1:
            options[name] = dist[pick]
    return options


def _is_forecast(value: Any) -> bool:
    """Return whether an option is a forecast: a tuple, a Distribution, or a frozen scipy distribution."""
    return isinstance(value, tuple) or (hasattr(value, "interval") and hasattr(value, "ppf"))


def is_sparse(columns: Any) -> bool:
    """Return whether columns are sparse; as a plain bool, by which type checkers exclude nothing."""
    return bool(sparse.issparse(columns))


def group_sums(columns: Any, group: IntArray, weight: FloatArray | None = None) -> Any:
    """Return the weighted sums of the rows of each group, shape (G, c); dense or sparse as they are."""
    n = group.size
    ones = np.ones(n) if weight is None else weight
    return sparse.csr_array((ones, group, np.arange(n + 1)), shape=(n, int(group.max()) + 1)).T @ columns


def random_groups(rows: Rows, rng: np.random.RandomState) -> IntArray | None:
    """Return the group of each row where there are so many rows that groups of them are drawn, else None.

    Rows with weights are drawn one by one: groups of them would not be alike.
    """
    n = len(rows)
    if n <= MOST_UNITS or rows.weight is not None:
        return None
    size = math.ceil(n / MOST_UNITS)
    return rng.permutation(n) % (n // size)


def bootstrap_weights(
    rows: Rows, n_resamples: int, rng: np.random.RandomState, group: IntArray | None = None
) -> Iterator[FloatArray]:
    """Yield how often each row is drawn, or each group of rows, some resamples at a time, shape (b, n)."""
    n = len(rows) if group is None else int(group.max()) + 1
    draws = max(round(rows.total), 1)
    generator = fast_generator(rng)
    for size in block_sizes(n_resamples, n):
        if rows.weight is None:
            chunk = np.empty((size, n))
            for i in range(size):
                chunk[i] = np.bincount(generator.integers(n, size=n), minlength=n)
            yield chunk
        else:
            yield generator.multinomial(draws, rows.weight / rows.weight.sum(), size=size).astype(np.float64)


def bootstrap(
    evaluations: Sequence[Evaluation],
    rows: Rows,
    n_resamples: int,
    rng: np.random.RandomState,
    on_resamples: Callable[[int], None] | None = None,
) -> list[FloatArray]:
    """Return the metrics of bootstrap resamples, each of shape (n_resamples,).

    Metrics of cells have resamples of their own, all others the same. ``on_resamples`` is called with the
    number of resamples that have been computed since the last call.
    """
    drawn = [evaluation for evaluation in evaluations if evaluation.cells is None]
    of_drawn: Iterator[FloatArray] = iter([])
    if drawn:
        group = random_groups(rows, rng)
        weights = bootstrap_weights(rows, n_resamples, rng, group)
        of_drawn = iter(values_of_weights(drawn, weights, group, on_resamples))
    generator, draws, values = fast_generator(rng), max(round(rows.total), 1), []
    for evaluation in evaluations:
        if evaluation.cells is None:
            values.append(next(of_drawn))
        else:
            cells = evaluation.cells
            counts = (
                generator.multinomial(draws, cells, size=size)
                for size in block_sizes(n_resamples, cells.size)
            )
            values.append(np.concatenate([evaluation.of_means(count / draws) for count in counts]))
    if not drawn and on_resamples is not None:
        on_resamples(n_resamples)
    return values


def values_of_weights(
    evaluations: Sequence[Evaluation],
    chunks: Iterable[FloatArray],
    group: IntArray | None = None,
    on_chunk: Callable[[int], None] | None = None,
) -> list[FloatArray]:
    """Return the metrics for chunks of weights of the rows, or of groups of rows, of shape (b, n) each."""
    values: list[list[Any]] = [[] for _ in evaluations]
    by_means = []
    in_order: list[tuple[WeightFunction, list[Any]]] = []
    by_rows = []
    for evaluation, found in zip(evaluations, values, strict=True):
        if evaluation.columns is not None:
            by_means.append((evaluation.of_drawn(group), found))
        elif isinstance(evaluation.of_weight, OrderedWeights):
            order, of_ordered = evaluation.of_weight.order, evaluation.of_weight.of_ordered
            row_weights = RowWeights(order if group is None else group[order])
            by_rows.append((row_weights, [(of_ordered, found)]))
        else:
            in_order.append((evaluation.of_weight, found))
    if in_order:
        by_rows.append((RowWeights(group), in_order))
    for weights in chunks:
        for of_drawn, found in by_means:
            found.append(of_drawn(weights))
        for weight in weights:
            for row_weights, metrics in by_rows:
                each = row_weights.of(weight)
                for of_weight, found in metrics:
                    found.append([of_weight(each)])
        if on_chunk is not None:
            on_chunk(weights.shape[0])
    return [np.concatenate(found) for found in values]


class RowWeights:
    """Weights of rows from those of what is drawn.

    Parameters
    ----------
    index : ndarray of shape (n,) or None
        Which of the drawn each row is; None where rows are drawn.
    """

    def __init__(self, index: IntArray | None) -> None:
        # One array for all weights: to make a large one takes longer than to fill it.
        self._index, self._weights = index, None if index is None else np.empty(index.size)

    def of(self, weight: FloatArray) -> FloatArray:
        """Return the weight of each row, in an array that the next call overwrites."""
        if self._index is None:
            return weight
        return np.take(weight, self._index, out=self._weights, mode="clip")


def swap_weights(rows: Rows, n_permutations: int, rng: np.random.RandomState) -> Iterator[FloatArray]:
    """Yield how many repetitions of each row change sides, shape (b, n); each does with probability 1/2.

    What a weight holds beyond whole repetitions changes as one.
    """
    n, weight = len(rows), rows.weight
    generator = fast_generator(rng)
    whole = None if weight is None else np.floor(weight + 1e-9).astype(np.int64)
    for size in block_sizes(n_permutations, n):
        if weight is None or whole is None:
            bits = generator.integers(256, size=(size, -(-n // 8)), dtype=np.uint8)
            yield np.unpackbits(bits, axis=1)[:, :n].astype(np.float64)
        else:
            rest = np.maximum(weight - whole, 0.0) * generator.integers(2, size=(size, n))
            yield np.asarray(generator.binomial(whole, 0.5, size=(size, n)) + rest, dtype=np.float64)


def fast_generator(rng: np.random.RandomState) -> np.random.Generator:
    """Return the newer kind of generator, which draws several times faster."""
    return np.random.default_rng(rng.randint(2**31 - 1, size=4))


def block_sizes(total: int, n: int) -> Iterator[int]:
    """Yield sizes of blocks of resamples that keep their weights below `BLOCK` numbers."""
    largest = max(BLOCK // max(n, 1), 1)
    for start in range(0, total, largest):
        yield min(largest, total - start)


def _skewness_of_influence(values: FloatArray, weight: FloatArray) -> float:
    """Return sum u^3 / (6 (sum u^2)^1.5), with u the mean less each value with something left out."""
    if not np.isfinite(values).all():
        return 0.0
    influence = (weight @ values) / weight.sum() - values
    size = float(np.abs(influence).max())
    if size <= 1e-13 * float(np.abs(values).max()):
        return 0.0
    influence = influence / size
    return float(weight @ influence**3 / (6 * (weight @ influence**2) ** 1.5))


def concatenate(first: Any, second: Any) -> Any:
    """Return two forecasts of the same kind below each other."""
    if isinstance(first, Distribution) and isinstance(second, Distribution):
        return concat([first, second])
    return np.concatenate([np.asarray(first), np.asarray(second)])
