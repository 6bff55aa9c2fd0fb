"""Compare distributions and metrics with other packages and with the computations that they need at least.

UQ360 can no longer be imported, because it needs names that scipy 1.14 removed. Its algorithm is therefore
implemented in this script. Packages with a loop in Python get fewer rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np
import scoringrules
import uncertainty_toolbox as toolbox
from measuring import Line, arguments, compared, show
from netcal import metrics as netcal
from scipy import stats
from scipy.special import ndtr, ndtri

from skuq.distributions import Empirical, Normal
from skuq.evaluation import bootstrap_interval, uncertainty_report
from skuq.metrics import (
    adversarial_group_calibration_curve,
    crps_loss,
    expected_normalized_calibration_error,
    interval_score_loss,
    miscalibration_area,
    nll_loss,
    pinball_loss,
    quantile_calibration_error,
    regression_calibration_curve,
    uncertainty_calibration_error,
    uncertainty_characteristics_curve,
)

UT_LEVELS, PERCENT, TENTHS = np.linspace(0, 1, 100), np.arange(1, 100) / 100, np.arange(1, 10) / 10
UT = "Uncertainty Toolbox"


def forecast(n: int) -> tuple[np.ndarray, Normal]:
    """Return targets and calibrated normal forecasts."""
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=n), 0.3 + rng.random(n)
    return loc + scale * rng.normal(size=n), Normal(loc, scale)


def distribution_lines(n: int) -> Iterator[Line]:
    y, dist = forecast(n)
    loc, scale, p = dist.loc, dist.scale, np.random.default_rng(1).uniform(size=n)
    z, frozen, width, constant = (
        (y - loc) / scale,
        stats.norm(loc, scale),
        ndtri(0.95),
        math.log(2 * math.pi) / 2,
    )

    def logpdf() -> np.ndarray:
        return -0.5 * ((y - loc) / scale) ** 2 - np.log(scale) - constant

    def interval() -> np.ndarray:
        return np.column_stack([loc - width * scale, loc + width * scale])

    for what, own, reference, ref, same in (
        ("cdf", partial(dist.cdf, y), "limit: ndtr", partial(ndtr, z), True),
        ("ppf", partial(dist.ppf, p), "limit: ndtri", partial(ndtri, p), False),
        ("logpdf", partial(dist.logpdf, y), "numpy by hand", logpdf, True),
        ("interval", partial(dist.interval, 0.9), "numpy by hand", interval, True),
        ("cdf", partial(dist.cdf, y), "scipy.stats.norm", partial(frozen.cdf, y), True),
        ("logpdf", partial(dist.logpdf, y), "scipy.stats.norm", partial(frozen.logpdf, y), True),
    ):
        yield Line(f"``Normal.{what}``", n, reference, own, ref, same)


def average_calibration(n: int) -> Iterator[Line]:
    y, dist = forecast(n)
    mu, s = dist.loc, dist.scale
    for kind in ("interval", "quantile"):
        yield Line(
            f"calibration curve, 100 levels, {kind}",
            n,
            f"{UT}, vectorized",
            lambda kind=kind: regression_calibration_curve(y, dist, levels=UT_LEVELS, kind=kind).observed,
            lambda kind=kind: toolbox.get_proportion_lists_vectorized(mu, s, y, prop_type=kind)[1],
            same=kind == "interval",  # the quantile curve of the reference is mirrored
        )
    yield Line(
        "miscalibration area, 100 levels",
        n,
        f"{UT}, vectorized",
        lambda: miscalibration_area(y, dist, levels=UT_LEVELS, kind="interval"),
        lambda: toolbox.miscalibration_area(mu, s, y, vectorized=True),
        same=True,
    )
    exact, least = partial(miscalibration_area, y, dist), lambda: np.sort(ndtr((y - mu) / s))
    yield Line("miscalibration area, exact", n, "limit: ndtr and sort", exact, least)
    pair = (mu, s)
    ence = partial(expected_normalized_calibration_error, y, dist, strategy="uniform")
    uce = partial(uncertainty_calibration_error, y, dist)
    qce = partial(quantile_calibration_error, y, dist, strategy="uniform")
    for what, own, ref in (
        ("ENCE, 10 bins of equal width", ence, lambda: np.squeeze(netcal.ENCE().measure(pair, y))),
        ("UCE, 10 bins of equal width", uce, lambda: np.squeeze(netcal.UCE().measure(pair, y))),
        (
            "QCE, 9 levels, 10 bins of equal width",
            qce,
            lambda: netcal.QCE(marginal=False).measure(pair, y, TENTHS, reduction="mean"),
        ),
    ):
        yield Line(what, n, "netcal", own, ref, same=True)


def proper_scores(n: int) -> Iterator[Line]:
    y, dist = forecast(n)
    mu, s = dist.loc, dist.scale
    crps, nll, z = partial(crps_loss, y, dist), partial(nll_loss, y, dist), (y - mu) / s
    yield Line("CRPS, normal", n, "limit: ndtr", crps, partial(ndtr, z))
    for what, own, score in (
        ("CRPS, normal", crps, scoringrules.crps_normal),
        ("NLL, normal", nll, scoringrules.logs_normal),
    ):
        yield Line(what, n, "scoringrules", own, lambda score=score: score(y, mu, s).mean(), same=True)
    members, target = np.random.default_rng(0).normal(size=(n // 100, 100)), y[: n // 100]
    for own, ref in (("nrg", "qd"), ("fair", "pwm")):  # The faster estimators of the reference.
        yield Line(
            f'CRPS, ensembles of 100, "{own}"',
            n // 100,
            f'scoringrules, "{ref}"',
            lambda own=own: crps_loss(target, Empirical(members), crps_estimator=own),
            lambda ref=ref: scoringrules.crps_ensemble(target, members, estimator=ref).mean(),
            same=True,
        )


def loops_in_python(n: int) -> Iterator[Line]:
    y, dist = forecast(n)
    given = (dist.loc, dist.scale, y)
    pinball = partial(pinball_loss, y, dist)
    yield Line("pinball loss, 99 levels", n, UT, pinball, partial(toolbox.check_score, *given), same=True)
    interval = partial(interval_score_loss, y, dist, coverage=PERCENT)
    ref = partial(toolbox.interval_score, *given)
    yield Line("interval score, 99 levels", n, UT, interval, ref, same=True)


def quadratic_area(error: np.ndarray, band: np.ndarray) -> float:
    """Return the area below the characteristics curve, with one pass over the rows per critical scale."""
    size, points = np.abs(error), []
    for k in np.sort(size / band):
        gap = k * band - size
        axes = (k * band, np.maximum(-gap, 0), gap < -1e-12, np.maximum(gap, 0))
        points.append([axis.mean() for axis in axes])
    _, _, missed, excess = np.transpose(points)
    return float(np.trapezoid(missed, excess))


def slow_references(n: int) -> Iterator[Line]:
    y, dist = forecast(n)
    given = (dist.loc, dist.scale, y)

    def groups() -> object:
        fractions = np.linspace(0, 1, 10)
        options = {"fractions": fractions, "levels": UT_LEVELS, "kind": "interval", "n_groups": 10}
        return adversarial_group_calibration_curve(y, dist, **options)

    ref = partial(toolbox.adversarial_group_calibration, *given, "mean_abs")
    yield Line("adversarial groups, 1000 of them", n, UT, groups, ref)
    metrics = partial(toolbox.get_all_metrics, *given, verbose=False)
    few = partial(uncertainty_report, y, dist, n_resamples=0, n_draws=0)
    yield Line("report, values only", n, f"{UT}, all metrics", few, metrics)
    whole = partial(uncertainty_report, y, dist, random_state=0)
    yield Line("report with intervals and simulations", n, f"{UT}, all metrics", whole, metrics)
    yield Line(
        "UCC and its area",
        n,
        "algorithm of UQ360",
        lambda: uncertainty_characteristics_curve(y, dist).area(x_axis="excess", rule="uq360"),
        lambda: quadratic_area(y - dist.loc, dist.scale),
        same=True,
    )
    rows, rng = dist.crps(y), np.random.default_rng(0)
    interval = partial(bootstrap_interval, y, dist, "crps", n_resamples=1000, random_state=0)
    loop = lambda: [rng.choice(rows, n).mean() for _ in range(1000)]  # noqa: E731
    yield Line("``bootstrap_interval`` of the CRPS", n, "a loop over 1000 resamples", interval, loop)


def metric_lines(n: int) -> Iterator[Line]:
    yield from average_calibration(n)
    yield from proper_scores(n)
    y, dist = forecast(n)
    ratio = np.abs(y - dist.loc) / dist.scale
    curve = lambda: uncertainty_characteristics_curve(y, dist).area()  # noqa: E731
    yield Line("UCC and its area", n, "limit: argsort", curve, partial(np.argsort, ratio))
    yield from loops_in_python(n // 10)
    yield from slow_references(n // 100)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows; no memory is measured")
    quick = parser.parse_args().quick
    rows = 10_000 if quick else 1_000_000
    warnings.simplefilter("ignore")
    show("metrics-distributions", compared(distribution_lines(rows), quick))
    # Most of the time of a small run would be that of traced loops of other packages.
    show("metrics", compared(metric_lines(rows), quick, memory=not quick))


if __name__ == "__main__":
    main()
