"""Types of arrays and of options that several estimators have."""

from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]

SupportLike: TypeAlias = Literal["positive", "count"] | tuple[float | None, float | None] | range | None


class Frozen(Protocol):
    """A frozen distribution of scipy.stats."""

    def cdf(self, x: Any, /) -> Any: ...

    def ppf(self, q: Any, /) -> Any: ...


__all__ = ["ArrayLike", "BoolArray", "FloatArray", "Frozen", "IntArray", "SupportLike"]
