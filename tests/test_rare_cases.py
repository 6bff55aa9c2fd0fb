"""Errors and results of cases that few users reach, in all rooms except the distributions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from skuq import UncertaintyRegressor, predict_dist
from skuq.conformal import ConformalClassifier, ConformalRegressor, CrossConformalRegressor
from skuq.distributions import Empirical, Hurdle, JointDistribution, Normal
from skuq.evaluation import (
    bootstrap_interval,
    score_decomposition,
)
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import (
    adversarial_group_calibration_curve,
    class_log_loss,
    crps_loss,
    interval_score_loss,
    nll_loss,
    set_coverage_score,
)
from skuq.model_selection import AutoUncertaintyRegressor
from skuq.multivariate import ConformalRegionRegressor, MultiOutputUncertaintyRegressor
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    FunctionalRegressor,
    HurdleRegressor,
    LeastSquaresRegressor,
    MixtureRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
)
from skuq.simulation import EstimatedProcess
from skuq.survival import CensoringWeightedRegressor, ConformalSurvivalRegressor, ipcw_crps_loss

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 2))
y = X[:, 0] + rng.standard_normal(80)


class WithoutTags:
    """Model of a package without scikit-learn's tags."""

    def get_params(self, deep=True):
        return {}

    def set_params(self, **params):
        return self

    def fit(self, X, y):
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.mark.parametrize(
    "wrapper",
    [
        BootstrapRegressor,
        ConformalRegionRegressor,
        ConformalRegressor,
        ConformalSurvivalRegressor,
        CrossConformalRegressor,
        FunctionalRegressor,
        MultiOutputUncertaintyRegressor,
        MultiQuantileRegressor,
        RecalibratedRegressor,
        ResidualRegressor,
        UncertaintyRegressor,
        EstimatedProcess,
        lambda model: HurdleRegressor(model, model),
        lambda model: MixtureRegressor([("model", model)]),
        lambda model: AutoUncertaintyRegressor(space={"estimators": {"model": {"estimator": model}}}),
    ],
)
def test_a_model_without_tags_leaves_the_wrapper_its_own_tags(wrapper):
    assert get_tags(wrapper(WithoutTags())).estimator_type == "regressor"


def test_a_classifier_without_tags_or_classes():
    class WithoutClasses(WithoutTags):
        _estimator_type = "classifier"

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    assert get_tags(ConformalClassifier(WithoutClasses())).estimator_type == "classifier"
    with pytest.raises(TypeError, match=r"`estimator` must have the attribute `classes_` after `fit`"):
        ConformalClassifier(WithoutClasses()).fit(X, (y > 0).astype(int))


# -------------------------------------------------------------------------------------------- targets


def test_targets_of_a_wrong_shape_are_named():
    model = UncertaintyRegressor(Ridge(), random_state=0)
    with pytest.raises(ValueError, match=r"`y` must have shape \(n,\), got \(80, 1, 1\)"):
        model.fit(X, y[:, np.newaxis, np.newaxis])
    with pytest.raises(ValueError, match="`y` must have rows of one length"):
        MultiOutputUncertaintyRegressor(Ridge(), random_state=0).fit(X[:2], [[1.0, 2.0], [3.0]])
    with pytest.raises(
        ValueError, match="`y` must have at least one column, got a DataFrame without columns"
    ):
        MultiOutputUncertaintyRegressor(Ridge(), random_state=0).fit(X, pd.DataFrame(index=range(80)))
    with pytest.raises(TypeError, match="sparse"):
        MultiOutputUncertaintyRegressor(Ridge(), random_state=0).fit(X, sparse.csr_array(X))


def test_a_splitter_may_request_only_groups():
    import sklearn

    class Stratified(KFold):
        __metadata_request__split: ClassVar = {"strata": True}

        def split(self, X, y=None, groups=None, strata=None):
            return super().split(X, y)

    with sklearn.config_context(enable_metadata_routing=True):
        model = ResidualRegressor(Ridge(), cv=Stratified(3), random_state=0)
        with pytest.raises(ValueError, match=r"`cv` must not request metadata except `groups`.*'strata'"):
            model.fit(X, y, strata=y > 0)


@pytest.mark.parametrize("features", [sparse.csr_array(X), X.tolist()])
def test_an_error_of_the_model_keeps_its_text_for_any_kind_of_features(features):
    class Refuses(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            raise ValueError("could not convert string to float: 'a'")

    with pytest.raises(ValueError, match="could not convert string to float"):
        UncertaintyRegressor(Refuses(), random_state=0).fit(features, y)


# ------------------------------------------------------------------------------------------ transforms


def test_a_transformation_that_is_undefined_for_a_forecast_is_an_error():
    model = TransformedTargetRegressor(
        LeastSquaresRegressor(),
        func=lambda values: np.where(values < 4, values, np.nan),
        inverse_func=lambda values: values,
        check_inverse=False,
    ).fit(X, np.clip(y, -3, 3))
    dist = predict_dist(model, X[:3])
    with pytest.raises(ValueError, match=r"must be defined in the range of the predictions, got NaN for y"):
        dist.cdf(np.full(3, 4.5))


def test_joint_targets_without_a_transformer_are_unchanged():
    both = np.column_stack([y, y + X[:, 1]])
    joint = MultiOutputUncertaintyRegressor(Ridge(), random_state=0)
    plain = joint.fit(X, both).predict_dist(X[:4])
    model = TransformedTargetRegressor(
        MultiOutputUncertaintyRegressor(Ridge(), random_state=0),
        transformer=FunctionTransformer(),
    ).fit(X, both)
    dist = predict_dist(model, X[:4])
    assert isinstance(dist, JointDistribution)
    np.testing.assert_allclose(dist.mean(), plain.mean())


# -------------------------------------------------------------------------------------------- metrics


def test_shapes_of_targets_intervals_and_labels_are_named():
    intervals = np.column_stack([y - 1, y + 1])
    with pytest.raises(ValueError, match=r"must have 79 rows, one per sample, got 80"):
        interval_score_loss(y, intervals[:-1], coverage=0.9)
    with pytest.raises(
        ValueError, match=r"`y_true` must have shape \(n,\), with at least one row, got \(2, 2\)"
    ):
        class_log_loss(np.eye(2), np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match=r"`y_true` must hold labels up to 1.8e308, got a larger integer"):
        set_coverage_score(np.array([10**400, 1], dtype=object), np.ones((2, 2), dtype=bool))
    with pytest.raises(ValueError, match=r"`fractions` must be a non-empty 1-D array, got shape \(0,\)"):
        adversarial_group_calibration_curve(y, Normal(y, np.ones(80)), fractions=[])


def test_scores_of_censored_rows_only():
    dist = Normal(np.zeros(4), np.ones(4))
    event = np.zeros(4, dtype=bool)
    time = np.array([0.5, 1.0, 1.5, 2.0])
    expected = -np.log(1 - dist.cdf(time)).mean()
    assert nll_loss(time, dist, event=event) == pytest.approx(expected)
    assert np.isfinite(ipcw_crps_loss(time, dist, event=event, upper=1.8))


# ----------------------------------------------------------------------------------------- evaluation


def test_a_compiled_metric_without_a_signature_may_be_resampled():
    class Signatureless:
        __signature__ = property(lambda self: (_ for _ in ()).throw(ValueError("no signature")))

        def __call__(self, y_true, dist, sample_weight=None):
            return crps_loss(y_true, dist, sample_weight=sample_weight)

    dist = Normal(X[:, 0], np.ones(80))
    result = bootstrap_interval(y, dist, Signatureless(), n_resamples=20, random_state=0)
    assert result.low < result.value < result.high


def test_thresholds_of_a_wrong_shape_are_named():
    dist = Normal(X[:, 0], np.ones(80))
    with pytest.raises(ValueError, match=r"`threshold` must be a number or a non-empty 1-D array"):
        score_decomposition(y, dist, method="threshold", threshold=[[0.0, 1.0]])


def test_forecasts_that_equal_one_target_have_no_loss_to_decompose():
    constant = np.full(20, 3.0)
    found = score_decomposition(constant, Empirical(np.full((20, 4), 3.0)))
    assert found.score == 0
    assert found.uncertainty == 0


# ------------------------------------------------------------------------------------------ regressors


def test_few_distinct_errors_and_folds():
    perfect = UncertaintyRegressor(LinearRegression(), random_state=0).fit(X, X[:, 0])
    low, high = perfect.predict_interval(X).T
    assert np.all(high - low < 1e-6)
    with pytest.warns(SmallSampleWarning):
        two_folds = ResidualRegressor(Ridge(), cv=2, random_state=0).fit(X[:4], y[:4])
    assert np.isfinite(two_folds.predict_interval(X)).all()


def test_a_second_fit_forgets_the_calibration_rows():
    both = np.column_stack([y, y + X[:, 1]])
    inner = MultiOutputUncertaintyRegressor(LeastSquaresRegressor(), random_state=0)
    model = ConformalRegionRegressor(inner, random_state=0).fit(X, both)
    assert hasattr(model, "calibration_rows_")
    model.set_params(method="cv+").fit(X, both)
    assert not hasattr(model, "calibration_rows_")


def test_functional_of_a_model_of_another_package_has_out_of_fold_values():
    from sklearn.linear_model import BayesianRidge

    model = FunctionalRegressor(BayesianRidge(), functional="quantile", levels=0.9)
    assert model.fit(X, y).predict(X).shape == (80,)


def test_a_probability_of_zero_of_being_uncensored_is_an_error():
    class Before(LeastSquaresRegressor):
        def predict_dist(self, X):
            return Hurdle(np.ones(len(X)), Normal(np.zeros(len(X)), np.ones(len(X))), at=0.5)

    time = np.exp(y)
    model = ConformalSurvivalRegressor(
        CensoringWeightedRegressor(LeastSquaresRegressor()), censoring_estimator=Before(), threshold=1.0
    )
    with pytest.raises(ValueError, match=r"the probability of being uncensored at `threshold` = 1 must be"):
        model.fit(X, time, event=np.ones(80, dtype=bool), censoring_time=time + 1)


# ------------------------------------------------------------------------------------------ recalibrators


def test_recalibrators_refuse_empty_and_joint_forecasts():
    joint = MultiOutputUncertaintyRegressor(Ridge(), random_state=0).fit(X, np.column_stack([y, y]))
    with pytest.raises(TypeError, match=r"`dist` must be a Distribution, got ndarray of shape \(0, 2\)"):
        IsotonicRecalibrator().fit(np.empty((0, 2)), np.empty(0))
    with pytest.raises(TypeError, match="joint"):
        IsotonicRecalibrator().fit(joint.predict_dist(X), y)
