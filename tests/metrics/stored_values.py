"""Values of all metrics and reports for fixed forecasts, to find changes of a value.

``python tests/metrics/stored_values.py`` writes the values to a file. ``python tests/metrics/stored_values.py
compare`` lists the values that differ from the file. The random inputs come from a generator that numpy never
changes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.naive_bayes import GaussianNB

from skuq.distributions import (
    Distribution,
    Empirical,
    Mixture,
    Normal,
    Quantiles,
    ScipyDistribution,
    StudentT,
)
from skuq.evaluation import uncertainty_report
from skuq.metrics._spec import MetricSpec, all_specs
from skuq.multivariate import EmpiricalJoint, NormalJoint

STORED = Path(__file__).with_name("stored_values.npz")
SIZES = (1, 2, 3, 7, 20, 45, 120, 300)
N_FORECASTS = 200
TOLERANCE = 1e-12
"""Largest difference of two values, relative to the largest number in the computation."""

OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "mace": ({"levels": 5, "kind": "interval"}, {"levels": [0.5, 0.1, 0.9, 1.0]}),
    "rmsce": ({"levels": [0.0, 0.25, 0.8]}, {"kind": "interval"}),
    "agce": ({"n_groups": 3, "n_resamples": 2, "fraction": 0.3, "replace": True, "error": "rmsce"},),
    "miscal_area": ({"kind": "interval"}, {"levels": [0.0, 0.3, 1.0]}, {"levels": 20, "kind": "interval"}),
    "cals": ({"levels": 3, "level_weights": [1.0, 0.0, 2.0]}, {"reduction": "mean", "kind": "interval"}),
    "ecpe": ({"levels": 10},),
    "picp": ({"coverage": 0.5},),
    "interval_coverage_error": ({"coverage": 0.6},),
    "mpiw": ({"coverage": 0.5},),
    "ece": (
        {"n_bins": 4, "strategy": "quantile", "norm": "squared"},
        {"classwise": True, "norm": "debiased"},
    ),
    "ence": ({"n_bins": 3, "strategy": "uniform"}, {"n_bins": 1}),
    "uce": ({"n_bins": 4, "strategy": "quantile"}, {"n_bins": 2, "on": "std"}),
    "nmpiw": ({"coverage": 0.5, "scale": "std"}, {"y_train": [0.0, 2.0, 5.0]}),
    "cwc": ({"eta": 2.0, "scale": "std"}, {"formula": "mapie"}, {"y_train": [0.0, 3.0], "eta": 1.0}),
    "set_coverage": ({"coverage": 0.6},),
    "set_size": ({"coverage": 0.6},),
    "set_coverage_error": ({"coverage": 0.6, "signed": True},),
    "crps": ({"crps_estimator": "fair"},),
    "crps_miscalibration": ({"levels": 5}, {"levels": [0.2, 0.9]}),
    "crps_discrimination": ({"levels": 5},),
    "crps_uncertainty": ({"levels": 5},),
    "qce": ({"levels": [0.2, 0.7], "n_bins": 3}, {"strategy": "uniform", "n_bins": 4, "marginal": True}),
    "pinball": ({"levels": 4}, {"levels": [0.9, 0.1]}),
    "interval_score": ({"coverage": 0.5},),
    "wis": ({"coverage": (0.5, 0.9)},),
    "twcrps": ({"lower": 0.3}, {"lower": -1.0, "upper": 2.0}),
    "qwcrps": ({"weighting": "right"}, {"weighting": "center"}),
    "twnll": ({"lower": 0.3}, {"lower": -1.0, "upper": 2.0}),
    "sharpness": ({"kind": "rms"}, {"kind": "variance"}),
    "crpss": ({"y_train": [0.0, 2.0, 5.0]}, {"reference": Normal([0.5], [2.0])}),
    "msll": ({"y_train": [0.0, 2.0, 5.0]}, {"reference": Normal([0.5], [2.0])}),
    "miss_rate": ({"coverage": 0.5},),
    "bandwidth": ({"coverage": 0.5},),
    "excess": ({"coverage": 0.5, "side": "active"},),
    "deficit": ({"coverage": 0.5},),
    "auucc": (
        {"x_axis": "excess", "y_axis": "deficit", "vary": "bias"},
        {"rule": "trapezoid", "normalize": "std", "x_range": (0.0, 2.0)},
        {"bands": "constant", "rule": "rectangle"},
    ),
    "auucc_gain": ({"denominator": "model", "vary": "bias"}, {"y_axis": "deficit", "rule": "uq360"}),
    "wsc": ({"n_trials": 20, "coverage": 0.6},),
    "energy_score": ({"crps_estimator": "fair", "scale": "std"},),
    "variogram_score": ({"p": 1.0, "crps_estimator": "fair"},),
    "mean_crps": ({"scale": [1.0, 2.0]},),
    "linear_crps": ({"w": [1.0, -1.0]},),
    "dawid_sebastiani": ({"crps_estimator": "fair"},),
}
"""Options of each metric beside its defaults. Each forecast uses one of these sets."""


@dataclass(frozen=True, eq=False)
class Case:
    """Targets, forecast and weights."""

    name: str
    y: Any
    forecast: Any
    weight: Any
    features: Any = None

    @property
    def unit(self) -> float:
        """Return the largest number in the computation, or 1 for classes."""
        if np.ndim(self.y) == 2 or self.name.startswith(("classes", "sets")):
            return 1.0
        numbers = [np.abs(self.y).max()]
        numbers += [np.abs(self.forecast.mean()).max()] if isinstance(self.forecast, Distribution) else []
        return float(max(1.0, *numbers))


def cases() -> list[Case]:
    """Return random forecasts of all kinds, with few and many rows."""
    rng = np.random.RandomState(0)
    return [_case(i, SIZES[i // 10 % len(SIZES)], rng) for i in range(N_FORECASTS)]


def _case(i: int, n: int, rng: np.random.RandomState) -> Case:
    loc, scale = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    y = loc + 0.2 + 1.2 * scale * rng.normal(size=n)
    weights = (None, rng.randint(4, size=n).astype(float), rng.uniform(0.1, 2.0, size=n))
    weight = weights[i % 3]
    if weight is not None and weight.sum() == 0:
        weight = np.ones(n)
    kind = i % 10
    if kind < 2:
        return Case(f"normal {i}", y, Normal(loc, scale), weight, rng.normal(size=(n, 2)))
    if kind == 2:
        levels = np.arange(1, 28) / 28
        offset = np.sort(rng.normal(size=(n, 27)), axis=1)
        return Case(f"quantiles {i}", y, Quantiles(levels, loc[:, None] + scale[:, None] * offset), weight)
    if kind == 3:
        offset = np.array([-1.5, -0.6, 0.0, 0.4, 1.9])
        levels = np.array([0.05, 0.3, 0.5, 0.7, 0.95])
        return Case(
            f"few quantiles {i}", y, Quantiles(levels, loc[:, None] + scale[:, None] * offset), weight
        )
    if kind == 4:
        samples = loc[:, None] + scale[:, None] * rng.normal(size=(n, 20))
        return Case(f"samples {i}", y, Empirical(samples), weight)
    if kind == 5:  # Many targets equal a member of their ensemble.
        counts = rng.poisson(3.0, size=(n, 8)).astype(float)
        return Case(f"counts {i}", rng.poisson(3.0, size=n).astype(float), Empirical(counts), weight)
    if kind == 6:
        width = 1.5 * scale
        bounds = np.column_stack([loc - width, loc + width])
        return Case(f"bounds {i}", y, bounds, weight, rng.normal(size=(n, 2)))
    if kind == 7:
        others = [
            StudentT(loc, scale, np.full(n, 5.0)),
            Mixture([Normal(loc, scale), Normal(loc + 1, 2 * scale)]),
        ]
        others += [
            ScipyDistribution(stats.gamma(a=np.full(n, 2.0), scale=scale)),
            Normal(np.zeros(n), np.ones(n)),
        ]
        return Case(f"other family {i}", y, others[i // 10 % 4], weight)
    if kind == 8:
        proba = rng.dirichlet(np.ones(3), size=n)
        codes = (rng.uniform(size=(n, 1)) > proba.cumsum(axis=1)[:, :2]).sum(axis=1)
        if i // 10 % 3 == 0:
            return Case(f"sets {i}", codes, proba > 0.2, weight)
        return Case(f"classes {i}", codes, proba, weight)
    points = np.column_stack([loc, -loc])
    targets = points + rng.normal(size=(n, 2))
    if i // 10 % 2:
        return Case(
            f"joint samples {i}",
            targets,
            EmpiricalJoint(points[:, None] + rng.normal(size=(n, 6, 2))),
            weight,
        )
    return Case(
        f"joint normal {i}",
        targets,
        NormalJoint(points, np.broadcast_to([[2.0, 0.5], [0.5, 1.0]], (n, 2, 2))),
        weight,
    )


def _fits(spec: MetricSpec, case: Case) -> bool:
    if case.name.startswith("joint"):
        return spec.of_targets
    if case.name.startswith("sets"):
        return spec.needs == "set"
    if case.name.startswith("classes"):
        return spec.of_classes
    if case.name.startswith("bounds"):
        fits = spec.needs == "interval"
    else:
        fits = not spec.of_classes and not spec.of_targets
    return fits and (not spec.needs_X or (case.features is not None and 20 <= len(case.y) <= 120))


def metric_values(tens: Container[int] = range(N_FORECASTS)) -> Iterator[tuple[str, float, float]]:
    """Yield the name, the value and the allowed difference of each metric of each forecast.

    Ten consecutive forecasts of all kinds have the same number of rows; only those in `tens` are used. An
    undefined metric is NaN.
    """
    for i, case in enumerate(cases()):
        if i // 10 not in tens:
            continue
        for name, spec in all_specs(rooms=True).items():
            if not _fits(spec, case):
                continue
            others = OPTIONS.get(name, ())
            chosen = [{}] if spec.ready_made and (not spec.needs_X or name == "wsc") else []
            chosen += [others[(i // 10) % len(others)]] if others else []
            if name == "ert":  # The default classifier of another version of scikit-learn has other values.
                chosen = [{"classifier": GaussianNB(), "norm": norm} for norm in ("l1", "l2")]
            for place, options in enumerate(chosen):
                value = _value(spec, case, options)
                units = spec.units if isinstance(spec.units, int) else 0
                largest = max(case.unit**units, abs(value) if np.isfinite(value) else 1.0)
                yield f"{case.name} {name} {place}", value, TOLERANCE * largest


def _value(spec: MetricSpec, case: Case, options: dict[str, Any]) -> float:
    given = dict(options)
    if spec.random:
        given["random_state"] = 0
    if spec.of_classes:
        given["labels"] = [0, 1, 2]
    arguments = (case.y, case.forecast, case.features) if spec.needs_X else (case.y, case.forecast)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return spec.function(*arguments, sample_weight=case.weight, **given)
    except ValueError:
        return np.nan


REPORTED = (50, 51, 61, 42, 62, 53, 54, 65, 46, 27, 48, 58)
"""Forecasts whose reports are compared: one of each kind, with and without weights."""


def report_values() -> Iterator[tuple[str, float, float]]:
    """Yield the name, the value and the allowed difference of each number of some reports."""
    listed = cases()
    columns = ["value", "low", "high", "calibrated", "calibrated_low", "calibrated_high"]
    for place in REPORTED:
        case = listed[place]
        of_classes = case.name.startswith(("classes", "sets"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = uncertainty_report(
                case.y,
                case.forecast,
                sample_weight=case.weight,
                labels=[0, 1, 2] if of_classes else None,
                n_resamples=40,
                n_draws=20,
                random_state=0,
            )
        for name in table.index:
            units = all_specs()[name].units
            for column in columns:
                value = float(table.loc[name, column])
                largest = max(
                    case.unit ** (units if isinstance(units, int) else 0),
                    abs(value) if np.isfinite(value) else 1.0,
                )
                yield f"report {case.name} {name} {column}", value, TOLERANCE * largest


def differences(computed: Iterator[tuple[str, float, float]], stored: dict[str, float]) -> list[str]:
    """Return a line for each value that differs from the stored value or is not stored."""
    lines = []
    for name, value, allowed in computed:
        before = stored.get(name, np.inf)
        if not (value == before or abs(value - before) <= allowed or (np.isnan(value) and np.isnan(before))):
            lines.append(f"{name}: {value!r}, stored {before!r}")
    return lines


def read(kind: str) -> dict[str, float]:
    """Return the stored values of the kind, "metric" or "report", by name."""
    with np.load(STORED) as held:
        return dict(zip(held[f"{kind}_names"].tolist(), held[f"{kind}_values"].tolist(), strict=True))


def main() -> None:
    """Write the values, or compare them with the file."""
    kinds = {"metric": metric_values, "report": report_values}
    if sys.argv[1:] == ["compare"]:
        found = [line for kind, computed in kinds.items() for line in differences(computed(), read(kind))]
        sys.stdout.write("\n".join(found or ["All values are equal."]) + "\n")
        return
    arrays = {}
    for kind, computed in kinds.items():
        names, values, _ = zip(*computed(), strict=True)
        arrays |= {f"{kind}_names": np.array(names), f"{kind}_values": np.array(values)}
        sys.stdout.write(f"{kind}: {len(names)} values, {np.isnan(values).sum()} undefined\n")
    np.savez_compressed(STORED, **arrays)


if __name__ == "__main__":
    main()
