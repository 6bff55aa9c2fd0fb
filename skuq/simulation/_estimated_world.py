"""A world estimated from a real data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import stats
from sklearn.base import RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags, check_consistent_length, get_tags, indexable
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._sklearn_compat import count_rows, is_classifying, safe_indexing
from skuq._typing import FloatArray
from skuq._units import unit_of
from skuq._validation import check_finite, check_new, check_option, check_X
from skuq.distributions import Distribution, Normal, ScipyDistribution, StudentT
from skuq.prediction._cross_fit import cross_fit, resolve_cv
from skuq.prediction._point import point_predict
from skuq.prediction._random import seeded_clone
from skuq.prediction._wrapped import fit_wrapped
from skuq.regressors._fit_inputs import check_y
from skuq.simulation._base import BaseWorld, check_index, check_truth
from skuq.simulation._seeds import draw_seed, target_rng

__all__ = ["EstimatedWorld"]

_DF, _SHAPE = 3.0, 0.1
"""Degrees of freedom of "student_t", and shape of "gamma"."""

_LEAST_SCALE = 1e-6
"""Smallest standard deviation of the noise, as a share of the root mean squared residual: most families need
a positive one, and leaves of a tree may predict 0."""


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


class EstimatedWorld(RegressorMixin, BaseWorld):
    r"""A world like a real data set: its rows, a fitted regression function, and fitted noise.

    `fit` takes the predictions of one regressor as the regression function, those of another for the squared
    residuals as the variance of the noise, and splits the rows into training and test rows; training sets
    are the training rows with new targets, as in algorithm 3 of [1]_. It is itself a forecast, the best that
    there is: every metric, scorer and display of skuq takes it.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Regressor whose predictions are the regression function; cloned, and fitted to all rows. None is a
        random forest of 100 trees of depth 15. X is passed on to it as it is.
    noise_estimator : estimator or None, default=None
        Regressor of the squared residuals, whose predictions are the variance of the noise, at least 0. None
        is another clone of ``estimator``.
    residuals : {"out-of-sample", "training"}, default="out-of-sample"
        Residuals that the noise is fitted to. "out-of-sample" are those of cross-fitted clones. "training"
        are those of rows that the regressor is fitted to, as in [1]_; those of deep trees are several times
        too small, and simulated data then easier than the real ones.
    noise : {"normal", "student_t", "gamma"} or callable, default="normal"
        Family of the noise, with mean 0 and the fitted variance: "student_t" has 3 degrees of freedom,
        "gamma" shape 0.1 and is very skewed. A callable ``noise(loc, scale)`` returns the Distribution of y
        from mean and standard deviation, both of shape (n,).
    test_size : float or int, default=0.2
        Share or number of rows that are test rows.
    cv : int, splitter or iterable, default=5
        Folds of out-of-sample residuals. An int k is ``KFold(k, shuffle=True)``; every row must be tested
        exactly once.
    random_state : int, RandomState instance or None, default=None
        Seed of folds, split and targets, and of the regressors where they have none; an integer makes results
        reproducible. None is drawn once, in `fit`.

    Attributes
    ----------
    estimator_, noise_estimator_ : estimator
        Fitted regressors of the mean, and of the squared residuals divided by a common factor.
    train_rows_, test_rows_ : ndarray of int
        Row numbers of the training rows and the test rows.
    X_test_ : array-like or DataFrame
        Test rows.
    truth_ : Distribution
        Distribution of y in the test rows.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    KnownWorld : A world by a function, of any fitted model too.
    SplitWorld : Real targets, for very large data sets.

    Notes
    -----
    The features are those of the data in all simulations, as their dependence is difficult to simulate. A
    forest is a step function, which smooth models reach with a bias: confidence intervals then fail by
    ``bias``, whatever their width. Compare the width of intervals with that of the truth's.

    The variance of the noise is at least a millionth of the root mean squared residual, squared.

    Cost: two fits, and one for each of the folds.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203, section 5.5.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.regressors import LeastSquaresRegressor
    >>> from skuq.simulation import EstimatedWorld, simulate_coverage
    >>> X, y = load_diabetes(return_X_y=True)
    >>> world = EstimatedWorld(LinearRegression(), random_state=0).fit(X, y)
    >>> result = simulate_coverage(LeastSquaresRegressor(), world, n_simulations=40, random_state=0)
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
        """Estimate the world.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, as ``estimator`` takes them.
        y : array-like of shape (n,)
            Target.

        Returns
        -------
        self : EstimatedWorld
            The fitted world.
        """
        residuals = check_option(self.residuals, "residuals", ("out-of-sample", "training"))
        if not callable(self.noise):
            check_option(self.noise, "noise", list(_NOISES))
        estimator = _regressor(self.estimator, "estimator", RandomForestRegressor(100, max_depth=15))
        noise_estimator = _regressor(self.noise_estimator, "noise_estimator", estimator)
        check_X(X)
        target = check_y(y, self)
        validate_data(self, X, skip_check_array=True)
        (X,) = indexable(X)
        check_consistent_length(X, target)
        if len(target) < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 samples, got {len(target)} sample.")
        self._seed = draw_seed(self.random_state)
        split = np.random.RandomState(self._seed)
        estimator, noise_estimator = (
            seeded_clone(one, self._seed, self.random_state) for one in (estimator, noise_estimator)
        )
        if residuals == "out-of-sample":
            folds = resolve_cv(self.cv, split)
            fitted = cross_fit(estimator, X, target, cv=folds, predict=point_predict)
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
        """Return the true distribution of checked rows."""
        loc = point_predict(self.estimator_, X)
        variance = np.maximum(point_predict(self.noise_estimator_, X), self._least_variance)
        scale = self._unit * np.sqrt(variance)
        if not scale.any():  # the regression function is the target, and has no noise
            return Normal(loc, 0.0)
        noise = self.noise if callable(self.noise) else _NOISES[self.noise]
        return check_truth(noise(loc, scale), count_rows(X), "noise")

    def training_set(self, index: int) -> tuple[Any, FloatArray]:
        """Draw one training set.

        Parameters
        ----------
        index : int
            Number of the training set, from 0; the same set at every call.

        Returns
        -------
        X : array-like or DataFrame
            The training rows, the same in all sets.
        y : ndarray of shape (n_train,)
            Targets, drawn from the truth.
        """
        check_is_fitted(self)
        y = self._train_truth.sample(1, target_rng(self._seed, check_index(index)))[:, 0]
        return self._X_train, check_finite(y, "y")

    def predict_dist(self, X: Any) -> Distribution:
        """Return the true distribution of y.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the data.

        Returns
        -------
        dist : Distribution of n rows
            In the units of y.
        """
        check_new(self, X)
        return self._distribution(X)

    def predict(self, X: Any) -> FloatArray:
        """Return the regression function.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the data.

        Returns
        -------
        mean : ndarray of shape (n,)
            In the units of y.
        """
        check_new(self, X)
        return point_predict(self.estimator_, X)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of the regressor of the mean; X is passed on to it as it is."""
        tags = super().__sklearn_tags__()
        try:
            child = get_tags(RandomForestRegressor() if self.estimator is None else self.estimator)
        except Exception:  # other packages' estimators may have no scikit-learn tags, or broken ones
            return tags
        tags.input_tags = child.input_tags
        if child.regressor_tags is not None:
            tags.regressor_tags = child.regressor_tags
        return tags


def _regressor(estimator: Any, name: str, default: Any) -> Any:
    """Return the regressor that a parameter stands for."""
    if estimator is None:
        return default
    if isinstance(estimator, type):
        raise TypeError(f"`{name}` must be an instance, got the class {estimator.__name__}.")
    if is_classifying(estimator) or not hasattr(estimator, "fit"):
        raise TypeError(f"`{name}` must be a regressor or None, got {type(estimator).__name__}.")
    return estimator
