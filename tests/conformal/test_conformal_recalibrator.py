"""Normalized split conformal prediction: its ranks, its groups, its guarantee by simulation, and crepes."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skuq import RecalibratedRegressor, UncertaintyRegressor, get_scorer, predict_dist
from skuq.conformal import ConformalRecalibrator
from skuq.conformal._conformal_recalibrator import equal_count_edges
from skuq.distributions import Normal, StudentT
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.evaluation import uncertainty_report
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import (
    crps_loss,
    interval_score_loss,
    pinball_loss,
    prediction_interval_coverage,
    weighted_interval_score_loss,
)
from skuq.regressors import LeastSquaresRegressor
from tests.metrics.options import forecast_specs

either_side = pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "signed"])


def make_rows(n, seed=0):
    """Predictions that are too narrow, and skewed noise around them."""
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=n), 0.3 + rng.random(n)
    return Normal(loc, scale / 2), loc + scale * (rng.gamma(3.0, size=n) - 2.5)


def by_sign(dist):
    return np.where(dist.mean() > 0, "high", "low")


def by_thirds(dist):
    return np.digitize(dist.mean(), [-0.4, 0.4])


# --------------------------------------------------------------------------------- definition


def test_the_interval_is_the_mean_and_as_many_standard_deviations_as_it_takes():
    new = make_rows(5, seed=1)[0]
    for n in (9, 20, 57):
        dist, y = make_rows(n)
        fitted = ConformalRecalibrator().fit(dist, y)
        z = np.sort(np.abs(y - dist.mean()) / dist.std())
        half = z[math.ceil((n + 1) * 0.9) - 1] * new.std()
        expected = np.column_stack([new.mean() - half, new.mean() + half])
        assert_allclose(fitted.transform(new).interval(0.9), expected, rtol=1e-12)
        # of another family, only the moments matter
        heavy = StudentT(new.loc, new.scale * np.sqrt(3 / 5), 5)
        assert_allclose(fitted.transform(heavy).interval(0.9), expected, rtol=1e-10)


def test_the_symmetric_one_keeps_the_point_prediction_and_the_signed_one_mends_it():
    dist, y = make_rows(500)
    assert_array_equal(ConformalRecalibrator().fit(dist, y).predict(dist), dist.mean())
    recalibrated = ConformalRecalibrator(symmetric=False).fit(dist, y)
    z = (y - dist.mean()) / dist.std()
    assert_allclose(recalibrated.predict(dist), dist.mean() + z.mean() * dist.std())
    lower, upper = recalibrated.transform(dist).interval(0.9).T
    assert_allclose([np.mean(y < lower), np.mean(y > upper)], 0.05, atol=0.003)


def test_too_few_rows_are_said():
    dist, y = make_rows(7)
    recalibrated = ConformalRecalibrator().fit(dist, y).transform(dist)
    with pytest.warns(SmallSampleWarning, match="90 % needs at least 9 calibration rows, got 7"):
        assert np.isinf(recalibrated.interval(0.9)).all()
    with pytest.warns(SmallSampleWarning, match="needs at least 19 calibration rows, got 7"):
        ConformalRecalibrator(symmetric=False).fit(dist, y).transform(dist).interval(0.9)
    assert np.isfinite(recalibrated.interval(0.8)).all()


# ------------------------------------------------------------------------------------- groups


def test_each_group_is_judged_by_its_own_rows():
    dist, y = make_rows(80)
    new = make_rows(30, seed=1)[0]
    fitted = ConformalRecalibrator(group_by=by_sign).fit(dist, y)
    both = fitted.transform(new)
    labels, new_labels = by_sign(dist), by_sign(new)
    assert fitted.group_sizes_ == {label: (labels == label).sum() for label in ("high", "low")}
    for label in ("high", "low"):
        rows, new_rows = labels == label, new_labels == label
        alone = ConformalRecalibrator().fit(dist[rows], y[rows]).transform(new[new_rows])
        assert_array_equal(both.interval([0.5, 0.9])[new_rows], alone.interval([0.5, 0.9]))
        assert_array_equal(both.std()[new_rows], alone.std())
    assert type(fitted.transform(new[new_labels == "low"])) is ConformalPredictive


def test_labels_may_be_of_any_kind():
    dist, y = make_rows(80)
    expected = ConformalRecalibrator(group_by=by_sign).fit(dist, y).transform(dist).interval()
    for labels_of in (
        lambda dist: dist.mean() > 0,
        lambda dist: pd.Series(by_sign(dist), dtype="category"),
        lambda dist: by_sign(dist).astype(object),
        lambda dist: (dist.mean() > 0).astype(float)[:, np.newaxis],
        lambda dist: list(by_sign(dist)),
    ):
        fitted = ConformalRecalibrator(group_by=labels_of).fit(dist, y)
        assert_array_equal(fitted.transform(dist).interval(), expected)


def test_an_int_makes_bins_of_the_standard_deviation():
    dist, y = make_rows(303)
    fitted = ConformalRecalibrator(group_by=3).fit(dist, y)
    assert fitted.edges_.shape == (2,)
    assert list(fitted.group_sizes_.values()) == [101, 101, 101]
    by_edge = ConformalRecalibrator(group_by=lambda d: np.digitize(d.std(), fitted.edges_)).fit(dist, y)
    assert_array_equal(fitted.transform(dist).interval(), by_edge.transform(dist).interval())
    one = ConformalRecalibrator(group_by=1).fit(dist, y).transform(dist).interval()
    assert_array_equal(one, ConformalRecalibrator().fit(dist, y).transform(dist).interval())
    equal = ConformalRecalibrator(group_by=5).fit(Normal(dist.mean(), 1.0), y)
    assert equal.group_sizes_ == {0: 303}


def test_edges_of_the_bins():
    assert_array_equal(equal_count_edges(np.array([1.0, 2, 3, 4, 5, 6]), 3, None), [2.5, 4.5])
    assert_array_equal(equal_count_edges(np.array([4.0, 1, 2, 3]), 2, np.array([1.0, 5, 1, 1])), [1.5])
    assert_array_equal(equal_count_edges(np.full(9, 0.1) * (1 + 1e-13 * np.arange(9)), 4, None), [])
    assert_array_equal(equal_count_edges(np.repeat([1.0, 3.0], [9, 1]), 5, None), [2.0])
    assert_array_equal(equal_count_edges(np.arange(3.0), 10, None), [0.5, 1.5])


def test_a_new_or_small_group_raises_or_is_calibrated_by_all():
    dist, y = make_rows(60)
    new = Normal([-9.0, 0.0, 9.0], 1.0)

    def labels_of(predictions):
        return np.where(
            np.abs(predictions.mean()) > 5, "far", np.where(predictions.mean() > 1.5, "rare", "common")
        )

    rare = int((labels_of(dist) == "rare").sum())
    assert 0 < rare < 10
    message = f"labels with at least 10 calibration rows .*, got the label 'rare'.* with {rare} "
    with pytest.raises(ValueError, match=message):
        ConformalRecalibrator(group_by=labels_of).fit(dist, y)
    lenient = ConformalRecalibrator(group_by=labels_of, min_group_size=1).fit(dist, y)
    assert lenient.group_sizes_["rare"] == rare
    with pytest.raises(ValueError, match="got the label 'far' at row 0 with 0"):
        lenient.transform(new)

    pooled = ConformalRecalibrator(group_by=labels_of, rare_groups="pool").fit(dist, y)
    everything = ConformalRecalibrator().fit(dist, y).transform(new)
    assert_array_equal(pooled.transform(new).interval()[[0, 2]], everything.interval()[[0, 2]])
    assert (pooled.transform(new).interval()[1] != everything.interval()[1]).any()
    assert_array_equal(
        pooled.transform(Normal(2.0, 1.0)).std(),
        ConformalRecalibrator().fit(dist, y).transform(Normal(2.0, 1.0)).std(),
    )


def test_the_size_of_a_group_counts_repetitions_and_too_small_groups_warn_once():
    dist, y = make_rows(12)
    halves = np.arange(12) % 2

    def labels_of(predictions):
        return halves[: len(predictions)]

    with pytest.raises(ValueError, match="with 6 calibration rows"):
        ConformalRecalibrator(group_by=labels_of).fit(dist, y)
    fitted = ConformalRecalibrator(group_by=labels_of, symmetric=False)
    fitted.fit(dist, y, sample_weight=np.full(12, 2.0))
    assert fitted.group_sizes_ == {0: 12.0, 1: 12.0}
    with pytest.warns(SmallSampleWarning, match="95 % needs at least 39 calibration rows") as caught:
        fitted.transform(dist).interval(0.95)
    assert len(caught) == 1


# ---------------------------------------------------------------------------------- bad input


BAD_PARAMETERS = [
    ({"symmetric": "yes"}, ValueError, "`symmetric` must be one of True, False"),
    ({"group_by": 2.5}, TypeError, "`group_by` must be an integer"),
    ({"group_by": 0}, ValueError, "`group_by` must be at least 1"),
    ({"group_by": True}, TypeError, "`group_by` must be an integer"),
    ({"rare_groups": "drop"}, ValueError, "`rare_groups` must be one of 'raise', 'pool'"),
    ({"min_group_size": 0}, ValueError, "`min_group_size` must be at least 1"),
    ({"min_group_size": 5}, ValueError, "`min_group_size` must be 10 without `group_by`, got 5"),
    ({"rare_groups": "pool"}, ValueError, "`rare_groups` must be 'raise' without `group_by`"),
    ({"min_group_size": 2.0}, TypeError, "`min_group_size` must be an integer"),
    ({"group_by": lambda dist: [1, 2]}, ValueError, "must give one label per row"),
    ({"group_by": "column"}, TypeError, "an integer number of bins, a callable or None, got 'column'"),
    ({"group_by": lambda dist: "a"}, ValueError, "must give one label per row"),
    ({"group_by": lambda dist: np.full(len(dist), np.nan)}, ValueError, "a label for every row, got nan"),
    ({"group_by": lambda dist: [None] * len(dist)}, ValueError, "label for every row, got None at row 0"),
]


def test_bad_parameters_are_named(subtests):
    dist, y = make_rows(30)
    for parameters, error, message in BAD_PARAMETERS:
        with subtests.test(msg=str(parameters)), pytest.raises(error, match=message):
            ConformalRecalibrator(**parameters).fit(dist, y)


def test_rows_without_a_standardized_residual():
    with pytest.raises(ValueError, match=r"finite number of standard deviations. At row 0"):
        ConformalRecalibrator().fit(Normal([0.0], [1e-300]), [1e200])
    exact = ConformalRecalibrator().fit(Normal([0.0, 1.0, 2.0], [1.0, 0.0, 1.0]), [0.5, 1.0, 1.0])
    assert_allclose(exact.transform(Normal(0.0, 2.0)).interval(0.5), [[-1.0, 1.0]])
    assert_array_equal(exact.transform(Normal(3.0, 0.0)).interval(0.5), [[3.0, 3.0]])
    for error in (1e-9, -4e-7):  # off by rounding counts as exact
        dist = Normal(np.r_[np.full(30, 5.0 + error), np.full(70, 5.0)], np.repeat([0.0, 1.0], [30, 70]))
        y = np.r_[np.full(30, 5.0), np.random.default_rng(0).normal(5, 1, size=70)]
        assert np.isfinite(ConformalRecalibrator().fit(dist, y).transform(dist).interval()).all()


# ------------------------------------------------------------------------------------- crepes


def unequal_levels(n):
    """Coverages whose ranks are not whole, where rounding has no say."""
    return [c for c in (0.11, 0.331, 0.5123, 0.777, 0.8911, 0.953) if (n + 1) * (1 + c) / 2 % 1 > 1e-6]


@pytest.mark.parametrize("n", [60, 501])
def test_intervals_and_quantiles_are_those_of_crepes(n):
    crepes = pytest.importorskip("crepes")
    (dist, y), (new, _) = make_rows(n), make_rows(40, seed=1)
    residuals, same = y - dist.mean(), {"rtol": 1e-12, "atol": 1e-12}
    for symmetric, family in ((True, crepes.ConformalRegressor), (False, crepes.ConformalPredictiveSystem)):
        peer = family().fit(residuals, sigmas=dist.std())
        ours = ConformalRecalibrator(symmetric=symmetric).fit(dist, y).transform(new)
        for coverage in unequal_levels(n):
            expected = peer.predict_int(new.mean(), sigmas=new.std(), confidence=coverage)
            assert_allclose(ours.interval(coverage), expected, **same)
        grouped = family().fit(residuals, sigmas=dist.std(), bins=by_thirds(dist))
        mondrian = ConformalRecalibrator(symmetric=symmetric, group_by=by_thirds, min_group_size=1)
        mondrian = mondrian.fit(dist, y).transform(new)
        for coverage in (0.331, 0.777, 0.8911)[: 3 if n > 60 else 1]:
            expected = grouped.predict_int(new.mean(), new.std(), by_thirds(new), confidence=coverage)
            assert_allclose(mondrian.interval(coverage), expected, **same)
    low, high = [3.21, 14.3, 47.7], [52.9, 81.23, 96.4]
    expected = peer.predict_percentiles(new.mean(), new.std(), lower_percentiles=low, higher_percentiles=high)
    assert_allclose(ours.quantile(np.array([*low, *high]) / 100), expected, **same)


def test_crepes_loses_a_rank_to_rounding_and_we_do_not():
    """int((1 - 0.9) * 10) is 0: crepes calls nine rows too few for 90 % and takes one rank too many at 19."""
    crepes = pytest.importorskip("crepes")
    for n, theirs, right in ((9, np.inf, 9.0), (19, 19.0, 18.0)):
        z = np.arange(1.0, n + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "too small"
            peer = crepes.ConformalRegressor().fit(z).predict_int(np.zeros(1), confidence=0.9)
        assert_array_equal(peer, [[-theirs, theirs]])
        ours = ConformalRecalibrator().fit(Normal(0 * z, 1.0), z).transform(Normal([0.0], 1.0))
        assert_array_equal(ours.interval(0.9), [[-right, right]])


# -------------------------------------------------------------------------- guarantee, simulated


def ranks_inside(n, coverage, symmetric):
    """Number of the n + 1 places between order statistics that lie inside the interval."""
    if symmetric:
        return math.ceil((n + 1) * coverage - 1e-9)
    upper = math.ceil((n + 1) * (1 + coverage) / 2 - 1e-9)
    return upper - (n + 1 - upper)


@pytest.mark.laws
@either_side
def test_bins_of_the_standard_deviation_cover_in_each_of_them(symmetric):
    """Edges learned from the same rows cost no more than about one row's weight in any bin."""
    rng = np.random.default_rng(2)
    n_cal, n_test, n_bins, coverage = 120, 300, 3, 0.8
    hits, tested = np.zeros(n_bins), np.zeros(n_bins)
    for _ in range(200):
        n = n_cal + n_test
        scale = np.exp(rng.normal(size=n))
        y = scale**1.5 * rng.normal(size=n)  # no factor mends this
        dist = Normal(np.zeros(n), scale)
        fitted = ConformalRecalibrator(symmetric=symmetric, group_by=n_bins).fit(dist[:n_cal], y[:n_cal])
        low, high = fitted.transform(dist[n_cal:]).interval(coverage).T
        place = np.digitize(scale[n_cal:], fitted.edges_)
        hits += np.bincount(place, (low <= y[n_cal:]) & (y[n_cal:] <= high), n_bins)
        tested += np.bincount(place, minlength=n_bins)
    expected = ranks_inside(n_cal // n_bins, coverage, symmetric) / (n_cal // n_bins + 1)
    assert_allclose(hits / tested, expected, atol=0.02)


# --------------------------------------------------------------------------------- end to end


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(900, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + (0.1 + 0.4 * np.abs(X[:, 0])) * rng.normal(size=900)
    return X[:600], X[600:], y[:600], y[600:]


def test_in_recalibrated_regressor_with_groups_and_a_report(rows):
    X, X_new, y, y_new = rows
    model = RecalibratedRegressor(
        LeastSquaresRegressor(), ConformalRecalibrator(group_by=3), random_state=0
    ).fit(X, y)
    dist = pickle.loads(pickle.dumps(model)).predict_dist(X_new)
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.05)
    assert_allclose(model.predict_interval(X_new, [0.5, 0.9]), dist.interval([0.5, 0.9]))
    dist, y_new = dist[:60], y_new[:60]
    report = uncertainty_report(y_new, dist, n_resamples=0, n_draws=0, random_state=0)
    assert list(report.index[report["value"].isna()]) == ["nll"]  # it alone needs a density
    assert np.isfinite(report["value"].dropna()).all()
    assert report.loc["crps", "value"] == pytest.approx(crps_loss(y_new, dist))


@pytest.mark.laws
@pytest.mark.parametrize("name", ["gal/gal_concrete", "gal/gal_power", "paper001/airfoil_self_noise"])
def test_real_data_are_covered_behind_a_forest(shared_data, name):
    data = shared_data(name)
    X, y = data.select_dtypes("number").iloc[:, :-1].to_numpy(), data.iloc[:, -1].to_numpy(float)
    for options in ({}, {"symmetric": False}, {"group_by": 3}):
        achieved = []
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(y))[:1000]
            train, test = order[:500], order[500:]
            forest = RandomForestRegressor(20, min_samples_leaf=3, random_state=seed)
            model = make_pipeline(
                UncertaintyRegressor(forest, method="bootstrap", random_state=seed),
                ConformalRecalibrator(**options),
            ).fit(X[train], y[train])
            dist = predict_dist(model, X[test])
            achieved.append([prediction_interval_coverage(y[test], dist, coverage=c) for c in (0.5, 0.9)])
        assert_allclose(np.mean(achieved, axis=0), [0.5, 0.9], atol=0.05, err_msg=str(options))


def test_a_search_by_crps_gives_no_warning_with_few_rows(rows):
    X, _, y, _ = rows
    search = GridSearchCV(
        make_pipeline(LeastSquaresRegressor(), ConformalRecalibrator()),
        {"conformalrecalibrator__symmetric": [True, False]},
        scoring=get_scorer("neg_crps"),
        cv=2,
        error_score="raise",
    ).fit(X[:24], y[:24])
    assert np.isfinite(search.best_score_)
    with pytest.warns(SmallSampleWarning, match="98 % needs at least"):
        predict_dist(search, X).interval(0.98)


def test_a_frozen_model_and_held_out_rows_have_the_guarantee(rows):
    """The exact case: k of n + 1, to the row."""
    X, X_new, y, y_new = rows
    frozen = FrozenEstimator(LeastSquaresRegressor().fit(X, y))
    z_new = np.abs(y_new - predict_dist(frozen, X_new).mean()) / predict_dist(frozen, X_new).std()
    model = RecalibratedRegressor(frozen, ConformalRecalibrator()).fit(X_new[:99], y_new[:99])
    dist = predict_dist(frozen, X_new[99:])
    expected = dist.mean() + dist.std() * np.sort(z_new[:99])[89]
    assert_allclose(model.predict_interval(X_new[99:])[:, 1], expected, rtol=1e-10)


def test_equal_rows_are_not_lost_to_rounding():
    """Counts around a constant: the bound is one of the counts, and all rows of that count touch it."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        dist = Normal(np.full(100, rng.normal(2, 1)), rng.uniform(0.3, 2))
        y = rng.poisson(2, size=100)
        lower, upper = ConformalRecalibrator().fit(dist, y).transform(dist).interval(0.9).T
        assert np.mean((lower <= y) & (y <= upper)) >= 0.9


@pytest.mark.parametrize("symmetric", [True, pytest.param(False, marks=pytest.mark.laws)])
def test_a_report_on_very_few_rows_warns_once_and_knows_no_nan(symmetric):
    dist, y = make_rows(60)
    few = ConformalRecalibrator(symmetric=symmetric).fit(dist[:7], y[:7]).transform(dist[7:])
    with pytest.warns(SmallSampleWarning, match="90 % needs at least") as caught:
        report = uncertainty_report(y[7:], few, n_resamples=5, n_draws=5, random_state=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert report.loc["nll", "reading"].startswith("not defined: this ConformalPredictive")
    # the parts of the CRPS are not resampled
    numbers = report.drop(index=["nll", *(name for name in report.index if name.startswith("crps_"))])
    assert not numbers[["value", "low", "high"]].isna().any(axis=None)
    assert numbers.loc["wis", "reading"].startswith("infinite: ")


@either_side
def test_a_metric_of_very_few_rows_warns_at_most_once_and_is_not_nan(symmetric):
    dist, y = make_rows(40)
    few = ConformalRecalibrator(symmetric=symmetric).fit(dist[:7], y[:7]).transform(dist[7:])
    warned = set()
    for name, spec in forecast_specs().items():
        if spec.ready_made and spec.needs != "density":
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                value = spec.compute(y[7:], few)
            assert not np.isnan(value), name
            assert len(caught) <= 1, name
            warned |= {name} if caught else set()
    assert warned >= {"picp", "mpiw", "pinball", "wis", "interval_score"}
    for loss in (pinball_loss, weighted_interval_score_loss, interval_score_loss):
        with pytest.warns(SmallSampleWarning, match="got 7"):
            assert loss(y[7:], few) == np.inf
    assert np.isfinite(crps_loss(y[7:], few))
