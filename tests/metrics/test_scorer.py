"""Scorers by themselves: names, options, signs, caching, copies."""

import copy
import importlib.util
import pickle
import re
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import make_regression
from sklearn.inspection import permutation_importance
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.metrics import check_scoring
from sklearn.metrics import get_scorer_names as sklearn_names
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from skuq import _compat
from skuq.distributions import Normal
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import (
    crps_loss,
    get_scorer,
    get_scorer_names,
    make_scorer,
    mean_interval_width,
    prediction_interval_coverage,
    scorers,
)
from skuq.metrics._spec import all_specs
from skuq.model_selection import refit_best
from skuq.prediction import predict_dist
from tests.metrics.options import class_specs, required

OF_CLASSES = [spec.scorer_name for spec in class_specs().values()]  # those: test_class_scorer.py
OF_TARGETS = [
    spec.scorer_name for spec in all_specs(rooms=True).values() if spec.of_targets
]  # those: tests/multivariate
READY = [spec for spec in all_specs(rooms=True).values() if spec.ready_made]
ELSEWHERE = [spec.scorer_name for spec in READY if spec.scorer_name in OF_CLASSES + OF_TARGETS]
NAMES = sorted(spec.scorer_name for spec in READY if spec.scorer_name not in ELSEWHERE)
WITHOUT_DIRECTION = [spec.abbreviation for spec in READY if spec.direction is None]
X, Y = make_regression(n_samples=90, n_features=4, noise=20.0, random_state=0)


class Counting(RegressorMixin, BaseEstimator):
    """Counts the calls of its ``predict_dist``, over all clones."""

    calls = 0

    def fit(self, X, y):
        self.mean_, self.std_ = np.mean(y), np.std(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)

    def predict_dist(self, X):
        type(self).calls += 1
        return Normal(self.predict(X), np.full(len(X), self.std_))


@pytest.fixture
def counting():
    Counting.calls = 0
    return Counting()


def own_metric(y_true, dist, *, sample_weight=None, power=1.0):
    return float(np.average(np.abs(y_true - dist.median()) ** power, weights=sample_weight))


def test_vocabulary():
    assert get_scorer_names() == sorted({*NAMES, *ELSEWHERE} - {*WITHOUT_DIRECTION})
    assert {"picp", "mpiw", "bandwidth", "sharpness", "miss_rate", "deficit"} <= {*WITHOUT_DIRECTION}
    assert not set(get_scorer_names()) & set(sklearn_names())


def test_value_is_the_signed_metric_of_the_distribution(subtests):
    model = BayesianRidge().fit(X, Y)
    mean, std = np.asarray(predict_dist(model, X)).T
    for spec in all_specs(rooms=True).values():
        if spec.scorer_name not in NAMES:
            continue
        with subtests.test(msg=spec.scorer_name):
            sign = -1 if spec.direction == "lower" else 1
            features = (X,) if spec.needs_X else ()
            scorer = scorers(spec.scorer_name)[spec.scorer_name]
            for options in ({}, {"sample_weight": np.arange(90)}):
                score = scorer(model, X, Y, **options)
                assert type(score) is float
                value = spec.compute(Y, Normal(mean, std), *features, **required(spec), **options)
                assert score == pytest.approx(sign * value, rel=1e-12)
            assert check_scoring(model, scoring=scorer) is scorer


def test_copies_of_a_scorer_score_alike(subtests):
    model = BayesianRidge().fit(X, Y)
    for name in NAMES:
        with subtests.test(msg=name):
            scorer = scorers(name)[name]
            few = scorer(model, X[:20], Y[:20])  # warnings are errors
            for twin in (pickle.loads(pickle.dumps(scorer)), copy.deepcopy(scorer), copy.copy(scorer)):
                assert twin(model, X[:20], Y[:20]) == few
                assert (twin.__name__, repr(twin)) == (name, repr(scorer))


def test_the_error_of_an_unknown_name_has_similar_ones():
    for name, hint in (
        ("crps", "Did you mean 'neg_crps'"),
        ("neg_crsp", "Did you mean .*'neg_crps'"),
        ("neg_CRPS", "Did you mean 'neg_crps'"),
        ("ence", "Did you mean 'neg_ence'"),
        ("r2", "scorer of scikit-learn"),
        ("zzzzzzzz", "Known: auucc_gain, .*neg_crps"),
    ):
        with pytest.raises(ValueError, match=hint):
            get_scorer(name)
        with pytest.raises(ValueError, match=hint):
            scorers("neg_crps", name)
    for name, meant in (("neg_picp", "picp"), ("coverage", "picp"), ("width", "mpiw")):
        # `get_scorer` refuses a metric without direction, so it does not suggest its name.
        call = f"make_scorer('{meant}', monitoring=True)"
        with pytest.raises(ValueError, match=f"Did you mean {re.escape(call)}"):
            get_scorer(name)
        assert eval(call).__name__ == meant
        with pytest.raises(ValueError, match=f"Did you mean '{meant}'"):
            scorers(name)


def test_options_and_names_are_checked_when_the_scorer_is_made():
    for error, message, call in (
        (TypeError, r"`options` of 'crps' must be options of this metric \(crps_estimator\), got 'coverage'",
         lambda: make_scorer("crps", coverage=0.5)),
        (TypeError, "got 'sample_weight'", lambda: make_scorer("crps", sample_weight=np.ones(3))),
        (TypeError, "`metric` must be callable as",
         lambda: make_scorer(own_metric, greater_is_better=False, color="red")),
        (ValueError, "Did you mean 'crps'", lambda: make_scorer("crsp")),
        (TypeError, "`metric` must be a name or a function, got int", lambda: make_scorer(3)),
        (TypeError, r"`name` must be a string.*make_scorer", lambda: get_scorer(crps_loss)),
        (ValueError, "at least one", scorers),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()
    for name, options, message in (
        ("interval_score", {"coverage": 2}, "`coverage` must lie strictly between 0 and 1, got 2"),
        ("pinball", {"levels": [0.1, 1.5]}, "`levels` must lie strictly between 0 and 1"),
        ("ence", {"n_bins": 0}, "`n_bins` must be at least 1"),
        ("ence", {"strategy": "kmeans"}, "`strategy` must be one of"),
        ("agce", {"fraction": 3}, r"`fraction` must lie in \[0, 1\], got 3"),
        ("cals", {"level_weights": [1.0, 2.0]}, "`level_weights` must have 9 rows"),
        ("auucc", {"x_range": (0, 1), "y_range": (0, 1)}, "`x_range` and `y_range` must not both be given"),
        ("auucc_gain", {"denominator": "both"}, "`denominator` must be one of"),
        ("cwc", {"eta": -1}, "`eta` must be non-negative"),
        ("ert", {"norm": "l3"}, "`norm` must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            make_scorer(name, **options)


@pytest.mark.parametrize("metric", ["crps", "neg_crps", crps_loss])
def test_three_ways_to_name_a_metric(metric):
    scorer, model = make_scorer(metric), BayesianRidge().fit(X, Y)
    assert scorer(model, X, Y) == get_scorer("neg_crps")(model, X, Y)
    assert scorer.__name__ == "neg_crps"
    assert repr(scorer) == "make_scorer('crps')"
    assert repr(make_scorer("interval_score", coverage=0.5)) == "make_scorer('interval_score', coverage=0.5)"


def test_options_are_bound():
    model = BayesianRidge().fit(X, Y)
    wide, narrow = (
        make_scorer("mpiw", greater_is_better=False, coverage=c)(model, X, Y) for c in (0.95, 0.5)
    )
    assert wide < 2 * narrow


def test_metrics_with_a_direction_accept_no_other():
    make_scorer("crps", greater_is_better=False)
    with pytest.raises(
        ValueError,
        match=r"`greater_is_better` must be None for 'crps', got .*direction of this metric is fixed",
    ):
        make_scorer("crps", greater_is_better=True)
    narrow = make_scorer(mean_interval_width, greater_is_better=False)
    model = BayesianRidge().fit(X, Y)
    assert narrow(model, X, Y) == -make_scorer("mpiw", monitoring=True)(model, X, Y) < 0
    assert narrow.__name__ == "neg_mpiw"
    assert repr(narrow) == "make_scorer('mpiw', greater_is_better=False)"


def test_a_metric_without_direction_is_read_and_never_selected_by():
    """A scorer does not know whether it is in a search, where the wider or less covering model would win."""
    model, best = BayesianRidge().fit(X, Y), "'neg_c(rps|lass_log_loss)'"
    for name in WITHOUT_DIRECTION:
        ways = rf"scoring=scorers\({best}, '{name}'\) and refit={best}, or refit=refit_best"
        for call, argument in ((get_scorer, "name"), (make_scorer, "metric")):
            message = f"`{argument}` must be a metric with a direction, got '{name}'.*{ways}"
            with pytest.raises(ValueError, match=message):
                call(name)
        monitor = make_scorer(name, monitoring=True)
        assert (monitor.__name__, monitor.greater_is_better) == (name, None)
        assert repr(monitor).startswith(f"make_scorer('{name}', monitoring=True")
        assert repr(monitor) == repr(scorers(name)[name])
    with pytest.raises(ValueError, match="direction") as caught:  # The calls of the message keep the options.
        make_scorer("picp", coverage=0.8)
    (scoring,) = re.findall(r"scoring=(\{.*?\)\}) and", str(caught.value))
    assert repr(eval(scoring)["picp"]) == "make_scorer('picp', monitoring=True, coverage=0.8)"
    (directed,) = re.findall(r"such as (.*)\.$", str(caught.value))
    assert repr(eval(directed)) == "make_scorer('picp', greater_is_better=False, coverage=0.8)"
    coverage = make_scorer("picp", monitoring=True)
    assert coverage(model, X, Y) == prediction_interval_coverage(Y, predict_dist(model, X))
    _, train, test = learning_curve(model, X, Y, scoring=coverage, cv=3, train_sizes=[0.5, 1.0])
    assert train.shape == test.shape == (2, 3)
    importance = permutation_importance(model, X, Y, scoring=coverage, n_repeats=2, random_state=0)
    assert (importance.importances >= -0.2).all()
    # With a direction, the argument has no effect. A metric of one's own needs one of the two.
    assert repr(make_scorer("crps", monitoring=True)) == "make_scorer('crps')"
    own = make_scorer(own_metric, monitoring=True, power=2)
    assert repr(own) == "make_scorer(own_metric, monitoring=True, power=2)"
    assert own(model, X, Y) > 0


def test_a_search_beside_metrics_without_direction_selects_by_the_named_score():
    grid, scoring = {"alpha_init": [1e-4, 1.0]}, scorers("neg_crps", "picp")
    search = GridSearchCV(BayesianRidge(max_iter=1), grid, scoring=scoring, refit="neg_crps", cv=3).fit(X, Y)
    results = search.cv_results_
    assert search.best_index_ == np.argmax(results["mean_test_neg_crps"])
    assert search.best_index_ != np.argmax(results["mean_test_picp"])  # the wider intervals
    with pytest.raises(ValueError, match="refit"):  # scikit-learn's, for a dict
        GridSearchCV(BayesianRidge(), grid, scoring=scorers("mpiw")).fit(X, Y)
    with pytest.raises(ValueError, match="`scorer_name` must be a metric with a direction, got 'picp'"):
        refit_best("picp")


def test_a_metric_of_ones_own():
    with pytest.raises(TypeError, match="`greater_is_better` must be given"):
        make_scorer(own_metric)
    loss = make_scorer(own_metric, greater_is_better=False, power=2)
    model = BayesianRidge().fit(X, Y)
    weight = np.arange(90)
    expected = -np.average((Y - model.predict(X)) ** 2, weights=weight)
    assert loss(model, X, Y, sample_weight=weight) == pytest.approx(expected)
    assert loss.__name__ == "neg_own_metric"
    assert repr(loss) == "make_scorer(own_metric, greater_is_better=False, power=2)"
    assert pickle.loads(pickle.dumps(loss))(model, X, Y) == loss(model, X, Y)
    bound = make_scorer(partial(own_metric, power=2), greater_is_better=False)
    assert bound(model, X, Y) == loss(model, X, Y)
    assert cross_val_score(model, X, Y, scoring=bound).shape == (5,)


def test_scorers_of_a_search_predict_once_beside_scikit_learns_own(counting):
    cross_val_score(counting, X, Y, cv=3, scoring=get_scorer("neg_crps"))
    assert counting.calls == 3
    scoring = {**scorers(*NAMES[:8]), "r2": "r2", "mae": "neg_mean_absolute_error"}
    result = cross_validate(counting, X, Y, cv=3, scoring=scoring, return_train_score=True)
    assert counting.calls == 9  # once for the training and once for the test rows of each fold
    assert np.isfinite(result["test_r2"]).all()
    for name, scorer in scorers(*NAMES[:8]).items():
        expected = cross_val_score(Counting(), X, Y, cv=3, scoring=scorer)
        np.testing.assert_allclose(result[f"test_{name}"], expected, rtol=1e-12)


def test_a_search_predicts_once_a_fold_and_candidate(counting):
    pipeline = make_pipeline(StandardScaler(), counting)
    grid = {"standardscaler__with_mean": [True, False]}
    GridSearchCV(pipeline, grid, scoring=scorers(*NAMES), refit="neg_crps", cv=3).fit(X, Y)
    assert counting.calls == 6


def test_a_model_without_a_distribution_is_named():
    with pytest.raises(NotProbabilisticError, match="LinearRegression"):
        get_scorer("neg_crps")(LinearRegression().fit(X, Y), X, Y)
    with pytest.raises(NotProbabilisticError):
        cross_val_score(LinearRegression(), X, Y, scoring=get_scorer("neg_crps"), error_score="raise")


def test_scores_without_the_private_base_of_scikit_learn(monkeypatch):
    """Should scikit-learn move ``_BaseScorer``, single scores and weights must go on."""
    import sklearn.metrics._scorer as private

    monkeypatch.delattr(private, "_BaseScorer")
    found = importlib.util.spec_from_file_location("compat_without_base", _compat.__file__)
    compat = importlib.util.module_from_spec(found)
    found.loader.exec_module(compat)
    assert compat.BaseScorer.__module__ == "compat_without_base"

    scorer_file = importlib.util.find_spec("skuq.metrics._scorer").origin
    found = importlib.util.spec_from_file_location("scorer_without_base", scorer_file)
    module = importlib.util.module_from_spec(found)
    monkeypatch.setattr(_compat, "BaseScorer", compat.BaseScorer)
    found.loader.exec_module(module)
    monkeypatch.undo()

    scorer, model = module.DistributionScorer(crps_loss, False, {}, "crps"), BayesianRidge().fit(X, Y)
    assert compat.BaseScorer in type(scorer).__mro__
    weight = np.arange(90)
    expected = get_scorer("neg_crps")
    assert scorer(model, X, Y) == expected(model, X, Y)
    assert scorer(model, X, Y, sample_weight=weight) == expected(model, X, Y, sample_weight=weight)
    assert scorer._accept_sample_weight()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cross_val_score(model, X, Y, scoring=scorer).shape == (5,)


def test_options_are_checked_without_a_forecast():
    for spec in all_specs(rooms=True).values():
        if spec.of_targets:
            continue
        spec.computation(required(spec))
        for name in spec.options:
            with pytest.raises((TypeError, ValueError)):
                spec.computation({**required(spec), name: object()})


def test_a_scorer_of_random_groups_leaves_numpys_generator_alone():
    model = BayesianRidge().fit(X, Y)
    generator = check_random_state(None)  # numpy's own
    before = generator.get_state()[1].copy()
    scorer = get_scorer("neg_agce")
    assert scorer(model, X, Y) == scorer(model, X, Y)
    make_scorer("agce", fraction=0.2)
    np.testing.assert_array_equal(generator.get_state()[1], before)


def test_the_direction_is_a_truth_value_of_any_library():
    def loss(y_true, dist):
        return 1.0

    assert make_scorer(loss, greater_is_better=np.False_).__name__ == "neg_loss"
    for direction in ("no", 0):
        with pytest.raises(ValueError, match="`greater_is_better` must be one of None, True, False"):
            make_scorer(loss, greater_is_better=direction)
