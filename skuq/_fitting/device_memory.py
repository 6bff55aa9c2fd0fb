"""Memory of a GPU that torch keeps for later allocations."""

from __future__ import annotations

import gc
import sys


def free_device_memory() -> None:
    """Return the unused memory of a GPU to the driver. Without torch or a GPU in use, do nothing."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    gc.collect()
    torch.cuda.empty_cache()
