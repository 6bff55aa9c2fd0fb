"""Metrics and predictions of dask collections, one partition at a time; needs the extra ``dask``."""

from skuq.integrations.dask._accumulate import accumulate
from skuq.integrations.dask._predict import predict

__all__ = ["accumulate", "predict"]
