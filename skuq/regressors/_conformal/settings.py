"""The checked parameters of a conformal regressor, and the interface of its fitted methods."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.distributions._numerics.ranks import score_level
from skuq.distributions._unreachable_levels import unreachable_level, warn_of_unreachable_level
from skuq.regressors._conformal.scores import SCORES

__all__ = [
    "CROSS_METHODS",
    "SPLIT_METHODS",
    "ConformalSettings",
    "ConformalStrategy",
    "warn_of_few_rows",
]

SPLIT_METHODS = tuple(SCORES)
"""Methods that calibrate one model on rows held out from it."""

CROSS_METHODS = ("cv+", "jackknife+", "jackknife+ab")
"""Methods that calibrate many models, each on the rows left out of its fit."""


@dataclass(frozen=True, eq=False)
class ConformalSettings:
    """The parameters of one `ConformalRegressor`, checked, with the randomness of this fit drawn.

    Attributes
    ----------
    estimator : estimator
        Unfitted or frozen, as the user gave it; a strategy clones it with `seeded_clone`.
    method : str
        One of `SPLIT_METHODS` and `CROSS_METHODS`.
    symmetric : bool
        One score for both ends of an interval, or one for each end.
    cv : int, splitter, iterable or None
        As given.
    calibration_size : float or int
        Share or number of rows that calibrate, for `SPLIT_METHODS` without ``cv``.
    n_estimators : int
        Number of resamples of "jackknife+ab".
    aggregate : {"mean", "median"}
        Aggregation of the predictions of a row by "jackknife+ab".
    group_by, rare_groups, min_group_size : object
        Mondrian categories.
    density_ratio : callable or None
        Density ratio of each row of X under covariate shift.
    gamma : float
        Step of adaptive conformal inference.
    window : int or None
        Number of the latest rows that calibrate once `partial_fit` was called; None keeps all.
    block_size : int or None
        Number of test rows predicted at a time by "jackknife+" and "jackknife+ab".
    n_jobs, verbose : object
        As in joblib.
    random_state : int, RandomState or None
        As the user gave it, for `seeded_clone`.
    split_seed : int
        Drawn from ``random_state`` once a fit: seeds shuffled folds, held-out rows and resamples.
    model_seed : int
        Drawn from ``random_state`` once a fit: the seed given to `seeded_clone`.
    """

    estimator: Any
    method: str
    symmetric: bool
    cv: Any
    calibration_size: float | int
    n_estimators: int
    aggregate: str
    group_by: Callable[[Any], Any] | Hashable | None
    rare_groups: str
    min_group_size: int
    density_ratio: Callable[[Any], Any] | None
    gamma: float
    window: int | None
    block_size: int | None
    n_jobs: int | None
    random_state: Any
    verbose: int
    split_seed: int
    model_seed: int


class ConformalStrategy(Protocol):
    """A fitted method of `ConformalRegressor`."""

    @property
    def estimator(self) -> Any:
        """The fitted model that predicts points."""

    @property
    def n_calibration(self) -> float:
        """Number of calibration rows, weights counted."""

    def point(self, X: Any) -> FloatArray:
        """Return point predictions, shape (n,)."""

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        """Return the intervals that carry the guarantee, shape (n, 2, k)."""

    def dist(self, X: Any) -> Distribution:
        """Return the predictive distributions."""


def warn_of_few_rows(
    coverages: FloatArray, symmetric: bool, calibration_weight: float, test_weight: float = 1.0
) -> None:
    """Give one warning if a coverage needs a rank beyond the number of calibration rows.

    Parameters
    ----------
    coverages : ndarray of shape (k,)
        Nominal coverages, as the user gave them.
    symmetric : bool
        Whether one score serves both bounds, or each bound has its own.
    calibration_weight, test_weight : float
        Weight of the calibration rows and of the row to be predicted.
    """
    levels = score_level(coverages, symmetric)
    unreachable = unreachable_level(coverages, "coverage", levels, calibration_weight, test_weight)
    warn_of_unreachable_level(unreachable)
