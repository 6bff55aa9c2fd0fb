"""A search space of regressors with a distribution for TPOT; needs TPOT."""

from skuq.integrations.tpot._search_space import search_space

__all__ = ["search_space"]
