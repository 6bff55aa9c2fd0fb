"""Comparison of uncertainty characteristics curves, with the best model at each miss rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from skuq._rounding import ROUNDING, last_of_ties
from skuq._typing import FloatArray, IntArray
from skuq._validation import check_option
from skuq.metrics._ucc.curve import WIDTH_AXES, UncertaintyCharacteristicsCurve

TIE = 1e-9
"""Two widths count as equal if their relative difference is smaller than this, because the difference may be
due to rounding."""

NO_MODEL = -1


@dataclass(frozen=True, eq=False)
class CharacteristicsComparison:
    """Comparison of models by their curves; returned by `compare_characteristics_curves`.

    Parameters
    ----------
    models : DataFrame
        One row per model. "area": area under the curve. "best_share": share of all miss rates at which the
        bands of the model are the narrowest. If several models are equally narrow up to rounding, the miss
        rate counts for the first of these models. A miss rate that no model reaches counts for no model.
        "dominated_by": the models that dominate this model, separated by commas.
    front : DataFrame
        The Pareto front. One row per interval of miss rates, in decreasing order. "model": narrowest model on
        this interval. "miss_rate_low" and "miss_rate_high": bounds of the interval.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import compare_characteristics_curves, uncertainty_characteristics_curve
    >>> first, second = (
    ...     uncertainty_characteristics_curve([1.0, -2.0], Normal([0.0, 0.0], scale))
    ...     for scale in ([1, 2], [2, 1])
    ... )
    >>> compare_characteristics_curves({"first": first, "second": second}).models["best_share"].to_dict()
    {'first': 0.5, 'second': 0.5}
    """

    models: pd.DataFrame
    front: pd.DataFrame


def compare_characteristics_curves(
    curves: Mapping[str, UncertaintyCharacteristicsCurve], *, x_axis: str = "bandwidth"
) -> CharacteristicsComparison:
    """Return the areas, the Pareto front and the dominated models of several curves.

    The comparison shows whether one model has a better trade-off of width and misses at all miss rates. A
    model is dominated if the bands of another model are narrower at some miss rates and are not wider at any
    miss rate.

    Parameters
    ----------
    curves : mapping of str to UncertaintyCharacteristicsCurve
        At least two curves of the same targets. The keys are the names of the models.
    x_axis : {"bandwidth", "excess"}, default="bandwidth"
        Coordinate on the x axis. Both options measure the width of the bands.

    Returns
    -------
    comparison : CharacteristicsComparison
        ``models`` has one row per model. The columns are the area, the share of the miss rates at which the
        model is best, and the models that dominate this model. ``front`` has the narrowest model on each
        interval of miss rates.

    See Also
    --------
    paired_permutation_test : Test of the difference between two models.

    Notes
    -----
    The time is O(m n log n) for m models.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import compare_characteristics_curves, uncertainty_characteristics_curve
    >>> y = [1.0, -4.0, 0.5]
    >>> forecasts = {"model": Normal(0.0, [1.0, 2.0, 3.0]), "constant": Normal(0.0, [1.0, 1.0, 1.0])}
    >>> curves = {name: uncertainty_characteristics_curve(y, dist) for name, dist in forecasts.items()}
    >>> comparison = compare_characteristics_curves(curves)
    >>> comparison.models[["area", "best_share"]].round(2)
              area  best_share
    model
    model     2.11        0.67
    constant  1.83        0.33
    >>> comparison.front.round(2)
          model  miss_rate_low  miss_rate_high
    0     model           0.67            1.00
    1  constant           0.33            0.67
    2     model           0.00            0.33
    """
    check_option(x_axis, "x_axis", WIDTH_AXES)
    if not isinstance(curves, Mapping):
        raise TypeError(f"`curves` must be a mapping from names to curves, got {type(curves).__name__}.")
    names = list(curves)
    for name, curve in curves.items():
        if not isinstance(curve, UncertaintyCharacteristicsCurve):
            raise TypeError(
                f"`curves` must hold results of `uncertainty_characteristics_curve`, got "
                f"{type(curve).__name__} for {name!r}."
            )
    if len(names) < 2:
        raise ValueError(f"`curves` must hold at least two curves, got {len(names)}.")
    levels = _miss_rates(list(curves.values()))
    width = np.array([_width_at(curve, levels, x_axis) for curve in curves.values()])
    best, share = _narrowest(width), _lengths(levels)
    models = pd.DataFrame(
        {
            "area": [curve.area(x_axis=x_axis) for curve in curves.values()],
            "best_share": [float(share[best == i].sum()) for i in range(len(names))],
            "dominated_by": [", ".join(_dominating(width, names, i)) for i in range(len(names))],
        },
        index=pd.Index(names, name="model"),
    )
    return CharacteristicsComparison(models, _front(levels, best, names))


def _miss_rates(curves: list[UncertaintyCharacteristicsCurve]) -> FloatArray:
    rates = np.unique(np.concatenate([[0.0, 1.0], *(curve.miss_rate for curve in curves)]))
    return np.asarray(rates[last_of_ties(rates, ROUNDING)][::-1])


def _lengths(levels: FloatArray) -> FloatArray:
    return np.asarray(-np.diff(levels))


def _width_at(curve: UncertaintyCharacteristicsCurve, levels: FloatArray, x_axis: str) -> FloatArray:
    middle = (levels[1:] + levels[:-1]) / 2
    position = np.searchsorted(-curve.miss_rate, -middle)
    return np.append(getattr(curve, x_axis), np.inf)[position]


def _narrowest(width: FloatArray) -> IntArray:
    least = width.min(axis=0)
    first = np.argmax(width <= least * (1 + TIE), axis=0)
    return np.where(least < np.inf, first, NO_MODEL)


def _dominating(width: FloatArray, names: list[str], i: int) -> list[str]:
    return [
        name
        for j, name in enumerate(names)
        if j != i and np.all(width[j] <= width[i] * (1 + TIE)) and np.any(width[j] * (1 + TIE) < width[i])
    ]


def _front(levels: FloatArray, best: IntArray, names: list[str]) -> pd.DataFrame:
    starts = np.flatnonzero(np.diff(best, prepend=NO_MODEL - 1) != 0)
    ends = np.append(starts[1:], best.size)
    reached = best[starts] != NO_MODEL
    starts, ends = starts[reached], ends[reached]
    return pd.DataFrame(
        {
            "model": [names[i] for i in best[starts]],
            "miss_rate_low": levels[ends],
            "miss_rate_high": levels[starts],
        }
    )
