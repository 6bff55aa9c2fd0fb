"""Scorers in every tool of scikit-learn and Optuna that takes them, bare and on a Pipeline.

All scorers have one code of prediction and of routing. So all of them go through `cross_validate`, and one of
them through each other tool.
"""

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.datasets import make_regression
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - makes the class importable
from sklearn.feature_selection import RFECV, SequentialFeatureSelector
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel
from sklearn.inspection import permutation_importance
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    LearningCurveDisplay,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skuq.metrics import get_scorer, scorers
from skuq.prediction import predict_dist
from tests.metrics.options import forecast_specs

READY = [spec for spec in forecast_specs().values() if spec.ready_made]
NAMES = sorted(spec.scorer_name for spec in READY)  # those with X: test_conditional_coverage.py
X, Y = make_regression(n_samples=80, n_features=4, n_informative=2, noise=10.0, random_state=0)
WEIGHT = np.random.default_rng(0).integers(1, 4, size=80)
GROUPS = np.arange(80) // 4
CRPS = get_scorer("neg_crps")

every_shape = pytest.mark.parametrize("shape", ["bare", "pipeline"])


def model_of(shape):
    """Return an estimator and the name of its parameter alpha_1."""
    if shape == "bare":
        return BayesianRidge(), "alpha_1"
    return make_pipeline(StandardScaler(), BayesianRidge()), "bayesianridge__alpha_1"


@pytest.fixture
def informative():
    return np.abs(BayesianRidge().fit(X, Y).coef_) > 5


@pytest.fixture(scope="module")
def _pyplot():
    """Import matplotlib, whose time no test should pay."""
    pytest.importorskip("matplotlib.pyplot")


def check(values, shape=None):
    values = np.asarray(values, dtype=float)
    assert np.isfinite(values).all()
    if shape is not None:
        assert values.shape == shape


@every_shape
def test_cross_validation_of_one_and_of_all(shape):
    model, _ = model_of(shape)
    result = cross_validate(
        model, X, Y, scoring=scorers(*NAMES), cv=3, error_score="raise", return_train_score=True
    )
    for name in NAMES:
        check(result[f"test_{name}"], (3,))
        check(result[f"train_{name}"], (3,))
        one = cross_val_score(model, X, Y, scoring=scorers(name)[name], cv=3, error_score="raise")
        np.testing.assert_array_equal(one, result[f"test_{name}"])


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.laws)])
def test_cross_validate_in_processes_and_threads(backend):
    model, _ = model_of("pipeline")
    with threadpool_limits(1):  # as in joblib's processes; more threads change the last digit of a product
        expected = cross_validate(model, X, Y, scoring=scorers(*NAMES), cv=2)
    with parallel_config(backend), threadpool_limits(1):
        result = cross_validate(model, X, Y, scoring=scorers(*NAMES), cv=2, n_jobs=2)
    for name in NAMES:
        np.testing.assert_array_equal(result[f"test_{name}"], expected[f"test_{name}"])


SEARCHES = {
    "grid": (GridSearchCV, {"cv": 3}),
    "randomized": (RandomizedSearchCV, {"n_iter": 2, "cv": 3, "random_state": 0}),
    "halving": (HalvingGridSearchCV, {"cv": 2, "min_resources": 40}),
}


@every_shape
@pytest.mark.parametrize("kind", SEARCHES)
def test_a_search_by_one_scorer(kind, shape):
    (model, parameter), (search, options) = model_of(shape), SEARCHES[kind]
    search = search(model, {parameter: [1e-6, 1e3]}, scoring=CRPS, error_score="raise", **options)
    scores = search.fit(X, Y).cv_results_["mean_test_score"]
    check(scores)
    assert search.best_score_ == scores.max()
    assert search.score(X, Y) == CRPS(search.best_estimator_, X, Y)
    assert len(predict_dist(search, X)) == 80


@every_shape
def test_a_search_by_several_scorers_with_refit_by_name(shape):
    model, parameter = model_of(shape)
    search = GridSearchCV(model, {parameter: [1e-6, 1e3]}, scoring=scorers(*NAMES), refit="neg_crps", cv=3)
    search.fit(X, Y)
    for name in NAMES:
        check(search.cv_results_[f"mean_test_{name}"], (2,))
    assert search.score(X, Y) == CRPS(search, X, Y)


@every_shape
def test_nested_searches(shape):
    model, parameter = model_of(shape)
    search = GridSearchCV(model, {parameter: [1e-6, 1e3]}, scoring=CRPS, cv=2)
    result = cross_validate(search, X, Y, scoring=scorers(*NAMES), cv=2, error_score="raise")
    check([result[f"test_{each}"] for each in NAMES])
    outer = GridSearchCV(search, {"cv": [2, 3]}, scoring=CRPS, error_score="raise", cv=2).fit(X, Y)
    assert len(predict_dist(outer, X)) == 80


@every_shape
@pytest.mark.usefixtures("_pyplot")
def test_curves_and_their_display(shape):
    model, parameter = model_of(shape)
    _, train, test = learning_curve(
        model, X, Y, scoring=CRPS, cv=3, train_sizes=[0.5, 1.0], error_score="raise"
    )
    check([train, test], (2, 2, 3))
    options = {"param_name": parameter, "param_range": [1e-6, 1e3], "error_score": "raise"}
    check(validation_curve(model, X, Y, scoring=CRPS, cv=3, **options), (2, 2, 3))
    display = LearningCurveDisplay.from_estimator(model, X, Y, scoring=CRPS, cv=2, train_sizes=[0.5, 1.0])
    assert "crps" in display.ax_.get_ylabel().lower()


@every_shape
def test_permutations_of_features_and_of_targets(shape, informative):
    model, _ = model_of(shape)
    options = {"n_repeats": 2, "random_state": 0}
    weighted = permutation_importance(model.fit(X, Y), X, Y, scoring=CRPS, sample_weight=WEIGHT, **options)
    check(weighted.importances, (4, 2))
    result = permutation_importance(model, X, Y, scoring=scorers(*NAMES), **options)
    assert list(result) == NAMES
    assert result["neg_crps"].importances_mean[informative].min() > 1
    assert np.abs(result["neg_crps"].importances_mean[~informative]).max() < 0.5
    score, _, p_value = permutation_test_score(
        model, X, Y, scoring=CRPS, cv=2, n_permutations=9, random_state=0
    )
    assert score < 0
    assert p_value == pytest.approx(0.1)


@every_shape
def test_selection_of_features(shape, informative):
    model, _ = model_of(shape)
    getter = "auto" if shape == "bare" else "named_steps.bayesianridge.coef_"
    selector = RFECV(model, scoring=CRPS, cv=2, importance_getter=getter).fit(X, Y)
    check(selector.cv_results_["mean_test_score"], (4,))
    assert len(predict_dist(selector, X)) == 80
    for name in ("neg_crps", "neg_nll", "neg_ence", "auucc_gain"):
        options = {"n_features_to_select": 2, "scoring": get_scorer(name), "cv": 2}
        support = SequentialFeatureSelector(model, **options).fit(X, Y).get_support()
        assert support.sum() == 2
        if name in {"neg_crps", "neg_nll"}:
            np.testing.assert_array_equal(support, informative)


@every_shape
def test_optuna_search(shape):
    pytest.importorskip("optuna_integration")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    model, parameter = model_of(shape)
    space = {parameter: optuna.distributions.FloatDistribution(1e-6, 1e3, log=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna marks the class as experimental
        from optuna_integration import OptunaSearchCV

        options = {"n_trials": 2, "cv": 2, "random_state": 0, "error_score": "raise"}
        search = OptunaSearchCV(model, space, scoring=CRPS, **options).fit(X, Y)
    assert np.isfinite(search.best_score_)
    assert len(predict_dist(search, X)) == 80


def not_requesting(shape):
    """Return the model, each step of which requests no weights."""
    model, parameter = model_of(shape)
    for step in [model] if shape == "bare" else model:
        step.set_fit_request(sample_weight=False)
    return model, parameter


# With or without weights, nothing may be missed, and the width may be constant.
MAY_TIE = {"mpiw", "sharpness", "picp", "miss_rate", "deficit", "neg_interval_coverage_error"}


@every_shape
def test_routed_weights_reach_every_metric(shape):
    splits = list(GroupKFold(3).split(X, Y, GROUPS))
    with config_context(enable_metadata_routing=True):
        model, _ = not_requesting(shape)
        scoring = {name: each.set_score_request(sample_weight=True) for name, each in scorers(*NAMES).items()}
        params = {"sample_weight": WEIGHT, "groups": GROUPS}
        result = cross_validate(
            model, X, Y, scoring=scoring, cv=GroupKFold(3), params=params, error_score="raise"
        )
    for fold, (train, test) in enumerate(splits):
        model.fit(X[train], Y[train])
        for name, scorer in scorers(*NAMES).items():
            score = result[f"test_{name}"][fold]
            expected = scorer(model, X[test], Y[test], sample_weight=WEIGHT[test])
            assert score == pytest.approx(expected, rel=1e-10), name
            assert score != scorer(model, X[test], Y[test]) or name in MAY_TIE, name


@every_shape
def test_routing_gives_each_scorer_what_it_requests(shape):
    with config_context(enable_metadata_routing=True):
        model, parameter = not_requesting(shape)
        (model if shape == "bare" else model[-1]).set_fit_request(sample_weight=True)
        requests = {"weighted": True, "plain": False, "alias": "other"}
        scoring = {
            key: get_scorer("neg_crps").set_score_request(sample_weight=request)
            for key, request in requests.items()
        }
        search = GridSearchCV(
            model, {parameter: [1e-6, 1e3]}, scoring=scoring, refit="weighted", cv=GroupKFold(3)
        )
        search.fit(X, Y, sample_weight=WEIGHT, other=np.ones(80), groups=GROUPS)
        assert get_scorer("neg_crps").get_metadata_routing().score.requests.get("sample_weight") is None
    weighted, plain, alias = (search.cv_results_[f"mean_test_{key}"] for key in scoring)
    np.testing.assert_allclose(alias, plain, rtol=1e-12)
    assert (weighted != plain).all()


@pytest.mark.parametrize(
    ("scoring", "refit"), [(CRPS, True), (scorers("neg_crps", "picp"), "neg_crps")], ids=["one", "several"]
)
def test_a_search_fitted_with_weights_and_without_routing(scoring, refit):
    grid = {"alpha_1": [1e-6, 1e3]}
    search = GridSearchCV(BayesianRidge(), grid, scoring=scoring, refit=refit, error_score="raise")
    search.fit(X, Y, sample_weight=WEIGHT)
    assert len(predict_dist(search, X)) == 80


@pytest.mark.parametrize("name", ["neg_crps", "neg_nll", "neg_pinball", "neg_interval_score"])
def test_proper_scores_choose_the_true_model(name):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(120, 1))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=120)
    noise = WhiteKernel(0.01, "fixed")
    kernels = [
        RBF(0.7, "fixed") + noise,  # the truth is smooth with noise 0.1
        RBF(0.7, "fixed") + WhiteKernel(0.25, "fixed"),  # five times the noise
        RBF(0.7, "fixed") + WhiteKernel(0.0004, "fixed"),  # a fifth of it
        DotProduct(1.0, "fixed") + noise,  # a straight line
    ]
    model = GaussianProcessRegressor(optimizer=None)
    search = GridSearchCV(model, {"kernel": kernels}, scoring=get_scorer(name), cv=5, error_score="raise")
    assert search.fit(x, y).best_index_ == 0
