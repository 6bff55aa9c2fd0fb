"""The variational Gaussian process that three recalibrators use: basis functions, engine and fit.

The basis functions are a constant and whitened Matern correlations. Let Z be the inducing points, k the
Matern correlation with nu = 5/2, and L the Cholesky factor of k(Z, Z). The process is

  w(x) = beta_0 + alpha psi(x)' u + alpha e(x),      psi(x) = L^-1 k(Z, x),

with independent normal beta_0 and u. The inducing points do not determine e(x), which has the variance 1 -
psi(x)' psi(x) (Titsias 2009, Hensman, Matthews and Ghahramani 2015).

Log-likelihoods are averaged over normal latent values. The gradient for the covariance is backpropagated
through the Cholesky factor that places the nodes. The result is the exact gradient of the computed value.

A likelihood has one or several latent values per row. The objective is the evidence lower bound

  sum_i weight_i E_q log p(y_i | w(x_i)) - KL(q || prior).

Here q is the normal distribution of the whitened coefficients. Natural gradients maximize the bound over q,
and a quasi-Newton method maximizes the bound over lengthscales and amplitudes. At the optimal q, the
derivatives for lengthscales and amplitudes are the partial derivatives at fixed q (envelope theorem). All
sums over rows are exact, and are computed in blocks of rows to limit the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from skuq._typing import FloatArray, IntArray

JITTER = 1e-6
"""Number that is added to the unit variances of the inducing points, because points may be close together."""

CANDIDATES = 512
"""Maximum number of candidates for inducing points."""

HYPER_STEP = 0.4
"""Inducing points are chosen with this lengthscale. Fitted lengthscales are usually longer."""

MIN_RESIDUAL_VARIANCE = 1e-5
"""No inducing point is added if the unexplained share of the variance is below this value."""

_ROOT = math.sqrt(5.0)


def _distances(x: FloatArray, points: FloatArray, lengthscales: FloatArray) -> list[FloatArray]:
    scaled, centers = x / lengthscales, points / lengthscales
    return [np.square(scaled[:, [d]] - centers[:, d]) for d in range(x.shape[1])]


def correlate(x: FloatArray, points: FloatArray, lengthscales: FloatArray) -> FloatArray:
    """Return the Matern correlations (1 + r + r^2 / 3) exp(-r), shape (n, m).

    Here r is sqrt(5) times the distance.
    """
    r = _ROOT * np.sqrt(sum(_distances(x, points, lengthscales)))
    return np.asarray((1 + r + r * r / 3) * np.exp(-r))


def correlation_slopes(x: FloatArray, points: FloatArray, lengthscales: FloatArray) -> list[FloatArray]:
    squares = _distances(x, points, lengthscales)
    r = _ROOT * np.sqrt(sum(squares))
    common = 5 / 3 * (1 + r) * np.exp(-r)
    return [common * square for square in squares]


def place_inducing_points(x: FloatArray, weight: FloatArray, most: int) -> FloatArray:
    if len(x) > CANDIDATES:
        middle = np.cumsum(weight) - weight / 2
        places = (np.arange(CANDIDATES) + 0.5) / CANDIDATES * weight.sum()
        rows = np.unique(np.minimum(np.searchsorted(middle, places), len(x) - 1))
        x, weight = x[rows], np.ones(len(rows))
    left = correlate(x, x, np.full(x.shape[1], HYPER_STEP))
    total = weight.sum()
    chosen: list[int] = []
    while len(chosen) < min(most, len(x)):
        variance = left.diagonal().copy()
        free = variance > JITTER
        if not free.any() or weight @ variance < MIN_RESIDUAL_VARIANCE * total:
            break
        gain = np.where(free, weight @ np.square(left), 0.0) / np.where(free, variance, 1.0)
        row = int(np.argmax(gain))
        chosen.append(row)
        left -= np.outer(left[:, row], left[row] / variance[row])
    return x[chosen]


class Basis:
    """Basis functions for given lengthscales: the constant and the functions psi of the inducing points."""

    def __init__(self, points: FloatArray, lengthscales: FloatArray) -> None:
        self.points = points
        self.lengthscales = lengthscales
        inside = correlate(points, points, lengthscales)
        self.factor = np.linalg.cholesky(inside + JITTER * np.eye(len(points)))

    def __len__(self) -> int:
        return 1 + len(self.points)

    @cached_property
    def _inverse(self) -> FloatArray:
        return np.asarray(solve_triangular(self.factor, np.eye(len(self.points)), lower=True))

    @cached_property
    def _factor_slopes(self) -> list[FloatArray]:
        """Return matrices P with dL = L P for each log lengthscale.

        P is the lower triangle of L^-1 dK L^-T.
        """
        slopes = correlation_slopes(self.points, self.points, self.lengthscales)
        halves = [self._inverse @ slope @ self._inverse.T for slope in slopes]
        return [np.tril(half) - np.diag(half.diagonal() / 2) for half in halves]

    def functions(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        out = np.ones((len(x), len(self)))
        np.matmul(correlate(x, self.points, self.lengthscales), self._inverse.T, out=out[:, 1:])
        return out, np.maximum(1.0 - np.einsum("ij,ij->i", out[:, 1:], out[:, 1:]), 0.0)

    def slope(self, x: FloatArray, functions: FloatArray, outer: FloatArray) -> FloatArray:
        """Return the derivatives of sum(outer * psi(x)) for the log lengthscales, shape (inputs,)."""
        inner = outer @ self._inverse
        square = outer.T @ functions[:, 1:]
        moved = correlation_slopes(x, self.points, self.lengthscales)
        return np.array(
            [
                np.vdot(inner, slope) - np.vdot(factor_slope, square)
                for slope, factor_slope in zip(moved, self._factor_slopes, strict=True)
            ]
        )


AtNodes: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Map from latent values (latents, nodes, n) to the log-likelihoods (nodes, n) and the gradients of these
values."""

_LEAST_VARIANCE = 1e-12
"""Lower limit of the conditional variance of a latent value. Without it, rounding could make the variance
negative."""


def gauss_hermite(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    nodes, weights = hermegauss(n_nodes)  # for exp(-x^2 / 2), so the weights sum to sqrt(2 pi)
    return nodes[:, np.newaxis], weights / weights.sum()


def icosahedron() -> tuple[FloatArray, FloatArray]:
    """Return 13 nodes and weights for three standard normal variables.

    The rule is exact up to degree five (Stroud 1971).
    """
    golden = (1 + np.sqrt(5.0)) / 2
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) * [1.0, golden]
    corners = np.insert(signs, 0, 0.0, axis=1)
    vertices = np.concatenate([np.roll(corners, shift, axis=1) for shift in range(3)])
    vertices *= np.sqrt(5.0 / (1 + golden**2))
    # 12 nodes with weight 0.05 and squared radius 5 give variances of 12 * 0.05 * 5 / 3 = 1
    return np.concatenate([np.zeros((1, 3)), vertices]), np.concatenate([[0.4], np.full(12, 0.05)])


def factorize(covariance: FloatArray) -> FloatArray:
    size = len(covariance)
    factor = np.zeros_like(covariance)
    # Cholesky-Banachiewicz algorithm, vectorized over rows, for matrices of at most 3 by 3
    for p in range(size):
        for q in range(p + 1):
            rest = covariance[p, q] - sum(factor[p, r] * factor[q, r] for r in range(q))
            factor[p, q] = np.sqrt(np.maximum(rest, _LEAST_VARIANCE)) if p == q else rest / factor[q, q]
    return factor


def place_nodes(mean: FloatArray, factor: FloatArray, nodes: FloatArray) -> FloatArray:
    return np.asarray(mean[:, np.newaxis] + np.einsum("pqn,kq->pkn", factor, nodes))


def expect(
    log_likelihood: AtNodes,
    mean: FloatArray,
    covariance: FloatArray,
    rule: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E f (n,), the gradient for the mean (latents, n), and twice the gradient for the covariance."""
    nodes, weights = rule
    factor = factorize(covariance)
    value, gradient = log_likelihood(place_nodes(mean, factor, nodes))
    weighted = gradient * weights[:, np.newaxis]
    # a node is mean + C x, so the gradient for C is the gradient at the node times x
    by_factor = np.einsum("pkn,kq->pqn", weighted, nodes)
    return weights @ value, weighted.sum(axis=1), _by_covariance(factor, by_factor)


def _by_covariance(factor: FloatArray, by_factor: FloatArray) -> FloatArray:
    """Return twice the gradient for V = C C', given the gradient for C."""
    size = len(factor)
    inverse = np.zeros_like(factor)  # C^-1 by forward substitution
    for p in range(size):
        inverse[p, p] = 1.0 / factor[p, p]
        for q in range(p):
            inverse[p, q] = -sum(factor[p, r] * inverse[r, q] for r in range(q, p)) / factor[p, p]
    low = np.zeros_like(factor)  # low(C' T)
    for p in range(size):
        for q in range(p + 1):
            low[p, q] = sum(factor[r, p] * by_factor[r, q] for r in range(p, size))
        low[p, p] /= 2.0
    half = np.einsum("rpn,rsn,sqn->pqn", inverse, low, inverse)
    return np.asarray(half + half.transpose(1, 0, 2))


BLOCK = 2048
"""Number of rows in a block. The basis functions of a block are in memory at the same time."""

MAX_CACHED_VALUES = 2**22
"""Maximum number of values of basis functions that are cached (32 MB)."""

MOST_STEPS = 40
"""Maximum number of natural gradient steps of a search for q. About six steps are usually enough."""

ROUNDING = 1e-9
"""A smaller relative decrease of the bound may be due to rounding."""

Rows: TypeAlias = slice | IntArray
Block: TypeAlias = tuple[Rows, FloatArray, FloatArray]
"""Row numbers, values of the basis functions, and the variance that the inducing points do not explain."""


class Likelihood(Protocol):
    """Log-likelihood of the observations, averaged over normal latent values."""

    def start(self, weight: FloatArray) -> FloatArray: ...
    def take(self, rows: IntArray) -> Likelihood: ...
    def variational_expectations(
        self, rows: Rows, mean: FloatArray, covariance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E log p (n,), the gradient for the mean, and twice the gradient for the covariance."""


@dataclass(frozen=True)
class Coefficients:
    """Normal distribution of whitened coefficients.

    The attribute ``shift`` is the product of precision and mean.
    """

    precision: FloatArray
    shift: FloatArray
    mean: FloatArray = field(init=False)
    covariance: FloatArray = field(init=False)
    divergence: float = field(init=False)

    def __post_init__(self) -> None:
        factor = cholesky(self.precision, lower=True, check_finite=False)
        mean = cho_solve((factor, True), self.shift, check_finite=False)
        covariance = cho_solve((factor, True), np.eye(len(mean)), check_finite=False)
        log_det = 2 * np.log(factor.diagonal()).sum()
        # KL divergence from N(0, I), which is the prior of whitened coefficients
        divergence = (covariance.trace() + mean @ mean - len(mean) + log_det) / 2
        for name, value in (("mean", mean), ("covariance", covariance), ("divergence", divergence)):
            object.__setattr__(self, name, value)

    def repeated(self, times: float) -> Coefficients:
        unit = np.eye(len(self.mean))  # only the rows are repeated, not the precision of the prior
        return Coefficients(unit + times * (self.precision - unit), times * self.shift)

    def towards(self, precision: FloatArray, shift: FloatArray, share: float) -> Coefficients:
        """Return the distribution after a natural gradient step of length ``share`` (Khan and Lin 2017)."""
        return Coefficients(
            (1 - share) * self.precision + share * precision, (1 - share) * self.shift + share * shift
        )


@dataclass(frozen=True)
class LatentPrior:
    """Prior of the latent values.

    A latent value is the sum of a normal constant and a process with a gamma-distributed amplitude.
    """

    constants: FloatArray  # standard deviations of the constants, shape (latents,)
    rates: FloatArray  # rates of the gamma densities, about 1 / amplitude, shape (latents,)


@dataclass(frozen=True)
class LatentProcess:
    """Distribution of the latent values under q. The distribution is normal at each input."""

    basis: Basis
    coefficients: FloatArray  # shape (latents, functions)
    covariance: FloatArray  # shape (latents, functions, latents, functions)
    amplitudes: FloatArray  # standard deviations of the processes without constants, shape (latents,)

    def predict(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means (latents, n) and covariances (latents, latents, n) at the inputs x."""
        latents = len(self.coefficients)
        mean, covariance = np.empty((latents, len(x))), np.empty((latents, latents, len(x)))
        for start in range(0, len(x), BLOCK):
            rows = slice(start, start + BLOCK)
            mean[:, rows], covariance[:, :, rows] = self.at(*self.basis.functions(x[rows]))
        return mean, covariance

    def at(self, functions: FloatArray, left: FloatArray) -> tuple[FloatArray, FloatArray]:
        latents = len(self.coefficients)
        covariance = np.empty((latents, latents, len(functions)))
        for p in range(latents):
            for q in range(p + 1):
                # psi' S_pq psi for each row; the loop over pairs of latent values saves memory
                product = functions @ self.covariance[p, :, q]
                covariance[p, q] = covariance[q, p] = np.einsum("ij,ij->i", product, functions)
            # the unexplained parts of different latent values are independent
            covariance[p, p] += self.amplitudes[p] ** 2 * left
        return self.coefficients @ functions.T, covariance

    def by_functions(self, functions: FloatArray, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
        """Return the derivatives of a sum over rows for psi in each row, shape (n, functions - 1)."""
        out = gradient.T @ self.coefficients[:, 1:]  # derivative of the means, coefficients' psi
        for p, amplitude in enumerate(self.amplitudes):
            for q in range(len(gradient)):
                # derivative of psi' S psi, which is 2 S psi; `hessian` is twice the gradient for the
                # covariance
                out += hessian[p, q][:, np.newaxis] * (functions @ self.covariance[q, :, p, 1:])
            # derivative of the unexplained variance, amplitude^2 (1 - psi' psi)
            out -= (hessian[p, p] * amplitude**2)[:, np.newaxis] * functions[:, 1:]
        return np.asarray(out)


@dataclass
class Sums:
    """Sums over rows of the expected log-likelihood and of its derivatives."""

    value: float
    slope: FloatArray  # gradient for the means of the coefficients, shape (latents, functions)
    curvature: FloatArray  # -2 times the gradient for the covariance of the coefficients
    spread: FloatArray  # gradient for the variance, times twice the unexplained variance
    lengths: FloatArray  # gradient for the log lengthscales, shape (inputs,), if requested


@dataclass(frozen=True)
class State:
    """Distribution q for given lengthscales and amplitudes, with the bound and its derivatives."""

    coefficients: Coefficients
    process: LatentProcess
    sums: Sums
    elbo: float


class VariationalProcess:
    """Search for the best q, given the rows, the likelihood and the inducing points ``points``."""

    def __init__(
        self,
        x: FloatArray,
        weight: FloatArray,
        likelihood: Likelihood,
        points: FloatArray,
        latents: LatentPrior,
    ) -> None:
        self.x, self.weight, self.likelihood, self.points = x, weight, likelihood, points
        self.latents = latents

    def prior(self, parameters: FloatArray) -> tuple[Basis, FloatArray]:
        inputs = self.x.shape[1]
        basis = Basis(self.points, np.exp(parameters[:inputs]))
        amplitudes = np.repeat(np.exp(parameters[inputs:])[:, np.newaxis], len(basis), axis=1)
        amplitudes[:, 0] = self.latents.constants  # the first basis function is the constant
        return basis, amplitudes

    def blocks(self, basis: Basis) -> Iterator[Block]:
        for start in range(0, len(self.x), BLOCK):
            rows = slice(start, min(start + BLOCK, len(self.x)))
            yield rows, *basis.functions(self.x[rows])

    def add_up(
        self, blocks: Iterable[Block], process: LatentProcess, factor: float = 1.0, *, lengths: bool = False
    ) -> Sums:
        size = process.coefficients.shape
        sums = Sums(0.0, np.zeros(size), np.zeros(size + size), np.zeros(size[0]), np.zeros(self.x.shape[1]))
        for rows, functions, left in blocks:
            value, gradient, hessian = self.likelihood.variational_expectations(
                rows, *process.at(functions, left)
            )
            weight = factor * self.weight[rows]
            gradient, hessian = gradient * weight, hessian * weight
            sums.value += float(weight @ value)
            sums.slope += gradient @ functions
            for p in range(size[0]):
                for q in range(p + 1):
                    product = (functions * hessian[p, q][:, np.newaxis]).T @ functions
                    sums.curvature[p, :, q] -= product
                    if q < p:
                        sums.curvature[q, :, p] -= product
                sums.spread[p] += hessian[p, p] @ left
            if lengths:
                outer = process.by_functions(functions, gradient, hessian)
                sums.lengths += process.basis.slope(self.x[rows], functions, outer)
        return sums

    def state(
        self,
        coefficients: Coefficients,
        prior: tuple[Basis, FloatArray],
        blocks: Iterable[Block],
        factor: float = 1.0,
        *,
        lengths: bool = False,
    ) -> State:
        """Return the bound for q and the derivatives of the bound. The function reads each block once."""
        basis, amplitudes = prior
        size = amplitudes.shape
        # coefficients are amplitudes times whitened coefficients, which have prior variance 1
        covariance = coefficients.covariance * np.outer(amplitudes, amplitudes)
        process = LatentProcess(
            basis,
            coefficients.mean.reshape(size) * amplitudes,
            covariance.reshape(size + size),
            amplitudes[:, -1],
        )
        sums = self.add_up(blocks, process, factor, lengths=lengths)
        return State(coefficients, process, sums, sums.value - coefficients.divergence)

    def state_on_all(self, parameters: FloatArray, coefficients: Coefficients) -> State:
        prior = self.prior(parameters)
        return self.state(coefficients, prior, self.blocks(prior[0]))

    @staticmethod
    def full_step(state: State, amplitudes: FloatArray) -> tuple[FloatArray, FloatArray]:
        flat = amplitudes.ravel()
        size = flat.size
        curvature = state.sums.curvature.reshape(size, size)
        # The natural parameters are the precision I + H and the shift slope + H mean, where H is minus the
        # expected second derivative. Both are converted to whitened coefficients.
        shift = flat * (state.sums.slope.ravel() + curvature @ state.process.coefficients.ravel())
        return np.eye(size) + curvature * np.outer(flat, flat), shift

    def thinned(self, n: int) -> VariationalProcess:
        # rows are sorted by distance from the center, so evenly spaced rows include all distances
        rows = ((np.arange(n) + 0.5) * len(self.x) / n).astype(np.intp)
        return VariationalProcess(
            self.x[rows], self.weight[rows], self.likelihood.take(rows), self.points, self.latents
        )

    def _raised(
        self,
        state: State,
        trial: tuple[FloatArray, FloatArray, float],
        prior: tuple[Basis, FloatArray],
        blocks: Iterable[Block],
    ) -> State | None:
        try:
            found = self.state(state.coefficients.towards(*trial), prior, blocks)
        except LinAlgError:  # a long step may give an indefinite matrix
            return None
        return found if found.elbo > state.elbo - ROUNDING * (1 + abs(state.elbo)) else None

    def first(self, prior: tuple[Basis, FloatArray], blocks: Iterable[Block]) -> Coefficients:
        """Return the initial q. Its mean is `Likelihood.start`, and its curvature is 1/2 per row."""
        _, amplitudes = prior
        functions = amplitudes.shape[1]
        # 1/2 is the curvature of a normal likelihood with variance 2
        square = np.zeros((functions, functions))
        for rows, values, _ in blocks:
            square += (values * (self.weight[rows] / 2)[:, np.newaxis]).T @ values
        latents = np.eye(len(amplitudes))
        flat = amplitudes.ravel()
        precision = np.eye(flat.size) + np.kron(latents, square) * np.outer(flat, flat)
        mean = np.zeros_like(amplitudes)
        mean[:, 0] = self.likelihood.start(self.weight) / self.latents.constants
        return Coefficients(precision, precision @ mean.ravel())

    def best(self, parameters: FloatArray, start: Coefficients | None, settled: float) -> State:
        """Return the q that maximizes the bound for given parameters, with all derivatives of the bound."""
        prior = self.prior(parameters)
        # the basis does not depend on q, so it is cached if it is small enough
        few = len(self.x) * len(prior[0]) <= MAX_CACHED_VALUES
        kept = list(self.blocks(prior[0])) if few else None

        def blocks() -> Iterable[Block]:
            return self.blocks(prior[0]) if kept is None else kept

        state = self.state(start or self.first(prior, blocks()), prior, blocks())
        memory = _Memory()
        for _ in range(MOST_STEPS):
            precision, shift = self.full_step(state, prior[1])
            # The difference of precisions is relative, because precisions grow with the number of rows. The
            # gradient of the bound for the mean is in units of the bound.
            moved = np.abs(precision - state.coefficients.precision).max() / np.abs(precision).max()
            gradient = np.abs(shift - precision @ state.coefficients.mean).max()
            if max(moved, gradient) < settled:
                break
            # use the first step that does not lower the bound: extrapolated, full, or shorter
            tries = [memory.extrapolate(state.coefficients, precision, shift)]
            tries += [(precision, shift, share) for share in (1.0, 0.3, 0.1, 0.01, 1e-4, 1e-6)]
            raised = None
            for trial in tries:
                raised = raised or self._raised(state, trial, prior, blocks())
            if raised is None:
                break
            state = raised
        # the derivatives for the lengthscales need another pass, so they are computed only once
        return self.state(state.coefficients, prior, blocks(), lengths=True)


class _Memory:
    """Extrapolation of natural gradient steps by Anderson's method.

    Without extrapolation, full steps may oscillate.
    """

    def __init__(self, depth: int = 4) -> None:
        self.depth = depth
        self.points: list[FloatArray] = []
        self.steps: list[FloatArray] = []

    def extrapolate(
        self, coefficients: Coefficients, precision: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray, float]:
        """Return the extrapolated natural parameters and the step length 1."""
        point = np.append(coefficients.precision.ravel(), coefficients.shift)
        aim = np.append(precision.ravel(), shift)
        self.points = [*self.points[-self.depth :], point]
        self.steps = [*self.steps[-self.depth :], aim - point]
        if len(self.points) > 1:
            points, steps = np.diff(self.points, axis=0), np.diff(self.steps, axis=0)
            # the combination of past points with the shortest step, under the assumption that steps are a
            # linear function of points
            mix = np.linalg.lstsq(steps.T, self.steps[-1], rcond=1e-10)[0]
            aim = aim - mix @ (points + steps)
        size = shift.size
        square = aim[:-size].reshape(size, size)
        # removes asymmetry due to rounding, which would grow with each step
        return (square + square.T) / 2, aim[-size:], 1.0
