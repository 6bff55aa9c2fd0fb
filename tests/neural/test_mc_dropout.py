"""What is special to dropout: draws that are networks, parts of the uncertainty, settings of papers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.distributions import Empirical, Normal, StudentT
from skuq.exceptions import NoDecompositionError
from skuq.metrics import prediction_interval_coverage
from skuq.neural import ConcreteDropoutRegressor, MCDropoutRegressor

SMALL = {"hidden_layer_sizes": (16, 16), "max_epochs": 20, "n_samples": 30, "random_state": 0}


def world(n, seed, sigma=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + sigma * rng.normal(size=n)


@pytest.mark.parametrize("kind", [MCDropoutRegressor, ConcreteDropoutRegressor])
def test_mean_and_variance_are_those_of_the_draws(kind, sine):
    model = kind(calibration=None, **SMALL).fit(*sine)
    loc, scale = model.predict_members(sine[0], return_std=True)
    dist = model.predict_dist(sine[0])
    assert isinstance(dist, Normal)
    assert loc.shape == scale.shape == (150, 30)
    np.testing.assert_allclose(dist.mean(), loc.mean(axis=1))
    np.testing.assert_allclose(dist.epistemic().std(), loc.std(axis=1, ddof=1))
    np.testing.assert_allclose(dist.aleatoric().std() ** 2, (scale**2).mean(axis=1))
    np.testing.assert_array_equal(model.predict_members(sine[0]), loc)


@pytest.mark.parametrize("kind", [MCDropoutRegressor, ConcreteDropoutRegressor])
def test_a_draw_is_one_network_for_all_rows(kind, sine):
    model = kind(**SMALL).fit(*sine)
    whole = model.predict_members(sine[0])
    np.testing.assert_allclose(model.predict_members(sine[0][[7]]), whole[[7]], rtol=1e-10)
    near = model.predict_members(sine[0] + 1e-9)
    np.testing.assert_allclose(near, whole, atol=1e-6)


def test_the_noise_is_learnt():
    model = MCDropoutRegressor(dropout=0.05, calibration=None, max_epochs=60, random_state=0)
    model.fit(*world(1000, 0))
    assert model.noise_std_ == pytest.approx(0.3, rel=0.1)
    _, scale = model.predict_members(np.zeros((2, 2)), return_std=True)
    np.testing.assert_allclose(scale, model.noise_std_)


def test_last_layer_dropout_spreads_less(sine):
    whole, last = (
        MCDropoutRegressor(last_layer=last, calibration=None, max_epochs=100, random_state=0).fit(*sine)
        for last in (False, True)
    )
    one, other = (model.predict_dist(sine[0]).epistemic().std().mean() for model in (whole, last))
    assert 0 < other < 0.8 * one


@pytest.mark.parametrize("kind", [MCDropoutRegressor, ConcreteDropoutRegressor])
def test_the_default_covers(kind):
    X_new, y_new = world(4000, 2)
    dist = kind(max_epochs=100, random_state=0).fit(*world(400, 1)).predict_dist(X_new)
    assert isinstance(dist, StudentT)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        observed = prediction_interval_coverage(y_new, dist, coverage=coverage)
        assert abs(observed - coverage) < 0.08


def test_kompas_dropout_is_a_setting_and_holds_no_noise():
    X, y = world(400, 1)
    X_new, y_new = world(4000, 2)
    settings = {"interval": "samples", "max_epochs": 100, "random_state": 0}
    raw = MCDropoutRegressor(calibration=None, **settings).fit(X, y)
    dist = raw.predict_dist(X_new)
    assert isinstance(dist, Empirical)
    np.testing.assert_allclose(dist.members, np.sort(raw.predict_members(X_new), axis=1), rtol=1e-10)
    assert prediction_interval_coverage(y_new, dist, coverage=0.95) < 0.85
    with pytest.raises(NoDecompositionError):
        dist.epistemic()
    calibrated = MCDropoutRegressor(**settings).fit(X, y)
    assert calibrated.factor_ > 1.2
    covered = prediction_interval_coverage(y_new, calibrated.predict_dist(X_new), coverage=0.95)
    assert covered == pytest.approx(0.95, abs=0.04)


def test_learnt_rates_fall_with_more_rows():
    rates = [
        ConcreteDropoutRegressor((16,), max_epochs=epochs, early_stopping=False, random_state=0)
        .fit(*world(n, 0))
        .dropout_
        for n, epochs in ((40, 300), (1200, 20))
    ]
    assert rates[0].shape == (1,)
    assert rates[1] < rates[0] / 2


def test_a_longer_length_scale_shrinks_weights(sine):
    short, long = (
        ConcreteDropoutRegressor(length_scale=scale, **{**SMALL, "max_epochs": 150}).fit(*sine)
        for scale in (1e-4, 30.0)
    )
    assert long.predict(sine[0]).std() < 0.7 * short.predict(sine[0]).std()


def test_weights_count_as_rows_in_the_penalty(sine):
    weight = np.full(150, 3.0)
    model = ConcreteDropoutRegressor(calibration=None, early_stopping=False, **SMALL)
    assert float(model.fit(*sine, sample_weight=weight).net_.module_.n_rows) == 450
    assert float(model.fit(*sine).net_.module_.n_rows) == 150


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"dropout": 0.0}, "`dropout` must lie strictly between 0 and 1, got 0"),
        ({"dropout": 1}, "`dropout` must lie strictly between 0 and 1"),
        ({"interval": "quantiles"}, "`interval` must be one of"),
        ({"n_samples": 1}, "`n_samples` must be at least 2"),
        ({"hidden_layer_sizes": ()}, "at least 1 hidden layer"),
        ({"early_stopping": "accuracy"}, "`early_stopping` must be one of"),
    ],
)
def test_settings_that_make_no_sense_raise(sine, params, message):
    with pytest.raises(ValueError, match=message):
        MCDropoutRegressor(**SMALL).set_params(**params).fit(*sine)


def test_draws_that_are_all_the_same_cannot_be_spread(sine):
    with pytest.raises(ValueError, match="the draws must differ"):
        MCDropoutRegressor((2,), dropout=1e-6, interval="samples", max_epochs=2, random_state=0).fit(*sine)


def test_a_length_scale_must_be_positive(sine):
    with pytest.raises(ValueError, match="`length_scale` must be positive"):
        ConcreteDropoutRegressor(length_scale=0.0).fit(*sine)


def test_auto_epochs_are_6000_steps_but_40_to_1000():
    options = MCDropoutRegressor()._options()
    assert [options.epochs(n) for n in (1, 6, 60, 200, 1000)] == [1000, 1000, 100, 40, 40]
