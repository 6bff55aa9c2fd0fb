"""Base class of regressors with a predictive distribution."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar, Literal, Self, TypeVar, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags

from skuq._censoring import refuse_censoring
from skuq._compat import CallbackSupportMixin, versioned, with_callbacks
from skuq._fitting.cross_fit import (
    CrossFit,
    cross_fit,
    find_mismatch,
    predict_quartiles,
    resolve_cv,
    warn_of_mismatch,
)
from skuq._fitting.seeds import Progress
from skuq._fitting.support import Support, read_support
from skuq._fitting.training_data import TrainingData, check_y, read_training, router_for
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE, check_new, check_same_rows, check_sample_weight
from skuq.distributions import Distribution

EstimatorT = TypeVar("EstimatorT")


def set_output(self: EstimatorT, *, transform: Any = None) -> EstimatorT:
    """Accept scikit-learn's setting of the output type without any effect.

    `transform` always returns a Distribution. ``Pipeline.set_output`` requires this method.

    Parameters
    ----------
    transform : {"default", "pandas", "polars"} or None, default=None
        Ignored.

    Returns
    -------
    self : object
        The transformer itself.
    """
    return self


def get_feature_names_out(self: Any, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
    """Return the names of the two columns of a Distribution as an array.

    Parameters
    ----------
    input_features : array-like of str, default=None
        Ignored.

    Returns
    -------
    names : ndarray of shape (2,)
        "mean" and "std".
    """
    return np.array(["mean", "std"], dtype=object)


@versioned
class BaseUncertaintyRegressor(  # type: ignore[call-arg]
    CallbackSupportMixin,
    RegressorMixin,
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,
    metaclass=ABCMeta,
):
    """Base class of regressors with a predictive distribution.

    A subclass stores its parameters, including ``estimator`` if it wraps one, and implements
    ``_fit(data, progress)`` and ``_predict_dist(X)``. The base class adds point predictions, intervals,
    quantiles, use in a Pipeline, metadata routing and scikit-learn's tags. A class with a method
    ``predict_dist`` works with skuq without this base class.

    See Also
    --------
    UncertaintyRegressor : Regressor with a distribution, around any point regressor.

    Notes
    -----
    The arguments of ``_fit`` are:

    - ``data.X``: the features, which are not converted.
    - ``data.y``: the target, an array of finite floats of shape (n,).
    - ``data.sample_weight``: an array of shape (n,), or None. ``data.repetitions`` is the same array, or an
      array of ones if there are no weights.
    - ``data.fit_params``: the keyword arguments of the wrapped estimator's ``fit``, including its weights.
    - ``progress``: an object that reports finished tasks to scikit-learn's callbacks. A subclass may ignore
      it.

    ``_predict_dist`` also gets X without conversion, because a wrapped estimator validates data frames and
    sparse matrices. A subclass without a wrapped estimator converts X with scikit-learn's ``validate_data``.

    `fit_transform` refits clones on folds. It uses the parameters ``cv``, ``n_jobs``, ``random_state`` and
    ``verbose`` if the subclass has these parameters. Without ``random_state``, the folds differ between
    calls. Override ``_fit_transform(data, progress)`` if the method has a cheaper way to compute
    out-of-sample distributions of the training rows.

    Examples
    --------
    This model predicts the mean and the standard deviation of the target for all X:

    >>> import numpy as np
    >>> from sklearn.utils.validation import validate_data
    >>> from skuq.distributions import Normal
    >>> from skuq.regressors import BaseUncertaintyRegressor
    >>> class MarginalRegressor(BaseUncertaintyRegressor):
    ...     def __init__(self, cv=5, random_state=None):
    ...         self.cv = cv
    ...         self.random_state = random_state
    ...     def _fit(self, data, progress):
    ...         validate_data(self, data.X)
    ...         self.loc_ = np.average(data.y, weights=data.sample_weight)
    ...         variance = np.average((data.y - self.loc_) ** 2, weights=data.sample_weight)
    ...         self.scale_ = np.sqrt(variance)
    ...     def _predict_dist(self, X):
    ...         X = validate_data(self, X, reset=False)
    ...         return Normal(np.full(len(X), self.loc_), self.scale_)
    >>> X, y = np.zeros((4, 1)), np.array([0.0, 1.0, 2.0, 3.0])
    >>> MarginalRegressor().fit(X, y).predict_interval(X[:1]).round(2)
    array([[-0.34,  3.34]])
    """

    _passes_censoring: ClassVar[bool] = False
    """Whether the wrapped estimator may get the censoring, because no other step uses the targets."""

    # -------------------------------------------------------------- methods of a subclass

    @abstractmethod
    def _fit(self, data: TrainingData, progress: Progress) -> None:
        """Fit the model. The docstring of the class describes the arguments."""

    @abstractmethod
    def _predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distribution of each row. The features X are already checked."""

    def _n_tasks(self) -> int | None:
        return None

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        """Fit the model, and return the out-of-sample distributions of the training rows."""
        folds = self._cross_fit(data, progress)
        dist: Distribution = folds.in_row_order(len(data))
        self._fit(data, progress)
        if data.y.ndim == 1:  # the models of several targets are not compared
            warn_of_mismatch(
                find_mismatch(self, folds, data.X, data.y, _quartiles),
                "`fit_transform` returns distributions from the models of the folds, but new rows are "
                "predicted by the model that is fitted to all rows",
            )
        return dist

    def _fit_and_test(self, data: TrainingData, progress: Progress) -> tuple[IntArray, Distribution]:
        """Fit the model. Return the tested rows and their distributions.

        The models are not trained on the tested rows. In contrast to `_fit_transform`, a subclass may leave
        out rows or test a row several times, for example with time-ordered folds.
        """
        return np.arange(len(data)), self._fit_transform(data, progress)

    def _routes_weight(self) -> bool:
        """Return whether the wrapped estimator gets the weights.

        The result is False if rows are drawn in proportion to the weights.
        """
        return True

    def _is_calibrated(self) -> bool:
        return True

    def _tests_own_rows(self) -> bool:
        """Return whether `fit_transform` fits no more models than `fit`."""
        return False

    def _point(self, X: Any) -> FloatArray | None:
        return None

    def _has_point(self) -> bool:
        """Return whether `predict` is a prediction of its own instead of the mean of the distribution."""
        return type(self)._point is not BaseUncertaintyRegressor._point

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        """Return point predictions and distributions. Override this method if both share computations."""
        point = self._point(X)
        dist = self._predict_dist(X)
        return (_points_of(dist) if point is None else point), dist

    def _support(self) -> Support | None:
        """Return the checked parameter ``support``, or None if the regressor has no such parameter."""
        support = getattr(self, "support", None)
        return None if support is None else read_support(support)

    def _on_support(self, dist: Distribution) -> Distribution:
        support = self._support()
        return dist if support is None else support.apply(dist)

    def _bounds_on_support(self, bounds: FloatArray) -> FloatArray:
        support = self._support()
        return bounds if support is None else support.map_bounds(bounds)

    def _point_and_supported_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        point, dist = self._point_and_dist(X)
        support = self._support()
        if support is not None:
            point, dist = support.clip(point), self._on_support(dist)
        return (point if self._has_point() else _points_of(dist)), dist

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit the predictive distribution of y given X.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Training features. They are passed to the wrapped estimator unchanged.
        y : array-like of shape (n,)
            Target.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        **fit_params : dict
            Further arguments. ``groups`` is passed to the splitter. All other arguments are passed to ``fit``
            of the wrapped estimator. Values with one entry per row are divided into folds, like X.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        data = self._read_supported(X, y, sample_weight, fit_params, "fit")
        progress = Progress(self, self._n_tasks())
        self._fit(data, progress)
        progress.close()
        return self

    @with_callbacks
    def fit_transform(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Distribution:
        """Fit on all rows, and return out-of-sample predictive distributions of these rows.

        Each distribution comes from models that are not trained on its row. A recalibrator in the next step
        of a Pipeline is therefore fitted to errors as large as the errors on new rows. The result differs
        from ``fit(X, y).transform(X)``.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Training features.
        y : array-like of shape (n,)
            Target.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        **fit_params : dict
            As in `fit`.

        Returns
        -------
        dist : Distribution of n rows
            Distributions in the order of the rows of X.
        """
        data = self._read_supported(X, y, sample_weight, fit_params, "fit_transform")
        progress = Progress(self, self._n_tasks())
        dist = self._fit_transform(data, progress)
        progress.close()
        return self._on_support(dist)

    def _read_supported(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        support = self._support()
        data = self._read(X, y, sample_weight, fit_params, caller)
        if support is not None:
            support.check(data.y, self.support)
        return data

    @with_callbacks
    def _fit_tested(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> tuple[IntArray, Distribution]:
        """Fit on all rows.

        Return the rows that the folds test, and the out-of-sample distributions of these rows.
        """
        data = self._read_supported(X, y, sample_weight, fit_params, "fit_transform")
        progress = Progress(self, self._n_tasks())
        rows, dist = self._fit_and_test(data, progress)
        progress.close()
        return rows, self._on_support(dist)

    def _read_observed(self, X: Any, y: Any, sample_weight: Any) -> tuple[FloatArray, FloatArray | None]:
        """Return the checked targets and weights of rows that are passed to `partial_fit`."""
        self._check_new(X)
        target = check_y(y, self)
        check_same_rows(X, target)
        support = self._support()
        if support is not None:
            support.check(target, self.support)
        return target, check_sample_weight(sample_weight, len(target))

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        data = read_training(
            self, X, y, sample_weight, fit_params, caller, route_weight=self._routes_weight()
        )
        if data.params and not self._passes_censoring:
            refuse_censoring(type(self).__name__, data.y, data.params)
        return data

    def _cross_fit(self, data: TrainingData, progress: Progress) -> CrossFit:
        estimator = clone(self)
        return cross_fit(
            estimator.set_callbacks() if hasattr(estimator, "set_callbacks") else estimator,
            data.X,
            data.target,
            cv=resolve_cv(getattr(self, "cv", None), getattr(self, "random_state", None)),
            groups=data.groups,
            params=data.metadata,
            n_jobs=getattr(self, "n_jobs", None),
            verbose=getattr(self, "verbose", 0),
            on_fold=progress.reporter("fold"),
        )

    def predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distribution of each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        dist : Distribution of n rows
            Distribution in the units of y.
        """
        return self._on_support(self._predict_dist(self._check_new(X)))

    def transform(self, X: Any) -> Distribution:
        """Return the predictive distribution of each row, for the next step of a Pipeline.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        dist : Distribution of n rows
            The distribution that `predict_dist` returns.
        """
        return self.predict_dist(X)

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> FloatArray: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...
    def predict(self, X: Any, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return point predictions, and their standard deviations with `return_std`.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        return_std : bool, default=False
            Whether to also return the standard deviation of the predictive distribution.

        Returns
        -------
        y_pred : ndarray of shape (n,)
            Mean of the predictive distribution, in the units of y, or the medians if a row has no mean.
            Conformal regressors return the prediction of the wrapped model.
        y_std : ndarray of shape (n,)
            Standard deviation, in the units of y. Only returned if `return_std` is True.
        """
        X = self._check_new(X)
        if return_std:
            points, dist = self._point_and_supported_dist(X)
            return points, dist.std()
        point = self._point(X) if self._has_point() else None
        if point is None:
            return _points_of(self._on_support(self._predict_dist(X)))
        support = self._support()
        return point if support is None else support.clip(point)

    def predict_interval(self, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> FloatArray:
        """Return central prediction intervals.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n, 2), or (n, 2, k) for k coverages
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of y.
        """
        return self.predict_dist(X).interval(coverage)

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> FloatArray:
        """Return quantiles of the predictive distribution.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        levels : float or array-like of shape (k,)
            Levels in [0, 1].

        Returns
        -------
        quantiles : ndarray of shape (n,), or (n, k) for k levels
            Quantiles in the units of y.
        """
        return self.predict_dist(X).quantile(levels)

    def _check_new(self, X: Any) -> Any:
        """Check X, and return it with the column names of `fit`: wrapped models do not repeat the warning."""
        check_new(self, X)
        return _with_names(self, X)

    # ------------------------------------------------------------------------- scikit-learn

    set_output = set_output
    get_feature_names_out = get_feature_names_out

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Prevent scikit-learn from wrapping the result of `transform`."""
        kwargs["auto_wrap_output_keys"] = None
        super().__init_subclass__(**kwargs)

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing: ``groups`` for the splitter, other metadata for the wrapped ``fit``.

        Returns
        -------
        routing : MetadataRouter, or MetadataRequest without a wrapped estimator
            See scikit-learn's user guide on metadata routing.
        """
        if hasattr(self, "estimator"):
            return router_for(self, estimator=self.estimator)
        return super().get_metadata_routing()

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` was successful. A failed fit sets only attributes of the features."""
        fitted = {name for name in vars(self) if name.endswith("_") and not name.startswith("__")}
        return bool(fitted - {"n_features_in_", "feature_names_in_"})

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        if not hasattr(self, "estimator"):
            return tags
        frozen = isinstance(self.estimator, FrozenEstimator)
        try:
            # A FrozenEstimator would copy all tags in each call, which takes longer than a prediction.
            child = get_tags(self.estimator.estimator if frozen else self.estimator)
        except Exception:  # Estimators of other packages may have no tags or broken tags.
            return tags
        tags.input_tags = child.input_tags
        tags.target_tags.positive_only = child.target_tags.positive_only
        tags.non_deterministic = child.non_deterministic
        if child.regressor_tags is not None:
            tags.regressor_tags = child.regressor_tags
        return tags


def _with_names(regressor: BaseUncertaintyRegressor, X: Any) -> Any:
    """Return X with the column names of `fit`, also if X is an array."""
    names = getattr(regressor, "feature_names_in_", None)
    return pd.DataFrame(X, columns=names) if names is not None and isinstance(X, np.ndarray) else X


def _quartiles(regressor: BaseUncertaintyRegressor, X: Any) -> FloatArray:
    """Return the quartiles for rows that `fit` has converted to an array."""
    return predict_quartiles(regressor, _with_names(regressor, X))


def _points_of(dist: Distribution) -> FloatArray:
    try:
        return dist.mean()
    except ValueError:  # for example a Student t distribution with one degree of freedom
        return dist.median()
