"""The guarantees of conformal sets, by simulation on rows that the classifier predicts badly.

The share of new rows that one calibration set covers is random: of n_test new rows it covers
BetaBinomial(n_test, k, n + 1 - k) many, k = ceil((n + 1) coverage), whatever the classifier.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from skuq.conformal import ConformalClassifier
from tests.conformal.class_worlds import CLASSES, GivenProba, contains, miscalibrated_rows
from tests.laws import hits_as_uniform

N_TEST, N_SETS = 100, 150
SCORES = {
    "lac": {"method": "lac"},
    "aps": {"method": "aps", "randomized": True},
    "raps": {"method": "aps", "randomized": True, "penalty": 0.05, "k_reg": 1},
}


def p_value(counts, coverage, n_cal):
    """Kolmogorov-Smirnov test of the counts, made continuous at random, against their exact law."""
    k = int(np.ceil((n_cal + 1) * coverage - 1e-9))
    uniform = hits_as_uniform(np.asarray(counts), N_TEST, k, n_cal, np.random.default_rng(1))
    return stats.kstest(uniform, "uniform").pvalue


def covered(coverage, n_cal, **options):
    """Return how many of N_TEST new rows each of N_SETS calibration sets covers."""
    counts = []
    for index in range(N_SETS):
        rng = np.random.default_rng(index)
        X, y = miscalibrated_rows(n_cal + N_TEST, rng)
        model = ConformalClassifier(FrozenEstimator(GivenProba()), random_state=index, **options)
        model.fit(X[:n_cal], y[:n_cal])
        counts.append(contains(model.predict_set(X[n_cal:], coverage), y[n_cal:]).sum())
    return counts


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("coverage", "n_cal"), [(0.9, 19), pytest.param(0.75, 30, marks=pytest.mark.laws)])
def test_coverage_follows_the_beta_law(score, coverage, n_cal):
    counts = covered(coverage, n_cal, allow_empty=True, **SCORES[score])
    assert p_value(counts, coverage, n_cal) > 1e-3


@pytest.mark.parametrize(
    "score", ["aps", *(pytest.param(s, marks=pytest.mark.laws) for s in SCORES if s != "aps")]
)
def test_class_conditional_coverage_follows_the_beta_law_of_each_class(score):
    """The rows of a class are new rows of a world of this class alone, with its own number of them."""
    n_cal, coverage = 24, 0.8
    counts = {label: [] for label in CLASSES}
    for index in range(N_SETS):
        rng = np.random.default_rng(index)
        X, y = miscalibrated_rows(3000, rng)
        rows = {label: np.flatnonzero(y == label)[: n_cal + N_TEST] for label in CLASSES}
        calibrating = np.concatenate([of_class[:n_cal] for of_class in rows.values()])
        model = ConformalClassifier(
            FrozenEstimator(GivenProba()),
            group_by="class",
            allow_empty=True,
            random_state=index,
            **SCORES[score],
        ).fit(X[calibrating], y[calibrating])
        test = np.concatenate([of_class[n_cal:] for of_class in rows.values()])
        covers = contains(model.predict_set(X[test], coverage), y[test])
        for label in CLASSES:
            counts[label].append(covers[y[test] == label].sum())
    assert all(p_value(of_class, coverage, n_cal) > 1e-3 for of_class in counts.values())


@pytest.mark.laws
@pytest.mark.parametrize("options", [*SCORES.values(), {"method": "aps"}, {"method": "aps", "penalty": 0.1}])
def test_with_the_default_coverage_is_at_least_nominal(options):
    n_cal, coverage = 39, 0.6
    kept = np.mean(covered(coverage, n_cal, **options)) / N_TEST
    error = np.sqrt(coverage * (1 - coverage) * (1 / n_cal + 1 / N_TEST) / N_SETS)
    assert kept > coverage - 3 * error


def hard_and_easy_rows(n, rng):
    """Rows of which those with a probable first class have labels at random, the others those predicted."""
    X = rng.dirichlet([0.4, 0.6, 0.8, 1.0], size=n)
    labels = (X.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    hard = X[:, 0] > 0.4
    labels[hard] = rng.integers(4, size=hard.sum())
    return X, CLASSES[np.minimum(labels, 3)], hard


def calibrated(X, y, **options):
    """Return a model that is calibrated on the first half of the rows."""
    half = len(X) // 2
    model = ConformalClassifier(FrozenEstimator(GivenProba()), allow_empty=True, **options)
    return model.fit(X[:half], y[:half])


def test_groups_have_their_own_coverage():
    X, y, hard = hard_and_easy_rows(12_000, np.random.default_rng(0))
    new, hard = X[6000:], hard[6000:]
    apart = calibrated(X, y, group_by=lambda X: np.where(X[:, 0] > 0.4, "hard", "easy"))
    by_group, pooled = (contains(model.predict_set(new), y[6000:]) for model in (apart, calibrated(X, y)))
    assert by_group[hard].mean() == pytest.approx(0.9, abs=0.025)
    assert by_group[~hard].mean() == pytest.approx(0.9, abs=0.025)
    assert pooled[hard].mean() < 0.88
    assert pooled[~hard].mean() > 0.91


@pytest.mark.laws
def test_density_ratios_keep_coverage_under_covariate_shift():
    """Rows with a probable first class are predicted badly, and are four times as frequent among new rows."""

    def ratio(X):
        return np.where(X[:, 0] > 0.4, 4.0, 1.0)

    achieved = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y, _ = hard_and_easy_rows(12_000, rng)
        new = 6000 + rng.choice(6000, size=6000, p=ratio(X[6000:]) / ratio(X[6000:]).sum())
        models = [calibrated(X, y, density_ratio=given) for given in (None, ratio)]
        achieved.append([contains(model.predict_set(X[new]), y[new]).mean() for model in models])
    unweighted, weighted = np.mean(achieved, axis=0)
    assert unweighted < 0.86
    assert weighted == pytest.approx(0.9, abs=0.012)


def test_density_ratios_keep_the_coverage_of_each_class_too():
    def ratio(X):
        return 0.2 + X[:, 3]

    rng = np.random.default_rng(0)
    X, y = miscalibrated_rows(24_000, rng)
    new = 12_000 + rng.choice(12_000, size=12_000, p=ratio(X[12_000:]) / ratio(X[12_000:]).sum())
    model = calibrated(X, y, density_ratio=ratio, group_by="class")
    covers = contains(model.predict_set(X[new], 0.8), y[new])
    for label in CLASSES:
        assert covers[y[new] == label].mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.laws
@pytest.mark.parametrize("options", [{"method": "lac"}, {"method": "aps", "randomized": True}])
@pytest.mark.parametrize(
    "model", [LogisticRegression(max_iter=2000), DecisionTreeClassifier(max_depth=3, random_state=0)]
)
def test_folds_cover_about_as_nominal(options, model):
    achieved = []
    for seed in range(5):
        X, y = make_blobs(1150, centers=5, cluster_std=3.5, random_state=seed)
        fitted = ConformalClassifier(model, cv=5, allow_empty=True, random_state=seed, **options)
        fitted.fit(X[:150], y[:150])
        achieved.append(contains(fitted.predict_set(X[150:], 0.8), y[150:], fitted.classes_).mean())
    assert np.mean(achieved) > 0.77


@pytest.mark.laws
@pytest.mark.filterwarnings("ignore:.*have a label that does not occur in the training rows")
@pytest.mark.parametrize(("power", "n", "coverage"), [(1.1, 400, 0.75), (1.5, 1000, 0.9)])
def test_stratified_rows_cover_as_nominal_where_many_labels_are_rare(power, n, coverage):
    """Labels by Zipf's law: many occur once, and new rows have labels without training rows."""
    n_classes = 300
    centers = np.random.default_rng(99).normal(size=(n_classes, 5)) * 4
    share = np.arange(1, n_classes + 1) ** -power
    achieved = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        y = rng.choice(n_classes, size=n + 500, p=share / share.sum())
        X = centers[y] + rng.normal(size=(n + 500, 5))
        neighbors = KNeighborsClassifier(5, weights="distance")
        model = ConformalClassifier(neighbors, allow_empty=True, random_state=seed).fit(X[:n], y[:n])
        achieved.append(contains(model.predict_set(X[n:], coverage), y[n:], model.classes_).mean())
    error = np.std(achieved) / np.sqrt(len(achieved))
    assert error < 0.01
    assert np.mean(achieved) == pytest.approx(coverage, abs=3 * error)
