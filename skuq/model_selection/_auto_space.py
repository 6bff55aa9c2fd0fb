"""Search space: base models with their parameters and methods, and recalibrators."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import loguniform, randint, uniform
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge

from skuq._fitting.cross_fit import check_recalibrator
from skuq._fitting.table import ENCODINGS
from skuq._validation import check_option
from skuq.prediction import supports_dist
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import MixtureRegressor, UncertaintyRegressor
from skuq.regressors._default_estimators import (
    HIST_BOOSTING,
    LIGHTGBM,
    has_networks,
    make_deep_ensemble,
    make_lightgbm,
)
from skuq.regressors._methods import build, methods_for

USES = ("imports", "probes", "trials", "choice", "refits")
"""Uses whose time is measured. All other time is reported as "other"."""
GROWTH = (0.3, 0.85, 1.1)
"""The time of a fit is a power of the number of rows: the smallest, the likely and the largest exponent."""
UNCERTAINTY = 2.0
"""Largest assumed ratio of the time of a fit to its stated time."""
MAX_POWER = 3.0


class Cost(NamedTuple):
    """Time of an import in seconds, and time of a fit in seconds per row, on an ordinary computer."""

    imports: float
    seconds: float
    per_row: float

    def fit(self, rows: int) -> float:
        return self.seconds + self.per_row * rows


class Forecast(NamedTuple):
    """Smallest, likely and largest time of a fit, in seconds."""

    low: float
    likely: float
    high: float

    def __mul__(self, factor: object) -> Forecast:
        if not isinstance(factor, int | float):
            return NotImplemented
        return Forecast(*(factor * one for one in (self.low, self.likely, self.high)))

    def plus(self, other: Forecast) -> Forecast:
        return Forecast(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING_KNOWN = Forecast(0.0, 0.0, math.inf)


def clock() -> float:
    """Return the time in seconds. All processes have the same clock, so deadlines can be shared."""
    return time.time()


class Budget:
    """Time budget of a search.

    The time starts when this object is constructed. ``seconds=None`` means no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.begin = clock()
        self.seconds = seconds
        self.spent = dict.fromkeys(USES, 0.0)
        self._slowest: dict[Hashable, dict[int, float]] = {}

    def remaining(self) -> float:
        return float("inf") if self.seconds is None else self.begin + self.seconds - clock()

    @contextmanager
    def account(self, use: str) -> Iterator[None]:
        """Add the time of the block to the time of a use. Do not nest such blocks."""
        start = clock()
        try:
            yield
        finally:
            self.spent[use] += clock() - start

    def uses(self) -> dict[str, float]:
        total = clock() - self.begin
        return {**self.spent, "other": total - sum(self.spent.values()), "total": total}

    def observe(self, kind: Hashable, rows: int, seconds: float) -> None:
        of_kind = self._slowest.setdefault(kind, {})
        of_kind[rows] = max(of_kind.get(rows, 0.0), seconds)

    def largest(self, kind: Hashable) -> int:
        return max(self._slowest.get(kind, {0: 0.0}))

    def forecast(self, kind: Hashable, rows: int, cost: Cost | None = None) -> Forecast:
        """Return the time of a fit, interpolated or extrapolated from the slowest fits of its kind."""
        slowest = self._slowest.get(kind)
        if not slowest:
            if cost is None:
                return NOTHING_KNOWN
            seconds = cost.fit(rows)
            return Forecast(seconds / UNCERTAINTY, seconds, UNCERTAINTY * seconds)
        sizes = sorted(slowest)
        if rows <= sizes[-1]:
            seconds = slowest[next(size for size in sizes if size >= rows)]
            return Forecast(seconds, seconds, seconds)
        # nearly equal numbers of rows do not show how the time grows with the number of rows
        last = max(slowest[size] for size in sizes if 2 * size > sizes[-1])
        ratio = rows / sizes[-1]
        sizes = [*(size for size in sizes if 2 * size <= sizes[-1]), sizes[-1]]
        if len(sizes) == 1:
            low, likely, high = (last * ratio**power for power in GROWTH)
            return Forecast(low, likely, high)
        before, factor = slowest[sizes[-2]], sizes[-1] / sizes[-2]
        power = min(max(math.log(max(last, 1e-9) / max(before, 1e-9)) / math.log(factor), 0.0), MAX_POWER)
        line = last + max(last - before, 0.0) * (rows - sizes[-1]) / (sizes[-1] - sizes[-2])
        growing = last * ratio**power
        return Forecast(min(growing, line), max(growing, line), last * ratio ** (max(power, 1.0) + 0.1))

    def expected(self, kind: Hashable, rows: int, cost: Cost | None = None) -> float:
        return self.forecast(kind, rows, cost).likely

    def latest_start(self, seconds: float, reserve: float) -> float:
        return clock() + self.remaining() - reserve - seconds


_NUMBERS = {"uniform": False, "loguniform": True, "reciprocal": True, "randint": False}
"""Supported scipy distributions of a parameter. The value tells whether the logarithm of the parameter is
uniform."""

_RESERVED = {"splitter", *MixtureRegressor([]).get_params(deep=False)}
"""Names that are reserved by `MixtureRegressor`."""
DRAWS = 1000
"""After this number of draws without a new candidate, all candidates whose parameters have finite lists are
listed."""
POOL = "pool"
"""Name of the pool in the leaderboard."""
_SIZES = ("n_estimators", "iterations", "max_iter")
"""Names of parameters to which the time of a fit is proportional."""


@dataclass(eq=False)
class Deferred:
    """Base model of the default space. Its package is imported on first use."""

    name: str
    make: Callable[[], Any]
    packages: tuple[str, ...]
    cost: Cost
    params: dict[str, Any]
    out_of_bag: bool = False

    def __repr__(self) -> str:
        return f"{self.name} of the default space"


@dataclass(frozen=True)
class Candidate:
    """Name of a base model, method, and parameters of the base model."""

    base: str
    method: str
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[str, str]:
        """Return the base model and the method. Both determine the time of a fit."""
        return self.base, self.method


@dataclass(frozen=True)
class Values:
    """Parameter with a list of values of any type. The sampler uses positions in the list."""

    values: tuple[Any, ...]

    def start(self, value: Any) -> Any:
        return value if any(_same(value, one) for one in self.values) else self.values[len(self.values) // 2]

    def draw(self, rng: np.random.RandomState) -> Any:
        return self.values[rng.randint(len(self.values))]

    def suggest(self, trial: Any, name: str) -> Any:
        return self.values[trial.suggest_categorical(name, tuple(range(len(self.values))))]

    def listed(self) -> Iterable[Any] | None:
        return self.values

    def encode(self, value: Any) -> int:
        return next(i for i, one in enumerate(self.values) if _same(value, one))


@dataclass(frozen=True)
class Range:
    low: float
    high: float
    log: bool
    integer: bool

    def start(self, value: Any) -> Any:
        kinds = (int,) if self.integer else (int, float)
        inside = type(value) in kinds and self.low <= value <= self.high
        return value if inside else self._between(0.5)

    def draw(self, rng: np.random.RandomState) -> Any:
        if self.integer:
            return int(rng.randint(int(self.low), int(self.high) + 1))
        return self._between(rng.uniform())

    def suggest(self, trial: Any, name: str) -> Any:
        if self.integer:
            return trial.suggest_int(name, int(self.low), int(self.high))
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def listed(self) -> Iterable[Any] | None:
        return range(int(self.low), int(self.high) + 1) if self.integer else None

    def encode(self, value: Any) -> Any:
        return value

    def _between(self, share: float) -> Any:
        if self.log:
            return math.exp((1 - share) * math.log(self.low) + share * math.log(self.high))
        value = (1 - share) * self.low + share * self.high
        return round(value) if self.integer else value


def _same(value: Any, other: Any) -> bool:
    """Return whether two values are equal. True and 1 are different, and NaN equals NaN."""
    if isinstance(value, float) and isinstance(other, float) and math.isnan(value) and math.isnan(other):
        return True
    return type(value) is type(other) and bool(value == other)


@dataclass(frozen=True)
class Base:
    estimator: Any
    methods: tuple[str, ...]
    params: dict[str, Values | Range]
    encoding: str | None = None

    def own(self) -> dict[str, Any]:
        if isinstance(self.estimator, Deferred):
            return self.estimator.params
        return dict(self.estimator.get_params()) if self.params else {}

    def first(self, name: str, method: str) -> Candidate:
        own = self.own()
        return Candidate(
            name, method, {key: domain.start(own.get(key)) for key, domain in self.params.items()}
        )


@dataclass(frozen=True)
class Space:
    """All candidates, and the recalibrators that each candidate may use."""

    bases: dict[str, Base]
    recalibrators: dict[str, Any]

    def first(self) -> Iterator[Candidate]:
        """Yield each base model with its own parameters, first with its first method, then with others."""
        deepest = max(len(base.methods) for base in self.bases.values())
        for place in range(deepest):
            for name, base in self.bases.items():
                if place < len(base.methods):
                    yield base.first(name, base.methods[place])

    def kinds(self) -> list[tuple[str, str]]:
        return [(name, method) for name, base in self.bases.items() for method in base.methods]

    def draw(self, rng: np.random.RandomState) -> Candidate:
        name = list(self.bases)[rng.randint(len(self.bases))]
        base = self.bases[name]
        method = base.methods[rng.randint(len(base.methods))]
        return Candidate(name, method, {key: domain.draw(rng) for key, domain in base.params.items()})

    def draw_new(
        self, rng: np.random.RandomState, seen: Container[Hashable], closed: Container[Hashable] = ()
    ) -> Candidate | None:
        """Return a random candidate, or None.

        The candidate is not in ``seen``, and its kind is not closed.
        """

        def is_new(candidate: Candidate) -> bool:
            return candidate.kind not in closed and self.key(candidate) not in seen

        if all(kind in closed for kind in self.kinds()):
            return None
        for _ in range(DRAWS):
            candidate = self.draw(rng)
            if is_new(candidate):
                return candidate
        return next(filter(is_new, self.listed()), None)

    def size(self, candidate: Candidate) -> float:
        own = self.bases[candidate.base].own()
        factor = 1.0
        for name in _SIZES:
            values = candidate.params.get(name), own.get(name)
            if all(isinstance(value, int | float) and value > 0 for value in values):
                factor *= values[0] / values[1]  # type: ignore[operator]
        return factor

    def smallest(self, candidate: Candidate) -> Candidate:
        params = dict(candidate.params)
        for name in set(_SIZES) & set(params):
            domain = self.bases[candidate.base].params[name]
            if isinstance(domain, Values) and all(isinstance(one, int | float) for one in domain.values):
                params[name] = min(domain.values)
        return Candidate(candidate.base, candidate.method, params)

    def listed(self) -> Iterator[Candidate]:
        for name, base in self.bases.items():
            values = [domain.listed() for domain in base.params.values()]
            finite = [one for one in values if one is not None]
            if len(finite) == len(values):
                for method, *params in itertools.product(base.methods, *finite):
                    yield Candidate(name, method, dict(zip(base.params, params, strict=True)))

    def key(self, candidate: Candidate) -> Hashable:
        return tuple(sorted(self.encode(candidate).items()))

    def suggest(self, trial: Any) -> Candidate:
        name = trial.suggest_categorical("base", tuple(self.bases))
        base = self.bases[name]
        method = trial.suggest_categorical(f"{name}: method", base.methods)
        params = {key: domain.suggest(trial, f"{name}: {key}") for key, domain in base.params.items()}
        return Candidate(name, method, params)

    def encode(self, candidate: Candidate) -> dict[str, Any]:
        name, base = candidate.base, self.bases[candidate.base]
        params = {f"{name}: {key}": base.params[key].encode(value) for key, value in candidate.params.items()}
        return {"base": name, f"{name}: method": candidate.method, **params}

    def build(self, candidate: Candidate, cv: Any, seed: int) -> UncertaintyRegressor:
        """Return the unfitted regressor. If ``cv`` is a splitter, the method also uses it."""
        estimator = self.bases[candidate.base].estimator
        estimator = estimator.make() if isinstance(estimator, Deferred) else clone(estimator)
        estimator.set_params(**{key: clone(value, safe=False) for key, value in candidate.params.items()})
        method: Any = candidate.method
        return UncertaintyRegressor(estimator, method, effort="low", cv=cv, random_state=seed)


def methods_of(estimator: Any, random_folds: bool) -> tuple[str, ...]:
    """Return the methods of all rules that apply, with "native" instead of "recalibrated"."""
    as_it_is = "native" if supports_dist(estimator) else "quantile"
    found = methods_for(estimator, random_folds=random_folds)
    return tuple(dict.fromkeys(as_it_is if method == "recalibrated" else method for method in found))


def read_space(space: Any, random_folds: bool) -> Space:
    """Return the checked search space.

    The argument has the form that `AutoUncertaintyRegressor.search_space` returns.
    """
    if not isinstance(space, Mapping) or set(space) - {"estimators", "recalibrators"}:
        got = sorted(map(str, space)) if isinstance(space, Mapping) else type(space).__name__
        raise ValueError(
            "`space` must be a dict with the keys 'estimators' and 'recalibrators', such as the result of "
            f"search_space(), got {got}."
        )
    estimators = space.get("estimators")
    if not isinstance(estimators, Mapping) or not estimators:
        raise ValueError("`space['estimators']` must be a dict with at least one base model.")
    recalibrators = space.get("recalibrators") or {"none": None}
    if not isinstance(recalibrators, Mapping):
        raise ValueError("`space['recalibrators']` must be a dict of recalibrators by name.")
    for name, recalibrator in recalibrators.items():
        with _at(f"space['recalibrators'][{name!r}]"):
            check_recalibrator(recalibrator)
    if len({str(name) for name in estimators}) < len(estimators):
        raise ValueError(
            f"`space['estimators']` must have keys that are different when converted to strings, got "
            f"{list(estimators)}."
        )
    bases = {str(name): _read_base(str(name), entry, random_folds) for name, entry in estimators.items()}
    return Space(bases, {str(name): one for name, one in recalibrators.items()})


def _read_base(name: str, entry: Any, random_folds: bool) -> Base:
    place = f"space['estimators'][{name!r}]"
    if name == POOL:
        raise ValueError(
            f"`space['estimators']` must not contain the name {name!r}, which is the name of the pool."
        )
    if "__" in name or name in _RESERVED:
        raise ValueError(
            f"`space['estimators']` must not contain the name {name!r}. Names with '__' and names of "
            "parameters of `MixtureRegressor` are reserved."
        )
    if not isinstance(entry, Mapping) or "estimator" not in entry:
        raise ValueError(f"`{place}` must be a dict with the key 'estimator', got {entry!r}.")
    if unknown := set(entry) - {"estimator", "methods", "params", "encoding"}:
        raise ValueError(
            f"`{place}` must have no keys except 'estimator', 'methods', 'params' and 'encoding', got "
            f"{sorted(map(str, unknown))}."
        )
    encoding = check_option(entry.get("encoding"), f"{place}['encoding']", (None, *ENCODINGS))
    params = entry.get("params") or {}
    estimator = entry["estimator"]
    if isinstance(estimator, Deferred):
        domains = {key: _read_domain(key, value) for key, value in params.items()}
        return Base(estimator, tuple(entry["methods"]), domains, encoding)
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(f"`{place}['estimator']` must be a regressor, got {estimator!r}.")
    known = set(clone(estimator).get_params()) if params else set()
    if (code := getattr(type(estimator).__init__, "__code__", None)) is not None:
        # for CatBoost, `get_params` returns only parameters that the user has set
        known |= set(code.co_varnames[: code.co_argcount])
    if unknown := set(params) - known:
        raise ValueError(
            f"`{place}['params']` must only have names of parameters of {type(estimator).__name__} as keys, "
            f"got "
            f"{sorted(map(str, unknown))}."
        )
    domains = {key: _read_domain(f"{place}['params'][{key!r}]", value) for key, value in params.items()}
    methods = entry.get("methods") or methods_of(estimator, random_folds)
    if not isinstance(methods, list | tuple):
        raise TypeError(f"`{place}['methods']` must be a list of methods, got {methods!r}.")
    method: Any
    for method in methods:  # raises if a method is unknown or does not apply
        with _at(f"{place}['methods']"):
            one = UncertaintyRegressor(estimator, method)
            build(one._resolve(), one)
    if not random_folds:  # out-of-bag rows are random
        methods = [one for one in methods if one not in {"forest", "bootstrap"}] or methods_of(
            estimator, False
        )
    return Base(estimator, tuple(methods), domains, encoding)


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Add the position in the search space to the beginning of an error message."""
    try:
        yield
    except (TypeError, ValueError) as error:
        error.args = (f"`{place}`: {error}", *error.args[1:])
        raise


def _read_domain(place: str, value: Any) -> Values | Range:
    """Return the domain of a parameter. The value is a list of values, or a frozen scipy distribution."""
    if isinstance(value, list | tuple | np.ndarray):
        values = tuple(value.tolist() if isinstance(value, np.ndarray) else value)
        if not values:
            raise ValueError(f"`{place}` must have at least one value, got none.")
        return Values(values)
    family = getattr(getattr(value, "dist", None), "name", None)
    if family not in _NUMBERS:
        raise TypeError(
            f"`{place}` must be a list of values or scipy's uniform, loguniform or randint, got {value!r}."
        )
    low, high = (float(bound) for bound in value.support())
    integer = family == "randint"
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(
            f"`{place}` must be a distribution with two finite bounds, got {family} from {low:g} to {high:g}."
        )
    if integer and not (low.is_integer() and high.is_integer()):
        raise ValueError(f"`{place}` must have integer bounds, got randint from {low:g} to {high:g}.")
    return Range(int(low) if integer else low, int(high) if integer else high, _NUMBERS[family], integer)


def import_optuna() -> Any:
    if not find_spec("optuna"):
        return None
    import optuna

    return optuna


def default_space() -> dict[str, dict[str, Any]]:
    space = deferred_space()
    for entry in space["estimators"].values():
        if isinstance(entry["estimator"], Deferred):
            entry["estimator"] = entry["estimator"].make()
    return space


def deferred_space() -> dict[str, dict[str, Any]]:
    """Return the default space without imports. Base models with a low CRPS for their fit time come first."""
    forest = {
        "min_samples_leaf": [1, 2, 3, 5, 10],
        "max_features": uniform(0.3, 0.7),
        "n_estimators": [50, 100],
    }
    trees = {"methods": ["forest"], "params": forest, "encoding": "codes"}
    estimators: dict[str, dict[str, Any]] = {
        "forest": {"estimator": RandomForestRegressor(), **trees},
        "linear": {
            "estimator": BayesianRidge(),
            "methods": ["native", "residual"],
            "encoding": "numbers",
        },
        "boosting": {
            "estimator": HistGradientBoostingRegressor(**HIST_BOOSTING),
            "params": {
                "learning_rate": loguniform(0.02, 0.3),
                "max_iter": [100, 250, 400],
                "max_leaf_nodes": randint(4, 64),
                "min_samples_leaf": [1, 3, 5, 10, 20, 40],
                "max_features": uniform(0.5, 0.5),
                "l2_regularization": [0.0, 1.0, 10.0],
            },
            "encoding": "categories",
        },
    }
    if has_networks():
        estimators["deep_ensemble"] = _deep_ensemble()
    if find_spec("lightgbm"):
        estimators["lightgbm"] = _lightgbm()
    estimators["extra_trees"] = {"estimator": ExtraTreesRegressor(bootstrap=True), **trees}
    if find_spec("catboost"):
        estimators["catboost"] = _catboost()
    if find_spec("ngboost"):
        estimators["ngboost"] = _ngboost()
    recalibrators = {
        "none": None,
        "scaling": StdScalingRecalibrator(objective="coverage"),
        "isotonic": IsotonicRecalibrator(),
    }
    return {"estimators": estimators, "recalibrators": recalibrators}


def _lightgbm() -> dict[str, Any]:
    params = {
        "learning_rate": loguniform(0.02, 0.3),
        "n_estimators": [100, 200, 300, 500],
        "num_leaves": randint(4, 48),
        "min_child_samples": [1, 2, 5, 10, 20, 40],
        "subsample": [0.6, 0.8, 1.0],
        "feature_fraction_bynode": uniform(0.4, 0.6),
        "extra_trees": [False, True],
        "reg_lambda": [0.0, 1.0, 10.0],
    }
    own: dict[str, Any] = {**LIGHTGBM, "learning_rate": 0.1, "extra_trees": False, "reg_lambda": 0.0}

    def make() -> Any:
        return make_lightgbm(**own)

    estimator = Deferred("lightgbm", make, ("lightgbm",), Cost(0.5, 0.2, 3e-4), own)
    return {"estimator": estimator, "methods": ["residual"], "params": params, "encoding": "categories"}


def _catboost() -> dict[str, Any]:
    own: dict[str, Any] = {"learning_rate": 0.1, "iterations": 300, "depth": 6, "l2_leaf_reg": 3.0}

    def make() -> Any:
        from catboost import CatBoostRegressor

        return CatBoostRegressor(thread_count=1, verbose=False, allow_writing_files=False, **own)

    params = {
        "learning_rate": loguniform(0.03, 0.3),
        "iterations": [300, 600],
        "depth": [4, 5, 6, 7],
        "l2_leaf_reg": loguniform(1, 10),
    }
    estimator = Deferred("catboost", make, ("catboost",), Cost(0.5, 1.0, 2e-3), own)
    return {"estimator": estimator, "methods": ["residual"], "params": params, "encoding": "codes"}


def _deep_ensemble() -> dict[str, Any]:
    own: dict[str, Any] = {
        "hidden_layer_sizes": (64, 64),
        "n_frequencies": "auto",
        "loss": "beta_nll",
        "bootstrap": True,
        "learning_rate": 8e-3,
    }
    params = {
        "hidden_layer_sizes": [(64, 64), (128, 128), (32, 32), (64, 64, 64)],
        "n_frequencies": ["auto", 0],
        "loss": ["beta_nll", "nll", "crps"],
        "bootstrap": [True, "folds"],
        # the default is the geometric mean of the bounds
        "learning_rate": loguniform(2e-3, 3.2e-2),
    }
    cost = Cost(3.0, 2.5, 1e-2)
    estimator = Deferred(
        "deep_ensemble", partial(make_deep_ensemble, **own), ("torch", "skorch"), cost, own, out_of_bag=True
    )
    return {"estimator": estimator, "methods": ["native"], "params": params}


def _ngboost() -> dict[str, Any]:
    # 200 steps of 0.03 instead of the default 500 steps of 0.01, which take seconds
    own: dict[str, Any] = {"n_estimators": 200, "learning_rate": 0.03, "minibatch_frac": 1.0}

    def make() -> Any:
        from ngboost import NGBRegressor

        return NGBRegressor(verbose=False, **own)

    params = {"learning_rate": loguniform(0.01, 0.1), "minibatch_frac": [0.5, 1.0]}
    estimator = Deferred("ngboost", make, ("ngboost",), Cost(2.0, 2.5, 1.5e-3), own)
    return {"estimator": estimator, "methods": ["native"], "params": params, "encoding": "numbers"}
