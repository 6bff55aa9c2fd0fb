"""Levels for AutoGluon's quantile problems; does not need AutoGluon itself."""

from skuq.integrations.autogluon._quantile_levels import quantile_levels

__all__ = ["quantile_levels"]
