import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline

from skuq.distributions import Normal
from skuq.distributions._supported import Supported
from skuq.recalibration import StdScalingRecalibrator, SupportMap

DIST = Normal([0.5, 6.0, 2.0], [1.0, 2.0, 0.0])


def test_it_clips_and_rounds():
    mapped = SupportMap("count").fit(DIST, [0, 7, 2]).transform(DIST)
    assert isinstance(mapped, Supported)
    assert_array_equal(mapped.interval(), [[0.0, 2.0], [3.0, 9.0], [2.0, 2.0]])
    assert_array_equal(SupportMap((0, 1)).fit(DIST, [0, 1, 0.5]).transform(DIST).ppf(0.9), [1.0, 1.0, 1.0])


def test_none_changes_nothing():
    assert SupportMap(None).fit(DIST, [0, 7, 2]).transform(DIST) is DIST


def test_the_point_prediction_is_the_mean_on_the_support():
    step = SupportMap("positive").fit(DIST, [0, 7, 2])
    assert_array_equal(step.predict(DIST), step.transform(DIST).mean())


def test_it_follows_another_recalibrator():
    n = 40
    dist, y = Normal(np.full(n, 1.0), 1.0), np.arange(n) % 4
    chain = make_pipeline(StdScalingRecalibrator(), SupportMap("count")).fit(dist, y)
    scaled = StdScalingRecalibrator().fit(dist, y).transform(dist)
    assert_array_equal(chain.transform(dist).interval(), scaled.clip(0.0, integer=True).interval())


def test_a_target_outside_is_named():
    with pytest.raises(ValueError, match=r"`y` must hold integers from 0 to inf .* got 0\.5 at row 1"):
        SupportMap("count").fit(DIST, [0, 0.5, 2])
