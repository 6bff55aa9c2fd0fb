"""Checked arguments of a decomposition: rows, sections and forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._units import unit_of
from skuq._validation import (
    as_array,
    as_float_array,
    check_finite,
    check_increasing,
    check_no_nan,
    check_option,
    check_probabilities,
)
from skuq.distributions import Distribution
from skuq.distributions._convert import is_array
from skuq.evaluation._resampling import Rows, RowsOfClasses, draw_targets, repeated_rows
from skuq.metrics._internal import (
    DEFAULT_LEVELS,
    ClassSections,
    MeanSections,
    QuantileSections,
    Sections,
    ThresholdSections,
    crps_levels,
    finite_mean,
    level_grid,
)

SCORES = ("crps", "pinball", "squared_error", "brier", "log_loss")
METHODS = ("quantile", "threshold")
PROBABILITY_SCORES = ("brier", "log_loss")

DEFAULT_THRESHOLDS = 100
BLOCK = 2**17
"""A block of redrawn targets contains at most this number of values."""
GRID_LEVELS = (0.005, 0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95, 0.995)
"""The default thresholds depend on the targets and on the forecast quantiles at these levels."""


@dataclass(frozen=True)
class Request:
    """Checked options: the score and the method of its decomposition."""

    score: str
    method: str
    levels: int | ArrayLike | None
    threshold: ArrayLike | None
    labels: ArrayLike | None

    def __post_init__(self) -> None:
        check_option(self.score, "score", SCORES)
        check_option(self.method, "method", METHODS)
        by_threshold = self.method == "threshold"
        if by_threshold and self.score != "crps":
            raise ValueError(
                f"`method` must be 'quantile' with score={self.score!r}, got 'threshold'. Only the CRPS has "
                "both decompositions."
            )
        of_probability = self.score in PROBABILITY_SCORES
        uses = {
            "levels": self.score == "pinball" or (self.score == "crps" and not by_threshold),
            "threshold": of_probability or by_threshold,
            "labels": of_probability,
        }
        for name, used in uses.items():
            if getattr(self, name) is not None and not used:
                how = f"score={self.score!r} and method={self.method!r}"
                raise ValueError(f"`{name}` must be None with {how}, got {getattr(self, name)!r}.")


@dataclass(frozen=True)
class Problem:
    """Targets and weights of the rows with positive weight, and the sections of one forecast."""

    rows: Rows
    sections: Sections
    forecast: Any
    unit: float = 1.0
    factor: float = 1.0
    power: int = 1

    @property
    def y(self) -> Any:
        return self.rows.y / self.unit if self.unit != 1 else self.rows.y

    @property
    def weight(self) -> FloatArray | None:
        return self.rows.weight

    def parts(self, y: Any, weight: FloatArray | None) -> FloatArray:
        """Return score, miscalibration, discrimination and uncertainty of each section, shape (r, k, 4)."""
        parts = self.sections.parts(y, weight)
        # The score is computed in the internal unit, because a change of units may overflow.
        score = parts[..., :1] - parts[..., 1:2] + parts[..., 2:]
        return self.scaled(np.concatenate([score, parts], axis=-1))

    def scaled(self, scores: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            for _ in range(self.power):
                scores = scores * self.factor
        return scores

    def take(self, pick: IntArray) -> Problem:
        forecast = None if self.forecast is None else self.forecast[pick]
        return replace(self, rows=self.rows.take(pick), sections=self.sections.take(pick), forecast=forecast)

    def redrawn(self, n_draws: int, rng: np.random.RandomState) -> Iterator[tuple[Sections, Any]]:
        """Yield blocks of targets that are drawn from the forecasts, shape (r, n)."""
        weight = self.weight
        if weight is not None and not np.array_equal(weight, np.round(weight)):
            for pick in repeated_rows(self.rows, n_draws, rng):
                y = draw_targets(self.forecast[pick], rng)
                yield self.sections.take(np.asarray(pick)), y[np.newaxis] / self.unit
            return
        pick = next(repeated_rows(self.rows, 1, rng))
        forecast, sections = self.forecast, self.sections
        if pick is not None:
            forecast, sections = forecast[pick], sections.take(pick)
        size = max(BLOCK // sections.n, 1)
        for start in range(0, n_draws, size):
            draws = [draw_targets(forecast, rng) for _ in range(min(size, n_draws - start))]
            yield sections, np.stack(draws) / self.unit


def make_problem(
    y_true: ArrayLike, y_pred: Any, request: Request, sample_weight: ArrayLike | None
) -> Problem:
    if request.score in PROBABILITY_SCORES and is_array(y_pred):
        return _of_classes(y_true, y_pred, request, sample_weight)
    rows = Rows(y_true, sample_weight)
    if request.score in PROBABILITY_SCORES:
        return _of_events(rows, rows.of(y_pred), request)
    if request.score == "squared_error":
        return _of_means(rows, y_pred)
    if request.method == "threshold":
        return _of_thresholds(rows, rows.of(y_pred), request)
    return _of_quantiles(rows, y_pred, request)


def _of_quantiles(rows: Rows, y_pred: Any, request: Request) -> Problem:
    levels, share = _levels(request)
    if request.score == "pinball" and levels.size == 1 and _is_point(y_pred):
        quantiles, dist = _points(y_pred, rows)[np.newaxis], None
    else:
        dist = rows.of(y_pred)
        quantiles = np.ascontiguousarray(dist.quantile(levels).T)
    unit = unit_of(rows.y)
    sections = QuantileSections(quantiles / unit, levels, share)
    return Problem(rows, sections, dist, unit, unit)


def _levels(request: Request) -> tuple[FloatArray, FloatArray]:
    levels = DEFAULT_LEVELS if request.levels is None else request.levels
    if request.score == "crps":
        return crps_levels(levels=levels)
    grid = level_grid(levels)
    return grid, np.full(grid.size, 1 / grid.size)


def _of_means(rows: Rows, y_pred: Any) -> Problem:
    if _is_point(y_pred):
        mean, dist = _points(y_pred, rows), None
    else:
        dist = rows.of(y_pred)
        mean = finite_mean(dist)
    unit = unit_of(rows.y)
    sections = MeanSections(mean[np.newaxis] / unit, pd.Index(["mean"], name="functional"))
    return Problem(rows, sections, dist, unit, unit, power=2)


def _is_point(y_pred: Any) -> bool:
    """Return whether the forecast is one number per row, such as a mean."""
    return is_array(y_pred) and as_array(y_pred, "y_pred").ndim == 1


def _points(y_pred: Any, rows: Rows) -> FloatArray:
    points = check_finite(as_float_array(y_pred, "y_pred"), "y_pred")
    if points.shape != (rows.given,):
        raise ValueError(f"`y_pred` must have {rows.given} rows, one per sample, got {points.shape}.")
    return points if rows.keep is None else points[rows.keep]


def _of_thresholds(rows: Rows, dist: Distribution, request: Request) -> Problem:
    if request.threshold is None:
        grid, width = default_thresholds(rows, dist, DEFAULT_THRESHOLDS)
    else:
        grid = check_increasing(_check_threshold(request.threshold), "threshold")
        if grid.size < 2:
            raise ValueError("`threshold` must be at least two numbers for the CRPS, got one.")
        width = np.diff(grid, prepend=grid[0]) / 2 + np.diff(grid, append=grid[-1]) / 2
    unit = unit_of(width)
    return Problem(rows, _threshold_sections(dist, grid, "brier", width / unit), dist, factor=unit)


def default_thresholds(rows: Rows, dist: Distribution, m: int) -> tuple[FloatArray, FloatArray]:
    # The private method does not warn about infinite quantiles.
    pool = np.concatenate([rows.y, *(dist._ppf(np.asarray(level)) for level in GRID_LEVELS)])
    weight = np.tile(rows.repetitions, 1 + len(GRID_LEVELS))
    pool, weight = pool[np.isfinite(pool)], weight[np.isfinite(pool)]
    shares = np.linspace(0, 1, -(-m // 2) + 1)
    by_weight = np.quantile(pool, shares, weights=weight, method="inverted_cdf")
    edges = np.unique(np.concatenate([by_weight, pool.min() * (1 - shares) + pool.max() * shares]))
    if edges.size == 1:  # All targets and forecasts equal one number, so the CRPS is 0.
        return edges, np.zeros(1)
    return edges[:-1] + np.diff(edges) / 2, np.diff(edges)


def _threshold_sections(
    dist: Distribution, thresholds: FloatArray, score: str, share: FloatArray | None = None
) -> ThresholdSections:
    cdf = np.stack([dist.cdf(np.full(len(dist), each)) for each in thresholds])
    return ThresholdSections(cdf, thresholds, pd.Index(thresholds, name="threshold"), score, share)


def _check_threshold(threshold: Any) -> FloatArray:
    grid = np.atleast_1d(check_finite(as_float_array(threshold, "threshold"), "threshold"))
    if grid.ndim != 1 or not grid.size:
        raise ValueError(f"`threshold` must be a number or a non-empty 1-D array, got shape {grid.shape}.")
    return grid


def _of_events(rows: Rows, dist: Distribution, request: Request) -> Problem:
    if request.threshold is None:
        raise ValueError(
            f"`threshold` must be given for score={request.score!r} and a Distribution, got None. Pass the "
            "values of y that define the events, or pass class probabilities as `y_pred`."
        )
    if request.labels is not None:
        raise ValueError("`labels` must be None if `y_pred` is a Distribution, got labels.")
    return Problem(rows, _threshold_sections(dist, _check_threshold(request.threshold), request.score), dist)


def _of_classes(y_true: ArrayLike, y_pred: Any, request: Request, sample_weight: ArrayLike | None) -> Problem:
    """Return one section per class. For two classes, return a single section."""
    if request.threshold is not None:
        raise ValueError("`threshold` must be None if `y_pred` holds class probabilities, got a threshold.")
    proba = as_array(y_pred, "y_pred")
    if proba.ndim == 1:
        event = check_no_nan(check_probabilities(proba, "y_pred"), "y_pred")
        proba = np.column_stack([1 - event, event])
    rows = RowsOfClasses(y_true, request.labels, proba.shape[1] if proba.ndim == 2 else 0, sample_weight)
    forecast = rows.of(proba)
    columns = np.arange(forecast.shape[1]) if forecast.shape[1] != 2 else np.array([1])
    index = pd.Index(rows.labels[columns], name="class")
    probabilities = np.ascontiguousarray(forecast[:, columns].T, dtype=np.float64)
    sections = ClassSections(probabilities, columns, index, request.score)
    return Problem(rows, sections, forecast)
