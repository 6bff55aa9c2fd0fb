"""A predictive distribution for any regressor, by the method that suits it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_option, check_random_state
from skuq.distributions import Distribution
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist
from skuq.prediction._cross_fit import has_random_folds
from skuq.prediction._point import point_and_dist, point_predict
from skuq.prediction._random import MAX_SEED, seeded_clone
from skuq.prediction._wrapped import fit_wrapped
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._bootstrap import BootstrapRegressor
from skuq.regressors._conformal.regressor import ConformalRegressor
from skuq.regressors._default_recalibrator import DefaultRecalibrator
from skuq.regressors._few_fits.level_regression import LevelRegressionRecalibrator
from skuq.regressors._few_fits.two_folds import TwoFoldsRegressor
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._forest_distribution import ForestDistributionRegressor
from skuq.regressors._method_rules import is_calibrated, method_of
from skuq.regressors._multi_quantile import DEFAULT_LEVELS, MultiQuantileRegressor, fits_each_level
from skuq.regressors._progress import Progress
from skuq.regressors._recalibrated import RecalibratedRegressor
from skuq.regressors._residual import ResidualRegressor

__all__ = ["UncertaintyRegressor"]

_METHODS = ("auto", "native", "recalibrated", "quantile", "forest", "bootstrap", "residual", "conformal")


class _Effort(NamedTuple):
    """Number of folds where ``cv`` is None, and number of members of the bootstrap."""

    folds: int
    resamples: int


_EFFORTS = {"low": _Effort(3, 20), "standard": _Effort(5, 50), "high": _Effort(10, 100)}
_FEW_LEVELS = (0.05, 0.35, 0.65, 0.95)
"""Levels of which each is a fit: twelve fits with two folds and the final model."""

_FOLDS_OF_LEVELS = {"low": 2, "standard": 2, "high": 5}
"""Number of folds where each level is a fit."""


class UncertaintyRegressor(BaseUncertaintyRegressor):
    """A predictive distribution for any regressor, by a method suited to it.

    How far off may a prediction be? The answer is calibrated on rows that the model was not fitted to, or
    comes from the model's own posterior. Each method is a class of its own, with more options.

    Parameters
    ----------
    estimator : estimator
        Any regressor, or a Pipeline that ends in one; cloned. Supervised steps, such as a feature
        selector, belong inside, where each fold fits them anew.
    method : {"auto", "native", "recalibrated", "quantile", "forest", "bootstrap", "residual", \
            "conformal"}, default="auto"
        Method that gives the distribution.

        - "auto": chosen by the estimator, see Notes.
        - "residual": `ResidualRegressor`, a model of the out-of-fold errors.
        - "recalibrated": `RecalibratedRegressor` around the estimator's own distribution or its quantiles.
        - "native": the estimator's own distribution as it is.
        - "quantile": `MultiQuantileRegressor`, the quantiles as they are.
        - "forest": `ForestDistributionRegressor`, the out-of-bag rows of a forest.
        - "bootstrap": `BootstrapRegressor`, the spread of refitted models and the noise.
        - "conformal": `ConformalRegressor`, with guaranteed coverage; its ``partial_fit`` is
          ``estimator_.partial_fit``.
    effort : {"low", "standard", "high"}, default="standard"
        Amount of computation: with "residual" that of `ResidualRegressor`, with
        "bootstrap" 20, 50 or 100 resamples, with the other methods that have folds 3, 5 or 10 of them.
        "native", "forest" and split conformal prediction have one fit at any effort. A quantile loss
        that takes a fit per level has 4, 4 or 11 levels and 2, 2 or 5 folds: 12, 12 or 66 fits.
    method_params : dict or None, default=None
        More parameters of the method's class, such as ``{"n_estimators": 100}``; none with "native". With
        "recalibrated" those of `RecalibratedRegressor`, among them another ``recalibrator``, and for a
        quantile loss ``levels`` and ``quantile_param`` of `MultiQuantileRegressor`. With ``levels``, exactly
        these are fitted and shifted; each is a fit in each fold and one on all rows.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds of the method; "bootstrap" and "forest" have none and use their out-of-bag rows. An int k is
        ``KFold(k, shuffle=True)``; None takes the number of folds from ``effort``. With "conformal" an int is
        for "cv+" alone, since the split methods take a splitter of one split.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job is a fit; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        An integer makes everything reproducible.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    estimator_ : estimator
        The fitted method, or with "native" the fitted clone of ``estimator``.
    method_ : str
        The method that was used.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    RecalibratedRegressor : Any recalibrator around a model with a distribution.
    skuq.prediction.predict_dist : The distribution of a fitted model that has one.

    Notes
    -----
    The method that "auto" stands for:

    ==============  ===============================================================================
    method          estimator
    ==============  ===============================================================================
    "native"        with a posterior (BayesianRidge, ARDRegression, GaussianProcessRegressor,
                    `LeastSquaresRegressor`)
    "native"        calibrated on held-out rows (skuq's other regressors, networks with a
                    ``calibration``, recalibrators)
    "recalibrated"  with another distribution (NGBoost, CatBoost, quantile forests, mixtures by
                    bagging and voting, `SparseGaussianProcessRegressor`, networks with
                    ``calibration=None``)
    "recalibrated"  with a quantile loss, itself or as the last step of a Pipeline
    "forest"        forests and BaggingRegressor with 50 trees or more on bootstrap rows, if ``cv``
                    is no splitter, which may keep groups together or time in order
    "residual"      all others; a forest in a Pipeline, since steps before it may be fitted to the
                    target (put `ForestDistributionRegressor` in the Pipeline if none is), or in a
                    search (better is a search outside:
                    ``GridSearchCV(UncertaintyRegressor(forest), {"estimator__max_features": ...})``);
                    a quantile loss inside a search, BaggingRegressor or
                    TransformedTargetRegressor, for which see `MultiQuantileRegressor`
    ==============  ===============================================================================

    A posterior is exact under the assumptions of its model; the Bayesian ones take their estimated variances
    as known. Where the assumptions do not hold, such as one variance for all rows, it is miscalibrated: use
    ``method="recalibrated"`` or "residual".

    A distribution fitted to the training rows is too narrow on new ones. "recalibrated" corrects it by
    out-of-fold predictions. Quantiles are shifted level by level, with tails as far out as the rows reach, by
    `~skuq.recalibration.QuantileShiftRecalibrator`. The width of another distribution is multiplied by one
    factor, so that 90 % intervals contain 90 % of these rows, or its levels are mapped by
    `~skuq.recalibration.IsotonicRecalibrator` where no such factor exists.

    A quantile loss is fitted at the levels 0.05, 0.35, 0.65 and 0.95, on all rows and without each of two
    folds, twelve fits in all. Each fold is a quarter of the rows, with fewer than 100 rows a half. Quantiles
    at eleven levels come from these four by linear quantile regression on the rows of the two folds, and are
    then shifted. On eleven data sets with up to 1500 training rows, CRPS and 90 % interval score around
    histogram gradient boosting are 0.993 and 0.94 of those of eleven levels and five folds without the
    regression. 90 % intervals of LightGBM cover 78 % as fitted at eleven levels and 92 % after these twelve
    fits; the CRPS is 2 % lower and the interval score 13 %. With 100 training rows, on ten other data sets,
    the CRPS of LightGBM is 5 % higher than as fitted: use ``effort="high"`` or "residual" for few rows.
    Models that predict all levels by one fit (CatBoost, XGBoost, quantile-forest) have eleven levels, and 3,
    5 or 10 folds.

    Forests on bootstrap rows, a hundred trees, on eleven of these data sets with up to 1500 training rows:
    the CRPS of "forest" is 0.94 of that of "residual" (geometric mean), for one fit instead of 6.6.

    Around a quantile loss, `predict` gives the mean of the distribution with "recalibrated" and "quantile":
    the level that the loss is set to is not used. ``predict_quantiles(X, 0.9)`` gives the quantile at 90 %.

    From 12 rows on, 90 % intervals of "forest" and "residual" cover 88 to 94 % on average over training sets.
    Fewer rows give a `SmallSampleWarning`.

    Cost: that of the method's class; with "recalibrated" the number of folds plus one fit of the model, times
    the levels of a quantile loss that takes a fit per level. `fit_transform` of such a model has 20 fits
    instead of 12 from 100 rows on, since each row is then left out once.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from skuq.regressors import UncertaintyRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = UncertaintyRegressor(RandomForestRegressor(50, min_samples_leaf=5), random_state=0)
    >>> model.fit(X[:300], y[:300]).predict_interval(X[300:], coverage=0.9).shape
    (142, 2)
    >>> model.predict_dist(X[300:]).std().shape
    (142,)
    >>> model.method_
    'forest'
    """

    def __init__(
        self,
        estimator: Any,
        method: Literal[
            "auto", "native", "recalibrated", "quantile", "forest", "bootstrap", "residual", "conformal"
        ] = "auto",
        *,
        effort: Literal["low", "standard", "high"] = "standard",
        method_params: dict[str, Any] | None = None,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.effort = effort
        self.method_params = method_params
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _routes_weight(self) -> bool:
        return self._resolve() == "native" or bool(self._wrapper(self._resolve())._routes_weight())

    def _resolve(self) -> str:
        """Return the method that "auto" stands for."""
        method: str = self.method
        check_option(method, "method", _METHODS)
        check_option(self.effort, "effort", tuple(_EFFORTS))
        if method == "native" and not supports_dist(self.estimator):
            raise NotProbabilisticError(
                "`method` 'native' needs an estimator that gives a distribution, and "
                f"{type(self.estimator).__name__} gives none. Use method='auto'."
            )
        if method != "auto":
            return method
        return method_of(self.estimator, random_folds=has_random_folds(self.cv))

    def _is_calibrated(self) -> bool:
        method = self._resolve()
        if method == "native":
            return is_calibrated(self.estimator)
        return self._wrapper(method)._is_calibrated()

    def _is_out_of_bag(self) -> bool:
        method = self._resolve()
        if method == "native":
            return isinstance(self.estimator, BaseUncertaintyRegressor) and self.estimator._is_out_of_bag()
        return self._wrapper(method)._is_out_of_bag()

    def _wrapper(self, method: str) -> BaseUncertaintyRegressor:
        """Return the unfitted class behind a method."""
        effort = _EFFORTS[self.effort]
        cv = effort.folds if self.cv is None else self.cv
        options: dict[str, Any] = {
            "n_jobs": self.n_jobs,
            "random_state": self.random_state,
            "verbose": self.verbose,
            **(self.method_params or {}),
        }
        if method == "recalibrated":
            if not supports_dist(self.estimator):
                return self._recalibrated_quantiles(options, cv)
            options = {"recalibrator": DefaultRecalibrator(), "cv": cv, **options}
            return RecalibratedRegressor(self.estimator, **options)
        if method == "forest":
            if "verbose" not in (self.method_params or {}):
                options.pop("verbose")  # the forest has its own
            return ForestDistributionRegressor(self.estimator, **options)
        if method == "bootstrap":
            return BootstrapRegressor(self.estimator, **{"n_estimators": effort.resamples, **options})
        if method == "quantile":
            return MultiQuantileRegressor(self.estimator, **{"cv": cv, **options})
        if method == "conformal":
            folds = options.get("method") == "cv+" or not has_random_folds(self.cv)
            return ConformalRegressor(self.estimator, **{"cv": cv if folds else None, **options})
        return ResidualRegressor(self.estimator, **{"effort": self.effort, "cv": self.cv, **options})

    def _recalibrated_quantiles(self, options: dict[str, Any], cv: Any) -> BaseUncertaintyRegressor:
        """Return the unfitted class for a quantile loss; few levels and folds if each level is a fit."""
        levels, param = options.pop("levels", None), options.pop("quantile_param", None)
        recalibrator: Any = DefaultRecalibrator()
        wrapper: type[RecalibratedRegressor] = RecalibratedRegressor
        if fits_each_level(self.estimator, param):
            if levels is None:
                recalibrator = LevelRegressionRecalibrator()
                levels = DEFAULT_LEVELS if self.effort == "high" else _FEW_LEVELS
            if self.cv is None:
                cv = _FOLDS_OF_LEVELS[self.effort]
                wrapper = TwoFoldsRegressor if cv == 2 else RecalibratedRegressor
        levels = DEFAULT_LEVELS if levels is None else levels
        model = MultiQuantileRegressor(self.estimator, levels, quantile_param=param, n_jobs=self.n_jobs)
        return wrapper(model, **{"recalibrator": recalibrator, "cv": cv, **options})

    def _make(self) -> tuple[Any, bool]:
        """Return the unfitted method, and whether it is a skuq regressor that takes all metadata."""
        self.method_ = self._resolve()
        if self.method_ != "native":
            return self._wrapper(self.method_), True
        if self.method_params:
            raise ValueError(
                f"`method_params` must be empty with method 'native', got {sorted(self.method_params)}."
            )
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        estimator = seeded_clone(self.estimator, seed, self.random_state)
        return estimator, False

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        estimator, own = self._make()
        with progress.task("fit", estimator):
            params = data.metadata if own else data.fit_params
            self.estimator_ = fit_wrapped(estimator, data.X, data.target, **params)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        estimator, own = self._make()
        if not isinstance(estimator, BaseUncertaintyRegressor):
            return super()._fit_transform(data, progress)
        with progress.task("fit", estimator):
            params = data.metadata if own else data.fit_params
            dist: Distribution = estimator.fit_transform(data.X, data.target, **params)
        self.estimator_ = estimator
        return dist

    def predict_interval(self, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> FloatArray:
        """Return central prediction intervals: the method's own, with its guarantee if it has one.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n, 2), or (n, 2, k) for k coverages
            ``bounds[:, 0]`` is the lower bound; in the units of y.
        """
        self._check_new(X)
        if isinstance(self.estimator_, BaseUncertaintyRegressor):
            return self.estimator_.predict_interval(X, coverage)
        return super().predict_interval(X, coverage)

    def _point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator_, X)

    def _predict_dist(self, X: Any) -> Distribution:
        dist: Distribution = predict_dist(self.estimator_, X)
        return dist

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        return point_and_dist(self.estimator_, X)
