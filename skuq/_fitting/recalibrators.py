"""Validation and fit of a recalibrator on the out-of-fold forecasts of an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from skuq._censoring import given_censoring, read_bounds
from skuq._fitting.training_data import TrainingData
from skuq._typing import IntArray
from skuq.distributions import Distribution


def check_recalibrator(recalibrator: Any, *, auto: bool = False) -> None:
    if recalibrator is None or (auto and isinstance(recalibrator, str) and recalibrator == "auto"):
        return
    known = all(hasattr(recalibrator, name) for name in ("fit", "transform", "predict"))
    if isinstance(recalibrator, type) or not known:
        others = "'auto' or None" if auto else "or None"
        raise TypeError(
            f"`recalibrator` must be a recalibrator, such as IsotonicRecalibrator(), {others}, got "
            f"{recalibrator!r}."
        )


def fit_recalibrator(recalibrator: Any, dist: Distribution, data: TrainingData, rows: IntArray) -> Any:
    fitted = clone(recalibrator)
    if hasattr(fitted, "partial_fit"):  # The last rows must be the latest.
        order = np.argsort(rows, kind="stable")
        dist, rows = dist[order], rows[order]
    params = _censoring_of(recalibrator, data, rows)
    if data.sample_weight is not None:
        params["sample_weight"] = data.sample_weight[rows]
    return fitted.fit(dist, data.y[rows], **params)


def _censoring_of(recalibrator: Any, data: TrainingData, rows: IntArray) -> dict[str, Any]:
    """Return the censoring of the rows. Raise an error if the recalibrator does not accept censoring."""
    given = given_censoring(data.params) if data.params else {}
    if not given or read_bounds(data.y, **given) is None:  # Every target is observed.
        return {}
    for name in given:
        if not has_fit_parameter(recalibrator, name):
            raise ValueError(
                f"`{name}` is given, but {type(recalibrator).__name__} does not take it. The recalibrator "
                "would treat censored targets as observed. Use recalibrator=IsotonicRecalibrator()."
            )
    return {name: np.asarray(values)[rows] for name, values in given.items()}
