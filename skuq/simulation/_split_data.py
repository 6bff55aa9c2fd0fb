"""Processes whose training sets are disjoint parts of a very large data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._compat import count_rows, safe_indexing
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_integer, check_target, check_unmasked
from skuq.simulation._base import ConstructedProcess, check_index
from skuq.simulation._fits import draw_seed


class SplitData(ConstructedProcess):
    """Very large data set, divided into test rows and disjoint training sets.

    All targets are real, but the true distribution is unknown, and each test row has a single target.
    Therefore, a simulation only shows the share of test rows whose target is in the prediction interval. The
    coverage at each x and the coverage of confidence intervals cannot be computed. There is no method
    ``fit``.

    Parameters
    ----------
    X : array-like, DataFrame or sparse matrix of n rows
        Features. They are not converted.
    y : array-like of shape (n,)
        Observed targets.
    n_train : int
        Number of rows of a training set.
    n_test : int
        Number of test rows.
    random_state : int, RandomState instance or None, default=None
        Seed of the split. An integer makes results reproducible. With None, one seed is drawn in the
        constructor.

    Attributes
    ----------
    X_test_ : array-like, DataFrame or sparse matrix of n_test rows
        Test rows.
    y_test_ : ndarray of shape (n_test,)
        Targets of the test rows.
    truth_ : None
        None, because the true distribution of y is unknown.
    n_training_sets_ : int
        Number of disjoint training sets. This is the largest possible number of simulations.

    Raises
    ------
    ValueError
        If X and y have too few rows for the test rows and two training sets.

    See Also
    --------
    EstimatedProcess : Process with a known truth. It shows the coverage at each x and the coverage of
        confidence intervals.

    Notes
    -----
    This is the third proposal of [1]_, section 4. A single target per row does not determine the probability
    of coverage at this row. Even perfect 90 % intervals would have a Brier score of about 0.09, because the
    coverage of a single target is 0 or 1. `PointwiseCoverage.picf` and the Brier score therefore raise an
    error. ``result.prediction_coverage.mean(axis=0)`` is the share of simulations that cover each target.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.regressors import LeastSquaresRegressor
    >>> from skuq.simulation import SplitData, simulate_coverage
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = X[:, 0] + rng.normal(size=4000)
    >>> process = SplitData(X, y, n_train=50, n_test=1000, random_state=0)
    >>> process.n_training_sets_
    60
    >>> result = simulate_coverage(LeastSquaresRegressor(), process, n_simulations=60, random_state=0)
    >>> round(float(result.picp.mean()), 1)
    0.9
    """

    n_training_sets_: int

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        *,
        n_train: int,
        n_test: int,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.X = X
        self.y = y
        self.n_train = n_train
        self.n_test = n_test
        self.random_state = random_state
        self._prepare()

    def _prepare(self) -> None:
        n_train, n_test = (check_integer(getattr(self, name), name) for name in ("n_train", "n_test"))
        check_unmasked(self.X, "X")
        n = count_rows(self.X)
        self._target = check_target(self.y, "y", n)
        if n < n_test + 2 * n_train:
            raise ValueError(
                f"`X` must have at least {n_test + 2 * n_train} rows for {n_test} test rows and two training "
                f"sets of {n_train}, got {n}. Use a smaller `n_train` or `n_test`, or use an "
                "EstimatedProcess."
            )
        self._order = np.random.RandomState(draw_seed(self.random_state)).permutation(n)
        self.n_training_sets_ = (n - n_test) // n_train
        test = self._order[:n_test]
        self.X_test_, self.y_test_, self.truth_ = safe_indexing(self.X, test), self._target[test], None

    def training_set(self, index: int) -> tuple[Any, FloatArray]:
        """Return one training set.

        Parameters
        ----------
        index : int
            Number of the training set, from 0 to ``n_training_sets_ - 1``.

        Returns
        -------
        X : array-like, DataFrame or sparse matrix of n_train rows
            Features.
        y : ndarray of shape (n_train,)
            Targets.
        """
        if check_index(index) >= self.n_training_sets_:
            raise ValueError(
                f"there are {self.n_training_sets_} training sets, so `index` must be below "
                f"{self.n_training_sets_}, got {index}."
            )
        first = self.n_test + index * self.n_train
        rows = self._order[first : first + self.n_train]
        return safe_indexing(self.X, rows), self._target[rows]
