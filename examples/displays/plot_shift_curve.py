"""
How do scores change under shift? ShiftCurveDisplay
===================================================

:class:`~skuq.displays.ShiftCurveDisplay` plots a score of :func:`~skuq.evaluation.shift_curve` against the
severity of a shift of the test rows. The shift in this example is sensor noise. The severity is the standard
deviation of this noise, in units of the standard deviation of each feature. Models are fitted once per fold,
on rows without noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import scale

from skuq.conformal import ConformalRegressor
from skuq.datasets import load_airfoil
from skuq.displays import ShiftCurveDisplay
from skuq.evaluation import shift_curve
from skuq.regressors import LeastSquaresRegressor

X, y = load_airfoil(return_X_y=True)
X = scale(X)
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
# The conformal intervals of the forest are narrower than the intervals of least squares, and their coverage
# decreases even with little noise. The width of the intervals does not change, so it does not indicate the
# lower coverage. Least squares is less accurate, and its coverage decreases less.
