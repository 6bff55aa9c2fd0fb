"""Scores and expected losses of integers: peers, closed forms, and sums from a few terms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

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
from skuq.distributions._beta_recalibrated import BetaRecalibrated
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._expectation import SIZE, OutcomeRule, sum_rule
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.distributions._step_table import SharedSteps, StepTable
from skuq.evaluation import expected_loss

ORACLES = [  # scoringrules 0.10 and sums
    (stats.poisson(3.0), 2.0, 0.5417440078336722),
    (stats.nbinom(2.5, 0.4), 3.0, 0.6534044611137688),
    (stats.nbinom(50, 0.001), 49950.0, 1652.212032680229),  # scipy's 2F1 is NaN
    (stats.nbinom(0.3, 0.001), 299.0, 125.18277887083487),
]
FAMILIES = [
    stats.poisson([0.01, 3.0, 300.0, 0.0]),
    stats.poisson([0.01, 3.0, 300.0, 0.0], loc=0.5),
    stats.binom([1, 10, 1000, 5], [0.5, 0.3, 0.01, 0.0]),
    stats.nbinom([0.3, 2.5, 1000.0, 200.0], [0.3, 0.4, 0.5, 1 / 6]),
    stats.nbinom([3.0, 1e4, 60.0, 2.0], [1.0, 0.9, 0.4, 0.02]),
]


@pytest.mark.parametrize(("frozen", "y", "expected"), ORACLES)
def test_the_crps_is_that_of_the_peer(frozen, y, expected):
    assert_allclose(ScipyDistribution(frozen).crps(y), expected, rtol=1e-11)


@pytest.mark.parametrize("frozen", FAMILIES, ids=lambda frozen: frozen.dist.name)
@pytest.mark.parametrize("y", [-3.0, 2.3, 400.0])
def test_closed_forms_are_the_sums(frozen, y):
    dist, target = ScipyDistribution(frozen), np.full(4, y)
    assert_allclose(dist.crps(y), dist._sum_steps(target, 2), rtol=1e-10, atol=1e-12)
    assert_allclose(dist._mean_distance(target), dist._sum_steps(target, 1), rtol=1e-10, atol=1e-12)


def test_binomial_against_scoringrules():
    sr = pytest.importorskip("scoringrules")
    dist = ScipyDistribution(stats.binom([10, 20], [0.3, 0.9]))
    assert_allclose(dist.crps([4.0, 15.0]), sr.crps_binomial([4, 15], [10, 20], [0.3, 0.9]), rtol=1e-9)


def test_other_families_are_sums():
    dist = ScipyDistribution(stats.geom([0.3, 0.5]))
    k = np.arange(1, 200)
    expected = [((stats.geom.cdf(k, p) - (k >= 3)) ** 2).sum() + 0.0 for p in (0.3, 0.5)]
    assert_allclose(dist.crps(3.0), expected, rtol=1e-9)


def test_masses_are_those_of_scipy():
    dist = ScipyDistribution(stats.nbinom([2.5, 7.0], [0.4, 0.2]))
    assert dist.has_mass
    assert_allclose(dist.logpmf([3.0, 500.0]), stats.nbinom.logpmf([3, 500], [2.5, 7.0], [0.4, 0.2]))
    assert not ScipyDistribution(stats.gamma([2.0])).has_mass


# ------------------------------------------------------------ sums over integers from a few terms


LEVEL_MAP = LevelMap([0.1, 0.35, 0.8, 0.97], [0.04, 0.3, 0.85, 0.99])
LOC, SCALE = np.array([900.0, 400.0]), np.array([300.0, 90.0])
NORMAL = Normal(LOC, SCALE).clip(0, integer=True)
STUDENT = StudentT(LOC, SCALE, 6.0).clip(0, integer=True)
POISSON = ScipyDistribution(stats.poisson(mu=[30_000.0, 20_000.0]))
BINOMIAL = ScipyDistribution(stats.nbinom([0.7, 5.0], [0.003, 0.01]))
TIED = Quantiles([0.05, 0.2, 0.5, 0.7, 0.95], [[100, 400, 400, 900, 2000], [0, 0, 0, 1000, 1800]])

MANY_INTEGERS = {
    "Normal": NORMAL,
    "StudentT": STUDENT,
    "Poisson": POISSON,
    "negative binomial": BINOMIAL,
    "Quantiles with ties": TIED.clip(0, integer=True),
    "Normal and a point mass": Normal(LOC, SCALE * [0, 1]).clip(0, integer=True),
    "clipped Poisson": POISSON.clip(0.0, 30_010.0, integer=True),
    "Poisson with an integer bound": POISSON.clip(19_900.0),
    "Recalibrated": Recalibrated(NORMAL, LEVEL_MAP),
    "BetaRecalibrated": BetaRecalibrated(NORMAL, [1.3, 1.3], [0.8, 0.8], [0.1, 0.1]),
    "Truncated": Truncated(BINOMIAL, lower=0.0),
    "affine": affine(POISSON, [0.1, 0.2], [0.3, -2.0]),
    "Transformed": Transformed(NORMAL, lambda x: -np.log1p(x), lambda y: np.expm1(-y)),
    "Concatenated": concat([POISSON[:1], NORMAL[1:]]),
    "Concatenated, clipped": Concatenated([POISSON[:1], BINOMIAL[1:]], [0, 1]).clip(0, 1000, integer=True),
}


def atoms_of(dist):
    """Return all atoms of a one-row distribution and their probabilities, from differences of the cdf."""
    lattice = dist._lattice()
    ends = [float(lattice.index(end)[0]) for end in (dist._ppf(np.array(1e-17)), dist._isf(np.array(1e-19)))]
    index = np.arange(max(min(ends) - 2, 0), min(max(ends) + 2, 300_000) + 1)
    repeated = dist[np.zeros(len(index), dtype=int)]
    atoms = repeated._lattice().atom(index)
    order = np.argsort(atoms)
    cdf, sf = repeated._cdf(atoms)[order], repeated._sf(atoms)[order]
    mass = np.where(cdf < 0.5, np.diff(cdf, prepend=0.0), -np.diff(sf, prepend=1.0))
    return atoms[order], mass


def check_losses(dist, atoms_of_row, rtol):
    """Compare expected losses with the sums over all atoms."""
    tables = [atoms_of_row(dist[[i]]) for i in range(2)]
    action = dist.ppf(0.6) + 0.003 * dist.std()
    threshold = float(dist.ppf(0.7)[1])

    def cost(a, y):
        return np.maximum(a - y, 0.0) + np.where(y > threshold, 2.0, 0.0) + np.where(y >= threshold, 3.0, 0.0)

    losses = {"absolute": lambda a, y: np.abs(y - a), "squared": lambda a, y: (y - a) ** 2, "cost": cost}
    for name, loss in losses.items():
        expected = [np.sum(mass * loss(a, atoms)) for a, (atoms, mass) in zip(action, tables, strict=True)]
        known = {"loss": cost, "breaks": [threshold]} if name == "cost" else {"loss": name}
        assert_allclose(expected_loss(dist, action=action, **known), expected, rtol=rtol)
    found = expected_loss(dist, lambda a, y: (y - a) ** 2, action=action)
    assert_allclose(found, expected_loss(dist, "squared", action=action), rtol=rtol)


def test_the_rule_is_exact_for_polynomials_and_evaluates_each_integer_once():
    count = np.concatenate([np.arange(0.0, 60.0), [97.0, 1000.0, 1e5]])
    offsets, weights = sum_rule(count)
    assert (weights >= 0).all()
    for column, size in enumerate(count):
        used = offsets[weights[:, column] > 0, column]
        assert len(np.unique(used)) == len(used) == min(size, SIZE)
        assert np.isin(used, np.arange(size)).all()
        for degree in range(SIZE):
            terms = ((2 * np.arange(size) + 1) / max(size, 1) - 1) ** degree
            total = weights[:, column] @ ((2 * offsets[:, column] + 1) / max(size, 1) - 1) ** degree
            assert abs(total - terms.sum()) <= 1e-13 * max(size, 1)


def many_integers(names, default):
    """Parametrize a test over names in the default tier and in `laws`."""
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=() if name in default else pytest.mark.laws) for name in names]
    )


@many_integers(MANY_INTEGERS, {"Normal", "negative binomial", "Normal and a point mass"})
def test_losses_of_many_integers_equal_sums_over_all_integers(name):
    dist = MANY_INTEGERS[name]
    assert not OutcomeRule(dist)._parts[0][1]._is_sum.all()
    check_losses(dist, atoms_of, rtol=2e-9)


@many_integers(["Normal", "StudentT", "Quantiles with ties"], {"Normal"})
def test_the_crps_of_many_integers_equals_the_sum_over_all_integers(name):
    dist = MANY_INTEGERS[name]
    for i in range(2):
        atoms, mass = atoms_of(dist[[i]])
        for y in (dist.ppf(0.2) + 0.3, dist.ppf(0.999), np.array([-5.0, 1e6])):
            edges = np.sort(np.append(atoms, y[i]))
            cdf = np.append(0.0, np.cumsum(mass))[np.searchsorted(atoms, edges[:-1], side="right")]
            expected = np.sum(np.diff(edges) * (cdf - (edges[:-1] >= y[i])) ** 2)
            assert_allclose(dist[[i]].crps([y[i]]), expected, rtol=1e-9)


@pytest.mark.laws
def test_components_with_many_integers_are_summed():
    hurdle = Hurdle(0.3, Truncated(BINOMIAL, lower=0.0))
    check_losses(
        hurdle,
        lambda row: tuple(
            np.append(first, rest)
            for first, rest in zip((0.0, row.p), _weighted(atoms_of(row.dist), 1 - row.p), strict=True)
        ),
        rtol=2e-9,
    )


def _weighted(atoms, share):
    return atoms[0], share * atoms[1]


RNG = np.random.default_rng(0)
MANY_MEMBERS = RNG.gamma(2.0, 30.0, size=(2, 1020))
CDFS = np.sort(RNG.random((3, 1020)), axis=1) ** 2
CDFS[:, -1] = 1.0
STEPS = SharedSteps(StepTable.from_cdfs(np.sort(MANY_MEMBERS[0]), CDFS), np.array([0.4, 1.7]))


@pytest.mark.parametrize(
    "dist",
    [
        Empirical(MANY_MEMBERS),
        Empirical(MANY_MEMBERS, RNG.random((2, 1020))),
        SharedEmpirical([0.0, 5.0], [1.0, 2.0], MANY_MEMBERS[0], RNG.random(1020)),
        STEPS,
        STEPS.clip(20.0, integer=True),
        affine(STEPS, [1.0, 2.0], [-1.0, 3.0]),
        Transformed(STEPS, lambda x: -np.log1p(x), lambda y: np.expm1(-y)),
        pytest.param(Recalibrated(Empirical(MANY_MEMBERS), LEVEL_MAP), marks=pytest.mark.laws),
        pytest.param(Recalibrated(affine(STEPS, 1.0, -1.0), LEVEL_MAP), marks=pytest.mark.laws),
        pytest.param(BetaRecalibrated(STEPS, [1.3, 1.3], [0.8, 0.8], [0.1, 0.1]), marks=pytest.mark.laws),
        Truncated(STEPS, 20.0, 90.0),
    ],
    ids=lambda dist: type(dist).__name__,
)
def test_losses_of_many_listed_atoms_are_sums(dist):
    def jumps(row):
        points = np.unique(np.concatenate([outcome for outcome, _ in row._listed_atoms()]))
        cdf = row[np.zeros(len(points), dtype=int)].cdf(points)
        return points, np.diff(cdf, prepend=0.0)

    check_losses(dist, jumps, rtol=1e-11)


def test_a_mixture_of_many_integers_is_the_sum_of_its_components():
    mixture = Mixture([POISSON, BINOMIAL], [0.25, 0.75])
    action = mixture.mean()
    parts = [expected_loss(each, lambda a, y: (y - a) ** 2, action=action) for each in (POISSON, BINOMIAL)]
    loss = expected_loss(mixture, lambda a, y: (y - a) ** 2, action=action)
    assert_allclose(loss, 0.25 * parts[0] + 0.75 * parts[1], rtol=1e-13)


@pytest.mark.parametrize(("loc", "scale", "df"), [(4.5, 0.5, 6), (5.0, 1.0, 4)])
def test_a_winsorized_count_has_an_atom_at_its_bound(loc, scale, df):
    t = stats.t(df, loc, scale)
    last = np.rint(np.exp(t.isf(1e-6)))
    near = np.arange(min(last, 1e5))
    # Far integers are nearly equal on the scale of the logarithms.
    logs = np.linspace(np.log(near[-1] + 1), np.log(last), 200_001)
    far = np.exp((logs[1:] + logs[:-1]) / 2)
    integers, width = np.append(near, far), np.append(np.ones(near.size), np.diff(np.exp(logs)))
    sf = width * t.sf(np.log(integers + 0.5 * (integers < 1e5)))
    mean = sf.sum()
    std = np.sqrt(sf @ (2 * integers + (integers < 1e5)) - mean**2)
    dist = Transformed(StudentT([loc], scale, df), np.exp, np.log).clip(lower=0.0, integer=True)
    assert_allclose(dist.mean(), mean, rtol=1e-6)
    assert_allclose(dist.std(), std, rtol=1e-6)
    assert_allclose(dist._mean_distance(np.zeros(1)), mean, rtol=1e-6)


def test_a_heavy_tail_on_integers_has_an_infinite_or_winsorized_moment():
    assert np.isinf(StudentT([0.0], [300.0], 1.8).clip(0, integer=True).std()).all()
    endless = Transformed(StudentT([3.0], [2.0], 5.0), np.exp, np.log)
    rounded = endless.clip(0, integer=True)
    assert_allclose(rounded.mean(), endless.clip(0).mean(), rtol=1e-3)
    assert_allclose(rounded.std(), endless.clip(0).std(), rtol=1e-3)
