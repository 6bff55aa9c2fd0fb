"""Recalibration of the probability levels, shrunk toward no recalibration by its out-of-fold gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_integer, effective_rows
from skuq.distributions import Distribution
from skuq.distributions._level_map import LevelMap
from skuq.distributions._pit import pit_scores
from skuq.distributions._recalibrated import Recalibrated
from skuq.recalibration._base import BaseRecalibrator
from skuq.recalibration._isotonic import ScoredRows, isotonic_level_map
from skuq.recalibration._residuals import outside_share

_SHARES = np.linspace(0.0, 1.0, 21)
"""Candidate weights of the fitted map."""

_DECIMALS = 9
"""Number of decimals of a normal score. Further decimals are rounding errors."""

_HALVINGS = 4
"""Largest number of times that the weight is halved."""

_LEAST_MASS = 1e-300
"""Smallest probability whose logarithm is computed."""


class ShrunkIsotonicRecalibrator(BaseRecalibrator):
    r"""Recalibrate the probability levels if this does not increase the CRPS.

    The map of `IsotonicRecalibrator` with ``smooth=True`` is shrunk toward the identity. The weight of the
    map is large if the map improves the calibration of rows that it was not fitted to. The weight is zero if
    the map would increase the CRPS of these rows. Prefer this class for forecasts that are nearly calibrated,
    such as the forecasts of foundation models. For forecasts that are clearly too narrow or too wide, the map
    is nearly the same as the map of `IsotonicRecalibrator`.

    Parameters
    ----------
    cv : int, default=5
        Number of folds of the calibration rows, at least 2. The folds are random with a fixed seed, and do
        not depend on the order of the rows.

    Attributes
    ----------
    level_map_ : LevelMap
        The shrunk map from predicted levels to observed levels.
    map_weight_ : float
        Weight of the fitted map, from 0 (no recalibration) to 1 (no shrinkage).
    outside_share_ : float
        Share of the rows whose target is outside the support of the distribution. If the share is well above
        0.1, `fit` raises an error.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    IsotonicRecalibrator : The map without shrinkage.
    StdScalingRecalibrator : One factor for all standard deviations.

    Notes
    -----
    Let :math:`g` be the fitted map on the scale of normal scores, and :math:`t` its weight. The recalibrated
    score is :math:`x + t (g(x) - x)`. For each fold, a map is fitted to the other folds and evaluated on the
    rows of the fold:

    1. The gain in calibration is the mean log density of the mapped levels, which is 0 for the identity. Let
       :math:`t` be the weight with the largest gain :math:`G`, and :math:`s` the standard error of the gain.
       The weight is multiplied by :math:`\max(0, 1 - s^2 / G^2)` (positive-part James-Stein rule).
    2. The weight is halved up to four times, as long as each step decreases the mean CRPS of the rows. If the
       CRPS is then larger than without recalibration, the weight is 0.

    The rule was chosen on the forecasts of four models (a quantile forest, quantile boosting, NGBoost and an
    ensemble of networks) for eleven data sets, with at most 1000 calibration rows. On new rows, the CRPS
    increased in none of the cases. The Kolmogorov-Smirnov distance of the PIT values decreased in most cases.
    In the other cases, the weight is 0. `IsotonicRecalibrator` with ``smooth=True`` decreased the distance in
    more cases, but it increased the CRPS in some cases.

    Cost: the CRPS of the calibration rows is computed three to six times.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import ShrunkIsotonicRecalibrator
    >>> y = np.random.default_rng(0).normal(size=400)
    >>> calibrated, too_wide = Normal(np.zeros(400), 1.0), Normal(np.zeros(400), 2.0)
    >>> ShrunkIsotonicRecalibrator().fit(calibrated, y).map_weight_
    0.0
    >>> ShrunkIsotonicRecalibrator().fit(too_wide, y).map_weight_ > 0.8
    True
    """

    def __init__(self, *, cv: int = 5) -> None:
        self.cv = cv

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        cv = check_integer(self.cv, "cv", minimum=2)
        rows = ScoredRows(*pit_scores(dist, y), weight)
        n = effective_rows(weight, len(y))
        self.outside_share_ = outside_share(rows.lower, rows.upper, weight, n, type(self).__name__)
        self.map_weight_ = self._weight_of_map(dist, y, rows, _random_folds(rows, cv))
        every = np.ones(len(y), dtype=bool)
        self.level_map_ = _shrunk(_fitted_map(dist, rows, every), self.map_weight_)

    def _weight_of_map(self, dist: Distribution, y: FloatArray, rows: ScoredRows, fold: IntArray) -> float:
        if fold.max() == 0:
            return 0.0
        folds = [
            _Fold(np.flatnonzero(fold == k), _fitted_map(dist, rows, fold != k)) for k in np.unique(fold)
        ]
        share = _share_by_density(_log_densities(rows, folds, _SHARES), rows.repetitions)
        if share == 0:
            return 0.0
        before = np.average(dist.crps(y), weights=rows.repetitions)
        losses = {}
        for candidate in share * 0.5 ** np.arange(_HALVINGS + 1):
            crps = _crps_of(dist, y, folds, candidate)
            losses[float(candidate)] = np.average(crps, weights=rows.repetitions)
            if losses[float(candidate)] > min(losses.values()):
                break
        best = min(losses, key=losses.__getitem__)
        return best if losses[best] <= before else 0.0

    def _transform(self, dist: Distribution) -> Distribution:
        return Recalibrated(dist, self.level_map_) if self.map_weight_ > 0 else dist


def _random_folds(rows: ScoredRows, cv: int) -> IntArray:
    """Return the fold of each row. Rows with equal scores, such as repeated rows, are in the same fold."""
    with np.errstate(invalid="ignore"):
        size = np.abs(rows.lower + rows.upper)  # does not change if y is reflected
    distinct, rank = np.unique(np.round(np.nan_to_num(size, posinf=-1.0), _DECIMALS), return_inverse=True)
    return np.asarray(np.random.RandomState(0).permutation(distinct.size)[rank.ravel()] % cv)


class _Fold(NamedTuple):
    """Rows of a fold, and the map that is fitted to the other rows."""

    rows: IntArray
    level_map: LevelMap


def _log_densities(rows: ScoredRows, folds: Sequence[_Fold], shares: FloatArray) -> FloatArray:
    """Return the out-of-fold log densities of the levels, one row per sample and one column per share."""
    values = np.empty((len(rows), shares.size))
    for inside, level_map in folds:
        lower, upper = rows.lower[inside], rows.upper[inside]
        for column, share in enumerate(shares):
            values[inside, column] = _log_density(_shrunk(level_map, share), lower, upper)
    return values


def _crps_of(dist: Distribution, y: FloatArray, folds: Sequence[_Fold], share: float) -> FloatArray:
    crps = np.empty(len(y))
    for inside, level_map in folds:
        crps[inside] = Recalibrated(dist[inside], _shrunk(level_map, share)).crps(y[inside])
    return crps


def _fitted_map(dist: Distribution, rows: ScoredRows, chosen: BoolArray) -> LevelMap:
    lower, upper, repetitions = (values[chosen] for values in (rows.lower, rows.upper, rows.repetitions))
    n = effective_rows(repetitions, len(lower))
    return isotonic_level_map(lower, upper, repetitions, n, light_tails=dist._light_tails, smooth=True)


def _shrunk(level_map: LevelMap, share: float) -> LevelMap:
    """Return the map x + share (g(x) - x) on the scale of normal scores."""
    knots, values, slopes = level_map.pieces.knots, level_map.pieces.values, level_map.pieces.slopes
    ends = 1 + share * (slopes[[0, -1]] - 1)
    return LevelMap.from_scores(knots, knots + share * (values - knots), *ends)


def _log_density(level_map: LevelMap, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the log density of the levels, or the mean density over the levels of an atom."""
    atom, outside = lower < upper, ~np.isfinite(lower)
    density = level_map.log_density(np.where(outside, 0.0, lower))
    mapped, nominal = (
        np.maximum(ndtr(high) - ndtr(low), _LEAST_MASS)
        for low, high in ((level_map.pieces(lower), level_map.pieces(upper)), (lower, upper))
    )
    return np.where(atom, np.log(mapped / nominal), np.where(outside, 0.0, density))


def _share_by_density(density: FloatArray, repetitions: FloatArray) -> float:
    """Return the share with the largest mean log density, shrunk if this gain is uncertain."""
    means = np.average(density, axis=0, weights=repetitions)
    best = int(np.argmax(means))
    gain = means[best]
    if gain <= 0:
        return 0.0
    variance = np.average((density[:, best] - gain) ** 2, weights=repetitions) / repetitions.sum()
    return float(_SHARES[best] * max(0.0, 1 - variance / gain**2))
