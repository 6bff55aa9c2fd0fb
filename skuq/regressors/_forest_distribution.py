"""Predictive distribution of a forest from a single fit, by leaf weights and out-of-bag rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from skuq._compat import safe_indexing
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import rows_outside
from skuq._fitting.seeds import MAX_SEED, NO_PROGRESS, Progress, seeded_clone
from skuq._fitting.training_data import TrainingData
from skuq._numeric import WeightedRanks, power_of_two, row_blocks, standard_deviation
from skuq._typing import BoolArray, FloatArray, IntArray, SupportLike
from skuq._validation import DEFAULT_COVERAGE, check_random_state, effective_rows, few_rows_reported
from skuq.distributions import Distribution, Quantiles, concat
from skuq.distributions._student_t import fit_student, predictive_scores, prior_share, student_scores
from skuq.regressors._forest_trees import (
    BLOCK,
    InfinitesimalJackknife,
    LeafWeights,
    OutOfBag,
    Trees,
    check_forest,
    fit_forest,
    leaf_quantiles,
    residual_slope,
)

_LEVELS = np.array([0.0025, 0.005, 0.01, *np.arange(1, 40) / 40, 0.99, 0.995, 0.9975])
"""Levels of the predictive quantiles. They include 0.05, 0.5 and 0.95, the levels of the default interval and
of the median."""

_LEAST_LEVEL = 0.025
"""Levels with at least this distance to 0 and 1 are always used, even if there are too few rows to estimate
their quantiles."""

_LEAF_SHARES = np.arange(10) / 10
"""Candidate weights of the quantiles of the leaves. A weight is below 1, because equal targets in a leaf
would otherwise give equal quantiles."""


@dataclass(frozen=True, eq=False)
class ForestShape:
    """Map from location, scale and the quantiles of the leaves to the predictive quantiles."""

    levels: FloatArray  # levels for which there are enough rows
    standard: FloatArray  # quantiles of the standardized residuals at these levels
    leaf_share: float = 0.0  # weight of the quantiles of the leaves
    factor: float = 1.0  # multiplies the distances from the median
    n: float = np.inf  # number of independent calibration rows

    @classmethod
    def of_residuals(cls, z: FloatArray, weight: FloatArray, n: float) -> ForestShape:
        tail = np.minimum(_LEVELS, 1 - _LEVELS)
        levels = _LEVELS[tail >= min(1 / (n + 1), _LEAST_LEVEL) * (1 - 1e-9)]
        if not z.any():
            return cls(levels, np.zeros(len(levels)), n=n)
        df, scale = fit_student(z, weight)
        student = scale * student_scores(predictive_scores(ndtri(levels), n), df)
        ranked = np.clip(levels, 1 / (n + 1), n / (n + 1))
        # Beyond the outermost ranks, the quantiles continue parallel to the Student t quantiles.
        beyond = student - scale * student_scores(predictive_scores(ndtri(ranked), n), df)
        share = prior_share(n)
        quantiles = share * student + (1 - share) * (_sample_quantiles(z, weight, ranked) + beyond)
        return cls(levels, quantiles, n=n)

    def averaged(
        self, loc: FloatArray, scale: FloatArray, leaf: FloatArray, y: FloatArray, weight: FloatArray
    ) -> ForestShape:
        """Return the shape with a leaf share from the one-standard-error rule (Breiman et al. 1984)."""
        # The levels are denser in the tails, so each level is weighted by the distance between its neighbors.
        per_level = np.gradient(self.levels)
        shares = [replace(self, leaf_share=float(share)) for share in _LEAF_SHARES]
        losses = []
        for shape in shares:
            error = y[:, np.newaxis] - shape.quantiles(loc, scale, leaf)
            losses.append(np.maximum(self.levels * error, (self.levels - 1) * error) @ per_level)
        excess = np.array(losses)
        excess -= excess[int(np.argmin(excess @ weight))]
        mean = excess @ weight / weight.sum()
        squares = np.square(excess - mean[:, np.newaxis]) @ weight
        within = mean <= np.sqrt(squares) / weight.sum()
        best = shares[int(np.flatnonzero(within)[-1])]
        return replace(best, leaf_share=best.leaf_share * (1 - prior_share(self.n)))

    def stretched(
        self, loc: FloatArray, scale: FloatArray, leaf: FloatArray, y: FloatArray, weight: FloatArray
    ) -> ForestShape:
        """Return the shape with the factor for which 90 % intervals contain 90 % of the targets."""
        tail = (1 - DEFAULT_COVERAGE) / 2
        quantiles = self.quantiles(loc, scale, leaf)
        low, middle, high = (
            quantiles[:, np.argmin(np.abs(self.levels - level))] for level in (tail, 0.5, 1 - tail)
        )
        usable = (low < middle) & (middle < high)
        if not usable.any():
            return self
        below, above = (middle - y)[usable], (y - middle)[usable]
        score = np.maximum(below / (middle - low)[usable], above / (high - middle)[usable])
        ranks = WeightedRanks(score, weight[usable])
        # the conformal rank, or the largest rank if there are too few rows
        level = min(DEFAULT_COVERAGE * (1 + 1 / self.n), 1.0)
        factor = float(ranks.quantile(level * ranks.total))
        if not 0 < factor < np.inf:
            return self
        return replace(self, factor=factor ** (1 - prior_share(self.n)))

    def quantiles(self, loc: FloatArray, scale: FloatArray, leaf: FloatArray | None) -> FloatArray:
        values = loc[:, np.newaxis] + scale[:, np.newaxis] * self.standard
        if leaf is not None and self.leaf_share > 0:
            values = values + self.leaf_share * (leaf - values)  # exact for equal values
        if self.factor == 1:
            return values
        center = values[:, [len(self.levels) // 2]]  # the middle level is 0.5
        return np.asarray(center + self.factor * (values - center))


def _sample_quantiles(z: FloatArray, weight: FloatArray, levels: FloatArray) -> FloatArray:
    """Return interpolated quantiles. The k-th smallest of n values has the level k / (n + 1)."""
    order = np.argsort(z, kind="stable")
    values, counts = z[order], weight[order]
    values, counts = values[counts > 0], counts[counts > 0]
    last = np.cumsum(counts)
    # A row with weight w counts as w equal values. Their ranks are last - w + 1 to last.
    first = last - counts + np.minimum(counts, 1.0)
    ranks = np.column_stack([first, last]).ravel()
    return np.asarray(np.interp(levels * (last[-1] + 1), ranks, np.repeat(values, 2)))


_FEWEST_ROWS = 3
"""A fit needs at least three rows. With two rows, each out-of-bag error would be the difference of the two
targets."""

_MOST_ROWS = 5000
"""Maximum number of out-of-bag rows for calibration. The cost is proportional to this number times n."""


class ForestDistributionRegressor(BaseUncertaintyRegressor):
    r"""Predictive distribution of a forest from a single fit, calibrated on its out-of-bag rows.

    Each tree is fitted to a bootstrap sample, which leaves out about a third of the rows. The out-of-bag rows
    show how large the errors on new rows are, how the errors change with x, and which part of the uncertainty
    is epistemic. Other methods need several fits for these estimates. Prefer `ResidualRegressor` for other
    regressors. Also prefer it if you need specific folds, such as folds in time order.

    Parameters
    ----------
    estimator : estimator
        A RandomForestRegressor, an ExtraTreesRegressor with ``bootstrap=True``, or a BaggingRegressor of
        trees; cloned. Use at least 100 trees.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are the means of the clipped forecasts.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one tree. Not used if the forest has its own
        ``n_jobs``. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the forest. An integer makes results reproducible.

    Attributes
    ----------
    estimator_ : estimator
        The fitted forest.
    residual_slope_ : float
        Slope in [0, 1]. The mean residual around a row, multiplied by the slope, is added to the prediction
        of the forest (step 1 of the Notes).
    leaf_share_ : float
        Weight in [0, 0.9] of the quantiles of the leaves (step 3 of the Notes).
    factor_ : float
        Factor that multiplies the distances of the quantiles from the median, so that 90 % intervals cover 90
        % of the out-of-bag rows (step 4 of the Notes).
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    ResidualRegressor : Predictive distribution of any regressor, from refits on folds.
    BootstrapRegressor : Student t distribution from the spread of the members and a noise estimate.
    UncertaintyRegressor : Chooses the method that suits the regressor.

    Notes
    -----
    The weight :math:`w_j(x)` of training row j is a mean over trees. For each tree, the term is 1 divided by
    the number of training rows in the leaf of x if row j is in this leaf, and 0 otherwise (equations 3 and 4
    of [1]_). The out-of-bag residuals :math:`r_j` are weighted in the same way, as in [2]_:

    1. The mean is :math:`\mu(x) = \bar t(x) + \beta \sum_j w_j(x) r_j`, where :math:`\bar t` is the
       prediction of the forest. If the regression function varies within the leaves, the prediction is too
       flat. The residuals around x then show the missing part. The slope :math:`\beta` is estimated from the
       out-of-bag rows and shrunk according to its standard error. The slope is 0 if the residuals are only
       noise.
    2. Let :math:`a(x)` be the weighted mean of :math:`|r_j - \beta \sum_k w_k(x_j) r_k|` with the weights
       :math:`w_j(x)`. The scale :math:`s(x)` is :math:`a(x)` plus one tenth of the mean of :math:`a` over all
       rows. The standardized residuals of all out-of-bag rows give one common shape. Its quantiles are called
       q.
    3. The predictive quantiles are weighted averages of :math:`\mu(x) + s(x) q` and of the quantiles of the
       targets :math:`y_j` with the weights :math:`w_j(x)`, as in quantile regression forests. For each
       candidate weight of the leaf quantiles, the CRPS on out-of-bag rows is computed. The largest weight
       whose CRPS is within one standard error of the smallest CRPS is used. This weight is large if the shape
       varies with x, or if there are too few rows to estimate the common shape.
    4. One factor multiplies the distances from the median, so that 90 % intervals cover 90 % of the
       out-of-bag rows. The factor is a conformal quantile of these rows. A separate factor for each level
       would reduce the sharpness.
    5. With few rows, the estimates are shrunk. The quantiles q are weighted averages. The quantiles of the
       standardized residuals have weight n. The quantiles of a Student t distribution with n - 3 degrees of
       freedom have weight 20. The weight of step 3 and the logarithm of the factor of step 4 are multiplied
       by n / (n + 20). Fewer than 12 rows give a `SmallSampleWarning`. Fewer than 3 rows raise an error.

    For an out-of-bag row i, the residual of another row j is computed from the trees that have drawn neither
    i nor j. The residual therefore does not depend on the target of row i.

    The epistemic variance is the variance of the forest's prediction over training sets. It is estimated by
    the infinitesimal jackknife with bias correction (equation 7 of [3]_),

    .. math:: \hat V(x) = \sum_i \mathrm{Cov}_b(N_{bi}, t_b(x))^2
              - \frac{n}{B^2} \sum_b (t_b(x) - \bar t(x))^2,

    where :math:`N_{bi}` is the number of times that tree b has drawn row i, and B is the number of trees.
    With few trees, the estimate is noisy and may be negative. The correction removes the bias of the estimate
    but not its noise. The variance of the noise is about :math:`2 n / B^2` times the squared variance between
    trees. The estimate is therefore divided by the variance between trees, and this ratio is shrunk toward
    its mean over the out-of-bag rows. The shrinkage is stronger if the noise is larger. The result is the
    expected ratio, given that the true ratio is positive. With many trees, the result equals equation 7. With
    100 trees, the result is nearly proportional to the variance between trees. The epistemic variance does
    not include the uncertainty of the slope in step 1.

    For fully grown trees, the estimate is too small, because the predictions of such trees are not smooth
    functions of the bootstrap counts. For example, the estimate for a bagged nearest neighbor is half of the
    true variance. Set ``min_samples_leaf`` to at least 5 if you need the epistemic part.

    `predict` returns the mean of the distribution, which differs from the prediction of the forest by the
    correction of step 1. `fit_transform` returns out-of-bag distributions and needs no second fit. A row that
    every tree has drawn is predicted by another forest that is fitted without this row. Such rows are rare
    with at least 50 trees.

    The results do not depend on the units of y. If the squares of y would underflow or overflow in
    scikit-learn's trees, the forest is fitted to y divided by a power of two near its standard deviation.
    With `min_impurity_decrease` or `ccp_alpha`, y is not divided, because both parameters are in the units of
    y.

    Cost: one fit, and at most :math:`O(m n B)` time for the residuals around m rows. `fit` uses at most m =
    5000 out-of-bag rows; `fit_transform` uses all rows, m = n. A prediction looks up one leaf per tree. The
    fitted model stores the leaf of each training row in each tree, O(n B) memory; `fit` needs several times
    this memory.

    References
    ----------
    .. [1] N. Meinshausen, "Quantile regression forests", JMLR 7, 2006,
       https://jmlr.org/papers/v7/meinshausen06a.html.
    .. [2] B. Lu, J. Hardin, "A unified framework for random forest prediction error estimation", JMLR 22,
       2021, https://jmlr.org/papers/v22/18-558.html.
    .. [3] S. Wager, T. Hastie, B. Efron, "Confidence intervals for random forests: the jackknife and the
       infinitesimal jackknife", JMLR 15, 2014, https://jmlr.org/papers/v15/wager14a.html.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from skuq.regressors import ForestDistributionRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ForestDistributionRegressor(RandomForestRegressor(), random_state=0).fit(X[:300], y[:300])
    >>> dist = model.predict_dist(X[300:])
    >>> dist.interval(0.9).shape
    (142, 2)
    >>> bool((dist.epistemic().std() < dist.std()).all())
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _n_tasks(self) -> int:
        return 2

    def _tests_own_rows(self) -> bool:
        return True

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._check_rows(data)
        self._learn(data, progress)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        self._check_rows(data)
        out_of_bag, _ = self._learn(data, progress)
        count = out_of_bag.oob.sum(axis=1)
        rows = np.flatnonzero(count > 0)
        dist = self._oob_distribution(out_of_bag, rows)
        if len(rows) == len(data):
            return dist
        missing = np.flatnonzero(count == 0)
        refitted, order = self._refit_without(data, missing)
        position = np.argsort(np.concatenate([rows, order]))
        return concat([dist, refitted])[position]

    def _fit_and_test(self, data: TrainingData, progress: Progress) -> tuple[IntArray, Distribution]:
        self._check_rows(data)
        _, (rows, quantiles) = self._learn(data, progress)
        return rows, Quantiles(self._shape.levels, self._unit * quantiles)

    def _check_rows(self, data: TrainingData) -> None:
        """Raise an error for fewer than three rows, and for relative weights, because they have no ranks."""
        effective_rows(data.sample_weight, len(data))
        n = np.count_nonzero(data.repetitions)
        if n < _FEWEST_ROWS:
            raise ValueError(
                f"{type(self).__name__} needs at least {_FEWEST_ROWS} samples of positive weight, got {n}. "
                "Each out-of-bag error needs two other rows. Add rows."
            )

    def _learn(self, data: TrainingData, progress: Progress) -> tuple[OutOfBag, tuple[IntArray, FloatArray]]:
        """Fit the forest and the calibration.

        Return the out-of-bag rows, and the calibration rows with their quantiles.
        """
        check_forest(self.estimator)
        rng = check_random_state(self.random_state)
        forest_seed, row_seed, self._refit_seed = rng.randint(MAX_SEED, size=3).tolist()
        forest = seeded_clone(self.estimator, forest_seed, self.random_state)
        if self.n_jobs is not None and forest.n_jobs is None:
            forest.set_params(n_jobs=self.n_jobs)
        # y is divided by a unit, because the fourth powers of the jackknife could overflow.
        varies = np.ptp(data.y / 2) > 0
        # The unit of a constant y is abs(y), so that averages of y / unit are exact.
        self._unit = power_of_two(standard_deviation(data.y)) if varies else abs(float(data.y[0])) or 1.0
        self.estimator_ = fit_forest(forest, data.X, data.y, self._unit, data.fit_params)
        progress.done("forest")
        self._trees = Trees.from_forest(self.estimator_, self._unit)
        weight = data.repetitions
        counts = self._trees.counts(len(data))
        out_of_bag = self._out_of_bag(data, counts == 0, weight)
        rows = np.flatnonzero(out_of_bag.weight > 0)
        calibration = self._calibrate(out_of_bag, row_seed, data.independent_rows(rows))
        jackknife = InfinitesimalJackknife.of_counts(counts, weight)
        self._jackknife = jackknife.shrunk_by(out_of_bag.predictions, out_of_bag.oob)
        progress.done("calibration")
        data.warn_of_few_rows(rows)
        return out_of_bag, calibration

    def _out_of_bag(self, data: TrainingData, oob: BoolArray, weight: FloatArray) -> OutOfBag:
        usable = oob.any(axis=1) & (weight > 0)
        if usable.sum() < 2:
            raise ValueError(
                "`estimator` must leave at least two rows out of bag, got "
                f"{int(usable.sum())} of {len(data)} rows with {len(self._trees)} trees. Increase "
                f"`n_estimators`, or use ResidualRegressor."
            )
        weight = np.where(usable, weight, 0.0)
        leaves = self._trees.leaves(data.X)
        local = LeafWeights.from_leaves(leaves, len(self._trees.values), weight)
        return OutOfBag(leaves, self._trees.values[leaves], oob, data.y / self._unit, weight, local)

    def _calibrate(self, out_of_bag: OutOfBag, seed: int, n: float) -> tuple[IntArray, FloatArray]:
        """Estimate the slope, the shape, the leaf share and the factor from out-of-bag rows.

        ``n`` is the number of independent out-of-bag rows. Return the rows in use and their quantiles in the
        unit of the forest.
        """
        rows = np.flatnonzero(out_of_bag.weight > 0)
        if len(rows) > _MOST_ROWS:
            chosen = np.random.RandomState(seed).choice(len(rows), _MOST_ROWS, replace=False)
            rows = rows[np.sort(chosen)]
        y, weight, residual = (
            values[rows] for values in (out_of_bag.y, out_of_bag.weight, out_of_bag.residual)
        )
        self.residual_slope_, unit = 0.0, out_of_bag.floor(out_of_bag.residual)
        around, scale = out_of_bag.around(rows)
        if unit > 0:
            self.residual_slope_ = residual_slope(residual, around, scale, weight)
        if self.residual_slope_ > 0:
            around, scale = out_of_bag.around(rows, self.residual_slope_)
        error = residual - self.residual_slope_ * around
        z = np.divide(error, scale, out=np.zeros_like(error), where=scale > 0)
        shape = ForestShape.of_residuals(z, weight, n)
        loc = out_of_bag.mean[rows] + self.residual_slope_ * around
        leaf = out_of_bag.quantiles(rows, shape.levels)
        shape = shape.averaged(loc, scale, leaf, y, weight).stretched(loc, scale, leaf, y, weight)
        self._shape, self.leaf_share_, self.factor_ = shape, shape.leaf_share, shape.factor
        # Predictions for new rows use averages per leaf.
        corrected = out_of_bag.corrected_residual(self.residual_slope_)
        self._local, self._order, self._y = out_of_bag.local, out_of_bag.order, out_of_bag.y
        self._leaf_residual = self._local.average(out_of_bag.residual)
        self._leaf_scale = self._local.average(np.abs(corrected))
        self._floor = out_of_bag.floor(corrected)
        return rows, shape.quantiles(loc, scale, leaf)

    def _refit_without(self, data: TrainingData, rows: IntArray) -> tuple[Distribution, IntArray]:
        """Predict each part of the rows with a forest that is fitted without this part.

        A part contains at most a tenth of all rows.
        """
        rng = np.random.RandomState(self._refit_seed)
        order = rng.permutation(rows)
        parts = np.array_split(order, min(len(rows), -(-10 * len(rows) // len(data))))
        dists = []
        for part in parts:
            helper = clone(self).set_params(random_state=int(rng.randint(MAX_SEED)))
            with few_rows_reported():
                helper._learn(data.take(rows_outside(part, len(data))), NO_PROGRESS)
            dists.append(helper._predict_dist(safe_indexing(data.X, part)))
        return concat(dists), order

    def _predict_dist(self, X: Any) -> Distribution:
        leaves = self._trees.leaves(X)
        predictions = self._trees.values[leaves]
        loc = predictions.mean(axis=1)
        if self.residual_slope_ > 0:
            loc = loc + self.residual_slope_ * self._local.average_over_trees(self._leaf_residual, leaves)
        scale = self._local.average_over_trees(self._leaf_scale, leaves) + self._floor
        leaf = None if self.leaf_share_ == 0 else self._leaf_quantiles(leaves)
        variance = self._jackknife.variance(predictions, np.ones(predictions.shape, dtype=bool))
        return self._distribution(self._shape.quantiles(loc, scale, leaf), variance)

    def _leaf_quantiles(self, leaves: IntArray) -> FloatArray:
        values = np.empty((len(leaves), len(self._shape.levels)))
        for block in row_blocks(len(leaves), len(self._y), BLOCK):
            weights = self._local.of_new(leaves[block])
            values[block] = leaf_quantiles(weights, self._order, self._y, self._shape.levels)
        return values

    def _oob_distribution(self, out_of_bag: OutOfBag, rows: IntArray) -> Distribution:
        around, scale = out_of_bag.around(rows, self.residual_slope_)
        loc = out_of_bag.mean[rows] + self.residual_slope_ * around
        leaf = None if self.leaf_share_ == 0 else out_of_bag.quantiles(rows, self._shape.levels)
        variance = self._jackknife.variance(out_of_bag.predictions[rows], out_of_bag.oob[rows])
        return self._distribution(self._shape.quantiles(loc, scale, leaf), variance)

    def _distribution(self, quantiles: FloatArray, variance: FloatArray) -> Distribution:
        whole = Quantiles(self._shape.levels, self._unit * quantiles)
        epistemic_scale = np.minimum(self._unit * np.sqrt(variance), whole.std())
        return Quantiles(whole.levels, whole.values, epistemic_scale)
