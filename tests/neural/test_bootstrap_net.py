"""What is special to Heskes' bootstrap: whose variance it is, and where the noise comes from."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from scipy.stats import t
from sklearn.base import clone
from sklearn.model_selection import PredefinedSplit

from skuq._fitting.progress import NO_PROGRESS
from skuq.distributions import StudentT
from skuq.metrics import prediction_interval_coverage
from skuq.neural import BootstrapNetRegressor
from skuq.neural._base import fit_together
from skuq.neural._predictive.ensemble import bagged_mean_and_spread

SMALL = {"hidden_layer_sizes": (16,), "max_epochs": 20, "random_state": 0}


def net(n_members=6, **params):
    return BootstrapNetRegressor(n_members, **{**SMALL, **params})


def world(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


def test_intervals_are_those_of_algorithm_1(sine):
    X, y = sine
    folds = PredefinedSplit(np.where(np.arange(150) < 30, 0, -1))
    model = net(noise_estimation="split", validation_size=folds, calibration=None).fit(X, y)
    members = model.predict_members(X)
    mean, spread = members.mean(axis=1), members.var(axis=1, ddof=1)
    noise = np.maximum((y - mean)[:30] ** 2 - spread[:30], 0).mean()
    assert model.noise_std_ == pytest.approx(np.sqrt(noise))
    dist = model.predict_dist(X)
    assert isinstance(dist, StudentT)
    quantile = t.ppf(0.95, 6)
    upper = mean + quantile * np.sqrt(spread + noise)
    np.testing.assert_allclose(dist.interval(0.9)[:, 1], upper)
    lower = mean - quantile * np.sqrt(spread)
    np.testing.assert_allclose(dist.epistemic().interval(0.9)[:, 0], lower)


def test_the_noise_comes_from_rows_that_members_left_out(sine):
    X, y = sine
    model = net(calibration=None)
    fit = fit_together([(model, model._read(X, y, None, {}, "fit"))], NO_PROGRESS)[0]
    unseen = fit.plan.out_of_bag()
    many = unseen.sum(axis=1) > 1
    members = np.where(unseen, model.predict_members(X), np.nan)[many]
    residual = y[many] - np.nanmean(members, axis=1)
    terms = np.maximum(residual**2 - np.nanvar(members, axis=1, ddof=1), 0)
    assert many.sum() > 100
    rows = np.flatnonzero(unseen.any(axis=1))
    one = np.isin(rows, np.flatnonzero(many))
    mean, spread = bagged_mean_and_spread(model.predict_members(X[rows]), unseen[rows], "member")
    residual = y[rows] - mean
    np.testing.assert_allclose(np.maximum(residual**2 - spread, 0)[one], terms, rtol=1e-6)
    assert model.noise_std_ == pytest.approx(np.sqrt(np.maximum(residual**2 - spread, 0).mean()))


def test_the_spread_of_the_mean_is_the_data_part_of_pairs():
    rng = np.random.default_rng(0)
    n, pairs, data, chance = 4000, 10, 2.0, 3.0
    loc = 1e6 + np.repeat(data * rng.normal(size=(n, pairs)), 2, axis=1) + chance * rng.normal(size=(n, 20))
    every = np.ones(loc.shape, dtype=bool)
    mean, spread = bagged_mean_and_spread(loc, every, "mean")
    np.testing.assert_allclose(mean, loc.mean(axis=1))
    expected = data**2 + data**2 / pairs + chance**2 / 20
    assert spread.mean() == pytest.approx(expected, rel=0.05)
    _, member = bagged_mean_and_spread(loc, every, "member")
    np.testing.assert_allclose(member, loc.var(axis=1, ddof=1), rtol=1e-6)
    used = np.repeat(rng.random((n, pairs)) < 0.5, 2, axis=1)
    used[:, :2] = True
    mean, spread = bagged_mean_and_spread(loc, used, "mean")
    np.testing.assert_allclose(mean, [row[known].mean() for row, known in zip(loc, used, strict=True)])
    assert spread.mean() == pytest.approx(expected, rel=0.5)


def test_members_share_rows_two_by_two_only_for_the_mean(sine):
    for ci_scale, n_bags in (("member", 6), ("mean", 3)):
        model = net(ci_scale=ci_scale)
        fit = fit_together([(model, model._read(*sine, None, {}, "fit"))], NO_PROGRESS)[0]
        unseen = fit.plan.out_of_bag()
        assert len(np.unique(unseen, axis=1).T) == n_bags
        members = model.predict_members(sine[0])
        assert len(np.unique(members[0])) == 6


def test_the_mean_is_more_certain_than_a_member():
    X, y = world(300, 0)
    member, mean = (
        BootstrapNetRegressor(20, ci_scale=scale, calibration=None, random_state=0).fit(X, y)
        for scale in ("member", "mean")
    )
    wide, narrow = (model.predict_dist(X).epistemic().std().mean() for model in (member, mean))
    assert 0.2 * wide < narrow < 0.95 * wide


@pytest.mark.parametrize(("ci_scale", "calibration"), [("member", "oob"), ("mean", "split")])
def test_it_covers_where_the_noise_is_the_same_everywhere(ci_scale, calibration):
    X, y = world(400, 1)
    X_new, y_new = world(4000, 2)
    model = BootstrapNetRegressor(
        10, ci_scale=ci_scale, calibration=calibration, noise_estimation=calibration, random_state=0
    )
    dist = model.fit(X, y).predict_dist(X_new)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        observed = prediction_interval_coverage(y_new, dist, coverage=coverage)
        assert abs(observed - coverage) < 0.08


def test_heskes_covers_too_where_the_noise_is_normal():
    X_new, y_new = world(4000, 2)
    dist = BootstrapNetRegressor(20, calibration=None, random_state=0).fit(*world(400, 1)).predict_dist(X_new)
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.04)


def test_rows_held_out_for_the_noise_do_not_calibrate_by_others(sine):
    X, y = sine
    folds = PredefinedSplit(np.where(np.arange(150) < 30, 0, -1))
    far = y.copy()
    far[:30] += 100.0
    near = net(noise_estimation="split", validation_size=folds).fit(X, y)
    moved = clone(near).fit(X, far)
    np.testing.assert_array_equal(moved.predict_members(X), near.predict_members(X))
    assert moved.noise_std_ > 90
    assert moved.factor_ < 0.1  # the others calibrate


def test_the_epoch_of_the_smallest_out_of_bag_error_is_kept(sine):
    model = net(keep_best="squared_error", max_epochs=200, learning_rate=0.02).fit(*sine)
    scores = {row["epoch"]: row["valid_loss"] for row in model.history_ if "valid_loss" in row}
    assert model.best_epoch_ == min(scores, key=scores.get) < 200


def test_fit_transform_predicts_by_the_members_that_left_the_row_out(sine):
    X, y = sine
    far = y.copy()
    far[:20] += 50.0
    dist = net(4, max_epochs=100, learning_rate=1e-2, calibration=None).fit_transform(X, far)
    assert np.abs(dist.mean()[:20]).mean() < 45


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_estimators": 1}, "`n_estimators` must be at least 2"),
        ({"n_estimators": 5, "ci_scale": "mean"}, "must be even and at least 4"),
        ({"n_estimators": 2, "ci_scale": "mean"}, "must be even and at least 4"),
        ({"ci_scale": "both"}, "`ci_scale` must be one of"),
        ({"noise_estimation": "train"}, "`noise_estimation` must be one of"),
    ],
)
def test_settings_that_make_no_sense_raise(sine, params, message):
    with pytest.raises(ValueError, match=message):
        net().set_params(**params).fit(*sine)


def test_without_unseen_rows_it_raises():
    messages = []
    for seed in range(12):  # of two rows, two members leave none out every fourth time
        try:
            net(2, calibration=None, max_epochs=1, random_state=seed).fit([[0.0], [1.0]], [0.0, 1.0])
        except ValueError as error:
            messages.append(str(error))
    assert 0 < len(messages) < 12
    assert all("no row is out of bag for any of the 2 members" in message for message in messages)
