"""Conformal p-values of rows in chronological order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any

import numpy as np

from skuq._typing import FloatArray


def ranked_in_order(
    past: FloatArray,
    past_labels: np.ndarray | None,
    scores: FloatArray,
    labels: np.ndarray | None,
    rng: np.random.RandomState,
) -> FloatArray:
    """Return the p-value of each row.

    The p-value is the share of larger scores among the calibration scores and the earlier scores with the
    same label. Ties are broken at random.
    """
    uniform = rng.random_sample(scores.size)
    sorted_past: dict[Any, list[float]] = {None: sorted(past.tolist())}
    if labels is not None and past_labels is not None:
        sorted_past = {label: sorted(past[past_labels == label].tolist()) for label in set(past_labels)}
    p_values = np.empty(scores.size)
    for row, score in enumerate(scores.tolist()):
        known = sorted_past.setdefault(None if labels is None else labels[row], [])
        first, after = bisect_left(known, score), bisect_right(known, score)
        # the row itself is one of the ties
        p_values[row] = (len(known) - after + uniform[row] * (after - first + 1)) / (len(known) + 1)
        insort(known, score)
    return p_values
