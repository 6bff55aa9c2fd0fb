"""Order statistics of sums, found without sorting all sums, and the bounds of fold models made of them."""

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skuq._numeric import score_level
from skuq.conformal import _cross as cross_bounds
from skuq.conformal import _cross as order_statistics
from skuq.conformal._base import warn_of_few_rows
from skuq.conformal._cross import (
    FoldBounds,
    FoldScores,
    LeftOutMean,
    LeftOutMedian,
    ModelOfFold,
    PairBounds,
    SortedScores,
    smallest_fold_sums,
)
from skuq.exceptions import SmallSampleWarning

PROBABILITIES = np.array([0.001, 0.05, 0.3, 0.5, 0.9, 0.95])

SCORES = {
    "normal": lambda rng, k: rng.normal(size=k),
    "whole numbers": lambda rng, k: rng.integers(0, 4, size=k).astype(float),
    "all the same": lambda rng, k: np.full(k, 0.1),
    "heavy tails": lambda rng, k: rng.standard_cauchy(size=k),
    "over many scales": lambda rng, k: 2.0 ** -rng.integers(0, 60, size=k),
    "next to nothing": lambda rng, k: 1e-13 * rng.normal(size=k),
}

CENTERS = {
    "near": lambda rng, k, m: rng.normal(size=m) + 0.1 * rng.normal(size=(k, m)),
    "apart": lambda rng, k, m: 5 * rng.normal(size=(k, m)),
    "whole numbers": lambda rng, k, m: rng.integers(0, 3, size=(k, m)).astype(float),
    "equal": lambda rng, k, m: np.full((k, m), 0.3),
    "far from zero": lambda rng, k, m: 1e6 + rng.normal(size=(k, m)),
    "over many scales": lambda rng, k, m: 10.0 ** rng.uniform(-8, 8, size=(k, m)),
}

WEIGHTS = {
    "ones": lambda rng, k: np.ones(k),
    "whole": lambda rng, k: rng.integers(1, 4, size=k).astype(float),
    "fractions": lambda rng, k: rng.uniform(0.3, 2, size=k),
}


def sort_all(centers, scores, weights, targets):
    """The definition: all sums of a row in one line, and the first up to which they weigh enough."""
    sums = np.concatenate([row[:, None] + part for row, part in zip(centers, scores, strict=True)], axis=1)
    order = np.argsort(sums, axis=1)
    sums = np.take_along_axis(sums, order, axis=1)
    weight = np.concatenate(weights)
    reached = np.cumsum(weight[order], axis=1)
    sums = np.column_stack([sums, np.full(len(sums), np.inf)])
    place = [(reached < target * (1 - 1e-12)).sum(axis=1) for target in targets]
    # the weight of all, added in another order, is the weight of all
    beyond = targets * (1 - 1e-12) > weight.sum()
    place = [np.where(far, p, np.minimum(p, weight.size - 1)) for far, p in zip(beyond, place, strict=True)]
    return np.take_along_axis(sums, np.stack(place, axis=1), axis=1)


def assert_same(found, expected, centers):
    """Equal to rounding, which is that of the sums and of what they are made of."""
    assert_array_equal(np.isinf(found), np.isinf(expected))
    finite = np.isfinite(expected)
    size = np.maximum(np.abs(centers).max(axis=0)[:, None], np.where(finite, np.abs(expected), 0.0))
    error = np.where(finite, found, 0.0) - np.where(finite, expected, 0.0)
    assert (np.abs(error) <= 1e-12 * size).all()


def ones(scores):
    return [np.ones(len(part)) for part in scores]


def by_fold(centers, scores, weights, targets):
    return smallest_fold_sums(centers, FoldScores(scores, weights), targets)


def by_pair(centers, scores, weights, targets):
    ranked = SortedScores(np.concatenate(scores), np.concatenate(weights))
    own = ModelOfFold(np.repeat(np.arange(len(scores)), [len(part) for part in scores]))
    return PairBounds(own, ranked, ranked).bounds(centers, targets)[:, 1]


both_kernels = pytest.mark.parametrize("kernel", [by_fold, by_pair])


@both_kernels
@pytest.mark.parametrize("scoring", SCORES)
def test_equal_to_sorting_all_sums(kernel, scoring, subtests):
    for centering, weighting in product(CENTERS, WEIGHTS):
        with subtests.test(centering=centering, weighting=weighting):
            for seed, sizes in enumerate([(1,), (1, 2), (3, 40, 7), (90, 100, 110, 90), (400, 5, 300)]):
                rng = np.random.default_rng(seed)
                scores = [SCORES[scoring](rng, k) for k in sizes]
                weights = [WEIGHTS[weighting](rng, k) for k in sizes]
                centers = CENTERS[centering](rng, len(sizes), 30)
                total = sum(map(np.sum, weights))
                targets = np.concatenate([PROBABILITIES * (total + 1), [0.0, total, total + 1]])
                expected = sort_all(centers, scores, weights, targets)
                assert_same(kernel(centers, scores, weights, targets), expected, centers)


finite = st.floats(-1e3, 1e3)


@both_kernels
@given(
    scores=st.lists(st.lists(finite, min_size=1, max_size=60), min_size=1, max_size=4),
    centers=st.lists(finite, min_size=4, max_size=4),
    probability=st.floats(0.0, 1.0),
)
@example(scores=[[0.0, 2.2e-311]], centers=[0.0] * 4, probability=0.0)  # lengths whose inverse overflows
def test_equal_to_sorting_whatever_the_numbers(kernel, scores, centers, probability):
    scores = [np.array(part) for part in scores]
    column = np.array(centers[: len(scores)])[:, None]
    targets = np.array([probability * (sum(map(len, scores)) + 1)])
    expected = sort_all(column, scores, ones(scores), targets)
    found = kernel(column, scores, ones(scores), targets)
    size = 1e3 + np.abs(expected)  # scores may be far larger than a sum of theirs
    assert (np.isinf(found) == np.isinf(expected)).all()
    assert np.isinf(expected).all() or (np.abs(found - expected) <= 1e-12 * size).all()


@both_kernels
def test_weights_are_repetitions_and_the_result_is_one_of_the_sums(kernel):
    rng = np.random.default_rng(0)
    scores, weights = [rng.normal(size=60) for _ in range(3)], [rng.integers(1, 5, size=60) for _ in range(3)]
    centers = rng.normal(size=(3, 20))
    repeated = [np.repeat(part, times) for part, times in zip(scores, weights, strict=True)]
    targets = PROBABILITIES * (sum(map(len, repeated)) + 1)
    found = kernel(centers, scores, [part.astype(float) for part in weights], targets)
    assert_array_equal(found, kernel(centers, repeated, ones(repeated), targets))
    for column, row in zip(centers.T, found, strict=True):
        sums = np.concatenate([center + part for center, part in zip(column, scores, strict=True)])
        assert np.isin(row[np.isfinite(row)], sums).all()


@both_kernels
def test_ranks_that_rounding_lifts_and_order_statistics_of_zero(kernel):
    assert 0.55 * 100 > 55
    found = kernel(np.zeros((1, 1)), [np.arange(1.0, 100.0)], [np.ones(99)], np.array([0.55 * 100]))
    assert found.item() == 55
    scores = [np.append(np.arange(-200.0, 201.0), np.zeros(50)) for _ in range(2)]
    assert_array_equal(kernel(np.zeros((2, 3)), scores, ones(scores), np.array([450.0])), np.zeros((3, 1)))


@both_kernels
def test_chunks_of_rows_and_levels_do_not_matter(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=100) for _ in range(4)]
    centers, targets = rng.normal(size=(4, 50)), PROBABILITIES * 401
    whole = kernel(centers, scores, ones(scores), targets)
    for floats in (1, 700, 3000):
        monkeypatch.setattr(order_statistics, "_CHUNK_FLOATS", floats)
        monkeypatch.setattr(cross_bounds, "_CHUNK_FLOATS", floats)
        assert_array_equal(kernel(centers, scores, ones(scores), targets), whole)


def test_a_search_ends_whatever_the_numbers():
    rng = np.random.default_rng(0)
    scores = [2.0 ** -rng.uniform(0, 1000, size=1000) for _ in range(3)]
    centers, targets = 10.0 ** rng.uniform(-300, 8, size=(3, 100)), PROBABILITIES * 3001
    found = by_fold(centers, scores, ones(scores), targets)
    assert_same(found, sort_all(centers, scores, ones(scores), targets), centers)


def test_a_single_score_of_each_kind_of_fold():
    found = by_fold(
        np.array([[1.0], [10.0]]),
        [np.array([2.0]), np.array([])],
        [np.ones(1), np.ones(0)],
        np.array([1.0, 2.0]),
    )
    assert_array_equal(found, [[3.0, np.inf]])


def test_only_sums_that_may_matter_are_formed():
    rng = np.random.default_rng(0)
    ranked = SortedScores(np.abs(rng.normal(size=2000)), np.ones(2000))
    near = rng.normal(size=30)
    window = ranked.window(np.array([0.9 * 2001]), near - 0.05, near + 0.05)
    assert 0 < window.stop - window.start < 150
    assert ranked.window(np.array([2001.0]), near, near) == slice(0, 0)


def test_a_row_has_the_prediction_of_the_model_of_its_fold():
    predictions = np.array([[1.0, 2.0], [10.0, 20.0]])
    centers = ModelOfFold(np.array([1, 0, 0, 1])).centers(predictions, np.array([3, 1]))
    assert_array_equal(centers, [[10.0, 1.0], [20.0, 2.0]])


@pytest.mark.parametrize("n_models", [1, 2, 7, 30, 300])
def test_means_and_medians_of_the_models_whose_resample_leaves_a_row_out(n_models):
    rng = np.random.default_rng(n_models)
    left_out = rng.uniform(size=(n_models, 50)) < 0.4
    left_out[rng.integers(n_models, size=50), np.arange(50)] = True
    predictions = rng.integers(0, 9, size=(n_models, 12)) + 0.1 * rng.integers(0, 2, size=(n_models, 12))
    rows = rng.permutation(50)[:40]
    of_pairs = np.where(left_out[:, None, rows], predictions[:, :, None], np.nan)
    mean = LeftOutMean(left_out).centers(predictions, rows)
    assert_allclose(mean, np.nanmean(of_pairs, axis=0), rtol=1e-12)
    median = LeftOutMedian(left_out).centers(predictions, rows)
    assert_array_equal(median, np.nanmedian(of_pairs, axis=0))


def test_bounds_fold_by_fold_are_those_of_all_pairs():
    rng = np.random.default_rng(0)
    residuals = [rng.normal(size=k) for k in (40, 30, 50)]
    predictions = rng.normal(size=8) + 0.3 * rng.normal(size=(3, 8))
    targets = np.array([1.0, 60.0, 109.0, 121.0])
    weights = ones(residuals)
    by_fold = FoldBounds(FoldScores([-part for part in residuals], weights), FoldScores(residuals, weights))
    pooled = np.concatenate(residuals)
    fold = ModelOfFold(np.repeat(np.arange(3), [40, 30, 50]))
    by_pair = PairBounds(fold, SortedScores(-pooled, np.ones(120)), SortedScores(pooled, np.ones(120)))
    expected = np.empty((8, 2, 4))
    for row in range(8):
        sums = np.sort(predictions[fold.model, row] + pooled)
        for level, rank in enumerate(targets.astype(int) - 1):
            finite = rank < 120
            expected[row, :, level] = (sums[119 - rank], sums[rank]) if finite else (-np.inf, np.inf)
    assert_array_equal(by_pair.bounds(predictions, targets), expected)
    assert_allclose(by_fold.bounds(predictions, targets), expected, rtol=1e-14)


def test_one_warning_names_the_most_extreme_coverage_and_its_rows():
    def warn(coverages, symmetric, *weights):
        coverages = np.array(coverages)
        warn_of_few_rows("coverage", coverages, score_level(coverages, symmetric), *weights)

    for symmetric, needed in ((True, 9), (False, 19)):
        message = f"90 % needs at least {needed} calibration rows, got 8"
        with pytest.warns(SmallSampleWarning, match=message) as caught:
            warn([0.5, 0.9, 0.85], symmetric, 8.0)
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn([0.5, 0.9], symmetric, float(needed))
    # rows are counted in units of the weight of the new row
    with pytest.warns(SmallSampleWarning, match="weight of at least 27 for a new row of weight 3, got 9"):
        warn([0.9], True, 9.0, 3.0)
