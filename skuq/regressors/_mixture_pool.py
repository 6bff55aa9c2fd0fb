"""Members of a pool of distributions, and the weights that minimize the CRPS.

A linear pool is the mixture of its members. Let c_i be the mean CRPS of member i, and D_ij the mean Cramér
distance between members i and j. The mean CRPS of the pool is a quadratic function of the weights w,

  f(w) = sum_i w_i c_i - 1/2 sum_ij w_i w_j D_ij,

so that the weights solve a quadratic program. For the average of quantile functions, the CRPS is approximated
by the mean pinball loss over levels, which is a convex and piecewise linear function of the weights.

If there are few rows, the weights that minimize the CRPS are noisy. The positive-part James-Stein rule
shrinks them toward equal weights e. The gain is the decrease of the CRPS from equal weights to the optimal
weights:

  w = e + max(0, 1 - (standard error of the gain / gain)^2) (w_least - e).

With two members, the factor is 1 - 4 / z^2 if the distance of the optimum from equal weights is z standard
errors. If z is at most 2, the weights stay equal. A clearly worse member gets almost no weight. A few rows in
which one member has extreme errors may dominate both the gain and its standard error. The ratio of the gain
to its standard error is then about 1, even if this member is worse on all other rows. The factor is
therefore computed a second time from clipped gains, and the larger factor is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import linprog
from sklearn.pipeline import Pipeline

from skuq._compat import run_parallel
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import Mismatch, cross_fit, find_mismatch, predict_quartiles, warn_of_mismatch
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.seeds import Progress
from skuq._fitting.table import TableEncoder
from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import few_rows_reported
from skuq.distributions import Distribution, Mixture, Normal, Quantiles
from skuq.distributions._cramer import cramer_distances
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import supports_dist
from skuq.prediction._register import note_fold

_ROUNDING = 1e-13
"""The search adds a member only if the objective decreases at a rate above this value, relative to the
largest coefficient. A smaller rate may be a rounding error."""
_GAP = 1e-5
"""The search ends if the relative difference between the value and a lower bound of the minimum is at most
this value."""
_MOST_CUTS = 200
_MOST_SUPPORTS = 100
"""The search visits at most this number of supports per member. A few supports are usually enough."""


def minimise_quadratic(linear: FloatArray, quadratic: FloatArray) -> FloatArray:
    """Return the minimizer of b'w + 1/2 w'Qw over the simplex, by a primal active-set method."""
    b = linear - linear.min()  # a large constant would cause rounding errors
    scale = max(float(b.max()), float(np.abs(quadratic).max())) or 1.0
    b, Q = b / scale, quadratic / scale
    m = len(b)
    weights = np.zeros(m)
    support = np.array([np.argmin(b + np.diag(Q) / 2)])
    weights[support] = 1.0
    for _ in range(_MOST_SUPPORTS * m):  # each step ends at the optimum of another support
        weights, support = _descend(b, Q, weights, support)
        gradient = b + Q @ weights
        slack = gradient - weights @ gradient
        entering = int(np.argmin(slack))
        if slack[entering] >= -_ROUNDING or entering in support:
            break
        support = np.append(support, entering)
    return np.asarray(weights / weights.sum())


def _descend(
    b: FloatArray, Q: FloatArray, weights: FloatArray, support: IntArray
) -> tuple[FloatArray, IntArray]:
    """Move to the optimum of a support, and remove each member whose weight becomes 0."""
    while True:
        target = _optimum_without_bounds(b[support], Q[np.ix_(support, support)])
        current = weights[support]
        falling = target <= 0
        if not falling.any():
            weights = np.zeros_like(weights)
            weights[support] = target
            return weights, support
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(falling, current / (current - target), np.inf)
        leaving = int(np.nanargmin(steps))
        moved = current + min(steps[leaving], 1.0) * (target - current)
        moved[leaving] = 0.0
        weights = np.zeros_like(weights)
        weights[support] = np.maximum(moved, 0.0)
        support = np.delete(support, leaving)


def _optimum_without_bounds(b: FloatArray, Q: FloatArray) -> FloatArray:
    """Return the minimizer of b'w + 1/2 w'Qw over the vectors w that sum to 1.

    If there are several minimizers, return the shortest.
    """
    k = len(b)
    equations = np.block([[Q, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    solution: FloatArray = np.linalg.lstsq(equations, np.append(-b, 1.0), rcond=None)[0]
    return solution[:k]


def minimise_convex(evaluate: Callable[[FloatArray], tuple[float, FloatArray]], m: int) -> FloatArray:
    """Return the minimizer of a convex function over the simplex, by Kelley's cutting planes (1960)."""
    weights = best = np.full(m, 1.0 / m)
    least, cuts, offsets = np.inf, [], []
    target, in_simplex = np.append(np.zeros(m), 1.0), np.append(np.ones(m), 0.0)[np.newaxis]
    bounds: Any = [(0.0, 1.0)] * m + [(None, None)]
    unit = abs(evaluate(best)[0]) or 1.0
    for _ in range(_MOST_CUTS):
        value, slope = evaluate(weights)
        value, slope = value / unit, slope / unit
        if value < least:
            least, best = value, weights
        cuts.append(np.append(slope, -1.0))  # slope'w - t <= slope'w_k - value_k
        offsets.append(slope @ weights - value)
        found: Any = linprog(target, np.array(cuts), np.array(offsets), in_simplex, np.ones(1), bounds)
        if not found.success or least - found.fun <= _GAP:
            break
        weights = np.clip(found.x[:m], 0.0, None)
        weights /= weights.sum()
    return best


_N_LEVELS = 50
_LEVELS = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
"""The mean of the pinball losses at these levels approximates the CRPS of an average of quantile
functions."""

_UNCLIPPED = 0.98
"""The gains of at least this share of the rows are not clipped. With fewer than 75 rows, only one gain is
clipped."""

_TAIL = np.array([1e-6, 1e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3])
_GRID = np.concatenate([_TAIL, np.linspace(0.01, 0.99, 99), 1 - _TAIL[::-1]])
"""Levels at which an average of quantile functions is stored."""


@dataclass(frozen=True, eq=False)
class Pool(ABC):
    """Forecasts of m members for n rows, from which the weights are computed."""

    members: Sequence[Distribution]
    y: FloatArray
    repetitions: FloatArray
    crps: FloatArray  # CRPS of each row and member, shape (n, m)

    @staticmethod
    @abstractmethod
    def combine(members: Sequence[Distribution], weights: FloatArray) -> Distribution:
        """Return the pool of the forecasts. The weights are positive and sum to 1."""

    @abstractmethod
    def _least(self, share: FloatArray) -> FloatArray:
        """Return the weights that minimize the mean CRPS.

        The vector ``share`` (n,) weights the rows, and its sum is 1.
        """

    @abstractmethod
    def scores(self, weights: FloatArray, rows: BoolArray) -> FloatArray: ...
    def forecast(self, weights: FloatArray, rows: BoolArray) -> Distribution:
        used = np.flatnonzero(weights).tolist()
        return self.combine([self.members[i][rows] for i in used], weights[used])

    def weights(self, rows: BoolArray) -> FloatArray:
        m = len(self.members)
        equal = np.full(m, 1.0 / m)
        repetitions = np.where(rows, self.repetitions, 0.0)
        total = float(repetitions.sum())
        if m == 1 or total == 0:
            return equal
        least = self._least(repetitions / total)
        gains = self.scores(equal, rows) - self.scores(least, rows)
        share = _certain_share(gains, repetitions[rows])
        return np.asarray(equal + share * (least - equal)) if share > 0 else equal


def _certain_share(gains: FloatArray, repetitions: FloatArray) -> float:
    # The level is between two ranks, because sums of fractional repetitions are rounded.
    level = max(min(_UNCLIPPED - 1e-9, 1 - 1.5 / float(repetitions.sum())), 0.0)
    bound = np.quantile(np.abs(gains), level, weights=repetitions, method="inverted_cdf")
    shares = [0.0]
    for values in (gains, np.clip(gains, -bound, bound)):
        gain, error = mean_and_error(values, repetitions)
        if gain > error:
            shares.append(1 - (error / gain) ** 2)
    return float(max(shares))


def mean_and_error(values: FloatArray, repetitions: FloatArray, *, ddof: int = 0) -> tuple[Any, Any]:
    total = repetitions.sum()
    mean = repetitions @ values / total
    variance = repetitions @ np.square(values - mean) / max(total - ddof, 1)
    return mean, np.sqrt(variance / total)


@dataclass(frozen=True, eq=False)
class LinearPool(Pool):
    """Pool of mixtures.

    The scores of the pool are computed from the scores of the members and from the distances between the
    members, shape (n, m, m).
    """

    distances: FloatArray

    @classmethod
    def from_members(cls, members: Sequence[Distribution], y: FloatArray, repetitions: FloatArray) -> Self:
        return cls(members, y, repetitions, _scores(members, y), cramer_distances(members))

    @staticmethod
    def combine(members: Sequence[Distribution], weights: FloatArray) -> Distribution:
        return members[0] if len(members) == 1 else Mixture(members, weights, ensemble=True)

    def _least(self, share: FloatArray) -> FloatArray:
        return minimise_quadratic(share @ self.crps, -np.tensordot(share, self.distances, axes=1))

    def scores(self, weights: FloatArray, rows: BoolArray) -> FloatArray:
        # Rows are selected after the products, because an earlier selection would copy all distances.
        return np.asarray((self.crps @ weights - self.distances @ weights @ weights / 2)[rows])


@dataclass(frozen=True, eq=False)
class QuantilePool(Pool):
    """Pool of averages of quantile functions.

    It stores the quantiles of the members, shape (n, n_levels, m).
    """

    quantiles: FloatArray

    @classmethod
    def from_members(cls, members: Sequence[Distribution], y: FloatArray, repetitions: FloatArray) -> Self:
        quantiles = [member._finite_part().quantile(_LEVELS) for member in members]
        return cls(members, y, repetitions, _scores(members, y), np.stack(quantiles, axis=2))

    @staticmethod
    def combine(members: Sequence[Distribution], weights: FloatArray) -> Distribution:
        if len(members) == 1:
            return members[0]
        pairs = list(zip(members, weights, strict=True))
        normals = [(member, weight) for member, weight in pairs if isinstance(member, Normal)]
        if len(normals) == len(pairs):  # the average of normal distributions is normal
            loc, scale = (
                np.sum([weight * getattr(member, name) for member, weight in normals], axis=0)
                for name in ("loc", "scale")
            )
            return Normal(loc, scale)
        values = np.sum([weight * member._finite_part().quantile(_GRID) for member, weight in pairs], axis=0)
        return Quantiles(_GRID, values)

    def _least(self, share: FloatArray) -> FloatArray:
        y, per_level = self.y[:, np.newaxis], 2 / _N_LEVELS * share[:, np.newaxis]

        def mean_crps(weights: FloatArray) -> tuple[float, FloatArray]:
            gap = y - self.quantiles @ weights
            slope = np.where(gap < 0, _LEVELS - 1, _LEVELS) * per_level
            return float((slope * gap).sum()), -np.tensordot(slope, self.quantiles, axes=2)

        return minimise_convex(mean_crps, len(self.members))

    def scores(self, weights: FloatArray, rows: BoolArray) -> FloatArray:
        return self.forecast(weights, rows).crps(self.y[rows])


def _scores(members: Sequence[Distribution], y: FloatArray) -> FloatArray:
    return np.column_stack([member.crps(y) for member in members])


COMBINATIONS: dict[str, type[LinearPool] | type[QuantilePool]] = {
    "linear": LinearPool,
    "quantiles": QuantilePool,
}


class FittedMember(NamedTuple):
    """Member that is fitted to all rows, and its out-of-fold forecasts."""

    estimator: Any
    out_of_fold: Distribution | None
    mismatch: Mismatch | None = None


def named_members(estimators: Any, validate_names: Callable[[list[str]], object]) -> dict[str, Any]:
    if not isinstance(estimators, list | tuple) or not estimators:
        raise ValueError(
            "`estimators` must be a non-empty list of (name, estimator), got "
            f"{estimators if isinstance(estimators, list | tuple) else type(estimators).__name__}."
        )
    for pair in estimators:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(
                "`estimators` must be a list of pairs (name, estimator), such as ('boosting', "
                f"UncertaintyRegressor(...)), got {pair!r}."
            )
    names = [name for name, _ in estimators]
    validate_names(names)
    if "splitter" in names:
        raise ValueError(
            "`estimators` must not contain the name 'splitter', which metadata routing uses for `cv`."
        )
    members = {name: member for name, member in estimators if not is_dropped(member)}
    if not members:
        raise ValueError("`estimators` must have at least one member that is not 'drop', got none.")
    for name, member in members.items():
        _check_member(name, member)
    return members


def is_dropped(member: Any) -> bool:
    return isinstance(member, str) and member == "drop"


def _check_member(name: str, member: Any) -> None:
    if isinstance(member, type):
        raise TypeError(
            f"`estimators` must contain only instances, got the class {member.__name__} as {name!r}."
        )
    if not hasattr(member, "fit"):
        raise TypeError(f"`estimators` must contain only regressors or 'drop', got {member!r} as {name!r}.")
    if not supports_dist(member):
        kind = type(member).__name__
        raise NotProbabilisticError(
            f"`estimators` must give predictive distributions, but {name!r} ({kind}) gives none. Wrap it: "
            f"UncertaintyRegressor({kind}(...))."
        )


def fit_pool(
    members: Mapping[str, Any],
    data: TrainingData,
    folds: Sequence[tuple[IntArray, IntArray]] | None,
    *,
    own_folds: bool,
    n_jobs: int | None,
    verbose: int,
    progress: Progress,
) -> list[FittedMember]:
    """Fit each member to all rows.

    The test rows of a fold are predicted by a clone that is fitted without this fold.
    """
    tasks = {
        name: (name, member, data.X, data.y, data.params[name], folds, own_folds)
        for name, member in members.items()
    }
    report = progress.reporter("member")
    results: Iterable[FittedMember]
    if report is not None and n_jobs in (None, 1):  # the progress shows each fold of a member
        results, report = _one_by_one(tasks, progress), None
    else:
        calls = (partial(_fit_member, *task) for task in tasks.values())
        results = run_parallel(calls, n_jobs=n_jobs, one_by_one=report is not None, verbose=verbose)
    fitted = []
    for name, member in zip(members, results, strict=True):
        fitted.append(member)
        # issued here, because warnings in worker processes are lost
        warn_of_mismatch(
            member.mismatch,
            f"The weights are estimated from the models of the folds of member {name!r}, but new rows are "
            f"predicted by the model fitted to all rows",
        )
        if report is not None:
            report()
    return fitted


def _one_by_one(tasks: Mapping[str, tuple[Any, ...]], progress: Progress) -> Iterator[FittedMember]:
    for name, task in tasks.items():
        with progress.task(name, task[1]):
            fitted = _fit_member(*task)
        yield fitted


def _fit_member(
    name: str,
    member: Any,
    X: Any,
    y: Any,
    params: dict[str, Any],
    folds: Sequence[tuple[IntArray, IntArray]] | None,
    own_folds: bool,
) -> FittedMember:
    with note_fold(f"the member {name!r}"):
        if folds is None:
            return FittedMember(fit_wrapped(member, X, y, **params), None)
    with note_fold(f"the member {name!r}"), few_rows_reported():
        if own_folds and _has_own_folds(member):
            dist = member.fit_transform(X, y, **params)
            return FittedMember(member, dist[np.concatenate([test for _, test in folds])])
        cross = cross_fit(member, X, y, cv=folds, params=params, keep_in_context=False)
        refit = fit_wrapped(member, X, y, **params)
        return FittedMember(refit, cross.tested()[1], find_mismatch(refit, cross, X, y, predict_quartiles))


def _has_own_folds(member: Any) -> bool:
    # In a Pipeline, only a table encoder may precede the regressor. Other transformers may use y, so each
    # fold must fit them again.
    if isinstance(member, Pipeline):
        *transformers, (_, last) = member.steps
        return _has_own_folds(last) and all(
            isinstance(one, TableEncoder) or one == "passthrough" for _, one in transformers
        )
    return isinstance(member, BaseUncertaintyRegressor)
