"""Plot of the scores of models on test rows under increasing shift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import EFFECTIVE_ROWS, as_float_array, check_finite, check_number, check_rows
from skuq.displays._display import AxesMixin
from skuq.displays._drawing import REFERENCE, Axes, Style, check_matplotlib

FEW_ROWS = 50
"""Points with fewer effective rows than this are hollow circles."""


@dataclass(kw_only=True, eq=False, repr=False)
class ShiftCurveDisplay(AxesMixin):
    """Score of a model against the severity of a shift of the test rows.

    The plot shows the severity at which a model fails. To find out whether the uncertainty of the model
    reveals the failure, also plot the interval width or the set size. If the coverage decreases and the width
    does not increase, the model fails silently. The line is the mean over the folds. The band is the mean
    plus or minus one standard deviation over the folds. With a `~skuq.evaluation.Tilt`, points are hollow if
    the effective number of rows is below 50 per fold.

    Create the display with `from_scores`. To add another model to the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    severities : ndarray of shape (n_severities,)
        Strengths of the shift.
    values : ndarray of shape (n_severities, n_folds)
        Score of each fold.
    score_name : str
        Name of the score. Shown in the axis label.
    effective_rows : ndarray of shape (n_severities, n_folds), default=None
        Effective number of rows of each fold under the weights of the shift. None if the shift has no
        weights.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D
        The curve of the mean over the folds.
    band_ : matplotlib.collections.PolyCollection or None
        The band of one standard deviation over the folds. None if there is only one fold.
    hollow_ : matplotlib.lines.Line2D or None
        The hollow points, which have few effective rows. None if there are no such points.
    ref_line_ : matplotlib.lines.Line2D or None
        The line at the reference value. None if `ref_line` is None.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.evaluation.shift_curve : Computes the scores.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.displays import ShiftCurveDisplay
    >>> from skuq.evaluation import Tilt, shift_curve
    >>> X, y = load_diabetes(return_X_y=True)
    >>> severities = [0, 10, 20]
    >>> scores = shift_curve(
    ...     BayesianRidge(), X, y, shift=Tilt(2), severities=severities, scoring="picp", random_state=0
    ... )
    >>> display = ShiftCurveDisplay.from_scores(scores, severities, ref_line=0.9)
    >>> display.ax_.get_ylabel()
    'picp'
    """

    severities: FloatArray
    values: FloatArray
    score_name: str
    effective_rows: FloatArray | None = None
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: float | None = None,
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
        ref_line : float, default=None
            Reference value, such as the nominal coverage. None draws no line.
        line_kwargs : dict, default=None
            Keywords for the curve, passed to ``Axes.plot``.
        fill_kwargs : dict, default=None
            Keywords for the band, passed to ``Axes.fill_between``.
        ref_line_kwargs : dict, default=None
            Keywords for the reference value, passed to ``Axes.axhline``.

        Returns
        -------
        display : ShiftCurveDisplay
            The display itself.
        """
        self._use_axes(ax, (6.0, 4.0))
        mean, spread = self.values.mean(axis=1), self.values.std(axis=1)
        color = self._draw_curves([(self.severities, mean)], name, line_kwargs, markersize=4.5)
        self.band_ = None
        if self.values.shape[1] > 1:
            ends, label = (mean - spread, mean + spread), "± 1 standard deviation of the folds"
            self.band_ = self._draw_fill(
                self.severities, *ends, fill_kwargs, color=color, alpha=0.15, label=label
            )
        self.hollow_ = None
        if self.effective_rows is not None and (few := self.effective_rows.mean(axis=1) < FEW_ROWS).any():
            style = {"color": color, "markerfacecolor": self.ax_.get_facecolor(), "linestyle": "none"}
            style |= {"marker": "o", "markersize": 5.5, "zorder": 2.3, "gid": REFERENCE}
            label = f"fewer than {FEW_ROWS} effective rows"
            self.hollow_ = self._draw_line(self.severities[few], mean[few], None, label=label, **style)
        self.ref_line_ = None
        if ref_line is not None:
            self.ref_line_ = self._draw_level(check_number(ref_line, "ref_line"), ref_line_kwargs)
        return self._finish("Severity of the shift", self.score_name)

    @classmethod
    def from_scores(
        cls,
        scores: Mapping[str, ArrayLike],
        severities: ArrayLike,
        *,
        scorer: str | None = None,
        score_name: str | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a score of `skuq.evaluation.shift_curve`.

        Parameters
        ----------
        scores : dict of str to ndarray of shape (n_severities, n_folds)
            Result of `skuq.evaluation.shift_curve`.
        severities : array-like of shape (n_severities,)
            Severities passed to ``shift_curve``.
        scorer : str, default=None
            Name of the score. Required if `scores` contains several scores.
        score_name : str, default=None
            Axis label. None means the name of the score.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : ShiftCurveDisplay
            The drawn display.
        """
        check_matplotlib("ShiftCurveDisplay.from_scores")
        if not isinstance(scores, Mapping):
            raise TypeError(f"`scores` must be the dictionary from shift_curve, got {type(scores).__name__}.")
        names = [each for each in scores if each != EFFECTIVE_ROWS]
        chosen = names[0] if scorer is None and len(names) == 1 else scorer
        if chosen is None or chosen not in names:
            raise ValueError(f"`scorer` must be one of {', '.join(map(repr, names))}, got {scorer!r}.")
        values = as_float_array(scores[chosen], "scores")
        if values.ndim != 2:
            raise ValueError(f"`scores` must have shape (n_severities, n_folds), got {values.shape}.")
        strengths = check_rows(as_float_array(severities, "severities"), "severities", len(values))
        effective = scores.get(EFFECTIVE_ROWS)
        return cls(
            severities=check_finite(strengths, "severities"),
            values=values,
            score_name=chosen if score_name is None else score_name,
            effective_rows=None if effective is None else as_float_array(effective, "scores"),
            name=name,
        ).plot(ax, **kwargs)
