"""The predictive object of every regressor: trained networks, from new rows to a distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from skuq._typing import BoolArray, FloatArray
from skuq.distributions import Distribution
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._predictive.calibration import Calibration
from skuq.neural._training.scaling import Standardiser

__all__ = ["Moments", "Posterior", "TrainedNetworks"]


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and standard deviations of the predictive distribution of n rows, in the units of y.

    Attributes
    ----------
    mean : ndarray of shape (n,)
        Predictive means.
    epistemic : ndarray of shape (n,) or None
        Epistemic standard deviations; None where a single network cannot separate them from the noise.
    total : ndarray of shape (n,)
        Standard deviations of epistemic part and noise together. They are stored rather than the noise, as
        each posterior adds the two variances in its own units, and rounding depends on them.
    """

    mean: FloatArray
    epistemic: FloatArray | None
    total: FloatArray


@dataclass(frozen=True, eq=False)
class TrainedNetworks:
    """Trained networks and the units of their data; on new rows they are evaluated on standardised values.

    Attributes
    ----------
    scaler : Standardiser
        Units of X and y.
    module : StackedModule
        The trained networks.
    device : {"auto", "cpu", "cuda"}
        Device of the predictions.
    """

    scaler: Standardiser
    module: StackedModule
    device: str

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the networks: the estimator's net holds and pickles them, once."""
        return {name: value for name, value in vars(self).items() if name != "module"}


@dataclass(frozen=True, eq=False)
class Posterior(TrainedNetworks, ABC):
    """Predictive distribution of trained networks, before calibration.

    Features and results are in the units of X and y.
    """

    @abstractmethod
    def moments(self, X: FloatArray) -> Moments:
        """Return mean, epistemic and total standard deviation of each row."""

    @abstractmethod
    def draw(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and noise standard deviations by each member, shape (n, M); the same in each call."""

    @property
    def calibrates_tails(self) -> bool:
        """Whether calibration chooses the tails as well; an output made of the members has theirs."""
        return True

    def standardised_residuals(self, X: FloatArray, y: FloatArray, oob_mask: BoolArray) -> FloatArray:
        """Return the residuals of rows that are not trained on, in predictive standard deviations.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Features.
        y : ndarray of shape (n,)
            Target.
        oob_mask : ndarray of bool of shape (n, M)
            Which of the trained networks are not trained on the row, at least one.
        """
        moments = self.moments(X)
        return (y - moments.mean) / moments.total

    def distribution(self, X: FloatArray, calibration: Calibration) -> Distribution:
        """Return the calibrated distribution of each row."""
        moments = self.moments(X)
        return calibration.apply(moments.mean, moments.total, moments.epistemic)
