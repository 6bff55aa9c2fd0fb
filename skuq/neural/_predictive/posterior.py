"""Predictive distributions of trained networks before calibration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from skuq._typing import BoolArray, FloatArray
from skuq.distributions import Distribution
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._predictive.calibration import Calibration
from skuq.neural._training.scaling import Standardizer


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
