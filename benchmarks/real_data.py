"""Compare skuq with other packages on 21 real data sets: CRPS, interval score, coverage, fits and time.

`python benchmarks/real_data.py` runs 1 split of each data set with at most 1500 training rows. ``--full``
runs 5 splits with at most 7000 training rows, and ``--rows`` sets another number. Each result is appended to
a file. Results in the file are not computed again, so you can stop the script and continue later. ``--quick``
runs fast methods on two sets. The data are read from the folder in ``SKUQ_DATA``.

skuq was developed on the data sets of ``--sets development``. The data sets of ``--sets confirmation`` were
not used for development. Methods of packages that are not installed are omitted.
"""

from __future__ import annotations

import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
from measuring import arguments, data_folder, missing, show, stored
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import KFold, cross_val_predict

from skuq import UncertaintyRegressor, predict_dist
from skuq.distributions import Distribution, Empirical
from skuq.metrics import crps_loss, interval_score_loss
from skuq.regressors import BootstrapRegressor, MixtureRegressor, ResidualRegressor, default_estimators

DEVELOPMENT = (
    "paper001/abalone",
    "paper001/airfoil_self_noise",
    "paper001/auction_verification",
    "paper001/computer_hardware",
    "paper001/concrete_strength",
    "paper001/facebook_metrics",
    "paper001/grid_stability",
    "paper001/servo",
    "gal/gal_boston",
    "gal/gal_kin8nm",
    "gal/gal_protein",
)
CONFIRMATION = (
    "paper001/combined_cycle_power_plant",
    "paper001/energy_efficiency",
    "paper001/forest_fires",
    "paper001/nhanes_age",
    "paper001/parkinsons_telemonitoring",
    "paper001/steel_industry",
    "paper001/superconductivity_500",  # 500 random rows
    "paper001/wine_quality",
    "gal/gal_naval",
    "gal/gal_yacht",
)
SETS = {"all": DEVELOPMENT + CONFIRMATION, "development": DEVELOPMENT, "confirmation": CONFIRMATION}
NEARLY_EXACT = ("paper001/facebook_metrics", "gal/gal_naval")
"""Sets whose target is nearly a function of the columns. Their ratios dominate geometric means."""
COVERAGE = 0.9
TRAINING_SHARE = 0.7
"""Largest share of the rows of a data set that are training rows."""
MOST_TEST_ROWS = 3000
SCORES = ("crps", "interval_score")
BAND = 0.99
"""Probability with which the coverage of a calibrated method is in the band."""


class Forecast(NamedTuple):
    """Forecast of the test rows: a distribution, or intervals of shape (n, 2)."""

    dist: Distribution | None
    interval: np.ndarray


class Method(NamedTuple):
    """Name of a method, package that it needs, and function that fits it and forecasts."""

    name: str
    package: str
    forecast: Callable[[np.ndarray, np.ndarray, np.ndarray, int], Forecast]
    base: type | None = None
    """Class whose calls of ``fit`` are counted, if the method wraps a model."""


# ------------------------------------------------------------------------------------------------- methods


def by_distribution(make: Callable[[int], Any]) -> Callable[..., Forecast]:
    """Return a function that fits an estimator and forecasts by `predict_dist`."""

    def forecast(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> Forecast:
        dist = predict_dist(make(seed).fit(X, y), X_test)
        return Forecast(dist, dist.interval(COVERAGE))

    return forecast


class Boosting(HistGradientBoostingRegressor):
    """Wrapped model; a separate class, so that other boosting models inside a method are not counted."""


def boosting(seed: int) -> Any:
    return Boosting(random_state=seed)


def quantile_boosting(seed: int) -> Any:
    return Boosting(loss="quantile", quantile=0.5, random_state=seed)


def forest(seed: int) -> Any:
    return RandomForestRegressor(random_state=seed)


def deep_ensemble(seed: int) -> Any:
    from skuq.neural import DeepEnsembleRegressor

    return DeepEnsembleRegressor(random_state=seed)


def pool(seed: int, **params: Any) -> Any:
    return MixtureRegressor(random_state=seed, **params)


def fast_pool(seed: int) -> Any:
    """Return the pool without networks."""
    return pool(seed, estimators=default_estimators(effort="low"))


def default_member(name: str) -> Callable[[int], Any]:
    """Return a function from a seed to a member of the default pool."""
    return lambda seed: dict(default_estimators(seed))[name]


def ngboost(seed: int) -> Any:
    from ngboost import NGBRegressor

    return NGBRegressor(verbose=False, random_state=seed)


def catboost(seed: int) -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        verbose=False,
        random_seed=seed,
        thread_count=1,
        allow_writing_files=False,
    )


def quantile_forest(seed: int) -> Any:
    from quantile_forest import RandomForestQuantileRegressor

    return RandomForestQuantileRegressor(random_state=seed)


def skpro_residual(seed: int, make: Callable[[int], Any] = boosting) -> Any:
    """Return skpro's regressor; a forest predicts the size of the error, as in its documentation.

    The scale of a Laplace distribution is the mean absolute error, which the forest predicts. This scale is
    too small for the default, a normal distribution.
    """
    from skpro.regression.residual import ResidualDouble

    folds = KFold(5, shuffle=True, random_state=seed)
    return ResidualDouble(make(seed), forest(seed), dist="Laplace", cv=folds, min_scale=1e-6)


def mapie(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int, make: Callable[[int], Any] = boosting
) -> Forecast:
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(make(seed), confidence_level=COVERAGE, random_state=seed)
    _, interval = model.fit_conformalize(X, y).predict_interval(X_test)
    return Forecast(None, interval[:, :, 0])


def crepes(
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    seed: int,
    make: Callable[[int], Any] = boosting,
    normalized: bool = True,
) -> Forecast:
    """Return conformal predictive distributions; residuals of nearest neighbors give the scales.

    The residuals are out of fold, as in the documentation of crepes. This serves it best: the residuals of
    the calibration rows, or ``scaler=True``, give wider intervals and a larger CRPS.
    """
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator

    order = np.random.RandomState(seed).permutation(len(y))
    proper, calibration = order[len(y) // 4 :], order[: len(y) // 4]
    model = WrapRegressor(make(seed))  # the methods of this class return None
    model.fit(X[proper], y[proper])
    difficulty = DifficultyEstimator() if normalized else None
    if normalized:
        folds = KFold(5, shuffle=True, random_state=seed)
        predicted = cross_val_predict(make(seed), X[proper], y[proper], cv=folds)
        difficulty.fit(X[proper], residuals=y[proper] - predicted)
    model.calibrate(X[calibration], y[calibration], de=difficulty, cps=True, seed=seed)
    tails = {"lower_percentiles": 50 * (1 - COVERAGE), "higher_percentiles": 50 * (1 + COVERAGE)}
    interval = model.predict_cps(X_test, **tails, seed=seed)
    members = np.asarray(model.predict_cps(X_test, return_cpds=True, seed=seed))
    return Forecast(Empirical(members), interval)


def wrapped(
    name: str, make: Callable[[int], Any], base: type, wrapper: Any = UncertaintyRegressor, **params: Any
) -> Method:
    """Return a method that wraps a model of scikit-learn."""
    fit = by_distribution(lambda seed: wrapper(make(seed), random_state=seed, **params))
    return Method(name, "sklearn", fit, base)


FOREST = forest, RandomForestRegressor
METHODS = (
    wrapped("skuq, boosting", boosting, Boosting),
    wrapped("skuq, boosting, effort low", boosting, Boosting, effort="low"),
    wrapped("skuq, boosting, effort high", boosting, Boosting, effort="high"),
    wrapped("skuq, forest", *FOREST),
    wrapped("skuq, residuals of a forest", *FOREST, ResidualRegressor),
    wrapped("skuq, quantile boosting", quantile_boosting, Boosting),
    wrapped("raw quantile boosting", quantile_boosting, Boosting, method="quantile"),
    wrapped("skuq, bootstrap of a forest", *FOREST, BootstrapRegressor),
    Method("skuq, default member boosting", "sklearn", by_distribution(default_member("boosting"))),
    Method("skuq, default member forest", "sklearn", by_distribution(default_member("forest"))),
    Method("skuq, deep ensemble", "torch", by_distribution(deep_ensemble)),
    Method("skuq, plain ensemble", "torch", by_distribution(default_member("plain_ensemble"))),
    Method("skuq, Gaussian process", "sklearn", by_distribution(default_member("gaussian_process"))),
    Method("skuq, fast pool", "sklearn", by_distribution(fast_pool)),
    Method("skuq, pool without recalibrator", "torch", by_distribution(partial(pool, recalibrator=None))),
    Method("skuq, pool", "torch", by_distribution(pool)),
    Method("quantile-forest", "quantile_forest", by_distribution(quantile_forest)),
    Method("NGBoost", "ngboost", by_distribution(ngboost)),
    Method("CatBoost with uncertainty", "catboost", by_distribution(catboost)),
    Method("crepes, boosting", "crepes", crepes, Boosting),
    Method("skpro residuals, boosting", "skpro", by_distribution(skpro_residual), Boosting),
    Method("MAPIE CV+, boosting", "mapie", mapie, Boosting),
)
POOLS = {
    "skuq, pool": "pool",
    "skuq, pool without recalibrator": "raw",
    "skuq, default member boosting": "boosting",
    "skuq, default member forest": "forest",
    "skuq, deep ensemble": "deep",
    "skuq, plain ensemble": "plain",
    "skuq, Gaussian process": "Gauss",
    "skuq, fast pool": "fast",
}
"""Names of the pools and their members, and the columns of `pool_table`."""
RATIOS = ("CRPS", "error", "dev.", "conf.", "interval score")
DECIMALS = {**dict.fromkeys(RATIOS, 2), "fits": 1, "seconds": 1}


@contextmanager
def counted_fits(base: type | None, n: int) -> Iterator[list[float]]:
    """Record, for each call of ``fit`` of the class, the number of rows divided by n."""
    shares: list[float] = []
    if base is None:
        yield shares
        return
    fit = base.fit

    def counting(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        shares.append(len(X) / n)
        return fit(self, X, *args, **kwargs)

    with mock.patch.object(base, "fit", counting):
        yield shares


# -------------------------------------------------------------------------------------------------- data


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of a data set, with integers for categories, and the target."""
    folder = data_folder()
    description = json.loads((folder / f"{name}.json").read_text())
    data = pd.read_csv(folder / f"{name}.csv.gz").dropna()
    y = data.pop(description["target"]).to_numpy(float)
    excluded = description.get("paper001", {}).get("exclude", [])
    data = data.drop(columns=[column for column in excluded if column in data])
    for column in data.select_dtypes(exclude="number"):
        data[column] = data[column].astype("category").cat.codes
    return data.to_numpy(float), y


def split(name: str, seed: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X and y of the training rows, and X and y of the test rows, in random order."""
    X, y = load(name)
    order = np.random.RandomState(seed).permutation(len(y))
    n = min(most, int(TRAINING_SHARE * len(y)))
    train, test = order[:n], order[n : n + MOST_TEST_ROWS]
    return X[train], y[train], X[test], y[test]


# ------------------------------------------------------------------------------------------------- results


def evaluate(method: Method, name: str, seed: int, most: int) -> dict[str, Any]:
    """Return the result of one method on one split of a data set."""
    X, y, X_test, y_test = split(name, seed, most)
    start = time.process_time()
    with counted_fits(method.base, len(y)) as shares, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist, interval = method.forecast(X, y, X_test, seed)
    seconds = time.process_time() - start
    lower, upper = interval.T
    covered = (lower <= y_test) & (y_test <= upper)
    thirds = np.array_split(np.argsort(upper - lower, kind="stable"), 3)
    return {
        "method": method.name,
        "set": name,
        "seed": seed,
        "rows": most,
        "n_train": len(y),
        "n_test": len(y_test),
        "crps": None if dist is None else float(crps_loss(y_test, dist)),
        "interval_score": float(interval_score_loss(y_test, interval, coverage=COVERAGE)),
        "width": float(np.mean(upper - lower)),
        "covered": int(covered.sum()),
        "thirds": [float(covered[rows].mean()) for rows in thirds],
        "fits": sum(shares) if method.base is not None else None,
        "seconds": seconds,
    }


def outside_of_the_band(results: pd.DataFrame) -> int:
    """Return -1 or 1 if the coverage of a data set is outside the band, below or above, else 0."""
    # The number of m test rows that a split conformal interval with n calibration rows covers has a
    # beta-binomial distribution. The splits are treated as independent, and n is the number of training rows.
    law = np.ones(1)
    for n, m in zip(results["n_train"], results["n_test"], strict=True):
        k = COVERAGE * (n + 1)
        law = np.convolve(law, stats.betabinom.pmf(np.arange(m + 1), m, k, n + 1 - k))
    cumulative, covered = np.cumsum(law), int(results["covered"].sum())
    tail = (1 - BAND) / 2
    if cumulative[covered] < tail:
        return -1
    return int(covered > 0 and 1 - cumulative[covered - 1] < tail)


def reference(results: pd.DataFrame) -> str:
    """Return the first of `METHODS` that has results with a CRPS, independent of the order of the results."""
    with_crps = set(results.loc[results["crps"].notna(), "method"])
    return next(method.name for method in METHODS if method.name in with_crps)


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method; scores are geometric means of the ratios to the reference.

    A ratio compares means over the splits for which both methods have results. *error* is the standard error
    of the mean ratio of the CRPS; *below, above* are numbers of sets whose coverage is outside the band.
    """
    first = results[results["method"] == reference(results)].set_index(["set", "seed"])
    rows = []
    for name, of_method in results.groupby("method", sort=False):
        both = of_method.set_index(["set", "seed"]).join(first, rsuffix=" of first", how="inner")
        means = both.groupby("set")[[*SCORES, *(f"{score} of first" for score in SCORES)]].mean()
        crps, score = (np.log(means[one] / means[f"{one} of first"]) for one in SCORES)
        outside = of_method.groupby("set").apply(outside_of_the_band, include_groups=False)
        rows.append(
            {
                "method": name,
                "CRPS": np.exp(crps.mean()),
                "error": np.exp(crps.mean()) * crps.std() / np.sqrt(len(crps)),
                "dev.": np.exp(crps[crps.index.isin(DEVELOPMENT)].mean()),
                "conf.": np.exp(crps[crps.index.isin(CONFIRMATION)].mean()),
                "interval score": np.exp(score.mean()),
                "coverage": of_method["covered"].sum() / of_method["n_test"].sum(),
                "below, above": f"{(outside < 0).sum()}, {(outside > 0).sum()}",
                "fits": of_method["fits"].mean(),
                "seconds": of_method["seconds"].mean(),
            }
        )
    return pd.DataFrame(rows).set_index("method").sort_values("CRPS")


def pool_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the CRPS of the pool and of its members on the first split of each set, and coverages.

    The CRPS is relative to the reference. The best member of a set has the lowest CRPS on the test rows. The
    second mean is without the sets that dominate the first.
    """
    first = results[results["seed"] == 0]
    crps = first.pivot(index="set", columns="method", values="crps").loc[first["set"].unique()]
    names = {name: short for name, short in POOLS.items() if name in crps}
    ratios = crps[list(names)].div(crps[reference(first)], axis=0).rename(columns=names)
    members = [short for short in ratios if short not in ("pool", "raw", "fast")]
    if "pool" in ratios:
        ratios["to best"] = ratios["pool"] / ratios[members].min(axis=1)
    logs = np.log(ratios)
    ratios.loc["geometric mean"] = np.exp(logs.mean())
    ratios.loc["geometric mean, others"] = np.exp(logs[~logs.index.isin(NEARLY_EXACT)].mean())
    share = first.assign(share=first["covered"] / first["n_test"])
    coverage = share.pivot(index="set", columns="method", values="share")
    for name, short in list(names.items())[:2]:
        ratios[f"coverage, {short}"] = coverage[name]
    return ratios.rename(lambda name: name.rpartition("/")[2])


def peer_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of the pool on the first split of each set, divided by the scores of other packages.

    The sets that dominate geometric means are left out. Without results of the pool, the scores are those of
    the first of its members that has results.
    """
    used = (results["seed"] == 0) & ~results["set"].isin(NEARLY_EXACT)
    first = results[used].set_index(["method", "set"])[list(SCORES)].astype(float)
    names = first.index.unique("method")
    logs = np.log(first.loc[next(name for name in POOLS if name in names)]) - np.log(first)
    peers = [name for name in names if not name.startswith(("skuq", "raw"))]
    means = np.exp(logs.groupby("method").mean()).loc[peers].sort_values(list(SCORES))
    return means.set_axis(["CRPS", "interval score"], axis=1)


def installed(methods: Iterable[Any], part: str) -> list[Any]:
    """Return the methods whose package is installed and whose name contains a text."""
    return [one for one in methods if part in one.name and importlib.util.find_spec(one.package) is not None]


def completed(
    path: Path, methods: list[Any], names: Iterable[str], splits: int, rows: int, evaluate: Callable[..., Any]
) -> pd.DataFrame:
    """Return the results in a file for this number of rows, after the missing results were computed."""
    results = [result for result in stored(path) if result["rows"] == rows]
    tasks = ((method, name, seed) for name in names for seed in range(splits) for method in methods)
    missing(results, tasks, partial(evaluate, most=rows), path)
    return pd.DataFrame(results)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fast methods, two sets, one split, 200 rows")
    parser.add_argument("--full", action="store_true", help="run 5 splits with at most 7000 training rows")
    parser.add_argument("--sets", choices=SETS, default="all")
    parser.add_argument("--rows", type=int, help="largest number of training rows")
    parser.add_argument("--methods", default="", help="run only methods whose name contains this text")
    parser.add_argument("--results", type=Path, default=Path("real_data.jsonl"))
    chosen = parser.parse_args()
    splits, rows = (5, 7000) if chosen.full else (1, 200) if chosen.quick else (1, 1500)
    rows = chosen.rows or rows
    names, methods = SETS[chosen.sets], installed(METHODS, chosen.methods)
    if chosen.quick:
        names = ("paper001/concrete_strength", "gal/gal_boston")
        methods = [method for method in methods if method.package in ("sklearn", "crepes", "mapie")]
    frame = completed(chosen.results, methods, names, splits, rows, evaluate)
    frame = frame[frame["set"].isin(names) & (frame["seed"] < splits)]
    print(
        f"{len(names)} sets, {splits} splits, at most {rows} training rows.\n"
        f"Scores are relative to {reference(frame)!r}.\n"
    )
    show("real_data", table(frame), DECIMALS)
    show("real_data-pools", pool_table(frame), decimals=2)
    show("real_data-peers", peer_table(frame), decimals=2)


if __name__ == "__main__":
    main()
