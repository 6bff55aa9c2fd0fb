"""The CRPS of linear pools against the integral of its definition, and the work that it takes."""

import pickle
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import ndtr

from skuq.distributions import (
    Concatenated,
    ConformalPredictive,
    Empirical,
    LevelMap,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    Recalibrated,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    affine,
    concat,
)
from skuq.distributions import _cramer as cramer
from skuq.distributions import _members as members_module
from skuq.evaluation import uncertainty_report
from skuq.metrics import crps_loss, get_scorer

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
    """Return all pairs of the names, and one of three seeds for each."""
    return [(*pair, k % 3) for k, pair in enumerate(combinations_with_replacement(names, 2))]


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


def test_pools_of_many_families_with_weights_per_row():
    closed, tabulated = families(0)
    parts = [*closed.values(), *tabulated.values()]
    weights = np.random.default_rng(0).random((N, len(parts)))
    weights[0, ::2] = 0.0
    pool = Mixture([Mixture(parts[:6], weights[:, :6]), *parts[6:]], weights[:, 5:])
    y = np.linspace(-2, 2, N)
    exact = [by_definition(pool, row, y[row]) for row in range(N)]
    assert_allclose(pool.crps(y), exact, rtol=1e-7)


@pytest.mark.parametrize("widest", [1.0, 100.0])
def test_many_smooth_members_take_one_integral_where_scales_are_alike(widest, monkeypatch):
    rng = np.random.default_rng(0)
    shape = 4, 12
    loc, scale = rng.normal(size=shape), widest ** rng.random(shape) * (1 + rng.random(shape))
    parts = [StudentT(*column, 2.0 + k % 4) for k, column in enumerate(zip(loc.T, scale.T, strict=True))]
    pool = Mixture([*parts, Normal(loc[:, 0], scale[:, 1])], rng.random((4, 13)))
    distances = count_calls(monkeypatch, cramer, "leaf_distance")
    scores = pool.crps(loc[:, 3])
    assert len(distances) == (0 if widest == 1 else 78)
    assert_allclose(scores[:2], [by_definition(pool, row, loc[row, 3]) for row in range(2)], rtol=3e-8)


def test_a_row_of_point_masses_among_many_members():
    rng = np.random.default_rng(1)
    loc, scale = rng.normal(size=(2, 9)), 1 + rng.random((2, 9))
    scale[1] = 0.0
    pool = Mixture([StudentT(*column, 3.0 + k) for k, column in enumerate(zip(loc.T, scale.T, strict=True))])
    assert_allclose(pool.crps(0.1)[1], Empirical(loc[[1]]).crps(0.1)[0], rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e-5, 1e5, 1e200])
@pytest.mark.parametrize("seed", range(2))
def test_units_change_nothing(unit, seed):
    closed, tabulated = families(seed)
    parts = [*closed.values(), *tabulated.values()]
    y = np.linspace(-2, 2, N)
    for first, second in pairwise(parts):
        scores = Mixture([first, second], [0.4, 0.6]).crps(y)
        moved = Mixture([affine(part, 0.0, unit) for part in (first, second)], [0.4, 0.6])
        assert_allclose(moved.crps(unit * y) / unit, scores, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
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


# ------------------------------------------------------------------------------------------ work


def count_calls(monkeypatch, owner, name):
    """Count the calls of a function of a module or class."""
    calls, original = [], getattr(owner, name)

    def counted(*args, **options):
        calls.append(name)
        return original(*args, **options)

    monkeypatch.setattr(owner, name, counted)
    return calls


def pool_of_two(n):
    rng = np.random.default_rng(0)
    loc = rng.normal(size=n)
    levels = np.arange(1, 20) / 20
    values = loc[:, np.newaxis] + np.sort(rng.normal(size=(n, 19)), axis=1)
    recalibrated = Recalibrated(StudentT(loc, 1 + rng.random(n), 5.0), steep_map(rng, 10, 0.3))
    return Mixture([Quantiles(levels, values), recalibrated], [0.4, 0.6]), loc + rng.normal(size=n)


def test_no_cdf_of_the_rows_is_evaluated(monkeypatch):
    pool, y = pool_of_two(500)
    pool.components[1].crps(y)  # tables of one row
    counts = [
        count_calls(monkeypatch, Quantiles, "_cdf"),
        count_calls(monkeypatch, StudentT, "_normal_score"),
    ]
    rows = [len(pool)]
    original = StudentT._cdf

    def counted(self, y):
        rows.append(len(self))
        return original(self, y)

    monkeypatch.setattr(StudentT, "_cdf", counted)
    pool.crps(y)
    assert not counts[0]
    assert len(counts[1]) <= 8  # of one row, for its tables
    assert set(rows[1:]) <= {1}


def test_the_distances_are_computed_once(monkeypatch):
    pool, y = pool_of_two(50)
    conformal = ConformalPredictive(y, 1.0, np.linspace(-2, 2, 30))
    for dist in (pool, Mixture([pool, conformal])):
        calls = count_calls(monkeypatch, cramer, "leaf_distance")
        pairs = len(dist._leaves()) * (len(dist._leaves()) - 1) // 2
        scores = dist.crps(y)
        assert_array_equal(dist.crps(y), scores)
        assert crps_loss(y, dist) == pytest.approx(scores.mean())
        assert_allclose(dist[10:20].crps(y[10:20]), scores[10:20], rtol=1e-14)
        assert pairs <= len(calls) <= 2 * pairs


def test_a_report_searches_each_quantile_once_and_distances_once(monkeypatch):
    pool, y = pool_of_two(60)
    distances = count_calls(monkeypatch, cramer, "leaf_distance")
    searches = count_calls(monkeypatch, members_module, "search_crossing")
    uncertainty_report(y, pool, n_resamples=20, n_simulations=20, random_state=0)
    assert len(distances) <= 4
    assert len(searches) <= 400


def test_the_scorer_takes_the_same_path(monkeypatch):
    class Model:
        def predict_dist(self, X):
            return pool_of_two(len(X))[0]

    pool, y = pool_of_two(30)
    searches = count_calls(monkeypatch, members_module, "search_crossing")
    score = get_scorer("neg_crps")(Model(), np.zeros((30, 1)), y)
    assert score == pytest.approx(-pool.crps(y).mean())
    assert not searches


@pytest.mark.parametrize("kind", ["mixture", "normal mixture"])
def test_kept_quantiles_are_copies_and_few(kind, monkeypatch):
    rng = np.random.default_rng(0)
    if kind == "mixture":
        dist, _ = pool_of_two(20)
    else:
        dist = NormalMixture(rng.normal(size=(20, 3)), 1.0)
    searches = count_calls(monkeypatch, members_module, "search_crossing")
    first = dist.ppf(0.3)
    expected = first.copy()
    first[:] = 0.0
    assert_array_equal(dist.ppf(0.3), expected)
    assert_array_equal(dist.interval(0.4)[:, 0], expected)
    assert len(searches) == 2  # of both ends
    assert_array_equal(dist.ppf(np.full(20, 0.3)), expected)
    assert_array_equal(pickle.loads(pickle.dumps(dist)).ppf(0.3), expected)
    monkeypatch.setattr(members_module, "MOST_KEPT", 0)
    fresh = dist[:]
    del searches[:]
    assert_array_equal(fresh.ppf(0.3), fresh.ppf(0.3))
    assert len(searches) == 2
