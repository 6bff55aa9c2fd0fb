"""What is particular to a family: closed forms, tails, parameters that are refused."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from skuq.distributions import (
    Concatenated,
    Empirical,
    LevelMap,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    Recalibrated,
    ScipyDistribution,
    StudentT,
    Transformed,
    affine,
    as_distribution,
    concat,
)
from skuq.exceptions import NoDecompositionError, NoDensityError


def test_normal_tails_are_exact():
    mpmath = pytest.importorskip("mpmath")
    for z in (-37.0, -20.0, -8.5):
        expected = float(mpmath.ncdf(z))
        assert Normal(10.0, 2.0).cdf(10 + 2 * z)[0] == pytest.approx(expected, rel=1e-12)
        assert Normal(10.0, 2.0)._sf(np.array([10 - 2 * z]))[0] == pytest.approx(expected, rel=1e-12)
    assert Normal(0.0, 1.0).ppf(1e-300)[0] == pytest.approx(-37.0471, abs=1e-4)
    np.testing.assert_allclose(Normal(0.0, 1.0).cdf(Normal(0.0, 1.0).ppf(1e-300)), 1e-300, rtol=1e-9)
    np.testing.assert_allclose(Normal(0.0, 1.0).logpdf(1e200), -np.inf)


def test_student_tails_are_exact():
    mpmath = pytest.importorskip("mpmath")
    for df, t in ((3.0, -1e60), (5.0, -1e20), (30.0, -60.0), (2.5, -0.2)):
        x = df / (df + mpmath.mpf(t) ** 2)
        expected = float(mpmath.betainc(df / 2, 0.5, 0, x, regularized=True) / 2)
        assert StudentT(0.0, 1.0, df).cdf(t)[0] == pytest.approx(expected, rel=1e-10)
    for p in (1e-300, 1e-30, 0.3):
        np.testing.assert_allclose(StudentT(1.0, 2.0, 4.0).cdf(StudentT(1.0, 2.0, 4.0).ppf(p)), p, rtol=1e-9)


def test_tails_survive_recalibration_transformation_and_mixing():
    level_map = LevelMap([0.2, 0.8], [0.1, 0.9])
    base = Normal(0.0, 1.0)
    for dist in (
        Recalibrated(base, level_map),
        Transformed(base, np.exp, np.log),
        NormalMixture([[0.0, 1.0]], 1.0),
    ):
        np.testing.assert_allclose(dist.cdf(dist.ppf(1e-300)), 1e-300, rtol=1e-6)
        np.testing.assert_allclose(dist._sf(dist._isf(np.asarray(1e-300))), 1e-300, rtol=1e-6)
    beyond = special.ndtr(-20.0 + special.ndtri(0.1) - special.ndtri(0.2))  # slope 1 in normal scores
    assert Recalibrated(base, level_map).cdf(-20.0)[0] == pytest.approx(beyond, rel=1e-10)
    quantiles = Quantiles([0.1, 0.9], [[0.0, 1.0]])
    np.testing.assert_allclose(quantiles.cdf(quantiles.ppf(1e-300)), 1e-300, rtol=1e-9)
    np.testing.assert_allclose(quantiles._sf(quantiles._isf(np.asarray(1e-300))), 1e-300, rtol=1e-9)


@pytest.mark.parametrize("df", [1.2, 2.0, 5.0, 400.0])
def test_student_against_scipy_and_scoringrules(df):
    sr = pytest.importorskip("scoringrules")
    y = np.linspace(-30, 40, 41)
    ours, theirs = StudentT(np.full(41, 1.0), 2.0, df), stats.t(df, 1.0, 2.0)
    np.testing.assert_allclose(ours.cdf(y), theirs.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(ours.logpdf(y), theirs.logpdf(y), rtol=1e-9)
    np.testing.assert_allclose(ours.std(), theirs.std())
    np.testing.assert_allclose(ours.crps(y), sr.crps_t(y, df, 1.0, 2.0), rtol=1e-9)


def test_student_with_heavy_tails():
    cauchy = StudentT([0.0, 0.0], 1.0, [1.0, 3.0])
    with pytest.raises(ValueError, match="mean only for `df` above 1, got 1 at row 0"):
        cauchy.mean()
    np.testing.assert_array_equal(StudentT(0.0, 1.0, 1.5).std(), np.inf)
    # CRPS of the standard Cauchy distribution at its center: int F^2 + (1 - F)^2 = 2 log(2) / pi
    np.testing.assert_allclose(cauchy.crps(0.0)[0], 2 * np.log(2) / np.pi, rtol=1e-9)
    np.testing.assert_array_equal(StudentT(0.0, 1.0, 0.4).crps(0.0), np.inf)


def test_closed_crps_against_scoringrules():
    sr = pytest.importorskip("scoringrules")
    rng = np.random.default_rng(3)
    y, loc, scale = rng.normal(size=50), rng.normal(size=(50, 4)), 0.1 + rng.random((50, 4))
    np.testing.assert_allclose(
        Normal(loc[:, 0], scale[:, 0]).crps(y), sr.crps_normal(y, loc[:, 0], scale[:, 0]), rtol=1e-12
    )
    weights = rng.dirichlet(np.ones(4), size=50)
    np.testing.assert_allclose(
        NormalMixture(loc, scale, weights).crps(y), sr.crps_mixnorm(y, loc, scale, weights), rtol=1e-9
    )
    np.testing.assert_allclose(Empirical(loc).crps(y), sr.crps_ensemble(y, loc, estimator="nrg"), rtol=1e-12)
    np.testing.assert_allclose(
        Empirical(loc, weights).crps(y), sr.crps_ensemble(y, loc, ens_w=weights, estimator="nrg"), rtol=1e-12
    )
    gamma = ScipyDistribution(stats.gamma(a=np.full(50, 2.0), scale=0.5))
    np.testing.assert_allclose(gamma.crps(np.abs(y)), sr.crps_gamma(np.abs(y), 2.0, rate=2.0), rtol=1e-9)
    poisson = ScipyDistribution(stats.poisson(mu=np.full(50, 3.0)))
    np.testing.assert_allclose(
        poisson.crps(np.round(np.abs(3 * y))), sr.crps_poisson(np.round(np.abs(3 * y)), 3.0), rtol=1e-9
    )
    lognormal = Transformed(Normal(loc[:, 0], scale[:, 0]), np.exp, np.log)
    np.testing.assert_allclose(
        lognormal.crps(np.exp(y)), sr.crps_lognormal(np.exp(y), loc[:, 0], scale[:, 0]), rtol=1e-9
    )


@pytest.mark.parametrize("df", [None, 4.0])
def test_recalibrated_moments_against_a_fine_integral(df):
    base = Normal([1e6], [2.0]) if df is None else StudentT([1e6], [2.0], df)
    level_map = LevelMap([0.05, 0.3, 0.6, 0.95], [0.1, 0.2, 0.7, 0.9])
    dist = Recalibrated(base, level_map)
    family = stats.norm() if df is None else stats.t(df)

    def integral(power):
        from scipy.integrate import quad

        x, g = special.ndtri(level_map.levels[1:-1]), special.ndtri(level_map.values[1:-1])
        x, g = np.r_[x[0] - 40, x, x[-1] + 40], np.r_[g[0] - 40, g, g[-1] + 40]  # slope 1 beyond the knots
        values = [lambda z: family.ppf(special.ndtr(np.interp(z, g, x))) ** power * stats.norm.pdf(z)]
        values.append(lambda z: family.isf(special.ndtr(-np.interp(z, g, x))) ** power * stats.norm.pdf(z))
        edges = np.sort(np.r_[-37.0, g[1:-1], 0.0, 37.0])
        return sum(
            quad(values[int(a >= 0)], a, b, epsabs=1e-13, limit=200)[0] for a, b in itertools.pairwise(edges)
        )

    first, second = integral(1), integral(2)
    np.testing.assert_allclose(dist.mean() - 1e6, 2 * first, rtol=1e-7)
    np.testing.assert_allclose(dist.std(), 2 * np.sqrt(second - first**2), rtol=1e-9)


def test_recalibrated_infinite_variance_stays_infinite():
    dist = Recalibrated(StudentT(0.0, 1.0, 1.5), LevelMap([0.5], [0.4]))
    np.testing.assert_array_equal(dist.std(), np.inf)


def test_recalibrating_twice_composes_the_maps():
    inner, outer = LevelMap([0.2, 0.7], [0.3, 0.6]), LevelMap([0.5], [0.8])
    twice = Recalibrated(Recalibrated(Normal(0.0, 1.0), inner), outer)
    assert isinstance(twice.base, Normal)
    y = np.linspace(-3, 3, 13)
    rows = Recalibrated(Recalibrated(Normal(np.zeros(13), 1.0), inner), outer)
    np.testing.assert_allclose(rows.cdf(y), outer(inner(special.ndtr(y))), rtol=1e-12)


def test_recalibrated_empirical_moves_the_weights():
    dist = Recalibrated(Empirical([[1.0, 2.0, 3.0, 4.0]]), LevelMap([0.5], [0.8]))
    assert isinstance(dist, Empirical)
    shifted = special.ndtr(special.ndtri([0.25, 0.5, 0.75]) + special.ndtri(0.8))
    np.testing.assert_allclose(dist.weights, [np.diff([0.0, *shifted, 1.0])])


def test_transformed_density_without_a_known_derivative():
    log, exp = (np.log), (np.exp)
    blind = Transformed(Normal([0.5], [0.8]), exp, log)
    known = Transformed(Normal([0.5], [0.8]), np.exp, np.log)
    given = Transformed(Normal([0.5], [0.8]), exp, log, inverse_derivative=lambda y: 1 / y)
    for y in (1e-6, 0.1, 1.0, 1e4):
        expected = stats.lognorm(0.8, scale=np.exp(0.5)).logpdf(y)
        assert known.logpdf(y)[0] == pytest.approx(expected, rel=1e-12)
        assert given.logpdf(y)[0] == pytest.approx(expected, rel=1e-12)
        assert blind.logpdf(y)[0] == pytest.approx(expected, rel=1e-8)


def test_transformed_outside_its_support():
    price = Transformed(Normal([0.0], [1.0]), np.exp, np.log)
    np.testing.assert_array_equal(price.cdf(-1.0), 0.0)
    np.testing.assert_array_equal(price.logpdf(-1.0), -np.inf)
    debt = Transformed(Normal([0.0], [1.0]), lambda x: -np.exp(x), lambda y: np.log(-y))
    np.testing.assert_array_equal(debt.cdf(1.0), 1.0)


def test_transformed_density_at_the_end_of_its_support():
    base = Normal([0.0], [1.0])
    for func, inverse, end in (
        (np.exp, np.log, 0.0),
        (np.expm1, np.log1p, -1.0),
        (np.log, np.exp, np.inf),
        (np.cbrt, lambda y: y**3, np.inf),
    ):
        dist = Transformed(Normal([9.0], [0.1]) if func is np.log else base, func, inverse)
        np.testing.assert_array_equal(dist.logpdf(end), -np.inf)


def test_transformed_density_where_the_function_ends_close_by():
    # the step of the derivative must not leave the domain of a function without a known derivative
    dist = Transformed(ScipyDistribution(stats.gamma(2.0)), np.sqrt, lambda y: y * y)
    for y in (1e-3, 0.5):
        expected = stats.gamma(2.0).logpdf(y * y) + np.log(2 * y)
        assert dist.logpdf(y)[0] == pytest.approx(expected, abs=1e-6)
    arc = Transformed(ScipyDistribution(stats.uniform()), np.arcsin, np.sin)
    assert arc.logpdf(1.57)[0] == pytest.approx(np.log(np.cos(1.57)), abs=1e-4)
    assert arc.logpdf(np.pi / 2)[0] < -5  # at the very end the difference is one-sided


def test_transformed_point_masses_find_their_direction():
    falling = Transformed(Normal([1.0, 2.0], 0.0), np.reciprocal, np.reciprocal)
    np.testing.assert_array_equal(falling.cdf([0.9, 0.6]), [0.0, 1.0])
    np.testing.assert_allclose(falling.crps([3.0, 0.0]), [2.0, 0.5])


@pytest.mark.parametrize("func", [np.exp, np.sinh])
def test_transformed_heavy_tails_are_winsorized(func):
    inverse = {np.exp: np.log, np.sinh: np.arcsinh}[func]
    dist = Transformed(StudentT([0.0, 0.1], [0.2, 0.3], 6.0), func, inverse)
    levels = 1e-6 * np.exp(np.linspace(0, np.log(0.5e6), 200_001))  # from 1e-6 to the median
    values = [func(dist.base.loc[0] + 0.2 * stats.t(6).ppf(p)) for p in (levels, 1 - levels)]
    mean = sum(np.trapezoid(v, levels) + 1e-6 * v[0] for v in values)
    assert dist.mean()[0] == pytest.approx(mean, rel=1e-6, abs=1e-8)
    assert np.isfinite(dist.std()).all()
    # the definition, with the cdf a step at both ends
    grid = np.linspace(values[0][0], values[1][0], 400_001)
    cdf = dist.base[0]._cdf(inverse(grid))
    score = np.trapezoid((cdf - (grid >= 1.3)) ** 2, grid)
    assert dist.crps(1.3)[0] == pytest.approx(score, rel=1e-4)
    assert np.isfinite(dist.logpdf(1e3)).all()


def test_transformed_moments_of_a_lognormal():
    price = Transformed(Normal([0.2], [1.5]), np.exp, np.log)
    expected = stats.lognorm(1.5, scale=np.exp(0.2))
    assert price.mean()[0] == pytest.approx(expected.mean(), rel=1e-9)
    assert price.std()[0] == pytest.approx(expected.std(), rel=1e-9)


def test_transformed_refuses_what_is_no_monotone_elementwise_map():
    base = Normal([0.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="`func` must be defined at all values"):
        Transformed(Normal([0.0], [1.0]), np.sqrt, np.square).ppf(0.1)
    with pytest.raises(ValueError, match="increasing in all rows or decreasing in all rows"):
        Transformed(Normal([-3.0, 3.0], [1.0, 1.0]), np.square, np.sqrt)
    with pytest.raises(ValueError, match="elementwise"):
        Transformed(base, lambda x: x[:1], lambda x: x)
    with pytest.raises(TypeError, match="`inverse_func` must be callable"):
        Transformed(base, np.exp, None)
    with pytest.raises(TypeError, match="`base` must be a Distribution"):
        Transformed([0.0], np.exp, np.log)


def test_quantiles_at_their_own_levels_are_the_columns():
    rng = np.random.default_rng(0)
    levels, values = np.array([0.01, 0.1, 0.5, 0.9, 0.99]), rng.normal(size=(200, 5))
    dist = Quantiles(levels, values)
    for level, column in zip(levels, np.sort(values, axis=1).T, strict=True):
        np.testing.assert_array_equal(dist._ppf(np.asarray(level)), column)
        np.testing.assert_array_equal(dist._ppf(np.full(200, level)), column)
        np.testing.assert_array_equal(dist._isf(np.asarray(1 - level)), column)
        np.testing.assert_array_equal(dist._isf(np.full(200, 1 - level)), column)


def test_the_place_of_a_target_among_stored_levels_is_that_of_its_cdf():
    rng = np.random.default_rng(0)
    levels = np.array([0.1, 0.3, 0.5, 0.9])
    dist = Quantiles(levels, rng.normal(size=(500, 4)))
    y = rng.normal(size=500)
    y[:100] = dist.values[np.arange(100), np.arange(100) % 4]
    place, cdf = dist._cdf_between(y, levels), dist.cdf(y)
    for level in levels:
        np.testing.assert_array_equal(place < level, cdf < level)
    for level in levels[:-1]:  # above the last quantile the cdf is a difference from 1
        np.testing.assert_array_equal(place <= level, cdf <= level)
    assert dist._cdf_between(y, np.array([0.1, 0.2])) is None


def test_quantiles_by_hand():
    dist = Quantiles([0.25, 0.75], [[0.0, 2.0]])
    np.testing.assert_allclose(dist.cdf(1.0), 0.5)
    np.testing.assert_allclose(dist.pdf(1.0), 0.25)
    np.testing.assert_allclose(dist.pdf(-1e-12), 0.25)  # the slope goes on into the tail
    np.testing.assert_allclose(dist.cdf(-1.0), 0.25 * np.exp(-1.0))
    np.testing.assert_allclose(dist.mean(), 1.0)
    crossing = Quantiles([0.1, 0.5, 0.9], [[1.0, 0.0, 2.0]])
    np.testing.assert_array_equal(crossing.values, [[0.0, 1.0, 2.0]])


def test_quantiles_all_tied_is_a_point_mass():
    dist = Quantiles([0.1, 0.5, 0.9], [[3.0, 3.0, 3.0]])
    np.testing.assert_array_equal(dist.cdf(2.9), 0.0)
    np.testing.assert_array_equal(dist.cdf(3.0), 1.0)
    np.testing.assert_array_equal(dist.std(), 0.0)
    np.testing.assert_allclose(dist.crps(5.0), 2.0)
    np.testing.assert_array_equal(dist.quantile([0.0, 0.001, 1.0]), 3.0)


def test_empirical_by_hand():
    dist = Empirical([[4.0, 1.0, 2.0, 2.0]])
    np.testing.assert_array_equal(dist.cdf([2.0]), 0.75)
    np.testing.assert_array_equal(dist.quantile([0.0, 0.25, 0.26, 0.75, 0.76, 1.0]), [[1, 1, 2, 2, 4, 4]])
    weighted = Empirical([[5.0, 1.0, 3.0]], [0.0, 1.0, 3.0])
    np.testing.assert_array_equal(weighted.quantile([0.0, 0.25, 0.3, 1.0]), [[1, 1, 3, 3]])
    np.testing.assert_allclose(weighted.mean(), 2.5)
    repeated = Empirical([[1.0, 3.0, 3.0, 3.0]])
    np.testing.assert_allclose(weighted.crps(2.2), repeated.crps(2.2))
    np.testing.assert_allclose(weighted.std(), repeated.std())


def test_point_masses():
    for dist in (Normal([1.0, 1.0], [0.0, 1.0]), StudentT([1.0, 1.0], [0.0, 1.0], 3.0)):
        np.testing.assert_array_equal(dist.cdf([1.0, 1.0]), [1.0, 0.5])
        assert dist.cdf(np.nextafter(1.0, 0))[0] == 0.0
        assert dist.crps(4.0)[0] == 3.0
        np.testing.assert_array_equal(dist.quantile([0.0, 0.3, 1.0])[0], 1.0)
        assert dist.std()[0] == 0.0
        assert not dist.has_density


def test_decomposition_adds_up():
    normal = Normal([1.0], [5.0], epistemic_scale=[3.0])
    np.testing.assert_array_equal(normal.epistemic().scale, 3.0)
    np.testing.assert_array_equal(normal.epistemic().mean(), 1.0)
    np.testing.assert_array_equal(normal.aleatoric().scale, 4.0)
    np.testing.assert_array_equal(normal.aleatoric().mean(), 0.0)
    student = StudentT([1.0], [5.0], 7.0, epistemic_scale=3.0)
    np.testing.assert_array_equal(student.aleatoric().scale, 4.0)
    np.testing.assert_array_equal(student.epistemic().df, 7.0)
    stacked = concat([normal, student])
    np.testing.assert_array_equal(stacked.epistemic().interval(0.9)[0], normal.epistemic().interval(0.9)[0])
    np.testing.assert_array_equal(affine(normal, 1.0, -2.0).epistemic().scale, 6.0)
    np.testing.assert_array_equal(normal[[0, 0]].aleatoric().scale, 4.0)
    whole = Quantiles([0.1, 0.5, 0.8], [[0.0, 1.0, 4.0], [2.0, 2.0, 2.0]])
    quantiles = Quantiles(whole.levels, whole.values, epistemic_scale=0.6 * whole.std())
    np.testing.assert_array_equal(quantiles.epistemic().scale, 0.6 * whole.std())
    np.testing.assert_array_equal(quantiles.epistemic().mean(), whole.mean())
    np.testing.assert_allclose(quantiles.aleatoric().std(), 0.8 * whole.std())
    np.testing.assert_allclose(quantiles.aleatoric().mean(), 0.0, atol=1e-12)
    turned = affine(concat([quantiles[[1]], quantiles]), 1.0, -2.0)
    np.testing.assert_allclose(turned.epistemic().scale, 1.2 * whole.std()[[1, 0, 1]])
    for lost in (
        Normal([1.0], [5.0]),
        concat([normal, Normal([0.0], [1.0])]),
        Recalibrated(normal, LevelMap([0.5], [0.4])),
        Transformed(normal, np.exp, np.log),
        Mixture([normal, student]),
        whole,
        concat([quantiles, whole]),
    ):
        with pytest.raises(NoDecompositionError, match="does not separate"):
            lost.epistemic()
        with pytest.raises(NoDecompositionError):
            lost.aleatoric()


def test_mixtures_collapse_where_a_closed_form_exists():
    normal, student, members = Normal([0.0], [1.0]), StudentT([0.0], [1.0], 3.0), Empirical([[1.0, 2.0]])
    nested = Mixture([normal, NormalMixture([[1.0, 2.0]], 1.0)], [0.5, 0.5])
    assert isinstance(nested, NormalMixture)
    np.testing.assert_allclose(nested.weights, [[0.5, 0.25, 0.25]])
    assert isinstance(Mixture([members, members]), Empirical)
    assert isinstance(Mixture([normal, student]), Mixture)


def test_concat_merges_what_it_can():
    left, right = Normal([0.0], [1.0]), Normal([1.0], [1.0], epistemic_scale=0.5)
    assert isinstance(concat([left, left]), Normal)
    assert isinstance(concat([left, right]), Concatenated)  # else a decomposition would be lost
    merged = concat([concat([left, right]), right])
    assert isinstance(merged, Concatenated)
    np.testing.assert_array_equal(merged.mean(), [0.0, 1.0, 1.0])
    assert concat([left]) is left
    np.testing.assert_array_equal(merged[[2, 1]].epistemic().std(), 0.5)
    nested = Concatenated([merged, StudentT([9.0], 1.0, 3.0)], [3, 0, 2])
    assert not any(isinstance(part, Concatenated) for part in nested.parts)
    np.testing.assert_array_equal(nested.mean(), [9.0, 0.0, 1.0])
    np.testing.assert_array_equal(concat([nested, left]).mean(), [9.0, 0.0, 1.0, 0.0])


def test_affine_with_zero_is_a_point_mass():
    assert isinstance(affine(StudentT([1.0], [1.0], 3.0), 2.0, 0.0), Normal)
    with pytest.raises(ValueError, match="`factor` must be nonzero in every row"):
        affine(Transformed(Normal([0.0, 0.0], 1.0), np.exp, np.log), 0.0, [0.0, 1.0])
    with pytest.raises(ValueError, match="`shift` must be a number or have shape"):
        affine(Normal([0.0, 0.0], 1.0), [1.0, 2.0, 3.0], 1.0)


def test_as_distribution_takes_three_kinds():
    dist = Normal([0.0], [1.0])
    assert as_distribution(dist) is dist
    np.testing.assert_array_equal(as_distribution(([1.0, 2.0], 3.0)).scale, 3.0)
    frozen = as_distribution(stats.gumbel_r(loc=[0.0, 1.0]))
    np.testing.assert_allclose(frozen.ppf(0.3), stats.gumbel_r(loc=[0.0, 1.0]).ppf(0.3))
    with pytest.raises(TypeError, match=r"got ndarray of shape \(3, 2\)"):
        as_distribution(np.zeros((3, 2)))
    with pytest.raises(TypeError, match="got list"):
        as_distribution([[0.0], [1.0]])
    with pytest.raises(ValueError, match=r"must be \(loc, scale\) if it is a tuple, got 3"):
        as_distribution(([0.0], [1.0], [2.0]))


def test_scipy_parameters_are_copied():
    scale = np.array([1.0, 2.0])
    dist = ScipyDistribution(stats.gumbel_r(0.0, scale))
    scale[:] = 7.0
    np.testing.assert_allclose(dist.std()[1], 2 * dist.std()[0])
    with pytest.raises(ValueError, match="no mean"):
        ScipyDistribution(stats.cauchy()).mean()


BAD = [
    (lambda: Normal([0.0, np.nan], 1.0), ValueError, "`loc` must be finite, got nan at row 1"),
    (lambda: Normal([0.0, np.inf], 1.0), ValueError, "`loc` must be finite, got inf at row 1"),
    (lambda: Normal([0.0, 0.0], [1.0, -0.3]), ValueError, "`scale` must be non-negative, got -0.3 at row 1"),
    (lambda: Normal([0.0, 0.0], [1.0, 1.0, 1.0]), ValueError, "`loc` must have 3 rows"),
    (lambda: Normal([], []), ValueError, "at least one row"),
    (lambda: Normal(["a"], 1.0), TypeError, "`loc` must hold real numbers"),
    (lambda: Normal([1j], 1.0), TypeError, "`loc` must hold real numbers"),
    (lambda: Normal([[0.0]], 1.0), ValueError, "`loc` must be a number or have shape"),
    (lambda: Normal([0.0], 1.0, 2.0), ValueError, "`epistemic_scale` must not exceed `scale`"),
    (lambda: Normal([0.0], 1.0, [-1.0]), ValueError, "`epistemic_scale` must be non-negative"),
    (
        lambda: Quantiles([0.2, 0.8], [[0.0, 1.0]], 9.0),
        ValueError,
        "`epistemic_scale` must not exceed the standard deviation",
    ),
    (lambda: StudentT([0.0], 1.0, 0.0), ValueError, "`df` must be positive, got 0.0 at row 0"),
    (lambda: NormalMixture([0.0], [1.0]), ValueError, r"`loc` must have shape \(n, m\)"),
    (
        lambda: NormalMixture([[0.0, 1.0]], [[1.0, 1.0, 1.0]]),
        ValueError,
        "`scale` must have the shape of `loc`",
    ),
    (lambda: NormalMixture([[0.0, 1.0]], -1.0), ValueError, "`scale` must be non-negative"),
    (lambda: NormalMixture([[0.0, 1.0]], 1.0, [1.0]), ValueError, "`weights` must have shape"),
    (lambda: NormalMixture([[0.0, 1.0]], 1.0, [0.0, 0.0]), ValueError, "`weights` must have a positive sum"),
    (lambda: NormalMixture([[0.0, 1.0]], 1.0, [2.0, -1.0]), ValueError, "`weights` must be non-negative"),
    (lambda: Empirical([[np.nan]]), ValueError, "`members` must be finite"),
    (lambda: Empirical(np.zeros((0, 3))), ValueError, r"`members` must have shape \(n, m\)"),
    (lambda: Quantiles([0.5], [[1.0]]), ValueError, "at least two levels"),
    (lambda: Quantiles([0.9, 0.1], [[1.0, 2.0]]), ValueError, "`levels` must be strictly increasing"),
    (lambda: Quantiles([0.1, 1.0], [[1.0, 2.0]]), ValueError, "strictly between 0 and 1"),
    (lambda: Quantiles([0.1, 0.9], [[1.0, 2.0, 3.0]]), ValueError, "one column per level"),
    (lambda: Mixture([]), ValueError, "at least one distribution"),
    (lambda: Mixture([Normal(0.0, 1.0), Normal([0.0, 1.0], 1.0)]), ValueError, "same number of rows"),
    (lambda: Mixture([Normal(0.0, 1.0), 3]), TypeError, "`components` must hold distributions, got int"),
    (lambda: LevelMap([0.5, 0.5], [0.2, 0.3]), ValueError, "`levels` must be strictly increasing"),
    (lambda: LevelMap([0.4, 0.5], [0.3, 0.3]), ValueError, "`values` must be strictly increasing"),
    (lambda: LevelMap([0.4, 0.5], [0.3]), ValueError, "equal length"),
    (lambda: LevelMap([1.4], [0.3]), ValueError, r"`levels` must lie in \[0, 1\]"),
    (lambda: Recalibrated(Normal(0.0, 1.0), np.sqrt), TypeError, "`level_map` must be a LevelMap"),
    (lambda: Recalibrated(3, LevelMap([0.5], [0.5])), TypeError, "`base` must be a Distribution"),
    (lambda: ScipyDistribution(stats.gamma), TypeError, "`frozen` must be a frozen scipy.stats distribution"),
    (lambda: ScipyDistribution(stats.gamma(a=[1.0, -1.0])), ValueError, "scipy rejects gamma.* at row 1"),
    (lambda: ScipyDistribution(stats.norm(0, np.ones((2, 2)))), ValueError, r"got shape \(2, 2\)"),
    (
        lambda: Concatenated([Normal(0.0, 1.0)], [1]),
        ValueError,
        "`order` must contain row numbers from 0 to 0",
    ),
    (lambda: Concatenated([Normal(0.0, 1.0)], []), ValueError, "`order` must be a non-empty"),
    (lambda: concat([]), ValueError, "at least one distribution"),
    (lambda: concat([Normal(0.0, 1.0), "x"]), TypeError, "`parts` must hold distributions, got str"),
    (lambda: concat(3), TypeError, "`parts` must be a sequence of distributions, got int"),
    (lambda: concat(Normal([0.0, 1.0], 1.0)), TypeError, "`parts` must be a sequence of distributions"),
    (lambda: Concatenated([3], [0]), TypeError, "`parts` must hold distributions, got int"),
    (lambda: Mixture(None), TypeError, "`components` must be a sequence of distributions, got NoneType"),
    (lambda: NormalMixture([[0.0, 1.0]], {}), TypeError, "`scale` must hold real numbers, got dict"),
    (
        lambda: NormalMixture([[0.0]], np.array(["2020"], "M8[Y]")),
        TypeError,
        "`scale` must hold real numbers",
    ),
    (lambda: affine([0.0], 1.0, 1.0), TypeError, "`dist` must be a Distribution, got list"),
    (lambda: as_distribution(Normal), TypeError, "got the class Normal"),
    (
        lambda: ScipyDistribution(stats.rv_discrete(values=([0.1, 0.5], [0.5, 0.5]))()),
        ValueError,
        "must have integer atoms.*Empirical",
    ),
]


@pytest.mark.parametrize(("build", "error", "message"), BAD)
def test_bad_parameters_are_named(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_sparse_input_is_refused():
    from scipy import sparse

    with pytest.raises(TypeError, match="dense"):
        Normal(sparse.csr_matrix([[0.0]]), 1.0)


def test_no_density_error_is_also_a_value_error():
    with pytest.raises(ValueError, match="Empirical has no density"):
        Empirical([[1.0]]).pdf(1.0)
    assert issubclass(NoDensityError, ValueError)


@pytest.mark.parametrize("df", [1.5, 3.0, 6.0, 9.0, 40.0])
def test_student_quantiles_far_in_the_tail(df):
    # scipy's stdtrit is infinite at 1e-300 for some df, so the tail has its own formula
    mpmath = pytest.importorskip("mpmath")
    for p in (1e-300, 1e-150, 1e-100):
        t = StudentT(0.0, 1.0, df).ppf(p)[0]
        x = df / (df + mpmath.mpf(t) ** 2)
        back = mpmath.betainc(df / 2, 0.5, 0, x, regularized=True) / 2
        assert float(back / mpmath.mpf(p)) == pytest.approx(1.0, rel=1e-9)


def _one_of_each(unit: float) -> list:
    loc, scale = unit * np.array([-1.0, 2.0]), unit * np.array([0.5, 3.0])
    normal, student = Normal(loc, scale), StudentT(loc, scale, [3.0, 5.0])
    level_map = LevelMap([0.2, 0.7], [0.1, 0.8])
    return [
        normal,
        student,
        Empirical(unit * np.array([[1.0, 2.0, 4.0], [0.0, -1.0, 5.0]])),
        NormalMixture(np.column_stack([loc, 2 * loc]), np.column_stack([scale, 3 * scale])),
        Quantiles([0.1, 0.5, 0.9], unit * np.array([[-1.0, 0.0, 2.0], [1.0, 2.0, 3.0]])),
        Mixture([normal, student]),
        ScipyDistribution(stats.gamma(a=[2.0, 3.0], scale=scale)),
        Recalibrated(student, level_map),
        Recalibrated(Mixture([normal, student]), level_map),
    ]


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_std_in_extreme_units(unit):
    # squares of such values are 0 or infinite
    for small, plain in zip(_one_of_each(unit), _one_of_each(1.0), strict=True):
        np.testing.assert_allclose(small.std() / unit, plain.std(), rtol=1e-9, err_msg=repr(plain))
        np.testing.assert_allclose(small.mean() / unit, plain.mean(), rtol=1e-9, err_msg=repr(plain))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_epistemic_parts_in_extreme_units(unit):
    def parts(unit):
        loc, scale, part = (
            unit * np.array([1.0, -2.0]),
            unit * np.array([2.0, 3.0]),
            unit * np.array([1.0, 3.0]),
        )
        values = unit * np.array([[-1.0, 0.0, 2.0], [1.0, 2.0, 9.0]])
        return [
            Normal(loc, scale, part),
            StudentT(loc, scale, 5.0, part),
            Quantiles([0.1, 0.5, 0.9], values, unit * np.array([0.4, 0.0])),
        ]

    for dist, plain in zip(parts(unit), parts(1.0), strict=True):
        for name in ("epistemic", "aleatoric"):
            part, expected = getattr(dist, name)(), getattr(plain, name)()
            np.testing.assert_allclose(part.std() / unit, expected.std(), rtol=1e-9)
            np.testing.assert_allclose(part.interval() / unit, expected.interval(), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(dist.var(), np.inf if unit > 1 else 0.0)


def test_a_component_without_weight_does_not_count():
    for idle in (StudentT(0.0, 1.0, 1.5), Normal(0.0, 1e300)):
        mixed = Mixture([Normal(3.0, 2.0), idle], [1.0, 0.0])
        np.testing.assert_allclose([mixed.mean()[0], mixed.std()[0]], [3.0, 2.0])


def test_discrete_distributions_are_integrated_exactly():
    # scipy's isf of a Poisson distribution is infinite or NaN at 1e-17
    base = ScipyDistribution(stats.poisson([3.0, 40.0]))
    same = LevelMap([0.5], [0.5])
    y = [2.0, 33.2]
    for dist in (Recalibrated(base, same), Mixture([base, base])):
        np.testing.assert_allclose(dist.crps(y), base.crps(y), rtol=1e-9)
        np.testing.assert_allclose(dist.mean(), base.mean(), rtol=1e-9)
        np.testing.assert_allclose(dist.std(), base.std(), rtol=1e-9)
    coin = ScipyDistribution(stats.rv_discrete(values=([1, 5], [0.5, 0.5]))())
    bent = LevelMap([0.5], [0.3])
    expected = Recalibrated(Empirical([[1.0, 5.0]]), bent)
    np.testing.assert_allclose(Recalibrated(coin, bent).crps(2.0), expected.crps(2.0))
    np.testing.assert_allclose(Recalibrated(coin, bent).mean(), expected.mean())


def test_discrete_rows_do_not_depend_on_their_neighbors():
    level_map = LevelMap([0.2, 0.7], [0.1, 0.8])
    both = Recalibrated(ScipyDistribution(stats.poisson([3.0, 1e6])), level_map)
    np.testing.assert_array_equal(both.crps([2.0, 1e6])[:1], both[:1].crps([2.0]))
    assert both.mean()[1] == pytest.approx(
        1e6 + 1e3 * Recalibrated(Normal(0.0, 1.0), level_map).mean()[0], rel=1e-6
    )


def test_discrete_crps_with_a_shift_between_the_integers():
    shifted = ScipyDistribution(stats.poisson(3.0, loc=0.5))
    np.testing.assert_allclose(shifted.crps(2.25), ScipyDistribution(stats.poisson(3.0)).crps(1.75))


class TestEnsembleOfAnyFamilies:
    """Components that separate their uncertainty: the spread between them is epistemic."""

    parts = (Normal([0.0, 1.0], 2.0, 1.0), Normal([3.0, 1.0], 1.0, 0.5))
    students = (StudentT([0.0, 1.0], 2.0, 5.0, 1.0), Normal([3.0, 1.0], 1.0, 0.5))

    @pytest.mark.parametrize("parts", [parts, students])
    def test_the_spread_between_components_is_epistemic(self, parts):
        dist = Mixture(parts, [0.25, 0.75], ensemble=True)
        within = 0.25 * parts[0].epistemic().var() + 0.75 * parts[1].epistemic().var()
        between = [0.25 * 0.75 * 3.0**2, 0.0]
        np.testing.assert_allclose(dist.epistemic().var(), within + between)
        np.testing.assert_allclose(dist.epistemic().mean(), dist.mean())
        np.testing.assert_allclose(dist.aleatoric().mean(), 0.0, atol=1e-12)
        np.testing.assert_allclose(dist.epistemic().var() + dist.aleatoric().var(), dist.var())

    def test_nothing_else_changes(self):
        plain, ensemble = (Mixture(self.parts, [0.25, 0.75], ensemble) for ensemble in (False, True))
        assert isinstance(plain, NormalMixture)
        y = np.array([0.5, 4.0])
        for method in ("cdf", "logpdf", "crps"):
            np.testing.assert_allclose(getattr(ensemble, method)(y), getattr(plain, method)(y), rtol=1e-9)
        np.testing.assert_allclose(ensemble.std(), plain.std())
        np.testing.assert_allclose(ensemble.interval(), plain.interval(), rtol=1e-9)

    def test_rows_stacks_and_rescaled_ones_keep_the_parts(self):
        dist = Mixture(self.parts, [0.25, 0.75], ensemble=True)
        std = dist.epistemic().std()
        np.testing.assert_allclose(dist[[1]].epistemic().std(), std[[1]])
        np.testing.assert_allclose(concat([dist, dist]).epistemic().std(), np.tile(std, 2))
        np.testing.assert_allclose(affine(dist, 5.0, -2.0).epistemic().std(), 2 * std)

    def test_components_that_do_not_separate_raise(self):
        for dist in (
            Mixture([self.parts[0], Normal(0.0, [1.0, 1.0])], ensemble=True),
            Mixture(self.students),
        ):
            with pytest.raises(NoDecompositionError):
                dist.epistemic()
            with pytest.raises(NoDecompositionError):
                dist.aleatoric()

    def test_the_flag_is_true_or_false(self):
        with pytest.raises(ValueError, match="`ensemble` must be one of True, False"):
            Mixture(self.parts, ensemble="yes")


class TestEnsembleOfNormals:
    """Members that are models of one ensemble: the spread of their means is epistemic."""

    loc, scale = [[-1.0, 1.0], [0.0, 4.0]], [[0.5, 0.5], [1.0, 2.0]]

    def test_the_variances_of_the_parts_add_up(self):
        dist = NormalMixture(self.loc, self.scale, ensemble=True)
        np.testing.assert_allclose(dist.epistemic().mean(), dist.mean())
        np.testing.assert_allclose(dist.aleatoric().mean(), 0.0)
        parts = dist.epistemic().std() ** 2 + dist.aleatoric().std() ** 2
        np.testing.assert_allclose(parts, dist.std() ** 2)

    def test_rows_stacks_and_rescaled_ones_keep_the_parts(self):
        dist = NormalMixture(self.loc, self.scale, ensemble=True)
        np.testing.assert_allclose(dist[[1]].epistemic().std(), 2.0)
        np.testing.assert_allclose(concat([dist, dist]).epistemic().std(), [1, 2, 1, 2])
        np.testing.assert_allclose(affine(dist, 5.0, -2.0).epistemic().std(), [2, 4])

    def test_other_mixtures_have_no_parts(self):
        dist = NormalMixture(self.loc, self.scale)
        with pytest.raises(NoDecompositionError):
            dist.epistemic()
        with pytest.raises(NoDecompositionError):
            dist.aleatoric()
        mixed = concat([dist, NormalMixture(self.loc, self.scale, ensemble=True)])
        with pytest.raises(NoDecompositionError):
            mixed.epistemic()
