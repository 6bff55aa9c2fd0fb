"""Code in error messages runs with the variables of the caller. Dots stand for the caller's arguments."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline

import skuq
from skuq import conformal, metrics, recalibration, regressors
from skuq.distributions import Distribution, Empirical, Normal, as_distribution
from skuq.model_selection import cross_val_predict_dist

NAMES = {
    **vars(regressors),
    **vars(conformal),
    **vars(recalibration),
    **vars(metrics),
    **skuq.distributions.__dict__,
}
NAMES |= {"skuq": skuq, "np": np, "make_pipeline": make_pipeline, "GroupKFold": GroupKFold}
NAMES |= {
    "Ridge": Ridge,
    "LinearRegression": LinearRegression,
    "cross_val_predict_dist": cross_val_predict_dist,
}
X = np.random.default_rng(0).normal(size=(60, 2))
Y = X[:, 0] + np.random.default_rng(1).normal(size=60)


def code_in(call, pattern: str, **variables):
    """Return the value of the code in the message of the error that a call raises."""
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    (code,) = set(re.findall(pattern, str(caught.value))) or [str(caught.value)]
    return eval(code.replace("(...)", "()").replace(", ...)", ")").replace("(..., ", "("), NAMES | variables)


@pytest.mark.parametrize(
    ("make", "pattern"),
    [
        (lambda: regressors.RecalibratedRegressor(Ridge()), r"RecalibratedRegressor\(.*\.\.\.\)\), \.\.\.\)"),
        (lambda: regressors.FunctionalRegressor(Ridge()), r"FunctionalRegressor\(.*\.\.\.\)\), \.\.\.\)"),
        (lambda: conformal.ConformalRegressor(Ridge(), "cqr"), r"ConformalRegressor\(.*'cqr'\)"),
        (lambda: regressors.MixtureRegressor([("a", Ridge())]), r"UncertaintyRegressor\(Ridge\(\.\.\.\)\)"),
    ],
)
def test_a_wrapper_of_a_point_model_fits(make, pattern):
    model = code_in(lambda: make().fit(X, Y), pattern)
    assert np.isfinite(model.fit(X, Y).predict(X)).all()


def test_the_wrapper_of_predict_dist_fits():
    pattern = r"skuq\.UncertaintyRegressor\(Ridge\(\.\.\.\)\)"
    model = code_in(lambda: skuq.predict_dist(Ridge().fit(X, Y), X), pattern)
    assert isinstance(skuq.predict_dist(model.fit(X, Y), X), Distribution)


def test_splitters():
    estimator = regressors.LeastSquaresRegressor()
    fit = conformal.ConformalRegressor(Ridge(), cv=ShuffleSplit(3)).fit
    model = code_in(lambda: fit(X, Y), r"RecalibratedRegressor\(estimator, .*?\)\)", estimator=estimator)
    assert len(model.fit(X, Y).predict_dist(X)) == 60


def test_ensembles_that_are_too_narrow():
    dist = Empirical(X[:, :1] + 0.1 * np.random.default_rng(2).normal(size=(60, 5)))
    fit = recalibration.IsotonicRecalibrator().fit
    pipeline = code_in(lambda: fit(dist, Y), r"make_pipeline\(.*\(\)\)")
    assert len(pipeline.fit(dist, Y).transform(dist)) == 60


def test_scipy_distributions():
    frozen, pattern = stats.poisson_binom([0.2, 0.5]), r"`(Empirical\(np.*)`"
    dist = code_in(lambda: as_distribution(frozen), pattern, frozen=frozen, k=3)
    assert dist.mean() == pytest.approx([0.7])


def test_a_distribution_to_return():
    class Own(LinearRegression):
        def predict_dist(self, X):
            return np.zeros(len(X))

    pattern = r"skuq\.distributions\.Normal\(loc, scale\)"
    dist = code_in(lambda: skuq.predict_dist(Own().fit(X, Y), X), pattern, loc=Y, scale=1.0)
    assert isinstance(dist, Normal)


def test_folds_that_repeat_rows():
    model, cv = regressors.LeastSquaresRegressor(), ShuffleSplit(3, random_state=0)
    with pytest.raises(ValueError, match=r"cross_val_predict_dist\(\.\.\., return_rows=True\)"):
        cross_val_predict_dist(model, X, Y, cv=cv)
    dist, rows = cross_val_predict_dist(model, X, Y, cv=cv, return_rows=True)
    assert len(dist) == len(rows) == 18
