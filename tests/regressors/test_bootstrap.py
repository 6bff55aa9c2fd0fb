"""The naive bootstrap against algorithm 1 and equation 9 of Sluijterman et al. (2024), written by hand."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq.distributions import Empirical
from skuq.exceptions import NoDecompositionError, NoDensityError, SmallSampleWarning
from skuq.regressors import BootstrapRegressor, _bootstrap
from tests.regressors.worlds import heteroscedastic_world, linear_world


class RecordingRegressor(LinearRegression):
    """Remembers the rows it was given; the first column of X is the row number."""

    def fit(self, X, y):
        self.rows_ = X[:, 0].astype(int)
        return super().fit(X, y)


def numbered_world(n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.arange(n), rng.normal(size=n)])
    return X, X[:, 1] + rng.normal(size=n)


def by_hand(model, X, y):
    """Lines 4 and 5 of algorithm 1 and equation 9, row by row, on out-of-bag rows."""
    variances, excess = {}, []
    for j in range(len(y)):
        members = [member for member in model.estimators_ if j not in member.rows_]
        if len(members) < 2:
            continue
        predictions = [float(member.predict(X[[j]])[0]) for member in members]
        mean = sum(predictions) / len(predictions)
        variance = sum((p - mean) ** 2 for p in predictions) / (len(predictions) - 1)
        variances[j] = (mean, variance, len(members))
        excess.append(max((y[j] - mean) ** 2 - variance, 0.0))
    return variances, sum(excess) / len(excess)


def test_algorithm_1_and_equation_9_by_hand():
    X, y = numbered_world()
    model = BootstrapRegressor(RecordingRegressor(), 25, random_state=0).fit(X, y)
    _, noise = by_hand(model, X, y)
    assert model.noise_scale_**2 == pytest.approx(noise, rel=1e-12)
    new = np.array([[3.0, 0.5], [40.0, -1.0]])
    predictions = np.column_stack([member.predict(new) for member in model.estimators_])
    mean, variance = predictions.mean(axis=1), predictions.var(axis=1, ddof=1)
    half = model.factor_ * stats.t.ppf(0.95, model.df_) * np.sqrt(variance + noise)
    assert np.allclose(model.predict_interval(new), np.column_stack([mean - half, mean + half]))
    half = model.factor_ * stats.t.ppf(0.95, model.df_) * np.sqrt(variance)
    confidence = model.predict_dist(new).epistemic().interval()
    assert np.allclose(confidence, np.column_stack([mean - half, mean + half]))
    assert np.allclose(model.predict_dist(new).aleatoric().scale, model.factor_ * np.sqrt(noise))
    assert np.allclose(model.predict(new), mean)


def test_fit_transform_predicts_by_the_out_of_bag_members():
    X, y = numbered_world()
    model = BootstrapRegressor(RecordingRegressor(), 40, random_state=1)
    dist = model.fit_transform(X, y)
    rows, noise = by_hand(model, X, y)
    assert len(rows) == len(y)
    total, extra, freedom = np.empty((3, len(y)))
    for j, (mean, variance, count) in rows.items():
        total[j], freedom[j] = variance + noise, count - 1
        extra[j] = variance * (1 / count - 1 / 40)  # the mean of few is less certain than that of 40
        assert dist.loc[j] == pytest.approx(mean)
        epistemic = model.factor_**2 * variance + extra[j]
        assert dist.epistemic_scale[j] == pytest.approx(np.sqrt(epistemic))
    assert np.allclose(dist.scale, np.sqrt(model.factor_**2 * total + extra))
    assert set(dist.df) == {model.df_}
    assert model.df_ == len(y) - 3  # few rows
    # the factor is the most likely one for the out-of-bag errors, weighted by the members of their spreads
    likelihood = [
        freedom @ stats.t.logpdf(y, 100, dist.loc, np.sqrt(factor**2 * total + extra))
        for factor in model.factor_ * np.array([1, 0.95, 1.05])
    ]
    assert np.argmax(likelihood) == 0


def test_the_distribution_covers_although_the_members_vary_with_the_noise():
    # fully grown trees reproduce the noise, so that their spread alone is as large as the errors
    X, y = linear_world(1400)
    for child in (DecisionTreeRegressor(), DecisionTreeRegressor(min_samples_leaf=5)):
        model = BootstrapRegressor(child, 25, random_state=0)
        out_of_bag = model.fit_transform(X[:400], y[:400])
        for dist, target in ((out_of_bag, y[:400]), (model.predict_dist(X[400:]), y[400:])):
            lower, upper = np.moveaxis(dist.interval([0.5, 0.9]), 1, 0)
            covered = np.mean((lower <= target[:, np.newaxis]) & (target[:, np.newaxis] <= upper), axis=0)
            np.testing.assert_allclose(covered, [0.5, 0.9], atol=0.05)


def test_no_noise_is_the_plain_spread_of_members():
    X, y = numbered_world(30)
    model = BootstrapRegressor(RecordingRegressor(), 60, noise=None, random_state=0)
    out_of_bag, dist = model.fit_transform(X, y), model.predict_dist(X)
    members = np.column_stack([member.predict(X) for member in model.estimators_])
    assert isinstance(dist, Empirical)
    assert np.allclose(
        dist.quantile([0.025, 0.975]), np.quantile(members, [0.025, 0.975], axis=1, method="inverted_cdf").T
    )
    assert np.allclose(dist.mean(), members.mean(axis=1))
    for j, predictions in enumerate(members):
        unseen = predictions[[j not in member.rows_ for member in model.estimators_]]
        assert out_of_bag[j].mean() == pytest.approx(np.mean(unseen))
        assert out_of_bag[j].ppf(0.01) == pytest.approx(min(unseen))
    with pytest.raises(NoDensityError):
        dist.logpdf(y)
    with pytest.raises(NoDecompositionError):
        dist.aleatoric()


def test_heteroscedastic_noise_follows_x_at_the_level_of_equation_9():
    X, y = heteroscedastic_world(600)
    tree = DecisionTreeRegressor(min_samples_leaf=10)
    same = BootstrapRegressor(tree, 25, random_state=0).fit(X, y)
    model = clone(same).set_params(noise="heteroscedastic")
    dist = model.fit_transform(X, y)
    assert model.noise_scale_ == same.noise_scale_
    scale = model.predict_dist(X).aleatoric().scale / model.factor_
    assert np.sqrt(np.mean(scale**2)) == pytest.approx(same.noise_scale_, rel=0.2)
    quiet, loud = model.predict_dist([[0.0, 0, 0], [1.9, 0, 0]]).aleatoric().scale
    assert loud > 1.8 * quiet
    quiet, loud = (dist.aleatoric().scale[rows] for rows in (np.abs(X[:, 0]) < 0.5, np.abs(X[:, 0]) > 1.5))
    assert loud.mean() > 1.3 * quiet.mean()
    X, y = linear_world(400)  # noise that does not vary is left alone
    model.set_params(estimator=DecisionTreeRegressor()).fit(X, y)
    scale = model.predict_dist(X).aleatoric().scale
    assert scale.std() < 0.15 * scale.mean()


def test_rows_beyond_the_sample_of_the_noise_model_have_their_own_scale(monkeypatch):
    X, y = heteroscedastic_world(600)
    model = BootstrapRegressor(LinearRegression(), 10, noise="heteroscedastic", random_state=0)
    every = model.fit_transform(X, y).aleatoric().scale
    monkeypatch.setattr(_bootstrap, "MOST_ROWS", 300)
    scale = model.fit_transform(X, y).aleatoric().scale
    assert len(np.unique(scale)) > 500
    assert np.corrcoef(scale, every)[0, 1] > 0.7


ENSEMBLES = [
    RandomForestRegressor(40, min_samples_leaf=3),
    ExtraTreesRegressor(40, bootstrap=True, min_samples_leaf=3),
    BaggingRegressor(DecisionTreeRegressor(min_samples_leaf=3), n_estimators=40),
    BaggingRegressor(LinearRegression(), n_estimators=40, max_features=2, max_samples=0.8),
]


def own_members(ensemble, X):
    features = getattr(ensemble, "estimators_features_", [slice(None)] * len(ensemble.estimators_))
    members = zip(ensemble.estimators_, features, strict=True)
    return np.column_stack([member.predict(X[:, columns]) for member, columns in members])


@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=lambda ensemble: type(ensemble).__name__)
def test_a_forest_is_fitted_once_and_its_members_used(ensemble):
    X, y = heteroscedastic_world(60)
    model = BootstrapRegressor(ensemble, random_state=0)
    oob = model.fit_transform(X, y)
    assert model.estimators_ == []
    assert len(model.model_.estimators_) == 40
    members = own_members(model.model_, X)
    excess = []
    for j, target in enumerate(y):
        unseen = [k for k, rows in enumerate(model.model_.estimators_samples_) if j not in rows]
        mean, variance = members[j, unseen].mean(), members[j, unseen].var(ddof=1)
        excess.append(max((target - mean) ** 2 - variance, 0))
        assert oob.loc[j] == pytest.approx(mean)
        factor = model.factor_**2 + 1 / len(unseen) - 1 / 40
        assert oob.epistemic_scale[j] == pytest.approx(np.sqrt(variance * factor))
    assert model.noise_scale_**2 == pytest.approx(np.mean(excess))
    dist = model.predict_dist(X)
    assert np.allclose(dist.loc, model.model_.predict(X))
    variance = members.var(axis=1, ddof=1) + model.noise_scale_**2
    assert np.allclose(dist.scale**2, model.factor_**2 * variance)
    assert np.all(dist.df == model.df_)


def test_a_forest_without_bootstrap_is_cross_fitted():
    X, y = heteroscedastic_world(100)
    forest = ExtraTreesRegressor(20, random_state=0)
    model = BootstrapRegressor(forest, random_state=0)
    oob = model.fit_transform(X, y)
    error = y - oob.mean()
    assert np.mean(error**2) > 0.3
    assert np.mean((y - model.predict(X)) ** 2) < 1e-20
    variance = (oob.epistemic_scale / model.factor_) ** 2
    assert model.noise_scale_**2 == pytest.approx(np.maximum(error**2 - variance, 0).mean())
    assert BootstrapRegressor(forest, random_state=0).fit(X, y).noise_scale_ == model.noise_scale_
    members = BootstrapRegressor(forest, noise=None, random_state=0).fit_transform(X, y)
    assert np.mean((y - members.mean()) ** 2) > 0.3


@pytest.mark.parametrize("child", [BaggingRegressor(DecisionTreeRegressor()), DecisionTreeRegressor()])
@pytest.mark.parametrize("noise", ["homoscedastic", "heteroscedastic", None])
def test_rows_that_too_few_members_left_out_get_a_second_opinion(child, noise, monkeypatch):
    refitted = []
    refit = BootstrapRegressor._refit_without_rows

    def recorded(self, data, oob, seed):
        refitted.append(np.flatnonzero(self._too_few_oob(data, oob)))
        return refit(self, data, oob, seed)

    monkeypatch.setattr(BootstrapRegressor, "_refit_without_rows", recorded)
    X, y = heteroscedastic_world(150)
    model = BootstrapRegressor(child, 10, noise=noise, random_state=0)
    oob = model.fit_transform(X, y)
    plain = BootstrapRegressor(child, 10, noise=noise, random_state=0).fit(X, y)
    assert np.array_equal(model.predict_interval(X), plain.predict_interval(X))
    if noise is None:
        return
    (too_few_oob,) = refitted
    assert 0 < len(too_few_oob) < 30
    assert np.abs((y - oob.loc)[too_few_oob]).mean() > 3 * np.abs((y - plain.predict(X))[too_few_oob]).mean()
    moved = y.copy()
    moved[too_few_oob[0]] += 50
    after = BootstrapRegressor(child, 10, noise=noise, random_state=0).fit_transform(X, moved)
    assert after.loc[too_few_oob[0]] == pytest.approx(oob.loc[too_few_oob[0]])


def test_a_finished_forest_learns_its_noise_from_new_rows():
    X, y = heteroscedastic_world(400)
    forest = RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(X[:200], y[:200])
    pipeline = make_pipeline(StandardScaler(), forest).fit(X[:200], y[:200])
    for finished, inner_X in ((forest, X), (pipeline, pipeline[:-1].transform(X))):
        model = BootstrapRegressor(FrozenEstimator(finished)).fit(X[200:], y[200:])
        members = own_members(forest, inner_X[200:])
        excess = np.maximum((y[200:] - members.mean(axis=1)) ** 2 - members.var(axis=1, ddof=1), 0)
        assert model.noise_scale_**2 == pytest.approx(excess.mean())
        assert np.allclose(model.predict(X), own_members(forest, inner_X).mean(axis=1))
    with pytest.raises(NotFittedError):
        BootstrapRegressor(FrozenEstimator(RandomForestRegressor())).fit(X, y)


def test_weights_are_repetitions_for_any_estimator():
    X, y = numbered_world(50)
    weight = np.where(np.arange(50) < 10, 6.0, 0.0)
    weight[20:25] = 2.0
    model = BootstrapRegressor(RecordingRegressor(), 200, random_state=0).fit(X, y, sample_weight=weight)
    drawn = np.concatenate([member.rows_ for member in model.estimators_])
    assert all(len(member.rows_) == 70 for member in model.estimators_)
    share = np.bincount(drawn, minlength=50) / len(drawn)
    assert np.allclose(share, weight / 70, atol=0.01)
    assert share[weight == 0].sum() == 0
    neighbors = BootstrapRegressor(KNeighborsRegressor(), 10, random_state=0)
    with pytest.warns(SmallSampleWarning, match="got 6"):  # ten members leave out one row of positive weight
        neighbors.fit(X, y, sample_weight=weight)
    assert np.isfinite(neighbors.predict_interval(X)).all()


def test_weighted_noise_is_the_noise_of_repeated_rows():
    X, y = linear_world(300)
    weight = np.random.default_rng(0).integers(1, 4, size=300)
    rows = np.repeat(np.arange(300), weight)
    model = BootstrapRegressor(LinearRegression(), 100, random_state=0)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X[rows], y[rows])
    assert weighted.noise_scale_ == pytest.approx(repeated.noise_scale_, rel=0.03)
    one, other = (model.predict_dist(X).epistemic().scale.mean() for model in (weighted, repeated))
    assert one == pytest.approx(other, rel=0.1)
    weight = np.r_[np.zeros(6), np.full(6, 20.0)]  # the others are hardly ever out of bag
    model.set_params(n_estimators=5).fit(X[:12], y[:12], sample_weight=weight)
    assert 0 < model.noise_scale_ < np.inf


def test_bad_parameters():
    X, y = linear_world(30)
    line = LinearRegression()
    for model, options, error, message in (
        (BootstrapRegressor(line, noise="gaussian"), {}, ValueError, "`noise` must be one of"),
        (BootstrapRegressor(line, 1), {}, ValueError, "`n_estimators` must be at least 2"),
        (BootstrapRegressor(line, 2.5), {}, TypeError, "`n_estimators` must be an integer"),
        (BootstrapRegressor(RandomForestRegressor(1)), {}, ValueError, "at least two members, got one"),
        (BootstrapRegressor(line, 5), {"groups": np.arange(30)}, ValueError, "GroupKFold"),
        (BootstrapRegressor(line, 5), {"sample_weight": y * 0 + 0.01}, ValueError, "counts repetitions"),
    ):
        with pytest.raises(error, match=message):
            model.fit(X, y, **options)


@pytest.mark.parametrize("seed", range(4))
def test_without_noise_few_agreeing_out_of_bag_members_are_not_the_last_word(seed):
    # the handful of trees that left a row out may agree by chance; a point mass beside y stops StdScaling
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(300, 3))
    y = np.sin(2 * X[:, 0]) + (0.1 + np.abs(X[:, 1])) * rng.normal(size=300)
    bagged = BaggingRegressor(DecisionTreeRegressor(), 20, random_state=seed)
    dist = BootstrapRegressor(bagged, noise=None, random_state=seed).fit_transform(X, y)
    assert dist.std().min() > 0
    constant = BootstrapRegressor(bagged, noise=None, random_state=seed).fit_transform(X, 0 * y)
    np.testing.assert_array_equal(constant.interval(), 0.0)  # exact, so that no other ensemble is fitted


@pytest.mark.parametrize("noise", ["homoscedastic", "heteroscedastic", None])
@pytest.mark.parametrize("unit", [2.0**-300, 2.0**300])
def test_units_of_any_size(noise, unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + (1 + np.abs(X[:, 1])) * rng.normal(size=60)
    model = BootstrapRegressor(LinearRegression(), 10, noise=noise, random_state=0)
    for predict in (lambda c: model.fit(X, c * y).predict_dist(X), lambda c: model.fit_transform(X, c * y)):
        before, after = predict(1.0), predict(unit)
        for number in ("mean", "std", "interval"):
            expected = getattr(before, number)()
            np.testing.assert_allclose(getattr(after, number)() / unit, expected, rtol=1e-9, atol=1e-9)


def test_predict_is_the_mean_of_the_supported_distribution():
    X, y = linear_world(60)
    for support in (None, (float(y.min()), None)):
        model = BootstrapRegressor(LinearRegression(), 10, support=support, random_state=0).fit(X, y)
        dist = model.predict_dist(X)
        for point in (model.predict(X), model.predict(X, return_std=True)[0]):
            np.testing.assert_allclose(point, dist.mean())
