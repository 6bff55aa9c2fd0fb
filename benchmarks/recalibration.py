"""Compare the Gaussian process recalibrators with netcal.

netcal does a part of the work, a few of its 200 epochs or of the rows, and its time is multiplied
accordingly.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from measuring import Line, arguments, compared, show
from netcal.regression import GPBeta, GPNormal

from skuq.distributions import Normal
from skuq.recalibration import GPBetaRecalibrator, GPNormalRecalibrator

LEVELS, EPOCHS, SOME_EPOCHS = np.arange(1, 10) / 10, 200, 2
"""Levels of the quantiles; the default number of epochs of netcal, and the number that it runs."""


def draw(n: int) -> tuple[Normal, np.ndarray]:
    """Return predictions with a nearly constant spread, and targets whose spread increases with |mean|."""
    rng = np.random.default_rng(0)
    loc = rng.normal(size=n)
    dist = Normal(loc, 0.7 * (1 + 0.01 * rng.uniform(size=n)))
    return dist, rng.normal(loc, 0.3 + 0.5 * np.abs(loc))


def lines(n: int) -> Iterator[Line]:
    dist, y = draw(n)
    columns = (dist.loc, dist.scale)
    for name, own, peer in (
        ("GPNormal", GPNormalRecalibrator(), GPNormal),
        ("GPBeta", GPBetaRecalibrator(), GPBeta),
    ):
        yield Line(
            f"{name}, fit",
            n,
            "netcal",
            lambda own=own: own.fit(dist, y),
            lambda peer=peer: peer(n_epochs=SOME_EPOCHS).fit(columns, y),
            repeats=EPOCHS / SOME_EPOCHS,
        )
    fitted, peer = own.fit(dist, y), GPBeta(n_epochs=SOME_EPOCHS).fit(columns, y)
    rows = 200

    def quantiles() -> np.ndarray:
        grid, _, cdf = peer.transform((dist.loc[:rows], dist.scale[:rows]))
        return np.array(
            [np.interp(LEVELS, p, x) for x, p in zip(grid[:, :, 0].T, cdf[:, :, 0].T, strict=True)]
        )

    yield Line(
        "GPBeta, transform and nine quantiles",
        n,
        "netcal",
        lambda: fitted.transform(dist).quantile(LEVELS),
        quantiles,
        repeats=n / rows,
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="use a tenth of the rows")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    logging.disable(logging.INFO)  # messages of netcal's optimizer
    warnings.simplefilter("ignore")
    with contextlib.redirect_stderr(io.StringIO()):  # progress bars
        table = compared(lines(1000 if quick else 10_000), quick)
    show("recalibration", table)


if __name__ == "__main__":
    main()
