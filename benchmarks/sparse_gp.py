"""Compare the sparse Gaussian process with scikit-learn's exact process, and with its bound in plain torch.

gpytorch is general, so it is slower than forty lines of torch for a single model. Two things are compared in
alternating calls: the bound and its gradient at the same hyperparameters, and whole fits with the same number
of steps. Times are processor times, summed over all threads. A ratio above 1 means that skuq is faster.
`--large` adds 41 157 rows, the size of the protein data.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from measuring import arguments, seconds, times_in_turns
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from torch.nn.functional import softplus

from skuq.metrics import crps_loss
from skuq.prediction import predict_dist
from skuq.regressors import SparseGaussianProcessRegressor
from skuq.regressors._sparse_gaussian_process import (
    HISTORY,
    MIN_NOISE,
    START_NOISE,
    _build_model,
    _closure,
    as_kernel,
)

JITTER, STEPS = 1e-10, 20


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


def world(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return nine standardized columns, and a target that depends on some of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 9))
    y = np.sin(X[:, 0] + X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + 0.5 * rng.normal(size=n)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def in_turns(own: Callable[[], object], peer: Callable[[], object], budget: float) -> tuple[float, float]:
    """Return the best times of both functions, measured in alternating calls."""
    first, second = times_in_turns(own, peer, budget=budget, most=9, clock=time.process_time)
    return min(first), min(second)


def line(what: str, n: int, m: int, peer: str, own: float, other: float, note: str) -> None:
    print(
        f"{what:20}{n:8d}{m:6d}  {peer:22}{1e3 * own:12.1f}{1e3 * other:12.1f}{other / own:8.2f}  {note}",
        flush=True,
    )


def compare_bounds(n: int, m: int) -> None:
    X, y = world(n)
    inducing, rows = X[:m].copy(), (torch.from_numpy(X), torch.from_numpy(y))
    model = _build_model(as_kernel("rbf", 9, True), *rows, np.ones(n), inducing, JITTER)
    closure, plain = _closure(model, float(n), model.zero_grad, None), PlainBound(inducing)

    def bare() -> torch.Tensor:
        plain.zero_grad()
        loss = -plain(*rows) / n
        loss.backward()
        return loss

    np.testing.assert_allclose(closure().item(), bare().item(), rtol=1e-6)
    own, other = in_turns(closure, bare, 6.0)
    line("bound and gradient", n, m, "plain torch", own, other, "")


def compare_fits(n: int, m: int) -> None:
    X, y = world(n)
    found = {}

    def own() -> None:
        model = SparseGaussianProcessRegressor(m, init="random", max_iter=STEPS, random_state=0)
        found["skuq"] = model.fit(X, y).log_marginal_likelihood_ / n

    def peer() -> None:
        plain = PlainBound(X[np.random.RandomState(0).choice(n, m, replace=False)])
        rows = torch.from_numpy(X), torch.from_numpy(y)
        optimiser = torch.optim.LBFGS(
            plain.parameters(),
            max_iter=STEPS,
            max_eval=999,
            history_size=HISTORY,
            line_search_fn="strong_wolfe",
        )

        def closure() -> torch.Tensor:
            optimiser.zero_grad()
            loss = -plain(*rows) / n
            loss.backward()
            return loss

        optimiser.step(closure)
        found["plain"] = plain(*rows).item() / n

    times = in_turns(own, peer, 6.0)
    line(
        f"fit, {STEPS} steps", n, m, "plain torch", *times, f"bound {found['skuq']:.4f}, {found['plain']:.4f}"
    )


def compare_exact(n: int, m: int) -> None:
    """Compare whole fits with default parameters with the exact process: time, and CRPS on new rows."""
    X, y = world(n)
    X_new, y_new = world(2000, seed=1)
    kernel = ConstantKernel() * RBF(3 * np.ones(9)) + WhiteKernel()
    model = SparseGaussianProcessRegressor(m, random_state=0)
    exact = GaussianProcessRegressor(kernel, normalize_y=True)
    own, other = (seconds(lambda one=one: one.fit(X, y), time.process_time) for one in (model, exact))
    scores = [crps_loss(y_new, predict_dist(one, X_new)) for one in (model, exact)]
    line("fit", n, m, "scikit-learn, exact", own, other, "CRPS {:.4f}, {:.4f}".format(*scores))
    own, other = in_turns(
        lambda: model.predict_dist(X_new), lambda: exact.predict(X_new, return_std=True), 4.0
    )
    line("predict 2000 rows", n, m, "scikit-learn, exact", own, other, "")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--large", action="store_true", help="also run with 41157 rows")
    sizes = (2_000, 10_000, 41_157) if parser.parse_args().large else (2_000, 10_000)
    torch.set_num_threads(1)
    print(f"{'what':20}{'rows':>8}{'m':>6}  {'peer':22}{'skuq ms':>12}{'peer ms':>12}{'ratio':>8}")
    for n in sizes:
        for m in (10, 100):
            compare_bounds(n, m)
            compare_fits(n, m)
    for m in (20, 100):
        compare_exact(2_000, m)


if __name__ == "__main__":
    main()
