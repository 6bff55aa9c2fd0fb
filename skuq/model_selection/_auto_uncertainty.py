"""Automatic search for the best predictive distribution within a time budget."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from skuq._compat import slice_fit_params, warn_user
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
from skuq.model_selection._auto_choice import (
    CHOICE_ROWS,
    Finalist,
    best_of,
    finalists,
    fit_finalist,
    leaderboard,
    tested_rows,
)
from skuq.model_selection._auto_search import (
    Fitter,
    Search,
    Summary,
    Trial,
    Workers,
    clock,
    content_of,
    import_optuna,
    open_study,
    quiet,
)
from skuq.model_selection._auto_space import POOL, default_space, deferred_space, read_space
from skuq.model_selection._constraints import Constraint, read_constraints
from skuq.prediction import predict_dist
from skuq.regressors import BaseUncertaintyRegressor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS_PER_SECOND, LEAST_SECONDS = 200, 10
"""Number of rows of a search per second of its time budget, and the shortest budget that this rule counts."""
_CONSTRAINED = {"picp": "coverage", "mpiw": "width"}
"""Metrics that can have constraints. The values of the dict are columns of the leaderboard."""


class AutoUncertaintyRegressor(BaseUncertaintyRegressor):
    """Search for the best predictive distribution within a time budget.

    The search selects the model, the parameters, the method and the recalibrator with the lowest out-of-fold
    CRPS, and pools the best of them. Optuna suggests the candidates. The default space contains linear
    models, boosting, forests and networks if their packages are installed. Prefer `UncertaintyRegressor` if
    you have chosen the model. Prefer scikit-learn's searches with a scorer of skuq if you have chosen the
    candidates.

    Parameters
    ----------
    space : dict or None, default=None
        Search space, in the form that `search_space` returns. None means the default space.
    time_budget : float or None, default=60
        Wall-clock time of ``fit`` in seconds, with imports of packages and the final fits. Candidates are
        fitted in worker processes, which are ended at the deadline. Scripts therefore need the guard ``if
        __name__ == "__main__":``. The start of a process takes about two seconds. None means no limit.
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
        With an int k, the folds are ``KFold(k, shuffle=True)``. The method "residual" then uses its own k
        folds, and forests and deep ensembles use their out-of-bag rows, so that one fit gives the forecasts
        of all folds. A splitter, for example for groups or time series, is used for all candidates, and also
        for the folds inside their methods. An iterable is used for all candidates, but the folds inside their
        methods are random. If there is only one fold, pools and recalibrators are fitted to each half of the
        test rows and evaluated on the other half.
    storage : str, optuna storage or None, default=None
        Storage of Optuna. With a storage, a search can be resumed. Pass the URL of a database, such as
        ``"sqlite:///trials.db"``, or a storage object, such as Optuna's JournalStorage. None stores the
        trials in memory.
    study_name : str or None, default=None
        Name of the study in the storage. If a study with this name exists, it is resumed. Its data, folds,
        space and constraints must be the same. Only one search at a time may use a study.
    n_jobs : int or None, default=None
        Number of processes. Each process runs one fit on one thread. Without a time budget, the results do
        not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the search. An integer makes results reproducible if there is no time budget and no other
        search has used the same stored study.
    verbose : int, default=0
        With 1, one line per candidate is written to stderr, with the time and the smallest CRPS so far.

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
        coverage and the mean width of its 90 % intervals. ``"seconds"`` is the time of all fits, and
        ``"end"`` is the time from the start of the search to the end of the candidate. ``"params"`` contains
        the parameters, or the weights of a pool. ``"state"`` is "complete", "pruned" (stopped after a few
        folds), "stored" (in the storage and not fitted again), "out of time" (ended at the deadline),
        "failed" (an error) or "not tried" (a base model without a candidate). ``"reason"`` explains the
        state.
    time_spent_ : dict of str to float
        Seconds by use. ``"search"`` is the time for candidates, ``"choice"`` the time for the weights of the
        pool and the recalibrators, and ``"refit"`` the time for the final fits. The sum is ``"total"``.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    refit_best : Selection under constraints in scikit-learn's searches.
    skuq.regressors.MixtureRegressor : Pool of given models.
    skuq.integrations.flaml.learner : Search by FLAML.

    Notes
    -----
    The search first tries each base model as it is, in the order of the space, which starts with models that
    are fitted fast. After the first complete one, a base model may take three quarters of the time that is
    left, or all of it if the processes could not start again in the rest. With more than 200 rows per second
    of the time budget, and more than 2000 rows, candidates are compared on a random sample of this size,
    which prefers rows with positive weight. All rows are used if `cv` is not an int, by `fit_transform`, and
    by searches with a storage.
    Optuna's tree-structured Parzen estimator [1]_ then suggests candidates in batches of four. Candidates are
    fitted with ``effort="low"``. A candidate that needs one fit per fold is fitted to one fold after another,
    and only the best third continues after each fold. No candidate is fitted twice, so that a search in a
    space without continuous parameters may end early.

    Recalibrators are fitted to the out-of-fold forecasts of the best candidate of each base model, and to the
    forecasts of the pool of these candidates. They are evaluated by cross-validation, which needs no further
    fits of models. Recalibrations of the same forecasts count as equally good if their CRPS is within half a
    percent of the smallest CRPS. Among them, the recalibration with the coverage closest to 90 % is selected.
    The pool averages quantile functions, with the weights of `MixtureRegressor`. A single model is selected
    if its CRPS is within half a percent of the CRPS of the pool.

    Models that were fitted to a sample or to folds are fitted to all rows in the end, for which the search
    keeps a tenth of the time budget, or a quarter after a sample. A model that is not fitted at the deadline
    is replaced by the pool of the models of its folds. Base models without a
    complete candidate are named in a FitFailedWarning. If there is none, `fit` raises an error. Inside a
    worker process of another search, for example of ``GridSearchCV(n_jobs=2)``, candidates are fitted in this
    process. The deadline then holds between fits.

    All base models of the default space accept data frames with strings, categories, dates and missing
    values. Strings are converted to categories for scikit-learn's gradient boosting and LightGBM, to integers
    for forests and CatBoost, and to indicators for other models. For the models that need indicators, missing
    values are replaced by medians. A date is converted to the number of days since 1970 and to its positions
    in the year, the week and the day. The encoders are fitted to X of all rows, without the target.

    Ctrl-C ends the search, and the best model so far is selected. A resumed search first fits the best stored
    candidate of each base model again, because forecasts are not stored. It then fits the candidates that
    were interrupted, by the deadline, by Ctrl-C or because the process was killed. A candidate that was
    interrupted three times is not repeated.

    The scores of the leaderboard are slightly optimistic for the winner, because they are used to select it.
    For an unbiased estimate, pass the regressor to ``cross_validate``. A separate search then runs on the
    training rows of each fold. `fit_transform` returns the out-of-fold forecasts of the winner.

    If a candidate or a recalibrator raises an error, a FitFailedWarning is issued. If all candidates fail,
    the first error is raised.

    References
    ----------
    .. [1] J. Bergstra, R. Bardenet, Y. Bengio, B. Kégl, "Algorithms for hyper-parameter optimization",
       NeurIPS 2011.

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
        >>> list(space["estimators"])[0]
        'linear'
        >>> del space["estimators"]["linear"]
        >>> model = AutoUncertaintyRegressor(space)
        """
        return default_space() if self.space is None else copy.deepcopy(self.space)

    def _n_tasks(self) -> int | None:
        return self.n_trials

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        self._begin = clock()
        self._check_options()
        data = read_training(self, X, y, sample_weight, fit_params, caller, route_weight=False)
        effective_rows(data.sample_weight, len(data))  # raises for relative weights
        return data

    def _check_options(self) -> None:
        if self.time_budget is not None:
            check_number(self.time_budget, "time_budget", positive=True)
        if self.n_trials is not None:
            check_integer(self.n_trials, "n_trials")
        elif self.time_budget is None:
            raise ValueError(
                "`time_budget` and `n_trials` must not both be None. Set `time_budget` or `n_trials`."
            )
        check_option(self.pool, "pool", (True, False))
        check_integer(self.verbose, "verbose", 0)
        if self.n_jobs is not None and check_integer(self.n_jobs, "n_jobs", -sys.maxsize) == 0:
            raise ValueError("`n_jobs` must be a number of jobs, -1 for one per core, or None, got 0.")

    def _constraints(self) -> tuple[Constraint, ...]:
        constraints = read_constraints(self.subject_to)
        for constraint in constraints:
            check_option(constraint.name, "subject_to", tuple(_CONSTRAINED))
        return constraints

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        self._search(data, progress, every_row=False)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        search, winner = self._search(data, progress, every_row=True)
        rows = np.concatenate(search.fitter.tests)
        return winner.out_of_fold[row_order(rows, len(data))]

    def _search(self, data: TrainingData, progress: Progress, *, every_row: bool) -> tuple[Search, Finalist]:
        optuna, constraints = import_optuna(), self._constraints()
        random_folds = has_random_folds(self.cv)
        space = read_space(deferred_space() if self.space is None else self.search_space(), random_folds)
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        folds = None if random_folds else split_rows(resolve_cv(self.cv, seed), data.X, data.y, data.groups)
        content = ""
        if self.storage is not None:
            content = content_of(space, data, folds or self.cv, constraints)
        with quiet(optuna):
            study, seed = open_study(optuna, self.storage, self.study_name, seed, space, content)
        budget = np.inf if self.time_budget is None else self.time_budget
        most = max(budget, LEAST_SECONDS) * ROWS_PER_SECOND
        rows, sample = None, data
        # a stored study may be resumed with another budget, and its scores need the same rows
        if len(data) > most and random_folds and not every_row and self.storage is None:
            order = np.random.RandomState(seed).permutation(len(data))
            rows = np.sort(order[np.argsort(data.repetitions[order] == 0, kind="stable")][: int(most)])
            metadata = slice_fit_params(data.X, data.metadata, rows)
            sample = replace(data.take(rows), metadata=metadata)
        folds = folds or split_rows(resolve_cv(self.cv, seed), sample.X, sample.y, sample.groups)
        if every_row:
            row_order(np.concatenate([test for _, test in folds]), len(data))
        cv = self.cv if not random_folds and hasattr(self.cv, "split") else None
        fitter = Fitter(space, data, sample, rows, folds, cv, random_folds, seed)
        workers = Workers(fitter, self.n_jobs, has_deadline=budget < np.inf)

        def violation(summary: Summary) -> float:
            values = (one.violation(getattr(summary, _CONSTRAINED[one.name])) for one in constraints)
            return float(max(0.0, 0.0, *values))

        def report(search: Search, trial: Trial) -> None:
            progress.done("trial")
            if self.verbose:
                sys.stderr.write(f"[AutoUncertaintyRegressor] {_line(search, trial)}\n")

        search = Search(optuna, study, workers, self._begin, budget, self.n_trials, violation, report)
        try:
            with quiet(optuna):
                try:
                    search.run()
                except KeyboardInterrupt:
                    if not search.best:
                        raise
                    search.budget = 0.0
                    warn_user(
                        "the search was interrupted. The best model so far is selected.", FitFailedWarning
                    )
                finally:
                    search.end()
            if not search.best:
                _raise_without_model(search)
            return search, self._choose(search, constraints, len(data) if every_row else CHOICE_ROWS)
        finally:
            workers.stop()

    def _choose(self, search: Search, constraints: tuple[Constraint, ...], choice_rows: int) -> Finalist:
        """Choose among the best candidates and their pool, with or without a recalibrator. Fit the winner."""
        searched = clock()
        tested = tested_rows(search, choice_rows)
        found = finalists(search, tested, pool=self.pool)
        winner = best_of(found, search)
        least = search.violation(winner.summary)
        if least > 0:
            warn_user(
                f"no complete candidate satisfies {', '.join(map(str, constraints))}. The candidate with "
                f"the smallest relative violation ({least:.3g}) is selected.",
                ConstraintWarning,
            )
        chosen = clock()
        self.best_estimator_ = fit_finalist(winner, search, tested)
        self.leaderboard_: pd.DataFrame = leaderboard(search, found, winner)
        _warn_of_failures(search, self.leaderboard_)
        begin, end = search.begin, clock()
        self.time_spent_ = {
            "search": searched - begin,
            "choice": chosen - searched,
            "refit": end - chosen,
            "total": end - begin,
        }
        return winner

    def plot_search(self, ax: Axes | None = None) -> Axes:
        """Plot the CRPS of the complete candidates against the time at which they ended.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None means new axes.

        Returns
        -------
        ax : matplotlib Axes
            One point per complete candidate, and the smallest CRPS so far as a line. CRPS in units of y.
        """
        check_is_fitted(self)
        board = self.leaderboard_
        done = board[(board["state"] == "complete") & (board["base"] != POOL)]
        done = done[done["recalibration"] == done["recalibration"].iloc[0]].sort_values("end")
        best = done.assign(best=done["crps"].cummin())
        ax = best.plot("end", "best", ax=ax, drawstyle="steps-post", color="black", label="best so far")
        for name, rows in done.groupby("base", sort=False):
            rows.plot("end", "crps", ax=ax, style="o", label=name)
        ax.set(xlabel="time (s)", ylabel="out-of-fold CRPS (units of y)")
        return ax

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


def _line(search: Search, trial: Trial) -> str:
    """Return the progress of a search as a line of text."""
    seconds = f"{clock() - search.begin:.0f} s"
    if np.isfinite(search.budget):
        seconds += f" of {search.budget:g}"
    score = "" if trial.summary is None else f", CRPS {trial.summary.crps:.4g}"
    best = min((one.summary.crps for one in search.best.values() if one.summary), default=np.nan)
    best_score = "" if np.isnan(best) else f" (best {best:.4g})"
    return f"{seconds}: {trial.candidate.base} by {trial.candidate.method}, {trial.state}{score}{best_score}"


def _raise_without_model(search: Search) -> None:
    for trial in search.trials:
        if trial.error is not None:
            raise trial.error
    raise ValueError(
        f"`time_budget` must be long enough to fit one base model, got {search.budget:g}. None of "
        f"{list(search.space.bases)} was complete at the deadline. Increase `time_budget`, pass fewer rows, "
        "or pass a `space` of models that are fitted faster."
    )


def _warn_of_failures(search: Search, board: pd.DataFrame) -> None:
    """Warn about failed candidates, and about base models without a complete candidate."""
    failures = [(trial.candidate.base, trial.error) for trial in search.trials if trial.error is not None]
    if failures:
        base, error = failures[0]
        warn_user(
            f"{len(failures)} of {len(search.trials)} candidates failed. The first is {base!r}: "
            f"{type(error).__name__}: {error}",
            FitFailedWarning,
        )
    states = ["out of time"] if search.has_all_trials else ["out of time", "not tried"]
    late = board[~board["base"].isin(search.best) & board["state"].isin(states)]
    if len(late) and 0 < search.budget < np.inf:  # the user knows of an interruption
        names = ", ".join(repr(name) for name in dict.fromkeys(late["base"]))
        warn_user(
            f"there was no time for {names}. Increase `time_budget`, which is {search.budget:g}, or remove "
            "these base models from the space. See the column 'reason' of `leaderboard_`.",
            FitFailedWarning,
        )
