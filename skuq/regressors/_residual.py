"""Regressor with a mean model, a scale model and a distribution of the standardized residuals."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold

from skuq._few_rows import few_rows_reported
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.columns import ScaleFeatures
from skuq._fitting.cross_fit import CrossFit, cross_fit, is_partition, resolve_cv, split_rows
from skuq._fitting.point_predict import point_predict
from skuq._fitting.progress import Progress
from skuq._fitting.seeds import MAX_SEED, seeded_clone
from skuq._fitting.target_units import in_target_units
from skuq._fitting.training_data import TrainingData
from skuq._sklearn_compat import is_pairwise
from skuq._typing import FloatArray, IntArray, SupportLike
from skuq._validation import check_option, check_random_state, effective_rows
from skuq.distributions import Distribution, Normal, Recalibrated, StudentT
from skuq.distributions._estimated_scale import (
    fit_student,
    predictive_df,
    prior_share,
    shrunk_level_map,
)
from skuq.recalibration import IsotonicRecalibrator
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
from skuq.regressors._scale_model import fit_scale
from skuq.regressors._shape.conditional import ConditionalShape, fit_conditional_shape

FOLDS_BY_EFFORT = {"low": 3, "standard": 5, "high": 10}
"""For each effort, the number of folds if ``cv`` is None."""

N_SHAPE_FOLDS = 5
"""Maximum number of folds of the conditional shape. Each of these folds consists of several folds of the mean
model."""


class OutOfFold(NamedTuple):
    """Predictions of each row by models that are not trained on this row."""

    loc: FloatArray
    scale: FloatArray
    shares: FloatArray | None
    """Probabilities of the conditional shape, shape (n, k), or None for the common shape."""


class ResidualRegressor(BaseUncertaintyRegressor):
    r"""Mean model, scale model and a distribution of the standardized residuals.

    The class estimates, for each x, the distribution of the errors of any regressor. The errors are measured
    on held-out rows. A second model, the scale model, predicts the size of the errors. The standardized
    errors may have a skewed or heavy-tailed distribution. The shape of this distribution depends on x if this
    improves the out-of-fold score. Prefer `BootstrapRegressor` if you need to separate epistemic uncertainty
    from noise.

    Parameters
    ----------
    estimator : estimator
        The mean model; cloned. A FrozenEstimator is not refitted: `fit` only models its errors.
    scale_estimator : estimator or None, default=None
        The scale model; cloned and fitted to X and the logarithms of the absolute residuals. A single
        residual is a noisy measurement of the scale, so the scale model needs more smoothing than the mean
        model, for example leaves of 50 rows. None means a weighted mean of a linear model and a small
        gradient boosting model. The weights minimize the squared out-of-fold error. Both models use the
        columns of X, with integers for categories, and the point prediction as features. If X is sparse, text
        or images, the point prediction is the only feature.
    effort : {"low", "standard", "high"}, default="standard"
        Amount of computation: 3, 5 or 10 folds if ``cv`` is None.
    location : {"auto", "folds", "refit"}, default="auto"
        Model that gives the location of the distributions.

        - "folds": the mean of the predictions of the folds' models. ``cv`` must test every row exactly once.
          A prediction calls one model per fold.
        - "refit": one model, fitted to all rows. In some cases, for example after early stopping, this model
          differs from the folds' models far more than the folds' models differ from each other. The errors of
          this model are then unknown. Therefore, the mean of the folds' models is used instead, and a
          FoldMismatchWarning is issued. If ``cv`` does not test every row exactly once, for example in time
          order, the refit is used and the warning is issued.
        - "auto": of "folds" and "refit", the location with the smaller estimated mean absolute error (step 3
          of the Notes). If ``cv`` does not test every row exactly once in 3 to 20 folds, or if the estimator
          is frozen, "auto" means "refit".
    shape : {"auto", "conditional", "empirical", "normal"}, default="auto"
        Shape of the distribution of the standardized errors.

        - "empirical": the shape of all standardized residuals. All rows have this common shape.
        - "conditional": a shape that depends on x, estimated by trees.
        - "auto": "conditional" if its out-of-fold score is better by more than chance, otherwise "empirical".
        - "normal": the normal shape. New rows get a Student t distribution, because the scale is estimated.
    shrink : bool, default=True
        Whether the predicted scales are shrunk toward a constant, according to their skill on held-out rows.
        Shrinkage gives the best CRPS. Without shrinkage, the coverage differs less between rows with little
        noise and rows with much noise, but the widths vary more by chance. Use False if
        ``ConformalRegressor(..., "normalized")`` or a recalibrator follows and the ``scale_estimator`` is
        accurate but not smooth. Do not use False with a fully grown tree.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds for the residuals. Any splitter is valid. An int k means ``KFold(k, shuffle=True)``. With None,
        ``effort`` gives the number of folds.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are clipped but not rounded.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one fold. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of estimators without a seed of their own. An integer makes results
        reproducible.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    estimators_ : list of estimators
        The mean models: one per fold, or one model fitted to all rows. A scikit-learn estimator with absolute
        tolerances or step sizes is wrapped in a `TransformedTargetRegressor` that divides y by a power of
        two. The results then do not depend on the units of y.
    location_ : {"folds", "refit"}
        The model that gives the location.
    scale_factor_ : float
        Size of the errors of the location relative to the out-of-fold errors, at most 1. If the folds are not
        a partition of the rows, the factor is 1.
    scale_model_ : object
        Fitted scale model. Its ``slope`` in [0, 1] multiplies the predicted differences between rows (see
        ``shrink``). With a slope of 0, all rows have the same scale. With ``shrink=False``, the slope is 1.
    df_ : float
        Degrees of freedom of the Student t distribution that fits the standardized residuals best.
        Distributions whose tails are too heavy to estimate the standard deviation from n rows are excluded.
        Infinite with ``shape="normal"``.
    shape_ : IsotonicRecalibrator or None
        Recalibrator from the fitted Student t distribution to the distribution of the standardized residuals.
    conditional_shape_ : object or None
        Fitted dependence of the shape on x. None if all rows have the common shape.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    UncertaintyRegressor : Chooses the method that suits the regressor.
    RecalibratedRegressor : Calibration of a model that already has a distribution.

    Notes
    -----
    1. The residual of each row comes from a mean model that is not trained on this row.
    2. The scale model is trained on :math:`\log |r|`. Therefore, any regressor gives a positive scale, one
       extreme residual has little influence, and the result does not depend on the units of y [1]_. The
       default scale model is fitted twice: each fit uses half of the folds and predicts the other half. New
       rows get the mean of both fits. A ``scale_estimator`` is fitted without each of the folds, and once to
       all rows. The predictions are shrunk toward a constant, according to their skill on held-out rows. The
       scale of a new row is limited to the range of the training residuals.
    3. The mean of the folds' models has smaller errors than a single model of a fold, because it is an
       average. A model fitted to all rows has smaller errors, because it has more training rows. To estimate
       both effects, models are fitted without two folds, for three pairs of folds. The effect of the average
       is estimated from the differences of two such models on rows that both leave out. The effect of more
       rows is a power of the number of rows. It is estimated by a comparison with the models fitted without
       one fold. The scale of new rows is multiplied by the factor of the location that is used.
    4. The standardized residuals :math:`z = r / s(x)` are computed from out-of-fold predictions of both
       models. A Student t distribution with mean 0 is fitted to these residuals. `IsotonicRecalibrator` then
       corrects the differences from this distribution, such as skewness. The resulting distribution has a
       density, tails beyond the largest residual and exact moments. It needs O(n) memory.
    5. The scale and the shape are estimated from n residuals, so the error of a new row, divided by its
       estimated scale, has a wider distribution than the residuals. For normal errors, this distribution is a
       Student t distribution with n - 3 degrees of freedom. The quantiles of new rows are weighted averages.
       The quantiles from step 4 have weight n, and the quantiles of this Student t distribution have weight
       20. The logarithm of the factor from step 3 is multiplied by n / (n + 20). With ``groups``, n is the
       number of groups. If n is less than 12, a `SmallSampleWarning` is issued.

    Do not use a ``scale_estimator`` that can reproduce each training value, such as a fully grown tree. For a
    row, such a model predicts the residuals of the neighboring rows. These residuals depend on the target of
    the row, because their mean models were trained on it. If both models are fully grown trees in one
    dimension, 90 % intervals cover about 73 %. The default model avoids this by averaging over many rows.

    Let u be the value of the distribution function of the common shape at a residual. A conditional shape is
    the distribution of u given x. Randomized trees [2]_ estimate :math:`P(u \le t \mid x)` at 15 thresholds t
    from the columns of X, the location and the scale. Half of the trees have small leaves, and half have
    large leaves. The result is a weighted mean of both estimates and of :math:`P(u \le t) = t`. The weights
    minimize the squared out-of-fold error. "auto" uses the conditional shape if the covariance of estimates
    and targets is at least 2.33 times its standard error. The distribution is a `Quantiles` with 27 levels
    from 0.0025 to 0.9975. With fewer than 40 rows, all rows have the common shape.

    `predict` returns the location. The mean of a distribution with a conditional shape may differ from it.

    The common shape is wrong if many targets have the same value, such as rainfall amounts that are 0 on most
    days. In such data, the shape depends on x. For random forests on such data, prefer
    `ForestDistributionRegressor`.

    `fit_transform` returns distributions with the out-of-fold location and scale. A conditional shape comes
    from trees that are not trained on the row. A common shape is estimated from all rows. ``cv`` must test
    every row exactly once.

    Cost: the fits of the mean model take as long as 3.0 fits to all rows with "low", 5.8 fits with "standard"
    and 11.4 fits with "high". One more fit is needed if the location is a refit. The default scale model is
    fitted twice. A ``scale_estimator`` is fitted once per fold and once to all rows. A prediction calls one
    mean model per fold, or only one mean model if the location is a refit.

    Weights count as repetitions in all models, with one exception: the gradient boosting in the default scale
    model has at least 20 rows per leaf, regardless of their weights.

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
        support: SupportLike = None,
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
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._learn(data, progress)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        rows, out_of_fold = self._learn(data, progress)
        if not is_partition([rows], len(data)):
            raise ValueError(
                "`cv` must test every row exactly once for `fit_transform`, but some rows are never "
                "tested or tested several times. Use a partition such as KFold or GroupKFold. For "
                "time-ordered or "
                "repeated splits, use RecalibratedRegressor, "
                "which accepts any splitter."
            )
        return self._out_of_fold_dist(out_of_fold)[np.argsort(rows, kind="stable")]

    def _fit_and_test(self, data: TrainingData, progress: Progress) -> tuple[IntArray, Distribution]:
        rows, out_of_fold = self._learn(data, progress)
        return rows, self._out_of_fold_dist(out_of_fold)

    def _learn(self, data: TrainingData, progress: Progress) -> tuple[IntArray, OutOfFold]:
        """Fit all models. Return the tested rows and their out-of-fold predictions."""
        check_option(self.effort, "effort", tuple(FOLDS_BY_EFFORT))
        check_option(self.location, "location", ("auto", "folds", "refit"))
        check_option(self.shape, "shape", ("auto", "conditional", "empirical", "normal"))
        check_option(self.shrink, "shrink", (True, False))
        effective_rows(data.sample_weight, len(data))  # raises for relative weights
        rng = check_random_state(self.random_state)
        fold_seed, model_seed, scale_seed, shape_seed = rng.randint(MAX_SEED, size=4).tolist()
        estimator = in_target_units(seeded_clone(self.estimator, model_seed, self.random_state), data.y)
        cv = FOLDS_BY_EFFORT[self.effort] if self.cv is None else self.cv
        folds = split_rows(resolve_cv(cv, fold_seed), data.X, data.y, data.groups)
        partition = is_partition([test for _, test in folds], len(data))
        # raises before any model is fitted if the location is not possible
        choose_location(self.location, estimator, NO_GAIN, len(folds), partition=partition)
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
        # A splitter may test a row in several folds or in no fold. A pair is a row and one of its test folds.
        rows, loc = mean_fit.tested()
        pairs = data.take(rows)
        tested, scale = self._fit_scale(folds, pairs, loc, len(data), scale_seed, progress)
        shape_folds = groups_among(groups_of_pairs(folds, len(data), N_SHAPE_FOLDS), tested, len(pairs))
        # all later steps use only the pairs with an out-of-fold scale
        rows, loc, pairs = rows[tested], loc[tested], pairs.take(tested)

        self._fit_location(estimator, data, folds, mean_fit, rows, scale, progress, partition=partition)
        self._n_residuals = data.independent_rows(rows)
        data.warn_of_few_rows(rows)
        self._fit_shape(pairs, loc, scale)
        labels = np.arange(len(data)) if data.groups is None else np.asarray(data.groups)
        shares = self._fit_conditional_shape(
            pairs, loc, scale, shape_folds, shape_seed, clusters=labels[rows]
        )
        return rows, OutOfFold(loc, scale, shares)

    # ------------------------------------------------------------------------------ location

    def _fit_location(
        self,
        estimator: Any,
        data: TrainingData,
        folds: Folds,
        mean_fit: CrossFit,
        rows: IntArray,
        scale: FloatArray,
        progress: Progress,
        *,
        partition: bool,
    ) -> None:
        """Choose and fit the location. Store its errors relative to the out-of-fold errors."""
        relative = standardized = NO_GAIN
        if partition and not isinstance(self.estimator, FrozenEstimator):
            scale_by_row = np.full(len(data), np.nan)
            scale_by_row[rows] = scale
            relative, standardized = self._relative_errors(
                estimator, data, folds, mean_fit, scale_by_row, progress
            )
        kind = choose_location(self.location, estimator, relative, len(folds), partition=partition)
        warn = self.location == "refit"  # "auto" needs no warning
        self._location = fit_location(kind, estimator, data, mean_fit, progress, warn=warn)
        self.estimators_, self.location_ = list(self._location.models), self._location.kind
        self.scale_factor_ = standardized.folds if self.location_ == "folds" else standardized.refit

    def _relative_errors(
        self,
        estimator: Any,
        data: TrainingData,
        folds: Folds,
        mean_fit: CrossFit,
        scale: FloatArray,
        progress: Progress,
    ) -> tuple[RelativeErrors, RelativeErrors]:
        """Return the relative raw errors and the relative standardized errors of both kinds of location."""
        out_of_fold: FloatArray = mean_fit.in_row_order(len(data))
        if self.scale_model_.unit == 0:  # all residuals are 0
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

    # --------------------------------------------------------------------------------- scale

    def _fit_scale(
        self,
        folds: Folds,
        pairs: TrainingData,
        loc: FloatArray,
        n: int,
        seed: int,
        progress: Progress,
    ) -> tuple[IntArray, FloatArray]:
        """Fit the scale model. Return the pairs of row and fold with an out-of-fold scale, and the scales."""

        def scale_folds(is_default: bool) -> Any:
            # the default model is fitted to half of the rows, other models to all folds except one
            any_folds = KFold(min(5, len(pairs)), shuffle=True, random_state=seed)
            return groups_of_pairs(folds, n, 2 if is_default else len(folds)) or any_folds

        estimator = self.scale_estimator
        if estimator is not None:
            estimator = seeded_clone(estimator, seed, self.random_state)
        self._scale = fit_scale(
            pairs,
            loc,
            estimator,
            name="scale_estimator",
            folds=scale_folds,
            pairwise=is_pairwise(self.estimator),
            seed=seed,
            shrink=self.shrink,
            n_jobs=self.n_jobs,
            on_fold=progress.reporter("scale fold"),
        )
        self.scale_model_ = self._scale.model
        if estimator is not None or len(self._scale.tested) < len(pairs):
            progress.done("scale model")
        return self._scale.tested, self._scale.out_of_fold

    # --------------------------------------------------------------------------------- shape

    def _fit_shape(self, pairs: TrainingData, loc: FloatArray, scale: FloatArray) -> None:
        """Fit a Student t distribution to the standardized residuals, and recalibrate this distribution."""
        self.df_, self.shape_, self._factor = np.inf, None, 1.0
        if self.scale_model_.unit == 0:  # all residuals are 0
            return
        z = (pairs.y - loc) / scale
        if self.shape == "normal":
            self._factor = float(np.sqrt(np.average(z**2, weights=pairs.sample_weight)))
            return
        self.df_, self._factor = fit_student(z, pairs.sample_weight)
        with few_rows_reported():
            shape = IsotonicRecalibrator()
            self.shape_ = shape.fit(self._family(loc, scale), pairs.y, pairs.sample_weight)
        # stored, because the level map caches integrals of the distribution
        self._level_map = shrunk_level_map(self.shape_.level_map_, self._n_residuals)

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
        """Fit the conditional shape. Return the out-of-fold probabilities of each pair."""
        self.conditional_shape_: ConditionalShape | None = None
        if self.shape not in ("auto", "conditional") or self.shape_ is None or not folds:
            return None
        self._table = self._scale.features or ScaleFeatures.from_columns(
            pairs.X, pairwise=is_pairwise(self.estimator)
        )
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
        return np.column_stack([self._table(X, loc), scale / self.scale_model_.unit])

    def _family(self, loc: FloatArray, scale: FloatArray) -> Distribution:
        if np.isinf(self.df_):
            return Normal(loc, self._factor * scale)
        return StudentT(loc, self._factor * scale, self.df_)

    def _out_of_fold_dist(self, of: OutOfFold) -> Distribution:
        if self.conditional_shape_ is not None and of.shares is not None:
            return self.conditional_shape_.distribution(of.shares, of.loc, of.scale)
        family = self._family(of.loc, of.scale)
        return family if self.shape_ is None else self.shape_.transform(family)

    def _new_dist(self, loc: FloatArray, scale: FloatArray, shares: FloatArray | None) -> Distribution:
        """Return distributions of new rows, widened because the scale and the shape are uncertain."""
        n = self._n_residuals
        scale = self.scale_factor_ ** (1 - prior_share(n)) * scale
        if self.conditional_shape_ is not None and shares is not None:
            return self.conditional_shape_.distribution(shares, loc, scale)
        if self.shape_ is None:
            return StudentT(loc, self._factor * scale, predictive_df(n))
        return Recalibrated(self._family(loc, scale), self._level_map)

    def _point(self, X: Any) -> FloatArray:
        return self._location.predict(X)

    def _predict_dist(self, X: Any) -> Distribution:
        return self._point_and_dist(X)[1]

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        loc = self._point(X)
        scale = self._scale.predict(X, loc)
        shape = self.conditional_shape_
        shares = None if shape is None else shape(self._shape_inputs(X, loc, scale))
        return loc, self._new_dist(loc, scale, shares)
