"""Searches that reach their deadline, are interrupted or killed, and are resumed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import KFold, LeaveOneGroupOut

from skuq.model_selection import AutoUncertaintyRegressor, _auto_search
from skuq.model_selection._auto_search import MAX_RETRIES
from skuq.model_selection._auto_space import Deferred
from skuq.regressors import MixtureRegressor

optuna = pytest.importorskip("optuna")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X @ [1.0, 2.0] + 0.1 * RNG.normal(size=60)


class Interrupting(LinearRegression):
    """Raises as Ctrl-C does, as often as it is set to; sends a signal to its process in its third fit."""

    left = fits = 0

    def fit(self, X, y, sample_weight=None):
        Interrupting.fits += 1
        if Interrupting.fits == 3 and "SIGNAL" in os.environ:
            os.kill(os.getpid(), int(os.environ["SIGNAL"]))
        if Interrupting.left:
            Interrupting.left -= 1
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight)


class Time:
    """A clock that fits move on."""

    now = 1000.0

    @classmethod
    def monotonic(cls):
        return cls.now


class Slow(Ridge):
    """Takes a number of seconds per row."""

    def __init__(self, alpha=1.0, seconds=0.01):
        super().__init__(alpha)
        self.seconds = seconds

    def fit(self, X, y, sample_weight=None):
        Time.now += self.seconds * len(y)
        return super().fit(X, y, sample_weight)


class Sleeping(Ridge):
    """Sleeps in its process, longer than a test may take."""

    def fit(self, X, y, sample_weight=None):
        time.sleep(3600)
        return super().fit(X, y, sample_weight)


class Aborting(Ridge):
    """Ends its process, as a fault in compiled code does."""

    def fit(self, X, y, sample_weight=None):
        os._exit(3)


def search(space, storage=None, **params):
    bases = {
        name: entry if isinstance(entry, dict) else {"estimator": entry, "methods": ["conformal"]}
        for name, entry in space.items()
    }
    options = {"time_budget": None, "n_trials": 4, "pool": False, "random_state": 0, **params}
    name = None if storage is None else "s"
    return AutoUncertaintyRegressor({"estimators": bases}, storage=storage, study_name=name, **options)


def tuned(estimator):
    return {"estimator": estimator, "methods": ["conformal"], "params": {"alpha": loguniform(0.1, 10.0)}}


@pytest.fixture
def fake_time(monkeypatch):
    """Count the time by `Time`, and fit in this process, as inside a worker of another search."""
    monkeypatch.setattr(_auto_search, "time", Time)
    monkeypatch.setattr(_auto_search.multiprocessing, "parent_process", lambda: "a process")


# ---------------------------------------------------------------------------------- the deadline


def test_a_search_inside_another_process_ends_at_most_one_fit_after_its_deadline(fake_time):
    budget, begin = 30.0, Time.now
    space = {name: tuned(Slow(seconds=s)) for name, s in (("a", 0.02), ("b", 0.01), ("c", 0.05))}
    model = search(space, n_trials=None, time_budget=budget).fit(X, Y)
    took = Time.now - begin
    assert 0.6 * budget < took <= budget + 0.05 * len(Y)
    board = model.leaderboard_
    assert set(board["state"]) <= {"complete", "pruned", "out of time"}
    assert board["state"].iloc[0] == "complete"
    assert model.time_spent_["total"] == pytest.approx(took)
    assert sum(model.time_spent_.values()) == pytest.approx(2 * took)


def test_every_base_model_has_a_row_with_the_reason_why_it_has_no_forecasts(fake_time):
    space = {"fast": Slow(seconds=0.01), "slow": Slow(seconds=1.0), "last": Slow(seconds=0.1)}
    with pytest.warns(FitFailedWarning, match="there was no time for 'slow', 'last'.*'reason'"):
        board = search(space, n_trials=None, time_budget=30).fit(X, Y).leaderboard_.set_index("base")
    assert board["state"].to_dict() == {"fast": "complete", "slow": "out of time", "last": "not tried"}
    assert board["reason"].tolist() == ["", "ended at the deadline", "no time was left"]
    few = search({"a": Ridge(), "b": DummyRegressor()}, n_trials=1).fit(X, Y).leaderboard_
    assert few["reason"].tolist() == ["", "the number of trials was reached"]


def test_a_slow_model_leaves_a_share_of_the_time_to_the_next_one(fake_time):
    space = {"fast": Slow(seconds=0.01), "slow": Slow(seconds=1.3), "last": Slow(seconds=0.05)}
    with pytest.warns(FitFailedWarning, match="there was no time for 'slow'"):
        board = search(space, n_trials=None, time_budget=100).fit(X, Y).leaderboard_.set_index("base")
    assert board["state"].to_dict() == {"fast": "complete", "slow": "out of time", "last": "complete"}


def test_a_budget_that_is_too_short_for_any_model_is_an_error(fake_time):
    with pytest.raises(ValueError, match=r"`time_budget` must be long enough .* got 1\. None of \['slow'\]"):
        search({"slow": Slow(seconds=1.0)}, n_trials=None, time_budget=1.0).fit(X, Y)


def test_a_short_budget_samples_the_rows_of_the_search_but_not_those_of_the_final_model(fake_time):
    class Recording(BayesianRidge):
        def fit(self, X, y, sample_weight=None):
            rows.append(len(y))
            return super().fit(X, y, sample_weight)

    many = RNG.normal(size=(2500, 1))
    target = many[:, 0] + RNG.normal(size=2500)
    space = {"linear": {"estimator": Recording(), "methods": ["native"]}}
    options = {"n_trials": 1, "time_budget": 5.0}
    for fit, storage, searched in (
        (AutoUncertaintyRegressor.fit, None, 2000),
        (AutoUncertaintyRegressor.fit, optuna.storages.InMemoryStorage(), 2500),
        (AutoUncertaintyRegressor.fit_transform, None, 2500),
    ):
        rows: list[int] = []
        fit(search(space, storage, **options), many, target)
        *folds, last = rows
        assert sum(folds) == 2 * searched  # each row is in two of the three training sets
        assert last == 2500


def test_given_folds_keep_all_of_their_rows_and_samples_have_weight(fake_time):
    many = RNG.normal(size=(4200, 1))
    target = many[:, 0] + RNG.normal(size=4200)
    space = {"linear": {"estimator": BayesianRidge(), "methods": ["native"]}}
    groups, weight = np.maximum(np.arange(4200) - 4195, 0), np.zeros(4200)  # four groups of one row
    weight[::700] = 1.0
    for cv, given in (
        (LeaveOneGroupOut(), {"groups": groups}),
        (KFold(3), {"sample_weight": weight}),
        (3, {"sample_weight": weight}),
    ):
        for seed in range(3):
            model = search(space, n_trials=1, time_budget=8.0, cv=cv, random_state=seed)
            assert model.fit(many, target, **given).leaderboard_["state"].tolist() == ["complete"]


@pytest.mark.laws
def test_out_of_bag_forecasts_of_sampled_rows_have_the_scores_of_all_rows(fake_time):
    many = RNG.normal(size=(2500, 1))
    target = many[:, 0] + RNG.normal(size=2500)
    forest = {"estimator": RandomForestRegressor(5, max_depth=3), "methods": ["forest"]}
    model = search({"forest": forest}, n_trials=1, time_budget=5.0).fit(many, target)
    dist = model.best_estimator_.fit_transform(many, target)
    assert model.leaderboard_["crps"].iloc[0] == pytest.approx(dist.crps(target).mean(), rel=0.1)


def test_no_candidate_is_suggested_after_the_deadline(monkeypatch):
    monkeypatch.setattr(_auto_search.Workers, "start_seconds", 1e6)  # there is no time to start a process
    monkeypatch.setattr(_auto_search, "ProcessPoolExecutor", None)
    with pytest.raises(ValueError, match="`time_budget` must be long enough"):
        search({"ridge": tuned(Ridge())}, n_trials=None, time_budget=5.0).fit(X, Y)


@pytest.mark.laws
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_processes_are_ended_at_the_deadline(n_jobs, monkeypatch):
    fit = _auto_search.Search._fit

    def limited(self, batch, end, *, prune):
        """Leave nearly all of the time to the other models, because processes may start slowly."""
        sleeps = batch[0].candidate.base == "sleeping"
        fit(self, batch, time.monotonic() + 3 if sleeps else self.search_end, prune=prune)

    monkeypatch.setattr(_auto_search.Search, "_fit", limited)

    def children():
        listed = subprocess.run(
            ["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=True
        ).stdout
        return {line for line in listed.splitlines() if "popen_loky_posix" in line}

    before = children()
    space = {"fast": Ridge(), "sleeping": Sleeping(), "other": Ridge(2.0)}
    with pytest.warns(FitFailedWarning, match="there was no time for 'sleeping'"):
        model = search(space, n_trials=None, time_budget=60, n_jobs=n_jobs).fit(X, Y)
    board = model.leaderboard_.set_index("base")
    assert board.loc["sleeping", "state"] == "out of time"
    assert board.loc[["fast", "other"], "state"].tolist() == ["complete"] * 2
    assert children() == before


@pytest.mark.laws
def test_a_candidate_that_ends_its_process_is_a_failed_one():
    space = {"aborting": Aborting(), "ridge": Ridge()}
    for n_jobs in (1, 2):
        with pytest.warns(FitFailedWarning, match=r"1 of 2 candidates failed\. The first is 'aborting'"):
            board = search(space, n_trials=2, time_budget=60, n_jobs=n_jobs).fit(X, Y).leaderboard_
        assert board["state"].tolist() == ["complete", "failed"]


@pytest.mark.laws
def test_results_of_processes_are_those_of_one_process():
    space = {"ridge": tuned(Ridge()), "constant": DummyRegressor()}
    alone, several, inside = (
        search(space, n_trials=6).fit(X, Y),
        search(space, n_trials=6, n_jobs=2).fit(X, Y),
        Parallel(2)([delayed(search(space, n_trials=6, n_jobs=2).fit)(X, Y)])[0],
    )
    for other in (several, inside):
        pd.testing.assert_frame_equal(
            *(one.leaderboard_.drop(columns=["seconds", "end"]) for one in (alone, other)), check_exact=True
        )


def test_a_package_that_cannot_be_imported_is_a_failed_candidate(monkeypatch):
    def make():
        raise ImportError("no such package")

    space = {
        "package": {"estimator": Deferred(make, {}), "methods": ["conformal"]},
        "here": {"estimator": Ridge(), "methods": ["conformal"]},
    }
    monkeypatch.setattr(
        "skuq.model_selection._auto_uncertainty.deferred_space", lambda: {"estimators": space}
    )
    model = AutoUncertaintyRegressor(None, time_budget=None, n_trials=5, random_state=0)
    with pytest.warns(FitFailedWarning, match=r"1 of 2 candidates failed\. .* no such package"):
        board = model.fit(X, Y).leaderboard_
    assert board["state"].tolist()[-1] == "failed"
    assert board["reason"].tolist()[-1] == "ImportError: no such package"


def test_optuna_is_required(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r'AutoUncertaintyRegressor needs Optuna.*"skuq\[auto\]"'):
        search({"ridge": Ridge()}).fit(X, Y)


# ------------------------------------------------------------------------------- interrupted searches


def test_control_c_selects_the_best_model_so_far():
    Interrupting.left = 1
    space = {"ridge": Ridge(), "interrupting": Interrupting(), "last": Ridge(2.0)}
    with pytest.warns(FitFailedWarning, match="the search was interrupted"):
        model = search(space).fit(X, Y)
    assert model.leaderboard_.set_index("base")["state"].to_dict() == {
        "ridge": "complete",
        "interrupting": "out of time",
        "last": "not tried",
    }
    # the models of its folds are there, and no time for another fit
    assert isinstance(model.best_estimator_, MixtureRegressor)
    assert len(model.best_estimator_.estimators_) == 3
    assert np.isfinite(model.predict_interval(X)).all()
    Interrupting.left = 1
    with pytest.raises(KeyboardInterrupt):
        search({"interrupting": Interrupting()}).fit(X, Y)


def test_a_candidate_that_was_interrupted_is_repeated_at_most_twice():
    storage = optuna.storages.InMemoryStorage()
    space = {"ridge": Ridge(), "interrupting": Interrupting()}
    for expected in [True] * (MAX_RETRIES + 1) + [False]:
        Interrupting.left, Interrupting.fits = 1, 0
        if expected:
            with pytest.warns(FitFailedWarning, match="the search was interrupted"):
                search(space, storage).fit(X, Y)
        else:
            search(space, storage).fit(X, Y)
        assert (Interrupting.fits > 0) is expected
    Interrupting.left = 0
    states = [one.state.name for one in optuna.load_study(study_name="s", storage=storage).trials]
    assert states[: MAX_RETRIES + 2] == ["COMPLETE"] + ["FAIL"] * (MAX_RETRIES + 1)
    assert set(states[MAX_RETRIES + 2 :]) == {"FAIL"}  # repeated suggestions


def test_candidates_that_came_too_late_are_the_first_when_a_study_is_resumed(fake_time):
    storage = optuna.storages.InMemoryStorage()
    space = {f"model_{i}": tuned(Slow(seconds=0.02)) for i in range(8)}
    with pytest.warns(FitFailedWarning, match="there was no time for"):
        first = search(space, storage, n_trials=None, time_budget=15).fit(X, Y).leaderboard_
    complete = first.loc[first["state"] == "complete", "base"]
    assert 0 < complete.nunique() < 8
    second = search(space, storage, n_trials=8).fit(X, Y).leaderboard_
    assert second.loc[second["state"] == "complete", "base"].nunique() == 8


def storage_of(kind, path):
    if kind == "sqlite":
        return f"sqlite:///{path}/trials.db"
    journal = optuna.storages.journal.JournalFileBackend(f"{path}/journal.log")
    return optuna.storages.JournalStorage(journal)


def three_models(storage):
    space = {"constant": DummyRegressor(), "best": Interrupting(), "ridge": Ridge(100.0)}
    return search(space, storage, n_trials=5)


PROGRAM = """
import sys
from tests.model_selection._auto.test_interruption import X, Y, storage_of, three_models
three_models(storage_of(sys.argv[1], sys.argv[2])).fit(X, Y)
"""


@pytest.mark.laws
@pytest.mark.skipif(sys.platform == "win32", reason="needs the signals of POSIX")
@pytest.mark.parametrize(("kind", "number"), [("journal", signal.SIGTERM), ("sqlite", signal.SIGKILL)])
def test_a_trial_whose_process_was_killed_is_repeated_in_the_resumed_search(kind, number, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, tmp_path],
        env={**os.environ, "SIGNAL": str(int(number)), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -number
    storage = storage_of(kind, tmp_path)
    study = optuna.load_study(storage=storage, study_name="s")
    assert [one.state.name for one in study.trials] == ["COMPLETE", "RUNNING", "WAITING"]
    board = three_models(storage).fit(X, Y).leaderboard_
    assert board["base"].iloc[0] == "best"
    assert set(board["base"][board["state"] == "complete"]) == {"constant", "best", "ridge"}
    states = [one.state.name for one in optuna.load_study(storage=storage, study_name="s").trials]
    assert states.count("COMPLETE") == 3
    assert set(states) == {"COMPLETE", "FAIL"}


class Unfit(RegressorMixin, BaseEstimator):
    """Cannot be fitted."""

    def fit(self, X, y):
        raise ValueError("the sun is too low")


def test_a_search_ends_where_every_candidate_fails():
    with pytest.raises(ValueError, match="the sun is too low"):
        search({"one": Unfit(), "other": Unfit()}, n_trials=20).fit(X, Y)
