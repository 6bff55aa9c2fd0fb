"""
A level map that does not increase the CRPS: ShrunkIsotonicRecalibrator
=======================================================================

With few rows, a recalibrator can make a calibrated forecast worse.
:class:`~skuq.recalibration.ShrunkIsotonicRecalibrator` estimates the same map of levels as
:class:`~skuq.recalibration.IsotonicRecalibrator`, but shrinks it toward the identity. This example compares
both recalibrators on a calibrated and on an overconfident forecast, with 100 calibration rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.displays import CalibrationCurveDisplay
from skuq.distributions import Normal
from skuq.metrics import crps_loss
from skuq.recalibration import IsotonicRecalibrator, ShrunkIsotonicRecalibrator

rng = np.random.default_rng(0)
mean = rng.normal(size=1100)
y = mean + rng.normal(size=1100)
fit, test = slice(100), slice(100, None)

fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for ax, (title, std) in zip(axes, {"calibrated": 1.0, "overconfident": 0.5}.items(), strict=True):
    forecast = Normal(mean, std)
    ax.set_title(title)
    print(f"{title}: CRPS {crps_loss(y[test], forecast[test]):.4f}")
    for recalibrator in (IsotonicRecalibrator(), ShrunkIsotonicRecalibrator()):
        name = type(recalibrator).__name__
        after = recalibrator.fit(forecast[fit], y[fit]).transform(forecast[test])
        print(f"  {name}: CRPS {crps_loss(y[test], after):.4f}")
        CalibrationCurveDisplay.from_predictions(y[test], after, name=name, ax=ax)
plt.show()

# %%
# ShrunkIsotonicRecalibrator does not change the calibrated forecast, but IsotonicRecalibrator makes it worse.
# Both improve the overconfident forecast by nearly the same amount.
