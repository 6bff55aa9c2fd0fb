"""The distribution of probability levels as a function of x."""

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.model_selection import KFold

from skuq.distributions import LevelMap, Normal, Recalibrated, StudentT
from skuq.regressors._shape.conditional import (
    _LEVELS,
    _best_shares,
    _common_levels,
    _Merit,
    fit_conditional_shape,
)
from skuq.regressors._shape.trees import THRESHOLDS

COMMON = Recalibrated(StudentT([0.0], [1.0], [6.0]), LevelMap([0.2, 0.9], [0.3, 0.8]))


def folds_of(n, k=5):
    return list(KFold(k).split(np.zeros(n)))


def skewed_rows(n, seed=0, columns=3):
    """Return rows whose level is Beta(1, 3) or Beta(3, 1) by the sign of the first column."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, columns))
    level = np.where(table[:, 0] > 0, rng.beta(3, 1, n), rng.beta(1, 3, n))
    return table, level


def fit(table, level, weight=None, folds=None, *, seed=0, **options):
    folds = folds_of(len(level)) if folds is None else folds
    return fit_conditional_shape(table, level, weight, folds, COMMON, seed, **{"guard": True, **options})


def test_the_distribution_of_levels_is_found_at_each_x():
    table, level = skewed_rows(1500)
    shape, out_of_fold = fit(table, level)
    new, _ = skewed_rows(400, seed=1)
    truth = np.where(new[:, :1] > 0, stats.beta.cdf(THRESHOLDS, 3, 1), stats.beta.cdf(THRESHOLDS, 1, 3))
    far = np.abs(new[:, 0]) > 0.2
    assert shape.share > 0.9
    assert np.sqrt(np.mean((shape(new) - truth)[far] ** 2)) < 0.06
    # with a fifth of the trees
    target = level[:, np.newaxis] <= THRESHOLDS
    assert np.mean((out_of_fold - target) ** 2) < 0.8 * np.mean((THRESHOLDS - target) ** 2)


def test_a_shape_that_does_not_depend_on_x_is_the_common_one():
    rng = np.random.default_rng(0)
    found = [fit(rng.normal(size=(200, 3)), rng.random(200), seed=seed) is not None for seed in range(12)]
    assert sum(found) <= 1
    for seed in range(5):
        table = rng.normal(size=(200, 3))
        forced = fit(table, rng.random(200), guard=False, seed=seed)
        assert forced is None or np.sqrt(np.mean((forced[0](table) - THRESHOLDS) ** 2)) < 0.1


def test_few_rows_have_the_common_shape():
    table, level = skewed_rows(39)
    assert fit(table, level, guard=False) is None
    assert fit(*skewed_rows(40), guard=False) is not None
    assert fit(*skewed_rows(60), weight=np.full(60, 0.6), guard=False) is None


def test_out_of_fold_shares_do_not_depend_on_the_levels_of_their_own_fold(monkeypatch):
    # the shares of both kinds of trees are common to all rows
    monkeypatch.setattr("skuq.regressors._shape.conditional._best_shares", lambda *_: np.array([0.5, 0.25]))
    table, level = skewed_rows(300)
    own = folds_of(300)[2][1]
    changed = level.copy()
    changed[own] = np.random.default_rng(1).permutation(level[own])
    before, after = (fit(table, one, guard=False)[1] for one in (level, changed))
    assert np.array_equal(before[own], after[own])
    assert not np.array_equal(before, after)


def test_rows_that_no_fold_tests_have_the_common_shape_out_of_fold():
    table, level = skewed_rows(400)
    folds = [(np.arange(200), np.arange(200, 300)), (np.arange(300), np.arange(300, 400))]
    shape, out_of_fold = fit(table, level, folds=folds)
    assert np.array_equal(out_of_fold[:200], np.tile(THRESHOLDS, (200, 1)))
    assert (out_of_fold[200:] != THRESHOLDS).any(axis=1).all()
    assert [len(trees.roots) for trees in shape.trees] == [25, 25]  # grown on all rows


def test_rows_without_weight_make_no_difference():
    table, level = skewed_rows(300)
    junk_table, junk = skewed_rows(300, seed=1)
    both = np.concatenate([table, 1000 * junk_table]), np.concatenate([level, 1 - junk])
    folds = [(train, np.concatenate([test, test + 300])) for train, test in folds_of(300)]
    folds = [(np.concatenate([train, train + 300]), test) for train, test in folds]
    alone, out_of_fold = fit(table, level, np.ones(300))
    with_junk, more = fit(*both, np.repeat([1.0, 0.0], 300), folds)
    assert with_junk.share == alone.share
    assert np.array_equal(with_junk(table), alone(table))
    assert np.array_equal(more[:300], out_of_fold)


def test_the_share_without_noise_of_the_trees_is_the_larger_one():
    table, level = skewed_rows(200, columns=8)
    level = 0.3 * level + 0.7 * np.random.default_rng(1).random(200)
    shape, out_of_fold = fit(table, level, guard=False)
    part, whole = out_of_fold - THRESHOLDS, shape(table) - THRESHOLDS
    assert 0 < shape.share < 1
    assert np.abs(part).mean() > 0
    assert np.abs(whole).mean() > np.abs(part).mean()  # the trees of the own fold included


def test_many_rows_are_judged_by_a_sample(monkeypatch):
    table, level = skewed_rows(600)
    share = fit(table, level)[0].share
    monkeypatch.setattr("skuq.regressors._shape.conditional._MOST_COMPARED", 300)
    assert fit(table, level)[0].share == pytest.approx(share, abs=0.2)


def test_shares_at_the_thresholds_give_the_common_shape():
    table, level = skewed_rows(300)
    smooth = StudentT([0.0], [1.0], [6.0])
    shape, _ = fit_conditional_shape(table, level, None, folds_of(300), smooth, 0, guard=True)
    loc, scale = np.array([0.0, 5.0]), np.array([1.0, 2.0])
    dist = shape.distribution(np.tile(THRESHOLDS, (2, 1)), loc, scale)
    expected = StudentT(loc, scale, [6.0, 6.0]).quantile(dist.levels)
    assert dist.values == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert dist.has_density


def test_the_distribution_has_the_given_shares_below_the_common_quantiles():
    shape, _ = fit(*skewed_rows(300))
    shares = np.stack([np.sqrt(THRESHOLDS), THRESHOLDS**2])
    dist = shape.distribution(shares, np.zeros(2), np.ones(2))
    reached = np.column_stack([dist.cdf(np.full(2, z)) for z in COMMON.quantile(THRESHOLDS)[0]])
    assert reached == pytest.approx(shares, abs=0.005)
    assert (np.diff(dist.values, axis=1) > 0).all()


def test_all_quantiles_lie_where_the_shares_increase():
    shape, _ = fit(*skewed_rows(300))
    dist = shape.distribution(np.repeat([[0.0, 0.4, 1.0]], 5, axis=1), np.zeros(1), np.ones(1))
    # from the fifth to the sixth threshold, 0.2 and 0.3, and from the tenth to the eleventh, 0.7 and 0.8
    low, high = (COMMON.quantile([start, start + 0.1])[0] for start in (0.2, 0.7))
    values = dist.values[0]
    assert (low[0] < values[dist.levels < 0.4]).all()
    assert (values[dist.levels < 0.4] < low[1]).all()
    assert (high[0] < values[dist.levels > 0.4]).all()
    assert (values[dist.levels > 0.4] < high[1]).all()
    assert (np.diff(values) > 0).all()


def test_blocks_of_rows_make_no_difference(monkeypatch):
    shape, _ = fit(*skewed_rows(300))
    shares = shape(skewed_rows(57, seed=1)[0])
    whole = shape.distribution(shares, np.zeros(57), np.ones(57)).values
    monkeypatch.setattr("skuq.regressors._shape.conditional._BLOCK", 5000)
    assert np.array_equal(shape.distribution(shares, np.zeros(57), np.ones(57)).values, whole)


def test_missing_values_and_unknown_ones_are_taken():
    table, level = skewed_rows(600)
    table[np.random.default_rng(2).random(table.shape) < 0.2] = np.nan
    shape, _ = fit(table, level)
    new = np.array([[2.0, np.nan, np.nan], [-2.0, 1e300, -1e300], [np.nan] * 3])
    low, high, unknown = shape(new)[:, 7]  # the share below the median
    assert low < 0.3 < unknown < 0.7 < high


def test_a_shape_survives_pickling_and_is_small():
    table, level = skewed_rows(1000)
    shape, _ = fit(table, level)
    text = pickle.dumps(shape)
    assert np.array_equal(pickle.loads(text)(table), shape(table))
    assert len(text) < 400_000


def test_a_normal_family_is_a_common_shape_too():
    table, level = skewed_rows(300)
    shape, _ = fit_conditional_shape(table, level, None, folds_of(300), Normal([0.0], [1.0]), 0, guard=True)
    dist = shape.distribution(np.tile(THRESHOLDS, (1, 1)), np.zeros(1), np.ones(1))
    assert dist.quantile(0.975) == pytest.approx(1.96, abs=2e-3)


def test_the_guard_counts_dependent_rows_once():
    rng = np.random.default_rng(0)
    halves, level = rng.random((2, 2, 30, len(THRESHOLDS))), rng.random(30)
    alone = _Merit.of_halves(halves, level, np.ones(30), np.arange(30), n_folds=5)
    rows = np.repeat(np.arange(30), 4)
    clusters, repeated = (
        _Merit.of_halves(halves[:, :, rows], level[rows], np.ones(120), labels, n_folds=5)
        for labels in (rows, np.arange(120))
    )
    assert alone.error > 0
    assert clusters.moment == pytest.approx(alone.moment)
    assert clusters.error == pytest.approx(alone.error)
    assert repeated.error == pytest.approx(alone.error / 2)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_shares_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    forecasts, target = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 2)), rng.normal(size=30)
    target += forecasts @ rng.uniform(-0.5, 1.2, 2)
    moments, squares = forecasts.T @ target, forecasts.T @ forecasts
    shares = _best_shares(moments, squares)
    first, second = np.meshgrid(*[np.linspace(0, 1, 201)] * 2)
    grid = np.stack([first, second], axis=-1)[first + second <= 1 + 1e-12]
    losses = np.einsum("gi,ij,gj->g", grid, squares, grid) - 2 * grid @ moments
    assert shares.min() >= 0
    assert shares.sum() <= 1 + 1e-12
    assert shares @ squares @ shares - 2 * shares @ moments <= losses.min() + 1e-9


def test_forecasts_without_any_difference_have_no_share():
    assert np.array_equal(_best_shares(np.zeros(2), np.zeros((2, 2))), np.zeros(2))
    assert np.array_equal(_best_shares(np.array([1.0, 0.0]), np.diag([4.0, 0.0])), [0.25, 0.0])


def test_probabilities_that_rounding_reverses_give_finite_levels():
    level = _LEVELS[1]
    shares = np.tile(THRESHOLDS, (2, 1))
    shares[0, :3] = [level, np.nextafter(level, 0), level]
    shares[1, :2] = [np.nextafter(level, 1), level]
    found = _common_levels(shares)
    assert np.isfinite(found).all()
    assert (np.diff(found, axis=1) >= -1e-12).all()
