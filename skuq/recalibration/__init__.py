"""Recalibrators: they convert predicted distributions to better calibrated distributions."""

from skuq.recalibration._base import BaseRecalibrator, IdentityRecalibrator, SupportMap
from skuq.recalibration._empirical import EmpiricalRecalibrator
from skuq.recalibration._gp_recalibrators import (
    GPBetaRecalibrator,
    GPCauchyRecalibrator,
    GPNormalRecalibrator,
)
from skuq.recalibration._isotonic import IsotonicRecalibrator
from skuq.recalibration._isotonic_distributional import IsotonicDistributionalRecalibrator
from skuq.recalibration._online import OnlineRecalibrator
from skuq.recalibration._operating_point import OperatingPointRecalibrator
from skuq.recalibration._quantile_shift import QuantileShiftRecalibrator
from skuq.recalibration._scaling import BinnedScalingRecalibrator, StdScalingRecalibrator
from skuq.recalibration._shrunk_isotonic import ShrunkIsotonicRecalibrator
from skuq.recalibration._variance_isotonic import VarianceIsotonicRecalibrator

__all__ = [
    "BaseRecalibrator",
    "BinnedScalingRecalibrator",
    "EmpiricalRecalibrator",
    "GPBetaRecalibrator",
    "GPCauchyRecalibrator",
    "GPNormalRecalibrator",
    "IdentityRecalibrator",
    "IsotonicDistributionalRecalibrator",
    "IsotonicRecalibrator",
    "OnlineRecalibrator",
    "OperatingPointRecalibrator",
    "QuantileShiftRecalibrator",
    "ShrunkIsotonicRecalibrator",
    "StdScalingRecalibrator",
    "SupportMap",
    "VarianceIsotonicRecalibrator",
]
