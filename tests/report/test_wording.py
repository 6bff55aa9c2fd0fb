"""The sentence below each figure fits what the figure shows."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr, ndtri

from skuq.distributions import Normal, Quantiles
from skuq.metrics import class_reliability_table, regression_calibration_curve, reliability_table
from skuq.monitoring import MetricAccumulator
from skuq.report import HTMLReport
from skuq.report import _wording as wording
from skuq.report._measure import with_flags

SHAPES = {
    "right": ("The curve follows the diagonal", "The bars have equal heights", ""),
    "high": ("lies above the diagonal", "fall from left to right", "the forecasts are too high."),
    "low": ("lies below the diagonal", "rise from left to right", "the forecasts are too low."),
    "narrow": ("is flatter than the diagonal", "form a U", "the intervals are too narrow."),
    "wide": ("is steeper than the diagonal", "form a hump", "the intervals are too wide."),
}
BIAS_AND_WIDTH = {"right": (0, 1), "high": (0.7, 1), "low": (-0.7, 1), "narrow": (0, 0.5), "wide": (0, 2)}


def forecast(n: int, bias: float, width: float, seed: int = 0) -> tuple[np.ndarray, Normal]:
    """Return observed values, and forecasts with a bias in standard deviations and a relative width."""
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)
    return loc + scale * rng.normal(size=n), Normal(loc + bias * scale, width * scale)


def curve(y: np.ndarray, dist: Normal, k: int) -> SimpleNamespace:
    """Return the numbers of a calibration curve of 100 levels, or of a PIT histogram of 10 bins."""
    found = regression_calibration_curve(y, dist, levels=np.arange(1, k) / k)
    shares = np.asarray(found.observed)
    proportions = shares if k > 10 else np.diff(shares, prepend=0.0, append=1.0)
    return SimpleNamespace(levels=found.levels, proportions=proportions, n_rows=len(y))


@pytest.mark.parametrize("n", [200, 20_000])
def test_a_slope_means_a_bias_a_u_too_narrow_and_a_hump_too_wide(n):
    for name, (bias, width) in BIAS_AND_WIDTH.items():
        data = forecast(n, bias, width)
        looks = wording.read_calibration(curve(*data, 100)), wording.read_pit(curve(*data, 10))
        for text, shape in zip(looks, SHAPES[name], strict=False):
            assert shape in text
            assert text.endswith(SHAPES[name][2] or f"differences that chance explains with {n} rows.")
            assert text.count(", so ") == (name != "right")


def test_a_bias_and_a_wrong_width_are_both_named():
    text = wording.read_pit(curve(*forecast(2000, 0.5, 0.5), 10))
    assert text == (
        "The bars fall from left to right and form a U, so the forecasts are too high and the intervals "
        "are too narrow."
    )


def test_right_forecasts_are_rarely_said_to_be_wrong():
    for n in (20, 200):
        displays = [curve(*forecast(n, 0, 1, seed), k) for seed in range(200) for k in (10, 100)]
        texts = [(wording.read_pit if len(d.levels) == 9 else wording.read_calibration)(d) for d in displays]
        assert sum("chance explains" not in text for text in texts) <= 8  # 2 % of 400


def test_a_shape_without_bias_and_wrong_width_is_named():
    levels = np.arange(1, 100) / 100
    shares = np.clip(levels + 0.06 * np.sin(10 * np.pi * levels), 0, 1)
    text = wording.read_calibration(SimpleNamespace(levels=levels, proportions=shares, n_rows=2000))
    assert text.startswith("The curve leaves the diagonal, because ")


@pytest.mark.parametrize(("bias", "width"), [(0.018, 1), (0.009, 1), (0, 1.02)])
def test_chance_does_not_explain_a_small_difference_of_many_rows(bias, width):
    levels = np.arange(1, 100) / 100
    shares = ndtr(width * ndtri(levels) + bias)
    for n, words in ((200_000, "by at most 1 percentage point."), (2000, "chance explains with 2000 rows.")):
        curve = SimpleNamespace(levels=levels, proportions=shares, n_rows=n)
        assert wording.read_calibration(curve).endswith(words)
        bins = np.diff(shares[9::10], prepend=0.0, append=1.0)
        assert wording.read_pit(SimpleNamespace(proportions=bins, n_rows=n)).endswith(words)


def test_a_shape_needs_two_levels_between_0_and_1():
    for levels, shares in (([0.5], [0.7]), ([0.0, 0.5, 1.0], [0.0, 0.7, 1.0])):
        curve = SimpleNamespace(levels=np.array(levels), proportions=np.array(shares), n_rows=400)
        assert "because 70 % of the observed values lie below" in wording.read_calibration(curve)
    levels = np.linspace(0, 1, 11)
    curve = SimpleNamespace(levels=levels, proportions=levels, n_rows=400)
    assert "follows the diagonal" in wording.read_calibration(curve)


def test_the_spread_of_standard_deviations_respects_weights():
    def read(std, weight=None):
        return wording.read_sharpness(SimpleNamespace(std=np.array(std), sample_weight=weight, value=1.5))

    assert read([1.0, 1.0]) == "The predicted standard deviation is 1 in all rows."
    assert "between 1 and 2 in 90 %" in read([1.0, 2.0])
    assert read([1.0, 2.0, 3.0], np.array([1.0, 98.0, 1.0])).endswith(
        "1.5 on average, and 2 in 90 % of the rows."
    )


def test_errors_are_compared_with_predicted_standard_deviations():
    for width, words in (
        (1.0, "The points lie on the diagonal, except for"),
        (0.5, "The points lie above the diagonal: errors are 1.97 times"),
        (2.0, "The points lie below the diagonal: errors are 0.49"),
    ):
        table = reliability_table(*forecast(4000, 0, width))
        assert wording.read_reliability(SimpleNamespace(table=table)).startswith(words)
    y, dist = forecast(4000, 0, 1)
    for power, words in ((2, "flatter"), (0.5, "steeper")):
        table = reliability_table(
            y, Normal(dist.loc, dist.scale.mean() * (dist.scale / dist.scale.mean()) ** power)
        )
        text = wording.read_reliability(SimpleNamespace(table=table))
        assert text.startswith(f"The points are {words} than the diagonal: errors are ")
    for rmv, rmse, words in (
        ([0.5], [0.5], "chance explains"),  # equal standard deviations
        ([0.0], [0.0], "chance explains"),
        ([0.0], [0.5], "the predicted standard deviation is 0, but not the error."),
        ([0.0, 1.0], [0.5, 1.0], "the predicted standard deviation is 0, but not the error."),
        ([1.0, 20.0], [1.0, 30.0], "steeper than the diagonal: errors are 1.00 times the predicted"),
        ([1.0, 20.0], [1.5, 20.0], "flatter than the diagonal: errors are 1.50 times the predicted"),
        ([1.0, 20.0], [1.15, 23.4], "above the diagonal: errors are 1.17 times"),  # only one half is certain
    ):
        table = pd.DataFrame({"n": 200.0, "rmv": rmv, "rmse": rmse})
        assert words in wording.read_reliability(SimpleNamespace(table=table)), (rmv, rmse)


def test_classes_intervals_and_parts():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=4000)
    y = (rng.random((4000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    for power, words in ((1, "lie on the diagonal"), (2, "lie below the diagonal"), (0.5, "lie above")):
        changed = proba**power / (proba**power).sum(axis=1, keepdims=True)
        table = class_reliability_table(y, changed)
        assert words in wording.read_classes(SimpleNamespace(table=table))
    table = pd.DataFrame({"n": 100.0, "observed": [1.0 - 1e-15, 0.0], "predicted": [1.0, 0.0]})
    assert "lie on the diagonal" in wording.read_classes(SimpleNamespace(table=table))
    for share, words in (
        (0.894, "89.4 % of the intervals contain their observed value, and 90 % should, within the range of"),
        (0.8, "so too few do."),
        (0.99, "so too many do."),
    ):
        assert words in wording.read_intervals(share, 0.9, 1000, may_cover_more=False)
    assert wording.read_intervals(0.99, 0.9, 1000, may_cover_more=True).endswith("90 % should at least.")
    table = pd.DataFrame({"n": 400.0, "coverage": [0.9, 0.7, 1.0], "nominal": 0.9}, index=["a", "b", "c"])
    flagged = with_flags(table, may_cover_more=False)
    assert wording.read_parts(flagged) == (
        "The coverage is too low in b (70 % instead of 90 %), and too high in c (100 % instead of 90 %)."
    )
    assert wording.read_parts(flagged[:1]) == (
        "The coverage is right in each part, except for differences that chance explains with 400 rows."
    )


def test_models_with_the_same_sentence_share_it():
    assert wording.of_all_models({"a": "Good."}) == "Good."
    assert wording.of_all_models({"a": "Good.", "b": "Bad.", "c": "Good."}) == "a and c: Good.\nb: Bad."


def test_names_in_a_legend_differ():
    long = "Gradient boosting of 1994 to 2019"
    assert wording.legend_names([28 * "a", long]) == {
        28 * "a": 28 * "a",
        long: "Gradient boost\u2026 1994 to 2019",
    }
    alike = "Gradient boosting from 1994 to 2019"
    assert wording.legend_names([long, alike]) == {
        long: "Gradient boosting of 1994 to\n2019",
        alike: "Gradient boosting from 1994\nto 2019",
    }


def test_numbers_have_the_digits_that_their_error_allows():
    cases = [(0.123456, 0.02, "0.12"), (94.04, 3.4, "94"), (1234.5, 40, "1230"), (1.5, 0, "1.50")]
    cases.append((2.0, math.inf, "2.00"))
    for value, error, text in cases:
        assert wording.rounded(value, error) == text
    assert wording.rounded(0.9996, 0.001, percent=True) == "99.96 %"


LEVELS = {
    "few": [0.05, 0.5, 0.95],
    "bounds": [0.05, 0.95],
    "quartiles": [0.25, 0.5, 0.75],
    "deciles": np.arange(1, 10) / 10,
    "many": np.arange(1, 20) / 20,
}


def pages_of(y: np.ndarray, model: Quantiles, **options) -> list[HTMLReport]:
    """Return the page of all rows, and the page of rows in two blocks."""
    whole = MetricAccumulator("picp", curves=("calibration", "reliability"))
    for part in (slice(500), slice(500, None)):
        whole.update(y[part], model[part])
    direct = HTMLReport.from_predictions(y, model, n_resamples=0, n_draws=0, created="2024", **options)
    return [direct, HTMLReport.from_accumulator(whole, created="2024")]


def test_only_quantiles_that_are_given_are_judged(monkeypatch):
    for name in ("figures_of", "figures_of_accumulators", "figures_of_parts"):
        monkeypatch.setattr(f"skuq.report._html_report.{name}", lambda *args: [])
    y, dist = forecast(1000, 0, 1)
    for name, levels in LEVELS.items():
        model = Quantiles(levels, dist.quantile(levels))
        is_given = name not in ("quartiles", "deciles")
        pages = pages_of(y, model, groups=pd.Series(np.arange(1000) % 2, name="half"))
        assert (pages[0].slices["half"] == {}) is not is_given
        for page in pages:
            titles = [each.title for each in page.findings["model"]]
            assert ("No verdict on the 90 % intervals" in titles) is not is_given
            assert ("No fault found" in titles) is is_given
            assert ("Few quantiles are given" in titles) is (name in ("few", "bounds"))
            assert "wrong" not in {each.severity for each in page.findings["model"]}
    quartiles = Quantiles(LEVELS["quartiles"], dist.quantile(LEVELS["quartiles"]))
    (picp,) = (
        each
        for each in pages_of(y, quartiles)[0].values["models"]["model"]["metrics"]
        if each["metric"] == "picp"
    )
    assert picp["reading"] == (
        "No verdict on the 90 % intervals: the forecasts give only the quantiles of the levels "
        "0.25, 0.5 and 0.75"
    )
    assert pages_of(y, quartiles)[0].findings["model"][0].remedy.endswith("enclose, such as coverage=0.5.")
    summary = pages_of(y, quartiles, coverage=0.5)[0].summaries["model"]
    assert summary.startswith("No fault found: the 50 % intervals contain ")


def test_blocks_with_different_levels_and_parts_without_ends_are_not_judged(monkeypatch):
    monkeypatch.setattr("skuq.report._html_report.figures_of_accumulators", lambda *args: [])
    y, dist = forecast(1000, 0, 0.6)  # too narrow
    quartiles = Quantiles(LEVELS["quartiles"], dist.quantile(LEVELS["quartiles"]))
    several, same, half = (MetricAccumulator("picp", curves=("calibration",)) for _ in range(3))
    for part, levels in ((slice(500), [0.05, 0.95]), (slice(500, None), [0.1, 0.9])):
        several.update(y[part], Quantiles(levels, dist.quantile(levels))[part])
        same.update(y[part], quartiles[part])
    half.update(y[:500], quartiles[:500])
    rounded = MetricAccumulator("picp", curves=("calibration",))
    for part, levels in ((slice(500), LEVELS["many"]), (slice(500, None), np.linspace(0.05, 0.95, 19))):
        rounded.update(y[part], Quantiles(levels, dist.quantile(levels))[part])
    assert LEVELS["many"].tolist() != levels.tolist()
    assert len(rounded._quantile_levels) == 19
    pages = [
        HTMLReport.from_accumulator(several),
        HTMLReport.from_accumulator(same, slices={"half": {"first": half}}),
    ]
    assert pages[1].slices == {"half": {}}
    for page, given in zip(
        pages, ("no quantile is given for all rows", "the forecasts give only "), strict=True
    ):
        assert [each.severity for each in page.findings["model"]] == ["note"]
        assert page.summaries["model"].startswith(f"No verdict on the 90 % intervals: {given}")
        assert page.html


@pytest.mark.parametrize("number", [0, 1])
def test_figures_of_few_quantiles_are_not_read(number, monkeypatch):
    other = ("figures_of_accumulators", "figures_of")[number]
    monkeypatch.setattr(f"skuq.report._html_report.{other}", lambda *args: [])
    y, dist = forecast(600, 0, 1)
    levels = LEVELS["quartiles"]
    page = pages_of(y, Quantiles(levels, dist.quantile(levels)))[number]
    captions = {each.title: each.caption for each in page.figures}
    assert "Intervals of individual rows" not in captions
    for title in ("Calibration curve", "PIT histogram", "Reliability diagram"):
        assert captions[title].startswith("Only the quantiles of 25 %, 50 % and 75 % are given.")
