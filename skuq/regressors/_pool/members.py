"""Members of a pool, with their validation, fits and out-of-fold forecasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline

from skuq._few_rows import few_rows_reported
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import cross_fit
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.progress import Progress
from skuq._fitting.refit_check import Mismatch, find_mismatch, predict_quartiles, warn_of_mismatch
from skuq._fitting.table_encoder import TableEncoder
from skuq._fitting.training_data import TrainingData
from skuq._sklearn_compat import delayed, run_parallel
from skuq._typing import IntArray
from skuq.distributions import Distribution
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import supports_dist
from skuq.prediction._failures import note_fold


class FittedMember(NamedTuple):
    """Member that is fitted to all rows, and its out-of-fold forecasts."""

    estimator: Any
    out_of_fold: Distribution | None
    mismatch: Mismatch | None = None


def named_members(estimators: Any, validate_names: Callable[[list[str]], object]) -> dict[str, Any]:
    if not isinstance(estimators, list | tuple) or not estimators:
        raise ValueError(
            "`estimators` must be a non-empty list of (name, estimator), got "
            f"{estimators if isinstance(estimators, list | tuple) else type(estimators).__name__}."
        )
    for pair in estimators:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(
                "`estimators` must be a list of pairs (name, estimator), such as ('boosting', "
                f"UncertaintyRegressor(...)), got {pair!r}."
            )
    names = [name for name, _ in estimators]
    validate_names(names)
    if "splitter" in names:
        raise ValueError(
            "`estimators` must not contain the name 'splitter', which metadata routing uses for `cv`."
        )
    members = {name: member for name, member in estimators if not is_dropped(member)}
    if not members:
        raise ValueError("`estimators` must have at least one member that is not 'drop', got none.")
    for name, member in members.items():
        _check_member(name, member)
    return members


def is_dropped(member: Any) -> bool:
    return isinstance(member, str) and member == "drop"


def _check_member(name: str, member: Any) -> None:
    if isinstance(member, type):
        raise TypeError(
            f"`estimators` must contain only instances, got the class {member.__name__} as {name!r}."
        )
    if not hasattr(member, "fit"):
        raise TypeError(f"`estimators` must contain only regressors or 'drop', got {member!r} as {name!r}.")
    if not supports_dist(member):
        kind = type(member).__name__
        raise NotProbabilisticError(
            f"`estimators` must give predictive distributions, but {name!r} ({kind}) gives none. Wrap it: "
            f"UncertaintyRegressor({kind}(...))."
        )


def fit_pool(
    members: Mapping[str, Any],
    data: TrainingData,
    folds: Sequence[tuple[IntArray, IntArray]] | None,
    *,
    own_folds: bool,
    n_jobs: int | None,
    verbose: int,
    progress: Progress,
) -> list[FittedMember]:
    """Fit each member to all rows.

    The test rows of a fold are predicted by a clone that is fitted without this fold.
    """
    tasks = {
        name: (name, member, data.X, data.y, data.params[name], folds, own_folds)
        for name, member in members.items()
    }
    report = progress.reporter("member")
    results: Iterable[FittedMember]
    if report is not None and n_jobs in (None, 1):  # the progress shows each fold of a member
        results, report = _one_by_one(tasks, progress), None
    else:
        calls = (delayed(_fit_member)(*task) for task in tasks.values())
        results = run_parallel(calls, n_jobs=n_jobs, one_by_one=report is not None, verbose=verbose)
    fitted = []
    for name, member in zip(members, results, strict=True):
        fitted.append(member)
        # issued here, because warnings in worker processes are lost
        warn_of_mismatch(
            member.mismatch,
            f"The weights are estimated from the models of the folds of member {name!r}, but new rows are "
            f"predicted by the model fitted to all rows",
        )
        if report is not None:
            report()
    return fitted


def _one_by_one(tasks: Mapping[str, tuple[Any, ...]], progress: Progress) -> Iterator[FittedMember]:
    for name, task in tasks.items():
        with progress.task(name, task[1]):
            fitted = _fit_member(*task)
        yield fitted


def _fit_member(
    name: str,
    member: Any,
    X: Any,
    y: Any,
    params: dict[str, Any],
    folds: Sequence[tuple[IntArray, IntArray]] | None,
    own_folds: bool,
) -> FittedMember:
    with note_fold(f"the member {name!r}"):
        if folds is None:
            return FittedMember(fit_wrapped(member, X, y, **params), None)
    with note_fold(f"the member {name!r}"), few_rows_reported():
        if own_folds and _has_own_folds(member):
            dist = member.fit_transform(X, y, **params)
            return FittedMember(member, dist[np.concatenate([test for _, test in folds])])
        cross = cross_fit(member, X, y, cv=folds, params=params, keep_in_context=False)
        refit = fit_wrapped(member, X, y, **params)
        return FittedMember(refit, cross.tested()[1], find_mismatch(refit, cross, X, y, predict_quartiles))


def _has_own_folds(member: Any) -> bool:
    # In a Pipeline, only a table encoder may precede the regressor. Other transformers may use y, so each
    # fold must fit them again.
    if isinstance(member, Pipeline):
        *transformers, (_, last) = member.steps
        return _has_own_folds(last) and all(
            isinstance(one, TableEncoder) or one == "passthrough" for _, one in transformers
        )
    return isinstance(member, BaseUncertaintyRegressor)
