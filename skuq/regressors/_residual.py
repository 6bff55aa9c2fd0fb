"""A mean model, a model of the spread around it, and the shape of what is left."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import gammaln
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold

from skuq._typing import FloatArray, IntArray
from skuq._validation import check_option, check_random_state
from skuq.distributions import Distribution, Normal, StudentT
from skuq.prediction._cross_fit import CrossFit, cross_fit, resolve_cv, split_rows
from skuq.prediction._failures import located
from skuq.prediction._point import point_predict
from skuq.prediction._row_sets import row_mask
from skuq.prediction._wrapped import fit_wrapped
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._fit_inputs import TrainingData, weights_for
from skuq.regressors._nested_scale import nested_log_scale
from skuq.regressors._progress import Progress
from skuq.regressors._random import MAX_SEED, seeded_clone
from skuq.regressors._scale_model import (
    log_residuals,
    scale_estimator_like,
    shrunk_scale_model,
)

__all__ = ["ResidualRegressor"]

_DF_GRID = (3.0, 4.0, 6.0, 9.0, 15.0, 30.0, 100.0)
"""From the heaviest tail with a finite variance to one that is Gaussian for all purposes."""

_UNSETTLED = 0.02
"""How far the standard deviation of a sample may typically stay behind that of the family.

For n draws from Student t with df degrees of freedom that is about n^(2/df - 1). A family whose standard
deviation is ruled by values that no sample of this size holds would lead a recalibrator that scales by
it astray: 90 % intervals of 300 rows behind StdScalingRecalibrator would cover 87 %.
"""


class ResidualRegressor(BaseUncertaintyRegressor):
    r"""A mean model with a model of how far off it is, and the residuals' own shape.

    It answers how far off any regressor may be at each x, from the errors it makes on rows it has
    not seen: a second model learns their size, and what is left, the standardised errors, gives the
    shape, skewed or heavy-tailed as it is. Prefer `BootstrapRegressor` to separate epistemic uncertainty
    from noise, `MultiQuantileRegressor` where the shape itself changes with x.

    Parameters
    ----------
    estimator : estimator
        The mean model; cloned. A FrozenEstimator is used as it is and only its errors are modelled.
    scale_estimator : estimator or None, default=None
        The model of the size of errors; cloned and fitted to logarithms of absolute residuals. None
        takes another clone of ``estimator``, which can deal with the same X, without a transformation
        of its target. Single errors are noisy measurements of the scale, so that more smoothing is needed
        than for a mean, such as leaves of 50 rows.
    shape : {"empirical", "normal"}, default="empirical"
        "empirical" takes the shape of the standardised residuals; "normal" the Gaussian one, for few
        rows.
    shrink : bool, default=True
        Whether differences in scale are shrunk as far as they do not hold for unseen rows, which is best
        for scores of the whole distribution. False takes them as predicted: rows of little and of much
        noise are covered more alike, at widths that vary more by chance. Prefer False for a
        ``scale_estimator`` that is good but not smooth, behind ``ConformalRegressor(...,
        "normalized")`` or a recalibrator; never for a fully grown tree.
    cv : int, splitter or iterable of (train, test), default=5
        Folds that give the residuals; any splitter, time-ordered or repeated ones too. An int k is
        ``KFold(k, shuffle=True)``.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job fits a fold; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        An integer makes everything reproducible: folds, and estimators without a seed of their own.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    estimator_ : estimator
        The mean model, fitted on all rows.
    scale_model_ : object
        Fitted scale model. Its ``slope`` in [0, 1] is the share of the differences it predicts between
        rows that holds on rows it is not trained on (0: one scale for all rows); 1 without
        ``shrink``.
    df_ : float
        Degrees of freedom of the Student t family that fits the standardised residuals best, among
        those whose standard deviation so many rows can resolve; infinite with ``shape="normal"``.
    shape_ : IsotonicRecalibrator or None
        The departure of the standardised residuals from that family.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    UncertaintyRegressor : Chooses the method by the regressor.
    RecalibratedRegressor : Calibrate a model that gives a distribution already.

    Notes
    -----
    1. Each row's residual comes from a mean model that is not trained on it.
    2. The scale model learns :math:`\log |r|`: any regressor then gives a positive scale, one wild
       residual does little, and units do not matter [1]_. Its predictions are shrunk to a constant as
       far as they do not hold for rows that it knows nothing of: for each fold, it learns from
       residuals of mean models that are not trained on that fold either. Otherwise a row's own error
       would show in its neighbours' residuals, and 90 % intervals around fully grown trees in one
       dimension would cover 73 %. A new row's scale stays within the sizes of the training residuals.
    3. The standardised residuals :math:`z = r / s(x)`, out of fold in both models, are fitted by a
       Student t distribution centred at 0, and their departure from it, skewness for one, by
       `IsotonicRecalibrator`. The result has a density, tails beyond the largest residual and exact
       moments, at O(n) memory.

    `fit_transform` gives the out-of-fold location and scale; the shape, which is common to all rows,
    comes from all of them. It needs a ``cv`` that tests every row once.

    Cost: with 5 folds 16 fits of the mean model and 6 of the scale model, never more than 10 beyond
    twice the number of folds and two.

    References
    ----------
    .. [1] A. C. Harvey, "Estimating regression models with multiplicative heteroscedasticity",
       Econometrica 44(3), 1976, doi:10.2307/1913974.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.regressors import ResidualRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, size=(1000, 1))
    >>> y = 3 * X[:, 0] + 0.1 * np.exp(2 * X[:, 0]) * rng.normal(size=1000)
    >>> model = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> model.predict_dist([[0.1], [0.9]]).std().round(1)
    array([0.1, 0.6])
    """

    def __init__(
        self,
        estimator: Any,
        scale_estimator: Any = None,
        *,
        shape: Literal["empirical", "normal"] = "empirical",
        shrink: bool = True,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.scale_estimator = scale_estimator
        self.shape = shape
        self.shrink = shrink
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._learn(data, progress)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        mean_fit, tested, scale = self._learn(data, progress)
        loc = mean_fit.in_row_order(len(data))  # raises unless each row is tested once
        rows, _ = mean_fit.tested()
        scale_of_rows = np.empty(len(data))
        scale_of_rows[rows[tested]] = scale
        return self._shaped(loc, scale_of_rows)

    def _learn(self, data: TrainingData, progress: Progress) -> tuple[CrossFit, IntArray, FloatArray]:
        """Fit everything; return the folds of the mean model, and which of its tests have which scale."""
        check_option(self.shape, "shape", ("empirical", "normal"))
        check_option(self.shrink, "shrink", (True, False))
        rng = check_random_state(self.random_state)
        fold_seed, model_seed, scale_seed = rng.randint(MAX_SEED, size=3).tolist()
        estimator = seeded_clone(self.estimator, model_seed, self.random_state)
        folds = split_rows(resolve_cv(self.cv, fold_seed), data.X, data.y, data.groups)
        mean_fit = cross_fit(
            estimator,
            data.X,
            data.target,
            cv=folds,
            params=data.fit_params,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            predict=point_predict,
            on_fold=progress.reporter("mean fold"),
        )
        self.estimator_ = fit_wrapped(estimator, data.X, data.target, **data.fit_params)
        progress.done("mean model")
        rows, loc = mean_fit.tested()
        pairs = data.take(rows)
        tested, scale = self._fit_scale(estimator, data, folds, pairs, pairs.y - loc, scale_seed, progress)
        self._fit_shape(pairs.take(tested), loc[tested], scale)
        return mean_fit, tested, scale

    def _fit_scale(
        self,
        estimator: Any,
        data: TrainingData,
        folds: list[tuple[IntArray, IntArray]],
        pairs: TrainingData,
        residual: FloatArray,
        seed: int,
        progress: Progress,
    ) -> tuple[IntArray, FloatArray]:
        """Fit the scale model to all residuals; return the pairs it was tested on and their scales."""
        positive = bool(pairs.y.min() >= 0)
        target, unit = log_residuals(residual, pairs.sample_weight, positive=positive)
        model, params = self._scale_model(pairs, seed)
        tested = np.empty(0, dtype=np.intp)
        if unit > 0 and not isinstance(estimator, FrozenEstimator):
            tested, predicted = nested_log_scale(
                estimator,
                model,
                data,
                folds,
                lambda other: log_residuals(other, positive=positive, unit=unit)[0],
                self._scale_model(data, seed)[1],
                n_jobs=self.n_jobs,
                verbose=self.verbose,
                on_fold=progress.reporter("mean of two folds"),
            )
        if not len(tested):  # one fold, or a finished model: no mean model is trained on any of the pairs
            tested, predicted = cross_fit(
                model,
                pairs.X,
                pairs.target_of(model, target),
                cv=_folds_of_pairs(folds, len(data)) or KFold(5, shuffle=True, random_state=seed),
                params=params,
                n_jobs=self.n_jobs,
                predict=point_predict,
                on_fold=progress.reporter("scale fold"),
                name="the model of the scale, fold",
            ).tested()
        weight = None if pairs.sample_weight is None else pairs.sample_weight[tested]
        with located("the model of the scale"):
            model = fit_wrapped(model, pairs.X, pairs.target_of(model, target), **params)
        progress.done("scale model")
        self.scale_model_ = shrunk_scale_model(
            model, target[tested], predicted, unit, weight, shrink=self.shrink
        )
        return tested, self.scale_model_.from_logarithm(predicted)

    def _scale_model(self, pairs: TrainingData, seed: int) -> tuple[Any, dict[str, Any]]:
        """Return the unfitted scale model and the parameters of its ``fit``."""
        if self.scale_estimator is not None:
            params = weights_for(self.scale_estimator, pairs.sample_weight, "scale_estimator")
            return seeded_clone(self.scale_estimator, seed, self.random_state), params
        like = scale_estimator_like(self.estimator)
        if isinstance(self.estimator, FrozenEstimator):  # its weights have not been passed on yet
            return seeded_clone(like, seed, self.random_state), weights_for(
                like, pairs.sample_weight, "estimator"
            )
        return seeded_clone(like, seed, self.random_state), pairs.fit_params

    # --------------------------------------------------------------------------------- shape

    def _fit_shape(self, pairs: TrainingData, loc: FloatArray, scale: FloatArray) -> None:
        """Fit the family of the standardised residuals, and their departure from it."""
        self.df_, self.shape_, self._factor = np.inf, None, 1.0
        if self.scale_model_.unit == 0:  # every residual is 0: the model is exact
            return
        z = (pairs.y - loc) / scale
        if self.shape == "normal":
            self._factor = float(np.sqrt(np.average(z**2, weights=pairs.sample_weight)))
            return
        self.df_, self._factor = _fit_student(z, pairs.sample_weight)
        self.shape_ = IsotonicRecalibrator().fit(self._family(loc, scale), pairs.y, pairs.sample_weight)

    def _family(self, loc: FloatArray, scale: FloatArray) -> Distribution:
        if np.isinf(self.df_):
            return Normal(loc, self._factor * scale)
        return StudentT(loc, self._factor * scale, self.df_)

    def _shaped(self, loc: FloatArray, scale: FloatArray) -> Distribution:
        family = self._family(loc, scale)
        return family if self.shape_ is None else self.shape_.transform(family)

    # ---------------------------------------------------------------------------- prediction

    def _point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator_, X)

    def _predict_dist(self, X: Any) -> Distribution:
        return self._shaped(self._point(X), self.scale_model_.predict(X))


def _folds_of_pairs(folds: list[tuple[IntArray, IntArray]], n: int) -> list[tuple[IntArray, IntArray]]:
    """Return the folds as positions among the tested pairs; without those that have nothing to train on.

    The pairs a fold may train on are those of its training rows, so that groups stay together and
    time stays ordered.
    """
    rows = np.concatenate([test for _, test in folds])
    ends = np.cumsum([len(test) for _, test in folds])
    pair_folds = []
    for (train, test), end in zip(folds, ends, strict=True):
        trainable = np.flatnonzero(row_mask(train, n)[rows])
        if len(trainable) >= 2:
            pair_folds.append((trainable, np.arange(end - len(test), end)))
    return pair_folds


def _fit_student(z: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """Return degrees of freedom and scale of the likeliest Student t distribution centred at 0."""
    squared = np.square(z)
    share = np.full(len(z), 1 / len(z)) if weight is None else weight / weight.sum()
    n = len(z) if weight is None else float(weight.sum())
    settled = [df for df in _DF_GRID if n ** (2 / df - 1) <= _UNSETTLED]
    best = (-np.inf, np.inf, 1.0)
    for df in settled or _DF_GRID[-1:]:
        variance = float(share @ squared)
        for _ in range(20):  # EM: rows far out count for less
            variance = float(share @ (squared * (df + 1) / (df + squared / variance)))
        likelihood = (
            gammaln((df + 1) / 2)
            - gammaln(df / 2)
            - 0.5 * np.log(df * variance)
            - (df + 1) / 2 * float(share @ np.log1p(squared / (df * variance)))
        )
        best = max(best, (float(likelihood), df, float(np.sqrt(variance))))
    return best[1], best[2]
