"""ConformalClassifier as an estimator of scikit-learn: its checks, metadata routing, pickles, tags."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from skuq.classifiers import ConformalClassifier

X, Y = make_blobs(120, centers=3, cluster_std=3.0, random_state=0)

CASES = [
    ConformalClassifier(LogisticRegression(max_iter=1000), random_state=0),
    ConformalClassifier(
        DecisionTreeClassifier(max_depth=3, random_state=0),
        "aps",
        randomized=True,
        penalty=0.1,
        random_state=0,
    ),
    ConformalClassifier(DecisionTreeClassifier(random_state=0), cv=2, random_state=0),
]


@parametrize_with_checks(CASES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_is_a_classifier_with_the_tags_of_what_it_wraps():
    model = ConformalClassifier(DecisionTreeClassifier())
    assert is_classifier(model)
    assert get_tags(model).input_tags.sparse
    assert get_tags(model).input_tags.allow_nan
    assert not get_tags(model).classifier_tags.multi_label


@pytest.mark.parametrize("options", [{}, {"cv": 3}, {"method": "aps", "randomized": True}])
def test_a_pickle_predicts_the_same_sets(options):
    model = ConformalClassifier(GaussianNB(), random_state=0, **options).fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_set(X), model.predict_set(X))


def test_weights_reach_the_last_step_of_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    weight = np.where(Y == 0, 1.0, 50.0)
    plain = ConformalClassifier(pipeline, random_state=0).fit(X, Y)
    weighted = ConformalClassifier(pipeline, random_state=0).fit(X, Y, sample_weight=weight)
    assert (weighted.predict_proba(X)[:, 0] < plain.predict_proba(X)[:, 0]).mean() > 0.9
    with pytest.raises(ValueError, match="`fit` of KNeighborsClassifier does not accept"):
        ConformalClassifier(KNeighborsClassifier()).fit(X, Y, sample_weight=weight)


def test_routed_metadata_reach_the_classifier_and_the_splitter():
    groups = np.arange(len(X)) // 4
    with sklearn.config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        model = ConformalClassifier(inner, cv=GroupKFold(3)).set_score_request(sample_weight=False)
        weight = np.where(Y == 0, 1.0, 20.0)
        result = cross_validate(
            clone(model),
            X,
            Y,
            cv=GroupKFold(2),
            params={"groups": groups, "sample_weight": weight},
            return_estimator=True,
            error_score="raise",
        )
        unweighted = ConformalClassifier(GaussianNB(), cv=GroupKFold(3)).fit(X, Y, groups=groups)
    fitted = result["estimator"][0].estimator_
    assert fitted.class_prior_[0] < 0.1 < unweighted.estimator_.class_prior_[0]
