"""Joint training of several fits. Networks with equal options are stacked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback
from skorch.history import History

from skuq._sklearn_compat import delayed, run_parallel
from skuq._typing import FloatArray
from skuq.neural._modules.device import read_device, read_dtype, seeded_torch, thread_limit
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._training.batches import MemberBatches, MemberRows
from skuq.neural._training.checkpoint import EndTraining, KeepBestEpoch
from skuq.neural._training.net import MemberObjective, StackedNet
from skuq.neural._training.plan import FitPlan, TrainingOptions

_MIN_CHUNK, _MAX_CHUNK = 40, 100
_CACHED_WEIGHTS = 200_000
"""Number of weights whose training fits into the cache of a processor core. Larger stacks are not faster."""
_GPU_WEIGHTS = 1 << 30


@dataclass(frozen=True, eq=False)
class TrainedFit:
    """Trained members of one fit (``net.module_``), and the epoch of their weights.

    Epochs are counted from 1.
    """

    net: StackedNet
    plan: FitPlan
    best_epoch: int


def train(
    plans: Sequence[FitPlan],
    options: TrainingOptions,
    *,
    n_jobs: int | None = None,
    on_epoch: Callable[..., object] | None = None,
) -> list[TrainedFit]:
    """Train all fits in chunks of the fastest size. The results do not depend on ``n_jobs``."""
    device = read_device(options.device, sum(len(plan.seeds) for plan in plans))
    chunks = [chunk for group in _groups(plans, options) for chunk in _chunks(plans, group, options, device)]
    tasks = [([plans[k] for k in chunk.fits], chunk) for chunk in chunks]
    if len(chunks) == 1 or n_jobs in (None, 1) or device.type == "cuda":
        parts = [_train_chunk(mine, chunk, options, device, on_epoch) for mine, chunk in tasks]
    else:
        work = (delayed(_train_chunk)(mine, chunk, options, device, None) for mine, chunk in tasks)
        parts = list(run_parallel(work, n_jobs=n_jobs))
    return _collect(plans, chunks, parts, options)


# ------------------------------------------------------------------------------------ groups and chunks


@dataclass(frozen=True)
class _Chunk:
    """Members that are trained in one net. For each fit, ``spans`` contains the range of its members."""

    fits: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class _Part:
    """Results of one chunk for each fit.

    The results are losses (epochs, members), and scores (epochs,) that may be NaN.
    """

    modules: list[StackedModule]
    losses: list[FloatArray]
    scores: list[FloatArray]
    best_epochs: list[int]
    durations: FloatArray


def _groups(plans: Sequence[FitPlan], options: TrainingOptions) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    for k, plan in enumerate(plans):
        shape = plan.batch_shape(options.batch_size)
        key = (plan.X.shape[1], plan.loss.target, plan.loss.n_outputs, plan.weight is None, shape)
        groups.setdefault(key, []).append(k)
    return list(groups.values())


def _chunks(
    plans: Sequence[FitPlan], group: list[int], options: TrainingOptions, device: torch.device
) -> list[_Chunk]:
    """Divide the members of a group into chunks. Members that are scored together are in one chunk."""
    first = plans[group[0]]
    shape = first.batch_shape(options.batch_size)
    dtype = read_dtype(options.dtype)
    sample = options.architecture(MemberSeed.spawn(0, 1), first.X.shape[1], first.loss.n_outputs, dtype)
    limit = _members_at_once(sample.flat.shape[1], device)
    units = [
        (k, start, stop)
        for k in group
        for start, stop in _spans(len(plans[k].seeds), limit, plans[k].selection_score is not None)
    ]
    chunks: list[list[tuple[int, int, int]]] = [[]]
    for unit in units:
        held = sum(stop - start for _, start, stop in chunks[-1])
        if chunks[-1] and held + unit[2] - unit[1] > limit:
            chunks.append([])
        chunks[-1].append(unit)
    return [_Chunk(tuple(u[0] for u in c), tuple((u[1], u[2]) for u in c), shape) for c in chunks]


def _spans(n_members: int, limit: int, together: bool) -> list[tuple[int, int]]:
    n_parts = 1 if together else -(-n_members // limit)
    edges = np.linspace(0, n_members, n_parts + 1).round().astype(int).tolist()
    return list(pairwise(edges))


def _members_at_once(n_weights: int, device: torch.device) -> int:
    if device.type == "cuda":
        return max(1, _GPU_WEIGHTS // n_weights)
    return int(np.clip(_CACHED_WEIGHTS // n_weights, _MIN_CHUNK, _MAX_CHUNK))


# ------------------------------------------------------------------------------------------- one chunk


def _train_chunk(
    plans: Sequence[FitPlan],
    chunk: _Chunk,
    options: TrainingOptions,
    device: torch.device,
    on_epoch: Callable[..., object] | None,
) -> _Part:
    plans = [
        replace(plan, seeds=plan.seeds[start:stop], rows=plan.rows[start:stop])
        for plan, (start, stop) in zip(plans, chunk.spans, strict=True)
    ]
    seeds = [seed for plan in plans for seed in plan.seeds]
    with thread_limit(), seeded_torch(seeds[0].torch_seed, device):
        dtype = read_dtype(options.dtype)
        module = options.architecture(seeds, plans[0].X.shape[1], plans[0].loss.n_outputs, dtype)
        batches = _batches(plans, chunk.shape, dtype, device)
        keeper = None
        callbacks = list(options.callbacks or ())
        if any(plan.selection_score is not None for plan in plans):
            data = batches.X, batches.y
            keeper = KeepBestEpoch(plans, data, options.score_every, options.patience, options.auto_epochs[1])
            callbacks = [keeper, *callbacks]
        if on_epoch is not None:
            callbacks.append(_ReportEpoch(on_epoch))
        if keeper is not None:
            callbacks.append(EndTraining(keeper))  # last, so that the other callbacks get the last epoch
        net = _net(module, plans, options, callbacks, device, options.epochs(chunk.shape[0]))
        net.fit(batches, None)
        _check_trained(net)
        net.module_.end_training()
        return _part(net, keeper, plans)


def _batches(
    plans: Sequence[FitPlan], shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> MemberBatches:
    """Concatenate the data of all fits, and shift the row numbers of the members accordingly."""
    X = torch.as_tensor(np.concatenate([plan.X for plan in plans]), dtype=dtype, device=device)
    y = torch.as_tensor(np.concatenate([plan.y for plan in plans]), dtype=dtype, device=device)
    weight = None
    if plans[0].weight is not None:
        parts = [np.asarray(plan.weight) for plan in plans]
        weight = torch.as_tensor(np.concatenate(parts), dtype=dtype, device=device)
    offsets = np.cumsum([0, *(len(plan.y) for plan in plans)])[:-1]
    members = [
        MemberRows(rows.drawn + offset, rows.order)
        for plan, offset in zip(plans, offsets, strict=True)
        for rows in plan.rows
    ]
    return MemberBatches(X, y, weight, members, shape)


def _net(
    module: StackedModule,
    plans: Sequence[FitPlan],
    options: TrainingOptions,
    callbacks: list[Any],
    device: torch.device,
    epochs: int,
) -> StackedNet:
    losses = [(loss, sum(1 for _ in same)) for loss, same in groupby(p.loss for p in plans for _ in p.seeds)]
    settings = {
        "criterion": MemberObjective(losses),
        "learning_rates": tuple(plan.learning_rate for plan in plans for _ in plan.seeds),
        "lr_schedule": options.lr_schedule,
        "clip_norm": options.clip_norm,
        "max_epochs": epochs,
        "callbacks": callbacks,
        "device": str(device),
        "verbose": options.verbose,
    }
    return StackedNet(module, **{**settings, **(options.net_params or {})})


def _check_trained(net: StackedNet) -> None:
    """Raise an error if weights are not finite, or if the user interrupted the training."""
    n_epochs = len(net.member_losses_)
    if n_epochs < net.max_epochs and not net.stopped_:
        raise KeyboardInterrupt
    if not n_epochs:
        raise ValueError("`callbacks` must not stop the training before the end of the first epoch.")
    if not torch.isfinite(net.module_.flat).all():
        raise ValueError(
            "the training diverged: weights are not finite. Use a lower `learning_rate`, a `clip_norm`, or "
            "`keep_best`, which keeps the weights of an earlier epoch."
        )


def _part(net: StackedNet, keeper: KeepBestEpoch | None, plans: Sequence[FitPlan]) -> _Part:
    """Divide the members and the scores of a net among its fits."""
    module = net.module_.to("cpu").eval()
    edges = np.cumsum([0, *(len(plan.seeds) for plan in plans)]).tolist()
    spans = [slice(a, b) for a, b in pairwise(edges)]
    n_epochs, losses = len(net.member_losses_), np.stack(net.member_losses_)
    scores = np.full((n_epochs, len(plans)), np.nan) if keeper is None else np.stack(keeper.scores_)
    ends = [n_epochs] * len(plans) if keeper is None else keeper.n_epochs_.tolist()
    return _Part(
        [module.take(span) for span in spans],
        [losses[:end, span] for end, span in zip(ends, spans, strict=True)],
        list(scores.T),
        [n_epochs if keeper is None else int(keeper.best_epochs_[k]) for k in range(len(plans))],
        np.array([row["dur"] for row in list(net.history)[:n_epochs]]),
    )


class _ReportEpoch(Callback):
    """Callback that reports each completed epoch."""

    def __init__(self, report: Callable[..., object]) -> None:
        self.report = report

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        self.report()


# -------------------------------------------------------------------------------- back to the fits


def _collect(
    plans: Sequence[FitPlan], chunks: list[_Chunk], parts: list[_Part], options: TrainingOptions
) -> list[TrainedFit]:
    """Join the members of each fit, which may be in several chunks."""
    pieces: dict[int, list[tuple[_Part, int]]] = {k: [] for k in range(len(plans))}
    for chunk, part in zip(chunks, parts, strict=True):
        for position, k in enumerate(chunk.fits):
            pieces[k].append((part, position))
    fits = []
    for k, plan in enumerate(plans):
        module = StackedModule.join([part.modules[position] for part, position in pieces[k]])
        epochs = min(len(part.losses[position]) for part, position in pieces[k])
        net = _net(module, [plan], options, [], torch.device("cpu"), epochs).initialize()
        module.end_training()
        net.history = _history(pieces[k], epochs)
        best_epoch = min(part.best_epochs[position] for part, position in pieces[k])
        fits.append(TrainedFit(net, plan, best_epoch))
    return fits


def _history(pieces: list[tuple[_Part, int]], n_epochs: int) -> History:
    """Return the history of one fit, up to the last epoch of its shortest chunk."""
    losses = np.concatenate([part.losses[position][:n_epochs] for part, position in pieces], axis=1)
    losses = losses.mean(axis=1)
    durations = np.sum([part.durations[:n_epochs] for part, _ in pieces], axis=0)
    scores = pieces[0][0].scores[pieces[0][1]]
    history = History()  # `append` is five times as fast as `record`
    for epoch, values in enumerate(
        zip(losses.tolist(), scores[:n_epochs].tolist(), durations.tolist(), strict=True)
    ):
        loss, score, duration = values
        scored = {"valid_loss": score} if math.isfinite(score) else {}
        history.append({"batches": [], "epoch": epoch + 1, "train_loss": loss, **scored, "dur": duration})
    return history
