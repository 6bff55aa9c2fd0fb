"""Rules of foundation models against fakes; `tests/foundation` runs the packages."""

import gc
import sys
import types
import weakref

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.conformal import ConformalRegressor
from skuq.distributions import Binned, Normal
from skuq.exceptions import NonFinitePredictionError
from skuq.prediction import predict_dist, register
from skuq.prediction._adapters import join_empty_bins
from skuq.prediction._resolve import learns_in_context
from skuq.regressors import MixtureRegressor, RecalibratedRegressor, UncertaintyRegressor
from skuq.regressors._methods import methods_for


class Tensor:
    def __init__(self, values):
        self.values = np.asarray(values)

    def detach(self):
        return self

    cpu = double = detach

    def numpy(self):
        return self.values.astype(float)


class TabPFNRegressor(RegressorMixin, BaseEstimator):
    """The interface of TabPFN: bars in the units of y and the logarithms of their weights."""

    def __init__(
        self, logits=(0.0, -np.inf, 0.0, 0.0), borders=(0.0, 1.0, 2.0, 3.0, 4.0), tuning_config=None
    ):
        self.logits = logits
        self.borders = borders
        self.tuning_config = tuning_config

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X, output_type="mean"):
        assert output_type == "full"
        bars = types.SimpleNamespace(borders=Tensor(self.borders), halfnormal_with_p_weight_before=None)
        return {"criterion": bars, "logits": Tensor(np.tile(self.logits, (len(X), 1)))}


TabPFNRegressor.__module__ = "tabpfn"

X, Y = np.random.default_rng(0).normal(size=(40, 2)), np.random.default_rng(1).normal(size=40)


def test_bars_become_a_histogram():
    dist = predict_dist(TabPFNRegressor().fit(X, Y), X[:3])
    assert isinstance(dist, Binned)
    assert dist.tails
    np.testing.assert_allclose(dist.cdf(1.0), 1 / 3)
    np.testing.assert_allclose(dist.cdf(2.0), 1 / 3)
    with pytest.raises(NonFinitePredictionError, match="TabPFNRegressor"):
        predict_dist(TabPFNRegressor(logits=(0.0, np.nan, 0.0, 0.0)).fit(X, Y), X[:3])


def test_edges_that_are_equal_in_single_precision_are_joined():
    dist = predict_dist(TabPFNRegressor(borders=(0.0, 0.0, 1.0, 1.0, 2.0)).fit(X, Y), X[:1])
    np.testing.assert_array_equal(dist.edges, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(dist.cdf(1.0), 1 / 3)
    edges, weights = join_empty_bins(np.array([0.0, 1.0, 1.0]), np.log([[0.25, 0.75]]))
    np.testing.assert_array_equal(edges, [0.0, 1.0])
    np.testing.assert_allclose(weights, 0.0, atol=1e-15)
    dist = predict_dist(TabPFNRegressor(borders=(1e9,) * 5).fit(X, Y), X[:2])  # one narrow bin
    np.testing.assert_allclose(dist.mean(), 1e9)
    assert ((dist.std() > 0) & (dist.std() < 100)).all()
    assert (predict_dist(TabPFNRegressor(borders=(0.0,) * 5).fit(X, Y), X[:2]).std() < 1e-30).all()


@pytest.mark.parametrize("make", [dict, types.SimpleNamespace])
def test_a_temperature_that_tabpfn_calibrates_is_not_calibrated_again(make):
    for on, method in ((True, "native"), (False, "recalibrated")):
        model = TabPFNRegressor(tuning_config=make(calibrate_temperature=on))
        for estimator in (model, make_pipeline(StandardScaler(), model)):
            assert methods_for(estimator, random_folds=True)[0] == method


# ------------------------------------------------------------------------------ in-context learning


class Context(RegressorMixin, BaseEstimator):
    """A registered model that learns in context, and a count of its predictions."""

    def fit(self, X, y):
        self.loc_, self.scale_ = float(np.mean(y)), float(np.std(y))
        FITTED.append(weakref.ref(self))
        return self

    def predict(self, X):
        return np.full(len(X), self.loc_)


FITTED, PREDICTED = [], []


def _context_dist(estimator, X):
    PREDICTED.append(len(X))
    return Normal(np.full(len(X), estimator.loc_), estimator.scale_)


register(f"{__name__}.Context", _context_dist, in_context=True)


@pytest.fixture
def cuda(monkeypatch):
    """A torch with a GPU, which counts the calls that free its memory."""
    calls = []
    cuda = types.SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, empty_cache=lambda: calls.append(len(FITTED))
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    return calls


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: RecalibratedRegressor(model, cv=4),
        lambda model: UncertaintyRegressor(model, cv=4),
        lambda model: MixtureRegressor([("one", model)], cv=4),
    ],
)
def test_folds_predict_only_their_test_rows_and_free_the_memory(wrap, cuda):
    FITTED.clear()
    PREDICTED.clear()
    gc.freeze()  # collections, of which there are many, then pass over the objects of other tests
    estimator = make_pipeline(StandardScaler(), Context())
    assert learns_in_context(estimator)
    model = wrap(estimator).fit(X, Y)
    assert PREDICTED == [10] * 4
    assert cuda == [1, 2, 3, 4]
    gc.collect()
    assert [ref() is not None for ref in FITTED] == [False] * 4 + [True]
    assert model.predict_dist(X[:3]).std().shape == (3,)
    gc.unfreeze()


def test_models_of_an_ensemble_are_kept(cuda):
    model = RecalibratedRegressor(Context(), cv=4, ensemble=True).fit(X, Y)
    assert len(model.estimators_) == 4
    assert not cuda
    assert not learns_in_context(UncertaintyRegressor(Context()))


class Bars(Context):
    """A registered model that predicts the same bars for all rows. Its forecasts are too narrow."""

    def __init__(self, n_bins=40):
        self.n_bins = n_bins


def _bars_dist(estimator, X):
    PREDICTED.append(len(X))
    z = np.linspace(-4.0, 4.0, estimator.n_bins + 1)
    edges = estimator.loc_ + 0.4 * estimator.scale_ * z
    return Binned(edges, np.tile(-0.5 * ((z[1:] + z[:-1]) / 2) ** 2, (len(X), 1)))


register(f"{__name__}.Bars", _bars_dist, in_context=True)


@pytest.mark.parametrize("n_bins", [40, 1000])
@pytest.mark.parametrize("symmetric", [True, False])
def test_conformal_levels_of_bars_have_their_coverage(n_bins, symmetric):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    PREDICTED.clear()
    model = ConformalRegressor(Bars(n_bins), "pit", symmetric=symmetric, random_state=0).fit(X, y)
    assert PREDICTED == [100]
    lower, upper = model.predict_interval(X[:1], 0.9)[0]
    # All forecasts are equal, so the bounds are at least the order statistics of the calibration targets.
    calibration = y[model.calibration_rows_]
    if symmetric:
        assert ((calibration >= lower) & (calibration <= upper)).sum() >= np.ceil(0.9 * 101)
    else:
        assert (calibration >= lower).sum() >= np.ceil(0.95 * 101)
        assert (calibration <= upper).sum() >= np.ceil(0.95 * 101)
    dist = model.predict_dist(X[:5])
    assert np.isfinite(dist.crps(y[:5])).all()
    inner = dist.interval(0.9)[0]
    assert lower <= inner[0] < inner[1] <= upper


class TabICLRegressor(RegressorMixin, BaseEstimator):
    """A model whose fit raises an error of the package."""

    def __init__(self, error=None):
        self.error = error

    def fit(self, X, y):
        raise self.error


TabICLRegressor.__module__ = "tabicl"


def test_errors_of_foundation_models_name_a_remedy(subtests):
    for error, note in (
        (OSError("Please check your connection"), "weights of TabICLRegressor are neither in the cache"),
        (RuntimeError("Failed to download the model"), "pass its path: TabICLRegressor(model_path=...)"),
        (ValueError("`12,000` is greater than the maximum number"), "this fit has 20 rows and 2 columns"),
        (ValueError("another reason"), None),
    ):
        model = UncertaintyRegressor(make_pipeline(StandardScaler(), TabICLRegressor(error)), cv=2)
        with subtests.test(note):
            with pytest.raises(type(error)) as caught:
                model.fit(X, Y)
            found = "\n".join(caught.value.__notes__)
            assert "Raised in fold 1 of 2" in found
            assert found.count(note or "The weights") == (note is not None)
            assert ("too large" in found) == (note is not None and "rows" in note)
