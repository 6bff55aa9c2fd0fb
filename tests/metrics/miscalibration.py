"""The study of controlled miscalibration (Wibbeke et al. 2025, section 4.4): data, scenarios, metrics."""

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.metrics import root_mean_squared_error

from skuq.distributions import Normal
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import (
    calibration_score_loss,
    coverage_width_loss,
    crps_loss,
    expected_coverage_probability_error,
    expected_normalized_calibration_error,
    interval_score_loss,
    nll_loss,
    pinball_loss,
    prediction_interval_coverage,
    quantile_calibration_error,
    sharpness,
    uncertainty_calibration_error,
)

SETS = (
    "servo",
    "computer_hardware",
    "energy_efficiency",
    "concrete_compressive_strength",
    "auction_verification",
    "age_prediction",
    "winequality",
    "grid_stability",
)
SCENARIOS = ("lower_std", "lower_pred", "heterogeneous_std", "heterogeneous_both")
TWENTY = np.linspace(0.01, 0.99, 20)
FIFTHS = np.linspace(0, 1, 6)


def folder() -> Path:
    """Return the folder with the data of the paper, or skip the test."""
    place = os.environ.get("SKUQ_DATA")
    if not place or not (Path(place) / "paper001" / "miscalibration_reference.json").is_file():
        pytest.skip("needs real data: set SKUQ_DATA to the folder that holds paper001")
    return Path(place) / "paper001"


def reference() -> dict:
    """Return the published numbers."""
    return json.loads((folder() / "miscalibration_reference.json").read_text())


def scaled_columns(name: str) -> tuple[pd.DataFrame, str]:
    """Return the min-max scaled columns of a set, and which of them is the target."""
    file = reference()["file_of"][name]
    record = json.loads((folder() / f"{file}.json").read_text())
    recipe = record["paper001"]
    frame = pd.read_csv(folder() / f"{file}.csv.gz")[recipe["column_order"]].dropna()
    for column in recipe["label_encode"]:
        frame[column] = np.unique(frame[column], return_inverse=True)[1]
    frame = frame.astype(float)
    return (frame - frame.min()) / (frame.max() - frame.min()), record["target"]


def targets(frame: pd.DataFrame, target: str, seed: int) -> np.ndarray:
    """Return the sorted targets of the rows that an isolation forest does not find odd."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oddness = -IsolationForest(random_state=seed).fit(frame).score_samples(frame)
    scaled = (oddness - oddness.min()) / (oddness.max() - oddness.min())
    return np.sort(frame[target].to_numpy()[scaled <= 0.8])


def forecasts(y: np.ndarray, seed: int) -> dict[str, Normal]:
    """Return the calibrated forecast and the four that are not."""
    rng, span = np.random.RandomState(seed), np.ptp(y)
    noise = rng.normal(0, 0.05 * span, y.size)
    sigma = np.clip(0.05 * span + np.sin(2 * np.pi * y / span) ** 2 + noise, 1e-6, None)
    mu = rng.normal(y, sigma)
    up = np.linspace(0.9, 1.1, y.size)
    return {
        "optimal": Normal(mu, sigma),
        "lower_std": Normal(mu, 0.9 * sigma),
        "lower_pred": Normal(0.9 * mu, sigma),
        "heterogeneous_std": Normal(mu, up * sigma),
        "heterogeneous_both": Normal(up * mu, up[::-1] * sigma),
    }


def study(name: str, seeds: range) -> Iterator[dict[str, dict[str, float]]]:
    """Yield the columns of every scenario, seed by seed."""
    frame, target = scaled_columns(name)
    for seed in seeds:
        y = targets(frame, target, seed)
        yield {scenario: measure(y, dist) for scenario, dist in forecasts(y, seed).items()}


def netcal_pinball(y: np.ndarray, dist: Normal) -> float:
    """Return what netcal calls pinball loss: the distance from the nearest bound of central intervals."""
    losses = []
    for q in np.arange(1, 10) / 10:
        lower, upper = dist.interval(q).T
        nearest = np.minimum(np.abs(y - lower), np.abs(y - upper))
        losses.append(np.mean(np.where((lower <= y) & (y <= upper), 1 - q, q) * nearest))
    return float(np.mean(losses))


def measure(y: np.ndarray, dist: Normal) -> dict[str, float]:
    """Return the fourteen columns of the study, all but one from the public metrics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return {
            "rmse": root_mean_squared_error(y, dist.mean()),
            "sharpness_std": sharpness(y, dist, kind="rms"),
            "nll": nll_loss(y, dist),
            "crps": crps_loss(y, dist),
            "interval": interval_score_loss(y, dist, coverage=TWENTY),
            "pinball": netcal_pinball(y, dist),
            "cal_score": calibration_score_loss(y, dist, levels=FIFTHS, kind="interval", reduction="mean"),
            "ecpe": expected_coverage_probability_error(y, dist, levels=FIFTHS),
            "qce": quantile_calibration_error(y, dist, marginal=True),
            "ence": expected_normalized_calibration_error(y, dist, strategy="uniform"),
            "picp": prediction_interval_coverage(y, dist, coverage=0.95),
            "cwc": coverage_width_loss(y, dist, coverage=0.95),
            "uce": uncertainty_calibration_error(y, dist),
            "check": pinball_loss(y, dist, levels=TWENTY),
        }


def change(before: dict[str, float], after: dict[str, float], column: str) -> str:
    """Return how the study reads a column: a change of more than three percent is worse or improved."""
    if column == "picp":
        percent = 100 * (abs(after[column] - 0.95) - abs(before[column] - 0.95))
    else:
        percent = (
            100 * (after[column] - before[column]) / abs(before[column])
        )  # the log score may be negative
    if abs(percent) <= 3:
        return "unchanged"
    return "worse" if percent > 0 else "improved"
