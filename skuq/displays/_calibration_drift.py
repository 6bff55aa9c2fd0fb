"""Calibration over time. Marks show the periods in which the model is no longer calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._typing import FloatArray
from skuq._validation import check_option
from skuq.displays._display import AxesMixin
from skuq.displays._drawing import (
    PERFECT,
    RED,
    REFERENCE,
    Axes,
    Style,
    check_matplotlib,
    choose_rows,
    percent,
)
from skuq.monitoring import MetricAccumulator, calibration_drift

_FLAGGED = "Flagged"
_FLAGGED_BY_PIT_TOO = "Flagged: wrong coverage or PIT"  # The coverage of a flagged period may be right.
_MOST_LABELS = 12
_MOST_LETTERS = 60
_SHARE_IN_BAR = 1.96  # Number of standard errors on each side of a 95 % interval.
_NAMES = {
    "coverage": "Coverage of the central interval (%)",
    "crps": "CRPS, in the units of y",
    "width": "Mean width of the central interval, in the units of y",
    "rmse_to_rmv": "RMSE / RMV",
}


@dataclass(kw_only=True, eq=False, repr=False)
class CalibrationDriftDisplay(AxesMixin):
    """Coverage, CRPS, interval width or error ratio of a model in each period, with flagged periods.

    The plot shows when a deployed model lost its calibration. Plot several quantities to find out what has
    changed. For example, the coverage may differ from nominal, the intervals may become wider, or the CRPS
    may increase because the noise increases. A period is flagged if a test of its coverage or of its PIT
    rejects calibration. The flags do not depend on the plotted quantity. With high probability, no period of
    a calibrated model is flagged.

    Create the display with `from_periods`. To add another model to the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    table : DataFrame
        Table from `skuq.monitoring.calibration_drift`.
    coverage : float
        Nominal coverage of the central interval.
    quantity : {"coverage", "crps", "width", "rmse_to_rmv"}, default="coverage"
        Column that is drawn.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D
        The periods.
    bars_ : matplotlib.collections.LineCollection or None
        The confidence intervals of the coverage from the table, or 95 % confidence intervals of the CRPS.
        None for other quantities.
    flagged_ : matplotlib.lines.Line2D or None
        The flagged periods. None if no period is flagged.
    ref_line_ : matplotlib.lines.Line2D or None
        The line at the nominal coverage or at the ratio 1. None for width and CRPS, or if an earlier display
        has drawn the line on the same axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.monitoring.calibration_drift : Computes the plotted numbers.
    CalibrationCurveDisplay : Calibration of one period at all levels.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import CalibrationDriftDisplay
    >>> from skuq.monitoring import MetricAccumulator
    >>> def month(noise, seed):
    ...     y = noise * np.random.default_rng(seed).normal(size=2000)
    ...     return MetricAccumulator().update(y, Normal(np.zeros(2000), np.ones(2000)))
    >>> periods = {"May": month(1.0, 0), "June": month(1.0, 1), "July": month(1.2, 2)}
    >>> display = CalibrationDriftDisplay.from_periods(periods)
    >>> display.table["flag"].tolist()
    [False, False, True]
    """

    table: pd.DataFrame
    coverage: float
    quantity: str = "coverage"
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        line_kwargs: Style = None,
        bar_kwargs: Style = None,
        flag_kwargs: Style = None,
        ref_line_kwargs: Style = None,
    ) -> Self:
        """Draw the periods.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        line_kwargs : dict, default=None
            Keywords for the periods, passed to ``Axes.plot``.
        bar_kwargs : dict, default=None
            Keywords for the intervals, passed to ``Axes.vlines``.
        flag_kwargs : dict, default=None
            Keywords for the flagged periods, passed to ``Axes.plot``.
        ref_line_kwargs : dict, default=None
            Keywords for the nominal coverage, passed to ``Axes.axhline``.

        Returns
        -------
        display : CalibrationDriftDisplay
            The display itself.
        """
        check_option(self.quantity, "quantity", tuple(_NAMES))
        self._use_axes(ax, (7.0, 4.0))
        unit = 100.0 if self.quantity == "coverage" else 1.0
        place, value = _places(self.table.index), unit * self.table[self.quantity].to_numpy()
        style: dict[str, Any] = {"linewidth": 1.2, "markersize": 4.0}
        color = self._draw_curves([(place, value)], name, line_kwargs, **style)
        ends = self._ends()
        self.bars_ = None
        if ends is not None:
            style = {"color": color, "linewidth": 1.0, "alpha": 0.5}
            self.bars_ = self._draw_intervals(
                place, unit * ends[0], unit * ends[1], bar_kwargs, "bar_kwargs", **style
            )
        self.flagged_ = None
        flag = self.table["flag"].to_numpy()
        if flag.any():
            # A ring leaves the color of the model visible, and is visible in gray print.
            ring = {"color": RED, "markerfacecolor": "none", "markeredgewidth": 1.6, "markersize": 9.0}
            ring |= {"linestyle": "none", "marker": "o", "zorder": 2.5, "gid": REFERENCE}
            ring["label"] = _FLAGGED_BY_PIT_TOO if "p_pit" in self.table else _FLAGGED
            self.flagged_ = self._draw_line(place[flag], value[flag], flag_kwargs, "flag_kwargs", **ring)
        levels = {
            "coverage": (100 * self.coverage, f"Nominal coverage ({percent(self.coverage)})"),
            "rmse_to_rmv": (1.0, PERFECT),
        }
        self.ref_line_ = None
        if self.quantity in levels:
            level, label = levels[self.quantity]
            self.ref_line_ = self._draw_level(level, ref_line_kwargs, label)
        _draw_labels(self.ax_, self.table.index)
        return self._finish("Period", _NAMES[self.quantity], below=True)

    def _ends(self) -> tuple[FloatArray, FloatArray] | None:
        if self.quantity == "coverage":
            return self.table["low"].to_numpy(), self.table["high"].to_numpy()
        if self.quantity == "crps":
            mean = self.table["crps"].to_numpy()
            error = _SHARE_IN_BAR * self.table["crps_standard_error"].to_numpy()
            return mean - error, mean + error
        return None

    @classmethod
    def from_periods(
        cls,
        periods: Mapping[Any, MetricAccumulator],
        *,
        false_alarm: float = 0.01,
        quantity: str = "coverage",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the calibration of accumulated periods.

        Parameters
        ----------
        periods : mapping of label to MetricAccumulator
            Accumulated rows of each period, in chronological order. Labels that are dates, numbers or pandas
            periods are drawn at their values. Other labels are drawn at equal distances.
        false_alarm : float, default=0.01
            Largest probability that a calibrated model is flagged in any of the periods, in (0, 1).
        quantity : {"coverage", "crps", "width", "rmse_to_rmv"}, default="coverage"
            Column that is drawn.
        name : str, default=None
            Name of the model in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : CalibrationDriftDisplay
            The drawn display.
        """
        check_matplotlib("CalibrationDriftDisplay.from_periods")
        table = calibration_drift(periods, false_alarm=false_alarm)
        coverage = next(iter(periods.values())).coverage
        return cls(table=table, coverage=coverage, quantity=quantity, name=name).plot(ax, **kwargs)


def _in_order_of_values(index: pd.Index[Any]) -> bool:
    dates = isinstance(index, pd.DatetimeIndex | pd.PeriodIndex)
    return dates or pd.api.types.is_numeric_dtype(index)


def _places(index: pd.Index[Any]) -> np.ndarray:
    if not _in_order_of_values(index):
        return np.arange(len(index))
    return np.asarray(index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index)


def _draw_labels(ax: Axes, index: pd.Index[Any]) -> None:
    """Draw the labels of the periods. At most `_MOST_LABELS` labels are drawn."""
    if isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=_MOST_LABELS)  # type: ignore[no-untyped-call]
        formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        ax.xaxis.set(major_locator=locator, major_formatter=formatter)
    elif not _in_order_of_values(index):
        shown = choose_rows(len(index), _MOST_LABELS)
        names = [str(index[i]) for i in shown]
        ax.set_xticks(shown, names)
        if sum(map(len, names)) > _MOST_LETTERS:
            for label in ax.get_xticklabels():
                label.set(rotation=30, horizontalalignment="right")
        ax.set_xlim(-0.5, len(index) - 0.5)
