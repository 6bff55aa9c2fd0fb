"""Coverage on data whose truth is known: the purpose of an out-of-sample `fit_transform`."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import BootstrapRegressor, RecalibratedRegressor, UncertaintyRegressor
from tests.regressors.worlds import heteroscedastic_world, noisy_line

pytestmark = pytest.mark.laws

SEEDS = range(20)
TREE = DecisionTreeRegressor(random_state=0)
BAGGED = BaggingRegressor(DecisionTreeRegressor(), n_estimators=25)
MANY_BAGS = BaggingRegressor(DecisionTreeRegressor(), n_estimators=50)  # enough out-of-bag members per row
TEN_BAGS = BaggingRegressor(DecisionTreeRegressor(), n_estimators=10)
ISOTONIC, SCALING = IsotonicRecalibrator(), StdScalingRecalibrator()


def mean_coverages(make, recalibrators=(None,), world=heteroscedastic_world, n=300, **params):
    """Return the mean coverage of 90 % intervals for each recalibrator of out-of-sample distributions."""
    covered = []
    for seed in SEEDS:
        (X, y), (X_new, y_new) = world(n, seed), world(1000, 1000 + seed)
        model = make(seed)
        fit = model.fit if recalibrators == (None,) else model.fit_transform
        out_of_sample = fit(X, y, **params)
        for recalibrator in recalibrators:
            dist = model.predict_dist(X_new)
            if recalibrator is not None:
                dist = clone(recalibrator).fit(out_of_sample, y).transform(dist)
            lower, upper = dist.interval(0.9).T
            covered.append(np.mean((lower <= y_new) & (y_new <= upper)))
    return np.reshape(covered, (len(SEEDS), -1)).mean(axis=0)


def sorted_world(n, seed):
    """Rows in the order of the first column, as files often are."""
    X, y = heteroscedastic_world(n, seed)
    order = np.argsort(X[:, 0])
    return X[order], y[order]


CASES = {
    # Shapes differ between rows, so one factor for all standard deviations would not be enough.
    "residual": (
        UncertaintyRegressor(TREE, "residual"),
        {"recalibrators": (None, ISOTONIC), "world": noisy_line},
    ),
    "bootstrap": (
        UncertaintyRegressor(TREE, "bootstrap"),
        {"recalibrators": (ISOTONIC, SCALING, None), "world": noisy_line},
    ),
    "noise that varies, unseen by both models": (
        BootstrapRegressor(TREE, 15, noise="heteroscedastic"),
        {"recalibrators": (ISOTONIC, SCALING), "world": noisy_line, "n": 400},
    ),
    "bags": (BootstrapRegressor(BAGGED), {"recalibrators": (ISOTONIC, SCALING)}),
    "members": (BootstrapRegressor(MANY_BAGS, noise=None), {"recalibrators": (SCALING,)}),
    "residual around bags": (
        UncertaintyRegressor(TEN_BAGS, "residual", cv=3),
        {"recalibrators": (ISOTONIC,)},
    ),
    "few members": (BootstrapRegressor(TEN_BAGS), {"recalibrators": (None,)}),
    "few members, recalibrated": (BootstrapRegressor(TEN_BAGS), {"recalibrators": (SCALING,)}),
    "own trees": (BootstrapRegressor(DecisionTreeRegressor(), 25), {"recalibrators": (SCALING,)}),
    "sorted rows": (
        UncertaintyRegressor(DecisionTreeRegressor(min_samples_leaf=10), cv=5),
        {"recalibrators": (SCALING,), "world": sorted_world},
    ),
}


TOO_WIDE = pytest.mark.xfail(
    strict=True,
    reason="The spread of three or four out-of-bag members varies more between rows than the spread of ten. "
    "Recalibrators cannot know this: their intervals cover 92.4 % of new rows.",
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=TOO_WIDE if name == "few members, recalibrated" else ()) for name in CASES],
)
def test_models_that_follow_every_row_do_not_flatter_themselves(name):
    model, options = CASES[name]
    found = mean_coverages(lambda seed: clone(model).set_params(random_state=seed), **options)
    highest = np.where([name == "bootstrap" and one is None for one in options["recalibrators"]], 0.94, 0.92)
    assert ((found > 0.88) & (found < highest)).all()


def test_in_sample_calibration_would_not():
    class InSample(BootstrapRegressor):
        def fit_transform(self, X, y):
            return self.fit(X, y).predict_dist(X)

    (found,) = mean_coverages(lambda seed: InSample(BAGGED, noise=None, random_state=seed), (SCALING,))
    assert found < 0.75


def test_a_supervised_selector_inside_keeps_the_coverage_that_one_outside_loses():
    def world(n, seed):
        """300 columns of which none matters: a selector fitted on a row fits its noise."""
        rng = np.random.default_rng(seed)
        return rng.normal(size=(n, 300)), rng.normal(size=n)

    selector = SelectKBest(f_regression, k=10)

    def outside_world(n, seed):
        X, y = world(n, seed)
        return clone(selector).fit(*world(150, seed % 1000)).transform(X), y  # by the training rows

    (inside,), (outside,) = (
        mean_coverages(
            lambda seed, child=child: UncertaintyRegressor(child, cv=5, random_state=seed),
            (SCALING,),
            draw,
            n=150,
        )
        for child, draw in (
            (make_pipeline(selector, LinearRegression()), world),
            (LinearRegression(), outside_world),
        )
    )
    assert inside == pytest.approx(0.9, abs=0.02)
    assert outside < inside - 0.03


def test_group_k_fold_keeps_the_coverage_that_random_folds_lose():
    def world(n, seed):
        """A mean of its own for each group of 5 rows; new rows belong to new groups."""
        rng = np.random.default_rng(seed)
        means = rng.normal(size=n // 5)
        places = rng.uniform(size=(n // 5, 2))
        group = np.repeat(np.arange(n // 5), 5)
        return places[group] + 1e-3 * rng.normal(size=(n, 2)), means[group] + 0.2 * rng.normal(size=n)

    def wrap(cv):
        return lambda seed: RecalibratedRegressor(
            BootstrapRegressor(DecisionTreeRegressor(), 12, random_state=seed), cv=cv, random_state=seed
        )

    groups = np.repeat(np.arange(60), 5)
    (grouped,) = mean_coverages(wrap(GroupKFold(5)), world=world, groups=groups)
    assert grouped == pytest.approx(0.9, abs=0.02)
    (random,) = mean_coverages(wrap(5), world=world)
    assert random < 0.7
