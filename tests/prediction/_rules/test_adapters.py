"""NGBoost, quantile-forest, skpro, CatBoost and XGBoost: the numbers are the packages' own."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.distributions import (
    Empirical,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    ScipyDistribution,
    StudentT,
)
from skuq.exceptions import NotProbabilisticError
from skuq.multivariate import NormalJoint
from skuq.prediction import predict_dist, supports_dist

LEVELS = [0.005, 0.05, 0.25, 0.5, 0.75, 0.95, 0.995]


@pytest.fixture(scope="module")
def ngboost():
    pytest.importorskip("ngboost.distns")
    return pytest.importorskip("ngboost")


@pytest.fixture(scope="module")
def skpro():
    return pytest.importorskip("skpro.distributions")


NGBOOST = {
    "Normal": Normal,
    "NormalFixedVar": Normal,
    "T": StudentT,
    "TFixedDf": StudentT,
    "Cauchy": StudentT,
    "LogNormal": ScipyDistribution,
    "Laplace": ScipyDistribution,
    "Exponential": ScipyDistribution,
    "Gamma": ScipyDistribution,
    "Weibull": ScipyDistribution,
    "HalfNormal": ScipyDistribution,
}


class TestNGBoost:
    def fitted(self, ngboost, dist, X, y):
        return ngboost.NGBRegressor(Dist=dist, n_estimators=5, verbose=False, random_state=0).fit(X, y)

    def test_families(self, ngboost, data, subtests):
        X, y = data[0], data[1] / 20
        for family, expected in NGBOOST.items():
            model = self.fitted(ngboost, getattr(ngboost.distns, family), X, y)
            own, dist = model.pred_dist(X).dist, predict_dist(model, X)
            with subtests.test(family):
                assert supports_dist(model)
                assert type(dist) is expected
                assert len(dist) == len(X)
                for level in LEVELS:
                    np.testing.assert_allclose(dist.quantile(level), own.ppf(level), rtol=1e-7)
                np.testing.assert_allclose(dist.logpdf(y), own.logpdf(y), rtol=1e-7, atol=1e-12)

    def test_counts_and_several_targets(self, ngboost, data):
        X, y = data
        counts = np.round(y / 4)
        model = self.fitted(ngboost, ngboost.distns.Poisson, X, counts)
        dist, own = predict_dist(model, X), model.pred_dist(X).dist
        np.testing.assert_allclose(dist.mean(), model.predict(X))
        assert (dist.has_density, dist.has_mass) == (False, True)
        np.testing.assert_allclose(dist.logpmf(counts), own.logpmf(counts))
        targets = np.column_stack([y, y[::-1]])
        model = self.fitted(ngboost, ngboost.distns.MultivariateNormal(2), X, targets)
        assert supports_dist(model)
        dist, own = predict_dist(model, X), model.pred_dist(X)
        assert isinstance(dist, NormalJoint)
        np.testing.assert_array_equal(dist.mean(), own.loc)
        np.testing.assert_allclose(dist.cov(), own.cov, rtol=1e-9)
        np.testing.assert_allclose(dist.logpdf(targets), own.logpdf(targets), rtol=1e-7)

    def test_frames_and_unfitted_models_in_a_pipeline_in_a_search(self, ngboost, data):
        X, y = data

        def negative_crps(estimator, X, y):
            return -predict_dist(estimator, X).crps(y).mean()

        model = ngboost.NGBRegressor(n_estimators=10, verbose=False, random_state=0)
        grid = {"ngbregressor__learning_rate": [1e-4, 0.1]}
        pipeline = make_pipeline(StandardScaler(), model)
        search = GridSearchCV(pipeline, grid, scoring=negative_crps, cv=2, error_score="raise")
        assert supports_dist(search)
        search.fit(X, y)
        # NGBoost's own score has the wrong sign and would choose 1e-4
        assert search.best_params_["ngbregressor__learning_rate"] == 0.1
        assert isinstance(predict_dist(search, X), Normal)
        frame = pd.DataFrame(X, columns=list("abc"))
        model = self.fitted(ngboost, ngboost.distns.Normal, frame, y)
        np.testing.assert_allclose(predict_dist(model, frame).mean(), model.predict(frame))
        with pytest.raises(NotFittedError):
            predict_dist(ngboost.NGBRegressor(), X)


class TestQuantileForest:
    @pytest.mark.parametrize("name", ["RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor"])
    def test_quantiles_are_the_forest_s_own(self, data, name):
        package = pytest.importorskip("quantile_forest")
        X, y = data
        for options in ({}, {"max_samples_leaf": None, "min_samples_leaf": 5}):
            model = getattr(package, name)(n_estimators=30, random_state=0, **options)
            assert supports_dist(model)
            with pytest.raises(NotFittedError):
                predict_dist(model, X)
            dist = predict_dist(model.fit(X, y), X)
            assert isinstance(dist, Quantiles)
            np.testing.assert_allclose(dist.quantile(LEVELS), model.predict(X, quantiles=LEVELS), rtol=1e-12)
            mean = model.predict(X, quantiles="mean")
            np.testing.assert_allclose(dist.mean(), mean, atol=0.05 * y.std())

    def test_subclass_frame_pipeline_and_several_targets(self, data):
        package = pytest.importorskip("quantile_forest")
        X, y = data

        class Mine(package.RandomForestQuantileRegressor):
            pass

        frame = pd.DataFrame(X, columns=list("abc"))
        scaler = StandardScaler().set_output(transform="pandas")
        model = make_pipeline(scaler, Mine(n_estimators=5, random_state=0)).fit(frame, y)
        expected = model[-1].predict(model[0].transform(frame), quantiles=[0.25, 0.75])
        np.testing.assert_allclose(predict_dist(model, frame).interval(0.5), expected)
        with pytest.raises(ValueError, match="one target, got 2"):
            predict_dist(Mine(n_estimators=3).fit(X, np.column_stack([y, y])), X)


LOCATION_SCALE = [
    ("Normal", ["mu", "sigma"], None, Normal),
    ("TDistribution", ["mu", "sigma"], {"df": 5}, StudentT),
    ("Laplace", ["mu", "scale"], None, ScipyDistribution),
    ("Logistic", ["mu", "scale"], None, ScipyDistribution),
]
FAMILIES = [
    ("LogNormal", {"mu": [[0.2], [1.0], [2.0]], "sigma": 0.4}),
    ("Gamma", {"alpha": [[2.0], [3.0], [4.5]], "beta": 0.7}),
    ("Exponential", {"rate": [[0.5], [1.0], [4.0]]}),
    ("Weibull", {"scale": [[0.5], [1.0], [4.0]], "k": 1.7}),
    ("Normal", {"mu": 1.0, "sigma": [[0.5], [1.0], [4.0]]}),
    ("Delta", {"c": [[0.5], [1.0], [4.0]]}),
]


class TestSkpro:
    @pytest.fixture
    def frame(self, skpro, data):
        index = np.arange(100, 160)
        return pd.DataFrame(data[0], index, list("abc")), pd.DataFrame({"y": data[1]}, index)

    def compare(self, model, X, kind, levels=LEVELS):
        dist, own = predict_dist(model, X), model.predict_proba(X)
        assert type(dist) is kind
        assert len(dist) == len(X)
        np.testing.assert_allclose(dist.quantile(levels), own.quantile(levels).to_numpy(), rtol=1e-9)
        np.testing.assert_allclose(dist.mean(), own.mean().to_numpy()[:, 0], rtol=1e-6)
        return dist, own

    @staticmethod
    def predicted(own):
        """Return the distribution of a model that predicts `own`."""
        from skpro.regression.base import BaseProbaRegressor

        class Predicts(BaseProbaRegressor):
            is_fitted = True

            def predict_proba(self, X):
                return own

        return predict_dist(Predicts(), np.zeros((len(own), 1)))

    @pytest.mark.parametrize(("family", "names", "parameters", "expected"), LOCATION_SCALE)
    def test_location_scale_families(self, skpro, frame, family, names, parameters, expected):
        from skpro.regression.residual import ResidualDouble

        X, y = frame
        options = {"distr_loc_scale_name": names, "distr_params": parameters}
        model = ResidualDouble(LinearRegression(), dist=getattr(skpro, family), **options)
        assert supports_dist(model)
        with pytest.raises(NotFittedError):
            predict_dist(model, X)
        dist, own = self.compare(model.fit(X, y), X, expected)
        density = own.log_pdf(y.set_axis(own.columns, axis=1)).to_numpy()[:, 0]
        np.testing.assert_allclose(dist.logpdf(y["y"].to_numpy()), density, rtol=1e-7)
        if family == "Normal":
            by_array = ResidualDouble(LinearRegression()).fit(X.to_numpy(), y["y"].to_numpy())
            np.testing.assert_allclose(predict_dist(by_array, X.to_numpy()).mean(), dist.mean())

    def test_every_family_that_is_translated_keeps_its_quantiles(self, skpro, subtests):
        for family, parameters in FAMILIES:
            own = getattr(skpro, family)(**parameters, index=pd.RangeIndex(3), columns=["y"])
            with subtests.test(family):
                expected = own.quantile(LEVELS).to_numpy()
                np.testing.assert_allclose(self.predicted(own).quantile(LEVELS), expected, rtol=1e-9)
        with pytest.raises(ValueError, match="one target, got 2"):
            self.predicted(skpro.Normal(np.zeros((3, 2)), 1.0))

    def test_samples(self, skpro, frame):
        from skpro.regression.bootstrap import BootstrapRegressor
        from skpro.regression.nonparametric import NadarayaWatsonCDE

        X, y = frame
        model = BootstrapRegressor(LinearRegression(), n_bootstrap_samples=7, random_state=0).fit(X, y)
        dist, own = self.compare(model, X, Empirical, levels=[0.05, 0.33, 0.5, 0.95])
        assert dist.members.shape == (60, 7)
        expected = own.cdf(pd.DataFrame(20.0, X.index, own.columns)).to_numpy()[:, 0]
        np.testing.assert_allclose(dist.cdf(20.0), expected)
        repeated = predict_dist(model, X.iloc[[5, 2, 5]].set_axis([1, 1, 1]))
        np.testing.assert_array_equal(repeated.members, dist.members[[5, 2, 5]])
        weighted = NadarayaWatsonCDE().fit(X, y)
        dist, _ = self.compare(weighted, X.iloc[:5], Empirical, levels=[0.07, 0.51, 0.93])
        assert np.ptp(dist.weights) > 0
        index = pd.MultiIndex.from_tuples([(0, "a"), (0, "b"), (1, "a"), (1, "b"), (2, "b")])
        members = pd.DataFrame({"y": [1.0, 10.0, 2.0, 20.0, 60.0]}, index=index)
        unequal = self.predicted(skpro.Empirical(members, index=pd.Index(["b", "a"]), columns=["y"]))
        np.testing.assert_allclose(unequal.mean(), [30.0, 1.5])
        np.testing.assert_allclose(unequal.ppf(1.0), [60.0, 2.0])

    def test_mixtures(self, skpro, frame):
        from skpro.regression.ensemble import BaggingRegressor
        from skpro.regression.residual import ResidualDouble

        X, y = frame
        model = BaggingRegressor(ResidualDouble(LinearRegression()), n_estimators=3, random_state=0).fit(X, y)
        dist, own = predict_dist(model, X), model.predict_proba(X)
        assert isinstance(dist, NormalMixture)
        np.testing.assert_allclose(dist.mean(), own.mean().to_numpy()[:, 0], rtol=1e-9)
        np.testing.assert_allclose(dist.var(), own.var().to_numpy()[:, 0], rtol=1e-9)
        expected = own.cdf(y.set_axis(own.columns, axis=1)).to_numpy()[:, 0]
        np.testing.assert_allclose(dist.cdf(y["y"].to_numpy()), expected, rtol=1e-9)
        place = {"index": pd.RangeIndex(2), "columns": ["y"]}
        parts = [skpro.Normal([[0.0], [1.0]], 1.0, **place), skpro.Laplace([[3.0], [5.0]], 1.0, **place)]
        own = skpro.Mixture([("n", parts[0]), ("l", parts[1])], weights=[0.25, 0.75])
        dist, at = self.predicted(own), pd.DataFrame({"y": [0.5, 4.0]})
        assert isinstance(dist, Mixture)
        cdfs = [part.cdf(at).to_numpy()[:, 0] for part in parts]
        np.testing.assert_allclose(dist.cdf(at["y"].to_numpy()), np.dot([0.25, 0.75], cdfs), rtol=1e-9)

    def test_unknown_family_by_its_quantiles(self, frame):
        from skpro.regression.naive import NaiveProbaRegressor

        X, y = frame
        model = NaiveProbaRegressor().fit(X, y)
        assert isinstance(predict_dist(model, X), Quantiles)
        own = model.predict_proba(X).quantile(LEVELS).to_numpy()
        np.testing.assert_allclose(predict_dist(model, X).quantile(LEVELS), own, rtol=1e-9)

    @pytest.mark.laws
    @pytest.mark.filterwarnings("ignore")  # skpro calls a deprecated method of pandas
    def test_quantile_regression(self, frame):
        from skpro.regression.multiquantile import MultipleQuantileRegressor

        X, y = frame
        inner, levels = QuantileRegressor(alpha=0.0), [0.1, 0.5, 0.9]
        model = MultipleQuantileRegressor(inner, alpha=levels, sort_quantiles=True).fit(X, y)
        own = model.predict_proba(X).quantile([0.25, 0.75]).to_numpy()
        np.testing.assert_allclose(predict_dist(model, X).quantile([0.25, 0.75]), own)


# ------------------------------------------------------------------------------ gradient boosting


def catboost(loss, y, X, **options):
    package = pytest.importorskip("catboost")
    options = {"iterations": 15, "verbose": False, "allow_writing_files": False, "random_seed": 0, **options}
    return package.CatBoostRegressor(loss_function=loss, **options).fit(X, y)


def xgboost(levels, **options):
    package = pytest.importorskip("xgboost")
    return package.XGBRegressor(
        n_estimators=8, objective="reg:quantileerror", quantile_alpha=levels, n_jobs=1, **options
    )


class TestBoosting:
    def test_catboost_mean_and_variance(self, data):
        X, y = data
        model = catboost("RMSEWithUncertainty", y, X)
        own = model.predict(X, prediction_type="RMSEWithUncertainty")
        assert supports_dist(model)
        dist = predict_dist(model, X)
        assert isinstance(dist, Normal)
        np.testing.assert_array_equal(dist.mean(), own[:, 0])
        np.testing.assert_allclose(dist.var(), own[:, 1], rtol=1e-12)
        np.testing.assert_allclose(predict_dist(model, X[:1]).std(), dist.std()[:1])

    def test_catboost_by_its_other_name_and_unfitted(self, data):
        package = pytest.importorskip("catboost")
        named = package.CatBoostRegressor(objective="RMSEWithUncertainty", iterations=3, verbose=0)
        assert supports_dist(named)
        with pytest.raises(NotFittedError):
            predict_dist(named, data[0])
        assert not supports_dist(package.CatBoostRegressor())

    def test_catboost_quantiles_in_any_order(self, data, tmp_path):
        X, y = data
        model = catboost("MultiQuantile:alpha=0.85,0.15,0.4", y, X)
        model.save_model(str(tmp_path / "model"))
        loaded = type(model)().load_model(str(tmp_path / "model"))
        assert supports_dist(model)
        own = np.sort(model.predict(X), axis=1)  # as `Quantiles` sorts what crosses
        for dist in (predict_dist(model, X), predict_dist(loaded, X)):
            assert isinstance(dist, Quantiles)
            np.testing.assert_allclose(dist.quantile([0.15, 0.4, 0.85]), own)

    @pytest.mark.parametrize("levels", [[0.15, 0.6, 0.85], np.array([0.85, 0.15]), [1 / 3, 2 / 3]])
    def test_xgboost_quantiles(self, data, levels, tmp_path):
        X, y = data
        model = xgboost(levels)
        assert supports_dist(model)
        with pytest.raises(NotFittedError):
            predict_dist(model, X)
        dist = predict_dist(model.fit(X, y), X)
        assert isinstance(dist, Quantiles)
        np.testing.assert_array_equal(dist.levels, np.sort(levels))  # all digits
        own = np.sort(model.predict(X), axis=1)
        np.testing.assert_allclose(dist.quantile(np.sort(levels)), own, rtol=1e-6)
        model.save_model(tmp_path / "model.json")
        loaded = type(model)()
        loaded.load_model(tmp_path / "model.json")
        np.testing.assert_allclose(predict_dist(loaded, X).levels, dist.levels, rtol=1e-7)
        np.testing.assert_array_equal(predict_dist(loaded, X).values, dist.values)

    def test_one_quantile_or_another_loss_is_no_distribution(self, data, subtests):
        X, y = data
        lightgbm = pytest.importorskip("lightgbm")
        one = r"predicts a single quantile at level 0\.35 .* skuq\.UncertaintyRegressor\(\w+\(\.\.\.\)\)"
        none = "gives no predictive distribution"
        boosting = HistGradientBoostingRegressor(loss="quantile", quantile=0.35, max_iter=2)
        for model, message in (
            (lightgbm.LGBMRegressor(objective="quantile", alpha=0.35, n_estimators=3, verbose=-1), one),
            (catboost("Quantile:alpha=0.35", y, X), one),
            (xgboost(0.35), one),
            (xgboost([0.35]), one),
            (QuantileRegressor(quantile=0.35), one),
            (make_pipeline(boosting), one),
            (catboost("RMSE", y, X), none),
            (xgboost(None).set_params(objective="reg:squarederror"), none),
        ):
            model.fit(X, y)
            with subtests.test(model=repr(model)[:30]):
                assert not supports_dist(model)
                with pytest.raises(NotProbabilisticError, match=message):
                    predict_dist(model, X)


@pytest.mark.laws
def test_nothing_is_imported_that_the_user_has_not_imported():
    code = (
        "import sys, skuq.regressors; from sklearn.linear_model import Ridge; "
        "assert not skuq.prediction.supports_dist(Ridge()); packages = 'ngboost', 'quantile_forest', "
        "'skpro', 'optuna', 'catboost', 'xgboost', 'lightgbm', 'tabpfn', 'tabicl', 'torch'; "
        "print([name for name in packages if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
