"""A mean model, a model of the spread around it, and the shape of what is left."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold

from skuq._few_rows import few_rows_reported
from skuq._sklearn_compat import is_pairwise
from skuq._typing import FloatArray, IntArray
from skuq._validation import check_option, check_random_state, effective_rows
from skuq.distributions import Distribution, Normal, Recalibrated, StudentT
from skuq.distributions._estimated_scale import (
    fit_student,
    predictive_df,
    prior_share,
    shrunk_level_map,
)
from skuq.prediction._cross_fit import (
    CrossFit,
    cross_fit,
    is_partition,
    resolve_cv,
    split_rows,
)
from skuq.prediction._failures import located
from skuq.prediction._fit_metadata import weights_for
from skuq.prediction._point import point_predict
from skuq.prediction._random import MAX_SEED, seeded_clone
from skuq.prediction._target_units import in_target_units
from skuq.prediction._wrapped import fit_wrapped
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._fold_groups import (
    NO_GAIN,
    Folds,
    RelativeErrors,
    fit_fold_groups,
    groups_among,
    groups_of_pairs,
    relative_errors,
)
from skuq.regressors._location import choose_location, fit_location
from skuq.regressors._log_scale_regressor import (
    LogScaleRegressor,
    best_linear_share,
    weighted_mean,
)
from skuq.regressors._progress import Progress
from skuq.regressors._scale_features import ScaleFeatures
from skuq.regressors._scale_model import (
    MeanOfModels,
    log_residuals,
    shrunk_scale_model,
)
from skuq.regressors._shape.conditional import ConditionalShape, fit_conditional_shape

__all__ = ["ResidualRegressor"]

FOLDS_BY_EFFORT = {"low": 3, "standard": 5, "high": 10}
"""Number of folds where ``cv`` is None."""


class ResidualRegressor(BaseUncertaintyRegressor):
    r"""Mean model, scale model and a distribution of the standardized residuals.

    The distribution of the errors of any regressor at each x, from those on held-out rows: a second model
    predicts their size. The standardized errors have a shape, which may be skewed or heavy-tailed, and which
    changes with x if that is better out of fold. Prefer `BootstrapRegressor` to separate epistemic
    uncertainty from noise.

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
        Amount of computation: 3, 5 or 10 folds where ``cv`` is None.
    location : {"auto", "folds", "refit"}, default="auto"
        Model of the location.

        - "folds": the mean of the folds' models. The errors of these models are known, and their mean is
          more accurate than one of them. ``cv`` must test every row once. A prediction costs one call per
          fold.
        - "refit": one model, fitted to all rows. If its predictions differ from the folds' models far more
          than these differ from each other, as after early stopping, the mean of the folds' models takes
          its place with a FoldMismatchWarning; in time order there is the warning alone. Two folds leave
          nothing to compare.
        - "auto": the one with the smaller mean absolute error, as estimated from models without two folds,
          if ``cv`` tests every row once in 3 to 20 folds. Otherwise "refit", also for a FrozenEstimator,
          which is a single model.
    shape : {"auto", "conditional", "empirical", "normal"}, default="auto"
        Shape of the standardized errors.

        - "empirical": the shape of all standardized residuals, common to all rows.
        - "conditional": a shape that depends on x, by trees on the probability levels of the residuals.
        - "auto": "conditional" if it is better out of fold by more than chance, otherwise "empirical".
        - "normal": the Gaussian shape. With an estimated scale, it is a Student t distribution for new rows.
    shrink : bool, default=True
        Whether differences in scale are shrunk as far as they do not hold for unseen rows, which is best
        for scores of the whole distribution. False takes them as predicted: rows of little and of much
        noise are covered more alike, at widths that vary more by chance. Prefer False for a
        ``scale_estimator`` that is good but not smooth, behind ``ConformalRegressor(...,
        "normalized")`` or a recalibrator; never for a fully grown tree.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds that give the residuals; any splitter. An int k is ``KFold(k, shuffle=True)``; None takes the
        number of folds from ``effort``.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job fits a fold; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        An integer makes everything reproducible: folds, and estimators without a seed of their own.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    estimators_ : list of estimators
        The mean models: one per fold, or one model fitted to all rows. An estimator of scikit-learn with
        absolute tolerances or step sizes is inside a `TransformedTargetRegressor` that divides y by a power
        of two, if its results depend on the units of y otherwise.
    location_ : {"folds", "refit"}
        Location in use.
    scale_factor_ : float
        Size of the errors of the location relative to the out-of-fold errors; at most 1. It is 1 if the
        folds are no partition of the rows.
    scale_model_ : object
        Fitted scale model. Its ``slope`` in [0, 1] is the share of the differences it predicts between
        rows that holds on rows it is not trained on (0: one scale for all rows); 1 without
        ``shrink``.
    df_ : float
        Degrees of freedom of the Student t family that fits the standardised residuals best, among
        those whose standard deviation this number of rows can estimate; infinite with ``shape="normal"``.
    shape_ : IsotonicRecalibrator or None
        The departure of the standardised residuals from that family.
    conditional_shape_ : object or None
        Fitted dependence of the shape on x; None if the shape is common to all rows.
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
    3. The out-of-fold errors are those of one model without one fold. The mean of the folds' models has
       smaller errors than one of them, and a model fitted to all rows has smaller errors too. By how much
       follows from models without two folds, which are fitted to three pairs of folds. Two of them leave the
       same row out and show the gain by averaging. Their errors, compared with models without one fold, show
       the gain by more rows, which is taken as a power of the number of rows and is shrunk for chance. The
       scale for new rows is multiplied by the factor of the location in use.
    4. The standardised residuals :math:`z = r / s(x)`, out of fold in both models, are fitted by a
       Student t distribution centred at 0, and their departure from it, skewness for one, by
       `IsotonicRecalibrator`. The result has a density, tails beyond the largest residual and exact
       moments, at O(n) memory.
    5. Scale and shape are estimated from n residuals. A new error, in units of the estimated scale, has a
       Student t distribution with n - 3 degrees of freedom if errors are normal. The quantiles of new rows
       are averages of the quantiles of 4 and of this distribution, with weights n and 20. The logarithm of
       the factor of 3 is multiplied by n / (n + 20). With ``groups``, n is the number of groups. Fewer than
       12 rows or groups give a `SmallSampleWarning`.

    A ``scale_estimator`` that follows single rows, such as a fully grown tree, overfits the residuals of a
    row's neighbours, whose mean models are trained on that row's own error: around fully grown trees in one
    dimension, 90 % intervals would cover 73 %. The default model averages over many rows.

    A conditional shape is a distribution of the levels u of the residuals under the common shape. Randomized
    trees [2]_ of the columns of X, the location and the scale estimate :math:`P(u \le t \mid x)` at 15
    thresholds t. Half of the trees have small leaves, half have large ones. Both estimates and
    :math:`P(u \le t) = t` are mixed with the weights of the least squared error out of fold. "auto" needs a
    covariance of estimates and targets of 2.33 standard errors. The result is a `Quantiles` with 27 levels
    from 0.0025 to 0.9975. Fewer than 40 rows have the common shape.

    On eleven data sets with up to 1500 training rows, around gradient boosting, the CRPS with "auto" is 0.90
    of the CRPS with "empirical" (geometric mean; 1.00 on the worst set). The score of 90 % intervals is 0.89,
    for 1.1 times the time. On medical charges, where most targets are nearly exact and a few lie far above,
    the score of 95 % intervals is 0.92.

    `predict` is the location. The mean of a distribution with a conditional shape is another one, since the
    shape corrects the bias of the location.

    The common shape does not hold if many targets share one value, such as amounts of rain, most of which are
    0. The shape then changes with x. For random forests prefer `ForestDistributionRegressor` there.

    `fit_transform` gives the out-of-fold location and scale, and a conditional shape by trees without the
    row; the common shape comes from all rows. It needs a ``cv`` that tests every row once.

    Cost, in fits of the mean model by their share of the rows: 3.0 with "low", 5.8 with "standard", 11.4 with
    "high", and one more if the location is a refit; and one fit of the default scale model, one per fold and
    one more of another. A prediction costs one call per fold, with a refit one.

    Weights count as repetitions in both models, but the boosting in the default scale model has at least 20
    rows in a leaf, whatever their weights.

    References
    ----------
    .. [1] A. C. Harvey, "Estimating regression models with multiplicative heteroscedasticity",
       Econometrica 44(3), 1976, doi:10.2307/1913974.
    .. [2] P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006,
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
    >>> model.predict_dist([[0.1], [0.9]]).std().round(1)
    array([0.1, 0.6])
    """

    def __init__(
        self,
        estimator: Any,
        scale_estimator: Any = None,
        *,
        effort: Literal["low", "standard", "high"] = "standard",
        location: Literal["auto", "folds", "refit"] = "auto",
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
        self.location = location
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
        check_option(self.location, "location", ("auto", "folds", "refit"))
        check_option(self.shape, "shape", ("auto", "conditional", "empirical", "normal"))
        check_option(self.shrink, "shrink", (True, False))
        effective_rows(data.sample_weight, len(data))  # raises where weights do not count repetitions
        rng = check_random_state(self.random_state)
        fold_seed, model_seed, scale_seed, shape_seed = rng.randint(MAX_SEED, size=4).tolist()
        estimator = in_target_units(seeded_clone(self.estimator, model_seed, self.random_state), data.y)
        cv = FOLDS_BY_EFFORT[self.effort] if self.cv is None else self.cv
        folds = split_rows(resolve_cv(cv, fold_seed), data.X, data.y, data.groups)
        partition = is_partition([test for _, test in folds], len(data))
        choose_location(self.location, estimator, NO_GAIN, len(folds), partition=partition)  # raises early
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
        rows, loc = mean_fit.tested()
        pairs = data.take(rows)
        tested, scale = self._fit_scale(folds, pairs, loc, len(data), scale_seed, progress)
        relative = standardized = NO_GAIN
        if partition and not isinstance(self.estimator, FrozenEstimator):
            scale_by_row = np.full(len(data), np.nan)
            scale_by_row[rows[tested]] = scale
            relative, standardized = self._relative_errors(
                estimator, data, folds, mean_fit, scale_by_row, progress
            )
        kind = choose_location(self.location, estimator, relative, len(folds), partition=partition)
        named = self.location == "refit"  # "auto" is free to choose
        self._location = fit_location(kind, estimator, data, mean_fit, progress, warn=named)
        self.estimators_, self.location_ = list(self._location.models), self._location.kind
        self.scale_factor_ = standardized.folds if self.location_ == "folds" else standardized.refit
        self._n_residuals = data.independent_rows(rows[tested])
        data.warn_of_few_rows(rows[tested])
        loc, of_tested = loc[tested], pairs.take(tested)
        self._fit_shape(of_tested, loc, scale)
        groups = groups_among(groups_of_pairs(folds, len(data), 5), tested, len(pairs))
        labels = np.arange(len(data)) if data.groups is None else np.asarray(data.groups)
        shares = self._fit_conditional_shape(
            of_tested, loc, scale, groups, shape_seed, clusters=labels[rows[tested]]
        )
        if not partition:
            return None
        order = np.argsort(rows[tested], kind="stable")
        return loc[order], scale[order], None if shares is None else shares[order]

    def _relative_errors(
        self,
        estimator: Any,
        data: TrainingData,
        folds: Folds,
        mean_fit: CrossFit,
        scale: FloatArray,
        progress: Progress,
    ) -> tuple[RelativeErrors, RelativeErrors]:
        """Return the errors of both locations in units of the out-of-fold errors, raw and standardized."""
        out_of_fold: FloatArray = mean_fit.in_row_order(len(data))
        if self.scale_model_.unit == 0:  # the model is exact
            return NO_GAIN, NO_GAIN
        groups = fit_fold_groups(
            estimator,
            data,
            folds,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            on_fold=progress.reporter("mean without two folds"),
        )
        raw, standardized = (
            relative_errors(groups, out_of_fold, data, folds, unit)
            for unit in (np.full(len(data), self.scale_model_.unit), scale)
        )
        return raw, standardized

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
            cv=groups_of_pairs(folds, n, n_groups) or any_folds,
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
                one.with_share(model.linear_share)
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
        self.df_, self._factor = fit_student(z, pairs.sample_weight)
        with few_rows_reported():
            shape = IsotonicRecalibrator()
            self.shape_ = shape.fit(self._family(loc, scale), pairs.y, pairs.sample_weight)
        self._level_map = shrunk_level_map(
            self.shape_.level_map_, self._n_residuals
        )  # it keeps its integrals

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
        """Return the distributions of the rows that the shape is fitted to."""
        if self.conditional_shape_ is not None and shares is not None:
            return self.conditional_shape_.distribution(shares, loc, scale)
        family = self._family(loc, scale)
        return family if self.shape_ is None else self.shape_.transform(family)

    def _shaped_new(self, loc: FloatArray, scale: FloatArray, shares: FloatArray | None) -> Distribution:
        """Return the distributions of new rows, which are wider as scale and shape are estimated."""
        n = self._n_residuals
        scale = self.scale_factor_ ** (1 - prior_share(n)) * scale
        if self.conditional_shape_ is not None and shares is not None:
            return self.conditional_shape_.distribution(shares, loc, scale)
        if self.shape_ is None:
            return StudentT(loc, self._factor * scale, predictive_df(n))
        return Recalibrated(self._family(loc, scale), self._level_map)

    # ---------------------------------------------------------------------------- prediction

    def _point(self, X: Any) -> FloatArray:
        return self._location.predict(X)

    def _predict_dist(self, X: Any) -> Distribution:
        return self._point_and_dist(X)[1]

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        loc = self._point(X)
        scale = self.scale_model_.predict(self._scale_inputs(X, loc))
        shape = self.conditional_shape_
        shares = None if shape is None else shape(self._shape_inputs(X, loc, scale))
        return loc, self._shaped_new(loc, scale, shares)
