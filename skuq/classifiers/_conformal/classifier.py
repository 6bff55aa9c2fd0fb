"""Conformal prediction sets for any classifier."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Hashable
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Tags, check_consistent_length, get_tags, indexable
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._sklearn_compat import count_rows, is_classifying, is_regressing
from skuq._typing import ArrayLike, BoolArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_coverage,
    check_integer,
    check_new,
    check_option,
    check_random_state,
    check_sample_weight,
    check_X,
    effective_rows,
)
from skuq._versioned import VersionedMixin
from skuq.classifiers._conformal.cross import fit_cross
from skuq.classifiers._conformal.scores import select_score
from skuq.classifiers._conformal.settings import BY_CLASS, LabelledRows, SetSettings, SetStrategy
from skuq.classifiers._conformal.split import SplitSets, fit_split
from skuq.classifiers._labels import check_labels
from skuq.prediction._cross_fit import Split, resolve_cv, split_rows
from skuq.prediction._fit_metadata import router_for, split_metadata
from skuq.prediction._random import MAX_SEED
from skuq.prediction._row_sets import check_calibration_size, check_disjoint, n_held_out, stratified_split
from skuq.recalibration._calibration_set import check_density_ratio, check_group_by
from skuq.recalibration._mondrian import check_groups

__all__ = ["ConformalClassifier"]


class ConformalClassifier(ClassifierMixin, VersionedMixin, BaseEstimator):
    r"""Prediction sets with guaranteed coverage for exchangeable rows, with any classifier.

    Which set of classes contains 90 % of new labels if nothing is assumed but that new rows are exchangeable
    with those of `fit`? How large it must be follows from the ranks of the labels' scores on rows left out
    of the fit. Prefer `skuq.prediction.predict_set` of the classifier itself where its probabilities are
    known to be calibrated, or where no rows can be held out.

    Parameters
    ----------
    estimator : estimator
        Any classifier with ``predict_proba``; cloned. A FrozenEstimator is not refitted: all rows given to
        `fit` calibrate it, and must not be among those it was fitted on.
    method : {"lac", "aps"}, default="lac"
        - "lac" (least ambiguous set-valued classifier) takes the classes whose probability exceeds a
          threshold: the smallest sets on average. Rows that are hard to classify are covered less often.
        - "aps" (adaptive prediction sets) takes classes in the order of their probability until their sum
          exceeds a threshold: larger sets, whose coverage varies less between easy and hard rows.
    randomized : bool, default=False
        Whether "aps" draws a random number for each row, by which coverage is exact and sets are smaller
        for uncertain rows. With False the sum is that of the classes above the class.
    penalty : float, default=0
        Amount added to the score of "aps" for each rank beyond ``k_reg`` (RAPS), non-negative: sets of very
        many classes become rare.
    k_reg : int, default=0
        Number of ranks of "aps" without penalty.
    group_by : {"class"}, callable, column name or None, default=None
        Groups with a guarantee for each (Mondrian). "class" covers each class with the nominal coverage. A
        callable takes X of n rows and returns n labels; any other name is a column of the DataFrame X, which
        is also a feature of the estimator. Not with several folds.
    rare_groups : {"raise", "pool"}, default="raise"
        Treatment of a label with no calibration rows, or fewer than ``min_group_size``: a ValueError, or
        calibration by the scores of all groups together.
    min_group_size : int, default=10
        Number of calibration rows below which a group is rare. Only with ``group_by``.
    density_ratio : callable or None, default=None
        Density ratio under covariate shift: takes X of n rows and returns n weights, the density of each
        x among the rows to be predicted over that among the rows of `fit`, up to a constant factor. Not with
        several folds.
    allow_empty : bool, default=False
        Whether sets may be empty, as they are for rows on which the classifier does better than the nominal
        coverage. With False an empty set becomes that of the most probable class, which only adds coverage.
    cv : int, splitter or iterable of (train, test), default=None
        None holds out ``calibration_size`` rows, stratified by class. One split, such as
        ``GroupShuffleSplit(1)`` or ``[(past, recent)]``, holds out its test rows. Several folds are CV+:
        nothing is held out, and each row is predicted by the model of its fold; an int k is
        ``StratifiedKFold(k, shuffle=True)``.
    calibration_size : float or int, default=0.25
        Share or number of rows held out at random to calibrate, if ``cv`` is None.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job is a fit; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Randomness of held-out rows and folds, of estimators without a seed of their own, and of randomized
        sets. An integer makes all results reproducible: each call of `predict_set` then draws the same
        numbers, so that rows should be predicted together, not one at a time.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier: that of the training rows, or of all rows where none are held out.
    classes_ : ndarray of shape (K,)
        Labels of the columns, those of ``estimator_``.
    calibration_rows_ : ndarray or None
        Numbers of the rows of `fit` that calibrate, in ascending order; None with several folds.
    n_calibration_ : float
        Number of rows that calibrate, weights counted.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    skuq.prediction.predict_set : Sets through Pipeline and searches.
    skuq.prediction.prediction_set : Sets of probabilities, without calibration.
    skuq.regressors.ConformalRegressor : Prediction intervals for regressors.

    Notes
    -----
    *Scores.* With the predicted probabilities :math:`p_k(x)`, "lac" scores a class by :math:`1 - p_k`
    ([1]_), and "aps" by the sum of the probabilities of all classes ranked above it, equal ones in the
    order of the columns, plus :math:`u \, p_k` if randomized, with u uniform on [0, 1] ([2]_). RAPS adds
    ``penalty`` times :math:`\max(r_k - k_\mathrm{reg}, 0)`, with the rank :math:`r_k` from 1 ([3]_). The
    usual form without randomness adds the probability of the class itself; then the rows whose label is
    predicted with the highest probability have the largest scores, and sets are several times as large. Some
    packages calibrate randomized scores and include the last class all the same, which covers far more than
    is nominal. Neither is done here.

    *Held-out rows.* The set contains the classes whose score is at most q, the
    :math:`\lceil (n + 1) c \rceil`-th smallest score of the labels of the n calibration rows. For rows
    exchangeable with these, at any n, the set contains the label with a probability of at least c and, with
    ``allow_empty=True`` and without ties of scores, at most c + 1/(n + 1). That is an average over the
    calibration rows: one calibration set covers more, the next less, with the distribution
    Beta(k, n + 1 - k), k the rank above. By ``group_by`` it holds within each group, with its own n; with
    "class" each class is compared with the quantile of its own rows. Fewer rows than c/(1 - c) give sets of
    all classes and a `SmallSampleWarning`.

    Rows held out by default are stratified: they have the shares of classes of all rows, which makes the
    average over calibration sets vary less. They are like new rows only approximately where most classes have
    few rows; ``cv=ShuffleSplit(1)`` holds rows out whatever their class, which is exact. Classes of which
    fewer than two rows would be held out are drawn together, so that the only row of a class may calibrate;
    with ``group_by="class"`` it always trains.

    *Folds (CV+).* A class is in the set if its score, computed by the model of each fold, exceeds fewer than
    c (n + 1) of the scores of that fold's rows, summed over folds ([2]_, section 2.3). Coverage, averaged
    over training sets too, is at least 2c - 1 less a term that vanishes as folds grow, and near c in
    practice.

    *Labels without training rows* are in no set. Where they occur among the calibration rows they count as
    misses, with an infinite score, so that coverage still holds: sets are larger, and contain all classes,
    with a `SmallSampleWarning`, where a share of more than 1 - c of the labels is unknown. With
    ``group_by="class"``, where each class has the scores of its own rows, unknown labels are left out.

    *Covariate shift.* With weights proportional to the density ratio, scores count by their weight and the
    new row by its own ([4]_); coverage then holds under the new distribution of X if that of y given x is
    the same. The error of an estimated ratio is not accounted for.

    Cost: one fit, O(n log n) time to calibrate, and one prediction, with a sort of each row for "aps"; m + 1
    fits and m predictions with m folds.

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
    >>> from skuq.classifiers import ConformalClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = ConformalClassifier(LogisticRegression(C=0.001, max_iter=500), random_state=0)
    >>> sets = model.fit(X_train, y_train).predict_set(X_test, coverage=0.99)
    >>> sets.shape
    (450, 10)
    >>> model.classes_[sets[33]]  # a digit that may be one of three
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
        allow_empty: bool = False,
        cv: Any = None,
        calibration_size: float | int = 0.25,
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
        self.allow_empty = allow_empty
        self.cv = cv
        self.calibration_size = calibration_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -------------------------------------------------------------------------------- fitting

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit the classifier and calibrate its prediction sets.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Training features; given to the wrapped estimator as they are.
        y : array-like of shape (n,)
            Class labels: numbers, strings or booleans.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        **fit_params : dict
            ``groups`` goes to the splitter, everything else to the wrapped estimator's ``fit``;
            values with one entry a row are sliced with the fold.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        data = self._read(X, y, sample_weight, fit_params)
        settings = self._settings()
        splits = self._splits(data, settings)
        if splits is None or len(splits) == 1:
            self._conformal: SetStrategy = fit_split(data, settings, splits[0] if splits else None)
        else:
            self._check_for_folds(len(splits))
            self._conformal = fit_cross(data, settings, splits)
        self.estimator_ = self._conformal.estimator
        self.classes_ = self._conformal.classes
        self.calibration_rows_ = None
        if isinstance(self._conformal, SplitSets):
            self.calibration_rows_ = self._conformal.calibration_rows
        return self

    def _read(self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any]) -> LabelledRows:
        """Return what `fit` was given, checked and sorted by its recipient."""
        _check_wrapped(self.estimator)
        check_X(X)
        labels = check_labels(y, self)
        validate_data(self, X, skip_check_array=True)
        (X,) = indexable(X)
        _check_group_by(self.group_by, X)
        check_consistent_length(X, labels)
        n = len(labels)
        if n < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 samples, got {n} sample.")
        if fit_params.get("groups") is not None and self.cv is None:
            raise ValueError(
                "`groups` is given, but rows are held out at random without regard to it: pass "
                "cv=GroupShuffleSplit(1), or leave `groups` out."
            )
        weight = check_sample_weight(sample_weight, n)
        effective_rows(weight, n)  # ranks need repetitions, so relative weights raise
        params, weight_params, groups = split_metadata(self, "fit", weight, fit_params)
        return LabelledRows(X, labels, weight, {**params, **weight_params}, groups)

    def _settings(self) -> SetSettings:
        """Return the checked parameters, and seeds drawn for this fit."""
        seeds = check_random_state(self.random_state).randint(MAX_SEED, size=3).tolist()
        rare_groups, min_group_size = check_groups(self.rare_groups, self.min_group_size)
        check_density_ratio(self.density_ratio)
        return SetSettings(
            estimator=self.estimator,
            score=select_score(self.method, self.randomized, self.penalty, self.k_reg),
            calibration_size=check_calibration_size(self.calibration_size),
            group_by=self.group_by,
            rare_groups=rare_groups,
            min_group_size=min_group_size,
            density_ratio=self.density_ratio,
            allow_empty=bool(check_option(self.allow_empty, "allow_empty", (True, False))),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            random_state=self.random_state,
            split_seed=seeds[0],
            model_seed=seeds[1],
            score_seed=seeds[2],
        )

    def _splits(self, data: LabelledRows, settings: SetSettings) -> list[Split] | None:
        """Return training and test rows of one split or of several folds; None for a frozen classifier."""
        if isinstance(self.estimator, FrozenEstimator):
            if self.cv is not None:
                raise ValueError(
                    "`cv` must be None with a FrozenEstimator: it is not fitted, so that all rows given to "
                    "`fit` calibrate."
                )
            return None
        if self.cv is None:
            held_out = n_held_out(settings.calibration_size, len(data))
            # a guarantee for each class is one for new rows of classes that are known
            exchangeable = settings.group_by != BY_CLASS
            return [stratified_split(data.labels, held_out, settings.split_seed, exchangeable=exchangeable)]
        cv = self.cv
        if isinstance(cv, numbers.Integral):
            folds = check_integer(cv, "cv", minimum=2)
            cv = StratifiedKFold(folds, shuffle=True, random_state=settings.split_seed)
        splits = [
            (train, np.sort(test))
            for train, test in split_rows(resolve_cv(cv), data.X, data.labels, data.groups)
        ]
        check_disjoint(splits, len(data))
        return splits

    def _check_for_folds(self, n_folds: int) -> None:
        """Raise where a parameter is one of held-out rows only."""
        for name in ("group_by", "density_ratio"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"`{name}` must be None with several folds, got {n_folds} from `cv`. Hold rows out "
                    "instead: cv=None, or one split such as ShuffleSplit(1)."
                )

    # ---------------------------------------------------------------------------- prediction

    @property
    def n_calibration_(self) -> float:
        """Number of rows that calibrate, weights counted."""
        check_is_fitted(self)
        return self._conformal.n_calibration

    def predict_set(self, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> BoolArray:
        """Return the prediction sets that carry the guarantee.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the prediction set, strictly between 0 and 1.

        Returns
        -------
        sets : ndarray of bool of shape (n, K), or (n, K, k) for k coverages
            Whether each of ``classes_`` is in the set of row i. All classes, with a `SmallSampleWarning`,
            where the coverage needs more calibration rows.
        """
        check_new(self, X)
        checked = check_coverage(coverage)
        uniform = None
        if self._conformal.settings.score.randomized:
            uniform = check_random_state(self.random_state).random_sample(count_rows(X))
        sets = self._conformal.sets(X, np.atleast_1d(checked), uniform)
        return sets if checked.ndim else sets[:, :, 0]

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels that the wrapped classifier predicts.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        labels : ndarray of shape (n,)
            One of ``classes_`` for each row.
        """
        check_new(self, X)
        return np.asarray(self.estimator_.predict(self._conformal.model_input(X)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities that the wrapped classifier predicts.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        proba : ndarray of shape (n, K)
            Probability of each of ``classes_``, not calibrated here.
        """
        check_new(self, X)
        return np.asarray(self.estimator_.predict_proba(self._conformal.model_input(X)))

    # ------------------------------------------------------------------------- scikit-learn

    def get_metadata_routing(self) -> Any:
        """Return where metadata goes: ``groups`` to the splitter, the rest to the wrapped ``fit``.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        return router_for(self, estimator=self.estimator)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of the wrapped estimator; X is passed on to it as it is."""
        tags = super().__sklearn_tags__()
        try:
            child = get_tags(self.estimator)
        except Exception:  # other packages' estimators may have no scikit-learn tags, or broken ones
            return tags
        tags.input_tags = child.input_tags
        tags.non_deterministic = child.non_deterministic
        if child.classifier_tags is not None:
            tags.classifier_tags = child.classifier_tags
            tags.classifier_tags.multi_label = False
        return tags


def _check_group_by(group_by: Any, X: Any) -> None:
    """Raise unless the parameter is a callable, a name or None, and a name is of one thing only."""
    check_group_by(group_by)
    if group_by == BY_CLASS and isinstance(X, pd.DataFrame) and BY_CLASS in X.columns:
        raise ValueError(
            "`group_by` 'class' stands for the labels in y, but X has a column of this name. Pass "
            "`lambda X: X['class']` for the column; rename it for sets of each class."
        )


def _check_wrapped(estimator: Any) -> None:
    """Raise unless the wrapped estimator is an instance that may be a classifier."""
    if isinstance(estimator, type):
        raise TypeError(f"`estimator` must be an instance, got the class {estimator.__name__}.")
    name = type(estimator).__name__
    if is_regressing(estimator):
        raise ValueError(
            f"`estimator` must be a classifier, got the regressor {name}. Use "
            "skuq.regressors.ConformalRegressor, which gives intervals."
        )
    if not (hasattr(estimator, "fit") and (is_classifying(estimator) or hasattr(estimator, "predict"))):
        raise TypeError(f"`estimator` must be a classifier with `fit` and `predict_proba`, got {name}.")
