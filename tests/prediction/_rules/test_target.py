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
from sklearn.linear_model import BayesianRidge, LinearRegression
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


def reciprocal(y):
    return 1.0 / y


class TestAffine:
    @pytest.mark.parametrize(
        "transformer",
        [
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
        ],
        ids=repr,
    )
    def test_keeps_the_family_and_the_decomposition(self, data, transformer):
        X, y = data
        model = TransformedTargetRegressor(BayesianRidge(), transformer=transformer)
        assert supports_dist(model)
        model.fit(X, y)
        dist = predict_dist(model, X)
        assert isinstance(dist, Normal)
        np.testing.assert_allclose(dist.mean(), model.predict(X), rtol=1e-12)
        inner = predict_dist(model.regressor_, X)
        one_sigma = model.transformer_.inverse_transform((inner.loc + inner.scale)[:, np.newaxis])[:, 0]
        np.testing.assert_allclose(dist.std(), one_sigma - model.predict(X), rtol=1e-9)
        share = inner.epistemic().std() / inner.std()
        np.testing.assert_allclose(dist.epistemic().std() / dist.std(), share, rtol=1e-12)

    def test_a_subclass_may_be_anything_and_is_not_taken_for_affine(self, data):
        class Cubed(StandardScaler):
            def transform(self, X, copy=None):
                return np.cbrt(super().transform(X))

            def inverse_transform(self, X, copy=None):
                return super().inverse_transform(np.asarray(X) ** 3)

        X, y = data
        model = TransformedTargetRegressor(Fixed(), transformer=Cubed(), check_inverse=False).fit(X, y)
        dist = predict_dist(model, X[:2])
        expected = y.mean() + y.std() * (X[:2, 0] + stats.norm.ppf(0.9)) ** 3
        np.testing.assert_allclose(dist.quantile(0.9), expected)

    def test_a_function_that_looks_affine_but_is_not(self, data):
        """Straight from 0 to 15, where all the predictions are, and bent above."""
        X, y = data

        def forward(y):
            return np.where(y > 15, 15 + 2 * (y - 15), y)

        def backward(z):
            return np.where(z > 15, 15 + (z - 15) / 2, z)

        model = TransformedTargetRegressor(Fixed(10.0), func=forward, inverse_func=backward).fit(X * 0, y)
        dist = predict_dist(model, np.zeros((1, 1)))
        assert dist.ppf(1 - 1e-12)[0] == pytest.approx(backward(10 + stats.norm.isf(1e-12)))


class TestMonotone:
    def test_logarithm_is_the_log_normal(self, data):
        X, y = data
        model = TransformedTargetRegressor(BayesianRidge(), func=np.log, inverse_func=np.exp).fit(X, y)
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

    def test_below_the_range_of_the_map(self, data):
        X, y = data
        model = TransformedTargetRegressor(Fixed(), func=np.log, inverse_func=np.exp).fit(X, y)
        dist = predict_dist(model, X[:1])
        for outside in (-1.0, -np.inf):
            assert dist.cdf(outside)[0] == 0.0
            assert dist.logpdf(outside)[0] == -np.inf
        assert dist.cdf(0.0)[0] == 0.0
        assert dist.cdf(np.inf)[0] == 1.0
        assert dist.ppf(0.0)[0] == 0.0
        assert dist.ppf(1.0)[0] == np.inf
        assert np.isfinite(dist.crps(-1.0)[0])

    @pytest.mark.parametrize("forward", [reciprocal, np.reciprocal])
    def test_decreasing_map(self, data, forward):
        X, y = data
        model = TransformedTargetRegressor(Fixed(0.5, 0.05), func=forward, inverse_func=forward)
        dist = predict_dist(model.fit(X, y), np.zeros((1, 1)))
        base = stats.norm(0.5, 0.05)
        assert dist.ppf(0.05)[0] < dist.median()[0] < dist.ppf(0.95)[0]
        np.testing.assert_allclose(dist.ppf(0.05), 1 / base.ppf(0.95))
        np.testing.assert_allclose(dist.interval(0.9), [[1 / base.ppf(0.95), 1 / base.ppf(0.05)]])
        for value in (1.5, 2.0, 3.1):
            assert dist.cdf(value)[0] == pytest.approx(base.sf(1 / value), rel=1e-12)
            assert dist.logpdf(value)[0] == pytest.approx(
                base.logpdf(1 / value) - 2 * np.log(value), rel=1e-8
            )

    def test_the_other_side_of_the_pole_has_no_probability(self, data):
        X, y = data
        model = TransformedTargetRegressor(Fixed(0.5, 0.05), func=reciprocal, inverse_func=reciprocal)
        dist = predict_dist(model.fit(X, y), np.zeros((1, 1)))
        assert dist.cdf(-1.0)[0] == 0.0
        assert dist.logpdf(-1.0)[0] == -np.inf
        assert dist.ppf(1e-300)[0] > 0
        assert dist.ppf(1 - 2**-53)[0] > 0
        mean = quad(lambda z: stats.norm.pdf(z, 0.5, 0.05) / z, 0.1, 0.9)[0]
        assert dist.mean()[0] == pytest.approx(mean, rel=1e-5)
        assert np.isfinite(dist.crps(2.0)[0])

    @pytest.mark.parametrize(
        ("forward", "backward"), [(reciprocal, reciprocal), (np.sqrt, np.square), (np.square, np.sqrt)]
    )
    def test_a_map_that_turns_back_or_ends_inside_the_predictions(self, data, forward, backward):
        X, y = data
        model = TransformedTargetRegressor(
            Fixed(1.0, 1.0), func=forward, inverse_func=backward, check_inverse=False
        )
        with pytest.raises(ValueError, match="must be monotone and defined over the range of the predicted"):
            predict_dist(model.fit(X, y), np.zeros((1, 1)))

    def test_square_root_far_from_zero(self, data):
        X, y = data
        model = TransformedTargetRegressor(BayesianRidge(), func=np.sqrt, inverse_func=np.square).fit(X, y)
        dist = predict_dist(model, X)
        inner = predict_dist(model.regressor_, X)
        np.testing.assert_allclose(dist.mean(), inner.mean() ** 2 + inner.var(), rtol=1e-6)
        np.testing.assert_allclose(dist.cdf(y), inner.cdf(np.sqrt(y)), rtol=1e-12)

    def test_scaler_after_a_function(self, data):
        X, y = data
        log = FunctionTransformer(np.log, np.exp)
        model = TransformedTargetRegressor(
            BayesianRidge(), transformer=make_pipeline(log, StandardScaler())
        ).fit(X, y)
        plain = TransformedTargetRegressor(BayesianRidge(), func=np.log, inverse_func=np.exp).fit(X, y)
        dist = predict_dist(model, X)
        assert isinstance(dist, Transformed)
        assert isinstance(dist.base, Normal)
        np.testing.assert_allclose(dist.median(), predict_dist(plain, X).median(), rtol=1e-3)
        np.testing.assert_allclose(dist.median(), model.predict(X), rtol=1e-12)

    def test_scaler_before_a_function(self, data):
        X, y = data
        transformer = make_pipeline(MaxAbsScaler(), FunctionTransformer(np.log, np.exp))
        model = TransformedTargetRegressor(BayesianRidge(), transformer=transformer).fit(X, y)
        dist = predict_dist(model, X)
        np.testing.assert_allclose(dist.median(), model.predict(X), rtol=1e-12)
        inner = predict_dist(model.regressor_, X)
        exact = stats.lognorm(s=inner.scale, scale=np.exp(inner.loc) * y.max())
        np.testing.assert_allclose(dist.logpdf(y), exact.logpdf(y), rtol=1e-7)

    def test_function_with_keywords(self, data):
        X, y = data
        transformer = FunctionTransformer(shifted, shifted, kw_args={"by": 5.0}, inv_kw_args={"by": -5.0})
        model = TransformedTargetRegressor(BayesianRidge(), transformer=transformer).fit(X, y)
        np.testing.assert_allclose(predict_dist(model, X).median(), model.predict(X))

    def test_point_mass(self, data):
        X, y = data
        for forward, backward in ((np.log, np.exp), (reciprocal, reciprocal)):
            model = TransformedTargetRegressor(DummyRegressor(), func=forward, inverse_func=backward).fit(
                X, y
            )
            dist = predict_dist(model, X)
            np.testing.assert_allclose(dist.median(), model.predict(X))
            np.testing.assert_allclose(dist.crps(y), np.abs(y - model.predict(X)), rtol=1e-6)

    def test_pickles_copies_and_slices(self, data):
        X, y = data
        model = TransformedTargetRegressor(BayesianRidge(), func=np.log, inverse_func=np.exp).fit(X, y)
        dist = predict_dist(model, X)
        for again in (pickle.loads(pickle.dumps(dist)), copy.deepcopy(dist)):
            np.testing.assert_array_equal(again.interval(), dist.interval())
            np.testing.assert_array_equal(again.logpdf(y), dist.logpdf(y))
        np.testing.assert_array_equal(dist[10:20].cdf(y[10:20]), dist.cdf(y)[10:20])


def shifted(y, by):
    return y + by


class TestPowerTransformer:
    def skewed(self, method, sign=1.0):
        y = sign * np.minimum(1.0 + np.random.default_rng(3).pareto(1.0, size=200), 50.0)
        transformer = PowerTransformer(method=method).fit(y[:, np.newaxis])
        return y, transformer, transformer.lambdas_[0]

    @pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
    def test_within_the_range(self, data, method):
        X, y = data
        model = TransformedTargetRegressor(BayesianRidge(), transformer=PowerTransformer(method=method)).fit(
            X, y
        )
        dist = predict_dist(model, X)
        np.testing.assert_allclose(dist.median(), model.predict(X), rtol=1e-9)
        np.testing.assert_allclose(dist.cdf(dist.ppf(0.3)), 0.3)
        at = np.linspace(y.min() - 15, y.max() + 15, 20001)
        for row in range(3):
            density = dist[np.full(at.size, row)].pdf(at)
            assert np.trapezoid(density, at) == pytest.approx(1.0, rel=1e-6)

    @pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
    def test_negative_power_is_bounded_above_on_the_model_scale(self, method):
        y, transformer, power = self.skewed(method)
        assert power < 0
        X = np.zeros((200, 1))
        # far inside: everything is finite, although 1 in 1e20 would lie beyond the bound
        inside = TransformedTargetRegressor(Fixed(-1.0, 0.1), transformer=transformer).fit(X, y)
        dist = predict_dist(inside, X[:2])
        for values in (dist.mean(), dist.std(), dist.crps(y[:2]), dist.ppf(1.0), dist.logpdf(y[:2])):
            assert np.isfinite(values).all()
        # across: what lies beyond is at plus infinity, and nothing is NaN
        across = TransformedTargetRegressor(Fixed(1.0, 2.0), transformer=transformer).fit(X, y)
        dist = predict_dist(across, X[:2])
        assert np.isfinite(dist.median()).all()
        assert np.isposinf(dist.ppf(0.99)).all()
        assert np.isposinf(dist.mean()).all()
        assert np.isposinf(dist.std()).all()
        assert np.isposinf(dist.crps(y[:2])).all()
        assert np.isfinite(dist.logpdf(y[:2])).all()
        beyond = dist.cdf(1e300)[0]
        assert 0.5 < beyond < 0.99
        assert dist.cdf(np.inf)[0] == 1.0

    def test_power_above_two_is_bounded_below(self):
        y, transformer, power = self.skewed("yeo-johnson", sign=-1.0)
        assert power > 2
        X = np.zeros((200, 1))
        across = TransformedTargetRegressor(Fixed(-1.0, 2.0), transformer=transformer).fit(X, y)
        dist = predict_dist(across, X[:2])
        assert np.isneginf(dist.ppf(0.01)).all()
        assert np.isneginf(dist.mean()).all()
        assert np.isposinf(dist.crps(y[:2])).all()

    def test_box_cox_with_a_positive_power_ends_at_zero(self):
        y = np.random.default_rng(0).normal(10.0, 2.0, size=200)
        transformer = PowerTransformer(method="box-cox").fit(y[:, np.newaxis])
        assert transformer.lambdas_[0] > 0.5
        X = np.zeros((200, 1))
        dist = predict_dist(
            TransformedTargetRegressor(Fixed(-5.0, 2.0), transformer=transformer).fit(X, y), X[:1]
        )
        assert dist.ppf(0.01)[0] == 0.0
        assert dist.cdf(-1e-9)[0] == 0.0
        at_zero = dist.cdf(0.0)[0]
        assert 0.1 < at_zero < 0.9
        assert dist.ppf(at_zero + 0.01)[0] > 0.0
        assert dist.ppf(at_zero - 0.01)[0] == 0.0

    def test_a_row_does_not_depend_on_the_rows_it_is_predicted_with(self):
        y, transformer, _ = self.skewed("yeo-johnson")
        X = np.linspace(-3.0, 3.0, 200)[:, np.newaxis]
        model = TransformedTargetRegressor(Fixed(0.0, 0.2), transformer=transformer).fit(X, y)
        together = predict_dist(model, X)
        finite = np.isfinite(together.crps(y))
        assert finite.any()
        assert not finite.all()
        for row in (0, 100, 199):
            alone = predict_dist(model, X[[row]])
            np.testing.assert_allclose(alone.interval(0.98)[0], together.interval(0.98)[row])
            np.testing.assert_allclose(alone.crps(y[row])[0], together.crps(y)[row], rtol=1e-5)


class TestQuantileTransformer:
    @pytest.mark.parametrize("output", ["normal", "uniform"])
    def test_ends_at_the_range_of_the_training_target(self, data, output):
        X, y = data
        transformer = QuantileTransformer(n_quantiles=60, output_distribution=output)
        model = TransformedTargetRegressor(LinearRegression(), transformer=transformer)
        model.set_params(regressor=Fixed(0.4, 0.4), check_inverse=False).fit(X * 0, y)
        dist = predict_dist(model, np.zeros((1, 1)))
        assert y.min() <= dist.ppf(0.0)[0] <= dist.ppf(1.0)[0] <= y.max() + 1e-12
        assert dist.cdf(y.min() - 1e-6)[0] == pytest.approx(0.0, abs=1e-6)
        assert dist.cdf(y.max())[0] == pytest.approx(1.0, abs=1e-6)
        assert dist.cdf(dist.ppf(0.5))[0] == pytest.approx(0.5)
        assert np.isfinite(dist.mean()[0])
        assert np.isfinite(dist.crps(20.0)[0])


class TestRefusals:
    def test_unfitted(self, data):
        with pytest.raises(NotFittedError):
            predict_dist(TransformedTargetRegressor(BayesianRidge()), data[0])

    def test_default_regressor(self, data):
        X, y = data
        assert not supports_dist(TransformedTargetRegressor())
        with pytest.raises(NotProbabilisticError, match="LinearRegression"):
            predict_dist(TransformedTargetRegressor().fit(X, y), X)

    def test_two_columns(self, data):
        X, y = data
        pair = np.column_stack([y, y])
        for transformer in (StandardScaler(), FunctionTransformer(np.log, np.exp)):
            model = TransformedTargetRegressor(DummyRegressor(), transformer=transformer).fit(X, pair)
            with pytest.raises(ValueError, match="needs one target"):
                predict_dist(model, X)

    def test_transformer_that_merges_two_columns_into_one(self, data):
        X, y = data
        merge = FunctionTransformer(
            lambda y: y.sum(axis=1, keepdims=True), lambda z: np.hstack([z / 2, z / 2])
        )
        model = TransformedTargetRegressor(Fixed(), transformer=merge, check_inverse=False)
        model.fit(X, np.column_stack([y, y]))
        with pytest.raises(ValueError, match="must return one column, got 2"):
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
