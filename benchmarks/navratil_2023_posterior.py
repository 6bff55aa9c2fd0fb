"""Navratil et al. 2023: two curves that cross.

This script repeats figure 4 of Navratil, Elder, Arnold, Ghosh and Sattigeri, "Assessment of prediction
intervals using uncertainty characteristics curves", 2023. The figure compares two kinds of intervals:
intervals of a Bayesian neural network, and intervals of constant width. The network is trained on data
without rows in [-1, 1], and its posterior is sampled with Hamiltonian Monte Carlo. The paper publishes
neither the data nor the network, so this script defines its own.

The network has one layer of 20 units and is sampled with pyro's No-U-Turn Sampler (``pip install pyro-ppl``).
The committed file `navratil_2023_posterior_forecasts.csv` contains its forecasts. In addition, Gaussian
processes, whose posterior is exact, are evaluated on 200 functions drawn from their prior.

    python navratil_2023_posterior.py --plot figure-4.svg         # forecasts from the file: seconds
    python navratil_2023_posterior.py --full --out forecasts.csv  # new samples: five minutes
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from measuring import arguments, show
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skuq.distributions import Normal
from skuq.metrics import uncertainty_characteristics_curve
from skuq.metrics._ucc_curve import UncertaintyCharacteristicsCurve

FILE = Path(__file__).with_name("navratil_2023_posterior_forecasts.csv")
GAP, REACH = 1.0, 2.0  # no training rows in [-1, 1], all rows in [-2, 2]
NOISE = 0.1
LOW, HIGH = 0.2, 0.7  # LOW: points B and D. HIGH: points A and C.
WHOLE, FEW = "gain, %", "gain up to 0.5, %"  # over the whole curve, and over miss rates up to 0.5
PAPER = {WHOLE: 6.1, FEW: 72.7}


# ------------------------------------------------------------------------------------------------- the data


def inputs(n_train: int, n_test: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return training x on both sides of the gap, and test x on a grid."""
    side = rng.choice([-1.0, 1.0], size=n_train)
    return side * rng.uniform(GAP, REACH, size=n_train), REACH * np.linspace(-1, 1, n_test)


def truth(x: np.ndarray) -> np.ndarray:
    """Return a sine wave plus a linear trend."""
    return np.sin(3 * x) + 0.3 * x


def make_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return x and y for training and test."""
    rng = np.random.default_rng(seed)
    parts = []
    for x in inputs(60, 401, rng):
        parts += [x, truth(x) + NOISE * rng.normal(size=x.size)]
    return tuple(parts)


# -------------------------------------------------------------------------------------- the Bayesian network


@dataclass(frozen=True)
class Size:
    """Numbers of units and chains, and numbers of draws and adaptation steps in each chain."""

    n_units: int = 20
    n_chains: int = 2
    n_draws: int = 500
    n_adapt: int = 300


def sample_network(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, size: Size, seed: int = 0) -> np.ndarray:
    """Return posterior draws of the network at new x, shape (chains, draws, rows).

    The weights have independent standard normal priors. The standard deviation of the noise is known.
    """
    import torch
    from pyro.infer import MCMC, NUTS

    X, Y = torch.tensor(x[:, np.newaxis]), torch.tensor(y)
    shapes = {"weight": size.n_units, "bias": size.n_units, "output": size.n_units, "shift": 1}

    def network(draw: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(2 * (draw["weight"] * inputs + draw["bias"]))
        return 2 * hidden @ draw["output"] / size.n_units**0.5 + draw["shift"]

    def energy(draw: dict[str, torch.Tensor]) -> torch.Tensor:
        misfit = ((Y - network(draw, X)) / NOISE).square().sum()
        return 0.5 * (misfit + sum(part.square().sum() for part in draw.values()))

    chains = []
    for chain in range(size.n_chains):
        with torch.random.fork_rng():
            torch.manual_seed(seed + chain)
            start = {name: torch.randn(n, dtype=torch.float64) for name, n in shapes.items()}
            sampler = NUTS(potential_fn=energy, max_tree_depth=8, jit_compile=True, ignore_jit_warnings=True)
            run = MCMC(sampler, size.n_draws, size.n_adapt, initial_params=start, disable_progbar=True)
            run.run()
        draws, inputs = run.get_samples(), torch.tensor(x_new[:, np.newaxis])
        at = [network({name: part[i] for name, part in draws.items()}, inputs) for i in range(size.n_draws)]
        chains.append(torch.stack(at).numpy())
    return np.stack(chains)


def posterior_frame(size: Size, seed: int = 0) -> pd.DataFrame:
    """Return test rows with mean, standard deviation and R-hat of the sampled network."""
    from pyro.ops.stats import split_gelman_rubin
    from torch import tensor

    x, y, x_test, y_test = make_data()
    draws = sample_network(x, y, x_test, size, seed)
    std = np.sqrt(draws.var(axis=(0, 1)) + NOISE**2)
    r_hat = split_gelman_rubin(tensor(draws), chain_dim=0, sample_dim=1).numpy()
    return pd.DataFrame(
        {"x": x_test, "y": y_test, "mean": draws.mean(axis=(0, 1)), "std": std, "r_hat": r_hat}
    )


# --------------------------------------------------------------------------- Gaussian processes, exactly


def process_forecasts(
    n_functions: int, length_scale: float = 0.5, seed: int = 0
) -> tuple[np.ndarray, list[Normal]]:
    """Return test targets of functions drawn from a Gaussian process, and their exact forecasts."""
    rng = np.random.default_rng(seed)
    x, x_test = inputs(60, 201, rng)
    kernel = RBF(length_scale, "fixed") + WhiteKernel(NOISE**2, "fixed")
    X, X_test = x[:, np.newaxis], x_test[:, np.newaxis]
    root = np.linalg.cholesky(kernel(np.concatenate([X, X_test])))  # unlike an SVD, equal on all machines
    y = root @ rng.normal(size=(len(root), n_functions))
    process = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y[: x.size])
    mean, std = process.predict(X_test, return_std=True)
    return y[x.size :].T, [Normal(*moments) for moments in zip(mean.T, std.T, strict=True)]


# ----------------------------------------------------------------------------------------- curves and gains


def curves(y: np.ndarray, dist: Normal) -> dict[str, UncertaintyCharacteristicsCurve]:
    """Return the curve of the predicted bands and the curve of constant bands around the same means."""
    return {
        name: uncertainty_characteristics_curve(y, dist, bands=bands)
        for name, bands in (("model", "std"), ("constant", "constant"))
    }


def measure(y: np.ndarray, dist: Normal) -> dict[str, float]:
    """Return the gains as computed in the paper, and half widths at the paper's operating points."""
    pair = curves(y, dist)
    found = {}
    for name, part in ((WHOLE, None), (FEW, (0, 0.5))):
        model, constant = (curve.area(y_range=part) for curve in pair.values())
        found[name] = 100 * (1 - model / constant)
    for miss_rate in (HIGH, LOW):
        for name, curve in pair.items():
            found[f"half width at {miss_rate}, {name}"] = curve.operating_point(miss_rate=miss_rate).bandwidth
    return found


def crosses(found: dict[str, float] | pd.DataFrame) -> bool | pd.Series:
    """Return whether constant bands are narrower at the high miss rate and wider at the low miss rate."""
    higher, lower = (
        found[f"half width at {rate}, model"] - found[f"half width at {rate}, constant"]
        for rate in (HIGH, LOW)
    )
    return (higher > 0) & (lower < 0)


def if_calibrated(dist: Normal, n_repetitions: int = 500, seed: int = 0) -> dict[str, float]:
    """Return the results for independent errors with exactly the predicted standard deviations."""
    std = np.tile(dist.std(), n_repetitions)
    errors = std * np.random.default_rng(seed).normal(size=std.size)
    return measure(errors, Normal(np.zeros(std.size), std))


# ------------------------------------------------------------------------------------- the study, its tables


def study(frame: pd.DataFrame, n_functions: int = 200) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the results of the sampled network, and the results of each function of a Gaussian process."""
    dist = Normal(frame["mean"].to_numpy(), frame["std"].to_numpy())
    functions = pd.DataFrame([measure(*pair) for pair in zip(*process_forecasts(n_functions), strict=True)])
    quantiles = functions.quantile([0.1, 0.5, 0.9])
    rows = {
        "paper": PAPER,
        "network": measure(frame["y"].to_numpy(), dist),
        "network, if it were calibrated": if_calibrated(dist),
        **{f"Gaussian processes, {level:.0%} quantile": row for level, row in quantiles.iterrows()},
    }
    return pd.DataFrame(rows).T[list(functions)], functions


def shares(functions: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of the functions in percent for which statements about the curves are true."""
    true = {
        "larger gain at few misses": functions[FEW] > functions[WHOLE],
        "gain of the paper at few misses": functions[FEW] >= PAPER[FEW],
        "curves cross": crosses(functions),
    }
    return pd.DataFrame({"functions, %": 100 * pd.DataFrame(true).mean()}).rename_axis("statement")


def plot(frame: pd.DataFrame, file: Path) -> None:
    """Draw figure 4: bands of the network, both curves, and constant bands at the same miss rates."""
    import matplotlib.pyplot as plt

    from skuq.displays import UncertaintyCharacteristicsDisplay

    y, dist = frame["y"].to_numpy(), Normal(frame["mean"].to_numpy(), frame["std"].to_numpy())
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    shown = frame[::2]
    bands = {"model": shown["std"], "constant": np.ones(len(shown))}
    titles = {"model": "Network", "constant": "Constant width"}
    for (name, curve), ax, letters in zip(curves(y, dist).items(), axes[::2], ("AB", "CD"), strict=True):
        for letter, miss_rate, shade in zip(letters, (HIGH, LOW), (0.5, 0.25), strict=True):
            half = curve.operating_point(miss_rate=miss_rate).parameter * bands[name]
            low, high = shown["mean"] - half, shown["mean"] + half
            label = f"{letter}: miss rate {miss_rate}"
            ax.fill_between(shown["x"], low, high, color="C0", alpha=shade, linewidth=0, label=label)
        ax.plot(shown["x"], shown["y"], ".", color="black", markersize=2)
        ax.plot(shown["x"], shown["mean"], color="C0")
        ax.set(title=titles[name], xlabel="x", ylim=(-2.2, 2.2))
        ax.legend(frameon=False, loc="upper left")
    UncertaintyCharacteristicsDisplay.from_predictions(
        y, dist, name="network", miss_rate=[HIGH, LOW], original=False, ax=axes[1]
    )
    with plt.rc_context({"svg.hashsalt": "skuq"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def main(given: list[str] | None = None) -> pd.DataFrame:
    """Show the tables, and return the first."""
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="sample the network instead of reading the file")
    parser.add_argument("--out", type=Path, help="CSV file of the forecasts of a sampled network")
    parser.add_argument("--plot", type=Path, help="file of the figure")
    options = parser.parse_args(given)
    frame = posterior_frame(Size()) if options.full else pd.read_csv(FILE)
    if options.out:
        frame.round(4).to_csv(options.out, index=False)
    table, functions = study(frame)
    show("navratil_2023_posterior", table.rename_axis("bands"), decimals={WHOLE: 1, FEW: 1})
    show("navratil_2023_posterior-functions", shares(functions), decimals=0)
    print(f"R-hat is at most {frame['r_hat'].max():.3f}.")
    if options.plot:
        plot(frame, options.plot)
    return table


if __name__ == "__main__":
    main()
