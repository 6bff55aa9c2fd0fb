"""scikit-learn's own checks for the neural estimators, with the expected failures by name and reason."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

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

CASES = [
    (PNNRegressor((16,), max_epochs=60, random_state=0), OUT_OF_SAMPLE | SHUFFLED),
    (
        DeepEnsembleRegressor(4, hidden_layer_sizes=(16,), max_epochs=60, random_state=0),
        OUT_OF_SAMPLE | SHUFFLED,
    ),
    (
        DeepEnsembleRegressor(
            3,
            hidden_layer_sizes=(16,),
            max_epochs=60,
            output="mixture",
            bootstrap=False,
            calibration="split",
            random_state=0,
        ),
        OUT_OF_SAMPLE | SHUFFLED,
    ),
    (
        BootstrapNetRegressor(4, hidden_layer_sizes=(16,), learning_rate=3e-3, random_state=0),
        OUT_OF_SAMPLE | SHUFFLED,
    ),
    (MCDropoutRegressor((16,), max_epochs=60, n_draws=20, random_state=0), OUT_OF_SAMPLE | SHUFFLED),
    (ConcreteDropoutRegressor((16,), max_epochs=60, n_draws=20, random_state=0), OUT_OF_SAMPLE | SHUFFLED),
    (VariationalRegressor((16,), n_draws=20, max_epochs=60, random_state=0), OUT_OF_SAMPLE | SHUFFLED),
    # On the checks' two clusters its linear layer finds the target exactly, whatever rows are left out.
    (LastLayerLaplaceRegressor((16,), max_epochs=60, random_state=0), SHUFFLED),
    (SWARegressor((16,), n_snapshots=5, max_epochs=60, random_state=0), OUT_OF_SAMPLE | SHUFFLED),
]
SMALL = {"hidden_layer_sizes": (16,), "random_state": 0}
CLASSIFIER_CASES = [
    # Its rows are one batch, whose mean loss is that of repeated rows.
    (DeepEnsembleClassifier(3, max_epochs=30, **SMALL), {}),
    (
        DeepEnsembleClassifier(
            3, bootstrap=True, keep_best="log_loss", standardize="all", max_epochs=30, **SMALL
        ),
        SHUFFLED,
    ),
    (MCDropoutClassifier(max_epochs=60, n_draws=10, **SMALL), SHUFFLED),
    (VariationalClassifier(max_epochs=60, n_draws=10, **SMALL), SHUFFLED),
    (VariationalClassifier(last_layer=True, max_epochs=60, n_draws=10, **SMALL), SHUFFLED),
]
CLASSIFIER_CASES += [
    (each(max_epochs=60, **SMALL), SHUFFLED)
    for each in not_among([case for case, _ in CLASSIFIER_CASES], CLASSIFIERS)
]
CASES += [
    (each(hidden_layer_sizes=(16,), max_epochs=60, random_state=0), OUT_OF_SAMPLE | SHUFFLED)
    for each in not_among(case for case, _ in CASES)
]
CASES += CLASSIFIER_CASES


def expected_failed_checks(estimator):
    return next(failures for case, failures in CASES if case is estimator)


# The checks have too few rows to calibrate intervals of 90 % by.
@pytest.mark.filterwarnings("ignore:intervals of 90 % need:skuq.exceptions.SmallSampleWarning")
@parametrize_with_checks([case for case, _ in CASES], expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
