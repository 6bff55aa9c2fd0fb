"""Calibration and discrimination of forecasts of censored targets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skuq._censoring import Bounds, product_limit, require_events
from skuq._numeric import binomial_interval, weighted_mean, weighted_sum
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_integer,
    check_number,
    check_option,
    check_single_coverage,
    effective_rows,
)
from skuq.distributions import Distribution
from skuq.metrics._binning import curve_of_bins, make_bins
from skuq.metrics._inputs import check_censored, check_right_censored
from skuq.metrics._levels import censored_proportions
from skuq.metrics._spec import WeightFunction


class CoverageBounds(NamedTuple):
    """Bounds and an estimate of a coverage under censoring; returned by `interval_coverage_bounds`.

    Parameters
    ----------
    low : float
        Share of targets that are certainly in their interval.
    high : float
        Share of targets that may be in their interval.
    estimate : float
        Estimated share of targets in their interval.

    Examples
    --------
    >>> from skuq.survival._calibration import CoverageBounds
    >>> CoverageBounds(0.6, 0.95, 0.91).high
    0.95
    """

    low: float
    high: float
    estimate: float


def interval_coverage_bounds(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    coverage: float = DEFAULT_COVERAGE,
    event: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> CoverageBounds:
    r"""Return the smallest and the largest possible coverage of central intervals under censoring.

    Neither larger nor smaller values are better: the nominal coverage should lie between both bounds. The
    bounds differ, because it is unknown whether a censored target lies in its interval. The bounds are valid
    without any assumption about the censoring.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. For a censored row, the time of censoring.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    coverage : float, default=0.9
        Nominal coverage of the central interval.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    lower, upper : array-like of shape (n,), default=None
        Known bounds of each target, instead of `event`. None means y.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    bounds : CoverageBounds
        The tuple ``(low, high, estimate)``, each in [0, 1]. The estimate uses the Kaplan-Meier distribution
        of the PIT values. The estimate is the probability of a PIT value between ``(1 - coverage) / 2`` and
        ``(1 + coverage) / 2``. It assumes that the censoring does not depend on the PIT. The probability
        above the largest observed PIT value is distributed uniformly up to 1. For targets with two bounds,
        the estimated probability of an interval of PIT values is distributed uniformly within this interval.

    See Also
    --------
    skuq.metrics.prediction_interval_coverage : Coverage of targets that are not censored.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.survival import interval_coverage_bounds
    >>> dist = Normal([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0])
    >>> interval_coverage_bounds([0.5, -0.5, 1.0, 3.0], dist, event=[True, True, False, False])[:2]
    (0.5, 0.75)
    """
    nominal = check_single_coverage(coverage)
    y, dist, weight, known = check_censored(y_true, y_pred, sample_weight, event, lower, upper)
    bounds = Bounds(y, y) if known is None else known
    require_events(bounds.known)
    inside, possible = covered_rows(dist, bounds, nominal)
    return CoverageBounds(
        weighted_mean(inside, weight),
        weighted_mean(possible, weight),
        coverage_of_weights(dist, bounds, nominal)(weight),
    )


def covered_rows(dist: Distribution, bounds: Bounds, coverage: float) -> tuple[FloatArray, FloatArray]:
    """Return whether each target is certainly in its interval, and whether it may be in its interval."""
    start, stop = dist.interval(coverage).T
    inside = (start <= bounds.lower) & (bounds.upper <= stop)
    # The lower bound of a censored target is not a possible value.
    possible = np.where(bounds.observed, inside, (bounds.lower < stop) & (bounds.upper >= start))
    return inside.astype(np.float64), possible.astype(np.float64)


def coverage_of_weights(dist: Distribution, bounds: Bounds, coverage: float) -> WeightFunction:
    """Return a function of the weights that computes the estimated coverage."""
    proportions = censored_proportions(dist, bounds, np.array([coverage]), "interval")
    return lambda weight: float(proportions(weight)[0])


def concordance_score(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    event: ArrayLike | None = None,
    upper: float | None = None,
    ipcw: bool = False,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the concordance index: the share of comparable pairs of rows in the predicted order.

    The larger the better, maximum is one. A random order has the index 0.5. The index uses only the ranks of
    the predicted medians. It does not measure calibration and cannot replace a proper score.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. For a censored row, the time of censoring.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    upper : float or None, default=None
        Only pairs whose smaller y is below `upper` are compared, in the units of y. None means all pairs.
    ipcw : bool, default=False
        Whether the pairs have weights that correct for the censoring. False is Harrell's index [1]_, whose
        expected value depends on the censoring. True is Uno's index [2]_. Its expected value does not depend
        on the censoring, if `upper` is given and the censoring depends neither on the target nor on the
        features.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    score : float
        In [0, 1].

    Raises
    ------
    ValueError
        If no two rows are comparable.

    See Also
    --------
    ipcw_crps_loss : Proper score of the whole distribution.

    Notes
    -----
    Two rows are comparable if the row with the smaller y is observed. If both y are equal, an observed row
    counts as smaller than a censored row. Two observed rows with equal y are not comparable. A pair with
    equal predictions counts one half. With `ipcw`, the weight of a pair is :math:`1 / \hat G(y-)^2` for the
    smaller y, with the Kaplan-Meier estimate :math:`\hat G` of the censoring times. The cost is
    O(n log(n)^2) time and O(n) memory.

    References
    ----------
    .. [1] F. E. Harrell, K. L. Lee, D. B. Mark (1996), Multivariable prognostic models.
       https://doi.org/10.1002/(SICI)1097-0258(19960229)15:4<361::AID-SIM168>3.0.CO;2-4
    .. [2] H. Uno, T. Cai, M. J. Pencina, R. B. D'Agostino, L. J. Wei (2011), On the C-statistics for
       evaluating overall adequacy of risk prediction procedures with censored survival data.
       https://doi.org/10.1002/sim.4154

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.survival import concordance_score
    >>> dist = Normal([1.0, 3.0, 2.0], [1.0, 1.0, 1.0])
    >>> concordance_score([1.0, 2.0, 3.0], dist, event=[True, True, False])
    0.6666666666666666
    """
    y, dist, weight, mask = check_right_censored(y_true, y_pred, sample_weight, event)
    bound = np.inf if upper is None else check_number(upper, "upper")
    check_option(ipcw, "ipcw", (True, False))
    require_events(mask)
    concordant, comparable = pair_sums(y, dist.median(), mask, weight, upper=bound, ipcw=ipcw)
    if not comparable.any():
        below = "" if upper is None else f" and below `upper` = {bound:g}"
        raise ValueError(
            "no two rows are comparable. `event` must be True in at least one row whose `y` is smaller than "
            f"the `y` of another row{below}."
        )
    return weighted_sum(concordant, weight) / weighted_sum(comparable, weight)


def pair_sums(
    y: FloatArray,
    point: FloatArray,
    event: BoolArray | None,
    weight: FloatArray | None,
    *,
    upper: float = np.inf,
    ipcw: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Return the total weight of the concordant pairs and of the comparable pairs of each row."""
    observed = np.ones(y.size, dtype=bool) if event is None else event
    repeats = np.ones(y.size) if weight is None else weight
    pair_weight = np.ones(y.size)
    if ipcw and event is not None:
        pair_weight = product_limit(y, event, repeats, of_censoring=True).before(y) ** -2.0
    pair_weight[~(observed & (y < upper))] = 0.0  # A pair has the weight of its first row.
    # A row is later than another if its key is larger: of equal y, censored rows are later.
    key = 2 * np.unique(y, return_inverse=True)[1] + ~observed
    by_key = np.bincount(key, repeats), np.bincount(key, pair_weight * repeats)
    later = np.append(np.cumsum(by_key[0][:0:-1])[::-1], 0.0)
    earlier = np.append(0.0, np.cumsum(by_key[1][:-1]))
    comparable = pair_weight * later[key] + earlier[key]
    concordant = np.zeros(y.size)
    guess = np.unique(point, return_inverse=True)[1]
    order = np.argsort(guess, kind="stable")
    # Two keys are compared by the highest bit that differs. So each bit compares the rows whose higher bits
    # are equal. These rows are neighbors in `order` and are sorted by their prediction.
    for bit in reversed(range(int(key.max()).bit_length())):
        group, is_later = key[order] >> (bit + 1), (key[order] >> bit & 1).astype(bool)
        first, last = _run_ends(group)
        first_tie, last_tie = _run_ends(group * y.size + guess[order])
        after = np.append(0.0, np.cumsum(np.where(is_later, repeats[order], 0.0)))
        before = np.append(0.0, np.cumsum(np.where(is_later, 0.0, (pair_weight * repeats)[order])))
        above = after[last] - (after[first_tie] + after[last_tie]) / 2
        below = (before[first_tie] + before[last_tie]) / 2 - before[first]
        concordant[order] += np.where(is_later, below, pair_weight[order] * above)
        order = order[np.argsort(key[order] >> bit, kind="stable")]
    # Differences of sums may be less than 0 by their rounding.
    return np.clip(concordant, 0.0, comparable), comparable


def _run_ends(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each value where its run of equal neighbors begins and ends."""
    edges = np.flatnonzero(np.diff(values, prepend=values[0] - 1, append=values[-1] + 1))
    run = np.repeat(np.arange(edges.size - 1), np.diff(edges))
    return edges[run], edges[run + 1]


def survival_calibration_table(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    time: float,
    event: ArrayLike | None = None,
    n_bins: int = 10,
    confidence: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> pd.DataFrame:
    r"""Return predicted and observed probabilities that y exceeds a time, in bins of the prediction.

    If a forecast is calibrated, the predicted probability lies within the confidence interval of the observed
    probability in about 95 % of the bins (with the default `confidence`).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. For a censored row, the time of censoring.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    time : float
        Time at which the probabilities are compared, in the units of y.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    n_bins : int, default=10
        Number of bins of equal total weight. Rows with equal predictions are divided between bins in the same
        proportions.
    confidence : float, default=0.95
        Nominal probability of the confidence intervals. Strictly between 0 and 1.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    table : DataFrame
        One row per bin that is not empty, in ascending order of the prediction, with these columns:

        - `predicted`: mean predicted probability that y is larger than `time`.
        - `observed`: Kaplan-Meier estimate of this probability.
        - `low` and `high`: bounds of the confidence interval of `observed`. If `observed` is 0 or 1, the
          interval of Clopper and Pearson for the rows that are known to be above or below `time`.
        - `n_rows`: number of rows including repetitions.

    Raises
    ------
    ValueError
        If the probability of a bin is unknown, because the largest y of the bin is censored and below `time`.

    See Also
    --------
    skuq.metrics.regression_calibration_curve : Calibration at all probability levels.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.survival import survival_calibration_table
    >>> rng = np.random.default_rng(0)
    >>> loc = rng.normal(size=2000)
    >>> T, C = loc + rng.normal(size=2000), rng.normal(1.0, size=2000)
    >>> y, event = np.minimum(T, C), T <= C
    >>> table = survival_calibration_table(y, Normal(loc, np.ones(2000)), time=0.5, event=event, n_bins=3)
    >>> table[["predicted", "observed"]].round(2).to_numpy().tolist()
    [[0.07, 0.08], [0.31, 0.3], [0.69, 0.68]]
    """
    t = check_number(time, "time")
    level = check_single_coverage(confidence, "confidence")
    k = check_integer(n_bins, "n_bins")
    y, dist, weight, mask = check_right_censored(y_true, y_pred, sample_weight, event)
    effective_rows(weight, y.size)  # raises for relative weights
    survival = dist.sf(t)
    bins = make_bins(survival, k, "quantile", weight)
    curve = curve_of_bins(bins, predicted=survival)
    shares = bins.matrix()
    records = [
        _bin_record(predicted, y, mask, shares[[number]].toarray()[0], t, level)
        for number, predicted in zip(np.flatnonzero(bins.totals()), curve["predicted"], strict=True)
    ]
    return pd.concat([curve["predicted"], pd.DataFrame(records), curve["n"].rename("n_rows")], axis=1)


def _bin_record(
    predicted: float,
    y: FloatArray,
    event: BoolArray | None,
    weight: FloatArray,
    t: float,
    confidence: float,
) -> dict[str, float]:
    """Return the line of the bin that has these weights of all rows."""
    rows = np.flatnonzero(weight)
    y, weight = y[rows], weight[rows]
    observed = np.ones(rows.size, dtype=bool) if event is None else event[rows]
    steps = product_limit(y, observed, weight)
    if steps.times[-1] < t and steps.survival[-1] > 0:
        raise ValueError(
            f"`time` must be at most the largest y of each bin, got {t:g}. The largest y of the bin with the "
            f"mean prediction {predicted:.3g} is {steps.times[-1]:g}. Pass a smaller time or fewer bins."
        )
    share = float(steps.after(np.asarray(t)))
    if 0 < share < 1:
        place = int(np.searchsorted(steps.times, t, side="right")) - 1
        low, high = (float(ends[place]) for ends in steps.interval(confidence))
    else:
        # Greenwood's variance is 0. The exact interval uses the rows whose state at the time is known.
        known = float(weight[observed | (y >= t)].sum())
        low, high = map(float, binomial_interval(share * known, known, 1 - confidence))
    return {"observed": share, "low": low, "high": high}
