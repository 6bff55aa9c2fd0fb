"""Search space: base models with their parameters and methods, and recalibrators."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from skuq._fitting.recalibrators import check_recalibrator
from skuq._fitting.table_encoder import ENCODINGS
from skuq._validation import check_option
from skuq.model_selection._auto.budget import Cost
from skuq.prediction import supports_dist
from skuq.regressors import MixtureRegressor, UncertaintyRegressor
from skuq.regressors._methods import methods_for

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

    def import_seconds(self) -> float:
        return 0.0 if sys.modules.keys() >= set(self.packages) else self.cost.imports

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
    if params and (unknown := set(params) - set(clone(estimator).get_params()) - _own_names(estimator)):
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
            one._build(one._resolve())
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


def _own_names(estimator: Any) -> set[str]:
    """Return the parameters of the constructor.

    For CatBoost, `get_params` would return only parameters that the user has set.
    """
    names = getattr(type(estimator).__init__, "__code__", None)
    return set(names.co_varnames[: names.co_argcount]) if names is not None else set()


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
