"""Rows of several distributions in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from skuq.distributions._base import Distribution
from skuq.distributions._concatenated import stack_rows
from skuq.distributions._joint.base import JointDistribution
from skuq.distributions._joint.concatenated import stack_joints


@overload
def concat(parts: Sequence[Distribution]) -> Distribution: ...
@overload
def concat(parts: Sequence[JointDistribution]) -> JointDistribution: ...
def concat(parts: Any) -> Any:
    """Stack the rows of several distributions into one.

    Parameters
    ----------
    parts : sequence of Distribution, or sequence of JointDistribution
        At least one distribution; families may differ. Joint distributions must have the same targets.

    Returns
    -------
    dist : Distribution or JointDistribution
        A distribution of the common family if the parts have the same family and can be merged, otherwise
        `Concatenated` or `ConcatenatedJoint`.

    Examples
    --------
    >>> from skuq.distributions import Normal, StudentT, concat
    >>> concat([Normal(0.0, 1.0), Normal([1.0, 2.0], 1.0)])
    Normal(n=3)
    >>> concat([Normal(0.0, 1.0), StudentT(0.0, 1.0, df=3)])
    Concatenated(n=2)
    """
    if isinstance(parts, list | tuple) and any(isinstance(part, JointDistribution) for part in parts):
        return stack_joints(parts)
    return stack_rows(parts)
