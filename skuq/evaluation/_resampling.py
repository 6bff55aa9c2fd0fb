"""Evaluation of one metric for many sets of weights of the same rows, in bounded memory.

A weight is a number of repetitions of a row. Bootstrap samples, samples without some of the rows, and
permutations of two models can all be expressed as weights. If a metric is a function of means over rows, all
its values are computed by one matrix product.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from skuq._numeric import group_sums, is_sparse
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    as_float_array,
    check_mapping,
    check_random_state,
    check_sample_weight,
    check_size,
    check_target,
    effective_rows,
)
from skuq.distributions import Distribution, as_distribution, concat
from skuq.distributions._convert import as_forecast, check_not_one_row, is_array
from skuq.metrics._class_scores import check_class_forecast, check_labels
from skuq.metrics._scorer import MetricScorer, check_options, require_spec
from skuq.metrics._spec import (
    MeansOf,
    MetricFunction,
    MetricSpec,
    WeightFunction,
    find_spec,
    one_by_one,
)

BLOCK = 2**21
"""A matrix of weights has at most this number of entries (16 MB)."""

MOST_UNITS = 50_000
"""Up to this number of rows, individual rows are drawn. With more rows, random groups of rows are drawn.

The groups cause a relative error of the variance of about sqrt(2 / number of groups), which is below 1 %. For
comparison, 1000 resamples cause a relative error of 4 %.
"""

MOST_BLOCKS, FEWER_BLOCKS = 200, 50
"""Numbers of blocks of rows for the acceleration. Each block is left out once. The second number is used for
more than `MOST_UNITS` rows."""


class Rows:
    """Targets and weights of the rows with positive weight, and how often each row is repeated."""

    y: Any  # Numbers, or codes of classes.

    def __init__(self, y_true: ArrayLike, sample_weight: ArrayLike | None) -> None:
        y = check_target(y_true)
        self.given = y.size
        weight = check_sample_weight(sample_weight, y.size)
        self.keep: IntArray | None = None
        if weight is not None and weight.min() == 0:
            self.keep = np.flatnonzero(weight)
            y, weight = y[self.keep], weight[self.keep]
        self.y = check_size(y, "y_true")
        self.weight = weight
        self.total = effective_rows(weight, y.size)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, pick: IntArray) -> Rows:
        taken = copy.copy(self)
        taken.keep = pick if self.keep is None else self.keep[pick]
        taken.y = self.y[pick]
        taken.weight = None if self.weight is None else self.weight[pick]
        taken.total = float(pick.size if taken.weight is None else taken.weight.sum())
        return taken

    def with_targets(self, y: Any) -> Rows:
        changed = copy.copy(self)
        changed.y = y
        return changed

    @property
    def repetitions(self) -> FloatArray:
        return np.ones(len(self)) if self.weight is None else self.weight

    def of(self, y_pred: Any, name: str = "y_pred", read: Callable[..., Any] = as_distribution) -> Any:
        # Only the order of the lines of an error depends on the targets.
        forecast = read(y_pred, name, self.y if self.keep is None else None)
        check_not_one_row(forecast, self.y if self.keep is None else np.empty(self.given), name)
        if forecast.shape[:1] != (self.given,):
            raise ValueError(f"`{name}` must have {self.given} rows, one per sample, got {forecast.shape}.")
        return forecast if self.keep is None else forecast[self.keep]


class RowsOfClasses(Rows):
    """Rows whose targets are classes. A code is the column of the class in the forecasts, or -1."""

    def __init__(
        self, y_true: ArrayLike, labels: ArrayLike | None, n_classes: int, sample_weight: ArrayLike | None
    ) -> None:
        codes, self.labels = check_labels(y_true, labels, n_classes)
        super().__init__(codes, sample_weight)
        self.y = codes if self.keep is None else codes[self.keep]

    def of(self, y_pred: Any, name: str = "y_pred", read: Callable[..., Any] = as_distribution) -> Any:
        forecast = check_class_forecast(y_pred, (self.given, self.labels.size))
        return forecast if self.keep is None else forecast[self.keep]


def argument_name(y_pred: Any, name: str) -> str:
    """Return the code for one forecast of an argument that may be a mapping of names to forecasts."""
    if not isinstance(y_pred, Mapping):
        return "y_pred"
    return f"y_pred[{next(key for key in y_pred if str(key) == name)!r}]"


class Evaluation:
    """Metric of one forecast for any weights of its rows."""

    metric: Any  # a record, or a function of the user

    def __init__(
        self, metric: MetricSpec | MetricFunction, options: Mapping[str, Any], rows: Rows, forecast: Any
    ) -> None:
        self.metric, self.rows, self.forecast = metric, rows, forecast
        self.options = dict(options) if rows.keep is None else picked_options(options, rows.keep, rows.given)

    def computation(self, pick: IntArray | None = None) -> Any:
        """Return how the metric is computed for all rows or for the given rows."""
        options = self.options if pick is None else picked_options(self.options, pick, len(self.rows))
        if all(options[name] is value for name, value in self.options.items()):
            return self._computation
        return self.metric.computation(options)

    @cached_property
    def _computation(self) -> Any:
        return self.metric.computation(self.options)

    @cached_property
    def of(self) -> WeightFunction:
        """Return the metric as a function of weights of shape (..., n)."""
        if isinstance(self.metric, MetricSpec):
            of: WeightFunction = self._computation(self.rows.y, self.forecast)
            return of
        return one_by_one(self._of_users_metric)

    @cached_property
    def columns(self) -> Any:
        """Return the columns of a metric of means over rows, or None."""
        if not isinstance(self.of, MeansOf) or (self.of.spread and self.of.spread.kind != "total"):
            return None
        columns = self.of.columns
        return columns if is_sparse(columns) or np.isfinite(columns).all() else None

    def of_means(self, means: FloatArray, total: FloatArray) -> FloatArray:
        """Return the metric from means, shape (b, c), and from the total weights of the rows."""
        of: Any = self.of
        return np.asarray(of.combine(means) if of.spread is None else of.combine(means, total))

    @cached_property
    def cells(self) -> FloatArray | None:
        """Return the share of the rows in each cell. Return None if a row may belong to several cells."""
        columns, weight = self.columns, self.rows.repetitions
        if not is_sparse(columns) or columns.nnz > len(self.rows) or not (columns.data == 1).all():
            return None
        share = np.asarray(weight @ columns)
        # The division makes the shares add up to 1, even after rounding.
        return np.asarray(share / share.sum())

    def of_drawn(self, group: IntArray | None) -> Callable[[FloatArray], FloatArray]:
        """Return the metric as a function of weights, shape (b, n).

        A weight is the number of times that a row or a group of rows is drawn.
        """
        columns, size = self.columns, np.ones(len(self.rows))
        if group is not None:
            columns, size = group_sums(columns, group), np.bincount(group).astype(np.float64)

        def of_weights(weights: FloatArray) -> FloatArray:
            total = weights @ size
            return self.of_means(weights @ columns / total[:, np.newaxis], total)

        return of_weights

    def value(self) -> float:
        if isinstance(self.metric, MetricSpec):
            return float(self.of(self.rows.weight if isinstance(self.of, MeansOf) else self.rows.repetitions))
        return self._of_users_metric(self.rows.weight)

    def _of_users_metric(self, weight: FloatArray | None) -> float:
        return float(self.metric(self.rows.y, self.forecast, sample_weight=weight, **self.options))

    def acceleration(self, rng: np.random.RandomState) -> float:
        """Return the acceleration constant of the BCa interval.

        Its formula uses values of the metric without one row or one block.
        """
        weight, n = self.rows.repetitions, len(self.rows)
        if isinstance(self.metric, MetricSpec) and self.metric.random:
            return 0.0
        if self.columns is not None and not is_sparse(self.columns):
            if self.rows.total <= 1:
                return 0.0
            means = (weight @ self.columns - self.columns) / (self.rows.total - 1)
            return _skewness_of_influence(self.of_means(means, weight), weight)
        blocks = min(MOST_BLOCKS if n <= MOST_UNITS else FEWER_BLOCKS, n)
        if blocks < 2:
            return 0.0
        block = rng.permutation(n) % blocks
        if self.columns is None:
            values = np.array([self.of(np.where(block == b, 0.0, weight)) for b in range(blocks)])
        else:
            rest = weight @ self.columns - group_sums(self.columns, block, weight).toarray()
            total = weight.sum() - np.bincount(block, weight)
            values = self.of_means(rest / total[:, np.newaxis], total)
        return _skewness_of_influence(values, np.ones(blocks))


def evaluations(
    metric: Any,
    options: Mapping[str, Any] | None,
    rows: Rows,
    forecasts: Mapping[str, Any],
    rng: np.random.RandomState,
) -> list[Evaluation]:
    """Return the metric of each forecast. A random metric has the same seed for all forecasts.

    The keys of the forecasts are the names of the arguments.
    """
    if isinstance(metric, MetricScorer):
        raise TypeError(
            f"`metric` must be a metric, got the scorer {metric!r}. Pass its name, {metric.__name__!r}, as "
            "`metric`, and its options as `options`."
        )
    definition = require_spec(metric) if isinstance(metric, str) else find_spec(metric) or metric
    settings = check_mapping(options, "options")
    read: Callable[..., Any] = as_distribution
    if isinstance(definition, MetricSpec):
        check_options(definition, settings)
        if definition.needs == "interval":
            read = as_forecast
        if definition.needs_X:
            raise ValueError(
                f"`metric` must not need X, got {definition.abbreviation!r}. Only targets and forecasts are "
                f"resampled. Call `{definition.function.__name__}` directly."
            )
        if definition.of_classes:
            raise ValueError(
                "`metric` must be a metric of distributions or intervals, got the classification metric "
                f"{definition.abbreviation!r}. For its bootstrap interval, use `uncertainty_report`."
            )
        if definition.of_targets:
            raise ValueError(
                f"`metric` must be a metric of one target, got {definition.abbreviation!r}. This metric is "
                "a score of joint distributions. Compute it for each fold, or resample a metric of "
                "`y_pred.linear(w)` or of `y_pred.marginal(...)`."
            )
        if definition.random:  # The value, all resamples and all models use the same seed.
            settings["random_state"] = seed_of(settings, rng)
    elif not callable(definition):
        raise TypeError(f"`metric` must be a name or a function, got {type(metric).__name__}.")
    else:
        _check_takes_weights(definition)
        read = _for_own_metric
    return [
        Evaluation(definition, settings, rows, rows.of(forecast, name, read))
        for name, forecast in forecasts.items()
    ]


def _for_own_metric(y_pred: Any, name: str, y_true: Any) -> Any:
    return as_float_array(y_pred, name) if is_array(y_pred) else as_distribution(y_pred, name, y_true)


def seed_of(options: Mapping[str, Any], rng: np.random.RandomState) -> int:
    given = options.get("random_state")
    if isinstance(given, int | np.integer):
        return int(given)
    return int(check_random_state(rng if given is None else given).randint(2**31 - 1))


def _check_takes_weights(metric: Any) -> None:
    try:
        parameters = inspect.signature(metric).parameters.values()
    except ValueError:  # Some compiled callables have no signature.
        return
    named = {each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY}
    if "sample_weight" not in named and not any(each.kind is each.VAR_KEYWORD for each in parameters):
        name = getattr(metric, "__name__", repr(metric))
        raise TypeError(
            f"`metric` must have the argument `sample_weight`, but {name} does not have it. Resampling "
            "changes the weights of the rows; each weight is a number of repetitions. Define the metric as "
            "`metric(y_true, y_pred, *, sample_weight=None)`."
        )


def picked_options(options: Mapping[str, Any], pick: IntArray, n: int) -> dict[str, Any]:
    options = dict(options)
    for name, value in options.items():
        # A reference may also be the name of a forecast.
        is_frozen = name == "reference" and hasattr(value, "ppf")
        dist = as_distribution(value, name) if is_frozen else value
        if isinstance(dist, Distribution) and len(dist) == n > 1:
            options[name] = dist[pick]
    return options


def random_groups(rows: Rows, rng: np.random.RandomState) -> IntArray | None:
    n = len(rows)
    if n <= MOST_UNITS or rows.weight is not None:
        return None
    size = math.ceil(n / MOST_UNITS)
    return rng.permutation(n) % (n // size)


def bootstrap_weights(
    rows: Rows, n_resamples: int, rng: np.random.RandomState, group: IntArray | None = None
) -> Iterator[FloatArray]:
    """Yield the number of times that each row or group is drawn, in blocks of shape (b, n)."""
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
    """Return the metrics of bootstrap resamples, each of shape (n_resamples,)."""
    found: dict[Evaluation, FloatArray] = {}
    if drawn := [evaluation for evaluation in evaluations if evaluation.cells is None]:
        group = random_groups(rows, rng)
        weights = bootstrap_weights(rows, n_resamples, rng, group)
        found |= zip(drawn, values_of_weights(drawn, weights, group, on_resamples), strict=True)
    elif on_resamples is not None:
        on_resamples(n_resamples)
    generator, draws = fast_generator(rng), max(round(rows.total), 1)
    for evaluation in evaluations:
        if evaluation.cells is not None:
            means = generator.multinomial(draws, evaluation.cells, size=n_resamples) / draws
            found[evaluation] = evaluation.of_means(means, np.full(n_resamples, float(draws)))
    return [found[evaluation] for evaluation in evaluations]


def values_of_weights(
    evaluations: Sequence[Evaluation],
    chunks: Iterable[FloatArray],
    group: IntArray | None = None,
    on_chunk: Callable[[int], None] | None = None,
) -> list[FloatArray]:
    """Return the metrics for blocks of weights, shape (b, n).

    A weight belongs to a row or to a group of rows.
    """
    values: list[list[Any]] = [[] for _ in evaluations]
    found = list(zip(evaluations, values, strict=True))
    by_means = [(each.of_drawn(group), kept) for each, kept in found if each.columns is not None]
    by_weights = [(each.of, kept) for each, kept in found if each.columns is None]
    for weights in chunks:
        for of_drawn, kept in by_means:
            kept.append(of_drawn(weights))
        if group is None:
            for of, kept in by_weights:
                kept.append(of(weights))
        else:
            for i in range(len(weights) if by_weights else 0):
                of_rows = np.take(weights[i : i + 1], group, axis=1)
                for of, kept in by_weights:
                    kept.append(of(of_rows))
        if on_chunk is not None:
            on_chunk(weights.shape[0])
    return [np.concatenate(each) for each in values]


def swap_weights(rows: Rows, n_resamples: int, rng: np.random.RandomState) -> Iterator[FloatArray]:
    """Yield the number of swapped repetitions of each row, shape (b, n). The probability of a swap is 1/2."""
    n, weight = len(rows), rows.weight
    generator = fast_generator(rng)
    whole = None if weight is None else np.floor(weight + 1e-9).astype(np.int64)
    for size in block_sizes(n_resamples, n):
        if weight is None or whole is None:
            bits = generator.integers(256, size=(size, -(-n // 8)), dtype=np.uint8)
            yield np.unpackbits(bits, axis=1)[:, :n].astype(np.float64)
        else:
            rest = np.maximum(weight - whole, 0.0) * generator.integers(2, size=(size, n))
            yield np.asarray(generator.binomial(whole, 0.5, size=(size, n)) + rest, dtype=np.float64)


def fast_generator(rng: np.random.RandomState) -> np.random.Generator:
    return np.random.default_rng(rng.randint(2**31 - 1, size=4))


def block_sizes(total: int, n: int) -> Iterator[int]:
    """Yield the number of resamples in each block. The weights of a block have at most `BLOCK` entries."""
    largest = max(BLOCK // max(n, 1), 1)
    for start in range(0, total, largest):
        yield min(largest, total - start)


def _skewness_of_influence(values: FloatArray, weight: FloatArray) -> float:
    if not np.isfinite(values).all():
        return 0.0
    influence = (weight @ values) / weight.sum() - values
    size = float(np.abs(influence).max())
    if size <= 1e-13 * float(np.abs(values).max()):
        return 0.0
    influence = influence / size
    square = influence * influence  # A power of 3 takes 20 times as long as a product.
    return float(weight @ (square * influence) / (6 * (weight @ square) ** 1.5))


def concatenate(first: Any, second: Any) -> Any:
    if isinstance(first, Distribution) and isinstance(second, Distribution):
        return concat([first, second])
    return np.concatenate([np.asarray(first), np.asarray(second)])
