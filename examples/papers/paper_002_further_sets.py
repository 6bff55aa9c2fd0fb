"""
The default ensemble on sets that its recipe was not made on
============================================================

`DeepEnsembleRegressor` has one recipe for all data. It was settled on the nine sets of paper 002, so here it
is on others, untouched: sets of paper 001, by splits made as those of paper 002. How often do its intervals
hold, at several coverages, and how wide are those of 95 %, in standard deviations of the training targets?

    python paper_002_further_sets.py                              # three sets, one split: half a minute
    python paper_002_further_sets.py --full --out further.json    # all sets, twenty splits: half an hour

The data are in a folder ``paper001`` of the folder that --data, or the environment variable SKUQ_DATA, names.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd

from skuq.metrics import crps_loss, mean_interval_width, prediction_interval_coverage
from skuq.neural import DeepEnsembleRegressor

SETS = ("airfoil_self_noise", "abalone", "parkinsons_telemonitoring")
OTHERS = (
    "servo",
    "computer_hardware",
    "forest_fires",
    "facebook_metrics",
    "superconductivity_500",
    "auction_verification",
    "nhanes_age",
    "grid_stability",
)
COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99)


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features, categories by number, and target."""
    target = json.loads((folder / "paper001" / f"{name}.json").read_text())["target"]
    frame = pd.read_csv(folder / "paper001" / f"{name}.csv.gz", keep_default_na=False)
    y = frame.pop(target).to_numpy(dtype=float)
    for column in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = pd.factorize(frame[column], sort=True)[0]
    return frame.to_numpy(dtype=float), y


def measure(X: np.ndarray, y: np.ndarray, n_splits: int) -> list[dict[str, float]]:
    """Return, split by split, coverages, the width of 95 % and the CRPS."""
    rng, n_train, rows = np.random.RandomState(1), round(0.9 * len(y)), []
    for seed in range(n_splits):
        order = rng.choice(len(y), len(y), replace=False)
        train, test = order[:n_train], order[n_train:]
        dist = DeepEnsembleRegressor(random_state=seed).fit(X[train], y[train]).predict_dist(X[test])
        row = {f"{p:.0%}": prediction_interval_coverage(y[test], dist.interval(p)) for p in COVERAGES}
        unit = y[train].std()
        row["width"] = mean_interval_width(y[test], dist.interval(0.95)) / unit
        rows.append(row | {"CRPS": crps_loss(y[test], dist) / unit})
    return rows


def table(results: dict[str, list[dict[str, float]]]) -> pd.DataFrame:
    """Return means over splits, and the standard error of the coverage of 95 %, a row a set."""
    frames = {name: pd.DataFrame(rows) for name, rows in results.items()}
    means = pd.DataFrame({name: frame.mean() for name, frame in frames.items()}).T
    means.insert(4, "error", [frame["95%"].sem() for frame in frames.values()])
    means.insert(0, "splits", [len(frame) for frame in frames.values()])
    return means.round(3)


def rst(summary: pd.DataFrame) -> str:
    """Return the table for the documentation."""
    lines = [".. list-table::", "    :header-rows: 1", "", "    * - set"]
    lines += [f"      - {column}" for column in summary.columns]
    for name, row in summary.iterrows():
        lines += [f"    * - {name}", f"      - {int(row['splits'])}"]
        lines += [f"      - {value:.3f}" for value in row.iloc[1:]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Run what is asked for and not done yet, and print the table."""
    parser = argparse.ArgumentParser(description="The default ensemble on sets it was not made on.")
    parser.add_argument("--sets", nargs="+", choices=SETS + OTHERS, default=list(SETS))
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="all sets, twenty splits")
    parser.add_argument("--data", type=Path, default=os.environ.get("SKUQ_DATA"))
    parser.add_argument("--out", type=Path, help="JSON file for the results; what it holds is not run again")
    parser.add_argument("--rst", action="store_true", help="print the table as the documentation has it")
    asked = parser.parse_args(arguments)
    if asked.full:
        asked.sets, asked.splits = list(SETS + OTHERS), 20
    if asked.splits < 1:
        parser.error(f"--splits must be at least 1, got {asked.splits}.")
    if not (asked.data and (Path(asked.data) / "paper001").is_dir()):
        parser.error("no data: name by --data, or SKUQ_DATA, a folder with paper001/<set>.csv.gz.")
    results = json.loads(asked.out.read_text()) if asked.out and asked.out.is_file() else {}
    for name in asked.sets:
        if len(results.get(name, ())) < asked.splits:
            results[name] = measure(*load(Path(asked.data), name), asked.splits)
            print(table({name: results[name]}).to_string(), flush=True)
            if asked.out:
                asked.out.write_text(json.dumps(results, indent=1))
    summary = table({name: results[name] for name in asked.sets})
    print(rst(summary) if asked.rst else f"\n{summary.to_string()}")


if __name__ == "__main__":
    main()
