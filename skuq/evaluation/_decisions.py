"""Expected losses of actions under a predictive distribution, and optimal actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import ndtr

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    as_float_array,
    check_bounds,
    check_finite,
    check_no_nan,
    check_open_unit,
    check_option,
    check_rows,
    check_single_coverage,
)
from skuq.distributions import Distribution, as_distribution
from skuq.distributions._expectation import OutcomeRule

GRID = ndtr(np.linspace(-3.3, 3.3, 65))
"""The function is first evaluated at the quantiles with these levels."""

TOLERANCE = 1e-5
"""Largest error of a minimum, relative to the range of the quantiles. The range is at most 91 standard
deviations."""

ATOM_STEP = 1e-9
"""A level that is larger by this share of its complement belongs to the next atom."""

MOST_DOUBLINGS = 60
MOST_STEPS = 200
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def minimize_rows(function: Callable[[FloatArray], FloatArray], dist: Distribution) -> FloatArray:
    """Return the position of the minimum in each row. The search begins at quantiles of the distribution."""
    quantiles = np.stack([dist._finite_part()._ppf(np.asarray(level)) for level in GRID])
    width = quantiles[-1] - quantiles[0]
    # A point mass has no width, but the optimum may differ from its point.
    step = np.where(width > 0, width, 1e-6 * np.maximum(np.abs(quantiles[0]), 1.0))
    candidates = [quantiles[0] - step, *quantiles, quantiles[-1] + step]
    points, values = _extend(function, candidates, [function(point) for point in candidates], step)
    best = np.argmin(values, axis=0)[np.newaxis]
    start, least = (np.take_along_axis(table, best, axis=0)[0] for table in (points, values))
    # Several quantiles may equal an atom, so the neighbors of a point may be the point itself.
    low = np.where(points < start, points, -np.inf).max(axis=0)
    high = np.where(points > start, points, np.inf).min(axis=0)
    low, high = np.where(np.isinf(low), start, low), np.where(np.isinf(high), start, high)
    found, value = _golden_section(function, low, high, TOLERANCE * step)
    best_point, least = np.where(value < least, found, start), np.minimum(value, least)
    return best_point if dist.has_density else _nearest_atom(function, dist, best_point, least)


def _nearest_atom(
    function: Callable[[FloatArray], FloatArray], dist: Distribution, point: FloatArray, least: FloatArray
) -> FloatArray:
    """Return an atom next to the point if its value is smaller, because losses have kinks at atoms."""
    finite = dist._finite_part()
    level = finite._cdf(point)
    best = point
    for atom in (finite._ppf(level), finite._ppf(1 - (1 - level) * (1 - ATOM_STEP))):
        value = function(atom)
        best, least = np.where(value < least, atom, best), np.minimum(value, least)
    return best


def _extend(
    function: Callable[[FloatArray], FloatArray],
    points: list[FloatArray],
    values: list[FloatArray],
    step: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Add points while the function decreases.

    Each distance between points is twice the previous distance.
    """
    for _ in range(MOST_DOUBLINGS):
        below, above = values[0] < values[1], values[-1] < values[-2]
        if not (below | above).any():
            return np.stack(points), np.stack(values)
        step = 2 * step
        points = [
            np.where(below, points[0] - step, points[0]),
            *points,
            np.where(above, points[-1] + step, points[-1]),
        ]
        values = [function(points[0]), *values, function(points[-1])]
    row = int(np.argmax(below | above))
    raise ValueError(
        "`loss` must have an action with a minimum expected loss, but the expected loss still decreases "
        "at the "
        f"action {points[-1][row] if above[row] else points[0][row]:g} in row {row}. Pass the possible "
        "actions as `actions`."
    )


def _golden_section(
    function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray, tolerance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the point between ``low`` and ``high`` at which each row has its minimum, and the minimum."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(MOST_STEPS):
        if (high - low <= tolerance + 4e-16 * np.maximum(np.abs(low), np.abs(high))).all():
            break
        falls = at_left > at_right
        low, high = np.where(falls, left, low), np.where(falls, high, right)
        new = np.where(falls, low + GOLDEN * (high - low), high - GOLDEN * (high - low))
        value = function(new)
        left, right = np.where(falls, right, new), np.where(falls, new, left)
        at_left, at_right = np.where(falls, at_right, value), np.where(falls, value, at_left)
    better = at_left <= at_right
    return np.where(better, left, right), np.where(better, at_left, at_right)


LossFunction: TypeAlias = Callable[[FloatArray, FloatArray], Any]
Loss: TypeAlias = Literal["absolute", "squared", "pinball", "interval", "crps"] | LossFunction

_LOSSES = ("absolute", "squared", "pinball", "interval", "crps")


def expected_loss(
    dist: Any,
    loss: Loss = "absolute",
    *,
    action: ArrayLike | None = None,
    levels: ArrayLike | None = None,
    coverage: float | None = None,
    breaks: ArrayLike | None = None,
) -> FloatArray:
    r"""Return the expected loss of an action in each row, without observed targets.

    The smaller the better. The function has two uses. It computes the expected cost of a decision before the
    outcome is known. It also estimates the error of a deployed model before the targets are observed. The
    estimate is valid only if the predicted distributions are correct (see Notes).

    Parameters
    ----------
    dist : Distribution or frozen scipy distribution
        Forecast of n rows.
    loss : {"absolute", "squared", "pinball", "interval", "crps"} or callable, default="absolute"
        Loss of an action a at the outcome y:

        - "absolute": ``|y - a|``.
        - "squared": ``(y - a) ** 2``.
        - "pinball": ``(y - a) * (levels - (y < a))``. For a cost u of each missing unit and a cost o of each
          surplus unit, use the level ``u / (u + o)``. The cost is then ``u + o`` times the loss.
        - "interval": interval score of the bounds ``a[:, 0]`` and ``a[:, 1]``, as in
          `skuq.metrics.interval_score_loss`.
        - "crps": CRPS of the forecast. This loss does not depend on an action.
        - a function ``loss(action, y)``. Both arguments and the result are arrays of shape (n,), with one
          entry per row of `dist`. The function is called many times, with different outcomes y of each row.
    action : float or array-like of shape (n,) or (n, 2), default=None
        Action in each row, such as the model's point prediction, or the bounds of intervals. None means the
        result of `optimal_action`.
    levels : float or array-like of shape (n,), default=None
        Level of the pinball loss, strictly between 0 and 1. One number for all rows, or one number per row.
        Only for "pinball".
    coverage : float, default=None
        Nominal coverage of the interval loss, strictly between 0 and 1. None means 0.9. Only for "interval".
    breaks : array-like of shape (k,), default=None
        Outcomes y at which a loss function has a kink or a jump, such as a threshold. Kinks and jumps at ``y
        = action`` are found without this parameter. Only for functions.

    Returns
    -------
    loss : ndarray of shape (n,)
        Expected loss of each row, in the units of the loss. The units are the units of y for "absolute",
        "pinball", "interval" and "crps". The expected loss is infinite if the required moment or the action
        is infinite.

    Raises
    ------
    ValueError
        If an argument does not apply to the loss, or if a function returns NaN or an array of another shape.

    See Also
    --------
    optimal_action : The action with the smallest expected loss.
    relative_economic_value : Value of decisions, computed from observed targets.
    skuq.monitoring.calibration_drift : Tests of the calibration. They show whether the estimate is valid.

    Notes
    -----
    For families with a closed form, the expected values of the named losses are exact up to rounding. For
    other families, the error is the quadrature error of the CRPS. With :math:`d(a) = E|Y - a|` and the mean
    :math:`\mu`,

    .. math:: E \rho_\tau(Y - a) = \frac{d(a)}2 + \left(\tau - \frac12\right) (\mu - a), \qquad
       E (Y - a)^2 = \sigma^2 + (\mu - a)^2, \qquad
       E\,\mathrm{CRPS}(F, Y) = d(a) - \mathrm{CRPS}(F, a).

    The last expression does not depend on a. For a discrete distribution, the expected value of a function is
    a sum over the possible values. If there are more than 1000 possible integers, the sum uses about 500 of
    them. For a continuous distribution, the expected value is an integral over the levels. It needs about 250
    calls of the function. For a mixture, each component needs about 250 calls. For smooth functions, the
    relative error was below 1e-7 in tests with all families. A jump that is missing in `breaks` causes an
    error of up to a few percent of the jump. Atoms with a probability of at most 1e-10 are not located. This
    matters only for a clipped heavy tail whose bound is very far away.

    **Validity.** The estimate equals the expected loss on new rows if the predicted distributions of y given
    X are correct. The estimate is wrong in two cases. Neither case can be detected without observed targets:

    - *Concept drift*: the distribution of the targets given X changes. The forecast stays the same, so the
      estimate stays the same.
    - *Calibration only on average*: the model is calibrated on average over the training rows, but not for
      each X. If the distribution of X shifts, the error may change, but the estimate does not change.

    Report the estimate together with `~skuq.monitoring.calibration_drift` for the rows with observed targets.

    References
    ----------
    .. [1] Gneiting (2011), Making and evaluating point forecasts. https://doi.org/10.1198/jasa.2011.r10138

    Examples
    --------
    A shop expects to sell 100 units, with a standard deviation of 20. A missed sale costs 3, and an unsold
    unit costs 1. An order of 100 units has a higher expected cost than the optimal order:

    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import expected_loss, optimal_action
    >>> sales = Normal(100.0, 20.0)
    >>> optimal_action(sales, "pinball", levels=3 / (3 + 1)).round(2)
    array([113.49])
    >>> (4 * expected_loss(sales, "pinball", levels=0.75)).round(3)
    array([25.422])
    >>> (4 * expected_loss(sales, "pinball", action=100.0, levels=0.75)).round(3)
    array([31.915])

    The second example estimates the mean absolute error of two models without observed targets. The noise has
    the standard deviation ``exp(x / 2)``. The first model is correct for each x. The second model is
    calibrated only on average: it adds the residuals of all training rows to each prediction. Each result is
    a list: the estimate of the first model, the estimate of the second model, and the observed error:

    >>> import numpy as np
    >>> from skuq.distributions import Normal, SharedEmpirical
    >>> def draw(shift, noise):
    ...     rng = np.random.default_rng(0)
    ...     x = rng.normal(shift, 1.0, size=20_000)
    ...     return x, x + noise * np.exp(x / 2) * rng.normal(size=x.size)
    >>> x, y = draw(0.0, 1.0)
    >>> residuals = y - x
    >>> def errors(x, y):
    ...     normal, empirical = Normal(x, np.exp(x / 2)), SharedEmpirical(x, 1.0, residuals)
    ...     estimates = expected_loss(normal), expected_loss(empirical)
    ...     return [round(float(loss.mean()), 2) for loss in (*estimates, np.abs(y - x))]
    >>> errors(x, y)
    [0.9, 0.91, 0.91]
    >>> errors(*draw(1.0, 1.0))  # x is shifted: the second estimate is too small
    [1.49, 0.91, 1.5]
    >>> errors(*draw(0.0, 1.5))  # concept drift: both estimates are too small
    [0.9, 0.91, 1.37]
    """
    forecast = as_distribution(dist, "dist")
    _check_loss(loss, levels=levels, coverage=coverage, breaks=breaks)
    if loss == "crps":
        return _expected_crps(forecast, action)
    if action is None:
        action = optimal_action(forecast, loss, levels=levels, coverage=coverage, breaks=breaks)
    if loss == "interval":
        return _expected_interval_score(forecast, check_bounds(action, "action", len(forecast)), coverage)
    point = check_no_nan(as_float_array(action, "action"), "action")
    if point.ndim == 0:
        point = np.full(len(forecast), point)
    check_rows(point, "action", len(forecast))
    if callable(loss):
        return _Expected(forecast, loss, breaks)(check_finite(point, "action"))
    with_limits = np.isinf(point)
    inside = np.where(with_limits, 0.0, point)
    return np.where(with_limits, np.inf, _expected_named(forecast, loss, inside, levels))


def optimal_action(
    dist: Any,
    loss: Loss = "absolute",
    *,
    levels: ArrayLike | None = None,
    coverage: float | None = None,
    actions: ArrayLike | None = None,
    breaks: ArrayLike | None = None,
) -> FloatArray:
    """Return the action with the smallest expected loss in each row.

    The function turns a forecast into a decision, such as the stock of a shop, or the strength of a material
    that a producer guarantees. To compare two forecasts, compute the costs of their actions from *observed*
    targets. The expected cost under a forecast is too low if the forecast is too sharp.

    Parameters
    ----------
    dist : Distribution or frozen scipy distribution
        Forecast of n rows.
    loss : {"absolute", "squared", "pinball", "interval"} or callable, default="absolute"
        Loss of an action at the outcome y, as in `expected_loss`. The optimal action is the median for
        "absolute", the mean for "squared", the quantile at `levels` for "pinball", and the central interval
        for "interval".
    levels : float or array-like of shape (n,), default=None
        Level of the pinball loss, strictly between 0 and 1. One number for all rows, or one number per row.
        Only for "pinball".
    coverage : float, default=None
        Nominal coverage of the interval loss, strictly between 0 and 1. None means 0.9. Only for "interval".
    actions : array-like of shape (k,), default=None
        Possible actions, such as whole pallets. None means that all numbers are possible. Not for
        "interval".
    breaks : array-like of shape (k,), default=None
        Outcomes y at which a loss function has a kink or a jump. See `expected_loss`. Only for functions.

    Returns
    -------
    action : ndarray of shape (n,), or (n, 2) for "interval"
        Optimal action of each row. If several actions are optimal, the result is one of these actions.

    Raises
    ------
    ValueError
        If an argument does not apply to the loss, or if the expected value of a loss function has no minimum.

    See Also
    --------
    expected_loss : The expected loss of any action.
    relative_economic_value : Value of decisions between two actions.

    Notes
    -----
    For a loss function, the search first evaluates the expected loss at 65 quantiles, with levels between
    0.0005 and 0.9995. The search continues beyond these quantiles while the loss decreases, and ends with a
    golden-section search. It compares the result with the next atoms, because the expected loss may have
    kinks there. If the expected loss has one minimum, the error of the action is at most 0.001
    standard deviations. If there are several minima, the search can miss a minimum that is narrower than the
    distance between two quantiles. The cost is about 100 evaluations of `expected_loss`. At most 20 million
    outcomes are in memory at once.

    References
    ----------
    .. [1] Gneiting (2011), Quantiles as optimal point forecasts.
       https://doi.org/10.1016/j.ijforecast.2009.12.015

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import optimal_action
    >>> sales = Normal([100.0, 40.0], [20.0, 10.0])
    >>> optimal_action(sales, "pinball", levels=[0.75, 0.9]).round(1)
    array([113.5,  52.8])
    >>> optimal_action(sales, "pinball", levels=0.75, actions=np.arange(0, 200, 25))
    array([125.,  50.])

    A missed sale costs 3, and an unsold unit costs 1. If more than 10 units are unsold, each further unit
    costs another 2 for storage:

    >>> def cost(order, sold):
    ...     unsold = np.maximum(order - sold, 0.0)
    ...     return 3.0 * np.maximum(sold - order, 0.0) + unsold + 2.0 * np.maximum(unsold - 10.0, 0.0)
    >>> optimal_action(sales, cost).round(1)
    array([103.2,  43.2])
    """
    forecast = as_distribution(dist, "dist")
    _check_loss(loss, levels=levels, coverage=coverage, breaks=breaks)
    if loss == "crps":
        raise ValueError(
            "`loss` must depend on an action, but 'crps' scores the whole distribution. Use a loss with an "
            "action, such as 'absolute'."
        )
    if actions is not None:
        return _best_of(actions, forecast, loss, levels=levels, breaks=breaks)
    if loss == "interval":
        return forecast.interval(_check_nominal(coverage))
    if callable(loss):
        return minimize_rows(_Expected(forecast, loss, breaks), forecast)
    if loss == "squared":
        return forecast.mean()
    return forecast.median() if loss == "absolute" else forecast.ppf(_check_levels(levels, len(forecast)))


def _best_of(actions: ArrayLike, dist: Distribution, loss: Loss, **options: Any) -> FloatArray:
    if loss == "interval":
        raise ValueError(
            "`actions` must be None for the loss 'interval', because its actions are pairs of bounds."
        )
    possible = check_finite(as_float_array(actions, "actions"), "actions")
    if possible.ndim != 1 or possible.size == 0:
        raise ValueError(f"`actions` must have shape (k,) with k >= 1, got {possible.shape}.")
    if callable(loss):
        expected: Callable[[FloatArray], FloatArray] = _Expected(dist, loss, options["breaks"])
    else:
        expected = lambda action: expected_loss(dist, loss, action=action, **options)  # noqa: E731
    losses = [expected(np.full(len(dist), action)) for action in possible]
    return np.asarray(possible[np.argmin(losses, axis=0)])


class _Expected:
    """Expected value of a loss function that the user passes, for each action."""

    def __init__(self, dist: Distribution, loss: LossFunction, breaks: ArrayLike | None) -> None:
        self.n, self.loss = len(dist), loss
        given = np.empty(0) if breaks is None else check_finite(as_float_array(breaks, "breaks"), "breaks")
        if given.ndim != 1:
            raise ValueError(f"`breaks` must have shape (k,), got {given.shape}.")
        self.rule = OutcomeRule(dist, np.unique(given).tolist())

    def __call__(self, action: FloatArray) -> FloatArray:
        return self.rule.expect(lambda y: self._loss(action, y), action)

    def _loss(self, action: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            value = as_float_array(self.loss(action, y), "loss")
        if value.shape != (self.n,):
            raise ValueError(
                f"`loss` must return an array of shape ({self.n},), one value per row, got {value.shape}."
            )
        if np.isnan(value).any():
            row = int(np.argmax(np.isnan(value)))
            raise ValueError(
                f"`loss` must not return NaN, got NaN for the action {action[row]:g} and y = {y[row]:g} at "
                f"row {row}."
            )
        return value


def _expected_named(
    dist: Distribution, loss: Any, action: FloatArray, levels: ArrayLike | None
) -> FloatArray:
    if loss == "absolute":
        return dist._mean_distance(action)
    if loss == "squared":
        return dist.var() + np.square(dist.mean() - action)
    return _expected_pinball(dist, action, _check_levels(levels, len(dist)))


def _expected_pinball(dist: Distribution, action: FloatArray, levels: FloatArray) -> FloatArray:
    distance = dist._mean_distance(action)
    return np.maximum(0.5 * distance + (levels - 0.5) * (dist.mean() - action), 0.0)


def _expected_interval_score(dist: Distribution, bounds: FloatArray, coverage: float | None) -> FloatArray:
    tail = (1.0 - _check_nominal(coverage)) / 2.0
    infinite = np.isinf(bounds).any(axis=1)
    lower, upper = np.where(infinite, 0.0, bounds.T)
    score = _expected_pinball(dist, lower, np.asarray(tail)) + _expected_pinball(
        dist, upper, np.asarray(1 - tail)
    )
    return np.where(infinite, np.inf, score / tail)


def _expected_crps(dist: Distribution, action: ArrayLike | None) -> FloatArray:
    if action is not None:
        raise ValueError("`action` must be None for the loss 'crps', which does not depend on an action.")
    center = dist.median()
    return np.maximum(dist._mean_distance(center) - dist.crps(center), 0.0)


def _check_loss(loss: Any, **options: Any) -> None:
    """Raise an error for an unknown loss, a missing level, or an option that the loss does not use."""
    if not callable(loss):
        check_option(loss, "loss", _LOSSES)
    users = {"levels": loss == "pinball", "coverage": loss == "interval", "breaks": callable(loss)}
    owners = {"levels": "'pinball'", "coverage": "'interval'", "breaks": "a function"}
    for name, value in options.items():
        if value is not None and not users[name]:
            raise ValueError(f"`{name}` must be None unless the loss is {owners[name]}, got {value!r}.")
    if loss == "pinball" and options["levels"] is None:
        raise ValueError(
            "`levels` must be given for the loss 'pinball', got None. For a cost u of each missing unit and "
            "a cost o of each surplus unit, pass levels=u / (u + o)."
        )


def _check_nominal(coverage: float | None) -> float:
    return DEFAULT_COVERAGE if coverage is None else check_single_coverage(coverage)


def _check_levels(levels: ArrayLike | None, n: int) -> FloatArray:
    checked = check_open_unit(0.5 if levels is None else levels, "levels")
    return check_rows(checked, "levels", n) if checked.ndim else checked
