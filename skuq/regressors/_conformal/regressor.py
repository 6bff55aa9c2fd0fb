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
from skuq.prediction._random import MAX_SEED
from skuq.prediction._row_sets import check_calibration_size
from skuq.recalibration._calibration_set import check_density_ratio, check_group_by
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

__all__ = ["ConformalRegressor"]


class ConformalRegressor(BaseUncertaintyRegressor):
    r"""Prediction intervals with guaranteed coverage for exchangeable rows, with any model and any noise.

    Which interval covers 90 % of new values if nothing is assumed but that new rows are exchangeable with
    those of `fit`? Its width follows from the ranks of the model's errors on rows left out of its fit.
    Prefer `UncertaintyRegressor` where a smooth density or finite tails matter more than a guarantee, and
    `skuq.recalibration.ConformalRecalibrator` behind a model in a Pipeline, where it ranks out-of-fold
    errors: no row is held out, and the guarantee is approximate.

    Parameters
    ----------
    estimator : estimator
        Any regressor; cloned. "normalized" and "cqr" need one with a predictive distribution, such as
        `UncertaintyRegressor`, `ResidualRegressor` or `MultiQuantileRegressor`. A FrozenEstimator is
        not refitted with "split", "normalized" and "cqr": all rows given to `fit` calibrate it, and
        must not be among those it was fitted on.
    method : {"split", "normalized", "cqr", "cv+", "jackknife+", "jackknife+ab"}, default="split"
        - "split" holds rows out and ranks residuals: intervals of one width.
        - "normalized" ranks residuals in units of the predicted standard deviation: intervals are wide
          where the model predicts much noise. The choice where the noise varies.
        - "cqr" widens or narrows predicted quantile intervals (conformalized quantile regression). The
          ``levels`` of a `MultiQuantileRegressor` should contain the levels of both bounds, 0.05 and 0.95
          for a coverage of 0.9; otherwise the predicted interval comes from its assumed tails.
        - "cv+" holds nothing out: each row is predicted by the model of its fold. The choice for few rows.
        - "jackknife+" leaves out one row at a time: n fits.
        - "jackknife+ab" predicts each row by the bagged models whose resamples leave it out.
    symmetric : bool, default=True
        Whether one score serves both bounds. With False each bound has its own, at half the miscoverage:
        intervals follow skewed errors, and need about twice as many rows, 19 for 90 %.
    cv : splitter or iterable of (train, test), or int, default=None
        Cross-validation of the method. With "cv+" the folds: None is 5, an int k is
        ``KFold(k, shuffle=True)``, and any splitter is possible, also time-ordered or repeated ones. With
        "jackknife+ab" resamples and their left-out rows. With "split", "normalized" and "cqr" exactly one
        split into training and calibration rows, such as ``GroupShuffleSplit(1)`` or
        ``[(past, recent)]``; None takes ``calibration_size``.
    calibration_size : float or int, default=0.25
        Share or number of rows held out at random to calibrate, if ``cv`` is None.
    n_estimators : int, default=50
        Number of resamples of "jackknife+ab", if ``cv`` is None.
    aggregate : {"mean", "median"}, default="mean"
        Aggregation of the models' predictions by "jackknife+ab".
    group_by : callable, column name or None, default=None
        Groups with a guarantee for each (Mondrian), with "split", "normalized" and "cqr". A callable takes
        X of n rows and returns n labels; a name is a column of the DataFrame X, which is also a feature of
        the estimator.
    rare_groups : {"raise", "pool"}, default="raise"
        Treatment of a label with no calibration rows, or fewer than ``min_group_size``: a ValueError, or
        calibration by the scores of all groups together.
    min_group_size : int, default=10
        Number of calibration rows below which a group is rare. Only with ``group_by``.
    density_ratio : callable or None, default=None
        Density ratio under covariate shift: takes X of n rows and returns n weights, the density of each
        x among the rows to be predicted over that among the rows of `fit`, up to a constant factor. Only
        with "split", "normalized" and "cqr".
    gamma : float, default=0.005
        Step of adaptive conformal inference, see `partial_fit`: intervals with a larger step follow a drift
        faster and vary more. With 0 only the scores are updated. The step is that of one row:
        `partial_fit` with 20 rows that were all missed changes the miscoverage aimed at by nearly
        20 ``gamma``.
    window : int or None, default=None
        Number of the latest rows that calibrate once `partial_fit` was called; None takes all. It does not
        limit memory: all rows given to `partial_fit` are kept.
    block_size : int or None, default=None
        Number of rows predicted at a time by "jackknife+" and "jackknife+ab", each of which takes as many
        numbers as there are training rows; None chooses it by memory.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job is a fit; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Randomness of held-out rows, folds and resamples, and of estimators without a seed of their own. An
        integer makes all results reproducible.
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
        Number of rows that calibrate now, weights counted.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    UncertaintyRegressor : A predictive distribution for any regressor.
    skuq.recalibration.ConformalRecalibrator : The same for a distribution that was predicted already.
    skuq.distributions.ConformalPredictive : The distribution that `predict_dist` returns.

    Notes
    -----
    *"split", "normalized", "cqr".* With the band [l(x), u(x)], which is the prediction itself or, for
    "cqr", the predicted interval of the nominal coverage, and the scale s(x), which is 1 or, for
    "normalized", the predicted standard deviation, the score of a row is

    .. math:: E = \max(l(x) - y, \; y - u(x)) / s(x)

    ([1]_, eq. 6 for the band) and the interval [l - s q, u + s q] with q the
    :math:`\lceil (n + 1) c \rceil`-th smallest of the n calibration scores. With
    ``symmetric=False`` the two differences are ranked separately, at (1 + c)/2 each ([1]_, theorem 2). If
    the bounds cross, the interval is the point halfway between them. For rows exchangeable with those of
    `fit`, at any n, a new value is covered with a probability of at least c and, ties aside, at most
    c + 1/(n + 1), or c + 2/(n + 1) with ``symmetric=False``, where rounding may leave one of many equal
    targets just outside a bound that should reach it. That is an average over the rows held out:
    one calibration set covers more, the next less, with the distribution Beta(k, n + 1 - k), k the rank
    above. By ``group_by`` it holds within each group, with its own n. Fewer rows than c/(1 - c) give
    infinite bounds and a `SmallSampleWarning`.

    *"cv+", "jackknife+", "jackknife+ab".* With :math:`\hat\mu_{-i}` the model fitted without row i
    (that of its fold, that of all other rows, or the mean or median of the bagged models whose resamples
    leave it out) and :math:`R_i = |y_i - \hat\mu_{-i}(x_i)|`, the bounds are the
    :math:`\lfloor \alpha (n + 1) \rfloor`-th smallest of :math:`\hat\mu_{-i}(x) - R_i` and the
    :math:`\lceil (1 - \alpha)(n + 1) \rceil`-th smallest of :math:`\hat\mu_{-i}(x) + R_i`,
    :math:`\alpha = 1 - c` ([4]_, [5]_). With ``symmetric=False`` signed residuals replace the absolute
    ones, at (1 + c)/2 for each bound. A row that ``cv`` tests several times counts once; one that it never
    tests does not count. Bounds that cross, which happens at low coverage, are exchanged. Coverage,
    averaged over training sets too, is at least :math:`1 - 2 \alpha` for "jackknife+", less at most
    :math:`\sqrt{2/n}` for "cv+" ([4]_), and for "jackknife+ab" if the number of resamples is itself
    drawn from a binomial distribution ([5]_), which it is not here. In practice it is near c for stable
    models and above it for models that change much with the rows: single trees cover 97 to 99 % with
    "cv+" where 90 % is nominal, and 91 % with "jackknife+ab". Folds in the order of time are not
    exchangeable and carry no guarantee.

    *Covariate shift.* With weights w(x) proportional to the density ratio, scores count by their
    weight and the new row by its own ([2]_, eq. 7); coverage then holds under the new distribution of
    X if that of y given x is the same. The error of an estimated ratio is not accounted for.

    *Sequences.* `partial_fit` is adaptive conformal inference: after each row the miscoverage aimed
    at changes by ``gamma`` times nominal minus observed miscoverage ([3]_, eq. 2). On every sequence,
    whatever the drift, the share of misses in T rows differs from :math:`\alpha = 1 - c` by at most
    :math:`(\max(\alpha, 1 - \alpha) + \gamma) / (\gamma T)` ([3]_, prop. 4.1). For this the interval
    must sometimes be infinite (aiming at 0), and sometimes empty (at 1): then it is the point at its
    centre, which counts as a miss even if y is equal to it. Rows given in one call count as predicted
    together, before any of them was observed; the step in the bound is then that of all of them. With
    "cqr" the predicted band stays that of the nominal coverage; with ``group_by`` all groups share one
    miscoverage.

    Cost: one fit for "split", "normalized" and "cqr", O(n log n) time to calibrate and O((n + m) log n)
    to predict m rows. K + 1 fits for "cv+", and O((n + m K) log n) time, O(n + m K) memory to predict;
    n + 1 fits for "jackknife+", and the predictions of n models for each row; B + 1 fits for "jackknife+ab",
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
    array([0.7, 3.7])
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
        """Return the checked parameters, and seeds drawn for this fit."""
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
            calibration_size=check_calibration_size(self.calibration_size),
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
        """Check the parameters of the methods with one model."""
        check_density_ratio(self.density_ratio)
        check_group_by(self.group_by)
        for name in ("group_by", "density_ratio"):
            if method in CROSS_METHODS and getattr(self, name) is not None:
                raise ValueError(
                    f"`{name}` must be None with method {method!r}. It is a parameter of the methods "
                    f"{', '.join(map(repr, SPLIT_METHODS))}."
                )

    def _has_one_model(self) -> bool:
        """Return whether there is `partial_fit`; the error below becomes the cause of the AttributeError."""
        if self.method in SPLIT_METHODS:
            return True
        raise AttributeError(
            f"`partial_fit` needs one of the methods {', '.join(map(repr, SPLIT_METHODS))}, got "
            f"{self.method!r}, with which each row of `fit` has a model of its own."
        )

    @available_if(_has_one_model)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Update the calibration by observed rows of a sequence: adaptive conformal inference.

        The model is not refitted. The miscoverage at which intervals aim falls after a miss and rises
        otherwise, and the scores of the rows join those that calibrate. Call it with each row, or with all
        rows that were predicted together, once y is observed. Available with "split", "normalized" and
        "cqr".

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of m rows
            Features of the rows, in the order of time.
        y : array-like of shape (m,)
            Observed target.
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
            If the rows push a group out of the ``window`` until it is rare, unless rare groups are pooled;
            nothing has changed then.
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
        """Number of rows that calibrate now, weights counted."""
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
            `SmallSampleWarning`, where the coverage needs more calibration rows.
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
            In the units of y. With "split" and "normalized" a `ConformalPredictive`, one for each group
            with ``group_by``, whose intervals are those of `predict_interval` as long as `partial_fit` was
            not called. With the other methods `Quantiles` through the one-sided bounds at the levels
            with finite ones, sorted where they cross. Its levels are the nominal ones, not those adapted
            by `partial_fit`, also in scorers, which use it: pass the bounds of `predict_interval` to a
            metric to evaluate the adapted ones.
        """
        return super().predict_dist(X)

    def _point(self, X: Any) -> FloatArray:
        return self._conformal.point(X)

    def _predict_dist(self, X: Any) -> Distribution:
        return self._conformal.dist(X)

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        if isinstance(self._conformal, SplitConformal):
            return self._conformal.point_and_dist(X)
        return super()._point_and_dist(X)
