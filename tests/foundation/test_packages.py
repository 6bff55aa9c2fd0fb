"""TabPFN and TabICL, whose real code runs with random weights: `make test-foundation`."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.conformal import ConformalRegressor
from skuq.distributions import Binned, Mixture, Quantiles
from skuq.metrics import crps_loss
from skuq.model_selection import cross_val_predict_dist
from skuq.prediction import predict_dist, supports_dist
from skuq.regressors import MixtureRegressor, RecalibratedRegressor, UncertaintyRegressor
from tests.foundation.weights import X, Y, installed, write_tabicl, write_tabpfn

torch, tabpfn, tabicl = installed("torch"), installed("tabpfn"), installed("tabicl")
PACKAGES = ["tabpfn", "tabicl"]
packages = pytest.mark.parametrize("package", PACKAGES)
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    return {
        "tabpfn": write_tabpfn(folder / "tabpfn.ckpt"),
        "tabicl": write_tabicl(folder / "tabicl.ckpt"),
    }


@pytest.fixture
def models(files):
    return {
        "tabpfn": tabpfn.TabPFNRegressor(model_path=files["tabpfn"], device="cpu", n_estimators=2),
        "tabicl": tabicl.TabICLRegressor(model_path=files["tabicl"], device="cpu", n_estimators=2),
    }


def test_bars_equal_the_functions_of_tabpfn(models):
    model = models["tabpfn"].fit(X, Y)
    dist, output = predict_dist(model, X), model.predict(X, output_type="full")
    assert isinstance(dist, Binned)
    assert dist.tails
    bars, logits = output["criterion"], output["logits"].double()
    y = np.random.default_rng(0).normal(5.0, 6.0, size=60)
    points = torch.tensor(y)[:, None]
    np.testing.assert_allclose(dist.cdf(y), bars.cdf(logits, points)[:, 0], rtol=1e-10, atol=1e-14)
    for level in (0.001, 0.3, 0.5, 0.9, 0.9999):
        np.testing.assert_allclose(dist.ppf(level), bars.icdf(logits, level), rtol=1e-7)
    np.testing.assert_allclose(dist.mean(), bars.mean(logits), rtol=1e-10)
    np.testing.assert_allclose(dist.var(), bars.variance(logits), rtol=1e-9)
    np.testing.assert_allclose(dist.logpdf(y), -bars(logits, torch.tensor(y)), rtol=1e-9)
    np.testing.assert_allclose(dist.mean(), model.predict(X), rtol=1e-6)


def test_targets_that_vary_little_or_not_at_all(models):
    far = predict_dist(models["tabpfn"].fit(X, 1e7 + 1e-2 * Y), X[:5])
    np.testing.assert_allclose(far.mean(), 1e7, rtol=1e-6)
    assert (far.std() < 1).all()
    constant = predict_dist(models["tabpfn"].fit(X, np.full(60, 3.0)), X[:5])
    np.testing.assert_allclose(constant.mean(), 3.0, rtol=1e-3)
    assert (constant.std() < 0.01).all()


def test_quantiles_equal_the_quantiles_of_tabicl(models):
    model = models["tabicl"].fit(X, Y)
    dist = predict_dist(model, X)
    assert isinstance(dist, Quantiles)
    levels = [0.005, 0.1, 0.5, 0.995]
    own = model.predict(X, output_type="quantiles", alphas=levels)
    np.testing.assert_allclose(dist.quantile(levels), own, rtol=1e-6)
    np.testing.assert_allclose(dist.mean(), model.predict(X), atol=0.01 * Y.std())
    np.testing.assert_allclose(dist.median(), model.predict(X, output_type="median"), atol=0.01 * Y.std())


CONTAINERS = {
    "pipeline": lambda model: make_pipeline(StandardScaler(), model),
    "search": lambda model: GridSearchCV(model, {"n_estimators": [1, 2]}, cv=2),
    "frozen": lambda model: FrozenEstimator(clone(model).fit(X, Y)),
    "target": lambda model: TransformedTargetRegressor(model, transformer=StandardScaler()),
    "log target": lambda model: TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp),
    "bagging": lambda model: BaggingRegressor(model, n_estimators=2, random_state=0),
    "voting": lambda model: VotingRegressor([("one", model), ("two", BayesianRidge())]),
}


@packages
@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_pass_the_distribution_on(models, package, container):
    model = CONTAINERS[container](models[package])
    assert supports_dist(model)
    dist = predict_dist(model.fit(X, Y), X[:5])
    assert np.isfinite(dist.crps(Y[:5])).all()
    assert np.abs(dist.median() - 5.0).max() < 3.0
    again = predict_dist(pickle.loads(pickle.dumps(model)), X[:5])
    np.testing.assert_allclose(again.mean(), dist.mean(), rtol=1e-5)


@packages
def test_one_model_per_target(models, package):
    multi = MultiOutputRegressor(models[package]).fit(X, np.stack([Y, -Y], axis=1))
    dist = predict_dist(multi.estimators_[1], X[:5])
    assert (dist.mean() < 0).all()


@packages
def test_unfitted_models_and_data_frames(models, package):
    with pytest.raises(NotFittedError):
        predict_dist(models[package], X)
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(X[:, 0] > 0, "p", "q"))
    dist = predict_dist(models[package].fit(frame, Y), frame[:5])
    assert np.isfinite(dist.mean()).all()


def test_fine_tuned_models(files):
    sizes = {"n_estimators_finetune": 1, "n_estimators_validation": 1, "epochs": 1, "device": "cpu"}
    tuning = installed("tabpfn.finetuning")
    one = tuning.FinetunedTabPFNRegressor(
        n_estimators_final_inference=1, extra_regressor_kwargs={"model_path": files["tabpfn"]}, **sizes
    )
    other = tabicl.FinetunedTabICLRegressor(n_estimators_inference=1, model_path=files["tabicl"], **sizes)
    for model, family in ((one, Binned), (other, Quantiles)):
        assert supports_dist(model)
        dist = predict_dist(model.fit(X, Y), X[:5])
        assert isinstance(dist, family)
        np.testing.assert_allclose(dist.mean(), model.predict(X[:5]), atol=0.02 * Y.std())


# ------------------------------------------------------------------- as a base and as a member of a pool


@pytest.fixture
def calls(monkeypatch):
    """Numbers of rows of all fits and predictions."""
    found = {"fit": [], "predict": []}
    for name, rows in found.items():
        for cls in (tabpfn.TabPFNRegressor, tabicl.TabICLRegressor):
            monkeypatch.setattr(cls, name, _counted(getattr(cls, name), rows))
    return found


def _counted(method, rows):
    def counting(self, X, *args, **options):
        rows.append(len(X))
        return method(self, X, *args, **options)

    return counting


@packages
@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: RecalibratedRegressor(model, cv=3),
        lambda model: UncertaintyRegressor(model, cv=3),
        lambda model: MixtureRegressor([("one", model)], cv=3),
    ],
)
def test_each_fold_needs_one_fit_and_one_prediction(models, package, calls, wrap):
    model = wrap(make_pipeline(StandardScaler(), models[package])).fit(X, Y)
    assert calls == {"fit": [40, 40, 40, 60], "predict": [20, 20, 20]}
    assert np.isfinite(model.predict_dist(X[:5]).crps(Y[:5])).all()


@packages
def test_other_meta_estimators(models, package):
    out_of_fold = cross_val_predict_dist(models[package], X, Y, cv=3)
    assert len(out_of_fold) == 60
    conformal = ConformalRegressor(models[package], random_state=0).fit(X, Y)
    assert conformal.predict_interval(X[:5]).shape == (5, 2)
    ensemble = RecalibratedRegressor(models[package], cv=3, ensemble=True).fit(X, Y)
    assert isinstance(ensemble.predict_dist(X[:5]), Mixture)
    search = GridSearchCV(
        RecalibratedRegressor(models[package], cv=2), {"estimator__n_estimators": [1, 2]}, cv=2
    )
    assert np.isfinite(search.fit(X, Y).predict(X[:5])).all()


@packages
def test_a_random_member_costs_a_pool_less_than_one_percent(models, package):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=400)
    losses = []
    for members in ([], [("random", models[package])]):
        pool = MixtureRegressor([("linear", BayesianRidge()), *members], random_state=0).fit(X[:200], y[:200])
        losses.append(crps_loss(y[200:], pool.predict_dist(X[200:])))
    assert losses[1] <= 1.01 * losses[0]


# --------------------------------------------------------------------------------------------- errors


def notes(model, X, y):
    with pytest.raises(Exception) as caught:  # noqa: PT011, the package chooses the class
        UncertaintyRegressor(model, cv=2).fit(X, y)
    return "\n".join(caught.value.__notes__)


def test_missing_weights_name_the_remedy(tmp_path, monkeypatch):
    missing = tmp_path / "missing.ckpt"
    found = notes(tabpfn.TabPFNRegressor(model_path=missing, device="cpu"), X, Y)
    assert "pass its path: TabPFNRegressor(model_path=...)" in found
    found = notes(tabicl.TabICLRegressor(model_path=missing, allow_auto_download=False), X, Y)
    assert "The weights of TabICLRegressor are neither in the cache nor available" in found
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    found = notes(tabicl.TabICLRegressor(checkpoint_version="none.ckpt"), X, Y)
    assert found.count("The weights of TabICLRegressor") == 1


def test_too_large_tables_name_the_remedy(models):
    tall, wide = np.zeros((2500, 2)), np.random.default_rng(0).normal(size=(60, 600))
    tall[:, 0] = np.arange(2500.0)
    assert "this fit has 1250 rows and 2 columns. Pass fewer rows" in notes(
        models["tabpfn"], tall, tall[:, 0]
    )
    assert "this fit has 30 rows and 600 columns" in notes(models["tabpfn"], wide, Y)
    model = UncertaintyRegressor(make_pipeline(SelectKBest(f_regression, k=2), models["tabpfn"]), cv=2)
    assert len(model.fit(wide, Y).predict_dist(wide[:5])) == 5
