"""Giving a warning where the user is."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

__all__ = ["warn_user"]

_PASSED_BY = ("skuq", "sklearn", "joblib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Give a warning at the line that came into skuq, be it through scikit-learn or joblib.

    How many functions lie between is nobody's business: a number of them would be wrong after the next
    change, and with some versions of scikit-learn.
    """
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _PASSED_BY:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
