"""The engine: members trained together are the members trained one by one, whatever else is trained."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pickle import dumps, loads

import numpy as np
import pytest

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from torch import nn

from skuq.neural._architecture import Architecture
from skuq.neural._losses import BetaNLLLoss, CRPSLoss, NLLLoss, variance_of
from skuq.neural._plan import TrainingOptions, batch_shape
from skuq.neural._stacked import MemberSeed, StackedModule, member_moments
from skuq.neural._training import train
from tests.neural.epochs import keep_the_same

CPU = torch.device("cpu")
ARCHITECTURE = Architecture(StackedModule, (16, 16))
EXACT = TrainingOptions(ARCHITECTURE, max_epochs=20, dtype="float64")
SHORT = TrainingOptions(ARCHITECTURE, max_epochs=5, dtype="float64")


def outputs(fit, X):
    return np.stack(member_moments(fit.net.module_, X, CPU))


def sequential(plan, member, options, clip=5.0):
    """Train one member alone, by plain torch: a Sequential of Linear layers, Adam, clipping, cosine."""
    fresh = MemberSeed.spawn(plan.seed, member + 1)[member]
    layers, sizes = [], [plan.X.shape[1], *options.architecture.hidden, 2]
    for n_in, n_out in pairwise(sizes):
        bound, linear = 1 / math.sqrt(n_in), nn.Linear(n_in, n_out, dtype=torch.float64)
        linear.weight.data = torch.as_tensor(fresh.init.uniform(-bound, bound, (n_out, n_in)))
        linear.bias.data = torch.as_tensor(fresh.init.uniform(-bound, bound, (n_out, 1))[:, 0])
        layers += [linear, nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    n = len(plan.y)
    rows = fresh.rows.integers(n, size=n)
    X, y = torch.as_tensor(plan.X), torch.as_tensor(plan.y)
    optimiser = torch.optim.Adam(network.parameters(), lr=plan.learning_rate)
    n_batches, size = batch_shape(n, options.batch_size)
    for epoch in range(options.max_epochs):
        for group in optimiser.param_groups:
            group["lr"] = plan.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / options.max_epochs))
        fresh.order.shuffle(rows)
        for batch in rows[: n_batches * size].reshape(n_batches, size):
            optimiser.zero_grad()
            loc, raw = network(X[batch]).unbind(1)
            plan.loss.score(loc, variance_of(raw), y[batch]).mean().backward()
            nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimiser.step()
    with torch.no_grad():
        loc, raw = network(X).unbind(1)
        return torch.stack([loc, variance_of(raw)]).numpy()


def test_training_together_is_training_one_by_one(plan, sine):
    together = outputs(train([plan(4)], EXACT)[0], sine[0])
    for member in range(4):
        alone = sequential(plan(4), member, EXACT)
        np.testing.assert_allclose(together[:, :, member], alone, rtol=0, atol=1e-8)


def test_a_member_does_not_depend_on_the_chunks(plan, sine, monkeypatch):
    whole = train([plan(5), plan(3, seed=1)], EXACT)
    monkeypatch.setattr("skuq.neural._training._members_at_once", lambda *_: 2)
    parts = train([plan(5), plan(3, seed=1)], EXACT)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(outputs(one, sine[0]), outputs(other, sine[0]), rtol=0, atol=1e-8)
        assert len(other.net.history) == 20
        np.testing.assert_allclose(
            one.net.history[:, "train_loss"], other.net.history[:, "train_loss"], rtol=1e-8
        )


def test_chunks_may_stop_apart(plan, sine, monkeypatch):
    """Each chunk has the callback for itself; the history is truncated to the shortest chunk."""

    class StopAt(skorch.callbacks.Callback):
        epochs = iter((4, 3))

        def initialize(self):
            self.last = next(self.epochs)
            return self

        def on_epoch_end(self, net, **kwargs):
            if len(net.history) == self.last:
                raise KeyboardInterrupt

    monkeypatch.setattr("skuq.neural._training._members_at_once", lambda *_: 2)
    fit = train([plan(4)], replace(SHORT, callbacks=[StopAt()]))[0]
    assert len(fit.net.history) == fit.best_epoch == 3
    whole = train([plan(4)], SHORT)[0]
    np.testing.assert_allclose(
        fit.net.history[:, "train_loss"], whole.net.history[:3, "train_loss"], rtol=1e-12
    )


def test_chunks_and_results_that_are_pickled_change_no_number(plan, sine, monkeypatch):
    """As in the processes of joblib, without their start: two processes import torch for ten seconds."""
    counts = []

    def run_pickled(work, *, n_jobs):
        work = loads(dumps(list(work)))
        counts.append((len(work), n_jobs))
        return [loads(dumps(task())) for task in work]

    monkeypatch.setattr("skuq.neural._training._members_at_once", lambda *_: 2)
    monkeypatch.setattr("skuq.neural._training.run_parallel", run_pickled)
    one, two = (train([plan(4)], SHORT, n_jobs=n_jobs)[0] for n_jobs in (1, 2))
    assert counts == [(2, 2)]
    np.testing.assert_array_equal(outputs(one, sine[0]), outputs(two, sine[0]))


@pytest.mark.slow
def test_processes_change_no_number(plan, sine, monkeypatch):
    monkeypatch.setattr("skuq.neural._training._members_at_once", lambda *_: 2)
    one, two = (train([plan(4)], SHORT, n_jobs=n_jobs)[0] for n_jobs in (1, 2))
    np.testing.assert_array_equal(outputs(one, sine[0]), outputs(two, sine[0]))


def test_fits_of_other_rows_losses_and_rates_train_together(plan, sine):
    kinds = [
        {"n_members": 3},
        {"n_members": 2, "seed": 3, "rows": slice(1, None), "loss": CRPSLoss()},
        {"n_members": 1, "learning_rate": 1e-2, "selection_score": NLLLoss()},
        {"n_members": 2, "rows": slice(0, 60), "loss": BetaNLLLoss(0.5), "selection_score": NLLLoss()},
    ]
    together = train([plan(**kind) for kind in kinds], EXACT)
    for kind, fit in zip(kinds, together, strict=True):
        alone = train([plan(**kind)], EXACT)[0]
        np.testing.assert_allclose(outputs(fit, sine[0]), outputs(alone, sine[0]), rtol=0, atol=1e-8)
        assert keep_the_same((fit.best_epoch, fit.net.history), (alone.best_epoch, alone.net.history))
        np.testing.assert_allclose(
            fit.net.history[:, "train_loss"], alone.net.history[:, "train_loss"], rtol=1e-8
        )


def test_weights_in_the_loss_are_repetitions(plan, sine):
    """With one batch of all rows, a weight of 2 is a row that comes twice."""
    options = TrainingOptions(ARCHITECTURE, batch_size=1000, max_epochs=30, dtype="float64")
    weight = np.where(np.arange(150) < 50, 2.0, 1.0)
    weighted = plan(1, bootstrap=False, weight=weight / weight.mean())
    repeated = plan(1, bootstrap=False, rows=np.repeat(np.arange(150), weight.astype(int)))
    repeated = repeated.__class__(**{**vars(repeated), "y": np.repeat(weighted.y, weight.astype(int))})
    a, b = (outputs(train([each], options)[0], sine[0]) for each in (weighted, repeated))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)


def test_the_best_epoch_is_kept(plan, sine):
    """The weights kept are those that an equal training has at that epoch."""
    options = TrainingOptions(ARCHITECTURE, max_epochs=60, lr_schedule="constant", dtype="float64")
    fit = train([plan(6, selection_score=NLLLoss(), learning_rate=1e-2)], options)[0]
    scores = [row["valid_loss"] for row in fit.net.history if "valid_loss" in row]
    assert 1 < fit.best_epoch < 60
    assert fit.net.history[fit.best_epoch - 1]["valid_loss"] == min(scores)
    shorter = TrainingOptions(
        ARCHITECTURE, max_epochs=fit.best_epoch, lr_schedule="constant", dtype="float64"
    )
    again = train([plan(6, learning_rate=1e-2)], shorter)[0]
    np.testing.assert_allclose(outputs(fit, sine[0]), outputs(again, sine[0]), rtol=0, atol=1e-8)


def test_the_score_is_that_of_the_members_that_left_the_row_out(plan):
    options = TrainingOptions(ARCHITECTURE, max_epochs=1, dtype="float64")
    mine = plan(6, selection_score=NLLLoss())
    fit = train([mine], options)[0]
    loc, variance = member_moments(fit.net.module_, mine.X, CPU)
    oob_mask = mine.out_of_bag()
    rows = oob_mask.any(axis=1)
    share = oob_mask[rows] / oob_mask[rows].sum(axis=1, keepdims=True)
    mean = (share * loc[rows]).sum(axis=1)
    total = (share * (variance[rows] + loc[rows] ** 2)).sum(axis=1) - mean**2
    expected = NLLLoss().score(*(torch.as_tensor(part) for part in (mean, total, mine.y[rows]))).mean()
    assert fit.net.history[-1]["valid_loss"] == pytest.approx(float(expected), rel=1e-10)


def test_torch_is_left_as_it_was(plan):
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    train([plan(2)], SHORT)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)


def test_no_batch_is_small():
    assert batch_shape(33, 32) == (1, 33)
    assert batch_shape(5, 32) == (1, 5)
    for n in range(1, 300):
        n_batches, size = batch_shape(n, 32)
        assert n_batches * size <= n < n_batches * (size + 1)
        assert size >= min(n, 21)


def test_automatic_batches_are_smaller_with_few_rows():
    assert batch_shape(599, "auto") == batch_shape(599, 32)
    assert batch_shape(600, "auto") == batch_shape(600, 64)


@pytest.mark.parametrize(("batch_size", "in_longer_training"), [("auto", 64), (32, 32)])
def test_batches_of_a_longer_training(batch_size, in_longer_training):
    options = TrainingOptions(ARCHITECTURE, batch_size=batch_size)
    assert options.longer(n_batches=12, best_epoch=200).batch_size == in_longer_training
    assert options.longer(n_batches=12, best_epoch=150) is None


@pytest.mark.parametrize("event", ["on_batch_begin", "on_grad_computed", "on_batch_end"])
def test_a_callback_may_predict_in_the_middle_of_an_epoch(event, plan):
    """Prediction leaves the module in the mode for it, in which it would not learn."""
    predicted = []

    def predict(self, net, **kwargs):
        predicted.append(net.forward(torch.zeros(3, 2, dtype=torch.float64)))

    callback = type("Predicts", (skorch.callbacks.Callback,), {event: predict})()
    plain, watched = (train([plan(3)], replace(SHORT, callbacks=each))[0] for each in ([], [callback]))
    assert len(predicted) > 6
    X = plan(3).X
    np.testing.assert_array_equal(outputs(watched, X), outputs(plain, X))
