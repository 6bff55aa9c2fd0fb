"""Results of simulation studies, with the coverage at each x."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from skuq._compat import count_rows
from skuq._typing import BoolArray, FloatArray
from skuq._validation import check_integer, check_option, check_random_state
from skuq.distributions import Distribution

Kind = Literal["prediction", "confidence"]

_RESAMPLES_AT_ONCE = 50
"""At most this number of resampled studies is in memory at the same time."""


@dataclass(frozen=True, eq=False, repr=False)
class PointwiseCoverage:
    """Coverage of prediction and confidence intervals at each test row, over repeated training sets.

    `simulate_coverage` returns this object. If there is a single nominal coverage, such as the default 0.9,
    the arrays have no axis for coverages.

    Parameters
    ----------
    coverage : float or ndarray of shape (k,)
        Nominal coverage of the central interval.
    X_test : array-like or DataFrame of n rows
        Test rows of the process.
    truth : Distribution of n rows or None
        True distribution of y in the test rows. None if only one target per row is known.
    prediction_coverage : ndarray of shape (S, n) or (S, n, k)
        Probability that a new target is in the prediction interval, for each of the S simulations and each
        test row (equation 7 of [1]_). If ``truth`` is None, the values are 0 or 1.
    confidence_coverage : ndarray of bool of shape (S, n) or (S, n, k), or None
        Whether the confidence interval contains the regression function. None if there are no confidence
        intervals.
    prediction_width, confidence_width : ndarray of shape (n,) or (n, k)
        Width of the intervals, averaged over simulations, in the units of y. ``confidence_width`` may be
        None.
    bias : ndarray of shape (n,) or None
        Predicted mean, averaged over simulations, minus the regression function, in the units of y. None if
        ``truth`` is None.
    spread : ndarray of shape (n,)
        Standard deviation of the predicted means over simulations, in the units of y.
    claimed_spread : ndarray of shape (n,) or None
        Predicted epistemic standard deviation, averaged over simulations. This is the estimator's own
        estimate of ``spread``. None if there are no confidence intervals.

    See Also
    --------
    simulate_coverage : Simulation study that returns this object.
    skuq.displays.PointwiseCoverageDisplay : Plot of the coverage.

    Notes
    -----
    Confidence intervals have a low coverage if the estimator is biased, or if ``claimed_spread`` is smaller
    than ``spread``. Compare ``bias``, ``spread`` and ``claimed_spread`` to find the cause.

    References
    ----------
    .. [1] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203, section 4.

    Examples
    --------
    >>> from skuq.regressors import LeastSquaresRegressor
    >>> from skuq.simulation import make_known_process, simulate_coverage
    >>> process = make_known_process("cubic", n_train=100, n_test=50, random_state=0)
    >>> result = simulate_coverage(LeastSquaresRegressor(), process, n_simulations=30, random_state=0)
    >>> result
    PointwiseCoverage(n_simulations=30, n_rows=50, coverage=0.9, confidence_intervals=True)
    >>> result.picf.shape, result.picp.shape
    ((50,), (30,))
    >>> bool(result.cicf.min() < 0.1)  # a linear model has a bias
    True
    """

    coverage: float | FloatArray
    X_test: Any
    truth: Distribution | None
    prediction_coverage: FloatArray
    confidence_coverage: BoolArray | None
    prediction_width: FloatArray
    confidence_width: FloatArray | None
    bias: FloatArray | None
    spread: FloatArray
    claimed_spread: FloatArray | None

    def __repr__(self) -> str:
        shown = {
            "n_simulations": self.n_simulations,
            "n_rows": self.prediction_coverage.shape[1],
            "coverage": self.coverage if np.ndim(self.coverage) == 0 else np.asarray(self.coverage).tolist(),
            "confidence_intervals": self.confidence_coverage is not None,
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"

    @property
    def n_simulations(self) -> int:
        """Number S of simulations."""
        return int(self.prediction_coverage.shape[0])

    @property
    def picf(self) -> FloatArray:
        """Prediction interval coverage fraction of each test row, shape (n,) or (n, k) (equation 6)."""
        fraction: FloatArray = self._covered("prediction").mean(axis=0)
        return fraction

    @property
    def cicf(self) -> FloatArray:
        """Confidence interval coverage fraction of each test row, shape (n,) or (n, k)."""
        fraction: FloatArray = self._covered("confidence").mean(axis=0)
        return fraction

    @property
    def picp(self) -> FloatArray:
        """Prediction interval coverage probability of each simulation over all rows, shape (S,) or (S, k)."""
        share: FloatArray = self.prediction_coverage.mean(axis=1)
        return share

    @property
    def cicp(self) -> FloatArray:
        """Confidence interval coverage probability of each simulation over all rows, shape (S,) or (S, k)."""
        share: FloatArray = self._covered("confidence").mean(axis=1)
        return share

    def _covered(self, kind: Kind) -> FloatArray | BoolArray:
        """Return the coverage of each interval.

        Raise an error if the coverage of individual rows is not defined.
        """
        if kind == "prediction":
            if self.truth is None:
                raise ValueError(
                    "the distribution of y must be known for the coverage at each row, but this process has "
                    "only one target per row. The share of simulations that cover this target is not the "
                    "coverage, and the Brier score of this share is large even for perfect intervals. Use "
                    "`picp`, skuq.metrics.conditional_coverage_error, or an EstimatedProcess."
                )
            return self.prediction_coverage
        if self.confidence_coverage is None:
            raise ValueError(
                "the result has no confidence intervals: either `confidence_intervals` was False, or the "
                "regression function is unknown, or the estimator does not separate epistemic from aleatoric "
                "uncertainty. To see the reason, call simulate_coverage with confidence_intervals=True. The "
                "coverage of prediction intervals is in `picf` and `picp`."
            )
        return self.confidence_coverage

    def brier_score(self, kind: Kind = "prediction", *, corrected: bool = False) -> float | FloatArray:
        """Return the mean squared difference between the coverage at each row and the nominal coverage.

        The smaller the better (equation 8). With ``corrected=False``, the minimum is zero.

        Parameters
        ----------
        kind : {"prediction", "confidence"}, default="prediction"
            Kind of intervals. The score uses the attribute `picf` for prediction intervals and the attribute
            `cicf` for confidence intervals.
        corrected : bool, default=False
            Whether to subtract the Monte Carlo error. This error is the variance over the S simulations,
            divided by S. The corrected score is unbiased and may be negative. Without the correction, the
            mean score of perfect confidence intervals with nominal coverage c is c(1 - c) / S.

        Returns
        -------
        score : float or ndarray of shape (k,)
            Brier score for each nominal coverage.

        Raises
        ------
        ValueError
            If the result has no intervals of this kind, or if the true distribution of the process is not
            known.
        """
        covered = self._covered(check_option(kind, "kind", ("prediction", "confidence")))
        score = np.square(covered.mean(axis=0) - self.coverage).mean(axis=0)
        if check_option(corrected, "corrected", (True, False)):
            score = score - covered.var(axis=0, ddof=1).mean(axis=0) / self.n_simulations
        return float(score) if np.ndim(score) == 0 else score

    def summary(
        self, *, n_resamples: int = 1000, random_state: int | np.random.RandomState | None = None
    ) -> pd.DataFrame:
        """Return a table with one row for each kind of interval and each nominal coverage.

        Parameters
        ----------
        n_resamples : int, default=1000
            Number of bootstrap resamples for the standard error. Each resample contains whole simulations,
            because the rows of one simulation are dependent.
        random_state : int, RandomState instance or None, default=None
            Seed of the resamples. An integer makes results reproducible.

        Returns
        -------
        table : DataFrame
            The index contains the kind and the coverage c. Unknown values are NaN. The columns are:

            - ``brier``: Brier score.
            - ``standard_error``: standard error of the Brier score.
            - ``perfect_brier``: expected Brier score of perfect intervals. It is c(1 - c) / S for confidence
              intervals and 0 for prediction intervals.
            - ``mean_coverage``, ``min_coverage``, ``max_coverage``: mean, minimum and maximum of the coverage
              over the rows.
            - ``width``: mean width of the intervals.
            - ``true_width``: mean width of the central intervals of the true distribution.
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
        levels = np.atleast_1d(self.coverage)
        parts: list[tuple[Kind, Any, Any]] = [
            ("prediction", self.prediction_coverage, self.prediction_width),
            ("confidence", self.confidence_coverage, self.confidence_width),
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
        """Return a table with one row for each test row.

        Returns
        -------
        table : DataFrame of n rows
            If ``X_test`` is a DataFrame, its index is the index of the table. The columns are ``picf``,
            ``prediction_width``, ``cicf``, ``confidence_width``, ``bias``, ``spread`` and ``claimed_spread``.
            If there are several coverages, the names of the first four columns contain the coverage, such as
            ``picf_0.8``. Columns that have no values are left out.
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
    n_simulations, values = len(covered), covered.astype(np.float64, copy=False)
    scores = []
    for first in range(0, n_resamples, _RESAMPLES_AT_ONCE):
        size = min(_RESAMPLES_AT_ONCE, n_resamples - first)
        counts = rng.multinomial(n_simulations, np.full(n_simulations, 1 / n_simulations), size=size)
        fractions = counts @ values / n_simulations
        scores.append(np.square(fractions - level).mean(axis=1))
    return float(np.concatenate(scores).std(ddof=1))
