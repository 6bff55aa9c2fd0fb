"""Compare prediction sets with np.sort, MAPIE and crepes, and networks with plain torch, by ratios.

Networks: the fastest epoch of a perceptron with two hidden layers is compared with a loop in torch with the
same Adam. It is also compared with the matrix products of the forward and backward passes, which are a lower
limit for both. The time of class probabilities of ten members is compared with the products of the forward
pass in the same floating-point type.

Sets: time and peak memory are compared. All packages calibrate the same probabilities on the same rows, and
their LAC sets are compared row by row. A time is the best of several processor times. Memory is the memory
that numpy allocates in addition to the data, measured in a separate run. A ratio above 1 means that skuq is
better. Packages that are not installed are omitted.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from measuring import seconds, sides_of, times_of
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from skuq.conformal import ConformalClassifier, prediction_set

COVERAGE = 0.9
CREPES_NUMBERS = 1e9
"""Largest product of calibration rows, rows to predict and classes for crepes, which then takes a minute."""

SECONDS_A_SIDE = 6.0


class GivenProba(ClassifierMixin, BaseEstimator):
    """Classifier that returns X as class probabilities, so that only the sets are timed."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> GivenProba:
        """Set the classes 0 to K - 1."""
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return X."""
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the most probable class."""
        return X.argmax(axis=1)


@dataclass(frozen=True)
class Case:
    """Numbers of calibration rows, of rows to predict and of classes."""

    what: str
    n: int
    m: int
    n_classes: int
    method: str = "lac"
    randomized: bool = False
    group_by: str | None = None

    @property
    def data(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Return a classifier, probabilities and labels for calibration, and probabilities of new rows."""
        rng = np.random.default_rng(0)
        proba = rng.dirichlet(np.full(self.n_classes, 0.3), size=self.n + self.m)
        labels = (proba[: self.n].cumsum(axis=1) < rng.random((self.n, 1))).sum(axis=1)
        labels = np.minimum(labels, self.n_classes - 1)
        model = GivenProba().fit(proba, labels)
        return model, proba[: self.n], labels, proba[self.n :]


CASES = (
    Case("LAC", 1_000, 10_000, 10),
    Case("LAC", 100_000, 100_000, 10),
    Case("LAC, 100 classes", 10_000, 10_000, 100),
    Case("APS, randomized", 100_000, 100_000, 10, "aps", True),
    Case("LAC of each class, alone", 20_000, 20_000, 100, group_by="class"),
)

Side = tuple[Callable[[], Any], Callable[[Any], np.ndarray]]


def skuq_side(case: Case, data: Any) -> Side:
    model, X, y, X_new = data

    def fit() -> Any:
        own = ConformalClassifier(
            FrozenEstimator(model),
            case.method,
            randomized=case.randomized,
            group_by=case.group_by,
            allow_empty=True,
            random_state=0,
        )
        return own.fit(X, y)

    return fit, lambda fitted: fitted.predict_set(X_new, COVERAGE)


def mapie_side(case: Case, data: Any) -> Side:
    from mapie.classification import SplitConformalClassifier

    model, X, y, X_new = data
    params = {"include_last_label": "randomized"} if case.randomized else {}

    def fit() -> Any:
        peer = SplitConformalClassifier(
            model,
            confidence_level=COVERAGE,
            conformity_score=case.method,
            prefit=True,
            random_state=0,
        )
        return peer.conformalize(X, y)

    return fit, lambda fitted: fitted.predict_set(X_new, params)[1][:, :, 0]


def crepes_side(case: Case, data: Any) -> Side:
    from crepes import ConformalClassifier as CrepesClassifier
    from crepes.extras import hinge

    model, X, y, X_new = data

    def fit() -> Any:
        return CrepesClassifier().fit(hinge(model.predict_proba(X), model.classes_, y))

    def predict(fitted: Any) -> np.ndarray:
        sets = fitted.predict_set(hinge(model.predict_proba(X_new)), confidence=COVERAGE, smoothing=False)
        return np.asarray(sets, dtype=bool)

    return fit, predict


def best_seconds(function: Callable[[], object]) -> float:
    """Return the best processor time of at most seven calls."""
    return max(min(times_of(function, SECONDS_A_SIDE, clock=time.process_time)), 1e-6)


def kernel_table() -> None:
    """Print the time of prediction_set and of np.sort; the ratio should be at most 3."""
    rng = np.random.default_rng(0)
    print(f"{'prediction_set':27}{'rows':>9}{'K':>6}{'skuq s':>10}{'np.sort s':>11}{'skuq / sort':>13}")
    for rows, n_classes, dtype in (
        (1_000_000, 10, np.float64),
        (1_000_000, 10, np.float32),
        (10_000, 1000, np.float64),
    ):
        proba = rng.dirichlet(np.full(n_classes, 0.5), size=rows).astype(dtype)
        own = best_seconds(lambda proba=proba: prediction_set(proba, COVERAGE))
        sort = best_seconds(lambda proba=proba: np.sort(proba))
        print(
            f"{np.dtype(dtype).name:27}{rows:9d}{n_classes:6d}{own:10.3f}{sort:11.3f}{own / sort:13.1f}",
            flush=True,
        )


@dataclass(frozen=True)
class Perceptron:
    """Sizes of a network with two equal hidden layers, and its batch size."""

    n_features: int
    hidden: int
    batch: int
    n_classes: int = 10

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """Numbers of inputs and outputs of each layer."""
        sizes = (self.n_features, self.hidden, self.hidden, self.n_classes)
        return tuple(pairwise(sizes))

    def data(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return n rows with values between 0 and 1, and random labels."""
        rng = np.random.default_rng(0)
        return rng.random((n, self.n_features)), rng.integers(self.n_classes, size=n)

    def classifier(self, n_members: int) -> Any:
        """Return an ensemble of skuq."""
        return importlib.import_module("skuq.neural").DeepEnsembleClassifier(
            n_members,
            hidden_layer_sizes=(self.hidden, self.hidden),
            standardize=False,
            batch_size=self.batch,
            max_epochs=EPOCHS,
            device="cpu",
            random_state=0,
        )


PERCEPTRONS = (Perceptron(784, 200, 128), Perceptron(784, 200, 512), Perceptron(64, 64, 32))
EPOCHS, MEMBERS, ROWS, NEW_ROWS = 5, 10, 10_000, 100_000


def torch_epoch(case: Perceptron) -> float:
    """Return the seconds of the fastest epoch of a plain loop in torch."""
    torch = importlib.import_module("torch")
    first, second, last = (torch.nn.Linear(*sizes) for sizes in case.layers)
    net = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), last)
    optimizer, loss = torch.optim.Adam(net.parameters(), 3e-3, fused=True), torch.nn.CrossEntropyLoss()
    X, y = case.data(ROWS)
    X, y = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)

    def epoch() -> None:
        for rows in torch.split(torch.randperm(len(X)), case.batch):
            optimizer.zero_grad()
            loss(net(X[rows]), y[rows]).backward()
            optimizer.step()

    return min(seconds(epoch) for _ in range(EPOCHS))


def skuq_epoch(case: Perceptron, n_members: int) -> float:
    """Return the seconds of the fastest epoch of an ensemble of skuq."""
    model = case.classifier(n_members).fit(*case.data(ROWS))
    return min(model.history_[:, "dur"])


def products_seconds(case: Perceptron, n_members: int, rows: int, *, training: bool) -> float:
    """Return the best time of the matrix products for one batch of rows."""
    # In training, each layer has one product for its outputs, one for the gradient of its weights and, except
    # for the first layer, one for the gradient of its inputs. In prediction, which uses float64, each layer
    # has one product for its outputs.
    torch = importlib.import_module("torch")
    dtype = torch.float32 if training else torch.float64
    operands = [
        [torch.rand(n_members, *shape, dtype=dtype) for shape in ((n_out, n_in), (n_in, rows), (n_out, rows))]
        for n_in, n_out in case.layers
    ]

    def multiply() -> None:
        for k, (weight, x, slope) in enumerate(operands):
            torch.bmm(weight, x)
            if training:
                torch.bmm(slope, x.transpose(1, 2))
                if k:
                    torch.bmm(weight.transpose(1, 2), slope)

    return min(seconds(multiply) for _ in range(20))


def network_table() -> None:
    """Print the times of an epoch and of class probabilities, and the times of plain torch."""
    heads = "".join(f"{head:>9}" for head in ("torch", "skuq, 1", "skuq, 10", "products"))
    print(f"\n{'microseconds per row, member':34}{heads}{'ratios':>14}")
    for case in PERCEPTRONS:
        peer, one, many = torch_epoch(case), skuq_epoch(case, 1), skuq_epoch(case, MEMBERS) / MEMBERS
        limit = products_seconds(case, MEMBERS, case.batch, training=True) / case.batch / MEMBERS * ROWS
        values = "".join(f"{1e6 * taken / ROWS:9.1f}" for taken in (peer, one, many, limit))
        what = f"{case.n_features}-{case.hidden}-{case.hidden}-10, batch {case.batch}"
        print(f"{what:34}{values}{peer / one:7.2f}{peer / many:7.2f}", flush=True)
    print(f"\n{'predict_proba, ten members':35}{'rows':>8}{'skuq, s':>9}{'products, s':>12}{'ratio':>7}")
    for case in (PERCEPTRONS[0], PERCEPTRONS[-1]):
        model = case.classifier(MEMBERS).set_params(max_epochs=1).fit(*case.data(1000))
        X, _ = case.data(NEW_ROWS)
        own = seconds(lambda model=model, X=X: model.predict_proba(X))
        limit = products_seconds(case, MEMBERS, 1000, training=False) * NEW_ROWS / 1000
        what = f"{case.n_features}-{case.hidden}-{case.hidden}-10"
        print(f"{what:34}{NEW_ROWS:9d}{own:9.2f}{limit:12.2f}{own / limit:7.2f}", flush=True)


def main() -> None:
    if importlib.util.find_spec("torch") and importlib.util.find_spec("skorch"):
        importlib.import_module("torch").set_num_threads(1)
        network_table()
    kernel_table()
    print(f"\n{'what':27}{'n':>9}{'m':>9}{'package':>9}{'fit s':>10}{'predict s':>11}{'MB':>8}{'ratios':>22}")
    peers = {"MAPIE": ("mapie", mapie_side), "crepes": ("crepes", crepes_side)}
    for case in CASES:
        data = case.data
        own = sides_of(*skuq_side(case, data), best_seconds)
        head = f"{case.what:27}{case.n:9d}{case.m:9d}"
        print(f"{head}{'skuq':>9}{own[0]:10.3f}{own[1]:11.3f}{own[2]:8.1f}", flush=True)
        for name, (package, side) in peers.items():
            if importlib.util.find_spec(package) is None or case.group_by is not None:
                continue
            if name == "crepes" and (
                case.method != "lac" or case.n * case.m * case.n_classes > CREPES_NUMBERS
            ):
                continue
            peer = sides_of(*side(case, data), best_seconds)
            if case.method == "lac":
                np.testing.assert_array_equal(own[3], peer[3])
            ratios = "".join(f"{theirs / ours:7.1f}" for ours, theirs in zip(own[:3], peer[:3], strict=True))
            print(f"{head}{name:>9}{peer[0]:10.3f}{peer[1]:11.3f}{peer[2]:8.1f} {ratios}", flush=True)


if __name__ == "__main__":
    main()
