"""
Prediction sets of classifiers
==============================

A prediction set is the classification counterpart of a prediction interval. It contains
the label with a given probability, for example 95 %, which is called the nominal
coverage. Sets are boolean arrays of shape (rows, classes), with the same columns as
``predict_proba`` and ``classes_``.

The data on this page are images of handwritten digits, with ten classes.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=700, random_state=0)
bayes = GaussianNB(var_smoothing=1e-2)


def share_covered(sets):
    return round(float(sets[np.arange(len(y_new)), y_new].mean()), 3)


# %%
# From probabilities
# ------------------
#
# :func:`~skuq.conformal.predict_set` takes any fitted classifier, including a Pipeline
# or a search. For each row, it returns the smallest set of classes whose probabilities
# sum to at least the coverage. :func:`~skuq.conformal.prediction_set` takes predicted
# probabilities instead of a classifier.

from skuq.conformal import predict_set

classifier = bayes.fit(X, y)
sets = predict_set(classifier, X_new, coverage=0.95)
plain = share_covered(sets)
sets.shape, plain

# %%
# The coverage of these sets depends on the calibration of the probabilities. The
# probabilities of naive Bayes are too close to 0 and 1, so the sets miss the label in
# more than 5 % of the cases. To calibrate probabilities, use scikit-learn. In version
# 1.8 and newer, ``CalibratedClassifierCV(method="temperature")`` changes their
# sharpness and preserves their order. In older versions, ``method="sigmoid"`` and
# ``method="isotonic"`` calibrate the probability of each class separately.
#
# If the probabilities are calibrated, the sets cover *more* than nominal, because
# the last class of a set raises the sum of the probabilities above the nominal
# coverage. This difference increases with the accuracy of the model. Therefore, compare
# the observed coverage with the predicted coverage, which is the sum of the
# probabilities of a set, averaged over the sets.
#
# With a guarantee
# ----------------
#
# :class:`~skuq.conformal.ConformalClassifier` holds out a quarter of the rows
# (``held_out_size``), stratified by class. A set contains each class whose score
# ranks low enough among the scores of the calibration labels. For exchangeable rows and
# any classifier, the sets contain the label with at least the nominal probability, on
# average over calibration sets.

from skuq.conformal import ConformalClassifier

conformal = ConformalClassifier(bayes, random_state=0).fit(X, y)
sets = conformal.predict_set(X_new, coverage=0.95)
covered = share_covered(sets)
covered, round(float(sets.sum(axis=1).mean()), 2)

# %%
# This code shows the labels of the largest set, and the true label:

unclear = int(np.argmax(sets.sum(axis=1)))
conformal.classes_[sets[unclear]], y_new[unclear]

# %%
# You choose the coverage at prediction time. With several coverages, the result has the
# shape (rows, classes, coverages). ``predict`` and ``predict_proba`` return the
# predictions of the wrapped classifier.

conformal.predict_set(X_new, [0.5, 0.9, 0.95]).shape

# %%
# Two scores
# ----------
#
# ``"lac"``, the default, gives the smallest sets on average. Its sets contain all
# classes whose probability is above a threshold. The threshold is the same for all
# images, so the coverage is lower for images that are difficult to classify. ``"aps"``
# adds classes until the sum of their probabilities exceeds a threshold. Its coverage
# differs less between images, but its sets are larger. ``randomized=True`` makes the
# coverage of ``"aps"`` exact, and ``penalty`` (RAPS) avoids very large sets.
#
# The following code fits a forest of shallow trees. For 90 % sets, it computes the
# coverage of the half of the images with the less certain predictions, the coverage of
# the other half, and the mean size of the sets:

from sklearn.ensemble import RandomForestClassifier

forest = RandomForestClassifier(30, max_depth=3, random_state=0)
largest = forest.fit(X, y).predict_proba(X_new).max(axis=1)
hard = largest < np.median(largest)
by_score = {}
for method, randomized in [("lac", False), ("aps", True)]:
    model = ConformalClassifier(
        forest, method, randomized=randomized, random_state=0
    )
    sets = model.fit(X, y).predict_set(X_new, 0.9)
    inside = sets[np.arange(len(y_new)), y_new]
    shares = inside[hard].mean(), inside[~hard].mean(), sets.sum(axis=1).mean()
    by_score[method] = [round(float(value), 2) for value in shares]
by_score

# %%
# If the accuracy of the classifier is above the nominal coverage, a set may be empty.
# By default, the most probable class replaces an empty set, which increases the
# coverage. ``allow_empty=True`` returns empty sets, so that the coverage is exact.
#
# A guarantee for each class
# --------------------------
#
# The guarantee is an average over all images, so the coverage may differ between
# digits. With ``group_by="class"``, the guarantee holds for each class that has enough
# calibration rows. For other groups, pass the name of a column or a function of X.

import pandas as pd

by_class = ConformalClassifier(
    bayes, group_by="class", held_out_size=0.4, random_state=0
).fit(X, y)
digit = {}
for name, model in {"together": conformal, "by class": by_class}.items():
    inside = model.predict_set(X_new, 0.95)[np.arange(len(y_new)), y_new]
    digit[name] = [round(float(inside[y_new == k].mean()), 2) for k in range(10)]
pd.DataFrame(digit).T

# %%
# Few rows, dependent rows, fitted models
# ---------------------------------------
#
# With ``cv=5``, all rows are used for fitting and for calibration: the score of each
# row comes from a model that was fitted without the fold of the row (:term:`CV+`). The
# guarantee is weaker. ``cv=GroupShuffleSplit(1)`` holds out whole groups, such as
# patients or machines. Pass the group labels to ``fit`` as ``groups``. Wrap a fitted
# model in ``FrozenEstimator``; all rows passed to ``fit`` are then calibration rows.

from sklearn.frozen import FrozenEstimator

folds = ConformalClassifier(bayes, cv=5, random_state=0).fit(X, y)
finished = FrozenEstimator(GaussianNB(var_smoothing=1e-2).fit(X[:700], y[:700]))
calibrated = ConformalClassifier(finished).fit(X[700:], y[700:])
print(share_covered(calibrated.predict_set(X_new, 0.95)))
(
    share_covered(folds.predict_set(X_new)),
    share_covered(calibrated.predict_set(X_new)),
)

# %%
# New rows that differ
# --------------------
#
# In general, sets lose their coverage under a distribution shift. There is one
# exception: if only the distribution of X changes, and you know or can estimate the
# density ratio, ``density_ratio`` restores the coverage. In this example, images with
# uncertain predictions become four times as frequent. Sets that are calibrated on the
# old images therefore contain the label too rarely on new images. The example simulates
# the shift with weights: the weight of each new image is its density ratio. The output
# is the coverage and the mean size of the sets, without and with ``density_ratio``:

middle = np.median(largest)


def ratio(X):
    return np.where(forest.predict_proba(X).max(axis=1) < middle, 4.0, 1.0)


shifted, frequency = {}, ratio(X_new)
for name, density_ratio in {"without": None, "with": ratio}.items():
    model = ConformalClassifier(forest, density_ratio=density_ratio, random_state=0)
    sets = model.fit(X, y).predict_set(X_new, 0.95)
    inside = sets[np.arange(len(y_new)), y_new]
    means = np.average([inside, sets.sum(axis=1)], axis=1, weights=frequency)
    shifted[name] = means.round(2).tolist()
shifted
