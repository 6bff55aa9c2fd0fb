"""Random streams of a study: those of its data and those of its training never meet.

Simulation s has the s-th child of a seed, and this child has one stream each for features, targets and
training. Data and training are therefore independent even where world and study have the same seed, and the
first simulations are the same however many follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._validation import check_random_state
from skuq.prediction._random import MAX_SEED

__all__ = ["draw_seed", "feature_rng", "fixed_rng", "target_rng", "training_seed"]

_FEATURES, _TARGETS, _TRAINING = range(3)


def draw_seed(random_state: Any) -> int:
    """Return one integer from a ``random_state``; None gives another one at each call."""
    return int(check_random_state(random_state).randint(MAX_SEED))


def fixed_rng(seed: int) -> np.random.Generator:
    """Return the generator of the features that are drawn once for a world."""
    return np.random.default_rng(np.random.SeedSequence(seed))


def feature_rng(seed: int, index: int) -> np.random.Generator:
    """Return the generator of the features of one training set."""
    return np.random.default_rng(_stream(seed, index, _FEATURES))


def target_rng(seed: int, index: int) -> np.random.RandomState:
    """Return the generator of the targets of one training set, as `Distribution.sample` takes it."""
    return np.random.RandomState(np.random.MT19937(_stream(seed, index, _TARGETS)))


def training_seed(seed: int, index: int) -> int:
    """Return the ``random_state`` of the estimator of one simulation."""
    return int(_stream(seed, index, _TRAINING).generate_state(1)[0]) % MAX_SEED


def _stream(seed: int, index: int, purpose: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(index, purpose))
