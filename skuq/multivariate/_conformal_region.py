"""Conformal prediction regions of several targets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import resolve_cv
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.seeds import MAX_SEED, Progress, seeded_clone
from skuq._fitting.training_data import TrainingData
from skuq._numeric import WeightedRanks
from skuq._typing import FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_new,
    check_option,
    check_random_state,
    check_single_coverage,
    check_unused,
    effective_rows,
)
from skuq.conformal._base import (
    check_groups_need_cv,
    check_tested_weight,
    fit_folds,
    fit_held_out,
    single_split,
    splits_of,
    warn_of_few_rows,
)
from skuq.distributions import JointDistribution
from skuq.multivariate._base_regressor import BaseJointRegressor, check_complete
from skuq.multivariate._multi_output import MultiOutputUncertaintyRegressor
from skuq.multivariate._regions import (
    REGION_SCORES,
    CrossRegions,
    PredictionRegion,
    RegionScore,
    SplitRegions,
    cross_regions,
    predict_region_moments,
)
from skuq.prediction import predict_dist
from skuq.prediction._register import iter_wrapped


class ConformalRegionRegressor(BaseJointRegressor):
    r"""Regions that contain all targets of a row with guaranteed coverage.

    A score summarizes the errors of all targets of a row in one number. The region is calibrated with the
    ranks of the scores of rows that the model was not fitted to. The coverage is therefore the probability
    that all targets are inside. The alternative, one interval per target with the coverage :math:`1 - \alpha
    / d` (Bonferroni), needs d times as many calibration rows and gives wider intervals. The only assumption
    is that new rows are exchangeable with the training rows.

    Parameters
    ----------
    estimator : estimator or list of d estimators
        An estimator with a joint distribution, such as `MultiOutputUncertaintyRegressor`; cloned. All other
        regressors, and lists, are wrapped in `MultiOutputUncertaintyRegressor`. A FrozenEstimator is not
        refitted: all rows passed to `fit` are calibration rows. Pass rows that the frozen model was not
        trained on.
    shape : {"box", "ellipsoid"}, default="box"
        - "box": one interval per target. The score is the largest absolute residual, in units of the
          predicted standard deviation.
        - "ellipsoid": ellipsoids with the predicted covariance. The score is the Mahalanobis distance. If the
          errors of the targets are strongly correlated, ellipsoids have a smaller volume than boxes.
    method : {"split", "cv+"}, default="split"
        - "split" holds rows out for calibration.
        - "cv+" calibrates on all rows. Each row is predicted by a model that is fitted without its fold.
          Prefer "cv+" if there are few rows.
    cv : int, splitter, iterable of (train, test) or None, default=None
        With "split", exactly one split into training and calibration rows. None draws the calibration rows at
        random, see ``held_out_size``. With "cv+", the folds. None means 5 folds, and an int k means
        ``KFold(k, shuffle=True)``.
    held_out_size : float or int, default=0.25
        Share or number of rows that "split" holds out at random. Do not set it if ``cv`` is given or if the
        estimator is a FrozenEstimator.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one fold. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        An integer makes results reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model that gives the point predictions. It is fitted to the training rows with "split", and
        to all rows with "cv+".
    n_calibration_ : float
        Number of calibration rows, or the sum of their weights.
    n_outputs_ : int
        Number of targets d.
    target_names_ : ndarray of str of shape (d,), or None
        Names of the columns of y. None if y is not a DataFrame.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    MultiOutputUncertaintyRegressor : Joint distributions and simultaneous intervals. The coverage of these
        intervals is not guaranteed.
    skuq.conformal.ConformalRegressor : Conformal intervals of one target.

    Notes
    -----
    With :math:`z_j = (y_j - \mu_j(x)) / \sigma_j(x)` and the predicted correlation matrix R(x), the scores
    are :math:`\max_j |z_j|` for the box and :math:`\sqrt{z^T R^{-1} z}` for the ellipsoid. With n calibration
    rows and the coverage c, the region contains all points whose score is at most the :math:`\lceil c (n + 1)
    \rceil`-th smallest score. The coverage of "split" is at least c on average over calibration rows, and at
    most c + 1/(n + 1) without ties. If there are fewer than c/(1 - c) rows (9 rows at a coverage of 90 %),
    the regions are infinite and a `SmallSampleWarning` is issued.

    "cv+" compares the score of a point with the scores of the n rows. For the comparison with row i, both
    scores are computed by the model that is fitted without the fold of row i. The region contains the point
    if fewer than c (n + 1) rows have a smaller score than the point [1]_. The coverage of this region is at
    least :math:`1 - 2 (1 - c) - \sqrt{2/n}`, and near c for stable models. With ``shape="box"``, the result
    is a box whose bounds are order statistics and that contains this region. With "ellipsoid", ``volume`` is
    estimated from 4096 points.

    The boxes are narrower than Bonferroni's intervals with the same standard deviations. If the errors are
    strongly correlated, ellipsoids have smaller volumes.

    Rows with missing targets raise an error.

    Cost: "split" needs one fit. "cv+" with K folds needs K + 1 fits. With "cv+", a prediction of m rows needs
    the predictions of K models and O(m n d) time.

    References
    ----------
    .. [1] R. Foygel Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani, "Predictive inference with the
       jackknife+", Annals of Statistics 49(1), 2021, doi:10.1214/20-AOS1965.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.multivariate import ConformalRegionRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X + 0.1 * rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=400)
    >>> model = ConformalRegionRegressor(LinearRegression(), random_state=0).fit(X[:300], y[:300])
    >>> region = model.predict_region(X[300:], coverage=0.9)
    >>> region
    BoxRegion(n=100, d=2)
    >>> float(region.contains(y[300:]).mean().round(2))
    0.92
    """

    def __init__(
        self,
        estimator: Any,
        shape: Literal["box", "ellipsoid"] = "box",
        *,
        method: Literal["split", "cv+"] = "split",
        cv: Any = None,
        held_out_size: float | int = 0.25,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.shape = shape
        self.method = method
        self.cv = cv
        self.held_out_size = held_out_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _children(self) -> dict[str, Any]:
        return {"estimator": _with_joint_distribution(self.estimator)}

    def _splits_by_groups(self) -> bool:
        return self.cv is not None

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        if self.method != "cv+":
            check_groups_need_cv(self.cv, fit_params)
        data = super()._read(X, y, sample_weight, fit_params, caller)
        check_complete(data.y, self._labels())
        return replace(data, params=data.params["estimator"])

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        score = REGION_SCORES[check_option(self.shape, "shape", tuple(REGION_SCORES))]
        method = check_option(self.method, "method", ("split", "cv+"))
        effective_rows(data.sample_weight, len(data))  # ranks count repetitions, so relative weights raise
        split_seed, model_seed = check_random_state(self.random_state).randint(MAX_SEED, size=2).tolist()
        estimator = self._children()["estimator"]
        if not isinstance(estimator, FrozenEstimator):
            estimator = seeded_clone(estimator, model_seed, self.random_state)
        if method == "split":
            self._fit_split(estimator, score, data, split_seed, progress)
        else:
            self._fit_cross(estimator, score, data, split_seed, progress)

    def _fit_split(
        self, estimator: Any, score: RegionScore, data: TrainingData, seed: int, progress: Progress
    ) -> None:
        held_out = fit_held_out(
            estimator,
            data,
            single_split(self, data, seed, for_several="For several folds, use method='cv+'."),
            partial(predict_region_moments, score=score),
            verbose=self.verbose,
            on_fold=progress.reporter("model"),
        )
        weight = check_tested_weight(data.repetitions[held_out.rows])
        ranks = WeightedRanks(score.score(held_out.prediction, data.y[held_out.rows]), weight)
        self._regions: SplitRegions | CrossRegions = SplitRegions(held_out.model, score, ranks)
        self.estimator_ = held_out.model.estimator
        self.calibration_rows_ = held_out.rows

    def _fit_cross(
        self, estimator: Any, score: RegionScore, data: TrainingData, seed: int, progress: Progress
    ) -> None:
        if isinstance(estimator, FrozenEstimator):
            raise ValueError(
                "`estimator` must not be frozen with method 'cv+', which refits it. Use method='split'."
            )
        check_unused(self, ("held_out_size",), "with method 'cv+'", "All rows are calibration rows.")
        folds = fit_folds(
            estimator,
            data,
            splits_of(resolve_cv(self.cv, seed), data),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            predict=partial(predict_region_moments, score=score),
            on_fold=progress.reporter("fold"),
        )
        regions = cross_regions(folds, data, score)
        with progress.task("model", estimator):
            self.estimator_ = fit_wrapped(estimator, data.X, data.target, **data.fit_params)
        self._regions = regions
        if hasattr(self, "calibration_rows_"):  # from an earlier fit
            del self.calibration_rows_

    @property
    def n_calibration_(self) -> float:
        """Number of calibration rows, or the sum of their weights."""
        check_is_fitted(self)
        return self._regions.n_calibration

    def predict_region(self, X: Any, coverage: float = DEFAULT_COVERAGE) -> PredictionRegion:
        """Return regions that contain all targets of a row with guaranteed coverage.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float, default=0.9
            Nominal probability that a region contains all targets of its row. Strictly between 0 and 1.

        Returns
        -------
        region : PredictionRegion of shape (n, d)
            Regions with the methods ``contains``, ``volume`` and ``bounds``: a `BoxRegion` with
            ``shape="box"``, and an `EllipsoidRegion` with "ellipsoid" and "split". If there are too few
            calibration rows for the coverage, the regions are infinite and a `SmallSampleWarning` is issued.
        """
        check_new(self, X)
        level = check_single_coverage(coverage)
        levels = np.array([level])
        warn_of_few_rows("coverage", levels, levels, self._regions.n_calibration)
        return self._regions.region(X, level)

    def predict_interval(self, X: Any, coverage: float = DEFAULT_COVERAGE) -> FloatArray:
        """Return intervals that contain all targets of a row with guaranteed coverage.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float, default=0.9
            Nominal probability that the intervals contain all targets of their row. Strictly between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d)
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]`` of the region of
            `predict_region`, in the units of the targets.
        """
        return self.predict_region(X, coverage).bounds()

    def _predict_joint(self, X: Any) -> JointDistribution:
        dist: Any = predict_dist(self.estimator_, X)
        return dist  # type: ignore[no-any-return]

    def _points(self, X: Any) -> FloatArray:
        return np.asarray(self.estimator_.predict(X), dtype=np.float64)


def _with_joint_distribution(estimator: Any) -> Any:
    inside = [] if isinstance(estimator, list | tuple) else list(iter_wrapped(estimator))
    is_joint_ngboost = (getattr(getattr(one, "Dist", None), "multi_output", False) for one in inside)
    if any(isinstance(one, FrozenEstimator) for one in inside) or any(is_joint_ngboost):
        return estimator
    own = (one for one in inside if isinstance(one, BaseJointRegressor | BaseUncertaintyRegressor))
    outermost = next(own, None)
    if outermost is not None and get_tags(outermost).target_tags.multi_output:
        return estimator
    return MultiOutputUncertaintyRegressor(estimator)
