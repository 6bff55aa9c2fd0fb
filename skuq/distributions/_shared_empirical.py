"""Empirical distributions of one common shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skuq._numeric import WeightedRanks, count_reached
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, check_non_negative
from skuq.distributions._base import Distribution
from skuq.distributions._family import Atoms
from skuq.distributions._normal import read_rows
from skuq.distributions._shapes import Shape, step_shape

MOST_LANDMARKS = 512
"""Maximum number of breaks that a sample adds to the integral over a mixture."""


@dataclass(frozen=True, eq=False, repr=False)
class SharedEmpirical(Distribution):
    r"""Empirical distributions with a common shape: row i is ``loc[i] + scale[i] * Z`` for one sample Z.

    Use this family if all rows have the same sample, such as the standardized residuals of a model. The
    sample is stored only once. If each row has its own members, such as the predictions of an ensemble, use
    `Empirical`.

    Parameters
    ----------
    loc : float or array-like of shape (n,)
        Location of each row, in the units of y.
    scale : float or array-like of shape (n,)
        Scale of each row, in the units of y, at least 0. A row with scale 0 is a point mass at ``loc``.
    members : array-like of shape (k,)
        Members of the sample Z. They have no units.
    weights : array-like of shape (k,), default=None
        Non-negative weights of the members, which are rescaled to sum to one. None means equal weights.

    Attributes
    ----------
    members : ndarray of shape (k,)
        Sorted members of positive weight.
    weights : ndarray of shape (k,) or None
        Weights in the order of ``members``.

    See Also
    --------
    Empirical : Members for each row.
    ConformalPredictive : Distributions of one common sample, with a coverage guarantee.

    Notes
    -----
    The mean is ``loc + scale * mean(Z)``, the standard deviation is ``scale * std(Z)``, and quantiles are
    members. Let s be the scale and :math:`z = (y - \mathrm{loc}) / s`. Let F be the value at z of the step
    cdf of Z, :math:`\bar z` the mean of Z, and :math:`d = y - E Y`. The CRPS [1]_ is

    .. math:: d (2 F - 1) - s \Bigl( 2 \sum_{z_j \le z} w_j (z_j - \bar z) + \tfrac12 E|Z - Z'| \Bigr),

    It requires one look-up in cumulative sums. The memory is O(n + k). Each method costs O(n log k) after the
    constructor has sorted the sample.

    References
    ----------
    .. [1] T. Gneiting, A. E. Raftery, "Strictly proper scoring rules, prediction, and estimation",
       JASA 102, 2007, eq. 21. https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> from skuq.distributions import SharedEmpirical
    >>> dist = SharedEmpirical(loc=[0.0, 10.0], scale=[1.0, 2.0], members=[-1.0, 0.0, 2.0, 3.0])
    >>> dist.mean(), dist.median()
    (array([ 1., 12.]), array([ 0., 10.]))
    >>> dist.cdf([2.0, 9.0])
    array([0.75, 0.25])
    """

    loc: FloatArray
    scale: FloatArray
    members: FloatArray
    weights: FloatArray | None

    _PER_ROW = ("loc", "scale")

    def __init__(
        self, loc: ArrayLike, scale: ArrayLike, members: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        location, width = read_rows(loc=loc, scale=scale)
        check_non_negative(width, "scale")
        values, weight = read_sample(members, "members", weights)
        ranks = WeightedRanks(values, None if weight is None else weight / weight.sum())
        self._set(loc=location, scale=width, members=ranks.values, weights=ranks.weights)

    @cached_property
    def _ranks(self) -> WeightedRanks:
        return WeightedRanks(self.members, self.weights)

    @cached_property
    def _share(self) -> FloatArray:
        k = self.members.size
        return np.full(k, 1.0 / k) if self.weights is None else self.weights

    @cached_property
    def _centered(self) -> tuple[float, FloatArray]:
        # Deviations keep their precision if the members are far from 0.
        deviation = self.members - self.members[0]
        mean = float(self._share @ deviation)
        return float(self.members[0]) + mean, deviation - mean

    @cached_property
    def _crps_terms(self) -> FloatArray:
        """Return the last term of the CRPS divided by the scale, for y above 0, 1, ..., k members."""
        deviation, share = self._centered[1], self._share
        partial = np.concatenate([[0.0], np.cumsum(share * deviation)])
        below = np.concatenate([[0.0], np.cumsum(share)[:-1]])
        half_difference = float((share * deviation) @ (2 * below + share - 1))
        return 2 * partial + half_difference

    @cached_property
    def _shape(self) -> Shape:
        return step_shape(self.members, self._share)

    def mean(self) -> FloatArray:
        return self.loc + self.scale * self._centered[0]

    def std(self) -> FloatArray:
        deviation = np.abs(self._centered[1])
        unit = float(deviation.max())
        if unit == 0:
            return np.zeros(len(self))
        return self.scale * (unit * float(np.sqrt(self._share @ np.square(deviation / unit))))

    def _cdf(self, y: FloatArray) -> FloatArray:
        ranks = self._ranks
        return np.asarray(ranks.weight_of(count_reached(ranks.values, self.loc, self.scale, y)) / ranks.total)

    def _ppf(self, p: FloatArray) -> FloatArray:
        # The quantile at level 1 is the largest member, even if the cumulative weights have rounding errors.
        member = np.minimum(self._ranks.quantile(p * self._ranks.total), self.members[-1])
        return np.asarray(self.loc + self.scale * member)

    def _crps(self, y: FloatArray) -> FloatArray:
        count = count_reached(self.members, self.loc, self.scale, y)
        reached = self._ranks.weight_of(count) / self._ranks.total
        score = (y - self.mean()) * (2 * reached - 1) - self.scale * self._crps_terms[count]
        return np.asarray(np.maximum(score, 0.0))

    @cached_property
    def _squared_steps(self) -> tuple[FloatArray, FloatArray]:
        """Return integrals of the squared step cdf below each member, and of its squared complement above."""
        cdf, gap = self._ranks.cumulative[:-1] / self._ranks.total, np.diff(self.members)
        below, above = cdf**2 * gap, (1 - cdf) ** 2 * gap
        return np.append(0.0, np.cumsum(below)), np.append(np.cumsum(above[::-1])[::-1], 0.0)

    def _squared_integrals(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        count, k = count_reached(self.members, self.loc, self.scale, y), self.members.size
        last, following = np.maximum(count, 1) - 1, np.minimum(count, k - 1)
        cdf = self._ranks.weight_of(count) / self._ranks.total
        below, above = self._squared_steps
        with np.errstate(invalid="ignore"):  # The product may be 0 times infinity.
            after = cdf**2 * (y - (self.loc + self.scale * self.members[last]))
            before = (1 - cdf) ** 2 * (self.loc + self.scale * self.members[following] - y)
        return (
            np.where(count > 0, self.scale * below[last] + after, 0.0),
            np.where(count < k, self.scale * above[following] + before, 0.0),
        )

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return np.asarray(self._crps(y) + self.scale * self._crps_terms[0])

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        n, k = len(self), self.members.size
        if self.weights is None:
            draws = self.members[rng.randint(k, size=(n, m))]
        else:
            draws = np.minimum(
                self._ranks.quantile(rng.uniform(size=(n, m)) * self._ranks.total), self.members[-1]
            )
        draws *= self.scale[:, np.newaxis]
        draws += self.loc[:, np.newaxis]
        return draws

    def _standard_form(self) -> tuple[FloatArray, FloatArray, Distribution]:
        return self.loc, self.scale, SharedEmpirical(0.0, 1.0, self.members, self.weights)

    def _level_breaks(self) -> FloatArray:
        return self._ranks.cumulative[:-1] / self._ranks.total

    def _listed_atoms(self) -> Atoms:
        for member, share in zip(self.members, self._share, strict=True):
            yield self.loc + self.scale * member, np.full(len(self), share)

    def _landmarks(self) -> FloatArray:
        members = self.members
        if members.size > MOST_LANDMARKS:
            members = members[np.linspace(0, members.size - 1, MOST_LANDMARKS).astype(int)]
        return self.loc[:, np.newaxis] + self.scale[:, np.newaxis] * members

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        loc, scale = shift + factor * self.loc, np.abs(factor) * self.scale
        if (factor >= 0).all():
            return SharedEmpirical(loc, scale, self.members, self.weights)
        if (factor <= 0).all():
            return SharedEmpirical(loc, scale, -self.members, self.weights)
        return None


def read_sample(
    values: ArrayLike, name: str, weights: ArrayLike | None
) -> tuple[FloatArray, FloatArray | None]:
    """Return a checked sample of shape (k,) and its weights."""
    sample = check_finite(as_float_array(values, name), name)
    if sample.ndim != 1 or sample.size == 0:
        raise ValueError(f"`{name}` must have shape (k,) with k >= 1, got {sample.shape}.")
    if weights is None:
        return sample, None
    weight = check_non_negative(check_finite(as_float_array(weights, "weights"), "weights"), "weights")
    if weight.shape != sample.shape:
        raise ValueError(
            f"`weights` must have shape {sample.shape}, one per value of `{name}`, got {weight.shape}."
        )
    if not weight.sum() > 0:
        raise ValueError("`weights` must have a positive sum, got only zeros.")
    return sample, weight
