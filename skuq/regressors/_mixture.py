"""A pool of several predictive distributions, with the weights of the least CRPS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.utils import Bunch, Tags, get_tags
from sklearn.utils.metadata_routing import process_routing

from skuq._few_rows import few_rows_reported
from skuq._sklearn_compat import BaseComposition, routing_enabled
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_non_negative,
    check_option,
    check_random_state,
    effective_rows,
)
from skuq.distributions import Distribution, concat
from skuq.prediction import predict_dist
from skuq.prediction._cross_fit import (
    fold_masks,
    has_random_folds,
    other_rows_masks,
    resolve_cv,
    row_order,
    split_rows,
)
from skuq.prediction._fit_metadata import routed_groups, router_for, weight_params_for
from skuq.prediction._random import MAX_SEED, seeded_clone
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._fit_inputs import TrainingData, read_training
from skuq.regressors._pool.criterion import COMBINATIONS, Pool, mean_and_error
from skuq.regressors._pool.members import fit_pool, is_dropped, named_members
from skuq.regressors._progress import Progress
from skuq.regressors._recalibrated import check_recalibrator, fit_recalibrator

__all__ = ["MixtureRegressor"]

Folds = list[tuple[IntArray, IntArray]]


class MixtureRegressor(BaseComposition, BaseUncertaintyRegressor):
    r"""A pool of several predictive distributions, with the weights of the least CRPS.

    Which of several models is best differs from data set to data set. The pool is about as good as the best
    of its members, and better where they err differently, at the cost of all. Prefer a single model where
    fitting or predicting must be fast, and `RecalibratedRegressor` to correct one.

    Parameters
    ----------
    estimators : list of (str, estimator)
        Members by name, each one that `predict_dist` takes; cloned. Wrap a plain regressor in
        `UncertaintyRegressor`. A member is left out by ``set_params(name="drop")``.
        `~skuq.model_selection.default_estimators` is a list to begin with.
    weights : {"crps", "equal"} or array-like of shape (m,), default="crps"
        Weights of the m members.

        - "crps": those with which the pool's out-of-fold forecasts have the least CRPS.
        - "equal": the same for all.
        - array: non-negative weights, rescaled to sum to one. Those of dropped members are ignored.
    combine : {"linear", "quantiles"}, default="linear"
        What is averaged.

        - "linear": the distribution functions, which gives a `~skuq.distributions.Mixture`. It is wider than
          its members, by as much as they disagree.
        - "quantiles": the quantile functions, so that widths are averaged too. Prefer it for members
          that are calibrated or too wide, and that disagree about the location by chance alone. Tail mass
          at infinity, which `~skuq.distributions.ConformalPredictive` has, is left out of the average.
    recalibrator : recalibrator or None, default=None
        Cloned, and fitted to the pool's out-of-fold forecasts. None leaves the pool as it is, somewhat too
        wide; prefer ``IsotonicRecalibrator(smooth=True)`` unless uncertainty is to be decomposed.
    cv : int, splitter or iterable of (train, test), default=5
        Folds. With an int k, ``KFold(k, shuffle=True)``, they are those of members without out-of-sample
        forecasts of their own; skuq's regressors make theirs by `fit_transform`. A splitter, which
        may keep groups together or time in order, gives the folds of all members; any splitter will do for
        `fit`.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job fits a member; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        An integer makes everything reproducible: folds, and estimators without a seed of their own.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    estimators_ : list
        Members that are not dropped, fitted to all rows.
    named_estimators_ : Bunch
        The same by name; "drop" for those that are dropped.
    weights_ : ndarray of shape (m,)
        Weights of ``estimators_``; they sum to 1. Members of weight 0 are not used in predictions.
    recalibrator_ : recalibrator or None
        The fitted recalibrator.
    out_of_fold_crps_ : DataFrame
        A row for each member and for the "pool", before recalibration, with weights from the rows of other
        folds (with a single fold, from its own): the mean ``"crps"`` of out-of-fold forecasts, in the units
        of y, its ``"difference"`` from the pool's, positive where the pool is better, and the
        ``"standard_error"`` of that. A row that is tested several times counts once. Only where there are
        out-of-fold forecasts: not with ``weights`` that are given and no recalibrator.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    skuq.model_selection.default_estimators : A list of members for any table of numbers.
    skuq.distributions.Mixture : The distribution of a linear pool.
    sklearn.ensemble.VotingRegressor : Point predictions of several models, averaged.

    Notes
    -----
    The mean CRPS of a linear pool with weights :math:`w` is quadratic in them,

    .. math:: f(w) = \sum_i w_i c_i - \frac12 \sum_{ij} w_i w_j d_{ij},

    with :math:`c_i` the mean CRPS of member i, and :math:`d_{ij}` the mean over rows of the integral of
    :math:`(F_i - F_j)^2`, the squared difference of the distribution functions. The integral is
    :math:`E|X_i - X_j| - \frac12 E|X_i - X_i'| - \frac12 E|X_j - X_j'|` [1]_. The
    weights solve this quadratic programme exactly. The average of quantile functions has a convex CRPS,
    whose minimum is found to a relative 1e-5 on 50 levels.

    Weights estimated on few rows follow chance. They are pulled towards equal ones :math:`e` as far as the
    decrease g of the CRPS from these to the least may be chance, by the positive-part rule of James and Stein
    with the standard error s of g: the weights are :math:`e + \max(0, 1 - s^2 / g^2) (w - e)`. As a few rows
    with extreme scores may make up both g and s, the same is computed with the differences of scores clipped
    at the 98 % quantile of their sizes, or at the second largest, and the larger share holds.

    A linear pool of calibrated forecasts is over-dispersed: its intervals cover too often [2]_, [3]_, the
    more so the more the members disagree. ``recalibrator=IsotonicRecalibrator(smooth=True)`` corrects that,
    from the same out-of-fold forecasts as the weights: on 21 data sets, 90 % intervals of the pool of
    `~skuq.model_selection.default_estimators` cover 93 % of the test rows, and 91 % with it.

    Fewer than 12 rows, or groups of rows, give a `SmallSampleWarning`.

    ``predict_dist(X).epistemic()`` exists for linear pools without recalibrator whose members of positive
    weight all separate their uncertainty. By the law of total variance it includes the spread between the
    members.

    `fit_transform` gives each row the out-of-fold forecasts of its members, pooled by weights and
    recalibrated by a recalibrator from the other folds. It needs a ``cv`` that tests every row once.

    Cost: with an int for ``cv``, one `fit_transform` of each member that is a skuq regressor, and
    ``cv + 1`` fits of others. Members that have it out of bag need no further fit for it; a forest with large
    leaves takes time in proportion to the square of the number of rows, see `ForestDistributionRegressor`.
    Given weights without a recalibrator cost one fit a member. Memory for the weights of n rows and m members
    is :math:`O(n m^2)` with "linear" and :math:`O(50 n m)` with "quantiles". They are computed for
    each fold and for all rows, which with "quantiles" takes about 30 ms each for 600 rows and two members.

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
        estimators: list[tuple[str, Any]],
        *,
        weights: Literal["crps", "equal"] | ArrayLike = "crps",
        combine: Literal["linear", "quantiles"] = "linear",
        recalibrator: Any = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimators = estimators
        self.weights = weights
        self.combine = combine
        self.recalibrator = recalibrator
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---------------------------------------------------------------------------- parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with `deep` also the members by name and their parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the members, and as ``name__parameter`` their parameters.

        Returns
        -------
        params : dict
            Values by name.
        """
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, members by name, and parameters of members as ``name__parameter``.

        Parameters
        ----------
        **params : dict
            Values by name; a member set to "drop" is left out.

        Returns
        -------
        self : object
            The same regressor.
        """
        self._set_params("estimators", **params)
        return self

    def _members(self) -> dict[str, Any]:
        """Return the checked members that are not dropped."""
        return named_members(self.estimators, self._validate_names)

    def _given_weights(self) -> FloatArray | None:
        """Return the checked weights of the members that are not dropped, or None where they are learnt."""
        if isinstance(self.weights, str):
            check_option(self.weights, "weights", ("crps", "equal"))
            m = len(self._members())
            return None if self.weights == "crps" else np.full(m, 1.0 / m)
        weights = check_finite(as_float_array(self.weights, "weights"), "weights")
        if weights.shape != (len(self.estimators),):
            raise ValueError(
                f"`weights` must have shape ({len(self.estimators)},), one a member, got {weights.shape}."
            )
        check_non_negative(weights, "weights")
        weights = weights[[not is_dropped(member) for _, member in self.estimators]]
        if not weights.sum() > 0:
            raise ValueError("`weights` must have a positive sum over the members, got only zeros.")
        return np.asarray(weights / weights.sum())

    # ------------------------------------------------------------------------------- fitting

    def _n_tasks(self) -> int:
        return len(self._members())

    def _is_calibrated(self) -> bool:
        return self.recalibrator is not None

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        """Check the arguments of ``fit``; ``params`` has those of each member's ``fit``, by its name."""
        members = self._members()
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
        if given is None or self.recalibrator is not None:
            self._learn(self._folds(data, fold_seed), member_seeds, data, progress)
        else:
            self._fit_members(None, member_seeds, data, progress)
            self.weights_, self.recalibrator_ = given, None
            if hasattr(self, "out_of_fold_crps_"):  # of an earlier fit
                del self.out_of_fold_crps_

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        self._check_options()
        fold_seed, member_seeds = self._seeds()
        folds = self._folds(data, fold_seed)
        rows = np.concatenate([test for _, test in folds])
        order = row_order(rows, len(data))  # raises unless each row is tested once
        masks = fold_masks([test for _, test in folds], at_least=2)
        pool, fold_weights = self._learn(folds, member_seeds, data, progress)
        parts = []
        for inside, weights in zip(masks, fold_weights, strict=True):
            dist = pool.forecast(weights, inside)
            if self.recalibrator is not None:
                others = pool.forecast(weights, ~inside)
                with few_rows_reported():
                    fitted = fit_recalibrator(self.recalibrator, others, data, rows[~inside])
                dist = fitted.transform(dist)
            parts.append(dist)
        return concat(parts)[order]

    def _check_options(self) -> None:
        check_option(self.combine, "combine", tuple(COMBINATIONS))
        check_recalibrator(self.recalibrator)

    def _seeds(self) -> tuple[int, list[int]]:
        """Return the seed of the folds and one for each member, drawn before anything runs."""
        seeds = check_random_state(self.random_state).randint(MAX_SEED, size=1 + len(self._members()))
        return int(seeds[0]), seeds[1:].tolist()

    def _folds(self, data: TrainingData, seed: int) -> Folds:
        return split_rows(resolve_cv(self.cv, seed), data.X, data.y, data.groups)

    def _fit_members(
        self, folds: Folds | None, seeds: list[int], data: TrainingData, progress: Progress
    ) -> list[Any]:
        """Fit all members, and return their out-of-fold forecasts, or None for each without folds."""
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
            on_member=progress.reporter("member"),
        )
        self.estimators_ = [one.estimator for one in fitted]
        by_name = dict(zip(members, self.estimators_, strict=True))
        self.named_estimators_ = Bunch(**{name: by_name.get(name, "drop") for name, _ in self.estimators})
        return [one.out_of_fold for one in fitted]

    def _learn(
        self, folds: Folds, seeds: list[int], data: TrainingData, progress: Progress
    ) -> tuple[Pool, list[FloatArray]]:
        """Fit members, weights and recalibrator; return the pool and each fold's weights from the others."""
        tests = [test for _, test in folds]
        rows = np.concatenate(tests)
        effective_rows(data.sample_weight, len(data))  # raises where weights do not count repetitions
        forecasts = self._fit_members(folds, seeds, data, progress)
        data.warn_of_few_rows(rows)
        pool = COMBINATIONS[self.combine].of(forecasts, data.y[rows], data.repetitions_of(rows))
        everything = np.ones(len(rows), dtype=bool)
        masks = fold_masks(tests)
        given = self._given_weights()
        if given is not None:
            self.weights_, fold_weights = given, [given] * len(masks)
        else:
            self.weights_ = pool.weights(everything)
            # where no fold tests other rows, there are none to learn from
            masks_of_others = [mask if mask.any() else everything for mask in other_rows_masks(tests)]
            fold_weights = [pool.weights(mask) for mask in masks_of_others]
        self.recalibrator_ = None
        if self.recalibrator is not None:
            first = np.sort(np.unique(rows, return_index=True)[1])  # one forecast of each row
            dist = pool.forecast(self.weights_, everything)[first]
            with few_rows_reported():
                self.recalibrator_ = fit_recalibrator(self.recalibrator, dist, data, rows[first])
        self.out_of_fold_crps_ = self._out_of_fold_crps(pool, masks, fold_weights)
        return pool, fold_weights

    def _out_of_fold_crps(
        self, pool: Pool, masks: list[BoolArray], fold_weights: list[FloatArray]
    ) -> pd.DataFrame:
        """Return the mean scores of members and pool, and their differences with standard errors."""
        pooled = np.empty(len(pool.y))
        for inside, weights in zip(masks, fold_weights, strict=True):
            pooled[inside] = pool.scores(weights, inside)
        scores = np.column_stack([pool.crps, pooled])
        crps, _ = mean_and_error(scores, pool.repetitions)
        difference, error = mean_and_error(scores - pooled[:, np.newaxis], pool.repetitions, ddof=1)
        columns = {"crps": crps, "difference": difference, "standard_error": error}
        return pd.DataFrame(columns, index=pd.Index([*self._members(), "pool"], name="forecast"))

    # ---------------------------------------------------------------------------- prediction

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
        """Return the routing of metadata: ``groups`` to the splitter, the rest to the members' ``fit``.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        return router_for(self, **{name: one for name, one in self.estimators if not is_dropped(one)})

    def __sklearn_tags__(self) -> Tags:
        """Return the tags, of which those of the input hold for all members: X is passed on as it is."""
        tags = super().__sklearn_tags__()
        try:
            members = [get_tags(one) for _, one in self.estimators if not is_dropped(one)]
        except Exception:  # estimators of other packages may have no tags; what is no estimator raises in fit
            return tags
        tags.input_tags.allow_nan = all(one.input_tags.allow_nan for one in members)
        tags.input_tags.sparse = all(one.input_tags.sparse for one in members)
        tags.input_tags.pairwise = all(one.input_tags.pairwise for one in members)
        tags.non_deterministic = any(one.non_deterministic for one in members)
        return tags
