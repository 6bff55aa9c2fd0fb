"""The central noun: n independent univariate predictive distributions, row i for sample i."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    as_float_array,
    check_coverage,
    check_integer,
    check_no_nan,
    check_probabilities,
    check_random_state,
    check_rows,
)
from skuq.distributions._numerics.cdf_quadrature import quantile_landmarks, value_crps, value_moments
from skuq.distributions._numerics.level_quadrature import level_crps, level_moments
from skuq.distributions._numerics.levels import smaller_tail
from skuq.distributions._row_container import RowContainer
from skuq.distributions._unreachable_levels import LevelKind, UnreachableLevel, warn_of_unreachable_level
from skuq.exceptions import NoDecompositionError, NoDensityError

NO_MEAN = (
    "the distribution must have a mean, but at row {row} both of its tails are too heavy; use quantiles."
)


class Distribution(RowContainer["Distribution"]):
    """n independent univariate predictive distributions; row i belongs to sample i.

    What `~skuq.prediction.predict_dist` returns and every metric and recalibrator takes. The public methods
    here check their input once and call the hooks (leading underscore) that a family writes.

    A distribution is immutable, and array-like enough for scikit-learn to carry it between the
    steps of a Pipeline: it has a ``shape`` of (n, 2), rows can be selected, and ``np.asarray``
    gives the columns mean and standard deviation. Arithmetic on it raises, because it would act
    on those two columns.

    See Also
    --------
    Normal : The family most regressors return.
    skuq.prediction.predict_dist : Get a distribution from a fitted estimator.

    Notes
    -----
    To add a family, write ``_rows``, ``_take``, ``_cdf``, ``_ppf`` and, where a closed form
    exists, the other hooks; the defaults integrate numerically.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> dist = Normal(loc=[0.0, 10.0], scale=[1.0, 2.0])
    >>> dist.interval(0.9).round(3)
    array([[-1.645,  1.645],
           [ 6.71 , 13.29 ]])
    >>> dist[1]
    Normal(n=1)
    """

    # ------------------------------------------------------------------ what a family writes

    @abstractmethod
    def _cdf(self, y: FloatArray) -> FloatArray:
        """P(Y <= y), y of shape (n,)."""

    @abstractmethod
    def _ppf(self, p: FloatArray) -> FloatArray:
        """Smallest y with cdf(y) >= p, p a 0-d array or of shape (n,)."""

    # ------------------------------------------- hooks with defaults, for where no closed form is

    def _sf(self, y: FloatArray) -> FloatArray:
        """P(Y > y); overridden where the upper tail can be had without cancellation."""
        return 1.0 - self._cdf(y)

    def _isf(self, q: FloatArray) -> FloatArray:
        """Quantile at level 1 - q; overridden where the upper tail can be had exactly."""
        return self._ppf(np.minimum(1.0 - q, 1.0 - 2.0**-53))

    def _normal_score(self, y: FloatArray) -> FloatArray:
        """Phi^{-1}(F(y)); overridden where a closed form goes beyond the levels that a float can hold."""
        lower, upper = self._cdf(y), self._sf(y)
        return np.where(lower < upper, ndtri(lower), -ndtri(upper))

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        """Quantile at level Phi(score), score a 0-d array or of shape (n,); the inverse of the above."""
        tail = smaller_tail(score)
        if (score > 0).all():
            return self._isf(tail)
        if (score <= 0).all():
            return self._ppf(tail)
        return np.where(score > 0, self._isf(tail), self._ppf(tail))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        raise NoDensityError(self._no_density())

    def _crps(self, y: FloatArray) -> FloatArray:
        finite = self._finite_part()
        if finite is not self:
            return finite._crps(y)
        return value_crps(self, y) if self._integrates_values else level_crps(self, y)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation where there is no closed form."""
        finite = self._finite_part()
        if finite is not self:
            return finite.mean(), finite.std()
        mean, std = value_moments(self) if self._integrates_values else level_moments(self)
        if np.isnan(mean).any():
            row = int(np.argmax(np.isnan(mean)))
            raise ValueError(NO_MEAN.format(row=row))
        return mean, std

    @cached_property
    def _mean_and_std(self) -> tuple[FloatArray, FloatArray]:
        """What `mean` and `std` copy: one integration gives both."""
        return self._moments()

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        finite = self._finite_part()
        if finite is not self:
            return finite._sample(m, rng)
        n = len(self)
        out = np.empty((m, n))
        for row in out:
            row[:] = self._ppf(rng.uniform(size=n))
        return out.T

    def _standard_form(self) -> tuple[FloatArray, FloatArray, Distribution] | None:
        """(loc, scale, one-row standard) where row i is loc_i + scale_i Z with one common Z."""
        return None

    def _leaves(self) -> list[tuple[Any, Distribution]]:
        """Weights, each a number or of shape (n,), and distributions that this one is the mixture of."""
        return [(1.0, self)]

    def _level_breaks(self) -> FloatArray:
        """Levels, the same for all rows, between which the quantile function is smooth."""
        return np.empty(0)

    def _finite_part(self) -> Distribution:
        """The distribution that moments, CRPS and samples are taken from.

        Itself, but for conformal ones and what is built on them: a part of their probability has no
        place, and makes quantiles infinite.
        """
        return self

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        """What calibration rows lack for levels strictly inside (0, 1), if they lack any."""
        return None

    @property
    def _light_tails(self) -> bool:
        """Whether the tails are exponential or lighter, so that no scaling of them endangers a moment."""
        return False

    @property
    def _integrates_values(self) -> bool:
        """Whether integrals run over values of y: the cdf is cheap, but quantiles are a search."""
        return False

    def _landmarks(self) -> FloatArray:
        """Points of each row, shape (n, k), between which the cdf is smooth."""
        return quantile_landmarks(self, self._level_breaks())

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        """Distribution of shift + factor Y in closed form, or None; both of shape (n,)."""
        return None

    @classmethod
    def _merge(cls, parts: Sequence[Any]) -> Distribution | None:
        """One distribution of this family that stacks the rows of ``parts``, or None."""
        return None

    # --------------------------------------------------------------------------- moments

    def mean(self) -> FloatArray:
        """Return the mean of each row, shape (n,), in the units of y.

        Returns
        -------
        mean : ndarray of shape (n,)
            In closed form where the family has one, else by integrating the quantile function.
        """
        return self._mean_and_std[0].copy()

    def std(self) -> FloatArray:
        """Return the standard deviation of each row, shape (n,), in the units of y.

        Returns
        -------
        std : ndarray of shape (n,)
            Infinite where the second moment is.
        """
        return self._mean_and_std[1].copy()

    def var(self) -> FloatArray:
        """Return the variance of each row, shape (n,), in squared units of y.

        Returns
        -------
        var : ndarray of shape (n,)
            The square of `std`; infinite where it overflows.
        """
        with np.errstate(over="ignore"):
            return np.square(self.std())

    def median(self) -> FloatArray:
        """Return the median of each row, shape (n,), in the units of y.

        Returns
        -------
        median : ndarray of shape (n,)
            The quantile at level 0.5.
        """
        return self._ppf(np.asarray(0.5))

    # ------------------------------------------------------------------ probabilities, levels

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Return P(Y <= y), the probability of a value not above ``y``.

        Parameters
        ----------
        y : float or array-like of shape (n,)
            In the units of the target; infinities are allowed. One number is compared with
            every row.

        Returns
        -------
        probability : ndarray of shape (n,)
            In [0, 1], with full relative precision in the lower tail.
        """
        return self._cdf(self._check_y(y))

    def pit(self, y: ArrayLike) -> FloatArray:
        """Return the probability integral transform of observations: the cdf at them.

        On an atom this is the upper end of the levels that the atom takes up, over which metrics and
        recalibrators spread such an observation.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observed values, in the units of the target.

        Returns
        -------
        pit : ndarray of shape (n,)
            In [0, 1]; uniform where the distribution is continuous and calibrated.
        """
        return self.cdf(y)

    @property
    def has_density(self) -> bool:
        """Whether every row has a density; False for atoms, where `logpdf` raises."""
        return False

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Return the logarithm of the density at ``y``.

        Parameters
        ----------
        y : float or array-like of shape (n,)
            In the units of the target.

        Returns
        -------
        logpdf : ndarray of shape (n,)
            Natural logarithm of a density per unit of y; minus infinity where the density is 0.

        Raises
        ------
        NoDensityError
            If a row has atoms (`has_density` is False).
        """
        values = self._check_y(y)
        if not self.has_density:
            raise NoDensityError(self._no_density())
        return self._logpdf(values)

    def pdf(self, y: ArrayLike) -> FloatArray:
        """Return the density at ``y``.

        Parameters
        ----------
        y : float or array-like of shape (n,)
            In the units of the target.

        Returns
        -------
        pdf : ndarray of shape (n,)
            Non-negative, per unit of y.
        """
        log_density = self.logpdf(y)
        return np.exp(log_density, out=log_density)

    def ppf(self, p: ArrayLike) -> FloatArray:
        """Return the quantile of row i at level ``p[i]`` (elementwise; the inverse of `cdf`).

        Parameters
        ----------
        p : float or array-like of shape (n,)
            Levels in [0, 1], one a row. To get several levels for every row, use `quantile`.

        Returns
        -------
        y : ndarray of shape (n,)
            In the units of the target; levels 0 and 1 give the ends of the support.
        """
        levels = check_probabilities(p, "p")
        if levels.ndim:
            check_rows(levels, "p", len(self))
        warn_of_unreachable_level(self._unreachable_level(levels, "row" if levels.ndim else "level"))
        return self._ppf(levels)

    def quantile(self, levels: ArrayLike) -> FloatArray:
        """Return the quantiles of every row at the given levels.

        Parameters
        ----------
        levels : float or array-like of shape (k,)
            Levels in [0, 1], the same for all rows.

        Returns
        -------
        quantiles : ndarray of shape (n,) for one level, (n, k) for k levels
            In the units of the target.
        """
        checked = check_probabilities(levels, "levels")
        if checked.ndim > 1 or checked.size == 0:
            raise ValueError(
                f"`levels` must be a number or a non-empty 1-D array, got shape {checked.shape}."
            )
        warn_of_unreachable_level(self._unreachable_level(checked, "level"))
        if checked.ndim == 0:
            return self._ppf(checked)
        out = np.empty((checked.size, len(self)))
        for row, level in zip(out, checked, strict=True):
            row[:] = self._ppf(level)
        return out.T

    def interval(self, coverage: ArrayLike = DEFAULT_COVERAGE) -> FloatArray:
        """Return central prediction intervals: equal probability below and above.

        Parameters
        ----------
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n, 2) for one coverage, (n, 2, k) for k coverages
            ``bounds[:, 0]`` is always the lower bound, in the units of the target.
        """
        checked = check_coverage(coverage)
        warn_of_unreachable_level(self._unreachable_level(checked, "coverage"))
        tails = (1.0 - np.atleast_1d(checked)) / 2.0
        out = np.empty((tails.size, 2, len(self)))
        for bounds, tail in zip(out, tails, strict=True):
            self._interval(tail, bounds)
        return out[0].T if checked.ndim == 0 else out.transpose(2, 1, 0)

    def _interval(self, tail: FloatArray, out: FloatArray) -> None:
        """Write the quantiles at ``tail`` and ``1 - tail`` into the two rows of ``out``."""
        out[0] = self._ppf(tail)
        out[1] = self._isf(tail)

    def crps(self, y: ArrayLike) -> FloatArray:
        """Return the continuous ranked probability score of each row.

        Parameters
        ----------
        y : float or array-like of shape (n,)
            Observed values, in the units of the target.

        Returns
        -------
        crps : ndarray of shape (n,)
            Non-negative, in the units of y; lower is better; ``|y - loc|`` for a point mass.
        """
        values = self._check_y(y)
        infinite = np.isinf(values)
        if infinite.any():
            return np.where(infinite, np.inf, self._crps(np.where(infinite, 0.0, values)))
        return self._crps(values)

    def sample(self, m: int, random_state: int | np.random.RandomState | None = None) -> FloatArray:
        """Draw independent samples from every row.

        Parameters
        ----------
        m : int
            Number of draws a row.
        random_state : int, RandomState instance or None, default=None
            Source of randomness; an integer gives the same draws every time.

        Returns
        -------
        samples : ndarray of shape (n, m)
            In the units of the target.
        """
        return self._sample(check_integer(m, "m"), check_random_state(random_state))

    # ----------------------------------------------------------------------- decomposition

    def epistemic(self) -> Distribution:
        """Return the distribution of the regression function f(x), without the noise.

        Returns
        -------
        dist : Distribution
            Its intervals are confidence intervals, where `interval` gives prediction intervals.

        Raises
        ------
        NoDecompositionError
            If the model does not separate the two parts.
        """
        raise NoDecompositionError(self._no_decomposition())

    def aleatoric(self) -> Distribution:
        """Return the distribution of the noise y - f(x), centred at zero.

        Returns
        -------
        dist : Distribution
            The part of the uncertainty that more training data would not remove.

        Raises
        ------
        NoDecompositionError
            If the model does not separate the two parts.
        """
        raise NoDecompositionError(self._no_decomposition())

    # ----------------------------------------------------------------------------- helpers

    def _set(self, **values: Any) -> Self:
        """Write fields of a frozen dataclass from its ``__post_init__``."""
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
        return self

    def _check_y(self, y: ArrayLike) -> FloatArray:
        values = check_no_nan(as_float_array(y, "y"), "y")
        if values.ndim == 0:
            return np.broadcast_to(values, (len(self),))
        return check_rows(values, "y", len(self))

    def _no_density(self) -> str:
        return (
            f"this {type(self).__name__} with atoms (point masses, tied values) has no density, so `pdf`, "
            "`logpdf` and the log score are undefined. Use `crps`, which always exists, or a family with "
            "a density."
        )

    def _no_decomposition(self) -> str:
        return (
            f"this {type(self).__name__} does not separate epistemic from aleatoric uncertainty. Models that "
            "do: LeastSquaresRegressor, BootstrapRegressor, ForestDistributionRegressor, "
            "GaussianProcessRegressor; a recalibrated or non-affinely transformed distribution no longer "
            "does."
        )
