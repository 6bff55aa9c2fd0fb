"""Plot of observed values against the prediction or a feature, with prediction bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skuq._compat import safe_indexing
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_coverage,
    check_integer,
    check_sample_weight,
    check_target,
)
from skuq.displays._display import Display, Fold
from skuq.displays._drawing import (
    ATOM_ALPHA,
    BLUE,
    Axes,
    Style,
    atom_label,
    check_column,
    check_matplotlib,
    choose_rows,
    merge_style,
    percent,
    rows_that_count,
    shared_atoms,
)
from skuq.displays._interval import finite_bounds
from skuq.distributions import as_distribution

_ATOM_WIDTH = 10.0
"""Thickness of an atom of probability 1, in points."""


@dataclass(kw_only=True, eq=False, repr=False)
class PredictionBandDisplay(Display):
    """Observed values against predicted values, with prediction intervals as bands.

    The plot shows the errors of the predictions, and whether the width of the band follows the errors. A band
    may be too narrow at one end and too wide at the other although its average coverage is nominal. If the
    horizontal axis is a feature, the plot also shows how the prediction depends on the feature.

    Each bound of the band is a mean over groups of neighboring rows. There are at most `max_bins` groups of
    about equal size, and rows with the same x are in one group. If there are at most `max_bins` rows, each
    row is one group.

    If forecasts have a continuous part and the same one to three atoms, such as the zero of a
    `~skuq.regressors.HurdleRegressor`, each atom is a horizontal line. Its thickness is the mean probability
    of the atom in each group. The line is also visible where all intervals have width 0.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`.

    Parameters
    ----------
    y_true : ndarray of shape (n,)
        Observed targets.
    y_pred : ndarray of shape (n,)
        Point predictions.
    bounds : ndarray of shape (n, 2, k)
        Lower and upper bounds at each coverage.
    coverage : ndarray of shape (k,)
        Nominal coverage of each band, in (0, 1).
    x : ndarray of shape (n,), default=None
        Horizontal positions of the rows. None means the predictions.
    sample_weight : ndarray of shape (n,), default=None
        Number of repetitions of each row. All are positive.
    target_name : str, default="target"
        Name of the target with its unit. Shown in the axis labels.
    x_name : str, default=None
        Name of `x` with its unit. Shown in the axis label.
    name : str, default=None
        Title of the axes.
    atoms : dict of float to ndarray of shape (n,), default=None
        Predicted probability of each atom in every row, by the value of the atom.

    Attributes
    ----------
    bands_ : list of matplotlib.collections.PolyCollection
        One band for each coverage, the widest first.
    line_ : matplotlib.lines.Line2D
        The line of the predictions. If the horizontal axis is the prediction, this line is the diagonal.
    scatter_ : matplotlib.collections.PathCollection
        The observed values.
    atoms_ : matplotlib.collections.LineCollection or None
        The atoms; None without atoms.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    IntervalDisplay : The interval of each single row.
    CalibrationCurveDisplay : Calibration at all levels.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import PredictionBandDisplay
    >>> rng = np.random.default_rng(0)
    >>> loc = rng.uniform(1.0, 5.0, size=500)
    >>> y = rng.normal(loc, 0.2 * loc)
    >>> display = PredictionBandDisplay.from_predictions(y, Normal(loc, 0.2 * loc), coverage=[0.5, 0.9])
    >>> len(display.bands_)
    2
    """

    y_true: FloatArray
    y_pred: FloatArray
    bounds: FloatArray
    coverage: FloatArray
    x: FloatArray | None = None
    sample_weight: FloatArray | None = None
    target_name: str = "target"
    x_name: str | None = None
    name: str | None = None
    atoms: dict[float, FloatArray] | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        max_rows: int | None = 1000,
        max_bins: int = 40,
        line_kwargs: Style = None,
        scatter_kwargs: Style = None,
        fill_kwargs: Style = None,
        atom_kwargs: Style = None,
    ) -> Self:
        """Draw the bands.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Title. None uses the attribute `name`.
        max_rows : int or None, default=1000
            Maximum number of observed values to draw. The drawn values are evenly spaced in the sorted
            order. None draws all values. The bands use all rows.
        max_bins : int, default=40
            Maximum number of groups of neighboring rows for the bands.
        line_kwargs : dict, default=None
            Keywords for the prediction, passed to ``Axes.plot``.
        scatter_kwargs : dict, default=None
            Keywords for the observed values, passed to ``Axes.scatter``.
        fill_kwargs : dict, default=None
            Keywords for the bands, passed to ``Axes.fill_between``.
        atom_kwargs : dict, default=None
            Keywords for the atoms, passed to ``Axes.hlines``.

        Returns
        -------
        display : PredictionBandDisplay
            The display itself.
        """
        self._use_axes(ax, (6.4, 5.4))
        check_integer(max_bins, "max_bins", minimum=2)
        x = self.y_pred if self.x is None else self.x
        order = np.argsort(x, kind="stable")
        groups = neighbors(x[order], order, max_bins)
        # The band extends to the first and last row, with the bounds of the first and last group.
        ends = order[[0, -1]] if len(order) > max_bins else np.empty(0, dtype=np.intp)
        places = _with_ends(local_means(x, groups, self.sample_weight), x[ends])
        line = local_means(self.y_pred, groups, self.sample_weight)
        line = _with_ends(line, self.y_pred[ends] if self.x is None else line[[0, -1]][: len(ends)])
        self._draw_bands(places, line, groups, fill_kwargs)
        self._draw_atoms(places, groups, atom_kwargs)
        rows = order[choose_rows(len(order), max_rows)]
        self.scatter_ = self._draw_rows(x[rows], self.y_true[rows], len(x), "Observed", scatter_kwargs)
        style: dict[str, Any] = {"color": self._ink, "linewidth": 1.2, "label": "Prediction"}
        self.line_ = self._draw_line(places, line, line_kwargs, **style)
        self._draw_title(self.name if name is None else name)
        self.ax_.margins(x=0.02)
        xlabel = f"Predicted {self.target_name}" if self.x is None else self.x_name or "x"
        return self._finish(xlabel, f"Observed {self.target_name}", frameon=False)

    def _draw_bands(self, places: FloatArray, line: FloatArray, groups: list[IntArray], style: Style) -> None:
        self.bands_ = []
        widest_first = np.argsort(-self.coverage, kind="stable")
        for depth, column in enumerate(widest_first):
            bounds = finite_bounds(self.bounds[:, :, column], self.y_true)
            mean = np.column_stack([local_means(side, groups, self.sample_weight) for side in bounds.T])
            if len(line) > len(mean):
                # The ends of the band are parallel to the prediction, but inside the support.
                step = np.diff(line)[[0, -1], np.newaxis] * [[-1.0], [1.0]]
                first, last = np.clip(mean[[0, -1]] + step, bounds.min(), bounds.max())
                mean = np.vstack([first, mean, last])
            default: dict[str, Any] = {"color": BLUE, "alpha": min(0.22 + 0.12 * depth, 0.6)}
            default |= {"linewidth": 0.8, "zorder": 1.0, "gid": None}
            default["label"] = f"{percent(self.coverage[column])} prediction interval"
            self.bands_.append(self._draw_fill(places, mean[:, 0], mean[:, 1], style, **default))

    def _draw_atoms(self, places: FloatArray, groups: list[IntArray], style: Style) -> None:
        self.atoms_ = None
        if not self.atoms:
            return
        value = np.array(list(self.atoms))
        mean = np.stack([local_means(mass, groups, self.sample_weight) for mass in self.atoms.values()])
        if len(places) > mean.shape[1]:
            mean = mean[:, [0, *range(mean.shape[1]), -1]]
        width = _ATOM_WIDTH * (mean[:, 1:] + mean[:, :-1]) / 2
        thickest = np.argsort(-width, axis=None)  # The legend shows the first line.
        atom, start = np.unravel_index(thickest, width.shape)
        default = {"color": BLUE, "alpha": ATOM_ALPHA, "linewidths": width[atom, start]}
        default["label"] = atom_label(self.atoms, "thickness")
        merged = merge_style("collections.LineCollection", default, style, "atom_kwargs")
        self.atoms_ = self.ax_.hlines(value[atom], places[start], places[start + 1], **merged)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        coverage: ArrayLike = DEFAULT_COVERAGE,
        x: ArrayLike | None = None,
        target_name: str = "target",
        x_name: str | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the bands of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. In (0, 1). There is one band for each coverage.
        x : array-like of shape (n,), default=None
            Horizontal positions of the rows, such as a feature. None means the predictions.
        target_name : str, default="target"
            Name of the target with its unit. Shown in the axis labels.
        x_name : str, default=None
            Name of `x` with its unit. Shown in the axis label.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row. The bands depend on it. Rows of weight 0 are not drawn.
        name : str, default=None
            Title of the axes.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : PredictionBandDisplay
            The drawn display.
        """
        check_matplotlib("PredictionBandDisplay.from_predictions")
        target = check_target(y_true, "y_true")
        dist = as_distribution(y_pred, y_true=y_true)
        if len(dist) != len(target):
            raise ValueError(f"`y_pred` must have {len(target)} rows, as many as `y_true`, got {len(dist)}.")
        coverages = np.atleast_1d(check_coverage(coverage))
        weight = check_sample_weight(sample_weight, len(target))
        place = None if x is None else check_column(x, "x", len(target))
        if weight is not None:
            counts = rows_that_count(weight, len(weight))
            target, dist, weight = target[counts], dist[counts], weight[counts]
            place = None if place is None else place[counts]
        return cls(
            y_true=target,
            y_pred=dist.mean(),
            bounds=dist.interval(coverages),
            coverage=coverages,
            x=place,
            sample_weight=weight,
            target_name=target_name,
            x_name=x_name,
            name=name,
            atoms=shared_atoms(dist),
        ).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, feature: int | str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the bands of a fitted estimator.

        Parameters
        ----------
        estimator : object
            Fitted estimator that `~skuq.prediction.predict_dist` supports.
        X : array-like of shape (n, p)
            Features. Use rows on which the estimator was not trained.
        y : array-like of shape (n,)
            Observed target.
        feature : int or str, default=None
            Column of `X` for the horizontal axis. None means the predictions.
        **kwargs : dict
            The other keywords of `from_predictions`, including `sample_weight`, `name` and `ax`.

        Returns
        -------
        display : PredictionBandDisplay
            The drawn display.
        """
        return super().from_estimator(estimator, X, y, **{**over_feature(X, feature), **kwargs})

    @classmethod
    def from_cv_results(
        cls,
        cv_results: Mapping[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        feature: int | str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the bands of cross-validated models for the test rows of all folds together.

        Parameters
        ----------
        cv_results : dict
            Result of scikit-learn's ``cross_validate(..., return_estimator=True, return_indices=True)``.
        X : array-like of shape (n, p)
            Features passed to ``cross_validate``.
        y : array-like of shape (n,)
            Target passed to ``cross_validate``.
        feature : int or str, default=None
            Column of `X` for the horizontal axis. None means the predictions.
        **kwargs : dict
            The other keywords of `from_predictions`, including `sample_weight`, `name` and `ax`. If `x` is
            given, it must have one value per row of `X`.

        Returns
        -------
        display : PredictionBandDisplay
            The drawn display.
        """
        return super().from_cv_results(cv_results, X, y, **{**over_feature(X, feature), **kwargs})

    @classmethod
    def _from_folds(cls, folds: Sequence[Fold], **kwargs: Any) -> Self:
        if kwargs.get("x") is not None and folds[0].rows is not None:
            kwargs["x"] = safe_indexing(kwargs["x"], np.concatenate([fold.rows for fold in folds]))
        return super()._from_folds(folds, **kwargs)


def over_feature(X: Any, feature: int | str | None) -> dict[str, Any]:
    if feature is None:
        return {}
    name = feature if isinstance(feature, str) else f"Feature {feature}"
    return {"x": safe_indexing(X, feature, axis=1), "x_name": name}


def _with_ends(values: FloatArray, ends: FloatArray) -> FloatArray:
    return np.concatenate([ends[:1], values, ends[1:]])


def neighbors(places: FloatArray, rows: IntArray, max_bins: int) -> list[IntArray]:
    """Split sorted rows into groups of about equal size. Rows at the same place are in one group."""
    even = [part[0] for part in np.array_split(np.arange(len(rows)), min(max_bins, len(rows)))]
    least = len(rows) / len(even) / 2
    starts = [0]
    for start in np.unique(np.searchsorted(places, places[even])):
        if min(start - starts[-1], len(rows) - start) >= least:
            starts.append(int(start))
    return np.split(rows, starts[1:])


def local_means(values: FloatArray, groups: list[IntArray], weight: FloatArray | None = None) -> FloatArray:
    return np.array(
        [np.average(values[rows], weights=None if weight is None else weight[rows]) for rows in groups]
    )
