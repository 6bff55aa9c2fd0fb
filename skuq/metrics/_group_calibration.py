"""Group calibration: whether rows of like predicted uncertainty have errors of that size."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_integer, check_option
from skuq.metrics._inputs import check_moments
from skuq.metrics._spec import metric

STRATEGIES = ("quantile", "uniform")

SAME = 1e-9
"""Keys that differ relatively by less are one: what tells them apart may be rounding alone."""


@metric(
    "ence",
    title="ENCE",
    units=0,
    direction="lower",
    optimum=0.0,
    needs="moments",
    proper=False,
    small_sample=True,
    source="Levi et al. 2022; Wibbeke et al. 2025, eq. 14-16",
)
def expected_normalized_calibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 10,
    strategy: str = "quantile",
) -> float:
    r"""Relative gap between predicted and observed error size, bin by bin (ENCE).

    Where the model says sigma, is the error of that size? The expected normalized calibration error:
    rows are binned by their predicted standard deviation and in each bin its root mean square is compared
    with the RMSE. It needs only mean and standard deviation and works for every family, but is not proper: a
    forecast that ignores X, constant mean and constant sigma, is calibrated and beats a useful model that is
    a little off (see the example). Use it as a constraint (`skuq.model_selection.refit_best`), and select by
    `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecasts with finite mean and standard deviation.
    sample_weight : array-like of shape (n,), default=None
        Repetitions of each row.
    n_bins : int, default=10
        Number of bins; about 100 rows a bin suffice [2]_.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal total weight, as in [1]_: a row, or several of the same sigma, on the edge of two bins
        counts in both in proportion, so that the order of rows never matters (sigmas that agree to nine
        digits are the same). Or bins of equal width from the smallest to the largest sigma, empty ones left
        out, as in the package netcal. A constant sigma is one bin either way.

    Returns
    -------
    error : float
        Non-negative; lower is better, at best 0. A calibrated Gaussian forecast has an expected value of
        about ``sqrt(n_bins / (pi * n))``, more where sigmas differ widely inside a bin. Infinite if
        errors occur where sigma is 0.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    mean_absolute_calibration_error : Calibration of the probabilities, over all rows.

    Notes
    -----
    .. math:: \mathrm{ENCE} = \frac1B \sum_{b} \frac{|\mathrm{RMV}(b) - \mathrm{RMSE}(b)|}{\mathrm{RMV}(b)}

    with :math:`\mathrm{RMV}(b)^2` the mean of :math:`\sigma_i^2` and :math:`\mathrm{RMSE}(b)^2` that of
    :math:`(y_i - \mu_i)^2` in bin b. One sort, O(n log n).

    References
    ----------
    .. [1] Levi et al. (2022), Evaluating and calibrating uncertainty prediction in regression tasks.
       https://doi.org/10.3390/s22155540
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 14-16 and
       section 5. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import crps_loss, expected_normalized_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = (x, np.full(2000, 0.4))  # knows x, a little underconfident
    >>> ignorant = (np.zeros(2000), np.full(2000, np.sqrt(1.09)))  # states the same for every row
    >>> [round(expected_normalized_calibration_error(y, dist), 2) for dist in (useful, ignorant)]
    [0.25, 0.0]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, ignorant)]
    [0.17, 0.59]
    """
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)
    y, mean, std, weight = check_moments(y_true, y_pred, sample_weight)
    _, mean_square = bin_means(std, (np.square(std), np.square(y - mean)), n_bins, strategy, weight)
    return normalized_calibration_error(*np.sqrt(mean_square))


def normalized_calibration_error(rmv: FloatArray, rmse: FloatArray) -> float:
    """Return the mean of |RMV - RMSE| / RMV over the bins; 0 / 0, certain and right, counts as 0."""
    gap = np.abs(rmv - rmse)
    relative = np.full_like(gap, np.inf)
    relative[gap == 0] = 0.0
    np.divide(gap, rmv, out=relative, where=rmv > 0)
    return float(relative.mean())


def bin_means(
    key: FloatArray, columns: tuple[FloatArray, ...], n_bins: int, strategy: str, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the weight of each bin of `key`, shape (b,), and the means of the columns in it, shape (c, b).

    Bins without rows are left out.
    """
    if key.max() - key.min() <= SAME * np.abs(key).max():
        n_bins = 1
    binned = _equal_count_sums if strategy == "quantile" else _equal_width_sums
    total, sums = binned(key, columns, n_bins, np.ones_like(key) if weight is None else weight)
    occupied = total > 0
    return total[occupied], sums[:, occupied] / total[occupied]


def _equal_width_sums(
    key: FloatArray, columns: tuple[FloatArray, ...], n_bins: int, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return weight and weighted sums in bins of equal width; the last bin holds its right edge."""
    edges = np.linspace(key.min(), key.max(), n_bins + 1)
    place = np.searchsorted(edges[1:-1], key, side="right")
    total = np.bincount(place, weight, n_bins)
    sums = [np.bincount(place, weight * column, n_bins) for column in columns]
    return np.asarray(total, dtype=np.float64), np.asarray(sums, dtype=np.float64)


def _equal_count_sums(
    key: FloatArray, columns: tuple[FloatArray, ...], n_bins: int, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return weight and weighted sums in bins of equal total weight.

    On the axis of cumulative weight every distinct key is a stretch as long as its weight. The edges of the
    bins cut some stretches; each piece lies in one bin and carries its key's means in proportion.
    """
    order = np.argsort(key)
    ordered = key[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-np.inf) > SAME * np.abs(ordered))
    group_weight = np.add.reduceat(weight[order], starts)
    ends = np.cumsum(group_weight)
    edges = ends[-1] * (np.arange(1, n_bins) / n_bins)
    cuts = np.sort(np.concatenate([ends, edges]))
    pieces = np.diff(cuts, prepend=0.0)
    group = np.minimum(np.searchsorted(ends, cuts, side="left"), ends.size - 1)
    place = np.searchsorted(edges, cuts, side="left")
    means = [np.add.reduceat((weight * column)[order], starts) / group_weight for column in columns]
    total = np.bincount(place, pieces, n_bins)
    sums = [np.bincount(place, pieces * mean[group], n_bins) for mean in means]
    return np.asarray(total, dtype=np.float64), np.asarray(sums, dtype=np.float64)
