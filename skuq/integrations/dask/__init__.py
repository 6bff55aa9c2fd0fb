"""Metrics and predictions of dask collections, partition by partition; needs the extra ``dask``."""

from skuq.integrations.dask._accumulate import accumulate
from skuq.integrations.dask._predict import predict

__all__ = ["accumulate", "predict"]
