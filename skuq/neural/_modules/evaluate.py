"""Outputs of trained networks for new rows, computed in blocks of limited size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from skuq._typing import FloatArray
from skuq.neural._losses import variance_of
from skuq.neural._modules.stacked import StackedModule

_NUMBERS_AT_ONCE = 1 << 21
"""Maximum number of hidden values in a block of rows."""


def rows_at_once(values_a_row: int) -> int:
    return max(64, _NUMBERS_AT_ONCE // max(1, values_a_row))


def to_predict(module: StackedModule, device: torch.device) -> StackedModule:
    dtype = torch.float64 if module.any_precision else module.flat.dtype
    return module.take(slice(None)).to(device=device, dtype=dtype).eval()


def blocks_of(X: FloatArray, values_a_row: int, like: Tensor) -> Iterator[Tensor]:
    """Yield blocks of rows (b, d) with the type and the device of ``like``."""
    step = rows_at_once(values_a_row)
    for start in range(0, len(X), step):
        yield torch.as_tensor(X[start : start + step], dtype=like.dtype, device=like.device)


def output_blocks(
    module: StackedModule, X: FloatArray, device: torch.device, values_a_row: int | None = None
) -> Iterator[Tensor]:
    """Yield the k outputs of all members for blocks of b rows, shape (b, M, k), in float64."""
    module = to_predict(module, device)
    values = (values_a_row or module.values_a_row) * module.n_members
    with torch.no_grad():
        for block in blocks_of(X, values, module.flat):
            yield module(block).to("cpu", torch.float64)


def member_outputs(module: StackedModule, X: FloatArray, device: torch.device) -> FloatArray:
    """Return the k outputs of all members for all rows, shape (n, M, k)."""
    outputs: FloatArray = torch.cat(list(output_blocks(module, X, device))).numpy()
    return outputs


def member_moments(
    module: StackedModule, X: FloatArray, device: torch.device, n_outputs: int = 2
) -> tuple[FloatArray, FloatArray]:
    """Return the means and variances (n, M) that the members predict.

    With one output, the variances are 0.
    """
    outputs = member_outputs(module, X, device)
    if n_outputs == 1:
        return outputs[..., 0], np.zeros(outputs.shape[:2])
    return outputs[..., 0], variance_of(torch.from_numpy(outputs[..., 1])).numpy()
