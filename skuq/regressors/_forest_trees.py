r"""Trees of a fitted forest: leaves, weights of rows in the same leaves, out-of-bag rows and the jackknife.

`LeafWeights`: for a row x, the weight of training row j is a mean over trees: 1 / (number of training rows in
the leaf of x) if j is in this leaf, otherwise 0 (equations 3 and 4 of Meinshausen 2006). All training rows in
the leaf count, including rows that the tree has not drawn. For a training row x, only its out-of-bag trees
are used, and its own weight is 0.

`OutOfBag`: a residual of row j that is used for row i must not depend on the target of row i. The residual is
therefore computed from trees that have drawn neither i nor j.

`InfinitesimalJackknife`: the variance of a prediction (Wager, Hastie and Efron 2014). The published estimate
is a sum of squared covariances over training rows. It equals a quadratic form in the predictions of the
trees: with :math:`a_b = t_b(x) - \bar t(x)` and the bootstrap counts N, the sum is :math:`a^T K a / B^2`. The
matrix :math:`K = \sum_i (N_i - \bar N_i)(N_i - \bar N_i)^T` does not depend on x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_ndtr
from sklearn.ensemble import BaggingRegressor
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import validate_data

from skuq._compat import ForestRegressor
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._numeric import row_blocks
from skuq._typing import BoolArray, FloatArray, IntArray

_LEAST_UNIT, _MOST_UNIT = 2.0**-10, 2.0**256
"""If the standard deviation of y is between these values, trees find splits, and the squares of y do not
overflow."""

_IN_UNITS_OF_Y = ("min_impurity_decrease", "ccp_alpha")


def grows_trees(estimator: Any) -> bool:
    if isinstance(estimator, BaggingRegressor):
        return estimator.estimator is None or isinstance(estimator.estimator, BaseDecisionTree)
    return isinstance(estimator, ForestRegressor)


def bootstraps_trees(estimator: Any) -> bool:
    return grows_trees(estimator) and bool(estimator.bootstrap)


def check_forest(estimator: Any) -> None:
    if bootstraps_trees(estimator):
        return
    name = type(estimator).__name__
    if isinstance(estimator, ForestRegressor | BaggingRegressor) and not estimator.bootstrap:
        raise ValueError(
            f"`estimator` must leave rows out of bag, got a {name} with bootstrap=False. Set "
            f"`bootstrap=True`, or use ResidualRegressor, which refits the forest on folds."
        )
    raise ValueError(
        "`estimator` must be a RandomForestRegressor, an ExtraTreesRegressor(bootstrap=True) or a "
        f"BaggingRegressor of trees, got {name}. Use ResidualRegressor for any other regressor. In a "
        "Pipeline, replace the forest with ForestDistributionRegressor(forest)."
    )


def fit_forest(forest: Any, X: Any, y: FloatArray, unit: float, fit_params: dict[str, Any]) -> Any:
    """Return the fitted forest. If the squares of y would underflow or overflow, y is divided by ``unit``."""
    params = forest.get_params()
    has_units = callable(params["oob_score"]) or any(
        value for name, value in params.items() if name.split("__")[-1] in _IN_UNITS_OF_Y
    )
    if _LEAST_UNIT <= unit <= _MOST_UNIT or has_units:
        return fit_wrapped(forest, X, y, **fit_params)
    fitted = fit_wrapped(forest, X, y / unit, **fit_params)
    for member in fitted.estimators_:
        member.tree_.value[...] *= unit
    if hasattr(fitted, "oob_prediction_"):
        fitted.oob_prediction_ *= unit
    return fitted


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of a fitted forest. The nodes are numbered consecutively over all trees."""

    forest: Any
    first: IntArray  # number of the first node of each tree, shape (B,)
    values: FloatArray  # prediction of each node, divided by a unit, shape (n_nodes,)

    @classmethod
    def from_forest(cls, forest: Any, unit: float = 1.0) -> Trees:
        counts = [member.tree_.node_count for member in forest.estimators_]
        values = np.concatenate([member.tree_.value[:, 0, 0] for member in forest.estimators_])
        return cls(forest, np.cumsum([0, *counts[:-1]]), values / unit)

    def __len__(self) -> int:
        return len(self.first)

    def leaves(self, X: Any) -> IntArray:
        forest = self.forest
        if not isinstance(forest, BaggingRegressor):
            return np.asarray(forest.apply(X) + self.first)
        # The members are fitted to an array without column names.
        array = validate_data(
            forest, X, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False, reset=False
        )
        members = zip(forest.estimators_, forest.estimators_features_, strict=True)
        leaves = [member.apply(array[:, columns]) for member, columns in members]
        return np.asarray(np.stack(leaves, axis=1) + self.first)

    def counts(self, n: int) -> IntArray:
        draws = np.empty((n, len(self)), dtype=np.intp)
        for column, rows in enumerate(self.forest.estimators_samples_):
            draws[:, column] = np.bincount(rows, minlength=n)
        return draws


BLOCK = 1 << 22
"""A temporary matrix contains at most this number of weights (32 MB)."""

_ROUNDING = 1e-9
"""A cumulative sum of weights may differ from its exact value by this rounding error."""


@dataclass(frozen=True, eq=False)
class LeafWeights:
    """Weights of the training rows in each leaf of a forest."""

    members: Any  # sparse, shape (n_nodes, n): weight of a training row in each leaf that contains it
    total: FloatArray  # sum of the weights in each leaf, shape (n_nodes,)

    @classmethod
    def from_leaves(cls, leaves: IntArray, n_nodes: int, weight: FloatArray) -> LeafWeights:
        n, n_trees = leaves.shape
        entries = (np.repeat(weight, n_trees), (leaves.ravel(), np.repeat(np.arange(n), n_trees)))
        members = sparse.csr_array(entries, shape=(n_nodes, n))
        return cls(members, np.asarray(members.sum(axis=1)))

    def of_new(self, leaves: IntArray) -> Any:
        return _normalized(self._product(leaves, _inverse(self.total[leaves])))

    def of_training(self, leaves: IntArray, oob: BoolArray, rows: IntArray, weight: FloatArray) -> Any:
        others = self._without(leaves, weight)
        product = self._product(leaves, np.where(oob, _inverse(others), 0.0))
        product.data[product.indices == np.repeat(rows, np.diff(product.indptr))] = 0.0
        return _normalized(product)

    def average(self, values: FloatArray) -> FloatArray:
        average: FloatArray = (self.members @ values) * _inverse(self.total)
        return average

    def oob_average(
        self, values: FloatArray, leaves: IntArray, oob: BoolArray, weight: FloatArray
    ) -> FloatArray:
        sums = (self.members @ values)[leaves] - (weight * values)[:, np.newaxis]
        inverse = np.where(oob, _inverse(self._without(leaves, weight)), 0.0)
        used = np.maximum((inverse > 0).sum(axis=1), 1)
        average: FloatArray = (sums * inverse).sum(axis=1) / used
        return average

    def average_over_trees(self, averages: FloatArray, leaves: IntArray) -> FloatArray:
        used = np.maximum((self.total[leaves] > 0).sum(axis=1), 1)
        mean: FloatArray = averages[leaves].sum(axis=1) / used
        return mean

    def _without(self, leaves: IntArray, weight: FloatArray) -> FloatArray:
        total = self.total[leaves]
        others = total - weight[:, np.newaxis]
        return np.where(others > 1e-12 * total, others, 0.0)

    def _product(self, leaves: IntArray, share: FloatArray) -> Any:
        m, n_trees = leaves.shape
        indptr = np.arange(m + 1) * n_trees
        selected = sparse.csr_array((share.ravel(), leaves.ravel(), indptr), shape=(m, self.members.shape[0]))
        return selected @ self.members


def leaf_quantiles(weights: Any, order: IntArray, y: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the quantiles of y under sparse weights, shape (m, k). The array ``order`` sorts y."""
    ascending = weights[:, order]
    ascending.sort_indices()
    # A single cumulative sum covers all rows: row i uses the range from i to i + 1.
    cumulative = np.cumsum(ascending.data)
    rows = np.arange(weights.shape[0])
    index = np.searchsorted(cumulative, rows[:, np.newaxis] + levels - _ROUNDING)
    first, last = ascending.indptr[:-1], ascending.indptr[1:] - 1
    position = np.clip(index, first[:, np.newaxis], last[:, np.newaxis])
    quantiles: FloatArray = y[order][ascending.indices[position]]
    return quantiles


def _inverse(total: FloatArray) -> FloatArray:
    return np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)


def _normalized(weights: Any) -> Any:
    weights.eliminate_zeros()
    total = np.asarray(weights.sum(axis=1))
    if (total > 0).all():
        weights.data /= np.repeat(total, np.diff(weights.indptr))
        return weights
    dense = weights.toarray()
    dense[total == 0] = 1.0
    return sparse.csr_array(dense / dense.sum(axis=1, keepdims=True))


_FLOOR = 0.1
"""This share of the mean absolute residual of all rows is added to local means, which may be too small."""

_DENSE = 64
"""A matrix product takes as long for this number of pairs as a loop takes for one pair."""


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Training rows with the predictions of their out-of-bag trees."""

    leaves: IntArray  # leaf of each row in each tree, shape (n, B)
    predictions: FloatArray  # prediction for each row by each tree, shape (n, B)
    oob: BoolArray  # shape (n, B); True if the tree has not drawn the row
    y: FloatArray
    weight: FloatArray  # repetitions of each row; 0 for rows that all trees have drawn
    local: LeafWeights

    @cached_property
    def mean(self) -> FloatArray:
        total = np.where(self.oob, self.predictions, 0.0).sum(axis=1)
        mean: FloatArray = total / np.maximum(self.oob.sum(axis=1), 1)
        return mean

    @cached_property
    def residual(self) -> FloatArray:
        return np.where(self.weight > 0, self.y - self.mean, 0.0)

    @cached_property
    def order(self) -> IntArray:
        return np.argsort(self.y, kind="stable")

    def corrected_residual(self, slope: float) -> FloatArray:
        around = self.local.oob_average(self.residual, self.leaves, self.oob, self.weight)
        return np.where(self.weight > 0, self.residual - slope * around, 0.0)

    def floor(self, residual: FloatArray) -> float:
        return _FLOOR * float(np.average(np.abs(residual), weights=self.weight))

    def around(self, rows: IntArray, slope: float | None = None) -> tuple[FloatArray, FloatArray]:
        used = 0.0 if slope is None else slope
        corrected = self.corrected_residual(used)
        shift = self.residual - corrected
        mean, scale = np.empty(len(rows)), np.empty(len(rows))
        count, predictions = self.oob.astype(np.float32), np.where(self.oob, self.predictions, 0.0)
        for block in row_blocks(len(rows), len(self.y), BLOCK):
            weights = self._weights(rows[block])
            columns, starts = weights.indices, weights.indptr[:-1]
            both, total = _by_neither(count, predictions, rows[block], weights)
            residual = self.y[columns] - np.where(both > 0, total / np.maximum(both, 1.0), self.mean[columns])
            mean[block] = np.add.reduceat(weights.data * residual, starts)
            scale[block] = np.add.reduceat(weights.data * np.abs(residual - shift[columns]), starts)
        return mean, scale + self.floor(corrected)

    def quantiles(self, rows: IntArray, levels: FloatArray) -> FloatArray:
        values = np.empty((len(rows), len(levels)))
        for block in row_blocks(len(rows), len(self.y), BLOCK):
            values[block] = leaf_quantiles(self._weights(rows[block]), self.order, self.y, levels)
        return values

    def _weights(self, rows: IntArray) -> Any:
        return self.local.of_training(self.leaves[rows], self.oob[rows], rows, self.weight[rows])


def _by_neither(
    count: NDArray[np.float32], predictions: FloatArray, rows: IntArray, weights: Any
) -> tuple[FloatArray, FloatArray]:
    """Return the number of predictions and their sum for each entry of the weight matrix.

    An entry belongs to a pair of rows. Only trees that have drawn neither row are used. For other trees, the
    count and the prediction of a row are 0.
    """
    sizes, columns = np.diff(weights.indptr), weights.indices
    if _DENSE * len(columns) > len(rows) * len(count):
        pair = np.repeat(np.arange(len(rows)), sizes), columns
        of_rows = count[rows]
        return (of_rows @ count.T)[pair], (of_rows.astype(np.float64) @ predictions.T)[pair]
    both, total = np.empty(len(columns)), np.empty(len(columns))
    first = np.repeat(rows, sizes)
    for block in row_blocks(len(columns), count.shape[1], BLOCK):
        of_rows, of_columns = count[first[block]], columns[block]
        both[block] = np.einsum("ij,ij->i", of_rows, count[of_columns])
        total[block] = np.einsum("ij,ij->i", of_rows, predictions[of_columns])
    return both, total


def residual_slope(residual: FloatArray, around: FloatArray, scale: FloatArray, weight: FloatArray) -> float:
    # The regression goes through the origin. The slope b is multiplied by 1 - s^2 / b^2, where s is the
    # heteroscedasticity-consistent standard error of b.
    share = weight / scale
    curvature = float((share * around) @ around)
    if curvature == 0:
        return 0.0
    slope = float((share * residual) @ around) / curvature
    error = residual - slope * around
    variance = float(weight @ np.square(around * error / scale)) / curvature**2
    return 0.0 if slope <= 0 else min(slope * max(1 - variance / slope**2, 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class InfinitesimalJackknife:
    """Bias-corrected variance of the prediction of a forest.

    The variance of a row is shrunk toward the mean over rows.
    """

    gram: FloatArray  # K, shape (B, B)
    n_draws: float  # sum of 1 / weight over the drawn rows, averaged over trees; it is n without weights
    n_rows: int
    ratio: float = 0.0  # variance divided by the variance between trees, averaged over out-of-bag rows
    ratio_variance: float = 0.0  # variance of this ratio over rows, without the noise due to few trees

    @classmethod
    def of_counts(cls, counts: IntArray, weight: FloatArray) -> InfinitesimalJackknife:
        """Return the jackknife without shrinkage.

        The bootstrap counts have the shape (n, B), and a weight is a number of repetitions.
        """
        weighted = np.flatnonzero(weight > 0)
        n_trees = counts.shape[1]
        gram, n_draws = np.zeros((n_trees, n_trees)), 0.0
        for block in row_blocks(len(weighted), n_trees, BLOCK):
            rows = weighted[block]
            drawn = counts[rows] / np.sqrt(weight[rows])[:, np.newaxis]
            n_draws += float((drawn.mean(axis=1) / np.sqrt(weight[rows])).sum())
            centered = drawn - drawn.mean(axis=1, keepdims=True)
            gram += centered.T @ centered
        return cls(gram, n_draws, len(weighted))

    def corrected(self, deviation: FloatArray, n_trees: FloatArray | int) -> FloatArray:
        """Return the variance of equation 7.

        The deviations have the shape (m, B) and are 0 for unused trees.
        """
        squared = np.einsum("ij,ij->i", deviation @ self.gram, deviation)
        bias = self.n_draws * np.einsum("ij,ij->i", deviation, deviation)
        return np.asarray((squared - bias) / np.square(n_trees))

    def shrunk_by(self, predictions: FloatArray, used: BoolArray) -> InfinitesimalJackknife:
        count = used.sum(axis=1)
        rows = np.flatnonzero(count >= 2)
        deviation, between = _deviation(predictions[rows], used[rows])
        total = float(between.sum())
        if total == 0:
            return self
        variance = self.corrected(deviation, count[rows])
        mean = float(variance.sum()) / total
        # All rows use the same counts, so a mean over rows has the same noise as a single row.
        scaled = deviation / count[rows][:, np.newaxis]
        error = self.n_draws * np.sqrt(2 / self.n_rows) * np.linalg.norm(scaled.T @ scaled) / total
        ratio = float(_mean_above_zero(np.float64(mean), np.float64(error)))
        relative = np.divide(variance, between, out=np.full(len(rows), mean), where=between > 0)
        share = between / total
        observed = float(share @ np.square(relative - mean))
        noise = float(share @ self._noise(ratio, count[rows]))
        return InfinitesimalJackknife(self.gram, self.n_draws, self.n_rows, ratio, max(observed - noise, 0.0))

    def variance(self, predictions: FloatArray, used: BoolArray) -> FloatArray:
        """Return the expected variance of the mean of the used trees.

        The estimate without shrinkage is noisy.
        """
        # Empirical Bayes with a normal prior and normal noise. The ratio of the corrected variance to the
        # variance between trees is shrunk toward its mean over rows, given that the ratio is positive.
        count = np.maximum(used.sum(axis=1), 1)
        deviation, between = _deviation(predictions, used)
        variance = self.corrected(deviation, count)
        relative = np.divide(variance, between, out=np.zeros_like(between), where=between > 0)
        noise = self._noise(self.ratio, count)
        trust = self.ratio_variance / (self.ratio_variance + noise)
        mean = self.ratio + trust * (relative - self.ratio)
        return np.asarray(between * _mean_above_zero(mean, np.sqrt(trust * noise)))

    def _noise(self, ratio: float, count: IntArray) -> FloatArray:
        per_row = self.n_draws / self.n_rows / count
        return np.asarray(2 * self.n_rows * per_row**2 + 4 * ratio * per_row)


def _mean_above_zero(mean: FloatArray | np.float64, std: FloatArray | np.float64) -> FloatArray:
    z = np.divide(mean, std, out=np.full(np.shape(mean), np.inf), where=std > 0)
    hazard = np.exp(-np.square(np.minimum(z, 1e3)) / 2 - log_ndtr(z)) / np.sqrt(2 * np.pi)
    return np.asarray(np.maximum(mean + std * hazard, 0.0))


def _deviation(predictions: FloatArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
    count = np.maximum(used.sum(axis=1), 1)
    mean = np.where(used, predictions, 0.0).sum(axis=1) / count
    deviation = np.where(used, predictions - mean[:, np.newaxis], 0.0)
    return deviation, np.einsum("ij,ij->i", deviation, deviation) / count
