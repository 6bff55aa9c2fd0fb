"""Compare the Gaussian process recalibrators with netcal, by ratios of times.

netcal needs minutes for each line of the table. With ``--quick``, netcal runs a part of its epochs and rows,
and its time is scaled up in proportion; ~ marks scaled times. Each side uses one thread. The last columns are
the mean negative log-likelihood on 20 000 new rows, minus the value for the true distribution.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from measuring import arguments, seconds

from skuq.distributions import Normal
from skuq.recalibration import GPBetaRecalibrator, GPCauchyRecalibrator, GPNormalRecalibrator

LEVELS = np.arange(1, 10) / 10
EPOCHS = 200  # the default of netcal


@dataclass(frozen=True)
class Sample:
    """Predictions, targets and the true distribution; netcal needs targets of the order of 1."""

    dist: Normal
    y: np.ndarray
    truth: Normal

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation, in the format of netcal."""
        return self.dist.loc, self.dist.scale


def draw(n: int, seed: int) -> Sample:
    """Return n rows whose true spread increases with |mean|, and nearly constant predictions of it."""
    rng = np.random.default_rng(seed)
    loc = rng.normal(size=n)
    truth = Normal(loc, 0.3 + 0.5 * np.abs(loc))
    scale = 0.7 * (1 + 0.01 * rng.uniform(size=n))
    return Sample(Normal(loc, scale), rng.normal(loc, truth.scale), truth)


def timed(function: Callable[[], object], rounds: int = 1) -> tuple[float, object]:
    """Return the best time of some calls, and the result of the last call."""
    found: list[object] = []
    best = min(seconds(lambda: found.append(function())) for _ in range(rounds))
    return best, found[-1]


def quietly(function: Callable[[], object]) -> Callable[[], object]:
    """Return the function without progress bars and without warnings."""

    def run() -> object:
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()

    return run


def loss(sample: Sample, log_density: np.ndarray) -> float:
    return float(np.mean(sample.truth.logpdf(sample.y) - log_density))


def line(what: str, n: int, own: float, peer: float, scaled: bool, own_loss: float, peer_loss: float) -> None:
    mark = "~" if scaled else " "
    times = f"{own:12.4f}{peer:12.2f}{mark}{peer / own:10.1f}{mark}"
    print(f"{what:34}{n:8d}{times}{own_loss:9.4f}{peer_loss:9.4f}", flush=True)


def compare_normal(n: int, new: Sample, quick: bool) -> None:
    """Fit with default settings, then transform."""
    import torch
    from netcal.regression import GPNormal

    torch.manual_seed(0)
    sample, epochs = draw(n, 0), 4 if quick else EPOCHS
    own, fitted = timed(lambda: GPNormalRecalibrator().fit(sample.dist, sample.y), 3)
    peer = GPNormal(n_epochs=epochs)
    other, _ = timed(quietly(lambda: peer.fit(sample.columns, sample.y)))
    recalibrated = fitted.transform(new.dist)
    std = np.ravel(quietly(lambda: peer.transform(new.columns))()).astype(float)
    scores = loss(new, recalibrated.logpdf(new.y)), loss(new, Normal(new.dist.loc, std).logpdf(new.y))
    peer_loss = np.nan if quick else scores[1]
    line("GPNormal fit", n, own, other * EPOCHS / epochs, quick, scores[0], peer_loss)
    own, _ = timed(lambda: fitted.transform(new.dist), 5)
    other, _ = timed(quietly(lambda: peer.transform(new.columns)))
    line("GPNormal transform", len(new.y), own, other, False, scores[0], peer_loss)


def compare_beta(n: int, new: Sample, quick: bool) -> None:
    """Fit with default settings, then transform and compute quantiles at nine levels."""
    import torch
    from netcal.regression import GPBeta

    torch.manual_seed(0)
    sample, epochs, rows = draw(n, 0), 2 if quick else EPOCHS, 200 if quick else n
    own, fitted = timed(lambda: GPBetaRecalibrator().fit(sample.dist, sample.y))
    peer = GPBeta(n_epochs=epochs)
    other, _ = timed(quietly(lambda: peer.fit(sample.columns, sample.y)))
    own_loss = loss(new, fitted.transform(new.dist).logpdf(new.y))
    line("GPBeta fit", n, own, other * EPOCHS / epochs, quick, own_loss, np.nan)

    loc, scale = new.columns
    own, _ = timed(lambda: fitted.transform(new.dist[:n]).quantile(LEVELS), 3)

    def peer_quantiles() -> tuple[np.ndarray, float]:
        grid, density, cdf = peer.transform((loc[:rows], scale[:rows]))
        columns = zip(grid[:, :, 0].T, density[:, :, 0].T, cdf[:, :, 0].T, strict=True)
        quantiles, log_density = [], np.empty(rows)
        for i, (x, f, levels) in enumerate(columns):
            quantiles.append(np.interp(LEVELS, levels, x))
            log_density[i] = np.log(np.maximum(np.interp(new.y[i], x, f), 1e-300))
        truth = new.truth[:rows].logpdf(new.y[:rows])
        return np.array(quantiles), float(np.mean(truth - log_density))

    other, (_, peer_loss) = timed(quietly(peer_quantiles))
    peer_loss = np.nan if quick else peer_loss
    line("GPBeta transform and 9 quantiles", n, own, other * n / rows, quick, own_loss, peer_loss)


def compare_own(sizes: tuple[int, ...], new: Sample) -> None:
    """Print the time for several numbers of rows, with all rows and with batches."""
    for n in sizes:
        sample = draw(n, 0)
        for recalibrator in (
            GPNormalRecalibrator(),
            GPNormalRecalibrator(batch_size=1000, random_state=0),
            GPCauchyRecalibrator(),
            GPBetaRecalibrator(),
            GPBetaRecalibrator(batch_size=1000, random_state=0),
        ):
            own, fitted = timed(lambda r=recalibrator, s=sample: r.fit(s.dist, s.y))
            what = type(recalibrator).__name__.replace("Recalibrator", " fit")
            batches = ", batches" if recalibrator.batch_size else ""
            score = loss(new, fitted.transform(new.dist).logpdf(new.y))
            line(what + batches, n, own, np.nan, False, score, np.nan)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="run a part of netcal's work, and scale its time up"
    )
    quick = parser.parse_args().quick
    new = draw(20_000, 1)
    print(
        f"{'what':34}{'rows':>8}{'skuq s':>12}{'netcal s':>12} {'ratio':>10} {'skuq':>9}{'netcal':>9}",
        flush=True,
    )
    base = loss(new, new.dist.logpdf(new.y))
    line("no recalibration", len(new.y), np.nan, np.nan, False, base, base)
    if importlib.util.find_spec("netcal") is None:
        print("netcal is not installed")
    else:
        import torch

        torch.set_num_threads(1)
        logging.disable(logging.INFO)  # messages of netcal's optimizer
        compare_normal(10_000, new, quick)
        compare_beta(10_000, new, quick)
    compare_own((1_000, 10_000) if quick else (1_000, 10_000, 100_000), new)


if __name__ == "__main__":
    main()
