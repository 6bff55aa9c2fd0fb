"""What all neural estimators do alike: many fits as one, strange data, parameters, and what they leave."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit
from sklearn.pipeline import make_pipeline

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from torch import nn

from skuq.distributions import StudentT
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import get_scorer
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
WITH_A_BODY = (
    ConcreteDropoutRegressor,
    LastLayerLaplaceRegressor,
    VariationalRegressor,
)
WITH_MODULE = [name for name, each in MODELS.items() if "module" in each.get_params()]
CLASSES_WITH_MODULE = [name for name in ONE_OF_EACH_CLASS if name in WITH_MODULE]
every_variant = pytest.mark.parametrize("model", MODELS, indirect=True)

FORMS = ["moments", "mixture", "members"]


@pytest.mark.parametrize("estimator", [each for each in ESTIMATORS if "output" in each().get_params()])
def test_the_form_of_a_distribution_has_one_vocabulary(estimator, sine):
    assert estimator().output == "moments"
    with pytest.raises(ValueError, match="`output` must be one of") as caught:
        estimator(output="nonsense", **SMALL).fit(*sine)
    forms = re.findall(r"'(\w+)'", str(caught.value).split("got")[0])
    assert forms == [form for form in FORMS if form in forms]


@pytest.fixture(params=ONE_OF_EACH_CLASS)
def model(request):
    """Return one estimator of each class; `every_variant` marks what a setting can change."""
    return clone(MODELS[request.param])


def with_own_network(model, module):
    """Return the model with a network of the user, of which variational inference takes the body only."""
    if "last_layer" in model.get_params():
        model.set_params(last_layer=True)
    return model.set_params(module=module)


def same(one, other, tolerance=0.0):
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------------------- many fits as one


@every_variant
def test_fit_many_is_fitting_one_by_one(model, sine):
    X, y = sine
    model.set_params(dtype="float64")
    rows = [train for train, _ in KFold(2, shuffle=True, random_state=1).split(X)] + [np.arange(100)]
    for part, together in zip(rows, model._fit_many(X, y, rows), strict=True):
        alone = clone(model).fit(X[part], y[part])
        same(together.predict_dist(X), alone.predict_dist(X), 1e-8)
        kept = [(each.best_epoch_, each.history_) for each in (together, alone)]
        assert keep_the_same(*kept)
        assert len(together.history_) == len(alone.history_) == N_EPOCHS
    assert not hasattr(model, "net_")


@every_variant
def test_each_of_many_fits_has_its_own_seed_where_there_are_some(model, sine):
    X, y = sine
    model.set_params(dtype="float64")
    rows, seeds = [np.arange(100)] * 3, [5, 6, 5]
    fitted = model._fit_many(X, y, rows, random_states=seeds)
    assert model.random_state == 0
    for seed, together in zip(seeds, fitted, strict=True):
        alone = clone(model).set_params(random_state=seed).fit(X[:100], y[:100])
        same(together.predict_dist(X), alone.predict_dist(X), 1e-8)
    assert not np.allclose(fitted[0].predict(X), fitted[1].predict(X), atol=1e-4)


def test_fit_many_slices_weights(sine):
    X, y = sine
    weight = np.arange(150) % 3 + 1.0
    rows = [np.arange(100), np.arange(50, 150)]
    model = DeepEnsembleRegressor(3, dtype="float64", **SMALL)
    for part, together in zip(rows, model._fit_many(X, y, rows, sample_weight=weight), strict=True):
        alone = clone(model).fit(X[part], y[part], sample_weight=weight[part])
        same(together.predict_dist(X), alone.predict_dist(X), 1e-8)


@every_variant
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
        for loss in ("nll", "crps", "check", "interval", "beta_nll")
        for seed in (0, 1)
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


@every_variant
def test_fit_transform_is_out_of_sample_and_then_fits_all_rows(model, sine, fit_once):
    X, y = sine
    fitted = clone(model)
    dist = fitted.fit_transform(X, y)
    assert len(dist) == len(y)
    same(fitted.predict_dist(X), fit_once(model).predict_dist(X))
    assert not np.allclose(np.asarray(dist), np.asarray(fitted.predict_dist(X)))


# ------------------------------------------------------------------------------------ strange data


def test_one_row_raises(model):
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        model.fit([[1.0]], [1.0])


@every_variant
@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_fewer_rows_than_a_batch(model, n):
    X = np.arange(n, dtype=float).reshape(-1, 1)
    if n == 2 and model.get_params().get("n_estimators") == 4:
        model.set_params(random_state=1)  # of two rows, each is left out by some member
    model.set_params(calibration_coverage=0.95, max_epochs=20)
    with pytest.warns(SmallSampleWarning, match="intervals of 95 % need at least 19 rows") as caught:
        dist = model.fit(X, X[:, 0]).predict_dist(X)
    assert [one.filename for one in caught] == [__file__]
    assert np.isfinite(np.asarray(dist)).all()
    assert (dist.std() > 0).all()


@every_variant
def test_rows_enough_for_the_rank_are_enough(model, sine):
    """The 12 rows held out are enough at 90 %, and any number where nothing is calibrated."""
    X, y = (part[:60] for part in sine)
    model.fit(X, y)
    if "noise" not in model.get_params():  # which is estimated by rows held out, calibrated or not
        model.set_params(calibration=None).fit(X[:10], y[:10])


@every_variant
def test_a_constant_target_is_predicted_for_certain(model, sine):
    dist = model.fit(sine[0], np.full(150, 3.3)).predict_dist(sine[0])
    np.testing.assert_array_equal(dist.mean(), 3.3)
    np.testing.assert_array_equal(dist.std(), 0.0)


@pytest.mark.parametrize(
    ("model", "shift", "unit"),
    [
        *((name, -5e5, 1e3) for name in MODELS),
        *(
            (name, *units)
            for name in ("pnn", "bootstrap")
            for units in ((1e7, 1.0), (0.0, 1e-9), (0.0, 1e120))
        ),
    ],
    indirect=["model"],
)
def test_the_units_of_the_target_do_not_matter(model, sine, fit_once, shift, unit):
    """One class scales the target of all networks, so not every network takes every unit."""
    X, y = sine
    plain = fit_once(model.set_params(dtype="float64")).predict_dist(X)
    moved = model.fit(X, shift + unit * y).predict_dist(X)
    same((moved.mean() - shift) / unit, plain.mean(), 1e-6)
    same(moved.std() / unit, plain.std(), 1e-6)


def test_an_offset_in_the_features_does_not_matter(model, sine, fit_once):
    X, y = sine
    plain = fit_once(model).predict_dist(X)
    same(model.fit(1e7 + X, y).predict_dist(1e7 + X), plain, 1e-2)


def test_a_column_without_variance_is_ignored(model, sine):
    X, y = sine
    wide = np.column_stack([X, np.full(150, 7.0)])
    model.fit(wide, y)
    elsewhere = np.column_stack([X, np.full(150, 1e9)])
    same(model.predict_dist(wide), model.predict_dist(elsewhere))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_raises(model, sine, fit_once, bad):
    X, y = (part.copy() for part in sine)
    X[3, 0] = np.inf  # NaN is a missing value
    with pytest.raises(ValueError, match="infinity"):
        model.fit(X, y)
    y[3] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.fit(sine[0], y)
    with pytest.raises(ValueError, match="infinity"):
        fit_once(model).predict_dist(X)


@every_variant
def test_rows_of_weight_zero_are_as_if_not_there(model, sine):
    X, y = sine
    weight = np.ones(150)
    weight[100:] = 0
    far = np.where(weight > 0, y, 1e6)
    dist = model.fit(X, far, sample_weight=weight).predict_dist(X)
    assert np.abs(dist.mean()).max() < 10
    assert dist.std().max() < 10


def test_rows_held_out_must_count(sine):
    weight = np.where(np.arange(150) < 30, 0.0, 2.0)
    model = PNNRegressor(validation_size=PredefinedSplit(np.where(weight == 0, 0, -1)), **SMALL)
    with pytest.raises(ValueError, match="`validation_size` must hold out rows with positive weight"):
        model.fit(*sine, sample_weight=weight)


@pytest.mark.parametrize("model", ["pnn", "dropout", "concrete dropout"], indirect=True)
def test_rows_of_weight_zero_do_not_calibrate(model, sine):
    """Held out by a splitter, with too few others for the rank to be below the largest residual."""
    X, y = sine
    weight = np.where(np.arange(150) < 5, 0.0, 1.0)
    model.set_params(validation_size=PredefinedSplit(np.where(np.arange(150) < 15, 0, -1)), keep_best=False)
    model.set_params(calibration_coverage=0.9)
    plain = clone(model).fit(X, y, sample_weight=weight)
    assert model.fit(X, np.where(weight > 0, y, 1e3), sample_weight=weight).factor_ == plain.factor_


def test_relative_weights_raise_where_rows_are_counted(model, sine):
    with pytest.raises(ValueError, match="counts repetitions"):
        model.fit(*sine, sample_weight=np.full(150, 0.01))


def test_heavy_rows_are_fitted_better(sine):
    X, y = sine
    contrary = np.concatenate([y, -y])
    weight = np.repeat([20.0, 1.0], 150)
    for model in (
        DeepEnsembleRegressor(3, max_epochs=40, random_state=0),
        PNNRegressor(max_epochs=40, random_state=0),
    ):
        dist = model.fit(np.vstack([X, X]), contrary, sample_weight=weight).predict_dist(X)
        assert np.corrcoef(dist.mean(), y)[0, 1] > 0.6


# -------------------------------------------------------------------------------- state and randomness


def test_an_integer_seed_makes_everything_equal(model, sine, fit_once):
    same(fit_once(model).predict_dist(sine[0]), model.fit(*sine).predict_dist(sine[0]))
    other = clone(model).set_params(random_state=1).fit(*sine)
    assert not np.allclose(other.predict(sine[0]), model.predict(sine[0]))


def test_torch_is_not_seeded(model, sine, monkeypatch):
    """Nor are GPUs on which nothing is trained."""
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: 1 / 0)
    state = torch.random.get_rng_state()
    if "module" in model.get_params():
        with_own_network(model, WithDropout)
    model.fit(*sine)
    assert torch.equal(torch.random.get_rng_state(), state)


@every_variant
def test_pickle_keeps_every_bit(model, sine, fit_once):
    model = fit_once(model)
    copied = pickle.loads(pickle.dumps(model))
    same(copied.predict_dist(sine[0]), model.predict_dist(sine[0]))
    assert len(copied.history_) == len(model.history_)
    assert len(pickle.dumps(model)) < 200_000


@every_variant
def test_the_order_of_rows_in_prediction_does_not_matter(model, sine, fit_once):
    model = fit_once(model)
    whole = model.predict_dist(sine[0])
    single = np.vstack([np.asarray(model.predict_dist(row[np.newaxis])) for row in sine[0][:5]])
    same(whole[:5], single, 1e-5)


def test_history_is_skorchs(model, fit_once):
    model = fit_once(model)
    assert isinstance(model.history_, skorch.history.History)
    assert len(model.history_[:, "train_loss"]) == N_EPOCHS
    assert 1 <= model.best_epoch_ <= N_EPOCHS
    assert isinstance(model.net_, skorch.NeuralNet)


def test_progress_is_reported_by_epoch(model, sine):
    callbacks = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    assert hasattr(callbacks, "ProgressBar")
    from skuq._fitting.progress import Progress

    reported = []

    class Recorded(Progress):
        def reporter(self, name):
            return lambda *_: reported.append(name)

    model._fit(model._read(*sine, None, {}, "fit"), Recorded(None, None))
    assert reported == ["epoch"] * N_EPOCHS


# ----------------------------------------------------------------------------------------- parameters


class WithDropout(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Linear(n_features, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, n_outputs))


class Counting(skorch.callbacks.Callback):
    def __init__(self):
        self.epochs = self.batches = 0

    def on_epoch_end(self, net, **kwargs):
        self.epochs += 1

    def on_batch_end(self, net, batch=None, training=None, loss=None, **kwargs):
        self.batches += 1
        assert training
        assert np.isfinite(loss.item())


@pytest.mark.parametrize("model", CLASSES_WITH_MODULE, indirect=True)
def test_a_network_of_ones_own(model, sine):
    X, y = sine
    own = partial(WithDropout)
    with_own_network(model, own).set_params(max_epochs=40, learning_rate=0.05)
    dist = model.fit(X, y).predict_dist(X)
    assert np.corrcoef(dist.mean(), y)[0, 1] > 0.5
    same(clone(model).fit(X, y).predict_dist(X), dist)
    copied = pickle.loads(pickle.dumps(model.set_params(module=None)))  # a test's own class would not travel
    same(copied.predict_dist(X), dist)


def without_dropout(n_features, n_outputs):
    return nn.Sequential(nn.Linear(n_features, 8), nn.Tanh(), nn.Linear(8, n_outputs))


@pytest.mark.parametrize(
    "model", [name for name in WITH_MODULE if not isinstance(MODELS[name], MCDropoutRegressor)], indirect=True
)
def test_networks_of_ones_own_without_draws_are_the_same_in_any_training(model, sine, monkeypatch):
    X, y = sine
    with_own_network(model, without_dropout).set_params(dtype="float64")
    rows = [np.arange(100), np.arange(50, 150)]
    together = model._fit_many(X, y, rows)
    if not model.get_params().get("keep_best"):  # members that are scored together stay together
        monkeypatch.setattr("skuq.neural._training.trainer._members_at_once", lambda *_: 1)
    for part, one in zip(rows, together, strict=True):
        same(one.predict_dist(X), clone(model).fit(X[part], y[part]).predict_dist(X), 1e-7)


@pytest.mark.parametrize("model", ["dropout", "dropout, members"], indirect=True)
def test_dropout_of_ones_own_is_the_same_each_time(model, sine):
    rows = [np.arange(100), np.arange(50, 150)]
    with_own_network(model, WithDropout)
    first, second = (model._fit_many(*sine, rows) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        same(one.predict_dist(sine[0]), other.predict_dist(sine[0]))


def test_skorch_callbacks_are_called_and_change_nothing(model, sine, fit_once):
    plain = fit_once(model).predict_dist(sine[0])
    counting = Counting()
    model.set_params(callbacks=[counting]).fit(*sine)
    assert counting.epochs == N_EPOCHS
    assert counting.batches % N_EPOCHS == 0
    assert counting.batches > 0
    same(model.predict_dist(sine[0]), plain)


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


@pytest.mark.parametrize("model", [name for name in ONE_OF_EACH_CLASS if name != "swa"], indirect=True)
@pytest.mark.parametrize(
    ("event", "epoch", "n_epochs"),
    [("on_epoch_end", 1, 1), ("on_epoch_end", 5, 5), ("on_batch_end", 5, 4), ("on_epoch_begin", 5, 4)],
)
def test_a_callback_may_stop_the_training(model, event, epoch, n_epochs, sine):
    model.set_params(callbacks=[Stop(event, epoch)]).fit(*sine)
    assert len(model.history_) == n_epochs
    assert 1 <= model.best_epoch_ <= n_epochs
    assert np.isfinite(np.asarray(model.predict_dist(sine[0]))).all()


def test_a_callback_must_let_one_epoch_end(model, sine):
    with pytest.raises(
        ValueError, match="`callbacks` must not stop the training before the end of the first epoch"
    ):
        model.set_params(callbacks=[Stop("on_batch_end", 1)]).fit(*sine)


@pytest.mark.parametrize("model", ["pnn", "ensemble", "bootstrap"], indirect=True)
def test_an_interrupted_training_is_no_model(model, sine, monkeypatch):
    """Skorch ends a training alike that a callback stops and that the user interrupts."""

    def interrupted(self, batch, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("skuq.neural._training.net.StackedNet.train_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*sine)
    assert not hasattr(model, "net_")


@pytest.mark.parametrize("model", ["pnn", "ensemble", "laplace, stopped"], indirect=True)
def test_skorchs_early_stopping_and_checkpoints_work(model, sine, tmp_path):
    stop = skorch.callbacks.EarlyStopping(patience=4)  # of "valid_loss"
    kept = skorch.callbacks.Checkpoint(dirname=tmp_path, f_optimizer=None)  # where "valid_loss_best"
    last = skorch.callbacks.TrainEndCheckpoint(dirname=tmp_path, f_optimizer=None)
    model.set_params(max_epochs=400, lr_schedule="constant", learning_rate=0.02)
    model.set_params(callbacks=[stop, kept, last]).fit(*sine)
    assert model.best_epoch_ < len(model.history_) < 400
    scores = [row["valid_loss"] for row in model.history_ if "valid_loss" in row]
    assert len(scores) == len(model.history_) // 2
    assert model.history_[model.best_epoch_ - 1, "valid_loss"] == min(scores)
    assert {path.name for path in tmp_path.iterdir()} >= {"params.pt", "train_end_params.pt"}


@pytest.mark.parametrize("model", ["pnn", "bootstrap"], indirect=True)
def test_epochs_are_printed_if_verbose(model, sine, capsys):
    """Every second epoch is scored; the latest score stands in its column in those between."""
    model.set_params(verbose=1, max_epochs=4).fit(*sine)
    head, _, *rows = capsys.readouterr().out.splitlines()
    names = ["epoch", "train_loss", "valid_loss", "dur"]
    assert head.split() == [name for name in names if name != "valid_loss" or name in model.history_[1]]
    assert [len(row.split()) for row in rows] == [len(head.split())] * 4


def test_a_training_that_diverges_raises(model, sine):
    """Whether calibrated or not: else predict_dist would fail, with numbers that are not the user's."""
    options = {"optimizer": torch.optim.SGD}
    model.set_params(learning_rate=1e30, clip_norm=None, net_params=options)
    if "snapshot_learning_rate" in model.get_params():
        model.set_params(snapshot_learning_rate=1e30)
    with pytest.raises(ValueError, match=r"the training diverged.* Use a lower `learning_rate`"):
        model.fit(*sine)


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


@pytest.mark.parametrize("params", [{"loss": Averaging()}, {"keep_best": Averaging()}])
def test_a_loss_that_averages_over_rows_raises(sine, params):
    with pytest.raises(ValueError, match="`score` of Averaging must return one value for each target"):
        PNNRegressor(**params, **SMALL).fit(*sine, sample_weight=np.full(150, 2.0))


@pytest.mark.parametrize("model", ["bootstrap", "laplace"], indirect=True)
def test_where_no_noise_is_predicted_a_score_of_the_mean_selects_the_epoch(model, sine):
    for score in ("crps", AbsoluteError()):
        with pytest.raises(ValueError, match=r"be one of 'squared_error', .*does not use a variance"):
            clone(model).set_params(keep_best=score).fit(*sine)
    model.set_params(keep_best="squared_error").fit(*sine)
    assert "valid_loss" in model.history_[1]
    other = clone(model).set_params(keep_best=CubicError()).fit(*sine)
    assert other.history_[1]["valid_loss"] != model.history_[1]["valid_loss"]


@every_variant
def test_keep_best_names_a_score_or_is_false(model, sine):
    if "keep_best" not in model.get_params():
        pytest.skip("all epochs of the snapshots count")
    for keep_best in (True, np.True_, "accuracy", None, 1):
        with pytest.raises(ValueError, match=r"`keep_best` must be one of .*, or False, got "):
            model.set_params(keep_best=keep_best).fit(*sine)
    model.set_params(keep_best=np.False_).fit(*sine)
    assert "valid_loss" not in model.history_[1]


@pytest.mark.parametrize(
    ("validation_size", "message"),
    [
        (PredefinedSplit(np.arange(160) % 2), "`validation_size` must give row numbers from 0 to 149"),
        ([], "`validation_size` must give at least one fold"),
        (GroupKFold(3), "`validation_size` must be a splitter that does not need groups, got GroupKFold"),
        (
            "last",
            "`validation_size` must be a share of the rows such as 0.2, a number of rows, or a splitter",
        ),
        (True, "`validation_size` must be a share of the rows such as 0.2, .* got True"),
        (0, "`validation_size` must lie between 1 and 149 as a number of rows"),
        (150, "`validation_size` must lie between 1 and 149 as a number of rows, got 150"),
        (1.0, "`validation_size` must lie strictly between 0 and 1"),
    ],
)
def test_a_bad_validation_is_called_by_its_name(sine, validation_size, message):
    with pytest.raises(ValueError, match=message):
        PNNRegressor(validation_size=validation_size, **SMALL).fit(*sine)


def test_a_number_of_rows_is_held_out_as_its_share_is(model, sine, fit_once):
    X, y = sine
    by_share = fit_once(model.set_params(validation_size=0.2)).predict_dist(X)
    same(clone(model).set_params(validation_size=30).fit(X, y).predict_dist(X), by_share)


def test_another_optimiser(model, sine, fit_once):
    plain = fit_once(model)
    model.set_params(net_params={"optimizer": torch.optim.AdamW, "optimizer__weight_decay": 0.1})
    assert not np.allclose(model.fit(*sine).predict(sine[0]), plain.predict(sine[0]))


@pytest.mark.parametrize("option", ["fused", "foreach"])
def test_ways_to_take_a_step_are_the_same(option, sine):
    """One fused step is the default; skorch's options are given in ``net_params``."""
    options = {f"optimizer__{option}": option == "foreach"}
    plain = PNNRegressor(dtype="float64", **SMALL)
    other = clone(plain).set_params(net_params=options)
    same(other.fit(*sine).predict_dist(sine[0]), plain.fit(*sine).predict_dist(sine[0]), 1e-6)


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


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"hidden_layer_sizes": (0,)}, ValueError, "`hidden_layer_sizes` must be at least 1"),
        ({"learning_rate": 0.0}, ValueError, "`learning_rate` must be positive"),
        ({"batch_size": 0}, ValueError, "`batch_size` must be at least 1"),
        ({"batch_size": "small"}, ValueError, "`batch_size` must be 'auto' or a positive integer"),
        ({"max_epochs": "many"}, ValueError, "`max_epochs` must be 'auto' or a positive integer"),
        ({"max_epochs": 0}, ValueError, "`max_epochs` must be at least 1"),
        ({"lr_schedule": "linear"}, ValueError, "`lr_schedule` must be one of"),
        ({"clip_norm": -1}, ValueError, "`clip_norm` must be positive"),
        ({"device": "tpu"}, ValueError, "`device` must be one of"),
        ({"dtype": "float16"}, ValueError, "`dtype` must be one of"),
        ({"calibration": "yes"}, ValueError, "`calibration` must be one of"),
        ({"calibration_coverage": 95}, ValueError, "`calibration_coverage` must lie strictly between"),
        (
            {"net_params": {"lr": 0.1}},
            ValueError,
            "must not contain 'lr'.* Use the parameter `learning_rate`",
        ),
        (
            {"net_params": {"criterion": 1}},
            ValueError,
            "must not contain 'criterion', which .*Regressor sets",
        ),
        ({"net_params": {"optimizer__lr": 0.1}}, ValueError, "'optimizer__lr'.* parameter `learning_rate`"),
        ({"net_params": {"lr_schedule": 1}}, ValueError, "'lr_schedule'.* Use the parameter `lr_schedule`"),
        (
            {"net_params": {"train_split": 1}},
            ValueError,
            "'train_split'.* parameter `validation_size`",
        ),
        ({"net_params": {"iterator_train__shuffle": 1}}, ValueError, "'iterator_train__shuffle'.* Leave it"),
        ({"net_params": [("optimizer", 1)]}, TypeError, "`net_params` must be a dict or None"),
        ({"callbacks": Counting()}, TypeError, "`callbacks` must be a list of skorch callbacks or None"),
    ],
)
def test_bad_parameters_raise_with_the_remedy(model, params, error, message, sine):
    with pytest.raises(error, match=message):
        model.set_params(**params).fit(*sine)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"module": nn.Linear(2, 2)}, TypeError, "got an instance of Linear"),
        ({"module": "mlp"}, TypeError, "`module` must be a class or function"),
        ({"module": lambda d, k: nn.Linear(d, k + 1)}, ValueError, r"maps \(n, 2\) to \(n, (1|2|16)\)"),
        ({"module": lambda d, k: None}, TypeError, "returns a torch.nn.Module"),
        ({"module": lambda d, k: nn.Sequential(nn.Linear(d, 1), nn.Flatten(0))}, ValueError, r"shape \(3,\)"),
        ({"module": nn.LSTM}, ValueError, "got tuple for 3 rows"),
        ({"module": lambda d, k: nn.ReLU()}, ValueError, "must build a network with weights"),
    ],
)
@pytest.mark.parametrize("model", CLASSES_WITH_MODULE, indirect=True)
def test_a_bad_network_raises_with_the_remedy(model, params, error, message, sine):
    if isinstance(model, WITH_A_BODY) and message.endswith("weights"):
        message = r"maps \(n, 2\) to \(n, 16\)"  # what has no weights has no 16 features either
    with pytest.raises(error, match=message):
        with_own_network(model, params["module"]).fit(*sine)


@pytest.mark.parametrize("model", ["pnn", "ensemble"], indirect=True)
def test_an_unknown_loss_raises_with_the_valid_names(model, sine):
    with pytest.raises(ValueError, match="`loss` must be one of"):
        model.set_params(loss="mse").fit(*sine)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_raises(model, sine):
    with pytest.raises(ValueError, match="`device` is 'cuda', but torch finds no GPU"):
        model.set_params(device="cuda").fit(*sine)


def test_unused_fit_parameters_raise(model, sine):
    with pytest.raises(TypeError, match=r"does not accept the parameters \['color'\]"):
        model.fit(*sine, color="red")


# ------------------------------------------------------------------------------- among other estimators


def test_it_works_in_pipelines_searches_and_recalibration(sine):
    X, y = sine
    frame = pd.DataFrame(X, columns=["a", "b"])
    base = DeepEnsembleRegressor(3, **SMALL)
    chain = make_pipeline(clone(base), StdScalingRecalibrator()).fit(frame, y)
    assert isinstance(predict_dist(chain, frame), StudentT)
    recalibrated = RecalibratedRegressor(clone(base), cv=3, random_state=0).fit(frame, y)
    assert isinstance(recalibrated.predict_dist(frame), StudentT)
    grid = {"loss": ["nll", "crps"]}
    search = GridSearchCV(base, grid, scoring=get_scorer("neg_crps"), cv=2, error_score="raise").fit(frame, y)
    assert np.isfinite(search.best_score_)
    assert list(search.best_estimator_.feature_names_in_) == ["a", "b"]


@every_variant
def test_the_uncertainty_regressor_recalibrates_a_network_that_was_not_calibrated(model, sine):
    X, y = (part[:80] for part in sine)
    calibrated = UncertaintyRegressor(clone(model), cv=3, random_state=0)
    assert calibrated._resolve() == "native"
    raw = clone(model).set_params(calibration=None)
    front = UncertaintyRegressor(raw, cv=3, random_state=0).fit(X, y)
    assert front.method_ == "recalibrated"
    assert np.isfinite(front.predict_interval(X)).all()


def test_masked_entries_of_X_raise(model, sine, fit_once):
    X, y = sine
    fitted = fit_once(model)
    masked = np.ma.array(X, mask=np.arange(X.size).reshape(X.shape) == 3)
    for attempt in (
        lambda: clone(model).fit(masked, y),
        lambda: fitted.predict(masked),
        lambda: fitted.predict_dist(masked),
    ):
        with pytest.raises(ValueError, match="`X` must not have masked entries, got 1"):
            attempt()
