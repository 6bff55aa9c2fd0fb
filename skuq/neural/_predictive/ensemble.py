"""Predictive distributions of ensembles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import ndtri

from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray
from skuq._units import power_of_two
from skuq.distributions import Distribution, Empirical, NormalMixture
from skuq.neural._modules.device import read_device
from skuq.neural._modules.evaluate import member_moments
from skuq.neural._predictive.calibration import Calibration
from skuq.neural._predictive.posterior import Moments, Posterior


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
