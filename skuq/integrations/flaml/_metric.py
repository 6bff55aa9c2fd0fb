"""The function that FLAML evaluates each trial by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skuq.integrations._scorers import as_scorer
from skuq.metrics._scorer import DistributionScorer
from skuq.metrics._spec import find_spec
from skuq.model_selection._constraints import Constraint, read_constraints
from skuq.prediction import predict_dist

_INFEASIBLE = 1e100
"""Loss of a trial that violates a constraint, times one plus the violation; finite, since FLAML discards
infinite losses, and larger than the loss of any trial that violates none."""


class Metric:
    """What `metric` returns; a class, as FLAML pickles its ``AutoML`` with the metric in it."""

    def __init__(self, scorers: list[DistributionScorer], constraints: tuple[Constraint, ...]) -> None:
        self.scorers, self.constraints = scorers, constraints

    def __call__(
        self,
        X_val: Any,
        y_val: Any,
        estimator: Any,
        labels: Any,
        X_train: Any,
        y_train: Any,
        weight_val: Any = None,
        weight_train: Any = None,
        config: Any = None,
        groups_val: Any = None,
        groups_train: Any = None,
    ) -> tuple[float, dict[str, float]]:
        """Return the loss of a learner on validation rows, and all values by name."""
        dist = predict_dist(estimator, X_val)
        metadata = {} if weight_val is None else {"sample_weight": weight_val}
        values = {
            scorer.metric_name: scorer.metric_value(y_val, dist, X_val, **metadata) for scorer in self.scorers
        }
        return self._loss(values), values

    def aggregate(
        self, losses: Sequence[float], logged: Sequence[dict[str, float]]
    ) -> tuple[float, dict[str, float]]:
        """Return the loss of a trial in several folds, with constraints on the means, and these."""
        means = {name: float(np.mean([values[name] for values in logged])) for name in logged[0]}
        return self._loss(means), means

    def _loss(self, values: dict[str, float]) -> float:
        violations = [constraint.violation(values[constraint.name]) for constraint in self.constraints]
        worst = float(np.max(violations, initial=0.0))  # NaN stays NaN, with which no trial leads
        first = self.scorers[0]
        loss = values[first.metric_name]
        if worst != 0.0:
            return _INFEASIBLE * (1.0 + worst)
        return -loss if first.greater_is_better else loss


def metric(
    loss: Any = "crps", *also_logged: Any, subject_to: Mapping[str, tuple[str, float]] | None = None
) -> Metric:
    """Make the metric of FLAML's ``AutoML.fit(metric=...)`` from metrics of skuq.

    FLAML calls its metric with the learner and the validation rows of a trial. A scorer of skuq, which has
    another signature, raises an error there, and a name that FLAML does not know fails in every trial
    without one.

    Parameters
    ----------
    loss : str or scorer, default="crps"
        What is minimised: a metric by abbreviation, or a scorer of `skuq.metrics.make_scorer`, for options.
        Metrics where larger is better are negated. Width and coverage have no direction of their own:
        ``make_scorer("mpiw", greater_is_better=False)`` minimises the width, under a constraint on the
        coverage.
    *also_logged : str or scorer
        Further metrics, logged with their own sign and name. The loss is logged, too.
    subject_to : dict of str to (operator, limit), default=None
        Constraints on metrics by abbreviation, in the metric's own units: ``{"picp": (">=", 0.88)}``. A
        metric that is not among the others is logged as well.

    Returns
    -------
    metric : callable
        To pass as ``metric=``. It can be pickled. Each trial predicts its distribution once, however many
        metrics there are.

    Raises
    ------
    TypeError
        If a metric is neither a name nor a scorer of skuq, or not one of distributions.
    ValueError
        If there is no such metric, the loss has no direction, two metrics have the same name, or a constraint
        is not a pair of an operator, "<=" or ">=", and a number.

    See Also
    --------
    learner : FLAML's learners with a predictive distribution, which the metric needs.
    skuq.model_selection.refit_best : The same choice in scikit-learn's searches.

    Notes
    -----
    Prefer CRPS to the negative log-likelihood as a loss. FLAML's search compares losses by ratios, so that
    one that may be negative misleads it.

    A trial that violates a constraint never leads one that violates none; where all do, the smallest relative
    violation leads, as in `skuq.model_selection.refit_best`. Its loss is 1e100 or more. FLAML's own
    ``metric_constraints`` have no effect on what a metric logs, in version 2.7.

    In cross-validation FLAML averages the losses of folds, so that a violation in one fold, of few rows,
    excludes the trial. ``fit(metric=m, cv_score_agg_func=m.aggregate)`` constrains the means over the folds.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.integrations.flaml import metric
    >>> X, y = load_diabetes(return_X_y=True)
    >>> crps = metric("crps", "picp")
    >>> loss, logged = crps(X, y, BayesianRidge().fit(X, y), None, X, y)
    >>> round(loss, 2), round(logged["picp"], 2)
    (30.47, 0.9)

    ``AutoML().fit(X, y, task="regression", metric=crps, estimator_list=...)`` selects by it; see `learner`.
    The narrowest intervals that have their coverage:

    >>> from skuq.metrics import make_scorer
    >>> width = make_scorer("mpiw", greater_is_better=False)
    >>> narrow = metric(width, subject_to={"picp": (">=", 0.88)})
    """
    constraints = read_constraints(subject_to)
    scorers = [
        as_scorer(loss, "loss", DistributionScorer),
        *(as_scorer(each, "also_logged", DistributionScorer) for each in also_logged),
    ]
    spec = find_spec(loss) if isinstance(loss, str) else None
    if spec is not None and spec.direction is None:
        raise ValueError(
            f"`loss` must be a metric that has a direction, got {loss!r}. Make it a constraint by "
            f"`subject_to`, or pass make_scorer({loss!r}, greater_is_better=False), or True."
        )
    names = [scorer.metric_name for scorer in scorers]
    if len(set(names)) < len(names):
        raise ValueError(f"`also_logged` must have metrics of different names, got {', '.join(names)}.")
    missing = {constraint.name for constraint in constraints} - set(names)
    scorers += [as_scorer(name, "subject_to", DistributionScorer) for name in sorted(missing)]
    return Metric(scorers, constraints)
