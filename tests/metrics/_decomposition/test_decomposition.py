"""The parts of the CRPS, and the isotonic fits that they are made of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.isotonic import IsotonicRegression

from skuq._numeric import last_of_ties
from skuq.distributions import Normal
from skuq.evaluation import score_decomposition
from skuq.metrics import (
    crps_discrimination_score,
    crps_loss,
    crps_miscalibration_error,
    crps_uncertainty,
)
from skuq.metrics._sections import isotonic_means, isotonic_quantile_ranks
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
    whole = score_decomposition(y, dist, levels=levels, sample_weight=weight, n_draws=0)
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
    of_weights = spec.computation({"levels": 9})(y, dist)
    rng = np.random.default_rng(2)
    for weight in (rng.integers(0, 3, size=50).astype(float), rng.random(50)):
        expected = spec.compute(y, dist, levels=9, sample_weight=weight)
        assert of_weights(weight) == pytest.approx(expected, rel=1e-12)
    assert of_weights(np.ones(50)) == spec.compute(y, dist, levels=9)


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


def test_bad_levels():
    for levels, message in (
        ([0.5, 0.1], "increasing"),
        ([0.0, 0.5], "between 0 and 1"),
        (0, "positive|at least"),
    ):
        with pytest.raises(ValueError, match=f"levels.*{message}"):
            crps_uncertainty(Y, DIST, levels=levels)


def sections(rng, s, n):
    forecast = np.sort(rng.integers(0, 5, size=(s, n)), axis=1).astype(float)
    return last_of_ties(forecast, 0.0), forecast, rng.integers(0, 6, size=(s, n)).astype(float)


def smallest_loss(x, y, weight, level):
    """Return the smallest mean pinball loss of increasing functions of x, by linear programming."""
    values, group = np.unique(x, return_inverse=True)
    k, n = len(values), len(y)
    equal = np.hstack([np.eye(k)[group], np.eye(n), -np.eye(n)])
    rising = np.hstack([np.eye(k)[:-1] - np.eye(k)[1:], np.zeros((k - 1, 2 * n))])
    cost = np.concatenate([np.zeros(k), weight * level, weight * (1 - level)])
    bounds = [(None, None)] * k + [(0, None)] * (2 * n)
    bound = {"A_ub": rising, "b_ub": np.zeros(k - 1)} if k > 1 else {}
    return linprog(cost, A_eq=equal, b_eq=y, bounds=bounds, **bound).fun / weight.sum()


def quantiles(y, last, level, weight):
    order = np.argsort(y, axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(y.shape[1])[np.newaxis], axis=1)
    fitted = isotonic_quantile_ranks(rank, last, level, weight)
    return np.take_along_axis(y, np.take_along_axis(order, fitted, axis=1), axis=1)


def weights(rng, shape):
    """Return weights, some of which are 0, but not all of a section."""
    weight = rng.integers(0, 4, size=shape).astype(float)
    weight[:, 0] += weight.sum(axis=1) == 0
    return weight


def test_the_quantiles_have_the_smallest_pinball_loss():
    levels = np.array([0.1, 0.25, 0.5, 0.9])
    for seed in range(30):
        rng = np.random.default_rng(seed)
        last, x, y = sections(rng, 4, int(rng.integers(1, 12)))
        weight = weights(rng, y.shape)
        fitted = quantiles(y, last, levels, weight)
        for i, level in enumerate(levels):
            error = y[i] - fitted[i]
            loss = weight[i] @ np.maximum(level * error, (level - 1) * error) / weight[i].sum()
            assert loss == pytest.approx(smallest_loss(x[i], y[i], weight[i], level), abs=1e-12)
            assert (np.diff(fitted[i]) >= 0).all()
            assert all(np.ptp(fitted[i][x[i] == each]) == 0 for each in x[i])


def test_the_means_are_those_of_scikit_learn():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        last, x, y = sections(rng, 3, int(rng.integers(1, 12)))
        weight = weights(rng, y.shape)
        fitted = isotonic_means(1e3 * y, last, weight)
        for i in range(3):
            rows = weight[i] > 0
            model = IsotonicRegression().fit(x[i][rows], 1e3 * y[i][rows], weight[i][rows])
            assert_allclose(fitted[i][rows], model.predict(x[i][rows]), atol=1e-9)


def test_sections_do_not_depend_on_each_other():
    rng = np.random.default_rng(0)
    last, _, y = sections(rng, 5, 30)
    levels = np.linspace(0.1, 0.9, 5)
    each = [quantiles(y[[i]], last[[i]], levels[[i]], None)[0] for i in range(5)]
    assert_array_equal(quantiles(y, last, levels, None), each)
    assert_array_equal(
        isotonic_means(y, last, None), [isotonic_means(y[[i]], last[[i]], None)[0] for i in range(5)]
    )
