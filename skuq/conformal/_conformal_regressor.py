"""Conformal prediction intervals for any regressor, calibrated on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal, Self

import numpy as np

from skuq._fitting.fit_wrapped import in_target_units
from skuq._fitting.seeds import Progress, seeded_clone
from skuq._fitting.training_data import TrainingData, check_y
from skuq._typing import ArrayLike, FloatArray, IntArray, SupportLike
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_integer,
    check_number,
    check_option,
    check_random_state,
    check_same_rows,
    check_single_coverage,
    check_unused,
    effective_rows,
)
from skuq.conformal._adaptive import SequenceConformal
from skuq.conformal._base import BaseConformalRegressor, check_groups_need_cv, fit_held_out, single_split
from skuq.conformal._intervals import ObservedRows, SplitConformal
from skuq.conformal._scores import SCORES
from skuq.conformal._split import GroupsAndShift
from skuq.distributions import Distribution


class ConformalRegressor(BaseConformalRegressor):
    r"""Prediction intervals with guaranteed coverage for any regressor, calibrated on held-out rows.

    The intervals are computed from the ranks of the errors on calibration rows. These rows are not used to
    fit the estimator. The guarantee assumes only that new rows and calibration rows are exchangeable. Prefer
    `CrossConformalRegressor` if there are few rows. Prefer `~skuq.regressors.UncertaintyRegressor` if you
    need a smooth density or finite tails more than a guarantee. `skuq.conformal.ConformalRecalibrator` is an
    alternative for a Pipeline. It ranks out-of-fold errors, so it does not hold out rows. Its guarantee is
    only approximate.

    Parameters
    ----------
    estimator : estimator
        Any regressor; cloned. "normalized" and "cqr" need a predictive distribution, for example from
        `~skuq.regressors.UncertaintyRegressor`, `~skuq.regressors.ResidualRegressor` or
        `~skuq.regressors.MultiQuantileRegressor`. A FrozenEstimator is not refitted: all rows passed to `fit`
        are calibration rows. Pass rows that the frozen model was not trained on.
    method : {"split", "normalized", "cqr", "pit"}, default="split"
        - "split" ranks the residuals. All intervals have the same width.
        - "normalized" ranks the residuals divided by the predicted standard deviations. The width of an
          interval is proportional to the predicted standard deviation. Prefer "normalized" if the noise
          varies with x. The coverage is as constant as the predicted standard deviations are accurate.
        - "cqr" (conformalized quantile regression) widens or narrows the interval between two predicted
          quantiles. The ``levels`` of a `~skuq.regressors.MultiQuantileRegressor` should contain the levels
          of both quantiles, such as 0.05 and 0.95 for a coverage of 0.9. Otherwise the quantiles are
          extrapolated into the assumed tails.
        - "pit" ranks the distances of F(y) from 1/2, where F is the predicted distribution function. The
          intervals are the central intervals of `predict_dist`, which returns F with recalibrated probability
          levels. Prefer "pit" if the shape of the distribution depends on x and the predicted tails are
          accurate. "pit" does not support ``density_ratio`` or `partial_fit`, and it does not support
          forecasts that consist of quantiles at a few levels.
    symmetric : bool, default=True
        Whether one score calibrates both bounds. With False, each bound has its own score and is calibrated
        for half of the miscoverage. The intervals are then asymmetric if the errors are skewed. False needs
        about twice as many calibration rows: at least 19 for a coverage of 90 %.
    cv : "last", splitter or iterable of (train, test), default=None
        With None, the calibration rows are drawn at random. With "last", the last rows are the calibration
        rows. Use "last" for rows in chronological order. In a sequence, random calibration rows lie between
        training rows, and their errors are smaller than the errors of later rows. A splitter or an iterable
        must give exactly one split into training and calibration rows, for example ``GroupShuffleSplit(1)``.
        Must be None with a FrozenEstimator.
    held_out_size : float or int, default=0.25
        Share or number of rows that are held out for calibration. Do not set it if ``cv`` is a splitter or if
        the estimator is a FrozenEstimator.
    group_by : callable, column name or None, default=None
        Labels of groups. The coverage is guaranteed within each group (Mondrian conformal prediction). A
        callable gets X of n rows and returns n labels. A name is the name of a column of the DataFrame X. The
        estimator also gets this column as a feature.
    rare_groups : {"raise", "pool"}, default="raise"
        Treatment of groups with fewer than ``min_group_size`` calibration rows. "raise" raises a ValueError.
        "pool" calibrates such a group by the scores of all groups. Only used with ``group_by``.
    min_group_size : int, default=10
        A group with fewer calibration rows is rare. Only used with ``group_by``.
    density_ratio : callable or None, default=None
        Density ratio for covariate shift. The callable gets X of n rows and returns n weights: the density of
        x in the rows to be predicted, divided by the density of x in the rows passed to `fit`. A constant
        factor in the weights has no effect.
    basis : callable, column name, list of column names or None, default=None
        Functions of x for which the coverage is guaranteed: the coverage holds on average over the rows,
        weighted by any non-negative linear combination of these functions. For overlapping groups, use the
        indicators of the groups as functions. A callable gets X of n rows and returns an array of shape (n,
        d) or a DataFrame. Names are columns of the DataFrame X. A column of labels is replaced by one
        indicator per label. A constant function is always added. Must be None with ``group_by`` or
        ``density_ratio``.
    adapt : {"aci", "dtaci"}, default="aci"
        Method by which `partial_fit` adapts the intervals to new rows.

        - "aci" (adaptive conformal inference) changes the target miscoverage by a fixed step ``gamma``.
        - "dtaci" (dynamically tuned) combines eight steps from 0.001 to 0.128, weighted by their recent loss.
          Prefer "dtaci" if you do not know the step, or if the speed of the drift changes.
    gamma : float, default=0.005
        Step size of adaptive conformal inference. See `partial_fit`. With a larger step, the intervals follow
        a drift faster and vary more. With 0, `partial_fit` only adds calibration rows. If one call of
        `partial_fit` contains 20 rows whose targets lie outside their intervals, it lowers the target
        miscoverage by nearly 20 ``gamma``. Only used with "aci".
    window : int or None, default=None
        Number of latest rows that remain calibration rows after a call of `partial_fit`. None keeps all rows.
        A window w bounds the memory: 2 w predictions are stored with "cqr", and w scores with the other
        methods. Request each coverage from the start: a coverage that is first requested after a row of
        `partial_fit` has left the window adapts to the rows in the window only. Without a window, the result
        does not depend on when a coverage is first requested.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are clipped but not rounded.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each fit is one job. Only `fit_transform` needs several fits. The
        results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the held-out rows, and of estimators without a seed of their own. An integer makes results
        reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model, which gives the point predictions.
    calibration_rows_ : ndarray
        Indices of the calibration rows in the arrays passed to `fit`, in ascending order.
    n_calibration_ : float
        Current number of calibration rows, or the sum of their weights.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    CrossConformalRegressor : Conformal intervals that are calibrated on all rows, with folds or resamples.
    skuq.regressors.UncertaintyRegressor : A predictive distribution for any regressor.
    skuq.conformal.ConformalRecalibrator : Conformal intervals from predicted distributions.
    skuq.recalibration.OnlineRecalibrator : Distributions that adapt to a sequence.
    skuq.monitoring.ExchangeabilityMonitor : Test of the assumption that rows are exchangeable.
    ConformalPredictive : The distribution that `predict_dist` returns.

    Notes
    -----
    The score of a row is

    .. math:: E = \max(l(x) - y, \; y - u(x)) / s(x)

    with the band [l(x), u(x)] and the scale s(x) ([1]_, eq. 6). For "cqr", the band is the predicted interval
    with the nominal coverage. For the other methods, both ends of the band are the point prediction. For
    "normalized", the scale is the predicted standard deviation. For the other methods, the scale is 1. The
    interval is [l - s q, u + s q], where q is the :math:`\lceil (n + 1) c \rceil`-th smallest of the n
    calibration scores. With ``symmetric=False``, the two differences in the formula are ranked separately,
    each at the level (1 + c)/2 ([1]_, theorem 2). If the bounds cross, both bounds are the point halfway
    between them. For "pit", the score is :math:`|F(y) - 1/2|` ([5]_, sec. 3). For "pit", the quantile of the
    scores is interpolated between the scores of ranks k and k + 1. The interval may therefore be slightly
    longer than the interval for rank k.

    If rows are exchangeable, a new value is covered with a probability of at least c, for any n. Without
    ties, the probability is at most c + 1/(n + 1), or c + 2/(n + 1) with ``symmetric=False``. This
    probability is an average over calibration sets. The coverage given one calibration set varies: it has the
    distribution Beta(k, n + 1 - k), where k is the rank of q. With ``symmetric=False`` and many equal
    targets, a target may lie just outside its bound due to rounding. With ``group_by``, the guarantee holds
    within each group, and n is the number of calibration rows of the group. If n is less than c/(1 - c), the
    bounds are infinite and a `SmallSampleWarning` is issued.

    *Covariate shift.* The weight of each calibration score is the density ratio of its row. The weight of the
    new row is its own density ratio ([2]_, eq. 7). The coverage then holds under the new distribution of X,
    provided that the distribution of y given x does not change. The guarantee holds only if the density ratio
    is exact.

    *Overlapping groups.* With ``basis``, the width is the result of a quantile regression of the scores on d
    functions :math:`\varphi(x)` ([4]_, sec. 2 and 4). For every combination :math:`w(x) = \beta^\top
    \varphi(x) \ge 0`, the coverage weighted by w is at least c. Hence the coverage holds in each group whose
    indicator is one of the functions, and under each covariate shift with density ratio w. The coverage
    exceeds c by about d/n at most. Use at least 100 calibration rows per function; with fewer rows, a
    `SmallSampleWarning` is issued. A row has infinite bounds if the calibration rows do not determine its
    width, for example if its label does not occur in the calibration rows. With the indicators of disjoint
    groups, the intervals equal the intervals with ``group_by``.

    *Sequences.* `partial_fit` implements adaptive conformal inference. After each row, it changes the target
    miscoverage by ``gamma`` times the difference between nominal and observed miscoverage ([3]_, eq. 2). For
    every sequence of T rows, with any drift, the share of missed rows differs from :math:`\alpha = 1 - c` by
    at most :math:`(\max(\alpha, 1 - \alpha) + \gamma) / (\gamma T)` ([3]_, prop. 4.1). For this bound to
    hold, the interval must be infinite if the target miscoverage is 0, and empty if the target miscoverage is
    1. An empty interval is returned as one point, its center. The row then counts as missed even if y equals
    this point. If one call contains several rows, the method assumes that all these rows were predicted
    before any of their targets was observed. The step size in the bound is then ``gamma`` times the number of
    rows in the call. With "cqr", the predicted band always has the nominal coverage. With ``group_by``, all
    groups have the same target miscoverage.

    "dtaci" averages the target miscoverages of its experts by the weights of [6]_ (algorithm 2, with an
    interval length of 500 steps). Its regret relative to the best sequence of target miscoverages is bounded.
    The share of missed rows is not bounded for every sequence. With ``symmetric=False``, each interval bound
    has its own score quantile and half of the miscoverage.

    Cost: one fit, O(n log n) time to calibrate, and O((n + m) log n) time to predict m rows. Each call of
    `partial_fit` needs O(n) time, or O(n log n) time with ``group_by`` or if rows leave the ``window``, and
    updates each coverage that was requested before. A coverage that is requested later needs one update per
    earlier call in the ``window``. With ``basis``, each coverage needs one quantile regression, and O(n d^2)
    time per predicted row. `predict_dist` then computes the bounds of 11 coverages.

    References
    ----------
    .. [1] Y. Romano, E. Patterson, E. Candès, "Conformalized quantile regression", NeurIPS 2019,
       https://arxiv.org/abs/1905.03222.
    .. [2] R. J. Tibshirani, R. Foygel Barber, E. J. Candès, A. Ramdas, "Conformal prediction under
       covariate shift", NeurIPS 2019, https://arxiv.org/abs/1904.06019.
    .. [3] I. Gibbs, E. Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
       https://arxiv.org/abs/2106.00170.
    .. [4] I. Gibbs, J. J. Cherian, E. J. Candès, "Conformal prediction with conditional guarantees",
       Journal of the Royal Statistical Society B 87, 2025, https://arxiv.org/abs/2305.12616.
    .. [5] V. Chernozhukov, K. Wüthrich, Y. Zhu, "Distributional conformal prediction", PNAS 118, 2021,
       https://doi.org/10.1073/pnas.2107794118.
    .. [6] I. Gibbs, E. J. Candès, "Conformal inference for online prediction with arbitrary distribution
       shifts", Journal of Machine Learning Research 25, 2024, https://arxiv.org/abs/2208.08401.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.conformal import ConformalRegressor
    >>> from skuq.regressors import ResidualRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, size=(2000, 1))
    >>> y = 3 * X[:, 0] + (0.1 + X[:, 0]) * rng.normal(size=2000)
    >>> model = ConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> np.diff(model.predict_interval([[0.1], [0.9]])).ravel().round(1)  # all widths are equal
    array([2.2, 2.2])
    >>> adaptive = ConformalRegressor(ResidualRegressor(LinearRegression()), "normalized", random_state=0)
    >>> adaptive.fit(X, y).predict_interval([[0.1], [0.9]], coverage=[0.5, 0.9]).shape
    (2, 2, 2)
    >>> np.diff(adaptive.predict_interval([[0.1], [0.9]])).ravel().round()
    array([1., 3.])
    """

    _conformal: SplitConformal

    def __init__(
        self,
        estimator: Any,
        method: Literal["split", "normalized", "cqr", "pit"] = "split",
        *,
        symmetric: bool = True,
        cv: Any = None,
        held_out_size: float | int = 0.25,
        group_by: Callable[[Any], Any] | Hashable | None = None,
        rare_groups: Literal["raise", "pool"] = "raise",
        min_group_size: int = 10,
        density_ratio: Callable[[Any], ArrayLike] | None = None,
        basis: Callable[[Any], Any] | Hashable | list[Hashable] | None = None,
        adapt: Literal["aci", "dtaci"] = "aci",
        gamma: float = 0.005,
        window: int | None = None,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.symmetric = symmetric
        self.cv = cv
        self.held_out_size = held_out_size
        self.group_by = group_by
        self.rare_groups = rare_groups
        self.min_group_size = min_group_size
        self.density_ratio = density_ratio
        self.basis = basis
        self.adapt = adapt
        self.gamma = gamma
        self.window = window
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        check_groups_need_cv(self.cv, fit_params)
        return super()._read(X, y, sample_weight, fit_params, caller)

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        split_seed, model_seed = self._draw_seeds()
        method = check_option(self.method, "method", tuple(SCORES))
        score = SCORES[method](check_option(self.symmetric, "symmetric", (True, False)))
        options = GroupsAndShift.from_params(self)
        adapt = check_option(self.adapt, "adapt", ("aci", "dtaci"))
        step = check_number(self.gamma, "gamma")
        if step < 0:
            raise ValueError(f"`gamma` must be non-negative, got {step:g}.")
        if adapt == "dtaci":
            remedy = "The method 'dtaci' chooses its step from a grid."
            check_unused(self, ("gamma",), "with adapt='dtaci'", remedy)
        window = None if self.window is None else check_integer(self.window, "window")
        self._adaptation = None if adapt == "dtaci" else step, window
        if score.maps_levels:
            remedy = "All rows have the same recalibrated probability levels. Use method 'normalized'."
            check_unused(self, ("density_ratio",), "with method 'pit'", remedy)
        score.check_estimator(self.estimator)
        effective_rows(data.sample_weight, len(data))  # raises for relative weights
        several = (
            "For several folds, use CrossConformalRegressor, or RecalibratedRegressor(estimator, "
            "ConformalRecalibrator())."
        )
        split = single_split(self, data, split_seed, for_several=several)
        estimator = self.estimator
        if split is not None:
            estimator = seeded_clone(estimator, model_seed, self.random_state)
            if method == "split":
                estimator = in_target_units(estimator, data.y)
        held_out = fit_held_out(
            estimator,
            data,
            split,
            score.predict,
            verbose=self.verbose,
            on_fold=progress.reporter("model"),
        )
        rows = data.take(held_out.rows)
        weighted = options.rows(rows.X, predicted=False)
        observed = ObservedRows(weighted, held_out.prediction, rows.y, rows.repetitions)
        self._conformal = SplitConformal(held_out.model, score, options, observed)
        progress.done("calibration")
        self.estimator_ = held_out.model.estimator
        self.calibration_rows_ = held_out.rows

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        if self.cv is not None:
            raise ValueError(
                "`fit_transform` must predict every row out of fold, but `cv` is a single split, so some "
                "rows are never test rows. Use cv=None, or call `fit` and then `transform` with new rows."
            )
        return super()._fit_transform(data, progress)

    def _fit_and_test(self, data: TrainingData, progress: Progress) -> tuple[IntArray, Distribution]:
        if self.cv is None:
            return super()._fit_and_test(data, progress)
        self._fit(data, progress)
        rows = self.calibration_rows_
        return rows, self._conformal.dist(data.take(rows).X)

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Update the calibration with newly observed rows, using the method ``adapt``.

        The model is not refitted. The next intervals are wider after a missed row and narrower after a
        covered row. The new rows become calibration rows. Call `partial_fit` as soon as targets are observed.
        Pass one row, or all rows that were predicted together. `~skuq.monitoring.PendingForecasts` stores
        rows whose targets arrive late.

        To fit the model again from time to time, pass it as ``FrozenEstimator(model)`` and call
        ``model.fit``. The calibration continues, and the next rows are predicted by the new model.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of m rows
            Features of the rows, in time order.
        y : array-like of shape (m,)
            Observed targets.
        sample_weight : array-like of shape (m,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : object
            The regressor, with updated calibration.

        Raises
        ------
        NotFittedError
            If `fit` was not called before.
        ValueError
            If ``basis`` is set or ``method`` is "pit", because both need exchangeable rows. With
            ``rare_groups="raise"``, also if a group becomes too small because its rows are no longer in the
            ``window``. The calibration is not changed if an error is raised.
        """
        if self.method == "pit" or self.basis is not None:
            name, value = ("method", self.method) if self.method == "pit" else ("basis", self.basis)
            raise ValueError(
                f"`partial_fit` supports neither method 'pit' nor `basis`, got `{name}` {value!r}. Fit again "
                "with the new rows."
            )
        target, weight = self._read_observed(X, y, sample_weight)
        effective_rows(weight, len(target))  # raises for relative weights
        if not isinstance(self._conformal, SequenceConformal):
            self._conformal = SequenceConformal(self._conformal, *self._adaptation)
        self._conformal.observe(X, target, np.ones(len(target)) if weight is None else weight)
        return self

    def predict_p(
        self,
        X: Any,
        y: Any,
        *,
        coverage: float = DEFAULT_COVERAGE,
        random_state: int | np.random.RandomState | None = None,
    ) -> FloatArray:
        """Return the conformal p-value of each row, in chronological order.

        The p-value is the randomized rank of the score of a row among the scores of the calibration rows and
        of the earlier rows in `X`. For exchangeable rows, the p-values are independent and uniform. A small
        p-value means a large error. `skuq.monitoring.ExchangeabilityMonitor` tests whether the p-values are
        uniform. With ``group_by``, rows are ranked within their group.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of m rows
            Features of observed rows, in time order.
        y : array-like of shape (m,)
            Observed target.
        coverage : float, default=0.9
            Coverage at which "cqr" computes its scores. The other methods do not use it.
        random_state : int, RandomState instance or None, default=None
            Randomness of the ranks.

        Returns
        -------
        p_values : ndarray of shape (m,)
            In [0, 1].

        Raises
        ------
        ValueError
            With ``density_ratio``, ``basis`` or weighted calibration rows, because ranks are not defined for
            them.
        """
        self._check_new(X)
        check_unused(self, ("density_ratio", "basis"), "with `predict_p`", "Ranks have no weights.")
        target = check_y(y, self)
        check_same_rows(X, target)
        level = check_single_coverage(coverage, "coverage")
        return self._conformal.p_values(X, target, level, check_random_state(random_state))

    def predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distribution of each row.

        The coverage guarantee holds for the bounds of `predict_interval`. It does not always hold for the
        quantiles of this distribution.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        dist : Distribution of n rows
            In the units of y. "split" and "normalized" return a `ConformalPredictive`, or one per group with
            ``group_by``. "pit" returns the predicted distributions with recalibrated probability levels.
            "cqr", and all methods with ``basis``, return `Quantiles` that contain the bounds of many
            coverages. Bounds that cross are sorted. `partial_fit` changes only the bounds of
            `predict_interval`, not the levels of this distribution. Scorers use this distribution. To
            evaluate the bounds after `partial_fit`, pass the bounds to a metric.
        """
        return super().predict_dist(X)

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        return self._conformal.point_and_dist(X)
