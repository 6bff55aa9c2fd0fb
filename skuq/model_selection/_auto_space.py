"""Search space: base models with their parameters and methods, and recalibrators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

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

_NUMBERS = {"uniform": False, "loguniform": True, "reciprocal": True, "randint": False}
"""Supported scipy distributions of a parameter. The value tells whether the logarithm of the parameter is
uniform."""

_PACKAGES = ("lightgbm", "catboost", "ngboost")
"""Optional packages, with the same names as their base models."""
POOL = "pool"
"""Name of the pool in the leaderboard."""
_RESERVED = {POOL, "splitter", *MixtureRegressor([]).get_params(deep=False)}


@dataclass(frozen=True)
class Deferred:
    """Base model of the default space. Its package is imported on first use."""

    make: Callable[..., Any]
    params: dict[str, Any]
    tests_own_rows: bool = True

    def build(self) -> Any:
        return self.make(**self.params)

    def __repr__(self) -> str:
        return f"{self.make.__name__} of the default space"


@dataclass(frozen=True)
class Candidate:
    """Name of a base model, method, and parameters of the base model."""

    base: str
    method: str
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[str, str]:
        return self.base, self.method


@dataclass(frozen=True)
class Values:
    """Parameter with a list of values of any type. Optuna samples positions in the list."""

    values: tuple[Any, ...]

    def position(self, value: Any) -> int | None:
        # True and 1 are different values, and NaN equals NaN.
        found = (
            i for i, one in enumerate(self.values) if repr(one) == repr(value) and type(one) is type(value)
        )
        return next(found, None)

    def start(self, value: Any) -> int:
        position = self.position(value)
        return len(self.values) // 2 if position is None else position

    def suggest(self, trial: Any, name: str) -> Any:
        return self.values[trial.suggest_categorical(name, tuple(range(len(self.values))))]


@dataclass(frozen=True)
class Range:
    low: float
    high: float
    log: bool
    integer: bool

    def start(self, value: Any) -> Any:
        kinds = (int,) if self.integer else (int, float)
        if type(value) in kinds and self.low <= value <= self.high:
            return value
        middle = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
        return round(middle) if self.integer else middle

    def suggest(self, trial: Any, name: str) -> Any:
        if self.integer:
            return trial.suggest_int(name, int(self.low), int(self.high))
        return trial.suggest_float(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Base:
    estimator: Any
    methods: tuple[str, ...]
    params: dict[str, Values | Range]
    encoding: str | None = None


@dataclass(frozen=True)
class Space:
    """All candidates, and the recalibrators that each candidate may use."""

    bases: dict[str, Base]
    recalibrators: dict[str, Any]

    def first(self) -> Iterator[dict[str, Any]]:
        """Yield Optuna's parameters of each base model as it is, first with its first method."""
        for place in range(max(len(base.methods) for base in self.bases.values())):
            for name, base in self.bases.items():
                if place < len(base.methods):
                    own = _own_params(base)
                    params = {f"{name}: {key}": one.start(own.get(key)) for key, one in base.params.items()}
                    yield {"base": name, f"{name}: method": base.methods[place], **params}

    def suggest(self, trial: Any) -> Candidate:
        """Return the candidate of an Optuna trial. The trial samples parameters that it does not have."""
        name = trial.suggest_categorical("base", tuple(self.bases))
        base = self.bases[name]
        method = trial.suggest_categorical(f"{name}: method", base.methods)
        params = {key: domain.suggest(trial, f"{name}: {key}") for key, domain in base.params.items()}
        return Candidate(name, method, params)

    def build(self, candidate: Candidate, cv: Any, seed: int) -> UncertaintyRegressor:
        """Return the unfitted regressor. If ``cv`` is a splitter, the method also uses it."""
        estimator = self.bases[candidate.base].estimator
        estimator = estimator.build() if isinstance(estimator, Deferred) else clone(estimator)
        estimator.set_params(**{key: clone(value, safe=False) for key, value in candidate.params.items()})
        method: Any = candidate.method
        return UncertaintyRegressor(estimator, method, effort="low", cv=cv, random_state=seed)

    def tests_own_rows(self, candidate: Candidate) -> bool:
        """Return whether one fit to all rows gives the forecasts of all rows."""
        estimator = self.bases[candidate.base].estimator
        if isinstance(estimator, Deferred):
            return estimator.tests_own_rows
        try:
            return self.build(candidate, None, 0)._tests_own_rows()
        except Exception:  # the fit reports this error
            return False


def _own_params(base: Base) -> dict[str, Any]:
    if isinstance(base.estimator, Deferred):
        return base.estimator.params
    return dict(base.estimator.get_params()) if base.params else {}


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
    if "__" in name or name in _RESERVED:
        raise ValueError(
            f"`space['estimators']` must not contain the name {name!r}. {POOL!r}, names with '__' and names "
            "of parameters of `MixtureRegressor` are reserved."
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
    known = set(params) & set(clone(estimator).get_params())
    if (code := getattr(type(estimator).__init__, "__code__", None)) is not None:
        # for CatBoost, `get_params` returns only parameters that the user has set
        known |= set(code.co_varnames[: code.co_argcount])
    if unknown := set(params) - known:
        raise ValueError(
            f"`{place}['params']` must only have names of parameters of {type(estimator).__name__} as keys, "
            f"got {sorted(map(str, unknown))}."
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


def _make_catboost(**params: Any) -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(**params)


def _make_ngboost(**params: Any) -> Any:
    from ngboost import NGBRegressor

    return NGBRegressor(**params)


def default_space() -> dict[str, dict[str, Any]]:
    space = deferred_space()
    for entry in space["estimators"].values():
        if isinstance(entry["estimator"], Deferred):
            entry["estimator"] = entry["estimator"].build()
    return space


def deferred_space() -> dict[str, dict[str, Any]]:
    """Return the default space without imports.

    Base models that are fitted fast come first. With 10 000 rows, a forest takes six times as long as
    boosting.
    """
    forest = {
        "methods": ["forest"],
        "params": {
            "min_samples_leaf": [1, 2, 3, 5, 10],
            "max_features": uniform(0.3, 0.7),
            "n_estimators": [50, 100],
        },
        "encoding": "codes",
    }
    lightgbm = {**LIGHTGBM, "learning_rate": 0.1, "extra_trees": False, "reg_lambda": 0.0}
    catboost = {
        "thread_count": 1,
        "verbose": False,
        "allow_writing_files": False,
        "learning_rate": 0.1,
        "iterations": 300,
        "depth": 6,
        "l2_leaf_reg": 3.0,
        "border_count": 64,
    }
    networks = {
        "hidden_layer_sizes": (64, 64),
        "n_frequencies": "auto",
        "loss": "beta_nll",
        "bootstrap": True,
        "learning_rate": 8e-3,
    }
    # 100 steps of 0.06 instead of the default 500 steps of 0.01, which take seconds
    ngboost = {"verbose": False, "n_estimators": 100, "learning_rate": 0.06, "minibatch_frac": 1.0}
    estimators: dict[str, dict[str, Any]] = {
        "linear": {"estimator": BayesianRidge(), "methods": ["residual"], "encoding": "numbers"},
        "lightgbm": {
            "estimator": Deferred(make_lightgbm, lightgbm),
            "methods": ["residual"],
            "params": {
                "learning_rate": loguniform(0.02, 0.3),
                "n_estimators": [100, 200, 300, 500],
                "num_leaves": randint(4, 48),
                "min_child_samples": [1, 2, 5, 10, 20, 40],
                "subsample": [0.6, 0.8, 1.0],
                "feature_fraction_bynode": uniform(0.4, 0.6),
                "extra_trees": [False, True],
                "reg_lambda": [0.0, 1.0, 10.0],
            },
            "encoding": "categories",
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
        "extra_trees": {"estimator": ExtraTreesRegressor(bootstrap=True), **forest},
        "catboost": {
            "estimator": Deferred(_make_catboost, catboost),
            "methods": ["residual"],
            "params": {
                "learning_rate": loguniform(0.03, 0.3),
                "iterations": [300, 600],
                "depth": [4, 5, 6, 7],
                "l2_leaf_reg": loguniform(1, 10),
            },
            "encoding": "codes",
        },
        "forest": {"estimator": RandomForestRegressor(), **forest},
        "deep_ensemble": {
            "estimator": Deferred(make_deep_ensemble, networks),
            "methods": ["native"],
            "params": {
                "hidden_layer_sizes": [(64, 64), (128, 128), (32, 32), (64, 64, 64)],
                "n_frequencies": ["auto", 0],
                "loss": ["beta_nll", "nll", "crps"],
                "bootstrap": [True, "folds"],
                # the default is the geometric mean of the bounds
                "learning_rate": loguniform(2e-3, 3.2e-2),
            },
        },
        "ngboost": {
            "estimator": Deferred(_make_ngboost, ngboost, tests_own_rows=False),
            "methods": ["native"],
            "params": {"learning_rate": loguniform(0.02, 0.2), "minibatch_frac": [0.5, 1.0]},
            "encoding": "numbers",
        },
    }
    packages = {"deep_ensemble": has_networks(), **{name: find_spec(name) for name in _PACKAGES}}
    recalibrators = {
        "none": None,
        "scaling": StdScalingRecalibrator(objective="coverage"),
        "isotonic": IsotonicRecalibrator(),
    }
    installed = {name: entry for name, entry in estimators.items() if packages.get(name, True)}
    return {"estimators": installed, "recalibrators": recalibrators}
