"""
Which part of a score is large? ScoreDecompositionDisplay
=========================================================

:class:`~skuq.displays.ScoreDecompositionDisplay` divides the CRPS of each model into miscalibration,
discrimination and uncertainty. Recalibration can remove the miscalibration. Only a better model can increase
the discrimination. All models on one gray line have the same CRPS.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_airfoil
from skuq.displays import ScoreDecompositionDisplay
from skuq.distributions import Normal
from skuq.evaluation import compare_score_decompositions, score_decomposition

X, y = load_airfoil(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
regressors = {
    "linear": LinearRegression(),
    "forest": RandomForestRegressor(100, random_state=0),
}
forecasts = {
    name: UncertaintyRegressor(regressor, cv=5, random_state=0)
    .fit(X_train, y_train)
    .predict_dist(X_test)
    for name, regressor in regressors.items()
}
# a forest with the spread of its errors on the training rows
forest = regressors["forest"].fit(X_train, y_train)
errors = y_train - forest.predict(X_train)
forecasts["forest, training errors"] = Normal(forest.predict(X_test), errors.std())
ScoreDecompositionDisplay.from_predictions(y_test, forecasts, unit="dB")
plt.show()

# %%
# The forest discriminates much better than the linear model, and its miscalibration is no larger than
# expected by chance (hollow point). The third forecast is the same forest with the spread of its errors on
# the training rows. These errors are too small, so the third forecast has the largest miscalibration. Its
# spread is the same for all rows, so it also discriminates less.
#
# The intervals of the differences do not contain 0:

for other in ("linear", "forest, training errors"):
    table = compare_score_decompositions(
        y_test, forecasts["forest"], forecasts[other], random_state=0
    )
    print(f"forest minus {other}")
    print(table[["difference", "low", "high"]].round(3).to_string(), "\n")

# %%
# The following table shows the parts for each wind speed (m/s). The score and the miscalibration of the
# forest are largest at the highest speed:

parts = score_decomposition(y_test, forecasts["forest"], groups=X_test[:, 3], random_state=0)
print(parts.groups.drop(columns="uncertainty").round(3).to_string())
