"""The report: every metric of the registry, with numbers that agree and words that are right."""

import pickle
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import Empirical, Normal
from skuq.evaluation import bootstrap_interval, score_decomposition, uncertainty_report
from skuq.evaluation._report_table import RowFormat, UncertaintyReport, is_in_percent, number, percent
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.metrics._spec import all_specs, metric
from tests.metrics.options import forecast_specs

READY = [spec for spec in forecast_specs().values() if spec.ready_made]
QUICK = {"n_resamples": 0, "n_draws": 0}
report_of = partial(uncertainty_report, random_state=0)


def rows(n, bias=0.0):
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=n), np.exp(0.4 * rng.normal(size=n))
    return loc + scale * rng.normal(size=n), Normal(loc + bias, scale)


@pytest.fixture(scope="module")
def truth():
    return rows(600)


@pytest.fixture(scope="module")
def quick(truth):
    return report_of(*truth, **QUICK)


def test_every_ready_made_metric_is_there_with_its_value(truth, quick):
    (y, dist), report = truth, quick
    assert list(report.index) == [spec.abbreviation for spec in READY]
    for spec in READY:
        options = {"random_state": 0} if spec.random else {}
        row = report.loc[spec.abbreviation]
        if not spec.random:
            assert row["value"] == pytest.approx(spec.compute(y, dist, **options), rel=1e-12, abs=1e-12)
        assert row["direction"] == (spec.direction or "")
        assert row["title"] == spec.title
        assert row["reading"]
    assert report[["low", "high", "calibrated_low", "calibrated_high"]].isna().all(axis=None)
    assert report.loc["picp", "optimum"] == 0.9
    assert list(report.loc[["crps", "uce", "nll", "mace"], "units"]) == ["y", "y^2", "nats", ""]
    assert "times the average of a calibrated model" in report.loc["mace", "reading"]
    assert "lower is better, best 0" in report.loc["crps", "reading"]
    assert "neither direction is better" in report.loc["miss_rate", "reading"]


def test_a_new_metric_appears_by_itself(truth, monkeypatch):
    from skuq.metrics import _spec

    monkeypatch.setattr(_spec, "_SPECS", dict(_spec._SPECS))
    monkeypatch.setattr(_spec, "_ABBREVIATIONS", dict(_spec._ABBREVIATIONS))

    @metric(
        "bias",
        title="Bias",
        units=1,
        direction=None,
        optimum=0.0,
        needs="moments",
        proper=False,
        source="",
        meaning="forecasts are {value} too high",
    )
    def mean_bias(y_true, y_pred, *, sample_weight=None):
        return float(np.average(y_pred.mean() - y_true, weights=sample_weight))

    y, dist = truth
    shifted = report_of(y, Normal(dist.loc + 0.5, dist.scale), n_resamples=20, n_draws=40)
    assert shifted.loc["bias", "value"] == pytest.approx(np.mean(dist.loc + 0.5 - y), rel=1e-12)
    # The standard error, 0.04, allows two decimals.
    assert shifted.loc["bias", "reading"].startswith(f"forecasts are {shifted.loc['bias', 'value']:.2f} ")
    assert "more than if the forecasts were right" in shifted.loc["bias", "reading"]
    assert shifted.loc["bias", "low"] < shifted.loc["bias", "value"] < shifted.loc["bias", "high"]


@pytest.mark.laws
def test_intervals_are_those_of_the_bootstrap():
    y, dist = rows(1500)
    report = report_of(y, dist, metrics=["crps", "mace"], n_resamples=20_000, n_draws=0)
    for name in ("crps", "mace"):
        expected = bootstrap_interval(y, dist, name, n_resamples=20_000, random_state=1)
        assert report.loc[name, "low"] == pytest.approx(expected.low, rel=0.05)
        assert report.loc[name, "high"] == pytest.approx(expected.high, rel=0.05)


@pytest.mark.laws
def test_true_forecasts_score_as_calibrated_ones_do():
    """Over many truths the value is in the range of calibrated models at the nominal rate."""
    rng = np.random.default_rng(0)
    names = ["mace", "ence", "crps", "picp", "auucc_gain"]
    inside = []
    for seed in range(40):
        scale = np.exp(0.4 * rng.normal(size=200))
        y = scale * rng.normal(size=200)
        report = report_of(
            y, Normal(np.zeros(200), scale), metrics=names, n_resamples=0, n_draws=80, random_state=seed
        )
        inside.append(
            (report["value"] >= report["calibrated_low"]) & (report["value"] <= report["calibrated_high"])
        )
    share = np.mean(inside, axis=0)
    assert share.min() > 0.8
    assert np.mean(share) == pytest.approx(0.94, abs=0.04)


@pytest.mark.parametrize("name", ["mace", "picp", "interval_coverage_error"])
def test_formulas_agree_with_simulation(name, truth):
    y, dist = truth
    spec = all_specs()[name]
    rng = np.random.RandomState(0)
    simulated = [spec.compute(column, dist) for column in dist.sample(300, rng).T]
    formula = spec.calibrated(float(y.size))
    assert formula == pytest.approx(np.mean(simulated), rel=0.08)
    report = report_of(y, dist, metrics=[name], **QUICK)
    assert report.loc[name, "calibrated"] == formula


@pytest.mark.parametrize(
    ("factor", "word", "comparison"),
    [
        (0.6, "overconfident", "worse than a calibrated model"),
        (1.0, "calibrated", "a calibrated model has"),
        (1.8, "underconfident", "the forecasts of some rows are too wide"),
    ],
)
def test_the_words_give_the_direction(truth, factor, word, comparison):
    y, dist = truth
    report = report_of(y, Normal(dist.loc, factor * dist.scale), n_resamples=0, n_draws=60)
    inside = percent(report.loc["picp", "value"])
    readings = report["reading"]
    assert readings["picp"] == f"{word}: the 90 % intervals contain {inside} of the targets"
    assert report.attrs["summary"]["model"] == readings["picp"]
    assert comparison in readings["crps"]
    expected = "by chance" if word == "calibrated" else "worse than a calibrated model"
    assert expected in readings["ence"]
    assert expected in readings["mace"]
    assert "does not depend on the targets" in readings["sharpness"]


def test_a_significant_difference_has_enough_decimals():
    rng = np.random.default_rng(0)
    y, one = rng.standard_normal(60_000), np.ones(60_000)
    for factor, words in (
        (1.011, r"underconfident: .* contain 90\.\d % of"),
        (1.0, "calibrated: .* contain 90 % of"),
    ):
        report = report_of(y, Normal(0 * y, factor * one), metrics=["picp"], **QUICK)
        assert re.match(words, report.attrs["summary"]["model"])


def test_bias_is_named(truth):
    y, dist = truth
    for shift, side in ((0.5, "high"), (-0.5, "low")):
        report = report_of(y, Normal(dist.loc + shift, dist.scale), metrics=["crps"], **QUICK)
        words = report.attrs["summary"]["model"]
        assert re.search(rf"the forecasts are too {side} on average by 0\.\d+ \(units of y\)", words)


def test_undefined_and_infinite_values_come_with_the_reason(few_rows):
    y, dist = rows(40)
    report = report_of(y, Empirical(dist.sample(15, 0)), n_resamples=10, n_draws=10)
    assert np.isnan(report.loc["nll", "value"])
    assert re.match("not defined: .*density", report.loc["nll", "reading"])
    assert report.drop(index="nll")["value"].notna().all()
    dist = Normal(np.zeros(40), np.r_[0.0, np.ones(39)])
    report = report_of(np.ones(40), dist, metrics=["auucc", "auucc_gain"], n_resamples=10, n_draws=10)
    assert report.loc["auucc", "value"] == np.inf
    assert report.loc["auucc", "reading"].startswith("infinite")
    assert report.loc["auucc_gain", "reading"].startswith("minus infinite")
    assert "inf" in str(report)


def test_bounds_are_reported_by_their_interval_metrics(truth):
    y, dist = truth
    report = report_of(y, dist.interval(0.8), n_resamples=20, coverage=0.8)
    names = {spec.abbreviation for spec in READY if spec.needs == "interval"}
    assert set(report.index) == names
    assert report["calibrated_low"].isna().all()
    assert "the intervals contain" in str(report)
    whole = report_of(y, dist, metrics=sorted(names), coverage=0.8, **QUICK)
    assert_allclose(report["value"].astype(float), whole.loc[report.index, "value"].astype(float), rtol=1e-7)
    assert report.loc["picp", "optimum"] == whole.loc["picp", "optimum"] == 0.8
    assert "the 80 % intervals contain" in str(whole)
    error = whole.loc["interval_coverage_error", "value"]
    assert error == pytest.approx(abs(whole.loc["picp", "value"] - 0.8))


def test_options_and_metrics_are_found_under_every_name(truth):
    y, dist = truth
    report = report_of(y, dist, options={"crpss": {"y_train": y}, "picp": {"coverage": 0.5}}, **QUICK)
    assert "crpss" in report.index
    assert "msll" not in report.index
    assert report.loc["picp", "optimum"] == 0.5
    assert "the 50 % intervals contain" in report.loc["picp", "reading"]
    expected = all_specs()["ence"].compute(y, dist, n_bins=3)
    for name in ("ence", "neg_ence"):
        report = report_of(y, dist, metrics=["ence"], options={name: {"n_bins": 3}}, **QUICK)
        assert report.loc["ence", "value"] == pytest.approx(expected, rel=1e-12)
    report = report_of(y, dist, metrics=["ence"], options={"ence": {"strategy": "uniform"}}, **QUICK)
    assert np.isnan(report.loc["ence", "calibrated"])  # There is no formula for bins of equal width.
    assert "times the average" not in report.loc["ence", "reading"]
    by_name, by_function = (
        report_of(y, dist, metrics=metrics, **QUICK)
        for metrics in (["crps", "picp"], [crps_loss, prediction_interval_coverage, "neg_crps"])
    )
    pd.testing.assert_frame_equal(by_name, by_function)


def test_weights_equal_repetition(truth):
    y, dist = (part[:300] for part in truth)
    weight = np.random.default_rng(0).integers(0, 4, size=300)
    rows = np.repeat(np.arange(300), weight)
    names = ["crps", "mace", "picp", "auucc"]
    weighted = report_of(y, dist, sample_weight=weight, metrics=names, n_resamples=400, n_draws=400)
    repeated = report_of(y[rows], dist[rows], metrics=names, n_resamples=400, n_draws=400)
    assert_allclose(weighted["value"], repeated["value"], rtol=1e-9)
    shifts = [report.attrs["headlines"]["model"].pop("shift") for report in (weighted, repeated)]
    assert shifts[0] == pytest.approx(shifts[1], rel=1e-9)
    assert weighted.attrs == repeated.attrs
    for column, tolerance in (("calibrated", 0.05), ("low", 0.1), ("high", 0.1)):
        assert_allclose(weighted[column], repeated[column], rtol=tolerance)
    fractions = report_of(y, dist, sample_weight=weight * 1.5, metrics=names, n_resamples=10, n_draws=300)
    assert fractions.attrs["rows"] == 1.5 * weight.sum()
    assert fractions.loc["mace", "calibrated"] < weighted.loc["mace", "calibrated"]


def test_several_models_side_by_side(truth, quick):
    y, dist = truth
    models = {"true": dist, "narrow <b>": Normal(dist.loc, 0.6 * dist.scale)}
    report = report_of(y, models, n_resamples=0, n_draws=20)
    assert report.index.names == ["metric", "model"]
    assert [model for _, model in report.index[:2]] == list(models)
    assert_allclose(report.xs("true", level="model")["value"], quick["value"], rtol=1e-12)
    text = str(report)
    crps = next(line for line in text.splitlines() if line.startswith("CRPS "))
    assert crps.index("*") < crps.index(number(report.loc[("crps", "narrow <b>"), "value"]))
    assert "true: calibrated: " in text
    assert "narrow <b>: overconfident: " in text
    html = report.to_html()
    assert "narrow &lt;b&gt;" in html
    assert "<b>narrow <b>" not in html


def test_text_and_html_hold_everything(truth):
    y, dist = truth
    report = report_of(y, dist, n_resamples=20, n_draws=20)
    text, html = repr(report), report._repr_html_()
    assert text == str(report) == report.to_text()
    flat = " ".join(text.split())
    for name, title, reading, value in zip(
        report.index, report["title"], report["reading"], report["value"], strict=True
    ):
        written = row_format(report, name)
        for shown in (flat, html):
            assert title in shown
            assert written(value) in shown
        assert " ".join(reading.split()) in flat
        assert reading in html
    assert max(map(len, text.splitlines()[2:])) <= 120
    assert text.startswith("Uncertainty report, 600 rows\ncalibrated: ")
    assert "95 % interval" in text
    assert "..." not in text
    assert html.count("<table") == html.count("</table>") == 1


def row_format(report, name):
    values, bounds = ["value", "calibrated"], ["low", "high", "calibrated_low", "calibrated_high"]
    row = report.loc[name]
    error = (row["high"] - row["low"]) / 4
    return RowFormat.of(row[values], row[bounds], percent=is_in_percent(all_specs()[name]), error=error)


CELL = re.compile(r"(?P<plain>-?[\d.]+(?:e[+-]\d+)?)(?P<percent> %)?")


def decimals_of(text):
    """The decimals and the exponents of all numbers in a text."""
    return {
        (len(found["plain"].partition("e")[0].partition(".")[2]), "e" in found["plain"])
        for found in CELL.finditer(text)
    }


@pytest.mark.parametrize(
    ("factor", "unit"), [(1.0, 1e-7), pytest.param(0.75, 1.0, marks=pytest.mark.laws), (1e-3, 1.0)]
)
def test_all_numbers_of_a_row_are_in_one_unit_with_the_same_decimals(truth, factor, unit):
    """Value, interval and what calibrated models score, in the table and in the reading."""
    y, dist = truth
    forecast = Normal(unit * dist.loc, factor * unit * dist.scale)
    options = {"crpss": {"y_train": unit * y[:50]}}
    report = report_of(unit * y, forecast, n_resamples=15, n_draws=15, options=options)
    for name, row in report._one_model(report).iterrows():
        in_percent = name in {"ence", "picp", "miss_rate", "nmpiw", "crpss", "auucc_gain"}
        cells = [cell for cell in row.drop(["Metric", "Best", "Reading"]) if cell]
        assert all(cell.endswith(" %") == in_percent for cell in cells), (name, cells)
        assert len(decimals_of(" ".join(cells))) == 1, (name, cells)
        meaning, _, ordinary = row["Reading"].partition("; ")
        if " to " in ordinary:
            low, high = ordinary.split(" to ")
            assert ("%" in meaning) == ("%" in high) == in_percent, row["Reading"]
            assert decimals_of(low) == decimals_of(" ".join(cells)), row["Reading"]


def test_a_gain_of_a_hundredth_of_a_percent_stands_beside_percents():
    rng = np.random.default_rng(0)
    scale = np.exp(0.4 * rng.normal(size=2000))
    y = scale * rng.normal(size=2000)
    report = report_of(y, Normal(0 * y, scale), metrics=["auucc_gain", "ence"], n_draws=20)
    for line in report.to_text().splitlines()[4:6]:
        assert line.count(" %") == 5  # value, interval, mean, range and best
    assert "0.0" not in report.loc["ence", "reading"].partition(" to ")[2]


@pytest.mark.parametrize(
    ("values", "bounds", "in_percent", "text"),
    [
        ((0.284, 0.0211), (0.271, 0.299, 0.00432, 0.0482), True, ["28.4 %", "2.1 %", "0.4 to 4.8 %"]),
        ((9e-5, 1e-5), (-2e-4, 3e-4, -1.04e-4, 2e-4), True, ["0.0090 %", "0.0010 %", "-0.0104 to 0.0200 %"]),
        ((0.447, -0.012), (0.4, 0.5, -0.066, 0.0352), False, ["0.447", "-0.012", "-0.066 to 0.035"]),
        ((1526.0, 1421.0), (1400.0, 1600.0, 1390.0, 1434.0), False, ["1530", "1420", "1390 to 1430"]),
        ((1.5, 120.0), (1.4, 1.6, 90.0, 150.0), True, ["150 %", "12000 %", "9000 to 15000 %"]),
        ((3.2e-7, 4e-8), (1e-7, 5e-7, 3e-8, 6e-8), False, ["3.20e-07", "4.00e-08", "3.00e-08 to 6.00e-08"]),
        ((4.1e9, 2.0), (4e9, 5e9, 1.0, 3.0), False, ["4.10e+09", "2.00e+00", "1.00e+00 to 3.00e+00"]),
        ((0.9996, 0.9), (0.999, 1.0, 0.89, 0.91), True, ["99.96 %", "90.00 %", "89.00 to 91.00 %"]),
        ((np.inf, 0.31), (np.nan, np.nan, 0.3, 0.32), False, ["inf", "0.310", "0.300 to 0.320"]),
        ((-1e-9, 0.3), (0.1, 0.1, -0.0001, 0.32), False, ["-1.00e-09", "3.00e-01", "-1.00e-04 to 3.20e-01"]),
        ((-1e-16, 0.31), (np.nan, np.nan, -0.0001, 0.32), False, ["0.000", "0.310", "0.000 to 0.320"]),
        ((0.0, 0.0), (0.0, 0.0, 0.0, 0.0), True, ["0 %", "0 %", "0 to 0 %"]),
        ((np.nan, np.nan), (np.nan, np.nan, np.nan, np.nan), True, ["", "", ""]),
    ],
)
def test_a_row_is_written_in_one_way(values, bounds, in_percent, text):
    written = RowFormat.of(values, bounds, percent=in_percent)
    assert [written(values[0]), written(values[1]), written.span(*bounds[2:])] == text


def test_weights_that_stand_for_too_many_rows_to_simulate():
    y = np.linspace(-1.0, 1.0, 30)
    weight, forecast = np.full(30, 1e9), Normal(0 * y, 0 * y + 1)
    options = {"metrics": ["picp"], "n_resamples": 5, "sample_weight": weight}
    with pytest.raises(ValueError, match="n_draws=0"):
        report_of(y, forecast, n_draws=2, **options)
    assert report_of(y, forecast, n_draws=0, **options).loc["picp", "value"] == 1


def test_the_report_is_a_frame(truth):
    y, dist = truth
    report = report_of(y, dist, metrics=["crps", "picp"], **QUICK)
    assert isinstance(report, pd.DataFrame)
    assert isinstance(report, UncertaintyReport)
    assert list(report.index) == ["crps", "picp"]
    copy = pickle.loads(pickle.dumps(report))
    pd.testing.assert_frame_equal(pd.DataFrame(copy), pd.DataFrame(report))
    assert str(copy) == str(report)
    part = report[["value", "units"]]
    assert "value" in repr(part)
    assert "Uncertainty report" not in repr(part)
    assert report.to_html(border=3).startswith('<table border="3"')
    assert report.to_csv().count("\n") == 3


def test_seeds(truth):
    y, dist = (part[:60] for part in truth)
    arguments = {"n_resamples": 15, "n_draws": 15}
    first, again = (report_of(y, dist, **arguments) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    other = report_of(y, dist, **arguments, random_state=1)
    assert not first["calibrated"].equals(other["calibrated"])


def test_few_rows_are_reported_with_one_warning():
    for n in (1, 2, 5, 49):
        y, dist = np.arange(float(n)), Normal(np.zeros(n), np.ones(n))
        with pytest.warns(SmallSampleWarning, match=f"has {n} rows. With fewer than 50") as caught:
            report = report_of(y, {"a": dist, "b": dist}, n_resamples=5, n_draws=5)
        assert len(caught) == 1
        assert report["value"].notna().all()
        assert isinstance(str(report), str)
    y, dist = np.arange(50.0), Normal(np.zeros(50), np.ones(50))
    report_of(y, dist, **QUICK)
    report_of(y[:5], dist[:5], sample_weight=np.full(5, 10.0), **QUICK)
    with pytest.warns(SmallSampleWarning, match="has 20 rows"):
        report_of(y[:5], dist[:5], sample_weight=np.full(5, 4.0), **QUICK)


def test_a_metric_named_twice_is_reported_once(few_rows):
    forecast = Normal([0.0, 0.0], [1.0, 1.0])
    report = report_of([1.0, 2.0], {"a": forecast, "b": forecast}, metrics=["picp", "picp"], **QUICK)
    assert list(report.index) == [("picp", "a"), ("picp", "b")]
    assert "PICP" in str(report)


def test_rounding_makes_no_winner():
    rng = np.random.default_rng(0)
    y, scale = rng.normal(size=600), 0.5 + rng.random(600)
    sizes = {"a": 1.0, "b": 3.3, "c": 0.7}
    models = {name: Normal(0 * y, size * scale) for name, size in sizes.items()}
    text = report_of(y, models, metrics=["auucc_gain"], **QUICK).to_text()
    (line,) = (line for line in text.splitlines() if line.startswith("AUUCC gain "))
    assert "*" not in line


# ------------------------------------------------------------ rows of the parts of the CRPS


PARTS = ["crps_miscalibration", "crps_discrimination", "crps_uncertainty"]
RANGE = ["calibrated", "calibrated_low", "calibrated_high"]


def test_the_rows_show_where_the_loss_comes_from():
    y, dist = rows(600, bias=0.5)
    report = uncertainty_report(y, dist, metrics=["crps", *PARTS], random_state=0)
    values = report["value"]
    whole = score_decomposition(y, dist, random_state=0)
    assert values["crps_miscalibration"] == pytest.approx(whole.miscalibration, rel=1e-12)
    assert values[PARTS] @ [1, -1, 1] == pytest.approx(values["crps"], rel=0.005)
    # a bootstrap interval would be too high
    assert report.loc[PARTS, ["low", "high"]].isna().all(axis=None)
    assert report.loc["crps", ["low", "high"]].notna().all()
    miscalibration = report.loc["crps_miscalibration"]
    assert miscalibration["calibrated_high"] == pytest.approx(whole.miscalibration_limit, rel=0.15)
    assert miscalibration["calibrated_high"] < miscalibration["value"]
    assert "worse than a calibrated model" in miscalibration["reading"]
    assert "lower the CRPS by 0.1" in miscalibration["reading"]


def test_options_of_one_part_leave_the_others():
    y, dist = rows(60)
    options = {"crps_miscalibration": {"levels": [0.5]}}
    report = uncertainty_report(y, dist, metrics=PARTS, options=options, n_draws=5, random_state=0)
    median = score_decomposition(y, dist, levels=[0.5], n_draws=0)
    default = score_decomposition(y, dist, n_draws=0)
    assert report.loc["crps_miscalibration", "value"] == pytest.approx(median.miscalibration, rel=1e-12)
    assert report.loc["crps_discrimination", "value"] == pytest.approx(default.discrimination, rel=1e-12)


def test_weights_of_parts_are_repetitions():
    y, dist = rows(60)
    weight = np.random.default_rng(1).integers(0, 4, size=60)
    repeated = np.repeat(np.arange(60), weight)
    arguments = {"metrics": PARTS, "n_draws": 10, "random_state": 0}
    weighted = uncertainty_report(y, dist, sample_weight=weight, **arguments)
    expected = uncertainty_report(y[repeated], dist[repeated], **arguments)
    columns = ["value", *RANGE]
    assert_allclose(weighted[columns].to_numpy(float), expected[columns].to_numpy(float), rtol=1e-11)


@pytest.mark.parametrize(("n", "simulated"), [(10_000, True), (10_001, False)])
def test_the_parts_of_many_rows_are_not_simulated(n, simulated):
    y, dist = Normal(np.zeros(4), np.ones(4)).sample(1, 0)[:, 0], Normal(np.zeros(4), np.ones(4))
    weight = np.full(4, n / 4)
    report = uncertainty_report(y, dist, sample_weight=weight, metrics=PARTS, n_draws=2, random_state=0)
    assert report[RANGE].notna().all(axis=None) == simulated
    assert report["reading"].str.contains("by chance|than").any() == simulated


def test_numbers_and_percents_read_well():
    values = [0.0, 0.009997, 0.12345, 12.345, 520.4, -0.00691, 1526.0, 3.2e-7, 4.1e9, np.inf, np.nan]
    texts = ["0", "0.0100", "0.123", "12.3", "520", "-0.00691", "1530", "3.20e-07", "4.10e+09", "inf", ""]
    assert [number(value) for value in values] == texts
    shares = [percent(share) for share in (0.784, 0.991, 1.0, 0.004, 4.3e-4, 0.9996)]
    assert shares == ["78 %", "99.1 %", "100 %", "0.4 %", "0.04 %", "99.96 %"]


def test_a_calibration_error_smaller_than_that_of_calibrated_models_is_no_worse():
    n = 200
    dist = Normal(np.zeros(n), np.ones(n))
    y = dist.ppf((np.arange(n) + 0.5) / n)
    report = uncertainty_report(y, dist, metrics=["mace"], random_state=0)
    assert "no worse than a calibrated model" in report.loc["mace", "reading"]
