"""Compare skuq with published results, on the rows and splits of the publications.

`python benchmarks/published.py` runs 5 of the published splits of EasyUQ's nine data sets, and six data sets
of Izbicki and Rodrigues (2026). ``--full`` runs all 20 splits of EasyUQ. Each result is appended to a file.
Results in the file are not computed again, so you can stop the script and continue later. Delete results of
an earlier version of skuq first. ``--summary`` only prints the tables. `make tables` writes the tables of the
documentation. Without the folder in ``SKUQ_DATA``, the data are downloaded.

``published_reference.csv`` contains the published results. These are the CRPS of each split from the
repository of EasyUQ (evwalz/easyuq, commits 52c6b34 and f495aab), and the scores of one split, before
recalibration, from the repository of Izbicki and Rodrigues (rizbicki/tabDensityComparisons, commit 956a2b7).
"best GLM" is the best of their twelve linear families.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from measuring import arguments, show
from real_data import outside_of_the_band
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skuq import predict_dist
from skuq.datasets import fetch_gal, fetch_uci
from skuq.distributions import Distribution
from skuq.exceptions import NoDensityError
from skuq.metrics import mean_interval_width, nll_loss, prediction_interval_coverage
from skuq.regressors import MixtureRegressor, default_estimators

REFERENCE = Path(__file__).with_name("published_reference.csv")
KEYS = ["table", "set", "n", "split", "model"]
POOL, FAST_POOL = "pool", "fast pool"
"""Models that the tables compare with the published results."""

EASYUQ = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")
SPLITS, ALL_SPLITS = 5, 20
"""Numbers of splits of EasyUQ without and with ``--full``; the protein data have only 5."""

FOUNDATION_MODELS = ("TabPFN-2.5", "RealTabPFN-2.5", "TabICLv2")
SIZES = (500, 1000, 5000)
SEED_OF_ROWS, TEST_SHARE = 42, 0.25
GRID_POINTS, GRID_MARGIN = 200, 0.05
"""Grid of the published CRPS: number of points, and margin relative to the range of the training targets."""


class Case(NamedTuple):
    """Rows of a publication: the table, the data set, the number of rows and the split."""

    table: str
    set: str
    n: int
    split: int


class Rows(NamedTuple):
    """Features and targets of the training rows and the test rows."""

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray


# -------------------------------------------------------------------------------------------------- data


def white_wine() -> tuple[pd.DataFrame, pd.Series]:
    X, y = fetch_uci("wine_quality", return_X_y=True)
    white = X.pop("color") == "white"
    return X[white], y[white]


def grid_stability() -> tuple[pd.DataFrame, pd.Series]:
    """Return the grid stability data without the class, which is the sign of the target."""
    X, y = fetch_uci("grid_stability", return_X_y=True)
    return X.drop(columns="stabf"), y


FOUNDATION: dict[str, Callable[..., Any]] = {
    "abalone": lambda: fetch_uci("abalone", return_X_y=True),
    "white_wine": white_wine,
    "protein": lambda: fetch_gal("protein", return_X_y=True),
    "kin8nm": lambda: fetch_gal("kin8nm", return_X_y=True),
    "grid_stability": grid_stability,
    "naval": lambda: fetch_gal("naval", return_X_y=True),
}


def easyuq_rows(case: Case) -> Rows:
    """Return a published split of a data set, without preprocessing."""
    data = fetch_gal(case.set)
    train, test = data.splits[case.split]
    X, y = data.data, data.target.to_numpy()
    return Rows(X.iloc[train], y[train], X.iloc[test], y[test])


def foundation_rows(case: Case) -> Rows:
    """Return the published split of random rows, one-hot encoded and standardized."""
    X, y = FOUNDATION[case.set]()
    order = np.random.RandomState(SEED_OF_ROWS).permutation(len(y))[: case.n]
    X, y = pd.get_dummies(X, dtype=float).iloc[order], y.to_numpy()[order]
    X, X_test, y, y_test = train_test_split(X, y, test_size=TEST_SHARE, random_state=case.split)
    scaler = StandardScaler().set_output(transform="pandas").fit(X)
    return Rows(scaler.transform(X), y, scaler.transform(X_test), y_test)


ROWS = {"easyuq": easyuq_rows, "foundation": foundation_rows}


@cache
def published() -> pd.DataFrame:
    """Return the published results: one row per table, data set, number of rows, split and method."""
    return pd.read_csv(REFERENCE)


def cases() -> list[Case]:
    """Return all cases with published results, in the order of the tables."""
    known = published()[list(Case._fields)].drop_duplicates()
    order = {"easyuq": EASYUQ, "foundation": list(FOUNDATION)}
    found = [Case(*row) for row in known.itertuples(index=False, name=None)]
    return sorted(found, key=lambda case: (case.table, order[case.table].index(case.set), case.n, case.split))


# ---------------------------------------------------------------------------------------------- results


def selected(tables: list[str], sets: list[str], sizes: list[int], n_splits: int) -> list[Case]:
    """Return the cases of some tables and data sets, for some numbers of rows and some splits."""
    return [
        case
        for case in cases()
        if case.table in tables
        and case.set in sets
        and (case.n in sizes if case.table == "foundation" else case.split < n_splits)
    ]


def models() -> dict[str, Any]:
    """Return the default pool, and the pool without networks."""
    members = default_estimators(effort="low")
    return {POOL: MixtureRegressor(random_state=0), FAST_POOL: MixtureRegressor(members, random_state=0)}


def nll(y: np.ndarray, dist: Distribution) -> float:
    """Return the NLL, or NaN if there is no density."""
    try:
        return nll_loss(y, dist)
    except NoDensityError:
        return np.nan


def grid_crps(y: np.ndarray, dist: Distribution, y_train: np.ndarray) -> float:
    """Return the CRPS as published: the trapezoidal rule on a grid, conditional on the range of the grid."""
    margin = GRID_MARGIN * np.ptp(y_train)
    grid = np.linspace(y_train.min() - margin, y_train.max() + margin, GRID_POINTS)
    cdf = np.column_stack([dist.cdf(point) for point in grid])
    first, last = cdf[:, :1], cdf[:, -1:]
    errors = (cdf - first) / (last - first) - (y[:, np.newaxis] <= grid)
    return float(np.trapezoid(errors**2, grid, axis=1).mean())


def scores(rows: Rows, dist: Distribution) -> dict[str, float]:
    """Return the scores of the forecasts of the test rows."""
    y, crps = rows.y_test, dist.crps(rows.y_test)
    half, most = dist.interval(0.5), dist.interval(0.9)
    return {
        "n_train": len(rows.y),
        "n_test": len(y),
        "crps": float(crps.mean()),
        "crps_se": float(crps.std(ddof=1) / np.sqrt(len(y))),
        "crps_grid": grid_crps(y, dist, rows.y),
        "nll": nll(y, dist),
        "coverage_50": prediction_interval_coverage(y, half, coverage=0.5),
        "coverage_90": prediction_interval_coverage(y, most),
        "width_90": mean_interval_width(y, most),
        "rmse": root_mean_squared_error(y, dist.mean()),
    }


def evaluate(case: Case, name: str) -> dict[str, Any]:
    """Return the result of one model on the rows of one case, with the processor seconds."""
    rows = ROWS[case.table](case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = models()[name]
        start = time.process_time()
        model.fit(rows.X, rows.y)
        fitted = time.process_time()
        dist = predict_dist(model, rows.X_test)
        end = time.process_time()
        found = scores(rows, dist)
    seconds = {"fit_seconds": fitted - start, "predict_seconds": end - fitted}
    return {**case._asdict(), "model": name, **found, **seconds}


def read(path: Path) -> pd.DataFrame:
    """Return the results in a file, or no results if the file does not exist."""
    return pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=[*KEYS, "crps"])


def missing(chosen: list[Case], names: list[str], path: Path) -> list[tuple[Case, str]]:
    """Return the cases and models without a result in the file."""
    there = set(read(path)[KEYS].itertuples(index=False, name=None))
    return [(case, name) for case in chosen for name in names if (*case, name) not in there]


def run(todo: list[tuple[Case, str]], path: Path, jobs: int) -> Iterator[dict[str, Any]]:
    """Compute results; append each of them to the file, and yield it."""
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    for result in parallel(delayed(evaluate)(case, name) for case, name in todo):
        row = pd.DataFrame([result])
        row.to_csv(path, mode="a", header=not path.is_file(), index=False, float_format="%.6g")
        yield result


# ------------------------------------------------------------------------------------------------ tables


def paired_ratio(ours: pd.Series, theirs: pd.Series) -> tuple[float, float]:
    """Return the ratio of two means over the same splits, and its standard error from the differences."""
    theirs = theirs.loc[ours.index]
    ratio = ours.mean() / theirs.mean()
    error = (ours - ratio * theirs).std() / (np.sqrt(len(ours)) * theirs.mean())
    return ratio, error


def geometric_mean(ratios: pd.Series) -> tuple[float, float]:
    """Return the geometric mean over data sets, and its standard error."""
    logs = np.log(ratios)
    mean = np.exp(logs.mean())
    return mean, mean * logs.std() / np.sqrt(len(logs))


def with_means(table: pd.DataFrame, ratios: tuple[str, ...], by: str | None = None) -> pd.DataFrame:
    """Append geometric means over data sets, with and without naval, for each value of a column."""
    rows = []
    for key, part in [(None, table)] if by is None else table.groupby(by):
        for label, kept in (("all sets", part), ("without naval", part[part["set"] != "naval"])):
            means = {ratio: geometric_mean(kept[ratio].dropna()) for ratio in ratios}
            row = {ratio: mean for ratio, (mean, _) in means.items()}
            row["error"] = means[ratios[0]][1]
            rows.append({"set": f"geometric mean, {label}", **({} if by is None else {by: key}), **row})
    return pd.concat([table, pd.DataFrame(rows)], ignore_index=True)


def easyuq_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the published CRPS and the CRPS of the pool for the data sets of EasyUQ, on the same splits."""
    rows = []
    for name in EASYUQ:
        ours = results[(results["table"] == "easyuq") & (results["set"] == name)]
        pool, fast = (ours[ours["model"] == one].set_index("split") for one in (POOL, FAST_POOL))
        theirs = published().query("table == 'easyuq' and set == @name")
        by_split = theirs.pivot_table(index="split", columns="method", values="crps", sort=False)
        means = by_split.loc[pool.index if len(pool) else by_split.index].mean()
        row = {"set": name, "splits": len(pool) or len(by_split), **means}
        if len(pool):
            covered = (pool["coverage_90"] * pool["n_test"]).round().astype(int)
            row[POOL] = pool["crps"].mean()
            row["ratio"], row["error"] = paired_ratio(pool["crps"], by_split[means.idxmin()])
            row["coverage"] = covered.sum() / pool["n_test"].sum()
            row["band"] = ("below", "inside", "above")[1 + outside_of_the_band(pool.assign(covered=covered))]
            row["fit, s"] = pool["fit_seconds"].mean()
            row[FAST_POOL] = fast["crps"].mean() / pool["crps"].mean()
            row["fast / fit, s"] = fast["fit_seconds"].mean() / pool["fit_seconds"].mean()
        rows.append(row)
    table = pd.DataFrame(rows)
    return with_means(table, ("ratio", FAST_POOL)) if "ratio" in table else table


def foundation_row(name: str, n: int, pool: pd.DataFrame, fast: pd.DataFrame) -> dict[str, Any]:
    """Return the published scores and the scores of the pool for one data set and number of rows."""
    theirs = published().query("table == 'foundation' and set == @name and n == @n").set_index("method")
    crps = theirs["crps"]
    other = crps.drop(list(FOUNDATION_MODELS)).idxmin()
    tabpfn, tabicl = crps["TabPFN-2.5"], crps["TabICLv2"]
    row = {"set": name, "n": n, "TabPFN-2.5": tabpfn, "TabICLv2": tabicl, "best other": crps[other]}
    row["its name"] = other
    if len(pool):
        (ours,) = pool.to_dict("records")
        row |= {
            POOL: ours["crps"],
            "ratio": ours["crps"] / tabpfn,
            "error": ours["crps_se"] / tabpfn,
            "on the grid": ours["crps_grid"] / tabpfn,
            "to TabICLv2": ours["crps"] / tabicl,
            "to best other": ours["crps"] / crps[other],
            "coverage": ours["coverage_90"],
            "of TabPFN-2.5": theirs.loc["TabPFN-2.5", "coverage_90"],
            FAST_POOL: fast["crps"].mean() / ours["crps"],
        }
    return row


def foundation_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the published CRPS and the CRPS of the pool on the rows of Izbicki and Rodrigues."""
    ours = results[results["table"] == "foundation"]
    rows = []
    for case in cases():
        if case.table == "foundation":
            found = ours[(ours["set"] == case.set) & (ours["n"] == case.n)]
            pools = (found[found["model"] == one] for one in (POOL, FAST_POOL))
            rows.append(foundation_row(case.set, case.n, *pools))
    table = pd.DataFrame(rows)
    ratios = ("ratio", "on the grid", "to TabICLv2", "to best other", FAST_POOL)
    return with_means(table, ratios, by="n") if "ratio" in table else table


TABLES = {"easyuq": easyuq_table, "foundation": foundation_table}
COUNTS = ("n", "splits")
DECIMALS = {
    **dict.fromkeys(("ratio", "error", "on the grid", "to TabICLv2", "to best other"), 3),
    **dict.fromkeys(("coverage", "of TabPFN-2.5"), 3),
    **dict.fromkeys((FAST_POOL, "fast / fit, s"), 2),
    "fit, s": 1,
}


def cell(value: Any, column: str) -> str:
    """Return a number with three significant digits, or with the number of decimals of its column."""
    if isinstance(value, str) or pd.isna(value):
        return value if isinstance(value, str) else ""
    if column in COUNTS:
        return f"{value:.0f}"
    return f"{value:.{DECIMALS[column]}f}" if column in DECIMALS else f"{value:#.3g}"


def texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return the cells as strings, without scores whose ratio is in another column: a page is too narrow."""
    kept = [name for name in table if f"to {name}" not in table]
    return pd.DataFrame({name: [cell(value, name) for value in table[name]] for name in kept})


def main(given: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    names, sets = list(models()), dict.fromkeys(case.set for case in cases())
    parser.add_argument("--full", action="store_true", help="run all published splits of EasyUQ")
    parser.add_argument("--splits", type=int, help=f"number of splits of EasyUQ, {SPLITS} by default")
    parser.add_argument("--tables", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--sets", nargs="+", choices=sets, default=list(sets))
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=int,
        choices=SIZES,
        default=list(SIZES),
        help="numbers of rows of Izbicki and Rodrigues",
    )
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--jobs", type=int, default=1, help="number of results computed at the same time")
    parser.add_argument("--output", type=Path, default=Path("published.csv"), help="file of the results")
    parser.add_argument("--summary", action="store_true", help="only print the tables")
    chosen = parser.parse_args(given)
    n_splits = chosen.splits or (ALL_SPLITS if chosen.full else SPLITS)
    todo = missing(selected(chosen.tables, chosen.sets, chosen.sizes, n_splits), chosen.models, chosen.output)
    for number, result in enumerate([] if chosen.summary else run(todo, chosen.output, chosen.jobs), start=1):
        key = " ".join(str(result[name]) for name in KEYS)
        print(f"{number} of {len(todo)}: {key}, CRPS {result['crps']:#.3g}", flush=True)
    results = read(chosen.output)
    for name, make in TABLES.items():
        show(f"published-{name}", texts(make(results)))


if __name__ == "__main__":
    main()
