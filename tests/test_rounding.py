"""A result does not jump if an input moves by one unit in the last place.

Predictions differ by some units in the last place between processors, numbers of threads and versions
of libraries. Here, targets and forecasts are multiplied by 1 + k eps, with k drawn from -2 to 2 for each
row, and no result may change by more than 1e-6 of its scale. The data have ties, because results can jump
where equal values become distinct.

Counts at an exact threshold must jump, so no target equals a location, an atom, a bound or a threshold.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator

from skuq import conformal, evaluation, metrics, recalibration
from skuq._numeric import distinct
from skuq.conformal import ConformalRegressor, CrossConformalRegressor
from skuq.distributions import (
    Binned,
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    Quantiles,
    SharedEmpirical,
    StudentT,
    Truncated,
    as_distribution,
)
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.distributions._step_table import SharedSteps, StepTable
from skuq.metrics._spec import all_specs
from skuq.multivariate import EmpiricalJoint, NormalJoint
from skuq.regressors import (
    BootstrapRegressor,
    MixtureRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)

pytestmark = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")

N = 120
LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
SHAPE = np.array([-1.3, -0.4, 0.1, 0.5, 1.6])
TOLERANCE = 1e-6


def moved(values, seed):
    """Return the values with each row multiplied by 1 + k eps."""
    values = np.asarray(values, dtype=float)
    k = np.random.default_rng(seed).integers(-2, 3, size=(len(values),) + (1,) * (values.ndim - 1))
    return values * (1 + k * np.finfo(float).eps)


class Rows:
    """Targets and forecasts with ties, as they are or moved."""

    def __init__(self, move=lambda values, seed: values):
        rng = np.random.default_rng(3)
        loc, scale = rng.integers(0, 5, size=N) / 3.0, rng.choice([0.3, 0.5, 0.7], size=N)
        self.X = np.column_stack([loc, scale, rng.integers(0, 3, size=N)])
        self.y = move(np.round(loc + scale * rng.normal(size=N), 1) + 0.0317, 1)
        self.loc, self.scale = move(loc, 2), move(scale, 3)
        self.values = move(loc[:, np.newaxis] + scale[:, np.newaxis] * SHAPE, 4)
        self.log_weights = move(np.outer(scale, [1.0, 2.0, 0.5]), 6)
        self.labels = rng.integers(0, 3, size=N)
        self.proba = move(rng.multinomial(7, [0.5, 0.3, 0.2], size=N) / 7, 5)
        self.proba /= self.proba.sum(axis=1, keepdims=True)

    def forecasts(self):
        """Return one distribution of each kind of family, and of each family with atoms."""
        normal = Normal(self.loc, self.scale)
        empirical = Empirical(self.values)
        steps = StepTable.from_cdfs(np.array([-1.0, 0.2, 1.5]), [[0.3, 0.9, 1.0], [0.2, 0.5, 1.0]])
        return {
            "Normal": normal,
            "StudentT": StudentT(self.loc, self.scale, 4.0),
            "Quantiles": Quantiles(LEVELS, self.values),
            "Quantiles with atoms": Quantiles(LEVELS, np.minimum(self.values, self.loc[:, np.newaxis])),
            "Mixture": Mixture([normal, empirical]),
            "Recalibrated": Recalibrated(normal, LevelMap([0.1, 0.35, 0.8], [0.04, 0.3, 0.85])),
            "Recalibrated Empirical": Recalibrated(empirical, LevelMap([0.1, 0.35, 0.8], [0.04, 0.3, 0.85])),
            "Binned": Binned([-1.0, 0.0, 1.0, 2.0], self.log_weights),
            "gamma": as_distribution(stats.gamma(2.0, loc=self.loc - 1, scale=self.scale)),
            "Truncated": Truncated(normal, -2.0, 3.0),
            "Empirical": empirical,
            "SharedEmpirical": SharedEmpirical(self.loc, self.scale, SHAPE),
            "SharedSteps": SharedSteps(steps, np.minimum(self.loc, 1.0)),
            "poisson": as_distribution(stats.poisson(self.scale)),
            "Hurdle": Hurdle(self.scale / 2, normal),
            "Supported": normal.clip(lower=-0.5, upper=1.7),
            "Supported integers": normal.clip(lower=-3, integer=True),
            "point masses": Normal(self.loc, np.where(self.X[:, 1] < 0.4, 0.0, self.scale)),
        }


BEFORE, AFTER = Rows(), Rows(moved)


def numbers(result):
    """Return the numbers of a result as one array."""
    if isinstance(result, pd.DataFrame):
        result = result.select_dtypes("number")
    if hasattr(result, "to_frame"):
        result = result.to_frame().select_dtypes("number")
    return np.asarray(result, dtype=float)


def assert_no_jump(compute, before=BEFORE, after=AFTER):
    for one, two in zip(compute(before), compute(after), strict=True):
        np.testing.assert_allclose(numbers(two), numbers(one), rtol=TOLERANCE, atol=TOLERANCE)


def features(dist, y):
    """Return what a distribution is asked for, at points that are no atoms."""
    yield from (dist.mean(), dist.std(), dist.quantile([0.06, 0.52, 0.93]), dist.interval(0.8))
    yield from (dist.cdf(y), dist.crps(y))


@pytest.mark.parametrize("family", list(BEFORE.forecasts()))
def test_distributions(family):
    assert_no_jump(lambda rows: features(rows.forecasts()[family], rows.y))


def options_of(spec, rows):
    options = {"random_state": 0} if spec.random else {}
    if spec.needs_X:
        options["X"] = rows.X
    if "weighting" in spec.any_of:
        options["weighting"] = "tails"
    elif spec.any_of:
        options["lower"] = -0.2
    elif spec.one_of:
        options["y_train"] = rows.y
    return options


@pytest.mark.parametrize("name", [name for name, spec in all_specs().items() if not spec.of_targets])
def test_metrics(name, subtests):
    spec = all_specs()[name]
    if spec.of_classes:
        for rows in (BEFORE, AFTER):
            rows.given = rows.proba >= 0.19 if spec.needs == "set" else rows.proba
        assert_no_jump(lambda rows: [spec.function(rows.labels, rows.given)])
        return
    families = ["Normal", "Empirical", "Supported"] if spec.needs_X else list(BEFORE.forecasts())
    for family in families:
        dist = BEFORE.forecasts()[family]
        if spec.needs == "density" and not dist.has_density:
            continue

        def compute(rows, family=family):
            return [spec.function(rows.y, rows.forecasts()[family], **options_of(spec, rows))]

        with subtests.test(msg=family):
            assert_no_jump(compute)


@pytest.mark.parametrize("name", [name for name, spec in all_specs().items() if spec.of_targets])
def test_metrics_of_several_targets(name, subtests):
    spec = all_specs()[name]

    def normal(rows):
        covariance = np.array([[1.0, 0.6], [0.6, 1.0]]) * np.square(rows.scale)[:, np.newaxis, np.newaxis]
        return NormalJoint(rows.values[:, [0, 2]], covariance)

    def empirical(rows):
        return EmpiricalJoint(np.stack([rows.values, rows.values[:, ::-1]], axis=2))

    for joint in (normal, empirical):

        def compute(rows, joint=joint):
            y = np.column_stack([rows.y, rows.y[::-1]])
            options = {"w": [0.4, 0.6]} if name == "linear_crps" else options_of(spec, rows)
            return [spec.function(y, joint(rows), **options)]

        with subtests.test(msg=joint.__name__):
            assert_no_jump(compute)


TABLES = {
    "calibration curve": lambda y, dist: metrics.regression_calibration_curve(y, dist).observed,
    "reliability table": metrics.reliability_table,
    "Murphy curve": lambda y, dist: metrics.murphy_curve(y, dist).scores,
    "characteristics": lambda y, dist: metrics.uncertainty_characteristics_curve(y, dist).bandwidth,
    "score decomposition": lambda y, dist: evaluation.score_decomposition(y, dist, n_draws=0).parts,
    "quantile reliability": lambda y, dist: evaluation.quantile_reliability_curve(y, dist, band=None),
    "probability reliability": lambda y, dist: evaluation.probability_reliability_curve(
        y, dist, threshold=0.5, band=None
    ),
    "report": lambda y, dist: evaluation.uncertainty_report(
        y, dist, n_resamples=0, n_draws=0, random_state=0
    ),
    "expected loss": lambda y, dist: evaluation.expected_loss(dist, "absolute"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_and_curves(name):
    assert_no_jump(lambda rows: [TABLES[name](rows.y, rows.forecasts()["Normal"])])


RECALIBRATORS = [name for name in recalibration.__all__ if name != "BaseRecalibrator"] + [
    "ConformalRecalibrator"
]
DEAR = ["GPBetaRecalibrator", "GPCauchyRecalibrator", "GPNormalRecalibrator", "ShrunkIsotonicRecalibrator"]
OPTIONS = {"OperatingPointRecalibrator": {"miss_rate": 0.1}, "SupportMap": {"support": (-9.0, 9.0)}}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.laws if name in DEAR else ()) for name in RECALIBRATORS],
)
def test_recalibrators(name, subtests):
    for family in ("Normal", "Quantiles", "Empirical", "Mixture"):

        def compute(rows, family=family):
            dist = rows.forecasts()[family]
            recalibrator = (vars(recalibration) | vars(conformal))[name](**OPTIONS.get(name, {}))
            found = recalibrator.fit(dist, rows.y).transform(dist)
            new = (
                rows.y + 0.0123
            )  # atoms and bounds of some recalibrators are targets of the calibration rows
            if name == "GPCauchyRecalibrator":  # a Cauchy distribution has no moments
                return [found.quantile(LEVELS), found.cdf(new)]
            return features(found, new)

        with subtests.test(msg=family):
            assert_no_jump(compute)


class Stored(RegressorMixin, BaseEstimator):
    """A model that returns stored predictions, as they are or moved."""

    def __init__(self, rows=None, quantile=None):
        self.rows, self.quantile = rows, quantile

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        row = X[:, 0].astype(int)
        if self.quantile is None:
            return self.rows.loc[row]
        return self.rows.loc[row] + self.rows.scale[row] * stats.norm.ppf(self.quantile)


class StoredDistribution(Stored):
    def predict_dist(self, X):
        row = X[:, 0].astype(int)
        return Normal(self.rows.loc[row], self.rows.scale[row])


REGRESSORS = {
    "residual": lambda rows: ResidualRegressor(Stored(rows), random_state=0),
    "front door": lambda rows: UncertaintyRegressor(Stored(rows), random_state=0),
    "bootstrap": lambda rows: BootstrapRegressor(Stored(rows), random_state=0),
    "conformal": lambda rows: ConformalRegressor(Stored(rows), random_state=0),
    "conformal, normalized": lambda rows: ConformalRegressor(
        FrozenEstimator(StoredDistribution(rows).fit(rows.X, rows.y)), method="normalized"
    ),
    "cross-conformal": lambda rows: CrossConformalRegressor(Stored(rows), random_state=0),
    "jackknife+-after-bootstrap": lambda rows: CrossConformalRegressor(
        Stored(rows), method="jackknife+ab", random_state=0
    ),
    "recalibrated": lambda rows: RecalibratedRegressor(StoredDistribution(rows), random_state=0),
    "quantiles": lambda rows: MultiQuantileRegressor(Stored(rows, 0.5), [0.1, 0.5, 0.9]),
    "mixture": lambda rows: MixtureRegressor(
        [("a", StoredDistribution(rows)), ("b", StoredDistribution(rows))], random_state=0
    ),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name):
    """Only the predictions of the model and the targets are moved: trees and networks jump by themselves."""
    X = np.column_stack([np.arange(N), BEFORE.X])

    def compute(rows):
        model = REGRESSORS[name](rows).fit(X, rows.y)
        yield model.predict(X)
        yield model.predict_interval(X, 0.8)
        yield model.predict_dist(X).quantile(LEVELS)

    assert_no_jump(compute)


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e6])
def test_values_that_are_equal_up_to_rounding_are_one_value(unit):
    values = unit * np.random.default_rng(0).normal(size=50)
    repeated = np.concatenate([moved(values, seed) for seed in range(4)] + [unit * np.array([0.0, 4.4e-16])])
    order = np.random.default_rng(1).permutation(len(repeated))
    points, place = distinct(repeated[order])
    assert len(points) == 51
    np.testing.assert_allclose(points[place], repeated[order], rtol=1e-14, atol=1e-15 * unit)
    again, _ = distinct(repeated)
    np.testing.assert_array_equal(points, again)


@pytest.mark.parametrize("values", [np.linspace(1.0, 2.0, 10**6), np.random.default_rng(0).random(10**6)])
def test_a_million_distinct_values_remain_distinct(values):
    assert len(distinct(values)[0]) == 10**6


def test_infinite_values_are_equal():
    points, place = distinct(np.array([np.inf, 1.0, -np.inf, np.inf, 1.0]))
    np.testing.assert_array_equal(points, [-np.inf, 1.0, np.inf])
    np.testing.assert_array_equal(place, [2, 1, 0, 2, 1])


def test_one_large_value_does_not_make_the_others_equal():
    values = np.append(np.arange(40) % 5 / 4, 1e14)
    points, _ = distinct(values)
    np.testing.assert_array_equal(points, [0.0, 0.25, 0.5, 0.75, 1.0, 1e14])
