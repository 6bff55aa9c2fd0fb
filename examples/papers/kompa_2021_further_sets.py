"""
The default ensemble on data sets not used to choose its defaults
=================================================================

The defaults of `DeepEnsembleRegressor` were chosen on the nine data sets of Kompa et al. (2021). This script
evaluates these defaults, with calibration at 95 %, on data sets of Wibbeke et al. (2025). The random splits
are drawn in the same way. The results are the coverage at several levels, and the width of 95 % intervals in
standard deviations of the training targets.

    python kompa_2021_further_sets.py                              # three sets, one split: half a minute
    python kompa_2021_further_sets.py --full --out further.json    # all sets, twenty splits: half an hour

The data are in a folder ``paper001``, in the folder given by --data or by the environment variable SKUQ_DATA.
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

PLAIN = {
    "n_frequencies": 0,
    "input_scale": False,
    "activation": "relu",
    "learning_rate": 3e-3,
    "batch_size": 32,
}
"""Settings of the ensembles in the documentation: plain layers, an earlier default."""


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features, with categories as numbers, and the target."""
    target = json.loads((folder / "paper001" / f"{name}.json").read_text())["target"]
    frame = pd.read_csv(folder / "paper001" / f"{name}.csv.gz", keep_default_na=False)
    y = frame.pop(target).to_numpy(dtype=float)
    for column in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = pd.factorize(frame[column], sort=True)[0]
    return frame.to_numpy(dtype=float), y


def measure(X: np.ndarray, y: np.ndarray, n_splits: int) -> list[dict[str, float]]:
    """Return, for each split, the coverages, the width of 95 % intervals and the CRPS."""
    rng, n_train, rows = np.random.RandomState(1), round(0.9 * len(y)), []
    for seed in range(n_splits):
        order = rng.choice(len(y), len(y), replace=False)
        train, test = order[:n_train], order[n_train:]
        model = DeepEnsembleRegressor(coverage=0.95, **PLAIN, random_state=seed)
        dist = model.fit(X[train], y[train]).predict_dist(X[test])
        row = {f"{p:.0%}": prediction_interval_coverage(y[test], dist.interval(p)) for p in COVERAGES}
        unit = y[train].std()
        row["width"] = mean_interval_width(y[test], dist.interval(0.95)) / unit
        rows.append(row | {"CRPS": crps_loss(y[test], dist) / unit})
    return rows


def table(results: dict[str, list[dict[str, float]]]) -> pd.DataFrame:
    """Return means over splits and the standard error of the 95 % coverage, one row per data set."""
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
    """Run the requested data sets that are not in the file yet, and print the table."""
    parser = argparse.ArgumentParser(description="The default ensemble on further data sets.")
    parser.add_argument("--sets", nargs="+", choices=SETS + OTHERS, default=list(SETS))
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="all sets, twenty splits")
    parser.add_argument("--data", type=Path, default=os.environ.get("SKUQ_DATA"))
    parser.add_argument("--out", type=Path, help="JSON file of results; finished runs in it are skipped")
    parser.add_argument("--rst", action="store_true", help="print the table for the documentation")
    options = parser.parse_args(arguments)
    if options.full:
        options.sets, options.splits = list(SETS + OTHERS), 20
    if options.splits < 1:
        parser.error(f"--splits must be at least 1, got {options.splits}.")
    if not (options.data and (Path(options.data) / "paper001").is_dir()):
        parser.error("no data: pass --data, or set SKUQ_DATA to a folder with paper001/<set>.csv.gz.")
    results = json.loads(options.out.read_text()) if options.out and options.out.is_file() else {}
    for name in options.sets:
        if len(results.get(name, ())) < options.splits:
            results[name] = measure(*load(Path(options.data), name), options.splits)
            print(table({name: results[name]}).to_string(), flush=True)
            if options.out:
                options.out.write_text(json.dumps(results, indent=1))
    summary = table({name: results[name] for name in options.sets})
    print(rst(summary) if options.rst else f"\n{summary.to_string()}")


if __name__ == "__main__":
    main()
