"""Adversarial group calibration: the calibration error of the worst random group of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_integer, check_option, check_random_state, effective_rows
from skuq.metrics._average_calibration import calibration_error, curve_of_levels, root_calibration_error
from skuq.metrics._inputs import check_forecast
from skuq.metrics._kernels import level_grid
from skuq.metrics._levels import KINDS, level_rows
from skuq.metrics._spec import Means, column_sums, metric, value_of

MOST_ROWS = 10**9
"""There must be fewer rows than this, because numpy cannot draw more rows from the multivariate
hypergeometric distribution."""

MOST_PICKED, PICKS_PER_COUNT = 20_000, 10
"""Largest number of rows, and of rows of a group per count, for which numpy's method "count" is used. For
more rows, "marginals" is faster."""

GROUP_ERRORS = {"mace": calibration_error, "rmsce": root_calibration_error}


@dataclass(frozen=True, eq=False)
class AdversarialGroupCalibrationCurve:
    """Calibration error of the worst random groups; returned by `adversarial_group_calibration_curve`.

    Parameters
    ----------
    fractions : ndarray of shape (k,)
        Group sizes, as fractions of the number of rows.
    worst : ndarray of shape (k, n_resamples)
        Error of the worst group in each resample.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import adversarial_group_calibration_curve
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> dist = Normal(np.zeros(1000), np.ones(1000))
    >>> curve = adversarial_group_calibration_curve(y, dist, fractions=[0.1, 1.0], random_state=0)
    >>> curve.fractions, curve.worst.shape
    (array([0.1, 1. ]), (2, 10))
    """

    fractions: FloatArray
    worst: FloatArray


def adversarial_group_calibration_curve(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    fractions: ArrayLike | None = None,
    levels: int | ArrayLike = 99,
    kind: str = "quantile",
    error: str = "mace",
    n_groups: int = 20,
    n_resamples: int = 10,
    min_group_size: int = 2,
    replace: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> AdversarialGroupCalibrationCurve:
    r"""Return the calibration error of the worst random group of rows for each group size.

    The curve shows whether a forecast is also calibrated in subsets of the rows. The right end of the curve
    is the calibration error over all rows. Even a perfect forecast has a positive error in small groups, and
    the maximum over random groups increases with the number of groups. Therefore, compare the curves of
    several models. If one model has a much larger error in small groups than the other models, this model is
    miscalibrated in some subsets.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. Groups are drawn from the repeated rows. If weights are fractional,
        the total weight of the rows whose PIT lies between two adjacent levels is rounded to a whole number.
    fractions : array-like of shape (k,), default=None
        Group sizes, as fractions of the number of rows, in [0, 1]. None means ten equally spaced sizes from
        1 % to 100 % [1]_. Uncertainty Toolbox uses ``np.linspace(0, 1, 10)``.
    levels : int or array-like, default=99
        Probabilities in [0, 1] at which the calibration of each group is measured. See
        `mean_absolute_calibration_error`.
    kind : {"quantile", "interval"}, default="quantile"
        Definition of the observed share at level p. "quantile" is the share of targets that are at most the
        quantile at level p. "interval" is the share of targets inside the central interval of coverage p, as
        in Uncertainty Toolbox.
    error : {"mace", "rmsce"}, default="mace"
        Error of a group: mean absolute ("mace") or root mean squared ("rmsce") calibration error.
    n_groups : int, default=20
        Number of groups per resample. Each resample uses the error of its worst group. Uncertainty Toolbox
        draws 10 groups.
    n_resamples : int, default=10
        Number of resamples: how often the groups are drawn.
    min_group_size : int, default=2
        Smallest number of rows in a group.
    replace : bool, default=False
        Whether a row may enter a group more than once.
    random_state : int, RandomState instance or None, default=None
        Controls the random groups. Pass an int to get the same groups in every call. Models are then compared
        on the same groups.

    Returns
    -------
    curve : AdversarialGroupCalibrationCurve
        ``fractions`` holds the group sizes, shape (k,). ``worst`` holds the error of the worst group in each
        resample, shape (k, n_resamples). The mean of ``worst`` over the resamples is the curve of [1]_. The
        standard error of the curve is ``worst.std(axis=1, ddof=1) / np.sqrt(n_resamples)``. In Uncertainty
        Toolbox, ``score_stderr`` is the standard deviation over the resamples. It is not divided by the root
        of the number of resamples.

    See Also
    --------
    adversarial_group_calibration_error : The mean error at one group size.

    Notes
    -----
    The k levels divide [0, 1] into k + 1 segments. To compute the error of a group, only the number of PIT
    values in each segment is needed. In a random group, these numbers have a multivariate hypergeometric
    distribution. If groups are drawn with replacement, the distribution is multinomial. Therefore, each group
    requires only one random draw of k + 1 numbers. The cost of this draw does not depend on n.

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, appendix A.3. https://doi.org/10.48550/arXiv.2109.10254
    .. [2] Zhao et al. (2020), Individual calibration with randomized forecasting.
       https://doi.org/10.48550/arXiv.2006.10288

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import adversarial_group_calibration_curve
    >>> rng = np.random.default_rng(0)
    >>> scale = np.repeat([0.5, 2.0], 1000)
    >>> y = scale * rng.normal(size=2000)
    >>> dist = Normal(0 * y, scale)
    >>> curve = adversarial_group_calibration_curve(y, dist, fractions=[0.05, 0.5, 1], random_state=0)
    >>> curve.worst.mean(axis=1).round(2)
    array([0.06, 0.02, 0.01])
    """
    groups = check_groups(
        fractions, levels, kind, error, n_groups, n_resamples, min_group_size, replace, random_state
    )
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    total = effective_rows(weight, y.size)
    rows = level_rows(y, dist, groups.levels, groups.kind)
    means = column_sums((rows,), weight) / total
    return AdversarialGroupCalibrationCurve(groups.fractions, groups.worst(means, np.asarray(total)))


@dataclass(frozen=True, eq=False)
class Groups:
    fractions: FloatArray
    levels: FloatArray
    kind: str
    error: str
    shape: tuple[int, int]
    min_size: int
    replace: bool
    seed: int

    def worst(self, means: FloatArray, total: FloatArray) -> FloatArray:
        """Return the error of the worst group in each resample, shape (..., fractions, resamples).

        The shares of rows that are first covered at each level have shape (..., k + 1). The total weights of
        the rows have shape (...).
        """
        if np.max(total) >= MOST_ROWS:
            raise ValueError(
                f"`sample_weight` counts repetitions, and its sum must be below {MOST_ROWS:g}, got "
                f"{np.max(total):g}. Groups are drawn from the repeated rows. Divide the weights by a "
                "constant."
            )
        # Round the running sums instead of the counts, so that the counts add up to the rounded total. The
        # inner rounding removes the error of a sum that is halfway between two integers.
        inside = np.cumsum(means.reshape(-1, means.shape[-1]), axis=1) * np.reshape(total, (-1, 1))
        running = np.rint(np.round(inside, 6)).astype(np.int64)
        n = running[:, -1]
        # A group has at most n rows, also if `n` was rounded down.
        sizes = np.minimum(np.maximum(np.rint(np.outer(n, self.fractions)), self.min_size), n[:, np.newaxis])
        sizes = sizes.astype(np.int64)
        if n.size > 1 and not self.replace and (n == n[0]).all() and self._picks_rows(sizes[0], n[0]).all():
            found = self._of_same_groups(running, sizes[0])
        else:
            found = np.array([self._of_counts(*each) for each in zip(running, sizes, strict=True)])
        return found.reshape(*np.shape(total), self.fractions.size, self.shape[0])

    def mean_worst(self, means: FloatArray, total: FloatArray) -> FloatArray:
        return np.asarray(self.worst(means, total)[..., 0, :].mean(axis=-1))

    def _picks_rows(self, sizes: Any, n: int) -> Any:
        """Return whether numpy picks the rows of a group one by one, which is faster for small groups."""
        picks = np.minimum(sizes, n - sizes)
        return (n <= MOST_PICKED) & (picks <= PICKS_PER_COUNT * (self.levels.size + 1))

    def _of_counts(self, running: IntArray, sizes: IntArray) -> list[FloatArray]:
        """Return the errors from the number of rows that are covered at each level or at a lower level."""
        counts, rng, errors = np.diff(running, prepend=0), np.random.default_rng(self.seed), []
        for size in sizes:
            # Both methods are exact. The time of "marginals" is proportional to the number of counts.
            method = "count" if self._picks_rows(size, running[-1]) else "marginals"
            drawn = draw_counts(counts, int(size), math.prod(self.shape), method, self.replace, rng)
            errors.append(self._worst(np.cumsum(drawn, axis=-1)[:, :-1] / size))
        return errors

    def _of_same_groups(self, running: IntArray, sizes: IntArray) -> FloatArray:
        """Return the errors if all lines have the same number of rows, so that the groups are the same.

        The groups are drawn once, as places of the rows in the order of their levels.
        """
        n, rng = running[0, -1], np.random.default_rng(self.seed)
        errors = np.empty((len(running), sizes.size, self.shape[0]))
        for j, size in enumerate(sizes):
            drawn = draw_counts(np.ones(n, dtype=np.int64), size, math.prod(self.shape), "count", False, rng)
            below = np.zeros((len(drawn), n + 1), dtype=np.int32)
            np.cumsum(drawn, axis=1, dtype=np.int32, out=below[:, 1:])
            for i, inside in enumerate(running[:, :-1]):
                errors[i, j] = self._worst(below[:, inside] / size)
        return errors

    def _worst(self, observed: FloatArray) -> FloatArray:
        """Return the largest error in each resample from the observed shares of its groups."""
        return np.asarray(GROUP_ERRORS[self.error](self.levels, observed).reshape(self.shape).max(axis=1))


def check_groups(
    fractions: ArrayLike | None,
    levels: int | ArrayLike,
    kind: str,
    error: str,
    n_groups: int,
    n_resamples: int,
    min_group_size: int,
    replace: bool,
    random_state: int | np.random.RandomState | None,
) -> Groups:
    shares = np.linspace(0.01, 1, 10) if fractions is None else _check_fractions(fractions)
    grid = np.sort(level_grid(levels, closed=True))
    check_option(kind, "kind", KINDS)
    check_option(error, "error", GROUP_ERRORS)
    check_option(replace, "replace", (False, True))
    shape = check_integer(n_resamples, "n_resamples"), check_integer(n_groups, "n_groups")
    smallest = check_integer(min_group_size, "min_group_size")
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    return Groups(shares, grid, kind, error, shape, smallest, bool(replace), seed)


def worst_group_error(*, fraction: float, **options: Any) -> Means:
    _check_fractions(fraction, "fraction")
    groups = check_groups(fractions=[fraction], **options)
    curve = curve_of_levels(groups.levels, groups.kind)
    return replace(curve, combine=groups.mean_worst, spread="total")


def _check_fractions(fractions: ArrayLike, name: str = "fractions") -> FloatArray:
    shares = np.atleast_1d(as_float_array(fractions, name))
    if shares.ndim != 1 or shares.size == 0:
        raise ValueError(f"`{name}` must be a non-empty 1-D array, got shape {shares.shape}.")
    good = (shares >= 0) & (shares <= 1)
    if not good.all():
        raise ValueError(f"`{name}` must lie in [0, 1], got {shares[~good][0]:g}.")
    return shares


def draw_counts(
    counts: IntArray, size: int, n_groups: int, method: Any, replace: bool, rng: np.random.Generator
) -> IntArray:
    """Draw random groups of rows. Return their counts at each level, shape (groups, k + 1)."""
    if replace:
        return np.asarray(rng.multinomial(size, counts / counts.sum(), size=n_groups))
    return np.asarray(rng.multivariate_hypergeometric(counts, size, size=n_groups, method=method))


@metric(
    "agce",
    title="Adversarial group calibration error",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    small_sample=True,
    source="Chung et al. 2021, appendix A.3; Zhao et al. 2020",
    meaning="in the worst random group, the predicted probabilities are off by {value}",
    kernel=worst_group_error,
)
def adversarial_group_calibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    fraction: float = 0.1,
    levels: int | ArrayLike = 99,
    kind: str = "quantile",
    error: str = "mace",
    n_groups: int = 20,
    n_resamples: int = 10,
    min_group_size: int = 2,
    replace: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> float:
    r"""Return the calibration error of the worst random group of rows, averaged over resamples.

    The smaller the better, minimum is zero. The error shows whether a forecast is also calibrated in subsets
    of the rows. The error is one point of `adversarial_group_calibration_curve`. The error increases with the
    number of groups and is larger for smaller groups. Therefore, compare only values that were computed with
    the same options. The metric is not proper: a forecast that ignores X can have a better value than a
    useful, slightly miscalibrated model (see the example). Select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. Groups are drawn from the repeated rows.
    fraction : float, default=0.1
        Group size, as a fraction of the number of rows.
    levels : int or array-like, default=99
        Probabilities in [0, 1] at which the calibration of each group is measured.
    kind : {"quantile", "interval"}, default="quantile"
        Definition of the observed share at level p. "quantile" is the share of targets that are at most the
        quantile at level p. "interval" is the share of targets inside the central interval of coverage p.
    error : {"mace", "rmsce"}, default="mace"
        Error of a group: mean absolute ("mace") or root mean squared ("rmsce") calibration error.
    n_groups : int, default=20
        Number of groups per resample. Each resample uses the error of its worst group.
    n_resamples : int, default=10
        Number of resamples: how often the groups are drawn. The error is the mean over the resamples.
    min_group_size : int, default=2
        Smallest number of rows in a group.
    replace : bool, default=False
        Whether a row may enter a group more than once.
    random_state : int, RandomState instance or None, default=None
        Controls the random groups. Pass an int to get the same groups in every call. Models are then compared
        on the same groups.

    Returns
    -------
    error : float
        For an integer ``levels``, in [0, 0.5] for "mace" and in [0, 0.58] for "rmsce"; else, in [0, 1].
        The value of a calibrated forecast is about ``0.63 / sqrt(fraction * n)`` for small groups. If the
        group contains all rows, the error equals `mean_absolute_calibration_error`.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    adversarial_group_calibration_curve : The error for several group sizes.
    mean_absolute_calibration_error : The error over all rows.

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, appendix A.3. https://doi.org/10.48550/arXiv.2109.10254
    .. [2] Zhao et al. (2020), Individual calibration with randomized forecasting.
       https://doi.org/10.48550/arXiv.2006.10288

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import adversarial_group_calibration_error, crps_loss
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=20_000)
    >>> y = x + rng.normal(scale=0.3, size=20_000)
    >>> useful = Normal(x, np.full(20_000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(20_000), np.full(20_000, np.std(y)))  # the same for every row
    >>> error = partial(adversarial_group_calibration_error, random_state=0)
    >>> [round(error(y, dist), 2) for dist in (useful, climatology)]
    [0.05, 0.01]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    kernel = worst_group_error(
        fraction=fraction,
        levels=levels,
        kind=kind,
        error=error,
        n_groups=n_groups,
        n_resamples=n_resamples,
        min_group_size=min_group_size,
        replace=replace,
        random_state=random_state,
    )
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    effective_rows(weight, y.size)
    return value_of(kernel, y, dist, weight)
