"""Metrics and predictions of dask collections.

They are computed one partition at a time and need the extra ``dask``.
"""

from skuq.integrations.dask._accumulate import accumulate
from skuq.integrations.dask._predict import predict

__all__ = ["accumulate", "predict"]
