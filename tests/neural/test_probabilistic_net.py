"""The net for users of skorch, and nets that they bring, wherever skuq takes an estimator.

Shapes of the target, and what raises, are in ``tests/_fitting/test_fit_wrapped.py``.
"""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from skorch.callbacks import EarlyStopping
from skorch.dataset import Dataset, ValidSplit
from torch import nn
from torch.utils.data import Subset

from skuq.conformal import ConformalRegressor
from skuq.distributions import Normal
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import crps_loss, get_scorer, prediction_interval_coverage
from skuq.model_selection import cross_val_predict_dist
from skuq.neural import CRPSLoss, ProbabilisticNet
from skuq.neural._probabilistic_net import TensorBatches
from skuq.prediction import predict_dist, supports_dist
from skuq.recalibration import StdScalingRecalibrator
from skuq.regressors import BootstrapRegressor, RecalibratedRegressor, ResidualRegressor, UncertaintyRegressor


class Network(nn.Module):
    def __init__(self, n_outputs=2):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, n_outputs))

    def forward(self, x):
        return self.layers(x)


@pytest.fixture
def net():
    torch.manual_seed(0)
    return ProbabilisticNet(Network, max_epochs=60, lr=0.02, batch_size=32, verbose=0)


def test_float64_and_a_flat_target_are_taken(net, sine):
    X, y = sine
    assert X.dtype == y.dtype == np.float64
    net.fit(X, y)
    dist = net.predict_dist(X)
    assert isinstance(dist, Normal)
    np.testing.assert_array_equal(net.predict(X), dist.mean())
    assert net.predict(X).shape == (150,)
    assert np.corrcoef(net.predict(X), y)[0, 1] > 0.6
    assert net.score(X, y) > 0.3
    assert len(net.history) == 60


def test_a_column_of_targets_is_the_same(net, sine):
    X, y = sine
    torch.manual_seed(1)
    flat = clone(net).fit(X, y).predict(X)
    torch.manual_seed(1)
    column = clone(net).fit(X.astype(np.float32), y[:, np.newaxis]).predict(X)
    np.testing.assert_allclose(flat, column, atol=1e-4)


def test_the_loss_is_a_parameter_of_the_criterion(net, sine):
    for loss in ("crps", CRPSLoss()):
        net.set_params(criterion__loss=loss, max_epochs=2).fit(*sine)
        assert net.criterion_.loss == CRPSLoss()


def test_a_loss_without_variance_predicts_but_has_no_distribution(sine):
    net = ProbabilisticNet(
        Network, module__n_outputs=1, criterion__loss="squared_error", max_epochs=2, verbose=0
    ).fit(*sine)
    assert net.predict(sine[0]).shape == (150,)
    assert not supports_dist(net)
    with pytest.raises(AttributeError, match="predict_dist"):
        net.predict_dist(sine[0])
    wrapped = UncertaintyRegressor(net, cv=2, random_state=0).fit(*sine)
    assert wrapped.method_ == "residual"
    assert len(wrapped.predict_dist(sine[0])) == 150


def test_a_network_of_another_shape_raises(sine):
    net = ProbabilisticNet(Network, module__n_outputs=3, max_epochs=2, verbose=0)
    with pytest.raises(ValueError, match=r"`module` must give 2 outputs per row .* got the shape \(128, 3\)"):
        net.fit(*sine)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, None), "`y` must be given"),
        (lambda X, y: (X, np.where(y == y[3], np.nan, y)), "`y` must be finite"),
        (lambda X, y: (np.where(X[3, 0] == X, np.inf, X), y), "`X` must be finite"),
        (lambda X, y: (torch.full(X.shape, np.nan), y), "`X` must be finite"),
        (lambda X, y: (X, np.column_stack([y, y])), r"`y` must have one column, got the shape \(150, 2\)"),
        (lambda X, y: (X, y[:-1]), "inconsistent lengths"),
    ],
)
def test_what_cannot_be_learned_from_raises(net, sine, change, message):
    with pytest.raises(ValueError, match=message):
        net.fit(*change(*sine))


def test_few_rows_a_constant_target_and_features_that_are_not_finite(net, sine):
    X = sine[0]
    for n in (1, 2, 5):
        dist = net.fit(X[:n], np.full(n, 3.0)).predict_dist(X)
        assert np.isfinite(np.asarray(dist)).all()
        assert (dist.std() > 0).all()
    with pytest.raises(ValueError, match="must be finite"):
        net.predict_dist(np.full((2, 2), np.nan))
    with pytest.raises(TypeError):
        net.fit(X.astype(str), sine[1])


def test_skorchs_validation_early_stopping_and_pickling_work(net, sine):
    net.set_params(train_split=ValidSplit(5), callbacks=[EarlyStopping(patience=3, load_best=True)])
    net.fit(*sine)
    assert "valid_loss" in net.history[-1]
    copied = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(copied.predict(sine[0]), net.predict(sine[0]))


def test_it_works_wherever_skuq_takes_an_estimator(net, sine):
    X, y = sine
    assert supports_dist(net)
    chain = make_pipeline(StandardScaler(), net)
    assert isinstance(predict_dist(clone(chain).fit(X, y), X), Normal)
    for outer in (
        RecalibratedRegressor(net, cv=3, random_state=0),
        UncertaintyRegressor(net, cv=3, random_state=0),
        BootstrapRegressor(net.set_params(max_epochs=3), 3, random_state=0),
    ):
        assert np.isfinite(outer.fit(X, y).predict_dist(X).std()).all()
    search = GridSearchCV(chain, {"probabilisticnet__lr": [0.01, 0.02]}, scoring=get_scorer("neg_crps"), cv=2)
    assert np.isfinite(search.fit(X, y).best_score_)


def test_batches_by_indexing_are_those_of_a_data_loader():
    X, y = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    plain = list(TensorBatches(Dataset(X, y), batch_size=4))
    assert [len(batch[0]) for batch in plain] == [4, 4, 2]
    np.testing.assert_array_equal(torch.cat([batch[1] for batch in plain]), y)
    part = TensorBatches(Subset(Dataset(X, y), [7, 1, 3]), batch_size=2)
    np.testing.assert_array_equal(torch.cat([batch[1] for batch in part]), [7, 1, 3])
    assert len(part) == 2
    torch.manual_seed(0)
    mixed = torch.cat([batch[1] for batch in TensorBatches(Dataset(X, y), batch_size=4, shuffle=True)])
    assert sorted(mixed.tolist()) == y.tolist()
    assert mixed.tolist() != y.tolist()


def test_other_datasets_go_through_a_data_loader(net, sine):
    class Own(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, k):
            return torch.full((2,), float(k)), float(k)

    assert TensorBatches(Own())._tensors is None
    net.fit(Own(), None)
    assert net.predict(sine[0]).shape == (150,)


def test_a_dataset_of_ones_own_gives_what_it_gives(sine):
    """Such as one that makes more of its rows: only skorch's own is read by indexing."""

    class Doubled(skorch.dataset.Dataset):
        def transform(self, X, y):
            return super().transform(2 * X, y)

    X, y = (part.astype(np.float32) for part in sine)
    doubled = next(iter(TensorBatches(Doubled(X, y), batch_size=150)))[0]
    np.testing.assert_array_equal(doubled, 2 * X)


# ------------------------------------------------------------------------------ nets of users


class Body(nn.Sequential):
    """Hidden units and a last layer, as everybody writes it: the output is a column."""

    def __init__(self, n_features=2, n_outputs=1):
        super().__init__(nn.Linear(n_features, 24), nn.Tanh(), nn.Linear(24, n_outputs))


COMMON = {"max_epochs": 30, "lr": 0.03, "batch_size": 64, "verbose": 0}


def plain_net(n_features=2):
    """Return skorch's own regressor, which predicts a mean."""
    return skorch.NeuralNetRegressor(
        Body, module__n_features=n_features, optimizer=torch.optim.Adam, train_split=None, **COMMON
    )


def our_net(n_features=2):
    """Return a net that predicts a distribution."""
    return ProbabilisticNet(Body, module__n_features=n_features, module__n_outputs=2, **COMMON)


def given(net, y):
    """Return the target as the net takes it: of skorch's own, a column."""
    return y if isinstance(net, ProbabilisticNet) else y[:, np.newaxis]


def standardized(net):
    """Return the net behind standardized features of its own type, and before a standardized target."""
    single = FunctionTransformer(np.asarray, kw_args={"dtype": np.float32})
    return TransformedTargetRegressor(
        make_pipeline(StandardScaler(), single, net), transformer=StandardScaler()
    )


def recalibrated(net):
    """Return the net, or an ensemble of it where it has no distribution, recalibrated."""
    model = net if supports_dist(net) else BootstrapRegressor(net, 5, random_state=0)
    return RecalibratedRegressor(model, StdScalingRecalibrator(), cv=2, random_state=0)


NETS = {"skorch's": plain_net, "ours": our_net}
WRAPPERS = {
    "uncertainty": lambda net: UncertaintyRegressor(net, cv=2, random_state=0),
    "residual": lambda net: ResidualRegressor(net, cv=2, random_state=0),
    "bootstrap": lambda net: BootstrapRegressor(net, 8, random_state=0),
    "conformal": lambda net: ConformalRegressor(net, random_state=0),
    "recalibrated": recalibrated,
}


@pytest.fixture(params=NETS)
def user_net(request):
    torch.manual_seed(0)
    return NETS[request.param]()


@pytest.fixture(scope="module")
def rows():
    """Return features of skorch's type and a target: 300 rows to fit, 600 to score."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(900, 2)).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=900)).astype(np.float32)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.mark.parametrize(
    ("kind", "wrapper"),
    [
        pytest.param(*case, marks=[] if case == ("ours", "uncertainty") else pytest.mark.laws)
        for case in itertools.product(NETS, WRAPPERS)
    ],
)
def test_it_learns_and_covers_in_every_regressor(kind, wrapper, rows):
    X, y, X_new, y_new = rows
    torch.manual_seed(0)
    net = NETS[kind]()
    model = WRAPPERS[wrapper](net).fit(X, given(net, y))
    dist = model.predict_dist(X_new)
    assert 0.85 < prediction_interval_coverage(y_new, dist) < 0.97
    assert crps_loss(y_new, dist) < 0.22  # 0.169 is that of the truth, 0.41 that of a constant mean
    assert model.predict(X_new).shape == (600,)
    assert not hasattr(net, "module_")


def test_behind_transformations_units_do_not_matter(rows):
    X, y, X_new, _ = rows
    means, stds = [], []
    for shift, unit in ((0.0, 1.0), (0.0, 1e-9), (1e7, 1e9)):
        torch.manual_seed(0)
        dist = predict_dist(standardized(our_net()).fit(X, shift + unit * y.astype(float)), X_new)
        means.append((dist.mean() - shift) / unit)
        stds.append(dist.std() / unit)
    np.testing.assert_allclose(means[1:], [means[0]] * 2, atol=1e-3)
    np.testing.assert_allclose(stds[1:], [stds[0]] * 2, rtol=1e-3)


@pytest.mark.laws
def test_out_of_fold_distributions_and_a_search_by_crps(user_net, rows):
    X, y, X_new, y_new = rows
    cv = KFold(2, shuffle=True, random_state=0)
    dist = cross_val_predict_dist(WRAPPERS["bootstrap"](user_net), X, given(user_net, y), cv=cv)
    assert len(dist) == 300
    assert 0.85 < prediction_interval_coverage(y, dist) < 0.97
    wrapped = BootstrapRegressor(make_pipeline(StandardScaler(), user_net), 3, random_state=0)
    name = f"estimator__{type(user_net).__name__.lower()}__lr"
    search = GridSearchCV(
        wrapped, {name: [1e-6, 0.03]}, scoring=get_scorer("neg_crps"), cv=2, error_score="raise"
    )
    search.fit(X, given(user_net, y))
    assert search.best_params_ == {name: 0.03}
    assert crps_loss(y_new, predict_dist(search, X_new)) < 0.22


def test_a_finished_net_is_calibrated_on_new_rows(user_net, rows):
    X, y, X_new, y_new = rows
    finished = FrozenEstimator(user_net.fit(X[:150], given(user_net, y[:150])))
    before = user_net.predict(X_new)
    model = ConformalRegressor(finished).fit(X[150:], y[150:])
    assert 0.85 < prediction_interval_coverage(y_new, model.predict_interval(X_new)) < 0.97
    np.testing.assert_array_equal(user_net.predict(X_new), before)


def test_torchs_seed_is_that_of_the_user_and_a_fitted_wrapper_can_be_pickled(user_net, rows):
    """Nets have no random_state: torch's own seed makes two fits equal."""
    X, y, X_new, _ = rows
    dists = []
    for _ in range(2):
        torch.manual_seed(3)
        model = WRAPPERS["conformal"](clone(user_net)).fit(X, given(user_net, y))
        dists.append(np.asarray(model.predict_dist(X_new)))
    np.testing.assert_array_equal(dists[0], dists[1])
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(np.asarray(copied.predict_dist(X_new)), dists[1])


def test_a_net_without_a_distribution_raises(rows):
    X, y, X_new, _ = rows
    net = plain_net()
    assert not supports_dist(net)
    assert supports_dist(our_net())
    with pytest.raises(NotProbabilisticError, match="UncertaintyRegressor"):
        predict_dist(net.fit(X, given(net, y)), X_new)
