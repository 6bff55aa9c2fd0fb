"""Search space for TPOT with regressors that predict a distribution. The package TPOT is required."""

from skuq.integrations.tpot._search_space import search_space

__all__ = ["search_space"]
