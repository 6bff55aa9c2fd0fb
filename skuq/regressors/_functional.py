"""Regressor whose prediction is a functional of the predictive distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.seeds import Progress
from skuq._fitting.training_data import TrainingData
from skuq._typing import FloatArray
from skuq._validation import check_option, check_rows, check_single_coverage, check_unused
from skuq.distributions import Distribution
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist

Functional: TypeAlias = Literal["mean", "median", "std", "epistemic_std", "quantile", "width"]

_FUNCTIONALS: dict[str, Callable[[Distribution, float, float], FloatArray]] = {
    "mean": lambda dist, levels, coverage: dist.mean(),
    "median": lambda dist, levels, coverage: dist.median(),
    "std": lambda dist, levels, coverage: dist.std(),
    "epistemic_std": lambda dist, levels, coverage: dist.epistemic().std(),
    "quantile": lambda dist, levels, coverage: dist.quantile(levels),
    "width": lambda dist, levels, coverage: np.diff(dist.interval(coverage), axis=1)[:, 0],
}


class FunctionalRegressor(BaseUncertaintyRegressor):
    """Regressor whose prediction is a functional of the predictive distribution.

    Tools such as SHAP and scikit-learn's permutation importance explain ``predict``. For a probabilistic
    regressor, they therefore explain the mean. With this class, the same tools explain the uncertainty: for
    example, they show which columns make the intervals wide.

    Parameters
    ----------
    estimator : estimator
        Any estimator that `predict_dist` accepts; cloned. A FrozenEstimator is not refitted, and `predict`
        works without a call of `fit`.
    functional : {"std", "mean", "median", "quantile", "width", "epistemic_std"} or callable, default="std"
        Value that `predict` returns for each row. "quantile" is the quantile at ``levels``, and "width" is
        the width of the central interval with ``coverage``. "epistemic_std" is the standard deviation of the
        epistemic part. A callable gets a `Distribution` of n rows and returns an array of shape (n,).
    levels : float, default=0.5
        Level of the quantile, strictly between 0 and 1. Only used with "quantile".
    coverage : float, default=0.9
        Nominal coverage of the central interval. Strictly between 0 and 1. Only used with "width".

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    UncertaintyRegressor : A predictive distribution for any regressor.
    skuq.metrics.get_scorer : Scorers, for example for permutation importance.

    Notes
    -----
    `predict_dist` returns the distribution of the wrapped estimator, so skuq's scorers score this
    distribution. ``score`` instead compares the functional with ``y``. For ``permutation_importance``, pass
    ``predict(X)`` as the target, as in the example. The importance of a column is then the decrease in R²
    when the column is permuted.

    Permutation importance with the CRPS as a score does not show which columns determine the noise, because
    the CRPS depends mostly on the location. Partial dependence replaces the values of one column. If columns
    are correlated, the resulting rows may be far from all training rows. ``method="recursion"`` of partial
    dependence is not available. Each prediction costs one call of `predict_dist`.

    Examples
    --------
    Column 0 determines the mean, column 1 determines the noise, and column 2 has no effect:

    >>> import numpy as np
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.inspection import partial_dependence, permutation_importance
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.metrics import get_scorer
    >>> from skuq.regressors import FunctionalRegressor, ResidualRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = 2 * X[:, 0] + np.exp(X[:, 1] - 0.5) * rng.normal(size=300)
    >>> model = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> std = FunctionalRegressor(FrozenEstimator(model), "std")
    >>> importance = permutation_importance(std, X, std.predict(X), n_repeats=2, random_state=0)
    >>> importance.importances_mean.round(1)
    array([0. , 1.9, 0. ])
    >>> permutation_importance(  # by the CRPS, the column of the mean is the most important one
    ...     model, X, y, scoring=get_scorer("neg_crps"), n_repeats=2, random_state=0
    ... ).importances_mean.round(1)
    array([1.5, 0.2, 0. ])
    >>> partial_dependence(std, X, [1], grid_resolution=3)["average"].round()
    array([[0., 1., 4.]])
    """

    _passes_censoring = True

    def __init__(
        self,
        estimator: Any,
        functional: Functional | Callable[[Distribution], FloatArray] = "std",
        *,
        levels: float = 0.5,
        coverage: float = 0.9,
    ) -> None:
        self.estimator = estimator
        self.functional = functional
        self.levels = levels
        self.coverage = coverage

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._check_functional()
        if not supports_dist(self.estimator):
            name = type(self.estimator).__name__
            raise NotProbabilisticError(
                f"`estimator` must give a predictive distribution, but {name} gives none. Wrap it: "
                f"FunctionalRegressor(UncertaintyRegressor({name}(...)), ...)."
            )
        estimator = clone(self.estimator)
        with progress.task("model", estimator):
            self.estimator_ = fit_wrapped(estimator, data.X, data.target, **data.fit_params)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        if not isinstance(self.estimator, BaseUncertaintyRegressor):
            return super()._fit_transform(data, progress)
        self._check_functional()
        estimator = clone(self.estimator)
        with progress.task("model", estimator):
            dist: Distribution = estimator.fit_transform(data.X, data.target, **data.fit_params)
        self.estimator_ = estimator
        return dist

    def _check_functional(self) -> None:
        if not callable(self.functional):
            check_option(self.functional, "functional", _FUNCTIONALS)
        check_single_coverage(self.levels, "levels")
        check_single_coverage(self.coverage)
        for name, owner in (("levels", "quantile"), ("coverage", "width")):
            if self.functional != owner:
                check_unused(self, [name], f"unless `functional` is {owner!r}", "Leave it out.")

    def _is_calibrated(self) -> bool:
        return False

    def _predict_dist(self, X: Any) -> Distribution:
        return predict_dist(getattr(self, "estimator_", self.estimator), X)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the functional of the predictive distribution of each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        return_std : bool, default=False
            Whether to also return the standard deviation of the predictive distribution.

        Returns
        -------
        values : ndarray of shape (n,)
            In the units of y. If ``functional`` is a callable, in the units that it returns.
        y_std : ndarray of shape (n,)
            Standard deviation, in the units of y. Only returned if `return_std` is True.
        """
        self._check_functional()
        dist = self.predict_dist(X)
        values = self._values(dist)
        return (values, dist.std()) if return_std else values

    def _values(self, dist: Distribution) -> FloatArray:
        if callable(self.functional):
            return check_rows(np.asarray(self.functional(dist), dtype=float), "functional", len(dist))
        return _FUNCTIONALS[self.functional](dist, self.levels, self.coverage)

    def _check_new(self, X: Any) -> Any:
        if hasattr(self, "estimator_"):
            return super()._check_new(X)
        check_is_fitted(self)
        return X

    def __sklearn_is_fitted__(self) -> bool:
        if hasattr(self, "estimator_"):
            return True
        try:
            check_is_fitted(self.estimator)
        except Exception:
            return False
        return isinstance(self.estimator, FrozenEstimator)
