"""The report: every metric of the registry, with numbers that agree and words that are right."""

import pickle
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest

from skuq.distributions import Empirical, Normal
from skuq.evaluation import UncertaintyReport, bootstrap_interval, uncertainty_report
from skuq.evaluation._report.wording import RowFormat, is_in_percent, number, percent
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.metrics._spec import all_specs, metric
from tests.metrics.options import forecast_specs

READY = [spec for spec in forecast_specs().values() if spec.ready_made]
QUICK = {"n_resamples": 0, "n_simulations": 0}
report_of = partial(uncertainty_report, random_state=0)


@pytest.fixture
def truth():
    rng = np.random.default_rng(0)
    n = 1500
    loc, scale = rng.normal(size=n), np.exp(0.4 * rng.normal(size=n))
    return loc + scale * rng.normal(size=n), Normal(loc, scale)


def test_every_ready_made_metric_is_there_with_its_value(truth):
    y, dist = truth
    report = report_of(y, dist, **QUICK)
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
    assert report.loc["crps", "units"] == "y"
    assert report.loc["uce", "units"] == "y^2"
    assert report.loc["nll", "units"] == "nats"
    assert report.loc["mace", "units"] == ""


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
    shifted = report_of(y, Normal(dist.loc + 0.5, dist.scale), n_resamples=20, n_simulations=40)
    assert shifted.loc["bias", "value"] == pytest.approx(np.mean(dist.loc + 0.5 - y), rel=1e-12)
    assert shifted.loc["bias", "reading"].startswith(f"forecasts are {number(shifted.loc['bias', 'value'])} ")
    assert "more than if the forecasts were right" in shifted.loc["bias", "reading"]
    assert shifted.loc["bias", "low"] < shifted.loc["bias", "value"] < shifted.loc["bias", "high"]


def test_intervals_are_those_of_the_bootstrap(truth):
    y, dist = truth
    report = report_of(y, dist, metrics=["crps", "mace"], n_resamples=20_000, n_simulations=0)
    for name in ("crps", "mace"):
        expected = bootstrap_interval(y, dist, name, n_resamples=20_000, random_state=1)
        assert report.loc[name, "low"] == pytest.approx(expected.low, rel=0.05)
        assert report.loc[name, "high"] == pytest.approx(expected.high, rel=0.05)


def test_true_forecasts_score_as_calibrated_ones_do():
    """Over many truths the value is in the range of calibrated models at the nominal rate."""
    rng = np.random.default_rng(0)
    names = ["mace", "ence", "crps", "picp", "auucc_gain"]
    inside = []
    for seed in range(40):
        scale = np.exp(0.4 * rng.normal(size=200))
        y = scale * rng.normal(size=200)
        report = report_of(
            y, Normal(np.zeros(200), scale), metrics=names, n_resamples=0, n_simulations=80, random_state=seed
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
    ("factor", "word"), [(0.6, "overconfident"), (1.0, "calibrated"), (1.8, "underconfident")]
)
def test_the_words_give_the_direction(truth, factor, word):
    y, dist = truth
    narrow = Normal(dist.loc, factor * dist.scale)
    report = report_of(y, narrow, n_resamples=0, n_simulations=60)
    inside = percent(report.loc["picp", "value"])
    assert report.loc["picp", "reading"] == f"{word}: the 90 % intervals contain {inside} of the targets"
    assert report.attrs["summary"]["model"] == report.loc["picp", "reading"]
    comparison = {
        "overconfident": "worse than a calibrated model",
        "calibrated": "a calibrated model has",
        "underconfident": "the forecasts of some rows are too wide",
    }[word]
    assert comparison in report.loc["crps", "reading"]
    expected = "by chance" if word == "calibrated" else "worse than a calibrated model"
    assert expected in report.loc["ence", "reading"]
    assert expected in report.loc["mace", "reading"]
    assert "does not depend on the targets" in report.loc["sharpness", "reading"]


def test_a_significant_difference_has_enough_decimals():
    rng = np.random.default_rng(0)
    y, one = rng.standard_normal(60_000), np.ones(60_000)
    settings = {"metrics": ["picp"], "n_resamples": 0, "n_simulations": 0}
    words = report_of(y, Normal(0 * y, 1.011 * one), **settings).attrs["summary"]["model"]
    assert re.match(r"underconfident: the 90 % intervals contain 90\.\d % of the targets", words)
    words = report_of(y, Normal(0 * y, one), **settings).attrs["summary"]["model"]
    assert words.startswith("calibrated: the 90 % intervals contain 90 % of the targets")


def test_bias_is_named(truth):
    y, dist = truth
    for shift, side in ((0.5, "high"), (-0.5, "low")):
        report = report_of(y, Normal(dist.loc + shift, dist.scale), metrics=["crps"], **QUICK)
        words = report.attrs["summary"]["model"]
        assert re.search(rf"the forecasts are too {side} on average by 0\.\d+ \(units of y\)", words)


def test_without_simulation_the_words_fall_back_on_formulas(truth):
    y, dist = truth
    report = report_of(y, dist, **QUICK)
    assert "times the average of a calibrated model" in report.loc["mace", "reading"]
    assert "lower is better, best 0" in report.loc["crps", "reading"]
    assert "neither direction is better" in report.loc["miss_rate", "reading"]


def test_an_undefined_value_comes_with_the_reason(truth):
    y, dist = truth
    ensemble = Empirical(dist.sample(15, 0))
    report = report_of(y, ensemble, n_resamples=10, n_simulations=10)
    assert np.isnan(report.loc["nll", "value"])
    assert report.loc["nll", "reading"].startswith("not defined: ")
    assert "density" in report.loc["nll", "reading"]
    assert report.drop(index="nll")["value"].notna().all()


def test_infinite_values_are_named(few_rows):
    y, dist = np.ones(30), Normal(np.zeros(30), np.r_[0.0, np.ones(29)])
    report = report_of(y, dist, metrics=["auucc", "auucc_gain"], n_resamples=10, n_simulations=10)
    assert report.loc["auucc", "value"] == np.inf
    assert report.loc["auucc", "reading"].startswith("infinite")
    assert report.loc["auucc_gain", "reading"].startswith("minus infinite")
    assert "inf" in str(report)


def test_weights_equal_repetition(truth):
    y, dist = (part[:300] for part in truth)
    weight = np.random.default_rng(0).integers(0, 4, size=300)
    rows = np.repeat(np.arange(300), weight)
    names = ["crps", "mace", "picp", "auucc"]
    weighted = report_of(y, dist, sample_weight=weight, metrics=names, n_resamples=400, n_simulations=400)
    repeated = report_of(y[rows], dist[rows], metrics=names, n_resamples=400, n_simulations=400)
    np.testing.assert_allclose(weighted["value"], repeated["value"], rtol=1e-9)
    shifts = [report.attrs["headlines"]["model"].pop("shift") for report in (weighted, repeated)]
    assert shifts[0] == pytest.approx(shifts[1], rel=1e-9)
    assert weighted.attrs == repeated.attrs
    for column, tolerance in (("calibrated", 0.05), ("low", 0.1), ("high", 0.1)):
        np.testing.assert_allclose(weighted[column], repeated[column], rtol=tolerance)
    fractions = report_of(
        y, dist, sample_weight=weight * 1.5, metrics=names, n_resamples=10, n_simulations=300
    )
    assert fractions.attrs["rows"] == 1.5 * weight.sum()
    assert fractions.loc["mace", "calibrated"] < weighted.loc["mace", "calibrated"]


def test_bounds_are_reported_by_their_interval_metrics(truth):
    y, dist = truth
    report = report_of(y, dist.interval(0.9), n_resamples=20)
    assert set(report.index) == {spec.abbreviation for spec in READY if spec.needs == "interval"}
    whole = report_of(y, dist, n_resamples=20)
    assert report.loc["interval_score", "value"] == whole.loc["interval_score", "value"]
    assert report["calibrated_low"].isna().all()
    assert "the intervals contain" in str(report)


def test_several_models_side_by_side(truth):
    y, dist = truth
    models = {"true": dist, "narrow <b>": Normal(dist.loc, 0.6 * dist.scale)}
    report = report_of(y, models, n_resamples=20, n_simulations=20)
    assert report.index.names == ["metric", "model"]
    assert (
        list(report.index[:2]) == [("agce", "true"), ("agce", "narrow <b>")] or report.index[0][1] == "true"
    )
    alone = report_of(y, dist, **QUICK)
    np.testing.assert_allclose(report.xs("true", level="model")["value"], alone["value"], rtol=1e-12)
    table = report["value"].unstack("model")
    assert set(table.columns) == set(models)
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
    report = report_of(y, dist, n_resamples=20, n_simulations=20)
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
    assert text.startswith("Uncertainty report, 1500 rows\ncalibrated: ")
    assert "95 % interval" in text
    assert "..." not in text
    assert html.count("<table") == html.count("</table>") == 1


def row_format(report, name):
    values, bounds = ["value", "calibrated"], ["low", "high", "calibrated_low", "calibrated_high"]
    row = report.loc[name]
    return RowFormat.of(row[values], row[bounds], percent=is_in_percent(all_specs()[name]))


CELL = re.compile(r"(?P<plain>-?[\d.]+(?:e[+-]\d+)?)(?P<percent> %)?")


def decimals_of(text):
    """The decimals and the exponents of all numbers in a text."""
    return {
        (len(found["plain"].partition("e")[0].partition(".")[2]), "e" in found["plain"])
        for found in CELL.finditer(text)
    }


@pytest.mark.parametrize(("factor", "unit"), [(1.0, 1e-7), (0.75, 1.0), (1e-3, 1.0)])
def test_all_numbers_of_a_row_are_in_one_unit_with_the_same_decimals(truth, factor, unit):
    """Value, interval and what calibrated models score, in the table and in the reading."""
    y, dist = truth
    forecast = Normal(unit * dist.loc, factor * unit * dist.scale)
    options = {"crpss": {"y_train": unit * y[:50]}}
    report = report_of(unit * y, forecast, n_resamples=15, n_simulations=15, options=options)
    for name, row in report._one_model().iterrows():
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
    report = report_of(y, (0 * y, scale), metrics=["auucc_gain", "ence"], n_simulations=20)
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
        (
            (-1e-9, 0.31),
            (np.nan, np.nan, -0.0001, 0.32),
            False,
            ["-1.00e-09", "3.10e-01", "-1.00e-04 to 3.20e-01"],
        ),
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
    weight, forecast = np.full(30, 1e9), (0 * y, 0 * y + 1)
    options = {"metrics": ["picp"], "n_resamples": 5, "sample_weight": weight}
    with pytest.raises(ValueError, match="n_simulations=0"):
        report_of(y, forecast, n_simulations=2, **options)
    assert report_of(y, forecast, n_simulations=0, **options).loc["picp", "value"] == 1


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
    y, dist = (part[:200] for part in truth)
    arguments = {"n_resamples": 15, "n_simulations": 15}
    first, again = (report_of(y, dist, **arguments) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    other = report_of(y, dist, **arguments, random_state=1)
    assert not first["calibrated"].equals(other["calibrated"])


def test_few_rows_are_reported_with_one_warning():
    for n in (1, 2, 5, 49):
        y, dist = np.arange(float(n)), Normal(np.zeros(n), np.ones(n))
        with pytest.warns(SmallSampleWarning, match=f"has {n} rows. With fewer than 50") as caught:
            report = report_of(y, {"a": dist, "b": dist}, n_resamples=5, n_simulations=5)
        assert len(caught) == 1
        assert report["value"].notna().all()
        assert isinstance(str(report), str)
    y, dist = np.arange(50.0), Normal(np.zeros(50), np.ones(50))
    report_of(y, dist, **QUICK)
    report_of(y[:5], dist[:5], sample_weight=np.full(5, 10.0), **QUICK)
    with pytest.warns(SmallSampleWarning, match="has 20 rows"):
        report_of(y[:5], dist[:5], sample_weight=np.full(5, 4.0), **QUICK)


def test_metrics_that_need_options_get_them(truth):
    y, dist = truth
    report = report_of(
        y, dist, options={"crpss": {"y_train": y}, "picp": {"coverage": 0.5}}, n_resamples=5, n_simulations=5
    )
    assert "crpss" in report.index
    assert "msll" not in report.index
    assert report.loc["picp", "optimum"] == 0.5
    assert "the 50 % intervals contain" in report.loc["picp", "reading"]


def test_a_reference_of_n_rows_stays_with_its_rows(truth):
    y, dist = (part[:100] for part in truth)
    weight = np.random.default_rng(0).integers(0, 4, size=100)
    reference = Normal(dist.loc + 0.3, dist.scale)
    rows = np.repeat(np.arange(100), weight)
    for factor in (1.0, 1.5):
        report = report_of(
            y,
            dist,
            sample_weight=factor * weight,
            options={"crpss": {"reference": (reference.loc, reference.scale)}},
            metrics=["crpss"],
            n_resamples=20,
            n_simulations=300,
        )
        repeated = report_of(
            y[rows],
            dist[rows],
            options={"crpss": {"reference": reference[rows]}},
            metrics=["crpss"],
            n_resamples=20,
            n_simulations=300,
        )
        assert report.loc["crpss", "value"] == pytest.approx(repeated.loc["crpss", "value"], rel=1e-12)
        assert report.loc["crpss", "calibrated"] == pytest.approx(
            repeated.loc["crpss", "calibrated"], abs=0.02
        )


def test_metrics_are_given_by_name_or_function(truth):
    by_name, by_function = (
        report_of(*truth, metrics=metrics, n_resamples=0, n_simulations=0)
        for metrics in (["crps", "picp"], [crps_loss, prediction_interval_coverage, "neg_crps"])
    )
    pd.testing.assert_frame_equal(by_name, by_function)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"metrics": ["crsp"]}, ValueError, "must be a metric of skuq, got 'crsp'"),
        ({"metrics": "crps"}, TypeError, "`metrics` must be a sequence of names, got the string 'crps'"),
        (
            {"options": {"crps": {"level": 1}}},
            TypeError,
            "`options` of 'crps' must be options of this metric",
        ),
        ({"options": {"picp": {"coverage": 2.0}}}, ValueError, "`coverage` must lie strictly between"),
        ({"options": {"picp": 0.8}}, TypeError, "`options` of 'picp' must be a mapping"),
        (
            {"metrics": ["crps", len]},
            TypeError,
            r"by name or function, got <built-in function len>. .*`bootstrap_interval`",
        ),
        ({"y_pred": np.zeros(3)}, ValueError, r"`y_pred` must have shape \(n, 2\), lower and upper"),
        ({"n_resamples": -1}, ValueError, "`n_resamples` must be at least 0"),
        ({"n_simulations": 0.5}, TypeError, "`n_simulations` must be an integer"),
        ({"confidence": 95}, ValueError, "`confidence` must lie strictly between 0 and 1"),
        ({"y_pred": {}}, ValueError, "`y_pred` must hold at least one forecast"),
        ({"y_pred": ([0.0], [1.0])}, ValueError, "`y_pred` must have 3 rows"),
        ({"y_pred": None}, TypeError, r"\(loc, scale\)"),
        ({"sample_weight": [0.1, 0.1, 0.1]}, ValueError, "`sample_weight` counts repetitions"),
        ({"y_true": [0.0, np.nan, 1.0]}, ValueError, "`y_true` must be finite"),
    ],
)
def test_bad_arguments(arguments, error, message):
    given = {"y_true": np.zeros(3), "y_pred": (np.zeros(3), np.ones(3)), **arguments}
    with pytest.raises(error, match=message):
        report_of(given.pop("y_true"), given.pop("y_pred"), **given)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.009997, "0.0100"),
        (0.12345, "0.123"),
        (12.345, "12.3"),
        (520.4, "520"),
        (-0.00691, "-0.00691"),
        (1526.0, "1530"),
        (3.2e-7, "3.20e-07"),
        (4.1e9, "4.10e+09"),
        (np.inf, "inf"),
        (np.nan, ""),
    ],
)
def test_numbers_read_well(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.784, "78 %"),
        (0.991, "99.1 %"),
        (1.0, "100 %"),
        (0.004, "0.4 %"),
        (4.3e-4, "0.04 %"),
        (0.9996, "99.96 %"),
    ],
)
def test_percents_read_well(share, text):
    assert percent(share) == text


def test_the_small_sample_warning_is_for_functions_only(truth):
    """Warnings are errors in tests."""
    y, dist = (part[:50] for part in truth)
    assert issubclass(SmallSampleWarning, UserWarning)
    report_of(y, dist, metrics=["mace"], n_resamples=3, n_simulations=3)


@pytest.mark.parametrize("name", ["ence", "neg_ence"])
def test_options_are_found_under_every_name_of_the_metric(name):
    rng = np.random.default_rng(0)
    y, scale = rng.normal(size=600), 0.5 + rng.random(600)
    report = report_of(y, (0 * y, scale), metrics=["ence"], options={name: {"n_bins": 3}}, **QUICK)
    expected = all_specs()["ence"].compute(y, (0 * y, scale), n_bins=3)
    assert report.loc["ence", "value"] == pytest.approx(expected, rel=1e-12)


def test_options_of_a_metric_are_given_once():
    options = {"ence": {"n_bins": 3}, "neg_ence": {"n_bins": 4}}
    with pytest.raises(ValueError, match="'ence' under two names"):
        report_of([1.0], ([0.0], [1.0]), options=options, **QUICK)


def test_a_metric_named_twice_is_reported_once(few_rows):
    forecast = [0.0, 0.0], [1.0, 1.0]
    report = report_of([1.0, 2.0], {"a": forecast, "b": forecast}, metrics=["picp", "picp"], **QUICK)
    assert list(report.index) == [("picp", "a"), ("picp", "b")]
    assert "PICP" in str(report)


def test_the_error_of_an_empty_report_has_a_metric_to_name():
    with pytest.raises(ValueError, match="`metrics` must name at least one"):
        report_of([1.0], ([0.0], [1.0]), metrics=[])
    with pytest.raises(ValueError, match="must include a metric that can evaluate `y_pred`"):
        report_of([1.0], [[0.0, 1.0]], metrics=["crps"])


@pytest.mark.parametrize("bounds", [[[2.0, 1.0]], [[np.nan, 1.0]], [[0.0, 1.0, 2.0]]])
def test_bad_bounds_raise_and_are_not_reported_on(bounds):
    with pytest.raises(ValueError, match="`y_pred` must"):
        report_of([1.0], bounds, **QUICK)


def test_names_of_models_differ_as_text():
    with pytest.raises(ValueError, match="names that differ"):
        report_of([1.0], {1: ([0.0], [1.0]), "1": ([0.0], [2.0])}, **QUICK)


def test_there_is_no_formula_for_bins_of_equal_width():
    rng = np.random.default_rng(0)
    scale = np.exp(rng.normal(size=600))
    report = report_of(
        scale * rng.normal(size=600),
        (np.zeros(600), scale),
        metrics=["ence"],
        options={"ence": {"strategy": "uniform"}},
        **QUICK,
    )
    assert np.isnan(report.loc["ence", "calibrated"])
    assert "times the average" not in report.loc["ence", "reading"]


def test_rounding_makes_no_winner():
    rng = np.random.default_rng(0)
    y, scale = rng.normal(size=600), 0.5 + rng.random(600)
    sizes = {"a": 1.0, "b": 3.3, "c": 0.7}
    models = {name: (0 * y, size * scale) for name, size in sizes.items()}
    text = report_of(y, models, metrics=["auucc_gain"], **QUICK).to_text()
    (line,) = (line for line in text.splitlines() if line.startswith("AUUCC gain "))
    assert "*" not in line


def test_one_coverage_serves_all_metrics_of_an_interval():
    rng = np.random.default_rng(0)
    y = rng.normal(size=800)
    report = report_of(y, (np.zeros(800), np.ones(800)), coverage=0.8, n_resamples=0, n_simulations=0)
    bounds = Normal(np.zeros(800), 1.0).interval(0.8)
    same = report_of(y, bounds, coverage=0.8, n_resamples=0, n_simulations=0)
    for name in ("picp", "interval_coverage_error", "interval_score", "mpiw", "miss_rate"):
        assert report.loc[name, "value"] == pytest.approx(same.loc[name, "value"])
    assert report.loc["picp", "optimum"] == same.loc["picp", "optimum"] == 0.8
    assert "the 80 % intervals contain" in str(report)
    assert report.loc["interval_coverage_error", "value"] == pytest.approx(
        abs(report.loc["picp", "value"] - 0.8)
    )
    with pytest.raises(ValueError, match="`coverage` must lie strictly between 0 and 1"):
        report_of(y, bounds, coverage=80)


def test_moments_are_computed_only_for_metrics_that_need_them(truth, monkeypatch):
    """Of some families each is an integral."""
    y, dist = truth

    def no_std(self):
        raise AssertionError("the standard deviation was computed")

    monkeypatch.setattr(type(dist), "std", no_std)
    monkeypatch.setattr(type(dist), "sample", no_std)
    report = report_of(y, dist, metrics=["mace", "miscal_area"], n_resamples=3, n_simulations=3)
    assert report["calibrated"].notna().all()
