"""Murphy diagram: the mean elementary score against the threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

from scipy.special import ndtri

from skuq._typing import ArrayLike
from skuq._validation import check_single_coverage
from skuq.displays._display import CurveDisplay, Fold, as_folds, as_list, one_or_list
from skuq.displays._drawing import Axes, Style, check_matplotlib, percent
from skuq.distributions import as_distribution
from skuq.metrics import murphy_curve
from skuq.metrics._murphy import MurphyCurve

Functional = Literal["mean", "quantile", "probability"]


@dataclass(kw_only=True, eq=False, repr=False)
class MurphyDisplay(CurveDisplay):
    """Mean elementary score of point forecasts against the threshold.

    The plot shows whether one model is better than another model for every consistent score, or only for some
    scores. If the curve of a model is below the other curve everywhere, every consistent score prefers this
    model. If there is a reference, the plot shows the difference from the reference and a pointwise
    confidence band of this difference. If the whole band is below 0 at a threshold, the model is better than
    the reference at this threshold.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add the curve of
    another model to the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    curve : MurphyCurve or list of MurphyCurve
        Thresholds, scores and standard errors. A list has one curve per fold.
    label : str
        Name of the point forecast. Shown in the axis label.
    is_difference : bool, default=False
        Whether the scores are differences from a reference.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D or list of Line2D
        The curve. A list has one line per fold.
    band_ : matplotlib.collections.PolyCollection or None
        The pointwise band of the difference. None if there is no reference, or if there are several folds.
    ref_line_ : matplotlib.lines.Line2D or None
        The line at 0. None if there is no reference.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.metrics.murphy_curve : Computes the plotted numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import MurphyDisplay
    >>> rng = np.random.default_rng(0)
    >>> loc = rng.normal(size=300)
    >>> y = rng.normal(loc)
    >>> display = MurphyDisplay.from_predictions(y, Normal(loc, np.ones(300)), name="model")
    >>> display = MurphyDisplay.from_predictions(
    ...     y, Normal(np.zeros(300), np.full(300, 1.4)), name="climatology", ax=display.ax_
    ... )
    >>> display.ax_.get_ylabel()
    'Mean elementary score, mean'
    """

    curve: MurphyCurve | list[MurphyCurve]
    label: str
    is_difference: bool = False
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        confidence: float = 0.95,
        line_kwargs: Style = None,
        fill_kwargs: Style = None,
        ref_line_kwargs: Style = None,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        confidence : float, default=0.95
            Confidence level of the pointwise band of a difference, in (0, 1).
        line_kwargs : dict, default=None
            Keywords for the curve, passed to ``Axes.plot``.
        fill_kwargs : dict, default=None
            Keywords for the band, passed to ``Axes.fill_between``.
        ref_line_kwargs : dict, default=None
            Keywords for the line at 0, passed to ``Axes.axhline``.

        Returns
        -------
        display : MurphyDisplay
            The display itself.
        """
        self._use_axes(ax, (6.0, 4.0))
        width = float(ndtri((1 + check_single_coverage(confidence, "confidence")) / 2))
        curves = as_list(self.curve)
        color = self._draw_curves(
            [(curve.theta, curve.scores) for curve in curves], name, line_kwargs, linewidth=1.5
        )
        self.band_ = self.ref_line_ = None
        what = "Difference of scores" if self.is_difference else "Mean elementary score"
        if self.is_difference:
            self.ref_line_ = self._draw_level(0.0, ref_line_kwargs)
            if len(curves) == 1:
                theta, scores, reach = curves[0].theta, curves[0].scores, width * curves[0].standard_errors
                label = f"{percent(confidence)} band at each threshold"
                self.band_ = self._draw_fill(
                    theta, scores - reach, scores + reach, fill_kwargs, color=color, label=label
                )
        return self._finish("Threshold θ (units of y)", f"{what}, {self.label}")

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        functional: Functional = "mean",
        levels: float = 0.5,
        threshold: float | None = None,
        reference: Any = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the Murphy curve of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target.
        functional : {"mean", "quantile", "probability"}, default="mean"
            Point forecast that is computed from the distribution: the mean, the quantile at `levels`, or the
            probability of ``y > threshold``.
        levels : float, default=0.5
            Level of the quantile, strictly between 0 and 1.
        threshold : float, default=None
            Value that defines the event. Required for ``functional="probability"``.
        reference : Distribution or frozen scipy distribution, default=None
            Second forecast, such as ``predict_dist(other, X)``. It has n rows, or one row that is used for
            all targets. If a reference is given, the plot shows the difference from this forecast.
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
        display : MurphyDisplay
            The drawn display.
        """
        check_matplotlib("MurphyDisplay.from_predictions")
        folds = as_folds(y_true, y_pred, sample_weight)
        options: dict[str, Any] = {"functional": functional, "levels": levels, "threshold": threshold}
        curves = [
            fold.call(murphy_curve, reference=_reference_of(fold, reference), **options) for fold in folds
        ]
        labels = {"mean": "mean", "quantile": f"{levels:g} quantile", "probability": f"P(y > {threshold})"}
        return cls(
            curve=one_or_list(curves),
            label=labels[functional],
            is_difference=reference is not None,
            name=name,
        ).plot(ax, **kwargs)


def _reference_of(fold: Fold, reference: Any) -> Any:
    if reference is None or fold.rows is None:
        return reference
    dist = as_distribution(reference, "reference")
    return dist if len(dist) == 1 else dist[fold.rows]
