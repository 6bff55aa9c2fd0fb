"""The scikit-learn face of a Pipeline step whose output is a Distribution."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import Tags

from skuq._typing import ArrayLike


class DistributionTransformerMixin(TransformerMixin):
    """Mixin for transformers that return a `Distribution`, which no container may wrap."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep scikit-learn from wrapping `transform`, whose result is no array or frame."""
        kwargs["auto_wrap_output_keys"] = None
        super().__init_subclass__(**kwargs)

    def set_output(self, *, transform: Any = None) -> Self:
        """Accept scikit-learn's request for a container and change nothing.

        `transform` returns a Distribution whatever is set; the method exists so that
        ``Pipeline.set_output`` works.

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

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
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

    def __sklearn_tags__(self) -> Tags:
        """Say that the output has no dtype to preserve."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
