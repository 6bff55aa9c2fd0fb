"""The report of censored targets."""

import numpy as np
import pytest

from skuq.distributions import Normal
from skuq.evaluation import survival_report
from skuq.metrics import concordance_score, crps_loss, ipcw_crps_loss, nll_loss
from tests.censoring.worlds import waiting_times


@pytest.fixture(scope="module")
def world():
    return waiting_times(1000, 0)


def test_the_table_has_the_metrics_of_each_model(world):
    y, event = np.log(world.y), world.event
    models = {"truth": world.log_truth, "wide": Normal(world.loc, 2 * world.scale)}
    report = survival_report(y, models, event=event, upper=1.5)
    assert list(report.table.columns) == ["truth", "wide", "kaplan_meier"]
    for name, dist in models.items():
        column = report.table[name]
        assert column["ipcw_crps"] == ipcw_crps_loss(y, dist, event=event, upper=1.5)
        assert column["nll"] == nll_loss(y, dist, event=event)
        assert column["concordance"] == concordance_score(y, dist, event=event)
    better = ["ipcw_crps", "localized_crps", "ipcw_brier", "nll", "calibration_error"]
    assert (report.table["truth"] < report.table["wide"])[better].all()
    assert (report.table.loc["ipcw_crps"] <= report.table.loc["ipcw_crps", "kaplan_meier"]).all()
    assert report.table.loc["concordance", "kaplan_meier"] == 0.5
    assert (report.n_rows, report.n_events) == (1000, event.sum())
    assert "1000 rows" in repr(report)


def test_without_censoring_it_has_the_usual_scores(world):
    time, dist = np.log(world.time)[:100], world.log_truth[:100]
    report = survival_report(time, dist)
    assert report.table.loc["localized_crps", "model"] == crps_loss(time, dist)
    assert report.table.loc["coverage_low", "model"] == report.table.loc["coverage_high", "model"]


def test_bad_input_is_refused(world):
    with pytest.raises(ValueError, match="all 1000 targets are censored"):
        survival_report(world.y, world.log_truth, event=np.zeros(1000, dtype=bool))
    with pytest.raises(TypeError, match="`upper` must be a number"):
        survival_report(world.y, world.log_truth, event=world.event, upper="late")
