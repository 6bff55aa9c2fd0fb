"""Errors of wrapped estimators: which model, which fold or member, how many rows, and what to do."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import BaggingRegressor, StackingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from skuq._fitting.fit_wrapped import fit_wrapped
from skuq.conformal import ConformalClassifier, ConformalRegressor, CrossConformalRegressor
from skuq.distributions import Normal
from skuq.exceptions import NonFinitePredictionError
from skuq.model_selection import cross_val_predict_dist
from skuq.prediction import predict_dist
from skuq.prediction._register import note_fold
from skuq.regressors import (
    BootstrapRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)


class Gappy(RegressorMixin, BaseEstimator):
    """The nearest value within reach, NaN where there is none, as RadiusNeighborsRegressor."""

    def __init__(self, radius=0.5, hole=np.nan, quantile=0.5):
        self.radius = radius
        self.hole = hole
        self.quantile = quantile

    def fit(self, X, y):
        self.X_, self.y_ = np.asarray(X)[:, 0], np.asarray(y)
        self.is_fitted_ = True
        return self

    def predict(self, X):
        distance = np.abs(np.asarray(X)[:, :1] - self.X_)
        near = self.y_[distance.argmin(axis=1)] + self.quantile
        return np.where(distance.min(axis=1) <= self.radius, near, self.hole)


@pytest.fixture(scope="module")
def line():
    """60 rows close together, of which one, number 17, is far from all others."""
    rng = np.random.default_rng(0)
    X = (7.0 * np.arange(60) % 60).reshape(-1, 1) / 20
    X[17] = 9.0
    return X, X[:, 0] + 0.1 * rng.normal(size=60)


WRAPPERS = {
    "residual": (lambda child: ResidualRegressor(child, cv=KFold(4)), r"fold [12] of 4"),
    "uncertainty": (lambda child: UncertaintyRegressor(child, cv=KFold(4)), r"fold 2 of 4"),
    "bootstrap": (lambda child: BootstrapRegressor(child, 4, random_state=0), r"member \d of 4"),
    "bags": (lambda child: BootstrapRegressor(BaggingRegressor(child, 6, random_state=0)), r"member \d of 6"),
    "cv+": (lambda child: CrossConformalRegressor(child, cv=KFold(4)), r"fold 2 of 4"),
    "jackknife+": (lambda child: CrossConformalRegressor(child, "jackknife+"), r"fold 18 of 60"),
    "jackknife+ab": (
        lambda child: CrossConformalRegressor(child, "jackknife+ab", n_estimators=30, random_state=0),
        r"resample \d+ of 30",
    ),
    "split": (lambda child: ConformalRegressor(child, cv=[(np.r_[0:17, 18:50], np.r_[17, 50:60])]), None),
    "normalized": (
        lambda child: ConformalRegressor(ResidualRegressor(child, cv=KFold(4)), "normalized", random_state=0),
        r"fold \d of 4",
    ),
    "recalibrated": (
        lambda child: RecalibratedRegressor(ResidualRegressor(child, cv=KFold(3)), cv=KFold(4)),
        r"in fold \d of [34]",
    ),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_at_fit_one_message_names_model_rows_and_fold(wrapper, line):
    make, place = WRAPPERS[wrapper]
    for hole in (np.nan, np.inf):
        with pytest.raises(NonFinitePredictionError, match=place) as raised:
            make(Gappy(hole=hole)).fit(*line)
        assert "Gappy predicts NaN or infinity for 1 of" in str(raised.value)
        assert "a larger `radius`" in str(raised.value)


NEW = np.array([[1.0], [50.0], [2.0], [60.0]])
AT_PREDICT = {**WRAPPERS, "quantiles": (MultiQuantileRegressor, r"model of level 0\.05")}


@pytest.mark.parametrize("wrapper", [name for name in AT_PREDICT if name != "split"])
def test_at_predict_too(wrapper, line):
    X, y = np.delete(line[0], 17, axis=0), np.delete(line[1], 17)
    model = AT_PREDICT[wrapper][0](Gappy(radius=2.0)).fit(X, y)
    message = r"Gappy (in \w+ )?predicts NaN or infinity for 2 of 4 rows, the first of them row 1"
    for method in (model.predict_dist, model.predict_interval):
        with pytest.raises(NonFinitePredictionError, match=message):
            method(NEW)
    if wrapper != "scale":  # its point prediction does not need the scale
        with pytest.raises(NonFinitePredictionError, match=message):
            model.predict(NEW)


def test_the_innermost_estimator_is_named(line):
    X, y = line
    for container in (
        make_pipeline(StandardScaler(), Gappy(0.1)),
        GridSearchCV(Gappy(), {"radius": [0.2]}, cv=2, scoring=lambda *_: 0.0),
    ):
        name = type(container).__name__
        with pytest.raises(NonFinitePredictionError, match=f"Gappy in {name} predicts"):
            UncertaintyRegressor(container, cv=KFold(4)).fit(X, y)


def test_cross_validation_and_natives_raise_the_same(line):
    X, y = line
    model = GaussianProcessRegressor(optimizer=None, alpha=0.1)
    with pytest.raises(ValueError, match="NaN"):
        predict_dist(model.fit(X, y), np.array([[np.nan]]))

    class Half(Ridge):
        def predict(self, X, return_std=False):
            values = np.where(np.asarray(X)[:, 0] > 5, np.nan, 1.0)
            return (values, values) if return_std else values

    with pytest.raises(NonFinitePredictionError, match=r"Half predicts .* 1 of 15 rows.*in fold 2 of 4"):
        cross_val_predict_dist(Half(), X, y, cv=KFold(4))


def test_the_error_travels_between_processes():
    error = NonFinitePredictionError("Gappy", 2, 9, 4, ("member 3 of 5",))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    with (
        pytest.raises(NonFinitePredictionError, match="in member 3 of 5, in fold 1 of 2"),
        note_fold("fold 1 of 2"),
    ):
        raise error


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.laws)])
def test_other_errors_keep_their_type_and_name_the_fold(n_jobs):
    class Picky(LinearRegression):
        def fit(self, X, y):
            if (np.asarray(X)[:, 0] != 0).all():
                raise KeyError("no zero")
            return super().fit(X, y)

    X, y = np.arange(12.0).reshape(-1, 1), np.arange(12.0)
    with pytest.raises(KeyError, match="no zero") as raised:
        ResidualRegressor(Picky(), cv=KFold(3), n_jobs=n_jobs).fit(X, y)
    assert "Raised in fold 1 of 3." in raised.value.__notes__


WORDS = [["red", 1.0], ["blue", 2.0]] * 20
FRAME = pd.DataFrame(WORDS, columns=["color", "size"])
REGRESSORS = {
    "sklearn": ("Ridge", {}),
    "catboost": ("CatBoostRegressor", {"iterations": 2, "verbose": 0, "allow_writing_files": False}),
    "xgboost": ("XGBRegressor", {"n_estimators": 2, "enable_categorical": False}),
    "lightgbm": ("LGBMRegressor", {"n_estimators": 2, "verbose": -1}),
}


@pytest.mark.parametrize("package", REGRESSORS)
def test_words_get_a_note_on_encoders(package, subtests):
    name, options = REGRESSORS[package]
    module = pytest.importorskip("sklearn.linear_model" if package == "sklearn" else package)
    child, y = getattr(module, name)(**options), np.arange(40.0)
    for X, column in (
        (FRAME, "'color'"),
        (FRAME.astype({"color": "category"}), "'color'"),
        (np.array(WORDS, dtype=object), "0"),
        (WORDS, "0"),
    ):
        try:
            child.fit(X, y)
        except Exception as error:
            expected = type(error)
        else:  # it takes such an X
            continue
        for wrapper in (UncertaintyRegressor(child, cv=2), BootstrapRegressor(child, 2)):
            with subtests.test(type(X).__name__):
                with pytest.raises(expected) as raised:
                    wrapper.fit(X, y)
                (note,) = (note for note in raised.value.__notes__ if "OrdinalEncoder" in note)
                assert f"in column {column}, but {name} requires numbers" in note
                assert "make_pipeline(make_column_transformer((OrdinalEncoder()" in note


@pytest.mark.parametrize("inside", ["pipeline", "transformed target"])
def test_a_pipeline_that_encodes_some_words_needs_to_encode_all(inside):
    encoder = make_column_transformer((OrdinalEncoder(), ["color"]), remainder="passthrough")
    model = make_pipeline(encoder, Ridge())
    if inside == "transformed target":
        model = TransformedTargetRegressor(model, func=np.log1p, inverse_func=np.expm1)
    X = FRAME.assign(shape=["round", "flat"] * 20)
    with pytest.raises(ValueError, match="to float") as raised:
        UncertaintyRegressor(model, cv=2).fit(X, np.arange(40.0))
    (note,) = (note for note in raised.value.__notes__ if "X contains text" in note)
    assert "Use an encoder for each column with text" in note
    assert "make_pipeline" not in note


def test_errors_about_something_else_get_no_such_note():
    with pytest.raises(ValueError, match="alpha") as raised:
        UncertaintyRegressor(make_pipeline(OrdinalEncoder(), Ridge(alpha=-1.0))).fit(WORDS, np.arange(40.0))
    assert not any("OrdinalEncoder" in note for note in raised.value.__notes__)
    with pytest.raises(ValueError, match="alpha") as raised:
        fit_wrapped(Ridge(alpha=-1.0), np.arange(3.0)[:, np.newaxis], np.arange(3.0))
    assert not hasattr(raised.value, "__notes__")


class TestConstantTargets:
    """CatBoost refuses them; a fold or a resample may have one although y has not."""

    X = np.arange(30.0).reshape(-1, 1)
    y = np.r_[np.zeros(20), np.arange(10.0)]
    sorted_folds = KFold(3)  # the last fold's training rows are all 0

    def catboost(self, loss="RMSE"):
        package = pytest.importorskip("catboost")
        return package.CatBoostRegressor(
            iterations=3, loss_function=loss, verbose=0, allow_writing_files=False
        )

    @pytest.mark.parametrize("inside", ["bare", "pipeline"])
    def test_the_constant_is_predicted(self, inside):
        child = self.catboost() if inside == "bare" else make_pipeline(StandardScaler(), self.catboost())
        model = CrossConformalRegressor(child, cv=self.sorted_folds).fit(self.X, self.y)
        assert np.isfinite(model.predict_interval(self.X, 0.5)).all()
        np.testing.assert_array_equal(model._conformal.members[2].estimator.predict(self.X), 0.0)
        rare = np.r_[np.zeros(29), 1.0]
        for wrapper in (BootstrapRegressor(child, 5, random_state=0), ResidualRegressor(child, cv=3)):
            assert np.isfinite(wrapper.fit(self.X, rare).predict(self.X)).all()
        model = UncertaintyRegressor(child, random_state=0).fit(self.X, np.full(30, 7.0))
        np.testing.assert_array_equal(model.predict_interval(self.X), 7.0)

    def test_a_target_that_is_not_constant_keeps_the_composite(self):
        """The error comes from an inner fold; a constant in place of the whole model would hide it."""
        stack = StackingRegressor([("trees", self.catboost())], final_estimator=Ridge(), cv=2)
        y = np.r_[np.zeros(15), np.arange(15.0)]
        with pytest.raises(Exception, match="targets are equal") as raised:
            fit_wrapped(stack, self.X, y)
        assert any("an inner fit of StackingRegressor" in note for note in raised.value.__notes__)
        with pytest.raises(Exception, match="targets are equal"):
            UncertaintyRegressor(stack, cv=self.sorted_folds).fit(self.X, self.y)
        shuffled = StackingRegressor(stack.estimators, Ridge(), cv=KFold(2, shuffle=True, random_state=0))
        assert fit_wrapped(shuffled, self.X, y) is shuffled

    @pytest.mark.parametrize("noise", ["homoscedastic", "heteroscedastic", None])
    def test_members_of_bagging_are_the_constant(self, noise):
        bags = BaggingRegressor(self.catboost(), n_estimators=4, random_state=0)
        model = BootstrapRegressor(bags, noise=noise, random_state=0)
        dist = model.fit_transform(self.X, np.full(30, 7.0))
        assert len(model.estimators_) == 4
        for one in (dist, model.predict_dist(self.X)):
            np.testing.assert_array_equal(one.interval(), 7.0)
        assert model.fit(self.X, np.arange(30.0)).estimators_ == []
        assert model.predict_dist(self.X).std().min() > 0

    @pytest.mark.parametrize("package", ["catboost", pytest.param("ngboost", marks=pytest.mark.laws)])
    @pytest.mark.filterwarnings("ignore:(divide|invalid):RuntimeWarning")
    def test_where_a_distribution_is_needed_the_value_and_the_fold_are_noted(self, package):
        if package == "catboost":
            child = self.catboost("RMSEWithUncertainty")
        else:
            child = pytest.importorskip("ngboost").NGBRegressor(n_estimators=3, verbose=False)
        for wrapper in (UncertaintyRegressor, RecalibratedRegressor):
            for y, fold in ((self.y, 3), (np.full(30, 7.0), 1)):
                with pytest.raises(Exception, match=r"equal|NaN") as raised:
                    wrapper(child, cv=self.sorted_folds).fit(self.X, y)
                assert raised.value.__notes__ == [
                    f"The target has one value, {y[0]:g}, in all rows of this fit.",
                    f"Raised in fold {fold} of 3.",
                ]


def test_lists_that_scikit_learn_cannot_clone_get_a_remedy():
    catboost = pytest.importorskip("catboost")
    message = r"`cat_features` of CatBoost\w+ must be a tuple, got a list.*\(cat_features=\('color',\)\)"
    regressor = catboost.CatBoostRegressor(cat_features=["color"], iterations=2, verbose=0)
    for model in (UncertaintyRegressor(regressor), BootstrapRegressor(make_pipeline(regressor))):
        with pytest.raises(TypeError, match=message):
            model.fit(FRAME, np.arange(40.0))
    classifier = catboost.CatBoostClassifier(cat_features=["color"], iterations=2, verbose=0)
    with pytest.raises(TypeError, match=message):
        ConformalClassifier(classifier).fit(FRAME, np.arange(40) % 2)
    options = {"iterations": 2, "verbose": 0, "allow_writing_files": False}
    tuples = catboost.CatBoostRegressor(cat_features=("color",), **options)
    assert UncertaintyRegressor(tuples, cv=2).fit(FRAME, np.arange(40) + 0.5).predict(FRAME).shape == (40,)


class GivesNaN(Ridge):
    """A model of a user whose distribution has a NaN."""

    def predict_dist(self, X):
        return Normal(np.where(np.asarray(X)[:, 0] > 5, np.nan, 0.0), 1.0)


def test_a_distribution_of_nan_names_estimator_and_fold(line):
    for model in (GivesNaN(), make_pipeline(StandardScaler(with_mean=False, with_std=False), GivesNaN())):
        with pytest.raises(ValueError, match="`loc` must") as raised:
            UncertaintyRegressor(model, cv=KFold(4)).fit(*line)
        notes = ["Raised in the distribution of GivesNaN.", "Raised in fold 2 of 4."]
        assert raised.value.__notes__ == notes


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_advice_is_for_the_estimator_at_hand(line, subtests):
    class Hole(KNeighborsRegressor):
        """It has the attribute `radius` from scikit-learn, which is None as it counts neighbors."""

        def predict(self, X):
            return np.where(np.asarray(X)[:, 0] > 5, np.nan, 1.0)

    root = TransformedTargetRegressor(Ridge(), func=np.square, inverse_func=np.sqrt, check_inverse=False)
    for model, advice in (
        (Hole(), "out.$"),
        (Gappy(), "out. Use a larger `radius`"),
        (root, "out. The inverse transformation of the target must be"),
        (make_pipeline(StandardScaler(), root), "out. The inverse transformation of the target must be"),
    ):
        message = f"leave these rows {advice}"
        with subtests.test(advice), pytest.raises(NonFinitePredictionError, match=message):
            ResidualRegressor(model, cv=KFold(4)).fit(*line)
