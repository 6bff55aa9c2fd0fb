"""Conformal classifiers beside MAPIE and crepes: the same sets, and what theirs do that ours do not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from skuq.conformal import ConformalClassifier
from tests.conformal.class_worlds import CLASSES, GivenProba, contains, miscalibrated_rows

COVERAGES = [0.5, 0.8, 0.9, 0.95, 0.99]


@pytest.fixture(scope="module")
def worlds():
    """A model, and the rows that calibrate and test it."""
    found, (X, y) = {}, load_digits(return_X_y=True)
    train, calibrating, test = np.split(np.random.default_rng(0).permutation(len(y)), [897, 1347])
    forest = RandomForestClassifier(50, random_state=0).fit(X[train], y[train])
    found["digits"] = forest, X[calibrating], y[calibrating], X[test], y[test]
    for name, seed, classes, edges in (("logistic", 1, CLASSES, [-1, 0, 1]), ("binary", 2, CLASSES[:2], [0])):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(900, 3))
        y = classes[np.digitize(X[:, 0] + rng.normal(size=900), edges)]
        model = LogisticRegression().fit(X[:300], y[:300])
        found[name] = model, X[300:523], y[300:523], X[523:], y[523:]
    return found


def mapie_sets(model, X, y, X_new, score="lac", **params):
    mapie = pytest.importorskip("mapie.classification")
    peer = mapie.SplitConformalClassifier(
        model, confidence_level=COVERAGES, conformity_score=score, prefit=True, random_state=0
    ).conformalize(X, y)
    return peer.predict_set(X_new, conformity_score_params=params)[1]


@pytest.mark.parametrize("rows", ["digits", "logistic", "binary"])
def test_lac_has_the_sets_of_mapie_row_by_row(worlds, rows):
    model, X, y, X_new, _ = worlds[rows]
    own = ConformalClassifier(FrozenEstimator(model), allow_empty=True).fit(X, y)
    np.testing.assert_array_equal(own.predict_set(X_new, COVERAGES), mapie_sets(model, X, y, X_new))


@pytest.mark.parametrize("group_by", [None, "class"])
@pytest.mark.parametrize("rows", ["digits", "logistic", "binary"])
def test_lac_has_the_unsmoothed_sets_of_crepes_row_by_row(worlds, rows, group_by):
    crepes = pytest.importorskip("crepes")
    from crepes.extras import hinge

    model, X, y, X_new, _ = worlds[rows]
    by_class = group_by == "class"
    peer = crepes.ConformalClassifier().fit(
        hinge(model.predict_proba(X), model.classes_, y), bins=y if by_class else None
    )
    alphas = hinge(model.predict_proba(X_new))
    bins = np.tile(model.classes_, (len(X_new), 1)) if by_class else None
    own = ConformalClassifier(FrozenEstimator(model), group_by=group_by, allow_empty=True).fit(X, y)
    # coverages of which no rank is whole, where crepes' p-values would be at its limit
    for coverage in (0.511, 0.803, 0.907, 0.953):
        if by_class:
            sets = np.column_stack(
                [
                    peer.predict_p(alphas[:, [k]], bins=bins[:, k], smoothing=False)[:, 0] > 1 - coverage
                    for k in range(len(model.classes_))
                ]
            )
        else:
            sets = peer.predict_set(alphas, confidence=coverage, smoothing=False).astype(bool)
        np.testing.assert_array_equal(own.predict_set(X_new, coverage), sets)


def test_randomized_aps_does_not_include_the_last_class_as_mapie_does_by_default(worlds):
    """MAPIE calibrates randomized scores and predicts sets with the crossing class: above 99 % for 90 %."""
    model, X, y, X_new, y_new = worlds["digits"]
    options = {"method": "aps", "randomized": True, "allow_empty": True, "random_state": 0}
    own = ConformalClassifier(FrozenEstimator(model), **options).fit(X, y)
    sets = own.predict_set(X_new)
    achieved = contains(sets, y_new, own.classes_).mean()
    assert achieved == pytest.approx(0.9, abs=0.035)
    peer = mapie_sets(model, X, y, X_new, score="aps")[:, :, COVERAGES.index(0.9)]
    assert contains(peer, y_new, own.classes_).mean() > 0.99
    assert sets.sum() < 0.9 * peer.sum()


def test_deterministic_aps_is_never_empty():
    X, y = miscalibrated_rows(400, np.random.default_rng(0))
    for penalty in (0, 0.2):
        model = ConformalClassifier(FrozenEstimator(GivenProba()), "aps", penalty=penalty, allow_empty=True)
        assert model.fit(X[:200], y[:200]).predict_set(X[200:], [0.01, 0.3, 0.9]).any(axis=1).all()
