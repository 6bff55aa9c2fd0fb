"""Distributions of scikit-survival's estimators, for `predict_dist`. The package is not imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._censoring import step_masses
from skuq.distributions import Empirical
from skuq.prediction._failures import check_predictions


def steps_dist(estimator: Any, X: Any) -> Empirical:
    """Return the steps of the survival functions. All later times form one step just after the last time."""
    functions = estimator.predict_survival_function(X)
    survival = check_predictions(np.stack([function.y for function in functions]), estimator)
    times, steps = step_masses(np.asarray(functions[0].x, dtype=np.float64), survival)
    return Empirical(np.tile(times, (len(steps), 1)), np.maximum(steps, 0.0))
