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

from skuq._fitting.cross_fit import has_random_folds, resolve_cv, row_order, split_rows
from skuq._fitting.metadata import router_for
from skuq._fitting.point_predict import point_and_dist, point_predict
from skuq._fitting.progress import Progress
from skuq._fitting.seeds import MAX_SEED
from skuq._fitting.training_data import TrainingData, read_training
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
from skuq.regressors import BaseUncertaintyRegressor

_CONSTRAINED = {"picp": "coverage", "mpiw": "width"}
"""Metrics with constraints, and their columns."""


class AutoUncertaintyRegressor(BaseUncertaintyRegressor):
    """Search for the best predictive distribution within a time budget.

    The search finds the model, parameters, method and recalibrator with the lowest CRPS on unseen rows. The
    search covers linear models, forests, boosting and networks if their packages are installed. If the model
    is given, prefer `UncertaintyRegressor`. If the candidates are given, prefer scikit-learn's searches with
    a skuq scorer.

    Parameters
    ----------
    space : dict or None, default=None
        Search space, in the form that `search_space` returns. None is the default space.
    time_budget : float or None, default=60
        Wall-clock time in seconds, including imports of the candidates' packages and the final fits. None
        means no limit.
    n_trials : int or None, default=None
        Largest number of candidates. With ``time_budget=None`` and an integer ``random_state``, results are
        reproducible. With a time budget, they depend on the machine.
    pool : bool, default=True
        Whether to add a pool of the best candidates of all base models as a candidate.
    subject_to : dict of str to (operator, limit), default=None
        Constraints on out-of-fold coverage and mean width of 90 % intervals, such as
        ``{"picp": (">=", 0.88)}`` or ``{"mpiw": ("<=", 2.5)}``, as in `refit_best`. Among the candidates that
        satisfy all constraints, the candidate with the lowest CRPS is selected. A constraint that every value
        of its metric satisfies, or that no value satisfies, raises an error.
    cv : int, splitter or iterable of (train, test), default=3
        Folds. Three folds cost half as much as five folds, the default of other estimators. An int k is
        ``KFold(k, shuffle=True)``; forests and deep ensembles then use their out-of-bag rows instead. A
        splitter, for example for groups or time series, defines the folds of all candidates and the inner
        folds of their methods. An iterable defines only the folds of all candidates; inner folds are random.
        With a single fold, pools and recalibrators are fitted to each half of the test rows and evaluated on
        the other half.
    engine : {"auto", "optuna", "halving"}, default="auto"
        Method that selects further candidates after each base model has been fitted with its own parameters.
        "optuna" uses Optuna's tree-structured Parzen estimator; "halving" uses random candidates and
        successive halving over the folds. "auto" is "optuna" if Optuna is installed, otherwise "halving".
    storage : str, optuna storage or None, default=None
        Optuna's storage of the trials, to resume a search or share it between processes: the URL of a
        database such as ``"sqlite:///trials.db"``, or a storage such as optuna's JournalStorage. None keeps
        the trials in memory.
    study_name : str or None, default=None
        Name of the study in the storage. The name of an earlier search with the same data, folds, space and
        constraints resumes this search.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job is a fit on one thread; at most 4 fits run at once. The
        results depend on ``n_jobs`` only through the time budget. With a time budget below 20 seconds, one
        job is used, because starting processes takes seconds.
    random_state : int, RandomState instance or None, default=None
        An integer makes everything reproducible if there is no time budget, and if a stored study is new and
        not shared.
    verbose : int, default=0
        1 writes a line to stderr for each candidate.

    Attributes
    ----------
    best_estimator_ : estimator
        The selected model, fitted to all rows: an `UncertaintyRegressor`, or a `MixtureRegressor` of several.
        If there is a recalibrator, or an encoder of strings and dates, it is a Pipeline with these fitted
        steps. Members of the `MixtureRegressor` are frozen: another fit does not change them, even in a
        clone.
    leaderboard_ : DataFrame
        One row per candidate, the winner first. Columns: ``"base"``, ``"method"``, ``"recalibration"``; mean
        ``"crps"`` of the out-of-fold forecasts with its ``"standard_error"``; ``"coverage"`` and mean
        ``"width"`` of the 90 % intervals of these forecasts; ``"seconds"`` of all fits; ``"state"``;
        ``"params"``, or the weights of a pool. The state is "complete"; "stored" for a stored candidate that
        was not fitted again; "pruned" after a few folds, with their scores; "out of time" if the next fit
        would not have ended in time; or "failed" after an error.
    time_spent_ : dict of str to float
        Seconds by use: ``"imports"`` of packages; ``"probes"``, fits on few rows that measure the time of a
        model; ``"trials"``, fits and forecasts of candidates; ``"choice"``, weights of the pool and
        recalibrators; ``"refits"`` to all rows; ``"other"``; and the ``"total"``.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    refit_best : Choice under constraints in scikit-learn's searches.
    skuq.regressors.MixtureRegressor : Pool of given models.
    skuq.integrations.flaml.learner : Search by FLAML.

    Notes
    -----
    Base models come first, with their own parameters and the method of
    ``UncertaintyRegressor(method="auto")``. Each candidate is fitted fold by fold, with ``effort="low"``.
    After each fold, candidates that are not in the best third are pruned [1]_, [2]_.

    Recalibrators are fitted to the out-of-fold forecasts of the best candidate of each base model and of
    their pool, and evaluated on the other folds, without further fits of models. Recalibrations of the same
    forecasts within half a percent of the smallest CRPS count as equal. The recalibration with the coverage
    closest to 90 % is selected. The pool averages quantile functions, with the weights of `MixtureRegressor`.

    A candidate starts only if there is time for its import and all its fits. The time of a fit is estimated
    from earlier fits of the same base model and method. Before the first fit, the time is estimated from fits
    on 100, 400, 1600, ... rows if needed. For packages of the default space, typical times are also used. The
    first candidate is the first base model whose fits are expected to end in time, if necessary with fewer
    trees. If no base model can be fitted in time, the fastest base model is fitted, and the search exceeds
    its budget. No candidate is fitted twice, so a space without continuous parameters may end the search
    early. If a base model with its own parameters fails with a method, this combination is not tried again.

    Every base model of the default space takes data frames with strings, categories, dates and missing
    values. Strings become categories for the boosting of scikit-learn and LightGBM, integers for forests and
    CatBoost, and indicators for other models, where medians replace missing values. A date becomes the days
    since 1970 and its position in the year, the week and the day. The encoders are fitted to X of all rows,
    without the target.

    In a storage, a trial that Ctrl-C or SIGTERM interrupts is recorded as failed. A resumed search first fits
    the best stored candidate of each base model again, because forecasts are not stored, and then the
    interrupted trials. A trial of a killed process counts as interrupted; on another machine a process counts
    as killed five minutes after its last heartbeat. A trial that was interrupted three times is not repeated.
    Candidates under evaluation in another process are skipped unless no other candidate is left.

    The scores of the leaderboard determine the winner and are therefore slightly optimistic. For an unbiased
    estimate, pass the whole regressor to ``cross_validate``, which runs a separate search on the training
    rows of each fold. `fit_transform` returns the out-of-fold forecasts of the winner.

    Errors of single candidates and recalibrators give a FitFailedWarning. If all fail, the first error is
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
        """Return a copy of the search space, which may be changed and passed as ``space``.

        Returns
        -------
        space : dict
            ``"estimators"`` has a dict for each base model, by name, in the order of the search. Names must
            not be ``"pool"``. Only ``"estimator"`` is required.

            - ``"estimator"``: the regressor.
            - ``"params"``: for each searched parameter a list of values or a frozen scipy.stats distribution,
              one of ``uniform``, ``loguniform`` and ``randint``.
            - ``"methods"``: methods of `UncertaintyRegressor`; by default all methods whose rules apply to
              the regressor. "forest" and "bootstrap", whose out-of-bag rows are random, are skipped unless
              ``cv`` is an int; if no method is left, the default is used.
            - ``"encoding"``: encoding of strings, dates and missing values, "codes", "categories" or
              "numbers"; see Notes of the class. Without this key, the model gets X unchanged.

            ``"recalibrators"`` has recalibrators by name; None keeps the forecasts unchanged.

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
        """Check the parameters; return the seconds of the budget."""
        seconds = self.time_budget
        if seconds is not None:
            seconds = check_number(seconds, "time_budget", positive=True)
        if self.n_trials is not None:
            check_integer(self.n_trials, "n_trials")
        elif seconds is None:
            raise ValueError("`time_budget` and `n_trials` must not both be None: set one of them.")
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
        """Choose among the best candidates and their pool, with or without recalibrator; fit the winner."""
        _warn_of_failures(search)
        with self._budget.account("choice"):
            found = finalists(search.affordable(), search.evaluator, self.pool)
            winner = best_of(found, search.violation)
        least = search.violation(winner.summary)
        if least > 0:
            warn_user(
                f"no complete candidate satisfies {', '.join(map(str, constraints))}; the candidate with "
                f"the smallest relative violation, {least:.3g}, is chosen.",
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
        """Return the metadata routing: ``groups`` to the splitter, weights to all candidates.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        return router_for(self)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags; an input tag is set if any base model has it."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.time_budget is not None
        if self.space is None:  # packages of the default space must not be imported here
            tags.input_tags.allow_nan = tags.input_tags.sparse = True
            tags.input_tags.string = tags.input_tags.categorical = True
            return tags
        try:
            entries = self.search_space()["estimators"].values()
            encoded = any(entry.get("encoding") is not None for entry in entries)
            tags.input_tags.string = tags.input_tags.categorical = encoded
            members = [get_tags(entry["estimator"]) for entry in entries]
        except Exception:  # estimators of other packages may lack tags; an invalid space raises in fit
            return tags
        tags.input_tags.allow_nan = any(one.input_tags.allow_nan for one in members)
        tags.input_tags.sparse = any(one.input_tags.sparse for one in members)
        return tags


def _warn_of_failures(search: Search) -> None:
    """Warn of failed candidates; raise the first error if none is complete."""
    failures = [(trial.candidate.base, trial.error) for trial in search.trials if trial.error is not None]
    if not failures:
        return
    base, error = failures[0]
    if not search.best:
        raise error
    warn_user(
        f"{len(failures)} of {len(search.trials)} candidates failed, first {base!r}: "
        f"{type(error).__name__}: {error}",
        FitFailedWarning,
    )
