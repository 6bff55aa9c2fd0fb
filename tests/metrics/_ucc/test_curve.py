"""The uncertainty characteristics curve: its definition, the paper's identities, UQ360's values, the gain."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from skuq.distributions import Empirical, Normal, StudentT
from skuq.metrics import (
    auucc_gain_score,
    auucc_loss,
    compare_characteristics_curves,
    crps_loss,
    interval_score_loss,
    uncertainty_characteristics_curve,
)
from skuq.metrics._ucc_kernels import scale_path

AXES = ("bandwidth", "miss_rate", "excess", "deficit")
PAIRS = [(x, y) for x in ("bandwidth", "excess") for y in ("miss_rate", "deficit")]


def definition(error, lower, upper, side="nearest", weight=None):
    """Bandwidth, miss rate, excess and deficit of bands as they are: eq. 1, 2, 6 and 7, row by row."""
    inside = (-lower <= error) & (error <= upper)
    below, above = error + lower, upper - error
    reach = np.minimum(below, above) if side == "nearest" else np.where(error >= 0, above, below)
    excess = np.where(inside, reach, 0)
    deficit = np.where(inside, 0, np.minimum(np.abs(below), np.abs(above)))
    columns = ((lower + upper) / 2, 1.0 - inside, excess, deficit)
    return np.array([np.average(column, weights=weight) for column in columns])


def moved(lower, upper, parameter, vary):
    if vary == "scale":
        return parameter * lower, parameter * upper
    return np.maximum(lower + parameter, 0), np.maximum(upper + parameter, 0)


@pytest.fixture(params=["symmetric", "asymmetric", "tied", "one-sided"])
def bands(request):
    rng = np.random.default_rng(3)
    error, lower = rng.normal(size=60), rng.random(60) + 0.1
    if request.param == "symmetric":
        return error, lower, lower
    upper = rng.random(60) + 0.1
    if request.param == "tied":
        error, lower, upper = (
            np.round(error * 2) / 2,
            np.round(lower * 2) / 2 + 0.5,
            np.round(upper * 2) / 2 + 1,
        )
    if request.param == "one-sided":
        lower = np.where(rng.random(60) < 0.2, 0.0, lower)
    return error, lower, upper


def curve_of(error, lower, upper, weight=None, **options):
    """The curve through the public function, which takes bounds."""
    bounds = np.column_stack([10 - lower, 10 + upper])
    return uncertainty_characteristics_curve(
        10 + error, bounds, point=np.full(error.size, 10.0), sample_weight=weight, **options
    )


@pytest.mark.parametrize("vary", ["scale", "bias"])
@pytest.mark.parametrize("side", ["nearest", "active"])
def test_every_point_is_as_defined(bands, vary, side):
    curve, (error, lower, upper) = curve_of(*bands, vary=vary, side=side), bands
    assert np.all(np.diff(curve.parameter) > 0)
    middles = (curve.parameter[1:] + curve.parameter[:-1]) / 2
    beyond = curve.parameter[-1] + np.array([0.3, 5.0])
    for parameter in np.concatenate([middles, beyond]):
        point = curve.at(parameter)
        expected = definition(error, *moved(lower, upper, parameter, vary), side)
        got = [getattr(point, axis) for axis in AXES]
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    # Corners include the target that is just reached.
    at, slightly = (
        np.transpose([definition(error, *moved(lower, upper, t + more, vary), side) for t in curve.parameter])
        for more in (0.0, 1e-9)
    )
    for axis in ("bandwidth", "excess", "deficit"):
        if axis != "excess" or side == "nearest":
            np.testing.assert_allclose(getattr(curve, axis), at[AXES.index(axis)], atol=1e-12)
    np.testing.assert_allclose(curve.miss_rate, slightly[1], atol=1e-12)


def test_the_curve_begins_without_bands_and_ends_without_misses():
    rng = np.random.default_rng(0)
    error, lower, upper = rng.normal(size=40), rng.random(40) + 0.1, rng.random(40) + 0.1
    for vary in ("scale", "bias"):
        curve = curve_of(error, lower, upper, vary=vary)
        assert curve.bandwidth[0] == curve.excess[0] == curve.miss_rate[-1] == 0
        assert curve.miss_rate[0] == 1
        assert curve.deficit[0] == pytest.approx(np.abs(error).mean())
        assert curve.deficit[-1] == pytest.approx(0, abs=1e-15)
        for axis, sign in zip(AXES, (1, -1, 1, -1), strict=True):
            assert np.all(sign * np.diff(getattr(curve, axis)) >= -1e-15)
    for width in (0.1, 7.0):
        curve = curve_of(error, np.full(40, width), np.full(40, width))
        assert curve.area() == pytest.approx(np.abs(error).mean(), rel=1e-12)


@pytest.mark.parametrize("vary", ["scale", "bias"])
def test_weights_equal_repetition(bands, vary):
    weight = np.random.default_rng(0).integers(0, 4, size=60)
    rows = np.repeat(np.arange(60), weight)
    weighted = curve_of(*bands, weight=weight, vary=vary)
    repeated = curve_of(*(column[rows] for column in bands), vary=vary)
    for axis in ("parameter", *AXES):
        np.testing.assert_allclose(getattr(weighted, axis), getattr(repeated, axis), rtol=1e-10, atol=1e-12)
    for x, y in PAIRS:
        areas = [each.area(x_axis=x, y_axis=y) for each in (weighted, repeated)]
        assert areas[0] == pytest.approx(areas[1], rel=1e-10)
    assert weighted.target_std == pytest.approx(repeated.target_std)


def test_ties_are_one_corner_with_all_of_them_inside():
    curve = uncertainty_characteristics_curve(
        [1.0, -1.0, 2.0, 4.0], Normal(np.zeros(4), [1.0, 1.0, 2.0, 1.0])
    )
    np.testing.assert_array_equal(curve.parameter, [0, 1, 4])
    np.testing.assert_array_equal(curve.miss_rate, [1, 0.25, 0])
    # Targets on the prediction are inside from the start.
    curve = uncertainty_characteristics_curve([0.0, 0.0, 3.0], Normal(np.zeros(3), [0.0, 1.0, 1.0]))
    np.testing.assert_allclose(curve.miss_rate, [1 / 3, 0])
    only = uncertainty_characteristics_curve([0.0, 0.0], Normal(np.zeros(2), np.ones(2)))
    assert len(only) == 1
    assert only.area() == 0


def test_bands_of_zero_are_never_reached():
    y, dist, curve_at = (
        [1.0, 1.0, 2.0],
        Normal(np.zeros(3), [0.0, 1.0, 1.0]),
        uncertainty_characteristics_curve,
    )
    curve = curve_at(y, dist)
    np.testing.assert_allclose(curve.miss_rate, [1, 2 / 3, 1 / 3])
    assert curve.at(100.0).deficit == curve.deficit[-1] == pytest.approx(1 / 3)
    for options in ({}, {"y_range": (0, 0.2)}, {"x_axis": "excess", "y_axis": "deficit"}):
        assert curve.area(**options) == np.inf
    assert curve.area(y_range=(0.5, 1)) == pytest.approx(2 / 3 * 1 + 2 / 3 * 2 / 3)
    with pytest.raises(ValueError, match=r"`miss_rate` must be at least 0\.333333, got 0\.1"):
        curve.operating_point(miss_rate=0.1)
    ones, zeros = Normal(np.zeros(3), 1.0), Normal(np.zeros(3), 0.0)
    assert curve_at(y, dist, zero_band="min").area() == curve_at(y, ones).area()
    assert curve_at(y, dist, vary="bias").miss_rate[-1] == 0
    assert curve_at(y, zeros).area() == np.inf
    with pytest.raises(ValueError, match="`zero_band` must be 'keep' if no band is positive"):
        curve_at(y, zeros, zero_band="min")


def test_the_last_target_is_not_missed_by_rounding():
    """UQ360 compares |e| with (|e| / z) z, which rounding makes smaller for some rows."""
    rng = np.random.default_rng(0)
    error, band = np.abs(rng.normal(size=2000)), rng.random(2000) + 0.1
    k = np.sort(error / band)
    naive = np.array([np.mean(error > each * band) for each in k])
    path = scale_path(error, band, band, np.ones(error.size), "nearest")
    exact = 1 - np.arange(1, 2001) / 2000
    assert np.any(naive > exact + 1e-9)
    np.testing.assert_allclose(path.miss_rate[1:], exact, atol=1e-15)


def test_area_is_the_mean_bandwidth_at_the_critical_scales(bands):
    """Proposition 1; corollary 1 is the same for excess."""
    active = np.where(bands[0] >= 0, bands[2], bands[1])
    error, lower, upper, active = (column[active > 0] for column in (*bands, active))
    curve = curve_of(error, lower, upper)
    points = [curve.at(k) for k in np.abs(error) / active]
    assert curve.area() == pytest.approx(np.mean([point.bandwidth for point in points]), rel=1e-12)
    assert curve.area(x_axis="excess") == pytest.approx(np.mean([point.excess for point in points]), rel=1e-9)


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_remark_3_corrected_the_interval_score(coverage):
    """IS = 2 (1 + alpha) / alpha C on bandwidth and deficit with c = alpha / (1 + alpha)."""
    rng = np.random.default_rng(0)
    error, lower, upper = rng.normal(size=80), rng.random(80), rng.random(80)
    curve, alpha = curve_of(error, lower, upper), 1 - coverage
    c = alpha / (1 + alpha)
    for k in (0.4, 1.0, 2.5):
        point = curve.at(k)
        cost = c * point.bandwidth + (1 - c) * point.deficit
        score = interval_score_loss(error, np.column_stack([-k * lower, k * upper]), coverage=coverage)
        assert 2 * (1 + alpha) / alpha * cost == pytest.approx(score, rel=1e-9)
        printed = (point.bandwidth + alpha * point.miss_rate) / alpha  # as printed: (alpha + 1) / alpha C
        assert printed != pytest.approx(score, rel=1e-3)


# ---------------------------------------------------------------------------------- areas


def dense_area(curve, x, y, keep, unit=1.0):
    """Integrate y over x where keep(x, y), on a fine grid between corners, values at the left end."""
    total = 0.0
    for left, right in zip(curve.parameter[:-1], curve.parameter[1:], strict=True):
        t = np.linspace(left, right, 400)
        points = [curve.at(each) for each in (left, right)]
        xs = np.interp(t, [left, right], [getattr(point, x) for point in points]) / unit
        if y == "miss_rate":
            ys = np.full(t.size, points[0].miss_rate)
        else:
            ys = np.interp(t, [left, right], [point.deficit for point in points]) / unit
        middle_x, middle_y = (xs[1:] + xs[:-1]) / 2, (ys[1:] + ys[:-1]) / 2
        total += np.sum(np.diff(xs) * middle_y * keep(middle_x, middle_y))
    return total


@pytest.mark.parametrize(("x", "y"), PAIRS)
@pytest.mark.parametrize("vary", ["scale", "bias"])
def test_areas_are_integrals_cut_exactly(x, y, vary):
    rng = np.random.default_rng(1)
    curve = curve_of(rng.normal(size=25), rng.random(25) + 0.2, rng.random(25) + 0.2, vary=vary)
    axes = {"x_axis": x, "y_axis": y}
    assert curve.area(**axes) == pytest.approx(dense_area(curve, x, y, lambda u, v: 1), rel=1e-9)
    for low, high in ((0.0, 0.23), (0.23, 0.61), (0.5, 5.0)) if vary == "scale" else ():
        across = dense_area(curve, x, y, lambda u, v, low=low, high=high: (u >= low) & (u <= high))
        area = curve.area(**axes, x_range=(low, high))
        assert area == pytest.approx(across, abs=2e-3)
        along = dense_area(curve, x, y, lambda u, v, low=low, high=high: (v >= low) & (v <= high))
        part = curve.area(**axes, y_range=(low, high))
        assert part == pytest.approx(along, abs=2e-3)
        per = curve.area(**axes, y_range=(low, high), per_range=True)
        assert per == pytest.approx(part / (high - low))
        scaled = curve.area(**axes, x_range=(low / 2, high / 2), normalize=2.0)
        assert scaled == pytest.approx(area / (4 if y == "deficit" else 2))
    for rule, limit in product(("exact", "rectangle", "trapezoid"), (0.1, 0.37, 1.1)):
        whole, ranges = curve.area(**axes, rule=rule), ((0, limit), (limit, np.inf))
        by_x = [curve.area(**axes, rule=rule, x_range=each) for each in ranges]
        by_y = [curve.area(**axes, rule=rule, y_range=each) for each in ranges]
        assert sum(by_x) == pytest.approx(whole, rel=1e-12)
        assert sum(by_y) == pytest.approx(whole, rel=1e-12)


def stairs(n, low, high):
    """Area of targets 1, ..., n with bands of 1 and low <= miss rate <= high, in exact arithmetic."""
    return float(sum(rate for rate in (Fraction(i, n) for i in range(1, n + 1)) if low <= rate <= high))


@pytest.mark.parametrize("n", [7, 20, 150, 1000])
@pytest.mark.parametrize(("weight", "unit"), [(None, 0.01), (0.1, 1.0), (7.0, 0.01)])
def test_a_miss_rate_that_equals_a_limit_is_inside(n, weight, unit):
    """Rounding puts 1 - 19 / 20 above 0.05, and a sum of weights on either side."""
    y = unit * np.arange(1.0, n + 1)
    weights = None if weight is None else np.full(n, weight)
    curve = uncertainty_characteristics_curve(y, Normal(0 * y, 0 * y + unit), sample_weight=weights)
    for i in range(1, 100):
        low, high = Fraction(i - 1, 100), Fraction(i, 100)
        assert curve.area(y_range=(0, i / 100)) == pytest.approx(unit * stairs(n, 0, high), abs=1e-9 * n)
        part = curve.area(y_range=(float(low), float(high)))
        assert part == pytest.approx(unit * stairs(n, low, high), abs=1e-9 * n)


@pytest.mark.parametrize("vary", ["scale", "bias"])
@pytest.mark.parametrize("side", ["nearest", "active"])
@pytest.mark.parametrize("unit", [0.1, 1 / 3, 7.0, 1e-3])
def test_areas_do_not_depend_on_the_units_of_y(vary, side, unit):
    """Integers tie exactly; in other units rounding would make several corners of one."""
    rng = np.random.default_rng(0)
    y, point, band = rng.integers(-20, 20, 300), rng.integers(-5, 5, 300), rng.integers(1, 12, 300)
    bounds = np.column_stack([point - band, point + 2 * band])
    plain, other = (
        uncertainty_characteristics_curve(u * y, u * bounds, point=u * point, vary=vary, side=side)
        for u in (1.0, unit)
    )
    assert len(plain) == len(other)
    for rule in ("exact", "rectangle", "trapezoid", "uq360"):
        for x_range, y_range in [(None, None), ((1, 3), None), (None, (0, 0.2)), (None, (0.1, 0.5))]:
            scaled = None if x_range is None else tuple(unit * limit for limit in x_range)
            area = other.area(rule=rule, x_range=scaled, y_range=y_range) / unit
            assert area == pytest.approx(plain.area(rule=rule, x_range=x_range, y_range=y_range), rel=1e-9)
        expected, part = (
            curve.area(x_axis="excess", y_axis="deficit", rule=rule, y_range=(0, 1.5 * u))
            for curve, u in ((plain, 1.0), (other, unit))
        )
        assert part / unit**2 == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("unit", [1.0, 0.1, 0.3])
def test_a_deficit_that_equals_a_limit_is_inside(unit):
    """The last row is out of reach and leaves a deficit of its share, below which the area is infinite."""
    y = unit * np.array([0.3, 0.6, 0.9, 3.0])
    curve = uncertainty_characteristics_curve(y, Normal(0 * y, unit * np.array([1.0, 1.0, 1.0, 0.0])))
    left = float(curve.deficit[-1])
    for limit in (0.75 * unit, left, np.nextafter(left, 0), np.nextafter(left, np.inf)):
        assert curve.area(y_axis="deficit", y_range=(limit, unit)) == np.inf
        assert curve.area(y_axis="deficit", y_range=(0, limit)) == np.inf
    assert curve.area(y_axis="deficit", y_range=(0.76 * unit, unit)) < np.inf


def test_rules_differ_by_the_last_bandwidth():
    rng = np.random.default_rng(0)
    n = 50
    curve = curve_of(rng.normal(size=n), *(2 * [rng.random(n) + 0.1]))
    exact, last, first = curve.area(), curve.bandwidth[-1], curve.bandwidth[1]
    for rule, less in (
        ("rectangle", last / n),
        ("trapezoid", last / (2 * n)),
        ("uq360", last / (2 * n) + first * (1 - 1 / (2 * n))),
    ):
        assert curve.area(rule=rule) == pytest.approx(exact - less, rel=1e-12)
    # The rule of UQ360 needs no two points.
    assert auucc_loss([1.0], Normal([0.0], [1.0]), rule="uq360") == 0.0
    assert auucc_loss([1.0, 2.0], Normal([1.0, 2.0], [1.0, 1.0]), rule="uq360") == 0.0
    unreachable = [1.0, 2.0, 3.0], Normal([0.0, 0.0, 0.0], [0.0, 1.0, 2.0])
    assert auucc_loss(*unreachable, rule="uq360") == np.inf


# ---------------------------------------------------------------------------------- UQ360's values


# prediction, band and target of the fifteen rows of UQ360's own test
MOCK = """
 96.98915353045395  1.3642327303743222 99.02260232131948
 96.23007611746924  1.90992286562998   98.61111111111111
 97.59180156001409  1.3376553033984742 98.03439803439804
 98.50349438071208  1.1360514041212681 98.05194805194805
 97.58943114819733  1.0059398687783236 97.47126436781609
 97.90442496968824  0.6562763187757668 97.27272727272727
 97.76155157998329  0.583628028840792  96.75675675675676
 96.83695266121595  0.6876683476085894 96.328125
 96.33141125146022  1.0506101454179664 95.68627450980392
 96.67439930495053  0.795072119831687  95.0
 95.17170073977303  1.3275374841578582 94.48051948051948
 92.64549009869268  2.4458894373634283 94.78260869565217
 94.29582588015835  2.909916525881682  93.75433726578764
 96.04923654039105  2.837773991026335  93.59375
 97.50696433632777  2.550841867998461  76.30066780555987
"""


@pytest.fixture
def mock():
    point, band, y = np.array(MOCK.split(), dtype=float).reshape(15, 3).T
    return y, point, band


def uq360(curve, **options):
    return curve.area(**{"rule": "uq360", "normalize": "std", "x_axis": "excess", **options})


def test_operating_points_of_uq360(mock):
    y, point, band = mock
    curve = uncertainty_characteristics_curve(y, Normal(point, band))
    got = [getattr(curve.at(1.0), axis) for axis in ("miss_rate", "bandwidth", "excess", "deficit")]
    np.testing.assert_allclose(got, [0.333333, 1.506601, 0.451471, 1.406418], rtol=1e-5)
    biased = uncertainty_characteristics_curve(y, Normal(point, band), vary="bias")
    for each, expected, atol in (
        (curve, (8.313450079681967, 0, 12.525053001149491, 10.06350492529685, 0), 1e-14),
        (biased, (18.65545466276944, 0, 20.162055758716438, 17.70050768286379, 0), 1e-13),
    ):
        axes = ("parameter", "miss_rate", "bandwidth", "excess", "deficit")
        np.testing.assert_allclose([getattr(each, a)[-1] for a in axes], expected, rtol=1e-12, atol=atol)
    unit = curve.target_std
    assert unit == pytest.approx(5.2779216043654325, rel=1e-12)
    assert curve.at(1.0).excess / unit == pytest.approx(0.08553963270429753, rel=1e-12)
    assert curve.at(1.0).deficit / unit == pytest.approx(0.26647202456017466, rel=1e-12)
    both = uncertainty_characteristics_curve(y, Normal(point, band + 0.5)).at(2.0)  # scale 2, bias 0.5
    assert both.excess / unit == pytest.approx(0.4847795200753158, rel=1e-12)
    assert both.miss_rate == pytest.approx(0.06666666666666665, rel=1e-12)


def test_areas_of_uq360(mock):
    y, point, band = mock
    scale = uncertainty_characteristics_curve(y, Normal(point, band))
    bias = uncertainty_characteristics_curve(y, Normal(point, band), vary="bias")
    assert uq360(bias) == pytest.approx(0.1818591455455332, rel=1e-10)
    assert uq360(scale, x_axis="bandwidth", y_range=(0, 0.1)) == pytest.approx(0.07003588145613951, rel=1e-10)
    whole = uq360(scale, x_axis="bandwidth")
    assert uq360(scale, x_axis="bandwidth", y_range=(0, 1)) == whole
    assert uq360(scale, x_axis="bandwidth", x_range=(0, 1e6)) == whole
    assert auucc_loss(y, Normal(point, band), x_axis="excess", rule="uq360", normalize="std") == uq360(scale)


def test_areas_of_uq360_with_its_rounding(mock):
    """It tests |e| <= (|e| / z) z row by row, and so misses some rows that are just reached."""
    y, point, band = mock
    curve = uncertainty_characteristics_curve(y, Normal(point, band))
    misses = np.array([np.mean(np.abs(y - point) > k * band) for k in curve.parameter])
    assert np.sum(misses > curve.miss_rate + 1e-9) == 1
    x = curve.excess / curve.target_std
    assert np.trapezoid(misses[1:], x[1:]) == pytest.approx(0.14510967778953665, rel=1e-12)
    assert uq360(curve) < 0.14510967778953665
    x = curve.bandwidth / curve.target_std
    end = np.argmin(np.abs(x - 0.5)) + 1
    assert np.trapezoid(misses[1:end], x[1:end]) == pytest.approx(0.21031874267804815, rel=1e-12)


def test_least_cost_and_gain_of_uq360(mock):
    y, point, band = mock
    biased = uncertainty_characteristics_curve(y, Normal(point, band), vary="bias")

    def cost(point):
        return point.excess + 10 * point.miss_rate

    best = biased.optimum(cost=(1.0, 10.0), x_axis="excess")
    assert cost(best) == pytest.approx(1.7761220370565665, rel=1e-12)
    assert best.parameter == pytest.approx(0.8793271851188393, rel=1e-12)
    scaled = uncertainty_characteristics_curve(y, Normal(point, band))
    assert cost(scaled.optimum(cost=(1.0, 10.0), x_axis="excess")) > cost(best)
    there = uncertainty_characteristics_curve(y, Normal(point, band + best.parameter))
    assert cost(there.at(1.0)) == pytest.approx(cost(best))
    constant = uq360(uncertainty_characteristics_curve(y, Normal(point, band), bands="constant"))
    gain = auucc_gain_score(y, Normal(point, band), x_axis="excess", rule="uq360", denominator="model")
    assert gain == pytest.approx(constant / uq360(scaled) - 1, rel=1e-12)
    paper = auucc_gain_score(y, Normal(point, band), x_axis="excess", rule="uq360")
    assert gain == pytest.approx(paper / (1 - paper), rel=1e-9)


def test_several_models_of_uq360(mock):
    y, point, band = mock
    expected = [
        (Normal(point, band), 0.45147147547949584, 1.406418455385142),
        (Normal(point, 2 * band), 1.6309119733785584, 1.0792578573372087),
        (Normal(point, band + 10), 9.62208333094565, 0.577030310851296),
        (Normal(2 * point, band), 0.0, 96.56118140575806),
    ]
    for dist, excess, deficit in expected:
        at = uncertainty_characteristics_curve(y, dist).at(1.0)
        assert at.excess == pytest.approx(excess, rel=1e-12, abs=1e-14)
        assert at.deficit == pytest.approx(deficit, rel=1e-12)
    scale, doubled = (auucc_loss(y, Normal(point, width)) for width in (band, 2 * band))
    assert scale == pytest.approx(doubled, rel=1e-12)
    bias, shifted = (auucc_loss(y, Normal(point, width), vary="bias") for width in (band, band + 10))
    assert bias == pytest.approx(shifted, rel=1e-12)


# ---------------------------------------------------------------------------------- points


@pytest.mark.parametrize("vary", ["scale", "bias"])
def test_operating_point_is_the_narrowest_that_suffices(bands, vary):
    curve = curve_of(*bands, vary=vary)
    for limit in (1.0, 0.5, 0.31, 0.25):
        point = curve.operating_point(miss_rate=limit)
        assert point.miss_rate <= limit + 1e-12
        before = curve.parameter[curve.parameter < point.parameter]
        assert all(curve.at(t).miss_rate > limit for t in before)
        assert point == curve.at(point.parameter)


@pytest.mark.parametrize("vary", ["scale", "bias"])
def test_a_target_that_is_just_reached_is_inside_in_all_units(vary):
    """Rounding puts the corners of 0.7 * 3 / 0.7 and 0.1 * 3 - 0.1 above 3 and 0.2."""
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    for unit in (1.0, 0.1, 0.3, 0.7, 1e-3, 1e6 / 3):
        curve = uncertainty_characteristics_curve(unit * y, Normal(0 * y, 0 * y + unit), vary=vary)
        for k, target in enumerate(y):
            parameter = target if vary == "scale" else unit * (target - 1)
            point = curve.at(parameter)
            assert point.miss_rate == pytest.approx(1 - (k + 1) / 6, abs=1e-12)
            assert point.bandwidth == pytest.approx(unit * target, rel=1e-12)
            step = 1e-6 if vary == "scale" else 1e-6 * unit
            assert curve.at(parameter - step).miss_rate == pytest.approx(1 - k / 6, abs=1e-12)


def test_round_miss_rates_and_equally_good_points():
    y = np.arange(1.0, 11.0)
    curve = uncertainty_characteristics_curve(y, Normal(np.zeros(10), np.ones(10)))
    for i in range(11):
        assert curve.operating_point(miss_rate=1 - i / 10).parameter == i
        assert curve.operating_point(miss_rate=(10 - i) / 10).parameter == i
    # From each corner to the next, a miss rate less by 1/10 costs a bandwidth more by one unit.
    for unit in (1.0, 0.1, 0.7, 1e-3):
        curve = uncertainty_characteristics_curve(unit * y, Normal(np.zeros(10), np.full(10, unit)))
        assert curve.optimum(cost=(0.1 / unit, 1.0)).parameter == 0


@pytest.mark.parametrize("vary", ["scale", "bias"])
def test_optimum_is_the_least_cost_of_all_points(bands, vary):
    curve = curve_of(*bands, vary=vary)
    fine = [curve.at(t) for t in np.linspace(curve.parameter[0], curve.parameter[-1] * 1.2 + 1, 400)]

    def cost(point):
        return c * getattr(point, x) + (1 - c) * getattr(point, y)

    for (x, y), c in product(PAIRS, [0.0, 0.1, 0.5, 0.9, 1.0]):
        best = curve.optimum(cost=c, x_axis=x, y_axis=y)
        assert cost(best) <= min(map(cost, fine)) + 1e-9
        assert cost(best) == pytest.approx(cost(curve.at(best.parameter)), abs=1e-12)
        assert best == curve.optimum(cost=(c, 1 - c), x_axis=x, y_axis=y)


def test_quantile_bands_are_asymmetric_where_the_distribution_is():
    rng = np.random.default_rng(0)
    dist, y = Empirical(np.exp(rng.normal(size=(200, 400)))), np.exp(rng.normal(size=200))
    curve, bounds = uncertainty_characteristics_curve(y, dist, bands=0.8), dist.interval(0.8)
    same = uncertainty_characteristics_curve(y, bounds, point=dist.median())
    np.testing.assert_array_equal(curve.excess, same.excess)
    inside = np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))
    assert curve.at(1.0).miss_rate == pytest.approx(1 - inside, abs=0.006)
    assert auucc_loss(y, dist, bands=0.8) == curve.area()
    assert np.isfinite(auucc_gain_score(y, dist, bands=0.8))
    reference = uncertainty_characteristics_curve(y, bounds, point=dist.median(), bands="constant")
    assert reference.area() == pytest.approx(np.abs(y - dist.median()).mean())


def test_bands_of_a_symmetric_family_differ_by_a_factor_only():
    rng = np.random.default_rng(0)
    loc, scale = 1000 + rng.normal(size=100), 5 + rng.normal(size=100)
    y = loc + rng.normal(size=100)
    for dist in (Normal(loc, scale), StudentT(loc, scale, df=5.0)):
        std = uncertainty_characteristics_curve(y, dist)
        quantile = uncertainty_characteristics_curve(y, dist, bands=0.9)
        assert len(quantile) == len(std)
        np.testing.assert_allclose(quantile.bandwidth, std.bandwidth, rtol=1e-9)
        np.testing.assert_allclose(quantile.excess, std.excess, rtol=1e-6, atol=1e-9)
        bounds = uncertainty_characteristics_curve(y, dist.interval(0.9))  # bands around their middle
        np.testing.assert_allclose(bounds.bandwidth, std.bandwidth)


def test_a_better_model_dominates():
    rng = np.random.default_rng(0)
    error, band = rng.normal(size=80), rng.random(80) + 0.2
    good, bad = curve_of(error, band, band), curve_of(1.5 * error, band, band)
    comparison = compare_characteristics_curves({"bad": bad, "good": good})
    models, front = comparison.models, comparison.front
    assert models["dominated_by"].to_dict() == {"bad": "good", "good": ""}
    assert models["best_share"].to_dict() == pytest.approx({"bad": 0.0, "good": 1.0})
    assert front.to_dict("list") == {"model": ["good"], "miss_rate_low": [0.0], "miss_rate_high": [1.0]}
    assert models.loc["good", "area"] == good.area()
    # Bands of one shape tie whatever their size.
    sizes = {"first": 1.0, "wide": 3.3, "narrow": 0.7}
    curves = {name: curve_of(error, size * band, size * band) for name, size in sizes.items()}
    comparison = compare_characteristics_curves(curves)
    assert comparison.models["best_share"].tolist() == [1.0, 0.0, 0.0]
    assert comparison.models["dominated_by"].tolist() == ["", "", ""]
    assert comparison.front["model"].tolist() == ["first"]


@pytest.mark.parametrize("x", ["bandwidth", "excess"])
def test_the_front_holds_the_narrowest_at_every_miss_rate(x):
    rng = np.random.default_rng(0)
    error = rng.normal(size=40)
    curves = {name: curve_of(error, *(2 * [rng.random(40) + 0.2])) for name in "abc"}
    comparison = compare_characteristics_curves(curves, x_axis=x)
    models, front = comparison.models, comparison.front
    assert models["best_share"].sum() == pytest.approx(1)
    lengths = (front["miss_rate_high"] - front["miss_rate_low"]).groupby(front["model"]).sum()
    for name, share in lengths.items():
        assert share == pytest.approx(models.loc[name, "best_share"])
    for rate in (np.arange(40) + 0.5) / 40:
        row = front[(front["miss_rate_low"] < rate) & (rate < front["miss_rate_high"])]
        widths = {n: getattr(c.operating_point(miss_rate=rate), x) for n, c in curves.items()}
        assert widths[row["model"].item()] == min(widths.values())


def test_miss_rates_out_of_reach():
    y = np.array([1.0, 1.0, 2.0])
    stuck = uncertainty_characteristics_curve(y, Normal(np.zeros(3), [0.0, 0.1, 0.1]))
    free = uncertainty_characteristics_curve(y, Normal(np.zeros(3), np.full(3, 1.0)))
    front = compare_characteristics_curves({"stuck": stuck, "free": free}).front
    assert front.iloc[-1]["model"] == "free"
    curve = uncertainty_characteristics_curve([1.0, 2.0], Normal([0.0, 0.0], [1.0, 0.0]))
    comparison = compare_characteristics_curves({"a": curve, "b": curve})
    assert comparison.models["best_share"].tolist() == [0.5, 0.0]  # no model reaches the others
    assert comparison.front.to_numpy().tolist() == [["a", 0.5, 1.0]]


NORMAL = Normal(np.zeros(3), np.ones(3))
UNIT = [[0.0, 1.0], [0.0, 1.0]]


def test_bad_options_of_the_curve():
    for y_pred, options, message in (
        (NORMAL, {"bands": "range"}, "`bands` must be one of 'std', 'constant'"),
        (NORMAL, {"bands": 1.5}, "`bands` must lie strictly between 0 and 1"),
        (NORMAL, {"vary": "both"}, "`vary` must be one of"),
        (NORMAL, {"side": "far"}, "`side` must be one of"),
        (NORMAL, {"zero_band": "raise"}, "`zero_band` must be one of"),
        (NORMAL, {"point": [0.0, 1.0]}, "`point` must have 3 rows"),
        (NORMAL, {"point": [0.0, np.nan, 1.0]}, "`point` must be finite"),
        (NORMAL, {"point": [0.0, 9.0, 1.0], "bands": 0.9}, "must lie inside the interval of its row, got 9"),
        ([[0.0, np.inf], [0.0, 1.0]], {}, "`y_pred` must be finite"),
        ([[2.0, 1.0], [0.0, 1.0]], {}, "lower bounds .first column. that are at most the upper"),
        (UNIT, {"bands": 0.9}, "`bands` must be omitted or 'constant'"),
        (UNIT, {"point": [0.5, 1.5]}, "got 1.5 outside"),
        ([[0.0, 1.0]], {}, "`y_true` must have 1 rows"),
    ):
        y = [0.0, 1.0, 2.0] if y_pred is NORMAL else [0.0, 1.0]
        with pytest.raises(ValueError, match=message):
            uncertainty_characteristics_curve(y, y_pred, **options)


def test_bad_questions_to_the_curve():
    for method, arguments, message in (
        ("area", {"x_axis": "miss_rate"}, "`x_axis` must be one of 'bandwidth', 'excess'"),
        ("area", {"y_axis": "bandwidth"}, "`y_axis` must be one of 'miss_rate', 'deficit'"),
        ("area", {"rule": "simpson"}, "`rule` must be one of"),
        ("area", {"x_range": (1, 0)}, "`x_range` must be a pair"),
        ("area", {"y_range": 0.1}, "`y_range` must be a pair"),
        ("area", {"x_range": (-1, 1)}, "`x_range` must be a pair"),
        ("area", {"x_range": (0, 1), "y_range": (0, 1)}, "must not both be given"),
        ("area", {"x_range": (0, np.inf), "per_range": True}, "`per_range` must be False"),
        ("area", {"normalize": "range"}, "`normalize` must be one of"),
        ("area", {"normalize": 0.0}, "`normalize` must be positive"),
        ("area", {"rule": "uq360", "y_range": (0.0, 1e-6)}, "must contain two points of the curve"),
        ("at", {"parameter": -1.0}, "`parameter` must be non-negative"),
        ("at", {"parameter": np.nan}, "`parameter` must be finite"),
        ("operating_point", {"miss_rate": 1.2}, "`miss_rate` must lie in"),
        ("optimum", {"cost": 1.5}, "`cost` must lie in"),
        ("optimum", {"cost": (1.0, -1.0)}, "`cost` must be non-negative"),
        ("optimum", {"cost": (1.0, 1.0, 1.0)}, "`cost` must have 2 rows"),
    ):
        curve = uncertainty_characteristics_curve([0.5, 1.0, 2.0], Normal(np.zeros(3), np.ones(3)))
        with pytest.raises(ValueError, match=message):
            getattr(curve, method)(**arguments)


def test_only_curves_are_compared():
    curve = uncertainty_characteristics_curve([1.0, 2.0], Normal([0.0, 0.0], [1.0, 1.0]))
    for curves, error, message in (
        ({"a": curve}, ValueError, "`curves` must hold at least two curves, got 1"),
        ([curve, curve], TypeError, r"`curves` must be a mapping"),
        ({"a": curve, "b": 1}, TypeError, r"`curves` must hold results of .* got int for 'b'"),
    ):
        with pytest.raises(error, match=message):
            compare_characteristics_curves(curves)


@pytest.mark.parametrize("value", [1.0, 0.1])
def test_targets_that_do_not_vary_have_no_unit(value):
    y, forecast = np.full(10, value), Normal(np.linspace(0, 1, 10), np.ones(10))
    for sample_weight in (None, np.arange(10.0)):
        curve = uncertainty_characteristics_curve(y, forecast, sample_weight=sample_weight)
        assert curve.target_std == 0
        assert curve.area(normalize="std") == curve.area()


# ------------------------------------------------------------------------------------------- gain


def test_gain_is_the_covariance_over_the_mean_absolute_error(forecast):
    y, dist = forecast
    error = np.abs(y - dist.loc)
    covariance = np.cov(error / dist.scale, dist.scale, ddof=0)[0, 1]
    gain = auucc_gain_score(y, dist)
    assert gain == pytest.approx(covariance / error.mean(), rel=1e-9)
    # The denominators are those of the paper and of UQ360, which turns a gain of g into g / (1 - g).
    assert gain == pytest.approx(1 - auucc_loss(y, dist) / error.mean(), rel=1e-12)
    assert auucc_gain_score(y, dist, denominator="model") == pytest.approx(gain / (1 - gain), rel=1e-9)
    assert auucc_gain_score(y, Normal(dist.loc, 3.0)) == pytest.approx(0, abs=1e-14)


def test_gain_ignores_a_common_factor_of_the_scales(forecast):
    y, dist = forecast
    assert auucc_gain_score(y, Normal(dist.loc, 7.0 * dist.scale)) == pytest.approx(
        auucc_gain_score(y, dist), rel=1e-9
    )
    student = StudentT(dist.loc, dist.scale, df=5.0)
    assert auucc_gain_score(y, student) == pytest.approx(auucc_gain_score(y, dist), rel=1e-9)


def test_truth_gains_nothing_and_the_square_root_gains_much():
    """Neither the paper nor UQ360 mentions that the gain is not proper."""
    rng = np.random.default_rng(0)
    sigma = np.exp(rng.normal(size=50_000))
    y = sigma * rng.normal(size=50_000)
    gains = {power: auucc_gain_score(y, Normal(0 * y, sigma**power)) for power in (0.0, 0.5, 1.0)}
    assert gains[1.0] == pytest.approx(0, abs=0.02)
    assert gains[0.0] == pytest.approx(0, abs=1e-12)
    assert gains[0.5] > 0.2
    assert crps_loss(y, Normal(0 * y, sigma)) < crps_loss(y, Normal(0 * y, sigma**0.5))
