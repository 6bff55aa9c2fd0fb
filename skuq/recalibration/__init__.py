"""Recalibrators: fitted on (predictions, observations), they turn distributions into better ones."""

from skuq.recalibration._base import BaseRecalibrator
from skuq.recalibration._identity import IdentityRecalibrator
from skuq.recalibration._isotonic import IsotonicRecalibrator
from skuq.recalibration._std_scaling import StdScalingRecalibrator

__all__ = [
    "BaseRecalibrator",
    "IdentityRecalibrator",
    "IsotonicRecalibrator",
    "StdScalingRecalibrator",
]
