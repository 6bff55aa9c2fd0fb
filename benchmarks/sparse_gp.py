"""Compare the sparse Gaussian process with scikit-learn's exact process, and with its bound in plain torch.

gpytorch is general, so it is slower than forty lines of torch for a single model.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import torch
from measuring import Line, arguments, compared, show
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from torch.nn.functional import softplus

from skuq.metrics import crps_loss
from skuq.prediction import predict_dist
from skuq.regressors import SparseGaussianProcessRegressor
from skuq.regressors._sparse_gaussian_process import (
    MIN_NOISE,
    START_NOISE,
    _build_model,
    _closure,
    as_kernel,
)

JITTER = 1e-10


class PlainBound(torch.nn.Module):
    """Bound of Titsias for an RBF kernel."""

    def __init__(self, inducing: np.ndarray) -> None:
        super().__init__()
        d = inducing.shape[1]

        def raw(value: float, size: tuple[int, ...] = ()) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.full(size, np.log(np.expm1(value)), dtype=torch.float64))

        self.inducing = torch.nn.Parameter(torch.tensor(inducing))
        self.scale, self.amplitude, self.noise = raw(np.sqrt(d), (d,)), raw(1.0), raw(START_NOISE - MIN_NOISE)
        self.constant = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def kernel(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return the covariances between the rows of a and b."""
        a, b = a / softplus(self.scale), b / softplus(self.scale)
        distance = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T
        return softplus(self.amplitude) * torch.exp(-0.5 * distance.clamp_min(0))

    def forward(self, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the bound."""
        n, m = len(y), len(self.inducing)
        noise, amplitude = softplus(self.noise) + MIN_NOISE, softplus(self.amplitude)
        eye = torch.eye(m, dtype=torch.float64)
        root = torch.linalg.cholesky(self.kernel(self.inducing, self.inducing) + JITTER * amplitude * eye)
        A = torch.linalg.solve_triangular(root, self.kernel(self.inducing, X), upper=False)
        B, residual = A @ A.T, y - self.constant
        root_b = torch.linalg.cholesky(eye + B / noise)
        c = torch.linalg.solve_triangular(root_b, (A @ residual)[:, None], upper=False) / noise
        fit = residual @ residual / noise - (c * c).sum()
        trace = (n * amplitude - B.trace()) / noise
        determinant = n * torch.log(2 * torch.pi * noise) + 2 * root_b.diagonal().log().sum()
        return -0.5 * (determinant + fit + trace)


def simulate(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return nine standardized columns, and a target that depends on some of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 9))
    y = np.sin(X[:, 0] + X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + 0.5 * rng.normal(size=n)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def bound_line(n: int, m: int) -> Line:
    """Compare the bound and its gradient at the same hyperparameters."""
    X, y = simulate(n)
    inducing, rows = X[:m].copy(), (torch.from_numpy(X), torch.from_numpy(y))
    model = _build_model(as_kernel("rbf", 9, True), *rows, np.ones(n), inducing, JITTER)
    closure, plain = _closure(model, float(n), model.zero_grad, None), PlainBound(inducing)

    def bare() -> float:
        plain.zero_grad()
        loss = -plain(*rows) / n
        loss.backward()
        return loss.item()

    what = f"bound and gradient, {m} inducing points"
    return Line(what, n, "plain torch", lambda: closure().item(), bare, same=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="use a twentieth of the rows")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # bounds of hyperparameters in scikit-learn
    n, m, n_new = (100, 10, 500) if quick else (2000, 100, 2000)
    (X, y), (X_new, y_new) = simulate(n), simulate(n_new, seed=1)
    kernel, reference = ConstantKernel() * RBF(3 * np.ones(9)) + WhiteKernel(), "scikit-learn, exact"
    exact = GaussianProcessRegressor(kernel, normalize_y=True)
    sparse = SparseGaussianProcessRegressor(m, random_state=0)
    predict, predict_exact = (
        partial(sparse.predict_dist, X_new),
        partial(exact.predict, X_new, return_std=True),
    )
    lines = [
        Line("fit", n, reference, partial(sparse.fit, X, y), partial(exact.fit, X, y)),
        Line("prediction", n_new, reference, predict, predict_exact),
        bound_line(n, 10),
        bound_line(5 * n, 100),
    ]
    show("sparse_gp", compared(lines, quick))
    scores = {"skuq": crps_loss(y_new, predict()), reference: crps_loss(y_new, predict_dist(exact, X_new))}
    show("sparse_gp-scores", pd.DataFrame({"CRPS": scores}).rename_axis("process"), 4)


if __name__ == "__main__":
    main()
