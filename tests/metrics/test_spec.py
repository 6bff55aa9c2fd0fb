"""The registry, and the warning of metrics about few rows."""

import inspect
import pickle

import numpy as np
import pytest

import skuq.metrics
import skuq.multivariate
from skuq.distributions import Normal
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import (
    _spec,
    crps_loss,
    expected_normalized_calibration_error,
    mean_absolute_calibration_error,
)
from skuq.metrics._spec import ORDER, all_specs, find_spec, metric
from skuq.multivariate import NormalJoint
from tests.metrics.options import required

SPECS = all_specs(rooms=True)
WARNING = {
    "agce",
    "cals",
    "crps_miscalibration",
    "cwc",
    "ece",
    "ecpe",
    "ence",
    "ert",
    "interval_coverage_error",
    "mace",
    "miscal_area",
    "qce",
    "rmsce",
    "set_coverage_error",
    "uce",
    "wsc",
}


def call(spec, n, weight=None):
    rng = np.random.default_rng(0)
    options = required(spec) | ({"X": np.zeros((n, 1))} if spec.needs_X else {})
    if spec.of_targets:
        dist = NormalJoint(np.zeros((n, 2)), np.eye(2))
        return spec.function(rng.normal(size=(n, 2)), dist, sample_weight=weight, **options)
    if spec.of_classes:
        return spec.function(np.arange(n) % 2, np.full((n, 2), 0.5), sample_weight=weight, **options)
    return spec.function(rng.normal(size=n), Normal(np.zeros(n), np.ones(n)), sample_weight=weight, **options)


CENSORING = {"event", "lower", "upper"}


def test_every_public_metric_has_a_record():
    functions = {spec.function for spec in SPECS.values()}
    public = {
        (vars(skuq.metrics) | vars(skuq.multivariate))[name]
        for name in (*skuq.metrics.__all__, *skuq.multivariate.__all__)
        if name.rsplit("_", 1)[-1] in {"loss", "error", "score", "width", "sharpness"}
    }
    assert public <= functions
    known = {name: getattr(room, name) for room in (skuq.metrics, skuq.multivariate) for name in room.__all__}
    assert functions <= set(known.values())


def test_find_by_function_abbreviation_and_scorer_name():
    for spec in SPECS.values():
        assert find_spec(spec.function) is find_spec(spec.abbreviation) is find_spec(spec.scorer_name) is spec
        assert spec.scorer_name == ("neg_" if spec.direction == "lower" else "") + spec.abbreviation

    class Unhashable:
        __hash__ = None

        def __call__(self):
            return 0.0

    for unknown in ("r2", len, Unhashable()):
        assert find_spec(unknown) is None
    labels = [SPECS[name].label for name in ("crps", "ence", "nll")]
    assert labels == ["CRPS (units of y)", "ENCE", "NLL"]


def test_functions_pickle_and_keep_their_signature():
    for spec in SPECS.values():
        assert pickle.loads(pickle.dumps(spec.function)) is spec.function
        parameters = list(inspect.signature(spec.function).parameters.values())
        given = ["y_true", "y_pred", "X"] if spec.needs_X else ["y_true", "y_pred"]
        assert [p.name for p in parameters[: len(given) + 1]] == [*given, "sample_weight"]
        assert all(p.kind is p.KEYWORD_ONLY for p in parameters[len(given) :])
        assert ("labels" in inspect.signature(spec.function).parameters) == spec.of_classes
        rows = {"labels"} | (CENSORING if spec.abbreviation == "nll" else set())
        assert set(spec.options) == {p.name for p in parameters[len(given) + 1 :]} - rows


def test_only_calibration_metrics_warn_and_only_below_500_rows(subtests):
    for spec in SPECS.values():
        with subtests.test(msg=spec.abbreviation):
            if spec.abbreviation in WARNING:
                message = f"`{spec.function.__name__}` was computed from 499 rows"
                with pytest.warns(SmallSampleWarning, match=message) as caught:
                    call(spec, 499)
                assert len(caught) == 1
                assert caught[0].filename == __file__
                call(spec, 500)
            else:
                call(spec, 2)


def test_weights_count_as_rows_and_the_computation_without_the_warning_is_at_hand():
    call(SPECS["mace"], 100, np.full(100, 5))
    call(SPECS["mace"], 500, np.full(500, 1e-3))
    with pytest.warns(SmallSampleWarning, match="100 rows"):
        call(SPECS["mace"], 1000, np.repeat([1, 0], [100, 900]))
    y, dist = np.zeros(3), Normal(np.zeros(3), np.ones(3))
    for function in (mean_absolute_calibration_error, expected_normalized_calibration_error):
        with pytest.warns(SmallSampleWarning):
            expected = function(y_true=y, y_pred=dist)
        assert find_spec(function).compute(y, dist) == expected
    assert find_spec(crps_loss).compute is crps_loss


@pytest.fixture
def registry(monkeypatch):
    """A copy of the registry that a test may add to."""
    monkeypatch.setattr(_spec, "_SPECS", dict(_spec._SPECS))
    monkeypatch.setattr(_spec, "_ABBREVIATIONS", dict(_spec._ABBREVIATIONS))


def test_the_order_lists_every_metric_and_not_the_order_of_definition(registry, monkeypatch):
    assert list(all_specs(rooms=True)) == list(ORDER), (
        "add the abbreviation to ORDER in skuq/metrics/_spec.py"
    )
    monkeypatch.setattr(_spec, "_SPECS", dict(reversed(_spec._SPECS.items())))
    assert list(all_specs(rooms=True)) == list(ORDER)


def test_one_decorator_makes_a_metric(registry):
    """The whole of what adding a metric takes: scorer, names and options follow."""
    record = {"units": 1, "optimum": 0.0, "needs": "moments", "proper": False, "source": "folklore"}

    @metric("mae", title="MAE", direction="lower", **record)
    def mean_error_loss(y_true, y_pred, *, sample_weight=None, power=1):
        return float(np.mean(np.abs(y_true - y_pred.mean()) ** power))

    assert "neg_mae" in skuq.metrics.get_scorer_names()
    assert skuq.metrics.get_scorer("neg_mae").__name__ == "neg_mae"
    assert repr(skuq.metrics.make_scorer("mae", power=2)) == "make_scorer('mae', power=2)"

    @metric("skill", title="Skill", direction="higher", **record)
    def skill_score(y_true, y_pred, *, sample_weight=None, y_train):
        return float(np.mean(y_train))

    assert "skill" not in skuq.metrics.get_scorer_names()
    message = r"a predefined scorer, got 'skill'. Use make_scorer\('skill', y_train=...\)"
    with pytest.raises(ValueError, match=message):
        skuq.metrics.get_scorer("skill")
    with pytest.raises(TypeError, match="`options` of 'skill' must include 'y_train'"):
        skuq.metrics.make_scorer("skill")
    assert skuq.metrics.make_scorer("skill", y_train=[1.0, 2.0]).__name__ == "skill"
