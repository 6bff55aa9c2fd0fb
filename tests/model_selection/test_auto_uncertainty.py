"""The search for the best distribution, end to end; tests of its parts are in the folder _auto."""

import pickle
import subprocess
import sys
import warnings
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import loguniform
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import GroupKFold, ShuffleSplit, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from skuq import predict_dist
from skuq._fitting.training_data import read_training
from skuq.distributions import Normal, concat
from skuq.exceptions import ConstraintWarning
from skuq.metrics import crps_loss
from skuq.model_selection import AutoUncertaintyRegressor
from skuq.model_selection._auto_search import content_of
from skuq.model_selection._auto_space import Base, Space, Values
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import MixtureRegressor, UncertaintyRegressor

optuna = pytest.importorskip("optuna")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
Y = X[:, 0] + np.abs(X[:, 1]) + 0.3 * RNG.normal(size=160)

SPACE = {
    "estimators": {
        "bayes": {"estimator": BayesianRidge(), "methods": ["native"]},
        "ridge": {
            "estimator": Ridge(),
            "methods": ["conformal"],
            "params": {"alpha": loguniform(1e-3, 1e3)},
        },
        "forest": {
            "estimator": RandomForestRegressor(20),
            "methods": ["forest"],
            "params": {"min_samples_leaf": [1, 5, 20]},
        },
    },
    "recalibrators": {"none": None, "isotonic": IsotonicRecalibrator()},
}
LINEAR = {"estimators": {name: SPACE["estimators"][name] for name in ("bayes", "ridge")}}
WITHOUT_RIDGE = {"estimators": {name: SPACE["estimators"][name] for name in ("bayes", "forest")}}
TINY = {"estimators": {"bayes": {"estimator": BayesianRidge(), "methods": ["native"]}}}


def auto(space=LINEAR, **params):
    params = {"n_trials": 6, "time_budget": None, "random_state": 0, **params}
    return AutoUncertaintyRegressor(space, **params)


OUT_OF_SAMPLE = dict.fromkeys(
    ("check_transformer_general", "check_transformer_data_not_an_array"),
    "fit_transform predicts by models that are not trained on the row, transform by the final one",
)


@pytest.mark.filterwarnings("ignore:`y` holds integers from 0")  # the checks use classes as targets
@parametrize_with_checks([auto(TINY, n_trials=2)], expected_failed_checks=lambda _: OUT_OF_SAMPLE)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.laws)])
def test_an_integer_random_state_makes_everything_equal(n_jobs):
    storage = {"storage": "sqlite://"}  # a new one changes nothing
    first, second, other = (
        auto(n_trials=3, pool=False, **params).fit(X, Y)
        for params in ({}, {"n_jobs": n_jobs, **storage}, {"random_state": 1})
    )
    boards = [one.leaderboard_.drop(columns=["seconds", "end"]) for one in (first, second, other)]
    pd.testing.assert_frame_equal(boards[0], boards[1], check_exact=True)
    assert not boards[0].equals(boards[2])
    levels = [0.05, 0.5, 0.95]
    assert (first.predict_quantiles(X, levels) == second.predict_quantiles(X, levels)).all()


def test_the_leaderboard_has_every_candidate_and_the_winner_first():
    model = auto(SPACE, n_trials=12, pool=False).fit(X, Y)
    board = model.leaderboard_
    assert list(board.columns) == [
        *("base", "method", "recalibration", "crps", "standard_error", "coverage", "width", "seconds", "end"),
        *("state", "reason", "params"),
    ]
    complete = board[board["state"] == "complete"]
    assert complete.index.tolist() == list(range(len(complete)))  # what was pruned never leads
    assert complete["crps"].iloc[1:].is_monotonic_increasing
    assert complete["crps"].iloc[0] <= 1.005 * complete["crps"].min()
    assert set(board["base"]) == {"bayes", "ridge", "forest"}
    alone = board[board["recalibration"] == "none"]
    assert len(alone) == 12
    assert board["coverage"].between(0, 1).all()
    assert (board[["crps", "standard_error", "width"]] > 0).all().all()
    pruned = board[board["state"] == "pruned"]
    assert len(pruned) > 0
    assert set(pruned["base"]) <= {"bayes", "ridge"}  # out-of-bag forecasts are those of all folds at once


def test_the_scores_of_the_leaderboard_are_those_of_out_of_fold_forecasts():
    model = auto(TINY, n_trials=1, cv=4)
    dist = model.fit_transform(X, Y)
    row = model.leaderboard_.iloc[0]
    crps = dist.crps(Y)
    assert row["crps"] == pytest.approx(crps.mean(), rel=1e-12)
    assert row["standard_error"] == pytest.approx(crps.std(ddof=1) / np.sqrt(len(Y)), rel=1e-12)
    bounds = dist.interval(0.9)
    assert row["coverage"] == pytest.approx(((bounds[:, 0] <= Y) & (bounds[:, 1] >= Y)).mean())
    assert row["width"] == pytest.approx(np.ptp(bounds, axis=1).mean())
    assert crps_loss(Y, model.predict_dist(X)) < row["crps"]  # of the model of all rows, in sample


def test_the_winner_is_fitted_to_all_rows():
    model = auto(TINY, n_trials=1).fit(X, Y)
    expected = BayesianRidge().fit(X, Y)
    assert isinstance(model.best_estimator_, UncertaintyRegressor)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    std = model.predict_dist(X).std()
    np.testing.assert_allclose(std, expected.predict(X, return_std=True)[1], rtol=1e-14)


def test_it_goes_through_pipelines_clones_pickles_and_data_frames():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    chain = make_pipeline(clone(auto(n_trials=3))).fit(frame, Y)
    model = chain[-1]
    np.testing.assert_array_equal(
        predict_dist(chain, frame).mean(), predict_dist(model.best_estimator_, frame).mean()
    )
    np.testing.assert_array_equal(chain.predict(frame), model.best_estimator_.predict(frame))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict_interval(frame), model.predict_interval(frame))
    pd.testing.assert_frame_equal(loaded.leaderboard_, model.leaderboard_)


def test_a_pool_wins_where_its_members_err_differently():
    y = X[:, 0] + 0.7 * np.abs(X[:, 1]) + 0.3 * np.random.default_rng(3).normal(size=160)  # half linear
    model = auto(WITHOUT_RIDGE, n_trials=3).fit(X, y)
    board = model.leaderboard_
    pool = board[board["base"] == "pool"].iloc[0]
    assert board.iloc[0]["base"] == "pool"
    assert pool["crps"] < board.loc[board["base"] != "pool", "crps"].min()
    assert sum(pool["params"].values()) == pytest.approx(1)
    final = model.best_estimator_
    final = final[0] if isinstance(final, Pipeline) else final
    assert isinstance(final, MixtureRegressor)
    assert dict(zip(final.named_estimators_, final.weights_, strict=True)) == pytest.approx(pool["params"])
    without = auto(n_trials=3, pool=False).fit(X, y)
    assert "pool" not in set(without.leaderboard_["base"])


def test_a_recalibrator_is_chosen_where_it_helps():
    rng = np.random.default_rng(1)
    y = X[:, 0] + rng.exponential(size=160)
    space = {**TINY, "recalibrators": {"none": None, "isotonic": IsotonicRecalibrator()}}
    model = auto(space, n_trials=1).fit(X, y)
    board = model.leaderboard_
    assert board["recalibration"].tolist() == ["isotonic", "none"]
    assert isinstance(model.best_estimator_, Pipeline)
    assert model.predict_dist(X).quantile(0.01).min() > BayesianRidge().fit(X, y).predict(X).min() - 3
    only = auto({**TINY, "recalibrators": {"isotonic": IsotonicRecalibrator()}}, n_trials=1).fit(X, y)
    assert only.leaderboard_["recalibration"].iloc[0] == "isotonic"


class Unfit(IsotonicRecalibrator):
    """Cannot be fitted."""

    def fit(self, X, y, sample_weight=None):
        raise ValueError("no recalibration today")


def test_a_recalibrator_that_cannot_be_fitted_is_left_out_with_a_warning():
    with pytest.warns(FitFailedWarning, match="recalibrator 'unfit' is not used.*no recalibration today"):
        model = auto({**TINY, "recalibrators": {"unfit": Unfit(), "none": None}}, n_trials=1).fit(X, Y)
    assert model.leaderboard_["recalibration"].tolist() == ["none"]
    with pytest.raises(ValueError, match="no recalibration today"):
        auto({**TINY, "recalibrators": {"unfit": Unfit()}}, n_trials=1).fit(X, Y)


def test_pools_and_recalibrators_of_a_single_fold_are_evaluated_on_rows_that_they_have_not_seen():
    fitted_to = []

    class Recording(IsotonicRecalibrator):
        def fit(self, X, y, sample_weight=None):
            fitted_to.append(list(y))
            return super().fit(X, y, sample_weight)

    space = {"estimators": LINEAR["estimators"], "recalibrators": {"own": Recording()}}
    (_, test), *_ = folds = [(np.arange(100), np.arange(100, 160))]
    model = auto(space, n_trials=2, cv=folds).fit(X, Y)
    halves = [list(Y[test[30:]]), list(Y[test[:30]])]
    assert fitted_to[:-1] == halves * (model.leaderboard_["recalibration"] == "own").sum()
    assert fitted_to[-1] == list(Y[test])  # the winner's, in the end
    dist = BayesianRidge().fit(X[:100], Y[:100]).predict(X[test], return_std=True)
    parts = [
        IsotonicRecalibrator()
        .fit(Normal(*(a[other] for a in dist)), Y[test][other])
        .transform(Normal(*(a[inside] for a in dist)))
        for inside, other in ((slice(0, 30), slice(30, 60)), (slice(30, 60), slice(0, 30)))
    ]
    board = model.leaderboard_.set_index(["base", "recalibration"])
    assert board.loc[("bayes", "own"), "crps"] == pytest.approx(concat(parts).crps(Y[test]).mean(), rel=1e-9)


def test_a_pool_of_one_member_is_no_row_of_its_own():
    constant = {"estimator": DummyRegressor(), "methods": ["residual"]}
    model = auto({"estimators": {**TINY["estimators"], "constant": constant}}, n_trials=2).fit(X, X[:, 0])
    assert set(model.leaderboard_["base"]) == {"bayes", "constant"}


def test_a_constant_target_is_predicted_exactly():
    model = auto({"estimators": {"ridge": {"estimator": Ridge()}}}, n_trials=1).fit(X, np.full(160, 3.0))
    np.testing.assert_allclose(model.predict_interval(X), 3.0, atol=1e-6)


@pytest.mark.laws
def test_a_constraint_on_coverage_decides():
    free = auto(SPACE, n_trials=6, pool=False).fit(X, Y).leaderboard_
    limit = float(free.loc[free["state"] == "complete", "coverage"].max())  # of all folds
    constrained = auto(SPACE, n_trials=6, pool=False, subject_to={"picp": (">=", limit)})
    board = constrained.fit(X, Y).leaderboard_
    assert board["coverage"].iloc[0] >= limit > free["coverage"].iloc[0]


@pytest.mark.laws
def test_candidates_that_satisfy_the_constraints_are_not_pruned_for_their_crps():
    narrow = {
        "estimator": BayesianRidge(),
        "methods": ["native"],
        "params": {"lambda_1": loguniform(1e-6, 1)},
    }
    wide = {"estimator": DummyRegressor(), "methods": ["residual"]}
    space = {"estimators": {"narrow": narrow, "wide": {**wide, "params": {"strategy": ["mean", "median"]}}}}
    target = X[:, 0] + 0.5 * np.abs(X[:, 1])
    free = auto(space, n_trials=2, pool=False, cv=3).fit(X, target).leaderboard_
    between = float(free["width"].mean())
    limit = {"mpiw": (">=", between)}
    model = auto(space, n_trials=16, pool=False, cv=3, subject_to=limit)
    board = model.fit(X, target).leaderboard_
    assert (board.loc[board["base"] == "wide", "state"] == "complete").all()
    assert board["base"].iloc[0] == "wide"
    assert "pruned" in set(board.loc[board["base"] == "narrow", "state"])


def test_no_candidate_is_fitted_twice_and_a_finite_space_ends_the_search():
    grid = {"estimator": Ridge(), "params": {"alpha": [0.1, 1.0], "solver": ["auto", "svd"]}}
    space = {"estimators": {"ridge": {**grid, "methods": ["conformal"]}, **TINY["estimators"]}}
    model = auto(space, n_trials=100, pool=False).fit(X, Y)
    rows = model.leaderboard_[["base", "params"]].astype(str)
    assert len(rows) == len(rows.drop_duplicates()) == 5


def test_a_constraint_decides_before_the_crps_and_warns_if_no_candidate_satisfies_it():
    free = auto(n_trials=2, pool=False).fit(X, Y).leaderboard_
    first, second = free["width"]
    limit = {"mpiw": (">=" if first < second else "<=", (first + second) / 2)}
    bound = auto(n_trials=2, pool=False, subject_to=limit).fit(X, Y).leaderboard_
    assert bound["base"].tolist() == free["base"].tolist()[::-1]
    limits = {"picp": (">=", 0.999), "mpiw": ("<=", 0.1)}
    with pytest.warns(ConstraintWarning, match=r"no complete candidate satisfies picp >= 0.999, mpiw <= 0.1"):
        auto(TINY, n_trials=1, subject_to=limits).fit(X, Y)


def test_a_study_is_not_resumed_with_other_data_folds_estimators_or_constraints():
    options = {"storage": optuna.storages.InMemoryStorage(), "study_name": "mine", "n_trials": 1}
    auto(TINY, **options).fit(X, Y)
    auto(TINY, **options).fit(X, Y)
    other = {"estimators": {"bayes": {"estimator": BayesianRidge(tol=0.1), "methods": ["native"]}}}
    cases = [
        (TINY, {}, X + 1, {}),
        (TINY, {}, X, {"sample_weight": np.full(160, 2.0)}),
        (TINY, {"cv": 4}, X, {}),
        (TINY, {"subject_to": {"picp": (">=", 0.5)}}, X, {}),
        (other, {}, X, {}),
    ]
    for space, params, rows, weights in cases:
        with pytest.raises(
            ValueError,
            match="`study_name` must be the name of a study with the same data, folds, space and "
            "constraints, but the stored study 'mine'",
        ):
            auto(space, **params, **options).fit(rows, Y, **weights)


def test_each_field_of_a_base_model_is_part_of_the_content_of_a_study():
    base = Base(Ridge(), ("conformal",), {"alpha": Values((1.0, 2.0))}, "codes")
    changes = {
        "estimator": Ridge(tol=0.1),
        "methods": ("residual",),
        "params": {"alpha": Values((1.0, 3.0))},
        "encoding": "numbers",
    }
    assert set(changes) == {one.name for one in fields(Base)}
    model = AutoUncertaintyRegressor()
    data = read_training(model, X, Y, None, {}, "fit", route_weight=False)
    contents = [
        content_of(Space({"a": one}, {}), data, 3, ())
        for one in (base, *(replace(base, **{name: value}) for name, value in changes.items()))
    ]
    assert len(set(contents)) == 1 + len(changes)
    assert contents[0] == content_of(Space({"a": replace(base)}, {}), data, 3, ())


def test_a_trial_that_fails_in_a_later_fold_is_stored_as_failed():

    fits = []

    class FailsLater(Ridge):
        def fit(self, X, y, sample_weight=None):
            fits.append(len(y))
            if len(fits) > 1:  # the second fold
                raise ValueError("enough")
            return super().fit(X, y, sample_weight)

    storage = optuna.storages.InMemoryStorage()
    space = {
        "estimators": {**TINY["estimators"], "later": {"estimator": FailsLater(), "methods": ["conformal"]}}
    }
    with pytest.warns(FitFailedWarning, match="enough"):
        auto(space, n_trials=2, storage=storage, study_name="mine").fit(X, Y)
    states = [trial.state.name for trial in optuna.load_study(storage=storage, study_name="mine").trials]
    assert states == ["COMPLETE", "FAIL"]


def test_candidates_see_the_rows_of_their_folds_alone():
    seen = []

    class Recording(Ridge):
        def fit(self, X, y, sample_weight=None):
            seen.append(len(y))
            return super().fit(X, y, sample_weight)

    space = {"estimators": {"ridge": {"estimator": Recording(), "methods": ["residual"]}}}
    auto(space, n_trials=1, cv=ShuffleSplit(2, test_size=0.25, random_state=0)).fit(X, Y)
    assert sorted(set(seen)) == [90, 120, 160]  # folds inside of folds, folds, and all rows
    assert seen.count(160) == 1


def test_candidates_that_fail_are_left_out_with_a_warning():
    space = {"estimators": {"wrong": {"estimator": Ridge(alpha=-1.0)}, **TINY["estimators"]}}
    with pytest.warns(FitFailedWarning, match=r"1 of 2 candidates failed\. The first is 'wrong': .*alpha"):
        model = auto(space, n_trials=2).fit(X, Y)
    assert model.leaderboard_["state"].tolist() == ["complete", "failed"]
    with pytest.raises(ValueError, match="alpha"):
        auto({"estimators": {"wrong": {"estimator": Ridge(alpha=-1.0)}}}, n_trials=2).fit(X, Y)


class FailsFor(Ridge):
    """Fails with a solver."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        if self.solver == "svd":
            FailsFor.fits += 1
            raise ValueError("not with svd")
        return super().fit(X, y, sample_weight)


def test_a_kind_that_fails_is_tried_again_only_if_it_has_succeeded():
    params = {"params": {"alpha": loguniform(0.1, 10)}, "methods": ["conformal"]}
    space = {
        "fails": {"estimator": FailsFor(solver="svd"), **params},
        "ridge": {"estimator": Ridge(), **params},
    }
    FailsFor.fits = 0
    with pytest.warns(FitFailedWarning, match="1 of 12 candidates failed"):
        board = auto({"estimators": space}, n_trials=12).fit(X, Y).leaderboard_
    assert FailsFor.fits == (board["base"] == "fails").sum() == 1
    some = {"params": {"solver": ["auto", "svd"], "alpha": [0.1, 1.0, 10.0]}, "methods": ["conformal"]}
    with pytest.warns(FitFailedWarning, match="3 of 6 candidates failed"):
        board = (
            auto({"estimators": {"ridge": {"estimator": FailsFor(), **some}}}, n_trials=20)
            .fit(X, Y)
            .leaderboard_
        )
    assert (board["state"] == "failed").sum() == 3


@pytest.fixture(scope="session")
def packages():
    """Import the packages of all models of the default space, before a test whose time is limited."""
    AutoUncertaintyRegressor().search_space()


def small_default_space():
    """Return the default space with models that are fitted fast, one candidate of each."""
    space = AutoUncertaintyRegressor().search_space()
    small = {
        "deep_ensemble": {"max_epochs": 4},
        "catboost": {"iterations": 20},
        "ngboost": {"n_estimators": 10},
        "boosting": {"max_iter": 20},
        "lightgbm": {"n_estimators": 20},
        "forest": {"n_estimators": 50},
        "extra_trees": {"n_estimators": 50},
    }
    for name, params in small.items():
        if name in space["estimators"]:
            space["estimators"][name]["estimator"].set_params(**params)
            space["estimators"][name].pop("params")
    return space


@pytest.mark.laws
@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_a_table_of_words_dates_and_gaps_is_fitted_by_every_base_model_of_the_default_space():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "number": np.where(rng.random(160) < 0.1, np.nan, X[:, 0]),
            "a: [word]": rng.choice(["red", "green", None], 160),
            "category": pd.Categorical(rng.choice([1, 2], 160)),
            "date": pd.date_range("2024-01-01", periods=160, freq="9h"),
            "name": [f"name {k}" for k in range(160)],
            "nothing": [None] * 160,
        }
    )
    y = X[:, 0] + 2.0 * (table["a: [word]"] == "red") + 0.1 * rng.normal(size=160)
    space = small_default_space()
    n = len(space["estimators"])
    for rows, target, bound in ((X, Y, 0.3), (table, y, 0.3 * y.std())):
        model = AutoUncertaintyRegressor(space, time_budget=None, n_trials=n, random_state=0).fit(
            rows, target
        )
        board = model.leaderboard_
        assert (board["state"] == "complete").all()
        assert set(board["base"]) == {*space["estimators"], "pool"}
        assert board["crps"].iloc[0] < bound
    new = table.assign(category=None, number=np.nan, date=pd.NaT)
    new["a: [word]"] = "violet"
    assert np.isfinite(model.predict_interval(new)).all()
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(table[:9]), model.predict(table)[:9])


@pytest.mark.parametrize(
    ("base", "recalibrator"),
    [
        ("linear", IsotonicRecalibrator()),
        *(
            pytest.param(base, recalibrator, marks=pytest.mark.laws)
            for base, recalibrator in (
                ("linear", None),
                ("boosting", IsotonicRecalibrator()),
                ("forest", None),
            )
        ),
    ],
)
def test_the_winner_of_a_table_of_words_takes_the_table(base, recalibrator, packages):
    y = Y[:80]
    table = pd.DataFrame({"x": X[:80, 0], "word": np.where(X[:80, 1] > 0, "red", "green")})
    entry = {**small_default_space()["estimators"][base]}
    space = {"estimators": {base: entry}, "recalibrators": {"only": recalibrator}}
    model = auto(space, n_trials=1, pool=False)
    dist = model.fit_transform(table, y)
    assert isinstance(model.best_estimator_, Pipeline)
    steps = [name for name, _ in model.best_estimator_.steps]
    assert steps == ["encoder", "model", *(["recalibrator"] if recalibrator else [])]
    assert model.leaderboard_["crps"].iloc[0] == pytest.approx(dist.crps(y).mean(), rel=1e-9)
    np.testing.assert_array_equal(
        model.predict_quantiles(table, [0.1, 0.9]), predict_dist(model, table).quantile([0.1, 0.9])
    )


def test_values_may_be_missing_in_new_rows_only():
    space = {"linear": {"estimator": BayesianRidge(), "methods": ["native"], "encoding": "numbers"}}
    model = auto({"estimators": space}, n_trials=1, pool=False).fit(X, Y)
    gaps = np.full((1, X.shape[1]), np.nan)
    expected = model.predict(np.median(X, axis=0)[np.newaxis])
    np.testing.assert_allclose(model.predict(gaps), expected)


@pytest.mark.parametrize("seconds", [None, pytest.param(1000.0, marks=pytest.mark.laws)])
def test_a_column_that_cannot_be_encoded_fails_the_candidates_that_need_it(seconds):
    class Rows(DummyRegressor):
        """Takes any X."""

    table = pd.DataFrame({"x": X[:, 0], "parts": [[1, 2]] * len(X)})
    linear = {"estimator": BayesianRidge(), "methods": ["native"], "encoding": "numbers"}
    space = {"rows": {"estimator": Rows(), "methods": ["conformal"]}, "linear": linear}
    with pytest.warns(FitFailedWarning, match=r"'linear': TypeError: .* list in the column 'parts'"):
        model = auto({"estimators": space}, n_trials=2, time_budget=seconds).fit(table, Y)
    assert model.leaderboard_["base"].iloc[0] == "rows"
    with pytest.raises(TypeError, match="list in the column 'parts'"):
        auto({"estimators": {"linear": linear}}, n_trials=2, time_budget=seconds).fit(table, Y)


def test_weights_are_repetitions_for_the_scores_too():
    weight = np.ones(160)
    weight[:80] = 2.0
    rows = np.repeat(np.arange(160), weight.astype(int))
    half = np.arange(160) % 2 == 0
    folds = [(np.flatnonzero(half), np.flatnonzero(~half)), (np.flatnonzero(~half), np.flatnonzero(half))]
    repeated = [
        (np.flatnonzero(half[rows] == side), np.flatnonzero(half[rows] != side)) for side in (True, False)
    ]
    weighted = auto(TINY, n_trials=1, cv=folds).fit(X, Y, sample_weight=weight).leaderboard_
    several = auto(TINY, n_trials=1, cv=repeated).fit(X[rows], Y[rows]).leaderboard_
    columns = ["crps", "standard_error", "coverage", "width"]
    np.testing.assert_allclose(weighted[columns], several[columns], rtol=1e-6)
    with pytest.raises(ValueError, match="counts repetitions"):
        auto(TINY).fit(X, Y, sample_weight=weight / 10)


@pytest.mark.parametrize("space", [TINY, pytest.param(WITHOUT_RIDGE, marks=pytest.mark.laws)])
def test_groups_go_to_the_splitter_and_stay_together(space):
    groups = np.repeat(np.arange(40), 4)
    model = auto(space, n_trials=3, cv=GroupKFold(3)).fit(X, Y, groups=groups)
    assert set(model.leaderboard_["state"]) <= {"complete", "pruned"}
    assert set(model.leaderboard_["base"]) >= set(space["estimators"])
    assert not model.leaderboard_["crps"].isna().any()
    with pytest.raises(ValueError, match="`groups` is given"):
        auto().fit(X, Y, groups=groups)


def test_a_splitter_in_time_order_is_taken_by_fit_alone():
    model = auto(TINY, n_trials=1, cv=TimeSeriesSplit(3)).fit(X, Y)
    assert np.isfinite(model.predict_interval(X)).all()
    with pytest.raises(ValueError, match="`cv` must test every row exactly once"):
        auto(TINY, n_trials=1, cv=TimeSeriesSplit(3)).fit_transform(X, Y)


def test_the_space_is_returned_to_be_changed_and_passed_again(packages):
    model = AutoUncertaintyRegressor()
    space = model.search_space()
    assert {"linear", "forest", "boosting"} <= set(space["estimators"])
    assert space is not model.search_space()
    space["estimators"] = {"linear": space["estimators"]["linear"]}
    again = AutoUncertaintyRegressor(space, time_budget=None, n_trials=2, random_state=0)
    assert list(again.search_space()["estimators"]) == ["linear"]
    board = again.fit(X, Y).leaderboard_
    assert set(zip(board["base"], board["method"], strict=True)) == {("linear", "residual")}


def test_a_resumed_search_fits_the_best_stored_candidates_again():
    options = {"storage": optuna.storages.InMemoryStorage(), "study_name": "mine", "pool": False}
    first = auto(n_trials=3, **options).fit(X, Y)
    again = auto(n_trials=3, **options).fit(X, Y).leaderboard_
    assert set(again["state"]) == {
        "complete",
        "stored",
        "pruned",
    }  # both base models, the third and a new one
    assert len(again) == 4
    assert (
        again["crps"].iloc[0] <= first.leaderboard_["crps"].iloc[0] + 1e-12
    )  # fitted again, on the same folds
    assert again["state"].iloc[0] == "complete"


def test_a_line_is_written_for_each_candidate(capsys):
    auto(n_trials=2, verbose=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("[AutoUncertaintyRegressor] ") for line in lines)
    assert "bayes by native, complete, CRPS 0." in lines[0]


def test_candidates_are_reported_to_callbacks():
    callback = pytest.importorskip("sklearn.callback")
    if not hasattr(callback, "ProgressBar"):
        pytest.skip("scikit-learn has no progress bar")
    pytest.importorskip("rich")
    model = auto(TINY, n_trials=2).set_callbacks(callback.ProgressBar())
    assert model.fit(X, Y).leaderboard_["state"].iloc[0] == "complete"


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"time_budget": -1}, ValueError, "`time_budget` must be positive and finite, got -1"),
        ({"time_budget": "60"}, TypeError, "`time_budget` must be a number, got '60'"),
        ({"n_trials": None}, ValueError, "`time_budget` and `n_trials` must not both be None"),
        ({"n_trials": 0}, ValueError, "`n_trials` must be at least 1, got 0"),
        ({"pool": "yes"}, ValueError, "`pool` must be one of True, False, got 'yes'"),
        ({"subject_to": {"ence": ("<=", 0.1)}}, ValueError, "`subject_to` must be one of 'picp', 'mpiw'"),
        ({"subject_to": ("picp", 0.9)}, TypeError, "`subject_to` must be a dict"),
        ({"cv": "five"}, TypeError, "`cv` must be an int"),
        ({"random_state": "zero"}, ValueError, "`random_state` must be"),
        ({"verbose": -1}, ValueError, "`verbose` must be at least 0, got -1"),
        ({"subject_to": {"picp": (">=", 2)}}, ValueError, "got 'picp >= 2'\\. .* and no value in this range"),
        ({"subject_to": {"picp": ("<=", 1)}}, ValueError, "got 'picp <= 1'\\. .* every value in this"),
        ({"subject_to": {"mpiw": ("<=", -1)}}, ValueError, "got 'mpiw <= -1'\\. .* no value in this"),
        ({"n_jobs": 0}, ValueError, "`n_jobs` must be a number of jobs, .* got 0"),
        ({"n_jobs": 1.5}, TypeError, "`n_jobs` must be an integer, got 1.5"),
    ],
)
def test_parameters_are_checked(params, error, message):
    with pytest.raises(error, match=message):
        auto(TINY, **params).fit(X, Y)


BAD_STORAGES = [
    ("foo", ValueError, "cannot be opened: Could not parse"),
    ("", ValueError, "cannot be opened: Could not parse"),
    ("no_such_database://x", ValueError, "cannot be opened: "),
    ("sqlite:////no/such/folder/trials.db", ValueError, "cannot be opened: .*unable to open"),
    ("redis://localhost", ValueError, "cannot be opened: "),
    (5, TypeError, "5"),
    (["sqlite://"], TypeError, "'sqlite://'"),
    ("no_such_database://user:secret@host", ValueError, r"user:\*\*\*@host"),
]


def test_a_storage_that_cannot_be_used_raises_with_what_it_may_be(subtests):
    message = r"`storage` must be the URL of a database \('sqlite:///trials.db'\), a storage of Optuna "
    for storage, error, reason in BAD_STORAGES:
        with (
            subtests.test(msg=f"{storage}"),
            pytest.raises(error, match=f"{message}.* or None. Got .*{reason}"),
        ):
            auto(TINY, storage=storage, study_name="mine").fit(X, Y)
    with pytest.raises(TypeError, match="`study_name` must be a string or None, got 5"):
        auto(TINY, storage="sqlite://", study_name=5).fit(X, Y)


def test_tags_of_the_default_space_are_those_of_its_base_models(packages):
    model = AutoUncertaintyRegressor()
    assert get_tags(model) == get_tags(AutoUncertaintyRegressor(model.search_space()))


@pytest.mark.laws
def test_a_new_process_imports_large_packages_only_when_it_needs_them():
    large = {"torch", "skorch", "lightgbm", "catboost", "ngboost"}
    code = f"""
import sys, numpy as np, skuq, skuq.regressors, skuq.metrics, skuq.displays
from sklearn.utils import get_tags
from skuq.model_selection import AutoUncertaintyRegressor as A
get_tags(A())
first = {large | {"optuna", "skuq.neural"}} & sys.modules.keys()
X = np.random.default_rng(0).normal(size=(90, 2))
A(time_budget=None, n_trials=1).fit(X, X[:, 0])  # the linear model
sys.exit(' '.join(first | {large} & sys.modules.keys()) or None)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_weights_are_used_with_metadata_routing_too():
    weight = np.ones(160)
    weight[:80] = 2.0
    plain = auto(TINY, n_trials=1).fit(X, Y, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        routed = auto(TINY, n_trials=1).fit(X, Y, sample_weight=weight)
        requested = auto(TINY, n_trials=1).set_fit_request(sample_weight=True)
        requested.set_score_request(sample_weight=False)
        scores = cross_val_score(requested, X, Y, cv=2, params={"sample_weight": weight}, error_score="raise")
    np.testing.assert_array_equal(routed.predict(X), plain.predict(X))
    assert len(scores) == 2


def test_warnings_of_optuna_do_not_reach_the_user():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto(n_trials=2).fit(X, Y)
