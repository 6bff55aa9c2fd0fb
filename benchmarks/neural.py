"""Compare ensembles of networks of skuq with loops of skorch nets and of plain torch: `make bench`.

The comparison uses 2000 rows, 8 features, two hidden layers of 64 units, the normal likelihood, Adam, batches
of 32 rows, 50 epochs and one thread. The estimator of skuq also standardizes, draws bootstrap rows and clips
gradients; the loops do not. Early stopping and calibration are off. The time of a loop is the time of one
network times the number of members. Times are processor times, which depend less on other processes than
clock times. Each time is the best of several rounds, in which all sides alternate.

The table also contains a loop in plain torch that trains all members in one batch, and the share of time that
skorch and the estimator add. The lower limit is the time of the matrix products, which each training needs.

The last lines are the case study of Chung et al. (2021): four losses with five seeds each, three layers of 64
units, 200 rows in one batch, 2000 epochs, and the weights of the epoch that is best on 100 other rows. The
loop of skorch nets uses the same losses. It keeps the best weights in two ways: by skorch's Checkpoint, which
writes files, and by skorch's EarlyStopping with infinite patience.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product

import numpy as np
import skorch
import torch
from measuring import arguments, seconds
from sklearn.base import clone
from skorch.callbacks import Callback, Checkpoint, EarlyStopping
from skorch.dataset import ValidSplit
from torch import nn
from torch.nn.functional import softplus

from skuq.neural import DeepEnsembleRegressor, PNNRegressor, fit_many
from skuq.neural._probabilistic_net import ProbabilisticCriterion

N_ROWS, N_FEATURES, WIDTH, BATCH, EPOCHS, LR = 2000, 8, 64, 32, 50, 1e-3
SIZES = (N_FEATURES, WIDTH, WIDTH, 2)
LOSSES, CASE_SIZES = ("nll", "crps", "check", "interval"), (1, 64, 64, 64, 2)


class GaussianNLL(nn.Module):
    """Normal likelihood in plain torch."""

    def forward(self, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the mean negative log-likelihood."""
        loc, raw = output.unbind(-1)
        variance = softplus(raw) + 1e-4
        return (0.5 * (variance.log() + (y - loc) ** 2 / variance)).mean()


def network(sizes: tuple[int, ...] = SIZES) -> nn.Sequential:
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def data(n: int = N_ROWS, d: int = N_FEATURES) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X[:, 0] + 0.3 * rng.standard_normal(n)


def skorch_net() -> None:
    """Train one network with skorch."""
    X, y = (torch.as_tensor(part, dtype=torch.float32) for part in data())
    net = skorch.NeuralNet(
        network,
        criterion=GaussianNLL,
        optimizer=torch.optim.Adam,
        lr=LR,
        batch_size=BATCH,
        max_epochs=EPOCHS,
        train_split=None,
        iterator_train__shuffle=True,
        verbose=0,
    )
    net.fit(X, y)


def torch_loop() -> None:
    """Train one network by the shortest loop in torch."""
    X, y = (torch.as_tensor(part, dtype=torch.float32) for part in data())
    net, loss = network(), GaussianNLL()
    optimiser = torch.optim.Adam(net.parameters(), lr=LR)
    for _ in range(EPOCHS):
        for rows in torch.randperm(N_ROWS).split(BATCH):
            optimiser.zero_grad()
            loss(net(X[rows]), y[rows]).backward()
            optimiser.step()


def shipped(n_members: int) -> None:
    """Train the estimator of skuq."""
    DeepEnsembleRegressor(
        n_members,
        n_frequencies=0,
        input_scale=False,
        activation="relu",
        loss="nll",
        keep_best=False,
        calibration=None,
        max_epochs=EPOCHS,
        learning_rate=LR,
        net_params={"lr_schedule": "constant"},
        batch_size=BATCH,
        device="cpu",
        random_state=0,
    ).fit(*data())


def bare_batched(n_members: int) -> None:
    """Train stacked weights by the shortest loop, without clipping and without bootstrap rows."""
    X, y = (torch.as_tensor(part, dtype=torch.float32) for part in data())
    weights = [torch.randn(n_members, b, a).mul_(a**-0.5).requires_grad_() for a, b in pairwise(SIZES)]
    biases = [torch.zeros(n_members, b, 1, requires_grad=True) for b in SIZES[1:]]
    optimiser = torch.optim.Adam([*weights, *biases], lr=LR, fused=True)
    loss = GaussianNLL()
    for _ in range(EPOCHS):
        order = torch.stack([torch.randperm(N_ROWS) for _ in range(n_members)])
        for rows in order.split(BATCH, dim=1):
            hidden = X[rows].transpose(1, 2)
            for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                hidden = torch.baddbmm(bias, weight, hidden)
                hidden = hidden.relu_() if k < len(weights) - 1 else hidden
            optimiser.zero_grad()
            (loss(hidden.transpose(1, 2), y[rows]) * n_members).backward()
            optimiser.step()


def products(
    n_members: int,
    n_steps: int = EPOCHS * (N_ROWS // BATCH),
    sizes: tuple[int, ...] = SIZES,
    batch: int = BATCH,
) -> None:
    """Compute the matrix products of a training: outputs, and gradients for weights and hidden units."""
    hidden = [torch.randn(n_members, size, batch) for size in sizes]
    weights = [torch.randn(n_members, b, a) for a, b in pairwise(sizes)]
    for _ in range(n_steps):
        for k, weight in enumerate(weights):
            torch.bmm(weight, hidden[k])
            torch.bmm(hidden[k + 1], hidden[k].transpose(1, 2))
            if k:
                torch.bmm(weight.transpose(1, 2), hidden[k + 1])


def chung_2021(epochs: int) -> None:
    """Train four losses with five seeds each in one stack, with full batches and scores of epochs."""
    X, y = data(300, 1)
    one = PNNRegressor(
        CASE_SIZES[1:-1],
        batch_size=1000,
        max_epochs=epochs,
        held_out_size=1 / 3,
        calibration=None,
        learning_rate=LR,
        net_params={"lr_schedule": "constant", "clip_norm": None},
        device="cpu",
    )
    pairs = product(LOSSES, range(5))
    fit_many([clone(one).set_params(loss=loss, random_state=seed) for loss, seed in pairs], X, y)


def chung_2021_by_skorch(epochs: int, keep: Callback) -> None:
    """Train one network for each loss with skorch."""
    X, y = (torch.as_tensor(part, dtype=torch.float32) for part in data(300, 1))
    for loss in LOSSES:
        net = skorch.NeuralNet(
            lambda: network(CASE_SIZES),
            criterion=ProbabilisticCriterion,
            criterion__loss=loss,
            optimizer=torch.optim.Adam,
            lr=LR,
            batch_size=200,
            max_epochs=epochs,
            train_split=ValidSplit(3),
            callbacks=[keep],
            iterator_train__shuffle=True,
            verbose=0,
        )
        net.fit(X, y)


def best(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the best time of each side, measured in alternating calls."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            times[name].append(seconds(work, time.process_time))
    return {name: min(values) for name, values in times.items()}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    shipped(2)  # Imports and other preparations are not measured.
    columns = ("skuq s", "skorch s", "torch s", "batched s", "products s", "x skorch", "x torch", "added")
    print(f"{'members':>8}" + "".join(f"{column:>12}" for column in columns))
    for m in (5, 40):
        sides = {
            "skuq": partial(shipped, m),
            "skorch": skorch_net,
            "torch": torch_loop,
            "batched": partial(bare_batched, m),
            "products": partial(products, m),
        }
        t = best(sides, rounds)
        loops = m * t["skorch"], m * t["torch"]
        times = (t["skuq"], *loops, t["batched"], t["products"], *(loop / t["skuq"] for loop in loops))
        added = t["skuq"] / t["batched"] - 1
        print(f"{m:8d}" + "".join(f"{taken:12.2f}" for taken in times) + f"{added:12.0%}", flush=True)
    case_study(2000 if rounds > 1 else 200, min(rounds, 2))


def case_study(epochs: int, rounds: int) -> None:
    """Print the times of the twenty networks of the case study; loops run one of five seeds."""
    checkpoint = Checkpoint(dirname=tempfile.mkdtemp(), load_best=True)
    patient = EarlyStopping(patience=epochs, load_best=True)
    times = best(
        {
            "skuq, all twenty at once": lambda: chung_2021(epochs),
            "matrix products alone": lambda: products(20, epochs, CASE_SIZES, 200),
            "skorch nets, Checkpoint": partial(chung_2021_by_skorch, epochs, checkpoint),
            "skorch nets, EarlyStopping": partial(chung_2021_by_skorch, epochs, patient),
        },
        rounds,
    )
    print(f"\ncase study, 20 networks, {epochs} epochs")
    for name, time_taken in times.items():
        of_all = 5 * time_taken if name.startswith("skorch") else time_taken
        print(f"{name:30s}{of_all:9.2f} s{of_all / times['skuq, all twenty at once']:8.1f}")


if __name__ == "__main__":
    main()
