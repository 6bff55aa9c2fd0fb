"""Uncertainty characteristics curve: the trade of bandwidth against misses as the bands are scaled."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option
from skuq.metrics._inputs import check_moments
from skuq.metrics._kernels import weighted_mean
from skuq.metrics._spec import metric

DENOMINATORS = ("constant", "model")


@metric(
    "auucc_gain",
    title="AUUCC gain",
    units=0,
    direction="higher",
    optimum=1.0,
    needs="moments",
    proper=False,
    source="Navratil et al. 2023, eq. 5 and proposition 1",
)
def auucc_gain_score(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    denominator: str = "constant",
) -> float:
    r"""AUUCC gain: how much better the predicted bands trade width for misses than constant bands do.

    Does it pay that the uncertainty differs between rows? The bands are one standard deviation to either side
    of the mean; scaling them traces the uncertainty characteristics curve of mean bandwidth and miss rate,
    and the gain compares the area under it with that of constant bands around the same means. It does not
    change when all standard deviations are multiplied by one number, so it says nothing about calibration.

    It is not proper. It equals Cov(k, sigma) / MAE with k = \|error\| / sigma: for the true sigma of a
    location-scale family its expected value is 0, as for constant bands, and it prefers the square root of
    the true sigma (see the example). Select by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecasts with finite mean and standard deviation.
    sample_weight : array-like of shape (n,), default=None
        Repetitions of each row.
    denominator : {"constant", "model"}, default="constant"
        Relate the difference of the areas to that of the constant bands (eq. 5 of [1]_) or to the model's
        own (the package UQ360).

    Returns
    -------
    gain : float
        A fraction, not percent; higher is better, at most 1; 0 for constant bands. Minus infinity (with
        ``denominator="model"``, -1) if a row has an error but a sigma of 0, which no scaling repairs. 0 if
        all errors are 0.

    See Also
    --------
    expected_normalized_calibration_error : Whether the bands have the right size.

    Notes
    -----
    .. math:: G = \frac{A_\mathrm{const} - A}{A_\mathrm{const}}, \quad
        A = \Big(\frac1n \sum_i \sigma_i\Big) \Big(\frac1n \sum_i \frac{|y_i - \mu_i|}{\sigma_i}\Big), \quad
        A_\mathrm{const} = \frac1n \sum_i |y_i - \mu_i|

    The area of the step curve is exact: by proposition 1 of [1]_ it is the mean, over the rows, of the mean
    bandwidth at their critical scales. O(n).

    References
    ----------
    .. [1] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, eq. 5. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import auucc_gain_score, crps_loss
    >>> rng = np.random.default_rng(0)
    >>> sigma = np.exp(rng.normal(size=20_000))
    >>> y = sigma * rng.normal(size=20_000)
    >>> truth, wrong = (0 * sigma, sigma), (0 * sigma, np.sqrt(sigma))
    >>> [round(auucc_gain_score(y, dist), 2) for dist in (truth, wrong)]
    [0.0, 0.22]
    >>> crps_loss(y, truth) < crps_loss(y, wrong)
    True
    """
    check_option(denominator, "denominator", DENOMINATORS)
    y, mean, std, weight = check_moments(y_true, y_pred, sample_weight)
    model = curve_area(y - mean, std, std, weight)
    constant = weighted_mean(np.abs(y - mean), weight)
    return relative_gain(model, constant, denominator)


def critical_scales(error: FloatArray, lower_band: FloatArray, upper_band: FloatArray) -> FloatArray:
    """Return k at which the active band just reaches the target (eq. 8); 0 / 0 is 0, other x / 0 inf."""
    band = np.where(error >= 0, upper_band, lower_band)
    k = np.where(error == 0, 0.0, np.inf)
    np.divide(np.abs(error), band, out=k, where=band > 0)
    return k


def curve_area(
    error: FloatArray, lower_band: FloatArray, upper_band: FloatArray, weight: FloatArray | None
) -> float:
    """Return the exact area under the step curve of bandwidth and miss rate (proposition 1)."""
    bandwidth = weighted_mean((lower_band + upper_band) / 2, weight)
    k = weighted_mean(critical_scales(error, lower_band, upper_band), weight)
    return k if k in (0.0, np.inf) else bandwidth * k  # with no band at all, the curve never leaves the axis


def relative_gain(model: float, constant: float, denominator: str) -> float:
    """Return (A_const - A) / A_const, or over A."""
    if constant == 0:
        return 0.0
    if denominator == "constant":
        return (constant - model) / constant
    return constant / model - 1.0
