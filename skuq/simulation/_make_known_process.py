"""The known processes of Sluijterman, Cator and Heskes (2024)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import truncnorm

from skuq._typing import FloatArray
from skuq._validation import check_option
from skuq.distributions import Normal
from skuq.simulation._known_process import KnownProcess


def _cubic(X: Any) -> FloatArray:
    x = np.asarray(X, dtype=np.float64)[:, 0]
    return np.asarray((2 * x - 1) ** 3)


def _homoscedastic(X: Any) -> Normal:
    return Normal(_cubic(X), 0.2)


def _heteroscedastic(X: Any) -> Normal:
    return Normal(_cubic(X), 0.1 + np.asarray(X, dtype=np.float64)[:, 0] ** 2)


def _uniform(n: int, rng: np.random.Generator) -> FloatArray:
    return rng.uniform(-0.5, 0.5, size=(n, 1))


def _bimodal(n: int, rng: np.random.Generator) -> FloatArray:
    """Draw from a mixture of two normal distributions at -0.4 and 0.3.

    The mixture is truncated to [-0.5, 0.5].
    """
    loc, scale = np.where(rng.uniform(size=n) < 0.5, -0.4, 0.3), 0.08
    x = truncnorm.ppf(rng.uniform(size=n), (-0.5 - loc) / scale, (0.5 - loc) / scale, loc, scale)
    return np.asarray(x)[:, np.newaxis]


_PROCESSES = {
    "cubic": (_homoscedastic, _uniform),
    "cubic-heteroscedastic": (_heteroscedastic, _uniform),
    "cubic-gap": (_homoscedastic, _bimodal),
}


def make_known_process(
    name: str,
    *,
    n_train: int = 1000,
    n_test: int = 1000,
    fixed_X: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> KnownProcess:
    r"""Return a known process of Sluijterman, Cator and Heskes (2024) [1]_.

    All processes have one feature x in [-0.5, 0.5], the regression function :math:`f(x) = (2x - 1)^3` and
    normal noise.

    Parameters
    ----------
    name : {"cubic", "cubic-heteroscedastic", "cubic-gap"}
        "cubic" has a uniform x, and noise with standard deviation 0.2 (section 5.2 of [1]_).
        "cubic-heteroscedastic" has a uniform x, and noise with standard deviation :math:`0.1 + x^2` (section
        5.3). "cubic-gap" has noise with standard deviation 0.2, and few rows from -0.2 to 0.1 (section 5.4).
        The paper does not state the density of x for "cubic-gap". This function uses a mixture of two normal
        distributions, truncated to [-0.5, 0.5]. The weights are equal, the means are -0.4 and 0.3, and both
        standard deviations are 0.08.
    n_train : int, default=1000
        Number of rows of a training set.
    n_test : int, default=1000
        Number of test rows. All simulations have the same test rows.
    fixed_X : bool, default=False
        Whether all training sets have the same features and different targets.
    random_state : int, RandomState instance or None, default=None
        Seed of the data. An integer makes results reproducible.

    Returns
    -------
    process : KnownProcess
        Process for `simulate_coverage`.

    Raises
    ------
    ValueError
        If ``name`` is unknown.

    See Also
    --------
    KnownProcess : Process that is defined by your own functions.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203.

    Examples
    --------
    >>> from skuq.simulation import make_known_process
    >>> process = make_known_process("cubic-heteroscedastic", random_state=0)
    >>> process.predict_dist([[0.0], [0.5]])
    Normal(n=2)
    >>> process.predict_dist([[0.0], [0.5]]).std()
    array([0.1 , 0.35])
    """
    truth, draw_X = _PROCESSES[check_option(name, "name", list(_PROCESSES))]
    return KnownProcess(
        truth, draw_X, n_train=n_train, n_test=n_test, fixed_X=fixed_X, random_state=random_state
    )
