"""One distribution of every family and of every way to build one on another, built when it is used."""

from collections.abc import Mapping

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import (
    Binned,
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    Transformed,
    Truncated,
    affine,
    concat,
)
from skuq.distributions._beta_recalibrated import BetaRecalibrated
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.distributions._step_table import SharedSteps, StepTable
from skuq.distributions._supported import Supported
from skuq.multivariate._conditional import ConditionalMarginal

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


class Families(Mapping):
    """Distributions by name."""

    def __init__(self, builders):
        self._builders, self._built = builders, {}

    def __getitem__(self, name):
        if name not in self._built:
            self._built[name] = self._builders[name]()
        return self._built[name]

    def __iter__(self):
        return iter(self._builders)

    def __len__(self):
        return len(self._builders)


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
    StepTable.from_cdfs(
        np.array([-1.0, 0.2, 1.5, 4.0]), [[0.3, 0.9, 1, 1], [0.3, 0.5, 0.9, 1], [0, 0.15, 0.35, 1]]
    ),
    np.array([0.0, 0.31, 0.77, 1.0, 1.12, 1.43, 2.0]),
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
    "conditional of a normal copula": lambda: ConditionalMarginal(
        StudentT(LOC, SCALE, df=5), np.linspace(-1.0, 1.0, N), np.full(N, 0.6)
    ),
    "Normal": lambda: NORMAL,
    "StudentT": lambda: STUDENT,
    "StudentT, one df a row": lambda: STUDENT_ROWS,
    "NormalMixture": lambda: MIXTURE_NORMAL,
    "Mixture": lambda: MIXTURE,
    "Quantiles": lambda: QUANTILES,
    "Quantiles in two parts": lambda: QUANTILES_IN_TWO_PARTS,
    "Binned": lambda: BINNED,
    "Binned without tails": lambda: Binned(BINNED.edges, BINNED.log_weights, tails=False),
    "Binned, one bin": lambda: Binned([-1.0, 2.0], np.zeros((N, 1))),
    "Recalibrated Binned": lambda: Recalibrated(BINNED, LEVEL_MAP),
    "Transformed Binned": lambda: Transformed(BINNED, np.exp, np.log),
    "Mixture of Binned and Normal": lambda: Mixture([BINNED, NORMAL], [0.4, 0.6]),
    "affine of Binned, reversed": lambda: affine(BINNED, LOC, -SCALE),
    "ScipyDistribution": lambda: GAMMA,
    "Recalibrated Normal": lambda: Recalibrated(NORMAL, LEVEL_MAP),
    "Recalibrated StudentT": lambda: Recalibrated(STUDENT, LEVEL_MAP),
    "Recalibrated NormalMixture": lambda: Recalibrated(MIXTURE_NORMAL, LEVEL_MAP),
    "Recalibrated Quantiles": lambda: Recalibrated(QUANTILES, LEVEL_MAP),
    "Recalibrated Transformed": lambda: Recalibrated(LOGNORMAL, LEVEL_MAP),
    "BetaRecalibrated Normal": lambda: BetaRecalibrated(NORMAL, **BETA),
    "BetaRecalibrated Quantiles": lambda: BetaRecalibrated(QUANTILES, a=1.3, b=0.8, c=LOC),
    "Transformed": lambda: LOGNORMAL,
    "Transformed, decreasing": lambda: Transformed(NORMAL, reciprocal_of_shifted, inverse_of_it),
    "Transformed Mixture": lambda: Transformed(MIXTURE, np.arcsinh, np.sinh),
    "Transformed Recalibrated": lambda: Transformed(Recalibrated(NORMAL, LEVEL_MAP), np.exp, np.log),
    "Concatenated": lambda: Concatenated(
        [NORMAL[:3], Recalibrated(GAMMA, LEVEL_MAP)[2:4], QUANTILES, LOGNORMAL[[5]]], [3, 0, 7, 4, 12, 0, 2]
    ),
    "Mixture of what is built": lambda: Mixture([Recalibrated(NORMAL, LEVEL_MAP), LOGNORMAL]),
    "Mixture of a Concatenated": lambda: Mixture([concat([NORMAL[:2], QUANTILES[2:]]), GAMMA]),
    "Mixture of an ensemble": lambda: Mixture([NORMAL, STUDENT], [0.3, 0.7], ensemble=True),
    "affine of Transformed": lambda: affine(LOGNORMAL, LOC, -2 * SCALE),
    "affine of Recalibrated, reversed": lambda: affine(Recalibrated(STUDENT, LEVEL_MAP), 1.0, -2.0),
    "affine of Mixture": lambda: affine(MIXTURE, 3.0, 0.5),
    "affine of Quantiles, reversed": lambda: affine(QUANTILES, LOC, -SCALE),
    "Supported without mass beyond": lambda: LOGNORMAL.clip(lower=0.0),
    "Truncated": lambda: Truncated(NORMAL, *BOUNDS),
    "Truncated with heavy tails": lambda: Truncated(STUDENT, LOC - 1.0),
    "Truncated Mixture": lambda: Truncated(MIXTURE, upper=LOC + 0.5),
    "affine of Truncated, reversed": lambda: affine(Truncated(GAMMA, LOC), 1.0, -2.0),
}
WITH_ATOMS = {
    "Empirical": lambda: EMPIRICAL,
    "Empirical, weighted": lambda: EMPIRICAL_WEIGHTED,
    "SharedEmpirical": lambda: SHARED,
    "SharedEmpirical, weighted": lambda: SHARED_WEIGHTED,
    "SharedEmpirical with point masses": lambda: SharedEmpirical(LOC, POINT.scale, SHARED.members),
    "SharedSteps": lambda: STEPS,
    "Recalibrated SharedSteps": lambda: Recalibrated(STEPS, LEVEL_MAP),
    "affine of SharedSteps": lambda: affine(STEPS, LOC, -SCALE),
    "Supported SharedSteps": lambda: STEPS.clip(*BOUNDS),
    "Normal with point masses": lambda: POINT,
    "StudentT with point masses": lambda: StudentT(LOC, POINT.scale, 4.0),
    "NormalMixture with point masses": lambda: NormalMixture(
        np.stack([LOC, LOC + 1], 1), np.stack([POINT.scale, SCALE], 1)
    ),
    "Quantiles with atoms": lambda: Quantiles(LEVELS, np.round(QUANTILES.values)),
    "discrete scipy": lambda: POISSON,
    "Recalibrated Empirical": lambda: Recalibrated(EMPIRICAL, LEVEL_MAP),
    "Recalibrated SharedEmpirical": lambda: Recalibrated(SHARED_WEIGHTED, LEVEL_MAP),
    "Recalibrated point masses": lambda: Recalibrated(POINT, LEVEL_MAP),
    "BetaRecalibrated point masses": lambda: BetaRecalibrated(POINT, **BETA),
    "Transformed Empirical": lambda: Transformed(EMPIRICAL_WEIGHTED, np.exp, np.log),
    "Transformed SharedEmpirical": lambda: Transformed(SHARED, np.exp, np.log),
    "Transformed SharedEmpirical, decreasing": lambda: Transformed(
        SHARED, reciprocal_of_shifted, inverse_of_it
    ),
    "Transformed point masses": lambda: Transformed(POINT, np.sinh, np.arcsinh),
    "Mixture of Empiricals": lambda: Mixture([EMPIRICAL, EMPIRICAL_WEIGHTED], [0.2, 0.8]),
    "Mixture of Empirical and Normal": lambda: Mixture([EMPIRICAL, POINT, GAMMA]),
    "Mixture of SharedEmpiricals": lambda: Mixture([SHARED, SHARED_WEIGHTED], [0.4, 0.6]),
    "affine of discrete": lambda: affine(POISSON, 1.0, -0.5),
    "Supported Normal": lambda: NORMAL.clip(*BOUNDS),
    "Supported StudentT": lambda: STUDENT.clip(*BOUNDS),
    "Supported point masses": lambda: POINT.clip(*BOUNDS),
    "Supported Quantiles": lambda: QUANTILES.clip(-0.3, 0.9),
    "Supported SharedEmpirical": lambda: SHARED_WEIGHTED.clip(*BOUNDS),
    "Supported Binned": lambda: BINNED.clip(*BOUNDS),
    "Supported Mixture": lambda: MIXTURE.clip(*BOUNDS),
    "Supported Recalibrated": lambda: Recalibrated(NORMAL, LEVEL_MAP).clip(*BOUNDS),
    "Supported Transformed": lambda: LOGNORMAL.clip(0.5),
    "Supported Empirical": lambda: Supported(EMPIRICAL, *BOUNDS),
    "affine of Supported": lambda: affine(STUDENT_ROWS.clip(*BOUNDS), LOC, -SCALE),
    "affine of affine, Supported": lambda: affine(SHARED, LOC, -SCALE).clip(*BOUNDS),
    "Recalibrated Supported": lambda: Recalibrated(NORMAL.clip(*BOUNDS), LEVEL_MAP),
    "Mixture of Supported": lambda: Mixture([NORMAL.clip(*BOUNDS), STUDENT.clip(-1.0)]),
    "Supported integers, Normal": lambda: NORMAL.clip(-1.0, 2.0, integer=True),
    "Supported integers, StudentT": lambda: affine(STUDENT, 3.0, 5.0).clip(0.0, integer=True),
    "Supported integers, Recalibrated": lambda: Recalibrated(affine(NORMAL, 2.0, 2.0), LEVEL_MAP).clip(
        0, integer=True
    ),
    "Supported integers, Quantiles": lambda: affine(QUANTILES, 1.0, 3.0).clip(integer=True),
    "Supported integers, SharedEmpirical": lambda: affine(SHARED, 0.0, 3.0).clip(integer=True),
    "Supported integers, Mixture": lambda: affine(MIXTURE, 2.0, 3.0).clip(0.0, 9.0, integer=True),
    "Supported integers, wide": lambda: affine(STUDENT, 400.0, 120.0).clip(0.0, integer=True),
    "Supported integers, discrete": lambda: POISSON.clip(1.0, 3.0, integer=True),
    "Recalibrated Supported integers": lambda: Recalibrated(
        affine(NORMAL, 3.0, 3.0).clip(0.0, integer=True), LEVEL_MAP
    ),
    "Mixture of integers": lambda: Mixture([POISSON, affine(NORMAL, 3.0, 3.0).clip(0.0, integer=True)]),
    "affine of integers": lambda: affine(NORMAL.clip(0.0, integer=True), LOC, -SCALE),
    "Transformed integers": lambda: Transformed(
        affine(NORMAL, 3.0, 2.0).clip(0.0, integer=True), np.log1p, np.expm1
    ),
    "Truncated integers": lambda: Truncated(POISSON, 0.0),
    "Truncated without mass": lambda: Truncated(NORMAL, LOC + np.where(np.arange(N) % 2, 60 * SCALE, 0.0)),
    "Hurdle": lambda: Hurdle(np.linspace(0.0, 1.0, N), Truncated(affine(NORMAL, 2.0, 1.0), 0.0)),
    "Hurdle inside": lambda: Hurdle(0.3, STUDENT, LOC + 0.1),
    "Hurdle of counts": lambda: Hurdle(0.6, affine(NORMAL, 3.0, 3.0).clip(1.0, integer=True)),
    "Hurdle of a Mixture": lambda: Hurdle(0.2, MIXTURE, LOC),
    "affine of Hurdle": lambda: affine(Hurdle(0.4, GAMMA, LOC), LOC, -SCALE),
    "Concatenated, clipped": lambda: concat([EMPIRICAL[:3], GAMMA[3:]]).clip(*BOUNDS),
    "Concatenated with atoms": lambda: concat([EMPIRICAL[:3], GAMMA[3:]]),
}
ALL = Families(SMOOTH | WITH_ATOMS)
FAMILIES = Families(
    SMOOTH
    | WITH_ATOMS
    | {"ConformalPredictive": lambda: ConformalPredictive(LOC, SCALE, np.linspace(0.1, 3.0, 30) ** 2)}
)

DEFAULT = {
    *("conditional of a normal copula", "Normal", "StudentT", "NormalMixture", "Mixture", "Quantiles"),
    *("Binned", "ScipyDistribution", "Recalibrated Normal", "BetaRecalibrated Normal", "Transformed"),
    *("Transformed, decreasing", "Concatenated", "affine of Recalibrated, reversed"),
    *("Supported without mass beyond", "Truncated"),
    *("Empirical, weighted", "SharedEmpirical, weighted", "SharedSteps", "Normal with point masses"),
    *("Quantiles with atoms", "discrete scipy", "Recalibrated point masses", "BetaRecalibrated point masses"),
    *("Transformed point masses", "Mixture of Empirical and Normal", "Supported Normal"),
    *("Supported integers, Normal", "Truncated integers", "Truncated without mass", "Hurdle inside"),
    *("Concatenated with atoms", "ConformalPredictive"),
}
"""Names in the default tier: one of each class, and composites with atoms. The others are in `laws`."""


def law(families, default=DEFAULT):
    """Parametrize a test over families; the fixture `dist` builds each one."""
    names = [pytest.param(name, marks=() if name in default else pytest.mark.laws) for name in families]
    return pytest.mark.parametrize("dist", names, indirect=True)
