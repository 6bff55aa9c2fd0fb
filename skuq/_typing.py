"""Types of arrays and of options that several estimators have."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]

SupportLike: TypeAlias = Literal["positive", "count"] | tuple[float | None, float | None] | range | None

__all__ = ["ArrayLike", "BoolArray", "FloatArray", "IntArray", "SupportLike"]
