"""The report as a page: its findings, its values, its safety and its bytes."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.calibration
from scipy.stats import cauchy, norm
from sklearn.datasets import load_iris
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import GaussianNB

import skuq
from skuq.distributions import Empirical, Normal, Quantiles, as_distribution
from skuq.evaluation import uncertainty_report
from skuq.metrics import prediction_interval_coverage
from skuq.monitoring import ClassMetricAccumulator, MetricAccumulator
from skuq.recalibration import StdScalingRecalibrator
from skuq.report import HTMLReport

pytest.importorskip("jinja2")

INJECTION = "<script>alert(1)</script><img src=x onerror=alert(2)>"
FEW = {"n_resamples": 20, "n_draws": 20, "created": "2024-01-31"}
AXE = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"


def rows(n: int = 400, *, noise: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return targets, means and standard deviations; a calibrated model has noise 1."""
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)
    return loc + noise * scale * rng.normal(size=n), loc, scale


@pytest.fixture
def figures() -> None:
    """Let a test draw the figures, which take most of the time."""


@pytest.fixture(autouse=True)
def _no_figures(request, monkeypatch) -> None:
    if "figures" not in request.fixturenames:
        for name in ("figures_of", "figures_of_accumulators", "figures_of_parts"):
            monkeypatch.setattr(f"skuq.report._html_report.{name}", lambda *args, **kwargs: [])


def make_page() -> HTMLReport:
    """Report two models with strange names, groups and times; the first model is overconfident."""
    y, loc, scale = rows(noise=1.6)
    groups = pd.DataFrame({f"region {INJECTION}": np.where(loc > 0, INJECTION, "south")})
    time = pd.Series(pd.date_range("2024-01-01", periods=len(y), freq="D"), name="day")
    models = {INJECTION: Normal(loc, scale), "wide": Normal(loc, 1.6 * scale)}
    return HTMLReport.from_predictions(y, models, groups=groups, time=time, title=INJECTION, **FEW)


@pytest.fixture(scope="module")
def page() -> HTMLReport:
    return make_page()


def titles(report: HTMLReport, model: str = "model") -> list[str]:
    return [finding.title for finding in report.findings[model]]


def of_normals(y, loc, scale, **kwargs) -> HTMLReport:
    return HTMLReport.from_predictions(y, Normal(loc, scale), n_resamples=0, n_draws=0, **kwargs)


@pytest.mark.parametrize(
    ("change", "title", "tool"),
    [
        (lambda y, loc, s: (y, loc, 0.6 * s), "The intervals are too narrow", "skuq.UncertaintyRegressor"),
        (lambda y, loc, s: (y, loc, 2 * s), "The intervals are too wide", "StdScalingRecalibrator"),
        (lambda y, loc, s: (y, loc + 0.4, s), "The forecasts are too high", "IsotonicRecalibrator"),
        (lambda y, loc, s: (y, loc - 0.4, s), "The forecasts are too low", "IsotonicRecalibrator"),
        (lambda y, loc, s: (y[::-1], 3 * loc, s), "worse than one forecast", "AutoUncertaintyRegressor"),
        # a fault of many rows may be small
        (lambda y, loc, s: (y, loc, 0.98 * s), "The intervals are too narrow, by a small amount", None),
        (lambda y, loc, s: (y, loc, 1.03 * s), "The intervals are too wide, by a small amount", None),
        (lambda y, loc, s: (y, loc + 0.02, s), "The forecasts are too high, by a small amount", None),
    ],
)
def test_each_fault_is_found_and_has_a_tool(change, title, tool):
    found = of_normals(*change(*rows(400 if tool else 40_000))).findings["model"]
    if tool is None:
        assert [(each.severity, each.title) for each in found] == [
            ("good", "No fault found"),
            ("note", title),
        ]
    else:
        named = [each for each in found if title in each.title]
        assert any(tool in each.name for each in named[0].tools)


def test_a_calibrated_model_has_no_fault():
    y, loc, scale = rows(2000, seed=3)
    report = HTMLReport.from_predictions(y, Normal(loc, scale), groups=np.arange(2000) % 3, **FEW)
    assert [finding.severity for finding in report.findings["model"]] == ["good"]
    assert not report.slices["group"]["model"]["flag"].any()


def of_classes(proba, sharpness=1.0, **options) -> HTMLReport:
    """Report sharper probabilities of labels that were drawn from `proba`."""
    rng = np.random.default_rng(1)
    labels = (proba.cumsum(axis=1) < rng.uniform(size=(len(proba), 1))).sum(axis=1)
    group = options.get("groups")
    if group is not None:
        labels = np.where((group == 0) & (rng.uniform(size=len(group)) < 0.5), (labels + 1) % 3, labels)
    sharper = proba**sharpness / (proba**sharpness).sum(axis=1, keepdims=True)
    return HTMLReport.from_predictions(labels, sharper, labels=[0, 1, 2], **options)


def of_sets(proba) -> HTMLReport:
    labels = np.arange(len(proba)) % 3
    return HTMLReport.from_predictions(labels, proba > 0.4, labels=[0, 1, 2], **FEW)


def test_faults_of_classifiers():
    proba = np.random.default_rng(0).dirichlet(np.ones(3), size=60_000)
    report = of_classes(proba, 1.04, n_resamples=0, n_draws=0)
    (found,) = (each for each in report.findings["model"] if "certain" in each.title)
    assert (found.severity, found.title) == ("note", "The classifier is too certain, by a small amount")
    report = of_classes(proba[:3000], groups=np.arange(3000) % 4, **FEW)
    (found,) = (each for each in report.findings["model"] if each.title == "The coverage depends on group")
    assert [tool.name for tool in found.tools] == ["skuq.conformal.ConformalClassifier"]
    assert not re.search(r"\d\.\d\d", found.words)  # no percentage with four decimals


def test_many_parts_with_a_fault_are_counted_and_rare_groups_are_one_part():
    y, loc, scale = rows(6000)
    group = np.arange(6000) % 12
    report = of_normals(y, loc, np.where(group < 8, 0.4, 1.0) * scale, groups=group)
    part = r"\d+ \(\d+\.\d % instead of 90\.0 %\)"
    assert re.search(rf"{part}(, {part}){{4}} and 3 more", report.findings["model"][0].words)
    y, loc, scale = rows(900)
    group = np.where(np.arange(900) < 400, np.arange(900) % 99, 1000 + np.arange(900) % 250)
    table = of_normals(y, loc, scale, groups=group).slices["group"]["model"]
    assert len(table) == 100
    assert table["n"].sum() == 900


def test_models_with_forecasts_of_different_kinds_have_one_fact_each():
    y, loc, scale = rows(60)
    models = {"normal": Normal(loc, scale), "members": Empirical(loc[:, np.newaxis] + np.linspace(-2, 2, 9))}
    report = HTMLReport.from_predictions(y, models, **FEW)
    kinds = {name: fact for name, fact in report.facts.items() if name.startswith("Forecasts")}
    assert set(kinds) == {"Forecasts of normal", "Forecasts of members"}
    assert len(set(kinds.values())) == 2
    assert re.fullmatch(r"HTMLReport\(2 models, 60 rows, \d+ faults\)", repr(report))


def test_groups_that_fail_in_opposite_directions_are_the_first_finding():
    y, loc, scale = rows(1500, seed=1)
    group = np.array(["North", "South", "West"])[np.arange(1500) % 3]
    report = of_normals(
        y - 0.3, loc, np.where(group == "West", 5, 0.5) * scale, groups=group, time=np.arange(1500) // 3
    )
    first, *others = report.findings["model"]
    assert first.title == "The coverage depends on group, in opposite directions"
    pattern = (
        r"The coverage is too low in North \(\d+ % instead of 90 %\) and South \(\d+ % instead of 90 %\), "
    )
    assert re.fullmatch(pattern + r"and too high in West \(100 % instead of 90 %\)\.", first.words)
    assert any("With the forecasts alone" in tool.when for tool in first.tools)
    by_title = {each.title: each for each in others}
    both = by_title["The intervals are too narrow, and the forecasts are too high"]
    assert "Act on the first finding" in both.remedy
    assert both.tools == ()
    assert "by chance" not in both.words
    assert "The coverage does not depend on time" in by_title
    assert ">too low</td>" in report.html
    assert ">too high</td>" in report.html


def test_a_fault_of_one_group_is_the_first_finding():
    y, loc, scale = rows(2000, seed=1)
    group = np.array(["North", "South", "West", "West"])[np.arange(2000) % 4]
    report = of_normals(y, loc, np.where(group == "North", 4, 1) * scale, groups=group)
    first, *others = report.findings["model"]
    assert first.title == "The coverage depends on group"
    assert first.words.startswith("The coverage is too high in North (100 % instead of 90 %).")
    assert first.words.endswith("The other rows are right.")
    (wide,) = (each for each in others if each.title == "The intervals are too wide")
    assert wide.tools == ()
    assert "only some of the rows need this change" in wide.remedy
    table = report.slices["group"]["model"]
    inside = np.abs(y - loc) <= 1.6448536 * np.where(group == "North", 4, 1) * scale
    assert table.loc["North", "coverage"] == pytest.approx(inside[group == "North"].mean())


def test_a_bias_comes_first_has_its_size_and_one_call_repairs_bias_and_width():
    y, loc, scale = rows(2000, seed=1)
    first, *_ = of_normals(y, loc + 0.5, scale).findings["model"]
    assert first.title == "The forecasts are too high, and the intervals are too narrow"
    found = {each.title: each for each in of_normals(y, loc - 0.4, 0.6 * scale).findings["model"]}
    low = found["The intervals are too narrow, and the forecasts are too low"]
    size = np.mean(y - loc + 0.4)
    assert f"too low on average by {size:.2f} (in the units of the observed values): " in low.words
    assert "lie below the middle of their forecast; 50 % should." in low.words
    assert "Decisions that rely on too narrow intervals fail" in low.words
    assert "IsotonicRecalibrator()" in low.tools[1].code


def test_heavy_tails_are_named():
    for df in (3, 1000):
        rng = np.random.default_rng(0)
        loc, scale = 3 * rng.normal(size=5000), rng.uniform(0.5, 2.0, size=5000)
        noise = rng.standard_t(df, size=5000) * np.sqrt((df - 2) / df)
        report = of_normals(loc + scale * noise, loc, scale)
        title = "Large errors are more frequent than predicted, and the intervals are too wide"
        assert (title in titles(report)) == (df == 3)
        assert ("No single factor corrects both." in report.findings["model"][0].words) == (df == 3)


def kinds_of(loc, scale) -> dict[str, object]:
    """Return forecasts of all kinds with the same means and standard deviations."""
    normal, levels = Normal(loc, scale), np.linspace(0.05, 0.95, 19)
    return {
        "normal": normal,
        "without moments": as_distribution(cauchy(loc, 0.4 * scale)),
        "quantiles": Quantiles(levels, normal.quantile(levels)),
        "two quantiles": Quantiles([0.05, 0.95], normal.interval(0.9)),
        "members": Empirical(normal.quantile((np.arange(30) + 0.5) / 30)),
        "bounds": normal.interval(0.9),
        "frame of bounds": pd.DataFrame(normal.interval(0.9), index=range(7, len(loc) + 7)),
        "frozen": norm(loc, scale),
    }


def codes_of(report: HTMLReport) -> list[str]:
    return [tool.code for found in report.findings["model"] for tool in found.tools if tool.code]


FAULTS = {
    "narrow": lambda y, loc, s: (loc, 0.6 * s),
    "wide": lambda y, loc, s: (loc, 1.8 * s),
    "high": lambda y, loc, s: (loc + 0.5, s),
    "high and narrow": lambda y, loc, s: (loc + 0.5, 0.6 * s),
    "uneven": lambda y, loc, s: (loc, s**2.5),
    "opposite": lambda y, loc, s: (loc, 3 - s),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_code_for_forecasts_runs_and_repairs_each_kind_of_forecast(fault):
    y, loc, scale = rows(1600)
    old, new = slice(800), slice(800, 1600)
    for kind, forecast in kinds_of(*FAULTS[fault](y, loc, scale)).items():
        options = {"n_resamples": 0, "n_draws": 0}
        if kind == "frozen":  # A frozen scipy distribution has no rows to select.
            past, new_forecast = (norm(*(each[part] for each in forecast.args)) for part in (old, new))
        else:
            past, new_forecast = forecast[old], forecast[new]
        report = HTMLReport.from_predictions(y[new], new_forecast, **options)
        variables = {"old_forecasts": past, "old_y": y[old], "forecasts": new_forecast}
        codes = [code for code in codes_of(report) if "old_forecasts" in code]
        assert len(codes) == len(set(codes)) == sum("Recalibrator" in code for code in codes)
        # Neither bounds nor two quantiles show the median and the uncertainty of individual rows.
        bounds = ("high", "uneven", "opposite")
        hidden = {"bounds": bounds, "frame of bounds": bounds, "two quantiles": bounds}
        assert codes or fault in hidden[kind]
        for code in codes[-1:]:
            after = HTMLReport.from_predictions(y[new], eval(code, {"skuq": skuq, **variables}), **options)
            assert "wrong" not in [each.severity for each in after.findings["model"]], (
                kind,
                code,
                titles(after),
            )


@pytest.mark.parametrize("fault", FAULTS)
def test_the_code_of_a_report_without_forecasts_runs_for_each_kind_of_forecast(fault):
    y, loc, scale = rows(800)
    for kind, forecast in kinds_of(*FAULTS[fault](y, loc, scale)).items():
        page = HTMLReport.from_reports(uncertainty_report(y, forecast, n_resamples=0, n_draws=0))
        variables = {"skuq": skuq, "old_forecasts": forecast, "old_y": y, "forecasts": forecast}
        for code in codes_of(page):
            if "old_forecasts" in code:
                after = prediction_interval_coverage(y, eval(code, variables))
                assert 0.85 < after < 0.95, (kind, code, after)


def test_the_code_for_groups_runs():
    y, loc, scale = rows(600)
    group = np.arange(600) % 3
    variables, part = {"skuq": skuq, "old_y": y}, group == 1
    for forecast in kinds_of(loc, np.where(group == 1, 0.3, 1.0) * scale).values():
        report = HTMLReport.from_predictions(y, forecast, groups=group, n_resamples=0, n_draws=0)
        found = [code for code in codes_of(report) if "rows]" in code]
        assert found
        variables |= {"old_forecasts": forecast, "forecasts": forecast}
        for chosen in (part, np.flatnonzero(part)):
            variables |= {"old_rows": chosen, "rows": chosen}
            assert len(eval(found[0], variables)) == 200


def test_the_code_for_models_runs():
    y, loc, scale = rows(300)
    group = np.arange(300) % 3
    X = pd.DataFrame({"x": loc, "group": group})
    variables = {"skuq": skuq, "X": X, "y": y, "column": "group", "model": LinearRegression()}
    narrow = Normal(loc, np.where(group == 1, 0.3, 1.0) * scale)
    codes = set(codes_of(HTMLReport.from_predictions(y, narrow, groups=group, n_resamples=0, n_draws=0)))
    codes |= {code for change in FAULTS.values() for code in codes_of(of_normals(y, *change(y, loc, scale)))}
    codes |= set(codes_of(of_normals(y[::-1], 3 * loc, scale)))
    ran = [
        code.replace("time_budget=60", "time_budget=None, n_trials=1") for code in codes if "old_" not in code
    ]
    assert len(ran) == 4
    for code in ran:
        model = eval(code, variables)
        assert np.isfinite(model.predict_dist(X[:5]).interval(0.9)).all()


def test_the_code_for_classifiers_runs(figures):
    X, y = load_iris(return_X_y=True)
    proba = np.random.default_rng(0).dirichlet(np.ones(3), size=900)
    reports = of_classes(proba, 3.0, groups=np.arange(900) % 2, **FEW), of_sets(proba)
    variables = {"skuq": skuq, "sklearn": sklearn, "model": GaussianNB(), "X": X, "y": y}
    variables |= {"column": lambda X: X[:, 0] > 5.8}
    codes = {code for report in reports for code in codes_of(report)}
    assert len(codes) == 3
    for code in codes:
        assert set(eval(code, variables).predict(X)) == {0, 1, 2}


def test_a_difference_that_the_number_of_rows_explains_is_no_fault():
    y, loc, scale = rows(400)
    report = of_normals(y, loc, 0.8 * scale)
    found = report.findings["model"]
    assert report.summaries["model"].startswith("No fault found: the 90 % intervals contain ")
    assert [each.severity for each in found] == ["good", "note"]
    assert found[1].title == "The intervals are too narrow, perhaps by chance"
    assert found[1].words.endswith("The number of rows, 400, may explain this difference.")


@pytest.mark.laws
def test_a_repaired_forecast_is_rarely_called_wrong():
    """The recalibrators are fitted to as many rows as the page has, which adds to the chance of the page."""
    wrong = 0
    for seed in range(200):
        y, loc, scale = rows(1000, seed=seed)
        old, new, dist = slice(500), slice(500, 1000), Normal(loc, 0.6 * scale)
        recalibrator = StdScalingRecalibrator(objective="coverage").fit(dist[old], y[old])
        report = HTMLReport.from_predictions(
            y[new], recalibrator.transform(dist[new]), n_resamples=0, n_draws=0, created="2024"
        )
        wrong += any(each.severity == "wrong" for each in report.findings["model"])
    assert wrong <= 12  # 6; with the limits of the 95 % intervals, 32


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_few_rows_are_not_judged():
    y, loc, scale = rows(12)
    for n, judged in ((1, False), (2, False), (11, False), (12, True)):
        report = of_normals(y[:n], loc[:n], scale[:n])
        assert (
            report.summaries["model"].startswith("The rows are too few for a verdict: the 90 %") is not judged
        )
        assert report.findings["model"][0].title == (
            "No fault found" if judged else "The rows are too few for a verdict"
        )
        assert "wrong" not in [each.severity for each in report.findings["model"]]
    # Six rows outside their 90 % intervals are no chance.
    assert of_normals(y[:6], loc[:6] + 99, scale[:6]).findings["model"][0].severity == "wrong"


def test_only_errors_that_do_not_grow_with_the_uncertainty_are_named():
    title = "The uncertainty does not show which rows are uncertain"
    y, loc, scale = rows(1000, seed=1)
    for forecast, named in (((loc, 3 - scale), True), ((loc, scale), False), ((loc + 1.0, scale), False)):
        assert (title in titles(of_normals(y, *forecast))) is named
        whole = MetricAccumulator().update(y, Normal(*forecast))
        assert (title in titles(HTMLReport.from_accumulator(whole, created="2024"))) is named


def test_the_page_shows_few_metrics_first_and_dates_without_hours():
    y, loc, scale = rows(1000)
    days = pd.Series(pd.date_range("2020-01-01", periods=1000), name="day")
    html = of_normals(y, loc, scale, time=days, created="2024").html
    head, _, rest = html.partition("<details>")
    assert head.count("data-value") < rest.partition("</details>")[0].count("data-value")
    assert "<details open" not in html
    assert ">day, from</button>" in html
    assert " 00:00" not in html
    assert "target" not in re.sub(r"<style>.*?</style>|<script>.*?</script>", "", html, flags=re.DOTALL)


def test_the_page_is_safe_and_can_be_read_aloud(page):
    html = page.html
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert html.count("<script>") == 1
    assert "&lt;script&gt;alert(1)" in html
    # no request
    assert not re.findall(r'(?:src|href|action)="(?!data:)', html)
    assert "default-src 'none'" in html
    assert "url(" not in html
    # alternative texts, and headings without a gap
    pictures = re.findall(r"<img [^>]*>", html)
    assert len(pictures) == len(page.figures) == 8
    assert all(re.search(r' alt="[^"]{40,}"', picture) for picture in pictures)
    levels = [int(level) for level in re.findall(r"<h(\d)>", html)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    # in a notebook, the page is in a frame
    frame = page._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert 'sandbox="allow-scripts"' in frame
    # every tool of a finding exists
    for tool in {tool.name for found in page.findings.values() for each in found for tool in each.tools}:
        module, _, attribute = tool.rpartition(".")
        assert hasattr(__import__(module, fromlist=[attribute]), attribute)


@pytest.mark.laws
def test_equal_calls_give_equal_bytes(page, figures):
    again = make_page()
    assert again.html == page.html
    assert again.values == page.values


def test_the_hash_depends_on_every_row():
    y, loc, scale = rows(60)
    changes = (0, 0), (1, 1e-9), (0, 1e-9), (0, 0)
    pages = [of_normals(y + a * (np.arange(60) == 7), loc + b, scale, created="2024") for b, a in changes]
    assert len({each.origin["SHA-256 of observed values, weights and forecasts"] for each in pages}) == 3
    assert pages[0].html == pages[3].html


def test_the_json_has_the_values_of_the_report(page, tmp_path):
    page.save(tmp_path / "page.html")
    values = json.loads((tmp_path / "page.json").read_text("utf-8"))
    crps = next(each for each in values["models"]["wide"]["metrics"] if each["metric"] == "crps")
    assert crps["value"] == page.report.loc[("crps", "wide"), "value"]
    assert values["created"] == "2024-01-31"
    assert values["trace"]["skuq"]
    assert len(values["models"][INJECTION]["parts"]["day"]) == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "page.json"]


def test_a_failed_save_leaves_nothing(page, tmp_path, monkeypatch):
    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        page.save(tmp_path / "page.html")
    for with_values in (True, False):
        with pytest.raises(ValueError, match=r"`path` must not have the suffix \.json"):
            page.save(tmp_path / "page.json", json=with_values)
    assert list(tmp_path.iterdir()) == []


def test_from_estimator_and_from_cv_results_report_test_rows():
    X, y = load_iris(return_X_y=True)
    report = HTMLReport.from_estimator(GaussianNB().fit(X, y), X, y, **FEW)
    own = uncertainty_report(
        y, GaussianNB().fit(X, y).predict_proba(X), n_resamples=0, n_draws=0, random_state=0
    )
    assert report.report.loc[("ece", "GaussianNB"), "value"] == own.loc["ece", "value"]
    cv = cross_validate(BayesianRidge(), X[:, 1:], X[:, 0], return_estimator=True, return_indices=True)
    folds = HTMLReport.from_cv_results(cv, X[:, 1:], X[:, 0], groups=pd.Series(y, name="species"), **FEW)
    assert folds.report.attrs["rows"] == 150
    assert folds.slices["species"]["BayesianRidge"]["n"].tolist() == [50, 50, 50]
    with pytest.raises(ValueError, match="return_estimator=True"):
        HTMLReport.from_cv_results({}, X, y)


def test_from_reports_shows_models_side_by_side():
    y, loc, scale = rows(100)
    options = {"metrics": ["crps", "picp"], "n_resamples": 0, "n_draws": 0}
    reports = {
        name: uncertainty_report(y, Normal(loc, k * scale), **options) for name, k in {"a": 1, "b": 3}.items()
    }
    page = HTMLReport.from_reports(reports, created="2024")
    assert list(page.findings) == ["a", "b"]
    assert "Models side by side" in page.html
    with pytest.raises(ValueError, match="must have equal rows"):
        HTMLReport.from_reports(
            reports | {"c": uncertainty_report(y[:90], Normal(loc[:90], scale[:90]), **options)}
        )
    half = uncertainty_report(y, Normal(loc, scale), coverage=0.5, **options)
    with pytest.raises(ValueError, match=r"must have equal coverage, got \[0.5, 0.9\]"):
        HTMLReport.from_reports(reports | {"half": half})
    with pytest.raises(TypeError, match="must be a report from uncertainty_report, got DataFrame"):
        HTMLReport.from_reports({"a": pd.DataFrame(reports["a"])})


def test_from_accumulator_equals_from_predictions():
    y, loc, scale = rows(600, noise=1.5)
    halves = {
        name: MetricAccumulator("picp", curves=()).update(y[part], Normal(loc[part], scale[part]))
        for name, part in {"north": slice(300), "south": slice(300, 600)}.items()
    }
    whole = MetricAccumulator("crps", "picp", "mace").update(y, Normal(loc, scale))
    page = HTMLReport.from_accumulator(whole, slices={"region": halves}, created="2024")
    direct = of_normals(y, loc, scale, groups=np.repeat(["north", "south"], 300))
    crps = page.report.loc[("crps", "model"), "value"]
    assert crps == pytest.approx(direct.report.loc["crps", "value"])
    assert titles(page)[0] == "The intervals are too narrow"
    tables = page.slices["region"]["model"], direct.slices["group"]["model"]
    pd.testing.assert_frame_equal(*tables, check_names=False)


def test_from_accumulator_of_classes_equals_from_predictions(figures):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=900)
    y = (rng.random((900, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    sharp = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    region = pd.Series(np.repeat(["north", "south"], 450), name="region")
    direct = HTMLReport.from_predictions(y, sharp, groups=region, n_resamples=0, n_draws=0)

    def accumulated(rows, *metrics):
        return ClassMetricAccumulator(*metrics, labels=range(3)).update(y[rows], sharp[rows])

    parts = {name: accumulated(region == name, "set_coverage") for name in ("north", "south")}
    page = HTMLReport.from_accumulator(accumulated(region != ""), slices={"region": parts}, created="2024")
    assert titles(page) == titles(direct)
    assert titles(page)[0] == "The classifier is too certain"
    tables = [each.slices["region"]["model"] for each in (page, direct)]
    pd.testing.assert_frame_equal(*tables, check_names=False)
    expected = ["Reliability diagram of the most probable class", "Coverage by region"]
    assert [figure.title for figure in page.figures] == expected
    assert page.figures[0].alt == direct.figures[0].alt
    assert page.facts["Classes"] == "0, 1, 2"


def test_weights_repeat_rows_and_discrete_forecasts_may_cover_more():
    y, loc, scale = rows(60)
    weight, group = np.arange(60) % 3, np.arange(60) % 2
    twice = np.repeat(np.arange(60), weight)
    one = of_normals(y, loc, scale, sample_weight=weight, groups=group)
    other = of_normals(y[twice], loc[twice], scale[twice], groups=group[twice])
    pd.testing.assert_frame_equal(one.slices["group"]["model"], other.slices["group"]["model"])
    assert one.report.loc["crps", "value"] == pytest.approx(other.report.loc["crps", "value"])
    y, loc, _ = rows(300)
    members = Empirical(loc[:, np.newaxis] + np.linspace(-4, 4, 5))
    options = {"n_resamples": 0, "n_draws": 0}
    table = HTMLReport.from_predictions(y, members, groups=y > 0, **options).slices["group"]["model"]
    assert (table["low"] > table["nominal"]).any()
    assert not table["flag"].any()


def test_bounds_and_sets_have_a_page(figures):
    y, loc, scale = rows(60)
    options = {"n_resamples": 0, "n_draws": 0}
    bounds = HTMLReport.from_predictions(y, np.column_stack([loc - scale, loc + scale]), **options)
    assert [figure.title for figure in bounds.figures] == ["Intervals of individual rows"]
    labels = (loc > 0).astype(int)
    sets = np.column_stack([loc < 0.2, loc > 1.0])
    report = HTMLReport.from_predictions(labels, sets, labels=[0, 1], **FEW)
    assert titles(report)[0] == "The sets contain the label too rarely"


def test_forecasts_without_moments_have_a_page(figures):
    y, loc, scale = rows(60)
    page = HTMLReport.from_predictions(y, cauchy(loc, scale), n_resamples=0, n_draws=0)
    reasons = {figure.title: figure.caption for figure in page.figures if not figure.svg}
    assert set(reasons) == {"Reliability diagram", "Sharpness", "Intervals of individual rows"}
    assert all(reason.startswith("Not drawn: ") for reason in reasons.values())
    assert page.html


def test_bad_arguments(monkeypatch):
    y, loc, scale = rows(60)
    for options, message in (
        ({"groups": [1, 2]}, "`group` must have 60 rows, one per sample, got 2"),
        ({"groups": [None] * 60}, "`group` must not have missing values, got one at row 0"),
        ({"groups": pd.DataFrame({"time": y}), "time": y}, "must not have the name of `time`, got 'time'"),
        ({"groups": pd.DataFrame(np.c_[y, y], columns=["a", "a"])}, "must have columns with different names"),
        ({"time": ["x"] * 60}, "`time` must hold times or numbers, got 'x' at row 0"),
        ({"coverage": 90}, "`coverage` must lie strictly between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            of_normals(y, loc, scale, **options)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'needs Jinja2: run `pip install "skuq\[report\]"`'):
        of_normals(y, loc, scale)


def test_sources_that_do_not_fit_together():
    X, y = load_iris(return_X_y=True)
    both = [GaussianNB().fit(X, y), GaussianNB().fit(X[y > 0], y[y > 0]), BayesianRidge().fit(X, y)]
    with pytest.raises(ValueError, match="must hold classifiers with equal `classes_`"):
        HTMLReport.from_estimator({"all": both[0], "two": both[1]}, X, y)
    with pytest.raises(ValueError, match="must hold only classifiers or only regressors, got both"):
        HTMLReport.from_estimator({"classes": both[0], "numbers": both[2]}, X, y)
    with pytest.raises(ValueError, match="`reports` must hold at least one report, got none"):
        HTMLReport.from_reports({})
    accumulators = {name: MetricAccumulator().update(y, Normal(y + 0.1, np.ones(len(y)))) for name in "ab"}
    with pytest.raises(ValueError, match="`slices` must be None for several models, got 2 models"):
        HTMLReport.from_accumulator(accumulators, slices={"part": accumulators})


VISIBLE = """() => [...document.images].map(
    (image) => image.complete && image.naturalWidth > 0 && image.getBoundingClientRect().width > 200)"""
LETTERS = """() => Math.max(...[...document.querySelectorAll('p')].map((p) => {
    if (p.children.length) return 0;
    const range = document.createRange();
    range.selectNodeContents(p);
    return p.textContent.length / new Set([...range.getClientRects()].map((each) => each.bottom)).size;
}))"""
"""Largest average number of letters of a line in a paragraph."""

FIRST_COLUMN = (
    "() => [...document.querySelectorAll('table')[1].tBodies[0].rows].map(r => +r.cells[1].dataset.value)"
)


def faults_of(tab, file: Path) -> list[str]:
    """Return a list to which the tab adds each message, dialog and request."""
    faults: list[str] = []
    tab.on("console", lambda message: faults.append(message.text))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("dialog", lambda dialog: faults.append(dialog.message))
    own = ("data:", file.as_uri())
    tab.on("request", lambda request: request.url.startswith(own) or faults.append(request.url))
    return faults


@pytest.fixture
def axe() -> str:
    """Return the program axe-core, which `make test-docs` installs."""
    if not AXE.is_file():
        pytest.fail(
            "axe-core is not installed. Run `make test-docs`, which installs it with npm, or `npm install "
            "--no-package-lock`."
        )
    return AXE.read_text("utf-8")


@pytest.mark.docs
def test_the_page_in_a_browser(axe, page, browser, tmp_path):
    """No message, no request, all figures visible, sorted tables, and no fault found by axe-core."""
    file = page.save(tmp_path / "page.html")
    # The page forbids other scripts than its own, and axe-core is such a script.
    tab = browser.new_context(bypass_csp=True).new_page()
    faults = faults_of(tab, file)
    tab.goto(file.as_uri())
    tab.evaluate(axe)
    for width, scheme in ((1400, "light"), (1400, "dark"), (400, "dark"), (400, "light")):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate(VISIBLE) == [True] * len(page.figures)
        root = "document.documentElement"
        assert tab.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
        assert tab.evaluate(LETTERS) <= 75
        assert width == 400 or tab.evaluate(LETTERS) > 60
        assert tab.evaluate("axe.run().then((found) => found.violations.map((each) => each.help))") == []
    tab.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for sign in (1, -1):
        tab.locator("table >> nth=1 >> th button >> nth=1").click()
        values = tab.evaluate(FIRST_COLUMN)
        assert values == sorted(values, key=lambda value: sign * value)
        assert len(values) > 10
    assert tab.locator("table >> nth=1 >> th >> nth=1").get_attribute("aria-sort") == "descending"
    assert len(tab.pdf()) > 50_000
    assert faults == []
