"""Pool of several predictive distributions, with weights that minimize the CRPS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.utils import Bunch, Tags, get_tags
from sklearn.utils.metadata_routing import process_routing

from skuq._compat import BaseComposition, routing_enabled, warn_user
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import (
    check_recalibrator,
    fit_recalibrator,
    fold_masks,
    has_random_folds,
    other_rows_masks,
    resolve_cv,
    row_order,
    split_rows,
)
from skuq._fitting.seeds import MAX_SEED, Progress, seeded_clone
from skuq._fitting.training_data import (
    TrainingData,
    check_wrapped,
    read_training,
    routed_groups,
    router_for,
    weight_params_for,
)
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray, SupportLike
from skuq._validation import (
    as_float_array,
    check_finite,
    check_non_negative,
    check_option,
    check_random_state,
    effective_rows,
    few_rows_reported,
)
from skuq.distributions import Distribution, concat
from skuq.prediction import predict_dist
from skuq.prediction._register import note_fold
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors._default_estimators import default_estimators, has_networks
from skuq.regressors._mixture_pool import (
    COMBINATIONS,
    Pool,
    fit_pool,
    is_dropped,
    mean_and_error,
    named_members,
)

Folds = list[tuple[IntArray, IntArray]]

_MIN_RECALIBRATION_ROWS = 50
"""The default recalibrator needs at least this number of rows. With fewer rows, its noise is larger than its
gain."""


class MixtureRegressor(BaseComposition, BaseUncertaintyRegressor):
    r"""Pool of several predictive distributions, with weights that minimize the CRPS.

    The best model depends on the data set. The pool is about as accurate as its best member, and more
    accurate if the errors of the members differ. The cost of the pool is the sum of the costs of its members.
    Prefer a single model if fits or predictions must be fast. Prefer `RecalibratedRegressor` if you want to
    correct a single model.

    Parameters
    ----------
    estimators : list of (str, estimator) or None, default=None
        Names and members; cloned. Each member must be an estimator that `predict_dist` accepts. Wrap a plain
        regressor in `UncertaintyRegressor`. ``set_params(name="drop")`` excludes a member. None means the
        members of `default_estimators`: boosting, a forest, a Gaussian process and networks. They accept
        strings, dates and missing values.
    weights : {"crps", "equal"} or array-like of shape (m,), default="crps"
        Weights of the m members.

        - "crps": the weights that minimize the CRPS of the out-of-fold forecasts of the pool.
        - "equal": equal weights.
        - array: non-negative weights, which are divided by their sum. Weights of dropped members are ignored.
    combine : {"linear", "quantiles"}, default="linear"
        Functions that are averaged.

        - "linear": the distribution functions. The pool is a `~skuq.distributions.Mixture`. Its variance
          includes the differences between the members.
        - "quantiles": the quantile functions. The width of the pool is then the average width of the members.
          Prefer "quantiles" if the members are calibrated or too wide, and if their locations differ only by
          chance. Probability mass at infinity, as in `ConformalPredictive`, is not
          averaged.
    recalibrator : "auto", recalibrator or None, default="auto"
        Recalibrator that is fitted to the out-of-fold forecasts of the pool; cloned. "auto" means
        ``IsotonicRecalibrator(smooth=True)`` if the weights are estimated from at least 50 rows (with
        ``groups``, from at least 50 groups). Otherwise, "auto" means None. Without a recalibrator, the
        intervals of a linear pool are somewhat too wide. Use None if you need `epistemic`.
    cv : int, splitter or iterable of (train, test), default=5
        Folds of the out-of-fold forecasts. An int k means ``KFold(k, shuffle=True)`` for most members. skuq's
        own regressors instead compute their out-of-fold forecasts with `fit_transform`. A splitter applies to
        all members. A splitter may keep groups together or respect time order. `fit` accepts any splitter.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are the means of the clipped forecasts.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one member. The results do not depend on
        ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of estimators without a seed of their own. An integer makes results
        reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimators_ : list
        Fitted members, without dropped members.
    named_estimators_ : Bunch
        Fitted members by name. The value of a dropped member is "drop".
    weights_ : ndarray of shape (m,)
        Weights of ``estimators_``. The sum of the weights is 1. Members with weight 0 are not used in
        predictions.
    recalibrator_ : recalibrator or None
        The fitted recalibrator. None if no recalibrator is used.
    out_of_fold_crps_ : DataFrame
        Out-of-fold scores: one row per member, and the row "pool" for the pool before recalibration. The
        column ``"crps"`` is the mean CRPS in the units of y. The column ``"difference"`` is the CRPS of the
        member minus the CRPS of the pool, and ``"standard_error"`` is the standard error of this difference.
        To score the pool on the rows of a fold, the weights are estimated from the other folds. If there is
        only one fold, the weights are estimated from this fold. A row that is tested several times counts
        once. If ``weights`` are given and no recalibrator is used, no out-of-fold forecasts are computed and
        the attribute does not exist.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    default_estimators : Default members, for tables of any kind.
    skuq.distributions.Mixture : The distribution of a linear pool.
    sklearn.ensemble.VotingRegressor : Average of the point predictions of several models.

    Notes
    -----
    The mean CRPS of a linear pool is a quadratic function of the weights :math:`w`,

    .. math:: f(w) = \sum_i w_i c_i - \frac12 \sum_{ij} w_i w_j d_{ij},

    where :math:`c_i` is the mean CRPS of member i, and :math:`d_{ij}` is the mean over rows of the integral
    of :math:`(F_i - F_j)^2`, the squared difference of the distribution functions. This integral is
    :math:`E|X_i - X_j| - \frac12 E|X_i - X_i'| - \frac12 E|X_j - X_j'|` [1]_. An exact algorithm for
    quadratic programs finds the weights. With "quantiles", the CRPS is a convex function of the weights. It
    is approximated on 50 levels, and its minimum is found to a relative tolerance of 1e-5.

    If there are few rows, the optimal weights :math:`w` are noisy. They are shrunk toward equal weights
    :math:`e` by the positive-part James-Stein rule, :math:`e + \max(0, 1 - s^2 / g^2) (w - e)`. Here g is the
    decrease of the CRPS from equal to optimal weights, and s is the standard error of g. A few rows with
    extreme scores may dominate both g and s. Therefore, the factor :math:`\max(0, 1 - s^2 / g^2)` is computed
    a second time from clipped score differences. The larger of the two factors is used. Differences are
    clipped at the 98 % quantile of their absolute values. With fewer than 75 rows, differences are clipped at
    the second largest absolute value.

    A linear pool of calibrated forecasts is overdispersed: the coverage of its intervals is too high [2]_,
    [3]_. The coverage increases with the differences between the members. The default recalibrator corrects
    the coverage. It is fitted to the same out-of-fold forecasts as the weights. On 21 data sets with one
    split each, 90 % intervals of the pool of `default_estimators` cover 93.4 % of the test rows without this
    recalibrator, and 89.2 % with it.

    With fewer than 12 rows (or 12 groups), a `SmallSampleWarning` is issued.

    ``predict_dist(X).epistemic()`` is available for a linear pool without a recalibrator if each member with
    a positive weight has an epistemic part. By the law of total variance, the epistemic variance of the pool
    includes the variance between the members.

    `fit_transform` returns the pool of the out-of-fold forecasts of the members. The weights and the
    recalibrator for the rows of a fold are fitted to the other folds. Each row must be in exactly one test
    fold of ``cv``.

    Cost if ``cv`` is an int: one call of `fit_transform` for each skuq regressor, and ``cv + 1`` fits of each
    other member. Bootstrap and forest regressors need only one fit for `fit_transform`. For a forest with
    large leaves, the time of `fit_transform` is proportional to the square of the number of rows (see
    `ForestDistributionRegressor`). If weights are given and no recalibrator is used, the cost is one fit per
    member. The computation of the weights from n rows and m members needs :math:`O(n m^2)` memory with
    "linear" and :math:`O(50 n m)` memory with "quantiles". Weights are computed once for each fold and once
    for all rows.

    References
    ----------
    .. [1] T. Gneiting, A. E. Raftery, "Strictly proper scoring rules, prediction, and estimation",
       JASA 102, 2007, doi:10.1198/016214506000001437.
    .. [2] S. C. Hora, "Probability judgments for continuous quantities: linear combinations and
       calibration", Management Science 50(5), 2004, doi:10.1287/mnsc.1040.0205.
    .. [3] T. Gneiting, R. Ranjan, "Combining predictive distributions", Electronic Journal of Statistics
       7, 2013, doi:10.1214/13-EJS823.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.regressors import MixtureRegressor, UncertaintyRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> members = [
    ...     ("ridge", BayesianRidge()),
    ...     ("forest", UncertaintyRegressor(RandomForestRegressor(min_samples_leaf=5))),
    ... ]
    >>> model = MixtureRegressor(members, random_state=0).fit(X[:300], y[:300])
    >>> model.predict_interval(X[300:], coverage=0.9).shape
    (142, 2)
    >>> bool(model.out_of_fold_crps_["difference"].min() >= 0)
    True
    """

    def __init__(
        self,
        estimators: list[tuple[str, Any]] | None = None,
        *,
        weights: Literal["crps", "equal"] | ArrayLike = "crps",
        combine: Literal["linear", "quantiles"] = "linear",
        recalibrator: Any = "auto",
        cv: Any = 5,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimators = estimators
        self.weights = weights
        self.combine = combine
        self.recalibrator = recalibrator
        self.cv = cv
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---------------------------------------------------------------------------- parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with the members by name if `deep`.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the members, and their parameters as ``name__parameter``.

        Returns
        -------
        params : dict
            Parameter values by name.
        """
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, members and parameters of members.

        Parameters
        ----------
        **params : dict
            Values by name. The name of a member sets this member. The value "drop" excludes the member.
            ``name__parameter`` sets a parameter of a member.

        Returns
        -------
        self : object
            The same regressor.
        """
        self._set_params("estimators", **params)
        return self

    def _members(self) -> dict[str, Any]:
        return named_members(self._pairs(), self._validate_names)

    def _pairs(self) -> Any:
        return default_estimators() if self.estimators is None else self.estimators

    def _given_weights(self) -> FloatArray | None:
        """Return the given weights of the members that are not dropped, or None if weights are estimated."""
        if isinstance(self.weights, str):
            check_option(self.weights, "weights", ("crps", "equal"))
            m = len(self._members())
            return None if self.weights == "crps" else np.full(m, 1.0 / m)
        weights = check_finite(as_float_array(self.weights, "weights"), "weights")
        pairs = self._pairs()
        if weights.shape != (len(pairs),):
            raise ValueError(
                f"`weights` must have shape ({len(pairs)},), one per member, got {weights.shape}."
            )
        check_non_negative(weights, "weights")
        weights = weights[[not is_dropped(member) for _, member in pairs]]
        if not weights.sum() > 0:
            raise ValueError("`weights` must have a positive sum over the members, got only zeros.")
        return np.asarray(weights / weights.sum())

    def _n_tasks(self) -> int:
        return len(self._members())

    def _is_calibrated(self) -> bool:
        return self._recalibrator() is not None

    def _recalibrator(self) -> Any:
        if not isinstance(self.recalibrator, str):
            return self.recalibrator
        estimated = isinstance(self.weights, str) and self.weights == "crps"
        return IsotonicRecalibrator(smooth=True) if estimated else None

    def _fit_recalibrator(self, dist: Distribution, data: TrainingData, rows: IntArray) -> Any:
        """Return the fitted recalibrator.

        It is None if there is no recalibrator, or if there are too few rows for "auto".
        """
        recalibrator = self._recalibrator()
        is_auto = isinstance(self.recalibrator, str)
        if recalibrator is None or (is_auto and data.independent_rows(rows) < _MIN_RECALIBRATION_ROWS):
            return None
        with few_rows_reported():
            return fit_recalibrator(recalibrator, dist, data, rows)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        """Check the arguments of ``fit``.

        The attribute ``params`` holds the fit parameters of each member.
        """
        members = self._members()
        for name, member in members.items():
            with note_fold(f"member {name!r}"):
                check_wrapped(member)
        if not routing_enabled():
            data = read_training(self, X, y, sample_weight, fit_params, caller, route_weight=False)
            weight = data.sample_weight
            return replace(
                data,
                params={
                    name: {} if weight is None else weight_params_for(member, weight)
                    for name, member in members.items()
                },
            )
        data = read_training(self, X, y, sample_weight, {}, caller, route_weight=False)
        routed = process_routing(self, caller, **data.metadata, **fit_params)
        params = {name: dict(routed[name].fit) for name in members}
        return replace(data, params=params, groups=routed_groups(routed))

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._check_options()
        given = self._given_weights()
        fold_seed, member_seeds = self._seeds()
        if given is None or self._recalibrator() is not None:
            self._learn(self._folds(data, fold_seed), member_seeds, data, progress)
        else:
            self._fit_members(None, member_seeds, data, progress)
            self.weights_, self.recalibrator_ = given, None
            if hasattr(self, "out_of_fold_crps_"):  # set by an earlier fit
                del self.out_of_fold_crps_

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        self._check_options()
        fold_seed, member_seeds = self._seeds()
        folds = self._folds(data, fold_seed)
        rows = np.concatenate([test for _, test in folds])
        order = row_order(rows, len(data))  # raises unless each row is in one test fold
        masks = fold_masks([test for _, test in folds], at_least=2)
        pool, fold_weights = self._learn(folds, member_seeds, data, progress)
        parts: list[Distribution] = []
        for inside, weights in zip(masks, fold_weights, strict=True):
            dist = pool.forecast(weights, inside)
            recalibrator = self._fit_recalibrator(pool.forecast(weights, ~inside), data, rows[~inside])
            parts.append(dist if recalibrator is None else recalibrator.transform(dist))
        return concat(parts)[order]

    def _check_options(self) -> None:
        check_option(self.combine, "combine", tuple(COMBINATIONS))
        check_recalibrator(self.recalibrator, auto=True)
        if self.estimators is None and not has_networks():
            warn_user(
                "The default `estimators` contain no networks, because torch or skorch is not installed. On "
                "many data sets, a pool without networks is less accurate. Install skuq[torch], or pass "
                "estimators=default_estimators() to avoid this warning.",
                UserWarning,
            )

    def _seeds(self) -> tuple[int, list[int]]:
        seeds = check_random_state(self.random_state).randint(MAX_SEED, size=1 + len(self._members()))
        return int(seeds[0]), seeds[1:].tolist()

    def _folds(self, data: TrainingData, seed: int) -> Folds:
        return split_rows(resolve_cv(self.cv, seed), data.X, data.y, data.groups)

    def _fit_members(
        self, folds: Folds | None, seeds: list[int], data: TrainingData, progress: Progress
    ) -> list[Any]:
        """Fit all members. Return the out-of-fold forecasts of each member, or None without folds."""
        members = {
            name: seeded_clone(member, seed, self.random_state)
            for (name, member), seed in zip(self._members().items(), seeds, strict=True)
        }
        fitted = fit_pool(
            members,
            data,
            folds,
            own_folds=has_random_folds(self.cv),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            progress=progress,
        )
        self.estimators_ = [one.estimator for one in fitted]
        by_name = dict(zip(members, self.estimators_, strict=True))
        self.named_estimators_ = Bunch(**{name: by_name.get(name, "drop") for name, _ in self._pairs()})
        return [one.out_of_fold for one in fitted]

    def _learn(
        self, folds: Folds, seeds: list[int], data: TrainingData, progress: Progress
    ) -> tuple[Pool, list[FloatArray]]:
        """Fit the members, the weights and the recalibrator. Return the pool and the weights of each fold."""
        tests = [test for _, test in folds]
        rows = np.concatenate(tests)
        effective_rows(data.sample_weight, len(data))  # raises for relative weights
        forecasts = self._fit_members(folds, seeds, data, progress)
        data.warn_of_few_rows(rows)
        pool = COMBINATIONS[self.combine].from_members(forecasts, data.y[rows], data.repetitions_of(rows))
        everything = np.ones(len(rows), dtype=bool)
        masks = fold_masks(tests)
        given = self._given_weights()
        if given is not None:
            self.weights_, fold_weights = given, [given] * len(masks)
        else:
            self.weights_ = pool.weights(everything)
            # if there is only one fold, all rows are used
            masks_of_others = [mask if mask.any() else everything for mask in other_rows_masks(tests)]
            fold_weights = [pool.weights(mask) for mask in masks_of_others]
        first = np.sort(np.unique(rows, return_index=True)[1])  # one forecast per row
        dist = pool.forecast(self.weights_, everything)[first]
        self.recalibrator_ = self._fit_recalibrator(dist, data, rows[first])
        self.out_of_fold_crps_ = self._out_of_fold_crps(pool, masks, fold_weights)
        return pool, fold_weights

    def _out_of_fold_crps(
        self, pool: Pool, masks: list[BoolArray], fold_weights: list[FloatArray]
    ) -> pd.DataFrame:
        pooled = np.empty(len(pool.y))
        for inside, weights in zip(masks, fold_weights, strict=True):
            pooled[inside] = pool.scores(weights, inside)
        scores = np.column_stack([pool.crps, pooled])
        crps, _ = mean_and_error(scores, pool.repetitions)
        difference, error = mean_and_error(scores - pooled[:, np.newaxis], pool.repetitions, ddof=1)
        columns = {"crps": crps, "difference": difference, "standard_error": error}
        return pd.DataFrame(columns, index=pd.Index([*self._members(), "pool"], name="forecast"))

    def _predict_dist(self, X: Any) -> Distribution:
        used = self.weights_ > 0
        members = [predict_dist(one, X) for one, use in zip(self.estimators_, used, strict=True) if use]
        dist = COMBINATIONS[self.combine].combine(members, self.weights_[used])
        if self.recalibrator_ is None:
            return dist
        recalibrated: Distribution = self.recalibrator_.transform(dist)
        return recalibrated

    # ------------------------------------------------------------------------- scikit-learn

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing: ``groups`` for the splitter, other metadata for the members' ``fit``.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        return router_for(self, **{name: one for name, one in self._pairs() if not is_dropped(one)})

    def __sklearn_tags__(self) -> Tags:
        """Return the tags. An input tag is set if all members have this tag."""
        tags = super().__sklearn_tags__()
        if self.estimators is None:  # this branch avoids the import of torch
            tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
            return tags
        try:
            members = [get_tags(one) for _, one in self.estimators if not is_dropped(one)]
        except Exception:  # a member may have no tags; `fit` checks members
            return tags
        tags.input_tags.allow_nan = all(one.input_tags.allow_nan for one in members)
        tags.input_tags.sparse = all(one.input_tags.sparse for one in members)
        tags.input_tags.pairwise = all(one.input_tags.pairwise for one in members)
        tags.non_deterministic = any(one.non_deterministic for one in members)
        return tags
