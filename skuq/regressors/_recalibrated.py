"""Recalibration of a probabilistic regressor on its out-of-fold predictions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.frozen import FrozenEstimator

from skuq._compat import available_if
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import (
    CrossFit,
    Split,
    check_recalibrator,
    cross_fit,
    find_mismatch,
    fit_recalibrator,
    fold_masks,
    is_partition,
    other_rows_masks,
    point_and_dist,
    predict_quartiles,
    resolve_cv,
    split_rows,
    warn_of_mismatch,
)
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.seeds import MAX_SEED, Progress, seeded_clone
from skuq._fitting.training_data import TrainingData
from skuq._typing import ArrayLike, FloatArray, IntArray, SupportLike
from skuq._validation import check_option, check_random_state, few_rows_reported
from skuq.distributions import Distribution, Mixture, concat
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist
from skuq.recalibration import StdScalingRecalibrator


class RecalibratedRegressor(BaseUncertaintyRegressor):
    """Probabilistic regressor that is recalibrated on its own out-of-fold predictions.

    The class corrects the intervals of an overconfident or underconfident model. All rows are used for
    training. Prefer ``make_pipeline(regressor, recalibrator)`` for skuq regressors whose `fit_transform` is
    cheaper than fits on folds.

    Parameters
    ----------
    estimator : estimator
        Any estimator that `predict_dist` accepts; cloned. Wrap a plain regressor in `UncertaintyRegressor`. A
        FrozenEstimator is not refitted: `fit` only fits the recalibrator. In this case, pass `fit` rows that
        the frozen model was not trained on.
    recalibrator : recalibrator or None, default=None
        Recalibrator; cloned. None means `StdScalingRecalibrator`. Use `QuantileShiftRecalibrator` for
        quantile models, and `OnlineRecalibrator` to adapt the recalibration to a sequence with `partial_fit`.
    cv : int, splitter or iterable of (train, test), default=5
        Folds for the calibration. Each test row of a fold gives one pair of a distribution and a target. Any
        splitter is valid, including time-ordered and repeated splitters. An int k means ``KFold(k,
        shuffle=True)``. If a row is tested several times, its pairs are dependent. The guarantee of
        `ConformalRecalibrator` then does not hold exactly.
    ensemble : bool, default=False
        With False, one model is fitted to all rows, and one recalibrator is fitted to the pairs of all folds.
        With True, each fold has its own model and its own recalibrator. The recalibrator is fitted to the
        test rows of the fold. The prediction is the mixture of the recalibrated models.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are clipped but not rounded.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one fold. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of estimators without a seed of their own. An integer makes results
        reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimators_ : list
        The fitted models: one model, or one model per fold with ``ensemble=True``.
    recalibrators_ : list
        The fitted recalibrator of each model.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    UncertaintyRegressor : A predictive distribution for any regressor.
    StdScalingRecalibrator : One factor for all standard deviations.
    QuantileShiftRecalibrator : One shift for the quantiles of each level.
    IsotonicRecalibrator : A monotone function of the probability levels.
    OnlineRecalibrator : A map of the probability levels that adapts to a sequence.

    Notes
    -----
    `predict` returns the point prediction of the model plus the shift of the mean due to the recalibrator.
    `StdScalingRecalibrator` does not change the mean.

    If ``event``, ``lower`` or ``upper`` are passed to `fit`, the estimator and the recalibrator get them. Use
    `IsotonicRecalibrator` then.

    `fit_transform` returns the out-of-fold distribution of each row, recalibrated with the pairs of the other
    folds. ``cv`` must test every row exactly once.

    Cost: one fit per fold. With ``ensemble=False``, one more fit to all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from skuq.prediction import predict_dist
    >>> from skuq.regressors import RecalibratedRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = X[:, 0] + 0.5 * rng.normal(size=200)
    >>> too_sure = GaussianProcessRegressor(alpha=0.01, optimizer=None)
    >>> predict_dist(too_sure.fit(X, y), [[0.5]]).std().round(1)
    array([0.1])
    >>> model = RecalibratedRegressor(too_sure, random_state=0).fit(X, y)
    >>> model.predict([[0.5]], return_std=True)[1].round(1)
    array([0.5])
    """

    _passes_censoring = True

    def __init__(
        self,
        estimator: Any,
        recalibrator: Any = None,
        *,
        cv: Any = 5,
        ensemble: bool = False,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.recalibrator = recalibrator
        self.cv = cv
        self.ensemble = ensemble
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        if isinstance(self.estimator, FrozenEstimator):
            self._fit_frozen(data, progress)
        else:
            self._learn(data, progress)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        folds = self._learn_folds(data, progress, all_folds=True)
        folds.in_row_order(len(data))  # raises unless each row is tested once
        rows, dist = self._recalibrate_folds(folds, data)
        return dist[np.argsort(rows, kind="stable")]

    def _fit_and_test(self, data: TrainingData, progress: Progress) -> tuple[IntArray, Distribution]:
        return self._recalibrate_folds(self._learn_folds(data, progress, all_folds=False), data)

    def _learn_folds(self, data: TrainingData, progress: Progress, *, all_folds: bool) -> CrossFit:
        if isinstance(self.estimator, FrozenEstimator):
            return self._fold_frozen(data, progress)
        return self._learn(data, progress, all_folds=all_folds)

    def _recalibrate_folds(self, folds: CrossFit, data: TrainingData) -> tuple[IntArray, Distribution]:
        rows, pooled = folds.tested()
        parts: list[Distribution] = []
        masks = fold_masks(folds.test_rows, at_least=2)
        for inside, others in zip(masks, other_rows_masks(folds.test_rows), strict=True):
            with few_rows_reported():
                recalibrator = self._calibrate(pooled[others], data, rows[others])
            parts.append(recalibrator.transform(pooled[inside]))
        return rows, concat(parts)

    def _learn(self, data: TrainingData, progress: Progress, *, all_folds: bool = False) -> CrossFit:
        """Fit models and recalibrators, and return the out-of-fold predictions of the models."""
        self._check_estimator()
        fold_seed, model_seed = check_random_state(self.random_state).randint(MAX_SEED, size=2).tolist()
        estimator = seeded_clone(self.estimator, model_seed, self.random_state)
        calibration, others = self._divide(data, fold_seed)
        folds = self._fit_folds(estimator, data, calibration, progress)
        if self.ensemble or not self._refit(estimator, data, folds, progress):
            self.estimators_ = list(folds.estimators)
            parts = zip(folds.predictions, folds.test_rows, strict=True)
            with few_rows_reported():
                self.recalibrators_ = [self._calibrate(dist, data, rows) for dist, rows in parts]
        if getattr(self.recalibrator, "_learns_by_rows", True):
            data.warn_of_few_rows(folds.tested()[0])
        if not (all_folds and others):
            return folds
        rest = self._fit_folds(estimator, data, others, progress)
        return CrossFit(
            folds.estimators + rest.estimators,
            folds.test_rows + rest.test_rows,
            folds.predictions + rest.predictions,
            folds.train_rows + rest.train_rows,
        )

    def _refit(self, estimator: Any, data: TrainingData, folds: CrossFit, progress: Progress) -> bool:
        """Fit one model to all rows. Return whether the recalibrator of the folds is valid for this model."""
        rows, dist = folds.tested()
        with few_rows_reported():
            self.recalibrators_ = [self._calibrate(dist, data, rows)]
        with progress.task("model", estimator):
            self.estimators_ = [fit_wrapped(estimator, data.X, data.target, **data.fit_params)]
        mismatch = find_mismatch(self.estimators_[0], folds, data.X, data.y, predict_quartiles)
        if not is_partition(folds.test_rows, len(data)):  # for example with folds in time order
            warn_of_mismatch(mismatch, "New rows are predicted by the model fitted to all rows")
            return True
        warn_of_mismatch(
            mismatch,
            "Therefore, new rows are predicted by the mixture of the models of the folds, as with "
            "ensemble=True",
        )
        return mismatch is None

    def _divide(self, data: TrainingData, seed: int) -> tuple[list[Split], list[Split]]:
        return split_rows(resolve_cv(self.cv, seed), data.X, data.y, data.groups), []

    def _fit_folds(
        self, estimator: Any, data: TrainingData, folds: list[Split], progress: Progress
    ) -> CrossFit:
        return cross_fit(
            estimator,
            data.X,
            data.target,
            cv=folds,
            params=data.fit_params,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            on_fold=progress.reporter("fold"),
            keep_in_context=self.ensemble,
        )

    def _check_estimator(self) -> None:
        check_option(self.ensemble, "ensemble", (True, False))
        check_recalibrator(self.recalibrator)
        if not supports_dist(self.estimator):
            name = type(self.estimator).__name__
            raise NotProbabilisticError(
                f"`estimator` must give a predictive distribution, but {name} gives none. Wrap it: "
                f"RecalibratedRegressor(UncertaintyRegressor({name}(...)), ...)."
            )

    def _fit_frozen(self, data: TrainingData, progress: Progress) -> Distribution:
        self._check_estimator()
        dist: Distribution = predict_dist(self.estimator, data.X)
        self.estimators_ = [self.estimator]
        self.recalibrators_ = [self._calibrate(dist, data, np.arange(len(data)))]
        progress.done("recalibrator")
        return dist

    def _fold_frozen(self, data: TrainingData, progress: Progress) -> CrossFit:
        dist = self._fit_frozen(data, progress)
        splitter = resolve_cv(self.cv, self.random_state)
        trains, tests = zip(*split_rows(splitter, data.X, data.y, data.groups), strict=True)
        return CrossFit((self.estimator,) * len(tests), tests, tuple(dist[test] for test in tests), trains)

    def _calibrate(self, dist: Distribution, data: TrainingData, rows: IntArray) -> Any:
        recalibrator = StdScalingRecalibrator() if self.recalibrator is None else self.recalibrator
        return fit_recalibrator(recalibrator, dist, data, rows)

    def _recalibrator_adapts(self) -> bool:
        if hasattr(self.recalibrator, "partial_fit"):
            return True
        raise AttributeError(
            f"`recalibrator` must have a method `partial_fit`, got {self.recalibrator!r}. Use "
            "OnlineRecalibrator()."
        )

    @available_if(_recalibrator_adapts)
    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Update the recalibrator with newly observed rows. The model is not refitted.

        This method is available if ``recalibrator`` has a method `partial_fit`, such as
        `~skuq.recalibration.OnlineRecalibrator`.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of m rows
            Features of the rows, in the order of time.
        y : array-like of shape (m,)
            Observed targets.
        sample_weight : array-like of shape (m,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : object
            The regressor, with updated recalibration.

        Raises
        ------
        NotFittedError
            If `fit` was not called before.
        ValueError
            If values or lengths are invalid. The recalibrator is then not changed.
        """
        target, weight = self._read_observed(X, y, sample_weight)
        dists = [predict_dist(estimator, X) for estimator in self.estimators_]
        options = {} if weight is None else {"sample_weight": weight}
        for recalibrator, dist in zip(self.recalibrators_, dists, strict=True):
            recalibrator.partial_fit(dist, target, **options)
        return self

    def _predict_dist(self, X: Any) -> Distribution:
        pairs = zip(self.estimators_, self.recalibrators_, strict=True)
        parts = [recalibrator.transform(predict_dist(estimator, X)) for estimator, recalibrator in pairs]
        return parts[0] if len(parts) == 1 else Mixture(parts)

    def _point(self, X: Any) -> FloatArray:
        pairs = zip(self.estimators_, self.recalibrators_, strict=True)
        points = [_moved_points(recalibrator, *point_and_dist(one, X)) for one, recalibrator in pairs]
        return np.asarray(np.mean(points, axis=0))

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        points, parts = [], []
        for estimator, recalibrator in zip(self.estimators_, self.recalibrators_, strict=True):
            point, dist = point_and_dist(estimator, X)
            points.append(_moved_points(recalibrator, point, dist))
            parts.append(recalibrator.transform(dist))
        return np.asarray(np.mean(points, axis=0)), parts[0] if len(parts) == 1 else Mixture(parts)


def _moved_points(recalibrator: Any, points: FloatArray, dist: Distribution) -> FloatArray:
    return np.asarray(points + (recalibrator.predict(dist) - dist.mean()))


_ALL_TESTED = 100
"""With fewer rows, the two folds are halves of the data, so that all rows are calibration rows."""


class TwoFoldsRegressor(RecalibratedRegressor):
    """RecalibratedRegressor that calibrates on two of four folds. It has no parameter ``cv``."""

    # Models fitted to three quarters of the rows are nearly as good as the final model. Models fitted to half
    # of the rows have larger errors, which would make the intervals too wide. `fit_transform` also needs
    # models that are fitted without one of the other two folds.

    def _divide(self, data: TrainingData, seed: int) -> tuple[list[Split], list[Split]]:
        n_folds = 2 if len(data) < _ALL_TESTED else 4
        folds = split_rows(resolve_cv(n_folds, seed), data.X, data.y, data.groups)
        return folds[:2], folds[2:]
