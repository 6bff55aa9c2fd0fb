"""The calibration curve: observed proportions against nominal levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.stats import binom, kstwo

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_option,
    check_sample_weight,
    check_single_coverage,
    effective_rows,
)
from skuq.displays._drawing import (
    CURVES,
    GREY,
    INK,
    Style,
    check_matplotlib,
    estimator_name,
    get_axes,
    has_label,
    merge_style,
    percent,
)
from skuq.metrics import regression_calibration_curve
from skuq.prediction import predict_dist

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kind = Literal["quantile", "interval"]
Band = Literal["simultaneous", "pointwise"]

_LABELS = {
    "quantile": ("Predicted probability level (%)", "Observed share of rows below that quantile (%)"),
    "interval": ("Nominal coverage of the central interval (%)", "Observed share of rows inside (%)"),
}
_PERFECT = "Perfectly calibrated"
_BAND = "sampling band"


class CalibrationCurveDisplay:
    """Observed proportions against the levels that were predicted.

    It answers whether the stated probabilities hold on average: a calibrated model lies on the
    diagonal within the sampling band. With ``kind="quantile"`` a curve above the diagonal means too
    high predictions, an S shape too narrow or too wide distributions; with ``kind="interval"`` a
    curve below it means intervals that are too narrow. It says nothing about single regions, nor
    about sharpness.

    Create it with `from_estimator` or `from_predictions`; a second curve (after recalibration, or of
    another model) goes onto the same axes with ``ax=display.ax_``.

    Parameters
    ----------
    levels : ndarray of shape (k,)
        Nominal levels, in [0, 1].
    proportions : ndarray of shape (k,)
        What was observed at each of them.
    n_rows : float
        Number of rows behind the curve, for the sampling band.
    kind : {"quantile", "interval"}, default="quantile"
        Whether the levels are those of quantiles or of central intervals.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D
        The curve.
    ref_line_ : matplotlib.lines.Line2D or None
        The diagonal; None where it was there already or not wanted.
    band_ : matplotlib.collections.PolyCollection or None
        The sampling band; None where it was there already or not wanted.
    ax_ : matplotlib.axes.Axes
        The axes drawn on.
    figure_ : matplotlib.figure.Figure
        The figure they belong to.

    See Also
    --------
    skuq.metrics.regression_calibration_curve : The numbers behind it.
    IntervalDisplay : The intervals of single rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.displays import CalibrationCurveDisplay
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> overconfident = (np.zeros(500), np.full(500, 0.5))
    >>> display = CalibrationCurveDisplay.from_predictions(y, overconfident, name="before")
    >>> display = CalibrationCurveDisplay.from_predictions(
    ...     y, (np.zeros(500), np.ones(500)), name="after", ax=display.ax_
    ... )
    >>> display.ax_.get_xlabel()
    'Predicted probability level (%)'
    """

    def __init__(
        self,
        *,
        levels: FloatArray,
        proportions: FloatArray,
        n_rows: float,
        kind: Kind = "quantile",
        name: str | None = None,
    ) -> None:
        self.levels = levels
        self.proportions = proportions
        self.n_rows = n_rows
        self.kind = kind
        self.name = name

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        band: Band | None = "simultaneous",
        band_coverage: float = DEFAULT_COVERAGE,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        name : str, default=None
            Name in the legend; None takes the one stored.
        ref_line : bool, default=True
            Whether to draw the diagonal, once on each axes.
        band : {"simultaneous", "pointwise"} or None, default="simultaneous"
            Where the curve of a perfectly calibrated model lies with probability `band_coverage`, at
            this number of rows: the whole of it (Kolmogorov-Smirnov) or each point of it by itself
            (binomial), once on each axes.
        band_coverage : float, default=0.9
            Probability of the band, in (0, 1).
        line_kwargs : dict, default=None
            Keywords for the curve, as ``Axes.plot`` takes them.
        ref_line_kwargs : dict, default=None
            Keywords for the diagonal, as ``Axes.plot`` takes them.
        fill_kwargs : dict, default=None
            Keywords for the band, as ``Axes.fill_between`` takes them.

        Returns
        -------
        display : CalibrationCurveDisplay
            Itself.
        """
        check_matplotlib("CalibrationCurveDisplay.plot")
        check_option(self.kind, "kind", list(_LABELS))
        check_option(band, "band", ["simultaneous", "pointwise", None])
        probability = check_single_coverage(band_coverage, "band_coverage")
        self.ax_ = get_axes(ax, (5.2, 5.2))
        self.figure_ = self.ax_.figure
        self._draw_band(band, probability, fill_kwargs)
        self._draw_diagonal(ref_line, ref_line_kwargs)
        earlier = sum(line.get_label() != _PERFECT for line in self.ax_.get_lines())
        default: dict[str, Any] = {
            "linewidth": 2.0,
            "color": CURVES[earlier % len(CURVES)],
            "solid_capstyle": "round",
        }
        label = self.name if name is None else name
        if label is not None:
            default["label"] = label
        style = merge_style("lines.Line2D", default, line_kwargs, "line_kwargs")
        levels = np.concatenate([[0.0], self.levels, [1.0]])
        proportions = np.concatenate([[0.0], self.proportions, [1.0]])
        (self.line_,) = self.ax_.plot(100 * levels, 100 * proportions, **style)
        self._decorate()
        return self

    def _draw_diagonal(self, wanted: bool, style: Style) -> None:
        self.ref_line_ = None
        if wanted and not has_label(self.ax_, _PERFECT):
            default = {"color": INK, "linestyle": (0, (4, 3)), "linewidth": 1.0, "label": _PERFECT}
            merged = merge_style("lines.Line2D", default, style, "ref_line_kwargs")
            (self.ref_line_,) = self.ax_.plot([0, 100], [0, 100], **merged)

    def _draw_band(self, band: Band | None, probability: float, style: Style) -> None:
        self.band_ = None
        if band is None:
            return
        label = f"{percent(probability)} {_BAND} (n = {self.n_rows:.0f})"
        if any(_BAND in text for text in self.ax_.get_legend_handles_labels()[1]):
            return
        grid = np.linspace(0.0, 1.0, 401)
        lower, upper = sampling_band(grid, self.n_rows, band, probability)
        default = {"color": GREY, "alpha": 0.22, "linewidth": 0.0, "label": label}
        merged = merge_style("collections.PolyCollection", default, style, "fill_kwargs")
        self.band_ = self.ax_.fill_between(100 * grid, 100 * lower, 100 * upper, **merged)

    def _decorate(self) -> None:
        xlabel, ylabel = _LABELS[self.kind]
        self.ax_.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, 100), ylim=(0, 100), aspect="equal")
        self.ax_.set_xticks(range(0, 101, 20))
        self.ax_.set_yticks(range(0, 101, 20))
        self.ax_.spines[["top", "right"]].set_visible(False)
        handles, labels = self.ax_.get_legend_handles_labels()
        # the curves come first in the legend, though the band and the diagonal are drawn under them
        order = sorted(range(len(labels)), key=lambda i: labels[i] == _PERFECT or _BAND in labels[i])
        if order:
            self.ax_.legend(
                [handles[i] for i in order],
                [labels[i] for i in order],
                loc="best",
                fontsize="small",
                edgecolor="none",
            )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        levels: int | ArrayLike = 99,
        kind: Kind = "quantile",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        band: Band | None = "simultaneous",
        band_coverage: float = DEFAULT_COVERAGE,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the calibration curve of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed target, of rows that the model was not trained on.
        y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
            Predictions for the same rows.
        levels : int or array-like of shape (k,), default=99
            Nominal levels in [0, 1]; an integer k takes k evenly spaced ones, 99 every per cent.
        kind : {"quantile", "interval"}, default="quantile"
            Whether the levels are those of quantiles or of central intervals.
        sample_weight : array-like of shape (n,), default=None
            How many observations each row stands for.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        ref_line : bool, default=True
            Whether to draw the diagonal, once on each axes.
        band : {"simultaneous", "pointwise"} or None, default="simultaneous"
            Where the curve of a perfectly calibrated model lies with probability `band_coverage`: the
            whole of it, or each point of it by itself.
        band_coverage : float, default=0.9
            Probability of the band, in (0, 1).
        line_kwargs, ref_line_kwargs, fill_kwargs : dict, default=None
            Keywords for the curve, the diagonal and the band.

        Returns
        -------
        display : CalibrationCurveDisplay
            The display, drawn.
        """
        check_matplotlib("CalibrationCurveDisplay.from_predictions")
        nominal, observed = regression_calibration_curve(
            y_true, y_pred, levels=levels, kind=kind, sample_weight=sample_weight
        )
        n = len(np.asarray(y_true))
        weight = check_sample_weight(sample_weight, n)
        n_rows = float(n) if band is None else effective_rows(weight, n)
        display = cls(levels=nominal, proportions=observed, n_rows=n_rows, kind=kind, name=name)
        return display.plot(
            ax,
            ref_line=ref_line,
            band=band,
            band_coverage=band_coverage,
            line_kwargs=line_kwargs,
            ref_line_kwargs=ref_line_kwargs,
            fill_kwargs=fill_kwargs,
        )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the calibration curve of a fitted estimator.

        Parameters
        ----------
        estimator : object
            Fitted estimator that `skuq.predict_dist` understands.
        X : array-like of shape (n, p)
            Features of rows that it was not trained on.
        y : array-like of shape (n,)
            Observed target.
        name : str, default=None
            Name of the curve in the legend; None takes the estimator's class.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            The other keywords of `from_predictions`.

        Returns
        -------
        display : CalibrationCurveDisplay
            The display, drawn.
        """
        check_matplotlib("CalibrationCurveDisplay.from_estimator")
        dist = predict_dist(estimator, X)
        return cls.from_predictions(y, dist, name=estimator_name(estimator, name), ax=ax, **kwargs)


def sampling_band(
    levels: FloatArray, n_rows: float, band: Band, probability: float
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper observed proportion of a calibrated model with n rows.

    The number of rows below a level is binomial at each level, and over all levels the largest distance
    from the diagonal follows the Kolmogorov-Smirnov distribution, whatever the predictions.
    """
    rows = max(int(n_rows), 1)
    if band == "pointwise":
        tail = (1 - probability) / 2
        lower, upper = (np.asarray(binom.ppf(p, rows, levels) / rows) for p in (tail, 1 - tail))
        return lower, upper
    distance = float(kstwo.ppf(probability, rows))
    return np.maximum(levels - distance, 0.0), np.minimum(levels + distance, 1.0)
