"""Wrap skuq for ScoringBench, a public leaderboard of predictive distributions.

ScoringBench (Landsgesell 2026, https://arxiv.org/abs/2603.29928; repository jonaslandsgesell/ScoringBench)
compares models on 97 data sets of OpenML, with at most 3000 rows and 5 folds each. It needs its own packages
and a network, so it does not run here. ``tests/test_scoringbench.py`` tests the wrapper with a copy of its
interface.

To submit an entry:

1. Clone ScoringBench with its submodules, install its requirements and skuq, and copy this file to
   ``scoringbench/univariate/wrappers/skuq_wrapper.py``.
2. In ``scoringbench/univariate/models.py``, import this file, ``ProbabilisticWrapper`` and
   ``DistributionPrediction``, and add the entries::

       SkuqWrapper = skuq_wrapper.wrapper_class(ProbabilisticWrapper, DistributionPrediction)
       MODELS |= {
           name: (lambda make=make: SkuqWrapper(make())) for name, make in skuq_wrapper.ENTRIES.items()
       }

   A name contains the version of skuq. A new version needs a new name, because results with the same name
   are overwritten.
3. Run ``python run_bench_regression.py --lite`` to find errors, and then ``python run_bench_regression.py``.
4. Run ``python autorank_leaderboard.py``, commit the Parquet files and the JSON files of ``output`` with Git
   LFS to the repository of the outputs, and open a pull request in both repositories.

The weights of TabPFN 2.5 and later have a license for non-commercial use. Say so in the pull request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

import skuq
from skuq.distributions import Distribution
from skuq.prediction import predict_dist
from skuq.regressors import MixtureRegressor, UncertaintyRegressor, default_estimators

N_BINS = 200
"""Number of bins. The energy scores of ScoringBench need a time proportional to its square."""

FARTHEST_SCORE = 5.0
"""Normal score of the outermost edges. The first and the last bin get the probability beyond them, 3e-7."""


class Histogram(NamedTuple):
    """Edges of shape (n, k + 1) and probabilities of shape (n, k)."""

    edges: np.ndarray
    probabilities: np.ndarray


def to_histogram(dist: Distribution, n_bins: int = N_BINS) -> Histogram:
    """Return histograms whose edges are quantiles, so that the bins are narrow where the density is high.

    The cdf of the histogram equals the cdf of the distribution at the edges. An atom becomes a bin of width
    0, which ScoringBench treats as an atom.
    """
    levels = ndtr(np.linspace(-FARTHEST_SCORE, FARTHEST_SCORE, n_bins + 1))
    edges = np.atleast_2d(dist.quantile(levels))
    levels[[0, -1]] = 0.0, 1.0
    return Histogram(edges, np.tile(np.diff(levels), (len(edges), 1)))


def wrapper_class(base: type, prediction: Callable[..., Any]) -> type:
    """Return the class of wrappers.

    ``base`` and ``prediction`` are ScoringBench's ``ProbabilisticWrapper`` and ``DistributionPrediction``.
    """

    class SkuqWrapper(base):  # type: ignore[misc]  # the base class is an argument
        """Any estimator that `predict_dist` accepts."""

        def __init__(self, estimator: Any) -> None:
            self.estimator = estimator

        def fit(self, X: Any, y: Any) -> Any:
            target = np.asarray(y, dtype=np.float64).ravel()
            if hasattr(self, "_set_train_range"):  # current versions
                self._set_train_range(target)
            self.estimator.fit(X, target)
            return self

        def predict(self, X: Any) -> np.ndarray:
            return predict_dist(self.estimator, X).mean()

        def predict_distribution(self, X: Any) -> Any:
            dist = predict_dist(self.estimator, X)
            edges, probabilities = to_histogram(dist)
            options = {}
            if hasattr(self, "_set_train_range"):
                options["train_range"] = self._y_train_range
            return prediction(
                probas=probabilities,
                bin_edges=edges,
                bin_midpoints=(edges[:, :-1] + edges[:, 1:]) / 2,
                mean=dist.mean(),
                **options,
            )

    return SkuqWrapper


def _pool() -> Any:
    return MixtureRegressor(random_state=0)


def _recalibrated_tabpfn() -> Any:
    from tabpfn import TabPFNRegressor

    return UncertaintyRegressor(TabPFNRegressor(random_state=0), random_state=0)


def _pool_with_tabpfn() -> Any:
    from tabpfn import TabPFNRegressor

    members = [*default_estimators(0), ("tabpfn", TabPFNRegressor(random_state=0))]
    return MixtureRegressor(members, random_state=0)


_VERSION = skuq.__version__.replace(".", "_")

ENTRIES: dict[str, Callable[[], Any]] = {
    f"skuq_pool_v{_VERSION}": _pool,
    f"skuq_recalibrated_tabpfn_v{_VERSION}": _recalibrated_tabpfn,
    f"skuq_pool_with_tabpfn_v{_VERSION}": _pool_with_tabpfn,
}
"""Functions that return unfitted estimators, by the name of the entry."""
