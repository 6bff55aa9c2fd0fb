"""scikit-learn's own checks, through which a recalibrator goes behind a regressor.

Its input is a distribution and not the feature matrix that the checks would give it.
"""

from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import LeastSquaresRegressor, RecalibratedRegressor

RECALIBRATORS = [IdentityRecalibrator(), StdScalingRecalibrator(), IsotonicRecalibrator()]
PIPELINES = [make_pipeline(LeastSquaresRegressor(), recalibrator) for recalibrator in RECALIBRATORS]
WRAPPERS = [RecalibratedRegressor(LeastSquaresRegressor(), recalibrator) for recalibrator in RECALIBRATORS]

OUT_OF_FOLD = "fit_transform gives out-of-fold predictions and transform those of the final model, by design"
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
    return failures


@parametrize_with_checks(PIPELINES + WRAPPERS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
