"""Quantile regression at several levels, combined into one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.point_predict import point_predict
from skuq._fitting.progress import Progress
from skuq._fitting.seeds import MAX_SEED, seeded_clone
from skuq._fitting.target_units import in_target_units
from skuq._fitting.training_data import TrainingData
from skuq._sklearn_compat import delayed, run_parallel
from skuq._typing import FloatArray, SupportLike
from skuq._validation import check_increasing, check_open_unit, check_random_state
from skuq.distributions import Distribution, Quantiles
from skuq.prediction._child import last_step
from skuq.prediction._failures import note_fold
from skuq.prediction._rules.quantile_estimators import (
    QuantileLoss,
    find_quantile_loss,
    predict_many,
    with_prefix,
)

DEFAULT_LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""The levels include 0.05 and 0.95, so that the bounds of the default interval are not extrapolated."""


class MultiQuantileRegressor(BaseUncertaintyRegressor):
    """Predictive distribution from quantile regression at several levels.

    The width, the skewness and the tails of the distribution may change with x. No shape is assumed. Prefer
    `ResidualRegressor` if there are few rows, because only a few rows lie beyond the outer levels. Also
    prefer `ResidualRegressor` if you need far tails or a density.

    Parameters
    ----------
    estimator : estimator
        Regressor with a quantile loss, or a Pipeline that ends in such a regressor; cloned. `fit` sets the
        loss and the level of these regressors: scikit-learn's QuantileRegressor, GradientBoostingRegressor
        and HistGradientBoostingRegressor, trees and forests of scikit-learn 1.10, LightGBM, CatBoost, XGBoost
        and quantile-forest. For other regressors without the parameters ``criterion`` and ``loss``, `fit`
        sets the parameter ``quantile``, or the parameter that `quantile_param` names. The only supported
        meta-estimator is a Pipeline.
    levels : array-like of shape (k,), default=(0.05, 0.1, 0.2, ..., 0.9, 0.95)
        At least two increasing levels in (0, 1). The tails beyond the outer levels are extrapolated.
    quantile_param : str or None, default=None
        Name of the estimator's parameter for the level, in the form that ``set_params`` accepts. For a step
        of a Pipeline, the form is ``<step>__<name>``. `fit` then sets only the level, so you must set the
        loss in the estimator. With None, `fit` sets the loss and the level of the regressors listed under
        `estimator`.
    cv : int, splitter or iterable of (train, test), default=5
        Folds of `fit_transform`. An int k means ``KFold(k, shuffle=True)``.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are the means of the clipped forecasts.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one level or one fold. The results do not depend on
        ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of estimators without a seed of their own. An integer makes results
        reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimators_ : list
        One fitted clone per level. CatBoost, XGBoost and quantile-forest predict all levels with one fit, so
        there is a single clone.
    levels_ : ndarray of shape (k,)
        The levels.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    ResidualRegressor : Distribution of the errors of any regressor.
    UncertaintyRegressor : Chooses the method that suits the regressor.

    Notes
    -----
    Quantiles from separate fits may cross. The quantiles of each row are therefore sorted, which never
    increases the pinball loss [1]_. The distribution function is linear between the levels and has
    exponential tails beyond the outermost levels. See `Quantiles`. `predict` returns the mean of this
    distribution. A level that is set in ``estimator`` is ignored.

    Wrap this class in a TransformedTargetRegressor or a search. Do not pass either of them as `estimator`.
    Use ``TransformedTargetRegressor(MultiQuantileRegressor(...), func=...)``. In the opposite order, a
    decreasing ``func`` would swap the levels. Use ``GridSearchCV(MultiQuantileRegressor(...),
    {"estimator__alpha": ...})``. In the opposite order, the search would use the same score for all levels.

    On new rows, the outer quantiles are too close to the median, because the model overfits the training
    rows. For example, 90 % intervals of gradient boosting cover about 80 % of the new rows.
    `UncertaintyRegressor` fits fewer levels and recalibrates them with `QuantileShiftRecalibrator`, which
    also fits the tails. To use another recalibrator, use ``RecalibratedRegressor(MultiQuantileRegressor(...),
    recalibrator)``.

    Cost: one fit per level, or a single fit if the regressor predicts all levels at once.

    References
    ----------
    .. [1] V. Chernozhukov, I. Fernandez-Val, A. Galichon, "Quantile and probability curves without
       crossing", Econometrica 78(3), 2010, doi:10.3982/ECTA7880.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import QuantileRegressor
    >>> from skuq.regressors import MultiQuantileRegressor
    >>> X = np.linspace(0, 1, 101).reshape(-1, 1)
    >>> y = X[:, 0] * np.tile([-1.0, 0.0, 1.0], 34)[:101]
    >>> model = MultiQuantileRegressor(QuantileRegressor(alpha=0), levels=[0.1, 0.5, 0.9]).fit(X, y)
    >>> model.predict_quantiles([[0.5], [1.0]], [0.1, 0.9]).round(2) + 0.0
    array([[-0.5,  0.5],
           [-1. ,  1. ]])
    """

    def __init__(
        self,
        estimator: Any,
        levels: Sequence[float] = DEFAULT_LEVELS,
        *,
        quantile_param: str | None = None,
        cv: Any = 5,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.levels = levels
        self.quantile_param = quantile_param
        self.cv = cv
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self.levels_ = self._check_levels()
        prefix, loss = self._find_loss(self.estimator)
        levels = self.levels_.tolist()
        if loss.many is None:
            settings = [loss.one(level) for level in levels]
            places = [_place(level) for level in levels]
        else:
            settings, places = [loss.many(levels)], ["the model of all levels"]
        aliases = loss.aliases(last_step(self.estimator))
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        tasks = (
            delayed(_fit_one)(
                in_target_units(
                    seeded_clone(self.estimator, seed, self.random_state).set_params(
                        **with_prefix(prefix, {**setting, **aliases})
                    ),
                    data.y,
                ),
                data,
                place,
            )
            for setting, place in zip(settings, places, strict=True)
        )
        report = progress.reporter("level")
        results = run_parallel(tasks, n_jobs=self.n_jobs, one_by_one=report is not None, verbose=self.verbose)
        self.estimators_ = []
        for fitted in results:
            self.estimators_.append(fitted)
            if report is not None:
                report()

    def _is_calibrated(self) -> bool:
        return False

    def _check_levels(self) -> FloatArray:
        levels = np.atleast_1d(check_open_unit(self.levels, "levels"))
        if levels.size < 2:
            raise ValueError(f"`levels` must have at least two levels, got {levels.size}.")
        return check_increasing(levels, "levels")

    def _find_loss(self, estimator: Any) -> tuple[str, QuantileLoss]:
        found = find_quantile_loss(estimator, self.quantile_param)
        if found is None:
            name = type(last_step(estimator)).__name__
            raise ValueError(
                f"`estimator` must have a quantile loss that skuq can set, but {name} has none. "
                f"Use another "
                "regressor, such as HistGradientBoostingRegressor(). If the estimator has a parameter for "
                "the quantile level, pass the name of this parameter as `quantile_param`. Otherwise use "
                "ResidualRegressor."
            )
        prefix, loss = found
        if self.quantile_param is not None and self.quantile_param not in estimator.get_params():
            raise ValueError(
                f"`quantile_param` must be a parameter of {type(estimator).__name__}, got "
                f"{self.quantile_param!r}. The parameters are {sorted(estimator.get_params())}."
            )
        return prefix, loss

    def _predict_dist(self, X: Any) -> Distribution:
        if len(self.estimators_) == 1:  # one model predicts all levels
            loss = self._find_loss(self.estimators_[0])[1]
            values = predict_many(self.estimators_[0], loss, X, self.levels_.tolist())
        else:
            columns = []
            for fitted, level in zip(self.estimators_, self.levels_, strict=True):
                with note_fold(_place(level)):
                    columns.append(point_predict(fitted, X))
            values = np.column_stack(columns)
        return Quantiles(self.levels_, values)


def fits_each_level(estimator: Any, quantile_param: str | None) -> bool:
    found = find_quantile_loss(estimator, quantile_param)
    return found is not None and found[1].many is None


def _fit_one(estimator: Any, data: TrainingData, place: str) -> Any:
    with note_fold(place):
        return fit_wrapped(estimator, data.X, data.target, **data.fit_params)


def _place(level: float) -> str:
    return f"the model of level {level:g}"
