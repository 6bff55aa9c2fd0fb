"""Agreement between metrics about the order of models or of data sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skuq._numeric import ROUNDING, last_of_ties
from skuq._typing import FloatArray, IntArray
from skuq._validation import (
    as_float_array,
    check_integer,
    check_mapping,
    check_number,
    check_random_state,
)
from skuq.evaluation._report_table import UncertaintyReport
from skuq.metrics._spec import find_spec

DIRECTIONS = ("lower", "higher")

Direction = str | float
"""Better direction of a metric, or the best value of the metric."""


@dataclass(frozen=True, eq=False)
class MetricAgreement:
    """Rank correlations between metrics; returned by `metric_agreement`.

    Parameters
    ----------
    tau : DataFrame of shape (n_metrics, n_metrics)
        Kendall's tau of each pair of metrics, from -1 (opposite orders) to 1 (same order).
    p_value : DataFrame of shape (n_metrics, n_metrics)
        Two-sided p-value of the permutation test of each pair.
    n_reports : int
        Number of models or data sets.
    n_resamples : int
        Number of evaluated permutations.
    exact : bool
        Whether all possible permutations were evaluated.

    See Also
    --------
    skuq.displays.MetricAgreementDisplay : Heat map of the correlations.

    Examples
    --------
    >>> import pandas as pd
    >>> from skuq.evaluation import metric_agreement
    >>> table = pd.DataFrame({"crps": [0.1, 0.2, 0.4, 0.5], "nll": [-1.0, 0.0, 0.3, 0.2]})
    >>> agreement = metric_agreement(table)
    >>> agreement.n_reports, agreement.n_resamples, agreement.exact
    (4, 24, True)
    """

    tau: pd.DataFrame
    p_value: pd.DataFrame
    n_reports: int
    n_resamples: int
    exact: bool


def metric_agreement(
    reports: Any,
    *,
    directions: str | Mapping[Any, Direction] | None = None,
    n_resamples: int = 1000,
    random_state: int | np.random.RandomState | None = None,
) -> MetricAgreement:
    r"""Return rank correlations between metrics, to compare how the metrics rank models or data sets.

    The result has Kendall's tau for each pair of metrics, with a permutation test. Models are ranked from
    worst to best by each metric. A tau of 1 means that two metrics give the same order, and a tau of -1 means
    that they give opposite orders.

    Parameters
    ----------
    reports : DataFrame of shape (n_reports, n_metrics), or results of `uncertainty_report`
        Values of the metrics, with one row per model or data set and one column per metric. Alternatively,
        one report of several models, or a mapping from the name of each model to its report. At least 3 rows
        and 2 metrics are required. Values may be infinite, but not NaN. Each metric must have at least two
        different values.
    directions : {"lower", "higher"} or mapping from metrics to a direction or a number, default=None
        Better direction of the metrics. A string applies to all metrics. A mapping contains a direction or a
        number for each metric. A number is the best value of the metric, such as the nominal coverage for
        PICP. A mapping may omit metrics whose direction is known. The direction is known if it is in a
        report, or if the column name is the abbreviation of a metric of skuq, such as "crps".
    n_resamples : int, default=1000
        Number of random permutations. If there are at most `n_resamples` possible permutations, all
        possible permutations are evaluated.
    random_state : int, RandomState instance or None, default=None
        Controls the permutations. Pass an int for reproducible output across calls.

    Returns
    -------
    agreement : MetricAgreement
        Correlations, p-values and the number of reports.

    Raises
    ------
    ValueError
        If there are too few reports or metrics, if a metric is constant or has NaN, if a metric has different
        optima in several reports, or if the direction of a metric is unknown.
    TypeError
        If `reports` is neither a DataFrame nor a collection of reports, or if a value is not a number.

    See Also
    --------
    skuq.displays.MetricAgreementDisplay : Heat map of the correlations.
    paired_permutation_test : Test of the difference between two models in one metric.

    Notes
    -----
    Let :math:`r_i` and :math:`s_i` be the ranks of two metrics. Then tau-b [1]_ is

    .. math:: \tau = \frac{\sum_{i<j} \operatorname{sign}(r_i - r_j) \operatorname{sign}(s_i - s_j)}
        {\sqrt{\#\{i<j: r_i \ne r_j\} \, \#\{i<j: s_i \ne s_j\}}}

    Values that differ only by rounding are ties.

    The test permutes the rows of one metric. The p-value is the share of permutations whose absolute tau is
    at least as large as the observed absolute tau. The observed order counts as one of the random
    permutations, so the p-value is at least ``1 / (n_resamples + 1)``. A small p-value means that the two
    orders are related, in the same or in the opposite direction. A large p-value does not mean that the
    metrics disagree: with 10 reports, only an absolute tau of about 0.5 has a p-value below 0.05. The
    p-values are not corrected for the number of pairs.

    The test assumes independent rows. Several parameter settings of one model are not independent. If the
    rows are data sets, all metrics in the units of y agree, because each of these metrics is larger for data
    sets with more noise.

    The cost is O(n_reports² n_metrics) time for each permutation.

    References
    ----------
    .. [1] Kendall (1945), The treatment of ties in ranking problems. https://doi.org/10.1093/biomet/33.3.239
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import pandas as pd
    >>> from skuq.evaluation import metric_agreement
    >>> table = pd.DataFrame(
    ...     {
    ...         "crps": [0.10, 0.12, 0.20, 0.25, 0.31],
    ...         "R2": [0.95, 0.96, 0.80, 0.72, 0.61],
    ...         "picp": [0.99, 0.60, 0.90, 0.88, 0.92],
    ...     },
    ...     index=["a", "b", "c", "d", "e"],
    ... )
    >>> agreement = metric_agreement(table, directions={"R2": "higher", "picp": 0.9})
    >>> agreement.tau.round(2)
          crps    R2  picp
    crps  1.00  0.80 -0.32
    R2    0.80  1.00 -0.53
    picp -0.32 -0.53  1.00
    >>> agreement.p_value.round(2)
          crps    R2  picp
    crps  0.02  0.08  0.63
    R2    0.08  0.02  0.33
    picp  0.63  0.33  0.02
    """
    check_integer(n_resamples, "n_resamples")
    rng = check_random_state(random_state)
    table, known = _as_table(reports)
    values = _check_values(table)
    oriented = _directions(list(table.columns), known, directions)
    ranks = np.array([_ranks(values[:, k], each) for k, each in enumerate(oriented)])
    constant = [repr(name) for name, rank in zip(table.columns, ranks, strict=True) if not rank.any()]
    if constant:
        raise ValueError(
            f"`reports` must have at least two different values per metric, got one in "
            f"{', '.join(constant)}. Kendall's tau is undefined for a constant metric. Leave the metric out."
        )
    # 20! is larger than any number of permutations that can be evaluated.
    exact = math.factorial(min(len(table), 20)) <= n_resamples
    orders: Iterator[IntArray]
    if exact:
        orders = (np.array(order) for order in itertools.permutations(range(len(table))))
    else:
        orders = (rng.permutation(len(table)) for _ in range(n_resamples))
    tau, p_value, n_orders = _test(ranks, orders, exact)
    names = table.columns
    return MetricAgreement(
        tau=pd.DataFrame(tau, names, names),
        p_value=pd.DataFrame(p_value, names, names),
        n_reports=len(table),
        n_resamples=n_orders,
        exact=exact,
    )


def _as_table(reports: Any) -> tuple[pd.DataFrame, dict[Any, Direction]]:
    """Return the table of reports and metrics, and the better direction of each metric."""
    if isinstance(reports, UncertaintyReport):
        if reports.index.nlevels == 1:
            raise ValueError("`reports` must contain several models, got a report of one model.")
        parts = {name: reports.xs(name, level="model") for name in reports.index.unique("model")}
        return _as_table(parts)
    if isinstance(reports, Mapping):
        if not reports or not all(_is_report(each) for each in reports.values()):
            raise TypeError(
                "`reports` must be a DataFrame, or a mapping from model names to results of "
                "uncertainty_report. Each result must be the report of one model."
            )
        table = pd.DataFrame({name: each["value"] for name, each in reports.items()}).T
        known = _stated_directions(pd.concat(list(reports.values())))
        return table[list(known)], {name: each for name, each in known.items() if each is not None}
    if not isinstance(reports, pd.DataFrame):
        raise TypeError(
            "`reports` must be a DataFrame with one row per report and one column per metric, or a mapping "
            f"from names to results of uncertainty_report, got {type(reports).__name__}."
        )
    specs = {name: find_spec(name) for name in reports.columns}
    return reports, {name: spec.direction for name, spec in specs.items() if spec and spec.direction}


def _stated_directions(rows: pd.DataFrame) -> dict[Any, Direction | None]:
    known: dict[Any, Direction | None] = {}
    for name, stated in rows.groupby(level=0, sort=False):
        targets = stated["optimum"][stated["direction"] == ""].dropna().unique()
        if len(targets) > 1:
            raise ValueError(
                f"`reports` must have the same optimum for {name!r}, got {', '.join(map(str, targets))}. "
                "Compute all reports with the same coverage."
            )
        known[name] = stated["direction"].iloc[0] or (float(targets[0]) if len(targets) else None)
    return known


def _is_report(each: Any) -> bool:
    columns = {"value", "direction", "optimum"}
    return isinstance(each, pd.DataFrame) and columns <= set(each.columns) and each.index.nlevels == 1


def _check_values(table: pd.DataFrame) -> FloatArray:
    n_reports, n_metrics = table.shape
    if n_reports < 3:
        raise ValueError(f"`reports` must have at least 3 rows, one per model or data set, got {n_reports}.")
    if n_metrics < 2:
        raise ValueError(f"`reports` must have at least 2 metrics, one per column, got {n_metrics}.")
    if not table.columns.is_unique:
        double = table.columns[table.columns.duplicated()][0]
        raise ValueError(f"`reports` must have different column names, got {double!r} twice.")
    for name, column in table.items():
        if any(isinstance(each, str) for each in column):
            raise TypeError(
                f"`reports` must hold real numbers, got text in {name!r}. Pass names of reports as the index."
            )
        if column.isna().any():
            raise ValueError(
                f"`reports` must not contain NaN, got one in {name!r} of report "
                f"{column.index[column.isna()][0]}. Leave out the metric or the report."
            )
    return as_float_array(table, "reports")


def _directions(names: list[Any], known: Mapping[Any, Direction], directions: Any) -> list[Direction]:
    """Return the better direction of each metric, or its best value."""
    given = dict.fromkeys(names, directions) if isinstance(directions, str) else directions
    given = check_mapping(given, "directions")
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"`directions` must name metrics of the reports, got {unknown[0]!r}.")
    for name, each in given.items():
        if isinstance(each, str) and each not in DIRECTIONS:
            raise ValueError(
                f'`directions` must be "lower", "higher" or a number for {name!r}, got {each!r}.'
            )
        if not isinstance(each, str):
            check_number(each, "directions")
    found = {**known, **given}
    if missing := [repr(name) for name in names if name not in found]:
        raise ValueError(
            f'`directions` must state "lower", "higher" or a target for {", ".join(missing)}, because '
            "skuq does not know whether larger or smaller values are better. Or leave these metrics out."
        )
    return [found[name] for name in names]


def _ranks(values: FloatArray, direction: Direction) -> IntArray:
    """Return the ranks of the values.

    The worst value has rank 0, and values that differ only by rounding are tied.
    """
    target = 0.0 if isinstance(direction, str) else float(direction)
    goodness = values if direction == "higher" else -values if direction == "lower" else -abs(values - target)
    order = np.argsort(goodness, kind="stable")
    rising = goodness[order]
    size = np.minimum(np.abs(rising[:-1]), np.abs(rising[1:])) + abs(target)
    steps = last_of_ties(rising, ROUNDING * size)[:-1]
    ranks = np.zeros(values.size, dtype=np.intp)
    ranks[order[1:]] = np.cumsum(steps)
    return ranks


def _test(ranks: IntArray, orders: Iterator[IntArray], exact: bool) -> tuple[FloatArray, FloatArray, int]:
    """Return tau, the p-values and the number of permutations.

    The ranks have the shape (n_metrics, n_reports).
    """
    first, second = np.triu_indices(ranks.shape[1], k=1)

    def signs(ranks: IntArray) -> FloatArray:
        return np.asarray(np.sign(ranks[:, first] - ranks[:, second]), dtype=np.float64)

    own = signs(ranks)
    concordance = own @ own.T  # All entries are whole numbers, so comparisons are exact.
    untied = np.diag(concordance)
    extreme, n_orders = np.zeros_like(concordance), 0
    for order in orders:
        extreme += np.abs(own @ signs(ranks[:, order]).T) >= np.abs(concordance)
        n_orders += 1
    p_value = extreme / n_orders if exact else (1 + extreme) / (1 + n_orders)
    # The p-value of a pair depends slightly on which metric is permuted. Both halves of the matrix get the
    # values of the upper half.
    upper = np.triu(p_value)
    # The root of the product is exact if both orders are equal. A product of roots would not be exact.
    tau = concordance / np.sqrt(np.outer(untied, untied))
    return tau, upper + np.triu(p_value, 1).T, n_orders
