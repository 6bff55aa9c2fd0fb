"""The modules that a call enters, in order: what a reader opens to follow it.

Modules are counted in the packages that do the work: the base model's prediction, the checks of arguments and
the arithmetic of distributions are leaves of every path. A path runs forward: a module left by a call
is entered again only by return, but for the callbacks that are named with their reason.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import GridSearchCV

import skuq
from skuq import UncertaintyRegressor, get_scorer, predict_dist
from skuq.conformal import ConformalRegressor
from skuq.evaluation import uncertainty_report
from skuq.recalibration import GPNormalRecalibrator
from skuq.regressors import LeastSquaresRegressor

PACKAGE = str(Path(skuq.__file__).parent)
X, Y = (part[:100] for part in load_diabetes(return_X_y=True))


@functools.cache
def module_in(file: str) -> str | None:
    """Return the module of skuq in a file, as metrics._ucc.curve, or None."""
    path = Path(file)
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts) if path.is_relative_to(PACKAGE) else None


def module_of(frame: FrameType) -> str | None:
    """Return the module of skuq that a frame belongs to, or None."""
    return module_in(frame.f_code.co_filename)


class CallPath:
    """Modules of some packages that a call enters, in order, and those that it enters again by a call.

    Parameters
    ----------
    *packages : str
        Those whose modules are counted.
    """

    def __init__(self, *packages: str) -> None:
        self.packages = packages
        self.entered: list[str] = []
        self.again: set[tuple[str, str]] = set()
        self._open: list[str] = []

    def of(self, call: Callable[[], Any]) -> CallPath:
        """Trace a call."""
        sys.setprofile(self._on_event)
        try:
            call()
        finally:
            sys.setprofile(None)
        return self

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        module = module_of(frame) if event in ("call", "return") else None
        if module is None or not module.startswith(self.packages):
            return
        if event == "return":
            self._open.pop()
            return
        if module not in self.entered:
            self.entered.append(module)
        if self._open and module != self._open[-1] and module in self._open:
            self.again.add((self._open[-1], module))
        self._open.append(module)


def test_a_search_by_ence():
    search = GridSearchCV(BayesianRidge(), {"alpha_1": [1e-6, 1e-3]}, scoring=get_scorer("neg_ence"), cv=3)
    path = CallPath("metrics").of(lambda: search.fit(X, Y))
    assert path.entered == [
        "metrics._scorer",
        "metrics._spec",
        "metrics._group_calibration",
        "metrics._inputs",
        "metrics._binning",
    ]
    # Columns of the means of bins are computed block by block while they are summed.
    assert path.again == {("metrics._binning", "metrics._group_calibration")}


def test_the_interval_of_conformalized_quantile_regression():
    model = ConformalRegressor(LeastSquaresRegressor(), "cqr", random_state=0).fit(X, Y)
    parts = "conformal", "_fitting.base_regressor", "_ranks"
    path = CallPath(*parts).of(lambda: model.predict_interval(X[:5]))
    assert path.entered == [
        "conformal._base_regressor",
        "_fitting.base_regressor",
        "conformal._split",
        "conformal._fold_models",
        "conformal._scores",
        "conformal._groups_and_shift",
        "conformal._adaptive",
        "conformal._adaptation",
        "conformal._calibration_set",
        "_ranks",
    ]
    assert path.again <= {("conformal._scores", "_fitting.base_regressor")}  # the base model is one of skuq


def test_the_report():
    dist = predict_dist(BayesianRidge().fit(X, Y), X)
    path = CallPath("evaluation").of(
        lambda: uncertainty_report(Y, dist, metrics=["crps", "ence"], random_state=0)
    )
    assert path.entered == [
        "evaluation._report.report",
        "evaluation._resampling",
        "evaluation._significance",
        "evaluation._report.records",
        "evaluation._report.wording",
    ]
    assert path.again == {("evaluation._resampling", "evaluation._report.report")}  # progress


@pytest.fixture(scope="module")
def displays():
    """Return skuq.displays; the time of its import is not that of a test."""
    pytest.importorskip("matplotlib.pyplot")
    return importlib.import_module("skuq.displays")


@pytest.fixture(scope="module")
def neural():
    """Return skuq.neural; the time of its imports, which a first fit ends, is not that of a test."""
    for package in ("torch", "skorch"):
        pytest.importorskip(package)
    module = importlib.import_module("skuq.neural")
    module.DeepEnsembleRegressor(n_estimators=2, max_epochs=1).fit(X, Y)
    return module


def test_the_display_of_the_characteristics_curve(displays):
    model = BayesianRidge().fit(X, Y)
    path = CallPath("displays", "metrics._ucc").of(
        lambda: displays.UncertaintyCharacteristicsDisplay.from_estimator(model, X, Y)
    )
    assert path.entered == [
        "displays._display",
        "displays._drawing",
        "displays._uncertainty_characteristics",
        "metrics._ucc.curve",
        "metrics._ucc.bands",
        "metrics._ucc.kernels",
        "metrics._ucc.area",
    ]
    # The class inherits from Display, whose methods call its own.
    assert path.again == {("displays._uncertainty_characteristics", "displays._display")}


def test_the_fit_of_a_gaussian_process_recalibrator():
    dist = predict_dist(BayesianRidge().fit(X, Y), X)
    path = CallPath("recalibration").of(lambda: GPNormalRecalibrator().fit(dist, Y))
    assert path.entered == [
        "recalibration._gp.base",
        "recalibration._base",
        "recalibration._scaling",
        "recalibration._residuals",
        "recalibration._gp_normal",
        "recalibration._gp.fit",
        "recalibration._gp.kernel",
        "recalibration._gp.engine",
        "recalibration._gp.search",
    ]
    assert path.again == set()


def callers() -> list[str]:
    """Return the modules of skuq in which the calls stand that lead to the caller, the first call first."""
    modules: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = module_of(frame)
        if module is not None and modules[-1:] != [module]:
            modules.append(module)
        frame = frame.f_back
    return modules[::-1]


def test_a_deep_ensemble_from_fit_to_the_first_update_and_back_to_a_distribution(neural, monkeypatch):
    torch, calibration = map(importlib.import_module, ("torch", "skuq.neural._predictive.calibration"))
    paths: list[list[str]] = []

    def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            paths.append(callers())
            return function(*args, **kwargs)

        return wrapper

    monkeypatch.setattr(torch.optim.Adam, "step", recorded(torch.optim.Adam.step))
    model = neural.DeepEnsembleRegressor(n_estimators=2, max_epochs=1, bootstrap=False, calibration="split")
    model.fit(X, Y)
    first_update = paths[0]
    assert first_update == [
        "_fitting.base_regressor",
        "neural._base",
        "neural._training.trainer",
        "neural._training.net",
    ]
    for family in ("Normal", "StudentT"):
        monkeypatch.setattr(calibration, family, recorded(getattr(calibration, family)))
    model.predict_dist(X[:3])
    assert paths[-1] == [
        "_fitting.base_regressor",
        "neural._regressor",
        "neural._predictive.ensemble",
        "neural._predictive.calibration",
    ]


def test_few_modules_are_entered():
    """A reader of a call may open every module of skuq that it enters."""
    fit = CallPath("").of(lambda: UncertaintyRegressor(Ridge(), random_state=0).fit(X, Y))
    assert len(fit.entered) <= 48
    dist = predict_dist(BayesianRidge().fit(X, Y), X)
    few = {"n_resamples": 20, "n_draws": 10}
    report = CallPath("").of(lambda: uncertainty_report(Y, dist, random_state=0, **few))
    # 15 of them are families of metrics, and 4 compute the parts of the CRPS.
    assert len(report.entered) <= 40


def test_few_modules_are_entered_until_the_first_update_of_an_ensemble(neural, monkeypatch):
    class Stop(Exception):
        pass

    def stop(*args: Any, **kwargs: Any) -> None:
        raise Stop

    monkeypatch.setattr("torch.optim.Adam.step", stop)

    def fit() -> None:
        with pytest.raises(Stop):
            neural.DeepEnsembleRegressor(n_estimators=2, max_epochs=1, random_state=0).fit(X, Y)

    assert len(CallPath("").of(fit).entered) <= 22
