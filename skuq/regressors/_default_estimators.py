"""Default members of a pool."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import Pipeline

from skuq._fitting.seeds import MAX_SEED
from skuq._fitting.table_encoder import Encoding, TableEncoder
from skuq._validation import check_random_state
from skuq.regressors._uncertainty import UncertaintyRegressor


def default_estimators(
    random_state: int | np.random.RandomState | None = None,
) -> list[tuple[str, Any]]:
    """Return regressors of different kinds by name, the default members of a pool.

    On some tables, trees are much better than networks; on other tables, networks are much better. A
    `MixtureRegressor` of both is about as good as the better of the two.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        An integer seeds each regressor. With None, a `MixtureRegressor` with a ``random_state`` seeds
        them.

    Returns
    -------
    estimators : list of (str, Pipeline)
        Unfitted pipelines with the steps "encoder" and "model". The encoder converts strings, dates and
        missing values to numbers. The models are:

        - "boosting": `UncertaintyRegressor` around gradient boosting;
        - "forest": `UncertaintyRegressor` around a random forest, which needs one fit; in a pool its
          out-of-bag rows add about half of this time;
        - "deep_ensemble": `~skuq.neural.DeepEnsembleRegressor`. Missing if torch or skorch is not
          installed.

    See Also
    --------
    MixtureRegressor : Pool of these regressors by default.

    Notes
    -----
    "forest" and "deep_ensemble" separate epistemic from aleatoric uncertainty; "boosting" does not.
    ``predict_dist(X).epistemic()`` of a pool therefore raises `~skuq.exceptions.NoDecompositionError` unless
    the weight of "boosting" is 0. For both parts, use a pool without a recalibrator and
    ``set_params(boosting="drop")``.

    The call imports torch if it is installed.

    Examples
    --------
    >>> from skuq.regressors import default_estimators
    >>> [name for name, _ in default_estimators(random_state=0)][:2]
    ['boosting', 'forest']
    """
    seeds: list[Any] = [None] * 3
    if random_state is not None:
        seeds = check_random_state(random_state).randint(MAX_SEED, size=3).tolist()
    boosting = UncertaintyRegressor(HistGradientBoostingRegressor(), random_state=seeds[0])
    forest = UncertaintyRegressor(RandomForestRegressor(), random_state=seeds[1])
    estimators = [("boosting", _encoded("categories", boosting)), ("forest", _encoded("codes", forest))]
    if has_networks():
        networks = make_deep_ensemble(random_state=seeds[2])
        estimators.append(("deep_ensemble", _encoded("numbers", networks)))
    return estimators


def has_networks() -> bool:
    return bool(find_spec("torch") and find_spec("skorch"))


def make_deep_ensemble(**params: Any) -> Any:
    """Return the regressor of `skuq.neural`, whose import takes seconds."""
    from skuq.neural import DeepEnsembleRegressor

    return DeepEnsembleRegressor(**params)


def _encoded(encoding: Encoding, model: Any) -> Pipeline:
    return Pipeline([("encoder", TableEncoder(encoding)), ("model", model)])
