"""Joint distributions in simulations and on real data: scores and coverages of the documentation."""

import os
import runpy
import warnings
from pathlib import Path

import pytest

from skuq.exceptions import SmallSampleWarning

pytestmark = pytest.mark.docs

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "several_targets.py"


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)  # scripts import each other
        return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def table(study):
    return study["table_of_dependence"](5)


@pytest.mark.slow
def test_dependence_in_simulations(table):
    variogram, energy, coverage = (table[name] for name in ("variogram, %", "energy, %", "coverage of sum"))
    assert variogram["constant", "empirical"] < -14
    assert energy["constant", "empirical"] < -1
    assert 0.87 <= coverage["constant", "empirical"] <= 0.93
    assert energy["varying", "conditional"] < -1.5
    assert variogram["varying", "conditional"] < -8
    for dependence in ("empirical", "gaussian", "conditional"):
        assert abs(energy["independent", dependence]) < 1
        assert abs(variogram["independent", dependence]) < 1


@pytest.mark.slow
def test_dependence_on_real_data(table):
    if not os.environ.get("SKUQ_DATA"):
        pytest.skip("needs real data: set SKUQ_DATA to the folder that holds paper001")
    for name, most in (("parkinsons, forest", -30), ("facebook, forest", -35)):
        assert table["variogram, %"][name, "empirical"] < most
        assert 0.88 <= table["coverage of sum"][name, "empirical"] <= 0.97


@pytest.mark.slow
def test_regions_cover_and_are_narrower_than_intervals_per_target(study):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        table = study["table_of_regions"](200)
    for shape in ("box", "ellipsoid"):
        for method in ("split", "cv+"):
            found = table.loc[(shape, method)]
            assert found["coverage"] >= 0.9 - 2 * found["standard error"]
    assert table["width"]["box", "split"] < 0.97 * table["width"]["box", "bonferroni"]
