"""The guarantee of calibration="split", by simulation: networks cover new rows by the conformal law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.neural import (
    BootstrapNetRegressor,
    ConcreteDropoutRegressor,
    DeepEnsembleRegressor,
    MCDropoutRegressor,
    PNNRegressor,
    fit_many,
)
from tests.laws import hits_as_uniform

N_TRAIN, N_CAL, N_TEST, N_SETS = 40, 39, 100, 150
SHORT = {
    "hidden_layer_sizes": (8,),
    "max_epochs": 3,
    "calibration": "split",
    "held_out_size": [(np.arange(N_TRAIN), np.arange(N_TRAIN, N_TRAIN + N_CAL))],
    "device": "cpu",
}
NETWORKS = {
    "one network": PNNRegressor(keep_best=False, **SHORT),
    "ensemble": DeepEnsembleRegressor(3, **SHORT),
    "bootstrap": BootstrapNetRegressor(3, **SHORT),
    "dropout": MCDropoutRegressor(keep_best=False, n_draws=10, **SHORT),
    "concrete dropout": ConcreteDropoutRegressor(keep_best=False, n_draws=10, **SHORT),
}


@pytest.mark.laws
@pytest.mark.parametrize(
    ("name", "coverage"), [(name, (0.8, 0.95)[k % 2]) for k, name in enumerate(NETWORKS)]
)
def test_intervals_cover_by_the_law(name, coverage):
    """Of hardly trained networks, whose own spread is far off, on skewed noise; one training of all sets."""
    rng = np.random.default_rng(0)
    n = N_TRAIN + N_CAL + N_TEST
    X = rng.uniform(-2, 2, size=(N_SETS * n, 2))
    y = np.sin(2 * X[:, 0]) + (0.2 + np.abs(X[:, 0])) * (rng.exponential(size=len(X)) - 1)
    firsts = n * np.arange(N_SETS)
    networks = [clone(NETWORKS[name]).set_params(coverage=coverage, random_state=k) for k in range(N_SETS)]
    fitted = fit_many(networks, X, y, [first + np.arange(N_TRAIN + N_CAL) for first in firsts])
    hits = np.empty(N_SETS, dtype=int)
    for k, (model, first) in enumerate(zip(fitted, firsts, strict=True)):
        new = slice(first + N_TRAIN + N_CAL, first + n)
        low, high = model.predict_interval(X[new], coverage).T
        hits[k] = ((low <= y[new]) & (y[new] <= high)).sum()
    rank = int(np.ceil((N_CAL + 1) * coverage - 1e-9))
    pvalue = {
        k: stats.kstest(hits_as_uniform(hits, N_TEST, k, N_CAL, np.random.default_rng(1)), "uniform").pvalue
        for k in (rank - 2, rank, rank + 2)
        if k <= N_CAL
    }
    assert pvalue.pop(rank) > 1e-3
    assert all(p < 1e-3 for p in pvalue.values())  # the test would notice two ranks too few or too many
