"""Conformal predictive distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from skuq._numeric import WeightedRanks, count_reached, score_level
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_non_negative,
    check_option,
    check_positive,
    per_row,
)
from skuq.distributions._base import Distribution
from skuq.distributions._level_quadrature import LevelKind, UnreachableLevel, snap_levels, unreachable_level
from skuq.distributions._normal import read_rows
from skuq.distributions._shared_empirical import SharedEmpirical, read_sample

_HALF = np.array([0.5])


@dataclass(frozen=True, eq=False, repr=False)
class ConformalPredictive(Distribution):
    r"""Distributions with the coverage guarantee of conformal prediction.

    The distribution of row i is the distribution of ``loc[i] + scale[i] * z``, where z is a random
    standardized residual of the calibration rows. If the calibration rows and the new row are exchangeable, a
    prediction interval has at least the nominal coverage, for every model and every distribution of the
    noise. Bounds may be infinite if there are too few calibration rows. `SharedEmpirical` always has finite
    bounds, but no guarantee. `skuq.conformal.ConformalRecalibrator` and
    `skuq.conformal.ConformalRegressor` return this family.

    Parameters
    ----------
    loc : float or array-like of shape (n,)
        Center of each row, in the units of y.
    scale : float or array-like of shape (n,)
        Factor of the scores in each row, in the units of y, at least 0.
    scores : array-like of shape (k,)
        Standardized residuals of the calibration rows, or their absolute values if ``symmetric``.
    weights : array-like of shape (k,), default=None
        Weight of each score: a number of repetitions, a density ratio under covariate shift, or the product
        of both. Weights are not rescaled. None means that all weights are 1.
    test_weight : float or array-like of shape (n,), default=1.0
        Positive weight of the new observation. Under covariate shift, this is its density ratio.
    symmetric : bool, default=False
        Whether intervals are symmetric about the center. If True, the guarantee applies to the coverage of
        the interval, and 90 % intervals require 9 rows. If False, each bound has its own guarantee, and 90 %
        intervals require 19 rows. With False, the intervals are asymmetric if the residuals are skewed.

    Attributes
    ----------
    scores : ndarray of shape (k,)
        Sorted scores of positive weight.
    weights : ndarray of shape (k,) or None
        Weights in the order of ``scores``.
    test_weight : ndarray of shape () or (n,)
        Weight of the new observation. A single number if all rows have the same weight.

    See Also
    --------
    SharedEmpirical : Empirical distributions of one common shape, with finite bounds.
    Recalibrated : Distributions with recalibrated probability levels. Their coverage is not guaranteed.

    Notes
    -----
    Let :math:`z_{(1)} \le \ldots \le z_{(k)}` be the scores with weights :math:`w_j` and cumulative weights
    :math:`W_j`. The new observation has the weight :math:`w_*`, and the total weight is :math:`T = W_k + w_*`
    [1]_ [2]_.

    - The quantile at :math:`p > 1/2` is the smallest :math:`z_{(j)}` with :math:`W_j \ge p T`, or infinity if
      there is no such score. Quantiles below the median are defined in the same way for the scores in reverse
      order. Therefore, :math:`P(Y \le Q(p)) \ge p` and :math:`P(Y \ge Q(1 - p)) \ge p`. The median is the
      weighted median of the scores.
    - If ``symmetric``, the half width of the interval of coverage c is the smallest :math:`|z|_{(j)}` with
      :math:`W_j \ge c T`. For n rows with equal weights, this is the :math:`\lceil (n + 1) c \rceil`-th
      score, as in split conformal prediction.

    The cdf is the inverse of the quantile function. Its values lie between :math:`w_*/T` and :math:`1 -
    w_*/T`, or between :math:`w_*/(2T)` and :math:`1 - w_*/(2T)` if ``symmetric``. Quantiles at levels outside
    this range are infinite, because the scores do not determine them. In this case, `interval`, `quantile`
    and `ppf` issue one `SmallSampleWarning` with the required number of rows. `mean`, `std`, `crps` and
    `sample` use the empirical distribution of the scores instead, which has no infinite tails. If
    ``symmetric``, this distribution also contains the negative of each score. The distribution has no
    density.

    No array of size n by k is built. Memory is O(n + k), and each method costs O(n log k) after one sort.

    References
    ----------
    .. [1] V. Vovk, J. Shen, V. Manokhin, M. Xie, "Nonparametric predictive distributions based on
       conformal prediction", Machine Learning 108, 2019. https://doi.org/10.1007/s10994-018-5755-8
    .. [2] R. J. Tibshirani, R. Foygel Barber, E. J. Candes, A. Ramdas, "Conformal prediction under
       covariate shift", NeurIPS 2019. https://doi.org/10.48550/arXiv.1904.06019

    Examples
    --------
    >>> from skuq.distributions._conformal_predictive import ConformalPredictive
    >>> scores = [0.3, 1.1, 0.2, 0.7, 1.9, 0.5, 0.9, 1.3, 0.1]
    >>> dist = ConformalPredictive([0.0, 10.0], [1.0, 2.0], scores, symmetric=True)
    >>> dist.interval(0.9)  # the largest of the nine scores
    array([[-1.9,  1.9],
           [ 6.2, 13.8]])
    >>> dist.interval(0.5)  # the fifth smallest of the scores
    array([[-0.7,  0.7],
           [ 8.6, 11.4]])
    """

    loc: FloatArray
    scale: FloatArray
    scores: FloatArray
    weights: FloatArray | None
    test_weight: FloatArray
    symmetric: bool

    _PER_ROW = ("loc", "scale")

    def __init__(
        self,
        loc: ArrayLike,
        scale: ArrayLike,
        scores: ArrayLike,
        weights: ArrayLike | None = None,
        test_weight: ArrayLike = 1.0,
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
            test_weight=_read_test_weight(test_weight, len(location)),
            symmetric=symmetric,
        )

    @cached_property
    def _ranks(self) -> WeightedRanks:
        return WeightedRanks(self.scores, self.weights)

    @cached_property
    def _total(self) -> FloatArray:
        return self._ranks.total + self.test_weight

    @cached_property
    def _finite(self) -> SharedEmpirical:
        """Return the empirical distribution of the scores.

        If ``symmetric`` is True, the negatives of the scores are included.
        """
        scores, weights = self.scores, self.weights
        if self.symmetric:
            scores = np.concatenate([-scores, scores])
            weights = None if weights is None else np.concatenate([weights, weights])
        return SharedEmpirical(self.loc, self.scale, scores, weights)

    def _per_row(self) -> tuple[str, ...]:
        return (*self._PER_ROW, "test_weight") if self.test_weight.ndim else self._PER_ROW

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self | None:
        merged = super()._merge([part._with(test_weight=1.0) for part in parts])
        test_weight = np.concatenate([np.broadcast_to(part.test_weight, len(part)) for part in parts])
        return None if merged is None else merged._with(test_weight=test_weight)

    def mean(self) -> FloatArray:
        return self.loc.copy() if self.symmetric else self._finite.mean()

    def std(self) -> FloatArray:
        return self._finite.std()

    def _crps(self, y: FloatArray) -> FloatArray:
        return self._finite._crps(y)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        return self._finite._sample(m, rng)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.where(np.isinf(y), np.where(y > 0, 1.0, 0.0), self._cdf_inside(y))

    def _cdf_inside(self, y: FloatArray) -> FloatArray:
        ranks, total = self._ranks, self._total
        count = count_reached(ranks.values, self.loc, self.scale, y)
        # The cdf at y may be any level from W / T to (W + w_*) / T; the level closest to 1/2 is used.
        if not self.symmetric:
            weight = ranks.weight_of(count)
            return np.asarray(np.clip(0.5, weight / total, (weight + self.test_weight) / total))
        # The negatives of scores below (loc - y) / scale are above y.
        mirrored = len(ranks) - count_reached(-ranks.values[::-1], self.loc, self.scale, y)
        inside = np.where(y < self.loc, -ranks.weight_of(mirrored), ranks.weight_of(count))
        return np.asarray(0.5 + 0.5 * inside / total)

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._value(self._symmetric_score(2 * p - 1) if self.symmetric else self._score(p, 1 - p))

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._value(self._symmetric_score(1 - 2 * q) if self.symmetric else self._score(1 - q, q))

    def _symmetric_score(self, signed_coverage: FloatArray) -> FloatArray:
        # A quantile above the median is the upper bound of an interval. A quantile below the median is the
        # lower bound.
        return np.sign(signed_coverage) * self._ranks.quantile(np.abs(signed_coverage) * self._total)

    def _score(self, below: FloatArray, above: FloatArray) -> FloatArray:
        ranks, total = self._ranks, self._total
        low, high = (ranks.quantile_from_top(above * total), ranks.quantile(below * total))
        side = snap_levels(below, _HALF)
        return np.where(side > 0.5, high, np.where(side < 0.5, low, ranks.median))

    def _value(self, score: FloatArray) -> FloatArray:
        """Return loc + scale * score. Infinite scores give infinite values even if the scale is 0."""
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
            return self._with(loc=loc, scale=scale)
        if (factor <= 0).all():
            turned = slice(None, None, -1)
            weights = None if self.weights is None else self.weights[turned]
            return ConformalPredictive(loc, scale, -self.scores[turned], weights, self.test_weight)
        return None

    def _finite_part(self) -> SharedEmpirical:
        return self._finite

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        requested = level[(level > 0) & (level < 1)]
        if kind == "coverage":
            score_levels = score_level(requested, self.symmetric)
        else:
            score_levels = (
                np.abs(2 * requested - 1) if self.symmetric else np.maximum(requested, 1 - requested)
            )
            score_levels = np.where(requested == 0.5, 0.0, score_levels)  # The median is always finite.
        return unreachable_level(
            requested, kind, score_levels, self._ranks.total, float(self.test_weight.max())
        )


def _read_test_weight(test_weight: ArrayLike, n: int) -> FloatArray:
    array = check_finite(as_float_array(test_weight, "test_weight"), "test_weight")
    array = per_row(check_positive(array, "test_weight"), "test_weight", n)
    return np.array(array if array.min() < array.max() else array[0])
