"""
For which users is a forecast valuable? RelativeEconomicValueDisplay
====================================================================

A batch of concrete that is too weak causes a loss. Testing the batch before use has a cost, but prevents the
loss. :class:`~skuq.displays.RelativeEconomicValueDisplay` plots the value of a forecast of the strength
against the ratio of cost to loss. A user tests a batch if the probability of a strength below 25 MPa is at
least the ratio:
"""

from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_concrete
from skuq.displays import RelativeEconomicValueDisplay
from skuq.distributions import Normal
from skuq.evaluation import relative_economic_value
from skuq.regressors import LeastSquaresRegressor

X, y = load_concrete(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = UncertaintyRegressor(
    ExtraTreesRegressor(50, min_samples_leaf=2, random_state=0), random_state=0
)
forecasts = {
    "linear": LeastSquaresRegressor().fit(X, y).predict_dist(X_test),
    "forest": forest.fit(X, y).predict_dist(X_test),
}
forecasts["forest, mean only"] = Normal(forecasts["forest"].mean(), 0.0)

# %%
# The forecast of the forest has a higher value than the forecast of the linear model for all users. A user
# who has only the predicted mean of the forest gets the same value only for medium ratios. A user with a
# small ratio of cost to loss tests a batch even if the probability of the event is small, and the mean alone
# does not give this probability.
ax = None
for name, dist in forecasts.items():
    display = RelativeEconomicValueDisplay.from_predictions(
        y_test, dist, threshold=25.0, above=False, name=name, ax=ax
    )
    ax = display.ax_
ratios = [0.05, 0.3, 0.6]
table = relative_economic_value(
    y_test, forecasts["forest"], threshold=25.0, above=False, ratios=ratios
)
print(table.round(2))
