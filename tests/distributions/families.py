"""One distribution of every family and of every way to build one on another."""

import numpy as np
from scipy import stats

from skuq.distributions import (
    BetaRecalibrated,
    Binned,
    Concatenated,
    Empirical,
    Hurdle,
    LevelMap,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    Recalibrated,
    ScipyDistribution,
    SharedEmpirical,
    SharedSteps,
    StepTable,
    StudentT,
    Supported,
    Transformed,
    Truncated,
    affine,
    concat,
)
from skuq.distributions._joint.conditional import ConditionalMarginal

N = 7
RNG = np.random.default_rng(20261120)
LOC = RNG.normal(size=N)
SCALE = 0.3 + RNG.random(N)
LEVELS = np.array([0.05, 0.2, 0.5, 0.7, 0.95])
LEVEL_MAP = LevelMap([0.1, 0.35, 0.8, 0.97], [0.04, 0.3, 0.85, 0.99])


def reciprocal_of_shifted(x):
    """A decreasing map that is smooth over the whole line."""
    return -np.sinh(x)


def inverse_of_it(y):
    return -np.arcsinh(y)


NORMAL = Normal(LOC, SCALE, SCALE / 2)
STUDENT = StudentT(LOC, SCALE, 5.0, SCALE / 2)
STUDENT_ROWS = StudentT(LOC, SCALE, 5.0 + np.arange(N))
MIXTURE_NORMAL = NormalMixture(RNG.normal(size=(N, 3)), 0.2 + RNG.random((N, 3)), RNG.random((N, 3)))
QUANTILES = Quantiles(LEVELS, np.sort(RNG.normal(size=(N, 5)), axis=1))
QUANTILES_IN_TWO_PARTS = Quantiles(LEVELS, QUANTILES.values, 0.5 * QUANTILES.std())
EMPIRICAL = Empirical(RNG.normal(size=(N, 6)))
EMPIRICAL_WEIGHTED = Empirical(RNG.normal(size=(N, 6)), [0.0, 0.1, 0.2, 0.3, 0.4, 0.0])
SHARED = SharedEmpirical(LOC, SCALE, np.random.default_rng(1).gamma(2.0, size=6) - 2)
SHARED_WEIGHTED = SharedEmpirical(
    LOC, SCALE, [2.0, -1.0, 0.3, -1.0, 9.0, 0.7], [0.1, 1.0, 2.0, 0.5, 0.0, 1.4]
)
STEPS = SharedSteps(
    StepTable.from_cdfs([-1.0, 0.2, 1.5, 4.0], [[0.3, 0.9, 1, 1], [0.3, 0.5, 0.9, 1], [0, 0.15, 0.35, 1]]),
    [0.0, 0.31, 0.77, 1.0, 1.12, 1.43, 2.0],
)
BINNED = Binned(
    [-3.0, -1.4, -0.6, -0.5, 0.1, 0.8, 1.9, 2.5], np.random.default_rng(2).normal(0.0, 0.7, size=(N, 7))
)
GAMMA = ScipyDistribution(stats.gamma(a=1.0 + RNG.random(N), loc=LOC, scale=SCALE))
POISSON = ScipyDistribution(stats.poisson(mu=1.0 + 3 * RNG.random(N)))
BETA = {name: np.exp(np.random.default_rng(i).normal(0.2, 0.3, size=(N, 3))) for i, name in enumerate("ab")}
BETA |= {"c": LOC[:, np.newaxis] + [-0.1, 0.0, 0.2], "weights": [0.2, 0.5, 0.3]}
MIXTURE = Mixture([NORMAL, STUDENT, QUANTILES], [0.5, 0.3, 0.2])
POINT = Normal(LOC, np.where(np.arange(N) % 3 == 0, 0.0, SCALE))
LOGNORMAL = Transformed(NORMAL, np.exp, np.log)
BOUNDS = (
    LOC - np.where(np.arange(N) % 3 == 1, np.inf, SCALE),
    LOC + np.where(np.arange(N) % 3 == 2, np.inf, 1.0),
)

SMOOTH = {
    "conditional of a normal copula": ConditionalMarginal(
        StudentT(LOC, SCALE, df=5), np.linspace(-1.0, 1.0, N), np.full(N, 0.6)
    ),
    "Normal": NORMAL,
    "StudentT": STUDENT,
    "StudentT, one df a row": STUDENT_ROWS,
    "NormalMixture": MIXTURE_NORMAL,
    "Mixture": MIXTURE,
    "Quantiles": QUANTILES,
    "Quantiles in two parts": QUANTILES_IN_TWO_PARTS,
    "Binned": BINNED,
    "Binned without tails": Binned(BINNED.edges, BINNED.log_weights, tails=False),
    "Binned, one bin": Binned([-1.0, 2.0], np.zeros((N, 1))),
    "Recalibrated Binned": Recalibrated(BINNED, LEVEL_MAP),
    "Transformed Binned": Transformed(BINNED, np.exp, np.log),
    "Mixture of Binned and Normal": Mixture([BINNED, NORMAL], [0.4, 0.6]),
    "affine of Binned, reversed": affine(BINNED, LOC, -SCALE),
    "ScipyDistribution": GAMMA,
    "Recalibrated Normal": Recalibrated(NORMAL, LEVEL_MAP),
    "Recalibrated StudentT": Recalibrated(STUDENT, LEVEL_MAP),
    "Recalibrated NormalMixture": Recalibrated(MIXTURE_NORMAL, LEVEL_MAP),
    "Recalibrated Quantiles": Recalibrated(QUANTILES, LEVEL_MAP),
    "Recalibrated Transformed": Recalibrated(LOGNORMAL, LEVEL_MAP),
    "BetaRecalibrated Normal": BetaRecalibrated(NORMAL, **BETA),
    "BetaRecalibrated Quantiles": BetaRecalibrated(QUANTILES, a=1.3, b=0.8, c=LOC),
    "Transformed": LOGNORMAL,
    "Transformed, decreasing": Transformed(NORMAL, reciprocal_of_shifted, inverse_of_it),
    "Transformed Mixture": Transformed(MIXTURE, np.arcsinh, np.sinh),
    "Transformed Recalibrated": Transformed(Recalibrated(NORMAL, LEVEL_MAP), np.exp, np.log),
    "Concatenated": Concatenated(
        [NORMAL[:3], Recalibrated(GAMMA, LEVEL_MAP)[2:4], QUANTILES, LOGNORMAL[[5]]], [3, 0, 7, 4, 12, 0, 2]
    ),
    "Mixture of what is built": Mixture([Recalibrated(NORMAL, LEVEL_MAP), LOGNORMAL]),
    "Mixture of a Concatenated": Mixture([concat([NORMAL[:2], QUANTILES[2:]]), GAMMA]),
    "Mixture of an ensemble": Mixture([NORMAL, STUDENT], [0.3, 0.7], ensemble=True),
    "affine of Transformed": affine(LOGNORMAL, LOC, -2 * SCALE),
    "affine of Recalibrated, reversed": affine(Recalibrated(STUDENT, LEVEL_MAP), 1.0, -2.0),
    "affine of Mixture": affine(MIXTURE, 3.0, 0.5),
    "affine of Quantiles, reversed": affine(QUANTILES, LOC, -SCALE),
    "Supported without mass beyond": LOGNORMAL.clip(lower=0.0),
    "Truncated": Truncated(NORMAL, *BOUNDS),
    "Truncated with heavy tails": Truncated(STUDENT, LOC - 1.0),
    "Truncated Mixture": Truncated(MIXTURE, upper=LOC + 0.5),
    "affine of Truncated, reversed": affine(Truncated(GAMMA, LOC), 1.0, -2.0),
}
WITH_ATOMS = {
    "Empirical": EMPIRICAL,
    "Empirical, weighted": EMPIRICAL_WEIGHTED,
    "SharedEmpirical": SHARED,
    "SharedEmpirical, weighted": SHARED_WEIGHTED,
    "SharedEmpirical with point masses": SharedEmpirical(LOC, POINT.scale, SHARED.members),
    "SharedSteps": STEPS,
    "Recalibrated SharedSteps": Recalibrated(STEPS, LEVEL_MAP),
    "affine of SharedSteps": affine(STEPS, LOC, -SCALE),
    "Supported SharedSteps": STEPS.clip(*BOUNDS),
    "Normal with point masses": POINT,
    "StudentT with point masses": StudentT(LOC, POINT.scale, 4.0),
    "NormalMixture with point masses": NormalMixture(
        np.stack([LOC, LOC + 1], 1), np.stack([POINT.scale, SCALE], 1)
    ),
    "Quantiles with atoms": Quantiles(LEVELS, np.round(QUANTILES.values)),
    "discrete scipy": POISSON,
    "Recalibrated Empirical": Recalibrated(EMPIRICAL, LEVEL_MAP),
    "Recalibrated SharedEmpirical": Recalibrated(SHARED_WEIGHTED, LEVEL_MAP),
    "Recalibrated point masses": Recalibrated(POINT, LEVEL_MAP),
    "BetaRecalibrated point masses": BetaRecalibrated(POINT, **BETA),
    "Transformed Empirical": Transformed(EMPIRICAL_WEIGHTED, np.exp, np.log),
    "Transformed SharedEmpirical": Transformed(SHARED, np.exp, np.log),
    "Transformed SharedEmpirical, decreasing": Transformed(SHARED, reciprocal_of_shifted, inverse_of_it),
    "Transformed point masses": Transformed(POINT, np.sinh, np.arcsinh),
    "Mixture of Empiricals": Mixture([EMPIRICAL, EMPIRICAL_WEIGHTED], [0.2, 0.8]),
    "Mixture of Empirical and Normal": Mixture([EMPIRICAL, POINT, GAMMA]),
    "Mixture of SharedEmpiricals": Mixture([SHARED, SHARED_WEIGHTED], [0.4, 0.6]),
    "affine of discrete": affine(POISSON, 1.0, -0.5),
    "Supported Normal": NORMAL.clip(*BOUNDS),
    "Supported StudentT": STUDENT.clip(*BOUNDS),
    "Supported point masses": POINT.clip(*BOUNDS),
    "Supported Quantiles": QUANTILES.clip(-0.3, 0.9),
    "Supported SharedEmpirical": SHARED_WEIGHTED.clip(*BOUNDS),
    "Supported Binned": BINNED.clip(*BOUNDS),
    "Supported Mixture": MIXTURE.clip(*BOUNDS),
    "Supported Recalibrated": Recalibrated(NORMAL, LEVEL_MAP).clip(*BOUNDS),
    "Supported Transformed": LOGNORMAL.clip(0.5),
    "Supported Empirical": Supported(EMPIRICAL, *BOUNDS),
    "affine of Supported": affine(STUDENT_ROWS.clip(*BOUNDS), LOC, -SCALE),
    "affine of affine, Supported": affine(SHARED, LOC, -SCALE).clip(*BOUNDS),
    "Recalibrated Supported": Recalibrated(NORMAL.clip(*BOUNDS), LEVEL_MAP),
    "Mixture of Supported": Mixture([NORMAL.clip(*BOUNDS), STUDENT.clip(-1.0)]),
    "Supported integers, Normal": NORMAL.clip(-1.0, 2.0, integer=True),
    "Supported integers, StudentT": affine(STUDENT, 3.0, 5.0).clip(0.0, integer=True),
    "Supported integers, Recalibrated": Recalibrated(affine(NORMAL, 2.0, 2.0), LEVEL_MAP).clip(
        0, integer=True
    ),
    "Supported integers, Quantiles": affine(QUANTILES, 1.0, 3.0).clip(integer=True),
    "Supported integers, SharedEmpirical": affine(SHARED, 0.0, 3.0).clip(integer=True),
    "Supported integers, Mixture": affine(MIXTURE, 2.0, 3.0).clip(0.0, 9.0, integer=True),
    "Supported integers, wide": affine(STUDENT, 400.0, 120.0).clip(0.0, integer=True),
    "Supported integers, discrete": POISSON.clip(1.0, 3.0, integer=True),
    "Recalibrated Supported integers": Recalibrated(
        affine(NORMAL, 3.0, 3.0).clip(0.0, integer=True), LEVEL_MAP
    ),
    "Mixture of integers": Mixture([POISSON, affine(NORMAL, 3.0, 3.0).clip(0.0, integer=True)]),
    "affine of integers": affine(NORMAL.clip(0.0, integer=True), LOC, -SCALE),
    "Transformed integers": Transformed(affine(NORMAL, 3.0, 2.0).clip(0.0, integer=True), np.log1p, np.expm1),
    "Truncated integers": Truncated(POISSON, 0.0),
    "Truncated without mass": Truncated(NORMAL, LOC + np.where(np.arange(N) % 2, 60 * SCALE, 0.0)),
    "Hurdle": Hurdle(np.linspace(0.0, 1.0, N), Truncated(affine(NORMAL, 2.0, 1.0), 0.0)),
    "Hurdle inside": Hurdle(0.3, STUDENT, LOC + 0.1),
    "Hurdle of counts": Hurdle(0.6, affine(NORMAL, 3.0, 3.0).clip(1.0, integer=True)),
    "Hurdle of a Mixture": Hurdle(0.2, MIXTURE, LOC),
    "affine of Hurdle": affine(Hurdle(0.4, GAMMA, LOC), LOC, -SCALE),
    "Concatenated, clipped": concat([EMPIRICAL[:3], GAMMA[3:]]).clip(*BOUNDS),
    "Concatenated with atoms": concat([EMPIRICAL[:3], GAMMA[3:]]),
}
ALL = {**SMOOTH, **WITH_ATOMS}
