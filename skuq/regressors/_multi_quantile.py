"""Quantile regression at several levels, combined into one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, ndtri

from skuq._compat import run_parallel
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import point_predict
from skuq._fitting.fit_wrapped import fit_wrapped, in_target_units
from skuq._fitting.seeds import MAX_SEED, Progress, seeded_clone
from skuq._fitting.training_data import TrainingData
from skuq._typing import FloatArray, IntArray, SupportLike
from skuq._validation import check_increasing, check_open_unit, check_random_state
from skuq.distributions import Distribution, Quantiles
from skuq.prediction._quantile_estimators import QuantileLoss, find_quantile_loss, predict_many
from skuq.prediction._register import last_step, note_fold
from skuq.recalibration import BaseRecalibrator, QuantileShiftRecalibrator

_PENALTY = 10.0
"""Penalty of the squared slopes. A penalty of 1 is as large as the loss of one row."""

_BANDWIDTH = 0.05
"""Half-width of the interval in which the pinball loss is smoothed. The targets are scaled to a unit of 1."""

_LEAST_UNIT = 0.25
"""Lower limit of the unit of the targets, as a multiple of the mean width of 90 % intervals. For a normal
distribution, the mean absolute error of the median is about this multiple of the width."""

_MOST_ROWS = 20_000
"""The regression uses at most this number of rows."""


class LevelRegressionRecalibrator(BaseRecalibrator):
    """Recalibrator that derives eleven quantiles from a few fitted quantiles, and then shifts them."""

    # Each of the eleven quantiles is first interpolated between the fitted quantiles, linearly in the normal
    # score of its level. A linear combination of the differences between adjacent fitted quantiles is then
    # added. The coefficients of this combination minimize the penalized pinball loss on the calibration rows.

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        if not isinstance(dist, Quantiles):
            raise TypeError(f"`dist` must be Quantiles, got {type(dist).__name__}. Use another recalibrator.")
        self.knots_, self.slopes_ = _interpolation(dist.levels, np.array(DEFAULT_LEVELS))
        self._regress(dist, y, weight)
        self.recalibrator_ = QuantileShiftRecalibrator().fit(self._combine(dist), y, weight)

    def _regress(self, dist: Quantiles, y: FloatArray, weight: FloatArray) -> None:
        """Fit the linear combinations of differences that are added to the interpolated quantiles."""
        rows = slice(None, None, -(-len(y) // _MOST_ROWS))
        share = weight[rows] / weight[rows].sum()
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            errors = y[rows, np.newaxis] - self._combine(dist[rows]).values
            steps = np.diff(dist.values[rows], axis=1)
            error = share @ np.abs(errors[:, DEFAULT_LEVELS.index(0.5)])
            unit = max(error, _LEAST_UNIT * (share @ steps.sum(axis=1)))
            steps, errors = steps / unit, errors / unit
        if not (np.isfinite(steps).all() and np.isfinite(errors).all()):
            return  # overflow, or all errors are 0
        for column, level in enumerate(DEFAULT_LEVELS):
            self.slopes_[:, column] += _regression_slopes(
                steps, errors[:, column], level, share, _PENALTY / weight.sum()
            )

    def _combine(self, dist: Distribution) -> Quantiles:
        values = dist.values  # type: ignore[attr-defined]
        # sums of differences, so that equal quantiles stay equal
        return Quantiles(DEFAULT_LEVELS, values[:, self.knots_] + np.diff(values, axis=1) @ self.slopes_)

    def _transform(self, dist: Distribution) -> Distribution:
        recalibrated: Distribution = self.recalibrator_.transform(self._combine(dist))
        return recalibrated


def _interpolation(fitted: FloatArray, levels: FloatArray) -> tuple[IntArray, FloatArray]:
    score, target = ndtri(fitted), ndtri(levels)
    knots = np.clip(np.searchsorted(fitted, levels, side="right") - 1, 0, None)
    step = np.minimum(knots, len(fitted) - 2)
    shares = np.zeros((len(fitted) - 1, len(levels)))
    shares[step, np.arange(len(levels))] = (target - score[knots]) / (score[step + 1] - score[step])
    return knots, shares


def _regression_slopes(
    features: FloatArray, target: FloatArray, level: float, share: FloatArray, penalty: float
) -> FloatArray:
    """Return the slopes that minimize the pinball loss.

    The slopes are zero if no slopes decrease the loss.
    """
    design = np.column_stack([np.ones(len(target)), features])

    def cost(x: FloatArray) -> tuple[float, FloatArray]:
        error = (target - design @ x) / _BANDWIDTH
        loss = share @ (level * error + np.logaddexp(0.0, -error)) * _BANDWIDTH
        gradient = -((share * (level - expit(-error))) @ design)
        gradient[1:] += 2 * penalty * x[1:]
        return float(loss + penalty * x[1:] @ x[1:]), gradient

    start = np.zeros(design.shape[1])
    x = minimize(cost, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-13, "gtol": 1e-7}).x
    before, after = (share @ np.maximum(level * e, (level - 1) * e) for e in (target, target - design @ x))
    slopes: FloatArray = x[1:] if after < before else start[1:]
    return slopes


DEFAULT_LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""The levels include 0.05 and 0.95, so that the bounds of the default interval are not extrapolated."""


class MultiQuantileRegressor(BaseUncertaintyRegressor):
    """Predictive distribution from quantile regression at several levels.

    The width, the skewness and the tails of the distribution may change with x. No shape is assumed. Prefer
    `ResidualRegressor` if there are few rows, because only a few rows lie beyond the outer levels. Also
    prefer `ResidualRegressor` if you need far tails or a density.

    Parameters
    ----------
    estimator : estimator
        Regressor with a quantile loss, or a Pipeline that ends in such a regressor; cloned. `fit` sets the
        loss and the level of these regressors: scikit-learn's QuantileRegressor, GradientBoostingRegressor
        and HistGradientBoostingRegressor, trees and forests of scikit-learn 1.10, LightGBM, CatBoost, XGBoost
        and quantile-forest. For other regressors without the parameters ``criterion`` and ``loss``, `fit`
        sets the parameter ``quantile``, or the parameter that `quantile_param` names. The only supported
        meta-estimator is a Pipeline.
    levels : array-like of shape (k,), default=(0.05, 0.1, 0.2, ..., 0.9, 0.95)
        At least two increasing levels in (0, 1). The tails beyond the outer levels are extrapolated.
    quantile_param : str or None, default=None
        Name of the estimator's parameter for the level, in the form that ``set_params`` accepts. For a step
        of a Pipeline, the form is ``<step>__<name>``. `fit` then sets only the level, so you must set the
        loss in the estimator. With None, `fit` sets the loss and the level of the regressors listed under
        `estimator`.
    cv : int, splitter or iterable of (train, test), default=5
        Folds of `fit_transform`. An int k means ``KFold(k, shuffle=True)``.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are the means of the clipped forecasts.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one level or one fold. The results do not depend on
        ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of estimators without a seed of their own. An integer makes results
        reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimators_ : list
        One fitted clone per level. CatBoost, XGBoost and quantile-forest predict all levels with one fit, so
        there is a single clone.
    levels_ : ndarray of shape (k,)
        The levels.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    ResidualRegressor : Distribution of the errors of any regressor.
    UncertaintyRegressor : Chooses the method that suits the regressor.

    Notes
    -----
    Quantiles from separate fits may cross. The quantiles of each row are therefore sorted, which never
    increases the pinball loss [1]_. The distribution function is linear between the levels and has
    exponential tails beyond the outermost levels. See `Quantiles`. `predict` returns the mean of this
    distribution. A level that is set in ``estimator`` is ignored.

    Wrap this class in a TransformedTargetRegressor or a search. Do not pass either of them as `estimator`.
    Use ``TransformedTargetRegressor(MultiQuantileRegressor(...), func=...)``. In the opposite order, a
    decreasing ``func`` would swap the levels. Use ``GridSearchCV(MultiQuantileRegressor(...),
    {"estimator__alpha": ...})``. In the opposite order, the search would use the same score for all levels.

    On new rows, the outer quantiles are too close to the median, because the model overfits the training
    rows. For example, 90 % intervals of gradient boosting cover about 80 % of the new rows.
    `UncertaintyRegressor` fits fewer levels and recalibrates them with `QuantileShiftRecalibrator`, which
    also fits the tails. To use another recalibrator, use ``RecalibratedRegressor(MultiQuantileRegressor(...),
    recalibrator)``.

    Cost: one fit per level, or a single fit if the regressor predicts all levels at once.

    References
    ----------
    .. [1] V. Chernozhukov, I. Fernandez-Val, A. Galichon, "Quantile and probability curves without
       crossing", Econometrica 78(3), 2010, doi:10.3982/ECTA7880.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import QuantileRegressor
    >>> from skuq.regressors import MultiQuantileRegressor
    >>> X = np.linspace(0, 1, 101).reshape(-1, 1)
    >>> y = X[:, 0] * np.tile([-1.0, 0.0, 1.0], 34)[:101]
    >>> model = MultiQuantileRegressor(QuantileRegressor(alpha=0), levels=[0.1, 0.5, 0.9]).fit(X, y)
    >>> model.predict_quantiles([[0.5], [1.0]], [0.1, 0.9]).round(2) + 0.0
    array([[-0.5,  0.5],
           [-1. ,  1. ]])
    """

    def __init__(
        self,
        estimator: Any,
        levels: Sequence[float] = DEFAULT_LEVELS,
        *,
        quantile_param: str | None = None,
        cv: Any = 5,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.levels = levels
        self.quantile_param = quantile_param
        self.cv = cv
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self.levels_ = self._check_levels()
        prefix, loss = self._find_loss(self.estimator)
        levels = self.levels_.tolist()
        if loss.many is None:
            settings = [loss.one(level) for level in levels]
            places = [_place(level) for level in levels]
        else:
            settings, places = [loss.many(levels)], ["the model of all levels"]
        aliases = loss.aliases(last_step(self.estimator))
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        tasks = (
            partial(
                _fit_one,
                in_target_units(
                    seeded_clone(self.estimator, seed, self.random_state).set_params(
                        **{f"{prefix}{name}": value for name, value in {**setting, **aliases}.items()}
                    ),
                    data.y,
                ),
                data,
                place,
            )
            for setting, place in zip(settings, places, strict=True)
        )
        report = progress.reporter("level")
        results = run_parallel(tasks, n_jobs=self.n_jobs, one_by_one=report is not None, verbose=self.verbose)
        self.estimators_ = []
        for fitted in results:
            self.estimators_.append(fitted)
            if report is not None:
                report()

    def _is_calibrated(self) -> bool:
        return False

    def _check_levels(self) -> FloatArray:
        levels = np.atleast_1d(check_open_unit(self.levels, "levels"))
        if levels.size < 2:
            raise ValueError(f"`levels` must have at least two levels, got {levels.size}.")
        return check_increasing(levels, "levels")

    def _find_loss(self, estimator: Any) -> tuple[str, QuantileLoss]:
        found = find_quantile_loss(estimator, self.quantile_param)
        if found is None:
            name = type(last_step(estimator)).__name__
            raise ValueError(
                f"`estimator` must have a quantile loss that skuq can set, but {name} has none. "
                f"Use another "
                "regressor, such as HistGradientBoostingRegressor(). If the estimator has a parameter for "
                "the quantile level, pass the name of this parameter as `quantile_param`. Otherwise use "
                "ResidualRegressor."
            )
        prefix, loss = found
        if self.quantile_param is not None and self.quantile_param not in estimator.get_params():
            raise ValueError(
                f"`quantile_param` must be a parameter of {type(estimator).__name__}, got "
                f"{self.quantile_param!r}. The parameters are {sorted(estimator.get_params())}."
            )
        return prefix, loss

    def _predict_dist(self, X: Any) -> Distribution:
        if len(self.estimators_) == 1:  # one model predicts all levels
            loss = self._find_loss(self.estimators_[0])[1]
            values = predict_many(self.estimators_[0], loss, X, self.levels_.tolist())
        else:
            columns = []
            for fitted, level in zip(self.estimators_, self.levels_, strict=True):
                with note_fold(_place(level)):
                    columns.append(point_predict(fitted, X))
            values = np.column_stack(columns)
        return Quantiles(self.levels_, values)


def _fit_one(estimator: Any, data: TrainingData, place: str) -> Any:
    with note_fold(place):
        return fit_wrapped(estimator, data.X, data.target, **data.fit_params)


def _place(level: float) -> str:
    return f"the model of level {level:g}"
