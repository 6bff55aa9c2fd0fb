import dataclasses

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.distributions import Normal
from skuq.regressors import LeastSquaresRegressor
from skuq.simulation import KnownProcess, simulate_coverage
from skuq.simulation._pointwise_coverage import PointwiseCoverage
from tests.simulation.processes import Oracle, line, linear_process

pytestmark = pytest.mark.filterwarnings("ignore:coverage at a row:skuq.exceptions.SmallSampleWarning")


@pytest.fixture(scope="module")
def result():
    return simulate_coverage(
        LeastSquaresRegressor(), linear_process(), n_simulations=30, coverage=[0.5, 0.8], random_state=0
    )


def made_up(prediction, confidence, level):
    """A result of given coverages, shape (S, n)."""
    n = prediction.shape[1]
    return PointwiseCoverage(
        coverage=level,
        X_test=np.zeros((n, 1)),
        truth=Normal(np.zeros(n), 1.0),
        prediction_coverage=prediction,
        confidence_coverage=confidence,
        prediction_width=np.ones(n),
        confidence_width=np.ones(n),
        bias=np.zeros(n),
        spread=np.ones(n),
        claimed_spread=np.ones(n),
    )


def test_the_score_is_squared_bias_and_variance_in_both_orders_of_averaging(result):
    cases = {"prediction": (result.picf, result.picp), "confidence": (result.cicf, result.cicp)}
    for kind, (fraction, coverage) in cases.items():
        assert_allclose(fraction.mean(axis=0), coverage.mean(axis=0), rtol=1e-14)
        expected = np.square(fraction.mean(axis=0) - result.coverage) + fraction.var(axis=0)
        assert_allclose(result.brier_score(kind), expected, atol=1e-15)


def test_the_correction_is_the_monte_carlo_error():
    """A perfect confidence interval scores c(1 - c) / S, and 0 on average once that is subtracted."""
    rng = np.random.default_rng(0)
    raw, corrected = [], []
    for _ in range(200):
        study = made_up(np.full((20, 50), 0.8), rng.uniform(size=(20, 50)) < 0.8, 0.8)
        raw.append(study.brier_score("confidence"))
        corrected.append(study.brier_score("confidence", corrected=True))
    assert np.mean(raw) == pytest.approx(0.16 / 20, rel=0.05)
    assert abs(np.mean(corrected)) < 4 * np.std(corrected) / np.sqrt(200)
    assert study.summary().loc[("confidence", 0.8), "perfect_brier"] == pytest.approx(0.16 / 20)
    assert study.brier_score(corrected=True) == pytest.approx(0)


def test_the_standard_error_is_that_of_repeated_studies():
    """Rows of one simulation move together, so that simulations are resampled and not rows."""
    rng = np.random.default_rng(0)
    studies = [
        made_up(np.repeat(rng.uniform(0.6, 0.9, size=(50, 1)), 30, axis=1), None, 0.9) for _ in range(150)
    ]
    real = np.std([study.brier_score() for study in studies])
    claimed = [
        study.summary(n_resamples=200, random_state=0)["standard_error"].item() for study in studies[:10]
    ]
    assert np.mean(claimed) == pytest.approx(real, rel=0.25)


def test_the_summary(result):
    table = result.summary(random_state=0)
    assert table.index.to_list() == [
        ("prediction", 0.5),
        ("prediction", 0.8),
        ("confidence", 0.5),
        ("confidence", 0.8),
    ]
    assert_allclose(table["brier"], [*result.brier_score(), *result.brier_score("confidence")])
    assert_allclose(table["min_coverage"], [*result.picf.min(axis=0), *result.cicf.min(axis=0)])
    assert_allclose(table["max_coverage"], [*result.picf.max(axis=0), *result.cicf.max(axis=0)])
    assert_allclose(table["mean_coverage"], [*result.picp.mean(axis=0), *result.cicp.mean(axis=0)])
    assert_allclose(
        table["width"], [*result.prediction_width.mean(axis=0), *result.confidence_width.mean(axis=0)]
    )
    assert_allclose(table["true_width"][:2], [2 * 0.6744898 * 0.1, 2 * 1.2815516 * 0.1])
    assert table["true_width"][2:].isna().all()
    assert_array_equal(table["perfect_brier"][:2], 0)
    pd.testing.assert_frame_equal(table, result.summary(random_state=0))


def test_a_row_of_the_frame_is_a_test_row(result):
    table = result.to_frame()
    assert len(table) == 50
    assert_array_equal(table["picf_0.5"], result.picf[:, 0])
    assert_array_equal(table["cicf_0.8"], result.cicf[:, 1])
    assert_array_equal(table["confidence_width_0.8"], result.confidence_width[:, 1])
    assert_array_equal(table["claimed_spread"], result.claimed_spread)
    process = KnownProcess(
        lambda X: line(X.to_numpy()),
        lambda n, rng: pd.DataFrame({"x": rng.uniform(size=n)}, index=[f"row {i}" for i in range(n)]),
        n_train=5,
        n_test=3,
        random_state=0,
    )
    options = {"n_simulations": 2, "confidence_intervals": False, "random_state": 0}
    one = simulate_coverage(Oracle(process.truth), process, **options)
    assert list(one.to_frame().index) == ["row 0", "row 1", "row 2"]
    assert list(one.to_frame().columns) == ["picf", "prediction_width", "bias", "spread"]


def test_without_confidence_intervals_what_needs_them_raises():
    one = made_up(np.full((3, 4), 0.9), None, 0.9)
    for refused in (lambda: one.cicf, lambda: one.cicp, lambda: one.brier_score("confidence")):
        with pytest.raises(ValueError, match=r"^the result has no confidence intervals"):
            refused()
    assert one.summary().index.to_list() == [("prediction", 0.9)]


def test_a_result_cannot_be_changed_and_names_bad_arguments(result):
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.coverage = 0.7
    assert repr(result).startswith("PointwiseCoverage(n_simulations=30, n_rows=50, coverage=[0.5, 0.8]")
    for arguments in ({"kind": "credible"}, {"corrected": 1}):
        with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` must be one of"):
            result.brier_score(**arguments)
    with pytest.raises(ValueError, match="`n_resamples` must be at least 2"):
        result.summary(n_resamples=1)
