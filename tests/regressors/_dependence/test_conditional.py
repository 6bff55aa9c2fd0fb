"""Dependence that varies with x, and the gate in front of it."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm

from skuq.regressors._dependence.conditional import fit_conditional_weights, log_copula_density
from skuq.regressors._dependence.correlation import normal_scores, shrunk_correlation


def world(n, varying, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    rho = 0.9 * np.sign(X[:, 0]) if varying else np.full(n, 0.6)
    first, second = rng.normal(size=(2, n))
    values = np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * second])
    return X, normal_scores(values, np.ones(n))


def fit(n, varying, X=None, **options):
    table, scores = world(n, varying)
    weight = np.ones(n)
    chosen = options.pop("template_rows", np.arange(n))
    correlation = shrunk_correlation(scores, weight)
    found = fit_conditional_weights(
        table if X is None else X(table), scores, correlation, weight, chosen, 0, None
    )
    return table, scores, found


def test_log_density_is_that_of_the_normal_copula():
    correlation = np.array([[1.0, 0.7], [0.7, 1.0]])
    scores = np.random.default_rng(0).normal(size=(5, 2))
    joint = multivariate_normal(cov=correlation).logpdf(scores)
    expected = joint - norm.logpdf(scores).sum(axis=1)
    assert log_copula_density(correlation, scores) == pytest.approx(expected, abs=1e-4)


def test_weights_follow_the_sign_of_the_correlation():
    _, scores, found = fit(400, varying=True)
    assert found.share > 0.5
    weights = found(np.array([[-0.8, 0.0], [0.8, 0.0]]))
    assert weights.sum(axis=1) == pytest.approx(1.0)
    assert (weights >= 0).all()
    moments = weights @ (scores[:, 0] * scores[:, 1])
    assert moments[0] < -0.5
    assert moments[1] > 0.5


def test_weights_refer_to_the_rows_of_the_template():
    rows = np.arange(0, 400, 3)
    _, scores, found = fit(400, varying=True, template_rows=rows)
    weights = found(np.array([[0.8, 0.0]]))
    assert weights.shape == (1, len(rows))
    assert weights @ (scores[rows, 0] * scores[rows, 1]) > 0.6


@pytest.mark.parametrize("n", [400, 900])
def test_a_constant_dependence_does_not_pass_the_gate(n):
    assert fit(n, varying=False)[2] is None


def test_few_rows_do_not_pass_the_gate():
    assert fit(299, varying=True)[2] is None


def test_categories_are_features():
    def as_table(X):
        return pd.DataFrame({"side": np.where(X[:, 0] > 0, "right", "left"), "other": X[:, 1]})

    found = fit(400, varying=True, X=as_table)[2]
    weights = found(pd.DataFrame({"side": ["left", "right", "unknown"], "other": [0.0, 0.0, 0.0]}))
    assert weights.shape == (3, 400)
    assert not np.allclose(weights[0], weights[1])


def test_x_must_be_a_table():
    with pytest.raises(ValueError, match="must be a table"):
        fit(400, varying=True, X=lambda X: np.zeros((400, 2, 2)))
