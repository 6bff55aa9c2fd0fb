"""Calibration of a model over periods of time. Joint tests compare all periods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom, kstwo

from skuq._numeric import binomial_interval, root_mean_square
from skuq._typing import FloatArray
from skuq._validation import check_repetitions, check_single_coverage
from skuq.monitoring._accumulator import MetricAccumulator

METRICS, CURVES = ("crps", "mpiw"), ("calibration", "reliability")


def calibration_drift(periods: Mapping[Any, MetricAccumulator], *, false_alarm: float = 0.01) -> pd.DataFrame:
    r"""Return the calibration of a model in each period, and flag periods with poor calibration.

    The rows of each period, such as an hour, a day or a month, are accumulated separately. The table contains
    the coverage, the width and the CRPS of each period. A period is flagged if a test of its coverage or of
    its PIT rejects calibration. For a calibrated model, the probability that any period is flagged is at most
    `false_alarm`. The table describes past periods. To test the coverage while rows arrive, use
    `CoverageMonitor`.

    Parameters
    ----------
    periods : mapping of label to MetricAccumulator
        Accumulated rows of each period, in chronological order. All accumulators must have the same
        `coverage`. Each accumulator needs the metrics "crps" and "mpiw", and the curves "calibration" and
        "reliability". ``MetricAccumulator()`` has these metrics and curves. For forecasts with atoms, use
        ``MetricAccumulator("crps", "mpiw")``, because the default metrics include the log score, which
        requires a density.
    false_alarm : float, default=0.01
        Largest probability that any period of a calibrated model is flagged, in (0, 1).

    Returns
    -------
    table : DataFrame
        One row per period, indexed by its label.

        - `n`: sum of the weights of the rows.
        - `coverage`, `low`, `high`: share of targets inside their central interval, and the confidence
          interval of this share. With a probability of at least ``1 - false_alarm / 2``, the confidence
          intervals of all periods contain the coverage of the model.
        - `crps`, `crps_standard_error`: mean CRPS and its standard error, in the units of y.
        - `width`: mean width of the central intervals, in the units of y.
        - `rmse_to_rmv`: root mean squared error divided by the root mean predicted variance. A value above 1
          means that the predicted standard deviations are too small.
        - `pit_distance`: largest distance of the calibration curve from the diagonal.
        - `p_coverage`, `p_pit`: p-values of the tests of coverage and of uniformity of the PIT, adjusted
          for the number of tests in the table.
        - `flag`: whether one of the p-values is at most `false_alarm`.

    Raises
    ------
    ValueError
        If an accumulator has no rows, or if a required metric or curve is missing.

    See Also
    --------
    CoverageMonitor : Sequential test of the coverage.
    MetricAccumulator : Accumulates the rows of a period.
    skuq.displays.CalibrationDriftDisplay : A plot of the table.
    skuq.evaluation.expected_loss : Estimate of the error before the targets are observed.

    Notes
    -----
    The test of coverage is a two-sided binomial test with the intervals of Clopper and Pearson. The test of
    the PIT is a Kolmogorov-Smirnov test at the levels of the accumulators. Both tests are valid for any
    number of rows. With m periods, Holm's method adjusts the 2 m p-values [1]_.

    If forecasts have atoms (point masses), such as forecasts of counts or an `Empirical` distribution, the
    coverage of their central intervals is above nominal, even if the forecasts are calibrated. The test of
    coverage is then one-sided against low coverage, and the test of the PIT detects intervals that are too
    wide. A model may remain calibrated after a change. For example, the noise may increase, and the predicted
    distributions may become wider by the right amount. Only the CRPS and the width show such a change.

    No fitted model is calibrated exactly. With a very large number of rows, even small deviations are
    therefore flagged. `low`, `high` and `pit_distance` show the size of the deviations.

    The false alarm rate holds for independent rows. For hourly rows, the errors of neighboring hours are
    correlated, so the effective number of rows is below `n`. In this case, use only every k-th hour, and
    choose k so that the errors are uncorrelated.

    References
    ----------
    .. [1] Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of
       Statistics 6, 65-70.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.monitoring import MetricAccumulator, calibration_drift
    >>> def month(noise, seed):
    ...     y = noise * np.random.default_rng(seed).normal(size=2000)
    ...     return MetricAccumulator().update(y, Normal(np.zeros(2000), np.ones(2000)))
    >>> table = calibration_drift({"May": month(1.0, 0), "June": month(1.0, 1), "July": month(1.2, 2)})
    >>> table[["coverage", "low", "high", "rmse_to_rmv", "flag"]].round(2)
            coverage   low  high  rmse_to_rmv   flag
    period
    May         0.90  0.88  0.92         1.00  False
    June        0.90  0.87  0.92         1.01  False
    July        0.83  0.80  0.85         1.20   True
    """
    rate = check_single_coverage(false_alarm, "false_alarm")
    coverage = _check_periods(periods)
    rows = [_row_of(accumulator) for accumulator in periods.values()]
    # A label may be a tuple, such as (year, month), which pandas would convert to a MultiIndex.
    table = pd.DataFrame(rows, index=pd.Index(list(periods), name="period", tupleize_cols=False))
    n = table["n"].to_numpy()
    inside = np.round(n * table["coverage"].to_numpy())
    # The tests of coverage use half of the false alarm rate. A period whose interval excludes the nominal
    # coverage is therefore always flagged.
    low, high = binomial_interval(inside, n, rate / (2 * len(table)))
    table.insert(2, "low", low)
    table.insert(3, "high", high)
    too_few, too_many = binom.cdf(inside, n, coverage), binom.sf(inside - 1, n, coverage)
    # If a bound is an atom, the coverage of a calibrated interval may exceed the nominal coverage.
    atoms = [accumulator.has_atoms for accumulator in periods.values()]
    by_coverage = np.where(atoms, too_few, 2 * np.minimum(too_few, too_many))
    adjusted = _holm(np.append(by_coverage, kstwo.sf(table["pit_distance"], n)))
    table["p_coverage"], table["p_pit"] = np.split(adjusted, 2)
    table["flag"] = (table["p_coverage"] <= rate) | (table["p_pit"] <= rate)
    return table


def _check_periods(periods: Mapping[Any, MetricAccumulator]) -> float:
    if not isinstance(periods, Mapping):
        raise TypeError(
            f"`periods` must be a mapping of labels to accumulators, got {type(periods).__name__}. Pass a "
            "dictionary in chronological order."
        )
    if not periods:
        raise ValueError("`periods` must hold at least one period, got none.")
    for label, accumulator in periods.items():
        if not isinstance(accumulator, MetricAccumulator):
            raise TypeError(
                f"`periods` must hold accumulators, got {type(accumulator).__name__} for {label!r}."
            )
        missing = {*METRICS, *CURVES} - {*accumulator.metrics, *accumulator.curves}
        if missing:
            raise ValueError(
                f"`periods` must hold accumulators with the metrics {METRICS} and the curves {CURVES}, got "
                f"an accumulator without {min(missing)!r} for {label!r}. Use `MetricAccumulator()`, which "
                "has all of them."
            )
        if accumulator.n_rows == 0:
            raise ValueError(
                f"`periods` must hold rows in every period, got none for {label!r}. Leave this period out."
            )
    found = sorted({accumulator.coverage for accumulator in periods.values()})
    if len(found) > 1:
        raise ValueError(
            f"`periods` must have one nominal coverage, got {found[0]:g} and {found[1]:g}. Create all "
            "accumulators with the same coverage."
        )
    return found[0]


def _row_of(accumulator: MetricAccumulator) -> dict[str, float]:
    metrics, bins = accumulator.result(), accumulator.reliability_table()
    curve = accumulator.calibration_curve()
    rmse, rmv = (root_mean_square(bins[name].to_numpy(), bins["n"].to_numpy()) for name in ("rmse", "rmv"))
    with np.errstate(divide="ignore", invalid="ignore"):  # All standard deviations may be 0.
        ratio = float(np.divide(rmse, rmv))
    return {
        "n": float(np.round(check_repetitions(accumulator.total_weight, accumulator.n_rows))),
        "coverage": float(np.average(bins["coverage"], weights=bins["n"])),
        "crps": metrics["crps"],
        "crps_standard_error": accumulator.standard_errors()["crps"],
        "width": metrics["mpiw"],
        "rmse_to_rmv": ratio,
        "pit_distance": float(np.abs(curve.observed - curve.levels).max()),
    }


def _holm(p_values: FloatArray) -> FloatArray:
    order = np.argsort(p_values)
    adjusted: FloatArray = np.empty(p_values.size)
    steps = np.arange(p_values.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * steps), 1.0)
    return adjusted
