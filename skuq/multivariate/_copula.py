"""Joint distributions that combine univariate distributions of any family with a common dependence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_same_length
from skuq.distributions import Distribution, JointDistribution, Normal
from skuq.distributions._concatenated import stack_rows
from skuq.distributions._joint_points import correlation_of
from skuq.distributions._members import read_weights
from skuq.distributions._row_container import check_univariate, equal
from skuq.multivariate._conditional import (
    conditional_marginal,
    conditional_normal,
    kernel_weights,
    observed_scores,
)
from skuq.multivariate._empirical import EmpiricalJoint, draw_points
from skuq.multivariate._normal import LEAST_EIGENVALUE, NormalJoint, normal_cdf, quadratic_form
from skuq.multivariate._template import (
    check_correlation,
    normal_template,
    ranks_in_order,
    root,
    weighted_levels,
)


@dataclass(frozen=True, eq=False, repr=False)
class CopulaJoint(JointDistribution):
    r"""Joint distributions given by univariate distributions and a template of their dependence.

    Point k of row i is :math:`(F_{i1}^{-1}(u_{k1}), \dots, F_{id}^{-1}(u_{kd}))`. All rows have the same
    template u. Each row has its own marginal distributions F.

    Parameters
    ----------
    marginals : sequence of d Distributions
        Univariate distributions of the targets, n rows each.
    ranks : array-like of shape (K, d)
        Template of the dependence: values strictly between 0 and 1, with K >= 2. The values of each column
        are replaced by ``(rank - 0.5) / K``, so the template does not change the marginals. `rank_template`
        computes a template from PIT values. `normal_template` computes a template from a correlation matrix.
    weights : array-like of shape (K,) or (n, K), default=None
        Non-negative weights of the points, for all rows or for each row. The levels of the points are
        computed from the weights, so that weights change the dependence but not the marginals.
    correlation : array-like of shape (d, d), default=None
        Correlation matrix of the normal scores. If it is given, the copula is normal, and `cdf`, `sample`,
        `condition` and `logpdf` use the normal copula instead of the template.
    names : sequence of d str, default=None
        Names of the targets.

    Attributes
    ----------
    ranks : ndarray of shape (K, d)
        Template. Each column contains the values (rank - 0.5) / K.
    weights : ndarray of shape (K,) or (n, K), or None
        Weights, rescaled to sum to one.

    See Also
    --------
    NormalJoint : Multivariate normal distributions, with closed forms.
    skuq.multivariate.rank_template : Template of out-of-sample PIT values.

    Notes
    -----
    The template is an empirical copula. In weather forecasting, this method is known as the Schaake shuffle.
    A template is more accurate than the same number of random draws, because the points of each marginal are
    evenly spaced levels. For the cdf and for random samples, each point is spread evenly between adjacent
    levels, so that the marginals are exact.

    The points of a row need d K quantiles. They are computed on demand, in blocks of rows. If a marginal has
    infinite quantiles, moments and other functionals use its finite part.

    Examples
    --------
    >>> from skuq.distributions import Normal, StudentT
    >>> from skuq.multivariate import CopulaJoint
    >>> ranks = [[0.1, 0.2], [0.3, 0.1], [0.5, 0.6], [0.7, 0.8], [0.9, 0.9]]
    >>> dist = CopulaJoint([Normal([0.0, 5.0], 1.0), StudentT([1.0, 1.0], 1.0, df=5)], ranks)
    >>> dist
    CopulaJoint(n=2, d=2)
    >>> dist.linear([1.0, 1.0]).mean()
    array([1., 6.])
    """

    ranks: FloatArray
    weights: FloatArray | None
    correlation: FloatArray | None
    names: tuple[str, ...] | None

    def __init__(
        self,
        marginals: Sequence[Distribution],
        ranks: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        correlation: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        parts = _read_marginals(marginals)
        d, n = len(parts), len(parts[0])
        template = _read_ranks(ranks, d)
        share = read_weights(weights, n, len(template))
        if share is not None and np.asarray(weights).ndim == 1:
            share = np.array(share[0])
        matrix = None if correlation is None else check_correlation(correlation, d)
        if matrix is not None and share is not None:
            raise ValueError(
                "`weights` must be None if `correlation` is given, because the normal copula does not use "
                "weights. Leave out `weights` or `correlation`."
            )
        self._set(
            _marginals=parts,
            ranks=template,
            weights=share,
            correlation=matrix,
            names=self._read_names(names, d),
        )

    def _parameters(self) -> dict[str, Any]:
        return {
            "marginals": self._marginals,
            "ranks": self.ranks,
            "weights": self.weights,
            "correlation": self.correlation,
            "names": self.names,
        }

    _marginals: tuple[Distribution, ...] = ()
    _PER_ROW = ("marginals",)

    def _per_row(self) -> tuple[str, ...]:
        per_row = self.weights is not None and self.weights.ndim == 2
        return (*self._PER_ROW, "weights") if per_row else self._PER_ROW

    def _rows(self) -> int:
        return len(self._marginals[0])

    def _target_count(self) -> int:
        return len(self._marginals)

    @classmethod
    def _merge(cls, parts: Sequence[CopulaJoint]) -> CopulaJoint | None:
        first = parts[0]
        if not all(
            equal(first.ranks, part.ranks) and equal(first.correlation, part.correlation) for part in parts
        ):
            return None
        weights, shared = first.weights, all(equal(first.weights, part.weights) for part in parts)
        if not shared or (weights is not None and weights.ndim == 2):
            weights = np.concatenate([part._row_weights() for part in parts])
        columns = zip(*(part._marginals for part in parts), strict=True)
        return first._with(marginals=[stack_rows(column) for column in columns], weights=weights)

    def marginals(self) -> tuple[Distribution, ...]:
        return self._marginals

    # ------------------------------------------------------------------ points

    def _point_count(self) -> int:
        return len(self.ranks)

    def _row_weights(self) -> FloatArray:
        k = len(self.ranks)
        weights = np.full(k, 1.0 / k) if self.weights is None else self.weights
        return np.broadcast_to(weights, (len(self), k))

    def _point_weights(self, rows: slice) -> FloatArray | None:
        return self.weights[rows] if self.weights is not None and self.weights.ndim == 2 else self.weights

    @cached_property
    def _order(self) -> IntArray:
        return self.ranks.argsort(axis=0, kind="stable")

    def _levels(self, rows: slice) -> FloatArray:
        weights = self._point_weights(rows)
        return self.ranks if weights is None else weighted_levels(self._order, weights)

    @cached_property
    def _finite_marginals(self) -> tuple[Distribution, ...]:
        return tuple(marginal._finite_part() for marginal in self._marginals)

    def _points(self, rows: slice) -> tuple[FloatArray, FloatArray | None]:
        levels = self._levels(rows)
        whole = len(range(*rows.indices(len(self)))) == len(self)
        marginals = [part if whole else part[rows] for part in self._finite_marginals]
        points = np.empty((len(marginals), len(self.ranks), len(marginals[0])))
        for marginal, column, out in zip(marginals, np.moveaxis(levels, -1, 0), points, strict=True):
            _write_quantiles(marginal, column, out)
        weights = None if self.weights is None else self._row_weights()[rows]
        return points.transpose(2, 1, 0), weights

    # ------------------------------------------------------------------ closed forms

    @cached_property
    def _as_normal(self) -> NormalJoint | None:
        """Return the equal NormalJoint if all marginals and the copula are normal, otherwise None."""
        if self.correlation is None or not all(type(part) is Normal for part in self._marginals):
            return None
        std = self.std()
        covariance = std[:, :, np.newaxis] * self.correlation * std[:, np.newaxis, :]
        return NormalJoint(self.mean(), covariance, self.names)

    def _corr(self) -> FloatArray:
        return super()._corr() if self._as_normal is None else self._as_normal.corr()

    def _linear(self, w: FloatArray) -> Distribution:
        return super()._linear(w) if self._as_normal is None else self._as_normal._linear(w)

    @cached_property
    def has_density(self) -> bool:
        """True if the copula is normal and every marginal has a density."""
        return (
            self.correlation is not None
            and bool(np.linalg.eigvalsh(self.correlation)[0] > LEAST_EIGENVALUE)
            and all(marginal.has_density for marginal in self._marginals)
        )

    def _logpdf(self, y: FloatArray) -> FloatArray:
        pairs = list(zip(self._marginals, y.T, strict=True))
        density = np.sum([marginal._logpdf(column) for marginal, column in pairs], axis=0)
        scores = np.column_stack([marginal._normal_score(column) for marginal, column in pairs])
        inside = np.asarray(np.isfinite(scores).all(axis=1))
        scores = np.where(inside[:, np.newaxis], scores, 0.0)
        quadratic, log_det = quadratic_form(scores, np.asarray(self.correlation))
        copula = -0.5 * (quadratic - np.square(scores).sum(axis=1) + log_det)
        return np.where(inside, density + copula, -np.inf)

    def _cdf(self, y: FloatArray) -> FloatArray:
        pairs = list(zip(self._marginals, y.T, strict=True))
        if self.correlation is not None:
            scores = np.column_stack([marginal._normal_score(column) for marginal, column in pairs])
            return normal_cdf(scores, self.correlation)
        levels = np.column_stack([marginal._cdf(column) for marginal, column in pairs])
        out = np.empty(len(self))
        for rows in self._row_blocks():
            weights = self._row_weights()[rows]
            width = np.where(weights > 0, weights, 1.0)[..., np.newaxis]
            # each point is spread evenly between adjacent levels, so that the marginals are uniform
            share = (levels[rows, np.newaxis] - self._levels(rows)) / width + 0.5
            out[rows] = (weights * np.clip(share, 0.0, 1.0).prod(axis=2)).sum(axis=1)
        return np.minimum(out, 1.0)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        n, d = self.shape
        out = np.empty((d, m, n))
        if self.correlation is not None:
            scores = rng.normal(size=(n, m, d)) @ root(self.correlation).T
            for j, marginal in enumerate(self._finite_marginals):
                for draw in range(m):
                    out[j, draw] = marginal._from_normal_score(scores[:, draw, j])
            return out.transpose(2, 1, 0)
        index = draw_points(self.weights, n, len(self.ranks), m, rng)
        width = np.take_along_axis(self._row_weights(), index, axis=1)
        levels = self._levels(slice(None))
        for j, marginal in enumerate(self._finite_marginals):
            column = np.broadcast_to(levels[..., j], (n, len(self.ranks)))
            middle = np.take_along_axis(column, index, axis=1)
            drawn = np.maximum(middle + width * (rng.uniform(size=(n, m)) - 0.5), 2.0**-53)
            for draw in range(m):
                out[j, draw] = marginal._ppf(drawn[:, draw])
        return out.transpose(2, 1, 0)

    def _condition(self, y: FloatArray, observed: IntArray, unknown: IntArray) -> JointDistribution:
        if self._as_normal is not None:
            return self._as_normal._condition(y, observed, unknown)
        marginals = [self._marginals[j] for j in observed]
        limit = float(-ndtri(0.5 / len(self.ranks)))
        scores = observed_scores(marginals, y, [self._label(j) for j in observed], limit)
        names = self._names_of(unknown)
        if self.correlation is not None:
            coefficients, covariance = conditional_normal(self.correlation, observed, unknown)
            scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
            columns = zip(unknown, (scores @ coefficients.T).T, scale, strict=True)
            parts = [
                conditional_marginal(self._marginals[j], shift, float(width)) for j, shift, width in columns
            ]
            correlation = correlation_of(covariance)
            return CopulaJoint(parts, normal_template(correlation), correlation=correlation, names=names)
        k = len(self.ranks)
        members, weights = np.empty((len(self), k, unknown.size)), np.empty((len(self), k))
        for rows in self._row_blocks():
            points, share = self._points(rows)
            members[rows] = points[..., unknown]
            weights[rows] = kernel_weights(self._levels(rows)[..., observed], scores[rows], share)
        return EmpiricalJoint(members, weights, names)


def _write_quantiles(marginal: Distribution, levels: FloatArray, out: FloatArray) -> None:
    """Write the quantiles at levels of shape (K,) or (b, K) into an array of shape (K, b)."""
    form = marginal._standard_form() if levels.ndim == 1 else None
    if form is not None:
        loc, scale, standard = form
        quantiles = standard._take(np.zeros(len(levels), dtype=np.intp))._ppf(levels)
        np.multiply(quantiles[:, np.newaxis], scale, out=out)
        out += loc
        return
    for row, level in zip(out, np.moveaxis(levels, -1, 0), strict=True):
        row[:] = marginal._ppf(np.asarray(level))


def _read_marginals(marginals: Any) -> tuple[Distribution, ...]:
    check_univariate(marginals, "marginals")
    if isinstance(marginals, Distribution) or not isinstance(marginals, Iterable):
        raise TypeError(
            f"`marginals` must be a sequence of distributions, one per target, got "
            f"{type(marginals).__name__}."
        )
    parts = tuple(marginals)
    if not parts:
        raise ValueError("`marginals` must hold at least one distribution, got none.")
    for part in parts:
        check_univariate(part, "marginals")
        if not isinstance(part, Distribution):
            raise TypeError(f"`marginals` must hold distributions, got {type(part).__name__}.")
    check_same_length([len(part) for part in parts], "marginals")
    return parts


def _read_ranks(ranks: ArrayLike, d: int) -> FloatArray:
    values = as_float_array(ranks, "ranks")
    if values.ndim != 2 or values.shape[1] != d or len(values) < 2:
        raise ValueError(
            f"`ranks` must have shape (K, {d}) with K >= 2, one column per marginal, got {values.shape}."
        )
    outside = ~((values > 0) & (values < 1))
    if outside.any():
        raise ValueError(
            f"`ranks` must lie strictly between 0 and 1, got {values[outside][0]}. Use `rank_template`."
        )
    return ranks_in_order(values.argsort(axis=0, kind="stable"))
