"""Isotonic reliability curves and their bands."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.isotonic import IsotonicRegression

from skuq.distributions import Normal
from skuq.evaluation import (
    probability_reliability_curve,
    quantile_reliability_curve,
    score_decomposition,
)

EVENTS, PROBA = np.array([0, 0, 0, 1, 1, 1]), np.array([0.4, 0.3, 0.2, 0.1, 0.5, 0.9])


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
    curve = quantile_reliability_curve(y, dist, level=0.8, band=None)
    best = np.interp(quantile, curve["forecast"], curve["recalibrated"])
    loss = [np.maximum(0.8 * e, -0.2 * e).mean() for e in (y - quantile, y - best)]
    parts = score_decomposition(y, dist, score="pinball", levels=0.8, n_redraws=0)
    assert loss[0] - loss[1] == pytest.approx(parts.miscalibration)
    points = quantile_reliability_curve(y, quantile, level=0.8, band=None)
    assert_allclose(points, curve)


def test_the_consistency_band_holds_the_curve_of_calibrated_forecasts():
    inside = []
    for seed in range(20):
        _x, y, dist = sample(200, seed)
        for curve in (
            quantile_reliability_curve(y, dist, level=0.7, random_state=seed),
            probability_reliability_curve(y, dist, threshold=0.3, random_state=seed),
        ):
            low, high = curve["consistency_low"], curve["consistency_high"]
            inside.append(((curve["recalibrated"] >= low) & (curve["recalibrated"] <= high)).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.05)


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
def test_a_weight_is_a_number_of_rows(band):
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


def test_the_event_of_a_threshold():
    _x, y, dist = sample(100)
    curve = probability_reliability_curve(y, dist, threshold=0.5, band=None)
    by_hand = probability_reliability_curve(y > 0.5, 1 - dist.cdf(np.full(100, 0.5)), band=None)
    assert_allclose(curve, by_hand)


def test_classes():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=200)
    y = np.array(["a", "b", "c"])[(rng.random((200, 1)) > proba.cumsum(axis=1)).sum(axis=1)]
    curve = probability_reliability_curve(y, proba, of_class="b", band=None)
    assert_allclose(curve, probability_reliability_curve(y == "b", proba[:, 1], band=None))
    top = probability_reliability_curve(y, proba, band=None)
    hit = np.array(["a", "b", "c"])[proba.argmax(axis=1)] == y
    assert_allclose(top, probability_reliability_curve(hit, proba.max(axis=1), band=None))


def test_the_band_of_many_forecasts_is_interpolated():
    _, y, dist = sample(3000)
    curve = quantile_reliability_curve(y, dist, n_redraws=20, random_state=0)
    assert len(curve) == 3000
    low, high = curve["consistency_low"], curve["consistency_high"]
    assert (np.diff(low) >= 0).all()
    assert (low <= high).all()
    assert abs(high - low).iloc[1500] < 0.5


def test_bands_are_reproducible_and_nested():
    _x, y, dist = sample(60)
    narrow, again, wide = (
        quantile_reliability_curve(y, dist, band_coverage=c, random_state=0) for c in (0.5, 0.5, 0.9)
    )
    assert_allclose(narrow, again)
    assert (wide["consistency_low"] <= narrow["consistency_low"]).all()
    assert (wide["consistency_high"] >= narrow["consistency_high"]).all()


@pytest.mark.parametrize(
    ("function", "y", "forecast", "options", "message"),
    [
        (quantile_reliability_curve, EVENTS, (PROBA, PROBA), {"level": 1.0}, "`level` must lie strictly"),
        (quantile_reliability_curve, EVENTS, PROBA, {}, "`band` must be 'confidence' or None if `y_pred`"),
        (quantile_reliability_curve, EVENTS, (PROBA, PROBA), {"band": "both"}, "`band` must be one of"),
        (
            quantile_reliability_curve,
            EVENTS,
            (PROBA, PROBA),
            {"n_redraws": 1},
            "`n_redraws` must be at least",
        ),
        (probability_reliability_curve, EVENTS, (PROBA, PROBA), {}, "`threshold` must be a value of y"),
        (probability_reliability_curve, EVENTS, PROBA, {"threshold": 1.0}, "`threshold` must be None"),
        (probability_reliability_curve, EVENTS, PROBA, {"of_class": 7}, "`of_class` must be one of"),
        (
            probability_reliability_curve,
            EVENTS,
            PROBA,
            {"band_coverage": 90},
            "`band_coverage` must lie strictly",
        ),
        (
            probability_reliability_curve,
            EVENTS,
            (PROBA, PROBA),
            {"threshold": 0.5, "of_class": 1},
            "`labels` and `of_class` must be None",
        ),
    ],
)
def test_bad_input_is_named(function, y, forecast, options, message):
    with pytest.raises(ValueError, match=message):
        function(y, forecast, **options)
