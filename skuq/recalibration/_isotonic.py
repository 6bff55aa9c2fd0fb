"""Recalibration of the probability levels by the distribution function of the PIT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._censoring import Bounds, read_bounds, require_events
from skuq._typing import ArrayLike, FloatArray, Frozen
from skuq._validation import (
    check_integer,
    check_option,
    check_target,
    effective_rows,
    repeated_rows,
    warn_of_few_rows,
)
from skuq.distributions import Distribution
from skuq.distributions._level_map import LevelMap
from skuq.distributions._pit import censored_pit_scores, pit_scores, spread_atoms
from skuq.distributions._recalibrated import Recalibrated
from skuq.recalibration._base import BaseRecalibrator, check_observed
from skuq.recalibration._residuals import outside_share

_DECIMALS = 12
"""Number of decimals to which normal scores are rounded, in units of their spread. Further decimals are
rounding errors."""

_MOST_BLUR = 0.7
"""Largest allowed gap between the smooth map and the plotting positions, times the square root of n.

For n from 20 to 5000, the gap is larger for less than 1 % of the samples from a normal distribution.
"""

_HALVINGS = 8

_FAR_OUT = 5.0
"""Largest distance of a score from the median, in interquartile ranges. Scores beyond it are clipped."""

_BANDWIDTH = 0.8
"""Bandwidth of the kernel, in standard deviations of the normal scores times n^(-1/5).

The value was chosen on nine simulated processes with n from 20 to 10 000. Silverman's value of 1.06 is better
for linear maps and worse for nonlinear maps.
"""


class IsotonicRecalibrator(BaseRecalibrator):
    r"""Recalibrate the probability levels so that observed frequencies equal nominal levels.

    For example, 90 % of the calibration targets are below the recalibrated 90 % quantiles. The class corrects
    bias, width and shape of the distributions. The map is the same for all rows. If distributions are too
    narrow in one region and too wide in another, only the average width is corrected. Prefer
    `StdScalingRecalibrator` if there are fewer than about 100 rows, or if the point prediction must not
    change.

    Parameters
    ----------
    n_knots : "auto", int or None, default="auto"
        Number of knots of the map. The knots are at ranks of the calibration rows. An integer is the number
        of evenly spaced ranks. "auto" uses :math:`2 n^{1/3}` evenly spaced ranks, and the ranks 1, 2, 4, ...
        from each end for the tails. With None, each row is a knot, as in the published method. With None,
        intervals are as good as with "auto", but the density is rough, and the time to compute moments is
        proportional to n.
    smooth : bool, default=False
        With True, the map is estimated with a kernel instead of at ranks. The density is then smooth and has
        half the estimation error. With more than a few thousand rows, the difference is small. Use False if
        the distribution of the targets has an abrupt edge, because a kernel blurs the edge. For example,
        waiting times have an abrupt edge at 0.

    Attributes
    ----------
    level_map_ : LevelMap
        The map :math:`R` from predicted levels to observed levels.
    outside_share_ : float
        Share of the rows whose target is outside the support of the distribution, for example below the
        smallest member of an ensemble. No map of the probability levels corrects these rows. If the share is
        well above 0.1, 90 % intervals cannot cover 90 %, and `fit` raises an error.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    EmpiricalRecalibrator : One shape for all rows. It also corrects forecasts whose support excludes targets.
    skuq.conformal.ConformalRecalibrator : Intervals with guaranteed coverage, without a density.
    GPBetaRecalibrator : A function of the probability levels that depends on the prediction.
    StdScalingRecalibrator : One factor for all standard deviations.

    Notes
    -----
    The recalibrated distribution has the distribution function :math:`R(F(y))`, the density :math:`R'(F(y))
    f(y)` and the quantile function :math:`F^{-1}(R^{-1}(p))`. The map :math:`R` is fitted [1]_ to the PIT
    values :math:`u_i = F_i(y_i)` and their plotting positions (Weibull). The value with rank :math:`i` of
    :math:`n` has the position :math:`i / (n + 1)`. Equal values get their mean rank. A row with weight k
    counts as k equal values. These points already increase, so isotonic regression does not change them.
    Linear interpolation makes the map strictly increasing.

    Interpolation, thinning and smoothing use the normal scores :math:`x_i = \Phi^{-1}(u_i)`. For a `Normal`,
    the scores are :math:`(y_i - \mu_i) / \sigma_i`. These scores are finite even if a target is many standard
    deviations from the mean, so any degree of overconfidence is corrected. The scores are also finite for
    `NormalMixture`, `Quantiles` and distributions that are based on these families. In families whose extreme
    levels underflow, rows beyond 38 normal scores count as outside the support. Beyond the outermost knots,
    the map of the scores is linear. Its slope is the ratio of the standard deviations of observed and
    predicted scores. For families with power tails, this slope is at least 1, so that moments of the result
    exist if the moments of the model exist.

    If a target equals an atom in single precision, the row is distributed evenly over the levels from
    :math:`F(y-)` to :math:`F(y)`. This is the expected distribution of the randomized PIT [3]_.

    If targets are censored, the ranks are replaced with the Kaplan-Meier estimate of the PIT values, or with
    the estimate of Turnbull [4]_ for rows with two bounds. The map is estimated up to the largest observed
    PIT value.

    With ``smooth=True``, :math:`R` is the distribution function of the normal scores, estimated by a Gaussian
    kernel with the bandwidth :math:`0.8 \, s \, n^{-1/5}`, where s is the standard deviation of the scores.
    In [2]_, the kernel is instead applied to the levels. The scores are first shrunk toward their mean to
    compensate for the variance of the kernel, so that the estimate of a linear map is linear. The bandwidth
    is halved while the estimate differs from the plotting positions by more than :math:`0.7 / \sqrt n`. The
    estimate is used where its values are between 1 / (n + 1) and n / (n + 1).

    If there are few rows, the map is noisy. For a calibrated model, the map increases the negative
    log-likelihood on new rows by 0.19 with 20 rows and by 0.08 with 100 rows. With ``smooth=True``, the
    increase is 0.08 with 20 rows and 0.025 with 100 rows. With fewer than 12 rows, a `SmallSampleWarning` is
    issued.

    Cost: O(n log n) time and O(n) memory. The fitted map stores only the knots.

    References
    ----------
    .. [1] V. Kuleshov, N. Fenner, S. Ermon, "Accurate uncertainties for deep learning using
       calibrated regression", ICML 2018, PMLR 80, algorithm 1.
    .. [2] V. Dheur, S. Ben Taieb, "A large-scale study of probabilistic calibration in neural network
       regression", ICML 2023, PMLR 202. https://doi.org/10.48550/arXiv.2306.02738
    .. [3] C. Czado, T. Gneiting, L. Held, "Predictive model assessment for count data", Biometrics 65,
       2009, eq. 1. https://doi.org/10.1111/j.1541-0420.2009.01191.x
    .. [4] B. W. Turnbull, "The empirical distribution function with arbitrarily grouped, censored and
       truncated data", JRSS B 38, 1976. https://doi.org/10.1111/j.2517-6161.1976.tb01597.x

    Examples
    --------
    This model has a bias of +1, and its standard deviation is twice the true value:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import IsotonicRecalibrator
    >>> y = np.random.default_rng(0).normal(5.0, 1.0, size=1000)
    >>> dist = Normal(np.full(1000, 6.0), np.full(1000, 2.0))
    >>> recalibrated = IsotonicRecalibrator().fit(dist, y).transform(dist[:1])
    >>> recalibrated.mean().round(1), recalibrated.std().round(1)
    (array([5.]), array([1.]))
    """

    def __init__(self, *, n_knots: Literal["auto"] | int | None = "auto", smooth: bool = False) -> None:
        self.n_knots = n_knots
        self.smooth = smooth

    def fit(
        self,
        dist: Distribution | Frozen,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        event: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> Self:
        """Fit the recalibration to predictions and targets. Some targets may be censored.

        Parameters
        ----------
        dist : Distribution or frozen scipy distribution of n rows
            Predictions for rows that the model is not trained on.
        y : array-like of shape (n,)
            Observed targets, in the units of the predictions.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        event : array-like of bool, shape (n,), default=None
            True if the target is observed. False if the target is only known to be larger than y. None means
            that all targets are observed.
        lower, upper : array-like of shape (n,), default=None
            Known bounds of each target, instead of `event`; None means y. Equal bounds mean an observed
            target, and infinite bounds are allowed.

        Returns
        -------
        self : object
            The fitted recalibrator.

        Raises
        ------
        TypeError
            If `dist` is neither a Distribution nor an array, or if `event` is not boolean.
        ValueError
            If values, lengths or bounds are invalid, or if no target is observed.

        Warns
        -----
        SmallSampleWarning
            If fewer than 12 targets are known.
        """
        if event is None and lower is None and upper is None:
            return super().fit(dist, y, sample_weight)
        bounds = read_bounds(check_target(y, "y"), event, lower, upper)
        if bounds is None:  # every target is observed
            return super().fit(dist, y, sample_weight)
        checked, target, weight = check_observed(dist, y, sample_weight)
        if target.size < bounds.lower.size:  # rows of weight 0 are left out
            bounds = bounds.take(np.flatnonzero(np.asarray(sample_weight)))
        self._fit_censored(checked, bounds, weight)
        self.n_features_in_ = 2
        return self

    def _fit_censored(self, dist: Distribution, bounds: Bounds, weight: FloatArray) -> None:
        require_events(bounds.known)
        n = effective_rows(weight, len(dist))
        low, high, masses_of = censored_pit_scores(dist, bounds)
        masses = masses_of(weight)
        self.outside_share_ = outside_share(low, high, masses, n, type(self).__name__)
        self._fit_scores(low, high, masses, n, light_tails=dist._light_tails)
        counted = np.flatnonzero(bounds.known)
        warn_of_few_rows(repeated_rows(weight[counted], len(counted)))

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        n = effective_rows(weight, len(y))
        lower, upper = pit_scores(dist, y)
        self.outside_share_ = outside_share(lower, upper, weight, n, type(self).__name__)
        self._fit_scores(lower, upper, weight, n, light_tails=dist._light_tails)

    def _fit_scores(
        self, lower: FloatArray, upper: FloatArray, weight: FloatArray, n: float, *, light_tails: bool
    ) -> None:
        """Fit the map to the normal scores of the PIT values. ``n`` also counts censored rows."""
        self.level_map_ = isotonic_level_map(
            lower,
            upper,
            weight,
            n,
            light_tails=light_tails,
            n_knots=self._check_n_knots(),
            smooth=self.smooth,
        )

    def _check_n_knots(self) -> Literal["auto"] | int | None:
        n_knots = self.n_knots
        if n_knots is not None and n_knots != "auto":
            n_knots = check_integer(n_knots, "n_knots")
        if check_option(self.smooth, "smooth", (True, False)) and n_knots != "auto":
            raise ValueError(
                f"`n_knots` must be 'auto' with smooth=True, got {n_knots!r}. A kernel has no knots. "
                "Set smooth=False to choose the number of knots."
            )
        return n_knots

    def _transform(self, dist: Distribution) -> Distribution:
        return Recalibrated(dist, self.level_map_)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Normal scores of F(y-) and F(y), and numbers of repetitions. Each array has shape (n,)."""

    lower: FloatArray
    upper: FloatArray
    repetitions: FloatArray

    def __len__(self) -> int:
        return len(self.lower)

    def followed_by(self, later: Self, window: int | None) -> Self:
        """Concatenate both sets of rows and keep the last ``window`` rows. None keeps all rows."""
        n_removed = 0 if window is None else max(len(self) + len(later) - window, 0)
        pairs = zip(vars(self).values(), vars(later).values(), strict=True)
        return type(self)(*(np.concatenate(pair)[n_removed:] for pair in pairs))

    def level_map(self, *, light_tails: bool) -> LevelMap:
        n = effective_rows(self.repetitions, len(self))
        return isotonic_level_map(self.lower, self.upper, self.repetitions, n, light_tails=light_tails)


def isotonic_level_map(
    lower: FloatArray,
    upper: FloatArray,
    weight: FloatArray,
    n: float,
    *,
    light_tails: bool,
    n_knots: Literal["auto"] | int | None = "auto",
    smooth: bool = False,
) -> LevelMap:
    """Return the map from the normal scores of the PIT values to their plotting positions among n rows."""
    scores, positions, masses = _plotting_positions(lower, upper, weight, n)
    slope = 1.0
    if np.count_nonzero(masses) > 1:
        # the slope of a linear map, values = center + slope * scores
        nominal, observed = (center_and_spread(values, masses)[1] for values in (scores, ndtri(positions)))
        slope = observed / nominal if nominal > 0 else 1.0
        slope = slope if light_tails else max(1.0, slope)
    if smooth and np.count_nonzero(masses) > 1:
        scores, positions = _kernel_estimate(scores, positions, masses, n)
    elif n_knots is not None:
        n_levels = round(2 * n ** (1 / 3)) if n_knots == "auto" else n_knots
        n_levels = min(n_levels, 2 * len(scores))  # repeated rows do not change this limit
        scores, positions = _thin(scores, positions, masses, n, n_levels)
    return increasing_level_map(scores, ndtri(positions), slope)


def _plotting_positions(
    lower: FloatArray, upper: FloatArray, weight: FloatArray, n: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the distinct normal scores of the PIT values, with plotting positions and weights."""
    _, points, weights = spread_atoms(lower, upper, weight)
    atom = lower < upper
    if atom.any():
        ends = np.concatenate([lower[atom], upper[atom]])  # knots with weight 0 at both ends of each atom
        points, weights = np.concatenate([points, ends]), np.concatenate([weights, np.zeros(len(ends))])
    # scores of repeated rows may differ by rounding, so nearly equal scores are merged
    unit = _unit(points)
    scores, group = np.unique(np.round(points / unit, _DECIMALS), return_inverse=True)
    scores *= unit
    masses = np.asarray(np.bincount(group, weights=weights, minlength=len(scores)), dtype=np.float64)
    ranks = np.cumsum(masses) - masses / 2 + 0.5  # mean rank of equal values
    inside = np.isfinite(scores)
    return scores[inside], ranks[inside] / (n + 1), masses[inside]


def _unit(scores: FloatArray) -> float:
    finite = np.unique(scores[np.isfinite(scores)])  # repeated rows have no effect
    if not finite.size:
        return 1.0
    low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75])
    size, rounding = float(np.abs(finite).max()), 10.0**-_DECIMALS * abs(middle)
    spreads = [high - low, finite.max() - finite.min(), size]
    spread = next((float(each) for each in spreads if each > rounding), 1.0)
    return float(2.0 ** np.clip(np.floor(np.log2(spread)), -1000, 1000))


def _thin(
    scores: FloatArray, positions: FloatArray, masses: FloatArray, n: float, n_levels: int
) -> tuple[FloatArray, FloatArray]:
    """Return the map at a few positions.

    These positions depend only on n and on large groups of equal values.
    """
    if not len(scores):
        return scores, positions
    step = (n + 1) / (n_levels + 1)  # in ranks
    even = step * np.arange(1, n_levels + 1)
    # ranks 1, 2, 4, ... from both ends, because evenly spaced ranks would skip the tails
    doubling = 2.0 ** np.arange(max(int(np.ceil(np.log2(max(step, 1.0)))), 0))
    grid = np.concatenate([doubling, even, n + 1 - doubling]) / (n + 1)
    grid = grid[(grid >= positions[0]) & (grid <= positions[-1])]
    kept = np.unique(np.concatenate([positions[[0, -1]], positions[masses > step], grid]))
    # between two rows, the map is linear in normal scores
    return np.interp(ndtri(kept), ndtri(positions), scores), kept


def _kernel_estimate(
    scores: FloatArray, positions: FloatArray, masses: FloatArray, n: float
) -> tuple[FloatArray, FloatArray]:
    """Return the smooth map on a grid of normal scores.

    The bandwidth is halved until the map fits the rows.
    """
    outside = positions[0] * (n + 1) - masses[0] / 2 - 0.5  # weight of the rows with level 0
    # the ends of atoms are not data
    rows = masses > 0
    scores, positions, masses = scores[rows], positions[rows], masses[rows]
    center, spread = center_and_spread(scores, masses)
    bandwidth = _BANDWIDTH * spread * n**-0.2
    for _ in range(_HALVINGS):
        grid, estimate = _smoothed(scores, masses, center, spread, bandwidth)
        estimate = (outside + estimate) / n
        # the Kolmogorov-Smirnov distance, which is of order 1 / sqrt(n) by chance alone
        gap = np.abs(np.interp(scores, grid, estimate) - positions)
        if gap[1:-1].max(initial=0.0) <= _MOST_BLUR / np.sqrt(n):
            break
        bandwidth /= 2
    inside = (estimate >= 1 / (n + 1)) & (estimate <= n / (n + 1))
    return grid[inside], estimate[inside]


def _smoothed(
    scores: FloatArray, masses: FloatArray, center: float, spread: float, bandwidth: float
) -> tuple[FloatArray, FloatArray]:
    """Return a grid of normal scores, and the kernel estimate of the weight below each grid point."""
    # Scores that are much closer than the bandwidth are merged, so that the cost does not grow with n. They
    # are rounded to multiples of a power of two, which treats both signs equally.
    cell = 2.0 ** np.floor(np.log2(bandwidth / 32))
    place = np.unique(np.rint(scores / cell), return_inverse=True)[1].ravel()
    mass = np.bincount(place, masses)
    # shrinkage compensates for the variance of the kernel
    shrinkage = 1 / np.hypot(1.0, bandwidth / spread)
    points = center + (np.bincount(place, masses * scores) / mass - center) * shrinkage
    width = bandwidth * shrinkage
    # beyond 4.5 bandwidths, the kernel has less than 1e-5 of its weight
    step = width / 2
    near = np.unique(np.rint((points - center) / step)[:, np.newaxis] + np.arange(-9.0, 10.0))
    grid = center + step * near
    return grid, np.array([mass @ ndtr((at - points) / width) for at in grid])


def center_and_spread(score: FloatArray, masses: FloatArray) -> tuple[float, float]:
    middle_rank = (np.cumsum(masses) - masses / 2) / masses.sum()
    low, middle, high = np.interp([0.25, 0.5, 0.75], middle_rank, score)
    reach = _FAR_OUT * (high - low) if high > low else np.inf
    held = np.clip(score, middle - reach, middle + reach)
    center = float(np.average(held, weights=masses))
    unit = float(np.abs(held - center).max()) or 1.0  # avoids an overflow of squares
    return center, unit * float(np.sqrt(np.average(np.square((held - center) / unit), weights=masses)))


def increasing_level_map(scores: FloatArray, values: FloatArray, slope: float) -> LevelMap:
    """Return the map through the knots. Knots that differ only by rounding are merged."""
    keep = np.ones(len(scores), dtype=bool)
    for knots in (scores, values):
        size = np.maximum(np.abs(knots[1:]), np.ptp(knots) if len(knots) else 0.0)
        keep[1:] &= np.diff(knots) > 4 * np.finfo(float).eps * size
    return LevelMap.from_scores(scores[keep], values[keep], slope, slope)
