"""A predictive distribution for any regressor, by the method that suits it."""

from __future__ import annotations

import numbers
from typing import Any, Literal

import numpy as np
from sklearn.dummy import DummyRegressor

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_option, check_random_state
from skuq.distributions import Distribution
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist
from skuq.prediction._point import point_predict
from skuq.prediction._resolve import has_exact_posterior, inner_estimators
from skuq.prediction._rules.quantile_estimators import configured_levels
from skuq.prediction._wrapped import fit_wrapped
from skuq.recalibration import BaseRecalibrator
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._bootstrap import BootstrapRegressor
from skuq.regressors._conformal.regressor import ConformalRegressor
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._forest.trees import bootstraps_trees
from skuq.regressors._forest_distribution import ForestDistributionRegressor
from skuq.regressors._interval_scaling import IntervalScaling
from skuq.regressors._multi_quantile import MultiQuantileRegressor
from skuq.regressors._progress import Progress
from skuq.regressors._random import MAX_SEED, seeded_clone
from skuq.regressors._recalibrated import RecalibratedRegressor
from skuq.regressors._residual import ResidualRegressor

__all__ = ["UncertaintyRegressor"]

_METHODS = ("auto", "native", "recalibrated", "quantile", "forest", "bootstrap", "residual", "conformal")
_FOREST_TREES = 50
"""Trees from which the out-of-bag ones, a third of them, predict a row about as well as all."""

_OF_QUANTILES = ("levels", "quantile_param")
"""Parameters of `MultiQuantileRegressor` that `RecalibratedRegressor` around it passes on to it."""


class UncertaintyRegressor(BaseUncertaintyRegressor):
    """A predictive distribution for any regressor, by the method that suits it.

    It answers how far off the predictions of any scikit-learn regressor may be, and chooses the
    method by what the regressor offers. It adds nothing of its own: for every option of a method,
    use its class.

    Parameters
    ----------
    estimator : estimator
        Any regressor, or a Pipeline that ends in one; cloned. Supervised steps, such as a feature
        selector, belong inside, where each fold fits them anew.
    method : {"auto", "native", "recalibrated", "quantile", "forest", "bootstrap", "residual", \
            "conformal"}, default="auto"
        "native" uses the distribution that the estimator gives itself, as it is; "quantile" is
        `MultiQuantileRegressor`, its quantiles as they are. "recalibrated" is `RecalibratedRegressor` around
        whichever of these two there is. "forest" is `ForestDistributionRegressor`, for forests on bootstrap
        rows, "bootstrap" `BootstrapRegressor`, "residual" `ResidualRegressor` and "conformal"
        `ConformalRegressor`, whose ``partial_fit`` is there as ``estimator_.partial_fit``.
        "auto" is "native" where the distribution is an exact posterior (BayesianRidge, ARDRegression,
        GaussianProcessRegressor, `LeastSquaresRegressor`) or was calibrated on rows held out of training
        (skuq's other regressors, networks with a ``calibration``, and recalibrators); "recalibrated"
        where the estimator gives another distribution (NGBoost, CatBoost, quantile forests, mixtures by
        bagging and voting, the approximate posteriors of `SparseGaussianProcessRegressor` and of networks
        with ``calibration=None``) or is configured for a quantile loss, itself or as the last step of a
        Pipeline; "forest" where the estimator is a forest or a BaggingRegressor of at least 50 trees on
        bootstrap rows, and ``cv`` is an int, since out-of-bag rows keep no groups together and no time in
        order as a splitter may; else "residual", also around a quantile loss inside a search, a
        BaggingRegressor or a TransformedTargetRegressor, for which see `MultiQuantileRegressor`.
    method_params : dict or None, default=None
        More parameters of the method's class, such as ``{"n_estimators": 100}``; none with "native". With
        "recalibrated" those of `RecalibratedRegressor`, among them another ``recalibrator``, and for a
        quantile loss ``levels`` and ``quantile_param`` of `MultiQuantileRegressor`.
    cv : int, splitter or iterable of (train, test), default=5
        Folds of the method; "bootstrap" and "forest" have none and use their out-of-bag rows. An int k is
        ``KFold(k, shuffle=True)``. With "conformal" an int is for "cv+" alone, since the split methods
        take a splitter of one split.
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
    RecalibratedRegressor : Calibrate what comes out, in one object.
    skuq.prediction.predict_dist : The distribution of a model that gives one already.

    Notes
    -----
    A model fitted by likelihood or by quantiles looks better on its training rows than on new ones, so its
    intervals are too narrow. "recalibrated" widens them by one factor, learnt from out-of-fold predictions:
    ``StdScalingRecalibrator(objective="coverage")``, which makes 90 % intervals hold 90 % of these rows, or
    `IsotonicRecalibrator` where no such factor exists (quantiles that coincide and are wrong, an infinite
    standard deviation). Measured with quantile gradient boosting, linear quantile regression, NGBoost and
    CatBoost's ``RMSEWithUncertainty`` on 95 samples of 15 data sets, scikit-learn's and UCI's, 90 % intervals
    covered 77 % of new rows after 150 training rows and 87 % after 1000, and so recalibrated 91 % and 90 %,
    in every sample within the 99 % band of the exact distribution of coverage; the CRPS fell by 4 % and 1 %.
    `EmpiricalRecalibrator` stayed within the band too and `IsotonicRecalibrator` but once, and both raised
    the CRPS of quantiles, by 3 % and 1 %; the other objectives of `StdScalingRecalibrator` left the band in
    25 % ("nll") and 12 % ("crps") of the samples.

    Forests on bootstrap rows, a hundred trees, on eleven of these data sets with up to 1500 training rows:
    the CRPS of "forest" is 0.91 of that of "residual" (geometric mean), for one fit instead of 16.

    Cost: that of the method's class; with "recalibrated" the number of folds plus one fit of the model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from skuq.regressors import UncertaintyRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = UncertaintyRegressor(RandomForestRegressor(50, min_samples_leaf=5), random_state=0)
    >>> dist = model.fit(X[:300], y[:300]).predict_dist(X[300:])
    >>> dist.interval(0.9).shape
    (142, 2)
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
        method_params: dict[str, Any] | None = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
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
        if method == "native" and not supports_dist(self.estimator):
            raise NotProbabilisticError(
                "`method` 'native' needs an estimator that gives a distribution, and "
                f"{type(self.estimator).__name__} gives none. Use method='auto'."
            )
        if method != "auto":
            return method
        inner = inner_estimators(self.estimator)
        # DummyRegressor's own distribution is a point mass; as a baseline it needs its residuals.
        if supports_dist(self.estimator) and not any(isinstance(one, DummyRegressor) for one in inner):
            return "native" if _is_calibrated(inner) else "recalibrated"
        if configured_levels(self.estimator) is not None:
            return "recalibrated"
        # a splitter keeps groups together or time in order, which out-of-bag rows do not
        random_rows = isinstance(self.cv, numbers.Integral)
        if random_rows and bootstraps_trees(self.estimator) and self.estimator.n_estimators >= _FOREST_TREES:
            return "forest"
        return "residual"

    def _is_calibrated(self) -> bool:
        method = self._resolve()
        if method == "native":
            return _is_calibrated(inner_estimators(self.estimator))
        return self._wrapper(method)._is_calibrated()

    def _wrapper(self, method: str) -> BaseUncertaintyRegressor:
        """Return the unfitted class behind a method."""
        options: dict[str, Any] = {
            "n_jobs": self.n_jobs,
            "random_state": self.random_state,
            "verbose": self.verbose,
            **(self.method_params or {}),
        }
        if method == "recalibrated":
            model = self.estimator
            if not supports_dist(model):
                quantiles = {name: options.pop(name) for name in _OF_QUANTILES if name in options}
                model = MultiQuantileRegressor(model, n_jobs=self.n_jobs, **quantiles)
            options = {"recalibrator": IntervalScaling(), "cv": self.cv, **options}
            return RecalibratedRegressor(model, **options)
        if method == "forest":
            if "verbose" not in (self.method_params or {}):
                options.pop("verbose")  # the forest has its own
            return ForestDistributionRegressor(self.estimator, **options)
        if method == "bootstrap":
            return BootstrapRegressor(self.estimator, **options)
        if method == "quantile":
            return MultiQuantileRegressor(self.estimator, **{"cv": self.cv, **options})
        if method == "conformal":
            folds = options.get("method") == "cv+" or not isinstance(self.cv, numbers.Integral)
            return ConformalRegressor(self.estimator, **{"cv": self.cv if folds else None, **options})
        return ResidualRegressor(self.estimator, **{"cv": self.cv, **options})

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


def _is_calibrated(inner: list[Any]) -> bool:
    """Return whether the distribution that comes from these estimators is exact or calibrated on unseen rows.

    One of several is a mixture, which is wider than calibrated parts are.
    """
    if len(inner) != 1:
        return False
    if isinstance(inner[0], BaseUncertaintyRegressor):
        return inner[0]._is_calibrated()
    return isinstance(inner[0], BaseRecalibrator) or has_exact_posterior(inner[0])
