"""CRPS of tabulated distributions and of mixtures of them, against the integral of the definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skuq.distributions import Distribution, LevelMap, Mixture, Normal, Recalibrated, StudentT

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
SIDE = np.sinh(np.arange(0.0, 60.0, 0.25))
ONE = np.ones(1)


def integral(cdf, sf, y, points):
    """The definition, by Gauss-Legendre on panels between ``points`` and in geometric steps around 0."""
    edges = np.unique(np.concatenate([points, SIDE, -SIDE, [y]]))
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    x = (middle[:, np.newaxis] + half[:, np.newaxis] * NODES).ravel()
    squares = np.where(x < y, cdf(x), sf(x)) ** 2
    return float(half @ (squares.reshape(-1, NODES.size) @ WEIGHTS))


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
    breaks = base._from_normal_score(level_map.pieces.knots)
    quantiles = dist.quantile(np.linspace(0.001, 0.999, 200))[0]
    for y in [*dist.quantile([1e-6, 0.2, 0.5, 0.9])[0], 30.0, -1e4, 1e9]:
        exact = integral(dist._cdf, dist._sf, y, np.concatenate([breaks, quantiles]))
        assert_allclose(dist.crps([y]), [exact], rtol=1e-9)


def test_units_and_certain_rows_of_a_recalibrated_student_t():
    level_map = bent_map(1.0)
    loc, scale = np.array([3.0, -1e5, 2.0]), np.array([1e-3, 1e4, 0.0])
    z = np.array([0.7, -2.0, 1.5])
    dist = Recalibrated(StudentT(loc, scale, 4.0), level_map)
    standard = Recalibrated(StudentT(np.zeros(3), np.ones(3), 4.0), level_map).crps(z)
    assert_allclose(dist.crps(loc + scale * z)[:2], (scale * standard)[:2], rtol=1e-11)
    assert dist.crps(loc + 1.0)[2] == 1.0


def exact_mixture(dist, row, y):
    parts = [part[[row]] for part in dist.components]
    weights = dist._w()[row]
    points = np.concatenate(
        [part.loc + np.maximum(part.scale, 1e-9) * np.append(SIDE, -SIDE) for part in parts]
    )
    return integral(
        lambda x: sum(w * part._cdf(x) for w, part in zip(weights, parts, strict=True)),
        lambda x: sum(w * part._sf(x) for w, part in zip(weights, parts, strict=True)),
        y,
        points,
    )


@pytest.mark.parametrize("dfs", [(5.0, np.inf), (3.0, 4.0, 30.0), (2.5, 2.5)])
def test_mixtures_of_normals_and_student_t(dfs):
    rng = np.random.default_rng(int(dfs[0]))
    n = 12
    components = [StudentT(rng.normal(size=n), rng.uniform(0.3, 3, size=n), df) for df in dfs]
    components[-1] = Normal(components[-1].loc, components[-1].scale)
    dist = Mixture(components, rng.uniform(0.1, 1, size=(n, len(dfs))))
    y = rng.normal(scale=3, size=n)
    exact = [exact_mixture(dist, row, y[row]) for row in range(n)]
    assert_allclose(dist.crps(y), exact, rtol=1e-9)


def test_components_far_apart_or_of_very_different_width():
    components = [
        StudentT([0.0, 0.0, 0.0, 5.0], [1.0, 1e-3, 1.0, 1.0], 5.0),
        Normal([1e4, 0.5, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]),
    ]
    dist = Mixture(components, [0.4, 0.6])
    y = np.array([3.0, 0.1, 0.2, 0.0])
    exact = [exact_mixture(dist, row, y[row]) for row in range(2)]
    assert_allclose(dist.crps(y)[:2], exact, rtol=1e-8)
    by_quadrature = Distribution._crps(dist[2:], y[2:])  # with an atom at the other component
    assert_allclose(dist.crps(y)[2:], by_quadrature, rtol=1e-6)


def test_mixtures_with_heavy_tails_and_with_degrees_of_freedom_of_rows():
    heavy = Mixture([StudentT(ONE, ONE, 1.5), Normal(ONE, ONE)])
    assert_allclose(heavy.crps([0.0]), [exact_mixture(heavy, 0, 0.0)], rtol=1e-9)
    rows = Mixture([StudentT([0.0, 0.0], [1.0, 1.0], [3.0, 4.0]), Normal([0.0, 0.0], [1.0, 1.0])])
    exact = [exact_mixture(rows, row, y) for row, y in enumerate([0.0, 1.0])]
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
