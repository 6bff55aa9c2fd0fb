"""The result of a simulation study: coverage at each x, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from skuq._sklearn_compat import count_rows
from skuq._typing import BoolArray, FloatArray
from skuq._validation import check_integer, check_option, check_random_state
from skuq.distributions import Distribution

__all__ = ["PointwiseCoverage"]

Kind = Literal["prediction", "confidence"]

_RESAMPLES_AT_ONCE = 50
"""Resampled studies whose coverage fractions are held in memory at once."""


@dataclass(frozen=True, eq=False, repr=False)
class PointwiseCoverage:
    """Coverage of prediction and confidence intervals at each test row, over repeated training sets.

    What `simulate_coverage` returns. With one nominal coverage, as the default of 0.9, arrays have no axis of
    coverages.

    Parameters
    ----------
    coverage : float or ndarray of shape (k,)
        Nominal coverage of the central interval.
    X_test : array-like or DataFrame of n rows
        Test rows of the world.
    truth : Distribution of n rows or None
        Distribution of y in the test rows; None in a world that has only one target a row.
    prediction_coverages : ndarray of shape (S, n) or (S, n, k)
        Probability that a new target lies in the prediction interval of each of the S simulations, equation 7
        of [1]_; 0 or 1 where ``truth`` is None.
    confidence_coverages : ndarray of bool of shape (S, n) or (S, n, k), or None
        Whether the confidence interval contains the regression function; None without confidence intervals.
    prediction_width, confidence_width : ndarray of shape (n,) or (n, k)
        Mean width over simulations, in the units of y. The second is None without confidence intervals.
    bias : ndarray of shape (n,) or None
        Mean of the predicted mean over simulations, minus the regression function, in the units of y; None
        where ``truth`` is.
    spread : ndarray of shape (n,)
        Standard deviation of the predicted mean over simulations, in the units of y.
    claimed_spread : ndarray of shape (n,) or None
        Mean over simulations of the standard deviation of the epistemic part, what the estimator predicts for
        ``spread``; None without confidence intervals.

    See Also
    --------
    simulate_coverage : What makes it.
    skuq.displays.PointwiseCoverageDisplay : Its plots.

    Notes
    -----
    A confidence interval covers too little where its estimator is biased, or where ``claimed_spread`` is
    smaller than ``spread``: compare the three before one of them is changed.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203, section 4.

    Examples
    --------
    >>> from skuq.regressors import LeastSquaresRegressor
    >>> from skuq.simulation import make_known_world, simulate_coverage
    >>> world = make_known_world("cubic", n_train=100, n_test=50, random_state=0)
    >>> result = simulate_coverage(LeastSquaresRegressor(), world, n_simulations=30, random_state=0)
    >>> result
    PointwiseCoverage(n_simulations=30, n_rows=50, coverage=0.9, confidence=True)
    >>> result.picf.shape, result.picp.shape
    ((50,), (30,))
    >>> bool(result.cicf.min() < 0.1)  # a line is no cubic function
    True
    """

    coverage: float | FloatArray
    X_test: Any
    truth: Distribution | None
    prediction_coverages: FloatArray
    confidence_coverages: BoolArray | None
    prediction_width: FloatArray
    confidence_width: FloatArray | None
    bias: FloatArray | None
    spread: FloatArray
    claimed_spread: FloatArray | None

    def __repr__(self) -> str:
        shown = {
            "n_simulations": self.n_simulations,
            "n_rows": self.prediction_coverages.shape[1],
            "coverage": self.coverage if np.ndim(self.coverage) == 0 else np.asarray(self.coverage).tolist(),
            "confidence": self.confidence_coverages is not None,
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"

    # ------------------------------------------------------------------------------ fractions

    @property
    def n_simulations(self) -> int:
        """Number of simulations S."""
        return int(self.prediction_coverages.shape[0])

    @property
    def picf(self) -> FloatArray:
        """Prediction interval coverage fraction of each row, shape (n,) or (n, k); equation 6."""
        fraction: FloatArray = self._covered("prediction").mean(axis=0)
        return fraction

    @property
    def cicf(self) -> FloatArray:
        """Confidence interval coverage fraction of each row, shape (n,) or (n, k)."""
        fraction: FloatArray = self._covered("confidence").mean(axis=0)
        return fraction

    @property
    def picp(self) -> FloatArray:
        """Prediction interval coverage probability of each simulation over the rows, shape (S,) or (S, k)."""
        share: FloatArray = self.prediction_coverages.mean(axis=1)
        return share

    @property
    def cicp(self) -> FloatArray:
        """Confidence interval coverage probability of each simulation, shape (S,) or (S, k)."""
        share: FloatArray = self._covered("confidence").mean(axis=1)
        return share

    def _covered(self, kind: Kind) -> FloatArray | BoolArray:
        """Return the coverage of each interval, or raise where it says nothing about single rows."""
        if kind == "prediction":
            if self.truth is None:
                raise ValueError(
                    "coverage at each row needs a known distribution of y, but this world has one target a "
                    "row: the fraction of simulations that cover it is not a probability of coverage, and "
                    "its Brier score is large for perfect intervals. Use `picp`, or "
                    "skuq.metrics.conditional_coverage_error; or an EstimatedWorld."
                )
            return self.prediction_coverages
        if self.confidence_coverages is None:
            raise ValueError(
                "there are no confidence intervals in this result: the estimator does not separate epistemic "
                "from aleatoric uncertainty, the regression function is unknown, or `confidence` was False. "
                "Pass confidence=True to simulate_coverage for the reason."
            )
        return self.confidence_coverages

    # --------------------------------------------------------------------------------- scores

    def brier_score(self, kind: Kind = "prediction", *, corrected: bool = False) -> float | FloatArray:
        """Return the mean squared difference between coverage at each row and nominal coverage, equation 8.

        Parameters
        ----------
        kind : {"prediction", "confidence"}, default="prediction"
            Intervals that are scored, by PICF or CICF.
        corrected : bool, default=False
            Whether to subtract the Monte Carlo error, the variance over simulations divided by S. The
            corrected score is unbiased, and may be negative. Without it, perfect confidence intervals of
            nominal coverage c score c(1 - c) / S on average.

        Returns
        -------
        score : float or ndarray of shape (k,)
            Non-negative unless corrected; lower is better.

        Raises
        ------
        ValueError
            If the result has no such intervals, or the world no known truth.
        """
        covered = self._covered(check_option(kind, "kind", ("prediction", "confidence")))
        score = np.square(covered.mean(axis=0) - self.coverage).mean(axis=0)
        if check_option(corrected, "corrected", (True, False)):
            score = score - covered.var(axis=0, ddof=1).mean(axis=0) / self.n_simulations
        return float(score) if np.ndim(score) == 0 else score

    def summary(
        self, *, n_resamples: int = 1000, random_state: int | np.random.RandomState | None = None
    ) -> pd.DataFrame:
        """Return one row for each kind of interval and nominal coverage.

        Parameters
        ----------
        n_resamples : int, default=1000
            Number of bootstrap resamples of simulations for the standard error. Rows of one simulation
            depend on each other, and are not resampled.
        random_state : int, RandomState instance or None, default=None
            Seed of the resamples; an integer makes results reproducible.

        Returns
        -------
        table : DataFrame
            Indexed by kind and coverage, with the columns ``brier``, its ``standard_error``,
            ``perfect_brier``, the expected score of perfect intervals (c(1 - c) / S for confidence intervals
            and 0 for prediction intervals), ``mean_coverage``, ``min_coverage`` and ``max_coverage`` over the
            rows, ``width``, and ``true_width``, the width of the central interval of the truth. NaN where
            it is unknown.
        """
        n_resamples = check_integer(n_resamples, "n_resamples", minimum=2)
        rng = check_random_state(random_state)
        lines = {
            (kind, level): self._line(kind, level, covered, width, n_resamples, rng)
            for kind, level, covered, width in self._intervals()
        }
        index = pd.MultiIndex.from_tuples(list(lines), names=["kind", "coverage"])
        return pd.DataFrame(list(lines.values()), index=index)

    def _intervals(self) -> Iterator[tuple[Kind, float, FloatArray, FloatArray]]:
        """Yield kind, nominal coverage, coverages (S, n) and widths (n,) of all intervals."""
        levels = np.atleast_1d(self.coverage)
        parts: list[tuple[Kind, Any, Any]] = [
            ("prediction", self.prediction_coverages, self.prediction_width),
            ("confidence", self.confidence_coverages, self.confidence_width),
        ]
        for kind, covered, width in parts:
            if covered is None:
                continue
            for j, level in enumerate(levels):
                each = (covered, width) if np.ndim(self.coverage) == 0 else (covered[..., j], width[..., j])
                yield kind, float(level), *each

    def _line(
        self,
        kind: Kind,
        level: float,
        covered: FloatArray,
        width: FloatArray,
        n_resamples: int,
        rng: np.random.RandomState,
    ) -> dict[str, float]:
        line = dict.fromkeys(
            ("brier", "standard_error", "perfect_brier", "mean_coverage", "min_coverage", "max_coverage"),
            np.nan,
        )
        line |= {"mean_coverage": float(covered.mean()), "width": float(width.mean()), "true_width": np.nan}
        if self.truth is None:
            return line
        fraction = covered.mean(axis=0)
        line |= {
            "brier": float(np.square(fraction - level).mean()),
            "standard_error": _brier_standard_error(covered, level, n_resamples, rng),
            "perfect_brier": 0.0 if kind == "prediction" else level * (1 - level) / self.n_simulations,
            "min_coverage": float(fraction.min()),
            "max_coverage": float(fraction.max()),
        }
        if kind == "prediction":
            line["true_width"] = float(np.diff(self.truth.interval(level), axis=1).mean())
        return line

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each test row.

        Returns
        -------
        table : DataFrame of n rows
            With the index of ``X_test`` where that is a DataFrame. Columns are ``picf``,
            ``prediction_width``, ``cicf`` and ``confidence_width``, for several coverages each with its
            coverage, as ``picf_0.8``, then ``bias``, ``spread`` and ``claimed_spread``; without those that
            the result does not have.
        """
        columns: dict[str, FloatArray] = {}
        for kind, level, covered, width in self._intervals():
            suffix = "" if np.ndim(self.coverage) == 0 else f"_{level:g}"
            if self.truth is not None:
                columns[("picf" if kind == "prediction" else "cicf") + suffix] = covered.mean(axis=0)
            columns[f"{kind}_width{suffix}"] = width
        for name in ("bias", "spread", "claimed_spread"):
            if getattr(self, name) is not None:
                columns[name] = getattr(self, name)
        index = self.X_test.index if isinstance(self.X_test, pd.DataFrame) else range(count_rows(self.X_test))
        return pd.DataFrame(columns, index=index)


def _brier_standard_error(
    covered: FloatArray, level: float, n_resamples: int, rng: np.random.RandomState
) -> float:
    """Return the standard deviation of the Brier score over studies of resampled simulations."""
    n_simulations, values = len(covered), covered.astype(np.float64, copy=False)
    scores = []
    for first in range(0, n_resamples, _RESAMPLES_AT_ONCE):
        size = min(_RESAMPLES_AT_ONCE, n_resamples - first)
        counts = rng.multinomial(n_simulations, np.full(n_simulations, 1 / n_simulations), size=size)
        fractions = counts @ values / n_simulations
        scores.append(np.square(fractions - level).mean(axis=1))
    return float(np.concatenate(scores).std(ddof=1))
