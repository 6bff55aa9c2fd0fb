"""Adversarial group calibration: average calibration of the worst of many random groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_integer, check_option, check_random_state, effective_rows
from skuq.distributions import Distribution
from skuq.metrics._average_calibration import calibration_error, root_calibration_error
from skuq.metrics._inputs import check_forecast
from skuq.metrics._kernels import level_grid
from skuq.metrics._levels import KINDS, covered_weight, one_bin
from skuq.metrics._spec import WeightFunction, metric

MOST_ROWS = 10**9
"""Upper limit of numpy's multivariate hypergeometric draws."""

ROWS_PER_COUNT = 50
"""Up to so many rows for each count, numpy's method that draws row by row is faster than drawing counts."""

GROUP_ERRORS = {"mace": calibration_error, "rmsce": root_calibration_error}


@dataclass(frozen=True, eq=False)
class AdversarialGroupCalibrationCurve:
    """Calibration error of the worst random groups; made by `adversarial_group_calibration_curve`.

    Parameters
    ----------
    fractions : ndarray of shape (k,)
        Sizes of the groups as shares of all rows.
    worst : ndarray of shape (k, n_trials)
        Error of the worst group in each trial.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import adversarial_group_calibration_curve
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> dist = (np.zeros(1000), np.ones(1000))
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
    n_trials: int = 10,
    min_group_size: int = 2,
    replace: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> AdversarialGroupCalibrationCurve:
    r"""Calibration error of the worst of many random groups of rows, by the size of the group.

    Is the forecast calibrated in subsets too, or does one part make up for another? At the right end the
    curve is the average calibration of all rows; how steeply it rises to the left, compared with another
    model's, shows what the average hides. A maximum over random groups grows with their number and as they
    shrink, for a perfect forecast too: compare curves, do not read one alone.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. A group is drawn from the repeated rows. Of fractional weights,
        what is below each level is rounded to whole rows.
    fractions : array-like of shape (k,), default=None
        Sizes of the groups as shares of all rows, in [0, 1]; None for 1 % to 100 % in ten steps [1]_.
        Uncertainty Toolbox takes ``np.linspace(0, 1, 10)``.
    levels : int or array-like, default=99
        Probabilities in [0, 1] at which each group's calibration is observed, as in
        `mean_absolute_calibration_error`.
    kind : {"quantile", "interval"}, default="quantile"
        Compare the shares below quantiles or inside central intervals (Uncertainty Toolbox).
    error : {"mace", "rmsce"}, default="mace"
        Error of a group: mean absolute or root mean square gap.
    n_groups : int, default=20
        Groups of which the worst is kept; Uncertainty Toolbox draws 10.
    n_trials : int, default=10
        Repetitions of that.
    min_group_size : int, default=2
        Rows that a group has at least.
    replace : bool, default=False
        Whether a row may enter a group more than once.
    random_state : int, RandomState instance or None, default=None
        Controls the randomness of the groups. Pass an int to compare models on the same groups, and for
        reproducible output across calls.

    Returns
    -------
    curve : AdversarialGroupCalibrationCurve
        With ``fractions``, the group sizes, of shape (k,), and ``worst``, the error of the worst group in
        each trial, of shape (k, n_trials). Its mean over the trials is the curve of [1]_, and
        ``worst.std(axis=1, ddof=1) / np.sqrt(n_trials)`` the standard error; Uncertainty Toolbox calls the
        standard deviation itself ``score_stderr``.

    See Also
    --------
    adversarial_group_calibration_error : One number, at one size.

    Notes
    -----
    A group matters only by how many of its rows are first covered at each level, and the counts in a random
    group of a given size are multivariate hypergeometric (multinomial with replacement). So each group costs
    one draw of k + 1 counts for k levels, whatever n is, after one pass over the rows.

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, appendix A.3. https://doi.org/10.48550/arXiv.2109.10254
    .. [2] Zhao et al. (2020), Individual calibration with randomized forecasting.
       https://doi.org/10.48550/arXiv.2006.10288

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import adversarial_group_calibration_curve
    >>> rng = np.random.default_rng(0)
    >>> scale = np.repeat([0.5, 2.0], 1000)
    >>> y = scale * rng.normal(size=2000)
    >>> dist = (0 * y, scale)
    >>> curve = adversarial_group_calibration_curve(y, dist, fractions=[0.05, 0.5, 1], random_state=0)
    >>> curve.worst.mean(axis=1).round(2)
    array([0.06, 0.02, 0.01])
    """
    groups = check_groups(
        fractions=fractions,
        levels=levels,
        kind=kind,
        error=error,
        n_groups=n_groups,
        n_trials=n_trials,
        min_group_size=min_group_size,
        replace=replace,
        random_state=random_state,
    )
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    return AdversarialGroupCalibrationCurve(groups.fractions, worst_of_weights(groups, y, dist)(weight))


@dataclass(frozen=True, eq=False)
class Groups:
    """Checked options: sizes and number of the random groups, and the kind of their errors."""

    fractions: FloatArray
    levels: FloatArray
    kind: str
    error: str
    shape: tuple[int, int]
    min_size: int
    replace: bool
    seed: int

    def worst(self, inside: FloatArray, total: float) -> FloatArray:
        """Return the error of the worst group in each trial, shape (fractions, trials).

        ``inside`` is the weight of the rows that each level covers, ``total`` that of all rows.
        """
        if total >= MOST_ROWS:
            raise ValueError(
                f"`sample_weight` counts repetitions, of which random groups are drawn, so its sum must be "
                f"below {MOST_ROWS:g}, got {total:g}."
            )
        rng = np.random.default_rng(self.seed)
        counts = level_counts(inside, total)
        n = counts.sum()
        # Shares of the rounded rows; a group cannot have more rows than there are.
        sizes = np.minimum(np.maximum(np.rint(self.fractions * n), self.min_size), n).astype(np.int64)
        draws = [draw_counts(counts, int(size), self.shape, self.replace, rng) for size in sizes]
        return np.array([group_errors(drawn, self.levels, self.error).max(axis=1) for drawn in draws])


def check_groups(
    *,
    fractions: ArrayLike | None,
    levels: int | ArrayLike = 99,
    kind: str = "quantile",
    error: str = "mace",
    n_groups: int = 20,
    n_trials: int = 10,
    min_group_size: int = 2,
    replace: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> Groups:
    """Return the checked options of `adversarial_group_calibration_curve`."""
    shares = np.linspace(0.01, 1, 10) if fractions is None else _check_fractions(fractions)
    grid = np.sort(level_grid(levels, closed=True))
    check_option(kind, "kind", KINDS)
    check_option(error, "error", GROUP_ERRORS)
    check_option(replace, "replace", (False, True))
    shape = check_integer(n_trials, "n_trials"), check_integer(n_groups, "n_groups")
    smallest = check_integer(min_group_size, "min_group_size")
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    return Groups(shares, grid, kind, error, shape, smallest, bool(replace), seed)


def worst_of_weights(
    groups: Groups, y: FloatArray, dist: Distribution
) -> Callable[[FloatArray | None], FloatArray]:
    """Return the errors of the worst groups as a function of weights."""
    covered = covered_weight(y, dist, groups.levels, groups.kind)

    def of_weights(weight: FloatArray | None) -> FloatArray:
        effective_rows(weight, y.size)
        bins = one_bin(y.size, weight)
        return groups.worst(covered(bins)[0], float(bins.totals()[0]))

    return of_weights


def agce_of_weights(
    y: FloatArray, dist: Distribution, *, fraction: float = 0.1, **options: Any
) -> WeightFunction:
    """Return the adversarial group calibration error as a function of weights."""
    worst = worst_of_weights(check_groups(fractions=[fraction], **options), y, dist)
    return lambda weight: float(worst(weight).mean())


def agce_of_uniform(entry: FloatArray, *, fraction: float = 0.1, **options: Any) -> float:
    """Return the adversarial group calibration error for sorted uniform PIT values."""
    groups = check_groups(fractions=[fraction], **options)
    inside = np.searchsorted(entry, groups.levels, side="right").astype(np.float64)
    return float(groups.worst(inside, float(entry.size)).mean())


def _check_fractions(fractions: ArrayLike) -> FloatArray:
    """Return group sizes as shares in [0, 1]."""
    shares = np.atleast_1d(as_float_array(fractions, "fractions"))
    if shares.ndim != 1 or shares.size == 0:
        raise ValueError(f"`fractions` must be a non-empty 1-D array, got shape {shares.shape}.")
    good = (shares >= 0) & (shares <= 1)
    if not good.all():
        raise ValueError(f"`fractions` must lie in [0, 1], got {shares[~good][0]:g}.")
    return shares


def level_counts(inside: FloatArray, total: float) -> IntArray:
    """Return how many rows each of k levels covers that the level before does not, and how many none covers.

    ``inside`` is the weight that each level covers; fractional weights are rounded to whole rows.
    """
    # Rounding the running sums rather than their differences keeps the total, whatever the number of levels.
    running = np.rint(np.append(inside, total))
    return np.asarray(np.diff(running, prepend=0.0), dtype=np.int64)


def draw_counts(
    counts: IntArray, size: int, shape: tuple[int, int], replace: bool, rng: np.random.Generator
) -> IntArray:
    """Return the counts of random groups by the first level that covers a row, shape (trials, groups, k)."""
    if replace:
        return np.asarray(rng.multinomial(size, counts / counts.sum(), size=shape))
    # Both methods are exact; the cost of "count" grows with the rows, that of "marginals" with the counts.
    method: Any = "count" if counts.sum() <= ROWS_PER_COUNT * counts.size else "marginals"
    flat = rng.multivariate_hypergeometric(counts, size, size=shape[0] * shape[1], method=method)
    return np.asarray(flat.reshape(*shape, counts.size))


def group_errors(counts: IntArray, levels: FloatArray, error: str) -> FloatArray:
    """Return the calibration error of each group from its counts, shape (..., k + 1) to (...)."""
    inside = np.cumsum(counts, axis=-1)  # the last entry is the total
    return GROUP_ERRORS[error](levels, inside[..., :-1] / inside[..., -1:])


@metric(
    "agce",
    title="Adversarial group calibration error",
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    proper=False,
    random=True,
    small_sample=True,
    source="Chung et al. 2021, appendix A.3; Zhao et al. 2020",
    of_weights=agce_of_weights,
    of_uniform=agce_of_uniform,
    meaning="in the worst of random groups the stated probabilities are off by {value}",
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
    n_trials: int = 10,
    min_group_size: int = 2,
    replace: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> float:
    r"""Calibration error of the worst of many random groups of rows, averaged over trials.

    Is the forecast calibrated in subsets too? One point of `adversarial_group_calibration_curve`. It is a
    maximum over random groups, so it grows with their number and as they shrink; compare only values of the
    same options. It is not proper: a forecast that ignores X is calibrated in random groups too and beats a
    useful model that is slightly off (see the example). Select by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. A group is drawn from the repeated rows.
    fraction : float, default=0.1
        Size of the groups as a share of all rows.
    levels : int or array-like, default=99
        Probabilities in [0, 1] at which each group's calibration is observed.
    kind : {"quantile", "interval"}, default="quantile"
        Compare the shares below quantiles or inside central intervals.
    error : {"mace", "rmsce"}, default="mace"
        Error of a group: mean absolute or root mean square gap.
    n_groups : int, default=20
        Groups of which the worst is kept.
    n_trials : int, default=10
        Repetitions of that, over which the mean is taken.
    min_group_size : int, default=2
        Rows that a group has at least.
    replace : bool, default=False
        Whether a row may enter a group more than once.
    random_state : int, RandomState instance or None, default=None
        Controls the randomness of the groups. Pass an int to compare models on the same groups, and for
        reproducible output across calls.

    Returns
    -------
    error : float
        In [0, 0.5] for "mace"; lower is better, at best 0. For a calibrated forecast about
        ``0.63 / sqrt(fraction * n)`` with small groups, and with all rows what
        `mean_absolute_calibration_error` gives.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    adversarial_group_calibration_curve : Over group sizes, and how it is computed.
    mean_absolute_calibration_error : Over all rows.

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, appendix A.3. https://doi.org/10.48550/arXiv.2109.10254
    .. [2] Zhao et al. (2020), Individual calibration with randomized forecasting.
       https://doi.org/10.48550/arXiv.2006.10288

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np
    >>> from skuq.metrics import adversarial_group_calibration_error, crps_loss
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=20_000)
    >>> y = x + rng.normal(scale=0.3, size=20_000)
    >>> useful = (x, np.full(20_000, 0.4))  # depends on x, slightly too wide
    >>> climatology = (np.zeros(20_000), np.full(20_000, np.std(y)))  # the same for every row
    >>> error = partial(adversarial_group_calibration_error, random_state=0)
    >>> [round(error(y, dist), 2) for dist in (useful, climatology)]
    [0.05, 0.01]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    groups = check_groups(
        fractions=[fraction],
        levels=levels,
        kind=kind,
        error=error,
        n_groups=n_groups,
        n_trials=n_trials,
        min_group_size=min_group_size,
        replace=replace,
        random_state=random_state,
    )
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    return float(worst_of_weights(groups, y, dist)(weight).mean())
