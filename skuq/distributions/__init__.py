"""Predictive distributions."""

# `_supported` and `_joint.concatenated` complete the base classes: `clip` and `concat` of joint distributions
# need them.
from skuq.distributions import _supported  # noqa: F401
from skuq.distributions._affine import affine
from skuq.distributions._base import Distribution
from skuq.distributions._binned import Binned
from skuq.distributions._concatenated import concat
from skuq.distributions._convert import as_distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._hurdle import Hurdle
from skuq.distributions._joint import concatenated as _concatenated_joint  # noqa: F401
from skuq.distributions._joint.base import JointDistribution
from skuq.distributions._joint.copula import CopulaJoint
from skuq.distributions._joint.empirical import EmpiricalJoint
from skuq.distributions._joint.normal import NormalJoint
from skuq.distributions._joint.template import normal_template, rank_template
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
    "CopulaJoint",
    "Distribution",
    "Empirical",
    "EmpiricalJoint",
    "Hurdle",
    "JointDistribution",
    "Mixture",
    "Normal",
    "NormalJoint",
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
    "normal_template",
    "rank_template",
]
