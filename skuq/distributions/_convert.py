"""Conversion of arguments of metrics and recalibrators to a Distribution."""

from __future__ import annotations

from typing import Any

from skuq.distributions._base import Distribution
from skuq.distributions._normal import Normal
from skuq.distributions._row_container import check_univariate
from skuq.distributions._scipy import ScipyDistribution, is_frozen_scipy


def as_distribution(y_pred: Any, name: str = "y_pred") -> Distribution:
    """Return ``y_pred`` as a distribution.

    Parameters
    ----------
    y_pred : Distribution, tuple (loc, scale) or frozen scipy.stats distribution
        A tuple means normal distributions. Each entry is a number or has shape (n,).
    name : str, default="y_pred"
        Name of the argument in error messages.

    Returns
    -------
    dist : Distribution
        ``y_pred`` itself if it is a Distribution.

    Raises
    ------
    TypeError
        If ``y_pred`` has another type, such as a `JointDistribution` of several targets. An array of shape
        (n, 2) also raises this error, because its columns may be bounds or parameters.

    Examples
    --------
    >>> from skuq.distributions import as_distribution
    >>> as_distribution(([0.0, 1.0], [1.0, 1.0]))
    Normal(n=2)
    """
    if isinstance(y_pred, Distribution):
        return y_pred
    check_univariate(y_pred, name)
    if isinstance(y_pred, tuple):
        if len(y_pred) != 2:
            raise ValueError(f"`{name}` must be (loc, scale) if it is a tuple, got {len(y_pred)} entries.")
        return Normal(*y_pred)
    if is_frozen_scipy(y_pred):
        return ScipyDistribution(y_pred)
    if isinstance(y_pred, type):
        raise TypeError(
            f"`{name}` must be a Distribution, got the class {y_pred.__name__}. Pass an instance."
        )
    if type(y_pred).__module__.startswith("scipy.stats"):
        raise TypeError(
            f"`{name}` must be a frozen univariate distribution if it comes from scipy.stats, such as "
            f"stats.norm(loc, scale), got a scipy.stats.{type(y_pred).__name__}. For several targets, use a "
            "joint distribution such as NormalJoint. scipy's newer classes, such as stats.Normal, are not "
            "converted."
        )
    shape = getattr(y_pred, "shape", None)
    came = type(y_pred).__name__ if shape is None else f"{type(y_pred).__name__} of shape {tuple(shape)}"
    raise TypeError(
        f"`{name}` must be a Distribution (for example from `predict_dist`), a tuple (loc, scale) or a "
        f"frozen scipy distribution, got {came}. If the columns of an array are mean and standard deviation, "
        "pass `(array[:, 0], array[:, 1])`."
    )
