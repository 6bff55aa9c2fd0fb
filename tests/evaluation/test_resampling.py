"""Metrics as functions of weights, what a bootstrap draws, and what calibrated forecasts score."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq._numeric import group_sums
from skuq.distributions import Empirical, Normal, Quantiles, StudentT
from skuq.evaluation import bootstrap_interval, uncertainty_report
from skuq.evaluation._resampling import (
    Rows,
    bootstrap,
    bootstrap_weights,
    evaluations,
    random_groups,
    values_of_weights,
)
from tests.metrics.options import forecast_specs, required

report_of = partial(uncertainty_report, random_state=0)

SPECS = forecast_specs()
OF_PIT = [spec.abbreviation for spec in SPECS.values() if spec.of_pit]
OPTIONS = {
    "crps": [{"crps_estimator": "fair"}],
    "pinball": [{"levels": [0.1, 0.7]}],
    "interval_score": [{"coverage": [0.5, 0.8]}],
    "wis": [{"coverage": [0.5, 0.9]}],
    "excess": [{"coverage": 0.5, "side": "active"}],
    "crpss": [{"reference": Normal(0.1, 1.0)}, {"reference": Normal(np.linspace(0, 1, 240), np.ones(240))}],
    "sharpness": [{"kind": "rms"}, {"kind": "variance"}],
    "auucc_gain": [{"denominator": "model"}],
    "interval_coverage_error": [{"coverage": 0.5}],
    "mace": [{"kind": "interval"}, {"levels": [0.9, 0.1, 0.5, 0.5]}, {"levels": 1}],
    "rmsce": [{"levels": [0.0, 0.3, 1.0]}],
    "cals": [{"reduction": "mean"}, {"levels": 3, "level_weights": [1.0, 2.0, 0.5]}],
    "ecpe": [{"levels": [0.0, 0.3, 1.0]}],
    "agce": [{"fraction": 0.3, "kind": "interval", "error": "rmsce"}, {"replace": True}],
    "miscal_area": [{"kind": "interval"}, {"levels": 5}, {"levels": [0.2, 0.9], "kind": "interval"}],
    "ence": [{"strategy": "uniform"}, {"n_bins": 1}, {"n_bins": 3}],
    "uce": [{"strategy": "quantile"}, {"on": "std", "n_bins": 4}],
    "qce": [{"marginal": True}, {"strategy": "uniform", "levels": [0.5, 0.2]}],
    "nmpiw": [{"scale": "std"}, {"scale": 2.0}, {"y_train": [0.0, 5.0]}],
    "cwc": [{"formula": "mapie", "eta": 3.0}, {"scale": "std", "coverage": 0.99}],
}
CASES = [(name, options) for name in SPECS for options in [{}, *OPTIONS.get(name, [])]]


def forecasts(n):
    """Return targets and forecasts of several families, with atoms that some targets are on."""
    rng = np.random.default_rng(3)
    loc = rng.normal(size=n)
    scale = np.round(np.exp(0.5 * rng.normal(size=n)), 1) + 0.1
    y = loc + 1.2 * scale * rng.standard_t(5, size=n)
    y[::4] = np.round(y[::4])
    members = loc[:, np.newaxis] + scale[:, np.newaxis] * rng.normal(size=(n, 7))
    members[::4, 2:4] = y[::4, np.newaxis]
    bends = np.sort(members[:, :5], axis=1)
    families = {
        "normal": Normal(loc, scale),
        "student": StudentT(loc, scale, 4.0),
        "quantiles": Quantiles([0.1, 0.3, 0.5, 0.7, 0.9], bends),
        "empirical": Empirical(members),
    }
    order = np.argsort(scale, kind="stable")
    families["normal in the order of its scale"] = Normal(loc[order], scale[order])
    return y, families


Y, FAMILIES = forecasts(240)
RARE = ["normal", "student", "normal in the order of its scale"]


def settings_of(name, options):
    settings = {"random_state": 0} if SPECS[name].random else {}
    return settings | ({} if "reference" in options else required(SPECS[name])) | options


def evaluate(name, options, y, dist, weight=None):
    settings = settings_of(name, options)
    (evaluation,) = evaluations(name, settings, Rows(y, weight), {"y_pred": dist}, np.random.RandomState(0))
    return evaluation


def value_of(name, options, y, dist, weight):
    return SPECS[name].compute(y, dist, sample_weight=weight, **settings_of(name, options))


def random_weights(n, seed=0):
    """Return a bootstrap sample, weights far from whole, a block left out, and none but two rows."""
    rng = np.random.default_rng(seed)
    few = np.zeros(n)
    few[[3, n - 5]] = 4.0
    blocks = np.where(np.arange(n) % 3 == 1, 0.0, 1.0)
    return np.array([rng.multinomial(n, np.full(n, 1 / n)), 5 * rng.random(n) + 1, blocks, few], dtype=float)


# -------------------------------------------------------------------- functions of weights


@pytest.mark.parametrize(
    "family", ["quantiles", "empirical", *(pytest.param(name, marks=pytest.mark.laws) for name in RARE)]
)
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_the_metric_of_any_weights_is_that_of_the_weighted_rows(name, options, family):
    dist = FAMILIES[family]
    if not dist.has_density and SPECS[name].needs == "density":
        pytest.skip("this metric needs a density")
    evaluation = evaluate(name, options, Y, dist)
    weights = random_weights(Y.size)
    expected = [value_of(name, options, Y, dist, weight) for weight in weights]
    assert_allclose(values_of_weights([evaluation], [weights])[0], expected, rtol=1e-9, atol=1e-12)


def test_a_kernel_takes_one_vector_of_weights_or_a_block():
    weights = random_weights(Y.size)
    for name, options in CASES:
        spec = SPECS[name]
        if spec.needs_X:
            continue
        given = {**(options or required(spec)), **({"random_state": 0} if spec.random else {})}
        of = spec.computation(given)(Y, FAMILIES["normal"])
        expected = spec.compute(Y, FAMILIES["normal"], **given)
        assert of(np.ones(Y.size)) == pytest.approx(expected, rel=1e-12), name
        one_by_one = [of(weight) for weight in weights]
        assert_allclose(of(weights), one_by_one, rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("name", ["nmpiw", "cwc"])
def test_infinite_intervals_without_weight_do_not_count(name):
    y, bounds = np.array([0.0, 1.0, 3.0]), np.array([[-1.0, 1.0], [-np.inf, np.inf], [2.0, 3.5]])
    evaluation = evaluate(name, {}, y, bounds)
    weight = np.array([[1.0, 0.0, 2.0], [1.0, 1.0, 1.0]])
    assert values_of_weights([evaluation], [weight])[0][0] == value_of(
        name, {}, y[[0, 2]], bounds[[0, 2]], np.array([1.0, 2.0])
    )
    assert values_of_weights([evaluation], [weight])[0][1] == np.inf


def test_the_range_of_targets_is_that_of_rows_with_weight_even_if_these_are_few():
    y = np.arange(1000.0)
    evaluation = evaluate("nmpiw", {}, y, Normal(y, np.ones(1000)))
    weight = np.zeros((1, 1000))
    weight[0, [480, 520]] = 1.0
    width = value_of("mpiw", {}, y, Normal(y, np.ones(1000)), None)
    assert values_of_weights([evaluation], [weight])[0][0] == pytest.approx(width / 40)


# ------------------------------------------------------------------------ groups and cells


def test_metrics_of_groups_are_those_of_their_rows():
    group = np.arange(Y.size) % 60
    weight = random_weights(60)
    for name in ("crps", "mace", "auucc_gain", "ence", "qce", "agce", "miscal_area", "cwc"):
        evaluation = evaluate(name, {}, Y, FAMILIES["quantiles"])
        (grouped,), (by_rows,) = (
            values_of_weights([evaluation], *at) for at in (([weight], group), ([weight[:, group]],))
        )
        assert_allclose(grouped, by_rows, rtol=1e-9)


def test_sums_of_groups():
    columns, group = np.arange(10.0).reshape(5, 2), np.array([1, 0, 1, 2, 2])
    assert_array_equal(group_sums(columns, group), [[2, 3], [4, 6], [14, 16]])
    weighted = group_sums(columns, group, np.array([1.0, 2.0, 0.0, 1.0, 0.5]))
    assert_array_equal(weighted, [[4, 6], [0, 1], [10, 11.5]])


@pytest.mark.parametrize("n", [50_001, 99_999, 100_000, 1_000_000])
def test_many_rows_are_drawn_in_groups_of_about_equal_size(n):
    group = random_groups(Rows(np.zeros(n), None), np.random.RandomState(0))
    size = np.bincount(group)
    assert 25_000 <= size.size <= 50_000
    assert np.ptp(size) <= 1
    assert random_groups(Rows(np.zeros(50_000), None), np.random.RandomState(0)) is None
    assert random_groups(Rows(np.zeros(n), np.full(n, 2.0)), np.random.RandomState(0)) is None


@pytest.mark.laws
def test_the_standard_error_of_groups_is_that_of_rows():
    """Known for a mean; 2000 resamples err by 1.6 %."""
    rng = np.random.default_rng(0)
    y = rng.lognormal(size=100_000)
    point = Normal(np.zeros(y.size), np.zeros(y.size))  # the CRPS of a point is |y|
    result = bootstrap_interval(y, point, "crps", n_resamples=2000, random_state=0)
    assert result.standard_error == pytest.approx(y.std() / np.sqrt(y.size), rel=0.05)
    assert result.low < result.value < result.high


@pytest.mark.parametrize("name", ["mace", "cals"])
@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.laws)])
def test_counts_of_cells_are_distributed_as_those_of_drawn_rows(name, weighted):
    weight = 1 + 2 * np.random.default_rng(0).random(Y.size) if weighted else None
    evaluation = evaluate(name, {}, Y, FAMILIES["student"], weight)
    rows, rng = Rows(Y, weight), np.random.RandomState(0)
    assert evaluation.cells.sum() == pytest.approx(1)
    (by_cells,) = bootstrap([evaluation], rows, 20_000, rng)
    (by_rows,) = values_of_weights([evaluation], bootstrap_weights(rows, 20_000, rng))
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    assert_allclose(np.quantile(by_cells, levels), np.quantile(by_rows, levels), rtol=0.03)


@pytest.mark.parametrize("seed", range(20))
def test_shares_of_cells_add_up_whatever_the_weights(seed):
    """Forecasts far above the targets leave all weight to one cell."""
    weight = 1 + np.random.default_rng(seed).random(60)
    dist = Normal(np.full(60, 9.0), np.ones(60))
    interval = bootstrap_interval(
        np.zeros(60), dist, "cals", sample_weight=weight, n_resamples=3, random_state=0
    )
    assert 0 < interval.low <= interval.high


@pytest.mark.parametrize("random_state", [np.random.RandomState(0), None])
def test_the_value_and_its_resamples_draw_the_same_groups(random_state):
    evaluation = evaluate("agce", {"random_state": random_state}, Y, FAMILIES["normal"])
    assert isinstance(evaluation.options["random_state"], int)
    assert evaluation.value() == evaluation.of(np.ones(Y.size))


@pytest.mark.parametrize("name", ["nmpiw", "cwc"])
def test_equal_targets_have_no_spread_whichever_rows_have_weight(name):
    y, weight = np.array([0.0, 0.1, 0.1]), np.array([[0.0, 3.0, 0.0], [0.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    evaluation = evaluate(name, {"scale": "std"}, y, Normal(y, np.ones(3)))
    assert_array_equal(values_of_weights([evaluation], [weight])[0], np.inf)


def test_a_metric_with_random_numbers_has_no_acceleration():
    assert evaluate("agce", {}, Y, FAMILIES["normal"]).acceleration(np.random.RandomState(0)) == 0


@pytest.mark.parametrize("name", ["mace", "ence", "crps"])
def test_rows_in_another_order_have_the_same_values(name):
    order = np.random.default_rng(0).permutation(Y.size)
    rows = Rows(Y, random_weights(Y.size)[1]).take(order)
    assert_array_equal(rows.y, Y[order])
    (evaluation,) = evaluations(name, {}, rows, {"y_pred": FAMILIES["normal"]}, np.random.RandomState(0))
    expected = value_of(name, {}, Y, FAMILIES["normal"], random_weights(Y.size)[1])
    assert evaluation.value() == pytest.approx(expected, rel=1e-12)


# -------------------------------------------------------------------- calibrated forecasts


@pytest.mark.parametrize("name", OF_PIT)
@pytest.mark.parametrize("kind", ["quantile", "interval"])
def test_forecasts_with_the_same_pit_values_have_the_same_value(name, kind):
    pit = np.random.default_rng(0).random(300)
    dist = StudentT(np.linspace(-3, 3, 300), np.linspace(0.1, 2, 300), 5.0)
    settings = {} if name == "ecpe" else {"kind": kind}
    standard = Normal(np.zeros(300), np.ones(300))
    for options in [{}, *OPTIONS[name]]:
        both = options | settings | ({"random_state": 0} if SPECS[name].random else {})
        expected = SPECS[name].compute(dist.ppf(pit), dist, **both)
        assert SPECS[name].compute(standard.ppf(pit), standard, **both) == pytest.approx(expected, rel=1e-9)


@pytest.mark.laws
def test_simulated_targets_and_uniform_levels_have_the_same_range(monkeypatch):
    """The range of calibrated forecasts, with and without the short cut."""
    dist = FAMILIES["student"]
    names = ["mace", "rmsce", "miscal_area", "ecpe"]
    settings = {"metrics": names, "n_resamples": 0, "n_draws": 600}
    by_levels = report_of(Y, dist, **settings)
    monkeypatch.setattr(type(dist), "has_density", False)
    by_targets = report_of(Y, dist, **settings)
    columns = ["calibrated", "calibrated_low", "calibrated_high"]
    assert_allclose(by_levels[columns].astype(float), by_targets[columns].astype(float), rtol=0.15)


# -------------------------------------------------------------------------------- progress


def test_progress_is_written_in_tenths(capsys, monkeypatch):
    monkeypatch.setattr("skuq.evaluation._simulated.AT_ONCE", Y.size)
    models = {"a": FAMILIES["normal"], "b": FAMILIES["student"]}
    report_of(Y, models, metrics=["crps"], n_resamples=30, n_draws=20, verbose=1)
    written = capsys.readouterr()
    assert written.out == ""
    lines = written.err.splitlines()
    assert "[uncertainty_report] a: resample 30 of 30" in lines
    assert "[uncertainty_report] b: draw 20 of 20" in lines
    assert sum("b: draw" in line for line in lines) == 10
    report_of(Y, models["a"], metrics=["mace"], n_resamples=30, n_draws=0, verbose=1)
    assert capsys.readouterr().err == "[uncertainty_report] resample 30 of 30\n"
    report_of(Y, models["a"], metrics=["crps"], n_resamples=3, n_draws=2)
    assert capsys.readouterr().err == ""


def test_all_models_of_a_report_are_evaluated_on_the_same_groups():
    models = {"one": FAMILIES["normal"], "twin": FAMILIES["normal"]}
    for seed in ({}, {"random_state": None}, {"random_state": 3}, {"random_state": np.random.RandomState(3)}):
        report = report_of(Y, models, metrics=["agce"], options={"agce": seed}, n_resamples=0, n_draws=0)
        values = report["value"].tolist()
        assert values[0] == values[1]
        if not isinstance(seed.get("random_state"), np.random.RandomState):
            again = report_of(Y, models, metrics=["agce"], options={"agce": seed}, n_resamples=0, n_draws=0)
            assert again["value"].tolist() == values
