"""Scores under shift: transforms, tilts, any scorer of any estimator."""

import itertools

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.conformal import ConformalClassifier
from skuq.evaluation import Tilt, shift_curve
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import get_scorer, make_scorer, prediction_interval_coverage
from skuq.prediction import predict_dist

X, Y = load_diabetes(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
IRIS, SPECIES = load_iris(return_X_y=True)
FOLDS = list(KFold(3, shuffle=True, random_state=0).split(X))
COVERAGE = make_scorer("picp", monitoring=True)


def add_noise(X, severity, random_state):
    return X + severity * np.random.default_rng(random_state).normal(size=np.shape(X))


# ---------------------------------------------------------------------------------- the curve


def test_a_tilt_weights_the_rows_of_each_fold():
    tilt = Tilt(2)
    scores = shift_curve(
        BayesianRidge(), X, Y, shift=tilt, severities=[0, 1, -2], scoring=["picp", "r2"], cv=FOLDS
    )
    assert list(scores) == ["picp", "r2", "effective_rows"]
    for fold, (train, test) in enumerate(FOLDS):
        model = BayesianRidge().fit(X[train], Y[train])
        dist = predict_dist(model, X[test])
        for row, severity in enumerate([0.0, 1.0, -2.0]):
            weight = np.exp(severity * X[test, 2])
            weight *= len(test) / weight.sum()
            expected = prediction_interval_coverage(Y[test], dist, sample_weight=weight)
            assert scores["picp"][row, fold] == pytest.approx(expected, rel=1e-12)
            assert scores["r2"][row, fold] == pytest.approx(
                model.score(X[test], Y[test], sample_weight=weight), rel=1e-10
            )
            effective = weight.sum() ** 2 / (weight**2).sum()
            assert scores["effective_rows"][row, fold] == pytest.approx(effective, rel=1e-12)
    assert scores["effective_rows"][0] == pytest.approx([len(test) for _, test in FOLDS])


def test_a_transform_moves_the_tested_rows_alone():
    model = make_pipeline(StandardScaler(), BayesianRidge())
    scores = shift_curve(
        model, X, Y, shift=add_noise, severities=[0, 1, 3], scoring="picp", cv=FOLDS, random_state=0
    )
    assert list(scores) == ["picp"]
    assert scores["picp"].shape == (3, 3)
    expected = cross_val_score(model, X, Y, scoring=COVERAGE, cv=FOLDS)
    assert_array_equal(scores["picp"][0], expected)
    assert (np.diff(scores["picp"].mean(axis=1)) < 0).all()


def add_in_place(X, severity, random_state):
    X += severity
    return X


@pytest.mark.parametrize("container", [np.array, pd.DataFrame])
def test_a_transform_in_place_does_not_add_up(container):
    features = container(X)
    options = {"severities": [2, 0, 2], "scoring": "picp", "cv": FOLDS}
    found = shift_curve(BayesianRidge(), features, Y, shift=add_in_place, **options)
    expected = shift_curve(BayesianRidge(), features, Y, shift=lambda X, severity, _: X + severity, **options)
    assert_array_equal(found["picp"], expected["picp"])
    assert_array_equal(features, X)


def test_draws_are_the_same_at_all_severities_and_those_of_folds_differ():
    seeds = []

    def record(X, severity, random_state):
        seeds.append((severity, random_state))
        return X

    options = {"shift": record, "severities": [1, 2], "scoring": "r2", "cv": FOLDS}
    for random_state in (0, 0, 1):
        shift_curve(BayesianRidge(), X, Y, random_state=random_state, **options)
    drawn = np.array(seeds).reshape(3, 3, 2, 2)[..., 1]
    assert (drawn[:, :, 0] == drawn[:, :, 1]).all()
    assert len(set(drawn[0, :, 0])) == 3
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).all()


def test_jobs_change_nothing():
    options = {"shift": add_noise, "severities": [0, 1], "scoring": ["picp", "r2"], "cv": FOLDS}
    with parallel_config(backend="threading"):
        curves = [shift_curve(BayesianRidge(), X, Y, n_jobs=k, random_state=3, **options) for k in (None, 2)]
    for name in curves[0]:
        assert_array_equal(curves[0][name], curves[1][name])


def test_classifiers_have_stratified_folds_and_their_scorers():
    scores = shift_curve(
        RandomForestClassifier(20, random_state=0),
        IRIS,
        SPECIES,
        shift=add_noise,
        severities=[0.0, 2.0],
        scoring=["set_coverage", "set_size", "neg_set_coverage_error", "accuracy", "neg_log_loss"],
        random_state=0,
    )
    assert scores["set_coverage"].shape == (2, 5)
    assert all(np.isfinite(values).all() for values in scores.values())
    assert scores["set_coverage"][1].mean() < scores["set_coverage"][0].mean() - 0.1
    assert (scores["accuracy"][0] > 0.85).all()  # sorted by class, and unstratified folds would lack some


def test_a_finished_model_stays_as_it_is():
    model = BayesianRidge().fit(X[:200], Y[:200])
    rows = np.arange(200, len(Y))
    scores = shift_curve(
        FrozenEstimator(model), X, Y, shift=Tilt(2), severities=[1], scoring="picp", cv=[(rows, rows)]
    )
    weight = Tilt(2).weights(X[rows], 1)
    expected = prediction_interval_coverage(Y[rows], predict_dist(model, X[rows]), sample_weight=weight)
    assert scores["picp"].tolist() == [[pytest.approx(expected)]]


def test_scorers_come_in_every_form():
    def own(estimator, X, y, sample_weight=None):
        return np.average(np.abs(y - estimator.predict(X)), weights=sample_weight)

    def curve(scoring):
        return shift_curve(BayesianRidge(), X, Y, shift=Tilt(0), severities=[0.5], scoring=scoring, cv=FOLDS)

    assert list(curve(own)) == ["own", "effective_rows"]
    assert list(curve(get_scorer("neg_crps"))) == ["neg_crps", "effective_rows"]
    mixed = curve({"a": own, "b": "neg_mean_absolute_error", "c": COVERAGE})
    assert list(mixed) == ["a", "b", "c", "effective_rows"]
    assert_allclose(mixed["a"], -mixed["b"])


def test_data_frames_and_groups_of_rows():
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(10)])
    target = pd.Series(Y, index=frame.index[::-1])
    folds = list(GroupKFold(3).split(X, Y, np.arange(len(Y)) // 10))
    model = make_pipeline(StandardScaler(), BayesianRidge())
    named = shift_curve(model, frame, target, shift=Tilt("x2"), severities=[0, 1], scoring="picp", cv=folds)
    plain = shift_curve(model, X, Y, shift=Tilt(2), severities=[0, 1], scoring="picp", cv=folds)
    assert_array_equal(named["picp"], plain["picp"])


def test_weights_are_routed():
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer("picp", monitoring=True).set_score_request(sample_weight=True)
        routed = shift_curve(
            BayesianRidge(), X, Y, shift=Tilt(2), severities=[1], scoring={"picp": scorer}, cv=FOLDS
        )
    plain = shift_curve(BayesianRidge(), X, Y, shift=Tilt(2), severities=[1], scoring="picp", cv=FOLDS)
    assert_array_equal(routed["picp"], plain["picp"])


class RecordingGroups(GaussianNB):
    """Keeps the features that it was fitted on."""

    def fit(self, X, y):
        self.seen_ = X
        return super().fit(X, y)


@pytest.mark.parametrize("routing", [False, True])
def test_groups_reach_the_splitter_of_a_conformal_estimator(routing):
    groups = np.arange(len(IRIS)) // 5
    held_out = []

    def record(estimator, X, y, sample_weight=None):
        held_out.append(estimator.estimator_.seen_[:, -1])
        return 0.0

    splitter = GroupShuffleSplit(1, random_state=0)
    with config_context(enable_metadata_routing=routing):
        model = ConformalClassifier(RecordingGroups(), cv=splitter)
        shift_curve(
            model,
            np.column_stack([IRIS, groups]),
            SPECIES,
            shift=Tilt(0),
            severities=[0],
            scoring=record,
            cv=[(np.arange(0, 150, 2), np.arange(1, 150, 2))],
            params={"groups": groups},
        )
    (trained,) = held_out
    of_group = np.bincount(trained.astype(int), minlength=30)
    in_fold = np.bincount(groups[::2], minlength=30)
    assert set(np.unique(of_group)) > {0}
    assert np.isin(of_group, [0]).sum() + (of_group == in_fold).sum() == 30
    with pytest.raises(ValueError, match="groups"):
        shift_curve(model, IRIS, SPECIES, shift=Tilt(0), severities=[0], scoring="set_coverage", cv=3)


# ----------------------------------------------------------------------------------- the tilt


@pytest.mark.parametrize("direction", [0, [1.0, 0, 0], np.array([1, 0, 0])], ids=str)
def test_a_tilt_is_exponential_in_z_and_sums_to_the_rows(direction):
    rows = np.random.default_rng(0).normal(size=(50, 3))
    weight = Tilt(direction).weights(rows, 1.5)
    assert_allclose(np.log(weight[1:] / weight[0]), 1.5 * (rows[1:, 0] - rows[0, 0]), rtol=1e-9)
    assert weight.sum() == pytest.approx(50)
    assert_allclose(Tilt(direction).weights(rows, 0), 1.0)


def test_rows_of_a_tilt_may_be_lists_or_sparse():
    assert_array_equal(Tilt(1).weights(X.tolist(), 0.5), Tilt(1).weights(X, 0.5))
    for convert, direction in itertools.product(
        (sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix), (2, np.arange(10.0))
    ):
        found = Tilt(direction).weights(convert(X), 0.5)
        assert_allclose(found, Tilt(direction).weights(X, 0.5), rtol=1e-10)


def test_errors_of_models_are_raised():
    model = LogisticRegression(max_iter=1000)
    with pytest.raises(NotProbabilisticError, match="LogisticRegression"):
        shift_curve(model, IRIS, SPECIES, shift=Tilt(0), severities=[0], scoring="picp", cv=3)


def test_weights_of_an_extreme_tilt_do_not_overflow():
    weight = Tilt(0).weights(np.array([[0.0], [1000.0], [2000.0]]), 5.0)
    assert weight.tolist() == [0.0, 0.0, 3.0]


# --------------------------------------------------------------------------------- bad input


def test_the_number_of_folds_may_be_of_numpy():
    options = {"shift": Tilt(0), "severities": [0], "scoring": "accuracy"}
    model = LogisticRegression(max_iter=1000)
    found = shift_curve(model, IRIS, SPECIES, cv=np.int64(3), **options)
    expected = shift_curve(model, IRIS, SPECIES, cv=3, **options)
    assert_array_equal(found["accuracy"], expected["accuracy"])
