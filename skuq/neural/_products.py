"""Who multiplies the float32 matrices of networks on the CPU: MKL, or oneDNN where that is faster.

On processors of AMD with AVX-512, MKL was no faster than AVX2 can be, and oneDNN twice as fast, though a call
takes some ten microseconds longer. torch asks oneDNN only where products may be rounded to bfloat16. oneDNN
does not round them without hardware for it; whether it does is found out here before it is asked at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

import torch
from torch import Tensor

__all__ = ["fast_products"]

_MULTIPLICATIONS_WORTH_ONEDNN = 4_000_000
_ROWS_WORTH_ONEDNN = 32


def fast_products(weights: Tensor, n_multiplications: int, n_rows: int) -> AbstractContextManager[None]:
    """Return a context in which torch has the faster library for its products, as exact as the other.

    Parameters
    ----------
    weights : Tensor
        Says device and type.
    n_multiplications : int
        Of the largest product that is computed inside.
    n_rows : int
        Of a batch.
    """
    large = n_multiplications >= _MULTIPLICATIONS_WORTH_ONEDNN and n_rows >= _ROWS_WORTH_ONEDNN
    if not (large and weights.is_cpu and weights.dtype == torch.float32):
        return nullcontext()
    return _ONEDNN.asked() if _ONEDNN.is_free and _onednn_is_faster_and_exact() else nullcontext()


class _SharedSetting:
    """The setting of torch by which it asks oneDNN: one for all threads, so that the last to leave resets it.

    What the user has set stays.
    """

    def __init__(self) -> None:
        self._lock, self._n_inside = Lock(), 0

    @property
    def _settings(self) -> Any:
        return getattr(torch.backends.mkldnn, "matmul", None)

    @property
    def is_free(self) -> bool:
        """Whether this torch has the setting, and nobody but this class has set it."""
        return self._n_inside > 0 or getattr(self._settings, "fp32_precision", "") == "none"

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Have torch ask oneDNN inside."""
        settings = self._settings
        with self._lock:
            mine = self.is_free
            if mine:
                self._n_inside += 1
                settings.fp32_precision = "bf16"
        try:
            yield
        finally:
            if mine:
                with self._lock:
                    self._n_inside -= 1
                    if not self._n_inside:
                        settings.fp32_precision = "none"


_ONEDNN = _SharedSetting()


@cache
def _onednn_is_faster_and_exact() -> bool:
    """Say whether oneDNN can be asked, on a processor where that gains, and does not round."""
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    if "AMD" not in capabilities.get("cpu_name", "") or not capabilities.get("avx512_bw"):
        return False
    first, second = torch.linspace(-1, 1, 40 * 64 * 64).view(40, 64, 64), torch.linspace(0, 1, 64 * 32)
    with _ONEDNN.asked():
        product = torch.bmm(first, second.view(1, 64, 32).expand(40, -1, -1))
    error = product - torch.matmul(first.double(), second.view(64, 32).double())
    return bool(error.abs().max() < 1e-4)
