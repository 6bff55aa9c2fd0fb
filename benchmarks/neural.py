"""Compare networks of skuq, which are trained together, with loops of skorch nets and of plain torch.

The members have two hidden layers and Adam. The estimators of skuq also standardize, draw bootstrap rows and
clip gradients; the loops do not. The epoch is not selected, and calibration is off. A loop trains one network
of each ensemble, and its time is multiplied by the number of members. A limit is the time of the matrix
products, which each training needs.

The last lines are the case study of Chung et al. (2021): four losses with five seeds each, three layers, 200
rows in one batch, and the weights of the epoch that is best on 100 other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise, product

import numpy as np
import skorch
import torch
from measuring import Line, arguments, compared, show
from sklearn.base import clone
from skorch.callbacks import EarlyStopping
from skorch.dataset import ValidSplit
from torch import nn
from torch.nn.functional import softplus

from skuq.neural import DeepEnsembleClassifier, DeepEnsembleRegressor, PNNRegressor, fit_many
from skuq.neural._probabilistic_net import ProbabilisticCriterion

N_ROWS, LR = 2000, 1e-3
SIZES, CASE_SIZES = (8, 64, 64, 2), (1, 64, 64, 64, 2)
LOSSES, SEEDS = ("nll", "crps", "check", "interval"), 5


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


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X[:, 0] + 0.3 * rng.standard_normal(n)


def tensors(n: int, d: int) -> list[torch.Tensor]:
    return [torch.as_tensor(part, dtype=torch.float32) for part in data(n, d)]


def torch_loop(
    X: torch.Tensor, y: torch.Tensor, sizes: tuple[int, ...], loss: nn.Module, batch: int, epochs: int
) -> None:
    """Train one network by the shortest loop in torch."""
    net = network(sizes)
    optimizer = torch.optim.Adam(net.parameters(), lr=LR, fused=True)
    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(batch):
            optimizer.zero_grad()
            loss(net(X[rows]), y[rows]).backward()
            optimizer.step()


def stacked_loop(n_members: int, batch: int, epochs: int) -> None:
    """Train stacked weights by the shortest loop, without clipping and without bootstrap rows."""
    X, y = tensors(N_ROWS, SIZES[0])
    weights = [torch.randn(n_members, b, a).mul_(a**-0.5).requires_grad_() for a, b in pairwise(SIZES)]
    biases = [torch.zeros(n_members, b, 1, requires_grad=True) for b in SIZES[1:]]
    optimizer = torch.optim.Adam([*weights, *biases], lr=LR, fused=True)
    loss = GaussianNLL()
    for _ in range(epochs):
        order = torch.stack([torch.randperm(N_ROWS) for _ in range(n_members)])
        for rows in order.split(batch, dim=1):
            hidden = X[rows].transpose(1, 2)
            for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                hidden = torch.baddbmm(bias, weight, hidden)
                hidden = hidden.relu_() if k < len(weights) - 1 else hidden
            optimizer.zero_grad()
            (loss(hidden.transpose(1, 2), y[rows]) * n_members).backward()
            optimizer.step()


def products(n_members: int, n_steps: int, sizes: tuple[int, ...], batch: int) -> None:
    """Compute the matrix products of a training: outputs, and gradients for weights and hidden units."""
    hidden = [torch.randn(n_members, size, batch) for size in sizes]
    weights = [torch.randn(n_members, b, a) for a, b in pairwise(sizes)]
    for _ in range(n_steps):
        for k, weight in enumerate(weights):
            torch.bmm(weight, hidden[k])
            torch.bmm(hidden[k + 1], hidden[k].transpose(1, 2))
            if k:
                torch.bmm(weight.transpose(1, 2), hidden[k + 1])


def skorch_net(
    sizes: tuple[int, ...], batch: int, epochs: int, X: torch.Tensor, y: torch.Tensor, **options: object
) -> None:
    """Train one network with skorch."""
    options = {"criterion": GaussianNLL, "train_split": None} | options
    net = skorch.NeuralNet(
        partial(network, sizes),
        optimizer=torch.optim.Adam,
        lr=LR,
        batch_size=batch,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        verbose=0,
        **options,
    )
    net.fit(X, y)


def ensemble_lines(n_members: int, epochs: int, batch: int = 32) -> Iterator[Line]:
    ensemble = DeepEnsembleRegressor(
        n_members,
        n_frequencies=0,
        input_scale=False,
        activation="relu",
        loss="nll",
        keep_best=False,
        calibration=None,
        max_epochs=epochs,
        learning_rate=LR,
        net_params={"lr_schedule": "constant"},
        batch_size=batch,
        device="cpu",
        random_state=0,
    )
    X, y = tensors(N_ROWS, SIZES[0])
    own = partial(ensemble.fit, *data(N_ROWS, SIZES[0]))
    n_steps = epochs * -(-N_ROWS // batch)
    for reference, ref, repeats in (
        ("skorch, one by one", partial(skorch_net, SIZES, batch, epochs, X, y), n_members),
        ("torch, one by one", partial(torch_loop, X, y, SIZES, GaussianNLL(), batch, epochs), n_members),
        ("torch, stacked", partial(stacked_loop, n_members, batch, epochs), 1),
        ("limit: matrix products", partial(products, n_members, n_steps, SIZES, batch), 1),
    ):
        what = f"{n_members} networks 8-64-64-2, batches of {batch}"
        yield Line(what, N_ROWS, reference, own, ref, repeats=repeats)


def classifier_lines(
    n_members: int, sizes: tuple[int, ...], batch: int, n: int, epochs: int = 3
) -> Iterator[Line]:
    rng = np.random.default_rng(0)
    X, y = rng.random((n, sizes[0])), rng.integers(sizes[-1], size=n)
    ensemble = DeepEnsembleClassifier(
        n_members,
        hidden_layer_sizes=sizes[1:-1],
        standardize=False,
        batch_size=batch,
        max_epochs=epochs,
        device="cpu",
        random_state=0,
    )
    own, loss = partial(ensemble.fit, X, y), nn.CrossEntropyLoss()
    loop = partial(
        torch_loop, torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y), sizes, loss, batch, epochs
    )
    limit = partial(products, n_members, epochs * -(-n // batch), sizes, batch)
    name = "-".join(map(str, sizes))
    what = f"{n_members} classifier{'s' * (n_members > 1)} {name}, batches of {batch}"
    yield Line(what, n, "torch, one by one", own, loop, repeats=n_members)
    if n_members > 1:
        yield Line(what, n, "limit: matrix products", own, limit)


def case_study(epochs: int) -> Iterator[Line]:
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
    tasks = [
        clone(one).set_params(loss=loss, random_state=seed) for loss, seed in product(LOSSES, range(SEEDS))
    ]
    own = partial(fit_many, tasks, *data(300, 1))

    def by_skorch() -> None:
        for loss in LOSSES:
            options = {
                "criterion": ProbabilisticCriterion,
                "criterion__loss": loss,
                "train_split": ValidSplit(3),
            }
            keep = EarlyStopping(patience=epochs, load_best=True)
            skorch_net(CASE_SIZES, 200, epochs, *tensors(300, 1), callbacks=[keep], **options)

    limit = partial(products, len(tasks), epochs, CASE_SIZES, 200)
    what = f"case study of Chung et al. (2021), {len(tasks)} networks"
    yield Line(what, 200, "skorch, one by one", own, by_skorch, repeats=SEEDS)
    yield Line(what, 200, "limit: matrix products", own, limit)


def lines(quick: bool) -> Iterator[Line]:
    epochs, n = (2, 1000) if quick else (50, 10_000)
    for n_members in (5, 40):
        yield from ensemble_lines(n_members, epochs)
    for sizes, batch in (((64, 64, 64, 10), 32), ((784, 200, 200, 10), 128)):
        for n_members in (1, 10):
            yield from classifier_lines(n_members, sizes, batch, n)
    yield from case_study(10 * epochs)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="train for fewer epochs")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    show("neural", compared(lines(quick), quick))


if __name__ == "__main__":
    main()
