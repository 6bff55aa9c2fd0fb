"""Pinball loss and interval score against peers, identities and the reference values."""

import numpy as np
import pytest
from sklearn.metrics import mean_pinball_loss

from skuq.distributions import Empirical, LevelMap, Normal, Quantiles, Recalibrated, StudentT
from skuq.metrics import interval_score_loss, pinball_loss

PERCENT = np.arange(1, 100) / 100


# --------------------------------------------------------------------------------------- pinball


def test_pinball_equals_scikit_learn_at_one_level(forecast):
    y, dist = forecast
    weight = np.random.default_rng(0).random(y.size)
    for level in (0.05, 0.5, 0.9):
        expected = mean_pinball_loss(y, dist.quantile(level), alpha=level, sample_weight=weight)
        assert pinball_loss(y, dist, levels=level, sample_weight=weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["normal", "student", "quantiles", "recalibrated", "empirical"])
def test_pinball_over_many_levels_is_the_mean_over_single_ones(forecast, family, weighted):
    y, dist = forecast
    dist = {
        "normal": lambda: dist,
        "student": lambda: StudentT(dist.loc, dist.scale, df=3.0),
        "quantiles": lambda: Quantiles([0.1, 0.5, 0.9], dist.quantile([0.1, 0.5, 0.9])),
        "recalibrated": lambda: Recalibrated(dist, LevelMap([0, 0.3, 1], [0, 0.5, 1])),
        "empirical": lambda: Empirical(dist.sample(9, random_state=0)),
    }[family]()
    weight = np.random.default_rng(0).random(y.size) if weighted else None
    levels = np.array([0.9, 0.02, 0.5, 0.31, 0.77, 0.5])
    each = [pinball_loss(y, dist, levels=p, sample_weight=weight) for p in levels]
    assert pinball_loss(y, dist, levels=levels, sample_weight=weight) == pytest.approx(
        np.mean(each), rel=1e-12
    )


def test_integer_levels_are_equally_spaced(forecast):
    y, dist = forecast
    assert pinball_loss(y, dist) == pytest.approx(pinball_loss(y, dist, levels=PERCENT), rel=1e-12)
    assert pinball_loss(y, dist, levels=1) == pinball_loss(y, dist, levels=0.5)


def test_pinball_survives_targets_and_scales_of_very_different_size():
    y = np.array([0.0, 1e8, -3.0, 5.0, 1e-9])
    dist = Normal([0.0, 1e8 + 1, 0.0, 2.0, 0.0], [1e-9, 5.0, 1e4, 1.0, 1e-8])
    each = [pinball_loss(y, dist, levels=p) for p in PERCENT]
    assert pinball_loss(y, dist) == pytest.approx(np.mean(each), rel=1e-11)


def test_pinball_of_targets_on_the_quantile_itself():
    dist = Normal(np.zeros(7), np.ones(7))
    levels = np.arange(1, 8) / 8
    y = dist.quantile(levels)[0]
    each = [pinball_loss(y, dist, levels=p) for p in levels]
    assert pinball_loss(y, dist, levels=levels) == pytest.approx(np.mean(each), rel=1e-12)


# -------------------------------------------------------------------------------- interval score


@pytest.mark.parametrize("weighted", [False, True])
def test_interval_score_over_coverages_is_the_mean_over_single_ones(forecast, weighted):
    y, dist = forecast
    weight = np.random.default_rng(0).random(y.size) if weighted else None
    coverages = [0.5, 0.9, 0.99, 0.05]
    for member in (dist, Empirical(dist.sample(9, random_state=0))):
        each = [interval_score_loss(y, member, coverage=c, sample_weight=weight) for c in coverages]
        together = interval_score_loss(y, member, coverage=coverages, sample_weight=weight)
        assert together == pytest.approx(np.mean(each), rel=1e-11)
