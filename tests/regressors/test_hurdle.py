"""HurdleRegressor: sides, calibration, weights and routing, searches, pools, bad input."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq.distributions import Hurdle, Normal
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from skuq.metrics import crps_loss, get_scorer
from skuq.prediction import predict_dist
from skuq.regressors import HurdleRegressor, MixtureRegressor, ResidualRegressor, UncertaintyRegressor

N = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
P = special.expit(0.5 + X[:, 0])
AMOUNT = np.exp(1.0 + 0.3 * X[:, 1] + 0.3 * RNG.normal(size=N))
Y = np.where(RNG.uniform(size=N) < P, 0.0, AMOUNT)
CLASSIFIER, REGRESSOR = LogisticRegression(), BayesianRidge()


def hurdle(**params):
    return HurdleRegressor(CLASSIFIER, REGRESSOR, random_state=0, **params)


def test_the_parts_are_the_classifier_and_the_truncated_regressor():
    model = hurdle(calibration=None).fit(X, Y)
    dist = model.predict_dist(X)
    assert isinstance(dist, Hurdle)
    assert_allclose(dist.p, LogisticRegression().fit(X, Y == 0).predict_proba(X)[:, 1])
    rest = BayesianRidge().fit(X[Y != 0], Y[Y != 0])
    normal = Normal(*rest.predict(X, return_std=True))
    below = normal.cdf(0.0)
    assert_allclose(dist.dist.cdf(2.0), (normal.cdf(2.0) - below) / (1 - below))
    assert_allclose(model.predict(X), dist.mean())
    assert model.side_ == "above"


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_the_probabilities_are_calibrated(calibration):
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3))
    model = HurdleRegressor(classifier, REGRESSOR, calibration=calibration, random_state=0).fit(X, Y)
    assert isinstance(model.classifier_, CalibratedClassifierCV)
    assert len(model.classifier_.calibrated_classifiers_) == 5  # the mean of the models of the folds
    p = model.predict_dist(X).p
    assert p.mean() == pytest.approx((Y == 0).mean(), abs=0.03)
    assert np.corrcoef(p, P)[0, 1] > 0.9
    ready = HurdleRegressor(CalibratedClassifierCV(CLASSIFIER), REGRESSOR, random_state=0).fit(X, Y)
    assert isinstance(ready.classifier_.estimator, LogisticRegression)


def test_the_sides():
    below = hurdle(at=20.0).fit(X, np.where(Y == 0, 20.0, 20.0 - Y))
    assert below.side_ == "below"
    dist = below.predict_dist(X)
    assert_array_equal(dist.ppf(1.0), 20.0)
    assert (dist.dist.ppf(1.0) < 20.0).all()
    inner = hurdle(at=2.5).fit(X, np.where(Y == 0, 2.5, AMOUNT))
    assert inner.side_ == "both"
    assert_allclose(inner.predict_dist(X).logpmf(2.5), np.log(inner.predict_dist(X).p))


def test_counts_are_integers_on_their_side():
    counts = np.where(Y == 0, 0.0, np.ceil(AMOUNT))
    model = hurdle(support="count").fit(X, counts)
    dist = model.predict_dist(X)
    assert dist.has_mass
    assert_array_equal(dist.quantile([0.5, 0.99]), np.round(dist.quantile([0.5, 0.99])))
    assert dist.dist.ppf(0.0).min() == 1.0
    low = hurdle(at=9.0, support=range(10)).fit(X, np.where(Y == 0, 9.0, np.minimum(np.floor(AMOUNT), 8.0)))
    assert low.predict_dist(X).dist.ppf(1.0).max() <= 8.0
    real = hurdle(support=(0, 6)).fit(X, np.minimum(Y, 6.0))
    assert real.predict_dist(X).ppf(0.9999).max() <= 6.0


@pytest.mark.laws
def test_it_is_better_than_a_regressor_of_all_rows():
    half = N // 2
    default = UncertaintyRegressor(LinearRegression(), random_state=0).fit(X[:half], Y[:half])
    parts = HurdleRegressor(
        CLASSIFIER, UncertaintyRegressor(LinearRegression(), random_state=0), random_state=0
    )
    parts.fit(X[:half], Y[:half])
    loss, other = (crps_loss(Y[half:], model.predict_dist(X[half:])) for model in (parts, default))
    assert loss < 0.95 * other


def test_weights_are_repetitions_of_both_parts():
    weight = RNG.integers(1, 4, size=N)
    weighted = hurdle(calibration=None).fit(X, Y, sample_weight=weight).predict_dist(X)
    rows = np.repeat(np.arange(N), weight)
    repeated = hurdle(calibration=None).fit(X[rows], Y[rows]).predict_dist(X)
    assert_allclose(weighted.p, repeated.p, rtol=1e-3)
    assert_allclose(weighted.dist.mean(), repeated.dist.mean(), rtol=1e-6)
    with pytest.raises(ValueError, match=r"`fit` of the `classifier` .* does not accept weights"):
        HurdleRegressor(make_pipeline(NoWeights()), REGRESSOR).fit(X, Y, sample_weight=weight)


class NoWeights(LogisticRegression):
    def fit(self, X, y):
        return super().fit(X, y)


def test_groups_go_to_the_splitter_with_and_without_routing():
    groups, weight = np.arange(N) % 20, np.ones(N)
    plain = hurdle(cv=GroupKFold(4)).fit(X, Y, groups=groups)
    assert all(not set(groups[train]) & set(groups[test]) for train, test in plain.classifier_.cv)
    with pytest.raises(ValueError, match="`groups` is given"):
        hurdle().fit(X, Y, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        parts = (clone(part).set_fit_request(sample_weight=True) for part in (CLASSIFIER, REGRESSOR))
        routed = HurdleRegressor(*parts, cv=GroupKFold(4), random_state=0)
        routed.fit(X, Y, sample_weight=weight, groups=groups)
    assert_allclose(routed.predict_dist(X).p, plain.predict_dist(X).p, rtol=1e-6)


def test_fit_transform_is_out_of_fold():
    regressor = ResidualRegressor(DecisionTreeRegressor(), cv=2)
    tree = HurdleRegressor(CLASSIFIER, regressor, cv=2, random_state=0)
    out_of_fold = tree.fit_transform(X, Y)
    assert len(out_of_fold) == N
    assert crps_loss(Y, out_of_fold) > crps_loss(Y, tree.predict_dist(X))


def test_searches_and_pools():
    grid = {"classifier__C": [0.1, 1.0], "regressor": [REGRESSOR]}
    search = GridSearchCV(hurdle(), grid, scoring=get_scorer("neg_crps"), cv=2, error_score="raise")
    assert isinstance(predict_dist(search.fit(X, Y), X), Hurdle)
    pool = MixtureRegressor([("hurdle", hurdle()), ("ridge", REGRESSOR)], cv=2, random_state=0).fit(X, Y)
    assert pool.weights_[0] > 0.9


def test_few_rows_of_one_kind_are_not_calibrated():
    y = AMOUNT.copy()
    y[0] = 0.0
    with pytest.warns(
        SmallSampleWarning, match="needs at least two rows with y = 0 and two other rows, got 1"
    ):
        model = hurdle().fit(X, y)
    assert isinstance(model.classifier_, LogisticRegression)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"y": AMOUNT}, ValueError, "`y` must have the value `at` = 0 in at least one row"),
        ({"y": np.zeros(N)}, ValueError, "`y` must differ from `at` = 0 in at least two rows, got 0 of 300"),
        ({"weight": Y > 0}, ValueError, f"none of {(Y > 0).sum()} rows of positive weight has this value"),
        ({"at": np.nan}, ValueError, "`at` must be finite, got nan"),
        ({"calibration": "platt"}, ValueError, "`calibration` must be one of 'sigmoid', 'isotonic', None"),
        ({"classifier": LinearRegression()}, TypeError, "must be a classifier with `predict_proba`"),
        ({"regressor": LinearRegression()}, NotProbabilisticError, "`regressor` must give a predictive"),
        ({"support": "count"}, ValueError, "`y` must hold integers from 0 to inf"),
        ({"cv": 1}, ValueError, "`cv` must be at least 2"),
    ],
)
def test_bad_input_is_named(change, error, message):
    y, weight = change.pop("y", Y), change.pop("weight", None)
    with pytest.raises(error, match=message):
        hurdle().set_params(**change).fit(X, y, sample_weight=weight)
