"""Measure time and memory of estimators, recalibrators, metrics and displays with a million rows.

Run as `python benchmarks/million.py [part of a name]`. Each operation is run with a tenth of the rows and
with all rows. ``growth`` is the ratio of the two times: it is 10 if the time is proportional to the number of
rows, 12 with a sort, and 100 if the time is proportional to the square. Memory is the peak in addition to the
inputs. ``--rows 100000`` uses fewer rows. Operations that need torch are omitted if torch is not installed.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import matplotlib as mpl
import numpy as np
from measuring import arguments, peak_megabytes, seconds
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

import skuq.conformal
import skuq.displays
import skuq.multivariate
import skuq.recalibration
import skuq.survival
from skuq.conformal import ConformalClassifier, ConformalRegressor, CrossConformalRegressor
from skuq.distributions import Distribution, Empirical, Mixture, Normal, NormalMixture, Quantiles, StudentT
from skuq.distributions._beta_recalibrated import BetaRecalibrated
from skuq.evaluation import Tilt, bootstrap_interval, paired_permutation_test, shift_curve, uncertainty_report
from skuq.metrics import (
    adversarial_group_calibration_curve,
    class_reliability_table,
    conditional_coverage,
    conditional_set_coverage,
    regression_calibration_curve,
    reliability_table,
    uncertainty_characteristics_curve,
)
from skuq.metrics._spec import MetricSpec, all_specs
from skuq.monitoring import MetricAccumulator
from skuq.multivariate import ConformalRegionRegressor, MultiOutputUncertaintyRegressor, NormalJoint
from skuq.recalibration import EmpiricalRecalibrator, IsotonicRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    ForestDistributionRegressor,
    FunctionalRegressor,
    HurdleRegressor,
    LeastSquaresRegressor,
    MixtureRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from skuq.simulation import KnownProcess, simulate_coverage
from skuq.survival import CensoredBoostingRegressor, CensoringWeightedRegressor, ConformalSurvivalRegressor

N_FEATURES, N_FITTED = 5, 2000


@dataclass(frozen=True)
class Line:
    """Measured operation; ``make(n)`` prepares n rows and returns the function that is timed."""

    what: str
    make: Callable[[int], Callable[[], object]]


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features, and a target with noise that depends on the features."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, N_FEATURES))
    return X, X @ np.arange(1.0, N_FEATURES + 1) + np.exp(0.3 * X[:, 0]) * rng.standard_normal(n)


def forecast(n: int) -> tuple[np.ndarray, Normal]:
    """Return targets, and normal forecasts that are slightly too narrow."""
    rng = np.random.default_rng(1)
    loc, scale = rng.standard_normal(n), rng.uniform(0.5, 2, n)
    return loc + 1.2 * scale * rng.standard_normal(n), Normal(loc, scale)


def joint_forecast(n: int) -> tuple[np.ndarray, NormalJoint]:
    """Return two targets whose errors are correlated, and their joint normal forecasts."""
    rng = np.random.default_rng(2)
    loc, covariance = rng.standard_normal((n, 2)), np.array([[1.0, 0.6], [0.6, 1.0]])
    return loc + rng.multivariate_normal(np.zeros(2), covariance, n), NormalJoint(loc, covariance)


def regressor_lines() -> Iterator[Line]:
    boosted = HistGradientBoostingRegressor(max_iter=10, random_state=0)
    quantile = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, max_iter=5, random_state=0)
    models: dict[str, Any] = {
        "FunctionalRegressor(BayesianRidge)": FunctionalRegressor(BayesianRidge()),
        "LeastSquaresRegressor": LeastSquaresRegressor(),
        "UncertaintyRegressor(Ridge)": UncertaintyRegressor(Ridge(), random_state=0),
        "UncertaintyRegressor(boosting)": UncertaintyRegressor(boosted, random_state=0),
        "ResidualRegressor(Ridge)": ResidualRegressor(Ridge(), random_state=0),
        "ForestDistributionRegressor(50)": ForestDistributionRegressor(
            RandomForestRegressor(50, min_samples_leaf=50), random_state=0
        ),
        "MixtureRegressor(Ridge, BayesianRidge)": MixtureRegressor(
            [("ridge", UncertaintyRegressor(Ridge())), ("bayes", BayesianRidge())], random_state=0
        ),
        "BootstrapRegressor(Ridge, 20)": BootstrapRegressor(Ridge(), 20, random_state=0),
        "RecalibratedRegressor(BayesianRidge)": RecalibratedRegressor(BayesianRidge(), random_state=0),
        "MultiQuantileRegressor(boosting)": MultiQuantileRegressor(quantile, (0.1, 0.5, 0.9), random_state=0),
        "ConformalRegressor(split)": ConformalRegressor(Ridge(), random_state=0),
        "CrossConformalRegressor": CrossConformalRegressor(Ridge(), random_state=0),
        "HurdleRegressor": HurdleRegressor(
            LogisticRegression(), UncertaintyRegressor(Ridge()), random_state=0
        ),
        "MultiOutputUncertaintyRegressor": MultiOutputUncertaintyRegressor(Ridge(), random_state=0),
        "ConformalRegionRegressor": ConformalRegionRegressor(Ridge(), random_state=0),
        "CensoredBoostingRegressor": CensoredBoostingRegressor(n_estimators=5, cv=2, random_state=0),
        "CensoringWeightedRegressor": CensoringWeightedRegressor(LeastSquaresRegressor(), random_state=0),
    }
    targets: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "HurdleRegressor": lambda y: np.maximum(y, 0.0),
        "MultiOutputUncertaintyRegressor": lambda y: np.column_stack([y, y**2]),
        "ConformalRegionRegressor": lambda y: np.column_stack([y, y**2]),
        "CensoredBoostingRegressor": np.exp,
    }
    if find_spec("gpytorch"):
        sparse = skuq.regressors.SparseGaussianProcessRegressor(20, max_iter=5, random_state=0)
        models["SparseGaussianProcessRegressor(20)"] = sparse
    if find_spec("torch") and find_spec("skorch"):
        neural = importlib.import_module("skuq.neural")
        for name in neural.__all__:
            if name.endswith("Regressor"):
                settings = {"hidden_layer_sizes": (16,), "max_epochs": 1, "batch_size": 1024}
                models[f"{name}, one epoch"] = getattr(neural, name)(**settings, random_state=0)

    def make(n: int, name: str) -> Callable[[], object]:
        X, y = table(n)
        y = targets.get(name, np.asarray)(y)
        return lambda: models[name].fit(X, y).predict_interval(X)

    def make_bound(n: int) -> Callable[[], object]:
        X, y = table(n)
        time, end = np.exp(y), np.random.default_rng(0).exponential(20.0, n)
        boosting = CensoredBoostingRegressor(n_estimators=5, cv=2, random_state=0)
        model = ConformalSurvivalRegressor(boosting, random_state=0)
        known = {"event": time <= end, "censoring_time": end}
        return lambda: model.fit(X, np.minimum(time, end), **known).predict(X)

    yield from (Line(f"{name}: fit, interval", partial(make, name=name)) for name in models)
    yield Line("ConformalSurvivalRegressor: fit, lower bound", make_bound)


def classes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of ten classes and their true probabilities."""
    rng = np.random.default_rng(2)
    proba = rng.dirichlet(np.full(10, 0.3), size=n)
    return np.minimum((rng.random((n, 1)) > proba.cumsum(axis=1)).sum(axis=1), 9), proba


def classifier_lines() -> Iterator[Line]:
    def make(n: int, model: Any, method: str = "predict_proba") -> Callable[[], object]:
        y, proba = classes(n)
        return lambda: getattr(model.fit(proba, y), method)(proba)

    for name, options in {"split": {}, "CV+": {"cv": 5}}.items():
        model = ConformalClassifier(GaussianNB(), random_state=0, **options)
        yield Line(f"ConformalClassifier({name}): fit, set", partial(make, model=model, method="predict_set"))
    if not (find_spec("torch") and find_spec("skorch")):
        return
    neural = importlib.import_module("skuq.neural")
    settings = {"hidden_layer_sizes": (16,), "max_epochs": 1, "batch_size": 1024}
    for name in (name for name in neural.__all__ if name.endswith("Classifier")):
        model = getattr(neural, name)(**settings, random_state=0)
        yield Line(f"{name}, one epoch: fit, probabilities", partial(make, model=model))


def recalibrator_lines() -> Iterator[Line]:
    def make(n: int, name: str) -> Callable[[], object]:
        y, dist = forecast(n)
        options = {"miss_rate": 0.1} if name == "OperatingPointRecalibrator" else {}
        recalibrator = (vars(skuq.recalibration) | vars(skuq.conformal))[name](**options)
        return lambda: recalibrator.fit(dist, y).transform(dist).interval()

    for name in [*skuq.recalibration.__all__, "ConformalRecalibrator"]:
        if name != "BaseRecalibrator":
            yield Line(f"{name}: fit, interval", partial(make, name=name))


def families(n: int) -> dict[str, Distribution]:
    """Return forecasts of many families, n rows each."""
    _, dist = forecast(n)
    y_few, few = forecast(N_FITTED)
    student = StudentT(dist.loc, dist.scale, 5.0)
    few_student = StudentT(few.loc, few.scale, 5.0)
    levels = np.linspace(0.05, 0.95, 11)
    members = dist.sample(20, 0)
    return {
        "Normal": dist,
        "StudentT": student,
        "NormalMixture of 2": NormalMixture(members[:, :2], np.column_stack([dist.scale, dist.scale])),
        "Mixture of Normal and StudentT": Mixture([dist, student]),
        "Quantiles, 11 levels": Quantiles(levels, dist.quantile(levels)),
        "Empirical, 20 members": Empirical(members),
        "isotonic of Normal": IsotonicRecalibrator().fit(few, y_few).transform(dist),
        "isotonic of StudentT": IsotonicRecalibrator().fit(few_student, y_few).transform(student),
        "EmpiricalRecalibrator": EmpiricalRecalibrator().fit(few, y_few).transform(dist),
        "BetaRecalibrated": BetaRecalibrated(dist, a=1.2, b=0.9, c=0.1),
    }


def distribution_lines() -> Iterator[Line]:
    for name in families(10):
        make = partial(lambda n, name: partial(families(n)[name].crps, forecast(n)[0]), name=name)
        yield Line(f"CRPS of {name}", make)


def metric_lines() -> Iterator[Line]:
    def make(n: int, spec: MetricSpec) -> Callable[[], object]:
        if spec.of_classes:
            return partial(spec.function, *classes(n))
        if spec.of_targets:
            return partial(spec.function, *joint_forecast(n))
        features = (table(n)[0],) if spec.needs_X else ()
        return partial(spec.function, *forecast(n), *features)

    for spec in all_specs(rooms=True).values():
        if spec.ready_made:
            yield Line(f"metric {spec.abbreviation}", partial(make, spec=spec))
    for rows, functions in (
        (classes, (conditional_set_coverage, class_reliability_table)),
        (
            forecast,
            (
                regression_calibration_curve,
                reliability_table,
                conditional_coverage,
                uncertainty_characteristics_curve,
                adversarial_group_calibration_curve,
            ),
        ),
    ):
        for function in functions:
            make_table = partial(lambda n, rows, function: partial(function, *rows(n)), rows=rows)
            yield Line(function.__name__, partial(make_table, function=function))


def resampling_lines() -> Iterator[Line]:
    few = {"n_resamples": 20, "n_draws": 10}

    def interval(y: np.ndarray, dist: Normal) -> object:
        return bootstrap_interval(y, dist, "crps", random_state=0)

    def test(y: np.ndarray, dist: Normal) -> object:
        other = Normal(dist.loc, 1.1 * dist.scale)
        return paired_permutation_test(y, dist, other, "crps", n_resamples=100, random_state=0)

    def report(y: np.ndarray, dist: Normal) -> object:
        return uncertainty_report(y, dist, **few, random_state=0)

    def page(y: np.ndarray, dist: Normal) -> object:
        return skuq.report.HTMLReport.from_predictions(y, dist, **few).html

    for what, function in {
        "bootstrap_interval of CRPS": interval,
        "paired_permutation_test of CRPS, 100": test,
        "uncertainty_report, 20 + 10": report,
        "HTMLReport, 20 + 10": page,
    }.items():
        yield Line(what, partial(lambda n, function: partial(function, *forecast(n)), function=function))


NO_ROWS = {"MetricAgreementDisplay"}
"""Displays of a table of metrics, whose size does not depend on the number of rows."""


def drawn(name: str, n: int) -> Any:
    """Return a display of n rows."""
    of_class = (vars(skuq.displays) | vars(skuq.survival) | vars(skuq.multivariate))[name]
    if name in ("PredictionSetDisplay", "ClassReliabilityDisplay"):
        return of_class.from_predictions(*classes(n))
    if name == "RootogramDisplay":
        y, dist = forecast(n)
        return of_class.from_predictions(np.round(np.abs(y)), dist.clip(0.0, integer=True))
    if name in ("JointPairDisplay", "JointRankHistogramDisplay"):
        return of_class.from_predictions(*joint_forecast(n))
    if name == "CalibrationDriftDisplay":
        y, dist = forecast(n)
        months = np.array_split(np.arange(n), 12)
        return of_class.from_periods(
            {k: MetricAccumulator().update(y[rows], dist[rows]) for k, rows in enumerate(months)}
        )
    if name == "ShiftCurveDisplay":
        X, y = table(n)
        severities = [0.0, 1.0]
        scores = shift_curve(
            BayesianRidge(), X, y, shift=Tilt(0), severities=severities, scoring="picp", cv=2
        )
        return of_class.from_scores(scores, severities)
    if name == "PointwiseCoverageDisplay":
        process = KnownProcess(
            lambda X: Normal(X[:, 0], 1.0),
            lambda size, rng: rng.standard_normal((size, 1)),
            n_train=100,
            n_test=n,
            random_state=0,
        )
        estimator = ConformalRegressor(LinearRegression())
        return of_class.from_result(simulate_coverage(estimator, process, n_simulations=3, random_state=0))
    if name == "ScoreDecompositionDisplay":
        y, dist = forecast(n)
        return of_class.from_predictions(y, {"model": dist}, n_draws=0)
    if name == "RelativeEconomicValueDisplay":
        return of_class.from_predictions(*forecast(n), threshold=0.5)
    if name == "QuantileReliabilityDisplay":
        return of_class.from_predictions(*forecast(n), n_draws=10)
    return of_class.from_predictions(*forecast(n))


def display_lines() -> Iterator[Line]:
    def draw(name: str, n: int) -> None:
        display = drawn(name, n)
        display.figure_.canvas.draw()
        mpl.pyplot.close(display.figure_)

    for name in [*skuq.displays.__all__, *skuq.survival.__all__, *skuq.multivariate.__all__]:
        if name not in NO_ROWS and name.endswith("Display"):
            make = partial(lambda n, name: partial(draw, name, n), name=name)
            yield Line(f"{name}, with drawing", make)


GROUPS = (
    distribution_lines,
    metric_lines,
    recalibrator_lines,
    display_lines,
    resampling_lines,
    regressor_lines,
    classifier_lines,
)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "part", nargs="?", default="", help="run only operations whose name contains this text"
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    chosen = parser.parse_args()
    mpl.use("Agg")
    importlib.import_module("matplotlib.pyplot")
    warnings.simplefilter("ignore")
    print(f"{'at ' + format(chosen.rows, ',') + ' rows':50s}{'seconds':>9s}{'growth':>8s}{'MB':>8s}")
    for line in (line for group in GROUPS for line in group()):
        if chosen.part.lower() in line.what.lower():
            few, all_rows = line.make(chosen.rows // 10), line.make(chosen.rows)
            few()  # imports and caches
            tenth, whole = seconds(few), seconds(all_rows)
            print(
                f"{line.what:50s}{whole:9.2f}{whole / tenth:8.1f}{peak_megabytes(all_rows)[1]:8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
