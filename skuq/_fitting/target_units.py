"""Rescaling of targets to values near 1 for estimators with absolute tolerances.

Boosting of scikit-learn stops early when the loss improves by less than a tolerance, and trees do not split
nodes with an impurity below 2e-16. Because of these thresholds, the fitted model depends on the units of y.
Without them, a division of y by a power of two would divide the predictions by the same number.

Networks of scikit-learn take steps of a fixed size. They do not converge if the target is many orders of
magnitude smaller or larger than their initial predictions.

LightGBM, XGBoost and CatBoost store targets in 32 bits, with 7 digits and a limited range. Their targets are
also centered if the mean is many standard deviations from 0.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeRegressor

from skuq._typing import FloatArray
from skuq._units import power_of_two, standard_deviation, unit_of
from skuq.prediction._child import is_search, last_step

_TREES = (DecisionTreeRegressor, RandomForestRegressor, ExtraTreesRegressor, GradientBoostingRegressor)

_ROWS_WITHOUT_STOPPING = 10_000
"""With more rows, HistGradientBoostingRegressor stops early by default."""

_EXPONENTS_OF_TREES = (-10, 64)
"""Range of the binary exponent of the std of y in which the threshold of the impurity has no effect."""

_EXPONENTS_OF_NETWORKS = (-10, 10)
"""Range of the binary exponent of the unit of y in which networks are fitted to y without rescaling."""

_SINGLE_PRECISION = ("catboost", "lightgbm", "xgboost")
"""Packages that store targets in 32 bits."""

_EXPONENTS_OF_SINGLES = (-40, 40)
"""Range of the binary exponent of the std of y in which squares of y are finite in 32 bits."""

_LARGEST_OFFSET = 100.0
"""Largest distance of the mean of y from 0, in standard deviations, for which 32 bits are precise enough."""


def in_target_units(estimator: Any, y: FloatArray) -> Any:
    """Return the estimator, in a TransformedTargetRegressor if its target must have a size near 1.

    The innermost estimator of Pipelines and searches decides whether the target must have a size near 1.
    ``y`` is the target of all rows, so that all folds have the same unit.
    """
    inner = _inner(estimator)
    exponent, center = _exponent_of(y, offset=isinstance(inner, MLPRegressor)), 0.0
    if _is_single_precision(inner):
        mean = float(np.mean(y))
        center = mean if abs(mean) > np.ldexp(_LARGEST_OFFSET, exponent) else 0.0
        lowest, highest = _EXPONENTS_OF_SINGLES
        is_needed = center != 0 or not lowest < exponent < highest
    else:
        is_needed = exponent != 0 and _has_absolute_tolerance(inner, len(y), exponent)
    if not is_needed:
        return estimator
    return TransformedTargetRegressor(
        estimator,
        func=partial(_to_unit, exponent=exponent, center=center),
        inverse_func=partial(_from_unit, exponent=exponent, center=center),
        check_inverse=False,
    )


def _to_unit(y: FloatArray, exponent: int, center: float) -> FloatArray:
    return np.ldexp(y - center, -exponent)


def _from_unit(y: FloatArray, exponent: int, center: float) -> FloatArray:
    return np.ldexp(y, exponent) + center


def _is_single_precision(estimator: Any) -> bool:
    return any(cls.__module__.split(".")[0] in _SINGLE_PRECISION for cls in type(estimator).__mro__)


def _exponent_of(y: FloatArray, *, offset: bool) -> int:
    """Return the binary exponent of the std of y.

    With ``offset``, use the largest absolute value in place of the std.
    """
    if y.max() == y.min():
        return 0
    unit = unit_of(y) if offset else power_of_two(standard_deviation(y))
    return int(np.frexp(unit)[1]) - 1


def _inner(estimator: Any) -> Any:
    while isinstance(estimator, Pipeline) or is_search(estimator):
        estimator = last_step(estimator) if isinstance(estimator, Pipeline) else estimator.estimator
    return estimator


def _has_absolute_tolerance(estimator: Any, n: int, exponent: int) -> bool:
    """Return whether an absolute tolerance or a step size would affect the fit to y."""
    if isinstance(estimator, BaggingRegressor):
        member = DecisionTreeRegressor() if estimator.estimator is None else estimator.estimator
        return _has_absolute_tolerance(member, n, exponent)
    if isinstance(estimator, HistGradientBoostingRegressor):
        early = estimator.early_stopping
        return bool(n > _ROWS_WITHOUT_STOPPING if early == "auto" else early)
    if isinstance(estimator, MLPRegressor):
        lowest, highest = _EXPONENTS_OF_NETWORKS
        return not lowest < exponent < highest
    if not isinstance(estimator, _TREES) or estimator.min_impurity_decrease:
        return False  # The user has set a threshold in the units of y.
    lowest, highest = _EXPONENTS_OF_TREES
    stops = getattr(estimator, "n_iter_no_change", None) is not None
    return stops or not lowest < exponent < highest
