"""How each metric merges: the statistics that it needs, and its value as a function of them.

Metrics that are functions of means per row come from their records, whatever they are. The others depend on
the range of the targets, or on the order of the rows by one number; those are listed here.
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
from skuq.metrics._accumulator.histogram import LogHistogram, bin_width
from skuq.metrics._accumulator.statistics import (
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
from skuq.metrics._average_calibration import CalibrationCurve, curve_rows
from skuq.metrics._binning import Binning
from skuq.metrics._calibration_area import area_of_lines
from skuq.metrics._interval_width import NORMS, check_penalty, relative_width, width_unit
from skuq.metrics._intervals import coverage_rows, width_rows
from skuq.metrics._kernels import level_grid
from skuq.metrics._levels import proportions_of_means
from skuq.metrics._make_scorer import check_options
from skuq.metrics._quantile_calibration import binned_coverage_error
from skuq.metrics._spec import MetricSpec
from skuq.metrics._ucc.curve import UncertaintyCharacteristicsCurve, uncertainty_characteristics_curve
from skuq.metrics._ucc.scores import relative_gain

Value = Callable[..., Any]


@dataclass(frozen=True)
class Plan:
    """How a metric or a table is computed from what is accumulated.

    Parameters
    ----------
    statistics : tuple of Statistic
        What to accumulate.
    value : callable
        The result as a function of the values of the statistics.
    exact : bool
        Whether the result is that of all rows up to rounding.
    """

    statistics: tuple[Statistic, ...]
    value: Value
    exact: bool


def plan_of(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    """Return the plan of a metric; one that does not merge raises."""
    name = spec.abbreviation
    if spec.of_classes:
        raise ValueError(
            f"`metrics` must be of distributions or intervals, got {name!r}, of classes. Add its values for "
            "blocks of rows, weighted by their rows, or compute it on a sample of the rows."
        )
    check_options(spec, dict(options))
    _check_reference(spec, options)
    if _is_mean(spec, options):
        return _plan_of_means(spec, options)
    if spec.needs_X:
        raise ValueError(
            f"`metrics` must merge, and {name!r} does not: it depends on the features of all rows. Compute "
            "it on a sample of the rows."
        )
    if spec.random:
        raise ValueError(
            f"`metrics` must merge, and {name!r} does not: it draws groups at random from all rows. Compute "
            "it on a sample of the rows."
        )
    if name not in PLANS:
        raise ValueError(
            f"`metrics` must merge, and {name!r} does not: it is no function of means per row, of counts or "
            "of one histogram. Compute it on a sample of the rows."
        )
    defaults = {key: value for key, value in spec.options.items() if key not in options}
    return PLANS[name](spec, {**defaults, **options}, accuracy)


def _check_reference(spec: MetricSpec, options: Mapping[str, Any]) -> None:
    """Raise for a reference with a row for each of the rows to come."""
    reference = options.get("reference") if "reference" in spec.one_of else None
    rows = 1 if reference is None else len(as_distribution(reference))
    if rows != 1:
        raise ValueError(
            f"`options` of {spec.abbreviation!r} must hold a `reference` of one row, which stands for all, "
            f"got {rows} rows: those of later updates are not known."
        )


def _is_mean(spec: MetricSpec, options: Mapping[str, Any]) -> bool:
    """Return whether the metric is a function of means per row in any units, as it shows on three rows."""
    if spec.rows is None:
        return False
    return spec.rows(np.array([-1e200, 0.0, 1e200]), Normal(np.zeros(3), 1e200), **options) is not None


def _plan_of_means(spec: MetricSpec, options: Mapping[str, Any]) -> Plan:
    def value(sums: Sums) -> float:
        return float(value_of_means(spec, options, sums.means))

    return Plan((RowSums(spec.rows, options),), value, exact=True)  # type: ignore[arg-type]


def value_of_means(spec: MetricSpec, options: Mapping[str, Any], means: FloatArray) -> FloatArray:
    """Return the metric of means per row, shape (..., c), as `MetricSpec.combine` takes them."""
    if means.shape[-1] == 1:
        means = means[..., 0]
    return means if spec.combine is None else np.asarray(spec.combine(means, **options))


def representatives(squares: SquaresHistogram) -> tuple[FloatArray, Normal, FloatArray]:
    """Return one row for each bin of the standard deviation: targets, forecasts and weights.

    Their squared errors and variances are the means of the bin.
    """
    std, error = squares.roots
    return error, Normal(np.zeros_like(error), std), squares.histogram.weight


def _plan_of_squares(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    """ENCE and UCE: functions of variances and squared errors of rows in bins of the former."""

    def value(squares: SquaresHistogram) -> float:
        y, dist, weight = representatives(squares)
        return float(spec.compute(y, dist, sample_weight=weight, **options))

    return Plan((SquaresByStd(bin_width(accuracy)),), value, exact=False)


def _plan_of_sharpness(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    """The root mean variance, the kind of sharpness that is no mean per row."""

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
    """Return the levels between which the calibration curve is taken as straight for its exact area.

    Both rise, so the areas differ by at most half the distance of the levels, and hardly ever by so much.
    """
    return np.linspace(0.0, 1.0, int(np.ceil(1 / accuracy)) + 1)


def _plan_of_area(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    exact = options["levels"] is not None
    levels = level_grid(options["levels"], closed=True) if exact else area_levels(accuracy)

    def value(sums: Sums) -> float:
        return area_of_lines(levels, proportions_of_means(sums.means, levels))

    return Plan((RowSums(curve_rows(99, options["kind"]), {"levels": levels}),), value, exact=exact)


def _unit_of_targets(options: Mapping[str, Any]) -> Callable[[Moments], float]:
    """Return the number that widths are divided by, as a function of the moments of the targets."""
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
    """Return the curve of one representative row for each bin of the critical scale."""
    *band, error = histogram.means
    dist = Normal(np.zeros_like(error), band[0] if band else 1.0)
    curve = uncertainty_characteristics_curve(error, dist, sample_weight=histogram.weight, bands=bands)
    return replace(curve, target_std=moments.std)


_SHAPE = {"bands": "std", "vary": "scale", "zero_band": "keep"}
_AREA = ("x_axis", "y_axis", "x_range", "y_range", "rule", "normalize")


def _check_shape(spec: MetricSpec, options: Mapping[str, Any]) -> None:
    """Raise for curves whose critical values are not those of the histogram."""
    for name, plain in _SHAPE.items():
        if options[name] != plain:
            raise ValueError(
                f"`options` of {spec.abbreviation!r} must have {name}={plain!r}, got {options[name]!r}: "
                "the curve of other bands does not merge. Compute it on a sample of the rows."
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
    """Return the plan of the reliability table."""
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
    """Return the plan of the mean of one number per row."""
    return Plan((RowSums(rows, options),), lambda sums: float(sums.means[0]), exact=True)


def calibration_plan(levels: int | ArrayLike) -> Plan:
    """Return the plan of the calibration curve."""
    grid = level_grid(levels, closed=True)

    def value(sums: Sums) -> CalibrationCurve:
        return CalibrationCurve(grid, proportions_of_means(sums.means, grid))

    # The same sums as those of `mean_absolute_calibration_error` at these levels.
    return Plan((RowSums(curve_rows(99, "quantile"), {"levels": levels}),), value, exact=True)


def characteristics_plan(bands: str, accuracy: float) -> Plan:
    """Return the plan of the uncertainty characteristics curve."""

    def value(histogram: LogHistogram, moments: Moments) -> UncertaintyCharacteristicsCurve:
        return characteristics_of(histogram, moments, bands)

    return Plan((BandsByScale(bin_width(accuracy), bands), TargetMoments()), value, exact=False)
