"""FLAML chooses learners with a distribution by a metric of skuq."""

import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, RidgeCV

from skuq import UncertaintyRegressor, get_scorer, predict_dist, supports_dist
from skuq.displays import CalibrationCurveDisplay
from skuq.exceptions import NotProbabilisticError
from skuq.integrations.flaml import learner, metric
from skuq.integrations.flaml._flaml import BASES
from skuq.metrics import crps_loss, interval_score_loss, make_scorer, prediction_interval_coverage
from tests.integrations.automl import X, Y, installed

flaml = installed("flaml.automl.automl")
task_factory = installed("flaml.automl.task.factory").task_factory
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(120)]

WRAP = partial(UncertaintyRegressor, effort="low", random_state=0)
# Trials instead of seconds, so that the result does not depend on the machine.
SETTINGS = {
    "task": "regression",
    "eval_method": "holdout",
    "time_budget": None,
    "n_jobs": 1,
    "verbose": 0,
    "seed": 0,
    "keep_search_state": True,
}


def searched(learners, max_iter=4, **settings):
    automl = flaml.AutoML()
    for name, one in learners.items():
        automl.add_learner(name, one)
    automl.fit(X, Y, estimator_list=list(learners), max_iter=max_iter, **{**SETTINGS, **settings})
    return automl


@pytest.fixture(scope="module")
def automl():
    return searched({"boosting": learner("lgbm", WRAP), "forest": learner("rf", WRAP)}, metric=metric("crps"))


def test_the_distribution_of_an_automl_is_that_of_its_model(automl):
    assert isinstance(automl.model.estimator, UncertaintyRegressor)
    dist = predict_dist(automl, X)
    own = automl.model.estimator.predict_dist(automl.model.preprocess(automl.preprocess(X)))
    np.testing.assert_array_equal(dist.mean(), own.mean())
    np.testing.assert_array_equal(predict_dist(automl.model, X).std(), own.std())
    assert supports_dist(automl)
    assert get_scorer("neg_crps")(automl, X, Y) == -crps_loss(Y, dist)


def test_an_automl_without_a_model_is_not_fitted():
    automl = flaml.AutoML()
    assert not supports_dist(automl)
    with pytest.raises(NotFittedError, match="AutoML has no model"):
        predict_dist(automl, X)


def test_a_learner_of_flaml_itself_gives_no_distribution():
    automl = flaml.AutoML()
    automl.fit(X, Y, metric="rmse", estimator_list=["rf"], max_iter=1, **SETTINGS)
    assert not supports_dist(automl)
    with pytest.raises(NotProbabilisticError, match="RandomForestRegressor gives no predictive distribution"):
        predict_dist(automl, X)


def test_an_automl_can_be_pickled(automl):
    again = pickle.loads(pickle.dumps(automl))
    np.testing.assert_array_equal(predict_dist(again, X).std(), predict_dist(automl, X).std())


def test_the_metric_is_that_of_skuq_on_the_validation_rows():
    model = BayesianRidge().fit(X, Y)
    dist = predict_dist(model, X)
    function = pickle.loads(pickle.dumps(metric("crps", "picp", make_scorer("interval_score", coverage=0.5))))
    loss, logged = function(X, Y, model, None, X, Y)
    assert loss == logged["crps"] == crps_loss(Y, dist)
    assert logged["picp"] == prediction_interval_coverage(Y, dist)
    assert logged["interval_score"] == interval_score_loss(Y, dist, coverage=0.5)
    weight = np.arange(len(Y), dtype=float)
    loss, _ = function(X, Y, model, None, X, Y, weight)
    assert loss == crps_loss(Y, dist, sample_weight=weight)
    gain = metric(make_scorer("crpss", y_train=Y))
    loss, logged = gain(X, Y, model, None, X, Y)
    assert loss == -logged["crpss"] < 0


@pytest.mark.parametrize(
    ("loss", "also_logged", "error", "message"),
    [
        ("mpiw", (), ValueError, "`loss` must be a metric with a direction, got 'mpiw'"),
        ("crps", ("neg_crps",), ValueError, "different names, got crps, crps"),
        ("rmse", (), ValueError, "`metric` must be a metric of skuq, got 'rmse'"),
        (crps_loss, (), TypeError, "`loss` must be the name of a metric of distributions"),
        ("set_size", (), TypeError, "`loss` must be the name of a metric of distributions"),
        ("crps", (3,), TypeError, "`also_logged` must be the name of a metric of distributions"),
    ],
)
def test_what_is_no_metric_is_refused_before_the_search(loss, also_logged, error, message):
    with pytest.raises(error, match=message):
        metric(loss, *also_logged)


@pytest.mark.laws
def test_a_constraint_on_coverage_excludes_trials_however_small_their_loss():
    learners = {"linear": learner("enet", WRAP)}
    free, bound = metric("crps", "picp"), metric("crps", subject_to={"picp": ("<=", 0.5)})
    chosen = [searched(learners, max_iter=4, metric=one).best_result for one in (free, bound)]
    logged = [one["metric_for_logging"] for one in chosen]
    assert min(one["picp"] for one in logged) > 0.5
    assert chosen[0]["val_loss"] == logged[0]["crps"]
    assert chosen[1]["val_loss"] > 1e99
    # FLAML's own constraints do nothing to it, as the docstring has it.
    own = searched(learners, max_iter=4, metric=free, metric_constraints=[("picp", "<=", 0.5)])
    assert own.best_result["metric_for_logging"] == logged[0]


def test_where_all_trials_violate_a_constraint_the_smallest_violation_leads():
    bound = metric("crps", subject_to={"picp": (">=", 0.9), "mpiw": ("<=", 2.0)})
    losses = [bound._loss({"crps": 1.0, "picp": picp, "mpiw": 2.0}) for picp in (0.8, 0.89, 0.9, np.nan)]
    assert losses[0] > losses[1] > 1e99
    assert losses[2] == 1.0
    assert np.isnan(losses[3])


def test_folds_are_constrained_by_their_means():
    bound = metric("crps", subject_to={"picp": (">=", 0.74)})
    folds = [{"crps": 1.0, "picp": 0.7}, {"crps": 2.0, "picp": 0.8}]
    assert bound.aggregate([1.0, 2.0], folds) == (1.5, {"crps": 1.5, "picp": pytest.approx(0.75)})
    automl = searched(
        {"linear": learner("enet", WRAP)},
        max_iter=2,
        metric=bound,
        eval_method="cv",
        n_splits=2,
        cv_score_agg_func=bound.aggregate,
    )
    assert automl.best_loss == automl.best_result["metric_for_logging"]["crps"]


@pytest.mark.parametrize("base", BASES)
def test_a_learner_has_the_search_space_of_its_base(base):
    task = task_factory("regression")
    own = task.estimator_class_from_str(base)
    wrapped = learner(base, WRAP)
    space = wrapped.search_space(data_size=X.shape, task=task)
    assert space.keys() == own.search_space(data_size=X.shape, task=task).keys()
    assert wrapped.cost_relative2lgbm() == own.cost_relative2lgbm()
    low_cost = {name: one.get("low_cost_init_value", one.get("init_value")) for name, one in space.items()}
    config = {name: value for name, value in low_cost.items() if value is not None}
    assert wrapped.size(config) == own.size(config)
    one = wrapped(task=task, n_jobs=1, **config)
    one.fit(X, Y, budget=60)
    assert type(one.estimator.estimator) is own(task=task, **config).estimator_class
    again = clone(one).fit(X, Y)
    assert again > 0  # FLAML's fit returns seconds
    assert len(predict_dist(pickle.loads(pickle.dumps(one)), X[:3])) == 3


class Slow(RegressorMixin, BaseEstimator):
    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        time.sleep(60)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals of a timer")
def test_a_trial_that_exceeds_the_budget_is_cut_off():
    handler, (alarm, _) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    one = learner("rf", Slow)(task="regression", n_jobs=1)
    one.fit(X, Y, budget=0.2)
    # About the normal distribution of Y, for which all metrics are finite.
    dist = predict_dist(one, X)
    np.testing.assert_allclose(dist.mean(), Y.mean(), atol=0.3)
    np.testing.assert_allclose(dist.std(), Y.std(), rtol=0.1)
    _, logged = metric("crps", "nll", "ence")(X, Y, one, None, X, Y)
    assert np.isfinite(list(logged.values())).all()
    # What the alarm was for before, here the limit of pytest, it is for again.
    assert signal.getsignal(signal.SIGALRM) is handler
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == (alarm > 0)


def test_outside_of_the_main_thread_a_trial_is_finished():
    one = learner("rf", WRAP)(task="regression", n_jobs=1, n_estimators=5)
    with ThreadPoolExecutor() as pool:
        pool.submit(one.fit, X, Y, budget=0.001).result()
    assert isinstance(one.estimator, UncertaintyRegressor)


@pytest.mark.laws
def test_an_ensemble_has_a_final_estimator_with_a_distribution():
    final = UncertaintyRegressor(RidgeCV(), effort="low", random_state=0)
    automl = searched(
        {"boosting": learner("lgbm", WRAP), "forest": learner("rf", WRAP)},
        max_iter=8,
        metric=metric(),
        ensemble={"final_estimator": final, "passthrough": False, "n_jobs": 1},
    )
    stacked = automl.model.transform(automl.preprocess(X))
    own = automl.model.final_estimator_.predict_dist(stacked)
    np.testing.assert_array_equal(predict_dist(automl, X).std(), own.std())
    CalibrationCurveDisplay.from_estimator(automl, X, Y)


def test_a_wrapper_that_is_not_callable_and_an_unknown_base_are_refused():
    with pytest.raises(
        TypeError, match="`wrap` must be a callable that gets an estimator, got UncertaintyReg"
    ):
        learner("rf", UncertaintyRegressor(RandomForestRegressor()))
    with pytest.raises(ValueError, match=r"`base` must be one of 'lgbm'.*got 'catboost'"):
        learner("catboost")
