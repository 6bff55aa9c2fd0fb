import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.pipeline import make_pipeline

from skuq.distributions import (
    Distribution,
    Empirical,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    StudentT,
    Transformed,
    concat,
)
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from tests.few_rows import few_rows


def standard(n):
    return Normal(np.zeros(n), np.ones(n))


def coverage(dist, y, nominal=0.9):
    bounds = dist.interval(nominal)
    return np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))


@few_rows
def test_knots_are_the_plotting_positions_and_ties_share_their_mean_rank():
    for y, levels, values in (
        ([0.5, 0.2, 0.6], [0.0, 0.2, 0.5, 0.6, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0]),
        ([0.2, 0.5, 0.5, 0.5, 0.9], [0.0, 0.2, 0.5, 0.9, 1.0], np.array([0.0, 1, 3, 5, 6]) / 6),
    ):
        level_map = IsotonicRecalibrator(n_knots=None).fit(standard(len(y)), stats.norm.ppf(y)).level_map_
        assert isinstance(level_map, LevelMap)
        assert_allclose(level_map.levels, levels, atol=1e-15)
        assert_allclose(level_map.values, values, atol=1e-15)


@pytest.mark.parametrize("smooth", [False, True])
def test_beyond_the_rows_tails_are_gaussian_with_the_factor_of_all_rows(smooth):
    for scale in (0.01, 0.5, 1.0, 3.0):
        y = np.random.default_rng(0).normal(scale=scale, size=200)
        dist = IsotonicRecalibrator(smooth=smooth).fit(standard(200), y).transform(standard(1))
        assert isinstance(dist, Recalibrated)
        for end in (y.min(), y.max()):
            at = end * np.array([1.1, 1.5, 2.0])
            score = stats.norm.ppf(
                np.array([dist.cdf(t)[0] if end < 0 else dist._sf(np.array([t]))[0] for t in at])
            )
            steps = np.diff(score) / np.diff(at) * -np.sign(end)
            assert_allclose(steps[0], steps[1], rtol=1e-6)
            assert steps[0] == pytest.approx(1 / y.std(), rel=0.05)
        if not smooth:  # the outermost rows keep their plotting positions
            assert_allclose(dist.cdf(y.min()), 1 / 201)


def test_a_heavy_tail_is_made_no_heavier():
    y = 20.0 * np.random.default_rng(0).standard_t(3, size=200)
    narrow = StudentT(np.zeros(200), 1.0, 3.0)
    dist = IsotonicRecalibrator().fit(narrow, y).transform(narrow)
    assert dist.level_map.pieces.slopes[0] == dist.level_map.pieces.slopes[-1] == 1.0
    assert np.isfinite(dist.std()).all()
    assert coverage(dist, y) == pytest.approx(0.9, abs=0.02)


@pytest.mark.laws
def test_coverage_on_new_rows_is_nominal():
    achieved = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        narrow = Normal(np.zeros(2300), np.full(2300, 0.4))
        y = rng.normal(size=2300)
        recalibrated = IsotonicRecalibrator().fit(narrow[:300], y[:300]).transform(narrow[300:])
        achieved.append(coverage(recalibrated, y[300:]))
    # the standard error of the mean over 20 seeds is sqrt(.09 / 300 / 20) = .004
    assert np.mean(achieved) == pytest.approx(0.9, abs=0.012)


@pytest.mark.laws
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


@few_rows
def test_a_few_rows():
    for n in (1, 2, 3):
        y = np.array([0.3, -0.7, 1.1])[:n]
        fitted = IsotonicRecalibrator().fit(standard(n), y)
        positions = fitted.level_map_(stats.norm.cdf(np.sort(y)))
        assert_allclose(positions, np.arange(1, n + 1) / (n + 1), rtol=1e-12)
        assert np.isfinite(fitted.predict(standard(n))).all()
    for y in ([0.3], [0.3, 0.3, 0.3], [-1e6, 1e6], [0.3, 0.3 + 1e-9]):
        fitted = IsotonicRecalibrator(smooth=True).fit(standard(len(y)), y)
        assert np.isfinite(fitted.transform(standard(2)).quantile([0.01, 0.5, 0.99])).all()
        assert np.isfinite(fitted.predict(standard(2))).all()


@pytest.mark.parametrize("smooth", [False, True])
def test_mirrored_data_give_the_mirrored_map(smooth):
    y = np.random.default_rng(0).gamma(2.0, size=300) - 1.5
    if smooth:
        y[:40] = 0.001 * np.arange(40)  # 0 itself and what counts as one with it
    grid = np.linspace(0.001, 0.999, 97)
    recalibrator = IsotonicRecalibrator(smooth=smooth)
    forth = recalibrator.fit(standard(300), y).level_map_
    back = recalibrator.fit(standard(300), -y).level_map_
    assert_allclose(back(1 - grid), 1 - forth(grid), rtol=1e-9)


def test_pit_of_exactly_zero_and_one():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(size=96), [-1e6, -1e5, 1e5, 1e6]])
    recalibrator = IsotonicRecalibrator().fit(standard(100), y)
    level_map = recalibrator.level_map_
    assert np.isfinite(level_map.pieces.knots).all()
    dist = recalibrator.transform(standard(1))
    assert np.isfinite(dist.mean()).all()
    assert np.isfinite(dist.std()).all()
    assert np.isfinite(dist.quantile([0.001, 0.5, 0.999])).all()
    # 2 of 100 rows lie beyond 1000 standard deviations on either side, and the map has these shares
    assert 2 / 101 <= level_map(stats.norm.cdf(-6.0)) <= 4 / 101  # ranks 2 and 4 are knots
    assert_allclose(dist.quantile([0.015, 0.985])[0], [-5e5, 5e5], rtol=1.0)


def test_rows_out_of_reach_are_refused_and_the_remedy_works():
    rng = np.random.default_rng(0)
    y, new = 50.0 * rng.normal(size=400), 50.0 * rng.normal(size=400)
    narrow = Empirical(rng.normal(size=(400, 20)))
    with pytest.raises(ValueError, match=r"in 9\d\.\d% of the rows, `y` is outside.*EmpiricalRecalibrator"):
        IsotonicRecalibrator().fit(narrow, y)
    both = make_pipeline(StdScalingRecalibrator(), IsotonicRecalibrator()).fit(narrow, y)
    assert both[-1].outside_share_ < 0.2
    assert coverage(both.transform(narrow), new) == pytest.approx(0.9, abs=0.05)


def test_few_rows_out_of_reach_are_counted():
    rng = np.random.default_rng(0)
    members = rng.normal(size=(2000, 50))
    recalibrator = IsotonicRecalibrator().fit(Empirical(members), y := rng.normal(size=2000))
    assert recalibrator.outside_share_ == np.mean((y < members.min(axis=1)) | (y > members.max(axis=1)))
    assert recalibrator.outside_share_ == pytest.approx(2 / 51, abs=0.015)
    for factor in (60.0, 1e4):  # the levels of a family underflow
        y = factor * np.random.default_rng(0).normal(size=300)
        with pytest.raises(ValueError, match="EmpiricalRecalibrator"):
            IsotonicRecalibrator().fit(BareNormal(np.zeros(300), 1.0), y)


class BareNormal(Normal):
    """A Gaussian family that has nothing but its cdf, so that far levels underflow."""

    _normal_score = Distribution._normal_score
    _from_normal_score = Distribution._from_normal_score


FACTORS = [1 / 100, 1 / 30, 1 / 8, 1 / 3, 1.0, 2.5, 7.0, 20.0, 60.0, 100.0]
FAMILIES = {
    "normal": lambda scale: Normal(np.zeros(len(scale)), scale),
    "mixture": lambda scale: NormalMixture(np.zeros((len(scale), 2)), np.outer(scale, [0.8, 1.17])),
    "general mixture": lambda scale: Mixture([Normal(0 * scale, scale), StudentT(0 * scale, scale, 9.0)]),
    "quantiles": lambda scale: Quantiles(
        np.linspace(0.05, 0.95, 19), np.outer(scale, stats.norm.ppf(np.linspace(0.05, 0.95, 19)))
    ),
    "transformed": lambda scale: Transformed(
        Normal(np.zeros(len(scale)), scale), lambda x: -2 * x, lambda y: -y / 2, lambda y: 0 * y - 0.5
    ),
    "recalibrated": lambda scale: Recalibrated(Normal(0 * scale, scale), LevelMap([0.5], [0.55])),
    "concatenated": lambda scale: concat(
        [
            Normal(0 * scale[::2], scale[::2]),
            Mixture([Normal(0.0, scale[1::2]), StudentT(0.0, scale[1::2], 9.0)]),
        ]
    ),
}


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_any_factor_of_the_std_is_corrected(family, smooth):
    rng = np.random.default_rng(0)
    width = rng.uniform(1, 2, size=1000)
    # as calibrated rows and new rows, the midpoints of a fine grid of levels: chance plays no part
    z = stats.norm.ppf((rng.permutation(1000) + 0.5) / 1000)
    y, new = width * z, width * rng.permutation(z)
    for factor in FACTORS:
        dist = FAMILIES[family](width / factor)
        recalibrated = IsotonicRecalibrator(smooth=smooth).fit(dist, y).transform(dist)
        # the kernel may leave the rows by .7 / sqrt(n) on either side
        allowed = pytest.approx(0.9, abs=0.03 if smooth else 0.015)
        assert coverage(recalibrated, new) == allowed, factor
        assert np.isfinite(recalibrated.interval(0.99)).all()


def test_a_bias_of_many_deviations_is_corrected():
    rng = np.random.default_rng(1)
    dist, new = Normal(np.zeros(500), 1.0), 40 + rng.normal(size=500)
    recalibrated = IsotonicRecalibrator().fit(dist, 40 + rng.normal(size=500)).transform(dist)
    assert coverage(recalibrated, new) == pytest.approx(0.9, abs=0.045)
    assert recalibrated.mean()[0] == pytest.approx(40.0, abs=0.15)


def test_the_std_of_a_model_that_was_too_wide():
    for n, most in ((50, 1.09), (100, 1.05)):
        rng, wide = np.random.default_rng(0), Normal(np.zeros(n), 2.5)
        fits = [IsotonicRecalibrator().fit(wide, rng.normal(size=n)) for _ in range(100)]
        assert 1.0 < np.mean([fitted.transform(wide[:1]).std()[0] for fitted in fits]) < most


def exact_with_atoms(n, seed, m=11):
    """Quantiles of 0 with probability .41, else N(10, 1), spread by a factor in every row; and targets."""
    rng = np.random.default_rng(seed)
    levels = np.linspace(0.05, 0.95, m)
    inner = np.where(levels <= 0.41, 0.0, stats.norm.ppf(np.clip((levels - 0.41) / 0.59, 1e-9, 1), 10, 1))
    unit = rng.uniform(0.5, 2, size=n)
    dist = Quantiles(levels, np.outer(unit, inner))
    return dist, dist.ppf(rng.uniform(size=n))


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("m", [11, 40])
def test_exact_forecasts_with_atoms_stay_exact(m, smooth):
    dist, y = exact_with_atoms(2000, 0, m)
    new_dist, new = exact_with_atoms(5000, 1, m)
    recalibrated = IsotonicRecalibrator(smooth=smooth).fit(dist, y).transform(new_dist)
    assert recalibrated.crps(new).mean() <= 1.01 * new_dist.crps(new).mean()
    assert_allclose(recalibrated.cdf(1e-9).mean(), new_dist.cdf(1e-9).mean(), atol=0.03)


def test_a_row_on_an_atom_spreads_its_weight_over_the_levels_of_the_atom():
    dist = Normal(np.zeros(40), np.repeat([1.0, 0.0], 20))  # 20 point masses, all of them hit
    y = np.r_[stats.norm.ppf((np.arange(20) + 0.5) / 20), np.zeros(20)]
    level_map = IsotonicRecalibrator(n_knots=None).fit(dist, y).level_map_
    at = np.linspace(0.05, 0.95, 19)
    assert_allclose(level_map(at), (40 * at + 0.5) / 41, atol=0.02)  # both halves are uniform


def test_targets_are_met_on_atoms_within_rounding_of_single_precision():
    grades = np.arange(3.0, 9.0)
    weights = np.array([0.02, 0.05, 0.43, 0.40, 0.08, 0.02])
    y = np.random.default_rng(0).choice(grades, size=3000, p=weights)
    at = np.cumsum(weights)[:-1]
    for tie in (0.0, 3e-7, -3e-7):
        dist = Empirical(np.tile(grades + tie, (3000, 1)), weights)
        assert_allclose(IsotonicRecalibrator().fit(dist, y).level_map_(at), at, atol=0.02)


@few_rows
def test_point_masses_give_no_error():
    dist = Normal([0.0, 1.0, 2.0, 3.0], np.zeros(4))
    recalibrated = IsotonicRecalibrator().fit(dist, [0.0, 1.0, 1.5, 3.0]).transform(dist)
    assert_allclose(recalibrated.quantile(0.5), [0.0, 1.0, 2.0, 3.0])


def test_more_knots_follow_the_rows_more_closely():
    y = np.random.default_rng(0).normal(size=500)
    sizes = [
        len(IsotonicRecalibrator(n_knots=k).fit(standard(500), y).level_map_.levels)
        for k in (3, 10, 100, None)
    ]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 502


def test_bad_options():
    for options, error, match in (
        ({"n_knots": 0}, ValueError, "`n_knots` must be at least 1"),
        ({"n_knots": -1}, ValueError, "`n_knots` must be at least 1"),
        ({"n_knots": "all"}, TypeError, "`n_knots` must be an integer"),
        ({"n_knots": 2.5}, TypeError, "`n_knots` must be an integer"),
        ({"n_knots": True}, TypeError, "`n_knots` must be an integer"),
        ({"n_knots": None, "smooth": True}, ValueError, "`n_knots` must be 'auto' with smooth=True"),
        ({"n_knots": 5, "smooth": True}, ValueError, "`n_knots` must be 'auto' with smooth=True"),
        ({"smooth": "kernel"}, ValueError, "`smooth` must be one of True, False"),
    ):
        with pytest.raises(error, match=match):
            IsotonicRecalibrator(**options).fit(standard(3), [0.0, 1.0, 2.0])


# ----------------------------------------------------------------------------------------------- smooth


def held_out(recalibrator, draw, n, repetitions):
    """Mean log score and CRPS over new rows of a standard normal model."""
    scores = []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        dist = recalibrator.fit(standard(n), draw(rng, n)).transform(standard(2000))
        y = draw(np.random.default_rng([seed, 1]), 2000)
        scores.append((-dist.logpdf(y).mean(), dist.crps(y).mean()))
    return np.mean(scores, axis=0)


WORLDS = {
    "calibrated": lambda rng, n: rng.normal(size=n),
    "biased and too wide": lambda rng, n: 0.8 + 0.5 * rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(5, size=n) / np.sqrt(5 / 3),
    "two modes": lambda rng, n: rng.choice([-0.9, 0.9], size=n) + 0.44 * rng.normal(size=n),
}


@pytest.mark.laws
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("n", "gain"), [(20, 0.04), (100, 0.02), (500, 0.003)])
def test_smoothing_helps_where_rows_are_few(world, n, gain):
    repetitions = {20: 60, 100: 30, 500: 10}[n]
    rough = held_out(IsotonicRecalibrator(), WORLDS[world], n, repetitions)
    smooth = held_out(IsotonicRecalibrator(smooth=True), WORLDS[world], n, repetitions)
    assert smooth[0] < rough[0] - gain
    assert smooth[1] < rough[1] + 1e-3


@pytest.mark.laws
def test_smoothing_blurs_an_edge():
    def waiting_times(rng, n):
        return rng.exponential(size=n) - 1.0

    rough = held_out(IsotonicRecalibrator(), waiting_times, 500, 10)
    smooth = held_out(IsotonicRecalibrator(smooth=True), waiting_times, 500, 10)
    assert 0.03 < smooth[0] - rough[0] < 0.12
    assert smooth[1] - rough[1] < 0.002


def test_a_straight_map_stays_straight():
    """Normal scores that are exactly normal give exactly a shift and a scale, kernel or not."""
    levels = (np.arange(2000) + 0.5) / 2000
    y = 0.7 + 1.6 * stats.norm.ppf(levels)
    level_map = IsotonicRecalibrator(smooth=True).fit(standard(2000), y).level_map_
    at = np.linspace(-2.5, 4.0, 60)
    assert_allclose(level_map(stats.norm.cdf(at)), stats.norm.cdf(at, 0.7, 1.6), atol=0.002)
    recalibrated = IsotonicRecalibrator(smooth=True).fit(standard(2000), y).transform(standard(1))
    assert_allclose(recalibrated.mean(), 0.7, atol=0.005)
    assert_allclose(recalibrated.std(), 1.6, rtol=0.01)


@few_rows
def test_the_kernel_estimate_is_as_defined():
    y = np.array([-1.3, -0.2, 0.1, 0.4, 2.0])
    weight = np.array([1, 3, 1, 2, 1])
    scores = np.repeat(y, weight)  # the normal scores of a standard normal model
    level_map = IsotonicRecalibrator(smooth=True).fit(standard(5), y, sample_weight=weight).level_map_
    n, spread, center = 8, scores.std(), scores.mean()
    bandwidth = 0.8 * spread * n ** (-1 / 5)
    shrinkage = spread / np.hypot(spread, bandwidth)
    knots = stats.norm.ppf(level_map.levels[1:-1])
    points = center + (scores - center) * shrinkage
    expected = stats.norm.cdf((knots[:, np.newaxis] - points) / (bandwidth * shrinkage)).mean(axis=1)
    assert_allclose(level_map.values[1:-1], expected, rtol=1e-9)
    assert level_map.values[1] >= 1 / 9
    assert level_map.values[-2] <= 8 / 9
    assert len(knots) > 5


def test_many_rows_need_few_knots_and_ties_are_no_trouble():
    y = np.random.default_rng(0).normal(size=30_000)
    assert len(IsotonicRecalibrator(smooth=True).fit(standard(30_000), y).level_map_.levels) < 250
    rounded = IsotonicRecalibrator(smooth=True).fit(standard(3000), np.round(y[:3000] / 4) * 4).level_map_
    assert (np.diff(rounded.levels) > 0).all()
    assert (np.diff(rounded.values) > 0).all()


@pytest.mark.parametrize("smooth", [False, True])
def test_any_std_of_a_normal_gives_the_same_result(smooth):
    y, recalibrator = np.random.default_rng(0).normal(size=300), IsotonicRecalibrator(smooth=smooth)
    expected = recalibrator.fit(Normal(0 * y, 1.0), y).transform(Normal([0.0], 1.0))
    for scale in (1e-300, 1e-200, 1e-14, 1e14, 1e200, 1e300):
        after = recalibrator.fit(Normal(0 * y, scale), y).transform(Normal([0.0], scale))
        assert_allclose(after.interval(), expected.interval(), rtol=1e-5)  # the grid of the kernel is as fine
        assert_allclose(after.std(), expected.std(), rtol=1e-5)


def test_far_too_wide_quantiles_have_moments_when_recalibrated():
    rng = np.random.default_rng(1)
    mean = rng.normal(size=500)
    y = mean + rng.normal(size=500)
    right, levels = Normal(mean, 0 * mean + 1), [0.05, 0.16, 0.31, 0.5, 0.69, 0.84, 0.95]
    normal = IsotonicRecalibrator().fit(right, y).transform(right)
    for factor in (6.0, 9.0, 15.0, 40.0, 100.0):
        wide = Quantiles(levels, mean[:, np.newaxis] + factor * stats.norm.ppf(levels))
        recalibrated = IsotonicRecalibrator().fit(wide, y).transform(wide)
        assert_allclose(recalibrated.std(), normal.std(), rtol=0.02)
        assert_allclose(recalibrated.crps(y).mean(), normal.crps(y).mean(), rtol=0.005)


def test_residuals_that_are_all_equal_shift_the_distribution():
    mean = np.linspace(0.0, 5.0, 50)
    recalibrated = (
        IsotonicRecalibrator().fit(Normal(mean, 0 * mean + 2), mean + 1.3).transform(Normal([7.0], 2.0))
    )
    assert_allclose([recalibrated.median()[0], recalibrated.std()[0]], [8.3, 2.0])


def test_rows_that_stand_for_many_change_little_and_cost_nothing():
    y, ones = np.random.default_rng(2).normal(size=40), np.ones(40)

    def interval(repeats):
        return IsotonicRecalibrator().fit(standard(40), y, repeats * ones).transform(standard(1)).interval()

    for repeats in (1e4, 1e7, 1e12, 1e14):
        assert_allclose(interval(repeats), interval(1e3), atol=0.02)
    with pytest.raises(ValueError, match="at most 9"):
        interval(1e23)
