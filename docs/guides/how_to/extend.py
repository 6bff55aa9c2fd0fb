"""
Write a custom metric, recalibrator, regressor or score
=======================================================

Custom functions and classes work with skuq and scikit-learn without registration. This
page shows one example of each kind. If a model already predicts distributions, see
:doc:`/how-to/wrap_your_own`. To contribute code to skuq, see
:doc:`/development/contribute`.

Data for this page: the noise grows with x.
"""

import numpy as np

rng = np.random.default_rng(0)
X = rng.uniform(0, 3, size=(800, 1))
y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0] * rng.standard_normal(800)
X, y, X_new, y_new = X[:400], y[:400], X[400:], y[400:]

# %%
# Metrics
# -------
#
# A metric is a function of the targets, a :class:`~skuq.distributions.Distribution`
# and ``sample_weight``. This metric is the CRPS with larger weights for the central
# levels (Gneiting and Ranjan 2011):


def center_crps(y_true, dist, *, sample_weight=None):
    levels = np.arange(1, 100) / 100
    error = np.asarray(y_true)[:, np.newaxis] - dist.quantile(levels)
    pinball = np.maximum(levels * error, (levels - 1) * error)
    loss = 2 * (levels * (1 - levels) * pinball).mean(axis=1)
    return np.average(loss, weights=sample_weight)


# %%
# :func:`~skuq.metrics.make_scorer` returns the scorer of this metric, for
# cross-validation and searches:

from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV

from skuq import predict_dist
from skuq.metrics import make_scorer
from skuq.regressors import ForestDistributionRegressor

scorer = make_scorer(center_crps, greater_is_better=False)
forest = ForestDistributionRegressor(RandomForestRegressor(50, random_state=0))
grid = {"estimator__min_samples_leaf": [1, 20]}
search = GridSearchCV(forest, grid, scoring=scorer, cv=3).fit(X, y)
search.best_params_

# %%
# :func:`~skuq.evaluation.bootstrap_interval` and
# :func:`~skuq.evaluation.paired_permutation_test` accept the function as well:

from skuq.evaluation import bootstrap_interval

dist = predict_dist(search, X_new)
interval = bootstrap_interval(
    y_new, dist, center_crps, n_resamples=200, random_state=0
)
print(f"{interval.low:.3f} to {interval.high:.3f}")

# %%
# :func:`~skuq.evaluation.uncertainty_report` and
# :class:`~skuq.monitoring.MetricAccumulator` accept only built-in metrics, because they
# need the units, the direction and the stored sums of a metric.
#
# Recalibrators
# -------------
#
# Inherit from :class:`~skuq.recalibration.BaseRecalibrator` and implement two
# methods. This recalibrator moves each distribution by one quantile of the errors:

from skuq.distributions import affine
from skuq.recalibration import BaseRecalibrator


class ShiftRecalibrator(BaseRecalibrator):
    def __init__(self, level=0.5):
        self.level = level

    def _fit(self, dist, y, weight):
        error = y - dist.median()
        self.shift_ = np.quantile(
            error, self.level, weights=weight, method="inverted_cdf"
        )

    def _transform(self, dist):
        return affine(dist, self.shift_, 1.0)


# %%
# The recalibrator works as a step of a pipeline, and a search can select its
# parameters:

from sklearn.pipeline import make_pipeline

pipeline = make_pipeline(search.best_estimator_, ShiftRecalibrator())
grid = {"shiftrecalibrator__level": [0.1, 0.5, 0.9]}
shifted = GridSearchCV(pipeline, grid, scoring=scorer, cv=3).fit(X, y)
shifted.best_params_

# %%
# Regressors
# ----------
#
# A class with the methods ``fit``, ``predict`` and ``predict_dist`` is sufficient
# for metrics and searches (:doc:`/how-to/wrap_your_own`).
# :class:`~skuq.regressors.BaseUncertaintyRegressor` adds intervals, quantiles and
# out-of-sample distributions of the training rows, which recalibrators need in a
# pipeline. In the following regressor, each distribution consists of all training
# targets, and nearby rows have larger weights:

from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.validation import validate_data

from skuq.distributions import Empirical
from skuq.regressors import BaseUncertaintyRegressor


class KernelRegressor(BaseUncertaintyRegressor):
    def __init__(self, gamma=1.0, random_state=None):
        self.gamma = gamma
        self.random_state = random_state  # of the folds of `fit_transform`

    def _fit(self, data, progress):
        self.X_ = validate_data(self, data.X, dtype=np.float64)
        self.y_ = data.y
        self.weight_ = data.repetitions

    def _predict_dist(self, X):
        X = validate_data(self, X, dtype=np.float64, reset=False)
        nearness = rbf_kernel(X, self.X_, self.gamma) + 1e-9
        targets = np.tile(self.y_, (len(X), 1))
        return Empirical(targets, weights=self.weight_ * nearness)


pipeline = make_pipeline(KernelRegressor(random_state=0), ShiftRecalibrator())
grid = {"kernelregressor__gamma": [1.0, 10.0, 100.0]}
kernel = GridSearchCV(pipeline, grid, scoring=scorer, cv=3).fit(X, y)
kernel.best_params_

# %%
# The base class does not convert X. A regressor without a wrapped estimator therefore
# calls scikit-learn's ``validate_data``.
#
# Test a regressor with scikit-learn's ``parametrize_with_checks``. Test a recalibrator
# in the same way, as the last step of a pipeline after a regressor. Two checks,
# ``check_transformer_general`` and ``check_transformer_data_not_an_array``, compare
# ``fit_transform`` with ``transform``, which differ by design. If these checks fail,
# pass their names as ``expected_failed_checks``.
#
# Conformal scores
# ----------------
#
# The method "normalized" of :class:`~skuq.conformal.ConformalRegressor` ranks the
# scores :math:`|y - m(x)| / s(x)`, where m is the mean and s the standard deviation of
# the wrapped regressor. The guarantee holds for any m and s. To use a custom score,
# write a regressor that predicts the required m and s. In the following regressor, m is
# the prediction of a wrapped regressor, and s is the mean absolute error of nearby
# training rows. ``data.fit_params`` contains the arguments of ``fit`` for the wrapped
# regressor:

from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor

from skuq.distributions import Normal


class LocalErrorRegressor(BaseUncertaintyRegressor):
    def __init__(self, estimator, n_neighbors=30):
        self.estimator = estimator
        self.n_neighbors = n_neighbors

    def _fit(self, data, progress):
        self.estimator_ = clone(self.estimator)
        self.estimator_.fit(data.X, data.y, **data.fit_params)
        error = np.abs(data.y - self.estimator_.predict(data.X))
        self.scale_ = KNeighborsRegressor(self.n_neighbors).fit(data.X, error)

    def _predict_dist(self, X):
        return Normal(self.estimator_.predict(X), self.scale_.predict(X))


from sklearn.kernel_ridge import KernelRidge

from skuq.conformal import ConformalRegressor
from skuq.metrics import prediction_interval_coverage

ridge = KernelRidge(alpha=1.0, kernel="rbf", gamma=1.0)
model = ConformalRegressor(LocalErrorRegressor(ridge), "normalized", random_state=0)
bounds = model.fit(X, y).predict_interval(X_new)
coverage = prediction_interval_coverage(y_new, bounds)
wide = X_new[:, 0] > 2
widths = [np.ptp(bounds[rows], axis=1).mean() for rows in (~wide, wide)]
print(f"coverage {coverage:.2f}, mean width {widths[0]:.1f} and {widths[1]:.1f}")

# %%
# Groups, covariate shift and updates with ``partial_fit`` also work with this score. A
# score with another form, such as the distance to a predicted interval, requires a new
# class inside skuq: see :doc:`/development/contribute`.
