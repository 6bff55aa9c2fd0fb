"""Adaptation by name: the loop of the paper, the coverage after a shift, and electricity prices."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.preprocessing import StandardScaler

from skuq.conformal import ConformalRegressor
from skuq.conformal._adaptive import SequenceConformal
from skuq.conformal._base import WeightedRows
from tests.conformal.test_adaptive import level_of, observed, start
from tests.regressors.worlds import linear_world

pytestmark = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")


def series(n, seed=5):
    """Rows whose noise doubles in the second half."""
    X, y = linear_world(n, seed)
    truth = y + np.where(np.arange(n) > n // 2, 2.0, 0.0) * np.random.default_rng(seed).normal(size=n)
    return X, truth


# ------------------------------------------------------------------- loop of the paper


def weighted(weights, losses, squares):
    """One step of the weights of Gibbs and Candès 2024, with I = 500."""
    squares.append(sum(w * loss**2 for w, loss in zip(weights, losses, strict=True)))
    mean = np.mean(squares[-500:])
    eta = np.sqrt((np.log(2 * len(losses) * 500) + 1) / (500 * mean))
    new = [w * np.exp(-eta * loss) for w, loss in zip(weights, losses, strict=True)]
    share = 1 / 1000
    return [((1 - share) * w + share * sum(new) / len(new)) / sum(new) for w in new]


def dtaci_loop(scores, past, alpha):
    """Return the target miscoverage of every step by a loop over rows, and by sorting at each step."""
    gammas = [0.001 * 2**k for k in range(8)]
    levels, weights, squares, targets = [alpha] * 8, [1 / 8] * 8, [], []
    for score in scores:
        targets.append(sum(w * a for w, a in zip(weights, levels, strict=True)))
        beta = 1 - sum(s < score for s in past) / (len(past) + 1)
        losses = [alpha * (beta - a) - min(0, beta - a) for a in levels]
        weights = weighted(weights, losses, squares)
        levels = [a + g * (alpha - (a >= beta - 1e-11)) for a, g in zip(levels, gammas, strict=True)]
        past.append(score)
    return targets


def scores_of(models, X, y):
    return np.abs(y - models["split"].predict(X)).tolist()


@pytest.mark.parametrize("coverage", [0.8, pytest.param(0.9, marks=pytest.mark.laws)])
def test_dtaci_equals_the_loop_of_the_paper(models, coverage):
    X, y = series(700)
    regressor = start(models, adapt="dtaci")
    wanted = dtaci_loop(scores_of(models, X, y), scores_of(models, *linear_world(100, seed=2)), 1 - coverage)
    for t, target in enumerate(wanted):
        assert abs(level_of(regressor, coverage) - target) < 1e-12
        regressor.partial_fit(X[[t]], y[[t]])
    assert np.ptp(wanted) > 0.02


# ------------------------------------------------------------------- a shift, bad input


def autoregressive(seed, n=2700):
    """AR(1) with phi .3, then .9 from step 700 on; standard deviation 1, 2 (steps 1400 to 1900), 1."""
    rng = np.random.default_rng(seed)
    y = np.zeros(n)
    for t in range(1, n):
        phi, std = (0.3 if t < 700 else 0.9), (2.0 if 1400 <= t < 1900 else 1.0)
        y[t] = phi * y[t - 1] + std * rng.normal()
    return y[:-1, np.newaxis], y[1:]


def halves(regressor, points, y):
    """Return half of the length of the interval of each row. The rows are observed one by one."""
    sequence, found = SequenceConformal(regressor._conformal, *regressor._adaptation), []
    for point, value in zip(points, y, strict=True):
        level = max(1 - sequence.miscoverage(0.9), 0.0)
        found.append(sequence._calibration().ranked.quantile(WeightedRows(1, np.ones(())), level)[0, 0])
        sequence.add(observed(np.array([point]), [value]))
    return np.array(found)


@pytest.mark.laws
def test_coverage_after_a_shift():
    """A fixed split has a coverage of .68, and 60 steps below .20."""
    hits = []
    for seed in range(3):
        X, y = autoregressive(seed)
        model = FrozenEstimator(LinearRegression().fit(X[:300], y[:300]))
        regressor = ConformalRegressor(model, adapt="dtaci").fit(X[300:600], y[300:600])
        points = regressor.predict(X)
        inside = np.abs(y - points)[600:] <= halves(regressor, points[600:], y[600:])
        hits.append(inside)
    assert 0.88 <= np.mean(hits) <= 0.92
    rolling = np.convolve(np.mean(hits, axis=0), np.ones(60) / 60, mode="valid")
    assert rolling.min() >= 0.7


def test_options_that_a_method_does_not_use_raise(models, subtests):
    for params, words in (
        ({"adapt": "aci2"}, "`adapt` must be"),
        ({"adapt": "dtaci", "gamma": 0.1}, "`gamma` must be 0.005 with adapt='dtaci'"),
        ({"gamma": -0.1}, "non-negative"),
    ):
        with subtests.test(words), pytest.raises(ValueError, match=words):
            start(models, **params)


# ------------------------------------------------------------------- electricity prices


def prices(shared_data, hour):
    """Return X, y, the row of mid 2017 and the row of 2019."""
    data = shared_data("other/zaffran2022_prices").query("hour == @hour")
    first, last = (int((data["Date"] < date).sum()) for date in ("2017-07-01", "2019-01-01"))
    X, y = data.drop(columns=["Date", "Spot", "hour"]), data["Spot"]
    return X.to_numpy(np.float32), y.to_numpy(), first, last


@pytest.mark.laws
def test_published_intervals_of_prices(shared_data):
    """The centers of the published intervals are the forecasts of 2019.

    Zaffran et al. 2022 calibrated each day on other rows, so the widths are similar but not equal.
    """
    X, y, first, last = prices(shared_data, 0)
    published = shared_data("other/zaffran2022_aci_reference").to_numpy()
    points = RandomForestRegressor(50, max_features=6, random_state=0).fit(X[:first], y[:first]).predict(X)
    points[last:] = published.mean(axis=1)
    rows = points[:, np.newaxis]
    model = FrozenEstimator(LinearRegression().fit(rows, points))
    regressor = ConformalRegressor(model, gamma=0.04).fit(rows[first:last], y[first:last])
    bounds = []
    for t in range(last, len(y)):
        bounds.append(regressor.predict_interval(rows[[t]])[0])
        regressor.partial_fit(rows[[t]], y[[t]])
    bounds, y = np.array(bounds), y[last:]
    for each in (published, bounds):
        assert np.mean((each[:, 0] <= y) & (y <= each[:, 1])) == pytest.approx(0.896, abs=0.003)
        assert np.isfinite(each).all()
    assert np.median(np.diff(published)) == pytest.approx(12.24, abs=0.01)
    assert np.median(np.diff(bounds)) == pytest.approx(12.24, rel=0.05)
    assert np.corrcoef(np.diff(bounds)[:, 0], np.diff(published)[:, 0])[0, 1] > 0.8


@pytest.mark.laws
def test_a_frozen_model_may_be_fitted_again(shared_data):
    """The calibration continues, and the next rows are predicted by the new model."""
    X, y, first, last = prices(shared_data, 0)
    X = StandardScaler().fit(X[:first]).transform(X).astype(float)
    model = Ridge(10).fit(X[:first], y[:first])
    regressor = ConformalRegressor(FrozenEstimator(model), adapt="dtaci").fit(X[first:last], y[first:last])
    inside = []
    for t in range(last, len(y)):
        low, high = regressor.predict_interval(X[[t]])[0]
        inside.append(low <= y[t] <= high)
        regressor.partial_fit(X[[t]], y[[t]])
        if t % 7 == 0:
            model.fit(X[t - first : t + 1], y[t - first : t + 1])
            assert regressor.predict_interval(X[[t]]).mean() == pytest.approx(model.predict(X[[t]])[0])
    assert 0.87 <= np.mean(inside) <= 0.94
    assert regressor.n_calibration_ == len(y) - first


@pytest.mark.slow
def test_prices_of_2019(shared_data):
    """The coverage at 24 hours, and the interval score compared with the best fixed step."""
    options = [{"gamma": gamma} for gamma in (0.005, 0.01, 0.02)]
    options.append({"adapt": "dtaci"})
    half, scores = np.empty((2, len(options), 0))
    for hour in range(24):
        X, y, first, last = prices(shared_data, hour)
        forest = RandomForestRegressor(50, max_features=0.33, random_state=0).fit(X[:first], y[:first])
        points, model = forest.predict(X), FrozenEstimator(forest)
        fitted = [ConformalRegressor(model, **each).fit(X[first:last], y[first:last]) for each in options]
        half = np.c_[half, [halves(regressor, points[last:], y[last:]) for regressor in fitted]]
        scores = np.c_[scores, np.tile(np.abs(y - points)[last:], (len(options), 1))]
    interval_score = np.mean(2 * half + 20 * np.maximum(scores - half, 0), axis=1)
    coverage = np.mean(scores <= half, axis=1)[3:]
    assert ((coverage >= 0.89) & (coverage <= 0.92)).all()
    assert (interval_score[3:] <= 1.01 * interval_score[:3].min()).all()
