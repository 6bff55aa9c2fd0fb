"""NGBoost, quantile-forest, skpro, CatBoost and XGBoost: the numbers are the packages' own."""

import subprocess
import sys
import warnings

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
    NormalJoint,
    NormalMixture,
    Quantiles,
    ScipyDistribution,
    StudentT,
)
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist

LEVELS = [0.005, 0.05, 0.25, 0.5, 0.75, 0.95, 0.995]


class TestNGBoost:
    def fitted(self, data, family, y=None, **options):
        ngboost = pytest.importorskip("ngboost")
        distns = pytest.importorskip("ngboost.distns")
        X, target = data
        dist = getattr(distns, family) if isinstance(family, str) else family(distns)
        model = ngboost.NGBRegressor(Dist=dist, n_estimators=5, verbose=False, random_state=0, **options)
        return model.fit(X, target / 20 if y is None else y)

    @pytest.mark.parametrize(
        ("family", "expected"),
        [
            ("Normal", Normal),
            ("NormalFixedVar", Normal),
            ("T", StudentT),
            ("TFixedDf", StudentT),
            ("Cauchy", StudentT),
            ("LogNormal", ScipyDistribution),
            ("Laplace", ScipyDistribution),
            ("Exponential", ScipyDistribution),
            ("Gamma", ScipyDistribution),
            ("Weibull", ScipyDistribution),
            ("HalfNormal", ScipyDistribution),
        ],
    )
    def test_families(self, data, family, expected):
        X, y = data
        model = self.fitted(data, family)
        own = model.pred_dist(X)
        assert supports_dist(model)
        dist = predict_dist(model, X)
        assert type(dist) is expected
        assert len(dist) == len(X)
        for level in LEVELS:
            np.testing.assert_allclose(dist.quantile(level), own.dist.ppf(level), rtol=1e-7)
        np.testing.assert_allclose(dist.logpdf(y / 20), own.dist.logpdf(y / 20), rtol=1e-7, atol=1e-12)

    def test_counts(self, data):
        X, y = data
        model = self.fitted(data, "Poisson", np.round(y / 4))
        dist = predict_dist(model, X)
        np.testing.assert_allclose(dist.mean(), model.predict(X))
        assert not dist.has_density
        assert dist.has_mass
        own = model.pred_dist(X).dist
        np.testing.assert_allclose(dist.logpmf(np.round(y / 4)), own.logpmf(np.round(y / 4)))

    def test_in_a_pipeline_in_a_search(self, data):
        ngboost = pytest.importorskip("ngboost")
        X, y = data

        def negative_crps(estimator, X, y):
            return -predict_dist(estimator, X).crps(y).mean()

        model = ngboost.NGBRegressor(n_estimators=30, verbose=False, random_state=0)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), model),
            {"ngbregressor__learning_rate": [1e-4, 0.1]},
            scoring=negative_crps,
            cv=2,
            error_score="raise",
        )
        assert supports_dist(search)
        search.fit(X, y)
        # NGBoost's own score has the wrong sign and would choose 1e-4
        assert search.best_params_["ngbregressor__learning_rate"] == 0.1
        assert isinstance(predict_dist(search, X), Normal)

    def test_data_frame_and_unfitted(self, data):
        ngboost = pytest.importorskip("ngboost")
        X, y = data
        frame = pd.DataFrame(X, columns=list("abc"))
        model = self.fitted((frame, y), "Normal", y)
        np.testing.assert_allclose(predict_dist(model, frame).mean(), model.predict(frame))
        with pytest.raises(NotFittedError):
            predict_dist(ngboost.NGBRegressor(), X)

    def test_several_targets(self, data):
        X, y = data
        model = self.fitted(data, lambda distns: distns.MultivariateNormal(2), np.column_stack([y, y[::-1]]))
        assert supports_dist(model)
        dist, own = predict_dist(model, X), model.pred_dist(X)
        assert isinstance(dist, NormalJoint)
        np.testing.assert_array_equal(dist.mean(), own.loc)
        np.testing.assert_allclose(dist.cov(), own.cov, rtol=1e-9)
        targets = np.column_stack([y, y])
        np.testing.assert_allclose(dist.logpdf(targets), own.logpdf(targets), rtol=1e-7)


class TestQuantileForest:
    @pytest.mark.parametrize("name", ["RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor"])
    @pytest.mark.parametrize("options", [{}, {"max_samples_leaf": None, "min_samples_leaf": 5}])
    def test_quantiles_are_the_forest_s_own(self, data, name, options):
        package = pytest.importorskip("quantile_forest")
        X, y = data
        model = getattr(package, name)(n_estimators=30, random_state=0, **options)
        assert supports_dist(model)
        model.fit(X, y)
        dist = predict_dist(model, X)
        assert isinstance(dist, Quantiles)
        np.testing.assert_allclose(dist.quantile(LEVELS), model.predict(X, quantiles=LEVELS), rtol=1e-12)
        mean = model.predict(X, quantiles="mean")
        np.testing.assert_allclose(dist.mean(), mean, atol=0.05 * y.std())

    def test_subclass_frame_and_pipeline(self, data):
        package = pytest.importorskip("quantile_forest")
        X, y = data

        class Mine(package.RandomForestQuantileRegressor):
            pass

        frame = pd.DataFrame(X, columns=list("abc"))
        scaler = StandardScaler().set_output(transform="pandas")
        model = make_pipeline(scaler, Mine(n_estimators=5, random_state=0)).fit(frame, y)
        expected = model[-1].predict(model[0].transform(frame), quantiles=[0.25, 0.75])
        np.testing.assert_allclose(predict_dist(model, frame).interval(0.5), expected)

    def test_unfitted_and_several_targets(self, data):
        package = pytest.importorskip("quantile_forest")
        X, y = data
        model = package.RandomForestQuantileRegressor(n_estimators=3, random_state=0)
        with pytest.raises(NotFittedError):
            predict_dist(model, X)
        with pytest.raises(ValueError, match="predicts 2 targets"):
            predict_dist(model.fit(X, np.column_stack([y, y])), X)


class TestSkpro:
    @pytest.fixture
    def frame(self, data):
        pytest.importorskip("skpro")
        X, y = data
        return pd.DataFrame(X, columns=list("abc"), index=np.arange(100, 160)), pd.DataFrame(
            {"y": y}, index=np.arange(100, 160)
        )

    def compare(self, model, X, kind, levels=LEVELS, **tolerance):
        dist = predict_dist(model, X)
        assert type(dist) is kind
        assert len(dist) == len(X)
        own = model.predict_proba(X)
        tolerance = tolerance or {"rtol": 1e-9}
        np.testing.assert_allclose(dist.quantile(levels), own.quantile(levels).to_numpy(), **tolerance)
        np.testing.assert_allclose(dist.mean(), own.mean().to_numpy()[:, 0], rtol=1e-6)
        return dist, own

    @pytest.mark.parametrize(
        ("family", "parameters", "expected"),
        [
            ("Normal", {}, Normal),
            ("TDistribution", {"df": 5}, StudentT),
            ("Laplace", {}, ScipyDistribution),
            ("Logistic", {}, ScipyDistribution),
        ],
    )
    def test_location_scale_families(self, frame, family, parameters, expected):
        from skpro import distributions
        from skpro.regression.residual import ResidualDouble

        X, y = frame
        names = {"TDistribution": ["mu", "sigma"], "Normal": ["mu", "sigma"]}.get(family, ["mu", "scale"])
        model = ResidualDouble(
            LinearRegression(),
            dist=getattr(distributions, family),
            distr_loc_scale_name=names,
            distr_params=parameters or None,
        )
        assert supports_dist(model)
        with pytest.raises(NotFittedError):
            predict_dist(model, X)
        dist, own = self.compare(model.fit(X, y), X, expected)
        density = own.log_pdf(y.set_axis(own.columns, axis=1)).to_numpy()[:, 0]
        np.testing.assert_allclose(dist.logpdf(y["y"].to_numpy()), density, rtol=1e-7)

    @pytest.mark.parametrize(
        ("family", "parameters"),
        [
            ("LogNormal", {"mu": [[0.2], [1.0], [2.0]], "sigma": 0.4}),
            ("Gamma", {"alpha": [[2.0], [3.0], [4.5]], "beta": 0.7}),
            ("Exponential", {"rate": [[0.5], [1.0], [4.0]]}),
            ("Weibull", {"scale": [[0.5], [1.0], [4.0]], "k": 1.7}),
            ("Normal", {"mu": 1.0, "sigma": [[0.5], [1.0], [4.0]]}),
            ("Delta", {"c": [[0.5], [1.0], [4.0]]}),
        ],
    )
    def test_every_family_that_is_translated_keeps_its_quantiles(self, data, family, parameters):
        distributions = pytest.importorskip("skpro.distributions")
        own = getattr(distributions, family)(**parameters, index=pd.RangeIndex(3), columns=["y"])
        dist = predict_dist(self.predicting(own), np.zeros((3, 1)))
        np.testing.assert_allclose(dist.quantile(LEVELS), own.quantile(LEVELS).to_numpy(), rtol=1e-9)

    @staticmethod
    def predicting(own):
        from skpro.regression.base import BaseProbaRegressor

        class Predicts(BaseProbaRegressor):
            is_fitted = True

            def predict_proba(self, X):
                return own

        return Predicts()

    def test_samples(self, frame):
        from skpro.regression.bootstrap import BootstrapRegressor

        X, y = frame
        model = BootstrapRegressor(LinearRegression(), n_bootstrap_samples=7, random_state=0).fit(X, y)
        dist, own = self.compare(model, X, Empirical, levels=[0.05, 0.33, 0.5, 0.95])
        assert dist.members.shape == (60, 7)
        np.testing.assert_allclose(
            dist.cdf(20.0), own.cdf(pd.DataFrame(20.0, X.index, own.columns)).to_numpy()[:, 0]
        )

    def test_repeated_index(self, frame):
        from skpro.regression.bootstrap import BootstrapRegressor

        X, y = frame
        model = BootstrapRegressor(LinearRegression(), n_bootstrap_samples=7, random_state=0).fit(X, y)
        expected = predict_dist(model, X.iloc[[5, 2, 5]])
        repeated = predict_dist(model, X.iloc[[5, 2, 5]].set_axis([1, 1, 1]))
        np.testing.assert_array_equal(repeated.members, expected.members)
        np.testing.assert_array_equal(expected.members, predict_dist(model, X).members[[5, 2, 5]])

    def test_weighted_samples(self, frame):
        from skpro.regression.nonparametric import NadarayaWatsonCDE

        X, y = frame
        model = NadarayaWatsonCDE().fit(X, y)
        dist, _ = self.compare(model, X.iloc[:5], Empirical, levels=[0.07, 0.51, 0.93])
        assert np.ptp(dist.weights) > 0

    def test_unequal_numbers_of_samples(self):
        distributions = pytest.importorskip("skpro.distributions")
        index = pd.MultiIndex.from_tuples([(0, "a"), (0, "b"), (1, "a"), (1, "b"), (2, "b")])
        own = distributions.Empirical(
            pd.DataFrame({"y": [1.0, 10.0, 2.0, 20.0, 60.0]}, index=index),
            index=pd.Index(["b", "a"]),
            columns=["y"],
        )
        dist = predict_dist(self.predicting(own), np.zeros((2, 1)))
        np.testing.assert_allclose(dist.mean(), [30.0, 1.5])
        np.testing.assert_allclose(dist.ppf(1.0), [60.0, 2.0])

    def test_mixture(self, frame):
        from skpro.regression.ensemble import BaggingRegressor
        from skpro.regression.residual import ResidualDouble

        X, y = frame
        model = BaggingRegressor(ResidualDouble(LinearRegression()), n_estimators=3, random_state=0).fit(X, y)
        dist = predict_dist(model, X)
        assert isinstance(dist, NormalMixture)
        own = model.predict_proba(X)
        np.testing.assert_allclose(dist.mean(), own.mean().to_numpy()[:, 0], rtol=1e-9)
        np.testing.assert_allclose(dist.var(), own.var().to_numpy()[:, 0], rtol=1e-9)
        at = y["y"].to_numpy()
        np.testing.assert_allclose(
            dist.cdf(at), own.cdf(y.set_axis(own.columns, axis=1)).to_numpy()[:, 0], rtol=1e-9
        )

    def test_mixture_of_families_with_weights(self):
        distributions = pytest.importorskip("skpro.distributions")
        place = {"index": pd.RangeIndex(2), "columns": ["y"]}
        parts = [
            distributions.Normal([[0.0], [1.0]], 1.0, **place),
            distributions.Laplace([[3.0], [5.0]], 1.0, **place),
        ]
        own = distributions.Mixture([("n", parts[0]), ("l", parts[1])], weights=[0.25, 0.75])
        dist = predict_dist(self.predicting(own), np.zeros((2, 1)))
        assert isinstance(dist, Mixture)
        at = np.array([0.5, 4.0])
        expected = sum(
            w * part.cdf(pd.DataFrame(at[:, np.newaxis], columns=["y"])).to_numpy()[:, 0]
            for w, part in zip([0.25, 0.75], parts, strict=True)
        )
        np.testing.assert_allclose(dist.cdf(at), expected, rtol=1e-9)

    def test_unknown_family_by_its_quantiles(self, frame):
        from skpro.regression.naive import NaiveProbaRegressor

        X, y = frame
        model = NaiveProbaRegressor().fit(X, y)
        assert isinstance(predict_dist(model, X), Quantiles)
        own = model.predict_proba(X).quantile(LEVELS).to_numpy()
        np.testing.assert_allclose(predict_dist(model, X).quantile(LEVELS), own, rtol=1e-9)

    def test_quantile_regression(self, frame):
        from skpro.regression.multiquantile import MultipleQuantileRegressor

        X, y = frame
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # skpro calls a deprecated method of pandas
            model = MultipleQuantileRegressor(
                QuantileRegressor(alpha=0.0), alpha=[0.1, 0.5, 0.9], sort_quantiles=True
            ).fit(X, y)
            dist = predict_dist(model, X)
            own = model.predict_proba(X).quantile([0.25, 0.75]).to_numpy()
        np.testing.assert_allclose(dist.quantile([0.25, 0.75]), own)

    def test_numpy_input(self, frame):
        from skpro.regression.residual import ResidualDouble

        X, y = frame[0].to_numpy(), frame[1]["y"].to_numpy()
        model = ResidualDouble(LinearRegression()).fit(X, y)
        dist = predict_dist(model, X)
        np.testing.assert_allclose(dist.mean(), LinearRegression().fit(X, y).predict(X))

    def test_several_targets(self):
        distributions = pytest.importorskip("skpro.distributions")
        own = distributions.Normal(np.zeros((3, 2)), 1.0)
        with pytest.raises(ValueError, match="predicts 2 targets"):
            predict_dist(self.predicting(own), np.zeros((3, 1)))


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

    def test_catboost_quantiles_in_any_order(self, data):
        X, y = data
        model = catboost("MultiQuantile:alpha=0.85,0.15,0.4", y, X)
        assert supports_dist(model)
        dist = predict_dist(model, X)
        assert isinstance(dist, Quantiles)
        own = np.sort(model.predict(X), axis=1)  # as `Quantiles` sorts what crosses
        np.testing.assert_allclose(dist.quantile([0.15, 0.4, 0.85]), own)

    def test_catboost_loaded_from_a_file(self, data, tmp_path):
        package = pytest.importorskip("catboost")
        X, y = data
        model = catboost("MultiQuantile:alpha=0.2,0.7", y, X)
        model.save_model(str(tmp_path / "model"))
        loaded = package.CatBoostRegressor().load_model(str(tmp_path / "model"))
        np.testing.assert_allclose(
            predict_dist(loaded, X).quantile([0.2, 0.7]), predict_dist(model, X).quantile([0.2, 0.7])
        )

    @pytest.mark.parametrize("levels", [[0.15, 0.6, 0.85], np.array([0.85, 0.15])])
    def test_xgboost_quantiles(self, data, levels, tmp_path):
        X, y = data
        model = xgboost(levels)
        assert supports_dist(model)
        with pytest.raises(NotFittedError):
            predict_dist(model, X)
        model.fit(X, y)
        dist = predict_dist(model, X)
        assert isinstance(dist, Quantiles)
        own = np.sort(model.predict(X), axis=1)
        np.testing.assert_allclose(dist.quantile(np.sort(levels)), own, rtol=1e-6)
        model.save_model(tmp_path / "model.json")
        loaded = type(model)()
        loaded.load_model(tmp_path / "model.json")
        np.testing.assert_array_equal(predict_dist(loaded, X).quantile([0.3]), dist.quantile([0.3]))

    def test_xgboost_levels_have_all_digits(self, data, tmp_path):
        X, y = data
        thirds = [1 / 3, 2 / 3]
        model = xgboost(thirds).fit(X, y)
        np.testing.assert_array_equal(predict_dist(model, X).levels, thirds)
        model.save_model(tmp_path / "model.json")
        loaded = type(model)()
        loaded.load_model(tmp_path / "model.json")
        np.testing.assert_allclose(predict_dist(loaded, X).levels, thirds, rtol=1e-7)

    def test_in_containers(self, data):
        X, y = data
        pipeline = make_pipeline(StandardScaler(), xgboost([0.1, 0.9]))
        search = GridSearchCV(pipeline, {"xgbregressor__max_depth": [2]}, cv=2, scoring=lambda *_: 0.0)
        assert supports_dist(search)
        assert predict_dist(search.fit(X, y), X).interval(0.8).shape == (60, 2)

    def test_one_quantile_is_no_distribution(self, data):
        X, y = data
        lightgbm = pytest.importorskip("lightgbm")
        models = [
            lightgbm.LGBMRegressor(objective="quantile", alpha=0.35, n_estimators=3, verbose=-1).fit(X, y),
            catboost("Quantile:alpha=0.35", y, X),
            xgboost(0.35).fit(X, y),
            xgboost([0.35]).fit(X, y),
            QuantileRegressor(quantile=0.35).fit(X, y),
            make_pipeline(HistGradientBoostingRegressor(loss="quantile", quantile=0.35, max_iter=2)).fit(
                X, y
            ),
        ]
        for model in models:
            assert not supports_dist(model)
            message = (
                r"predicts a single quantile at level 0\.35 .* skuq\.UncertaintyRegressor\(\w+\(\.\.\.\)\)"
            )
            with pytest.raises(NotProbabilisticError, match=message):
                predict_dist(model.fit(X, y), X)

    def test_other_losses_give_none(self, data):
        X, y = data
        for model in (catboost("RMSE", y, X), pytest.importorskip("xgboost").XGBRegressor(n_estimators=2)):
            assert not supports_dist(model)
            with pytest.raises(NotProbabilisticError, match="gives no predictive distribution"):
                predict_dist(model.fit(X, y), X)


def test_nothing_is_imported_that_the_user_has_not_imported():
    code = (
        "import sys; import skuq.prediction; packages = 'ngboost', 'quantile_forest', 'skpro', 'optuna', "
        "'catboost', 'xgboost', 'lightgbm'; "
        "print([name for name in packages if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
