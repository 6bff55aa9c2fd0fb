"""The Kaplan-Meier curve, and weights of observed rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skuq._censoring import StepSurvival, event_weights, product_limit, read_event, require_events
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import (
    as_float_array,
    check_no_nan,
    check_option,
    check_sample_weight,
    check_single_coverage,
    check_target,
)


def censoring_weights(
    y: ArrayLike, event: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
) -> FloatArray:
    r"""Return the inverse probability of censoring weights (IPCW) of all rows.

    The weighted observed rows represent all rows, including the censored rows. Pass the weights as
    ``sample_weight`` to a metric, a recalibrator or a display that does not take ``event``.

    Parameters
    ----------
    y : array-like of shape (n,)
        Target of an observed row, and time of censoring of a censored row.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    weight : ndarray of shape (n,)
        The weight of a censored row is 0. Without `sample_weight`, the weight of an observed row is at least
        1. The sum of the weights is the number of rows. If the largest y is censored, the sum is smaller.

    Raises
    ------
    ValueError
        If all targets are censored.

    See Also
    --------
    skuq.survival.CensoringWeightedRegressor : Regressor that is fitted with these weights.
    skuq.survival.ipcw_crps_loss : CRPS up to a time with these weights.

    Notes
    -----
    The weight of an observed row is :math:`1 / \hat G(y-)`. :math:`\hat G(y-)` is the Kaplan-Meier estimate
    of the probability that the censoring time is at least y. The weights are valid if the censoring depends
    neither on the target nor on the features. If the largest y is censored, the weights represent only the
    targets below the largest observed target.

    Examples
    --------
    >>> from skuq.survival import censoring_weights
    >>> censoring_weights([1.0, 2.0, 3.0, 4.0], [True, False, True, True])
    array([1. , 0. , 1.5, 1.5])
    """
    target, mask, weight = _read(y, event, sample_weight)
    require_events(mask, weight)
    return event_weights(target, mask, weight)


@dataclass(frozen=True, eq=False)
class KaplanMeierCurve:
    """Kaplan-Meier estimate of a survival curve; returned by `kaplan_meier_curve`.

    The curve is a step function. Its value at a time is the share of targets that are larger than the time.

    Parameters
    ----------
    times : ndarray of shape (k,)
        Distinct times in ascending order, in the units of y.
    survival : ndarray of shape (k,)
        Share of targets that are larger than each time, in [0, 1].
    low, high : ndarray of shape (k,)
        Bounds of the pointwise confidence interval, in [0, 1].

    Examples
    --------
    >>> from skuq.survival import kaplan_meier_curve
    >>> curve = kaplan_meier_curve([1.0, 2.0, 3.0, 4.0], [True, False, True, True])
    >>> curve([0.5, 1.0, 3.5])
    array([1.   , 0.75 , 0.375])
    """

    times: FloatArray
    survival: FloatArray
    low: FloatArray
    high: FloatArray

    def __call__(self, t: ArrayLike) -> FloatArray:
        """Return the share of targets that are larger than each time.

        Parameters
        ----------
        t : array-like of any shape
            Times in the units of y.

        Returns
        -------
        survival : ndarray of the shape of `t`
            In [0, 1]. It is 1 before the first time, and constant after the last time.
        """
        steps = StepSurvival(self.times, self.survival, np.empty(0))
        return steps.after(check_no_nan(as_float_array(t, "t"), "t"))


def kaplan_meier_curve(
    y: ArrayLike,
    event: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    confidence: float = 0.95,
    reverse: bool = False,
) -> KaplanMeierCurve:
    r"""Return the Kaplan-Meier estimate of a survival curve under right censoring.

    The estimate assumes that the censoring does not depend on the target. The curve does not depend on
    features. For a curve that depends on features, use `~skuq.survival.CensoredBoostingRegressor`.

    Parameters
    ----------
    y : array-like of shape (n,)
        Target of an observed row, and time of censoring of a censored row.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    confidence : float, default=0.95
        Nominal probability of the pointwise confidence intervals. Strictly between 0 and 1.
    reverse : bool, default=False
        Whether to estimate the survival curve of the censoring times instead of the targets.

    Returns
    -------
    curve : KaplanMeierCurve
        A function of time, with the attributes ``times``, ``survival``, ``low`` and ``high``.

    Raises
    ------
    ValueError
        If all targets are censored and `reverse` is False.

    See Also
    --------
    censoring_weights : Weights of observed rows.

    Notes
    -----
    .. math:: \hat S(t) = \prod_{t_j \le t} \Bigl(1 - \frac{d_j}{n_j}\Bigr)

    with :math:`d_j` events and :math:`n_j` rows at risk at the time :math:`t_j` [1]_. If an event and a
    censoring have the same time, the event counts as earlier. The confidence intervals use Greenwood's
    variance and are symmetric on the scale of :math:`\log(-\log S)`. After the curve reaches 0, the interval
    is [0, 1]. The cost is O(n log n).

    References
    ----------
    .. [1] E. L. Kaplan, P. Meier (1958), Nonparametric estimation from incomplete observations.
       https://doi.org/10.1080/01621459.1958.10501452

    Examples
    --------
    >>> from skuq.survival import kaplan_meier_curve
    >>> curve = kaplan_meier_curve([1.0, 2.0, 3.0, 4.0], [True, False, True, True])
    >>> curve.survival, curve.low.round(2)
    (array([0.75 , 0.75 , 0.375, 0.   ]), array([0.13, 0.13, 0.01, 0.  ]))
    """
    target, mask, weight = _read(y, event, sample_weight)
    level = check_single_coverage(confidence, "confidence")
    if not check_option(reverse, "reverse", (True, False)):
        require_events(mask, weight)
    steps = product_limit(target, mask, weight, of_censoring=reverse)
    return KaplanMeierCurve(steps.times, steps.survival, *steps.interval(level))


def _read(
    y: ArrayLike, event: ArrayLike | None, sample_weight: ArrayLike | None
) -> tuple[FloatArray, BoolArray | None, FloatArray]:
    target = check_target(y, "y")
    weight = check_sample_weight(sample_weight, target.size)
    return target, read_event(event, target.size), np.ones(target.size) if weight is None else weight
