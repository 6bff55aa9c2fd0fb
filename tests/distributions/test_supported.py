"""Clipped, truncated and hurdle distributions: closed forms against integrals, and bounds of any size."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from skuq.distributions import (
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    Quantiles,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    Transformed,
    Truncated,
    affine,
    concat,
)
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.distributions._supported import Supported
from skuq.distributions._value_quadrature import squared_normal_cdf
from skuq.evaluation import expected_loss
from skuq.exceptions import NoDensityError, SmallSampleWarning

MEMBERS = [0.2, 1.1, 1.7, 2.5, 4.0]


def weighted(dist, y, lower, upper):
    """Return the threshold-weighted CRPS of one row."""
    return dist.clip(lower, upper).crps(np.clip(y, lower, upper))


ORACLES = [  # scoringrules 0.10, crps_cnormal and crps_ct, and its twCRPS of ensembles
    (Normal(0.0, 1.0), 0.5, -1, 1, 0.3169333776),
    (Normal(0.0, 1.0), 1.0, -1, 1, 0.5879712040),
    (Normal(0.0, 1.0), 2.5, 1, 10, 1.3446124100),
    (Normal(0.0, 1.0), 0.2, 1, 3, 0.0072348100),
    (Normal(1.0, 2.0), -3.0, 0, 4, 0.5919318694),
    (StudentT(0.0, 1.0, 5), 0.5, -1, 1, 0.3233376417),
    (StudentT(0.0, 1.0, 5), 2.5, 1, 50, 1.2685667738),
    (StudentT(0.0, 1.0, 3), 2.5, 1, 200, 1.2211334833),
    (Empirical([MEMBERS]), 1.5, 1, 3, 0.288),
    (Empirical([MEMBERS]), 3.5, 1, 3, 0.708),
    (SharedEmpirical(0.0, 1.0, MEMBERS), 1.5, 1, 3, 0.288),
    (SharedEmpirical(0.0, 1.0, MEMBERS), 3.5, 1, 3, 0.708),
]


@pytest.mark.parametrize(("dist", "y", "lower", "upper", "expected"), ORACLES)
def test_the_crps_is_that_of_the_peer(dist, y, lower, upper, expected):
    assert_allclose(weighted(dist, y, lower, upper), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "dist",
    [
        Normal([0.0, 1.0], [1.0, 0.0]),
        StudentT([0.0, 1.0], [1.0, 2.0], [4.0, 40.0]),
        Quantiles([0.1, 0.5, 0.9], [[-1.0, 0.0, 2.0], [0.0, 0.0, 1.0]]),
        Empirical([MEMBERS, MEMBERS], [0.1, 0.2, 0.3, 0.4, 0.0]),
        SharedEmpirical([0.0, 1.0], [1.0, 0.0], MEMBERS),
        affine(concat([SharedEmpirical(0.0, 1.0, MEMBERS), Normal(0.0, 1.0)]), 0.0, [-1.0, 2.0]),
    ],
    ids=lambda dist: type(dist).__name__,
)
@pytest.mark.parametrize("size", [1e6, 1e9, 1e300])
def test_large_bounds_are_infinite_bounds(dist, size):
    y = np.array([0.5, 1.3])
    for low, high in ((-size, size), (-size, np.inf), (-np.inf, size)):
        assert_allclose(weighted(dist, y, low, high), dist.crps(y), rtol=1e-12)


def test_a_region_far_out_in_a_tail_has_a_precise_score():
    normal = stats.norm()
    for low, high in ((5.0, 7.0), (8.0, np.inf)):
        expected = integrate.quad(lambda t: normal.sf(t) ** 2, low, min(high, 20.0), epsabs=0)[0]
        assert_allclose(weighted(Normal(0.0, 1.0), 0.2, low, high), expected, rtol=1e-11)
        assert_allclose(weighted(Normal(0.0, 1.0), -0.2, -high, -low), expected, rtol=1e-11)
    tail = integrate.quad(lambda t: stats.t(3).sf(t) ** 2, 40.0, np.inf, epsabs=0)[0]
    assert_allclose(weighted(StudentT(0.0, 1.0, 3), 0.0, 40.0, np.inf), tail, rtol=1e-9)


@pytest.mark.parametrize("z", [-26.0, -9.0, -1.5, -1e-9, 0.0, 0.7, 3.0, 40.0])
def test_the_integral_of_the_squared_normal_cdf(z):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        phi, cdf = mpmath.npdf(z), mpmath.ncdf(z)
        expected = z * cdf**2 + 2 * phi * cdf - mpmath.ncdf(mpmath.sqrt(2) * z) / mpmath.sqrt(mpmath.pi)
    assert_allclose(squared_normal_cdf(np.array(z)), float(expected), rtol=1e-12)


def test_far_arguments_have_their_limits():
    assert_array_equal(squared_normal_cdf(np.array([-np.inf, -1e300, 1e300])), [0.0, 0.0, 1e300])


def test_the_student_t_needs_no_mean_between_finite_bounds():
    for df in (0.4, 1.0, 1.0001, 0.9):
        dist, t = StudentT(0.0, 1.0, df), stats.t(df)
        below = integrate.quad(lambda x, t=t: t.cdf(x) ** 2, -1, 0.5)[0]
        expected = below + integrate.quad(lambda x, t=t: t.sf(x) ** 2, 0.5, 2)[0]
        assert_allclose(weighted(dist, 0.5, -1, 2), expected, rtol=1e-7)
        assert np.isfinite(dist.clip(-1, 2).mean()).all()


HEAVY = {
    "Student t, df 0.4": (StudentT(0.0, 1.0, 0.4), stats.t(0.4)),
    "Student t, df 1": (StudentT(0.0, 1.0, 1.0), stats.t(1.0)),
    "Student t, df 2": (StudentT(0.0, 1.0, 2.0), stats.t(2.0)),
    "Pareto": (ScipyDistribution(stats.pareto([0.7])), stats.pareto(0.7)),
    "log-normal": (ScipyDistribution(stats.lognorm([3.0])), stats.lognorm(3.0)),
}


def integral(function, lower, upper, y):
    """Integrate over panels whose distances from zero double, with edges at y."""
    steps = np.geomspace(1e-4, 1e12, 500)
    edges = np.concatenate([-steps, [0.0, y], steps])
    edges = np.unique(np.concatenate([[lower, upper], edges[(edges > lower) & (edges < upper)]]))
    nodes, weights = np.polynomial.legendre.leggauss(10)
    half = np.diff(edges)[:, np.newaxis] / 2
    return float((half * weights * function(edges[:-1, np.newaxis] + half * (nodes + 1))).sum())


@pytest.mark.parametrize("kind", [Supported, Truncated])
@pytest.mark.parametrize("name", sorted(HEAVY))
@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0.5, 1e9), *(pytest.param(*bounds, marks=pytest.mark.laws) for bounds in ((2.0, 1e6), (-10.0, 30.0)))],
)
def test_a_heavy_tail_between_far_bounds(kind, name, lower, upper):
    base, law = HEAVY[name]
    dist, y = kind(base, lower, upper), lower + 0.5
    low, high = (law.cdf(lower), law.sf(upper)) if kind is Truncated else (0.0, 0.0)

    def cdf(x):
        return (law.cdf(x) - low) / (1 - low - high)

    def sf(x):
        return (law.sf(x) - high) / (1 - low - high)

    crps = integral(lambda x: np.where(x < y, cdf(x) ** 2, sf(x) ** 2), lower, upper, y)
    distance = integral(lambda x: np.where(x < y, cdf(x), sf(x)), lower, upper, y)
    mean = integral(sf, lower, upper, y)
    square = integral(lambda x: 2 * (x - lower) * sf(x), lower, upper, y)
    assert_allclose(dist.crps(y), crps, rtol=3e-7)
    assert_allclose(dist.mean() - lower, mean, rtol=3e-7)
    assert_allclose(dist.std(), np.sqrt(square - mean**2), rtol=3e-7)
    assert_allclose(expected_loss(dist, "absolute", action=y), distance, rtol=3e-7)


def test_a_far_component_of_a_mixture_has_its_own_points():
    parts = [Normal(5.0, 1.0), StudentT(-1e4, 1.0, 0.4)]
    dist = Mixture(parts).clip(0.0, 1e9)
    separate = sum(integral(lambda x, part=part: part._sf(x), 0.0, 1e9, 5.0) / 2 for part in parts)
    assert_allclose(dist.mean(), separate, rtol=3e-7)


@pytest.mark.parametrize("df", [2.5, 3.0, 30.0])
def test_the_moments_with_one_bound(df):
    dist, t = StudentT(0.0, 1.0, df).clip(lower=-0.7), stats.t(df)
    mean = -0.7 * t.cdf(-0.7) + integrate.quad(lambda x: x * t.pdf(x), -0.7, np.inf, epsabs=0)[0]
    assert_allclose(dist.mean(), mean, rtol=1e-9)
    # the second moment above the bound by symmetry: all of it, minus the part below
    below = integrate.quad(lambda x: x * x * t.pdf(x), -0.7, 0.7)[0]
    square = 0.49 * t.cdf(-0.7) + (t.var() + below) / 2
    assert_allclose(dist.std(), np.sqrt(square - mean**2), rtol=1e-8)


def test_a_tail_that_is_too_heavy_is_infinite_or_an_error():
    assert StudentT(0.0, 1.0, 0.9).clip(lower=0.0).mean() == np.inf
    assert StudentT(0.0, 1.0, 1.5).clip(upper=3.0).std() == np.inf
    with pytest.raises(ValueError, match="must have a mean"):
        Supported(StudentT([0.0, 1.0], 1.0, 0.9), [0.0, -np.inf]).mean()


@pytest.mark.parametrize("df", [pytest.param(5.0, marks=pytest.mark.laws), 30.0])
def test_a_log_scale_target_with_heavy_tails_is_winsorized_as_without_bounds(df):
    dist, y = Transformed(StudentT([0.0, 1.0], 0.5, df), np.exp, np.log), np.array([2.0, 0.5])
    parts = weighted(dist, y, 1.0, np.inf) + weighted(dist, y, -np.inf, 1.0)
    assert_allclose(parts, dist.crps(y), rtol=1e-5)
    above, below = dist.clip(lower=1.0), dist.clip(upper=1.0)
    assert_allclose(above.mean() + below.mean() - 1.0, dist.mean(), rtol=1e-3)
    assert np.isfinite(above.std()).all()
    assert_array_equal(above.ppf(1 - 1e-9), dist.ppf(1 - 1e-9))
    weight = Polynomial([0.0, 0.0, 1.0])
    for each in (dist, above):
        assert (each._weighted_crps(y, weight) < each.crps(y)).all()
    # a region beyond the level
    assert_allclose(weighted(dist, y, 1e9, np.inf), 0.0, atol=1e-3)


def test_the_mean_of_a_bounded_normal():
    dist, low, high = stats.norm(0.3, 2.0), -1.0, 1.5
    inner = integrate.quad(lambda x: x * dist.pdf(x), low, high)[0]
    expected = low * dist.cdf(low) + high * dist.sf(high) + inner
    assert_allclose(Normal(0.3, 2.0).clip(low, high).mean(), expected, rtol=1e-9)
    far = Normal(0.3, 2.0).clip(-1e300, 1e300)
    assert_allclose((far.mean(), far.std()), [[0.3], [2.0]], rtol=1e-9)


def test_atoms_are_at_the_bounds():
    dist = Normal([0.0, 0.0], 1.0).clip([-1.0, -np.inf], 2.0)
    assert_allclose(dist.cdf(-1.0), stats.norm.cdf(-1.0))
    assert_array_equal(dist.cdf(np.nextafter(-1.0, -2.0)), [0.0, stats.norm.cdf(np.nextafter(-1.0, -2.0))])
    assert_array_equal(dist.cdf(2.0), 1.0)
    assert_array_equal(dist.ppf(0.0), [-1.0, -np.inf])
    assert_array_equal(dist.interval(0.999)[:, 1], 2.0)
    with pytest.raises(NoDensityError):
        dist.logpdf(0.0)


def test_a_density_remains_without_mass_at_the_bounds():
    base = Transformed(Normal([0.0, 1.0], 1.0), np.exp, np.log)
    dist = base.clip(lower=0.0)
    assert dist.has_density
    assert_allclose(dist.logpdf(1.3), base.logpdf(1.3))
    assert_array_equal(dist.pdf(-1.0), 0.0)


def test_families_that_are_closed_keep_their_type():
    clipped = Empirical([MEMBERS], [0.1, 0.2, 0.3, 0.4, 0.0]).clip(1.0, 2.0)
    assert isinstance(clipped, Empirical)
    assert_array_equal(clipped.members, [[1.0, 1.1, 1.7, 2.0, 2.0]])
    both = concat([Empirical([MEMBERS]), Normal(0.0, 1.0)])[[1, 0]].clip([0.0, 1.0], [1.0, 2.0])
    assert isinstance(both, Concatenated)
    assert_allclose(both.ppf(0.999), [1.0, 2.0])
    assert_allclose(both.ppf(0.001), [0.0, 1.0])
    normal = Normal(0.0, 1.0)
    assert normal.clip() is normal


def test_bounds_make_the_intervals_of_few_calibration_rows_finite():
    dist = ConformalPredictive([0.0], [1.0], [-1.0, 0.0, 2.0])
    with pytest.warns(SmallSampleWarning, match="bounds are infinite"):
        assert np.isinf(dist.interval(0.9)).all()
    assert_array_equal(dist.clip(-5.0, 7.0).interval(0.9), [[-5.0, 7.0]])
    with pytest.warns(SmallSampleWarning):
        assert_array_equal(dist.clip(-5.0).interval(0.9), [[-5.0, np.inf]])


class TestIntegers:
    """Rounded distributions; their scores are sums over integers in `test_counts.py`."""

    BASES = (
        Normal([0.4, 2.5, 30.0, 300.0], [0.6, 1.0, 9.0, 70.0]),
        StudentT([0.4, 2.5, 30.0, 300.0], [0.6, 1.0, 9.0, 70.0], 3.0),
        affine(Recalibrated(Normal(np.zeros(4), 1.0), LevelMap([0.2, 0.7], [0.1, 0.8])), [0, 2, 30, 300], 8),
        SharedEmpirical([0.0, 2.0, 30.0, 300.0], [1.0, 3.0, 9.0, 70.0], MEMBERS),
        Transformed(Normal([0.0, 1.0, 3.0, 5.0], [1.0, 0.5, 0.7, 0.4]), np.exp, np.log),
        concat([Normal([0.5, 2.5], 1.0), StudentT([30.0, 300.0], 20.0, 5.0)]),
    )
    bases = pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)

    @bases
    def test_every_value_is_an_integer_inside_the_bounds(self, base):
        dist = base.clip(0.0, 350.0, integer=True)
        values = np.concatenate(
            [dist.quantile(np.linspace(0, 1, 41)), dist.interval(0.9), dist.sample(50, random_state=0)],
            axis=1,
        )
        assert_array_equal(values, np.round(values))
        assert values.min() >= 0
        assert values.max() <= 350
        assert dist.has_mass
        assert not dist.has_density

    def test_the_cdf_at_an_integer_is_that_half_a_unit_above(self):
        dist = Normal(2.0, 1.5).clip(0.0, 4.0, integer=True)
        for k in range(4):
            assert_allclose(dist.cdf(k), stats.norm.cdf(k + 0.5, 2.0, 1.5))
            assert_allclose(dist.cdf(k + 0.9), stats.norm.cdf(k + 0.5, 2.0, 1.5))
        assert_array_equal([dist.cdf(-0.1), dist.cdf(4.0)], [[0.0], [1.0]])

    def test_masses_keep_their_digits_in_both_tails(self):
        dist = Normal(0.0, 1.0).clip(-30.0, 30.0, integer=True)
        for k in (12.0, 25.0):
            expected = np.log(stats.norm.sf(k - 0.5) - stats.norm.sf(k + 0.5))
            assert_allclose([dist.logpmf(k), dist.logpmf(-k)], expected, rtol=1e-10)
        assert_allclose(dist.logpmf(30.0), stats.norm.logsf(29.5), rtol=1e-10)
        assert_array_equal([dist.logpmf(0.5), dist.logpmf(31.0)], -np.inf)

    def test_rows_do_not_depend_on_their_neighbors(self):
        both = StudentT([3.0, 1e6], [1.0, 1e4], 3.0).clip(0.0, integer=True)
        assert_array_equal(both.crps([2.0, 1e6])[:1], both[:1].crps([2.0]))
        assert_array_equal(both.mean()[:1], both[:1].mean())

    def test_a_wide_row_needs_no_sum_over_its_range(self):
        normal = Normal(1e9, 1e6)
        dist = normal.clip(0.0, integer=True)
        assert_allclose(dist.crps(1.001e9), normal.crps(1.001e9), rtol=1e-9)
        assert_allclose([dist.mean(), dist.std()], [[1e9], [1e6]], rtol=1e-9)

    def test_an_atom_halfway_goes_down(self):
        dist = Empirical([[0.5, 1.5, 2.500001, 2.6]]).clip(integer=True)
        assert isinstance(dist, Empirical)
        assert_array_equal(dist.members, [[0.0, 1.0, 3.0, 3.0]])
        assert_array_equal(Supported(Normal([0.5], [0.0]), integer=True).median(), [0.0])
        assert_array_equal(Normal([2.5], [1.0]).clip(integer=True).median(), [2.0])

    def test_clipping_twice_is_clipping_once(self):
        once = Normal([1.0, 3.0], 2.0).clip(0.0, integer=True)
        twice = once.clip(0.0, integer=True)
        assert isinstance(twice.base, Normal)
        assert_array_equal(twice.lower, once.lower)
        narrow = once.clip(1.0, 5.0)
        assert isinstance(narrow.base, Normal)
        assert narrow.integer
        apart = Normal([1.0], [1.0]).clip(0.0, 1.0).clip(2.0, 3.0)
        assert_array_equal(apart.ppf([0.4]), [2.0])

    def test_conformal_bounds_are_rounded(self):
        dist = ConformalPredictive([3.2], [1.0], np.arange(-9.0, 10.0) / 3, symmetric=False)
        assert_array_equal(dist.clip(0.0, integer=True).interval(0.9), [[0.0, 6.0]])


class TestMasses:
    """`logpmf` of families that are not rounded."""

    def test_the_atoms_of_a_clipped_distribution_are_its_bounds(self):
        dist = Normal([0.3, 0.3], 1.0).clip(0.0, 1.5)
        assert_allclose(dist.logpmf(0.0), stats.norm.logcdf(-0.3))
        assert_allclose(dist.logpmf(1.5), stats.norm.logsf(1.2))
        assert_array_equal([dist.logpmf(0.7), dist.logpmf(np.inf)], -np.inf)
        assert not dist.has_mass

    def test_members_of_an_ensemble_are_atoms(self):
        dist = Empirical([[1.0, 2.0, 2.0, 5.0]])
        assert_allclose(np.exp([dist.logpmf(2.0), dist.logpmf(5.0)]), [[0.5], [0.25]])
        assert not dist.has_mass  # the members are draws, not the possible values


# ------------------------------------------------------------ truncated distributions


LOCS, SCALES = np.array([0.3, -2.0, 5.0]), np.array([1.0, 1.5, 0.7])


def peer(lower, upper):
    return stats.truncnorm((lower - LOCS) / SCALES, (upper - LOCS) / SCALES, LOCS, SCALES)


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1.5), (0.0, np.inf), (-np.inf, 1.5), (4.0, np.inf)])
def test_normal_against_scipy(lower, upper):
    dist, expected = Truncated(Normal(LOCS, SCALES), lower, upper), peer(lower, upper)
    y = expected.ppf(0.35)
    assert_allclose(dist.cdf(y), 0.35, rtol=1e-9)
    for level in (1e-9, 0.2, 0.97):
        assert_allclose(dist.ppf(level), expected.ppf(level), rtol=1e-7, atol=1e-12)
        assert_allclose(dist._isf(np.asarray(level)), expected.isf(level), rtol=1e-7, atol=1e-12)
    assert_allclose(dist.logpdf(y), expected.logpdf(y), rtol=1e-8)
    assert_allclose(dist.mean(), expected.mean(), rtol=1e-7)
    assert_allclose(dist.std(), expected.std(), rtol=1e-6)


def test_the_crps_is_that_of_scoringrules():
    sr = pytest.importorskip("scoringrules")
    dist = Truncated(Normal(LOCS, SCALES), 0.0, 1.5)[:2]
    for y in (0.0, 0.7, 1.4):
        assert_allclose(
            dist.crps(y), sr.crps_tnormal(np.full(2, y), LOCS[:2], SCALES[:2], 0.0, 1.5), rtol=1e-7
        )
    assert_allclose(dist.crps(0.7)[0], 0.1173787877294501, rtol=1e-8)


def test_the_crps_in_a_tail_of_the_base():
    dist, expected = Truncated(Normal(LOCS, SCALES), 0.0, 1.5)[2], peer(0.0, 1.5)

    def integral(low, high, power):
        return integrate.quad(lambda x: abs(expected.cdf(x)[2] - power) ** 2, low, high, epsabs=1e-13)[0]

    assert_allclose(dist.crps(1.4), integral(0.0, 1.4, 0) + integral(1.4, 1.5, 1), rtol=1e-8)


@pytest.mark.parametrize(
    ("bound", "mean", "std"),  # from mpmath
    [(5.0, 5.186503967125842, 0.1808215546253052), (30.0, 30.033259667433677, 0.033223056931746826)],
)
def test_the_moments_of_a_far_tail(bound, mean, std):
    for dist, sign in (
        (Truncated(Normal(0.0, 1.0), bound), 1),
        (Truncated(Normal(0.0, 1.0), upper=-bound), -1),
    ):
        assert_allclose([sign * dist.mean(), dist.std()], [[mean], [std]], rtol=1e-9)


def test_a_far_tail_is_precise():
    dist = Truncated(Normal([0.0, 0.0], 1.0), [20.0, -np.inf], [np.inf, -20.0])
    excess = stats.norm.isf(0.5 * stats.norm.sf(20.0))
    assert_allclose(dist.median(), [excess, -excess], rtol=1e-12)
    assert_allclose(dist.cdf(dist.median()), 0.5, rtol=1e-9)


def test_a_row_without_mass_is_a_point_mass_at_the_nearer_bound():
    dist = Truncated(Normal([0.0, 0.0], 0.1), [50.0, -np.inf], [np.inf, -50.0])
    assert_allclose(dist.interval(0.9), [[50.0, 50.0], [-50.0, -50.0]])
    assert_allclose(dist.crps(51.0), [1.0, 101.0])
    assert_allclose((dist.mean(), dist.std()), [[50.0, -50.0], [0.0, 0.0]], atol=1e-9)
    assert not dist.has_density


def test_discrete_and_mixed_bases():
    counts = Truncated(ScipyDistribution(stats.poisson([2.0])), 0.0)
    assert_allclose(np.exp(counts.logpmf(1.0)), stats.poisson.pmf(1, 2.0) / stats.poisson.sf(0, 2.0))
    assert_array_equal(counts.ppf(0.0), 1.0)
    members = Truncated(Empirical([[-1.0, 0.0, 1.0, 2.0]]), 0.0)
    assert_allclose(members.cdf([1.0]), 0.5)
    pool = Mixture([Normal([1.0], 1.0), StudentT([0.0], 1.0, 5.0)])
    assert_allclose(Truncated(pool, 0.0).cdf(Truncated(pool, 0.0).ppf(0.3)), 0.3, rtol=1e-9)


# ------------------------------------------------------------ hurdle distributions


@pytest.mark.parametrize(("y", "expected"), [(0.0, 0.3270197318648), (4.0, 2.1825055812635)])
def test_the_crps_of_zero_inflated_counts(y, expected):
    dist = Hurdle(0.6, ScipyDistribution(stats.poisson([3.0])))
    assert_allclose(dist.crps(y), expected, rtol=1e-12)


@pytest.mark.parametrize("at", [0.0, 1.3, -2.0])
def test_it_is_a_mixture_with_a_point_mass(at):
    rest = Normal([0.5, 2.0, -1.0], [1.0, 2.0, 0.5])
    p = np.array([0.1, 0.5, 0.9])
    dist = Hurdle(p, rest, at)
    peer = Mixture([Normal(np.full(3, at), 0.0), rest], np.column_stack([p, 1 - p]))
    for y in (-3.0, at, 0.4, 5.0):
        assert_allclose(dist.cdf(y), peer.cdf(y), rtol=1e-12)
        assert_allclose(dist.crps(y), peer.crps(y), rtol=1e-9)
        assert_allclose(dist._mean_distance(np.full(3, y)), peer._mean_distance(np.full(3, y)), rtol=1e-9)
    for level in (0.01, 0.3, 0.5, 0.72, 0.999):
        assert_allclose(dist.ppf(level), peer.ppf(level), rtol=1e-9, atol=1e-12)
        assert_allclose(dist._isf(np.asarray(level)), peer._isf(np.asarray(level)), rtol=1e-9, atol=1e-12)
    assert_allclose([dist.mean(), dist.std()], [peer.mean(), peer.std()], rtol=1e-12)


def test_certain_rows():
    dist = Hurdle([0.0, 1.0], Truncated(Normal([1.0, 1.0], 1.0), 0.0))
    assert_array_equal(dist.ppf(0.99)[1], 0.0)
    assert_array_equal(dist.crps(2.0)[1], 2.0)
    assert dist.ppf(0.0)[0] >= 0.0
    assert_allclose(dist.crps(2.0)[0], Truncated(Normal([1.0], 1.0), 0.0).crps(2.0)[0])


def test_levels_at_the_ends_of_the_atom():
    dist = Hurdle(0.25, ScipyDistribution(stats.uniform([1.0], [1.0])))
    assert_array_equal([dist.ppf(0.25), dist.ppf(0.1), dist._isf(np.asarray(0.75))], 0.0)
    assert_allclose(dist.ppf(0.25 + 0.75 * 0.5), 1.5)


def test_masses():
    dist = Hurdle([0.6], Normal([3.0], 1.0).clip(1.0, integer=True))
    assert dist.has_mass
    assert_allclose(np.exp([dist.logpmf(0.0)[0], dist.logpmf(3.0)[0]]), [0.6, 0.4 * 0.38292492], rtol=1e-6)
    mixed = Hurdle([0.6], Truncated(Normal([3.0], 1.0), 0.0))
    assert not mixed.has_mass
    assert_array_equal(mixed.logpmf(2.0), -np.inf)
    assert_allclose(mixed.logpmf(0.0), np.log(0.6))


def test_tail_mass_at_infinity_is_excluded():
    dist = Hurdle([0.5], ConformalPredictive([2.0], [1.0], [-1.0, 0.0, 1.0]))
    assert_array_equal(dist.interval(0.9), [[0.0, 3.0]])


def test_an_ensemble_with_members_at_the_atom():
    dist = Hurdle([0.5], Empirical([[0.0, 1.0, 2.0, 3.0]]))
    assert_allclose(dist.cdf(0.0), 0.625)
    assert_array_equal([dist.ppf(0.6), dist.ppf(0.64)], [[0.0], [1.0]])
