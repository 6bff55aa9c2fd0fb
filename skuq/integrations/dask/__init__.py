"""Metrics and predictions of dask collections.

Metrics and predictions are computed one partition at a time. They need the extra ``dask``.
"""

from skuq.integrations.dask._dask import accumulate, predict

__all__ = ["accumulate", "predict"]
