"""Metrics for FLAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skuq.integrations._scorers import as_scorer
from skuq.metrics._scorer import DistributionScorer
from skuq.model_selection._constraints import Constraint, read_constraints
from skuq.prediction import predict_dist

_INFEASIBLE = 1e100
"""The loss of a trial that violates a constraint is this number times (1 + violation). It is finite, because
FLAML discards infinite losses."""


class Metric:
    """Metric of FLAML. It is a class, because FLAML pickles metrics."""

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
        dist = predict_dist(estimator, X_val)
        metadata = {} if weight_val is None else {"sample_weight": weight_val}
        values = {
            scorer.metric_name: scorer.metric_value(y_val, dist, X_val, **metadata) for scorer in self.scorers
        }
        return self._loss(values), values

    def aggregate(
        self, losses: Sequence[float], logged: Sequence[dict[str, float]]
    ) -> tuple[float, dict[str, float]]:
        means = {name: float(np.mean([values[name] for values in logged])) for name in logged[0]}
        return self._loss(means), means

    def _loss(self, values: dict[str, float]) -> float:
        violations = [constraint.violation(values[constraint.name]) for constraint in self.constraints]
        worst = float(
            np.max(violations, initial=0.0)
        )  # NaN if a value is NaN, so that this trial is not the best
        first = self.scorers[0]
        loss = values[first.metric_name]
        if worst != 0.0:
            return _INFEASIBLE * (1.0 + worst)
        return -loss if first.greater_is_better else loss


def metric(
    loss: Any = "crps", *also_logged: Any, subject_to: Mapping[str, tuple[str, float]] | None = None
) -> Metric:
    """Return a metric for FLAML's ``AutoML.fit(metric=...)`` from skuq metrics.

    FLAML calls a metric with the learner and the validation rows of a trial. Scorers of skuq have a different
    signature and raise an error in FLAML. If FLAML gets the name of an unknown metric, all trials fail
    without an error message.

    Parameters
    ----------
    loss : str or scorer, default="crps"
        Metric that is minimized: an abbreviation, or a scorer of `skuq.metrics.make_scorer` with options.
        Metrics for which larger is better are negated. Width and coverage have no direction. To minimize the
        width, pass ``make_scorer("mpiw", greater_is_better=False)`` and a constraint on the coverage.
    *also_logged : str or scorer
        More metrics that are logged under their own names. Their signs are not changed.
    subject_to : dict of str to (operator, limit), default=None
        Constraints on metrics, by abbreviation and in the units of the metric: ``{"picp": (">=", 0.88)}``.
        These metrics are also logged.

    Returns
    -------
    metric : callable
        Argument ``metric`` of FLAML. It can be pickled. Each trial predicts the distribution once for all
        metrics.

    Raises
    ------
    TypeError
        If a metric is neither a name nor a scorer of skuq, or if it is not a metric of distributions.
    ValueError
        If a metric is unknown, if the loss has no direction, if two metrics have the same name, or if a
        constraint is not a pair of an operator ("<=" or ">=") and a number.

    See Also
    --------
    learner : Learners of FLAML with a predictive distribution. This metric needs such learners.
    skuq.model_selection.refit_best : Selection under constraints in scikit-learn's searches.

    Notes
    -----
    Prefer the CRPS as the loss. FLAML compares losses by their ratios, which are not meaningful for losses
    that may be negative, such as the negative log-likelihood.

    A trial that violates a constraint has a loss of at least 1e100, so it is worse than every trial without a
    violation. If all trials violate a constraint, the trial with the smallest relative violation is the best.
    `skuq.model_selection.refit_best` uses the same rule. In FLAML 2.7, FLAML's own ``metric_constraints``
    ignore logged values.

    In cross-validation, FLAML averages the losses of the folds, so a violation in one small fold excludes the
    trial. With ``fit(metric=m, cv_score_agg_func=m.aggregate)``, the constraints apply to the means over the
    folds.

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

    Pass it to FLAML by ``AutoML().fit(X, y, task="regression", metric=crps, estimator_list=...)``. See
    `learner`. The next metric finds the narrowest intervals with sufficient coverage:

    >>> from skuq.metrics import make_scorer
    >>> width = make_scorer("mpiw", greater_is_better=False)
    >>> narrow = metric(width, subject_to={"picp": (">=", 0.88)})
    """
    constraints = read_constraints(subject_to)
    scorers = [
        as_scorer(loss, "loss", DistributionScorer),
        *(as_scorer(each, "also_logged", DistributionScorer) for each in also_logged),
    ]
    names = [scorer.metric_name for scorer in scorers]
    if scorers[0].greater_is_better is None:
        raise ValueError(
            f"`loss` must be a metric with a direction, got {loss!r}. Use it in `subject_to`, or pass "
            f"make_scorer({names[0]!r}, greater_is_better=...) with True or False."
        )
    if len(set(names)) < len(names):
        raise ValueError(f"`also_logged` must have metrics with different names, got {', '.join(names)}.")
    missing = {constraint.name for constraint in constraints} - set(names)
    scorers += [as_scorer(name, "subject_to", DistributionScorer) for name in sorted(missing)]
    return Metric(scorers, constraints)
