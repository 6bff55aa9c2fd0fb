"""Predictive distributions."""

# `_supported` completes the base class: `clip` needs it.
from skuq.distributions import _supported  # noqa: F401
from skuq.distributions._affine import affine
from skuq.distributions._base import Distribution
from skuq.distributions._binned import Binned
from skuq.distributions._concatenated import concat
from skuq.distributions._convert import as_distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._hurdle import Hurdle
from skuq.distributions._joint import JointDistribution
from skuq.distributions._mixture import Mixture
from skuq.distributions._normal import Normal
from skuq.distributions._normal_mixture import NormalMixture
from skuq.distributions._quantiles import Quantiles
from skuq.distributions._scipy import ScipyDistribution
from skuq.distributions._shared_empirical import SharedEmpirical
from skuq.distributions._student_t import StudentT
from skuq.distributions._transformed import Transformed
from skuq.distributions._truncated import Truncated

__all__ = [
    "Binned",
    "Distribution",
    "Empirical",
    "Hurdle",
    "JointDistribution",
    "Mixture",
    "Normal",
    "NormalMixture",
    "Quantiles",
    "ScipyDistribution",
    "SharedEmpirical",
    "StudentT",
    "Transformed",
    "Truncated",
    "affine",
    "as_distribution",
    "concat",
]
