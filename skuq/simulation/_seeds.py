"""Independent random streams for the data and the training of a study.

Each simulation has its own child of a seed, and each child has separate streams for features, targets and
training. Data and training are therefore independent, even if the process and the study have the same seed.
The first simulations do not depend on the number of simulations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._fitting.seeds import MAX_SEED
from skuq._validation import check_random_state

_FEATURES, _TARGETS, _TRAINING = range(3)


def draw_seed(random_state: Any) -> int:
    """Draw an integer from a ``random_state``. With None, each call gives a different integer."""
    return int(check_random_state(random_state).randint(MAX_SEED))


def fixed_rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed))


def feature_rng(seed: int, index: int) -> np.random.Generator:
    return np.random.default_rng(_stream(seed, index, _FEATURES))


def target_rng(seed: int, index: int) -> np.random.RandomState:
    return np.random.RandomState(np.random.MT19937(_stream(seed, index, _TARGETS)))


def training_seed(seed: int, index: int) -> int:
    return int(_stream(seed, index, _TRAINING).generate_state(1)[0]) % MAX_SEED


def _stream(seed: int, index: int, purpose: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(index, purpose))
