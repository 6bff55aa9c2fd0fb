"""Sharpness: the concentration of the forecasts. It does not depend on the targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option
from skuq.distributions import Distribution, as_distribution
from skuq.metrics._inputs import check_forecast_alone, finite_moment
from skuq.metrics._spec import Means, first_column, metric, value_of

SHARPNESS_KINDS = ("std", "rms", "variance")


def predicted_std(y: FloatArray, dist: Distribution) -> FloatArray:
    return finite_moment(dist, "std")


def predicted_variance(y: FloatArray, dist: Distribution) -> FloatArray:
    return np.square(finite_moment(dist, "std"))


def dispersion(kind: str) -> Means:
    if check_option(kind, "kind", SHARPNESS_KINDS) == "std":
        return Means(predicted_std)
    if kind == "variance":
        return Means(predicted_variance)
    return Means(predicted_variance, lambda means: np.sqrt(first_column(means)))


@metric(
    "sharpness",
    title="Sharpness",
    units=1,
    bounds=(0.0, np.inf),
    needs="moments",
    source="Chung et al. 2021, appendix A.3",
    meaning="the predicted standard deviation is {value} on average",
    kernel=dispersion,
)
def sharpness(
    y_true: ArrayLike | None, y_pred: Any, *, sample_weight: ArrayLike | None = None, kind: str = "std"
) -> float:
    r"""Return the sharpness: the mean predicted standard deviation.

    The smaller the better among calibrated models, minimum is zero. Sharpness depends on the forecasts alone,
    so report it with a calibration metric. The metric is not proper: a model that predicts standard
    deviations of 0 has the best value, even if its predictions are wrong (see the example). Do not select
    models by this metric.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Observed targets. They are validated but not used. The argument exists because all metrics have it.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. The standard deviation must be finite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    kind : {"std", "rms", "variance"}, default="std"
        "std" is the mean of the standard deviations (text of [1]_). "rms" is the root of the mean variance
        (code of [1]_). "variance" is the mean variance, in squared units of y.

    Returns
    -------
    sharpness : float
        In the units of y.

    See Also
    --------
    mean_interval_width : The mean width of the intervals.

    Notes
    -----
    .. math:: \frac1n \sum_i \sigma_i

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, appendix A.3. https://doi.org/10.48550/arXiv.2109.10254

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import sharpness
    >>> dist = Normal([0.0, 0.0], [1.0, 3.0])
    >>> sharpness([0.0, 0.0], dist), round(sharpness(None, dist, kind="rms"), 4)
    (2.0, 2.2361)

    A wrong point forecast is also sharp:

    >>> sharpness([5.0, -3.0], Normal([0.0, 0.0], [0.0, 0.0]))
    0.0
    """
    given = check_forecast_alone(y_true, as_distribution(y_pred, y_true=y_true), sample_weight)
    return value_of(dispersion(kind), *given)
