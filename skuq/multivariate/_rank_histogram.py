"""Rank histograms of joint distributions, and their plot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skuq._numeric import ROUNDING
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_integer, check_n_bins, check_option, effective_rows
from skuq.displays import PITHistogramDisplay
from skuq.displays._display import Display
from skuq.displays._drawing import check_matplotlib
from skuq.displays._pit_histogram import Band
from skuq.distributions import JointDistribution
from skuq.multivariate._scores import check_joint_forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _average_rank(ranks: FloatArray, total: float) -> FloatArray:
    return np.asarray(ranks.sum(axis=-1))


def _band_depth(ranks: FloatArray, total: float) -> FloatArray:
    return np.asarray(((ranks - 0.5) * (total + 0.5 - ranks)).sum(axis=-1))


PRE_RANKS: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "average_rank": _average_rank,
    "band_depth": _band_depth,
}
"""Functions that reduce the ranks of a vector to one number. This number is then ranked."""


@dataclass(frozen=True, eq=False)
class JointRankHistogram:
    """Rank histogram of joint distributions; returned by `joint_rank_histogram`.

    Parameters
    ----------
    proportions : ndarray of shape (k,)
        Share of rows in each bin, in [0, 1]. For a calibrated forecast, the expected share of every bin is
        1/k.
    edges : ndarray of shape (k + 1,)
        Edges of the bins, from 0 to 1.
    kind : {"average_rank", "band_depth"}
        Quantity by which vectors are ranked.
    n_rows : float
        Number of rows including repetitions.

    Examples
    --------
    >>> from skuq.multivariate._rank_histogram import JointRankHistogram
    >>> edges = [0.0, 0.25, 0.5, 0.75, 1.0]
    >>> histogram = JointRankHistogram([0.3, 0.2, 0.3, 0.2], edges, "average_rank", 100.0)
    >>> round(histogram.reliability_index, 3)
    0.2
    """

    proportions: FloatArray
    edges: FloatArray
    kind: str
    n_rows: float

    @property
    def reliability_index(self) -> float:
        """Sum of the absolute differences between the shares and 1/k. It is 0 if all bins are equal.

        For a calibrated forecast and 10 bins, the sum is about 0.2 for 100 rows and about 0.1 for 500 rows.
        """
        return float(np.abs(np.asarray(self.proportions) - 1.0 / len(self.proportions)).sum())


def joint_rank_histogram(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    kind: str = "average_rank",
    n_bins: int = 10,
    sample_weight: ArrayLike | None = None,
) -> JointRankHistogram:
    r"""Return a rank histogram of joint distributions of several targets.

    The histogram of a calibrated forecast is uniform except for random variation. The two kinds detect
    different errors, so compute both.

    Parameters
    ----------
    y_true : array-like of shape (n, d)
        Observed targets. Use rows on which the model was not trained.
    y_pred : JointDistribution
        Forecast of every target. It has n rows and d targets.
    kind : {"average_rank", "band_depth"}, default="average_rank"
        "average_rank" ranks vectors by the mean rank of their components. High bins at both ends mean that
        the marginals are too narrow, or that the predicted dependence is too weak. High bins in the middle
        mean the opposite. "band_depth" ranks vectors by their closeness to the center of the forecast. High
        bins on the left mean that too many observed vectors are extreme. If the errors of two correlations
        have opposite signs, the errors cancel in "average_rank", but "band_depth" detects them.
    n_bins : int, default=10
        Number of bins of equal width. At least 2.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    histogram : JointRankHistogram
        Share of rows in each bin.

    See Also
    --------
    skuq.multivariate.JointRankHistogramDisplay : Plot of the histogram.
    variogram_score_loss : Score that reacts to errors of the dependence.

    Notes
    -----
    A row has K + 1 vectors: the observed vector and the K points of the forecast. Let :math:`r_j(z)` be the
    rank of component j of vector z among these vectors. The average rank of z is the mean of :math:`r_j(z)`
    over j. Up to constants, the band depth of z is the mean of :math:`(K + 1 - r_j(z)) (r_j(z) - 1)` over j.
    The histogram counts the rank of the observed vector by average rank or band depth. Ties are spread evenly
    over the ranks. The cost is O(n K d log K).

    References
    ----------
    .. [1] Thorarinsdottir, Scheuerer and Heinz (2016), Assessing the calibration of high-dimensional ensemble
       forecasts using rank histograms. https://doi.org/10.1080/10618600.2014.977447

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.multivariate import NormalJoint
    >>> from skuq.multivariate import joint_rank_histogram
    >>> covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    >>> y = np.random.RandomState(0).multivariate_normal([0.0, 0.0], covariance, size=500)
    >>> independent = NormalJoint(np.zeros((500, 2)), np.eye(2))
    >>> joint_rank_histogram(y, independent, n_bins=5).proportions.round(2)
    array([0.27, 0.15, 0.11, 0.15, 0.32])
    >>> dependent = NormalJoint(np.zeros((500, 2)), covariance)
    >>> joint_rank_histogram(y, dependent, n_bins=5).proportions.round(2)
    array([0.18, 0.19, 0.19, 0.24, 0.2 ])
    """
    check_option(kind, "kind", list(PRE_RANKS))
    check_integer(n_bins, "n_bins", minimum=2)
    y, dist, weight = check_joint_forecast(y_true, y_pred, sample_weight)
    check_n_bins(n_bins, len(y))
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    lower, upper = rank_ranges(y, dist, kind)
    # each row is spread evenly over its range of ranks
    reached = np.clip((edges - lower[:, np.newaxis]) / (upper - lower)[:, np.newaxis], 0.0, 1.0)
    shares = np.average(np.diff(reached, axis=1), axis=0, weights=weight)
    return JointRankHistogram(shares, edges, kind, effective_rows(weight, len(y)))


def rank_ranges(y: FloatArray, dist: JointDistribution, kind: str) -> tuple[FloatArray, FloatArray]:
    """Return the range of the levels of each observed vector. Both ends have the shape (n,)."""
    lower, upper = np.empty(len(y)), np.empty(len(y))
    for rows, points, weights in dist._blocks():
        pooled = np.concatenate([y[rows, np.newaxis], points], axis=1)
        b, total, _ = pooled.shape
        share = np.full((b, total), 1.0 / total)
        if weights is not None:
            share[:, 1:] = weights * (total - 1) / total
        ranks = 0.5 + total * _middle_levels(pooled, share)
        pre_rank = PRE_RANKS[kind](ranks, float(total))
        own = pre_rank[:, :1]
        slack = ROUNDING * np.abs(pre_rank).max(axis=1, keepdims=True)
        lower[rows] = (share * (pre_rank < own - slack)).sum(axis=1)
        upper[rows] = (share * (pre_rank <= own + slack)).sum(axis=1)
    return lower, np.minimum(upper, 1.0)


def _middle_levels(values: FloatArray, share: FloatArray) -> FloatArray:
    """Return the share of smaller values, and half the share of equal values, along axis 1."""
    order = values.argsort(axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    each = np.take_along_axis(share[..., np.newaxis], order, axis=1)
    reached = np.cumsum(each, axis=1)
    differ = ordered[:, 1:] > ordered[:, :-1]
    middle = reached - each / 2
    if not differ.all():
        # Ties have the level of their middle: `start` is before the first of them, and `stop` after the last.
        start, stop = np.zeros(values.shape), reached
        np.maximum.accumulate(np.where(differ, reached[:, :-1], 0.0), axis=1, out=start[:, 1:])
        stop[:, :-1] = np.where(differ, reached[:, :-1], np.inf)
        middle = (start + np.minimum.accumulate(stop[:, ::-1], axis=1)[:, ::-1]) / 2
    out = np.empty(values.shape)
    np.put_along_axis(out, order, middle, axis=1)
    return out


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
