"""Code in error messages runs with the variables of the caller. Dots stand for the caller's arguments."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import skuq
from skuq import conformal, metrics, monitoring, recalibration, regressors, survival
from skuq.distributions import Distribution, Empirical, Normal, as_distribution
from skuq.model_selection import cross_val_predict_dist

NAMES = {**vars(regressors), **vars(conformal), **vars(survival), **vars(recalibration), **vars(metrics)}
NAMES |= vars(skuq.distributions)
NAMES |= {"skuq": skuq, "np": np, "make_pipeline": make_pipeline, "GroupKFold": GroupKFold}
NAMES |= {
    "ExtraTreesRegressor": ExtraTreesRegressor,
    "HistGradientBoostingRegressor": HistGradientBoostingRegressor,
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
        (
            lambda: regressors.HurdleRegressor(LogisticRegression(), Ridge()),
            r"UncertaintyRegressor\(Ridge\(\.\.\.\)\)",
        ),
        (lambda: regressors.ForestDistributionRegressor(Ridge()), r"ExtraTreesRegressor\(bootstrap=True\)"),
        (lambda: regressors.MultiQuantileRegressor(Ridge()), r"HistGradientBoostingRegressor\(\)"),
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


def test_a_wrapper_for_censored_targets():
    fit = survival.CensoringWeightedRegressor(Ridge()).fit
    event = np.arange(60) % 3 > 0
    pattern = r"CensoringWeightedRegressor\(.*\)\)"
    model = code_in(lambda: fit(X, np.exp(Y), event=event), pattern)
    assert np.isfinite(model.fit(X, np.exp(Y), event=event).predict(X)).all()


def test_a_recalibrator_for_censored_targets():
    event = np.arange(60) % 3 > 0
    boosting = survival.CensoredBoostingRegressor(n_estimators=5)
    model = regressors.RecalibratedRegressor(boosting, recalibration.StdScalingRecalibrator())
    fit = model.fit
    recalibrator = code_in(lambda: fit(X, np.exp(Y), event=event), r"recalibrator=(IsotonicRecalibrator\(\))")
    model.set_params(recalibrator=recalibrator).fit(X, np.exp(Y), event=event)
    assert len(model.predict_dist(X)) == 60


def test_groups_need_a_splitter():
    model = regressors.ResidualRegressor(Ridge(), cv=4)
    groups = np.arange(60) % 20
    model.cv = code_in(lambda: model.fit(X, Y, groups=groups), r"cv=(GroupKFold\(5\))")
    assert len(model.fit(X, Y, groups=groups).predict_dist(X)) == 60


def test_a_single_quantile_is_wrapped():
    fitted = QuantileRegressor(quantile=0.3, alpha=0).fit(X, Y)
    pattern = r"skuq\.UncertaintyRegressor\(QuantileRegressor\(\.\.\.\)\)"
    model = code_in(lambda: skuq.predict_dist(fitted, X), pattern, QuantileRegressor=QuantileRegressor)
    assert len(model.fit(X, Y).predict_dist(X)) == 60


def test_words_need_an_encoder():
    table = pd.DataFrame({"word": np.where(X[:, 0] > 0, "a", "b"), "x": X[:, 1]})
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is scikit-learn's, and skuq adds a note
        skuq.UncertaintyRegressor(Ridge(), random_state=0).fit(table, Y)
    (code,) = re.findall(r"make_pipeline\(.*Ridge\(\.\.\.\)\)", "".join(caught.value.__notes__))
    encoders = {"make_column_transformer": make_column_transformer, "OrdinalEncoder": OrdinalEncoder}
    model = eval(code.replace("(...)", "()"), NAMES | encoders)
    assert len(skuq.UncertaintyRegressor(model, random_state=0).fit(table, Y).predict_dist(table)) == 60


def test_several_columns_need_one_model_each():
    targets = np.column_stack([Y, -Y])
    with pytest.raises(ValueError, match="must have one column") as caught:
        skuq.UncertaintyRegressor(Ridge()).fit(X, targets)
    (code,) = re.findall(r"skuq\.multivariate\.MultiOutputUncertaintyRegressor\(\.\.\.\)", str(caught.value))
    model = eval(code.replace("...", "Ridge()"), NAMES)
    assert len(model.fit(X, targets).predict_dist(X)) == 60


def test_an_integral_that_diverges():
    frozen = stats.levy(scale=[1.0, 2.0])
    dist = as_distribution(frozen)
    code = r"`(Empirical\(frozen.*?)`"
    sample = code_in(lambda: dist.crps([1.0, 2.0]), code, frozen=frozen, n=2)
    assert np.isfinite(sample.crps([1.0, 2.0])).all()


def test_drift_needs_every_curve():
    few = {"a": monitoring.MetricAccumulator("crps", curves=()).update(Y, Normal(X[:, 0], 1.0))}
    names = {"MetricAccumulator": monitoring.MetricAccumulator}
    every = code_in(lambda: monitoring.calibration_drift(few), r"MetricAccumulator\(\)", **names)
    assert len(monitoring.calibration_drift({"a": every.update(Y, Normal(X[:, 0], 1.0))})) == 1


def test_an_interval_of_a_regressor_is_no_set():
    fitted = BayesianRidge().fit(X, Y)
    code = r"skuq\.predict_dist\(estimator, X\)\.interval\(coverage\)"
    bounds = code_in(lambda: conformal.predict_set(fitted, X), code, estimator=fitted, X=X, coverage=0.9)
    assert bounds.shape == (60, 2)


def test_a_recalibrator_that_learns_row_by_row():
    model = regressors.RecalibratedRegressor(BayesianRidge()).fit(X, Y)
    with pytest.raises(AttributeError) as caught:
        _ = model.partial_fit
    (code,) = re.findall(r"OnlineRecalibrator\(\)", str(caught.value.__cause__))
    model = model.set_params(recalibrator=eval(code, NAMES)).fit(X, Y)
    assert len(model.partial_fit(X[:2], Y[:2]).predict_dist(X)) == 60
