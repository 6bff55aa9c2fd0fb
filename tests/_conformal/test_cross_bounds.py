"""Predictions of the models that were fitted without a row, and the bounds made of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq._conformal.cross_bounds import (
    FoldBounds,
    LeftOutMean,
    LeftOutMedian,
    ModelOfFold,
    PairBounds,
)
from skuq._conformal.order_statistics import FoldScores, SortedScores


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
    by_fold = FoldBounds(FoldScores([-part for part in residuals]), FoldScores(residuals))
    pooled = np.concatenate(residuals)
    fold = ModelOfFold(np.repeat(np.arange(3), [40, 30, 50]))
    by_pair = PairBounds(fold, SortedScores(-pooled), SortedScores(pooled))
    expected = np.empty((8, 2, 4))
    for row in range(8):
        sums = np.sort(predictions[fold.model, row] + pooled)
        for level, rank in enumerate(targets.astype(int) - 1):
            finite = rank < 120
            expected[row, :, level] = (sums[119 - rank], sums[rank]) if finite else (-np.inf, np.inf)
    assert_array_equal(by_pair.bounds(predictions, targets), expected)
    assert_allclose(by_fold.bounds(predictions, targets), expected, rtol=1e-14)
