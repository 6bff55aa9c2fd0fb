"""Wibbeke et al. 2025: data and metrics.

The scripts ``wibbeke_2025_*.py`` import this module. The data are prepared as in the paper. `as_published`
computes the metrics in the same way as the code of Wibbeke et al. (2025). `by_equations` computes them with
the equations in the paper. The differences:

- Pinball: the code uses a function of netcal that computes the distance from the nearest bound of central
  intervals, which is not the pinball loss.
- QCE: the code uses no bins, so its QCE is the ECPE at other levels. The equation has ten bins.
- CalS and ECPE: the code has six levels, and two of them are 0 and 1, which have no error.
- ENCE: the code has bins of equal width. The paper that defines the metric has bins of equal count.
"""

import json
import warnings
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest
from sklearn.metrics import root_mean_squared_error

from skuq.distributions import Distribution
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

FULL = (
    "forest_fires",
    "facebook_metrics",
    "computer_hardware",
    "abalone",
    "wine_quality",
    "airfoil_self_noise",
    "grid_stability",
    "servo",
    "concrete_strength",
    "combined_cycle_power_plant",
    "parkinsons_telemonitoring",
    "auction_verification",
    "energy_efficiency",
    "nhanes_age",
)  # in the order of the paper's table 2
LARGE = ("steel_industry",)
NUMBERS = dict(zip((*FULL[:9], *LARGE, *FULL[9:]), (*range(1, 7), *range(8, 17)), strict=True))
"""Numbers of the sets in the paper's table 2."""

GROUPS = {
    "group 1": ("RMSE", "Sharpness", "NLL", "CRPS", "IS", "Pinball"),
    "group 2": ("CalS", "ECPE", "QCE"),
    "the rest": ("PICP", "CWC", "ENCE", "UCE"),
}
METRICS = tuple(name for names in GROUPS.values() for name in names)
NOMINAL = 0.95
DIRECTIONS = {name: NOMINAL if name == "PICP" else "lower" for name in METRICS}
THRESHOLD = 3.0
"""Change in percent beyond which the paper counts a metric as better or worse."""

TWENTY, FIFTHS = np.linspace(0.01, 0.99, 20), np.linspace(0, 1, 6)


# -------------------------------------------------------------------------------------------------- the data


@dataclass(frozen=True)
class Split:
    """Features and target of one set after the paper's preprocessing, with training and test rows."""

    X: np.ndarray
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray


def prepare(folder: Path, name: str, seed: int = 0) -> Split:
    """Return one set without outliers, with all columns and the target scaled to [0, 1], split 70 to 30."""
    return split_rows(*read_scaled(folder, name), seed)


def read_scaled(folder: Path, name: str) -> tuple[pd.DataFrame, str]:
    """Return the complete rows of one set with all columns scaled to [0, 1], and the name of the target."""
    record = json.loads((folder / f"{name}.json").read_text())
    recipe = record["paper001"]
    frame = pd.read_csv(folder / f"{name}.csv.gz")[recipe["column_order"]].dropna()
    for column in recipe["label_encode"]:
        frame[column] = np.unique(frame[column], return_inverse=True)[1]
    return scale_to_unit(frame), record["target"]


def scale_to_unit(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.astype(float)
    return (frame - frame.min()) / (frame.max() - frame.min())


def without_outliers(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the rows that the isolation forest of the paper keeps."""
    with warnings.catch_warnings(action="ignore"):  # scikit-learn warns of feature names
        scores = -IsolationForest(random_state=seed).fit(frame).score_samples(frame)
    return frame[(scores - scores.min()) / (scores.max() - scores.min()) <= 0.8]


def split_rows(frame: pd.DataFrame, target: str, seed: int = 0) -> Split:
    """Return the rows without outliers, split 70 to 30."""
    shuffled = without_outliers(frame, seed).sample(frac=1, random_state=seed)
    n_train = int(0.7 * len(shuffled))
    X, y = shuffled.drop(columns=target).to_numpy(), shuffled[target].to_numpy()
    rows = np.arange(len(y))
    return Split(X, y, rows[:n_train], rows[n_train:])


# ----------------------------------------------------------------------------------------------- the metrics


def as_published(y: np.ndarray, dist: Distribution, span: float | str = "range") -> dict[str, float]:
    """Return the metrics with the levels and bins of the published code; `span` is the unit of CWC."""
    with warnings.catch_warnings(action="ignore", category=SmallSampleWarning):  # some sets are small
        return {
            **_shared(y, dist, span),
            "Pinball": netcal_pinball(y, dist),
            "CalS": calibration_score_loss(y, dist, levels=FIFTHS, kind="interval", reduction="mean"),
            "ECPE": expected_coverage_probability_error(y, dist, levels=FIFTHS),
            "QCE": quantile_calibration_error(y, dist, marginal=True),
            "ENCE": expected_normalized_calibration_error(y, dist, strategy="uniform"),
        }


def by_equations(y: np.ndarray, dist: Distribution, span: float | str = "range") -> dict[str, float]:
    """Return the metrics from the paper's equations, with the defaults of skuq."""
    with warnings.catch_warnings(action="ignore", category=SmallSampleWarning):
        return {
            **_shared(y, dist, span),
            "Pinball": pinball_loss(y, dist, levels=TWENTY),
            "CalS": calibration_score_loss(y, dist),
            "ECPE": expected_coverage_probability_error(y, dist),
            "QCE": quantile_calibration_error(y, dist),
            "ENCE": expected_normalized_calibration_error(y, dist),
        }


def _shared(y: np.ndarray, dist: Distribution, span: float | str) -> dict[str, float]:
    return {
        "RMSE": root_mean_squared_error(y, dist.mean()),
        "Sharpness": sharpness(y, dist, kind="rms"),
        "NLL": nll_loss(y, dist),
        "CRPS": crps_loss(y, dist),
        "IS": interval_score_loss(y, dist, coverage=TWENTY),
        "PICP": prediction_interval_coverage(y, dist, coverage=NOMINAL),
        "CWC": coverage_width_loss(y, dist, coverage=NOMINAL, scale=span),
        "UCE": uncertainty_calibration_error(y, dist),
    }


def netcal_pinball(y: np.ndarray, dist: Distribution) -> float:
    """Return the "pinball loss" of netcal: the distance from the nearest bound of central intervals."""
    losses = []
    for q in np.arange(1, 10) / 10:
        lower, upper = dist.interval(q).T
        nearest = np.minimum(np.abs(y - lower), np.abs(y - upper))
        losses.append(np.mean(np.where((lower <= y) & (y <= upper), 1 - q, q) * nearest))
    return float(np.mean(losses))


def change(before: float, after: float, metric: str) -> float:
    """Return the change of a metric in percent, positive if worse.

    For PICP, this is the change in the distance from 0.95, in percentage points. The value before the change
    may be negative, as for the NLL, so the change is relative to its absolute value.
    """
    if metric == "PICP":
        return 100 * (abs(after - NOMINAL) - abs(before - NOMINAL))
    return 100 * (after - before) / abs(before)


def distances(values: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics with the distance of PICP from 0.95."""
    return values.assign(PICP=(values["PICP"] - NOMINAL).abs())


def group_means(tau: pd.DataFrame) -> dict[str, float]:
    """Return the mean tau of pairs of metrics within each group and between groups."""
    made = {}
    for name, names in GROUPS.items():
        made[f"within {name}"] = np.mean([tau.loc[pair] for pair in combinations(names, 2)])
    for one, other in combinations(GROUPS, 2):
        pairs = product(GROUPS[one], GROUPS[other])
        made[f"{one} with {other}"] = np.mean([tau.loc[pair] for pair in pairs])
    return made


def reading(percent: float) -> str:
    """Return the reading of a change by the paper's rule."""
    return "unchanged" if abs(percent) <= THRESHOLD else "worse" if percent > 0 else "improved"
