"""scikit-learn's checks that another setting of an estimator can fail."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

CHECKS_OF_SETTINGS = {
    "check_dict_unchanged",
    "check_estimator_sparse_array",
    "check_estimators_dtypes",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_regressors_int",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_not_overwritten",
}


def checks_of_settings(settings: list[tuple[Any, dict[str, str]]]) -> list[Any]:
    """Return each estimator with the checks that its setting can fail, without its expected failures.

    Another setting of the same class runs all checks.
    """
    found = {}
    for estimator, failures in settings:
        for case, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            if name in CHECKS_OF_SETTINGS - set(failures):
                found.setdefault((id(estimator), name), pytest.param(case, check, id=f"{estimator}-{name}"))
    return list(found.values())
