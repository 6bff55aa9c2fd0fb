"""Errors of evaluations: the argument, the condition and the value are named."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge

from skuq.distributions import Normal
from skuq.evaluation import (
    Tilt,
    bootstrap_interval,
    compare_score_decompositions,
    expected_loss,
    metric_agreement,
    optimal_action,
    paired_permutation_test,
    probability_reliability_curve,
    quantile_reliability_curve,
    relative_economic_value,
    score_decomposition,
    shift_curve,
    uncertainty_report,
)
from skuq.metrics import get_scorer
from skuq.monitoring import MetricAccumulator
from skuq.multivariate import NormalJoint, joint_report
from skuq.survival import survival_report

N = 7
RNG = np.random.default_rng(0)
NORMAL, POINT = Normal(RNG.normal(size=N), 1.0), Normal([0.0], [1.0])
X, Y = RNG.normal(size=(20, 10)), RNG.normal(size=20)
TARGETS = np.array([1.0, 2, 4, 3, 7, 5, 8, 6])
MEAN, WEIGHT = TARGETS + 0.5, np.array([1.0, 2, 1, 1, 3, 1, 1, 2])
DIST = Normal(MEAN, np.ones(8))
EVENTS, PROBA = np.array([0, 0, 0, 1, 1, 1]), np.array([0.4, 0.3, 0.2, 0.1, 0.5, 0.9])
PAIR = Normal(PROBA, PROBA)
FRAME = pd.DataFrame({"crps": [1.0, 2.0, 3.0], "nll": [1.0, 3.0, 2.0]})
JOINT = NormalJoint(np.zeros((N, 2)), np.eye(2))
EVENT = np.array([True, True, False])
THREE, COLUMNS = [[0.2, 0.3, 0.5]], {"labels": [0, 1, 2]}

value = partial(relative_economic_value, [0.0, 1.0], Normal([0.0, 1.0], 1.0))
report = partial(uncertainty_report, n_resamples=0, n_draws=0)
report_3 = partial(report, np.zeros(3), Normal(np.zeros(3), np.ones(3)))
interval = partial(bootstrap_interval, Y, Normal(Y, 1.0))
compared = partial(paired_permutation_test, Y, Normal(Y, 1.0), Normal(Y + 1, 1.0))
agree = partial(metric_agreement, FRAME)
parts = partial(score_decomposition, TARGETS)
parts_of_events = partial(score_decomposition, EVENTS, score="brier")
differences = partial(compare_score_decompositions, TARGETS, DIST, DIST)
quantile_curve = partial(quantile_reliability_curve, EVENTS)
event_curve = partial(probability_reliability_curve, EVENTS)
survival = partial(survival_report, [1.0, 2.0, 3.0])


def curve(y=Y, **options):
    given = {"shift": Tilt(0), "severities": [0, 1], "scoring": "picp", "cv": 2, **options}
    return shift_curve(BayesianRidge(), X, y, **given)


def decide(**options):
    """Both functions have the checks of a loss."""
    with pytest.raises(ValueError, match="`"):
        optimal_action(NORMAL, **options)
    return expected_loss(NORMAL, **options)


def bounded(action, y):
    return np.tanh((y - action) ** 2)


BAD_VALUES = [
    (lambda: decide(loss="huber"), "`loss` must be one of 'absolute', .* got 'huber'"),
    (lambda: decide(loss="pinball"), r"`levels` must be given .* pass levels=u / \(u \+ o\)"),
    (lambda: decide(loss="pinball", levels=75), "`levels` must lie strictly between 0 and 1, got 75"),
    (lambda: decide(loss="pinball", levels=[0.5, 0.6]), "`levels` must have 7 rows"),
    (lambda: decide(loss="squared", levels=0.3), "`levels` must be None unless the loss is 'pinball'"),
    (lambda: decide(coverage=0.8), "`coverage` must be None unless the loss is 'interval'"),
    (lambda: decide(breaks=[1.0]), "`breaks` must be None unless the loss is a function"),
    (lambda: decide(loss=bounded, breaks=[np.nan]), "`breaks` must be finite"),
    (lambda: decide(loss=lambda a, y: 1.0), r"`loss` must return an array of shape \(7,\)"),
    (lambda: decide(loss=lambda a, y: np.nan * y), "`loss` must not return NaN, got NaN"),
    (lambda: expected_loss(NORMAL, action=[1.0, 2.0]), "`action` must have 7 rows"),
    (lambda: expected_loss(NORMAL, action=np.nan), "`action` must not contain NaN"),
    (lambda: expected_loss(NORMAL, "crps", action=1.0), "`action` must be None for the loss 'crps'"),
    (lambda: expected_loss(NORMAL, "interval", action=np.zeros((N, 3))), r"`action` must have shape \(n, 2"),
    (lambda: expected_loss(NORMAL, "interval", action=[[1, 0]] * N), "`action` must have lower bounds"),
    (lambda: expected_loss(NORMAL, bounded, action=np.inf), "`action` must be finite"),
    (lambda: optimal_action(NORMAL, "crps"), "`loss` must depend on an action"),
    (lambda: optimal_action(NORMAL, "interval", actions=[1.0]), "`actions` must be None for the loss 'int"),
    (lambda: optimal_action(NORMAL, actions=[]), "`actions` must have shape"),
    (lambda: optimal_action(NORMAL, actions=[np.inf]), "`actions` must be finite"),
    (lambda: optimal_action(NORMAL, lambda a, y: -a), "still decreases at the action .* Pass the possible a"),
    # economic value
    (lambda: value(threshold=9.0), "got 0 targets above 9 in 2 rows"),
    (lambda: value(threshold=np.nan), "`threshold` must be finite"),
    (lambda: value(threshold=0.5, above="over"), "`above` must be one of True, False, got 'over'"),
    (lambda: value(threshold=0.5, ratios=[0.5, 1.0]), "`ratios` must lie strictly between 0 and 1, got 1"),
    (lambda: value(threshold=0.5, sample_weight=[-1.0, 1.0]), "`sample_weight` must be non-negative"),
    (lambda: relative_economic_value([1.0], POINT, threshold=0.5), "have rows with and without the event"),
    # agreement of metrics
    (lambda: metric_agreement(FRAME.iloc[:2]), "`reports` must have at least 3 rows.*got 2"),
    (lambda: metric_agreement(pd.DataFrame()), "`reports` must have at least 3 rows.*got 0"),
    (lambda: metric_agreement(FRAME[["crps"]]), "`reports` must have at least 2 metrics.*got 1"),
    (lambda: metric_agreement(FRAME.assign(nll=1.0)), "`reports` must have at least two different .*'nll'"),
    (lambda: metric_agreement(FRAME.assign(nll=0.1 + 1e-16)), "must have at least two different values"),
    (lambda: metric_agreement(FRAME.assign(nll=[1, 2, np.nan])), "NaN, got one in 'nll' of report 2"),
    (lambda: metric_agreement(FRAME.astype("Float64").mask(FRAME > 2)), "NaN, got one in 'crps' of report 2"),
    (lambda: metric_agreement(FRAME.set_axis(["crps"] * 2, axis=1)), "different column names, got 'crps'"),
    (lambda: metric_agreement(FRAME.assign(picp=[1, 2, 4])), "`directions` must state .* for 'picp'"),
    (lambda: agree(directions={"R2": "lower"}), "`directions` must name metrics.*'R2'"),
    (lambda: agree(directions="down"), "`directions` must be .*got 'down'"),
    (lambda: agree(directions={"nll": np.nan}), "`directions` must be finite"),
    (lambda: agree(n_resamples=0), "`n_resamples` must be at least 1"),
    (lambda: agree(random_state="a"), "`random_state` must be"),
    # shifts
    (lambda: Tilt(3).weights(X[:, :2], 1.0), "`direction` must be one of the 2 columns of X, got 3"),
    (lambda: Tilt(-1).weights(X, 1.0), "`direction` must be at least 0"),
    (lambda: Tilt("age").weights(X, 1.0), r"`direction` must be a column of X \(no names\), got 'age'"),
    (lambda: Tilt("age").weights(pd.DataFrame({"bmi": [1.0]}), 1.0), r"column of X \(bmi\), got 'age'"),
    (lambda: Tilt([1.0, 2.0]).weights(X, 1.0), r"10 coefficients, one per column of X, got shape \(2,\)"),
    (lambda: Tilt(0).weights(np.array([[np.nan]]), 1.0), "`X` must be finite"),
    (lambda: Tilt(0).weights([1.0, 2.0], 1.0), r"`X` must have shape \(n, n_features\), got \(2,\)"),
    (lambda: Tilt(0).weights(X, np.inf), "`severity` must be finite, got inf"),
    (lambda: curve(severities=1.0), r"`severities` must have shape \(n_severities,\)"),
    (lambda: curve(severities=[np.inf]), "`severities` must be finite"),
    (lambda: curve(shift=lambda X, severity, seed: X[:5]), "not change the number of rows, got 5 rows"),
    (lambda: curve(shift=lambda X, severity, seed: None), "not change the number of rows, got 0 rows"),
    (lambda: curve(scoring="picq"), "`name` must be one of skuq's scorers, got 'picq'"),
    (lambda: curve(scoring=[]), "`scoring` must hold at least one"),
    (lambda: curve(scoring={"effective_rows": "picp"}), "must not use the name 'effective_rows'"),
    (lambda: curve(random_state="a"), "`random_state` must be an int"),
    (lambda: curve(y=Y[:5]), "inconsistent numbers of samples"),
    # bootstrap intervals and permutation tests
    (lambda: interval("crsp"), "`metric` must be a metric of skuq, got 'crsp'"),
    (lambda: interval("expected_normalized_calibration_error"), r"Did you mean 'ence'\?"),
    (lambda: interval("energy_score"), "joint distributions"),
    (lambda: interval("crps", confidence=95), "`confidence` must lie strictly between 0 and 1"),
    (lambda: interval("crps", n_resamples=1), "`n_resamples` must be at least 2"),
    (lambda: interval("crps", method="studentized"), "`method` must be one of"),
    (lambda: interval("crps", sample_weight=np.ones(4)), "`sample_weight` must have 20 rows"),
    (lambda: interval("crps", sample_weight=np.full(20, 0.01)), "`sample_weight` counts repetitions"),
    (lambda: compared("crps", alternative="both"), "`alternative` must be one of"),
    (lambda: compared("crps", n_resamples=0), "`n_resamples` must be at least 1"),
    (lambda: paired_permutation_test(Y, Normal(Y, 1.0), NORMAL, "crps"), "rows"),
    (lambda: bootstrap_interval(Y, NORMAL, "crps", sample_weight=np.arange(20.0)), "rows"),
    # reports
    (lambda: report([1], POINT, labels=[0, 1]), "`y_pred` must hold probabilities or sets .* got Normal"),
    (lambda: report([1], THREE, labels=[0, 1]), r"`labels` must have shape \(3,\)"),
    (lambda: report([1], [[0.2, 0.3, 0.6]]), "`y_pred` must have rows that sum to 1"),
    (lambda: report([1], THREE), "`labels` must be given if"),
    (lambda: report([1], THREE, **COLUMNS, metrics=["crps"]), "`metrics` must be metrics of classes"),
    (lambda: report([1], POINT, metrics=["ece"]), "`metrics` must be metrics of distributions or intervals"),
    (lambda: report([1], np.eye(3)[:1] > 0, **COLUMNS, metrics=["ece"]), "metric that can evaluate `y_pred`"),
    (lambda: report_3(metrics=["crsp"]), "must be a metric of skuq, got 'crsp'"),
    (lambda: report_3(metrics=["energy_score"]), "joint_report"),
    (lambda: report_3(options={"picp": {"coverage": 2.0}}), "`coverage` must lie strictly between"),
    (lambda: report_3(coverage=80), "`coverage` must lie strictly between 0 and 1"),
    (lambda: report_3(n_resamples=-1), "`n_resamples` must be at least 0"),
    (lambda: report_3(confidence=95), "`confidence` must lie strictly between 0 and 1"),
    (lambda: report_3(sample_weight=[0.1, 0.1, 0.1]), "`sample_weight` counts repetitions"),
    (lambda: report(np.zeros(3), {}), "`y_pred` must hold at least one forecast"),
    (lambda: report(np.zeros(3), POINT), "`y_pred` has 1 row and `y_true` has 3"),
    (lambda: report([0.0, np.nan], PAIR), "`y_true` must be finite"),
    (lambda: report([1.0], POINT, metrics=[]), "`metrics` must name at least one"),
    (lambda: report([1.0], [[0.0, 1.0]], metrics=["crps"]), "include a metric that can evaluate `y_pred`"),
    (lambda: report([1.0], [[2.0, 1.0]]), "`y_pred` must"),
    (lambda: report([1.0], {1: POINT, "1": POINT}), "names that differ"),
    (lambda: report([1.0], POINT, options={"ence": {}, "neg_ence": {}}), "'ence' under two names"),
    (lambda: MetricAccumulator("energy_score"), "joint distributions"),
    # decompositions and reliability curves
    (lambda: parts(DIST, score="rps"), "`score` must be one of 'crps'"),
    (lambda: parts(DIST, method="mean"), "`method` must be one of 'quantile', 'threshold'"),
    (lambda: parts(DIST, score="brier", method="threshold"), "`method` must be 'quantile' with"),
    (lambda: parts(DIST, threshold=9), "`threshold` must be None with score='crps'"),
    (lambda: parts(DIST, score="squared_error", levels=9), "`levels` must be None with"),
    (lambda: parts(DIST, labels=[0, 1]), "`labels` must be None with"),
    (lambda: parts(DIST, score="brier"), "`threshold` must be given for score='brier'"),
    (lambda: parts(DIST, score="brier", threshold=1, labels=[0]), "`labels` must be None if"),
    (lambda: parts(DIST, levels=[0.5, 0.4]), "`levels` must be strictly increasing"),
    (lambda: parts(DIST, levels=[0.0, 0.4]), "`levels` must lie strictly between 0 and 1"),
    (lambda: parts(DIST, method="threshold", threshold=[1.0]), "at least two numbers"),
    (lambda: parts(DIST, method="threshold", threshold=[1.0, np.nan]), "`threshold` must be f"),
    (lambda: parts(DIST, n_draws=-1), "`n_draws` must be at least 0"),
    (lambda: parts(DIST, groups=[1, 2]), r"`groups` must have shape \(8,\), got \(2,\)"),
    (lambda: parts(DIST, groups=[None] * 8), "`groups` must not have missing values"),
    (lambda: parts(DIST, sample_weight=-WEIGHT), "`sample_weight` must be non-negative"),
    (lambda: parts(DIST, sample_weight=WEIGHT / 99), "`sample_weight` counts repetitions"),
    (lambda: parts(MEAN[:3], score="squared_error"), "`y_pred` must have 8 rows"),
    (lambda: parts(MEAN * np.nan, score="squared_error"), "`y_pred` must be finite"),
    (lambda: score_decomposition(np.full(8, np.nan), DIST), "`y_true` must be finite"),
    (lambda: score_decomposition([], Normal([], [])), "at least one row"),
    (lambda: parts_of_events(PROBA, threshold=1.0), "`threshold` must be None if"),
    (lambda: parts_of_events(2 * PROBA), r"`y_pred` must lie in \[0, 1\]"),
    (lambda: score_decomposition(EVENTS * 0, PROBA, score="brier"), "`labels` must be given if"),
    (lambda: differences(method="threshold"), "with method='threshold', `threshold` must be an array"),
    (lambda: differences(confidence=1.5), "`confidence` must lie strictly between 0 and 1"),
    (lambda: differences(n_resamples=1), "`n_resamples` must be at least 2"),
    (lambda: quantile_curve(PAIR, levels=1.0), "`levels` must lie strictly"),
    (lambda: quantile_curve(PROBA), "`band` must be 'confidence' or None if `y_pred`"),
    (lambda: quantile_curve(PAIR, band="both"), "`band` must be one of"),
    (lambda: quantile_curve(PAIR, n_draws=1), "`n_draws` must be at least"),
    (lambda: event_curve(PAIR), "`threshold` must be a value of y"),
    (lambda: event_curve(PROBA, threshold=1.0), "`threshold` must be None"),
    (lambda: event_curve(PROBA, of_class=7), "`of_class` must be one of"),
    (lambda: event_curve(PROBA, confidence=90), "`confidence` must lie strictly"),
    (lambda: event_curve(PAIR, threshold=0.5, of_class=1), "`labels` and `of_class` must be None"),
    # censored targets
    (lambda: survival({}), "`y_pred` must hold at least one forecast"),
    (lambda: survival({"kaplan_meier": Normal([1, 2, 3], 1.0)}), "none with the name 'kaplan_meier'"),
    (
        lambda: survival(Normal([1, 2, 3], 1), upper=99.0, event=EVENT),
        "after which rows are uncensored, got 99",
    ),
    (lambda: survival(Normal([1, 2], 1)), "`y_pred` must have 3 rows"),
    (lambda: survival(Normal([1, 2, 3], 1), event=EVENT & ~EVENT), "all 3 targets are censored"),
]
BAD_TYPES = [
    (lambda: expected_loss(np.zeros((3, 2))), "`dist` must be a Distribution"),
    (lambda: metric_agreement(FRAME.assign(nll=["a", "b", "c"])), "text in 'nll'. Pass names of reports as"),
    (lambda: metric_agreement(FRAME.astype(str)), "`reports` must hold real numbers, got text in 'crps'"),
    (lambda: metric_agreement(FRAME + 1j), "`reports` must hold real numbers"),
    (lambda: metric_agreement([FRAME]), "mapping from names to results of uncertainty_report, got list"),
    (lambda: metric_agreement(FRAME.to_numpy()), "`reports` must be a DataFrame.*ndarray"),
    (lambda: metric_agreement({"a": 1.0}), "`reports` must be a DataFrame, or a mapping"),
    (lambda: agree(directions={"nll": None}), "`directions` must be a number"),
    (lambda: agree(directions=["lower", "lower"]), "`directions` must be a mapping"),
    (lambda: Tilt(1.5).weights(X, 1.0), "`direction` must be an integer"),
    (lambda: Tilt("word").weights(pd.DataFrame({"word": ["a"]}), 1.0), "`X` must hold real numbers"),
    (lambda: curve(shift=2), "`shift` must be a Tilt or a function"),
    (lambda: curve(scoring=3), "`scoring` must be a name, a scorer"),
    (lambda: curve(scoring=[get_scorer("neg_crps")]), "`scoring` must be a list of names"),
    (lambda: curve(scoring=lambda model, X, y: 0.0), "accept `sample_weight`, .* '<lambda>' does not"),
    (lambda: curve(scoring=lambda *args, sample_weight=None: {}), "return one number, but '<lambda>' ret"),
    (lambda: curve(cv="five"), "`cv` must be an int, a splitter"),
    (lambda: interval(3.0), "`metric` must be a name or a function"),
    (lambda: interval(get_scorer("neg_crps")), r"got the scorer .* Pass its name, 'neg_crps'"),
    (lambda: interval("crps", options={"level": 0.5}), "`options` of 'crps' must be options of this metric"),
    (lambda: compared("crpss"), "`options` of 'crpss' must include"),
    (lambda: report_3(metrics="crps"), "`metrics` must be a sequence of names, got the string 'crps'"),
    (lambda: report_3(metrics=["crps", len]), r"by name or function, got <built-in .*`bootstrap_interval`"),
    (lambda: report_3(options={"crps": {"level": 1}}), "`options` of 'crps' must be options of this metric"),
    (lambda: report_3(options={"picp": 0.8}), "`options` of 'picp' must be a mapping"),
    (lambda: report_3(n_draws=0.5), "`n_draws` must be an integer"),
    (lambda: report(np.zeros(3), None), r"must be a Distribution or bounds of shape \(n, 2\), got NoneType"),
    (lambda: report(np.zeros(3), np.zeros(3)), r"must be a Distribution or bounds of shape \(n, 2\), got"),
    (lambda: report([1.0], [[0.0, 1.0, 2.0]]), r"Empirical\(y_pred\)"),
    (lambda: parts(MEAN), "`y_pred` must be a Distribution, got .* Point predictions"),
    (lambda: parts(MEAN, score="pinball", levels=2), "`y_pred` must be a Distribution, got"),
    (lambda: survival(Normal([1, 2, 3], 1), upper="late"), "`upper` must be a number"),
    (lambda: joint_report(np.zeros((N, 2)), NORMAL), "JointDistribution"),
    (lambda: report(np.zeros(N), JOINT), r"`\.marginal\(\.\.\.\)`"),
    (lambda: bootstrap_interval(np.zeros(N), JOINT, "crps"), r"`\.marginal\(\.\.\.\)`"),
    (lambda: MetricAccumulator().update(np.zeros(N), JOINT), r"`\.marginal\(\.\.\.\)`"),
]


@pytest.mark.parametrize(("error", "cases"), [(ValueError, BAD_VALUES), (TypeError, BAD_TYPES)])
def test_bad_arguments_are_named(error, cases, subtests):
    for build, message in cases:
        with subtests.test(msg=message), pytest.raises(error, match=message):
            build()
