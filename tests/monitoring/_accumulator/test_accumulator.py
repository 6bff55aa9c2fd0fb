"""Metrics of accumulated rows are those of all rows at once."""

import copy
import functools
import operator
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from skuq import _versioned
from skuq.distributions import Empirical, Normal, Quantiles, StudentT, concat
from skuq.exceptions import InconsistentVersionWarning, NoDensityError
from skuq.metrics import (
    crps_loss,
    regression_calibration_curve,
    reliability_table,
    sharpness,
    uncertainty_characteristics_curve,
)
from skuq.metrics._spec import _ABBREVIATIONS, _SPECS, FastPath, Merging, all_specs, metric
from skuq.monitoring import MetricAccumulator
from skuq.monitoring._accumulator import base as module
from tests.metrics.options import required

MERGING = [
    spec
    for spec in all_specs().values()
    if not (spec.random or spec.of_classes or spec.of_targets) and spec.crps_part is None
]
LEVELS = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
SETTINGS = [{spec.abbreviation: required(spec)} for spec in MERGING if required(spec)]
OPTIONS = functools.reduce(operator.or_, SETTINGS, {})


def accumulator(**arguments):
    """Return one with every metric that merges."""
    return MetricAccumulator(*(spec.abbreviation for spec in MERGING), options=OPTIONS, **arguments)


def whole(acc, y, dist, weight=None):
    """Return the metrics of all rows at once, with the options of the accumulator."""
    return {
        spec.abbreviation: spec.compute(y, dist, sample_weight=weight, **required(spec)) for spec in MERGING
    }


def in_chunks(acc, y, dist, cuts, weight=None):
    for rows in np.split(np.arange(y.size), cuts):
        if rows.size:
            acc.update(y[rows], dist[rows], None if weight is None else weight[rows])
    return acc


def families(dist):
    yield dist
    yield StudentT(dist.loc, dist.scale, df=4.0)
    yield Quantiles(LEVELS, dist.quantile(LEVELS))


def heavy_tails(n):
    """A target with heavy tails and a heteroscedastic Normal forecast."""
    rng = np.random.default_rng(3)
    loc, scale = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    return loc + 1.1 * scale * rng.standard_t(5, size=n), Normal(loc, scale)


@pytest.fixture
def large():
    return heavy_tails(200_000)


def test_exact_metrics_are_those_of_all_rows(forecast):
    y, dist = forecast
    for member in families(dist):
        acc = in_chunks(accumulator(), y, member, [1, 50, 400])
        expected, found = whole(acc, y, member), acc.result()
        assert found.keys() == expected.keys()
        for name, exact in acc.exact.items():
            if exact:
                assert found[name] == pytest.approx(expected[name], rel=1e-12, abs=1e-14), name


def test_most_metrics_are_exact():
    inexact = {name for name, exact in accumulator().exact.items() if not exact}
    assert inexact == {"ence", "uce", "qce", "miscal_area"}


def test_metrics_of_a_histogram_are_near_those_of_all_rows(forecast):
    y, dist = forecast
    for member in families(dist):
        acc = in_chunks(accumulator(), y, member, [300])
        expected, found = whole(acc, y, member), acc.result()
        for name in ("ence", "qce", "uce"):
            assert found[name] == pytest.approx(expected[name], rel=0.01), name
        assert found["miscal_area"] == pytest.approx(expected["miscal_area"], abs=1e-4)


def test_metrics_of_many_rows_have_the_stated_accuracy(large):
    y, dist = large
    names = ("ence", "uce", "qce", "miscal_area")
    acc = in_chunks(MetricAccumulator(*names), y, dist, [70_000])
    expected = {name: all_specs()[name].compute(y, dist) for name in names}
    for name in names:
        assert acc.result()[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-4), name
    area = uncertainty_characteristics_curve(y, dist).area()
    assert acc.characteristics_curve().area() == pytest.approx(area, rel=1e-5)
    levels = np.array([0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999])
    ratio = acc.std_quantile(levels) / np.quantile(dist.scale, levels, method="inverted_cdf")
    assert np.abs(ratio - 1).max() <= 1e-3


@pytest.mark.slow
def test_a_million_rows_have_the_documented_accuracy():
    y, dist = heavy_tails(1_000_000)
    acc = in_chunks(MetricAccumulator("ence", "auucc"), y, dist, range(100_000, 1_000_000, 100_000))
    assert acc.result()["ence"] == pytest.approx(all_specs()["ence"].compute(y, dist), rel=0, abs=1e-4)
    area = uncertainty_characteristics_curve(y, dist).area()
    assert acc.characteristics_curve().area() == pytest.approx(area, rel=1e-5, abs=0)


def test_a_finer_accuracy_gives_nearer_quantiles(large):
    y, dist = large
    levels = np.linspace(0.01, 0.99, 50)
    expected = np.quantile(dist.scale, levels, method="inverted_cdf")
    for accuracy in (0.1, 0.01, 1e-4):
        acc = MetricAccumulator("picp", accuracy=accuracy, curves=["reliability"]).update(y, dist)
        assert np.abs(acc.std_quantile(levels) / expected - 1).max() <= accuracy * (1 + 1e-9)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 300), max_size=4))
def test_the_chunks_do_not_matter(cuts):
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=300), np.round(np.exp(rng.normal(size=300)), 1)
    y = loc + scale * rng.normal(size=300)
    names = ("crps", "picp", "mace", "nmpiw", "cwc", "ence", "uce", "qce", "miscal_area", "auucc")
    acc = MetricAccumulator(*names, curves=["reliability"], options={"nmpiw": {"norm": "std"}})
    dist = Normal(loc, np.maximum(scale, 0.1))
    chunked = in_chunks(copy.copy(acc), y, dist, sorted(cuts))
    once = acc.update(y, dist)
    for name, value in once.result().items():
        assert chunked.result()[name] == pytest.approx(value, rel=1e-12), name
    pd.testing.assert_frame_equal(chunked.reliability_table(), once.reliability_table(), rtol=1e-12)


def test_blocks_of_any_size_are_taken_in_pieces(large, monkeypatch):
    y, dist = (part[:3000] for part in large)
    weight = np.random.default_rng(0).integers(1, 4, size=y.size)
    once = accumulator().update(y, dist, weight).result()
    monkeypatch.setattr("skuq.monitoring._accumulator.block.BLOCK", 1000)
    assert accumulator().update(y, dist, weight).result() == pytest.approx(once, rel=1e-12)


def test_merging_is_associative_and_commutative(forecast):
    y, dist = forecast
    for member in families(dist):
        parts = [
            accumulator().update(y[rows], member[rows]) for rows in np.split(np.arange(y.size), [7, 350])
        ]
        first, second, third = parts
        reference = ((first + second) + third).result()
        for other in (first + (second + third), third + first + second, second + third + first):
            assert other.result() == pytest.approx(reference, rel=1e-12, abs=1e-14)
        assert accumulator().merge(first + second).merge(third).result() == reference


def test_merging_leaves_the_other_as_it_was(forecast):
    y, dist = forecast
    first, second = accumulator().update(y, dist), accumulator().update(y[:50], dist[:50])
    before = first.result(), second.result()
    both = first + second
    assert (first.result(), second.result()) == before
    assert both.n_rows == 650
    assert first.merge(second) is first
    assert second.result() == before[1]
    assert first.result() == both.result()


def test_weights_equal_repetition(forecast):
    y, dist = forecast
    weight = np.random.default_rng(0).integers(0, 4, size=y.size)
    rows = np.repeat(np.arange(y.size), weight)
    for member in families(dist):
        weighted = in_chunks(accumulator(), y, member, [200], weight)
        repeated = accumulator().update(y[rows], member[rows])
        assert weighted.result() == pytest.approx(repeated.result(), rel=1e-11, abs=1e-13)
        assert (weighted.n_rows, weighted.total_weight) == (np.count_nonzero(weight), weight.sum())
        table = weighted.reliability_table()
        pd.testing.assert_frame_equal(table, repeated.reliability_table(), rtol=1e-9)
        curve, other = weighted.calibration_curve(), repeated.calibration_curve()
        np.testing.assert_allclose(curve.observed, other.observed, rtol=1e-12)


def test_atoms_count_as_in_the_metrics(forecast):
    y, dist = forecast
    ensemble = Empirical(np.round(dist.quantile((np.arange(20) + 0.5) / 20)))
    y = np.round(y)
    names = ("crps", "picp", "mace", "ecpe", "cals", "miscal_area", "qce", "ence")
    acc = in_chunks(MetricAccumulator(*names), y, ensemble, [100])
    expected = {name: all_specs()[name].compute(y, ensemble) for name in names}
    for name, value in acc.result().items():
        approximate = {"rel": 0.01, "abs": 1e-4}
        assert value == pytest.approx(
            expected[name], **({"rel": 1e-12} if acc.exact[name] else approximate)
        ), name


def test_curves_and_tables_are_those_of_the_functions(forecast):
    y, dist = forecast
    acc = in_chunks(MetricAccumulator("crps", levels=9, n_bins=5, coverage=0.8), y, dist, [250])
    curve, expected = acc.calibration_curve(), regression_calibration_curve(y, dist, levels=9)
    np.testing.assert_array_equal(curve.levels, expected.levels)
    np.testing.assert_allclose(curve.observed, expected.observed, rtol=1e-14)
    table = acc.reliability_table()
    expected_table = reliability_table(y, dist, n_bins=5, coverage=0.8)
    assert list(table) == list(expected_table)
    # The standard deviations have few values, each in a bin of its own.
    pd.testing.assert_frame_equal(table.drop(columns=["lower", "upper"]), expected_table.iloc[:, 2:])
    np.testing.assert_allclose(table[["lower", "upper"]], expected_table[["lower", "upper"]], rtol=1e-3)
    assert table["lower"][0] == dist.scale.min()
    for bands in ("std", "constant"):
        ucc = acc.characteristics_curve(bands=bands)
        whole_curve = uncertainty_characteristics_curve(y, dist, bands=bands)
        assert ucc.target_std == pytest.approx(np.std(y), rel=1e-12)
        for axes in ({}, {"x_axis": "excess"}, {"y_axis": "deficit"}):
            assert ucc.area(**axes) == pytest.approx(whole_curve.area(**axes), rel=1e-4)
        point, expected_point = (each.operating_point(miss_rate=0.1) for each in (ucc, whole_curve))
        assert point.bandwidth == pytest.approx(expected_point.bandwidth, rel=3e-3)


def test_areas_of_parts_of_the_curve_merge(large):
    y, dist = large
    options = {
        "auucc": {"y_range": (0.0, 0.2), "normalize": "std"},
        "auucc_gain": {"x_axis": "excess", "y_axis": "deficit"},
    }
    acc = MetricAccumulator("auucc", "auucc_gain", options=options).update(y, dist)
    assert acc.exact == {"auucc": False, "auucc_gain": False}
    for name, value in acc.result().items():
        expected = all_specs()[name].compute(y, dist, **options[name])
        assert value == pytest.approx(expected, rel=2e-3, abs=1e-5), name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("nmpiw", {"norm": "std"}),
        ("nmpiw", {"norm": 2.0}),
        ("nmpiw", {"y_train": [0.0, 1.0, 4.0]}),
        ("cwc", {"formula": "mapie", "eta": 3.0}),
        ("miscal_area", {"levels": 19, "kind": "interval"}),
        ("qce", {"marginal": True, "levels": [0.5, 0.9]}),
        ("picp", {"coverage": 0.5}),
        ("interval_score", {"coverage": [0.5, 0.9]}),
        ("cals", {"levels": [0.5, 0.1], "reduction": "mean", "level_weights": [1.0, 2.0]}),
        ("mace", {"kind": "interval", "levels": 19}),
        ("crpss", {"reference": ([0.0], [3.0])}),
        ("auucc_gain", {"denominator": "model"}),
    ],
)
def test_options_reach_exact_metrics(forecast, name, options):
    y, dist = forecast
    acc = in_chunks(MetricAccumulator(name, options={name: options}), y, dist, [100, 101])
    assert acc.exact == {name: True}
    expected = all_specs()[name].compute(y, dist, **options)
    assert acc.result()[name] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ence", {"strategy": "uniform"}),
        ("uce", {"strategy": "quantile"}),
        ("uce", {"on": "std"}),
        ("qce", {"strategy": "uniform", "levels": 4}),
    ],
)
def test_options_reach_metrics_of_a_histogram(large, name, options):
    y, dist = (part[:20_000] for part in large)
    acc = MetricAccumulator(name, n_bins=7, options={name: options}).update(y, dist)
    expected = all_specs()[name].compute(y, dist, n_bins=7, **options)
    assert acc.result()[name] == pytest.approx(expected, rel=2e-3, abs=1e-4)


def test_a_new_mean_metric_merges_without_a_line_of_its_own(forecast):
    def rows(y, dist, *, power=2.0):
        return np.abs(y - dist.mean()) ** power, dist.std()

    record = {"title": "T", "units": 0, "direction": "lower", "optimum": 0.0, "needs": "moments"}

    @metric(
        "ratio",
        **record,
        proper=False,
        source="",
        fast=FastPath(rows=rows, combine=lambda means, **_: means[..., 0]),
    )
    def ratio(y_true, y_pred, *, sample_weight=None, power=2.0):
        return float(np.average(rows(y_true, y_pred, power=power)[0], weights=sample_weight))

    try:
        y, dist = forecast
        acc = in_chunks(MetricAccumulator(ratio, options={"ratio": {"power": 1.5}}), y, dist, [20])
        assert acc.exact == {"ratio": True}
        assert acc.result()["ratio"] == pytest.approx(ratio(y, dist, power=1.5), rel=1e-12)
    finally:
        del _SPECS["ratio"], _ABBREVIATIONS[ratio]


def test_a_new_metric_of_groups_merges_by_its_record(forecast):
    record = {"title": "T", "units": 1, "direction": "lower", "optimum": 0.0, "needs": "moments"}
    merging = Merging(
        needs=("targets", "groups"),
        value=lambda targets, groups, *, factor: factor * targets.std * groups.std.max(),
    )

    @metric("spread", **record, proper=False, source="", merging=merging)
    def spread(y_true, y_pred, *, sample_weight=None, factor=2.0):
        return factor * np.std(y_true) * y_pred.std().max()

    try:
        y, dist = forecast
        acc = in_chunks(MetricAccumulator(spread, options={"spread": {"factor": 3.0}}), y, dist, [20])
        assert acc.exact == {"spread": True}
        assert acc.result()["spread"] == pytest.approx(spread(y, dist, factor=3.0), rel=1e-12)
    finally:
        del _SPECS["spread"], _ABBREVIATIONS[spread]


def test_without_names_all_metrics_that_merge_are_accumulated():
    acc = MetricAccumulator()
    ready = [spec.abbreviation for spec in MERGING if spec.ready_made]
    assert list(acc.metrics) == ready
    assert "crpss" in MetricAccumulator(options={"crpss": {"y_train": [0.0, 1.0]}}).metrics


def test_a_function_names_its_metric():
    assert MetricAccumulator(crps_loss, "neg_crps").metrics == ("crps",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"metrics": ["agce"]},
            "blocks of rows, got 'agce'.*because it draws random groups",
        ),
        (
            {"metrics": ["ert"]},
            "blocks of rows, got 'ert'.*because it depends on the features",
        ),
        (
            {"metrics": ["crps_uncertainty"]},
            "got 'crps_uncertainty'. This metric cannot be computed from blocks, because it needs all rows",
        ),
        (
            {"metrics": ["auucc"], "options": {"auucc": {"vary": "bias"}}},
            "must have vary='scale'",
        ),
        ({"metrics": ["auucc_gain"], "options": {"auucc_gain": {"bands": 0.9}}}, "must have bands='std'"),
        (
            {"metrics": ["crpss"], "options": {"crpss": {"reference": Normal([0.0, 1.0], 1.0)}}},
            "must contain a `reference` with one row, got 2 rows",
        ),
        ({"metrics": ["nmpiw"], "options": {"nmpiw": {"norm": "iqr"}}}, "`norm` must be one of"),
        (
            {"metrics": ["crps"], "options": {"ence": {"n_bins": 3}}},
            "`options` must contain only the metrics crps",
        ),
        ({"metrics": ["crp"]}, "Did you mean"),
        ({"accuracy": 0.5}, "`accuracy` must lie between 1e-05 and 0.1, got 0.5"),
        ({"levels": [0.0, 1.2]}, r"`levels` must lie in \[0, 1\]"),
        ({"n_bins": 0}, "`n_bins` must be at least 1"),
        ({"coverage": 90}, "Did you mean 0.9"),
        ({"curves": ["ucc"]}, "`curves` must be one of"),
    ],
)
def test_what_does_not_merge_raises_at_once(arguments, message):
    with pytest.raises(ValueError, match=message):
        MetricAccumulator(*arguments.pop("metrics", []), **arguments)


def test_what_is_no_metric_raises():
    with pytest.raises(TypeError, match="`metrics` must be metrics of skuq"):
        MetricAccumulator(len)
    with pytest.raises(TypeError, match="`curves` must be a sequence of names, got the string"):
        MetricAccumulator(curves="calibration")
    with pytest.raises(TypeError, match="must include exactly one of 'y_train' and 'reference'"):
        MetricAccumulator("crpss")


def test_a_metric_that_sorts_all_rows_says_that_it_does_not_merge():
    record = {"title": "T", "units": 0, "direction": "lower", "optimum": 0.0, "needs": "moments"}

    @metric("worst", **record, proper=False, source="")
    def worst(y_true, y_pred, *, sample_weight=None):
        return float(np.max(y_true))

    try:
        with pytest.raises(ValueError, match=r"'worst'.*from blocks, because it needs all rows"):
            MetricAccumulator("worst")
        assert "worst" not in MetricAccumulator().metrics
    finally:
        del _SPECS["worst"], _ABBREVIATIONS[worst]


@pytest.mark.parametrize(
    ("y", "dist", "error", "message"),
    [
        ([0.0, np.nan], ([0.0, 0.0], [1.0, 1.0]), ValueError, "`y_true` must be finite, got nan at row 1"),
        ([0.0, 1.0], ([0.0, np.nan], [1.0, 1.0]), ValueError, "must be finite, got nan at row 1"),
        ([0.0, 1.0], ([0.0], [1.0]), ValueError, "must have 1 rows"),
        ([0.0, 1.0], Empirical([[0.0, 1.0], [0.0, 1.0]]), NoDensityError, "density"),
        ([0.0, 1.0], StudentT([0.0, 0.0], 1.0, df=1.5), ValueError, "a finite standard deviation"),
        ([0.0, 1.0], [[0.0, 1.0], [0.0, 1.0]], TypeError, "must be a Distribution"),
    ],
)
def test_a_failed_update_leaves_the_state_as_it_was(forecast, y, dist, error, message):
    acc = accumulator().update(*forecast)
    before, table = acc.result(), acc.reliability_table()
    with pytest.raises(error, match=message):
        acc.update(y, dist)
    assert acc.result() == before
    assert acc.n_rows == 600
    pd.testing.assert_frame_equal(acc.reliability_table(), table)


def test_a_nan_in_a_later_piece_leaves_the_state_as_it_was(forecast, monkeypatch):
    monkeypatch.setattr("skuq.monitoring._accumulator.block.BLOCK", 100)
    y, dist = forecast
    acc = MetricAccumulator("crps").update(y, dist)
    before = acc.result()
    infinite = concat([StudentT(dist.loc[:300], dist.scale[:300], df=4.0), StudentT([0.0], [1.0], df=1.5)])
    with pytest.raises(ValueError, match="a finite standard deviation"):
        acc.update(y[:301], infinite)
    assert (acc.result(), acc.n_rows) == (before, 600)


def test_an_infinite_score_stays_infinite():
    acc = MetricAccumulator("auucc", "crps").update([0.0, 1.0], ([0.0, 0.0], [1.0, 1.0]))
    acc.update([1.0], ([0.0], [0.0])).update([0.0], ([0.0], [1.0]))
    assert acc.result()["auucc"] == np.inf
    assert np.isfinite(acc.result()["crps"])
    curve = acc.characteristics_curve()
    whole_curve = uncertainty_characteristics_curve([0, 1, 1, 0], ([0, 0, 0, 0], [1.0, 1, 0, 1]))
    assert curve.area() == whole_curve.area() == np.inf
    np.testing.assert_allclose(curve.miss_rate, whole_curve.miss_rate)
    np.testing.assert_allclose(curve.deficit, whole_curve.deficit)


def test_a_standard_deviation_of_zero_has_a_bin_of_its_own():
    y, scale = np.array([0.0, 0.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0, 1.0])
    acc = MetricAccumulator("ence", "uce", n_bins=2).update(y[:1], (y[:1] * 0, scale[:1]))
    acc.update(y[1:], (0 * y[1:], scale[1:]))
    for name, value in acc.result().items():
        assert value == pytest.approx(all_specs()[name].compute(y, (0 * y, scale), n_bins=2), rel=1e-12)
    np.testing.assert_array_equal(acc.std_quantile([0.0, 0.5, 0.6, 1.0]), [0.0, 0.0, 1.0, 1.0])


def test_a_constant_standard_deviation_is_one_bin(forecast):
    y, dist = forecast
    constant = Normal(dist.loc, np.full(y.size, 1.3))
    acc = in_chunks(MetricAccumulator("ence", "uce", "qce"), y, constant, [13])
    for name, value in acc.result().items():
        assert value == pytest.approx(all_specs()[name].compute(y, constant), rel=1e-12), name
    table = acc.reliability_table()
    assert len(table) == 1
    assert table.loc[0, ["lower", "upper"]].tolist() == [1.3, 1.3]


def test_intervals_may_be_given_as_bounds(forecast):
    y, dist = forecast
    bounds = dist.interval(0.9)
    names = ("picp", "mpiw", "interval_score", "nmpiw", "excess")
    acc = MetricAccumulator(*names, curves=[])
    for rows in np.split(np.arange(y.size), [100]):
        acc.update(y[rows], bounds[rows])
    for name, value in acc.result().items():
        assert value == pytest.approx(all_specs()[name].compute(y, bounds), rel=1e-12), name
    assert "the intervals contain" in str(acc.report(n_resamples=0))
    with pytest.raises(TypeError):
        MetricAccumulator(*names).update(y, bounds)  # the curves need a distribution
    several = MetricAccumulator(
        "interval_score", curves=[], options={"interval_score": {"coverage": [0.5, 0.9]}}
    )
    with pytest.raises(ValueError, match="`coverage` must be one number"):
        several.update(y, bounds)


def test_before_any_row_there_is_no_result(forecast):
    acc = MetricAccumulator("crps")
    for method in (acc.result, acc.calibration_curve, acc.report):
        with pytest.raises(ValueError, match="there are no rows yet: call `update`"):
            method()
    assert (acc + acc).n_rows == 0
    assert (acc + copy.copy(acc).update(*forecast)).n_rows == 600


def test_curves_that_were_not_chosen_raise(forecast):
    acc = MetricAccumulator("crps", curves=["calibration"]).update(*forecast)
    assert acc.calibration_curve().observed.size == 99
    for method in (acc.reliability_table, acc.characteristics_curve):
        with pytest.raises(
            ValueError, match=r"`curves` must hold '.*' for this method, got \('calibration',\)"
        ):
            method()


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (MetricAccumulator("picp"), "metrics"),
        (MetricAccumulator("crps", levels=9), "levels"),
        (MetricAccumulator("crps", n_bins=9), "n_bins"),
        (MetricAccumulator("crps", accuracy=1e-2), "accuracy"),
        (MetricAccumulator("crps", coverage=0.8), "coverage"),
        (MetricAccumulator("crps", curves=[]), "curves"),
        (MetricAccumulator("crps", options={"crps": {"estimator": "fair"}}), "options"),
    ],
)
def test_merging_refuses_other_arguments(other, name):
    with pytest.raises(ValueError, match=f"`other` must have the same `{name}`"):
        MetricAccumulator("crps").merge(other)


def test_arguments_are_compared_by_their_values():
    def make(last):
        options = {"crpss": {"reference": Normal([0.0], [last])}, "msll": {"y_train": [0.0, 1.0, last]}}
        return MetricAccumulator("crpss", "msll", levels=np.array([0.5, 0.9]), options=options)

    make(2.0).merge(make(2.0)).merge(pickle.loads(pickle.dumps(make(2.0))))
    MetricAccumulator("crps", levels=4).merge(MetricAccumulator("crps", levels=[0.2, 0.4, 0.6, 0.8]))
    with pytest.raises(ValueError, match="the same `options`"):
        make(2.0).merge(make(3.0))


def test_merging_refuses_another_version_and_other_objects(forecast, monkeypatch):
    old = pickle.dumps(MetricAccumulator("crps").update(*forecast))
    new = MetricAccumulator("crps")
    for place in (_versioned, module):
        monkeypatch.setattr(place, "__version__", "9.9.9")
    with pytest.warns(InconsistentVersionWarning, match="MetricAccumulator was pickled by skuq 0.1.0"):
        loaded = pickle.loads(old)
    assert loaded.result() == new.merge(loaded).result()
    with pytest.raises(ValueError, match=r"be from version 9.9.9 of skuq .*, got version 0.1.0"):
        MetricAccumulator("crps").merge(loaded)
    with pytest.raises(TypeError, match="`other` must be a MetricAccumulator, got dict"):
        new.merge({})
    with pytest.raises(TypeError, match="unsupported operand"):
        new + 1


@pytest.mark.parametrize("by", [copy.copy, copy.deepcopy, lambda acc: pickle.loads(pickle.dumps(acc))])
def test_a_copy_goes_on_by_itself(forecast, by):
    y, dist = forecast
    acc = accumulator().update(y[:300], dist[:300])
    before = acc.result()
    copied = by(acc)
    assert copied.result() == before
    copied.update(y[300:], dist[300:])
    assert acc.result() == before
    assert copied.result() == pytest.approx(accumulator().update(y, dist).result(), rel=1e-12)
    assert repr(copied).endswith("600 rows)")


def test_the_state_is_small(large):
    state = pickle.dumps(MetricAccumulator("crps", "picp", "ence", "mace").update(*large))
    assert len(state) < 1e6


def test_repr_shows_the_call():
    assert repr(MetricAccumulator("crps", "picp")) == "MetricAccumulator('crps', 'picp', 0 rows)"
    shown = repr(MetricAccumulator("crps", coverage=0.8, curves=()))
    assert shown == "MetricAccumulator('crps', coverage=0.8, curves=(), 0 rows)"
    assert repr(MetricAccumulator()).startswith(
        f"MetricAccumulator({len(MetricAccumulator().metrics)} metrics"
    )


def test_metrics_with_the_same_sums_share_them():
    acc = MetricAccumulator("picp", "miss_rate", "interval_coverage_error", "mace", "rmsce", "ence", "uce")
    assert len(acc._statistics) == len(MetricAccumulator("picp", "mace", "ence")._statistics)


def test_quantile_columns_need_no_cdf_at_their_own_levels(forecast, monkeypatch):
    y, dist = forecast
    columns = Quantiles(LEVELS, dist.quantile(LEVELS))
    names = ("pinball", "mace", "picp", "mpiw", "interval_score", "wis")
    arguments = {
        "levels": LEVELS,
        "curves": ["calibration"],
        "options": {"wis": {"coverage": [0.5, 0.8, 0.9]}},
    }
    expected = MetricAccumulator(*names, **arguments).update(y, columns).result()
    monkeypatch.setattr(Quantiles, "_segment", None)
    monkeypatch.setattr(Quantiles, "_tails", None)
    acc = MetricAccumulator(*names, **arguments).update(y, Quantiles(LEVELS, columns.values))
    assert acc.result() == expected
    below = (y[:, np.newaxis] <= columns.values).mean(axis=0)
    np.testing.assert_allclose(acc.calibration_curve().observed, below, rtol=1e-14)
    assert acc.result()["picp"] == np.mean((columns.values[:, 0] <= y) & (y <= columns.values[:, -1]))


def test_sparse_rows_are_the_level_counts():
    rows = all_specs()["mace"].fast.rows(np.zeros(2), Normal([0.0, 0.0], 1.0))
    assert sparse.issparse(rows)
    assert all_specs()["mace"].fast.rows is all_specs()["rmsce"].fast.rows


def test_blocks_without_rows_change_nothing(forecast):
    y, dist = forecast
    none = np.empty(0)
    acc = MetricAccumulator("crps", "ence").update(y, dist)
    before = acc.result()
    for loc, scale in ((none, none), ([], []), ([], 1.0), (pd.Series(dtype=float), none)):
        for weight in (None, [], none):
            assert acc.update([], (loc, scale), weight) is acc
    acc.update(none, stats.norm(none, 1.0)).update(none, stats.norm(loc=[], scale=none))
    assert (acc.result(), acc.n_rows, acc.total_weight) == (before, y.size, y.size)
    bounds = MetricAccumulator("picp", curves=[]).update([], np.empty((0, 2))).update(y, dist)
    assert bounds.update([], []).update([], pd.DataFrame({"low": [], "high": []})).n_rows == y.size
    fresh = MetricAccumulator().update([], (none, none))
    assert fresh.n_rows == 0
    assert fresh.merge(MetricAccumulator()).update(y, dist).n_rows == y.size


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], np.empty((0, 2))), TypeError, "`y_pred` must be a Distribution"),
        (([], ([1.0], [1.0])), ValueError, "`y_true` must have at least one row"),
        (([1.0], ([], [])), ValueError, "must have at least one row"),
        (([], ([], []), [1.0]), ValueError, "at least one row"),
        (([1.0], ([1.0], [1.0]), []), ValueError, "`sample_weight` must have 1 rows"),
        (([], (1.0, 1.0)), ValueError, "`y_true` must have at least one row"),
        (([], None), TypeError, "`y_pred` must be a Distribution"),
        ((None, ([], [])), ValueError, "at least one row"),
        (([], Empirical([[1.0, 2.0]])), ValueError, "`y_true` must have at least one row"),
    ],
)
def test_blocks_that_are_only_partly_empty_raise(arguments, error, message):
    with pytest.raises(error, match=message):
        MetricAccumulator().update(*arguments)


def test_accumulators_sum_up(forecast):
    y, dist = forecast
    parts = [
        MetricAccumulator("crps", "ence").update(y[rows], dist[rows]) for rows in (slice(40), slice(40, None))
    ]
    assert sum(parts).result() == (parts[0] + parts[1]).result()
    assert [part.n_rows for part in parts] == [40, y.size - 40]
    assert sum(parts[:1]) is not parts[0]
    for other in (1, 0.5, None):
        with pytest.raises(TypeError, match="unsupported operand"):
            other + parts[0]


@pytest.mark.parametrize("unit", [2.0**-830, 2.0**-520, 2.0**520, 2.0**830])
def test_units_of_any_size(forecast, unit):
    y, dist = forecast
    options = {"nmpiw": {"norm": "std"}, "sharpness": {"kind": "rms"}}
    names = ("crps", "mpiw", "nmpiw", "sharpness", "ence", "uce")

    def of(unit):
        acc = MetricAccumulator(*names, options=options)
        scaled = Normal(unit * dist.loc, unit * dist.scale)
        return in_chunks(acc, unit * y, scaled, [30, 31, 100])

    plain, scaled = of(1.0), of(unit)
    for name, factor in {"crps": unit, "mpiw": unit, "nmpiw": 1.0, "sharpness": unit}.items():
        assert scaled.result()[name] == pytest.approx(factor * plain.result()[name], rel=1e-12)
    for name in ("crps", "mpiw", "sharpness"):
        expected = unit * plain.standard_errors()[name]
        assert scaled.standard_errors()[name] == pytest.approx(expected, rel=1e-9, nan_ok=True)
    assert scaled.result()["ence"] == pytest.approx(plain.result()["ence"], rel=0.05)
    uce = plain.result()["uce"] * unit * unit
    assert scaled.result()["uce"] == pytest.approx(uce, rel=0.05)
    for column in ("rmv", "rmse"):
        table = unit * plain.reliability_table()[column]
        np.testing.assert_allclose(scaled.reliability_table()[column], table, rtol=0.02)
    target_std = plain.characteristics_curve().target_std
    assert scaled.characteristics_curve().target_std == pytest.approx(unit * target_std, rel=1e-12)


def test_blocks_in_units_far_apart(forecast):
    y, dist = forecast
    narrow = Normal(1e-170 * dist.loc, 1e-170 * dist.scale)
    small = MetricAccumulator("crps", "sharpness", "ence", options={"sharpness": {"kind": "rms"}})
    large = copy.copy(small)
    small.update(1e-170 * y, narrow)
    large.update(1e160 * y, Normal(1e160 * dist.loc, 1e160 * dist.scale))
    for both in (small + large, large + small):
        assert both.result()["crps"] == pytest.approx(large.result()["crps"] / 2, rel=1e-12)
        assert both.result()["sharpness"] == pytest.approx(
            large.result()["sharpness"] / np.sqrt(2), rel=1e-12
        )
        assert 0 < both.standard_errors()["crps"] < np.inf


def test_the_root_mean_variance_is_exact(forecast):
    y, dist = forecast
    weight = np.random.default_rng(4).integers(1, 4, size=y.size)
    acc = MetricAccumulator("sharpness", options={"sharpness": {"kind": "rms"}})
    in_chunks(acc, y, dist, [50], weight)
    assert acc.exact == {"sharpness": True}
    expected = sharpness(y, dist, sample_weight=weight, kind="rms")
    assert acc.result()["sharpness"] == pytest.approx(expected, rel=1e-12)
