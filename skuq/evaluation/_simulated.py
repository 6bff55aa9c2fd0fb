"""Values of metrics for targets that are drawn from the forecasts, as if the forecasts were right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from skuq._numeric import group_sums
from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution
from skuq.evaluation._resampling import Evaluation, Rows, fast_generator
from skuq.metrics._class_scores import draw_codes
from skuq.metrics._spec import Binned, Means, Spread

MOST_SIMULATED = 1e8
"""A draw has at most this number of targets, because it needs several arrays of this length."""

AT_ONCE = 2**21
"""At most this number of targets are drawn at once. They are several draws of the targets of all rows."""

BLOCK = 2**16
"""The values of metrics per row are computed for blocks of this number of targets, to limit the memory."""


def drawn_targets(
    rows: Rows, forecast: Any, n_draws: int, rng: np.random.RandomState, at_once: int
) -> Iterator[tuple[IntArray | None, Any, Any]]:
    """Yield blocks of draws: the row of each target, or None for all rows, its forecast, and the targets.

    The targets have shape (b, m). A row with an integer weight has as many targets. Rows with other weights
    are drawn in proportion to their weights.
    """
    weight = rows.weight
    if weight is not None and n_draws and rows.total > MOST_SIMULATED:
        raise ValueError(
            f"`sample_weight` must have a sum of at most {MOST_SIMULATED:g}, got {rows.total:g}. The weights "
            "count repetitions, and each draw has one target per repetition. Pass n_draws=0, or divide the "
            "weights by a constant."
        )
    if weight is not None and not np.array_equal(weight, np.round(weight)):
        for _ in range(n_draws):
            chosen = rng.choice(len(rows), size=round(rows.total), p=weight / weight.sum())
            yield chosen, forecast[chosen], _draw(forecast[chosen], rng)[np.newaxis]
        return
    pick = None if weight is None else np.repeat(np.arange(len(rows)), weight.astype(int))
    forecast = forecast if pick is None else forecast[pick]
    size = max(at_once // len(forecast), 1)
    for start in range(0, n_draws, size):
        yield pick, forecast, np.stack([_draw(forecast, rng) for _ in range(min(size, n_draws - start))])


def _draw(forecast: Any, rng: np.random.RandomState) -> Any:
    return forecast.sample(1, rng)[:, 0] if isinstance(forecast, Distribution) else draw_codes(forecast, rng)


def simulated(
    evaluations: Sequence[Evaluation],
    rows: Rows,
    forecast: Any,
    n_draws: int,
    rng: np.random.RandomState,
    on_draws: Callable[[int], None],
) -> list[FloatArray]:
    """Return the metrics for targets that are drawn from the forecasts, each of shape (n_draws,).

    If the forecasts have a density, metrics of the PIT values use uniform PIT values instead.
    """
    generator = fast_generator(rng)
    if not n_draws:
        return [np.empty(0) for _ in evaluations]
    found: dict[Evaluation, FloatArray] = {}
    if isinstance(forecast, Distribution) and forecast.has_density:
        found = _of_uniform_pit(evaluations, round(rows.total), n_draws, generator)
    of_targets = [each for each in evaluations if each not in found]
    blocks = []
    for pick, dist, y in drawn_targets(rows, forecast, n_draws * bool(of_targets), rng, AT_ONCE):
        blocks.append(_of_targets(of_targets, pick, dist, y))
        on_draws(len(y))
    if not of_targets:
        on_draws(n_draws)
    found |= {each: np.concatenate(block) for each, *block in zip(of_targets, *blocks, strict=True)}
    return [found[each] for each in evaluations]


def _of_uniform_pit(
    evaluations: Sequence[Evaluation], n: int, n_draws: int, generator: np.random.Generator
) -> dict[Evaluation, FloatArray]:
    """Return the metrics of n uniform PIT values, for metrics that depend only on the PIT values."""
    found = {}
    for evaluation in evaluations:
        computation, of_pit = evaluation.computation(), evaluation.metric.of_pit
        if isinstance(computation, Means) and computation.cells is not None:
            means = generator.multinomial(n, computation.cells, size=n_draws) / n
            total = [] if computation.spread is None else [np.full(n_draws, float(n))]
            found[evaluation] = computation.combine(means, *total)
        elif of_pit is not None:
            ones, found[evaluation] = np.ones(n), np.empty(n_draws)
            for i in range(n_draws):
                sums = np.cumsum(generator.standard_exponential(n + 1))  # Their ratios are sorted uniforms.
                found[evaluation][i] = of_pit(sums[:-1] / sums[-1])(ones)
    return found


def _sums_of_draws(part: Any, b: int) -> FloatArray:
    """Return the sums of the columns over the rows of each draw, shape (b, c)."""
    if isinstance(part, np.ndarray):
        return np.asarray(part.reshape(b, -1).sum(axis=1, keepdims=True))
    columns = part.matrix() if isinstance(part, Binned) else part
    return np.asarray(group_sums(columns, np.repeat(np.arange(b), columns.shape[0] // b)).toarray())


def _of_targets(
    evaluations: list[Evaluation], pick: IntArray | None, forecast: Any, y: Any
) -> list[FloatArray]:
    """Return the metrics for targets of shape (b, m)."""
    b, m = y.shape
    means = [each for each in evaluations if isinstance(each.computation(), Means)]
    sums: dict[Evaluation, Any] = dict.fromkeys(means, 0.0)
    size = max(BLOCK // b, 1)
    for start in range(0, m, size):
        rows = np.arange(start, min(start + size, m))
        repeated, targets = _repeated(forecast[rows], b), y[:, start : start + size].ravel()
        picked = np.tile(rows if pick is None else pick[rows], b)
        for evaluation in means:
            values = evaluation.computation(picked).rows(targets, repeated)
            parts = values if type(values) is tuple else (values,)
            sums[evaluation] += np.concatenate([_sums_of_draws(part, b) for part in parts], axis=1)
    values, ones = [], np.ones(m)
    for evaluation in evaluations:
        computation = evaluation.computation(pick)
        if evaluation not in sums:
            if evaluation.metric.of_many_targets:
                values.append(computation(y, forecast)(ones))
            else:
                values.append(np.array([computation(each, forecast)(ones) for each in y], dtype=float))
            continue
        found = sums[evaluation] / m
        if computation.spread is None:
            values.append(computation.combine(found))
        else:
            spread = np.array([Spread(targets, computation.spread)(ones) for targets in y])
            values.append(computation.combine(found, spread))
    return values


def _repeated(forecast: Any, times: int) -> Any:
    """Return the forecast `times` times. Its moments and quantiles are computed once, for the given rows."""
    if not isinstance(forecast, Distribution):
        return np.tile(forecast, (times, 1))
    repeated = forecast[np.tile(np.arange(len(forecast)), times)]
    known: dict[Any, FloatArray] = {}

    def once(name: str) -> Callable[..., FloatArray]:
        of_rows, of_repeated = getattr(forecast, name), getattr(repeated, name)

        def remembered(*level: Any) -> FloatArray:
            if level and np.ndim(level[0]):  # Each row has its own level.
                return np.asarray(of_repeated(*level))
            key = name, *map(float, level)
            if key not in known:
                known[key] = of_rows(*level)
            return np.tile(known[key], times)

        return remembered

    for name in ("mean", "std", "_ppf", "_isf"):
        object.__setattr__(repeated, name, once(name))
    return repeated
