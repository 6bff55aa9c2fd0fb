"""Devices and threads of the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from skuq._validation import check_option

DEVICES = ("auto", "cpu", "cuda")
DTYPES = {"float32": torch.float32, "float64": torch.float64}

_MEMBERS_WORTH_A_GPU = 32
"""Smallest number of networks for which a GPU is used. A step on a GPU takes the same time for one network as
for hundreds of networks."""


def read_device(device: str, n_members: int) -> torch.device:
    check_option(device, "device", DEVICES)
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise ValueError(
            "`device` is 'cuda', but torch finds no GPU. Use device='auto', or install torch with support "
            "for CUDA."
        )
    worth = available and n_members >= _MEMBERS_WORTH_A_GPU
    return torch.device("cuda" if device == "cuda" or (device == "auto" and worth) else "cpu")


def read_dtype(dtype: str) -> torch.dtype:
    return DTYPES[check_option(dtype, "dtype", tuple(DTYPES))]


@contextmanager
def thread_limit(n_threads: int = 1) -> Iterator[None]:
    """Limit the number of torch threads in the context. With more threads, small networks are slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded_torch(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the random generators of torch in the context, and restore their states afterward."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if on_gpu else []):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed all GPUs
        if on_gpu:
            torch.cuda.manual_seed(seed)
        yield
