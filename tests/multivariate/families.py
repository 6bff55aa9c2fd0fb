"""One example of each joint family, with the same three targets."""

import numpy as np

from skuq.distributions import Empirical, Normal, StudentT, concat
from skuq.multivariate import CopulaJoint, EmpiricalJoint, NormalJoint, normal_template, rank_template

N, D, K = 12, 3, 300
NAMES = ("load", "price", "wind")
CORRELATION = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.1], [0.3, 0.1, 1.0]])
RNG = np.random.RandomState(0)
LOC = RNG.normal(size=(N, D))
SCALE = RNG.uniform(0.5, 2.0, size=(N, D))
POINTS = RNG.multivariate_normal(np.zeros(D), CORRELATION, size=K)
MARGINALS = (
    Normal(LOC[:, 0], SCALE[:, 0]),
    StudentT(LOC[:, 1], SCALE[:, 1], df=6),
    Normal(LOC[:, 2], SCALE[:, 2]),
)
ATOMS = (*MARGINALS[:2], Empirical(np.round(RNG.gamma(2.0, size=(N, 30)))))
NORMALS = tuple(Normal(loc, scale) for loc, scale in zip(LOC.T, SCALE.T, strict=True))
COVARIANCES = SCALE[:, :, np.newaxis] * CORRELATION * SCALE[:, np.newaxis]

ALL = {
    "template": CopulaJoint(MARGINALS, rank_template(POINTS), names=NAMES),
    "template with atoms": CopulaJoint(ATOMS, rank_template(POINTS), names=NAMES),
    "common weights": CopulaJoint(
        MARGINALS, rank_template(POINTS), weights=RNG.uniform(-0.3, 1.0, size=K).clip(0.0), names=NAMES
    ),
    "row weights": CopulaJoint(
        MARGINALS, rank_template(POINTS), weights=RNG.uniform(-0.3, 1.0, size=(N, K)).clip(0.0), names=NAMES
    ),
    "normal copula": CopulaJoint(
        MARGINALS, normal_template(CORRELATION), correlation=CORRELATION, names=NAMES
    ),
    "normal copula and marginals": CopulaJoint(
        NORMALS, normal_template(CORRELATION), correlation=CORRELATION, names=NAMES
    ),
    "one covariance": NormalJoint(LOC, CORRELATION, names=NAMES),
    "row covariances": NormalJoint(LOC, COVARIANCES, names=NAMES),
    "members": EmpiricalJoint(RNG.normal(size=(N, 40, D)), names=NAMES),
    "weighted members": EmpiricalJoint(RNG.normal(size=(N, 40, D)), RNG.uniform(size=(N, 40)), names=NAMES),
    "shared members": EmpiricalJoint(RNG.normal(size=(40, D)), RNG.uniform(size=(N, 40)), names=NAMES),
}
ALL["concatenated"] = concat([ALL["template"][:5], ALL["row covariances"][5:]])[RNG.permutation(N)]
