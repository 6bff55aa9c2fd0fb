"""Every scorer in every tool of scikit-learn and Optuna that takes one, bare and on a Pipeline."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import make_regression
from sklearn.ensemble import RandomForestRegressor
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
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.metrics import get_scorer, scorers
from skuq.prediction import predict_dist
from tests.metrics.options import forecast_specs

READY = [spec for spec in forecast_specs().values() if spec.ready_made]
NAMES = sorted(spec.scorer_name for spec in READY)  # those with X: test_conditional_coverage.py
DIRECTED = [spec.scorer_name for spec in READY if spec.direction is not None]
X, Y = make_regression(n_samples=80, n_features=4, n_informative=2, noise=10.0, random_state=0)
WEIGHT = np.random.default_rng(0).integers(1, 4, size=80)
GROUPS = np.arange(80) // 4

SHAPES = ["bare", "pipeline"]
every_shape = pytest.mark.parametrize("shape", SHAPES)


def in_one_shape(names):
    """Give each name one shape in turn: all scorers predict by one function."""
    pairs = [(name, SHAPES[k % 2]) for k, name in enumerate(names)]
    return pytest.mark.parametrize(("name", "shape"), pairs)


every_scorer_in_one_shape = in_one_shape(NAMES)


def model_of(shape):
    """Return an estimator and the name of its parameter alpha_1."""
    if shape == "bare":
        return BayesianRidge(), "alpha_1"
    return make_pipeline(StandardScaler(), BayesianRidge()), "bayesianridge__alpha_1"


def check(values, shape=None):
    values = np.asarray(values, dtype=float)
    assert np.isfinite(values).all()
    if shape is not None:
        assert values.shape == shape


@every_scorer_in_one_shape
def test_cross_val_score(name, shape):
    model, _ = model_of(shape)
    check(cross_val_score(model, X, Y, scoring=get_scorer(name), cv=3, error_score="raise"), (3,))


@every_shape
def test_cross_validate_all_at_once(shape):
    model, _ = model_of(shape)
    result = cross_validate(
        model, X, Y, scoring=scorers(*NAMES), cv=3, error_score="raise", return_train_score=True
    )
    for name in NAMES:
        check(result[f"test_{name}"], (3,))
        check(result[f"train_{name}"], (3,))


@every_shape
def test_cross_validate_in_processes_and_threads(shape):
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    model, _ = model_of(shape)
    with threadpool_limits(1):  # as in joblib's processes; more threads change the last digit of a product
        expected = cross_validate(model, X, Y, scoring=scorers(*NAMES), cv=2)
    for backend in ("threading", "loky"):
        with parallel_config(backend), threadpool_limits(1):
            result = cross_validate(model, X, Y, scoring=scorers(*NAMES), cv=2, n_jobs=2)
        for name in NAMES:
            np.testing.assert_array_equal(result[f"test_{name}"], expected[f"test_{name}"])


@every_scorer_in_one_shape
def test_grid_search(name, shape):
    model, parameter = model_of(shape)
    search = GridSearchCV(
        model, {parameter: [1e-6, 1e3]}, scoring=get_scorer(name), cv=3, error_score="raise"
    )
    search.fit(X, Y)
    check(search.cv_results_["mean_test_score"], (2,))
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.score(X, Y) == get_scorer(name)(search.best_estimator_, X, Y)
    assert len(predict_dist(search, X)) == 80


@every_shape
def test_multi_metric_grid_search_with_refit_by_name(shape):
    model, parameter = model_of(shape)
    search = GridSearchCV(model, {parameter: [1e-6, 1e3]}, scoring=scorers(*NAMES), refit="neg_crps", cv=3)
    search.fit(X, Y)
    for name in NAMES:
        check(search.cv_results_[f"mean_test_{name}"], (2,))
    assert search.score(X, Y) == get_scorer("neg_crps")(search, X, Y)


@every_shape
@pytest.mark.parametrize("name", ["neg_crps", "neg_ence"])
def test_nested_grid_search(name, shape):
    model, parameter = model_of(shape)
    search = GridSearchCV(model, {parameter: [1e-6, 1e3]}, scoring=get_scorer(name), cv=2)
    check(cross_val_score(search, X, Y, scoring=get_scorer(name), cv=2, error_score="raise"), (2,))
    result = cross_validate(search, X, Y, scoring=scorers(*NAMES), cv=2, error_score="raise")
    check([result[f"test_{each}"] for each in NAMES])
    outer = GridSearchCV(search, {"cv": [2, 3]}, scoring=get_scorer(name), error_score="raise", cv=2).fit(
        X, Y
    )
    assert len(predict_dist(outer, X)) == 80


@every_scorer_in_one_shape
def test_halving_grid_search(name, shape):
    model, parameter = model_of(shape)
    search = HalvingGridSearchCV(
        model, {parameter: [1e-6, 1e3]}, scoring=get_scorer(name), cv=2, min_resources=40, error_score="raise"
    )
    check(search.fit(X, Y).cv_results_["mean_test_score"])


@every_shape
def test_randomized_search(shape):
    model, parameter = model_of(shape)
    search = RandomizedSearchCV(
        model,
        {parameter: [1e-6, 1e-3, 1e3]},
        n_iter=2,
        scoring=scorers(*NAMES),
        refit="neg_nll",
        random_state=0,
    )
    check([search.fit(X, Y).cv_results_[f"mean_test_{name}"] for name in NAMES])


@every_scorer_in_one_shape
def test_learning_curve(name, shape):
    model, _ = model_of(shape)
    _, train, test = learning_curve(
        model, X, Y, scoring=get_scorer(name), cv=3, train_sizes=[0.5, 1.0], error_score="raise"
    )
    check([train, test], (2, 2, 3))


@every_shape
def test_learning_curve_display(shape):
    model_selection = pytest.importorskip("sklearn.model_selection")
    pytest.importorskip("matplotlib").use("Agg")
    model, _ = model_of(shape)
    display = model_selection.LearningCurveDisplay.from_estimator(
        model, X, Y, scoring=get_scorer("neg_crps"), cv=2, train_sizes=[0.5, 1.0]
    )
    assert "crps" in display.ax_.get_ylabel().lower()


@every_scorer_in_one_shape
def test_validation_curve(name, shape):
    model, parameter = model_of(shape)
    train, test = validation_curve(
        model,
        X,
        Y,
        param_name=parameter,
        param_range=[1e-6, 1e3],
        scoring=get_scorer(name),
        cv=3,
        error_score="raise",
    )
    check([train, test], (2, 2, 3))


@every_scorer_in_one_shape
def test_permutation_importance(name, shape):
    model, _ = model_of(shape)
    result = permutation_importance(
        model.fit(X, Y), X, Y, scoring=get_scorer(name), n_repeats=2, random_state=0, sample_weight=WEIGHT
    )
    check(result.importances, (4, 2))


@every_shape
def test_permutation_importance_of_several(shape):
    model, _ = model_of(shape)
    result = permutation_importance(
        model.fit(X, Y), X, Y, scoring=scorers(*NAMES), n_repeats=2, random_state=0
    )
    assert list(result) == NAMES
    informative = np.abs(BayesianRidge().fit(X, Y).coef_) > 5
    assert result["neg_crps"].importances_mean[informative].min() > 1
    assert np.abs(result["neg_crps"].importances_mean[~informative]).max() < 0.5


@every_shape
def test_permutation_test_score(shape):
    model, _ = model_of(shape)
    score, _, p_value = permutation_test_score(
        model, X, Y, scoring=get_scorer("neg_crps"), cv=2, n_permutations=9, random_state=0
    )
    assert score < 0
    assert p_value == pytest.approx(0.1)


@every_scorer_in_one_shape
def test_rfecv(name, shape):
    model, _ = model_of(shape)
    getter = "auto" if shape == "bare" else "named_steps.bayesianridge.coef_"
    selector = RFECV(model, scoring=get_scorer(name), cv=2, importance_getter=getter).fit(X, Y)
    check(selector.cv_results_["mean_test_score"], (4,))
    assert len(predict_dist(selector, X)) == 80


@every_shape
@pytest.mark.parametrize("name", ["neg_crps", "neg_nll", "neg_ence", "auucc_gain"])
def test_sequential_feature_selector(name, shape):
    model, _ = model_of(shape)
    selector = SequentialFeatureSelector(model, n_features_to_select=2, scoring=get_scorer(name), cv=2).fit(
        X, Y
    )
    assert selector.get_support().sum() == 2
    if name in {"neg_crps", "neg_nll"}:
        informative = np.abs(BayesianRidge().fit(X, Y).coef_) > 5
        np.testing.assert_array_equal(selector.get_support(), informative)


@in_one_shape(DIRECTED)
def test_optuna_search(name, shape):
    pytest.importorskip("optuna_integration")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    import warnings

    model, parameter = model_of(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna marks the class as experimental
        from optuna_integration import OptunaSearchCV

        search = OptunaSearchCV(
            model,
            {parameter: optuna.distributions.FloatDistribution(1e-6, 1e3, log=True)},
            n_trials=2,
            cv=2,
            scoring=get_scorer(name),
            random_state=0,
            error_score="raise",
        ).fit(X, Y)
    assert np.isfinite(search.best_score_)
    assert len(predict_dist(search, X)) == 80


# ----------------------------------------------------------------------- weights and routing


@every_scorer_in_one_shape
def test_routed_weights_reach_the_metric(name, shape):
    model, _ = model_of(shape)
    step = model if shape == "bare" else model[-1]
    splits = list(GroupKFold(3).split(X, Y, GROUPS))
    with config_context(enable_metadata_routing=True):
        step.set_fit_request(sample_weight=False)
        if shape == "pipeline":
            model[0].set_fit_request(sample_weight=False)
        scorer = get_scorer(name).set_score_request(sample_weight=True)
        scores = cross_val_score(
            model,
            X,
            Y,
            scoring=scorer,
            cv=GroupKFold(3),
            params={"sample_weight": WEIGHT, "groups": GROUPS},
            error_score="raise",
        )
    for score, (train, test) in zip(scores, splits, strict=True):
        model.fit(X[train], Y[train])
        expected = get_scorer(name)(model, X[test], Y[test], sample_weight=WEIGHT[test])
        assert score == pytest.approx(expected, rel=1e-10)
        if name not in {"mpiw", "sharpness"}:
            assert score != get_scorer(name)(model, X[test], Y[test]) or name in {
                "picp",  # nothing may be missed, with weights or without
                "miss_rate",
                "deficit",
                "neg_interval_coverage_error",
            }


@every_shape
def test_routing_gives_each_scorer_what_it_requests(shape):
    model, parameter = model_of(shape)
    step = model if shape == "bare" else model[-1]
    with config_context(enable_metadata_routing=True):
        step.set_fit_request(sample_weight=True)
        if shape == "pipeline":
            model[0].set_fit_request(sample_weight=False)
        scoring = {
            "weighted": get_scorer("neg_crps").set_score_request(sample_weight=True),
            "plain": get_scorer("neg_crps").set_score_request(sample_weight=False),
            "alias": get_scorer("neg_crps").set_score_request(sample_weight="other"),
        }
        search = GridSearchCV(
            model, {parameter: [1e-6, 1e3]}, scoring=scoring, refit="weighted", cv=GroupKFold(3)
        )
        search.fit(X, Y, sample_weight=WEIGHT, other=np.ones(80), groups=GROUPS)
    weighted, plain, alias = (search.cv_results_[f"mean_test_{key}"] for key in scoring)
    np.testing.assert_allclose(alias, plain, rtol=1e-12)
    assert (weighted != plain).all()


def test_a_request_on_one_scorer_leaves_the_next_alone():
    with config_context(enable_metadata_routing=True):
        first = get_scorer("neg_crps").set_score_request(sample_weight=True)
        second = get_scorer("neg_crps")
        assert first.get_metadata_routing().score.requests == {"sample_weight": True}
        assert second.get_metadata_routing().score.requests.get("sample_weight") is None


# ----------------------------------------------------------------------------------- selection


def heteroscedastic(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 1))
    return x, np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("name", ["neg_crps", "neg_nll", "neg_pinball", "neg_interval_score"])
def test_proper_scores_choose_the_true_model(name):
    x, y = heteroscedastic(120, seed=0)
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


def test_a_model_without_a_distribution_stops_the_search():
    search = GridSearchCV(
        RandomForestRegressor(n_estimators=2),
        {"max_depth": [1, 2]},
        scoring=get_scorer("neg_crps"),
        error_score="raise",
    )
    with pytest.raises(ValueError, match="RandomForestRegressor"):
        search.fit(X, Y)


@pytest.mark.parametrize("scoring", ["one", "several"])
def test_a_search_fitted_with_weights_and_without_routing(scoring):
    search = GridSearchCV(
        BayesianRidge(),
        {"alpha_1": [1e-6, 1e3]},
        scoring=get_scorer("neg_crps") if scoring == "one" else scorers(*NAMES),
        refit=True if scoring == "one" else "neg_crps",
        error_score="raise",
    )
    search.fit(X, Y, sample_weight=WEIGHT)
    assert len(predict_dist(search, X)) == 80
