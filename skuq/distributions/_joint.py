"""Abstract base class of joint distributions of several targets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    as_float_array,
    check_finite,
    check_integer,
    check_no_nan,
    check_random_state,
    check_single_coverage,
)
from skuq.distributions._affine import affine
from skuq.distributions._base import Distribution
from skuq.distributions._joint_points import (
    NO_JOINT_DENSITY,
    JointPoints,
    check_names,
    check_targets,
    check_values,
    find_target,
    weighted_means,
)
from skuq.distributions._normal import Normal
from skuq.distributions._pit import randomized_scores
from skuq.exceptions import NoDensityError


class JointDistribution(JointPoints["JointDistribution"]):
    """Joint predictive distributions of d targets, one row per sample.

    The targets of a row may depend on each other, and the rows are independent. A JointDistribution is not a
    `Distribution`. Functions for one target do not accept it: select a target with `marginal`, or a weighted
    sum of the targets with `linear`. ``np.asarray`` returns the means, shape (n, d). Rows are selected with
    ``dist[rows]``.

    See Also
    --------
    skuq.multivariate.CopulaJoint : Univariate distributions of any family with a common dependence.
    skuq.multivariate.NormalJoint : Multivariate normal distributions.
    skuq.multivariate.EmpiricalJoint : Members of an ensemble of vectors.

    Notes
    -----
    `linear`, `apply` and `probability` evaluate K points per row: the ranks stored in a
    `~skuq.multivariate.CopulaJoint` (see `~skuq.multivariate.rank_template`), the members of an
    `~skuq.multivariate.EmpiricalJoint`, or 1024 points of a Sobol sequence for a
    `~skuq.multivariate.NormalJoint`. The points do not depend on random numbers. They are computed in blocks
    of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.multivariate import NormalJoint
    >>> dist = NormalJoint([[1.0, 2.0]], [[1.0, 0.8], [0.8, 1.0]], names=["load", "price"])
    >>> dist.marginal("load")
    Normal(n=1)
    >>> dist.linear([1.0, 1.0]).std().round(4)  # sqrt(1 + 1 + 2 * 0.8)
    array([1.8974])
    """

    names: tuple[str, ...] | None
    _several_targets: ClassVar[bool] = True
    _COLUMNS: ClassVar[str] = "means"
    _SELECTION: ClassVar[str] = 'Select a target with dist.marginal("name") and rows with dist[rows]'

    # ------------------------------------------------------------------ rows and columns

    @abstractmethod
    def marginals(self) -> tuple[Distribution, ...]:
        """Return the univariate distributions of the targets.

        Returns
        -------
        marginals : tuple of d Distributions
            Distributions of n rows each.
        """

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, d) of the array ``np.asarray(dist)``, which contains one column of means per target."""
        return (len(self), self._target_count())

    def _to_columns(self) -> FloatArray:
        return self.mean()

    def __repr__(self) -> str:
        n, d = self.shape
        return f"{type(self).__name__}(n={n}, d={d})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._parameters()), ()

    def marginal(self, target: str | int) -> Distribution:
        """Return the univariate distribution of one target.

        Parameters
        ----------
        target : str or int
            Name of the target, if the distribution has names, or its column.

        Returns
        -------
        dist : Distribution
            Distribution of n rows.
        """
        return self.marginals()[self._find(target)]

    def _find(self, target: str | int) -> int:
        return find_target(target, self.names, self.shape[1])

    # ------------------------------------------------------------------ moments

    def mean(self) -> FloatArray:
        """Return the mean of each target.

        Returns
        -------
        mean : ndarray of shape (n, d)
            Means of the marginals, in the units of the targets.
        """
        return np.column_stack([marginal.mean() for marginal in self.marginals()])

    def std(self) -> FloatArray:
        """Return the standard deviation of each target.

        Returns
        -------
        std : ndarray of shape (n, d)
            Standard deviations of the marginals, in the units of the targets.
        """
        return np.column_stack([marginal.std() for marginal in self.marginals()])

    def corr(self) -> FloatArray:
        """Return the correlation matrix of each row.

        Returns
        -------
        correlation : ndarray of shape (n, d, d)
            Pearson correlations. The correlation with a target of standard deviation 0 is 0.
        """
        return self._corr()

    def cov(self) -> FloatArray:
        """Return the covariance matrix of each row.

        Returns
        -------
        covariance : ndarray of shape (n, d, d)
            Covariances, in products of the units of the targets.

        Raises
        ------
        ValueError
            If a standard deviation is infinite.
        """
        std = check_finite(self.std(), "std of the marginals")
        return np.asarray(std[:, :, np.newaxis] * self._corr() * std[:, np.newaxis, :])

    # ------------------------------------------------------------------ probabilities

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Return the probability that all targets are at most ``y``.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Values in the units of the targets. If the value of a target is inf, the target is not restricted.

        Returns
        -------
        probability : ndarray of shape (n,)
            P(Y_1 <= y_1, ..., Y_d <= y_d) for each row.
        """
        return self._cdf(check_no_nan(self._check_y(y), "y"))

    def pit(self, y: ArrayLike, random_state: int | np.random.RandomState | None = 0) -> FloatArray:
        """Return the probability integral transform of the observations of each target.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Observed values, in the units of the targets.
        random_state : int, RandomState instance or None, default=0
            Source of randomness for targets that equal an atom of their marginal. The PIT of such a target is
            drawn from the jump of the cdf.

        Returns
        -------
        pit : ndarray of shape (n, d)
            Values in [0, 1]. Each column is uniformly distributed if the marginals are calibrated. The
            columns have the same dependence as the targets given the features.
        """
        values, rng = check_finite(self._check_y(y), "y"), check_random_state(random_state)
        pairs = zip(self.marginals(), values.T, strict=True)
        return np.asarray(
            ndtr(np.column_stack([randomized_scores(part, column, rng) for part, column in pairs]))
        )

    @property
    def has_density(self) -> bool:
        """True if every row has a joint density. If False, `logpdf` raises an error."""
        return False

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Return the logarithm of the joint density at ``y``.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Values in the units of the targets.

        Returns
        -------
        logpdf : ndarray of shape (n,)
            Natural logarithm of the density. Minus infinity if the density is 0.

        Raises
        ------
        NoDensityError
            If the distribution has no joint density (`has_density` is False).
        """
        values = check_finite(self._check_y(y), "y")
        if not self.has_density:
            raise NoDensityError(NO_JOINT_DENSITY.format(kind=type(self).__name__))
        return self._logpdf(values)

    def probability(self, event: Callable[[FloatArray], Any]) -> FloatArray:
        """Return the probability of an event that depends on several targets.

        Parameters
        ----------
        event : callable
            Vectorized function that maps points of shape (..., d) to booleans of shape (...).

        Returns
        -------
        probability : ndarray of shape (n,)
            For each row, the sum of the weights of the points for which the event is true.

        Examples
        --------
        >>> from skuq.multivariate import NormalJoint
        >>> dist = NormalJoint([[0.0, 0.0]], [[1.0, 0.5], [0.5, 1.0]])
        >>> dist.probability(lambda y: (y > 0).all(axis=-1)).round(2)  # 1/4 + arcsin(0.5) / (2 pi) is 0.333
        array([0.34])
        """
        out = np.empty(len(self))
        for rows, points, weights in self._blocks():
            hits = check_values(event(points), points.shape[:2], "event", rows)
            out[rows] = weighted_means(hits != 0, weights)
        return np.clip(out, 0.0, 1.0)

    # ------------------------------------------------------------------ functions of the targets

    def linear(self, w: ArrayLike) -> Distribution:
        """Return the univariate distribution of a weighted sum of the targets, w'Y.

        Parameters
        ----------
        w : array-like of shape (d,)
            Weight of each target. Ones give the sum of the targets.

        Returns
        -------
        dist : Distribution
            For a `~skuq.multivariate.NormalJoint`, the result has a closed form. If a single weight is
            nonzero, the result is the rescaled marginal. Otherwise, it is an `Empirical` with K members per
            row. Its mean is exactly w'E(Y) if the means are finite.

        Notes
        -----
        The members require 8 n K bytes. The points are computed in blocks of rows.
        """
        weights = check_finite(as_float_array(w, "w"), "w")
        d = self.shape[1]
        if weights.shape != (d,):
            raise ValueError(f"`w` must have shape ({d},), one weight per target, got {weights.shape}.")
        used = np.flatnonzero(weights)
        if used.size == 0:
            return Normal(np.zeros(len(self)), 0.0)
        if used.size == 1:
            factor = float(weights[used[0]])
            marginal = self.marginals()[used[0]]
            return marginal if factor == 1.0 else affine(marginal, 0.0, factor)
        return self._linear(weights)

    def apply(self, func: Callable[[FloatArray], Any]) -> Distribution:
        """Return the univariate distribution of a function of the targets.

        Parameters
        ----------
        func : callable
            Vectorized function that maps points of shape (..., d) to numbers of shape (...).

        Returns
        -------
        dist : Empirical
            Values of the function at the K points of each row.

        Examples
        --------
        >>> from skuq.multivariate import EmpiricalJoint
        >>> dist = EmpiricalJoint([[[1.0, 4.0], [2.0, 3.0]]])
        >>> dist.apply(lambda y: y.max(axis=-1)).mean()
        array([3.5])
        """
        return self._apply(func)

    def condition(self, y: ArrayLike) -> JointDistribution:
        """Return the distribution of the unknown targets given the observed targets.

        A target that is always observed before the prediction should be a feature of the model instead.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Observed values, and NaN for each unknown target. All rows must have the same unknown targets. If
            the unknown targets differ between rows, call `condition` separately for each group of rows.

        Returns
        -------
        dist : JointDistribution
            Distribution of the unknown targets, in their order and with their names. A
            `~skuq.multivariate.NormalJoint` and a normal copula have closed forms. Otherwise, the points are
            weighted by a normal kernel in the normal scores of the observed targets.

        Warns
        -----
        SkuqWarning
            If an observed value is outside the support of its marginal. The nearest point of the support
            is then used.
        """
        values = self._check_y(y)
        unknown = np.isnan(values)
        check_finite(np.where(unknown, 0.0, values), "y")
        differs = (unknown != unknown[0]).any(axis=1)
        if differs.any():
            raise ValueError(
                "`y` must have NaN in the same columns in all rows, but row 0 and row "
                f"{int(np.argmax(differs))} differ. Call `condition` separately for each group of rows with "
                f"the same unknown targets."
            )
        pattern = unknown[0]
        if not pattern.any():
            raise ValueError("`y` must have NaN for at least one unknown target, got values for all targets.")
        if pattern.all():
            return self
        observed = np.flatnonzero(~pattern)
        return self._condition(values[:, observed], observed, np.flatnonzero(pattern))

    def interval(self, coverage: float = DEFAULT_COVERAGE, *, simultaneous: bool = False) -> FloatArray:
        """Return prediction intervals of the targets.

        Parameters
        ----------
        coverage : float, default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1.
        simultaneous : bool, default=False
            With False, each interval covers its target with the probability ``coverage``. With True, the
            intervals of a row cover all targets of the row with the probability ``coverage``. These intervals
            have a common marginal coverage, which is computed from the dependence.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d)
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the targets.
        """
        level = check_single_coverage(coverage)
        if not simultaneous:
            return np.stack([marginal.interval(level) for marginal in self.marginals()], axis=2)
        tail = (1.0 - self._box(level)) / 2.0
        bounds = [(marginal._ppf(tail), marginal._isf(tail)) for marginal in self.marginals()]
        return np.asarray(bounds).T

    def sample(self, m: int, random_state: int | np.random.RandomState | None = None) -> FloatArray:
        """Draw independent samples from every row.

        Parameters
        ----------
        m : int
            Number of draws per row.
        random_state : int, RandomState instance or None, default=None
            Source of randomness. An integer gives the same draws in each call.

        Returns
        -------
        samples : ndarray of shape (n, m, d)
            Values in the units of the targets.
        """
        return self._sample(check_integer(m, "m"), check_random_state(random_state))

    def _check_y(self, y: ArrayLike, name: str = "y") -> FloatArray:
        return check_targets(y, name, self.shape, self.names)

    def _read_names(self, names: Any, d: int) -> tuple[str, ...] | None:
        return check_names(names, d)

    def _label(self, target: int) -> str:
        return repr(self.names[target]) if self.names is not None else str(target)

    def _names_of(self, targets: IntArray) -> tuple[str, ...] | None:
        return None if self.names is None else tuple(self.names[j] for j in targets)
