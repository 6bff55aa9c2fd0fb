"""Synthetic data sets of the papers, with their true distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from sklearn import datasets

from skuq._typing import FloatArray
from skuq._validation import check_integer, check_number, check_option, check_random_state
from skuq.distributions import Normal

Pair: TypeAlias = tuple[FloatArray, FloatArray]
Triple: TypeAlias = tuple[FloatArray, FloatArray, Normal]
Draw = Callable[[int, np.random.RandomState], tuple[FloatArray, FloatArray]]


@overload
def make_wibbeke(
    name: str,
    n_samples: int = 1000,
    *,
    noise: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
    return_distribution: Literal[False] = False,
) -> Pair: ...
@overload
def make_wibbeke(
    name: str,
    n_samples: int = 1000,
    *,
    noise: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
    return_distribution: Literal[True],
) -> Triple: ...
def make_wibbeke(
    name: str,
    n_samples: int = 1000,
    *,
    noise: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
    return_distribution: bool = False,
) -> Pair | Triple:
    r"""Return a synthetic data set of Wibbeke et al. (2025) [1]_, table 3.

    Parameters
    ----------
    name : str
        Name of the function of the features:

        - "euclidean": :math:`y = \sqrt{a^2 + b^2}`
        - "nernst": :math:`y = \frac{R T}{z F} \log \frac{a_1}{a_2}`
        - "stribeck": :math:`y = \mu_1 F + (\mu_2 F - \mu_1 F) \exp(-|v_1 / v_2|^\delta)`
        - "arctan": :math:`y = \arctan x`
        - "mlp": a network with random normal weights
        - "linear", "sparse_uncorrelated", "friedman1", "friedman2", "friedman3": functions of scikit-learn
    n_samples : int, default=1000
        Number of rows.
    noise : float, default=0.0
        Standard deviation of the normal noise, in units of the standard deviation of the function values.
    random_state : int, RandomState instance or None, default=None
        Seed. An integer makes results reproducible.
    return_distribution : bool, default=False
        Whether to also return the true distribution of y given X.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Features.
    y : ndarray of shape (n_samples,)
        Targets.
    dist : Normal
        True distribution of y, one row per sample. Only returned if ``return_distribution`` is True.

    See Also
    --------
    make_chung : Functions with noise that depends on x.
    skuq.simulation.make_known_process : The functions of Sluijterman, Cator and Heskes (2024).

    Notes
    -----
    The paper states the functions, but not the seeds. For "euclidean", "nernst", "stribeck", "arctan" and
    "mlp", it does not state the distributions of the features either. For "euclidean", "nernst" and
    "stribeck", this function uses the distributions in the published code, whose seed is 1. "nernst" excludes
    the outer 10 % of the values.

    There are two differences from the paper. The paper has a plus sign in the parentheses of "stribeck", and
    it calls "friedman3" "friedman2". There are three differences from the published code. In the code, R is
    not among the features of "nernst", so its variation acts like noise. "arctan" is the tangent, and "mlp"
    has uniform weights.

    "sparse_uncorrelated" has noise with standard deviation 1, in addition to `noise`.

    References
    ----------
    .. [1] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> from skuq.datasets import make_wibbeke
    >>> from skuq.metrics import prediction_interval_coverage
    >>> X, y, dist = make_wibbeke("nernst", noise=0.5, random_state=0, return_distribution=True)
    >>> X.shape, y.shape
    ((1000, 6), (1000,))
    >>> round(prediction_interval_coverage(y, dist), 2)
    0.9
    """
    draw = _WIBBEKE[check_option(name, "name", list(_WIBBEKE))]
    n, noise = check_integer(n_samples, "n_samples", minimum=2), check_number(noise, "noise")
    rng = check_random_state(random_state)
    if noise < 0:
        raise ValueError(f"`noise` must be at least 0, got {noise}.")
    X, mean = draw(n, rng)
    own_noise = 1.0 if name == "sparse_uncorrelated" else 0.0
    std = np.full(n, np.hypot(own_noise, noise * mean.std()))
    return _observe(X, mean, std, rng, return_distribution)


@overload
def make_chung(
    name: str,
    n_samples: int = 1000,
    *,
    random_state: int | np.random.RandomState | None = None,
    return_distribution: Literal[False] = False,
) -> Pair: ...
@overload
def make_chung(
    name: str,
    n_samples: int = 1000,
    *,
    random_state: int | np.random.RandomState | None = None,
    return_distribution: Literal[True],
) -> Triple: ...
def make_chung(
    name: str,
    n_samples: int = 1000,
    *,
    random_state: int | np.random.RandomState | None = None,
    return_distribution: bool = False,
) -> Pair | Triple:
    r"""Return a synthetic data set of Uncertainty Toolbox, with noise that depends on x.

    Parameters
    ----------
    name : {"quadrants", "sine"}
        "quadrants" is the data set of the paper [1]_, section 4 and appendix A.1: x is uniform on [-10, 10],
        and :math:`y = \sin(x / 2) + x \cos(0.8 x)` plus noise. From left to right, the standard deviations of
        the noise in the four quarters of the range are 1, 0.01, 1.5 and 0.5. "sine" is the data set of the
        package: x is evenly spaced from 0 to 15, and :math:`y = \sin x` plus noise with standard deviation
        :math:`0.01 + |x - 5| / 10`.
    n_samples : int, default=1000
        Number of rows.
    random_state : int, RandomState instance or None, default=None
        Seed. An integer makes results reproducible.
    return_distribution : bool, default=False
        Whether to also return the true distribution of y given X.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
        Feature.
    y : ndarray of shape (n_samples,)
        Targets.
    dist : Normal
        True distribution of y, one row per sample. Only returned if ``return_distribution`` is True.

    See Also
    --------
    make_wibbeke : Functions of several features. By default, there is no noise.

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, an open-source library for assessing, visualizing, and
       improving uncertainty quantification. https://doi.org/10.48550/arXiv.2109.10254

    Examples
    --------
    >>> from skuq.datasets import make_chung
    >>> from skuq.metrics import prediction_interval_coverage
    >>> X, y, dist = make_chung("quadrants", random_state=0, return_distribution=True)
    >>> round(prediction_interval_coverage(y, dist), 2)
    0.91
    """
    check_option(name, "name", ("quadrants", "sine"))
    n, rng = check_integer(n_samples, "n_samples"), check_random_state(random_state)
    if name == "quadrants":
        x = rng.uniform(-10, 10, n)
        mean = np.sin(x / 2) + x * np.cos(0.8 * x)
        std = np.select([x < -5, x < 0, x < 5], [1.0, 0.01, 1.5], 0.5)
    else:
        x = np.linspace(0, 15, n)
        mean, std = np.sin(x), 0.01 + np.abs(x - 5) / 10
    return _observe(x[:, np.newaxis], mean, std, rng, return_distribution)


def _observe(
    X: FloatArray, mean: FloatArray, std: FloatArray, rng: np.random.RandomState, return_distribution: Any
) -> Pair | Triple:
    y = mean + std * rng.standard_normal(len(mean))
    if check_option(return_distribution, "return_distribution", (True, False)):
        return X, y, Normal(mean, std)
    return X, y


def _stretch(values: FloatArray, lower: float, upper: float) -> FloatArray:
    smallest, largest = values.min(), values.max()
    return np.asarray(lower + (upper - lower) * (values - smallest) / (largest - smallest))


def _euclidean(n: int, rng: np.random.RandomState) -> tuple[FloatArray, FloatArray]:
    radius = _stretch(rng.normal(size=n), 2, 10)
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([radius * np.sin(angle), radius * np.cos(angle)]), radius


def _nernst(n: int, rng: np.random.RandomState) -> tuple[FloatArray, FloatArray]:
    R, T, z, F, a1, a2 = X = rng.uniform(1, 10, (6, 2 * n))
    mean = R * T / (z * F) * np.log(a1 / a2)
    lower, upper = np.quantile(mean, [0.05, 0.95])
    rows = rng.permutation(np.flatnonzero((mean > lower) & (mean < upper)))[:n]
    return X.T[rows], mean[rows]


def _stribeck(n: int, rng: np.random.RandomState) -> tuple[FloatArray, FloatArray]:
    weight = 100 * 9.81  # weight in newtons of 100 kg, on a slope of 0 to 30 degrees
    mu_1 = _stretch(rng.chisquare(3, n), 0.01, 1)
    mu_2 = _stretch(rng.weibull(3, n), 0.01, 1)
    F = _stretch(rng.triangular(1, 6, 8, n), weight * np.cos(np.pi / 6), weight)
    v_1 = _stretch(-rng.rayleigh(5, n), 0.01, 100)
    v_2 = _stretch(rng.power(6, n), 0.01, 1)
    delta = _stretch(rng.wald(1, 2, n), 0.01, 3)
    mean = mu_1 * F + (mu_2 - mu_1) * F * np.exp(-(np.abs(v_1 / v_2) ** delta))
    return np.column_stack([mu_1, mu_2, F, v_1, v_2, delta]), mean


def _arctan(n: int, rng: np.random.RandomState) -> tuple[FloatArray, FloatArray]:
    x = rng.normal(0, np.pi, n)
    return x[:, np.newaxis], np.arctan(x)


def _mlp(n: int, rng: np.random.RandomState) -> tuple[FloatArray, FloatArray]:
    X = rng.normal(size=(n, 4))
    hidden = X @ rng.normal(scale=0.5, size=(4, 128)) + rng.normal(size=128)
    hidden = np.maximum(hidden @ rng.normal(scale=128**-0.5, size=(128, 128)) + rng.normal(size=128), 0)
    return X, hidden @ rng.normal(scale=128**-0.5, size=128)


def _sparse_uncorrelated(n: int, rng: np.random.RandomState) -> tuple[FloatArray, FloatArray]:
    X = rng.normal(size=(n, 4))
    return X, X @ [1.0, 2.0, -2.0, -1.5]


_WIBBEKE: dict[str, Draw] = {
    "euclidean": _euclidean,
    "nernst": _nernst,
    "stribeck": _stribeck,
    "arctan": _arctan,
    "mlp": _mlp,
    "linear": lambda n, rng: datasets.make_regression(n, 3, random_state=rng),
    "sparse_uncorrelated": _sparse_uncorrelated,
    "friedman1": lambda n, rng: datasets.make_friedman1(n, 5, random_state=rng),
    "friedman2": lambda n, rng: datasets.make_friedman2(n, random_state=rng),
    "friedman3": lambda n, rng: datasets.make_friedman3(n, random_state=rng),
}
