"""Conformal prediction sets for any classifier."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from skuq._compat import count_rows, is_classifying, is_regressing, versioned
from skuq._fitting.cross_fit import Split, stratified_split
from skuq._fitting.seeds import MAX_SEED, seeded_clone
from skuq._fitting.training_data import (
    TrainingData,
    check_clonable,
    check_labels,
    check_rows,
    router_for,
    split_metadata,
)
from skuq._typing import ArrayLike, BoolArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_coverage,
    check_integer,
    check_new,
    check_option,
    check_random_state,
    check_unused,
    check_X,
    effective_rows,
)
from skuq.conformal._base import check_groups_need_cv, held_out_splits
from skuq.conformal._sets import CrossSets, SplitSets, fit_cross_sets, fit_split_sets, select_score
from skuq.conformal._split import GroupsAndShift

BY_CLASS = "class"
"""Value of ``group_by`` for a separate guarantee for each class."""


@versioned
class ConformalClassifier(ClassifierMixin, BaseEstimator):
    r"""Prediction sets with guaranteed coverage for any classifier, calibrated on held-out rows.

    The sets are computed from the ranks of scores on calibration rows. These rows are not used to fit the
    estimator. The guarantee assumes only that new rows and calibration rows are exchangeable. Prefer
    `skuq.conformal.predict_set` if the probabilities of the classifier are calibrated, or if you cannot hold
    out rows.

    Parameters
    ----------
    estimator : estimator
        Any classifier with ``predict_proba``; cloned. A FrozenEstimator is not refitted: all rows passed to
        `fit` are calibration rows. Pass rows that the frozen model was not trained on.
    method : {"lac", "aps"}, default="lac"
        - "lac" (least ambiguous set-valued classifier) includes all classes whose probability is above a
          threshold. On average, the sets are the smallest, but the coverage is lower for rows that are
          difficult to classify.
        - "aps" (adaptive prediction sets) includes the most probable classes until the sum of their
          probabilities is above a threshold. The sets are larger, but the coverage differs less between rows.
    randomized : bool, default=False
        Whether the "aps" score of a class includes a random share of its probability. With True, the coverage
        is exact, and the prediction sets for rows with an uncertain class are smaller. With False, the score
        is the sum of the probabilities of the more probable classes.
    penalty : float, default=0
        Non-negative number that is added to the "aps" score of a class for each rank beyond ``k_reg`` (RAPS).
        With a penalty, sets of many classes are rare.
    k_reg : int, default=0
        Number of most probable classes without a penalty in "aps".
    group_by : {"class"}, callable, column name or None, default=None
        Labels of groups. The coverage is guaranteed within each group (Mondrian conformal prediction). With
        "class", the groups are the classes. A callable gets X of n rows and returns n labels. Any other name
        is the name of a column of the DataFrame X. The estimator also gets this column as a feature. Must be
        None with several folds.
    rare_groups : {"raise", "pool"}, default="raise"
        Treatment of groups with fewer than ``min_group_size`` calibration rows. "raise" raises a ValueError.
        "pool" calibrates such a group with the scores of all groups. Only used with ``group_by``.
    min_group_size : int, default=10
        A group with fewer calibration rows is rare. Only used with ``group_by``.
    density_ratio : callable or None, default=None
        Density ratio for covariate shift. The callable gets X of n rows and returns n weights: the density of
        x in the rows to be predicted, divided by the density of x in the rows passed to `fit`. A constant
        factor in the weights has no effect. Must be None with several folds.
    basis : callable, column name, list of column names or None, default=None
        Functions of x for which the coverage is guaranteed, for example the indicators of overlapping groups.
        See `skuq.conformal.ConformalRegressor`. Must be None with ``group_by``, ``density_ratio`` or several
        folds.
    allow_empty : bool, default=False
        Whether sets may be empty. If the accuracy of the classifier is above the nominal coverage, the
        prediction sets for rows that are easy to classify are empty. With False, the most probable class is
        added to empty sets, which increases the coverage.
    cv : int, "last", splitter or iterable of (train, test), default=None
        None holds out ``held_out_size`` rows, stratified by class. "last" holds out the last rows. Use
        "last" for rows in chronological order. If a splitter gives one split, such as
        ``GroupShuffleSplit(1)``, its test rows are held out. With several folds (CV+), no rows are held out:
        each row is predicted by the model that is fitted without its fold. An int k means
        ``StratifiedKFold(k, shuffle=True)``.
    held_out_size : float or int, default=0.25
        Share or number of rows that are held out for calibration. Do not set it if ``cv`` gives folds or is a
        splitter, or if the estimator is a FrozenEstimator.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each fit is one job. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the held-out rows and folds, of estimators without a seed of their own, and of randomized
        sets. An integer makes results reproducible. With an integer, each call of `predict_set` uses the same
        random numbers. Therefore, predict all rows in one call.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit` works, 2 prints more.

    Attributes
    ----------
    estimator_ : estimator
        Classifier fitted to the training rows, or to all rows if no rows are held out.
    classes_ : ndarray of shape (K,)
        Class labels, in the order of the columns of `predict_proba`.
    calibration_rows_ : ndarray or None
        Indices of the calibration rows in the arrays passed to `fit`, in ascending order. None with several
        folds.
    n_calibration_ : float
        Number of calibration rows, or the sum of their weights.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    skuq.conformal.predict_set : Prediction sets of a fitted estimator, Pipeline or search.
    skuq.conformal.prediction_set : Sets from class probabilities, without calibration.
    skuq.conformal.ConformalRegressor : Prediction intervals for regressors.

    Notes
    -----
    *Scores.* Let :math:`p_k(x)` be the predicted probabilities. The "lac" score of a class is :math:`1 - p_k`
    ([1]_). The "aps" score of a class is the sum of the probabilities of all more probable classes. Equal
    probabilities are ranked in the order of the columns. If ``randomized``, :math:`u \, p_k` is added to the
    "aps" score, where u is uniform on [0, 1] ([2]_). RAPS adds ``penalty`` times :math:`\max(r_k -
    k_\mathrm{reg}, 0)`, where the rank :math:`r_k` starts at 1 ([3]_). Other packages differ in two respects.
    First, without randomization, they include the probability of the class itself in its score. Labels with a
    high probability then have large scores, and sets are several times larger. Second, some packages
    calibrate randomized scores, but always include the class with which the sum of the probabilities crosses
    the threshold. Their coverage is far above the nominal coverage.

    *Held-out rows.* Let q be the :math:`\lceil (n + 1) c \rceil`-th smallest score of the labels of the n
    calibration rows. The set contains the classes with a score of at most q. If rows are exchangeable, the
    set contains the label with a probability of at least c, for any n. With ``allow_empty=True`` and without
    equal scores, the probability is at most c + 1/(n + 1). This probability is an average over calibration
    sets. The coverage given one calibration set varies: it has the distribution Beta(k, n + 1 - k), where k
    is the rank of q. With ``group_by``, the guarantee holds within each group, and n is the number of
    calibration rows of the group. With "class", the score of a class is compared with the quantile of the
    scores of its own calibration rows. If n is less than c/(1 - c), sets contain all classes and a
    `SmallSampleWarning` is issued.

    By default, held-out rows are stratified: the share of each class is the same in the held-out rows as in
    all rows. The coverage then varies less between calibration sets. If most classes have few rows,
    stratified rows and new rows are only approximately exchangeable. With ``cv=ShuffleSplit(1)``, rows are
    drawn without regard to the classes, and the guarantee is exact. A class is rare if fewer than two of its
    rows would be held out. All rare classes are stratified as one class. Therefore, the only row of a class
    may be a calibration row. With ``group_by="class"``, however, the only row of a class is always a training
    row.

    *Folds (CV+).* The model of each fold gives a score to the class. The score is compared with the
    calibration scores of the rows of the same fold. A calibration score counts if it is below the score of
    the class. The counts of all folds are added. The class is in the set if the sum is less than c (n + 1)
    ([2]_, section 2.3). Averaged over training sets, the coverage is at least 2c - 1, minus a term that is
    small if the folds are large. In practice, the coverage is close to c.

    *Labels without training rows* are not in any set. Calibration rows with such a label have an infinite
    score and count as missed. Therefore, sets are larger and the guarantee holds. If the share of rows with
    such labels is more than 1 - c, sets contain all classes and a `SmallSampleWarning` is issued. With
    ``group_by="class"``, rows with such labels are not used, because each class is calibrated with its own
    rows.

    *Covariate shift.* The weight of each calibration score is the density ratio of its row. The weight of the
    new row is its own density ratio ([4]_). The coverage then holds under the new distribution of X, provided
    that the distribution of y given x does not change. The guarantee holds only if the density ratio is
    exact.

    Cost of `fit`: one fit of the classifier, and O(n log n) time to calibrate. Cost of a prediction: one
    prediction of the classifier. "aps" also sorts the classes of each row. With m folds, m + 1 fits and m
    predictions are needed.

    References
    ----------
    .. [1] M. Sadinle, J. Lei, L. Wasserman, "Least ambiguous set-valued classifiers with bounded error
       levels", Journal of the American Statistical Association 114(525), 2019,
       doi:10.1080/01621459.2017.1395341.
    .. [2] Y. Romano, M. Sesia, E. J. Candès, "Classification with valid and adaptive coverage", NeurIPS
       2020, https://arxiv.org/abs/2006.02544.
    .. [3] A. N. Angelopoulos, S. Bates, M. I. Jordan, J. Malik, "Uncertainty sets for image classifiers
       using conformal prediction", ICLR 2021, https://arxiv.org/abs/2009.14193.
    .. [4] R. J. Tibshirani, R. Foygel Barber, E. J. Candès, A. Ramdas, "Conformal prediction under
       covariate shift", NeurIPS 2019, https://arxiv.org/abs/1904.06019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import train_test_split
    >>> from skuq.conformal import ConformalClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = ConformalClassifier(LogisticRegression(C=0.001, max_iter=500), random_state=0)
    >>> sets = model.fit(X_train, y_train).predict_set(X_test, coverage=0.99)
    >>> sets.shape
    (450, 10)
    >>> model.classes_[sets[33]]  # the set of an ambiguous digit
    array([1, 3, 8])
    """

    def __init__(
        self,
        estimator: Any,
        method: Literal["lac", "aps"] = "lac",
        *,
        randomized: bool = False,
        penalty: float = 0,
        k_reg: int = 0,
        group_by: Callable[[Any], Any] | Hashable | None = None,
        rare_groups: Literal["raise", "pool"] = "raise",
        min_group_size: int = 10,
        density_ratio: Callable[[Any], ArrayLike] | None = None,
        basis: Callable[[Any], Any] | Hashable | list[Hashable] | None = None,
        allow_empty: bool = False,
        cv: Any = None,
        held_out_size: float | int = 0.25,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.randomized = randomized
        self.penalty = penalty
        self.k_reg = k_reg
        self.group_by = group_by
        self.rare_groups = rare_groups
        self.min_group_size = min_group_size
        self.density_ratio = density_ratio
        self.basis = basis
        self.allow_empty = allow_empty
        self.cv = cv
        self.held_out_size = held_out_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit the classifier, and calibrate its prediction sets.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Training features, which are passed to the wrapped estimator unchanged.
        y : array-like of shape (n,)
            Class labels: numbers, strings or booleans.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        **fit_params : dict
            ``groups`` is passed to the splitter. All other parameters are passed to ``fit`` of the wrapped
            estimator. Values with one entry per row are divided into folds, like X.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        data = self._read(X, y, sample_weight, fit_params)
        split_seed, model_seed, score_seed = (
            check_random_state(self.random_state).randint(MAX_SEED, size=3).tolist()
        )
        score = select_score(self.method, self.randomized, self.penalty, self.k_reg)
        uniform = check_random_state(score_seed).random_sample(len(data)) if score.randomized else None
        allow_empty = bool(check_option(self.allow_empty, "allow_empty", (True, False)))
        options, by_class = self._options()
        splits = self._splits(data, split_seed)
        estimator = self.estimator
        if splits is not None:
            estimator = seeded_clone(estimator, model_seed, self.random_state)
        if splits is None or len(splits) == 1:
            conformal: SplitSets | CrossSets = fit_split_sets(
                estimator,
                data,
                None if splits is None else splits[0],
                score,
                uniform,
                options,
                by_class=by_class,
                allow_empty=allow_empty,
                verbose=self.verbose,
            )
        else:
            remedy = "Hold rows out instead: pass cv=None, or one split such as ShuffleSplit(1)."
            condition = f"with several folds, {len(splits)} from `cv`"
            check_unused(self, ("group_by", "density_ratio", "basis"), condition, remedy)
            conformal = fit_cross_sets(
                estimator,
                data,
                splits,
                score,
                uniform,
                allow_empty=allow_empty,
                n_jobs=self.n_jobs,
                verbose=self.verbose,
            )
        self._conformal = conformal
        self.estimator_ = conformal.model.estimator
        self.classes_ = conformal.classes
        self.calibration_rows_ = conformal.calibration_rows if isinstance(conformal, SplitSets) else None
        return self

    def _read(self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any]) -> TrainingData:
        """Check the arguments of `fit`. Divide the metadata between the splitter and the classifier."""
        _check_wrapped(self.estimator)
        check_X(X)
        labels = check_labels(y, self)
        _check_group_by(self.group_by, X)
        check_groups_need_cv(self.cv, fit_params)
        X, weight, _ = check_rows(self, X, labels, sample_weight, fit_params)
        effective_rows(weight, len(labels))  # raises for relative weights
        params, weight_params, groups = split_metadata(self, "fit", weight, fit_params)
        return TrainingData(X, labels, weight, params, weight_params, groups)

    def _options(self) -> tuple[GroupsAndShift, bool]:
        options, by_class = GroupsAndShift.from_params(self), self.group_by == BY_CLASS
        return (replace(options, group_by=None) if by_class else options), by_class

    def _splits(self, data: TrainingData, seed: int) -> list[Split] | None:
        """Return the training and test rows of one or several folds, or None for a frozen classifier."""

        def draw(n_held_out: int) -> Split:
            # with a guarantee for each class, the only row of a class is always a training row
            exchangeable = self.group_by != BY_CLASS
            return stratified_split(data.y, n_held_out, seed, exchangeable=exchangeable)

        cv = self.cv
        if isinstance(cv, numbers.Integral):
            folds = check_integer(cv, "cv", minimum=2)
            cv = StratifiedKFold(folds, shuffle=True, random_state=seed)
        return held_out_splits(self, cv, data, draw)

    @property
    def n_calibration_(self) -> float:
        """Number of calibration rows, or the sum of their weights."""
        check_is_fitted(self)
        return self._conformal.n_calibration

    def predict_set(self, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> BoolArray:
        """Return the prediction set of each row, with guaranteed coverage.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the prediction set, strictly between 0 and 1.

        Returns
        -------
        sets : ndarray of bool of shape (n, K), or (n, K, k) for k coverages
            Whether each class of ``classes_`` is in the set of the row. If there are too few calibration rows
            for the coverage, sets contain all classes and a `SmallSampleWarning` is issued.
        """
        check_new(self, X)
        checked = check_coverage(coverage)
        uniform = None
        if self._conformal.score.randomized:
            uniform = check_random_state(self.random_state).random_sample(count_rows(X))
        sets = self._conformal.sets(X, np.atleast_1d(checked), uniform)
        return sets if checked.ndim else sets[:, :, 0]

    def predict(self, X: Any) -> np.ndarray:
        """Return the label that the wrapped classifier predicts for each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        labels : ndarray of shape (n,)
            Labels from ``classes_``.
        """
        check_new(self, X)
        return np.asarray(self.estimator_.predict(self._conformal.model.model_input(X)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities that the wrapped classifier predicts.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        proba : ndarray of shape (n, K)
            Probabilities of the classes in the order of ``classes_``, without calibration.
        """
        check_new(self, X)
        return np.asarray(self.estimator_.predict_proba(self._conformal.model.model_input(X)))

    # ------------------------------------------------------------------------- scikit-learn

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing: ``groups`` for the splitter, other metadata for the wrapped ``fit``.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        return router_for(self, estimator=self.estimator)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of the wrapped estimator."""
        tags = super().__sklearn_tags__()
        try:
            child = get_tags(self.estimator)
        except Exception:  # estimators of other packages may have no tags
            return tags
        tags.input_tags = child.input_tags
        tags.non_deterministic = child.non_deterministic
        if child.classifier_tags is not None:
            tags.classifier_tags = child.classifier_tags
            tags.classifier_tags.multi_label = False
        return tags


def _check_group_by(group_by: Any, X: Any) -> None:
    """Raise an error if X has a column "class", because ``group_by="class"`` would then be ambiguous."""
    by_class = isinstance(group_by, str) and group_by == BY_CLASS
    if by_class and isinstance(X, pd.DataFrame) and BY_CLASS in X.columns:
        raise ValueError(
            "`group_by` 'class' is ambiguous, because it means the classes in y, and X has a column of this "
            "name. To group by the column, pass `lambda X: X['class']`. To group by the classes, rename the "
            "column."
        )


def _check_wrapped(estimator: Any) -> None:
    """Raise an error if the estimator is a class, or cannot be a classifier."""
    if isinstance(estimator, type):
        raise TypeError(f"`estimator` must be an instance, got the class {estimator.__name__}.")
    name = type(estimator).__name__
    if is_regressing(estimator):
        raise ValueError(
            f"`estimator` must be a classifier, got the regressor {name}. Use "
            "skuq.conformal.ConformalRegressor, which predicts intervals."
        )
    if not (hasattr(estimator, "fit") and (is_classifying(estimator) or hasattr(estimator, "predict"))):
        raise TypeError(f"`estimator` must be a classifier with `fit` and `predict_proba`, got {name}.")
    check_clonable(estimator)
