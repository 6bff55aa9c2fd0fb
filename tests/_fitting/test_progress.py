"""Progress through scikit-learn's callbacks, and without them."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import MultiOutputMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skuq._fitting.seeds import Progress
from skuq.conformal import ConformalRegressor, CrossConformalRegressor
from skuq.multivariate import ConformalRegionRegressor, MultiOutputUncertaintyRegressor
from skuq.regressors import (
    BootstrapRegressor,
    LeastSquaresRegressor,
    MixtureRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    SparseGaussianProcessRegressor,
    UncertaintyRegressor,
)
from tests.regressors.worlds import linear_world

FREE = 4  # folds of the regressors whose fit needs none
RESIDUAL = ResidualRegressor(LinearRegression(), cv=2)
POOL = [("line", LeastSquaresRegressor()), ("residual", make_pipeline("passthrough", RESIDUAL))]

CASES = [
    (BootstrapRegressor(LinearRegression(), 7), ["fit", *["member"] * 7]),
    (BootstrapRegressor(LinearRegression(), 7, n_jobs=2), ["fit", *["member"] * 7]),
    (MultiQuantileRegressor(QuantileRegressor(), [0.1, 0.9], cv=FREE), ["fit", "level", "level"]),
    (ResidualRegressor(LinearRegression(), cv=2), ["fit", "fold", "fold", "errors"]),
    (ConformalRegressor(LinearRegression()), ["fit", "model", "calibration"]),
    (
        ConformalRegressor(FrozenEstimator(LinearRegression().fit(*linear_world(20)))),
        ["fit", "calibration"],
    ),
    (CrossConformalRegressor(LinearRegression(), cv=3), ["fit", "fold", "fold", "fold", "model"]),
    (RecalibratedRegressor(LeastSquaresRegressor(), cv=3), ["fit", "fold", "fold", "fold", "fit"]),
    (
        UncertaintyRegressor(LinearRegression(), "bootstrap", method_params={"n_estimators": 30}),
        ["fit", "fit", *["member"] * 30],
    ),
    (UncertaintyRegressor(BayesianRidge(), "native", cv=FREE), ["fit", "fit", "fit"]),
    (MixtureRegressor(POOL, n_jobs=2, cv=3), ["fit", "member", "member"]),
    (MultiOutputUncertaintyRegressor(LeastSquaresRegressor()), ["fit", "target", "target"]),
    (ConformalRegionRegressor(LeastSquaresRegressor()), ["fit", "model"]),
    (
        ConformalRegionRegressor(LeastSquaresRegressor(), method="cv+", cv=3),
        ["fit", "fold", "fold", "fold", "fit", "target", "target"],
    ),
]


def begun_tasks(model, X, y, caller):
    """Return a fitted copy of the model and the names of its tasks, each of which has ended."""
    callback = pytest.importorskip("sklearn.callback")
    begun, ended = [], []

    class Recorder:
        max_propagation_depth = None

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            begun.append(context.task_name)

        def on_fit_task_end(self, estimator, context):
            ended.append(context.task_name)

        def teardown(self, estimator, context):
            ended.append("teardown")

    assert isinstance(Recorder(), callback.FitCallback)
    model = clone(model).set_callbacks(Recorder())
    getattr(model, caller)(X, y)
    assert ended[-1] == "teardown"
    assert sorted(ended[:-1]) == sorted(begun)
    assert not hasattr(model, "_callback_fit_ctx")
    return model, begun


@pytest.mark.parametrize(("model", "tasks"), CASES, ids=lambda case: type(case).__name__)
@pytest.mark.parametrize("caller", ["fit", "fit_transform"])
def test_every_task_is_reported(model, tasks, caller):
    X, y = linear_world(40)
    if isinstance(model, MultiOutputMixin):
        y = np.column_stack([y, X[:, 0] - y])
        caller = caller if hasattr(model, caller) else "fit"
    if caller == "fit_transform" and isinstance(model, BootstrapRegressor):
        model = clone(model).set_params(n_estimators=30)
        tasks = ["fit", *["member"] * 30]
    if caller == "fit_transform" and isinstance(model, ConformalRegressor | CrossConformalRegressor):
        tasks = [tasks[0], *["fold"] * (model.cv or 5), *tasks[1:]]
    if caller == "fit_transform" and getattr(model, "cv", 5) == FREE:
        before = 2 if isinstance(model, UncertaintyRegressor) else 1
        tasks = [*tasks[:before], *["fold"] * FREE, *tasks[before:]]
    with parallel_config("threading"):
        assert begun_tasks(model, X, y, caller)[1] == tasks


def test_every_evaluation_of_the_bound_of_a_sparse_gaussian_process_is_reported():
    pytest.importorskip("gpytorch")
    model = SparseGaussianProcessRegressor(5, max_iter=4, cv=3, random_state=0)
    model, begun = begun_tasks(model, *linear_world(30), "fit_transform")
    assert begun[:4] == ["fit", "fold", "fold", "fold"]
    assert set(begun[4:]) == {"evaluation"}
    assert len(begun[4:]) >= model.n_iter_


@pytest.fixture
def progress_bar():
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    return callback.ProgressBar(max_propagation_depth=None)


def test_the_folds_of_members_are_subtasks(progress_bar, capsys):
    MixtureRegressor(POOL).set_callbacks(progress_bar).fit(*linear_world(40))
    shown = capsys.readouterr().out
    assert "residual" in shown
    assert "ResidualRegressor - fit" in shown


def test_a_progress_bar_works_in_a_search(progress_bar, capsys):
    search = GridSearchCV(ResidualRegressor(LinearRegression(), cv=2), {"effort": ["low"]}, cv=2)
    search.set_callbacks(progress_bar).fit(*linear_world(40))
    assert "ResidualRegressor" in capsys.readouterr().out


def test_without_callbacks_nothing_is_reported():
    class Plain:
        pass

    progress = Progress(Plain(), 2)
    progress.done("task")
    assert progress.reporter("task") is None
    with progress.task("task", Plain()):
        pass
    progress.close()
