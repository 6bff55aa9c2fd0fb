"""A mean model, a model of the spread around it, and the shape of what is left."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import gammaln
from sklearn.model_selection import KFold

from skuq._sklearn_compat import is_pairwise
from skuq._typing import FloatArray, IntArray
from skuq._validation import check_option, check_random_state, effective_rows
from skuq.distributions import Distribution, Normal, StudentT
from skuq.prediction._cross_fit import CrossFit, cross_fit, resolve_cv, split_rows
from skuq.prediction._failures import located
from skuq.prediction._fit_metadata import weights_for
from skuq.prediction._point import point_predict
from skuq.prediction._random import MAX_SEED, seeded_clone
from skuq.prediction._wrapped import fit_wrapped
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._fold_groups import (
    Folds,
    averaging_weight,
    fit_fold_groups,
    is_partition,
    learning_curve_factor,
    trained_on_by_all,
)
from skuq.regressors._log_scale_regressor import (
    LogScaleRegressor,
    best_linear_share,
    weighted_mean,
)
from skuq.regressors._progress import Progress
from skuq.regressors._scale_features import ScaleFeatures
from skuq.regressors._scale_model import (
    SMALLEST_RESIDUAL,
    MeanOfModels,
    log_residuals,
    shrunk_scale_model,
)
from skuq.regressors._shape.conditional import ConditionalShape, fit_conditional_shape

__all__ = ["ResidualRegressor"]

FOLDS_BY_EFFORT = {"low": 3, "standard": 5, "high": 5}
"""Number of folds where ``cv`` is None."""

_SHAPE_GROUPS = 5
"""Largest number of groups of folds for the shape."""

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

    The distribution of the errors of any regressor at each x, from those on held-out rows: a second model
    predicts their size, and the standardised errors have a common shape, which may be skewed or heavy-tailed.
    Prefer `BootstrapRegressor` to separate epistemic uncertainty from noise, `MultiQuantileRegressor` where
    the shape itself changes with x.

    Parameters
    ----------
    estimator : estimator
        The mean model; cloned. A FrozenEstimator is used as it is and only its errors are modelled.
    scale_estimator : estimator or None, default=None
        The model of the size of errors; cloned and fitted to X and logarithms of absolute residuals. Single
        errors are noisy measurements of the scale, so that more smoothing is needed than for a mean, such as
        leaves of 50 rows. None is a linear model and a small gradient boosting, weighted by least squares
        out of fold. Their columns are those of X, categories as integers, and the point prediction; where X
        is sparse, text or images, the point prediction alone.
    effort : {"low", "standard", "high"}, default="standard"
        Amount of computation. "low" has 3 folds, "standard" 5. "high" has 5, and also fits a model without
        each pair of folds (with more than five folds, only of those at most two apart in a circle): with
        these, the location becomes a weighted mean of the model's own prediction and the average of the
        folds' models, as far as that is more accurate out of fold.
    shape : {"empirical", "normal"}, default="empirical"
        "empirical" takes the shape of the standardised residuals; "normal" the Gaussian one, for few
        rows.
    shrink : bool, default=True
        Whether differences in scale are shrunk as far as they do not hold for unseen rows, which is best
        for scores of the whole distribution. False takes them as predicted: rows of little and of much
        noise are covered more alike, at widths that vary more by chance. Prefer False for a
        ``scale_estimator`` that is good but not smooth, behind ``ConformalRegressor(...,
        "normalized")`` or a recalibrator; never for a fully grown tree.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds that give the residuals; any splitter, with ``effort="high"`` one that tests every row once. An
        int k is ``KFold(k, shuffle=True)``; None takes the number of folds from ``effort``.
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
    fold_estimators_ : tuple of estimators
        The mean models of the folds. Only with ``effort="high"``.
    averaging_weight_ : float
        Weight in [0, 1] of the average of ``fold_estimators_`` in the location, beside ``estimator_``.
        Only with ``effort="high"``.
    learning_curve_factor_ : float
        Size of the errors of ``estimator_``, trained on all rows, in units of that of the folds' models; at
        most 1, and 1 where the folds are no partition of the rows.
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
       residual does little, and units do not matter [1]_. The default one is fitted twice, each time to one
       half of the folds, and predicts the other half; new rows get the mean of both. A ``scale_estimator`` is
       fitted to all folds but one, and to all. Predictions are shrunk to a constant as far as they do not
       hold for rows left out. A new row's scale stays within the sizes of the training residuals.
    3. Models trained on all rows have smaller errors than those of the folds. Models trained without half of
       the folds (with "high", without pairs of folds) show how errors fall with the number of rows; a
       decrease as a power of it, as far as it is not chance, gives the factor of the scale for new rows.
    4. The standardised residuals :math:`z = r / s(x)`, out of fold in both models, are fitted by a
       Student t distribution centred at 0, and their departure from it, skewness for one, by
       `IsotonicRecalibrator`. The result has a density, tails beyond the largest residual and exact
       moments, at O(n) memory.

    A ``scale_estimator`` that follows single rows, such as a fully grown tree, overfits the residuals of a
    row's neighbours, whose mean models are trained on that row's own error: around fully grown trees in one
    dimension, 90 % intervals would cover 73 %. The default model averages over many rows.

    One shape for all rows does not hold where many targets share one value, such as amounts of rain, most of
    which are 0. Around gradient boosting, on simulated targets of which three quarters are 0, the
    CRPS was 1.1 to 1.3 times that of `MultiQuantileRegressor`, and the mean standard deviation about three
    times as large. For random forests prefer `ForestDistributionRegressor` there.

    `predict` is the prediction of ``estimator_`` at any effort; with "high",
    ``predict_dist(X).mean()`` includes the average of the folds' models, and is the more accurate one.

    `fit_transform` gives the out-of-fold location and scale; the shape, which is common to all rows,
    comes from all of them. It needs a ``cv`` that tests every row once.

    Cost, in fits of the mean model by their share of the rows: 3.7 with "low", 5.8 with "standard", 11 with
    "high"; and one fit of the default scale model, five of another. With "high", a prediction costs 6. For
    k folds, five or more, given by ``cv``, the fits are about k + 1, with "high" 3 k - 4, and a prediction
    then costs k + 1.

    Weights count as repetitions in both models, but the boosting in the default scale model has at least 20
    rows in a leaf, whatever their weights.

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
        effort: Literal["low", "standard", "high"] = "standard",
        shape: Literal["auto", "conditional", "empirical", "normal"] = "auto",
        shrink: bool = True,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.scale_estimator = scale_estimator
        self.effort = effort
        self.shape = shape
        self.shrink = shrink
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._learn(data, progress)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        out_of_fold = self._learn(data, progress)
        if out_of_fold is None:
            raise ValueError(
                "`cv` must test every row exactly once for `fit_transform`, but it does not. Use a partition "
                "such as KFold or GroupKFold; for time-ordered or repeated splits use RecalibratedRegressor, "
                "which takes any splitter."
            )
        return self._shaped(*out_of_fold)

    def _learn(
        self, data: TrainingData, progress: Progress
    ) -> tuple[FloatArray, FloatArray, FloatArray | None] | None:
        """Fit everything; return the out-of-fold location, scale and shape of rows that are tested once."""
        check_option(self.effort, "effort", tuple(FOLDS_BY_EFFORT))
        check_option(self.shape, "shape", ("auto", "conditional", "empirical", "normal"))
        check_option(self.shrink, "shrink", (True, False))
        effective_rows(data.sample_weight, len(data))  # raises where weights do not count repetitions
        rng = check_random_state(self.random_state)
        fold_seed, model_seed, scale_seed, shape_seed = rng.randint(MAX_SEED, size=4).tolist()
        estimator = seeded_clone(self.estimator, model_seed, self.random_state)
        cv = FOLDS_BY_EFFORT[self.effort] if self.cv is None else self.cv
        folds = split_rows(resolve_cv(cv, fold_seed), data.X, data.y, data.groups)
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
        self.learning_curve_factor_ = 1.0
        partition = is_partition(folds, len(data))
        if partition:
            loc = self._fit_groups(estimator, data, folds, mean_fit, progress)[rows]
        elif self.effort == "high":
            raise ValueError(
                "`cv` must test every row exactly once with `effort` 'high', but it does not. Use a "
                "partition such as KFold or GroupKFold, or effort='standard'."
            )
        pairs = data.take(rows)
        tested, scale = self._fit_scale(folds, pairs, loc, len(data), scale_seed, progress)
        loc, of_tested = loc[tested], pairs.take(tested)
        self._fit_shape(of_tested, loc, scale)
        groups = _groups_among(tested, _groups_of_pairs(folds, len(data), _SHAPE_GROUPS), len(pairs))
        labels = np.arange(len(data)) if data.groups is None else np.asarray(data.groups)
        shares = self._fit_conditional_shape(
            of_tested, loc, scale, groups, shape_seed, clusters=labels[rows[tested]]
        )
        if not partition:
            return None
        order = np.argsort(rows[tested], kind="stable")
        return loc[order], scale[order], None if shares is None else shares[order]

    def _fit_groups(
        self, estimator: Any, data: TrainingData, folds: Folds, mean_fit: CrossFit, progress: Progress
    ) -> FloatArray:
        """Fit models without several folds, and what depends on them; return the out-of-fold locations."""
        out_of_fold: FloatArray = mean_fit.in_row_order(len(data))
        groups = fit_fold_groups(
            estimator,
            data,
            folds,
            pairs=self.effort == "high",
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            on_fold=progress.reporter("mean without several folds"),
        )
        least = SMALLEST_RESIDUAL * float(
            np.average(np.abs(data.y - out_of_fold), weights=data.sample_weight)
        )
        if least > 0:
            self.learning_curve_factor_ = learning_curve_factor(groups, out_of_fold, data, folds, least)
        if self.effort == "high":
            self.averaging_weight_, out_of_fold = averaging_weight(groups, out_of_fold, data)
            self.fold_estimators_ = mean_fit.estimators
        return out_of_fold

    def _fit_scale(
        self,
        folds: Folds,
        pairs: TrainingData,
        loc: FloatArray,
        n: int,
        seed: int,
        progress: Progress,
    ) -> tuple[IntArray, FloatArray]:
        """Fit the scale model to residuals; return the pairs it was tested on and their scales."""
        target, unit = log_residuals(pairs.y - loc, pairs.sample_weight, positive=bool(pairs.y.min() >= 0))
        self._features = None
        if self.scale_estimator is None:
            self._features = ScaleFeatures.of(pairs.X, pairwise=is_pairwise(self.estimator))
        inputs = self._scale_inputs(pairs.X, loc)
        model = self._scale_model(seed)
        # the default model needs half of the rows; another one is the better the more rows it has
        n_groups = len(folds) if self._features is None else 2
        any_folds = KFold(min(5, len(pairs)), shuffle=True, random_state=seed)
        params = weights_for(model, pairs.sample_weight, "scale_estimator")
        fit = cross_fit(
            model,
            inputs,
            pairs.target_of(model, target),
            cv=_groups_of_pairs(folds, n, n_groups) or any_folds,
            params=params,
            n_jobs=self.n_jobs,
            predict=point_predict if self._features is None else LogScaleRegressor.predict_both,
            on_fold=progress.reporter("scale fold"),
            name="the model of the scale, fold",
        )
        tested, predicted = fit.tested()
        weight = None if pairs.sample_weight is None else pairs.sample_weight[tested]
        if self._features is not None:
            model.set_params(linear_share=best_linear_share(predicted, target[tested], weight))
            predicted = weighted_mean(predicted, model.linear_share)
            for one in fit.estimators:
                one.set_params(linear_share=model.linear_share)
        if self._features is not None and len(tested) == len(pairs):
            fitted: Any = MeanOfModels(fit.estimators)
        else:
            with located("the model of the scale"):
                fitted = fit_wrapped(model, inputs, pairs.target_of(model, target), **params)
            progress.done("scale model")
        self.scale_model_ = shrunk_scale_model(
            fitted, target[tested], predicted, unit, weight, shrink=self.shrink
        )
        return tested, self.scale_model_.from_logarithm(predicted)

    def _scale_model(self, seed: int) -> Any:
        """Return the unfitted scale model."""
        if self.scale_estimator is not None:
            return seeded_clone(self.scale_estimator, seed, self.random_state)
        return LogScaleRegressor(random_state=seed)

    def _scale_inputs(self, X: Any, loc: FloatArray) -> Any:
        """Return what the scale model is given for rows of X with this location."""
        return X if self._features is None else self._features(X, loc)

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

    def _fit_conditional_shape(
        self,
        pairs: TrainingData,
        loc: FloatArray,
        scale: FloatArray,
        folds: Folds,
        seed: int,
        *,
        clusters: Any,
    ) -> FloatArray | None:
        """Fit the dependence of the shape on x; return the shares of each pair out of fold."""
        self.conditional_shape_: ConditionalShape | None = None
        if self.shape not in ("auto", "conditional") or self.shape_ is None or not folds:
            return None
        self._table = self._features or ScaleFeatures.of(pairs.X, pairwise=is_pairwise(self.estimator))
        fitted = fit_conditional_shape(
            self._shape_inputs(pairs.X, loc, scale),
            self.shape_.transform(self._family(loc, scale)).cdf(pairs.y),
            pairs.sample_weight,
            folds,
            self.shape_.transform(self._family(np.zeros(1), np.ones(1))),
            seed,
            clusters=clusters,
            guard=self.shape == "auto",
        )
        if fitted is None:
            return None
        self.conditional_shape_, shares = fitted
        return shares

    def _shape_inputs(self, X: Any, loc: FloatArray, scale: FloatArray) -> FloatArray:
        """Return the columns of X, the location and the scale of each row."""
        return np.column_stack([self._table(X, loc), scale / self.scale_model_.unit])

    def _family(self, loc: FloatArray, scale: FloatArray) -> Distribution:
        if np.isinf(self.df_):
            return Normal(loc, self._factor * scale)
        return StudentT(loc, self._factor * scale, self.df_)

    def _shaped(self, loc: FloatArray, scale: FloatArray, shares: FloatArray | None) -> Distribution:
        if self.conditional_shape_ is not None and shares is not None:
            return self.conditional_shape_.distribution(shares, loc, scale)
        family = self._family(loc, scale)
        return family if self.shape_ is None else self.shape_.transform(family)

    # ---------------------------------------------------------------------------- prediction

    def _point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator_, X)

    def _location(self, X: Any) -> FloatArray:
        loc = self._point(X)
        if self.effort != "high" or self.averaging_weight_ == 0:
            return loc
        mean = np.mean([point_predict(one, X) for one in self.fold_estimators_], axis=0)
        return np.asarray(loc + self.averaging_weight_ * (mean - loc))

    def _predict_dist(self, X: Any) -> Distribution:
        loc = self._location(X)
        scale = self.scale_model_.predict(self._scale_inputs(X, loc))
        shape = self.conditional_shape_
        shares = None if shape is None else shape(self._shape_inputs(X, loc, scale))
        return self._shaped(loc, self.learning_curve_factor_ * scale, shares)


def _groups_of_pairs(folds: Folds, n: int, n_groups: int) -> Folds:
    """Return groups of folds as positions among the tested pairs, each with the pairs to train on.

    The pairs that a group may train on are those of rows that all of its folds train on. A group without any
    is left out.
    """
    rows = np.concatenate([test for _, test in folds])
    starts = np.concatenate([[0], np.cumsum([len(test) for _, test in folds])])
    groups = []
    for members in np.array_split(np.arange(len(folds)), n_groups):
        if len(members):
            trainable = np.flatnonzero(trained_on_by_all(folds, members, n)[rows])
            if len(trainable) >= 2:
                groups.append((trainable, np.arange(starts[members[0]], starts[members[-1] + 1])))
    return groups


def _groups_among(tested: IntArray, groups: Folds, n_pairs: int) -> Folds:
    """Return the groups of pairs as positions among the tested ones."""
    place = np.full(n_pairs, -1)
    place[tested] = np.arange(len(tested))
    placed = [(place[train], place[test]) for train, test in groups]
    return [(train[train >= 0], test[test >= 0]) for train, test in placed if (train >= 0).sum() >= 2]


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
