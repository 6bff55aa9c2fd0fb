"""PIT values of two targets. Observed values are compared with values from the joint distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_random_state, check_sample_weight
from skuq.displays._display import Display
from skuq.displays._drawing import (
    BLUE,
    CURVE,
    GRAY,
    REFERENCE,
    Style,
    check_matplotlib,
    choose_rows,
    merge_style,
    rows_that_count,
)
from skuq.distributions import JointDistribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class JointPairDisplay(Display):
    """Observed PIT values of two targets, and PIT values that are drawn from the joint distributions.

    The PIT of a target is the predicted probability of a value at or below the target. If the dependence is
    calibrated, the observed points fill the unit square in the same way as the predicted points. If the
    observed points lie along a diagonal and the predicted points fill the whole square, the predicted
    dependence is too weak. If the marginals are calibrated, the observed points are uniform in each
    direction.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`.

    Parameters
    ----------
    observed : ndarray of shape (n, 2)
        PIT values of the observed targets.
    predicted : ndarray of shape (n, 2)
        PIT values of one random draw per row.
    targets : tuple of two str
        Names of the targets.
    name : str, default=None
        Title of the plot.

    Attributes
    ----------
    observed_ : matplotlib.collections.PathCollection
        The observed points.
    predicted_ : matplotlib.collections.PathCollection
        The predicted points.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    JointRankHistogramDisplay : Calibration of the joint distribution of all targets.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.multivariate import JointPairDisplay
    >>> from skuq.multivariate import NormalJoint
    >>> y = np.random.RandomState(0).multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], size=500)
    >>> display = JointPairDisplay.from_predictions(y, NormalJoint(np.zeros((500, 2)), np.eye(2)))
    >>> [float(np.corrcoef(points.T)[0, 1].round(1)) for points in (display.observed, display.predicted)]
    [0.8, 0.0]
    """

    observed: FloatArray
    predicted: FloatArray
    targets: tuple[str, str]
    name: str | None = None

    _of_joints = True

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        max_points: int = 1000,
        scatter_kwargs: Style = None,
        predicted_kwargs: Style = None,
    ) -> Self:
        """Draw the points.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Title. None uses the attribute `name`.
        max_points : int, default=1000
            Maximum number of rows to draw. The drawn rows are evenly spaced over all rows.
        scatter_kwargs : dict, default=None
            Keywords for the observed points, passed to ``Axes.scatter``.
        predicted_kwargs : dict, default=None
            Keywords for the predicted points, passed to ``Axes.scatter``.

        Returns
        -------
        display : JointPairDisplay
            The display itself.
        """
        self._use_axes(ax, (4.8, 4.8))
        rows = choose_rows(len(self.observed), max_points)
        base = {"s": 10, "linewidth": 0.0}
        drawn = []
        for points, default, style, keyword in (
            (
                self.predicted,
                {
                    "color": GRAY,
                    "marker": "x",
                    "alpha": 0.7,
                    "linewidth": 0.8,
                    "label": "Predicted",
                    "gid": REFERENCE,
                },
                predicted_kwargs,
                "predicted_kwargs",
            ),
            (
                self.observed,
                {"color": BLUE, "alpha": 0.7, "label": "Observed", "gid": CURVE},
                scatter_kwargs,
                "scatter_kwargs",
            ),
        ):
            merged = merge_style("collections.PathCollection", {**base, **default}, style, keyword)
            drawn.append(self.ax_.scatter(*(100 * points[rows]).T, **merged))
        self.predicted_, self.observed_ = drawn
        first, second = self.targets
        self.ax_.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
        self._draw_title(self.name if name is None else name)
        return self._finish(f"PIT of {first} (%)", f"PIT of {second} (%)")

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        targets: tuple[str | int, str | int] = (0, 1),
        random_state: int | np.random.RandomState | None = 0,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the PIT values of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n, d)
            Observed targets. Use rows on which the model was not trained.
        y_pred : JointDistribution
            Forecast of every target. It has n rows and at least two targets.
        targets : tuple of two str or int, default=(0, 1)
            Names or columns of the two targets.
        random_state : int, RandomState instance or None, default=0
            Controls the predicted points, and the PIT values of targets that equal an atom.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row. Rows of weight 0 are left out.
        name : str, default=None
            Title of the plot.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : JointPairDisplay
            The drawn display.
        """
        check_matplotlib("JointPairDisplay.from_predictions")
        if not isinstance(y_pred, JointDistribution):
            raise TypeError(f"`y_pred` must be a JointDistribution, got {type(y_pred).__name__}.")
        rng = check_random_state(random_state)
        pit = y_pred.pit(y_true, rng)
        rows = rows_that_count(check_sample_weight(sample_weight, len(pit)), len(pit))
        dist = y_pred[rows]
        if len(targets) != 2:
            raise ValueError(f"`targets` must be two names or columns, got {targets!r}.")
        columns = [dist._find(target) for target in targets]
        if columns[0] == columns[1]:
            raise ValueError(f"`targets` must be two different targets, got {targets!r}.")
        draws = dist.sample(1, rng)[:, 0]
        display = cls(
            observed=pit[rows][:, columns],
            predicted=dist.pit(draws, rng)[:, columns],
            targets=(_label(dist, columns[0]), _label(dist, columns[1])),
            name=name,
        )
        return display.plot(ax, **kwargs)


def _label(dist: Any, column: int) -> str:
    return f"target {column}" if dist.names is None else str(dist.names[column])
