import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.distributions import Normal, ScipyDistribution, affine
from skuq.recalibration import (
    BaseRecalibrator,
    IdentityRecalibrator,
    IsotonicRecalibrator,
    StdScalingRecalibrator,
)
from skuq.regressors import LeastSquaresRegressor
from tests.few_rows import few_rows

GOOD = Normal([0.0, 1.0, 2.0], [1.0, 2.0, 1.0])
Y = np.array([0.5, 0.0, 2.5])
classes = pytest.mark.parametrize("cls", [IdentityRecalibrator, StdScalingRecalibrator, IsotonicRecalibrator])


@few_rows
@classes
def test_a_frozen_scipy_distribution_is_converted(cls):
    frozen = stats.norm(GOOD.loc, GOOD.scale)
    converted = ScipyDistribution(frozen)
    expected = cls().fit(converted, Y).predict(converted)
    assert_array_equal(cls().fit(frozen, Y[:, np.newaxis]).predict(frozen), expected)
    expected = cls().fit(GOOD, Y).predict(GOOD)
    assert_array_equal(cls().fit(GOOD, pd.Series(Y, index=[7, 8, 9])).predict(GOOD), expected)


@classes
def test_a_bad_target_or_weight_is_refused_and_leaves_it_unfitted(cls):
    for y, error, match in (
        ([0.0, 1.0], ValueError, "`y` must have 3 rows"),
        ([], ValueError, "at least one row"),
        ([0.0, np.nan, 1.0], ValueError, "`y` must be finite, got nan at row 1"),
        ([0.0, np.inf, 1.0], ValueError, "`y` must be finite"),
        (np.zeros((3, 2)), ValueError, "`y` must have one column, got 2"),
        (["a", "b", "c"], TypeError, "real numbers"),
        (None, (TypeError, ValueError), "`y`"),
        (1.0, ValueError, "shape"),
    ):
        recalibrator = cls()
        with pytest.raises(error, match=match):
            recalibrator.fit(GOOD, y)
        with pytest.raises(sklearn.exceptions.NotFittedError):
            recalibrator.transform(GOOD)
    for weight, match in (
        ([1.0, 1.0], "3 rows"),
        ([1.0, -1.0, 1.0], "non-negative"),
        ([1.0, np.nan, 1.0], "finite"),
        ([0.0, 0.0, 0.0], "positive sum"),
    ):
        with pytest.raises(ValueError, match=match):
            cls().fit(GOOD, Y, sample_weight=weight)


def test_what_stacks_or_is_an_ordinary_transformer_before_it_is_named():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20)
    models = [("a", LeastSquaresRegressor()), ("b", LeastSquaresRegressor())]
    columns = ColumnTransformer([("a", LeastSquaresRegressor(), [0, 1])])
    for before in (StandardScaler(), FeatureUnion(models[:1]), FeatureUnion(models), columns):
        pipeline = make_pipeline(before, StdScalingRecalibrator())
        with pytest.raises(
            TypeError, match=r"must be a Distribution, got ndarray(.|\n)*A FeatureUnion or a Col"
        ):
            pipeline.fit(X, y)
    with pytest.raises(TypeError, match="abstract"):
        BaseRecalibrator()


def test_only_the_weights_are_metadata():
    with sklearn.config_context(enable_metadata_routing=True):
        request = StdScalingRecalibrator().set_fit_request(sample_weight=True).get_metadata_routing()
    assert request.fit.requests == {"sample_weight": True}
    assert not hasattr(StdScalingRecalibrator, "set_predict_request")
    assert not hasattr(StdScalingRecalibrator, "set_transform_request")


@few_rows
def test_weights_reach_the_last_step_of_a_pipeline():
    for routing in (True, False):
        with sklearn.config_context(enable_metadata_routing=routing):
            first, last = IdentityRecalibrator(), StdScalingRecalibrator()
            if routing:
                first.set_fit_request(sample_weight=False)
                last.set_fit_request(sample_weight=True)
            key = "sample_weight" if routing else "stdscalingrecalibrator__sample_weight"
            pipeline = make_pipeline(first, last).fit(GOOD, Y, **{key: [1.0, 3.0, 1.0]})
        assert pipeline[-1].factor_ == pytest.approx(np.sqrt((0.25 + 3 * 0.25 + 0.25) / 5))


@few_rows
def test_a_method_of_ones_own_is_two_functions():
    class ShiftRecalibrator(BaseRecalibrator):
        def _fit(self, dist, y, weight):
            self.shift_ = np.average(y - dist.mean(), weights=weight)

        def _transform(self, dist):
            return affine(dist, self.shift_, 1.0)

    recalibrator = ShiftRecalibrator().fit(GOOD, GOOD.loc + 4.0)
    assert_array_equal(recalibrator.predict(GOOD), GOOD.loc + 4.0)
    assert isinstance(recalibrator.set_output(transform="pandas").transform(GOOD), Normal)
