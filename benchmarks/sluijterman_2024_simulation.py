"""Sluijterman et al. 2024: coverage at each x, by simulation.

This script repeats the experiments in Sluijterman, Cator and Heskes, "How to evaluate uncertainty estimates
in machine learning for regression?", Neural Networks 173, 2024: figures 1, 2 and 4 to 10. The paper compares
two methods, bootstrapped networks (algorithm 1) and concrete dropout (algorithm 2). The networks of both
methods have three layers of 40, 30 and 20 units. For the process of figure 7, the script also evaluates the
defaults of skuq.

The paper does not specify the optimizer, the batch size, the number of epochs for dropout, or whether data
are standardized. This script uses Adam with a learning rate of 0.001, batches of 32, 80 epochs (for dropout
also three times as many), and standardized data. The density of x in figures 8 and 9 is not published. The
density in `make_known_process` is our assumption.

    python sluijterman_2024_simulation.py         # few simulations of few networks: a minute
    python sluijterman_2024_simulation.py --full
    python sluijterman_2024_simulation.py --full --only figure-7 figure-10

The paper has 100 simulations, as we have for figure 7. The other figures have 20. Figure 10 needs the folder
of the data in the environment variable SKUQ_DATA.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import measuring
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skuq.conformal import ConformalRegressor
from skuq.distributions import Normal, StudentT
from skuq.exceptions import SmallSampleWarning
from skuq.neural import BootstrapNetRegressor, ConcreteDropoutRegressor, DeepEnsembleRegressor
from skuq.regressors import LeastSquaresRegressor, ResidualRegressor
from skuq.simulation import EstimatedProcess, KnownProcess, make_known_process, simulate_coverage
from skuq.simulation._pointwise_coverage import PointwiseCoverage

LAYERS, N_TRAIN, N_VALIDATION = (40, 30, 20), 1000, 150
GAP = (-0.2, 0.1)  # where figure 9 has few rows


@dataclass(frozen=True)
class Size:
    """Numbers of simulations, networks, epochs, and test rows."""

    n_simulations: int = 20
    n_networks: int = 50
    n_epochs: int = 80
    n_test: int = 1000


FULL, SMALL = Size(), Size(n_simulations=4, n_networks=5, n_epochs=20, n_test=200)


# ---------------------------------------------------------------------------------------------- the methods


def bootstrap(size: Size = FULL, n_validation: int = N_VALIDATION) -> BootstrapNetRegressor:
    """Return algorithm 1, with the noise of equation 9 estimated on held-out rows."""
    return BootstrapNetRegressor(
        size.n_networks,
        hidden_layer_sizes=LAYERS,
        noise_estimation="split",
        held_out_size=n_validation,
        calibration=None,
        max_epochs=size.n_epochs,
    )


def dropout(size: Size = FULL, epochs: int = 1) -> ConcreteDropoutRegressor:
    """Return algorithm 2, with a multiple of the epochs."""
    return ConcreteDropoutRegressor(
        LAYERS,
        n_draws=100,
        keep_best=False,
        calibration=None,
        learning_rate=1e-3,
        net_params={"lr_schedule": "constant"},
        max_epochs=epochs * size.n_epochs,
    )


def both(size: Size, n_validation: int = N_VALIDATION) -> dict[str, BaseEstimator]:
    """Return the methods by name."""
    return {
        "bootstrap": bootstrap(size, n_validation),
        f"dropout, {size.n_epochs} epochs": dropout(size),
        f"dropout, {3 * size.n_epochs} epochs": dropout(size, 3),
    }


def defaults() -> dict[str, BaseEstimator]:
    """Return estimators with the defaults of skuq."""
    boosting = HistGradientBoostingRegressor(max_iter=50)
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    return {
        "deep ensemble": DeepEnsembleRegressor(),
        "bootstrapped networks": BootstrapNetRegressor(),
        "residual, boosting": ResidualRegressor(boosting),
        "conformal, boosting": ConformalRegressor(boosting),
        "Gaussian process": GaussianProcessRegressor(kernel, normalize_y=True),
        "least squares, cubic": make_pipeline(
            PolynomialFeatures(3, include_bias=False), LeastSquaresRegressor()
        ),
    }


class Homoscedastic(RegressorMixin, BaseEstimator):
    """Forecast with the true mean and the best constant standard deviation.

    It is the bootstrap of figure 7 without estimation errors. Its Brier score is known exactly.
    """

    def __init__(self, process: KnownProcess, df: float = 50.0) -> None:
        self.process = process
        self.df = df

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Homoscedastic":
        """Do nothing, because the process is known."""
        return self

    def predict_dist(self, X: np.ndarray) -> StudentT:
        """Return Student t distributions with the root mean variance of the test rows as scale."""
        scale = float(np.sqrt(self.process.truth_.var().mean()))
        return StudentT(self.process.predict(X), scale, self.df)


def midpoints(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return an even grid instead of uniform draws, for quadrature."""
    return ((np.arange(n) + 0.5) / n - 0.5)[:, np.newaxis]


# ------------------------------------------------------------------------------------------ the experiments


def simulate(
    estimator: BaseEstimator,
    process: KnownProcess | EstimatedProcess,
    size: Size,
    coverage: float,
) -> PointwiseCoverage:
    """Return the simulation of one method."""
    with warnings.catch_warnings(action="ignore", category=SmallSampleWarning):
        return simulate_coverage(
            estimator,
            process,
            n_simulations=size.n_simulations,
            coverage=coverage,
            random_state=0,
        )


def figure_1(n_simulations: int = 500) -> PointwiseCoverage:
    """Return 80 % intervals of a line through 25 rows, section 3.2."""
    process = KnownProcess(
        lambda X: Normal(X[:, 0], 0.1),
        lambda n, rng: rng.uniform(-2, 2, size=(n, 1)),
        n_train=25,
        n_test=500,
        random_state=0,
    )
    return simulate(LeastSquaresRegressor(), process, Size(n_simulations), 0.8)


def figure_2(n_simulations: int = 500) -> PointwiseCoverage:
    """Return 95 % intervals of a line through the origin, section 3.2."""
    process = KnownProcess(
        lambda X: Normal(X[:, 0], 0.1),
        lambda n, rng: rng.uniform(0.1, 2, size=(n, 1)),
        n_train=25,
        n_test=100,
        random_state=0,
    )
    return simulate(LeastSquaresRegressor(fit_intercept=False), process, Size(n_simulations), 0.95)


def cubic(name: str, estimator: BaseEstimator, size: Size, coverage: float) -> PointwiseCoverage:
    """Return intervals in one of the known processes, sections 5.2 to 5.4."""
    extra = N_VALIDATION if getattr(estimator, "noise_estimation", None) == "split" else 0
    n_test = size.n_test * (4 if name == "cubic-gap" else 1)  # One row in a hundred lies in the gap.
    process = make_known_process(name, n_train=N_TRAIN + extra, n_test=n_test, random_state=0)
    return simulate(estimator, process, size, coverage)


def boston_process(folder: Path, *, depth: int, residuals: str) -> EstimatedProcess:
    """Return the process of section 5.5: two forests, 406 training rows and 100 test rows."""
    frame = pd.read_csv(folder / "gal" / "gal_boston.csv.gz")
    X, y = frame.iloc[:, :-1].to_numpy(float), frame.iloc[:, -1].to_numpy(float)
    forest = RandomForestRegressor(100, max_depth=depth)
    process = EstimatedProcess(forest, residuals=residuals, test_size=100, random_state=0)
    return process.fit(X, y)


PROCESSES = {
    "depth 15, training": {"depth": 15, "residuals": "training"},
    "depth 15, out of sample": {"depth": 15, "residuals": "out-of-sample"},
    "depth 3, training": {"depth": 3, "residuals": "training"},
}


# ----------------------------------------------------------------------------------------------- the tables

BRIER = ("PICF Brier", "CICF Brier")


def row_of(result: PointwiseCoverage) -> dict[str, float]:
    """Return the metrics of the paper, with the spread of the mean."""
    table = result.summary(n_resamples=2).droplevel("coverage")
    row = {}
    for kind, name in (("prediction", "P"), ("confidence", "C")):
        if kind in table.index:
            row |= {
                f"{name}ICP": table.loc[kind, "mean_coverage"],
                f"{name}ICF Brier": table.loc[kind, "brier"],
                f"{name}ICF from": table.loc[kind, "min_coverage"],
                f"{name}ICF to": table.loc[kind, "max_coverage"],
                f"{name}I width": table.loc[kind, "width"],
            }
    row["true width"] = table.loc["prediction", "true_width"]
    row["spread"] = result.spread.mean()
    if result.claimed_spread is not None:
        row["predicted spread"] = result.claimed_spread.mean()
    return row


def in_and_out(result: PointwiseCoverage) -> dict[str, float]:
    """Return coverage and width of confidence intervals inside and outside of the region with few rows.

    The last two values are the lowest and the highest coverage of a test set by the prediction intervals.
    """
    x = result.X_test[:, 0]
    inside = (x > GAP[0]) & (x < GAP[1])
    return {
        "CICF inside": result.cicf[inside].mean(),
        "CICF outside": result.cicf[~inside].mean(),
        "CI width inside": result.confidence_width[inside].mean(),
        "CI width outside": result.confidence_width[~inside].mean(),
        "PICP from": result.picp.min(),
        "PICP to": result.picp.max(),
    }


def lines(size: Size) -> pd.DataFrame:
    """Return the coverage of single simulations of figures 1 and 2, with 25 times as many simulations."""
    coverages = {
        "figure 1, PICP, 80 %": figure_1(25 * size.n_simulations).picp,
        "figure 2, CICP, 95 %": figure_2(25 * size.n_simulations).cicp,
    }
    rows = {
        what: {"mean": each.mean(), "lowest": each.min(), "highest": each.max()}
        for what, each in coverages.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("coverage")


def known(name: str, estimators: dict[str, BaseEstimator], size: Size, level: float) -> pd.DataFrame:
    """Return the metrics of each estimator in a known process."""
    rows = {}
    for method, estimator in estimators.items():
        result = cubic(name, estimator, size, level)
        rows[method] = in_and_out(result) if name == "cubic-gap" else row_of(result)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def boston(size: Size) -> pd.DataFrame:
    """Return the metrics of both methods in the processes of figure 10."""
    rows = {}
    for name, options in PROCESSES.items():
        process = boston_process(measuring.data_folder(), **options)
        for method, estimator in both(size, n_validation=40).items():
            rows[name, method] = row_of(simulate(estimator, process, size, 0.8))
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis(["process", "method"])
    return table.drop(columns=["spread", "predicted spread"])


STUDIES: dict[str, Callable[[Size], pd.DataFrame]] = {
    "figures-1-2": lines,
    "figures-4-6": lambda size: known("cubic", both(size), size, 0.9),
    "figure-7": lambda size: known("cubic-heteroscedastic", both(size), size, 0.9),
    "figures-8-9": lambda size: known("cubic-gap", both(size), size, 0.8),
    "figure-10": boston,
    "defaults": lambda size: known("cubic-heteroscedastic", defaults(), size, 0.9),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the experiments, and show their tables."""
    parser = measuring.arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="simulations and networks as described above")
    parser.add_argument("--only", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    options = parser.parse_args(arguments)
    for name in options.only:
        full = Size(n_simulations=100) if name == "figure-7" else FULL
        table = STUDIES[name](full if options.full else SMALL)
        measuring.show(f"sluijterman_2024_simulation-{name}", table, dict.fromkeys(BRIER, 4))


if __name__ == "__main__":
    main()
