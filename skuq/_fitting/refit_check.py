"""Comparison of the model that is fitted to all rows with the models of the folds.

Out-of-fold errors describe the model of all rows only if this model is similar to the models of the folds.
The models differ, for example, if boosting stops early with all rows but not with the rows of a fold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skuq._fitting.cross_fit import CrossFit
from skuq._fitting.row_sets import row_mask
from skuq._sklearn_compat import count_rows, is_pairwise, safe_indexing
from skuq._typing import BoolArray, FloatArray
from skuq._units import standard_deviation
from skuq._warnings import warn_user
from skuq.exceptions import FoldMismatchWarning
from skuq.prediction._resolve import predict_dist

_MAX_ROWS = 1000
"""Maximum number of rows of the comparison. Each model must predict these rows."""

_MAX_MODELS = 10
"""Maximum number of folds of the comparison."""

_MAX_RATIO = 3.0
"""Largest accepted ratio of two distances between models.

The first distance is between the model of all rows and the models of the folds. It is divided by the distance
between the models of the folds. The ratio is 0.7 for linear models and about 1 for models that vary at
random. For twelve regressors of scikit-learn on 100 to 1500 rows, the ratio was at most 1.9 with K-fold
splits. With time-ordered splits, the first models have few rows. The ratio was then above 3 in one of 108
cases. For boosting that stopped after 10 instead of 100 rounds, the ratio was at least 10.
"""


_MIN_ROWS = 8
"""Smallest number of rows on which two models are compared."""

_MIN_SHARE_OF_ERRORS = 0.1
"""Smallest distance that causes a warning, as a share of the root mean squared residual."""

_MIN_SHARE_OF_TARGET = 1e-3
"""Smallest distance that causes a warning, as a share of the std of y. This limit is needed if there is no
noise."""


class Mismatch(NamedTuple):
    """Root mean squared differences between predictions for the same training rows, in the units of y."""

    refit: float
    """Difference between the model of all rows and the models of the folds."""
    folds: float
    """Difference between the models of the folds."""


def find_mismatch(
    refit: Any, folds: CrossFit, X: Any, y: FloatArray, predict: Callable[[Any, Any], FloatArray]
) -> Mismatch | None:
    """Return both distances if the model of all rows is too far from the models of the folds.

    Otherwise, return None. Each model of a fold is compared with the refit on the training rows of the fold,
    because the refit is also trained on these rows.
    """
    n = count_rows(X)
    if len(folds.estimators) < 2 or is_pairwise(refit):
        return None
    rows = np.unique(np.linspace(0, n - 1, min(n, _MAX_ROWS)).astype(np.intp))
    X = safe_indexing(X, rows)
    models = folds.estimators[:_MAX_MODELS]
    trained = np.array([row_mask(train, n)[rows] for train in folds.train_rows[:_MAX_MODELS]])
    # The models of two halves have no common training row, so they are compared on all rows.
    if np.count_nonzero(trained, axis=0).max() < 2:
        trained = np.ones_like(trained)
    kept = np.count_nonzero(trained, axis=0) >= 2
    if np.count_nonzero(kept) < _MIN_ROWS:
        return None
    by_refit, *by_folds = (predict(model, X).reshape(len(rows), -1)[kept] for model in (refit, *models))
    trained = trained[:, kept, np.newaxis]
    found, residual = _distances(by_refit, np.array(by_folds), trained, y[rows][kept, np.newaxis])
    rounding = 8 * np.finfo(np.float64).eps * float(np.abs(by_refit).max())
    negligible = max(_MIN_SHARE_OF_ERRORS * residual, _MIN_SHARE_OF_TARGET * standard_deviation(y), rounding)
    far = found.refit > max(_MAX_RATIO * found.folds, negligible)
    return found if far else None


def predict_quartiles(estimator: Any, X: Any) -> FloatArray:
    return predict_dist(estimator, X).quantile([0.25, 0.5, 0.75])


def _distances(
    refit: FloatArray, folds: FloatArray, trained: BoolArray, y: FloatArray
) -> tuple[Mismatch, float]:
    count = trained.sum(axis=0)
    difference, residual = np.where(trained, folds - refit, 0.0), np.where(trained, folds - y, 0.0)
    unit = max(np.abs(difference).max(), np.abs(residual).max())
    if unit == 0:
        return Mismatch(0.0, 0.0), 0.0
    difference, residual = difference / unit, residual / unit
    to_refit = (difference**2).sum(axis=0) / count
    # The mean squared difference between two models is twice their sample variance.
    spread = np.where(trained, difference - difference.sum(axis=0) / count, 0.0)
    among = 2 * (spread**2).sum(axis=0) / (count - 1)
    size = (residual**2).sum(axis=0) / count
    to_refit, among, size = (float(unit * np.sqrt(square.mean())) for square in (to_refit, among, size))
    return Mismatch(to_refit, among), size


def warn_of_mismatch(mismatch: Mismatch | None, consequence: str) -> None:
    if mismatch is None:
        return
    warn_user(
        "The model that is fitted to all rows differs from the models of the folds. The root mean square "
        f"difference between its predictions and the predictions of a fold's model is {mismatch.refit:.3g}. "
        f"For two models of folds, this difference is {mismatch.folds:.3g}. The errors of the forecast are "
        "estimated with the models of the folds. "
        f"{consequence}. A common cause is early stopping.",
        FoldMismatchWarning,
    )
