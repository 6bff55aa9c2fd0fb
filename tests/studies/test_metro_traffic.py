"""The study of traffic: quarters that are flagged, and an alarm, as the how-to guide states them."""

import os
import runpy
from pathlib import Path

import pytest

from skuq.monitoring import calibration_drift

pytestmark = pytest.mark.docs

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "studies" / "metro_traffic.py"


@pytest.fixture(scope="module")
def study():
    return runpy.run_path(str(SCRIPT))


def test_the_model_of_2013_loses_its_calibration_in_three_summers(study):
    folder = os.environ.get("SKUQ_DATA")
    if folder is None or not (Path(folder) / study["FILE"]).is_file():
        pytest.skip(f"needs real data: set SKUQ_DATA to the folder that holds {study['FILE']}")
    tested, every, alarm = study["watch"](Path(folder))
    table, scores = calibration_drift(tested), calibration_drift(every)
    assert table.index[table["flag"]].astype(str).tolist() == ["2015Q3", "2016Q3", "2018Q3"]
    assert scores.loc[table["flag"], "coverage"].round(2).tolist() == [0.8, 0.53, 0.8]
    assert scores["coverage"][:7].between(0.915, 0.955).all()
    assert f"{alarm:%Y-%m-%d}" == "2016-07-06"
    summers = scores[scores.index.quarter == 3]
    assert summers["crps"]["2016Q3"] > 1.8 * summers["crps"].drop("2016Q3").max()
    assert summers["width"]["2016Q3"] < 1.05 * summers["width"][["2015Q3", "2018Q3"]].mean()
