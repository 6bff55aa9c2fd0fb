"""Plot of the coverage of intervals at each row, or for each training set of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.stats import binom

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_number, check_option
from skuq.displays._display import HistogramMixin, label_of
from skuq.displays._drawing import Axes, Style, check_column, check_matplotlib, percent
from skuq.displays._sharpness import round_number

_LEAST_BIN_WIDTH = 0.002
_SHARE_IN_BAND = 0.95
_NAMES = {
    ("prediction", "rows"): "Coverage of y at a row (PICF)",
    ("confidence", "rows"): "Coverage of the mean at a row (CICF)",
    ("prediction", "simulations"): "Coverage of y in a simulation (PICP)",
    ("confidence", "simulations"): "Coverage of the mean in a simulation (CICP)",
}


@dataclass(kw_only=True, eq=False, repr=False)
class PointwiseCoverageDisplay(HistogramMixin):
    """Coverage per row or per simulation, as a histogram or as a curve over x.

    The plot shows whether intervals have nominal coverage at each row, or only on average. If every row has
    nominal coverage, the band contains 95 % of the rows. A histogram over simulations shows how much the
    coverage depends on the training set.

    Create the display with `from_result`. To add another method to the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    values : ndarray of shape (m,)
        Coverage of m rows or simulations.
    coverage : float
        Nominal coverage of the central interval.
    kind : {"prediction", "confidence"}, default="prediction"
        Kind of interval.
    over : {"rows", "simulations"}, default="rows"
        Whether the values belong to rows or to simulations.
    step : float, default=None
        Distance between two possible values, such as ``1 / n_simulations``. The bin width is a multiple of
        this distance. None means that all values are possible.
    band : tuple of float, default=None
        Lower and upper end of the band for intervals with nominal coverage. None draws no band.
    x : ndarray of shape (m,), default=None
        Horizontal positions of the values for a curve. None draws a histogram.
    x_label : str, default=None
        Name of x.
    name : str, default=None
        Name of the method in the legend.

    Attributes
    ----------
    hist_ : matplotlib.patches.StepPatch or None
        The histogram. None for a curve.
    line_ : matplotlib.lines.Line2D
        The mean of the histogram, or the curve.
    ref_line_ : matplotlib.lines.Line2D or None
        The line at the nominal coverage. None if an earlier display has drawn the line on the same axes.
    band_ : matplotlib.patches.Patch or None
        The band for intervals with nominal coverage. None if `band` is None, or if an earlier display has
        drawn the band on the same axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.simulation.simulate_coverage : Computes the result.
    PredictionBandDisplay : Coverage of one data set over a feature.

    Examples
    --------
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.displays import PointwiseCoverageDisplay
    >>> from skuq.simulation import make_known_process, simulate_coverage
    >>> process = make_known_process("cubic", n_train=50, n_test=100, random_state=0)
    >>> result = simulate_coverage(BayesianRidge(), process, n_simulations=30, random_state=0)
    >>> display = PointwiseCoverageDisplay.from_result(result, x=0, name="line")
    >>> display.ax_.get_ylabel()
    'Coverage of y at a row (PICF)'
    """

    values: FloatArray
    coverage: float
    kind: str = "prediction"
    over: str = "rows"
    step: float | None = None
    band: tuple[float, float] | None = None
    x: FloatArray | None = None
    x_label: str | None = None
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        bin_width: float | None = None,
        hist_kwargs: Style = None,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the histogram or the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        bin_width : float, default=None
            Width of the bins. None means the width of an existing histogram on the same axes, or a round
            number near a twelfth of the range.
        hist_kwargs : dict, default=None
            Keywords for the histogram, passed to ``Axes.stairs``.
        line_kwargs : dict, default=None
            Keywords for the mean, passed to ``Axes.axvline``, or for the curve, passed to ``Axes.plot``.
        ref_line_kwargs : dict, default=None
            Keywords for the nominal coverage, passed to ``Axes.axvline``.
        fill_kwargs : dict, default=None
            Keywords for the band, passed to ``Axes.axvspan``.

        Returns
        -------
        display : PointwiseCoverageDisplay
            The display itself.
        """
        self._use_axes(ax, (6.4, 4.0))
        if self.over == "rows":
            score = f"Brier score = {np.square(self.values - self.coverage).mean():.3g}"
        else:
            score = f"mean = {self.values.mean():.3g}"
        marks = {**self._next_style(), "linewidth": 2.0}
        marks["label"] = label_of(self.name if name is None else name, score)
        self.hist_ = None
        if self.x is None:
            marks = self._style("lines.Line2D", marks, line_kwargs, "line_kwargs")
            self.line_ = self.ax_.axvline(self.values.mean(), **marks)
            edges, color = self._edges(bin_width), self.line_.get_color()
            self.hist_ = self._draw_histogram(self.values, edges, None, color, hist_kwargs)
            labels = _NAMES[self.kind, self.over], f"Share of {self.over} (%)"
        else:
            order = np.argsort(self.x, kind="stable")
            self.line_ = self._draw_line(self.x[order], self.values[order], line_kwargs, **marks)
            labels = self.x_label or "x", _NAMES[self.kind, self.over]
        label, vertical = f"Nominal, {percent(self.coverage)}", self.x is None
        self.ref_line_ = self._draw_level(self.coverage, ref_line_kwargs, label, vertical=vertical)
        self.band_ = None
        if self.band is not None:
            label = f"{percent(_SHARE_IN_BAND)} of the rows at nominal coverage"
            style: dict[str, Any] = {"color": self._ink, "alpha": 0.12, "label": label}
            self.band_ = self._draw_span(*self.band, fill_kwargs, vertical=vertical, **style)
        return self._finish(*labels)

    def _edges(self, bin_width: float | None) -> FloatArray:
        auto = min(max(round_number(float(np.ptp(self.values)) / 12), _LEAST_BIN_WIDTH), 0.05)
        if self.step is not None:
            auto = max(1, round(auto / self.step)) * self.step
        width = max(self._bin_width(bin_width, auto), _LEAST_BIN_WIDTH)
        first, last = np.round(self.values.min() / width), np.round(self.values.max() / width)
        return np.asarray(width * (np.arange(first, last + 2) - 0.5))

    @classmethod
    def from_result(
        cls,
        result: Any,
        *,
        kind: str = "prediction",
        over: str = "rows",
        x: str | int | ArrayLike | None = None,
        coverage: float | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the result of a simulation study.

        Parameters
        ----------
        result : PointwiseCoverage
            Result of `skuq.simulation.simulate_coverage`.
        kind : {"prediction", "confidence"}, default="prediction"
            Kind of interval.
        over : {"rows", "simulations"}, default="rows"
            "rows" draws one coverage per row: the share of simulations in which the interval of this row
            contains the target, or the true mean for confidence intervals. The literature calls this share
            prediction (confidence) interval coverage frequency, PICF (CICF). "simulations" draws one coverage
            per simulation: the share of rows whose interval contains the target or the true mean. This share
            is the prediction (confidence) interval coverage probability, PICP (CICP).
        x : str, int or array-like of shape (n,), default=None
            Horizontal axis of a curve: name or number of a column of the test rows, or one value per row.
            None draws a histogram.
        coverage : float, default=None
            Nominal coverage of the central interval. Required if the result has several coverages.
        name : str, default=None
            Name of the method in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : PointwiseCoverageDisplay
            The drawn display.
        """
        check_matplotlib("PointwiseCoverageDisplay.from_result")
        if not hasattr(result, "prediction_coverage"):
            raise TypeError(
                "`result` must be the result of skuq.simulation.simulate_coverage, got "
                f"{type(result).__name__}."
            )
        check_option(kind, "kind", ("prediction", "confidence"))
        check_option(over, "over", ("rows", "simulations"))
        if x is not None and over == "simulations":
            raise ValueError(
                "`x` must be None with over='simulations', because there is one value per simulation, not "
                "per row."
            )
        attribute = ("pic" if kind == "prediction" else "cic") + ("f" if over == "rows" else "p")
        values, number = getattr(result, attribute), _number_of(coverage, result.coverage)
        level = float(np.atleast_1d(result.coverage)[number])
        covered = result.prediction_coverage if kind == "prediction" else result.confidence_coverage
        if np.ndim(result.coverage):
            values, covered = values[:, number], covered[..., number]
        place, label = (None, None) if x is None else _column(result.X_test, x, covered.shape[1])
        return cls(
            values=values,
            coverage=level,
            kind=kind,
            over=over,
            step=1 / covered.shape[over == "simulations"] if covered.dtype == bool else None,
            band=_band(covered, level) if over == "rows" else None,
            x=place,
            x_label=label,
            name=name,
        ).plot(ax, **kwargs)


def _number_of(coverage: float | None, available: Any) -> int:
    """Return the index of a nominal coverage in the result."""
    levels = np.atleast_1d(available)
    if coverage is None and len(levels) == 1:
        return 0
    nominal = np.nan if coverage is None else check_number(coverage, "coverage")
    near = np.flatnonzero(np.isclose(levels, nominal))
    if len(near) != 1:
        raise ValueError(
            f"`coverage` must be one of the coverages of the result, {levels.tolist()}, got {coverage!r}. "
            "For other coverages, call simulate_coverage(..., coverage=[...]) again."
        )
    return int(near[0])


def _column(X: Any, x: Any, n: int) -> tuple[FloatArray, str | None]:
    if not isinstance(x, str | int | np.integer):
        return check_column(x, "x", n), getattr(x, "name", None)
    if isinstance(x, str) and not (isinstance(X, pd.DataFrame) and x in X.columns):
        raise ValueError(f"`x` must be a column of the test rows, an array of values or None, got {x!r}.")
    if not isinstance(x, str) and not -X.shape[1] <= x < X.shape[1]:
        raise ValueError(f"`x` must be one of the {X.shape[1]} columns of the test rows, got {x}.")
    if isinstance(X, pd.DataFrame):
        name = x if isinstance(x, str) else X.columns[int(x)]
        return check_column(X[name], "x", n), str(name)
    return check_column(X[:, x], "x", n), "x" if X.shape[1] == 1 else f"column {x}"


def _band(covered: Any, level: float) -> tuple[float, float]:
    # The coverage of confidence intervals is a binomial proportion. The mean coverage of prediction intervals
    # is approximately normal, with the variance that is observed over simulations.
    n_simulations, tail = len(covered), (1 - _SHARE_IN_BAND) / 2
    if covered.dtype == bool:
        low, high = (float(binom.ppf(p, n_simulations, level)) for p in (tail, 1 - tail))
        return low / n_simulations, high / n_simulations
    half = 1.96 * float(np.sqrt(covered.var(axis=0, ddof=1).mean() / n_simulations))
    return level - half, level + half
