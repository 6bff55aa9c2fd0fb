"""Prediction sets of finished class probabilities."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skuq import _prediction_sets
from skuq._prediction_sets import check_proba, mass_sets
from skuq.prediction import prediction_set

COVERAGES = np.array([0.05, 0.5, 0.85, 0.9, 0.95, 0.999])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def sets_of_the_paper(proba, eps):
    """The function of Kompa, Snoek and Beam (2021), row by row: a cumulative sum of descending values."""
    sets = np.zeros(proba.shape, dtype=bool)
    for row, values in enumerate(proba):
        order = np.argsort(values)[::-1]
        last = np.flatnonzero(np.cumsum(values[order]) >= 1 - eps)[0]
        sets[row, order[: last + 1]] = True
    return sets


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
@pytest.mark.parametrize("concentration", [0.05, 1.0, 20.0])
def test_sets_are_those_of_the_paper(rng, n_classes, concentration):
    proba = rng.dirichlet(np.full(n_classes, concentration) + 0.01, size=300)
    for eps in (0.5, 0.1, 0.05, 0.01):
        np.testing.assert_array_equal(prediction_set(proba, 1 - eps), sets_of_the_paper(proba, eps))


def test_several_coverages_are_the_sets_of_each_and_nested(rng):
    proba = rng.dirichlet(np.ones(7), size=200)
    sets = prediction_set(proba, COVERAGES)
    assert sets.shape == (200, 7, len(COVERAGES))
    for column, coverage in enumerate(COVERAGES):
        np.testing.assert_array_equal(sets[:, :, column], prediction_set(proba, coverage))
    assert (sets[:, :, :-1] <= sets[:, :, 1:]).all()
    assert prediction_set(proba, [0.9]).shape == (200, 7, 1)


def test_blocks_of_rows_change_nothing(rng, monkeypatch):
    proba = rng.dirichlet(np.ones(5), size=1000).round(1)
    proba[:, -1] = 1 - proba[:, :-1].sum(axis=1)
    proba = np.abs(proba)[np.abs(np.abs(proba).sum(axis=1) - 1) < 1e-9]
    whole = prediction_set(proba, COVERAGES)
    monkeypatch.setattr(_prediction_sets, "_VALUES_PER_BLOCK", 1)
    monkeypatch.setattr(_prediction_sets, "_LEAST_ROWS_PER_BLOCK", 7)
    np.testing.assert_array_equal(prediction_set(proba, COVERAGES), whole)


def test_the_crossing_class_is_inside_and_the_set_is_never_empty():
    assert prediction_set([[0.89, 0.10, 0.01]], 0.9).tolist() == [[True, True, False]]
    assert prediction_set([[0.2, 0.5, 0.3]], 0.01).tolist() == [[False, True, False]]


def test_without_ties_permuted_classes_give_permuted_sets(rng):
    proba = rng.dirichlet(np.ones(6), size=500)
    order = rng.permutation(6)
    np.testing.assert_array_equal(prediction_set(proba[:, order]), prediction_set(proba)[:, order])


def test_ties_fall_by_class_order():
    assert prediction_set([[0.25, 0.25, 0.25, 0.25]], 0.5).tolist() == [[True, True, False, False]]
    assert prediction_set([[0.1, 0.3, 0.3, 0.3]], 0.6).tolist() == [[False, True, True, False]]
    assert prediction_set([[0.2, 0.2, 0.4, 0.2]], 0.5).tolist() == [[True, False, True, False]]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("row", "coverage", "size"),
    [
        ([0.1] * 10, 0.9, 9),
        ([0.1] * 10, 0.3, 3),
        ([0.7, 0.2, 0.1], 0.9, 2),
        ([0.9, 0.1], 0.9, 1),
        ([0.001] * 1000, 0.9, 900),
        ([1 / 3] * 3, 2 / 3, 2),
    ],
)
def test_rounding_does_not_add_a_class(dtype, row, coverage, size):
    assert prediction_set(np.array([row], dtype=dtype), coverage).sum() == size


def test_a_shortfall_above_rounding_adds_a_class():
    assert prediction_set([[0.9 - 1e-13, 0.1 + 1e-13]], 0.9).sum() == 2
    assert prediction_set(np.array([[0.899998, 0.100002]], dtype=np.float32), 0.9).sum() == 2


def test_a_sum_that_rounding_keeps_below_the_coverage_takes_all_classes():
    assert prediction_set([[0.5, 0.4999995]], 0.9999999).all()


@pytest.mark.parametrize(
    "values",
    [
        [[0.7, 0.3], [0.0, 1.0]],
        [[1, 0], [0, 1]],
        pd.DataFrame({"no": [0.7, 0.0], "yes": [0.3, 1.0]}),
        np.array([[0.75, 0.25], [0.0, 1.0]], dtype=np.float16),
        np.asfortranarray([[0.7, 0.3], [0.0, 1.0]]),
    ],
)
def test_whatever_holds_the_numbers(values):
    np.testing.assert_array_equal(prediction_set(values, 0.6), [[True, False], [False, True]])


def test_a_single_class_is_always_inside():
    assert prediction_set([[1.0], [1.0]]).all()


def test_the_argument_is_not_changed(rng):
    proba = rng.dirichlet(np.ones(4), size=10)
    proba.flags.writeable = False
    before = proba.copy()
    prediction_set(proba, COVERAGES)
    np.testing.assert_array_equal(proba, before)


def test_calibrated_probabilities_cover_their_mass_and_at_least_the_coverage(rng):
    proba = rng.dirichlet(np.full(5, 0.6), size=20_000)
    labels = (proba.cumsum(axis=1) < rng.random((len(proba), 1))).sum(axis=1)
    sets = prediction_set(proba, 0.8)
    covered = sets[np.arange(len(proba)), labels]
    mass = (proba * sets).sum(axis=1)
    assert (mass >= 0.8 - 1e-12).all()
    assert abs(covered.mean() - mass.mean()) < 3 * np.sqrt((mass * (1 - mass)).mean() / len(proba))


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([[0.7, 0.2]], ValueError, r"`y_proba` must have rows that sum to 1 within 1e-06, got 0.9 at row 0"),
        ([[0.5, 0.5], [0.5, 0.500002]], ValueError, r"sum to 1 .* at row 1"),
        ([[70.0, 30.0]], ValueError, "sum to 1"),
        ([[1.2, -0.2]], ValueError, r"`y_proba` must be non-negative, got -0.2 at row 0, column 1"),
        ([[0.5, np.nan]], ValueError, r"`y_proba` must not contain NaN, got one at row 0, column 1"),
        ([[np.inf, 0.0]], ValueError, "sum to 1"),
        ([[np.nan, -1.0]], ValueError, "NaN"),
        ([0.7, 0.3], ValueError, r"`y_proba` must have shape \(n, K\), .* got \(2,\)"),
        (0.7, ValueError, r"shape \(n, K\)"),
        ([[[0.5, 0.5]]], ValueError, r"shape \(n, K\)"),
        (np.empty((0, 3)), ValueError, "at least one row and one class"),
        (np.empty((3, 0)), ValueError, "at least one row and one class"),
        ([["0.5", "0.5"]], TypeError, "`y_proba` must hold real numbers"),
        (None, (TypeError, ValueError), "`y_proba`"),
    ],
)
def test_what_is_no_probability_is_a_named_error(values, error, message):
    with pytest.raises(error, match=message):
        prediction_set(values)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, np.nan, [0.9, 1.0], []])
def test_a_coverage_outside_the_unit_interval_is_an_error(coverage):
    with pytest.raises(ValueError, match="`coverage`"):
        prediction_set([[0.5, 0.5]], coverage)


def test_masked_float32_probabilities_are_an_error():
    values = np.ma.masked_array(np.array([[0.5, 0.5]], dtype=np.float32), mask=[[True, False]])
    with pytest.raises(ValueError, match="masked"):
        prediction_set(values)


def test_check_proba_names_the_argument_and_the_rows():
    assert check_proba(np.array([[0.5, 0.5]], dtype=np.float32)).dtype == np.float32
    assert check_proba([[1, 0]]).dtype == np.float64
    with pytest.raises(ValueError, match=r"`proba` must have 2 rows, one per sample, got 1"):
        check_proba([[1.0, 0.0]], "proba", n=2)


def test_sums_within_the_tolerance_pass():
    assert mass_sets(check_proba([[0.5, 0.4999995]]), np.asarray(0.9)).all()
