"""Search for the parameters of the Gaussian process, and its fit to rows in standard units.

A step of the search uses all rows or a batch of rows.

First, an affine change moves all predictions to the location and scale of the targets. A beta map of the
levels has three parameters on the scale of log odds. A beta map corresponds to a factor or a shift of the
values only if the levels are not extreme, because in heavy tails, a change of levels differs from a change of
scale. Therefore, large errors of the scale or location are first corrected by an affine change of the values.
Each family supports an affine change: for example, a `Normal` stays a `Normal`. For a `Transformed`
distribution, the base is changed, so that a positive target stays positive.

The inputs of the process are the predicted mean and the logarithm of the predicted standard deviation. Both
are divided by the same scale. The units and the offset of y therefore have no effect, and an input that
varies little between rows has little influence.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning

from skuq._compat import warn_user
from skuq._numeric import WeightedRanks
from skuq._typing import FloatArray, IntArray
from skuq._validation import check_integer, check_random_state, effective_rows
from skuq.distributions import Distribution, Transformed, affine
from skuq.distributions._concatenated import Concatenated
from skuq.recalibration._base import BaseRecalibrator
from skuq.recalibration._gp import (
    Coefficients,
    LatentPrior,
    LatentProcess,
    Likelihood,
    State,
    VariationalProcess,
    place_inducing_points,
)
from skuq.recalibration._scaling import RowsWithUncertainty, rows_with_uncertainty

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


_TAIL = 0.2
"""Level of the quantiles that define the scale.

The scale is the distance between the quantiles at this level and at 1 minus this level. The location is the
median. The same definitions apply to distributions and to targets. Every family has a location and a scale.
If the rows are calibrated, the scale and the location of the distributions agree with the scale and the
location of the targets, for any shape. With a smaller level, the scale would depend on the tails. If the
targets were normal, a heavy-tailed family would then be too narrow in the center.
"""

_NORMAL = -2 * float(ndtri(_TAIL))
"""Scale of a standard normal distribution. A scale divided by this number is comparable with a standard
deviation."""

_LARGEST_FACTOR = 2.0
"""Largest error of the scale, as a factor, that beta maps correct."""

_LARGEST_SHIFT = 2.0
"""Largest error of the location that beta maps correct, in units of the scale."""

_FEWEST = 5
"""An affine change needs at least this number of targets."""

_FEW = 3
"""The variation of the targets is checked for at least this number of targets. Two targets may be equal by
chance."""

_EDGE = 0.1
"""The comparison of the variation of targets and predictions ignores tails with this probability."""

_LEAST_VARIATION = 0.15
"""Smallest ratio of two ranges: the range of the middle 80 % of the targets, and of the predictions.

If the targets vary less, noise cannot be distinguished from a bias of each prediction. The search is then
slow, and intervals become far too wide.
"""


@dataclass(frozen=True)
class Standardization:
    """Change of Y to loc + shift + (offset + factor (Y - loc) / scale) scale in each row."""

    shift: float = 0.0  # in units of y
    offset: float = 0.0  # in units of the scale
    factor: float = 1.0

    @property
    def changes(self) -> bool:
        return (self.shift, self.offset, self.factor) != (0.0, 0.0, 1.0)

    def __call__(self, dist: Distribution) -> Distribution:
        if not self.changes:
            return dist
        if isinstance(dist, Concatenated):
            return Concatenated([self(part) for part in dist.parts], dist.order)
        if isinstance(dist, Transformed):
            return Transformed(self(dist.base), dist.func, dist.inverse_func, dist.inverse_derivative)
        loc, scale = _loc_and_scale(dist)
        uncertain = scale > 0
        factor = np.where(uncertain, self.factor, 1.0)
        moved = np.where(uncertain, self.shift, 0.0) + self.offset * scale
        return affine(dist, moved + (1.0 - factor) * loc, factor)


def standardization(dist: Distribution, y: FloatArray, weight: FloatArray) -> Standardization:
    """Return the affine change that fits predictions to targets.

    Return no change if targets and predictions are close.
    """
    target, loc, scale, weight = _coordinates(dist, y, weight)
    if weight.sum() < _FEWEST:
        return Standardization()
    offset, factor = _center_and_spread((target - loc) / scale, weight)
    if abs(offset) <= _LARGEST_SHIFT and 1 / _LARGEST_FACTOR <= factor <= _LARGEST_FACTOR:
        return Standardization()
    # a bias may be proportional to the scales, or a constant such as an offset of the units
    shift = _center_and_spread(target - loc, weight)[0]
    rest, smaller = _center_and_spread((target - loc - shift) / scale, weight)
    if smaller < factor:
        found = Standardization(shift, rest, smaller)
    else:
        found = Standardization(0.0, offset, factor)
    return found if found.factor > 0 else Standardization()


def check_variation(dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
    """Raise an error if the targets hardly vary although the predictions vary."""
    target, loc, _, weight = _coordinates(dist, y, weight)
    if weight.sum() < _FEW:
        return
    targets, predictions = (_range(WeightedRanks(each, weight), _EDGE) for each in (target, loc))
    if targets > _LEAST_VARIATION * predictions or (predictions == 0 and np.ptp(target) > 0):
        return
    raise ValueError(
        f"`y` must vary if the predictions vary, but the range of the middle 80 % of the {len(y)} targets is "
        f"{targets:.2g}, and the range of the middle 80 % of the predicted medians is {predictions:.2g}. "
        "Use StdScalingRecalibrator, or fit to more rows."
    )


def _coordinates(
    dist: Distribution, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    target, loc, scale = _untransformed(dist, y)
    rows = np.isfinite(target) & np.isfinite(loc) & (scale > 0)
    return target[rows], loc[rows], scale[rows], weight[rows]


def _untransformed(dist: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    if isinstance(dist, Concatenated):
        stacked, table, start = np.empty(len(y)), np.empty((3, len(y))), 0
        stacked[dist.order] = y
        for part in dist.parts:
            rows = slice(start, start + len(part))
            table[:, rows] = _untransformed(part, stacked[rows])
            start = rows.stop
        target, loc, scale = table[:, dist.order]
        return target, loc, scale
    if isinstance(dist, Transformed):
        with np.errstate(all="ignore"):  # NaN outside the support
            return _untransformed(dist.base, np.asarray(dist.inverse_func(np.array(y)), dtype=float))
    return y, *_loc_and_scale(dist)


def _loc_and_scale(dist: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return the location and the scale of each row.

    If atoms make the scale 0, return the mean and the std.
    """
    known = dist._finite_part()
    tail = np.asarray(_TAIL)
    loc, scale = known._ppf(np.asarray(0.5)), (known._isf(tail) - known._ppf(tail)) / _NORMAL
    if (scale > 0).all():
        return loc, scale
    return np.where(scale > 0, loc, known.mean()), np.where(scale > 0, scale, known.std())


def _center_and_spread(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    ranks = WeightedRanks(values, weight)
    return ranks.median, _range(ranks, _TAIL) / _NORMAL


def _range(ranks: WeightedRanks, tail: float) -> float:
    low, high = tail * ranks.total, (1 - tail) * ranks.total
    # at a whole rank, use the midpoint of two values, so that mirrored data give mirrored results
    upper = ranks.quantile(high) + ranks.quantile_from_top(low)
    return float(upper - ranks.quantile(low) - ranks.quantile_from_top(high)) / 2


_LEAST = 1e-6
"""Lower limit of an absolute residual, as a share of the median absolute residual."""

_FARTHEST = 1e6
"""Largest absolute value of an input, in units of its scale. At this distance, all correlations are 0."""

_MOST_ITERATIONS = 100
"""Default of ``max_iter`` for steps that use all rows."""


def log_size(z: FloatArray, weight: FloatArray) -> FloatArray:
    """Return log |z|, which is finite because |z| is raised to at least a millionth of its median."""
    size = np.abs(z)
    positive = size > 0
    usual = WeightedRanks(size[positive], weight[positive]).median
    return np.log(np.maximum(size, _LEAST * usual))


@dataclass(frozen=True)
class InputScaler:
    """Center and scale of the inputs of the process."""

    center: float
    scale: float

    def inputs(self, mean: FloatArray, std: FloatArray) -> FloatArray:
        """Return the inputs (n, 2). Point masses get the common scale as standard deviation."""
        with np.errstate(over="ignore"):
            position = np.clip((mean - self.center) / self.scale, -_FARTHEST, _FARTHEST)
            width = np.log(np.where(std > 0, std, self.scale) / self.scale)
        return np.column_stack([position, np.clip(width, -_FARTHEST, _FARTHEST)])


@dataclass(frozen=True)
class CalibrationRows:
    """Distinct rows in sorted order, with their inputs, observations and weights."""

    scaler: InputScaler
    inputs: FloatArray
    observed: FloatArray  # shape (observed numbers per row, n)
    weight: FloatArray


def read_rows(dist: Distribution, observed: FloatArray, weight: FloatArray) -> CalibrationRows:
    mean, std = dist.mean(), dist.std()
    center = WeightedRanks(mean, weight).median
    spread = 1.4826 * WeightedRanks(np.abs(mean - center), weight).median
    scaler = InputScaler(center, float(np.hypot(spread, WeightedRanks(std, weight).median)))
    table = np.vstack([np.abs(mean - center), std, mean, observed])
    order = np.lexsort(table[::-1])
    table = table[:, order]
    first = np.concatenate([[True], (np.diff(table, axis=1) != 0).any(axis=0)])
    _, std, mean, *rest = table[:, first]
    counts = np.add.reduceat(weight[order], np.flatnonzero(first))
    return CalibrationRows(scaler, scaler.inputs(mean, std), np.array(rest), counts)


@dataclass(frozen=True)
class FittedProcess:
    """Fitted process as a function of predictions in the units of y."""

    scaler: InputScaler
    process: LatentProcess
    elbo: float
    n_iter: int

    def at(self, mean: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.process.predict(self.scaler.inputs(mean, std))

    def lengthscales(self) -> FloatArray:
        """Return the lengthscales.

        The first lengthscale belongs to the predicted mean and is in the units of y. The second belongs to
        the log std.
        """
        return np.asarray(self.process.basis.lengthscales * [self.scaler.scale, 1.0])

    def amplitudes(self) -> FloatArray:
        return self.process.amplitudes.copy()

    def inducing_points(self) -> FloatArray:
        points, scale = self.process.basis.points, self.scaler.scale
        return np.column_stack([self.scaler.center + scale * points[:, 0], scale * np.exp(points[:, 1])])


def fit_process(
    rows: CalibrationRows,
    likelihood: Likelihood,
    latents: LatentPrior,
    *,
    n_inducing_points: int,
    batch_size: int | None,
    max_iter: int | None,
    random_state: int | np.random.RandomState | None,
) -> FittedProcess:
    """Check the arguments of the recalibrator, and fit the process to the rows with a positive std."""
    most = check_integer(n_inducing_points, "n_inducing_points")
    size = None if batch_size is None else check_integer(batch_size, "batch_size")
    limit = None if max_iter is None else check_integer(max_iter, "max_iter")
    points = place_inducing_points(rows.inputs, rows.weight, most)
    problem = VariationalProcess(rows.inputs, rows.weight, likelihood, points, latents)
    if size is None or size >= len(rows.weight):
        found = search_all_rows(problem, limit or _MOST_ITERATIONS)
    else:
        found = search_by_batches(problem, size, limit or 500, check_random_state(random_state))
    if not found.converged:
        warn_user(_not_converged(found, limit or _MOST_ITERATIONS), ConvergenceWarning)
    return FittedProcess(rows.scaler, found.process, found.elbo, found.n_iter)


def _not_converged(found: SearchResult, limit: int) -> str:
    if found.n_iter >= limit:
        return f"the Gaussian process did not converge in {found.n_iter} iterations. Increase `max_iter`."
    return (
        f"the optimization of the Gaussian process stopped before the optimum, after {found.n_iter} "
        "iterations: no step increases the lower bound, although its gradient is not 0. More iterations "
        "have no effect. The best parameters are kept. Compare the result with IsotonicRecalibrator on new "
        "rows, and check that `y` has no outliers and has the same units as `dist`."
    )


class GPRecalibrator(BaseRecalibrator):
    """Base class of three recalibrators.

    The latent values of these recalibrators are Gaussian processes of the predicted mean and std.
    """

    # A subclass sets `_prior`, the prior of its latent values. It implements the methods
    # `_calibration_rows(spread)`, `_likelihood(observed)` and `_transform(dist)`. The method `_transform`
    # uses `_process`.

    _prior: ClassVar[LatentPrior]
    _process: FittedProcess | None
    """The value is None if all rows are exact point masses, because latent values have no effect on point
    masses."""

    def __init__(
        self,
        *,
        n_inducing_points: int = 24,
        batch_size: int | None = None,
        max_iter: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_inducing_points = n_inducing_points
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state

    @abstractmethod
    def _calibration_rows(self, spread: RowsWithUncertainty) -> CalibrationRows:
        """Return the inputs and the observations of the rows with a positive standard deviation."""

    @abstractmethod
    def _likelihood(self, observed: FloatArray) -> Likelihood: ...
    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        effective_rows(weight, len(y))  # raises for relative weights
        spread = rows_with_uncertainty(dist, y, weight)
        if spread is None:
            self._process = None
            self.lengthscales_, self.inducing_points_ = np.full(2, np.inf), np.empty((0, 2))
            self.amplitudes_, self.elbo_, self.n_iter_ = np.zeros(len(self._prior.rates)), 0.0, 0
            return
        rows = self._calibration_rows(spread)
        process = fit_process(
            rows,
            self._likelihood(rows.observed),
            self._prior,
            n_inducing_points=self.n_inducing_points,
            batch_size=self.batch_size,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        self._process = process
        self.lengthscales_, self.inducing_points_ = process.lengthscales(), process.inducing_points()
        self.amplitudes_, self.elbo_, self.n_iter_ = process.amplitudes(), process.elbo, process.n_iter
