"""On a dask cluster numbers are those of one process, and only the outermost parallel work is sent out."""

import re

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.tree import DecisionTreeRegressor

from skuq.prediction import predict_dist
from skuq.regressors import BootstrapRegressor, ResidualRegressor, UncertaintyRegressor
from tests.regressors.worlds import heteroscedastic_world

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.laws

X, Y = heteroscedastic_world(90)
FOREST = RandomForestRegressor(8, random_state=0)


@pytest.fixture(scope="module")
def client():
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster) as connected:
        yield connected


def calls(client):
    """Number of functions that joblib has sent to the cluster so far."""

    def batches(dask_scheduler):
        return {name: prefix.state_counts["memory"] for name, prefix in dask_scheduler.task_prefixes.items()}

    sent = 0
    for name, number in client.run_on_scheduler(batches).items():
        size = re.fullmatch(r"batch_of_.*_(\d+)_calls", name)
        sent += number * int(size[1]) if size else 0
    return sent


def on_cluster(client, function):
    """Return the result of a function under joblib's dask backend, and how many calls it sent out."""
    before = calls(client)
    with parallel_config("dask"):
        result = function()
    return result, calls(client) - before


@pytest.mark.parametrize("n_jobs", [None, 1, -1])
def test_a_fold_of_a_search_is_one_task(client, n_jobs):
    model = UncertaintyRegressor(FOREST, cv=3, n_jobs=n_jobs, random_state=0)

    def score():
        return cross_val_score(model, X, Y, cv=3, scoring="neg_mean_squared_error")

    serial = score()
    scores, sent = on_cluster(client, score)
    assert np.array_equal(scores, serial)
    assert sent == 3


def test_a_search_over_members_of_an_ensemble(client):
    model = BootstrapRegressor(DecisionTreeRegressor(max_depth=3), 10, random_state=0)
    search = GridSearchCV(model, {"estimator__max_depth": [2, 4]}, cv=2, scoring="r2", refit=False)
    serial = search.fit(X, Y).cv_results_["mean_test_score"]
    fitted, sent = on_cluster(client, lambda: search.fit(X, Y))
    assert np.array_equal(fitted.cv_results_["mean_test_score"], serial)
    assert sent == 4


def test_the_fits_of_a_regressor_are_sent_out_once(client):
    model = ResidualRegressor(LinearRegression(), cv=3, random_state=0)
    serial = model.fit(X, Y).predict_interval(X)
    fitted, sent = on_cluster(client, lambda: model.fit(X, Y))
    assert np.array_equal(fitted.predict_interval(X), serial)
    assert sent == 3


def test_one_job_stays_in_this_process(client):
    model = BootstrapRegressor(DecisionTreeRegressor(), 5, n_jobs=1, random_state=0)
    serial = predict_dist(model.fit(X, Y), X).std()
    spread, sent = on_cluster(client, lambda: predict_dist(model.fit(X, Y), X).std())
    assert np.array_equal(spread, serial)
    assert sent == 0
