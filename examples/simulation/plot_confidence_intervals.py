"""
Do confidence intervals of the mean hold?
=========================================

The regression function of real data is unknown, so that a confidence interval cannot be compared with
it. :func:`~skuq.simulation.simulate_coverage` fits a model to many training sets of a
:class:`~skuq.simulation.KnownWorld`, and counts how often its prediction intervals contain the target at each
x (PICF), and its confidence intervals the function (CICF).
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge

from skuq.displays import PointwiseCoverageDisplay
from skuq.distributions import Normal
from skuq.regressors import LeastSquaresRegressor
from skuq.simulation import KnownWorld, simulate_coverage

world = KnownWorld(
    lambda X: Normal(X[:, 0], 0.1),
    lambda n, rng: rng.uniform(-2, 2, size=(n, 1)),
    n_train=25,
    n_test=100,
    random_state=1,
)
ax = None
for name, model in {
    "least squares": LeastSquaresRegressor(),
    "BayesianRidge": BayesianRidge(),
}.items():
    result = simulate_coverage(model, world, n_simulations=300, coverage=0.8, random_state=0)
    print(
        f"{name:13s} PICF {result.picf.mean():.0%}, CICF {result.cicf.mean():.0%}, spread of "
        f"the mean {result.spread.mean():.3f}, claimed {result.claimed_spread.mean():.3f}"
    )
    display = PointwiseCoverageDisplay.from_result(result, kind="confidence", x=0, name=name, ax=ax)
    ax = display.ax_
plt.show()

# %%
# The 80 % confidence intervals of :class:`sklearn.linear_model.BayesianRidge` contain the line in 52 % of the
# simulations: its posterior has no uncertainty of the constant term, so that it claims a standard deviation
# of 0.019 where the mean varies by 0.031 from one training set to the next. Near x = 0 the constant is all
# that is uncertain, and they hardly ever cover. Those of :class:`~skuq.regressors.LeastSquaresRegressor` hold
# at each x. The prediction intervals of both look alike, as the noise hides the error of the mean.
