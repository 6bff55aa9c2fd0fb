"""Wibbeke et al. 2025: the agreement of the metrics.

This script reproduces sections 4.1 to 4.3 of Wibbeke, Schönfisch, Rohjans and Rauh, "Evaluating the quality
of the quantified uncertainty for (re)calibration of data-driven regression models", 2025, arXiv:2508.17761:
the metrics of deep ensembles on real and synthetic data (figures 2 and 3), and the changes of these metrics
under four recalibration methods (figure 4). ``wibbeke_2025_ensembles.py`` trains the ensembles.

**As published**, the ensembles are trained with broadcast targets. They are recalibrated and scored on the
same test rows, with the metrics of the published code. After isotonic regression and beta calibration, the
code replaces each distribution with a normal distribution that has the same mean and standard deviation.
After isotonic regression, netcal computes these moments from a truncated distribution function
(`isotonic_of_netcal`).

**As it should be**, the ensembles are trained correctly, recalibrated on half of the test rows, and scored on
the other half with the metrics of the paper's equations. For comparison, these ensembles are also scored
with the published metrics. In a second comparison, they are recalibrated and scored on the same test rows.

The synthetic sets have 1000 rows. The paper does not state the ranges of the features of "euclidean",
"nernst", "stribeck" and "arctan", the weights of "mlp", or the seeds. For the first three, this script uses
the ranges in the published code. The seed is 1. The functions of scikit-learn have their default ranges and
no noise, except for "sparse_uncorrelated", whose noise cannot be switched off.

    python wibbeke_2025_metrics.py         # three real and two synthetic sets, 20 epochs: seconds
    python wibbeke_2025_metrics.py --full  # 15 real and 10 synthetic sets, 200 epochs

The data are in a folder ``paper001``, in the folder given by the environment variable SKUQ_DATA. The seventh
set of the paper, superconductivity, is not included.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from measuring import arguments, data_folder, show
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning
from wibbeke_2025_ensembles import EPOCHS, SMALL, train
from wibbeke_2025_shared import (
    DIRECTIONS,
    FULL,
    LARGE,
    METRICS,
    Split,
    as_published,
    by_equations,
    change,
    group_means,
    prepare,
    scale_to_unit,
    split_rows,
)

from skuq.datasets import make_wibbeke
from skuq.distributions import Distribution, Normal
from skuq.evaluation import metric_agreement
from skuq.recalibration import (
    GPBetaRecalibrator,
    GPNormalRecalibrator,
    IsotonicRecalibrator,
    StdScalingRecalibrator,
)

SMALL_SYNTHETIC = ("euclidean", "arctan")
SYNTHETIC = (
    "euclidean",
    "nernst",
    "stribeck",
    "arctan",
    "mlp",
    "linear",
    "sparse_uncorrelated",
    "friedman1",
    "friedman2",
    "friedman3",
)  # in the order of the paper's table 3
QUICK_EPOCHS = 20
BEFORE = "before"
METHODS = {
    "isotonic": IsotonicRecalibrator(),
    "variance scaling": StdScalingRecalibrator(),
    "GP normal": GPNormalRecalibrator(n_inducing_points=12, max_iter=30),
    "GP beta": GPBetaRecalibrator(n_inducing_points=12, max_iter=30),
}
Setting = tuple[str, str, str]
KEYS = ["study", "ensemble", "metrics", "rows", "method", "set"]
PUBLISHED = "as published", "as published", "same rows"
OTHER_ROWS = "corrected", "equations", "other rows"
SAME_ROWS = "corrected", "equations", "same rows"
PUBLISHED_METRICS = "corrected", "as published", "same rows"
SETTINGS = {  # before recalibration, all test rows are new
    "as published": PUBLISHED,
    "corrected ensembles, published metrics": PUBLISHED_METRICS,
    "as it should be": SAME_ROWS,
}


# --------------------------------------------------------------------------------------------- recalibration


def recalibrate(method: str, dist: Distribution, y: np.ndarray, others: Distribution) -> Distribution:
    """Fit a recalibrator to some rows and transform others."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # few iterations are enough
        return METHODS[method].fit(dist, y).transform(others)


def published_recalibration(method: str, dist: Normal, y: np.ndarray) -> Normal:
    """Recalibrate like the published code: on the same rows, and to normal distributions."""
    if method == "isotonic":
        return isotonic_of_netcal(dist, y)
    made = recalibrate(method, dist, y, dist)
    return Normal(made.mean(), made.std())


def isotonic_of_netcal(dist: Normal, y: np.ndarray, n_points: int = 512) -> Normal:
    """Return the moments that netcal computes after isotonic regression of the PIT values.

    The distribution function starts at the smallest and ends at the second largest PIT value of the n rows.
    A probability of 2 / n is lost, so the mean moves toward 0 and the variance depends on the origin of y.
    """
    score = np.sort((y - dist.mean()) / dist.std())
    z = np.linspace(score[0], score[-2], n_points)
    level = np.interp(ndtr(z), ndtr(score), np.arange(1, y.size + 1) / y.size)
    mass, middle = np.diff(level), (z[1:] + z[:-1]) / 2
    kept, first, second = mass.sum(), middle @ mass, middle**2 @ mass
    loc, scale = dist.mean(), dist.std()
    mean = kept * loc + first * scale
    square = kept * loc**2 + 2 * first * loc * scale + second * scale**2
    return Normal(mean, np.sqrt(square - mean**2))


# -------------------------------------------------------------------------------------------------- studies


def synthetic(name: str) -> Split:
    """Return one synthetic set, prepared like the real ones."""
    X, y = make_wibbeke(name, random_state=1)
    return split_rows(scale_to_unit(pd.DataFrame(X).add_prefix("x").assign(y=y)), "y")


def measure_all(study: str, y: np.ndarray, made: dict[str, Distribution], span: float) -> dict:
    """Return the metrics of one set for all settings, by all keys except the set.

    ``made`` contains the forecasts of both ensembles. `span` is the range of the targets, which is the unit
    of CWC.
    """
    published, corrected = made["as published"], made["corrected"]
    half = y.size // 2  # the rows are in random order
    y_half, before = y[half:], corrected[half:]
    rows = {
        (study, *PUBLISHED, BEFORE): as_published(y, published, span),
        (study, *PUBLISHED_METRICS, BEFORE): as_published(y, corrected, span),
        (study, *SAME_ROWS, BEFORE): by_equations(y, corrected, span),
    }
    if study == "synthetic":  # section 4.3 has real data only
        return rows
    rows[study, *OTHER_ROWS, BEFORE] = by_equations(y_half, before, span)
    for method in METHODS:
        after = published_recalibration(method, published, y)
        rows[study, *PUBLISHED, method] = as_published(y, after, span)
        after = recalibrate(method, corrected, y, corrected)
        rows[study, *SAME_ROWS, method] = by_equations(y, after, span)
        after = recalibrate(method, corrected[:half], y[:half], before)
        rows[study, *OTHER_ROWS, method] = by_equations(y_half, after, span)
    return rows


def table_of(rows: dict) -> pd.DataFrame:
    """Return the metrics with one row per setting."""
    table = pd.DataFrame.from_dict(rows, orient="index")[list(METRICS)]
    table.index = pd.MultiIndex.from_tuples(table.index, names=KEYS)
    return table


def run(folder: Path, real: tuple[str, ...], simulated: tuple[str, ...], epochs: int) -> pd.DataFrame:
    """Train the ensembles of all sets, and return the metrics."""
    rows = {}
    sets = [("real", name) for name in real] + [("synthetic", name) for name in simulated]
    for study, name in sets:
        split = synthetic(name) if study == "synthetic" else prepare(folder, name)
        found = measure_all(study, split.y[split.test], train(split, epochs), np.ptp(split.y))
        rows |= {(*key, name): values for key, values in found.items()}
    return table_of(rows)


# ------------------------------------------------------------------------------------------------ summaries


def part(table: pd.DataFrame, study: str, setting: Setting, method: str = BEFORE) -> pd.DataFrame:
    """Return the metrics of one setting, one row per set."""
    return table.xs((study, *setting, method), level=KEYS[:-1])


def taus(table: pd.DataFrame, study: str, setting: Setting) -> pd.DataFrame:
    """Return Kendall's tau between the metrics over the sets (figures 2 and 3)."""
    return metric_agreement(part(table, study, setting), directions=DIRECTIONS, n_resamples=1).tau


def taus_of_methods(table: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Return Kendall's tau between the metrics over the forecasts of a set, averaged over the sets.

    The forecasts of a set are the ensemble before and after each recalibration. Metrics that are constant for
    a set, such as RMSE without isotonic regression, are left out of the mean of this set.
    """
    found = []
    for _, rows in table.xs(("real", *setting), level=KEYS[:4]).groupby(level="set"):
        varied = rows.loc[:, rows.nunique() > 1]
        ways = {name: DIRECTIONS[name] for name in varied}
        tau = metric_agreement(varied, directions=ways, n_resamples=1).tau
        found.append(tau.reindex(index=METRICS, columns=METRICS))
    return pd.concat(found).groupby(level=0, sort=False).mean()


def changes(table: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Return the changes due to recalibration in percent, positive if worse (figure 4)."""
    before = part(table, "real", setting)
    made = {}
    for method in METHODS:
        after = part(table, "real", setting, method)
        for name in before.index:
            made[method, name] = {
                metric: change(before.loc[name, metric], after.loc[name, metric], metric)
                for metric in METRICS
            }
    return pd.DataFrame.from_dict(made, orient="index").rename_axis(["method", "set"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean tau of pairs of metrics, one row per study and setting."""
    made = {
        (study, name): group_means(taus(table, study, setting))
        for study in ("real", "synthetic")
        for name, setting in SETTINGS.items()
    }
    return pd.DataFrame.from_dict(made, orient="index").rename_axis(["sets", "version"])


def main(given: list[str] | None = None) -> pd.DataFrame:
    """Run the studies and show the metrics and the summaries."""
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help=f"all sets, {EPOCHS} epochs")
    options = parser.parse_args(given)
    folder = data_folder() / "paper001"
    torch.set_num_threads(1)
    if options.full:
        table = run(folder, (*FULL, *LARGE), SYNTHETIC, EPOCHS)
        show("wibbeke_2025_metrics-groups", summary(table).round(2) + 0.0, decimals=2)  # no -0.00
    else:
        table = run(folder, SMALL, SMALL_SYNTHETIC, QUICK_EPOCHS)
    show("wibbeke_2025_metrics", table.map("{:.6g}".format))
    return table


if __name__ == "__main__":
    main()
