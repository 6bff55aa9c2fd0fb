"""Collapsed bound of inducing-point regression, by gpytorch in float64, without random numbers.

This is the only module of the subpackage that imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._typing import FloatArray

KERNELS = ("rbf", "matern32", "matern52")
"""Names of the kernels."""

MIN_NOISE = 1e-8
"""Smallest noise variance, relative to the variance of y. In float64, smaller values are hardly
representable."""

START_NOISE = 0.5
"""Start value of the noise variance. With a large start value, the search finds long length scales first."""

HISTORY = 20
"""L-BFGS stores this number of steps. Their cost is small compared with the cost of the bound."""

NO_COVARIANCE = (
    "`kernel` must give a finite, positive semi-definite covariance, but its covariance on the standardized "
    "columns of X is not. Change the hyperparameters of the kernel, or increase `jitter`."
)

_REJECTED = 1e10
"""The objective has this value if the kernel is not valid, so that the line search rejects the point."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """Maximum of the bound. The kernel stores its own hyperparameters."""

    inducing: FloatArray
    constant: float
    noise: float
    n_iter: int


def check_gpytorch(caller: str) -> None:
    try:
        import gpytorch  # noqa: F401 - only its presence is checked
    except ImportError as error:
        raise ImportError(f'{caller} needs gpytorch: run `pip install "skuq[gp]"`.') from error


@contextmanager
def torch_threads(limit: int | None) -> Iterator[None]:
    """Set the number of torch threads inside the context. None changes nothing."""
    import torch

    before = torch.get_num_threads()
    try:
        if limit is not None:
            torch.set_num_threads(limit)
        yield
    finally:
        torch.set_num_threads(before)


def as_kernel(kernel: Any, n_features: int, ard: bool) -> Any:
    """Return a float64 gpytorch kernel: a copy of a given kernel, or a new kernel for a name."""
    import gpytorch

    if isinstance(kernel, gpytorch.kernels.InducingPointKernel):
        raise TypeError(
            "`kernel` must be a kernel without inducing points, got an InducingPointKernel. Pass its "
            "`base_kernel`."
        )
    if isinstance(kernel, gpytorch.kernels.Kernel):
        if len(kernel.batch_shape):
            raise ValueError(f"`kernel` must have no batch shape, got {tuple(kernel.batch_shape)}.")
        own = deepcopy(kernel).cpu().double()
        _check_columns(own, n_features)
        return own
    if not isinstance(kernel, str) or kernel not in KERNELS:
        listing = ", ".join(repr(name) for name in KERNELS)
        raise ValueError(f"`kernel` must be one of {listing} or a kernel of gpytorch, got {kernel!r}.")
    options = {"ard_num_dims": n_features if ard else None}
    if kernel == "rbf":
        base = gpytorch.kernels.RBFKernel(**options)
    else:
        base = gpytorch.kernels.MaternKernel(nu=1.5 if kernel == "matern32" else 2.5, **options)
    named = gpytorch.kernels.ScaleKernel(base).double()
    base.lengthscale = math.sqrt(n_features)  # expected distance between standardized rows
    named.outputscale = 1.0
    return named


def _check_columns(kernel: Any, n_features: int) -> None:
    rows = np.zeros((2, n_features))
    try:
        covariance(kernel, rows, rows)
    except (RuntimeError, IndexError) as error:
        raise ValueError(f"`kernel` must accept the {n_features} columns of X, got: {error}") from error


def covariance(kernel: Any, A: FloatArray, B: FloatArray) -> FloatArray:
    """Return the covariance of A and B.

    A and B are centered at the mean of A, in the same way as in gpytorch.
    """
    import torch

    with torch.no_grad():
        matrix: FloatArray = kernel(torch.from_numpy(A), torch.from_numpy(B)).to_dense().numpy()
    return matrix


def variance(kernel: Any, A: FloatArray) -> FloatArray:
    import torch

    with torch.no_grad():
        diagonal = kernel(torch.from_numpy(A), diag=True)
        values: FloatArray = (diagonal if torch.is_tensor(diagonal) else diagonal.to_dense()).numpy()
    return values


def maximize_bound(
    kernel: Any,
    X: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    inducing: FloatArray,
    *,
    move_inducing: bool,
    jitter: float,
    max_iter: int,
    tol: float,
    report: Callable[[], None] | None,
) -> Optimum:
    """Maximize the collapsed bound over the inducing points and the kernel's hyperparameters, in place."""
    import torch

    model = _build_model(kernel, torch.from_numpy(X), torch.from_numpy(y), weight, inducing, jitter)
    model.covar_module.inducing_points.requires_grad_(move_inducing)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    n_iter = 0
    if max_iter and parameters:
        optimiser = torch.optim.LBFGS(
            parameters,
            max_iter=max_iter,
            max_eval=30 * max_iter,
            tolerance_grad=tol,
            tolerance_change=1e-12,
            history_size=HISTORY,
            line_search_fn="strong_wolfe",
        )
        with torch.enable_grad():
            optimiser.step(_closure(model, float(weight.sum()), optimiser.zero_grad, report))  # type: ignore[no-untyped-call]
        n_iter = int(next(iter(optimiser.state.values()))["n_iter"])
        optimiser.zero_grad()
    return Optimum(
        model.covar_module.inducing_points.detach().numpy().copy(),
        model.mean_module.constant.item(),
        model.likelihood.noise.item(),
        n_iter,
    )


def _build_model(kernel: Any, X: Any, y: Any, weight: FloatArray, inducing: FloatArray, jitter: float) -> Any:
    """Return a gpytorch model with inducing points.

    The noise variance of a row is divided by the weight of the row.
    """
    import gpytorch
    import torch
    from linear_operator.operators import DiagLinearOperator

    row_weight = torch.from_numpy(weight)

    class Likelihood(gpytorch.likelihoods.GaussianLikelihood):
        def _shaped_noise_covar(self, base_shape: Any, *params: Any, **kwargs: Any) -> Any:
            return DiagLinearOperator(self.noise / row_weight)

    class InducingKernel(gpytorch.kernels.InducingPointKernel):
        @property
        def _inducing_inv_root(
            self,
        ) -> Any:  # gpytorch adds jitter only after a failure
            matrix = self.base_kernel(self.inducing_points).to_dense()
            eye = torch.eye(len(matrix), dtype=matrix.dtype)
            root = torch.linalg.cholesky(matrix + jitter * matrix.diagonal().mean() * eye, upper=True)
            return torch.linalg.solve_triangular(root, eye, upper=True)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = InducingKernel(kernel, torch.tensor(inducing), likelihood)

        def forward(self, rows: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

    likelihood = Likelihood(noise_constraint=gpytorch.constraints.GreaterThan(MIN_NOISE)).double()
    likelihood.noise = START_NOISE
    return Model(likelihood).double().train()


def _closure(
    model: Any, total: float, zero_grad: Callable[[], None], report: Callable[[], None] | None
) -> Callable[[], Any]:
    """Return the objective of L-BFGS and its gradient.

    The objective is the negative bound per observation.
    """
    # The density of w equal observations is the density of their mean times a factor that depends only on the
    # noise.
    import gpytorch
    import torch
    from linear_operator.utils.errors import NanError, NotPSDError

    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    (X,), y = model.train_inputs, model.train_targets
    n = len(y)
    started = False

    def closure() -> Any:
        nonlocal started
        zero_grad()
        try:
            repeated = 0.5 * (total - n) * torch.log(2.0 * math.pi * model.likelihood.noise).squeeze()
            loss = (repeated - n * mll(model(X), y)) / total
        except (NanError, NotPSDError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            loss = torch.tensor(math.nan)
        if bool(torch.isfinite(loss)):
            loss.backward()
        if not _is_usable(model, loss):
            if not started:
                raise ValueError(NO_COVARIANCE)
            zero_grad()
            loss = torch.tensor(_REJECTED, dtype=torch.float64)
        started = True
        if report is not None:
            report()
        return loss

    return closure


def _is_usable(model: Any, loss: Any) -> bool:
    import torch

    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return all(bool(torch.isfinite(values).all()) for values in (loss, *gradients))
