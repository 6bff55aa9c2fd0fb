"""skrub's learners and searches; those of other tools are tested with the tools: tests/integrations."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, Ridge

from skuq.displays import CalibrationCurveDisplay
from skuq.exceptions import NotProbabilisticError, NotRefittedError
from skuq.metrics import crps_loss, get_scorer
from skuq.prediction import predict_dist, supports_dist
from skuq.regressors import UncertaintyRegressor
from tests.integrations.automl import installed

skrub = installed("skrub")
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def frame(data):
    X, y = data
    return pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(X[:, 0] > 0, "p", "q"), y=y)


def plan(estimator):
    """Return the prediction of a plan over one table, whose columns become features."""
    table = skrub.var("data")
    X = table.drop(columns="y").skb.mark_as_X().skb.set_name("table")
    features = X.skb.apply(skrub.TableVectorizer()).skb.set_name("features")
    return features.skb.apply(estimator, y=table["y"].skb.mark_as_y()).skb.set_name("model")


def test_a_learner_takes_a_dictionary_without_rows(frame):
    learner = plan(UncertaintyRegressor(Ridge(), effort="low", random_state=0)).skb.make_learner()
    assert supports_dist(learner)
    with pytest.raises(NotFittedError):
        predict_dist(learner, {"data": frame})
    learner.fit({"data": frame})
    dist = predict_dist(learner, {"data": frame})
    # The public way, by the names of the nodes.
    features = learner.truncated_after("features").transform({"data": frame})
    own = predict_dist(learner.find_fitted_estimator("model"), features)
    np.testing.assert_array_equal(dist.std(), own.std())
    assert get_scorer("neg_crps")(learner, {"data": frame}, frame["y"]) == -crps_loss(frame["y"], own)
    CalibrationCurveDisplay.from_estimator(learner, {"data": frame}, frame["y"])


def test_a_learner_without_a_distribution_is_named_by_the_error(frame, monkeypatch):
    learner = plan(BayesianRidge()).skb.make_learner().fit({"data": frame})
    with pytest.raises(NotProbabilisticError, match="of the last estimator of this SkrubLearner"):
        predict_dist(learner, {"data": frame})
    features = learner.truncated_after("features").transform({"data": frame})
    assert len(predict_dist(learner.find_fitted_estimator("model"), features)) == len(frame)
    learner = plan(UncertaintyRegressor(Ridge(), effort="low")).skb.make_learner().fit({"data": frame})
    monkeypatch.delattr(skrub.SkrubLearner, "_eval_in_mode")  # a private method of skrub
    with pytest.raises(NotProbabilisticError, match=r"learner\.find_fitted_estimator"):
        predict_dist(learner, {"data": frame})


def search(frame, **options):
    alpha = skrub.choose_from([0.1, 1e6], name="alpha")
    model = UncertaintyRegressor(Ridge(alpha=alpha), effort="low", random_state=0)
    scoring = get_scorer("neg_crps")
    return plan(model).skb.make_grid_search(scoring=scoring, cv=2, error_score="raise", **options)


def test_a_search_over_a_plan_chooses_by_crps(frame):
    grid = search(frame)
    assert not supports_dist(grid)
    with pytest.raises(NotFittedError, match="ParamSearch is not fitted yet"):
        predict_dist(grid, {"data": frame})
    grid.fit({"data": frame})
    assert grid.results_["alpha"].iloc[0] == 0.1
    assert supports_dist(grid)
    best = predict_dist(grid.best_learner_, {"data": frame})
    np.testing.assert_array_equal(predict_dist(grid, {"data": frame}).std(), best.std())


def test_a_search_without_refit_holds_no_learner(frame):
    with pytest.raises(NotRefittedError, match="`refit=False`"):
        predict_dist(search(frame, refit=False).fit({"data": frame}), {"data": frame})
