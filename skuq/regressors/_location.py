"""The location of residual regression: the mean of the folds' models, or one model fitted to all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.frozen import FrozenEstimator

from skuq._sklearn_compat import is_pairwise
from skuq._typing import FloatArray, IntArray
from skuq.prediction._cross_fit import CrossFit
from skuq.prediction._point import point_predict
from skuq.prediction._refit_check import find_mismatch, warn_of_mismatch
from skuq.prediction._row_sets import columns_of_rows
from skuq.prediction._wrapped import fit_wrapped
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._fold_groups import RelativeErrors
from skuq.regressors._progress import Progress

__all__ = ["Location", "choose_location", "fit_location"]

MOST_AVERAGED = 20
"""Number of folds up to which the location is by default the mean of their models."""

Kind = Literal["folds", "refit"]


@dataclass(frozen=True, eq=False)
class Location:
    """Fitted mean models, whose predictions are averaged.

    Attributes
    ----------
    kind : {"folds", "refit"}
        Models of the folds, or one model fitted to all rows.
    models : tuple of estimators
        The mean models.
    columns : tuple of (ndarray of int or None)
        For each model, the columns that belong to its training rows, where X is a matrix between rows.
    """

    kind: Kind
    models: tuple[Any, ...]
    columns: tuple[IntArray | None, ...]

    def predict(self, X: Any) -> FloatArray:
        """Return the mean prediction of each row."""
        models = zip(self.models, self.columns, strict=True)
        points = [point_predict(model, columns_of_rows(X, columns)) for model, columns in models]
        return np.asarray(points[0] if len(points) == 1 else np.mean(points, axis=0))


def choose_location(
    option: str, estimator: Any, errors: RelativeErrors, n_folds: int, *, partition: bool
) -> Kind:
    """Return the location: for "auto", the one with the smaller errors if both are possible."""
    if isinstance(estimator, FrozenEstimator):  # a single model
        return "refit"
    if option == "folds":
        if not partition:
            raise ValueError(
                "`cv` must test every row exactly once with `location` 'folds', but it does not. Use a "
                "partition such as KFold or GroupKFold, or location='refit'."
            )
        return "folds"
    averaged = partition and 2 < n_folds <= MOST_AVERAGED
    return "folds" if option == "auto" and averaged and errors.folds <= errors.refit else "refit"


def fit_location(
    kind: Kind, estimator: Any, data: TrainingData, folds: CrossFit, progress: Progress, *, warn: bool
) -> Location:
    """Keep the folds' models, or fit the estimator to all rows and compare it with them.

    The folds' models take the place of a refit that is too far from them if the folds are a partition. With
    ``warn`` this gives a FoldMismatchWarning, and without a partition there is the warning in any case.
    """
    if kind == "refit":
        refit = fit_wrapped(estimator, data.X, data.target, **data.fit_params)
        progress.done("mean model")
        mismatch = find_mismatch(refit, folds, data.X, data.y, point_predict)
        if mismatch is None or not folds.is_partition(len(data)):
            warn_of_mismatch(mismatch, "location='refit' predicts with the former")
            return Location("refit", (refit,), (None,))
        if warn:
            warn_of_mismatch(mismatch, "the mean of the latter is the location, as with location='folds'")
    columns = folds.train_rows if is_pairwise(estimator) else (None,) * len(folds.estimators)
    return Location("folds", folds.estimators, columns)
