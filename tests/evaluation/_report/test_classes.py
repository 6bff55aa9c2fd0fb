"""The report of a classifier."""

import re
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skuq.evaluation import uncertainty_report
from skuq.exceptions import SmallSampleWarning
from skuq.metrics._class_scores import draw_codes
from tests.metrics.options import class_specs

report_of = partial(uncertainty_report, random_state=0)
QUICK = {"n_resamples": 0, "n_draws": 0}
NAMES = list(class_specs())


@pytest.fixture
def forecast():
    proba = np.random.default_rng(0).dirichlet(np.full(4, 0.5), size=800)
    return draw_codes(proba, np.random.RandomState(0)), proba


def power(proba, exponent):
    return proba**exponent / (proba**exponent).sum(axis=1, keepdims=True)


def test_a_calibrated_forecast_is_within_what_chance_gives(forecast):
    y, proba = forecast
    report = report_of(y, proba, n_resamples=60, n_draws=200)
    assert list(report.index) == NAMES
    inside = report.drop(index="set_size")
    assert (inside["calibrated_low"] <= inside["value"]).all()
    assert (inside["value"] <= inside["calibrated_high"]).all()
    assert (report["low"] <= report["value"] + 1e-12).all()
    assert report.attrs["summary"]["model"].startswith("calibrated: ")
    assert report.loc["set_coverage", "calibrated"] == pytest.approx(
        report.loc["set_coverage", "value"] - _signed_error(y, proba), abs=0.003
    )
    assert "it does not depend on the targets" in report.loc["set_size", "reading"]
    assert "Set coverage" in str(report)
    assert "<table>" in report.to_html()


def _signed_error(y, proba):
    return class_specs()["set_coverage_error"].compute(y, proba, signed=True)


def test_over_and_underconfidence_are_named(forecast):
    y, proba = forecast
    labels = np.array(list("abcd"))
    models = {"sharp": power(proba, 3), "flat": power(proba, 0.4)}
    report = report_of(labels[y], models, n_draws=50, coverage=0.6, n_resamples=0)
    assert report.attrs["summary"]["sharp"].startswith("overconfident: ")
    assert report.attrs["summary"]["flat"].startswith("underconfident: ")
    assert (
        report.loc[("ece", "sharp"), "reading"].partition("; ")[2].startswith("worse than a calibrated model")
    )
    assert "less than if the forecasts were right" in report.loc[("set_coverage", "sharp"), "reading"]
    assert "more than if the forecasts were right" in report.loc[("set_coverage", "flat"), "reading"]
    assert report.to_text().count("*") >= 2


def test_sets_have_the_metrics_of_sets(forecast):
    y, proba = forecast
    report = report_of(y, proba > 0.2, n_resamples=20)
    assert list(report.index) == [name for name in NAMES if class_specs()[name].needs == "set"]
    assert report[["low", "high"]].notna().all(axis=None)
    assert report["calibrated"].isna().all()
    assert re.fullmatch(r"the sets contain [\d.]+ % of the labels", report.attrs["summary"]["model"])


@pytest.mark.parametrize(
    ("coverage", "verdict"), [(0.6, "underconfident"), (0.85, "calibrated"), (0.95, "overconfident")]
)
def test_given_sets_are_compared_with_the_coverage_they_were_made_for(coverage, verdict):
    sets = np.arange(800)[:, np.newaxis] % 4 == np.arange(4)
    y = np.where(np.arange(800) < 680, np.arange(800), np.arange(1, 801)) % 4
    row = report_of(y, sets, coverage=coverage, **QUICK).loc["set_coverage"]
    assert row["optimum"] == coverage
    assert row["reading"] == f"{verdict}: the {100 * coverage:g} % sets contain 85 % of the labels"


def test_weights_are_repetitions_and_unknown_labels_misses(forecast):
    y, proba = forecast
    weight = np.random.default_rng(0).integers(0, 3, size=800)
    rows = np.repeat(np.arange(800), weight)
    weighted = report_of(y, proba, sample_weight=weight, n_resamples=20, n_draws=20)
    repeated = report_of(y[rows], proba[rows], **QUICK)
    assert_allclose(weighted["value"].astype(float), repeated["value"].astype(float), rtol=1e-10)
    assert weighted.attrs["rows"] == rows.size
    strange = report_of(np.full(800, 9), proba, labels=[0, 1, 2, 3], **QUICK)
    assert strange.loc["set_coverage", "value"] == 0


def test_two_classes_need_their_labels(few_rows):
    proba = np.array([[0.2, 0.8], [0.1, 0.9], [0.6, 0.4]])
    report = report_of([0, 1, 1], proba, labels=[0, 1], **QUICK)
    assert list(report.index) == NAMES
    for y in ([0, 1, 1], ["a", "b", "b"], np.array(["a", "b", "b"], dtype=object), [True, False, True]):
        for table in (proba, np.sort(proba)):
            with pytest.raises(ValueError, match="`labels` must be given for two classes"):
                report_of(y, table, **QUICK)


def test_two_columns_without_labels_are_bounds(few_rows):
    for y, row in (([0, 1, 1], [-1, 0.5]), ([0.2, 0.4], [0.05, 0.95]), ([0.2, 0.4, 0.6], [0.05, 0.95])):
        assert "picp" in report_of(y, np.tile(row, (len(y), 1)), **QUICK).index


def test_models_have_as_many_classes(forecast):
    y, proba = forecast
    with pytest.raises(ValueError, match=r"`y_pred` must have shape \(800, 4\), one row per target"):
        report_of(y, {"a": proba, "b": np.full((800, 5), 0.2)}, **QUICK)


def test_few_rows_are_reported_with_one_warning():
    proba = np.full((5, 3), 1 / 3)
    with pytest.warns(SmallSampleWarning, match="has 5 rows. With fewer than 50") as caught:
        uncertainty_report([0, 1, 2, 0, 1], proba, n_resamples=5, n_draws=5)
    assert len(caught) == 1
