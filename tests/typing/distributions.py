"""Types of the methods of distributions."""

from __future__ import annotations

from typing import assert_type

from skuq import distributions, multivariate
from skuq._typing import FloatArray
from skuq.distributions._level_map import LevelMap


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
    assert_type(distributions.as_distribution(dist), distributions.Distribution)


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


def check_families(normal: distributions.Normal, joint: multivariate.NormalJoint) -> None:
    assert_type(normal[0], distributions.Distribution)
    assert_type(normal.quantile([0.1, 0.9]), FloatArray)
    assert_type(joint.mean(), FloatArray)
    assert_type(joint.marginal(0), distributions.Distribution)


def check_maps_and_templates(levels: LevelMap, y: FloatArray) -> None:
    assert_type(levels(y), FloatArray)
    assert_type(levels.inverse(y), FloatArray)
    assert_type(levels.reversed(), LevelMap)
    assert_type(multivariate.normal_template([[1.0, 0.5], [0.5, 1.0]]), FloatArray)
    assert_type(multivariate.rank_template([[0.0, 1.0], [1.0, 0.0]]), FloatArray)
