"""Rootogram: square roots of the observed and predicted frequencies of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_integer, check_option, check_sample_weight, check_target
from skuq.displays._display import Display
from skuq.displays._drawing import BLUE, CURVE, RED, Axes, Style, check_matplotlib, merge_style
from skuq.distributions import as_distribution

Kind = Literal["hanging", "standing", "suspended"]
KINDS = ("hanging", "standing", "suspended")

_MOST_BARS = 60
"""By default, at most this number of counts have their own bar. The last bar contains all larger counts."""

_MOST_HANGING = 30.0
"""By default, bars are suspended if the square root of a frequency is larger, because the warning limits of
hanging bars would look like a single line."""

_BAND = 1.0
"""Distance between the expected square root and the warning limits. The std of the square root of a count is
1/2."""


@dataclass(kw_only=True, eq=False, repr=False)
class RootogramDisplay(Display):
    """Rootogram: square roots of the observed and predicted frequencies of each count.

    Bars are the observed frequencies, and the line is the sum of the predicted probabilities. In a hanging
    rootogram, the bars hang from the line. The lower end of a bar is above 0 if the count is rarer than
    predicted, and below 0 if it is more frequent. Too many zeros, heaping at round numbers and a wrong tail
    are visible as bars that end far from 0. The rootogram does not show the calibration of individual rows.
    Use `PITHistogramDisplay` for this purpose.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`.

    Parameters
    ----------
    counts : ndarray of shape (k,)
        Consecutive integers. If `open_end` is True, the last integer includes all larger counts.
    observed, expected : ndarray of shape (k,)
        Observed number of rows with each count, and expected number under the forecasts.
    open_end : bool, default=False
        Whether the last bar includes all larger counts.
    name : str, default=None
        Title.

    Attributes
    ----------
    bars_ : matplotlib.container.BarContainer
        The observed frequencies.
    line_ : matplotlib.lines.Line2D
        The line of the expected frequencies. In a suspended rootogram, the line at 0.
    band_ : tuple of matplotlib.lines.Line2D or None
        The warning limits. None if `band` is False or `kind` is "standing".
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    PITHistogramDisplay : Histogram of the PIT values of counts.
    Supported : Forecasts of counts from any distribution.

    Notes
    -----
    With square roots, small and large frequencies are visible on the same scale, and every bar has a standard
    deviation of about 1/2 [1]_. The warning limits are -1 and 1, i.e. two standard deviations below and above
    0.

    References
    ----------
    .. [1] C. Kleiber and A. Zeileis (2016), Visualizing count data regressions using rootograms, The American
       Statistician 70, 296-303. https://doi.org/10.1080/00031305.2016.1173590

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from skuq.displays import RootogramDisplay
    >>> y = np.random.default_rng(0).poisson(1.5, size=200)
    >>> display = RootogramDisplay.from_predictions(y, stats.poisson(np.full(200, 1.5)))
    >>> display.observed
    array([34., 69., 49., 33.,  8.,  5.,  1.,  1.])
    >>> display.expected.round(1)
    array([44.6, 66.9, 50.2, 25.1,  9.4,  2.8,  0.7,  0.2])
    """

    counts: FloatArray
    observed: FloatArray
    expected: FloatArray
    open_end: bool = False
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        kind: Kind | None = None,
        band: bool = True,
        bar_kwargs: Style = None,
        line_kwargs: Style = None,
        band_kwargs: Style = None,
    ) -> Self:
        """Draw the rootogram.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Title. None uses the attribute `name`.
        kind : {"hanging", "standing", "suspended"} or None, default=None
            Position of the bars. "hanging" bars hang from the line of the expected frequencies. "standing"
            bars begin at 0. "suspended" bars show the difference between expected and observed frequencies.
            None means "suspended" if a count has more than 900 rows, because the warning limits of hanging
            bars would look like a single line, and "hanging" otherwise.
        band : bool, default=True
            Whether to draw the warning limits of hanging and suspended bars.
        bar_kwargs : dict, default=None
            Keywords for the bars, passed to ``Axes.bar``.
        line_kwargs : dict, default=None
            Keywords for the expected frequencies, passed to ``Axes.plot``.
        band_kwargs : dict, default=None
            Keywords for the warning limits, passed to ``Axes.axhline``.

        Returns
        -------
        display : RootogramDisplay
            The display itself.
        """
        self._use_axes(ax, (6.4, 4.0))
        check_option(kind, "kind", (*KINDS, None))
        check_option(band, "band", (True, False))
        seen, expected = np.sqrt(self.observed), np.sqrt(self.expected)
        if kind is None:
            kind = "suspended" if max(seen.max(), expected.max()) > _MOST_HANGING else "hanging"
        bottom = expected - seen if kind == "hanging" else np.zeros_like(seen)
        height = expected - seen if kind == "suspended" else seen
        default = {"color": BLUE, "alpha": 0.45, "width": 0.9}
        merged = merge_style("patches.Rectangle", default, bar_kwargs, "bar_kwargs")
        self.bars_ = self.ax_.bar(self.counts, height, bottom=bottom, **merged)
        self.bars_.patches[0].set_label("Observed")  # the legend of displays takes single artists
        curve = np.zeros_like(expected) if kind == "suspended" else expected
        line: dict[str, Any] = {"marker": "o", "markersize": 4.0, "linewidth": 1.5, "gid": CURVE}
        self.line_ = self._draw_line(self.counts, curve, line_kwargs, color=RED, label="Expected", **line)
        self.band_ = None
        if band and kind != "standing":
            style = {**self._reference_line(), "linewidth": 0.8, "label": "Warning limits"}
            style = self._style("lines.Line2D", style, band_kwargs, "band_kwargs")
            above = self.ax_.axhline(_BAND, **style)
            self.band_ = above, self.ax_.axhline(-_BAND, **{**style, "label": None})
        self.ax_.axhline(0.0, color=self._ink, linewidth=0.8)
        end = f" (last bar: {self.counts[-1]:.0f} or more)" if self.open_end else ""
        unit = "difference of square roots" if kind == "suspended" else "square root of the number of rows"
        self.ax_.locator_params(axis="x", integer=True)
        self._draw_title(self.name if name is None else name)
        return self._finish(f"Count{end}", unit.capitalize())

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        max_count: int | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the rootogram of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target. For a continuous forecast, the probability of a count is the probability
            of the interval from 1/2 below to 1/2 above the count.
        max_count : int or None, default=None
            Count of the last bar, which includes all larger counts. None uses the largest observed count, but
            draws at most 60 bars.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        name : str, default=None
            Title.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : RootogramDisplay
            The drawn display.
        """
        check_matplotlib("RootogramDisplay.from_predictions")
        dist = as_distribution(y_pred, y_true=y_true)
        y = check_target(y_true, n=len(dist))
        if (np.round(y) != y).any():
            row = int(np.argmax(np.round(y) != y))
            raise ValueError(
                f"`y_true` must hold integers, got {y[row]:g} at row {row}. Use PITHistogramDisplay for "
                "other targets."
            )
        given = check_sample_weight(sample_weight, len(y))
        weight = np.ones(len(y)) if given is None else given
        first, largest = float(y.min()), float(y.max())
        last = min(largest, first + _MOST_BARS - 1)
        if max_count is not None:
            last = float(check_integer(max_count, "max_count", minimum=int(first) + 1))
        counts = np.arange(first, last + 1)
        place = (np.minimum(y, last) - first).astype(int)
        observed = np.bincount(place, weight, minlength=len(counts)).astype(np.float64)
        below = [weight @ dist._cdf(np.full(len(dist), k - 0.5)) for k in counts]
        expected = np.diff([*below, weight.sum()])
        display = cls(counts=counts, observed=observed, expected=expected, open_end=last < largest, name=name)
        return display.plot(ax, **kwargs)
