"""The distribution of AutoGluon's predictor, from its quantiles at the levels of skuq."""

import numpy as np
import pandas as pd
import pytest

from skuq import get_scorer, predict_dist, supports_dist
from skuq._fitting.cross_fit import point_predict
from skuq.distributions import Normal, Quantiles
from skuq.evaluation import uncertainty_report
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import crps_loss, pinball_loss
from tests.integrations.automl import X, Y, installed

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(240)]

LEVELS = [0.01, *np.arange(0.05, 0.97, 0.05).round(2).tolist(), 0.99]
FRAME = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(y=Y)


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    tabular = installed("autogluon.tabular")
    made = tabular.TabularPredictor(
        "y",
        problem_type="quantile",
        quantile_levels=LEVELS[::2],
        path=str(tmp_path_factory.mktemp("autogluon")),
        verbosity=0,
    )
    assert supports_dist(made)
    models = {"GBM": {"num_boost_round": 30}, "XT": {"n_estimators": 20}}
    return made.fit(FRAME, hyperparameters=models, time_limit=60, num_cpus=1, fit_weighted_ensemble=False)


def test_the_mean_pinball_loss_over_the_levels_is_about_half_the_crps():
    dist = Normal(np.full(len(Y), Y.mean()), Y.std())
    assert 2 * pinball_loss(Y, dist, levels=LEVELS) == pytest.approx(crps_loss(Y, dist), rel=0.1)


def test_the_distribution_has_the_predictors_own_sorted_quantiles(predictor):
    levels = predictor.quantile_levels
    crossed = 0
    for name in predictor.model_names():
        predictor.set_model_best(name)
        own = predictor.predict(FRAME).to_numpy(dtype=float)
        crossed += (np.diff(own, axis=1) < 0).sum()
        dist = predict_dist(predictor, FRAME)
        assert isinstance(dist, Quantiles)
        np.testing.assert_array_equal(dist.quantile(levels), np.sort(own, axis=1))
    assert crossed > 0  # LightGBM's do, so that the sorting is tested


def test_scorer_and_report_take_the_predictor(predictor):
    dist = predict_dist(predictor, FRAME)
    score = get_scorer("neg_crps")(predictor, FRAME.drop(columns="y"), FRAME["y"])
    assert score == -crps_loss(Y, dist)
    report = uncertainty_report(Y, dist, metrics=["crps"], n_resamples=0, n_draws=0)
    assert report.loc["crps", "value"] == -score
    np.testing.assert_array_equal(point_predict(predictor, FRAME), dist.mean())


def test_other_problems_have_no_distribution(tmp_path):
    tabular = installed("autogluon.tabular")
    made = tabular.TabularPredictor("y", problem_type="regression", path=str(tmp_path), verbosity=0)
    assert not supports_dist(made)
    with pytest.raises(NotProbabilisticError, match="got problem type 'regression'"):
        predict_dist(made, FRAME)
