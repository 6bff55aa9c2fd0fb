"""
Which model notices that it does not know?
==========================================

Networks learn digits that are upright and in the middle. Then the images are moved to the right, or turned.
The networks err; do their prediction sets grow, so that they still contain the digit?
:func:`~skuq.model_selection.shift_curve` scores four kinds of networks.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from skuq.displays import ShiftCurveDisplay
from skuq.model_selection import shift_curve
from skuq.neural import DeepEnsembleClassifier, MCDropoutClassifier, VariationalClassifier

X, y = load_digits(return_X_y=True)
train, test = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0)
settings = {"standardize": "all", "max_epochs": 30, "random_state": 0}  # one scale for all pixels
models = {
    "one network": DeepEnsembleClassifier(1, **settings),
    "ensemble": DeepEnsembleClassifier(10, **settings),
    "dropout": MCDropoutClassifier(**settings),
    "variational": VariationalClassifier(**settings),
}


def roll(X, severity, random_state):
    return np.roll(X.reshape(-1, 8, 8), int(severity), axis=2).reshape(len(X), -1)


def turn(X, severity, random_state):
    return rotate(X.reshape(-1, 8, 8), severity, axes=(1, 2), reshape=False).reshape(len(X), -1)


shifts = {"pixels to the right": (roll, range(5)), "degrees": (turn, range(0, 181, 30))}
labels = {"set_coverage": "coverage of 90 % sets", "set_size": "mean size"}
figure, axes = plt.subplots(2, 2, figsize=(8, 6), sharex="col", sharey="row", layout="constrained")
for name, model in models.items():
    fitted = FrozenEstimator(model.fit(X[train], y[train]))
    for (shift_name, (shift, severities)), column in zip(shifts.items(), axes.T, strict=True):
        options = {"severities": severities, "scoring": list(labels), "cv": [(train, test)]}
        scores = shift_curve(fitted, X, y, shift=shift, **options)
        print(f"{name:12}", *(scores[scorer][:, 0].round(2) for scorer in labels))
        for ax, (scorer, label) in zip(column, labels.items(), strict=True):
            ShiftCurveDisplay.from_scores(
                scores, severities, scorer=scorer, score_name=label, name=name, ax=ax
            )
            ax.set_xlabel(shift_name)
plt.show()

# %%
# Upright digits are in 99 % of the sets. Turned by 30 degrees, 58 % of them are in the sets of one network,
# and 82 % in those of the variational network, which have four digits on average; at 120 degrees 11 and 28 %.
# The sets of one network, the ensemble and dropout hardly grow: they stay below 2.5 digits. Those of the
# variational network do, though they are larger from the beginning. A digit that the edge cuts in two, 4
# pixels to the right, is unlike all of training, and the sets of every model grow.
