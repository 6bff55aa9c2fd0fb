"""Laws that every registered metric of classes obeys, read off its record."""

import math

import numpy as np
import pandas as pd
import pytest

from skuq.conformal import prediction_set
from skuq.evaluation import uncertainty_report
from skuq.metrics._class_scores import draw_codes
from tests.metrics.options import class_specs

SPECS = list(class_specs().values())
LABELS = np.array(["ant", "bee", "cat", "dog"])
OPTIONS = {
    "ece": [
        {},
        {"n_bins": 1},
        {"strategy": "quantile"},
        {"norm": "squared"},
        {"norm": "debiased"},
        {"classwise": True, "strategy": "quantile"},
    ],
    "set_coverage_error": [{}, {"signed": True}, {"coverage": 0.5}],
}
CASES = [(spec, options) for spec in SPECS for options in OPTIONS.get(spec.abbreviation, [{}])]
each_case = pytest.mark.parametrize(
    ("spec", "options"), CASES, ids=[f"{spec.abbreviation}-{options}" for spec, options in CASES]
)


def of(specs):
    return pytest.mark.parametrize("spec", list(specs), ids=lambda spec: spec.abbreviation)


@pytest.fixture
def forecast():
    """Labels and probabilities of an overconfident forecast, without ties."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([2.0, 1.0, 1.0, 0.3], size=700)
    y = LABELS[draw_codes(proba, np.random.RandomState(0))]
    sharp = proba**1.5
    return y, sharp / sharp.sum(axis=1, keepdims=True)


def value(spec, y, proba, **options):
    return spec.function(y, proba, **{"labels": LABELS, **options})


@each_case
def test_values_are_floats_within_the_bounds_of_the_record(spec, options, forecast):
    y, proba = forecast
    low, high = spec.bounds
    certain = np.eye(len(LABELS))
    for one in (proba, proba[::-1], certain[np.argmin(proba, axis=1)], certain[np.searchsorted(LABELS, y)]):
        result = value(spec, y, one, **options)
        assert type(result) is float
        assert low <= result <= high
    assert math.isfinite(value(spec, y, proba, **options))
    single = value(spec, y, proba.astype(np.float32), **options)
    assert single == pytest.approx(value(spec, y, proba, **options), rel=1e-4, abs=1e-6)


@each_case
def test_permuting_and_renaming_classes_changes_nothing(spec, options, forecast):
    y, proba = forecast
    expected, order = value(spec, y, proba, **options), [2, 0, 3, 1]
    permuted = value(spec, y, proba[:, order], labels=LABELS[order], **options)
    assert permuted == pytest.approx(expected, rel=1e-12)
    numbers = np.searchsorted(LABELS, y)
    for targets, labels in (
        (numbers, [0, 1, 2, 3]),
        (numbers.astype(float) * 2, [0.0, 2.0, 4.0, 6.0]),
        (pd.Series(y, index=np.arange(y.size)[::-1]), LABELS),
        (pd.Series(y, dtype="category"), list(LABELS)),
        (list(y), LABELS.astype(object)),
        (y[:, np.newaxis], LABELS),
        (y, None),  # all classes are there
    ):
        assert spec.function(targets, proba, labels=labels, **options) == expected
    assert value(spec, y, pd.DataFrame(proba), **options) == expected


@each_case
def test_weights_equal_repetition(spec, options, forecast):
    y, proba = forecast
    plain = value(spec, y, proba, **options)
    order = np.random.default_rng(1).permutation(y.size)
    assert value(spec, y[order], proba[order], **options) == pytest.approx(plain, rel=1e-11)
    weight = np.random.default_rng(0).integers(0, 4, size=y.size)
    rows = np.repeat(np.arange(y.size), weight)
    weighted = value(spec, y, proba, sample_weight=weight, **options)
    assert weighted == pytest.approx(value(spec, y[rows], proba[rows], **options), rel=1e-10)
    assert weighted != pytest.approx(plain, rel=1e-6)
    # A row of weight 0 is as if absent.
    wild = np.where(weight == 0, "unicorn", y.astype(object))
    assert value(spec, wild, proba, sample_weight=weight, **options) == pytest.approx(weighted, rel=1e-12)
    of = spec.computation(options)(np.searchsorted(LABELS, y), proba)
    values = of(np.array([weight, np.ones(y.size)], dtype=float))
    assert values == pytest.approx([weighted, plain], rel=1e-12)


@of(SPECS)
def test_sets_stand_for_the_probabilities_or_are_refused(spec, forecast):
    y, proba = forecast
    if spec.needs == "proba":
        with pytest.raises(ValueError, match=r"`y_pred` must hold probabilities from .*, got sets"):
            value(spec, y, proba > 0.2)
        return
    for coverage in (0.5, 0.9):
        sets = prediction_set(proba, coverage)
        assert value(spec, y, sets, coverage=coverage) == value(spec, y, proba, coverage=coverage)
        assert value(spec, y, pd.DataFrame(sets)) == value(spec, y, sets) == value(spec, y, sets.tolist())


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_values_of_reports_and_of_few_rows_and_classes(forecast):
    y, proba = forecast
    report = uncertainty_report(y, proba, labels=LABELS, n_resamples=0, n_draws=0)
    for spec in SPECS:
        assert report.loc[spec.abbreviation, "value"] == pytest.approx(value(spec, y, proba), rel=1e-12)
        assert math.isfinite(spec.function(["b"], [[0.3, 0.7]], labels=["a", "b"]))
        assert math.isfinite(spec.function([1, 1], [[1.0], [1.0]]))
        assert math.isfinite(spec.function([False, True], [[0.3, 0.7], [0.2, 0.8]]))
