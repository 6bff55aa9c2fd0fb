"""Who gets which metadata: with routing off and on, through Pipeline and GridSearchCV."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor, StackingRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq._fitting.training_data import weight_keyword
from skuq.conformal import ConformalRegressor, CrossConformalRegressor
from skuq.recalibration import StdScalingRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    ForestDistributionRegressor,
    LeastSquaresRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from tests.regressors.worlds import linear_world

N = 120
GROUPS = np.repeat(np.arange(24), 5)


class GroupSpy(LinearRegression):
    """Fails where a row is predicted whose group was seen; the first column of X is the group."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = np.unique(np.asarray(X)[:, 0])
        self.weights_ = sample_weight
        return super().fit(X, y, sample_weight=sample_weight)

    def predict(self, X):
        overlap = np.isin(np.asarray(X)[:, 0], self.seen_)
        assert not overlap.any()
        return super().predict(X)


def grouped_world():
    X, y = linear_world(N)
    return np.column_stack([GROUPS, X]), y


SPIED = [
    ResidualRegressor(GroupSpy(), cv=GroupKFold(3)),
    UncertaintyRegressor(GroupSpy(), "residual", cv=GroupKFold(3)),
]


@pytest.mark.parametrize("model", SPIED, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("caller", ["fit", "fit_transform"])
@pytest.mark.parametrize("routing", [False, True])
def test_groups_stay_together(model, caller, routing):
    X, y = grouped_world()
    with config_context(enable_metadata_routing=routing):
        getattr(model, caller)(X, y, groups=GROUPS)
    with pytest.raises(ValueError, match="groups"), config_context(enable_metadata_routing=routing):
        getattr(model, caller)(X, y)


SEARCHED = [
    ResidualRegressor(Ridge(), cv=GroupKFold(3)),
    UncertaintyRegressor(Ridge(), cv=GroupKFold(3)),
    RecalibratedRegressor(LeastSquaresRegressor(), cv=GroupKFold(3)),
]


@pytest.mark.parametrize("model", SEARCHED, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("routing", [False, True])
def test_group_k_fold_inside_a_pipeline_inside_a_search(model, routing):
    X, y = linear_world(N)
    name = type(model).__name__.lower()
    with config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(StandardScaler(), model, *[StdScalingRecalibrator()] * routing)
        folds = GroupKFold(2) if routing else 2
        grid = {f"{name}__cv": [GroupKFold(2), GroupKFold(3)]}
        search = GridSearchCV(pipeline, grid, cv=folds, error_score="raise")
        search.fit(X, y, **{"groups" if routing else f"{name}__groups": GROUPS})
        assert np.isfinite(search.predict(X)).all()
        with pytest.raises(ValueError, match="groups"):
            search.fit(X, y)


@pytest.mark.parametrize("routing", [False, True])
def test_weights_and_groups_together_in_a_search(routing):
    X, y = linear_world(N)
    weight = np.ones(N)
    weight[:10] = 5
    with config_context(enable_metadata_routing=routing):
        scaler, child, scorer = StandardScaler(), Ridge(), make_scorer(r2_score)
        if routing:
            scorer.set_score_request(sample_weight=True)
            scaler.set_fit_request(sample_weight=False)
            child.set_fit_request(sample_weight=True)
        model = ResidualRegressor(child, center="model", cv=GroupKFold(3))
        grid = {"residualregressor__estimator__alpha": [1.0]}
        pipeline = make_pipeline(scaler, model)
        search = GridSearchCV(pipeline, grid, cv=3, scoring=scorer, error_score="raise")
        prefix = "" if routing else "residualregressor__"
        search.fit(X, y, **{f"{prefix}groups": GROUPS, f"{prefix}sample_weight": weight})
    scaled = StandardScaler().fit(X).transform(X)
    assert np.allclose(search.predict(X), Ridge().fit(scaled, y, sample_weight=weight).predict(scaled))


def test_with_routing_the_child_must_request_weights():
    """A request of the wrapper has no effect."""
    X, y = linear_world(N)
    weight = np.arange(N) + 1.0
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError):
            ResidualRegressor(Ridge()).fit(X, y, sample_weight=np.ones(N))
        model = ResidualRegressor(Ridge().set_fit_request(sample_weight=True), center="model", random_state=0)
        alone = clone(model).fit(X, y, sample_weight=weight)
        pipeline = make_pipeline(model.set_fit_request(sample_weight=True)).fit(X, y, sample_weight=weight)
    expected = Ridge().fit(X, y, sample_weight=weight).predict(X)
    assert np.allclose(alone.predict(X), expected)
    assert np.allclose(pipeline.predict(X), expected)


def test_groups_that_nobody_uses_raise():
    X, y = linear_world(N)
    recalibrated = RecalibratedRegressor(LeastSquaresRegressor())
    for model in (ResidualRegressor(Ridge()), recalibrated, UncertaintyRegressor(Ridge())):
        with pytest.raises(ValueError, match=r"`groups` is given.*cv=GroupKFold"):
            model.fit(X, y, groups=GROUPS)
        with config_context(enable_metadata_routing=True), pytest.raises(TypeError, match="groups"):
            model.fit(X, y, groups=GROUPS)
    with config_context(enable_metadata_routing=True):  # weights of resampled rows need no request
        model = BootstrapRegressor(KNeighborsRegressor(), 10, random_state=0)
        assert np.isfinite(model.fit(X, y, sample_weight=np.ones(N)).predict_interval(X)).all()


def test_rows_of_other_parameters_are_sliced_with_the_fold():
    class Tagged(LinearRegression):
        def fit(self, X, y, tag=None, unit=None):
            assert np.array_equal(tag, np.asarray(X)[:, 0])
            assert unit == "cm"
            return super().fit(X, y)

    X, y = linear_world(N)
    X[:, 0] = np.arange(N)
    for model in (ResidualRegressor(Tagged()), BootstrapRegressor(Tagged(), 10)):
        model.fit(X, y, tag=np.arange(N), unit="cm")


def test_by_which_keyword_an_estimator_takes_weights():
    nested = make_pipeline(StandardScaler(), make_pipeline(Ridge()))
    assert weight_keyword(Ridge()) == "sample_weight"
    assert weight_keyword(nested) == "pipeline__ridge__sample_weight"
    assert weight_keyword(KNeighborsRegressor()) is None
    assert weight_keyword(make_pipeline(KNeighborsRegressor())) is None
    # An unfitted forest has no length, so it is neither true nor false.
    assert weight_keyword(GridSearchCV(RandomForestRegressor(), {})) == "sample_weight"
    assert weight_keyword(GridSearchCV(make_pipeline(Ridge()), {})) == "ridge__sample_weight"
    assert weight_keyword(TransformedTargetRegressor(Ridge())) == "sample_weight"


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression(), "must be a regressor, got the classifier LogisticRegression"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "must be a regressor, got the classifier"),
        (StandardScaler(), "must be a regressor with `fit` and `predict`, got StandardScaler"),
        (Ridge, "must be an instance, got the class Ridge"),
    ],
)
def test_what_is_wrapped_must_be_a_regressor(estimator, message):
    X, y = linear_world(N)
    for wrapper in (UncertaintyRegressor, ResidualRegressor, BootstrapRegressor):
        with pytest.raises((TypeError, ValueError), match=f"`estimator` {message}"):
            wrapper(estimator).fit(X, y > 0)


@pytest.mark.parametrize("refit", [False, np.False_])
def test_a_search_must_keep_a_model(refit):
    X, y = linear_world(N)
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, refit=refit, error_score="raise")
    for estimator in (search, make_pipeline(StandardScaler(), search), FrozenEstimator(search.fit(X, y))):
        for wrapper in (UncertaintyRegressor, ResidualRegressor, RecalibratedRegressor):
            with pytest.raises(ValueError, match=r"got a GridSearchCV with refit=.*Set `refit` to True"):
                wrapper(estimator).fit(X, y)


def test_the_error_of_a_splitter_by_groups_names_the_parameter():
    X, y = linear_world(N)
    model = ResidualRegressor(Ridge(), cv=GroupKFold(3))
    with pytest.raises(ValueError, match=r"GroupKFold splits by groups. Pass `groups=...`.*metadata routing"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="metadata routing"):
        cross_validate(model, X, y, groups=GROUPS, cv=GroupKFold(3), error_score="raise")
    with config_context(enable_metadata_routing=True):
        cross_validate(model, X, y, params={"groups": GROUPS}, cv=GroupKFold(3), error_score="raise")


STACKED = StackingRegressor([("ridge", Ridge()), ("neighbors", KNeighborsRegressor(3))], cv=2)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda estimator: UncertaintyRegressor(estimator, cv=2),
        lambda estimator: BootstrapRegressor(estimator, 3),
        ConformalRegressor,
        pytest.param(lambda estimator: CrossConformalRegressor(estimator, cv=2), marks=pytest.mark.laws),
    ],
    ids=["uncertainty", "bootstrap", "split", "cv+"],
)
def test_a_regressor_whose_predict_exists_after_fit_only_can_be_wrapped(wrap):
    X, y = linear_world(N)
    search = GridSearchCV(STACKED, {"ridge__alpha": [1.0]}, cv=2)
    for estimator in (STACKED, make_pipeline(StandardScaler(), STACKED), search):
        assert not hasattr(estimator, "predict")
        bounds = wrap(estimator).fit(X, y).predict_interval(X)
        assert np.mean((y >= bounds[:, 0]) & (y <= bounds[:, 1])) > 0.7


def test_groups_of_several_types_raise_a_clear_error():
    X, y = linear_world(20)
    groups = np.array(["a", 1, 2.5, "b"] * 5, dtype=object)
    for model in (ResidualRegressor(LinearRegression()), RecalibratedRegressor(LeastSquaresRegressor())):
        with pytest.raises(TypeError, match=r"`groups` must have labels that can be compared.*'int', 'str'"):
            model.set_params(cv=GroupKFold(2)).fit(X, y, groups=groups)


def test_targets_whose_squares_overflow_or_underflow_raise(subtests):
    X, y = linear_world(30)
    forest = RandomForestRegressor(10, random_state=0)
    models = [
        UncertaintyRegressor(Ridge()),
        LeastSquaresRegressor(),
        ForestDistributionRegressor(forest),
        BootstrapRegressor(Ridge()),
        RecalibratedRegressor(LeastSquaresRegressor()),
    ]
    for model in models:
        with subtests.test(type(model).__name__):
            for unit in (1e150, 1e-150):
                with pytest.raises(ValueError, match=r"`y` must have a largest absolute value from 1e-100"):
                    model.fit(X, unit * y)
            assert np.isfinite(clone(model).fit(X, 0 * y).predict(X)).all()
