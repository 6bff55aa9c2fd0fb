"""Regression of a target that has one value with positive probability, such as exact zeros."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import process_routing

from skuq._compat import is_classifying, routing_enabled, safe_indexing, slice_fit_params, warn_user
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import Split, resolve_cv, split_rows
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.seeds import MAX_SEED, Progress, seeded_clone
from skuq._fitting.training_data import TrainingData, read_training, routed_groups, router_for, weights_for
from skuq._typing import BoolArray, FloatArray, SupportLike
from skuq._validation import check_finite, check_integer, check_number, check_option, check_random_state
from skuq.distributions import Distribution, Hurdle, Truncated
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from skuq.prediction import predict_dist, supports_dist
from skuq.regressors._methods import is_calibrated


class HurdleRegressor(BaseUncertaintyRegressor):
    r"""Classifier for one value of the target, and a regressor for all other values.

    Use it for targets with many exact zeros, such as rainfall, claims and purchases. The classifier predicts
    the probability of zero. The regressor is fitted only to the other rows. If zeros are rare, or are small
    values that were rounded to zero, use the parameter ``support`` of `UncertaintyRegressor` instead.

    Parameters
    ----------
    classifier : estimator
        Classifier with ``predict_proba``; cloned. It is fitted to the labels 1 (the target is ``at``) and 0
        (any other value).
    regressor : estimator
        Any estimator that `predict_dist` accepts; cloned. Wrap a plain regressor in `UncertaintyRegressor`.
    at : float, default=0.0
        The value that the classifier predicts, in the units of y. If all other values lie on one side of
        ``at``, the distribution of the regressor is truncated to this side. The value may also lie inside the
        range of the other values.
    calibration : {"sigmoid", "isotonic", None}, default="sigmoid"
        Calibration of the classifier on folds by scikit-learn's `CalibratedClassifierCV`. The probability is
        the mean over the calibrated models of the folds. None uses the probabilities of one classifier that
        is fitted to all rows. A `CalibratedClassifierCV` as ``classifier`` is not calibrated again.
    cv : int, splitter or iterable of (train, test), default=5
        Folds of the calibration and of `fit_transform`. For the calibration, an int k means
        ``StratifiedKFold(k, shuffle=True)``.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are the means of the clipped forecasts.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job fits one fold. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of estimators without a seed of their own. An integer makes results
        reproducible.
    verbose : int, default=0
        1 prints about ten lines to stderr while `fit_transform` works, 2 prints more.

    Attributes
    ----------
    classifier_ : estimator
        The fitted classifier. It is calibrated if ``calibration`` is not None.
    regressor_ : estimator
        The fitted regressor.
    side_ : {"above", "below", "both"}
        Side of ``at`` on which the other values lie.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Raises
    ------
    ValueError
        If no row has the value ``at``, or if fewer than two rows have another value.

    See Also
    --------
    skuq.distributions.Hurdle : The predicted distribution.
    UncertaintyRegressor : Predictive distribution for any regressor. Its parameter ``support`` excludes
        negative values.
    skuq.displays.PredictionBandDisplay : Plot of the intervals and of the probability of the value.

    Notes
    -----
    Let p be the probability of the value a, and G the cdf of the regressor, truncated to its side of a. The
    cdf of the prediction is :math:`p 1\{a \le y\} + (1 - p) G(y)` [1]_. With an integer support, G is the
    distribution of the integers on its side of a. A zero-inflated model describes the same distributions with
    other parameters.

    ``benchmarks/kinds_of_target.py`` simulates two processes with 75 % zeros, 6 columns and 1500 training
    rows. In the smooth process, the probability of zero is a smooth function of one column. In the sharp
    process, it is a sharp function of four columns. The table shows the CRPS divided by the CRPS of the true
    distribution. "small" is a `HistGradientBoostingClassifier` with 100 rounds, 8 leaves and a learning rate
    of 0.05. "default" is the same class with default parameters. With "true", the classifier is replaced by
    the true probabilities of zero, so most of the loss comes from the classifier. The fit of the hurdle with
    "small" is faster than the fit of `UncertaintyRegressor`.

    =================================  ======  =====
    model                              smooth  sharp
    =================================  ======  =====
    `UncertaintyRegressor`, all rows   1.08    1.23
    hurdle, "default"                  1.05    1.13
    hurdle, "small"                    1.03    1.12
    hurdle, "true"                     1.02    1.03
    =================================  ======  =====

    In the sharp process, the loss of the classifier is not due to miscalibration. The trees approximate a
    steep function by steps.

    For positive amounts with a long tail, try a regressor of the logarithm.
    ``UncertaintyRegressor(TransformedTargetRegressor(regressor, func=np.log, inverse_func=np.exp))`` models
    the errors on the original scale. ``TransformedTargetRegressor(UncertaintyRegressor(regressor),
    func=np.log, inverse_func=np.exp)`` models the errors of the logarithms. For the gamma distributions of
    the two processes, neither has a better score than a regressor of the amounts without a logarithm.

    Cost: the classifier is fitted once per fold. Without calibration, it is fitted once to all rows. The
    regressor is fitted once to the rows with other values. `fit_transform` refits both models on folds.
    `predict` returns the mean of the distribution.

    References
    ----------
    .. [1] J. Mullahy, "Specification and testing of some modified count data models", Journal of
       Econometrics 33, 1986, doi:10.1016/0304-4076(86)90002-3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression, LogisticRegression
    >>> from skuq.regressors import HurdleRegressor, UncertaintyRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 1))
    >>> rain = (2 + 3 * X[:, 0]) * rng.gamma(4.0, 0.25, size=400)
    >>> y = np.where(rng.uniform(size=400) < 0.7, 0.0, rain)
    >>> regressor = UncertaintyRegressor(LinearRegression(), random_state=0)
    >>> model = HurdleRegressor(LogisticRegression(), regressor, random_state=0).fit(X, y)
    >>> dist = model.predict_dist([[0.2], [0.8]])
    >>> dist.cdf(0.0).round(1)
    array([0.7, 0.7])
    >>> bool((dist.interval(0.9)[:, 0] == 0).all())
    True
    """

    def __init__(
        self,
        classifier: Any,
        regressor: Any,
        at: float = 0.0,
        *,
        calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid",
        cv: Any = 5,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.classifier = classifier
        self.regressor = regressor
        self.at = at
        self.calibration = calibration
        self.cv = cv
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        """Check the arguments of ``fit``.

        The dict ``params`` holds the fit parameters of each model by name.
        """
        self._check_models()
        if not routing_enabled():
            data = read_training(self, X, y, sample_weight, fit_params, caller, route_weight=False)
            params = {
                name: weights_for(getattr(self, name), data.sample_weight, name)
                for name in ("classifier", "regressor")
            }
            return replace(data, params=params)
        data = read_training(self, X, y, sample_weight, {}, caller, route_weight=False)
        routed = process_routing(self, caller, **data.metadata, **fit_params)
        params = {"classifier": dict(routed.classifier.fit), "regressor": dict(routed.regressor.fit)}
        return replace(data, params=params, groups=routed_groups(routed))

    def _check_models(self) -> None:
        check_option(self.calibration, "calibration", ("sigmoid", "isotonic", None))
        if not (is_classifying(self.classifier) and hasattr(self.classifier, "predict_proba")):
            raise TypeError(
                "`classifier` must be a classifier with `predict_proba`, got "
                f"{type(self.classifier).__name__}."
            )
        if not supports_dist(self.regressor):
            name = type(self.regressor).__name__
            raise NotProbabilisticError(
                f"`regressor` must give a predictive distribution, but {name} gives none. Wrap it: "
                f"UncertaintyRegressor({name}(...))."
            )

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._value = at = check_number(self.at, "at")
        is_atom = data.y == at
        rest = np.flatnonzero(~is_atom)
        _check_both_parts(is_atom, data.repetitions > 0, at)
        seeds = check_random_state(self.random_state).randint(MAX_SEED, size=3).tolist()
        classifier = self._with_calibration(data, is_atom, *seeds[:2])
        regressor = seeded_clone(self.regressor, seeds[2], self.random_state)
        with progress.task("classifier", classifier):
            self.classifier_ = classifier.fit(data.X, is_atom.astype(int), **data.params["classifier"])
        params = slice_fit_params(data.X, data.params["regressor"], rest)
        with progress.task("regressor", regressor):
            self.regressor_ = fit_wrapped(regressor, safe_indexing(data.X, rest), data.y[rest], **params)
        above = bool((data.y[rest] > at).all())
        self.side_ = "above" if above else "below" if (data.y[rest] < at).all() else "both"

    def _with_calibration(
        self, data: TrainingData, is_atom: BoolArray, model_seed: int, fold_seed: int
    ) -> Any:
        classifier = seeded_clone(self.classifier, model_seed, self.random_state)
        if self.calibration is None or isinstance(classifier, CalibratedClassifierCV):
            return classifier
        folds = self._calibration_folds(data, is_atom, fold_seed)
        if folds is None:
            return classifier
        return CalibratedClassifierCV(
            classifier, method=self.calibration, cv=folds, n_jobs=self.n_jobs, ensemble="auto"
        )

    def _calibration_folds(self, data: TrainingData, is_atom: BoolArray, seed: int) -> list[Split] | None:
        """Return folds that contain both kinds of rows, or None if there are too few rows of one kind."""
        if not isinstance(self.cv, numbers.Integral):
            return split_rows(resolve_cv(self.cv, seed), data.X, is_atom.astype(int), data.groups)
        n_rare = int(min(is_atom.sum(), (~is_atom).sum()))
        n_folds = min(check_integer(self.cv, "cv", minimum=2), n_rare)
        if n_folds < 2:
            warn_user(
                f"the calibration of the classifier needs at least two rows with y = {self._value:g} and "
                f"two other rows, got {n_rare}. The probabilities are not calibrated.",
                SmallSampleWarning,
            )
            return None
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        return list(folds.split(np.empty(len(data)), is_atom))

    def _is_calibrated(self) -> bool:
        return is_calibrated(self.regressor)

    def _on_support(self, dist: Distribution) -> Distribution:
        return dist  # `_predict_dist` returns distributions on the support

    def _predict_dist(self, X: Any) -> Distribution:
        return Hurdle(self._probability(X), self._rest(predict_dist(self.regressor_, X)), self._value)

    def _probability(self, X: Any) -> FloatArray:
        proba = self.classifier_.predict_proba(X)
        p = np.asarray(proba[:, list(self.classifier_.classes_).index(1)], dtype=np.float64)
        return np.clip(check_finite(p, "predict_proba of the classifier"), 0.0, 1.0)

    def _rest(self, dist: Distribution) -> Distribution:
        support = self._support()
        if support is not None and support.integer and self.side_ != "both":
            low = self._value + 1 if self.side_ == "above" else support.lower
            high = self._value - 1 if self.side_ == "below" else support.upper
            return dist.clip(low, high, integer=True)
        if self.side_ == "above":
            dist = Truncated(dist, lower=self._value)
        elif self.side_ == "below":
            dist = Truncated(dist, upper=np.nextafter(self._value, -np.inf))
        return dist if support is None else support.apply(dist)

    # ------------------------------------------------------------------------- scikit-learn

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing: ``groups`` for the splitter, other parameters for the models' ``fit``.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        return router_for(self, classifier=self.classifier, regressor=self.regressor)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags. An input tag is set if both models have it."""
        tags = super().__sklearn_tags__()
        try:
            models = [get_tags(self.classifier), get_tags(self.regressor)]
        except Exception:  # estimators of other packages may have no tags; invalid models raise in fit
            return tags
        tags.input_tags.allow_nan = all(one.input_tags.allow_nan for one in models)
        tags.input_tags.sparse = all(one.input_tags.sparse for one in models)
        tags.non_deterministic = any(one.non_deterministic for one in models)
        return tags


def _check_both_parts(is_atom: BoolArray, counts: BoolArray, at: float) -> None:
    """Raise an error if no row has the value, or if fewer than two rows have another value."""
    n_atoms, n_rest, n = (int((rows & counts).sum()) for rows in (is_atom, ~is_atom, counts))
    rows = f"{n} rows" if n == len(counts) else f"{n} rows of positive weight"
    if n_atoms == 0:
        raise ValueError(
            f"`y` must have the value `at` = {at:g} in at least one row, but none of {rows} has this value. "
            "Pass another `at`, or use the regressor alone."
        )
    if n_rest < 2:
        raise ValueError(
            f"`y` must differ from `at` = {at:g} in at least two rows, got {n_rest} of {rows}. "
            "A constant target needs no regressor."
        )
