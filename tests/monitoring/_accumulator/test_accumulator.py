"""Metrics of accumulated rows are those of all rows at once."""

import copy
import functools
import operator
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skuq import _compat
from skuq.distributions import Empirical, Normal, Quantiles, StudentT, concat
from skuq.exceptions import InconsistentVersionWarning, NoDensityError
from skuq.metrics import (
    _spec,
    crps_loss,
    regression_calibration_curve,
    reliability_table,
    uncertainty_characteristics_curve,
)
from skuq.metrics._spec import Means, all_specs, metric, value_of
from skuq.monitoring import ClassMetricAccumulator, MetricAccumulator
from skuq.monitoring import _accumulator as module
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


def whole(names, y, dist):
    """Return the metrics of all rows at once, with the options of the accumulator."""
    return {name: all_specs()[name].compute(y, dist, **required(all_specs()[name])) for name in names}


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


def test_metrics_are_those_of_all_rows(forecast):
    y, dist = forecast
    histogram = {name for name, exact in accumulator().exact.items() if not exact}
    assert histogram == {"ence", "uce", "qce", "miscal_area"}
    atoms = Empirical(np.round(dist.quantile((np.arange(20) + 0.5) / 20)))
    for target, member in (*((y, each) for each in families(dist)), (np.round(y), atoms)):
        names = [spec.abbreviation for spec in MERGING if member is not atoms or spec.needs != "density"]
        acc = MetricAccumulator(*names, options={key: OPTIONS[key] for key in names if key in OPTIONS})
        expected, found = whole(names, target, member), in_chunks(acc, target, member, [1, 50, 400]).result()
        assert found.keys() == expected.keys()
        for name, value in found.items():
            near = {"rel": 1e-12, "abs": 1e-14}
            if name in histogram:
                near = {"abs": 1e-4} if name == "miscal_area" else {"rel": 0.01}
            assert value == pytest.approx(expected[name], **near), name


def test_metrics_of_many_rows_have_the_stated_accuracy(large):
    y, dist = large
    names = ("ence", "uce", "qce", "miscal_area")
    acc = in_chunks(MetricAccumulator(*names), y, dist, [70_000])
    expected = {name: all_specs()[name].compute(y, dist) for name in names}
    assert acc.result() == pytest.approx(expected, rel=1e-3, abs=1e-4)
    area = uncertainty_characteristics_curve(y, dist).area()
    assert acc.characteristics_curve().area() == pytest.approx(area, rel=1e-5)
    levels = np.array([0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999])
    quantiles = np.quantile(dist.scale, levels, method="inverted_cdf")
    for accuracy in (0.1, 1e-2, 1e-3, 1e-4):
        fine = MetricAccumulator("picp", accuracy=accuracy, curves=["reliability"]).update(y, dist)
        assert np.abs(fine.std_quantile(levels) / quantiles - 1).max() <= accuracy * (1 + 1e-9)
    assert len(pickle.dumps(acc)) < 1e6


@pytest.mark.slow
def test_a_million_rows_have_the_documented_accuracy():
    y, dist = heavy_tails(1_000_000)
    acc = in_chunks(MetricAccumulator("ence", "auucc"), y, dist, range(100_000, 1_000_000, 100_000))
    assert acc.result()["ence"] == pytest.approx(all_specs()["ence"].compute(y, dist), rel=0, abs=1e-4)
    area = uncertainty_characteristics_curve(y, dist).area()
    assert acc.characteristics_curve().area() == pytest.approx(area, rel=1e-5, abs=0)


@pytest.mark.parametrize("family", range(3))
def test_merging_is_associative_and_commutative(forecast, family):
    y, dist = forecast
    member = list(families(dist))[family]
    parts = [accumulator().update(y[rows], member[rows]) for rows in np.split(np.arange(y.size), [7, 350])]
    first, second, third = parts
    before = [part.result() for part in parts]
    reference = ((first + second) + third).result()
    for other in (first + (second + third), third + first + second, second + third + first, sum(parts)):
        assert other.result() == pytest.approx(reference, rel=1e-12, abs=1e-14)
        assert other.n_rows == 600
    assert accumulator().merge(first + second).merge(third).result() == reference
    assert [part.result() for part in parts] == before
    assert first.merge(second) is first
    assert second.result() == before[1]
    assert sum([second]) is not second
    for other in (1, 0.5, None):
        with pytest.raises(TypeError, match="unsupported operand"):
            other + parts[0]
    with pytest.raises(TypeError, match="unsupported operand"):
        parts[0] + 1


def test_weights_equal_repetition(forecast, monkeypatch):
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
    # A block of many rows is taken in pieces.
    once = accumulator().update(y, dist, weight).result()
    monkeypatch.setattr("skuq.monitoring._statistics.BLOCK", 100)
    assert accumulator().update(y, dist, weight).result() == pytest.approx(once, rel=1e-12)


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


def test_options_reach_exact_metrics(forecast):
    for name, options in (
        ("nmpiw", {"scale": "std"}),
        ("nmpiw", {"scale": 2.0}),
        ("nmpiw", {"y_train": [0.0, 1.0, 4.0]}),
        ("cwc", {"formula": "mapie", "eta": 3.0}),
        ("miscal_area", {"levels": 19, "kind": "interval"}),
        ("qce", {"marginal": True, "levels": [0.5, 0.9]}),
        ("picp", {"coverage": 0.5}),
        ("interval_score", {"coverage": [0.5, 0.9]}),
        ("cals", {"levels": [0.5, 0.1], "reduction": "mean", "level_weights": [1.0, 2.0]}),
        ("mace", {"kind": "interval", "levels": 19}),
        ("crpss", {"reference": Normal([0.0], [3.0])}),
        ("auucc_gain", {"denominator": "model"}),
        ("sharpness", {"kind": "rms"}),
        ("twcrps", {"lower": 0.5, "upper": 2.0}),
        ("qwcrps", {"weighting": "left"}),
        ("twnll", {"lower": 0.5}),
    ):
        y, dist = forecast
        for weight in (None, np.random.default_rng(4).integers(1, 4, size=y.size)):
            acc = in_chunks(MetricAccumulator(name, options={name: options}), y, dist, [100, 101], weight)
            assert acc.exact == {name: True}
            expected = all_specs()[name].compute(y, dist, sample_weight=weight, **options)
            assert acc.result()[name] == pytest.approx(expected, rel=1e-12)


def test_options_reach_metrics_of_a_histogram(large):
    for name, options, size in (
        ("ence", {"strategy": "uniform"}, 20_000),
        ("uce", {"strategy": "quantile"}, 20_000),
        ("uce", {"on": "std"}, 20_000),
        ("qce", {"strategy": "uniform", "levels": 4}, 20_000),
        ("auucc", {"y_range": (0.0, 0.2), "normalize": "std"}, 200_000),
        ("auucc_gain", {"x_axis": "excess", "y_axis": "deficit"}, 200_000),
    ):
        y, dist = (part[:size] for part in large)
        bins = {"n_bins": 7} if "n_bins" in all_specs()[name].options else {}
        acc = MetricAccumulator(name, **bins, options={name: options}).update(y, dist)
        assert acc.exact == {name: False}
        expected = all_specs()[name].compute(y, dist, **bins, **options)
        near = {"rel": 2e-3, "abs": 1e-4 if bins else 1e-5}
        assert acc.result()[name] == pytest.approx(expected, **near), name


@pytest.fixture
def registry(monkeypatch):
    """A copy of the registry that a test may add to."""
    for place in ("_SPECS", "_ABBREVIATIONS"):
        monkeypatch.setattr(_spec, place, dict(getattr(_spec, place)))


RECORD = {
    "title": "T",
    "direction": "lower",
    "optimum": 0.0,
    "needs": "moments",
    "proper": False,
    "source": "",
}


def test_a_new_metric_merges_by_its_kernel(forecast, registry):
    def powers(y, dist, *, power):
        return np.abs(y - dist.mean()) ** power, dist.std()

    def kernel_of_ratio(power):
        return Means(functools.partial(powers, power=power), lambda means: means[..., 0] / means[..., 1])

    @metric("ratio", **RECORD, units=0, kernel=kernel_of_ratio)
    def ratio(y_true, y_pred, *, sample_weight=None, power=2.0):
        return value_of(kernel_of_ratio(power), y_true, y_pred, sample_weight)

    def kernel_of_spread(factor):
        return Means(
            lambda y, dist: dist.std(), lambda means, std: factor * std * means[..., 0], spread="std"
        )

    @metric("spread", **RECORD, units=1, kernel=kernel_of_spread)
    def spread(y_true, y_pred, *, sample_weight=None, factor=2.0):
        return factor * np.std(y_true) * y_pred.std().mean()

    @metric("worst", **RECORD, units=0)
    def worst(y_true, y_pred, *, sample_weight=None):
        return float(np.max(y_true))

    y, dist = forecast
    for function, options in ((ratio, {"power": 1.5}), (spread, {"factor": 3.0})):
        name = function.__name__
        acc = in_chunks(MetricAccumulator(function, options={name: options}), y, dist, [20])
        assert acc.exact == {name: True}
        assert acc.result()[name] == pytest.approx(function(y, dist, **options), rel=1e-12)
    with pytest.raises(ValueError, match=r"'worst'.*from blocks, because it needs all rows"):
        MetricAccumulator("worst")
    assert "worst" not in MetricAccumulator().metrics


def test_without_names_all_metrics_that_merge_are_accumulated():
    assert MetricAccumulator().metrics == tuple(spec.abbreviation for spec in MERGING if spec.ready_made)
    assert "crpss" in MetricAccumulator(options={"crpss": {"y_train": [0.0, 1.0]}}).metrics
    assert MetricAccumulator(crps_loss, "neg_crps").metrics == ("crps",)


def test_what_does_not_merge_raises_at_once():
    blocks = "of rows, got '{}'.*because it "
    two_rows = {"reference": Normal([0.0, 1.0], 1.0)}
    for name, options, message in (
        ("agce", {}, blocks.format("agce") + "draws random groups"),
        ("ert", {}, blocks.format("ert") + "depends on the features"),
        ("crps_uncertainty", {}, "This metric cannot be computed from blocks, because it needs all rows"),
        ("auucc", {"vary": "bias"}, "must have vary='scale'"),
        ("auucc_gain", {"bands": 0.9}, "must have bands='std'"),
        ("crpss", two_rows, "must contain a `reference` with one row, got 2 rows"),
        ("nmpiw", {"scale": "iqr"}, "`scale` must be one of"),
        ("crp", {}, "Did you mean"),
    ):
        with pytest.raises(ValueError, match=message):
            MetricAccumulator(name, options={name: options} if options else None)
    for arguments, error, message in (
        ({"options": {"ence": {"n_bins": 3}}}, ValueError, "`options` must contain only the metrics crps"),
        ({"accuracy": 0.5}, ValueError, "`accuracy` must lie between 1e-05 and 0.1, got 0.5"),
        ({"levels": [0.0, 1.2]}, ValueError, r"`levels` must lie in \[0, 1\]"),
        ({"n_bins": 0}, ValueError, "`n_bins` must be at least 1"),
        ({"coverage": 90}, ValueError, "Did you mean 0.9"),
        ({"curves": ["ucc"]}, ValueError, "`curves` must be one of"),
        ({"curves": "calibration"}, TypeError, "`curves` must be a sequence of names, got the string"),
    ):
        with pytest.raises(error, match=message):
            MetricAccumulator("crps", **arguments)
    with pytest.raises(TypeError, match="`metrics` must be metrics of skuq"):
        MetricAccumulator(len)
    with pytest.raises(TypeError, match="must include exactly one of 'y_train' and 'reference'"):
        MetricAccumulator("crpss")


def test_a_failed_update_leaves_the_state_as_it_was(forecast, monkeypatch):
    acc = accumulator().update(*forecast)
    before, table, two = acc.result(), acc.reliability_table(), [0.0, 1.0]
    finite, moment = "must be finite, got nan at row 1", "a finite standard deviation"
    for y, dist, error, message in (
        ([0.0, np.nan], Normal(two, [1.0, 1.0]), ValueError, f"`y_true` {finite}"),
        (two, Normal([0.0], [1.0]), ValueError, "`y_pred` has 1 row and `y_true` has 2"),
        (two, Empirical([two, two]), NoDensityError, "density"),
        (two, StudentT([0.0, 0.0], 1.0, df=1.5), ValueError, moment),
        (two, [two, two], TypeError, "must be a Distribution"),
    ):
        with pytest.raises(error, match=message):
            acc.update(y, dist)
    # The last piece of a block has an infinite moment.
    monkeypatch.setattr("skuq.monitoring._statistics.BLOCK", 100)
    y, dist = (part[:300] for part in forecast)
    infinite = concat([StudentT(dist.loc, dist.scale, df=4.0), StudentT([0.0], [1.0], df=1.5)])
    with pytest.raises(ValueError, match=moment):
        acc.update(np.append(y, 0.0), infinite)
    assert (acc.result(), acc.n_rows) == (before, 600)
    pd.testing.assert_frame_equal(acc.reliability_table(), table)


def test_an_infinite_score_stays_infinite():
    acc = MetricAccumulator("auucc", "crps").update([0.0, 1.0], Normal([0.0, 0.0], [1.0, 1.0]))
    acc.update([1.0], Normal([0.0], [0.0])).update([0.0], Normal([0.0], [1.0]))
    assert acc.result()["auucc"] == np.inf
    assert np.isfinite(acc.result()["crps"])
    curve = acc.characteristics_curve()
    whole_curve = uncertainty_characteristics_curve([0, 1, 1, 0], Normal([0, 0, 0, 0], [1.0, 1, 0, 1]))
    assert curve.area() == whole_curve.area() == np.inf
    np.testing.assert_allclose(curve.miss_rate, whole_curve.miss_rate)
    np.testing.assert_allclose(curve.deficit, whole_curve.deficit)


def test_standard_deviations_that_are_zero_or_constant(forecast):
    y, scale = np.array([0.0, 0.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0, 1.0])
    acc = in_chunks(MetricAccumulator("ence", "uce", n_bins=2), y, Normal(0 * y, scale), [1])
    for name, value in acc.result().items():
        assert value == pytest.approx(all_specs()[name].compute(y, Normal(0 * y, scale), n_bins=2), rel=1e-12)
    np.testing.assert_array_equal(acc.std_quantile([0.0, 0.5, 0.6, 1.0]), [0.0, 0.0, 1.0, 1.0])
    y, dist = forecast
    constant = Normal(dist.loc, np.full(y.size, 1.3))
    acc = in_chunks(MetricAccumulator("ence", "uce", "qce"), y, constant, [13])
    for name, value in acc.result().items():
        assert value == pytest.approx(all_specs()[name].compute(y, constant), rel=1e-12), name
    assert acc.reliability_table()[["lower", "upper"]].to_numpy().tolist() == [[1.3, 1.3]]


def test_intervals_may_be_given_as_bounds(forecast):
    y, dist = forecast
    bounds, names = dist.interval(0.9), ("picp", "mpiw", "interval_score", "nmpiw", "excess")
    acc = in_chunks(MetricAccumulator(*names, curves=[]), y, bounds, [100])
    expected = {name: all_specs()[name].compute(y, bounds) for name in names}
    assert acc.result() == pytest.approx(expected, rel=1e-12)
    assert "the intervals contain" in str(acc.report(n_resamples=0))
    with pytest.raises(TypeError):
        MetricAccumulator(*names).update(y, bounds)  # the curves need a distribution
    options = {"interval_score": {"coverage": [0.5, 0.9]}}
    with pytest.raises(ValueError, match="`coverage` must be one number"):
        MetricAccumulator("interval_score", curves=[], options=options).update(y, bounds)


def test_before_any_row_there_is_no_result(forecast):
    acc = MetricAccumulator("crps")
    for method in (acc.result, acc.calibration_curve, acc.report):
        with pytest.raises(ValueError, match="there are no rows yet: call `update`"):
            method()
    assert (acc + acc).n_rows == 0
    assert (acc + copy.copy(acc).update(*forecast)).n_rows == 600
    acc = MetricAccumulator("crps", curves=["calibration"]).update(*forecast)
    assert acc.calibration_curve().observed.size == 99
    message = r"`curves` must hold '.*' for this method, got \('calibration',\)"
    for method in (acc.reliability_table, acc.characteristics_curve):
        with pytest.raises(ValueError, match=message):
            method()


def test_merging_compares_arguments_by_their_values():
    def make(last):
        options = {"crpss": {"reference": Normal([0.0], [last])}, "msll": {"y_train": [0.0, 1.0, last]}}
        return MetricAccumulator("crpss", "msll", levels=np.array([0.5, 0.9]), options=options)

    make(2.0).merge(make(2.0)).merge(pickle.loads(pickle.dumps(make(2.0))))
    MetricAccumulator("crps", levels=4).merge(MetricAccumulator("crps", levels=[0.2, 0.4, 0.6, 0.8]))
    with pytest.raises(ValueError, match="the same `options`"):
        make(2.0).merge(make(3.0))
    with pytest.raises(ValueError, match="`other` must have the same `metrics`"):
        MetricAccumulator("crps").merge(MetricAccumulator("picp"))
    for name, other in {
        "levels": 9, "n_bins": 9, "accuracy": 1e-2, "coverage": 0.8, "curves": [],
        "options": {"crps": {"crps_estimator": "fair"}},
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=f"`other` must have the same `{name}`"):
            MetricAccumulator("crps").merge(MetricAccumulator("crps", **{name: other}))


def test_merging_refuses_another_version_and_other_objects(forecast, monkeypatch):
    old, new = pickle.dumps(MetricAccumulator("crps").update(*forecast)), MetricAccumulator("crps")
    for place in (_compat, module):
        monkeypatch.setattr(place, "__version__", "9.9.9")
    with pytest.warns(InconsistentVersionWarning, match="MetricAccumulator was pickled by skuq 0.1.0"):
        loaded = pickle.loads(old)
    assert loaded.result() == new.merge(loaded).result()
    with pytest.raises(ValueError, match=r"be from version 9.9.9 of skuq .*, got version 0.1.0"):
        MetricAccumulator("crps").merge(loaded)
    with pytest.raises(TypeError, match="`other` must be a MetricAccumulator, got dict"):
        new.merge({})


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


def test_repr_shows_the_call():
    assert repr(MetricAccumulator("crps", "picp")) == "MetricAccumulator('crps', 'picp', 0 rows)"
    shown = repr(MetricAccumulator("crps", coverage=0.8, curves=()))
    assert shown == "MetricAccumulator('crps', coverage=0.8, curves=(), 0 rows)"
    count = len(MetricAccumulator().metrics)
    assert repr(MetricAccumulator()).startswith(f"MetricAccumulator({count} metrics")


def test_quantile_columns_count_targets_below_them(forecast):
    y, dist = forecast
    columns = Quantiles(LEVELS, dist.quantile(LEVELS))
    acc = MetricAccumulator("picp", levels=LEVELS, curves=["calibration"]).update(y, columns)
    below = (y[:, np.newaxis] <= columns.values).mean(axis=0)
    np.testing.assert_allclose(acc.calibration_curve().observed, below, rtol=1e-14)
    assert acc.result()["picp"] == np.mean((columns.values[:, 0] <= y) & (y <= columns.values[:, -1]))


def test_blocks_without_rows_change_nothing(forecast):
    y, dist = forecast
    none = np.empty(0)
    acc = MetricAccumulator("crps", "ence").update(y, dist)
    before = acc.result()
    for empty in (none, [], pd.Series(dtype=float), stats.norm([], 1.0)):
        for weight in (None, [], none):
            assert acc.update([], empty, weight) is acc
    acc.update(none, stats.norm(none, 1.0)).update(none, stats.norm(loc=[], scale=none))
    assert (acc.result(), acc.n_rows, acc.total_weight) == (before, y.size, y.size)
    bounds = MetricAccumulator("picp", curves=[]).update([], np.empty((0, 2))).update(y, dist)
    assert bounds.update([], []).update([], pd.DataFrame({"low": [], "high": []})).n_rows == y.size
    fresh = MetricAccumulator().update([], none)
    assert fresh.n_rows == 0
    assert fresh.merge(MetricAccumulator()).update(y, dist).n_rows == y.size


def test_blocks_whose_rows_do_not_count_change_nothing(forecast):
    """Rows of weight 0 count as absent, in a block of their own as beside others."""
    y, dist = forecast
    acc = accumulator().update(y, dist)
    before = acc.result()
    for rows in (slice(1), slice(5)):
        zeros = np.zeros(y[rows].size)
        assert acc.update(y[rows], dist[rows], zeros) is acc
        assert accumulator().update(y[rows], dist[rows], list(zeros)).update(y, dist).result() == before
    assert (acc.result(), acc.n_rows, acc.total_weight) == (before, y.size, y.size)
    for target, weight, message in (
        ([np.nan, 0.0], [0.0, 0.0], "`y_true` must be finite"),
        ([0.0], [0.0], "`y_true` must have 2 rows"),
        ([0.0, 0.0], [0.0], "`sample_weight` must have 2 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            acc.update(target, dist[:2], weight)
    classes = ClassMetricAccumulator("ece", labels=[0, 1]).update([0, 1], np.full((2, 2), 0.5), [0, 0])
    assert classes.n_rows == 0


def test_blocks_that_are_only_partly_empty_raise():
    for arguments, error, message in (
        (([], np.empty((0, 2))), TypeError, "`y_pred` must be a Distribution"),
        (([], Normal([1.0], [1.0])), ValueError, "`y_true` must have at least one row"),
        (([1.0], stats.norm([], [])), ValueError, "parameters that are numbers or have shape"),
        (([], [], [1.0]), TypeError, "`y_pred` must be a Distribution"),
        (([], ([], [])), TypeError, "`y_pred` must be a Distribution"),
        (([1.0], Normal([1.0], [1.0]), []), ValueError, "`sample_weight` must have 1 rows"),
        (([], stats.norm(1.0, 1.0)), ValueError, "`y_true` must have at least one row"),
        (([], None), TypeError, "`y_pred` must be a Distribution"),
        ((None, []), TypeError, "`y_pred` must be a Distribution"),
        (([], Empirical([[1.0, 2.0]])), ValueError, "`y_true` must have at least one row"),
    ):
        with pytest.raises(error, match=message):
            MetricAccumulator().update(*arguments)


@pytest.mark.parametrize("unit", [1e-98, 2.0**-256, 2.0**256, 1e96])
def test_large_and_small_units(forecast, unit):
    y, dist = forecast
    options = {"nmpiw": {"scale": "std"}, "sharpness": {"kind": "rms"}}
    acc = MetricAccumulator("crps", "mpiw", "nmpiw", "sharpness", "ence", "uce", options=options)
    plain, scaled = (
        in_chunks(copy.copy(acc), u * y, Normal(u * dist.loc, u * dist.scale), [30, 31, 100])
        for u in (1.0, unit)
    )
    errors = [each.standard_errors() for each in (plain, scaled)]
    for name, power, near in (
        ("crps", 1, 1e-12), ("mpiw", 1, 1e-12), ("nmpiw", 0, 1e-12), ("sharpness", 1, 1e-12),
        ("ence", 0, 0.05), ("uce", 2, 0.05),
    ):  # fmt: skip
        expected = plain.result()[name] * unit**power
        assert scaled.result()[name] == pytest.approx(expected, rel=near, abs=0)
        if power == 1:
            assert errors[1][name] == pytest.approx(unit * errors[0][name], rel=1e-9, abs=0, nan_ok=True)
    for kind, power in (("rms", 1), ("variance", 2)):
        empty = MetricAccumulator("sharpness", options={"sharpness": {"kind": kind}})
        plain_bounds, bounds = (
            in_chunks(copy.copy(empty), u * y, Normal(u * dist.loc, u * dist.scale), [30])
            .report(random_state=0)
            .loc["sharpness", ["low", "high"]]
            .tolist()
            for u in (1.0, unit)
        )
        assert bounds == pytest.approx([unit**power * bound for bound in plain_bounds], rel=1e-9, abs=0)
    table = unit * plain.reliability_table()[["rmv", "rmse"]]
    np.testing.assert_allclose(scaled.reliability_table()[["rmv", "rmse"]], table, rtol=0.02)
    target_std = plain.characteristics_curve().target_std
    assert scaled.characteristics_curve().target_std == pytest.approx(unit * target_std, rel=1e-12, abs=0)


def test_blocks_in_units_far_apart(forecast):
    y, dist = forecast
    narrow = Normal(1e-98 * dist.loc, 1e-98 * dist.scale)
    small = MetricAccumulator("crps", "sharpness", "ence", options={"sharpness": {"kind": "rms"}})
    large = copy.copy(small)
    small.update(1e-98 * y, narrow)
    large.update(1e96 * y, Normal(1e96 * dist.loc, 1e96 * dist.scale))
    for both in (small + large, large + small):
        assert both.result()["crps"] == pytest.approx(large.result()["crps"] / 2, rel=1e-12)
        assert both.result()["sharpness"] == pytest.approx(
            large.result()["sharpness"] / np.sqrt(2), rel=1e-12
        )
        assert 0 < both.standard_errors()["crps"] < np.inf
