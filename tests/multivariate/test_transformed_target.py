"""TransformedTargetRegressor of several targets, mapped back target by target."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from skuq.distributions import Normal, concat
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import crps_loss, get_scorer, make_scorer, scorers
from skuq.multivariate import (
    CopulaJoint,
    EmpiricalJoint,
    NormalJoint,
    energy_score_loss,
    normal_template,
    rank_template,
)
from skuq.prediction import predict_dist, supports_dist
from skuq.regressors import UncertaintyRegressor

RNG = np.random.RandomState(0)
X = RNG.normal(size=(120, 2))
NOISE = RNG.multivariate_normal([0.0, 0.0], [[0.5, 0.35], [0.35, 0.5]], size=120)
Y = np.exp(0.3 * X + NOISE)
SMALL = X[:40], Y[:40]


class JointRegressor(RegressorMixin, BaseEstimator):
    """Least squares with a constant joint distribution of the residuals."""

    def __init__(self, family="template", factor=1.0):
        self.family = family
        self.factor = factor

    def fit(self, X, y):
        self.model_ = LinearRegression().fit(X, y)
        self.residuals_ = y - self.model_.predict(X)
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_dist(self, X):
        loc, covariance = self.predict(X), self.factor * np.cov(self.residuals_.T)
        std = np.sqrt(np.diag(covariance))
        correlation = np.corrcoef(self.residuals_.T)
        marginals = [Normal(center, scale) for center, scale in zip(loc.T, std, strict=True)]
        if self.family == "template":
            return CopulaJoint(marginals, rank_template(self.residuals_))
        if self.family == "normal copula":
            return CopulaJoint(marginals, normal_template(correlation), correlation=correlation)
        if self.family == "normal":
            return NormalJoint(loc, covariance)
        if self.family == "members":
            return EmpiricalJoint(loc[:, np.newaxis] + self.residuals_)
        half = len(loc) // 2
        return concat(
            [NormalJoint(loc[:half], covariance), CopulaJoint(marginals, normal_template(np.eye(2)))[half:]]
        )


FAMILIES = ("template", "normal copula", "normal", "members", "mixed")
LOG = FunctionTransformer(np.log, np.exp)


def fitted(family, transformer, y=Y):
    model = TransformedTargetRegressor(JointRegressor(family), transformer=transformer, check_inverse=False)
    return model.fit(X, y)


def turn(y):
    return -y


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_of_each_target(family):
    plain = predict_dist(JointRegressor(family).fit(X, Y), X)
    for scaler in (StandardScaler(), MinMaxScaler()):  # change only the units
        scaled = predict_dist(fitted(family, scaler), X)
        assert type(scaled) is type(plain)
        assert_allclose(scaled.mean(), plain.mean(), rtol=1e-9)
        assert_allclose(scaled.cov(), plain.cov(), rtol=1e-9)
        assert_allclose(scaled.linear([1, 2]).quantile(0.9), plain.linear([1, 2]).quantile(0.9), rtol=1e-9)
    logged = predict_dist(fitted(family, LOG), X)  # keeps the dependence and maps the marginals
    inner = predict_dist(JointRegressor(family).fit(X, np.log(Y)), X)
    assert_allclose(logged.cdf(Y), inner.cdf(np.log(Y)), atol=0.01)
    for j in range(2):
        assert_allclose(logged.marginal(j).median(), np.exp(inner.marginal(j).median()), rtol=1e-9)
    if inner.has_density:
        assert_allclose(logged.logpdf(Y), inner.logpdf(np.log(Y)) - np.log(Y).sum(axis=1), rtol=1e-6)
    turned = predict_dist(fitted(family, FunctionTransformer(turn, turn)), X)  # reverses the ranks
    assert_allclose(turned.mean(), plain.mean(), rtol=1e-7)
    assert_allclose(turned.corr(), plain.corr(), rtol=0.02, atol=0.02)
    assert_allclose(turned.linear([1, -1]).std(), plain.linear([1, -1]).std(), rtol=0.03)


@pytest.mark.parametrize(
    "transformer", [PowerTransformer(), QuantileTransformer(n_quantiles=60, output_distribution="normal")]
)
def test_fitted_transformers_of_each_column(transformer):
    for family in FAMILIES:
        dist = predict_dist(fitted(family, make_pipeline(LOG, transformer)), X[:5])
        assert dist.shape == (5, 2)
        assert np.isfinite(dist.interval(0.8)).all()
        assert (dist.interval(0.8)[:, 0] > 0).all()


def test_row_covariances_and_a_map_give_members():
    class ByRow(JointRegressor):
        def predict_dist(self, X):
            covariance = np.cov(self.residuals_.T) * np.linspace(1, 2, len(X))[:, np.newaxis, np.newaxis]
            return NormalJoint(self.predict(X), covariance)

    model = TransformedTargetRegressor(ByRow(), func=np.log, inverse_func=np.exp).fit(X, Y)
    dist = predict_dist(model, X)
    assert isinstance(dist, EmpiricalJoint)
    inner = predict_dist(ByRow().fit(X, np.log(Y)), X)
    assert_allclose(dist.marginal(0).median(), np.exp(inner.marginal(0).median()), rtol=0.01)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (PCA(2), "must transform each target separately, got PCA"),
        (FunctionTransformer(lambda y: y @ [[1, 1], [0, 1]], lambda y: y @ [[1, -1], [0, 1]]), "it mixes"),
        (
            FunctionTransformer(lambda y: np.cumsum(y, axis=1), lambda y: np.diff(y, axis=1, prepend=0.0)),
            "it mixes the targets",
        ),
    ],
)
def test_maps_that_mix_targets_are_errors(transformer, message):
    with pytest.raises(ValueError, match=message):
        predict_dist(fitted("template", transformer), X)


def test_containers_pass_joint_distributions_on():
    plain = JointRegressor().fit(X, Y)
    expected = predict_dist(plain, X)
    models = [
        make_pipeline(StandardScaler(), JointRegressor()).fit(X, Y),
        FrozenEstimator(plain),
        GridSearchCV(
            JointRegressor(), {"factor": [1.0]}, scoring=get_scorer("neg_energy_score"), error_score="raise"
        ).fit(X, Y),
    ]
    for model in models:
        assert supports_dist(model)
        dist = predict_dist(model, X)
        assert_allclose(dist.mean(), expected.mean(), rtol=1e-9)
        assert_allclose(dist.corr(), expected.corr(), rtol=1e-9)


def test_scorers_of_joint_distributions():
    X, Y = SMALL
    model = JointRegressor("normal").fit(X, Y)
    dist, std = predict_dist(model, X), Y.std(axis=0)
    assert get_scorer("neg_energy_score")(model, X, Y) == pytest.approx(
        -energy_score_loss(Y, dist, scale=std)
    )
    unscaled = make_scorer("energy_score", scale=None)(model, X, Y)
    assert unscaled == pytest.approx(-energy_score_loss(Y, dist))
    search = GridSearchCV(
        model,
        {"factor": [0.1, 1.0, 5.0]},
        cv=2,
        scoring=scorers("neg_variogram_score", "neg_mean_crps", "neg_energy_score", "neg_linear_crps"),
        refit="neg_energy_score",
        error_score="raise",
    ).fit(X, Y)
    assert search.best_params_ == {"factor": 1.0}
    with pytest.raises(TypeError, match=r"`\.marginal\(\.\.\.\)`"):
        get_scorer("neg_crps")(model, X, Y[:, 0])
    with pytest.raises(TypeError, match="univariate"):
        get_scorer("neg_energy_score")(BayesianRidge().fit(X, Y[:, 0]), X, Y[:, 0])
    with pytest.raises(TypeError, match=r"`\.marginal\(\.\.\.\)`"):
        crps_loss(Y[:, 0], dist)


@pytest.mark.parametrize("container", [MultiOutputRegressor, RegressorChain])
def test_containers_of_columns_name_the_estimator_of_several_targets(container):
    with pytest.raises(NotProbabilisticError, match=r"skuq\.multivariate\.MultiOutputUncertaintyRegressor"):
        predict_dist(container(BayesianRidge()).fit(X, Y), X)


def test_wrappers_of_one_target_refuse_several():
    with pytest.raises(ValueError, match="MultiOutputUncertaintyRegressor"):
        UncertaintyRegressor(JointRegressor()).fit(X, Y)
    assert_array_equal(np.asarray(predict_dist(JointRegressor().fit(X, Y), X)).shape, (120, 2))
