"""Conformal regressors by group, and under covariate shift."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.conformal import ConformalRegressor
from skuq.distributions import Normal
from skuq.exceptions import SmallSampleWarning
from skuq.prediction import predict_dist
from tests.conformal.split_models import COVERAGES, SPLIT
from tests.regressors.worlds import linear_world


def kinds(X):
    return np.where(X[:, 0] > 0, "right", "left")


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", SPLIT)
def test_each_group_is_calibrated_by_itself(finished, method, symmetric):
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method, symmetric=symmetric, group_by=kinds).fit(X, y)
    bounds, dist = regressor.predict_interval(X_new, COVERAGES), regressor.predict_dist(X_new)
    for kind in ("left", "right"):
        own, new = kinds(X) == kind, kinds(X_new) == kind
        alone = ConformalRegressor(model, method, symmetric=symmetric).fit(X[own], y[own])
        # the model predicts all rows: with some BLAS kernels its last bits depend on their number
        assert np.array_equal(bounds[new], alone.predict_interval(X_new, COVERAGES)[new])
        if method != "cqr":
            assert np.array_equal(dist[np.flatnonzero(new)].interval(0.8), dist.interval(0.8)[new])
    if method != "cqr":
        assert np.array_equal(dist.interval(COVERAGES), bounds)


def test_groups_by_the_name_of_a_column():
    X, y = linear_world(200)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=kinds(X))
    numbers = make_column_transformer(("passthrough", ["a", "b", "c"]))
    named = make_pipeline(numbers, LinearRegression())
    named = ConformalRegressor(named, group_by="kind", random_state=0).fit(frame, y)
    called = ConformalRegressor(LinearRegression(), group_by=kinds, random_state=0).fit(X, y)
    assert np.allclose(named.predict_interval(frame), called.predict_interval(X))
    with pytest.raises(ValueError, match="min_group_size"):  # every value of a real column is a group
        ConformalRegressor(Ridge(), group_by=1).fit(pd.DataFrame(X), y)


def test_a_column_needs_a_data_frame_that_has_it():
    X, y = linear_world(80)
    words = r"`X` must be a pandas DataFrame if `group_by` is a column name \('kind'\), got ndarray"
    for rows, error, message in (
        (X, TypeError, words),
        (pd.DataFrame(X, columns=["a", "b", "c"]), ValueError, r"column of X, got 'kind'"),
    ):
        with pytest.raises(error, match=message):
            ConformalRegressor(Ridge(), group_by="kind").fit(rows, y)


def test_a_column_behind_other_steps_as_the_error_advises():
    X, y = linear_world(200)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=X[:, 1] > 0)
    scaler = make_column_transformer(
        (StandardScaler(), ["a", "b", "c"]), remainder="passthrough", verbose_feature_names_out=False
    )
    pipeline = make_pipeline(scaler, ConformalRegressor(Ridge(), group_by="kind", random_state=0))
    with pytest.raises(TypeError, match=r"`set_output\(transform='pandas'\)` to keep the names"):
        pipeline.fit(frame, y)
    pipeline.set_output(transform="pandas").fit(frame, y)
    widths = np.diff(predict_dist(pipeline, frame).interval(0.9)).ravel()
    assert np.ptp(widths[frame["kind"]]) == pytest.approx(0)
    assert np.ptp(widths[~frame["kind"]]) == pytest.approx(0)
    assert abs(widths[frame["kind"]][0] - widths[~frame["kind"]][0]) > 0.01


def test_rare_and_unseen_groups_raise_or_are_pooled(finished):
    model, X, y, _ = finished["split"]
    labels = np.where(np.arange(len(y)) < 5, "rare", "common")

    def group_by(rows):
        return np.where(rows[:, 0] == X[0, 0], "rare", "common") if len(rows) < 10 else labels[: len(rows)]

    with pytest.raises(ValueError, match=r"label 'rare'.* 5 calibration rows.*'pool'"):
        ConformalRegressor(model, group_by=group_by).fit(X, y)
    pooled = ConformalRegressor(model, group_by=group_by, rare_groups="pool").fit(X, y)
    everything = ConformalRegressor(model).fit(X, y).predict_interval(X[:1])
    assert np.array_equal(pooled.predict_interval(X[:1]), everything)
    common = ConformalRegressor(model).fit(X[5:], y[5:]).predict_interval(X[7:8])
    assert np.array_equal(pooled.predict_interval(X[7:8]), common)
    lower = ConformalRegressor(model, group_by=group_by, min_group_size=5).fit(X, y)
    rare = ConformalRegressor(model).fit(X[:5], y[:5])
    assert np.array_equal(lower.predict_interval(X[:1], 0.8), rare.predict_interval(X[:1], 0.8))
    with pytest.warns(SmallSampleWarning, match="90 % needs at least 9 calibration rows, got 5") as caught:
        lower.predict_interval(X[:8])
    assert len(caught) == 1


def test_an_unseen_group_is_named_with_its_row(finished):
    model, X, y, X_new = finished["split"]
    strange = X_new.copy()
    strange[4] = 200
    regressor = ConformalRegressor(model, group_by=lambda rows: np.where(rows[:, 0] > 100, 7, 3)).fit(X, y)
    with pytest.raises(ValueError, match=r"label 7 at row 4 with 0"):
        regressor.predict_interval(strange)
    with pytest.raises(ValueError, match="label 7 at row 4"):
        regressor.predict_dist(strange)
    pooled = regressor.set_params(rare_groups="pool").fit(X, y).predict_interval(strange)
    assert np.array_equal(pooled, ConformalRegressor(model).fit(X, y).predict_interval(strange))


def test_bad_labels(finished):
    model, X, y, _ = finished["split"]
    for labels, words in (
        (["a"] * (len(X) - 1), "one label per row"),
        (np.full(len(X), np.nan), "label for every row"),
        (np.zeros((len(X), 2)), "one label per row"),
    ):
        with pytest.raises(ValueError, match=words):
            ConformalRegressor(model, group_by=lambda X, labels=labels: labels).fit(X, y)


def ratio(X):
    return np.exp(0.8 * X[:, 0])


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", SPLIT)
def test_density_ratio_by_brute_force(finished, method, symmetric):
    """Tibshirani et al. 2019, eq. 7, the weighted quantile of scores and an infinite one, row by row."""
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method, symmetric=symmetric, density_ratio=ratio).fit(X, y)
    bounds = regressor.predict_interval(X_new, 0.8)

    def quantile(scores, level, row):
        values, weight = np.append(scores, np.inf), np.append(ratio(X), ratio(X_new)[row])
        order = np.argsort(values)
        reached = np.cumsum(weight[order]) / weight.sum() >= level
        return values[order][np.argmax(reached)]

    if method == "cqr":
        (low, high), (new_low, new_high) = (predict_dist(model, rows).interval(0.8).T for rows in (X, X_new))
        scale, new_scale = np.ones(len(y)), np.ones(len(X_new))
    else:
        dist, new = (
            predict_dist(model, rows) if method == "normalized" else Normal(model.predict(rows), 1.0)
            for rows in (X, X_new)
        )
        low, high, scale = dist.mean(), dist.mean(), dist.std()
        new_low, new_high, new_scale = new.mean(), new.mean(), new.std()
    below, above = (low - y) / scale, (y - high) / scale
    for row in range(len(X_new)):
        if symmetric:
            reach = [quantile(np.maximum(below, above), 0.8, row)] * 2
        else:
            reach = [quantile(side, 0.9, row) for side in (below, above)]
        wanted = [new_low[row] - new_scale[row] * reach[0], new_high[row] + new_scale[row] * reach[1]]
        assert bounds[row] == pytest.approx(wanted, abs=1e-10)
    dist = regressor.predict_dist(X_new)
    assert len(dist) == len(X_new)
    assert method == "cqr" or np.array_equal(dist.interval(0.8), bounds)


def test_rows_of_zero_density_do_not_calibrate_but_cannot_be_predicted(finished):
    model, X, y, X_new = finished["split"]
    regressor = ConformalRegressor(model, density_ratio=lambda X: (X[:, 0] > 0).astype(float)).fit(X, y)
    inside = X[:, 0] > 0
    plain = ConformalRegressor(model).fit(X[inside], y[inside])
    new = X_new[X_new[:, 0] > 0]
    assert np.array_equal(regressor.predict_interval(new), plain.predict_interval(new))
    with pytest.raises(ValueError, match=r"`density_ratio` must be positive, got 0\.0 at row"):
        regressor.predict_interval(X_new)


@pytest.mark.parametrize(
    ("density_ratio", "error", "words"),
    [
        (lambda X: -np.ones(len(X)), ValueError, "non-negative, got -1.0 at row 0"),
        (lambda X: np.where(np.arange(len(X)) == 2, np.nan, 1.0), ValueError, "finite, got nan at row 2"),
        (lambda X: np.ones((len(X), 1)), ValueError, r"shape \(200,\)"),
        (lambda X: np.zeros(len(X)), ValueError, "must be positive for at least one"),
        (np.ones(200), TypeError, "callable"),
    ],
)
def test_bad_density_ratios(finished, density_ratio, error, words):
    model, X, y, _ = finished["split"]
    with pytest.raises(error, match=words):
        ConformalRegressor(model, density_ratio=density_ratio).fit(X, y)


def test_rows_that_push_a_group_out_of_the_window_raise_and_change_nothing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=200), "shop": np.arange(200) % 2})
    y = X["x"].to_numpy() + rng.normal(size=200)
    model = ConformalRegressor(LinearRegression(), group_by="shop", window=40, random_state=0).fit(X, y)
    before = model.predict_interval(X)
    of_one_shop = X["shop"] == 0
    with pytest.raises(ValueError, match="label 1 with 3"):
        model.partial_fit(X[of_one_shop][:36], y[of_one_shop][:36])
    np.testing.assert_array_equal(model.predict_interval(X), before)
    model.partial_fit(X[:30], y[:30])
    assert model.n_calibration_ == 40
