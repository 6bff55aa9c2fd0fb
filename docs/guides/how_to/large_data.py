"""
Evaluate more rows than memory holds
====================================

This page evaluates forecasts that do not fit into memory, for example a hundred
million rows in Parquet files (extra ``parquet``: pyarrow) or on several machines.
:class:`~skuq.monitoring.MetricAccumulator` computes metrics, reports and plots block by
block. It stores sums and histograms, which take about a megabyte in total. The sum of
two accumulators is the same as one accumulator that has read all rows.
:doc:`/explanation/scale` lists the metrics that merge exactly, and the cost.

The example is a small file of forecasts, with 50 000 rows per row group:
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

rng = np.random.default_rng(0)
loc = rng.normal(size=200_000)
scale = rng.uniform(0.5, 2, size=200_000)
table = pa.table({"y": rng.normal(loc, 1.1 * scale), "loc": loc, "scale": scale})

path = Path(tempfile.mkdtemp()) / "forecasts.parquet"
pq.write_table(table, path, row_group_size=50_000)

# %%
# From row groups to a report
# ---------------------------
#
# The code reads one row group at a time, loads only the necessary columns, and discards
# the rows after the update:

from skuq.distributions import Normal
from skuq.monitoring import MetricAccumulator

METRICS = ("crps", "picp", "mace", "ence")


def accumulate_group(path, number):
    file = pq.ParquetFile(path)
    group = file.read_row_group(number, columns=["y", "loc", "scale"])
    y, loc, scale = (column.to_numpy() for column in group.columns)
    return MetricAccumulator(*METRICS).update(y, Normal(loc, scale))


groups = range(pq.ParquetFile(path).num_row_groups)
total = accumulate_group(path, 0)
for number in groups[1:]:
    total.merge(accumulate_group(path, number))
report = total.report(random_state=0)
report

# %%
# The displays plot the accumulated values:

from skuq.displays import CalibrationCurveDisplay

display = CalibrationCurveDisplay.from_accumulator(total, name="forecasts")

# %%
# Pass columns of quantiles as :class:`~skuq.distributions.Quantiles`. If a model
# predicts while the file is read, the file needs only the features and the targets:
# ``accumulator.update(y, predict_dist(model, X))``.
#
# Several processes
# -----------------
#
# Each process accumulates its row groups and returns a small accumulator. In a
# script, place this code below ``if __name__ == "__main__":``, because new
# processes import the script.

import functools
import operator

from joblib import Parallel, delayed

parts = Parallel(n_jobs=2)(
    delayed(accumulate_group)(path, number) for number in groups
)
together = functools.reduce(operator.add, parts)
print(together.result() == total.result())

# %%
# dask
# ----
#
# With the extra ``dask``, :func:`skuq.integrations.dask.accumulate` accumulates a
# DataFrame or an array, on one machine or a cluster, and merges the accumulators in
# a tree. ``y_pred`` is a pair of columns, the mean and the standard deviation, a
# mapping of levels to columns of quantiles, or a function of a partition.

import dask.dataframe as dd

from skuq.integrations.dask import accumulate

frame = dd.read_parquet(path, split_row_groups=True)
lazy = accumulate(MetricAccumulator(*METRICS), frame, "y", ("loc", "scale"))
on_dask = lazy.compute()
print({name: round(value, 3) for name, value in on_dask.result().items()})

# %%
# The predictions of a model for a dask collection are also a dask collection. Its
# columns are the mean and the standard deviation, or quantiles. ``to_parquet`` stores
# the collection without loading it into memory.

from sklearn.linear_model import BayesianRidge

from skuq.integrations.dask import predict

features = frame[["loc", "scale"]]
model = BayesianRidge().fit(features.head(1000), frame["y"].head(1000))
quantiles = predict(model, features, levels=[0.05, 0.5, 0.95])
quantiles.head(3).round(2)

# %%
# If a worker of a cluster fails, dask reads its partitions again. A search over
# candidates also survives a failed worker if each candidate is one task:
# :doc:`/how-to/cluster`.
#
# Ray and Spark
# -------------
#
# Accumulators can be pickled, so they work with every engine that runs Python
# functions. This page defines functions for Ray and Spark, but does not call them. We
# ran these functions manually, with Ray 2.60 and with Spark 4.3 on Java 17, and got the
# same results as with one process. After ``import ray``, call the following function.
# It runs ``accumulate_group`` on Ray:


def accumulate_on_ray(ray, path, groups):
    task = ray.remote(accumulate_group)
    parts = ray.get([task.remote(path, number) for number in groups])
    return functools.reduce(operator.add, parts)


# %%
# On Spark, ``mapInPandas`` passes the rows of a partition to a function, as an
# iterator of DataFrames. This function yields one DataFrame with a single row, which
# contains the pickled accumulator. Load only pickles from your own workers, because
# loading a pickle can execute any code.

import pickle

import pandas as pd


def accumulate_frames(frames):
    accumulator = MetricAccumulator(*METRICS)
    for frame in frames:
        accumulator.update(frame["y"], Normal(frame["loc"], frame["scale"]))
    yield pd.DataFrame({"state": [pickle.dumps(accumulator)]})


def accumulate_on_spark(spark, path):
    data = spark.read.parquet(str(path)).select("y", "loc", "scale")
    rows = data.mapInPandas(accumulate_frames, schema="state binary").collect()
    return functools.reduce(operator.add, [pickle.loads(row.state) for row in rows])
