"""Processes that are estimated from a real data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import stats
from sklearn.base import RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from skuq._compat import count_rows, is_classifying, safe_indexing
from skuq._fitting.cross_fit import cross_fit, point_predict, resolve_cv
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.seeds import seeded_clone
from skuq._fitting.training_data import check_rows, check_y
from skuq._numeric import unit_of
from skuq._typing import FloatArray
from skuq._validation import check_finite, check_new, check_option, check_X
from skuq.distributions import Distribution, Normal, ScipyDistribution, StudentT
from skuq.simulation._base import BaseProcess, check_index, check_truth
from skuq.simulation._fits import draw_seed, target_rng

_DF, _SHAPE = 3.0, 0.1
"""Degrees of freedom of "student_t", and shape parameter of "gamma"."""

_LEAST_SCALE = 1e-6
"""Smallest standard deviation of the noise, relative to the root mean squared residual.

Most families need a positive scale, but a tree may predict a residual of 0.
"""


def _student_t(loc: FloatArray, scale: FloatArray) -> Distribution:
    return StudentT(loc, scale / np.sqrt(_DF / (_DF - 2)), _DF)


def _gamma(loc: FloatArray, scale: FloatArray) -> Distribution:
    root = np.sqrt(_SHAPE)
    return ScipyDistribution(stats.gamma(_SHAPE, loc=loc - root * scale, scale=scale / root))


_NOISES: dict[str, Callable[[FloatArray, FloatArray], Distribution]] = {
    "normal": Normal,
    "student_t": _student_t,
    "gamma": _gamma,
}


class EstimatedProcess(RegressorMixin, BaseProcess):
    r"""Process with the features of a data set, a fitted regression function and fitted noise.

    `fit` fits one regressor to y. The predictions of this regressor are the regression function. Then `fit`
    fits a second regressor to the squared residuals. The predictions of the second regressor are the variance
    of the noise. The rows are split into training and test rows. Each training set consists of the training
    rows with newly simulated targets, as in algorithm 3 of [1]_. The method ``predict_dist`` returns the true
    distribution. You can evaluate this ideal forecast with all metrics, scorers and displays of skuq.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Regressor whose predictions are the regression function. It is cloned and fitted to all rows. X is
        passed on without conversion. None means a random forest with 100 trees of depth 15.
    noise_estimator : estimator or None, default=None
        Regressor of the squared residuals. It is cloned before it is fitted. Its predictions are the variance
        of the noise. Negative predictions count as 0. None means another clone of ``estimator``.
    residuals : {"out-of-sample", "training"}, default="out-of-sample"
        Residuals from which the noise is estimated. "out-of-sample" uses residuals of cross-fitted clones.
        "training" uses residuals of the training rows, as in [1]_. For deep trees, the residuals of training
        rows are several times too small. The simulated data are then easier to predict than the real data.
    noise : {"normal", "student_t", "gamma"} or callable, default="normal"
        Family of the noise. The noise has mean 0 and the fitted variance. "student_t" has 3 degrees of
        freedom. "gamma" has the shape 0.1 and is very skewed. A callable ``noise(loc, scale)`` receives the
        means and the standard deviations, both of shape (n,). It returns the Distribution of y.
    test_size : float or int, default=0.2
        Share or number of test rows.
    cv : int, splitter or iterable, default=5
        Folds for out-of-sample residuals. An int k means ``KFold(k, shuffle=True)``. Each row must be in
        exactly one test fold.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, the split, the targets, and regressors that do not have their own seed. An integer
        makes results reproducible. With None, one seed is drawn in `fit`.

    Attributes
    ----------
    estimator_, noise_estimator_ : estimator
        Fitted regressor of y, and fitted regressor of the squared residuals. The squared residuals are
        divided by a constant.
    train_rows_, test_rows_ : ndarray of int
        Row numbers of the training rows and the test rows.
    X_test_ : array-like or DataFrame
        Test rows.
    truth_ : Distribution
        True distribution of y in the test rows.
    n_features_in_, feature_names_in_ : int, ndarray
        Number and names of the features, as defined by scikit-learn.

    See Also
    --------
    KnownProcess : Process that is defined by a function, for example by a fitted model.
    SplitData : Very large data set with real targets.

    Notes
    -----
    All simulations use the features of the data set, because the dependence between features is difficult to
    simulate. The predictions of a forest are a step function, so smooth models have a ``bias``. The coverage
    of the confidence intervals of smooth models is then low, even if the intervals have the right width. For
    smooth models, compare the width of the prediction intervals with the width of the true intervals.

    The standard deviation of the noise is at least a millionth of the root mean squared residual.

    The cost is two fits, and one additional fit per fold.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203, section 5.5.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.regressors import LeastSquaresRegressor
    >>> from skuq.simulation import EstimatedProcess, simulate_coverage
    >>> X, y = load_diabetes(return_X_y=True)
    >>> process = EstimatedProcess(LinearRegression(), random_state=0).fit(X, y)
    >>> result = simulate_coverage(LeastSquaresRegressor(), process, n_simulations=40, random_state=0)
    >>> [round(float(part.mean()), 1) for part in (result.picf, result.cicf)]
    [0.9, 0.9]
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        noise_estimator: Any = None,
        residuals: str = "out-of-sample",
        noise: str | Callable[[FloatArray, FloatArray], Distribution] = "normal",
        test_size: float | int = 0.2,
        cv: Any = 5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.noise_estimator = noise_estimator
        self.residuals = residuals
        self.noise = noise
        self.test_size = test_size
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Estimate the regression function and the noise.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, in a form that ``estimator`` accepts.
        y : array-like of shape (n,)
            Observed targets.

        Returns
        -------
        self : EstimatedProcess
            The fitted process.
        """
        residuals = check_option(self.residuals, "residuals", ("out-of-sample", "training"))
        if not callable(self.noise):
            check_option(self.noise, "noise", list(_NOISES))
        estimator = _regressor(self.estimator, "estimator", RandomForestRegressor(100, max_depth=15))
        noise_estimator = _regressor(self.noise_estimator, "noise_estimator", estimator)
        check_X(X)
        target = check_y(y, self)
        X, _, _ = check_rows(self, X, target, None, {})
        self._seed = draw_seed(self.random_state)
        split = np.random.RandomState(self._seed)
        estimator, noise_estimator = (
            seeded_clone(one, self._seed, self.random_state) for one in (estimator, noise_estimator)
        )
        if residuals == "out-of-sample":
            folds = resolve_cv(self.cv, split)
            fitted = cross_fit(estimator, X, target, cv=folds, predict=point_predict, keep_in_context=False)
            predicted = fitted.in_row_order(len(target))
        self.estimator_ = fit_wrapped(estimator, X, target)
        if residuals == "training":
            predicted = point_predict(self.estimator_, X)
        self._unit = unit_of(target - predicted)
        squared = np.square((target - predicted) / self._unit)
        self.noise_estimator_ = fit_wrapped(noise_estimator, X, squared)
        self._least_variance = _LEAST_SCALE**2 * float(squared.mean())
        self.train_rows_, self.test_rows_ = train_test_split(
            np.arange(len(target)), test_size=self.test_size, random_state=split
        )
        self._X_train = safe_indexing(X, self.train_rows_)
        self._train_truth = self._distribution(self._X_train)
        self.X_test_ = safe_indexing(X, self.test_rows_)
        self.truth_ = self._distribution(self.X_test_)
        return self

    def _distribution(self, X: Any) -> Distribution:
        loc = point_predict(self.estimator_, X)
        variance = np.maximum(point_predict(self.noise_estimator_, X), self._least_variance)
        scale = self._unit * np.sqrt(variance)
        if not scale.any():  # the regression function equals y
            return Normal(loc, 0.0)
        noise = self.noise if callable(self.noise) else _NOISES[self.noise]
        return check_truth(noise(loc, scale), count_rows(X), "noise")

    def training_set(self, index: int) -> tuple[Any, FloatArray]:
        """Draw one training set.

        Parameters
        ----------
        index : int
            Number of the training set, from 0. The same number always gives the same training set.

        Returns
        -------
        X : array-like or DataFrame
            Features of the training rows. They are equal in all training sets.
        y : ndarray of shape (n_train,)
            Targets that are drawn from the true distribution.
        """
        check_is_fitted(self)
        y = self._train_truth.sample(1, target_rng(self._seed, check_index(index)))[:, 0]
        return self._X_train, check_finite(y, "y")

    def predict_dist(self, X: Any) -> Distribution:
        """Return the true distribution of y for each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features. They must have the same columns as the data set.

        Returns
        -------
        dist : Distribution of n rows
            True distributions, in the units of y.
        """
        check_new(self, X)
        return self._distribution(X)

    def predict(self, X: Any) -> FloatArray:
        """Return the regression function for each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features. They must have the same columns as the data set.

        Returns
        -------
        mean : ndarray of shape (n,)
            Values of the regression function, in the units of y.
        """
        check_new(self, X)
        return point_predict(self.estimator_, X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        try:
            child = get_tags(RandomForestRegressor() if self.estimator is None else self.estimator)
        except Exception:  # estimators of other packages may have no tags
            return tags
        tags.input_tags = child.input_tags
        if child.regressor_tags is not None:
            tags.regressor_tags = child.regressor_tags
        return tags


def _regressor(estimator: Any, name: str, default: Any) -> Any:
    if estimator is None:
        return default
    if isinstance(estimator, type):
        raise TypeError(f"`{name}` must be an instance, got the class {estimator.__name__}.")
    if is_classifying(estimator) or not hasattr(estimator, "fit"):
        raise TypeError(f"`{name}` must be a regressor or None, got {type(estimator).__name__}.")
    return estimator
