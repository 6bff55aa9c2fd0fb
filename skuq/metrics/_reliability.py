"""Tables of conditional calibration, with one row per bin or group of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    as_array,
    as_float_array,
    check_finite,
    check_integer,
    check_option,
    check_rows,
    check_single_coverage,
)
from skuq.metrics._binning import STRATEGIES, curve_of_bins, make_bins
from skuq.metrics._group_calibration import ON, bins_variance
from skuq.metrics._inputs import (
    check_forecast,
    check_forecast_or_bounds,
    counted,
    finite_moment,
    interval_bounds,
    intervals_around,
)
from skuq.metrics._kernels import covered


def reliability_table(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 10,
    strategy: str = "quantile",
    on: str = "std",
    coverage: float = DEFAULT_COVERAGE,
) -> pd.DataFrame:
    r"""Return the predicted and the observed size of the errors in bins of the predicted uncertainty.

    The table shows whether a forecast is overconfident in rows with small or with large predicted
    uncertainty. The metrics `expected_normalized_calibration_error`, `uncertainty_calibration_error` and
    `quantile_calibration_error` each summarize the table in one number (see the example).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. Mean and standard deviation must be finite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    n_bins : int, default=10
        Number of bins. About 100 rows per bin are enough [1]_.
    strategy : {"quantile", "uniform"}, default="quantile"
        "quantile" makes bins of equal total weight. A row on the edge of two such bins may count partly in
        both bins. "uniform" makes bins of equal width. Empty bins are left out. If sigma is constant, there
        is one bin.
    on : {"std", "variance"}, default="std"
        Quantity whose range is divided into bins of equal width. The option has no effect on bins of equal
        weight.
    coverage : float, default=0.9
        Nominal coverage of the central interval.

    Returns
    -------
    table : DataFrame
        One row per bin. `lower`, `upper`: range of the predicted standard deviation; `n`: weight of the rows;
        `rmv`: root mean predicted variance; `rmse`: root mean squared error; `coverage`: share of targets in
        the central interval. All columns except `n` and `coverage` are in the units of y.

    See Also
    --------
    conditional_coverage : Coverage by width, feature or group. The function also accepts interval bounds.

    References
    ----------
    .. [1] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, section 5. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import expected_normalized_calibration_error, reliability_table
    >>> rng = np.random.default_rng(0)
    >>> scale = rng.uniform(1, 3, size=1000)
    >>> dist = Normal(np.zeros(1000), scale)
    >>> y = 2 * rng.normal(size=1000)  # the true standard deviation is always 2
    >>> table = reliability_table(y, dist, n_bins=4)
    >>> table[["n", "rmv", "rmse", "coverage"]].round(2)
           n   rmv  rmse  coverage
    0  250.0  1.29  2.01      0.67
    1  250.0  1.81  2.16      0.84
    2  250.0  2.30  2.12      0.94
    3  250.0  2.76  1.90      0.98
    >>> gap = (table["rmv"] - table["rmse"]).abs() / table["rmv"]
    >>> round(float(gap.mean()), 6) == round(expected_normalized_calibration_error(y, dist, n_bins=4), 6)
    True
    """
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)
    check_option(on, "on", ON)
    nominal = check_single_coverage(coverage)
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    mean = finite_moment(dist, "mean")
    std = finite_moment(dist, "std")
    lower, upper = intervals_around(y, dist, nominal).T
    variance, square = np.square(std), np.square(y - mean)
    by_variance = bins_variance(strategy, on)
    bins = make_bins(variance if by_variance else std, n_bins, strategy, weight)
    table = curve_of_bins(bins, rmv=variance, rmse=square, coverage=covered(y, lower, upper))
    for name in ("lower", "upper", "rmv", "rmse") if by_variance else ("rmv", "rmse"):
        table[name] = np.sqrt(table[name])
    return table


def conditional_coverage(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    feature: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_bins: int = 10,
    strategy: str = "quantile",
) -> pd.DataFrame:
    r"""Return the coverage and width of prediction intervals in bins or groups of rows.

    The table shows the groups of rows in which the intervals do not have nominal coverage. The coverage may
    be right on average, but too low for some rows and too high for others. If the coverage of a group differs
    from nominal by more than two standard errors, the difference is probably not due to chance. By default,
    rows are binned by the predicted width. Pass `feature` or `groups` for other bins or groups.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. If `y_pred` holds bounds, they must have this coverage.
    feature : array-like of shape (n,), default=None
        Values by which the rows are binned, such as a column of X.
    groups : array-like of shape (n,), default=None
        A label for each row. The table has one row per label. Cannot be combined with `feature`.
    n_bins : int, default=10
        Number of bins of the width or feature.
    strategy : {"quantile", "uniform"}, default="quantile"
        "quantile" makes bins of equal total weight. A row on the edge of two such bins may count partly in
        both bins. "uniform" makes bins of equal width. Empty bins are left out.

    Returns
    -------
    table : DataFrame
        One row per bin or group. Bins have the columns `lower` and `upper`: range of the width or feature.
        Groups are indexed by their label. `n`: weight of the rows; `coverage`: share of targets inside;
        `standard_error`: standard error of this share if the coverage is nominal; `mean_width`: mean width of
        the intervals, in the units of y.

    See Also
    --------
    prediction_interval_coverage : Coverage over all rows.
    reliability_table : Size of the errors, and coverage, in bins of the predicted standard deviation.

    Notes
    -----
    The standard error is ``sqrt(coverage * (1 - coverage) / n)`` at the nominal coverage.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import conditional_coverage
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=3000)
    >>> y = (0.5 + x) * rng.normal(size=3000)
    >>> constant = Normal(np.zeros(3000), np.full(3000, np.std(y)))  # ignores that the noise grows with x
    >>> conditional_coverage(y, constant, feature=x, n_bins=3)[["n", "coverage", "standard_error"]].round(3)
            n  coverage  standard_error
    0  1000.0     0.989           0.009
    1  1000.0     0.903           0.009
    2  1000.0     0.806           0.009
    >>> conditional_coverage(y, constant, groups=np.where(x < 0.5, "left", "right"))["coverage"].round(2)
    left     0.97
    right    0.83
    Name: coverage, dtype: float64
    """
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)
    if feature is not None and groups is not None:
        raise TypeError("`feature` and `groups` must not both be given. Make one table for each.")
    nominal = check_single_coverage(coverage)
    y, forecast, weight = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    lower, upper = interval_bounds(y, forecast, nominal).T
    n = np.shape(y_true)[0]
    columns = {"coverage": covered(y, lower, upper), "mean_width": upper - lower}
    if groups is not None:
        table = table_of_groups(read_groups(groups, n, sample_weight), columns, weight)
    else:
        if feature is None:
            key = check_finite(upper - lower, "y_pred")
        else:
            values = check_rows(as_float_array(feature, "feature"), "feature", n)
            key = counted(check_finite(values, "feature"), sample_weight)
        table = curve_of_bins(make_bins(key, n_bins, strategy, weight), **columns)
    error = np.sqrt(nominal * (1 - nominal) / table["n"])
    table.insert(list(table.columns).index("coverage") + 1, "standard_error", error)
    return table


def read_groups(groups: ArrayLike, n: int, sample_weight: ArrayLike | None) -> np.ndarray:
    labels = as_array(groups, "groups")
    if labels.shape != (n,):
        raise ValueError(f"`groups` must have shape {(n,)}, got {labels.shape}.")
    return np.asarray(counted(labels, sample_weight))


def table_of_groups(
    groups: np.ndarray, columns: dict[str, FloatArray], weight: FloatArray | None
) -> pd.DataFrame:
    # pandas has no index of half precision.
    codes, labels = pd.factorize(
        groups.astype(np.float64) if groups.dtype == np.float16 else groups, sort=True
    )
    if (codes < 0).any():
        raise ValueError("`groups` must have a label in every row, got a missing label.")
    total = np.bincount(codes, weight).astype(np.float64)
    data = {"n": total}
    for name, column in columns.items():
        data[name] = np.bincount(codes, column if weight is None else weight * column) / total
    return pd.DataFrame(data, index=pd.Index(labels))
