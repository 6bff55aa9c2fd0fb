"""
Search on a cluster
===================

skuq uses joblib for parallel computation. joblib runs tasks in local processes by
default, or on a dask cluster (extra ``dask``). With an integer ``random_state``, local
processes and a cluster give identical results. This page distributes a search over a
cluster, and shows how a search can survive the loss of workers.

The search is an ordinary search of scikit-learn:
"""

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from skuq import UncertaintyRegressor, get_scorer

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 5))
y = X[:, 0] + rng.standard_normal(200)

model = UncertaintyRegressor(Ridge(), n_jobs=1, random_state=0)
grid = {"estimator__alpha": [1.0, 10.0, 100.0]}
search = GridSearchCV(
    model, grid, scoring=get_scorer("neg_crps"), cv=3, error_score="raise"
)

# %%
# The client connects to the scheduler of a cluster. On this page, the cluster runs in
# the same process, so the code works on any machine. For another cluster, use
# ``Client("scheduler-address:8786")``. In a script, put the code below ``if __name__ ==
# "__main__":``, because new processes import the script.

from dask.distributed import Client, LocalCluster

cluster = LocalCluster(
    processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None
)
client = Client(cluster)
len(client.scheduler_info()["workers"])

# %%
# Distribute the search
# ---------------------

from joblib import parallel_config

with parallel_config("dask"):
    search.fit(X, y)
print(search.best_params_, f"CRPS {-search.best_score_:.3f}")

# %%
# skuq distributes only the outermost loop. In this search, that loop has one task per
# candidate and fold. joblib's dask backend uses all cores of the cluster regardless of
# ``n_jobs``, even inside tasks. It would therefore also distribute every fold of a
# :class:`~skuq.regressors.UncertaintyRegressor` and every tree of a forest, which is
# slow. skuq therefore runs folds and trees inside the task. With ``n_jobs=1``, a
# regressor of skuq fits its folds and members in the calling process.
#
# A cluster has overhead: every worker first imports skuq and scikit-learn, and every
# task has to be sent to a worker. For a few seconds of work, a cluster is slower than
# one process. Set ``OMP_NUM_THREADS=1`` for the workers, so that gradient boosting does
# not start more threads than there are cores.
#
# If a worker is lost
# -------------------
#
# joblib stores each array of a search on one worker, without replication. If this
# worker fails, the search ends with a ``FutureCancelledError`` ("already
# forgotten"), and all results are lost. ``parallel_config("dask", scatter=[X, y])``
# does not prevent the loss (tested with dask 2026.8 and joblib 1.6). dask itself
# recomputes lost tasks. If you submit the candidates to dask directly, with one
# task per candidate, the search continues after the loss of a worker:

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, cross_val_score

scorer = get_scorer("neg_crps")


def score(params):
    candidate = clone(model).set_params(**params)
    return cross_val_score(candidate, X, y, scoring=scorer, cv=3, n_jobs=1).mean()


candidates = list(ParameterGrid(grid))
tasks = [client.submit(score, params, pure=False) for params in candidates]
scores = client.gather(tasks)
best = candidates[int(np.argmax(scores))]
print(best, np.round(scores, 3))

# %%
# ``model`` has ``n_jobs=1``, because every worker already has a task. The data are sent
# with each task. If the data are large, let the function read them from a file that all
# workers can access. For a search of several hours, use Optuna with a storage, which
# saves every finished trial. :doc:`/how-to/large_data` shows how to compute metrics on
# the workers that store the rows.

client.close()
cluster.close()
