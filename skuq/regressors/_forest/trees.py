"""Trees of a fitted forest: the leaf of each row, and the number of times that a tree has drawn each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import BaggingRegressor
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import validate_data

from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._sklearn_compat import ForestRegressor
from skuq._typing import FloatArray, IntArray

_LEAST_UNIT, _MOST_UNIT = 2.0**-10, 2.0**256
"""If the standard deviation of y is between these values, trees find splits, and the squares of y do not
overflow."""

_IN_UNITS_OF_Y = ("min_impurity_decrease", "ccp_alpha")


def grows_trees(estimator: Any) -> bool:
    if isinstance(estimator, BaggingRegressor):
        return estimator.estimator is None or isinstance(estimator.estimator, BaseDecisionTree)
    return isinstance(estimator, ForestRegressor)


def bootstraps_trees(estimator: Any) -> bool:
    return grows_trees(estimator) and bool(estimator.bootstrap)


def check_forest(estimator: Any) -> None:
    if bootstraps_trees(estimator):
        return
    name = type(estimator).__name__
    if isinstance(estimator, ForestRegressor | BaggingRegressor) and not estimator.bootstrap:
        raise ValueError(
            f"`estimator` must leave rows out of bag, got a {name} with bootstrap=False. Set "
            f"`bootstrap=True`, or use ResidualRegressor, which refits the forest on folds."
        )
    raise ValueError(
        "`estimator` must be a RandomForestRegressor, an ExtraTreesRegressor(bootstrap=True) or a "
        f"BaggingRegressor of trees, got {name}. Use ResidualRegressor for any other regressor. In a "
        "Pipeline, replace the forest with ForestDistributionRegressor(forest)."
    )


def fit_forest(forest: Any, X: Any, y: FloatArray, unit: float, fit_params: dict[str, Any]) -> Any:
    """Return the fitted forest. If the squares of y would underflow or overflow, y is divided by ``unit``."""
    if _LEAST_UNIT <= unit <= _MOST_UNIT or _has_units(forest):
        return fit_wrapped(forest, X, y, **fit_params)
    fitted = fit_wrapped(forest, X, y / unit, **fit_params)
    for member in fitted.estimators_:
        member.tree_.value[...] *= unit
    if hasattr(fitted, "oob_prediction_"):
        fitted.oob_prediction_ *= unit
    return fitted


def _has_units(forest: Any) -> bool:
    params = forest.get_params()
    absolute = [value for name, value in params.items() if name.split("__")[-1] in _IN_UNITS_OF_Y]
    return any(absolute) or callable(params["oob_score"])


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of a fitted forest. The nodes are numbered consecutively over all trees."""

    forest: Any
    first: IntArray  # number of the first node of each tree, shape (B,)
    values: FloatArray  # prediction of each node, divided by a unit, shape (n_nodes,)

    @classmethod
    def from_forest(cls, forest: Any, unit: float = 1.0) -> Trees:
        counts = [member.tree_.node_count for member in forest.estimators_]
        values = np.concatenate([member.tree_.value[:, 0, 0] for member in forest.estimators_])
        return cls(forest, np.cumsum([0, *counts[:-1]]), values / unit)

    def __len__(self) -> int:
        return len(self.first)

    def leaves(self, X: Any) -> IntArray:
        forest = self.forest
        if not isinstance(forest, BaggingRegressor):
            return np.asarray(forest.apply(X) + self.first)
        # The members are fitted to an array without column names.
        array = validate_data(
            forest, X, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False, reset=False
        )
        members = zip(forest.estimators_, forest.estimators_features_, strict=True)
        leaves = [member.apply(array[:, columns]) for member, columns in members]
        return np.asarray(np.stack(leaves, axis=1) + self.first)

    def counts(self, n: int) -> IntArray:
        draws = np.empty((n, len(self)), dtype=np.intp)
        for column, rows in enumerate(self.forest.estimators_samples_):
            draws[:, column] = np.bincount(rows, minlength=n)
        return draws
