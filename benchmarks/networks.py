"""Compare the networks of `skuq.neural`: layers of the default, calibration, and the epistemic part.

Run as `python benchmarks/networks.py [--quick]`. The data, the splits and the scores are those of
`real_data.py`, with at most 1500 training rows. Results are appended to the file ``--results`` and are not
computed again. The data of the epistemic part are simulated, so that the true mean is known.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, show
from real_data import CONFIRMATION, DEVELOPMENT, Method, by_distribution, completed, evaluate

from skuq.neural import (
    BootstrapNetRegressor,
    ConcreteDropoutRegressor,
    DeepEnsembleRegressor,
    LastLayerLaplaceRegressor,
    MCDropoutRegressor,
    PNNRegressor,
    SWARegressor,
    VariationalRegressor,
)

ROWS, SPLITS, DRAWS = 1500, 2, 3
"""Largest number of training rows, splits per set of the calibration, and draws of the simulated rows."""
PLAIN: dict[str, Any] = {
    "n_frequencies": 0,
    "input_scale": False,
    "activation": "relu",
    "learning_rate": 3e-3,
    "batch_size": 32,
}
NETWORKS: dict[str, Any] = {
    "deep ensemble": DeepEnsembleRegressor,
    "deep ensemble, plain layers": partial(DeepEnsembleRegressor, **PLAIN),
    "one probabilistic network": PNNRegressor,
    "bootstrap networks": BootstrapNetRegressor,
    "MC dropout": MCDropoutRegressor,
    "concrete dropout": ConcreteDropoutRegressor,
    "variational inference": VariationalRegressor,
    "variational inference, last layer": partial(VariationalRegressor, last_layer=True),
    "last-layer Laplace": LastLayerLaplaceRegressor,
    "SWA": SWARegressor,
}
DEFAULT, PLAIN_ENSEMBLE, *_ = NETWORKS
WITHOUT_EPISTEMIC = "one probabilistic network"
SMALL = {"yacht": "gal/gal_yacht", "boston": "gal/gal_boston", "concrete": "paper001/concrete_strength"}


def method(name: str, raw: bool = False, **params: Any) -> Method:
    make = NETWORKS[name]
    if raw:
        params["calibration"] = None
    fit = by_distribution(lambda seed: make(random_state=seed, **params))
    return Method(f"{name}, raw" if raw else name, "torch", fit)


def layers_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per set: the CRPS relative to plain layers, coverages and seconds, of one split."""
    first = results[results["seed"] == 0]
    of = {name: first[first["method"] == name].set_index("set") for name in (DEFAULT, PLAIN_ENSEMBLE)}
    table = pd.DataFrame({"CRPS, ratio": of[DEFAULT]["crps"] / of[PLAIN_ENSEMBLE]["crps"]})
    for column in ("coverage", "seconds"):
        table[f"{column}, plain"] = of[PLAIN_ENSEMBLE][column]
        table[column] = of[DEFAULT][column]
    for group, names in (("first eleven sets", DEVELOPMENT), ("other sets", CONFIRMATION)):
        part = table[table.index.isin(names)]
        table.loc[f"geometric mean, {group}"] = part.mean()
        table.loc[f"geometric mean, {group}", "CRPS, ratio"] = np.exp(np.log(part["CRPS, ratio"]).mean())
    return table.rename(lambda name: name.rpartition("/")[2])


def calibration_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per network: the CRPS relative to the default, coverages and seconds."""
    small = results[results["set"].isin(SMALL.values())]
    mean = small.groupby(["method", "set"])[["crps", "coverage", "seconds"]].mean()
    rows = {}
    for name in NETWORKS:
        if f"{name}, raw" not in mean.index:
            continue
        calibrated, raw = mean.loc[name], mean.loc[f"{name}, raw"]["coverage"]
        rows[name] = {
            "CRPS": np.exp(np.log(calibrated["crps"] / mean.loc[DEFAULT]["crps"]).mean()),
            "seconds": calibrated["seconds"].mean(),
            "coverage": calibrated["coverage"].mean(),
            **{f"raw, {short}": raw.get(full) for short, full in SMALL.items()},
        }
    return pd.DataFrame(rows).T.rename_axis("network")


def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return features and the true mean."""
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, np.sin(3 * X[:, 0])


def epistemic_table(names: list[str], draws: int, **params: Any) -> pd.DataFrame:
    """Return the epistemic standard deviation, the error of the mean, and the coverage of the true mean."""
    rows = []
    for name in names:
        for n in (100, 400):
            for seed in range(draws):
                rng = np.random.default_rng(seed)
                X, mean = draw(n, rng)
                y = mean + 0.2 * rng.standard_normal(n)
                X_new, truth = draw(1000, rng)
                dist = NETWORKS[name](random_state=seed, **params).fit(X, y).predict_dist(X_new)
                epistemic = dist.epistemic()
                lower, upper = epistemic.interval(0.9).T
                rows.append(
                    {
                        "network": name,
                        "rows": n,
                        "epistemic": epistemic.std().mean(),
                        "error": np.sqrt(np.mean((dist.mean() - truth) ** 2)),
                        "coverage": np.mean((lower <= truth) & (truth <= upper)),
                    }
                )
    table = pd.DataFrame(rows).pivot_table(index="network", columns="rows", sort=False)
    return table.set_axis([f"{column}, {n} rows" for column, n in table.columns], axis=1)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="two networks, two sets, one split, few epochs")
    parser.add_argument("--results", type=Path, default=Path("networks.jsonl"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    names, small = list(NETWORKS), list(SMALL.values())
    sets, splits, draws, params = list(DEVELOPMENT + CONFIRMATION), SPLITS, DRAWS, {}
    if chosen.quick:
        names, small, sets, splits, draws = names[:2], small[:1], ["paper001/servo", small[0]], 1, 1
        # After many epochs, the digits depend on the instructions of the processor.
        params = {"max_epochs": 5}
    layers = [method(name, **params) for name in (DEFAULT, PLAIN_ENSEMBLE)]
    kinds = [method(name, raw, **params) for name in names for raw in (False, True)]
    run = partial(completed, chosen.results, rows=ROWS, evaluate=evaluate)
    run(layers, sets, 1)
    frame = run(kinds, small, splits)
    frame["coverage"] = frame["covered"] / frame["n_test"]
    show("networks-layers", layers_table(frame), 2)
    show("networks-calibration", calibration_table(frame), 2)
    with_epistemic = [name for name in names if name != WITHOUT_EPISTEMIC]
    show("networks-epistemic", epistemic_table(with_epistemic, draws, **params), 2)


if __name__ == "__main__":
    main()
