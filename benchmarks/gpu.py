"""Compare the training and the prediction of each network on the CPU and on a GPU.

All networks have two hidden layers of 64 units and are trained for 20 epochs. The last line is a stack of 200
networks, because a step on a GPU takes the same time for one network as for hundreds. Times are clock times
in seconds, each the best of several rounds, in which the devices alternate. The first round loads libraries
and is not counted. Without CUDA, the script measures nothing and ends with an error.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch
from measuring import arguments
from sklearn.base import clone, is_classifier

from skuq import neural
from skuq.neural import DeepEnsembleRegressor

SMALL = {"hidden_layer_sizes": (64, 64), "max_epochs": 20, "random_state": 0}
NAMES = (
    "PNNRegressor",
    "DeepEnsembleRegressor",
    "BootstrapNetRegressor",
    "MCDropoutRegressor",
    "ConcreteDropoutRegressor",
    "VariationalRegressor",
    "LastLayerLaplaceRegressor",
    "SWARegressor",
    "DeepEnsembleClassifier",
    "MCDropoutClassifier",
    "VariationalClassifier",
)


def networks() -> dict[str, Any]:
    """Return the estimators by the name of their line."""
    found = {name: getattr(neural, name)(**SMALL) for name in NAMES}
    return found | {"DeepEnsembleRegressor(200)": DeepEnsembleRegressor(200, **SMALL)}


def data(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 8))
    return X, X[:, 0] + 0.3 * rng.standard_normal(n_rows)


def finished(device: str) -> float:
    """Return the clock time after the GPU has finished its work."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds(model: Any, X: np.ndarray, y: np.ndarray, device: str) -> tuple[float, float]:
    """Return the times of the training and of the prediction."""
    model = clone(model).set_params(device=device)
    start = finished(device)
    model.fit(X, y > 0 if is_classifier(model) else y)
    middle = finished(device)
    model.predict(X)
    return middle - start, finished(device) - middle


def best(model: Any, X: np.ndarray, y: np.ndarray, devices: tuple[str, ...], rounds: int) -> np.ndarray:
    """Return the best times of training and prediction on each device, shape (devices, 2)."""
    times = [[seconds(model, X, y, device) for device in devices] for _ in range(rounds + 1)]
    return np.min(times[1:], axis=0)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU, so nothing is measured. Run this script on a machine with CUDA.")
    X, y = data(options.rows)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options.rows} rows")
    print(f"{'network':30s}{'fit, CPU':>10}{'GPU':>8}{'ratio':>7}{'predict, CPU':>14}{'GPU':>8}{'ratio':>7}")
    for name, model in networks().items():
        (fit, predict), (gpu_fit, gpu_predict) = best(model, X, y, ("cpu", "cuda"), options.rounds)
        print(f"{name:30s}{fit:10.2f}{gpu_fit:8.2f}{fit / gpu_fit:7.1f}", end="")
        print(f"{predict:14.3f}{gpu_predict:8.3f}{predict / gpu_predict:7.1f}", flush=True)


if __name__ == "__main__":
    main()
