"""The CRPS of linear pools and of tables, mean distances and Cramér distances, against their definitions."""

import functools
import pickle
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import ndtr

from skuq.distributions import (
    Distribution,
    Empirical,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    Transformed,
    affine,
    concat,
)
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._cramer import cramer_distances
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.distributions._value_quadrature import value_distances
from tests.distributions.families import ALL, EMPIRICAL, LOC, NORMAL, POINT, QUANTILES, SCALE

N = 3
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
LEVELS = ndtr(np.arange(-8.2, 8.2, 0.06))
FAR = np.sinh(np.arange(0.0, 60.0, 0.12))


def points(leaf):
    """Points of one row between which its cdf is smooth, out to where nothing is left."""
    found = [leaf._ppf(level)[0] for level in LEVELS] + [
        leaf._isf(level)[0] for level in LEVELS[LEVELS < 0.5]
    ]
    if isinstance(leaf, Quantiles):
        (lower,), (upper,) = leaf._tails
        found += [*leaf.values[0], *(leaf.values[0, 0] - lower * FAR[FAR < 40])]
        found += [*(leaf.values[0, -1] + upper * FAR[FAR < 40])]
    elif isinstance(leaf, Empirical):
        found += [*leaf.members[0]]
    elif isinstance(leaf, SharedEmpirical):
        found += [*(leaf.loc[0] + leaf.scale[0] * leaf.members)]
    elif isinstance(leaf, Recalibrated):
        found += [leaf.base._from_normal_score(np.asarray(knot))[0] for knot in leaf.level_map.pieces.knots]
    elif isinstance(leaf, StudentT):
        found += [*(leaf.loc[0] + leaf.scale[0] * FAR), *(leaf.loc[0] - leaf.scale[0] * FAR)]
    return np.array(found, dtype=float)


def by_definition(pool, row, y):
    """The integral of (G(x) - 1{y <= x})^2 for one row."""
    leaves = [(float(np.ravel(weight)[0]), leaf) for weight, leaf in pool[[row]]._leaves()]
    leaves = [(weight, leaf) for weight, leaf in leaves if weight > 0]
    edges = np.unique(np.concatenate([*(points(leaf) for _, leaf in leaves), [y]]))
    edges = edges[np.isfinite(edges)]
    half = np.diff(edges) / 2
    x = ((edges[1:] + edges[:-1]) / 2)[:, np.newaxis] + half[:, np.newaxis] * NODES
    rows = np.zeros(x.size, dtype=int)
    tails = [
        sum(weight * getattr(leaf[rows], side)(x.ravel()) for weight, leaf in leaves)
        for side in ("_cdf", "_sf")
    ]
    squares = np.where(x.ravel() < y, *tails) ** 2
    return float(half @ (squares.reshape(x.shape) @ WEIGHTS))


def steep_map(rng, knots, power):
    """A map of levels whose slopes range over some orders of magnitude."""
    scores, values = (np.cumsum(rng.exponential(size=knots) ** power + 1e-4) for _ in range(2))
    return LevelMap.from_scores(
        *(6 * (part - part[0]) / (part[-1] - part[0]) - 3 for part in (scores, values))
    )


@functools.cache
def families(seed):
    """Return members whose distances are closed, and members whose CRPS is tabulated."""
    rng = np.random.default_rng(seed)

    def loc():
        return rng.normal(size=N)

    def scale(low=-0.5, high=0.5):
        return 10 ** rng.uniform(low, high, N)

    k = int(rng.integers(3, 40))
    levels = np.sort(rng.choice(np.arange(1, 100), k, replace=False)) / 100
    values = np.sort(rng.normal(size=(N, k)), axis=1)
    closed = {
        "normal": Normal(loc(), scale()),
        "point masses": Normal(loc(), [0.0, 1.0, 0.0]),
        "normal mixture": NormalMixture(
            rng.normal(size=(N, 3)), 10 ** rng.uniform(-1, 1, (N, 3)), [0.2, 0, 0.8]
        ),
        "quantiles": Quantiles(levels, values),
        "tied quantiles": Quantiles(levels, np.round(values, 1)),
        "members": Empirical(rng.normal(size=(N, 9)), rng.random((N, 9))),
        "sample": SharedEmpirical(loc(), scale(), rng.standard_t(3, size=30), rng.random(30)),
        "two values": SharedEmpirical(loc(), [0.0, 1.0, 2.0], [1.0, 2.0]),
    }
    narrow = StudentT(loc(), scale(-3, -2), 1.5)
    tabulated = {
        "normal": closed["normal"],
        "wide normal": Normal(loc(), scale(2, 3)),
        "quantiles": Quantiles([0.3, 0.5], values[:, :2]),
        "sample": SharedEmpirical(loc(), scale(-2, 2), rng.standard_t(3, size=400)),
        "t": StudentT(loc(), scale(), rng.uniform(2, 9)),
        "heavy t": StudentT(loc(), scale(), rng.choice([0.9, 1.0, 1.05, 1.5])),
        "narrow t": narrow,
        "t of rows": StudentT(loc(), scale(), [2.0, 3.0, 4.0]),
        "recalibrated": Recalibrated(StudentT(loc(), scale(), 5.0), steep_map(rng, 10, 0.5)),
        "steep": Recalibrated(Normal(loc(), scale()), steep_map(rng, 25, 2)),
        "recalibrated sample": Recalibrated(closed["sample"], steep_map(rng, 10, 1)),
    }
    return closed, tabulated


def check(first, second, seed, rtol):
    rng = np.random.default_rng(seed)
    pool = Mixture([first, second], rng.random((N, 2)), ensemble=True)
    y, row = rng.normal(size=N), int(rng.integers(N))
    assert_allclose(pool.crps(y)[row], by_definition(pool, row, y[row]), rtol=rtol)


def pairs_with_a_seed(names):
    """Return all pairs of the names, and one of three seeds for each; one third is in the default tier."""
    return [
        pytest.param(*pair, k % 3, marks=pytest.mark.laws if k % 3 else ())
        for k, pair in enumerate(combinations_with_replacement(names, 2))
    ]


@pytest.mark.parametrize(("one", "other", "seed"), pairs_with_a_seed(families(0)[0]))
def test_pools_with_closed_distances(one, other, seed):
    closed, _ = families(seed)
    smooth_and_lines = {one, other} & {"normal", "normal mixture"} and "quantiles" in one + other
    # the tails of quantiles meet those of a normal distribution in an integral without a closed form
    check(closed[one], closed[other], seed, 2e-8 if smooth_and_lines else 1e-9)


@pytest.mark.parametrize(("one", "other", "seed"), pairs_with_a_seed(families(0)[1]))
def test_pools_with_tabulated_members(one, other, seed):
    _, tabulated = families(seed)
    check(tabulated[one], tabulated[other], seed, 1e-6)


@pytest.mark.laws
def test_pools_of_many_families_with_weights_per_row():
    closed, tabulated = families(0)
    parts = [*closed.values(), *tabulated.values()]
    weights = np.random.default_rng(0).random((N, len(parts)))
    weights[0, ::2] = 0.0
    pool = Mixture([Mixture(parts[:6], weights[:, :6]), *parts[6:]], weights[:, 5:])
    y = np.linspace(-2, 2, N)
    exact = [by_definition(pool, row, y[row]) for row in range(N)]
    assert_allclose(pool.crps(y), exact, rtol=1e-7)


def test_a_row_of_point_masses_among_many_members():
    rng = np.random.default_rng(1)
    loc, scale = rng.normal(size=(2, 9)), 1 + rng.random((2, 9))
    scale[1] = 0.0
    pool = Mixture([StudentT(*column, 3.0 + k) for k, column in enumerate(zip(loc.T, scale.T, strict=True))])
    assert_allclose(pool.crps(0.1)[1], Empirical(loc[[1]]).crps(0.1)[0], rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e-5, 1e5, 1e200])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.laws)])
def test_units_change_nothing(unit, seed):
    closed, tabulated = families(seed)
    parts = [*closed.values(), *tabulated.values()]
    y = np.linspace(-2, 2, N)
    for first, second in pairwise(parts):
        scores = Mixture([first, second], [0.4, 0.6]).crps(y)
        moved = Mixture([affine(part, 0.0, unit) for part in (first, second)], [0.4, 0.6])
        assert_allclose(moved.crps(unit * y) / unit, scores, rtol=1e-6)


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.laws) for k in (1, 2))])
def test_members_that_agree_or_nearly_agree(seed):
    closed, tabulated = families(seed)
    for part in [*closed.values(), *tabulated.values()]:
        y = part.ppf(0.4)
        for moved in (part, affine(part, 1e-9, 1.0)):
            scores = Mixture([part, moved], ensemble=True).crps(y)
            assert (scores >= 0).all()
            assert_allclose(scores, part.crps(y), rtol=1e-5, atol=1e-8)


def test_scales_of_any_ratio():
    for small in (1e-300, 1e-30, 1e-8):
        for dist in (
            StudentT(0.3, small, 3.0),
            Recalibrated(Normal(0.3, small), steep_map(np.random.default_rng(0), 9, 1)),
        ):
            for other in families(0)[1].values():
                wide = other[[0]]
                limit = Mixture([Normal(0.3, 0.0), wide], [0.4, 0.6], ensemble=True).crps(0.1)
                assert_allclose(Mixture([dist, wide], [0.4, 0.6]).crps(0.1), limit, rtol=1e-6)


def test_rows_of_several_families():
    closed, tabulated = families(1)
    one, other = tabulated["recalibrated"], Mixture([closed["quantiles"], tabulated["t"]], [0.3, 0.7])
    rows = Concatenated([one, other, closed["members"]], [0, 4, 8])
    pool = Mixture([rows, tabulated["t of rows"]], [0.4, 0.6])
    y = np.array([0.3, -1.0, 0.7])
    alone = [
        Mixture([part[[row]], tabulated["t of rows"][[row]]], [0.4, 0.6]).crps(y[[row]])[0]
        for row, part in enumerate([one, other, closed["members"]])
    ]
    assert_allclose(pool.crps(y), alone, rtol=1e-12)


def test_families_without_a_distance_are_integrated():
    gamma = ScipyDistribution(stats.gamma(a=[2.0, 3.0, 4.0]))
    pool = Mixture([gamma, families(0)[0]["normal"]], [0.4, 0.6])
    y = np.array([0.3, 1.0, 4.0])
    assert_allclose(pool.crps(y), [by_definition(pool, row, y[row]) for row in range(N)], rtol=2e-6)


def test_selected_rows_score_as_they_do_among_all():
    _, tabulated = families(0)
    pool = Mixture([tabulated["recalibrated"], tabulated["quantiles"], tabulated["t"]])
    before = [pool[[row]].crps(0.3)[0] for row in range(N)]
    assert_allclose(pool.crps(0.3), before, rtol=1e-12)
    assert_array_equal(pool[[2, 0]].crps(0.3), pool.crps(0.3)[[2, 0]])
    many = np.arange(2000) % N
    assert_allclose(pool[many].crps(0.3), pool.crps(0.3)[many], rtol=1e-12)
    assert_allclose(concat([pool, pool]).crps(0.3), np.tile(pool.crps(0.3), 2), rtol=1e-12)


@pytest.mark.parametrize("widest", [1.0, pytest.param(100.0, marks=pytest.mark.laws)])
def test_many_smooth_members(widest):
    rng = np.random.default_rng(0)
    shape = 4, 12
    loc, scale = rng.normal(size=shape), widest ** rng.random(shape) * (1 + rng.random(shape))
    parts = [StudentT(*column, 2.0 + k % 4) for k, column in enumerate(zip(loc.T, scale.T, strict=True))]
    pool = Mixture([*parts, Normal(loc[:, 0], scale[:, 1])], rng.random((4, 13)))
    scores = pool.crps(loc[:, 3])
    assert_allclose(scores[1], by_definition(pool, 1, loc[1, 3]), rtol=3e-8)


def test_kept_quantiles_are_copies():
    loc = np.random.default_rng(0).normal(size=(20, 3))
    for dist in (NormalMixture(loc, 1.0), Mixture([Normal(loc[:, 0], 1.0), StudentT(loc[:, 1], 1.0, 5.0)])):
        first = dist.ppf(0.3)
        expected = first.copy()
        first[:] = 0.0
        assert_array_equal(dist.ppf(0.3), expected)
        assert_array_equal(dist.interval(0.4)[:, 0], expected)
        assert_array_equal(dist.ppf(np.full(20, 0.3)), expected)
        assert_array_equal(pickle.loads(pickle.dumps(dist)).ppf(0.3), expected)


# ---------------------------------------------------------------------- tables


ONE = np.ones(1)


def bent_map(factor):
    """A level map of a model whose std is too large by a factor, with 30 irregular knots."""
    values = stats.norm.ppf(np.arange(1, 31) / 31)
    scores = values / factor * np.exp(0.2 * np.sin(np.arange(30)))
    return LevelMap.from_scores(np.sort(scores), values, max(1.0, factor), max(1.0, factor))


@pytest.mark.parametrize("factor", [0.2, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("df", [3.0, 8.0, 1e7])
def test_recalibrated_student_t(df, factor):
    level_map = bent_map(factor)
    base = StudentT(0.0, 1.0, df)
    dist = Recalibrated(base, level_map)
    for y in [*dist.quantile([1e-6, 0.2, 0.5, 0.9])[0], 30.0, -1e4, 1e9]:
        assert_allclose(dist.crps([y]), [by_definition(dist, 0, y)], rtol=1e-9)


def test_units_and_certain_rows_of_a_recalibrated_student_t():
    level_map = bent_map(1.0)
    loc, scale = np.array([3.0, -1e5, 2.0]), np.array([1e-3, 1e4, 0.0])
    z = np.array([0.7, -2.0, 1.5])
    dist = Recalibrated(StudentT(loc, scale, 4.0), level_map)
    standard = Recalibrated(StudentT(np.zeros(3), np.ones(3), 4.0), level_map).crps(z)
    assert_allclose(dist.crps(loc + scale * z)[:2], (scale * standard)[:2], rtol=1e-11)
    assert dist.crps(loc + 1.0)[2] == 1.0


@pytest.mark.parametrize("dfs", [(5.0, np.inf), (3.0, 4.0, 30.0), (2.5, 2.5)])
def test_mixtures_of_normals_and_student_t(dfs):
    rng = np.random.default_rng(int(dfs[0]))
    n = 12
    components = [StudentT(rng.normal(size=n), rng.uniform(0.3, 3, size=n), df) for df in dfs]
    components[-1] = Normal(components[-1].loc, components[-1].scale)
    dist = Mixture(components, rng.uniform(0.1, 1, size=(n, len(dfs))))
    y = rng.normal(scale=3, size=n)
    exact = [by_definition(dist, row, y[row]) for row in range(n)]
    assert_allclose(dist.crps(y), exact, rtol=1e-9)


def test_components_far_apart_or_of_very_different_width():
    components = [
        StudentT([0.0, 0.0, 0.0, 5.0], [1.0, 1e-3, 1.0, 1.0], 5.0),
        Normal([1e4, 0.5, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]),
    ]
    dist = Mixture(components, [0.4, 0.6])
    y = np.array([3.0, 0.1, 0.2, 0.0])
    exact = [by_definition(dist, row, y[row]) for row in range(2)]
    assert_allclose(dist.crps(y)[:2], exact, rtol=1e-8)
    by_quadrature = Distribution._crps(dist[2:], y[2:])  # with an atom at the other component
    assert_allclose(dist.crps(y)[2:], by_quadrature, rtol=1e-6)


def test_mixtures_with_heavy_tails_and_with_degrees_of_freedom_of_rows():
    heavy = Mixture([StudentT(ONE, ONE, 1.5), Normal(ONE, ONE)])
    assert_allclose(heavy.crps([0.0]), [by_definition(heavy, 0, 0.0)], rtol=1e-9)
    rows = Mixture([StudentT([0.0, 0.0], [1.0, 1.0], [3.0, 4.0]), Normal([0.0, 0.0], [1.0, 1.0])])
    exact = [by_definition(rows, row, y) for row, y in enumerate([0.0, 1.0])]
    assert_allclose(rows.crps([0.0, 1.0]), exact, rtol=1e-9)


def straight_map(slope):
    """A level map that multiplies normal scores by a slope."""
    return LevelMap.from_scores([-1.0, 1.0], [-slope, slope], slope, slope)


@pytest.mark.parametrize("df", [0.3, 0.5, 0.51, 0.55, 0.7, 1.0, 2.0])
def test_heavy_tails_count_to_infinity(df):
    y = np.array([0.3, -7.0, 1e3])
    exact = StudentT(np.zeros(3), np.ones(3), df).crps(y)
    tabulated = Recalibrated(StudentT(np.zeros(3), np.ones(3), df), straight_map(1.0)).crps(y)
    assert_allclose(tabulated, exact, rtol=1e-9)


@pytest.mark.parametrize(
    ("df", "slope", "moments"),
    [
        (2.5, 0.8, 1),
        (1.9, 1.01, 1),
        (1.5, 0.7, 0),
        (0.9, 1.0, 0),
        (1.9, 1.3, 2),
        (2.5, 1.0, 2),
        (6.0, 0.7, 2),
    ],
)
def test_moments_of_mapped_power_tails_exist_where_the_tail_is_light_enough(df, slope, moments):
    dist = Recalibrated(StudentT([0.0, 5.0], [1.0, 2.0], df), straight_map(slope))
    if moments == 0:
        with pytest.raises(ValueError, match="must have a mean"):
            dist.mean()
        return
    assert_allclose(dist.mean(), [0.0, 5.0], atol=1e-6)
    assert np.isfinite(dist.std()).all() == (moments == 2)


def test_one_tail_without_a_mean():
    heavy_above = LevelMap.from_scores([-1.0, 1.0], [-1.0, 1.0], 2.0, 0.5)
    dist = Recalibrated(StudentT([0.0], [1.0], 2.0), heavy_above)
    assert dist.mean() == np.inf
    assert dist.std() == np.inf


# ---------------------------------------------------------------------- Cramér distances


STEPS = Empirical(LOC[:, np.newaxis] + np.arange(4.0), [0.0, 0.2, 0.5, 0.3])
ONE_SORT = {
    "quantiles": (QUANTILES, Quantiles([0.1, 0.9], QUANTILES.values[:, [1, 3]] + 0.2)),
    "quantiles far apart": (QUANTILES, affine(QUANTILES, 9.0, -1.0)),
    "quantiles whose outer ones are tied": (
        QUANTILES,
        Quantiles([0.2, 0.4, 0.7], LOC[:, np.newaxis] + [0, 0, 1]),
    ),
    "members and quantiles": (EMPIRICAL, QUANTILES),
    "members and weighted members": (EMPIRICAL, STEPS),
    "members of one shape": (SharedEmpirical(LOC, SCALE, [-1.0, 0.0, 3.0]), QUANTILES),
}


def by_mixture(first, second):
    """The distance, from the scores of both and of their mixture."""
    y = first.ppf(0.3)
    return 2 * (first.crps(y) + second.crps(y)) - 4 * Mixture([first, second]).crps(y)


@pytest.mark.parametrize(("first", "second"), ONE_SORT.values(), ids=ONE_SORT.keys())
def test_one_sort_integrates_pieces_and_tails_exactly(first, second):
    distance = cramer_distances([first, second])[:, 0, 1]
    assert_allclose(distance, value_distances([first, second])[:, 0, 1], rtol=1e-4)
    assert_allclose(distance, by_mixture(first, second), rtol=1e-8)
    moved = [affine(part, LOC, 1000 * SCALE) for part in (first, second)]
    assert_allclose(cramer_distances(moved)[:, 0, 1], 1000 * SCALE * distance, rtol=1e-9)


def test_tails_of_any_ratio_of_lengths_are_integrated():
    rng = np.random.default_rng(0)
    for ratio in (1e-9, 1e-4, 0.99, 1.0, 1e4):
        values = np.sort(rng.normal(size=(50, 3)), axis=1)
        narrow = Quantiles([0.2, 0.5, 0.8], rng.normal(size=(50, 1)) + ratio * values)
        wide = Quantiles([0.3, 0.5, 0.6], values)
        assert_allclose(
            cramer_distances([narrow, wide])[:, 0, 1], value_distances([narrow, wide])[:, 0, 1], rtol=1e-4
        )


def test_distances_of_normal_distributions_and_point_masses_have_closed_forms():
    other = Normal(LOC + 2.0, 0.0)
    assert_allclose(cramer_distances([POINT, other])[POINT.scale == 0, 0, 1], 2.0)
    assert_allclose(cramer_distances([NORMAL, other])[:, 0, 1], by_mixture(NORMAL, other))
    student = StudentT(LOC, SCALE, 1e9)
    assert_allclose(cramer_distances([NORMAL, student])[:, 0, 1], 0.0, atol=1e-12)


def test_blocks_of_rows_change_nothing():
    rows = np.tile(np.arange(len(QUANTILES)), 300)
    for other in (EMPIRICAL, ALL["Recalibrated StudentT"]):
        many = cramer_distances([QUANTILES[rows], other[rows]])[:, 0, 1]
        assert_allclose(many, cramer_distances([QUANTILES, other])[rows, 0, 1], rtol=1e-12)


# ---------------------------------------------------------------------- mean distances


def test_student_t_agrees_with_scipy_and_is_infinite_without_a_mean():
    df, points = np.array([1.2, 3.0, 40.0]), np.array([0.3, -2.0, 5.0])
    dist = StudentT(1.0, 2.0, df)
    expected = []
    for each, point in zip(df, points, strict=True):
        law = stats.t(each, 1.0, 2.0)
        # E|T - z| = 2 f(z) (df + z^2) / (df - 1) + z (2 F(z) - 1)
        z = (point - 1.0) / 2.0
        inner = 2 * stats.t.pdf(z, each) * (each + z * z) / (each - 1) + z * (2 * law.cdf(point) - 1)
        expected.append(2.0 * inner)
    assert_allclose(dist._mean_distance(points), expected, rtol=1e-12)
    assert_array_equal(StudentT(0.0, 1.0, [1.0, 0.7])._mean_distance(np.zeros(2)), np.inf)
    normal = StudentT(1.0, 2.0, np.inf)._mean_distance(np.array([0.3]))
    assert_allclose(normal, Normal(1.0, 2.0)._mean_distance(np.array([0.3])), rtol=1e-13)


def test_a_component_of_weight_zero_may_lack_a_mean():
    mixture = Mixture([Normal(0.0, 1.0), StudentT(0.0, 1.0, 0.5)], [1.0, 0.0])
    assert_allclose(mixture._mean_distance(np.zeros(1)), np.sqrt(2 / np.pi), rtol=1e-12)


def test_a_transformation_without_a_mean_is_winsorized_as_in_the_crps():
    dist = Transformed(StudentT(0.0, 1.0, 2.0), np.exp, np.log)
    assert np.isfinite(dist._mean_distance(np.ones(1))).all()
