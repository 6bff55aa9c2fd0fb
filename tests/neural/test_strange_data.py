"""Data that a careless author forgets: what `test_base` leaves out, for every neural estimator.

Either there is an error that names what is wrong, or the result is right.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.neural import DeepEnsembleRegressor, PNNRegressor, ProbabilisticNet, fit_many
from skuq.prediction import predict_dist
from tests.neural.test_base import MODELS, ONE_OF_EACH_CLASS, every_variant

UNITS = [(0.0, 1.0), (1e7, 1.0), (0.0, 1e-9), (-3e5, 1e6)]


@pytest.fixture(params=ONE_OF_EACH_CLASS)
def model(request):
    return clone(MODELS[request.param])


@pytest.fixture(scope="session")
def line():
    """Rows of a line with normal noise, 300 to fit and 500 to score; the target in [0, 1] or so."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 1))
    y = 0.5 + 0.3 * X[:, 0] + 0.1 * rng.normal(size=800)
    return X[:300], y[:300], X[300:], y[300:]


def finite(dist):
    return bool(np.isfinite(np.asarray(dist)).all())


# -------------------------------------------------------------------------------- units of the target


@pytest.mark.parametrize(
    ("model", "units"),
    [*((name, UNITS[:2]) for name in ONE_OF_EACH_CLASS), ("pnn", UNITS), ("bootstrap", UNITS)],
    indirect=["model"],
    ids=repr,
)
def test_coverage_and_width_are_the_same_in_all_units(model, line, units):
    """In float32, as by default: targets at ten million that differ by one, and of the order 1e-9."""
    X, y, X_new, y_new = line
    coverage, width, crps = [], [], []
    for shift, unit in units:
        dist = clone(model).fit(X, shift + unit * y).predict_dist(X_new)
        bounds = dist.interval(0.9)
        assert (bounds[:, 0] < bounds[:, 1]).all()
        coverage.append(prediction_interval_coverage(shift + unit * y_new, bounds))
        width.append(np.diff(bounds).mean() / unit)
        crps.append(crps_loss(shift + unit * y_new, dist) / unit)
    assert 0.83 < coverage[0] < 0.99
    np.testing.assert_allclose(coverage, coverage[0], atol=0.01)
    np.testing.assert_allclose(width, width[0], rtol=0.02)
    np.testing.assert_allclose(crps, crps[0], rtol=0.02)


@every_variant
@pytest.mark.parametrize("exponent", [-664, 664])
def test_targets_of_any_size_have_the_same_distributions(model, sine, exponent):
    """In units of about 1e-200 and 1e200, whose squares vanish or overflow; powers of two round nothing."""
    X, y = sine
    model.set_params(max_epochs=3)
    dist = clone(model).fit(X, y).predict_dist(X)
    scaled = model.fit(X, np.ldexp(y, exponent)).predict_dist(X)
    np.testing.assert_array_equal(np.ldexp(np.asarray(scaled), -exponent), np.asarray(dist))
    np.testing.assert_array_equal(np.ldexp(scaled.interval(0.8), -exponent), dist.interval(0.8))


def test_out_of_fold_distributions_are_right_at_any_offset(line):
    X, y, _, _ = line
    plain, moved = (
        DeepEnsembleRegressor(4, hidden_layer_sizes=(16,), max_epochs=20, random_state=0).fit_transform(
            X, target
        )
        for target in (y, 1e7 + y)
    )
    np.testing.assert_allclose(moved.std(), plain.std(), rtol=0.02)
    np.testing.assert_allclose(moved.mean() - 1e7, plain.mean(), atol=0.01)


def test_a_constant_fold_among_others_is_certain(sine):
    """A constant target of one fit leaves the fits that are trained with it as they are."""
    X, y = sine
    y = np.where(np.arange(150) < 75, 2.5, y)
    params = {"max_epochs": 20, "random_state": 0, "dtype": "float64", "calibration_coverage": 0.9}
    models = [PNNRegressor((16,), **params) for _ in range(2)]
    parts = [np.arange(75), np.arange(75, 150)]
    constant, other = fit_many(models, X, y, parts)
    np.testing.assert_array_equal(np.asarray(constant.predict_dist(X)), [[2.5, 0.0]] * 150)
    alone = models[1].fit(X[75:], y[75:]).predict_dist(X)
    np.testing.assert_allclose(np.asarray(other.predict_dist(X)), np.asarray(alone), atol=1e-8)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        *((name, "Series") for name in ONE_OF_EACH_CLASS),
        *(("pnn", kind) for kind in (int, bool, "float32", object, "list")),
    ],
    indirect=["model"],
)
def test_targets_of_other_types(model, line, kind):
    """One function reads the target of all networks, so one network takes every type."""
    X, y = line[0][:100], np.round(3 * line[1][:100])
    y = y > 1 if kind is bool else y
    given = {"Series": pd.Series(y, index=range(5, 105)), "list": y.tolist()}
    given = given[kind] if isinstance(kind, str) and kind in given else y.astype(kind)
    model.set_params(max_epochs=2)
    expected = clone(model).fit(X, np.asarray(y, dtype=float)).predict_dist(X)
    np.testing.assert_array_equal(np.asarray(model.fit(X, given).predict_dist(X)), np.asarray(expected))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_target_that_is_not_finite_names_the_row(model, sine, bad):
    X, y = sine
    y = np.where(np.arange(150) == 7, bad, y)
    with pytest.raises(ValueError, match=r"`y` must be finite, got (nan|inf|-inf) at row 7"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (lambda y: y[:-1], ValueError, r"inconsistent numbers of samples: \[150, 149\]"),
        (lambda y: y.astype(str)[:, np.newaxis, np.newaxis], (ValueError, TypeError), "`y` must"),
        (lambda y: ["a"] * 150, TypeError, "`y` must hold real numbers"),
        (lambda y: y + 1j, ValueError, "Complex data not supported"),
        (lambda y: None, ValueError, "requires y to be passed"),
    ],
    ids=["too few", "three axes", "strings", "complex", "none"],
)
def test_a_wrong_target_is_named(model, sine, target, error, message):
    with pytest.raises(error, match=message):
        model.fit(sine[0], target(sine[1]))


def test_two_columns_are_a_target_of_deep_ensembles_only(model, sine):
    X, y = sine
    if isinstance(model, DeepEnsembleRegressor):
        assert model.fit(X, np.column_stack([y, y])).n_outputs_ == 2
        return
    with pytest.raises(ValueError, match="`y` must have one column, got 2"):
        model.fit(X, np.column_stack([y, y]))


# ------------------------------------------------------------------------------------------- features


@pytest.mark.parametrize("unit", [1e-300, 1e200])
def test_the_units_of_the_features_do_not_matter(model, sine, unit):
    X, y = sine
    model.set_params(max_epochs=3)
    plain = clone(model).fit(X, y).predict_dist(X)
    np.testing.assert_allclose(
        np.asarray(model.fit(unit * X, y).predict_dist(unit * X)), np.asarray(plain), rtol=1e-2, atol=1e-2
    )


def test_one_column_and_columns_without_information(model, line):
    X, y = line[:2]
    model.set_params(max_epochs=3)
    assert finite(clone(model).fit(X, y).predict_dist(X[:1]))
    with np.errstate(all="raise"):
        nothing = model.fit(np.ones((300, 2)), y).predict_dist(np.ones((3, 2)))
    np.testing.assert_allclose(nothing.mean(), y.mean(), atol=0.1)
    np.testing.assert_allclose(nothing.std(), y.std(), rtol=0.3)


def test_integers_and_booleans_are_features(model, line):
    X = (line[0][:100] > 0) + 2 * (line[0][:100] > 0.5)
    model.set_params(max_epochs=2)
    expected = np.asarray(clone(model).fit(X.astype(float), line[1][:100]).predict_dist(X.astype(float)))
    np.testing.assert_array_equal(np.asarray(model.fit(X, line[1][:100]).predict_dist(X)), expected)


def test_a_row_far_from_all_others_is_predicted_without_nan(model, sine):
    far = np.array([[1e5, 0.0], [0.0, -1e60], [0.0, 0.0]])
    dist = model.set_params(max_epochs=3).fit(*sine).predict_dist(far)
    assert finite(dist)
    assert (dist.std() > 0).all()


WRONG_FEATURES = [
    (sparse.csr_array, TypeError, "Sparse data was passed for X, but dense data is required"),
    (lambda X: [["a", "b"]] * 150, ValueError, "could not convert string to float"),
    (lambda X: X[:, 0], ValueError, "Expected 2D array, got 1D array"),
    (lambda X: X[:, :0], ValueError, r"0 feature\(s\)"),
    (lambda X: X[:0], ValueError, "0 sample"),
    (lambda X: X + 1j, ValueError, "Complex data not supported"),
    (lambda X: np.where(X > 1.5, np.inf, X), ValueError, "contains infinity"),
]


def test_wrong_features_are_named_in_fit_and_in_prediction(model, sine):
    X, y = sine
    fitted = clone(model).set_params(max_epochs=1).fit(X, y)
    for features, error, message in WRONG_FEATURES:
        with pytest.raises(error, match=message):
            model.fit(features(X), y)
        with pytest.raises(error, match=message if "feature" not in message else r"feature"):
            fitted.predict_dist(features(X))


def test_the_columns_must_be_those_of_the_training(model, sine):
    X, y = sine
    model.set_params(max_epochs=1)
    with pytest.raises(ValueError, match=f"X has 3 features, but {type(model).__name__} is expecting 2"):
        clone(model).fit(X, y).predict(np.zeros((4, 3)))
    model.fit(pd.DataFrame(X, columns=["a", "b"]), y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict_interval(pd.DataFrame(X, columns=["b", "a"]))


# ----------------------------------------------------------------------- categories, dates, missing values


@pytest.fixture(scope="session")
def table():
    """A table as it comes, 150 rows; the target depends on a category and on a number with missing values."""
    rng = np.random.default_rng(0)
    n = 150
    X = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "word": rng.choice(list("abcdef"), n),
            "two": pd.Categorical(rng.choice(["u", "v"], n)),
            "date": pd.date_range("2026-01-01", periods=n, tz="Europe/Berlin"),
            "empty": np.nan,
        }
    )
    y = X["number"].to_numpy() + 2.0 * (X["word"] == "a") + 0.1 * rng.normal(size=n)
    X.loc[::7, "number"] = np.nan
    X.loc[::9, "word"] = None
    return X, y


def test_tables_are_taken_as_they_come(model, table):
    X, y = table
    fitted = clone(model).set_params(max_epochs=2).fit(X, y)
    dist = fitted.predict_dist(X)
    assert finite(dist)
    assert list(fitted.feature_names_in_) == list(X.columns)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))
    np.testing.assert_allclose(fitted.predict(X[:1]), fitted.predict(X)[:1], rtol=1e-6)
    new = X[:3].assign(word=["never seen", None, "b"], number=np.nan)
    assert finite(fitted.predict_dist(new))
    assert finite(fitted.fit_transform(X, y))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(model).fit(X[:-1], y)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        clone(model).fit(X[:1], y[:1])


def test_unknown_and_missing_categories_have_one_forecast(table):
    X, y = table
    fitted = PNNRegressor(max_epochs=5, n_frequencies=2, random_state=0).fit(X, y)
    new = X[:1]
    forecasts = [fitted.predict(new.assign(word=[word]))[0] for word in ("never seen", None, "a")]
    assert forecasts[0] == forecasts[1] != forecasts[2]


def test_rows_of_weight_zero_add_no_categories(table):
    X, y = table
    more = pd.concat([X, X[:5].assign(word="other", date=pd.NaT, number=9.0)], ignore_index=True)
    weight = np.append(np.ones(len(X)), np.zeros(5))
    model = PNNRegressor(max_epochs=2, n_frequencies=2, calibration=None, keep_best=False, random_state=0)
    fitted = clone(model).fit(more, np.append(y, y[:5]), sample_weight=weight)
    expected = clone(model).fit(X, y, sample_weight=np.ones(len(X)))
    np.testing.assert_allclose(fitted.predict(X), expected.predict(X), rtol=1e-4)


def test_missing_numbers(model, sine):
    X, y = sine
    model.set_params(max_epochs=2)
    gaps = np.where(X > 1.5, np.nan, X)
    fitted = clone(model).fit(gaps, y)
    assert finite(fitted.predict_dist(gaps))
    of_frame = clone(model).fit(pd.DataFrame(gaps), y)
    np.testing.assert_array_equal(of_frame.predict(pd.DataFrame(gaps)), fitted.predict(gaps))
    # without missing training values, a missing value of a new row is the mean
    complete = clone(model).fit(X, y)
    new, mean = X[:3].copy(), X[:3].copy()
    new[:, 0], mean[:, 0] = np.nan, complete.scaler_.X_mean[0]
    np.testing.assert_allclose(complete.predict(new), complete.predict(mean), rtol=1e-10)


# ------------------------------------------------------------------------------- the net of skorch users


@pytest.fixture
def net():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 2))
    return ProbabilisticNet(layers, max_epochs=30, lr=0.02, batch_size=64, verbose=0)


@pytest.mark.parametrize(("shift", "unit"), UNITS)
def test_behind_standardization_the_net_is_right_in_all_units(net, line, shift, unit):
    """It standardizes nothing itself, as documented; this is how it is used."""
    X, y, X_new, y_new = line
    chain = TransformedTargetRegressor(make_pipeline(StandardScaler(), net), transformer=StandardScaler())
    dist = predict_dist(chain.fit(X, shift + unit * y), X_new)
    assert 0.83 < prediction_interval_coverage(shift + unit * y_new, dist) < 0.99
    assert crps_loss(shift + unit * y_new, dist) < 0.07 * unit  # 0.056 is that of the truth


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_net_takes_few_rows_and_a_constant_target(net, line, n):
    X = line[0]
    dist = net.fit(X[:n], np.full(n, 3.0)).predict_dist(X)
    assert finite(dist)
    assert (dist.std() > 0).all()


def test_the_net_never_gives_a_distribution_of_nan(net, line):
    X, y = line[:2]
    net.fit(X, y)
    with pytest.raises(ValueError, match="must be finite"):
        net.predict_dist(np.full((2, 1), np.nan))
    with pytest.raises(TypeError):
        net.fit(X.astype(str), y)
    with pytest.raises(ValueError, match="inconsistent lengths"):
        net.fit(X, y[:-1])
