"""Selection of the best candidate of a multi-metric search under constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._compat import warn_user
from skuq._typing import FloatArray
from skuq._validation import as_float_array
from skuq.exceptions import ConstraintWarning
from skuq.metrics._spec import find_spec
from skuq.model_selection._constraints import Constraint, read_constraints

_PREFIX = "mean_test_"


def refit_best(
    scorer_name: str, *, subject_to: Mapping[str, tuple[str, float]] | None = None
) -> Callable[[Mapping[str, Any]], int]:
    """Return a ``refit`` function that selects the best candidate of a search under constraints.

    Use this function to select the model with the best proper score among models whose calibration, width or
    time satisfies a limit. Without constraints, prefer ``refit="neg_crps"``, because the search then has more
    attributes.

    Parameters
    ----------
    scorer_name : str
        Name of the scorer that is maximized, such as "neg_crps". It must be a key in ``scoring``.
    subject_to : dict of str to (operator, limit), default=None
        Constraints on the mean test values of other metrics, in the units of the metric and without ``neg_``:
        ``{"ence": ("<=", 0.1), "picp": (">=", 0.88)}``. The operator is "<=" or ">=". A constraint on "ence"
        uses the scorer ``neg_ence`` with the opposite sign. A constraint on "mean_absolute_error" uses
        scikit-learn's ``neg_mean_absolute_error`` with the opposite sign. Times such as "mean_fit_time" are
        also allowed. A constraint that every possible value of its metric satisfies, or that no possible
        value satisfies, raises an error.

    Returns
    -------
    refit : callable
        Function that gets ``cv_results_`` and returns the index of the selected candidate. It can be pickled
        and cloned.

    Raises
    ------
    ValueError
        During the search, if a metric is not in ``cv_results_``, or if no candidate can be selected because
        of NaN. A candidate with a NaN in its score or in a constraint is never selected.

    Warns
    -----
    ConstraintWarning
        During the search, if no candidate satisfies all constraints. The candidate with the smallest relative
        violation is then selected. If several candidates have the same violation, the candidate with the best
        score is selected. A violation is the distance from the limit. The relative violation is the violation
        divided by the limit (or by 1 if the limit is 0). For several constraints, it is the largest of their
        relative violations.

    See Also
    --------
    skuq.metrics.scorers : Dict of scorers for ``scoring``.

    Notes
    -----
    With a callable ``refit``, scikit-learn does not define ``best_score_``. Use
    ``cv_results_["mean_test_neg_crps"][search.best_index_]`` instead. ``search.score`` raises an error. Use
    ``get_scorer("neg_crps")(search, X, y)`` instead. ``predict``, ``best_estimator_``, ``best_params_`` and
    `~skuq.prediction.predict_dist` work as usual. HalvingGridSearchCV cannot use a callable ``refit``,
    because it accepts only one metric.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skuq.metrics import scorers
    >>> from skuq.model_selection import refit_best
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = GridSearchCV(
    ...     BayesianRidge(),
    ...     {"fit_intercept": [True, False]},
    ...     scoring=scorers("neg_crps", "neg_ence"),
    ...     refit=refit_best("neg_crps", subject_to={"ence": ("<=", 0.3)}),
    ... ).fit(X, y)
    >>> search.best_params_
    {'fit_intercept': True}
    """
    if not isinstance(scorer_name, str):
        raise TypeError(f"`scorer_name` must be a string, got {type(scorer_name).__name__}.")
    spec = find_spec(scorer_name)
    if spec is not None and spec.direction is None and scorer_name == spec.scorer_name:
        raise ValueError(
            f"`scorer_name` must be a metric with a direction, got {scorer_name!r}. For this metric, neither "
            f"higher nor lower is better. Use it as a constraint. To minimize it, pass "
            f"make_scorer({scorer_name!r}, greater_is_better=False) in `scoring` under the name "
            f"'neg_{scorer_name}', and use this name as `scorer_name`."
        )
    return RefitBest(scorer_name, read_constraints(subject_to))


@dataclass(frozen=True)
class RefitBest:
    """Callable that returns the index of the best candidate. It is the result of `refit_best`."""

    scorer_name: str
    constraints: tuple[Constraint, ...] = ()

    def __call__(self, cv_results: Mapping[str, Any]) -> int:
        """Return the index of the selected candidate in the ``cv_results_`` of a multi-metric search."""
        score = _score_column(cv_results, self.scorer_name)
        violation = self._violation(cv_results, score.size)
        valid = ~(np.isnan(score) | np.isnan(violation))
        if not valid.any():
            raise ValueError(
                f"at least one candidate must have finite values of {self.scorer_name!r} and of the "
                "constraints, but all candidates have a NaN. Pass error_score='raise' to the search to see "
                "the cause."
            )
        least = violation[valid].min()
        if least > 0:
            self._warn(least)
        eligible = np.flatnonzero(valid & (violation == least))
        return int(eligible[np.argmax(score[eligible])])

    def _violation(self, cv_results: Mapping[str, Any], n: int) -> FloatArray:
        """Return the largest relative violation of each candidate.

        It is 0 if all constraints are satisfied.
        """
        worst = np.zeros(n)
        for constraint in self.constraints:
            violation = constraint.violation(_constraint_column(cv_results, constraint.name))
            worst = np.maximum(worst, violation)  # NaN stays NaN
        return worst

    def _warn(self, least: float) -> None:
        limits = ", ".join(map(str, self.constraints))
        warn_user(
            f"no candidate satisfies {limits}. The candidate with the smallest relative violation "
            f"({least:.3g}) is selected.",
            ConstraintWarning,
        )


def _score_column(cv_results: Mapping[str, Any], name: str) -> FloatArray:
    if _PREFIX + name not in cv_results:
        hint = f" Did you mean 'neg_{name}'?" if f"{_PREFIX}neg_{name}" in cv_results else ""
        raise ValueError(
            f"`scorer_name` must be a scorer of the search ({_listing(cv_results)}), got {name!r}.{hint}"
        )
    return as_float_array(cv_results[_PREFIX + name], name)


def _constraint_column(cv_results: Mapping[str, Any], name: str) -> FloatArray:
    """Return the values of a metric in its own units."""
    if f"{_PREFIX}neg_{name}" in cv_results:
        return -as_float_array(cv_results[f"{_PREFIX}neg_{name}"], name)
    if _PREFIX + name in cv_results:
        spec = find_spec(name)
        if spec is not None and spec.direction == "lower":
            raise ValueError(
                f"`scoring` must contain {spec.scorer_name!r}, got {name!r}. Smaller values of this "
                f"metric are better, but searches maximize. Use scorers({spec.scorer_name!r})."
            )
        return as_float_array(cv_results[_PREFIX + name], name)
    if name in ("mean_fit_time", "mean_score_time"):
        return as_float_array(cv_results[name], name)
    raise ValueError(
        f"`subject_to` must contain metrics of the search ({_listing(cv_results)}), got {name!r}. Add its "
        "scorer to `scoring`."
    )


def _listing(cv_results: Mapping[str, Any]) -> str:
    names = [key.removeprefix(_PREFIX) for key in cv_results if key.startswith(_PREFIX)]
    if names == ["score"]:
        return "it has a single metric: pass scoring=scorers(...)"
    return ", ".join(names) or "it has none"
