"""Searches that are interrupted or killed, and resumed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge

from skuq.model_selection import AutoUncertaintyRegressor
from skuq.model_selection import _auto_parzen as interruption
from skuq.model_selection._auto_parzen import MAX_INTERRUPTIONS, Owner
from skuq.model_selection._auto_search import Search
from skuq.model_selection._auto_space import Space

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


def search(space, storage, **params):
    bases = {name: {"estimator": one, "methods": ["conformal"]} for name, one in space.items()}
    options = {"time_budget": None, "n_trials": 4, "pool": False, "random_state": 0, "storage": storage}
    return AutoUncertaintyRegressor({"estimators": bases}, study_name="s", **{**options, **params})


def in_order(storage, order):
    """Return a search of three base models in an order."""
    bases = {"best": Interrupting(), "constant": DummyRegressor(), "ridge": Ridge(100.0)}
    return search({name: bases[name] for name in order.split()}, storage, n_trials=5)


def storage_of(kind, path):
    if kind == "sqlite":
        return f"sqlite:///{path}/trials.db"
    journal = optuna.storages.journal.JournalFileBackend(f"{path}/journal.log")
    return optuna.storages.JournalStorage(journal)


PROGRAM = """
import sys
from tests.model_selection._auto.test_interruption import X, Y, in_order, storage_of
in_order(storage_of(sys.argv[1], sys.argv[2]), sys.argv[3]).fit(X, Y)
"""


@pytest.mark.laws
@pytest.mark.skipif(sys.platform == "win32", reason="needs the signals of POSIX")
@pytest.mark.parametrize(
    ("kind", "number", "order"),
    [
        ("journal", signal.SIGTERM, "constant best ridge"),
        ("sqlite", signal.SIGKILL, "constant best ridge"),
    ],
)
def test_a_trial_whose_process_was_ended_comes_first_in_the_resumed_search(kind, number, order, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, tmp_path, order],
        env={**os.environ, "SIGNAL": str(int(number)), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -number  # the program ends by the signal, as without a search
    storage = storage_of(kind, tmp_path)
    study = optuna.load_study(storage=storage, study_name="s")
    expected = "RUNNING" if number == signal.SIGKILL else "FAIL"
    lost = [one for one in study.trials if one.state.name != "COMPLETE"]
    assert {one.state.name for one in lost} == {expected}
    assert "best" in {one.params["base"] for one in lost}
    before = len(study.trials)
    board = in_order(storage, order).fit(X, Y).leaderboard_
    trials = optuna.load_study(storage=storage, study_name="s").trials
    assert {trials[one.number].state.name for one in lost} == {"FAIL"}
    again = trials[before : before + len(lost)]
    assert [one.params for one in again] == [one.params for one in lost]
    assert {one.state.name for one in again} == {"COMPLETE"}
    undisturbed = in_order(optuna.storages.InMemoryStorage(), order).fit(X, Y).leaderboard_
    assert board["base"].iloc[0] == undisturbed["base"].iloc[0] == "best"
    assert board["crps"].iloc[0] == pytest.approx(undisturbed["crps"].iloc[0], rel=1e-12)
    assert set(board["base"]) == {"best", "constant", "ridge"}


def test_interruptions_in_one_process_leave_no_trial_running():
    storage = optuna.storages.InMemoryStorage()
    space = {"constant": DummyRegressor(), "best": Interrupting(), "ridge": Ridge(100.0)}
    Interrupting.left = MAX_INTERRUPTIONS - 1
    for k in range(MAX_INTERRUPTIONS - 1):
        with pytest.raises(KeyboardInterrupt):
            search(space, storage).fit(X, Y)
        trials = optuna.load_study(storage=storage, study_name="s").trials
        # two were begun side by side, of which the first is tried again alone
        assert [one.state.name for one in trials] == ["COMPLETE", "FAIL", "FAIL", *["FAIL"] * k]
    assert search(space, storage).fit(X, Y).leaderboard_["base"].iloc[0] == "best"
    trials = optuna.load_study(storage=storage, study_name="s").trials
    assert [one.params["base"] for one in trials[3:]] == ["best", "best", "ridge"]
    assert {one.state.name for one in trials[4:]} == {"COMPLETE"}


def test_a_candidate_that_always_ends_the_process_does_not_stop_later_searches():
    storage = optuna.storages.InMemoryStorage()
    space = {"ends": Interrupting(), "constant": DummyRegressor()}
    Interrupting.left = 100
    for _ in range(MAX_INTERRUPTIONS):
        with pytest.raises(KeyboardInterrupt):
            search(space, storage).fit(X, Y)
    board = search(space, storage, n_trials=1).fit(X, Y).leaderboard_
    Interrupting.left = 0
    assert board["base"].tolist() == ["constant"]


def test_a_handler_of_the_program_is_left_alone():
    class Terminating(BaseEstimator, RegressorMixin):
        def fit(self, X, y):
            seen.append(signal.getsignal(signal.SIGTERM))
            return self

        def predict(self, X):
            return np.zeros(len(X))

    def own(number, frame):
        """Do nothing."""

    seen, before = [], signal.getsignal(signal.SIGTERM)
    try:
        for handler in (own, signal.SIG_DFL):
            signal.signal(signal.SIGTERM, handler)
            search({"one": Terminating()}, optuna.storages.InMemoryStorage(), n_trials=1).fit(X, Y)
            assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert own in seen
    assert signal.SIG_DFL in seen  # in the last fit, after the search
    assert len(set(seen)) == 3


def running_trial(**attrs):
    """Return a study with one running trial with the given attributes."""
    study = optuna.create_study(storage=optuna.storages.InMemoryStorage())
    handle = study.ask()
    handle.suggest_categorical("base", ["a", "b"])
    owner = Owner()
    owner.claim(handle)
    for name, value in attrs.items():
        handle.set_user_attr(name, value)
    return study, owner


@pytest.mark.parametrize(
    ("attrs", "lost"),
    [
        ({}, False),
        ({"owner": {"search": "other", "machine": "elsewhere", "pid": 1}}, False),
        ({"owner": {"search": "other", "machine": "elsewhere", "pid": 1}, "alive": time.time() - 1e4}, True),
        ({"owner": {"search": "other", "machine": "here", "pid": 2**22 + 1}}, True),
        ({"owner": {"search": "other", "machine": "here", "pid": os.getpid()}}, False),
        ({"owner": {"search": "other", "machine": "here", "pid": os.getpid()}, "alive": 0.0}, True),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be looked up there")
def test_trials_are_lost_if_their_process_is_gone_or_silent(attrs, lost, monkeypatch):
    monkeypatch.setattr(interruption, "_machine", lambda: "here")
    study, owner = running_trial(**attrs)
    interruption._fail(optuna, study, owner.has_lost)
    assert study.trials[0].state.name == ("FAIL" if lost else "RUNNING")
    due, given_up = interruption.interrupted_trials(optuna, study)
    assert len(due) == lost
    assert given_up == []


def test_running_trials_get_a_heartbeat(monkeypatch):
    monkeypatch.setattr(interruption, "HEARTBEAT_SECONDS", 0.01)
    study, owner = running_trial()
    handle = optuna.trial.Trial(study, 0)
    with owner.heartbeat(lambda: [handle]):
        while "alive" not in study.trials[0].user_attrs:
            time.sleep(0.01)
    assert abs(study.trials[0].user_attrs["alive"] - time.time()) < 60


@pytest.fixture
def few_trials(monkeypatch):
    """Raise where a search asks Optuna for more trials than a small space needs."""
    asked, ask = [], optuna.study.Study.ask

    def counted(study, *args, **kwargs):
        asked.append(study)
        assert len(asked) <= 20
        return ask(study, *args, **kwargs)

    monkeypatch.setattr(optuna.study.Study, "ask", counted)


@pytest.mark.parametrize("others", [{"constant": DummyRegressor(), "ridge": Ridge(100.0)}, {}])
@pytest.mark.parametrize("time_budget", [None, 1000.0])
def test_a_candidate_under_evaluation_on_another_machine_is_no_endless_loop(
    others, time_budget, few_trials, monkeypatch
):
    storage = optuna.storages.InMemoryStorage()
    space = {"best": Interrupting(), **others}
    Interrupting.left = 1
    with monkeypatch.context() as patch:
        patch.setattr(interruption, "_machine", lambda: "elsewhere")
        patch.setattr(interruption, "_fail", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            search(space, storage).fit(X, Y)
    study = optuna.load_study(storage=storage, study_name="s")
    assert [one.state.name for one in study.trials] == ["RUNNING"]
    board = search(space, storage, time_budget=time_budget, n_trials=10).fit(X, Y).leaderboard_
    assert set(board["base"]) == set(others or space)  # without others it is evaluated here too
    assert all(one.state.name != "WAITING" for one in study.trials)


@pytest.mark.parametrize("suggestions", [1, 2])
def test_an_interruption_before_the_parameters_are_known_leaves_no_trial_running(suggestions, monkeypatch):
    storage = optuna.storages.InMemoryStorage()
    space = {"best": LinearRegression(), "constant": DummyRegressor()}
    suggest, handles = Space.suggest, []

    def interrupted(self, trial):
        if isinstance(trial, optuna.trial.Trial):
            handles.append(trial)
            if len(handles) == suggestions:
                raise KeyboardInterrupt
        return suggest(self, trial)

    with monkeypatch.context() as patch:
        patch.setattr(Space, "suggest", interrupted)
        with pytest.raises(KeyboardInterrupt):
            search(space, storage).fit(X, Y)
    trials = optuna.load_study(storage=storage, study_name="s").trials
    assert [one.state.name for one in trials] == ["COMPLETE"] * (suggestions - 1) + ["FAIL"]
    board = search(space, storage, n_trials=5).fit(X, Y).leaderboard_
    assert set(board["base"]) == set(space)


def test_an_interrupted_candidate_for_which_there_is_no_time_lets_base_models_begin(monkeypatch):
    storage = optuna.storages.InMemoryStorage()
    space = {"constant": DummyRegressor(), "slow": Interrupting(), "ridge": Ridge(1.0), "weak": Ridge(1e4)}
    Interrupting.left = 1
    with pytest.raises(KeyboardInterrupt):
        search(space, storage, time_budget=1000.0).fit(X, Y)
    admits = Search.admits
    monkeypatch.setattr(
        Search, "admits", lambda self, one, *rest: one.base != "slow" and admits(self, one, *rest)
    )
    monkeypatch.setattr(Search, "draw", lambda *_: None)  # the base models come from the list alone
    board = search(space, storage, time_budget=1000.0).fit(X, Y).leaderboard_
    assert set(board["base"][board["state"] == "complete"]) == {"constant", "ridge", "weak"}


@pytest.mark.laws
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_ends_by_sigterm_without_the_exception_of_the_search():
    program = (
        "import os, signal\n"
        "from skuq.model_selection._auto_parzen import _sigterm_raises\n"
        "with _sigterm_raises():\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        try:\n"
        "            signal.raise_signal(signal.SIGTERM)\n"
        "        finally:\n"
        "            os._exit(7)\n"  # an exception would unwind the child as if it were the search
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) == -signal.SIGTERM
