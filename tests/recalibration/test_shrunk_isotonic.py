"""ShrunkIsotonicRecalibrator: gains, shrinkage, and no loss for calibrated forecasts."""

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import Normal
from skuq.metrics import crps_loss
from skuq.recalibration import IsotonicRecalibrator, ShrunkIsotonicRecalibrator
from tests.few_rows import few_rows


def rows(n, factor=1.0, bias=0.0, seed=0):
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    return Normal(loc + bias * scale, factor * scale), rng.normal(loc, scale)


def test_calibrated_forecasts_hardly_change():
    weights = [ShrunkIsotonicRecalibrator().fit(*rows(400, seed=seed)).map_weight_ for seed in range(10)]
    assert np.mean(np.array(weights) == 0) >= 0.7
    assert max(weights) < 0.5


def test_without_a_gain_the_forecast_itself_is_returned():
    dist, y = rows(400)
    recalibrator = ShrunkIsotonicRecalibrator().fit(dist, y)
    assert recalibrator.map_weight_ == 0
    assert recalibrator.transform(dist) is dist
    np.testing.assert_allclose(recalibrator.level_map_(np.array([0.1, 0.7])), [0.1, 0.7])


@pytest.mark.parametrize(("factor", "bias"), [(0.6, 0.0), (1.8, 0.0), (1.0, 0.6)])
def test_miscalibrated_forecasts_are_nearly_fully_recalibrated(factor, bias):
    dist, y = rows(500, factor, bias)
    new, y_new = rows(4000, factor, bias, seed=1)
    shrunk, full = (
        each.fit(dist, y).transform(new)
        for each in (ShrunkIsotonicRecalibrator(), IsotonicRecalibrator(smooth=True))
    )
    gain = crps_loss(y_new, new) - crps_loss(y_new, full)
    assert gain > 0
    assert crps_loss(y_new, new) - crps_loss(y_new, shrunk) > 0.85 * gain
    before, after = (stats.kstest(each.cdf(y_new), "uniform").statistic for each in (new, shrunk))
    assert after < 0.4 * before


def test_a_map_that_improves_the_pit_but_not_the_crps_is_not_used():
    # Half of the rows are too narrow. The other half is calibrated and wide, and one map widens all rows.
    rng = np.random.default_rng(0)
    narrow = np.arange(1000) % 2 == 0
    truth = np.where(narrow, 0.02, 1.0)
    dist, y = Normal(np.zeros(1000), np.where(narrow, 0.002, 1.0)), rng.normal(0.0, truth)
    full = IsotonicRecalibrator(smooth=True).fit(dist, y).transform(dist)
    assert crps_loss(y, full) > 1.5 * crps_loss(y, dist)
    shrunk = ShrunkIsotonicRecalibrator().fit(dist, y).transform(dist)
    assert crps_loss(y, shrunk) <= 1.002 * crps_loss(y, dist)


def test_weights_are_repetitions_in_the_same_fold():
    dist, y = rows(120, 1.5)
    times = np.random.default_rng(0).integers(0, 4, size=120)
    repeated = np.repeat(np.arange(120), times)
    weighted = ShrunkIsotonicRecalibrator().fit(dist, y, sample_weight=times)
    plain = ShrunkIsotonicRecalibrator().fit(dist[repeated], y[repeated])
    assert weighted.map_weight_ == pytest.approx(plain.map_weight_, rel=1e-9)


@few_rows
def test_few_rows_give_no_evidence():
    for n in (1, 2, 5, 15):
        assert ShrunkIsotonicRecalibrator().fit(*rows(n)).map_weight_ == 0


def test_bad_folds_are_named():
    for cv in (1, 2.5, None):
        with pytest.raises((TypeError, ValueError), match=r"`cv` must be (an integer|at least 2)"):
            ShrunkIsotonicRecalibrator(cv=cv).fit(*rows(50))
