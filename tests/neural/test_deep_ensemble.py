"""Deep ensembles alone: parts of their uncertainty, out-of-bag rows, settings of the literature."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from sklearn.model_selection import PredefinedSplit

from skuq.distributions import Empirical, Normal, NormalMixture, StudentT
from skuq.exceptions import NoDecompositionError
from skuq.metrics import prediction_interval_coverage
from skuq.neural import DeepEnsembleRegressor

SMALL = {"hidden_layer_sizes": (16,), "max_epochs": 20, "random_state": 0}
PLAIN = {
    "n_frequencies": 0,
    "input_scale": False,
    "activation": "relu",
    "learning_rate": 3e-3,
    "batch_size": 32,
}


def ensemble(n_members=4, **params):
    return DeepEnsembleRegressor(n_members, **{**SMALL, **params})


def world(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + (0.1 + 0.2 * np.abs(X[:, 0])) * rng.normal(size=n)


def test_mean_and_variance_are_those_of_the_members(sine):
    model = ensemble(calibration=None).fit(*sine)
    loc, scale = model.predict_members(sine[0], return_std=True)
    dist = model.predict_dist(sine[0])
    assert loc.shape == scale.shape == (150, 4)
    np.testing.assert_allclose(dist.mean(), loc.mean(axis=1))
    np.testing.assert_allclose(dist.std() ** 2, (scale**2).mean(axis=1) + loc.var(axis=1))
    np.testing.assert_allclose(dist.epistemic().std(), loc.std(axis=1))
    np.testing.assert_allclose(dist.aleatoric().std() ** 2, (scale**2).mean(axis=1))
    np.testing.assert_array_equal(model.predict_members(sine[0]), loc)


@pytest.mark.parametrize("calibration", ["oob", "split", None])
def test_mixture_and_moments_have_the_same_mean(sine, calibration):
    moments, mixture = (
        ensemble(output=output, calibration=calibration).fit(*sine) for output in ("moments", "mixture")
    )
    one, other = moments.predict_dist(sine[0]), mixture.predict_dist(sine[0])
    assert isinstance(one, Normal if calibration is None else StudentT)
    assert isinstance(other, NormalMixture)
    np.testing.assert_allclose(one.mean(), other.mean(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.std() / moments.factor_, other.std() / mixture.factor_)
    parts = other.epistemic().std() ** 2 + other.aleatoric().std() ** 2
    np.testing.assert_allclose(parts, other.std() ** 2)


def test_an_ensemble_of_one_is_its_member(sine):
    model = ensemble(1, calibration=None).fit(*sine)
    loc, scale = model.predict_members(sine[0], return_std=True)
    dist = model.predict_dist(sine[0])
    np.testing.assert_allclose(dist.mean(), loc[:, 0])
    np.testing.assert_allclose(dist.std(), scale[:, 0])
    np.testing.assert_array_equal(dist.epistemic().std(), 0.0)


def test_the_default_covers_and_the_raw_ensemble_does_not():
    X, y = world(150, 1)
    X_new, y_new = world(4000, 2)
    default = DeepEnsembleRegressor(10, random_state=0).fit(X, y).predict_dist(X_new)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        observed = prediction_interval_coverage(y_new, default, coverage=coverage)
        assert abs(observed - coverage) < 0.06
    raw = DeepEnsembleRegressor(10, calibration=None, keep_best=False, bootstrap=False, random_state=0).fit(
        X, y
    )
    assert prediction_interval_coverage(y_new, raw.predict_dist(X_new), coverage=0.95) < 0.85


def test_fit_transform_gives_each_row_the_members_that_left_it_out():
    X, y = world(150, 1)
    raw = DeepEnsembleRegressor(10, calibration=None, keep_best=False, max_epochs=200, random_state=0)
    out_of_bag = raw.fit_transform(X, y)
    in_sample = raw.predict_dist(X)
    X_new, y_new = world(4000, 2)
    error_new = np.abs(y_new - raw.predict(X_new)).mean()
    assert np.abs(y - out_of_bag.mean()).mean() == pytest.approx(error_new, rel=0.2)
    assert np.abs(y - in_sample.mean()).mean() < 0.8 * error_new


@pytest.mark.parametrize("n_members", [1, 2, 5])
def test_rows_that_no_member_left_out_get_other_members(sine, n_members):
    X, y = sine
    far = y.copy()
    far[:20] += 50.0
    dist = ensemble(n_members, calibration=None, max_epochs=100).fit_transform(X, far)
    assert len(dist) == 150
    assert np.abs(dist.mean()[:20]).mean() < 45  # by members that are not trained on the row


@pytest.mark.parametrize(
    ("params", "loss"),
    [(PLAIN, "squared_error"), ({"calibration_coverage": 0.95}, "beta_nll")],
    ids=["plain layers", "layers for tables"],
)
def test_calibrated_members_cover_although_they_hold_no_noise(params, loss):
    """At another coverage than that of the calibration their spread alone decides: near it with plain layers.

    Layers for tables are tested at the coverage of the calibration only; calibrated at 90 %, they cover 0.928
    of these rows at 95 %.
    """
    (X, y), (X_new, y_new) = world(300, 0), world(4000, 2)
    model = DeepEnsembleRegressor(20, output="members", loss=loss, max_epochs=40, random_state=0, **params)
    raw = model.set_params(calibration=None).fit(X, y).predict_dist(X_new)
    assert prediction_interval_coverage(y_new, raw, coverage=0.95) < 0.8
    calibrated = model.set_params(calibration="oob").fit(X, y).predict_dist(X_new)
    assert prediction_interval_coverage(y_new, calibrated, coverage=0.95) > 0.93


@pytest.mark.parametrize("output", ["moments", "members"])
def test_rows_that_one_member_left_out_have_no_spread_to_calibrate_by(output):
    X, y = world(200, 0)
    model = ensemble(5, loss="squared_error", output=output).fit(X, y)
    assert 1 < model.factor_ < 100
    assert np.isfinite(np.asarray(model.predict_dist(X))).all()


@pytest.mark.parametrize("params", [{"loss": "squared_error"}, {"output": "members"}])
def test_one_member_has_no_spread_to_calibrate_by(sine, params):
    with pytest.raises(ValueError, match="`n_estimators` must be at least 2 to calibrate with the spread"):
        ensemble(1, **params).fit(*sine)
    assert np.isfinite(ensemble(1, calibration=None, **params).fit(*sine).predict(sine[0])).all()


def test_wibbekes_ensemble_is_a_setting(sine):
    model = DeepEnsembleRegressor(
        5,
        loss="nll",
        keep_best=False,
        calibration=None,
        max_epochs=50,
        lr_schedule="constant",
        **{**PLAIN, "learning_rate": 1e-3},
        random_state=0,
    ).fit(*sine)
    assert isinstance(model.predict_dist(sine[0]), Normal)
    assert model.best_epoch_ == len(model.history_) == 50
    assert "valid_loss" not in model.history_[-1]


def test_kompas_ensemble_is_a_setting(sine):
    model = DeepEnsembleRegressor(
        40,
        loss="squared_error",
        bootstrap=False,
        keep_best=False,
        calibration=None,
        output="members",
        max_epochs=50,
        lr_schedule="constant",
        **PLAIN,
        random_state=0,
    ).fit(*sine)
    assert model.best_epoch_ == 50
    dist = model.predict_dist(sine[0])
    assert isinstance(dist, Empirical)
    np.testing.assert_allclose(dist.members, np.sort(model.predict_members(sine[0]), axis=1))
    np.testing.assert_array_equal(model.predict_members(sine[0], return_std=True)[1], 0.0)
    with pytest.raises(NoDecompositionError):
        dist.epistemic()


def test_split_calibrates_by_the_rows_held_out(sine):
    X, y = sine
    folds = PredefinedSplit(np.where(np.arange(150) < 30, 0, -1))
    model = ensemble(calibration="split", validation_size=folds, keep_best=False).fit(X, y)
    dist = model.predict_dist(X[:30])
    inside = prediction_interval_coverage(y[:30], dist, coverage=0.9)
    assert inside == pytest.approx(28 / 30)  # ceil(31 * 0.9) = 28 of 30
    moved = y.copy()
    moved[:30] += 1e3
    other = ensemble(calibration="split", validation_size=folds, keep_best=False)
    other.fit(X, moved)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))  # they teach nothing, not even units
    assert other.factor_ > 100 * model.factor_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bootstrap": False}, "Without bootstrap, there are no out-of-bag rows"),
        ({"output": "mixture", "loss": "squared_error"}, "got .mixture.. This loss does not learn"),
        ({"output": "samples"}, "`output` must be one of"),
        ({"bootstrap": "no"}, "`bootstrap` must be one of True, False, 'folds', got 'no'"),
        ({"n_estimators": 0}, "`n_estimators` must be at least 1"),
        ({"keep_best": "accuracy"}, "`keep_best` must be one of"),
        (
            {"calibration": "split", "validation_size": 1.5},
            "`validation_size` must lie strictly between 0 and 1",
        ),
        ({"calibration": "split", "validation_size": "5"}, "`validation_size` must be a share of the rows"),
    ],
)
def test_settings_that_make_no_sense_raise(sine, params, message):
    with pytest.raises(ValueError, match=message):
        ensemble().set_params(**params).fit(*sine)


def test_another_score_may_select_the_epoch(sine):
    model = ensemble(keep_best="crps").fit(*sine)
    assert 0 < min(row["valid_loss"] for row in model.history_ if "valid_loss" in row) < 1


def test_auto_epochs_are_8000_steps_but_40_to_200():
    options = ensemble(max_epochs="auto")._options()
    assert [options.epochs(n) for n in (1, 40, 80, 200, 1000)] == [200, 200, 100, 40, 40]
