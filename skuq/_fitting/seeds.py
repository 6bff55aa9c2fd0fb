"""Integer seeds of wrapped estimators, drawn before parallel tasks start."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

MAX_SEED = int(np.iinfo(np.int32).max)


def _random_states(estimator: Any) -> dict[str, Any]:
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return {
        name: value
        for name, value in params.items()
        if name == "random_state" or name.endswith("__random_state")
    }


def seed_everything(estimator: Any, seed: int) -> Any:
    """Set every ``random_state`` of the estimator and of nested estimators, and return the estimator."""
    names = _random_states(estimator)
    return estimator.set_params(**dict.fromkeys(names, seed)) if names else estimator


def seeded_clone(estimator: Any, seed: int, random_state: Any) -> Any:
    """Return a clone. If the owner has a ``random_state``, the clone gets the seed."""
    cloned = clone(estimator)
    unset = [name for name, value in _random_states(cloned).items() if value is None]
    if random_state is not None and unset:
        cloned.set_params(**dict.fromkeys(unset, seed))
    return cloned
