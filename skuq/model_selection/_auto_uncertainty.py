"""From X and y to the best predictive distribution that is found within a time budget."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import Tags, get_tags

from skuq._typing import FloatArray
from skuq._validation import (
    check_integer,
    check_number,
    check_option,
    check_random_state,
    effective_rows,
)
from skuq._warnings import warn_user
from skuq.distributions import Distribution
from skuq.exceptions import ConstraintWarning
from skuq.model_selection._auto.budget import Budget, clock
from skuq.model_selection._auto.evaluation import Evaluator
from skuq.model_selection._auto.finalists import Finalist, best_of, finalists
from skuq.model_selection._auto.halving import search_by_halving
from skuq.model_selection._auto.leaderboard import leaderboard
from skuq.model_selection._auto.parzen import content_of, open_study, quiet, search_by_optuna, stored_trials
from skuq.model_selection._auto.search import Search
from skuq.model_selection._auto.space import read_space
from skuq.model_selection._auto.trial import Summary, Trial
from skuq.model_selection._auto_candidates import default_space, deferred_space, import_optuna
from skuq.model_selection._constraints import Constraint, read_constraints
from skuq.prediction import predict_dist
from skuq.prediction._cross_fit import has_random_folds, resolve_cv, row_order, split_rows
from skuq.prediction._fit_metadata import router_for
from skuq.prediction._point import point_and_dist, point_predict
from skuq.prediction._random import MAX_SEED
from skuq.regressors import BaseUncertaintyRegressor
from skuq.regressors._fit_inputs import TrainingData, read_training
from skuq.regressors._progress import Progress

__all__ = ["AutoUncertaintyRegressor"]

_CONSTRAINED = {"picp": "coverage", "mpiw": "width"}
"""Metrics that may be constrained, and their columns."""


class AutoUncertaintyRegressor(BaseUncertaintyRegressor):
    """The best predictive distribution that a search within a time budget finds.

    Which model, with which parameters, method and recalibrator, has the lowest CRPS on unseen rows? The
    search covers linear models, forests, boosting and networks, as far as their packages are installed.
    Prefer `UncertaintyRegressor` where the model is given, and scikit-learn's searches with a scorer of skuq
    where the candidates are.

    Parameters
    ----------
    space : dict or None, default=None
        What is searched, in the form that `search_space` returns; None is the default space.
    time_budget : float or None, default=60
        Seconds of wall-clock time. Imports of the candidates' packages and the final fits count. None is no
        limit.
    n_trials : int or None, default=None
        Largest number of candidates. With ``time_budget=None`` and an integer ``random_state``, results are
        reproducible; a time budget makes them depend on the machine.
    pool : bool, default=True
        Whether a pool of the best candidates of all base models is one more candidate.
    subject_to : dict of str to (operator, limit), default=None
        Constraints on out-of-fold coverage and mean width of 90 % intervals, such as
        ``{"picp": (">=", 0.88)}`` or ``{"mpiw": ("<=", 2.5)}``, as in `refit_best`. Among the candidates that
        satisfy them, the CRPS decides. A constraint raises if every value of its metric satisfies it, or
        none.
    cv : int, splitter or iterable of (train, test), default=3
        Folds. With an int k they are ``KFold(k, shuffle=True)``, and forests and deep ensembles are evaluated
        on their out-of-bag rows instead. A splitter, which may keep groups together or time in order, gives
        the folds of all candidates and, inside of each, of its method. An iterable gives the folds of all
        candidates; those of their methods are drawn at random. Of a single fold, pools and recalibrators are
        evaluated on each half of the test rows, by the other half.
    engine : {"auto", "optuna", "halving"}, default="auto"
        How candidates are chosen after the base models with their own parameters: "optuna" by Optuna's
        tree-structured Parzen estimator, "halving" at random, by successive halving over the folds. "auto" is
        "optuna" where that is installed.
    storage : str, optuna storage or None, default=None
        Where Optuna keeps the trials, so that a search can be resumed, or shared between several processes:
        the URL of a database such as ``"sqlite:///trials.db"``, or a storage such as optuna's JournalStorage.
        None is in memory.
    study_name : str or None, default=None
        Name of the study in the storage; that of an earlier search of the same data, folds, space and
        constraints resumes it.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job is a fit on one thread, of which at most 4 run at once;
        results do not depend on it, but for what a time budget has room for. With a time budget below 20
        seconds there is one job, since the start of processes takes seconds.
    random_state : int, RandomState instance or None, default=None
        An integer makes everything reproducible, without a time budget, and with a storage if the study is
        new and not shared.
    verbose : int, default=0
        1 writes a line to stderr for each candidate.

    Attributes
    ----------
    best_estimator_ : estimator
        The winner, fitted to all rows: an `UncertaintyRegressor`, a `MixtureRegressor` of several, or a
        Pipeline of either with a fitted recalibrator, an encoder of words and dates, or both. Members of a
        `MixtureRegressor` are frozen here: another fit, of a clone too, leaves them as they are.
    leaderboard_ : DataFrame
        A row for each candidate, the winner first. Columns: ``"base"``, ``"method"``, ``"recalibration"``;
        of the out-of-fold forecasts, the mean ``"crps"`` with its ``"standard_error"``, and ``"coverage"``
        and mean ``"width"`` of 90 % intervals; ``"seconds"`` of all fits; ``"state"``; ``"params"``, or the
        weights of a pool. A candidate is "complete"; "stored" if it is one of the storage that was not fitted
        here; "pruned" if it was stopped after a few folds, whose scores it has; "out of time" if its next
        fit would not have ended in time; "failed" if it raised an error.
    time_spent_ : dict of str to float
        Seconds by use: ``"imports"`` of packages; ``"probes"``, fits on few rows that measure the time of a
        kind of model; ``"trials"``, the fits and forecasts of candidates; ``"choice"``, weights of the pool
        and recalibrators; ``"refits"`` to all rows; ``"other"``; and their ``"total"``.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    refit_best : The choice under constraints, in scikit-learn's searches.
    skuq.regressors.MixtureRegressor : The pool of given models.
    skuq.integrations.flaml.learner : The same by FLAML.

    Notes
    -----
    Base models come first, with their own parameters and the method that
    ``UncertaintyRegressor(method="auto")`` has for them. Each candidate is fitted fold by fold, with
    ``effort="low"``, and those that are not among the best third after a fold are pruned [1]_, [2]_.

    Recalibrators are fitted to the out-of-fold forecasts of the best candidate of each base model, and of
    their pool, and evaluated on the other folds; they cost no fit of a model. Of recalibrations of the same
    forecasts whose CRPS is within half a percent of the smallest, the one whose coverage is nearest to 90 %
    is chosen. The pool averages quantile functions, with the weights of `MixtureRegressor`.

    A candidate is begun only if there is time for its import and all of its fits. The time of a fit is
    estimated from earlier fits of the same kind, and before the first one from fits on 100, 400, 1600, ...
    rows, as far as these are needed for the decision; for the packages of the default space, from typical
    times. The search begins with the first base model whose fits are expected to end in time, if necessary
    with fewer trees. If there is none, the fastest one is fitted, and the search takes longer than its
    budget. No candidate is fitted twice, so that a space without continuous parameters may end the search
    early. A kind of model that raises an error with its own parameters is not tried again.

    Every base model of the default space takes data frames with words, categories, dates and missing values.
    Words are categories for the boosting of scikit-learn and LightGBM, numbers of categories for forests and
    CatBoost, and indicators for the others, for which missing values are replaced by medians. A date becomes
    the days since 1970 and its position in the year, the week and the day. The encoders see X of all rows,
    and never the target.

    In a storage, a trial that is interrupted, by Ctrl-C or SIGTERM, is recorded as failed. A search
    that is resumed first fits the best stored candidate of each base model again, because forecasts are not
    stored, and then the interrupted trials. A trial whose process was killed is treated the same way. The
    process is looked up on the same machine; another machine's process counts as killed after five minutes
    without a sign of life. A trial that was interrupted three times is not tried again. Candidates under
    evaluation in another process are left out, unless there is no other candidate.

    The scores of the leaderboard are those by which the winner is chosen, hence a little optimistic. For an
    unbiased estimate, pass the whole regressor to ``cross_validate``: each fold is a search of its own, which
    sees the training rows alone. `fit_transform` returns the out-of-fold forecasts of the winner.

    Errors of single candidates and recalibrators are a FitFailedWarning; if all fail, the first error is
    raised.

    References
    ----------
    .. [1] J. Bergstra, R. Bardenet, Y. Bengio, B. Kégl, "Algorithms for hyper-parameter optimization",
       NeurIPS 2011.
    .. [2] K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification and hyperparameter
       optimization", AISTATS 2016, arXiv:1502.07943.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge, Ridge
    >>> from skuq.model_selection import AutoUncertaintyRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> space = {
    ...     "estimators": {
    ...         "bayes": {"estimator": BayesianRidge()},
    ...         "ridge": {"estimator": Ridge(), "params": {"alpha": [0.01, 0.1, 1.0]}},
    ...     }
    ... }
    >>> model = AutoUncertaintyRegressor(space, time_budget=None, n_trials=4, random_state=0)
    >>> model.fit(X[:300], y[:300]).predict_interval(X[300:]).shape
    (142, 2)
    >>> model.leaderboard_["state"].iloc[0]
    'complete'
    """

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        *,
        time_budget: float | None = 60,
        n_trials: int | None = None,
        pool: bool = True,
        subject_to: Mapping[str, tuple[str, float]] | None = None,
        cv: Any = 3,
        engine: Literal["auto", "optuna", "halving"] = "auto",
        storage: Any = None,
        study_name: str | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.space = space
        self.time_budget = time_budget
        self.n_trials = n_trials
        self.pool = pool
        self.subject_to = subject_to
        self.cv = cv
        self.engine = engine
        self.storage = storage
        self.study_name = study_name
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def search_space(self) -> dict[str, Any]:
        """Return a copy of what is searched, which may be changed and passed as ``space``.

        Returns
        -------
        space : dict
            ``"estimators"`` has a dict for each base model, by name, in the order in which they are tried:
            ``"estimator"``; ``"params"``, for each parameter that is searched a list of values or a frozen
            distribution of scipy.stats, one of ``uniform``, ``loguniform`` and ``randint``; ``"methods"`` of
            `UncertaintyRegressor`, without which they are those of its rules that apply. "forest" and
            "bootstrap", which draw their out-of-bag rows at random, are left out where ``cv`` is no int; if
            there are no others, they are those of the rules. ``"encoding"`` of words, dates and missing
            values: "codes", "categories" or "numbers", see Notes of the class; without it the model is given
            X unchanged. Only ``"estimator"`` is required. Names must not be ``"pool"``.
            ``"recalibrators"`` has recalibrators by name; None leaves a forecast as it is.

        Examples
        --------
        >>> from skuq.model_selection import AutoUncertaintyRegressor
        >>> space = AutoUncertaintyRegressor().search_space()
        >>> list(space["estimators"])[:2]
        ['forest', 'linear']
        >>> del space["estimators"]["linear"]
        >>> model = AutoUncertaintyRegressor(space)
        """
        return default_space() if self.space is None else copy.deepcopy(self.space)

    # ------------------------------------------------------------------------------- fitting

    def _n_tasks(self) -> int | None:
        return self.n_trials

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        self._budget = Budget(self._check_options())
        data = read_training(self, X, y, sample_weight, fit_params, caller, route_weight=False)
        effective_rows(data.sample_weight, len(data))  # raises where weights do not count repetitions
        return data

    def _check_options(self) -> float | None:
        """Check the parameters, and return the seconds of the budget."""
        seconds = self.time_budget
        if seconds is not None:
            seconds = check_number(seconds, "time_budget", positive=True)
        if self.n_trials is not None:
            check_integer(self.n_trials, "n_trials")
        elif seconds is None:
            raise ValueError("`time_budget` and `n_trials` must not both be None: nothing ends the search.")
        check_option(self.pool, "pool", (True, False))
        check_option(self.engine, "engine", ("auto", "optuna", "halving"))
        check_integer(self.verbose, "verbose", 0)
        if self.n_jobs is not None and check_integer(self.n_jobs, "n_jobs", -sys.maxsize) == 0:
            raise ValueError("`n_jobs` must be a number of jobs, -1 for one per core, or None, got 0.")
        return seconds

    def _constraints(self) -> tuple[Constraint, ...]:
        constraints = read_constraints(self.subject_to)
        for constraint in constraints:
            check_option(constraint.name, "subject_to", tuple(_CONSTRAINED))
        return constraints

    def _optuna(self) -> Any:
        """Return the package Optuna, or None where successive halving is used."""
        optuna = None if self.engine == "halving" else import_optuna()
        if optuna is None and self.engine == "optuna":
            raise ImportError('`engine` "optuna" needs Optuna: pip install "skuq[auto]".')
        if optuna is None and (self.storage is not None or self.study_name is not None):
            raise ValueError(
                "`storage` and `study_name` need Optuna, and the engine is successive halving. Install "
                "Optuna, or leave them out."
            )
        return optuna

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._search(data, progress)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        evaluator, winner = self._search(data, progress, every_row=True)
        return winner.out_of_fold[row_order(np.concatenate(evaluator.test_rows), len(data))]

    def _search(
        self, data: TrainingData, progress: Progress, every_row: bool = False
    ) -> tuple[Evaluator, Finalist]:
        """Search, fit the winner to all rows and set the attributes."""
        constraints = self._constraints()
        with self._budget.account("imports"):
            optuna = self._optuna()
        random_folds = has_random_folds(self.cv)
        space = read_space(deferred_space() if self.space is None else self.search_space(), random_folds)
        rng = check_random_state(self.random_state)
        seed, sampler_seed = rng.randint(MAX_SEED, size=2).tolist()
        given = None if random_folds else split_rows(resolve_cv(self.cv, seed), data.X, data.y, data.groups)
        study = None
        if optuna is not None:
            content = (
                content_of(space, data, given or self.cv, constraints) if self.storage is not None else ""
            )
            study, seed = open_study(optuna, self.storage, self.study_name, seed, space, content)
        folds = given or split_rows(resolve_cv(self.cv, seed), data.X, data.y, data.groups)
        if every_row:
            row_order(np.concatenate([test for _, test in folds]), len(data))
        cv = self.cv if not random_folds and hasattr(self.cv, "split") else None
        evaluator = Evaluator(space, data, folds, cv, random_folds, seed, self._budget, self.n_jobs)

        def violation(summary: Summary) -> float:
            """Return the largest relative violation of the constraints."""
            values = (one.violation(getattr(summary, _CONSTRAINED[one.name])) for one in constraints)
            return float(max(0.0, 0.0, *values))

        search = Search(evaluator, self.n_trials, violation, self.pool, self._reporter(progress))
        stored: list[Trial] = []
        if optuna is None:
            search_by_halving(search, np.random.RandomState(sampler_seed))
        else:
            with quiet(optuna):
                search_by_optuna(search, optuna, study, np.random.RandomState(sampler_seed))
                stored = stored_trials(optuna, study, space, search.trials)
        return evaluator, self._choose(search, stored, constraints)

    def _reporter(self, progress: Progress) -> Any:
        """Return the function that reports a trial."""

        def report(trial: Trial) -> None:
            progress.done("trial")
            if self.verbose:
                score = "" if trial.summary is None else f", CRPS {trial.summary.crps:.4g}"
                seconds = clock() - self._budget.begin
                name = f"{trial.candidate.base} by {trial.candidate.method}"
                sys.stderr.write(
                    f"[AutoUncertaintyRegressor] {seconds:.0f} s: {name}, {trial.state}{score}\n"
                )

        return report

    def _choose(self, search: Search, stored: list[Trial], constraints: tuple[Constraint, ...]) -> Finalist:
        """Fit the winner among the best candidates, with and without recalibrators, and their pool."""
        _warn_of_failures(search)
        with self._budget.account("choice"):
            found = finalists(search.affordable(), search.evaluator, self.pool)
            winner = best_of(found, search.violation)
        least = search.violation(winner.summary)
        if least > 0:
            warn_user(
                f"no complete candidate satisfies {', '.join(map(str, constraints))}; the one with the "
                f"smallest relative violation, {least:.3g}, is chosen.",
                ConstraintWarning,
            )
        self.best_estimator_ = winner.fit(search.evaluator)
        self.leaderboard_: pd.DataFrame = leaderboard(search.trials, found, stored, search.violation, winner)
        self.time_spent_ = self._budget.uses()
        return winner

    # ---------------------------------------------------------------------------- prediction

    def _point(self, X: Any) -> FloatArray:
        return point_predict(self.best_estimator_, X)

    def _predict_dist(self, X: Any) -> Distribution:
        dist: Distribution = predict_dist(self.best_estimator_, X)
        return dist

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        return point_and_dist(self.best_estimator_, X)

    # ------------------------------------------------------------------------- scikit-learn

    def get_metadata_routing(self) -> Any:
        """Return the routing of metadata: ``groups`` to the splitter; weights are those of all candidates.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        return router_for(self)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags, of which those of the input hold if they do for any base model."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.time_budget is not None
        if self.space is None:  # as below, but without importing the packages of the default space
            tags.input_tags.allow_nan = tags.input_tags.sparse = True
            tags.input_tags.string = tags.input_tags.categorical = True
            return tags
        try:
            entries = self.search_space()["estimators"].values()
            encoded = any(entry.get("encoding") is not None for entry in entries)
            tags.input_tags.string = tags.input_tags.categorical = encoded
            members = [get_tags(entry["estimator"]) for entry in entries]
        except Exception:  # estimators of other packages may have no tags; a wrong space raises in fit
            return tags
        tags.input_tags.allow_nan = any(one.input_tags.allow_nan for one in members)
        tags.input_tags.sparse = any(one.input_tags.sparse for one in members)
        return tags


def _warn_of_failures(search: Search) -> None:
    """Warn of candidates that failed; raise the first error where none is complete."""
    failures = [(trial.candidate.base, trial.error) for trial in search.trials if trial.error is not None]
    if not failures:
        return
    base, error = failures[0]
    if not search.best:
        raise error
    warn_user(
        f"{len(failures)} of {len(search.trials)} candidates failed, the first one {base!r}: "
        f"{type(error).__name__}: {error}",
        FitFailedWarning,
    )
