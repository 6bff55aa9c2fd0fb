"""Processes with a known distribution of y given x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import truncnorm

from skuq._compat import count_rows
from skuq._typing import FloatArray
from skuq._validation import check_finite, check_integer, check_option
from skuq.distributions import Distribution, Normal
from skuq.simulation._base import ConstructedProcess, check_features, check_index, check_truth
from skuq.simulation._fits import draw_seed, feature_rng, target_rng


class KnownProcess(ConstructedProcess):
    """Process with a known distribution of y given x.

    The constructor draws the test rows. `training_set` draws a training set. There is no method ``fit``. The
    method ``predict_dist`` returns the true distribution. You can evaluate this ideal forecast with all
    metrics, scorers and displays of skuq.

    Parameters
    ----------
    truth : callable
        ``truth(X)`` returns the Distribution of y, with one row for each row of X. The distribution may
        belong to any family. Its mean is the regression function.
    draw_X : callable
        ``draw_X(n, rng)`` draws n rows of features with the ``numpy.random.Generator`` rng. It returns an
        array of shape (n, n_features) or a DataFrame.
    n_train : int
        Number of rows of a training set.
    n_test : int, default=1000
        Number of test rows. All simulations have the same test rows.
    fixed_X : bool, default=False
        Whether all training sets have the same features and different targets, as in definition 1 of [1]_.
        With False, each training set has its own features.
    random_state : int, RandomState instance or None, default=None
        Seed of the data. An integer makes results reproducible. With None, one seed is drawn in the
        constructor.

    Attributes
    ----------
    X_test_ : ndarray of shape (n_test, n_features) or DataFrame
        Test rows.
    truth_ : Distribution of n_test rows
        True distribution of y in the test rows.

    Raises
    ------
    TypeError
        If ``truth`` or ``draw_X`` is not callable, or if ``truth`` does not return a Distribution.
    ValueError
        If ``draw_X`` returns a wrong number of rows or different columns. If ``truth`` returns a wrong number
        of rows or a mean that is not finite.

    See Also
    --------
    make_known_process : Processes of Sluijterman, Cator and Heskes (2024).
    EstimatedProcess : Process that is estimated from a real data set.
    simulate_coverage : Pointwise coverage of an estimator for a process.

    Notes
    -----
    Training set s uses its own random numbers, which depend only on ``random_state`` and s. Therefore, two
    estimators that are compared on the same process receive the same data. The data of the first simulations
    do not depend on the number of simulations.

    Functions that are defined in a notebook, including lambda functions, work with any number of jobs.
    However, ``pickle`` cannot store a process with such functions.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203, sections 2 and 4.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import prediction_interval_coverage
    >>> from skuq.simulation import KnownProcess
    >>> process = KnownProcess(
    ...     lambda X: Normal(X[:, 0] ** 2, 0.1),
    ...     lambda n, rng: rng.uniform(-1, 1, size=(n, 1)),
    ...     n_train=50,
    ...     random_state=0,
    ... )
    >>> X, y = process.training_set(0)
    >>> X.shape, y.shape
    ((50, 1), (50,))
    >>> round(prediction_interval_coverage(y, process.predict_dist(X)), 2)
    0.9
    """

    def __init__(
        self,
        truth: Callable[[Any], Distribution],
        draw_X: Callable[[int, np.random.Generator], Any],
        *,
        n_train: int,
        n_test: int = 1000,
        fixed_X: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.truth = truth
        self.draw_X = draw_X
        self.n_train = n_train
        self.n_test = n_test
        self.fixed_X = fixed_X
        self.random_state = random_state
        self._prepare()

    def _prepare(self) -> None:
        for name in ("truth", "draw_X"):
            if not callable(getattr(self, name)):
                raise TypeError(f"`{name}` must be a function, got {getattr(self, name)!r}.")
        n_train, n_test = (check_integer(getattr(self, name), name) for name in ("n_train", "n_test"))
        self._seed = draw_seed(self.random_state)
        rng = np.random.default_rng(np.random.SeedSequence(self._seed))
        self.X_test_ = check_features(self.draw_X(n_test, rng), n_test)
        self.truth_ = self.predict_dist(self.X_test_)
        self._fixed_X = None
        if check_option(self.fixed_X, "fixed_X", (True, False)):
            self._fixed_X = check_features(self.draw_X(n_train, rng), n_train, self.X_test_)

    def training_set(self, index: int) -> tuple[Any, FloatArray]:
        """Draw one training set.

        Parameters
        ----------
        index : int
            Number of the training set, from 0. The same number always gives the same training set.

        Returns
        -------
        X : ndarray of shape (n_train, n_features) or DataFrame
            Features.
        y : ndarray of shape (n_train,)
            Targets that are drawn from the true distribution.
        """
        index = check_index(index)
        X = self._fixed_X
        if X is None:
            X = check_features(
                self.draw_X(self.n_train, feature_rng(self._seed, index)), self.n_train, self.X_test_
            )
        y = self.predict_dist(X).sample(1, target_rng(self._seed, index))[:, 0]
        return X, check_finite(y, "y")

    def predict_dist(self, X: Any) -> Distribution:
        """Return the true distribution of y for each row.

        Parameters
        ----------
        X : array-like of shape (n, n_features) or DataFrame
            Features, in a form that ``truth`` accepts.

        Returns
        -------
        dist : Distribution of n rows
            Distribution that ``truth`` returns.
        """
        return check_truth(self.truth(X), count_rows(X), "truth")

    def predict(self, X: Any) -> FloatArray:
        """Return the regression function, i.e. the mean of the true distribution, for each row.

        Parameters
        ----------
        X : array-like of shape (n, n_features) or DataFrame
            Features, in a form that ``truth`` accepts.

        Returns
        -------
        mean : ndarray of shape (n,)
            Values of the regression function, in the units of y.
        """
        return self.predict_dist(X).mean()


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
