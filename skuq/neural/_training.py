"""Joint training of several fits. Networks with equal options are stacked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from skorch.callbacks import Callback, EpochTimer, PrintLog
from skorch.history import History
from torch import Tensor, nn

from skuq._compat import run_parallel
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.neural._losses import TrainingLoss
from skuq.neural._plan import Batch, FitPlan, MemberBatches, MemberRows, TrainingOptions
from skuq.neural._probabilistic_net import ProbabilisticNet
from skuq.neural._stacked import (
    MemberSeed,
    StackedModule,
    read_device,
    read_dtype,
    rows_at_once,
    seeded_torch,
    thread_limit,
)


class ScoringRows(NamedTuple):
    """Scored rows of all fits: row number, fit, target and weight of each row."""

    score: TrainingLoss
    rows: Tensor
    fits: Tensor
    y: Tensor
    weight: Tensor


class KeepBestEpoch(Callback):
    """Callback that scores each fit every few epochs and keeps the weights of its best epoch."""

    # The score of a row is the score of the averaged forecast of the members that are not trained on this
    # row. The scores of individual members are often best before the mean is learned. `data`
    # contains the features and targets of all fits in the order of `plans`. With `patience`, a fit ends at
    # this multiple of its best epoch, but not before `fewest` epochs. The weights of a fit that has ended no
    # longer change. The training ends when all fits have ended.

    def __init__(
        self,
        plans: Sequence[FitPlan],
        data: tuple[Tensor, Tensor],
        every: int,
        patience: float | None = None,
        fewest: int = 0,
    ) -> None:
        self.plans, self.data, self.every = plans, data, every
        self.patience, self.fewest = np.inf if patience is None else patience, fewest

    def initialize(self) -> KeepBestEpoch:
        """Find the rows on which each member is scored, and the rows of each score."""
        y = self.data[1]
        sizes = [len(plan.seeds) for plan in self.plans]
        offsets = np.cumsum([0, *(len(plan.y) for plan in self.plans)])
        rows_of_members = [
            np.flatnonzero(mask) + offset
            for plan, offset in zip(self.plans, offsets, strict=False)
            for mask in plan.scored_rows().T
        ]
        self._member_rows = self._as_matrix(rows_of_members)
        weights = [np.ones(len(p.y)) if p.score_weight is None else p.score_weight for p in self.plans]
        weight = torch.as_tensor(np.concatenate(weights), dtype=y.dtype, device=y.device)
        self._scoring_rows = self._rows_by_score(np.unique(np.concatenate(rows_of_members)), weight)
        self._total_weight = weight.new_zeros(len(self.plans))
        for group in self._scoring_rows:
            self._total_weight.index_add_(0, group.fits, group.weight)
        self._fit_of_member = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self._fit_of_member = self._fit_of_member.to(y.device)
        self.scores_: list[FloatArray] = []
        self.best_epochs_ = np.zeros(len(sizes), dtype=int)
        self.n_epochs_ = np.zeros(len(sizes), dtype=int)
        self.running = np.ones(len(sizes), dtype=bool)  # fits that need further epochs
        self._best_scores = np.full(len(sizes), np.inf)
        self._best_state: dict[str, Tensor] = {}
        self._latest = math.nan
        return self

    def _as_matrix(self, rows_of_members: list[IntArray]) -> Tensor:
        y = self.data[1]
        padding_row = len(y)  # sums for this row are not used
        longest = max(len(rows) for rows in rows_of_members)
        matrix = np.full((len(rows_of_members), longest), padding_row)
        for member, rows in enumerate(rows_of_members):
            matrix[member, : len(rows)] = rows
        counts = np.bincount(matrix.ravel(), minlength=padding_row + 1)[:-1]
        # the sums of rows without members are divided by 1
        self._n_members_per_row = torch.as_tensor(counts, dtype=y.dtype, device=y.device).clamp(min=1)
        return torch.from_numpy(matrix).to(y.device)

    def _rows_by_score(self, scored: IntArray, weight: Tensor) -> list[ScoringRows]:
        fit_of_row = np.repeat(np.arange(len(self.plans)), [len(plan.y) for plan in self.plans])[scored]
        device = self.data[0].device
        scores: list[TrainingLoss] = []  # a list, because losses of users may not be hashable
        for plan in self.plans:
            if plan.selection_score is not None and plan.selection_score not in scores:
                scores.append(plan.selection_score)
        groups = []
        for score in scores:
            mine = np.array([plan.selection_score == score for plan in self.plans])[fit_of_row]
            rows, fits = (torch.from_numpy(numbers[mine]).to(device) for numbers in (scored, fit_of_row))
            groups.append(ScoringRows(score, rows, fits, self.data[1][rows], weight[rows]))
        return groups

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Score the fits, and copy the weights of each fit that has improved."""
        epoch = len(net.history)
        scores, better = np.full(len(self.plans), np.nan), np.zeros(len(self.plans), dtype=bool)
        if epoch % self.every == 0 or epoch == net.max_epochs:
            scores = self._score(net.module_)
            better = self.running & (scores < self._best_scores)
            # NaN and infinite scores are never better
            self._best_scores = np.where(better, scores, self._best_scores)
            self.best_epochs_ = np.where(better, epoch, self.best_epochs_)
            self._copy_state(net.module_, better)
            finite = scores[np.isfinite(scores)]
            self._latest = float(finite.mean()) if len(finite) else math.inf
        self.scores_.append(scores)
        self.n_epochs_[self.running] = epoch
        last = np.maximum(
            self.fewest, self.patience * np.where(self.best_epochs_ > 0, self.best_epochs_, np.inf)
        )
        self.running &= epoch < last
        # callbacks such as skorch's EarlyStopping expect a value in every epoch
        net.history.record("valid_loss", self._latest)
        net.history.record("valid_loss_best", bool(better.any()))

    def _copy_state(self, module: StackedModule, fits: BoolArray) -> None:
        """Copy the weights and buffers of the members of the given fits."""
        tensors = module.state_dict()
        if not self._best_state:
            # the first copy contains all fits; later copies overwrite parts of it
            self._best_state = {name: value.detach().clone() for name, value in tensors.items()}
            return
        if not fits.any():
            return
        members = torch.as_tensor(fits, device=self._fit_of_member.device)[self._fit_of_member]
        for name, value in tensors.items():
            self._best_state[name][members] = value.detach()[members]

    def on_train_end(self, net: Any, **kwargs: Any) -> None:
        """Restore the best weights. A fit without a finite score keeps its last weights."""
        unscored = np.isinf(self._best_scores)
        self.best_epochs_[unscored] = len(self.scores_)
        if self._best_state:
            self._copy_state(net.module_, unscored)
            with torch.no_grad():
                for name, value in net.module_.state_dict().items():
                    value.copy_(self._best_state[name])

    def _score(self, module: StackedModule) -> FloatArray:
        """Return the score of each fit. NaN is replaced by infinity."""
        X, y = self.data
        module.eval()
        # sums over the members of each row; the last entry belongs to the padding row
        totals: list[Tensor] = []
        step = rows_at_once(module.values_a_row * module.n_members)
        with torch.no_grad():
            for member_rows in torch.split(self._member_rows, step, dim=1):
                rows = member_rows.clamp(max=len(y) - 1)  # the padding row uses the features of the last row
                output = module.forward_members(X[rows].transpose(1, 2))
                # all scores of one net need the same parts
                parts = self._scoring_rows[0].score.averaged_parts(output)
                totals = totals or [y.new_zeros(len(y) + 1) for _ in parts]
                for total, part in zip(totals, parts, strict=True):
                    total.index_add_(0, member_rows.flatten(), part.flatten())
            averages = [total[:-1] / self._n_members_per_row for total in totals]
            value = torch.zeros_like(self._total_weight)
            for score, scored, fits, of_rows, weight in self._scoring_rows:
                row_scores = score.score_average([average[scored] for average in averages], of_rows)
                value.index_add_(0, fits, weight * row_scores)
            scores = (value / self._total_weight).cpu().to(torch.float64).numpy()
        return np.where(np.isnan(scores), np.inf, scores)  # NaN means that a fit has no scored row


class EndTraining(Callback):
    """Callback that ends the training when `KeepBestEpoch` needs no further epochs."""

    def __init__(self, keeper: KeepBestEpoch) -> None:
        self.keeper = keeper

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Raise the exception with which callbacks of skorch end a training."""
        if not self.keeper.running.any():
            raise KeyboardInterrupt


_TORCH_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
_BATCH_EVENTS = ("on_batch_begin", "on_batch_end", "on_grad_computed")


class MemberObjective(nn.Module):
    """Mean loss over rows for each member."""

    # The losses of the members are summed, not averaged, so that the gradient of each member is the same as
    # in a separate training. Each loss in `losses` applies to a number of successive members.

    def __init__(self, losses: Sequence[tuple[TrainingLoss, int]]) -> None:
        super().__init__()
        self.losses = tuple(losses)

    def forward(self, output: Tensor, batch: Batch) -> Tensor:
        """Return the losses (M,) for outputs (B, M, k)."""
        if len(self.losses) == 1:
            values = self.losses[0][0](output, batch.y)
        else:
            sizes = [size for _, size in self.losses]
            outputs, targets = torch.split(output, sizes, dim=1), torch.split(batch.y, sizes, dim=1)
            parts = zip(self.losses, outputs, targets, strict=True)
            values = torch.cat([loss(part, y) for (loss, _), part, y in parts], dim=1)
        return values.mean(dim=0) if batch.weight is None else (batch.weight * values).mean(dim=0)


class StackedNet(ProbabilisticNet):
    """Skorch net of many members. The argument of ``fit`` may be `MemberBatches`."""

    # Events of single batches are sent only if a callback handles them, and losses are copied from the device
    # once per epoch. Otherwise, both would take more time than the training of a few members.
    # `member_losses_` contains the mean losses (M,) of each epoch.

    def __init__(
        self,
        module: StackedModule,
        *,
        criterion: Any,
        learning_rates: Sequence[float],
        lr_schedule: str = "cosine",
        clip_norm: float | None = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, criterion=criterion, lr=max(learning_rates), **kwargs)
        self.learning_rates = learning_rates
        self.lr_schedule = lr_schedule
        self.clip_norm = clip_norm

    @property
    def _default_callbacks(self) -> list[tuple[str, Callback]]:
        timer = [("epoch_timer", EpochTimer())]
        return [*timer, ("print_log", PrintLog())] if self.verbose else timer

    def initialize_optimizer(self, triggered_directly: bool | None = None) -> StackedNet:
        """Create the optimizer. Members with equal learning rates have one parameter group."""
        self.module_.begin_training()
        options = self.get_params_for("optimizer")
        options.pop("lr", None)
        one_way = {"fused", "foreach", "differentiable"}.intersection(options)
        if self.optimizer is torch.optim.Adam and _TORCH_VERSION >= (2, 4) and not one_way:
            options["fused"] = True
        self.optimizer_ = self.optimizer(self._parameter_groups(), lr=self.lr, **options)
        self.base_lrs_ = [group["lr"] for group in self.optimizer_.param_groups]
        return self

    def _parameter_groups(self) -> list[dict[str, Any]]:
        flat, rates = self.module_.flat, list(self.learning_rates)
        if len(set(rates)) == 1:
            return [{"params": [flat], "lr": rates[0]}]
        groups, start = [], 0
        for stop in range(1, len(rates) + 1):
            if stop == len(rates) or rates[stop] != rates[start]:
                part = nn.Parameter(flat.detach()[start:stop])
                part.grad = flat.grad[start:stop]
                groups.append({"params": [part], "lr": rates[start]})
                start = stop
        return groups

    # ------------------------------------------------------------------------- the training loop

    def check_data(self, X: Any, y: Any) -> None:
        """Check nothing, because the estimator has already checked the data."""

    def get_split_datasets(self, X: Any, y: Any = None, **fit_params: Any) -> tuple[Any, None]:
        return X, None

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        return dataset if isinstance(dataset, MemberBatches) else super().get_iterator(dataset, training)

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Reset the losses, and record whether a callback handles events of single batches."""
        self.member_losses_: list[FloatArray] = []
        self.stopped_ = False
        self._sends_batch_events = any(
            getattr(type(each), event) is not getattr(Callback, event)
            for event in _BATCH_EVENTS
            for _, each in self.callbacks_
        )

    def notify(self, method_name: str, **cb_kwargs: Any) -> None:
        """Call the callbacks, and record whether a callback stops the training."""
        try:
            super().notify(method_name, **cb_kwargs)
        except KeyboardInterrupt:
            self.stopped_ = True
            raise

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        super().on_epoch_begin(net, **kwargs)
        fraction = len(self.member_losses_) / self.max_epochs
        self.module_.begin_epoch(fraction)
        if self.lr_schedule == "cosine":
            factor = 0.5 * (1 + math.cos(math.pi * fraction))
            for group, lr in zip(self.optimizer_.param_groups, self.base_lrs_, strict=True):
                group["lr"] = factor * lr

    def run_single_epoch(
        self, iterator: Any, training: bool, prefix: str, step_fn: Any, **fit_params: Any
    ) -> None:
        if iterator is None:
            return
        self._set_training(training)
        total: Tensor | float = 0.0
        for batch in iterator:
            if self._sends_batch_events:
                self.notify("on_batch_begin", batch=batch, training=training)
            step = step_fn(batch, **fit_params)
            total = total + step["loss"]
            if self._sends_batch_events:
                step["loss"] = step["loss"].mean()
                self.history.record_batch(f"{prefix}_loss", step["loss"].item())
                self.history.record_batch(f"{prefix}_batch_size", len(batch))
                self.notify("on_batch_end", batch=batch, training=training, **step)
        if not self._sends_batch_events:
            self.history.new_batch()  # skorch's Checkpoint needs a batch
        losses = (torch.as_tensor(total) / len(iterator)).cpu().to(torch.float64).numpy()
        self.member_losses_.append(losses)
        self.history.record(f"{prefix}_loss", float(losses.mean()))
        self.history.record(f"{prefix}_batch_count", len(iterator))

    def train_step(self, batch: Batch, **fit_params: Any) -> dict[str, Tensor]:
        module: StackedModule = self.module_
        if not module.training:  # a callback may have made a prediction
            self._set_training(True)
        output = module(batch.x)
        losses, penalty = self.criterion_(output, batch), module.penalty()
        if penalty is not None:
            losses = losses + penalty
        module.backward(losses)
        if self._sends_batch_events:
            parameters = [("flat", module.flat)]
            self.notify("on_grad_computed", named_parameters=parameters, batch=batch, training=True)
        if self.clip_norm is not None:
            module.clip_gradients(self.clip_norm)
        self.optimizer_.step()
        return {"loss": losses.detach(), "y_pred": output.detach()}


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
        work = (partial(_train_chunk, mine, chunk, options, device, None) for mine, chunk in tasks)
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
        net.partial_fit(batches, None)
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
    given = options.net_params or {}
    try:
        net: StackedNet = StackedNet(module, **{**settings, **given}).initialize()
    except (AttributeError, TypeError, ValueError) as error:  # skorch raises these for invalid parameters
        names = [*given, *(["callbacks"] if options.callbacks else [])]
        if not names:
            raise
        raise ValueError(
            f"`net_params` must contain parameters of skorch.NeuralNet with valid values, got {names}. "
            f"{type(error).__name__}: {error}"
        ) from error
    return net


def _check_trained(net: StackedNet) -> None:
    """Raise an error if weights are not finite, or if the user interrupted the training."""
    n_epochs = len(net.member_losses_)
    if n_epochs < net.max_epochs and not net.stopped_:
        raise KeyboardInterrupt
    if not n_epochs:
        raise ValueError(
            "`net_params['callbacks']` must not stop the training before the end of the first epoch. "
            "Leave out the callback that stops it."
        )
    if not torch.isfinite(net.module_.flat).all():
        raise ValueError(
            "the training diverged: weights are not finite. Use a lower `learning_rate`, a `clip_norm` in "
            "`net_params`, or `keep_best`, which keeps the weights of an earlier epoch."
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
        net = _net(module, [plan], options, [], torch.device("cpu"), epochs)
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
