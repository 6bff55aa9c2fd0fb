"""One point of the uncertainty characteristics curve, as a recalibrator."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.exceptions import NotFittedError

from skuq.distributions import Empirical, Normal, ScipyDistribution, StudentT, affine
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import (
    interval_deficit,
    interval_excess,
    interval_miss_rate,
    interval_score_loss,
    mean_interval_half_width,
    uncertainty_characteristics_curve,
)
from skuq.metrics._ucc_curve import OperatingPoint
from skuq.recalibration import OperatingPointRecalibrator, StdScalingRecalibrator
from tests.few_rows import few_rows
from tests.recalibration.test_std_scaling import FAMILIES as OF_SCALING

N = 60
SETTINGS = [
    {"miss_rate": 0.1},
    {"miss_rate": 0.03, "coverage": 0.9},
    {"miss_rate": 0.2, "vary": "bias"},
    {"cost": 0.4},
    {"cost": (1.0, 9.0), "y_axis": "deficit"},
    {"cost": (0.2, 1.0), "x_axis": "excess", "y_axis": "deficit", "coverage": 0.95},
    {"cost": (1.0, 20.0), "vary": "bias"},
]
every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=repr)


NORMAL, Y = OF_SCALING["Normal"]
FAMILIES = {name: case for name, case in OF_SCALING.items() if name != "discrete"} | {
    "StudentT of infinite variance": (StudentT(NORMAL.loc, NORMAL.scale, 1.5), Y),
    "with point masses": (Normal(NORMAL.loc, np.where(np.arange(N) % 20, NORMAL.scale, 0.0)), Y),
    "Concatenated": (Concatenated([NORMAL, StudentT(NORMAL.loc, NORMAL.scale, 3.0)], np.arange(N) * 2), Y),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_intervals_are_those_of_the_point(family):
    """Width, miss rate, excess and deficit, computed by the metrics, are those of the curve's point."""
    dist, y = FAMILIES[family]
    for setting, weight in product(SETTINGS, (None, np.random.default_rng(1).integers(1, 4, size=N))):
        recalibrator = OperatingPointRecalibrator(**setting)
        if family == "with point masses" and setting == SETTINGS[1]:
            with pytest.raises(ValueError, match="the interval does not extend from the mean toward `y`"):
                recalibrator.fit(dist, y)
            continue
        recalibrator.fit(dist, y, sample_weight=weight)
        point, recalibrated = recalibrator.operating_point_, recalibrator.transform(dist)
        options = {"coverage": recalibrator.coverage_, "sample_weight": weight}
        assert mean_interval_half_width(y, recalibrated, **options) == pytest.approx(
            point.bandwidth, rel=1e-9
        )
        assert interval_miss_rate(y, recalibrated, **options) == pytest.approx(point.miss_rate, abs=1e-12)
        for metric, value in ((interval_excess, point.excess), (interval_deficit, point.deficit)):
            assert metric(y, recalibrated, **options) == pytest.approx(value, rel=1e-8, abs=1e-12), setting


@every_setting
def test_the_point_is_the_curves(setting, dist, y):
    recalibrator = OperatingPointRecalibrator(**setting).fit(dist, y)
    curve = uncertainty_characteristics_curve(
        y, dist, bands=recalibrator.coverage_, point=dist.mean(), vary=setting.get("vary", "scale")
    )
    if "miss_rate" in setting:
        expected = curve.operating_point(miss_rate=setting["miss_rate"])
    else:
        cost, misses = setting["cost"], setting.get("y_axis", "miss_rate")
        if not isinstance(cost, tuple):
            cost = cost / np.std(y), 1 - cost
        expected = curve.optimum(cost=cost, x_axis=setting.get("x_axis", "bandwidth"), y_axis=misses)
    assert isinstance(recalibrator.operating_point_, OperatingPoint)
    assert recalibrator.operating_point_.parameter == pytest.approx(expected.parameter, rel=1e-12)
    assert recalibrator.operating_point_.bandwidth == pytest.approx(expected.bandwidth, rel=1e-12)


def test_bands_of_standard_deviations_are_the_same_bands(dist, y):
    """For symmetric families the curve of standard deviations (Navratil et al. 2023) has these intervals."""
    point = uncertainty_characteristics_curve(y, dist).operating_point(miss_rate=0.05)
    recalibrated = OperatingPointRecalibrator(miss_rate=0.05).fit(dist, y).transform(dist)
    expected = dist.mean()[:, np.newaxis] + point.parameter * dist.std()[:, np.newaxis] * [-1, 1]
    assert_allclose(recalibrated.interval(0.95), expected, rtol=1e-10)


def test_the_coverage_is_one_less_the_miss_rate_unless_given(calibration_rows):
    dist, y = FAMILIES["Normal"]
    assert OperatingPointRecalibrator(miss_rate=0.05).fit(dist, y).coverage_ == 0.95
    assert OperatingPointRecalibrator(miss_rate=0.05, coverage=0.8).fit(dist, y).coverage_ == 0.8
    assert OperatingPointRecalibrator(cost=0.3).fit(dist, y).coverage_ == 0.9
    # a miss rate is the coverage objective of StdScalingRecalibrator
    dist, y = calibration_rows
    factor = StdScalingRecalibrator(objective="coverage", coverage=0.8).fit(dist, y).factor_
    fitted = OperatingPointRecalibrator(miss_rate=0.2).fit(dist[:400], y[:400])
    point = OperatingPointRecalibrator(miss_rate=0.2).fit(dist, y).operating_point_
    assert factor == pytest.approx(point.parameter, rel=1e-10)
    missed = interval_miss_rate(y[400:], fitted.transform(dist[400:]), coverage=0.8)
    assert missed == pytest.approx(0.2, abs=0.06)


def test_the_cost_of_the_interval_score_minimises_it(dist, y):
    for coverage in (0.5, 0.9, 0.98):
        cost = (1 - coverage) / (2 - coverage)
        recalibrator = OperatingPointRecalibrator(cost=cost, y_axis="deficit", coverage=coverage).fit(dist, y)

        def score(r, coverage=coverage):
            return interval_score_loss(y, affine(dist, dist.mean() * (1 - r), r), coverage=coverage)

        best = interval_score_loss(y, recalibrator.transform(dist), coverage=coverage)
        factor = recalibrator.operating_point_.parameter
        assert best == pytest.approx(score(factor), rel=1e-9)
        assert all(best < score(other * factor) for other in (0.5, 0.9, 0.97, 1.03, 1.1, 2.0))


def test_a_number_of_cost_does_not_depend_on_units_and_dearer_misses_widen(dist, y):
    def point(unit, offset=0.0, **options):
        other = affine(dist, offset, unit)
        return OperatingPointRecalibrator(**options).fit(other, offset + unit * y).operating_point_

    for misses in ("miss_rate", "deficit"):
        factors = [point(*unit, cost=0.1, y_axis=misses).parameter for unit in ((1.0,), (1e4, 7.0))]
        assert factors[1] == pytest.approx(factors[0], rel=1e-9)
    # ten times the width at the same price a unit
    assert point(10.0, cost=(0.1, 0.9)).parameter < point(1.0, cost=(0.1, 0.9)).parameter
    widths = [point(1.0, cost=(1.0, price)).bandwidth for price in (3.0, 10.0, 30.0, 100.0)]
    assert (np.diff(widths) > 0).all()


def test_scaling_leaves_the_mean_alone():
    for name, (dist, y) in FAMILIES.items():
        recalibrator = OperatingPointRecalibrator(miss_rate=0.1).fit(dist, y)
        assert_array_equal(recalibrator.predict(dist), dist.mean(), err_msg=name)
        after = recalibrator.transform(dist).mean()
        assert_allclose(after, dist.mean(), rtol=1e-9, atol=1e-9, err_msg=name)


def test_a_bias_is_added_to_both_bands_of_every_row(calibration_rows):
    for dist, y in (calibration_rows, FAMILIES["skewed"]):
        recalibrator = OperatingPointRecalibrator(miss_rate=0.05, vary="bias").fit(dist, y)
        b = recalibrator.operating_point_.parameter
        assert b > 0
        expected = dist.interval(0.95) + np.array([-b, b])
        assert_allclose(recalibrator.transform(dist).interval(0.95), expected, rtol=1e-9)
        if isinstance(dist, Normal):
            assert_allclose(recalibrator.predict(dist), dist.mean(), rtol=1e-12)


@pytest.mark.parametrize("family", ["normal", "members"])
def test_bands_end_at_zero(family):
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=200), np.repeat([0.2, 2.0], 100)
    dist = Normal(loc, scale)
    if family == "members":
        dist = Empirical(loc[:, np.newaxis] + scale[:, np.newaxis] * rng.normal(size=(200, 25)))
    mean = dist.mean()
    y = mean + np.repeat([0.0, 1.0], 100) * np.linspace(-1, 1, 200)
    recalibrator = OperatingPointRecalibrator(miss_rate=0.05, vary="bias", coverage=0.9).fit(dist, y)
    recalibrated = recalibrator.transform(dist)
    assert recalibrator.operating_point_.parameter < -0.8
    assert_array_equal(recalibrated[:100].std(), 0.0)
    assert_allclose(recalibrated[:100].mean(), mean[:100])
    bands = np.abs(dist.interval(0.9) - mean[:, np.newaxis]) + recalibrator.operating_point_.parameter
    expected = mean[:, np.newaxis] + np.maximum(bands, 0) * [-1, 1]
    assert_allclose(recalibrated.interval(0.9), expected, rtol=1e-9)
    rows = [150, 3, 199, 0]
    assert_allclose(recalibrator.transform(dist[rows]).interval(0.9), expected[rows], rtol=1e-9)


@few_rows
def test_a_point_mass_widened_by_a_bias_is_a_gaussian():
    dist = Normal([0.0, 0.0, 1.0], [1.0, 1.0, 0.0])
    recalibrator = OperatingPointRecalibrator(miss_rate=0.1, vary="bias").fit(dist, [0.5, -2.5, 1.2])
    b = recalibrator.operating_point_.parameter
    assert b == pytest.approx(2.5 - stats.norm.ppf(0.95))
    recalibrated = recalibrator.transform(dist)
    assert_allclose(recalibrated.interval(0.9)[2], [1.0 - b, 1.0 + b])
    assert isinstance(recalibrated, Normal)
    members = Empirical([[1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
    both = recalibrator.transform(members)
    assert_allclose(both.interval(0.9), [[1.0 - b, 1.0 + b], [-b, 2.0 + b]])
    assert_allclose(both[[1, 0]].interval(0.9)[1], [1.0 - b, 1.0 + b])


def test_the_row_that_is_just_reached_is_not_lost_to_rounding():
    for offset, vary, seed in product((0.0, 1e3, 1e6), ("scale", "bias"), range(30)):
        rng = np.random.default_rng(seed)
        dist, y = Normal(offset + rng.normal(size=20), 0.3 + rng.random(20)), offset + rng.normal(size=20)
        recalibrator = OperatingPointRecalibrator(miss_rate=0.1, vary=vary).fit(dist, y)
        assert interval_miss_rate(y, recalibrator.transform(dist), coverage=0.9) == pytest.approx(0.1)


@few_rows
def test_new_rows_need_not_hold_their_mean_when_scaled():
    fitted = OperatingPointRecalibrator(miss_rate=0.5).fit(Normal([0.0, 0.0], 1.0), [0.5, 2.0])
    skewed = ScipyDistribution(stats.lognorm(s=[2.0]))
    scaled = fitted.transform(skewed)
    factor = fitted.operating_point_.parameter
    assert_allclose(scaled.std(), factor * skewed.std(), rtol=1e-6)
    with pytest.raises(ValueError, match=r"`coverage` is too small: at .* does not contain the mean"):
        OperatingPointRecalibrator(miss_rate=0.5).fit(skewed, [1.0])


def test_bad_options(subtests):
    for options, error, match in (
        (
            {},
            ValueError,
            "exactly one of .* must be given, got miss_rate=None and cost=None",
        ),
        ({"miss_rate": 0.1, "cost": 0.1}, ValueError, "exactly one of"),
        ({"miss_rate": 5}, ValueError, r"`miss_rate` must lie strictly .* 0 and 1, got 5. Did you mean 0.05"),
        ({"miss_rate": 0.0}, ValueError, "strictly"),
        ({"miss_rate": 1.0}, ValueError, "strictly"),
        ({"miss_rate": [0.1, 0.2]}, ValueError, "`miss_rate` must be one number"),
        ({"miss_rate": "few"}, TypeError, "real numbers"),
        ({"cost": 1.5}, ValueError, r"`cost` must be a number in \[0, 1\] or a pair of costs"),
        ({"cost": (1.0, 2.0, 3.0)}, ValueError, "`cost` must have 2 rows"),
        ({"cost": (1.0, -2.0)}, ValueError, "non-negative"),
        ({"cost": "high"}, TypeError, "`cost` must be a number"),
        ({"cost": 0.1, "coverage": 90}, ValueError, "`coverage`"),
        ({"miss_rate": 0.1, "vary": "shift"}, ValueError, "`vary` must be one of 'scale', 'bias'"),
        ({"cost": 0.1, "x_axis": "miss_rate"}, ValueError, "`x_axis` must be one of 'bandwidth', 'excess'"),
        ({"cost": 0.1, "y_axis": "excess"}, ValueError, "`y_axis` must be one of 'miss_rate', 'deficit'"),
    ):
        with subtests.test(msg=str(options)), pytest.raises(error, match=match):
            OperatingPointRecalibrator(**options).fit(Normal([0.0, 0.0], [1.0, 2.0]), [1.0, 2.0])


@few_rows
def test_what_cannot_be_reached_or_has_no_width_is_refused():
    rows, y = Normal([0.0, 0.0], [1.0, 2.0]), [1.0, 2.0]
    recalibrator = OperatingPointRecalibrator(cost=(1.0, 1e-6))
    with pytest.raises(
        ValueError, match=r"the cost is lowest for intervals of width 0\. Decrease the cost of width"
    ):
        recalibrator.fit(rows, y)
    for method in ("transform", "predict"):
        with pytest.raises(NotFittedError):
            getattr(recalibrator, method)(rows)
    with pytest.raises(ValueError, match="the cost is lowest"):
        OperatingPointRecalibrator(cost=(1.0, 1e-6), vary="bias").fit(rows, y)
    with pytest.raises(ValueError, match=r"width 0 have a miss rate of 0, .*\. Fit on held-out"):
        OperatingPointRecalibrator(miss_rate=0.1).fit(rows, [0.0, 0.0])
    dist = Normal([0.0, 0.0, 1.0], [1.0, 1.0, 0.0])
    with pytest.raises(ValueError, match=r"at least 0\.333, got 0\.1.* Use vary='bias'"):
        OperatingPointRecalibrator(miss_rate=0.1).fit(dist, [0.5, -0.5, 1.2])
    reached = OperatingPointRecalibrator(miss_rate=0.4).fit(dist, [0.5, -0.5, 1.2])
    assert reached.operating_point_.miss_rate < 0.4
    # constant targets give a number of cost no unit
    rows, y = Normal([0.0, 0.5, 1.5], [1.0, 2.0, 1.0]), [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="`y` must vary if `cost` is a number"):
        OperatingPointRecalibrator(cost=0.1).fit(rows, y)
    assert OperatingPointRecalibrator(cost=(0.1, 1.0)).fit(rows, y).operating_point_.bandwidth > 0
    assert OperatingPointRecalibrator(miss_rate=0.1).fit(rows, y).operating_point_.bandwidth > 0


def test_a_distribution_without_a_mean_or_finite_interval_is_refused():
    recalibrator = OperatingPointRecalibrator(miss_rate=0.1)
    with pytest.raises(ValueError, match="has a mean only for `df` above 1"):
        recalibrator.fit(StudentT([0.0], [1.0], 1.0), [1.0])
    few = ConformalPredictive([0.0], [1.0], [0.5, 1.0, 2.0], symmetric=True)
    with (
        pytest.warns(SmallSampleWarning),
        pytest.raises(ValueError, match=r"finite intervals with coverage 0\.9, got the mean 0 and"),
    ):
        recalibrator.fit(few, [1.0])


def test_certain_predictions_that_are_exact_but_for_rounding_count_as_met():
    loc = np.linspace(1.0, 2.0, 20)
    scale = np.where(np.arange(20) < 5, 0.0, 1.0)
    y = np.where(scale == 0, loc * (1 + 2.0**-50), loc + 2 * np.sin(np.arange(20)))
    fitted = OperatingPointRecalibrator(miss_rate=0.1).fit(Normal(loc, scale), y)
    assert fitted.operating_point_.miss_rate <= 0.1
    with pytest.raises(ValueError, match=r"`miss_rate` must be at least .*In this share of the rows"):
        OperatingPointRecalibrator(miss_rate=0.1).fit(Normal(loc, scale), y + np.where(scale == 0, 1e-3, 0))
