"""One point of the uncertainty characteristics curve, as a recalibrator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.exceptions import NotFittedError

from skuq.distributions import (
    Concatenated,
    ConformalPredictive,
    Empirical,
    LevelMap,
    Mixture,
    Normal,
    Quantiles,
    Recalibrated,
    ScipyDistribution,
    StudentT,
    Transformed,
    affine,
)
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import (
    CostOptimum,
    OperatingPoint,
    interval_deficit,
    interval_excess,
    interval_miss_rate,
    interval_score_loss,
    mean_interval_half_width,
    uncertainty_characteristics_curve,
)
from skuq.recalibration import OperatingPointRecalibrator, StdScalingRecalibrator
from tests.few_rows import few_rows

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


def families():
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=N), 0.3 + rng.random(N)
    y = rng.normal(loc, 1.6 * scale)
    normal, levels = Normal(loc, scale), np.linspace(0.05, 0.95, 19)
    return {
        "Normal": (normal, y),
        "StudentT of infinite variance": (StudentT(loc, scale, 1.5), y),
        "Empirical": (Empirical(normal.sample(30, random_state=0)), y),
        "Quantiles": (Quantiles(levels, normal.quantile(levels)), y),
        "skewed": (ScipyDistribution(stats.gamma(a=2.0, loc=loc - 2 * scale, scale=scale)), y),
        "Transformed": (Transformed(normal, np.exp, np.log), np.exp(y)),
        "Mixture": (Mixture([normal, StudentT(loc + 0.5, scale, 4.0)]), y),
        "Recalibrated": (Recalibrated(normal, LevelMap([0.3, 0.8], [0.2, 0.9])), y),
        "with point masses": (Normal(loc, np.where(np.arange(N) % 20, scale, 0.0)), y),
        "Concatenated": (Concatenated([normal, StudentT(loc, scale, 3.0)], np.arange(N) * 2), y),
    }


FAMILIES = families()


@every_setting
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_intervals_are_those_of_the_point(family, setting, weighted):
    """Width, miss rate, excess and deficit, computed by the metrics, are those of the curve's point."""
    dist, y = FAMILIES[family]
    weight = np.random.default_rng(1).integers(1, 4, size=N) if weighted else None
    recalibrator = OperatingPointRecalibrator(**setting)
    if family == "with point masses" and setting == SETTINGS[1]:
        with pytest.raises(ValueError, match="the interval does not extend from the mean toward `y`"):
            recalibrator.fit(dist, y)
        return
    recalibrator.fit(dist, y, sample_weight=weight)
    point, recalibrated = recalibrator.operating_point_, recalibrator.transform(dist)
    options = {"coverage": recalibrator.coverage_, "sample_weight": weight}
    assert mean_interval_half_width(y, recalibrated, **options) == pytest.approx(point.bandwidth, rel=1e-9)
    assert interval_miss_rate(y, recalibrated, **options) == pytest.approx(point.miss_rate, abs=1e-12)
    assert interval_excess(y, recalibrated, **options) == pytest.approx(point.excess, rel=1e-8, abs=1e-12)
    assert interval_deficit(y, recalibrated, **options) == pytest.approx(point.deficit, rel=1e-8, abs=1e-12)


@every_setting
def test_the_point_is_the_curves(setting, calibration_rows):
    dist, y = calibration_rows
    recalibrator = OperatingPointRecalibrator(**setting).fit(dist, y)
    curve = uncertainty_characteristics_curve(
        y, dist, bands=recalibrator.coverage_, point=dist.mean(), vary=setting.get("vary", "scale")
    )
    if "miss_rate" in setting:
        expected = curve.operating_point(miss_rate=setting["miss_rate"])
        assert recalibrator.optimum_ is None
    else:
        cost, misses = setting["cost"], setting.get("y_axis", "miss_rate")
        if not isinstance(cost, tuple):
            cost = cost / np.std(y), 1 - cost
        optimum = curve.optimum(cost, x_axis=setting.get("x_axis", "bandwidth"), y_axis=misses)
        assert isinstance(recalibrator.optimum_, CostOptimum)
        assert recalibrator.optimum_.cost == pytest.approx(optimum.cost, rel=1e-12)
        assert recalibrator.optimum_.original_cost == pytest.approx(optimum.original_cost, rel=1e-12)
        expected = optimum.point
    assert isinstance(recalibrator.operating_point_, OperatingPoint)
    assert recalibrator.operating_point_.parameter == pytest.approx(expected.parameter, rel=1e-12)
    assert recalibrator.operating_point_.bandwidth == pytest.approx(expected.bandwidth, rel=1e-12)


def test_bands_of_standard_deviations_are_the_same_bands(calibration_rows):
    """For symmetric families the curve of standard deviations (Navratil et al. 2023) has these intervals."""
    dist, y = calibration_rows
    point = uncertainty_characteristics_curve(y, dist).operating_point(miss_rate=0.05)
    recalibrated = OperatingPointRecalibrator(miss_rate=0.05).fit(dist, y).transform(dist)
    expected = dist.mean()[:, np.newaxis] + point.parameter * dist.std()[:, np.newaxis] * [-1, 1]
    assert_allclose(recalibrated.interval(0.95), expected, rtol=1e-10)


def test_the_coverage_is_one_less_the_miss_rate_unless_given():
    dist, y = FAMILIES["Normal"]
    assert OperatingPointRecalibrator(miss_rate=0.05).fit(dist, y).coverage_ == 0.95
    assert OperatingPointRecalibrator(miss_rate=0.05, coverage=0.8).fit(dist, y).coverage_ == 0.8
    assert OperatingPointRecalibrator(cost=0.3).fit(dist, y).coverage_ == 0.9


def test_a_miss_rate_is_the_coverage_objective_of_std_scaling(calibration_rows):
    dist, y = calibration_rows
    factor = StdScalingRecalibrator(objective="coverage", coverage=0.8).fit(dist, y).factor_
    point = OperatingPointRecalibrator(miss_rate=0.2).fit(dist, y).operating_point_
    assert factor == pytest.approx(point.parameter, rel=1e-10)


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.98])
def test_the_cost_of_the_interval_score_minimises_it(coverage, calibration_rows):
    dist, y = calibration_rows
    alpha = 1 - coverage
    recalibrator = OperatingPointRecalibrator(
        cost=alpha / (1 + alpha), y_axis="deficit", coverage=coverage
    ).fit(dist, y)

    def score(r):
        return interval_score_loss(y, affine(dist, dist.mean() * (1 - r), r), coverage=coverage)

    best = interval_score_loss(y, recalibrator.transform(dist), coverage=coverage)
    factor = recalibrator.operating_point_.parameter
    assert best == pytest.approx(score(factor), rel=1e-9)
    assert all(best < score(other * factor) for other in (0.5, 0.9, 0.97, 1.03, 1.1, 2.0))


def test_a_number_of_cost_does_not_depend_on_units():
    dist, y = FAMILIES["skewed"]
    for misses in ("miss_rate", "deficit"):
        recalibrator = OperatingPointRecalibrator(cost=0.1, y_axis=misses)
        factor = recalibrator.fit(dist, y).operating_point_.parameter
        scaled = recalibrator.fit(affine(dist, 7.0, 1e4), 7.0 + 1e4 * y).operating_point_.parameter
        assert scaled == pytest.approx(factor, rel=1e-9)
    pair = OperatingPointRecalibrator(cost=(0.1, 0.9))
    factors = [pair.fit(affine(dist, 0.0, c), c * y).operating_point_.parameter for c in (1.0, 10.0)]
    assert factors[1] < factors[0]  # ten times the width at the same price a unit


def test_dearer_misses_widen_the_intervals(calibration_rows):
    dist, y = calibration_rows
    widths = [
        OperatingPointRecalibrator(cost=(1.0, price)).fit(dist, y).operating_point_.bandwidth
        for price in (3.0, 10.0, 30.0, 100.0)
    ]
    assert (np.diff(widths) > 0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_scaling_leaves_the_mean_alone(family):
    dist, y = FAMILIES[family]
    recalibrator = OperatingPointRecalibrator(miss_rate=0.1).fit(dist, y)
    assert_array_equal(recalibrator.predict(dist), dist.mean())
    assert_allclose(recalibrator.transform(dist).mean(), dist.mean(), rtol=1e-9, atol=1e-9)


def test_a_bias_is_added_to_both_bands_of_every_row(calibration_rows):
    dist, y = calibration_rows
    recalibrator = OperatingPointRecalibrator(miss_rate=0.05, vary="bias").fit(dist, y)
    b = recalibrator.operating_point_.parameter
    assert b > 0
    assert_allclose(
        recalibrator.transform(dist).interval(0.95), dist.interval(0.95) + np.array([-b, b]), rtol=1e-9
    )
    assert_allclose(recalibrator.predict(dist), dist.mean(), rtol=1e-12)
    skewed, y = FAMILIES["skewed"]
    recalibrator.fit(skewed, y)
    b = recalibrator.operating_point_.parameter
    expected = skewed.interval(0.95) + np.array([-b, b])
    assert_allclose(recalibrator.transform(skewed).interval(0.95), expected, rtol=1e-9)


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


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("vary", ["scale", "bias"])
def test_the_row_that_is_just_reached_is_not_lost_to_rounding(offset, vary):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        dist, y = Normal(offset + rng.normal(size=20), 0.3 + rng.random(20)), offset + rng.normal(size=20)
        recalibrator = OperatingPointRecalibrator(miss_rate=0.1, vary=vary).fit(dist, y)
        assert interval_miss_rate(y, recalibrator.transform(dist), coverage=0.9) == pytest.approx(0.1)


def test_on_new_rows_the_miss_rate_is_a_little_higher():
    """Of n rows k are held, so that a new one is with probability k / (n + 1)."""
    missed = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=20)
        recalibrator = OperatingPointRecalibrator(miss_rate=0.1).fit(Normal(np.zeros(20), np.ones(20)), y)
        missed.append(2 * stats.norm.sf(recalibrator.transform([[0.0, 1.0]]).interval(0.9)[0, 1]))
    # 18 of 20 are held: 1 - 18 / 21 = .143; the standard error over 300 runs is .0045
    assert np.mean(missed) == pytest.approx(1 - 18 / 21, abs=0.015)


def test_a_frozen_choice_serves_new_rows(calibration_rows):
    dist, y = calibration_rows
    recalibrator = OperatingPointRecalibrator(miss_rate=0.2).fit(dist[:400], y[:400])
    assert interval_miss_rate(y[400:], recalibrator.transform(dist[400:]), coverage=0.8) == pytest.approx(
        0.2, abs=0.06
    )


@few_rows
def test_new_rows_need_not_hold_their_mean_when_scaled():
    fitted = OperatingPointRecalibrator(miss_rate=0.5).fit([[0.0, 1.0], [0.0, 1.0]], [0.5, 2.0])
    skewed = ScipyDistribution(stats.lognorm(s=[2.0]))
    scaled = fitted.transform(skewed)
    factor = fitted.operating_point_.parameter
    assert_allclose(scaled.std(), factor * skewed.std(), rtol=1e-6)
    with pytest.raises(ValueError, match=r"`coverage` is too small: at .* does not contain the mean"):
        OperatingPointRecalibrator(miss_rate=0.5).fit(skewed, [1.0])


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        (
            {},
            ValueError,
            "exactly one of `miss_rate` and `cost` must be given, got miss_rate=None and cost=None",
        ),
        ({"miss_rate": 0.1, "cost": 0.1}, ValueError, "exactly one of"),
        (
            {"miss_rate": 5},
            ValueError,
            r"`miss_rate` must lie strictly between 0 and 1, got 5. Did you mean 0.05",
        ),
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
    ],
)
def test_bad_options(options, error, match):
    with pytest.raises(error, match=match):
        OperatingPointRecalibrator(**options).fit([[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0])


def test_a_width_of_nothing_is_refused():
    rows, y = [[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0]
    with pytest.raises(ValueError, match=r"the cost is lowest, 1e-06, .*\. Decrease the cost of width"):
        OperatingPointRecalibrator(cost=(1.0, 1e-6)).fit(rows, y)
    with pytest.raises(ValueError, match="the cost is lowest"):
        OperatingPointRecalibrator(cost=(1.0, 1e-6), vary="bias").fit(rows, y)
    with pytest.raises(ValueError, match=r"width 0 have a miss rate of 0, .*\. Fit on held-out"):
        OperatingPointRecalibrator(miss_rate=0.1).fit(rows, [0.0, 0.0])


def test_a_failed_fit_does_not_pass_for_a_fitted_one():
    recalibrator = OperatingPointRecalibrator(cost=(1.0, 1e-6))
    with pytest.raises(ValueError, match="the cost is lowest"):
        recalibrator.fit([[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0])
    for method in ("transform", "predict"):
        with pytest.raises(NotFittedError):
            getattr(recalibrator, method)([[0.0, 1.0]])


@few_rows
def test_constant_targets_give_a_number_of_cost_no_unit():
    rows = [[0.0, 1.0], [0.5, 2.0], [1.5, 1.0]]
    with pytest.raises(ValueError, match="`y` must vary if `cost` is a number"):
        OperatingPointRecalibrator(cost=0.1).fit(rows, [1.0, 1.0, 1.0])
    assert OperatingPointRecalibrator(cost=(0.1, 1.0)).fit(rows, [1.0, 1.0, 1.0]).optimum_.cost > 0
    assert OperatingPointRecalibrator(miss_rate=0.1).fit(rows, [1.0, 1.0, 1.0]).operating_point_.bandwidth > 0


@few_rows
def test_a_miss_rate_out_of_reach_is_refused():
    dist = Normal([0.0, 0.0, 1.0], [1.0, 1.0, 0.0])
    with pytest.raises(ValueError, match=r"at least 0\.333, got 0\.1.* Use vary='bias'"):
        OperatingPointRecalibrator(miss_rate=0.1).fit(dist, [0.5, -0.5, 1.2])
    assert (
        OperatingPointRecalibrator(miss_rate=0.4).fit(dist, [0.5, -0.5, 1.2]).operating_point_.miss_rate < 0.4
    )


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


def test_weights_may_be_relative():
    dist, y = FAMILIES["Normal"]
    weight = np.random.default_rng(0).random(N)
    recalibrator = OperatingPointRecalibrator(miss_rate=0.1)
    first = recalibrator.fit(dist, y, sample_weight=weight).operating_point_.parameter
    assert recalibrator.fit(dist, y, sample_weight=1e3 * weight).operating_point_.parameter == first


def test_certain_predictions_that_are_exact_but_for_rounding_count_as_met():
    loc = np.linspace(1.0, 2.0, 20)
    scale = np.where(np.arange(20) < 5, 0.0, 1.0)
    y = np.where(scale == 0, loc * (1 + 2.0**-50), loc + 2 * np.sin(np.arange(20)))
    fitted = OperatingPointRecalibrator(miss_rate=0.1).fit(Normal(loc, scale), y)
    assert fitted.operating_point_.miss_rate <= 0.1
    with pytest.raises(ValueError, match=r"`miss_rate` must be at least .*In this share of the rows"):
        OperatingPointRecalibrator(miss_rate=0.1).fit(Normal(loc, scale), y + np.where(scale == 0, 1e-3, 0))
