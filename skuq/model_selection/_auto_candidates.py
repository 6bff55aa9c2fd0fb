"""Candidates to begin with: regressors of different kinds, each with a calibrated distribution."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.stats import loguniform, randint, uniform
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge

from skuq._validation import check_random_state
from skuq.prediction._random import MAX_SEED
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import UncertaintyRegressor

__all__ = ["default_estimators", "default_space", "import_optuna"]


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
    None accepts strings. The networks do not accept missing values either, the others do: a pool of all fails
    once the networks are fitted, and ``MixtureRegressor(estimators).set_params(deep_ensemble="drop")`` leaves
    them out.

    "boosting" does not separate epistemic from aleatoric uncertainty, "forest" and "deep_ensemble" with their
    default parameters do. ``predict_dist(X).epistemic()`` of a pool with the default weights therefore raises
    `~skuq.exceptions.NoDecompositionError` unless the weight of boosting is 0; with
    ``set_params(boosting="drop")`` and without a recalibrator the two parts are available.

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


def import_optuna() -> Any:
    """Return the package Optuna, or None where it is not installed."""
    if not find_spec("optuna"):
        return None
    import optuna

    return optuna


def default_space() -> dict[str, dict[str, Any]]:
    """Return what `AutoUncertaintyRegressor` searches: base models, cheap ones first, and recalibrators."""
    forest = {"min_samples_leaf": [1, 2, 3, 5, 10], "max_features": uniform(0.3, 0.7)}
    estimators: dict[str, dict[str, Any]] = {
        "linear": {"estimator": BayesianRidge(), "methods": ["native", "residual"]},
        "extra_trees": {
            "estimator": ExtraTreesRegressor(bootstrap=True),
            "methods": ["forest"],
            "params": forest,
        },
        "forest": {"estimator": RandomForestRegressor(), "methods": ["forest"], "params": forest},
        "boosting": {
            "estimator": HistGradientBoostingRegressor(),
            "params": {
                "learning_rate": loguniform(0.02, 0.3),
                "max_iter": [100, 200, 400],
                "max_leaf_nodes": randint(4, 64),
                "min_samples_leaf": randint(5, 60),
                "l2_regularization": [0.0, 1.0, 10.0],
            },
        },
    }
    if find_spec("lightgbm"):
        estimators["lightgbm"] = _lightgbm()
    if find_spec("catboost"):
        estimators["catboost"] = _catboost()
    if find_spec("torch") and find_spec("skorch"):
        estimators["deep_ensemble"] = _deep_ensemble()
    if find_spec("ngboost"):
        estimators["ngboost"] = _ngboost()
    recalibrators = {
        "none": None,
        "scaling": StdScalingRecalibrator(objective="coverage"),
        "isotonic": IsotonicRecalibrator(),
    }
    return {"estimators": estimators, "recalibrators": recalibrators}


def _lightgbm() -> dict[str, Any]:
    from lightgbm import LGBMRegressor

    params = {
        "learning_rate": loguniform(0.02, 0.3),
        "n_estimators": [100, 200, 400],
        "num_leaves": randint(4, 64),
        "min_child_samples": randint(5, 60),
        "colsample_bytree": uniform(0.4, 0.6),
        "reg_lambda": [0.0, 1.0, 10.0],
    }
    return {"estimator": LGBMRegressor(n_jobs=1, verbose=-1), "params": params}


def _catboost() -> dict[str, Any]:
    from catboost import CatBoostRegressor

    estimator = CatBoostRegressor(
        iterations=300, learning_rate=0.1, depth=6, thread_count=1, verbose=False, allow_writing_files=False
    )
    params = {
        "learning_rate": loguniform(0.03, 0.3),
        "iterations": [300, 600],
        "depth": [4, 5, 6, 7],
        "l2_leaf_reg": loguniform(1, 10),
    }
    return {"estimator": estimator, "params": params}


def _deep_ensemble() -> dict[str, Any]:
    from skuq.neural import DeepEnsembleRegressor

    params = {
        "hidden_layer_sizes": [(64, 64), (128, 128), (32, 32), (64, 64, 64)],
        "learning_rate": loguniform(1e-3, 1e-2),
        "loss": ["beta_nll", "crps"],
    }
    return {"estimator": DeepEnsembleRegressor(), "methods": ["native"], "params": params}


def _ngboost() -> dict[str, Any]:
    from ngboost import NGBRegressor

    # fewer and larger steps than its own 500 of 0.01, which take seconds
    estimator = NGBRegressor(n_estimators=200, learning_rate=0.03, verbose=False)
    params = {"learning_rate": loguniform(0.01, 0.1), "minibatch_frac": [0.5, 1.0]}
    return {"estimator": estimator, "methods": ["native"], "params": params}
