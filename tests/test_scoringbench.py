"""The wrapper for ScoringBench, with copies of two versions of its interface: commit fc34bdc, and current."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge

from skuq.distributions import Binned, Empirical, Mixture, Normal, Quantiles, ScipyDistribution, StudentT
from skuq.prediction import predict_dist, supports_dist
from skuq.regressors import MixtureRegressor

pytestmark = pytest.mark.docs

SCRIPT = Path(__file__).parents[1] / "benchmarks/scoringbench.py"


@pytest.fixture(scope="module")
def scoringbench():
    spec = importlib.util.spec_from_file_location("skuq_scoringbench", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclasses.dataclass
class Prediction:
    """The fields that ScoringBench reads."""

    probas: np.ndarray
    bin_edges: np.ndarray
    bin_midpoints: np.ndarray
    mean: np.ndarray


@dataclasses.dataclass
class RangedPrediction(Prediction):
    """The current version, which also needs the range of the training targets."""

    train_range: tuple = dataclasses.field(kw_only=True)


class Wrapper:
    def fit(self, X, y):
        raise NotImplementedError


class RangedWrapper(Wrapper):
    def _set_train_range(self, y):
        self._y_train_range = float(np.nanmin(y)), float(np.nanmax(y))


RNG = np.random.default_rng(0)
N = 40
LOC, SCALE = RNG.normal(size=N), 0.2 + RNG.random(N)
FORECASTS = {
    "normal": Normal(LOC, SCALE),
    "heavy tails": StudentT(LOC, SCALE, 3.0),
    "skewed": ScipyDistribution(stats.gamma(2.0, loc=LOC, scale=SCALE)),
    "two modes": Mixture([Normal(LOC - 3, SCALE), Normal(LOC + 3, 0.1 * SCALE)], [0.7, 0.3]),
    "quantiles": Quantiles([0.1, 0.4, 0.5, 0.9], np.sort(RNG.normal(size=(N, 4)), axis=1)),
    "bars": Binned(np.linspace(-4, 4, 301), RNG.normal(0.0, 1.0, size=(N, 300))),
    "members": Empirical(RNG.normal(size=(N, 30))),
    "counts": ScipyDistribution(stats.poisson(np.exp(LOC))),
}


def histogram_crps(edges, probabilities, y):
    """CRPS of a histogram with uniform bins: the integral of the squared difference of the cdfs."""
    cdf = np.concatenate([np.zeros((len(y), 1)), np.cumsum(probabilities, axis=1)], axis=1)
    y = y[:, None]
    low, high = edges[:, :-1], edges[:, 1:]
    at = np.clip(y, low, high)
    width = np.where(high > low, high - low, 1.0)
    inside = cdf[:, :-1] + np.diff(cdf, axis=1) * (at - low) / width
    below = (at - low) * (cdf[:, :-1] ** 2 + cdf[:, :-1] * inside + inside**2) / 3
    rest, end = 1 - inside, 1 - cdf[:, 1:]
    above = (high - at) * (rest**2 + rest * end + end**2) / 3
    outside = np.maximum(edges[:, :1] - y, 0) + np.maximum(y - edges[:, -1:], 0)
    return (below + above).sum(axis=1) + outside[:, 0]


@pytest.mark.parametrize("name", FORECASTS)
def test_the_histogram_has_nearly_the_crps_and_the_tails_of_the_forecast(scoringbench, name):
    dist = FORECASTS[name]
    edges, probabilities = scoringbench.to_histogram(dist)
    assert edges.shape == (N, 201)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    targets = dist.sample(50, random_state=0).T
    ours = np.mean([histogram_crps(edges, probabilities, y) for y in targets])
    exact = np.mean([dist.crps(y) for y in targets])
    assert ours == pytest.approx(exact, rel=5e-3)
    cdf = np.cumsum(probabilities, axis=1)
    for k in (0, 5, 100, 195):
        edge = edges[:, k + 1]
        # At an atom, several edges are equal, and the cdf includes all of their bins.
        assert (dist.cdf(edge) >= cdf[:, k] - 1e-9).all()
        assert (dist.cdf(np.nextafter(edge, -np.inf)) <= cdf[:, k] + 1e-9).all()


@pytest.mark.parametrize(("base", "prediction"), [(Wrapper, Prediction), (RangedWrapper, RangedPrediction)])
def test_the_wrapper_has_the_interface(scoringbench, base, prediction):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    estimator = BayesianRidge()
    model = scoringbench.wrapper_class(base, prediction)(estimator)
    assert model.fit(X[:300], y[:300]) is model
    forecast = model.predict_distribution(X[300:])
    dist = predict_dist(estimator, X[300:])
    np.testing.assert_array_equal(forecast.mean, dist.mean())
    np.testing.assert_array_equal(model.predict(X[300:]), dist.mean())
    assert forecast.probas.shape == (142, 200)
    assert forecast.bin_edges.shape == (142, 201)
    assert (np.diff(forecast.bin_edges, axis=1) > 0).all()
    np.testing.assert_allclose((forecast.probas * forecast.bin_midpoints).sum(axis=1), dist.mean(), rtol=1e-4)
    if prediction is RangedPrediction:
        assert forecast.train_range == (y[:300].min(), y[:300].max())


def test_entries_have_versioned_names(scoringbench):
    assert all("_v0_" in name for name in scoringbench.ENTRIES)
    pool = next(iter(scoringbench.ENTRIES.values()))()
    assert isinstance(pool, MixtureRegressor)
    assert supports_dist(pool)
