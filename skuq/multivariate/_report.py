"""Report of joint distributions of several targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skuq._numeric import weighted_mean
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_sample_weight, check_single_coverage, effective_rows
from skuq.distributions import JointDistribution
from skuq.metrics import crps_loss, mean_interval_width, miscalibration_area, prediction_interval_coverage
from skuq.multivariate._copula import CopulaJoint
from skuq.multivariate._rank_histogram import joint_rank_histogram
from skuq.multivariate._scores import energy_score_loss, variogram_score_loss
from skuq.multivariate._template import normal_template

_LARGEST_SHARE = 0.1
"""The number of bins of a rank histogram is at most this share of the number of rows."""


@dataclass(frozen=True, eq=False, repr=False)
class JointReport:
    """Scores and calibration of joint distributions; returned by `joint_report`.

    The joint distributions are compared with independent targets.

    Parameters
    ----------
    targets : DataFrame
        One row per target. The columns are the CRPS, the miscalibration area, and the coverage and mean width
        of the central interval.
    joint : DataFrame
        One row per score or property of the joint distribution. "value" is the value of the forecast.
        "independent" is the value of a forecast with the same marginals and independent targets. The scores
        are computed for targets that are divided by their standard deviations.
    coverage : float
        Nominal coverage of the intervals, and of the box that the simultaneous intervals of all targets form.
    n_rows : float
        Number of rows including repetitions.

    See Also
    --------
    joint_report : Make the report.

    Examples
    --------
    >>> from skuq.multivariate import NormalJoint
    >>> from skuq.multivariate import joint_report
    >>> report = joint_report(
    ...     [[0.0, 1.0], [0.5, 2.0], [-0.3, 0.4]], NormalJoint([[0.0, 1.0]] * 3, [[1.0, 0.0], [0.0, 1.0]])
    ... )
    >>> list(report.targets.columns), report.n_rows
    (['crps', 'miscal_area', 'coverage', 'mean_width'], 3.0)
    """

    targets: pd.DataFrame
    joint: pd.DataFrame
    coverage: float
    n_rows: float

    def __repr__(self) -> str:
        return (
            f"Joint distributions of {len(self.targets)} targets, {self.n_rows:.12g} rows, coverage "
            f"{self.coverage:g}\n\n{self.targets.round(4)}\n\n{self.joint.round(4)}"
        )


def joint_report(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    coverage: float = DEFAULT_COVERAGE,
    sample_weight: ArrayLike | None = None,
) -> JointReport:
    """Return scores and calibration of joint distributions of several targets.

    The report answers two questions: are the distributions of the individual targets calibrated, and is the
    predicted dependence better than independence? For the full report of one target or of a sum, call
    `~skuq.evaluation.uncertainty_report` with ``y_pred.marginal(...)`` or ``y_pred.linear(w)``.

    Parameters
    ----------
    y_true : array-like of shape (n, d)
        Observed targets. Use rows on which the model was not trained.
    y_pred : JointDistribution
        Forecast of every target. It has n rows and d targets.
    coverage : float, default=0.9
        Nominal coverage of the intervals. Strictly between 0 and 1.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    report : JointReport
        Report with the tables ``targets`` and ``joint``. In ``joint``, smaller scores and smaller reliability
        indices are better. "box_coverage" should be close to the nominal coverage.

    See Also
    --------
    skuq.multivariate.energy_score_loss : Score of the joint distribution.
    skuq.multivariate.joint_rank_histogram : Rank histogram, from which the reliability indices are computed.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.multivariate import NormalJoint
    >>> from skuq.multivariate import joint_report
    >>> covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    >>> y = np.random.RandomState(0).multivariate_normal([0.0, 0.0], covariance, size=100)
    >>> report = joint_report(y, NormalJoint(np.zeros((100, 2)), covariance, names=["load", "price"]))
    >>> report.targets["coverage"].round(2).to_dict()
    {'load': 0.91, 'price': 0.92}
    >>> report.joint.round(2).loc[["variogram_score", "box_coverage"]]
                     value  independent
    variogram_score   0.15         0.32
    box_coverage      0.89         0.90
    """
    nominal = check_single_coverage(coverage)
    energy = energy_score_loss(y_true, y_pred, sample_weight=sample_weight, scale="std")
    y = np.asarray(y_true, dtype=np.float64).reshape(y_pred.shape)
    weight = check_sample_weight(sample_weight, len(y))
    independent = CopulaJoint(
        y_pred.marginals(), normal_template(np.eye(y.shape[1])), correlation=np.eye(y.shape[1])
    )
    ready = energy_score_loss(y, independent, sample_weight=weight, scale="std")
    n_rows = effective_rows(weight, len(y))
    columns = {
        "value": {"energy_score": energy, **_properties(y, y_pred, nominal, weight)},
        "independent": {"energy_score": ready, **_properties(y, independent, nominal, weight)},
    }
    return JointReport(_of_targets(y, y_pred, nominal, weight), pd.DataFrame(columns), nominal, n_rows)


def _of_targets(
    y: FloatArray, dist: JointDistribution, coverage: float, weight: FloatArray | None
) -> pd.DataFrame:
    of_area = getattr(miscalibration_area, "__wrapped__", miscalibration_area)  # without its warning
    names = dist.names or tuple(f"target {j}" for j in range(y.shape[1]))
    rows = {
        name: {
            "crps": crps_loss(target, marginal, sample_weight=weight),
            "miscal_area": of_area(target, marginal, sample_weight=weight),
            "coverage": prediction_interval_coverage(
                target, marginal, coverage=coverage, sample_weight=weight
            ),
            "mean_width": mean_interval_width(target, marginal, coverage=coverage, sample_weight=weight),
        }
        for name, target, marginal in zip(names, y.T, dist.marginals(), strict=True)
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def _properties(
    y: FloatArray, dist: JointDistribution, coverage: float, weight: FloatArray | None
) -> dict[str, float]:
    """Return all properties of the joint distribution except the energy score."""
    bounds = dist.interval(coverage, simultaneous=True)
    inside = ((bounds[:, 0] <= y) & (y <= bounds[:, 1])).all(axis=1)
    n_bins = int(np.clip(_LARGEST_SHARE * effective_rows(weight, len(y)), 2, 10))
    reliability = {
        f"{kind}_reliability": joint_rank_histogram(
            y, dist, kind=kind, n_bins=n_bins, sample_weight=weight
        ).reliability_index
        for kind in ("average_rank", "band_depth")
    }
    return {
        "variogram_score": variogram_score_loss(y, dist, sample_weight=weight, scale="std"),
        **reliability,
        "box_coverage": weighted_mean(np.asarray(inside, dtype=np.float64), weight),
    }
