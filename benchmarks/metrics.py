"""Compare metrics with other packages: `python benchmarks/metrics.py [part of a name]`.

Each line of the table compares skuq with a peer on the same values, in alternating calls. It contains the
median times, the factor by which skuq is faster, the target of this factor, and the peak memory of both.
Memory is in units of arrays of n numbers, in addition to the inputs. Both must return the same value.
Packages that are not installed are omitted. The peer "limit" is one pass over the rows, which the metric
needs at least.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from types import ModuleType

import numpy as np
from measuring import peak_bytes, times_in_turns
from scipy.special import ndtr
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge

from skuq.distributions import Empirical, Mixture, Normal
from skuq.evaluation import score_decomposition
from skuq.metrics import (
    adversarial_group_calibration_curve,
    crps_loss,
    expected_normalized_calibration_error,
    interval_score_loss,
    mean_absolute_calibration_error,
    miscalibration_area,
    nll_loss,
    pinball_loss,
    quantile_calibration_error,
    regression_calibration_curve,
    root_mean_squared_calibration_error,
    uncertainty_calibration_error,
    weighted_interval_score_loss,
)
from skuq.multivariate import EmpiricalJoint, energy_score_loss, variogram_score_loss
from skuq.prediction import predict_dist
from skuq.regressors import ForestDistributionRegressor, MultiQuantileRegressor, UncertaintyRegressor

ROUNDS, SECONDS_A_LINE = 15, 8.0
UT_LEVELS, PERCENT, TENTHS = np.linspace(0, 1, 100), np.arange(1, 100) / 100, np.arange(1, 10) / 10


@dataclass(frozen=True)
class Line:
    """Comparison of two functions; ``target`` is the factor by which skuq should be faster."""

    what: str
    n: int
    skuq: Callable[[], object]
    peer_name: str
    peer: Callable[[], object]
    target: float | None = None
    same: bool = True


@dataclass(frozen=True)
class Data:
    """Targets and normal forecasts, as arrays and as a distribution."""

    y: np.ndarray
    mu: np.ndarray
    s: np.ndarray
    dist: Normal


def make_data(n: int) -> Data:
    rng = np.random.default_rng(0)
    mu, s = rng.normal(size=n), 0.3 + rng.random(n)
    return Data(mu + s * rng.normal(size=n), mu, s, Normal(mu, s))


def load(name: str) -> ModuleType | None:
    """Return a package, or None if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        return None


def average_calibration(big: Data) -> Iterator[Line]:
    toolbox = load("uncertainty_toolbox")
    if toolbox is None:
        return
    y, mu, s, dist, n = big.y, big.mu, big.s, big.dist, big.y.size
    for kind in ("interval", "quantile"):
        curve = partial(regression_calibration_curve, y, dist, levels=UT_LEVELS, kind=kind)
        peer = partial(toolbox.get_proportion_lists_vectorized, mu, s, y, prop_type=kind)
        yield Line(
            f"calibration curve, 100 levels, {kind}",
            n,
            lambda curve=curve: curve().observed,
            "UT vectorized",
            lambda peer=peer: peer()[1],
            target=10,
            same=kind == "interval",  # the quantile curve of the peer is mirrored
        )
    for what, own, theirs in (
        ("MACE", mean_absolute_calibration_error, toolbox.mean_absolute_calibration_error),
        ("RMSCE", root_mean_squared_calibration_error, toolbox.root_mean_squared_calibration_error),
        ("miscalibration area, 100 levels", miscalibration_area, toolbox.miscalibration_area),
    ):
        by_skuq = partial(own, y, dist, levels=UT_LEVELS, kind="interval")
        yield Line(what, n, by_skuq, "UT vectorized", partial(theirs, mu, s, y, vectorized=True))
    exact, least = partial(miscalibration_area, y, dist), lambda: np.sort(ndtr((y - mu) / s))
    yield Line("miscalibration area, exact", n, exact, "limit: ndtr and sort", least, same=False)


def quantile_scores(big: Data) -> Iterator[Line]:
    toolbox = load("uncertainty_toolbox")
    if toolbox is None:
        return
    y, dist, n = big.y, big.dist, big.y.size
    peer = partial(toolbox.check_score, big.mu, big.s, y)
    yield Line("pinball loss, 99 levels", n, partial(pinball_loss, y, dist), "UT", peer, target=50)
    own, peer = partial(interval_score_loss, y, dist, coverage=PERCENT), toolbox.interval_score
    yield Line("interval score, 99 levels", n, own, "UT", partial(peer, big.mu, big.s, y), target=50)
    own, peer = partial(weighted_interval_score_loss, y, dist), partial(_wis_by_levels, y, dist)
    yield Line("weighted interval score, 11 intervals", n, own, "a pass per level", peer)


def _wis_by_levels(y: np.ndarray, dist: Normal) -> float:
    """Compute the weighted interval score by its definition."""
    total = 0.5 * np.abs(y - dist.loc)
    coverages = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
    for coverage in coverages:
        lower, upper = dist.interval(coverage).T
        alpha = 1 - coverage
        outside = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
        total = total + alpha / 2 * (upper - lower + 2 / alpha * outside)
    return float(total.mean() / (len(coverages) + 0.5))


def adversarial_groups(middle: Data) -> Iterator[Line]:
    toolbox = load("uncertainty_toolbox")
    if toolbox is None:
        return
    y, mu, s, dist = middle.y, middle.mu, middle.s, middle.dist
    yield Line(
        "adversarial group calibration, 1000 groups",
        y.size,
        lambda: adversarial_group_calibration_curve(
            y, dist, fractions=np.linspace(0, 1, 10), levels=UT_LEVELS, kind="interval", n_groups=10
        ),
        "UT",
        lambda: toolbox.adversarial_group_calibration(mu, s, y, "mean_abs"),
        target=200,
        same=False,  # the peer has other groups
    )


def binned_calibration(big: Data) -> Iterator[Line]:
    netcal = load("netcal.metrics")
    if netcal is None:
        return
    y, pair, dist, n = big.y, (big.mu, big.s), big.dist, big.y.size
    ence = partial(expected_normalized_calibration_error, y, dist)
    peers: dict[str, Callable[[], object]] = {
        "ENCE": lambda: float(netcal.ENCE().measure(pair, y).squeeze()),
        "UCE": lambda: float(np.squeeze(netcal.UCE().measure(pair, y))),
        "QCE": lambda: netcal.QCE(marginal=False).measure(pair, y, TENTHS, reduction="mean"),
    }
    uce = partial(uncertainty_calibration_error, y, dist)
    qce = partial(quantile_calibration_error, y, dist, strategy="uniform")
    for what, own, name, target in (
        ("ENCE, 10 bins of equal width", partial(ence, strategy="uniform"), "ENCE", 5),
        ("UCE, 10 bins of equal width", uce, "UCE", None),
        ("QCE, 9 levels, 10 bins of equal width", qce, "QCE", 20),
    ):
        yield Line(what, n, own, "netcal", peers[name], target)
    limit = partial(np.argsort, big.s)
    yield Line("ENCE, 10 bins of equal weight", n, ence, "limit: argsort", limit, same=False)


def proper_scores(big: Data) -> Iterator[Line]:
    y, mu, s, dist, n = big.y, big.mu, big.s, big.dist, big.y.size
    crps, z = partial(crps_loss, y, dist), (y - mu) / s
    yield Line("CRPS, normal", n, crps, "limit: ndtr", lambda: ndtr(z), same=False)
    rules = load("scoringrules")
    if rules is None:
        return
    name = "scoringrules"
    yield Line("CRPS, normal", n, crps, name, lambda: rules.crps_normal(y, mu, s).mean(), 1)
    nll = partial(nll_loss, y, dist)
    yield Line("NLL, normal", n, nll, name, lambda: rules.logs_normal(y, mu, s).mean(), 1)
    rng = np.random.default_rng(0)
    members, target = rng.normal(size=(10_000, 100)), rng.normal(size=10_000)
    for own, peer in (("nrg", "qd"), ("nrg", "pwm"), ("nrg", "int"), ("fair", "pwm")):
        yield Line(
            f"CRPS, 1e4 ensembles of 100, {own}",
            members.size,
            lambda own=own: crps_loss(target, Empirical(members), crps_estimator=own),
            f"{name} {peer}",
            lambda peer=peer: rules.crps_ensemble(target, members, estimator=peer).mean(),
            target=1.5,
            same=(own, peer) != ("nrg", "pwm"),  # divisors m^2 and m (m - 1)
        )


def several_targets() -> Iterator[Line]:
    """Compare scores of joint distributions; the default backend of the peer is numba if it is installed."""
    rules = load("scoringrules")
    if rules is None:
        return
    rng = np.random.default_rng(0)
    for n, m, d in ((200, 100, 2), (1000, 100, 3), (100, 200, 3), (10, 500, 8)):
        members, y = rng.normal(size=(n, m, d)), rng.normal(size=(n, d))
        dist = EmpiricalJoint(members)
        energy, variogram = rules.es_ensemble, partial(rules.vs_ensemble, p=0.5)
        for what, own, peer in (
            ("energy", energy_score_loss, energy),
            ("variogram", variogram_score_loss, variogram),
        ):
            yield Line(
                f"{what} score, {n} rows, {m} members, {d} targets",
                members.size,
                partial(own, y, dist),
                "scoringrules",
                lambda y=y, members=members, peer=peer: peer(y, members).mean(),
                target=5,
            )


def decompositions() -> Iterator[Line]:
    scoring = load("model_diagnostics.scoring")
    if scoring is None:
        return
    data = make_data(10_000)
    y, mu = data.y, data.mu

    def peer(function: object) -> np.ndarray:
        table = scoring.decompose(y_obs=y, y_pred=mu, scoring_function=function)
        return np.array(table.select("miscalibration", "discrimination", "uncertainty").row(0))

    def own(**options: object) -> np.ndarray:
        parts = score_decomposition(y, mu, **options)
        return np.array([parts.miscalibration, parts.discrimination, parts.uncertainty])

    functions = {
        "pinball loss at 0.9": (scoring.PinballLoss(level=0.9), {"score": "pinball", "levels": 0.9}, 20),
        "squared error": (scoring.SquaredError(), {"score": "squared_error"}, None),
    }
    for what, (function, options, target) in functions.items():
        yield Line(
            f"decomposition of the {what}",
            y.size,
            lambda options=options: own(**options),
            "model-diagnostics",
            lambda function=function: peer(function),
            target=target,
        )


def pools() -> Iterator[Line]:
    """Yield linear pools of two forecasts, compared with the scores of their members."""
    X, y = make_friedman1(2600, noise=1.0, random_state=0)
    train, test = slice(1600), slice(1600, None)
    boosting = HistGradientBoostingRegressor
    models = {
        "boosting": UncertaintyRegressor(boosting(max_iter=60)),
        "forest": ForestDistributionRegressor(RandomForestRegressor(60, random_state=0)),
        "quantiles": MultiQuantileRegressor(boosting(loss="quantile", max_iter=40)),
        "ridge": UncertaintyRegressor(Ridge()),
    }
    forecasts = {name: predict_dist(model.fit(X[train], y[train]), X[test]) for name, model in models.items()}
    for names in combinations(forecasts, 2):
        pair = [forecasts[name] for name in names]
        yield Line(
            f"CRPS, pool of {' and '.join(names)}",
            1000,
            lambda pair=pair: Mixture(pair, [0.4, 0.6]).crps(y[test]),
            "its members",
            lambda pair=pair: [member.crps(y[test]) for member in pair],
            target=1 / 15,
            same=False,
        )


def measure(line: Line) -> tuple[float, float]:
    """Return the median seconds of skuq and of the peer, measured in alternating calls."""
    own, peer = times_in_turns(line.skuq, line.peer, budget=SECONDS_A_LINE, most=ROUNDS)
    return statistics.median(own), statistics.median(peer)


def report(line: Line) -> str:
    """Return the row of the table."""
    if line.same:
        np.testing.assert_allclose(line.skuq(), line.peer(), rtol=1e-9, atol=1e-12, err_msg=line.what)
    memory = [peak_bytes(side) / (8 * line.n) for side in (line.skuq, line.peer)]
    own, peer = measure(line)
    target = "" if line.target is None else f"{line.target:.2g}"
    times = f"{1e3 * own:10.2f}{1e3 * peer:11.2f}{peer / own:8.2g}{target:>7}"
    return f"{line.what:44}{line.n:9d}  {line.peer_name:21}{times}{memory[0]:8.1f}{memory[1]:8.1f}"


def lines() -> Iterator[Line]:
    """Yield all comparisons."""
    yield from pools()
    big, middle = make_data(1_000_000), make_data(100_000)
    yield from average_calibration(big)
    yield from quantile_scores(big)
    yield from binned_calibration(big)
    yield from proper_scores(big)
    yield from several_targets()
    yield from adversarial_groups(middle)
    yield from decompositions()


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    warnings.simplefilter("ignore")
    head = f"{'what':44}{'rows':>9}  {'peer':21}{'skuq ms':>10}{'peer ms':>11}{'faster':>8}{'aim':>7}"
    print(f"{head}{'arrays':>8}{'peer':>8}")
    for line in lines():
        if wanted in line.what:
            print(report(line), flush=True)


if __name__ == "__main__":
    main()
