"""TPOT chooses by scorers of skuq among wrapped regressors."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skuq import UncertaintyRegressor, get_scorer, predict_dist, supports_dist
from skuq.integrations.tpot import search_space
from skuq.metrics import crps_loss
from tests.integrations.automl import X, Y, installed

tpot = installed("tpot")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(240)]


def made(**options):
    return tpot.TPOTEstimator(
        search_space=search_space(["ExtraTreesRegressor", "RidgeCV"], random_state=0),
        scorers=[get_scorer("neg_crps")],
        scorers_weights=[1],
        classification=False,
        cv=2,
        population_size=3,
        generations=1,
        max_time_mins=None,
        memory_limit=None,
        processes=False,  # threads, so that no process has to import this file
        random_state=0,
        verbose=0,
        **options,
    )


def test_tpot_finds_a_wrapped_model_by_crps():
    automl = made()
    assert not supports_dist(automl)
    with pytest.raises(NotFittedError, match="TPOTEstimator is not fitted yet"):
        predict_dist(automl, X)
    automl.fit(X, Y)
    assert isinstance(automl.fitted_pipeline_.steps[-1][1], UncertaintyRegressor)
    assert supports_dist(automl)
    scores = automl.evaluated_individuals["crps_loss"].dropna()
    assert len(scores) >= 2
    assert (scores < 0).all()
    own = predict_dist(automl.fitted_pipeline_, X)
    assert get_scorer("neg_crps")(automl, X, Y) == -crps_loss(Y, own)


def test_the_space_has_the_options_of_the_wrapper():
    space = search_space(options={"method": ["residual", "conformal"], "cv": 3}, random_state=1)
    rng = np.random.default_rng(0)
    drawn = [space.generate(rng).export_pipeline().steps[-1][1] for _ in range(12)]
    assert {str(one.method) for one in drawn} == {"residual", "conformal"}
    assert {one.cv for one in drawn} == {3}
    assert {one.random_state for one in drawn} == {1}
    assert len({type(one.estimator) for one in drawn}) > 1
    with pytest.raises(ValueError, match=r"`regressors` must be names of regressors in TPOT.*'Nothing'"):
        search_space(["Nothing"])
