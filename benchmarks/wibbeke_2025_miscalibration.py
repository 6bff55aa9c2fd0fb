"""Wibbeke et al. 2025: controlled miscalibration.

This script reproduces section 4.4 of Wibbeke, Schönfisch, Rohjans and Rauh, "Evaluating the quality of the
quantified uncertainty for (re)calibration of data-driven regression models", 2025, arXiv:2508.17761 (figures
5 and 6), and repeats it with correct forecasts. No model is trained.

**As published**, a forecast is N(mu, sigma), where mu is drawn from N(y, sigma) and y is a target of a real
data set. Such forecasts have calibrated levels, but they are not the distribution of y given mu: mu varies
more than y. A smaller mu is therefore a better forecast.

**As it should be**, mu is a target of the data set, and y is drawn from N(mu, sigma). N(mu, sigma) is then
the distribution of y, and no other forecast has a better expected proper score. A fifth scenario has one
normal distribution for all rows, with the mean and the standard deviation of y.

Each scenario changes the forecasts. The paper counts a metric as worse if it increases by more than 3 %. For
the correct forecasts, this script also applies a test at a level of 5 %. The test of CRPS and NLL uses the
mean difference from the correct forecast over rows. The test of all other metrics uses the 95 % quantile of
their values for the correct forecasts of all seeds, which a calibrated forecast exceeds in 5 % of the seeds.

    python wibbeke_2025_miscalibration.py         # three small sets, 5 seeds: seconds
    python wibbeke_2025_miscalibration.py --full  # fifteen sets, 100 seeds

The data are in a folder ``paper001``, in the folder given by the environment variable SKUQ_DATA. The seventh
set of the paper, superconductivity, is not included.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from measuring import arguments, data_folder, show
from wibbeke_2025_shared import (
    FULL,
    LARGE,
    METRICS,
    as_published,
    by_equations,
    change,
    distances,
    read_scaled,
    reading,
    without_outliers,
)

from skuq.distributions import Normal

SMALL = ("servo", "computer_hardware", "energy_efficiency")
SEEDS, QUICK_SEEDS = 100, 5
PERTURBED = ("lower_std", "heterogeneous_std", "lower_pred", "heterogeneous_both")
CONSTANT = "constant"
KEYS = ["set", "design", "scenario", "reading"]
LEVEL, NORMAL_95 = 0.05, 1.6448536269514722

Panel = Callable[[np.ndarray, Normal], dict[str, float]]


# ------------------------------------------------------------------------------------------------ forecasts


def uncertainty(location: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Return the standard deviations of equations 25 to 27."""
    span = np.ptp(location)
    noise = rng.normal(0, 0.05 * span, location.size)
    return np.clip(0.05 * span + np.sin(2 * np.pi * location / span) ** 2 + noise, 1e-6, None)


def scenarios(mu: np.ndarray, sigma: np.ndarray) -> dict[str, Normal]:
    """Return the unchanged forecasts and the four scenarios, for rows in the order of the data's targets."""
    up = np.linspace(0.9, 1.1, mu.size)
    return {
        "optimal": Normal(mu, sigma),
        "lower_std": Normal(mu, 0.9 * sigma),
        "heterogeneous_std": Normal(mu, up * sigma),
        "lower_pred": Normal(0.9 * mu, sigma),
        "heterogeneous_both": Normal(up * mu, up[::-1] * sigma),
    }


def published_design(target: np.ndarray, seed: int) -> tuple[np.ndarray, dict[str, Normal]]:
    """Return y and forecasts drawn around y (equation 28)."""
    rng = np.random.RandomState(seed)
    sigma = uncertainty(target, rng)
    return target, scenarios(rng.normal(target, sigma), sigma)


def correct_design(target: np.ndarray, seed: int) -> tuple[np.ndarray, dict[str, Normal]]:
    """Return y drawn from the forecasts, with the forecast that is the same for all rows."""
    rng = np.random.RandomState(seed)
    sigma = uncertainty(target, rng)
    y = rng.normal(target, sigma)
    same = Normal(np.full(y.size, y.mean()), np.full(y.size, y.std()))
    return y, {**scenarios(target, sigma), CONSTANT: same}


DESIGNS: dict[str, tuple[Callable, Panel]] = {
    "as published": (published_design, as_published),
    "as it should be": (correct_design, by_equations),
}


def slope(target: np.ndarray, seed: int = 0) -> float:
    """Return the slope of y on mu in the published design; it is 1 for a correct forecast."""
    y, made = published_design(target, seed)
    return float(np.polyfit(made["optimal"].mean(), y, 1)[0])


# -------------------------------------------------------------------------------------------------- studies


def run(folder: Path, name: str, seeds: range) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the metrics and the paired statistics of one set, one row per design, seed and scenario."""
    frame, target = read_scaled(folder, name)
    values, paired = {}, {}
    for seed in seeds:
        kept = np.sort(without_outliers(frame, seed)[target].to_numpy())
        for design, (make, panel) in DESIGNS.items():
            y, made = make(kept, seed)
            scores = {}
            for scenario, dist in made.items():
                values[design, seed, scenario] = panel(y, dist)
                scores[scenario] = {"CRPS": dist.crps(y), "NLL": -dist.logpdf(y)}
                paired[design, seed, scenario] = {
                    metric: paired_statistic(rows - scores["optimal"][metric])
                    for metric, rows in scores[scenario].items()
                }
    names = ["design", "seed", "scenario"]
    return tuple(  # type: ignore[return-value]
        pd.DataFrame.from_dict(each, orient="index").rename_axis(names) for each in (values, paired)
    )


def paired_statistic(difference: np.ndarray) -> float:
    """Return the mean difference divided by its standard error, or 0 if there are no differences."""
    error = difference.std(ddof=1) / np.sqrt(difference.size)
    return float(difference.mean() / error) if error > 0 else 0.0


def count(values: pd.DataFrame, paired: pd.DataFrame) -> pd.DataFrame:
    """Return the share of seeds for each design, scenario and reading."""
    shares = {}
    for design in DESIGNS:
        part = values.loc[design]
        before = part.xs("optimal", level="scenario")
        limit = distances(before).quantile(1 - LEVEL)
        for scenario in part.index.unique("scenario").drop("optimal"):
            after = part.xs(scenario, level="scenario")
            readings = pd.DataFrame(
                {
                    metric: [
                        reading(change(*pair, metric))
                        for pair in zip(before[metric], after[metric], strict=True)
                    ]
                    for metric in METRICS
                }
            )
            for each in ("worse", "improved"):
                shares[design, scenario, each] = (readings == each).mean()
            if design != "as published":
                found = distances(after) > limit
                tests = paired.xs((design, scenario), level=("design", "scenario")) > NORMAL_95
                shares[design, scenario, "detected"] = found.assign(**tests).mean()
    return pd.DataFrame.from_dict(shares, orient="index").rename_axis(KEYS[1:])


def first_changes(values: pd.DataFrame) -> pd.DataFrame:
    """Return the changes with seed 0 in percent, as in figure 5."""
    first = values.xs(0, level="seed")
    made = {
        (design, scenario, "change"): {
            metric: change(first.loc[(design, "optimal"), metric], row[metric], metric) for metric in METRICS
        }
        for (design, scenario), row in first.iterrows()
        if scenario != "optimal"
    }
    return pd.DataFrame.from_dict(made, orient="index").rename_axis(KEYS[1:])


def study(folder: Path, names: tuple[str, ...], seeds: int) -> pd.DataFrame:
    """Return the shares and the changes of all sets."""
    parts = {}
    for name in names:
        values, paired = run(folder, name, range(seeds))
        parts[name] = pd.concat([count(values, paired), first_changes(values).round(3)])
    return pd.concat(parts, names=["set"])


def main(given: list[str] | None = None) -> pd.DataFrame:
    """Run the study, and show all shares."""
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help=f"fifteen sets, {SEEDS} seeds")
    parser.add_argument("--sets", nargs="+", help="names of data files")
    options = parser.parse_args(given)
    folder = data_folder() / "paper001"
    names = tuple(options.sets or ((*FULL, *LARGE) if options.full else SMALL))
    table = study(folder, names, SEEDS if options.full else QUICK_SEEDS)
    show("wibbeke_2025_miscalibration", table.map("{:.6g}".format))
    return table


if __name__ == "__main__":
    main()
