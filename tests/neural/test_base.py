"""What all neural estimators do alike: many fits as one, strange data, parameters, and what they leave.

In the default tier two networks, one alone and an ensemble, stand for all where the code is shared.
"""

from __future__ import annotations

import importlib
import pickle
import re
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit
from sklearn.pipeline import make_pipeline

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from torch import nn

from skuq.distributions import StudentT
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import crps_loss, get_scorer, prediction_interval_coverage
from skuq.model_selection import cross_val_predict_dist
from skuq.neural import (
    BootstrapNetRegressor,
    ConcreteDropoutRegressor,
    DeepEnsembleRegressor,
    LastLayerLaplaceRegressor,
    Loss,
    MCDropoutRegressor,
    PNNRegressor,
    SWARegressor,
    VariationalRegressor,
    fit_many,
)
from skuq.prediction import predict_dist
from skuq.recalibration import StdScalingRecalibrator
from skuq.regressors import RecalibratedRegressor, UncertaintyRegressor
from tests.neural.epochs import keep_the_same
from tests.neural.estimators import ESTIMATORS, not_among

N_EPOCHS = 12
SMALL = {"hidden_layer_sizes": (16,), "max_epochs": N_EPOCHS, "random_state": 0}
MODELS = {
    "pnn": PNNRegressor(**SMALL),
    "ensemble": DeepEnsembleRegressor(4, **SMALL),
    "ensemble, mixture": DeepEnsembleRegressor(4, output="mixture", **SMALL),
    "ensemble, split": DeepEnsembleRegressor(3, bootstrap=False, calibration="split", **SMALL),
    "bootstrap": BootstrapNetRegressor(4, **SMALL),
    "bootstrap, mean, split": BootstrapNetRegressor(
        4, ci_scale="mean", noise_estimation="split", calibration="split", **SMALL
    ),
    "dropout": MCDropoutRegressor(n_draws=20, **SMALL),
    "dropout, members": MCDropoutRegressor(n_draws=20, output="members", keep_best="crps", **SMALL),
    "concrete dropout": ConcreteDropoutRegressor(n_draws=20, **SMALL),
    "variational": VariationalRegressor(n_draws=20, **SMALL),
    "variational, last layer": VariationalRegressor(last_layer=True, **SMALL),
    "laplace": LastLayerLaplaceRegressor(**SMALL),
    "laplace, stopped": LastLayerLaplaceRegressor(keep_best="squared_error", **SMALL),
    "swa": SWARegressor(n_snapshots=4, **{**SMALL, "max_epochs": N_EPOCHS - 4}),
}
MODELS |= {each.__name__: each(**SMALL) for each in not_among(MODELS.values())}
ONE_OF_EACH_CLASS = list({type(model): name for name, model in reversed(MODELS.items())}.values())[::-1]
# A network of the user ends before the last layer of these.
WITH_A_BODY = (ConcreteDropoutRegressor, LastLayerLaplaceRegressor, VariationalRegressor)
CONSTANT_NOISE = (
    BootstrapNetRegressor,
    LastLayerLaplaceRegressor,
    MCDropoutRegressor,
    SWARegressor,
    VariationalRegressor,
)
WITH_MODULE = [name for name, each in MODELS.items() if "module" in each.get_params()]
CLASSES_WITH_MODULE = [name for name in ONE_OF_EACH_CLASS if name in WITH_MODULE]


def models(names, default=("pnn", "ensemble")):
    """Parametrize the fixture `model`; names that are not among the default have the marker laws."""
    cases = [name if name in default else pytest.param(name, marks=pytest.mark.laws) for name in names]
    return pytest.mark.parametrize("model", cases, indirect=True)


every_variant = models(MODELS, MODELS)
two_or_every_variant = models(MODELS)
two_or_each_class = models(ONE_OF_EACH_CLASS)
two = models(["pnn", "ensemble"])


@pytest.fixture(params=ONE_OF_EACH_CLASS)
def model(request):
    """Return one estimator of each class; `every_variant` marks what a setting can change."""
    return clone(MODELS[request.param])


@pytest.fixture(scope="session")
def line():
    """Rows of a line with normal noise, 300 to fit and 500 to score; the target in [0, 1] or so."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 1))
    y = 0.5 + 0.3 * X[:, 0] + 0.1 * rng.normal(size=800)
    return X[:300], y[:300], X[300:], y[300:]


def with_own_network(model, module):
    """Return the model with a network of the user, of which variational inference takes the body only."""
    if "last_layer" in model.get_params():
        model.set_params(last_layer=True)
    return model.set_params(module=module)


def same(one, other, tolerance=0.0):
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=tolerance, atol=tolerance)


def finite(dist):
    return bool(np.isfinite(np.asarray(dist)).all())


FORMS = ["moments", "mixture", "members"]


def test_the_form_of_a_distribution_has_one_vocabulary(sine):
    for estimator in [each for each in ESTIMATORS if "output" in each().get_params()]:
        assert estimator().output == "moments"
        with pytest.raises(ValueError, match="`output` must be one of") as caught:
            estimator(output="nonsense", **SMALL).fit(*sine)
        forms = re.findall(r"'(\w+)'", str(caught.value).split("got")[0])
        assert forms == [form for form in FORMS if form in forms]


# ---------------------------------------------------------------------------------- many fits as one


@every_variant
def test_fit_many_is_fitting_one_by_one_with_weights_and_seeds(model, sine):
    X, y = sine
    model.set_params(dtype="float64")
    weight = np.arange(150) % 3 + 1.0
    rows = [next(KFold(2, shuffle=True, random_state=1).split(X))[0], np.arange(100), np.arange(100)]
    fitted = model._fit_many(X, y, rows, sample_weight=weight, random_states=[0, 5, 6])
    for part, seed, together in zip(rows, [0, 5, 6], fitted, strict=True):
        alone = clone(model).set_params(random_state=seed).fit(X[part], y[part], sample_weight=weight[part])
        same(together.predict_dist(X), alone.predict_dist(X), 1e-8)
        kept = [(each.best_epoch_, each.history_) for each in (together, alone)]
        assert keep_the_same(*kept)
        assert len(together.history_) == len(alone.history_) == N_EPOCHS
    assert model.random_state == 0
    assert not hasattr(model, "net_")
    assert not np.allclose(fitted[1].predict(X), fitted[2].predict(X), atol=1e-4)


@two_or_each_class
def test_cross_fitting_trains_all_folds_at_once(model, sine, monkeypatch):
    X, y = sine
    model.set_params(dtype="float64")
    cv = KFold(2, shuffle=True, random_state=0)
    dist = cross_val_predict_dist(model, X, y, cv=cv)
    for train, test in cv.split(X):
        same(dist[test], clone(model).fit(X[train], y[train]).predict_dist(X[test]), 1e-8)
    calls = []
    monkeypatch.setattr(type(model), "_fit_many", lambda self, *a, **k: calls.append(a) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cross_val_predict_dist(model, X, y, cv=cv)
    assert len(calls) == 1


def test_estimators_of_other_losses_are_fitted_together(sine):
    """As Chung et al. (2021) compare losses: the seeds of every loss in one training."""
    X, y = sine
    models = [
        PNNRegressor(loss=loss, dtype="float64", **{**SMALL, "random_state": seed})
        for loss, seed in (
            ("nll", 0),
            ("nll", 1),
            ("crps", 0),
            ("check", 0),
            ("interval", 0),
            ("beta_nll", 1),
        )
    ]
    for one, other in zip(fit_many(models, X, y), models, strict=True):
        assert not hasattr(other, "net_")
        same(one.predict_dist(X), other.fit(X, y).predict_dist(X), 1e-8)


def test_pairs_of_estimators_and_rows_are_fitted_together(sine):
    """Seeds whose data differ, classes whose networks differ, and masks, in one call."""
    X, y = sine
    weight = np.arange(150) % 3 + 1.0
    mask = np.arange(150) < 60
    models = [MODELS["pnn"], MODELS["ensemble"], MODELS["pnn"]]
    models = [clone(one).set_params(dtype="float64") for one in models]
    rows = [np.arange(100), mask, np.arange(50, 150)]
    fitted = fit_many(models, X, y, rows, sample_weight=weight)
    for one, model, part in zip(fitted, models, rows, strict=True):
        alone = clone(model).fit(X[part], y[part], sample_weight=weight[part])
        same(one.predict_dist(X), alone.predict_dist(X), 1e-8)
    frame = pd.DataFrame({"x": X[:, 0]})
    assert fit_many([models[0]], frame, pd.Series(y))[0].feature_names_in_ == ["x"]


def test_fit_many_refuses_what_it_cannot_train(sine):
    X, y = sine
    model = MODELS["pnn"]
    with pytest.raises(TypeError, match=r"must be estimators of skuq\.neural.*LinearRegression"):
        fit_many([model, LinearRegression()], X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit_many([model], X, y[:-1], [np.arange(10)])
    with pytest.raises(ValueError, match="one set of rows for each of the 2 estimators, got 1"):
        fit_many([model, model], X, y, [np.arange(10)])
    assert fit_many([], X, y) == []
    with pytest.raises(TypeError, match="unexpected keyword argument 'epochs'"):
        model._fit_many(X, y, [np.arange(10)], epochs=3)


@models(MODELS, ("pnn", "ensemble", "ensemble, split", "bootstrap"))
def test_fit_transform_is_out_of_sample_and_then_fits_all_rows(model, sine, fit_once):
    X, y = sine
    fitted = clone(model)
    dist = fitted.fit_transform(X, y)
    assert len(dist) == len(y)
    same(fitted.predict_dist(X), fit_once(model).predict_dist(X))
    assert not np.allclose(np.asarray(dist), np.asarray(fitted.predict_dist(X)))


# --------------------------------------------------------------------------------- what a fit leaves


@every_variant
def test_a_fitted_model_can_be_pickled_and_predicts_each_row_alone(model, sine, fit_once):
    model = fit_once(model)
    whole = model.predict_dist(sine[0])
    single = np.vstack([np.asarray(model.predict_dist(row[np.newaxis])) for row in sine[0][:5]])
    same(whole[:5], single, 1e-5)
    data = pickle.dumps(model)
    assert len(data) < 200_000
    loaded = pickle.loads(data)
    same(loaded.predict_dist(sine[0]), whole)
    assert loaded._current_posterior().module is loaded.net_.module_
    assert not hasattr(pickle.loads(pickle.dumps(model._fitted_posterior)), "module")
    for one in (model, loaded):
        assert isinstance(one.history_, skorch.history.History)
        assert len(one.history_[:, "train_loss"]) == N_EPOCHS
        assert 1 <= one.best_epoch_ <= N_EPOCHS
        assert isinstance(one.net_, skorch.NeuralNet)


def test_members_have_means_and_noise(model, sine, fit_once):
    X = sine[0][:7]
    fitted = fit_once(model)
    params = model.get_params()
    counts = [params[name] for name in ("n_estimators", "n_draws", "n_snapshots") if name in params]
    loc, scale = fitted.predict_members(X, return_std=True)
    assert loc.shape == scale.shape == (7, *(counts or [1]))
    np.testing.assert_array_equal(fitted.predict_members(X), loc)
    if isinstance(model, CONSTANT_NOISE):
        np.testing.assert_allclose(scale, fitted.noise_std_)
    else:
        assert np.ptp(scale) > 0


@two_or_each_class
def test_a_model_may_be_used_on_another_device(model, sine, fit_once, monkeypatch):
    """A model that was trained on a GPU can be loaded where there is none."""
    expected = fit_once(model).predict(sine[0])
    with_gpu = pickle.loads(pickle.dumps(fit_once(model))).set_params(device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for attempt in (lambda: with_gpu.predict(sine[0]), lambda: model.set_params(device="cuda").fit(*sine)):
        with pytest.raises(ValueError, match="`device` is 'cuda', but torch finds no GPU"):
            attempt()
    same(with_gpu.set_params(device="cpu").predict(sine[0]), expected)


def test_a_fit_that_fails_leaves_no_model(sine, monkeypatch):
    model = clone(MODELS["pnn"])
    with monkeypatch.context() as patch:
        patch.setattr(PNNRegressor, "_posterior", lambda self, fit, data: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.fit(*sine)
    with pytest.raises(NotFittedError):
        model.predict(sine[0])

    def interrupted(self, batch, **kwargs):  # skorch ends it alike if a callback stops or the user interrupts
        raise KeyboardInterrupt

    monkeypatch.setattr("skuq.neural._training.StackedNet.train_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*sine)
    assert not hasattr(model, "net_")


def test_an_integer_seed_makes_everything_equal_and_torch_is_not_seeded(model, sine, fit_once, monkeypatch):
    """Nor are GPUs on which nothing is trained."""
    plain = fit_once(model)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: 1 / 0)
    state = torch.random.get_rng_state()
    same(plain.predict_dist(sine[0]), model.fit(*sine).predict_dist(sine[0]))
    assert torch.equal(torch.random.get_rng_state(), state)
    other = model.set_params(random_state=1).fit(*sine)
    assert not np.allclose(other.predict(sine[0]), plain.predict(sine[0]))


def test_progress_is_reported_by_epoch(sine):
    callbacks = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    assert hasattr(callbacks, "ProgressBar")
    from skuq._fitting.seeds import Progress

    reported = []

    class Recorded(Progress):
        def reporter(self, name):
            return lambda *_: reported.append(name)

    model = clone(MODELS["ensemble"])
    model._fit(model._read(*sine, None, {}, "fit"), Recorded(None, None))
    assert reported == ["epoch"] * N_EPOCHS


# ------------------------------------------------------------------------------------ strange data


@two_or_every_variant
def test_fewer_rows_than_a_batch(model):
    for n in (2, 3, 5, 20):
        one = clone(model).set_params(coverage=0.95, max_epochs=20)
        X = np.arange(n, dtype=float).reshape(-1, 1)
        if n == 2 and one.get_params().get("n_estimators") == 4:
            one.set_params(random_state=1)  # of two rows, each is left out by some member
        with pytest.warns(SmallSampleWarning, match="intervals of 95 % need at least 19 rows") as caught:
            dist = one.fit(X, X[:, 0]).predict_dist(X)
        assert [warning.filename for warning in caught] == [__file__]
        assert finite(dist)
        assert (dist.std() > 0).all()


@two_or_every_variant
def test_rows_enough_for_the_rank_are_enough(model, sine):
    """The 12 rows held out are enough at 90 %, and any number where nothing is calibrated."""
    X, y = (part[:60] for part in sine)
    model.set_params(max_epochs=3).fit(X, y)
    if "noise" not in model.get_params():  # which is estimated by rows held out, calibrated or not
        model.set_params(calibration=None).fit(X[:10], y[:10])


def test_a_constant_target_is_predicted_for_certain(model, sine):
    dist = model.fit(sine[0], np.full(150, 3.3)).predict_dist(sine[0])
    np.testing.assert_array_equal(dist.mean(), 3.3)
    np.testing.assert_array_equal(dist.std(), 0.0)


def test_a_constant_fold_among_others_is_certain(sine):
    """A constant target of one fit leaves the fits that are trained with it as they are."""
    X, y = sine
    y = np.where(np.arange(150) < 75, 2.5, y)
    params = {"max_epochs": 20, "random_state": 0, "dtype": "float64", "coverage": 0.9}
    models = [PNNRegressor((16,), **params) for _ in range(2)]
    parts = [np.arange(75), np.arange(75, 150)]
    constant, other = fit_many(models, X, y, parts)
    np.testing.assert_array_equal(np.asarray(constant.predict_dist(X)), [[2.5, 0.0]] * 150)
    alone = models[1].fit(X[75:], y[75:]).predict_dist(X)
    np.testing.assert_allclose(np.asarray(other.predict_dist(X)), np.asarray(alone), atol=1e-8)


@models(["pnn", "ensemble", "bootstrap"])
def test_the_units_of_the_target_do_not_matter(model, sine, fit_once):
    """One class scales the target of all networks, so not every network takes every unit."""
    X, y = sine
    plain = fit_once(model.set_params(dtype="float64")).predict_dist(X)
    for shift, unit in ((-5e5, 1e3), (1e7, 1.0), (0.0, 1e-9), (0.0, 1e90)):
        moved = model.fit(X, shift + unit * y).predict_dist(X)
        same((moved.mean() - shift) / unit, plain.mean(), 1e-6)
        same(moved.std() / unit, plain.std(), 1e-6)


@models(["pnn", "bootstrap"])
def test_coverage_and_width_are_the_same_in_all_units(model, line):
    """In float32, as by default: targets at ten million that differ by one, and of the order 1e-9."""
    X, y, X_new, y_new = line
    coverage, width, crps = [], [], []
    for shift, unit in ((0.0, 1.0), (1e7, 1.0), (0.0, 1e-9), (-3e5, 1e6)):
        dist = clone(model).fit(X, shift + unit * y).predict_dist(X_new)
        bounds = dist.interval(0.9)
        assert (bounds[:, 0] < bounds[:, 1]).all()
        coverage.append(prediction_interval_coverage(shift + unit * y_new, bounds))
        width.append(np.diff(bounds).mean() / unit)
        crps.append(crps_loss(shift + unit * y_new, dist) / unit)
    assert 0.83 < coverage[0] < 0.99
    np.testing.assert_allclose(coverage, coverage[0], atol=0.01)
    np.testing.assert_allclose(width, width[0], rtol=0.02)
    np.testing.assert_allclose(crps, crps[0], rtol=0.02)


@models(MODELS, ONE_OF_EACH_CLASS)
def test_targets_of_any_size_have_the_same_distributions(model, sine):
    """In units of about 1e-90 and 1e90; powers of two round nothing."""
    X, y = sine
    dist = model.set_params(max_epochs=3).fit(X, y).predict_dist(X)
    for exponent in (-300, 300):
        scaled = model.fit(X, np.ldexp(y, exponent)).predict_dist(X)
        np.testing.assert_array_equal(np.ldexp(np.asarray(scaled), -exponent), np.asarray(dist))
        np.testing.assert_array_equal(np.ldexp(scaled.interval(0.8), -exponent), dist.interval(0.8))


def test_out_of_fold_distributions_are_right_at_any_offset(line):
    X, y, _, _ = line
    plain, moved = (DeepEnsembleRegressor(4, **SMALL).fit_transform(X, each) for each in (y, 1e7 + y))
    np.testing.assert_allclose(moved.std(), plain.std(), rtol=0.02)
    np.testing.assert_allclose(moved.mean() - 1e7, plain.mean(), atol=0.01)


@two
def test_the_units_of_the_features_do_not_matter(model, sine, fit_once):
    X, y = sine
    plain = fit_once(model).predict_dist(X)
    for shift, unit in ((1e7, 1.0), (0.0, 1e-300), (0.0, 1e200)):
        same(model.fit(shift + unit * X, y).predict_dist(shift + unit * X), plain, 1e-2)


@two
def test_columns_without_information(model, sine, line):
    X, y = sine
    model.set_params(max_epochs=3)
    wide = np.column_stack([X, np.full(150, 7.0)])
    fitted = clone(model).fit(wide, y)
    same(fitted.predict_dist(wide), fitted.predict_dist(np.column_stack([X, np.full(150, 1e9)])))
    X, y = line[:2]
    assert finite(clone(model).fit(X, y).predict_dist(X[:1]))
    with np.errstate(all="raise"):
        nothing = model.fit(np.ones((300, 2)), y).predict_dist(np.ones((3, 2)))
    np.testing.assert_allclose(nothing.mean(), y.mean(), atol=0.1)
    np.testing.assert_allclose(nothing.std(), y.std(), rtol=0.3)


@two
def test_features_and_targets_of_other_types(model, line):
    X, y = line[0][:100], np.round(3 * line[1][:100])
    model.set_params(max_epochs=2)

    def fitted(features, target):
        return np.asarray(clone(model).fit(features, target).predict_dist(features))

    expected = fitted(X, y)
    for given in (pd.Series(y, index=range(5, 105)), y.astype(int), y.astype("float32"), y.astype(object)):
        same(fitted(X, given), expected)
    same(fitted(X, y.tolist()), expected)
    same(fitted(X, y > 1), fitted(X, (y > 1).astype(float)))
    integers = (X > 0) + 2 * (X > 0.5)
    same(fitted(integers, y), fitted(integers.astype(float), y))


def test_a_row_far_from_all_others_is_predicted_without_nan(model, sine):
    far = np.array([[1e5, 0.0], [0.0, -1e60], [0.0, 0.0]])
    dist = model.set_params(max_epochs=3).fit(*sine).predict_dist(far)
    assert finite(dist)
    assert (dist.std() > 0).all()


WRONG_TARGETS = [
    (lambda y: np.where(np.arange(150) == 7, np.nan, y), ValueError, "`y` must be finite, got nan at row 7"),
    (lambda y: np.where(np.arange(150) == 7, np.inf, y), ValueError, "`y` must be finite, got inf at row 7"),
    (lambda y: np.where(np.arange(150) == 7, -np.inf, y), ValueError, "must be finite, got -inf at row 7"),
    (lambda y: y[:-1], ValueError, r"inconsistent numbers of samples: \[150, 149\]"),
    (lambda y: y.astype(str)[:, np.newaxis, np.newaxis], (ValueError, TypeError), "`y` must"),
    (lambda y: ["a"] * 150, TypeError, "`y` must hold real numbers"),
    (lambda y: y + 1j, ValueError, "Complex data not supported"),
    (lambda y: None, ValueError, "requires y to be passed"),
]
WRONG_FEATURES = [
    (sparse.csr_array, TypeError, "Sparse data was passed for X, but dense data is required"),
    (lambda X: [["a", "b"]] * 150, ValueError, "could not convert string to float"),
    (lambda X: X[:, 0], ValueError, "Expected 2D array, got 1D array"),
    (lambda X: X[:, :0], ValueError, r"feature"),
    (lambda X: X[:0], ValueError, "0 sample"),
    (lambda X: X + 1j, ValueError, "Complex data not supported"),
    (lambda X: np.where(X > 1.5, np.inf, X), ValueError, "contains infinity"),  # NaN is a missing value
    (lambda X: np.ma.array(X, mask=X > 1.9), ValueError, "`X` must not have masked entries, got"),
]


def test_wrong_data_are_named_in_fit_and_in_prediction(model, sine, fit_once, subtests):
    X, y = sine
    fitted = fit_once(model)
    for k, (target, error, message) in enumerate(WRONG_TARGETS):
        with subtests.test(msg=f"target {k}"), pytest.raises(error, match=message):
            model.fit(X, target(y))
    for k, (features, error, message) in enumerate(WRONG_FEATURES):
        for attempt in (partial(model.fit, y=y), fitted.predict_dist, fitted.predict):
            with subtests.test(msg=f"features {k}"), pytest.raises(error, match=message):
                attempt(features(X))
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        model.fit(X[:, :0], y)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        model.fit([[1.0]], [1.0])
    with pytest.raises(ValueError, match=f"X has 3 features, but {type(model).__name__} is expecting 2"):
        fitted.predict(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="counts repetitions"):
        model.fit(X, y, sample_weight=np.full(150, 0.01))
    with pytest.raises(TypeError, match=r"does not accept the parameters \['color'\]"):
        model.fit(X, y, color="red")
    if not isinstance(model, DeepEnsembleRegressor):
        with pytest.raises(ValueError, match=r"`y` must have one column, got 2.*MultiOutputUncertaintyRegr"):
            model.fit(X, np.column_stack([y, y]))


@every_variant
def test_rows_of_weight_zero_are_as_if_not_there(model, sine):
    X, y = sine
    weight = np.ones(150)
    weight[100:] = 0
    far = np.where(weight > 0, y, 1e6)
    dist = model.set_params(max_epochs=4).fit(X, far, sample_weight=weight).predict_dist(X)
    assert np.abs(dist.mean()).max() < 10
    assert dist.std().max() < 10


def test_rows_held_out_must_count(sine):
    weight = np.where(np.arange(150) < 30, 0.0, 2.0)
    model = PNNRegressor(held_out_size=PredefinedSplit(np.where(weight == 0, 0, -1)), **SMALL)
    with pytest.raises(ValueError, match="`held_out_size` must hold out rows with positive weight"):
        model.fit(*sine, sample_weight=weight)


@models(["pnn", "dropout", "concrete dropout"])
def test_rows_of_weight_zero_do_not_calibrate(model, sine):
    """Held out by a splitter, with too few others for the rank to be below the largest residual."""
    X, y = sine
    weight = np.where(np.arange(150) < 5, 0.0, 1.0)
    model.set_params(held_out_size=PredefinedSplit(np.where(np.arange(150) < 15, 0, -1)), keep_best=False)
    model.set_params(coverage=0.9)
    plain = clone(model).fit(X, y, sample_weight=weight)
    assert model.fit(X, np.where(weight > 0, y, 1e3), sample_weight=weight).factor_ == plain.factor_


def test_heavy_rows_are_fitted_better(sine):
    X, y = sine
    weight = np.repeat([20.0, 1.0], 150)
    for kind in (partial(DeepEnsembleRegressor, 3), PNNRegressor):
        model = kind(max_epochs=40, random_state=0)
        dist = model.fit(np.vstack([X, X]), np.concatenate([y, -y]), sample_weight=weight).predict_dist(X)
        assert np.corrcoef(dist.mean(), y)[0, 1] > 0.6


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_counts(model):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.random.default_rng(1).poisson(np.exp(0.3 + 0.5 * X[:, 0])).astype(float)
    dist = model.set_params(max_epochs=3, support="count").fit(X, y).predict_dist(X)
    bounds = dist.interval(0.9)
    np.testing.assert_array_equal(bounds, np.maximum(np.round(bounds), 0.0))
    points, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(points, model.predict(X))
    assert points.min() >= 0.0
    np.testing.assert_allclose(std, dist.std())
    with pytest.raises(ValueError, match=r"`y` must hold integers from 0 .* got 0\.5 at row 3"):
        model.fit(X, np.where(np.arange(60) == 3, 0.5, y))


# ----------------------------------------------------------------------- categories, dates, missing values


@pytest.fixture(scope="session")
def table():
    """A table as it comes, 150 rows; the target depends on a category and on a number with missing values."""
    rng = np.random.default_rng(0)
    n = 150
    X = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "word": rng.choice(list("abcdef"), n),
            "two": pd.Categorical(rng.choice(["u", "v"], n)),
            "date": pd.date_range("2026-01-01", periods=n, tz="Europe/Berlin"),
            "empty": np.nan,
        }
    )
    y = X["number"].to_numpy() + 2.0 * (X["word"] == "a") + 0.1 * rng.normal(size=n)
    X.loc[::7, "number"] = np.nan
    X.loc[::9, "word"] = None
    return X, y


@two_or_each_class
def test_tables_are_taken_as_they_come(model, table):
    X, y = table
    fitted = clone(model).set_params(max_epochs=2).fit(X, y)
    dist = fitted.predict_dist(X)
    assert finite(dist)
    assert list(fitted.feature_names_in_) == list(X.columns)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))
    np.testing.assert_allclose(fitted.predict(X[:1]), fitted.predict(X)[:1], rtol=1e-6)
    new = X[:3].assign(word=["never seen", None, "b"], number=np.nan)
    assert finite(fitted.predict_dist(new))
    assert finite(fitted.fit_transform(X, y))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(model).fit(X[:-1], y)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        clone(model).fit(X[:1], y[:1])


def test_unknown_and_missing_categories_have_one_forecast(table):
    X, y = table
    fitted = PNNRegressor(max_epochs=5, n_frequencies=2, random_state=0).fit(X, y)
    new = X[:1]
    forecasts = [fitted.predict(new.assign(word=[word]))[0] for word in ("never seen", None, "a")]
    assert forecasts[0] == forecasts[1] != forecasts[2]


def test_rows_of_weight_zero_add_no_categories(table):
    X, y = table
    more = pd.concat([X, X[:5].assign(word="other", date=pd.NaT, number=9.0)], ignore_index=True)
    weight = np.append(np.ones(len(X)), np.zeros(5))
    model = PNNRegressor(max_epochs=2, n_frequencies=2, calibration=None, keep_best=False, random_state=0)
    fitted = clone(model).fit(more, np.append(y, y[:5]), sample_weight=weight)
    expected = clone(model).fit(X, y, sample_weight=np.ones(len(X)))
    np.testing.assert_allclose(fitted.predict(X), expected.predict(X), rtol=1e-4)


@two
def test_missing_numbers(model, sine):
    X, y = sine
    model.set_params(max_epochs=2)
    gaps = np.where(X > 1.5, np.nan, X)
    fitted = clone(model).fit(gaps, y)
    assert finite(fitted.predict_dist(gaps))
    of_frame = clone(model).fit(pd.DataFrame(gaps), y)
    np.testing.assert_array_equal(of_frame.predict(pd.DataFrame(gaps)), fitted.predict(gaps))
    # without missing training values, a missing value of a new row is the mean
    complete = clone(model).fit(X, y)
    new, mean = X[:3].copy(), X[:3].copy()
    new[:, 0], mean[:, 0] = np.nan, complete.scaler_.X_mean[0]
    np.testing.assert_allclose(complete.predict(new), complete.predict(mean), rtol=1e-10)


# ------------------------------------------------------------------------- networks of users, callbacks


class WithDropout(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Linear(n_features, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, n_outputs))


@models(CLASSES_WITH_MODULE, ("dropout", "laplace"))
def test_a_network_of_ones_own(model, sine):
    X, y = sine
    with_own_network(model, partial(WithDropout)).set_params(max_epochs=40, learning_rate=0.05)
    state = torch.random.get_rng_state()
    dist = model.fit(X, y).predict_dist(X)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.corrcoef(dist.mean(), y)[0, 1] > 0.5
    same(clone(model).fit(X, y).predict_dist(X), dist)
    copied = pickle.loads(pickle.dumps(model.set_params(module=None)))  # a test's own class would not travel
    same(copied.predict_dist(X), dist)


def without_dropout(n_features, n_outputs):
    return nn.Sequential(nn.Linear(n_features, 8), nn.Tanh(), nn.Linear(8, n_outputs))


@models([name for name in WITH_MODULE if not isinstance(MODELS[name], MCDropoutRegressor)])
def test_networks_of_ones_own_without_draws_are_the_same_in_any_training(model, sine, monkeypatch):
    X, y = sine
    with_own_network(model, without_dropout).set_params(dtype="float64")
    rows = [np.arange(100), np.arange(50, 150)]
    together = model._fit_many(X, y, rows)
    if not model.get_params().get("keep_best"):  # members that are scored together stay together
        monkeypatch.setattr("skuq.neural._training._members_at_once", lambda *_: 1)
    for part, one in zip(rows, together, strict=True):
        same(one.predict_dist(X), clone(model).fit(X[part], y[part]).predict_dist(X), 1e-7)


class Counting(skorch.callbacks.Callback):
    def __init__(self):
        self.epochs = self.batches = 0

    def on_epoch_end(self, net, **kwargs):
        self.epochs += 1

    def on_batch_end(self, net, batch=None, training=None, loss=None, **kwargs):
        self.batches += 1
        assert training
        assert np.isfinite(loss.item())


@two
def test_skorch_callbacks_are_called_and_change_nothing(model, sine, fit_once):
    plain = fit_once(model).predict_dist(sine[0])
    counting = Counting()
    model.set_params(net_params={"callbacks": [counting]}).fit(*sine)
    assert counting.epochs == N_EPOCHS
    assert counting.batches % N_EPOCHS == 0
    assert counting.batches > 0
    same(model.predict_dist(sine[0]), plain)


class WithoutServer(skorch.callbacks.Callback):
    def initialize(self):
        raise RuntimeError("the server does not answer")


def test_an_error_of_a_callback_stays_as_it_is(sine):
    with pytest.raises(RuntimeError, match="the server does not answer"):
        PNNRegressor(net_params={"callbacks": [WithoutServer()]}).fit(*sine)


class Stop(skorch.callbacks.Callback):
    """Stops the training as skorch's EarlyStopping does, at an event of an epoch."""

    def __init__(self, event, epoch):
        self.event, self.epoch = event, epoch

    def notified(self, event, net):
        if event == self.event and len(net.history) == self.epoch:
            raise KeyboardInterrupt

    def on_epoch_begin(self, net, **kwargs):
        self.notified("on_epoch_begin", net)

    def on_batch_end(self, net, **kwargs):
        self.notified("on_batch_end", net)

    def on_epoch_end(self, net, **kwargs):
        self.notified("on_epoch_end", net)


STOPS = [("on_epoch_end", 1, 1), ("on_epoch_end", 5, 5), ("on_batch_end", 5, 4), ("on_epoch_begin", 5, 4)]


@models([name for name in ONE_OF_EACH_CLASS if name != "swa"])
def test_a_callback_may_stop_the_training_after_its_first_epoch(model, sine):
    for event, epoch, n_epochs in STOPS:
        model.set_params(net_params={"callbacks": [Stop(event, epoch)]}).fit(*sine)
        assert len(model.history_) == n_epochs
        assert 1 <= model.best_epoch_ <= n_epochs
        assert finite(model.predict_dist(sine[0]))
    with pytest.raises(
        ValueError, match=r"\['callbacks'\]` must not stop the training before the end of the first epoch"
    ):
        model.set_params(net_params={"callbacks": [Stop("on_batch_end", 1)]}).fit(*sine)


@models(["pnn", "ensemble", "laplace, stopped"], ["pnn"])
def test_skorchs_early_stopping_and_checkpoints_work(model, sine, tmp_path):
    stop = skorch.callbacks.EarlyStopping(patience=4)  # of "valid_loss"
    kept = skorch.callbacks.Checkpoint(dirname=tmp_path, f_optimizer=None)  # where "valid_loss_best"
    last = skorch.callbacks.TrainEndCheckpoint(dirname=tmp_path, f_optimizer=None)
    options = {"lr_schedule": "constant", "callbacks": [stop, kept, last]}
    model.set_params(max_epochs=400, learning_rate=0.02, net_params=options).fit(*sine)
    assert model.best_epoch_ < len(model.history_) < 400
    scores = [row["valid_loss"] for row in model.history_ if "valid_loss" in row]
    assert len(scores) == len(model.history_) // 2
    assert model.history_[model.best_epoch_ - 1, "valid_loss"] == min(scores)
    assert {path.name for path in tmp_path.iterdir()} >= {"params.pt", "train_end_params.pt"}


@models(["pnn", "bootstrap"], ["pnn", "bootstrap"])
def test_epochs_are_printed_if_verbose(model, sine, capsys):
    """Every second epoch is scored; the latest score stands in its column in those between."""
    model.set_params(verbose=1, max_epochs=4).fit(*sine)
    head, _, *rows = capsys.readouterr().out.splitlines()
    names = ["epoch", "train_loss", "valid_loss", "dur"]
    assert head.split() == [name for name in names if name != "valid_loss" or name in model.history_[1]]
    assert [len(row.split()) for row in rows] == [len(head.split())] * 4


def test_a_training_that_diverges_raises(model, sine):
    """Whether calibrated or not: else predict_dist would fail, with numbers that are not the user's."""
    options = {"optimizer": torch.optim.SGD, "clip_norm": None}
    model.set_params(learning_rate=1e30, net_params=options)
    if "snapshot_learning_rate" in model.get_params():
        model.set_params(snapshot_learning_rate=1e30)
    with pytest.raises(ValueError, match=r"the training diverged.* Use a lower `learning_rate`"):
        model.fit(*sine)


# ------------------------------------------------------------------------------ losses and optimizers


@dataclass
class AbsoluteError(Loss):
    """Not hashable, as a dataclass that compares its fields is not."""

    weight: float = 1.0

    def score(self, loc, variance, y):
        return self.weight * ((y - loc).abs() + 0.1 * (variance - 0.1) ** 2)


class CubicError(Loss):
    """A score of the mean alone."""

    n_outputs = 1

    def score(self, loc, variance, y):
        return (y - loc).abs() ** 3


class Averaging(Loss):
    def score(self, loc, variance, y):
        return ((y - loc) ** 2 + variance).mean()


def test_losses_of_ones_own_select_epochs_too(sine):
    own = AbsoluteError(2.0)
    models = [PNNRegressor(keep_best=stop, **SMALL) for stop in (own, "nll", False)]
    for one, model in zip(fit_many(models, *sine), models, strict=True):
        alone = clone(model).fit(*sine)
        assert keep_the_same((one.best_epoch_, one.history_), (alone.best_epoch_, alone.history_), rel=1e-3)
        for together, single in zip(one.history_, alone.history_, strict=True):
            assert together.keys() == single.keys()
            if "valid_loss" in single:
                assert together["valid_loss"] == pytest.approx(single["valid_loss"], rel=1e-3)
        assert ("valid_loss" in one.history_[1]) == (model.keep_best is not False)


def test_a_loss_that_averages_over_rows_raises(sine):
    for params in ({"loss": Averaging()}, {"keep_best": Averaging()}):
        with pytest.raises(ValueError, match="`score` of Averaging must return one value for each target"):
            PNNRegressor(**params, **SMALL).fit(*sine, sample_weight=np.full(150, 2.0))


@models(["bootstrap", "laplace"], ["bootstrap", "laplace"])
def test_where_no_noise_is_predicted_a_score_of_the_mean_selects_the_epoch(model, sine):
    for score in ("crps", AbsoluteError()):
        with pytest.raises(ValueError, match=r"be one of 'squared_error', .*does not use a variance"):
            clone(model).set_params(keep_best=score).fit(*sine)
    model.set_params(keep_best="squared_error").fit(*sine)
    assert "valid_loss" in model.history_[1]
    other = clone(model).set_params(keep_best=CubicError()).fit(*sine)
    assert other.history_[1]["valid_loss"] != model.history_[1]["valid_loss"]


@models([name for name in ONE_OF_EACH_CLASS if name != "swa"], ONE_OF_EACH_CLASS)
def test_keep_best_names_a_score_or_is_false(model, sine):
    for keep_best in (True, np.True_, "accuracy", None, 1):
        with pytest.raises(ValueError, match=r"`keep_best` must be one of .*, or False, got "):
            model.set_params(keep_best=keep_best).fit(*sine)
    model.set_params(keep_best=np.False_, max_epochs=2).fit(*sine)
    assert "valid_loss" not in model.history_[1]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (partial(PNNRegressor), {"optimizer": torch.optim.SGD, "optimizer__momentum": 0.9}),
        (partial(VariationalRegressor, n_draws=20), {"optimizer": torch.optim.RMSprop}),
        (partial(DeepEnsembleRegressor, 2), {"optimizer__weight_decay": 0.1}),
        (partial(SWARegressor, n_snapshots=4), {}),
    ],
)
def test_other_rates_and_states_are_fitted_together(kind, options, sine):
    """By any optimiser, and where one forgets its state."""
    params = {**SMALL, "dtype": "float64", "max_epochs": 8, "net_params": options}
    rates = [(1e-3, 0), (1e-2, 0), (1e-2, 1)]
    models = [kind(**{**params, "learning_rate": rate, "random_state": state}) for rate, state in rates]
    for one, model in zip(fit_many(models, *sine), models, strict=True):
        same(one.predict_dist(sine[0]), clone(model).fit(*sine).predict_dist(sine[0]), 1e-8)


def test_options_of_the_optimizer_are_used_and_all_ways_to_take_a_step_are_the_same(sine, fit_once):
    """One fused step is the default; skorch's options are given in ``net_params``."""
    model = PNNRegressor(dtype="float64", **SMALL)
    plain = fit_once(model)
    for options in ({"optimizer__fused": False}, {"optimizer__foreach": True}):
        other = clone(model).set_params(net_params=options)
        same(other.fit(*sine).predict_dist(sine[0]), plain.predict_dist(sine[0]), 1e-6)
    model.set_params(net_params={"optimizer": torch.optim.AdamW, "optimizer__weight_decay": 0.1})
    assert not np.allclose(model.fit(*sine).predict(sine[0]), plain.predict(sine[0]))


def test_a_number_of_rows_is_held_out_as_its_share_is(sine, fit_once):
    by_share = fit_once(clone(MODELS["pnn"]).set_params(held_out_size=0.2)).predict_dist(sine[0])
    same(clone(MODELS["pnn"]).set_params(held_out_size=30).fit(*sine).predict_dist(sine[0]), by_share)


# -------------------------------------------------------------------------------------- bad parameters

BAD_VALIDATION = [
    (PredefinedSplit(np.arange(160) % 2), "`held_out_size` must give row numbers from 0 to 149"),
    ([], "`held_out_size` must give at least one fold"),
    (GroupKFold(3), "`held_out_size` must be a splitter that does not need groups, got GroupKFold"),
    ("last", "`held_out_size` must be a share of the rows such as 0.2, a number of rows, or a splitter"),
    (True, "`held_out_size` must be a share of the rows such as 0.2, .* got True"),
    (0, "`held_out_size` must lie between 1 and 149 as a number of rows"),
    (150, "`held_out_size` must lie between 1 and 149 as a number of rows, got 150"),
    (1.0, "`held_out_size` must lie strictly between 0 and 1"),
]
BAD_PARAMETERS = [
    ({"hidden_layer_sizes": (0,)}, ValueError, "`hidden_layer_sizes` must be at least 1"),
    ({"learning_rate": 0.0}, ValueError, "`learning_rate` must be positive"),
    ({"batch_size": np.ones(2)}, TypeError, "`batch_size` must be an integer of at least 1 or 'auto', got"),
    ({"max_epochs": np.ones(2)}, TypeError, "`max_epochs` must be an integer of at least 1 or 'auto', got"),
    ({"batch_size": 0}, ValueError, "`batch_size` must be an integer of at least 1 or 'auto', got 0"),
    ({"batch_size": "small"}, ValueError, "`batch_size` must be .* or 'auto', got 'small'"),
    ({"max_epochs": "many"}, ValueError, "`max_epochs` must be .* or 'auto', got 'many'"),
    ({"max_epochs": 0}, ValueError, "`max_epochs` must be an integer of at least 1 or 'auto', got 0"),
    ({"device": "tpu"}, ValueError, "`device` must be one of"),
    ({"dtype": "float16"}, ValueError, "`dtype` must be one of"),
    ({"calibration": "yes"}, ValueError, "`calibration` must be one of"),
    ({"coverage": 95}, ValueError, "`coverage` must lie strictly between"),
    ({"net_params": {"lr": 0.1}}, ValueError, "must not contain 'lr'.* Use the parameter `learning_rate`"),
    ({"net_params": {"criterion": 1}}, ValueError, "must not contain 'criterion', which .*Regressor sets"),
    ({"net_params": {"optimizer__lr": 0.1}}, ValueError, "'optimizer__lr'.* parameter `learning_rate`"),
    ({"net_params": {"lr_schedule": 1}}, ValueError, r"`net_params\['lr_schedule'\]` must be one of"),
    ({"net_params": {"clip_norm": -1}}, ValueError, r"`net_params\['clip_norm'\]` must be positive"),
    ({"net_params": {"train_split": 1}}, ValueError, "'train_split'.* parameter `held_out_size`"),
    ({"net_params": {"iterator_train__shuffle": 1}}, ValueError, "'iterator_train__shuffle'.* Leave it"),
    ({"net_params": [("optimizer", 1)]}, TypeError, "`net_params` must be a dict or None"),
    ({"net_params": {1: 2}}, TypeError, "`net_params` must have names of skorch parameters as keys, got 1"),
    ({"net_params": {"optimiser": 1}}, ValueError, r"`net_params` must .*\['optimiser'.* argument"),
    ({"net_params": {"optimizer__decay": 1}}, ValueError, r"`net_params` must .*\['optimizer__decay'"),
    ({"net_params": {"callbacks": [1]}}, ValueError, r"`net_params` must .*\['callbacks'\]"),
    ({"n_jobs": 0}, ValueError, "`n_jobs` must be an integer other than 0, or None, got 0"),
    ({"verbose": "1"}, ValueError, "`verbose` must be an integer of at least 0, got '1'"),
    ({"verbose": -1}, ValueError, "`verbose` must be an integer of at least 0, got -1"),
    ({"net_params": {"callbacks": Counting()}}, TypeError, "must be a list of skorch callbacks or None"),
]

BAD_PARAMETERS_OF_ONE_CLASS = [
    (PNNRegressor, {"loss": "mse"}, "`loss` must be one of"),
    (PNNRegressor, {"loss": "squared_error"}, "`loss` must learn a variance"),
    (DeepEnsembleRegressor, {"loss": "mse"}, "`loss` must be one of"),
    (DeepEnsembleRegressor, {"bootstrap": False}, "Without bootstrap, there are no out-of-bag rows"),
    (
        DeepEnsembleRegressor,
        {"output": "mixture", "loss": "squared_error"},
        "got .mixture.. This loss does not learn",
    ),
    (DeepEnsembleRegressor, {"bootstrap": 0}, "`bootstrap` must be one of True, False, 'folds', got 0"),
    (DeepEnsembleRegressor, {"bootstrap": "no"}, "must be one of True, False, 'folds', got 'no'"),
    (DeepEnsembleRegressor, {"n_estimators": 0}, "`n_estimators` must be at least 1"),
    (DeepEnsembleRegressor, {"calibration": "split", "held_out_size": 1.5}, "must lie strictly between 0"),
    (DeepEnsembleRegressor, {"calibration": "split", "held_out_size": "5"}, "must be a share of the rows"),
    (BootstrapNetRegressor, {"n_estimators": 1}, "`n_estimators` must be at least 2"),
    (BootstrapNetRegressor, {"n_estimators": 5, "ci_scale": "mean"}, "must be even and at least 4"),
    (BootstrapNetRegressor, {"n_estimators": 2, "ci_scale": "mean"}, "must be even and at least 4"),
    (BootstrapNetRegressor, {"ci_scale": "both"}, "`ci_scale` must be one of"),
    (BootstrapNetRegressor, {"noise_estimation": "train"}, "`noise_estimation` must be one of"),
    (MCDropoutRegressor, {"dropout": 0.0}, "`dropout` must lie strictly between 0 and 1, got 0"),
    (MCDropoutRegressor, {"dropout": 1}, "`dropout` must lie strictly between 0 and 1"),
    (MCDropoutRegressor, {"last_layer": "no"}, "`last_layer` must be one of True, False, got 'no'"),
    (MCDropoutRegressor, {"n_draws": 1}, "`n_draws` must be at least 2"),
    (MCDropoutRegressor, {"hidden_layer_sizes": ()}, "at least 1 hidden layer"),
    (ConcreteDropoutRegressor, {"length_scale": 0.0}, "`length_scale` must be positive"),
    (SWARegressor, {"n_snapshots": 1}, "`n_snapshots` must be at least 2"),
    (SWARegressor, {"snapshot_learning_rate": 0.0}, "`snapshot_learning_rate` must be positive"),
    (SWARegressor, {"calibration": "oob"}, "`calibration` must be one of"),
    (LastLayerLaplaceRegressor, {"n_draws": 0}, "`n_draws` must be at least 1"),
    (LastLayerLaplaceRegressor, {"calibration": "oob"}, "`calibration` must be one of"),
    (LastLayerLaplaceRegressor, {"held_out_size": None}, "`held_out_size` must be a share"),
    (
        LastLayerLaplaceRegressor,
        {"module": nn.Linear, "hidden_layer_sizes": ()},
        "must contain the number of outputs",
    ),
    (VariationalRegressor, {"kl_weight": 0.0}, "`kl_weight` must be positive"),
    (VariationalRegressor, {"warm_up": 1.5}, "`warm_up` must lie between 0 and 1, got 1.5"),
    (VariationalRegressor, {"n_draws": 1}, "`n_draws` must be at least 2"),
    (VariationalRegressor, {"inference": "closed"}, "`inference` must be one of"),
    (VariationalRegressor, {"inference": "analytic"}, "closed form exists only if all layers except"),
    (VariationalRegressor, {"last_layer": "no"}, "`last_layer` must be one of True, False"),
    (VariationalRegressor, {"learning_rate": "fast"}, "`learning_rate` must be one of"),
    (VariationalRegressor, {"learning_rate": -1}, "`learning_rate` must be positive"),
    (VariationalRegressor, {"calibration": "oob"}, "`calibration` must be one of"),
    (VariationalRegressor, {"module": nn.Linear}, "last_layer=True"),
    (
        VariationalRegressor,
        {"module": nn.Linear, "hidden_layer_sizes": (), "last_layer": True},
        "`hidden_layer_sizes` must contain the number of outputs",
    ),
]


def refused(model, cases, sine, subtests):
    """Check that each parameters are refused, by the error and the message of the case."""
    for params, error, message in cases:
        with subtests.test(msg=f"{params}"), pytest.raises(error, match=message):
            clone(model).set_params(**params).fit(*sine)


def test_bad_parameters_raise_with_the_remedy(model, sine, subtests):
    cases = [*BAD_PARAMETERS]
    if isinstance(model, PNNRegressor):
        cases += [({"held_out_size": size}, ValueError, message) for size, message in BAD_VALIDATION]
    cases += [
        (params, ValueError, message)
        for kind, params, message in BAD_PARAMETERS_OF_ONE_CLASS
        if isinstance(model, kind)
    ]
    refused(model, cases, sine, subtests)


def test_automatic_epochs_are_a_number_of_steps_within_bounds():
    for kind, epochs in (
        (DeepEnsembleRegressor, [200, 200, 100, 40, 40]),  # 8000 steps
        (MCDropoutRegressor, [1000, 1000, 100, 40, 40]),  # 6000 steps
    ):
        sizes = [1, 40, 80, 200, 1000] if kind is DeepEnsembleRegressor else [1, 6, 60, 200, 1000]
        assert [kind(max_epochs="auto")._options().epochs(n) for n in sizes] == epochs


@models(CLASSES_WITH_MODULE, CLASSES_WITH_MODULE)
def test_a_bad_network_raises_with_the_remedy(model, sine, subtests):
    # What has no weights has no 16 features either.
    size = r"maps \(n, 2\) to \(n, 16\)" if isinstance(model, WITH_A_BODY) else "a network with weights"
    cases = [
        (nn.Linear(2, 2), TypeError, "got an instance of Linear"),
        ("mlp", TypeError, "`module` must be a class or function"),
        (lambda d, k: nn.Linear(d, k + 1), ValueError, r"maps \(n, 2\) to \(n, (1|2|16)\)"),
        (lambda d, k: None, TypeError, "returns a torch.nn.Module"),
        (lambda d, k: nn.Sequential(nn.Linear(d, 1), nn.Flatten(0)), ValueError, r"shape \(3,\)"),
        (nn.LSTM, ValueError, "got tuple for 3 rows"),
        (lambda d, k: nn.ReLU(), ValueError, size),
    ]
    with_own_network(model, None)
    refused(model, [({"module": module}, *rest) for module, *rest in cases], sine, subtests)


@pytest.mark.parametrize("package", ["torch", "skorch"])
def test_a_missing_package_is_named_with_its_remedy(package, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("skuq.neural")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # its import raises ModuleNotFoundError
    with pytest.raises(ImportError, match=r'pip install "skuq\[torch\]"') as caught:
        importlib.import_module("skuq.neural")
    assert caught.type is ImportError
    assert caught.value.__cause__.name == package


# ------------------------------------------------------------------------------- among other estimators


def test_it_works_in_pipelines_searches_and_recalibration(sine):
    X, y = sine
    frame = pd.DataFrame(X, columns=["a", "b"])
    base = DeepEnsembleRegressor(3, **{**SMALL, "max_epochs": 4})
    chain = make_pipeline(clone(base), StdScalingRecalibrator()).fit(frame, y)
    assert isinstance(predict_dist(chain, frame), StudentT)
    recalibrated = RecalibratedRegressor(clone(base), cv=3, random_state=0).fit(frame, y)
    assert isinstance(recalibrated.predict_dist(frame), StudentT)
    grid = {"loss": ["nll", "crps"]}
    search = GridSearchCV(base, grid, scoring=get_scorer("neg_crps"), cv=2, error_score="raise").fit(frame, y)
    assert np.isfinite(search.best_score_)
    assert list(search.best_estimator_.feature_names_in_) == ["a", "b"]


@two_or_every_variant
def test_the_uncertainty_regressor_recalibrates_a_network_that_was_not_calibrated(model, sine):
    X, y = (part[:80] for part in sine)
    calibrated = UncertaintyRegressor(clone(model), cv=3, random_state=0)
    assert calibrated._resolve() == "native"
    raw = clone(model).set_params(calibration=None, max_epochs=4)
    front = UncertaintyRegressor(raw, cv=3, random_state=0).fit(X, y)
    assert front.method_ == "recalibrated"
    assert np.isfinite(front.predict_interval(X)).all()
