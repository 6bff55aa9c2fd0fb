import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, stats

from skuq.distributions import (
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
from skuq.metrics import prediction_interval_coverage
from skuq.recalibration import StdScalingRecalibrator
from tests.few_rows import few_rows


def test_factor_is_the_closed_form(calibration_rows):
    dist, y = calibration_rows
    recalibrator = StdScalingRecalibrator().fit(dist, y)
    z = (y - dist.mean()) / dist.std()
    assert recalibrator.factor_ == pytest.approx(np.sqrt(np.mean(z**2)), rel=1e-14)


def test_factor_minimises_the_gaussian_likelihood(calibration_rows):
    dist, y = calibration_rows
    factor = StdScalingRecalibrator().fit(dist, y).factor_

    def nll(r):
        return -np.mean(Normal(dist.mean(), r * dist.std()).logpdf(y))

    assert nll(factor) < nll(0.99 * factor)
    assert nll(factor) < nll(1.01 * factor)


@pytest.mark.parametrize("truth", [0.02, 0.1, 1.0, 10.0])
def test_far_too_wide_and_far_too_narrow_predictions_are_corrected(truth):
    # a search over the calibration error stops at its bound here (uncertainty_toolbox gives 100)
    y = truth * np.random.default_rng(0).normal(size=4000)
    factor = StdScalingRecalibrator().fit(Normal(np.zeros(4000), np.ones(4000)), y).factor_
    assert factor == pytest.approx(truth, rel=0.04)


def test_predictions_do_not_change_by_a_bit(calibration_rows):
    dist, y = calibration_rows
    recalibrator = StdScalingRecalibrator().fit(dist, y)
    assert_array_equal(recalibrator.predict(dist), dist.mean())
    assert_allclose(recalibrator.transform(dist).mean(), dist.mean(), rtol=1e-13)


@few_rows
def test_family_and_decomposition_survive():
    dist = StudentT([0.0, 5.0], [1.0, 2.0], 10, epistemic_scale=[0.5, 0.5])
    recalibrator = StdScalingRecalibrator().fit(dist, [3.0, -1.0])
    recalibrated = recalibrator.transform(dist)
    assert isinstance(recalibrated, StudentT)
    assert_allclose(recalibrated.std(), recalibrator.factor_ * dist.std())
    assert_allclose(recalibrated.epistemic().std(), recalibrator.factor_ * dist.epistemic().std())


def test_empirical_members_are_spread_about_their_mean():
    rng = np.random.default_rng(1)
    dist = Empirical(rng.normal(10.0, 1.0, size=(300, 20)))
    y = rng.normal(10.0, 3.0, size=300)
    recalibrated = StdScalingRecalibrator().fit(dist, y).transform(dist)
    z = (y - recalibrated.mean()) / recalibrated.std()
    assert np.mean(z**2) == pytest.approx(1.0, rel=1e-10)
    assert_allclose(recalibrated.mean(), dist.mean(), rtol=1e-12)


@few_rows
def test_two_rows_and_one_row():
    assert StdScalingRecalibrator().fit([[0.0, 1.0], [0.0, 1.0]], [3.0, 4.0]).factor_ == np.sqrt(12.5)
    assert StdScalingRecalibrator().fit([[0.0, 1.0]], [3.0]).factor_ == 3.0


@few_rows
def test_exact_point_masses_carry_no_information():
    dist = Normal([0.0, 0.0, 7.0], [1.0, 1.0, 0.0])
    assert StdScalingRecalibrator().fit(dist, [2.0, -2.0, 7.0]).factor_ == 2.0


@few_rows
def test_only_exact_point_masses_leave_everything_as_it_is():
    dist = Normal([1.0, 2.0], [0.0, 0.0])
    recalibrator = StdScalingRecalibrator().fit(dist, [1.0, 2.0])
    assert recalibrator.factor_ == 1.0
    assert recalibrator.transform(dist) is dist


@few_rows
def test_point_masses_are_exact_up_to_rounding():
    dist = Normal([0.0, 0.0, 0.3], [1.0, 1.0, 0.0])
    assert StdScalingRecalibrator().fit(dist, [2.0, -2.0, 0.1 + 0.2]).factor_ == 2.0


def test_a_missed_point_mass_raises():
    with pytest.raises(ValueError, match=r"got 0 at row 1\. In this row, `y` differs"):
        StdScalingRecalibrator().fit(Normal([0.0, 1.0], [1.0, 0.0]), [0.5, 1.5])


def test_residuals_of_zero_raise():
    with pytest.raises(ValueError, match="In all or most rows, `y` equals the predicted mean"):
        StdScalingRecalibrator().fit(Normal([0.0, 1.0], [1.0, 1.0]), [0.0, 1.0])


def test_an_infinite_standard_deviation_raises():
    with pytest.raises(ValueError, match="finite mean and standard deviation"):
        StdScalingRecalibrator().fit(StudentT([0.0, 1.0], [1.0, 1.0], 2), [0.0, 1.0])


def test_an_overflowing_residual_raises():
    with pytest.raises(ValueError, match="too many standard deviations"):
        StdScalingRecalibrator().fit(Normal([0.0, 0.0], [1e-200, 1.0]), [1.0, 1.0])


# ------------------------------------------------------------------------------------ other objectives

OPTIONS = [{}, {"objective": "crps"}, {"objective": "coverage"}, {"robust": True}]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=repr)


def families():
    """Predictions of every kind, two moments each, and what was observed: 1.6 times too narrow."""
    rng = np.random.default_rng(0)
    n, levels = 60, np.linspace(0.05, 0.95, 19)
    loc, scale = rng.normal(size=n), 0.3 + rng.random(n)
    y = rng.normal(loc, 1.6 * scale)
    normal = Normal(loc, scale)
    return {
        "Normal": (normal, y),
        "StudentT": (StudentT(loc, scale, 3.0), y),
        "Empirical": (Empirical(normal.sample(20, random_state=0)), y),
        "Quantiles": (Quantiles(levels, normal.quantile(levels)), y),
        "skewed": (ScipyDistribution(stats.gamma(a=2.0, loc=loc - 2 * scale, scale=scale)), y),
        "Transformed": (Transformed(normal, np.exp, np.log), np.exp(y)),
        "Mixture": (Mixture([normal, StudentT(loc + 0.5, scale, 4.0)]), y),
        "Recalibrated": (Recalibrated(normal, LevelMap([0.3, 0.8], [0.2, 0.9])), y),
        "discrete": (
            ScipyDistribution(stats.poisson(mu=1 + 3 * rng.random(n))),
            rng.poisson(4.0, n).astype(float),
        ),
    }


FAMILIES = families()
every_family = pytest.mark.parametrize("family", FAMILIES)


@every_family
def test_no_other_factor_has_a_lower_crps(family):
    dist, y = FAMILIES[family]
    factor = StdScalingRecalibrator(objective="crps").fit(dist, y).factor_

    def mean_crps(r):
        return affine(dist, dist.mean() * (1 - r), r).crps(y).mean()

    best = mean_crps(factor)
    for other in (0.5, 0.97, 0.999, 1.001, 1.03, 2.0):
        assert mean_crps(other * factor) > best
    if dist.has_density:  # the score is flat at its least, and the factor is where it turns
        assert mean_crps(factor * (1 + 1e-4)) == pytest.approx(mean_crps(factor * (1 - 1e-4)), rel=1e-9)


def test_the_crps_factor_of_gaussians_is_exact():
    """Setting the derivative of the Gaussian CRPS to 0 leaves one equation in one unknown."""
    rng = np.random.default_rng(1)
    scale, residual = 0.3 + rng.random(60), rng.standard_t(3, size=60)
    weight = rng.integers(1, 4, size=60)
    dist = Normal(np.zeros(60), scale)
    factor = StdScalingRecalibrator(objective="crps").fit(dist, residual, sample_weight=weight).factor_

    def slope(r):
        return np.sum(weight * scale * (2 * stats.norm.pdf(residual / scale / r) - 1 / np.sqrt(np.pi)))

    assert factor == pytest.approx(optimize.brentq(slope, 0.1, 10.0, xtol=1e-14), rel=1e-11)


def test_the_general_derivative_is_that_of_gaussians(calibration_rows):
    dist, y = calibration_rows
    factor = StdScalingRecalibrator(objective="crps").fit(dist, y).factor_
    wrapped = ScipyDistribution(stats.norm(dist.mean(), dist.std()))  # the same, and no Normal
    general = StdScalingRecalibrator(objective="crps").fit(wrapped, y).factor_
    assert general == pytest.approx(factor, rel=1e-8)


@every_family
@pytest.mark.parametrize("nominal", [0.5, 0.9, 0.95])
def test_the_interval_holds_exactly_the_share_of_the_rows(family, nominal):
    dist, y = FAMILIES[family]
    recalibrator = StdScalingRecalibrator(objective="coverage", coverage=nominal).fit(dist, y)

    def covered(r):
        bounds = affine(dist, dist.mean() * (1 - r), r).interval(nominal)
        return np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))

    bounds = recalibrator.transform(dist).interval(nominal)
    share = np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))
    assert share >= nominal - 1e-12
    assert covered(recalibrator.factor_ * (1 - 1e-9)) < nominal  # and no smaller factor does
    if family != "discrete":
        assert share == pytest.approx(np.ceil(60 * nominal) / 60)


def test_the_coverage_factor_of_gaussians_is_a_quantile(calibration_rows):
    dist, y = calibration_rows
    size = np.sort(np.abs(y - dist.mean()) / dist.std())
    factor = StdScalingRecalibrator(objective="coverage", coverage=0.9).fit(dist, y).factor_
    assert factor == pytest.approx(size[719] / stats.norm.ppf(0.95), rel=1e-12)  # the 720th of 800


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_the_row_that_is_just_reached_is_not_lost_to_rounding(offset):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        dist, y = Normal(offset + rng.normal(size=20), 0.3 + rng.random(20)), offset + rng.normal(size=20)
        recalibrator = StdScalingRecalibrator(objective="coverage").fit(dist, y)
        assert prediction_interval_coverage(y, recalibrator.transform(dist)) == pytest.approx(0.9)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_robust_is_the_median_over_that_of_the_family(offset):
    rng = np.random.default_rng(0)
    residual, scale = rng.standard_t(2, size=101), 0.3 + rng.random(101)
    z = np.median(np.abs(residual) / scale)
    y, loc = offset + residual, np.full(101, offset)
    recalibrator = StdScalingRecalibrator(robust=True)
    gaussian = recalibrator.fit(Normal(loc, scale), y).factor_
    assert gaussian == pytest.approx(z / stats.norm.ppf(0.75), rel=1e-11)
    student = recalibrator.fit(StudentT(loc, scale, 3.0), y).factor_
    assert student == pytest.approx(z / stats.t(3).ppf(0.75), rel=1e-11)


@pytest.mark.parametrize("family", ["skewed", "Transformed", "Mixture", "Recalibrated", "Quantiles"])
def test_half_of_the_rows_lie_within_their_median_distance(family):
    dist, y = FAMILIES[family]
    scaled = StdScalingRecalibrator(robust=True).fit(dist, y).transform(dist)
    reach = np.abs(y - scaled.mean())
    within = scaled.cdf(scaled.mean() + reach) - scaled.cdf(scaled.mean() - reach)
    assert np.mean(within < 0.5) == 0.5


@every_option
def test_on_calibrated_rows_every_objective_finds_about_one(options):
    factors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scale = 0.3 + rng.random(500)
        y = scale * rng.standard_t(5, size=500)
        dist = StudentT(np.zeros(500), scale, 5.0)
        factors.append(StdScalingRecalibrator(**options).fit(dist, y).factor_)
    # one factor of 500 rows is known to 6 % at worst, their mean over 20 to 1.3 %
    assert np.mean(factors) == pytest.approx(1.0, abs=0.04)


@pytest.mark.parametrize("options", OPTIONS[1:], ids=repr)
def test_one_gross_outlier_among_fifty_rows_hardly_moves_it(options):
    moves = []
    for seed in range(20):
        y = np.random.default_rng(seed).normal(size=50)
        dist, spoilt = Normal(np.zeros(50), np.ones(50)), y.copy()
        spoilt[7] = 1e6
        recalibrator = StdScalingRecalibrator(**options)
        moves.append(recalibrator.fit(dist, spoilt).factor_ / recalibrator.fit(dist, y).factor_)
        spoilt[7] = 1e3
        near = recalibrator.fit(dist, spoilt).factor_
        spoilt[7] = 1e9
        assert recalibrator.fit(dist, spoilt).factor_ == pytest.approx(near, rel=1e-9)
    assert np.max(np.abs(np.log(moves))) < 0.35
    assert np.mean(moves) == pytest.approx(1.0, abs=0.1)
    plain = StdScalingRecalibrator().fit(dist, spoilt).factor_
    assert plain > 1e7


def test_the_farthest_outlier_costs_no_digits():
    rng = np.random.default_rng(0)
    y, dist = rng.normal(size=50), StudentT(np.zeros(50), np.ones(50), 5.0)
    recalibrator, factors = StdScalingRecalibrator(objective="crps"), []
    for far in (1e10, 1e15):
        y[7] = far
        factors.append(recalibrator.fit(dist, y).factor_)
    assert factors[1] == pytest.approx(factors[0], rel=1e-12)


@pytest.mark.parametrize("objective", ["crps", "coverage"])
def test_robust_is_refused_where_it_would_do_nothing(objective):
    with pytest.raises(ValueError, match="limited influence"):
        StdScalingRecalibrator(objective=objective, robust=True).fit([[0.0, 1.0]], [1.0])


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"objective": "mae"}, ValueError, "`objective` must be one of 'nll', 'crps', 'coverage'"),
        ({"objective": "coverage", "coverage": 90}, ValueError, r"Did you mean 0\.9\?"),
        ({"objective": "coverage", "coverage": 1.0}, ValueError, "`coverage` must lie strictly"),
        ({"coverage": [0.5, 0.9]}, ValueError, "`coverage` must be one number"),
        ({"robust": "yes"}, ValueError, "`robust` must be one of True, False"),
    ],
)
def test_bad_options(options, error, match):
    with pytest.raises(error, match=match):
        StdScalingRecalibrator(**options).fit([[0.0, 1.0], [0.0, 2.0]], [1.0, 2.0])


@every_option
def test_every_objective_refuses_what_cannot_be_scaled(options):
    recalibrator = StdScalingRecalibrator(**options)
    with pytest.raises(ValueError, match="finite mean and standard deviation"):
        recalibrator.fit(StudentT([0.0, 1.0], [1.0, 1.0], 2), [0.0, 1.0])
    with pytest.raises(ValueError, match=r"got 0 at row 1\. In this row, `y` differs"):
        recalibrator.fit(Normal([0.0, 1.0], [1.0, 0.0]), [0.5, 1.5])
    with pytest.raises(ValueError, match="In all or most rows, `y` equals the predicted mean"):
        recalibrator.fit(Normal([0.0, 1.0], [1.0, 1.0]), [0.0, 1.0])


@few_rows
@every_option
def test_exact_point_masses_are_left_out_of_every_objective(options):
    rng = np.random.default_rng(0)
    dist, y = Normal(np.zeros(40), np.ones(40)), 2 * rng.normal(size=40)
    both = Normal(np.zeros(50), np.repeat([1.0, 0.0], [40, 10])), np.concatenate([y, np.zeros(10)])
    weight = rng.integers(1, 3, size=50)
    recalibrator = StdScalingRecalibrator(**options)
    expected = recalibrator.fit(dist, y, sample_weight=weight[:40]).factor_
    assert recalibrator.fit(*both, sample_weight=weight).factor_ == expected
    point = Normal([1.0, 2.0], [0.0, 0.0])
    assert recalibrator.fit(point, [1.0, 2.0]).transform(point) is point


def test_so_many_exact_rows_that_no_spread_scores_best():
    y = np.concatenate([np.zeros(72), np.ones(28)])  # from 1 / sqrt(2) = 70.7 % on
    with pytest.raises(ValueError, match=r"got 0. In all or most rows, `y` equals the predicted mean"):
        StdScalingRecalibrator(objective="crps").fit(Normal(np.zeros(100), np.ones(100)), y)
    y[:2] = 1.0
    assert StdScalingRecalibrator(objective="crps").fit(Normal(np.zeros(100), np.ones(100)), y).factor_ > 0


@few_rows
def test_a_mean_outside_the_interval_is_refused():
    skewed = ScipyDistribution(stats.lognorm(s=2.0, loc=np.zeros(5)))
    y = np.arange(1.0, 6.0)
    with pytest.raises(ValueError, match=r"`coverage` is too small: at 0\.5, the central interval"):
        StdScalingRecalibrator(objective="coverage", coverage=0.5).fit(skewed, y)
    assert StdScalingRecalibrator(objective="coverage", coverage=0.9).fit(skewed, y).factor_ > 0


@few_rows
def test_a_bound_that_no_factor_moves_is_refused():
    dist = Empirical(np.tile([-1.0, 0.0, 1.0], (4, 1)), [0.04, 0.92, 0.04])  # 90 % lie on the mean
    y = [0.5, -0.5, 0.0, 0.7]
    with pytest.raises(ValueError, match=r"with one factor, got 0\.9\. In 75\.0% of the rows"):
        StdScalingRecalibrator(objective="coverage").fit(dist, y)
    assert StdScalingRecalibrator(objective="coverage", coverage=0.95).fit(dist, y).factor_ == 0.7


@few_rows
def test_half_of_the_probability_on_the_mean_has_no_median_distance():
    dist = Empirical(np.tile([-1.0, 0.0, 0.0, 0.0, 1.0], (6, 1)))
    with pytest.raises(ValueError, match="`robust` must be False"):
        StdScalingRecalibrator(robust=True).fit(dist, np.linspace(-1, 1, 6))
    assert StdScalingRecalibrator().fit(dist, np.linspace(-1, 1, 6)).factor_ > 0


def test_the_closed_form_is_netcals_variance_scaling(calibration_rows):
    scaling = pytest.importorskip("netcal.regression").VarianceScaling()
    dist, y = calibration_rows
    scaled = scaling.fit((dist.mean(), dist.std()), y).transform((dist.mean(), dist.std()))
    assert_allclose(StdScalingRecalibrator().fit(dist, y).transform(dist).std(), scaled.ravel(), rtol=1e-9)
