"""The modules of skuq that a call enters: what a reader opens to follow it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge, Ridge

import skuq
from skuq import UncertaintyRegressor, get_scorer
from skuq.conformal import ConformalRegressor
from skuq.distributions import Normal
from skuq.evaluation import uncertainty_report

PACKAGE = str(Path(skuq.__file__).parent)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = X[:, 0] + RNG.normal(size=200)


def modules_of(call: Callable[[], Any]) -> set[str]:
    """Return the modules that a call enters. An equal call before it fills the caches."""
    entered = set()

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered.add(frame.f_code.co_filename.removeprefix(PACKAGE))

    call()
    sys.setprofile(on_event)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


FOREST = RandomForestRegressor(50, random_state=0)
CALLS = {
    "fit around Ridge": (22, lambda: UncertaintyRegressor(Ridge(), random_state=0).fit(X, Y)),
    "fit around a forest": (20, lambda: UncertaintyRegressor(FOREST, random_state=0).fit(X, Y)),
    "conformal fit": (16, lambda: ConformalRegressor(Ridge(), random_state=0).fit(X, Y)),
    "score": (25, lambda: get_scorer("neg_ence")(BayesianRidge().fit(X, Y), X, Y)),
    "report": (
        40,
        lambda: uncertainty_report(
            Y[:60], Normal(X[:60, 0], np.ones(60)), n_resamples=20, n_draws=10, random_state=0
        ),
    ),
}
"""The largest number of modules of each call. ``python .ci/house.py`` prints the numbers of a new process.

A process that has predicted distributions also enters the rules of scikit-learn's models.
"""


@pytest.mark.parametrize("name", CALLS)
def test_a_reader_opens_few_modules(name):
    most, call = CALLS[name]
    modules = modules_of(call)
    assert len(modules) <= most, " ".join(sorted(modules))


def test_a_reader_opens_few_modules_for_a_deep_ensemble():
    for package in ("torch", "skorch"):
        pytest.importorskip(package)
    from skuq.neural import DeepEnsembleRegressor

    net = DeepEnsembleRegressor(n_estimators=2, max_epochs=1, random_state=0)
    modules = modules_of(lambda: net.fit(X, Y))
    assert len(modules) <= 22, " ".join(sorted(modules))
