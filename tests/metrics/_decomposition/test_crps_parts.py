"""The parts of the CRPS as metrics."""

import numpy as np
import pytest

from skuq.distributions import Normal
from skuq.evaluation import score_decomposition
from skuq.metrics import (
    crps_discrimination_score,
    crps_loss,
    crps_miscalibration_error,
    crps_uncertainty,
    get_scorer,
)
from skuq.metrics._spec import all_specs

PARTS = {
    "miscalibration": all_specs()["crps_miscalibration"],
    "discrimination": all_specs()["crps_discrimination"],
    "uncertainty": all_specs()["crps_uncertainty"],
}
Y = np.array([1.0, 2, 4, 3, 7, 5, 8, 6])
DIST = Normal([1.5, 1, 3, 3.5, 5, 6, 6.5, 9], [1, 0.5, 1, 2, 1, 1.5, 2, 1])


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    return loc + scale * rng.normal(size=n), Normal(loc, scale)


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_eight_rows_have_the_parts_of_a_published_decomposition():
    # model-diagnostics, decompose with the pinball loss at 99 levels, twice the mean
    expected = {"miscalibration": 0.58151, "discrimination": 0.94761, "uncertainty": 1.31257}
    for part, spec in PARTS.items():
        assert spec.compute(Y, DIST, levels=99) == pytest.approx(expected[part], abs=1e-5)


@pytest.mark.parametrize("levels", [1, 19, [0.1, 0.5, 0.8]])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_parts_are_those_of_score_decomposition(levels, weighted):
    y, dist = rows(60)
    weight = np.random.default_rng(1).integers(0, 4, size=60) if weighted else None
    whole = score_decomposition(y, dist, levels=levels, sample_weight=weight, n_redraws=0)
    for part, spec in PARTS.items():
        value = spec.compute(y, dist, levels=levels, sample_weight=weight)
        assert value == pytest.approx(getattr(whole, part), rel=1e-12, abs=1e-15)


def test_the_parts_add_up_to_the_crps():
    y, dist = rows(2000)
    total = (
        crps_miscalibration_error(y, dist) - crps_discrimination_score(y, dist) + crps_uncertainty(y, dist)
    )
    assert total == pytest.approx(crps_loss(y, dist), rel=0.005)


@pytest.mark.parametrize("spec", PARTS.values(), ids=PARTS)
def test_values_of_weights_are_those_of_the_metric(spec):
    y, dist = rows(50)
    of_weights = spec.fast.of_weights(y, dist, levels=9)
    rng = np.random.default_rng(2)
    for weight in (rng.integers(0, 3, size=50).astype(float), rng.random(50)):
        expected = spec.compute(y, dist, levels=9, sample_weight=weight)
        assert of_weights(weight) == pytest.approx(expected, rel=1e-12)
    assert of_weights(None) == spec.compute(y, dist, levels=9)


def test_a_constant_forecast_has_no_discrimination_and_little_miscalibration():
    y, truth = rows(2000)
    marginal = Normal(np.full(2000, y.mean()), np.full(2000, y.std()))
    assert crps_discrimination_score(y, marginal) == 0.0
    # the metric alone prefers the marginal distribution to the true one
    assert crps_miscalibration_error(y, marginal) < crps_miscalibration_error(y, truth)
    assert crps_loss(y, truth) < crps_loss(y, marginal)


def test_increasing_maps_of_the_forecast_change_only_the_miscalibration():
    y, dist = rows(1000)
    moved = Normal(2 * dist.loc + 1, 2 * dist.scale)
    assert crps_discrimination_score(y, moved) == pytest.approx(crps_discrimination_score(y, dist), rel=1e-12)
    assert crps_uncertainty(y, moved) == crps_uncertainty(y, dist)
    assert crps_miscalibration_error(y, moved) > crps_miscalibration_error(y, dist) + 0.1


def test_scorers_have_the_direction_of_the_record():
    class Model:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return DIST.mean()

        def predict_dist(self, X):
            return DIST

    X = np.zeros((8, 1))
    assert get_scorer("neg_crps_miscalibration")(Model(), X, Y) == -PARTS["miscalibration"].compute(Y, DIST)
    assert get_scorer("crps_discrimination")(Model(), X, Y) == PARTS["discrimination"].compute(Y, DIST)


@pytest.mark.parametrize(
    ("levels", "message"),
    [([0.5, 0.1], "increasing"), ([0.0, 0.5], "between 0 and 1"), (0, "positive|at least")],
)
def test_bad_levels(levels, message):
    with pytest.raises(ValueError, match=f"levels.*{message}"):
        crps_uncertainty(Y, DIST, levels=levels)
