"""Laws that several tests ask for."""

from __future__ import annotations

import numpy as np
from scipy import stats


def hits_as_uniform(hits, n_test, k, n_cal, rng):
    """Return numbers that are uniform if the hits follow BetaBinomial(n_test, k, n_cal + 1 - k).

    So many of n_test new rows does a conformal interval cover whose score is the k-th smallest of n_cal. The
    numbers are made continuous at random.
    """
    law = stats.betabinom(n_test, k, n_cal + 1 - k)
    return law.cdf(np.asarray(hits) - 1) + rng.random(np.shape(hits)) * law.pmf(hits)
