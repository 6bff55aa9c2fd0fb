"""Joint distributions in simulations and on real data: scores and coverages of the documentation."""

import os
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

from skuq.exceptions import SmallSampleWarning
from skuq.multivariate import ConformalRegionRegressor, MultiOutputUncertaintyRegressor
from skuq.regressors import LeastSquaresRegressor

pytestmark = pytest.mark.docs

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "several_targets.py"


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)  # scripts import each other
        return runpy.run_path(str(SCRIPT))


@pytest.mark.slow
def test_dependence(study):
    table = study["table"](5, study["dependences"])
    variogram, energy, coverage = (table[name] for name in ("variogram, %", "energy, %", "coverage of sum"))
    assert variogram["constant", "empirical"] < -14
    assert energy["constant", "empirical"] < -1
    assert 0.87 <= coverage["constant", "empirical"] <= 0.93
    assert energy["varying", "conditional"] < -1.5
    assert variogram["varying", "conditional"] < -8
    for dependence in ("empirical", "gaussian", "conditional"):
        assert abs(energy["independent", dependence]) < 1
        assert abs(variogram["independent", dependence]) < 1
    if not os.environ.get("SKUQ_DATA"):
        pytest.skip("needs real data: set SKUQ_DATA to the folder that holds paper001")
    for name, most in (("parkinsons", -30), ("facebook", -35)):
        assert table["variogram, %"][name, "empirical"] < most
        assert 0.88 <= table["coverage of sum"][name, "empirical"] <= 0.97


def bonferroni(model, X, y, X_test, y_test):
    """Return the width of one conformal interval per target with a third of the miscoverage."""
    dist, new = model.predict_dist(X), model.predict_dist(X_test)
    scores = np.sort(np.abs(y - dist.mean()) / dist.std(), axis=0)
    rank = int(np.ceil((1 - 0.1 / 3) * (len(scores) + 1)))
    half = scores[rank - 1] * new.std()
    return np.median((2 * half).prod(axis=1)) ** (1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["box", "ellipsoid"])
@pytest.mark.parametrize("method", ["split", "cv+"])
def test_regions_cover_and_are_narrower_than_intervals_per_target(study, shape, method):
    covered, widths = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, y = study["constant"](120, rng)
        X_test, y_test = study["constant"](200, rng)
        estimator = MultiOutputUncertaintyRegressor(LeastSquaresRegressor())
        model = ConformalRegionRegressor(estimator, shape, method=method, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallSampleWarning)
            region = model.fit(X, y).predict_region(X_test)
        covered.append(region.contains(y_test).mean())
        if (shape, method) == ("box", "split"):
            rows = model.calibration_rows_
            width = np.median(region.volume()) ** (1 / 3)
            widths.append(width / bonferroni(model, X[rows], y[rows], X_test, y_test))
    assert np.mean(covered) >= 0.9 - 2 * np.std(covered) / np.sqrt(len(covered))
    assert not widths or np.mean(widths) < 0.97
