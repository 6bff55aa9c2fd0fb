"""
Evaluate a model on shifted data
================================

Intervals are calibrated on the training data. This page uses
:func:`~skuq.evaluation.shift_curve` to measure the coverage of intervals on data
that differ from the training data. If the shift of the features is known, weights
restore the coverage. The data are noise levels of airfoils in a wind tunnel.
"""

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import scale

from skuq.conformal import ConformalRegressor
from skuq.datasets import load_airfoil
from skuq.regressors import LeastSquaresRegressor

X, y = load_airfoil(return_X_y=True)
X[:, [0, 4]] = np.log(
    X[:, [0, 4]]
)  # frequency and thickness, over orders of magnitude
X = scale(X)
forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
models = {
    "least squares": LeastSquaresRegressor(),
    "forest": ConformalRegressor(forest, random_state=0),
}

# %%
# 1. Noisy features
# -----------------
#
# A *transform* changes the features of the test rows. In this example, it adds noise.
# ``severity`` is the standard deviation of the noise, in units of the standard
# deviation of each feature. Each model is fitted once per fold, on rows without the
# noise. It is then evaluated at each severity with the given scorers of skuq or
# scikit-learn:

import pandas as pd

from skuq.evaluation import shift_curve


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
# The coverage of both models decreases, although the widths of their intervals
# hardly change. The coverage of the forest, the more accurate model, decreases more.
# The intervals of a Gaussian process widen for rows that differ from the training rows,
# and their coverage decreases less: see :doc:`/replications/kompa-2021-shift`.
#
# 2. Some rows become more frequent
# ---------------------------------
#
# A :class:`~skuq.evaluation.Tilt` weights the test rows by ``exp(severity * z)``,
# where z is a column, or a sum of columns with the given coefficients. The rows
# themselves do not change. In this example, rows with a thick boundary layer and a
# low frequency become more frequent:

from skuq.displays import ShiftCurveDisplay
from skuq.evaluation import Tilt

direction = np.array([-1.0, 0.0, 0.0, 0.0, 1.0])
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
# Weights reduce the precision of the curve. ``effective_rows`` is the number of
# unweighted rows that would give the same precision. In the plot, points with fewer
# than 50 effective rows per fold are hollow:

effective = scores["effective_rows"].mean(axis=1).round()
effective

# %%
# 3. Remedy: the density ratio
# ----------------------------
#
# Suppose that the distribution of the features changes, but the distribution of the
# targets given the features does not. Weights then restore the coverage of
# conformal intervals. The weight of a calibration row is the ratio of the densities
# of new and old rows. Pass the ratio as the parameter ``density_ratio`` of
# :class:`~skuq.conformal.ConformalRegressor` or
# :class:`~skuq.conformal.ConformalClassifier`. It is a function of X, and a constant
# factor does not matter:


def ratio(X):
    return np.exp(X @ direction)


linear = LinearRegression()
coverage = {}
for name, density_ratio in {"without": None, "with": ratio}.items():
    model = ConformalRegressor(
        linear, density_ratio=density_ratio, held_out_size=0.5, random_state=0
    )
    scores = shift_curve(
        model, X, y, shift=Tilt(direction), severities=[1.0], scoring="picp", cv=10
    )
    coverage[name] = round(scores["picp"].mean(), 2)
coverage

# %%
# If the ratio is not known, estimate it with a classifier that separates new rows from
# old rows. The classifier needs no targets: see
# :ref:`sphx_glr_auto_examples_conformal_plot_covariate_shift.py`.
#
# 4. Shifts without a remedy
# --------------------------
#
# No method restores the coverage if the distribution of the targets given the
# features changes, or if new rows are in a region without old rows. Such a region
# contains no calibration rows that could be weighted. The noisy features of the first
# section are an example. Conformal intervals, recalibrated intervals and intervals of
# ensembles do not have nominal coverage in this case;
# :doc:`/replications/kompa-2021-shift` has measurements. Above the training range of an
# important feature, 90 % intervals of ``UncertaintyRegressor`` around boosting cover a
# share of :measured:`extrapolation-tail; skuq, boosting; outside`, on average over eight
# data sets. The intervals of the pool ``MixtureRegressor()`` become wider there, and
# cover a share of :measured:`extrapolation-tail; skuq, pool; outside`.
# :doc:`/explanation/extrapolation` compares models, measures the coverage outside of
# the range, and lists what helps in part. You cannot restore the coverage in advance,
# but you can detect such shifts: :class:`~skuq.monitoring.CoverageMonitor` tests
# the coverage of rows as their targets arrive. ``partial_fit`` of
# :class:`~skuq.conformal.ConformalRegressor` adapts the level to the new targets (see
# :doc:`/how-to/conformal`).
#
# In real data, the shifted rows are a group, for example later years or another site.
# Pass the group of each row as ``groups`` to :func:`~skuq.metrics.conditional_coverage`
# or :func:`~skuq.metrics.conditional_set_coverage`. Pass a fitted model as
# ``FrozenEstimator(model)``.
#
# Classifiers
# -----------
#
# ``shift_curve`` also scores prediction sets. In this example, digits are moved to
# the right; ``severity`` is the number of pixels:

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skuq.conformal import ConformalClassifier

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
# :doc:`/replications/kompa-2021-classification` compares seven methods on rotated and
# rolled digits. The page shows for which methods the sets grow, and how conformal
# calibration changes them.
