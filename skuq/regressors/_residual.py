"""Regressor with the distribution of the out-of-fold errors of any model."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator

from skuq._compat import is_pairwise, safe_indexing
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import (
    CrossFit,
    columns_of_rows,
    cross_fit,
    find_mismatch,
    is_partition,
    point_predict,
    resolve_cv,
    split_rows,
    warn_of_mismatch,
)
from skuq._fitting.fit_wrapped import fit_wrapped, in_target_units
from skuq._fitting.seeds import MAX_SEED, Progress, seeded_clone
from skuq._fitting.table import ScaleFeatures
from skuq._fitting.training_data import TrainingData
from skuq._typing import FloatArray, IntArray, SupportLike
from skuq._validation import check_option, check_random_state, effective_rows
from skuq.distributions import Distribution, Quantiles
from skuq.regressors._error_forest import (
    FEWEST_ROWS,
    LEVELS,
    MOST_ROWS,
    ErrorForest,
    ErrorSample,
    SecondErrors,
)

FOLDS_BY_EFFORT = {"low": 3, "standard": 5, "high": 10}
"""For each effort, the number of folds if ``cv`` is None.

`UncertaintyRegressor` uses it for all methods with folds, except quantile losses with one fit per level.
"""

MOST_MODELS = 20
"""With more folds, new rows are predicted by one model that is fitted to all rows."""

LEFT_OUT_TWICE = 100
"""Number of rows that two models leave out. It is at least 5 % and at most 25 % of the rows."""


class TestedRows(NamedTuple):
    """Predictions for rows that the models leave out.

    A splitter may test a row in several folds or in no fold. An entry is a row and one of its test folds.
    """

    rows: IntArray
    loc: FloatArray
    fold: IntArray
    groups: IntArray  # numbers of the groups of all rows of the data
    twice: IntArray  # rows that two models leave out
    second: FloatArray  # their predictions by the second model


class ResidualRegressor(BaseUncertaintyRegressor):
    r"""Distribution of the errors of any regressor, learned from held-out rows.

    The class turns any regressor into a calibrated predictive distribution. The errors of the regressor may
    be biased, skewed or heavy-tailed, and their distribution may depend on x. Prefer `BootstrapRegressor` if
    you need to separate epistemic uncertainty from noise.

    Parameters
    ----------
    estimator : estimator
        The regressor; cloned. A FrozenEstimator is not refitted: `fit` only learns its errors.
    center : {"mean", "model"}, default="mean"
        Center of the distributions.

        - "mean": each model's prediction is corrected by the errors of similar rows, and the corrected
          forecasts of the models of all folds are averaged. `predict` returns the mean of the distribution.
        - "model": one model, fitted to all rows. The distributions are symmetric around its prediction, which
          `predict` returns if there is no ``support``. A prediction calls one model instead of one model per
          fold. On 15 data sets, the CRPS is 1.2 times the CRPS of "mean" around boosting. Around linear
          models, which are biased, it is 2.2 times the CRPS of "mean". If this model differs from the folds'
          models far more than they differ from each other, for example after early stopping, its errors are
          unknown. The center is then the mean of the folds' models, and a FoldMismatchWarning is issued.
    effort : {"low", "standard", "high"}, default="standard"
        Amount of computation: 3, 5 or 10 folds if ``cv`` is None.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds of the models. An int k means ``KFold(k, shuffle=True)``. With None, ``effort`` gives the number
        of folds. Any splitter is valid. If it does not test every row exactly once, as in time order,
        or if it has more than 20 folds, new rows are predicted by one model that is fitted to all rows.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are the means of the clipped forecasts.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one fold. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of all random steps, and of estimators without a seed of their own. An integer makes results
        reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimators_ : list of estimators
        The models that predict new rows: one per fold, or one model fitted to all rows. A scikit-learn
        estimator with absolute tolerances or step sizes is wrapped in a `TransformedTargetRegressor` that
        divides y by a power of two. The results then do not depend on the units of y.
    narrowing_ : float
        Factor in [0.8, 1] by which the forecasts of new rows are narrower than the out-of-bag forecasts
        (step 3 of the Notes).
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    UncertaintyRegressor : Chooses the method that suits the regressor.
    RecalibratedRegressor : Calibration of a model that already has a distribution.

    Notes
    -----
    1. One model is fitted per fold, without the rows of the fold and without a few rows of the next fold.
    2. A bootstrap forest of extremely randomized trees [1]_ learns, from X and the prediction, the
       distribution of the out-of-fold errors. The forecast of each model is corrected, and the quantiles
       of all models are averaged.
    3. An isotonic map of the probability levels, as in `IsotonicRecalibrator`, calibrates the out-of-bag
       forecasts of the training rows. New rows are narrower by what the average of the models gains, as
       measured on the rows that two models leave out.

    The gain is :math:`\sqrt{1 - (1 - 1/K) v}` for K models, where v is the variance between two forecasts of
    a row, divided by the variance of their errors. The errors are normal scores, so their units and tails do
    not matter. The factor is divided by :math:`1 + (1 - 1/K) h`. The number h corrects the out-of-bag
    forecasts: the errors of other folds come from models that were trained on the target of the row, and
    therefore move the forecast away from this target. Estimates e of v and h with the standard error s are
    shrunk to :math:`\max(e - s^2 / e, 0)`, and the factor is at least 0.8.

    The trees split the rank bins of the features. One forest has leaves of at least 2 rows, and splits by the
    normal score of the error and its absolute value. The other has leaves of the square root of the rows, and
    splits by the absolute value. Both and the distribution of all errors are averaged, with weights that
    minimize the squared out-of-bag error.
    Quantiles of new rows are averaged with Student t quantiles, which have the weight of 20 rows. With fewer
    than 40 rows (or groups), all rows have the same distribution of errors and no row is left out twice.
    The trees draw rows, or whole groups. If ``cv`` is a splitter that does not shuffle, or a list of folds,
    and no groups are given, they draw whole folds and no row is left out twice, because neighboring rows may
    have similar errors.

    `fit_transform` returns the out-of-bag forecasts. Weights count as repetitions. Cost: a little less than
    one fit per fold, and one fit on all rows with ``center="model"``; a forest on at most 10 000 rows. A
    prediction calls the models of all folds, or one model with ``center="model"``.

    References
    ----------
    .. [1] P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006,
       doi:10.1007/s10994-006-6226-1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.regressors import ResidualRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, size=(1000, 1))
    >>> y = 3 * X[:, 0] + 0.1 * np.exp(2 * X[:, 0]) * rng.normal(size=1000)
    >>> model = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> model.predict_dist([[0.1], [0.9]]).std().round(1)  # the true values are 0.1 and 0.6
    array([0.1, 0.5])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        center: Literal["mean", "model"] = "mean",
        effort: Literal["low", "standard", "high"] = "standard",
        cv: Any = None,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.center = center
        self.effort = effort
        self.cv = cv
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._learn(data, progress)

    def _tests_own_rows(self) -> bool:
        return True

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        rows, dist = self._fit_and_test(data, progress)
        if not is_partition([rows], len(data)):
            raise ValueError(
                "`cv` must test every row exactly once for `fit_transform`, but some rows are never tested "
                "or tested several times. Use a partition such as KFold or GroupKFold. For time-ordered or "
                "repeated splits, use RecalibratedRegressor, which accepts any splitter."
            )
        return dist[np.argsort(rows, kind="stable")]

    def _fit_and_test(self, data: TrainingData, progress: Progress) -> tuple[IntArray, Distribution]:
        tested, sample, of_sample = self._learn(data, progress)
        rows, loc = tested.rows, tested.loc
        quantiles = np.empty((len(rows), len(LEVELS)))
        quantiles[sample] = of_sample
        others = np.setdiff1d(np.arange(len(rows)), sample)
        if len(others):
            table = self._features(safe_indexing(data.X, rows[others]), loc[others])
            quantiles[others] = self._errors.quantiles(
                table, self._errors.out_of_bag_levels, loc[np.newaxis, others]
            )
        return rows, Quantiles(LEVELS, loc[:, np.newaxis] + quantiles)

    def _learn(self, data: TrainingData, progress: Progress) -> tuple[TestedRows, IntArray, FloatArray]:
        """Fit the models and the forest of their errors.

        Return the tested rows, the sample of them from which the errors are learned, and the out-of-bag
        quantiles of the errors of the sample.
        """
        check_option(self.effort, "effort", tuple(FOLDS_BY_EFFORT))
        check_option(self.center, "center", ("mean", "model"))
        effective_rows(data.sample_weight, len(data))  # raises for relative weights
        rng = check_random_state(self.random_state)
        fold_seed, model_seed, error_seed = rng.randint(MAX_SEED, size=3).tolist()
        rng = np.random.RandomState(error_seed)
        estimator = in_target_units(seeded_clone(self.estimator, model_seed, self.random_state), data.y)
        cv = FOLDS_BY_EFFORT[self.effort] if self.cv is None else self.cv
        folds = split_rows(resolve_cv(cv, fold_seed), data.X, data.y, data.groups)

        random_folds = isinstance(cv, Integral) or getattr(cv, "shuffle", False)
        tested = self._fit_folds(data, estimator, folds, rng, progress, random_folds=random_folds)
        sample = np.flatnonzero(data.repetitions[tested.rows] > 0)
        if not sample.size:
            raise ValueError(
                "at least one row that `cv` tests must have a positive weight, but the weights of all tested "
                "rows are 0. Pass other weights or another splitter."
            )
        if len(sample) > MOST_ROWS:
            sample = np.sort(rng.permutation(sample)[:MOST_ROWS])
        of_sample = self._learn_errors(data, tested, sample, rng)
        progress.done("errors")
        data.warn_of_few_rows(tested.rows)
        return tested, sample, of_sample

    def _fit_folds(
        self,
        data: TrainingData,
        estimator: Any,
        folds: list[tuple[IntArray, IntArray]],
        rng: np.random.RandomState,
        progress: Progress,
        *,
        random_folds: bool,
    ) -> TestedRows:
        """Fit one model per fold, without the fold and without a few rows of the next fold."""
        tests = [test for _, test in folds]
        averaged = (
            self.center == "mean"
            and len(folds) <= MOST_MODELS
            and is_partition(tests, len(data))
            and not isinstance(self.estimator, FrozenEstimator)
        )
        groups = groups_of_similar_errors(data, tests, random_folds=random_folds)
        twice = [np.empty(0, dtype=np.intp) for _ in folds]
        honest = random_folds or data.groups is not None
        if averaged and honest and data.independent_rows(np.arange(len(data))) >= FEWEST_ROWS:
            twice = rows_left_out_twice(tests, groups, rng)
        fit = cross_fit(
            estimator,
            data.X,
            data.target,
            cv=[
                (train[~np.isin(train, extra)], np.concatenate([test, extra]))
                for (train, test), extra in zip(folds, twice, strict=True)
            ],
            params=data.fit_params,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            predict=point_predict,
            on_fold=progress.reporter("fold"),
        )
        self._fit_models(estimator, data, fit, progress, averaged=averaged)
        sizes = [len(test) for test in tests]
        return TestedRows(
            np.concatenate(tests),
            np.concatenate([of[:size] for of, size in zip(fit.predictions, sizes, strict=True)]),
            np.repeat(np.arange(len(folds)), sizes),
            groups,
            np.concatenate(twice),
            np.concatenate([of[size:] for of, size in zip(fit.predictions, sizes, strict=True)]),
        )

    def _learn_errors(
        self, data: TrainingData, tested: TestedRows, sample: IntArray, rng: np.random.RandomState
    ) -> FloatArray:
        """Learn the distribution of the errors of a sample. Return the out-of-bag quantiles of the errors."""
        rows, loc = tested.rows[sample], tested.loc[sample]
        place = np.full(len(data), -1)  # position of each row in the sample
        place[rows] = np.arange(len(rows))
        known = place[tested.twice] >= 0
        twice, second = tested.twice[known], tested.second[known]
        X = safe_indexing(data.X, rows)
        self._features = ScaleFeatures.from_columns(X, pairwise=is_pairwise(self.estimator))
        self._errors = ErrorForest(symmetric=self.center == "model")
        errors = ErrorSample(
            self._features(X, loc),
            data.y[rows] - loc,
            data.repetitions_of(tested.rows)[sample],
            np.unique(tested.groups[rows], return_inverse=True)[1],
            tested.fold[sample],
        )
        second_errors = SecondErrors(
            place[twice], self._features(safe_indexing(data.X, twice), second), data.y[twice] - second
        )
        n = data.independent_rows(tested.rows)
        of_sample = self._errors.fit(errors, second_errors, n, len(self.estimators_), rng)
        self.narrowing_ = self._errors.narrowing
        return of_sample

    def _fit_models(
        self, estimator: Any, data: TrainingData, fit: CrossFit, progress: Progress, *, averaged: bool
    ) -> None:
        """Store the models of new rows: the models of the folds, or one model that is fitted to all rows."""
        self._columns: list[IntArray | None] = [None]
        if isinstance(self.estimator, FrozenEstimator):
            self.estimators_ = [estimator]
            return
        if not averaged:
            refit = fit_wrapped(estimator, data.X, data.target, **data.fit_params)
            progress.done("model")
            mismatch = find_mismatch(refit, fit, data.X, data.y, point_predict)
            partition = is_partition(fit.test_rows, len(data))
            averaged = partition and mismatch is not None
            warn_of_mismatch(
                mismatch,
                "Therefore, the center is the mean of the models of the folds"
                if averaged
                else "New rows are predicted by the model fitted to all rows",
            )
        self.estimators_ = list(fit.estimators) if averaged else [refit]
        self._columns *= len(self.estimators_)
        if averaged and is_pairwise(estimator):
            self._columns = list(fit.train_rows)

    def _points(self, X: Any) -> FloatArray:
        """Return the predictions of the models, shape (n_models, n)."""
        models = zip(self.estimators_, self._columns, strict=True)
        points = np.array([point_predict(model, columns_of_rows(X, columns)) for model, columns in models])
        return points if self.center == "mean" else points.mean(axis=0, keepdims=True)

    def _predict_dist(self, X: Any) -> Distribution:
        points = self._points(X)
        errors = self._errors.quantiles(self._features(X, points[0]), self._errors.new_row_levels, points)
        return Quantiles(LEVELS, points.mean(axis=0)[:, np.newaxis] + errors)


def groups_of_similar_errors(data: TrainingData, tests: list[IntArray], *, random_folds: bool) -> IntArray:
    """Return the number of the group of each row.

    Rows of one group may have similar errors, and so may rows of one fold that is not drawn at random.
    """
    labels = np.arange(len(data)) if data.groups is None else np.asarray(data.groups)
    rows = np.concatenate(tests)
    disjoint = len(tests) > 1 and len(np.unique(rows)) == len(rows)
    if data.groups is None and not random_folds and disjoint:
        for number, test in enumerate(tests):
            labels[test] = -1 - number
    return np.unique(labels, return_inverse=True)[1]


def rows_left_out_twice(
    tests: list[IntArray], groups: IntArray, rng: np.random.RandomState
) -> list[IntArray]:
    """Return, for each fold, a few rows of the next fold (whole groups)."""
    n_groups = len(np.unique(groups))
    share = np.clip(LEFT_OUT_TWICE / n_groups, 0.05, 0.25)
    extra = []
    for test in tests:
        labels = rng.permutation(np.unique(groups[test]))
        extra.append(test[np.isin(groups[test], labels[: round(share * len(labels))])])
    return extra[1:] + extra[:1]
