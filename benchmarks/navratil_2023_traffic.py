"""Navratil et al. 2023: uncertainty characteristics of traffic forecasts.

This script repeats figure 5 of Navratil, Elder, Arnold, Ghosh and Sattigeri, "Assessment of prediction
intervals using uncertainty characteristics curves", 2023. The figure has two curves for the metro traffic
data: the curve of an LSTM, and the curve of bands of constant width around the predictions of the LSTM. For
the LSTM, the paper only cites an anonymous reference, so this script defines its own LSTM. It also evaluates
four models of skuq.

At midnight, each model forecasts the 24 hours of the day from the calendar, the weather of these hours and
the traffic of the day before. The models are fitted to the hours until the end of 2016. The operating points
are chosen on the hours of 2017. The hours of 2018 are the test set.

    python navratil_2023_traffic.py                             # two models, 50 resamples: 20 seconds
    python navratil_2023_traffic.py --full --plot figure-5.svg  # two minutes

The data are the set "metro_traffic" of `skuq.datasets.fetch_uci`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from measuring import arguments, show
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from skorch import NeuralNetRegressor
from torch import Tensor, nn

from skuq import predict_dist
from skuq.datasets import fetch_uci
from skuq.distributions import Distribution, Normal
from skuq.evaluation import bootstrap_interval
from skuq.metrics import (
    compare_characteristics_curves,
    crps_loss,
    interval_miss_rate,
    prediction_interval_coverage,
    uncertainty_characteristics_curve,
)
from skuq.neural import DeepEnsembleRegressor
from skuq.recalibration import OperatingPointRecalibrator
from skuq.regressors import ForestDistributionRegressor, MultiQuantileRegressor, ResidualRegressor

DAY = 24
FITTED, CALIBRATED, TESTED = slice("2012", "2016"), slice("2017", "2017"), slice("2018", "2018")
AXES = [(x, y) for x in ("bandwidth", "excess") for y in ("miss_rate", "deficit")]
COVERAGE, TAILS = 0.9, (0.025, 0.975)
PAPER = {"gain": 0.049, "narrower to": 0.2}  # of the LSTM
RATIOS = (1.0, 4.0, 16.0)  # cost of a miss, in half widths of 1000 vehicles
WEATHER = ["temp", "rain_1h", "snow_1h", "clouds_all"]


# ------------------------------------------------------------------------------------------------- the data


def read_hours() -> pd.DataFrame:
    """Return one row per hour of all days, with NaN for hours without a record; traffic in thousands."""
    frame = fetch_uci("metro_traffic").frame
    frame = frame[frame["temp"] > 0].drop_duplicates("date_time").set_index("date_time")
    days = frame.index.normalize()
    grid = pd.date_range(days[0], days[-1] + pd.Timedelta(hours=DAY - 1), freq="h")
    hours = frame[WEATHER].reindex(grid).ffill().bfill()
    hours["rain_1h"] = np.log1p(hours["rain_1h"].clip(upper=60))  # one record is 9831 mm
    hours["hour"], hours["weekday"], hours["day"] = grid.hour, grid.weekday, grid.dayofyear
    # The name of a holiday is only in its first hour.
    hours["holiday"] = grid.normalize().isin(days[frame["holiday"] != "None"])
    hours["traffic"] = frame["traffic_volume"].reindex(grid) / 1000
    return hours


def tabular(hours: pd.DataFrame) -> pd.DataFrame:
    """Return the features of the models for tables, all known at midnight."""
    day = hours.groupby(hours.index.normalize())["traffic"]
    before = pd.DataFrame({"mean": day.mean(), "last": day.last()}).shift(1)
    features = hours.drop(columns="traffic").astype(float)
    features["same_hour"] = hours["traffic"].shift(DAY)
    return features.join(before.reindex(hours.index, method="ffill").add_suffix("_before"))


# ------------------------------------------------------------------------------------------------- the LSTM


class SequenceToSequence(nn.Module):
    """One LSTM that reads a day of traffic, and one that forecasts the next day from its covariates.

    The joint head consists of a linear layer for the mean, and a network that predicts the variance from the
    state and the mean.
    """

    def __init__(self, n_covariates: int, n_hidden: int = 48) -> None:
        super().__init__()
        self.encoder = nn.LSTM(n_covariates + 2, n_hidden, batch_first=True)
        self.decoder = nn.LSTM(n_covariates, n_hidden, batch_first=True)
        self.mean = nn.Linear(n_hidden, 1)
        self.variance = nn.Sequential(nn.Linear(n_hidden + 1, n_hidden), nn.SiLU(), nn.Linear(n_hidden, 1))

    def forward(self, X: Tensor) -> Tensor:
        """Return means and variances, shape (B, 24, 2), from two days of shape (B, 48, d)."""
        _, state = self.encoder(X[:, :DAY])
        hidden, _ = self.decoder(X[:, DAY:, 2:], state)
        mean = self.mean(hidden)
        raw = self.variance(torch.cat([hidden, mean], dim=2))
        return torch.cat([mean, nn.functional.softplus(raw) + 1e-4], dim=2)


class JointLoss(nn.Module):
    """Gaussian negative log-likelihood of the recorded hours."""

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss."""
        known = ~torch.isnan(y)
        return nn.functional.gaussian_nll_loss(output[..., 0][known], y[known], output[..., 1][known])


def sequences(hours: pd.DataFrame) -> np.ndarray:
    """Return for each hour the traffic, whether it is recorded, and standardized covariates."""
    weather = hours[WEATHER]
    weather = (weather - weather.loc[FITTED].mean()) / weather.loc[FITTED].std()
    angles = [
        2 * np.pi * hours["hour"] / 24,
        4 * np.pi * hours["hour"] / 24,
        2 * np.pi * hours["day"] / 365.25,
    ]
    waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    weekdays = [hours["weekday"] == day for day in range(7)]
    traffic = hours["traffic"]
    columns = [traffic.fillna(0), traffic.notna(), *waves, *weekdays, hours["holiday"], weather]
    return np.column_stack(columns).astype(np.float32)


def forecast_by_lstm(hours: pd.DataFrame, n_epochs: int, seed: int = 0) -> Normal:
    """Return the distribution of each hour from the second day on."""
    table, y = sequences(hours), hours["traffic"].to_numpy(np.float32)
    n_fitted = len(hours.loc[FITTED])
    starts = np.arange(0, n_fitted - 2 * DAY + 1, DAY // 4)
    X_train = np.stack([table[start : start + 2 * DAY] for start in starts])
    y_train = np.stack([y[start + DAY : start + 2 * DAY] for start in starts])
    some = ~np.isnan(y_train).all(axis=1)
    torch.manual_seed(seed)
    net = NeuralNetRegressor(
        SequenceToSequence,
        module__n_covariates=table.shape[1] - 2,
        criterion=JointLoss,
        optimizer=torch.optim.Adam,
        lr=3e-3,
        batch_size=64,
        max_epochs=n_epochs,
        train_split=None,
        iterator_train__shuffle=True,
        verbose=0,
    ).fit(X_train[some], y_train[some])
    days = np.arange(0, len(hours) - DAY, DAY)
    output = net.predict(np.stack([table[start : start + 2 * DAY] for start in days])).reshape(-1, 2)
    return Normal(output[:, 0].astype(float), np.sqrt(output[:, 1].astype(float)))


# --------------------------------------------------------------------------------------- the models of skuq


def residual(folds: Any) -> Any:
    """Return boosting with the distribution of its out-of-fold errors."""
    return ResidualRegressor(HistGradientBoostingRegressor(random_state=0), cv=folds, random_state=0)


def quantiles(folds: Any) -> Any:
    """Return boosting for eleven quantiles."""
    boosting = HistGradientBoostingRegressor(loss="quantile", random_state=0)
    return MultiQuantileRegressor(boosting, cv=folds, random_state=0)


def forest(folds: Any) -> Any:
    """Return a forest that weights its training rows by their leaves."""
    trees = RandomForestRegressor(60, min_samples_leaf=5, random_state=0)
    return make_pipeline(SimpleImputer(), ForestDistributionRegressor(trees, random_state=0))


def ensemble(folds: Any) -> Any:
    """Return an ensemble of five networks that predict a mean and a variance."""
    return make_pipeline(SimpleImputer(), DeepEnsembleRegressor(5, batch_size=256, random_state=0))


MODELS: dict[str, Callable[[Any], Any]] = {
    "boosting, residuals": residual,
    "boosting, quantiles": quantiles,
    "forest": forest,
    "deep ensemble": ensemble,
}
LSTM = "LSTM"


def forecast(hours: pd.DataFrame, name: str, n_epochs: int) -> Distribution:
    """Fit the model to the hours before 2017, and return the distributions of all later recorded hours."""
    recorded = hours["traffic"].notna().to_numpy()
    later = recorded & (hours.index >= CALIBRATED.start)
    if name == LSTM:
        return forecast_by_lstm(hours, n_epochs)[later[DAY:]]
    fitted = recorded & (hours.index < CALIBRATED.start)
    X, y = tabular(hours), hours["traffic"]
    week = hours.index.dayofyear // 7
    folds = list(GroupKFold(5).split(X[fitted], groups=week[fitted]))
    return predict_dist(MODELS[name](folds).fit(X[fitted], y[fitted]), X[later])


# ------------------------------------------------------------------------------------ gains and their tests


@dataclass(frozen=True)
class Rows:
    """Targets of a period and the number of the week of each hour."""

    y: np.ndarray
    week: np.ndarray

    @property
    def n_weeks(self) -> int:
        """Number of weeks."""
        return int(self.week.max()) + 1


def rows_of(hours: pd.DataFrame, period: slice) -> Rows:
    """Return the recorded hours of a period."""
    traffic = hours.loc[period, "traffic"].dropna()
    return Rows(traffic.to_numpy(), (traffic.index - traffic.index[0].normalize()).days.to_numpy() // 7)


def with_misses(y: np.ndarray, dist: Distribution, miss_rate: float = 0.1) -> Normal:
    """Return means and standard deviations, scaled to a miss rate; this does not change the curve."""
    mean, std = dist.mean(), dist.std()
    curve = uncertainty_characteristics_curve(y, Normal(mean, std))
    return Normal(mean, std * curve.operating_point(miss_rate=miss_rate).parameter)


def constant_bands(y: np.ndarray, dist: Distribution) -> Normal:
    """Return the bands of constant width around the same means, with the same miss rate."""
    return with_misses(y, Normal(dist.mean(), np.ones(len(y))))


def gains(y: np.ndarray, dist: Distribution, weight: np.ndarray | None = None) -> dict[str, float]:
    """Return the gains over constant bands, for four pairs of axes and for two ranges of miss rates."""
    curve, constant = (
        uncertainty_characteristics_curve(y, dist, bands=bands, sample_weight=weight)
        for bands in ("std", "constant")
    )
    parts = {f"{x}, {y}": {"x_axis": x, "y_axis": y} for x, y in AXES}
    parts |= {f"miss rate up to {limit}": {"y_range": (0, limit)} for limit in (0.5, 0.2)}
    return {name: 1 - curve.area(**part) / constant.area(**part) for name, part in parts.items()}


def weeks_drawn(rows: Rows, n_resamples: int, seed: int = 0) -> np.ndarray:
    """Return how often each resample draws each week, shape (n_resamples, weeks)."""
    n = rows.n_weeks
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=n_resamples).astype(float)


def interval_of_gains(rows: Rows, dist: Distribution, n_resamples: int) -> pd.DataFrame:
    """Return the gains and their 95 % intervals from a bootstrap of weeks."""
    draws = weeks_drawn(rows, n_resamples)
    resamples = pd.DataFrame([gains(rows.y, dist, draw[rows.week]) for draw in draws])
    low, high = (resamples.quantile(tail) for tail in TAILS)
    return pd.DataFrame({"value": gains(rows.y, dist), "low": low, "high": high})


def swap_test(rows: Rows, a: Normal, b: Normal, n_permutations: int, seed: int = 0) -> pd.Series:
    """Return p-values of the differences in gain. The test swaps whole weeks of two forecasts."""
    rng = np.random.default_rng(seed)
    moments = [np.stack([dist.mean(), dist.std()]) for dist in (a, b)]

    def difference(swapped: np.ndarray) -> pd.Series:
        first, second = np.where(swapped, moments[::-1], moments)
        return pd.Series(gains(rows.y, Normal(*first))) - pd.Series(gains(rows.y, Normal(*second)))

    observed = difference(np.zeros(len(rows.y), dtype=bool)).abs()
    swaps = rng.random((n_permutations, rows.n_weeks)) < 0.5
    extreme = sum((difference(swap[rows.week]).abs() >= observed - 1e-12).astype(int) for swap in swaps)
    return (1 + extreme) / (1 + n_permutations)


# ------------------------------------------------------------------------------------------ operating points


def losses(y: np.ndarray, bounds: np.ndarray, ratio: float) -> np.ndarray:
    """Return the cost of each hour: 1 per half width of 1000 vehicles, and the ratio per miss."""
    low, high = bounds.T
    return (high - low) / 2 + ratio * ((y < low) | (y > high))


def costs(
    then: Rows,
    dist_then: Distribution,
    now: Rows,
    dist_now: Distribution,
    ratio: float,
    n_resamples: int,
) -> pd.DataFrame:
    """Return the costs on the test set for 90 % intervals, the operating point of 2017, and the best point.

    The saved share of the cost has a 95 % interval from a bootstrap of weeks.
    """
    recalibrator = OperatingPointRecalibrator(cost=(1.0, ratio), coverage=COVERAGE).fit(dist_then, then.y)
    factor = recalibrator.operating_point_.parameter
    bounds = recalibrator.transform(dist_now).interval(COVERAGE)
    before, after = (losses(now.y, each, ratio) for each in (dist_now.interval(COVERAGE), bounds))
    best = recalibrator.fit(dist_now, now.y).operating_point_
    flat_then, flat_now = (Normal(dist.mean(), np.ones(len(dist))) for dist in (dist_then, dist_now))
    flat = recalibrator.fit(flat_then, then.y).transform(flat_now)
    constant = losses(now.y, flat.interval(COVERAGE), ratio)
    sums = [np.bincount(now.week, loss) for loss in (before, after, constant)]
    drawn = weeks_drawn(now, n_resamples) @ np.stack(sums, axis=1)
    values = {
        "factor": factor,
        "miss rate": interval_miss_rate(now.y, bounds),
        "90 % intervals": before.mean(),
        "operating point": after.mean(),
        "best point": best.bandwidth + ratio * best.miss_rate,
        "constant": constant.mean(),
        "saved": 1 - after.mean() / before.mean(),
        "saved over constant": 1 - after.mean() / constant.mean(),
    }
    table = pd.DataFrame({"value": values})
    for name, reference in (("saved", 0), ("saved over constant", 2)):
        table.loc[name, ["low", "high"]] = np.quantile(1 - drawn[:, 1] / drawn[:, reference], TAILS)
    return table.rename(index=lambda name: f"miss {ratio:g}, {name}")


# ------------------------------------------------------------------------------------- the study, its tables


def scores(rows: Rows, dist: Distribution) -> pd.DataFrame:
    """Return the scores, and the range of miss rates in which the bands are narrower than constant bands."""
    y = rows.y
    pair = {
        name: uncertainty_characteristics_curve(y, dist, bands=bands)
        for name, bands in (("model", "std"), ("constant", "constant"))
    }
    front = compare_characteristics_curves(pair).front.set_index("model").loc[["model"]]
    widest = front.iloc[np.argmax(front["miss_rate_high"] - front["miss_rate_low"])]
    by_hour = bootstrap_interval(y, dist, "auucc_gain", random_state=0)
    values = {
        "MAE": np.abs(y - dist.mean()).mean(),
        "CRPS": crps_loss(y, dist),
        "coverage": prediction_interval_coverage(y, dist.interval(COVERAGE)),
        "narrower from": widest["miss_rate_low"],
        "narrower to": widest["miss_rate_high"],
        "gain from, by hour": by_hour.low,
        "gain to, by hour": by_hour.high,
    }
    return pd.DataFrame({"value": values})


def measure(hours: pd.DataFrame, forecasts: dict[str, Distribution], n_resamples: int) -> pd.DataFrame:
    """Return all results, one row per model and quantity."""
    then, now = rows_of(hours, CALIBRATED), rows_of(hours, TESTED)
    split, parts = len(then.y), []
    scaled = {name: with_misses(now.y, dist[split:]) for name, dist in forecasts.items()}
    for name, dist in forecasts.items():
        gain = interval_of_gains(now, scaled[name], n_resamples)
        against = {"p_constant": constant_bands(now.y, scaled[name])}
        if name != LSTM and LSTM in scaled:
            against["p_lstm"] = scaled[LSTM]
        for column, other in against.items():
            gain[column] = swap_test(now, scaled[name], other, n_resamples)
        cost = [costs(then, dist[:split], now, dist[split:], ratio, n_resamples) for ratio in RATIOS]
        tables = {"score": scores(now, dist[split:]), "gain": gain, "cost": pd.concat(cost)}
        parts += [
            part.rename_axis("quantity").reset_index().assign(table=table, model=name)
            for table, part in tables.items()
        ]
    columns = ["table", "model", "quantity", "value", "low", "high", "p_constant", "p_lstm"]
    return pd.concat(parts, ignore_index=True).reindex(columns=columns)


def percent(row: pd.Series) -> str:
    """Return a share in percent with its interval."""
    interval = "" if np.isnan(row["low"]) else f" ({100 * row['low']:.0f} to {100 * row['high']:.0f})"
    return f"{100 * row['value']:.1f}{interval}"


def beside_paper(table: pd.DataFrame, cells: dict[str, str]) -> pd.DataFrame:
    """Return a table whose first row contains the numbers of the paper."""
    paper = pd.DataFrame(cells, index=["LSTM of the paper"], columns=table.columns)
    return pd.concat([paper.fillna(""), table]).rename_axis("model")


def tables(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of the page by the ends of their names, with cells of text."""
    order = results["model"].unique()

    def spread(table: str, cells: pd.Series) -> pd.DataFrame:
        rows = results[results["table"] == table].assign(cell=cells)
        wide = rows.pivot(index="model", columns="quantity", values="cell")
        return wide.reindex(index=order, columns=rows["quantity"].unique()).rename_axis(columns=None)

    crossing = {"narrower from": "0", "narrower to": f"{PAPER['narrower to']}"}
    texts = results["value"].map("{:.3f}".format)
    by_hour = results["quantity"].str.contains("by hour")
    texts = texts.where(~by_hour, (100 * results["value"]).map("{:.1f} %".format))
    numbers = spread("score", texts)
    found = {"scores": beside_paper(numbers, crossing)}
    percents = results.apply(percent, axis=1)
    found["gains"] = beside_paper(
        spread("gain", percents), {"bandwidth, miss_rate": f"{100 * PAPER['gain']:.1f}"}
    )
    tests = {
        other: spread("gain", results[column].dropna().map("{:.3f}".format)).dropna(how="all")
        for column, other in (("p_constant", "constant bands"), ("p_lstm", "LSTM"))
    }
    found["p_values"] = pd.concat(tests, names=["compared with"])
    saved = results["quantity"].str.contains("saved")
    cost = spread("cost", percents.where(saved, results["value"].map("{:.3f}".format)))
    parts = {f"{ratio:g}": cost.filter(like=f"miss {ratio:g}, ") for ratio in RATIOS}
    parts = {
        ratio: part.rename(columns=lambda name: name.partition(", ")[2]) for ratio, part in parts.items()
    }
    found["costs"] = pd.concat(parts, names=["cost of a miss"])
    return found


def plot(hours: pd.DataFrame, forecasts: dict[str, Distribution], file: Path) -> None:
    """Draw the curves of the LSTM and its constant bands, and the saved width of each model."""
    import matplotlib.pyplot as plt

    from skuq.displays import UncertaintyCharacteristicsDisplay

    now = rows_of(hours, TESTED)
    tested = {name: dist[-len(now.y) :] for name, dist in forecasts.items()}
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    UncertaintyCharacteristicsDisplay.from_predictions(
        now.y, tested[LSTM], name=LSTM, unit="1000 vehicles", cost=(1.0, RATIOS[1]), ax=left
    )
    left.set_xlim(0, 1.5)
    levels = np.linspace(0.01, 0.99, 99)
    for name, dist in tested.items():
        model, constant = (
            [curve.operating_point(miss_rate=level).bandwidth for level in levels]
            for curve in (
                uncertainty_characteristics_curve(now.y, dist, bands=bands) for bands in ("std", "constant")
            )
        )
        saved = 1 - np.array(model) / np.array(constant)
        right.plot(100 * levels, 100 * saved, label=name, color="black" if name == LSTM else None)
    right.axhline(0, color="gray", linewidth=0.8)
    right.axvline(100 * PAPER["narrower to"], color="gray", linestyle=":", label="crossing of the paper")
    right.set(
        xlim=(0, 60),
        ylim=(-40, 40),
        xlabel="Miss rate (%)",
        ylabel="Width saved over constant bands (%)",
    )
    right.legend(frameon=False)
    with plt.rc_context({"svg.hashsalt": "skuq"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def main(given: list[str] | None = None) -> pd.DataFrame:
    """Fit the models, show the tables, and return the results."""
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", choices=[LSTM, *MODELS], default=[LSTM, "boosting, residuals"])
    parser.add_argument("--resamples", type=int, default=50, help="of bootstraps and permutation tests")
    parser.add_argument("--full", action="store_true", help="all models, 30 epochs, 1000 resamples")
    parser.add_argument("--plot", type=Path, help="file of the figure; needs a run with the LSTM")
    options = parser.parse_args(given)
    if options.full:
        options.models, options.resamples = [LSTM, *MODELS], 1000
    if options.resamples < 1:
        parser.error(f"--resamples must be at least 1, got {options.resamples}.")
    if options.plot and LSTM not in options.models:
        parser.error("--plot requires a run with the LSTM.")
    hours = read_hours()
    forecasts = {name: forecast(hours, name, 30 if options.full else 10) for name in options.models}
    results = measure(hours, forecasts, options.resamples)
    show("navratil_2023_traffic", results, decimals=4)
    for name, table in tables(results).items():
        show(f"navratil_2023_traffic-{name}", table)
    if options.plot:
        plot(hours, forecasts, options.plot)
    return results


if __name__ == "__main__":
    main()
