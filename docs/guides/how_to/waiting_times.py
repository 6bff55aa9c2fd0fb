"""
Predict waiting times with censored rows
========================================

How long does it take until an event happens? Often, some events have not happened by
the end of the observation. We then know only that the waiting time is longer than the
time of observation. Such a row is censored. If you drop censored rows, forecasts are
too short. If you treat their times as observed, forecasts are also too short. This page
predicts calibrated waiting times for data from scikit-survival, and compares skuq with
scikit-survival and lifelines.

========================================  ==================================================
task                                      function
========================================  ==================================================
targets of scikit-survival                :func:`~skuq.survival.from_survival`
distribution of positive times            :class:`~skuq.survival.CensoredBoostingRegressor`
any regressor, few censored rows          :class:`~skuq.survival.CensoringWeightedRegressor`
estimators of scikit-survival             :func:`~skuq.prediction.predict_dist`
lower bound with a guarantee              :class:`~skuq.survival.ConformalSurvivalRegressor`
intervals between two visits              ``lower=`` and ``upper=`` instead of ``event=``
========================================  ==================================================
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from lifelines import LogNormalAFTFitter
from sklearn.model_selection import GridSearchCV
from sksurv.datasets import load_gbsg2
from sksurv.ensemble import RandomSurvivalForest
from sksurv.linear_model import CoxPHSurvivalAnalysis

from skuq import predict_dist
from skuq.displays import CalibrationCurveDisplay
from skuq.distributions import Normal, Quantiles
from skuq.metrics import crps_loss, get_scorer, nll_loss
from skuq.survival import (
    CensoredBoostingRegressor,
    SurvivalCurveDisplay,
    from_survival,
    survival_report,
)

X, target = load_gbsg2()
X = X.assign(
    horTh=(X["horTh"] == "yes").astype(float),
    menostat=(X["menostat"] == "Pre").astype(float),
    tgrade=X["tgrade"].map({"I": 1, "II": 2, "III": 3}).astype(float),
)
days, event = from_survival(target)
train = np.random.default_rng(0).random(len(X)) < 0.6
test = ~train
print(f"{len(X)} patients, {event.mean():.0%} of the events were observed")

# %%
# The target is an array of numbers. ``event`` is True for an observed time. Pass
# ``event`` to ``fit``, like ``sample_weight``. Cross-validation splits it along with
# the rows. These metrics also take ``event``: ``ipcw_crps_loss``,
# ``ipcw_brier_loss``, ``localized_crps_loss``, ``nll_loss``, ``concordance_score``,
# ``interval_coverage_bounds``, ``survival_calibration_table`` and
# ``regression_calibration_curve``. The other metrics, such as ``crps_loss``, treat
# every time as observed, so they do not take ``event``.
#
# 1. Fit
# ------
#
# ``set_callbacks(ProgressBar())`` shows the progress of the fit
# (:ref:`progress-of-a-fit`).

boosting = CensoredBoostingRegressor(random_state=0)
boosting.fit(X[train], days[train], event=event[train])
dist = boosting.predict_dist(X[test])
dist[:3].interval(0.8).round()

# %%
# ``predict_dist`` also supports the estimators of scikit-survival that predict
# survival functions. The last time of the survival function gets the probability of all
# later times. To build a distribution from the quantiles of a lifelines model, use
# :class:`~skuq.distributions.Quantiles`:

forest = RandomSurvivalForest(60, min_samples_leaf=15, random_state=0)
cox = CoxPHSurvivalAnalysis()
table = X[train].assign(days=days[train], event=event[train])
aft = LogNormalAFTFitter().fit(table, "days", "event")
levels = np.linspace(0.02, 0.98, 49)
columns = [aft.predict_percentile(X[test], p=1 - level) for level in levels]
forecasts = {
    "boosting": dist,
    "forest": predict_dist(forest.fit(X[train], target[train]), X[test]),
    "Cox": predict_dist(cox.fit(X[train], target[train]), X[test]),
    "lifelines": Quantiles(levels, np.column_stack(columns)),
}

# %%
# 2. Evaluate
# -----------
#
# The report computes proper scores for censored targets. Smaller values of the CRPS,
# the Brier score and the negative log-likelihood (nll) are better. The lines in
# brackets are confidence intervals, from a bootstrap of the test rows.

report = survival_report(
    days[test], forecasts, event=event[test], upper=2000, random_state=0
)
report

# %%
# The concordance is the share of pairs of rows that are predicted in the right
# order. It does not measure calibration, so do not use it to select models. The report
# has Harrell's index, which depends on the censoring. For Uno's index, use
# ``concordance_score(..., ipcw=True, upper=2000)``. The 90 % intervals may or may not
# contain the unknown times of censored rows. The report therefore has a lower and an
# upper bound of the coverage. The row "coverage" is an estimate under the assumption of
# independent censoring.
#
# 3. Calibration
# --------------
#
# The calibration curve is the Kaplan-Meier estimate of the PIT values:

_ = CalibrationCurveDisplay.from_predictions(
    days[test], dist, event=event[test], name="boosting"
)

# %%
# The mean predicted survival curve of a group of rows should lie in the confidence band
# of its Kaplan-Meier estimate:

many = X.loc[test, "pnodes"].to_numpy() > 5
display = SurvivalCurveDisplay.from_predictions(
    days[test][many], dist[many], event=event[test][many], name="more than 5 nodes"
)
display = SurvivalCurveDisplay.from_predictions(
    days[test][~many],
    dist[~many],
    event=event[test][~many],
    name="up to 5 nodes",
    ax=display.ax_,
)

# %%
# To recalibrate other models, use :class:`~skuq.recalibration.IsotonicRecalibrator`.
# Its ``fit`` also takes ``event``. ``CensoredBoostingRegressor`` uses this recalibrator
# by default.
#
# 4. Do not use the survival CRPS
# -------------------------------
#
# Some networks are trained with a score called the "survival CRPS". For an observed
# event, the survival CRPS is the CRPS. For a censored row, it is the integral of
# :math:`F^2` up to the censoring time. The survival CRPS is not proper. The figure
# shows the scores of forecasts whose scale is the true scale times a factor. Proper
# scores have their minimum at the true scale. The survival CRPS is smallest at 0.85
# times the true scale, because it does not penalize forecasts with too little
# probability beyond a censoring time.

rng = np.random.default_rng(0)
time = rng.normal(size=20000)
end = rng.exponential(0.9, size=20000) - 0.8
y, seen = np.minimum(time, end), time <= end
factors = np.arange(0.5, 1.55, 0.05)


def survival_crps(forecast):
    return np.mean(np.where(seen, forecast.crps(y), forecast.clip(upper=y).crps(y)))


scores = {
    "CRPS of all times": [],
    "censored nll": [],
    "survival CRPS (improper)": [],
}
for factor in factors:
    forecast = Normal(np.zeros(20000), factor)
    scores["CRPS of all times"].append(crps_loss(time, forecast))
    scores["censored nll"].append(nll_loss(y, forecast, event=seen))
    scores["survival CRPS (improper)"].append(survival_crps(forecast))

ax = plt.figure(figsize=(6.4, 3.6), layout="constrained").subplots()
best = {}
for name, values in scores.items():
    relative = np.array(values) - np.min(values)
    best[name] = factors[np.argmin(values)]
    (line,) = ax.plot(factors, relative / np.ptp(relative), label=name)
    ax.plot(best[name], 0, "o", color=line.get_color())
ax.set(xlabel="Scale relative to the true scale", ylabel="Score, from 0 to 1")
_ = ax.legend()

# %%
# 5. Search
# ---------
#
# With metadata routing, searches pass ``event`` to ``fit`` and to the scorer. Always pass
# ``scoring``: the default score of a regressor is R², which counts the times of
# censoring as observed. A score with options is a scorer of ``make_scorer``, such as
# ``make_scorer(ipcw_crps_loss, greater_is_better=False, upper=2000)``.

with sklearn.config_context(enable_metadata_routing=True):
    model = CensoredBoostingRegressor(random_state=0, cv=3).set_fit_request(
        event=True
    )
    scorer = get_scorer("neg_nll").set_score_request(event=True)
    search = GridSearchCV(model, {"max_leaf_nodes": [4, 16]}, scoring=scorer, cv=3)
    search.fit(X[train], days[train], event=event[train])
search.best_params_
