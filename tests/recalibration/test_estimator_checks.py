"""scikit-learn's own checks, through which a recalibrator goes behind a regressor.

Its input is a distribution and not the feature matrix that the checks would give it.
"""

from functools import partial

import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import (
    check_dict_unchanged,
    check_estimators_dtypes,
    check_estimators_pickle,
    check_fit_idempotent,
    check_methods_sample_order_invariance,
    check_regressors_train,
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
)

from skuq import recalibration
from skuq.conformal import ConformalRecalibrator
from skuq.recalibration import (
    EmpiricalRecalibrator,
    GPBetaRecalibrator,
    GPCauchyRecalibrator,
    IsotonicRecalibrator,
    OnlineRecalibrator,
    OperatingPointRecalibrator,
    StdScalingRecalibrator,
)
from skuq.regressors import LeastSquaresRegressor, RecalibratedRegressor
from tests.few_rows import few_rows

GIVEN = {
    "GPBetaRecalibrator": {"n_inducing_points": 2},  # more would follow class labels, taken for y, exactly
    "OperatingPointRecalibrator": {"miss_rate": 0.1},
    "SupportMap": {"support": (-1e9, 1e9)},
}
RECALIBRATORS = [
    getattr(recalibration, name)(**GIVEN.get(name, {}))
    for name in recalibration.__all__
    if name != "BaseRecalibrator"
]
RECALIBRATORS.append(ConformalRecalibrator())
SETTINGS = [
    IsotonicRecalibrator(smooth=True),
    StdScalingRecalibrator(objective="crps"),
    StdScalingRecalibrator(objective="coverage"),
    StdScalingRecalibrator(robust=True),
    OperatingPointRecalibrator(cost=1 / 11, y_axis="deficit", vary="bias"),
    EmpiricalRecalibrator(smooth=False),
    ConformalRecalibrator(symmetric=False, group_by=2, rare_groups="pool"),
]


def behind_a_regressor(recalibrator):
    """Return a regressor that passes its weights to the recalibrator, unlike a pipeline.

    Folds left to chance would now and then test exact rows alone in the tiny data of some checks.
    """
    return RecalibratedRegressor(LeastSquaresRegressor(), recalibrator, random_state=0)


# A pipeline calls the methods that RecalibratedRegressor calls, so one pipeline takes all checks.
PIPELINE = make_pipeline(LeastSquaresRegressor(), StdScalingRecalibrator())

OUT_OF_FOLD = "fit_transform gives out-of-fold predictions and transform those of the final model, by design"
NO_MOMENTS = "Cauchy distributions have no mean, which the check would compare of `transform`'s output"
COMPARING_TRANSFORMED = (
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_pipeline_consistency",
    "check_sample_weight_equivalence_on_dense_data",
)
OBSERVED = dict.fromkeys(
    ("check_estimators_partial_fit_n_features", "check_n_features_in_after_fitting"),
    "partial_fit observes rows of a fitted model and is no way to begin",
)
PIPELINE_FITS_ITS_STEPS = (
    "Pipeline fits the steps it was given and keeps them in `steps`; scikit-learn's own way"
)


def expected_failed_checks(estimator):
    failures = {
        "check_transformer_general": OUT_OF_FOLD,
        "check_transformer_data_not_an_array": OUT_OF_FOLD,
    }
    if isinstance(estimator, Pipeline):
        failures["check_estimators_overwrite_params"] = PIPELINE_FITS_ITS_STEPS
        failures["check_dont_overwrite_parameters"] = PIPELINE_FITS_ITS_STEPS
    recalibrator = estimator[-1] if isinstance(estimator, Pipeline) else estimator.recalibrator
    if isinstance(recalibrator, GPCauchyRecalibrator):
        failures |= dict.fromkeys(COMPARING_TRANSFORMED, NO_MOMENTS)
    if isinstance(recalibrator, OnlineRecalibrator):
        failures |= OBSERVED
    return failures


# Checks of what a recalibrator computes. All others are of the regressor around it.
OF_RECALIBRATORS = [
    check_sample_weight_equivalence_on_dense_data,
    check_dict_unchanged,
    check_estimators_dtypes,
    check_estimators_pickle,
    check_fit_idempotent,
    check_methods_sample_order_invariance,
    check_regressors_train,
]


def in_laws(estimator, check):
    """Whether a check runs with the laws."""
    if estimator is PIPELINE:
        return True
    if isinstance(estimator.recalibrator, StdScalingRecalibrator):
        return False
    of_process = isinstance(estimator.recalibrator, GPBetaRecalibrator | GPCauchyRecalibrator)
    return check not in (OF_RECALIBRATORS[:1] if of_process else OF_RECALIBRATORS)


def cases():
    """Yield estimators and checks; one estimator takes the checks that fail by design of `fit_transform`."""
    for estimator in [PIPELINE, *map(behind_a_regressor, RECALIBRATORS)]:
        failures = expected_failed_checks(estimator)
        for case in estimator_checks_generator(estimator, expected_failed_checks=failures, mark="xfail"):
            _, check = values = getattr(case, "values", case)
            if estimator is PIPELINE or failures.get(check.func.__name__) != OUT_OF_FOLD:
                laws = [pytest.mark.laws] * in_laws(estimator, check.func)
                yield pytest.param(*values, marks=[*getattr(case, "marks", ()), *laws])


def check_id(value):
    """Return the name of a check or of a recalibrator."""
    if isinstance(value, partial):
        return value.func.__name__
    return "Pipeline" if value is PIPELINE else type(value.recalibrator).__name__


# The checks have too few rows for calibrated intervals.
@few_rows
@pytest.mark.parametrize(("estimator", "check"), list(cases()), ids=check_id)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.laws
@few_rows
@pytest.mark.parametrize("check", OF_RECALIBRATORS)
@pytest.mark.parametrize("recalibrator", SETTINGS, ids=repr)
def test_checks_of_what_a_setting_computes(recalibrator, check):
    check(type(recalibrator).__name__, behind_a_regressor(clone(recalibrator)))
