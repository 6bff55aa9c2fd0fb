"""Compare a simulation study of many networks with scikit-learn and with single fits: `make bench`.

The study is section 5.2 of Sluijterman, Cator and Heskes (2024): 100 training sets of 1000 rows, each with 50
bootstrapped networks with three layers of 40, 30 and 20 units, and 80 epochs with batches of 32 rows. The
time of skuq is the time of `simulate_coverage`, including predictions and coverage for 1000 test rows. It is
compared with the stacked fits without predictions, with a loop of scikit-learn's MLPRegressor, and with fits
of single networks of skuq. The time of a loop is the time of a few networks, scaled to the number of all
networks. Times are processor times on one thread. All sides alternate, and the best round counts. Memory is
the peak memory of the process, including imports.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from measuring import arguments, seconds
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from skuq.neural import BootstrapNetRegressor, PNNRegressor
from skuq.simulation import make_known_process, simulate_coverage

LAYERS, BATCH, EPOCHS, ROWS = (40, 30, 20), 32, 80, 1000
IN_A_LOOP = 2
"""Number of networks that a loop trains."""


def study(n_simulations: int, n_networks: int) -> tuple[object, BootstrapNetRegressor]:
    """Return the process, and the estimator."""
    process = make_known_process("cubic", n_train=ROWS, n_test=ROWS, random_state=0)
    net = BootstrapNetRegressor(
        n_networks,
        hidden_layer_sizes=LAYERS,
        calibration=None,
        batch_size=BATCH,
        max_epochs=EPOCHS,
        device="cpu",
    )
    return process, net


def simulated(n_simulations: int, n_networks: int) -> None:
    """Run the study."""
    process, net = study(n_simulations, n_networks)
    simulate_coverage(net, process, n_simulations=n_simulations, coverage=[0.8, 0.9], random_state=0)


def stacked_fits(n_simulations: int, n_networks: int) -> None:
    """Train the same networks, with the same number of simulations per call, without predictions."""
    process, net = study(n_simulations, n_networks)
    for first in range(0, n_simulations, 20):
        sets = [process.training_set(s) for s in range(first, min(first + 20, n_simulations))]
        X, y = (np.concatenate(part) for part in zip(*sets, strict=True))
        rows = [np.arange(s * ROWS, (s + 1) * ROWS) for s in range(len(sets))]
        net._fit_many(X, y, rows, random_states=range(len(sets)))


def scikit_learn_loop() -> None:
    """Train networks by scikit-learn on standardized data, one after another."""
    process, _ = study(2, 2)
    for number in range(IN_A_LOOP):
        X, y = process.training_set(number)
        net = MLPRegressor(
            hidden_layer_sizes=LAYERS, batch_size=BATCH, max_iter=EPOCHS, tol=0, n_iter_no_change=EPOCHS
        )
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            net.fit((X - X.mean()) / X.std(), (y - y.mean()) / y.std())


def single_fits() -> None:
    """Train networks by skuq, one network per fit."""
    process, _ = study(2, 2)
    for number in range(IN_A_LOOP):
        net = PNNRegressor(
            LAYERS,
            calibration=None,
            keep_best=False,
            batch_size=BATCH,
            max_epochs=EPOCHS,
            device="cpu",
            random_state=0,
        )
        net.fit(*process.training_set(number))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--networks", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    n_simulations, n_networks = options.simulations, options.networks
    total = n_simulations * n_networks
    stacked_fits(2, 2)  # Imports and other preparations are not measured.
    sides: dict[str, tuple[Callable[[], object], float]] = {
        "simulate_coverage": (lambda: simulated(n_simulations, n_networks), 1),
        "stacked fits alone": (lambda: stacked_fits(n_simulations, n_networks), 1),
        "MLPRegressor in a loop": (scikit_learn_loop, total / IN_A_LOOP),
        "one network per fit": (single_fits, total / IN_A_LOOP),
    }
    times = dict.fromkeys(sides, np.inf)
    for _ in range(options.rounds):
        for name, (work, factor) in sides.items():
            times[name] = min(times[name], factor * seconds(work, time.process_time))
    print(f"{n_simulations} simulations of {n_networks} networks, {ROWS} rows, {EPOCHS} epochs")
    for name, taken in times.items():
        print(f"{name:24s}{taken:10.1f} s{taken / times['simulate_coverage']:8.2f}")
    # kilobytes on Linux, bytes on macOS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"peak memory {peak / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
