"""The parameter ``support`` of the networks."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq import neural
from skuq._fitting.base_regressor import BaseUncertaintyRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = RNG.poisson(np.exp(0.3 + 0.5 * X[:, 0])).astype(float)
SMALL = {"hidden_layer_sizes": (4,), "max_epochs": 3, "n_estimators": 4, "n_draws": 5, "n_snapshots": 3}
NETWORKS = [
    each
    for each in (getattr(neural, name) for name in neural.__all__)
    if inspect.isclass(each) and issubclass(each, BaseUncertaintyRegressor) and not inspect.isabstract(each)
]


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize("network", NETWORKS, ids=lambda each: each.__name__)
def test_counts(network):
    known = inspect.signature(network).parameters
    options = {name: value for name, value in SMALL.items() if name in known}
    model = network(**options, random_state=0, support="count").fit(X, Y)
    dist = model.predict_dist(X)
    bounds = dist.interval(0.9)
    assert_array_equal(bounds, np.maximum(np.round(bounds), 0.0))
    points, std = model.predict(X, return_std=True)
    assert_allclose(points, model.predict(X))
    assert points.min() >= 0.0
    assert_allclose(std, dist.std())
    with pytest.raises(ValueError, match=r"`y` must hold integers from 0 .* got 0\.5 at row 3"):
        model.fit(X, np.where(np.arange(60) == 3, 0.5, Y))
