"""Conformal predictive distributions: one calibration sample, and the ranks that guarantee coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_non_negative,
    check_option,
    check_positive,
)
from skuq.distributions._base import Distribution
from skuq.distributions._location_scale import read_rows
from skuq.distributions._numerics.levels import snap_levels
from skuq.distributions._numerics.ranks import WeightedRanks, count_reached, score_level
from skuq.distributions._shared_empirical import SharedEmpirical, read_sample, same_sample
from skuq.distributions._unreachable_levels import LevelKind, UnreachableLevel, unreachable_level

_HALF = np.array([0.5])


@dataclass(frozen=True, eq=False, repr=False)
class ConformalPredictive(Distribution):
    r"""Distributions whose intervals carry the guarantee of conformal prediction.

    Row i is ``loc[i] + scale[i] * z``, where z is ranked among the standardised residuals
    of calibration rows. If those and the new row are exchangeable, an interval covers with at least
    the nominal probability, whatever the model and the noise. Prefer `SharedEmpirical` where there is
    no such guarantee to keep and bounds must be finite. `skuq.recalibration.ConformalRecalibrator`
    and `skuq.regressors.ConformalRegressor` make it.

    Parameters
    ----------
    loc : float or array-like of shape (n,)
        Centre of each row, in the units of y.
    scale : float or array-like of shape (n,)
        What one unit of a score is worth in each row, in the units of y, at least 0.
    scores : array-like of shape (k,)
        Standardised residuals of the calibration rows, or their absolute values if ``symmetric``.
    weights : array-like of shape (k,), default=None
        Weight of each score: how many rows it stands for, its density ratio under covariate shift, or
        their product. Not rescaled. 1 if None.
    unseen : float or array-like of shape (n,), default=1.0
        Weight of the new observation itself, positive: its density ratio under covariate shift, else 1.
    symmetric : bool, default=False
        Whether intervals reach equally far to both sides. True needs fewer rows (9 for 90 %, where
        False needs 19) and gives one interval guarantee; False gives each bound a guarantee of its own
        and follows skewed residuals.

    Attributes
    ----------
    scores : ndarray of shape (k,)
        Sorted, without those of zero weight.
    weights : ndarray of shape (k,) or None
        In the order of ``scores``.
    unseen : ndarray of shape () or (n,)
        One number where all rows have the same.

    See Also
    --------
    SharedEmpirical : The same shape without the unseen observation.
    Recalibrated : A map of the levels; smooth, without a guarantee.

    Notes
    -----
    With :math:`z_{(1)} \le \ldots \le z_{(k)}` of weights :math:`w_j`, :math:`W_j` their cumulative
    sum, :math:`w_*` the weight of the new observation and :math:`T = W_k + w_*` [1]_ [2]_:

    - upper quantiles, :math:`p > 1/2`, are the smallest :math:`z_{(j)}` with :math:`W_j \ge p T`, else
      infinite; lower ones are their mirror image, and the median lies halfway between both sides. So
      :math:`P(Y \le Q(p)) \ge p` and :math:`P(Y \ge Q(1 - p)) \ge p`;
    - if ``symmetric``, the interval of coverage c reaches as far as the smallest
      :math:`|z|_{(j)}` with :math:`W_j \ge c T`: among n rows the :math:`\lceil (n + 1) c \rceil`-th,
      split conformal prediction.

    The distribution function is the inverse of these quantiles. It never exceeds :math:`1 - w_*/T`
    nor falls below :math:`w_*/T` (half of it if ``symmetric``): where in the tails that probability
    lies is unknown. An interval that depends on it is infinite, and `interval`, `quantile`
    and `ppf` then give one `SmallSampleWarning` that names the number of rows needed. Unknown tail
    probability is excluded from `mean`, `std`, `crps` and `sample`: they are those of the scores,
    mirrored at 0 if ``symmetric``. There is no density.

    Nothing of size n by k is built: memory is O(n + k), each method O(n log k) after one sort.

    References
    ----------
    .. [1] V. Vovk, J. Shen, V. Manokhin, M. Xie, "Nonparametric predictive distributions based on
       conformal prediction", Machine Learning 108, 2019. https://doi.org/10.1007/s10994-018-5755-8
    .. [2] R. J. Tibshirani, R. Foygel Barber, E. J. Candes, A. Ramdas, "Conformal prediction under
       covariate shift", NeurIPS 2019. https://doi.org/10.48550/arXiv.1904.06019

    Examples
    --------
    >>> from skuq.distributions import ConformalPredictive
    >>> scores = [0.3, 1.1, 0.2, 0.7, 1.9, 0.5, 0.9, 1.3, 0.1]
    >>> dist = ConformalPredictive([0.0, 10.0], [1.0, 2.0], scores, symmetric=True)
    >>> dist.interval(0.9)  # the largest of nine scores
    array([[-1.9,  1.9],
           [ 6.2, 13.8]])
    >>> dist.interval(0.5)  # the fifth
    array([[-0.7,  0.7],
           [ 8.6, 11.4]])
    """

    loc: FloatArray
    scale: FloatArray
    scores: FloatArray
    weights: FloatArray | None
    unseen: FloatArray
    symmetric: bool

    def __init__(
        self,
        loc: ArrayLike,
        scale: ArrayLike,
        scores: ArrayLike,
        weights: ArrayLike | None = None,
        unseen: ArrayLike = 1.0,
        symmetric: bool = False,
    ) -> None:
        location, width = read_rows(loc=loc, scale=scale)
        check_non_negative(width, "scale")
        symmetric = check_option(symmetric, "symmetric", (True, False))
        values, weight = read_sample(scores, "scores", weights)
        if symmetric:
            check_non_negative(values, "scores")
        ranks = WeightedRanks(values, weight)
        self._set(
            loc=location,
            scale=width,
            scores=ranks.values,
            weights=ranks.weights,
            unseen=_read_unseen(unseen, len(location)),
            symmetric=symmetric,
        )

    @cached_property
    def _ranks(self) -> WeightedRanks:
        return WeightedRanks(self.scores, self.weights)

    @cached_property
    def _total(self) -> FloatArray:
        """Weight of the scores and of the new observation, of shape () or (n,)."""
        return self._ranks.total + self.unseen

    @cached_property
    def _finite(self) -> SharedEmpirical:
        """The distribution of the scores alone, mirrored if symmetric; see Notes."""
        scores, weights = self.scores, self.weights
        if self.symmetric:
            scores = np.concatenate([-scores, scores])
            weights = None if weights is None else np.concatenate([weights, weights])
        return SharedEmpirical(self.loc, self.scale, scores, weights)

    def _rows(self) -> int:
        return len(self.loc)

    def _with(
        self, loc: FloatArray, scale: FloatArray, scores: FloatArray, unseen: FloatArray
    ) -> Distribution:
        return ConformalPredictive(loc, scale, scores, self.weights, unseen, self.symmetric)

    def _take(self, rows: IntArray) -> Distribution:
        unseen = self.unseen[rows] if self.unseen.ndim else self.unseen
        return self._with(self.loc[rows], self.scale[rows], self.scores, unseen)

    @classmethod
    def _merge(cls, parts: Sequence[ConformalPredictive]) -> Distribution | None:
        first = parts[0]
        for part in parts[1:]:
            if part.symmetric != first.symmetric:
                return None
            if not same_sample(first.scores, first.weights, part.scores, part.weights):
                return None
        loc, scale = (np.concatenate([getattr(part, name) for part in parts]) for name in ("loc", "scale"))
        unseen = np.concatenate([np.broadcast_to(part.unseen, len(part)) for part in parts])
        return first._with(loc, scale, first.scores, unseen)

    # ------------------------------------------------------------------------------- moments

    def mean(self) -> FloatArray:
        return self.loc.copy() if self.symmetric else self._finite.mean()

    def std(self) -> FloatArray:
        return self._finite.std()

    def _crps(self, y: FloatArray) -> FloatArray:
        return self._finite._crps(y)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        return self._finite._sample(m, rng)

    # ------------------------------------------------------------------ probabilities, levels

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.where(np.isinf(y), np.where(y > 0, 1.0, 0.0), self._cdf_inside(y))

    def _cdf_inside(self, y: FloatArray) -> FloatArray:
        ranks, total = self._ranks, self._total
        count = count_reached(ranks.values, self.loc, self.scale, y)
        if not self.symmetric:  # any level from W / T to (W + w_*) / T is one of y: that nearest to 1/2
            weight = ranks.weight_of(count)
            return np.asarray(np.clip(0.5, weight / total, (weight + self.unseen) / total))
        # the scores smaller than (loc - y) / scale, those whose mirror images exceed y
        mirrored = len(ranks) - count_reached(-ranks.values[::-1], self.loc, self.scale, y)
        inside = np.where(y < self.loc, -ranks.weight_of(mirrored), ranks.weight_of(count))
        return np.asarray(0.5 + 0.5 * inside / total)

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._value(self._symmetric_score(2 * p - 1) if self.symmetric else self._score(p, 1 - p))

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._value(self._symmetric_score(1 - 2 * q) if self.symmetric else self._score(1 - q, q))

    def _symmetric_score(self, signed_coverage: FloatArray) -> FloatArray:
        # the quantile at p is the upper bound of the interval of coverage 2 p - 1, below 1/2 its lower bound
        return np.sign(signed_coverage) * self._ranks.quantile(np.abs(signed_coverage) * self._total)

    def _score(self, below: FloatArray, above: FloatArray) -> FloatArray:
        """Score at the level ``below``, of which ``above`` is the complement."""
        ranks, total = self._ranks, self._total
        low, high = (ranks.quantile_from_top(above * total), ranks.quantile(below * total))
        side = snap_levels(below, _HALF)
        return np.where(side > 0.5, high, np.where(side < 0.5, low, ranks.median))

    def _value(self, score: FloatArray) -> FloatArray:
        """Loc + scale score; infinite scores stay infinite in rows of scale 0 too."""
        infinite = np.isinf(score)
        if not infinite.any():
            return self.loc + self.scale * score
        return np.where(infinite, score, self.loc + self.scale * np.where(infinite, 0.0, score))

    def _level_breaks(self) -> FloatArray:
        return self._finite._level_breaks()

    def _landmarks(self) -> FloatArray:
        return self._finite._landmarks()

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        loc, scale = shift + factor * self.loc, np.abs(factor) * self.scale
        if self.symmetric or (factor >= 0).all():
            return self._with(loc, scale, self.scores, self.unseen)
        if (factor <= 0).all():
            turned = slice(None, None, -1)
            weights = None if self.weights is None else self.weights[turned]
            return ConformalPredictive(loc, scale, -self.scores[turned], weights, self.unseen)
        return None

    # ----------------------------------------------------------------------- unknown tail mass

    def _finite_part(self) -> SharedEmpirical:
        """The distribution of the scores alone, mirrored if symmetric."""
        return self._finite

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        """What the most extreme level that the ranks do not reach needs."""
        requested = level[(level > 0) & (level < 1)]
        if kind == "coverage":
            score_levels = score_level(requested, self.symmetric)
        else:
            score_levels = (
                np.abs(2 * requested - 1) if self.symmetric else np.maximum(requested, 1 - requested)
            )
            score_levels = np.where(requested == 0.5, 0.0, score_levels)  # the median is always finite
        return unreachable_level(requested, kind, score_levels, self._ranks.total, float(self.unseen.max()))


def _read_unseen(unseen: ArrayLike, n: int) -> FloatArray:
    array = check_positive(check_finite(as_float_array(unseen, "unseen"), "unseen"), "unseen")
    if array.shape not in {(), (n,)}:
        raise ValueError(f"`unseen` must be a number or have shape ({n},), got {array.shape}.")
    return np.array(array if array.min() < array.max() else array.flat[0])
