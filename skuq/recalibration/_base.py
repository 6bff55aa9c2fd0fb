"""Base class of the recalibrators, and two recalibrators that learn nothing."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skuq._compat import versioned
from skuq._fitting.base_regressor import get_feature_names_out, set_output
from skuq._fitting.support import read_support
from skuq._typing import ArrayLike, FloatArray, Frozen, SupportLike
from skuq._validation import (
    check_sample_weight,
    check_target,
    few_rows_reported,
    repeated_rows,
    warn_of_few_rows,
)
from skuq.distributions import Distribution, as_distribution
from skuq.distributions._convert import check_not_one_row

NOT_METADATA = {"dist": UNUSED}

_IN_A_PIPELINE = (
    "\n\nIn a Pipeline, make a skuq regressor the step before the recalibrator. The `transform` of a "
    "regressor returns a Distribution. A FeatureUnion or a ColumnTransformer stacks arrays, and loses it."
)


def check_dist(dist: Any, y: Any = None) -> Distribution:
    """Return the input as a Distribution."""
    try:
        return as_distribution(dist, "dist", y)
    except TypeError as error:
        if not isinstance(dist, np.ndarray):
            raise
        raise TypeError(f"{error}{_IN_A_PIPELINE}") from None


def check_observed(
    dist: Any, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Distribution, FloatArray, FloatArray]:
    """Return the distributions, the targets and the weights of the rows with positive weight.

    Without weights, the weights are ones.
    """
    checked = check_dist(dist, y)
    n = len(checked)
    check_not_one_row(checked, y, "dist", "y")
    target = check_target(y, "y", n)
    weight = check_sample_weight(sample_weight, n)
    if weight is None:
        return checked, target, np.ones(n)
    if not weight.all():
        rows = np.flatnonzero(weight)
        checked, target, weight = checked[rows], target[rows], weight[rows]
    return checked, target, weight


@versioned
class BaseRecalibrator(  # type: ignore[call-arg]
    RegressorMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None, metaclass=ABCMeta
):
    """Base class of the recalibrators.

    A subclass implements ``_fit(dist, y, weight)`` and ``_transform(dist)``. Both methods get checked
    input. ``_fit`` stores its results in attributes whose names end with an underscore. ``weight`` is an
    array with the number of repetitions of each row. These numbers are positive, because the base class
    removes rows with weight 0. Without weights, they are ones. ``_transform`` returns a Distribution with
    the same number of rows. The subclass can then be fitted with ``fit(dist, y)``. It can be the last
    step of a Pipeline, and GridSearchCV can tune it if ``dist`` is passed as X. If a recalibrator is
    valid for any number of rows, set the class attribute ``_learns_by_rows = False``. Then no warning
    about few rows is issued.

    See Also
    --------
    IdentityRecalibrator : No recalibration.
    StdScalingRecalibrator : One factor for all standard deviations.
    BinnedScalingRecalibrator : One factor for each bin of predicted standard deviations.
    VarianceIsotonicRecalibrator : A variance that increases with the predicted variance.
    OperatingPointRecalibrator : Intervals with a given miss rate or with the lowest cost.
    IsotonicRecalibrator : A monotone function of the probability levels.
    ShrunkIsotonicRecalibrator : The same function, shrunk toward no recalibration.
    IsotonicDistributionalRecalibrator : The distribution of the targets of rows with similar predictions.
    EmpiricalRecalibrator : The distribution of the standardized residuals.
    OnlineRecalibrator : A map of the probability levels that adapts to a sequence.
    QuantileShiftRecalibrator : One shift for the quantiles of each level.
    skuq.conformal.ConformalRecalibrator : Intervals with guaranteed coverage.
    GPNormalRecalibrator : A factor that depends on the prediction.
    GPBetaRecalibrator : A function of the probability levels that depends on the prediction.
    GPCauchyRecalibrator : Cauchy distributions with a scale that depends on the prediction.
    SupportMap : Restriction to the possible values of the target.

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

    # scikit-learn would treat `dist` as metadata, because its name is not "X".
    __metadata_request__fit: Mapping[str, str] = NOT_METADATA
    __metadata_request__transform: Mapping[str, str] = NOT_METADATA
    __metadata_request__predict: Mapping[str, str] = NOT_METADATA

    _learns_by_rows: ClassVar[bool] = True
    """Whether `fit` issues a SmallSampleWarning for few rows."""

    @abstractmethod
    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        """Fit to checked input.

        ``weight`` is the number of repetitions of each row. The numbers are positive, because the base class
        removes rows with weight 0.
        """

    @abstractmethod
    def _transform(self, dist: Distribution) -> Distribution:
        """Return the recalibrated distribution of each row."""

    def fit(self, dist: Distribution | Frozen, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the recalibration to predictions and observed targets.

        Parameters
        ----------
        dist : Distribution or frozen scipy distribution of n rows
            Predictions for rows that the model was not trained on.
        y : array-like of shape (n,)
            Observed targets, in the units of the predictions.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : object
            The fitted recalibrator.

        Raises
        ------
        TypeError
            If `dist` is not a Distribution. The message contains the lines that make a Distribution of an
            array or a tuple.
        ValueError
            If values or lengths are invalid.

        Warns
        -----
        SmallSampleWarning
            If `dist` has fewer than 12 rows, except for identity and conformal recalibrators.
        """
        checked, target, weight = check_observed(dist, y, sample_weight)
        with few_rows_reported():  # one warning, also for inner recalibrators
            self._fit(checked, target, weight)
        if self._learns_by_rows:
            warn_of_few_rows(repeated_rows(weight, len(target)))
        self.n_features_in_ = 2
        return self

    def transform(self, dist: Distribution | Frozen) -> Distribution:
        """Return the recalibrated distribution of each row.

        Parameters
        ----------
        dist : Distribution or frozen scipy distribution of n rows
            Predictions of the model for which the recalibrator was fitted.

        Returns
        -------
        recalibrated : Distribution of n rows
            In the units of `dist`.
        """
        check_is_fitted(self)
        return self._transform(check_dist(dist))

    def predict_dist(self, dist: Distribution | Frozen) -> Distribution:
        """Return the recalibrated distribution of each row. This method is the same as `transform`.

        Parameters
        ----------
        dist : Distribution or frozen scipy distribution of n rows
            Predictions of the model for which the recalibrator was fitted.

        Returns
        -------
        recalibrated : Distribution of n rows
            In the units of `dist`.
        """
        return self.transform(dist)

    def predict(self, dist: Distribution | Frozen) -> FloatArray:
        """Return the point prediction of each row: the mean of the recalibrated distribution.

        Parameters
        ----------
        dist : Distribution or frozen scipy distribution of n rows
            Predictions of the model for which the recalibrator was fitted.

        Returns
        -------
        y_pred : ndarray of shape (n,)
            In the units of `dist`.
        """
        return self.transform(dist).mean()

    set_output = set_output
    get_feature_names_out = get_feature_names_out

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Prevent scikit-learn from wrapping the Distribution that `transform` returns."""
        kwargs["auto_wrap_output_keys"] = None
        super().__init_subclass__(**kwargs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []
        return tags


class IdentityRecalibrator(BaseRecalibrator):
    """Return each predictive distribution unchanged.

    Use this class in a grid search as the candidate without recalibration. "passthrough" cannot be used for
    this purpose, because a Pipeline that ends with "passthrough" has no ``predict``.

    See Also
    --------
    StdScalingRecalibrator : One factor for all standard deviations.
    IsotonicRecalibrator : A monotone function of the probability levels.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import IdentityRecalibrator
    >>> dist = Normal([0.0, 1.0], [1.0, 2.0])
    >>> IdentityRecalibrator().fit(dist, [0.5, 1.5]).transform(dist) is dist
    True
    """

    _learns_by_rows = False

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        pass

    def _transform(self, dist: Distribution) -> Distribution:
        return dist


class SupportMap(BaseRecalibrator):
    """Restrict forecasts to the possible values of the target, such as counts.

    The step clips each forecast to the bounds: the probability beyond a bound becomes an atom at this bound.
    If the possible values are integers, the step also rounds the forecast. Use the step as the last step of a
    Pipeline, after other recalibrators. Most regressors of skuq have the parameter ``support`` with the same
    effect. To give a value inside the bounds a positive probability, use `~skuq.regressors.HurdleRegressor`.

    Parameters
    ----------
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. None means all real numbers, so the
        step changes nothing. Use None as the baseline of a grid search.

    See Also
    --------
    Supported : The distribution that the step returns.
    skuq.regressors.UncertaintyRegressor : A regressor with the parameter ``support``.

    Notes
    -----
    Clipping never increases the CRPS of a row. Rounding may increase the CRPS of individual rows. In
    ``benchmarks/kinds_of_target.py``, "count" decreases the mean CRPS of simulated counts by 1 to 3 % for
    means below 5. It has no effect for a mean of 200. Intervals of rounded forecasts cover at least as often
    as intervals of the original forecasts.

    `fit` does not estimate anything. It raises a ValueError if a target is outside the support.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import SupportMap
    >>> dist = Normal([0.5, 6.0], [1.0, 2.0])
    >>> SupportMap("count").fit(dist, [0, 7]).transform(dist).interval(0.9)
    array([[0., 2.],
           [3., 9.]])
    """

    _learns_by_rows = False

    def __init__(
        self,
        support: SupportLike = None,
    ) -> None:
        self.support = support

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        support = read_support(self.support)
        if support is not None:
            support.check(y, self.support)

    def _transform(self, dist: Distribution) -> Distribution:
        support = read_support(self.support)
        return dist if support is None else support.apply(dist)
