"""Metrics of skuq in skore's reports."""

import pickle

import pytest
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import cross_val_score

from skuq import get_scorer
from skuq.exceptions import NotProbabilisticError
from skuq.integrations.skore import metric
from skuq.metrics import crps_loss, make_scorer
from tests.integrations.automl import X, Y, installed

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(120)]

SCORER = make_scorer("interval_score", coverage=0.8)


def test_the_metric_is_the_scorer():
    model = BayesianRidge().fit(X, Y)
    coverage = make_scorer("picp", monitoring=True)
    for given, scorer in (("crps", get_scorer("neg_crps")), ("picp", coverage), (SCORER, SCORER)):
        made = pickle.loads(pickle.dumps(metric(given)))
        assert made.__name__ == scorer.__name__
        assert made(model, X, Y) == scorer(model, X, Y)
    with pytest.raises(NotProbabilisticError, match="Ridge gives no predictive distribution"):
        metric("crps")(Ridge().fit(X, Y), X, Y)
    with pytest.raises(TypeError, match="`scorer` must be the name of a metric"):
        metric(crps_loss)


def test_a_report_of_one_model_has_the_number_of_the_scorer():
    skore = installed("skore")
    report = skore.EstimatorReport(
        BayesianRidge(), X_train=X[:100], y_train=Y[:100], X_test=X[100:], y_test=Y[100:]
    )
    report.metrics.add(metric("crps"))
    report.metrics.add(metric(SCORER))
    table = report.metrics.summarize().frame()
    model = BayesianRidge().fit(X[:100], Y[:100])
    assert table["neg_crps"] == pytest.approx(get_scorer("neg_crps")(model, X[100:], Y[100:]), rel=1e-12)
    assert table["neg_interval_score"] == pytest.approx(SCORER(model, X[100:], Y[100:]), rel=1e-12)


def test_a_cross_validation_report_has_the_mean_over_the_folds():
    skore = installed("skore")
    report = skore.CrossValidationReport(BayesianRidge(), X, Y, splitter=3)
    report.metrics.add(metric("crps"))
    table = report.metrics.summarize().frame()
    scores = cross_val_score(BayesianRidge(), X, Y, cv=3, scoring=get_scorer("neg_crps"))
    assert table.loc["neg_crps"].iloc[0] == pytest.approx(scores.mean(), rel=1e-12)
