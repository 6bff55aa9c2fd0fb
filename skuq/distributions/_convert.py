"""What counts as a distribution at the border of metrics and recalibrators."""

from __future__ import annotations

from typing import Any

from skuq.distributions._base import Distribution
from skuq.distributions._normal import Normal
from skuq.distributions._scipy import ScipyDistribution, is_frozen_scipy


def as_distribution(y_pred: Any, name: str = "y_pred") -> Distribution:
    """Return ``y_pred`` as a distribution.

    Parameters
    ----------
    y_pred : Distribution, tuple (loc, scale) or frozen scipy.stats distribution
        A tuple means normal distributions, each entry a number or of shape (n,).
    name : str, default="y_pred"
        Name of the argument in errors.

    Returns
    -------
    dist : Distribution
        ``y_pred`` itself where it is one.

    Raises
    ------
    TypeError
        For anything else. An array of shape (n, 2) could be bounds as well as parameters.

    Examples
    --------
    >>> from skuq.distributions import as_distribution
    >>> as_distribution(([0.0, 1.0], [1.0, 1.0]))
    Normal(n=2)
    """
    if isinstance(y_pred, Distribution):
        return y_pred
    if isinstance(y_pred, tuple):
        if len(y_pred) != 2:
            raise ValueError(f"`{name}` as a tuple must be (loc, scale), got {len(y_pred)} entries.")
        return Normal(*y_pred)
    if is_frozen_scipy(y_pred):
        return ScipyDistribution(y_pred)
    if isinstance(y_pred, type):
        raise TypeError(f"`{name}` must be a Distribution, got the class {y_pred.__name__} itself.")
    shape = getattr(y_pred, "shape", None)
    came = type(y_pred).__name__ if shape is None else f"{type(y_pred).__name__} of shape {tuple(shape)}"
    raise TypeError(
        f"`{name}` must be a Distribution (such as `predict_dist` returns), a tuple (loc, scale) or a frozen "
        f"scipy distribution, got {came}. For columns mean and standard deviation pass "
        "`(array[:, 0], array[:, 1])`."
    )
