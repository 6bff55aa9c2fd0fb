"""Pointwise coverage in simulations.

The data comes from a known process, an estimated process or a large data set.
"""

from skuq.simulation._estimated_process import EstimatedProcess
from skuq.simulation._known_process import KnownProcess, make_known_process
from skuq.simulation._simulate_coverage import simulate_coverage
from skuq.simulation._split_data import SplitData

__all__ = [
    "EstimatedProcess",
    "KnownProcess",
    "SplitData",
    "make_known_process",
    "simulate_coverage",
]
