"""The search for lengthscales and amplitudes of a Gaussian process: on all rows, or by batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from skuq._typing import FloatArray, IntArray
from skuq.recalibration._gp.engine import Coefficients, LatentProcess, State, VariationalProcess

LENGTH_CENTRE, LENGTH_SPREAD = 0.3, 1.0
"""Normal prior of a log lengthscale, in the inputs' own units."""

START_AMPLITUDE = 0.3
"""Amplitude of a process at the start of the search."""

SHAPE = 0.3
"""Shape of the gamma prior of an amplitude, whose logarithm is optimised."""

THINNED = 2048
"""With more than twice as many rows, the search begins on so many of them, then takes four times more."""

SETTLED, LOOSE = 1e-9, 1e-3
"""How exactly q is searched for at the peak and far from it, in proportion to the gradient in between."""

LONGEST_STEP = 0.7
"""Largest change of a logarithm in one step: a factor of 2."""

GRADIENT_TOLERANCE, FLAT = 1e-7, 1e-3
"""Size of the gradient at which the search ends, and below which a search that ends early has converged."""

STALL, MOST_STALLED = 1e-10, 3
"""The search also ends when the bound has increased by less than this share so many times in a row."""


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search."""

    process: LatentProcess
    elbo: float
    n_iter: int
    converged: bool


def log_prior(parameters: FloatArray, rates: FloatArray) -> tuple[float, FloatArray]:
    """Return the log density of logarithmic parameters, up to a constant, and its gradient.

    The gamma density is nearly flat for small amplitudes, so that one which the data do not support shrinks,
    but not to 0, where the lengthscales would not be identified.
    """
    lengths, log_amplitudes = parameters[: -len(rates)], parameters[-len(rates) :]
    standard = (lengths - LENGTH_CENTRE) / LENGTH_SPREAD
    size = np.exp(log_amplitudes)
    # gamma density of the amplitude times the Jacobian of its logarithm, and a normal log density
    value = float((SHAPE * log_amplitudes - rates * size).sum() - standard @ standard / 2)
    return value, np.concatenate([-standard / LENGTH_SPREAD, SHAPE - rates * size])


def elbo_gradient(state: State) -> FloatArray:
    """Return the gradient of the bound by the logarithmic parameters at fixed q."""
    sums, process = state.sums, state.process
    # but for the constant, coefficients are proportional to the amplitude: by its logarithm, their means have
    # the derivative mean, and their covariance twice the covariance, where curvature is minus twice the slope
    by_mean = (sums.slope * process.coefficients)[:, 1:].sum(axis=1)
    by_covariance = (sums.curvature * process.covariance).sum(axis=(2, 3))[:, 1:].sum(axis=1)
    by_amplitude = by_mean - by_covariance + process.amplitudes**2 * sums.spread
    return np.concatenate([sums.lengths, by_amplitude])


def _start(problem: VariationalProcess) -> FloatArray:
    lengths = np.full(problem.x.shape[1], LENGTH_CENTRE)
    return np.concatenate([lengths, np.full(len(problem.latents.rates), np.log(START_AMPLITUDE))])


class _Objective:
    """Bound and prior at the best q; each search for q starts from the q of the highest value so far.

    The q of a trial too far out may be a start from which the next search does not converge.
    """

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
            # an error of q changes the bound to second order but this gradient to first order, so that q has
            # to be the more exact the smaller the gradient is
            self.settled = float(np.clip(LOOSE * np.abs(slope).max(), SETTLED, LOOSE))
        return value, slope


def search_all_rows(problem: VariationalProcess, max_iter: int) -> SearchResult:
    """Maximise the bound to rounding, beginning with a sample of the rows where there are many."""
    # coarse to fine: most iterations are on few rows, and the estimate of the curvature is carried on
    peak, size = Peak(_start(problem)), THINNED
    while len(problem.x) > 2 * size:
        peak = maximise(_Objective(problem.thinned(size)), peak, max_iter, 1e-2)
        size *= 4
    objective = _Objective(problem)
    peak = maximise(objective, peak, max_iter, GRADIENT_TOLERANCE)
    state = problem.best(peak.x, objective.coefficients, SETTLED)
    return SearchResult(state.process, state.elbo, peak.n_iter, peak.converged)


@dataclass(frozen=True)
class Peak:
    """Maximum of a function, with the estimate of the curvature there."""

    x: FloatArray
    inverse: FloatArray | None = None  # of minus the matrix of second derivatives
    n_iter: int = 0
    converged: bool = False


def maximise(
    function: Callable[[FloatArray], tuple[float, FloatArray]], start: Peak, max_iter: int, tolerance: float
) -> Peak:
    """Return where a smooth function of a few variables is largest.

    BFGS with steps of bounded length: the variables are logarithms, and the q of one trial is a start for the
    next only nearby. Values are sums over rows; tolerances are relative to their rounding.
    """
    x, inverse, stalled = start.x, start.inverse, 0
    value, slope = function(x)
    size = max(1.0, abs(value) / 1000)
    for iteration in range(max_iter):
        if np.abs(slope).max() < tolerance * size or stalled == MOST_STALLED:
            return Peak(x, inverse, iteration, True)
        found = _climb(function, x, value, slope, inverse, size)
        if found is None and inverse is not None:  # the estimate of the curvature is wrong
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
    """Return a higher point with value and slope, or None if no short step leads up."""
    # without a curvature estimate, steepest ascent; all components are shortened by one factor
    direction = slope if inverse is None else inverse @ slope
    direction = direction / max(1.0, np.abs(direction).max() / LONGEST_STEP)
    share = 1.0
    while share > 1e-4:
        trial = x + share * direction
        trial_value, trial_slope = function(trial)
        # Armijo's condition, with slack for the rounding of a sum of so many rows
        if trial_value >= value + 1e-4 * share * (slope @ direction) - 1e-8 * size:
            return trial, trial_value, trial_slope
        share /= 3
    return None


def _update(inverse: FloatArray | None, step: FloatArray, change: FloatArray) -> FloatArray | None:
    """Return the BFGS update of the inverse, which is left as it is where the function bends upwards."""
    product = step @ change
    if product <= 1e-14:  # the update would not be positive definite
        return inverse
    unit = np.eye(step.size)
    project = unit - np.outer(step, change) / product
    # the first estimate is a multiple of the unit matrix with the curvature along this step
    before = unit * product / (change @ change) if inverse is None else inverse
    return np.asarray(project @ before @ project.T + np.outer(step, step) / product)


def search_by_batches(
    problem: VariationalProcess, batch_size: int, n_steps: int, rng: np.random.RandomState
) -> SearchResult:
    """Raise the bound by stochastic gradients, natural ones for q and Adam for the parameters.

    A sample of the rows gives the start. In the last third the parameters are held at the average of the
    middle third, and q is the average of the optima of the batches. The start is returned if the result is
    not better.
    """
    n = len(problem.x)
    sample = _Objective(problem.thinned(min(max(THINNED, batch_size), n // 2 + 1)))
    parameters = maximise(sample, Peak(_start(problem)), 100, 1e-2).x
    first = sample.problem.best(parameters, sample.coefficients, LOOSE).coefficients
    # the sample has fewer rows than the data: its evidence against the prior is scaled up
    coefficients = first.repeated(problem.weight.sum() / sample.problem.weight.sum())
    start = problem.state_on_all(parameters, coefficients)
    adam, history, held = _Adam(parameters.size), [parameters], 2 * n_steps // 3
    for step, rows in enumerate(_batches(n, batch_size, n_steps, rng)):
        factor = problem.weight.sum() / problem.weight[rows].sum()
        prior = problem.prior(parameters)
        block = [(rows, *prior[0].functions(problem.x[rows]))]
        state = problem.state(coefficients, prior, block, factor, lengths=True)
        # Robbins-Monro rates; from `held` on 1 / k, which averages the optima of the batches
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
    """Return q a step farther, a shorter one where a full one leaves the positive definite matrices."""
    for _ in range(30):  # 30 halvings: 1e-9 of the step
        try:
            return coefficients.towards(precision, shift, rate)
        except LinAlgError:
            rate /= 2
    return coefficients


def _batches(n: int, size: int, count: int, rng: np.random.RandomState) -> Iterator[IntArray]:
    """Yield ``count`` batches of rows: all rows once, in random order, then all again."""
    order = np.empty(0, dtype=np.intp)
    for _ in range(count):
        if len(order) < size:
            order = rng.permutation(n)
        yield order[:size]
        order = order[size:]


class _Adam:
    """Steps of a bounded length along noisy gradients (Kingma and Ba 2015)."""

    def __init__(self, size: int, rate: float = 0.05) -> None:
        self.rate, self.count = rate, 0
        self.mean, self.square = np.zeros(size), np.zeros(size)

    def step(self, gradient: FloatArray) -> FloatArray:
        self.count += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient**2 - self.square)
        # both averages begin at 0, a bias that is divided out
        mean = self.mean / (1 - 0.9**self.count)
        return np.asarray(self.rate * mean / np.sqrt(self.square / (1 - 0.999**self.count) + 1e-30))
