"""Joint predictive distributions of several targets, from one regressor per target."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from skuq._compat import (
    available_if,
    run_parallel,
    safe_indexing,
    slice_fit_params,
    with_callbacks,
)
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import Split, has_random_folds, resolve_cv, row_order, rows_outside, split_rows
from skuq._fitting.seeds import MAX_SEED, Progress, seeded_clone
from skuq._fitting.training_data import TrainingData
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_new,
    check_option,
    check_random_state,
    check_same_rows,
    check_sample_weight,
    check_single_coverage,
)
from skuq.distributions import Distribution, JointDistribution, concat
from skuq.multivariate._base_regressor import BaseJointRegressor, Targets, read_targets
from skuq.multivariate._copula import CopulaJoint
from skuq.multivariate._dependence import DEPENDENCES, Dependence, fit_dependence, forecast_scores
from skuq.prediction._register import note_fold
from skuq.regressors import UncertaintyRegressor


class MultiOutputUncertaintyRegressor(BaseJointRegressor):
    r"""Joint predictive distribution of several targets, from one regressor per target.

    The distribution of each target comes from its own regressor. A copula describes the dependence between
    the errors of the targets. With the copula, intervals of sums, probabilities of joint events and
    simultaneous intervals are calibrated. The copula is estimated from out-of-sample forecasts of the
    training rows. The regressors compute these forecasts during ``fit`` anyway. If one target is known when
    the other targets are predicted, use it as a feature.

    Parameters
    ----------
    estimator : estimator or list of d estimators
        One regressor for all targets, or a list of one regressor per target in the order of the columns of y;
        cloned. Regressors that are not from skuq are wrapped in `~skuq.regressors.UncertaintyRegressor`. A
        Pipeline is wrapped as a whole. `~skuq.regressors.RecalibratedRegressor` recalibrates each target.
    dependence : {"empirical", "gaussian", "conditional", "independent"}, default="empirical"
        Copula of the targets.

        - "empirical": the joint ranks of at most 1000 training rows.
        - "gaussian": the normal copula. Its density is known, so the joint distribution has ``logpdf``.
          Prefer "gaussian" with fewer than 200 rows.
        - "conditional": the joint ranks of the training rows, with weights that depend on x. If the
          dependence does not vary with x, the weights are constant.
        - "independent": no dependence between the targets. Use it as a baseline. If targets have positively
          correlated errors, intervals of their sum are too narrow.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds of all targets, passed to their regressors as ``cv``. None keeps the folds of each regressor. An
        int k means ``KFold(k, shuffle=True)``. Time-ordered splitters work with
        `~skuq.regressors.RecalibratedRegressor`, and with the methods "residual" and "recalibrated" of
        `~skuq.regressors.UncertaintyRegressor`.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one target. The results do not depend on
        ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of all random steps. An integer makes results reproducible. All targets use the same seed, and
        therefore the same folds.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimators_ : list of d estimators
        Fitted regressor of each target.
    ranks_ : ndarray of shape (K, d)
        Template of the copula. Each column contains levels in (0, 1) of K joint observations.
    correlation_ : ndarray of shape (d, d)
        Correlation matrix of the normal scores of the errors, shrunk by the method of Ledoit and Wolf [2]_.
    conditional_share_ : float
        Share of the weights that depends on x, in [0, 1]. It is positive only with
        ``dependence="conditional"``, and only if the dependence varies with x.
    n_outputs_ : int
        Number of targets d.
    target_names_ : ndarray of str of shape (d,), or None
        Names of the columns of y. None if y is not a DataFrame.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    skuq.regressors.UncertaintyRegressor : Predictive distribution of one target.
    ConformalRegionRegressor : Regions that contain all targets with guaranteed coverage.
    skuq.multivariate.CopulaJoint : Joint distribution of marginals and a template.

    Notes
    -----
    Let :math:`u_{ij} = F_{ij}(y_{ij})` be the probability integral transform of training row i and target j
    by a model that is not trained on row i. The template is the matrix of ranks of the :math:`u_{ij}` in each
    column. Point k of a new row x has the coordinates :math:`Q_j(u_{kj} \mid x)`, where :math:`Q_j` is the
    quantile function of target j. This is the empirical copula, known as the Schaake shuffle [1]_ in weather
    forecasting. The template is the same for all rows, so no random numbers are needed. Because the template
    contains ranks, the distribution of each target is unchanged. On atoms, such as zeros or counts,
    :math:`u_{ij}` is drawn at random between the values of the distribution function below and at the atom.

    If errors are correlated, the energy score and the variogram score of "empirical" are lower than the
    scores of "independent", and intervals of a sum are better calibrated.

    "conditional" fits a forest to the products of the normal scores of each pair of targets. The weight of a
    training row is the share of the trees in which it is in the leaf of x. These weights are mixed with
    constant weights. The share of the forest maximizes the out-of-bag log score of a normal copula. The share
    is 0 if the improvement of the log score is at most two standard errors, or if there are fewer than 300
    rows. X must be a table.

    Missing targets: each regressor is fitted to the rows in which its target is known. If fewer than 200 rows
    are complete, or with "gaussian", a normal copula is used. Its correlations are estimated separately for
    each pair of targets and projected to a positive definite matrix. Otherwise, the template contains the
    complete rows.

    `fit_transform` returns the joint distributions with out-of-sample marginals. The template includes the
    ranks of the row itself, with the weight 1/K.

    Cost: one call of `fit_transform` for each regressor. For forests, "residual" and "recalibrated",
    `fit_transform` costs as much as ``fit``. A GaussianProcessRegressor is refitted on folds. Several targets
    are not fitted by one forest, because forests with joint splits predict each target worse.

    References
    ----------
    .. [1] M. Clark et al., "The Schaake shuffle: a method for reconstructing space-time variability in
       forecasted precipitation and temperature fields", Journal of Hydrometeorology 5, 2004,
       doi:10.1175/1525-7541(2004)005<0243:TSSAMF>2.0.CO;2.
    .. [2] O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices",
       Journal of Multivariate Analysis 88, 2004, doi:10.1016/S0047-259X(03)00096-4.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.multivariate import MultiOutputUncertaintyRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> noise = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=300)
    >>> y = pd.DataFrame(X + noise, columns=["north", "south"])
    >>> model = MultiOutputUncertaintyRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> dist = model.predict_dist(X[:5])
    >>> dist.shape
    (5, 2)
    >>> total = dist.linear([1, 1])
    >>> bool((total.std() > 1.2 * np.hypot(*dist.std().T)).all())
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        dependence: Literal["empirical", "gaussian", "conditional", "independent"] = "empirical",
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.dependence = dependence
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---------------------------------------------------------------------------- arguments

    def _children(self) -> dict[str, Any]:
        if not isinstance(self.estimator, list | tuple):
            return {"estimator": _with_distribution(self.estimator)}
        return {f"estimator_{j}": _with_distribution(one) for j, one in enumerate(self.estimator)}

    def _splits_by_groups(self) -> bool:
        return not has_random_folds(self.cv)

    def _n_tasks(self) -> int:
        return self.n_outputs_

    # ---------------------------------------------------------------------------------- fit

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._learn(data, progress, "_fit_tested")

    @with_callbacks
    def fit_transform(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> JointDistribution:
        """Fit on all rows, and return out-of-sample joint distributions of these rows.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Training features.
        y : array-like or DataFrame of shape (n, d)
            Targets, one column per target. NaN is a missing value.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        **fit_params : dict
            As in `fit`.

        Returns
        -------
        dist : JointDistribution of shape (n, d)
            Joint distributions in the order of the rows of X. For each row, the distributions come
            from models that are not trained on the targets of the row.
        """
        data = self._read(X, y, sample_weight, fit_params, "fit_transform")
        progress = Progress(self, self._n_tasks())
        fitted = self._learn(data, progress, "fit_transform")
        progress.close()
        return self._joint([one.all_rows(data.X, len(data)) for one in fitted], data.X)

    def _learn(self, data: TrainingData, progress: Progress, method: str) -> list[_FittedTarget]:
        """Fit the regressors with one of their methods, and then fit the dependence."""
        kind = check_option(self.dependence, "dependence", DEPENDENCES)
        seeds = check_random_state(self.random_state).randint(MAX_SEED, size=3).tolist()
        fold_seed, model_seed, template_seed = seeds
        folds = self._folds(data, fold_seed)
        children, labels = self._children(), self._labels()
        names = list(children) if len(children) == self.n_outputs_ else list(children) * self.n_outputs_
        done = progress.reporter("target")
        tasks = (
            partial(
                _fit_target,
                self._clone(children[name], model_seed),
                data.X,
                column,
                data.params[name],
                folds,
                method,
                label,
            )
            for name, column, label in zip(names, data.y.T, labels, strict=True)
        )
        fitted = []
        for one in run_parallel(tasks, n_jobs=self.n_jobs, one_by_one=bool(done), verbose=self.verbose):
            fitted.append(one)
            if done is not None:
                done()
        self.estimators_ = [one.estimator for one in fitted]
        rng = check_random_state(template_seed)
        scores = [
            forecast_scores(one.rows, one.dist, column[one.rows], len(data), rng)
            for one, column in zip(fitted, data.y.T, strict=True)
        ]
        self._keep(
            fit_dependence(
                kind,
                data.X,
                np.column_stack(scores),
                data.sample_weight,
                labels,
                missing=bool(np.isnan(data.y).any()),
                seed=template_seed,
                n_jobs=self.n_jobs,
            )
        )
        return fitted

    def _folds(self, data: TrainingData, seed: int) -> list[Split] | int | None:
        """Return the folds of all targets. If ``cv`` is an int or None, return it for the regressors."""
        if has_random_folds(self.cv):
            if self.cv is not None:
                resolve_cv(self.cv)  # raises unless the number of folds is valid
            return self.cv  # type: ignore[no-any-return]
        return split_rows(resolve_cv(self.cv, seed), data.X, data.y, data.groups)

    def _clone(self, estimator: Any, seed: int) -> Any:
        # all targets have the same seed, and therefore the same folds, even if `random_state` is None
        own = estimator.get_params(deep=False)
        if "random_state" not in own:
            child = seeded_clone(estimator, seed, seed)
        else:  # this seed determines the seeds of nested estimators
            child = clone(estimator)
            if own["random_state"] is None:
                child.set_params(random_state=seed)
        if self.cv is not None and "cv" not in own:
            raise ValueError(
                f"`cv` is given, but {type(child).__name__} has no parameter `cv`. Leave `cv` out, or wrap "
                "the estimator in RecalibratedRegressor."
            )
        return child

    def _keep(self, dependence: Dependence) -> None:
        self._dependence = dependence
        self.ranks_, self.correlation_ = dependence.ranks, dependence.correlation
        conditional = dependence.conditional
        self.conditional_share_ = 0.0 if conditional is None else conditional.share

    def _children_adapt(self) -> bool:
        for name, child in self._children().items():
            if not hasattr(child, "partial_fit"):
                raise AttributeError(
                    f"`{name}` must have a method `partial_fit`, got {type(child).__name__}. Use "
                    "ConformalRegressor, or RecalibratedRegressor with OnlineRecalibrator()."
                )
        return True

    @available_if(_children_adapt)
    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Update the calibration of each target with newly observed rows. The models are not refitted.

        If the targets are the horizons of a forecast, they arrive one after another. A row may therefore
        occur in several calls, with a different target each time. `~skuq.monitoring.PendingForecasts` returns
        the rows and targets in this form. The method is available if the regressors of all targets have a
        method `partial_fit`. The dependence of the targets is not updated.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of m rows
            Features of the rows, in chronological order.
        y : array-like or DataFrame of shape (m, d)
            Targets that are observed since the last call. NaN is a target that is missing, not yet observed,
            or part of an earlier call.
        sample_weight : array-like of shape (m,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : object
            The regressor, with updated calibration.
        """
        check_new(self, X)
        targets = read_targets(y, self)
        check_same_rows(X, targets.values)
        self._check_same_targets(targets)
        weight = check_sample_weight(sample_weight, len(targets.values))
        for one, column in zip(self.estimators_, targets.values.T, strict=True):
            known = np.flatnonzero(~np.isnan(column))
            if known.size:
                repetitions = None if weight is None else weight[known]
                one.partial_fit(safe_indexing(X, known), column[known], repetitions)
        return self

    def _check_same_targets(self, targets: Targets) -> None:
        d, names = self.n_outputs_, self.target_names_
        if targets.values.shape[1] != d:
            raise ValueError(f"`y` must have {d} columns, one per target, got {targets.values.shape[1]}.")
        if names is not None and targets.names is not None and list(names) != list(targets.names):
            raise ValueError(f"`y` must have the columns {list(names)}, got {list(targets.names)}.")

    # ------------------------------------------------------------------------------ predict

    def _predict_joint(self, X: Any) -> JointDistribution:
        return self._joint([one.predict_dist(X) for one in self.estimators_], X)

    def _joint(self, marginals: Sequence[Distribution], X: Any) -> CopulaJoint:
        names = None if self.target_names_ is None else list(self.target_names_)
        return CopulaJoint(marginals, self.ranks_, names=names, **self._dependence.options(X))

    def _points(self, X: Any) -> FloatArray:
        return np.column_stack([one.predict(X) for one in self.estimators_])

    def predict_interval(
        self, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE, *, simultaneous: bool = False
    ) -> FloatArray:
        """Return central prediction intervals of each target.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1. Must be a number if
            `simultaneous` is True.
        simultaneous : bool, default=False
            Whether ``coverage`` is the probability that the intervals contain all targets of a row. With
            False, ``coverage`` is the probability that the interval of a single target contains this target.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d), or (n, 2, d, k) for k coverages
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the targets. If
            ``simultaneous`` is False and a regressor such as `~skuq.conformal.ConformalRegressor` has
            intervals with a guarantee, these intervals are returned.
        """
        check_new(self, X)
        if simultaneous:
            joint = self._predict_joint(X)
            return joint.interval(check_single_coverage(coverage), simultaneous=True)
        return np.stack([one.predict_interval(X, coverage) for one in self.estimators_], axis=2)

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> FloatArray:
        """Return quantiles of the distribution of each target.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        levels : float or array-like of shape (k,)
            Levels in [0, 1].

        Returns
        -------
        quantiles : ndarray of shape (n, d), or (n, d, k) for k levels
            Quantiles in the units of the targets.
        """
        check_new(self, X)
        return np.stack([one.predict_quantiles(X, levels) for one in self.estimators_], axis=1)


class _FittedTarget(NamedTuple):
    """Fitted regressor of one target, its tested rows, and the out-of-sample distributions of these rows."""

    estimator: BaseUncertaintyRegressor
    rows: IntArray
    dist: Distribution

    def all_rows(self, X: Any, n: int) -> Distribution:
        """Return the distributions of all rows. Rows without the target are predicted as new rows."""
        others = rows_outside(self.rows, n)
        if not len(others):
            return self.dist[row_order(self.rows, n)]
        predicted = self.estimator.predict_dist(safe_indexing(X, others))
        return concat([self.dist, predicted])[row_order(np.concatenate([self.rows, others]), n)]


def _fit_target(
    estimator: Any,
    X: Any,
    y: FloatArray,
    params: dict[str, Any],
    folds: list[Split] | int | None,
    method: str,
    label: str,
) -> _FittedTarget:
    """Fit the regressor to the rows in which its target is known."""
    known = np.flatnonzero(~np.isnan(y))
    with note_fold(f"the fit of {label} of `y`"):
        if len(known) < len(y):
            X, params = safe_indexing(X, known), slice_fit_params(X, params, known)
            folds = _folds_among(folds, known, len(y)) if isinstance(folds, list) else folds
        if folds is not None:
            estimator.set_params(cv=folds)
        tested = getattr(estimator, method)(X, y[known], **params)
    rows, dist = tested if method == "_fit_tested" else (np.arange(len(known)), tested)
    return _FittedTarget(estimator, known[rows], dist)


def _folds_among(folds: list[Split], known: IntArray, n: int) -> list[Split]:
    position = np.full(n, -1)
    position[known] = np.arange(len(known))
    found = [(position[train], position[test]) for train, test in folds]
    splits = [(train[train >= 0], test[test >= 0]) for train, test in found]
    if any(len(train) < 2 or len(test) < 2 for train, test in splits):
        raise ValueError(
            "`y` must have at least 2 values in the training rows and 2 in the test rows of each fold. Use "
            "fewer folds, or leave the column out."
        )
    return splits


def _with_distribution(estimator: Any) -> Any:
    if isinstance(estimator, BaseUncertaintyRegressor):
        return estimator
    return UncertaintyRegressor(estimator)
