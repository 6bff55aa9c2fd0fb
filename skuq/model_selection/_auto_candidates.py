"""Candidates to begin with: regressors of different kinds, each with a calibrated distribution."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from skuq._validation import check_random_state
from skuq.prediction._random import MAX_SEED
from skuq.regressors import UncertaintyRegressor

__all__ = ["default_estimators"]


def default_estimators(
    random_state: int | np.random.RandomState | None = None,
) -> list[tuple[str, Any]]:
    """Return regressors of different kinds by name, the members of a pool to begin with.

    Trees and networks win on different tables, and by wide margins. A `MixtureRegressor` of both is about
    as good as the better one.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        An integer seeds each regressor. With None, a `MixtureRegressor` with a ``random_state`` seeds
        them.

    Returns
    -------
    estimators : list of (str, estimator)
        Unfitted:

        - "boosting": `UncertaintyRegressor` around gradient boosting;
        - "forest": `UncertaintyRegressor` around a random forest, which takes one fit, in a pool about half
          as long again for its out-of-bag rows;
        - "deep_ensemble": `~skuq.neural.DeepEnsembleRegressor`, where torch and skorch are installed.

    See Also
    --------
    skuq.regressors.MixtureRegressor : The pool of all of them.

    Notes
    -----
    Networks need numbers without missing values; without them, all take missing values, and none takes words.
    The module of the networks, and with it torch, is imported by the call.

    Examples
    --------
    >>> from skuq.model_selection import default_estimators
    >>> [name for name, _ in default_estimators(random_state=0)][:2]
    ['boosting', 'forest']
    """
    seeds: list[Any] = [None] * 3
    if random_state is not None:
        seeds = check_random_state(random_state).randint(MAX_SEED, size=3).tolist()
    estimators: list[tuple[str, Any]] = [
        ("boosting", UncertaintyRegressor(HistGradientBoostingRegressor(), random_state=seeds[0])),
        ("forest", UncertaintyRegressor(RandomForestRegressor(), random_state=seeds[1])),
    ]
    if find_spec("torch") and find_spec("skorch"):
        from skuq.neural import DeepEnsembleRegressor

        estimators.append(("deep_ensemble", DeepEnsembleRegressor(random_state=seeds[2])))
    return estimators
