"""Heat map that shows how much metrics agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from skuq._typing import IntArray
from skuq._validation import check_number
from skuq.displays._display import AxesMixin
from skuq.displays._drawing import INK, Axes, Style, check_matplotlib, merge_style
from skuq.evaluation import metric_agreement
from skuq.evaluation._metric_agreement import MetricAgreement

if TYPE_CHECKING:
    from matplotlib.collections import QuadMesh
    from matplotlib.colorbar import Colorbar
    from matplotlib.text import Text

DARK = 0.6
"""If the absolute tau is at least this value, the cell is dark and its number is white."""


@dataclass(kw_only=True, eq=False, repr=False)
class MetricAgreementDisplay(AxesMixin):
    """Heat map of Kendall's tau between metrics.

    A blue cell means that two metrics rank the models or data sets in the same order. A red cell means that
    two metrics rank them in opposite orders. Metrics are ordered by hierarchical clustering, so metrics that
    agree form blocks along the diagonal. Numbers with a p-value of at most `significance` are bold. The
    p-values are not corrected for the number of pairs.

    Create the display with `from_reports` or `from_agreement`.

    Parameters
    ----------
    agreement : MetricAgreement
        Correlations and p-values.

    Attributes
    ----------
    image_ : matplotlib.collections.QuadMesh
        The cells.
    text_ : list of matplotlib.text.Text
        The numbers in the cells, row by row. Empty if `numbers` is False.
    colorbar_ : matplotlib.colorbar.Colorbar or None
        The color scale. None if `colorbar` is False.
    metrics_ : list
        The metrics from top to bottom.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.evaluation.metric_agreement : Computes the correlations.

    Notes
    -----
    The clustering repeatedly joins the two clusters with the largest mean tau (average linkage of 1 - tau).
    Clusters are reversed if necessary, so that similar metrics are adjacent.

    Examples
    --------
    >>> import pandas as pd
    >>> from skuq.displays import MetricAgreementDisplay
    >>> table = pd.DataFrame(
    ...     {
    ...         "crps": [0.10, 0.12, 0.20, 0.25, 0.31],
    ...         "mace": [0.05, 0.02, 0.03, 0.01, 0.02],
    ...         "nll": [-0.9, -0.8, -0.1, 0.0, 0.2],
    ...     }
    ... )
    >>> display = MetricAgreementDisplay.from_reports(table)
    >>> display.metrics_
    ['crps', 'nll', 'mace']
    """

    agreement: MetricAgreement

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        cluster: bool = True,
        numbers: bool = True,
        significance: float = 0.05,
        colorbar: bool = True,
        image_kwargs: Style = None,
        text_kwargs: Style = None,
    ) -> Self:
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Title. None draws no title.
        cluster : bool, default=True
            Whether to order the metrics by clustering. False keeps the order of the table.
        numbers : bool, default=True
            Whether to write tau into the cells.
        significance : float, default=0.05
            Largest p-value at which a number is bold.
        colorbar : bool, default=True
            Whether to draw the color scale.
        image_kwargs : dict, default=None
            Keywords for the cells, passed to ``Axes.pcolormesh``.
        text_kwargs : dict, default=None
            Keywords for the numbers, passed to ``Axes.text``.

        Returns
        -------
        display : MetricAgreementDisplay
            The display itself.
        """
        if not 0 <= check_number(significance, "significance") <= 1:
            raise ValueError(f"`significance` must be between 0 and 1, got {significance}.")
        tau = self.agreement.tau
        n = len(tau)
        order = clustered_order(tau) if cluster else np.arange(n)
        self.metrics_ = list(tau.index[order])
        labels = [str(each) for each in self.metrics_]
        side, margin = max(n, 4), 0.08 * max(map(len, labels))
        self._use_axes(ax, (1.5 + 0.45 * side + margin, 0.8 + 0.42 * side + 0.7 * margin))
        shown = tau.to_numpy()[np.ix_(order, order)]
        default = {"cmap": "RdBu", "edgecolors": "white", "linewidth": 1.0}
        style = merge_style("collections.QuadMesh", default, image_kwargs, "image_kwargs")
        limits = {} if "norm" in style else {"vmin": -1.0, "vmax": 1.0}
        self.image_: QuadMesh = self.ax_.pcolormesh(shown, **{**limits, **style})
        self.ax_.invert_yaxis()
        self.ax_.set_aspect("equal")
        self.ax_.set_xticks(np.arange(n) + 0.5, labels, rotation=45, ha="right", rotation_mode="anchor")
        self.ax_.set_yticks(np.arange(n) + 0.5, labels)
        self.ax_.tick_params(length=0)
        self.ax_.spines[:].set_visible(False)
        self.text_: list[Text] = []
        if numbers:
            certain = self.agreement.p_value.to_numpy()[np.ix_(order, order)] <= significance
            size = 72 * min(self.ax_.bbox.width, self.ax_.bbox.height) / self.figure_.dpi / n
            center: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": min(0.27 * size, 8.3)}
            merged = merge_style("text.Text", center, text_kwargs, "text_kwargs")
            for (row, column), value in np.ndenumerate(shown):
                cell = {
                    "color": "white" if abs(value) >= DARK else INK,
                    "fontweight": "bold" if certain[row, column] else "normal",
                    **merged,
                }
                text = f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
                self.text_.append(self.ax_.text(column + 0.5, row + 0.5, text, **cell))
        self.colorbar_: Colorbar | None = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(self.image_, ax=self.ax_, shrink=0.7)
            self.colorbar_.set_label(f"Kendall's tau over {self.agreement.n_reports} reports")
            self.colorbar_.outline.set_visible(False)
        self._draw_title(name)
        return self

    @classmethod
    def from_reports(
        cls,
        reports: Any,
        *,
        directions: str | Mapping[Any, str | float] | None = None,
        n_resamples: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the agreement of metrics in several reports.

        Parameters
        ----------
        reports : DataFrame of shape (n_reports, n_metrics), or results of `uncertainty_report`
            Values of the metrics, with one row per model or data set. See `skuq.evaluation.metric_agreement`.
        directions : {"lower", "higher"} or mapping from metrics to a direction or a number, default=None
            Better direction or best value of the metrics. See `skuq.evaluation.metric_agreement`.
        n_resamples : int, default=1000
            Number of permutations of the tests.
        random_state : int, RandomState instance or None, default=0
            Controls the permutations.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : MetricAgreementDisplay
            The drawn display.
        """
        check_matplotlib("MetricAgreementDisplay.from_reports")
        agreement = metric_agreement(
            reports, directions=directions, n_resamples=n_resamples, random_state=random_state
        )
        return cls.from_agreement(agreement, ax=ax, **kwargs)

    @classmethod
    def from_agreement(cls, agreement: MetricAgreement, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw a result of `skuq.evaluation.metric_agreement`.

        Parameters
        ----------
        agreement : MetricAgreement
            Correlations and p-values.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : MetricAgreementDisplay
            The drawn display.
        """
        check_matplotlib("MetricAgreementDisplay.from_agreement")
        if not isinstance(agreement, MetricAgreement):
            raise TypeError(
                "`agreement` must be the result of metric_agreement, got "
                f"{type(agreement).__name__}. For a table, call `from_reports`."
            )
        return cls(agreement=agreement).plot(ax, **kwargs)


def clustered_order(tau: pd.DataFrame) -> IntArray:
    distance = 1 - tau.to_numpy()
    pairs = squareform((distance + distance.T) / 2, checks=False)
    order = leaves_list(linkage(pairs, method="average", optimal_ordering=True))
    first = int(np.argmin(order))  # The order and its reverse are equally good.
    return np.asarray(order if 2 * first < len(order) else order[::-1], dtype=np.intp)
