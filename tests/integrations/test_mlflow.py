"""Reports in the runs of MLflow."""

import numpy as np
import pandas as pd
import pytest

from skuq.displays import CalibrationCurveDisplay
from skuq.distributions import Normal
from skuq.evaluation import uncertainty_report
from skuq.integrations.mlflow import log_report
from skuq.metrics import crps_loss
from tests.integrations.automl import installed

mlflow = installed("mlflow")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(120)]

RNG = np.random.default_rng(0)
Y = RNG.normal(size=100)
DIST = Normal(np.zeros(100), 1.0)


@pytest.fixture(autouse=True)
def _store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")


def report_of(y_pred, n_resamples=0):
    return uncertainty_report(
        Y, y_pred, metrics=["crps", "picp"], n_resamples=n_resamples, n_draws=0, random_state=0
    )


def test_numbers_text_and_figures_of_a_report_are_logged():
    report = report_of(DIST, n_resamples=50)
    display = CalibrationCurveDisplay.from_predictions(Y, DIST)
    with mlflow.start_run() as run:
        log_report(report, figures={"calibration": display, "the_same": display.figure_})
    metrics = mlflow.get_run(run.info.run_id).data.metrics
    assert metrics["crps"] == pytest.approx(crps_loss(Y, DIST))
    assert metrics["crps_low"] == report.loc["crps", "low"] < metrics["crps"] < metrics["crps_high"]
    logged = {one.path for one in mlflow.MlflowClient().list_artifacts(run.info.run_id)}
    assert logged == {"uncertainty_report.txt", "uncertainty_report.csv", "calibration.png", "the_same.png"}
    folder = mlflow.get_run(run.info.run_id).info.artifact_uri
    assert mlflow.artifacts.load_text(f"{folder}/uncertainty_report.txt") == report.to_text()


def test_several_models_are_logged_under_their_names():
    with mlflow.start_run() as run:
        log_report(report_of({"one": DIST, "other": Normal(np.zeros(100), 2.0)}))
    metrics = mlflow.get_run(run.info.run_id).data.metrics
    assert metrics.keys() == {"one/crps", "other/crps", "one/picp", "other/picp"}
    assert metrics["one/crps"] < metrics["other/crps"]


def test_another_table_is_refused():
    with pytest.raises(TypeError, match="`report` must be the result of uncertainty_report, got DataFrame"):
        log_report(pd.DataFrame())
