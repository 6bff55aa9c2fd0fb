"""Adversarial group calibration: definition, randomness, weights."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from skuq.distributions import Empirical, Normal, affine
from skuq.metrics import (
    adversarial_group_calibration_curve,
    adversarial_group_calibration_error,
    mean_absolute_calibration_error,
    root_mean_squared_calibration_error,
)
from skuq.metrics._adversarial import draw_counts
from skuq.metrics._spec import find_spec

pytestmark = pytest.mark.usefixtures("few_rows")

agce = partial(adversarial_group_calibration_error, random_state=0)
curve = partial(adversarial_group_calibration_curve, random_state=0)


def by_definition(y, dist, size, kind, n_groups, n_resamples, rng, replace=False):
    """Return the worst error in groups of rows drawn one by one."""
    worst = []
    for _ in range(n_resamples):
        groups = [rng.choice(y.size, size, replace=replace) for _ in range(n_groups)]
        worst.append(max(mean_absolute_calibration_error(y[g], dist[g], kind=kind) for g in groups))
    return np.array(worst)


@pytest.mark.parametrize(
    ("family", "kind", "replace"),
    [
        ("normal", "quantile", False),
        ("normal", "interval", True),
        ("ensemble", "quantile", True),
        ("ensemble", "interval", False),
    ],
)
def test_drawing_counts_is_drawing_rows(forecast, family, kind, replace):
    y, dist = forecast
    y, dist = y[:80], dist[:80]
    if family == "ensemble":
        dist = Empirical(np.round(dist.sample(7, random_state=0), 1))
    rng = np.random.default_rng(0)
    expected = by_definition(y, dist, 16, kind, 5, 150, rng, replace)
    options = {"kind": kind, "n_groups": 5, "n_resamples": 150, "replace": replace}
    worst = curve(y, dist, fractions=[0.2], **options).worst[0]
    spread = np.sqrt((worst.var(ddof=1) + expected.var(ddof=1)) / 150)
    assert abs(worst.mean() - expected.mean()) < 4 * spread
    assert worst.std() == pytest.approx(expected.std(), rel=0.35)


@pytest.mark.parametrize("kind", ["quantile", "interval"])
def test_the_group_of_all_rows_has_the_average_error(forecast, kind):
    y, dist = forecast
    weight = np.random.default_rng(0).integers(0, 4, size=y.size)
    metrics = {"mace": mean_absolute_calibration_error, "rmsce": root_mean_squared_calibration_error}
    for (error, metric), options in product(metrics.items(), ({}, {"sample_weight": weight})):
        expected = metric(y, dist, kind=kind, **options)
        worst = curve(y, dist, fractions=[1.0], kind=kind, error=error, n_resamples=3, **options).worst
        np.testing.assert_allclose(worst, np.full((1, 3), expected), rtol=1e-12)
        assert agce(y, dist, fraction=1.0, kind=kind, error=error, **options) == pytest.approx(expected)


def test_defaults_are_the_papers(forecast):
    y, dist = forecast
    groups = curve(y, dist)
    fractions, worst = groups.fractions, groups.worst
    np.testing.assert_allclose(fractions, np.linspace(0.01, 1, 10))
    assert worst.shape == (10, 10)
    same = curve(y, dist, n_groups=20, n_resamples=10, levels=99, kind="quantile", random_state=0).worst
    np.testing.assert_array_equal(worst, same)
    assert (np.diff(worst.mean(axis=1)) < 0.01).all()  # smaller groups are worse
    assert worst[0].mean() > 3 * worst[-1].mean()


def test_same_seed_same_number_and_fresh_groups_without_one(forecast):
    y, dist = forecast
    assert agce(y, dist) == agce(y, dist) == agce(y, dist, random_state=0)
    assert agce(y, dist, random_state=1) != agce(y, dist)
    assert agce(y, dist, random_state=None) != agce(y, dist, random_state=None)
    state = np.random.RandomState(0)
    assert agce(y, dist, random_state=state) == agce(y, dist)
    assert agce(y, dist, random_state=state) != agce(y, dist)
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - it must not be touched
    agce(y, dist)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_laws_of_the_other_metrics_hold_at_a_fixed_seed(forecast):
    y, dist = forecast
    expected = agce(y, dist)
    rows = np.random.default_rng(0).permutation(y.size)
    assert agce(y[rows], dist[rows]) == expected
    assert agce(8 * y + 64, affine(dist, 64.0, 8.0)) == pytest.approx(expected, rel=1e-6)
    weight = np.random.default_rng(0).integers(0, 4, size=y.size)
    repeated = np.repeat(np.arange(y.size), weight)
    assert agce(y, dist, sample_weight=weight) == agce(y[repeated], dist[repeated])
    assert agce(y, dist, sample_weight=np.full(y.size, 1.0)) == expected
    # Fractional weights are rounded to whole rows.
    weight = 1.0 + np.random.default_rng(0).random(y.size)
    value = agce(y, dist, fraction=1.0, sample_weight=weight)
    exact = mean_absolute_calibration_error(y, dist, sample_weight=weight)
    assert value == pytest.approx(exact, abs=1 / weight.sum())
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        agce(y, dist, sample_weight=np.full(y.size, 0.4))


def test_counts_of_groups_are_hypergeometric():
    counts, rng = np.array([5, 0, 15, 80]), np.random.default_rng(0)
    drawn, again = (draw_counts(counts, 20, 2000, "marginals", replace, rng) for replace in (False, True))
    assert drawn.shape == (2000, 4)
    assert (drawn.sum(axis=-1) == 20).all()
    assert (drawn <= counts).all()
    np.testing.assert_allclose(drawn.mean(axis=0), counts / 5, atol=0.1)
    assert again[:, 0].var() > drawn[:, 0].var()


def test_several_weights_have_the_values_of_each_of_them():
    rng = np.random.default_rng(0)
    y, dist = rng.normal(size=300), Normal(np.zeros(300), np.ones(300))
    for options in ({}, {"fraction": 0.9}, {"replace": True}, {"levels": [0.2, 0.9], "error": "rmsce"}):
        of_weights = find_spec("agce").computation({"random_state": 0, **options})(y, dist)
        weights = rng.multinomial(300, np.full(300, 1 / 300), size=4).astype(float)
        one_by_one = [agce(y, dist, sample_weight=weight, random_state=0, **options) for weight in weights]
        np.testing.assert_allclose(of_weights(weights), one_by_one, rtol=1e-14)


def test_group_sizes_have_a_floor_and_a_ceiling(forecast):
    y, dist = forecast
    tiny = agce(y, dist, fraction=0.0, min_group_size=1)
    assert tiny > agce(y, dist, fraction=0.0) > agce(y, dist, fraction=0.0, min_group_size=50)
    assert agce(y[:1], dist[:1]) == mean_absolute_calibration_error(y[:1], dist[:1])
    assert agce(y, dist, min_group_size=10_000) == pytest.approx(mean_absolute_calibration_error(y, dist))


def test_calibrated_forecast_scores_what_the_docstring_says():
    rng = np.random.default_rng(0)
    n = 10_000
    values = [agce(rng.normal(size=n), Normal(np.zeros(n), np.ones(n)), random_state=i) for i in range(20)]
    assert np.mean(values) == pytest.approx(0.7 / np.sqrt(0.1 * n), rel=0.15)


def test_bad_options(forecast):
    for option, value, error in (
        ("fraction", 1.5, ValueError),
        ("fraction", -0.1, ValueError),
        ("fraction", np.nan, ValueError),
        ("error", "worst", ValueError),
        ("replace", "no", ValueError),
        ("kind", "both", ValueError),
        ("n_groups", 0, ValueError),
        ("n_resamples", 2.5, TypeError),
        ("min_group_size", 0, ValueError),
        ("levels", [1.5], ValueError),
    ):
        with pytest.raises(error, match=f"`{option}`"):
            agce(*forecast, **{option: value})
