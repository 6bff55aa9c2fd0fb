"""Distributions of scikit-survival's estimators that predict survival functions.

This module does not import the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq.distributions import Empirical
from skuq.prediction._failures import check_predictions
from skuq.prediction._registry import Adapter


def _supports(estimator: Any) -> bool:
    return hasattr(estimator, "predict_survival_function")


def _steps_dist(estimator: Any, X: Any) -> Empirical:
    """Return the steps of the survival functions. The last time has the probability of all later times."""
    functions = estimator.predict_survival_function(X)
    times = np.asarray(functions[0].x, dtype=np.float64)
    survival = check_predictions(np.stack([function.y for function in functions]), estimator)
    ends = np.zeros((len(survival), 1))
    steps = -np.diff(np.column_stack([np.ones(len(survival)), survival[:, :-1], ends]), axis=1)
    return Empirical(np.tile(times, (len(steps), 1)), np.maximum(steps, 0.0))


SURVIVAL_ADAPTERS: dict[str, Adapter] = {
    "sksurv.base.SurvivalAnalysisMixin": Adapter(_steps_dist, _supports),
}
"""Adapter by the base class of scikit-survival."""
