"""Kompa et al. 2021: coverage and width of seven methods on eight sets.

This script compares our results with tables A1 and A2 of Kompa, Snoek and Beam, "Empirical frequentist
coverage of deep learning uncertainty quantification procedures", Entropy 23(12), 1608, 2021,
doi:10.3390/e23121608. The results are the coverage and the width of 95 % intervals. Widths are in standard
deviations of the training targets.

A random search selects the hyperparameters of each fold. It holds out a fifth of the training rows of the
fold, and compares the errors on these rows. One call of `skuq.neural.fit_many` trains all candidates on all
folds. Another call trains the final networks of all folds.

    python kompa_2021_coverage.py                                # two small sets, two folds: a minute
    python kompa_2021_coverage.py --sets wine --folds 20 --candidates 50
    python kompa_2021_coverage.py --full --out kompa_2021.json  # can be interrupted and resumed

The data are in a folder ``gal``, in the folder given by the environment variable SKUQ_DATA. Linear regression
is evaluated with three protocols of folds, all other methods with the folds of Gal. Protein, the ninth and
largest data set of the paper, would take hours.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import pandas as pd
from scipy.stats import norm
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
COVERAGE, MOST_FOLDS, MOST_CANDIDATES = 0.95, 20, 8
FOLDS = dict.fromkeys(("yacht", "boston", "energy", "concrete", "wine"), 10)
FOLDS |= dict.fromkeys(("power", "kin8nm", "naval"), 5)
"""Folds of each data set in the full run, fewer for sets with many rows."""


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
        settings |= {"loss": "squared_error", "bootstrap": False, "keep_best": False, "output": "members"}
        settings |= {"n_frequencies": 0, "input_scale": False, "activation": "relu"}
        return DeepEnsembleRegressor(40 if final else 1, **settings)
    if method.endswith("dropout"):
        return MCDropoutRegressor(
            dropout=candidate.dropout, last_layer=last, output="members", n_draws=200, **settings
        )
    return VariationalRegressor(last_layer=last, n_draws=200, **settings)


LINEAR = "linear regression"
FIXED: dict[str, Callable[[int], Any]] = {
    LINEAR: lambda seed: LeastSquaresRegressor(),
    "sparse GP": lambda seed: SparseGaussianProcessRegressor(
        n_inducing_points=10, ard=False, random_state=seed
    ),
    "skuq": lambda seed: DeepEnsembleRegressor(coverage=COVERAGE, random_state=seed),
}
METHODS = (LINEAR, "sparse GP", "ensemble", "dropout", "LL dropout", "SVI", "LL SVI", "skuq")


# --------------------------------------------------------------------------------- the data and the folds


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target of one of Gal's sets."""
    frame = pd.read_csv(folder / "gal" / f"gal_{name}.csv.gz")
    return frame.iloc[:, :-1].to_numpy(dtype=float), frame.iloc[:, -1].to_numpy(dtype=float)


PROTOCOLS = ("gal", "kfold", "fifth")


def split(protocol: str, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows: Gal's splits, cross-validation, or test sets of a random fifth."""
    if protocol == "kfold":
        return list(KFold(MOST_FOLDS, shuffle=True, random_state=0).split(np.empty(n)))
    if protocol == "fifth":
        return list(ShuffleSplit(MOST_FOLDS, test_size=0.2, random_state=0).split(np.empty(n)))
    rng, n_train = np.random.RandomState(1), round(0.9 * n)  # these are the published splits
    orders = [rng.choice(n, n, replace=False) for _ in range(MOST_FOLDS)]
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
    rows = {fold: train for fold, (train, _) in folds.items()}
    chosen: dict[int, int] = {}
    if method in FIXED:
        models = [FIXED[method](fold) for fold in folds]
    else:
        chosen = choose(method, candidates, X, y, rows)
        models = [network(method, candidates[chosen[fold]], fold, final=True) for fold in folds]
    if method in (LINEAR, "sparse GP"):
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
    return results


# ------------------------------------------------------------------------------------------- the tables

Runs = dict[str, dict[str, dict[str, Any]]]


def frames(runs: Runs, protocol: str) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the results of the folds by data set and method."""
    keys = {tuple(key.split("/")): key for key in runs}
    return {(key[0], key[2]): pd.DataFrame(runs[keys[key]].values()) for key in keys if key[1] == protocol}


def coverage_table(runs: Runs) -> pd.DataFrame:
    """Return our and the paper's means and standard errors over folds."""
    rows = {}
    for key, folds in frames(runs, "gal").items():
        rows[key] = {"folds": len(folds)}
        for column in ("coverage", "width"):
            rows[key][column] = printed(folds[column].mean(), folds[column].sem())
            theirs = printed(*PAPER.loc[key, [column, f"{column}_se"]]) if key in PAPER.index else ""
            rows[key][f"{column}, paper"] = theirs
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["set", "method"])


def printed(mean: float, error: float) -> str:
    """Return a mean and, with several folds, its standard error."""
    return f"{mean:.3f}" if np.isnan(error) else f"{mean:.3f} ({error:.3f})"


def noise_table(runs: Runs) -> pd.DataFrame:
    """Return the coverage of ensembles, and the coverage if spread and errors of the mean were normal.

    The spread is the standard deviation of a normal distribution whose interval has the mean width.
    """
    rows, z = {}, norm.ppf((1 + COVERAGE) / 2)
    for (name, method), folds in frames(runs, "gal").items():
        if method == "ensemble":
            ratio = folds["width"].mean() / (2 * z) / folds["rmse"].mean()
            formula = 2 * norm.cdf(z * ratio) - 1
            measured, paper = folds["coverage"].mean(), PAPER.loc[(name, method), "coverage"]
            rows[name] = {"s / e": ratio, "formula": formula, "measured": measured, "paper": paper}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("set")


def protocol_table(runs: Runs) -> pd.DataFrame:
    """Return the standard errors of linear regression relative to the paper's, as means over data sets."""
    rows = {}
    for protocol in PROTOCOLS:
        errors = {key: folds[["coverage", "width"]].sem() for key, folds in frames(runs, protocol).items()}
        mine = pd.DataFrame({key: each for key, each in errors.items() if key[1] == LINEAR}).T
        ratio = mine / PAPER.loc[mine.index, ["coverage_se", "width_se"]].to_numpy()
        rows[protocol] = np.exp(np.log(ratio).mean())
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("protocol")


# --------------------------------------------------------------------------------------- the command line


def save(results: dict[str, Any], out: Path | None) -> None:
    """Write the results in one step, so that a run can be interrupted at any time."""
    if out:
        partial = out.with_suffix(".partial")
        partial.write_text(json.dumps(results, indent=1))
        partial.replace(out)


def main(arguments: list[str] | None = None) -> None:
    """Run the requested combinations that are not in the file yet, and show the tables."""
    parser = measuring.arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(FOLDS), default=["yacht", "boston"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--folds", type=int, default=2, help="number of folds to run, at most twenty")
    parser.add_argument("--candidates", type=int, default=3, help="number of candidates of the random search")
    parser.add_argument("--full", action="store_true", help="all sets and folds, and eight candidates")
    parser.add_argument("--out", type=Path, help="JSON file of results; finished runs in it are skipped")
    options = parser.parse_args(arguments)
    if options.full:
        options.sets, options.folds, options.candidates = list(FOLDS), MOST_FOLDS, MOST_CANDIDATES
    if not 1 <= options.folds <= MOST_FOLDS:
        parser.error(f"--folds must be between 1 and {MOST_FOLDS}, got {options.folds}.")
    if options.candidates < 1:
        parser.error(f"--candidates must be at least 1, got {options.candidates}.")
    results: dict[str, Any] = {"candidates": options.candidates, "runs": {}}
    if options.out and options.out.is_file():
        results = json.loads(options.out.read_text())
    if results["candidates"] != options.candidates:
        raise SystemExit(
            f"{options.out} is of a run with --candidates {results['candidates']}: use another file."
        )
    candidates = Candidate.draw(options.candidates)
    for name in options.sets:
        X, y = load(measuring.data_folder(), name)
        for method, protocol in product(options.methods, PROTOCOLS):
            if protocol != "gal" and method != LINEAR:
                continue
            n_folds = options.folds if method == LINEAR else min(options.folds, FOLDS[name])
            folds = dict(enumerate(split(protocol, len(y))[:n_folds]))
            done = results["runs"].setdefault(f"{name}/{protocol}/{method}", {})
            missing = {fold: parts for fold, parts in folds.items() if str(fold) not in done}
            if missing:
                done |= measure(method, candidates, X, y, missing)
                save(results, options.out)
    measuring.show("kompa_2021_coverage", coverage_table(results["runs"]))
    if "ensemble" in options.methods:
        measuring.show("kompa_2021_coverage-noise", noise_table(results["runs"]), 2)
    if LINEAR in options.methods and options.folds == MOST_FOLDS:
        measuring.show("kompa_2021_coverage-protocols", protocol_table(results["runs"]), 2)


if __name__ == "__main__":
    main()
