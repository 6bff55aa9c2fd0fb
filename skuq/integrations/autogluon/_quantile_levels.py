"""Quantile levels for AutoGluon."""

from __future__ import annotations

from skuq._validation import check_integer

_OUTERMOST = (0.01, 0.99)


def quantile_levels(n_levels: int = 19) -> list[float]:
    """Return levels for AutoGluon's ``TabularPredictor(problem_type="quantile", quantile_levels=...)``.

    ``predict_dist(predictor, X)`` then returns a distribution through the predicted quantiles.

    Parameters
    ----------
    n_levels : int, default=19
        Number of evenly spaced levels, at least 3: 19 gives 0.05, 0.1, ..., 0.95. The levels 0.01 and 0.99
        are added, since tails beyond the outermost levels are extrapolated.

    Returns
    -------
    levels : list of float
        Increasing levels in (0, 1).

    See Also
    --------
    skuq.prediction.predict_dist : The distribution of a fitted ``TabularPredictor``.
    skuq.regressors.MultiQuantileRegressor : Quantile regression with any regressor with a quantile loss.

    Notes
    -----
    AutoGluon selects models by the mean pinball loss over the levels. Over evenly spaced levels this is about
    half the CRPS, so no skuq metric is needed. Metrics of skuq cannot be used in AutoGluon, because it does
    not pass the estimator to a metric. With metrics other than ``pinball_loss``, version 1.6 drops LightGBM
    without an error, unless ``hyperparameters={"GBM": {"ag.stopping_metric": "pinball_loss"}}``.

    LightGBM fits a separate model for each level, so the time grows with the number of levels.

    Examples
    --------
    >>> from skuq.integrations.autogluon import quantile_levels
    >>> quantile_levels(4)
    [0.01, 0.2, 0.4, 0.6, 0.8, 0.99]
    """
    n = check_integer(n_levels, "n_levels", 3)
    even = [round(i / (n + 1), 12) for i in range(1, n + 1)]
    return sorted({*even, *_OUTERMOST})
