"""Search space for TPOT, with regressors that predict a distribution; requires TPOT."""

from skuq.integrations.tpot._search_space import search_space

__all__ = ["search_space"]
