"""Abstract base class of predictive distributions. A distribution has one row per sample."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import Polynomial

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_coverage,
    check_integer,
    check_probabilities,
    check_random_state,
    check_rows,
    check_support,
)
from skuq.distributions._discrete import log_masses
from skuq.distributions._expectation import mean_distance, moments
from skuq.distributions._family import NO_DENSITY, Family
from skuq.distributions._level_quadrature import (
    LevelKind,
    UnreachableLevel,
    inverse_samples,
    level_crps,
    warn_of_unreachable_level,
)
from skuq.distributions._row_container import RowContainer, check_univariate
from skuq.distributions._value_quadrature import (
    UNIFORM,
    ValueRule,
    quantile_landmarks,
    tail_table,
    value_crps,
)
from skuq.exceptions import NoDecompositionError, NoDensityError

NO_MEAN = "the distribution must have a mean, but its tails are too heavy at row {row}. Use quantiles."

NO_DECOMPOSITION = (
    "this {kind} does not separate epistemic from aleatoric uncertainty. Use a model that separates them: "
    "LeastSquaresRegressor, BootstrapRegressor, ForestDistributionRegressor or GaussianProcessRegressor. "
    "The separation is lost if a distribution is recalibrated, or transformed by a function that is not "
    "affine."
)


class Distribution(RowContainer["Distribution"], Family):
    """Independent univariate predictive distributions, one row per sample.

    `~skuq.prediction.predict_dist` returns a Distribution, and every metric and recalibrator accepts one. The
    public methods validate their arguments and call private methods (hooks) that each family implements.

    A Distribution is immutable. It has the shape (n, 2) and supports row selection, so that scikit-learn can
    pass it between the steps of a Pipeline. ``np.asarray`` returns two columns, mean and standard deviation.
    Arithmetic on a Distribution raises an error, because it would act on these two columns.

    See Also
    --------
    Normal : The family that most regressors return.
    skuq.prediction.predict_dist : Get a distribution from a fitted estimator.

    Notes
    -----
    To add a family, write a dataclass, name its fields with one row per sample in ``_PER_ROW``, and implement
    ``_cdf`` and ``_ppf``. Override the other hooks if a closed form exists. By default, they integrate
    numerically.

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

    _supported: ClassVar[Callable[..., Distribution]]  # The subclass `Supported`.
    _rows_at_once: ClassVar[int] = 1024  # Integrals over values have tables of this number of rows.

    # ------------------------------------------------------------------ hooks that a family implements

    def _logpmf(self, y: FloatArray) -> FloatArray:
        """Return log P(Y = y) for families without a density. It is minus infinity if y is not an atom."""
        return log_masses(self, y)

    def _of_parts(self, version: Callable[[Any], Any]) -> Any:
        """Return the distribution with another version of its parts, or itself if they do not change."""
        changes: dict[str, Any] = {}
        # A subclass without parts need not be a dataclass.
        named = self._parameters() if hasattr(self, "__dataclass_fields__") else {}
        for name, value in named.items():
            parts = value if isinstance(value, tuple) else (value,)
            if parts and isinstance(parts[0], Distribution):
                others = tuple(map(version, parts))
                if any(other is not part for other, part in zip(others, parts, strict=True)):
                    changes[name] = others if isinstance(value, tuple) else others[0]
        return self._with(**changes) if changes else self

    def _finite_part(self) -> Distribution:
        """Return the distribution without mass at infinity."""
        finite: Distribution = self._of_parts(lambda part: part._finite_part())
        return finite

    @property
    def _integrable(self) -> Any:
        """Return the distribution for integrals, whose parts may be winsorized. See `Transformed`."""
        return self._of_parts(lambda part: part._integrable)

    def _crps(self, y: FloatArray) -> FloatArray:
        return self._weighted_crps(y, UNIFORM)

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        finite = self._finite_part()
        if finite is not self:
            return finite._weighted_crps(y, weight)
        return value_crps(self, y, weight) if self._integrates_values else level_crps(self, y, weight)

    def _squared_integrals(self, y: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return the integrals of F^2 below y and (1 - F)^2 above y, or None without a closed form."""
        return None

    def _clip(self, lower: FloatArray, upper: FloatArray, integer: bool) -> Distribution:
        return self._supported(self, lower, upper, integer)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        """Return E|Y - y|. Override this method if a closed form exists."""
        finite = self._finite_part()
        if finite is not self:
            return finite._mean_distance(y)
        return mean_distance(self, y)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        finite = self._finite_part()
        if finite is not self:
            return finite.mean(), finite.std()
        return moments(self)

    @cached_property
    def _mean_and_std(self) -> tuple[FloatArray, FloatArray]:
        mean, std = self._moments()
        if np.isnan(mean).any():
            raise ValueError(NO_MEAN.format(row=int(np.argmax(np.isnan(mean)))))
        return mean, std

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        finite = self._finite_part()
        if finite is not self:
            return finite._sample(m, rng)
        return inverse_samples(self, m, rng)

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        return None

    def _landmarks(self) -> FloatArray:
        """Return points of each row, shape (n, k). Between two of these points, the cdf is smooth."""
        return quantile_landmarks(self, self._level_breaks())

    def _tail_table(self, x: FloatArray) -> FloatArray:
        """Return P(Y <= x) in the first half of the k columns of x and P(Y > x) in the others."""
        return tail_table(self, x)

    def _value_rule(self, *points: FloatArray) -> ValueRule:
        """Return a rule for integrals over y whose panels end at the points, each of shape (n,)."""
        return ValueRule(self, *points)

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        return None

    # --------------------------------------------------------------------------- moments

    def mean(self) -> FloatArray:
        """Return the mean of each row, shape (n,), in the units of y.

        Returns
        -------
        mean : ndarray of shape (n,)
            Closed form of the family, or the integral of the quantile function if there is none.
        """
        return self._mean_and_std[0].copy()

    def std(self) -> FloatArray:
        """Return the standard deviation of each row, shape (n,), in the units of y.

        Returns
        -------
        std : ndarray of shape (n,)
            Infinite if the second moment is infinite.
        """
        return self._mean_and_std[1].copy()

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
        """Return the probability P(Y <= y) of each row.

        Parameters
        ----------
        y : float or array-like of shape (n,)
            Values in the units of the target. They may be infinite. A single number is used for every row.

        Returns
        -------
        probability : ndarray of shape (n,)
            Values in [0, 1]. Small values have full relative precision.
        """
        return self._cdf(self._check_y(y))

    def sf(self, y: ArrayLike) -> FloatArray:
        """Return the probability P(Y > y) of each row. This is the survival function, 1 - `cdf`.

        Parameters
        ----------
        y : float or array-like of shape (n,)
            Values in the units of the target. They may be infinite. A single number is used for every row.

        Returns
        -------
        probability : ndarray of shape (n,)
            Values in [0, 1]. Small values are more precise than ``1 - dist.cdf(y)``.
        """
        return self._sf(self._check_y(y))

    def pit(self, y: ArrayLike) -> FloatArray:
        """Return the probability integral transform of the observations, F(y).

        At an atom (point mass), F jumps, and this method returns the upper end of the jump. Metrics and
        recalibrators do not use the upper end. They use a uniform distribution over the values between both
        ends of the jump.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observed values, in the units of the target.

        Returns
        -------
        pit : ndarray of shape (n,)
            Values in [0, 1], uniformly distributed if the forecast is continuous and calibrated.
        """
        return self.cdf(y)

    def logpmf(self, y: ArrayLike) -> FloatArray:
        """Return the logarithm of the probability P(Y = y).

        Parameters
        ----------
        y : float or array-like of shape (n,)
            Values in the units of the target.

        Returns
        -------
        logpmf : ndarray of shape (n,)
            Natural logarithm of the probability of y. Minus infinity if y is not an atom.
        """
        values = self._check_y(y)
        return np.full(len(self), -np.inf) if self.has_density else self._logpmf(values)

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Return the logarithm of the density at ``y``.

        Parameters
        ----------
        y : float or array-like of shape (n,)
            Values in the units of the target.

        Returns
        -------
        logpdf : ndarray of shape (n,)
            Natural logarithm of the density per unit of y. Minus infinity if the density is 0.

        Raises
        ------
        NoDensityError
            If a row has atoms (`has_density` is False).
        """
        values = self._check_y(y)
        if not self.has_density:
            raise NoDensityError(NO_DENSITY.format(kind=type(self).__name__))
        return self._logpdf(values)

    def pdf(self, y: ArrayLike) -> FloatArray:
        """Return the density at ``y``.

        Parameters
        ----------
        y : float or array-like of shape (n,)
            Values in the units of the target.

        Returns
        -------
        pdf : ndarray of shape (n,)
            Non-negative density per unit of y.
        """
        log_density = self.logpdf(y)
        return np.exp(log_density, out=log_density)

    def ppf(self, p: ArrayLike) -> FloatArray:
        """Return the quantile of each row at its own level. This is the inverse of `cdf`.

        Parameters
        ----------
        p : float or array-like of shape (n,)
            Levels in [0, 1], one per row. Use `quantile` for several levels per row.

        Returns
        -------
        y : ndarray of shape (n,)
            Values in the units of the target. The levels 0 and 1 give the ends of the support.
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
            Values in the units of the target.
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
        """Return central prediction intervals: the probabilities below and above the interval are equal.

        Parameters
        ----------
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n, 2) for one coverage, (n, 2, k) for k coverages
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the target.
        """
        checked = check_coverage(coverage)
        warn_of_unreachable_level(self._unreachable_level(checked, "coverage"))
        tails = (1.0 - np.atleast_1d(checked)) / 2.0
        out = np.empty((tails.size, 2, len(self)))
        for bounds, tail in zip(out, tails, strict=True):
            self._interval(tail, bounds)
        return out[0].T if checked.ndim == 0 else out.transpose(2, 1, 0)

    def _interval(self, tail: FloatArray, out: FloatArray) -> None:
        """Write the quantiles at the levels ``tail`` and ``1 - tail`` to the two rows of ``out``."""
        out[0] = self._ppf(tail)
        out[1] = self._isf(tail)

    def crps(self, y: ArrayLike) -> FloatArray:
        """Return the continuous ranked probability score of each row.

        The smaller the better, minimum is zero.

        Parameters
        ----------
        y : float or array-like of shape (n,)
            Observed values, in the units of the target.

        Returns
        -------
        crps : ndarray of shape (n,)
            Scores in the units of y. The score of a point mass at ``loc`` is ``|y - loc|``.
        """
        values = self._check_y(y)
        infinite = np.isinf(values)
        if infinite.any():
            return np.where(infinite, np.inf, self._crps(np.where(infinite, 0.0, values)))
        return self._crps(values)

    def clip(
        self, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf, integer: bool = False
    ) -> Distribution:
        """Return the distribution of ``np.clip(Y, lower, upper)``, with atoms at the bounds.

        Parameters
        ----------
        lower, upper : float or array-like of shape (n,), default=-inf, inf
            Bounds in the units of the target, for all rows or one per row. ``lower`` must be less than
            ``upper``.
        integer : bool, default=False
            Whether Y is also rounded to the nearest integer. Finite bounds must then be integers.

        Returns
        -------
        dist : Supported
            Clipped distribution. For an `Empirical`, the result is an `Empirical` of the clipped members.
        """
        low, high, whole = check_support(lower, upper, len(self), integer)
        return self if not whole and np.isinf([low, high]).all() else self._clip(low, high, whole)

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
        samples : ndarray of shape (n, m)
            Values in the units of the target.
        """
        return self._sample(check_integer(m, "m"), check_random_state(random_state))

    # ----------------------------------------------------------------------- decomposition

    def epistemic(self) -> Distribution:
        """Return the distribution of the regression function f(x), without the noise.

        Returns
        -------
        dist : Distribution
            Distribution of f(x). Its intervals are confidence intervals of f(x), not prediction intervals of
            y.

        Raises
        ------
        NoDecompositionError
            If the model does not separate epistemic and aleatoric uncertainty.
        """
        raise NoDecompositionError(NO_DECOMPOSITION.format(kind=type(self).__name__))

    def aleatoric(self) -> Distribution:
        """Return the distribution of the noise y - f(x), centered at zero.

        Returns
        -------
        dist : Distribution
            Distribution of the noise. More training data would not reduce the noise.

        Raises
        ------
        NoDecompositionError
            If the model does not separate epistemic and aleatoric uncertainty.
        """
        raise NoDecompositionError(NO_DECOMPOSITION.format(kind=type(self).__name__))


def check_distribution(value: Any, name: str) -> None:
    check_univariate(value, name)
    if not isinstance(value, Distribution):
        raise TypeError(
            f"`{name}` must be a Distribution, got {type(value).__name__}. Pass the result of "
            "`predict_dist`, or convert a frozen scipy distribution by `as_distribution`."
        )
