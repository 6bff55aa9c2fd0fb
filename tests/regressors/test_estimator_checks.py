"""scikit-learn's own checks for every regressor, with the expected failures by name and reason."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, QuantileRegressor, Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import estimator_checks_generator

from skuq.conformal import ConformalRegressor, CrossConformalRegressor
from skuq.multivariate import ConformalRegionRegressor, MultiOutputUncertaintyRegressor
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    ForestDistributionRegressor,
    FunctionalRegressor,
    HurdleRegressor,
    LeastSquaresRegressor,
    MixtureRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    SparseGaussianProcessRegressor,
    UncertaintyRegressor,
)
from skuq.survival import CensoredBoostingRegressor, CensoringWeightedRegressor, ConformalSurvivalRegressor
from tests.estimator_checks import checks_of_settings
from tests.few_rows import few_rows

OUT_OF_SAMPLE = dict.fromkeys(
    ("check_transformer_general", "check_transformer_data_not_an_array"),
    "fit_transform predicts by models that are not trained on the row, transform by the final one",
)
WEIGHTS = "check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"
RESAMPLED = dict.fromkeys(
    WEIGHTS, "rows are drawn by their weights, so that weights equal repetition in distribution only"
)
HELD_OUT = dict.fromkeys(
    WEIGHTS, "rows are held out at random or one at a time; the check passes folds as `cv`, which is refused"
)
DRAWN = dict.fromkeys(
    WEIGHTS, "the forest of the errors draws rows, so that weights equal repetition in distribution"
)
BINNED = dict.fromkeys(WEIGHTS, "LightGBM bins the features by the number of rows, not by their weights")
OBSERVED = dict.fromkeys(
    ("check_estimators_partial_fit_n_features", "check_n_features_in_after_fitting"),
    "partial_fit observes a fitted model and is no way to begin; test_adaptive.py has its checks",
)


CONTAINERS = {  # Other checks use one container of each kind.
    "check_estimator_sparse_matrix",
    "check_regressor_data_not_an_array",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_transformer_data_not_an_array",
}


class HurdleOfMiddleValue(HurdleRegressor):
    """HurdleRegressor whose value is the target of a row, because targets of the checks have no zeros."""

    def _fit(self, data, progress):
        given, self.at = self.at, float(np.sort(data.y)[len(data) // 2])
        try:
            super()._fit(data, progress)
        finally:
            self.at = given


# Every public class runs all checks once, in a setting that is fast to fit. Trees predict the separated
# clusters of the transformer checks exactly, seen or not, so those pass.
NATIVE = UncertaintyRegressor(BayesianRidge(), "native")
CASES = [
    (LeastSquaresRegressor(), OUT_OF_SAMPLE),
    (BootstrapRegressor(DecisionTreeRegressor(), 10, noise=None, random_state=0), RESAMPLED),
    (ForestDistributionRegressor(RandomForestRegressor(10), random_state=0), RESAMPLED),
    (MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.1, 0.9], cv=2, random_state=0), OUT_OF_SAMPLE),
    (ResidualRegressor(LinearRegression(), cv=3, random_state=0), OUT_OF_SAMPLE),
    (RecalibratedRegressor(LeastSquaresRegressor(), random_state=0), OUT_OF_SAMPLE),
    (FunctionalRegressor(LeastSquaresRegressor(), "mean"), OUT_OF_SAMPLE),
    (
        HurdleOfMiddleValue(LogisticRegression(), BayesianRidge(), calibration=None, random_state=0),
        OUT_OF_SAMPLE,
    ),
    (
        # The check of weights has exactly linear targets, and a recalibration of rounding errors is random.
        MixtureRegressor(
            [("ols", LeastSquaresRegressor()), ("ridge", BayesianRidge())],
            recalibrator=None,
            cv=3,
            random_state=0,
        ),
        OUT_OF_SAMPLE,
    ),
    (MultiOutputUncertaintyRegressor(NATIVE, random_state=0), {}),
    (ConformalRegionRegressor(BayesianRidge(), random_state=0), HELD_OUT),
    (ConformalRegressor(LinearRegression(), random_state=0), OUT_OF_SAMPLE | HELD_OUT | OBSERVED),
    (CrossConformalRegressor(LinearRegression(), cv=3, random_state=0), OUT_OF_SAMPLE),
    (UncertaintyRegressor(LeastSquaresRegressor(), random_state=0), OUT_OF_SAMPLE),
    (
        CensoredBoostingRegressor(
            engine="sklearn", n_estimators=10, min_samples_leaf=1, cv=2, random_state=0
        ),
        OUT_OF_SAMPLE,
    ),
    (CensoringWeightedRegressor(LeastSquaresRegressor(), random_state=0), OUT_OF_SAMPLE),
    (ConformalSurvivalRegressor(BayesianRidge(), random_state=0), {}),
]
if find_spec("gpytorch"):
    CASES.append((SparseGaussianProcessRegressor(5, max_iter=8, cv=2, random_state=0), OUT_OF_SAMPLE))

# Other settings fit and predict in another way. The checks of parameters, tags and input are not repeated
# for them. test_base.py has laws of further settings.
SETTINGS = [
    (BootstrapRegressor(RandomForestRegressor(5), random_state=0), RESAMPLED),
    (
        MixtureRegressor(
            [("ols", LeastSquaresRegressor()), ("ridge", BayesianRidge())],
            weights="equal",
            combine="quantiles",
            recalibrator=IsotonicRecalibrator(),
            cv=2,
            random_state=0,
        ),
        {},
    ),
    (CrossConformalRegressor(LinearRegression(), "jackknife+", random_state=0), HELD_OUT),
    # The forest of errors draws rows, so that weights are repetitions in distribution only.
    (MultiOutputUncertaintyRegressor(NATIVE, dependence="gaussian", random_state=0), {}),
    (ConformalRegionRegressor(NATIVE, "ellipsoid", method="cv+", cv=2, random_state=0), {}),
    (UncertaintyRegressor(Ridge(), cv=3, random_state=0), DRAWN),
    (
        UncertaintyRegressor(
            QuantileRegressor(alpha=0),
            effort="low",
            method_params={"levels": [0.1, 0.5, 0.9]},
            random_state=0,
        ),
        {},
    ),
]

if find_spec("lightgbm"):
    SETTINGS.append(
        (
            CensoredBoostingRegressor(
                engine="lightgbm", n_estimators=10, min_samples_leaf=1, cv=2, random_state=0
            ),
            BINNED,
        )
    )


def checks_of_classes():
    """Yield all checks of each class, with those of further containers in the tier `laws`."""
    for estimator, failures in CASES:
        for case, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            marks = [pytest.mark.laws] if name in CONTAINERS or name in failures else []
            if name in failures:
                marks.append(pytest.mark.xfail(reason=failures[name]))
            yield pytest.param(case, check, marks=marks, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.filterwarnings("ignore:`y` holds integers from 0")  # the checks use classes as targets
# The checks have too few rows for calibrated intervals.
@few_rows
@pytest.mark.parametrize(("estimator", "check"), checks_of_classes())
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.laws
@pytest.mark.filterwarnings("ignore:`y` holds integers from 0")  # the checks use classes as targets
@few_rows
@pytest.mark.parametrize(("estimator", "check"), checks_of_settings(SETTINGS))
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)
