"""Which epoch two trainings of the same networks keep."""

from __future__ import annotations

import pytest


def keep_the_same(one, other, rel=1e-7):
    """Return whether the epochs, each with its history, are equal but for ties that rounding breaks.

    Networks that are trained together and alone are the same up to rounding, and so are their scores; of two
    epochs with nearly the same score either may be the best.
    """
    (epoch, _), (other_epoch, history) = one, other
    scores = {row["epoch"]: row["valid_loss"] for row in history if "valid_loss" in row}
    if not scores:
        return epoch == other_epoch
    return scores[epoch] == pytest.approx(min(scores.values()), rel=rel, abs=rel)
