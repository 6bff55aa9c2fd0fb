"""Plot of the errors of individual rows against the predicted standard deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option, check_sample_weight, check_target
from skuq.displays._display import Display
from skuq.displays._drawing import (
    BLUE,
    RED,
    Axes,
    Style,
    check_matplotlib,
    choose_rows,
    rows_that_count,
    with_unit,
)
from skuq.distributions import as_distribution
from skuq.metrics import reliability_table

Kind = Literal["signed", "absolute"]


@dataclass(kw_only=True, eq=False, repr=False)
class ResidualScaleDisplay(Display):
    """Errors of individual rows against the predicted standard deviation, with the predicted range as a cone.

    The plot shows whether errors increase with the predicted standard deviation, and which rows have extreme
    errors. The cone is 0 plus or minus one predicted standard deviation. The line is the root mean squared
    error in bins of the predicted standard deviation. If the line is outside the cone at some standard
    deviations, the model is overconfident there. Signed errors also show a bias.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`.

    Parameters
    ----------
    residuals : ndarray of shape (n,)
        Observed value minus predicted mean.
    std : ndarray of shape (n,)
        Predicted standard deviation.
    table : DataFrame
        Table from `skuq.metrics.reliability_table`. The line shows its root mean squared errors.
    kind : {"signed", "absolute"}, default="signed"
        Whether signed or absolute errors are drawn.
    unit : str, default=None
        Unit of the target. Shown in the axis labels.
    name : str, default=None
        Title of the axes.

    Attributes
    ----------
    scatter_ : matplotlib.collections.PathCollection
        The errors.
    band_ : matplotlib.collections.PolyCollection
        The cone.
    lines_ : list of matplotlib.lines.Line2D
        The root mean squared error, and its negative if the errors are signed.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    ReliabilityDisplay : Root mean squared errors in bins. One plot can show several models.
    PredictionBandDisplay : The errors over the prediction or over a feature.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import ResidualScaleDisplay
    >>> rng = np.random.default_rng(0)
    >>> scale = rng.uniform(0.5, 3.0, size=1000)
    >>> y = rng.normal(scale=scale)
    >>> display = ResidualScaleDisplay.from_predictions(y, Normal(np.zeros(1000), scale), unit="MW")
    >>> display.ax_.get_xlabel()
    'Predicted standard deviation (MW)'
    """

    residuals: FloatArray
    std: FloatArray
    table: pd.DataFrame
    kind: Kind = "signed"
    unit: str | None = None
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        max_rows: int | None = 1000,
        line_kwargs: Style = None,
        scatter_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the errors.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Title. None uses the attribute `name`.
        max_rows : int or None, default=1000
            Maximum number of rows to draw. The drawn rows are evenly spaced in the sorted order. None
            draws all rows. The line uses all rows.
        line_kwargs : dict, default=None
            Keywords for the root mean squared error, passed to ``Axes.plot``.
        scatter_kwargs : dict, default=None
            Keywords for the errors, passed to ``Axes.scatter``.
        fill_kwargs : dict, default=None
            Keywords for the cone, passed to ``Axes.fill_between``.

        Returns
        -------
        display : ResidualScaleDisplay
            The display itself.
        """
        self._use_axes(ax, (6.4, 4.8))
        check_option(self.kind, "kind", ["signed", "absolute"])
        signed = self.kind == "signed"
        order = np.argsort(self.std, kind="stable")
        rows = order[choose_rows(len(order), max_rows)]
        shown = self.residuals[rows] if signed else np.abs(self.residuals[rows])
        self.scatter_ = self._draw_rows(self.std[rows], shown, len(order), "Errors", scatter_kwargs)
        edge = np.array([self.std.min(), self.std.max()])
        text = "± 1 predicted standard deviation" if signed else "Up to 1 predicted standard deviation"
        cone: dict[str, Any] = {"color": BLUE, "alpha": 0.25, "label": text, "zorder": 0.9, "gid": None}
        self.band_ = self._draw_fill(edge, -edge if signed else 0 * edge, edge, fill_kwargs, **cone)
        line: dict[str, Any] = {"color": RED, "linewidth": 1.8, "marker": "o", "markersize": 4.0}
        x, y = self.table["rmv"].to_numpy(), self.table["rmse"].to_numpy()
        label = "Root mean squared error, by bin"
        self.lines_ = [self._draw_line(x, y, line_kwargs, label=label, **line)]
        if signed:
            self.lines_.append(self._draw_line(x, -y, line_kwargs, **line))
            self.ax_.axhline(0.0, color=self._ink, linewidth=0.8, zorder=1)
        else:
            self.ax_.set_ylim(bottom=0.0)
        text = "Observed value minus prediction" if signed else "Absolute error"
        self._draw_title(self.name if name is None else name)
        return self._finish(with_unit("Predicted standard deviation", self.unit), with_unit(text, self.unit))

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        kind: Kind = "signed",
        n_bins: int = 10,
        unit: str | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the errors of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target. Mean and standard deviation must be finite.
        kind : {"signed", "absolute"}, default="signed"
            Whether signed or absolute errors are drawn.
        n_bins : int, default=10
            Number of bins of equal total weight for the line.
        unit : str, default=None
            Unit of the target. Shown in the axis labels.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row. The line depends on it. Rows of weight 0 are not drawn.
        name : str, default=None
            Title of the axes.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : ResidualScaleDisplay
            The drawn display.
        """
        check_matplotlib("ResidualScaleDisplay.from_predictions")
        target, dist = check_target(y_true, "y_true"), as_distribution(y_pred, y_true=y_true)
        table = reliability_table(target, dist, sample_weight=sample_weight, n_bins=n_bins)
        counts = rows_that_count(check_sample_weight(sample_weight, len(target)), len(target))
        return cls(
            residuals=(target - dist.mean())[counts],
            std=dist.std()[counts],
            table=table,
            kind=kind,
            unit=unit,
            name=name,
        ).plot(ax, **kwargs)
