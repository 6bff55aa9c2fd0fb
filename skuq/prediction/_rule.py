"""The record of how one kind of estimator is turned into a distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from skuq.distributions import Distribution

__all__ = ["Predict", "Rule", "Supports"]

Predict: TypeAlias = Callable[[Any, Any], Distribution]
Supports: TypeAlias = Callable[[Any], bool]


@dataclass(frozen=True)
class Rule:
    """Whether it applies to an estimator, how it predicts, and whether it will be able to.

    ``predict(estimator, X, predict_dist)`` and ``supports(estimator, supports_dist)`` are handed the
    resolver itself, for what is inside the estimator.
    """

    matches: Callable[[Any], bool]
    predict: Callable[[Any, Any, Predict], Distribution]
    supports: Callable[[Any, Supports], bool]
