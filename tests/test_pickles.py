"""Fitted estimators on disk: by pickle, joblib and skops, with the version that wrote them."""

import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.pipeline import make_pipeline

from skuq import RecalibratedRegressor, UncertaintyRegressor, _compat
from skuq.conformal import ConformalRecalibrator, ConformalRegressor
from skuq.exceptions import InconsistentVersionWarning
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import BootstrapRegressor, ForestDistributionRegressor, LeastSquaresRegressor

X, Y = (part[:120] for part in load_diabetes(return_X_y=True))
MODELS = {
    "uncertainty": UncertaintyRegressor(Ridge(), random_state=0),
    "bootstrap": BootstrapRegressor(Ridge(), n_estimators=10, random_state=0),
    "forest": ForestDistributionRegressor(RandomForestRegressor(20), random_state=0),
    "conformal": ConformalRegressor(Ridge(), random_state=0),
    "recalibrated": RecalibratedRegressor(BayesianRidge(), IsotonicRecalibrator()),
    "pipeline": make_pipeline(LeastSquaresRegressor(), StdScalingRecalibrator(), ConformalRecalibrator()),
}


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def by_skops(model):
    safe = pytest.importorskip("skops.io")
    data = safe.dumps(model)
    return safe.loads(data, trusted=safe.get_untrusted_types(data=data))


@pytest.fixture(scope="module")
def fitted():
    return {name: model.fit(X, Y) for name, model in MODELS.items()}


@pytest.mark.parametrize("copy", [by_pickle, by_joblib, pytest.param(by_skops, marks=pytest.mark.laws)])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_loaded_predicts_the_same_to_the_bit(fitted, name, copy):
    model, loaded = fitted[name], copy(fitted[name])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    for coverage in (0.5, 0.9):
        expected = model.predict_interval(X, coverage) if hasattr(model, "predict_interval") else None
        if expected is not None:
            np.testing.assert_array_equal(loaded.predict_interval(X, coverage), expected)
    assert "_skuq_version" not in vars(loaded)


def test_another_version_warns_where_the_user_loads(fitted, monkeypatch):
    data = pickle.dumps(fitted["uncertainty"])
    monkeypatch.setattr(_compat, "__version__", "9.9.9")
    with pytest.warns(
        InconsistentVersionWarning, match="pickled by skuq 0.1.0 and is loaded by skuq 9.9.9"
    ) as caught:
        loaded = pickle.loads(data)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(loaded.predict(X), fitted["uncertainty"].predict(X))


@pytest.mark.laws  # it imports torch
def test_the_skorch_net_carries_the_version_too(monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("skorch")
    from skuq.neural import ProbabilisticNet

    net = ProbabilisticNet(torch.nn.Linear(X.shape[1], 2), max_epochs=2, verbose=0).fit(X, Y)
    data = pickle.dumps(net)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = pickle.loads(data)
    np.testing.assert_array_equal(loaded.predict(X), net.predict(X))
    assert "_skuq_version" not in vars(loaded)
    monkeypatch.setattr(_compat, "__version__", "9.9.9")
    with pytest.warns(
        InconsistentVersionWarning, match="ProbabilisticNet was pickled by skuq 0.1.0"
    ) as caught:
        pickle.loads(data)
    assert caught[0].filename == __file__


def test_a_pickle_without_a_version_warns():
    model = StdScalingRecalibrator()
    state = {name: value for name, value in model.__getstate__().items() if name != "_skuq_version"}
    with pytest.warns(InconsistentVersionWarning, match="of an unknown version"):
        StdScalingRecalibrator().__setstate__(state)


def test_the_same_version_does_not_warn(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_pickle(fitted["pipeline"])
