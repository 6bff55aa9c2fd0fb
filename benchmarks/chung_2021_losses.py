"""Chung et al. 2021: one network, four losses.

This script compares our results with tables 1 and 2 of Chung, Char, Guo, Schneider and Neiswanger,
"Uncertainty Toolbox", 2021, arXiv:2109.10254. A network predicts the mean and the variance. It is trained
with one of four proper scores on 200 rows for 2000 epochs. It keeps the weights of the epoch with the lowest
loss on 100 validation rows, and is evaluated on 100 test rows.

The paper trains one network for each loss and seed. The result depends on the initial weights, so our numbers
are means over five initializations. One call of `skuq.neural.fit_many` trains all 100 networks.
`PNNRegressor` standardizes features and target; the paper does not. The skorch net `ProbabilisticNet` is
therefore trained in the units of the data, too.

    python chung_2021_losses.py         # 200 epochs: a minute
    python chung_2021_losses.py --full  # 2000 epochs
"""

import warnings
from collections.abc import Iterable, Sequence
from itertools import pairwise, product

import measuring
import numpy as np
import pandas as pd
import torch
from sklearn.metrics import mean_absolute_error, root_mean_squared_error
from sklearn.model_selection import PredefinedSplit
from skorch.callbacks import EarlyStopping
from skorch.dataset import Dataset
from skorch.helper import predefined_split

from skuq.datasets import make_chung
from skuq.distributions import Normal, concat
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import (
    crps_loss,
    interval_score_loss,
    mean_absolute_calibration_error,
    nll_loss,
    pinball_loss,
    sharpness,
)
from skuq.neural import PNNRegressor, ProbabilisticNet, fit_many

Network = tuple[str, int, int]  # loss, seed of the data, start
Rows = dict[Network, list[float]]
LOSSES = ("nll", "crps", "check", "interval")
COLUMNS = ("RMSE", "MAE", "ECE", "Sharpness", "NLL", "CRPS", "Check", "Interval")
TRUTH = "ground truth"
SEEDS, STARTS, HIDDEN = 5, 5, (64, 64, 64)
TRAIN, VALID, TEST = 200, 100, 100
QUICK, FULL = 200, 2000  # epochs
ROWS = TRAIN + VALID + TEST

# The values of the paper: its seed 0, and mean and standard error over its seeds 0 to 4.
TABLE_1 = {
    "nll": (1.689, 0.852, 0.057, 1.451, 2.214, 0.604, 0.305, 2.990),
    "crps": (0.864, 0.568, 0.056, 0.729, 1.266, 0.427, 0.215, 2.323),
    "check": (0.880, 0.566, 0.092, 0.720, 4.264, 0.434, 0.219, 2.434),
    "interval": (0.916, 0.600, 0.066, 0.722, 0.780, 0.447, 0.226, 2.309),
    TRUTH: (0.824, 0.530, 0.013, 0.831, -0.083, 0.370, 0.187, 1.758),
}
TABLE_2 = {
    "nll": (2.048, 1.073, 0.029, 1.746, 1.677, 0.766, 0.386, 3.885),
    "crps": (1.023, 0.661, 0.044, 0.897, 1.112, 0.492, 0.248, 2.687),
    "check": (1.045, 0.672, 0.050, 0.874, 1.635, 0.501, 0.253, 2.741),
    "interval": (1.169, 0.745, 0.039, 0.915, 0.961, 0.546, 0.276, 2.875),
    TRUTH: (0.962, 0.618, 0.019, 0.925, 0.187, 0.435, 0.219, 2.122),
}
TABLE_2_ERRORS = {
    "nll": (0.125, 0.080, 0.007, 0.155, 0.343, 0.060, 0.030, 0.330),
    "crps": (0.090, 0.054, 0.005, 0.114, 0.111, 0.040, 0.020, 0.186),
    "check": (0.105, 0.065, 0.011, 0.117, 0.661, 0.048, 0.024, 0.224),
    "interval": (0.187, 0.101, 0.009, 0.130, 0.062, 0.073, 0.037, 0.352),
    TRUTH: (0.064, 0.042, 0.002, 0.052, 0.115, 0.033, 0.017, 0.177),
}


# ---------------------------------------------------------------------------------- the data, and the truth


def simulate(seed: int) -> tuple[np.ndarray, np.ndarray, Normal]:
    """Return features, target and true distribution of all rows: training, validation, test.

    The paper does not specify how it draws random numbers. These numbers reproduce its ground-truth rows to
    every digit.
    """
    rng = np.random.RandomState(seed)
    options = {"random_state": rng, "return_distribution": True}
    X, y, dist = zip(*(make_chung("quadrants", n, **options) for n in (TRAIN, VALID, TEST)), strict=True)
    return np.concatenate(X), np.concatenate(y), concat(dist)


def measure(y: np.ndarray, dist: Normal) -> list[float]:
    """Return the columns of both tables, as the toolbox computes them.

    The ECE of the toolbox is computed from central intervals at 100 levels from 0 to 1. Its sharpness is the
    root mean square of the standard deviations. The text of the paper defines both differently.
    """
    with warnings.catch_warnings(action="ignore", category=SmallSampleWarning):  # the paper has 100 rows
        ece = mean_absolute_calibration_error(y, dist, levels=np.linspace(0, 1, 100), kind="interval")
    return [
        root_mean_squared_error(y, dist.mean()),
        mean_absolute_error(y, dist.mean()),
        ece,
        sharpness(y, dist, kind="rms"),
        nll_loss(y, dist),
        crps_loss(y, dist),
        pinball_loss(y, dist),
        interval_score_loss(y, dist, coverage=np.arange(1, 100) / 100),
    ]


def truth(seed: int) -> list[float]:
    """Return the row of the true distribution."""
    _, y, dist = simulate(seed)
    return measure(y[-TEST:], dist[-TEST:])


# --------------------------------------------------------------------------------------------- the networks


def plan() -> list[Network]:
    """Return all networks."""
    return list(product(LOSSES, range(SEEDS), range(STARTS)))


def standardized(networks: list[Network], epochs: int) -> list[Normal]:
    """Train all networks in one call, and return their forecasts of the test rows."""
    simulated = [simulate(seed) for seed in range(SEEDS)]
    X, y = (np.concatenate([parts[k] for parts in simulated]) for k in (0, 1))
    held_out = PredefinedSplit(np.repeat([-1, 0], [TRAIN, VALID]))
    estimators = [
        PNNRegressor(
            HIDDEN,
            loss=loss,
            keep_best=loss,
            calibration=None,
            held_out_size=held_out,
            learning_rate=1e-3,
            batch_size=TRAIN,
            max_epochs=epochs,
            net_params={"lr_schedule": "constant", "clip_norm": None},
            random_state=seed + SEEDS * start,
        )
        for loss, seed, start in networks
    ]
    rows = [ROWS * seed + np.arange(TRAIN + VALID) for _, seed, _ in networks]
    fitted = fit_many(estimators, X, y, rows)
    return [
        model.predict_dist(simulated[seed][0][-TEST:])
        for model, (_, seed, _) in zip(fitted, networks, strict=True)
    ]


def raw(networks: list[Network], epochs: int) -> list[Normal]:
    """Train the networks one after another in the units of the data, as in the paper."""
    return [_raw(loss, *simulate(seed)[:2], seed + SEEDS * start, epochs) for loss, seed, start in networks]


def _raw(loss: str, X: np.ndarray, y: np.ndarray, start: int, epochs: int) -> Normal:
    valid = slice(TRAIN, TRAIN + VALID)
    with torch.random.fork_rng():
        torch.manual_seed(start)
        sizes = (1, *HIDDEN, 2)
        layers = [layer for pair in pairwise(sizes) for layer in (torch.nn.Linear(*pair), torch.nn.ReLU())]
        net = ProbabilisticNet(
            torch.nn.Sequential(*layers[:-1]),
            criterion__loss=loss,
            batch_size=TRAIN,
            max_epochs=epochs,
            train_split=predefined_split(Dataset(X[valid].astype(np.float32), y[valid].astype(np.float32))),
            callbacks=[EarlyStopping(patience=epochs + 1, threshold=0, load_best=True, sink=lambda _: None)],
            verbose=0,
        )
        return net.fit(X[:TRAIN], y[:TRAIN]).predict_dist(X[-TEST:])


def rows_of(networks: list[Network], dists: list[Normal]) -> Rows:
    """Return the eight numbers of each network on the test rows of its seed."""
    targets = [simulate(seed)[1][-TEST:] for seed in range(SEEDS)]
    return {key: measure(targets[key[1]], dist) for key, dist in zip(networks, dists, strict=True)}


# ----------------------------------------------------------------------------------------------- the tables


def table_1(rows: Rows, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation over initial weights, on the data of seed 0."""
    values = np.array([rows[loss, 0, start] for start in range(STARTS)])
    return values.mean(axis=0), values.std(axis=0, ddof=1)


def table_2(rows: Rows, loss: str, starts: Iterable[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard error over the seeds, from the means over all or some starts of each seed."""
    starts = range(STARTS) if starts is None else starts
    values = [
        truth(seed) if loss == TRUTH else np.mean([rows[loss, seed, start] for start in starts], axis=0)
        for seed in range(SEEDS)
    ]
    return np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / np.sqrt(SEEDS)


def distance_1(rows: Rows, loss: str) -> np.ndarray:
    """Return the difference between the paper's network and ours in units of its standard deviation."""
    mean, spread = table_1(rows, loss)
    return (np.array(TABLE_1[loss]) - mean) / (spread * np.sqrt(1 + 1 / STARTS))


def distance_2(rows: Rows, loss: str, starts: Iterable[int] | None = None) -> np.ndarray:
    """Return the difference between our mean and the paper's in units of its standard error."""
    mean, error = table_2(rows, loss, starts)
    return (mean - TABLE_2[loss]) / np.hypot(error, TABLE_2_ERRORS[loss])


def table(results: dict[str, Rows], number: int) -> pd.DataFrame:
    """Return the rows of the paper and ours; stars mark differences of more than two standard errors."""
    paper, errors = (TABLE_1, {}) if number == 1 else (TABLE_2, TABLE_2_ERRORS)
    ours, distance = (table_1, distance_1) if number == 1 else (table_2, distance_2)
    made = {}
    for loss in LOSSES:
        made[loss, "the paper"] = cells(paper[loss], errors.get(loss))
        for name, rows in results.items():
            stars = np.where(np.abs(distance(rows, loss)) > 2, "*", "")
            made[loss, name] = np.char.add(cells(*ours(rows, loss)), stars)
    true = (truth(0), None) if number == 1 else table_2({}, TRUTH)
    made[TRUTH, "the paper"], made[TRUTH, "skuq"] = cells(paper[TRUTH], errors.get(TRUTH)), cells(*true)
    index = pd.MultiIndex.from_tuples(made, names=["trained with", "source"])
    return pd.DataFrame(made.values(), index=index, columns=COLUMNS)


def cells(values: Sequence[float], errors: Sequence[float] | None = None) -> list[str]:
    """Return numbers as text, with their errors where there are any."""
    if errors is None:
        return [f"{value:.3f}" for value in values]
    return [f"{value:.3f} ± {error:.3f}" for value, error in zip(values, errors, strict=True)]


def agreement(rows: Rows) -> dict[str, int]:
    """Return how many values of the paper agree with ours, of 32 in each table."""

    def near(distances: Iterable[np.ndarray]) -> int:
        return int((np.abs(list(distances)) <= 2).sum())

    single = [near(distance_2(rows, loss, [start]) for loss in LOSSES) for start in range(STARTS)]
    theirs = ((table_2(rows, loss)[0] - TABLE_2[loss]) / TABLE_2_ERRORS[loss] for loss in LOSSES)
    return {
        "table 1": near(distance_1(rows, loss) for loss in LOSSES),
        "table 2": near(distance_2(rows, loss) for loss in LOSSES),
        "table 2, errors of the paper": near(theirs),
        "table 2, one start: fewest": min(single),
        "table 2, one start: most": max(single),
    }


def main(arguments: list[str] | None = None) -> dict[str, Rows]:
    """Train, measure and show the tables."""
    parser = measuring.arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="2000 epochs, as in the paper, not 200")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    epochs, networks = FULL if options.full else QUICK, plan()
    kinds = {"skuq": standardized, "raw units": raw}
    results = {name: rows_of(networks, train(networks, epochs)) for name, train in kinds.items()}
    for number in (1, 2):
        measuring.show(f"chung_2021_losses-{number}", table(results, number))
    agree = pd.DataFrame({name: agreement(rows) for name, rows in results.items()})
    measuring.show("chung_2021_losses-agreement", agree.T.rename_axis("source"))
    return results


if __name__ == "__main__":
    main()
