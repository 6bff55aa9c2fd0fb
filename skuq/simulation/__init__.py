"""Pointwise coverage by simulation, in worlds whose truth is known, estimated or a large data set."""

from skuq.simulation._known_world import KnownWorld
from skuq.simulation._make_known_world import make_known_world
from skuq.simulation._pointwise_coverage import PointwiseCoverage
from skuq.simulation._simulate_coverage import simulate_coverage

__all__ = [
    "KnownWorld",
    "PointwiseCoverage",
    "make_known_world",
    "simulate_coverage",
]
