"""Regressor that is fitted to observed rows with inverse probability of censoring weights."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from skuq._censoring import product_limit
from skuq._compat import safe_indexing, slice_fit_params, warn_user
from skuq._fitting.cross_fit import point_predict
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.seeds import MAX_SEED, Progress, seeded_clone
from skuq._fitting.training_data import TrainingData, weights_for
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import check_number, check_random_state
from skuq.distributions import Distribution
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from skuq.prediction import predict_dist, supports_dist
from skuq.regressors._methods import is_calibrated
from skuq.survival._targets import BaseCensoredRegressor

_LEAST_REPRESENTED = 0.8
"""Smallest share of the rows that the weighted observed rows represent without a warning."""


class CensoringWeightedRegressor(BaseCensoredRegressor):
    r"""Any regressor for right-censored targets, with inverse probability of censoring weights (IPCW).

    The wrapped regressor is fitted to the rows with an observed target. Weights let these rows also represent
    the censored rows. The method makes no assumption about the distribution of the target. The times of
    censored rows affect only the weights. Prefer `CensoredBoostingRegressor` if the targets are positive
    times and many rows are censored.

    Parameters
    ----------
    estimator : estimator
        Regressor that `predict_dist` accepts and whose `fit` takes weights. It is cloned. Wrap a plain
        regressor in `~skuq.regressors.UncertaintyRegressor`.
    censoring_estimator : estimator or None, default=None
        Model of the censoring times given X. It is cloned. Its `fit` must take ``event``, and its
        `fit_transform` must predict each row out of fold, such as `CensoredBoostingRegressor`. None means the
        Kaplan-Meier estimate. This estimate is valid if the censoring does not depend on X.
    floor : float, default=0.05
        Lower limit of the estimated probability of being uncensored, in [0, 1]. Smaller probabilities are
        replaced by this value, so that weights are at most ``1 / floor``. A larger value decreases the
        variance and increases the bias.
    random_state : int, RandomState instance or None, default=None
        Seed of estimators without a seed of their own. An integer makes results reproducible.

    Attributes
    ----------
    estimator_ : estimator
        The fitted regressor.
    censoring_weight_ : ndarray of shape (n,)
        Censoring weights of the rows passed to `fit`, not multiplied by ``sample_weight``. 0 for censored
        rows and for rows of weight 0.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Raises
    ------
    ValueError
        If all targets are censored, or if the probability of being uncensored is 0 and ``floor`` is 0.

    See Also
    --------
    CensoredBoostingRegressor : Boosting with the likelihood of censored rows. It also accepts two bounds per
        row.
    skuq.survival.censoring_weights : The weights without features.

    Notes
    -----
    The weight of an observed row is :math:`1 / \max(\hat G(y- \mid x), \mathrm{floor})`, where :math:`\hat G`
    is the probability that the censoring time is at least y [1]_. If all targets are observed, the forecasts
    equal the forecasts of the wrapped regressor. If the largest y is censored, no row represents larger
    targets. The upper tail of the forecasts is then too short. If the observed rows represent less than 80 %
    of the rows, a `SmallSampleWarning` is issued.

    References
    ----------
    .. [1] J. M. Robins, A. Rotnitzky (1992), Recovery of information and adjustment for dependent censoring
       using surrogate markers. https://doi.org/10.1007/978-1-4757-1229-4_14

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.regressors import UncertaintyRegressor
    >>> from skuq.survival import CensoringWeightedRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1000, 1))
    >>> T = 5 + 2 * X[:, 0] + 0.3 * rng.normal(size=1000)
    >>> C = rng.uniform(4, 12, size=1000)
    >>> y, event = np.minimum(T, C), T <= C
    >>> estimator = UncertaintyRegressor(LinearRegression(), random_state=0)
    >>> model = CensoringWeightedRegressor(estimator).fit(X, y, event=event)
    >>> model.predict([[0.0], [1.0]]).round(1)
    array([5., 7.])
    """

    def __init__(
        self,
        estimator: Any,
        censoring_estimator: Any = None,
        *,
        floor: float = 0.05,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.censoring_estimator = censoring_estimator
        self.floor = floor
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        event: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the regressor to the observed rows.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Training features. They are passed to the wrapped estimator unchanged.
        y : array-like of shape (n,)
            Target of an observed row, and time of censoring of a censored row.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        event : array-like of bool, shape (n,), default=None
            True if the target is observed. False if the target is only known to be larger than y. None means
            that all targets are observed.
        **fit_params : dict
            Further arguments of ``fit`` of the wrapped estimator. Values with one entry per row are divided
            like X.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        fitted: Self = super().fit(X, y, sample_weight, event=event, **fit_params)
        return fitted

    def fit_transform(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        event: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Distribution:
        """Fit on all rows, and return out-of-sample predictive distributions of these rows.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Training features.
        y : array-like of shape (n,)
            Target of an observed row, and time of censoring of a censored row.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        event : array-like of bool, shape (n,), default=None
            As in `fit`.
        **fit_params : dict
            As in `fit`.

        Returns
        -------
        dist : Distribution of n rows
            Distributions in the order of the rows of X. Censored rows are included.
        """
        dist: Distribution = super().fit_transform(X, y, sample_weight, event=event, **fit_params)
        return dist

    def _routes_weight(self) -> bool:
        return False  # `_fit` first multiplies the weights by the inverse probabilities.

    def _is_calibrated(self) -> bool:
        return is_calibrated(self.estimator)

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        if not supports_dist(self.estimator):
            name = type(self.estimator).__name__
            raise NotProbabilisticError(
                f"`estimator` must give a predictive distribution, but {name} gives none. Wrap it: "
                f"CensoringWeightedRegressor(UncertaintyRegressor({name}(...)))."
            )
        seeds = check_random_state(self.random_state).randint(MAX_SEED, size=2).tolist()
        estimator = seeded_clone(self.estimator, seeds[0], self.random_state)
        bounds = self._bounds(data)
        weight = data.sample_weight
        rows = np.arange(len(data))
        self.censoring_weight_ = np.ones(len(data))
        if bounds is not None:
            event = bounds.observed & (data.repetitions > 0)
            self.censoring_weight_ = event / self._probability_uncensored(data, event, seeds[1])
            weight = data.repetitions * self.censoring_weight_
            _warn_of_missing_tail(weight.sum() / data.repetitions.sum())
            rows = np.flatnonzero(weight)
            weight = weight[rows]
        params = {
            **slice_fit_params(data.X, data.params, rows),
            **weights_for(self.estimator, weight, "estimator"),
        }
        X = data.X if bounds is None else safe_indexing(data.X, rows)
        with progress.task("estimator", estimator):
            self.estimator_ = fit_wrapped(estimator, X, data.y[rows], **params)

    def _probability_uncensored(self, data: TrainingData, event: BoolArray, seed: int) -> FloatArray:
        floor = check_number(self.floor, "floor")
        if not 0 <= floor <= 1:
            raise ValueError(f"`floor` must lie in [0, 1], got {floor:g}.")
        if self.censoring_estimator is None:
            censoring = product_limit(data.y, event, data.repetitions, of_censoring=True)
            probability = censoring.before(data.y)
        else:
            model = seeded_clone(self.censoring_estimator, seed, self.random_state)
            weights = weights_for(model, data.sample_weight, "censoring_estimator")
            dist = model.fit_transform(data.X, data.y, event=~event, **weights)
            probability = dist.sf(data.y)
        probability = np.maximum(probability, floor)
        zero = event & (probability <= 0)
        if zero.any():
            row = int(np.argmax(zero))
            raise ValueError(
                "the probability of being uncensored must be positive at each observed target, got 0 at "
                f"y = {data.y[row]:g} in row {row}. Pass a positive `floor`."
            )
        return np.where(event, probability, 1.0)

    def _point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator_, X)

    def _predict_dist(self, X: Any) -> Distribution:
        return predict_dist(self.estimator_, X)


def _warn_of_missing_tail(represented: float) -> None:
    if represented < _LEAST_REPRESENTED:
        warn_user(
            f"the weighted observed rows represent only {represented:.0%} of all rows, because the largest "
            "targets are censored. The forecasts are too small. Use CensoredBoostingRegressor.",
            SmallSampleWarning,
        )
