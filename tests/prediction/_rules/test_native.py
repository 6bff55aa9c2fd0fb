"""scikit-learn's own probabilistic regressors and their traps."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import ARDRegression, BayesianRidge, QuantileRegressor

from skuq.distributions import Normal
from skuq.exceptions import NoDensityError, NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist
from skuq.prediction._quantile_estimators import configured_levels, find_quantile_loss
from skuq.regressors import MultiQuantileRegressor


class TestBayesianLinear:
    @pytest.mark.parametrize("cls", [BayesianRidge, ARDRegression])
    def test_equals_return_std(self, cls, data):
        X, y = data
        X = X - X.mean(axis=0)  # scikit-learn 1.6 forgets to center
        model = cls().fit(X, y)
        loc, scale = model.predict(X, return_std=True)
        dist = predict_dist(model, X)
        assert isinstance(dist, Normal)
        np.testing.assert_array_equal(dist.mean(), loc)
        np.testing.assert_allclose(dist.std(), scale, rtol=1e-12)

    def test_decomposition_is_the_posterior_of_the_coefficients_and_the_noise(self, data):
        X, y = data
        model = BayesianRidge().fit(X, y)
        dist = predict_dist(model, X)
        centered = X - X.mean(axis=0)
        posterior = np.sqrt(np.einsum("ij,jk,ik->i", centered, model.sigma_, centered))
        np.testing.assert_allclose(dist.epistemic().std(), posterior, rtol=1e-10)
        np.testing.assert_allclose(dist.aleatoric().std(), model.alpha_**-0.5, rtol=1e-10)

    @pytest.mark.parametrize("cls", [BayesianRidge, ARDRegression])
    def test_does_not_depend_on_where_the_features_are(self, cls, data):
        X, y = data
        here, there = (predict_dist(cls().fit(X + shift, y), X + shift) for shift in (0.0, 100.0))
        np.testing.assert_allclose(there.std(), here.std(), rtol=1e-6)

    def test_decomposition_with_pruned_coefficients(self, data):
        X, y = data
        X = np.column_stack([X, np.random.default_rng(1).normal(size=60)])
        model = ARDRegression(threshold_lambda=100.0).fit(X, y)
        kept = model.lambda_ < 100.0
        assert not kept.all()
        centered = (X - X.mean(axis=0))[:, kept]
        posterior = np.sqrt(np.einsum("ij,jk,ik->i", centered, model.sigma_, centered))
        np.testing.assert_allclose(predict_dist(model, X).epistemic().std(), posterior, rtol=1e-9)

    @pytest.mark.parametrize("cls", [BayesianRidge, ARDRegression])
    def test_data_frame_and_object_columns(self, cls, data):
        X, y = data
        frame = pd.DataFrame(X, columns=list("abc"))
        model = cls().fit(frame, y)
        expected = predict_dist(model, frame)
        assert type(expected.scale) is np.ndarray
        mixed = predict_dist(model, frame.astype(object))
        np.testing.assert_allclose(mixed.std(), expected.std(), rtol=1e-12)
        plain = cls().fit(X, y)
        np.testing.assert_allclose(predict_dist(plain, X.astype(object)).std(), expected.std())
        np.testing.assert_allclose(predict_dist(plain, X.tolist()).std(), expected.std())

    def test_bad_X(self, data):
        X, y = data
        with pytest.raises(NotFittedError):
            predict_dist(BayesianRidge(), X)
        model = BayesianRidge().fit(X, y)
        broken = X.copy()
        for bad in (np.nan, np.inf):
            broken[3, 1] = bad
            with pytest.raises(ValueError, match="contains"):
                predict_dist(model, broken)
        with pytest.raises(ValueError, match="could not convert string to float"):
            predict_dist(model, np.full((2, 3), "a", dtype=object))
        with pytest.raises(ValueError, match="features"):
            predict_dist(model, X[:, :2])


class TestGaussianProcess:
    def fitted(self, data, kernel=None, **options):
        X, y = data
        kernel = RBF(1.5, "fixed") if kernel is None else kernel
        return GaussianProcessRegressor(kernel, **options).fit(X, y)

    @pytest.mark.parametrize("normalize_y", [False, True])
    def test_noise_is_alpha_or_the_white_part_of_the_kernel(self, data, normalize_y):
        X, y = data
        model = self.fitted(data, alpha=0.3, normalize_y=normalize_y)
        reported = model.predict(X, return_std=True)[1]
        noise = 0.3 * (y.var() if normalize_y else 1.0)  # in the units of the scaled target
        dist = predict_dist(model, X)
        np.testing.assert_allclose(dist.var(), reported**2 + noise, rtol=1e-12)
        np.testing.assert_allclose(dist.epistemic().std(), reported, rtol=1e-12)
        np.testing.assert_allclose(dist.aleatoric().var(), noise, rtol=1e-8)
        kernel = RBF(1.5, "fixed") + WhiteKernel(0.3, "fixed")
        by_kernel = predict_dist(self.fitted(data, kernel, alpha=1e-12, normalize_y=normalize_y), X)
        np.testing.assert_allclose(by_kernel.std(), dist.std(), rtol=1e-8)
        np.testing.assert_allclose(by_kernel.epistemic().std(), dist.epistemic().std(), rtol=1e-6)

    def test_noise_inside_a_product_and_no_noise(self, data):
        X, _ = data
        kernel = ConstantKernel(2.0, "fixed") * (RBF(1.5, "fixed") + WhiteKernel(0.15, "fixed"))
        dist = predict_dist(self.fitted(data, kernel, alpha=1e-12), X)
        np.testing.assert_allclose(dist.aleatoric().var(), 0.3, rtol=1e-6)
        kernel = DotProduct(1.0, "fixed") + RBF(1.5, "fixed")
        dist = predict_dist(self.fitted(data, kernel, alpha=1e-10), X + 3.0)
        np.testing.assert_allclose(dist.epistemic().std(), dist.std(), rtol=1e-6)

    def test_default_kernel_and_shapes_of_alpha_and_y(self, data):
        X, y = data
        dist = predict_dist(GaussianProcessRegressor(alpha=0.5, optimizer=None).fit(X, y), X[:1])
        assert dist.aleatoric().var()[0] == pytest.approx(0.5)
        expected = predict_dist(self.fitted(data, alpha=0.3), X)
        one_entry = predict_dist(self.fitted(data, alpha=np.array([0.3])), X)
        np.testing.assert_allclose(one_entry.std(), expected.std())
        frame = pd.DataFrame(X, columns=list("abc"))
        column = predict_dist(self.fitted((frame, y[:, np.newaxis]), alpha=0.3), frame)
        np.testing.assert_allclose(column.std(), expected.std())

    def test_errors(self, data):
        X, y = data
        model = self.fitted(data, alpha=np.full(60, 0.3))
        assert not supports_dist(model)
        with pytest.raises(NotProbabilisticError, match="got one value per training row"):
            predict_dist(model, X)
        with pytest.raises(NotFittedError):  # though scikit-learn predicts the prior
            predict_dist(GaussianProcessRegressor(), X)
        with pytest.raises(ValueError, match="needs one target"):
            predict_dist(self.fitted((X, np.column_stack([y, y])), alpha=0.3), X)


class TestDummy:
    @pytest.mark.parametrize(
        "options", [{}, {"strategy": "median"}, {"strategy": "quantile", "quantile": 0.2}]
    )
    def test_point_mass_whose_crps_is_the_absolute_error(self, data, options):
        X, y = data
        model = DummyRegressor(**options).fit(X, y)
        dist = predict_dist(model, X)
        np.testing.assert_array_equal(dist.mean(), model.predict(X))
        np.testing.assert_array_equal(dist.std(), 0.0)
        np.testing.assert_allclose(dist.crps(y), np.abs(y - model.predict(X)))

    def test_errors(self, data):
        X, y = data
        with pytest.raises(NoDensityError):
            predict_dist(DummyRegressor().fit(X, y), X).logpdf(y)
        with pytest.raises(NotFittedError):
            predict_dist(DummyRegressor(), X)
        with pytest.raises(ValueError, match="needs one target"):
            predict_dist(DummyRegressor().fit(X, np.column_stack([y, y])), X)


class Convention(RegressorMixin, BaseEstimator):
    """Another package's regressor that follows scikit-learn's convention."""

    def fit(self, X, y):
        self.mean_, self.std_ = np.mean(y), np.std(y)
        return self

    def predict(self, X, return_std=False):
        loc = np.full(len(X), self.mean_)
        return (loc, pd.Series(np.full(len(X), self.std_))) if return_std else loc


def test_return_std_of_another_package(data):
    X, y = data

    class Swallows(Convention):
        def predict(self, X, **params):
            return super().predict(X, **params)

    class MeanAndVariance(Convention):
        def predict(self, X, return_std=False):
            both = np.ones((len(X), 2))
            return (both, both) if return_std else both

    assert supports_dist(Convention())
    np.testing.assert_allclose(predict_dist(Convention().fit(X, y), X).std(), y.std())
    assert not supports_dist(Swallows())
    with pytest.raises(NotProbabilisticError, match="Swallows"):
        predict_dist(Swallows().fit(X, y), X)
    with pytest.raises(ValueError, match=r"shape \(\d+, 2\).*parameters of a distribution.*skuq.register"):
        predict_dist(MeanAndVariance().fit(X, y), X)


# ------------------------------------------------------------------- quantile losses of scikit-learn 1.10


def tree(name, module="sklearn.ensemble", parameter=True):
    """Return a stand-in of a class, which predicts a quantile only with `criterion="quantile"`."""

    class Tree(RegressorMixin, BaseEstimator):
        def __init__(self, criterion="squared_error", quantile=0.5):
            self.criterion = criterion
            self.quantile = quantile

        def fit(self, X, y):
            self.value_ = np.quantile(y, self.quantile) if self.criterion == "quantile" else np.mean(y)
            return self

        def predict(self, X):
            return np.full(len(X), self.value_)

    class Old(Tree):
        def __init__(self, criterion="squared_error"):
            self.criterion = criterion

    made = Tree if parameter else Old
    made.__name__, made.__module__ = name, module
    return made


@pytest.mark.parametrize("name", ["DecisionTreeRegressor", "RandomForestRegressor", "ExtraTreesRegressor"])
def test_trees_and_forests_predict_quantiles_by_their_criterion(data, name):
    X, y = data
    for cls in (tree(name), type("Subclass", (tree(name),), {})):
        model = MultiQuantileRegressor(cls(), [0.1, 0.5, 0.9]).fit(X, y)
        np.testing.assert_allclose(model.predict_dist(X[:1]).values, [np.quantile(y, [0.1, 0.5, 0.9])])
        message = r"predicts a single quantile at level 0\.2 .*skuq\.UncertaintyRegressor"
        with pytest.raises(NotProbabilisticError, match=message):
            predict_dist(cls(criterion="quantile", quantile=0.2).fit(X, y), X)
        with pytest.raises(NotProbabilisticError, match="gives no predictive distribution"):
            predict_dist(cls().fit(X, y), X)
    assert configured_levels(tree(name)()) is None
    assert configured_levels(tree(name)(criterion="quantile", quantile=0.2)) == [0.2]
    assert find_quantile_loss(tree(name, parameter=False)()) is None  # scikit-learn 1.9


def test_a_quantile_beside_a_loss_is_no_quantile_model():
    """Without the right criterion, the forecasts at all levels would be equal."""
    other = tree("Tree", "another_package")
    assert find_quantile_loss(other()) is None
    assert find_quantile_loss(QuantileRegressor()) is not None

    class OnlyQuantile(BaseEstimator):
        def __init__(self, quantile=0.5):
            self.quantile = quantile

    assert find_quantile_loss(OnlyQuantile())[1].one(0.3) == {"quantile": 0.3}
