"""Plot of the prediction intervals of individual rows, with the observed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_option,
    check_sample_weight,
    check_single_coverage,
    check_target,
)
from skuq.displays._display import Display
from skuq.displays._drawing import (
    ATOM_ALPHA,
    BLUE,
    RED,
    Axes,
    Style,
    atom_label,
    check_matplotlib,
    choose_rows,
    merge_style,
    percent,
    shared_atoms,
)
from skuq.distributions import Distribution
from skuq.distributions._convert import as_forecast

SortBy = Literal["observed", "predicted", "width"]

_ATOM_AREA = 80.0
"""Area of an atom of probability 1, in square points."""

_LEAST_ATOM = 0.01
"""Smallest probability of an atom that is drawn."""

_ORDERS = {"observed": "observed value", "predicted": "predicted value", "width": "width of the interval"}


@dataclass(kw_only=True, eq=False, repr=False)
class IntervalDisplay(Display):
    """Sorted prediction intervals of individual rows, with missed targets in a different color.

    The plot shows whether intervals miss low targets or high targets, and whether intervals are wide for rows
    with large errors. If there are many rows, only an evenly spaced part of the sorted rows is drawn. The
    legend contains the coverage of all rows. An interval of width 0 is a short horizontal line.

    If forecasts have a continuous part and the same one to three atoms, such as the zero of a
    `~skuq.regressors.HurdleRegressor`, each atom is a disk whose area is its probability.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`.

    Parameters
    ----------
    y_true : ndarray of shape (n,)
        Observed targets.
    bounds : ndarray of shape (n, 2)
        Lower and upper bound of each interval.
    y_pred : ndarray of shape (n,)
        Point predictions, by which the rows can be sorted.
    coverage : float or None, default=None
        Nominal coverage of the central interval. In (0, 1).
    sample_weight : ndarray of shape (n,), default=None
        Number of repetitions of each row.
    target_name : str, default="Target"
        Name of the target with its unit. Shown in the axis label.
    name : str, default=None
        Title of the axes.
    atoms : dict of float to ndarray of shape (n,), default=None
        Predicted probability of each atom in every row, by the value of the atom.

    Attributes
    ----------
    covered_lines_, missed_lines_ : matplotlib.collections.LineCollection
        The intervals that contain the observed value, and the intervals that do not.
    flat_ : matplotlib.collections.PathCollection
        The intervals of width 0.
    atoms_ : matplotlib.collections.PathCollection or None
        The atoms; None without atoms.
    scatter_ : matplotlib.collections.PathCollection
        The observed values.
    observed_coverage_ : float
        Share of all targets in their interval, including the bounds.
    rows_ : ndarray of shape (m,)
        Indices of the drawn rows, from left to right.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    PredictionBandDisplay : The intervals as a band over the prediction or over a feature.
    CalibrationCurveDisplay : Calibration at all levels.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import IntervalDisplay
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> display = IntervalDisplay.from_predictions(y, Normal(np.zeros(500), np.ones(500)), coverage=0.9)
    >>> round(display.observed_coverage_, 2)
    0.92
    """

    y_true: FloatArray
    bounds: FloatArray
    y_pred: FloatArray
    coverage: float | None = None
    sample_weight: FloatArray | None = None
    target_name: str = "Target"
    name: str | None = None
    atoms: dict[float, FloatArray] | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        sort_by: SortBy = "observed",
        max_rows: int | None = 150,
        line_kwargs: Style = None,
        missed_kwargs: Style = None,
        scatter_kwargs: Style = None,
        atom_kwargs: Style = None,
    ) -> Self:
        """Draw the intervals.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Title. None uses the attribute `name`.
        sort_by : {"observed", "predicted", "width"}, default="observed"
            Quantity by which the rows are sorted. It increases from left to right. With "width", the
            prediction is subtracted from the bounds and from the observed values.
        max_rows : int or None, default=150
            Maximum number of rows to draw. The drawn rows are evenly spaced in the sorted order. None
            draws all rows.
        line_kwargs, missed_kwargs : dict, default=None
            Keywords for the intervals, passed to ``Axes.vlines``. For intervals that miss their target,
            `missed_kwargs` override `line_kwargs`.
        scatter_kwargs : dict, default=None
            Keywords for the observed values, passed to ``Axes.scatter``.
        atom_kwargs : dict, default=None
            Keywords for the atoms, passed to ``Axes.scatter``.

        Returns
        -------
        display : IntervalDisplay
            The display itself.
        """
        self._use_axes(ax, (8.0, 4.5))
        inside = (self.bounds[:, 0] <= self.y_true) & (self.y_true <= self.bounds[:, 1])
        self.observed_coverage_ = float(np.average(inside, weights=self.sample_weight))
        check_option(sort_by, "sort_by", list(_ORDERS))
        width = self.bounds[:, 1] - self.bounds[:, 0]
        key = {"observed": self.y_true, "predicted": self.y_pred, "width": width}[sort_by]
        order = np.argsort(key, kind="stable")
        position = choose_rows(len(order), max_rows)
        self.rows_ = order[position]
        center = self.y_pred[self.rows_] if sort_by == "width" else np.zeros(len(position))
        bounds = self.bounds[self.rows_] - center[:, np.newaxis]
        y = self.y_true[self.rows_] - center
        self._draw_bounds(position, finite_bounds(bounds, y), inside[self.rows_], line_kwargs, missed_kwargs)
        self._draw_atoms(position, center, atom_kwargs)
        points: dict[str, Any] = {"color": self._ink, "s": 7.0, "zorder": 3, "linewidths": 0.0}
        self.scatter_ = self._draw_points(position + 1, y, scatter_kwargs, label="Observed value", **points)
        n, shown = len(self.y_true), len(self.rows_)
        part = "" if shown == n else f" ({shown} of {n} shown)"
        self._draw_title(self.name if name is None else name)
        nominal = "" if self.coverage is None else f" (nominal {percent(self.coverage)})"
        title = f"{percent(self.observed_coverage_)} of {n} rows inside{nominal}"
        self.ax_.margins(x=0.01)
        ylabel = f"{self.target_name}, minus prediction" if sort_by == "width" else self.target_name
        xlabel = f"Row, sorted by {_ORDERS[sort_by]}{part}"
        return self._finish(xlabel, ylabel, title=title, frameon=False, alignment="left")

    def _draw_bounds(
        self, position: IntArray, bounds: FloatArray, inside: BoolArray, covered: Style, missed: Style
    ) -> None:
        base = {"linewidth": 1.6, "alpha": 0.6}
        common = merge_style("collections.LineCollection", base, covered, "line_kwargs")
        level = "" if self.coverage is None else f"{percent(self.coverage)} "
        blue = {"color": BLUE, **common, "label": f"{level}interval, value inside"}
        wider = np.multiply(1.5, common["linewidth"])
        red = {"color": RED, **common, "alpha": 1.0, "linewidth": wider}
        red["label"] = f"{level}interval, value missed"
        if missed is not None:
            red = merge_style("collections.LineCollection", red, missed, "missed_kwargs")
        lines = [
            self.ax_.vlines(position[rows] + 1, bounds[rows, 0], bounds[rows, 1], **style)
            for rows, style in ((inside, blue), (~inside, red))
        ]
        self.covered_lines_, self.missed_lines_ = lines
        flat = bounds[:, 0] == bounds[:, 1]
        colors = np.where(inside[flat, np.newaxis], lines[0].get_colors()[0], lines[1].get_colors()[0])
        self.flat_ = self.ax_.scatter(position[flat] + 1, bounds[flat, 0], marker="_", s=25.0, color=colors)

    def _draw_atoms(self, position: IntArray, center: FloatArray, style: Style) -> None:
        self.atoms_ = None
        if not self.atoms:
            return
        value, mass = np.array(list(self.atoms)), np.stack([each[self.rows_] for each in self.atoms.values()])
        atom, row = np.nonzero(mass >= _LEAST_ATOM)
        default = {"color": BLUE, "alpha": ATOM_ALPHA, "linewidths": 0.0, "zorder": 2.5}
        default |= {"s": _ATOM_AREA * mass[atom, row], "label": atom_label(self.atoms, "area")}
        place, height = position[row] + 1, value[atom] - center[row]
        self.atoms_ = self._draw_points(place, height, style, "atom_kwargs", **default)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        coverage: float = DEFAULT_COVERAGE,
        sample_weight: ArrayLike | None = None,
        target_name: str = "Target",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the intervals of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
            Forecast of every target. An array holds lower and upper bounds.
        coverage : float, default=0.9
            Nominal coverage of the central interval. In (0, 1). If `y_pred` holds bounds, they must have this
            coverage.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row. Only the coverage in the legend depends on it.
        target_name : str, default="Target"
            Name of the target with its unit. Shown in the axis label.
        name : str, default=None
            Title of the axes.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : IntervalDisplay
            The drawn display.
        """
        check_matplotlib("IntervalDisplay.from_predictions")
        target = check_target(y_true, "y_true")
        level = check_single_coverage(coverage)
        bounds, point, atoms = _read_forecast(target, y_pred, level)
        return cls(
            y_true=target,
            bounds=bounds,
            y_pred=point,
            coverage=level,
            sample_weight=check_sample_weight(sample_weight, len(target)),
            target_name=target_name,
            name=name,
            atoms=atoms,
        ).plot(ax, **kwargs)


def _read_forecast(
    y_true: FloatArray, y_pred: Any, coverage: float
) -> tuple[FloatArray, FloatArray, dict[float, FloatArray]]:
    """Return bounds (n, 2), point predictions (n,) and atoms.

    If bounds are given, the point predictions are midpoints.
    """
    forecast, n = as_forecast(y_pred, y_true=y_true), len(y_true)
    if len(forecast) != n:
        raise ValueError(f"`y_pred` must have {n} rows, as many as `y_true`, got {len(forecast)}.")
    if isinstance(forecast, Distribution):
        return forecast.interval(coverage), forecast.mean(), shared_atoms(forecast)
    return forecast, finite_bounds(forecast, np.zeros(0)).mean(axis=1), {}


def finite_bounds(bounds: FloatArray, others: FloatArray) -> FloatArray:
    if np.isfinite(bounds).all():
        return bounds
    finite = np.concatenate([bounds[np.isfinite(bounds)], others])
    if not finite.size:
        return np.clip(bounds, -1.0, 1.0)
    margin = 0.1 * (np.ptp(finite) or 1.0)
    return np.clip(bounds, finite.min() - margin, finite.max() + margin)
