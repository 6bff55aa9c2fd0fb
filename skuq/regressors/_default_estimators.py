"""Default members of a pool."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import Pipeline

from skuq._fitting.seeds import MAX_SEED
from skuq._fitting.table import Encoding, TableEncoder
from skuq._validation import check_option, check_random_state
from skuq.regressors._subset_gaussian_process import SubsetGaussianProcess
from skuq.regressors._uncertainty import UncertaintyRegressor

LIGHTGBM: dict[str, Any] = {
    "n_jobs": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbose": -1,
    "n_estimators": 300,
    "num_leaves": 15,
    "min_child_samples": 1,
    "subsample": 0.8,
    "subsample_freq": 1,
    "feature_fraction_bynode": 0.7,
    "max_bin": 127,
}
"""A tree with one row per leaf reproduces its training data. Each tree draws rows and columns at random, so
the mean of the trees is smooth."""

HIST_BOOSTING: dict[str, Any] = {
    "max_iter": 250,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 3,
    "max_features": 0.7,
}
"""These settings of scikit-learn's boosting are similar to `LIGHTGBM`, but scikit-learn cannot draw random
rows."""

_PLAIN_ENSEMBLE: dict[str, Any] = {
    "hidden_layer_sizes": (64, 64, 64),
    "n_frequencies": 0,
    "loss": "nll",
    "bootstrap": "folds",
    "batch_size": 64,
}


def default_estimators(
    random_state: int | np.random.RandomState | None = None,
    *,
    effort: Literal["low", "standard"] = "standard",
) -> list[tuple[str, Any]]:
    """Return the default members of a pool: regressors of different kinds, with their names.

    On some data sets, trees are much better than smooth functions. On other data sets, Gaussian processes or
    networks are much better. A `MixtureRegressor` of all kinds is about as good as the best kind.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Seed of the regressors. With None, the regressors have no seed. A `MixtureRegressor` with a
        ``random_state`` sets their seeds.
    effort : {"low", "standard"}, default="standard"
        Effort of the fits. "low" means no networks, and three folds instead of five for boosting and the
        Gaussian process.

    Returns
    -------
    estimators : list of (str, estimator)
        Names and unfitted regressors. The regressors accept strings, categories, dates and missing values.
        The first three regressors are pipelines with the steps "encoder" and "model". The encoder converts
        the columns to numbers. The networks have embeddings of categories instead. The regressors are:

        - "boosting": `UncertaintyRegressor` around LightGBM if LightGBM is installed, otherwise around
          scikit-learn's gradient boosting.
        - "forest": `UncertaintyRegressor` around a random forest. It needs one fit. In a pool, the time for
          the out-of-bag forecasts is about half of the time of the fit.
        - "gaussian_process": `UncertaintyRegressor` around the mean of a Gaussian process. Up to 40 columns
          have a length scale each. They are fitted to 400 random rows, and the mean to at most 2000 rows.
        - "deep_ensemble": `~skuq.neural.DeepEnsembleRegressor` with its default layers.
        - "plain_ensemble": `~skuq.neural.DeepEnsembleRegressor` with three plain layers, and with members
          that are trained on folds. It is suited to smooth functions with little noise.

        The two ensembles are missing if torch or skorch is not installed, or with ``effort="low"``.

    See Also
    --------
    MixtureRegressor : Pool that uses these members by default.

    Notes
    -----
    The forest and the ensembles separate epistemic from aleatoric uncertainty. "boosting" and
    "gaussian_process" do not separate them. If one of them has a positive weight,
    ``predict_dist(X).epistemic()`` of a pool raises `~skuq.exceptions.NoDecompositionError`. To get both
    parts, use a pool with ``recalibrator=None`` and call
    ``set_params(boosting="drop", gaussian_process="drop")``.

    "boosting" grows small trees with small leaves from random rows and columns. On 21 data sets, its CRPS is
    0.87 times the CRPS of scikit-learn's gradient boosting with default settings, and 0.81 times on the
    eleven sets with which the settings were developed.

    The function imports torch and LightGBM if they are installed.

    Examples
    --------
    >>> from skuq.regressors import default_estimators
    >>> [name for name, _ in default_estimators(effort="low")]
    ['boosting', 'forest', 'gaussian_process']
    """
    check_option(effort, "effort", ("low", "standard"))
    seeds: list[Any] = [None] * 5
    if random_state is not None:
        seeds = check_random_state(random_state).randint(MAX_SEED, size=5).tolist()
    trees: Any = HistGradientBoostingRegressor(early_stopping=False, **HIST_BOOSTING)
    if find_spec("lightgbm"):
        trees = make_lightgbm()
    boosting = UncertaintyRegressor(trees, effort=effort, random_state=seeds[0])
    forest = UncertaintyRegressor(RandomForestRegressor(), random_state=seeds[1])
    process = UncertaintyRegressor(SubsetGaussianProcess(), effort=effort, random_state=seeds[4])
    estimators = [
        ("boosting", _encoded("categories", boosting)),
        ("forest", _encoded("codes", forest)),
        ("gaussian_process", _encoded("numbers", process)),
    ]
    if effort == "standard" and has_networks():
        estimators.append(("deep_ensemble", make_deep_ensemble(random_state=seeds[2])))
        plain = make_deep_ensemble(random_state=seeds[3], **_PLAIN_ENSEMBLE)
        estimators.append(("plain_ensemble", plain))
    return estimators


def make_lightgbm(**params: Any) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(**{**LIGHTGBM, **params})


def has_networks() -> bool:
    return bool(find_spec("torch") and find_spec("skorch"))


def make_deep_ensemble(**params: Any) -> Any:
    # by name and in the call, because the room is above this one, and its import takes seconds
    return import_module("skuq.neural").DeepEnsembleRegressor(**params)


def _encoded(encoding: Encoding, model: Any) -> Pipeline:
    return Pipeline([("encoder", TableEncoder(encoding)), ("model", model)])
