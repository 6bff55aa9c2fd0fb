"""Accumulated metrics of classes are those of all rows."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

from skuq.evaluation import uncertainty_report
from skuq.metrics import class_reliability_table, crps_loss
from skuq.metrics._class_scores import draw_codes
from skuq.monitoring import ClassMetricAccumulator, MetricAccumulator
from tests.metrics.options import class_specs

LABELS = np.array(["ant", "bee", "cat"])
SPECS = class_specs()


def rows(n=600, exponent=1.6):
    """Return labels, probabilities and weights. The forecast is overconfident if the exponent exceeds 1."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([2.0, 1.0, 0.5], size=n)
    y = LABELS[draw_codes(proba, np.random.RandomState(0))]
    sharp = proba**exponent
    return y, sharp / sharp.sum(axis=1, keepdims=True), rng.integers(0, 4, size=n)


def in_chunks(acc, y, proba, cuts, weight=None):
    for part in np.split(np.arange(len(y)), cuts):
        acc.update(y[part], proba[part], None if weight is None else weight[part])
    return acc


@pytest.mark.parametrize("weighted", [False, True])
def test_the_metrics_are_those_of_all_rows(weighted):
    y, proba, weight = rows()
    weight = weight if weighted else None
    acc = in_chunks(ClassMetricAccumulator(labels=LABELS), y, proba, [1, 250, 250], weight)
    assert acc.metrics == tuple(SPECS)
    assert all(acc.exact.values())
    for name, found in acc.result().items():
        expected = SPECS[name].compute(y, proba, labels=LABELS, sample_weight=weight)
        assert found == pytest.approx(expected, rel=1e-12), name
    table = class_reliability_table(y, proba, labels=LABELS, sample_weight=weight)
    pd.testing.assert_frame_equal(acc.reliability_table(), table, rtol=1e-12)


def test_options_and_common_arguments_reach_the_metrics():
    y, proba, _ = rows()
    for name, arguments, options in (
        ("ece", {}, {"classwise": True, "n_bins": 7}),
        ("ece", {}, {"norm": "squared"}),
        ("ece", {"n_bins": 5}, {}),
        ("set_coverage", {}, {"coverage": 0.5}),
        ("set_coverage", {"coverage": 0.6}, {}),
        ("set_coverage_error", {}, {"signed": True}),
    ):
        acc = ClassMetricAccumulator(name, labels=LABELS, options={name: options}, **arguments)
        expected = SPECS[name].compute(y, proba, labels=LABELS, **options, **arguments)
        assert in_chunks(acc, y, proba, [100]).result()[name] == pytest.approx(expected, rel=1e-12)
    assert len(ClassMetricAccumulator(labels=LABELS, n_bins=5).update(y, proba).reliability_table()) <= 5


def test_merges_copies_and_pickles():
    y, proba, _ = rows()
    whole = ClassMetricAccumulator(labels=LABELS).update(y, proba)
    parts = [
        ClassMetricAccumulator(labels=list(LABELS)).update(y[part], proba[part])
        for part in (slice(200), slice(200, 600))
    ]
    assert sum(parts).result() == pytest.approx(whole.result(), rel=1e-12)
    for made in (copy.copy(parts[0]), pickle.loads(pickle.dumps(parts[0]))):
        assert made.merge(parts[1]).n_rows == 600
    with pytest.raises(ValueError, match="the same `labels`"):
        whole.merge(ClassMetricAccumulator(labels=LABELS[::-1]))
    with pytest.raises(TypeError, match="be a ClassMetricAccumulator, got MetricAccumulator"):
        whole.merge(MetricAccumulator())
    with pytest.raises(TypeError, match="be a MetricAccumulator, got ClassMetricAccumulator"):
        MetricAccumulator().merge(whole)


def test_the_report_is_that_of_all_rows():
    y, proba, _ = rows(4000)
    acc = in_chunks(ClassMetricAccumulator(labels=LABELS), y, proba, [1500])
    found = acc.report(random_state=0)
    expected = uncertainty_report(y, proba, labels=LABELS, n_resamples=200, n_draws=200, random_state=0)
    assert found.attrs["summary"] == expected.attrs["summary"]
    assert found.attrs["of_classes"]
    headlines = [each.attrs["headlines"]["model"] for each in (found, expected)]
    assert headlines[0] == pytest.approx(headlines[1], nan_ok=True)
    assert acc.expected_coverage == pytest.approx(headlines[1]["claimed"])
    scores = ["class_log_loss", "class_brier", "set_coverage", "set_size"]
    for column in ("low", "high"):
        np.testing.assert_allclose(
            found.loc[scores, column].astype(float), expected.loc[scores, column].astype(float), rtol=0.02
        )


@pytest.mark.parametrize("options", [{}, {"classwise": True}, {"norm": "squared"}])
def test_the_error_of_a_calibrated_forecast_is_near_the_simulated_one(options):
    _, proba, _ = rows(4000)
    y = draw_codes(proba, np.random.RandomState(1))
    acc = ClassMetricAccumulator("ece", labels=range(3), options={"ece": options}).update(y, proba)
    simulated = uncertainty_report(
        y, proba, labels=range(3), metrics=["ece"], options={"ece": options}, n_resamples=0, random_state=0
    )
    found = acc.report().loc["ece", "calibrated"]
    assert found == pytest.approx(simulated.loc["ece", "calibrated"], rel=0.1)


def test_a_probability_of_zero_makes_the_log_loss_infinite_in_every_block():
    acc = ClassMetricAccumulator("class_log_loss", labels=[0, 1])
    acc.update([0] * 60, np.tile([1.0, 0.0], (60, 1))).update([1], [[1.0, 0.0]]).update([0], [[0.5, 0.5]])
    assert acc.result() == {"class_log_loss": np.inf}
    reading = acc.report().loc["class_log_loss", "reading"]
    assert reading == "infinite: some observed classes have a predicted probability of 0"


def test_metrics_that_need_all_rows_or_other_forecasts():
    for metrics, options, message in (
        (["crps"], {}, "of classes, got the metric 'crps'. Use MetricAcc"),
        ([crps_loss], {}, "of classes, got the metric 'crps'"),
        (["ece"], {"ece": {"strategy": "quantile"}}, "needs all rows at once with .*strategy='quantile'"),
        (["ece"], {"ece": {"norm": "debiased"}}, "needs all rows at once with .*norm='debiased'"),
        ([], {"crps": {}}, "of classes, got the metric 'crps'"),
    ):
        with pytest.raises(ValueError, match=message):
            ClassMetricAccumulator(*metrics, labels=LABELS, options=options)


def test_bad_labels_and_the_representation():
    for labels, message in (
        (None, "`labels` must hold a class for each column, got None"),
        ([], r"`labels` must have shape \(K,\)"),
        ([[0, 1]], r"`labels` must have shape \(K,\)"),
        (["a", "a"], "`labels` must be distinct"),
    ):
        with pytest.raises(ValueError, match=message):
            ClassMetricAccumulator(labels=labels)
    acc = ClassMetricAccumulator("ece", labels=["a", "b"], coverage=0.8)
    shown = "ClassMetricAccumulator('ece', labels=array(['a', 'b'], dtype='<U1'), coverage=0.8, 0 rows)"
    assert repr(acc) == shown
    acc.labels[0] = "z"
    assert acc.labels.tolist() == ["a", "b"]


def test_a_bad_block_leaves_the_accumulator_unchanged():
    acc = ClassMetricAccumulator(labels=LABELS).update(*rows()[:2])
    before = acc.result()
    for y, proba, error, message in (
        (["ant"], [[0.5, 0.6, 0.1]], ValueError, "rows that sum to 1"),
        (["ant"], [[0.5, 0.5]], ValueError, r"`labels` must have shape \(2,\)"),
        (["ant"], [[True, False, False]], ValueError, "got sets"),
        ([1], [[0.5, 0.4, 0.1]], TypeError, "the type of `y_true`"),
        (["ant"], np.empty((0, 3)), ValueError, "at least one row"),
    ):
        with pytest.raises(error, match=message):
            acc.update(y, proba)
    assert (acc.result(), acc.n_rows) == (before, 600)
    assert acc.update([], np.empty((0, 3))).n_rows == 600
