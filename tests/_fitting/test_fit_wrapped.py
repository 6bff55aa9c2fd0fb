"""Networks of users: the target reaches them as it was given, and what cannot be learned raises."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq._fitting.fit_wrapped import fit_wrapped, wraps_skorch
from skuq.conformal import ConformalRegressor, CrossConformalRegressor
from skuq.model_selection import cross_val_predict_dist
from skuq.prediction._register import child_of
from skuq.regressors import BootstrapRegressor, RecalibratedRegressor, UncertaintyRegressor


def test_scikit_learns_estimators_are_no_networks():
    assert not wraps_skorch(None)
    assert not wraps_skorch(make_pipeline(StandardScaler(), LinearRegression()))
    assert not wraps_skorch(BaggingRegressor())
    assert not wraps_skorch(GridSearchCV(RandomForestRegressor(), {}))
    assert child_of(GridSearchCV(RandomForestRegressor(), {})).n_estimators == 100
    assert child_of(TransformedTargetRegressor(RandomForestRegressor())).n_estimators == 100


def test_other_estimators_get_one_dimension_and_the_warning_stays():
    X, y = np.arange(40.0).reshape(-1, 1), np.arange(0.5, 40).reshape(-1, 1) ** 2
    with pytest.warns(DataConversionWarning, match="column-vector"):
        UncertaintyRegressor(RandomForestRegressor(5, random_state=0), random_state=0).fit(X, y)


def test_other_warnings_of_a_fit_pass():
    class Loud(LinearRegression):
        def fit(self, X, y):
            warnings.warn("something else", UserWarning, stacklevel=2)
            return super().fit(X, y)

    with pytest.warns(UserWarning, match="something else"):
        fit_wrapped(Loud(), [[0.0], [1.0]], [0.0, 1.0])


torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")


def network(*, flat, **params):
    layers = [torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)]
    if flat:
        layers.append(torch.nn.Flatten(0))
    torch.manual_seed(0)
    return skorch.NeuralNetRegressor(
        torch.nn.Sequential(*layers),
        optimizer=torch.optim.Adam,
        max_epochs=20,
        lr=0.05,
        batch_size=30,
        train_split=None,
        verbose=0,
        **params,
    )


@pytest.fixture(scope="module")
def wave():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.5, 1.5, (90, 2)).astype(np.float32)
    y = (np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(90, 1))).astype(np.float32)
    network(flat=False).fit(X[:30], y[:30])  # the first training of a process takes longest
    return X, y


def uncertainty(net, method="bootstrap", **params):
    return UncertaintyRegressor(net, method, method_params=params, cv=2, random_state=0)


WRAPPERS = {
    "residual": lambda net: uncertainty(net, "residual"),
    "bootstrap": lambda net: uncertainty(net, n_estimators=3),
    "bootstrap, noise that varies": lambda net: uncertainty(net, n_estimators=4, noise="heteroscedastic"),
    "residual, center model": lambda net: uncertainty(net, "residual", center="model"),
    "recalibrated": lambda net: RecalibratedRegressor(uncertainty(net, n_estimators=3), cv=2, random_state=0),
    "split conformal": lambda net: ConformalRegressor(net, random_state=0),
    "cv+": lambda net: CrossConformalRegressor(net, random_state=0),
    "pipeline": lambda net: uncertainty(make_pipeline(StandardScaler(), net), "residual"),
    "search": lambda net: uncertainty(GridSearchCV(net, {"lr": [0.05]}, cv=2), n_estimators=3),
}


COMPOSED = ("bootstrap, noise that varies", "residual, center model", "recalibrated", "pipeline", "search")


# A column is the target that a wrapper could flatten.
@pytest.mark.parametrize(
    ("wrapper", "flat"),
    [
        *((wrapper, False) for wrapper in ("residual", "bootstrap", "split conformal", "cv+")),
        *(pytest.param(wrapper, False, marks=pytest.mark.laws) for wrapper in COMPOSED),
        *(
            pytest.param(wrapper, True, marks=pytest.mark.laws)
            for wrapper in ("residual", "bootstrap", "cv+")
        ),
    ],
)
def test_a_network_learns_what_it_learns_alone(wrapper, flat, wave):
    X, y = wave
    model, y_given = WRAPPERS[wrapper](network(flat=flat)), y[:, 0] if flat else y
    if wrapper == "residual":
        assert r2_score(y, cross_val_predict_dist(model, X, y_given, cv=2).mean()) > 0.7
        assert r2_score(y, model.fit_transform(X, y_given).mean()) > 0.7
    model.fit(X, y_given)
    assert r2_score(y, model.predict(X)) > 0.7
    bounds = model.predict_interval(X)
    assert np.mean((y[:, 0] >= bounds[:, 0]) & (y[:, 0] <= bounds[:, 1])) > 0.8


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("flat", [False, True], ids=["column", "flat"])
@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:.*fits failed")
def test_targets_of_another_shape_than_the_outputs_raise(wrapper, flat, wave):
    """Torch would compare each output with every target and only warn (as in Wibbeke et al. 2025)."""
    X, y = wave
    with pytest.raises(
        ValueError, match=r"must have the same shape as the outputs of the network|fits failed"
    ):
        WRAPPERS[wrapper](network(flat=flat)).fit(X, y if flat else y[:, 0])


@pytest.mark.parametrize("flat", [False, True])
def test_a_transformed_target_keeps_its_shape(flat, wave):
    X, y = wave
    logarithm = TransformedTargetRegressor(
        network(flat=flat), func=np.log1p, inverse_func=np.expm1, check_inverse=False
    )
    model = uncertainty(logarithm, n_estimators=4).fit(X, y[:, 0] + 2 if flat else y + 2)
    assert r2_score(y + 2, model.predict(X)) > 0.7


def test_containers_that_flatten_the_target_raise(wave):
    X, y = wave
    bags = BaggingRegressor(network(flat=False), n_estimators=2)
    with (
        pytest.warns(DataConversionWarning, match="column-vector"),
        pytest.raises(ValueError, match="must have the same shape as the outputs of the network"),
    ):
        BootstrapRegressor(bags).fit(X, y)
