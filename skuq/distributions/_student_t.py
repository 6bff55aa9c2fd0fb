"""The Student t family, and distributions of new errors for a scale that is estimated from few residuals.

If the scale of normal errors is estimated from n independent residuals, a new error divided by this scale has
a Student t distribution. Its degrees of freedom are n minus the number of fitted parameters. The predictive
distribution is an average of this Student t distribution and of the empirical distribution of the residuals.
The weight of the Student t distribution is constant (`PRIOR_ROWS` residuals), so its effect vanishes for
large n.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import betaincinv, betaln, gammaln, ndtri, stdtr, stdtrit

from skuq._numeric import smaller_tail
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import check_non_negative, check_positive
from skuq.distributions._base import Distribution
from skuq.distributions._level_map import LevelMap
from skuq.distributions._normal import (
    LOG_SQRT_2PI,
    noise_scale,
    read_epistemic_scale,
    read_rows,
    standardize,
    unstandardize,
)
from skuq.distributions._value_quadrature import symmetric_integrals

_NEAR_CAUCHY = 1e-4
"""If df differs from 1 by less than this value, the closed form of the CRPS loses more than four digits."""

_STIRLING = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336, -31 / 18432)
"""Coefficients of x^-1, x^-3, ... in log Gamma(x + 1/2) - log Gamma(x) - log(x) / 2."""


@dataclass(frozen=True, eq=False, repr=False)
class StudentT(Distribution):
    """Student t distributions, one per row, for scales that are estimated from few rows.

    Parameters
    ----------
    loc : float or array-like of shape (n,)
        Center (median) of each row, in the units of y.
    scale : float or array-like of shape (n,)
        Scale of each row, at least 0. A row with scale 0 is a point mass at ``loc``. The standard deviation
        is ``scale * sqrt(df / (df - 2))``.
    df : float or array-like of shape (n,)
        Degrees of freedom, above 0. The mean exists for df > 1. The standard deviation is infinite for
        df <= 2. Infinite degrees of freedom give the normal distribution.
    epistemic_scale : float or array-like of shape (n,), default=None
        Scale of the regression function f(x), at most ``scale``. The squared scale of the noise is ``scale **
        2 - epistemic_scale ** 2``. The methods `epistemic` and `aleatoric` require this argument. Both parts
        have the degrees of freedom ``df``.

    See Also
    --------
    Normal : Normal distributions: the limit for infinite degrees of freedom.

    Notes
    -----
    The CRPS has a closed form (Jordan, Krueger and Lerch 2019, appendix A,
    https://doi.org/10.18637/jss.v090.i12). By analytic continuation, the closed form is also valid for 1/2 <
    df < 1. Near df = 1, the closed form is 0 times infinity, so the CRPS is integrated numerically. The CRPS
    is infinite for df <= 1/2.

    Examples
    --------
    >>> from skuq.distributions import StudentT
    >>> dist = StudentT(0.0, 1.0, df=3)
    >>> dist.std().round(4)
    array([1.7321])
    >>> dist.interval(0.9).round(4)
    array([[-2.3534,  2.3534]])
    """

    loc: FloatArray
    scale: FloatArray
    df: FloatArray
    epistemic_scale: FloatArray | None

    _PER_ROW = ("loc", "scale", "df", "epistemic_scale")

    def __init__(
        self, loc: ArrayLike, scale: ArrayLike, df: ArrayLike, epistemic_scale: ArrayLike | None = None
    ) -> None:
        location, width, freedom = read_rows(may_be_infinite="df", loc=loc, scale=scale, df=df)
        check_positive(freedom, "df")
        check_non_negative(width, "scale")
        part = read_epistemic_scale(epistemic_scale, width)
        self._set(loc=location, scale=width, df=freedom, epistemic_scale=part)

    @cached_property
    def _point_mass(self) -> bool:
        return bool(self.scale.min() == 0)

    def _shared_df(self) -> FloatArray:
        return self.df[0] if self.df.min() == self.df.max() else self.df

    def mean(self) -> FloatArray:
        if self.df.min() <= 1:
            row = int(np.argmin(self.df))
            raise ValueError(
                f"a Student t distribution has a mean only for `df` above 1, got {self.df[row]:g} at row "
                f"{row}. Use `median` instead."
            )
        return self.loc.copy()

    def std(self) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.where(self.df > 2, self.df / np.maximum(self.df - 2, 0), np.inf)
            factor = np.sqrt(np.where(np.isinf(self.df), 1.0, variance))
        return np.where(self.scale == 0, 0.0, self.scale) * np.where(self.scale == 0, 1.0, factor)

    def _z(self, y: FloatArray) -> FloatArray:
        return standardize(y, self.loc, self.scale, self._point_mass)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return stdtr(self._shared_df(), self._z(y))

    def _sf(self, y: FloatArray) -> FloatArray:
        return stdtr(self._shared_df(), -self._z(y))

    def _ppf(self, p: FloatArray) -> FloatArray:
        return unstandardize(self._standard_ppf(p), self.loc, self.scale, self._point_mass)

    def _isf(self, q: FloatArray) -> FloatArray:
        return unstandardize(-self._standard_ppf(q), self.loc, self.scale, self._point_mass)

    def _normal_score(self, y: FloatArray) -> FloatArray:
        z = self._z(y)  # By symmetry, one evaluation returns the smaller tail.
        return np.asarray(np.copysign(ndtri(stdtr(self._shared_df(), -np.abs(z))), z))

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        z = np.copysign(self._standard_ppf(smaller_tail(score)), score)
        return unstandardize(z, self.loc, self.scale, self._point_mass)

    def _standard_ppf(self, p: FloatArray) -> FloatArray:
        df = self._shared_df()
        z = stdtrit(df, p)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            far = (p < 1e-100) & (df < 1e5)
            # Older versions of scipy have an error of 50 % here. Distributions with larger df are nearly
            # normal.
            if far.any():
                x = betaincinv(df / 2, 0.5, 2 * p)
                z = np.where(far, -np.sqrt(df * (1 - x) / x), z)
            # The formulas above underflow in the extreme tail, which is proportional to a power of z.
            log_x = 2 / df * (np.log(p) + np.log(df) + betaln(df / 2, 0.5))
            z = np.where(log_x < -30, -np.exp((np.log(df) - log_x) / 2), z)
        # Older versions of scipy return 1e-17 at level 1/2, and NaN at the levels 0 and 1.
        z = np.where(p == 0.5, 0.0, z)
        return np.where(p == 0, -np.inf, np.where(p == 1, np.inf, z))

    @property
    def has_density(self) -> bool:
        return not self._point_mass

    def _logpdf(self, y: FloatArray) -> FloatArray:
        df, z = self._shared_df(), self._z(y)
        log_kernel = 0.5 * (1 + 1 / df) * _log_growth(z, df)
        return _gamma_ratio(df) - LOG_SQRT_2PI - np.log(self.scale) - log_kernel

    def _crps(self, y: FloatArray) -> FloatArray:
        integrated = np.abs(self.df - 1) < _NEAR_CAUCHY
        if integrated.any() or self.df.min() <= 0.5:
            return self._crps_by_rows(y, integrated)
        df, z = self._shared_df(), (y - self.loc) / np.where(self.scale == 0, 1.0, self.scale)
        mean, spread = _crps_terms(z, df)
        score = z * (2 * stdtr(df, z) - 1) + (mean - spread) / (1 - 1 / df)
        return np.where(self.scale == 0, np.abs(y - self.loc), self.scale * score)

    def _crps_by_rows(self, y: FloatArray, integrated: BoolArray) -> FloatArray:
        score = np.full(len(self), np.inf)  # The CRPS is infinite for df <= 1/2.
        closed = np.flatnonzero(~integrated & (self.df > 0.5))
        if closed.size:
            score[closed] = self._take(closed)._crps(y[closed])
        rest = np.flatnonzero(integrated)
        if rest.size:
            # The integral is computed in units of the scale, because extreme quantiles may overflow in the
            # units of y.
            unit = np.where(self.scale[rest] == 0, 1.0, self.scale[rest])
            standard = StudentT(np.zeros(rest.size), 1.0, self.df[rest])
            score[rest] = unit * Distribution._crps(standard, (y[rest] - self.loc[rest]) / unit)
        return np.where(self.scale == 0, np.abs(y - self.loc), score)

    def _squared_integrals(self, y: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        if np.abs(self.df - 1).min() < _NEAR_CAUCHY or self.df.min() <= 0.5:
            return None
        return symmetric_integrals(self._squared_cdf, y, self.loc, self.scale)

    def _squared_cdf(self, z: FloatArray) -> FloatArray:
        df = self._shared_df()
        at = np.where(np.isinf(z), 0.0, z)
        mean, spread = _crps_terms(at, df)
        cdf = stdtr(df, at)
        below = at * cdf**2 + (mean * cdf - spread * stdtr(2 * df - 1, np.sqrt(2 - 1 / df) * at)) / (
            1 - 1 / df
        )
        return np.where(np.isinf(z), np.maximum(z, 0.0), below)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        df, z = self._shared_df(), (y - self.loc) / np.where(self.scale == 0, 1.0, self.scale)
        with np.errstate(divide="ignore", over="ignore"):
            distance = z * (2 * stdtr(df, z) - 1) + _mean_term(z, df) / (1 - 1 / df)
        distance = np.where(df > 1, distance, np.inf)
        return np.where(self.scale == 0, np.abs(y - self.loc), self.scale * distance)

    def _standard_form(self) -> tuple[FloatArray, FloatArray, Distribution] | None:
        if self._shared_df().ndim:
            return None
        return self.loc, self.scale, StudentT(0.0, 1.0, self.df[0])

    def _affine(self, shift: FloatArray, factor: FloatArray) -> StudentT:
        size = np.abs(factor)
        part = self.epistemic_scale
        epistemic = None if part is None else size * part
        return StudentT(shift + factor * self.loc, size * self.scale, self.df, epistemic)

    def epistemic(self) -> StudentT:
        if self.epistemic_scale is None:
            return super().epistemic()  # type: ignore[return-value]
        return StudentT(self.loc, self.epistemic_scale, self.df)

    def aleatoric(self) -> StudentT:
        if self.epistemic_scale is None:
            return super().aleatoric()  # type: ignore[return-value]
        return StudentT(np.zeros_like(self.loc), noise_scale(self.scale, self.epistemic_scale), self.df)


def _crps_terms(z: FloatArray, df: FloatArray) -> tuple[FloatArray, FloatArray]:
    # The gamma functions of the paper are combined, so that they do not overflow for large df.
    spread = np.exp(2 * _gamma_ratio(df) - _gamma_ratio(2 * df - 1)) / np.sqrt(np.pi * (1 - 0.5 / df))
    return _mean_term(z, df), spread


def _mean_term(z: FloatArray, df: FloatArray) -> FloatArray:
    log_half = _gamma_ratio(df) - LOG_SQRT_2PI - 0.5 * (1 - 1 / df) * _log_growth(z, df)
    return 2 * np.exp(log_half)


def _gamma_ratio(df: FloatArray) -> FloatArray:
    """Return log Gamma(x + 1/2) - log Gamma(x) - log(x) / 2 at x = df / 2."""
    x = np.maximum(df, 40.0) / 2  # From df = 40 on, the series is exact to the last digit.
    series = sum(coefficient * (1 / x) ** (2 * k + 1) for k, coefficient in enumerate(_STIRLING))
    if np.min(df) >= 40:
        return np.asarray(series)
    x = np.minimum(df, 40.0) / 2
    return np.where(df < 40, gammaln(x + 0.5) - gammaln(x) - 0.5 * np.log(x), series)


def _log_growth(z: FloatArray, df: FloatArray) -> FloatArray:
    """Return df log(1 + z^2 / df) without overflow of z^2. For infinite df, the result is the limit z^2."""
    with np.errstate(all="ignore"):
        ratio = np.abs(z) / np.sqrt(df)
        growth = np.asarray(df * np.log1p(ratio * ratio))
        if np.max(ratio, initial=0.0) > 1e8:
            growth = np.where(ratio > 1e8, 2 * df * np.log(ratio), growth)
        return np.where(np.isinf(df), z * z, growth) if np.isinf(df).any() else growth


PRIOR_ROWS = 20.0
"""Weight of the Student t distribution, as a number of residuals."""

_PARAMETERS = 3
"""Number of fitted parameters: the intercept, the slope, and the dependence on the number of rows."""

_DF_GRID = (3.0, 4.0, 6.0, 9.0, 15.0, 30.0, 100.0)
"""Candidates for the degrees of freedom. The tails range from heavy tails with a finite variance to nearly
normal tails."""

_MAX_STD_BIAS = 0.02
"""Largest accepted relative bias of the standard deviation of a sample.

The bias is about n^(2/df - 1) for n draws from a Student t distribution with df degrees of freedom. With a
larger limit, 90 % intervals from a StdScalingRecalibrator that is fitted to 300 rows would contain 87 % of
the targets.
"""

_TAIL_SCORES = np.arange(-6.0, 7.0)
"""Knots are added at these normal scores if the scores are outside the range of the residuals."""


def fit_student(z: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """Return the degrees of freedom and the scale of the most likely Student t distribution with center 0."""
    squared = np.square(z)
    share = np.full(len(z), 1 / len(z)) if weight is None else weight / weight.sum()
    n = len(z) if weight is None else float(weight.sum())
    settled = [df for df in _DF_GRID if n ** (2 / df - 1) <= _MAX_STD_BIAS]
    best = (-np.inf, np.inf, 1.0)
    for df in settled or _DF_GRID[-1:]:
        variance = float(share @ squared)
        for _ in range(20):  # The EM algorithm gives outliers smaller weights.
            variance = float(share @ (squared * (df + 1) / (df + squared / variance)))
        likelihood = (
            gammaln((df + 1) / 2)
            - gammaln(df / 2)
            - 0.5 * np.log(df * variance)
            - (df + 1) / 2 * float(share @ np.log1p(squared / (df * variance)))
        )
        best = max(best, (float(likelihood), df, float(np.sqrt(variance))))
    return best[1], best[2]


def predictive_df(n: float) -> float:
    return max(n - _PARAMETERS, 3.0)


def prior_share(n: float) -> float:
    return PRIOR_ROWS / (PRIOR_ROWS + n)


def student_scores(scores: FloatArray, df: float) -> FloatArray:
    """Return the quantiles of the standard Student t distribution at the levels of normal scores."""
    return np.asarray(np.copysign(stdtrit(df, smaller_tail(scores)), scores))


def predictive_scores(scores: FloatArray, n: float) -> FloatArray:
    return student_scores(scores, predictive_df(n))


def shrunk_level_map(level_map: LevelMap, n: float) -> LevelMap:
    own, share = level_map.pieces, prior_share(n)
    lowest, highest = own.values[0] - 0.5, own.values[-1] + 0.5
    beyond = _TAIL_SCORES[(_TAIL_SCORES - lowest) * (_TAIL_SCORES - highest) > 0]
    values = np.sort(np.concatenate([own.values, beyond]))
    scores = share * predictive_scores(values, n) + (1 - share) * own.inverse(values)
    return LevelMap.from_scores(scores, values, *own.slopes[[0, -1]])
