"""Search for the lengthscales and the amplitudes of a Gaussian process.

A step uses all rows or a batch of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from skuq._typing import FloatArray, IntArray
from skuq.recalibration._gp.engine import Coefficients, LatentProcess, State, VariationalProcess

LENGTH_CENTER, LENGTH_SPREAD = 0.3, 1.0
"""Mean and standard deviation of the normal prior of a log lengthscale."""

START_AMPLITUDE = 0.3
"""Initial amplitude of each process."""

SHAPE = 0.3
"""Shape parameter of the gamma prior of an amplitude."""

THINNED = 2048
"""Number of rows of the first stage of the search. Each later stage uses four times as many rows as the stage
before."""

SETTLED, LOOSE = 1e-9, 1e-3
"""Smallest and largest tolerance of the search for q. Between these limits, the tolerance is proportional to
the gradient."""

LONGEST_STEP = 0.7
"""Largest change of a logarithmic parameter in a step. A change of 0.7 is a factor of 2."""

GRADIENT_TOLERANCE, FLAT = 1e-7, 1e-3
"""The search ends if the gradient is below the first number. If a search makes no progress, it counts as
converged if the gradient is below the second number."""

STALL, MOST_STALLED = 1e-10, 3
"""The search ends after three successive steps if each step increases the bound by less than this relative
amount."""


@dataclass(frozen=True)
class SearchResult:
    process: LatentProcess
    elbo: float
    n_iter: int
    converged: bool


def log_prior(parameters: FloatArray, rates: FloatArray) -> tuple[float, FloatArray]:
    lengths, log_amplitudes = parameters[: -len(rates)], parameters[-len(rates) :]
    standard = (lengths - LENGTH_CENTER) / LENGTH_SPREAD
    size = np.exp(log_amplitudes)
    # gamma density of the amplitude, Jacobian of its logarithm, and normal density of the lengthscales
    value = float((SHAPE * log_amplitudes - rates * size).sum() - standard @ standard / 2)
    return value, np.concatenate([-standard / LENGTH_SPREAD, SHAPE - rates * size])


def elbo_gradient(state: State) -> FloatArray:
    sums, process = state.sums, state.process
    # All coefficients except the constant are proportional to the amplitude. The derivative of the means for
    # the log amplitude is `mean`, and the derivative of the covariance is twice `covariance`. `curvature` is
    # -2 times the gradient for the covariance.
    by_mean = (sums.slope * process.coefficients)[:, 1:].sum(axis=1)
    by_covariance = (sums.curvature * process.covariance).sum(axis=(2, 3))[:, 1:].sum(axis=1)
    by_amplitude = by_mean - by_covariance + process.amplitudes**2 * sums.spread
    return np.concatenate([sums.lengths, by_amplitude])


def _start(problem: VariationalProcess) -> FloatArray:
    lengths = np.full(problem.x.shape[1], LENGTH_CENTER)
    return np.concatenate([lengths, np.full(len(problem.latents.rates), np.log(START_AMPLITUDE))])


class _Objective:
    """The bound plus the log prior, at the best q. Each search for q starts at the q of the last search."""

    def __init__(self, problem: VariationalProcess) -> None:
        self.problem = problem
        self.coefficients: Coefficients | None = None
        self.highest, self.settled = -np.inf, LOOSE

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        state = self.problem.best(parameters, self.coefficients, self.settled)
        value, slope = log_prior(parameters, self.problem.latents.rates)
        value, slope = value + state.elbo, slope + elbo_gradient(state)
        if value > self.highest:
            self.coefficients, self.highest = state.coefficients, value
            # An error of q has a second-order effect on the bound, but a first-order effect on this gradient.
            # If the gradient is smaller, q must therefore be more exact.
            self.settled = float(np.clip(LOOSE * np.abs(slope).max(), SETTLED, LOOSE))
        return value, slope


def search_all_rows(problem: VariationalProcess, max_iter: int) -> SearchResult:
    """Maximize the bound up to rounding. If there are many rows, the search starts with a sample of rows."""
    # Most iterations use few rows. Each stage passes its estimate of the curvature to the next stage.
    peak, size = Peak(_start(problem)), THINNED
    while len(problem.x) > 2 * size:
        peak = maximize(_Objective(problem.thinned(size)), peak, max_iter, 1e-2)
        size *= 4
    objective = _Objective(problem)
    peak = maximize(objective, peak, max_iter, GRADIENT_TOLERANCE)
    state = problem.best(peak.x, objective.coefficients, SETTLED)
    return SearchResult(state.process, state.elbo, peak.n_iter, peak.converged)


@dataclass(frozen=True)
class Peak:
    """Maximum of a function, and an estimate of the curvature at the maximum."""

    x: FloatArray
    inverse: FloatArray | None = None  # inverse of minus the Hessian
    n_iter: int = 0
    converged: bool = False


def maximize(
    function: Callable[[FloatArray], tuple[float, FloatArray]], start: Peak, max_iter: int, tolerance: float
) -> Peak:
    """Return the maximum of a smooth function, by the BFGS method with steps of limited length."""
    x, inverse, stalled = start.x, start.inverse, 0
    value, slope = function(x)
    size = max(1.0, abs(value) / 1000)
    for iteration in range(max_iter):
        if np.abs(slope).max() < tolerance * size or stalled == MOST_STALLED:
            return Peak(x, inverse, iteration, True)
        found = _climb(function, x, value, slope, inverse, size)
        if found is None and inverse is not None:  # the curvature estimate is wrong
            found, inverse = _climb(function, x, value, slope, None, size), None
        if found is None:
            return Peak(x, inverse, iteration, bool(np.abs(slope).max() < FLAT * size))
        trial, trial_value, trial_slope = found
        stalled = stalled + 1 if trial_value - value < STALL * (1 + abs(value)) else 0
        inverse = _update(inverse, trial - x, slope - trial_slope)
        x, value, slope = found
    return Peak(x, inverse, max_iter, bool(np.abs(slope).max() < FLAT * size))


def _climb(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    x: FloatArray,
    value: float,
    slope: FloatArray,
    inverse: FloatArray | None,
    size: float,
) -> tuple[FloatArray, float, FloatArray] | None:
    """Return a point with a higher value, with the value and the slope there.

    Return None if no step increases the value.
    """
    # steepest ascent if there is no estimate of the curvature; all components are shortened by one factor
    direction = slope if inverse is None else inverse @ slope
    direction = direction / max(1.0, np.abs(direction).max() / LONGEST_STEP)
    share = 1.0
    while share > 1e-4:
        trial = x + share * direction
        trial_value, trial_slope = function(trial)
        # Armijo's condition, with a tolerance for rounding errors
        if trial_value >= value + 1e-4 * share * (slope @ direction) - 1e-8 * size:
            return trial, trial_value, trial_slope
        share /= 3
    return None


def _update(inverse: FloatArray | None, step: FloatArray, change: FloatArray) -> FloatArray | None:
    """Return the BFGS update of the inverse.

    The inverse does not change if the function is convex along the step.
    """
    product = step @ change
    if product <= 1e-14:  # the update would not be positive definite
        return inverse
    unit = np.eye(step.size)
    project = unit - np.outer(step, change) / product
    # the first estimate is a multiple of the identity, with the curvature along this step
    before = unit * product / (change @ change) if inverse is None else inverse
    return np.asarray(project @ before @ project.T + np.outer(step, step) / product)


def search_by_batches(
    problem: VariationalProcess, batch_size: int, n_steps: int, rng: np.random.RandomState
) -> SearchResult:
    """Maximize the bound by stochastic steps.

    Natural gradients change q, and the Adam method changes the parameters.
    """
    # The search starts at the optimum of a sample of rows. In the last third of the steps, the parameters are
    # fixed at their average over the middle third, and q is the average of the optima of the batches.
    n = len(problem.x)
    sample = _Objective(problem.thinned(min(max(THINNED, batch_size), n // 2 + 1)))
    parameters = maximize(sample, Peak(_start(problem)), 100, 1e-2).x
    first = sample.problem.best(parameters, sample.coefficients, LOOSE).coefficients
    # rescale the likelihood of the sample to the number of all rows
    coefficients = first.repeated(problem.weight.sum() / sample.problem.weight.sum())
    start = problem.state_on_all(parameters, coefficients)
    adam, history, held = _Adam(parameters.size), [parameters], 2 * n_steps // 3
    for step, rows in enumerate(_batches(n, batch_size, n_steps, rng)):
        factor = problem.weight.sum() / problem.weight[rows].sum()
        prior = problem.prior(parameters)
        block = [(rows, *prior[0].functions(problem.x[rows]))]
        state = problem.state(coefficients, prior, block, factor, lengths=True)
        # Robbins-Monro rates; after step `held`, the rate 1 / k averages the optima of the batches
        rate = (10 + step) ** -0.6 if step < held else 1 / (10 + step - held)
        coefficients = _move(coefficients, *problem.full_step(state, prior[1]), rate)
        if step < held:
            slope = elbo_gradient(state) + log_prior(parameters, problem.latents.rates)[1]
            parameters = parameters + adam.step(slope)
            history.append(parameters)
        if step == held - 1:
            parameters = np.mean(history[held // 2 :], axis=0)
    state = problem.state_on_all(parameters, coefficients)
    best = state if state.elbo > start.elbo else start
    return SearchResult(best.process, best.elbo, n_steps, True)


def _move(coefficients: Coefficients, precision: FloatArray, shift: FloatArray, rate: float) -> Coefficients:
    for _ in range(30):  # after 30 halvings, 1e-9 of the step remains
        try:
            return coefficients.towards(precision, shift, rate)
        except LinAlgError:
            rate /= 2
    return coefficients


def _batches(n: int, size: int, count: int, rng: np.random.RandomState) -> Iterator[IntArray]:
    order = np.empty(0, dtype=np.intp)
    for _ in range(count):
        if len(order) < size:
            order = rng.permutation(n)
        yield order[:size]
        order = order[size:]


class _Adam:
    """Steps of limited length along noisy gradients, by the Adam method (Kingma and Ba 2015)."""

    def __init__(self, size: int, rate: float = 0.05) -> None:
        self.rate, self.count = rate, 0
        self.mean, self.square = np.zeros(size), np.zeros(size)

    def step(self, gradient: FloatArray) -> FloatArray:
        self.count += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient**2 - self.square)
        # corrects the bias of the averages, which start at 0
        mean = self.mean / (1 - 0.9**self.count)
        return np.asarray(self.rate * mean / np.sqrt(self.square / (1 - 0.999**self.count) + 1e-30))
