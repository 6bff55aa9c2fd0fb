"""The scores of classes against their definitions, written out row by row."""

from __future__ import annotations

import numpy as np
import pytest

from skuq._conformal.class_scores import APSScore, LACScore, scores_of_labels, select_score
from skuq.prediction import prediction_set


@pytest.fixture
def proba():
    return np.random.default_rng(0).dirichlet(np.full(6, 0.7), size=200)


def test_lac_is_one_minus_the_probability(proba):
    np.testing.assert_array_equal(LACScore().score(proba, None), 1 - proba)


@pytest.mark.parametrize("randomized", [False, True])
@pytest.mark.parametrize(("penalty", "k_reg"), [(0.0, 0), (0.1, 0), (0.3, 2)])
def test_aps_is_the_mass_above_a_share_of_the_class_and_the_penalty_of_its_rank(
    proba, randomized, penalty, k_reg
):
    uniform = np.random.default_rng(1).random(len(proba)) if randomized else None
    scores = APSScore(randomized, penalty, k_reg).score(proba, uniform)
    for i, row in enumerate(proba):
        for k, p in enumerate(row):
            rank = 1 + (row > p).sum()
            expected = row[row > p].sum() + penalty * max(rank - k_reg, 0)
            expected += uniform[i] * p if randomized else 0
            assert scores[i, k] == pytest.approx(expected, abs=1e-12)


def test_classes_of_less_mass_above_than_the_coverage_are_the_prediction_set(proba):
    for coverage in (0.5, 0.9, 0.99):
        above = APSScore(False, 0, 0).score(proba, None)
        np.testing.assert_array_equal(above < coverage, prediction_set(proba, coverage))


def test_equally_probable_classes_have_the_order_of_their_columns():
    scores = APSScore(False, 0, 0).score(np.array([[0.25, 0.25, 0.25, 0.25]]), None)
    np.testing.assert_array_equal(scores, [[0, 0.25, 0.5, 0.75]])


def test_probabilities_of_single_precision_are_summed_in_double():
    proba = np.full((1, 1000), 0.001, dtype=np.float32)
    assert APSScore(False, 0, 0).score(proba, None).max() == pytest.approx(0.999, abs=1e-6)
    assert LACScore().score(proba, None).dtype == np.float64


def test_a_label_that_is_no_class_has_an_infinite_score():
    scores = scores_of_labels(np.array([[0.1, 0.9], [0.3, 0.7]]), np.array([1, -1]))
    np.testing.assert_array_equal(scores, [0.9, np.inf])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "score"}, ValueError, "`method` must be one of 'lac', 'aps', got 'score'"),
        ({"randomized": 1}, ValueError, "`randomized` must be one of True, False"),
        ({"method": "lac", "randomized": True}, ValueError, "`randomized` must be False with method 'lac'"),
        ({"method": "lac", "penalty": 0.1}, ValueError, "`penalty` must be 0.0 with method 'lac', got 0.1"),
        ({"method": "lac", "k_reg": 2}, ValueError, "`k_reg` must be 0 with method 'lac', got 2"),
        ({"penalty": -0.1}, ValueError, "`penalty` must be non-negative, got -0.1"),
        ({"penalty": np.nan}, ValueError, "`penalty` must be finite"),
        ({"penalty": "1"}, TypeError, "`penalty` must be a number"),
        ({"k_reg": -1}, ValueError, "`k_reg` must be at least 0"),
        ({"k_reg": 1.5}, TypeError, "`k_reg` must be an integer"),
    ],
)
def test_parameters_that_are_none_or_not_of_the_method_are_errors(options, error, message):
    with pytest.raises(error, match=message):
        select_score(**{"method": "aps", "randomized": False, "penalty": 0, "k_reg": 0} | options)
