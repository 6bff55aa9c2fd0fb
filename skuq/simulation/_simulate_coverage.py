"""Pointwise coverage: fit an estimator to many training sets, and compare its intervals with the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from skuq._sklearn_compat import delayed, run_parallel, with_callbacks
from skuq._typing import ArrayLike, FloatArray
from skuq._units import unit_of
from skuq._validation import DEFAULT_COVERAGE, check_coverage, check_integer, check_option
from skuq._warnings import warn_user
from skuq.distributions import Empirical
from skuq.exceptions import NoDecompositionError, SmallSampleWarning
from skuq.prediction import supports_dist
from skuq.prediction._rules.no_distribution import no_distribution
from skuq.regressors._progress import Progress
from skuq.simulation._base import check_world
from skuq.simulation._fits import Forecast, Task, fit_and_forecast, simulations_per_task, training_sets
from skuq.simulation._pointwise_coverage import PointwiseCoverage
from skuq.simulation._seeds import draw_seed, training_seed

__all__ = ["simulate_coverage"]

_FEW_SIMULATIONS = 30
"""Fewer simulations give a warning: the coverage at a row has then a standard error above 0.05 at 90 %."""


def simulate_coverage(
    estimator: Any,
    world: Any,
    *,
    n_simulations: int = 100,
    coverage: ArrayLike = DEFAULT_COVERAGE,
    confidence: str | bool = "auto",
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> PointwiseCoverage:
    """Return how often the intervals of an estimator cover at each x, over repeated training sets.

    One test set shows whether intervals cover on average, not whether the interval at x does [1]_. Here
    the estimator is fitted to many training sets of a world whose truth is known, and the coverage of its
    prediction intervals, and of its confidence intervals where it has them, is computed at each test row.

    Parameters
    ----------
    estimator : estimator
        Regressor that `~skuq.prediction.predict_dist` takes; cloned for every simulation. Callbacks set on it
        see one task a simulation.
    world : KnownWorld, EstimatedWorld or SplitWorld
        Source of the training sets, and of the truth in the test rows. A `SplitWorld` has no known truth, and
        gives the coverage of each simulation alone.
    n_simulations : int, default=100
        Number of training sets S, at least 2. Fewer than 30 give a `SmallSampleWarning`.
    coverage : float or array-like of shape (k,), default=0.9
        Nominal coverage of the central interval. Strictly between 0 and 1.
    confidence : {"auto"} or bool, default="auto"
        Whether confidence intervals are computed, the intervals of the epistemic part. "auto" computes them
        where the first distribution separates the parts; True raises where it does not.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the training; an integer makes results reproducible. The data are drawn with the seed of the
        world.

    Returns
    -------
    result : PointwiseCoverage
        Coverage of each interval, widths, bias, and the real and the claimed spread of the mean.

    Raises
    ------
    NotProbabilisticError
        If the estimator has no predictive distribution; before the first fit.
    NotFittedError
        If the world is not fitted.
    NoDecompositionError
        With ``confidence=True``, if the estimator does not separate epistemic from aleatoric uncertainty.
    ValueError
        If the world has fewer training sets than simulations, or confidence intervals are required in a world
        whose regression function is unknown; before the first fit.

    See Also
    --------
    PointwiseCoverage : The result.
    skuq.metrics.conditional_coverage : Coverage in groups of one real data set.

    Notes
    -----
    Every ``random_state`` of the estimator and of what it holds is set anew in each simulation, also where it
    is an integer: with one seed for all, the randomness of training would count as bias. A splitter with a
    seed of its own keeps it. Simulation s depends on s and on the seeds alone: the first 20 of 100
    simulations are those of a study of 20, and estimators that are compared in one world see the same data.
    A warning is given once for all simulations.

    Cost: S fits. Networks of `skuq.neural` are trained many simulations at a time, in a fraction of the time
    of single fits, but not inside of a Pipeline or another container; they standardise their inputs, so that
    none is needed. Memory is in proportion to S times test rows times coverages; fitted models are not kept.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203.

    Examples
    --------
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.distributions import Normal
    >>> from skuq.simulation import KnownWorld, simulate_coverage
    >>> world = KnownWorld(
    ...     lambda X: Normal(X[:, 0], 0.1),
    ...     lambda n, rng: rng.uniform(-2, 2, size=(n, 1)),
    ...     n_train=25,
    ...     n_test=100,
    ...     random_state=0,
    ... )
    >>> result = simulate_coverage(BayesianRidge(), world, coverage=0.8, random_state=0)
    >>> result.summary(random_state=0)["mean_coverage"].round(1).to_list()  # its intercept has no uncertainty
    [0.8, 0.5]
    """
    n_simulations = check_integer(n_simulations, "n_simulations", minimum=2)
    levels = check_coverage(coverage)
    confidence = check_option(confidence, "confidence", ("auto", True, False))
    if not supports_dist(estimator):
        raise no_distribution(estimator)
    check_world(world, n_simulations, needs_truth=confidence is True)
    seed = draw_seed(random_state)
    if n_simulations < _FEW_SIMULATIONS:
        warn_user(
            f"coverage at a row has a standard error of up to {0.5 / np.sqrt(n_simulations):.2f} with "
            f"{n_simulations} simulations. Use 100 or more.",
            SmallSampleWarning,
        )
    if world.truth_ is None:
        confidence = False
    size = simulations_per_task(estimator, world.training_set(0)[0])
    tasks = [
        Task(
            numbers := range(first, min(first + size, n_simulations)),
            tuple(training_seed(seed, number) for number in numbers),
            np.atleast_1d(levels),
            confidence,
        )
        for first in range(0, n_simulations, size)
    ]
    result: PointwiseCoverage = _run(estimator, world, tasks, levels, n_jobs)
    return result


@with_callbacks  # type: ignore[untyped-decorator]
def _run(
    estimator: Any, world: Any, tasks: Sequence[Task], levels: FloatArray, n_jobs: int | None
) -> PointwiseCoverage:
    """Run all tasks, and put their forecasts together."""
    n_simulations = tasks[-1].numbers.stop
    progress = Progress(estimator, n_simulations)
    study = _Study(world, n_simulations, np.atleast_1d(levels))
    for number, forecast in enumerate(_forecasts(estimator, world, tasks, n_jobs)):
        study.add(number, forecast)
        progress.done("simulation")
    progress.close()
    return study.result(levels)


def _forecasts(estimator: Any, world: Any, tasks: Sequence[Task], n_jobs: int | None) -> Iterator[Forecast]:
    """Yield the forecasts of all simulations in order; warnings of one category are given once."""
    warned: dict[type[Warning], str] = {}
    calls = (
        delayed(fit_and_forecast)(estimator, task, training_sets(world, task), world.X_test_)
        for task in tasks
    )
    for forecasts, warned_in_task in run_parallel(calls, n_jobs=n_jobs, one_by_one=True):
        for category, message in warned_in_task:
            warned.setdefault(category, message)
        yield from forecasts
    for category, message in warned.items():
        warn_user(f"{message} (The first such warning of all simulations.)", category)


class _Study:
    """What is kept of the forecasts of the simulations, of which each is added once and in order."""

    def __init__(self, world: Any, n_simulations: int, levels: FloatArray) -> None:
        self._world = world
        # A single observed target is a point mass: its probability of being covered is 0 or 1.
        self._truth = world.truth_
        self._target = Empirical(np.c_[world.y_test_]) if self._truth is None else self._truth
        n, k = len(self._target), len(levels)
        self._function = None if self._truth is None else self._truth.mean()[:, np.newaxis]
        self._covers_y = np.empty((n_simulations, n, k))
        self._covers_function: Any = None
        self._widths = np.zeros((2, n, k))
        self._means = np.empty((n_simulations, n))
        self._claimed = np.zeros(n)

    def add(self, number: int, forecast: Forecast) -> None:
        """Add the forecast of one simulation."""
        lower, upper = forecast.prediction[:, 0], forecast.prediction[:, 1]
        for j in range(lower.shape[1]):
            # P(l <= Y <= u) is F(u) - F(l-): the left limit counts where the truth has an atom at l
            below = self._target.cdf(np.nextafter(lower[:, j], -np.inf))
            self._covers_y[number, :, j] = self._target.cdf(upper[:, j]) - below
        self._widths[0] += upper - lower
        self._means[number] = forecast.mean
        if number == 0 and forecast.confidence is not None:
            self._covers_function = np.empty(self._covers_y.shape, dtype=np.bool_)
        if self._covers_function is not None:
            self._add_confidence(number, forecast)

    def _add_confidence(self, number: int, forecast: Forecast) -> None:
        """Add the confidence intervals of one simulation; there are some if the first has some."""
        if forecast.confidence is None or forecast.epistemic_std is None or self._function is None:
            raise NoDecompositionError(
                f"the distribution of simulation {number}, counted from 0, does not separate epistemic from "
                "aleatoric uncertainty, where that of the first did. Pass confidence=False."
            )
        lower, upper = forecast.confidence[:, 0], forecast.confidence[:, 1]
        self._covers_function[number] = (lower <= self._function) & (self._function <= upper)
        self._widths[1] += upper - lower
        self._claimed += forecast.epistemic_std

    def result(self, levels: FloatArray) -> PointwiseCoverage:
        """Return the result; a single coverage has no axis of its own."""
        n_simulations, unit = len(self._means), unit_of(self._means)

        def axes(values: Any) -> Any:
            return values[..., 0] if levels.ndim == 0 else values

        separates = self._covers_function is not None
        return PointwiseCoverage(
            coverage=float(levels) if levels.ndim == 0 else levels,
            X_test=self._world.X_test_,
            truth=self._truth,
            prediction_coverages=axes(self._covers_y),
            confidence_coverages=axes(self._covers_function) if separates else None,
            prediction_width=axes(self._widths[0] / n_simulations),
            confidence_width=axes(self._widths[1] / n_simulations) if separates else None,
            bias=None if self._function is None else self._means.mean(axis=0) - self._function[:, 0],
            spread=unit * (self._means / unit).std(axis=0, ddof=1),
            claimed_spread=self._claimed / n_simulations if separates else None,
        )
