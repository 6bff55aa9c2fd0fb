"""Choosing a candidate under constraints."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.exceptions import ConstraintWarning
from skuq.metrics import get_scorer, make_scorer, scorers
from skuq.metrics._spec import all_specs
from skuq.model_selection import refit_best
from skuq.prediction import predict_dist

NAN = np.nan


def results(**columns):
    return {f"mean_test_{name}": np.array(values, dtype=float) for name, values in columns.items()}


CV = results(
    neg_crps=[-3, -1, -2, -4],
    neg_ence=[-0.05, -0.4, -0.1, -0.02],
    picp=[0.9, 0.7, 0.88, 0.95],
    r2=[1, 2, 3, 4],
)


def test_the_highest_score_of_those_that_satisfy_every_constraint_wins():
    assert refit_best("r2")(CV) == 3
    assert refit_best("neg_crps")(results(neg_crps=[-2, -1, -1])) == 1  # ties go to the first
    assert type(refit_best("neg_crps")(CV)) is int
    for subject_to, winner in (
        (None, 1),
        ({}, 1),
        ({"ence": ("<=", 0.1)}, 2),  # a limit on ENCE, not on its negative, which all would satisfy
        ({"ence": ("<=", 0.09)}, 0),
        ({"ence": ("<=", 0.1), "picp": (">=", 0.9)}, 0),
        ({"ence": ["<=", 0.03]}, 3),
    ):
        assert refit_best("neg_crps", subject_to=subject_to)(CV) == winner


def test_scorers_of_scikit_learn_and_the_fit_time_can_constrain():
    cv = results(neg_crps=[-1, -2], neg_mean_absolute_error=[-5, -3], r2=[0.2, 0.9])
    cv["mean_fit_time"] = np.array([9.0, 1.0])
    for limit in (
        {"mean_absolute_error": ("<=", 4.0)},
        {"r2": (">=", 0.5)},
        {"mean_fit_time": ("<=", 5)},
    ):
        assert refit_best("neg_crps", subject_to=limit)(cv) == 1


def test_smallest_relative_violation_wins_with_a_warning():
    cv = results(neg_crps=[-1, -2, -3], neg_ence=[-0.4, -0.15, -0.2], picp=[0.89, 0.45, 0.85])
    refit = refit_best("neg_crps", subject_to={"ence": ("<=", 0.1)})
    with pytest.warns(
        ConstraintWarning, match=r"no candidate satisfies ence <= 0.1.*violation \(0.5\) is selected"
    ):
        assert refit(cv) == 1
    # picp misses by half of 0.9 in row 1, ence by its own size in row 2 and by three times in row 0
    refit = refit_best("neg_crps", subject_to={"ence": ("<=", 0.1), "picp": (">=", 0.9)})
    with pytest.warns(ConstraintWarning, match=r"violation \(0.5\)"):
        assert refit(cv) == 1
    refit = refit_best("neg_crps", subject_to={"ence": ("<=", 0.15), "picp": (">=", 0.9)})
    with pytest.warns(ConstraintWarning, match=r"violation \(0.333\)"):
        assert refit(cv) == 2
    # The score decides between equal violations, and a limit of zero is violated absolutely.
    cv = results(neg_crps=[-3, -1, -2], neg_ence=[-0.2, -0.2, -0.9], auucc_gain=[-0.3, -0.1, -0.2])
    with pytest.warns(ConstraintWarning):
        assert refit_best("neg_crps", subject_to={"ence": ("<=", 0.1)})(cv) == 1
    with pytest.warns(ConstraintWarning, match=r"violation \(0.1\)"):
        assert refit_best("neg_crps", subject_to={"auucc_gain": (">=", 0.0)})(cv) == 1


def test_nan_never_wins():
    refit = refit_best("neg_crps", subject_to={"ence": ("<=", 0.1)})
    for crps, ence, winner in (
        ([NAN, -3, -2], [0.0, 0.0, 0.0], 2),
        ([-1, -3, -2], [NAN, 0.0, 0.0], 2),
        ([-1, -3, -np.inf], [NAN, NAN, 0.0], 2),
        ([-1, NAN, -2], [-0.01, 0.0, -0.01], 0),
    ):
        assert refit(results(neg_crps=crps, neg_ence=ence)) == winner
    with pytest.warns(ConstraintWarning):  # nor among violators
        assert refit(results(neg_crps=[-1, NAN, -2], neg_ence=[NAN, -0.2, -0.3])) == 2
    with pytest.raises(ValueError, match=r"must have finite values.*error_score='raise'"):
        refit(results(neg_crps=[NAN, -1], neg_ence=[-0.1, NAN]))


@pytest.mark.parametrize(
    ("refit", "cv", "message"),
    [
        (
            refit_best("neg_nll"),
            CV,
            "`scorer_name` must be a scorer of the search .neg_crps, neg_ence, picp, r2., got",
        ),
        (refit_best("ence"), CV, "got 'ence'. Did you mean 'neg_ence'"),
        (
            refit_best("r2", subject_to={"mace": ("<=", 0.5)}),
            CV,
            "`subject_to` must contain metrics of the search .*got 'mace'",
        ),
        (
            refit_best("neg_crps"),
            results(score=[1, 2]),
            r"it has a single metric: pass scoring=scorers\(...\)",
        ),
        (
            refit_best("r2", subject_to={"ence": ("<=", 0.1)}),
            results(r2=[1.0], ence=[-0.3]),
            r"`scoring` must contain 'neg_ence', got 'ence'\. Smaller values",
        ),
    ],
)
def test_missing_metrics_are_named(refit, cv, message):
    with pytest.raises(ValueError, match=message):
        refit(cv)


@pytest.mark.parametrize(
    ("name", "subject_to", "error", "message"),
    [
        (3, None, TypeError, "`scorer_name` must be a string"),
        ("picp", None, ValueError, "`scorer_name` must be a metric with a direction, got 'picp'"),
        ("mpiw", None, ValueError, r"make_scorer\('mpiw', greater_is_better=False\)"),
        ("neg_crps", [("ence", "<=", 1)], TypeError, "`subject_to` must be a dict"),
        ("neg_crps", {3: ("<=", 1)}, TypeError, "`subject_to` must have strings as keys"),
        ("neg_crps", {"ence": 0.1}, ValueError, r"`subject_to\['ence'\]` must be a pair such as"),
        ("neg_crps", {"ence": "<="}, ValueError, r"`subject_to\['ence'\]` must be a pair such as"),
        (
            "neg_crps",
            {"ence": ("<", 0.1)},
            ValueError,
            r"`subject_to\['ence'\]\[0\]` must be one of '<=', '>='",
        ),
        ("neg_crps", {"ence": ("<=", "0.1")}, TypeError, r"`subject_to\['ence'\]\[1\]` must be a number"),
        ("neg_crps", {"ence": ("<=", NAN)}, ValueError, r"`subject_to\['ence'\]\[1\]` must be finite"),
        ("neg_crps", {"neg_ence": ("<=", 0.1)}, ValueError, r"got the scorer 'neg_ence'\. Use 'ence'"),
        ("neg_crps", {"picp": (">=", 88)}, ValueError, "got 'picp >= 88'\\. .* and no value in this range"),
    ],
)
def test_bad_arguments(name, subject_to, error, message):
    with pytest.raises(error, match=message):
        refit_best(name, subject_to=subject_to)


@pytest.mark.parametrize("pipeline", [False, True])
def test_in_a_search(pipeline):
    X, y = make_regression(n_samples=200, n_features=3, noise=10.0, random_state=0)
    model = (
        make_pipeline(StandardScaler(), BayesianRidge(max_iter=1)) if pipeline else BayesianRidge(max_iter=1)
    )
    name = "bayesianridge__alpha_init" if pipeline else "alpha_init"
    search = GridSearchCV(
        model,
        {name: [0.1, 0.01, 1.0]},
        scoring=scorers("neg_crps", "neg_ence", "picp"),
        refit=refit_best("neg_crps", subject_to={"picp": (">=", 0.5)}),
        error_score="raise",
    )
    for each in (search, clone(search), pickle.loads(pickle.dumps(search))):
        each.fit(X, y)
        assert each.best_index_ == int(np.argmax(each.cv_results_["mean_test_neg_crps"]))
        assert each.best_params_ == each.cv_results_["params"][each.best_index_]
        assert len(predict_dist(each, X)) == 200
        assert get_scorer("neg_crps")(each, X, y) < 0


def test_what_a_callable_refit_costs_is_as_documented():
    X, y = make_regression(n_samples=60, n_features=3, noise=10.0, random_state=0)
    search = GridSearchCV(
        BayesianRidge(),
        {"alpha_1": [1e-6, 1e3]},
        scoring=scorers("neg_crps", "picp"),
        refit=refit_best("neg_crps"),
    ).fit(X, y)
    assert not hasattr(search, "best_score_")
    with pytest.raises(KeyError):
        search.score(X, y)


def test_narrowest_intervals_that_hold():
    X, y = make_regression(n_samples=200, n_features=3, noise=10.0, random_state=0)
    scoring = {"neg_mpiw": make_scorer("mpiw", greater_is_better=False), **scorers("picp")}
    search = GridSearchCV(
        BayesianRidge(max_iter=1),
        {"alpha_init": [1e-4, 0.01, 1.0]},
        scoring=scoring,
        refit=refit_best("neg_mpiw", subject_to={"picp": (">=", 0.85)}),
    ).fit(X, y)
    widths, coverage = -search.cv_results_["mean_test_neg_mpiw"], search.cv_results_["mean_test_picp"]
    allowed = np.flatnonzero(coverage >= 0.85)
    assert search.best_index_ == allowed[np.argmin(widths[allowed])]


@pytest.mark.parametrize("spec", all_specs(rooms=True).values(), ids=lambda spec: spec.abbreviation)
def test_a_constraint_separates_values_of_its_metric(spec):
    def refusal(operator, limit):
        try:
            refit_best("neg_crps", subject_to={spec.abbreviation: (operator, limit)})
        except ValueError as error:
            return str(error)
        return ""

    values = np.array([-9.0, -1.0, -0.4, 0.0, 0.4, 1.0, 1.8, 9.0])
    values = values[(spec.bounds[0] <= values) & (values <= spec.bounds[1])]
    for limit in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5):
        for operator, hold in (("<=", values <= limit), (">=", values >= limit)):
            message = refusal(operator, limit)
            assert ("every value in this range" in message) == hold.all()
            assert ("no value in this range" in message) == (not hold.any())
            assert ("not as percent" in message) == (bool(message) and spec.bounds == (0, 1))
            assert bool(message) == (hold.all() or not hold.any())
