"""Warnings with the stack level of the user's code."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_INTERNAL_PACKAGES = ("skuq", "sklearn", "joblib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning at the line of the user's code."""
    level = 1  # The stack level is computed, because it differs between scikit-learn versions.
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INTERNAL_PACKAGES:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
