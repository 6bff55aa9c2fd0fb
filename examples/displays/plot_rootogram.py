"""
Are there too many zeros? RootogramDisplay
==========================================

:class:`~skuq.displays.RootogramDisplay` compares the observed frequency of each count with the sum of its
predicted probabilities. Each bar hangs from the square root of the expected frequency. If a bar ends below
zero, its count is more frequent than predicted.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from skuq.displays import RootogramDisplay
from skuq.distributions import Hurdle, ScipyDistribution, Truncated
from skuq.metrics import crps_loss, nll_loss

rng = np.random.default_rng(0)
mean = np.exp(rng.normal(1.0, 0.4, size=1500))
poisson = ScipyDistribution(stats.poisson(mean))
forecasts = {
    "Poisson": poisson,
    "with 25 % additional zeros": Hurdle(0.25 + 0.75 * np.exp(-mean), Truncated(poisson, 0.0)),
}
y = forecasts["with 25 % additional zeros"].sample(1, random_state=1)[:, 0]

_, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), sharey=True, layout="constrained")
for ax, (name, dist) in zip(axes, forecasts.items(), strict=True):
    display = RootogramDisplay.from_predictions(y, dist, name=name, ax=ax)
    zeros = display.expected[0]
    print(f"{name}: expected zeros {zeros:.0f} of {display.observed[0]:.0f}, ", end="")
    print(f"CRPS {crps_loss(y, dist):.3f}, log score {nll_loss(y, dist):.3f}")
plt.show()

# %%
# The data have 467 zeros, but the Poisson forecasts predict only 132: the bar at zero ends far below 0,
# and the bars of the small counts end above 0. If the forecasts include additional zeros, all bars end
# between the dashed lines (the warning limits). The CRPS decreases from 1.17 to 1.05, and the log score
# decreases from 2.11 to 1.82.
