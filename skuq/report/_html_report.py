"""HTML report of forecasts: a page that needs no other file, and the same values as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from html import escape
from json import dumps
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._compat import count_rows, installed_versions, is_classifying, safe_indexing
from skuq._typing import ArrayLike
from skuq._validation import (
    DEFAULT_COVERAGE,
    as_array,
    check_integer,
    check_mapping,
    check_sample_weight,
    check_single_coverage,
)
from skuq.displays._display import check_cv_results, models_of_cv
from skuq.displays._drawing import check_matplotlib
from skuq.distributions import Distribution, concat
from skuq.evaluation import uncertainty_report
from skuq.evaluation._report import assemble
from skuq.evaluation._report_table import Headline, UncertaintyReport
from skuq.prediction import predict_dist
from skuq.prediction._predict_set import class_proba
from skuq.report._advice import Evidence, Finding, findings, verdict
from skuq.report._measure import (
    Accumulator,
    Diagnostics,
    Parts,
    checked_forecasts,
    coverage_of_accumulators,
    coverage_of_parts,
    data_hash,
    diagnostics_of,
    diagnostics_of_accumulator,
    facts_of,
    facts_of_accumulator,
    groups_of,
    periods_of,
)
from skuq.report._page import (
    Figure,
    check_jinja2,
    figures_of,
    figures_of_accumulators,
    figures_of_parts,
    models_of,
    plain_values,
    render,
    write_together,
)


def predictions_of(models: Mapping[str, Any], X: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the forecasts of all estimators, and the labels of classifiers."""
    classify = {is_classifying(each) for each in models.values()}
    if len(classify) > 1:
        raise ValueError("`estimator` must hold only classifiers or only regressors, got both.")
    if classify == {False}:
        return {name: predict_dist(each, X) for name, each in models.items()}, {}
    labels = [np.asarray(each.classes_) for each in models.values()]
    if any(not np.array_equal(each, labels[0]) for each in labels):
        raise ValueError("`estimator` must hold classifiers with equal `classes_`, got different classes.")
    return {name: class_proba(each, X) for name, each in models.items()}, {"labels": labels[0]}


def parameters_of(models: Mapping[str, Any]) -> dict[str, str]:
    return {f"Model {name}": " ".join(repr(each).split()) for name, each in models.items()}


def taken(values: Any, rows: np.ndarray) -> Any:
    return None if values is None else safe_indexing(values, rows)


def call_text(method: str, arguments: str, options: Mapping[str, Any]) -> str:
    shown = [f"{name}={each!r}" for name, each in options.items() if isinstance(each, bool | int | float)]
    return f"HTMLReport.{method}({', '.join([arguments, *shown])})"


def check_report(report: Any, name: str) -> UncertaintyReport:
    if not isinstance(report, UncertaintyReport) or "headlines" not in report.attrs:
        raise TypeError(
            f"`{name}` must be a report from uncertainty_report, got {type(report).__name__}. Pass the whole "
            "report, not a selection of its rows."
        )
    return report


def joined(reports: Mapping[str, UncertaintyReport]) -> UncertaintyReport:
    """Return one report of several models."""
    if not reports:
        raise ValueError("`reports` must hold at least one report, got none.")
    tables, headlines, goals = {}, {}, set()
    attrs = check_report(next(iter(reports.values())), "reports").attrs
    for name, report in reports.items():
        own = check_report(report, "reports").attrs
        for key in ("rows", "confidence", "of_classes"):
            if attrs[key] != own[key]:
                raise ValueError(
                    f"`reports` must have equal {key}, got {attrs[key]!r} and {own[key]!r}. Evaluate all "
                    "models on the same rows."
                )
        for inner, headline in own["headlines"].items():
            label = str(name) if report.index.nlevels == 1 else f"{name}, {inner}"
            table = report if report.index.nlevels == 1 else report.xs(inner, level="model")
            tables[label], headlines[label] = pd.DataFrame(table).reset_index(), Headline(**headline)
            goals.add(float(headline["claimed"]))
    if len(goals) > 1 and not attrs["of_classes"]:
        raise ValueError(
            f"`reports` must have equal coverage, got {sorted(goals)}. Widths and scores of intervals with "
            "different coverages cannot be compared."
        )
    return assemble(tables, headlines, attrs["rows"], attrs["confidence"], single=False)


MOST_DRAWN_ROWS = 100_000_000
"""Maximum number of rows times resamples, if the number of resamples is not given."""


@dataclass(kw_only=True, eq=False, repr=False)
class HTMLReport:
    """Report of one or several models as one HTML page, with findings in plain words.

    The page states what was measured on which rows, what is wrong with each model, and which class corrects
    the fault. A table shows all metrics with their meaning, their interval and the value for a calibrated
    model. The page contains all figures, so you can send it as a single file, and it loads nothing from the
    internet. `save` also writes the same values as JSON.

    Create the report with `from_estimator`, `from_predictions`, `from_cv_results`, `from_reports` or
    `from_accumulator`. The page needs Jinja2 and matplotlib (the extra ``report``).

    Parameters
    ----------
    report : UncertaintyReport
        Metrics of all models.
    figures : sequence of figures, default=()
        Figures of the page, in order.
    slices : mapping, default={}
        Coverage of parts of the rows: a mapping from the name of the groups to a mapping from models to
        tables.
    diagnostics : mapping, default={}
        Further numbers of each model, from which findings follow.
    facts : mapping of str to str, default={}
        Description of the rows and forecasts.
    origin : mapping of str to str, default={}
        Call, hash of the data, and seed.
    title : str, default="Uncertainty report"
        Title of the page.
    created : datetime or str, default=None
        Time on the page. None means the current time. Pass a time for reproducible bytes.

    Attributes
    ----------
    findings : dict of str to list
        Findings of each model, the faults first. Each finding has a severity ("wrong", "note" or "good"), a
        title, a description, a next step, and classes that correct the fault.
    summaries : dict of str to str
        Verdict on each model and its coverage, without a period.
    html : str
        The page.
    values : dict
        All values of the page, as in the JSON file.

    See Also
    --------
    skuq.evaluation.uncertainty_report : The metrics of the page as a DataFrame.

    Notes
    -----
    A fault of the coverage or of the bias is a difference of at least one percentage point and three standard
    errors, so that chance does not explain it. A smaller difference is a note. Faults with the same remedy
    are one finding. The coverage of groups and periods is tested jointly: for a calibrated model, the
    probability of a fault in any part is at most 1 %.

    Each line of code of a finding runs after ``import skuq`` if its variables are defined: ``model``, ``X``
    and ``y``, or the past forecasts ``old_forecasts`` with their targets ``old_y``, and ``forecasts``. Lines
    for the parts of a grouping also use ``column``, the column of X with the groups, or masks of the rows of
    one part: ``old_rows`` of the past forecasts, and ``rows`` of ``forecasts``.

    Two calls with the same data, the same `random_state` and the same `created` give the same bytes if the
    versions of all packages are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.report import HTMLReport
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> y = x + rng.normal(size=500)
    >>> report = HTMLReport.from_predictions(y, Normal(x, np.full(500, 0.6)), n_resamples=20, n_draws=20)
    >>> report.findings["model"][0].title
    'The intervals are too narrow'
    >>> [tool.name for tool in report.findings["model"][0].tools]
    ['skuq.UncertaintyRegressor', 'skuq.recalibration.StdScalingRecalibrator']
    """

    report: UncertaintyReport
    figures: Sequence[Figure] = ()
    slices: Parts = field(default_factory=dict)
    diagnostics: Mapping[str, Diagnostics] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    title: str = "Uncertainty report"
    created: datetime | str | None = None

    def __post_init__(self) -> None:
        check_jinja2("HTMLReport")
        if self.created is None:
            self.created = datetime.now(UTC)
        attrs = self.report.attrs
        self.findings: dict[str, list[Finding]] = {}
        self.summaries: dict[str, str] = {}
        self._models = models_of(self.report)
        for name, table in self._models.items():
            parts = {by: tables[name] for by, tables in self.slices.items() if name in tables}
            diagnostics = self.diagnostics.get(name, Diagnostics())
            headline, rows, of_classes = attrs["headlines"][name], attrs["rows"], attrs["of_classes"]
            evidence = Evidence(headline, table, rows, of_classes, parts, diagnostics)
            self.findings[name] = findings(evidence)
            self.summaries[name] = verdict(evidence, self.findings[name])
            if not evidence.knows_intervals and "picp" in table.index:
                table.loc["picp", "reading"] = self.summaries[name]

    @property
    def html(self) -> str:
        """The page as one text."""
        return render(
            self.report,
            self._models,
            self.slices,
            title=self.title,
            created=self._time(),
            findings=self.findings,
            summaries=self.summaries,
            figures=self.figures,
            facts=self.facts,
            trace=self._trace(),
        )

    @property
    def values(self) -> dict[str, Any]:
        """All values of the page, without the figures."""
        models = {}
        for name, table in self._models.items():
            parts = {by: tables[name] for by, tables in self.slices.items() if name in tables}
            models[name] = {
                "summary": self.summaries[name],
                "shares": self.report.attrs["headlines"][name],
                "findings": [asdict(finding) for finding in self.findings[name]],
                "metrics": table.rename_axis("metric").reset_index().to_dict("records"),
                "parts": {
                    by: part.rename_axis("part").reset_index().to_dict("records")
                    for by, part in parts.items()
                },
            }
        values = {"title": self.title, "created": self._time(), "rows": self.report.attrs["rows"]}
        values |= {"facts": self.facts, "models": models, "trace": self._trace()}
        plain: dict[str, Any] = plain_values(values)
        return plain

    def _trace(self) -> dict[str, str]:
        return {**self.origin, "Created": self._time(), **installed_versions()}

    def _time(self) -> str:
        if isinstance(self.created, datetime):
            aware = self.created if self.created.tzinfo else self.created.replace(tzinfo=UTC)
            return f"{aware.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return str(self.created)

    def __repr__(self) -> str:
        faults = sum(each.severity == "wrong" for found in self.findings.values() for each in found)
        return (
            f"HTMLReport({len(self.findings)} models, {self.report.attrs['rows']:.12g} rows, {faults} faults)"
        )

    def _repr_html_(self) -> str:
        """Return the page in a frame, so that its style does not change the notebook."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="{escape(self.title)}" sandbox="allow-scripts" '
            'style="width:100%;height:40rem;border:1px solid #8a8f98"></iframe>'
        )

    def save(self, path: str | os.PathLike[str], *, json: bool = True) -> Path:
        """Write the page, and a JSON file with the same values next to it.

        Each file is complete or absent: it is written under another name and then renamed.

        Parameters
        ----------
        path : str or path-like
            File of the page. The JSON file has the same name with the suffix ``.json``.
        json : bool, default=True
            Whether to write the JSON file.

        Returns
        -------
        path : Path
            File of the page.
        """
        page = Path(path)
        if page.suffix == ".json":
            raise ValueError(f"`path` must not have the suffix .json, got {str(page)!r}. Use .html.")
        texts = {page: self.html}
        if json:
            values = dumps(self.values, indent=1, ensure_ascii=False, allow_nan=False)
            texts[page.with_suffix(".json")] = values + "\n"
        write_together(texts)
        return page

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        labels: ArrayLike | None = None,
        coverage: float = DEFAULT_COVERAGE,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        time: Any = None,
        n_resamples: int | None = None,
        n_draws: int | None = None,
        random_state: int | None = 0,
        title: str = "Uncertainty report",
        created: datetime | str | None = None,
        origin: Mapping[str, str] | None = None,
        verbose: int = 0,
    ) -> Self:
        """Report given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Numbers or class labels of rows on which the model was not trained.
        y_pred : Distribution, frozen scipy distribution, or array-like
            Forecast of every target. Arrays are bounds of shape (n, 2), class probabilities of shape (n, K),
            or prediction sets as booleans. A mapping from names to forecasts reports several models.
        labels : array-like of shape (K,), default=None
            Class of each column, such as ``estimator.classes_``. Required for two classes.
        coverage : float, default=0.9
            Nominal coverage of the central interval. For classifiers, of the prediction set.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        groups : array-like of shape (n,), Series, or DataFrame, default=None
            Group of each row, for the coverage of each group. A Series or DataFrame gives the names.
        time : array-like of shape (n,), default=None
            Time of each row, as dates or numbers, for the coverage of twelve periods of equal length.
        n_resamples : int, default=None
            Number of bootstrap resamples for the intervals; 0 omits the intervals. None means 300, and fewer
            for more than 300 000 rows, at least 20.
        n_draws : int, default=None
            Number of draws of targets from the forecasts; 0 omits the range of calibrated models. None means
            100, and fewer for more than a million rows, at least 20.
        random_state : int or None, default=0
            Seed of the resamples and the draws.
        title : str, default="Uncertainty report"
            Title of the page.
        created : datetime or str, default=None
            Time on the page. None means the current time.
        origin : mapping of str to str, default=None
            Additional entries of the section on the origin of the numbers, such as the names of files.
        verbose : int, default=0
            1 writes the progress to stderr, as in `uncertainty_report`.

        Returns
        -------
        report : HTMLReport
            The report.
        """
        _check_packages("from_predictions")
        level = check_single_coverage(coverage)
        n = len(as_array(y_true, "y_true"))
        report = uncertainty_report(
            y_true,
            y_pred,
            labels=labels,
            coverage=level,
            sample_weight=sample_weight,
            n_resamples=_draws(n_resamples, "n_resamples", 300, n),
            n_draws=_draws(n_draws, "n_draws", 100, n),
            random_state=random_state,
            verbose=verbose,
        )
        models = y_pred if isinstance(y_pred, Mapping) else {"model": y_pred}
        forecasts = checked_forecasts(
            y_true,
            {str(name): each for name, each in models.items()},
            sample_weight=sample_weight,
            coverage=level,
            labels=labels,
            of_classes=report.attrs["of_classes"],
        )
        parts = {by: groups_of(values, by, n) for by, values in _named_groups(groups).items()}
        if time is not None:
            name = str(getattr(time, "name", None) or "time")
            if name in parts:
                raise ValueError(
                    f"`groups` must not have the name of `time`, got {name!r}. Rename the groups."
                )
            parts[name] = periods_of(time, name, n)
        diagnostics = {name: diagnostics_of(forecasts, name) for name in forecasts.models}
        known = [name for name, each in diagnostics.items() if each.gives_intervals(level)]
        slices = {
            by: {name: coverage_of_parts(forecasts, name, each) for name in known}
            for by, each in parts.items()
        }
        options = {"coverage": level, "random_state": random_state}
        options |= {"n_resamples": n_resamples, "n_draws": n_draws}
        trace = {
            "Call": call_text("from_predictions", "y_true, y_pred", options),
            **(origin or {}),
            "SHA-256 of observed values, weights and forecasts": data_hash(forecasts),
            "Seed": str(random_state),
        }
        return cls(
            report=report,
            figures=[*figures_of(forecasts, diagnostics), *figures_of_parts(slices)],
            slices=slices,
            diagnostics=diagnostics,
            facts=facts_of(forecasts),
            origin=trace,
            title=title,
            created=created,
        )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Report the predictions of a fitted estimator.

        Parameters
        ----------
        estimator : object or mapping of str to object
            Fitted regressor that `~skuq.prediction.predict_dist` supports, or fitted classifier with
            ``predict_proba``. A mapping from names to estimators reports several models.
        X : array-like of shape (n, p)
            Features. Use rows on which the estimator was not trained.
        y : array-like of shape (n,)
            Observed targets or classes.
        name : str, default=None
            Name of the model; None means the name of the estimator's class.
        **kwargs : dict
            The other keywords of `from_predictions`.

        Returns
        -------
        report : HTMLReport
            The report.
        """
        _check_packages("from_estimator")
        named = estimator if isinstance(estimator, Mapping) else {name or type(estimator).__name__: estimator}
        models = check_mapping(named, "estimator")
        predictions, labels = predictions_of(models, X)
        origin = {"Call": call_text("from_estimator", "estimator, X, y", kwargs), **parameters_of(models)}
        kwargs["origin"] = {**origin, **(kwargs.get("origin") or {})}
        return cls.from_predictions(y, predictions, **labels, **kwargs)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: Mapping[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        name: str | None = None,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        time: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Report the predictions of a cross-validation, each model on its test rows.

        Parameters
        ----------
        cv_results : dict
            Result of scikit-learn's ``cross_validate(..., return_estimator=True, return_indices=True)``.
        X : array-like of shape (n, p)
            Features passed to ``cross_validate``.
        y : array-like of shape (n,)
            Target passed to ``cross_validate``.
        name : str, default=None
            Name of the model; None means the name of the estimator's class.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        groups : array-like of shape (n,), Series, or DataFrame, default=None
            Group of each row of X, as in `from_predictions`.
        time : array-like of shape (n,), default=None
            Time of each row of X, as in `from_predictions`.
        **kwargs : dict
            The other keywords of `from_predictions`.

        Returns
        -------
        report : HTMLReport
            The report.
        """
        _check_packages("from_cv_results")
        check_cv_results(cv_results)
        folds = models_of_cv(cv_results, count_rows(X))
        label = name or type(cv_results["estimator"][0]).__name__
        parts: list[Any] = []
        labels: dict[str, Any] = {}
        for estimator, rows in folds:
            predictions, labels = predictions_of({label: estimator}, safe_indexing(X, rows))
            parts.append(predictions[label])
        together = concat(parts) if isinstance(parts[0], Distribution) else np.concatenate(parts)
        rows = np.concatenate([rows for _, rows in folds])
        weight = check_sample_weight(sample_weight, count_rows(X))
        kwargs["origin"] = {
            "Call": call_text("from_cv_results", "cv_results, X, y", kwargs),
            "Rows of the data": f"test rows of {len(folds)} folds, in the order of the folds",
            **parameters_of({label: cv_results["estimator"][0]}),
            **(kwargs.get("origin") or {}),
        }
        return cls.from_predictions(
            np.asarray(y)[rows],
            {label: together},
            sample_weight=None if weight is None else weight[rows],
            groups=taken(groups, rows),
            time=taken(time, rows),
            **labels,
            **kwargs,
        )

    @classmethod
    def from_reports(
        cls,
        reports: UncertaintyReport | Mapping[str, UncertaintyReport],
        *,
        title: str = "Uncertainty report",
        created: datetime | str | None = None,
        origin: Mapping[str, str] | None = None,
    ) -> Self:
        """Show finished reports, several models side by side. The page has no figures.

        Parameters
        ----------
        reports : UncertaintyReport or mapping of str to UncertaintyReport
            Reports from `~skuq.evaluation.uncertainty_report` or `MetricAccumulator.report`, all with the
            same number of rows, confidence and coverage. A mapping gives the names of models.
        title : str, default="Uncertainty report"
            Title of the page.
        created : datetime or str, default=None
            Time on the page. None means the current time.
        origin : mapping of str to str, default=None
            Additional entries of the section on the origin of the numbers.

        Returns
        -------
        report : HTMLReport
            The report.
        """
        _check_packages("from_reports")
        report = joined(reports) if isinstance(reports, Mapping) else check_report(reports, "reports")
        facts = {"Rows": f"{report.attrs['rows']:.12g}"}
        return cls(
            report=report,
            facts=facts,
            origin={"Call": call_text("from_reports", "reports", {}), **(origin or {})},
            title=title,
            created=created,
        )

    @classmethod
    def from_accumulator(
        cls,
        accumulator: Accumulator | Mapping[str, Accumulator],
        *,
        slices: Mapping[str, Mapping[Any, Accumulator]] | None = None,
        random_state: int | None = 0,
        title: str = "Uncertainty report",
        created: datetime | str | None = None,
        origin: Mapping[str, str] | None = None,
    ) -> Self:
        """Report accumulated rows, for data that do not fit into memory.

        Parameters
        ----------
        accumulator : MetricAccumulator, ClassMetricAccumulator, or mapping of str to accumulator
            Accumulator of all rows, or the accumulators of several models.
        slices : mapping of str to mapping, default=None
            Accumulators of parts of the rows of a single model, such as
            ``{"region": {"north": north, "south": south}}``. They need the metric "picp", or "set_coverage"
            for classes.
        random_state : int or None, default=0
            Seed of the confidence intervals. It affects only metrics that are computed from several means,
            such as ratios.
        title : str, default="Uncertainty report"
            Title of the page.
        created : datetime or str, default=None
            Time on the page. None means the current time.
        origin : mapping of str to str, default=None
            Additional entries of the section on the origin of the numbers, such as the names of files.

        Returns
        -------
        report : HTMLReport
            The report.
        """
        _check_packages("from_accumulator")
        several = isinstance(accumulator, Mapping)
        models: dict[str, Any] = (
            check_mapping(accumulator, "accumulator") if several else {"model": accumulator}
        )
        if slices and len(models) > 1:
            raise ValueError(f"`slices` must be None for several models, got {len(models)} models.")
        report = joined({name: each.report(random_state=random_state) for name, each in models.items()})
        (first, *_) = models.values()
        diagnostics = {name: diagnostics_of_accumulator(each) for name, each in models.items()}
        known = [name for name, each in models.items() if diagnostics[name].gives_intervals(each.coverage)]
        tables = {
            str(by): {name: coverage_of_accumulators(parts) for name in known}
            for by, parts in (slices or {}).items()
        }
        trace = {
            "Call": call_text("from_accumulator", "accumulator", {"random_state": random_state}),
            **(origin or {}),
            "Seed": str(random_state),
        }
        return cls(
            report=report,
            figures=[*figures_of_accumulators(models, diagnostics), *figures_of_parts(tables)],
            slices=tables,
            diagnostics=diagnostics,
            facts=facts_of_accumulator(first),
            origin=trace,
            title=title,
            created=created,
        )


def _check_packages(caller: str) -> None:
    check_jinja2(f"HTMLReport.{caller}")
    check_matplotlib(f"HTMLReport.{caller}")


def _draws(given: int | None, name: str, usual: int, n: int) -> int:
    if given is not None:
        return check_integer(given, name, 0)
    return min(usual, max(MOST_DRAWN_ROWS // max(n, 1), 20))


def _named_groups(groups: Any) -> dict[str, Any]:
    if groups is None:
        return {}
    if isinstance(groups, pd.DataFrame):
        names = [str(name) for name in groups]
        if len(set(names)) < len(names):
            raise ValueError(f"`groups` must have columns with different names, got {names}.")
        return {str(name): groups[name] for name in groups}
    return {str(getattr(groups, "name", None) or "group"): groups}
