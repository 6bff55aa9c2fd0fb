"""Plot of the dispersion of a linear pool, drawn when the documentation is built.

conf.py calls `write_pictures`; docs/explanation/pools.rst includes the file.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from recalibration_pictures import AFTER, BEFORE, OTHER, TRUTH, write_figures

from skuq.distributions import Mixture, Normal
from skuq.recalibration import IsotonicRecalibrator


def draw_dispersion() -> Figure:
    """Return the calibration of a member, of the pool of both, and of the recalibrated pool."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8000, 2))
    y = x.sum(axis=1) + 0.5 * rng.standard_normal(8000)
    members = [Normal(x[:, j], np.sqrt(1.25)) for j in (0, 1)]
    pool = Mixture(members)
    recalibrated = IsotonicRecalibrator().fit(pool[:4000], y[:4000]).transform(pool)
    forecasts = {
        "member": (members[0], OTHER),
        "pool": (pool, BEFORE),
        "recalibrated pool": (recalibrated, AFTER),
    }
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    coverages = np.linspace(0.02, 0.98, 49)
    for name, (dist, style) in forecasts.items():
        pit = dist[4000:].pit(y[4000:])
        left.hist(pit, bins=20, range=(0, 1), density=True, histtype="step", label=name, **style)
        observed = [np.mean(np.abs(2 * pit - 1) <= coverage) for coverage in coverages]
        right.plot(coverages, observed, label=name, **style)
    left.axhline(1.0, **TRUTH)
    right.plot([0, 1], [0, 1], **TRUTH)
    left.set(title="probability integral transform", xlabel="level of the target", xlim=(0, 1), yticks=[])
    right.set(title="coverage", xlabel="nominal", ylabel="observed", xlim=(0, 1), ylim=(0, 1))
    right.legend(loc="lower right")
    return figure


def write_pictures(app: Any) -> None:
    """Write the plot of docs/explanation/pools.rst."""
    write_figures(app, {"pool-dispersion": draw_dispersion})
