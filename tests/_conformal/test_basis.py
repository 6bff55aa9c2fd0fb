"""Functions of x with a joint guarantee, through the conformal estimators."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.classifiers import ConformalClassifier
from skuq.exceptions import SmallSampleWarning
from skuq.prediction import predict_dist
from skuq.regressors import ConformalRegressor, ResidualRegressor


def overlapping(X):
    return np.c_[X[:, 0] > 0, X[:, 1] > 0.5]


def world(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    noise = 0.3 + 0.5 * (X[:, 0] > 0) + 0.4 * (X[:, 1] > 0.5)
    return X, X @ [1.0, 2.0, 0.0] + noise * rng.normal(size=n)


def conformal(basis=overlapping, **options):
    options = {"calibration_size": 0.5, "random_state": 0} | options
    return ConformalRegressor(LinearRegression(), basis=basis, **options)


def covered(bounds, y):
    return (bounds[:, 0] <= y) & (y <= bounds[:, 1])


def test_each_of_three_overlapping_groups_is_covered():
    X_new, y_new = world(4000, seed=1000)
    groups = [X_new[:, 0] > 0, X_new[:, 0] <= 0, X_new[:, 1] > 0.5]
    shares, without = [], []
    for seed in range(20):
        X, y = world(800, seed)
        inside = covered(conformal().fit(X, y).predict_interval(X_new), y_new)
        shares.append([inside[group].mean() for group in groups])
        inside = covered(conformal(basis=None).fit(X, y).predict_interval(X_new), y_new)
        without.append([inside[group].mean() for group in groups])
    assert (np.mean(shares, axis=0) > 0.89).all()
    assert (np.mean(shares, axis=0) < 0.925).all()
    assert np.min(np.mean(without, axis=0)) < 0.85


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", ["split", "normalized", "cqr"])
def test_each_score_and_the_distribution(method, symmetric):
    X, y = world(800)
    X_new, y_new = world(500, seed=1)
    estimator = ResidualRegressor(LinearRegression(), cv=2)
    model = ConformalRegressor(
        estimator, method, symmetric=symmetric, basis=overlapping, calibration_size=0.5, random_state=0
    ).fit(X, y)
    bounds = model.predict_interval(X_new, [0.5, 0.9])
    assert 0.86 < covered(bounds[:, :, 1], y_new).mean() < 0.95
    # bounds of different coverages rarely cross; the distribution sorts them
    same = np.isclose(model.predict_dist(X_new).interval([0.5, 0.9]), bounds, rtol=1e-12)
    assert same.mean() > 0.97


def test_a_constant_equals_split_conformal_prediction():
    X, y = world(400)
    constant = conformal(lambda X: np.ones(len(X))).fit(X, y)
    assert_array_equal(constant.predict_interval(X), conformal(None).fit(X, y).predict_interval(X))


def test_disjoint_indicators_equal_group_by():
    X, y = world(2000)

    def labels(X):
        return np.digitize(X[:, 0], [-0.3, 0.4])

    grouped = conformal(None, group_by=labels).fit(X, y).predict_interval(X, [0.5, 0.9])
    indicators = conformal(lambda X: np.eye(3)[labels(X)]).fit(X, y).predict_interval(X, [0.5, 0.9])
    assert_allclose(indicators, grouped, rtol=0, atol=1e-12)
    named = conformal(lambda X: pd.DataFrame({"label": labels(X).astype(str)})).fit(X, y)
    assert_allclose(named.predict_interval(X, [0.5, 0.9]), grouped, rtol=0, atol=1e-12)


def test_column_names_numbers_and_labels():
    X, y = world(1000)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = np.where(X[:, 0] > 0, "p", "q")
    pipeline_X = frame[["a", "b", "c", "kind"]]
    model = make_pipeline(_Numbers(), LinearRegression())
    named = ConformalRegressor(model, basis=["kind", "b"], calibration_size=0.5, random_state=0)
    called = clone(named).set_params(basis=lambda X: pd.DataFrame({"k": X["kind"], "b": X["b"]}))
    bounds = named.fit(pipeline_X, y).predict_interval(pipeline_X)
    assert_allclose(bounds, called.fit(pipeline_X, y).predict_interval(pipeline_X), rtol=1e-12)
    one = clone(named).set_params(basis="kind").fit(pipeline_X, y).predict_interval(pipeline_X)
    grouped = clone(named).set_params(basis=None, group_by="kind").fit(pipeline_X, y)
    assert_allclose(one, grouped.predict_interval(pipeline_X), rtol=1e-12)


class _Numbers(StandardScaler):
    """Scaler of the numeric columns."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X[["a", "b", "c"]], y)

    def transform(self, X, copy=None):
        return super().transform(X[["a", "b", "c"]])


def test_a_label_without_calibration_rows_has_infinite_bounds():
    X, y = world(1000)
    model = conformal(lambda X: pd.DataFrame({"label": np.round(X[:, 2]).astype(int).astype(str)})).fit(X, y)
    X_new = X[:3].copy()
    X_new[1, 2] = 7
    with pytest.warns(SmallSampleWarning, match="for 1 of 3 rows, first at row 1: their bounds are infinite"):
        bounds = model.predict_interval(X_new)
    assert np.isinf(bounds[1]).all()
    assert np.isfinite(bounds[[0, 2]]).all()
    with pytest.raises(ValueError, match=r"finite bounds, but `basis` gives none for row 1"):
        model.predict_dist(X_new)


def test_rows_with_fewer_finite_coverages_have_fewer_levels():
    X, y = world(400)
    with pytest.warns(SmallSampleWarning, match="100 rows per function"):
        model = conformal(lambda X: X**2).fit(X, y)
    X_new = np.concatenate([X[:5], 2.5 * np.ones((1, 3))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        bounds = model.predict_interval(X_new, [0.5, 0.9])
    dist = predict_dist(model, X_new)
    finite = np.isfinite(bounds[:, 0, 1])
    assert not finite.all()
    assert_allclose(dist.interval(0.9)[finite], bounds[finite, :, 1], rtol=1e-12)


@pytest.mark.parametrize("repeated", [[1.0, 1.0], [1.0, 2.0], [0.0, 1.0]])
def test_dependent_functions_do_not_matter(repeated):
    X, y = world(800)
    alone = conformal(lambda X: X[:, :1]).fit(X, y).predict_interval(X)
    twice = conformal(lambda X: X[:, :1] * repeated + 3).fit(X, y).predict_interval(X)
    assert_allclose(twice, alone, rtol=1e-9)


def test_weights_are_repetitions():
    X, y = world(600)
    times = np.random.default_rng(0).integers(0, 3, len(y))
    split = [(np.arange(200), np.arange(200, 600))]
    weighted = conformal(calibration_size=0.25, cv=split).fit(X, y, sample_weight=times)
    rows = np.repeat(np.arange(600), times)
    new_split = [(np.flatnonzero(rows < 200), np.flatnonzero(rows >= 200))]
    repeated = conformal(calibration_size=0.25, cv=new_split).fit(X[rows], y[rows])
    assert_allclose(weighted.predict_interval(X), repeated.predict_interval(X), rtol=1e-9)


def test_prediction_sets_cover_each_group():
    X, y = world(2000)
    labels = (y > 0).astype(int) + (y > 1)
    model = ConformalClassifier(
        LogisticRegression(), basis=overlapping, calibration_size=0.5, random_state=0
    ).fit(X, labels)
    X_new, y_new = world(4000, seed=1)
    inside = model.predict_set(X_new)[np.arange(4000), (y_new > 0).astype(int) + (y_new > 1)]
    assert abs(inside[X_new[:, 0] > 0].mean() - 0.9) < 0.03
    assert abs(inside[X_new[:, 1] > 0.5].mean() - 0.9) < 0.03


def test_sets_of_rows_outside_the_functions_contain_all_classes():
    X, y = world(1000)

    def rounded(X):
        return pd.DataFrame({"label": np.round(X[:, 2]).astype(int).astype(str)})

    model = ConformalClassifier(LogisticRegression(), basis=rounded, calibration_size=0.5, random_state=0)
    model.fit(X, y > 0)
    X_new = X[:2].copy()
    X_new[1, 2] = 7
    with pytest.warns(SmallSampleWarning, match="their sets contain all classes"):
        assert model.predict_set(X_new)[1].all()


def test_sparse_X_goes_to_the_callable():
    X, y = world(800)
    rows = sparse.csr_array(X)
    model = conformal(lambda X: X[:, [0]].toarray() > 0).fit(rows, y)
    expected = conformal(lambda X: X[:, :1] > 0).fit(X, y).predict_interval(X)
    assert_allclose(model.predict_interval(rows), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("basis", "error", "message"),
    [
        (True, TypeError, r"`basis` must be a callable X -> array"),
        ([], TypeError, r"`basis` must be a callable X -> array"),
        ("a", TypeError, r"`X` must be a DataFrame if `basis` names columns \(\['a'\]\), got ndarray"),
        (lambda X: X[:5], ValueError, r"`basis` must give \d+ rows, one per row of X"),
        (lambda X: X[:, :0], ValueError, "at least one column"),
        (lambda X: np.where(X > 0.9, np.nan, X), ValueError, r"`basis` must be finite"),
        (
            lambda X: pd.DataFrame({"a": [None] * len(X)}),
            ValueError,
            r"`basis` must give a label for every row",
        ),
        (
            lambda X: np.random.default_rng(0).normal(size=(len(X), 300)),
            ValueError,
            "fewer independent functions",
        ),
    ],
)
def test_bad_input(basis, error, message):
    X, y = world(400)
    with pytest.raises(error, match=message):
        conformal(basis).fit(X, y)


def test_another_number_of_functions_when_predicting():
    X, y = world(800)
    model = conformal(lambda X: X[:, : 1 + (len(X) < 10)]).fit(X, y)
    with pytest.raises(ValueError, match=r"`basis` must give shape \(n, 1\), as in `fit`, got \(n, 2\)"):
        model.predict_interval(X[:5])


def test_unknown_column():
    X, y = world(400)
    with pytest.raises(
        ValueError, match=r"`basis` must name columns of X, got 'd'\. X has \['a', 'b', 'c'\]"
    ):
        conformal(["a", "d"]).fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)


@pytest.mark.parametrize("name", ["group_by", "density_ratio"])
def test_other_guarantees_are_refused(name):
    X, y = world(400)
    with pytest.raises(ValueError, match=f"`{name}` must be None with `basis`"):
        conformal(**{name: lambda X: np.ones(len(X))}).fit(X, y)


def test_partial_fit_is_refused():
    X, y = world(800)
    model = conformal().fit(X, y)
    with pytest.raises(
        ValueError, match=r"`partial_fit` supports neither method 'pit' nor `basis`, got `basis`"
    ):
        model.partial_fit(X[:1], y[:1])
