"""Automatic search for the best predictive distribution within a time budget."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import Tags, get_tags

from skuq._compat import warn_user
from skuq._fitting.cross_fit import (
    has_random_folds,
    point_and_dist,
    point_predict,
    resolve_cv,
    row_order,
    split_rows,
)
from skuq._fitting.seeds import MAX_SEED, Progress
from skuq._fitting.training_data import TrainingData, read_training, router_for
from skuq._typing import FloatArray
from skuq._validation import (
    check_integer,
    check_number,
    check_option,
    check_random_state,
    effective_rows,
)
from skuq.distributions import Distribution
from skuq.exceptions import ConstraintWarning
from skuq.model_selection._auto_evaluation import Evaluator, Summary, Trial
from skuq.model_selection._auto_parzen import content_of, open_study, quiet, search_by_optuna, stored_trials
from skuq.model_selection._auto_search import (
    Finalist,
    Search,
    best_of,
    finalists,
    leaderboard,
    search_by_halving,
)
from skuq.model_selection._auto_space import (
    Budget,
    clock,
    default_space,
    deferred_space,
    import_optuna,
    read_space,
)
from skuq.model_selection._constraints import Constraint, read_constraints
from skuq.prediction import predict_dist
from skuq.regressors import BaseUncertaintyRegressor

_CONSTRAINED = {"picp": "coverage", "mpiw": "width"}
"""Metrics that can have constraints. The values of the dict are columns of the leaderboard."""


class AutoUncertaintyRegressor(BaseUncertaintyRegressor):
    """Search for the best predictive distribution within a time budget.

    The search selects the model, the parameters, the method and the recalibrator with the lowest out-of-fold
    CRPS. The default space contains linear models, forests, boosting and networks if their packages are
    installed. Prefer `UncertaintyRegressor` if you have chosen the model. Prefer scikit-learn's searches with
    a scorer of skuq if you have chosen the candidates.

    Parameters
    ----------
    space : dict or None, default=None
        Search space, in the form that `search_space` returns. None means the default space.
    time_budget : float or None, default=60
        Wall-clock time in seconds. It includes imports of packages and the final fits. None means no limit.
    n_trials : int or None, default=None
        Maximum number of candidates. With ``time_budget=None`` and an integer ``random_state``, results are
        reproducible. With a time budget, results depend on the speed of the computer.
    pool : bool, default=True
        Whether a pool of the best candidates of all base models is also a candidate.
    subject_to : dict of str to (operator, limit), default=None
        Constraints on the out-of-fold coverage and mean width of 90 % intervals, such as ``{"picp": (">=",
        0.88)}`` or ``{"mpiw": ("<=", 2.5)}``. See `refit_best`. Among the candidates that satisfy all
        constraints, the candidate with the lowest CRPS is selected. A constraint that every possible value of
        its metric satisfies, or that no possible value satisfies, raises an error.
    cv : int, splitter or iterable of (train, test), default=3
        Folds. The default of other estimators is five folds, which take twice as much time as three folds.
        With an int k, the folds are ``KFold(k, shuffle=True)``, but forests and deep ensembles use their
        out-of-bag rows instead. A splitter, for example for groups or time series, is used for all
        candidates, and also for the folds inside their methods. An iterable is used for all candidates, but
        the folds inside their methods are random. If there is only one fold, pools and recalibrators are
        fitted to each half of the test rows and evaluated on the other half.
    engine : {"auto", "optuna", "halving"}, default="auto"
        Method that selects candidates after each base model has been tried with its own parameters. "optuna"
        is Optuna's tree-structured Parzen estimator. "halving" draws random candidates, and only the best
        third continues after each fold. "auto" means "optuna" if Optuna is installed, and otherwise
        "halving".
    storage : str, optuna storage or None, default=None
        Storage of Optuna. With a storage, a search can be resumed, or shared between processes. Pass the URL
        of a database, such as ``"sqlite:///trials.db"``, or a storage object, such as Optuna's
        JournalStorage. None stores the trials in memory.
    study_name : str or None, default=None
        Name of the study in the storage. If a study with this name exists, it is resumed. Its data, folds,
        space and constraints must be the same.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job is a fit on one thread. At most 4 fits run at the same
        time. Without a time budget, the results do not depend on ``n_jobs``. With a time budget of less than
        20 seconds, only one job is used, because starting processes takes seconds.
    random_state : int, RandomState instance or None, default=None
        Seed of the search. An integer makes results reproducible if there is no time budget and no other
        search has used the same stored study.
    verbose : int, default=0
        With 1, one line per candidate is written to stderr.

    Attributes
    ----------
    best_estimator_ : estimator
        The selected model, fitted to all rows: an `UncertaintyRegressor`, or a `MixtureRegressor` for a pool.
        If a recalibrator, or an encoder of strings and dates, is needed, the model is a Pipeline with these
        steps. The members of a `MixtureRegressor` are frozen: they are not refitted if the model is cloned or
        fitted again.
    leaderboard_ : DataFrame
        One row per candidate, with the winner first. The columns ``"base"``, ``"method"`` and
        ``"recalibration"`` describe the candidate. ``"crps"`` is the mean CRPS of its out-of-fold forecasts,
        and ``"standard_error"`` is the standard error of this mean. ``"coverage"`` and ``"width"`` are the
        coverage and the mean width of its 90 % intervals. ``"seconds"`` is the time of all fits. ``"params"``
        contains the parameters, or the weights of a pool. ``"state"`` is "complete", "pruned" (stopped after
        a few folds), "stored" (in the storage and not fitted again), "out of time" (not enough time for the
        next fit) or "failed" (an error).
    time_spent_ : dict of str to float
        Seconds by use. ``"imports"`` is the time for imports of packages. ``"probes"`` are fits to few rows
        that measure the time of a model. ``"trials"`` are fits and forecasts of candidates. ``"choice"`` is
        the computation of the weights of the pool and of the recalibrators. ``"refits"`` are fits to all
        rows. All other time is in ``"other"``, and the sum is ``"total"``.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    refit_best : Selection under constraints in scikit-learn's searches.
    skuq.regressors.MixtureRegressor : Pool of given models.
    skuq.integrations.flaml.learner : Search by FLAML.

    Notes
    -----
    The search first tries each base model with its own parameters and with the method of
    ``UncertaintyRegressor(method="auto")``. A candidate is fitted to one fold after another, with
    ``effort="low"``. After each fold, all candidates except the best third are stopped [1]_, [2]_.

    Recalibrators are fitted to the out-of-fold forecasts of the best candidate of each base model, and to the
    forecasts of the pool of these candidates. They are evaluated by cross-validation, which needs no further
    fits of models. Recalibrations of the same forecasts count as equally good if their CRPS is within half a
    percent of the smallest CRPS. Among them, the recalibration with the coverage closest to 90 % is selected.
    The pool averages quantile functions, with the weights of `MixtureRegressor`.

    A candidate starts only if there is time for its import and all its fits. The time of a fit is estimated
    from earlier fits of the same base model and method. Before the first fit, the time is estimated from
    typical times for the packages of the default space and, if needed, from fits to 100, 400, 1600, ... rows.
    The first candidate is the first base model for which there is enough time, if necessary with fewer trees.
    If there is not enough time for any base model, the fastest base model is fitted, and the search exceeds
    its budget. No candidate is fitted twice. If the space has no continuous parameters, the search may
    therefore end early. If a base model with its own parameters fails with a method, this combination of base
    model and method is not tried again.

    All base models of the default space accept data frames with strings, categories, dates and missing
    values. Strings are converted to categories for scikit-learn's gradient boosting and LightGBM, to integers
    for forests and CatBoost, and to indicators for other models. For the models that need indicators, missing
    values are replaced by medians. A date is converted to the number of days since 1970 and to its positions
    in the year, the week and the day. The encoders are fitted to X of all rows, without the target.

    If Ctrl-C or SIGTERM interrupts a trial, the trial is recorded as failed in the storage. A resumed search
    first fits the best stored candidate of each base model again, because forecasts are not stored. It then
    fits the interrupted candidates. A trial of a killed process counts as interrupted. A running search
    stores the current time at regular intervals (heartbeat). A process on another computer counts as killed
    five minutes after its last heartbeat. A candidate that was interrupted three times is not repeated.
    Candidates that another process evaluates are skipped unless there is no other candidate.

    The scores of the leaderboard are slightly optimistic for the winner, because they are used to select it.
    For an unbiased estimate, pass the regressor to ``cross_validate``. A separate search then runs on the
    training rows of each fold. `fit_transform` returns the out-of-fold forecasts of the winner.

    If a candidate or a recalibrator raises an error, a FitFailedWarning is issued. If all candidates fail,
    the first error is raised.

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
    >>> model = AutoUncertaintyRegressor(space, time_budget=None, n_trials=2, random_state=0)
    >>> model.fit(X[:100], y[:100]).predict_interval(X[100:]).shape
    (342, 2)
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
        """Return a copy of the search space, which you can change and pass as ``space``.

        Returns
        -------
        space : dict
            ``"estimators"`` is a dict from names of base models to dicts, in the order of the search. The
            name ``"pool"`` is not allowed. The dict of a base model has the following keys. Only
            ``"estimator"`` is required.

            - ``"estimator"``: the regressor.
            - ``"params"``: for each parameter of the search, a list of values or a frozen scipy.stats
              distribution (``uniform``, ``loguniform`` or ``randint``).
            - ``"methods"``: a list of methods of `UncertaintyRegressor`. By default, all methods whose rules
              apply to the regressor. "forest" and "bootstrap" use random out-of-bag rows, so they are skipped
              if ``cv`` is not an int. If no method is left, the default is used.
            - ``"encoding"``: encoding of strings, dates and missing values: "codes", "categories" or
              "numbers". See the Notes of the class. Without this key, X is not changed.

            ``"recalibrators"`` is a dict of recalibrators by name. The value None means that the forecasts
            are not recalibrated.

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

    def _n_tasks(self) -> int | None:
        return self.n_trials

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        self._budget = Budget(self._check_options())
        data = read_training(self, X, y, sample_weight, fit_params, caller, route_weight=False)
        effective_rows(data.sample_weight, len(data))  # raises for relative weights
        return data

    def _check_options(self) -> float | None:
        seconds = self.time_budget
        if seconds is not None:
            seconds = check_number(seconds, "time_budget", positive=True)
        if self.n_trials is not None:
            check_integer(self.n_trials, "n_trials")
        elif seconds is None:
            raise ValueError(
                "`time_budget` and `n_trials` must not both be None. Set `time_budget` or `n_trials`."
            )
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
        optuna = None if self.engine == "halving" else import_optuna()
        if optuna is None and self.engine == "optuna":
            raise ImportError('`engine` "optuna" needs Optuna: pip install "skuq[auto]".')
        if optuna is None and (self.storage is not None or self.study_name is not None):
            raise ValueError(
                "`storage` and `study_name` need Optuna, but the engine is successive halving. Install "
                "Optuna, or do not pass these parameters."
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
        """Choose among the best candidates and their pool, with or without a recalibrator. Fit the winner."""
        _warn_of_failures(search)
        with self._budget.account("choice"):
            found = finalists(search.affordable(), search.evaluator, self.pool)
            winner = best_of(found, search.violation)
        least = search.violation(winner.summary)
        if least > 0:
            warn_user(
                f"no complete candidate satisfies {', '.join(map(str, constraints))}. The candidate with "
                f"the smallest relative violation ({least:.3g}) is selected.",
                ConstraintWarning,
            )
        self.best_estimator_ = winner.fit(search.evaluator)
        self.leaderboard_: pd.DataFrame = leaderboard(search.trials, found, stored, search.violation, winner)
        self.time_spent_ = self._budget.uses()
        return winner

    def _point(self, X: Any) -> FloatArray:
        return point_predict(self.best_estimator_, X)

    def _predict_dist(self, X: Any) -> Distribution:
        dist: Distribution = predict_dist(self.best_estimator_, X)
        return dist

    def _point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        return point_and_dist(self.best_estimator_, X)

    # ------------------------------------------------------------------------- scikit-learn

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing: ``groups`` for the splitter, weights for all candidates.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        return router_for(self)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags. An input tag is set if at least one base model has this tag."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.time_budget is not None
        if self.space is None:  # no package of the default space may be imported here
            tags.input_tags.allow_nan = tags.input_tags.sparse = True
            tags.input_tags.string = tags.input_tags.categorical = True
            return tags
        try:
            entries = self.search_space()["estimators"].values()
            encoded = any(entry.get("encoding") is not None for entry in entries)
            tags.input_tags.string = tags.input_tags.categorical = encoded
            members = [get_tags(entry["estimator"]) for entry in entries]
        except Exception:  # a base model may have no tags; `fit` checks the space
            return tags
        tags.input_tags.allow_nan = any(one.input_tags.allow_nan for one in members)
        tags.input_tags.sparse = any(one.input_tags.sparse for one in members)
        return tags


def _warn_of_failures(search: Search) -> None:
    """Warn about failed candidates. Raise the first error if no candidate is complete."""
    failures = [(trial.candidate.base, trial.error) for trial in search.trials if trial.error is not None]
    if not failures:
        return
    base, error = failures[0]
    if not search.best:
        raise error
    warn_user(
        f"{len(failures)} of {len(search.trials)} candidates failed. The first is {base!r}: "
        f"{type(error).__name__}: {error}",
        FitFailedWarning,
    )
