"""The custom classes of the guide pass scikit-learn's checks, and the code for contributors runs."""

import ast
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from skuq._validation import check_single_coverage
from skuq.conformal import ConformalRegressor
from skuq.conformal import _scores as scores
from skuq.distributions import Normal
from skuq.evaluation import uncertainty_report
from skuq.metrics import _spec, get_scorer
from skuq.metrics._inputs import check_forecast
from skuq.monitoring import MetricAccumulator
from skuq.regressors import LeastSquaresRegressor
from tests.few_rows import few_rows

DOCS = Path(__file__).resolve().parent.parent / "docs"
GUIDE = DOCS / "guides/how_to/extend.py"
CONTRIBUTE = (DOCS / "development/contribute.rst").read_text(encoding="utf-8")
DEFINITIONS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
OUT_OF_SAMPLE = dict.fromkeys(
    ("check_transformer_general", "check_transformer_data_not_an_array"),
    "fit_transform returns out-of-sample distributions",
)
STEPS = dict.fromkeys(
    ("check_estimators_overwrite_params", "check_dont_overwrite_parameters"), "Pipeline fits its own steps"
)
HELD_OUT = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "rows are held out at random",
)
OBSERVED = dict.fromkeys(
    ("check_estimators_partial_fit_n_features", "check_n_features_in_after_fitting"),
    "partial_fit needs a fitted model",
)


def read_definitions(page):
    """Return a module with the imports, functions and classes of a page; pickles find the classes in it."""
    tree = ast.parse(page.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, DEFINITIONS)]
    module = ModuleType("extend_guide")
    exec(compile(tree, str(page), "exec"), vars(module))
    sys.modules[module.__name__] = module
    return module


guide = read_definitions(GUIDE)
local_errors = guide.LocalErrorRegressor(LinearRegression(), n_neighbors=2)
CASES = [
    (guide.KernelRegressor(random_state=0), {}),  # nearly equal predictions with and without a row
    (make_pipeline(LeastSquaresRegressor(), guide.ShiftRecalibrator()), OUT_OF_SAMPLE | STEPS),
    (ConformalRegressor(local_errors, "normalized", random_state=0), OUT_OF_SAMPLE | HELD_OUT | OBSERVED),
]


@pytest.mark.laws
@few_rows  # the checks have too few rows for calibrated intervals
@parametrize_with_checks(
    [case for case, _ in CASES],
    expected_failed_checks=lambda estimator: next(failed for case, failed in CASES if case is estimator),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def read_block(section):
    """Return the code of a section of the page for contributors."""
    text = CONTRIBUTE[CONTRIBUTE.index(f"\n{section}\n") :]
    return textwrap.dedent(re.search(r"::\n\n((?: {4}.*\n|\n)+)", text)[1])


def test_a_metric_needs_only_its_record_and_its_values_per_row(monkeypatch):
    monkeypatch.setattr(_spec, "_SPECS", dict(_spec._SPECS))
    monkeypatch.setattr(_spec, "_ABBREVIATIONS", dict(_spec._ABBREVIATIONS))
    namespace = {
        **vars(_spec),
        "np": np,
        "check_forecast": check_forecast,
        "check_single_coverage": check_single_coverage,
    }
    exec(read_block("Metrics"), namespace)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1))
    y = X[:, 0] + rng.normal(size=100)
    dist = Normal(X[:, 0], 1.0)
    expected = pytest.approx(np.mean(np.abs(y - X[:, 0])), rel=1e-12)
    assert namespace["absolute_error_loss"](y, dist) == expected
    assert uncertainty_report(y, dist, metrics=["mae"], n_resamples=10).loc["mae", "value"] == expected
    halves = MetricAccumulator("mae", curves=()).update(y[:50], dist[:50]).update(y[50:], dist[50:])
    assert halves.result()["mae"] == expected
    model = LeastSquaresRegressor().fit(X, y)
    assert get_scorer("neg_mae")(model, X, y) == pytest.approx(-np.mean(np.abs(y - model.predict(X))))


class HalfTheNoise(RegressorMixin, BaseEstimator):
    """Normal distributions around 0 with the standard deviation x / 2."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def predict_dist(self, X):
        return Normal(np.zeros(len(X)), X[:, 0] / 2)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_conformal_score_needs_only_its_band(monkeypatch, symmetric):
    namespace = {**vars(scores), "np": np}
    exec(read_block("Conformal scores"), namespace)
    monkeypatch.setitem(scores.SCORES, "cqr-r", namespace["ScaledCQRScore"])
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 3, size=(2000, 1))
    y = X[:, 0] * rng.normal(size=2000)
    X_new = rng.uniform(1, 3, size=(2000, 1))
    y_new = X_new[:, 0] * rng.normal(size=2000)
    model = ConformalRegressor(HalfTheNoise(), "cqr-r", symmetric=symmetric, random_state=0).fit(X, y)
    lower, upper = model.predict_interval(X_new).T
    assert np.mean((lower <= y_new) & (y_new <= upper)) == pytest.approx(0.9, abs=0.03)
    width = upper - lower
    assert width == pytest.approx(width[0] / X_new[0, 0] * X_new[:, 0])
