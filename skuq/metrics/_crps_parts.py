"""Miscalibration, discrimination and uncertainty of the CRPS."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_increasing
from skuq.distributions import Distribution
from skuq.metrics._inputs import check_forecast
from skuq.metrics._kernels import level_grid
from skuq.metrics._sections import BLOCK, QuantileSections, quantile_sections
from skuq.metrics._spec import Computation, WeightFunction, metric, one_by_one, value_of

DEFAULT_LEVELS = 19

SOURCE = "Arnold et al. 2024"


def crps_levels(levels: int | ArrayLike) -> tuple[FloatArray, FloatArray]:
    if isinstance(levels, int | np.integer):
        m = level_grid(levels).size
        return (np.arange(m) + 0.5) / m, np.full(m, 2 / m)
    grid = check_increasing(level_grid(levels), "levels")
    edges = np.concatenate([[0.0], (grid[1:] + grid[:-1]) / 2, [1.0]])
    return grid, 2 * np.diff(edges)


def crps_sections(dist: Distribution, grid: FloatArray, share: FloatArray) -> QuantileSections:
    return quantile_sections(dist.quantile(grid).T, grid, share)


def part_of_crps(column: int, levels: int | ArrayLike) -> Computation:
    """Return the computation of one part of the CRPS."""
    grid, share = crps_levels(levels)

    def computation(y: FloatArray, dist: Distribution) -> WeightFunction:
        target = y[np.newaxis]
        # A limited number of levels is computed at once, so the memory does not grow with all levels.
        size = max(BLOCK // max(y.size, 1), 1)
        blocks = [slice(start, start + size) for start in range(0, grid.size, size)]
        kept = [crps_sections(dist, grid, share)] if len(blocks) == 1 else None

        def of_weight(weight: FloatArray) -> float:
            sections = kept or (crps_sections(dist, grid[block], share[block]) for block in blocks)
            weights = None if (weight == weight[0]).all() else weight[np.newaxis]
            parts = (each.parts(target, weights)[0, :, column] @ each.share for each in sections)
            return max(float(sum(parts)), 0.0)  # Rounding may make a part of 0 negative.

        return one_by_one(of_weight)

    return computation


@metric(
    "crps_miscalibration",
    title="CRPS miscalibration",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="distribution",
    small_sample=True,
    source=SOURCE,
    meaning="a recalibration to these rows would lower the CRPS by {value}",
    crps_part="miscalibration",
    kernel=partial(part_of_crps, 0),
)
def crps_miscalibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = DEFAULT_LEVELS,
) -> float:
    r"""Return the miscalibration of the CRPS: the loss that an isotonic recalibration would remove.

    The smaller the better, minimum is zero. The metric is not proper: a forecast that predicts the marginal
    distribution of the targets for every row has almost no miscalibration. Do not select models by this
    metric alone. Select by `crps_loss`, and use the metric as a constraint, or together with
    `crps_discrimination_score`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int, float or array-like of shape (k,), default=19
        Quantile levels. An integer m divides [0, 1] into m cells of equal width and uses the centers of the
        cells. If you pass increasing levels, the weight of each level is the width of its cell. The edges of
        the cells are 0, 1 and the midpoints of adjacent levels.

    Returns
    -------
    error : float
        In the units of y.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    crps_discrimination_score : The part of the CRPS that rewards forecasts that differ between rows.
    skuq.evaluation.score_decomposition : All parts, and the largest miscalibration that is plausible for a
        calibrated forecast.
    skuq.evaluation.compare_score_decompositions : Confidence intervals of the differences between two models.

    Notes
    -----
    Let S be the mean CRPS, F the forecast and :math:`F^{rc}` its isotonic recalibration. Then

    .. math:: \mathrm{MCB} = S(F) - S(F^{rc}).

    At each level, the recalibrated quantile is an increasing function of the predicted quantile. Of all
    increasing functions, it is the function with the smallest pinball loss on the same rows. Therefore, even
    a calibrated forecast has a positive miscalibration, which decreases with the number of rows
    (:doc:`/explanation/score-decomposition`). Bootstrap resamples contain repeated rows, which increase the
    miscalibration. Percentile and BCa intervals of the miscalibration are therefore too high. The cost is
    O(n log n) per level.

    References
    ----------
    .. [1] Arnold, Walz, Ziegel and Gneiting (2024), Decompositions of the mean continuous ranked probability
       score. https://doi.org/10.1214/24-EJS2316

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_miscalibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> y = x + rng.normal(size=1000)
    >>> forecasts = {"true": (x, 1.0), "biased": (x + 0.5, 1.0), "marginal": (0.0, 2**0.5)}
    >>> for name, (loc, scale) in forecasts.items():
    ...     dist = Normal(np.broadcast_to(loc, 1000), np.full(1000, scale))
    ...     print(name, round(crps_miscalibration_error(y, dist), 3))
    true 0.028
    biased 0.097
    marginal 0.001
    """
    return value_of(part_of_crps(0, levels), *check_forecast(y_true, y_pred, sample_weight))


@metric(
    "crps_discrimination",
    title="CRPS discrimination",
    units=1,
    direction="higher",
    bounds=(0.0, np.inf),
    needs="distribution",
    source=SOURCE,
    meaning="a recalibration to these rows has a CRPS {value} below the best constant forecast",
    crps_part="discrimination",
    kernel=partial(part_of_crps, 1),
)
def crps_discrimination_score(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = DEFAULT_LEVELS,
) -> float:
    r"""Return the discrimination of the CRPS: the gain of the recalibrated forecast over a constant forecast.

    The larger the better, minimum is zero. The metric is not proper: it depends only on the order of the
    predicted quantiles, so a biased or overconfident forecast may have the same discrimination as the true
    distribution. Use the metric to compare models that are recalibrated later.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int, float or array-like of shape (k,), default=19
        Quantile levels. An integer m divides [0, 1] into m cells of equal width and uses the centers of the
        cells. If you pass increasing levels, the weight of each level is the width of its cell. The edges of
        the cells are 0, 1 and the midpoints of adjacent levels.

    Returns
    -------
    score : float
        In the units of y. At most `crps_uncertainty`.

    See Also
    --------
    crps_miscalibration_error : The loss that a recalibration would remove.
    skuq.evaluation.score_decomposition : All parts, and the largest miscalibration that is plausible for a
        calibrated forecast.

    Notes
    -----
    Let S be the mean CRPS, :math:`F^{rc}` the isotonic recalibration and :math:`F^{mg}` the best constant
    forecast. Then

    .. math:: \mathrm{DSC} = S(F^{mg}) - S(F^{rc}).

    The recalibration is fitted to the same rows. Therefore, even a forecast that varies randomly between rows
    has a positive discrimination. The cost is O(n log n) per level.

    References
    ----------
    .. [1] Arnold, Walz, Ziegel and Gneiting (2024), Decompositions of the mean continuous ranked probability
       score. https://doi.org/10.1214/24-EJS2316

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_discrimination_score
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> y = x + rng.normal(size=1000)
    >>> forecasts = {"true": (x, 1.0), "biased": (x + 0.5, 1.0), "marginal": (0.0, 2**0.5)}
    >>> for name, (loc, scale) in forecasts.items():
    ...     dist = Normal(np.broadcast_to(loc, 1000), np.full(1000, scale))
    ...     print(name, round(crps_discrimination_score(y, dist), 3))
    true 0.269
    biased 0.269
    marginal 0.0
    """
    return value_of(part_of_crps(1, levels), *check_forecast(y_true, y_pred, sample_weight))


@metric(
    "crps_uncertainty",
    title="CRPS uncertainty",
    units=1,
    bounds=(0.0, np.inf),
    needs="distribution",
    source=SOURCE,
    meaning="the best constant forecast has a CRPS of {value}",
    crps_part="uncertainty",
    kernel=partial(part_of_crps, 2),
)
def crps_uncertainty(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = DEFAULT_LEVELS,
) -> float:
    r"""Return the uncertainty of the CRPS: the score of the best constant forecast.

    Neither larger nor smaller values are better. The uncertainty depends only on the targets, so it is the
    same for all models. It is not a proper score. The uncertainty completes the decomposition: the CRPS is
    `crps_miscalibration_error` - `crps_discrimination_score` + `crps_uncertainty`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. The forecast does not change the result.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int, float or array-like of shape (k,), default=19
        Quantile levels. An integer m divides [0, 1] into m cells of equal width and uses the centers of the
        cells. If you pass increasing levels, the weight of each level is the width of its cell. The edges of
        the cells are 0, 1 and the midpoints of adjacent levels.

    Returns
    -------
    uncertainty : float
        In the units of y.

    See Also
    --------
    crps_skill_score : The CRPS relative to the distribution of the training targets.

    Notes
    -----
    The quantiles of the best constant forecast are the empirical quantiles of the targets. For many levels,
    the uncertainty approaches half the mean absolute difference of two targets. With 19 levels, the sum of
    the three parts differs from the CRPS of a smooth forecast by less than 0.5 %.

    References
    ----------
    .. [1] Arnold, Walz, Ziegel and Gneiting (2024), Decompositions of the mean continuous ranked probability
       score. https://doi.org/10.1214/24-EJS2316

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_uncertainty
    >>> dist = Normal([1.0, 2.0, 2.0, 5.0], [1.0, 1.0, 1.0, 1.0])
    >>> round(crps_uncertainty([1.0, 2.0, 3.0, 6.0], dist, levels=100), 6)
    1.0
    """
    return value_of(part_of_crps(2, levels), *check_forecast(y_true, y_pred, sample_weight))
