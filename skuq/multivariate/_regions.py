"""Regions that contain several targets: one box or one ellipsoid per row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import as_float_array, check_no_nan


class PredictionRegion(ABC):
    """Regions in the space of d targets, one per row.

    ``region[rows]`` selects rows, and ``len(region)`` is the number of rows.

    See Also
    --------
    BoxRegion : One interval per target.
    EllipsoidRegion : Ellipsoids. Their axes follow the correlations of the errors.
    skuq.multivariate.ConformalRegionRegressor : Regions with guaranteed coverage.

    Examples
    --------
    >>> from skuq.multivariate._regions import BoxRegion
    >>> region = BoxRegion([[0.0, 0.0], [1.0, 1.0]], [[2.0, 1.0], [2.0, 4.0]])
    >>> region.contains([[1.0, 0.5], [0.0, 2.0]])
    array([ True, False])
    >>> region.volume()
    array([2., 3.])
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number n of rows and number d of targets."""

    @abstractmethod
    def _take(self, rows: Any) -> Self:
        """Return the regions of the given rows."""

    @abstractmethod
    def _contains(self, y: FloatArray) -> BoolArray:
        """Return whether each region contains points of shape (n, d)."""

    @abstractmethod
    def bounds(self) -> FloatArray:
        """Return, for each region, the smallest box that contains this region.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d)
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the targets.
        """

    @abstractmethod
    def volume(self) -> FloatArray:
        """Return the volume of each region.

        Returns
        -------
        volume : ndarray of shape (n,)
            Volume, in the product of the units of the targets. The smaller the better at equal coverage.
        """

    def contains(self, y: ArrayLike) -> BoolArray:
        """Return whether each region contains the targets of its row.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Targets.

        Returns
        -------
        inside : ndarray of bool of shape (n,)
            True if all targets of the row are in its region.
        """
        values = check_no_nan(as_float_array(y, "y"), "y")
        if values.shape != self.shape:
            raise ValueError(f"`y` must have shape {self.shape}, one row per region, got {values.shape}.")
        return self._contains(values)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Self:
        return self._take(np.atleast_1d(np.arange(len(self))[key]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.shape[0]}, d={self.shape[1]})"


@dataclass(frozen=True, eq=False, repr=False)
class BoxRegion(PredictionRegion):
    """Boxes: one interval per target.

    Parameters
    ----------
    lower, upper : array-like of shape (n, d)
        Bounds of each target, in the units of the target. They may be infinite. The box includes its bounds.

    See Also
    --------
    EllipsoidRegion : Ellipsoids.

    Examples
    --------
    >>> from skuq.multivariate._regions import BoxRegion
    >>> BoxRegion([[0.0, 0.0]], [[2.0, 1.0]]).bounds()
    array([[[0., 0.],
            [2., 1.]]])
    """

    lower: FloatArray
    upper: FloatArray

    def __post_init__(self) -> None:
        lower, upper = (_as_rows(getattr(self, name), name, 2) for name in ("lower", "upper"))
        if lower.shape != upper.shape:
            raise ValueError(f"`upper` must have the shape of `lower`, {lower.shape}, got {upper.shape}.")
        if (lower > upper).any():
            row, column = np.argwhere(lower > upper)[0]
            raise ValueError(
                f"`lower` must be at most `upper`, got {lower[row, column]:g} and {upper[row, column]:g} at "
                f"row {row}, column {column}."
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def shape(self) -> tuple[int, int]:
        """Number n of rows and number d of targets."""
        return self.lower.shape

    def _take(self, rows: Any) -> Self:
        return type(self)(self.lower[rows], self.upper[rows])

    def _contains(self, y: FloatArray) -> BoolArray:
        return np.asarray(((y >= self.lower) & (y <= self.upper)).all(axis=1))

    def bounds(self) -> FloatArray:
        """Return the bounds of each box.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d)
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the targets.
        """
        return np.stack([self.lower, self.upper], axis=1)

    def volume(self) -> FloatArray:
        """Return the volume of each box.

        Returns
        -------
        volume : ndarray of shape (n,)
            Product of the widths, in the product of the units of the targets.
        """
        return np.asarray((self.upper - self.lower).prod(axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class EllipsoidRegion(PredictionRegion):
    r"""Ellipsoids :math:`\{y: (y - \mu)^T \Sigma^{-1} (y - \mu) \le r^2\}`.

    Parameters
    ----------
    center : array-like of shape (n, d)
        Centers, in the units of the targets.
    covariance : array-like of shape (n, d, d)
        Positive definite matrices, in products of the units of the targets.
    radius : array-like of shape (n,)
        Radius of each row. It has no units. It must be non-negative and may be infinite.

    See Also
    --------
    BoxRegion : One interval per target.

    Examples
    --------
    >>> from skuq.multivariate._regions import EllipsoidRegion
    >>> region = EllipsoidRegion([[0.0, 0.0]], [[[1.0, 0.0], [0.0, 4.0]]], [2.0])
    >>> region.volume().round(2), region.bounds()  # pi * 2 * 4
    (array([25.13]), array([[[-2., -4.],
            [ 2.,  4.]]]))
    """

    center: FloatArray
    covariance: FloatArray
    radius: FloatArray

    def __post_init__(self) -> None:
        center, covariance, radius = (
            _as_rows(getattr(self, name), name, ndim)
            for name, ndim in (("center", 2), ("covariance", 3), ("radius", 1))
        )
        n, d = center.shape
        if covariance.shape != (n, d, d) or radius.shape != (n,):
            raise ValueError(
                f"`covariance` must have shape {(n, d, d)}, and `radius` must have shape {(n,)}, got "
                f"{covariance.shape} and {radius.shape}. The shape of `center` is {(n, d)}."
            )
        if (radius < 0).any():
            raise ValueError(f"`radius` must be non-negative, got {radius.min():g}.")
        root = _cholesky(covariance)
        for name, value in (("center", center), ("covariance", covariance), ("radius", radius)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_root", root)

    @property
    def shape(self) -> tuple[int, int]:
        """Number n of rows and number d of targets."""
        return self.center.shape

    def _take(self, rows: Any) -> Self:
        return type(self)(self.center[rows], self.covariance[rows], self.radius[rows])

    def _contains(self, y: FloatArray) -> BoolArray:
        return np.asarray(self.distance(y) <= self.radius)

    def distance(self, y: ArrayLike) -> FloatArray:
        """Return the Mahalanobis distance from the center. Inside the ellipsoid, it is at most the radius.

        Parameters
        ----------
        y : array-like of shape (n, d) or (n, m, d)
            Targets, or m points per row.

        Returns
        -------
        distance : ndarray of shape (n,) or (n, m)
            Distance without units.
        """
        points = as_float_array(y, "y")
        n, d = self.shape
        if points.ndim not in (2, 3) or (points.shape[0], points.shape[-1]) != (n, d):
            raise ValueError(f"`y` must have shape {(n, d)} or ({n}, m, {d}), got {points.shape}.")
        root: FloatArray = self._root  # type: ignore[attr-defined]
        difference = points.reshape(n, -1, d) - self.center[:, np.newaxis]
        solved = np.linalg.solve(root, difference.transpose(0, 2, 1))
        return np.asarray(np.sqrt(np.sum(solved**2, axis=1)).reshape(points.shape[:-1]))

    def bounds(self) -> FloatArray:
        """Return, for each ellipsoid, the smallest box that contains this ellipsoid.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d)
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the targets.
        """
        half = self.radius[:, np.newaxis] * np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        return np.stack([self.center - half, self.center + half], axis=1)

    def volume(self) -> FloatArray:
        r"""Return the volume of each ellipsoid.

        Returns
        -------
        volume : ndarray of shape (n,)
            :math:`r^d \sqrt{\det \Sigma} \, \pi^{d/2} / \Gamma(d/2 + 1)`, in the product of the units of the
            targets.
        """
        d = self.shape[1]
        root: FloatArray = self._root  # type: ignore[attr-defined]
        log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        ball = d / 2 * np.log(np.pi) - gammaln(d / 2 + 1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(ball + log_root + d * np.log(self.radius)))


def _cholesky(covariance: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError as error:
        row = int(np.argmin(np.linalg.eigvalsh(covariance)[:, 0]))
        raise ValueError(
            f"`covariance` must be positive definite, got {covariance[row].tolist()} at row {row}."
        ) from error


def _as_rows(values: ArrayLike, name: str, ndim: int) -> FloatArray:
    array = check_no_nan(as_float_array(values, name), name).copy()
    if array.ndim != ndim or not all(array.shape):
        raise ValueError(f"`{name}` must have {ndim} dimensions and at least one row, got {array.shape}.")
    array.flags.writeable = False
    return array
