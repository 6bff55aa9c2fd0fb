"""Parts of the CRPS in a report. All parts are computed at once, for the values and the draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skuq._typing import FloatArray
from skuq._units import unit_of
from skuq.distributions import Distribution
from skuq.evaluation._decomposition.problem import Problem
from skuq.evaluation._resampling import Rows
from skuq.metrics._internal import DEFAULT_LEVELS, MetricSpec, crps_sections

COLUMNS = ("miscalibration", "discrimination", "uncertainty")

MOST_SIMULATED, FEWEST_SIMULATIONS = 400_000, 40
"""Maximum number of targets in all draws for the parts, and smallest number of draws.

There are draws if there are at most 10 000 rows. With more rows, the miscalibration of a calibrated
forecast is below 1 % of the CRPS.
"""


class CRPSParts:
    """Parts of the CRPS of one forecast. All metrics with the same levels use the same parts."""

    def __init__(self, rows: Rows, dist: Distribution) -> None:
        self.rows, self.dist = rows, dist
        self._problems: dict[tuple[float, ...], Problem] = {}
        self._values: dict[tuple[float, ...], FloatArray] = {}

    def value(self, spec: MetricSpec, options: Mapping[str, Any]) -> float:
        key = self._prepare(options)
        return max(float(self._values[key][COLUMNS.index(str(spec.crps_part))]), 0.0)

    def simulate(self, options: Mapping[str, Any], n: int, rng: np.random.RandomState) -> FloatArray:
        """Return the parts for targets that are drawn from the forecasts, shape (r, 3).

        With many rows, there are no draws, so r is 0.
        """
        possible = int(MOST_SIMULATED // max(self.rows.total, 1))
        if possible < FEWEST_SIMULATIONS:
            return np.empty((0, 3))
        problem = self._problems[self._prepare(options)]
        share = problem.sections.share
        blocks = [
            problem.scaled(np.moveaxis(sections.parts(y), 2, 1) @ share)
            for sections, y in problem.redrawn(min(n, possible), rng)
        ]
        return np.concatenate([np.empty((0, 3)), *blocks])

    def _prepare(self, options: Mapping[str, Any]) -> tuple[float, ...]:
        levels = options.get("levels", DEFAULT_LEVELS)
        key = tuple(np.ravel(levels).tolist())
        if key not in self._problems:
            unit, weight = unit_of(self.rows.y), self.rows.weight
            sections = crps_sections(self.dist, levels, unit)
            problem = Problem(self.rows, sections, self.dist, unit, unit)
            parts = problem.parts(problem.y[np.newaxis], None if weight is None else weight[np.newaxis])
            self._problems[key], self._values[key] = problem, sections.share @ parts[0, :, 1:]
        return key
