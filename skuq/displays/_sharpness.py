"""Plot of sharpness, with a histogram and the mean of the predicted standard deviations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option, check_sample_weight
from skuq.displays._display import Display, HistogramMixin, label_of
from skuq.displays._drawing import Axes, Style, check_matplotlib, merge_style, rows_that_count, with_unit
from skuq.distributions import as_distribution
from skuq.metrics import sharpness

_MAX_BINS = 500
_NAMES = {"std": "sharpness", "rms": "RMS sharpness"}


@dataclass(kw_only=True, eq=False, repr=False)
class SharpnessDisplay(HistogramMixin, Display):
    """Histogram of the predicted standard deviations, with the sharpness of the model as a line.

    The plot shows the size of the predicted uncertainty. Of two calibrated models, prefer the one with the
    smaller predicted standard deviations. The histogram does not show calibration, because it does not use
    observed values. A model that predicts one standard deviation for all rows has one bin.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add another model to
    the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    std : ndarray of shape (n,)
        Predicted standard deviations.
    value : float
        The sharpness.
    sample_weight : ndarray of shape (n,), default=None
        Number of repetitions of each row.
    kind : {"std", "rms"}, default="std"
        Kind of mean. Shown in the legend.
    unit : str, default=None
        Unit of the target. Shown in the axis label.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    hist_ : matplotlib.patches.StepPatch
        The histogram.
    line_ : matplotlib.lines.Line2D
        The sharpness.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.metrics.sharpness : Computes the sharpness.
    ReliabilityDisplay : Observed errors compared with the predicted standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import SharpnessDisplay
    >>> scale = np.random.default_rng(0).uniform(0.5, 1.5, size=500)
    >>> display = SharpnessDisplay.from_predictions(None, Normal(np.zeros(500), scale), name="model")
    >>> display.line_.get_label()
    'model (sharpness = 1.03)'
    """

    _takes_class_name = True

    std: FloatArray
    value: float
    sample_weight: FloatArray | None = None
    kind: str = "std"
    unit: str | None = None
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        bin_width: float | None = None,
        hist_kwargs: Style = None,
        line_kwargs: Style = None,
    ) -> Self:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        bin_width : float, default=None
            Width of the bins, in the units of y. None uses the bin width of a histogram that is already on
            the axes. Without such a histogram, the width is a round number of at most 1/12 of the sharpness.
        hist_kwargs : dict, default=None
            Keywords for the histogram, passed to ``Axes.stairs``.
        line_kwargs : dict, default=None
            Keywords for the sharpness, passed to ``Axes.axvline``.

        Returns
        -------
        display : SharpnessDisplay
            The display itself.
        """
        self._use_axes(ax, (6.4, 4.0))
        note = f"{_NAMES[self.kind]} = {self.value:.3g}"
        label = label_of(self.name if name is None else name, note)
        marks = {**self._next_style(), "linewidth": 2.0, "label": label}
        marks = merge_style("lines.Line2D", marks, line_kwargs, "line_kwargs")
        self.line_ = self.ax_.axvline(self.value, **marks)
        edges, color = self._edges(bin_width), self.line_.get_color()
        self.hist_ = self._draw_histogram(self.std, edges, self.sample_weight, color, hist_kwargs)
        self.ax_.set_xlim(0.0, 1.05 * self.ax_.dataLim.x1)
        return self._finish(with_unit("Predicted standard deviation", self.unit), "Share of rows (%)")

    def _edges(self, bin_width: float | None) -> FloatArray:
        width = self._bin_width(bin_width, round_number(self.value / 12))
        width = max(width, np.ptp(self.std) / _MAX_BINS)
        first, last = np.floor(self.std.min() / width), np.floor(self.std.max() / width) + 1
        return np.asarray(width * np.arange(first, last + 1))

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike | None,
        y_pred: Any,
        *,
        kind: str = "std",
        unit: str | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the sharpness of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,) or None
            Observed targets. They are validated but not used. The argument exists because all displays have
            it.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target. The standard deviation must be finite.
        kind : {"std", "rms"}, default="std"
            Whether the sharpness is the mean or the root mean square of the standard deviations.
        unit : str, default=None
            Unit of the target. Shown in the axis label.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        name : str, default=None
            Name of the model in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : SharpnessDisplay
            The drawn display.
        """
        check_matplotlib("SharpnessDisplay.from_predictions")
        check_option(kind, "kind", list(_NAMES))
        dist = as_distribution(y_pred, y_true=y_true)
        value = sharpness(y_true, dist, sample_weight=sample_weight, kind=kind)
        weight = check_sample_weight(sample_weight, len(dist))
        counts = rows_that_count(weight, len(dist))
        return cls(
            std=dist.std()[counts],
            value=value,
            sample_weight=None if weight is None else weight[counts],
            kind=kind,
            unit=unit,
            name=name,
        ).plot(ax, **kwargs)


def round_number(value: float) -> float:
    """Return the largest round number up to ``value``, or 1 for 0.

    Round numbers are 1, 2 and 5 times powers of ten.
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * max(step for step in (1, 2, 5) if step * power <= value * (1 + 1e-9)))
