"""Types of the methods of distributions."""

from __future__ import annotations

from typing import assert_type

from skuq import distributions
from skuq._typing import FloatArray


def check_one_target(dist: distributions.Distribution, y: FloatArray) -> None:
    assert_type(dist[0], distributions.Distribution)
    assert_type(dist[:10], distributions.Distribution)
    assert_type(len(dist), int)
    assert_type(dist.cdf(y), FloatArray)
    assert_type(dist.ppf(0.5), FloatArray)
    assert_type(dist.pdf(y), FloatArray)
    assert_type(dist.logpdf(y), FloatArray)
    assert_type(dist.logpmf(y), FloatArray)
    assert_type(dist.mean(), FloatArray)
    assert_type(dist.median(), FloatArray)
    assert_type(dist.std(), FloatArray)
    assert_type(dist.var(), FloatArray)
    assert_type(dist.quantile([0.1, 0.9]), FloatArray)
    assert_type(dist.interval(0.9), FloatArray)
    assert_type(dist.crps(y), FloatArray)
    assert_type(dist.pit(y), FloatArray)
    assert_type(dist.sample(5), FloatArray)
    assert_type(dist.clip(0.0), distributions.Distribution)
    assert_type(dist.aleatoric(), distributions.Distribution)
    assert_type(dist.epistemic(), distributions.Distribution)
    assert_type(distributions.concat([dist, dist]), distributions.Distribution)
    assert_type(distributions.affine(dist, 1.0, 2.0), distributions.Distribution)
    assert_type(distributions.as_distribution((y, y)), distributions.Distribution)


def check_several_targets(dist: distributions.JointDistribution, y: FloatArray) -> None:
    assert_type(dist[0], distributions.JointDistribution)
    assert_type(dist.cdf(y), FloatArray)
    assert_type(dist.logpdf(y), FloatArray)
    assert_type(dist.mean(), FloatArray)
    assert_type(dist.cov(), FloatArray)
    assert_type(dist.corr(), FloatArray)
    assert_type(dist.interval(0.9), FloatArray)
    assert_type(dist.sample(5), FloatArray)
    assert_type(dist.marginal(0), distributions.Distribution)
    assert_type(dist.marginals(), tuple[distributions.Distribution, ...])
    assert_type(dist.linear([1.0, 1.0]), distributions.Distribution)
    assert_type(dist.pit(y), FloatArray)


def check_families_of_one_target(
    betarecalibrated: distributions.BetaRecalibrated,
    binned: distributions.Binned,
    concatenated: distributions.Concatenated,
    conformalpredictive: distributions.ConformalPredictive,
    empirical: distributions.Empirical,
    hurdle: distributions.Hurdle,
    mixture: distributions.Mixture,
    normal: distributions.Normal,
    normalmixture: distributions.NormalMixture,
    quantiles: distributions.Quantiles,
    recalibrated: distributions.Recalibrated,
    scipydistribution: distributions.ScipyDistribution,
    sharedempirical: distributions.SharedEmpirical,
    sharedsteps: distributions.SharedSteps,
    studentt: distributions.StudentT,
    supported: distributions.Supported,
    transformed: distributions.Transformed,
    truncated: distributions.Truncated,
) -> None:
    assert_type(betarecalibrated[0], distributions.Distribution)
    assert_type(betarecalibrated.quantile([0.1, 0.9]), FloatArray)
    assert_type(binned[0], distributions.Distribution)
    assert_type(binned.quantile([0.1, 0.9]), FloatArray)
    assert_type(concatenated[0], distributions.Distribution)
    assert_type(concatenated.quantile([0.1, 0.9]), FloatArray)
    assert_type(conformalpredictive[0], distributions.Distribution)
    assert_type(conformalpredictive.quantile([0.1, 0.9]), FloatArray)
    assert_type(empirical[0], distributions.Distribution)
    assert_type(empirical.quantile([0.1, 0.9]), FloatArray)
    assert_type(hurdle[0], distributions.Distribution)
    assert_type(hurdle.quantile([0.1, 0.9]), FloatArray)
    assert_type(mixture[0], distributions.Distribution)
    assert_type(mixture.quantile([0.1, 0.9]), FloatArray)
    assert_type(normal[0], distributions.Distribution)
    assert_type(normal.quantile([0.1, 0.9]), FloatArray)
    assert_type(normalmixture[0], distributions.Distribution)
    assert_type(normalmixture.quantile([0.1, 0.9]), FloatArray)
    assert_type(quantiles[0], distributions.Distribution)
    assert_type(quantiles.quantile([0.1, 0.9]), FloatArray)
    assert_type(recalibrated[0], distributions.Distribution)
    assert_type(recalibrated.quantile([0.1, 0.9]), FloatArray)
    assert_type(scipydistribution[0], distributions.Distribution)
    assert_type(scipydistribution.quantile([0.1, 0.9]), FloatArray)
    assert_type(sharedempirical[0], distributions.Distribution)
    assert_type(sharedempirical.quantile([0.1, 0.9]), FloatArray)
    assert_type(sharedsteps[0], distributions.Distribution)
    assert_type(sharedsteps.quantile([0.1, 0.9]), FloatArray)
    assert_type(studentt[0], distributions.Distribution)
    assert_type(studentt.quantile([0.1, 0.9]), FloatArray)
    assert_type(supported[0], distributions.Distribution)
    assert_type(supported.quantile([0.1, 0.9]), FloatArray)
    assert_type(transformed[0], distributions.Distribution)
    assert_type(transformed.quantile([0.1, 0.9]), FloatArray)
    assert_type(truncated[0], distributions.Distribution)
    assert_type(truncated.quantile([0.1, 0.9]), FloatArray)


def check_families_of_several_targets(
    concatenatedjoint: distributions.ConcatenatedJoint,
    copulajoint: distributions.CopulaJoint,
    empiricaljoint: distributions.EmpiricalJoint,
    normaljoint: distributions.NormalJoint,
) -> None:
    assert_type(concatenatedjoint.mean(), FloatArray)
    assert_type(concatenatedjoint.marginal(0), distributions.Distribution)
    assert_type(copulajoint.mean(), FloatArray)
    assert_type(copulajoint.marginal(0), distributions.Distribution)
    assert_type(empiricaljoint.mean(), FloatArray)
    assert_type(empiricaljoint.marginal(0), distributions.Distribution)
    assert_type(normaljoint.mean(), FloatArray)
    assert_type(normaljoint.marginal(0), distributions.Distribution)


def check_maps_and_templates(levels: distributions.LevelMap, y: FloatArray) -> None:
    assert_type(levels(y), FloatArray)
    assert_type(levels.inverse(y), FloatArray)
    assert_type(levels.reversed(), distributions.LevelMap)
    assert_type(distributions.normal_template([[1.0, 0.5], [0.5, 1.0]]), FloatArray)
    assert_type(distributions.rank_template([[0.0, 1.0], [1.0, 0.0]]), FloatArray)
