"""The net for users of skorch."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import EarlyStopping
from skorch.dataset import Dataset, ValidSplit
from torch import nn
from torch.utils.data import Subset

from skuq.distributions import Normal
from skuq.metrics import get_scorer
from skuq.neural import CRPSLoss, ProbabilisticNet
from skuq.neural._probabilistic_net import TensorBatches
from skuq.prediction import predict_dist, supports_dist
from skuq.regressors import BootstrapRegressor, RecalibratedRegressor, UncertaintyRegressor


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


@pytest.mark.parametrize("loss", ["crps", CRPSLoss()])
def test_the_loss_is_a_parameter_of_the_criterion(net, sine, loss):
    net.set_params(criterion__loss=loss).fit(*sine)
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
    ],
)
def test_what_cannot_be_learned_from_raises(net, sine, change, message):
    with pytest.raises(ValueError, match=message):
        net.fit(*change(*sine))


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


def test_a_skorch_net_without_variance_works_in_the_uncertainty_regressor(sine):
    X, y = sine
    net = skorch.NeuralNetRegressor(
        Network, module__n_outputs=1, max_epochs=5, train_split=None, verbose=0, lr=0.05
    )
    single = X.astype(np.float32)

    class Column(skorch.NeuralNetRegressor):
        def fit(self, X, y, **fit_params):
            return super().fit(X, np.asarray(y, dtype=np.float32).reshape(-1, 1), **fit_params)

        def predict(self, X):
            return super().predict(X).ravel()

    column = Column(**{**net.get_params(), "callbacks": None})
    dist = UncertaintyRegressor(column, cv=3, random_state=0).fit(single, y).predict_dist(single)
    assert np.isfinite(dist.std()).all()


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
