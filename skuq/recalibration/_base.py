"""Base class of the recalibrators: supervised maps from distributions to distributions.

A method writes two functions, ``_fit(dist, y, weight)`` and ``_transform(dist)``; checking, the
scikit-learn interface and the point prediction are here.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skuq._few_rows import few_rows_reported, repeated_rows, warn_of_few_rows
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_non_negative,
    check_sample_weight,
    check_target,
)
from skuq._versioned import VersionedMixin
from skuq.distributions import Distribution, Normal
from skuq.distributions._transformer import DistributionTransformerMixin

_EXPECTED = "`dist` must be a skuq Distribution or an array of exactly two columns, loc and scale"
_NOT_METADATA = {"dist": UNUSED}


def check_dist(dist: Any) -> Distribution:
    """Return the input of a recalibrator as a Distribution with at least one row.

    Only a Distribution, or an array of two columns loc and scale (then Gaussian), passes: anything
    more lenient would take a feature matrix for a prediction.
    """
    checked = dist if isinstance(dist, Distribution) else _from_columns(dist)
    if len(checked) == 0:
        raise ValueError("`dist` must have at least one row, got none.")
    return checked


def _from_columns(dist: Any) -> Normal:
    if isinstance(dist, tuple):
        raise TypeError(f"{_EXPECTED}, got a tuple. Pass `skuq.distributions.Normal(loc, scale)`.")
    if hasattr(dist, "ppf"):
        raise TypeError(
            f"{_EXPECTED}, got {type(dist).__name__}. Pass `skuq.distributions.ScipyDistribution(dist)` "
            "if it is a frozen scipy distribution."
        )
    columns = as_float_array(dist, "dist")
    if columns.ndim != 2 or columns.shape[1] != 2:
        raise ValueError(
            f"{_EXPECTED}, got an array of shape {columns.shape}. In a Pipeline a recalibrator follows a "
            "regressor whose `transform` gives a Distribution, such as `skuq.UncertaintyRegressor`."
        )
    check_finite(columns, "dist")
    check_non_negative(columns[:, 1], "scale, the second column of dist,")
    return Normal(columns[:, 0], columns[:, 1])


class BaseRecalibrator(
    RegressorMixin, DistributionTransformerMixin, VersionedMixin, BaseEstimator, metaclass=ABCMeta
):
    """Base class of every recalibrator.

    A subclass writes ``_fit(dist, y, weight)``, which stores what it learns under names ending in an
    underscore, and ``_transform(dist)``, which returns a Distribution of as many rows; both get
    checked input. Everything else follows: the recalibrator works alone on ``(dist, y)``, as the
    last step of a Pipeline, and in a search with ``X=dist``.

    See Also
    --------
    IdentityRecalibrator : Nothing changes.
    StdScalingRecalibrator : One factor for every standard deviation.
    BinnedScalingRecalibrator : A factor for each bin of predicted standard deviation.
    VarianceIsotonicRecalibrator : A variance that rises with the predicted one.
    OperatingPointRecalibrator : Intervals of a given miss rate, or of least cost.
    IsotonicRecalibrator : A monotone map of the probability levels.
    EmpiricalRecalibrator : The shape of the standardised residuals.
    QuantileShiftRecalibrator : A shift for the quantile of each level.
    ConformalRecalibrator : Intervals that are guaranteed to cover.
    GPNormalRecalibrator : A scale that depends on the prediction.
    GPBetaRecalibrator : A map of the levels that depends on the prediction.
    GPCauchyRecalibrator : Cauchy distributions whose scale depends on the prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal, affine
    >>> from skuq.recalibration import BaseRecalibrator
    >>> class ShiftRecalibrator(BaseRecalibrator):
    ...     def _fit(self, dist, y, weight):
    ...         self.shift_ = np.average(y - dist.mean(), weights=weight)
    ...     def _transform(self, dist):
    ...         return affine(dist, self.shift_, 1.0)
    >>> dist = Normal(np.arange(20.0), 1.0)
    >>> ShiftRecalibrator().fit(dist, np.arange(20.0) + 0.5).predict(dist[:2])
    array([0.5, 1.5])
    """

    # The first argument is the data, not metadata to route; scikit-learn excludes only "X" by itself.
    __metadata_request__fit: Mapping[str, str] = _NOT_METADATA
    __metadata_request__transform: Mapping[str, str] = _NOT_METADATA
    __metadata_request__predict: Mapping[str, str] = _NOT_METADATA

    _learns_by_rows: ClassVar[bool] = True
    """Whether few rows make the recalibrated intervals unreliable without a warning of their own."""

    @abstractmethod
    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        """Learn from checked input; rows of zero weight are gone, and weights count repetitions."""

    @abstractmethod
    def _transform(self, dist: Distribution) -> Distribution:
        """Return the recalibrated distribution of each row."""

    def fit(
        self, dist: Distribution | ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the recalibration from predictions and what was then observed.

        Parameters
        ----------
        dist : Distribution of n rows, or array-like of shape (n, 2)
            Predictions for rows that the model was not trained on; two columns are loc and scale of
            a Gaussian.
        y : array-like of shape (n,)
            Observed target, in the units of the predictions.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : object
            The fitted recalibrator.

        Raises
        ------
        TypeError
            If `dist` is neither of the two kinds.
        ValueError
            If values or lengths are not valid.

        Warns
        -----
        SmallSampleWarning
            If there are fewer than 12 rows, unless nothing is learned from them or intervals are conformal.
        """
        checked = check_dist(dist)
        n = len(checked)
        target = check_target(y, "y", n)
        weight = check_sample_weight(sample_weight, n)
        if weight is not None and not weight.all():
            rows = np.flatnonzero(weight)
            checked, target, weight = checked[rows], target[rows], weight[rows]
        with few_rows_reported():  # of the recalibrators that this one fits
            self._fit(checked, target, weight)
        if self._learns_by_rows:
            warn_of_few_rows(repeated_rows(weight, len(target)))
        self.n_features_in_ = 2
        return self

    def transform(self, dist: Distribution | ArrayLike) -> Distribution:
        """Return the recalibrated predictive distributions.

        Parameters
        ----------
        dist : Distribution of n rows, or array-like of shape (n, 2)
            Predictions of the model that the recalibrator was fitted for.

        Returns
        -------
        recalibrated : Distribution of n rows
            In the units of `dist`.
        """
        check_is_fitted(self)
        return self._transform(check_dist(dist))

    def predict_dist(self, dist: Distribution | ArrayLike) -> Distribution:
        """Return the recalibrated predictive distributions; the same as `transform`.

        Parameters
        ----------
        dist : Distribution of n rows, or array-like of shape (n, 2)
            Predictions of the model that the recalibrator was fitted for.

        Returns
        -------
        recalibrated : Distribution of n rows
            In the units of `dist`.
        """
        return self.transform(dist)

    def predict(self, dist: Distribution | ArrayLike) -> FloatArray:
        """Return the point prediction: the mean of the recalibrated distribution.

        Parameters
        ----------
        dist : Distribution of n rows, or array-like of shape (n, 2)
            Predictions of the model that the recalibrator was fitted for.

        Returns
        -------
        y_pred : ndarray of shape (n,)
            In the units of `dist`.
        """
        return self.transform(dist).mean()

    def __sklearn_tags__(self) -> Tags:
        """Return tags by which the input is a distribution and not a feature matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags
