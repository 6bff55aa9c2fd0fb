"""The Student t family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import betaln, gammaln, stdtr, stdtrit

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_non_negative, check_positive
from skuq.distributions._base import Distribution
from skuq.distributions._location_scale import (
    merge_optional,
    noise_scale,
    read_epistemic_scale,
    read_rows,
    standardise,
    unstandardise,
)


@dataclass(frozen=True, eq=False, repr=False)
class StudentT(Distribution):
    """Student t distributions, one a row: what a normal becomes when its scale was estimated.

    Parameters
    ----------
    loc : float or array-like of shape (n,)
        Centre (median) of each row, in the units of y.
    scale : float or array-like of shape (n,)
        Scale of each row, at least 0; not the standard deviation, which is
        ``scale * sqrt(df / (df - 2))``. 0 is a point mass at ``loc``.
    df : float or array-like of shape (n,)
        Degrees of freedom, above 0. The mean exists above 1, the standard deviation is infinite
        up to 2.
    epistemic_scale : float or array-like of shape (n,), default=None
        Scale of the regression function f(x), the part of ``scale`` that is not noise, where the
        model knows it. Needed by `epistemic` and `aleatoric`, which keep ``df``.

    See Also
    --------
    Normal : The limit of many degrees of freedom.

    Notes
    -----
    The CRPS for df > 1 is the closed form of Jordan, Krueger and Lerch (2019), appendix A,
    https://doi.org/10.18637/jss.v090.i12; for fewer it is integrated numerically, and it is
    infinite up to 1/2.

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

    def __init__(
        self, loc: ArrayLike, scale: ArrayLike, df: ArrayLike, epistemic_scale: ArrayLike | None = None
    ) -> None:
        location, width, freedom = read_rows(loc=loc, scale=scale, df=df)
        check_positive(freedom, "df")
        check_non_negative(width, "scale")
        part = read_epistemic_scale(epistemic_scale, width)
        self._set(loc=location, scale=width, df=freedom, epistemic_scale=part)

    @cached_property
    def _point_mass(self) -> bool:
        """Whether the scale of some row is 0."""
        return bool(self.scale.min() == 0)

    def _rows(self) -> int:
        return len(self.loc)

    def _take(self, rows: IntArray) -> StudentT:
        part = self.epistemic_scale
        return StudentT(self.loc[rows], self.scale[rows], self.df[rows], None if part is None else part[rows])

    @classmethod
    def _merge(cls, parts: Sequence[StudentT]) -> StudentT | None:
        epistemic, mergeable = merge_optional([part.epistemic_scale for part in parts])
        if not mergeable:
            return None
        loc, scale, df = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("loc", "scale", "df")
        )
        return cls(loc, scale, df, epistemic)

    def _shared_df(self) -> FloatArray:
        """Degrees of freedom as a 0-d array where all rows share them: one quantile serves all."""
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
        with np.errstate(divide="ignore"):
            factor = np.sqrt(np.where(self.df > 2, self.df / np.maximum(self.df - 2, 0), np.inf))
        return np.where(self.scale == 0, 0.0, self.scale) * np.where(self.scale == 0, 1.0, factor)

    def _z(self, y: FloatArray) -> FloatArray:
        return standardise(y, self.loc, self.scale, self._point_mass)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return stdtr(self._shared_df(), self._z(y))

    def _sf(self, y: FloatArray) -> FloatArray:
        return stdtr(self._shared_df(), -self._z(y))

    def _ppf(self, p: FloatArray) -> FloatArray:
        return unstandardise(self._standard_ppf(p), self.loc, self.scale, self._point_mass)

    def _isf(self, q: FloatArray) -> FloatArray:
        return unstandardise(-self._standard_ppf(q), self.loc, self.scale, self._point_mass)

    def _standard_ppf(self, p: FloatArray) -> FloatArray:
        df = self._shared_df()
        z = stdtrit(df, p)
        with np.errstate(divide="ignore", over="ignore"):
            # scipy loses the far tail (wrong by 2 at 1e-200, then infinite); there the tail is a power of z
            log_x = 2 / df * (np.log(p) + np.log(df) + betaln(df / 2, 0.5))
            z = np.where((p < 1e-100) & (log_x < -30), -np.exp((np.log(df) - log_x) / 2), z)
        z = np.where(p == 0.5, 0.0, z)  # older scipy is off by 1e-17, and gives NaN at the ends
        return np.where(p == 0, -np.inf, np.where(p == 1, np.inf, z))

    @property
    def has_density(self) -> bool:
        return not self._point_mass

    def _logpdf(self, y: FloatArray) -> FloatArray:
        df, z = self._shared_df(), self._z(y)
        log_norm = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi)
        return log_norm - np.log(self.scale) - (df + 1) / 2 * np.log1p(z * z / df)

    def _crps(self, y: FloatArray) -> FloatArray:
        if self.df.min() <= 1:
            return self._crps_without_mean(y)
        df, z = self._shared_df(), (y - self.loc) / np.where(self.scale == 0, 1.0, self.scale)
        log_norm = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi)
        log_mean = log_norm - (df - 1) / 2 * np.log1p(z * z / df)  # log of f(z) (1 + z^2 / df)
        spread = 2 * np.sqrt(df) / (df - 1) * np.exp(betaln(0.5, df - 0.5) - 2 * betaln(0.5, df / 2))
        score = z * (2 * stdtr(df, z) - 1) + 2 * df / (df - 1) * np.exp(log_mean) - spread
        return np.where(self.scale == 0, np.abs(y - self.loc), self.scale * score)

    def _crps_without_mean(self, y: FloatArray) -> FloatArray:
        score = np.full(len(self), np.inf)  # what it is up to df = 1/2
        light = np.flatnonzero(self.df > 1)
        if light.size:
            score[light] = self._take(light)._crps(y[light])
        heavy = np.flatnonzero((self.df <= 1) & (self.df > 0.5))
        if heavy.size:
            score[heavy] = Distribution._crps(self._take(heavy), y[heavy])
        return np.where(self.scale == 0, np.abs(y - self.loc), score)

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
