"""
My own model with a predictive distribution
===========================================

A class with a method ``predict_dist`` that returns a :class:`~skuq.distributions.Distribution` works with all
of skuq: pipelines, searches, scorers, recalibrators and displays. In this example, the distribution is the
:class:`~skuq.distributions.Empirical` distribution of the nearest neighbors' targets.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import get_scorer
from skuq.datasets import load_abalone
from skuq.displays import IntervalDisplay
from skuq.distributions import Empirical


class Neighbors(KNeighborsRegressor):
    """Distribution of the targets of the nearest training rows."""

    def fit(self, X, y):
        self.targets_ = y
        return super().fit(X, y)

    def predict_dist(self, X):
        return Empirical(self.targets_[self.kneighbors(X, return_distance=False)])


X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=100, random_state=0)
grid = {"neighbors__n_neighbors": [5, 10, 20, 40, 80]}
pipeline = make_pipeline(StandardScaler(), Neighbors())
search = GridSearchCV(pipeline, grid, scoring=get_scorer("neg_crps"), error_score="raise").fit(
    X_train, y_train
)
print("selected:", search.best_params_, f"CRPS {-search.best_score_:.2f} rings")

IntervalDisplay.from_estimator(search, X_test, y_test, target_name="age of abalone (rings)")
plt.show()

# %%
# The search selects 40 neighbors. The intervals of this model have no guarantee.
# :class:`~skuq.regressors.RecalibratedRegressor` accepts this model like any other.
