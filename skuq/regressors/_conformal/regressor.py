"""Conformal prediction intervals for any regressor."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_coverage,
    check_integer,
    check_number,
    check_option,
    check_random_state,
    check_sample_weight,
)
from skuq.distributions import Distribution
from skuq.recalibration._mondrian import check_groups
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._conformal.cross import fit_cross
from skuq.regressors._conformal.settings import (
    CROSS_METHODS,
    SPLIT_METHODS,
    ConformalSettings,
    ConformalStrategy,
)
from skuq.regressors._conformal.split import SplitConformal, fit_split
from skuq.regressors._fit_inputs import TrainingData, check_y
from skuq.regressors._progress import Progress
from skuq.regressors._random import MAX_SEED

__all__ = ["ConformalRegressor"]


class ConformalRegressor(BaseUncertaintyRegressor):
    r"""Prediction intervals with guaranteed coverage, whatever the model and the noise.

    It answers which interval holds 90 % of new values when nothing is assumed but that new rows are
    like those of `fit`: the model's errors on rows it has not seen, ranked, say how far to reach.
    Prefer `UncertaintyRegressor` where a smooth density or finite tails are wanted more than a
    guarantee, and `skuq.recalibration.ConformalRecalibrator` behind a model in a Pipeline, where it
    ranks out-of-fold errors: no row is held out, and the guarantee is about right rather than exact.

    Parameters
    ----------
    estimator : estimator
        Any regressor; cloned. "normalized" and "cqr" need one that `predict_dist` takes, such as
        `UncertaintyRegressor`, `ResidualRegressor` or `MultiQuantileRegressor`. A FrozenEstimator is
        not refitted with "split", "normalized" and "cqr": all rows given to `fit` calibrate it, and
        must be new to it.
    method : {"split", "normalized", "cqr", "cv+", "jackknife+", "jackknife+ab"}, default="split"
        - "split" holds rows out and ranks residuals: intervals of one width.
        - "normalized" ranks residuals in units of the predicted standard deviation: intervals as wide
          as the model finds it hard. The choice where the noise varies.
        - "cqr" widens or narrows predicted quantile intervals (conformalized quantile regression). The
          ``levels`` of a `MultiQuantileRegressor` should hold the ends of the nominal coverage, 0.05
          and 0.95 for 0.9, or the band that is moved comes from tails that it assumes.
        - "cv+" holds nothing out: each row is predicted by the model of its fold. The choice for few rows.
        - "jackknife+" leaves out one row at a time: n fits.
        - "jackknife+ab" predicts each row by the bagged models that have not drawn it.
    symmetric : bool, default=True
        True uses one score for both bounds. False gives each bound its own, at half the miscoverage:
        intervals follow skewed errors, and it takes about twice as many rows, 19 for 90 %.
    cv : splitter or iterable of (train, test), or int, default=None
        With "cv+" the folds: None is 5, an int k is ``KFold(k, shuffle=True)``, and any splitter will
        do, time-ordered or repeated ones too. With "jackknife+ab" resamples and their left-out rows.
        With "split", "normalized" and "cqr" exactly one split into training and calibration rows, such
        as ``GroupShuffleSplit(1)`` or ``[(past, recent)]``; None takes ``calibration_size``.
    calibration_size : float or int, default=0.25
        Share or number of rows held out at random to calibrate, without ``cv``.
    n_estimators : int, default=50
        Resamples of "jackknife+ab", without ``cv``.
    aggregate : {"mean", "median"}, default="mean"
        How "jackknife+ab" joins the predictions of its models.
    group_by : callable, column name or None, default=None
        Groups of which each gets the guarantee by itself (Mondrian), with "split", "normalized" and
        "cqr". A callable takes X of n rows and returns n labels; a name is a column of the DataFrame X,
        which the estimator gets too.
    rare_groups : {"raise", "pool"}, default="raise"
        For a label that no calibration row has, or fewer than ``min_group_size``: a ValueError, or the
        scores of all groups together.
    min_group_size : int, default=10
        Number of calibration rows below which a group is rare. Only with ``group_by``.
    density_ratio : callable or None, default=None
        Under covariate shift: takes X of n rows and returns n weights, how much likelier each x is
        among the rows to be predicted than among those of `fit`, up to a constant. Only with "split",
        "normalized" and "cqr".
    gamma : float, default=0.005
        Step of adaptive conformal inference, see `partial_fit`: larger ones answer faster to a drift,
        with intervals that vary more. 0 adapts nothing but the scores. The step is that of one row:
        `partial_fit` with 20 rows that were all missed moves the aim by nearly 20 ``gamma``.
    window : int or None, default=None
        How many of the latest rows calibrate once `partial_fit` was called; None keeps all.
    block_size : int or None, default=None
        Rows predicted at a time by "jackknife+" and "jackknife+ab", of which each needs as many numbers
        as there are training rows; None chooses it by memory.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job is a fit; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        An integer makes everything reproducible: held-out rows, folds, resamples, and estimators
        without a seed of their own.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model that predicts points: that of the training rows, or of all rows where none are
        held out.
    calibration_rows_ : ndarray or None
        Numbers of the rows of `fit` that calibrate, in ascending order, with "split", "normalized" and
        "cqr".
    n_calibration_ : float
        How many rows calibrate now, weights counted.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    UncertaintyRegressor : A predictive distribution for any regressor.
    skuq.recalibration.ConformalRecalibrator : The same for a distribution that is there already.
    skuq.distributions.ConformalPredictive : What `predict_dist` returns.

    Notes
    -----
    *"split", "normalized", "cqr".* With the band [l(x), u(x)], which is the prediction itself or, for
    "cqr", the predicted interval of the nominal coverage, and the scale s(x), which is 1 or, for
    "normalized", the predicted standard deviation, the score of a row is

    .. math:: E = \max(l(x) - y, \; y - u(x)) / s(x)

    ([1]_, eq. 6 for the band) and the interval [l - s q, u + s q] with q the
    :math:`\lceil (n + 1) c \rceil`-th smallest of the n calibration scores. With
    ``symmetric=False`` both differences are ranked apart, at (1 + c)/2 each ([1]_, theorem 2). If the
    bounds cross, the interval is the point between them. For rows exchangeable with those of `fit`, at
    any n, a new value is covered with a probability of at least c and, ties aside, at most
    c + 1/(n + 1), or c + 2/(n + 1) with ``symmetric=False``. That is an average over the rows held out:
    one calibration set covers more, the next less, with the distribution Beta(k, n + 1 - k), k the rank
    above. By ``group_by`` it holds within each group, with its own n. Fewer rows than c/(1 - c) give
    infinite bounds and a `SmallSampleWarning`.

    *"cv+", "jackknife+", "jackknife+ab".* With :math:`\hat\mu_{-i}` the model that has not seen row i
    (that of its fold, of all rows but it, or the mean or median of the bagged models that have not
    drawn it) and :math:`R_i = |y_i - \hat\mu_{-i}(x_i)|`, the bounds are the
    :math:`\lfloor \alpha (n + 1) \rfloor`-th smallest of :math:`\hat\mu_{-i}(x) - R_i` and the
    :math:`\lceil (1 - \alpha)(n + 1) \rceil`-th smallest of :math:`\hat\mu_{-i}(x) + R_i`,
    :math:`\alpha = 1 - c` ([4]_, [5]_). With ``symmetric=False`` signed residuals take the place of both,
    at (1 + c)/2 each. A row that ``cv`` tests several times counts once; one that it never tests does
    not count. Bounds that cross, which happens at low coverage, are exchanged. Coverage, averaged over
    training sets too, is at least :math:`1 - 2 \alpha` for "jackknife+", less at most
    :math:`\sqrt{2/n}` for "cv+" ([4]_), and for "jackknife+ab" if the number of resamples is itself
    drawn from a binomial distribution ([5]_), which it is not here. In practice it is near c for stable
    models and above it for models that change much with the rows: single trees cover 97 to 99 % with
    "cv+" where 90 % is nominal, and 91 % with "jackknife+ab". Folds in the order of time are not
    exchangeable and carry no guarantee.

    *Covariate shift.* With weights w(x) proportional to the density ratio, scores count by their
    weight and the new row by its own ([2]_, eq. 7); coverage then holds under the new distribution of
    X if that of y given x is the same. The error of an estimated ratio is not accounted for.

    *Sequences.* `partial_fit` is adaptive conformal inference: after each row the miscoverage aimed
    at moves by ``gamma`` times nominal minus observed miscoverage ([3]_, eq. 2). On every sequence,
    whatever the drift, the share of misses in T rows differs from :math:`\alpha = 1 - c` by at most
    :math:`(\max(\alpha, 1 - \alpha) + \gamma) / (\gamma T)` ([3]_, prop. 4.1). For this the interval
    must sometimes be infinite (aiming at 0), and sometimes empty (at 1): then it is the point in its
    centre, which counts as a miss even if y falls on it. Rows given in one call count as predicted
    together, before any of them was seen; the step in the bound is then that of all of them. With
    "cqr" the predicted band stays that of the nominal coverage; with ``group_by`` all groups share one aim.

    Cost: one fit for "split", "normalized" and "cqr", O(n log n) time to calibrate and O((n + m) log n)
    to predict m rows. K + 1 fits for "cv+", and O((n + m K) log n) time, O(n + m K) memory to predict;
    n + 1 fits for "jackknife+", and the predictions of n models a row; B + 1 fits for "jackknife+ab",
    and O(m n B) time, O(m B) memory. `partial_fit` costs O(n log n) a call.

    References
    ----------
    .. [1] Y. Romano, E. Patterson, E. Candès, "Conformalized quantile regression", NeurIPS 2019,
       https://arxiv.org/abs/1905.03222.
    .. [2] R. J. Tibshirani, R. Foygel Barber, E. J. Candès, A. Ramdas, "Conformal prediction under
       covariate shift", NeurIPS 2019, https://arxiv.org/abs/1904.06019.
    .. [3] I. Gibbs, E. Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
       https://arxiv.org/abs/2106.00170.
    .. [4] R. Foygel Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani, "Predictive inference with the
       jackknife+", Annals of Statistics 49(1), 2021, doi:10.1214/20-AOS1965.
    .. [5] B. Kim, C. Xu, R. Foygel Barber, "Predictive inference is free with the
       jackknife+-after-bootstrap", NeurIPS 2020, https://arxiv.org/abs/2002.09025.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.regressors import ConformalRegressor, ResidualRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, size=(2000, 1))
    >>> y = 3 * X[:, 0] + (0.1 + X[:, 0]) * rng.normal(size=2000)
    >>> model = ConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> np.diff(model.predict_interval([[0.1], [0.9]])).ravel().round(1)  # one width
    array([2.2, 2.2])
    >>> adaptive = ConformalRegressor(ResidualRegressor(LinearRegression()), "normalized", random_state=0)
    >>> adaptive.fit(X, y).predict_interval([[0.1], [0.9]], coverage=[0.5, 0.9]).shape
    (2, 2, 2)
    >>> np.diff(adaptive.predict_interval([[0.1], [0.9]])).ravel().round(1)
    array([0.7, 4.1])
    """

    def __init__(
        self,
        estimator: Any,
        method: Literal["split", "normalized", "cqr", "cv+", "jackknife+", "jackknife+ab"] = "split",
        *,
        symmetric: bool = True,
        cv: Any = None,
        calibration_size: float | int = 0.25,
        n_estimators: int = 50,
        aggregate: Literal["mean", "median"] = "mean",
        group_by: Callable[[Any], Any] | Hashable | None = None,
        rare_groups: Literal["raise", "pool"] = "raise",
        min_group_size: int = 10,
        density_ratio: Callable[[Any], ArrayLike] | None = None,
        gamma: float = 0.005,
        window: int | None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.symmetric = symmetric
        self.cv = cv
        self.calibration_size = calibration_size
        self.n_estimators = n_estimators
        self.aggregate = aggregate
        self.group_by = group_by
        self.rare_groups = rare_groups
        self.min_group_size = min_group_size
        self.density_ratio = density_ratio
        self.gamma = gamma
        self.window = window
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -------------------------------------------------------------------------------- fitting

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        if fit_params.get("groups") is not None and self.cv is None and self.method in SPLIT_METHODS:
            raise ValueError(
                "`groups` is given, but rows are held out at random without regard to it: pass "
                "cv=GroupShuffleSplit(1), or leave `groups` out."
            )
        return super()._read(X, y, sample_weight, fit_params, caller)

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        settings = self._settings()
        fit = fit_split if settings.method in SPLIT_METHODS else fit_cross
        self._conformal: ConformalStrategy = fit(data, settings, progress)
        self.estimator_ = self._conformal.estimator
        self.calibration_rows_ = None
        if isinstance(self._conformal, SplitConformal):
            self.calibration_rows_ = self._conformal.calibration_rows

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        if self.cv is not None and self.method in SPLIT_METHODS:
            raise ValueError(
                f"`fit_transform` needs folds that test every row, and `cv` of method {self.method!r} is one "
                "split. Use cv=None, or `fit` and then `transform` with rows that are new."
            )
        return super()._fit_transform(data, progress)

    def _settings(self) -> ConformalSettings:
        """Return the parameters, checked, and this fit's randomness."""
        split_seed, model_seed = check_random_state(self.random_state).randint(MAX_SEED, size=2).tolist()
        method = check_option(self.method, "method", SPLIT_METHODS + CROSS_METHODS)
        rare_groups, min_group_size = check_groups(self.rare_groups, self.min_group_size)
        self._check_for_split(method)
        gamma = check_number(self.gamma, "gamma")
        if gamma < 0:
            raise ValueError(f"`gamma` must be non-negative, got {gamma:g}.")
        return ConformalSettings(
            estimator=self.estimator,
            method=method,
            symmetric=check_option(self.symmetric, "symmetric", (True, False)),
            cv=self.cv,
            calibration_size=_check_size(self.calibration_size),
            n_estimators=check_integer(self.n_estimators, "n_estimators"),
            aggregate=check_option(self.aggregate, "aggregate", ("mean", "median")),
            group_by=self.group_by,
            rare_groups=rare_groups,
            min_group_size=min_group_size,
            density_ratio=self.density_ratio,
            gamma=gamma,
            window=None if self.window is None else check_integer(self.window, "window"),
            block_size=None if self.block_size is None else check_integer(self.block_size, "block_size"),
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=self.verbose,
            split_seed=split_seed,
            model_seed=model_seed,
        )

    def _check_for_split(self, method: str) -> None:
        """Check the parameters that only methods with one model know."""
        if self.density_ratio is not None and not callable(self.density_ratio):
            raise TypeError(
                f"`density_ratio` must be a callable X -> weights or None, got {self.density_ratio!r}."
            )
        by = self.group_by
        if by is not None and not callable(by) and (isinstance(by, bool) or not isinstance(by, Hashable)):
            raise TypeError(
                f"`group_by` must be a callable X -> labels, a column name or None, got {self.group_by!r}."
            )
        for name in ("group_by", "density_ratio"):
            if method in CROSS_METHODS and getattr(self, name) is not None:
                raise ValueError(
                    f"`{name}` must be None with method {method!r}. The methods that know it are "
                    f"{', '.join(map(repr, SPLIT_METHODS))}."
                )

    def _has_one_model(self) -> bool:
        """Return whether `partial_fit` is there; the reason why not becomes the cause of the error."""
        if self.method in SPLIT_METHODS:
            return True
        raise AttributeError(
            f"`partial_fit` needs one of the methods {', '.join(map(repr, SPLIT_METHODS))}, got "
            f"{self.method!r}, by which each row of `fit` has a model of its own."
        )

    @available_if(_has_one_model)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from observed rows of a sequence: adaptive conformal inference.

        The model is not refitted. What changes is the miscoverage that intervals aim at, which falls
        after a miss and rises otherwise, and the scores, which those of the rows join. Call it with
        each row, or with all rows that were predicted together, once y is known. There for "split",
        "normalized" and "cqr".

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of m rows
            Features of the rows, in the order of time.
        y : array-like of shape (m,)
            What was observed.
        sample_weight : array-like of shape (m,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : object
            The regressor; its next intervals know the rows.

        Raises
        ------
        NotFittedError
            If `fit` was not called before: the model comes from there.
        """
        self._check_new(X)
        target = check_y(y, self)
        check_consistent_length(X, target)
        if not isinstance(self._conformal, SplitConformal):
            raise ValueError(f"`method` was changed to {self.method!r} after `fit`; call `fit` again.")
        self._conformal.observe(X, target, check_sample_weight(sample_weight, len(target)))
        return self

    # ---------------------------------------------------------------------------- prediction

    @property
    def n_calibration_(self) -> float:
        """How many rows calibrate now, weights counted."""
        check_is_fitted(self)
        return self._conformal.n_calibration

    def predict_interval(self, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> FloatArray:
        """Return the prediction intervals that carry the guarantee.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n, 2), or (n, 2, k) for k coverages
            ``bounds[:, 0]`` is the lower bound; in the units of y. Infinite, with a
            `SmallSampleWarning`, where fewer rows calibrate than the coverage needs.
        """
        self._check_new(X)
        checked = check_coverage(coverage)
        bounds = self._conformal.interval(X, np.atleast_1d(checked))
        return bounds if checked.ndim else bounds[:, :, 0]

    def predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distribution of each row.

        Only the bounds of `predict_interval` carry the guarantee in every case.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        dist : Distribution of n rows
            In the units of y. With "split" and "normalized" a `ConformalPredictive`, one a group with
            ``group_by``, whose intervals are those of `predict_interval` as long as `partial_fit` was
            not called. With the other methods `Quantiles` through the one-sided bounds at the levels
            that have finite ones, sorted where they cross. The levels that `partial_fit` moves are not
            in it, nor in scores, which use it: give a metric the bounds of
            `predict_interval` to evaluate those.
        """
        return super().predict_dist(X)

    def _point(self, X: Any) -> FloatArray:
        return self._conformal.point(X)

    def _predict_dist(self, X: Any) -> Distribution:
        return self._conformal.dist(X)


def _check_size(size: Any) -> float | int:
    """Return a share strictly between 0 and 1 or a number of rows."""
    number = check_number(size, "calibration_size", positive=True)
    if number == int(number) and not isinstance(size, float | np.floating):
        return int(number)
    if number >= 1:
        raise ValueError(
            "`calibration_size` must be a share strictly between 0 and 1 or a whole number of rows, got "
            f"{size}."
        )
    return number
