"""What is particular to a family: closed forms, tails, and rare branches."""

import inspect
import itertools
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from skuq.distributions import (
    Distribution,
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    Transformed,
    Truncated,
    affine,
    as_distribution,
    concat,
)
from skuq.distributions._beta_recalibrated import BetaRecalibrated
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.exceptions import NoDecompositionError, NoDensityError
from skuq.multivariate import CopulaJoint, EmpiricalJoint, NormalJoint


def test_normal_tails_are_exact():
    mpmath = pytest.importorskip("mpmath")
    for z in (-37.0, -20.0, -8.5):
        expected = float(mpmath.ncdf(z))
        assert Normal(10.0, 2.0).cdf(10 + 2 * z)[0] == pytest.approx(expected, rel=1e-12)
        assert Normal(10.0, 2.0)._sf(np.array([10 - 2 * z]))[0] == pytest.approx(expected, rel=1e-12)
    assert Normal(0.0, 1.0).ppf(1e-300)[0] == pytest.approx(-37.0471, abs=1e-4)
    assert_allclose(Normal(0.0, 1.0).cdf(Normal(0.0, 1.0).ppf(1e-300)), 1e-300, rtol=1e-9)
    assert_allclose(Normal(0.0, 1.0).logpdf(1e200), -np.inf)


def test_tails_survive_recalibration_transformation_and_mixing():
    level_map = LevelMap([0.2, 0.8], [0.1, 0.9])
    base = Normal(0.0, 1.0)
    for dist in (
        Recalibrated(base, level_map),
        Transformed(base, np.exp, np.log),
        NormalMixture([[0.0, 1.0]], 1.0),
    ):
        assert_allclose(dist.cdf(dist.ppf(1e-300)), 1e-300, rtol=1e-6)
        assert_allclose(dist._sf(dist._isf(np.asarray(1e-300))), 1e-300, rtol=1e-6)
    beyond = special.ndtr(-20.0 + special.ndtri(0.1) - special.ndtri(0.2))  # slope 1 in normal scores
    assert Recalibrated(base, level_map).cdf(-20.0)[0] == pytest.approx(beyond, rel=1e-10)
    quantiles = Quantiles([0.1, 0.9], [[0.0, 1.0]])
    assert_allclose(quantiles.cdf(quantiles.ppf(1e-300)), 1e-300, rtol=1e-9)
    assert_allclose(quantiles._sf(quantiles._isf(np.asarray(1e-300))), 1e-300, rtol=1e-9)


def test_closed_crps_against_scoringrules():
    sr = pytest.importorskip("scoringrules")
    rng = np.random.default_rng(3)
    y, loc, scale = rng.normal(size=50), rng.normal(size=(50, 4)), 0.1 + rng.random((50, 4))
    assert_allclose(
        Normal(loc[:, 0], scale[:, 0]).crps(y), sr.crps_normal(y, loc[:, 0], scale[:, 0]), rtol=1e-12
    )
    weights = rng.dirichlet(np.ones(4), size=50)
    assert_allclose(
        NormalMixture(loc, scale, weights).crps(y), sr.crps_mixnorm(y, loc, scale, weights), rtol=1e-9
    )
    assert_allclose(Empirical(loc).crps(y), sr.crps_ensemble(y, loc, estimator="nrg"), rtol=1e-12)
    assert_allclose(
        Empirical(loc, weights).crps(y), sr.crps_ensemble(y, loc, ens_w=weights, estimator="nrg"), rtol=1e-12
    )
    gamma = ScipyDistribution(stats.gamma(a=np.full(50, 2.0), scale=0.5))
    assert_allclose(gamma.crps(np.abs(y)), sr.crps_gamma(np.abs(y), 2.0, rate=2.0), rtol=1e-9)
    poisson = ScipyDistribution(stats.poisson(mu=np.full(50, 3.0)))
    assert_allclose(
        poisson.crps(np.round(np.abs(3 * y))), sr.crps_poisson(np.round(np.abs(3 * y)), 3.0), rtol=1e-9
    )
    lognormal = Transformed(Normal(loc[:, 0], scale[:, 0]), np.exp, np.log)
    assert_allclose(
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
    assert_allclose(dist.mean() - 1e6, 2 * first, rtol=1e-7)
    assert_allclose(dist.std(), 2 * np.sqrt(second - first**2), rtol=1e-9)


def test_recalibrating_twice_composes_the_maps():
    inner, outer = LevelMap([0.2, 0.7], [0.3, 0.6]), LevelMap([0.5], [0.8])
    twice = Recalibrated(Recalibrated(Normal(0.0, 1.0), inner), outer)
    assert isinstance(twice.base, Normal)
    y = np.linspace(-3, 3, 13)
    rows = Recalibrated(Recalibrated(Normal(np.zeros(13), 1.0), inner), outer)
    assert_allclose(rows.cdf(y), outer(inner(special.ndtr(y))), rtol=1e-12)


def test_recalibrated_empirical_moves_the_weights():
    dist = Recalibrated(Empirical([[1.0, 2.0, 3.0, 4.0]]), LevelMap([0.5], [0.8]))
    assert isinstance(dist, Empirical)
    shifted = special.ndtr(special.ndtri([0.25, 0.5, 0.75]) + special.ndtri(0.8))
    assert_allclose(dist.weights, [np.diff([0.0, *shifted, 1.0])])


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


def test_transformed_moments_and_ends_of_the_support():
    price = Transformed(Normal([0.2], [1.5]), np.exp, np.log)
    expected = stats.lognorm(1.5, scale=np.exp(0.2))
    assert price.mean()[0] == pytest.approx(expected.mean(), rel=1e-9)
    assert price.std()[0] == pytest.approx(expected.std(), rel=1e-9)
    assert_array_equal([price.cdf(-1.0), price.logpdf(-1.0)], [[0.0], [-np.inf]])
    base = Normal([0.0], [1.0])
    debt = Transformed(base, lambda x: -np.exp(x), lambda y: np.log(-y))
    assert_array_equal(debt.cdf(1.0), 1.0)
    for dist, end in (
        (Transformed(base, np.exp, np.log), 0.0),
        (Transformed(base, np.expm1, np.log1p), -1.0),
        (Transformed(Normal([9.0], [0.1]), np.log, np.exp), np.inf),
        (Transformed(base, np.cbrt, lambda y: y**3), np.inf),
    ):
        assert_array_equal(dist.logpdf(end), -np.inf)


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
    assert_array_equal(falling.cdf([0.9, 0.6]), [0.0, 1.0])
    assert_allclose(falling.crps([3.0, 0.0]), [2.0, 0.5])


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


def test_pools_winsorize_members_without_a_mean():
    heavy = Transformed(StudentT([0.0], [0.3], 6.0), np.exp, np.log)
    t = stats.t(6, 0.0, 0.3)
    logs = np.linspace(t.ppf(1e-6), t.isf(1e-6), 40_001)
    x = np.unique([-12.0, -6.0, 0.7, 8.0, 20.0, *np.exp(logs), *np.linspace(-12.0, 20.0, 20_001)])
    middle = (x[1:] + x[:-1]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        cdf = np.where(middle > 0, t.cdf(np.log(middle)), 0.0)
    cdf = np.where(middle < np.exp(logs[0]), 0.0, np.where(middle > np.exp(logs[-1]), 1.0, cdf))
    pooled = 0.6 * cdf + 0.4 * stats.norm.cdf(middle, 1.0, 2.0)
    expected = np.diff(x) @ (pooled - (middle >= 0.7)) ** 2
    normal = Normal([1.0], 2.0)
    stacked = concat([heavy, normal])[[0]]
    for member in (heavy, affine(affine(heavy, 1.0, -2.0), 0.5, -0.5), stacked, heavy.clip(lower=0.0)):
        pool = Mixture([member, normal], [0.6, 0.4])
        assert_allclose(pool.crps(0.7), expected, rtol=2e-6)
        assert_allclose(pool.mean(), 0.6 * heavy.mean() + 0.4, rtol=1e-9)
    assert np.isfinite(Mixture([pool, Quantiles([0.2, 0.8], [[0.0, 1.0]])]).crps(0.7)).all()
    assert_allclose(Mixture([heavy]).crps(0.7), heavy.crps(0.7), rtol=1e-9)
    endless = Transformed(StudentT(0.0, 1.0, 3.0), np.exp, np.log)
    assert_array_equal(Truncated(endless, 1.0).crps(2.0), np.inf)


def test_an_extreme_winsorized_transform_against_a_dense_sum():
    logs = np.linspace(stats.t(3).ppf(1e-6), stats.t(3).isf(1e-6), 100_001)
    values, density = np.exp(logs - logs[-1]), stats.t(3).pdf(logs)
    mean = np.trapezoid(values * density, logs) + 1e-6 * (1 + values[0])
    square = np.trapezoid(values**2 * density, logs) + 1e-6 * (1 + values[0] ** 2)
    dist = Transformed(StudentT(0.0, 1.0, 3.0), np.exp, np.log)
    assert_allclose(dist.mean() / np.exp(logs[-1]), mean, rtol=1e-7)
    assert_allclose(dist.std() / np.exp(logs[-1]), np.sqrt(square - mean**2), rtol=1e-7)
    assert_allclose(dist.crps(1.0), np.trapezoid(stats.t(3).sf(logs) ** 2 * np.exp(logs), logs), rtol=1e-6)


def test_a_pool_of_one_member_has_its_moments_and_its_crps():
    heavy = Transformed(StudentT([0.0], 0.3, 6.0), np.exp, np.log)
    mapped = Recalibrated(heavy, LevelMap([0.2, 0.8], [0.1, 0.9]))
    endless = mapped, BetaRecalibrated(heavy, 1.2, 0.9, 0.1)
    for member in (heavy, heavy.clip(lower=0.4), Truncated(heavy, 0.5, 9.0), *endless):
        pool = Mixture([member])
        assert_allclose(pool.mean(), member.mean(), rtol=1e-9)
        assert_allclose(pool.crps(0.7), member.crps(0.7), rtol=1e-9)
    assert np.isinf([[each.mean()[0], each.crps(0.7)[0]] for each in endless]).all()


def test_a_truncated_variable_without_a_mean_has_an_infinite_crps_in_a_pool():
    member = affine(Truncated(Transformed(StudentT([0.0], 1.0, 3.0), np.exp, np.log), 0.5), 1.0, -2.0)
    assert_array_equal(Mixture([member]).crps(0.7), np.inf)
    assert_array_equal(Mixture([member]).mean(), -np.inf)
    assert_array_equal(Hurdle([0.3], member).std(), np.inf)
    assert_array_equal(Hurdle([1.0], member).std(), 0.0)


def test_rows_with_a_mean_keep_it_beside_winsorized_rows():
    dist = Transformed(StudentT([0.0, 1.0, 2.0], 0.3, [6.0, 1e6, 6.0]), np.exp, np.log)
    methods = Transformed.mean, Transformed.std, lambda rows: rows.crps(1.5)
    for method in (*methods, lambda rows: rows._mean_distance(np.ones(len(rows)))):
        alone = [method(dist[[row]])[0] for row in range(3)]
        assert_allclose(method(dist), alone, rtol=1e-12)
    assert_allclose(dist.mean()[1], np.exp(1.045), rtol=1e-5)


def test_members_of_weight_zero_have_no_influence():
    far = [0.1, 0.2, 1e16, 2e16, 3e16]
    pool = Mixture([Empirical([far[:2]]), Empirical([far[2:]])], [1.0, 0.0])
    for dist in (Empirical([far], [0.5, 0.5, 0.0, 0.0, 0.0]), pool):
        assert_allclose([dist.mean(), dist.std(), dist.crps(0.1)], [[0.15], [0.05], [0.025]], rtol=1e-13)


def test_a_hurdle_without_a_mean_has_a_crps():
    dist = Hurdle([0.2], StudentT([0.0], 1.0, 1.0), 0.5)
    x = np.sort(np.append(np.sinh(np.linspace(-25.0, 25.0, 50_001)), [0.5, 0.7]))
    middle = (x[1:] + x[:-1]) / 2
    rows = dist[np.zeros(middle.size, dtype=int)]
    expected = np.diff(x) @ np.where(middle < 0.7, rows.cdf(middle), rows.sf(middle)) ** 2
    assert_allclose(dist.crps(0.7), expected, rtol=1e-6)
    endless = Hurdle([0.2, 1.0], StudentT(0.0, 1.0, [0.4, 0.4]))
    assert_array_equal(endless.crps(0.7), [np.inf, 0.7])


def test_transformed_refuses_what_is_no_monotone_elementwise_map():
    base = Normal([0.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="`func` must be defined at all values"):
        Transformed(Normal([0.0], [1.0]), np.sqrt, np.square).ppf(0.1)
    families = concat([Normal([-3.0], [1.0]), StudentT([3.0], 1.0, 5.0)])
    for both in (Normal([-3.0, 3.0], [1.0, 1.0]), families):
        with pytest.raises(ValueError, match="increasing in all rows or decreasing in all rows"):
            Transformed(both, np.square, np.sqrt)
    with pytest.raises(ValueError, match="elementwise"):
        Transformed(base, lambda x: x[:1], lambda x: x)


def test_quantiles_at_their_own_levels_are_the_columns():
    rng = np.random.default_rng(0)
    levels, values = np.array([0.01, 0.1, 0.5, 0.9, 0.99]), rng.normal(size=(200, 5))
    dist = Quantiles(levels, values)
    for level, column in zip(levels, np.sort(values, axis=1).T, strict=True):
        assert_array_equal(dist._ppf(np.asarray(level)), column)
        assert_array_equal(dist._ppf(np.full(200, level)), column)
        assert_array_equal(dist._isf(np.asarray(1 - level)), column)
        assert_array_equal(dist._isf(np.full(200, 1 - level)), column)


def test_the_place_of_a_target_among_stored_levels_is_that_of_its_cdf():
    rng = np.random.default_rng(0)
    levels = np.array([0.1, 0.3, 0.5, 0.9])
    dist = Quantiles(levels, rng.normal(size=(500, 4)))
    y = rng.normal(size=500)
    y[:100] = dist.values[np.arange(100), np.arange(100) % 4]
    place, cdf = dist._cdf_between(y, levels), dist.cdf(y)
    for level in levels:
        assert_array_equal(place < level, cdf < level)
    for level in levels[:-1]:  # above the last quantile the cdf is a difference from 1
        assert_array_equal(place <= level, cdf <= level)
    assert dist._cdf_between(y, np.array([0.1, 0.2])) is None


def test_quantiles_by_hand():
    dist = Quantiles([0.25, 0.75], [[0.0, 2.0]])
    assert_allclose(dist.cdf(1.0), 0.5)
    assert_allclose(dist.pdf(1.0), 0.25)
    assert_allclose(dist.pdf(-1e-12), 0.25)  # the slope goes on into the tail
    assert_allclose(dist.cdf(-1.0), 0.25 * np.exp(-1.0))
    assert_allclose(dist.mean(), 1.0)
    crossing = Quantiles([0.1, 0.5, 0.9], [[1.0, 0.0, 2.0]])
    assert_array_equal(crossing.values, [[0.0, 1.0, 2.0]])
    tied = Quantiles([0.1, 0.5, 0.9], [[3.0, 3.0, 3.0]])
    assert_array_equal([tied.cdf(2.9), tied.cdf(3.0), tied.std()], [[0.0], [1.0], [0.0]])
    assert_allclose(tied.crps(5.0), 2.0)
    assert_array_equal(tied.quantile([0.0, 0.001, 1.0]), 3.0)


def test_empirical_by_hand():
    dist = Empirical([[4.0, 1.0, 2.0, 2.0]])
    assert_array_equal(dist.cdf([2.0]), 0.75)
    assert_array_equal(dist.quantile([0.0, 0.25, 0.26, 0.75, 0.76, 1.0]), [[1, 1, 2, 2, 4, 4]])
    weighted = Empirical([[5.0, 1.0, 3.0]], [0.0, 1.0, 3.0])
    assert_array_equal(weighted.quantile([0.0, 0.25, 0.3, 1.0]), [[1, 1, 3, 3]])
    assert_allclose(weighted.mean(), 2.5)
    repeated = Empirical([[1.0, 3.0, 3.0, 3.0]])
    assert_allclose(weighted.crps(2.2), repeated.crps(2.2))
    assert_allclose(weighted.std(), repeated.std())


def test_point_masses():
    for dist in (Normal([1.0, 1.0], [0.0, 1.0]), StudentT([1.0, 1.0], [0.0, 1.0], 3.0)):
        assert_array_equal(dist.cdf([1.0, 1.0]), [1.0, 0.5])
        assert dist.cdf(np.nextafter(1.0, 0))[0] == 0.0
        assert dist.crps(4.0)[0] == 3.0
        assert_array_equal(dist.quantile([0.0, 0.3, 1.0])[0], 1.0)
        assert dist.std()[0] == 0.0
        assert not dist.has_density


def test_decomposition_adds_up():
    normal = Normal([1.0], [5.0], epistemic_scale=[3.0])
    assert_array_equal(normal.epistemic().scale, 3.0)
    assert_array_equal(normal.epistemic().mean(), 1.0)
    assert_array_equal(normal.aleatoric().scale, 4.0)
    assert_array_equal(normal.aleatoric().mean(), 0.0)
    student = StudentT([1.0], [5.0], 7.0, epistemic_scale=3.0)
    assert_array_equal(student.aleatoric().scale, 4.0)
    assert_array_equal(student.epistemic().df, 7.0)
    stacked = concat([normal, student])
    assert_array_equal(stacked.epistemic().interval(0.9)[0], normal.epistemic().interval(0.9)[0])
    assert_array_equal(affine(normal, 1.0, -2.0).epistemic().scale, 6.0)
    assert_array_equal(normal[[0, 0]].aleatoric().scale, 4.0)
    whole = Quantiles([0.1, 0.5, 0.8], [[0.0, 1.0, 4.0], [2.0, 2.0, 2.0]])
    quantiles = Quantiles(whole.levels, whole.values, epistemic_scale=0.6 * whole.std())
    assert_array_equal(quantiles.epistemic().scale, 0.6 * whole.std())
    assert_array_equal(quantiles.epistemic().mean(), whole.mean())
    assert_allclose(quantiles.aleatoric().std(), 0.8 * whole.std())
    assert_allclose(quantiles.aleatoric().mean(), 0.0, atol=1e-12)
    turned = affine(concat([quantiles[[1]], quantiles]), 1.0, -2.0)
    assert_allclose(turned.epistemic().scale, 1.2 * whole.std()[[1, 0, 1]])
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
    assert_allclose(nested.weights, [[0.5, 0.25, 0.25]])
    assert isinstance(Mixture([members, members]), Empirical)
    assert isinstance(Mixture([normal, student]), Mixture)


def test_concat_merges_what_it_can():
    left, right = Normal([0.0], [1.0]), Normal([1.0], [1.0], epistemic_scale=0.5)
    assert isinstance(concat([left, left]), Normal)
    assert isinstance(concat([left, right]), Concatenated)  # else a decomposition would be lost
    merged = concat([concat([left, right]), right])
    assert isinstance(merged, Concatenated)
    assert_array_equal(merged.mean(), [0.0, 1.0, 1.0])
    assert concat([left]) is left
    assert_array_equal(merged[[2, 1]].epistemic().std(), 0.5)
    nested = Concatenated([merged, StudentT([9.0], 1.0, 3.0)], [3, 0, 2])
    assert not any(isinstance(part, Concatenated) for part in nested.parts)
    assert_array_equal(nested.mean(), [9.0, 0.0, 1.0])
    assert_array_equal(concat([nested, left]).mean(), [9.0, 0.0, 1.0, 0.0])


def test_affine_with_zero_is_a_point_mass():
    assert isinstance(affine(StudentT([1.0], [1.0], 3.0), 2.0, 0.0), Normal)
    with pytest.raises(ValueError, match="`factor` must be nonzero in every row"):
        affine(Transformed(Normal([0.0, 0.0], 1.0), np.exp, np.log), 0.0, [0.0, 1.0])
    with pytest.raises(ValueError, match="`shift` must be a number or have shape"):
        affine(Normal([0.0, 0.0], 1.0), [1.0, 2.0, 3.0], 1.0)


def test_as_distribution_takes_two_kinds():
    dist = Normal([0.0], [1.0])
    assert as_distribution(dist) is dist
    frozen = as_distribution(stats.gumbel_r(loc=[0.0, 1.0]))
    assert_allclose(frozen.ppf(0.3), stats.gumbel_r(loc=[0.0, 1.0]).ppf(0.3))


def test_scipy_parameters_are_copied():
    scale = np.array([1.0, 2.0])
    dist = ScipyDistribution(stats.gumbel_r(0.0, scale))
    scale[:] = 7.0
    assert_allclose(dist.std()[1], 2 * dist.std()[0])
    with pytest.raises(ValueError, match="no mean"):
        ScipyDistribution(stats.cauchy()).mean()


def test_no_density_error_is_also_a_value_error():
    with pytest.raises(ValueError, match="Empirical has no density"):
        Empirical([[1.0]]).pdf(1.0)
    assert issubclass(NoDensityError, ValueError)


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
        Normal(loc, scale, unit * np.array([0.5, 3.0])),
        StudentT(loc, scale, 5.0, unit * np.array([0.2, 1.0])),
        Quantiles(
            [0.1, 0.5, 0.9], unit * np.array([[-1.0, 0.0, 2.0], [1.0, 2.0, 9.0]]), unit * np.array([0.4, 0.0])
        ),
    ]


def test_a_component_without_weight_does_not_count():
    for idle in (StudentT(0.0, 1.0, 1.5), Normal(0.0, 1e300)):
        mixed = Mixture([Normal(3.0, 2.0), idle], [1.0, 0.0])
        assert_allclose([mixed.mean()[0], mixed.std()[0]], [3.0, 2.0])


def test_discrete_distributions_are_integrated_exactly():
    # scipy's isf of a Poisson distribution is infinite or NaN at 1e-17
    base = ScipyDistribution(stats.poisson([3.0, 40.0]))
    same = LevelMap([0.5], [0.5])
    y = [2.0, 33.2]
    for dist in (Recalibrated(base, same), Mixture([base, base])):
        assert_allclose(dist.crps(y), base.crps(y), rtol=1e-9)
        assert_allclose(dist.mean(), base.mean(), rtol=1e-9)
        assert_allclose(dist.std(), base.std(), rtol=1e-9)
    coin = ScipyDistribution(stats.rv_discrete(values=([1, 5], [0.5, 0.5]))())
    bent = LevelMap([0.5], [0.3])
    expected = Recalibrated(Empirical([[1.0, 5.0]]), bent)
    assert_allclose(Recalibrated(coin, bent).crps(2.0), expected.crps(2.0))
    assert_allclose(Recalibrated(coin, bent).mean(), expected.mean())


def test_discrete_rows_do_not_depend_on_their_neighbors():
    level_map = LevelMap([0.2, 0.7], [0.1, 0.8])
    both = Recalibrated(ScipyDistribution(stats.poisson([3.0, 1e6])), level_map)
    assert_array_equal(both.crps([2.0, 1e6])[:1], both[:1].crps([2.0]))
    assert both.mean()[1] == pytest.approx(
        1e6 + 1e3 * Recalibrated(Normal(0.0, 1.0), level_map).mean()[0], rel=1e-6
    )


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_moments_and_parts_in_extreme_units(unit):
    # squares of such values are 0 or infinite
    for small, plain in zip(_one_of_each(unit), _one_of_each(1.0), strict=True):
        assert_allclose(small.std() / unit, plain.std(), rtol=1e-9, err_msg=repr(plain))
        assert_allclose(small.mean() / unit, plain.mean(), rtol=1e-9, err_msg=repr(plain))
        if getattr(plain, "epistemic_scale", None) is not None:
            for name in ("epistemic", "aleatoric"):
                part, expected = getattr(small, name)(), getattr(plain, name)()
                assert_allclose(part.std() / unit, expected.std(), rtol=1e-9)
                assert_allclose(part.interval() / unit, expected.interval(), rtol=1e-9, atol=1e-12)
            assert_array_equal(small.var(), np.inf if unit > 1 else 0.0)


PARTS = (Normal([0.0, 1.0], 2.0, 1.0), Normal([3.0, 1.0], 1.0, 0.5))
STUDENTS = (StudentT([0.0, 1.0], 2.0, 5.0, 1.0), PARTS[1])
SHARES = [0.25, 0.75]


@pytest.mark.parametrize(
    ("dist", "variance"),
    [
        (Mixture(PARTS, SHARES, ensemble=True), [0.25 + 0.75 * 0.25 + 0.25 * 0.75 * 9, 0.25 + 0.75 * 0.25]),
        (
            Mixture(STUDENTS, SHARES, ensemble=True),
            [0.25 * 5 / 3 + 0.75 * 0.25 + 0.25 * 0.75 * 9, 0.25 * 5 / 3 + 0.75 * 0.25],
        ),
        (NormalMixture([[-1.0, 1.0], [0.0, 4.0]], [[0.5, 0.5], [1.0, 2.0]], ensemble=True), [1.0, 4.0]),
    ],
    ids=["normals", "several families", "normal mixture"],
)
def test_the_spread_between_members_of_an_ensemble_is_epistemic(dist, variance):
    epistemic, aleatoric = dist.epistemic(), dist.aleatoric()
    assert_allclose(epistemic.var(), variance)
    assert_allclose(epistemic.mean(), dist.mean())
    assert_allclose(aleatoric.mean(), 0.0, atol=1e-12)
    assert_allclose(epistemic.var() + aleatoric.var(), dist.var())
    std = epistemic.std()
    assert_allclose(dist[[1]].epistemic().std(), std[[1]])
    assert_allclose(concat([dist, dist]).epistemic().std(), np.tile(std, 2))
    assert_allclose(affine(dist, 5.0, -2.0).epistemic().std(), 2 * std)


def test_an_ensemble_scores_as_the_mixture():
    plain, ensemble = (Mixture(PARTS, SHARES, ensemble) for ensemble in (False, True))
    assert isinstance(plain, NormalMixture)
    y = np.array([0.5, 4.0])
    for method in ("cdf", "logpdf", "crps"):
        assert_allclose(getattr(ensemble, method)(y), getattr(plain, method)(y), rtol=1e-9)
    assert_allclose(ensemble.std(), plain.std())
    assert_allclose(ensemble.interval(), plain.interval(), rtol=1e-9)


def test_distributions_without_parts_raise():
    members = NormalMixture([[-1.0, 1.0], [0.0, 4.0]], [[0.5, 0.5], [1.0, 2.0]], ensemble=True)
    for dist in (
        Mixture([PARTS[0], Normal(0.0, [1.0, 1.0])], ensemble=True),
        Mixture(STUDENTS),
        NormalMixture(members.loc, members.scale),
        concat([members, NormalMixture(members.loc, members.scale)]),
        StudentT([0.0], [1.0], df=5),
    ):
        for part in (dist.epistemic, dist.aleatoric):
            with pytest.raises(NoDecompositionError):
                part()


# ---------------------------------------------------------------------- rare branches


NORMAL = Normal([0.0, 1.0], [1.0, 2.0])
QUANTILES = Quantiles([0.25, 0.5, 0.75], [[-1.0, 0.0, 1.0], [0.0, 1.0, 3.0]])


def test_level_map_may_contain_the_ends():
    inner, whole = LevelMap([0.3, 0.6], [0.2, 0.7]), LevelMap([0.0, 0.3, 0.6, 1.0], [0.0, 0.2, 0.7, 1.0])
    assert inner.equals(whole)
    assert repr(whole) == repr(inner) == "LevelMap(4 knots)"
    assert pickle.loads(pickle.dumps(whole)).equals(whole)


@pytest.mark.parametrize(
    "dist",
    [
        QUANTILES,
        Recalibrated(NORMAL, LevelMap([0.5], [0.4])),
        Mixture([NORMAL, StudentT([0.0, 1.0], 1.0, df=5)]),
    ],
    ids=lambda dist: type(dist).__name__,
)
def test_affine_map_of_rows_with_different_signs(dist):
    shift, factor = np.array([1.0, 2.0]), np.array([2.0, -1.0])
    mapped = affine(dist, shift, factor)
    expected = np.sort(shift[:, np.newaxis] + factor[:, np.newaxis] * dist.interval(0.5), axis=1)
    assert_allclose(mapped.interval(0.5), expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match=r"`factor` must be nonzero in every row, or zero in every row"):
        affine(dist, shift, [0.0, 1.0])


def test_families_of_truncated_distributions_are_stacked():
    parts = [Truncated(NORMAL, lower=0.0), Truncated(Empirical([[1.0, 2.0, 3.0]]), lower=0.0)]
    whole = concat(parts)
    assert isinstance(whole, Concatenated)
    assert_allclose(whole.mean(), np.concatenate([part.mean() for part in parts]))


class Doubled:
    """Function that cannot be a key of a dictionary."""

    __hash__ = None

    def __call__(self, x):
        return 2.0 * np.asarray(x)


def test_function_that_cannot_be_hashed_is_differentiated_numerically():
    double, half = Doubled(), lambda x: 0.5 * np.asarray(x)
    dist = Transformed(NORMAL, double, half)
    assert_allclose(dist.pdf(1.0), affine(NORMAL, 0.0, 2.0).pdf(1.0), rtol=1e-6)


def test_rows_with_and_without_a_density_are_stacked():
    counts, normals = ScipyDistribution(stats.poisson([1.0, 2.0])), Normal([0.0, 1.0], [1.0, 2.0])
    stacked = concat([counts.clip(upper=3), normals.clip(upper=3)])
    y = np.array([0.0, 1.5, 2.9, 3.0])
    expected = [stats.poisson(1).cdf(0), stats.poisson(2).cdf(1.5), stats.norm(0, 1).cdf(2.9), 1.0]
    assert_allclose(stacked.cdf(y), expected)
    other = concat([counts, ScipyDistribution(stats.gamma([1.0, 2.0]))])
    expected = [*stats.poisson([1, 2]).cdf(y[:2]), *stats.gamma([1, 2]).cdf(y[2:])]
    assert_allclose(other.cdf(y), expected)


def test_joint_distributions_of_one_target_take_one_dimension():
    joint = NormalJoint(np.zeros((2, 1)), np.ones((2, 1, 1)))
    y = np.array([0.0, 1.0])
    assert_allclose(joint.cdf(y), stats.norm.cdf(y))
    assert_allclose(joint.logpdf(y), stats.norm.logpdf(y))


def test_joint_distributions_of_different_kinds_are_stacked():
    rng = np.random.default_rng(0)
    normal = NormalJoint(np.zeros((2, 2)), np.broadcast_to(np.eye(2), (2, 2, 2)))
    margin = Normal([0.0, 1.0], [1.0, 2.0])
    copula = CopulaJoint([margin, margin], [[0.25, 0.25], [0.75, 0.75]], correlation=np.eye(2))
    y = rng.standard_normal((4, 2))
    stacked = concat([normal, copula])
    assert_allclose(stacked.logpdf(y), [*normal.logpdf(y[:2]), *copula.logpdf(y[2:])])
    assert concat([normal]) is normal
    few, many = (EmpiricalJoint(rng.standard_normal((2, m, 2))) for m in (5, 7))
    assert_allclose(concat([few, many]).mean(), [*few.mean(), *many.mean()])


def test_a_shared_table_with_many_members_has_few_landmarks():
    members = np.sort(np.random.default_rng(0).standard_normal(5000))
    dist = SharedEmpirical([0.0, 2.0], [1.0, 3.0], members)
    assert_allclose(dist.mean(), [members.mean(), 2 + 3 * members.mean()])
    table = dist.clip(-1, 4)
    expected = [np.clip(members, -1, 4).mean(), np.clip(2 + 3 * members, -1, 4).mean()]
    assert_allclose(table.mean(), expected, rtol=1e-9)


@dataclass(frozen=True, eq=False, repr=False)
class PooledScale(Distribution):
    """A family of a user: N(0, scale^2), and distributions that it does not use."""

    scale: np.ndarray
    others: tuple[Distribution, ...] = ()

    _PER_ROW = ("scale",)

    def _cdf(self, y):
        return special.ndtr(y / self.scale)

    def _ppf(self, p):
        return self.scale * special.ndtri(p)


class Plain(PooledScale):
    """The same family without the decorator and without fields of its own."""


class Uniform(Distribution):
    """Uniform distributions on (0, width), which are no dataclass."""

    def __init__(self, width):
        self._set(width=np.array(width))

    def _rows(self):
        return self.width.size

    def _take(self, rows):
        return Uniform(self.width[rows])

    def _cdf(self, y):
        return np.clip(y / self.width, 0.0, 1.0)

    def _ppf(self, p):
        return self.width * p


def test_a_family_needs_a_cdf_and_quantiles_only():
    scale = np.array([1.0, 3.0])
    for family in (PooledScale, Plain):
        dist, normal = family(scale), Normal([0.0, 0.0], scale)
        assert_allclose(dist.crps(0.5), normal.crps(0.5), rtol=1e-9)
        assert_allclose(dist.std(), scale, rtol=1e-9)
        assert_allclose(Mixture([dist, normal]).crps(0.5), normal.crps(0.5), rtol=1e-6)
        assert dist.sample(3, random_state=0).shape == (2, 3)
    dist = Uniform([1.0, 2.0])
    assert_allclose(dist.crps(0.5), [1 / 12, 2 * (1 / 4**3 + (3 / 4) ** 3) / 3], rtol=1e-9)
    assert_allclose(dist.mean(), [0.5, 1.0], rtol=1e-12)
    assert_allclose(Mixture([dist]).crps(0.5), dist.crps(0.5), rtol=1e-6)


def test_methods_of_stacked_rows_have_the_docstrings_of_all_distributions():
    for name in ("mean", "std"):
        assert inspect.getdoc(getattr(Concatenated, name)) == inspect.getdoc(getattr(Distribution, name))
        assert str(inspect.signature(getattr(Concatenated, name))) == "(self) -> 'FloatArray'"
