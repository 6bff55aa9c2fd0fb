"""Predictive distributions of trained networks, with calibrated scale and tails.

The scale and the tails are estimated from rows that are not used in training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np
import torch
from scipy.special import entr, gammaln, ndtri, stdtrit
from torch import Tensor

from skuq._fitting.training_data import TrainingData
from skuq._numeric import WeightedRanks, power_of_two
from skuq._typing import BoolArray, FloatArray
from skuq.distributions import Distribution, Empirical, Normal, NormalMixture, StudentT
from skuq.multivariate import NormalJoint
from skuq.neural._losses import normal_parameters, variance_of
from skuq.neural._plan import Standardizer
from skuq.neural._stacked import (
    MIN_NOISE,
    N_TRAINING_STREAMS,
    StackedModule,
    blocks_of,
    member_moments,
    minimum,
    output_blocks,
    read_device,
    to_predict,
)

_DEGREES_OF_FREEDOM = np.array([3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0])
"""Candidate degrees of freedom. The smallest are the heaviest tails whose variance can be estimated. The
largest are nearly normal tails."""


@dataclass(frozen=True)
class Calibration:
    """Factor of the standard deviations, and degrees of freedom.

    With infinite degrees of freedom, the distribution is normal. There is one factor per target.
    """

    factor: Any = 1.0
    df: float = np.inf

    @classmethod
    def fit_scale(cls, z: FloatArray, coverage: float, weight: FloatArray | None) -> Calibration:
        score = conformal_score(z, coverage, weight)
        return cls(score / float(ndtri((1 + coverage) / 2))) if score > 0 else cls()

    @classmethod
    def fit_scale_and_tails(cls, z: FloatArray, coverage: float, weight: FloatArray | None) -> Calibration:
        """Return the most likely Student t distribution whose central intervals have the nominal coverage."""
        # Predicted standard deviations have errors, so standardized residuals have heavier tails than a
        # normal distribution. With a normal distribution, a factor that is right at one coverage would be
        # wrong at other coverages.
        score = conformal_score(z, coverage, weight)
        if not score > 0:
            return cls()
        df = _DEGREES_OF_FREEDOM[:, np.newaxis]
        scale = score / stdtrit(df, (1 + coverage) / 2)
        log_constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi)
        log_density = log_constant - np.log(scale) - (df + 1) / 2 * np.log1p(np.square(z / scale) / df)
        best = int(np.argmax(np.average(log_density, axis=1, weights=weight)))
        tail = float(_DEGREES_OF_FREEDOM[best])
        return cls(float(scale[best, 0]) * np.sqrt(tail / (tail - 2)), tail)

    def apply(self, loc: FloatArray, scale: FloatArray, epistemic: FloatArray | None = None) -> Distribution:
        if np.isinf(self.df):
            return Normal(loc, self.factor * scale, None if epistemic is None else self.factor * epistemic)
        width = self.factor * np.sqrt(1 - 2 / self.df)
        return StudentT(loc, width * scale, self.df, None if epistemic is None else width * epistemic)


@dataclass(frozen=True)
class FixedTails(Calibration):
    """Student t distributions with given degrees of freedom and with the predicted scales."""

    def apply(self, loc: FloatArray, scale: FloatArray, epistemic: FloatArray | None = None) -> Distribution:
        return StudentT(loc, scale, self.df, epistemic)


def conformal_score(z: FloatArray, coverage: float, weight: FloatArray | None) -> float:
    """Return the absolute residual with the rank ceil((n + 1) coverage), or the largest residual."""
    ranks = WeightedRanks(np.abs(z), weight)
    return min(float(ranks.quantile((ranks.total + 1) * coverage)), float(ranks.values[-1]))


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and standard deviations (n,), in the units of y. For a single network, ``epistemic`` is None."""

    mean: FloatArray
    epistemic: FloatArray | None
    total: FloatArray


@dataclass(frozen=True, eq=False)
class TrainedNetworks:
    """Trained networks, and the standardizer of their data."""

    scaler: Standardizer
    module: StackedModule
    device: str

    def __getstate__(self) -> dict[str, Any]:
        """Exclude the networks, because they are pickled as part of the net of the estimator."""
        return {name: value for name, value in vars(self).items() if name != "module"}


@dataclass(frozen=True, eq=False)
class Posterior(TrainedNetworks, ABC):
    """Predictive distribution of trained networks before calibration, in the units of X and y."""

    @abstractmethod
    def draw(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and noise standard deviations (n, M) of M members. All calls use the same members."""

    @property
    def calibrates_tails(self) -> bool:
        """Return whether calibration also estimates the tails.

        The result is False if a sample of members determines the tails.
        """
        return True

    def calibrate(self, z: FloatArray, coverage: float, weight: FloatArray | None) -> Calibration:
        learn = Calibration.fit_scale_and_tails if self.calibrates_tails else Calibration.fit_scale
        return learn(z, coverage, weight)

    @abstractmethod
    def standardized_residuals(self, X: FloatArray, y: FloatArray, oob_mask: BoolArray) -> FloatArray:
        """Return residuals in units of the predicted std.

        Only the networks in ``oob_mask`` (n, M) are used.
        """

    @abstractmethod
    def distribution(self, X: FloatArray, calibration: Calibration) -> Distribution:
        """Return the calibrated distributions."""


@dataclass(frozen=True, eq=False)
class ConstantNoisePosterior(Posterior):
    """Random functions for the standardized target. The noise has the constant variance ``noise``."""

    noise: float

    @abstractmethod
    def latent_moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the epistemic variance of the standardized target for standardized features."""

    @abstractmethod
    def draw_latent(self, features: FloatArray) -> FloatArray:
        """Return the values (n, S) of S random functions for the standardized target."""

    @property
    def noise_std(self) -> float:
        """Return the standard deviation of the noise, in the units of y."""
        return float(self.scaler.y_scale * np.sqrt(self.noise))

    def with_likely_noise(self, rows: TrainingData) -> Self:
        mean, epistemic = self.latent_moments(self.scaler.features(rows.X))
        residual = self.scaler.target(rows.y) - mean
        return replace(self, noise=likely_noise(residual, epistemic, rows.sample_weight))

    def draw(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        loc = self.scaler.loc(self.draw_latent(self.scaler.features(X)))
        return loc, np.full(loc.shape, self.noise_std)

    def standardized_residuals(self, X: FloatArray, y: FloatArray, oob_mask: BoolArray) -> FloatArray:
        mean, epistemic = self.latent_moments(self.scaler.features(X))
        z: FloatArray = (self.scaler.target(y) - mean) / np.sqrt(self.noise + epistemic)
        return z

    def distribution(self, X: FloatArray, calibration: Calibration) -> Distribution:
        mean, epistemic = self.latent_moments(self.scaler.features(X))
        total = self.scaler.scale(self.noise + epistemic)
        return calibration.apply(self.scaler.loc(mean), total, self.scaler.scale(epistemic))


def likely_noise(residual: FloatArray, epistemic: FloatArray, weight: FloatArray | None) -> float:
    square = np.square(residual)

    def cost(noise: float) -> float:
        variance = noise + epistemic
        return float(np.average(np.log(variance) + square / variance, weights=weight))

    return minimum(cost, MIN_NOISE, float(square.max()))


@dataclass(frozen=True, eq=False)
class NetworkPredictions:
    """Means and noise standard deviations (n, M) that M members predict, and the mask of used members."""

    loc: FloatArray
    scale: FloatArray
    used: BoolArray

    def in_units_of(self, unit: float) -> NetworkPredictions:
        return NetworkPredictions(self.loc / unit, self.scale / unit, self.used)


@dataclass(frozen=True, eq=False)
class EnsemblePosterior(Posterior):
    """Equally weighted mixture of networks. Each network predicts a mean and a variance."""

    n_outputs: int
    output: str = "moments"
    coverage: float = 0.9

    @property
    def calibrates_tails(self) -> bool:
        return self.output == "moments"

    def draw(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        device = read_device(self.device, self.module.n_members)
        loc, variance = member_moments(self.module, self.scaler.features(X), device, self.n_outputs)
        return self.scaler.loc(loc), self.scaler.scale(variance)

    def predictions(self, X: FloatArray, used: BoolArray | None = None) -> NetworkPredictions:
        """Return the predictions of the members. If ``used`` is None, use all members for all rows."""
        loc, scale = self.draw(X)
        return NetworkPredictions(loc, scale, np.ones(loc.shape, dtype=bool) if used is None else used)

    @property
    def unit(self) -> float:
        """Return the largest power of two up to the standard deviation of y.

        In this unit, squares do not overflow.
        """
        return power_of_two(self.scaler.y_scale)

    def moments_of(self, members: NetworkPredictions) -> Moments:
        unit = self.unit
        moments = self._moments_in_unit(members.in_units_of(unit))
        epistemic = None if moments.epistemic is None else unit * moments.epistemic
        return Moments(unit * moments.mean, epistemic, unit * moments.total)

    def _moments_in_unit(self, members: NetworkPredictions) -> Moments:
        # The mean of k members has a larger variance than the mean of M members, by the epistemic variance
        # times 1/k - 1/M.
        loc, used = members.loc, members.used
        count = used.sum(axis=1)
        share = used / count[:, np.newaxis]
        mean = loc[:, 0] + (share * (loc - loc[:, :1])).sum(axis=1)
        epistemic = (share * np.square(loc - mean[:, np.newaxis])).sum(axis=1)
        epistemic = (1 + 1 / count - 1 / used.shape[1]) * epistemic
        noise = (share * np.square(members.scale)).sum(axis=1)
        return Moments(mean, np.sqrt(epistemic), np.sqrt(noise + epistemic))

    def standardized_residuals(self, X: FloatArray, y: FloatArray, oob_mask: BoolArray) -> FloatArray:
        """Return the residuals from out-of-bag members, in units of the spread of these members."""
        # For output "members", the spread does not include the noise. The interval between quantiles of a few
        # members is shorter than the interval of a normal distribution with the same variance. The spread is
        # corrected for this difference.
        members = self._out_of_bag(X, oob_mask)
        moments = self._moments_in_unit(members)
        spread = moments.epistemic if self.output == "members" else moments.total
        if spread is None or not spread.min() > 0:
            raise ValueError(
                "the calibration needs members with different predictions, but in some rows that are not "
                "used in training, all predictions are equal. Use a loss with a variance and "
                "output='moments', or calibration=None."
            )
        if self.output == "members":
            lower, upper = Empirical(members.loc).interval(self.coverage).T
            width = (upper - lower) / (2 * ndtri((1 + self.coverage) / 2) * members.loc.std(axis=1))
            spread = spread * width
        z: FloatArray = (y / self.unit - moments.mean) / spread
        return z

    def _out_of_bag(self, X: FloatArray, oob_mask: BoolArray) -> NetworkPredictions:
        return self.predictions(X, oob_mask).in_units_of(self.unit)

    def distribution(self, X: FloatArray, calibration: Calibration) -> Distribution:
        return self.distribution_of(self.predictions(X), calibration)

    def distribution_of(self, members: NetworkPredictions, calibration: Calibration) -> Distribution:
        moments = self.moments_of(members)
        if self.output == "moments":
            return calibration.apply(moments.mean, moments.total, moments.epistemic)
        weights = None if members.used.all() else members.used.astype(np.float64)
        mean = moments.mean[:, np.newaxis]
        moved = mean + calibration.factor * (members.loc - mean)
        if self.output == "members":
            return Empirical(moved, weights)
        return NormalMixture(moved, calibration.factor * members.scale, weights, ensemble=True)


class NetworkPosterior(EnsemblePosterior):
    """Single network. It cannot separate epistemic uncertainty from noise."""

    def _moments_in_unit(self, members: NetworkPredictions) -> Moments:
        return Moments(members.loc[:, 0], None, members.scale[:, 0])


@dataclass(frozen=True, eq=False)
class BootstrapPosterior(EnsemblePosterior):
    """Networks that do not predict a variance, with a constant noise variance (Heskes, 1996)."""

    ci_scale: str = "member"
    noise_std: float = 0.0

    def draw(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        loc, _ = super().draw(X)
        return loc, np.full(loc.shape, self.noise_std)

    def with_noise_of(self, rows: TrainingData, oob_mask: BoolArray) -> Self:
        mean, spread = self._mean_and_spread(self._out_of_bag(rows.X, oob_mask))
        noise = np.maximum(np.square(rows.y / self.unit - mean) - spread, 0.0)
        noise_std = self.unit * float(np.sqrt(np.average(noise, weights=rows.sample_weight)))
        return replace(self, noise_std=noise_std)

    def standardized_residuals(self, X: FloatArray, y: FloatArray, oob_mask: BoolArray) -> FloatArray:
        mean, spread = self._mean_and_spread(self._out_of_bag(X, oob_mask))
        z: FloatArray = (y / self.unit - mean) / np.sqrt(spread + (self.noise_std / self.unit) ** 2)
        return z

    def _moments_in_unit(self, members: NetworkPredictions) -> Moments:
        mean, spread = self._mean_and_spread(members)
        epistemic = np.sqrt(spread)
        return Moments(mean, epistemic, np.hypot(epistemic, self.noise_std / self.unit))

    def _mean_and_spread(self, members: NetworkPredictions) -> tuple[FloatArray, FloatArray]:
        return bagged_mean_and_spread(members.loc, members.used, self.ci_scale)


def bagged_mean_and_spread(loc: FloatArray, used: BoolArray, ci_scale: str) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the epistemic variance of each row over the members in ``used``."""
    # With ci_scale "member", the epistemic variance is the variance of one member. With "mean", the
    # variance of the mean is estimated from pairs of members with the same rows. The variance between the
    # means of pairs contains half of the variance within pairs, which is therefore subtracted.
    if ci_scale == "member":
        return _mean_and_variance(loc, used)
    pairs = loc.reshape(len(loc), -1, 2)
    used = used[:, ::2]  # both members of a pair have the same rows
    mean, between = _mean_and_variance(pairs.mean(axis=2), used)
    count = used.sum(axis=1)
    within = (used * pairs.var(axis=2, ddof=1)).sum(axis=1) / count
    return mean, np.maximum(between - within / 2, 0.0) + between / count


def _mean_and_variance(values: FloatArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of the used values.

    For a single used value, the variance is the variance of all values.
    """
    count = used.sum(axis=1)
    start = values[:, :1]  # subtracted to avoid rounding errors of large means
    mean = start[:, 0] + (used * (values - start)).sum(axis=1) / count
    square = np.square(values - mean[:, np.newaxis])
    variance = (used * square).sum(axis=1) / np.maximum(count - 1, 1)
    return mean, np.where(count > 1, variance, values.var(axis=1, ddof=1))


class _DrawsNetworks(Protocol):
    """Stacked module from which networks are drawn."""

    flat: Tensor

    def values_of_draws(self, n_draws: int) -> int:
        """Return the approximate number of hidden values per row for ``n_draws`` networks."""

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks. Return a function from rows (B, d) to outputs (S, k, B)."""


def drawn_outputs(
    trained: TrainedNetworks, features: FloatArray, n_draws: int, rng: np.random.Generator
) -> Iterator[Tensor]:
    """Yield the outputs (S, k, b) of drawn networks for blocks of standardized features, in float64."""
    module = cast(_DrawsNetworks, to_predict(trained.module, read_device(trained.device, n_draws)))
    with torch.no_grad():
        run = module.networks(n_draws, rng)
        for block in blocks_of(features, module.values_of_draws(n_draws), module.flat):
            yield run(block).to("cpu", torch.float64)


def draws_of(seed: int) -> np.random.Generator:
    """Return the generator of the networks that are drawn. It differs from the generators of the training."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, N_TRAINING_STREAMS)))


@dataclass(frozen=True, eq=False)
class DropoutPosterior(Posterior):
    """One network with ``n_draws`` draws of dropped units. Each draw predicts a mean and a noise variance."""

    n_draws: int
    seed: int
    output: str = "moments"

    @property
    def calibrates_tails(self) -> bool:
        return self.output == "moments"

    def draw(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        loc, variance = (np.concatenate(parts) for parts in zip(*self._blocks(X), strict=True))
        return self.scaler.loc(loc), self.scaler.scale(variance)

    def moments(self, X: FloatArray) -> Moments:
        parts = [
            (loc.mean(axis=1), loc.var(axis=1, ddof=1), variance.mean(axis=1))
            for loc, variance in self._blocks(X)
        ]
        mean, variance, noise = (np.concatenate(part) for part in zip(*parts, strict=True))
        epistemic = self.scaler.scale(variance)
        return Moments(self.scaler.loc(mean), epistemic, np.hypot(epistemic, self.scaler.scale(noise)))

    def standardized_residuals(self, X: FloatArray, y: FloatArray, oob_mask: BoolArray) -> FloatArray:
        moments = self.moments(X)
        spread = moments.total if self.output == "moments" else moments.epistemic
        if spread is None or (self.output == "members" and not spread.min() > 0):
            raise ValueError(
                "the calibration needs draws with different predictions, but in some held-out rows, all "
                "predictions are equal. "
                "Use a higher `dropout`, output='moments', or calibration=None."
            )
        return (y - moments.mean) / spread

    def distribution(self, X: FloatArray, calibration: Calibration) -> Distribution:
        if self.output == "moments":
            moments = self.moments(X)
            return calibration.apply(moments.mean, moments.total, moments.epistemic)
        loc, _ = self.draw(X)
        mean = loc.mean(axis=1, keepdims=True)
        return Empirical(mean + calibration.factor * (loc - mean))

    def _blocks(self, X: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield means and variances (b, S) of the standardized target.

        There are S draws for each block of rows.
        """
        for output in drawn_outputs(self, self.scaler.features(X), self.n_draws, draws_of(self.seed)):
            yield output[:, 0].T.numpy(), variance_of(output[:, 1]).T.numpy()


@dataclass(frozen=True, eq=False)
class SampledPosterior(ConstantNoisePosterior):
    """Networks that are drawn from normal weights, or snapshots."""

    n_draws: int
    seed: int

    def latent_moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        members = self.draw_latent(features)
        return members.mean(axis=1), members.var(axis=1)

    def draw_latent(self, features: FloatArray) -> FloatArray:
        outputs = drawn_outputs(self, features, self.n_draws, np.random.default_rng(self.seed))
        return torch.cat([output[:, 0].T for output in outputs]).numpy()


class EntropyParts(NamedTuple):
    """Entropies of the forecasts of n rows, in nats.

    Attributes
    ----------
    total : ndarray of shape (n,)
        Entropy of the mean of the members' probabilities, from 0 to log K for K classes.
    aleatoric : ndarray of shape (n,)
        Mean of the members' entropies.
    epistemic : ndarray of shape (n,)
        Mutual information of class and member, ``total - aleatoric``, from 0 to ``total``.
    """

    total: FloatArray
    aleatoric: FloatArray
    epistemic: FloatArray


@dataclass(frozen=True, eq=False)
class ClassPosterior(TrainedNetworks, ABC):
    """Networks that predict the logits of K classes, in blocks of rows."""

    @abstractmethod
    def _logits(self, X: FloatArray) -> Iterator[Tensor]:
        """Yield the logits (b, M, K) of M members for blocks of b rows."""

    def _proba(self, X: FloatArray) -> Iterator[FloatArray]:
        for logits in self._logits(X):
            yield torch.softmax(logits, dim=-1).numpy()

    def members(self, X: FloatArray) -> FloatArray:
        """Return the probabilities (n, M, K) that the members predict."""
        return np.concatenate(list(self._proba(X)))

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the mean probabilities (n, K) over the members."""
        return np.concatenate([_mean_over_members(proba) for proba in self._proba(X)])

    def entropies(self, X: FloatArray) -> EntropyParts:
        parts = [
            (entr(_mean_over_members(proba)).sum(axis=-1), _mean_over_members(entr(proba).sum(axis=-1)))
            for proba in self._proba(X)
        ]
        total, aleatoric = (np.concatenate(part) for part in zip(*parts, strict=True))
        epistemic = np.clip(total - aleatoric, 0.0, total)
        return EntropyParts(total, np.minimum(aleatoric, total), epistemic)


class EnsembleClassPosterior(ClassPosterior):
    """Independently trained networks with equal weights."""

    def _logits(self, X: FloatArray) -> Iterator[Tensor]:
        device = read_device(self.device, self.module.n_members)
        return output_blocks(self.module, self.scaler.features(X), device)


@dataclass(frozen=True, eq=False)
class DrawnClassPosterior(ClassPosterior):
    """Networks that are drawn from one trained network. All rows and all calls use the same draws."""

    n_draws: int
    seed: int

    def _logits(self, X: FloatArray) -> Iterator[Tensor]:
        for output in drawn_outputs(self, self.scaler.features(X), self.n_draws, draws_of(self.seed)):
            yield output.permute(2, 0, 1)


def _mean_over_members(values: FloatArray) -> FloatArray:
    """Return means over the second axis. The mean of equal members is exact."""
    first = values[:, 0]
    mean: FloatArray = first + (values - first[:, np.newaxis]).mean(axis=1)
    return mean


@dataclass(frozen=True, eq=False)
class JointPosterior(TrainedNetworks):
    """Networks with equal weights. Each network predicts a mean vector and a covariance matrix."""

    # In `NetworkPredictions`, `loc` contains the means (n, M, d) and `scale` the Cholesky factors (n, M, d,
    # d) of the covariance matrices, both of the standardized targets.

    names: tuple[str, ...] | None

    def predictions(self, X: FloatArray, used: BoolArray | None = None) -> NetworkPredictions:
        """Return the predictions of the members. If ``used`` is None, all members are used for all rows."""
        device, d = read_device(self.device, self.module.n_members), len(self.scaler.y_scale)
        blocks = output_blocks(self.module, self.scaler.features(X), device)
        parts = zip(*(normal_parameters(output, d) for output in blocks), strict=True)
        loc, factor = (torch.cat(part).numpy() for part in parts)
        every = np.ones(loc.shape[:2], dtype=bool)
        return NetworkPredictions(loc, factor, every if used is None else used)

    def draw(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and noise standard deviations (n, M, d) of M members, in the units of y."""
        members = self.predictions(X)
        return self.scaler.loc(members.loc), self.scaler.scale(np.square(members.scale).sum(axis=3))

    def calibrate(self, z: FloatArray, coverage: float, weight: FloatArray | None) -> Calibration:
        factors = [Calibration.fit_scale(column, coverage, weight).factor for column in z.T]
        return Calibration(np.array(factors))

    def standardized_residuals(self, X: FloatArray, y: FloatArray, oob_mask: BoolArray) -> FloatArray:
        """Return the residuals (n, d) of out-of-bag members, divided by the predicted standard deviations."""
        mean, covariance = _moments(self.predictions(X, oob_mask))
        return np.asarray((self.scaler.target(y) - mean) / np.sqrt(np.einsum("nii->ni", covariance)))

    def distribution(self, X: FloatArray, calibration: Calibration) -> NormalJoint:
        return self.distribution_of(self.predictions(X), calibration)

    def distribution_of(self, members: NetworkPredictions, calibration: Calibration) -> NormalJoint:
        mean, covariance = _moments(members)
        scale = calibration.factor * self.scaler.y_scale
        return NormalJoint(self.scaler.loc(mean), covariance * np.outer(scale, scale), self.names)


def _moments(members: NetworkPredictions) -> tuple[FloatArray, FloatArray]:
    """Return the means (n, d) and the covariance matrices (n, d, d) by the law of total covariance."""
    # The mean of k members has a larger epistemic covariance than the mean of all M members.
    loc, factor, used = members.loc, members.scale, members.used
    count = used.sum(axis=1)
    share = used / count[:, np.newaxis]
    mean = loc[:, 0] + np.einsum("nm,nmi->ni", share, loc - loc[:, :1])
    gap = loc - mean[:, np.newaxis]
    epistemic = np.einsum("nm,nmi,nmj->nij", share, gap, gap)
    noise = np.einsum("nm,nmik,nmjk->nij", share, factor, factor)
    return mean, noise + (1 + 1 / count - 1 / used.shape[1])[:, np.newaxis, np.newaxis] * epistemic
