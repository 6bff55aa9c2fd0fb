"""Methods of Pipeline steps that return a Distribution. They prevent a conversion by scikit-learn."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from skuq._typing import ArrayLike

EstimatorT = TypeVar("EstimatorT")


def set_output(self: EstimatorT, *, transform: Any = None) -> EstimatorT:
    """Accept scikit-learn's setting of the output type without any effect.

    `transform` always returns a Distribution. ``Pipeline.set_output`` requires this method.

    Parameters
    ----------
    transform : {"default", "pandas", "polars"} or None, default=None
        Ignored.

    Returns
    -------
    self : object
        The transformer itself.
    """
    return self


def get_feature_names_out(self: Any, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
    """Return the names of the two columns of a Distribution as an array.

    Parameters
    ----------
    input_features : array-like of str, default=None
        Ignored.

    Returns
    -------
    names : ndarray of shape (2,)
        "mean" and "std".
    """
    return np.array(["mean", "std"], dtype=object)
