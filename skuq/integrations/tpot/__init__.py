"""Search space for TPOT. Its regressors predict a distribution, and TPOT is required."""

from skuq.integrations.tpot._search_space import search_space

__all__ = ["search_space"]
