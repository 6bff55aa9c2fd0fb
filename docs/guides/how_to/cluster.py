"""
Search on a cluster
===================

skuq parallelises by joblib, and therefore on its configured backend: local
processes by default, or a dask cluster. An integer ``random_state`` gives the
same results on both.

.. code-block:: text

    from dask.distributed import Client
    from joblib import parallel_config
    from sklearn.model_selection import GridSearchCV

    if __name__ == "__main__":
        client = Client("scheduler-address:8786")
        with parallel_config("dask"):
            search.fit(X, y)

Only the outermost loop is distributed: here one task per candidate and fold.
joblib's dask backend uses all cores of the cluster regardless of ``n_jobs``, also
inside tasks, so that every fold of a
:class:`~skuq.regressors.UncertaintyRegressor` and every tree of a forest in it
would be distributed again. Inside a task, skuq runs them locally. With
``n_jobs=1``, a regressor of skuq fits its folds and members in the calling
process.

A cluster has overhead: every worker imports skuq and scikit-learn first, which
takes some seconds, and every task takes about a millisecond. Below ten seconds of
work it is slower than one process. Set ``OMP_NUM_THREADS=1`` for the workers, to
avoid oversubscription by gradient boosting.

If a worker is lost
-------------------

joblib stores each array of a search on one worker, without replication. When that
worker fails, the search ends with ``FutureCancelledError: ... cancelled for
reason: already forgotten``, and all of its results are lost;
``parallel_config("dask", scatter=[X, y])`` does not change that (tested with dask
2026.8 and joblib 1.6). dask itself recomputes lost tasks, so submit the
candidates directly:

.. code-block:: text

    from sklearn.base import clone
    from sklearn.model_selection import ParameterGrid, cross_val_score
    from skuq.metrics import get_scorer

    def score(params):
        candidate = clone(model).set_params(**params)
        return cross_val_score(candidate, X, y, scoring=get_scorer("neg_crps"), n_jobs=1).mean()

    candidates = list(ParameterGrid(grid))
    scores = client.gather([client.submit(score, params, pure=False) for params in candidates])
    best = candidates[int(np.argmax(scores))]

``model`` has ``n_jobs=1`` here, since every worker already has a task. The data
are sent with each task; if they are large, read them in the function from a file
accessible to all workers. For a search of hours, Optuna with a storage saves
every finished trial: :doc:`/how-to/select_by_crps`.
"""
