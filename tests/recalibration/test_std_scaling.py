import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, stats

from skuq.distributions import (
    Empirical,
    Mixture,
    Normal,
    Quantiles,
    ScipyDistribution,
    StudentT,
    Transformed,
    affine,
)
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.metrics import prediction_interval_coverage
from skuq.recalibration import StdScalingRecalibrator
from tests.few_rows import few_rows


def test_factor_is_the_closed_form(dist, y):
    z = (y - dist.mean()) / dist.std()
    factor = StdScalingRecalibrator().fit(dist, y).factor_
    assert factor == pytest.approx(np.sqrt(np.mean(z**2)), rel=1e-14)

    def nll(r):
        return -np.mean(Normal(dist.mean(), r * dist.std()).logpdf(y))

    assert nll(factor) < min(nll(0.99 * factor), nll(1.01 * factor))
    # a search over the calibration error stops at its bound for .02 (uncertainty_toolbox gives 100)
    for truth in (0.02, 0.1, 10.0):
        far = truth * np.random.default_rng(0).normal(size=4000)
        fitted = StdScalingRecalibrator().fit(Normal(0 * far, 1.0), far)
        assert fitted.factor_ == pytest.approx(truth, rel=0.04)
    with pytest.raises(ValueError, match="too many standard deviations"):
        StdScalingRecalibrator().fit(Normal([0.0, 0.0], [1e-200, 1.0]), [1.0, 1.0])


@few_rows
def test_means_families_and_parts_stay(dist, y):
    recalibrator = StdScalingRecalibrator().fit(dist, y)
    assert_array_equal(recalibrator.predict(dist), dist.mean())
    assert_allclose(recalibrator.transform(dist).mean(), dist.mean(), rtol=1e-13)
    student = StudentT([0.0, 5.0], [1.0, 2.0], 10, epistemic_scale=[0.5, 0.5])
    recalibrated = recalibrator.transform(student)
    assert isinstance(recalibrated, StudentT)
    assert_allclose(recalibrated.std(), recalibrator.factor_ * student.std())
    assert_allclose(recalibrated.epistemic().std(), recalibrator.factor_ * student.epistemic().std())
    rng = np.random.default_rng(1)
    members, y = Empirical(rng.normal(10.0, 1.0, size=(300, 20))), rng.normal(10.0, 3.0, size=300)
    recalibrated = StdScalingRecalibrator().fit(members, y).transform(members)
    assert np.mean(((y - recalibrated.mean()) / recalibrated.std()) ** 2) == pytest.approx(1.0, rel=1e-10)
    assert_allclose(recalibrated.mean(), members.mean(), rtol=1e-12)
    assert StdScalingRecalibrator().fit(Normal([0.0, 0.0], 1.0), [3.0, 4.0]).factor_ == np.sqrt(12.5)
    assert StdScalingRecalibrator().fit(Normal([0.0], 1.0), [3.0]).factor_ == 3.0


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


def test_the_general_derivative_is_that_of_gaussians(dist, y):
    factor = StdScalingRecalibrator(objective="crps").fit(dist, y).factor_
    wrapped = ScipyDistribution(stats.norm(dist.mean(), dist.std()))  # the same, and no Normal
    general = StdScalingRecalibrator(objective="crps").fit(wrapped, y).factor_
    assert general == pytest.approx(factor, rel=1e-8)


@every_family
def test_the_interval_holds_exactly_the_share_of_the_rows(family):
    dist, y = FAMILIES[family]

    def covered(scaled, nominal):
        bounds = scaled.interval(nominal)
        return np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))

    for nominal in (0.5, 0.9, 0.95):
        recalibrator = StdScalingRecalibrator(objective="coverage", coverage=nominal).fit(dist, y)
        share = covered(recalibrator.transform(dist), nominal)
        assert share >= nominal - 1e-12
        smaller = recalibrator.factor_ * (1 - 1e-9)
        assert covered(affine(dist, dist.mean() * (1 - smaller), smaller), nominal) < nominal
        if family != "discrete":
            assert share == pytest.approx(np.ceil(60 * nominal) / 60)


def test_the_coverage_factor_of_gaussians_is_a_quantile(dist, y):
    size = np.sort(np.abs(y - dist.mean()) / dist.std())
    factor = StdScalingRecalibrator(objective="coverage", coverage=0.9).fit(dist, y).factor_
    assert factor == pytest.approx(size[719] / stats.norm.ppf(0.95), rel=1e-12)  # the 720th of 800


def test_the_row_that_is_just_reached_is_not_lost_to_rounding():
    for offset in (0.0, 1e3, 1e6):
        for seed in range(30):
            rng = np.random.default_rng(seed)
            dist, y = Normal(offset + rng.normal(size=20), 0.3 + rng.random(20)), offset + rng.normal(size=20)
            recalibrator = StdScalingRecalibrator(objective="coverage").fit(dist, y)
            assert prediction_interval_coverage(y, recalibrator.transform(dist)) == pytest.approx(0.9)


def test_robust_is_the_median_over_that_of_the_family():
    rng = np.random.default_rng(0)
    residual, scale = rng.standard_t(2, size=101), 0.3 + rng.random(101)
    z, recalibrator = np.median(np.abs(residual) / scale), StdScalingRecalibrator(robust=True)
    for offset in (0.0, 100.0):
        loc, y = np.full(101, offset), offset + residual
        gaussian = recalibrator.fit(Normal(loc, scale), y).factor_
        assert gaussian == pytest.approx(z / stats.norm.ppf(0.75), rel=1e-11)
        student = recalibrator.fit(StudentT(loc, scale, 3.0), y).factor_
        assert student == pytest.approx(z / stats.t(3).ppf(0.75), rel=1e-11)
    for family in ("skewed", "Transformed", "Mixture", "Recalibrated", "Quantiles"):
        dist, y = FAMILIES[family]
        scaled = recalibrator.fit(dist, y).transform(dist)
        reach = np.abs(y - scaled.mean())
        within = scaled.cdf(scaled.mean() + reach) - scaled.cdf(scaled.mean() - reach)
        assert np.mean(within < 0.5) == 0.5, family


@pytest.mark.parametrize("options", OPTIONS[1:], ids=repr)
def test_one_gross_outlier_among_fifty_rows_hardly_moves_it(options):
    recalibrator, dist, moves = StdScalingRecalibrator(**options), Normal(np.zeros(50), np.ones(50)), []
    for seed in range(20):
        y = np.random.default_rng(seed).normal(size=50)
        before, after = recalibrator.fit(dist, y).factor_, []
        for y[7] in (1e3, 1e6, 1e9):
            after.append(recalibrator.fit(dist, y).factor_)
        assert_allclose(after, after[0], rtol=1e-9)
        moves.append(after[0] / before)
    assert np.max(np.abs(np.log(moves))) < 0.35
    assert np.mean(moves) == pytest.approx(1.0, abs=0.1)
    assert StdScalingRecalibrator().fit(dist, y).factor_ > 1e7


def test_the_farthest_outlier_costs_no_digits():
    rng = np.random.default_rng(0)
    y, dist = rng.normal(size=50), StudentT(np.zeros(50), np.ones(50), 5.0)
    recalibrator, factors = StdScalingRecalibrator(objective="crps"), []
    for far in (1e10, 1e15):
        y[7] = far
        factors.append(recalibrator.fit(dist, y).factor_)
    assert factors[1] == pytest.approx(factors[0], rel=1e-12)


def test_bad_options():
    for options, error, match in (
        ({"objective": "mae"}, ValueError, "`objective` must be one of 'nll', 'crps', 'coverage'"),
        ({"objective": "coverage", "coverage": 90}, ValueError, r"Did you mean 0\.9\?"),
        ({"objective": "coverage", "coverage": 1.0}, ValueError, "`coverage` must lie strictly"),
        ({"coverage": [0.5, 0.9]}, ValueError, "`coverage` must be one number"),
        ({"robust": "yes"}, ValueError, "`robust` must be one of True, False"),
        ({"objective": "crps", "robust": True}, ValueError, "limited influence"),
        ({"objective": "coverage", "robust": True}, ValueError, "limited influence"),
    ):
        with pytest.raises(error, match=match):
            StdScalingRecalibrator(**options).fit(Normal([0.0, 0.0], [1.0, 2.0]), [1.0, 2.0])


@few_rows
def test_what_no_factor_can_reach_is_refused():
    def fit(dist, y, **options):
        return StdScalingRecalibrator(**options).fit(dist, y).factor_

    standard = Normal(np.zeros(100), np.ones(100))
    y = np.concatenate([np.zeros(72), np.ones(28)])  # from 1 / sqrt(2) = 70.7 % on
    with pytest.raises(ValueError, match=r"got 0. In all or most rows, `y` equals the predicted mean"):
        fit(standard, y, objective="crps")
    y[:2] = 1.0
    assert fit(standard, y, objective="crps") > 0

    skewed, y = ScipyDistribution(stats.lognorm(s=2.0, loc=np.zeros(5))), np.arange(1.0, 6.0)
    with pytest.raises(ValueError, match=r"`coverage` is too small: at 0\.5, the central interval"):
        fit(skewed, y, objective="coverage", coverage=0.5)
    assert fit(skewed, y, objective="coverage", coverage=0.9) > 0

    atom = Empirical(np.tile([-1.0, 0.0, 1.0], (4, 1)), [0.04, 0.92, 0.04])  # 90 % lie on the mean
    y = [0.5, -0.5, 0.0, 0.7]
    with pytest.raises(ValueError, match=r"with one factor, got 0\.9\. In 75\.0% of the rows"):
        fit(atom, y, objective="coverage")
    assert fit(atom, y, objective="coverage", coverage=0.95) == 0.7
    with pytest.raises(ValueError, match="`robust` must be False"):  # no median distance
        fit(atom, y, robust=True)
    assert fit(atom, y) > 0


@pytest.mark.laws  # netcal takes seconds to import
def test_the_closed_form_is_netcals_variance_scaling(calibration_rows):
    scaling = pytest.importorskip("netcal.regression").VarianceScaling()
    dist, y = calibration_rows
    scaled = scaling.fit((dist.mean(), dist.std()), y).transform((dist.mean(), dist.std()))
    assert_allclose(StdScalingRecalibrator().fit(dist, y).transform(dist).std(), scaled.ravel(), rtol=1e-9)
