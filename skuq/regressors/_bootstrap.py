"""Ensemble of models that are fitted to resampled rows, with an estimate of the noise around their mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._compat import ForestRegressor, is_pairwise, run_parallel, safe_indexing
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import point_predict, predict_member, rows_outside
from skuq._fitting.fit_wrapped import fit_wrapped, in_target_units
from skuq._fitting.seeds import MAX_SEED, NO_PROGRESS, Progress, seed_everything, seeded_clone
from skuq._fitting.table import ScaleFeatures
from skuq._fitting.training_data import TrainingData
from skuq._numeric import power_of_two, root_mean_square, standard_deviation
from skuq._typing import BoolArray, FloatArray, IntArray, SupportLike
from skuq._validation import check_integer, check_option, check_random_state, effective_rows
from skuq.distributions import Distribution, Empirical, Quantiles, StudentT
from skuq.distributions._student_t import fit_student, predictive_df
from skuq.prediction._register import last_step, note_fold, place_of
from skuq.regressors._error_forest import LEVELS, MOST_ROWS, ErrorForest, ErrorSample, SecondErrors
from skuq.regressors._forest_trees import fit_forest, grows_trees

Noise = Literal["homoscedastic", "heteroscedastic"] | None


class BootstrapRegressor(BaseUncertaintyRegressor):
    r"""Ensemble of models fitted to resampled rows, with an estimate of the noise around their mean.

    The distribution has an epistemic part (`epistemic`) and a noise part (`aleatoric`). The epistemic part
    shrinks with more data. The class works with any regressor. Prefer `ResidualRegressor` if you do not need
    both parts: `ResidualRegressor` needs fewer fits, corrects the bias of the regressor and does not assume a
    Student t distribution.

    Parameters
    ----------
    estimator : estimator
        The estimator is cloned and fitted `n_estimators` times. A forest or a BaggingRegressor is fitted
        once, and its trees or estimators are the members. A FrozenEstimator around a fitted ensemble is not
        refitted: `fit` only estimates the noise. In this case, pass `fit` rows that the ensemble was not
        trained on.
    n_estimators : int, default=50
        Number of members M. It must be at least 2. It is ignored for a forest or a BaggingRegressor.
    noise : {"homoscedastic", "heteroscedastic", None}, default="homoscedastic"
        "homoscedastic" estimates one noise variance for all rows. "heteroscedastic" estimates a noise
        variance that depends on x. With None, the distribution of the members is returned without noise. This
        distribution describes the uncertainty of f(x). Its intervals are far too short for y and must be
        recalibrated.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are the means of the clipped forecasts.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one member. The results do not depend on
        ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the resamples and of the members. An integer makes results reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimators_ : list
        The fitted members. Empty if the members of a forest or a BaggingRegressor are used.
    model_ : estimator or None
        The fitted forest or BaggingRegressor whose members are used. None if the members are clones.
    noise_scale_ : float
        Square root of the mean noise variance of equation 9, in the units of y, before calibration.
    factor_ : float
        Factor by which calibration multiplies the standard deviations of both parts.
    df_ : float
        Degrees of freedom of the Student t distribution.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    ForestDistributionRegressor : Calibrated distribution of a forest. It has an epistemic part.
    ResidualRegressor : Distribution of the errors of any regressor.
    UncertaintyRegressor : Chooses the method that suits the regressor.

    Notes
    -----
    The class implements algorithm 1 of [1]_. Each member is fitted to rows that are drawn with replacement.
    Let :math:`\hat f(x)` be the mean of the members' predictions, and :math:`\hat\sigma_\omega^2(x)` the
    variance of these predictions with the divisor M - 1. The noise variance is the mean over rows of
    :math:`\max((y - \hat f)^2 - \hat\sigma_\omega^2, 0)` (equation 9). The paper computes this mean on a
    validation set. This class instead predicts each training row by its out-of-bag members. With a
    FrozenEstimator, the rows passed to `fit` are the validation set.

    In the paper, the predictive distribution is a Student t distribution with M degrees of freedom and the
    squared scale :math:`\hat\sigma_\omega^2 + \hat\sigma^2`. Its intervals are too long, because
    :math:`\hat\sigma_\omega^2` is the variance of one member and not of the mean of the members, and because
    equation 9 replaces negative differences by 0. This class therefore fits a Student t distribution to the
    out-of-bag errors, divided by the scale of the paper. The likelihood gives its degrees of freedom and the
    factor that multiplies both parts. The mean coverage of the intervals is then close to nominal
    (:doc:`/replications/any-regressor`).

    With "heteroscedastic", a forest learns the distribution of :math:`|y - \hat f|` from X and
    :math:`\hat f`, as in `ResidualRegressor` with ``center="model"``. The predicted variances are then
    multiplied by one factor, so that their mean is the variance of equation 9. The distribution stays
    unimodal. If the members are biased and the size of the bias is predictable, the errors of a row have two
    modes, and 50 % intervals are too short. Use `ResidualRegressor`, which corrects the bias.

    With ``noise=None``, the result is an `Empirical` distribution of the members' predictions, as in [2]_.
    The bounds of an interval are quantiles of the members. The distribution has no density. A recalibrator
    that only changes the probability levels cannot widen the distribution beyond the smallest and the largest
    member. Use `StdScalingRecalibrator` instead, which multiplies the standard deviation by a factor. Use at
    least 50 members: with few members, all members may predict the same value for a row. The standard
    deviation is then 0, and a factor cannot widen it.

    Each draw selects a row with a probability proportional to its ``sample_weight``. The number of draws is
    the sum of the weights. Weights therefore work with any estimator. For a forest or a BaggingRegressor, the
    weights are passed to its `fit`.

    `fit` and `fit_transform` predict each training row by its k out-of-bag members. The variance of the error
    is larger than for a new row by :math:`\hat\sigma_\omega^2 (1/k - 1/M)`, because a mean of k members is
    less certain than a mean of M members. The factor does not multiply this variance. The likelihood gives
    each row the weight k - 1, because the spread of few members is imprecise. With 10 fully grown trees,
    intervals are still slightly too long, also after a recalibrator. With 25 trees, their coverage is close
    to nominal.

    In `fit_transform`, a row with fewer than two out-of-bag members is predicted by additional members that
    are fitted without this row. With ``noise=None``, additional members also predict a row if all its
    out-of-bag members predict the same wrong value. Such rows are rare with 50 members, and less rare with 10
    members. If there are no such rows, `fit_transform` costs as much as `fit`. A forest with
    ``bootstrap=False`` has no out-of-bag rows, so `fit_transform` refits it in ten folds.

    If fewer than 12 rows are available to estimate the noise, a `SmallSampleWarning` is issued.

    Cost: `n_estimators` fits. "heteroscedastic" additionally needs the fit of a small forest. A prediction
    for n rows needs O(n M) memory.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine
       learning for regression?", Neural Networks 173, 2024, algorithm 1 and equation 9,
       doi:10.1016/j.neunet.2024.106203.
    .. [2] B. Kompa, J. Snoek, A. L. Beam, "Empirical frequentist coverage of deep learning uncertainty
       quantification procedures", Entropy 23(12), 2021, doi:10.3390/e23121608.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from skuq.regressors import BootstrapRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 1))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=300)
    >>> model = BootstrapRegressor(DecisionTreeRegressor(min_samples_leaf=20), random_state=0).fit(X, y)
    >>> dist = model.predict_dist([[0.5]])
    >>> bool(dist.epistemic().std() < dist.aleatoric().std())
    True
    """

    def __init__(
        self,
        estimator: Any,
        n_estimators: int = 50,
        *,
        noise: Noise = "homoscedastic",
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.noise = noise
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _n_tasks(self) -> int | None:
        if has_own_members(self.estimator):
            return None
        return self.n_estimators + (self.noise == "heteroscedastic")

    def _routes_weight(self) -> bool:
        return has_own_members(self.estimator)

    def _is_calibrated(self) -> bool:
        return self.noise is not None  # without noise, the intervals are too short for y

    def _tests_own_rows(self) -> bool:
        return True

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._learn(data, progress, every_row=False)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        return self._distribution(*self._learn(data, progress, every_row=True))

    def _learn(
        self, data: TrainingData, progress: Progress, *, every_row: bool
    ) -> tuple[MemberPredictions, FloatArray]:
        """Fit the members and the noise.

        Return the out-of-bag predictions and the noise scale of each row.
        """
        check_option(self.noise, "noise", ("homoscedastic", "heteroscedastic", None))
        rng = check_random_state(self.random_state)
        oob = self._fit_members(data, rng, progress)
        noise_seed, refit_seed = rng.randint(MAX_SEED, size=2).tolist()
        usable = (oob.count >= 2) & (data.repetitions > 0)
        if every_row or (self.noise is not None and not usable.any()):
            oob = self._refit_without_rows(data, oob, refit_seed)
        if not usable.any():  # without bootstrap, no row is out of bag
            usable[:] = True
        return oob, self._fit_noise(data, oob, usable, noise_seed, progress)

    def _fit_members(
        self, data: TrainingData, rng: np.random.RandomState, progress: Progress
    ) -> MemberPredictions:
        self.estimators_: list[Any] = []
        self.model_: Any = None
        if has_own_members(self.estimator):
            oob = self._fit_own(data, rng)
            progress.done("ensemble")
            return oob
        n_members = check_integer(self.n_estimators, "n_estimators", minimum=2)
        self.estimators_, oob = fit_members(
            self.estimator,
            data,
            rng.randint(MAX_SEED, size=n_members).tolist(),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            on_member=progress.reporter("member"),
        )
        return oob

    def _fit_own(self, data: TrainingData, rng: np.random.RandomState) -> MemberPredictions:
        """Fit an ensemble once, and return the out-of-bag predictions of its members."""
        seed = int(rng.randint(MAX_SEED))
        frozen = isinstance(self.estimator, FrozenEstimator)
        if frozen:
            self.model_ = self.estimator
        else:
            self.model_ = seeded_clone(self.estimator, seed, self.random_state)
            fitted = self._fit_ensemble(self.model_, data)
            if fitted is not self.model_:  # the target is constant, so no members are fitted
                self.model_, self.estimators_ = None, [fitted] * self.model_.n_estimators
                return self._members(data.X)
        values = own_member_predictions(self.model_, data.X, self.n_jobs)
        if values.shape[1] < 2:
            raise ValueError("`estimator` must have at least two members, got one. Increase `n_estimators`.")
        used = np.ones(values.shape, dtype=bool)
        if not frozen:  # no member of a frozen ensemble was trained on these rows
            for column, rows in enumerate(self.model_.estimators_samples_):
                used[rows, column] = False
        return MemberPredictions(values, used)

    def _fit_ensemble(self, ensemble: Any, data: TrainingData) -> Any:
        if not grows_trees(ensemble):
            return fit_wrapped(ensemble, data.X, data.target, **data.fit_params)
        unit = power_of_two(standard_deviation(data.y)) if np.ptp(data.y / 2) > 0 else 1.0
        return fit_forest(ensemble, data.X, data.y, unit, data.fit_params)

    def _refit_without_rows(self, data: TrainingData, oob: MemberPredictions, seed: int) -> MemberPredictions:
        """Fit new members without the rows that have too few out-of-bag members, and predict these rows."""
        too_few = np.flatnonzero(self._too_few_oob(data, oob))
        if not len(too_few):
            return oob
        rng = np.random.RandomState(seed)
        values, used = oob.values.copy(), oob.used.copy()
        n_parts = min(len(too_few), -(-10 * len(too_few) // len(data)))
        for rows in np.array_split(rng.permutation(too_few), n_parts):
            others = rows_outside(rows, len(data))
            part_seed = int(rng.randint(MAX_SEED))
            helper = BootstrapRegressor(
                self.estimator, self.n_estimators, noise=None, n_jobs=self.n_jobs, random_state=part_seed
            )
            helper._fit_members(data.take(others), np.random.RandomState(part_seed), NO_PROGRESS)
            values[rows] = helper._members(safe_indexing(data.X, rows)).values
            used[rows] = True
        return MemberPredictions(values, used)

    def _too_few_oob(self, data: TrainingData, oob: MemberPredictions) -> BoolArray:
        too_few: BoolArray = oob.count < 2
        if self.noise is None:
            mean, std = oob.mean_and_std()
            too_few |= (std == 0) & (mean != data.y)
        return too_few

    # --------------------------------------------------------------------------------- noise

    def _fit_noise(
        self, data: TrainingData, oob: MemberPredictions, usable: BoolArray, seed: int, progress: Progress
    ) -> FloatArray:
        """Estimate the noise (equation 9) and the Student t distribution of the out-of-bag errors.

        Return the noise scale of each row.
        """
        self.noise_scale_, self.factor_, self.df_ = 0.0, 1.0, np.inf
        self._noise: ErrorForest | None = None
        scale = np.zeros(len(data))
        if self.noise is None:
            return scale
        rows, weight = np.flatnonzero(usable), data.repetitions[usable]
        mean, std = oob.mean_and_std()
        size = np.abs(data.y - mean)[rows]
        excess = np.sqrt(np.maximum(size - std[rows], 0.0)) * np.sqrt(size + std[rows])
        self.noise_scale_ = root_mean_square(excess, weight)
        data.warn_of_few_rows(rows)
        if self.noise_scale_ == 0:
            return scale
        scale += self.noise_scale_
        if self.noise == "heteroscedastic":
            scale = self._fit_noise_model(data, rows, mean, seed)
            progress.done("noise model")
        total, extra = np.hypot(std, scale)[rows], self._extra(oob, std)[rows]
        freedom = oob.count[rows] - 1.0  # the spread of few members is imprecise, so such a row counts less
        freedom *= weight.sum() / (freedom @ weight)
        for _ in range(3):  # the extra variance is not multiplied by the factor, so it depends on the factor
            df, self.factor_ = fit_student(size / np.hypot(total, extra / self.factor_), freedom * weight)
        self.df_ = min(df, predictive_df(data.independent_rows(rows)))
        return scale

    def _fit_noise_model(
        self, data: TrainingData, usable_rows: IntArray, mean: FloatArray, seed: int
    ) -> FloatArray:
        """Fit the noise model and rescale it to the variance of equation 9. Return the out-of-bag scales."""
        rng = np.random.RandomState(seed)
        sample = rng.permutation(usable_rows)[:MOST_ROWS]
        X = safe_indexing(data.X, sample)
        self._features = ScaleFeatures.from_columns(X, pairwise=is_pairwise(self.estimator))
        errors = ErrorSample(
            self._features(X, mean[sample]),
            data.y[sample] - mean[sample],
            data.repetitions[sample],
            np.arange(len(sample)),
            np.zeros(len(sample), dtype=np.intp),
        )
        none = np.empty(0, dtype=np.intp)
        second = SecondErrors(none, np.empty((0, errors.table.shape[1])), np.empty(0))
        self._noise = ErrorForest(symmetric=True)
        quantiles = np.empty((len(data), len(LEVELS)))
        quantiles[sample] = self._noise.fit(errors, second, data.independent_rows(sample), 1, rng)
        others = np.setdiff1d(np.arange(len(data)), sample)
        if len(others):
            table = self._features(safe_indexing(data.X, others), mean[others])
            levels = self._noise.out_of_bag_levels
            quantiles[others] = self._noise.quantiles(table, levels, mean[np.newaxis, others])
        scale = Quantiles(LEVELS, quantiles).std()
        weight = data.repetitions[usable_rows]
        self._noise_factor = self.noise_scale_ / root_mean_square(scale[usable_rows], weight)
        return np.asarray(self._noise_factor * scale)

    def _members(self, X: Any) -> MemberPredictions:
        if self.model_ is not None:
            values = own_member_predictions(self.model_, X, self.n_jobs)
        else:
            values = predict_members(self.estimators_, X, self.n_jobs)
        return MemberPredictions(values, np.ones(values.shape, dtype=bool))

    def _has_point(self) -> bool:
        return self.support is None  # the mean of the members is then the mean of the distribution

    def _point(self, X: Any) -> FloatArray:
        return self._members(X).mean_and_std()[0]

    def _predict_dist(self, X: Any) -> Distribution:
        return self._around(self._members(X), X)

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        members = self._members(X)
        return members.mean_and_std()[0], self._around(members, X)

    def _around(self, members: MemberPredictions, X: Any) -> Distribution:
        noise: FloatArray | float = self.noise_scale_
        if self._noise is not None:
            mean = members.mean_and_std()[0]
            table = self._features(X, mean)
            quantiles = self._noise.quantiles(table, self._noise.new_row_levels, mean[np.newaxis])
            noise = self._noise_factor * Quantiles(LEVELS, quantiles).std()
        return self._distribution(members, noise)

    def _distribution(self, members: MemberPredictions, noise: FloatArray | float) -> Distribution:
        if self.noise is None:
            every = bool(members.used.all())
            return Empirical(members.values, None if every else members.used.astype(np.float64))
        mean, std = members.mean_and_std()
        epistemic = np.hypot(self.factor_ * std, self._extra(members, std))
        total = np.hypot(epistemic, self.factor_ * noise)
        return StudentT(mean, total, self.df_, epistemic_scale=epistemic)

    @staticmethod
    def _extra(members: MemberPredictions, std: FloatArray) -> FloatArray:
        """Return the standard deviation of the mean of a row's members around the mean of all members."""
        share = 1.0 / np.maximum(members.count, 1) - 1.0 / members.values.shape[1]
        return np.asarray(std * np.sqrt(share))


@dataclass(frozen=True, eq=False)
class MemberPredictions:
    """Predictions of each member for all rows."""

    values: FloatArray  # shape (n, M); only defined where `used` is True
    # shape (n, M); for a training row, True for its out-of-bag members; for a new row, always True
    used: BoolArray

    @property
    def count(self) -> IntArray:
        count: IntArray = self.used.sum(axis=1)
        return count

    def mean_and_std(self) -> tuple[FloatArray, FloatArray]:
        count = self.count
        mean = np.where(self.used, self.values, 0.0).sum(axis=1) / np.maximum(count, 1)
        deviation = np.where(self.used, self.values - mean[:, np.newaxis], 0.0)
        variance = np.einsum("ij,ij->i", deviation, deviation) / np.maximum(count - 1, 1)
        return mean, np.sqrt(variance)

    def take(self, rows: IntArray | BoolArray) -> MemberPredictions:
        return MemberPredictions(self.values[rows], self.used[rows])


# ------------------------------------------------------------------------------ bootstrap members


def fit_members(
    estimator: Any,
    data: TrainingData,
    seeds: Sequence[int],
    *,
    n_jobs: int | None,
    verbose: int,
    on_member: Callable[..., object] | None,
) -> tuple[list[Any], MemberPredictions]:
    """Fit one clone per seed to a bootstrap sample. Predict the rows that are not in this sample."""
    n_draws = round(effective_rows(data.sample_weight, len(data)))
    estimator = in_target_units(estimator, data.y)
    tasks = (
        partial(
            _fit_member, clone(estimator), data, int(seed), n_draws, place_of("member", member, len(seeds))
        )
        for member, seed in enumerate(seeds)
    )
    results = run_parallel(tasks, n_jobs=n_jobs, one_by_one=on_member is not None, verbose=verbose)
    values = np.zeros((len(data), len(seeds)))
    used = np.zeros(values.shape, dtype=bool)
    members = []
    for column, (member, rows, prediction) in enumerate(results):
        members.append(member)
        values[rows, column] = prediction
        used[rows, column] = True
        if on_member is not None:
            on_member()
    return members, MemberPredictions(values, used)


def _fit_member(
    estimator: Any, data: TrainingData, seed: int, n_draws: int, place: str
) -> tuple[Any, IntArray, FloatArray]:
    rng = np.random.RandomState(seed)
    n = len(data)
    if data.sample_weight is None:
        rows = rng.randint(0, n, n_draws)
    else:
        rows = rng.choice(n, n_draws, p=data.sample_weight / data.sample_weight.sum())
    drawn = data.take(rows)
    seed_everything(estimator, int(rng.randint(MAX_SEED)))
    unseen = rows_outside(rows, n)
    with note_fold(place):
        estimator = fit_wrapped(estimator, drawn.X, drawn.target, **drawn.params)
        if not len(unseen):
            return estimator, unseen, np.zeros(0)
        return estimator, unseen, point_predict(estimator, safe_indexing(data.X, unseen))


def predict_members(members: Sequence[Any], X: Any, n_jobs: int | None) -> FloatArray:
    return _each_prediction(members, [X] * len(members), n_jobs)


def _each_prediction(members: Sequence[Any], inputs: Sequence[Any], n_jobs: int | None) -> FloatArray:
    tasks = (
        partial(predict_member, member, X, place_of("member", number, len(members)))
        for number, (member, X) in enumerate(zip(members, inputs, strict=True))
    )
    return np.column_stack(list(run_parallel(tasks, n_jobs=n_jobs, prefer="threads")))


# ----------------------------------------------------------------- members of a fitted ensemble


def has_own_members(estimator: Any) -> bool:
    if isinstance(estimator, FrozenEstimator):
        return has_own_members(last_step(estimator.estimator))
    return isinstance(estimator, ForestRegressor | BaggingRegressor)


def own_member_predictions(ensemble: Any, X: Any, n_jobs: int | None) -> FloatArray:
    if isinstance(ensemble, FrozenEstimator):
        return own_member_predictions(ensemble.estimator, X, n_jobs)
    if isinstance(ensemble, Pipeline):
        return own_member_predictions(ensemble.steps[-1][1], ensemble[:-1].transform(X), n_jobs)
    check_is_fitted(ensemble)
    # The members are fitted to an array without column names.
    forest = isinstance(ensemble, ForestRegressor)
    array = validate_data(
        ensemble,
        X,
        accept_sparse=["csr"] if forest else ["csr", "csc"],
        dtype=np.float32 if forest else None,
        ensure_all_finite=False,
        reset=False,
    )
    if forest:
        return predict_members(ensemble.estimators_, array, n_jobs)
    inputs = [array[:, features] for features in ensemble.estimators_features_]
    return _each_prediction(ensemble.estimators_, inputs, n_jobs)
