"""Proper scores, scores of quantiles and intervals, widths, and skill."""

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.datasets import make_regression
from sklearn.linear_model import BayesianRidge
from sklearn.metrics import mean_absolute_error, mean_pinball_loss
from sklearn.model_selection import cross_val_score

from skuq.distributions import Empirical, Hurdle, Normal, Quantiles, ScipyDistribution, StudentT, concat
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.exceptions import NoDensityError
from skuq.metrics import (
    crps_loss,
    crps_skill_score,
    get_scorer,
    get_scorer_names,
    interval_coverage_error,
    interval_score_loss,
    make_scorer,
    mean_interval_width,
    mean_standardized_log_loss,
    nll_loss,
    pinball_loss,
    prediction_interval_coverage,
    sharpness,
)
from skuq.metrics._skill import climatology_crps


def test_fair_crps_by_brute_force_over_pairs():
    rng = np.random.default_rng(0)
    members, weights, y = rng.normal(size=(20, 6)), rng.random((20, 6)), rng.normal(size=20)
    weights /= weights.sum(axis=1, keepdims=True)
    expected = []
    for x, w, target in zip(members, weights, y, strict=True):
        pairs = np.abs(x[:, np.newaxis] - x) * np.outer(w, w)
        different = np.outer(w, w)[~np.eye(6, dtype=bool)].sum()
        expected.append(w @ np.abs(x - target) - pairs.sum() / different / 2)
    assert crps_loss(y, Empirical(members, weights), crps_estimator="fair") == pytest.approx(
        np.mean(expected), rel=1e-12
    )


def test_fair_crps_is_unbiased_and_the_other_is_not():
    rng = np.random.default_rng(0)
    y = rng.normal(size=40_000)
    truth = crps_loss(y, Normal(np.zeros(y.size), np.ones(y.size)))
    for m in (2, 5):
        ensemble = Empirical(rng.normal(size=(y.size, m)))
        assert crps_loss(y, ensemble, crps_estimator="fair") == pytest.approx(truth, abs=0.01)
        assert crps_loss(y, ensemble) > truth + 0.05
    for ensemble in (Empirical([[1.0]]), Empirical([[1.0, 2.0]], weights=[0.0, 1.0])):
        assert crps_loss([0.5], ensemble) == pytest.approx(abs(0.5 - ensemble.mean()[0]))
        with pytest.raises(
            ValueError, match=r"two members of positive weight.*at row 0.*crps_estimator='nrg'"
        ):
            crps_loss([0.5], ensemble, crps_estimator="fair")


def test_fair_crps_of_ensembles_of_different_size():
    rng = np.random.default_rng(0)
    first, second = Empirical(rng.normal(size=(4, 3))), Empirical(rng.normal(size=(5, 8)))
    parts, y, fair = [first, second, Normal([0.0], [1.0])], rng.normal(size=10), {"crps_estimator": "fair"}
    targets = np.split(y, [4, 9])
    expected = sum(crps_loss(*each, **fair) * len(each[0]) for each in zip(targets, parts, strict=True)) / 10
    mixed, rows = concat(parts), rng.permutation(10)
    assert crps_loss(y, mixed, **fair) == pytest.approx(expected, rel=1e-12)
    assert crps_loss(y[rows], mixed[rows], **fair) == pytest.approx(expected, rel=1e-12)


def test_crps_is_twice_the_integrated_pinball_loss():
    y, dist = np.array([0.3, 4.0]), StudentT([0.0, 1.0], [1.0, 2.0], df=4.0)
    integral = integrate.quad(
        lambda p: pinball_loss(y, dist, levels=float(p)), 0, 1, epsabs=1e-10, limit=200
    )[0]
    assert crps_loss(y, dist) == pytest.approx(2 * integral, rel=1e-6)


def test_point_forecasts_and_frozen_distributions(forecast):
    y, dist = forecast
    assert crps_loss(y, Normal(dist.loc, 0.0 * dist.scale)) == pytest.approx(mean_absolute_error(y, dist.loc))
    frozen = stats.t(4.0, dist.loc, dist.scale)
    assert nll_loss(y, frozen) == pytest.approx(-frozen.logpdf(y).mean(), rel=1e-12)


# ------------------------------------------------------------------------------- masses of counts


def test_the_log_score_of_counts_uses_masses():
    y, mean = np.array([0, 2, 7]), np.array([0.5, 2.0, 4.0])
    expected = -stats.poisson.logpmf(y, mean).mean()
    assert nll_loss(y, stats.poisson(mean)) == pytest.approx(expected)
    counts = Normal(mean, 1.0).clip(0.0, integer=True)
    edges = stats.norm.cdf((y[:, np.newaxis] + [-0.5, 0.5] - mean[:, np.newaxis]) / 1.0)
    edges[0, 0] = 0.0
    assert nll_loss(y, counts) == pytest.approx(-np.log(np.diff(edges)).mean())
    assert nll_loss([0.5, 2, 7], counts) == np.inf  # not a possible value
    # The true masses have the best expected score.
    k = np.arange(60)
    scores = [ScipyDistribution(stats.poisson(np.full(60, each))).logpmf(k) for each in (2.8, 3.0, 3.2)]
    assert np.argmax(scores @ stats.poisson.pmf(k, 3.0)) == 1
    for dist in (
        Normal([0.3, 0.3], 1.0).clip(0.0),
        Hurdle(0.5, Normal([2.0, 2.0], 1.0)),
        concat([Normal(0.0, 1.0), ScipyDistribution(stats.poisson([1.0]))]),
    ):
        with pytest.raises(NoDensityError, match="only defined if every row is discrete"):
            nll_loss([0.0, 0.0], dist)


# -------------------------------------------------------------------------------------- quantiles


PERCENT = np.arange(1, 100) / 100


def test_pinball_equals_scikit_learn_at_one_level(forecast):
    y, dist = forecast
    weight = np.random.default_rng(0).random(y.size)
    for level in (0.05, 0.5, 0.9):
        expected = mean_pinball_loss(y, dist.quantile(level), alpha=level, sample_weight=weight)
        assert pinball_loss(y, dist, levels=level, sample_weight=weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["normal", "student", "quantiles", "recalibrated", "empirical"])
def test_scores_over_many_levels_are_the_mean_over_single_ones(forecast, family, weighted):
    y, dist = forecast
    dist = {
        "normal": lambda: dist,
        "student": lambda: StudentT(dist.loc, dist.scale, df=3.0),
        "quantiles": lambda: Quantiles([0.1, 0.5, 0.9], dist.quantile([0.1, 0.5, 0.9])),
        "recalibrated": lambda: Recalibrated(dist, LevelMap([0, 0.3, 1], [0, 0.5, 1])),
        "empirical": lambda: Empirical(dist.sample(9, random_state=0)),
    }[family]()
    weight = np.random.default_rng(0).random(y.size) if weighted else None
    levels, coverages = np.array([0.9, 0.02, 0.5, 0.31, 0.77, 0.5]), [0.5, 0.9, 0.99, 0.05]
    each = [pinball_loss(y, dist, levels=p, sample_weight=weight) for p in levels]
    together = pinball_loss(y, dist, levels=levels, sample_weight=weight)
    assert together == pytest.approx(np.mean(each), rel=1e-12)
    each = [interval_score_loss(y, dist, coverage=c, sample_weight=weight) for c in coverages]
    together = interval_score_loss(y, dist, coverage=coverages, sample_weight=weight)
    assert together == pytest.approx(np.mean(each), rel=1e-11)


def test_pinball_of_equally_spaced_levels_and_of_extreme_targets(forecast):
    y, dist = forecast
    assert pinball_loss(y, dist) == pytest.approx(pinball_loss(y, dist, levels=PERCENT), rel=1e-12)
    assert pinball_loss(y, dist, levels=1) == pinball_loss(y, dist, levels=0.5)
    # targets and scales of very different size
    y = np.array([0.0, 1e8, -3.0, 5.0, 1e-9])
    dist = Normal([0.0, 1e8 + 1, 0.0, 2.0, 0.0], [1e-9, 5.0, 1e4, 1.0, 1e-8])
    each = [pinball_loss(y, dist, levels=p) for p in PERCENT]
    assert pinball_loss(y, dist) == pytest.approx(np.mean(each), rel=1e-11)
    # targets on the quantile itself
    dist, levels = Normal(np.zeros(7), np.ones(7)), np.arange(1, 8) / 8
    y = dist.quantile(levels)[0]
    each = [pinball_loss(y, dist, levels=p) for p in levels]
    assert pinball_loss(y, dist, levels=levels) == pytest.approx(np.mean(each), rel=1e-12)


# -------------------------------------------------------------------------------------- intervals


def test_defaults_of_coverage_and_target(forecast, few_rows):
    y, dist = forecast
    coverage, error = prediction_interval_coverage, interval_coverage_error
    for metric in (coverage, error, mean_interval_width, interval_score_loss):
        assert metric(y, dist) == metric(y, dist, coverage=0.9) != metric(y, dist, coverage=0.8)
    weight = np.arange(y.size)
    for metric in (mean_interval_width, sharpness):  # metrics of the forecast alone
        assert metric(None, dist, sample_weight=weight) == metric(y, dist, sample_weight=weight)


def test_coverage_and_its_error_by_hand():
    assert prediction_interval_coverage([0.0, 1.0, -1e-9, 1 + 1e-9], [[0.0, 1.0]] * 4) == 0.5
    y, bounds = np.repeat([0.0, 5.0], [850, 150]), np.tile([-1.0, 1.0], (1000, 1))
    assert interval_coverage_error(y, bounds, coverage=0.9) == pytest.approx(0.05)
    assert interval_coverage_error(y, bounds, coverage=0.8) == pytest.approx(0.05)
    assert prediction_interval_coverage(y, bounds, coverage=0.8) == pytest.approx(0.85)


def test_width_and_score_of_intervals_by_hand():
    assert mean_interval_width(None, Normal([0.0, 1.0], [1.0, 2.0])) == pytest.approx(
        1.5 * 2 * 1.6448536269514722
    )
    assert mean_interval_width(None, Empirical([[0.0, 1.0, 2.0, 10.0]]), coverage=0.5) == 2.0
    for y, coverage, penalty in ((1.0, 0.9, 0.0), (2.0, 0.9, 0.0), (3.0, 0.9, 20.0), (-3.0, 0.5, 12.0)):
        score = interval_score_loss([y], [[0.0, 2.0]], coverage=coverage)
        assert score == (pytest.approx(2.0 + penalty) if penalty else 2.0)
    with pytest.raises(ValueError, match="`coverage` must be one number"):
        interval_score_loss([0.0], [[0.0, 1.0]], coverage=[0.5, 0.9])


def test_rows_of_weight_zero_may_be_infinite():
    bounds, weight = [[0.0, 1.0], [-np.inf, np.inf]], [1.0, 0.0]
    assert mean_interval_width(None, bounds, sample_weight=weight) == 1.0
    assert interval_score_loss([0.5, 0.5], bounds, sample_weight=weight) == 1.0
    student = StudentT([0.0, 0.0], [1.0, 1.0], df=[4.0, 1.5])
    assert sharpness(None, student, sample_weight=weight) == student.std()[0]


def test_a_target_on_the_atom_that_bounds_an_interval_is_covered_within_single_precision():
    rng = np.random.default_rng(0)
    weights, grades = np.array([0.03, 0.47, 0.47, 0.03]), np.array([4.0, 5.0, 6.0, 7.0])
    y = rng.choice(grades, size=2000, p=weights)
    for tie in (0.0, 3e-7, -3e-7):
        dist = Empirical(np.tile(grades + tie, (2000, 1)), weights)
        assert prediction_interval_coverage(y, dist) == np.mean((y > 4) & (y < 7))
        # bounds have no information about atoms and are used unchanged
        lower, upper = dist.interval().T
        inside = np.mean((lower <= y) & (y <= upper))
        assert prediction_interval_coverage(y, dist.interval()) == inside
    # No bound of a continuous forecast is moved. Rounding of single precision is 100 here.
    y = 1.6e9 + np.arange(200.0)
    assert prediction_interval_coverage(y, Normal(y + 1.7, np.ones(200))) == 0
    assert prediction_interval_coverage(y, Empirical(y[:, np.newaxis] + 1.7 + np.linspace(-1, 1, 41))) == 0


@pytest.mark.parametrize(("kind", "units"), [("std", 1), ("rms", 1), ("variance", 2)])
def test_units_and_weights_of_every_kind_of_sharpness(kind, units, het100):
    scale, weight = np.array([1.0, 2.0, 5.0]), np.array([2, 0, 1])
    value = sharpness(None, Normal(np.zeros(3), scale), kind=kind, sample_weight=weight)
    assert value == pytest.approx(sharpness(None, Normal(np.zeros(3), [1.0, 1.0, 5.0]), kind=kind), rel=1e-14)
    scaled = sharpness(None, Normal(np.zeros(3), 4 * scale), kind=kind, sample_weight=weight)
    assert scaled == pytest.approx(4**units * value, rel=1e-14)
    expected = {
        "std": het100.s.mean(),
        "rms": np.sqrt(np.mean(het100.s**2)),
        "variance": np.mean(het100.s**2),
    }
    assert sharpness(het100.y, Normal(het100.mu, het100.s), kind=kind) == pytest.approx(
        expected[kind], rel=1e-14
    )


# ------------------------------------------------------------------------------------------ skill


BOTH = pytest.mark.parametrize("metric", [crps_skill_score, mean_standardized_log_loss])


@pytest.fixture
def train():
    return np.random.default_rng(3).normal(1.0, 2.0, size=37)


def test_climatology_is_the_crps_of_an_ensemble_of_all_training_targets(train):
    y = np.concatenate([np.random.default_rng(0).normal(size=20), train[:3], [1e6, -1e6]])
    for members in (train, np.round(train), train[:1], train + 1e9):
        expected = Empirical(np.tile(members, (y.size, 1))).crps(y)
        np.testing.assert_allclose(climatology_crps(y, members), expected, rtol=1e-9, atol=1e-7)


def test_skill_by_hand(forecast, train):
    y, dist = forecast
    reference = crps_loss(y, Empirical(np.tile(train, (y.size, 1))))
    expected = 1 - crps_loss(y, dist) / reference
    assert crps_skill_score(y, dist, y_train=train) == pytest.approx(expected, rel=1e-12)
    assert crps_skill_score(y, dist, reference=Empirical([train])) == pytest.approx(expected, rel=1e-12)
    normal = Normal(np.full(y.size, train.mean()), np.full(y.size, train.std()))
    expected = nll_loss(y, dist) - nll_loss(y, normal)
    assert mean_standardized_log_loss(y, dist, y_train=train) == pytest.approx(expected, rel=1e-12)


@BOTH
def test_one_row_of_reference_stands_for_all(metric, forecast):
    y, dist = forecast
    one = StudentT([0.3], [4.0], df=5.0)
    each = StudentT(np.full(y.size, 0.3), np.full(y.size, 4.0), df=5.0)
    weight = np.random.default_rng(0).integers(0, 3, size=y.size)
    for options in ({}, {"sample_weight": weight}):
        value = metric(y, dist, reference=one, **options)
        assert value == pytest.approx(metric(y, dist, reference=each, **options), rel=1e-12)
        assert metric(y, dist, reference=dist, **options) == pytest.approx(0, abs=1e-14)
    frozen = stats.t(5.0, 0.3, 4.0)
    assert metric(y, dist, reference=frozen) == pytest.approx(metric(y, dist, reference=one), rel=1e-9)


@BOTH
def test_reference_is_required_once(metric, forecast, train):
    for options, error, message in (
        ({}, TypeError, "exactly one of `y_train` and `reference` must be given, got neither"),
        ({"y_train": train, "reference": forecast[1]}, TypeError, "got both"),
        ({"reference": forecast[1][:3]}, ValueError, "`reference` must have 600 rows or one row, got 3"),
        ({"y_train": [1.0, np.nan]}, ValueError, "`y_train` must be finite"),
        ({"reference": np.zeros((600, 2))}, TypeError, r"Normal\(reference\[:, 0\], reference\[:, 1\]\)"),
    ):
        with pytest.raises(error, match=message):
            metric(*forecast, **options)


def test_constant_training_targets(forecast):
    y, dist = forecast
    expected = 1 - crps_loss(y, dist) / np.mean(np.abs(y - 1))
    assert crps_skill_score(y, dist, y_train=[1.0, 1.0]) == pytest.approx(expected)
    with pytest.raises(ValueError, match="`y_train` must contain different values, got 1 in every row"):
        mean_standardized_log_loss(y, dist, y_train=[1.0, 1.0])
    with pytest.raises(NoDensityError):
        mean_standardized_log_loss(y, dist, reference=Normal([1.0], [0.0]))


def test_references_and_forecasts_without_error(train):
    y = np.array([1.0, 1.0])
    assert crps_skill_score(y, Normal(y, np.zeros(2)), y_train=[1.0]) == 0
    assert crps_skill_score(y, Normal(y, np.ones(2)), y_train=[1.0]) == -np.inf
    y = np.array([0.3, 4.0])
    assert crps_skill_score(y, Normal(y, np.zeros(2)), y_train=train) == 1
    bounded = stats.uniform([0.0, 0.0], [1.0, 1.0])
    assert mean_standardized_log_loss([2.0, 0.5], bounded, reference=bounded) == np.inf


@pytest.mark.parametrize("name", ["crpss", "msll"])
def test_scorers_are_made_with_the_reference_and_not_ready(name):
    X, y = make_regression(n_samples=60, n_features=3, noise=5.0, random_state=0)
    assert not {name, f"neg_{name}"} & set(get_scorer_names())
    with pytest.raises(
        ValueError,
        match=rf"a predefined scorer, got .* Use make_scorer\('{name}', y_train=...\) or "
        rf"make_scorer\('{name}', reference=...\)",
    ):
        get_scorer(name)
    with pytest.raises(TypeError, match="exactly one of 'y_train' and 'reference', got neither"):
        make_scorer(name)
    with pytest.raises(TypeError, match="got 'y_train' and 'reference'"):
        make_scorer(name, y_train=y, reference=Normal([0.0], [1.0]))
    for options in ({"y_train": y}, {"reference": Normal([0.0], [50.0])}):
        scorer = make_scorer(name, **options)
        scores = cross_val_score(BayesianRidge(), X, y, scoring=scorer, cv=3, error_score="raise")
        assert (scores > 0.5).all()  # higher is better for both, the sign of the loss changed
        assert scorer.__name__ == ("crpss" if name == "crpss" else "neg_msll")
