"""Atoms of forecasts that also have a continuous part, such as the zero of a hurdle."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skuq._typing import FloatArray
from skuq.displays._drawing import choose_rows
from skuq.distributions import Distribution

ATOM_ALPHA = 0.4

_LEAST = 0.1
"""Smallest probability of an atom that is found. It is the distance between the levels of the search."""

_MOST_ATOMS = 3
"""If forecasts have more atoms than this number, no atoms are drawn."""

_MOST_ROWS = 200


def shared_atoms(dist: Distribution) -> dict[float, FloatArray]:
    """Return a dict from the value of each atom to its probability in each row.

    The dict is empty for discrete forecasts and for forecasts with many different atoms.
    """
    if dist.has_density or dist.has_mass:
        return {}
    part = dist[choose_rows(len(dist), _MOST_ROWS)]
    found: set[float] = set()
    for level in np.arange(_LEAST / 2, 1.0, _LEAST):
        values = part._ppf(np.asarray(level))
        found.update(values[part.logpmf(values) >= np.log(_LEAST)].tolist())
    if len(found) > _MOST_ATOMS:
        return {}
    return {value: np.exp(dist.logpmf(value)) for value in sorted(found)}


def atom_label(values: Iterable[float], size: str) -> str:
    """Return the legend entry. The ``size`` names the property of the artist that shows the probability."""
    return f"Probability of {' and '.join(f'{value:g}' for value in values)} ({size})"
