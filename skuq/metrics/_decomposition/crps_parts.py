"""Miscalibration, discrimination and uncertainty of the CRPS."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._units import unit_of
from skuq._validation import check_increasing
from skuq.distributions import Distribution
from skuq.metrics._decomposition.sections import BLOCK, QuantileSections
from skuq.metrics._inputs import check_forecast
from skuq.metrics._kernels import level_grid
from skuq.metrics._spec import FastPath, WeightFunction, metric

DEFAULT_LEVELS = 19

SOURCE = "Arnold et al. 2024"


def crps_levels(*, levels: int | ArrayLike = DEFAULT_LEVELS) -> tuple[FloatArray, FloatArray]:
    if isinstance(levels, int | np.integer):
        m = level_grid(levels).size
        return (np.arange(m) + 0.5) / m, np.full(m, 2 / m)
    grid = check_increasing(level_grid(levels), "levels")
    edges = np.concatenate([[0.0], (grid[1:] + grid[:-1]) / 2, [1.0]])
    return grid, 2 * np.diff(edges)


def crps_sections(dist: Distribution, levels: int | ArrayLike, unit: float) -> QuantileSections:
    return _sections(dist, *crps_levels(levels=levels), unit)


def _sections(dist: Distribution, grid: FloatArray, share: FloatArray, unit: float) -> QuantileSections:
    forecast = np.ascontiguousarray(dist.quantile(grid).T)
    forecast /= unit
    return QuantileSections(forecast, grid, share)


class _PartOfWeights:
    """One part of the CRPS, as a function of the weights of the rows."""

    def __init__(self, column: int, y: FloatArray, dist: Distribution, levels: int | ArrayLike) -> None:
        self.column, self.unit, self.dist = column, unit_of(y), dist
        self.y = y[np.newaxis] / self.unit
        self.grid, self.share = crps_levels(levels=levels)
        self.size = max(
            BLOCK // max(y.size, 1), 1
        )  # levels at once: the memory does not grow with the levels
        self.kept = self._block(0) if self.size >= self.grid.size else None

    def _block(self, start: int) -> QuantileSections:
        block = slice(start, start + self.size)
        return _sections(self.dist, self.grid[block], self.share[block], self.unit)

    def __call__(self, weight: FloatArray | None) -> float:
        total, weights = 0.0, None if weight is None else weight[np.newaxis]
        for start in range(0, self.grid.size, self.size):
            sections = self._block(start) if self.kept is None else self.kept
            total += float(sections.parts(self.y, weights)[0, :, self.column] @ sections.share)
        return max(self.unit * total, 0.0)  # The parts are not negative up to rounding.


def miscalibration_of_weights(
    y: FloatArray, dist: Distribution, *, levels: int | ArrayLike = DEFAULT_LEVELS
) -> WeightFunction:
    return _PartOfWeights(0, y, dist, levels)


def discrimination_of_weights(
    y: FloatArray, dist: Distribution, *, levels: int | ArrayLike = DEFAULT_LEVELS
) -> WeightFunction:
    return _PartOfWeights(1, y, dist, levels)


def uncertainty_of_weights(
    y: FloatArray, dist: Distribution, *, levels: int | ArrayLike = DEFAULT_LEVELS
) -> WeightFunction:
    return _PartOfWeights(2, y, dist, levels)


@metric(
    "crps_miscalibration",
    title="CRPS miscalibration",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="distribution",
    proper=False,
    small_sample=True,
    source=SOURCE,
    meaning="a recalibration to these rows would lower the CRPS by {value}",
    crps_part="miscalibration",
    fast=FastPath(of_weights=miscalibration_of_weights),
    check=crps_levels,
)
def crps_miscalibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = DEFAULT_LEVELS,
) -> float:
    r"""Return the miscalibration of the CRPS, the loss that an isotonic recalibration would remove.

    The smaller the better, minimum is zero. The metric is not proper: the marginal distribution of the
    targets as the forecast of every row has almost no miscalibration. Do not select models by this metric
    alone. Select by `crps_loss`, and use the metric as a constraint, or together with
    `crps_discrimination_score`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int, float or array-like of shape (k,), default=19
        Quantile levels. An integer m means the centers of m cells of equal width. Increasing levels have the
        widths of their cells as shares.

    Returns
    -------
    error : float
        In the units of y.

    Warns
    -----
    SmallSampleWarning
        With fewer than 500 rows.

    See Also
    --------
    crps_discrimination_score : The part of the CRPS that rewards forecasts that differ between rows.
    skuq.evaluation.score_decomposition : All parts, with the limit of a calibrated forecast.
    skuq.evaluation.compare_score_decompositions : Intervals of the differences between two models.

    Notes
    -----
    With the mean CRPS S of the forecast F and of the isotonic recalibration :math:`F^{rc}`,

    .. math:: \mathrm{MCB} = S(F) - S(F^{rc}).

    At each level, the recalibrated quantile is the increasing function of the predicted quantile with the
    smallest pinball loss on the same rows. A calibrated forecast therefore has a positive miscalibration,
    which is 15 % of the CRPS with 100 rows and 4 % with 1000 rows. Rows that are repeated in a bootstrap
    resample increase the miscalibration, so that percentile and BCa intervals are too high. The cost is
    O(n log n) per level.

    References
    ----------
    .. [1] Arnold, Walz, Ziegel and Gneiting (2024), Decompositions of the mean continuous ranked probability
       score. https://doi.org/10.1214/24-EJS2316

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import crps_miscalibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> y = x + rng.normal(size=1000)
    >>> forecasts = {"true": (x, 1.0), "biased": (x + 0.5, 1.0), "marginal": (0.0, 2**0.5)}
    >>> for name, (loc, scale) in forecasts.items():
    ...     dist = (np.broadcast_to(loc, 1000), np.full(1000, scale))
    ...     print(name, round(crps_miscalibration_error(y, dist), 3))
    true 0.028
    biased 0.097
    marginal 0.001
    """
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    return miscalibration_of_weights(y, dist, levels=levels)(weight)


@metric(
    "crps_discrimination",
    title="CRPS discrimination",
    units=1,
    direction="higher",
    optimum=None,
    bounds=(0.0, np.inf),
    needs="distribution",
    proper=False,
    source=SOURCE,
    meaning="a recalibration to these rows has a CRPS {value} below the best constant forecast",
    crps_part="discrimination",
    fast=FastPath(of_weights=discrimination_of_weights),
    check=crps_levels,
)
def crps_discrimination_score(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = DEFAULT_LEVELS,
) -> float:
    r"""Return the discrimination of the CRPS, the gain of the recalibrated over a constant forecast.

    The larger the better, minimum is zero. The metric is not proper: only the order of the predicted
    quantiles counts, so that a biased or overconfident forecast may have the same discrimination as the true
    distribution. The metric compares models that are recalibrated later.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int, float or array-like of shape (k,), default=19
        Quantile levels. An integer m means the centers of m cells of equal width. Increasing levels have the
        widths of their cells as shares.

    Returns
    -------
    score : float
        In the units of y, at most `crps_uncertainty`.

    See Also
    --------
    crps_miscalibration_error : The loss that a recalibration would remove.
    skuq.evaluation.score_decomposition : All parts, with the limit of a calibrated forecast.

    Notes
    -----
    With the mean CRPS S of the isotonic recalibration :math:`F^{rc}` and of the best constant forecast
    :math:`F^{mg}`,

    .. math:: \mathrm{DSC} = S(F^{mg}) - S(F^{rc}).

    The recalibration is fitted to the same rows. Even an uninformative forecast therefore has a positive
    discrimination if its order of the rows is random. The cost is O(n log n) per level.

    References
    ----------
    .. [1] Arnold, Walz, Ziegel and Gneiting (2024), Decompositions of the mean continuous ranked probability
       score. https://doi.org/10.1214/24-EJS2316

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import crps_discrimination_score
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> y = x + rng.normal(size=1000)
    >>> forecasts = {"true": (x, 1.0), "biased": (x + 0.5, 1.0), "marginal": (0.0, 2**0.5)}
    >>> for name, (loc, scale) in forecasts.items():
    ...     dist = (np.broadcast_to(loc, 1000), np.full(1000, scale))
    ...     print(name, round(crps_discrimination_score(y, dist), 3))
    true 0.269
    biased 0.269
    marginal 0.0
    """
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    return discrimination_of_weights(y, dist, levels=levels)(weight)


@metric(
    "crps_uncertainty",
    title="CRPS uncertainty",
    units=1,
    direction=None,
    optimum=None,
    bounds=(0.0, np.inf),
    needs="distribution",
    proper=False,
    source=SOURCE,
    meaning="the best constant forecast has a CRPS of {value}",
    crps_part="uncertainty",
    fast=FastPath(of_weights=uncertainty_of_weights),
    check=crps_levels,
)
def crps_uncertainty(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = DEFAULT_LEVELS,
) -> float:
    r"""Return the uncertainty of the CRPS, the score of the best constant forecast.

    Neither larger nor smaller values are better. The uncertainty depends on the targets alone, so it is equal
    for all models, and not a proper score. The uncertainty completes the decomposition: the CRPS is
    `crps_miscalibration_error` - `crps_discrimination_score` + `crps_uncertainty`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target. The forecast does not change the result.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int, float or array-like of shape (k,), default=19
        Quantile levels. An integer m means the centers of m cells of equal width. Increasing levels have the
        widths of their cells as shares.

    Returns
    -------
    uncertainty : float
        In the units of y.

    See Also
    --------
    crps_skill_score : The CRPS relative to the distribution of the training targets.

    Notes
    -----
    The best constant forecast has the empirical quantiles of the targets, so that the uncertainty approaches
    half the mean absolute difference of two targets for many levels. With 19 levels, the three parts add up
    to the CRPS of smooth forecasts within 0.5 %.

    References
    ----------
    .. [1] Arnold, Walz, Ziegel and Gneiting (2024), Decompositions of the mean continuous ranked probability
       score. https://doi.org/10.1214/24-EJS2316

    Examples
    --------
    >>> from skuq.metrics import crps_uncertainty
    >>> dist = ([1.0, 2.0, 2.0, 5.0], [1.0, 1.0, 1.0, 1.0])
    >>> round(crps_uncertainty([1.0, 2.0, 3.0, 6.0], dist, levels=100), 6)
    1.0
    """
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    return uncertainty_of_weights(y, dist, levels=levels)(weight)
