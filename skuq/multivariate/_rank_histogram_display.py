"""Rank histograms of joint distributions, with the band of a calibrated forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from skuq._typing import ArrayLike, FloatArray
from skuq.displays import PITHistogramDisplay
from skuq.displays._display import Display
from skuq.displays._drawing import check_matplotlib
from skuq.displays._pit_histogram import Band
from skuq.multivariate._rank_histogram import joint_rank_histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {
    "average_rank": "Rank of the mean rank of the targets (%)",
    "band_depth": "Rank of the band depth of the targets (%)",
}


@dataclass(kw_only=True, eq=False, repr=False)
class JointRankHistogramDisplay(Display):
    """Rank histogram of joint distributions, with the band of a calibrated forecast.

    The histogram is uniform if the marginals and the dependence of the targets are calibrated. If the
    marginals are calibrated, high bins at both ends of the average ranks mean that the predicted dependence
    is too weak. Plot both kinds, because they detect different errors.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add another model to
    the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    proportions : ndarray of shape (k,)
        Share of rows in each bin, in [0, 1]. The bins have equal width.
    n_rows : float
        Number of rows. The band depends on this number.
    kind : {"average_rank", "band_depth"}
        Quantity by which vectors are ranked. See `skuq.multivariate.joint_rank_histogram`.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    hist_ : matplotlib.patches.StepPatch
        The area of the histogram.
    line_ : matplotlib.lines.Line2D
        The outline of the histogram.
    ref_line_ : matplotlib.lines.Line2D or None
        The line at the expected share of each bin. None if an earlier display has drawn the line on the same
        axes.
    band_ : matplotlib.patches.Rectangle or None
        The band. None if `band` is None, or if an earlier display has drawn the band on the same axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.displays.PITHistogramDisplay : PIT histogram of one target. Its documentation describes the band.
    JointPairDisplay : Dependence of two targets.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.multivariate import JointRankHistogramDisplay
    >>> from skuq.multivariate import NormalJoint
    >>> y = np.random.RandomState(0).multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], size=500)
    >>> independent = NormalJoint(np.zeros((500, 2)), np.eye(2))
    >>> display = JointRankHistogramDisplay.from_predictions(y, independent, n_bins=5)
    >>> display.proportions.round(2)
    array([0.27, 0.15, 0.11, 0.15, 0.32])
    """

    proportions: FloatArray
    n_rows: float
    kind: str
    name: str | None = None

    _of_joints = True

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        band: Band | None = "simultaneous",
        confidence: float = 0.95,
        **kwargs: Any,
    ) -> Self:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        band : {"simultaneous", "pointwise"} or None, default="simultaneous"
            Region that contains the bins of a calibrated forecast. See
            `~skuq.displays.PITHistogramDisplay.plot`.
        confidence : float, default=0.95
            Probability of the band, in (0, 1).
        **kwargs : dict
            The other keywords of `~skuq.displays.PITHistogramDisplay.plot`.

        Returns
        -------
        display : JointRankHistogramDisplay
            The display itself.
        """
        histogram = PITHistogramDisplay(
            proportions=self.proportions, n_rows=self.n_rows, name=self.name if name is None else name
        ).plot(ax, band=band, confidence=confidence, **kwargs)
        self.hist_, self.line_ = histogram.hist_, histogram.line_
        self.ref_line_, self.band_ = histogram.ref_line_, histogram.band_
        self.ax_, self.figure_ = histogram.ax_, histogram.figure_
        self.ax_.set_xlabel(_LABELS[self.kind])
        return self

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        kind: str = "average_rank",
        n_bins: int = 10,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the rank histogram of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n, d)
            Observed targets. Use rows on which the model was not trained.
        y_pred : JointDistribution
            Forecast of every target. It has n rows and d targets.
        kind : {"average_rank", "band_depth"}, default="average_rank"
            Quantity by which vectors are ranked.
        n_bins : int, default=10
            Number of bins of equal width. At least 2.
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
        display : JointRankHistogramDisplay
            The drawn display.
        """
        check_matplotlib("JointRankHistogramDisplay.from_predictions")
        histogram = joint_rank_histogram(
            y_true, y_pred, kind=kind, n_bins=n_bins, sample_weight=sample_weight
        )
        display = cls(
            proportions=histogram.proportions, n_rows=histogram.n_rows, kind=histogram.kind, name=name
        )
        return display.plot(ax, **kwargs)
