"""Histogram of the PIT values, with the band of a calibrated forecast."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.stats import binom, poisson, uniform

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    check_integer,
    check_n_bins,
    check_option,
    check_random_state,
    check_repetitions,
    check_single_coverage,
    check_target,
)
from skuq.displays._display import Display, Fold, HistogramMixin
from skuq.displays._drawing import GRAY, PERFECT, Axes, Style, check_matplotlib, percent
from skuq.distributions import ScipyDistribution, as_distribution
from skuq.metrics import regression_calibration_curve
from skuq.monitoring import MetricAccumulator

Band = Literal["simultaneous", "pointwise"]

_LARGE = 100_000
"""For more rows than this, the level of the simultaneous band hardly depends on the number of rows."""

_HALVINGS = 30
_LEVEL_ROUNDING = 1e-9


@dataclass(kw_only=True, eq=False, repr=False)
class PITHistogramDisplay(HistogramMixin, Display):
    """Histogram of the PIT values, with the band of a calibrated forecast.

    The PIT (probability integral transform) of a row is the predicted probability of a value at or below the
    target. The PIT of a calibrated forecast is uniform, so all bins have the same expected share of rows.
    High bins at both ends mean that distributions are too narrow. High bins in the middle mean that
    distributions are too wide. High bins on the left mean that predictions are too high. All bins of a
    calibrated forecast are inside the simultaneous band with probability `confidence`.

    Create the display with `from_estimator`, `from_predictions`, `from_cv_results` or `from_accumulator`. To
    add another model to the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    proportions : ndarray of shape (k,)
        Share of rows in each bin, in [0, 1]. The bins have equal width.
    n_rows : float
        Number of rows. The band depends on this number.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    hist_ : matplotlib.patches.StepPatch
        The area of the histogram.
    line_ : matplotlib.lines.Line2D
        The outline of the histogram.
    ref_line_ : matplotlib.lines.Line2D or None
        The line at the expected share of each bin. None if `ref_line` is False, or if an earlier display has
        drawn the line on the same axes.
    band_ : matplotlib.patches.Rectangle or None
        The band. None if `band` is None, or if an earlier display has drawn the band on the same axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    CalibrationCurveDisplay : Calibration curve, i.e. the cumulative sums of the bins.
    skuq.monitoring.PITMonitor : Sequential test of uniform PIT values.

    Notes
    -----
    If the forecast is calibrated and the rows are independent, the numbers of rows in the k bins have a
    multinomial distribution. The pointwise band contains each single bin with probability `confidence`.
    For 500 rows and 10 bins, a pointwise 95 % band contains all bins with a probability of only 70 %. For 20
    bins, this probability is 46 %. The simultaneous band is wider. It contains each single bin with a
    probability p, and p is chosen so that the band contains all bins with probability `confidence`. For
    500 rows, 10 bins and a `confidence` of 95 %, p is 99.4 %. The number of rows in a bin is an integer,
    so the exact probability of the simultaneous band differs from `confidence`. The difference is about
    0.03 for 20 rows, and less than 0.01 for 500 or more rows. The exact probability is computed without
    simulation [1]_.

    If a target equals an atom (point mass) of its forecast, the row is distributed evenly over all PIT values
    of the atom [2]_. The bins then vary less, so the band contains all bins with a higher probability than
    `confidence`. To avoid this, use ``randomized=True`` in `from_predictions`. `RootogramDisplay` compares
    counts with their forecasts. Rows with dependent errors, such as neighboring hours, need a wider band.

    References
    ----------
    .. [1] Levin (1981), A representation for multinomial cumulative distribution functions, Annals of
       Statistics 9, 1123-1126. https://doi.org/10.1214/aos/1176345593
    .. [2] Czado, Gneiting and Held (2009), Predictive model assessment for count data, Biometrics 65,
       1254-1261. https://doi.org/10.1111/j.1541-0420.2009.01191.x

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import PITHistogramDisplay
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> display = PITHistogramDisplay.from_predictions(y, Normal(np.zeros(500), np.full(500, 0.8)))
    >>> display.proportions.round(2)
    array([0.16, 0.09, 0.1 , 0.09, 0.08, 0.07, 0.08, 0.07, 0.09, 0.16])
    """

    proportions: FloatArray
    n_rows: float
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        band: Band | None = "simultaneous",
        confidence: float = 0.95,
        hist_kwargs: Style = None,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        ref_line : bool, default=True
            Whether to draw a line at the expected share of each bin. It is drawn only once on the same axes.
        band : {"simultaneous", "pointwise"} or None, default="simultaneous"
            Region that contains the bins of a calibrated forecast with this number of rows. With
            "simultaneous", the region contains all bins with probability `confidence`. With "pointwise",
            the region contains each single bin with this probability. The region is drawn only once on the
            same axes.
        confidence : float, default=0.95
            Probability of the band, in (0, 1).
        hist_kwargs : dict, default=None
            Keywords for the area, passed to ``Axes.stairs``.
        line_kwargs : dict, default=None
            Keywords for the outline, passed to ``Axes.plot``.
        ref_line_kwargs : dict, default=None
            Keywords for the expected share, passed to ``Axes.axhline``.
        fill_kwargs : dict, default=None
            Keywords for the band, passed to ``Axes.axhspan``.

        Returns
        -------
        display : PITHistogramDisplay
            The display itself.
        """
        self._use_axes(ax, (6.4, 4.0))
        check_option(band, "band", ["simultaneous", "pointwise", None])
        probability = check_single_coverage(confidence, "confidence")
        k, kind = len(self.proportions), f" {band} band (n = "
        self.band_ = None
        if band is not None and not any(kind in text for text in self.ax_.get_legend_handles_labels()[1]):
            lower, upper = histogram_band(k, self.n_rows, band, probability)
            label = f"{percent(probability)}{kind}{self.n_rows:.0f})"
            self.band_ = self._draw_span(100 * lower, 100 * upper, fill_kwargs, color=GRAY, label=label)
        self.ref_line_ = self._draw_level(100 / k, ref_line_kwargs, PERFECT) if ref_line else None
        edges, middles = np.linspace(0.0, 100.0, k + 1), 100 * (np.arange(k) + 0.5) / k
        style = {**self._next_style(), "linewidth": 1.5, "label": self.name if name is None else name}
        self.hist_ = self._draw_histogram(middles, edges, self.proportions, style["color"], hist_kwargs, 0.0)
        outline = np.repeat(edges, 2)[1:-1], np.repeat(100 * self.proportions, 2)
        self.line_ = self._draw_line(*outline, line_kwargs, **style)
        self.ax_.set_xlim(0, 100)
        self.ax_.set_ylim(0, 1.3 * self.ax_.dataLim.y1)  # The legend is above the bars.
        return self._finish("PIT, predicted probability up to the target (%)", "Share of rows (%)")

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        n_bins: int = 10,
        band: Band | None = "simultaneous",
        randomized: bool = False,
        random_state: int | np.random.RandomState | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the PIT histogram of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target.
        n_bins : int, default=10
            Number of bins of equal width. At least 2.
        band : {"simultaneous", "pointwise"} or None, default="simultaneous"
            Kind of band. See `plot`. Use None if the weights are not counts of rows.
        randomized : bool, default=False
            Treatment of a target that equals an atom. True draws one PIT value at random from the PIT values
            of the atom. False distributes the row evenly over these values. With True, the band has its
            nominal coverage even for discrete forecasts. With False, two calls give the same plot.
        random_state : int, RandomState instance or None, default=None
            Controls the random PIT values. With an integer, each call gives the same plot.
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
        display : PITHistogramDisplay
            The drawn display.
        """
        check_matplotlib("PITHistogramDisplay.from_predictions")
        if check_option(randomized, "randomized", (True, False)):
            y_true, y_pred = _as_uniform(y_true, y_pred, check_random_state(random_state))
        check_integer(n_bins, "n_bins", minimum=2)
        curve = regression_calibration_curve(y_true, y_pred, levels=n_bins - 1, sample_weight=sample_weight)
        n = len(np.asarray(y_true))
        check_n_bins(n_bins, n)
        n_rows = float(n) if band is None else Fold(y_true, y_pred, sample_weight).count_rows()
        display = cls(proportions=_shares(curve.observed), n_rows=n_rows, name=name)
        return display.plot(ax, band=band, **kwargs)

    @classmethod
    def from_accumulator(
        cls,
        accumulator: MetricAccumulator,
        *,
        n_bins: int = 10,
        band: Band | None = "simultaneous",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the PIT histogram of accumulated rows.

        Parameters
        ----------
        accumulator : MetricAccumulator
            Accumulator that was created with "calibration" in `curves`. Its levels must contain the inner
            edges of the bins. With the default levels, 2, 4, 5, 10, 20, 25, 50 or 100 bins are possible.
        n_bins : int, default=10
            Number of bins of equal width. At least 2.
        band : {"simultaneous", "pointwise"} or None, default="simultaneous"
            Kind of band. See `plot`. Use None if the weights are not counts of rows.
        name : str, default=None
            Name of the model in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : PITHistogramDisplay
            The drawn display.
        """
        check_matplotlib("PITHistogramDisplay.from_accumulator")
        check_integer(n_bins, "n_bins", minimum=2)
        curve = accumulator.calibration_curve()
        distance = np.abs(curve.levels - (np.arange(1, n_bins) / n_bins)[:, np.newaxis])
        if distance.min(axis=1).max() > _LEVEL_ROUNDING:
            raise ValueError(
                f"the edges of the bins must be levels of the accumulator, got n_bins={n_bins} and "
                f"{len(curve.levels)} levels. Pass `levels={n_bins - 1}` to the accumulator."
            )
        n = accumulator.total_weight
        if band is not None:
            check_repetitions(n, accumulator.n_rows)
        shares = _shares(curve.observed[distance.argmin(axis=1)])
        return cls(proportions=shares, n_rows=n, name=name).plot(ax, band=band, **kwargs)


def _as_uniform(
    y_true: ArrayLike, y_pred: Any, rng: np.random.RandomState
) -> tuple[FloatArray, ScipyDistribution]:
    dist = as_distribution(y_pred, y_true=y_true)
    y, n = check_target(y_true, n=len(dist)), len(dist)
    pit = dist.cdf(y) - np.exp(dist.logpmf(y)) * rng.uniform(size=n)
    return np.clip(pit, 0.0, 1.0), ScipyDistribution(uniform(np.zeros(n)))


def _shares(observed: FloatArray) -> FloatArray:
    return np.diff(np.concatenate([[0.0], observed, [1.0]]))


def histogram_band(n_bins: int, n_rows: float, band: Band, probability: float) -> tuple[float, float]:
    rows = max(int(n_rows), 1)
    tail = (1 - probability) / 2
    if band == "simultaneous":
        tail = _simultaneous_tail(n_bins, min(rows, _LARGE), probability)
    lower, upper = _counts(n_bins, rows, tail)
    return lower / rows, upper / rows


def _counts(n_bins: int, rows: int, tail: float) -> tuple[float, float]:
    return float(binom.ppf(tail, rows, 1 / n_bins)), float(binom.isf(tail, rows, 1 / n_bins))


@functools.lru_cache
def _simultaneous_tail(n_bins: int, rows: int, probability: float) -> float:
    """Return the tail probability per bin for which the band contains all bins with the given probability."""

    def all_bins(tail: float) -> float:
        return probability_of_all_bins(n_bins, rows, *_counts(n_bins, rows, tail))

    largest = (1 - probability) / 2
    smallest = largest / n_bins  # Bonferroni's bound.
    for _ in range(_HALVINGS):
        middle = math.sqrt(smallest * largest)
        if all_bins(middle) >= probability:
            smallest = middle
        else:
            largest = middle
    # Counts are integers, so the probability jumps between these two tails.
    return min(smallest, largest, key=lambda tail: abs(all_bins(tail) - probability))


def probability_of_all_bins(n_bins: int, rows: int, lower: float, upper: float) -> float:
    # Multinomial counts have the distribution of independent Poisson numbers given their sum. The
    # distribution of a sum of truncated Poisson numbers is computed by a Fourier transform (Levin 1981).
    counts = np.arange(lower, upper + 1)
    size = n_bins * len(counts)
    transform = np.fft.rfft(poisson.pmf(counts, rows / n_bins), size) ** n_bins
    place = rows - n_bins * int(lower)
    if not 0 <= place < size:
        return 0.0
    return float(np.fft.irfft(transform, size)[place] / poisson.pmf(rows, rows))
