"""What the strategies of a conformal regressor share: its checked settings, and what they must offer."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.distributions._unreachable_levels import unreachable_level, warn_of_unreachable_level

__all__ = [
    "CROSS_METHODS",
    "SPLIT_METHODS",
    "ConformalSettings",
    "ConformalStrategy",
    "warn_of_few_rows",
]

SPLIT_METHODS = ("split", "normalized", "cqr")
"""Methods that calibrate one model on rows held out from it."""

CROSS_METHODS = ("cv+", "jackknife+", "jackknife+ab")
"""Methods that calibrate many models, each on the rows it has not seen."""


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
        Resamples of "jackknife+ab".
    aggregate : {"mean", "median"}
        How "jackknife+ab" joins the models of a row.
    group_by, rare_groups, min_group_size : object
        Mondrian categories.
    density_ratio : callable or None
        Weight of each row of X under covariate shift.
    gamma : float
        Step of adaptive conformal inference.
    window : int or None
        How many of the latest rows calibrate once rows are observed one after the other; None: all.
    block_size : int or None
        Test rows handled at a time where a block by calibration matrix is needed.
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
    symmetric: bool = True
    cv: Any = None
    calibration_size: float | int = 0.25
    n_estimators: int = 50
    aggregate: str = "mean"
    group_by: Callable[[Any], Any] | Hashable | None = None
    rare_groups: str = "raise"
    min_group_size: int = 10
    density_ratio: Callable[[Any], Any] | None = None
    gamma: float = 0.005
    window: int | None = None
    block_size: int | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0
    split_seed: int = 0
    model_seed: int = 0


class ConformalStrategy(Protocol):
    """A fitted method: what `ConformalRegressor` needs of it."""

    @property
    def estimator(self) -> Any:
        """The fitted model that predicts points."""

    @property
    def n_calibration(self) -> float:
        """Number of rows that calibrate, weights counted."""

    def point(self, X: Any) -> FloatArray:
        """Return point predictions, shape (n,)."""

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        """Return the intervals that carry the guarantee, shape (n, 2, k)."""

    def dist(self, X: Any) -> Distribution:
        """Return the predictive distributions."""


def warn_of_few_rows(
    coverages: FloatArray, probabilities: FloatArray, known: float, unseen: float = 1.0
) -> None:
    """Give one warning if a coverage needs a rank that the calibration rows do not have.

    Parameters
    ----------
    coverages : ndarray of shape (k,)
        Requested by the user.
    probabilities : ndarray of shape (k,)
        Level that each needs of the ranks of one side: the coverage itself, or (1 + coverage) / 2 where each
        bound has scores of its own.
    known, unseen : float
        Weight of the calibration rows and of a new row.
    """
    unreachable = unreachable_level(coverages, "coverage", probabilities, known, unseen)
    warn_of_unreachable_level(unreachable)
