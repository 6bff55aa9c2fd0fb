"""Clipped distributions: closed forms against integrals, bounds of any size, and bad bounds."""

import itertools

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from skuq.distributions import (
    Concatenated,
    ConformalPredictive,
    Empirical,
    Normal,
    Quantiles,
    SharedEmpirical,
    StudentT,
    Supported,
    Transformed,
    affine,
    concat,
)
from skuq.distributions._numerics.squared_cdf import squared_normal_cdf
from skuq.exceptions import NoDensityError, SmallSampleWarning
from tests.distributions.families import ALL, N

MEMBERS = [0.2, 1.1, 1.7, 2.5, 4.0]
ENDS = (-np.inf, -0.4, 0.3, 1.7, np.inf)


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


@pytest.mark.parametrize("name", sorted(ALL))
def test_regions_that_share_bounds_add_up_to_the_crps(name):
    dist = ALL[name]
    y = dist.ppf(np.linspace(0.1, 0.9, N)) + 0.02
    parts = [weighted(dist, y, low, high) for low, high in itertools.pairwise(ENDS)]
    tolerance = 1e-12 if dist._squared_integrals(y) is not None else 2e-7
    assert_allclose(sum(parts), dist.crps(y), rtol=tolerance, atol=tolerance)
    assert_array_equal(weighted(dist, y, -np.inf, np.inf), dist.crps(y))


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


@pytest.mark.parametrize("df", [5.0, 30.0])
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


@pytest.mark.parametrize(
    ("lower", "upper", "error", "message"),
    [
        (1.0, 1.0, ValueError, "`lower` must be less than `upper`, got 1 >= 1 at row 0"),
        ([0.0, 3.0], 2.0, ValueError, "`lower` must be less than `upper`, got 3 >= 2 at row 1"),
        (np.nan, 1.0, ValueError, "`lower` must not contain NaN"),
        (0.0, [1.0, np.nan], ValueError, "`upper` must not contain NaN, got one at row 1"),
        (np.inf, np.inf, ValueError, "`lower` must be less than `upper`, got inf >= inf"),
        ([0.0, 1.0, 2.0], 9.0, ValueError, r"`lower` must be a number or have shape \(2,\), got \(3,\)"),
        ("a", 1.0, TypeError, "`lower` must hold real numbers"),
    ],
)
def test_bad_bounds_are_named(lower, upper, error, message):
    dist = Normal([0.0, 1.0], 1.0)
    for make in (dist.clip, lambda low, high: Supported(dist, low, high)):
        with pytest.raises(error, match=message):
            make(lower, upper)
    with pytest.raises(TypeError, match="`base` must be a Distribution, got float"):
        Supported(1.0, 0.0, 1.0)
