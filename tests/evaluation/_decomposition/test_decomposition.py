"""Decompositions and reliability curves: published numbers, and the laws of the parts."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from skuq.distributions import Empirical, Normal, Transformed
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.evaluation import (
    compare_score_decompositions,
    probability_reliability_curve,
    quantile_reliability_curve,
    score_decomposition,
)
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import crps_loss, pinball_loss

# Eight rows whose parts were computed by model-diagnostics.
Y = np.array([1.0, 2, 4, 3, 7, 5, 8, 6])
MEAN = np.array([1.5, 1, 3, 3.5, 5, 6, 6.5, 9])
STD = np.array([1, 0.5, 1, 2, 1, 1.5, 2, 1])
WEIGHT = np.array([1.0, 2, 1, 1, 3, 1, 1, 2])
EVENTS, PROBA = np.array([0, 0, 0, 1, 1, 1]), np.array([0.4, 0.3, 0.2, 0.1, 0.5, 0.9])
CONSTANT = {"n_draws": 0}


def numbers(parts):
    return [parts.miscalibration, parts.discrimination, parts.uncertainty, parts.score]


def test_points_have_the_parts_of_model_diagnostics():
    weighted = [2.4930555555555554, 4.569444444444445, 5.138888888888889, 3.0625]
    for options, weight, expected in (
        ({"score": "squared_error"}, None, [1.71875, 4.625, 5.25, 2.34375]),
        ({"score": "squared_error"}, WEIGHT, weighted),
        ({"score": "pinball", "levels": 0.5}, None, [0.28125, 0.625, 1, 0.65625]),
        ({"score": "pinball", "levels": 0.9}, None, [0.60625, 0.275, 0.35, 0.68125]),
        ({"score": "pinball", "levels": 0.1}, None, [0.55625, 0.275, 0.35, 0.63125]),
    ):
        parts = score_decomposition(Y, MEAN, sample_weight=weight, **options)
        assert_allclose(numbers(parts), expected, rtol=1e-12)
        assert math.isnan(parts.miscalibration_limit)
        assert math.isnan(parts.p_value)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ("brier", [0.1016666667, 0.125, 0.25, 0.2266666667]),
        ("log_loss", [0.3237327216, 0.3182570841, 0.6931471806, 0.698622818]),
    ],
)
def test_probabilities_have_the_parts_of_model_diagnostics(score, expected):
    frame = pd.DataFrame({"no": 1 - PROBA, "yes": PROBA})
    named = pd.Series(np.where(EVENTS, "yes", "no"))
    for y, proba, labels in (
        (EVENTS, PROBA, None),
        (named.to_numpy(), frame.to_numpy(), ["no", "yes"]),
        (named, frame, frame.columns),
    ):
        parts = score_decomposition(y, proba, score=score, labels=labels, **CONSTANT)
        assert_allclose(numbers(parts), expected, atol=1e-10)
        assert labels is None or parts.parts.index.tolist() == ["yes"]


def test_quantiles_of_normals():
    parts = score_decomposition(
        Y, Normal(MEAN, STD), score="pinball", levels=[0.1, 0.5, 0.9], **CONSTANT
    ).parts
    expected = [[0.31875, 0.2875, 0.35], [0.28125, 0.625, 1], [0.2136530, 0.275, 0.35]]
    assert_allclose(parts[["miscalibration", "discrimination", "uncertainty"]], expected, atol=1e-7)
    assert_allclose(parts["share"], 1 / 3)


def test_crps_by_quantile():
    parts = score_decomposition(Y, Normal(MEAN, STD), levels=99, **CONSTANT)
    assert_allclose(numbers(parts)[:3], [0.58151, 0.94761, 1.31257], atol=5e-6)
    centers = (np.arange(99) + 0.5) / 99
    assert_allclose(
        numbers(score_decomposition(Y, Normal(MEAN, STD), levels=centers, **CONSTANT)),
        numbers(parts),
        rtol=1e-12,
    )


def test_crps_by_threshold():
    # the midpoints of 4000 cells between any two targets
    edges = np.concatenate([[-12], np.sort(Y), [26]])
    cells = [np.linspace(low, high, 4001) for low, high in pairwise(edges)]
    grid = np.concatenate([(each[1:] + each[:-1]) / 2 for each in cells])
    width = np.concatenate([np.diff(each) for each in cells])
    parts = score_decomposition(Y, Normal(MEAN, STD), score="brier", threshold=grid, **CONSTANT).parts
    found = width @ parts[["miscalibration", "discrimination", "uncertainty", "score"]].to_numpy()
    assert_allclose(found, [0.56082948, 0.92708333, 1.3125, 0.94624615], atol=1e-7)
    assert found[3] == pytest.approx(crps_loss(Y, Normal(MEAN, STD)), abs=2e-7)
    given = score_decomposition(Y, Normal(MEAN, STD), method="threshold", threshold=grid, **CONSTANT)
    assert_allclose(numbers(given), found, atol=1e-3)  # the trapezoid rule errs at the targets


def random_forecast(seed):
    """Return targets and forecasts with ties, weights, constants and few rows."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 3, 5, 20, 60]))
    y = rng.integers(0, 6, n) / 2 if seed % 2 else rng.normal(size=n)
    loc = rng.integers(0, 4, n).astype(float) if seed % 3 else np.full(n, 1.0)
    scale = np.full(n, 0.7) if seed % 5 else rng.uniform(0.1, 2, n)
    weight = rng.integers(0, 4, n).astype(float) if seed % 4 == 0 else None
    if weight is not None:
        weight[0] = 2.0
    return y, loc, scale, weight


REQUESTS = [
    {},
    {"levels": [0.05, 0.3, 0.31, 0.9]},
    {"method": "threshold"},
    {"score": "pinball", "levels": 3},
    {"score": "squared_error"},
    {"score": "brier", "threshold": [0.4, 1.0]},
    {"score": "log_loss", "threshold": [0.4, 1.0]},
]


@pytest.mark.parametrize("options", REQUESTS, ids=str)
def test_parts_sum_to_the_score_and_are_not_negative(options):
    for seed in range(60):  # Each combination of ties, weights and constants.
        y, loc, scale, weight = random_forecast(seed)
        parts = score_decomposition(y, Normal(loc, scale), sample_weight=weight, **options, **CONSTANT)
        total = parts.miscalibration - parts.discrimination + parts.uncertainty
        assert total == pytest.approx(parts.score, rel=1e-10, abs=1e-10)
        assert min(numbers(parts)) >= -1e-12
        columns = parts.parts.drop(columns="share")
        assert columns.to_numpy().min() >= -1e-12
        assert_allclose(parts.parts["share"] @ columns["score"], parts.score, rtol=1e-10)


@pytest.mark.parametrize("options", REQUESTS, ids=str)
def test_a_weight_is_a_number_of_rows(options):
    rows = np.repeat(np.arange(8), WEIGHT.astype(int))
    weighted = score_decomposition(Y, Normal(MEAN, STD), sample_weight=WEIGHT, random_state=0, **options)
    repeated = score_decomposition(Y[rows], Normal(MEAN[rows], STD[rows]), random_state=0, **options)
    assert_allclose(numbers(weighted), numbers(repeated), rtol=1e-10)
    assert weighted.miscalibration_limit == pytest.approx(repeated.miscalibration_limit, rel=1e-10)
    assert weighted.p_value == repeated.p_value


def test_scores_are_those_of_the_metrics():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=2000)
    dist = Normal(loc, np.exp(0.5 * loc))
    y = dist.sample(1, 0)[:, 0]
    exact = crps_loss(y, dist)
    assert score_decomposition(y, dist, **CONSTANT).score == pytest.approx(exact, rel=5e-3)
    assert score_decomposition(y, dist, method="threshold", **CONSTANT).score == pytest.approx(
        exact, rel=5e-3
    )
    pinball = score_decomposition(y, dist, score="pinball", levels=[0.1, 0.7], **CONSTANT)
    assert pinball.score == pytest.approx(pinball_loss(y, dist, levels=[0.1, 0.7]), rel=1e-12)
    squared = score_decomposition(y, dist, score="squared_error", **CONSTANT)
    assert squared.uncertainty == pytest.approx(y.var(), rel=1e-12)
    assert squared.score == pytest.approx(np.mean((y - loc) ** 2), rel=1e-12)


@pytest.mark.parametrize("score", ["squared_error", "pinball"])
def test_increasing_functions_of_the_forecast_leave_the_discrimination(score):
    options = {"score": score, **({"levels": 0.3} if score == "pinball" else {})}
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + rng.normal(size=200)
    plain, bent = (score_decomposition(y, each, **options) for each in (x, np.exp(x)))
    assert bent.discrimination == pytest.approx(plain.discrimination, rel=1e-12)
    assert bent.uncertainty == plain.uncertainty
    assert bent.miscalibration > plain.miscalibration


def test_the_thresholds_of_a_transformed_target_are_the_transformed_thresholds():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=200)
    dist, y = Normal(loc, np.ones(200)), loc + rng.normal(size=200)
    log = Transformed(dist, np.exp, np.log)
    plain = score_decomposition(y, dist, score="brier", threshold=[-1, 0.5], **CONSTANT)
    bent = score_decomposition(np.exp(y), log, score="brier", threshold=np.exp([-1, 0.5]), **CONSTANT)
    assert_allclose(numbers(bent), numbers(plain), rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-98, 1e98])
def test_units_of_the_target(unit):
    for options, power in (({}, 1), ({"score": "squared_error"}, 2), ({"method": "threshold"}, 1)):
        plain = score_decomposition(Y, Normal(MEAN, STD), random_state=0, **options)
        scaled = score_decomposition(unit * Y, Normal(unit * MEAN, unit * STD), random_state=0, **options)
        factor = unit**power
        assert_allclose(numbers(scaled), np.array(numbers(plain)) * factor, rtol=1e-6, atol=1e-13 * factor)
        limit = plain.miscalibration_limit * factor
        assert scaled.miscalibration_limit == pytest.approx(limit, rel=1e-6, abs=0)
    plain, scaled = (
        compare_score_decompositions(
            u * Y, u * MEAN, u * MEAN[::-1], score="squared_error", n_resamples=20, random_state=0
        )
        for u in (1.0, unit)
    )
    assert_allclose(scaled, plain * unit**2, rtol=1e-6, atol=1e-13 * unit**2)


def test_parts_that_are_zero():
    for options in REQUESTS:  # a constant forecast
        parts = score_decomposition(Y, Normal(np.full(8, 4.0), np.full(8, 2.0)), **options, **CONSTANT)
        assert parts.discrimination == pytest.approx(0, abs=1e-12)
    constant_target = score_decomposition(np.full(5, 2.0), Normal(np.arange(5.0), np.ones(5)), random_state=0)
    one_row = score_decomposition([1.0], Normal([2.0], [1.0]), random_state=0)
    for parts in (constant_target, one_row):
        assert_allclose(numbers(parts), [parts.score, 0, 0, parts.score], atol=1e-12)
    right = score_decomposition(Y, Empirical(Y[:, np.newaxis]), levels=9, **CONSTANT)
    assert_allclose(numbers(right), [0, right.uncertainty, right.uncertainty, 0], atol=1e-15)
    assert score_decomposition(1e98 * Y, 1e98 * Y, score="squared_error").miscalibration == 0
    table = compare_score_decompositions(
        Y, Normal(MEAN, STD), Normal(MEAN, STD), sample_weight=WEIGHT, n_resamples=20, random_state=0
    )
    assert (table[["difference", "low", "high", "standard_error"]] == 0).all(axis=None)


def test_limits_are_reproducible_and_exist_for_fractional_weights():
    first, second, other = (
        score_decomposition(Y, Normal(MEAN, STD), random_state=seed).miscalibration_limit
        for seed in (0, 0, 1)
    )
    assert first == second != other
    parts = score_decomposition(Y, Normal(MEAN, STD), sample_weight=WEIGHT + 0.5, random_state=0)
    assert 0 < parts.miscalibration_limit < parts.score * 2


def test_an_impossible_event_has_an_infinite_log_loss():
    parts = score_decomposition([1, 0, 1], [0.0, 0.3, 0.8], score="log_loss", random_state=0)
    assert parts.score == parts.miscalibration == math.inf
    assert math.isfinite(parts.discrimination)
    assert math.isfinite(parts.miscalibration_limit)
    assert parts.p_value == pytest.approx(1 / 101)
    certain = score_decomposition([0, 0, 1], [0.0, 0.0, 1.0], score="log_loss", random_state=0)
    assert certain.score == certain.miscalibration == 0


def test_an_infinite_quantile_has_an_infinite_miscalibration():
    dist = ConformalPredictive([0.0, 10.0, 5.0], [1.0, 2.0, 1.0], [0.3, 1.1, 0.2, 0.7], symmetric=True)
    y = [1.0, 9.0, 4.0]
    with pytest.warns(SmallSampleWarning, match="bounds are infinite"):
        parts = score_decomposition(y, dist, score="pinball", levels=[0.01, 0.5], random_state=0)
    assert parts.score == parts.miscalibration == parts.miscalibration_limit == math.inf
    assert parts.parts.loc[0.5, "score"] == pytest.approx(pinball_loss(y, dist, levels=0.5))
    assert parts.p_value == 1
    assert math.isfinite(score_decomposition(y, dist, method="threshold", **CONSTANT).score)


def test_several_classes_are_compared_one_against_the_rest():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=300)
    y = (rng.random((300, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    parts = score_decomposition(y, proba, score="brier", random_state=0)
    assert parts.score == pytest.approx(np.mean((proba - np.eye(3)[y]) ** 2), rel=1e-12)
    each = [score_decomposition(y == k, proba[:, k], score="brier", **CONSTANT) for k in range(3)]
    assert_allclose(parts.parts["miscalibration"], [one.miscalibration for one in each], rtol=1e-10)
    assert parts.miscalibration == pytest.approx(np.mean([one.miscalibration for one in each]))
    assert parts.miscalibration < 1.5 * parts.miscalibration_limit


def test_half_the_standard_deviation_is_miscalibrated_and_the_right_one_is_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    y = x + rng.normal(size=500)
    right, narrow = (score_decomposition(y, Normal(x, np.full(500, s)), random_state=0) for s in (1.0, 0.5))
    assert right.miscalibration < right.miscalibration_limit
    assert right.p_value > 0.05
    assert narrow.miscalibration > 2 * narrow.miscalibration_limit
    assert narrow.p_value == pytest.approx(1 / 101)


@pytest.mark.laws
def test_calibrated_forecasts_exceed_the_limit_in_five_percent():
    rng = np.random.default_rng(0)
    p_values = []
    for seed in range(300):
        x = rng.normal(size=60)
        y = x + rng.normal(size=60)
        p_values.append(
            score_decomposition(y, Normal(x, np.ones(60)), levels=3, n_draws=99, random_state=seed).p_value
        )
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3
    assert np.mean(np.array(p_values) <= 0.05) < 0.1


def test_groups_are_decomposed_separately():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    right = x > 0
    y = x + np.where(right, 1.0, 3.0) * rng.normal(size=400)
    weight = np.ones(400)
    weight[:10] = 0
    dist = Normal(x, np.ones(400))
    options = {"groups": np.where(right, "a", "b"), "sample_weight": weight, "levels": 9}
    parts = score_decomposition(y, dist, random_state=0, **options)
    alone = score_decomposition(y[10:][~right[10:]], dist[10:][~right[10:]], levels=9, **CONSTANT)
    assert parts.groups.index.tolist() == ["a", "b"]
    assert_allclose(
        parts.groups.loc["b", ["miscalibration", "discrimination", "uncertainty", "score"]].astype(float),
        numbers(alone),
        rtol=1e-12,
    )
    assert parts.groups["n"].sum() == 390
    excess = parts.groups["miscalibration"] > parts.groups["miscalibration_limit"]
    assert excess.to_dict() == {"a": False, "b": True}
    assert parts.score == pytest.approx(np.average(parts.groups["score"], weights=parts.groups["n"]))


def test_differences_of_two_models():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 400))
    y = x + z + rng.normal(size=400)
    biased, blind = Normal(x + z + 0.8, 1.0), Normal(x, 2**0.5)
    table = compare_score_decompositions(y, biased, blind, levels=5, n_resamples=200, random_state=0)
    assert table.index.tolist() == ["score", "miscalibration", "discrimination"]
    for column, forecast in (("a", biased), ("b", blind)):
        parts = score_decomposition(y, forecast, levels=5, **CONSTANT)
        assert_allclose(table[column], [parts.score, parts.miscalibration, parts.discrimination], rtol=1e-12)
    assert_allclose(table["difference"], table["a"] - table["b"])
    assert (table["low"] <= table["high"]).all()
    assert table.loc["miscalibration", "low"] > 0
    assert table.loc["discrimination", "low"] > 0


def test_compared_thresholds_and_classes():
    rng = np.random.default_rng(0)
    thresholds = np.linspace(-3, 12, 30)
    options = {"n_resamples": 20, "random_state": 0}
    table = compare_score_decompositions(
        Y, Normal(MEAN, STD), Normal(MEAN + 2, STD), method="threshold", threshold=thresholds, **options
    )
    assert table.loc["score", "difference"] < 0
    proba = rng.random(100)
    y = (rng.random(100) < proba).astype(int)
    table = compare_score_decompositions(y, proba, proba**3, score="log_loss", **options)
    assert table.loc["miscalibration", "high"] < 0
    assert table.loc["discrimination", "difference"] == pytest.approx(0, abs=1e-12)


# ------------------------------------------------------------ isotonic reliability curves and their bands


def sample(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, x + rng.normal(size=n), Normal(x, np.ones(n))


def test_the_curve_of_probabilities_is_isotonic_regression():
    rng = np.random.default_rng(0)
    proba = rng.random(300).round(2)
    y, weight = (rng.random(300) < proba).astype(int), rng.integers(1, 4, 300)
    curve = probability_reliability_curve(y, proba, sample_weight=weight, band=None)
    expected = IsotonicRegression().fit(proba, y, weight)
    assert_allclose(curve["forecast"], np.unique(proba))
    assert_allclose(curve["recalibrated"], expected.predict(np.unique(proba)), atol=1e-12)
    assert_allclose(curve["n"], np.bincount(np.unique(proba, return_inverse=True)[1], weight))


def test_the_curve_gives_the_miscalibration():
    _x, y, dist = sample(200)
    quantile = dist.quantile([0.8])[:, 0]
    curve = quantile_reliability_curve(y, dist, levels=0.8, band=None)
    best = np.interp(quantile, curve["forecast"], curve["recalibrated"])
    loss = [np.maximum(0.8 * e, -0.2 * e).mean() for e in (y - quantile, y - best)]
    parts = score_decomposition(y, dist, score="pinball", levels=0.8, n_draws=0)
    assert loss[0] - loss[1] == pytest.approx(parts.miscalibration)
    points = quantile_reliability_curve(y, quantile, levels=0.8, band=None)
    assert_allclose(points, curve)


@pytest.mark.laws
def test_the_consistency_band_holds_the_curve_of_calibrated_forecasts():
    inside = []
    for seed in range(20):
        _x, y, dist = sample(200, seed)
        for curve in (
            quantile_reliability_curve(y, dist, levels=0.7, random_state=seed),
            probability_reliability_curve(y, dist, threshold=0.3, random_state=seed),
        ):
            low, high = curve["consistency_low"], curve["consistency_high"]
            inside.append(((curve["recalibrated"] >= low) & (curve["recalibrated"] <= high)).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.05)


@pytest.mark.laws
def test_the_confidence_band_holds_the_true_curve_of_biased_forecasts():
    inside, consistent = [], []
    for seed in range(20):
        x, y, _ = sample(400, seed)
        biased = Normal(x + 1, np.ones(400))
        curve = quantile_reliability_curve(y, biased, band="confidence", random_state=seed)
        middle = curve.iloc[40:-40]
        true = middle["forecast"] - 1
        inside.append(((true >= middle["confidence_low"]) & (true <= middle["confidence_high"])).mean())
        band = quantile_reliability_curve(y, biased, random_state=seed).iloc[40:-40]
        consistent.append((band["recalibrated"] >= band["consistency_low"]).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.08)
    assert np.mean(consistent) < 0.05


@pytest.mark.parametrize("band", ["consistency", "confidence"])
def test_a_weight_of_a_curve_is_a_number_of_rows(band):
    _x, y, dist = sample(50)
    weight = np.tile([1, 2], 25)
    rows = np.repeat(np.arange(50), weight)
    weighted = quantile_reliability_curve(y, dist, sample_weight=weight, band=band, random_state=0)
    repeated = quantile_reliability_curve(y[rows], dist[rows], band=band, random_state=0)
    columns = list(weighted) if band == "consistency" else ["forecast", "recalibrated", "n"]
    assert_allclose(weighted[columns], repeated[columns])
    fractional = quantile_reliability_curve(y, dist, sample_weight=weight + 0.5, band=band, random_state=0)
    assert len(fractional) == 50
    assert np.isfinite(fractional).all(axis=None)


def test_events_of_a_threshold_and_of_classes():
    _x, y, dist = sample(100)
    curve = probability_reliability_curve(y, dist, threshold=0.5, band=None)
    by_hand = probability_reliability_curve(y > 0.5, 1 - dist.cdf(np.full(100, 0.5)), band=None)
    assert_allclose(curve, by_hand)
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=200)
    y = np.array(["a", "b", "c"])[(rng.random((200, 1)) > proba.cumsum(axis=1)).sum(axis=1)]
    curve = probability_reliability_curve(y, proba, of_class="b", band=None)
    assert_allclose(curve, probability_reliability_curve(y == "b", proba[:, 1], band=None))
    top = probability_reliability_curve(y, proba, band=None)
    hit = np.array(["a", "b", "c"])[proba.argmax(axis=1)] == y
    assert_allclose(top, probability_reliability_curve(hit, proba.max(axis=1), band=None))


def test_bands_are_reproducible_nested_and_interpolated():
    _x, y, dist = sample(60)
    narrow, again, wide = (
        quantile_reliability_curve(y, dist, confidence=c, random_state=0) for c in (0.5, 0.5, 0.9)
    )
    assert_allclose(narrow, again)
    assert (wide["consistency_low"] <= narrow["consistency_low"]).all()
    assert (wide["consistency_high"] >= narrow["consistency_high"]).all()
    _, y, dist = sample(3000)
    curve = quantile_reliability_curve(y, dist, n_draws=20, random_state=0)
    low, high = curve["consistency_low"], curve["consistency_high"]
    assert len(curve) == 3000
    assert (np.diff(low) >= 0).all()
    assert (low <= high).all()
    assert abs(high - low).iloc[1500] < 0.5
