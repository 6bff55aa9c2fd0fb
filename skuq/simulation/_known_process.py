"""Processes with a known distribution of y given x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._sklearn_compat import count_rows
from skuq._typing import FloatArray
from skuq._validation import check_finite, check_integer, check_option
from skuq.distributions import Distribution
from skuq.simulation._base import ConstructedProcess, check_features, check_index, check_truth
from skuq.simulation._seeds import draw_seed, feature_rng, fixed_rng, target_rng


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
        rng = fixed_rng(self._seed)
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
