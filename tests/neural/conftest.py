"""Plans and data for the engine, small enough for a second."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone

# A helper of the tests, whose docstrings pytest reads for examples.
collect_ignore = [] if find_spec("torch") else ["estimators.py"]


@pytest.fixture(scope="session", autouse=True)
def _torch_is_ready(neural):
    """Train once before the first test of a process."""


@pytest.fixture(scope="session")
def sine():
    """A smooth mean and noise that grows with the first column's distance from 0."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(150, 2))
    return X, np.sin(2 * X[:, 0]) + (0.1 + 0.2 * np.abs(X[:, 0])) * rng.normal(size=150)


@pytest.fixture(scope="session")
def fit_once(sine):
    """Return ``fit_once(model)``: the model fitted to the sine, once for all tests that only read it."""
    fitted = {}

    def fit(model):
        key = type(model), repr(sorted(model.get_params().items()))
        if key not in fitted:
            fitted[key] = clone(model).fit(*sine)
        return fitted[key]

    return fit


@pytest.fixture
def plan(sine):
    """Return ``make(n_members, ...)``, which plans one fit of the sine."""
    from skuq.neural._losses import NLLLoss
    from skuq.neural._plan import FitPlan, plan_members
    from skuq.neural._stacked import MemberSeed

    def make(n_members, *, seed=0, loss=None, bootstrap=True, rows=None, learning_rate=3e-3, **options):
        X, y = (part if rows is None else part[rows] for part in sine)
        seeds = MemberSeed.spawn(seed, n_members)
        every = np.arange(len(y))
        return FitPlan(
            X=X,
            y=(y - y.mean()) / y.std(),
            seeds=seeds,
            rows=plan_members(seeds, every, bootstrap=bootstrap),
            held_out=np.zeros(len(y), dtype=bool),
            seed=seed,
            loss=NLLLoss() if loss is None else loss,
            learning_rate=learning_rate,
            **options,
        )

    return make
