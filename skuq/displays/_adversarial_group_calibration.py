"""Adversarial group calibration: the calibration error of the worst random group against the group size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq.displays._display import CurveDisplay, as_folds, as_list, one_or_list
from skuq.displays._drawing import PERFECT, Axes, Style, check_matplotlib, has_label
from skuq.distributions import Normal
from skuq.metrics import adversarial_group_calibration_curve

_ERRORS = {"mace": "Mean absolute", "rmsce": "Root mean squared"}


@dataclass(kw_only=True, eq=False, repr=False)
class AdversarialGroupCalibrationDisplay(CurveDisplay):
    """Calibration error of the worst random group of rows against the size of the group.

    The plot shows whether a model is calibrated in parts of the data, or only on average. The right end of
    the curve is the calibration error over all rows. The dashed line is the curve of a perfectly calibrated
    model with the same number of rows. This curve is not 0, because the errors of small groups vary by
    chance. If the curve of a model is above the dashed line for small groups, the model is not calibrated in
    some parts of the data. The band is the mean over the resamples plus or minus two standard errors.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add another model to
    the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    fractions : ndarray of shape (k,)
        Group sizes, as fractions of the number of rows.
    worst : ndarray of shape (k, n_resamples), or list of ndarray
        Error of the worst group in each resample. A list has one array per fold.
    reference : ndarray of shape (k,), default=None
        Mean error of a perfectly calibrated model.
    error : {"mace", "rmsce"}, default="mace"
        Kind of error. Shown in the axis label.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D or list of Line2D
        The curve of the mean over the resamples. A list has one line per fold.
    band_ : matplotlib.collections.PolyCollection or None
        The band of two standard errors around the mean. None if `band` is False, or if there are several
        folds.
    ref_line_ : matplotlib.lines.Line2D or None
        The curve of a perfectly calibrated model. None if `ref_line` is False, or if an earlier display has
        drawn a curve of this kind on the same axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.metrics.adversarial_group_calibration_curve : Computes the plotted numbers.
    CalibrationCurveDisplay : Average calibration at every level.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import AdversarialGroupCalibrationDisplay
    >>> rng = np.random.default_rng(0)
    >>> scale = np.repeat([0.5, 2.0], 500)
    >>> y = scale * rng.normal(size=1000)
    >>> display = AdversarialGroupCalibrationDisplay.from_predictions(y, Normal(0 * y, np.ones(1000)))
    >>> bool(display.worst.mean(axis=1)[-1] > display.reference[-1])
    True
    """

    fractions: FloatArray
    worst: FloatArray | list[FloatArray]
    reference: FloatArray | None = None
    error: str = "mace"
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        band: bool = True,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        ref_line : bool, default=True
            Whether to draw the curve of a perfectly calibrated model. It is drawn only once on the same axes.
        band : bool, default=True
            Whether to draw a band of two standard errors around the curve. No band is drawn for the results
            of several folds.
        line_kwargs : dict, default=None
            Keywords for the curve, passed to ``Axes.plot``.
        ref_line_kwargs : dict, default=None
            Keywords for the curve of the perfectly calibrated model, passed to ``Axes.plot``.
        fill_kwargs : dict, default=None
            Keywords for the band, passed to ``Axes.fill_between``.

        Returns
        -------
        display : AdversarialGroupCalibrationDisplay
            The display itself.
        """
        self._use_axes(ax, (6.4, 4.5))
        folds: list[FloatArray] = as_list(self.worst)
        size = 100 * self.fractions
        means = [100 * worst.mean(axis=1) for worst in folds]
        color = self._draw_curves([(size, mean) for mean in means], name, line_kwargs, markersize=4.0)
        self.band_ = None
        if band and len(folds) == 1 and folds[0].shape[1] > 1:
            error = 200 * folds[0].std(axis=1, ddof=1) / np.sqrt(folds[0].shape[1])
            ends = means[0] - error, means[0] + error
            self.band_ = self._draw_fill(size, *ends, fill_kwargs, color=color, label="± 2 standard errors")
        self.ref_line_ = None
        if ref_line and self.reference is not None and not has_label(self.ax_, PERFECT):
            style = {**self._reference_line(), "label": PERFECT, "zorder": 1.9}
            self.ref_line_ = self._draw_line(
                size, 100 * self.reference, ref_line_kwargs, "ref_line_kwargs", **style
            )
        kind = _ERRORS.get(self.error, self.error)
        self.ax_.set_ylim(0, 1.05 * self.ax_.dataLim.y1)
        return self._finish(
            "Size of the groups (% of all rows)",
            f"{kind} calibration error\nof the worst group (percentage points)",
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        error: str = "mace",
        options: dict[str, Any] | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the adversarial group calibration of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target.
        error : {"mace", "rmsce"}, default="mace"
            Error of a group.
        options : dict, default=None
            Other keywords of `skuq.metrics.adversarial_group_calibration_curve`: `fractions`, `levels`,
            `n_groups`, `n_resamples` and `random_state`. The default of `random_state` is 0, so that all
            curves use the same groups.
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
        display : AdversarialGroupCalibrationDisplay
            The drawn display.
        """
        check_matplotlib("AdversarialGroupCalibrationDisplay.from_predictions")
        folds = as_folds(y_true, y_pred, sample_weight)
        keywords = {"random_state": 0, **(options or {}), "error": error}
        curves = [fold.call(adversarial_group_calibration_curve, **keywords) for fold in folds]
        rows = [fold.count_rows() for fold in folds]
        return cls(
            fractions=curves[0].fractions,
            worst=one_or_list([curve.worst for curve in curves]),
            reference=perfect_curve(round(float(np.mean(rows))), keywords),
            error=error,
            name=name,
        ).plot(ax, **kwargs)


def perfect_curve(n: int, keywords: dict[str, Any], n_simulations: int = 10) -> FloatArray:
    # The error depends only on the PIT, so the result for normal targets is valid for all distributions.
    rng = np.random.default_rng(0)
    forecast = Normal(np.zeros(n), np.ones(n))
    curves = [
        adversarial_group_calibration_curve(
            rng.standard_normal(n), forecast, **{**keywords, "n_resamples": 1, "random_state": seed}
        ).worst
        for seed in range(n_simulations)
    ]
    return np.asarray(np.mean(curves, axis=(0, 2)))
