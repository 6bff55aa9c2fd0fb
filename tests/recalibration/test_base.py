import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from scipy import sparse, stats
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.distributions import Normal, affine
from skuq.recalibration import (
    BaseRecalibrator,
    IdentityRecalibrator,
    IsotonicRecalibrator,
    StdScalingRecalibrator,
)
from tests.few_rows import few_rows

GOOD = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
Y = np.array([0.5, 0.0, 2.5])
classes = pytest.mark.parametrize("cls", [IdentityRecalibrator, StdScalingRecalibrator, IsotonicRecalibrator])


@few_rows
@classes
@pytest.mark.parametrize("method", ["fit", "transform", "predict", "predict_dist"])
def test_what_is_not_a_distribution_is_refused(cls, method, subtests):
    recalibrator = cls().fit(GOOD, Y)
    for dist, error, match in (
        (np.zeros((3, 3)), ValueError, r"exactly two columns, .* got an array of shape \(3, 3\)"),
        (np.zeros((3, 1)), ValueError, "exactly two columns"),
        (np.zeros(3), ValueError, "exactly two columns"),
        (np.zeros((3, 2, 1)), ValueError, "exactly two columns"),
        (np.zeros((0, 2)), ValueError, "at least one row"),
        ([[0.0, 1.0], [1.0, -0.3], [2.0, 1.0]], ValueError, r"non-negative, got -0.3 at row 1"),
        ([[0.0, 1.0], [np.nan, 1.0], [2.0, 1.0]], ValueError, "finite, got nan at row 1"),
        ([[0.0, 1.0], [1.0, np.inf], [2.0, 1.0]], ValueError, "finite, got inf at row 1"),
        ((Y, np.ones(3)), TypeError, r"Normal\(loc, scale\)"),
        (stats.norm(Y, np.ones(3)), TypeError, "ScipyDistribution"),
        (sparse.csr_matrix(GOOD), TypeError, "sparse"),
        ([["a", "b"]] * 3, TypeError, "real numbers"),
        (GOOD.astype(complex), TypeError, "real numbers"),
        ("a string", TypeError, "real numbers"),
        (LinearRegression(), TypeError, "real numbers"),
        (None, ValueError, "two columns"),
    ):
        arguments = (dist, Y) if method == "fit" else (dist,)
        with subtests.test(msg=match), pytest.raises(error, match=match):
            getattr(recalibrator, method)(*arguments)


@classes
def test_a_bad_target_or_weight_is_refused_and_leaves_it_unfitted(cls):
    for y, error, match in (
        ([0.0, 1.0], ValueError, "`y` must have 3 rows"),
        ([], ValueError, "at least one row"),
        ([0.0, np.nan, 1.0], ValueError, "`y` must be finite, got nan at row 1"),
        ([0.0, np.inf, 1.0], ValueError, "`y` must be finite"),
        (np.zeros((3, 2)), ValueError, "one target at a time"),
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


@few_rows
@classes
def test_frames_series_columns_and_lists_pass(cls):
    expected = cls().fit(GOOD, Y).predict(GOOD)
    for dist, y in [
        (pd.DataFrame(GOOD, columns=["mean", "std"]), pd.Series(Y, index=[7, 8, 9])),
        (GOOD.tolist(), Y.tolist()),
        (np.asfortranarray(GOOD), Y[:, np.newaxis]),
    ]:
        assert_array_equal(cls().fit(dist, y).predict(dist), expected)


def test_after_an_ordinary_transformer_the_error_names_what_belongs_there():
    pipeline = make_pipeline(StandardScaler(), StdScalingRecalibrator())
    with pytest.raises(ValueError, match="a regressor whose `transform` returns a Distribution"):
        pipeline.fit(np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20))
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

    recalibrator = ShiftRecalibrator().fit(GOOD, GOOD[:, 0] + 4.0)
    assert_array_equal(recalibrator.predict(GOOD), GOOD[:, 0] + 4.0)
    assert isinstance(recalibrator.set_output(transform="pandas").transform(GOOD), Normal)
