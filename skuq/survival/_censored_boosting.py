"""Boosted accelerated failure time model with the censored log-normal likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from skuq._censoring import CENSORING, Bounds, check_times
from skuq._compat import run_parallel
from skuq._fitting.cross_fit import Split, is_partition, resolve_cv, split_rows
from skuq._fitting.seeds import MAX_SEED, Progress
from skuq._fitting.training_data import TrainingData
from skuq._numeric import log_mass
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    check_integer,
    check_number,
    check_option,
    check_random_state,
    effective_rows,
    few_rows_reported,
)
from skuq.distributions import Distribution, Normal, Transformed
from skuq.recalibration import IsotonicRecalibrator
from skuq.survival._targets import BaseCensoredRegressor

_LOG_NORMAL_PEAK = -0.5 * np.log(2 * np.pi)
_LEAST_LOC_CURVATURE, _LEAST_SCALE_CURVATURE = 0.01, 0.02


def scores_of(bounds: Bounds, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the standardized bounds for the columns location and log-scale of ``theta``."""
    scale = np.exp(theta[:, 1])
    return (bounds.lower - theta[:, 0]) / scale, (bounds.upper - theta[:, 0]) / scale


def loss(bounds: Bounds, theta: FloatArray) -> FloatArray:
    """Return the negative log-likelihood of each row, shape (n,)."""
    low, high = scores_of(bounds, theta)
    observed = bounds.observed
    density = _LOG_NORMAL_PEAK - 0.5 * np.square(np.where(observed, low, 0.0)) - theta[:, 1]
    return -np.where(observed, density, log_mass(low, high))


def derivatives(bounds: Bounds, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gradient and a positive curvature of the loss, each of shape (n, 2)."""
    low, high = scores_of(bounds, theta)
    observed = bounds.observed
    mass = np.where(observed, 0.0, log_mass(low, high))
    # Density at each bound, divided by the probability between the bounds. It is 0 at infinite bounds.
    at_low, at_high = (
        np.where(np.isfinite(z), np.exp(_LOG_NORMAL_PEAK - 0.5 * np.square(z) - mass), 0.0)
        for z in (low, high)
    )
    z_low, z_high = (np.where(np.isfinite(z), z, 0.0) for z in (low, high))
    first = at_high - at_low
    second = z_high * at_high - z_low * at_low
    third = z_high * (1 - z_high**2) * at_high - z_low * (1 - z_low**2) * at_low
    scale = np.exp(theta[:, 1])
    gradient = np.column_stack(
        [np.where(observed, -z_low, first) / scale, np.where(observed, 1 - z_low**2, second)]
    )
    loc_curvature = np.clip(first**2 + second, _LEAST_LOC_CURVATURE, 1.0)
    scale_curvature = np.clip(second**2 - third, _LEAST_SCALE_CURVATURE, 2.0)
    curvature = np.column_stack(
        [np.where(observed, 1.0, loc_curvature) / scale**2, np.where(observed, 2.0, scale_curvature)]
    )
    return gradient, curvature


def constant_fit(bounds: Bounds, weight: FloatArray) -> FloatArray:
    """Return the location and the log-scale of the best distribution without features, shape (2,)."""
    ends = np.concatenate([bounds.lower, bounds.upper])
    finite = np.unique(ends[np.isfinite(ends)])
    center, spread = float(np.median(finite)), float(np.ptp(finite)) / 4 or 1.0
    standard = Bounds((bounds.lower - center) / spread, (bounds.upper - center) / spread)
    total = weight.sum()

    def value_and_slope(theta: FloatArray) -> tuple[float, FloatArray]:
        rows = np.tile(theta, (weight.size, 1))
        return float(weight @ loss(standard, rows)) / total, weight @ derivatives(standard, rows)[0] / total

    found = minimize(value_and_slope, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-20, 20), (-15, 15)])
    return np.array([center + spread * found.x[0], np.log(spread) + found.x[1]])


SLOWER_SCALE = 0.25
"""Learning rate of the log-scale, relative to the learning rate of the location."""

PATIENCE = 20
"""Boosting ends after this number of rounds without a better held-out likelihood."""


class Rows(NamedTuple):
    """Features, bounds of the targets and weights of n rows."""

    X: FloatArray
    bounds: Bounds
    weight: FloatArray

    def take(self, part: IntArray) -> Rows:
        """Return the rows of a part that have a positive weight."""
        kept = part[self.weight[part] > 0]
        return Rows(self.X[kept], self.bounds.take(kept), self.weight[kept])


@dataclass(frozen=True)
class TreeOptions:
    """Parameters of the boosting."""

    n_estimators: int
    learning_rate: float
    max_leaf_nodes: int
    min_samples_leaf: int
    seed: int


def mean_loss(rows: Rows, theta: FloatArray) -> float:
    return float(rows.weight @ loss(rows.bounds, theta) / rows.weight.sum())


def slowed_derivatives(rows: Rows, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gradient and curvature of the weighted loss, with a smaller gradient for the log-scale."""
    gradient, curvature = derivatives(rows.bounds, theta)
    gradient[:, 1] *= SLOWER_SCALE
    weight = rows.weight[:, np.newaxis]
    return weight * gradient, weight * curvature


class LightGBMTrees:
    """Boosted trees of LightGBM."""

    def __init__(self, train: Rows, held_out: Rows, options: TreeOptions) -> None:
        import lightgbm

        # LightGBM does not use the label here, but the label must be finite.
        train_set = lightgbm.Dataset(train.X, train.weight)
        valid_set = train_set.create_valid(held_out.X, held_out.weight)

        def objective(theta: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
            return slowed_derivatives(train, theta.reshape(-1, 2))

        def score(theta: FloatArray, _: Any) -> tuple[str, float, bool]:
            return "nll", mean_loss(held_out, theta.reshape(-1, 2)), False

        settings = {
            "objective": objective,
            "num_class": 2,
            "learning_rate": options.learning_rate,
            "num_leaves": options.max_leaf_nodes,
            "min_data_in_leaf": options.min_samples_leaf,
            "feature_pre_filter": False,  # Without any feature, LightGBM stops with an error.
            "boost_from_average": False,
            "metric": "None",
            "seed": options.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        }
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        self._booster = lightgbm.train(
            settings, train_set, options.n_estimators, valid_sets=[valid_set], feval=score, callbacks=[stop]
        )

    def predict(self, X: FloatArray) -> FloatArray:
        return np.asarray(self._booster.predict(X, raw_score=True, num_threads=1))


class SklearnTrees:
    """Boosted trees of scikit-learn."""

    def __init__(self, train: Rows, held_out: Rows, options: TreeOptions) -> None:
        self._rate = options.learning_rate
        self._trees: list[list[DecisionTreeRegressor]] = []
        theta, held_theta = (np.zeros((len(rows.X), 2)) for rows in (train, held_out))
        rng = np.random.RandomState(options.seed)
        best, best_round = mean_loss(held_out, held_theta), 0
        for round_ in range(1, options.n_estimators + 1):
            gradient, curvature = slowed_derivatives(train, theta)
            trees = [
                DecisionTreeRegressor(
                    max_leaf_nodes=options.max_leaf_nodes,
                    min_samples_leaf=options.min_samples_leaf,
                    random_state=rng,
                ).fit(train.X, -slope / bend, sample_weight=bend)
                for slope, bend in zip(gradient.T, curvature.T, strict=True)
            ]
            self._trees.append(trees)
            theta, held_theta = theta + self._step(trees, train.X), held_theta + self._step(trees, held_out.X)
            value = mean_loss(held_out, held_theta)
            if value < best:
                best, best_round = value, round_
            elif round_ - best_round >= PATIENCE:
                break
        del self._trees[best_round:]

    def _step(self, trees: list[DecisionTreeRegressor], X: FloatArray) -> FloatArray:
        return self._rate * np.column_stack([tree.predict(X) for tree in trees])

    def predict(self, X: FloatArray) -> FloatArray:
        return sum((self._step(trees, X) for trees in self._trees), start=np.zeros((len(X), 2)))


ENGINES: dict[str, Any] = {"lightgbm": LightGBMTrees, "sklearn": SklearnTrees}


class BoostedFold:
    """Boosted trees. Targets are standardized by the best normal distribution without features."""

    def __init__(self, engine: str, train: Rows, held_out: Rows, options: TreeOptions) -> None:
        self._center, self._log_unit = constant_fit(train.bounds, train.weight).tolist()
        self._trees = ENGINES[engine](self._standard(train), self._standard(held_out), options)

    def _standard(self, rows: Rows) -> Rows:
        unit = np.exp(self._log_unit)
        ends = ((end - self._center) / unit for end in (rows.bounds.lower, rows.bounds.upper))
        return rows._replace(bounds=Bounds(*ends))

    def predict(self, X: FloatArray) -> FloatArray:
        """Return location and log-scale, shape (n, 2)."""
        theta = self._trees.predict(X)
        return np.column_stack(
            [self._center + np.exp(self._log_unit) * theta[:, 0], self._log_unit + theta[:, 1]]
        )


class OutOfFold(NamedTuple):
    """Tested rows, with out-of-fold predictions of the location and the log-scale."""

    rows: IntArray
    theta: FloatArray


class CensoredBoostingRegressor(BaseCensoredRegressor):
    r"""Gradient boosting of waiting times under censoring, with a log-normal distribution.

    Trees predict the location and the scale of the logarithm of the time. The likelihood of a censored row is
    the predicted probability of its possible times. The model is an accelerated failure time model: features
    multiply the time by a factor. Prefer `~skuq.regressors.UncertaintyRegressor` if no row is censored, and
    `CensoringWeightedRegressor` if the distribution is far from log-normal and few rows are censored.

    Parameters
    ----------
    family : {"lognormal", "normal"}, default="lognormal"
        Distribution of y before recalibration. "lognormal" is for positive times. "normal" is for any real
        numbers, such as measurements with a limit of detection.
    n_estimators : int, default=1000
        Maximum number of boosting rounds. Boosting ends early if the likelihood of the held-out rows does not
        improve for 20 rounds.
    learning_rate : float, default=0.1
        Learning rate of the location. Positive. The learning rate of the log-scale is a quarter of this
        value.
    max_leaf_nodes : int, default=8
        Maximum number of leaves of a tree. At least 2.
    min_samples_leaf : int, default=20
        Smallest number of rows in a leaf.
    recalibrate : bool, default=True
        Whether to correct the distributions with an `IsotonicRecalibrator`, which is fitted to the
        out-of-fold forecasts and to the censored targets.
    engine : {"auto", "lightgbm", "sklearn"}, default="auto"
        Package that grows the trees. "auto" is LightGBM if it is installed, and otherwise scikit-learn. To
        install LightGBM, use ``pip install "skuq[lightgbm]"``. Both engines give equally good, but not
        identical forecasts. LightGBM is many times as fast.
    cv : int, splitter or iterable of (train, test), default=5
        Folds. One model is fitted per fold. The forecast of a new row has the mean location and the mean
        log-scale of all models. An int k means ``KFold(k, shuffle=True)``.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one fold. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds and of the trees. An integer makes results reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    models_ : list
        The boosted trees of each fold.
    factor_ : float
        Ratio, at most 1, of the estimated error of the mean of all models to the error of a single model. The
        predicted scales are multiplied by this factor.
    recalibrator_ : IsotonicRecalibrator or None
        The fitted recalibrator. None without recalibration.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Raises
    ------
    ValueError
        If all targets are censored, if times are not positive, or if bounds contradict y.

    See Also
    --------
    CensoringWeightedRegressor : Any regressor, with weights that correct for right-censoring.
    skuq.metrics.nll_loss : Likelihood of censored targets.
    skuq.survival.from_survival : Conversion of scikit-survival's targets.

    Notes
    -----
    With the standardized logarithm :math:`z = (\log y - \mu) / \sigma`, the loss of an observed row is
    :math:`\log\sigma + z^2/2`, and the loss of a row with bounds is :math:`-\log(\Phi(z_u) - \Phi(z_l))`.
    Each boosting step uses the gradient of the loss with respect to :math:`\mu` and :math:`\log\sigma`, and a
    positive approximation of the second derivative, as in [1]_. Missing values in X are allowed. Encode
    categories as numbers.

    ``benchmarks/censored.py`` simulates 1500 rows, half of them censored. On average over four simulations,
    the CRPS of the logarithm was 1.08 times the CRPS of the true distribution, and 90 % of the new times were
    in the 90 % intervals. For `~skuq.regressors.UncertaintyRegressor` with scikit-learn's boosting, the ratio
    was 1.27 if it was fitted without the censored rows, and 1.68 if censored times were treated as observed
    times. For `CensoringWeightedRegressor`, the ratio was 1.15.

    A censored row gives no information about the shape of the tail beyond its time. Therefore, quantiles
    above the largest observed times are an extrapolation that depends on the family.

    Weights count as repetitions in the likelihood, but not for ``min_samples_leaf``.

    References
    ----------
    .. [1] A. Barnwal, H. Cho, T. Hocking (2022), Survival regression with accelerated failure time model in
       XGBoost. https://doi.org/10.1080/10618600.2022.2067548

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.survival import CensoredBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> T = np.exp(1 + X[:, 0] + 0.2 * rng.normal(size=400))
    >>> C = rng.exponential(10.0, size=400)
    >>> y, event = np.minimum(T, C), T <= C
    >>> model = CensoredBoostingRegressor(engine="sklearn", n_estimators=30, random_state=0)
    >>> dist = model.fit(X, y, event=event).predict_dist([[0.1, 0.5], [0.9, 0.5]])
    >>> bool((np.diff(dist.median()) > 1).all())
    True
    """

    _censoring_names = CENSORING

    def __init__(
        self,
        family: Literal["lognormal", "normal"] = "lognormal",
        *,
        n_estimators: int = 1000,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 20,
        recalibrate: bool = True,
        engine: Literal["auto", "lightgbm", "sklearn"] = "auto",
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.family = family
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.recalibrate = recalibrate
        self.engine = engine
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        event: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the distribution of y given X to observed and censored rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, p)
            Training features. NaN is allowed.
        y : array-like of shape (n,)
            Target of an observed row, and time of censoring of a censored row. If a row has two bounds, its y
            is any value between them.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        event : array-like of bool, shape (n,), default=None
            True if the target is observed. False if the target is only known to be larger than y. None means
            that all targets are observed.
        lower, upper : array-like of shape (n,), default=None
            Known bounds of each target, instead of `event`. None means y. Equal bounds mean an observed
            target, ``upper=inf`` means a right-censored target, and ``lower=0`` means a left-censored time.
        **fit_params : dict
            ``groups`` is passed to the splitter.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        bounds = {"event": event, "lower": lower, "upper": upper}
        fitted: Self = super().fit(X, y, sample_weight, **bounds, **fit_params)
        return fitted

    def fit_transform(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        event: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Distribution:
        """Fit on all rows, and return out-of-sample predictive distributions of these rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, p)
            Training features.
        y : array-like of shape (n,)
            Target of an observed row, and time of censoring of a censored row.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        event : array-like of bool, shape (n,), default=None
            As in `fit`.
        lower, upper : array-like of shape (n,), default=None
            As in `fit`.
        **fit_params : dict
            As in `fit`.

        Returns
        -------
        dist : Distribution of n rows
            Distributions in the order of the rows of X.
        """
        bounds = {"event": event, "lower": lower, "upper": upper}
        dist: Distribution = super().fit_transform(X, y, sample_weight, **bounds, **fit_params)
        return dist

    def _is_calibrated(self) -> bool:
        return bool(self.recalibrate)

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._learn(data, progress)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        tested = self._learn(data, progress)
        if not is_partition([tested.rows], len(data)):
            raise ValueError(
                "`cv` must test every row exactly once for `fit_transform`, but it does not. Use a partition "
                "such as KFold or GroupKFold."
            )
        return self._dist(tested.theta[np.argsort(tested.rows, kind="stable")])

    def _fit_and_test(self, data: TrainingData, progress: Progress) -> tuple[IntArray, Distribution]:
        tested = self._learn(data, progress)
        return tested.rows, self._dist(tested.theta)

    def _learn(self, data: TrainingData, progress: Progress) -> OutOfFold:
        """Fit a model per fold, and the recalibrator. Return the out-of-fold parameters."""
        check_option(self.recalibrate, "recalibrate", (True, False))
        effective_rows(data.sample_weight, len(data))  # raises an error if the weights are relative
        fold_seed, tree_seed = check_random_state(self.random_state).randint(MAX_SEED, size=2).tolist()
        options = self._tree_options(tree_seed)
        X = self._features(data.X, reset=True)
        bounds = self._model_bounds(data)
        rows = Rows(X, bounds, data.repetitions)
        folds = split_rows(resolve_cv(self.cv, fold_seed), data.X, data.y, data.groups)
        engine = check_option(self.engine, "engine", ("auto", *ENGINES))
        name = ("lightgbm" if find_spec("lightgbm") else "sklearn") if engine == "auto" else engine
        tasks = (partial(_fit_fold, name, rows, fold, options) for fold in folds)
        self.models_ = []
        for model in run_parallel(tasks, n_jobs=self.n_jobs, one_by_one=True, verbose=self.verbose):
            self.models_.append(model)
            progress.done("fold")
        predicted = [model.predict(X) for model in self.models_]
        theta = np.concatenate([one[test] for one, (_, test) in zip(predicted, folds, strict=True)])
        self.factor_ = _relative_scale(predicted, [test for _, test in folds], rows.weight)
        tested = np.concatenate([test for _, test in folds])
        self._fit_recalibrator(theta, bounds.take(tested), data.repetitions_of(tested))
        data.warn_of_few_rows(tested[bounds.known[tested]])
        return OutOfFold(tested, theta)

    def _tree_options(self, seed: int) -> TreeOptions:
        return TreeOptions(
            check_integer(self.n_estimators, "n_estimators"),
            check_number(self.learning_rate, "learning_rate", positive=True),
            check_integer(self.max_leaf_nodes, "max_leaf_nodes", minimum=2),
            check_integer(self.min_samples_leaf, "min_samples_leaf"),
            seed,
        )

    def _features(self, X: Any, *, reset: bool) -> FloatArray:
        checked: FloatArray = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        return checked

    def _model_bounds(self, data: TrainingData) -> Bounds:
        """Return the bounds of the modeled variable, which is the logarithm of y or y itself."""
        bounds = self._bounds(data) or Bounds.from_event(data.y, None)
        if check_option(self.family, "family", ("lognormal", "normal")) == "normal":
            return bounds
        check_times(data.y, "y")
        wrong = bounds.upper <= 0
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"`y` must be positive with family='lognormal', got {data.y[row]:g} at row {row}. For "
                "a time that is too short to measure, pass bounds with `lower` 0. Or use family='normal'."
            )
        with np.errstate(divide="ignore"):
            return Bounds(np.log(np.maximum(bounds.lower, 0.0)), np.log(bounds.upper))

    def _fit_recalibrator(self, theta: FloatArray, bounds: Bounds, weight: FloatArray) -> None:
        self.recalibrator_ = None
        if not self.recalibrate:
            return
        known = np.where(np.isfinite(bounds.lower), bounds.lower, bounds.upper)
        with few_rows_reported():
            self.recalibrator_ = IsotonicRecalibrator().fit(
                _normal(theta), known, weight, lower=bounds.lower, upper=bounds.upper
            )

    def _dist(self, theta: FloatArray) -> Distribution:
        dist: Distribution = _normal(theta)
        if self.recalibrator_ is not None:
            dist = self.recalibrator_.transform(dist)
        return dist if self.family == "normal" else Transformed(dist, np.exp, np.log)

    def _predict_dist(self, X: Any) -> Distribution:
        checked = self._features(X, reset=False)
        theta = np.mean([model.predict(checked) for model in self.models_], axis=0)
        theta[:, 1] += np.log(self.factor_)
        return self._dist(theta)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.positive_only = self.family == "lognormal"
        return tags


def _normal(theta: FloatArray) -> Normal:
    return Normal(theta[:, 0], np.exp(theta[:, 1]))


def _relative_scale(predicted: list[FloatArray], tests: list[IntArray], weight: FloatArray) -> float:
    """Return the error of the mean location of the models, divided by the error of a single model.

    The mean squared error of single models is the squared error of the mean location plus the variance
    between the models.
    """
    n = len(predicted)
    loc = np.stack([one[:, 0] for one in predicted])
    for own, test in zip(loc, tests, strict=True):
        own[test] = np.nan  # For each row, compare only the models that are trained on the row.
    rows = (np.isfinite(loc).sum(axis=0) >= 2) & (weight > 0)
    if n < 3 or not rows.any():
        return 1.0
    scale = np.exp(np.mean([one[rows, 1] for one in predicted], axis=0))
    variance = np.nanvar(loc[:, rows], axis=0, ddof=1) * (n - 1) / n
    return float(np.sqrt(max(1 - np.average(variance / scale**2, weights=weight[rows]), 0.5)))


def _fit_fold(engine: str, rows: Rows, fold: Split, options: TreeOptions) -> BoostedFold:
    train, held_out = map(rows.take, fold)
    if not train.bounds.known.any():
        raise ValueError(
            "`event` must be True in some training rows of each fold, but in one fold, all are censored. Use "
            "fewer folds, or pass splits with equal shares of events, such as cv=list(StratifiedKFold(5)."
            "split(X, event))."
        )
    return BoostedFold(engine, train, held_out, options)
