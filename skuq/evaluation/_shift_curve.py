"""Scores of a model on test rows with a shifted distribution."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.metrics import check_scoring
from sklearn.metrics import get_scorer as sklearn_scorer
from sklearn.metrics import get_scorer_names as sklearn_scorer_names
from sklearn.model_selection import KFold, StratifiedKFold, cross_validate

from skuq._compat import (
    BaseScorer,
    accepts_sample_weight,
    count_rows,
    is_classifying,
    run_parallel,
    safe_indexing,
)
from skuq._fitting.cross_fit import resolve_cv
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    EFFECTIVE_ROWS,
    as_float_array,
    check_finite,
    check_integer,
    check_number,
    check_random_state,
)
from skuq.metrics import scorers as scorers_of

Transform = Callable[[Any, float, int], Any]


@dataclass(frozen=True, eq=False)
class Tilt:
    """Covariate shift through weights that increase exponentially along a direction of the features.

    Row i has the weight ``exp(severity * z_i)``, where z is a column or a weighted sum of columns. The
    weights simulate a distribution in which rows with large z are more frequent. The distribution of the
    targets given the features does not change. The weight of a row is proportional to the density of its
    features after the shift, divided by the density before the shift.

    Parameters
    ----------
    direction : int, str or array-like of shape (n_features,)
        Position or name of the column z, or one coefficient per column if z is a weighted sum. If z is normal
        with variance 1, the shift increases the mean of z by `severity`. If z has a different variance,
        standardize z, or divide the severities by the standard deviation of z.

    See Also
    --------
    shift_curve : Scores of a model under these weights.
    skuq.conformal.ConformalRegressor : Intervals that are corrected for a known shift by ``density_ratio``.

    References
    ----------
    .. [1] Tibshirani et al. (2019), Conformal prediction under covariate shift.
       https://arxiv.org/abs/1904.06019

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.evaluation import Tilt
    >>> X = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    >>> Tilt(0).weights(X, severity=1.0).round(2)
    array([0.27, 0.73, 2.  ])
    """

    direction: int | str | ArrayLike

    def weights(self, X: Any, severity: float) -> FloatArray:
        """Return the weight of each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n, n_features)
            Features.
        severity : float
            Strength of the shift. Must be finite. 0 means no shift.

        Returns
        -------
        weight : ndarray of shape (n,)
            Non-negative weights. The sum of the weights is n.
        """
        table = X if hasattr(X, "shape") else np.asarray(X)
        if len(table.shape) != 2:
            raise ValueError(f"`X` must have shape (n, n_features), got {table.shape}.")
        exponent = check_number(severity, "severity") * self._position(table)
        weight = np.exp(exponent - exponent.max())  # The largest weight is 1, so no weight overflows.
        return np.asarray(weight * (weight.size / weight.sum()))

    def _position(self, X: Any) -> FloatArray:
        is_sparse = bool(sparse.issparse(X))
        if isinstance(self.direction, str):
            if not isinstance(X, pd.DataFrame) or self.direction not in X.columns:
                known = ", ".join(map(str, X.columns)) if isinstance(X, pd.DataFrame) else "no names"
                raise ValueError(f"`direction` must be a column of X ({known}), got {self.direction!r}.")
            z: Any = X[self.direction]
        elif np.ndim(self.direction) == 0:
            column = check_integer(self.direction, "direction", minimum=0)
            if column >= X.shape[1]:
                raise ValueError(f"`direction` must be one of the {X.shape[1]} columns of X, got {column}.")
            # Some sparse formats cannot be indexed.
            z = X @ np.eye(1, X.shape[1], column)[0] if is_sparse else safe_indexing(X, column, axis=1)
        else:
            coefficient = check_finite(as_float_array(self.direction, "direction"), "direction")
            features: Any = X if is_sparse else as_float_array(X, "X")
            if coefficient.shape != features.shape[1:]:
                raise ValueError(
                    f"`direction` must have {features.shape[1]} coefficients, one per column of X, got shape "
                    f"{coefficient.shape}."
                )
            z = features @ coefficient
        return check_finite(as_float_array(z, "X"), "X")


def shift_curve(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    shift: Transform | Tilt,
    severities: ArrayLike,
    scoring: Any,
    cv: Any = None,
    params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> dict[str, FloatArray]:
    """Score a model on test rows with shifts of increasing severity.

    The curve shows whether intervals or prediction sets keep their coverage under a shift, and whether the
    intervals or sets become larger. The function is similar to `sklearn.model_selection.validation_curve`,
    but it varies the severity of the shift instead of a parameter. It supports regressors and classifiers,
    and all scorers.

    Parameters
    ----------
    estimator : estimator
        Model to score. It is cloned and fitted once per fold, to rows without a shift. A ``FrozenEstimator``
        is not fitted.
    X : array-like, DataFrame or sparse matrix of shape (n, n_features)
        Features.
    y : array-like of shape (n,)
        Targets.
    shift : callable or Tilt
        Function ``shift(X, severity, random_state) -> X`` that changes the test rows but not their targets.
        For example, it may add noise, rotate an image or remove a sensor. The function receives a copy of X.
        It receives the same integer ``random_state`` at all severities of a fold. A `Tilt` does not change
        the rows, but its weights are passed to the scorers as ``sample_weight``.
    severities : array-like of shape (n_severities,)
        Strengths of the shift.
    scoring : str, callable, list, tuple or dict
        Name of a scorer of skuq or scikit-learn, a scorer ``scorer(estimator, X, y)``, a list of names, or a
        dictionary of names to scorers.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Cross-validation. None means 5 folds. An int k means k shuffled folds with a fixed seed. For
        classifiers, the folds are stratified by class.
    params : dict, default=None
        Parameters of the estimator's ``fit``. Values with one entry per row are divided into folds, like X.
        If metadata routing is enabled, the parameters are routed to the splitter and to ``fit`` as requested.
    n_jobs : int, default=None
        Number of jobs that run in parallel. One job fits or scores one fold. The results do not depend on
        ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Controls the shift function. Pass an int for reproducible output across calls.

    Returns
    -------
    scores : dict of str to ndarray of shape (n_severities, n_folds)
        Scores of the model. The keys are the names of the scorers. A `Tilt` adds "effective_rows": the
        effective number of weighted rows, ``sum(weight) ** 2 / sum(weight ** 2)``. Scores with fewer than
        about 50 effective rows are too imprecise to use.

    Raises
    ------
    TypeError
        If a scorer does not return one number, or does not accept the ``sample_weight`` of a `Tilt`.
    ValueError
        If the function changes the number of rows.

    See Also
    --------
    skuq.displays.ShiftCurveDisplay : A plot of the curve.
    skuq.metrics.conditional_coverage : Coverage by groups of observed rows, such as years.

    Notes
    -----
    The cost is one fit per fold, and one prediction per fold and severity. All scorers of one kind share this
    prediction.

    To evaluate a fitted model on other rows, pass ``FrozenEstimator(model)`` with ``cv=[(rows, rows)]``. If
    metadata routing is enabled, scorers must request ``sample_weight`` for a `Tilt`.

    References
    ----------
    .. [1] Kompa et al. (2021), Empirical frequentist coverage of deep learning uncertainty quantification
       procedures. https://doi.org/10.3390/e23121608

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.evaluation import Tilt, shift_curve
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> scores = shift_curve(
    ...     BayesianRidge(), X, y, shift=Tilt(2), severities=[0, 0.5, 1], scoring=["picp", "r2"]
    ... )
    >>> scores["picp"].mean(axis=1).round(2)  # the mean body mass index increases
    array([0.89, 0.88, 0.88])
    >>> scores["effective_rows"].mean(axis=1).round()
    array([88., 66., 30.])
    """
    strengths = as_float_array(severities, "severities")
    if strengths.ndim != 1 or not strengths.size:
        raise ValueError(f"`severities` must have shape (n_severities,), got {strengths.shape}.")
    check_finite(strengths, "severities")
    if not (isinstance(shift, Tilt) or callable(shift)):
        raise TypeError(f"`shift` must be a Tilt or a function of X, severity and seed, got {shift!r}.")
    scorers = _scorers(scoring)
    if isinstance(shift, Tilt):
        _check_take_weights(scorers)
    rng = check_random_state(random_state)
    fitted = cross_validate(
        estimator,
        X,
        y,
        scoring=_no_score,
        cv=_splitter(cv, estimator),
        n_jobs=n_jobs,
        return_estimator=True,
        return_indices=True,
        error_score="raise",
        params=None if params is None else dict(params),
    )
    folds = list(zip(fitted["estimator"], fitted["indices"]["test"], strict=True))
    seeds = rng.randint(2**31 - 1, size=len(folds))
    tasks = (
        partial(
            _score_fold,
            model,
            safe_indexing(X, rows),
            safe_indexing(y, rows),
            shift,
            strengths,
            scorers,
            int(seed),
        )
        for (model, rows), seed in zip(folds, seeds, strict=True)
    )
    results = list(run_parallel(tasks, n_jobs=n_jobs))
    return {name: np.column_stack([result[name] for result in results]) for name in results[0]}


def _splitter(cv: Any, estimator: Any) -> Any:
    """Return the splitter. An int means shuffled folds, which are stratified for classifiers."""
    splitter = resolve_cv(cv, random_state=0)
    if splitter is not cv and isinstance(splitter, KFold) and is_classifying(estimator):
        return StratifiedKFold(splitter.n_splits, shuffle=True, random_state=splitter.random_state)
    return splitter


def _no_score(estimator: Any, X: Any, y: Any) -> float:
    return 0.0


def _scorers(scoring: Any) -> dict[str, Any]:
    if isinstance(scoring, str):
        return {scoring: _scorer(scoring)}
    if isinstance(scoring, Mapping):
        scorers = {str(name): _scorer(each) for name, each in scoring.items()}
    elif isinstance(scoring, list | tuple):
        if not all(isinstance(each, str) for each in scoring):
            raise TypeError(
                f"`scoring` must be a list of names, or a dict of names to scorers, got {scoring!r}."
            )
        scorers = {name: _scorer(name) for name in scoring}
    elif callable(scoring):
        scorers = {getattr(scoring, "__name__", "score"): scoring}
    else:
        raise TypeError(f"`scoring` must be a name, a scorer, or several of them, got {scoring!r}.")
    if not scorers:
        raise ValueError("`scoring` must hold at least one scorer, got none.")
    if EFFECTIVE_ROWS in scorers:
        raise ValueError(
            f"`scoring` must not use the name {EFFECTIVE_ROWS!r}, because the result already has an entry "
            "with this name."
        )
    return scorers


def _scorer(scoring: Any) -> Any:
    if not isinstance(scoring, str):
        return scoring
    # A curve selects no model, so a metric such as the coverage needs no direction.
    return sklearn_scorer(scoring) if scoring in sklearn_scorer_names() else scorers_of(scoring)[scoring]


def _check_take_weights(scorers: Mapping[str, Any]) -> None:
    for name, scorer in scorers.items():
        if not accepts_sample_weight(scorer):
            raise TypeError(
                f"`scoring` must contain scorers that accept `sample_weight`, but {name!r} does not accept "
                "it. A Tilt weights the rows. Leave this scorer out, or pass a function as `shift`."
            )


def _score_fold(
    model: Any,
    X: Any,
    y: Any,
    shift: Transform | Tilt,
    severities: FloatArray,
    scorers: Mapping[str, Any],
    seed: int,
) -> dict[str, FloatArray]:
    found = []
    for severity in severities.tolist():
        if isinstance(shift, Tilt):
            weight = shift.weights(X, severity)
            scores = _scores(scorers, model, X, y, sample_weight=weight)
            found.append({**scores, EFFECTIVE_ROWS: weight.sum() ** 2 / np.square(weight).sum()})
        else:
            found.append(_scores(scorers, model, _shifted(shift, X, severity, seed), y))
    return {name: np.array([each[name] for each in found], dtype=np.float64) for name in found[0]}


def _shifted(shift: Transform, X: Any, severity: float, seed: int) -> Any:
    # Without the copy, changes in place would accumulate over the severities.
    shifted = shift(deepcopy(X), severity, seed)
    n, n_shifted = count_rows(X), 0 if shifted is None else count_rows(shifted)
    if n_shifted != n:
        raise ValueError(f"`shift` must not change the number of rows, got {n_shifted} rows for {n} rows.")
    return shifted


def _scores(scorers: Mapping[str, Any], model: Any, X: Any, y: Any, **metadata: Any) -> dict[str, float]:
    sharing = {name: scorer for name, scorer in scorers.items() if isinstance(scorer, BaseScorer)}
    found = check_scoring(model, scoring=sharing)(model, X, y, **metadata) if sharing else {}
    own = {name: scorer(model, X, y, **metadata) for name, scorer in scorers.items() if name not in sharing}
    for name, value in own.items():
        if not isinstance(value, numbers.Real):
            raise TypeError(
                f"`scoring` must contain scorers that return one number, but {name!r} returns a "
                f"{type(value).__name__}. For several scores, pass a dict of names to scorers."
            )
    return {name: (found | own)[name] for name in scorers}
