"""Nonconformity scores of classes, from predicted probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skuq._typing import FloatArray, IntArray
from skuq._validation import check_integer, check_number, check_option


class ClassScore(Protocol):
    """Nonconformity score of classes. Prediction sets contain the classes with small scores."""

    @property
    def randomized(self) -> bool:
        """Whether the score uses one random number per row."""

    def score(self, proba: np.ndarray, uniform: FloatArray | None) -> FloatArray:
        """Return the scores (n, K). The uniform random numbers (n,) are only used by a randomized score."""


@dataclass(frozen=True)
class LACScore:
    """The score is 1 minus the probability of the class (Sadinle, Lei and Wasserman 2019)."""

    randomized: bool = False

    def score(self, proba: np.ndarray, uniform: FloatArray | None) -> FloatArray:
        return np.asarray(1 - proba.astype(np.float64, copy=False))


@dataclass(frozen=True)
class APSScore:
    """Sum of the probabilities of all more probable classes (Romano, Sesia and Candès 2020).

    If randomized, the sum also includes a random share of the probability of the class. The share is
    uniformly distributed on [0, 1]. For each rank beyond ``k_reg``, the penalty of RAPS is added
    (Angelopoulos, Bates, Jordan and Malik 2021).
    """

    randomized: bool
    penalty: float
    k_reg: int

    def score(self, proba: np.ndarray, uniform: FloatArray | None) -> FloatArray:
        # A stable sort ranks equally probable classes in the order of the columns.
        order = np.argsort(-proba, axis=1, kind="stable")
        descending = np.take_along_axis(proba, order, axis=1)
        by_rank = np.zeros(proba.shape)
        np.cumsum(descending[:, :-1], axis=1, dtype=np.float64, out=by_rank[:, 1:])
        if uniform is not None:
            by_rank += uniform[:, np.newaxis] * descending
        if self.penalty:
            by_rank += self.penalty * np.maximum(np.arange(1, proba.shape[1] + 1) - self.k_reg, 0)
        scores = np.empty(proba.shape)
        np.put_along_axis(scores, order, by_rank, axis=1)
        return scores


def select_score(method: Any, randomized: Any, penalty: Any, k_reg: Any) -> ClassScore:
    """Check the parameters of a `ConformalClassifier` and return its score."""
    check_option(method, "method", ("lac", "aps"))
    check_option(randomized, "randomized", (True, False))
    number, ranks = check_number(penalty, "penalty"), check_integer(k_reg, "k_reg", minimum=0)
    if number < 0:
        raise ValueError(f"`penalty` must be non-negative, got {number:g}.")
    if method == "aps":
        return APSScore(bool(randomized), number, ranks)
    for name, value in (("randomized", randomized), ("penalty", number), ("k_reg", ranks)):
        if value:
            raise ValueError(
                f"`{name}` must be {type(value)(0)!r} with method 'lac', got {value!r}. Use method 'aps'."
            )
    return LACScore()


def scores_of_labels(scores: FloatArray, codes: IntArray) -> FloatArray:
    """Return the score of the label of each row, shape (n,).

    An unknown label has the code -1 and an infinite score.
    """
    of_label = scores[np.arange(len(scores)), codes]
    return np.where(codes < 0, np.inf, of_label)
