"""Metrics under censoring: propriety, equality without censoring, peers and bad input."""

from itertools import product

import numpy as np
import pytest
import sklearn
from scipy.special import ndtr
from sklearn.model_selection import cross_val_score

from skuq._censoring import product_limit, step_masses
from skuq.distributions import Empirical, Normal, Transformed
from skuq.metrics import (
    crps_loss,
    make_scorer,
    nll_loss,
    prediction_interval_coverage,
    regression_calibration_curve,
    threshold_weighted_crps_loss,
)
from skuq.regressors import LeastSquaresRegressor
from skuq.survival import (
    CensoringWeightedRegressor,
    concordance_score,
    interval_coverage_bounds,
    ipcw_brier_loss,
    ipcw_crps_loss,
    kaplan_meier_curve,
    localized_crps_loss,
    survival_calibration_table,
)
from skuq.survival._calibration import pair_sums
from tests.survival.worlds import waiting_times

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
    dists = (Normal(world.loc[rows], factor * world.scale[rows]) for factor in FACTORS)
    assert FACTORS[np.argmin([SCORES[score](y, dist, event, ends) for dist in dists])] == 1.0


def test_the_best_scale_of_the_survival_crps_is_the_number_of_the_guide():
    """The score of Avati et al. (2020), which skuq does not offer, prefers too narrow forecasts.

    The simulation is that of docs/guides/how_to/waiting_times.py.
    """
    rng = np.random.default_rng(0)
    time = rng.normal(size=20000)
    end = rng.exponential(0.9, size=20000) - 0.8
    y, event, factors = np.minimum(time, end), time <= end, np.arange(0.5, 1.55, 0.05)
    forecasts = [Normal(np.zeros(20000), factor) for factor in factors]
    values = [np.mean(np.where(event, dist.crps(y), dist.clip(upper=y).crps(y))) for dist in forecasts]
    assert factors[np.argmin(values)] == pytest.approx(0.85)


def test_crps_under_censoring_estimates_the_score_of_uncensored_targets(world):
    dist = world.log_truth
    uncensored = threshold_weighted_crps_loss(np.log(world.time), dist, upper=UPPER)
    estimate = ipcw_crps_loss(np.log(world.y), dist, event=world.event, upper=UPPER)
    assert estimate == pytest.approx(uncensored, rel=0.02)
    # The localized score of unknown ends agrees with that of known ends.
    y, event, dist = np.log(world.y)[:3000], world.event[:3000], dist[:3000]
    known = localized_crps_loss(y, dist, event=event, censoring_time=np.log(world.censoring)[:3000])
    assert localized_crps_loss(y, dist, event=event) == pytest.approx(known, rel=0.02)


@pytest.mark.parametrize("event", [np.ones(6, dtype=bool), None])
def test_without_censored_rows_metrics_are_the_usual_ones(event):
    for given in ({}, {"sample_weight": np.arange(1.0, 7.0)}):
        both = {"event": event, **given}
        assert nll_loss(Y, DIST, **both) == nll_loss(Y, DIST, **given)
        assert localized_crps_loss(Y, DIST, **both) == crps_loss(Y, DIST, **given)
        twcrps = threshold_weighted_crps_loss(Y, DIST, upper=3.0, **given)
        assert ipcw_crps_loss(Y, DIST, upper=3.0, **both) == twcrps
        low, high, estimate = interval_coverage_bounds(Y, DIST, **both)
        assert low == high == prediction_interval_coverage(Y, DIST, **given)
        assert estimate == pytest.approx(low)
        below = (1 - DIST.cdf(np.full(6, 2.2)) - (Y > 2.2)) ** 2
        expected = np.average(below, weights=given.get("sample_weight"))
        assert ipcw_brier_loss(Y, DIST, time=2.2, **both) == pytest.approx(expected)
        curves = (regression_calibration_curve(Y, DIST, **each).observed for each in (both, given))
        np.testing.assert_array_equal(*curves)
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
    rows = np.repeat(np.arange(6), weight)
    ends = np.where(EVENT, Y + 1, Y)
    for metric, options in (
        (nll_loss, {}),
        (ipcw_crps_loss, {"upper": 3.0}),
        (ipcw_brier_loss, {"time": 2.2}),
        (localized_crps_loss, {}),
        (localized_crps_loss, {"censoring_time": ends}),
        (concordance_score, {}),
        (interval_coverage_bounds, {}),
    ):
        weighted = metric(Y, DIST, event=EVENT, sample_weight=weight, **options)
        of_rows = {name: np.repeat(each, weight) if each is ends else each for name, each in options.items()}
        repeated = metric(Y[rows], DIST[rows], event=EVENT[rows], **of_rows)
        assert weighted == pytest.approx(repeated), metric.__name__


def test_nll_and_coverage_of_bounds():
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
    bounds = {"lower": [-1.0, -3.0, 0.0, 0.0], "upper": [1.0, 0.0, 0.0, 9.0]}
    assert interval_coverage_bounds(np.zeros(4), Normal(np.zeros(4), 1.0), **bounds)[:2] == (0.5, 1.0)


@pytest.mark.laws
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
    dist = Normal(world.loc, 0.8)
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


@pytest.mark.laws
def test_concordance_is_that_of_lifelines():
    utils = pytest.importorskip("lifelines.utils")
    rng = np.random.default_rng(0)
    y, event = rng.integers(1, 9, size=80).astype(float), rng.random(80) < 0.5
    point = rng.integers(1, 6, size=80).astype(float)
    ours = concordance_score(y, Normal(point, 1.0), event=event)
    assert ours == pytest.approx(utils.concordance_index(y, point, event), rel=1e-12)


def pair_sums_of_all_pairs(y, point, event, weight, upper, ipcw):
    """Return the sums of the definition, with one comparison for each pair of rows."""
    pair = product_limit(y, event, weight, of_censoring=True).before(y) ** -2.0 if ipcw else np.ones(y.size)
    first = (event & (y < upper))[:, np.newaxis]
    later = first & ((y > y[:, np.newaxis]) | ((y == y[:, np.newaxis]) & ~event))
    in_order = later * ((point > point[:, np.newaxis]) + 0.5 * (point == point[:, np.newaxis]))
    return [
        pair * (pairs @ weight) + (pair * weight * first[:, 0]) @ pairs for pairs in (in_order, later * 1.0)
    ]


def test_pairs_are_counted_as_in_the_definition():
    rng = np.random.default_rng(0)
    for n, values, ipcw in product((1, 2, 7, 40), (2, 6, 1000), (False, True)):
        y, point = rng.integers(1, values, size=(2, n)).astype(float)
        event, upper = rng.random(n) < 0.6, rng.choice([np.inf, values / 2])
        whole = rng.integers(1, 4, size=n).astype(float)
        for weight in (np.ones(n), whole, rng.random(n)):
            found = pair_sums(y, point, event, weight, upper=upper, ipcw=ipcw)
            expected = pair_sums_of_all_pairs(y, point, event, weight, upper, ipcw)
            if ipcw or weight is not whole:
                np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
            else:
                np.testing.assert_array_equal(found, expected)


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


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (nll_loss, {}),
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
        inner = LeastSquaresRegressor().set_fit_request(sample_weight=True)
        values = cross_val_score(
            CensoringWeightedRegressor(inner).set_fit_request(event=True, sample_weight=False),
            small.X, y, scoring=scorer.set_score_request(event=True), cv=3,
            params={"event": small.event}, error_score="raise",
        )  # fmt: skip
    model = CensoringWeightedRegressor(LeastSquaresRegressor())
    model.fit(small.X[30:], y[30:], event=small.event[30:])
    expected = metric(y[:30], model.predict_dist(small.X[:30]), event=small.event[:30], **options)
    assert values[0] == pytest.approx(sign * expected)


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


def test_bad_events_and_targets_are_refused():
    for metric, options in METRICS:
        with pytest.raises(TypeError, match="`event` must be boolean"):
            metric(Y, DIST, event=EVENT.astype(int), **options)
        with pytest.raises(ValueError, match="`event` must have 6 rows"):
            metric(Y, DIST, event=EVENT[:3], **options)
        with pytest.raises(ValueError, match="`y_true` must be finite, got nan"):
            metric(np.where(Y > 3.7, np.nan, Y), DIST, event=EVENT, **options)
    for metric in (concordance_score, interval_coverage_bounds, regression_calibration_curve):
        with pytest.raises(ValueError, match="all 6 targets are censored"):
            metric(Y, DIST, event=np.zeros(6, dtype=bool))
    for ends, message in (
        (Y - 1, "at least y for an observed row, got 3 and y = 4 at row 0"),
        (Y + 1, "must equal y for a censored row, got 2 and y = 1 at row 1"),
        (np.full(6, np.nan), "must not contain NaN"),
        (Y[:2], "must have 6 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            localized_crps_loss(Y, DIST, event=EVENT, censoring_time=ends)


def test_times_without_uncensored_rows_and_ensembles_are_refused():
    cut = EVENT & (Y < 4)  # the largest y is censored
    uncensored, pairs = "uncensored is 0", "no two rows are comparable"
    largest = "`time` must be at most the largest y of each bin, got 9"
    for metric, event, options, message in (
        (ipcw_crps_loss, cut, {"upper": 5.0}, rf"`upper` must be.*got 5.*{uncensored} after time 4"),
        (ipcw_brier_loss, cut, {"time": 4.0}, rf"`time` must be.*got 4.*{uncensored} from time 4 on"),
        (survival_calibration_table, cut, {"time": 9.0, "n_bins": 1}, largest),
        (concordance_score, Y == 4, {}, pairs),
        (concordance_score, EVENT, {"upper": 1.0}, rf"{pairs}.*below `upper` = 1"),
        (concordance_score, EVENT, {"ipcw": "uno"}, "`ipcw` must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            metric(Y, DIST, event=event, **options)
    members = Empirical(np.tile([1.0, 2.0, 3.0, 4.0], (6, 1)))
    assert ipcw_crps_loss(Y, members, event=EVENT, upper=3.0) > 0
    assert localized_crps_loss(Y, members, event=EVENT) > 0
    with pytest.raises(ValueError, match="density"):
        nll_loss(Y, members, event=EVENT)


def test_survival_tables_refuse_relative_weights():
    y, weight = np.arange(1.0, 9.0), np.full(8, 1 / 8)
    with pytest.raises(ValueError, match="counts repetitions"):
        survival_calibration_table(y, Normal(y, 1.0), time=4.0, sample_weight=weight)
