"""Deep ensembles of several targets: their joint distribution, where it can be used, and bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import get_scorer
from skuq.model_selection import cross_val_predict_dist
from skuq.multivariate import (
    ConformalRegionRegressor,
    MultiOutputUncertaintyRegressor,
    NormalJoint,
    energy_score_loss,
    variogram_score_loss,
)
from skuq.neural import DeepEnsembleRegressor, PNNRegressor, fit_many
from skuq.neural._predictive import Calibration, NetworkPredictions
from skuq.prediction import predict_dist

SMALL = {"hidden_layer_sizes": (16,), "max_epochs": 10, "random_state": 0}


def ensemble(n_members=4, **params):
    return DeepEnsembleRegressor(n_members, **{**SMALL, **params})


def world(n, seed):
    """Return two targets in different units, whose errors have a correlation with the sign of a feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    first, second = rng.normal(size=(2, n))
    rho = 0.95 * np.sign(X[:, 0])
    errors = np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * second])
    return X, np.column_stack([2 * X[:, 1], np.zeros(n)]) + [1.0, 8.0] * errors


@pytest.fixture(scope="module")
def table():
    X, y = world(150, 0)
    return X, pd.DataFrame(y, columns=["load", "price"])


@pytest.fixture(scope="module")
def fitted(table):
    return ensemble().fit(*table)


# -------------------------------------------------------------------------------- the distribution


@pytest.fixture(scope="module")
def accurate():
    # with fewer members, the calibration by out-of-bag members is more conservative
    model = DeepEnsembleRegressor(10, hidden_layer_sizes=(32,), max_epochs=60, random_state=0)
    return model.fit(*world(500, 1))


@pytest.mark.laws
def test_the_correlation_depends_on_x(accurate):
    X, y = world(300, 2)
    dist = accurate.predict_dist(X)
    clear = np.abs(X[:, 0]) > 0.3
    assert (np.sign(dist.corr()[clear, 0, 1]) == np.sign(X[clear, 0])).all()
    independent = NormalJoint(dist.mean(), dist.std()[:, :, np.newaxis] ** 2 * np.eye(2))
    options = {"scale": [1.0, 8.0]}
    assert energy_score_loss(y, dist, **options) < 0.97 * energy_score_loss(y, independent, **options)
    assert variogram_score_loss(y, dist, **options) < 0.9 * variogram_score_loss(y, independent, **options)


@pytest.mark.laws
def test_intervals_of_targets_and_of_their_sum_cover(accurate):
    X, y = world(2000, 2)
    total = y @ [8.0, 1.0]
    covered = []
    # The coverage of one fit has a standard deviation of 0.03, because 500 rows calibrate it.
    for model in (accurate, clone(accurate).set_params(random_state=1).fit(*world(500, 11))):
        bounds = model.predict_interval(X, 0.9)
        assert bounds.shape == (2000, 2, 2)
        inside = ((bounds[:, 0] <= y) & (y <= bounds[:, 1])).mean(axis=0)
        of_sum = model.predict_dist(X).linear([8.0, 1.0]).interval(0.9)
        covered.append([*inside, np.mean((of_sum[:, 0] <= total) & (total <= of_sum[:, 1]))])
    np.testing.assert_allclose(np.mean(covered, axis=0), 0.9, atol=0.04)


def test_moments_are_joined_by_the_law_of_total_covariance(fitted):
    rng = np.random.default_rng(0)
    loc, factor = rng.normal(size=(2, 4, 2)), np.tril(rng.uniform(1, 2, size=(2, 4, 2, 2)))
    used = np.array([[True] * 4, [True, False, True, False]])
    factors, units = np.array([2.0, 0.5]), fitted.scaler_.y_scale
    posterior = fitted._current_posterior()
    dist = posterior.distribution_of(NetworkPredictions(loc, factor, used), Calibration(factors))
    for row, inflation in enumerate([1, 1 + 1 / 2 - 1 / 4]):  # as for one target
        center, root = loc[row][used[row]], factor[row][used[row]]
        np.testing.assert_allclose(dist.mean()[row], fitted.scaler_.y_mean + units * center.mean(axis=0))
        total = inflation * np.cov(center.T, bias=True) + np.mean(root @ root.swapaxes(1, 2), axis=0)
        np.testing.assert_allclose(dist.cov()[row], np.outer(factors * units, factors * units) * total)


def test_mean_and_variance_of_a_target_are_those_of_the_members(table):
    model = ensemble(calibration=None).fit(*table)
    loc, scale = model.predict_members(table[0], return_std=True)
    dist = model.predict_dist(table[0])
    assert loc.shape == scale.shape == (150, 4, 2)
    np.testing.assert_allclose(dist.mean(), loc.mean(axis=1))
    np.testing.assert_allclose(dist.std() ** 2, (scale**2).mean(axis=1) + loc.var(axis=1))
    np.testing.assert_allclose(model.predict(table[0]), dist.mean())


def test_each_target_has_its_own_factor(table):
    X, y = table
    wide = y.assign(price=np.where(np.arange(150) < 30, 100.0, 1.0) * y["price"])
    params = {"calibration": "split", "keep_best": False, "held_out_size": [(range(30, 150), range(30))]}
    model, other = (ensemble(**params).fit(X, target) for target in (y, wide))
    dist, wider = (one.predict_dist(X) for one in (model, other))
    np.testing.assert_array_equal(other.factor_[0], model.factor_[0])
    assert other.factor_[1] > 10 * model.factor_[1]
    np.testing.assert_allclose(wider.std() / dist.std(), other.factor_ / model.factor_ * np.ones((150, 2)))
    np.testing.assert_allclose(wider.corr(), dist.corr())


def test_units_change_the_distribution_as_they_change_the_targets(table, fitted):
    X, y = table
    units = np.array([2.0**-20, 2.0**30])
    dist, other = (model.predict_dist(X) for model in (fitted, ensemble().fit(X, y * units)))
    np.testing.assert_array_equal(other.mean(), units * dist.mean())
    np.testing.assert_array_equal(other.cov(), np.outer(units, units) * dist.cov())


def test_fit_transform_gives_each_row_the_members_that_left_it_out(table):
    X, y = (part[:148] for part in table)  # four folds of equal size
    model = ensemble(8, bootstrap="folds", calibration=None)
    dist = model.fit_transform(X, y)
    members = model.predict_members(X)
    pairs = (members[:, :4, np.newaxis] + members[:, np.newaxis, 4:]).reshape(148, 16, 2) / 2
    matches = np.isclose(pairs, dist.mean()[:, np.newaxis]).all(axis=2)
    assert (matches.sum(axis=1) == 1).all()
    assert len(np.unique(matches.argmax(axis=1))) == 16


def test_fit_transform_without_bootstrap_refits_on_folds(table):
    model = ensemble(2, bootstrap=False, calibration=None, cv=2)
    dist = model.fit_transform(*table)
    assert dist.names == ("load", "price")
    assert (dist.mean() != model.predict(table[0])).all()


def test_weights_repeat_rows(table):
    X, y = table
    weight = np.where(np.arange(150) < 75, 1.0, 0.0)
    constant = y.assign(price=np.where(weight > 0, 7.0, y["price"]))
    dist = ensemble().fit(X, constant, sample_weight=weight).predict_dist(X)
    np.testing.assert_array_equal(dist.marginal("price").mean(), 7.0)
    np.testing.assert_array_equal(dist.marginal("price").std(), 0.0)
    assert (dist.marginal("load").std() > 0).all()


# -------------------------------------------------------------------------------- where it is used


def test_predictions_have_an_axis_and_the_names_of_targets(table, fitted):
    X, y = table
    dist = fitted.predict_dist(X)
    assert dist.names == tuple(fitted.target_names_) == ("load", "price")
    assert fitted.n_outputs_ == 2
    assert fitted.factor_.shape == (2,)
    mean, std = fitted.predict(X, return_std=True)
    np.testing.assert_array_equal(std, dist.std())
    quantiles = fitted.predict_quantiles(X, [0.1, 0.5])
    assert quantiles.shape == (150, 2, 2)
    np.testing.assert_allclose(quantiles[:, :, 1], mean)
    np.testing.assert_array_equal(fitted.predict_quantiles(X, 0.1), quantiles[:, :, 0])
    of_arrays = ensemble().fit(X, y.to_numpy())
    assert of_arrays.target_names_ is None
    np.testing.assert_array_equal(of_arrays.predict(X), mean)


def test_one_column_is_one_target(table):
    X, y = table
    one = ensemble().fit(X, y["load"])
    with pytest.warns(match="A column-vector y was passed"):
        column = ensemble().fit(X, y[["load"]])
    assert column.n_outputs_ == 1
    np.testing.assert_array_equal(one.predict_dist(X).std(), column.predict_dist(X).std())


def test_containers_pass_the_joint_distribution_on(table, fitted):
    X, y = table
    expected = fitted.predict_dist(X)
    assert np.array_equal(predict_dist(FrozenEstimator(fitted), X).cov(), expected.cov())
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict_dist(X).cov(), expected.cov())
    small = ensemble(2, max_epochs=2)
    assert predict_dist(make_pipeline(StandardScaler(), small).fit(X, y), X).shape == (150, 2)
    scaled = TransformedTargetRegressor(small, transformer=StandardScaler()).fit(X, y)
    np.testing.assert_allclose(
        predict_dist(scaled, X).corr(), clone(small).fit(X, y).predict_dist(X).corr(), atol=1e-4
    )
    assert cross_val_predict_dist(small, X, y, cv=2).names == ("load", "price")
    search = GridSearchCV(
        small, {"n_estimators": [1]}, scoring=get_scorer("neg_energy_score"), cv=2, error_score="raise"
    )
    assert predict_dist(search.fit(X, y), X).shape == (150, 2)
    many = fit_many([small, small], X, y)
    assert [one.predict_dist(X).names for one in many] == [("load", "price")] * 2


def test_regions_are_those_of_the_network(table):
    region = ConformalRegionRegressor(ensemble(), "ellipsoid", random_state=0).fit(*table)
    assert isinstance(region.estimator_, DeepEnsembleRegressor)
    assert region.predict_dist(table[0]).names == ("load", "price")
    by_target = ConformalRegionRegressor(PNNRegressor(**SMALL), random_state=0).fit(*table)
    assert isinstance(by_target.estimator_, MultiOutputUncertaintyRegressor)


def test_features_may_be_categories_and_missing(table):
    X, y = table
    features = pd.DataFrame({"number": X[:, 1], "side": np.where(X[:, 0] > 0, "right", "left")})
    features.loc[:5, "number"] = np.nan
    dist = ensemble(max_epochs=100).fit(features, y).predict_dist(features)
    right = features["side"] == "right"
    known = features["number"].notna()
    assert (np.sign(dist.corr()[:, 0, 1]) == np.where(right, 1, -1))[known].all()
    assert np.isfinite(dist.cov()).all()


# -------------------------------------------------------------------------------- bad input


def broken(y, value):
    return y.assign(price=y["price"].where(y.index != 3, value))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: broken(y, np.nan), "no missing values, got NaN in column 'price' at row 3"),
        (lambda y: broken(y, np.inf), "must be finite or NaN, got inf in column 'price' at row 3"),
        (
            lambda y: y.assign(price=1.0),
            "different values in each column, got 1 in all rows of column 'price'",
        ),
        (lambda y: y.set_axis(["load"] * 2, axis=1), "distinct column names"),
    ],
)
def test_bad_targets_raise(table, change, message):
    X, y = table
    with pytest.raises(ValueError, match=message):
        ensemble().fit(X, change(y))


def test_settings_of_one_target_raise(table):
    for params, message in (
        ({"output": "members"}, "`output` must be 'moments' with several targets, got 'members'"),
        ({"support": "positive"}, "`support` must be None with several targets, got 'positive'"),
        ({"loss": "squared_error"}, "`loss` must use a variance with several targets, got 'squared_error'"),
        ({"keep_best": "squared_error"}, "`keep_best` must use a variance with several targets"),
    ):
        with pytest.raises(ValueError, match=message):
            ensemble(**params).fit(*table)
