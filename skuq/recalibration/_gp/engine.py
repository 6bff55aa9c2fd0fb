"""Sparse variational Gaussian process for any likelihood with one or several latent values per row.

The objective is the evidence lower bound

  sum_i weight_i E_q log p(y_i | w(x_i)) - KL(q || prior).

Here q is the normal distribution of the whitened coefficients. Natural gradients maximize the bound over q,
and a quasi-Newton method maximizes the bound over lengthscales and amplitudes. At the optimal q, the
derivatives for lengthscales and amplitudes are the partial derivatives at fixed q (envelope theorem). All
sums over rows are exact, and are computed in blocks of rows to limit the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from skuq._typing import FloatArray, IntArray
from skuq.recalibration._gp.kernel import Basis

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
            if _distance(state.coefficients, precision, shift) < settled:
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


def _distance(coefficients: Coefficients, precision: FloatArray, shift: FloatArray) -> float:
    # The difference of precisions is relative, because precisions grow with the number of rows. The
    # difference of shifts is in units of the bound.
    moved = np.abs(precision - coefficients.precision).max() / np.abs(precision).max()
    left = np.abs(shift - precision @ coefficients.mean).max()  # the gradient of the bound for the mean
    return float(max(moved, left))
