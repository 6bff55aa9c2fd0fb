"""Joint distributions of several targets from one regressor per target, and horizons as targets."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import parallel_config
from numpy.testing import assert_array_equal
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit, TimeSeriesSplit
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.conformal import ConformalRegressor
from skuq.metrics import crps_loss
from skuq.model_selection import cross_val_predict_dist
from skuq.monitoring import PendingForecasts
from skuq.multivariate import CopulaJoint, MultiOutputUncertaintyRegressor
from skuq.prediction import predict_dist, supports_dist
from skuq.recalibration import OnlineRecalibrator
from skuq.regressors import (
    ForestDistributionRegressor,
    LeastSquaresRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)

LINEAR = LeastSquaresRegressor()
FOREST = ForestDistributionRegressor(RandomForestRegressor(30), random_state=0)
RESIDUAL = ResidualRegressor(Ridge(), cv=3, random_state=0)
BY_TARGET = [LINEAR, RESIDUAL, RecalibratedRegressor(BayesianRidge(), cv=3, random_state=0)]


def world(n, rho=0.8, d=3, seed=0):
    """Linear means, and normal errors with one correlation."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    root = np.linalg.cholesky(rho + (1 - rho) * np.eye(d))
    return X, X @ rng.normal(size=(2, d)) + rng.normal(size=(n, d)) @ root.T


def varying_world(n, seed=0):
    """Two targets whose errors have a correlation with the sign of the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    first, second = rng.normal(size=(2, n))
    rho = 0.95 * np.sign(X[:, 0])
    return X, np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * second])


def model(estimator=LINEAR, **params):
    return MultiOutputUncertaintyRegressor(estimator, **{"random_state": 0, **params})


def covered(bounds, y):
    return np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))


@pytest.mark.parametrize("estimator", [LINEAR, FOREST, BY_TARGET], ids=["linear", "forest", "list"])
def test_marginals_and_points_are_those_of_the_univariate_regressors(estimator):
    X, y = world(60)
    joint = model(estimator)
    out_of_sample = joint.fit_transform(X, y)
    dist, levels = joint.predict_dist(X[:7]), [0.1, 0.5]
    assert isinstance(out_of_sample, CopulaJoint)
    assert np.array_equal(out_of_sample.ranks, joint.ranks_)
    for j, one in enumerate(estimator if isinstance(estimator, list) else [estimator] * 3):
        alone = clone(one)
        own = alone.fit_transform(X, y[:, j])
        assert np.array_equal(out_of_sample.marginal(j).mean(), own.mean())
        # the template holds the ranks of out-of-sample forecasts, in-sample ones have another order
        assert np.array_equal(joint.ranks_[:, j], (rankdata(own.pit(y[:, j])) - 0.5) / 60)
        in_sample = joint.estimators_[j].predict_dist(X).pit(y[:, j])
        assert not np.array_equal(rankdata(in_sample), rankdata(own.pit(y[:, j])))
        assert np.array_equal(dist.marginal(j).quantile(levels), alone.predict_dist(X[:7]).quantile(levels))
        assert np.array_equal(joint.predict(X)[:, j], alone.predict(X))
        assert np.array_equal(joint.predict_interval(X, 0.8)[:, :, j], alone.predict_interval(X, 0.8))
        assert np.array_equal(joint.predict_quantiles(X, levels)[:, j], alone.predict_quantiles(X, levels))


@pytest.mark.parametrize("estimator", [Ridge(), BayesianRidge(), make_pipeline(StandardScaler(), Ridge())])
def test_other_regressors_are_wrapped(estimator):
    X, y = world(40, d=2)
    fitted = model(estimator).fit(X, y)
    assert all(isinstance(one, UncertaintyRegressor) for one in fitted.estimators_)
    assert fitted.predict_dist(X).shape == (40, 2)
    # all targets have the same folds without `random_state`
    same = MultiOutputUncertaintyRegressor(ResidualRegressor(Ridge())).fit(X, y[:, [0, 0]])
    assert np.array_equal(same.ranks_[:, 0], same.ranks_[:, 1])


@pytest.mark.parametrize("dependence", ["empirical", "gaussian"])
def test_intervals_of_sums_and_differences_cover(dependence):
    X_all, y_all = world(1500)
    X, y, X_new, y_new = X_all[:400], y_all[:400], X_all[400:], y_all[400:]
    dist = model(dependence=dependence).fit(X, y).predict_dist(X_new)
    independent = model(dependence="independent").fit(X, y).predict_dist(X_new)
    for w in ([1, 1, 1], [1, -1, 0]):
        total = y_new @ w
        assert covered(dist.linear(w).interval(0.9), total) == pytest.approx(0.9, abs=0.03)
        assert crps_loss(total, dist.linear(w)) < 0.99 * crps_loss(total, independent.linear(w))
    assert covered(independent.linear([1, 1, 1]).interval(0.9), y_new.sum(axis=1)) < 0.8


def test_simultaneous_intervals_contain_all_targets():
    X, y = world(1500)
    fitted = model().fit(X[:500], y[:500])
    bounds = fitted.predict_interval(X[500:], 0.9, simultaneous=True)
    inside = ((bounds[:, 0] <= y[500:]) & (y[500:] <= bounds[:, 1])).all(axis=1)
    assert bounds.shape == (1000, 2, 3)
    assert inside.mean() == pytest.approx(0.9, abs=0.03)


def test_a_known_target_improves_the_others():
    X, y = world(1500, d=2)
    dist = model().fit(X[:500], y[:500]).predict_dist(X[500:])
    observed = y[500:].copy()
    observed[:, 1] = np.nan
    given = dist.condition(observed).marginal(0)
    assert crps_loss(y[500:, 1], given) < 0.85 * crps_loss(y[500:, 1], dist.marginal(1))


def test_conditional_dependence_varies_with_x():
    X, y = varying_world(1400)
    fitted = model(dependence="conditional").fit(X[:400], y[:400])
    constant = model().fit(X[:400], y[:400])
    assert fitted.conditional_share_ > 0.5
    assert constant.conditional_share_ == 0.0
    total = y[400:].sum(axis=1)
    scores = [crps_loss(total, one.predict_dist(X[400:]).linear([1, 1])) for one in (fitted, constant)]
    assert scores[0] < 0.9 * scores[1]
    correlation = fitted.predict_dist([[-0.8, 0.0], [0.8, 0.0]]).corr()[:, 0, 1]
    assert correlation[0] < -0.5
    assert correlation[1] > 0.5


def test_conditional_is_empirical_behind_a_closed_gate():
    X, y = world(320, d=2)
    fitted, plain = (model(dependence=kind).fit(X, y) for kind in ("conditional", "empirical"))
    assert fitted.conditional_share_ == 0.0
    w = [1, 1]
    assert np.array_equal(
        fitted.predict_dist(X[:5]).linear(w).quantile(0.9), plain.predict_dist(X[:5]).linear(w).quantile(0.9)
    )


def test_names_come_from_a_data_frame():
    X, y = world(40, d=2)
    table = pd.DataFrame(y, columns=["load", "price"])
    fitted = model().fit(X, table)
    assert list(fitted.target_names_) == ["load", "price"]
    dist = fitted.predict_dist(X)
    assert np.array_equal(dist.marginal("price").mean(), dist.marginal(1).mean())
    assert model().fit(X, y).target_names_ is None
    text = table.astype({"price": object})
    text.loc[3, "price"] = "high"
    with pytest.raises(TypeError, match=r"y\['price'\]"):
        fitted.fit(X, text)


@pytest.mark.parametrize(
    "cv", [None, KFold(3, shuffle=True, random_state=1)], ids=["own folds", "given folds"]
)
def test_missing_targets_leave_rows_out_of_their_own_regressor(cv):
    X, y = world(400, d=2)
    y[::4, 1] = np.nan
    known = ~np.isnan(y[:, 1])
    fitted = model(RESIDUAL, cv=cv).fit(X, y)
    alone = clone(RESIDUAL)
    if cv is not None:
        position = np.cumsum(known) - 1
        splits = [(train[known[train]], test[known[test]]) for train, test in cv.split(X)]
        alone.set_params(cv=[(position[train], position[test]) for train, test in splits])
    pit = alone.fit_transform(X[known], y[known, 1]).pit(y[known, 1])
    assert np.array_equal(fitted.predict(X)[:, 1], alone.predict(X))
    assert np.array_equal(fitted.ranks_[:, 1], (rankdata(pit) - 0.5) / known.sum())
    out_of_fold = fitted.fit_transform(X, y).mean()  # a prediction where the target is missing
    assert np.allclose(out_of_fold[~known, 1], fitted.predict_dist(X[~known]).mean()[:, 1])
    nullable = pd.DataFrame(y, columns=["a", "b"]).astype("Float64")
    assert np.array_equal(model(RESIDUAL, cv=cv).fit(X, nullable).ranks_, fitted.ranks_)


def test_time_ordered_folds():
    X, y = world(200)
    for estimator in (Ridge(), RecalibratedRegressor(LINEAR)):
        fitted = model(estimator, cv=TimeSeriesSplit(4)).fit(X, y)
        assert len(fitted.ranks_) < 200
        assert fitted.correlation_[0, 1] == pytest.approx(0.8, abs=0.15)
    with pytest.raises(ValueError, match="must test every row exactly once"):
        model(Ridge(), cv=TimeSeriesSplit(4)).fit_transform(X, y)


def test_groups_stay_together():
    X, y = world(60, d=2)
    groups = np.arange(60) // 5
    fitted = model(RESIDUAL, cv=GroupKFold(3)).fit(X, y, groups=groups)
    folds = list(GroupKFold(3).split(X, y, groups))
    pit = clone(RESIDUAL).set_params(cv=folds).fit_transform(X, y[:, 0]).pit(y[:, 0])
    assert np.array_equal(fitted.ranks_[:, 0], (rankdata(pit) - 0.5) / 60)
    own = clone(RESIDUAL).set_params(cv=GroupKFold(3))
    one = model(own).fit(X, y, groups=groups)
    with parallel_config("threading"):
        threads = pickle.loads(pickle.dumps(model(own, n_jobs=2).fit(X, y, groups=groups)))
    pit = clone(own).fit_transform(X, y[:, 0], groups=groups).pit(y[:, 0])
    assert np.array_equal(one.ranks_[:, 0], (rankdata(pit) - 0.5) / 60)
    assert np.array_equal(threads.ranks_, one.ranks_)
    assert np.array_equal(threads.predict_interval(X), one.predict_interval(X))


@pytest.mark.parametrize("estimator", [LINEAR, [LINEAR, RESIDUAL]], ids=["one", "list"])
def test_weights_reach_the_regressors_and_the_template(estimator):
    X, y = world(60, d=2)
    weight = np.random.default_rng(1).integers(1, 4, 60).astype(float)
    fitted = model(estimator).fit(X, y, sample_weight=weight)
    first = estimator[0] if isinstance(estimator, list) else estimator
    alone = clone(first).fit(X, y[:, 0], sample_weight=weight)
    assert np.array_equal(fitted.predict(X)[:, 0], alone.predict(X))
    assert fitted.predict_dist(X).weights == pytest.approx(weight / weight.sum())


def test_metadata_is_routed():
    X, y = world(36, d=2)
    weight, groups = np.arange(36) % 3 + 1.0, np.arange(36) // 3
    expected = model(BayesianRidge(), cv=GroupKFold(3)).fit(X, y, sample_weight=weight, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        ridge = BayesianRidge().set_fit_request(sample_weight=True)
        for estimator in (ridge, [ridge, ridge]):
            routed = model(estimator, cv=GroupKFold(3))
            routed.fit(X, y, sample_weight=weight, groups=groups)
            assert np.array_equal(routed.predict(X), expected.predict(X))
            assert np.array_equal(routed.ranks_, expected.ranks_)
        unweighted = model(ridge).set_score_request(sample_weight=False)
        search = GridSearchCV(unweighted, {"dependence": ["gaussian"]}, cv=2)
        search.fit(X, y, sample_weight=weight)
        assert predict_dist(search, X).shape == (36, 2)


def test_containers_of_scikit_learn():
    X, y = world(60, d=2)
    pipeline = make_pipeline(StandardScaler(), model())
    assert supports_dist(pipeline)
    Z = StandardScaler().fit_transform(X)
    expected = model().fit(Z, y).predict_dist(Z).std()
    scaled = TransformedTargetRegressor(model(), transformer=StandardScaler())
    for container in (pipeline.fit(X, y), FrozenEstimator(pipeline), scaled.fit(X, y)):
        assert np.allclose(predict_dist(container, X).std(), expected)


def test_cross_val_predict_dist():
    X, y = world(60, d=2)
    table = pd.DataFrame(y, columns=["a", "b"])
    splitter = KFold(3)
    dist = cross_val_predict_dist(model(), X, table, cv=splitter)
    assert dist.names == ("a", "b")
    for train, test in splitter.split(X):
        assert np.allclose(dist[test].mean(), model().fit(X[train], y[train]).predict(X[test]))
    assert cross_val_predict_dist(model(), X, y[:, :1], cv=splitter).shape == (60, 1)


def test_score_is_the_mean_r2():
    X, y = world(40, d=2)
    fitted = model().fit(X, y)
    expected = [LINEAR.fit(X, column).score(X, column) for column in y.T]
    assert fitted.score(X, y) == pytest.approx(np.mean(expected))
    assert fitted.fit(X, y[:, :1]).n_outputs_ == 1  # one column is one target
    assert np.array_equal(fitted.predict(X), LINEAR.fit(X, y[:, 0]).predict(X)[:, np.newaxis])


def changed(y, row, column, value):
    y = y.astype(object if isinstance(value, str) else float).copy()
    y[row, column] = value
    return y


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y[:, 0], "UncertaintyRegressor, which predicts one target"),
        (lambda y: None, "requires y to be passed"),
        (lambda y: y[:-1], "inconsistent numbers of samples"),
        (lambda y: y[:, :0], "one column per target"),
        (lambda y: y[:, :, np.newaxis], "one column per target"),
        (lambda y: y + 1j, "Complex data not supported"),
        (lambda y: changed(y, 4, 1, np.inf), "got inf in column 1 at row 4"),
        (
            lambda y: changed(y, 4, slice(None), np.nan),
            "got none in 1 rows. The first of these rows is row 4",
        ),
        (lambda y: changed(y, slice(None), 1, 3.0), "got 3 in all rows of column 1"),
        (lambda y: pd.DataFrame(changed(y, slice(None), 1, 3.0), columns=["a", "b"]), "column 'b'"),
        (lambda y: pd.DataFrame(y, columns=["a", "a"]), r"distinct column names, got \['a'\]"),
        (lambda y: changed(y, slice(0, 30), 1, np.nan), "fewer|at least"),
    ],
)
def test_bad_targets(change, message):
    X, y = world(50, d=2)
    with pytest.raises(ValueError, match=message):
        model().fit(X, change(y))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"dependence": "vine"}, ValueError, "`dependence` must be one of"),
        ({"estimator": [LINEAR]}, ValueError, "a list of 2, one per column of `y`, got a list of 1"),
        ({"estimator": MultiOutputRegressor(LINEAR)}, ValueError, "one target"),
        ({"estimator": Ridge}, TypeError, "must be an instance"),
        ({"estimator": StandardScaler()}, TypeError, "must be a regressor"),
        ({"cv": 1}, ValueError, "`cv`"),
        ({"cv": KFold(3)}, ValueError, "LeastSquaresRegressor has no parameter `cv`"),
        ({"estimator": Ridge(), "cv": TimeSeriesSplit(60)}, ValueError, "folds"),
    ],
)
def test_bad_parameters(params, error, message):
    X, y = world(50, d=2)
    with pytest.raises(error, match=message):
        model(**params).fit(X, y)


def test_the_error_of_a_regressor_names_its_target():
    X, y = world(60, d=2)
    y[:19, 1] = np.nan
    with pytest.raises(ValueError, match="degrees of freedom") as caught:
        model().fit(X[13:21], pd.DataFrame(y[13:21], columns=["a", "b"]))
    assert "Raised in the fit of column 'b' of `y`." in caught.value.__notes__
    folds = PredefinedSplit(np.repeat([0, 1, 2], 20))
    with pytest.raises(ValueError, match="at least 2 values in the training rows and 2 in the test rows"):
        model(RESIDUAL, cv=folds).fit(X, y)


N_SERIES, N_HORIZONS, N_FIT, N_NEW = 8, 12, 500, 250


@pytest.fixture(scope="module")
def series():
    """Autoregressive series of order 2 with noise of Student's t distribution, shape (8, n)."""
    noise = np.random.default_rng(0).standard_t(5, size=(N_SERIES, N_FIT + N_NEW))
    y = np.zeros_like(noise)
    for t in range(2, y.shape[1]):
        y[:, t] = 0.6 * y[:, t - 1] + 0.2 * y[:, t - 2] + noise[:, t]
    return y


def lags(series, t):
    return series[:, t - 2 : t + 1]


@pytest.fixture(scope="module")
def training(series):
    """Lags and the next 12 values, in the order of time."""
    times = range(2, N_FIT - N_HORIZONS)
    X = np.concatenate([lags(series, t) for t in times])
    return X, np.concatenate([series[:, t + 1 : t + 1 + N_HORIZONS] for t in times])


def stream(model, series, n_horizons=N_HORIZONS, every=1):
    """Yield the current rows and their next values, after the late targets are passed to ``partial_fit``."""
    pending, names = PendingForecasts(), np.arange(N_SERIES)
    for t in range(N_FIT, N_FIT + N_NEW - n_horizons):
        rows, y = pending.observe(series[:, t], np.full(N_SERIES, t), names)
        if rows is not None:
            model.partial_fit(rows, y)
        X = lags(series, t)
        pending.add(X, t + np.tile(np.arange(1, n_horizons + 1), (N_SERIES, 1)), names)
        if t % every == 0:
            yield X, series[:, t + 1 : t + 1 + n_horizons]
    assert len(pending) == N_SERIES * n_horizons * (n_horizons + 1) / 2


@pytest.mark.laws
def test_one_calibration_per_horizon(series, training):
    """The coverage is .88 to .92 at each of 12 horizons; with one calibration for all, .84 to .99."""
    conformal = ConformalRegressor(LinearRegression(), cv="last", adapt="dtaci")
    model = MultiOutputUncertaintyRegressor(conformal, random_state=0).fit(*training)
    model = pickle.loads(pickle.dumps(model))
    points = MultiOutputRegressor(LinearRegression()).fit(*training)
    pooled = np.quantile(np.abs(training[1] - points.predict(training[0])), 0.9)
    inside, together = [], []
    for X, y in stream(model, series):
        bounds = model.predict_interval(X)
        inside.append((bounds[:, 0] <= y) & (y <= bounds[:, 1]))
        together.append(np.abs(y - points.predict(X)) <= pooled)
    coverage = np.mean(inside, axis=(0, 1))
    assert coverage.min() >= 0.88
    assert coverage.max() <= 0.92
    assert np.ptp(np.mean(together, axis=(0, 1))) > 0.1


@pytest.mark.laws
def test_the_distribution_of_a_path_and_its_sum(series, training):
    """Marginals adapt, and the ranks of the calibration rows join them to a path."""
    recalibrated = RecalibratedRegressor(
        LeastSquaresRegressor(), OnlineRecalibrator(window=1000), cv=TimeSeriesSplit(3)
    )
    model = MultiOutputUncertaintyRegressor(recalibrated, random_state=0)
    model.fit(training[0], training[1][:, :4])
    inside, of_sum, independent = [], [], []
    for X, y in stream(model, series, n_horizons=4, every=6):
        joint = model.predict_dist(X)
        bounds = joint.interval(0.9)
        inside.append((bounds[:, 0] <= y) & (y <= bounds[:, 1]))
        lower, upper = joint.linear(np.ones(4)).interval(0.9).T
        of_sum.append((lower <= y.sum(axis=1)) & (y.sum(axis=1) <= upper))
        half = 1.645 * np.sqrt((joint.std() ** 2).sum(axis=1))
        independent.append(np.abs(y.sum(axis=1) - joint.mean().sum(axis=1)) <= half)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.02)
    assert np.mean(of_sum) == pytest.approx(0.9, abs=0.05)
    assert np.mean(independent) < 0.75


def test_each_target_gets_its_own_rows(training):
    X, y = (part[:120] for part in training)
    y = y[:, :3]
    estimators = [FrozenEstimator(LinearRegression().fit(X, column)) for column in y.T]
    model = MultiOutputUncertaintyRegressor([ConformalRegressor(one) for one in estimators]).fit(X, y)
    late = y[:10].copy()
    late[::2, 0] = late[:, 1] = np.nan
    weight = np.arange(10) % 2 + 1.0
    model.partial_fit(X[:10], late, sample_weight=weight)
    wanted = [ConformalRegressor(one).fit(X, column) for one, column in zip(estimators, y.T, strict=True)]
    wanted[0].partial_fit(X[1:10:2], y[1:10:2, 0], sample_weight=weight[1::2])
    wanted[2].partial_fit(X[:10], y[:10, 2], sample_weight=weight)
    expected = np.stack([one.predict_interval(X, 0.8) for one in wanted], axis=2)
    assert_array_equal(model.predict_interval(X, 0.8), expected)


def test_bad_rows_and_regressors_without_partial_fit(training):
    X, y = (part[:120] for part in training)
    frame = pd.DataFrame(y[:, :2], columns=["one", "two"])
    plain = MultiOutputUncertaintyRegressor(LinearRegression(), random_state=0)
    assert not hasattr(plain, "partial_fit")
    model = MultiOutputUncertaintyRegressor(ConformalRegressor(LinearRegression(), cv="last")).fit(X, frame)
    before = model.predict_interval(X)
    infinite = frame.copy()
    infinite.iloc[3, 1] = np.inf
    for rows, targets, words in (
        (X, y[:, :3], "must have 2 columns"),
        (X, frame[["two", "one"]], r"must have the columns \['one', 'two'\], got \['two', 'one'\]"),
        (X, infinite, "column 'two' at row 3"),
        (X[:9], frame, "inconsistent"),
        (X[:, :2], frame, "2 features"),
        (X, frame["one"], r"shape \(n, d\)"),
    ):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(rows, targets)
    model.partial_fit(X, frame * np.nan)  # no target is known yet
    assert_array_equal(model.predict_interval(X), before)
