"""Plans of mergeable metrics: the statistics of each metric, and its value as a function of them.

The records of metrics define the plans of all functions of means per row. This module lists the other
metrics, which depend on the range of the targets or on rows in the order of one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option
from skuq.distributions import Normal, as_distribution
from skuq.metrics import CalibrationCurve, UncertaintyCharacteristicsCurve, uncertainty_characteristics_curve
from skuq.metrics._internal import (
    NORMS,
    Binning,
    MetricSpec,
    area_of_lines,
    binned_coverage_error,
    check_options,
    check_penalty,
    coverage_rows,
    curve_rows,
    level_grid,
    proportions_of_means,
    relative_gain,
    relative_width,
    width_rows,
    width_unit,
)
from skuq.monitoring._accumulator.histogram import LogHistogram, bin_width
from skuq.monitoring._accumulator.statistics import (
    BandsByScale,
    CoverageByStd,
    LevelsByStd,
    Moments,
    RowSums,
    SquaresByStd,
    SquaresHistogram,
    Statistic,
    Sums,
    TargetMoments,
)

Value = Callable[..., Any]


@dataclass(frozen=True)
class Plan:
    """Statistics of a metric or table, its value as a function of them, and whether it is exact."""

    statistics: tuple[Statistic, ...]
    value: Value
    exact: bool


def plan_of(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    name = spec.abbreviation
    if spec.of_classes:
        raise ValueError(
            f"`metrics` must be metrics of distributions or intervals, got {name!r}, a classification "
            "metric. Average its values over blocks with weights, or compute it on a sample of the rows."
        )
    check_options(spec, dict(options))
    _check_reference(spec, options)
    if _is_mean(spec, options):
        return _plan_of_means(spec, options)
    if spec.needs_X:
        raise ValueError(
            f"`metrics` must be mergeable, but {name!r} is not, because it depends on the features of all "
            "rows. Compute it on a sample of the rows."
        )
    if spec.random:
        raise ValueError(
            f"`metrics` must be mergeable, but {name!r} is not, because it draws random groups of all rows. "
            "Compute it on a sample of the rows."
        )
    if name not in PLANS:
        raise ValueError(
            f"`metrics` must be mergeable, but {name!r} is not, because it is not a function of means per "
            "row, counts or one histogram. Compute it on a sample of the rows."
        )
    defaults = {key: value for key, value in spec.options.items() if key not in options}
    return PLANS[name](spec, {**defaults, **options}, accuracy)


def _check_reference(spec: MetricSpec, options: Mapping[str, Any]) -> None:
    reference = options.get("reference") if "reference" in spec.one_of else None
    rows = 1 if reference is None else len(as_distribution(reference))
    if rows != 1:
        raise ValueError(
            f"`options` of {spec.abbreviation!r} must contain a `reference` with one row, got {rows} "
            "rows, because the rows of later updates are not known."
        )


def _is_mean(spec: MetricSpec, options: Mapping[str, Any]) -> bool:
    """Return whether the metric is a function of means per row in any units, found on three rows."""
    if spec.fast.rows is None:
        return False
    return spec.fast.rows(np.array([-1e200, 0.0, 1e200]), Normal(np.zeros(3), 1e200), **options) is not None


def _plan_of_means(spec: MetricSpec, options: Mapping[str, Any]) -> Plan:
    def value(sums: Sums) -> float:
        return float(value_of_means(spec, options, sums.means))

    return Plan((RowSums(spec.fast.rows, options),), value, exact=True)  # type: ignore[arg-type]


def value_of_means(spec: MetricSpec, options: Mapping[str, Any], means: FloatArray) -> FloatArray:
    if means.shape[-1] == 1:
        means = means[..., 0]
    return means if spec.fast.combine is None else np.asarray(spec.fast.combine(means, **options))


def representatives(squares: SquaresHistogram) -> tuple[FloatArray, Normal, FloatArray]:
    """Return one row per bin of the standard deviation, with the bin's mean squared error and variance."""
    std, error = squares.roots
    return error, Normal(np.zeros_like(error), std), squares.histogram.weight


def _plan_of_squares(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    """Return the plan of ENCE and UCE, from bins of the standard deviation."""

    def value(squares: SquaresHistogram) -> float:
        y, dist, weight = representatives(squares)
        return float(spec.compute(y, dist, sample_weight=weight, **options))

    return Plan((SquaresByStd(bin_width(accuracy)),), value, exact=False)


def _plan_of_sharpness(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    """Return the plan of the root mean variance, a sharpness that is not a mean per row."""

    def value(squares: SquaresHistogram) -> float:
        return squares.root_mean_variance

    return Plan((SquaresByStd(bin_width(accuracy)),), value, exact=True)


def _plan_of_qce(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    levels = np.sort(level_grid(options["levels"], closed=True))
    if options["marginal"]:

        def of_counts(sums: Sums) -> float:
            inside = proportions_of_means(sums.means, levels)[np.newaxis]
            return binned_coverage_error(inside, np.ones(1), levels)

        return Plan((RowSums(curve_rows(99, "interval"), {"levels": levels}),), of_counts, exact=True)

    def value(squares: SquaresHistogram, covered: LogHistogram) -> float:
        key, share = squares.roots[0], covered.means
        bins = Binning(key, options["n_bins"], options["strategy"]).bins(covered.weight)
        inside = bins.sums(lambda rows: tuple(column[rows] for column in share)).T
        return binned_coverage_error(inside, bins.totals(), levels)

    width = bin_width(accuracy)
    return Plan((SquaresByStd(width), LevelsByStd(width, levels)), value, exact=False)


def area_levels(accuracy: float) -> FloatArray:
    """Return levels of the piecewise linear calibration curve that replaces the exact area.

    Both curves rise, so their areas differ by at most half the distance of the levels.
    """
    return np.linspace(0.0, 1.0, int(np.ceil(1 / accuracy)) + 1)


def _plan_of_area(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    exact = options["levels"] is not None
    levels = level_grid(options["levels"], closed=True) if exact else area_levels(accuracy)

    def value(sums: Sums) -> float:
        return area_of_lines(levels, proportions_of_means(sums.means, levels))

    return Plan((RowSums(curve_rows(99, options["kind"]), {"levels": levels}),), value, exact=exact)


def _unit_of_targets(options: Mapping[str, Any]) -> Callable[[Moments], float]:
    norm, y_train = options["norm"], options["y_train"]
    if isinstance(norm, str) and y_train is None:
        check_option(norm, "norm", NORMS)
        return lambda moments: moments.high - moments.low if norm == "range" else moments.std
    unit = width_unit(norm, np.zeros(1), y_train)(None)
    return lambda moments: unit


def _plan_of_width(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    unit = _unit_of_targets(options)

    def value(width: Sums, moments: Moments) -> float:
        return relative_width(float(width.means[0]), unit(moments))

    width = RowSums(width_rows, {"coverage": options["coverage"]})
    return Plan((width, TargetMoments()), value, exact=True)


def _plan_of_cwc(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    unit = _unit_of_targets(options)
    penalty = check_penalty(options["coverage"], options["eta"], options["formula"])

    def value(width: Sums, inside: Sums, moments: Moments) -> float:
        return penalty(relative_width(float(width.means[0]), unit(moments)), float(inside.means[0]))

    coverage = {"coverage": options["coverage"]}
    rows = RowSums(width_rows, coverage), RowSums(coverage_rows, coverage)
    return Plan((*rows, TargetMoments()), value, exact=True)


def characteristics_of(
    histogram: LogHistogram, moments: Moments, bands: str
) -> UncertaintyCharacteristicsCurve:
    """Return the curve of one representative row per bin of the critical scale."""
    *band, error = histogram.means
    dist = Normal(np.zeros_like(error), band[0] if band else 1.0)
    curve = uncertainty_characteristics_curve(error, dist, sample_weight=histogram.weight, bands=bands)
    return replace(curve, target_std=moments.std)


_SHAPE = {"bands": "std", "vary": "scale", "zero_band": "keep"}
_AREA = ("x_axis", "y_axis", "x_range", "y_range", "rule", "normalize")


def _check_shape(spec: MetricSpec, options: Mapping[str, Any]) -> None:
    """Raise for curves whose critical values are not in the histogram."""
    for name, plain in _SHAPE.items():
        if options[name] != plain:
            raise ValueError(
                f"`options` of {spec.abbreviation!r} must have {name}={plain!r}, got {options[name]!r}, "
                "because the curve of other bands is not mergeable. Compute it on a sample of the rows."
            )


def _plan_of_auucc(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    _check_shape(spec, options)
    part = {name: options[name] for name in _AREA}

    def value(bands: LogHistogram, moments: Moments) -> float:
        return characteristics_of(bands, moments, "std").area(**part)

    return Plan((BandsByScale(bin_width(accuracy), "std"), TargetMoments()), value, exact=False)


def _plan_of_gain(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    _check_shape(spec, options)
    part = {name: options[name] for name in _AREA if name in options}

    def value(bands: LogHistogram, errors: LogHistogram, moments: Moments) -> float:
        model = characteristics_of(bands, moments, "std").area(**part)
        constant = characteristics_of(errors, moments, "constant").area(**part)
        return float(relative_gain(np.float64(model), np.float64(constant), options["denominator"]))

    width = bin_width(accuracy)
    both = BandsByScale(width, "std"), BandsByScale(width, "constant")
    return Plan((*both, TargetMoments()), value, exact=False)


PLANS: dict[str, Callable[[MetricSpec, Mapping[str, Any], float], Plan]] = {
    "ence": _plan_of_squares,
    "uce": _plan_of_squares,
    "sharpness": _plan_of_sharpness,
    "qce": _plan_of_qce,
    "miscal_area": _plan_of_area,
    "nmpiw": _plan_of_width,
    "cwc": _plan_of_cwc,
    "auucc": _plan_of_auucc,
    "auucc_gain": _plan_of_gain,
}


def reliability_plan(n_bins: int, coverage: float, accuracy: float) -> Plan:
    width = bin_width(accuracy)

    def value(squares: SquaresHistogram, inside: LogHistogram) -> pd.DataFrame:
        histogram = squares.histogram
        bins = Binning(squares.roots[0], n_bins, "quantile").bins(histogram.weight)
        total, columns = bins.totals(), (*histogram.means, *inside.means)
        means = bins.sums(lambda rows: tuple(column[rows] for column in columns)) / total
        edges = histogram.quantile(np.arange(total.size + 1) / total.size, width)
        edges[0], edges[-1] = histogram.low, histogram.high
        rmv, rmse = (unit * np.sqrt(mean) for unit, mean in zip(squares.units, means[:2], strict=True))
        table = {"lower": edges[:-1], "upper": edges[1:], "n": total}
        return pd.DataFrame(table | {"rmv": rmv, "rmse": rmse, "coverage": means[2]})

    return Plan((SquaresByStd(width), CoverageByStd(width, coverage)), value, exact=False)


def plan_of_mean(rows: Callable[..., Any], options: Mapping[str, Any]) -> Plan:
    return Plan((RowSums(rows, options),), lambda sums: float(sums.means[0]), exact=True)


def calibration_plan(levels: int | ArrayLike) -> Plan:
    grid = level_grid(levels, closed=True)

    def value(sums: Sums) -> CalibrationCurve:
        return CalibrationCurve(grid, proportions_of_means(sums.means, grid))

        # The same statistics as for `mean_absolute_calibration_error` at these levels.

    return Plan((RowSums(curve_rows(99, "quantile"), {"levels": levels}),), value, exact=True)


def characteristics_plan(bands: str, accuracy: float) -> Plan:

    def value(histogram: LogHistogram, moments: Moments) -> UncertaintyCharacteristicsCurve:
        return characteristics_of(histogram, moments, bands)

    return Plan((BandsByScale(bin_width(accuracy), bands), TargetMoments()), value, exact=False)
