"""Predictions of one row: the same numbers as among other rows, and no repeated work that users notice."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.preprocessing import StandardScaler

from skuq import _compat, predict_dist
from skuq._fitting import table as columns_module
from skuq._fitting.table import ScaleFeatures
from skuq.conformal import ConformalRegressor
from skuq.distributions import Normal, StudentT, affine
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    MixtureRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from tests.regressors.worlds import heteroscedastic_world

X, Y = heteroscedastic_world(150)
LEVEL_MAP = ([-1.5, -0.2, 0.4, 1.3], [-1.0, -0.4, 0.7, 1.1])


class Counted(LinearRegression):
    """A linear model that counts the calls of `predict` of all of its copies."""

    calls = 0

    def predict(self, X):
        Counted.calls += 1
        return super().predict(X)


# ------------------------------------------------------------------------- integrals over levels


STUDENT = RecalibratedRegressor(
    BootstrapRegressor(LinearRegression(), 5), IsotonicRecalibrator(), cv=2, random_state=0
)


@pytest.fixture(scope="module")
def student():
    """Return a model whose distributions are normal or Student t, mapped by a recalibrator."""
    y = X[:, 0] + np.random.default_rng(0).standard_t(4, size=len(X))
    return clone(STUDENT).fit(X, y)


@pytest.mark.parametrize(
    "model",
    [STUDENT, TransformedTargetRegressor(STUDENT, transformer=StandardScaler())],
    ids=["recalibrated", "transformed target"],
)
def test_the_moments_of_a_row_do_not_depend_on_other_rows(model):
    model = model.fit(X, X[:, 0] + np.random.default_rng(0).standard_t(4, size=len(X)))
    first, all_rows = predict_dist(model, X[:1]), predict_dist(model, X)
    for method in ("mean", "std"):
        # BLAS may round the prediction of one row and of many rows differently.
        np.testing.assert_allclose(getattr(all_rows, method)()[:1], getattr(first, method)(), rtol=1e-13)


def test_each_family_has_its_own_integrals():
    shared = LevelMap.from_scores(*LEVEL_MAP)
    for make in (
        lambda: StudentT([1.0, 2.0], 3.0, df=5),
        lambda: Normal([1.0, 2.0], 3.0),
        lambda: StudentT([1.0, 2.0], 3.0, df=9),
        lambda: StudentT([1.0, 2.0], 3.0, df=5),
    ):
        kept, fresh = Recalibrated(make(), shared), Recalibrated(make(), LevelMap.from_scores(*LEVEL_MAP))
        for method in ("mean", "std"):
            np.testing.assert_array_equal(getattr(kept, method)(), getattr(fresh, method)())
        np.testing.assert_array_equal(kept.crps(0.3), fresh.crps(0.3))


def test_maps_that_are_composed_or_reversed_again_are_equal():
    outer, inner = LevelMap.from_scores(*LEVEL_MAP), LevelMap([0.5], [0.8])
    assert outer.after(inner).equals(outer.after(inner))
    assert not outer.after(inner).equals(outer.after(LevelMap([0.5], [0.3])))
    assert outer.after(inner).equals(LevelMap.from_scores(*LEVEL_MAP).after(inner))
    assert outer.reversed().reversed().equals(outer)


def test_threads_that_ask_first_at_the_same_time_get_the_same_moments(student):
    n_threads = 8
    expected = copy.deepcopy(student).predict_dist(X[:3])
    expected = np.concatenate([expected.mean(), expected.std(), expected.crps(0.0)])
    for _ in range(5):
        model, barrier = pickle.loads(pickle.dumps(student)), Barrier(n_threads)

        def moments(_, model=model, barrier=barrier):
            barrier.wait()
            dist = model.predict_dist(X[:3])
            return np.concatenate([dist.mean(), dist.std(), dist.crps(0.0)])

        with ThreadPoolExecutor(n_threads) as pool:
            for result in pool.map(moments, range(n_threads)):
                np.testing.assert_array_equal(result, expected)


def test_kept_integrals_are_in_no_pickle(student):
    def sizes(model):
        return len(pickle.dumps(model)), len(pickle.dumps(copy.deepcopy(model)))

    model = pickle.loads(pickle.dumps(student))
    affine(model.predict_dist(X[:1]), 0.0, 1.0).quantile(0.3)
    before = sizes(model)
    dist = affine(model.predict_dist(X), 1.0, -2.0)
    dist.mean(), dist.crps(0.0), model.predict_dist(X).crps(0.0)
    assert sizes(model) == before
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict_dist(X).std(), model.predict_dist(X).std())


# -------------------------------------------------------------------- members predict once per call

REFIT = ResidualRegressor(Counted(), center="model")
PAIR = [("one", REFIT), ("two", ResidualRegressor(Counted(), center="model", effort="low"))]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (UncertaintyRegressor(Counted(), method_params={"center": "model"}), 1),
        (RecalibratedRegressor(BootstrapRegressor(Counted(), 5), cv=2), 5),
        (UncertaintyRegressor(MixtureRegressor(PAIR, weights="equal", cv=2), cv=2), 2),
        (ConformalRegressor(REFIT, "normalized"), 1),
    ],
    ids=["default", "recalibrated bootstrap", "default of a pool", "normalized"],
)
def test_each_member_predicts_once_per_call(model, expected):
    model = model.set_params(random_state=0).fit(X, Y)
    for call in (model.predict, model.predict_interval, lambda rows: model.predict(rows, return_std=True)):
        Counted.calls = 0
        call(X[:1])
        assert Counted.calls == expected


@pytest.mark.parametrize(
    "model",
    [
        RecalibratedRegressor(BootstrapRegressor(Ridge(), 5), IsotonicRecalibrator(), cv=2),
        RecalibratedRegressor(MultiQuantileRegressor(QuantileRegressor(alpha=0.0), [0.2, 0.8]), cv=2),
        UncertaintyRegressor(Ridge()),
    ],
)
def test_point_and_standard_deviation_are_those_of_separate_calls(model):
    model = model.set_params(random_state=0).fit(X, Y)
    points, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(points, model.predict(X))
    np.testing.assert_array_equal(std, model.predict_dist(X).std())


# --------------------------------------------------------------------------- the default scale model


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1.0, np.nan], [np.inf, -2.0], [3.0, 4.0]]),
        np.asfortranarray([[1.0, 5.0], [2.0, -2.0], [3.0, 4.0]]),
        np.array([[1, 2], [3, 4], [5, 6]], dtype=np.int8),
        np.array([[True, False]] * 3),
        pd.DataFrame({"a": [1.5, np.inf, np.nan], "b": [1, 2, 3], "c": [True, False, True]}),
        pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [1.0, 2.0, 3.0]}),
        pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 0.0, 1.0]), "b": [1.0, 2.0, 3.0]}),
    ],
    ids=["nan", "fortran", "integers", "bools", "frame", "nullable", "sparse column"],
)
def test_numbers_become_scale_features(table):
    prediction = np.array([7.0, 8.0, 9.0])
    frame = pd.DataFrame(table)
    columns = [columns_module.numbers_of(frame.iloc[:, j], None) for j in range(frame.shape[1])]
    expected, before = np.column_stack([*columns, prediction]), copy.deepcopy(table)
    found = ScaleFeatures.from_columns(table)(table, prediction)
    np.testing.assert_array_equal(found, expected)
    assert (before.equals(table)) if isinstance(table, pd.DataFrame) else np.array_equal(before, table, True)


def test_words_still_become_numbers():
    table = pd.DataFrame({"a": ["u", "v", "u"], "b": [1.0, 2.0, 3.0]})
    features = ScaleFeatures.from_columns(table)
    np.testing.assert_array_equal(features(table, np.zeros(3))[:, 0], [0, 1, 0])
    np.testing.assert_array_equal(features(np.array([[1.0, 2.0]]), np.zeros(1)), [[np.nan, 2.0, 0.0]])


def test_jobs_give_their_results_in_order(capsys):
    def run(**options):
        return list(_compat.run_parallel([partial(abs, -1), partial(abs, 2)], **options))

    for n_jobs in (None, 1):
        for one_by_one in (False, True):
            assert run(n_jobs=n_jobs, one_by_one=one_by_one) == [1, 2]
    assert run(n_jobs=2, prefer="threads") == run(n_jobs=1, verbose=np.True_) == [1, 2]
    with pytest.raises(ValueError, match="`verbose` must be an integer of at least 0, got -1"):
        run(n_jobs=1, verbose=-1)
    with pytest.raises(ValueError, match="`n_jobs` must be an integer other than 0"):
        run(n_jobs=0)
    # lines before the last task ends
    tasks = [partial(abs, -1)] * 5
    assert list(_compat.run_parallel(tasks, n_jobs=1, verbose=1)) == [1] * 5
    assert "Done   4 tasks" in capsys.readouterr().err
