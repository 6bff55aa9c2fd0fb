"""Methods of `UncertaintyRegressor` and the regressors that they build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import has_random_folds
from skuq._fitting.seeds import MAX_SEED, seeded_clone
from skuq._validation import check_random_state
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import supports_dist
from skuq.regressors._bootstrap import BootstrapRegressor
from skuq.regressors._conformal import ConformalRegressor
from skuq.regressors._cross_conformal import CROSS_METHODS, CrossConformalRegressor
from skuq.regressors._default_recalibrator import DefaultRecalibrator
from skuq.regressors._few_fits.level_regression import LevelRegressionRecalibrator
from skuq.regressors._few_fits.two_folds import TwoFoldsRegressor
from skuq.regressors._forest_distribution import ForestDistributionRegressor
from skuq.regressors._method_rules import recalibrator_of
from skuq.regressors._multi_quantile import DEFAULT_LEVELS, MultiQuantileRegressor, fits_each_level
from skuq.regressors._recalibrated import RecalibratedRegressor
from skuq.regressors._residual import ResidualRegressor

Effort = Literal["low", "standard", "high"]
MethodName = Literal[
    "auto", "native", "recalibrated", "quantile", "forest", "bootstrap", "residual", "conformal"
]


class EffortLevel(NamedTuple):
    """Numbers of folds and of bootstrap members for one value of `effort`."""

    folds: int
    resamples: int
    folds_of_levels: int  # number of folds for a quantile loss that needs one fit per level


EFFORTS = {"low": EffortLevel(3, 20, 2), "standard": EffortLevel(5, 50, 2), "high": EffortLevel(10, 100, 5)}

_FEW_LEVELS = (0.05, 0.35, 0.65, 0.95)
"""These levels are fitted if each level needs its own fit. The final model and the models of two folds then
need twelve fits."""


@dataclass(frozen=True, eq=False)
class MethodOptions:
    """Parameters of `UncertaintyRegressor`."""

    estimator: Any
    effort: str
    params: dict[str, Any]
    cv: Any
    n_jobs: int | None
    random_state: Any
    verbose: int

    @property
    def folds(self) -> Any:
        """The parameter ``cv``, or the number of folds of the effort if ``cv`` is None."""
        return EFFORTS[self.effort].folds if self.cv is None else self.cv

    def build(
        self, cls: Callable[..., BaseUncertaintyRegressor], **defaults: Any
    ) -> BaseUncertaintyRegressor:
        common = {"n_jobs": self.n_jobs, "random_state": self.random_state, "verbose": self.verbose}
        return cls(self.estimator, **{**common, **defaults, **self.params})


def _native(options: MethodOptions) -> Any:
    if not supports_dist(options.estimator):
        raise NotProbabilisticError(
            "`method` 'native' needs an estimator with a distribution, but "
            f"{type(options.estimator).__name__} has none. Use method='auto'."
        )
    if options.params:
        raise ValueError(f"`method_params` must be empty with method 'native', got {sorted(options.params)}.")
    seed = int(check_random_state(options.random_state).randint(MAX_SEED))
    return seeded_clone(options.estimator, seed, options.random_state)


def _recalibrated(options: MethodOptions) -> BaseUncertaintyRegressor:
    if supports_dist(options.estimator):
        recalibrator = recalibrator_of(options.estimator)
        return options.build(RecalibratedRegressor, recalibrator=recalibrator, cv=options.folds)
    return _recalibrated_quantiles(options)


def _recalibrated_quantiles(options: MethodOptions) -> BaseUncertaintyRegressor:
    """Return the regressor for a quantile loss.

    If each level needs its own fit, the regressor has fewer levels and folds.
    """
    params = dict(options.params)
    levels, param = params.pop("levels", None), params.pop("quantile_param", None)
    recalibrator: Any = DefaultRecalibrator()
    cls, cv = RecalibratedRegressor, options.folds
    if fits_each_level(options.estimator, param):
        if levels is None:
            recalibrator = LevelRegressionRecalibrator()
            levels = DEFAULT_LEVELS if options.effort == "high" else _FEW_LEVELS
        if options.cv is None:
            cv = EFFORTS[options.effort].folds_of_levels
            cls = TwoFoldsRegressor if cv == 2 else RecalibratedRegressor
    levels = DEFAULT_LEVELS if levels is None else levels
    model = MultiQuantileRegressor(options.estimator, levels, quantile_param=param, n_jobs=options.n_jobs)
    return replace(options, estimator=model, params=params).build(cls, recalibrator=recalibrator, cv=cv)


def _forest(options: MethodOptions) -> BaseUncertaintyRegressor:
    # `verbose` is a parameter of the wrapped forest.
    params = {"n_jobs": options.n_jobs, "random_state": options.random_state, **options.params}
    return ForestDistributionRegressor(options.estimator, **params)


def _conformal(options: MethodOptions) -> BaseUncertaintyRegressor:
    method = options.params.get("method")
    in_folds = method == "cv+" or not has_random_folds(options.cv)
    cls = CrossConformalRegressor if method in CROSS_METHODS else ConformalRegressor
    return options.build(cls, cv=options.folds if in_folds else None)


METHODS: dict[str, Callable[[MethodOptions], Any]] = {
    "native": _native,
    "recalibrated": _recalibrated,
    "quantile": lambda options: options.build(MultiQuantileRegressor, cv=options.folds),
    "forest": _forest,
    "bootstrap": lambda options: options.build(
        BootstrapRegressor, n_estimators=EFFORTS[options.effort].resamples
    ),
    "residual": lambda options: options.build(ResidualRegressor, effort=options.effort, cv=options.cv),
    "conformal": _conformal,
}
"""Function of each method that builds the regressor."""
