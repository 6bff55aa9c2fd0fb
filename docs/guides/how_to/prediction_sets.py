"""
Prediction sets of classifiers
==============================

A prediction set is what an interval is for a number: the classes among which the
label is, with a nominal coverage of, say, 95 %. Sets are boolean arrays of shape
(rows, classes), whose columns are those of ``predict_proba`` and ``classes_``.

Data for this page: images of handwritten digits, ten classes.
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
# :func:`~skuq.prediction.predict_set` takes any fitted classifier, also inside a
# Pipeline or a search, and returns the smallest sets whose probabilities sum to the
# coverage; :func:`~skuq.prediction.prediction_set` does so for probabilities that
# were predicted already.

from skuq.prediction import predict_set

classifier = bayes.fit(X, y)
sets = predict_set(classifier, X_new, coverage=0.95)
plain = share_covered(sets)
sets.shape, plain

# %%
# Such sets are as good as the probabilities. Those of naive Bayes are too close to 0
# and 1, and the sets miss more often than in 5 % of cases. Probabilities are
# calibrated by scikit-learn: from version 1.8 on
# ``CalibratedClassifierCV(method="temperature")`` changes how sharp they are and
# not their order; before, ``method="sigmoid"`` or ``"isotonic"`` calibrate each
# class against all others.
#
# Of calibrated probabilities, the sets cover *more* than is nominal, since the last
# class overshoots: with accurate models by far. The mass of the sets, the sum of
# their probabilities, is the coverage to compare with.
#
# With a guarantee
# ----------------
#
# :class:`~skuq.classifiers.ConformalClassifier` holds out a quarter of the rows
# (``calibration_size``), stratified by class, and chooses the sets by the ranks of
# their scores. For exchangeable rows they contain the label with at least the nominal
# probability, on average over calibration sets, whatever the classifier.

from skuq.classifiers import ConformalClassifier

conformal = ConformalClassifier(bayes, random_state=0).fit(X, y)
sets = conformal.predict_set(X_new, coverage=0.95)
covered = share_covered(sets)
covered, round(float(sets.sum(axis=1).mean()), 2)

# %%
# The labels of one set:

unclear = int(np.argmax(sets.sum(axis=1)))
conformal.classes_[sets[unclear]], y_new[unclear]

# %%
# Coverage is chosen at prediction time. With several, the result has the shape
# (rows, classes, coverages). ``predict`` and ``predict_proba`` are those of the wrapped
# classifier.

conformal.predict_set(X_new, [0.5, 0.9, 0.95]).shape

# %%
# Two scores
# ----------
#
# ``"lac"``, the default, has the smallest sets on average. It leaves out classes
# below one threshold of probability, so that images that are hard to read are covered
# less often than others. ``"aps"`` adds classes until their sum exceeds a threshold,
# which balances this at the cost of larger sets; ``randomized=True`` makes its
# coverage exact, and ``penalty`` (RAPS) avoids very large sets. A forest of shallow
# trees, at 90 %, for the half of the images of which it is less sure, and the others:

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
# A set may be empty where the classifier does better than the nominal coverage. By
# default it is then the most probable class, which only adds coverage;
# ``allow_empty=True`` leaves it empty, so that coverage is exact.
#
# A guarantee for each class
# --------------------------
#
# On average over all images, one digit may be covered less than another. With
# ``group_by="class"`` each class has the guarantee, if it has enough calibration rows;
# a name of a column or a function of X make any other groups.

import pandas as pd

by_class = ConformalClassifier(
    bayes, group_by="class", calibration_size=0.4, random_state=0
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
# ``cv=5`` holds nothing out: each row is calibrated by the model of its fold (CV+),
# with a weaker guarantee. ``cv=GroupShuffleSplit(1)`` holds out whole patients or
# machines, given as ``groups`` to ``fit``. A fitted model is wrapped in
# ``FrozenEstimator``, and all rows passed to ``fit`` calibrate it.

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
# In general no set, conformal or not, keeps its coverage under a shift. There is one
# exception: if only the distribution of X changes, and its density ratio is known or
# can be estimated, ``density_ratio`` restores coverage. Here the images that the forest
# finds hard become four times as frequent, so that sets calibrated on the old images
# cover too few of the new ones. Instead of drawing new images, each counts by its
# ratio. Coverage and mean size without and with the ratio:

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
