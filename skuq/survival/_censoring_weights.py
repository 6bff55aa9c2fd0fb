"""Inverse probability of censoring weights."""

from __future__ import annotations

from skuq._censoring import event_weights, read_event, require_events
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_sample_weight, check_target


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
    target = check_target(y, "y")
    mask = read_event(event, target.size)
    weight = check_sample_weight(sample_weight, target.size)
    require_events(mask, weight)
    return event_weights(target, mask, weight)
