"""Pickles of estimators that carry the version of skuq, as those of scikit-learn carry its version."""

from __future__ import annotations

from typing import Any

from skuq._warnings import warn_user
from skuq.exceptions import InconsistentVersionWarning

__all__ = ["VersionedMixin", "__version__"]

__version__ = "0.1.0"

_KEY = "_skuq_version"


class VersionedMixin:
    """Mixin of estimators whose pickles warn when another version of skuq loads them.

    It comes before scikit-learn's ``BaseEstimator`` among the bases, whose methods it extends.
    """

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, _KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes = dict(state)
        version = attributes.pop(_KEY, "of an unknown version")
        if version != __version__:
            warn_of_other_version(type(self).__name__, version, "predict other numbers", "fit it again")
        super().__setstate__(attributes)  # type: ignore[misc]


def warn_of_other_version(what: str, version: str, risk: str, remedy: str) -> None:
    """Warn that an object was pickled by another version of skuq."""
    warn_user(
        f"this {what} was pickled by skuq {version} and is loaded by skuq {__version__}: it may fail, or "
        f"{risk}. Load it with the version that wrote it, or {remedy}.",
        InconsistentVersionWarning,
    )
