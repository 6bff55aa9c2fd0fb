"""Metrics under censoring: propriety, equality without censoring, peers and bad input."""

import numpy as np
import pytest
import sklearn
from scipy.special import ndtr
from sklearn.model_selection import cross_val_score

from skuq._censoring import step_masses
from skuq.censoring import kaplan_meier_curve
from skuq.distributions import Empirical, Normal, Transformed
from skuq.evaluation import bootstrap_interval
from skuq.metrics import (
    concordance_score,
    crps_loss,
    get_scorer,
    interval_coverage_bounds,
    ipcw_brier_loss,
    ipcw_crps_loss,
    localized_crps_loss,
    make_scorer,
    nll_loss,
    prediction_interval_coverage,
    regression_calibration_curve,
    survival_calibration_table,
    threshold_weighted_crps_loss,
)
from skuq.regressors import CensoringWeightedRegressor, LeastSquaresRegressor
from tests.censoring.worlds import waiting_times

FACTORS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0])
UPPER = 1.9
Y, EVENT = np.array([4.0, 1.0, 3.0, 2.0, 3.5, 1.5]), np.array([True, False, True, True, False, True])
DIST = Normal(np.array([3.0, 2.0, 2.5, 2.0, 3.0, 1.0]), np.full(6, 0.8))


@pytest.fixture(scope="module")
def world():
    return waiting_times(20_000, 5)


SCORES = {
    "nll": lambda y, dist, event, ends: nll_loss(y, dist, event=event),
    "ipcw_crps": lambda y, dist, event, ends: ipcw_crps_loss(y, dist, event=event, upper=UPPER),
    "ipcw_brier": lambda y, dist, event, ends: np.mean(
        [ipcw_brier_loss(y, dist, event=event, time=t) for t in (0.0, 0.5, 1.5)]
    ),
    "localized": lambda y, dist, event, ends: localized_crps_loss(y, dist, event=event, censoring_time=ends),
    "localized, unknown ends": lambda y, dist, event, ends: localized_crps_loss(y, dist, event=event),
}


@pytest.mark.parametrize("score", SCORES)
def test_scores_are_least_at_the_truth(world, score):
    rows = slice(8000) if score == "localized, unknown ends" else slice(None)
    y, event, ends = np.log(world.y)[rows], world.event[rows], np.log(world.censoring)[rows]
    values = [
        SCORES[score](y, Normal(world.loc[rows], factor * world.scale[rows]), event, ends)
        for factor in FACTORS
    ]
    assert FACTORS[np.argmin(values)] == 1.0


def test_the_survival_crps_would_not_be_proper(world):
    """The score of Avati et al. (2020), which skuq does not offer, prefers too narrow forecasts."""
    y, event = np.log(world.y), world.event

    def survival_crps(factor):
        dist = Normal(world.loc, factor * world.scale)
        return np.mean(np.where(event, dist.crps(y), dist.clip(upper=y).crps(y)))

    assert FACTORS[np.argmin([survival_crps(factor) for factor in FACTORS])] == 0.9


def test_the_best_scale_of_the_survival_crps_is_the_number_of_the_guide():
    """The simulation of docs/guides/how_to/waiting_times.py."""
    rng = np.random.default_rng(0)
    time = rng.normal(size=20000)
    end = rng.exponential(0.9, size=20000) - 0.8
    y, event, factors = np.minimum(time, end), time <= end, np.arange(0.5, 1.55, 0.05)
    forecasts = [Normal(np.zeros(20000), factor) for factor in factors]
    values = [np.mean(np.where(event, dist.crps(y), dist.clip(upper=y).crps(y))) for dist in forecasts]
    assert factors[np.argmin(values)] == pytest.approx(0.85)


def test_ipcw_crps_estimates_the_score_of_uncensored_targets(world):
    dist = world.log_truth
    uncensored = threshold_weighted_crps_loss(np.log(world.time), dist, upper=UPPER)
    estimate = ipcw_crps_loss(np.log(world.y), dist, event=world.event, upper=UPPER)
    assert estimate == pytest.approx(uncensored, rel=0.02)


def test_localized_crps_of_unknown_ends_agrees_with_known_ends(world):
    y, event, dist = np.log(world.y)[:3000], world.event[:3000], world.log_truth[:3000]
    known = localized_crps_loss(y, dist, event=event, censoring_time=np.log(world.censoring)[:3000])
    assert localized_crps_loss(y, dist, event=event) == pytest.approx(known, rel=0.02)


@pytest.mark.parametrize("event", [np.ones(6, dtype=bool), None])
def test_without_censored_rows_metrics_are_the_usual_ones(event):
    weight = np.arange(1.0, 7.0)
    for given in ({}, {"sample_weight": weight}):
        both = {"event": event, **given}
        assert nll_loss(Y, DIST, **both) == nll_loss(Y, DIST, **given)
        assert localized_crps_loss(Y, DIST, **both) == crps_loss(Y, DIST, **given)
        twcrps = threshold_weighted_crps_loss(Y, DIST, upper=3.0, **given)
        assert ipcw_crps_loss(Y, DIST, upper=3.0, **both) == twcrps
        low, high, estimate = interval_coverage_bounds(Y, DIST, **both)
        assert low == high == prediction_interval_coverage(Y, DIST, **given)
        assert estimate == pytest.approx(low)
        np.testing.assert_array_equal(
            regression_calibration_curve(Y, DIST, **both).observed,
            regression_calibration_curve(Y, DIST, **given).observed,
        )
        below = (1 - DIST.cdf(np.full(6, 2.2)) - (Y > 2.2)) ** 2
        assert ipcw_brier_loss(Y, DIST, time=2.2, **both) == pytest.approx(
            np.average(below, weights=given.get("sample_weight"))
        )
        for function, options in (
            (ipcw_brier_loss, {"time": 2.2}),
            (concordance_score, {}),
            (concordance_score, {"ipcw": True, "upper": 3.0}),
            (survival_calibration_table, {"time": 2.2, "n_bins": 2}),
        ):
            values = (function(Y, DIST, **each, **options) for each in (both, given))
            np.testing.assert_array_equal(*values)


def test_weights_count_repetitions():
    weight = np.array([2, 1, 3, 1, 2, 0])
    y, event, dist = (np.repeat(Y, weight), np.repeat(EVENT, weight), DIST[np.repeat(np.arange(6), weight)])
    for metric, options in (
        (nll_loss, {}),
        (ipcw_crps_loss, {"upper": 3.0}),
        (ipcw_brier_loss, {"time": 2.2}),
        (localized_crps_loss, {}),
        (concordance_score, {}),
    ):
        weighted = metric(Y, DIST, event=EVENT, sample_weight=weight, **options)
        assert weighted == pytest.approx(metric(y, dist, event=event, **options)), metric.__name__
    np.testing.assert_allclose(
        interval_coverage_bounds(Y, DIST, event=EVENT, sample_weight=weight),
        interval_coverage_bounds(y, dist, event=event),
    )
    ends = np.where(EVENT, Y + 1, Y)
    assert localized_crps_loss(
        Y, DIST, event=EVENT, sample_weight=weight, censoring_time=ends
    ) == pytest.approx(localized_crps_loss(y, dist, event=event, censoring_time=np.repeat(ends, weight)))


def test_nll_of_bounds_is_a_probability():
    lower, upper = [1.0, -np.inf, 2.0], [3.0, 1.5, 2.0]
    dist = Normal([2.0, 0.0, 1.0], [1.0, 2.0, 0.5])
    expected = [
        np.log(dist[0].cdf(3.0) - dist[0].cdf(1.0))[0],
        np.log(dist[1].cdf(1.5))[0],
        dist[2].logpdf(2.0)[0],
    ]
    assert nll_loss([2.0, 1.0, 2.0], dist, lower=lower, upper=upper) == pytest.approx(-np.mean(expected))
    far = nll_loss([50.0, 1.0], Normal([0.0, 0.0], [1.0, 1.0]), event=[False, True])
    assert far == pytest.approx((1254.831 + 1.4189) / 2, rel=1e-5)  # minus log of P(Z > 50) does not overflow


def test_coverage_of_bounds():
    dist = Normal(np.zeros(4), 1.0)
    result = interval_coverage_bounds(
        np.zeros(4), dist, lower=[-1.0, -3.0, 0.0, 0.0], upper=[1.0, 0.0, 0.0, 9.0]
    )
    assert result[:2] == (0.5, 1.0)


def test_brier_and_concordance_are_those_of_scikit_survival():
    peer = pytest.importorskip("sksurv.metrics")
    util = pytest.importorskip("sksurv.util")
    world = waiting_times(300, 3)
    dist = Transformed(Normal(0.7 * world.loc, 0.8), np.exp, np.log)
    y, event = world.y, world.event
    target, times = util.Surv.from_arrays(event, y), [1.0, 2.0, 4.0]
    survival = np.column_stack([1 - dist.cdf(np.full(300, t)) for t in times])
    _, brier = peer.brier_score(target, target, survival, times)
    ours = [ipcw_brier_loss(y, dist, time=t, event=event) for t in times]
    np.testing.assert_allclose(ours, brier, rtol=1e-12)
    rounded = np.round(y)  # with ties
    theirs = peer.concordance_index_censored(event, rounded, -dist.median())[0]
    assert concordance_score(rounded, dist, event=event) == pytest.approx(theirs, rel=1e-12)


def test_weighted_concordance_is_that_of_scikit_survival():
    peer = pytest.importorskip("sksurv.metrics")
    util = pytest.importorskip("sksurv.util")
    world = waiting_times(300, 3)
    dist, y, event = Normal(world.loc, 0.8), world.y, world.event
    target = util.Surv.from_arrays(event, y)
    for upper in (4.0, None):
        last = y.max() + 1 if upper is None else upper
        theirs = peer.concordance_index_ipcw(target, target, -world.loc, tau=upper)[0]
        ours = concordance_score(y, dist, event=event, ipcw=True, upper=last)
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_weighted_concordance_does_not_depend_on_the_censoring(world):
    rows = slice(4000)
    time, dist = world.time[rows], world.log_truth[rows]
    uncensored = concordance_score(time, dist, upper=5.0)
    ends = np.random.default_rng(0).exponential(1.5, size=4000) + 0.5  # Most long times are censored.
    y, event = np.minimum(time, ends), time <= ends
    harrell, uno = (concordance_score(y, dist, event=event, ipcw=ipcw, upper=5.0) for ipcw in (False, True))
    assert abs(uno - uncensored) < 0.012 < harrell - uncensored


def test_concordance_is_that_of_lifelines():
    utils = pytest.importorskip("lifelines.utils")
    rng = np.random.default_rng(0)
    y, event = rng.integers(1, 9, size=80).astype(float), rng.random(80) < 0.5
    point = rng.integers(1, 6, size=80).astype(float)
    ours = concordance_score(y, Normal(point, 1.0), event=event)
    assert ours == pytest.approx(utils.concordance_index(y, point, event), rel=1e-12)


def test_true_forecasts_are_calibrated(world):
    y, event, dist = np.log(world.y), world.event, world.log_truth
    curve = regression_calibration_curve(y, dist, event=event, levels=9)
    np.testing.assert_allclose(curve.observed, curve.levels, atol=0.02)
    low, high, estimate = interval_coverage_bounds(y, dist, event=event)
    assert low < 0.5
    assert high > 0.93
    assert estimate == pytest.approx(0.9, abs=0.015)
    table = survival_calibration_table(y, dist, event=event, time=1.0, n_bins=5)
    np.testing.assert_allclose(table["predicted"], table["observed"], atol=0.03)
    assert ((table["low"] <= table["observed"]) & (table["observed"] <= table["high"])).all()


def test_bins_of_survival_tables_have_equal_weight_and_exact_ends():
    """Values of issue 50."""
    y, dist = np.array([1.0, 5.0, 1.0, 5.0]), Normal(np.arange(4.0), np.ones(4))
    weighted = survival_calibration_table(y, dist, time=2.0, n_bins=2, sample_weight=[3, 1, 1, 1])
    np.testing.assert_allclose(weighted[["n_rows", "observed"]], [[3, 0], [3, 2 / 3]])
    # No row of the first bin exceeds the time; the interval is that of Clopper and Pearson for 0 of 3.
    np.testing.assert_allclose(weighted.loc[0, ["low", "high"]].astype(float), [0, 1 - 0.025 ** (1 / 3)])
    later = survival_calibration_table([3.0, 3.0, 3.0], dist[:3], time=2.0, n_bins=1)
    np.testing.assert_allclose(later[["observed", "low", "high"]], [[1, 0.025 ** (1 / 3), 1]])
    # Rows with equal predictions are divided between bins, whatever their order.
    tied = Normal(np.repeat([0.0, 1.0, 2.0], [2, 4, 2]), np.ones(8))
    y = np.array([1.0, 5.0, 1.0, 1.0, 5.0, 5.0, 1.0, 5.0])
    for order in (np.arange(8), np.arange(8)[::-1]):
        table = survival_calibration_table(y[order], tied[order], time=2.0, n_bins=2)
        np.testing.assert_allclose(table[["n_rows", "observed"]], [[4, 0.5], [4, 0.5]])
    assert len(survival_calibration_table(y, tied, time=2.0, n_bins=9)) == 9  # more bins than rows


def test_the_curve_of_its_own_rows_is_calibrated():
    """The Kaplan-Meier curve has atoms, and an unknown tail if the last time is censored."""
    rng = np.random.default_rng(0)
    time, ends = rng.integers(1, 40, size=300), rng.integers(10, 30, size=300)
    y, event = np.minimum(time, ends).astype(float), time <= ends
    for known in (event, event | (y == y.max())):
        times, steps = step_masses(*(getattr(kaplan_meier_curve(y, known), a) for a in ("times", "survival")))
        dist = Empirical(np.tile(times, (300, 1)), steps)
        curve = regression_calibration_curve(y, dist, event=known, levels=[0.1, 0.3, 0.5, 0.7, 0.9])
        np.testing.assert_allclose(curve.observed, curve.levels, atol=1e-12)
        assert interval_coverage_bounds(y, dist, event=known).estimate == pytest.approx(0.9)


def test_coverage_of_left_censored_targets():
    """Values below a limit of detection: their PIT values are spread evenly up to the limit."""
    time = np.random.default_rng(0).normal(size=4000)
    limit = -0.5
    low, high = np.where(time < limit, -np.inf, time), np.where(time < limit, limit, time)
    known = 0.999 - ndtr(limit)  # the share of the targets between the limit and the upper bound
    for scale, expected in ((1.0, 0.9), (2.0, known + ndtr(limit) * (1 - 0.05 / ndtr(limit / 2)))):
        dist = Normal(np.zeros(4000), scale)
        estimate = interval_coverage_bounds(high, dist, lower=low, upper=high).estimate
        assert estimate == pytest.approx(expected, abs=0.02)


def test_a_resampling_of_censored_rows():
    score = bootstrap_interval(
        Y, DIST, ipcw_crps_loss, options={"event": EVENT, "upper": 3.0}, n_resamples=50, random_state=0
    )
    assert score.value == ipcw_crps_loss(Y, DIST, event=EVENT, upper=3.0)
    assert score.low < score.value < score.high


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (ipcw_crps_loss, {"upper": 1.5}),
        (ipcw_brier_loss, {"time": 1.0}),
        (localized_crps_loss, {}),
        (concordance_score, {"upper": 1.5, "ipcw": True}),
    ],
)
def test_censored_scores_are_scorers_of_searches(metric, options):
    small = waiting_times(90, 0)
    y = np.log(small.y)
    sign = 1 if metric is concordance_score else -1
    scorer = make_scorer(metric, greater_is_better=sign > 0, **options)
    with sklearn.config_context(enable_metadata_routing=True):
        values = cross_val_score(
            CensoringWeightedRegressor(LeastSquaresRegressor().set_fit_request(sample_weight=True))
            .set_fit_request(event=True, sample_weight=False),
            small.X, y, scoring=scorer.set_score_request(event=True), cv=3,
            params={"event": small.event}, error_score="raise",
        )  # fmt: skip
    model = CensoringWeightedRegressor(LeastSquaresRegressor())
    model.fit(small.X[30:], y[30:], event=small.event[30:])
    expected = metric(y[:30], model.predict_dist(small.X[:30]), event=small.event[:30], **options)
    assert values[0] == pytest.approx(sign * expected)


def test_scorers_take_events_by_metadata_routing():
    X = Y[:, np.newaxis]
    model = LeastSquaresRegressor().fit(X, Y + np.array([0.1, -0.1, 0.0, 0.2, -0.3, 0.1]))
    own = make_scorer(ipcw_crps_loss, greater_is_better=False, upper=3.0)
    with sklearn.config_context(enable_metadata_routing=True):
        for scorer, metric in (
            (get_scorer("neg_nll"), nll_loss),
            (own, lambda y, dist, event: ipcw_crps_loss(y, dist, event=event, upper=3.0)),
        ):
            value = scorer.set_score_request(event=True)(model, X, Y, event=EVENT)
            assert value == -metric(Y, model.predict_dist(X), event=EVENT)


METRICS = [
    (nll_loss, {}),
    (ipcw_crps_loss, {"upper": 2.0}),
    (ipcw_brier_loss, {"time": 2.0}),
    (localized_crps_loss, {}),
    (concordance_score, {}),
    (interval_coverage_bounds, {}),
    (regression_calibration_curve, {}),
    (survival_calibration_table, {"time": 2.0, "n_bins": 1}),
]


@pytest.mark.parametrize(("metric", "options"), METRICS)
def test_bad_events_and_targets_are_refused(metric, options):
    with pytest.raises(TypeError, match="`event` must be boolean"):
        metric(Y, DIST, event=EVENT.astype(int), **options)
    with pytest.raises(ValueError, match="`event` must have 6 rows"):
        metric(Y, DIST, event=EVENT[:3], **options)
    with pytest.raises(ValueError, match="`y_true` must be finite, got nan"):
        metric(np.where(Y > 3.7, np.nan, Y), DIST, event=EVENT, **options)


@pytest.mark.parametrize(
    "metric", [concordance_score, interval_coverage_bounds, regression_calibration_curve]
)
def test_a_metric_of_events_needs_one(metric):
    with pytest.raises(ValueError, match="all 6 targets are censored"):
        metric(Y, DIST, event=np.zeros(6, dtype=bool))


def test_times_without_uncensored_rows_are_refused():
    event = EVENT & (Y < 4)  # the largest y is censored
    with pytest.raises(ValueError, match=r"`upper` must be.*got 5.*uncensored is 0 after time 4"):
        ipcw_crps_loss(Y, DIST, event=event, upper=5.0)
    with pytest.raises(ValueError, match=r"`time` must be.*got 4.*uncensored is 0 from time 4 on"):
        ipcw_brier_loss(Y, DIST, event=event, time=4.0)
    with pytest.raises(ValueError, match="`time` must be at most the largest y of each bin, got 9"):
        survival_calibration_table(Y, DIST, event=event, time=9.0, n_bins=1)
    with pytest.raises(ValueError, match="no two rows are comparable"):
        concordance_score(Y, DIST, event=Y == 4)
    with pytest.raises(ValueError, match=r"no two rows are comparable.*below `upper` = 1"):
        concordance_score(Y, DIST, event=EVENT, upper=1.0)
    with pytest.raises(ValueError, match="`ipcw` must be one of"):
        concordance_score(Y, DIST, event=EVENT, ipcw="uno")


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (Y - 1, "at least y for an observed row, got 3 and y = 4 at row 0"),
        (Y + 1, "must equal y for a censored row, got 2 and y = 1 at row 1"),
        (np.full(6, np.nan), "must not contain NaN"),
        (Y[:2], "must have 6 rows"),
    ],
)
def test_contradicting_censoring_times_are_refused(ends, message):
    with pytest.raises(ValueError, match=message):
        localized_crps_loss(Y, DIST, event=EVENT, censoring_time=ends)


def test_ensembles_have_no_nll_but_a_crps():
    members = Empirical(np.tile([1.0, 2.0, 3.0, 4.0], (6, 1)))
    assert ipcw_crps_loss(Y, members, event=EVENT, upper=3.0) > 0
    assert localized_crps_loss(Y, members, event=EVENT) > 0
    with pytest.raises(ValueError, match="density"):
        nll_loss(Y, members, event=EVENT)
