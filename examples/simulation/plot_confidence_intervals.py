"""
Coverage of confidence intervals of the mean
============================================

The regression function of real data is unknown, so it cannot be compared with a confidence interval.
:func:`~skuq.simulation.simulate_coverage` fits a model to many training sets of a
:class:`~skuq.simulation.KnownProcess`. At each x, it computes the coverage of prediction intervals for the
target (PICF) and the coverage of confidence intervals for the function (CICF).
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge

from skuq.displays import PointwiseCoverageDisplay
from skuq.distributions import Normal
from skuq.regressors import LeastSquaresRegressor
from skuq.simulation import KnownProcess, simulate_coverage

process = KnownProcess(
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
    result = simulate_coverage(model, process, n_simulations=300, coverage=0.8, random_state=0)
    print(
        f"{name:13s} PICF {result.picf.mean():.0%}, CICF {result.cicf.mean():.0%}, spread of "
        f"the mean {result.spread.mean():.3f}, claimed {result.claimed_spread.mean():.3f}"
    )
    display = PointwiseCoverageDisplay.from_result(result, kind="confidence", x=0, name=name, ax=ax)
    ax = display.ax_
plt.show()

# %%
# The 80 % confidence intervals of :class:`sklearn.linear_model.BayesianRidge` contain the line in 52 % of the
# simulations. The reason is that the posterior of BayesianRidge does not include the uncertainty of the
# intercept. The predicted standard deviation of the mean is 0.019, but the standard deviation of the mean
# over training sets is 0.031. Near x = 0, only the intercept is uncertain, and the confidence intervals
# hardly ever contain the line. The confidence intervals of :class:`~skuq.regressors.LeastSquaresRegressor`
# have correct coverage at each x. The prediction intervals of both models are similar, because the noise is
# larger than the error of the mean.
