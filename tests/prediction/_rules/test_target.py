"""TransformedTargetRegressor: affine in closed form, anything else mapped exactly."""

import copy
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from skuq.distributions import Normal, Transformed
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist


class Fixed(RegressorMixin, BaseEstimator):
    """Predicts the same Normal, on the transformed scale, in every row."""

    def __init__(self, loc=0.0, scale=1.0):
        self.loc = loc
        self.scale = scale

    def fit(self, X, y):
        self.is_fitted_ = True
        return self

    def predict(self, X):
        return np.full(len(X), self.loc)

    def predict_dist(self, X):
        # the first column of X may move a row
        return Normal(self.loc + np.asarray(X)[:, 0], self.scale)


ZERO = np.zeros((1, 1))


def reciprocal(y):
    return 1.0 / y


def fitted(regressor, X, y, forward=None, backward=None, transformer=None):
    model = TransformedTargetRegressor(
        regressor, func=forward, inverse_func=backward, transformer=transformer, check_inverse=False
    )
    return model.fit(X, y)


AFFINE = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler((-1, 3)),
    MinMaxScaler(clip=True),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_centering=False),
    RobustScaler(with_scaling=False),
    FunctionTransformer(),
    make_pipeline(MinMaxScaler(), "passthrough", StandardScaler()),
    None,
]


class TestAffine:
    @pytest.mark.parametrize("transformer", AFFINE, ids=repr)
    def test_keeps_the_family_and_the_decomposition(self, data, transformer):
        X, y = data
        model = TransformedTargetRegressor(BayesianRidge(), transformer=transformer)
        assert supports_dist(model)
        dist = predict_dist(model.fit(X, y), X)
        assert isinstance(dist, Normal)
        np.testing.assert_allclose(dist.mean(), model.predict(X), rtol=1e-12)
        inner = predict_dist(model.regressor_, X)
        one_sigma = model.transformer_.inverse_transform((inner.loc + inner.scale)[:, np.newaxis])[:, 0]
        np.testing.assert_allclose(dist.std(), one_sigma - model.predict(X), rtol=1e-9)
        share = inner.epistemic().std() / inner.std()
        np.testing.assert_allclose(dist.epistemic().std() / dist.std(), share, rtol=1e-12)

    def test_what_looks_affine_but_is_not(self, data):
        """A subclass, and a function that is straight where all the predictions are, and bent above 15."""

        class Cubed(StandardScaler):
            def transform(self, X, copy=None):
                return np.cbrt(super().transform(X))

            def inverse_transform(self, X, copy=None):
                return super().inverse_transform(np.asarray(X) ** 3)

        def forward(y):
            return np.where(y > 15, 15 + 2 * (y - 15), y)

        def backward(z):
            return np.where(z > 15, 15 + (z - 15) / 2, z)

        X, y = data
        dist = predict_dist(fitted(Fixed(), X, y, transformer=Cubed()), X[:2])
        expected = y.mean() + y.std() * (X[:2, 0] + stats.norm.ppf(0.9)) ** 3
        np.testing.assert_allclose(dist.quantile(0.9), expected)
        dist = predict_dist(fitted(Fixed(10.0), X * 0, y, forward, backward), ZERO)
        assert dist.ppf(1 - 1e-12)[0] == pytest.approx(backward(10 + stats.norm.isf(1e-12)))


class TestMonotone:
    def test_logarithm_is_the_log_normal(self, data):
        X, y = data
        model = fitted(BayesianRidge(), X, y, np.log, np.exp)
        dist = predict_dist(model, X)
        inner = predict_dist(model.regressor_, X)
        exact = stats.lognorm(s=inner.scale, scale=np.exp(inner.loc))
        for level in (1e-12, 0.05, 0.5, 0.95):
            np.testing.assert_allclose(dist.quantile(level), exact.ppf(level), rtol=1e-9)
        np.testing.assert_allclose(dist.cdf(y), exact.cdf(y), rtol=1e-9)
        np.testing.assert_allclose(dist.logpdf(y), exact.logpdf(y), rtol=1e-8)
        np.testing.assert_allclose(dist.mean(), exact.mean(), rtol=1e-9)
        np.testing.assert_allclose(dist.std(), exact.std(), rtol=1e-7)
        np.testing.assert_allclose(dist.median(), model.predict(X), rtol=1e-12)
        for again in (pickle.loads(pickle.dumps(dist)), copy.deepcopy(dist)):
            np.testing.assert_array_equal(again.interval(), dist.interval())
            np.testing.assert_array_equal(again.logpdf(y), dist.logpdf(y))
        np.testing.assert_array_equal(dist[10:20].cdf(y[10:20]), dist.cdf(y)[10:20])

    def test_outside_the_range_of_the_map(self, data):
        X, y = data
        dist = predict_dist(fitted(Fixed(), X, y, np.log, np.exp), X[:1])
        for outside in (-1.0, -np.inf):
            assert dist.cdf(outside)[0] == 0.0
            assert dist.logpdf(outside)[0] == -np.inf
        assert (dist.cdf(0.0)[0], dist.cdf(np.inf)[0]) == (0.0, 1.0)
        assert (dist.ppf(0.0)[0], dist.ppf(1.0)[0]) == (0.0, np.inf)
        assert np.isfinite(dist.crps(-1.0)[0])

    @pytest.mark.parametrize("forward", [reciprocal, np.reciprocal])
    def test_decreasing_map_and_the_other_side_of_the_pole(self, data, forward):
        dist = predict_dist(fitted(Fixed(0.5, 0.05), *data, forward, forward), ZERO)
        base = stats.norm(0.5, 0.05)
        assert dist.ppf(0.05)[0] < dist.median()[0] < dist.ppf(0.95)[0]
        np.testing.assert_allclose(dist.ppf(0.05), 1 / base.ppf(0.95))
        np.testing.assert_allclose(dist.interval(0.9), [[1 / base.ppf(0.95), 1 / base.ppf(0.05)]])
        for value in (1.5, 2.0, 3.1):
            density = base.logpdf(1 / value) - 2 * np.log(value)
            assert dist.cdf(value)[0] == pytest.approx(base.sf(1 / value), rel=1e-12)
            assert dist.logpdf(value)[0] == pytest.approx(density, rel=1e-8)
        assert dist.cdf(-1.0)[0] == 0.0
        assert dist.logpdf(-1.0)[0] == -np.inf
        assert dist.ppf(1e-300)[0] > 0
        assert dist.ppf(1 - 2**-53)[0] > 0
        mean = quad(lambda z: base.pdf(z) / z, 0.1, 0.9)[0]
        assert dist.mean()[0] == pytest.approx(mean, rel=1e-5)
        assert np.isfinite(dist.crps(2.0)[0])

    @pytest.mark.parametrize(
        ("forward", "backward"), [(reciprocal, reciprocal), (np.sqrt, np.square), (np.square, np.sqrt)]
    )
    def test_a_map_that_turns_back_or_ends_inside_the_predictions(self, data, forward, backward):
        model = fitted(Fixed(1.0, 1.0), *data, forward, backward)
        with pytest.raises(ValueError, match="must be monotone and defined over the range of the predicted"):
            predict_dist(model, ZERO)

    def test_square_root_far_from_zero(self, data):
        X, y = data
        model = fitted(BayesianRidge(), X, y, np.sqrt, np.square)
        dist, inner = predict_dist(model, X), predict_dist(model.regressor_, X)
        np.testing.assert_allclose(dist.mean(), inner.mean() ** 2 + inner.var(), rtol=1e-6)
        np.testing.assert_allclose(dist.cdf(y), inner.cdf(np.sqrt(y)), rtol=1e-12)

    def test_pipelines_and_functions_with_keywords(self, data):
        X, y = data
        log = FunctionTransformer(np.log, np.exp)
        shift = FunctionTransformer(shifted, shifted, kw_args={"by": 5.0}, inv_kw_args={"by": -5.0})
        after, before, keywords = (
            fitted(BayesianRidge(), X, y, transformer=transformer)
            for transformer in (
                make_pipeline(log, StandardScaler()),
                make_pipeline(MaxAbsScaler(), log),
                shift,
            )
        )
        for model in (after, before, keywords):
            np.testing.assert_allclose(predict_dist(model, X).median(), model.predict(X), rtol=1e-12)
        dist = predict_dist(after, X)
        assert isinstance(dist, Transformed)
        assert isinstance(dist.base, Normal)
        inner = predict_dist(before.regressor_, X)
        exact = stats.lognorm(s=inner.scale, scale=np.exp(inner.loc) * y.max())
        np.testing.assert_allclose(predict_dist(before, X).logpdf(y), exact.logpdf(y), rtol=1e-7)

    def test_point_mass(self, data):
        X, y = data
        for forward, backward in ((np.log, np.exp), (reciprocal, reciprocal)):
            model = fitted(DummyRegressor(), X, y, forward, backward)
            dist = predict_dist(model, X)
            np.testing.assert_allclose(dist.median(), model.predict(X))
            np.testing.assert_allclose(dist.crps(y), np.abs(y - model.predict(X)), rtol=1e-6)


def shifted(y, by):
    return y + by


class TestPowerTransformer:
    def skewed(self, method, sign=1.0):
        """Return a target and its transformer, whose range on the scale of the model is bounded."""
        y = sign * np.minimum(1.0 + np.random.default_rng(3).pareto(1.0, size=200), 50.0)
        transformer = PowerTransformer(method=method).fit(y[:, np.newaxis])
        assert transformer.lambdas_[0] * sign < (0 if sign > 0 else -2)
        return y, transformer

    def predicted(self, loc, scale, y, transformer):
        return predict_dist(
            fitted(Fixed(loc, scale), np.zeros((200, 1)), y, transformer=transformer), ZERO[[0, 0]]
        )

    @pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
    def test_within_the_range(self, data, method):
        X, y = data
        model = fitted(BayesianRidge(), X, y, transformer=PowerTransformer(method=method))
        dist = predict_dist(model, X)
        np.testing.assert_allclose(dist.median(), model.predict(X), rtol=1e-9)
        np.testing.assert_allclose(dist.cdf(dist.ppf(0.3)), 0.3)
        at = np.linspace(y.min() - 15, y.max() + 15, 20001)
        for row in range(3):
            density = dist[np.full(at.size, row)].pdf(at)
            assert np.trapezoid(density, at) == pytest.approx(1.0, rel=1e-6)

    @pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
    def test_negative_power_is_bounded_above_on_the_model_scale(self, method):
        y, transformer = self.skewed(method)
        # far inside: everything is finite, although 1 in 1e20 would lie beyond the bound
        dist = self.predicted(-1.0, 0.1, y, transformer)
        for values in (dist.mean(), dist.std(), dist.crps(y[:2]), dist.ppf(1.0), dist.logpdf(y[:2])):
            assert np.isfinite(values).all()
        # across: what lies beyond is at plus infinity, and nothing is NaN
        dist = self.predicted(1.0, 2.0, y, transformer)
        assert np.isfinite(dist.median()).all()
        for values in (dist.ppf(0.99), dist.mean(), dist.std(), dist.crps(y[:2])):
            assert np.isposinf(values).all()
        assert np.isfinite(dist.logpdf(y[:2])).all()
        assert 0.5 < dist.cdf(1e300)[0] < 0.99
        assert dist.cdf(np.inf)[0] == 1.0

    def test_power_above_two_is_bounded_below(self):
        y, transformer = self.skewed("yeo-johnson", sign=-1.0)
        dist = self.predicted(-1.0, 2.0, y, transformer)
        assert np.isneginf(dist.ppf(0.01)).all()
        assert np.isneginf(dist.mean()).all()
        assert np.isposinf(dist.crps(y[:2])).all()

    def test_box_cox_with_a_positive_power_ends_at_zero(self):
        y = np.random.default_rng(0).normal(10.0, 2.0, size=200)
        transformer = PowerTransformer(method="box-cox").fit(y[:, np.newaxis])
        assert transformer.lambdas_[0] > 0.5
        dist = self.predicted(-5.0, 2.0, y, transformer)
        assert dist.ppf(0.01)[0] == 0.0
        assert dist.cdf(-1e-9)[0] == 0.0
        at_zero = dist.cdf(0.0)[0]
        assert 0.1 < at_zero < 0.9
        assert dist.ppf(at_zero + 0.01)[0] > 0.0
        assert dist.ppf(at_zero - 0.01)[0] == 0.0

    def test_a_row_does_not_depend_on_the_rows_it_is_predicted_with(self):
        y, transformer = self.skewed("yeo-johnson")
        X, rows = np.linspace(-3.0, 3.0, 200)[:, np.newaxis], np.arange(0, 200, 7)
        model = fitted(Fixed(0.0, 0.2), X, y, transformer=transformer)
        together = predict_dist(model, X[rows])
        crps = together.crps(y[rows])
        assert np.isfinite(crps).any()
        assert not np.isfinite(crps).all()
        for place in (0, 14, 28):
            alone = predict_dist(model, X[rows[[place]]])
            np.testing.assert_allclose(alone.interval(0.98)[0], together.interval(0.98)[place])
            np.testing.assert_allclose(alone.crps(y[rows[place]])[0], crps[place], rtol=1e-5)


@pytest.mark.parametrize("output", ["normal", "uniform"])
def test_quantile_transformers_end_at_the_range_of_the_training_target(data, output):
    X, y = data
    transformer = QuantileTransformer(n_quantiles=60, output_distribution=output)
    dist = predict_dist(fitted(Fixed(0.4, 0.4), X * 0, y, transformer=transformer), ZERO)
    assert y.min() <= dist.ppf(0.0)[0] <= dist.ppf(1.0)[0] <= y.max() + 1e-12
    assert dist.cdf(y.min() - 1e-6)[0] == pytest.approx(0.0, abs=1e-6)
    assert dist.cdf(y.max())[0] == pytest.approx(1.0, abs=1e-6)
    assert dist.cdf(dist.ppf(0.5))[0] == pytest.approx(0.5)
    assert np.isfinite(dist.mean()[0])
    assert np.isfinite(dist.crps(20.0)[0])


def test_refusals(data, subtests):
    X, y = data
    with pytest.raises(NotFittedError):
        predict_dist(TransformedTargetRegressor(BayesianRidge()), X)
    assert not supports_dist(TransformedTargetRegressor())
    with pytest.raises(NotProbabilisticError, match="LinearRegression"):
        predict_dist(TransformedTargetRegressor().fit(X, y), X)
    merge = FunctionTransformer(lambda y: y.sum(axis=1, keepdims=True), lambda z: np.hstack([z / 2, z / 2]))
    for inner, transformer, message in (
        (DummyRegressor(), StandardScaler(), "needs one target"),
        (DummyRegressor(), FunctionTransformer(np.log, np.exp), "needs one target"),
        (Fixed(), merge, "must return one column, got 2"),
    ):
        model = fitted(inner, X, np.column_stack([y, y]), transformer=transformer)
        with subtests.test(message), pytest.raises(ValueError, match=message):
            predict_dist(model, X)


def test_log_density_at_the_end_of_the_range_is_not_nan():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1))
    y = np.exp(X[:, 0] + 0.3 * rng.normal(size=100))
    for func, inverse, end in ((np.log, np.exp, 0.0), (np.log1p, np.expm1, -1.0)):
        model = TransformedTargetRegressor(BayesianRidge(), func=func, inverse_func=inverse).fit(X, y)
        np.testing.assert_array_equal(predict_dist(model, X[:3]).logpdf(end), -np.inf)
    root = TransformedTargetRegressor(BayesianRidge(), func=np.sqrt, inverse_func=np.square)
    assert not np.isnan(predict_dist(root.fit(X, (X[:, 0] + 20) ** 2), X[:3]).logpdf(0.0)).any()
