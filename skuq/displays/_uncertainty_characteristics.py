"""Plot of the uncertainty characteristics curve: width and miss rate of the bands at every scale."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option
from skuq.displays._display import CurveDisplay, Fold, as_folds, as_list, one_or_list
from skuq.displays._drawing import (
    REFERENCE,
    Axes,
    Style,
    check_matplotlib,
    choose_rows,
    draw_endless_line,
    percent,
    with_unit,
)
from skuq.distributions import as_distribution
from skuq.distributions._convert import is_array
from skuq.metrics import uncertainty_characteristics_curve
from skuq.metrics._ucc_curve import OperatingPoint, UncertaintyCharacteristicsCurve
from skuq.monitoring import MetricAccumulator

if TYPE_CHECKING:
    from matplotlib.collections import PathCollection

XAxis = Literal["bandwidth", "excess"]
YAxis = Literal["miss_rate", "deficit"]
Curve = UncertaintyCharacteristicsCurve

_LABELS = {
    "bandwidth": "Mean bandwidth, half the width of the interval",
    "excess": "Mean excess of the bands",
    "miss_rate": "Miss rate (%)",
    "deficit": "Mean deficit of the bands",
}
_CONSTANT = "Constant width"
_MAX_CORNERS = 4000


@dataclass(kw_only=True, eq=False, repr=False)
class UncertaintyCharacteristicsDisplay(CurveDisplay):
    """Width and miss rate of the bands at every scale.

    All bands are multiplied by a factor that increases from 0. The plot shows which model has the
    narrowest bands at a given miss rate. The lower curve is better. If two curves cross, the better model
    depends on the acceptable miss rate. The thin dashed curve belongs to bands of constant width around
    the same predictions. If the curve of a model is not below the dashed curve, the model does not
    distinguish uncertain rows from other rows. A common factor of all bands does not change the curve, so
    the curve does not depend on calibration. A ring marks the bands as predicted, i.e. before scaling.
    The legend states their width, by default one standard deviation.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add another model to
    the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    curve : UncertaintyCharacteristicsCurve, or list of UncertaintyCharacteristicsCurve
        The curve. A list has one curve per fold.
    reference : UncertaintyCharacteristicsCurve, list or None, default=None
        The curve of constant bands around the same predictions. A list has one curve per fold.
    bands : "std", float or None, default="std"
        Width of the predicted bands, for the legend: one standard deviation, or the central interval of a
        coverage. None means given bounds.
    unit : str, default=None
        Unit of the target. Shown in the axis labels.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D or list of Line2D
        The curve. A list has one line per fold.
    ref_line_ : list of matplotlib.lines.Line2D
        The curves of the constant bands, one per fold. Empty if `ref_line` is False, or if an earlier display
        has drawn these curves on the same axes.
    original_ : matplotlib.collections.PathCollection or None
        The predicted bands.
    operating_points_ : matplotlib.collections.PathCollection or None
        The narrowest bands for each requested miss rate.
    optimum_ : matplotlib.collections.PathCollection or None
        The bands of least cost.
    isocost_lines_ : list of matplotlib.lines.AxLine
        The lines of equal cost through the bands of least cost, one per fold.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.metrics.uncertainty_characteristics_curve : Computes the plotted numbers.
    skuq.metrics.auucc_loss : The area under the curve.
    CalibrationCurveDisplay : Calibration curve.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import UncertaintyCharacteristicsDisplay
    >>> rng = np.random.default_rng(0)
    >>> scale = rng.uniform(0.5, 3.0, size=500)
    >>> y = rng.normal(scale=scale)
    >>> display = UncertaintyCharacteristicsDisplay.from_predictions(
    ...     y, Normal(np.zeros(500), np.sqrt(scale)), name="model", miss_rate=0.1, cost=(1.0, 10.0)
    ... )
    >>> display.line_.get_label()
    'model (AUUCC = 1.31)'
    """

    curve: Curve | list[Curve]
    reference: Curve | list[Curve] | None = None
    bands: str | float | None = "std"
    unit: str | None = None
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        x_axis: XAxis = "bandwidth",
        y_axis: YAxis = "miss_rate",
        ref_line: bool = True,
        original: bool = True,
        miss_rate: ArrayLike | None = None,
        cost: float | tuple[float, float] | None = None,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        scatter_kwargs: Style = None,
        isocost_kwargs: Style = None,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        x_axis : {"bandwidth", "excess"}, default="bandwidth"
            Quantity of the horizontal axis. Both options measure the width of the bands.
        y_axis : {"miss_rate", "deficit"}, default="miss_rate"
            Quantity of the vertical axis. Both options measure the missed targets.
        ref_line : bool, default=True
            Whether to draw the curve of constant bands. If two models have the same curve of constant bands,
            this curve is drawn only once.
        original : bool, default=True
            Whether to mark the predicted bands.
        miss_rate : float or array-like of shape (k,), default=None
            If given, mark the narrowest bands with at most this miss rate, in [0, 1]. The mark shows the
            factor k, or the number b that is added to the bands.
        cost : float or pair of float, default=None
            If given, mark the bands of minimum cost and draw the line of equal cost through these bands. A
            pair contains the cost per unit of x and the cost per unit of y. A number is the weight c in
            ``c * x + (1 - c) * y``. See ``UncertaintyCharacteristicsCurve.optimum``. One unit of the miss
            rate is 1, not 1 %.
        line_kwargs, ref_line_kwargs : dict, default=None
            Keywords for the curve and for the constant bands, passed to ``Axes.plot``.
        scatter_kwargs : dict, default=None
            Keywords for the marks, passed to ``Axes.scatter``.
        isocost_kwargs : dict, default=None
            Keywords for the line of equal cost, passed to ``Axes.axline``.

        Returns
        -------
        display : UncertaintyCharacteristicsDisplay
            The display itself.
        """
        self._use_axes(ax, (6.4, 4.8))
        check_option(x_axis, "x_axis", ["bandwidth", "excess"])
        check_option(y_axis, "y_axis", ["miss_rate", "deficit"])
        curves: list[Curve] = as_list(self.curve)
        one, axes = len(curves) == 1, (x_axis, y_axis)
        area = float(np.mean([curve.area(x_axis=x_axis, y_axis=y_axis) for curve in curves]))
        steps = "steps-post" if y_axis == "miss_rate" else "default"
        color = self._draw_curves(
            [path(curve, axes) for curve in curves],
            name,
            line_kwargs,
            note=f"AUUCC = {area:.3g}" if one else f"mean AUUCC = {area:.3g}",
            drawstyle=steps,
            solid_joinstyle="round",
        )
        self.ref_line_ = []
        if ref_line and self.reference is not None:
            style = {"color": color, "drawstyle": steps, "alpha": 0.8 if one else 0.4, "label": _CONSTANT}
            style |= {"linestyle": (0, (4, 2)), "linewidth": 1.1, "zorder": 1.9, "gid": REFERENCE}
            for curve in as_list(self.reference):
                x, y = path(curve, axes)
                if not self._has_reference(x, y):
                    self.ref_line_.append(self._draw_line(x, y, ref_line_kwargs, "ref_line_kwargs", **style))
        self.original_ = self.operating_points_ = self.optimum_ = None
        self.isocost_lines_ = []
        mark = partial(self._mark, axes=axes, color=color, style=scatter_kwargs)
        if original:
            predicted = [curve.at(1.0 if curve.vary == "scale" else 0.0) for curve in curves]
            width = "mean ± 1 std" if self.bands == "std" else "given bounds"
            if isinstance(self.bands, float):
                width = f"{percent(self.bands)} intervals"
            self.original_ = mark(predicted, "o", f"Predicted bands ({width})")
        points: list[OperatingPoint] = []
        if miss_rate is not None:
            rates = np.atleast_1d(miss_rate).tolist()
            points = [curve.operating_point(miss_rate=rate) for curve in curves for rate in rates]
            label = "Miss rate at most " + ", ".join(percent(rate) for rate in rates)
            self.operating_points_ = mark(points, "D", label)
        optima: list[OperatingPoint] = []
        if cost is not None:
            optima = [curve.optimum(cost=cost, x_axis=x_axis, y_axis=y_axis) for curve in curves]
            self.optimum_ = mark(optima, "s", "Least cost, with line of equal cost")
            single = isinstance(cost, int | float | np.integer | np.floating)
            x_cost, y_cost = np.array([cost, 1 - cost] if single else cost)  # type: ignore[operator]
            slope = -x_cost / y_cost * percent_of(y_axis) if y_cost else -np.inf
            style = {"color": color, "linestyle": ":", "linewidth": 1.3, "zorder": 2.0}
            style["alpha"] = 1.0 if one else 0.5
            merged = self._style("lines.Line2D", style, isocost_kwargs, "isocost_kwargs")
            self.isocost_lines_ = [
                draw_endless_line(self.ax_, place(point, axes), slope, merged) for point in optima
            ]
        self.ax_.set_xlim(0, self.ax_.dataLim.x1 or 1.0)
        self.ax_.set_ylim(0, 100 if y_axis == "miss_rate" else self.ax_.dataLim.y1 or 1.0)
        if one:
            self._annotate(points, axes)
            self._annotate(optima, axes, below=True)
        ylabel = with_unit(_LABELS[y_axis], None if y_axis == "miss_rate" else self.unit)
        return self._finish(with_unit(_LABELS[x_axis], self.unit), ylabel)

    def _mark(
        self,
        points: list[OperatingPoint],
        marker: str,
        label: str,
        *,
        axes: tuple[str, str],
        color: Any,
        style: Style,
    ) -> PathCollection:
        default = {"s": 46.0, "marker": marker, "facecolor": self.ax_.get_facecolor(), "edgecolor": color}
        default |= {"linewidths": 1.8, "zorder": 3, "clip_on": False, "label": label, "gid": REFERENCE}
        x, y = zip(*(place(point, axes) for point in points), strict=True)
        return self._draw_points(x, y, style, **default)

    def _annotate(self, points: list[OperatingPoint], axes: tuple[str, str], *, below: bool = False) -> None:
        """Write the scale or bias above or below each point, without overlaps."""
        symbol = "k" if as_list(self.curve)[0].vary == "scale" else "b"
        for point in points:
            spot = place(point, axes)
            # Text to the right of this point would cross the axis.
            left = below and spot[0] > 0.3 * self.ax_.dataLim.x1
            boxes = [text.get_window_extent() for text in self.ax_.texts]
            text = self.ax_.annotate(
                f"${symbol}$ = {point.parameter:.2f}",
                spot,
                xytext=(-7, -4) if left else (7, 5),
                textcoords="offset points",
                horizontalalignment="right" if left else "left",
                verticalalignment="center" if left else "baseline",
                fontsize="small",
            )
            while any(text.get_window_extent().overlaps(box) for box in boxes):
                text.xyann = text.xyann[0], text.xyann[1] + (-3 if left else 3)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        bands: str | float = "std",
        vary: str = "scale",
        zero_band: str = "keep",
        unit: str | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
            Forecast of every target. An array holds finite lower and upper bounds.
        bands : "std" or float, default="std"
            "std" means the mean plus or minus one standard deviation. A number means the central interval of
            this coverage around the median.
        vary : {"scale", "bias"}, default="scale"
            "scale" multiplies the bands by a factor k. "bias" adds a number b to the bands.
        zero_band : {"keep", "min"}, default="keep"
            Treatment of bands of width 0. "keep" leaves these bands unchanged, so their width is 0 at every
            factor. "min" replaces these bands with the smallest positive band, as in UQ360.
        unit : str, default=None
            Unit of the target. Shown in the axis labels.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : UncertaintyCharacteristicsDisplay
            The drawn display.
        """
        check_matplotlib("UncertaintyCharacteristicsDisplay.from_predictions")
        options: dict[str, Any] = {"vary": vary, "zero_band": zero_band}
        folds = as_folds(y_true, y_pred, sample_weight)
        pairs = [curve_and_reference(fold, bands, options) for fold in folds]
        return cls(
            curve=one_or_list([curve for curve, _ in pairs]),
            reference=one_or_list([reference for _, reference in pairs]),
            bands=None if is_array(folds[0].y_pred) else bands,
            unit=unit,
            name=name,
        ).plot(ax, **kwargs)

    @classmethod
    def from_accumulator(
        cls,
        accumulator: MetricAccumulator,
        *,
        unit: str | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of accumulated rows.

        Parameters
        ----------
        accumulator : MetricAccumulator
            Accumulator that was created with "characteristics" in `curves`.
        unit : str, default=None
            Unit of the target. Shown in the axis labels.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : UncertaintyCharacteristicsDisplay
            The drawn display.
        """
        check_matplotlib("UncertaintyCharacteristicsDisplay.from_accumulator")
        curve, reference = (accumulator.characteristics_curve(bands=bands) for bands in ("std", "constant"))
        return cls(curve=curve, reference=reference, unit=unit, name=name).plot(ax, **kwargs)


def curve_and_reference(fold: Fold, bands: str | float, options: dict[str, Any]) -> tuple[Curve, Curve]:
    around_median: dict[str, Any] = {} if bands == "std" else {"point": as_distribution(fold.y_pred).median()}
    curve, reference = (
        uncertainty_characteristics_curve(
            fold.y_true, fold.y_pred, sample_weight=fold.sample_weight, bands=kind, **options, **point
        )
        for kind, point in ((bands, {}), ("constant", around_median))
    )
    return curve, reference


def path(curve: Curve, axes: tuple[str, str]) -> tuple[FloatArray, FloatArray]:
    rows = choose_rows(len(curve), _MAX_CORNERS)
    x, y = (getattr(curve, axis)[rows] for axis in axes)
    return x, percent_of(axes[1]) * y


def place(point: OperatingPoint, axes: tuple[str, str]) -> tuple[float, float]:
    x, y = (getattr(point, axis) for axis in axes)
    return x, percent_of(axes[1]) * y


def percent_of(axis: str) -> float:
    return 100.0 if axis == "miss_rate" else 1.0
