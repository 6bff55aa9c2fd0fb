"""What all neural classifiers do alike: labels, weights, entropies, many fits as one, containers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from torch import nn

from skuq.conformal import ConformalClassifier, predict_set
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import get_scorer, scorers
from skuq.neural import (
    DeepEnsembleClassifier,
    DeepEnsembleRegressor,
    MCDropoutClassifier,
    VariationalClassifier,
    fit_many,
)
from skuq.neural import _stacked as evaluate
from skuq.neural._stacked import rows_at_once
from skuq.prediction import predict_dist
from tests.neural.epochs import keep_the_same
from tests.neural.estimators import CLASSIFIERS, not_among

SMALL = {"hidden_layer_sizes": (8,), "max_epochs": 10, "learning_rate": 0.01, "random_state": 0}
MODELS = {
    "ensemble": DeepEnsembleClassifier(3, **SMALL),
    "ensemble, bootstrap": DeepEnsembleClassifier(3, bootstrap=True, keep_best="log_loss", **SMALL),
    "ensemble, held out": DeepEnsembleClassifier(3, keep_best="log_loss", standardize="all", **SMALL),
    "dropout": MCDropoutClassifier(n_draws=10, **SMALL),
    "dropout, last layer": MCDropoutClassifier(last_layer=True, n_draws=10, keep_best="log_loss", **SMALL),
    "variational": VariationalClassifier(n_draws=10, **SMALL),
    "variational, empirical": VariationalClassifier(
        n_draws=10, prior="empirical", keep_best="log_loss", **SMALL
    ),
    "variational, last layer": VariationalClassifier(last_layer=True, n_draws=10, **SMALL),
}
MODELS |= {each.__name__: each(**SMALL) for each in not_among(MODELS.values(), CLASSIFIERS)}
SCORERS = ["neg_ece", "neg_set_coverage_error", "set_coverage", "set_size"]


KINDS = ["ensemble", "dropout", "variational"]


def models(names, default=("ensemble", "variational")):
    """Parametrize the fixture `model`; names that are not among the default have the marker laws."""
    cases = [name if name in default else pytest.param(name, marks=pytest.mark.laws) for name in names]
    return pytest.mark.parametrize("model", cases, indirect=True)


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


@pytest.fixture(scope="module")
def blobs():
    """Three classes that overlap, with names."""
    X, y = make_blobs(120, centers=[[0, 0], [3, 0], [0, 3]], random_state=0)
    return X, np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def fit_once(blobs):
    """Return ``fit_once(model)``: the model fitted to the blobs, once for all tests that only read it."""
    fitted = {}

    def fit(model):
        key = type(model), repr(sorted(model.get_params().items()))
        if key not in fitted:
            fitted[key] = clone(model).fit(*blobs)
        return fitted[key]

    return fit


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600], X[600:900] / 16, y[600:900]


def same(one, other, tolerance=0.0):
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------- probabilities


def test_probabilities_and_entropies_are_those_of_the_members(model, blobs, fit_once):
    X, y = blobs
    model = fit_once(model)
    proba, members = model.predict_proba(X), model.predict_members(X)
    assert model.classes_.tolist() == ["a", "b", "c"]
    n_members = 3 if isinstance(model, DeepEnsembleClassifier) else 10
    assert members.shape == (120, n_members, 3)
    same(members.sum(axis=2), 1.0, 1e-12)
    same(proba, members.mean(axis=1), 1e-12)
    assert model.predict(X).tolist() == model.classes_[proba.argmax(axis=1)].tolist()
    assert model.score(X, y) > 0.6
    same(proba[[5]], model.predict_proba(X[[5]]), 1e-12)  # alone and among others
    total, aleatoric, epistemic = model.predict_entropy(X)
    same(total, -(proba * np.log(proba)).sum(axis=1), 1e-9)
    same(aleatoric, -(members * np.log(members)).sum(axis=2).mean(axis=1), 1e-9)
    same(epistemic, total - aleatoric, 1e-12)
    assert (epistemic >= 0).all()
    assert (epistemic <= total).all()
    assert (total <= np.log(3)).all()
    assert epistemic.max() > 1e-4


LABELS = [[False, True], [-1.0, 1.0], ["no", "yes"], [7, 3]]


@pytest.mark.parametrize(
    ("model", "labels"), [(name, LABELS[k % 4]) for k, name in enumerate(MODELS)], indirect=["model"]
)
def test_two_classes_of_any_kind(model, labels):
    X = np.linspace(-1, 1, 40).reshape(-1, 1)
    y = np.array(labels)[(X[:, 0] > 0).astype(int)]
    proba = model.set_params(max_epochs=60, learning_rate=0.03).fit(X, y).predict_proba(X)
    assert proba.shape == (40, 2)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(X[[0, -1]]).tolist() == labels


# ------------------------------------------------------------------------------------------ entropies


def test_one_member_has_no_epistemic_part(blobs):
    X, y = blobs
    parts = DeepEnsembleClassifier(1, **SMALL).fit(X, y).predict_entropy(X)
    assert (parts.epistemic == 0).all()
    assert (parts.total == parts.aleatoric).all()


@models(KINDS, ["ensemble"])
def test_the_epistemic_part_grows_with_the_roll(model, digits):
    """Of digits rolled to the right, of which no model has seen one."""
    X, y, X_new, _ = digits
    model.set_params(hidden_layer_sizes=(32,), max_epochs=40, standardize="all").fit(X, y)
    images = X_new.reshape(-1, 8, 8)
    rolled = [np.roll(images, by, axis=2).reshape(-1, 64) for by in (0, 1, 2)]
    epistemic = [model.predict_entropy(each).epistemic.mean() for each in rolled]
    assert epistemic[0] < 0.8 * epistemic[1]
    assert epistemic[1] < epistemic[2]


# --------------------------------------------------------------------------------- weights of rows


@models(MODELS)
def test_rows_of_weight_zero_are_as_if_not_there(model, blobs):
    X, y = blobs
    weight = np.where(np.arange(120) < 20, 0.0, 1.0)
    other = np.where(weight > 0, y, "c")
    plain = clone(model).fit(X, y, sample_weight=weight).predict_proba(X)
    same(model.fit(X, other, sample_weight=weight).predict_proba(X), plain)


@models(MODELS, ["ensemble"])
def test_heavy_rows_win_where_labels_contradict(model, blobs):
    X, y = blobs
    wrong = np.roll(["a", "b", "c"], 1)[np.searchsorted(["a", "b", "c"], y)]
    weight = np.repeat([10.0, 1.0], 120)
    model.set_params(max_epochs=30, learning_rate=0.01)
    model.fit(np.vstack([X, X]), np.concatenate([y, wrong]), sample_weight=weight)
    assert model.score(X, y) > 0.7


@models(MODELS)
def test_weights_of_classes_are_weights_of_their_rows(model, blobs):
    X, y = blobs
    of_classes = {"a": 3.0, "c": 2.0}
    weight = np.array([of_classes.get(label, 1.0) for label in y])
    model.set_params(standardize=False, keep_best=False)  # repeated rows have another mean
    by_class = clone(model).set_params(class_weight=of_classes).fit(X, y).predict_proba(X)
    if isinstance(model, VariationalClassifier):  # repeated rows are also more rows
        model.set_params(kl_weight=float(weight.mean()))
    same(by_class, model.fit(X, y, sample_weight=weight).predict_proba(X), 1e-4)


@models(MODELS)
def test_balanced_classes_have_equal_weight(model, blobs):
    X, y = blobs
    rare = np.concatenate([np.flatnonzero(y == "a")[:4], np.flatnonzero(y != "a")])
    X, y = X[rare], y[rare]
    counts = pd.Series(y).value_counts()
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y).predict_proba(X)
    by_hand = {label: len(y) / (3 * count) for label, count in counts.items()}
    same(model.set_params(class_weight=by_hand).fit(X, y).predict_proba(X), balanced, 1e-6)


def test_repetitions_are_counted_in_balanced_weights(blobs):
    X, y = blobs
    weight = np.where(y == "a", 3.0, 1.0)
    model = DeepEnsembleClassifier(2, class_weight="balanced", standardize=False, **SMALL)
    weighted = clone(model).fit(X, y, sample_weight=weight).predict_proba(X)
    same(model.fit(X, y).predict_proba(X), weighted, 1e-4)


# -------------------------------------------------------------------------------------- best epoch


@pytest.mark.parametrize("bootstrap", [True, False])
def test_the_best_epoch_is_that_of_the_mean_forecast(bootstrap, blobs):
    """By the log loss of the mean of the members that are not trained on a row, computed here by hand."""
    X, y = blobs
    model = DeepEnsembleClassifier(
        4, bootstrap=bootstrap, keep_best="log_loss", class_weight={"b": 2.0}, dtype="float64", **SMALL
    )
    model.fit(X, y)
    scores = [row["valid_loss"] for row in model.history_ if "valid_loss" in row]
    assert len(scores) == 5
    plan = model._prepare(model._read(X, y, None, {}, "fit"))
    counted = plan.scored_rows()
    scored = counted.any(axis=1)
    members = model.predict_members(X)
    share = counted / np.maximum(counted.sum(axis=1, keepdims=True), 1)
    proba = np.einsum("nm,nmk->nk", share, members)[scored]
    weight = np.where(y == "b", 2.0, 1.0)[scored]
    assert min(scores) == pytest.approx(log_loss(y[scored], proba, sample_weight=weight), abs=1e-9)
    if not bootstrap:
        assert scored.sum() == 24
        shares = pd.Series(y[scored]).value_counts()
        assert (abs(shares - 8) <= 1).all()


@pytest.mark.parametrize("each", [MCDropoutClassifier, VariationalClassifier])
def test_the_best_epoch_of_one_network_is_that_of_its_mean(each, blobs):
    """With all units, or at the mean of the weights: the mean of the draws has another log loss."""
    X, y = blobs
    model = each(keep_best="log_loss", dtype="float64", **SMALL).fit(X, y)
    best = min(row["valid_loss"] for row in model.history_ if "valid_loss" in row)
    held_out = model._prepare(model._read(X, y, None, {}, "fit")).held_out
    network = model.net_.module_.eval()
    with torch.no_grad():
        logits = network(torch.as_tensor(model.scaler_.features(X[held_out])))[:, 0]
    assert best == pytest.approx(log_loss(y[held_out], torch.softmax(logits, dim=-1).numpy()), abs=1e-9)
    assert best != pytest.approx(log_loss(y[held_out], model.predict_proba(X[held_out])), abs=1e-3)


@pytest.mark.laws
def test_too_long_a_training_is_cut(digits):
    X, y, X_new, y_new = digits
    noisy = np.where(np.random.default_rng(0).random(600) < 0.3, (y + 1) % 10, y)
    plain = DeepEnsembleClassifier(3, hidden_layer_sizes=(32,), max_epochs=80, random_state=0)
    kept = clone(plain).set_params(keep_best="log_loss").fit(X, noisy)
    assert kept.best_epoch_ < 60
    losses = [log_loss(y_new, one.predict_proba(X_new)) for one in (kept, plain.fit(X, noisy))]
    assert losses[0] < 0.9 * losses[1]


# -------------------------------------------------------------------------------------- standardizing


def test_one_scale_for_all_columns_bounds_a_rare_pixel():
    """A pixel that is hardly ever lit in training has a tiny scale of its own."""
    rng = np.random.default_rng(0)
    X = rng.random((200, 6))
    X[:, 5] = 0.0
    X[0, 5] = 0.05
    y = X[:, 0] > 0.5
    new = X.copy()
    new[:, 5] = 1.0
    far = {}
    for how in ("columns", "all", False):
        model = DeepEnsembleClassifier(2, standardize=how, **SMALL).fit(X, y)
        far[how] = np.abs(model.scaler_.features(new)).max()
    assert far["columns"] > 100
    assert far["all"] < 4
    assert far[False] == 1.0


@pytest.mark.parametrize("weight", [None, np.arange(30) % 3 + 0.0])
def test_standardized_features(weight):
    rng = np.random.default_rng(0)
    X = rng.normal(5, [1, 2, 3], size=(30, 3))
    share = np.ones(30) / 30 if weight is None else weight / weight.sum()
    Z = {}
    for how in ("columns", "all", False):
        model = DeepEnsembleClassifier(1, standardize=how, **SMALL).fit(X, X[:, 0] > 5, sample_weight=weight)
        Z[how] = model.scaler_.features(X)
    same(share @ Z["columns"], 0.0, 1e-12)
    same(share @ Z["columns"] ** 2, 1.0, 1e-12)
    assert (share @ Z["all"]).mean() == pytest.approx(0.0, abs=1e-12)
    assert (share @ Z["all"] ** 2).mean() == pytest.approx(1.0, abs=1e-12)
    same(Z[False], X)


def test_features_that_are_all_the_same_are_ignored():
    y = np.arange(20) % 2
    for value, how in ((0.0, "columns"), (1e7, "all"), (0.1, "columns"), (0.1, "all")):
        X = np.full((20, 2), value)
        model = DeepEnsembleClassifier(2, standardize=how, **SMALL).fit(X, y)
        same(model.predict_proba(X), model.predict_proba(X + 1e3))


# -------------------------------------------------------------------------------- many fits as one


def test_fit_many_is_fitting_one_by_one(model, blobs):
    X, y = blobs
    model.set_params(dtype="float64")
    rows = [train for train, _ in KFold(2, shuffle=True, random_state=1).split(X)] + [np.arange(50)]
    for part, together in zip(rows, model._fit_many(X, y, rows), strict=True):
        alone = clone(model).fit(X[part], y[part])
        same(together.predict_proba(X), alone.predict_proba(X), 1e-8)
        assert keep_the_same(*[(each.best_epoch_, each.history_) for each in (together, alone)])


def test_regressors_and_classifiers_are_fitted_in_one_call(blobs):
    """Of two classes: as many outputs as a mean and a variance, with another meaning."""
    X, y = blobs[0], (blobs[1] == "a").astype(float)
    options = {"keep_best": "log_loss", "bootstrap": True, "dtype": "float64", **SMALL}
    classifier = DeepEnsembleClassifier(3, **options)
    regressor = DeepEnsembleRegressor(3, dtype="float64", **SMALL)
    one, other, third = fit_many([classifier, regressor, classifier], X, y)
    same(one.predict_proba(X), classifier.fit(X, y).predict_proba(X), 1e-8)
    same(third.predict_proba(X), one.predict_proba(X), 1e-8)
    same(other.predict(X), regressor.fit(X, y).predict(X), 1e-8)


def test_an_integer_seed_makes_everything_equal_in_arrays_and_frames(model, blobs, fit_once):
    X, y = blobs
    first = fit_once(model)
    frame = pd.DataFrame(X, columns=["x", "z"])
    second = clone(model).fit(frame, pd.Series(y))
    same(first.predict_members(X), second.predict_members(frame))
    assert second.feature_names_in_.tolist() == ["x", "z"]
    same(pickle.loads(pickle.dumps(first)).predict_members(X), first.predict_members(X))
    other = model.set_params(random_state=1).fit(X, y)
    assert not np.allclose(other.predict_proba(X), first.predict_proba(X))


# ----------------------------------------------------------------------------------------- modules


class Convolutions(nn.Module):
    """A small network for images of 8 x 8 pixels, with dropout in front of its last layer."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3)
        self.head = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(4 * 36, n_outputs))

    def forward(self, x):
        return self.head(self.convolution(x.view(-1, 1, 8, 8)))


CONVOLUTIONS = [
    DeepEnsembleClassifier(2, module=Convolutions, standardize=False),
    MCDropoutClassifier(module=Convolutions, standardize="all", n_draws=5),
    VariationalClassifier((10,), module=Convolutions, last_layer=True, standardize="all", n_draws=5),
]


@pytest.mark.parametrize("model", CONVOLUTIONS, ids=lambda model: type(model).__name__)
def test_convolutional_networks(model, digits, monkeypatch):
    X, y, X_new, y_new = digits
    model = clone(model).set_params(max_epochs=8, learning_rate=0.01, random_state=0)
    state = torch.random.get_rng_state()
    model.fit(X, y)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.score(X_new, y_new) > 0.8
    same(model.predict_members(X_new[:4]).mean(axis=1), model.predict_proba(X_new)[:4], 1e-5)
    assert model.predict_entropy(X_new).epistemic.mean() > 1e-3
    # Blocks of rows are small where layers give many values: a convolution has more outputs than weights.
    seen = []
    monkeypatch.setattr(evaluate, "rows_at_once", lambda values: seen.append(values) or len(X_new))
    model.predict_proba(X_new)
    of_layers = 4 * 36 * 4  # the convolution and three layers without weights
    n_runs = {DeepEnsembleClassifier: 2, MCDropoutClassifier: 5, VariationalClassifier: 1}[type(model)]
    assert seen[0] >= n_runs * of_layers
    assert rows_at_once(seen[0]) < rows_at_once(n_runs * model.net_.module_.flat.shape[1] // 16)


# -------------------------------------------------------------------------------------- containers


def test_conformal_sets_of_networks_cover(digits):
    X, y, X_new, y_new = digits
    network = DeepEnsembleClassifier(2, hidden_layer_sizes=(32,), max_epochs=10, random_state=0)
    for cv in (None, 3):
        model = ConformalClassifier(network, "aps", cv=cv, random_state=0).fit(X, y)
        sets = predict_set(model, X_new, coverage=0.9)
        assert sets[np.arange(300), y_new].mean() > 0.8
        assert sets.sum(axis=1).mean() < 3


@models(KINDS, ["ensemble"])
def test_every_scorer_of_classes_searches(model, blobs):
    X, y = blobs
    scoring = scorers(*SCORERS) | {"neg_log_loss": "neg_log_loss"}
    pipeline = make_pipeline(StandardScaler(), model)
    step = pipeline.steps[-1][0]
    cv = StratifiedKFold(2, shuffle=True, random_state=0)
    scores = cross_validate(pipeline, X, y, scoring=scoring, cv=cv, error_score="raise")
    assert all(np.isfinite(scores[f"test_{each}"]).all() for each in scoring)
    grid = {f"{step}__learning_rate": [1e-4, 1e-2]}
    search = GridSearchCV(pipeline, grid, scoring=get_scorer("neg_ece"), cv=cv, error_score="raise")
    assert predict_set(search.fit(X, y), X).shape == (120, 3)


def test_a_classifier_has_no_distribution(blobs, fit_once):
    with pytest.raises(NotProbabilisticError, match="DeepEnsembleClassifier is a classifier"):
        predict_dist(fit_once(MODELS["ensemble"]), blobs[0])


# --------------------------------------------------------------------------------------- bad input


WRONG_TARGETS = [
    (["a"] * 120, "at least two classes in the rows with positive weight, got one class, 'a'"),
    (np.linspace(0, 1, 120), "Unknown label type: continuous"),
    (np.where(np.arange(120) < 5, np.nan, np.arange(120) % 2), "Input y contains NaN"),
    (None, "requires y to be passed, but the target y is None"),
    (np.zeros((120, 2)), r"y should be a 1d array"),
    (["a", "b"], "inconsistent numbers of samples"),
]


def test_wrong_data_raise(model, blobs, fit_once, subtests):
    X, y = blobs
    for k, (target, message) in enumerate(WRONG_TARGETS):
        with subtests.test(msg=f"target {k}"), pytest.raises(ValueError, match=message):
            model.fit(X, target)
    with pytest.raises(ValueError, match=r"positive weight, got one class, 'b'"):
        model.fit(X, y, sample_weight=(y == "b").astype(float))
    wrong = X.copy()
    wrong[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.fit(wrong, y)
    fitted = fit_once(model)
    for method in (fitted.predict, fitted.predict_proba, fitted.predict_members, fitted.predict_entropy):
        with pytest.raises(ValueError, match="infinity"):
            method(wrong)


@models(MODELS, ["ensemble"])
@pytest.mark.filterwarnings("error")
def test_a_weight_of_zero_for_all_classes_that_count_raises(model, blobs):
    X, y = blobs
    model.set_params(class_weight={"a": 0.0, "b": 0.0})
    with pytest.raises(ValueError, match=r"`class_weight` must leave at least two classes.*which leaves 0"):
        model.fit(X, y, sample_weight=(y != "c").astype(float))


@models(MODELS)
def test_a_fit_that_fails_leaves_the_model_before_it(model, blobs):
    X, y = blobs
    expected = model.fit(X, y).predict(X)
    with pytest.raises(ValueError, match="`learning_rate`"):
        model.set_params(learning_rate=-1.0).fit(X, np.where(y == "a", "yes", "no"))
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict(X).tolist() == expected.tolist()


@models(KINDS)
def test_tables_are_taken_as_they_come(model, blobs):
    X, y = blobs
    table = pd.DataFrame({"x": X[:, 0], "word": np.where(X[:, 1] > 1.5, "high", "low")})
    table.loc[::7, "x"] = np.nan
    model.fit(table, y)
    proba = model.predict_proba(table)
    same(proba.sum(axis=1), 1.0, 1e-12)
    same(pickle.loads(pickle.dumps(model)).predict_proba(table), proba)
    new = table[:2].assign(word=["never seen", None])
    assert np.isfinite(model.predict_proba(new)).all()


BAD_PARAMETERS = [
    ({"keep_best": "crps"}, ValueError, "`keep_best` must be one of 'log_loss', False, got 'crps'"),
    ({"keep_best": True}, ValueError, "`keep_best` must be one of 'log_loss', False, got True"),
    ({"standardize": True}, ValueError, "`standardize` must be one of 'columns', 'all', False, got True"),
    ({"class_weight": "equal"}, ValueError, "`class_weight` must be one of 'balanced', None, got 'equal'"),
    ({"class_weight": [1, 2]}, TypeError, r"`class_weight` must be 'balanced', a dict.*got \[1, 2\]"),
    ({"class_weight": {"a": -1.0}}, ValueError, "finite, non-negative weights"),
    ({"class_weight": {"z": 2.0}}, ValueError, r"class labels as keys, got \{'z': 2.0\}. The labels"),
    (
        {"class_weight": {"a": 0.0, "b": 0.0}},
        ValueError,
        "`class_weight` must leave at least two classes with a positive weight, got .*, which leaves 1",
    ),
    ({"learning_rate": -1.0}, ValueError, "`learning_rate` must be positive"),
    ({"batch_size": 0}, ValueError, "`batch_size`"),
    ({"max_epochs": "many"}, ValueError, "`max_epochs` must be .* or 'auto', got 'many'"),
    ({"module": nn.Linear(2, 3)}, TypeError, "got an instance of Linear"),
]
BAD_PARAMETERS_OF_ONE_CLASS = [
    (DeepEnsembleClassifier(0), "`n_estimators`"),
    (DeepEnsembleClassifier(bootstrap="yes"), "`bootstrap` must be one of True, False"),
    (MCDropoutClassifier(dropout=1.0), "`dropout` must lie strictly between 0 and 1"),
    (MCDropoutClassifier(n_draws=1), "`n_draws`"),
    (MCDropoutClassifier(()), "`hidden_layer_sizes` must have at least 1 hidden layer"),
    (VariationalClassifier(prior=0.0), "`prior` must be positive"),
    (VariationalClassifier(prior="flat"), "`prior` must be a positive number or 'empirical'"),
    (VariationalClassifier(kl_weight=0.0), "`kl_weight` must be positive"),
    (VariationalClassifier(warm_up=2.0), "`warm_up` must lie between 0 and 1"),
    (VariationalClassifier(learning_rate="fast"), "`learning_rate` must be one of 'auto'"),
    (VariationalClassifier(module=nn.Linear), "only layers that skuq builds can have"),
    (VariationalClassifier(last_layer="no"), "`last_layer` must be one of True, False"),
]


@models(KINDS, KINDS)
def test_bad_parameters_raise_with_the_remedy(model, blobs, subtests):
    for parameters, error, message in BAD_PARAMETERS:
        with subtests.test(msg=f"{parameters}"), pytest.raises(error, match=message):
            clone(model).set_params(**parameters).fit(*blobs)
    for wrong, message in BAD_PARAMETERS_OF_ONE_CLASS:
        if isinstance(wrong, type(model)):
            with subtests.test(msg=f"{wrong}"), pytest.raises(ValueError, match=message):
                clone(wrong).fit(*blobs)


@pytest.mark.parametrize(
    ("last_layer", "rate", "expected"), [(False, "auto", 0.01), (True, "auto", 0.003), (True, 0.02, 0.02)]
)
def test_the_automatic_learning_rate_is_by_the_uncertain_layers(last_layer, rate, expected, blobs):
    model = VariationalClassifier(**{**SMALL, "learning_rate": rate})
    model.set_params(last_layer=last_layer, max_epochs=2, net_params={"lr_schedule": "constant"})
    explicit = clone(model).set_params(learning_rate=expected).fit(*blobs)
    same(model.fit(*blobs).predict_proba(blobs[0]), explicit.predict_proba(blobs[0]))
    data = model._read(*blobs, None, {}, "fit")
    assert model._spec_for(data).learning_rate == expected


def test_relative_weights_raise_where_rows_are_counted(blobs):
    with pytest.raises(ValueError, match="counts repetitions"):
        VariationalClassifier(**SMALL).fit(*blobs, sample_weight=np.full(120, 0.01))
    DeepEnsembleClassifier(2, **SMALL).fit(*blobs, sample_weight=np.full(120, 0.01))


def test_a_class_without_rows_to_train_on_raises():
    X, y = np.arange(30.0).reshape(-1, 1), np.repeat(["a", "b", "c"], 10)
    for size in (PredefinedSplit(np.where(np.arange(30) < 10, 0, -1)), 28):
        model = DeepEnsembleClassifier(2, keep_best="log_loss", held_out_size=size, **SMALL)
        with pytest.raises(
            ValueError, match=r"must leave rows of each class for training, but all 10 of class '[ac]'"
        ):
            model.fit(X, y)


def test_the_only_row_of_a_class_is_trained_on():
    X, y = np.arange(30.0).reshape(-1, 1), np.array(["rare"] + ["b", "c"] * 15)[:30]
    for seed in range(5):
        model = DeepEnsembleClassifier(1, keep_best="log_loss", **{**SMALL, "random_state": seed})
        assert model.fit(X, y).predict_proba(X).shape == (30, 3)


def test_the_fewest_rows():
    X, y = np.array([[0.0], [1.0]]), ["a", "b"]
    assert DeepEnsembleClassifier(2, **SMALL).fit(X, y).predict_proba(X).shape == (2, 2)
    with pytest.raises(
        ValueError, match=r"must leave rows of each class .* all 1 of class '[ab]' .*Use more rows"
    ):
        DeepEnsembleClassifier(2, keep_best="log_loss", **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        DeepEnsembleClassifier(2, **SMALL).fit(X[:1], y[:1])
