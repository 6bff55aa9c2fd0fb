"""Methods of `UncertaintyRegressor`: the methods for an estimator, and the regressors that they build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Literal

from sklearn.dummy import DummyRegressor
from sklearn.linear_model import ARDRegression, BayesianRidge

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import has_random_folds, point_and_dist, point_predict
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.seeds import MAX_SEED, Progress, seeded_clone
from skuq._fitting.training_data import TrainingData
from skuq._typing import FloatArray
from skuq._validation import check_random_state
from skuq.conformal._conformal_regressor import ConformalRegressor
from skuq.conformal._cross_conformal_regressor import CROSS_METHODS, CrossConformalRegressor
from skuq.distributions import Distribution, Quantiles
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist
from skuq.prediction._quantile_estimators import configured_levels, find_quantile_loss
from skuq.prediction._resolve import (
    has_calibrated_dist,
    inner_estimators,
    learns_in_context,
)
from skuq.recalibration import (
    BaseRecalibrator,
    IsotonicRecalibrator,
    QuantileShiftRecalibrator,
    ShrunkIsotonicRecalibrator,
    StdScalingRecalibrator,
)
from skuq.regressors._bootstrap import BootstrapRegressor
from skuq.regressors._forest_distribution import ForestDistributionRegressor
from skuq.regressors._forest_trees import bootstraps_trees
from skuq.regressors._multi_quantile import (
    DEFAULT_LEVELS,
    LevelRegressionRecalibrator,
    MultiQuantileRegressor,
)
from skuq.regressors._recalibrated import RecalibratedRegressor, TwoFoldsRegressor
from skuq.regressors._residual import FOLDS_BY_EFFORT, ResidualRegressor

Effort = Literal["low", "standard", "high"]
MethodName = Literal[
    "auto", "native", "recalibrated", "quantile", "forest", "bootstrap", "residual", "conformal"
]


MEMBERS_BY_EFFORT = {"low": 20, "standard": 50, "high": 100}
"""For each effort, the number of bootstrap members."""

_FOLDS_OF_LEVELS = {"low": 2, "standard": 2, "high": 5}
"""For each effort, the number of folds of a quantile loss that needs one fit per level."""

FOREST_TREES = 50
"""A forest needs at least this number of trees. With 50 trees, a row is out of bag for a third of them, and
these trees predict the row nearly as well as all trees."""

_FEW_LEVELS = (0.05, 0.35, 0.65, 0.95)
"""These levels are fitted if each level needs its own fit. The final model and the models of two folds then
need twelve fits."""


def methods_for(estimator: Any, *, random_folds: bool) -> tuple[str, ...]:
    """Return the methods that apply to an estimator, the preferred method first.

    The guide on the choice of a method has the evidence. No rule depends on the number of rows, because
    measurements do not support such a rule. With 100 rows, recalibration increases the CRPS of quantiles by
    5 %, but without recalibration the coverage of the quantiles is too low.
    """
    methods = []
    # The distributions of these estimators ignore the bias of the model, so its errors are learned instead.
    without = DummyRegressor, BayesianRidge, ARDRegression
    if supports_dist(estimator) and not any(isinstance(one, without) for one in inner_estimators(estimator)):
        methods.append("native" if is_calibrated(estimator) else "recalibrated")
    elif configured_levels(estimator) is not None:
        methods.append("recalibrated")
    if random_folds and bootstraps_trees(estimator) and estimator.n_estimators >= FOREST_TREES:
        methods.append("forest")
    return (*methods, "residual")


def is_calibrated(estimator: Any) -> bool:
    inner = inner_estimators(estimator)
    if len(inner) != 1:
        return False
    if isinstance(inner[0], BaseUncertaintyRegressor):
        return inner[0]._is_calibrated()
    if isinstance(inner[0], BaseRecalibrator):
        return True
    return has_calibrated_dist(inner[0])


def build(method: str, owner: Any) -> BaseUncertaintyRegressor:
    """Return the unfitted regressor of a method, with the parameters of the UncertaintyRegressor."""
    estimator, effort, cv = owner.estimator, owner.effort, owner.cv
    params = dict(owner.method_params or {})
    common = {"n_jobs": owner.n_jobs, "random_state": owner.random_state, "verbose": owner.verbose}
    cls: Callable[..., BaseUncertaintyRegressor]
    options: dict[str, Any] = {}
    folds = FOLDS_BY_EFFORT[effort] if cv is None else cv
    if method == "native":
        return _native(estimator, params, cv, common)
    if method == "recalibrated":
        return _recalibrated(estimator, effort, params, cv, common)
    if method == "quantile":
        cls, options = MultiQuantileRegressor, {"cv": folds}
    elif method == "forest":
        # `verbose` is a parameter of the wrapped forest.
        common = {name: value for name, value in common.items() if name != "verbose"}
        cls = ForestDistributionRegressor
    elif method == "bootstrap":
        cls, options = BootstrapRegressor, {"n_estimators": MEMBERS_BY_EFFORT[effort]}
    elif method == "residual":
        cls, options = ResidualRegressor, {"effort": effort, "cv": cv}
    else:
        cross = params.get("method") in CROSS_METHODS
        cls = CrossConformalRegressor if cross else ConformalRegressor
        in_folds = params.get("method") == "cv+" or not has_random_folds(cv)
        options = {"cv": folds if in_folds else None}
    _check_params(cls, params)
    return cls(estimator, **{**common, **options, **params})


def _check_params(
    cls: Callable[..., BaseUncertaintyRegressor], params: dict[str, Any], more: Sequence[str] = ()
) -> None:
    valid = [*more, *(name for name in signature(cls).parameters if name != "estimator")]
    unknown = [name for name in params if name not in valid]
    if unknown:
        raise ValueError(
            f"`method_params` must hold parameters of {cls.__name__}, got {', '.join(map(repr, unknown))}. "
            f"Valid names: {', '.join(valid)}."
        )


def _native(
    estimator: Any, params: dict[str, Any], cv: Any, common: dict[str, Any]
) -> BaseUncertaintyRegressor:
    if not supports_dist(estimator):
        raise NotProbabilisticError(
            "`method` 'native' needs an estimator with a distribution, but "
            f"{type(estimator).__name__} has none. Use method='auto'."
        )
    if params:
        raise ValueError(f"`method_params` must be empty with method 'native', got {sorted(params)}.")
    if not isinstance(estimator, BaseUncertaintyRegressor):
        return NativeRegressor(estimator, cv=cv, **common)
    seed = int(check_random_state(common["random_state"]).randint(MAX_SEED))
    own: BaseUncertaintyRegressor = seeded_clone(estimator, seed, common["random_state"])
    return own


def _recalibrated(
    estimator: Any, effort: str, params: dict[str, Any], cv: Any, common: dict[str, Any]
) -> BaseUncertaintyRegressor:
    """Return the recalibrated distribution, or the recalibrated quantiles of a quantile loss.

    If each quantile level needs its own fit, there are fewer levels and folds.
    """
    cls, folds = RecalibratedRegressor, FOLDS_BY_EFFORT[effort] if cv is None else cv
    recalibrator: Any = DefaultRecalibrator()
    more: tuple[str, ...] = ()
    if supports_dist(estimator):
        if learns_in_context(estimator):  # these models are nearly calibrated
            recalibrator = ShrunkIsotonicRecalibrator()
    else:
        params = dict(params)
        levels, param = params.pop("levels", None), params.pop("quantile_param", None)
        more = ("levels", "quantile_param")
        loss = find_quantile_loss(estimator, param)
        if loss is not None and loss[1].many is None:  # each level needs its own fit
            if levels is None:
                recalibrator = LevelRegressionRecalibrator()
                levels = DEFAULT_LEVELS if effort == "high" else _FEW_LEVELS
            if cv is None:
                folds = _FOLDS_OF_LEVELS[effort]
                cls = TwoFoldsRegressor if folds == 2 else RecalibratedRegressor
        levels = DEFAULT_LEVELS if levels is None else levels
        estimator = MultiQuantileRegressor(estimator, levels, quantile_param=param, n_jobs=common["n_jobs"])
    _check_params(cls, params, more)
    return cls(estimator, **{**common, "recalibrator": recalibrator, "cv": folds, **params})


class DefaultRecalibrator(BaseRecalibrator):
    """Recalibrator that shifts `Quantiles`, and scales the standard deviation of other distributions."""

    # StdScalingRecalibrator fits the factor that gives 90 % intervals their nominal coverage. No such factor
    # exists for wrong point masses, for infinite standard deviations, or for intervals that exclude their
    # mean. IsotonicRecalibrator is then used instead. StdScalingRecalibrator is also used for quantiles with
    # an epistemic part, because a shift would remove the epistemic part.

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        self.recalibrator_: Any
        if isinstance(dist, Quantiles) and dist.epistemic_scale is None:
            self.recalibrator_ = QuantileShiftRecalibrator().fit(dist, y, weight)
            return
        try:
            self.recalibrator_ = StdScalingRecalibrator(objective="coverage").fit(dist, y, weight)
        except ValueError as no_factor:
            try:
                self.recalibrator_ = IsotonicRecalibrator().fit(dist, y, weight)
            except ValueError:  # the isotonic map cannot be fitted either
                raise no_factor from None

    def _transform(self, dist: Distribution) -> Distribution:
        recalibrated: Distribution = self.recalibrator_.transform(dist)
        return recalibrated

    def predict(self, dist: Any) -> FloatArray:
        points: FloatArray = self.recalibrator_.predict(dist)
        return points


class NativeRegressor(BaseUncertaintyRegressor):
    """Distribution of an estimator that is not one of skuq's regressors, as it is."""

    def __init__(self, estimator: Any, *, cv: Any, n_jobs: Any, random_state: Any, verbose: int) -> None:
        self.estimator = estimator
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _is_calibrated(self) -> bool:
        return is_calibrated(self.estimator)

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        model = seeded_clone(self.estimator, seed, self.random_state)
        with progress.task("fit", model):
            self.estimator_ = fit_wrapped(model, data.X, data.target, **data.fit_params)

    def _point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator_, X)

    def _predict_dist(self, X: Any) -> Distribution:
        dist: Distribution = predict_dist(self.estimator_, X)
        return dist

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        return point_and_dist(self.estimator_, X)
