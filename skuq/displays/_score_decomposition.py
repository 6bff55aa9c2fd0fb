"""Plot of miscalibration against discrimination for several models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq.displays._display import AxesMixin
from skuq.displays._drawing import (
    GRAY,
    REFERENCE,
    Axes,
    Style,
    check_matplotlib,
    draw_endless_line,
    merge_style,
    with_unit,
)
from skuq.evaluation import score_decomposition
from skuq.evaluation._decomposition import ScoreDecomposition

if TYPE_CHECKING:
    from matplotlib.lines import AxLine, Line2D
    from matplotlib.text import Text

NO_SKILL = "Best constant forecast"
CALIBRATED = "Miscalibration below its limit"
MOST_LINES = 8
"""At most this number of lines of equal score is drawn."""


@dataclass(kw_only=True, eq=False, repr=False)
class ScoreDecompositionDisplay(AxesMixin):
    """Miscalibration against discrimination of several models, with lines of equal score.

    The plot shows why one model has a better score than another. Models further to the left are better
    calibrated, and models further up distinguish the rows better. All models on a gray line have the same
    score. Lines closer to the upper left corner have better scores. The dashed line has the score of the best
    constant forecast. A hollow point means that the miscalibration of the model is at most
    `miscalibration_limit`, so the miscalibration is not significant at the 5 % level.

    Create the display with `from_predictions` or `from_decompositions`.

    Parameters
    ----------
    decompositions : dict of str to ScoreDecomposition
        Decomposition of each model on the same rows. The keys are the names of the models.
    unit : str, default=None
        Unit of the score. Shown in the axis labels.

    Attributes
    ----------
    points_ : list of matplotlib.lines.Line2D
        The point of each model.
    lines_ : list of matplotlib.lines.AxLine
        The lines of equal score.
    text_ : list of matplotlib.text.Text
        The scores of the lines.
    ref_line_ : matplotlib.lines.AxLine
        The line of the best constant forecast.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.evaluation.score_decomposition : Computes the parts.
    skuq.evaluation.compare_score_decompositions : Confidence intervals of the differences between models.

    References
    ----------
    .. [1] Dimitriadis, Gneiting, Jordan and Vogel (2024), Evaluating probabilistic classifiers: The triptych.
       https://doi.org/10.1016/j.ijforecast.2023.09.007

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.displays import ScoreDecompositionDisplay
    >>> from skuq.distributions import Normal
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> y = x + rng.normal(size=300)
    >>> models = {"calibrated": Normal(x, 1.0), "too narrow": Normal(x, 0.5)}
    >>> display = ScoreDecompositionDisplay.from_predictions(y, models, random_state=0)
    >>> [point.get_label() for point in display.points_]
    ['calibrated (0.546)', 'too narrow (0.588)']
    """

    decompositions: Mapping[str, ScoreDecomposition]
    unit: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        point_kwargs: Style = None,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
    ) -> Self:
        """Draw the points and the lines of equal score.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Title. None draws no title.
        point_kwargs : dict, default=None
            Keywords for the points, passed to ``Axes.plot``.
        line_kwargs : dict, default=None
            Keywords for the lines of equal score, passed to ``matplotlib.lines.Line2D``.
        ref_line_kwargs : dict, default=None
            Keywords for the line of the best constant forecast.

        Returns
        -------
        display : ScoreDecompositionDisplay
            The display itself.
        """
        self._use_axes(ax, (5.8, 5.2))
        self.points_: list[Line2D] = []
        for label, each in self.decompositions.items():
            point: dict[str, Any] = self._next_style(marker=True)
            if is_calibrated(each):
                point |= {"markerfacecolor": self.ax_.get_facecolor(), "markeredgewidth": 2.0}
            point |= {"markersize": 8.0, "linestyle": "none", "label": f"{label} ({each.score:.3g})"}
            at = [each.miscalibration], [each.discrimination]
            self.points_.append(self._draw_line(*at, point_kwargs, "point_kwargs", zorder=2.3, **point))
        if any(is_calibrated(each) for each in self.decompositions.values()):
            # an entry of the legend explains the hollow points
            ring: dict[str, Any] = {"marker": "o", "markersize": 6.0, "markerfacecolor": "none"}
            ring |= {"color": self._ink, "linestyle": "none", "label": CALIBRATED, "gid": REFERENCE}
            self._draw_line([], [], None, **ring)
        self._set_limits()
        uncertainty = next(iter(self.decompositions.values())).uncertainty
        self.lines_: list[AxLine] = []
        self.text_: list[Text] = []
        for score in self._scores_of_lines(uncertainty):
            self._draw_score(score, uncertainty, line_kwargs)
        default = self._reference_line()
        # The line is visible only if it crosses the axes.
        if self.ax_.get_ylim()[0] < self.ax_.get_xlim()[1]:
            default["label"] = f"{NO_SKILL} ({uncertainty:.3g})"
        merged = merge_style("lines.Line2D", default, ref_line_kwargs, "ref_line_kwargs")
        self.ref_line_ = draw_endless_line(self.ax_, (0.0, 0.0), 1.0, merged)
        self._draw_title(name, pad=16)  # The title is above the scores of the lines.
        return self._finish(with_unit("Miscalibration", self.unit), with_unit("Discrimination", self.unit))

    def _set_limits(self) -> None:
        """Set limits that contain all points and a miscalibration of 0."""
        points = [(each.miscalibration, each.discrimination) for each in self.decompositions.values()]
        x, y = np.transpose(points)
        size = max(float(x.max()), float(np.ptp(y)), 1e-3 * float(y.max()), 1e-300)
        margin = 0.2 * size
        self.ax_.set_xlim(0.0, float(x.max()) + margin)
        self.ax_.set_ylim(max(float(y.min()) - margin, 0.0), float(y.max()) + margin)

    def _scores_of_lines(self, uncertainty: float) -> FloatArray:
        from matplotlib.ticker import MaxNLocator

        (left, right), (bottom, top) = self.ax_.get_xlim(), self.ax_.get_ylim()
        lowest, highest = uncertainty + left - top, uncertainty + right - bottom
        ticks = np.asarray(MaxNLocator(MOST_LINES).tick_values(lowest, highest))
        return ticks[(ticks > lowest) & (ticks < highest)]

    def _draw_score(self, score: float, uncertainty: float, style: Style) -> None:
        """Draw the line of one score, and write the score at the end of the line."""
        default = {"color": GRAY, "linewidth": 0.8, "alpha": 0.6, "zorder": 1.0, "gid": REFERENCE}
        merged = merge_style("lines.Line2D", default, style, "line_kwargs")
        # `height` is the discrimination of a forecast with this score and a miscalibration of 0.
        height = uncertainty - score
        self.lines_.append(draw_endless_line(self.ax_, (0.0, height), 1.0, merged))
        top, right = self.ax_.get_ylim()[1], self.ax_.get_xlim()[1]
        end = min(right, top - height), min(right + height, top)  # The line leaves the axes at this point.
        at_top = top - height < right
        text = self.ax_.annotate(
            f"{score:.3g}",
            end,
            xytext=(0, 2) if at_top else (3, 0),
            textcoords="offset points",
            ha="center" if at_top else "left",
            va="bottom" if at_top else "center",
            fontsize="small",
            color=GRAY,
        )
        self.text_.append(text)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Mapping[str, Any],
        *,
        unit: str | None = None,
        ax: Axes | None = None,
        name: str | None = None,
        point_kwargs: Style = None,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        random_state: int | None = 0,
        **options: Any,
    ) -> Self:
        """Draw the parts of the scores of several models.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which no model was trained.
        y_pred : dict of str to forecast
            Forecast of every target. The keys are the names of the models, and the values are the forecasts
            of the models for the same rows.
        unit : str, default=None
            Unit of the score. Shown in the axis labels.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Title. None draws no title.
        point_kwargs, line_kwargs, ref_line_kwargs : dict, default=None
            Keywords of `plot`.
        random_state : int or None, default=0
            Seed of the draws that give the limits of the miscalibration.
        **options : dict
            The other keywords of `skuq.evaluation.score_decomposition`, such as `score`.

        Returns
        -------
        display : ScoreDecompositionDisplay
            The drawn display.
        """
        check_matplotlib("ScoreDecompositionDisplay.from_predictions")
        _check_models(y_pred, "y_pred", "forecasts")
        decompositions = {
            str(label): score_decomposition(y_true, each, random_state=random_state, **options)
            for label, each in y_pred.items()
        }
        return cls.from_decompositions(
            decompositions,
            unit=unit,
            ax=ax,
            name=name,
            point_kwargs=point_kwargs,
            line_kwargs=line_kwargs,
            ref_line_kwargs=ref_line_kwargs,
        )

    @classmethod
    def from_decompositions(
        cls,
        decompositions: Mapping[str, ScoreDecomposition],
        *,
        unit: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw results of `skuq.evaluation.score_decomposition`.

        Parameters
        ----------
        decompositions : dict of str to ScoreDecomposition
            Decomposition of each model on the same rows. The keys are the names of the models.
        unit : str, default=None
            Unit of the score. Shown in the axis labels.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : ScoreDecompositionDisplay
            The drawn display.
        """
        check_matplotlib("ScoreDecompositionDisplay.from_decompositions")
        _check_decompositions(decompositions)
        return cls(decompositions=decompositions, unit=unit).plot(ax, **kwargs)


def is_calibrated(parts: ScoreDecomposition) -> bool:
    """Return whether the miscalibration is at most its limit. It is False if there is no limit."""
    return parts.miscalibration <= parts.miscalibration_limit


def _check_models(models: Any, name: str, values: str) -> None:
    if not isinstance(models, Mapping):
        raise TypeError(f"`{name}` must be a dictionary of names to {values}, got {type(models).__name__}.")
    if not models:
        raise ValueError(f"`{name}` must hold at least one model, got none.")


def _check_decompositions(decompositions: Any) -> None:
    _check_models(decompositions, "decompositions", "results of score_decomposition")
    for label, each in decompositions.items():
        if not isinstance(each, ScoreDecomposition):
            raise TypeError(
                f"`decompositions` must hold results of score_decomposition, got {type(each).__name__} for "
                f"{label!r}. For forecasts, call `from_predictions`."
            )
        if not np.isfinite([each.miscalibration, each.discrimination]).all():
            raise ValueError(
                "`decompositions` must be finite, got a miscalibration of "
                f"{each.miscalibration} for {label!r}."
            )
    first = next(iter(decompositions.values())).uncertainty
    for label, each in decompositions.items():
        if not np.isclose(each.uncertainty, first, rtol=1e-6, atol=0.0):
            raise ValueError(
                "`decompositions` must have the same rows, score, levels and thresholds. Their uncertainty "
                f"must therefore be equal, got {each.uncertainty:g} for {label!r} and {first:g} for the "
                "first model."
            )
