"""Skorch net that trains all members of a stacked module at the same time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from skorch.callbacks import Callback, EpochTimer, PrintLog
from torch import Tensor, nn

from skuq._typing import FloatArray
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._probabilistic_net import ProbabilisticNet
from skuq.neural._training.batches import Batch, MemberBatches
from skuq.neural._training_loss import TrainingLoss

_TORCH_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
_BATCH_EVENTS = ("on_batch_begin", "on_batch_end", "on_grad_computed")


class MemberObjective(nn.Module):
    """Mean loss over rows for each member."""

    # The losses of the members are summed, not averaged, so that the gradient of each member is the same as
    # in a separate training. Each loss in `losses` applies to a number of successive members.

    def __init__(self, losses: Sequence[tuple[TrainingLoss, int]]) -> None:
        super().__init__()
        self.losses = tuple(losses)

    def forward(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the losses (M,), and the gradient of their sum for the outputs (B, M, k)."""
        if len(self.losses) == 1:
            values, gradient = self.losses[0][0].with_gradient(output, batch.y)
        else:
            sizes = [size for _, size in self.losses]
            outputs, targets = torch.split(output, sizes, dim=1), torch.split(batch.y, sizes, dim=1)
            parts = zip(self.losses, outputs, targets, strict=True)
            done = [loss.with_gradient(part, y) for (loss, _), part, y in parts]
            values = torch.cat([value for value, _ in done], dim=1)
            # (M, k, B) is the memory layout of the backward pass
            gradient = torch.cat([slope.permute(1, 2, 0) for _, slope in done]).permute(2, 0, 1)
        if batch.weight is None:
            return values.mean(dim=0), gradient * (1 / len(batch))
        weight = batch.weight / len(batch)
        return (weight * values).sum(dim=0), gradient * weight.unsqueeze(-1)


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
        self._sends_batch_events = any(self._is_handled(event) for event in _BATCH_EVENTS)

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

    def _is_handled(self, event: str) -> bool:
        return any(getattr(type(each), event) is not getattr(Callback, event) for _, each in self.callbacks_)

    def train_step(self, batch: Batch, **fit_params: Any) -> dict[str, Tensor]:
        module: StackedModule = self.module_
        if not module.training:  # a callback may have made a prediction
            self._set_training(True)
        output = module(batch.x)
        losses, gradient = self.criterion_(output, batch)
        penalty = module.penalty()
        module.backward(output, gradient, penalty)
        if penalty is not None:
            losses = losses + penalty.detach()
        if self._sends_batch_events:
            parameters = [("flat", module.flat)]
            self.notify("on_grad_computed", named_parameters=parameters, batch=batch, training=True)
        if self.clip_norm is not None:
            module.clip_gradients(self.clip_norm)
        self.optimizer_.step()
        return {"loss": losses, "y_pred": output}
