"""Default search space, with recalibrators and the base models of all installed packages."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

from scipy.stats import loguniform, randint, uniform
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge

from skuq.model_selection._auto.budget import Cost
from skuq.model_selection._auto.space import Deferred
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors._default_estimators import (
    HIST_BOOSTING,
    LIGHTGBM,
    has_networks,
    make_deep_ensemble,
    make_lightgbm,
)


def import_optuna() -> Any:
    if not find_spec("optuna"):
        return None
    import optuna

    return optuna


def default_space() -> dict[str, dict[str, Any]]:
    space = deferred_space()
    for entry in space["estimators"].values():
        if isinstance(entry["estimator"], Deferred):
            entry["estimator"] = entry["estimator"].make()
    return space


def deferred_space() -> dict[str, dict[str, Any]]:
    """Return the default space without imports. Base models with a low CRPS for their fit time come first."""
    forest = {
        "min_samples_leaf": [1, 2, 3, 5, 10],
        "max_features": uniform(0.3, 0.7),
        "n_estimators": [50, 100],
    }
    trees = {"methods": ["forest"], "params": forest, "encoding": "codes"}
    estimators: dict[str, dict[str, Any]] = {
        "forest": {"estimator": RandomForestRegressor(), **trees},
        "linear": {
            "estimator": BayesianRidge(),
            "methods": ["native", "residual"],
            "encoding": "numbers",
        },
        "boosting": {
            "estimator": HistGradientBoostingRegressor(**HIST_BOOSTING),
            "params": {
                "learning_rate": loguniform(0.02, 0.3),
                "max_iter": [100, 250, 400],
                "max_leaf_nodes": randint(4, 64),
                "min_samples_leaf": [1, 3, 5, 10, 20, 40],
                "max_features": uniform(0.5, 0.5),
                "l2_regularization": [0.0, 1.0, 10.0],
            },
            "encoding": "categories",
        },
    }
    if has_networks():
        estimators["deep_ensemble"] = _deep_ensemble()
    if find_spec("lightgbm"):
        estimators["lightgbm"] = _lightgbm()
    estimators["extra_trees"] = {"estimator": ExtraTreesRegressor(bootstrap=True), **trees}
    if find_spec("catboost"):
        estimators["catboost"] = _catboost()
    if find_spec("ngboost"):
        estimators["ngboost"] = _ngboost()
    recalibrators = {
        "none": None,
        "scaling": StdScalingRecalibrator(objective="coverage"),
        "isotonic": IsotonicRecalibrator(),
    }
    return {"estimators": estimators, "recalibrators": recalibrators}


def _lightgbm() -> dict[str, Any]:
    params = {
        "learning_rate": loguniform(0.02, 0.3),
        "n_estimators": [100, 200, 300, 500],
        "num_leaves": randint(4, 48),
        "min_child_samples": [1, 2, 5, 10, 20, 40],
        "subsample": [0.6, 0.8, 1.0],
        "feature_fraction_bynode": uniform(0.4, 0.6),
        "extra_trees": [False, True],
        "reg_lambda": [0.0, 1.0, 10.0],
    }
    own: dict[str, Any] = {**LIGHTGBM, "learning_rate": 0.1, "extra_trees": False, "reg_lambda": 0.0}

    def make() -> Any:
        return make_lightgbm(**own)

    estimator = Deferred("lightgbm", make, ("lightgbm",), Cost(0.5, 0.2, 3e-4), own)
    return {"estimator": estimator, "methods": ["residual"], "params": params, "encoding": "categories"}


def _catboost() -> dict[str, Any]:
    own: dict[str, Any] = {"learning_rate": 0.1, "iterations": 300, "depth": 6, "l2_leaf_reg": 3.0}

    def make() -> Any:
        from catboost import CatBoostRegressor

        return CatBoostRegressor(thread_count=1, verbose=False, allow_writing_files=False, **own)

    params = {
        "learning_rate": loguniform(0.03, 0.3),
        "iterations": [300, 600],
        "depth": [4, 5, 6, 7],
        "l2_leaf_reg": loguniform(1, 10),
    }
    estimator = Deferred("catboost", make, ("catboost",), Cost(0.5, 1.0, 2e-3), own)
    return {"estimator": estimator, "methods": ["residual"], "params": params, "encoding": "codes"}


def _deep_ensemble() -> dict[str, Any]:
    own: dict[str, Any] = {
        "hidden_layer_sizes": (64, 64),
        "n_frequencies": "auto",
        "loss": "beta_nll",
        "bootstrap": True,
        "learning_rate": 8e-3,
    }
    params = {
        "hidden_layer_sizes": [(64, 64), (128, 128), (32, 32), (64, 64, 64)],
        "n_frequencies": ["auto", 0],
        "loss": ["beta_nll", "nll", "crps"],
        "bootstrap": [True, "folds"],
        # the default is the geometric mean of the bounds
        "learning_rate": loguniform(2e-3, 3.2e-2),
    }
    cost = Cost(3.0, 2.5, 1e-2)
    estimator = Deferred(
        "deep_ensemble", partial(make_deep_ensemble, **own), ("torch", "skorch"), cost, own, out_of_bag=True
    )
    return {"estimator": estimator, "methods": ["native"], "params": params}


def _ngboost() -> dict[str, Any]:
    # 200 steps of 0.03 instead of the default 500 steps of 0.01, which take seconds
    own: dict[str, Any] = {"n_estimators": 200, "learning_rate": 0.03, "minibatch_frac": 1.0}

    def make() -> Any:
        from ngboost import NGBRegressor

        return NGBRegressor(verbose=False, **own)

    params = {"learning_rate": loguniform(0.01, 0.1), "minibatch_frac": [0.5, 1.0]}
    estimator = Deferred("ngboost", make, ("ngboost",), Cost(2.0, 2.5, 1.5e-3), own)
    return {"estimator": estimator, "methods": ["native"], "params": params, "encoding": "numbers"}
