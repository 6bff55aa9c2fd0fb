"""Location of ResidualRegressor: the mean of the folds' models, or one model that is fitted to all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.frozen import FrozenEstimator

from skuq._fitting.cross_fit import CrossFit
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.point_predict import point_predict
from skuq._fitting.progress import Progress
from skuq._fitting.refit_check import find_mismatch, warn_of_mismatch
from skuq._fitting.row_sets import columns_of_rows
from skuq._fitting.training_data import TrainingData
from skuq._sklearn_compat import is_pairwise
from skuq._typing import FloatArray, IntArray
from skuq.regressors._fold_groups import RelativeErrors

MOST_AVERAGED = 20
"""With more folds, "auto" does not choose the mean of the folds' models."""

Kind = Literal["folds", "refit"]


@dataclass(frozen=True, eq=False)
class Location:
    """Fitted mean models, whose predictions are averaged."""

    kind: Kind
    models: tuple[Any, ...]
    columns: tuple[IntArray | None, ...]  # training rows of each model if X is a precomputed kernel

    def predict(self, X: Any) -> FloatArray:
        models = zip(self.models, self.columns, strict=True)
        points = [point_predict(model, columns_of_rows(X, columns)) for model, columns in models]
        return np.asarray(points[0] if len(points) == 1 else np.mean(points, axis=0))


def choose_location(
    option: str, estimator: Any, errors: RelativeErrors, n_folds: int, *, partition: bool
) -> Kind:
    """Return the kind of location. "auto" chooses the kind with the smaller errors."""
    if isinstance(estimator, FrozenEstimator):
        return "refit"
    if option == "folds":
        if not partition:
            raise ValueError(
                "`cv` must test every row exactly once with `location` 'folds', but some rows are never "
                "tested or tested several times. Use a "
                "partition such as KFold or GroupKFold, or location='refit'."
            )
        return "folds"
    averaged = partition and 2 < n_folds <= MOST_AVERAGED
    return "folds" if option == "auto" and averaged and errors.folds <= errors.refit else "refit"


def fit_location(
    kind: Kind, estimator: Any, data: TrainingData, folds: CrossFit, progress: Progress, *, warn: bool
) -> Location:
    """Fit the location.

    If the refit differs too much from the models of the folds, the location is the mean of these models.
    """
    if kind == "refit":
        refit = fit_wrapped(estimator, data.X, data.target, **data.fit_params)
        progress.done("mean model")
        mismatch = find_mismatch(refit, folds, data.X, data.y, point_predict)
        if mismatch is None or not folds.is_partition(len(data)):
            warn_of_mismatch(
                mismatch, "With location='refit', new rows are predicted by the model fitted to all rows"
            )
            return Location("refit", (refit,), (None,))
        if warn:
            warn_of_mismatch(
                mismatch,
                "Therefore, the location is the mean of the models of the folds, as with location='folds'",
            )
    columns = folds.train_rows if is_pairwise(estimator) else (None,) * len(folds.estimators)
    return Location("folds", folds.estimators, columns)
