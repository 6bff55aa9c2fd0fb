"""The levels that AutoGluon is fitted at."""

from __future__ import annotations

from skuq._validation import check_integer

_OUTERMOST = (0.01, 0.99)


def quantile_levels(n_levels: int = 19) -> list[float]:
    """Return levels for AutoGluon's ``TabularPredictor(problem_type="quantile", quantile_levels=...)``.

    A fitted predictor then has a distribution through these quantiles: ``predict_dist(predictor, X)``.

    Parameters
    ----------
    n_levels : int, default=19
        Number of evenly spaced levels, at least 3: 19 are 0.05, 0.1, ..., 0.95. The levels 0.01 and 0.99 are
        added, since tails outside of the outermost levels are assumed.

    Returns
    -------
    levels : list of float
        Increasing, in (0, 1).

    See Also
    --------
    skuq.prediction.predict_dist : The distribution of a fitted ``TabularPredictor``.
    skuq.regressors.MultiQuantileRegressor : Quantile regression with any regressor that has such a loss.

    Notes
    -----
    AutoGluon selects by the mean pinball loss over the levels, its default for these problems. Over evenly
    spaced levels that is about half the CRPS, so that it selects by CRPS already, and no metric of skuq has
    to be handed to it. It could not be in any case: AutoGluon passes no estimator to a metric, and with any
    other metric than ``pinball_loss`` version 1.6 drops LightGBM without an error, unless
    ``hyperparameters={"GBM": {"ag.stopping_metric": "pinball_loss"}}``.

    Each level is a model of its own in LightGBM, so that the time grows with the number of levels.

    Examples
    --------
    >>> from skuq.integrations.autogluon import quantile_levels
    >>> quantile_levels(4)
    [0.01, 0.2, 0.4, 0.6, 0.8, 0.99]
    """
    n = check_integer(n_levels, "n_levels", 3)
    even = [round(i / (n + 1), 12) for i in range(1, n + 1)]
    return sorted({*even, *_OUTERMOST})
