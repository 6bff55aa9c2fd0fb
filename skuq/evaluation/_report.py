"""All metrics of forecasts in one table, with intervals, values of calibrated models and explanations."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from skuq._numeric import ROUNDING
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    as_array,
    check_integer,
    check_mapping,
    check_random_state,
    check_single_coverage,
)
from skuq.distributions import Distribution
from skuq.distributions._convert import as_forecast, is_array
from skuq.distributions._level_quadrature import warn_of_unreachable_level
from skuq.evaluation._decomposition import Problem
from skuq.evaluation._report_table import (
    Headline,
    Result,
    UncertaintyReport,
    describe,
    headline,
    headline_of_classes,
    is_in_percent,
    unit_name,
)
from skuq.evaluation._resampling import (
    Evaluation,
    Rows,
    RowsOfClasses,
    argument_name,
    bootstrap,
    seed_of,
)
from skuq.evaluation._significance import interval_of_draws
from skuq.evaluation._simulated import simulated
from skuq.exceptions import SmallSampleWarning
from skuq.metrics._class_scores import check_class_forecast, kind_of
from skuq.metrics._crps_parts import DEFAULT_LEVELS, crps_levels, crps_sections
from skuq.metrics._scorer import check_options, require_spec
from skuq.metrics._spec import MetricFunction, MetricSpec, all_specs, warn_of_small_report

COLUMNS = ("miscalibration", "discrimination", "uncertainty")

MOST_SIMULATED, FEWEST_SIMULATIONS = 400_000, 40
"""Maximum number of targets in all draws for the parts, and smallest number of draws.

There are draws if there are at most 10 000 rows. With more rows, the miscalibration of a calibrated
forecast is below 1 % of the CRPS.
"""


class CRPSParts:
    """Parts of the CRPS of one forecast. All metrics with the same levels use the same parts."""

    def __init__(self, rows: Rows, dist: Distribution) -> None:
        self.rows, self.dist = rows, dist
        self._problems: dict[tuple[float, ...], Problem] = {}
        self._values: dict[tuple[float, ...], FloatArray] = {}

    def value(self, spec: MetricSpec, options: Mapping[str, Any]) -> float:
        key = self._prepare(options)
        return max(float(self._values[key][COLUMNS.index(str(spec.crps_part))]), 0.0)

    def simulate(self, options: Mapping[str, Any], n: int, rng: np.random.RandomState) -> FloatArray:
        """Return the parts for targets that are drawn from the forecasts, shape (r, 3).

        With many rows, there are no draws, so r is 0.
        """
        possible = int(MOST_SIMULATED // max(self.rows.total, 1))
        if possible < FEWEST_SIMULATIONS:
            return np.empty((0, 3))
        problem = self._problems[self._prepare(options)]
        share = problem.sections.share
        blocks = [
            np.moveaxis(sections.parts(y), 2, 1) @ share
            for sections, y in problem.redrawn(min(n, possible), rng)
        ]
        return np.concatenate([np.empty((0, 3)), *blocks])

    def _prepare(self, options: Mapping[str, Any]) -> tuple[float, ...]:
        levels = options.get("levels", DEFAULT_LEVELS)
        key = tuple(np.ravel(levels).tolist())
        if key not in self._problems:
            sections = crps_sections(self.dist, *crps_levels(levels))
            problem = Problem(self.rows, sections, self.dist)
            self._problems[key], self._values[key] = problem, sections.share @ problem.parts()[0, :, 1:]
        return key


def record(
    spec: MetricSpec,
    options: Mapping[str, Any],
    numbers: Mapping[str, float],
    n: float,
    confidence: float,
    error: str = "",
) -> dict[str, Any]:
    """Return one row of the table.

    The array ``numbers`` holds the value, its interval and the range of values of calibrated models.
    """
    optimum = spec.optimum
    if isinstance(optimum, str):
        optimum = options.get(optimum, spec.options[optimum])
    if spec.units == 0:  # The metric has no units, so such small numbers are rounding errors.
        numbers = {name: 0.0 if abs(value) < ROUNDING else value for name, value in numbers.items()}
    result = Result(spec, **numbers, optimum=optimum, n=n, confidence=confidence, error=error)
    return {
        "metric": spec.abbreviation,
        "title": spec.title,
        **numbers,
        "units": unit_name(spec),
        "direction": spec.direction or "",
        "optimum": np.nan if optimum is None else float(optimum),
        "reading": describe(result),
    }


def assemble(
    tables: Mapping[str, pd.DataFrame],
    headlines: Mapping[str, Headline],
    n: float,
    confidence: float,
    *,
    single: bool,
) -> UncertaintyReport:
    if single:
        table = next(iter(tables.values())).set_index("metric")
    else:
        whole = pd.concat([part.assign(model=name, place=range(len(part))) for name, part in tables.items()])
        order = {name: i for i, name in enumerate(tables)}
        whole = whole.sort_values(["place", "model"], key=lambda c: c.map(order) if c.name == "model" else c)
        table = whole.drop(columns="place").set_index(["metric", "model"])
    report = UncertaintyReport(table)
    specs = all_specs()
    in_percent = [spec.title for spec in specs.values() if is_in_percent(spec)]
    used = [specs[name] for name in table.index.get_level_values("metric").unique()]
    report.attrs = {
        "rows": n,
        "confidence": confidence,
        "summary": {name: headline.words for name, headline in headlines.items()},
        "headlines": {name: asdict(headline) for name, headline in headlines.items()},
        "in_percent": in_percent,
        "of_classes": used[0].of_classes,
        "definitions": {spec.abbreviation: spec.definition for spec in used},
    }
    return report


class ReportProgress:
    """Progress of a report. It is written to stderr at most ten times."""

    def __init__(self, what: str, total: int, verbose: int) -> None:
        self.what, self.total, self.verbose, self.done = what, total, verbose, 0

    def add(self, steps: int) -> None:
        before, self.done = self.done, self.done + steps
        if self.verbose and 10 * before // self.total < 10 * self.done // self.total:
            sys.stderr.write(f"[uncertainty_report] {self.what} {self.done} of {self.total}\n")


@dataclass
class Entry:
    """One metric of one model, with its value, its resampled values and its values for simulated targets."""

    spec: MetricSpec
    evaluation: Evaluation
    value: float
    error: str = ""
    draws: FloatArray = field(default_factory=lambda: np.empty(0))
    null: FloatArray = field(default_factory=lambda: np.empty(0))

    def numbers(self, n: float, confidence: float, rng: np.random.RandomState) -> dict[str, float]:
        low, high = np.nan, np.nan
        if self.draws.size:
            acceleration = self.evaluation.acceleration(rng)
            low, high = interval_of_draws(self.draws, self.value, acceleration, confidence, "bca")
        numbers = {"value": self.value, "low": low, "high": high}
        formula, ends = self.spec.calibrated, (np.nan, np.nan)
        mean = np.nan if formula is None else formula(n, **self.evaluation.options)
        if self.null.size and np.isfinite(self.null).all():
            mean = float(self.null.mean())
            ends = np.quantile(self.null, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
        return {**numbers, "calibrated": mean, "calibrated_low": ends[0], "calibrated_high": ends[1]}


def uncertainty_report(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    labels: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    sample_weight: ArrayLike | None = None,
    metrics: Sequence[str | MetricFunction] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    n_resamples: int = 300,
    n_draws: int = 100,
    confidence: float = 0.95,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
) -> UncertaintyReport:
    """Return all metrics of a forecast with sentences that explain the values.

    Even a perfect forecast has positive calibration errors, which are larger for fewer rows. The report
    therefore compares each value with the values of a calibrated forecast. For this comparison, targets are
    drawn from the forecasts. Each value also has a bootstrap confidence interval.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Numbers or class labels. Use rows on which no model was trained.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target, or a mapping from names to the forecasts of several models. For bounds, the
        report contains only the metrics of intervals. Forecasts of classes are class probabilities of shape
        (n, K), or prediction sets as a boolean array.
    labels : array-like of shape (K,), default=None
        Class of each column, such as ``estimator.classes_``. Required for two classes, because two columns
        without labels are interpreted as bounds. Otherwise None means the sorted classes of `y_true`, which
        must then contain all classes.
    coverage : float, default=0.9
        Nominal coverage of the central interval, or of the prediction set of a classifier. All metrics of a
        single interval or set use this coverage. If `y_pred` holds bounds or sets, they must have this
        coverage.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    metrics : sequence of str or callable, default=None
        Metrics of skuq, by abbreviation or function. None means all metrics that require neither options nor
        X. For your own metric, use `bootstrap_interval`.
    options : mapping of str to mapping, default=None
        Options of the metrics. The keys are the abbreviations of the metrics. The report includes a metric
        with required options only if you pass these options, for example
        ``options={"crpss": {"y_train": y_train}}``.
    n_resamples : int, default=300
        Number of bootstrap resamples for the intervals. 0 omits the intervals.
    n_draws : int, default=100
        Number of times that targets are drawn from the forecasts. 0 omits the values of a calibrated
        forecast.
    confidence : float, default=0.95
        Nominal coverage of the confidence intervals, and probability that the value of a calibrated forecast
        lies in the given range.
    random_state : int, RandomState instance or None, default=None
        Controls the resamples and the draws. Pass an int for reproducible output across calls.
    verbose : int, default=0
        1 writes the progress to stderr: at most ten lines for the resamples, and at most ten lines for the
        draws.

    Returns
    -------
    report : UncertaintyReport
        DataFrame with one row per metric, or per metric and model. `title`: name of the metric; `value`;
        `low`, `high`: confidence interval; `calibrated`, `calibrated_low`, `calibrated_high`: mean and range
        of the metric for a calibrated model; `units`, `direction`, `optimum`: properties of the metric;
        `reading`: sentence that explains the value. If a metric is undefined, its value is NaN, and its
        reading states the reason. Printing the report shows a table with the models side by side.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 50 rows. There is one warning for all metrics and models.

    See Also
    --------
    paired_permutation_test : Test of the difference between two models.
    bootstrap_interval : Interval of one metric, with more options.

    Notes
    -----
    The first line of the printed report says "perhaps" if the coverage or the share of targets below the
    median differs from its right value by two to three standard errors. Chance may explain this difference.

    Resamples are drawn as in `bootstrap_interval`. Each draw computes all metrics for targets drawn from the
    forecasts. If the forecasts have a density, metrics of the PIT values use uniform numbers instead. The
    parts of the CRPS (`skuq.metrics.crps_miscalibration_error`) have no interval, because
    repeated rows of a resample increase the parts. For more than 10 000 rows, the parts also have no values
    of a calibrated forecast, because the miscalibration of a calibrated forecast is then small. The report
    takes longer for quantiles and samples than for normal forecasts. ``n_draws=0`` takes much less time, and
    leaves out the values of a calibrated forecast.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import uncertainty_report
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> y = x + rng.normal(size=1000)
    >>> dist = Normal(x, np.full(1000, 0.7))
    >>> report = uncertainty_report(y, dist, metrics=["picp", "crps"], random_state=0)
    >>> print(report.loc["picp", "reading"])
    overconfident: the 90 % intervals contain 73 % of the targets
    >>> report.loc["crps", ["value", "calibrated"]].astype(float).round(2).to_dict()
    {'value': 0.6, 'calibrated': 0.39}

    A classifier:

    >>> proba = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (rng.random((1000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    >>> overconfident = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    >>> report = uncertainty_report(y, overconfident, labels=[0, 1, 2], metrics=["ece"], random_state=0)
    >>> print(report.loc["ece", "reading"])
    the probabilities are off by 0.125 on average; worse than a calibrated model, 0.020 to 0.043
    """
    nominal = check_single_coverage(coverage)
    check_integer(n_resamples, "n_resamples", 0)
    check_integer(n_draws, "n_draws", 0)
    level = check_single_coverage(confidence, "confidence")
    rng = check_random_state(random_state)
    check_integer(verbose, "verbose", 0)
    models, settings = _models(y_pred), _settings(options)
    unsorted = _rows(y_true, models, labels, sample_weight)
    of_classes = isinstance(unsorted, RowsOfClasses)
    chosen = _chosen(metrics, settings, of_classes)
    # All models are evaluated with the same seed, so that their random numbers are equal.
    seeds = {
        spec.abbreviation: seed_of(settings.get(spec.abbreviation, {}), rng) for spec in chosen if spec.random
    }
    tables, headlines = {}, {}
    forecasts = {
        name: unsorted.of(each, argument_name(y_pred, name), as_forecast) for name, each in models.items()
    }
    for name, checked in forecasts.items():
        rows, forecast = _by_uncertainty(unsorted, checked, chosen)
        if isinstance(forecast, Distribution):
            warn_of_unreachable_level(forecast._unreachable_level(np.asarray(nominal), "coverage"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallSampleWarning)  # Each metric would repeat this warning.
            parts = CRPSParts(rows, forecast) if any(spec.crps_part for spec in chosen) else None
            entries = _values(rows, forecast, parts, chosen, settings, nominal, seeds)
            # The parts of the CRPS have no intervals, and their draws are computed together.
            single = [entry for entry in entries if not entry.error and entry.spec.crps_part is None]
            evaluations = [entry.evaluation for entry in single]
            whose = f"{name}: " if isinstance(y_pred, Mapping) else ""
            if n_resamples:
                progress = ReportProgress(f"{whose}resample", n_resamples, verbose)
                draws = bootstrap(evaluations, rows, n_resamples, rng, progress.add)
                for entry, values in zip(single, draws, strict=True):
                    entry.draws = values
            if isinstance(forecast, Distribution) or (of_classes and forecast.dtype != np.bool_):
                progress = ReportProgress(f"{whose}draw", n_draws, verbose)
                null = simulated(evaluations, rows, forecast, n_draws, rng, progress.add)
                for entry, values in zip(single, null, strict=True):
                    entry.null = values
                if parts is not None:
                    _simulate_parts(entries, parts, n_draws, rng)
            table = []
            for entry in entries:
                numbers = entry.numbers(rows.total, level, rng)
                used = entry.evaluation.options
                table.append(record(entry.spec, used, numbers, rows.total, level, entry.error))
            tables[name] = pd.DataFrame(table)
            summarize = headline_of_classes if of_classes else headline
            headlines[name] = summarize(rows, forecast, nominal)
    warn_of_small_report(unsorted.total)
    return assemble(tables, headlines, unsorted.total, level, single=not isinstance(y_pred, Mapping))


def _models(y_pred: Any) -> dict[str, Any]:
    if not isinstance(y_pred, Mapping):
        return {"model": y_pred}
    if not y_pred:
        raise ValueError("`y_pred` must hold at least one forecast, got none.")
    models = {str(name): forecast for name, forecast in y_pred.items()}
    if len(models) < len(y_pred):
        raise ValueError(f"`y_pred` must have names that differ as strings, got {list(y_pred)}.")
    return models


def _rows(
    y_true: ArrayLike, models: Mapping[str, Any], labels: ArrayLike | None, sample_weight: ArrayLike | None
) -> Rows:
    """Return the checked rows.

    Labels, sets, targets that are not numbers, or more than two columns of numbers in [0, 1] mean that the
    task is a classification.
    """
    arrays = [as_array(forecast, "y_pred") for forecast in models.values() if is_array(forecast)]
    tables = [each for each in arrays if each.ndim == 2]
    if labels is not None and not tables:
        raise ValueError(
            "`y_pred` must hold probabilities or sets of shape (n, K) if `labels` are given, got "
            f"{type(next(iter(models.values()))).__name__}."
        )
    for each in tables:
        if labels is not None or each.dtype == np.bool_ or _are_many_classes(y_true, each):
            n_classes = check_class_forecast(each).shape[1]
            return RowsOfClasses(y_true, labels, n_classes, sample_weight)
    if any(_are_two_classes(y_true, each) for each in tables):
        raise ValueError(
            "`labels` must be given for two classes, got None. Without labels, two columns are bounds of "
            "intervals. Pass `labels=estimator.classes_`."
        )
    return Rows(y_true, sample_weight)


def _are_many_classes(y_true: ArrayLike, table: np.ndarray) -> bool:
    y, k = np.ravel(np.asarray(y_true)), table.shape[1]
    if k == 2 or not table.size:
        return False
    if kind_of(y) in ("texts", "truth values"):
        return True
    # Samples in [0, 1] have continuous targets, so there are more different targets than columns.
    may_be_shares = table.dtype.kind in "fiu" and table.min() >= 0 and table.max() <= 1
    return bool(may_be_shares and len(pd.unique(y)) <= k)


def _are_two_classes(y_true: ArrayLike, table: np.ndarray) -> bool:
    y = np.ravel(np.asarray(y_true))
    if kind_of(y) in ("texts", "truth values"):
        return True
    # If the targets have only two values, bounds are unlikely to sum to 1 in every row.
    repeats_two_values = len(pd.unique(y)) <= min(2, y.size - 1)
    return table.dtype.kind == "f" and repeats_two_values and np.allclose(table.sum(axis=1), 1)


def _settings(options: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, Any]]:
    """Return the options by abbreviation. The keys of the user may be any names of the metrics."""
    settings: dict[str, dict[str, Any]] = {}
    for name, given in check_mapping(options, "options").items():
        spec = require_spec(name)
        if spec.abbreviation in settings:
            raise ValueError(
                f"`options` must contain each metric at most once, got {spec.abbreviation!r} under two names."
            )
        if not isinstance(given, Mapping):
            raise TypeError(f"`options` of {name!r} must be a mapping from options to values, got {given!r}.")
        check_options(spec, dict(given))
        settings[spec.abbreviation] = dict(given)
    return settings


def _chosen(
    metrics: Sequence[str | MetricFunction] | None, settings: Mapping[str, Any], of_classes: bool
) -> list[MetricSpec]:
    """Return the records of the metrics in the report."""
    if isinstance(metrics, str):
        raise TypeError(f"`metrics` must be a sequence of names, got the string {metrics!r}.")
    if metrics is None:
        fitting = [
            spec for spec in all_specs().values() if spec.of_classes == of_classes and not spec.of_targets
        ]
        usual = [spec for spec in fitting if spec.ready_made and not spec.needs_X]
        chosen = [spec for spec in fitting if spec in usual or spec.abbreviation in settings]
    else:
        chosen = list({id(spec): spec for spec in map(require_spec, metrics)}.values())
    if not chosen:
        raise ValueError("`metrics` must name at least one metric, got none.")
    for spec in chosen:
        if spec.of_targets:
            raise ValueError(
                f"`metrics` must be metrics of one target, got {spec.abbreviation!r}. Use `joint_report` for "
                "joint distributions of several targets."
            )
        if spec.of_classes != of_classes:
            kind = "classes" if of_classes else "distributions or intervals"
            raise ValueError(
                f"`metrics` must be metrics of {kind}, because `y_pred` holds {kind}. Got "
                f"{spec.abbreviation!r}. Remove this metric."
            )
        if spec.needs_X:
            raise ValueError(
                f"`metrics` must not contain metrics that need X, got {spec.abbreviation!r}. Call "
                f"`{spec.function.__name__}` directly."
            )
    return chosen


def _values(
    rows: Rows,
    forecast: Any,
    parts: CRPSParts | None,
    chosen: list[MetricSpec],
    settings: Mapping[str, Mapping[str, Any]],
    coverage: float,
    seeds: Mapping[str, int],
) -> list[Entry]:
    """Return the metrics with their values. An undefined metric has a reason in place of a value."""
    entries = []
    for each in chosen:
        if not takes(each, forecast):
            continue
        of_sets = each.optimum_of_sets is not None and forecast.dtype == np.bool_
        spec = replace(each, optimum=each.optimum_of_sets) if of_sets else each
        options = settings.get(spec.abbreviation, {})
        common = {"coverage": coverage} if spec.options.get("coverage") == DEFAULT_COVERAGE else {}
        seed = {"random_state": seeds[spec.abbreviation]} if spec.random else {}
        evaluation = Evaluation(spec, {**common, **options, **seed}, rows, forecast)
        try:
            if parts is None or spec.crps_part is None:
                value = evaluation.value()
            else:
                value = parts.value(spec, evaluation.options)
            entries.append(Entry(spec, evaluation, value))
        except ValueError as error:
            if options:
                raise
            entries.append(Entry(spec, evaluation, np.nan, error=str(error)))
    if not entries:
        raise ValueError(
            "`metrics` must include a metric that can evaluate `y_pred`, such as 'picp' for bounds or "
            f"'set_coverage' for sets, got only {', '.join(repr(spec.abbreviation) for spec in chosen)}."
        )
    return entries


def _by_uncertainty(rows: Rows, forecast: Any, chosen: Sequence[MetricSpec]) -> tuple[Rows, Any]:
    """Sort the rows and the forecast by standard deviation.

    They stay unsorted if no metric bins the standard deviations.
    """
    in_bins = any(spec.needs == "moments" for spec in chosen)
    if in_bins and isinstance(forecast, Distribution):
        try:
            std = forecast.std()
        # Some distributions have no standard deviation, for example the Cauchy distribution.
        except ValueError:
            return rows, forecast
        order = np.argsort(std, kind="stable")
        rows, forecast = rows.take(order), forecast[order]
    return rows, forecast


def _simulate_parts(entries: list[Entry], parts: CRPSParts, n_draws: int, rng: np.random.RandomState) -> None:
    """Compute the parts of the CRPS for targets drawn from the forecasts."""
    drawn: dict[str, FloatArray] = {}
    for entry in entries:
        if entry.spec.crps_part is not None and not entry.error:
            key = repr(entry.evaluation.options)
            if key not in drawn:
                drawn[key] = parts.simulate(entry.evaluation.options, n_draws, rng)
            entry.null = drawn[key][:, COLUMNS.index(entry.spec.crps_part)]


def takes(spec: MetricSpec, forecast: Any) -> bool:
    if spec.of_classes:
        return bool(spec.needs == "set" or forecast.dtype != np.bool_)
    return isinstance(forecast, Distribution) or spec.needs == "interval"
