"""Area under the uncertainty characteristics curve, compared with constant bands and between models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skuq._numeric import ROUNDING, last_of_ties
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_option
from skuq.distributions import Distribution
from skuq.metrics._inputs import check_forecast, finite_moment
from skuq.metrics._spec import Computation, Means, WeightFunction, metric, one_by_one, value_of
from skuq.metrics._ucc_curve import (
    VARY,
    WIDTH_AXES,
    ZERO_BANDS,
    UncertaintyCharacteristicsCurve,
    bands_around,
    check_bands,
    check_part,
    check_unit,
    curve_of_bands,
)
from skuq.metrics._ucc_kernels import critical_scales

DENOMINATORS = ("constant", "model")

CLOSED_FORM: dict[str, Any] = {
    "x_axis": "bandwidth",
    "y_axis": "miss_rate",
    "x_range": None,
    "y_range": None,
    "rule": "exact",
    "normalize": None,
    "bands": "std",
    "vary": "scale",
    "zero_band": "keep",
}
"""With these options, the area is a product of two means (proposition 1), so that no sort is needed."""


def scale_rows(y: FloatArray, dist: Distribution) -> tuple[FloatArray, FloatArray]:
    error, std = y - finite_moment(dist, "mean"), finite_moment(dist, "std")
    return std, critical_scales(error, std, std)


def gain_rows(y: FloatArray, dist: Distribution) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the band of each row, its critical scale and its absolute error."""
    error, std = y - finite_moment(dist, "mean"), finite_moment(dist, "std")
    return std, critical_scales(error, std, std), np.abs(error)


def area_of_curve(*, bands: str | float, vary: str, zero_band: str, **part: Any) -> Computation:
    given = {"bands": bands, "vary": vary, "zero_band": zero_band, **part}
    if all(isinstance(given[name], type(x)) and given[name] == x for name, x in CLOSED_FORM.items()):
        return Means(scale_rows, auucc_of_means)
    bands = check_bands(bands)
    check_option(vary, "vary", VARY)
    check_option(zero_band, "zero_band", ZERO_BANDS)
    check_part(**{name: value for name, value in part.items() if name != "normalize"})
    check_unit(part["normalize"])

    def computation(y: FloatArray, dist: Distribution) -> WeightFunction:
        found = bands_around(y, dist, bands)
        curve = partial(curve_of_bands, found, vary=vary, zero_band=zero_band)
        return one_by_one(lambda weight: curve(weight).area(**part))

    return computation


def gain_of_curve(
    *, denominator: str, bands: str | float, vary: str, zero_band: str, **part: Any
) -> Computation:
    check_option(denominator, "denominator", DENOMINATORS)
    shape: dict[str, Any] = {"vary": vary, "zero_band": zero_band}
    if isinstance(area_of_curve(bands=bands, normalize=None, **shape, **part), Means):
        return Means(
            gain_rows, lambda means: relative_gain(auucc_of_means(means), means[..., 2], denominator)
        )

    def computation(y: FloatArray, dist: Distribution) -> WeightFunction:
        center = None if bands == "std" else dist.median()
        both = [bands_around(y, dist, kind, center) for kind in (check_bands(bands), "constant")]

        def of_weight(weight: FloatArray) -> FloatArray:
            curves = (curve_of_bands(each, weight, **shape) for each in both)
            model, constant = (np.asarray(each.area(**part)) for each in curves)
            return relative_gain(model, constant, denominator)

        return one_by_one(of_weight)

    return computation


def auucc_of_means(means: FloatArray) -> FloatArray:
    """Return the exact area from the mean band and the mean critical scale (proposition 1)."""
    band, k = means[..., 0], means[..., 1]
    out_of_reach = k == np.inf  # This also applies to bands of 0, because 0 times infinity is NaN.
    return np.where(out_of_reach, np.inf, band * np.where(out_of_reach, 0.0, k))


@metric(
    "auucc",
    title="AUUCC",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="moments",
    source="Navratil et al. 2023, section 2.2.3 and proposition 1",
    meaning="the half width is {value}, averaged over all miss rates",
    kernel=area_of_curve,
    blocks="characteristics",
)
def auucc_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    x_axis: str = "bandwidth",
    y_axis: str = "miss_rate",
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    rule: str = "exact",
    normalize: str | float | None = None,
    bands: str | float = "std",
    vary: str = "scale",
    zero_band: str = "keep",
) -> float:
    r"""Return the area under the uncertainty characteristics curve (AUUCC).

    The smaller the better, minimum is zero. The area is the bandwidth averaged over all miss rates of the
    `uncertainty_characteristics_curve`, in the units of y. The area also depends on the errors of the point
    predictions. Therefore, compare only models with the same point predictions, or use `auucc_gain_score`,
    which is relative to constant bands. A common factor of all bands does not change the area, so the area
    does not measure calibration.

    The metric is not proper: the square root of the true sigma scores better than the true sigma (see the
    example). Two other areas are closer to a proper score: the area of excess and deficit, and the part of
    the area with low miss rates (``y_range=(0, 0.2)``). Select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. Mean and standard deviation must be finite. For bounds with point
        predictions, use ``uncertainty_characteristics_curve(...).area()``.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    x_axis : {"bandwidth", "excess"}, default="bandwidth"
        Coordinate on the x axis.
    y_axis : {"miss_rate", "deficit"}, default="miss_rate"
        Coordinate on the y axis. With "deficit", the area is in squared units of y.
    x_range, y_range : pair of float, default=None
        Range of x or y for a partial area. Pass at most one of the two. The curve is cut exactly at the
        limits.
    rule : {"exact", "rectangle", "trapezoid", "uq360"}, default="exact"
        "exact" is the integral of the curve. "rectangle" is the sum of eq. 14 of [1]_. "trapezoid" uses
        straight lines between corners. "uq360" is the rule of the package UQ360. See
        `UncertaintyCharacteristicsCurve.area`.
    normalize : "std", float or None, default=None
        Unit of all axes except the miss rate. "std" is the standard deviation of the targets, as in UQ360.
        None means the units of y.
    bands : "std" or float, default="std"
        "std" is one standard deviation on each side of the mean. A number is the coverage of a central
        interval. The bands then extend from the median to the bounds of this interval.
    vary : {"scale", "bias"}, default="scale"
        Whether the bands are multiplied by a factor ("scale"), or a number is added to the bands ("bias").
    zero_band : {"keep", "min"}, default="keep"
        Treatment of bands of width 0. "keep" leaves these bands unchanged, so their width is 0 at every
        factor. "min" replaces these bands with the smallest positive band, as in UQ360.

    Returns
    -------
    area : float
        In the units of y. Infinite if a row with a band of width 0 has an error.

    See Also
    --------
    uncertainty_characteristics_curve : The curve.
    auucc_gain_score : The area compared with constant bands.

    Notes
    -----
    .. math:: A = \frac1n \sum_i \beta(k_i) = \Bigl(\frac1n \sum_i \sigma_i\Bigr)
        \Bigl(\frac1n \sum_i \frac{|y_i - \mu_i|}{\sigma_i}\Bigr)

    The band of row i just reaches the target at the scale :math:`k_i`. The exact area is the mean bandwidth
    at these scales (proposition 1). Its cost is O(n). Other options need one sort, O(n log n). The sum of eq.
    14 is smaller than the exact area by the largest bandwidth divided by n. The result of the trapezoid rule
    is smaller than the exact area by half of this amount.

    References
    ----------
    .. [1] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, eq. 14. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import auucc_loss
    >>> auucc_loss([1.0, -3.0], Normal([0.0, 0.0], [1.0, 2.0]))
    1.875
    >>> rng = np.random.default_rng(0)
    >>> sigma = np.exp(rng.normal(size=20_000))
    >>> y = sigma * rng.normal(size=20_000)
    >>> truth, wrong = Normal(0 * sigma, sigma), Normal(0 * sigma, np.sqrt(sigma))
    >>> [round(auucc_loss(y, dist), 2) for dist in (truth, wrong)]
    [1.32, 1.03]
    >>> [round(auucc_loss(y, dist, x_axis="excess", y_axis="deficit"), 2) for dist in (truth, wrong)]
    [0.5, 0.88]
    """
    kernel = area_of_curve(
        x_axis=x_axis,
        y_axis=y_axis,
        x_range=x_range,
        y_range=y_range,
        rule=rule,
        normalize=normalize,
        bands=bands,
        vary=vary,
        zero_band=zero_band,
    )
    return value_of(kernel, *check_forecast(y_true, y_pred, sample_weight))


@metric(
    "auucc_gain",
    title="AUUCC gain",
    direction="higher",
    optimum=1.0,
    bounds=(-np.inf, 1.0),
    needs="moments",
    source="Navratil et al. 2023, eq. 5 and proposition 1",
    meaning="apart from calibration, the bands save {percent} of the width of constant bands",
    kernel=gain_of_curve,
    blocks="characteristics",
)
def auucc_gain_score(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    denominator: str = "constant",
    x_axis: str = "bandwidth",
    y_axis: str = "miss_rate",
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    rule: str = "exact",
    bands: str | float = "std",
    vary: str = "scale",
    zero_band: str = "keep",
) -> float:
    r"""Return the AUUCC gain: the relative improvement of the predicted bands over constant bands.

    The larger the better, maximum is one. The bands are one standard deviation on each side of the mean. The
    gain compares two areas under the `uncertainty_characteristics_curve`: the area for these bands, and the
    area for constant bands around the same means. A common factor of all standard deviations does not change
    the gain, so the gain does not measure calibration.

    The metric is not proper. The gain equals Cov(k, sigma) / MAE, where k = \|error\| / sigma. For the true
    sigma of a location-scale family, the expected gain is 0. Constant bands have the same gain. The square
    root of the true sigma has a larger gain than the true sigma (see the example). Select models by
    `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. Mean and standard deviation must be finite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    denominator : {"constant", "model"}, default="constant"
        Area by which the difference of the two areas is divided. "constant" is the area of the constant bands
        (eq. 5 of [1]_). "model" is the area of the model. The package UQ360 uses "model" with
        ``x_axis="excess", rule="uq360"``.
    x_axis, y_axis, x_range, y_range, rule, bands, vary, zero_band : optional
        Options of both areas. See `auucc_loss`. The constant bands have the same point predictions.

    Returns
    -------
    gain : float
        At most 1. Constant bands have a gain of 0. If a row with a sigma of 0 has an error, the gain is minus
        infinity, or -1 with ``denominator="model"``. If all errors are 0, the gain is 0.

    See Also
    --------
    expected_normalized_calibration_error : The calibration error of the predicted standard deviations.

    Notes
    -----
    .. math:: G = \frac{A_\mathrm{const} - A}{A_\mathrm{const}}, \quad
        A = \Bigl(\frac1n \sum_i \sigma_i\Bigr)
        \Bigl(\frac1n \sum_i \frac{|y_i - \mu_i|}{\sigma_i}\Bigr), \quad
        A_\mathrm{const} = \frac1n \sum_i |y_i - \mu_i|

    The formula of A is proposition 1 of [1]_. The time is O(n).

    References
    ----------
    .. [1] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, eq. 5. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import auucc_gain_score, crps_loss
    >>> rng = np.random.default_rng(0)
    >>> sigma = np.exp(rng.normal(size=20_000))
    >>> y = sigma * rng.normal(size=20_000)
    >>> truth, wrong = Normal(0 * sigma, sigma), Normal(0 * sigma, np.sqrt(sigma))
    >>> [round(auucc_gain_score(y, dist), 2) for dist in (truth, wrong)]
    [0.0, 0.22]
    >>> crps_loss(y, truth) < crps_loss(y, wrong)
    True
    """
    kernel = gain_of_curve(
        denominator=denominator,
        x_axis=x_axis,
        y_axis=y_axis,
        x_range=x_range,
        y_range=y_range,
        rule=rule,
        bands=bands,
        vary=vary,
        zero_band=zero_band,
    )
    return value_of(kernel, *check_forecast(y_true, y_pred, sample_weight))


def relative_gain(model: Any, constant: Any, denominator: str) -> FloatArray:
    """Return (A_const - A) / A_const or (A_const - A) / A, or 0 if both areas are 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gain = (constant - model) / constant if denominator == "constant" else constant / model - 1.0
    return np.where(constant == 0, 0.0, gain)


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
    best, share = _narrowest(width), -np.diff(levels)
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
