"""A skorch net that a user brings works wherever skuq takes an estimator, and its intervals hold.

Shapes of the target, and what raises, are in ``tests/_fitting/test_fit_wrapped.py``.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

from skuq.exceptions import NotProbabilisticError
from skuq.metrics import crps_loss, get_scorer, prediction_interval_coverage
from skuq.model_selection import cross_val_predict_dist
from skuq.neural import ProbabilisticNet
from skuq.prediction import predict_dist, supports_dist
from skuq.recalibration import StdScalingRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    ConformalRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)


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
def net(request):
    torch.manual_seed(0)
    return NETS[request.param]()


@pytest.fixture(scope="module")
def rows():
    """Return features of skorch's type and a target: 300 rows to fit, 600 to score."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(900, 2)).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=900)).astype(np.float32)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_it_learns_and_covers_in_every_regressor(net, wrapper, rows):
    X, y, X_new, y_new = rows
    model = WRAPPERS[wrapper](net).fit(X, given(net, y))
    dist = model.predict_dist(X_new)
    assert 0.85 < prediction_interval_coverage(y_new, dist) < 0.97
    assert crps_loss(y_new, dist) < 0.22  # 0.169 is that of the truth, 0.41 that of a constant mean
    assert model.predict(X_new).shape == (600,)
    assert not hasattr(net, "module_")


@pytest.mark.parametrize(
    ("net", "wrapper"), [("skorch's", "bootstrap"), ("ours", "uncertainty")], indirect=["net"]
)
def test_it_works_behind_transformations_of_features_and_target(net, wrapper, rows):
    X, y, X_new, y_new = rows
    frame = pd.DataFrame({"east": 1e4 * X[:, 0], "north": 1e-4 * X[:, 1]})  # float64, of far apart units
    new = pd.DataFrame({"east": 1e4 * X_new[:, 0], "north": 1e-4 * X_new[:, 1]})
    model = WRAPPERS[wrapper](standardized(net)).fit(frame, given(net, 1e5 + 1e3 * y))
    dist = model.predict_dist(new)
    assert 0.85 < prediction_interval_coverage(1e5 + 1e3 * y_new, dist) < 0.97
    assert crps_loss(1e5 + 1e3 * y_new, dist) < 220


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_behind_transformations_units_do_not_matter(unit, rows):
    X, y, X_new, _ = rows
    means, stds = [], []
    for scale in (1.0, unit):
        torch.manual_seed(0)
        dist = predict_dist(standardized(our_net()).fit(X, scale * y), X_new)
        means.append(dist.mean() / scale)
        stds.append(dist.std() / scale)
    np.testing.assert_allclose(means[1], means[0], atol=1e-3)
    np.testing.assert_allclose(stds[1], stds[0], rtol=1e-3)


def test_out_of_fold_distributions(net, rows):
    X, y, _, _ = rows
    model = WRAPPERS["bootstrap"](net)
    dist = cross_val_predict_dist(model, X, given(net, y), cv=KFold(2, shuffle=True, random_state=0))
    assert len(dist) == 300
    assert 0.85 < prediction_interval_coverage(y, dist) < 0.97


def test_a_search_chooses_by_crps(net, rows):
    X, y, X_new, y_new = rows
    wrapped = BootstrapRegressor(make_pipeline(StandardScaler(), net), 3, random_state=0)
    name = f"estimator__{type(net).__name__.lower()}__lr"
    search = GridSearchCV(
        wrapped, {name: [1e-6, 0.03]}, scoring=get_scorer("neg_crps"), cv=2, error_score="raise"
    )
    search.fit(X, given(net, y))
    assert search.best_params_ == {name: 0.03}
    assert crps_loss(y_new, predict_dist(search, X_new)) < 0.22


def test_a_finished_net_is_calibrated_on_new_rows(net, rows):
    X, y, X_new, y_new = rows
    finished = FrozenEstimator(net.fit(X[:150], given(net, y[:150])))
    before = net.predict(X_new)
    model = ConformalRegressor(finished).fit(X[150:], y[150:])
    assert 0.85 < prediction_interval_coverage(y_new, model.predict_interval(X_new)) < 0.97
    np.testing.assert_array_equal(net.predict(X_new), before)


def test_a_fitted_wrapper_can_be_pickled(net, rows):
    X, y, X_new, _ = rows
    model = WRAPPERS["conformal"](net).fit(X, given(net, y))
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        np.asarray(copied.predict_dist(X_new)), np.asarray(model.predict_dist(X_new))
    )


def test_torchs_seed_is_that_of_the_user(net, rows):
    """Nets have no random_state: torch's own seed makes two fits equal."""
    X, y, X_new, _ = rows
    means = []
    for _ in range(2):
        torch.manual_seed(3)
        means.append(WRAPPERS["conformal"](clone(net)).fit(X, given(net, y)).predict(X_new))
    np.testing.assert_array_equal(means[0], means[1])


def test_a_net_without_a_distribution_raises(rows):
    X, y, X_new, _ = rows
    net = plain_net()
    assert not supports_dist(net)
    assert supports_dist(our_net())
    with pytest.raises(NotProbabilisticError, match="UncertaintyRegressor"):
        predict_dist(net.fit(X, given(net, y)), X_new)


@pytest.mark.parametrize(
    ("kind", "wrapper"),
    [
        ("skorch's", "uncertainty"),
        ("ours", "bootstrap"),
        ("skorch's", "conformal"),
        ("ours", "recalibrated"),
    ],
)
def test_intervals_hold_on_real_data(shared_data, kind, wrapper):
    data = shared_data("gal/gal_concrete").sample(frac=1.0, random_state=0).to_numpy()
    X, y, X_new, y_new = data[:600, :-1], data[:600, -1], data[600:, :-1], data[600:, -1]
    torch.manual_seed(0)
    net = NETS[kind](8)
    dist = WRAPPERS[wrapper](standardized(net)).fit(X, given(net, y)).predict_dist(X_new)
    assert 0.85 < prediction_interval_coverage(y_new, dist) < 0.97
    assert crps_loss(y_new, dist) < 0.5 * y.std()
