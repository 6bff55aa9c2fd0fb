"""Frozen distributions of scipy: the CRPS of every family, and the kinds that are refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from skuq.distributions import Mixture, Normal, ScipyDistribution, Transformed, affine, as_distribution
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.evaluation import uncertainty_report
from skuq.metrics import crps_loss, quantile_weighted_crps_loss, threshold_weighted_crps_loss
from skuq.multivariate import CopulaJoint, normal_template


@pytest.mark.parametrize(
    ("frozen", "y", "expected"),
    [
        (stats.beta(2, 5), 0.3, 0.0420246),
        (stats.pearson3(0.1), 0.0, 0.233705),
        (stats.moyal(), 0.0, 0.592321),
        (stats.invgauss(0.1455), 0.1, 0.022580),
        (stats.powernorm(4.4), -1.0, 0.160639),
        (stats.betaprime(5, 6), 0.6, 0.168140),
        (stats.genlogistic(0.41), 0.0, 0.969681),
        (stats.bernoulli([0.3, 0.3]), [0.0, 1.0], 0.29),
    ],
    ids=lambda value: value.dist.name if hasattr(value, "dist") else "",
)
def test_the_crps_of_frozen_distributions(frozen, y, expected):
    assert crps_loss(np.atleast_1d(y), frozen) == pytest.approx(expected, abs=1e-6)


def test_all_integer_shapes_of_beta_are_integrated():
    a, b = np.array(np.meshgrid(np.arange(1.0, 11), np.arange(1.0, 11))).reshape(2, -1)
    score = ScipyDistribution(stats.beta(a, b)).crps(0.3)
    for k in (0, 14, 55, 99):
        assert score[k] == pytest.approx(by_definition(stats.beta(a[k], b[k]), 0.3), rel=1e-9)
    assert np.isfinite(score).all()


def test_scales_of_any_size_and_targets_far_away():
    gamma = ScipyDistribution(stats.gamma(2.0)).crps(0.3)
    for unit in (1e-200, 1e200):
        rows = ScipyDistribution(stats.gamma(2.0, scale=[unit, 1.0]))
        assert_allclose(rows.crps([0.3 * unit, 0.3]) / [unit, 1.0], np.tile(gamma, 2), rtol=1e-9)
    narrow = ScipyDistribution(stats.norm([1e10, 0.0], [1e-10, 1.0]))
    assert_allclose(narrow.crps([1e10 + 3.0, 0.0]), [3.0, Normal(0.0, 1.0).crps(0.0)[0]], rtol=1e-9)
    far = np.array([-1e9, 1e9, np.inf])
    assert_allclose(
        ScipyDistribution(stats.norm())[[0, 0, 0]].crps(far), Normal(0.0, 1.0)[[0, 0, 0]].crps(far)
    )
    y = np.linspace(-4.0, 4.0, 2500)  # of one row and of many rows
    expected = Normal(np.zeros(2500), 1.0).crps(y)
    assert_allclose(ScipyDistribution(stats.norm(np.zeros(2500))).crps(y), expected, rtol=1e-9)
    assert crps_loss(y, stats.norm(np.zeros(2500))) == pytest.approx(expected.mean(), rel=1e-12)


# ---------------------------------------------------------------------- every continuous family


def table(text):
    """Read names and shapes of the families that this scipy has."""
    words = map(str.split, text.split(","))
    return {name: [float(shape) for shape in shapes] for name, *shapes in words if hasattr(stats, name)}


SHAPES = """
alpha 3.57, anglit, arcsine, argus 1, beta 2.31 0.627, betaprime 5 6, bradford 0.3, burr 10.5 4.3, burr12
10 4, cauchy, chi 78, chi2 55, cosine, crystalball 2 3, dgamma 1.1, dweibull 2.07, erlang 10, expon,
exponnorm 1.5, exponpow 2.7, exponweib 2.89 1.95, f 29 18, fatiguelife 29, fisk 3.09, foldcauchy 4.72,
foldnorm 1.95, gamma 1.99, genexpon 9.13 16.2 3.28, genextreme -0.1, gengamma 4.42 3.12, genhalflogistic
0.773, genhyperbolic 0.5 1.5 -0.5, geninvgauss 2.3 1.5, genlogistic 0.412, gennorm 1.3, genpareto 0.1,
gibrat, gompertz 0.947, gumbel_l, gumbel_r, halfcauchy, halfgennorm 0.675, halflogistic, halfnorm,
hypsecant, invgamma 4.07, invgauss 0.145, invweibull 10.6, jf_skew_t 8 4, johnsonsb 4.32 3.18, johnsonsu
2.55 2.25, kappa3 1.7, kappa4 0.1 0, kstwo 10, kstwobign, landau, laplace, laplace_asymmetric 2, levy,
levy_l, loggamma 0.414, logistic, loglaplace 3.25, lognorm 0.955, loguniform 0.01 1.25, lomax 1.88,
maxwell, mielke 10.4 4.6, moyal, nakagami 4.97, ncf 27 27 0.416, nct 14 0.24, ncx2 21 1.06, norm,
norminvgauss 1.25 0.5, pareto 2.62, pearson3 -2, powerlaw 1.66, powerlognorm 2.14 0.446, powernorm 4.45,
rayleigh, rdist 1.6, recipinvgauss 0.63, reciprocal 0.01 1.25, rel_breitwigner 36.5, rice 0.775,
semicircular, skewcauchy 0.5, skewnorm 4, t 2.74, trapezoid 0.2 0.8, triang 0.158, truncexpon 4.69,
truncnorm -1.5 1.1, truncpareto 2 5.3, truncweibull_min 2.5 0.25 1.75, tukeylambda 0.1, uniform, vonmises
3.99, vonmises_line 3.99, wald, weibull_max 2.87, weibull_min 1.79, wrapcauchy 0.031
"""
FAMILIES = table(SHAPES)
NOT_TESTED = {
    **dict.fromkeys(["levy_stable", "studentized_range", "gausshyper"], "a cdf takes more than 10 ms"),
    **dict.fromkeys(["dpareto_lognorm", "irwinhall", "ksone"], "a quadrature of the cdf takes more than 1 s"),
}
ENDLESS = {"levy": "infinite CRPS", "levy_l": "infinite CRPS"}
"""Families whose CRPS is infinite, which is an error."""


def by_definition(frozen, y):
    """Integrate F^2 below y and (1 - F)^2 above y, on many narrow panels out to the tails of 1e-13."""
    levels = np.concatenate([10.0 ** np.arange(-13, -1.0), np.linspace(0.05, 0.5, 40)])
    points = np.concatenate([frozen.ppf(levels), frozen.isf(levels)])
    points = np.sort(points[np.isfinite(points)])
    center, width = np.median(points), np.subtract(*np.quantile(points, [0.75, 0.25]))
    steps = width * 2.0 ** np.arange(-8, 90, 0.5)
    added = np.clip(np.concatenate([center - steps, center + steps]), points[0], points[-1])
    inside = np.clip(y, points[0], points[-1])
    edges = np.unique([*points, *added, inside])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, np.newaxis] / 2
    x = edges[:-1, np.newaxis] + half * (1 + nodes)
    squares = np.piecewise(x, [x < inside], [frozen.cdf, frozen.sf]) ** 2
    return float((half * weights * squares).sum() + np.abs(y - inside))


@pytest.mark.laws
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("name", FAMILIES)
def test_the_crps_of_every_continuous_family_is_its_integral(name):
    family, base = getattr(stats, name), np.array(FAMILIES[name])
    for shapes, loc, scale in ((base, 0.0, 1.0), (0.9 * base, 1.0, 2.0), (1.1 * base, -3.0, 0.1)):
        frozen = family(*shapes, loc=loc, scale=scale)
        y = frozen.ppf([0.2, 0.9])
        rows = family(*(np.full(2, shape) for shape in shapes), loc=loc, scale=np.full(2, scale))
        if name in ENDLESS:
            with pytest.raises(ValueError, match=rf"the CRPS of {name}\(.* cannot be integrated"):
                ScipyDistribution(rows).crps(y)
            continue
        expected = [by_definition(frozen, each) for each in y]
        assert_allclose(ScipyDistribution(rows).crps(y), expected, rtol=1e-6)
        assert_allclose(ScipyDistribution(frozen)[[0, 0]].crps(y), expected, rtol=1e-6)


def test_no_continuous_family_is_forgotten():
    """Families of scipy versions after the pinned one are not in the table."""
    known = {*FAMILIES, *NOT_TESTED}
    found = {name for name in dir(stats) if isinstance(getattr(stats, name), stats.rv_continuous)}
    assert found - known <= {"trapz"}


def test_what_cannot_be_integrated_names_itself():
    class Broken(stats.rv_continuous):
        def _cdf(self, x):
            return np.where(x < 1, 0.5 * x, np.nan)

        def _ppf(self, q):
            return 2 * q

    for frozen, match in (
        (stats.levy(scale=[1.0, 2.0]), r"levy\(loc=0.0, scale=1.0\) at row 0 cannot be integrated"),
        (Broken(a=0, b=2, name="broken")(), r"broken\(loc=0.0, scale=1.0\) at row 0 cannot be integrated"),
    ):
        with pytest.raises(ValueError, match=match):
            as_distribution(frozen).crps(0.5)
    # rows are integrated in blocks of 1000; the number is that of the row among all
    many = as_distribution(stats.t(np.r_[np.full(1200, 5.0), 0.3, 5.0]))
    with pytest.raises(ValueError, match=r"df=0.3\) at row 1200 cannot be integrated"):
        many.crps(np.zeros(1202))


# ---------------------------------------------------------------------- other scores of one family


BETA = stats.beta(2, 5)


def test_weighted_scores_and_shifts_of_beta():
    below = integrate.quad(lambda x: BETA.cdf(x) ** 2, 0.2, 0.3)[0]
    above = integrate.quad(lambda x: BETA.sf(x) ** 2, 0.3, 1.0)[0]
    assert threshold_weighted_crps_loss([0.3], BETA, lower=0.2) == pytest.approx(below + above, rel=1e-6)

    def loss(u):
        return 2 * u**2 * (float(BETA.ppf(u) >= 0.3) - u) * (BETA.ppf(u) - 0.3)

    expected = integrate.quad(loss, 0.0, 1.0, points=[BETA.cdf(0.3)])[0]
    found = quantile_weighted_crps_loss([0.3], BETA, weighting="right")
    assert found == pytest.approx(expected, rel=1e-6)
    for factor in (2.0, -2.0):
        moved = affine(ScipyDistribution(BETA), 1.0, factor)
        assert moved.crps(1 + 0.3 * factor)[0] == pytest.approx(2 * 0.0420246, abs=1e-6)


def test_what_is_built_on_beta_is_finite_and_right():
    rows, y = ScipyDistribution(stats.beta([2.0, 2.0], 5.0)), np.array([0.3, 0.3])
    assert_allclose(Recalibrated(rows, LevelMap([0.5], [0.5])).crps(y), 0.0420246, atol=1e-6)
    assert_allclose(Mixture([rows, rows]).crps(y), 0.0420246, atol=1e-6)
    log = Transformed(Transformed(rows, np.exp, np.log), np.log, np.exp)
    assert_allclose(log.crps(y), 0.0420246, atol=1e-6)
    joint = CopulaJoint([rows, Normal([0.0, 0.0], 1.0)], normal_template(np.eye(2)), correlation=np.eye(2))
    given = joint.condition(np.column_stack([[np.nan, np.nan], [0.1, 0.2]])).marginal(0)
    assert_allclose(given.crps(y), 0.0420246, atol=1e-6)
    report = uncertainty_report(
        np.full(60, 0.3), stats.beta(np.full(60, 2.0), 5.0), metrics=["crps"], n_resamples=0, n_draws=0
    )
    assert report.loc["crps", "value"] == pytest.approx(0.0420246, abs=1e-6)


def test_tails_that_scipy_rounds_have_finite_quantiles():
    for frozen in (
        stats.beta(2, 5),
        stats.invgauss(0.1455),
        stats.moyal(),
        stats.powernorm(4.4),
        stats.norm(),
    ):
        dist = ScipyDistribution(frozen)
        for level in 10.0 ** -np.arange(20, 300, 20):
            upper, lower = dist._isf(np.asarray(level)), dist._ppf(np.asarray(level))
            assert np.isfinite([upper, lower]).all()
            assert max(dist._sf(upper), dist._cdf(lower)) < 2.0**-45
    assert ScipyDistribution(stats.norm())._isf(np.asarray(1e-300))[0] == stats.norm.isf(1e-300)


# ---------------------------------------------------------------------- discrete families


DISCRETE_SHAPES = """
bernoulli 0.3, betabinom 5 2.3 0.63, betanbinom 5 9.3 1, binom 5 0.4, boltzmann 1.4 19, dlaplace 0.8,
geom 0.5, hypergeom 30 12 6, logser 0.6, nbinom 0.4 0.4, nchypergeom_fisher 140 80 60 0.5,
nchypergeom_wallenius 140 80 60 0.5, nhypergeom 12 4 3, planck 0.51, poisson 0.6, randint 7 31, skellam 15 8,
yulesimon 11, zipf 6.6, zipfian 1.25 10
"""
DISCRETE = table(DISCRETE_SHAPES)


@pytest.mark.parametrize("name", DISCRETE)
def test_the_crps_of_every_discrete_family_is_its_sum(name):
    family, shapes = getattr(stats, name), DISCRETE[name]
    k = np.arange(-200.0, 2000.0)
    cdf = family.cdf(k, *shapes)
    rows = ScipyDistribution(family(*(np.full(3, shape) for shape in shapes)))
    y = np.array([0.0, 3.0, 7.4])
    share = np.clip(y[:, np.newaxis] - k, 0.0, 1.0)
    expected = (share * cdf**2 + (1 - share) * (1 - cdf) ** 2).sum(axis=1)
    assert_allclose(rows.crps(y), expected, rtol=1e-9)


def test_no_discrete_family_is_forgotten():
    found = {name for name in dir(stats) if isinstance(getattr(stats, name), stats.rv_discrete)}
    assert found - {*DISCRETE, "poisson_binom"} == set()


@pytest.mark.parametrize(("frozen", "tail"), [(stats.geom(1e-4), 3e5), (stats.randint(0, 10**5), 10**5)])
def test_many_integers_are_summed_by_a_rule(frozen, tail):
    k = np.arange(-1, tail)
    cdf = frozen.cdf(k)
    for y in (-5.0, 3000.5, 2e5):
        inside, share = np.clip(y, k[0], tail), np.clip(y - k, 0.0, 1.0)
        expected = (share * cdf**2 + (1 - share) * (1 - cdf) ** 2).sum() + np.abs(y - inside)
        assert_allclose(as_distribution(frozen).crps(y), expected, rtol=1e-9)


# ---------------------------------------------------------------------- kinds that are refused


def test_distributions_that_are_not_frozen_univariate_ones_are_refused():
    kinds = [
        stats.multivariate_normal([0.0, 1.0]),
        stats.dirichlet([1.0, 2.0]),
        stats.multinomial(3, [0.2, 0.8]),
        stats.gaussian_kde([1.0, 2.0, 4.0]),
    ]
    if hasattr(stats, "Normal"):  # since scipy 1.15
        kinds.append(stats.Normal(mu=0.0, sigma=1.0))
    for kind in kinds:
        with pytest.raises(TypeError, match=rf"univariate.* got a scipy\.stats\.{type(kind).__name__}"):
            crps_loss([0.0, 1.0], kind)
    if hasattr(stats, "poisson_binom"):
        with pytest.raises(ValueError, match=r"one distribution per row, but scipy reads .* poisson_binom"):
            crps_loss([0.0, 1.0], stats.poisson_binom([0.3, 0.3]))


@pytest.mark.parametrize(
    ("weighting", "expected"), [("tails", 0.4), ("left", 4 / 15), ("right", 0.6), ("center", 7 / 30)]
)
def test_the_weighted_crps_of_a_target_beyond_the_support(weighting, expected):
    # The quantile scores of the uniform distribution on [0, 1], integrated over the levels by hand.
    found = quantile_weighted_crps_loss([2.0], stats.uniform([0.0], [1.0]), weighting=weighting)
    assert found == pytest.approx(expected, rel=1e-9)


class FailsForLargeScales(stats.rv_continuous):
    def _cdf(self, x, a):
        return stats.norm.cdf(x / a)

    def _ppf(self, q, a):
        if (np.asarray(a) > 1).any():
            raise RuntimeError("no convergence")
        return a * stats.norm.ppf(q)


def test_an_error_of_a_search_for_quantiles_is_not_hidden():
    dist = ScipyDistribution(FailsForLargeScales(name="own")(a=np.array([1.0, 2.0])))
    with pytest.raises(RuntimeError, match="no convergence"):
        dist.quantile([0.05, 0.95])
