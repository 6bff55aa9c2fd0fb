"""
Choose a metric
===============

The right metric depends on the purpose: *selecting* a model, *checking calibration* and
*describing* a forecast require different metrics. This page recommends a metric for
each purpose, with one example. :doc:`/explanation/calibrated-and-sharp` explains the
concepts, and :doc:`/reference/metrics` lists all metrics in one table.

The example is one model with predictions for held-out rows. The noise increases
with the absolute value of the first feature. The model assumes that the noise is
constant.
"""

import numpy as np
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import predict_dist
from skuq.distributions import Normal

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(3000, 2))
y = X[:, 0] + (0.3 + 0.3 * np.abs(X[:, 0])) * rng.standard_normal(3000)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, random_state=0
)
model = BayesianRidge().fit(X_train, y_train)
dist = predict_dist(model, X_test)
dist

# %%
# 1. Model selection: one proper score
# ------------------------------------
#
# Select models with one score. Choose the score for the part of the forecast that you
# use:
#
# .. list-table::
#     :header-rows: 1
#     :widths: 50 50
#
#     * - part of the forecast that you use
#       - select by
#     * - the whole distribution, or not yet known
#       - ``neg_crps``
#     * - probabilities of rare, costly events
#       - ``neg_nll``, if there is a density and outliers are valid observations
#     * - one quantile, such as a stock level
#       - ``make_scorer("pinball", levels=0.95)``
#     * - one interval
#       - ``make_scorer("interval_score", coverage=0.8)``
#     * - a published set of intervals
#       - ``neg_wis``
#     * - a comparison over data sets
#       - select by ``neg_crps``, report :func:`~skuq.metrics.crps_skill_score` or
#         :func:`~skuq.metrics.mean_standardized_log_loss`
#
# :func:`~skuq.metrics.get_scorer` returns a scorer for scikit-learn. Scorers of
# losses have the prefix ``neg_``, so that larger is better:

from sklearn.model_selection import cross_val_score

from skuq.metrics import get_scorer

scores = cross_val_score(
    BayesianRidge(),
    X_train,
    y_train,
    scoring=get_scorer("neg_crps"),
    error_score="raise",
)
scores.round(3)

# %%
# Metrics with a required argument have no predefined scorer.
# :func:`~skuq.metrics.make_scorer` creates a scorer for such a metric. This code
# creates scorers for the pinball loss of the 95 % quantile and for the CRPS skill
# score, which is the relative reduction of the CRPS compared with :term:`climatology`:

from skuq.metrics import make_scorer

stock = make_scorer("pinball", levels=0.95)
skill = make_scorer("crpss", y_train=y_train)
print("neg_pinball", round(stock(model, X_test, y_test), 3))
print("crpss", round(skill(model, X_test, y_test), 3))

# %%
# 2. Checking calibration: a calibration metric, with its null value
# ------------------------------------------------------------------
#
# A calibration error is positive even for a calibrated model, because the number of rows
# is finite. Compare it with its *null value*, the value for a calibrated model: see
# section 4.
#
# .. list-table::
#     :header-rows: 1
#     :widths: 50 50
#
#     * - property
#       - check with
#     * - 90 % intervals cover 90 % of the targets
#       - :func:`~skuq.metrics.prediction_interval_coverage`
#     * - all probabilities are calibrated on average
#       - :func:`~skuq.metrics.mean_absolute_calibration_error`
#     * - predicted standard deviations match the errors
#       - :func:`~skuq.metrics.reliability_table`, then
#         :func:`~skuq.metrics.expected_normalized_calibration_error` (ENCE)
#     * - coverage within each customer, or over the range of a feature
#       - :func:`~skuq.metrics.conditional_coverage`
#     * - coverage everywhere in X, without groups
#       - :func:`~skuq.metrics.conditional_coverage_error`,
#         :func:`~skuq.metrics.worst_slab_coverage`
#     * - the part of a score that is due to miscalibration
#       - :func:`~skuq.metrics.crps_miscalibration_error`,
#         :func:`~skuq.evaluation.score_decomposition`
#     * - calibration within unknown groups
#       - :func:`~skuq.metrics.adversarial_group_calibration_error`, which uses
#         random groups and therefore detects only large errors
#
# The model is calibrated on average:

from skuq.metrics import (
    mean_absolute_calibration_error,
    prediction_interval_coverage,
)

overall = prediction_interval_coverage(y_test, dist)
mace = mean_absolute_calibration_error(y_test, dist)
print(f"coverage of 90 % intervals {overall:.3f}, MACE {mace:.3f}")

# %%
# The model is not calibrated for all values of the first feature. Consider the third of
# the rows in which the first feature is farthest from 0. In these rows, the 90 %
# intervals contain 83 % of the targets:

from skuq.metrics import conditional_coverage

distance = np.abs(X_test[:, 0])
by_feature = conditional_coverage(y_test, dist, feature=distance, n_bins=3)
by_feature[["n", "coverage", "standard_error"]].round(3)

# %%
# The plot shows the reason. The band has a constant width, but the observations vary
# more on both sides than in the middle. The marginal coverage is nominal, because
# intervals that are too wide compensate for intervals that are too narrow.

from skuq.displays import PredictionBandDisplay

display = PredictionBandDisplay.from_estimator(
    model, X_test, y_test, feature=0, x_name="First feature", target_name="y"
)

# %%
# 3. Describing a forecast: width, sharpness, curve
# -------------------------------------------------
#
# * How wide are the intervals? :func:`~skuq.metrics.mean_interval_width`. To compare
#   data sets, use ``nmpiw`` with the standard deviation of the training targets as the
#   unit.
# * Is the model sharper than a model that ignores X? Compare
#   :func:`~skuq.metrics.sharpness` with ``y_train.std()``.
# * Which width does each miss rate require?
#   :func:`~skuq.metrics.uncertainty_characteristics_curve`.
#
# Do not select a model with these metrics. To use one of them as a constraint, see
# ``refit_best`` in :doc:`/how-to/select_by_crps`.
#
# 4. Several metrics at once
# --------------------------
#
# Each row of the report shows the value of a metric, an interval, the value that a
# calibrated model with the same predictions would have, and an interpretation.
# ``metrics`` is a list of abbreviations from :doc:`/reference/metrics`. Without
# ``metrics``, the report shows all metrics that the forecast supports.

from skuq.evaluation import uncertainty_report

report = uncertainty_report(
    y_test,
    dist,
    metrics=["crps", "mace", "ence", "picp", "sharpness"],
    random_state=0,
)
report

# %%
# 5. Do the metrics agree?
# ------------------------
#
# Each metric ranks the models from best to worst.
# :func:`~skuq.evaluation.metric_agreement` compares these rankings. Its input is a
# table with one row per model and one column per metric. Kendall's tau is 1 if two
# metrics rank the models in the same order, and -1 if they rank them in opposite
# orders. In this example, the models are copies of the model above with different
# standard deviations:

import pandas as pd

from skuq.evaluation import metric_agreement

factors = [0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4]
names = ["crps", "nll", "ence", "picp", "cwc"]
reports = {
    factor: uncertainty_report(
        y_test,
        Normal(dist.mean(), factor * dist.std()),
        metrics=names,
        n_resamples=0,
        n_draws=0,
    )
    for factor in factors
}
table = pd.DataFrame(
    {factor: report["value"] for factor, report in reports.items()}
).T
agreement = metric_agreement(table, directions={"picp": 0.9}, random_state=0)
agreement.tau.round(2)

# %%
# If two metrics agree, report one of them. If two metrics disagree, choose the one that
# fits your purpose before you look at the results.
# :class:`~skuq.displays.MetricAgreementDisplay` plots the table.
#
# Recommendations
# ---------------
#
# * Choose the metric before you know the results. After the same recalibration, one
#   metric often improves while another gets worse
#   (:doc:`/replications/wibbeke-2025-metrics`).
# * Use at least 500 rows for a calibration metric. With fewer rows, skuq issues a
#   warning. Proper scores need no minimum number of rows, but test differences for
#   significance (:doc:`/how-to/compare_two_models`).
# * Report the options with the value: "ENCE, 10 equal-count bins, n = 1500". Values
#   are comparable only for the same number of rows and the same bins.
