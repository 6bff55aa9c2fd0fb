"""Conformal p-values over time: rare false alarms, and changes of the errors found soon."""

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skuq.monitoring import ExchangeabilityMonitor, PITMonitor
from skuq.regressors import ConformalRegressor


def fitted(n=200, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    y = X[:, 0] + rng.normal(size=n)
    model = FrozenEstimator(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]))
    return ConformalRegressor(model, **options).fit(X, y), rng


def stream(rng, n, scale=1.0):
    X = rng.normal(size=(n, 1))
    return X, X[:, 0] + scale * rng.normal(size=n)


def test_p_values_are_randomized_ranks_among_all_earlier_rows():
    model, rng = fitted(20)
    X, y = stream(rng, 15)
    p = model.predict_p(X, y, random_state=0)
    uniform = np.random.RandomState(0).random_sample(15)
    past = list(model._conformal._calibration().calibration_set.scores[0])
    for row, score in enumerate(np.abs(y - X[:, 0])):
        larger = sum(s > score for s in past)
        assert p[row] == pytest.approx((larger + uniform[row]) / (len(past) + 1), abs=1e-12)
        past.append(score)


@pytest.mark.parametrize("ties", [False, True])
def test_p_values_are_uniform_and_independent(ties):
    p = []
    for seed in range(60):
        model, rng = fitted(30, seed)
        X, y = stream(rng, 40)
        if ties:
            model = ConformalRegressor(model.estimator).fit(*(np.round(a) for a in stream(rng, 30)))
            X, y = np.round(X), np.round(y)
        p.append(model.predict_p(X, y, random_state=seed))
    p = np.array(p)
    assert stats.kstest(p.ravel(), "uniform").pvalue > 0.01
    assert abs(np.corrcoef(p[:, :-1].ravel(), p[:, 1:].ravel())[0, 1]) < 0.08


def test_blocks_with_partial_fit_equal_one_block():
    model, rng = fitted()
    X, y = stream(rng, 60)
    together = model.predict_p(X, y, random_state=np.random.RandomState(0))
    state, blocks = np.random.RandomState(0), []
    for rows in (slice(0, 25), slice(25, 60)):
        blocks.append(model.predict_p(X[rows], y[rows], random_state=state))
        model.partial_fit(X[rows], y[rows])
    assert np.concatenate(blocks) == pytest.approx(together, abs=1e-12)


def test_groups_are_ranked_separately():
    model, rng = fitted(400, group_by=lambda X: X[:, 0] > 0)
    X, y = stream(rng, 50)
    p = model.predict_p(X, y, random_state=0)
    alone, _ = fitted(400)
    assert not np.allclose(p, alone.predict_p(X, y, random_state=0))
    assert 0 <= p.min() <= p.max() <= 1


def test_false_alarms_are_as_rare_as_stated():
    alarms = 0
    for seed in range(100):
        model, rng = fitted(200, seed)
        p = model.predict_p(*stream(rng, 500), random_state=seed)
        alarms += ExchangeabilityMonitor(false_alarm=0.05).update(p).alarm_
    assert alarms <= 8


@pytest.mark.parametrize(("scale", "most"), [(1.5, 300), (0.6, 300)])
def test_larger_and_smaller_errors_are_found(scale, most):
    found = []
    for seed in range(20):
        model, rng = fitted(1000, seed)
        p = model.predict_p(*stream(rng, 600, scale), random_state=seed)
        found.append(ExchangeabilityMonitor().update(p).alarm_row_ or np.inf)
    assert np.median(found) < most


def test_the_bets_are_those_of_the_pit_monitor():
    p = np.random.default_rng(0).beta(0.8, 1, size=700)
    monitor = ExchangeabilityMonitor()
    for block in np.split(p, [1, 300]):
        monitor.update(block)
    expected = PITMonitor().update(stats.norm.ppf(p), (np.zeros(700), np.ones(700)))
    assert monitor.e_value_ == pytest.approx(expected.e_value_, rel=1e-6)
    assert monitor.n_rows_ == 700
    assert pickle.loads(pickle.dumps(monitor)).e_value_ == monitor.e_value_
    assert repr(monitor).startswith("ExchangeabilityMonitor(700 rows")


def test_ends_and_bad_input():
    assert ExchangeabilityMonitor().update([0.0]).alarm_
    assert ExchangeabilityMonitor().update([]).n_rows_ == 0
    with pytest.raises(ValueError, match="`p_values` must"):
        ExchangeabilityMonitor().update([0.5, 1.5])
    with pytest.raises(ValueError, match="`p_values` must be 1-D"):
        ExchangeabilityMonitor().update([[0.5]])
    with pytest.raises(ValueError, match="false_alarm"):
        ExchangeabilityMonitor(false_alarm=0)
    model, rng = fitted(density_ratio=lambda X: np.ones(len(X)))
    with pytest.raises(ValueError, match="`density_ratio` must be None with `predict_p`"):
        model.predict_p(*stream(rng, 5))
    X, y = stream(rng, 50)
    weighted = ConformalRegressor(model.estimator).fit(X, y, sample_weight=np.full(50, 2.0))
    with pytest.raises(ValueError, match="without `sample_weight`"):
        weighted.predict_p(X, y)
