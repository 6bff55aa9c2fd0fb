"""
Search on a cluster
===================

skuq parallelises by joblib, and therefore on its configured backend: local
processes by default, or a dask cluster (extra ``dask``). An integer
``random_state`` gives the same results on both. This page distributes a search,
and shows what to do where workers may be lost.

The search is one like any other:
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
# The client connects to the scheduler of a cluster. Here the cluster runs in this
# process, so that the page runs anywhere. Elsewhere the client is
# ``Client("scheduler-address:8786")``, in a script below
# ``if __name__ == "__main__":``, which new processes require.

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
# Only the outermost loop is distributed: here one task per candidate and fold.
# joblib's dask backend uses all cores of the cluster regardless of ``n_jobs``, also
# inside tasks, so that every fold of a
# :class:`~skuq.regressors.UncertaintyRegressor` and every tree of a forest in it
# would be distributed again. Inside a task, skuq runs them locally. With
# ``n_jobs=1``, a regressor of skuq fits its folds and members in the calling
# process.
#
# A cluster has overhead: every worker imports skuq and scikit-learn first, which
# takes some seconds, and every task takes about a millisecond. Below ten seconds of
# work it is slower than one process. Set ``OMP_NUM_THREADS=1`` for the workers, to
# avoid oversubscription by gradient boosting.
#
# If a worker is lost
# -------------------
#
# joblib stores each array of a search on one worker, without replication. When that
# worker fails, the search ends with ``FutureCancelledError: ... cancelled for
# reason: already forgotten``, and all of its results are lost;
# ``parallel_config("dask", scatter=[X, y])`` does not change that (tested with dask
# 2026.8 and joblib 1.6). dask itself recomputes lost tasks, so submit the
# candidates directly, one task each. The search then survives a killed worker:

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
# ``model`` has ``n_jobs=1`` here, since every worker already has a task. The data
# are sent with each task; if they are large, read them in the function from a file
# accessible to all workers. For a search of hours, Optuna with a storage saves
# every finished trial. Metrics of rows that lie on the workers:
# :doc:`/how-to/large_data`.

client.close()
cluster.close()
