"""Proper scores compared with the score of a reference forecast that does not depend on X."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skuq._numeric import standard_deviation
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_target
from skuq.distributions import Distribution, Empirical, Normal, as_distribution
from skuq.metrics._inputs import check_forecast
from skuq.metrics._spec import Means, metric, value_of

REFERENCES = ("y_train", "reference")


def crpss_rows(
    y: FloatArray, dist: Distribution, *, y_train: Any, reference: Any
) -> tuple[FloatArray, FloatArray]:
    if y_train is not None:
        return dist.crps(y), climatology_crps(y, y_train)
    return dist.crps(y), reference_crps(y, check_reference(reference, y, None))


def crps_skill(y_train: ArrayLike | None, reference: Any) -> Means:
    check_one_reference(y_train, reference)
    sample = None if y_train is None else check_target(y_train, "y_train")
    return Means(partial(crpss_rows, y_train=sample, reference=reference), crpss_of_means)


def crpss_of_means(means: FloatArray) -> FloatArray:
    score, against = means[..., 0], means[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(against > 0, 1.0 - score / against, np.where(score == 0, 0.0, -np.inf))


@metric(
    "crpss",
    title="CRPS skill score",
    direction="higher",
    optimum=1.0,
    bounds=(-np.inf, 1.0),
    needs="distribution",
    one_of=REFERENCES,
    source="Gneiting & Raftery 2007, section 2.3",
    meaning="{percent} of the way from the reference to a perfect forecast",
    kernel=crps_skill,
)
def crps_skill_score(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    reference: Any = None,
) -> float:
    r"""Return the CRPS skill score: the relative improvement of the CRPS over a reference forecast.

    The larger the better, maximum is one. On one test set, the score and `crps_loss` rank models in the same
    order. The score has no units, so it can be compared between data sets. The metric is not proper. If the
    score is averaged over small samples, such as folds, a sample that the reference predicts well has a large
    weight. Forecasts that are too narrow can then have better values than the true distribution (see the
    example). Select models by `crps_loss`, and report the skill score.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    y_train : array-like of shape (m,), default=None
        Targets of the training rows. Their empirical distribution is the reference (climatology). Do not pass
        the test targets. For a scorer, use ``make_scorer("crpss", y_train=y)``.
    reference : Distribution or frozen scipy distribution, default=None
        Reference forecast. It has n rows, or one row that is used for all targets. Pass exactly one of
        `y_train` and `reference`.

    Returns
    -------
    score : float
        At most 1. The score of the reference itself is 0. If the reference is perfect, the score is 0 for a
        perfect forecast, and minus infinity for any other forecast.

    See Also
    --------
    crps_loss : The score in the units of y.
    mean_standardized_log_loss : The logarithmic score relative to a reference.

    Notes
    -----
    .. math:: 1 - \frac{\sum_i \mathrm{CRPS}(F_i, y_i)}{\sum_i \mathrm{CRPS}(F_i^\mathrm{ref}, y_i)}

    With `y_train`, the time is O((n + m) log m).

    References
    ----------
    .. [1] Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation, section
       2.3. https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_skill_score
    >>> round(crps_skill_score([1.0, 4.0], Normal([1.5, 3.5], [1.0, 1.0]), y_train=[0.0, 2.0, 6.0]), 4)
    0.7159

    If the score is averaged over samples of one row, a forecast that is too narrow has a better value:

    >>> y = np.random.default_rng(0).normal(size=20_000)
    >>> reference = Normal(0 * y, 1 + 0 * y).crps(y)
    >>> [round(float(np.mean(1 - Normal(0 * y, s + 0 * y).crps(y) / reference)), 2) for s in (1.0, 0.6)]
    [0.0, 0.05]
    """
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    if reference is not None:
        reference = check_reference(reference, y_true, sample_weight)
    return value_of(crps_skill(y_train, reference), y, dist, weight)


def check_one_reference(y_train: object, reference: object) -> None:
    if (y_train is None) == (reference is None):
        raise TypeError(
            "exactly one of `y_train` and `reference` must be given, got "
            f"{'neither' if y_train is None else 'both'}. Pass the training targets as `y_train`, or a "
            "forecast as `reference`. Do not pass the test targets."
        )


def check_reference(reference: Any, y_true: ArrayLike, sample_weight: ArrayLike | None) -> Distribution:
    dist = as_distribution(reference, "reference", y_true)
    if len(dist) == 1:
        return dist
    n = np.shape(y_true)[0]
    if len(dist) != n:
        raise ValueError(f"`reference` must have {n} rows or one row, got {len(dist)}.")
    return check_forecast(y_true, dist, sample_weight)[1]


def repeat(dist: Distribution, n: int) -> Distribution:
    return dist if len(dist) == n else dist[np.zeros(n, dtype=np.intp)]


def reference_crps(y: FloatArray, reference: Distribution) -> FloatArray:
    if len(reference) == 1 and isinstance(reference, Empirical) and reference.weights is None:
        return climatology_crps(y, reference.members[0])
    return repeat(reference, y.size).crps(y)


def climatology_crps(y: FloatArray, members: FloatArray) -> FloatArray:
    center = float(np.median(members))
    x = np.sort(members) - center
    target, m = y - center, x.size
    below = np.searchsorted(x, target, side="right")
    sums = np.concatenate([[0.0], np.cumsum(x)])
    distance = (target * (2 * below - m) + sums[-1] - 2 * sums[below]) / m
    half_difference = float(x @ (2 * np.arange(1, m + 1) - m - 1)) / m**2
    return np.asarray(np.maximum(distance - half_difference, 0.0))


def msll_rows(y: FloatArray, dist: Distribution, *, reference: Any) -> tuple[FloatArray, FloatArray]:
    return repeat(check_reference(reference, y, None), y.size).logpdf(y), dist.logpdf(y)


def standardized_log_loss(y_train: ArrayLike | None, reference: Any) -> Means:
    check_one_reference(y_train, reference)
    against = reference if y_train is None else normal_of(check_target(y_train, "y_train"))
    return Means(partial(msll_rows, reference=against), msll_of_means)


def msll_of_means(means: FloatArray) -> FloatArray:
    against, own = means[..., 0], means[..., 1]
    with np.errstate(invalid="ignore"):  # The difference is NaN if both means are minus infinity.
        return np.where(own == -np.inf, np.inf, against - own)


@metric(
    "msll",
    title="MSLL",
    direction="lower",
    optimum=-np.inf,
    needs="density",
    proper=True,
    one_of=REFERENCES,
    source="Rasmussen & Williams 2006, section 2.5",
    kernel=standardized_log_loss,
)
def mean_standardized_log_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    reference: Any = None,
) -> float:
    r"""Return the mean standardized log loss (MSLL): the log score minus the score of a reference.

    The smaller the better, without a minimum. The metric is strictly proper like `nll_loss`, because the
    score of the reference does not depend on the model. The value is in nats and does not depend on the units
    of y. For outliers or distributions without a density, use `crps_skill_score`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. The forecast must have a density.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    y_train : array-like of shape (m,), default=None
        Targets of the training rows. The reference is the normal distribution with the mean and variance
        (divisor m) of these targets. Do not pass the test targets. For a scorer, use ``make_scorer("msll",
        y_train=y)``.
    reference : Distribution or frozen scipy distribution, default=None
        Reference forecast. It has n rows, or one row that is used for all targets. Pass exactly one of
        `y_train` and `reference`.

    Returns
    -------
    loss : float
        In nats. The value of the reference itself is 0. Infinite if the density of the forecast at a target
        is 0.

    Raises
    ------
    NoDensityError
        If the forecast or the reference has atoms, such as an ensemble or a scale of 0.

    See Also
    --------
    nll_loss : The log score.

    Notes
    -----
    .. math:: \frac1n \sum_i \bigl(\log f_i^\mathrm{ref}(y_i) - \log f_i(y_i)\bigr)

    References
    ----------
    .. [1] Rasmussen and Williams (2006), Gaussian processes for machine learning, section 2.5.
       https://doi.org/10.7551/mitpress/3206.001.0001

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import mean_standardized_log_loss
    >>> dist = Normal([1.5, 3.5], [1.0, 1.0])
    >>> round(mean_standardized_log_loss([1.0, 4.0], dist, y_train=[0.0, 2.0, 6.0]), 4)
    -0.9721
    """
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    if reference is not None:
        reference = check_reference(reference, y_true, sample_weight)
    return value_of(standardized_log_loss(y_train, reference), y, dist, weight)


def normal_of(sample: FloatArray) -> Normal:
    if sample.min() == sample.max():
        raise ValueError(f"`y_train` must contain different values, got {sample[0]:g} in every row.")
    return Normal(sample.mean(), standard_deviation(sample))
