"""Several uncertainty characteristics curves side by side: which model is best at which miss rate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from skuq._typing import FloatArray
from skuq._validation import check_option
from skuq.metrics._ucc_curve import WIDTH_AXES, UncertaintyCharacteristicsCurve


def compare_characteristics_curves(
    curves: Mapping[str, UncertaintyCharacteristicsCurve], *, x: str = "bandwidth"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare models by their uncertainty characteristics curves: who is best where, and who never is.

    Is one model's trade of width for misses better throughout, or does it depend on the miss rate? A model
    is dominated if another's bands are nowhere wider and somewhere narrower at the same miss rate.

    Parameters
    ----------
    curves : mapping of str to UncertaintyCharacteristicsCurve
        At least two, by name, of the same targets.
    x : {"bandwidth", "excess"}, default="bandwidth"
        The cost of width to compare.

    Returns
    -------
    models : DataFrame
        One row a model: "area" under the curve; "best_share", the share of all miss rates at which it is the
        narrowest (ties go to the first); "dominated_by", the models that dominate it, separated by commas.
    front : DataFrame
        The Pareto front: the "model" that is the narrowest on each stretch of miss rates, from
        "miss_rate_low" to "miss_rate_high"; many misses first.

    See Also
    --------
    paired_permutation_test : Whether the difference of two models may be chance.

    Notes
    -----
    O(m n log n) for m models.

    Examples
    --------
    >>> from skuq.metrics import compare_characteristics_curves, uncertainty_characteristics_curve
    >>> y, zero = [1.0, -4.0, 0.5], [0.0, 0.0, 0.0]
    >>> forecasts = {"model": (zero, [1.0, 2.0, 3.0]), "constant": (zero, [1.0, 1.0, 1.0])}
    >>> curves = {name: uncertainty_characteristics_curve(y, dist) for name, dist in forecasts.items()}
    >>> models, front = compare_characteristics_curves(curves)
    >>> models[["area", "best_share"]].round(2)
              area  best_share
    model
    model     2.11        0.67
    constant  1.83        0.33
    >>> front.round(2)
          model  miss_rate_low  miss_rate_high
    0     model           0.67            1.00
    1  constant           0.33            0.67
    2     model           0.00            0.33
    """
    check_option(x, "x", WIDTH_AXES)
    names = list(curves)
    if len(names) < 2:
        raise ValueError(f"`curves` must hold at least two curves, got {len(names)}.")
    levels = _miss_rates(list(curves.values()))
    width = np.array([_width_at(curve, levels, x) for curve in curves.values()])
    best, share = width.argmin(axis=0), _lengths(levels)
    models = pd.DataFrame(
        {
            "area": [curve.area(x=x) for curve in curves.values()],
            "best_share": [float(share[best == i].sum()) for i in range(len(names))],
            "dominated_by": [", ".join(_dominating(width, names, i)) for i in range(len(names))],
        },
        index=pd.Index(names, name="model"),
    )
    return models, _front(levels, best, names)


def _miss_rates(curves: list[UncertaintyCharacteristicsCurve]) -> FloatArray:
    """Return the miss rates at which some curve steps, falling, with 1 first and without the last, 0.

    On the stretch from one of them down to the next every width is constant; rounding of shares is undone.
    """
    rates = np.unique(np.concatenate([[0.0, 1.0], *(curve.miss_rate for curve in curves)]))
    keep = np.diff(rates, append=2.0) > 1e-12
    return np.asarray(rates[keep][::-1])


def _lengths(levels: FloatArray) -> FloatArray:
    """Return the lengths of the stretches between miss rates."""
    return np.asarray(-np.diff(levels))


def _width_at(curve: UncertaintyCharacteristicsCurve, levels: FloatArray, x: str) -> FloatArray:
    """Return the least width that misses no more than the middle of each stretch; infinite out of reach."""
    middle = (levels[1:] + levels[:-1]) / 2
    position = np.searchsorted(-curve.miss_rate, -middle)
    return np.append(getattr(curve, x), np.inf)[position]


def _dominating(width: FloatArray, names: list[str], i: int) -> list[str]:
    """Return the names of the models that are nowhere wider than model i and somewhere narrower."""
    return [
        name
        for j, name in enumerate(names)
        if j != i and np.all(width[j] <= width[i]) and np.any(width[j] < width[i])
    ]


def _front(levels: FloatArray, best: np.ndarray, names: list[str]) -> pd.DataFrame:
    """Return the stretches of miss rates over which one model stays the best."""
    starts = np.flatnonzero(np.diff(best, prepend=-1) != 0)
    ends = np.append(starts[1:], best.size)
    return pd.DataFrame(
        {
            "model": [names[i] for i in best[starts]],
            "miss_rate_low": levels[ends],
            "miss_rate_high": levels[starts],
        }
    )
