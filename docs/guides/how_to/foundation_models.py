"""
Use a foundation model for tables
=================================

A foundation model for tables, such as TabPFN or TabICL, is a large network that was
trained on many tables. It learns *in context*: ``fit`` only stores the training rows,
and a prediction reads the stored rows. This page shows when such a model is a good
choice, and what skuq adds: one interface, calibration, and pools with other models.

When to choose a foundation model
---------------------------------

==========================================  ==========================================
choose a foundation model                   choose the pool of skuq
==========================================  ==========================================
100 to 10 000 rows, up to 500 columns       more rows or columns than the model allows
the best CRPS matters most                  forecasts must be fast or run without a GPU
a GPU, or at most about 1000 rows           no network to download the weights
the license of the weights fits your use    commercial use without a further license
==========================================  ==========================================

Izbicki and Rodrigues (2026, `arXiv:2603.26611
<https://doi.org/10.48550/arXiv.2603.26611>`__) compare three foundation models with
other methods on 39 data sets. A foundation model has the lowest CRPS on 94 to 97 % of
the data sets, and the best calibration on 15 to 41 %. We ran the pool
:class:`~skuq.regressors.MixtureRegressor` on the same rows of six of the data sets.
Over five of these sets (all but ``naval``) and with 1000 rows, the CRPS of the pool is
:measured:`published-foundation; geometric mean, without naval, 1000; ratio` times the
CRPS of TabPFN-2.5. Settings of four members of the pool were chosen on these five sets.
On seven other sets, an earlier pool had 1.10 times the CRPS of TabPFN-2.5
(:ref:`record <earlier-pool>`). :doc:`/replications/published` has all numbers. skuq
itself uses no downloaded weights.

Cost, limits and licenses
-------------------------

A fit is cheap, and a prediction is expensive, because each prediction processes all
training rows. TabPFN 9.2 raises an error for more than 1000 training rows on a CPU, and
for more rows or columns than its weights allow (10 000 rows and 500 columns in version
2). ``TabPFNRegressor(ignore_pretraining_limits=True)`` ignores the limits.

The code of both packages has an open license (TabPFN: Apache 2.0, TabICL: BSD). The
weights have separate licenses, and are downloaded in the first fit. The license of the
weights of TabPFN 2.5 and later allows only non-commercial use. Read the license of the
weights that you use. Without a network, download the file on another computer, and pass
its path: ``TabPFNRegressor(model_path=...)`` or ``TabICLRegressor(model_path=...)``.

Predictive distributions of TabPFN and TabICL
---------------------------------------------

:func:`~skuq.prediction.predict_dist` supports both models and their fine-tuned
classes, also inside
pipelines, searches and other meta-estimators. With ``TabPFNRegressor`` from ``tabpfn``:

.. code-block:: python

    from skuq import predict_dist

    model = TabPFNRegressor().fit(X_train, y_train)
    dist = predict_dist(model, X_test)

The distribution of TabPFN is a :class:`~skuq.distributions.Binned`: a histogram with
some thousand bins and half-normal tails. The distribution of TabICL is a
:class:`~skuq.distributions.Quantiles` at 199 levels.

From version 8.4 on, TabPFN can calibrate the width of its distributions on held-out rows.
``UncertaintyRegressor`` recognizes this parameter and does not recalibrate these
distributions a second time:

.. code-block:: python

    from skuq import UncertaintyRegressor

    calibrated = TabPFNRegressor(
        eval_metric="crps", tuning_config={"calibrate_temperature": True}
    )
    model = UncertaintyRegressor(calibrated).fit(X_train, y_train)

To combine a foundation model with other models, add it to the members of a pool:

.. code-block:: python

    from skuq.regressors import MixtureRegressor, default_estimators

    members = [*default_estimators(), ("tabpfn", TabPFNRegressor())]
    pool = MixtureRegressor(members).fit(X_train, y_train)

TabDPT 1.3 also predicts a histogram, but without tails. Register a function that
returns its distribution. We wrote the following function from the documentation of
TabDPT and did not run it:

.. code-block:: python

    from skuq import register
    from skuq.distributions import Binned


    def tabdpt_dist(model, X):
        bars = model.predict(X, output_type="full")
        return Binned(bars["borders"].cpu(), bars["logits"].cpu(), tails=False)


    register("tabdpt.TabDPTRegressor", tabdpt_dist, in_context=True)

A model in context
------------------

The following code runs without downloaded weights. The code defines a small model that
also learns in context: the model compares each new row with all training rows, and
weights the targets of the training rows by similarity.
"""

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import make_friedman1

from skuq.distributions import Binned


class Attention(RegressorMixin, BaseEstimator):
    """Histogram of the training targets, weighted by the similarity of the rows."""

    def __init__(self, width=0.25, n_bins=60):
        self.width = width
        self.n_bins = n_bins

    def fit(self, X, y):
        self.X_, self.y_ = np.asarray(X), np.asarray(y)
        self.n_features_in_ = self.X_.shape[1]
        return self

    def predict_bars(self, X):
        edges = np.linspace(self.y_.min(), self.y_.max(), self.n_bins + 1)
        bins = np.clip(np.searchsorted(edges, self.y_) - 1, 0, self.n_bins - 1)
        similarity = np.exp(-0.5 * (cdist(X, self.X_) / self.width) ** 2)
        weights = np.full((len(X), self.n_bins), 1e-6)
        for column, nearness in zip(bins, similarity.T, strict=True):
            weights[:, column] += nearness
        return edges, np.log(weights)

    def predict(self, X):
        return Binned(*self.predict_bars(X)).mean()


X, y = make_friedman1(900, n_features=5, noise=1.0, random_state=0)
X_train, y_train, X_test, y_test = X[:600], y[:600], X[600:], y[600:]

# %%
# Register a function that returns the distribution of a class. ``in_context=True``
# means that the model learns in context. skuq then fits and predicts each fold once,
# does not keep the models of the folds, and frees the memory of a GPU after each fold:

from skuq import predict_dist, register

name = f"{Attention.__module__}.{Attention.__qualname__}"
register(name, lambda model, X: Binned(*model.predict_bars(X)), in_context=True)

dist = predict_dist(Attention().fit(X_train, y_train), X_test)
dist.interval(0.9)[:2].round(1)

# %%
# Calibrate the forecasts
# -----------------------
#
# A foundation model does not measure the calibration of its forecasts on your data.
# Wrap the model in :class:`~skuq.regressors.UncertaintyRegressor`, which fits the model
# once for
# each of five folds and once for all rows, and predicts the rows of each fold once. The
# recalibrator is :class:`~skuq.recalibration.ShrunkIsotonicRecalibrator`, which
# corrects the probability levels only if the CRPS of the out-of-fold forecasts does not
# increase. For new rows, the table shows the coverage of 90 % intervals, the
# Kolmogorov-Smirnov distance of the PIT values from the uniform distribution, and the
# CRPS:

import pandas as pd
from scipy import stats

from skuq import UncertaintyRegressor
from skuq.metrics import crps_loss, prediction_interval_coverage


def scores(dist):
    return {
        "coverage": prediction_interval_coverage(y_test, dist),
        "PIT distance": stats.kstest(dist.pit(y_test), "uniform").statistic,
        "CRPS": crps_loss(y_test, dist),
    }


recalibrated = UncertaintyRegressor(Attention(), random_state=0).fit(
    X_train, y_train
)
table = {
    "Attention": scores(dist),
    "recalibrated": scores(recalibrated.predict_dist(X_test)),
}
pd.DataFrame(table).T.round(3)

# %%
# Combine the model with other models
# -----------------------------------
#
# A foundation model is a member of a pool like any other estimator. The weights minimize
# the CRPS of the out-of-fold forecasts, so a member that does not help gets a small
# weight. In ``fit``, the foundation model makes one prediction for each fold.
# ``set_callbacks(ProgressBar())`` shows the progress of the fit
# (:ref:`progress-of-a-fit`):

from sklearn.linear_model import BayesianRidge

from skuq.regressors import MixtureRegressor

members = [("attention", Attention()), ("linear", BayesianRidge())]
pool = MixtureRegressor(members, random_state=0).fit(X_train, y_train)
table["pool"] = scores(pool.predict_dist(X_test))
pd.DataFrame(table).T.round(3)

# %%
# Submit forecasts to a leaderboard
# ---------------------------------
#
# `ScoringBench <https://scoringbench.com>`__ is a public leaderboard of predictive
# distributions. ``benchmarks/scoringbench.py`` has a wrapper for skuq and the steps of a
# submission.
