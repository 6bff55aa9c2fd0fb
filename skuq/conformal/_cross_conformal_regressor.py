"""Conformal prediction intervals for any regressor, calibrated on out-of-fold predictions.

Each row is a calibration row of models that are fitted without it.
"""

from __future__ import annotations

import numbers
from typing import Any, Literal

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import LeaveOneOut

from skuq._fitting.cross_fit import Split, find_mismatch, point_predict, resolve_cv, warn_of_mismatch
from skuq._fitting.fit_wrapped import fit_wrapped, in_target_units
from skuq._fitting.seeds import Progress, seeded_clone
from skuq._fitting.training_data import TrainingData
from skuq._typing import SupportLike
from skuq._validation import check_integer, check_option, check_unused, effective_rows
from skuq.conformal._base import BaseConformalRegressor, fit_folds, fold_models, splits_of
from skuq.conformal._cross import CrossConformal, bagged_bounds, bootstrap_splits, fold_bounds
from skuq.distributions import Distribution

CROSS_METHODS = {
    "cv+": {"cv"},
    "jackknife+": {"block_size"},
    "jackknife+ab": {"cv", "n_estimators", "aggregate", "block_size"},
}
"""Parameters of each method that the other methods do not use."""


class CrossConformalRegressor(BaseConformalRegressor):
    r"""Prediction intervals with approximately guaranteed coverage for any regressor, calibrated on all rows.

    Each row is predicted by models that are fitted without this row. The errors of these predictions
    calibrate the intervals. Prefer this class if there are few rows, because it holds out no rows.
    `ConformalRegressor` has a stronger guarantee and needs one fit.

    Parameters
    ----------
    estimator : estimator
        Any regressor except a FrozenEstimator; cloned.
    method : {"cv+", "jackknife+", "jackknife+ab"}, default="cv+"
        - "cv+" predicts each row with the model that is fitted without its fold.
        - "jackknife+" fits one model for each row, without this row: n fits.
        - "jackknife+ab" fits models to bootstrap resamples, and predicts each row with the models whose
          resample does not contain it.
    symmetric : bool, default=True
        Whether one score calibrates both bounds. With False, each bound has its own score and is calibrated
        for half of the miscoverage. The intervals are then asymmetric if the errors are skewed. False needs
        about twice as many calibration rows: at least 19 for a coverage of 90 %.
    cv : int, splitter, iterable of (train, test) or None, default=None
        For "cv+", the folds. An int k means ``KFold(k, shuffle=True)``, and None means 5 folds. A splitter
        may be time-ordered or repeated. For "jackknife+ab", pairs of drawn rows and left-out rows. With None,
        ``n_estimators`` resamples are drawn. Must be None with "jackknife+".
    n_estimators : int or None, default=None
        Number of resamples of "jackknife+ab". None means 50. Must be None with ``cv``.
    aggregate : {"mean", "median"} or None, default=None
        Function that combines the predictions of several models in "jackknife+ab". None means "mean".
    block_size : int or None, default=None
        Number of rows that "jackknife+" and "jackknife+ab" predict at a time. The memory per predicted row is
        proportional to the number of training rows. None chooses a number that fits into the available
        memory.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are clipped but not rounded.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each fit is one job. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds and resamples, and of estimators without a seed of their own. An integer makes
        results reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimator_ : estimator
        The model fitted to all rows, which gives the point predictions.
    n_calibration_ : float
        Number of calibration rows, or the sum of their weights.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    ConformalRegressor : Calibration on held-out rows. It supports groups, covariate shift and `partial_fit`.
    skuq.regressors.UncertaintyRegressor : A predictive distribution for any regressor.
    skuq.conformal.ConformalRecalibrator : Conformal intervals from predicted distributions.

    Notes
    -----
    Let :math:`\hat\mu_{-i}` be the prediction for row i without this row, and :math:`R_i = |y_i -
    \hat\mu_{-i}(x_i)|`. For "cv+", :math:`\hat\mu_{-i}` is the model that is fitted without the fold of row
    i. For "jackknife+", :math:`\hat\mu_{-i}` is the model that is fitted to all other rows. For
    "jackknife+ab", :math:`\hat\mu_{-i}` is the mean or the median of the models whose resamples do not
    contain row i. With :math:`\alpha = 1 - c`, the lower bound is the :math:`\lfloor \alpha (n + 1)
    \rfloor`-th smallest of :math:`\hat\mu_{-i}(x) - R_i`, and the upper bound is the :math:`\lceil (1 -
    \alpha)(n + 1) \rceil`-th smallest of :math:`\hat\mu_{-i}(x) + R_i` ([1]_, [2]_). With
    ``symmetric=False``, :math:`R_i` is the signed residual, and each bound has the level (1 + c)/2. A row
    that ``cv`` tests several times counts once. A row that is not tested does not count. At a low coverage,
    the bounds may cross. They are then swapped.

    Averaged over training sets, the coverage of "jackknife+" is at least :math:`1 - 2 \alpha`. The coverage
    of "cv+" is at least :math:`1 - 2 \alpha - \sqrt{2/n}` ([1]_). For "jackknife+ab", the lower bound
    :math:`1 - 2 \alpha` is proven if the number of resamples is drawn from a binomial distribution ([2]_). In
    this class, the number of resamples is fixed. In practice, the coverage is close to c if the model is
    stable. If the model is unstable, the coverage of "cv+" is higher: for single trees and a nominal coverage
    of 90 %, "cv+" covers about 96 % and "jackknife+ab" about 90 %. Time-ordered folds have no guarantee,
    because they are not exchangeable. If n is less than c/(1 - c), the bounds are infinite and a
    `SmallSampleWarning` is issued.

    Cost of `fit` and of a prediction for m rows: "cv+" with K folds needs K + 1 fits, O((n + m K) log n)
    additional time and O(n + m K) memory. "jackknife+" needs n + 1 fits and the predictions of n models for
    each row. "jackknife+ab" with B resamples needs B + 1 fits, O(m n B) additional time and O(m B) memory.

    References
    ----------
    .. [1] R. Foygel Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani, "Predictive inference with the
       jackknife+", Annals of Statistics 49(1), 2021, doi:10.1214/20-AOS1965.
    .. [2] B. Kim, C. Xu, R. Foygel Barber, "Predictive inference is free with the
       jackknife+-after-bootstrap", NeurIPS 2020, https://arxiv.org/abs/2002.09025.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from skuq.conformal import CrossConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> y = X[:, 0] + rng.normal(size=40)
    >>> model = CrossConformalRegressor(Ridge(), random_state=0).fit(X, y)
    >>> model.n_calibration_
    40.0
    >>> model.predict_interval([[0.0, 0.0, 0.0]]).round(1)
    array([[-1.7,  1.3]])
    """

    def __init__(
        self,
        estimator: Any,
        method: Literal["cv+", "jackknife+", "jackknife+ab"] = "cv+",
        *,
        symmetric: bool = True,
        cv: Any = None,
        n_estimators: int | None = None,
        aggregate: Literal["mean", "median"] | None = None,
        block_size: int | None = None,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.symmetric = symmetric
        self.cv = cv
        self.n_estimators = n_estimators
        self.aggregate = aggregate
        self.block_size = block_size
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        split_seed, model_seed = self._draw_seeds()
        method = self._check_method()
        symmetric = check_option(self.symmetric, "symmetric", (True, False))
        block_size = None if self.block_size is None else check_integer(self.block_size, "block_size")
        effective_rows(data.sample_weight, len(data))  # raises for relative weights
        bagged = method == "jackknife+ab"
        aggregate = "mean" if self.aggregate is None else self.aggregate
        check_option(aggregate, "aggregate", ("mean", "median"))
        member_name = "resample" if bagged else "fold"
        estimator = in_target_units(seeded_clone(self.estimator, model_seed, self.random_state), data.y)
        folds = fit_folds(
            estimator,
            data,
            self._splits(data, method, split_seed),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            predict=point_predict,
            name=member_name,
            on_fold=progress.reporter("fold"),
        )
        if bagged:
            bounds, n_calibration = bagged_bounds(folds, data, symmetric=symmetric, aggregate=aggregate)
        else:
            bounds, n_calibration = fold_bounds(folds, data, symmetric=symmetric)
        with progress.task("model", estimator):
            estimator = fit_wrapped(estimator, data.X, data.target, **data.fit_params)
        warn_of_mismatch(
            find_mismatch(estimator, folds, data.X, data.y, point_predict),
            "`predict` uses the model fitted to all rows, but the intervals use the models of the folds",
        )
        members = fold_models(folds)
        self._conformal = CrossConformal(
            estimator, members, bounds, n_calibration, symmetric, block_size, self.n_jobs, member_name
        )
        self.estimator_ = estimator

    def _check_method(self) -> str:
        """Return the method. Raise an error if the user sets a parameter that this method does not use."""
        method: str = check_option(self.method, "method", tuple(CROSS_METHODS))
        if isinstance(self.estimator, FrozenEstimator):
            raise ValueError(
                f"`estimator` must not be frozen with method {method!r}, which refits it. Use "
                "ConformalRegressor, which calibrates a fitted model on new rows."
            )
        for name in ("cv", "n_estimators", "aggregate", "block_size"):
            if name not in CROSS_METHODS[method]:
                users = " and ".join(repr(other) for other, names in CROSS_METHODS.items() if name in names)
                check_unused(self, (name,), f"with method {method!r}", f"It is a parameter of {users}.")
        if self.cv is not None:
            check_unused(self, ("n_estimators",), "with `cv`", "Each pair of rows in `cv` is one resample.")
            if method == "jackknife+ab" and isinstance(self.cv, numbers.Integral):
                raise TypeError(
                    "`cv` must be a splitter or an iterable of (drawn rows, left-out rows) with method "
                    f"'jackknife+ab', got {self.cv!r}. Without `cv`, `n_estimators` resamples are drawn."
                )
        return method

    def _splits(self, data: TrainingData, method: str, seed: int) -> list[Split] | LeaveOneOut:
        if method == "jackknife+":
            return LeaveOneOut()  # a list of n folds would need O(n^2) memory
        if method == "jackknife+ab" and self.cv is None:
            n_estimators = 50 if self.n_estimators is None else self.n_estimators
            return bootstrap_splits(len(data), check_integer(n_estimators, "n_estimators"), seed)
        return splits_of(resolve_cv(self.cv, seed), data)

    def predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distribution of each row.

        The coverage guarantee holds for the bounds of `predict_interval`. It does not hold for the quantiles
        of this distribution.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        dist : Distribution of n rows
            `Quantiles` in the units of y, built from the finite bounds at many coverages. Crossing bounds are
            sorted.
        """
        return super().predict_dist(X)
