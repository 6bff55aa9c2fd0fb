"""Metrics of partitions are those of all rows, and lost workers are replaced."""

import itertools
import os
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge

from skuq.distributions import Normal, Quantiles
from skuq.integrations.dask import accumulate, predict
from skuq.monitoring import MetricAccumulator
from skuq.prediction import predict_dist

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
delayed = pytest.importorskip("dask").delayed

PATIENCE = 60  # seconds until a wait is an error
LEVELS = [0.05, 0.5, 0.95]
METRICS = ("crps", "picp", "mpiw", "ence")


@pytest.fixture(scope="module")
def frame():
    """Rows with features, forecasts of several kinds and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    scale = rng.uniform(0.5, 2, 1000)
    dist = Normal(X[:, 0], scale)
    columns = {"x1": X[:, 0], "x2": X[:, 1], "y": rng.normal(X[:, 0], scale), "loc": X[:, 0], "scale": scale}
    columns |= {f"q{level}": dist.quantile(level) for level in LEVELS}
    return pd.DataFrame(columns | {"weight": rng.integers(0, 3, 1000).astype(float)})


@pytest.fixture(scope="module")
def model(frame):
    return BayesianRidge().fit(frame[["x1", "x2"]], frame["y"])


@pytest.fixture
def whole(frame):
    """Return the metrics of all rows at once."""

    def result(y_pred, sample_weight=None):
        return MetricAccumulator(*METRICS).update(frame["y"], y_pred, sample_weight).result()

    return result


def parts_of(frame, size=150):
    """Return the rows as delayed DataFrames, among them an empty one."""
    edges = [0, 0, *range(size, len(frame), size), len(frame)]
    return [delayed(frame.iloc[first:last]) for first, last in itertools.pairwise(edges)]


def result_of(data, y_pred, y="y", **arguments):
    total = accumulate(MetricAccumulator(*METRICS), data, y, y_pred, **arguments)
    return total.compute(scheduler="synchronous").result()


def test_metrics_of_delayed_partitions(frame, whole):
    expected = whole(Normal(frame["loc"], frame["scale"]))
    for split_every in (2, 3, 100):
        found = result_of(parts_of(frame), ("loc", "scale"), split_every=split_every)
        assert found == pytest.approx(expected, rel=1e-12)


def test_forecasts_by_quantile_columns_by_a_model_and_with_weights(frame, whole, model):
    columns = {level: f"q{level}" for level in reversed(LEVELS)}
    table = Quantiles(LEVELS, frame[[f"q{level}" for level in LEVELS]])
    assert result_of(parts_of(frame), columns) == pytest.approx(whole(table), rel=1e-12)
    features = ["x1", "x2"]
    found = result_of(parts_of(frame), lambda part: predict_dist(model, part[features]))
    assert found == pytest.approx(whole(predict_dist(model, frame[features])), rel=1e-12)
    weighted = result_of(parts_of(frame), ("loc", "scale"), sample_weight="weight")
    expected = whole(Normal(frame["loc"], frame["scale"]), frame["weight"])
    assert weighted == pytest.approx(expected, rel=1e-12)


def test_a_dask_frame_is_accumulated_and_predicted(frame, whole, model):
    dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)
    data = dd.from_pandas(frame, npartitions=4)
    expected = whole(Normal(frame["loc"], frame["scale"]))
    assert result_of(data, ("loc", "scale")) == pytest.approx(expected, rel=1e-12)
    features = data[["x1", "x2"]]
    dist = predict_dist(model, frame[["x1", "x2"]])
    moments = predict(model, features).compute(scheduler="synchronous")
    np.testing.assert_allclose(moments, np.column_stack([dist.mean(), dist.std()]))
    assert moments.columns.tolist() == ["mean", "std"]
    quantiles = predict(model, features, levels=LEVELS)
    assert quantiles.columns.tolist() == ["0.05", "0.5", "0.95"]
    pd.testing.assert_index_equal(quantiles.compute(scheduler="synchronous").index, frame.index)
    # What is predicted can be accumulated.
    together = dd.concat([data[["y"]], quantiles], axis=1)
    found = result_of(together, {level: str(level) for level in LEVELS})
    assert found == pytest.approx(whole(Quantiles(LEVELS, dist.quantile(LEVELS))), rel=1e-9)
    with pytest.raises(ValueError, match="`data` must have the column 'sigma', got"):
        accumulate(MetricAccumulator(), data, "y", ("loc", "sigma"))


def test_a_dask_array_is_accumulated_and_predicted(frame, whole, model):
    values = da.from_array(frame[["y", "loc", "scale"]].to_numpy(), chunks=(300, 3))
    expected = whole(Normal(frame["loc"], frame["scale"]))
    assert result_of(values, (1, 2), y=0) == pytest.approx(expected, rel=1e-12)
    X = frame[["x1", "x2"]].to_numpy()
    numbers = BayesianRidge().fit(X, frame["y"])
    dist, lazy = predict_dist(numbers, X), da.from_array(X, chunks=(300, 2))
    moments = predict(numbers, lazy)
    assert moments.chunks == ((300, 300, 300, 100), (2,))
    np.testing.assert_allclose(
        moments.compute(scheduler="synchronous"), np.column_stack([dist.mean(), dist.std()])
    )
    quantiles = predict(numbers, lazy, levels=LEVELS).compute(scheduler="synchronous")
    np.testing.assert_allclose(quantiles, dist.quantile(LEVELS))
    # Without rows there is nothing to predict.
    none = lazy[lazy[:, 0] > 1e6]
    assert predict(numbers, none).compute(scheduler="synchronous").shape == (0, 2)


def test_the_tree_has_few_merges_a_task(frame):
    total = accumulate(MetricAccumulator("picp"), [delayed(frame)] * 20, "y", ("loc", "scale"), split_every=4)
    merges = [key for key in total.dask if str(key).startswith("_merged")]
    assert len(merges) == 5 + 2 + 1


def test_the_accumulator_of_the_caller_stays_empty(frame):
    empty = MetricAccumulator("picp")
    total = accumulate(empty, parts_of(frame), "y", ("loc", "scale")).compute(scheduler="threads")
    assert total.n_rows == len(frame)
    assert empty.n_rows == 0
    with pytest.raises(ValueError, match="`accumulator` must not have rows, got 1000 rows"):
        accumulate(total, parts_of(frame), "y", ("loc", "scale"))


@pytest.mark.parametrize(
    ("data", "y_pred", "error", "message"),
    [
        (pd.DataFrame({"y": [1.0]}), ("loc", "scale"), TypeError, "`data` must be a dask DataFrame"),
        ([], ("loc", "scale"), ValueError, "at least one partition"),
        (da.ones(4), (1, 2), ValueError, "must have two dimensions, rows and columns, got 1"),
        (da.ones((4, 4), chunks=2), (1, 2), ValueError, "got 2 blocks of columns"),
        (da.ones((4, 4)), "loc", TypeError, "`y_pred` must be the columns of means and standard deviations"),
        (da.ones((4, 4)), (1, 2, 3), TypeError, "`y_pred` must be the columns of mean"),
    ],
)
def test_what_cannot_be_accumulated_raises(data, y_pred, error, message):
    with pytest.raises(error, match=message):
        accumulate(MetricAccumulator(), data, 0, y_pred)


def test_what_cannot_be_predicted_raises(model):
    with pytest.raises(TypeError, match="`X` must be a dask DataFrame or a dask array, got ndarray"):
        predict(model, np.ones((3, 2)))
    with pytest.raises(ValueError, match="`X` must have all columns of a row in one block, got 2"):
        predict(model, da.ones((4, 4), chunks=2))
    with pytest.raises(TypeError, match="`accumulator` must be a MetricAccumulator, got str"):
        accumulate("crps", da.ones((4, 4)), 0, (1, 2))


@pytest.mark.parametrize("function", [accumulate, predict])
def test_without_dask_the_error_says_what_to_install(function, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r'needs dask: run `pip install "skuq\[dask\]"`'):
        function(*[None] * (4 if function is accumulate else 2))


@pytest.fixture
def client():
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster, timeout=PATIENCE) as connected:
        yield connected


@pytest.mark.laws
def test_a_search_and_metrics_survive_a_killed_worker(client, frame, whole):
    # Functions inside the test travel by value, so that workers need not import this file.
    def score(candidate):
        time.sleep(0.2)
        return candidate**2

    def slowly(part):
        time.sleep(0.2)
        return Normal(part["loc"], part["scale"])

    candidates = list(range(6))
    scores = [client.submit(score, candidate, pure=False) for candidate in candidates]
    total = client.compute(accumulate(MetricAccumulator(*METRICS), parts_of(frame), "y", slowly))
    workers = client.run(os.getpid)
    # By the first result both workers have tasks; one of them may hold that result.
    distributed.wait(scores, timeout=PATIENCE, return_when="FIRST_COMPLETED")
    os.kill(next(iter(workers.values())), signal.SIGKILL)
    distributed.wait([*scores, total], timeout=PATIENCE)
    assert client.gather(scores) == [candidate**2 for candidate in candidates]
    assert total.result(timeout=PATIENCE).result() == pytest.approx(
        whole(Normal(frame["loc"], frame["scale"])), rel=1e-12
    )
    assert next(iter(workers)) not in client.scheduler_info()["workers"]
