"""Supports of targets, for the parameter ``support`` of regressors and for `SupportMap`."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np

from skuq._compat import warn_user
from skuq._numeric import to_integers
from skuq._typing import FloatArray
from skuq._validation import check_number
from skuq.distributions import Distribution
from skuq.exceptions import SupportWarning

_MOST_BELOW = 0.01
"""Largest mean probability of negative counts without a warning."""


class Support(NamedTuple):
    """Possible values of a target: the numbers or the integers from ``lower`` to ``upper``."""

    lower: float
    upper: float
    integer: bool

    def clip(self, points: FloatArray) -> FloatArray:
        """Return the point predictions, limited to the bounds. The mean of a count need not be an integer."""
        return np.clip(points, self.lower, self.upper)

    def map_bounds(self, bounds: FloatArray) -> FloatArray:
        """Return the bounds of intervals as values of the support.

        A target that is inside its interval remains inside.
        """
        return self.clip(to_integers(bounds) if self.integer else bounds)

    def apply(self, dist: Distribution) -> Distribution:
        return dist.clip(self.lower, self.upper, self.integer)

    def check(self, y: FloatArray, support: Any) -> None:
        """Raise an error if a target is not a value of the support.

        ``support`` is the parameter that the user has passed.
        """
        outside = (y < self.lower) | (y > self.upper)
        if self.integer:
            outside |= np.round(y) != y
        if outside.any():
            row = int(np.argmax(outside))
            kind = "integers" if self.integer else "numbers"
            raise ValueError(
                f"`y` must hold {kind} from {self.lower:g} to {self.upper:g} with support={support!r}, got "
                f"{y[row]:g} at row {row}. Correct the row, or pass another `support`."
            )


_NAMED = {"positive": Support(0.0, np.inf, False), "count": Support(0.0, np.inf, True)}


def read_support(support: Any) -> Support | None:
    """Return the `Support` for the parameter ``support``, or None for all real numbers."""
    if support is None:
        return None
    if isinstance(support, str):
        if support in _NAMED:
            return _NAMED[support]
    elif isinstance(support, range):
        if support.step == 1 and len(support) > 1:
            return Support(float(support[0]), float(support[-1]), True)
        raise ValueError(
            f"if `support` is a range, it must have step 1 and at least two values, got {support!r}."
        )
    elif isinstance(support, tuple | list) and len(support) == 2:
        lower, upper = (_read_end(bound, sign) for bound, sign in zip(support, (-1, 1), strict=True))
        if lower < upper:
            return Support(lower, upper, False)
        raise ValueError(f"`support` must have lower < upper, got {support!r}.")
    raise ValueError(
        "`support` must be 'count', 'positive', a pair (lower, upper) in which None means no bound, a range "
        f"of integers, or None, got {support!r}."
    )


def _read_end(bound: Any, sign: int) -> float:
    if bound is None or (isinstance(bound, numbers.Real) and bound == sign * np.inf):
        return sign * np.inf
    if isinstance(bound, numbers.Real) and not np.isfinite(float(bound)):
        raise ValueError(f"`support` must be finite, got {bound!r}. Use None for no bound.")
    return check_number(bound, "support")


def warn_of_negative_counts(dist: Distribution) -> None:
    """Warn if forecasts of counts have a mean probability of more than 1 % below 0."""
    below = float(np.mean(dist.cdf(np.nextafter(0.0, -1.0))))
    if below > _MOST_BELOW:
        warn_user(
            f"`y` holds integers from 0, but {100 * below:.2g} % of the predicted probability is below 0. "
            "Pass support='count' for counts, or support='positive' for other non-negative targets. To keep "
            "negative forecasts, ignore skuq.exceptions.SupportWarning.",
            SupportWarning,
        )
