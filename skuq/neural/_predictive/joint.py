"""Joint predictive distributions of ensembles for several targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from skuq._typing import BoolArray, FloatArray
from skuq.multivariate import NormalJoint
from skuq.neural._joint_loss import normal_parameters
from skuq.neural._modules.device import read_device
from skuq.neural._modules.evaluate import output_blocks
from skuq.neural._predictive.calibration import Calibration
from skuq.neural._predictive.ensemble import NetworkPredictions
from skuq.neural._predictive.posterior import TrainedNetworks


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
