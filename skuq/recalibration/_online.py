"""Recalibration of probability levels that adapts to a sequence of targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skuq._typing import ArrayLike, FloatArray, Frozen
from skuq._validation import check_increasing, check_integer, check_open_unit, effective_rows
from skuq.distributions import Distribution
from skuq.distributions._level_map import LevelMap
from skuq.distributions._pit import pit_scores, spread_atoms
from skuq.distributions._recalibrated import Recalibrated
from skuq.recalibration._base import NOT_METADATA, BaseRecalibrator, check_observed
from skuq.recalibration._isotonic import ScoredRows, increasing_level_map
from skuq.recalibration._residuals import outside_share

LEVELS = np.array([0.01, *np.arange(1, 40) / 40, 0.99])
"""Default levels. They include the bounds of 50, 80, 90, 95 and 98 % intervals."""

STEPS = np.array([0.01, 0.03, 0.1, 0.4])
"""Step sizes of the experts, in units of normal scores."""

_FARTHEST = 38.0
"""Normal scores are clipped at this distance from 0. The loss outside the support is then finite."""


class TrackedScores:
    r"""Quantiles of normal scores that are tracked at fixed levels by experts with different steps.

    After a score v, an expert changes its quantile q at level p by :math:`\eta (p - 1\{v \le q\})`
    (Angelopoulos, Candès and Tibshirani 2023, eq. 4). The loss of an expert is the mean, over all levels, of
    the pinball loss of its sorted quantiles.
    """

    def __init__(self, levels: FloatArray, steps: FloatArray = STEPS) -> None:
        self._levels, self._steps = levels, steps
        edges = np.concatenate([[0.0], (levels[1:] + levels[:-1]) / 2, [1.0]])
        self._shares = np.diff(edges)
        # Each quantile keeps its own level, so the quantiles of an expert may cross.
        self._quantiles = np.tile(ndtri(levels), (steps.size, 1))
        self._experts = ExpertWeights(steps.size)

    @property
    def quantiles(self) -> FloatArray:
        """Weighted mean of the sorted quantiles of the experts, shape (k,)."""
        return np.asarray(self._experts.weights @ np.sort(self._quantiles, axis=1))

    def update(self, scores: FloatArray, repetitions: FloatArray) -> None:
        """Update the quantiles with scores whose forecasts were made at the same time."""
        order = np.argsort(scores, kind="stable")
        scores, repetitions = np.clip(scores[order], -_FARTHEST, _FARTHEST), repetitions[order]
        weight = np.append(0.0, np.cumsum(repetitions))
        total = np.append(0.0, np.cumsum(repetitions * scores))
        ordered = np.sort(self._quantiles, axis=1)
        below = scores.searchsorted(ordered, side="right")
        above = total[-1] - weight[-1] * ordered
        pinball = self._levels * above - (total[below] - weight[below] * ordered)
        self._experts.update(pinball @ self._shares)
        reached = weight[scores.searchsorted(self._quantiles, side="right")]
        self._quantiles += self._steps[:, np.newaxis] * (self._levels * weight[-1] - reached)

    def level_map(self, *, light_tails: bool) -> LevelMap:
        quantiles, nominal = self.quantiles, ndtri(self._levels)
        slope = float(np.ptp(nominal) / np.ptp(quantiles))
        return increasing_level_map(quantiles, nominal, slope if light_tails else max(1.0, slope))


class OnlineRecalibrator(BaseRecalibrator):
    r"""Map the probability levels, and adapt the map to a sequence with `partial_fit`.

    `fit` estimates the same map as `IsotonicRecalibrator`. Each call of `partial_fit` estimates this first
    map again, including the new rows. It also updates a second map, which tracks the quantiles of the
    recalibrated levels. Therefore, all quantiles and intervals of the distribution adapt together. Use this
    class if the errors of a sequence change over time. Prefer `IsotonicRecalibrator` for exchangeable rows.
    Prefer `skuq.conformal.ConformalRegressor` with its parameter ``adapt`` if you need only a few intervals
    and a guarantee of their coverage.

    Parameters
    ----------
    levels : array-like of shape (k,) or None, default=None
        Tracked levels: at least two increasing numbers in (0, 1). None means 41 levels: 0.01, 0.99 and the
        multiples of 0.025.
    window : int or None, default=None
        Number of latest rows from which `partial_fit` estimates the first map. None keeps all rows. A row
        needs 24 bytes of memory. Prefer a few hundred rows if the errors change abruptly.

    Attributes
    ----------
    level_map_ : LevelMap
        Current map from predicted levels to observed levels.
    levels_ : ndarray of shape (k,)
        Tracked levels.
    n_calibration_ : float
        Number of rows from which the first map is currently estimated, or the sum of their weights.
    outside_share_ : float
        Share of the rows of the first map whose target is outside the support of the distribution, for
        example below the smallest member of an ensemble. A map of levels has no effect on these rows.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    IsotonicRecalibrator : The map for exchangeable rows.
    skuq.regressors.RecalibratedRegressor : Regressor with a recalibrator. It also has `partial_fit`.
    skuq.conformal.ConformalRegressor : Intervals that adapt.
    skuq.monitoring.PendingForecasts : Forecasts whose targets arrive late.

    Notes
    -----
    Let v be the normal score :math:`\Phi^{-1}(R(F(y)))` of a target, where R is the map of
    `IsotonicRecalibrator` for the earlier rows. After each target, the tracked quantile of v at level p
    changes to

    .. math:: q_p \leftarrow q_p + \eta \, (p - 1\{v \le q_p\})

    ([1]_, eq. 4). The first value is :math:`\Phi^{-1}(p)`. Four experts have the steps 0.01, 0.03, 0.1 and
    0.4. The quantiles of each expert are sorted. The forecast uses the weighted mean of the quantiles of the
    experts. The loss of an expert is the mean pinball loss over all levels, which approximates the CRPS in
    units of v. The weights are computed from the losses by algorithm 2 of [2]_, with an interval length of
    500 steps.

    On every interval of 500 steps, the weights bound the regret relative to the best expert. For scores
    between -b and b, the share of targets below the unsorted quantile of one expert differs from p by at most
    :math:`(2 b + \eta) / (\eta T)` after T rows, for every sequence ([1]_, prop. 1). The weighted mean has no
    such bound. On the electricity prices of [3]_ (8760 hours), the share of targets below each of the 41
    quantiles differed from its level by at most 0.012. The CRPS was compared with the CRPS of forecasts that
    use the quantiles of all earlier residuals. It was 2.1 % lower with a forest, and 0.4 % lower with a ridge
    regression (``benchmarks/sequences.py``).

    The density of the forecast is rough, because the tracked levels move independently. Use the CRPS rather
    than the likelihood to compare forecasts.

    If one call of `partial_fit` contains several rows, all of these rows count as predicted before the first
    of their targets was observed. If the targets arrive one by one, call `partial_fit` once per row. The map
    depends on the order of the rows.

    Cost: `fit` takes O(n log n) time. Each call of `partial_fit` with m rows takes O(n log n + m) time, where
    n is the number of rows in the window.

    References
    ----------
    .. [1] A. N. Angelopoulos, E. J. Candès, R. J. Tibshirani, "Conformal PID control for time series
       prediction", NeurIPS 2023, https://arxiv.org/abs/2307.16895.
    .. [2] I. Gibbs, E. J. Candès, "Conformal inference for online prediction with arbitrary distribution
       shifts", Journal of Machine Learning Research 25, 2024, https://arxiv.org/abs/2208.08401.
    .. [3] M. Zaffran, O. Féron, Y. Goude, J. Josse, A. Dieuleveut, "Adaptive conformal predictions for time
       series", ICML 2022, https://arxiv.org/abs/2202.07282.

    Examples
    --------
    The noise doubles after 500 rows:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import OnlineRecalibrator
    >>> y = np.random.default_rng(0).normal(scale=np.repeat([1.0, 2.0], 500))
    >>> dist = Normal(np.zeros(1000), 1.0)
    >>> recalibrator = OnlineRecalibrator(window=200).fit(dist[:300], y[:300])
    >>> covered = []
    >>> for t in range(300, 1000):
    ...     lower, upper = recalibrator.transform(dist[[t]]).interval(0.9)[0]
    ...     covered.append(lower <= y[t] <= upper)
    ...     recalibrator = recalibrator.partial_fit(dist[[t]], y[[t]])
    >>> float(np.mean(covered).round(2))  # without `partial_fit`, the coverage is 0.66
    0.9
    """

    __metadata_request__partial_fit: Mapping[str, str] = NOT_METADATA

    def __init__(self, *, levels: ArrayLike | None = None, window: int | None = None) -> None:
        self.levels = levels
        self.window = window

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        self._window = None if self.window is None else check_integer(self.window, "window")
        levels = LEVELS if self.levels is None else np.atleast_1d(check_open_unit(self.levels, "levels"))
        if check_increasing(levels, "levels").size < 2:
            raise ValueError(f"`levels` must have at least two levels, got {levels.size}.")
        rows = ScoredRows(*pit_scores(dist, y), weight)
        outside_share(rows.lower, rows.upper, weight, effective_rows(weight, len(y)), type(self).__name__)
        self._light_tails = dist._light_tails
        self._tracked = TrackedScores(levels)
        self._set(rows, self._map_of(rows))
        self.levels_ = levels

    def partial_fit(
        self, dist: Distribution | Frozen, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the map with newly observed targets.

        Parameters
        ----------
        dist : Distribution of m rows, or array-like of shape (m, 2)
            Predictions that were made before their targets were observed, in chronological order. Pass the
            predictions before recalibration.
        y : array-like of shape (m,)
            Observed targets, in the units of the predictions.
        sample_weight : array-like of shape (m,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : object
            The recalibrator, with an updated map.

        Raises
        ------
        NotFittedError
            If `fit` was not called before.
        TypeError
            If `dist` is neither a Distribution nor an array.
        ValueError
            If values or lengths are invalid. In this case, the map is not changed.
        """
        check_is_fitted(self)
        checked, target, weight = check_observed(dist, y, sample_weight)
        effective_rows(weight, len(target))  # raises an error if the weights are relative
        new = ScoredRows(*pit_scores(checked, target), weight)
        rows = self._rows.followed_by(new, self._window)
        following_map = self._map_of(rows)
        lower, upper = self._first_map.pieces(new.lower), self._first_map.pieces(new.upper)
        self._tracked.update(*spread_atoms(lower, upper, new.repetitions)[1:])
        self._set(rows, following_map)
        return self

    def _map_of(self, rows: ScoredRows) -> LevelMap:
        return rows.level_map(light_tails=self._light_tails)

    def _set(self, rows: ScoredRows, first_map: LevelMap) -> None:
        self._rows, self._first_map = rows, first_map
        self.level_map_ = self._tracked.level_map(light_tails=self._light_tails).after(first_map)
        self.n_calibration_ = float(rows.repetitions.sum())
        outside = np.isinf(rows.lower) & (rows.lower == rows.upper)
        self.outside_share_ = float(np.average(outside, weights=rows.repetitions))

    def _transform(self, dist: Distribution) -> Distribution:
        return Recalibrated(dist, self.level_map_)


_INTERVAL = 500
"""Number of steps I. In each period of I steps, the weighted experts are nearly as good as the best single
expert."""


class ExpertWeights:
    r"""Weights of K experts. They follow the best expert of the recent steps.

    For losses :math:`\ell_k`, the update is

    .. math::

        w_k \leftarrow (1 - \sigma) \, w_k e^{-\eta \ell_k} + \frac{\sigma}{K} \sum_j w_j e^{-\eta \ell_j},
        \quad \sigma = \frac{1}{2 I}, \quad \eta^2 = \frac{\log(2 K I) + 1}{I \, \overline{\ell^2}}

    (Gibbs and Candès 2024, algorithm 2 and theorem 3), where :math:`\overline{\ell^2}` is the mean of
    :math:`\sum_k w_k \ell_k^2` over the last I steps, or over all steps if there are fewer.
    """

    def __init__(self, n_experts: int) -> None:
        self.weights: FloatArray = np.full(n_experts, 1 / n_experts)
        self._squares = np.zeros(_INTERVAL)  # the latest value overwrites the earliest
        self._n_steps = 0

    def update(self, losses: FloatArray) -> None:
        self._squares[self._n_steps % _INTERVAL] = self.weights @ losses**2
        self._n_steps += 1
        mean_square = float(self._squares.sum()) / min(self._n_steps, _INTERVAL)
        if mean_square == 0:  # No expert had a loss.
            return
        rate = math.sqrt((math.log(2 * losses.size * _INTERVAL) + 1) / (_INTERVAL * mean_square))
        weights = self.weights * np.exp(-rate * (losses - losses.min()))
        weights /= weights.sum()
        share = 1 / (2 * _INTERVAL)
        self.weights = (1 - share) * weights + share / losses.size
