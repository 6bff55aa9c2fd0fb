"""scikit-learn's own checks for the neural estimators, with the expected failures by name and reason."""

import pytest
from sklearn.base import is_classifier
from sklearn.utils.estimator_checks import (
    check_classifiers_train,
    check_dict_unchanged,
    check_estimators_dtypes,
    check_estimators_pickle,
    check_fit_idempotent,
    check_methods_sample_order_invariance,
    check_methods_subset_invariance,
    check_regressors_train,
    estimator_checks_generator,
)

pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.neural import (
    BootstrapNetRegressor,
    ConcreteDropoutRegressor,
    DeepEnsembleClassifier,
    DeepEnsembleRegressor,
    LastLayerLaplaceRegressor,
    MCDropoutClassifier,
    MCDropoutRegressor,
    PNNRegressor,
    SWARegressor,
    VariationalClassifier,
    VariationalRegressor,
)
from tests.neural.estimators import CLASSIFIERS, not_among

OUT_OF_SAMPLE = dict.fromkeys(
    ("check_transformer_general", "check_transformer_data_not_an_array"),
    "fit_transform predicts by models that are not trained on the row, transform by the final one",
)
SHUFFLED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data",),
    "rows are held out, drawn and shuffled, so that weights equal repetition only in distribution",
)

# A high rate and few epochs: the checks ask for a fit, and their data are simple.
SMALL = {"hidden_layer_sizes": (8,), "max_epochs": 12, "learning_rate": 0.05, "random_state": 0}
CASES = [
    (PNNRegressor(**SMALL), OUT_OF_SAMPLE | SHUFFLED),
    (DeepEnsembleRegressor(2, **SMALL), OUT_OF_SAMPLE | SHUFFLED),
    (BootstrapNetRegressor(3, **SMALL), OUT_OF_SAMPLE | SHUFFLED),
    (MCDropoutRegressor(n_draws=10, **SMALL), OUT_OF_SAMPLE | SHUFFLED),
    (ConcreteDropoutRegressor(n_draws=10, **SMALL), OUT_OF_SAMPLE | SHUFFLED),
    # With its full weight the prior would outweigh the few rows of some checks, which warns.
    (VariationalRegressor(n_draws=10, kl_weight=0.1, **SMALL), OUT_OF_SAMPLE | SHUFFLED),
    (LastLayerLaplaceRegressor((16,), max_epochs=60, random_state=0), OUT_OF_SAMPLE | SHUFFLED),
    (SWARegressor(n_snapshots=4, **SMALL), OUT_OF_SAMPLE | SHUFFLED),
]
CLASSIFIER_CASES = [
    # Its rows are one batch, whose mean loss is that of repeated rows. A high rate would amplify rounding.
    (DeepEnsembleClassifier(2, hidden_layer_sizes=(16,), max_epochs=30, random_state=0), {}),
    (MCDropoutClassifier(n_draws=10, **SMALL), SHUFFLED),
    (VariationalClassifier(n_draws=10, **SMALL), SHUFFLED),
]
CLASSIFIER_CASES += [
    (each(**SMALL), SHUFFLED) for each in not_among([case for case, _ in CLASSIFIER_CASES], CLASSIFIERS)
]
CASES += [(each(**SMALL), OUT_OF_SAMPLE | SHUFFLED) for each in not_among(case for case, _ in CASES)]
CASES += CLASSIFIER_CASES
SETTINGS = [
    DeepEnsembleRegressor(2, output="mixture", bootstrap=False, calibration="split", **SMALL),
    DeepEnsembleClassifier(2, bootstrap=True, keep_best="log_loss", standardize="all", **SMALL),
    VariationalClassifier(last_layer=True, n_draws=10, **SMALL),
]
CHECKS_OF_SETTINGS = [
    check_dict_unchanged,
    check_estimators_dtypes,
    check_estimators_pickle,
    check_fit_idempotent,
    check_methods_sample_order_invariance,
    check_methods_subset_invariance,
]


DEAR = {"check_pipeline_consistency", "check_regressor_data_not_an_array", "check_regressors_train"}
"""Checks of many fits, which two estimators run in the default tier."""


def checks():
    """Yield each estimator with each check; dear checks and expected failures have the marker laws."""
    for estimator, failures in CASES:
        is_dear = DEAR if not isinstance(estimator, (PNNRegressor, DeepEnsembleRegressor)) else set()
        for case, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            marks = [pytest.mark.xfail(reason=failures[name])] if name in failures else []
            marks += [pytest.mark.laws] if name in is_dear or name in failures else []
            yield pytest.param(case, check, marks=marks, id=f"{type(estimator).__name__}-{name}")


# The checks have too few rows to calibrate intervals of 90 % by.
@pytest.mark.filterwarnings("ignore:intervals of 90 % need:skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.laws
@pytest.mark.filterwarnings("ignore:intervals of 90 % need:skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize("estimator", SETTINGS, ids=repr)
def test_checks_of_what_a_setting_computes(estimator, subtests):
    learns = check_classifiers_train if is_classifier(estimator) else check_regressors_train
    for check in (*CHECKS_OF_SETTINGS, learns):
        with subtests.test(msg=check.__name__):
            check(type(estimator).__name__, estimator)
