"""Lower bounds of censored times, with guaranteed coverage."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ShuffleSplit
from sklearn.utils import Tags, get_tags

from skuq._censoring import check_times, read_censoring_time, read_event, require_events
from skuq._compat import safe_indexing, versioned
from skuq._fitting.cross_fit import check_held_out_size, n_held_out
from skuq._fitting.seeds import MAX_SEED, seeded_clone
from skuq._fitting.training_data import check_rows, check_y
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_new,
    check_number,
    check_random_state,
    check_single_coverage,
    check_X,
)
from skuq.conformal._conformal_regressor import ConformalRegressor
from skuq.distributions import Distribution
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from skuq.prediction import predict_dist, supports_dist

_THRESHOLD_LEVELS = np.arange(1, 10) / 10


@versioned
class ConformalSurvivalRegressor(RegressorMixin, BaseEstimator):
    r"""Lower bounds of waiting times with guaranteed coverage under censoring.

    The time of a new row exceeds its bound with the given probability, for any estimator. The censoring time
    of each row must be known, including the rows with an observed event. For example, it is known if a study
    has a fixed end. Prefer `CensoredBoostingRegressor` if you need a distribution, or if the censoring times
    of events are unknown.

    Parameters
    ----------
    estimator : estimator
        Regressor that `predict_dist` accepts and whose `fit` takes ``event``, such as
        `CensoredBoostingRegressor`. It is cloned.
    censoring_estimator : estimator or None, default=None
        Regressor that predicts the distribution of the censoring times given X. It is cloned. None means that
        the censoring does not depend on X.
    threshold : float or None, default=None
        Time :math:`c_0`, in the units of y. Rows with a smaller censoring time are not used for the
        calibration. No bound is larger than :math:`c_0`. None tries the deciles of the censoring times, and
        chooses the decile with the largest mean bound on the training rows.
    coverage : float, default=0.9
        Probability that a time exceeds its bound. Strictly between 0.5 and 1.
    held_out_size : float or int, default=0.5
        Share or number of rows that are held out at random for calibration. The default is larger than in
        `~skuq.conformal.ConformalRegressor`, because rows with an early censoring time are not used for the
        calibration.
    random_state : int, RandomState instance or None, default=None
        Seed of the calibration rows, and of estimators without a seed of their own.

    Attributes
    ----------
    estimator_ : estimator
        The fitted regressor.
    censoring_estimator_ : estimator or None
        The fitted model of the censoring times. None if no row can be censored.
    threshold_ : float
        The threshold in use.
    conformal_ : ConformalRegressor
        Calibration of the lower quantiles.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Raises
    ------
    ValueError
        If targets are censored and ``censoring_time`` is missing, if ``censoring_time`` contradicts y, or if
        all censoring times are below the threshold.

    See Also
    --------
    skuq.conformal.ConformalRegressor : Intervals for targets that are not censored. Its parameter
        ``density_ratio`` is used here.

    Notes
    -----
    Let T be the time and C the censoring time. In the rows with :math:`C \ge c_0`, the time :math:`\min(T,
    c_0)` is known. The distribution of the features in these rows differs from the distribution in all rows.
    The density ratio is proportional to :math:`1 / P(C \ge c_0 \mid x)`. `~skuq.conformal.ConformalRegressor`
    with the method "cqr" and this density ratio gives a lower bound of :math:`\min(T, c_0)`. This bound is
    also a lower bound of T [1]_. The guarantee assumes that T and C are independent given X, and that the
    density ratio is exact. If the density ratio is estimated, the guarantee is approximate. The coverage is
    also approximately right if the quantiles of the estimator are accurate.

    References
    ----------
    .. [1] E. Candès, L. Lei, Z. Ren (2023), Conformalized survival analysis.
       https://doi.org/10.1093/jrsssb/qkac004

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.survival import CensoredBoostingRegressor, ConformalSurvivalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(600, 1))
    >>> T = np.exp(X[:, 0] + 0.3 * rng.normal(size=600))
    >>> C = rng.uniform(1, 5, size=600)
    >>> y, event = np.minimum(T, C), T <= C
    >>> boosting = CensoredBoostingRegressor(engine="sklearn", n_estimators=20, random_state=0)
    >>> model = ConformalSurvivalRegressor(boosting, random_state=0)
    >>> bound = model.fit(X, y, event=event, censoring_time=C).predict(X)
    >>> bool(0.87 < np.mean(T >= bound) < 0.97)
    True
    """

    def __init__(
        self,
        estimator: Any,
        censoring_estimator: Any = None,
        *,
        threshold: float | None = None,
        coverage: float = DEFAULT_COVERAGE,
        held_out_size: float | int = 0.5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.censoring_estimator = censoring_estimator
        self.threshold = threshold
        self.coverage = coverage
        self.held_out_size = held_out_size
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        event: ArrayLike | None = None,
        censoring_time: ArrayLike | None = None,
    ) -> Self:
        """Fit the estimators to some of the rows, and calibrate the bound on the other rows.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Training features.
        y : array-like of shape (n,)
            Time of an observed row, and time of censoring of a censored row. Non-negative.
        event : array-like of bool, shape (n,), default=None
            True if the time is observed. False if the time is only known to be larger than y. None means that
            all times are observed.
        censoring_time : array-like of shape (n,), default=None
            Time at which each row is censored or would have been censored. Required if rows are censored.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        coverage = self._check_coverage()
        self._check_estimators()
        check_X(X)
        target = check_times(check_y(y, self), "y")
        X, _, _ = check_rows(self, X, target, None, {})
        mask = read_event(event, target.size)
        require_events(mask)
        ends = self._read_ends(target, mask, censoring_time)
        split_seed, *seeds = check_random_state(self.random_state).randint(MAX_SEED, size=3).tolist()
        train, held_out = self._split(target.size, split_seed)
        self._fit_models(X, target, mask, ends, train, seeds)
        if self.threshold is None:
            self.threshold_ = self._choose_threshold(
                safe_indexing(X, train), target[train], ends[train], coverage
            )
        else:
            self.threshold_ = check_number(self.threshold, "threshold", positive=True)
        self.conformal_ = self._calibrate(
            safe_indexing(X, held_out), target[held_out], ends[held_out], self.threshold_
        )
        return self

    def _check_coverage(self) -> float:
        coverage = check_single_coverage(self.coverage)
        if coverage <= 0.5:
            raise ValueError(f"`coverage` of a lower bound must be above 0.5, got {coverage:g}.")
        return coverage

    def _check_estimators(self) -> None:
        for name in ("estimator", "censoring_estimator"):
            model = getattr(self, name)
            if not ((model is None and name == "censoring_estimator") or supports_dist(model)):
                raise NotProbabilisticError(
                    f"`{name}` must give a predictive distribution, but {type(model).__name__} gives none."
                )

    def _read_ends(
        self, y: FloatArray, mask: BoolArray | None, censoring_time: ArrayLike | None
    ) -> FloatArray:
        if censoring_time is not None:
            ends = read_censoring_time(censoring_time, y, mask)
            infinite = np.isinf(ends)
            if self.censoring_estimator is not None and infinite.any() and not infinite.all():
                raise ValueError(
                    "`censoring_time` must be finite if `censoring_estimator` is given, got inf at row "
                    f"{int(np.argmax(infinite))}. Pass the end of the study, or no `censoring_estimator`."
                )
            return ends
        if mask is None:
            return np.full(y.size, np.inf)
        raise ValueError(
            "`censoring_time` must be given if targets are censored. For each row, pass the time at which "
            "the row is or would have been censored, such as the time from its entry to the end of the study."
        )

    def _split(self, n: int, seed: int) -> tuple[IntArray, IntArray]:
        size = n_held_out(check_held_out_size(self.held_out_size), n)
        train, held_out = next(ShuffleSplit(1, test_size=size, random_state=seed).split(np.empty(n)))
        return np.sort(train), np.sort(held_out)

    def _fit_models(
        self,
        X: Any,
        y: FloatArray,
        mask: BoolArray | None,
        ends: FloatArray,
        train: IntArray,
        seeds: list[int],
    ) -> None:
        rows = safe_indexing(X, train)
        params = {} if mask is None else {"event": mask[train]}
        self.estimator_ = seeded_clone(self.estimator, seeds[0], self.random_state)
        self.estimator_.fit(rows, y[train], **params)
        self.censoring_estimator_ = None
        if self.censoring_estimator is not None and np.isfinite(ends).all():
            model = seeded_clone(self.censoring_estimator, seeds[1], self.random_state)
            self.censoring_estimator_ = model.fit(rows, ends[train])

    def _choose_threshold(self, X: Any, y: FloatArray, ends: FloatArray, coverage: float) -> float:
        """Return the candidate with the largest mean bound. The choice does not use the calibration rows."""
        if np.isinf(ends).all():
            return float(y.max())
        candidates = np.unique(np.quantile(ends[np.isfinite(ends)], _THRESHOLD_LEVELS))
        with warnings.catch_warnings():
            # A candidate with too few rows has bounds of 0 and is not chosen.
            warnings.simplefilter("ignore", SmallSampleWarning)
            bounds = [
                np.mean(self._bound(self._calibrate(X, y, ends, c), X, c, coverage))
                for c in candidates.tolist()
            ]
        return float(candidates[int(np.argmax(bounds))])

    def _calibrate(self, X: Any, y: FloatArray, ends: FloatArray, threshold: float) -> ConformalRegressor:
        rows = np.flatnonzero(ends >= threshold)
        if not rows.size:
            raise ValueError(
                f"`threshold` must be a time at which rows are uncensored, got {threshold:g}. The largest "
                f"censoring time is {ends.max():g}."
            )
        ratio = self.censoring_estimator_
        conformal = ConformalRegressor(
            FrozenEstimator(_ClippedModel(self.estimator_, threshold)),
            "cqr",
            symmetric=False,
            density_ratio=None if ratio is None else _DensityRatio(ratio, threshold),
        )
        fitted: ConformalRegressor = conformal.fit(safe_indexing(X, rows), np.minimum(y[rows], threshold))
        return fitted

    def _bound(self, conformal: ConformalRegressor, X: Any, threshold: float, coverage: float) -> FloatArray:
        lower = conformal.predict_interval(X, 2 * coverage - 1)[:, 0]
        return np.clip(lower, 0.0, threshold)

    def predict(self, X: Any) -> FloatArray:
        """Return the lower bound of the time of each row.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Features, with the columns of the training data.

        Returns
        -------
        bound : ndarray of shape (n,)
            In the units of y, between 0 and ``threshold_``. If there are too few calibration rows, the bound
            is 0, and a `SmallSampleWarning` is issued.
        """
        check_new(self, X)
        return self._bound(self.conformal_, X, self.threshold_, self._check_coverage())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # a lower bound is not a prediction of the mean
        try:
            tags.input_tags = get_tags(self.estimator).input_tags
        except Exception:  # Estimators of other packages may have no tags or broken tags.
            return tags
        return tags


class _ClippedModel(RegressorMixin, BaseEstimator):
    """Fitted model whose predicted times are clipped at the threshold."""

    def __init__(self, estimator: Any, threshold: float) -> None:
        self.estimator = estimator
        self.threshold = threshold

    def predict_dist(self, X: Any) -> Distribution:
        return predict_dist(self.estimator, X).clip(upper=self.threshold)

    def predict(self, X: Any) -> FloatArray:
        return self.predict_dist(X).mean()

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _DensityRatio:
    """Inverse of the probability that the censoring time is at least the threshold."""

    def __init__(self, model: Any, threshold: float) -> None:
        self.model, self.threshold = model, threshold

    def __call__(self, X: Any) -> FloatArray:
        dist = predict_dist(self.model, X)
        probability = dist.sf(np.nextafter(self.threshold, -np.inf))
        if not (probability > 0).all():
            row = int(np.argmin(probability))
            raise ValueError(
                f"the probability of being uncensored at `threshold` = {self.threshold:g} must be "
                "positive, got "
                f"0 at row {row}. Pass a smaller `threshold`."
            )
        return np.asarray(1 / probability)
