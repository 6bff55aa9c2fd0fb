"""Two laws of every public function of rows: their order does not matter, and weights are repetitions.

The rows have ties in the targets, the forecasts and the predicted scales, and some have the weight 0.
"""

from __future__ import annotations

import dataclasses
import inspect
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from skuq import displays, evaluation, metrics, monitoring, multivariate, survival
from skuq.distributions import Normal
from skuq.multivariate import EmpiricalJoint

N = 60


@pytest.fixture(scope="module")
def table():
    """Rows for all kinds of functions, and their weights."""
    rng = np.random.default_rng(0)
    loc, scale = np.round(2 * rng.normal(size=N)) / 2, rng.choice([0.5, 1.0, 2.0], size=N)
    members = np.round(rng.normal(size=(N, 5, 2)), 1)
    rows = {
        "y": np.maximum(np.round(loc + scale * rng.normal(size=N)) + 4.0, 0.0),
        "loc": loc + 4.0,
        "scale": scale,
        "event": rng.random(N) < 0.7,
        "X": np.round(rng.normal(size=(N, 2)), 1),
        "feature": rng.integers(0, 4, size=N).astype(float),
        "proba": rng.dirichlet(np.ones(3), size=N // 2).repeat(2, axis=0),
        "label": rng.integers(0, 3, size=N),
        "Y": np.round(rng.normal(size=(N, 2)), 1),
        "members": members,
        "member_weight": rng.integers(1, 4, size=(N, 5)) / 10,
    }
    rows["event"][np.argmax(rows["y"])] = True  # the last time is observed
    return rows, rng.integers(0, 3, size=N)


# Functions by the kind of their forecasts; all others forecast one number.
CLASSES = {
    "class_brier_loss",
    "class_log_loss",
    "class_reliability_table",
    "conditional_set_coverage",
    "expected_calibration_error",
    "mean_set_size",
    "set_coverage_error",
    "set_coverage_score",
    "ClassReliabilityDisplay",
    "PredictionSetDisplay",
}
JOINT = {
    "dawid_sebastiani_loss",
    "energy_score_loss",
    "joint_rank_histogram",
    "joint_report",
    "linear_crps_loss",
    "mean_crps_loss",
    "variogram_score_loss",
    "JointRankHistogramDisplay",
}
OPTIONS = {
    "interval_coverage_bounds": {"lower": None, "upper": None},
    "ipcw_brier_loss": {"time": 4.2},
    "ipcw_crps_loss": {"upper": 4.2},
    "murphy_curve": {"theta": 9},
    "probability_reliability_curve": {"threshold": 4.0, "band": None},
    "quantile_reliability_curve": {"band": None},
    "relative_economic_value": {"threshold": 4.2, "above": True},
    "score_decomposition": {"n_draws": 0},
    "survival_calibration_table": {"time": 4.2, "n_bins": 4},
    "survival_report": {"n_resamples": 0},
    "threshold_weighted_crps_loss": {"lower": 3.2},
    "threshold_weighted_nll_loss": {"lower": 3.2},
    "uncertainty_report": {"n_resamples": 0, "n_draws": 0},
    "ClassReliabilityDisplay": {"band": None},
    "PITHistogramDisplay": {"randomized": False},
    "QuantileReliabilityDisplay": {"band": None},
    "RelativeEconomicValueDisplay": {"threshold": 4.2, "above": True},
}
EXEMPT = {
    "adversarial_group_calibration_curve": "draws groups of rows",
    "adversarial_group_calibration_error": "draws groups of rows",
    "bootstrap_interval": "draws resamples of rows",
    "censoring_weights": "has one value per row",
    "compare_score_decompositions": "draws resamples of rows",
    "conditional_coverage_error": "draws folds of rows",
    "conditional_coverage_estimate": "draws folds of rows",
    "paired_permutation_test": "draws permutations of rows",
    "worst_slab_coverage": "draws halves of rows",
    "AdversarialGroupCalibrationDisplay": "draws groups of rows",
    "IntervalDisplay": "shows every row",
    "JointPairDisplay": "shows every row",
    "PredictionBandDisplay": "shows every row",
    "ResidualScaleDisplay": "shows every row",
    "SharpnessDisplay": "shows every row",
}


ROOMS = {
    "metrics": metrics,
    "evaluation": evaluation,
    "displays": displays,
    "survival": survival,
    "multivariate": multivariate,
}


def functions(room):
    """Return the public functions with weights of rows, or the displays of rows, by name."""
    found = {}
    for name in ROOMS[room].__all__:
        value = getattr(ROOMS[room], name)
        value = getattr(value, "from_predictions", None) if name.endswith("Display") else value
        if inspect.isroutine(value) and "sample_weight" in inspect.signature(value).parameters:
            found[name] = value
    return found


def call(name, function, rows, weight):
    """Return the value of a function for these rows."""
    rows = SimpleNamespace(**rows)
    if name in CLASSES:
        y, forecast = rows.label, rows.proba
    elif name in JOINT:
        y, forecast = rows.Y, EmpiricalJoint(rows.members, rows.member_weight)
    else:
        y, forecast = rows.y, Normal(rows.loc, rows.scale)
    given = {"sample_weight": weight, "event": rows.event, "X": rows.X, "feature": rows.feature}
    given |= {"y_train": np.arange(9.0), "random_state": 0}
    named = {"y_true": y, "y": y, "y_pred": forecast}
    options = given | named | OPTIONS.get(name, {})
    accepted = inspect.signature(function).parameters
    return function(**{key: value for key, value in options.items() if key in accepted})


def numbers(value, place=""):
    """Yield the numbers of a result of any kind, with their places."""
    if isinstance(value, pd.DataFrame | pd.Series):
        value = value.to_dict("list") if isinstance(value, pd.DataFrame) else value.to_dict()
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif hasattr(value, "plot"):
        value = vars(value)
    if isinstance(value, dict):
        for key, each in value.items():
            yield from numbers(each, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for key, each in enumerate(value):
            yield from numbers(each, f"{place}[{key}]")
    elif isinstance(value, np.ndarray | float | int | np.number) and np.asarray(value).dtype.kind in "fiub":
        yield place, np.asarray(value, dtype=np.float64)


def assert_same(found, expected):
    found, expected = list(numbers(found)), list(numbers(expected))
    assert [place for place, _ in found] == [place for place, _ in expected]
    assert found
    for (place, value), (_, other) in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-9, err_msg=place)


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("law", ["order", "repetitions"])
def test_order_and_repetitions_of_rows(table, law, room, subtests, monkeypatch):
    rows, weight = table
    order = np.random.default_rng(1).permutation(N)
    moved = {key: value[order] for key, value in rows.items()}
    repeated = {key: np.repeat(value, weight, axis=0) for key, value in rows.items()}
    other = (moved, weight[order]) if law == "order" else (repeated, None)
    for name, function in functions(room).items():
        if name in EXEMPT:
            continue
        if room == "displays":
            monkeypatch.setattr(function.__self__, "plot", lambda self, *args, **kwargs: self)
        with subtests.test(name):
            assert_same(call(name, function, rows, weight), call(name, function, *other))


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_accumulators_of_rows(table, kind, subtests):
    rows, weight = table
    order = np.random.default_rng(1).permutation(N)
    moved = {key: value[order] for key, value in rows.items()}
    repeated = {key: np.repeat(value, weight, axis=0) for key, value in rows.items()}

    def result(rows, weight):
        if kind == "classes":
            accumulator = monitoring.ClassMetricAccumulator(labels=[0, 1, 2])
            return accumulator.update(rows["label"], rows["proba"], weight).result()
        dist = Normal(rows["loc"], rows["scale"])
        return monitoring.MetricAccumulator().update(rows["y"], dist, weight).result()

    for law, other in (("order", (moved, weight[order])), ("repetitions", (repeated, None))):
        with subtests.test(law):
            assert_same(result(rows, weight), result(*other))


def test_every_exemption_is_a_function_of_rows():
    names = {name for room in ROOMS for name in functions(room)}
    assert set(EXEMPT) | CLASSES | JOINT | set(OPTIONS) <= names
    assert len(names) > 80
