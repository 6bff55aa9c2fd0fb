"""Kompa et al. 2021: coverage and width of seven methods on nine sets.

This script compares our results with tables A1 and A2 of Kompa, Snoek and Beam, "Empirical frequentist
coverage of deep learning uncertainty quantification procedures", Entropy 23(12), 1608, 2021,
doi:10.3390/e23121608. The results are the coverage and the width of 95 % intervals. Widths are in standard
deviations of the training targets.

A random search selects the hyperparameters of each fold. It holds out a fifth of the training rows of the
fold, and compares the errors on these rows. One call of `skuq.neural.fit_many` trains all candidates on all
folds. Another call trains the final networks of all folds.

    python kompa_2021_coverage.py                                # two small sets, two folds: half a minute
    python kompa_2021_coverage.py --sets wine --folds 20 --protocol gal kfold --candidates 50
    python kompa_2021_coverage.py --full --out kompa_2021.json  # hours; can be interrupted and resumed

The data are in a folder ``gal``, in the folder given by --data or by the environment variable SKUQ_DATA.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import KFold, ShuffleSplit

from skuq import predict_dist
from skuq.distributions import Normal
from skuq.metrics import mean_interval_width, prediction_interval_coverage
from skuq.neural import DeepEnsembleRegressor, MCDropoutRegressor, VariationalRegressor, fit_many
from skuq.regressors import LeastSquaresRegressor, SparseGaussianProcessRegressor

PAPER = pd.read_csv(
    Path(__file__).with_name("kompa_2021_coverage_reference.csv"), index_col=["set", "method"]
)
SETS = ("yacht", "boston", "energy", "concrete", "wine", "power", "kin8nm", "naval", "protein")
COVERAGE, MOST_FOLDS = 0.95, 20


# ------------------------------------------------------------------------------------------ the methods


@dataclass(frozen=True)
class Candidate:
    """Candidate of the search space of table A7."""

    dropout: float
    hidden: tuple[int, ...]
    learning_rate: float

    @classmethod
    def draw(cls, count: int) -> list["Candidate"]:
        """Return the first ``count`` candidates, the same for all folds, so that all folds train together."""
        rng, drawn = np.random.default_rng(2), []
        for _ in range(count):
            rate, layers, width = rng.uniform(0, 0.5), rng.integers(1, 4), rng.choice([16, 32, 48, 64])
            drawn.append(cls(float(rate), (int(width),) * int(layers), float(10 ** rng.uniform(-4, -1))))
        return drawn


def network(method: str, candidate: Candidate, seed: int, *, final: bool) -> Any:
    """Return the paper's network without calibration; the search of an ensemble trains one member."""
    settings = {
        "hidden_layer_sizes": candidate.hidden,
        "learning_rate": candidate.learning_rate,
        "net_params": {"lr_schedule": "constant"},
        "batch_size": 32,
        "max_epochs": 50,
        "calibration": None,
        "random_state": seed,
    }
    last = method.startswith("LL")
    if method == "ensemble":
        mean_only = {"loss": "squared_error", "bootstrap": False, "keep_best": False, "output": "members"}
        return DeepEnsembleRegressor(40 if final else 1, **{**PLAIN, **mean_only, **settings})
    if method.endswith("dropout"):
        return MCDropoutRegressor(
            dropout=candidate.dropout, last_layer=last, output="members", n_draws=200, **settings
        )
    return VariationalRegressor(last_layer=last, n_draws=200, **settings)


PLAIN = {
    "n_frequencies": 0,
    "input_scale": False,
    "activation": "relu",
    "learning_rate": 3e-3,
    "batch_size": 32,
}
"""Settings of the ensembles in the documentation: plain layers, an earlier default."""

FIXED: dict[str, Callable[[int], Any]] = {
    "linear regression": lambda seed: LeastSquaresRegressor(),
    "sparse GP": lambda seed: SparseGaussianProcessRegressor(
        n_inducing_points=10, ard=False, random_state=seed
    ),
    "skuq, plain layers": lambda seed: DeepEnsembleRegressor(coverage=COVERAGE, **PLAIN, random_state=seed),
    "skuq default": lambda seed: DeepEnsembleRegressor(coverage=COVERAGE, random_state=seed),
}
SEARCHED = ("ensemble", "dropout", "LL dropout", "SVI", "LL SVI")
METHODS = ("linear regression", "sparse GP", *SEARCHED, "skuq, plain layers", "skuq default")


# --------------------------------------------------------------------------------- the data and the folds


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target of one of Gal's sets."""
    frame = pd.read_csv(folder / "gal" / f"gal_{name}.csv.gz")
    return frame.iloc[:, :-1].to_numpy(dtype=float), frame.iloc[:, -1].to_numpy(dtype=float)


def split(name: str, protocol: str, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows: Gal's splits, cross-validation, or test sets of a random fifth."""
    if protocol == "kfold":
        return list(KFold(MOST_FOLDS, shuffle=True, random_state=0).split(np.empty(n)))
    if protocol == "fifth":
        return list(ShuffleSplit(MOST_FOLDS, test_size=0.2, random_state=0).split(np.empty(n)))
    rng, n_train = np.random.RandomState(1), round(0.9 * n)  # these are the published splits
    orders = [rng.choice(n, n, replace=False) for _ in range(5 if name == "protein" else MOST_FOLDS)]
    return [(order[:n_train], order[n_train:]) for order in orders]


# ------------------------------------------------------------------------------------------- one method


def choose(method: str, candidates: list[Candidate], X: Any, y: Any, rows: dict[int, Any]) -> dict[int, int]:
    """Return, for each fold, the index of the candidate with the smallest error on held-out rows."""
    orders = {fold: np.random.default_rng(fold).permutation(train) for fold, train in rows.items()}
    parts = {fold: np.split(order, [int(0.8 * len(order))]) for fold, order in orders.items()}
    pairs = list(product(range(len(candidates)), rows))
    models = [network(method, candidates[number], fold, final=False) for number, fold in pairs]
    fitted = fit_many(models, X, y, [parts[fold][0] for _, fold in pairs])
    errors = pd.Series(index=pd.MultiIndex.from_tuples(pairs), dtype=float)
    for (number, fold), model in zip(pairs, fitted, strict=True):
        held_out = parts[fold][1]
        errors[number, fold] = root_mean_squared_error(y[held_out], model.predict(X[held_out]))
    return {fold: int(errors.xs(fold, level=1).idxmin()) for fold in rows}


def measure(
    method: str, candidates: list[Candidate], X: Any, y: Any, folds: dict[int, Any]
) -> dict[str, Any]:
    """Return the coverage and width of the method in each fold; folds train together if possible."""
    start = time.perf_counter()
    rows = {fold: train for fold, (train, _) in folds.items()}
    chosen: dict[int, int] = {}
    if method in FIXED:
        models = [FIXED[method](fold) for fold in folds]
    else:
        chosen = choose(method, candidates, X, y, rows)
        models = [network(method, candidates[chosen[fold]], fold, final=True) for fold in folds]
    if method in ("linear regression", "sparse GP"):
        fitted = [model.fit(X[train], y[train]) for model, train in zip(models, rows.values(), strict=True)]
    else:
        fitted = fit_many(models, X, y, list(rows.values()))
    results = {}
    for model, (fold, (train, test)) in zip(fitted, folds.items(), strict=True):
        dist = predict_dist(model, X[test])
        if method == "sparse GP":  # the posterior of the paper is normal
            dist = Normal(dist.mean(), dist.std())
        interval, unit = dist.interval(COVERAGE), y[train].std()
        results[str(fold)] = {
            "coverage": prediction_interval_coverage(y[test], interval),
            "width": mean_interval_width(y[test], interval) / unit,
            "rmse": root_mean_squared_error(y[test], dist.mean()) / unit,
            "candidate": chosen.get(fold),
        }
    seconds = (time.perf_counter() - start) / len(folds)
    return {fold: result | {"seconds": seconds} for fold, result in results.items()}


# ------------------------------------------------------------------------------------------- the tables


def summary(results: dict[str, Any], protocol: str, name: str, n_folds: int) -> pd.DataFrame:
    """Return our and the paper's means and standard errors over folds, one row per method."""
    rows: dict[str, dict[str, Any]] = {}
    for method in METHODS:
        done = results["runs"].get(f"{name}/{protocol}/{method}", {})
        folds = [done[str(fold)] for fold in range(n_folds) if str(fold) in done]
        if folds:
            ours, rows[method] = pd.DataFrame(folds), {"folds": len(folds)}
            for column in ("coverage", "width"):
                rows[method][column] = printed(ours[column].mean(), ours[column].sem())
                rows[method][f"{column}, paper"] = paper(name, method, column)
    return pd.DataFrame.from_dict(rows, orient="index")


def printed(mean: float, error: float) -> str:
    """Return a mean and, with several folds, its standard error."""
    return f"{mean:.3f}" if np.isnan(error) else f"{mean:.3f} ({error:.3f})"


def paper(name: str, method: str, column: str) -> str:
    """Return the paper's value, or an empty string if it has none."""
    known = (name, method) in PAPER.index
    return printed(*PAPER.loc[(name, method), [column, f"{column}_se"]]) if known else ""


def rst(results: dict[str, Any], protocols: list[str], name: str, n_folds: int) -> str:
    """Return the table of a data set in reStructuredText, with the number of folds if below 20."""
    table = pd.DataFrame(index=pd.Index(METHODS, name="method"))
    for column in ("coverage", "width"):
        for protocol in protocols:
            ours = summary(results, protocol, name, n_folds).reindex(columns=["folds", column])
            few = ours["folds"].map(lambda folds: f" [{folds}]" if folds < MOST_FOLDS else "")
            table[f"{column}, {protocol}"] = ours[column] + few
        table[f"{column}, paper"] = [paper(name, method, column) for method in METHODS]
    return f".. csv-table:: {name}\n    :header-rows: 1\n\n{indent(table.to_csv(), '    ')}"


# --------------------------------------------------------------------------------------- the command line


def read_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the checked arguments."""
    parser = argparse.ArgumentParser(description="Tables A1 and A2 of Kompa et al. (2021).")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["yacht", "boston"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--protocol", nargs="+", choices=("gal", "kfold", "fifth"), default=["gal"])
    parser.add_argument("--folds", type=int, default=2, help="number of folds to run, at most twenty")
    parser.add_argument("--candidates", type=int, default=3, help="number of candidates of the random search")
    parser.add_argument("--full", action="store_true", help="all sets, folds and protocols, 50 candidates")
    parser.add_argument("--data", type=Path, default=os.environ.get("SKUQ_DATA"))
    parser.add_argument("--out", type=Path, help="JSON file of results; finished runs in it are skipped")
    parser.add_argument("--rst", action="store_true", help="print the tables and run nothing")
    options = parser.parse_args(arguments)
    if options.full:
        options.sets, options.protocol = SETS, ["gal", "kfold"]
        options.folds, options.candidates = MOST_FOLDS, 50
    if not 1 <= options.folds <= MOST_FOLDS:
        parser.error(f"--folds must be between 1 and {MOST_FOLDS}, got {options.folds}.")
    if options.candidates < 1:
        parser.error(f"--candidates must be at least 1, got {options.candidates}.")
    if options.rst and not (options.out and options.out.is_file()):
        parser.error("--rst prints the results in the file --out: pass the JSON file of a run.")
    if not options.rst and not (options.data and (Path(options.data) / "gal").is_dir()):
        parser.error("no data: pass --data, or set SKUQ_DATA to a folder with gal/gal_<set>.csv.gz.")
    return options


def save(results: dict[str, Any], out: Path | None) -> None:
    """Write the results in one step, so that a run can be interrupted at any time."""
    if out:
        partial = out.with_suffix(".partial")
        partial.write_text(json.dumps(results, indent=1))
        partial.replace(out)


def main(arguments: list[str] | None = None) -> None:
    """Run the requested combinations that are not in the file yet, and print the tables."""
    options = read_arguments(arguments)
    results = {"candidates": options.candidates, "runs": {}}
    if options.out and options.out.is_file():
        results = json.loads(options.out.read_text())
    if options.rst:
        for name in options.sets:
            print(rst(results, options.protocol, name, options.folds))
        return
    if results["candidates"] != options.candidates:
        raise SystemExit(
            f"{options.out} is of a run with --candidates {results['candidates']}: use another file."
        )
    candidates = Candidate.draw(options.candidates)
    for protocol, name in product(options.protocol, options.sets):
        X, y = load(options.data, name)
        folds = dict(enumerate(split(name, protocol, len(y))[: options.folds]))
        for method in options.methods:
            done = results["runs"].setdefault(f"{name}/{protocol}/{method}", {})
            missing = {fold: parts for fold, parts in folds.items() if str(fold) not in done}
            if missing:
                done |= measure(method, candidates, X, y, missing)
                save(results, options.out)
        table = summary(results, protocol, name, options.folds)
        print(f"\n{name}, {protocol}, {options.candidates} candidates\n{table.to_string()}", flush=True)


if __name__ == "__main__":
    main()
