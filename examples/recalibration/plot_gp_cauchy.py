"""
Errors with infinite variance: GPCauchyRecalibrator
===================================================

:class:`~skuq.recalibration.GPCauchyRecalibrator` replaces each forecast with a Cauchy distribution, whose
estimated scale hardly depends on a few very large errors. In this example, the simulated errors have a Cauchy
distribution. A factor that is estimated with the Gaussian likelihood is then far too large.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.displays import CalibrationCurveDisplay
from skuq.distributions import Normal
from skuq.metrics import prediction_interval_coverage
from skuq.recalibration import GPCauchyRecalibrator, StdScalingRecalibrator

rng = np.random.default_rng(0)
mean = rng.uniform(0, 10, 1000)
y = mean + rng.standard_cauchy(1000)
dist = Normal(mean, np.ones(1000))

ax = None
for recalibrator in (StdScalingRecalibrator(), GPCauchyRecalibrator(random_state=0)):
    after = recalibrator.fit(dist[:500], y[:500]).transform(dist[500:])
    name = type(recalibrator).__name__.removesuffix("Recalibrator")
    width = np.median(np.diff(after.interval(0.5)))
    coverage = prediction_interval_coverage(y[500:], after, coverage=0.5)
    print(f"{name:10s} 50 % intervals {width:.1f} wide cover {coverage:.0%}")
    ax = CalibrationCurveDisplay.from_predictions(y[500:], after, name=name, ax=ax).ax_
plt.show()

# %%
# A few very large errors determine the factor of :class:`~skuq.recalibration.StdScalingRecalibrator`: its
# 50 % intervals have a width of 54 and contain 99 % of the targets. The 50 % intervals of the Cauchy
# distributions have a width of 1.9 and contain 46 % of the targets. For errors with finite variance, use
# another recalibrator.
