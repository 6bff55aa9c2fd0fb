"""Predictive distribution for any regressor. The method is chosen for the estimator."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from sklearn.utils import indexable

from skuq._censoring import refuse_censoring
from skuq._compat import safe_indexing
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import has_random_folds, point_and_dist, point_predict
from skuq._fitting.seeds import Progress
from skuq._fitting.support import warn_of_negative_counts
from skuq._fitting.training_data import TrainingData, check_two_rows, check_wrapped, check_y
from skuq._typing import ArrayLike, FloatArray, IntArray, SupportLike
from skuq._validation import DEFAULT_COVERAGE, as_array, as_float_array, check_option
from skuq.distributions import Distribution
from skuq.prediction import predict_dist
from skuq.regressors._methods import Effort, MethodName, NativeRegressor, build, methods_for

_MOST_ROWS = 200
"""Maximum number of training rows that are predicted for the warning about negative counts."""


class UncertaintyRegressor(BaseUncertaintyRegressor):
    """Predictive distribution for any regressor, with a method that suits the estimator.

    The distribution is calibrated on rows that the model was not fitted to, or it is the posterior of a
    Gaussian process. Each method is also available as a separate class with more options.

    Parameters
    ----------
    estimator : estimator
        Any regressor, or a Pipeline that ends in a regressor; cloned. Put supervised steps, such as feature
        selection, into the Pipeline, so that they are fitted again in each fold. Put other steps before this
        class, because a forest inside a Pipeline is fitted on several folds, and a forest alone only once.
    method : {"auto", "native", "recalibrated", "quantile", "forest", "bootstrap", "residual", \
            "conformal"}, default="auto"
        Method that gives the distribution.

        - "auto": the method is chosen for the estimator, see Notes.
        - "residual": `ResidualRegressor`, the distribution of the out-of-fold errors.
        - "recalibrated": `RecalibratedRegressor` around the distribution or the quantiles of the estimator.
        - "native": the distribution of the estimator, without recalibration.
        - "quantile": `MultiQuantileRegressor`, several quantiles without recalibration.
        - "forest": `ForestDistributionRegressor`, calibrated on the out-of-bag rows of a forest.
        - "bootstrap": `BootstrapRegressor`, the spread of refitted models plus noise.
        - "conformal": `~skuq.conformal.ConformalRegressor`, with guaranteed coverage. Call
          ``estimator_.partial_fit`` to use its `partial_fit`. `~skuq.conformal.CrossConformalRegressor` is
          used if ``method_params`` contains one of its methods, such as ``{"method": "cv+"}``.
    effort : {"low", "standard", "high"}, default="standard"
        Amount of computation. "residual" passes ``effort`` to `ResidualRegressor`. "bootstrap" fits 20, 50 or
        100 members. "native", "forest" and split conformal prediction always need one fit. Other methods use
        3, 5 or 10 folds. A quantile loss that needs one fit per level has 4 levels and 2 folds (12 fits) with
        "low" and "standard", and 11 levels and 5 folds (66 fits) with "high".
    method_params : dict or None, default=None
        More parameters of the class of the method, such as ``{"n_estimators": 100}``. Must be empty with
        "native". With "recalibrated", the parameters of `RecalibratedRegressor` are allowed, such as
        ``recalibrator``. For a quantile loss, the parameters ``levels`` and ``quantile_param`` of
        `MultiQuantileRegressor` are also allowed. If you pass ``levels``, each level is fitted in each fold
        and on all rows.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds of the method. An int k means ``KFold(k, shuffle=True)``. With None, ``effort`` gives the number
        of folds. "bootstrap" and "forest" ignore ``cv``, because they use out-of-bag rows. With "conformal",
        an int is only valid for "cv+". The split methods need a splitter with one split. Pass
        ``TimeSeriesSplit()`` for rows in chronological order, because the errors of shuffled folds are
        smaller than the errors of later rows.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are the means of the clipped forecasts. The support is never guessed from y. If y contains
        integers from 0 or 1, and more than 1 % of the predicted probability is below 0, a `SupportWarning`
        recommends "count".
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each fit is one job. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of all random steps. An integer makes results reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimator_ : estimator
        The fitted regressor of the method. With "native", the fitted clone of ``estimator``.
    method_ : str
        The method that is used.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    RecalibratedRegressor : Any recalibrator around a model with a distribution.
    skuq.prediction.predict_dist : Distribution of a fitted model that already has one.

    Notes
    -----
    "auto" uses the first method of this table that applies to the estimator. The guide "Choose an uncertainty
    method" has the details, the reasons and the measurements.

    ==============  ===============================================================================
    method          estimator
    ==============  ===============================================================================
    "native"        GaussianProcessRegressor, and estimators that are calibrated on held-out rows
    "recalibrated"  other estimators with a distribution, except BayesianRidge and ARDRegression,
                    such as NGBoost, CatBoost and TabPFN
    "recalibrated"  with a quantile loss, or a Pipeline that ends in such an estimator
    "forest"        forest or BaggingRegressor with at least 50 trees on bootstrap rows, unless
                    ``cv`` is a splitter, which may keep groups together or respect time order
    "residual"      all others, also a forest or a quantile loss inside another estimator
    ==============  ===============================================================================

    On 15 data sets with 116 to 1000 training rows, 90 % intervals of "residual" around 13 regressors cover 90
    to 92 % of the test rows. With fewer than 12 rows, a `SmallSampleWarning` is issued.

    `predict` returns the mean of the distribution. "conformal" and "native" keep the prediction of the model,
    and "recalibrated" moves it by as much as the recalibrator moves the mean. For a quantile loss, `predict`
    therefore ignores the level of the loss.

    Cost: `fit` takes as long as about four fits to all rows with "residual", five with "recalibrated" (ten
    for a quantile loss that needs one fit per level), and one with "native" and "forest". For the other
    methods, see the class of the method.

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
        method: MethodName = "auto",
        *,
        effort: Effort = "standard",
        method_params: dict[str, Any] | None = None,
        cv: Any = None,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.effort = effort
        self.method_params = method_params
        self.cv = cv
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _resolve(self) -> str:
        method: str = check_option(self.method, "method", get_args(MethodName))
        check_option(self.effort, "effort", get_args(Effort))
        if method != "auto":
            return method
        return methods_for(self.estimator, random_folds=has_random_folds(self.cv))[0]

    def _is_calibrated(self) -> bool:
        return build(self._resolve(), self)._is_calibrated()

    def _tests_own_rows(self) -> bool:
        return build(self._resolve(), self)._tests_own_rows()

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        """Return the arguments as they are, because the regressor of the method reads them."""
        check_wrapped(self.estimator)
        if shape := as_array(y, "y").shape:
            check_two_rows(self, shape[0])
        if fit_params:
            refuse_censoring(type(self).__name__, check_y(y, self), fit_params)
        metadata = fit_params if sample_weight is None else {**fit_params, "sample_weight": sample_weight}
        return TrainingData(X, y if self.support is None else check_y(y, self), metadata=metadata)

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._delegate("fit", data, progress)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        dist: Distribution = self._delegate("fit_transform", data, progress)
        return dist

    def _fit_and_test(self, data: TrainingData, progress: Progress) -> tuple[IntArray, Distribution]:
        tested: tuple[IntArray, Distribution] = self._delegate("_fit_tested", data, progress)
        return tested

    def _delegate(self, caller: str, data: TrainingData, progress: Progress) -> Any:
        """Call ``fit`` or a similar method of the regressor of the method, and store the fitted regressor."""
        method = self._resolve()
        regressor = build(method, self)
        with progress.task("fit", regressor):
            result = getattr(regressor, caller)(data.X, data.y, **data.metadata)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
            if hasattr(regressor, name):
                setattr(self, name, getattr(regressor, name))
        self.method_ = method
        self.estimator_ = regressor.estimator_ if isinstance(regressor, NativeRegressor) else regressor
        y = as_float_array(data.y, "y")
        are_counts = 0 <= y.min() <= 1 < y.max() and (np.round(y) == y).all()
        if self.support is None and are_counts:
            rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), _MOST_ROWS)).astype(np.intp))
            warn_of_negative_counts(self._predict_dist(safe_indexing(*indexable(data.X), rows)))
        return result

    def predict_interval(self, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> FloatArray:
        """Return central prediction intervals, with the guarantee of the method if the method has one.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n, 2), or (n, 2, k) for k coverages
            ``bounds[:, 0]`` is the lower bound, and ``bounds[:, 1]`` is the upper bound. In the units of y.
        """
        self._check_new(X)
        if isinstance(self.estimator_, BaseUncertaintyRegressor):
            return self._bounds_on_support(self.estimator_.predict_interval(X, coverage))
        return super().predict_interval(X, coverage)

    def _has_point(self) -> bool:
        return self.method_ == "conformal" or (self.method_ == "native" and self.support is None)

    def _point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator_, X)

    def _predict_dist(self, X: Any) -> Distribution:
        dist: Distribution = predict_dist(self.estimator_, X)
        return dist

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        return point_and_dist(self.estimator_, X)
