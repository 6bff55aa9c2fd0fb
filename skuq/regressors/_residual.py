"""Regression of the mean, of the scale of the errors and of the shape of their distribution."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold

from skuq._few_rows import few_rows_reported
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.columns import ScaleFeatures
from skuq._fitting.cross_fit import (
    CrossFit,
    cross_fit,
    is_partition,
    resolve_cv,
    split_rows,
)
from skuq._fitting.point_predict import point_predict
from skuq._fitting.progress import Progress
from skuq._fitting.seeds import MAX_SEED, seeded_clone
from skuq._fitting.target_units import in_target_units
from skuq._fitting.training_data import TrainingData
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
"""Number of folds where ``cv`` is None."""

N_SHAPE_FOLDS = 5
"""Largest number of folds of the conditional shape; each has one or several folds of the mean model."""


class OutOfFold(NamedTuple):
    """Predictions for each row by models that are not trained on it."""

    loc: FloatArray
    scale: FloatArray
    shares: FloatArray | None
    """Probabilities of the conditional shape, shape (n, k); None if the shape is common to all rows."""


class ResidualRegressor(BaseUncertaintyRegressor):
    r"""Mean model, scale model and a distribution of the standardized residuals.

    The class estimates the distribution of a regressor's errors at each x from residuals on held-out rows. A
    second model predicts the size of the errors. The distribution of the standardized errors may be skewed or
    heavy-tailed. It changes with x if this improves the out-of-fold score. Prefer `BootstrapRegressor` to
    separate epistemic uncertainty from noise.

    Parameters
    ----------
    estimator : estimator
        The mean model; cloned. A FrozenEstimator is not refitted; only its errors are modeled.
    scale_estimator : estimator or None, default=None
        The model of the size of errors; cloned and fitted to X and the logarithms of absolute residuals. A
        single error is a noisy measurement of the scale, so this model needs more smoothing than a mean
        model, such as leaves of 50 rows. None combines a linear model and a small gradient boosting with the
        weights of the least squared error out of fold. Their features are the columns of X, with categories
        as integers, and the point prediction. If X is sparse, text or images, the point prediction is the
        only feature.
    effort : {"low", "standard", "high"}, default="standard"
        Amount of computation: 3, 5 or 10 folds where ``cv`` is None.
    location : {"auto", "folds", "refit"}, default="auto"
        Model of the location.

        - "folds": the mean of the folds' models. The errors of these models are known, and the mean is more
          accurate than a single model. ``cv`` must test every row once. A prediction costs one call per fold.
        - "refit": one model, fitted to all rows. Its predictions may differ from the folds' models far more
          than the folds' models differ from each other, for example after early stopping. The mean of the
          folds' models then replaces the refit, with a FoldMismatchWarning. If the test rows of ``cv`` are
          not a partition, as in time order, the refit is kept and only the warning is issued.
        - "auto": the location with the smaller mean absolute error if ``cv`` tests every row once in 3 to 20
          folds. The errors are estimated from models that are fitted without two folds. Otherwise, and for a
          FrozenEstimator, "auto" is "refit".
    shape : {"auto", "conditional", "empirical", "normal"}, default="auto"
        Shape of the standardized errors.

        - "empirical": the shape of all standardized residuals, common to all rows.
        - "conditional": a shape that depends on x, by trees on the probability levels of the residuals.
        - "auto": "conditional" if it is better out of fold by more than chance, otherwise "empirical".
        - "normal": the Gaussian shape. With an estimated scale, it is a Student t distribution for new rows.
    shrink : bool, default=True
        Whether the predicted differences in scale are shrunk by the part that fails to generalize to held-out
        rows. Shrinkage gives the best scores of the whole distribution. False uses the predicted scale
        without shrinkage. Coverage then differs less between rows with little and with much noise, and widths
        vary more by chance. Use False with an accurate but rough ``scale_estimator`` if
        ``ConformalRegressor(..., "normalized")`` or a recalibrator follows. Do not use False with a fully
        grown tree.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds for the residuals; any splitter. An int k is ``KFold(k, shuffle=True)``; None takes the number
        of folds from ``effort``.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job fits a fold. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        An integer makes everything reproducible: folds, and estimators without a seed of their own.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    estimators_ : list of estimators
        The mean models: one per fold, or one model fitted to all rows. A scikit-learn estimator with absolute
        tolerances or step sizes is wrapped in a `TransformedTargetRegressor` that divides y by a power of
        two, so that results do not depend on the units of y.
    location_ : {"folds", "refit"}
        Location in use.
    scale_factor_ : float
        Size of the errors of the location relative to the out-of-fold errors; at most 1. It is 1 unless the
        folds are a partition of the rows.
    scale_model_ : object
        Fitted scale model. Its ``slope`` in [0, 1] is the share of the predicted differences between rows
        that generalizes to held-out rows. A slope of 0 means one scale for all rows. The slope is 1 with
        ``shrink=False``.
    df_ : float
        Degrees of freedom of the Student t family that fits the standardized residuals best. The search is
        limited to families whose standard deviation n rows can estimate. Infinite with ``shape="normal"``.
    shape_ : IsotonicRecalibrator or None
        Map from the fitted Student t family to the distribution of the standardized residuals.
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
    2. The scale model is trained on :math:`\log |r|`. Any regressor then gives a positive scale, one extreme
       residual has little influence, and the result does not depend on the units of y [1]_. The default scale
       model is fitted twice. Each fit uses half of the folds and predicts the other half; new rows get the
       mean of both. A ``scale_estimator`` is fitted to all folds but one, and to all. Predictions are shrunk
       toward a constant by the part that fails to generalize to held-out rows. The scale of a new row stays
       within the range of the training residuals.
    3. The out-of-fold errors come from one model without one fold. The mean of the folds' models has smaller
       errors than a single model. A model fitted to all rows has smaller errors, too. Models fitted without
       two folds, for three pairs of folds, estimate both gains. The difference of two such models on a row
       that both leave out shows the gain by averaging. The comparison of their errors with the errors of
       models without one fold shows the gain by more rows. The gain by more rows is modeled as a power of the
       number of rows and shrunk for chance. The scale for new rows is multiplied by the factor of the
       location in use.
    4. The standardized residuals :math:`z = r / s(x)` use out-of-fold predictions of both models. A Student t
       distribution centered at 0 is fitted to these residuals. `IsotonicRecalibrator` fits the differences
       from this distribution, such as skewness. The result has a density, tails beyond the largest residual
       and exact moments, at O(n) memory.
    5. Scale and shape are estimated from n residuals. A new error, in units of the estimated scale, has a
       Student t distribution with n - 3 degrees of freedom if errors are normal. The quantiles of new rows
       are averages of the quantiles from step 4 and of this distribution, with weights n and 20. The
       logarithm of the factor from step 3 is multiplied by n / (n + 20). With ``groups``, n is the number of
       groups. Fewer than 12 rows or groups give a `SmallSampleWarning`.

    A ``scale_estimator`` that follows single rows, such as a fully grown tree, overfits the residuals of a
    row's neighbors, because the mean models of the neighbors are trained on the row's own error. Around fully
    grown trees in one dimension, 90 % intervals would cover about 73 %. The default model averages over many
    rows.

    A conditional shape is a distribution of the levels u of the residuals under the common shape. Randomized
    trees [2]_ of the columns of X, the location and the scale estimate :math:`P(u \le t \mid x)` at 15
    thresholds t. Half of the trees have small leaves, half have large ones. Both estimates and
    :math:`P(u \le t) = t` are mixed with the weights that minimize the squared error out of fold. "auto" uses
    the conditional shape if the covariance of estimates and targets is at least 2.33 standard errors. The
    result is a `Quantiles` with 27 levels from 0.0025 to 0.9975. With fewer than 40 rows all rows have the
    common shape.

    "auto" improves the score most if the shape of the errors differs between rows. An example is medical
    charges: most predictions are nearly exact, and a few charges lie far above the prediction.

    `predict` returns the location. The mean of a distribution with a conditional shape differs from the
    location, since the shape corrects the bias of the location.

    The common shape does not hold if many targets share one value, such as rainfall amounts that are 0 on
    most days. The shape then changes with x. For random forests on such data prefer
    `ForestDistributionRegressor`.

    `fit_transform` returns distributions with the out-of-fold location and scale, and a conditional shape
    from trees that are not trained on the row. The common shape comes from all rows. `fit_transform` needs a
    ``cv`` that tests every row once.

    Cost in fits of the mean model, each counted by its share of the rows: 3.0 with "low", 5.8 with
    "standard", 11.4 with "high", and one more if the location is a refit. The default scale model is fitted
    once; a ``scale_estimator`` is fitted once per fold and once more. A prediction costs one call per fold,
    or one call with a refit.

    Weights count as repetitions in both models. The exception is the boosting in the default scale model: its
    leaves have at least 20 rows, regardless of weights.

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
        rows, out_of_fold = self._learn(data, progress)
        if not is_partition([rows], len(data)):
            raise ValueError(
                "`cv` must test every row exactly once for `fit_transform`, but it does not. Use a partition "
                "such as KFold or GroupKFold; for time-ordered or repeated splits use RecalibratedRegressor, "
                "which takes any splitter."
            )
        return self._out_of_fold_dist(out_of_fold)[np.argsort(rows, kind="stable")]

    def _fit_and_test(self, data: TrainingData, progress: Progress) -> tuple[IntArray, Distribution]:
        rows, out_of_fold = self._learn(data, progress)
        return rows, self._out_of_fold_dist(out_of_fold)

    def _learn(self, data: TrainingData, progress: Progress) -> tuple[IntArray, OutOfFold]:
        """Fit all models; return the tested rows and their out-of-fold predictions."""
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
        # raises for an impossible location before any model is fitted
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
        # a splitter may test a row in several folds or in none: a residual belongs to one row and one fold
        rows, loc = mean_fit.tested()
        pairs = data.take(rows)
        tested, scale = self._fit_scale(folds, pairs, loc, len(data), scale_seed, progress)
        shape_folds = groups_among(groups_of_pairs(folds, len(data), N_SHAPE_FOLDS), tested, len(pairs))
        # from here on, only pairs that the folds of the scale model test
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
        """Choose and fit the location, and the size of its errors relative to the out-of-fold errors."""
        relative = standardized = NO_GAIN
        if partition and not isinstance(self.estimator, FrozenEstimator):
            scale_by_row = np.full(len(data), np.nan)
            scale_by_row[rows] = scale
            relative, standardized = self._relative_errors(
                estimator, data, folds, mean_fit, scale_by_row, progress
            )
        kind = choose_location(self.location, estimator, relative, len(folds), partition=partition)
        warn = self.location == "refit"  # "auto" replaces a differing refit without a warning
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
        """Return the errors of both locations relative to the out-of-fold errors, raw and standardized."""
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
        """Fit the scale model to residuals; return the pairs with an out-of-fold scale, and these scales."""

        def scale_folds(is_default: bool) -> Any:
            # half of the rows are enough for the default model; other models get all folds but one
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
        """Fit the Student t family of the standardized residuals, and the map to their distribution."""
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
        # created once, because a level map caches the integrals of its distributions
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
        """Fit the dependence of the shape on x; return the out-of-fold probabilities of each pair."""
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
        """Return the distributions of new rows, wider by the uncertainty of the estimated scale and shape."""
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
