import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.pipeline import make_pipeline

from skuq.distributions import Empirical, LevelMap, Normal, Recalibrated
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator


def standard(n):
    return Normal(np.zeros(n), np.ones(n))


def coverage(dist, y, nominal=0.9):
    bounds = dist.interval(nominal)
    return np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))


def test_knots_are_the_plotting_positions():
    y = stats.norm.ppf([0.5, 0.2, 0.6])
    level_map = IsotonicRecalibrator(n_knots=None).fit(standard(3), y).level_map_
    assert_allclose(level_map.levels, [0.0, 0.2, 0.5, 0.6, 1.0], atol=1e-15)
    assert_allclose(level_map.values, [0.0, 0.25, 0.5, 0.75, 1.0], atol=1e-15)


def test_ties_share_their_mean_rank():
    y = stats.norm.ppf([0.2, 0.5, 0.5, 0.5, 0.9])
    level_map = IsotonicRecalibrator(n_knots=None).fit(standard(5), y).level_map_
    assert_allclose(level_map.levels, [0.0, 0.2, 0.5, 0.9, 1.0], atol=1e-15)
    assert_allclose(level_map.values, np.array([0.0, 1, 3, 5, 6]) / 6, atol=1e-15)


def test_transform_is_lazy_and_keeps_the_tail_shape():
    y = np.random.default_rng(0).normal(scale=0.5, size=200)
    recalibrator = IsotonicRecalibrator().fit(standard(200), y)
    dist = recalibrator.transform(standard(1))
    assert isinstance(dist, Recalibrated)
    smallest = y.min()
    # below the smallest observation the density is a multiple of the model's
    ratio = dist.pdf(smallest - 1.0) / dist.pdf(smallest - 0.1)
    assert_allclose(ratio, stats.norm.pdf(smallest - 1.0) / stats.norm.pdf(smallest - 0.1))
    assert dist.cdf(-30.0) > 0
    assert_allclose(dist.cdf(smallest), 1 / 201)


def test_a_biased_and_too_wide_model_is_mended(calibration_rows):
    dist, y = calibration_rows
    shifted = Normal(dist.mean() + 2 * dist.std(), 3 * dist.std())  # wrong alike in every row
    first, last = slice(None, 400), slice(400, None)
    recalibrated = IsotonicRecalibrator().fit(shifted[first], y[first]).transform(shifted[last])
    assert np.mean(y[last] - shifted[last].mean()) < -0.9
    assert abs(np.mean(y[last] - recalibrated.mean())) < 0.15
    assert recalibrated.crps(y[last]).mean() < 0.75 * shifted[last].crps(y[last]).mean()
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    observed = (y[last][:, np.newaxis] <= recalibrated.quantile(levels)).mean(axis=0)
    assert_allclose(observed, levels, atol=0.06)


def test_coverage_on_new_rows_is_what_was_asked():
    achieved = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        narrow = Normal(np.zeros(2300), np.full(2300, 0.4))
        y = rng.normal(size=2300)
        recalibrated = IsotonicRecalibrator().fit(narrow[:300], y[:300]).transform(narrow[300:])
        achieved.append(coverage(recalibrated, y[300:]))
    # the standard error of the mean over 20 seeds is sqrt(.09 / 300 / 20) = .004
    assert np.mean(achieved) == pytest.approx(0.9, abs=0.012)


def test_likelihood_on_new_rows_hardly_suffers_when_nothing_is_wrong():
    loss, rough = [], []
    for seed in range(10):
        y = np.random.default_rng(seed).normal(size=2500)
        plain = -standard(2000).logpdf(y[500:]).mean()
        for n_knots, result in (("auto", loss), (None, rough)):
            dist = IsotonicRecalibrator(n_knots=n_knots).fit(standard(500), y[:500]).transform(standard(2000))
            result.append(-dist.logpdf(y[500:]).mean() - plain)
    assert np.mean(loss) < 0.04
    assert np.mean(rough) > 0.3  # every row a knot: 1 - Euler's constant = 0.42


def test_moments_do_not_depend_on_the_location():
    # netcal's grid loses 2/n of the mass: at an offset of 100 its std is 14 instead of .5
    rng = np.random.default_rng(0)
    y = rng.normal(100.0, 0.5, size=100)
    dist = IsotonicRecalibrator().fit(Normal(np.full(100, 100.0), np.full(100, 1.0)), y)
    recalibrated = dist.transform(Normal([100.0], [1.0]))
    near = IsotonicRecalibrator().fit(standard(100), y - 100.0).transform(standard(1))
    assert_allclose(recalibrated.mean(), 100.0 + near.mean(), rtol=1e-12)
    assert_allclose(recalibrated.std(), near.std(), rtol=1e-7)
    assert recalibrated.std()[0] == pytest.approx(0.5, abs=0.12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows(n):
    y = np.array([0.3, -0.7, 1.1])[:n]
    level_map = IsotonicRecalibrator().fit(standard(n), y).level_map_
    assert_allclose(level_map(stats.norm.cdf(np.sort(y))), np.arange(1, n + 1) / (n + 1), rtol=1e-12)
    assert np.isfinite(IsotonicRecalibrator().fit(standard(n), y).predict(standard(n))).all()


def test_mirrored_data_give_the_mirrored_map():
    y = np.random.default_rng(0).gamma(2.0, size=300) - 1.5
    grid = np.linspace(0.001, 0.999, 97)
    forth = IsotonicRecalibrator().fit(standard(300), y).level_map_
    back = IsotonicRecalibrator().fit(standard(300), -y).level_map_
    assert_allclose(back(1 - grid), 1 - forth(grid), rtol=1e-9)


def test_pit_of_exactly_zero_and_one():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(size=96), [-1e6, -1e5, 1e5, 1e6]])
    recalibrator = IsotonicRecalibrator().fit(standard(100), y)
    level_map = recalibrator.level_map_
    assert level_map.levels[1] > 0
    assert level_map.levels[-2] < 1
    dist = recalibrator.transform(standard(1))
    assert np.isfinite(dist.mean()).all()
    assert np.isfinite(dist.std()).all()
    assert np.isfinite(dist.quantile([0.001, 0.5, 0.999])).all()
    # 2 of 100 rows lie beyond 6 standard deviations on either side, and the map says so
    assert_allclose(level_map(stats.norm.cdf(-6.0)), 2 / 101, atol=0.01)
    assert_allclose(level_map(stats.norm.cdf(6.0)), 1 - 2 / 101, atol=0.01)


def test_rows_out_of_reach_are_counted_and_the_remedy_works():
    rng = np.random.default_rng(0)
    y = 50.0 * rng.normal(size=400)
    narrow, new = standard(400), 50.0 * rng.normal(size=400)
    alone = IsotonicRecalibrator().fit(narrow, y)
    assert alone.outside_share_ == np.mean((stats.norm.cdf(y) == 0) | (stats.norm.cdf(y) == 1)) > 0.5
    assert coverage(alone.transform(narrow), new) < 0.3
    both = make_pipeline(StdScalingRecalibrator(), IsotonicRecalibrator()).fit(narrow, y)
    assert both[-1].outside_share_ == 0.0
    assert coverage(both.transform(narrow), new) == pytest.approx(0.9, abs=0.045)


def test_empirical_predictions():
    rng = np.random.default_rng(0)
    members = rng.normal(size=(3000, 40))
    y = 0.8 * rng.normal(size=3000)
    dist = Empirical(members)
    recalibrated = IsotonicRecalibrator().fit(dist[:1000], y[:1000]).transform(dist[1000:])
    assert coverage(dist[1000:], y[1000:]) > 0.93
    assert coverage(recalibrated, y[1000:]) == pytest.approx(0.9, abs=0.025)
    assert not recalibrated.has_density


def test_point_masses_give_no_error():
    dist = Normal([0.0, 1.0, 2.0, 3.0], np.zeros(4))
    recalibrated = IsotonicRecalibrator().fit(dist, [0.0, 1.5, 1.5, 3.0]).transform(dist)
    assert_allclose(recalibrated.quantile(0.5), [0.0, 1.0, 2.0, 3.0])


def test_more_knots_follow_the_rows_more_closely():
    y = np.random.default_rng(0).normal(size=500)
    sizes = [
        len(IsotonicRecalibrator(n_knots=k).fit(standard(500), y).level_map_.levels)
        for k in (3, 10, 100, None)
    ]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 502


@pytest.mark.parametrize("n_knots", [0, -1])
def test_n_knots_must_be_positive(n_knots):
    with pytest.raises(ValueError, match="`n_knots` must be at least 1"):
        IsotonicRecalibrator(n_knots=n_knots).fit(standard(3), [0.0, 1.0, 2.0])


@pytest.mark.parametrize("n_knots", ["all", 2.5, True])
def test_n_knots_must_be_an_integer(n_knots):
    with pytest.raises(TypeError, match="`n_knots` must be an integer"):
        IsotonicRecalibrator(n_knots=n_knots).fit(standard(3), [0.0, 1.0, 2.0])


def test_relative_weights_raise_because_n_enters():
    with pytest.raises(ValueError, match="counts repetitions"):
        IsotonicRecalibrator().fit(standard(3), [0.0, 1.0, 2.0], sample_weight=[0.2, 0.3, 0.5])


def test_level_map_is_a_fitted_value():
    assert isinstance(IsotonicRecalibrator().fit(standard(2), [0.0, 1.0]).level_map_, LevelMap)
