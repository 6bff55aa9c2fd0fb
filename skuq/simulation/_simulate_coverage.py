"""Simulation studies of pointwise coverage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from skuq._compat import run_parallel, warn_user, with_callbacks
from skuq._fitting.seeds import Progress
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_coverage, check_integer, check_option
from skuq.distributions import Empirical
from skuq.exceptions import NoDecompositionError, SmallSampleWarning
from skuq.prediction import supports_dist
from skuq.prediction._sklearn_rules import no_distribution
from skuq.simulation._base import check_process
from skuq.simulation._fits import (
    Forecast,
    Task,
    draw_seed,
    fit_and_forecast,
    simulations_per_task,
    training_seed,
    training_sets,
)
from skuq.simulation._pointwise_coverage import PointwiseCoverage

_FEW_SIMULATIONS = 30
"""With fewer simulations than this, the standard error of a coverage of 90 % at a row is above 0.05."""


def simulate_coverage(
    estimator: Any,
    process: Any,
    *,
    n_simulations: int = 100,
    coverage: ArrayLike = DEFAULT_COVERAGE,
    confidence_intervals: str | bool = "auto",
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> PointwiseCoverage:
    """Return the coverage of an estimator's intervals at each x over repeated training sets.

    A single test set shows the average coverage of the intervals, but not the coverage at each x [1]_. This
    function fits the estimator to many training sets of a process with a known truth. It returns the coverage
    of the prediction intervals at each test row. If the estimator has confidence intervals, the function also
    returns their coverage.

    Parameters
    ----------
    estimator : estimator
        Regressor that `~skuq.prediction.predict_dist` accepts. It is cloned for each simulation. If the
        estimator has scikit-learn callbacks, they report each simulation as one task.
    process : KnownProcess, EstimatedProcess or SplitData
        Source of the training sets, and of the true distributions in the test rows. A `SplitData` has no true
        distributions, so only the coverage of each simulation is returned.
    n_simulations : int, default=100
        Number S of training sets. At least 2. A number below 30 gives a `SmallSampleWarning`.
    coverage : float or array-like of shape (k,), default=0.9
        Nominal coverage of the central interval. Strictly between 0 and 1.
    confidence_intervals : {"auto"} or bool, default="auto"
        Whether to compute confidence intervals. They include only the epistemic uncertainty. "auto" computes
        confidence intervals if the first predicted distribution separates epistemic from aleatoric
        uncertainty. True raises an error if the distribution does not separate them.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. The results do not depend on ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the training. An integer makes results reproducible. The data depend on the seed of the
        process.

    Returns
    -------
    result : PointwiseCoverage
        Coverage and width of the intervals, bias of the predicted mean, and the true and predicted standard
        deviations of the predicted mean.

    Raises
    ------
    NotProbabilisticError
        If the estimator has no predictive distribution. The error is raised before the first fit.
    NotFittedError
        If the process is not fitted.
    NoDecompositionError
        With ``confidence_intervals=True``, if the estimator does not separate epistemic from aleatoric
        uncertainty.
    ValueError
        If the process has fewer training sets than simulations, or if confidence intervals are requested and
        the regression function is unknown. The error is raised before the first fit.

    See Also
    --------
    PointwiseCoverage : Result of this function.
    skuq.metrics.conditional_coverage : Coverage in groups of one real data set.

    Notes
    -----
    Each simulation sets every parameter ``random_state`` of the estimator and of its parts, even if the
    parameter is an integer. Otherwise, the effect of one common seed would count as bias. A splitter with a
    seed keeps its seed. A simulation depends only on its number and on the seeds. Therefore, the first 20 of
    100 simulations are the same as in a study with 20 simulations, and two estimators receive the same data
    from the same process. Warnings of the same category are issued only once.

    The cost is S fits. Networks of `skuq.neural` are trained for many simulations at once, which takes a
    fraction of the time of separate fits. This is not possible if the networks are inside a meta-estimator
    such as a Pipeline. (The networks standardize their inputs, so they do not need a Pipeline.) The memory is
    proportional to the number of simulations times the number of test rows times the number of coverages.
    Fitted models are not stored.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203.

    Examples
    --------
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.distributions import Normal
    >>> from skuq.simulation import KnownProcess, simulate_coverage
    >>> process = KnownProcess(
    ...     lambda X: Normal(X[:, 0], 0.1),
    ...     lambda n, rng: rng.uniform(-2, 2, size=(n, 1)),
    ...     n_train=25,
    ...     n_test=100,
    ...     random_state=0,
    ... )
    >>> result = simulate_coverage(BayesianRidge(), process, coverage=0.8, random_state=0)
    >>> result.summary(random_state=0)["mean_coverage"].round(1).to_list()
    [0.8, 0.5]

    The first number is the coverage of the prediction intervals. The second number is the coverage of the
    confidence intervals, which are too narrow because BayesianRidge ignores the uncertainty of the intercept.
    """
    n_simulations = check_integer(n_simulations, "n_simulations", minimum=2)
    levels = check_coverage(coverage)
    intervals = check_option(confidence_intervals, "confidence_intervals", ("auto", True, False))
    if not supports_dist(estimator):
        raise no_distribution(estimator)
    check_process(process, n_simulations, needs_truth=intervals is True)
    seed = draw_seed(random_state)
    if n_simulations < _FEW_SIMULATIONS:
        warn_user(
            f"coverage at a row has a standard error of up to {0.5 / np.sqrt(n_simulations):.2f} with "
            f"{n_simulations} simulations. Use at least 100 simulations.",
            SmallSampleWarning,
        )
    if process.truth_ is None:
        intervals = False
    size = simulations_per_task(estimator, process.training_set(0)[0])
    tasks = [
        Task(
            numbers := range(first, min(first + size, n_simulations)),
            tuple(training_seed(seed, number) for number in numbers),
            np.atleast_1d(levels),
            intervals,
        )
        for first in range(0, n_simulations, size)
    ]
    result: PointwiseCoverage = _run(estimator, process, tasks, levels, n_jobs)
    return result


@with_callbacks
def _run(
    estimator: Any, process: Any, tasks: Sequence[Task], levels: FloatArray, n_jobs: int | None
) -> PointwiseCoverage:
    n_simulations = tasks[-1].numbers.stop
    progress = Progress(estimator, n_simulations)
    study = _Study(process, n_simulations, np.atleast_1d(levels))
    for number, forecast in enumerate(_forecasts(estimator, process, tasks, n_jobs)):
        study.add(number, forecast)
        progress.done("simulation")
    progress.close()
    return study.result(levels)


def _forecasts(estimator: Any, process: Any, tasks: Sequence[Task], n_jobs: int | None) -> Iterator[Forecast]:
    """Yield the forecasts of all simulations in order. Each category of warnings is issued once."""
    warned: dict[type[Warning], str] = {}
    calls = (
        partial(fit_and_forecast, estimator, task, training_sets(process, task), process.X_test_)
        for task in tasks
    )
    for forecasts, warned_in_task in run_parallel(calls, n_jobs=n_jobs, one_by_one=True):
        for category, message in warned_in_task:
            warned.setdefault(category, message)
        yield from forecasts
    for category, message in warned.items():
        warn_user(f"{message} (The first such warning of all simulations.)", category)


class _Study:
    """Accumulator of the forecasts. The forecasts are added in the order of the simulations."""

    def __init__(self, process: Any, n_simulations: int, levels: FloatArray) -> None:
        self._process = process
        # a single observed target is a point mass, so its coverage is 0 or 1
        self._truth = process.truth_
        self._target = Empirical(np.c_[process.y_test_]) if self._truth is None else self._truth
        n, k = len(self._target), len(levels)
        self._function = None if self._truth is None else self._truth.mean()[:, np.newaxis]
        self._covers_y = np.empty((n_simulations, n, k))
        self._covers_function: Any = None
        self._widths = np.zeros((2, n, k))
        self._means = np.empty((n_simulations, n))
        self._claimed = np.zeros(n)

    def add(self, number: int, forecast: Forecast) -> None:
        lower, upper = forecast.prediction[:, 0], forecast.prediction[:, 1]
        for j in range(lower.shape[1]):
            # P(l <= Y <= u) is F(u) - F(l-); the left limit F(l-) differs from F(l) if there is an atom at l
            below = self._target.cdf(np.nextafter(lower[:, j], -np.inf))
            self._covers_y[number, :, j] = self._target.cdf(upper[:, j]) - below
        self._widths[0] += upper - lower
        self._means[number] = forecast.mean
        if number == 0 and forecast.confidence is not None:
            self._covers_function = np.empty(self._covers_y.shape, dtype=np.bool_)
        if self._covers_function is not None:
            self._add_confidence(number, forecast)

    def _add_confidence(self, number: int, forecast: Forecast) -> None:
        """Add the confidence intervals of a simulation.

        If the first simulation has confidence intervals, all simulations must have confidence intervals.
        """
        if forecast.confidence is None or forecast.epistemic_std is None or self._function is None:
            raise NoDecompositionError(
                f"simulation {number}, counted from 0, must separate epistemic from aleatoric uncertainty, "
                "because the first simulation separates them. Pass confidence_intervals=False."
            )
        lower, upper = forecast.confidence[:, 0], forecast.confidence[:, 1]
        self._covers_function[number] = (lower <= self._function) & (self._function <= upper)
        self._widths[1] += upper - lower
        self._claimed += forecast.epistemic_std

    def result(self, levels: FloatArray) -> PointwiseCoverage:
        """Return the result. If ``levels`` is a scalar, the arrays have no axis for coverages."""
        n_simulations = len(self._means)

        def axes(values: Any) -> Any:
            return values[..., 0] if levels.ndim == 0 else values

        separates = self._covers_function is not None
        return PointwiseCoverage(
            coverage=float(levels) if levels.ndim == 0 else levels,
            X_test=self._process.X_test_,
            truth=self._truth,
            prediction_coverage=axes(self._covers_y),
            confidence_coverage=axes(self._covers_function) if separates else None,
            prediction_width=axes(self._widths[0] / n_simulations),
            confidence_width=axes(self._widths[1] / n_simulations) if separates else None,
            bias=None if self._function is None else self._means.mean(axis=0) - self._function[:, 0],
            spread=self._means.std(axis=0, ddof=1),
            claimed_spread=self._claimed / n_simulations if separates else None,
        )
