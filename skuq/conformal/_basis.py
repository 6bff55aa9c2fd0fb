r"""Coverage over functions of x: cutoffs of scores that depend on features (``basis``).

Thresholds that depend on features are quantile regressions of scores. Each regression has one additional row,
whose score is infinite. For calibration rows with scores :math:`S_i`, weights :math:`w_i` and basis functions
:math:`\varphi_i`, and a new row with :math:`\varphi`, the cutoff of Gibbs, Cherian and Candès (2025, sec. 4)
is

.. math:: S^* = \varphi^\top \beta(1), \quad
    \beta(\theta) = \arg\min_\beta \sum_i w_i \rho_\tau(S_i - \varphi_i^\top \beta)
        - \theta \tau \varphi^\top \beta .

The dual variables :math:`\eta_i \in [(\tau - 1) w_i, \tau w_i]` satisfy :math:`\sum_i \eta_i
\varphi_i = -\theta \tau \varphi`. The residual of a row is positive if its dual variable is at the upper
bound, and negative if it is at the lower bound. The residuals of d basic rows are 0, and their dual variables
lie between the bounds. `_follow` increases :math:`\theta` from 0 to 1. The basic dual variables are linear
in :math:`\theta` until one of them reaches a bound. Its row leaves the basis, and the first row whose
residual becomes 0 enters the basis.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from scipy.linalg import qr

from skuq._compat import warn_user
from skuq._numeric import score_level
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import as_float_array, check_finite
from skuq.conformal._base import WeightedRows, check_weight
from skuq.exceptions import SmallSampleWarning

_SEPARATION = 1e-11
"""Relative size of the differences that are added to tied scores, so that exactly one row enters the basis in
each step."""

_AT_END = 1e-10
"""A path ends if its distance to the end is at most this number. The tolerance is needed because
`WeightedRanks` rounds the ranks."""

_FEASIBLE = 1e-9
"""Rounding error of dual variables, relative to the largest bound."""

_ROUNDING = 1e-12
"""A dual variable is treated as constant if its change is less than this share of the largest change."""

_SUBSAMPLE = 8
"""The start is first computed for a sample of every eighth row. From the basis of this sample, few further
steps are needed."""

_CHUNK_FLOATS = 1 << 15
"""Maximum number of residuals in memory at the same time."""


class Calibration(NamedTuple):
    """Rows of a quantile regression at the level ``tau``."""

    phi: FloatArray  # basis functions, shape (n, d), of full column rank
    scores: FloatArray  # finite, without ties, shape (n,)
    lower: FloatArray  # bounds of the dual variables, shape (n,)
    upper: FloatArray


class Vertex(NamedTuple):
    """Optimal bases of m quantile regressions."""

    basic: IntArray  # rows with residual 0, shape (m, d)
    dual: FloatArray  # their dual variables, shape (m, d)


def separated(scores: FloatArray) -> FloatArray:
    # multiples of the golden ratio modulo 1 are distinct and spread evenly
    offsets = np.arange(1, scores.size + 1) * ((np.sqrt(5) - 1) / 2) % 1
    size = np.abs(scores)
    return np.asarray(scores + _SEPARATION * offsets * (size + np.median(size)))


def independent_rows(phi: FloatArray) -> IntArray:
    return np.asarray(qr(phi.T, mode="r", pivoting=True)[1][: phi.shape[1]])


def start(rows: Calibration, target: FloatArray) -> Vertex | None:
    """Return the optimal basis for dual variables with ``phi.T @ eta == target``, or None if infeasible.

    Each step replaces the basic row whose dual variable is farthest outside its bounds. The loss is piecewise
    linear along the edge. The row at the minimum of the loss, which is a weighted median, enters the basis
    (Barrodale and Roberts 1973).
    """
    n, d = rows.phi.shape
    basic = independent_rows(rows.phi)
    if n > _SUBSAMPLE * (d + 1):
        some = np.union1d(np.arange(0, n, _SUBSAMPLE), basic)
        found = start(Calibration(*(part[some] for part in rows)), target * (len(some) / n))
        if found is not None:
            basic = some[found.basic[0]]
    while True:
        of_basic = rows.phi[basic]
        residual = rows.scores - rows.phi @ _solve(of_basic, rows.scores[basic])
        dual = np.where(residual > 0, rows.upper, rows.lower)
        dual[basic] = 0.0
        wanted = _solve(of_basic.T, target - rows.phi.T @ dual)
        above, below = wanted - rows.upper[basic], rows.lower[basic] - wanted
        excess = np.maximum(above, below)
        leaving = int(np.argmax(excess))
        if excess[leaving] <= _FEASIBLE * rows.upper.max():
            return Vertex(basic[np.newaxis], wanted[np.newaxis])
        moves = np.zeros(d)
        moves[leaving] = -1.0 if above[leaving] > 0 else 1.0
        approach = rows.phi @ _solve(of_basic, moves)
        approach[basic] = 0.0
        crossed = np.flatnonzero(
            (residual * approach > 0) & (np.abs(approach) > _ROUNDING * np.abs(approach).max())
        )
        crossed = crossed[np.argsort(residual[crossed] / approach[crossed])]
        slope = np.cumsum(np.abs(approach[crossed]) * (rows.upper - rows.lower)[crossed])
        entering = int(np.searchsorted(slope, excess[leaving]))
        if entering == crossed.size:
            return None
        basic[leaving] = crossed[entering]


def cutoffs(rows: Calibration, vertex: Vertex, scores: FloatArray, phi: FloatArray, tau: float) -> FloatArray:
    """Return the cutoff of each new row, shape (m,), or +inf for an unbounded row.

    The new rows are not in ``vertex``.
    """
    cutoff = np.empty(len(phi))
    step = max(1, _CHUNK_FLOATS // len(scores))
    for first in range(0, len(phi), step):
        new = phi[first : first + step]
        m = len(new)
        same = Vertex(np.repeat(vertex.basic, m, axis=0), np.repeat(vertex.dual, m, axis=0))
        end, reached = _follow(rows, same, -tau * new)
        # the scores before small differences were added to ties
        beta = _solve(rows.phi[end.basic], scores[end.basic])
        cutoff[first : first + m] = np.where(reached, np.einsum("md,md->m", new, beta), np.inf)
    return cutoff


def _follow(rows: Calibration, vertex: Vertex, change: FloatArray) -> tuple[Vertex, BoolArray]:
    """Return the bases after ``phi.T @ eta`` changes by ``change`` (m, d), and whether this is feasible."""
    basic, dual = vertex.basic.copy(), vertex.dual.copy()
    left = np.ones(len(basic))  # remaining share of the change
    reached = np.zeros(len(basic), dtype=bool)
    active = np.arange(len(basic))
    while active.size:
        slope = _solve(rows.phi[basic[active]].transpose(0, 2, 1), change[active])
        share, leaving, at_upper = _first_bound(rows, basic[active], dual[active], slope)
        done = share >= left[active] - _AT_END
        share = np.where(done, left[active], share)
        dual[active] += share[:, np.newaxis] * slope
        left[active] -= share
        reached[active[done]] = True
        active, leaving, at_upper = active[~done], leaving[~done], at_upper[~done]
        entering, bound = _first_crossing(rows, basic[active], leaving, at_upper)
        feasible = entering >= 0
        active, leaving = active[feasible], leaving[feasible]
        basic[active, leaving], dual[active, leaving] = entering[feasible], bound[feasible]
    return Vertex(basic, dual), reached


def _first_bound(
    rows: Calibration, basic: IntArray, dual: FloatArray, slope: FloatArray
) -> tuple[FloatArray, IntArray, BoolArray]:
    # slopes that are rounding errors are ignored
    moving = np.abs(slope) > _ROUNDING * np.abs(slope).max(axis=1, keepdims=True)
    bound = np.where(slope > 0, rows.upper[basic], rows.lower[basic])
    share = np.divide(bound - dual, slope, out=np.full(slope.shape, np.inf), where=moving)
    leaving = np.argmin(share, axis=1)
    at = np.arange(len(basic)), leaving
    return np.maximum(share[at], 0.0), leaving, slope[at] > 0


def _first_crossing(
    rows: Calibration, basic: IntArray, leaving: IntArray, at_upper: BoolArray
) -> tuple[IntArray, FloatArray]:
    """Return the row whose residual becomes 0 first, or -1 if there is none, and the row's dual variable."""
    # the residual of the leaving row moves away from 0, and the residuals of the other basic rows remain 0
    moves = np.zeros(basic.shape)
    moves[np.arange(len(basic)), leaving] = np.where(at_upper, -1.0, 1.0)
    solved = np.linalg.solve(rows.phi[basic], np.stack([rows.scores[basic], moves], axis=2))
    residual = rows.scores - solved[..., 0] @ rows.phi.T
    approach = solved[..., 1] @ rows.phi.T
    np.put_along_axis(approach, basic, 0.0, axis=1)  # the residuals of basic rows remain 0
    np.put_along_axis(residual, basic, 1.0, axis=1)  # the quotient below is then 0
    size = np.abs(approach)
    approach[size <= _ROUNDING * size.max(axis=1, keepdims=True)] = 0.0
    # 1 / (distance after which the residual of a row becomes 0)
    nearness = np.divide(approach, residual, out=np.zeros_like(residual), where=residual != 0)
    entering = np.argmax(nearness, axis=1)
    at = np.arange(len(basic)), entering
    found = nearness[at] > 0
    value = np.where(residual[at] > 0, rows.upper[entering], rows.lower[entering])
    return np.where(found, entering, -1), value


def _solve(matrices: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(matrices, right[..., np.newaxis])[..., 0])


_ROWS_PER_FUNCTION = 100
"""With fewer calibration rows per function, intervals differ strongly between calibration sets."""

_RANK = 1e-10
"""If the relative singular value of a direction is smaller than this value, it is a rounding error, and the
functions are linearly dependent."""

_OUTSIDE = 1e-8
"""If the relative distance of a new row from the span of the calibration rows is larger than this value, the
row is outside the span."""

Basis = Callable[[Any], Any] | Hashable | list[Hashable]


def check_basis(basis: Any) -> None:
    if callable(basis) or (isinstance(basis, str | int) and not isinstance(basis, bool)):
        return
    if not (isinstance(basis, list | tuple) and basis and all(isinstance(name, Hashable) for name in basis)):
        raise TypeError(
            "`basis` must be a callable X -> array of shape (n, d), a column name, a list of column names or "
            f"None, got {basis!r}."
        )


def read_basis(basis: Basis, X: Any, n: int) -> pd.DataFrame:
    if callable(basis):
        values = basis(X)
        frame = values if isinstance(values, pd.DataFrame) else pd.DataFrame(np.asarray(values))
    else:
        frame = _columns(X, list(basis) if isinstance(basis, list | tuple) else [basis])
    if frame.shape[0] != n or frame.shape[1] == 0:
        raise ValueError(
            f"`basis` must give {n} rows, one per row of X, and at least one column, got shape {frame.shape}."
        )
    return pd.DataFrame({number: _checked(frame.iloc[:, number]) for number in range(frame.shape[1])})


def _columns(X: Any, names: list[Any]) -> pd.DataFrame:
    if not isinstance(X, pd.DataFrame):
        raise TypeError(
            f"`X` must be a pandas DataFrame if `basis` names columns ({names!r}), got {type(X).__name__}. "
            "In a Pipeline, call `set_output(transform='pandas')` to keep the names, or pass a callable X -> "
            "array."
        )
    unknown = [name for name in names if name not in X.columns]
    if unknown:
        raise ValueError(f"`basis` must name columns of X, got {unknown[0]!r}. X has {list(X.columns)}.")
    return X[names]


def _checked(column: pd.Series) -> np.ndarray:
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return check_finite(as_float_array(column.to_numpy(), "basis"), "basis")
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"`basis` must give a label for every row, got {column[missing].iloc[0]} at row "
            f"{int(np.argmax(missing))}. Replace missing values with a separate label."
        )
    return column.to_numpy(dtype=object)


class BasisScores:
    """Scores of calibration rows, with their coordinates in a basis of the constant and the functions.

    The basis has full rank. A column of labels is replaced by one indicator function per label.
    """

    def __init__(self, scores: FloatArray, weight: FloatArray, functions: pd.DataFrame) -> None:
        used = check_weight(weight) > 0
        self._scores, self._weight = scores[:, used], weight[used]
        self.total = float(self._weight.sum())
        functions = functions[used]
        self._n_functions = functions.shape[1]
        self._labels = {
            column: pd.Index(functions[column].unique())
            for column in functions
            if functions[column].dtype == object
        }
        design = self._design(functions)
        size = np.abs(design).max(axis=0)
        self._size = np.where(size > 0, size, 1.0)
        _, singular, directions = np.linalg.svd(design / self._size, full_matrices=False)
        self._directions = directions[singular > _RANK * singular[0]]
        self._phi = (design / self._size) @ self._directions.T
        self._solved: dict[tuple[int, float], tuple[Calibration, FloatArray, Vertex | None]] = {}

    def check(self) -> None:
        """Raise an error if there are as many functions as rows. Warn if there are few rows per function."""
        n, d = self._phi.shape
        if d >= n:
            raise ValueError(
                f"`basis` must have fewer independent functions than calibration rows, got {d} functions, "
                f"including the constant, and {n} calibration rows. Use fewer functions or more rows."
            )
        if d > 1 and self.total < _ROWS_PER_FUNCTION * d:
            warn_user(
                f"`basis` has {d} independent functions, including the constant, for {self.total:g} "
                f"calibration rows. With fewer than {_ROWS_PER_FUNCTION} rows per function, intervals are "
                "wide and differ between calibration sets. Use fewer functions or more rows.",
                SmallSampleWarning,
            )

    def quantile(self, rows: WeightedRows, coverage: float) -> FloatArray:
        """Return the cutoffs of n new rows, shape (1, n) or (2, n). A cutoff is +inf if it is unbounded."""
        level = float(score_level(coverage, symmetric=len(self._scores) == 1))
        phi, spanned = self._coordinates(cast("pd.DataFrame", rows.functions))
        cutoff = np.full((len(self._scores), rows.n), np.inf)
        for bound, of_bound in enumerate(self._scores):
            if (bound, level) not in self._solved:
                self._solved[bound, level] = self._solve(of_bound, level)
            calibration, exact, vertex = self._solved[bound, level]
            if vertex is not None and spanned.any():
                cutoff[bound, spanned] = cutoffs(calibration, vertex, exact, phi[spanned], level)
        return cutoff

    def weight_for(self, rows: WeightedRows) -> FloatArray:
        return np.full(rows.n, self.total)

    def _solve(self, scores: FloatArray, level: float) -> tuple[Calibration, FloatArray, Vertex | None]:
        finite = np.isfinite(scores)
        weight, phi = self._weight[finite], self._phi[finite]
        rows = Calibration(phi, separated(scores[finite]), (level - 1) * weight, level * weight)
        # a row with an infinite score always has its largest dual variable
        target = -level * (self._weight[~finite] @ self._phi[~finite])
        return rows, scores[finite], start(rows, target)

    def _coordinates(self, functions: pd.DataFrame) -> tuple[FloatArray, BoolArray]:
        scaled = self._design(functions) / self._size
        phi = scaled @ self._directions.T
        distance = np.abs(scaled - phi @ self._directions).max(axis=1)
        spanned = distance <= _OUTSIDE * np.abs(scaled).max(axis=1)
        for column, labels in self._labels.items():
            spanned &= labels.get_indexer(pd.Index(functions[column])) >= 0
        return phi, spanned

    def _design(self, functions: pd.DataFrame) -> FloatArray:
        if functions.shape[1] != self._n_functions:
            raise ValueError(
                f"`basis` must give shape (n, {self._n_functions}), as in `fit`, got "
                f"(n, {functions.shape[1]})."
            )
        parts = [np.ones((len(functions), 1))]
        for column in functions:
            values = functions[column].to_numpy()
            if column in self._labels:
                codes = self._labels[column].get_indexer(pd.Index(values))
                values = codes[:, np.newaxis] == np.arange(len(self._labels[column]))
            parts.append(np.asarray(values, dtype=np.float64).reshape(len(functions), -1))
        return np.concatenate(parts, axis=1)


def warn_of_unbounded_rows(unbounded: BoolArray, consequence: str) -> None:
    """Issue one warning about rows whose cutoff is not bounded by the calibration rows."""
    if unbounded.any():
        warn_user(
            f"`basis` gives no finite bound for {int(unbounded.sum())} of {unbounded.size} rows, first at "
            f"row {int(np.argmax(unbounded))}: {consequence}. Possible reasons are a label without "
            "calibration rows, extreme values, and a coverage that needs more rows. Use fewer functions or "
            "more calibration rows.",
            SmallSampleWarning,
        )
