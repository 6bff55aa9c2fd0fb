"""Pointwise coverage by simulation, in worlds whose truth is known, estimated or a large data set."""

from skuq.simulation._estimated_world import EstimatedWorld
from skuq.simulation._known_world import KnownWorld
from skuq.simulation._make_known_world import make_known_world
from skuq.simulation._pointwise_coverage import PointwiseCoverage
from skuq.simulation._simulate_coverage import simulate_coverage
from skuq.simulation._split_world import SplitWorld

__all__ = [
    "EstimatedWorld",
    "KnownWorld",
    "PointwiseCoverage",
    "SplitWorld",
    "make_known_world",
    "simulate_coverage",
]
