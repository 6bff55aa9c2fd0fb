"""Distribution of the errors of a model as a function of features, calibrated on out-of-bag rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.sparse import csr_matrix
from scipy.special import ndtr, ndtri, stdtr
from sklearn.tree import ExtraTreeRegressor

from skuq._fitting.seeds import MAX_SEED
from skuq._numeric import distinct, power_of_two, row_blocks
from skuq._typing import FloatArray, IntArray
from skuq.distributions._level_map import LevelMap
from skuq.distributions._student_t import fit_student, shrunk_level_map, student_scores
from skuq.recalibration._isotonic import isotonic_level_map

FEWEST_ROWS = 40
"""With fewer independent rows, all rows have the same distribution of errors."""

MOST_ROWS = 10_000
"""The errors of at most this number of rows are used."""

MOST_DRAWN = 3_000
"""At most this number of rows is drawn for a tree."""

N_TREES = (75, 25)
"""Numbers of trees with small leaves and with large leaves."""

SMALL_LEAF = 2
"""Smallest number of rows in a small leaf. Small leaves correct the bias of the model. Large leaves have the
square root of the number of rows, and estimate the scale of smooth noise."""

LEAST_NARROWING = 0.8
"""Smallest factor that narrows the forecasts of new rows, because larger gains are not measured well."""

LEVELS = np.array([0.0025, 0.005, 0.01, 0.025, *np.arange(1, 20) / 20, 0.975, 0.99, 0.995, 0.9975])
"""Nominal levels of the predictive quantiles."""

THRESHOLDS = np.array([0.005, 0.01, 0.025, *np.arange(1, 30) / 30, 0.975, 0.99, 0.995])
"""A leaf stores the share of its errors below each of these quantiles of all errors."""

_LEAST_SHARE = 0.001
"""Probabilities of the forests are limited to the range from this value to 1 minus this value."""

_TAIL_SCORE = 2.0
"""The isotonic map is linear beyond this normal score, which is near the levels 0.025 and 0.975."""

_KNOTS = np.array([0.0, *THRESHOLDS, 1.0])

_TABLE_SCORES = np.linspace(-4.5, 4.5, 361)
"""The quantiles of all errors are stored at these normal scores."""

_MOST_EDGES = 254
"""Largest number of bin edges of a feature."""

_PARTS = 255
"""A leaf stores its shares as multiples of 1 / 255."""

_BLOCK = 1 << 10
"""Forecasts are computed for at most this number of rows at a time."""

Codes = NDArray[np.float32]


class ErrorSample(NamedTuple):
    """Out-of-fold errors, from which the distribution is learned. One entry per row."""

    table: FloatArray  # features, and the prediction in the last column
    error: FloatArray
    weight: FloatArray  # positive number of repetitions
    group: IntArray  # numbers of the groups, from 0
    fold: IntArray


class SecondErrors(NamedTuple):
    """Errors of a second model, for some rows that neither model was trained on."""

    place: IntArray  # position in the sample
    table: FloatArray
    error: FloatArray


@dataclass(eq=False)
class ErrorForest:
    """Distribution of an error, given features.

    An error is represented by its PIT value: the distribution function of all errors, at this error. The
    forecast of a row is a distribution function of the PIT value, stored as its values at `THRESHOLDS`. It is
    a weighted mean of two bootstrap forests and of the uniform distribution of all errors. With
    ``symmetric``, the forecasts are symmetric around 0: only the size of the errors is learned.

    Forecasts are calibrated: the quantile with the nominal level ``LEVELS[j]`` is the quantile of the
    forecast at ``out_of_bag_levels[j]`` for out-of-bag rows, and at ``new_row_levels[j]`` for new rows.
    """

    symmetric: bool

    def fit(
        self, sample: ErrorSample, second: SecondErrors, n: float, n_models: int, rng: np.random.RandomState
    ) -> FloatArray:
        """Learn the distribution. Return the calibrated out-of-bag quantiles of the sample.

        ``n`` is the number of independent rows. ``n_models`` models are averaged for new rows.
        """
        m = len(sample.error)
        self.forests: list[ErrorTrees] = []
        self.weights, self.narrowing = np.zeros(len(N_TREES)), 1.0
        self.variance_share = 0.0
        self.new_row_levels = self.out_of_bag_levels = LEVELS
        self.standard = np.zeros(len(_TABLE_SCORES))
        self.unit = power_of_two(float(np.average(np.abs(sample.error), weights=sample.weight)))
        if not sample.error.any():
            return np.zeros((m, len(LEVELS)))

        # The distribution of all errors gives the PIT value of each error. It is rounded, so that rounding
        # errors, which depend on the units of y, do not change a split.
        self._fit_common(sample)
        error = np.concatenate([sample.error, second.error]) / self.unit
        pit = np.asarray(ndtr(np.round(np.interp(error, self.standard, _TABLE_SCORES), 9)))

        # The forests forecast the PIT values.
        forecast, leak_share = np.tile(THRESHOLDS, (len(pit), 1)), 0.0
        if n >= FEWEST_ROWS:
            forecast, leak_share = self._fit_forests(sample, second, pit, rng)

        # An isotonic map of the probability levels calibrates the out-of-bag forecasts.
        score = ndtri(np.clip(_cdf_of_forecast(pit, forecast), 1e-12, 1 - 1e-12))
        both_signs, repeats = self._both_signs(score[:m], sample.weight)
        pieces = isotonic_level_map(both_signs, both_signs, repeats, repeats.sum(), light_tails=True).pieces
        # A few rows far outside their forecasts must not widen the tails of all rows.
        kept = np.abs(pieces.values) <= _TAIL_SCORE
        level_map = LevelMap.from_scores(pieces.knots[kept], pieces.values[kept], *pieces.slopes[[0, -1]])
        nominal = ndtri(LEVELS)
        self.out_of_bag_levels = ndtr(level_map.pieces.inverse(nominal))

        # Out-of-bag forecasts describe the errors of one model. New rows are predicted by the mean of K
        # models, whose errors have a variance that is smaller by the share (1 - 1/K) v. Out-of-bag errors are
        # also larger by the share (1 - 1/K) h, because a forecast is moved away from the target of its row.
        if len(second.place):
            place, averaged = second.place, 1 - 1 / n_models
            first, again = level_map.pieces(score[place]), level_map.pieces(score[m:])
            self.variance_share = variance_share(first, again, sample.weight[place], sample.group[place])
            gain = np.sqrt(1 - averaged * min(self.variance_share, 1.0))
            self.narrowing = float(max(gain / (1 + averaged * leak_share), LEAST_NARROWING))
        self.new_row_levels = ndtr(shrunk_level_map(level_map, n).pieces.inverse(self.narrowing * nominal))
        return self._quantiles(forecast[:m], self.out_of_bag_levels)

    def _fit_common(self, sample: ErrorSample) -> None:
        """Fit the distribution of all errors: a Student t distribution, recalibrated."""
        error, weight = self._both_signs(sample.error / self.unit, sample.weight)
        df, scale = fit_student(error, weight)
        normal = np.isinf(df)
        z = error / scale
        score = z if normal else np.copysign(ndtri(stdtr(df, -np.abs(z))), z)
        level_map = isotonic_level_map(score, score, weight, weight.sum(), light_tails=bool(normal))
        score = level_map.pieces.inverse(_TABLE_SCORES)
        z = score if normal else student_scores(score, df)
        self.standard = scale * z
        if self.symmetric:
            self.standard = (self.standard - self.standard[::-1]) / 2

    def _fit_forests(
        self, sample: ErrorSample, second: SecondErrors, pit: FloatArray, rng: np.random.RandomState
    ) -> tuple[FloatArray, float]:
        """Grow the forests and weight them by the squared error of their out-of-bag forecasts.

        Return the out-of-bag forecasts of the sample and of the second errors, and the share h of an
        out-of-bag error that is caused by its own target.
        """
        m = len(sample.error)
        self.edges = [bin_edges(column[~np.isnan(column)]) for column in sample.table.T]
        self.bin_of_missing = np.zeros(len(self.edges))
        codes = self._codes(np.concatenate([sample.table, second.table]))
        # Only new rows have missing values or new words: they get the most frequent bin.
        modes = [np.bincount(column.astype(int)).argmax() for column in codes.T]
        self.bin_of_missing = np.where((codes == 0).any(axis=0), 0, modes)
        score = ndtri(pit[:m])
        below = self._symmetric((pit[:m, np.newaxis] <= THRESHOLDS).astype(np.float64))
        spread, centers, contrasts = [], [], []
        large_leaf = max(SMALL_LEAF + 1, round((0.63 * min(m, MOST_DRAWN)) ** 0.5))
        for n_trees, leaf in zip(N_TREES, (SMALL_LEAF, large_leaf), strict=True):
            trees = ErrorTrees(n_trees, leaf, self.symmetric or leaf == large_leaf)
            shares, center, contrast = trees.grow(codes, score, below, sample, second.place, rng)
            self.forests.append(trees)
            spread.append(shares - THRESHOLDS)
            centers.append(center)
            contrasts.append(contrast)
        square = np.array([[sample.weight @ (a[:m] * b[:m]).sum(axis=1) for a in spread] for b in spread])
        moment = np.array([sample.weight @ (a[:m] * (below - THRESHOLDS)).sum(axis=1) for a in spread])
        ridge = 1e-9 * np.trace(square) + np.finfo(np.float64).tiny
        root = np.linalg.cholesky(square + ridge * np.eye(len(spread)))
        best = nnls(root.T, np.linalg.solve(root, moment))[0]
        self.weights = best / max(best.sum(), 1.0)
        center, contrast = np.tensordot(self.weights, [centers, contrasts], axes=(0, 1))
        # The errors of other folds come from models that were trained on the target of the row, so they move
        # the out-of-bag forecast away from this target. The errors of the row's own fold do not. Their
        # difference, `contrast`, is regressed on the error of the forecast.
        error = score - center
        leak_share = shrunk_ratio(sample.weight * error * contrast, sample.weight * error**2, sample.group)
        return self._mixed([THRESHOLDS + one for one in spread]), leak_share

    def _mixed(self, shares: list[FloatArray]) -> FloatArray:
        """Return the weighted mean of the forests and of the uniform distribution, in normal scores.

        A mean of probabilities would give a row with small errors the tails of all errors.
        """
        total = self.weights.sum()
        of_forests = sum(weight * share for weight, share in zip(self.weights, shares, strict=True))
        trusted = np.clip(of_forests / max(total, 1e-9), _LEAST_SHARE, 1 - _LEAST_SHARE)
        return np.asarray(ndtr(total * ndtri(trusted) + (1 - total) * ndtri(THRESHOLDS)))

    def quantiles(self, table: FloatArray, levels: FloatArray, points: FloatArray) -> FloatArray:
        """Return the quantiles of the errors of new rows, averaged over models, shape (n, n_levels).

        The last column of the table is replaced by the predictions of each model, ``points`` (n_models, n).
        """
        quantiles = np.empty((len(table), len(LEVELS)))
        if not self.forests:
            quantiles[:] = self._quantiles(THRESHOLDS[np.newaxis], levels)
            return quantiles
        n_bins = _MOST_EDGES + 2
        for rows in row_blocks(len(table), 1, _BLOCK):
            # Predictions of different models are often in the same bin. Each pair is forecast once.
            bins = np.searchsorted(self.edges[-1], points[:, rows]) + 1
            pairs, place = np.unique(np.arange(bins.shape[1]) * n_bins + bins, return_inverse=True)
            codes = self._codes(table[rows])[pairs // n_bins]
            codes[:, -1] = pairs % n_bins
            forecast = self._mixed([self._symmetric(trees.shares_of(codes)) for trees in self.forests])
            of_pairs = self._quantiles(forecast, levels)
            quantiles[rows] = of_pairs[place.reshape(bins.shape)].mean(axis=0)
        return quantiles

    def _quantiles(self, forecast: FloatArray, levels: FloatArray) -> FloatArray:
        score = ndtri(_ppf_of_forecast(levels, forecast))
        if self.symmetric:
            score = (score - score[:, ::-1]) / 2
        return self.unit * np.interp(score, _TABLE_SCORES, self.standard)

    def _codes(self, table: FloatArray) -> Codes:
        """Return the numbers of the bins, so that trees do not depend on units.

        Missing values have bin 0, or the most frequent bin if no row of the sample has a missing value.
        """
        codes = np.empty(table.shape, dtype=np.float32)
        for j, edges in enumerate(self.edges):
            codes[:, j] = np.searchsorted(edges, table[:, j]) + 1
        return np.where(np.isnan(table), self.bin_of_missing.astype(np.float32), codes)

    def _both_signs(self, values: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        if not self.symmetric:
            return values, weight
        return np.concatenate([values, -values]), np.concatenate([weight, weight])

    def _symmetric(self, shares: FloatArray) -> FloatArray:
        return (shares + 1 - shares[:, ::-1]) / 2 if self.symmetric else shares


@dataclass(eq=False)
class ErrorTrees:
    """Bootstrap forest of extremely randomized trees. A leaf stores the distribution of its PIT values."""

    n_trees: int
    leaf: int
    by_size: bool

    def grow(
        self,
        codes: Codes,
        score: FloatArray,
        below: FloatArray,
        sample: ErrorSample,
        second: IntArray,
        rng: np.random.RandomState,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Grow trees on whole groups, drawn with replacement. Return means over out-of-bag trees.

        The means are the shares below the thresholds for each row of ``codes``, the mean score in the leaf of
        each row of the sample, and the mean score of the errors of the row's own fold minus the mean score of
        the other errors in the leaf.
        """
        # Splits find changes of the scale, and of the location except with `by_size`.
        target = np.abs(score) if self.by_size else np.column_stack([score, np.abs(score)])
        m, k = below.shape
        in_fold = np.eye(int(sample.fold.max()) + 1)[sample.fold]
        stored = np.hstack([below, score[:, np.newaxis] * in_fold, in_fold])
        groups = np.concatenate([sample.group, sample.group[second]])
        n_groups = int(groups.max()) + 1
        n_drawn = max(1, round(n_groups * min(1.0, MOST_DRAWN / m)))
        shares, count = np.zeros((len(codes), k)), np.zeros(len(codes))
        center, contrast, compared = np.zeros((3, m))
        trees, values = [], []
        for _ in range(self.n_trees):
            drawn = np.bincount(rng.randint(0, n_groups, n_drawn), minlength=n_groups)
            rows = np.flatnonzero(drawn[sample.group])
            mass = drawn[sample.group[rows]] * sample.weight[rows]
            seed = int(rng.randint(MAX_SEED))
            model = ExtraTreeRegressor(min_samples_leaf=self.leaf, max_features=1.0, random_state=seed)
            tree = model.fit(codes[rows], target[rows], sample_weight=mass, check_input=False).tree_
            members = csr_matrix((mass, (tree.apply(codes[rows]), np.arange(len(rows)))))
            below_sum, scores, masses = np.split(members @ stored[rows], [k, k + in_fold.shape[1]], axis=1)
            total = masses.sum(axis=1)
            total[total == 0] = 1.0  # nodes that are not leaves
            leaf_shares = below_sum / total[:, np.newaxis]
            trees.append(tree)
            values.append(np.rint(_PARTS * leaf_shares[tree.children_left < 0]).astype(np.uint8))

            out = np.flatnonzero(drawn[groups] == 0)
            node = tree.apply(codes[out])
            shares[out] += leaf_shares[node]
            count[out] += 1
            node, out = node[out < m], out[out < m]
            fold = sample.fold[out]
            own, others = masses[node, fold], total[node] - masses[node, fold]
            all_scores = scores[node].sum(axis=1)
            center[out] += all_scores / total[node]
            both = (own > 0) & (others > 1e-9 * own)
            own_scores = scores[node, fold][both]
            contrast[out[both]] += own_scores / own[both] - (all_scores[both] - own_scores) / others[both]
            compared[out[both]] += 1
        self._store(trees, values)
        shares[count == 0], count[count == 0] = THRESHOLDS, 1
        return shares / count[:, np.newaxis], center / count[:m], contrast / np.maximum(compared, 1)

    def _store(self, trees: list[Any], values: list[NDArray[np.uint8]]) -> None:
        """Store all trees in common arrays. The children of a leaf are the leaf itself."""
        counts = [tree.node_count for tree in trees]
        self.roots = np.cumsum([0, *counts[:-1]])
        self.depth = max(tree.max_depth for tree in trees)
        first, node = np.repeat(self.roots, counts), np.arange(sum(counts))
        left, right, feature, threshold = (
            np.concatenate([getattr(tree, name) for tree in trees])
            for name in ("children_left", "children_right", "feature", "threshold")
        )
        children = np.column_stack([left, right])
        is_leaf = left < 0
        children = np.where(is_leaf[:, np.newaxis], node[:, np.newaxis], children + first[:, np.newaxis])
        self.children = children.ravel().astype(np.int32)
        self.leaf_number = (np.cumsum(is_leaf) - 1).astype(np.int32)
        self.feature = np.maximum(feature, 0).astype(np.int32)
        self.threshold = threshold.astype(np.float32)
        self.values = np.concatenate(values)

    def shares_of(self, codes: Codes) -> FloatArray:
        """Return the mean over trees of the shares below each threshold, shape (n, n_thresholds)."""
        node = np.repeat(self.roots[:, np.newaxis], len(codes), axis=1)
        flat, start = codes.ravel(), np.arange(len(codes)) * codes.shape[1]
        for _ in range(self.depth):
            right = flat[start + self.feature[node]] > self.threshold[node]
            node = self.children[2 * node + right]
        total = self.values[self.leaf_number[node]].sum(axis=0, dtype=np.uint32)
        return np.asarray(total / (_PARTS * self.n_trees))


def variance_share(first: FloatArray, second: FloatArray, weight: FloatArray, group: IntArray) -> float:
    """Return the variance between two forecasts of the same row, divided by the variance of their errors.

    The errors are normal scores.
    """
    first, second = np.clip(first, -3, 3), np.clip(second, -3, 3)
    between, total = (first - second) ** 2 / 2, (first**2 + second**2) / 2
    return shrunk_ratio(weight * between, weight * total, group)


def shrunk_ratio(numerator: FloatArray, denominator: FloatArray, group: IntArray) -> float:
    """Return the ratio r of two sums, shrunk to r - s^2 / r for the standard error s, or 0 if r < s."""
    total = denominator.sum()
    if total == 0:
        return 0.0
    ratio = float(numerator.sum() / total)
    error = float(np.linalg.norm(np.bincount(group, numerator - ratio * denominator)) / total)
    return ratio - error**2 / ratio if ratio > error else 0.0


def _with_ends(forecast: FloatArray) -> FloatArray:
    n = len(forecast)
    # corrects decreases of the probabilities due to rounding
    return np.maximum.accumulate(np.column_stack([np.zeros(n), forecast, np.ones(n)]), axis=1)


def _cdf_of_forecast(pit: FloatArray, forecast: FloatArray) -> FloatArray:
    """Return the forecast probability of PIT values up to the PIT value of each row."""
    reached, row = _with_ends(forecast), np.arange(len(pit))
    upper = np.clip(np.searchsorted(_KNOTS, pit), 1, len(_KNOTS) - 1)
    step = (pit - _KNOTS[upper - 1]) / (_KNOTS[upper] - _KNOTS[upper - 1])
    return np.asarray(reached[row, upper - 1] * (1 - step) + reached[row, upper] * step)


def _ppf_of_forecast(levels: FloatArray, forecast: FloatArray) -> FloatArray:
    """Return the PIT value at which the forecast of each row reaches each level, shape (n, k)."""
    pit = np.empty((len(forecast), len(levels)))
    for rows in row_blocks(len(forecast), 1, _BLOCK):
        reached = _with_ends(forecast[rows])
        upper = (reached[:, np.newaxis, :] < levels[:, np.newaxis]).sum(axis=2)
        row = np.arange(len(reached))[:, np.newaxis]
        low, high = reached[row, upper - 1], reached[row, upper]
        step = (levels - low) / (high - low)
        pit[rows] = _KNOTS[upper - 1] + (_KNOTS[upper] - _KNOTS[upper - 1]) * step
    return pit


def bin_edges(values: FloatArray) -> FloatArray:
    """Return the midpoints between distinct values.

    If there are too many midpoints, a subset with about equal counts between adjacent midpoints is returned.
    """
    points, place = distinct(values)
    if len(points) > _MOST_EDGES + 1:
        first = np.cumsum(np.bincount(place)) - np.bincount(place)  # rank of the first of equal values
        ranks = len(values) * np.arange(1, _MOST_EDGES + 1) / (_MOST_EDGES + 1)
        below = np.unique(np.searchsorted(first, ranks, side="right")) - 1
        below = below[below < len(points) - 1]
    else:
        below = np.arange(len(points) - 1)
    return np.asarray(points[below] / 2 + points[below + 1] / 2)
