"""
Decide with a distribution
==========================

How much should I stock? When should I intervene? Is the better forecast worth its
price? The answers depend on costs. This page computes the answers for real data, the
fuel economy of 392 cars. A car drives 100 miles through a region without gas stations
and needs ``y`` gallons:
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import KFold

from skuq.datasets import load_auto_mpg
from skuq.distributions import Normal
from skuq.model_selection import cross_val_predict_dist
from skuq.regressors import LeastSquaresRegressor, UncertaintyRegressor

X, mpg = load_auto_mpg(return_X_y=True)
y = 100 / mpg

# %%
# Two models predict the consumption out of fold. The first is a linear model with
# constant noise. The second is a forest with a distribution that depends on X:

linear = LeastSquaresRegressor()
forest = UncertaintyRegressor(
    ExtraTreesRegressor(100, min_samples_leaf=2, random_state=0), random_state=0
)
folds = KFold(5, shuffle=True, random_state=0)
forecasts = {
    "linear": cross_val_predict_dist(linear, X, y, cv=folds),
    "forest": cross_val_predict_dist(forest, X, y, cv=folds),
}

# %%
# How much to stock
# -----------------
#
# A missing gallon costs 20, because a truck has to bring it, and a leftover gallon
# costs 1 for its transport. The optimal stock is a quantile, not the mean. If a missing
# gallon costs u and a leftover gallon costs o, the level of the quantile is ``u / (u +
# o)``. This is known as the newsvendor problem.

from skuq.evaluation import expected_loss, optimal_action

missing, left_over = 20.0, 1.0
level = missing / (missing + left_over)


def cost(stock, need):
    return missing * np.maximum(need - stock, 0) + left_over * np.maximum(
        stock - need, 0
    )


rows = {}
for name, dist in forecasts.items():
    stock = optimal_action(dist, "pinball", levels=level)
    expected = (missing + left_over) * expected_loss(dist, "pinball", levels=level)
    rows[name] = {
        "expected cost": expected.mean(),
        "cost": cost(stock, y).mean(),
        "cost of the mean": cost(dist.mean(), y).mean(),
    }
costs = pd.DataFrame(rows).T
costs.round(2)

# %%
# Compare models by the *observed* cost, not by the expected cost. If the distributions
# of a model are too narrow, the expected cost of the model is too small. For the linear
# model, the expected cost is 1.21, but the observed cost is 1.53. The observed cost of
# the forest is 1.32. If the stock is the predicted mean instead of the quantile, the
# cost is about three times as large, because a missing gallon is expensive.
#
# For any other cost, pass a function of the action and the outcome. In the next
# example, fuel is sold in half-gallon cans, and each can has a deposit of 0.1.
# ``actions`` lists the possible stocks:


def cost_with_deposit(stock, need):
    return cost(stock, need) + 0.1 * np.ceil(2 * stock)


cans = np.arange(2.0, 12.0, 0.5)
in_cans = optimal_action(forecasts["forest"], cost_with_deposit, actions=cans)
pd.Series(in_cans).value_counts().sort_index()

# %%
# Without ``actions``, any number is a possible action. skuq then finds the action with
# the lowest expected cost to within 0.001 standard deviations. For the cost without a
# deposit, this action is the same quantile as above:

searched = optimal_action(forecasts["linear"], cost)
exact = optimal_action(forecasts["linear"], "pinball", levels=level)
float(np.abs(searched - exact).max())

# %%
# When to intervene
# -----------------
#
# A tank contains 5 gallons. Suppose that a second tank costs ``C``, and that a car that
# runs out of fuel costs ``L``. The optimal rule is to add the second tank if the
# probability of more than 5 gallons is at least ``C / L``. This threshold may be far
# from 1/2: with ``C / L = 0.1``, a probability of 10 % is enough. The *relative
# economic value* of a forecast is 0 if the forecast is worth no more than the known
# frequency of the event. It is 1 if the forecast is worth as much as perfect knowledge
# of the future:

from skuq.evaluation import relative_economic_value

ratios = [0.05, 0.1, 0.2, 0.5]
values = pd.DataFrame(
    {
        name: relative_economic_value(y, dist, threshold=5.0, ratios=ratios)[
            "value"
        ]
        for name, dist in forecasts.items()
    }
)
points = Normal(forecasts["forest"].mean(), 0.0)
values["mean only"] = relative_economic_value(
    y, points, threshold=5.0, ratios=ratios
)["value"]
values.round(2)

# %%
# The rule in the last column adds the second tank if the predicted mean is above 5
# gallons. For small ratios ``C / L``, this rule is worth less than the rule that uses
# the distribution. The plot shows all ratios:

from skuq.displays import RelativeEconomicValueDisplay

ax = None
for name, dist in {**forecasts, "mean only": points}.items():
    ax = RelativeEconomicValueDisplay.from_predictions(
        y, dist, threshold=5.0, name=name, ax=ax
    ).ax_

# %%
# Is the better forecast worth it?
# --------------------------------
#
# The difference between the observed costs is the value of the better forecast per car.
# Resampling the rows, with the same rows for both models, gives a confidence interval
# for this value:

actions = {
    name: optimal_action(dist, "pinball", levels=level)
    for name, dist in forecasts.items()
}
saved = cost(actions["linear"], y) - cost(actions["forest"], y)
rng = np.random.default_rng(0)
means = saved[rng.integers(len(y), size=(2000, len(y)))].mean(axis=1)
low, high = np.quantile(means, [0.025, 0.975])
print(
    f"The forest saves {saved.mean():.2f} per car, 95 % interval {low:.2f} to {high:.2f}"
)

# %%
# Multiply the saving per car by the number of cars, and compare the result with the
# price of the model. The saving depends on the costs, so compute it with your own
# costs.
#
# The error before the labels arrive
# ----------------------------------
#
# The expected loss needs no labels, so it can estimate the error in production. The
# estimate is only as accurate as the predicted distributions. It fails in two cases,
# and the estimate itself does not show the failure. In the data of this section, the
# noise grows with x. The first model predicts the true distribution at each x. The
# second model is calibrated only on average, because it uses the residuals of all
# training rows at every x:

from skuq.distributions import SharedEmpirical


def draw(shift, noise, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(shift, 1.0, size=20_000)
    return x, x + noise * np.exp(x / 2) * rng.normal(size=x.size)


x_train, y_train = draw(0.0, 1.0, seed=0)
residuals = y_train - x_train

# %%
# The table shows the estimated and the observed mean absolute error of the predicted
# mean:

table = {}
for month, (shift, noise) in {
    "as before": (0.0, 1.0),
    "shift of x": (1.0, 1.0),
    "drift of the concept": (0.0, 1.5),
}.items():
    x_new, y_new = draw(shift, noise, seed=1)
    on_average = SharedEmpirical(x_new, 1.0, residuals)
    table[month] = {
        "estimate, right for each x": expected_loss(
            Normal(x_new, np.exp(x_new / 2))
        ).mean(),
        "estimate, right on average": expected_loss(on_average).mean(),
        "observed": np.abs(y_new - x_new).mean(),
    }
estimates = pd.DataFrame(table).T
estimates.round(2)

# %%
# * *Shift of x.* The model that is right for each x predicts a larger error for the new
#   rows. The model that is right on average does not. The second model passes all tests
#   of average calibration on the old rows, but underestimates the error on the new
#   rows.
# * *Concept drift.* The noise given x has changed, but both estimates stay the same.
#
# The estimate is therefore no substitute for tests with observed targets. Use
# :func:`~skuq.monitoring.calibration_drift` and
# :class:`~skuq.monitoring.CoverageMonitor` as soon as labels arrive
# (:doc:`/how-to/monitor`), and check the calibration in groups of X in advance
# (:doc:`/how-to/conditional_coverage`).
