"""Functions of x with a joint guarantee, and their cutoffs compared with one linear program per row."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.conformal import ConformalClassifier, ConformalRegressor
from skuq.conformal._basis import Calibration, cutoffs, independent_rows, separated, start
from skuq.exceptions import SmallSampleWarning
from skuq.prediction import predict_dist
from skuq.regressors import LeastSquaresRegressor


def overlapping(X):
    return np.c_[X[:, 0] > 0, X[:, 1] > 0.5]


def world(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    noise = 0.3 + 0.5 * (X[:, 0] > 0) + 0.4 * (X[:, 1] > 0.5)
    return X, X @ [1.0, 2.0, 0.0] + noise * rng.normal(size=n)


def conformal(basis=overlapping, **options):
    options = {"held_out_size": 0.5, "random_state": 0} | options
    return ConformalRegressor(LinearRegression(), basis=basis, **options)


def covered(bounds, y):
    return (bounds[:, 0] <= y) & (y <= bounds[:, 1])


@pytest.mark.laws
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
    model = ConformalRegressor(
        LeastSquaresRegressor(),
        method,
        symmetric=symmetric,
        basis=overlapping,
        held_out_size=0.5,
        random_state=0,
    ).fit(X, y)
    bounds = model.predict_interval(X_new, [0.5, 0.9])
    assert 0.86 < covered(bounds[:, :, 1], y_new).mean() < 0.95
    # bounds of different coverages rarely cross; the distribution sorts them
    same = np.isclose(model.predict_dist(X_new).interval([0.5, 0.9]), bounds, rtol=1e-12)
    assert same.mean() > 0.99


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
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.where(X[:, 0] > 0, "p", "q"))
    numbers = make_column_transformer((StandardScaler(), ["a", "b", "c"]))

    def bounds(**options):
        model = ConformalRegressor(
            make_pipeline(numbers, LinearRegression()), held_out_size=0.5, random_state=0, **options
        )
        return model.fit(frame, y).predict_interval(frame)

    called = bounds(basis=lambda X: pd.DataFrame({"k": X["kind"], "b": X["b"]}))
    assert_allclose(bounds(basis=["kind", "b"]), called, rtol=1e-12)
    assert_allclose(bounds(basis="kind"), bounds(group_by="kind"), rtol=1e-12)


def test_a_label_without_calibration_rows_has_infinite_bounds():
    X, y = world(1000)
    model = conformal(by_third_feature).fit(X, y)
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
    weighted = conformal(held_out_size=0.25, cv=split).fit(X, y, sample_weight=times)
    rows = np.repeat(np.arange(600), times)
    new_split = [(np.flatnonzero(rows < 200), np.flatnonzero(rows >= 200))]
    repeated = conformal(held_out_size=0.25, cv=new_split).fit(X[rows], y[rows])
    assert_allclose(weighted.predict_interval(X), repeated.predict_interval(X), rtol=1e-9)


def by_third_feature(X):
    return pd.DataFrame({"label": np.round(X[:, 2]).astype(int).astype(str)})


def test_prediction_sets_cover_each_group():
    X, y = world(2000)
    classifier = ConformalClassifier(LogisticRegression(), held_out_size=0.5, random_state=0)
    model = clone(classifier).set_params(basis=overlapping).fit(X, (y > 0).astype(int) + (y > 1))
    X_new, y_new = world(4000, seed=1)
    inside = model.predict_set(X_new)[np.arange(4000), (y_new > 0).astype(int) + (y_new > 1)]
    assert abs(inside[X_new[:, 0] > 0].mean() - 0.9) < 0.03
    assert abs(inside[X_new[:, 1] > 0.5].mean() - 0.9) < 0.03
    model = clone(classifier).set_params(basis=by_third_feature).fit(X, y > 0)
    X_new[1, 2] = 7  # outside the functions
    with pytest.warns(SmallSampleWarning, match="their sets contain all classes"):
        assert model.predict_set(X_new[:2])[1].all()


def test_sparse_X_goes_to_the_callable():
    X, y = world(800)
    rows = sparse.csr_array(X)
    model = conformal(lambda X: X[:, [0]].toarray() > 0).fit(rows, y)
    expected = conformal(lambda X: X[:, :1] > 0).fit(X, y).predict_interval(X)
    assert_allclose(model.predict_interval(rows), expected, rtol=1e-6)


def test_bad_input(subtests):
    X, y = world(400)
    for basis, error, message in (
        (True, TypeError, r"`basis` must be a callable X -> array"),
        ([], TypeError, r"`basis` must be a callable X -> array"),
        ("a", TypeError, r"`X` must be a pandas DataFrame if `basis` names columns \(\['a'\]\), got ndarray"),
        (lambda X: X[:5], ValueError, r"`basis` must give \d+ rows, one per row of X"),
        (lambda X: X[:, :0], ValueError, "at least one column"),
        (lambda X: np.where(X > 0.9, np.nan, X), ValueError, r"`basis` must be finite"),
        (lambda X: pd.DataFrame({"a": [None] * len(X)}), ValueError, "must give a label for every row"),
        (lambda X: np.random.default_rng(0).normal(size=(len(X), 300)), ValueError, "fewer independent func"),
    ):
        with subtests.test(message), pytest.raises(error, match=message):
            conformal(basis).fit(X, y)
    with pytest.raises(ValueError, match=r"must name columns of X, got 'd'\. X has \['a', 'b', 'c'\]"):
        conformal(["a", "d"]).fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    for name in ("group_by", "density_ratio"):
        with pytest.raises(ValueError, match=f"`{name}` must be None with `basis`"):
            conformal(**{name: lambda X: np.ones(len(X))}).fit(X, y)
    model = conformal(lambda X: X[:, : 1 + (len(X) < 10)]).fit(X, y)
    with pytest.raises(ValueError, match=r"`basis` must give shape \(n, 1\), as in `fit`, got \(n, 2\)"):
        model.predict_interval(X[:5])
    with pytest.raises(ValueError, match=r"supports neither method 'pit' nor `basis`, got `basis`"):
        model.partial_fit(X[:1], y[:1])


def program(phi, scores, weight, new, tau):
    """Return the cutoff of one row by a linear program: the dual variable of the new row is nearly tau."""
    result = linprog(
        -scores,
        A_eq=phi.T,
        b_eq=-tau * (1 - 1e-6) * new,
        bounds=np.c_[(tau - 1) * weight, tau * weight],
        method="highs-ds",
    )
    return np.inf if result.status == 2 else -new @ result.eqlin.marginals


def by_path(phi, scores, weight, new, tau):
    rows = Calibration(phi, separated(scores), (tau - 1) * weight, tau * weight)
    return cutoffs(rows, start(rows, np.zeros(phi.shape[1])), scores, new, tau)


def problem(seed):
    """Return functions with ties, groups and small integers, tied scores, and weights."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 120)), int(rng.integers(1, 6))
    phi = rng.normal(size=(n, d))
    phi[:, 0] = 1
    if d > 1 and seed % 3 == 0:
        phi[:, 1] = rng.normal(size=n) > 0
    if d > 2 and seed % 3 == 1:
        phi[:, 2] = rng.integers(0, 3, n)
    if seed % 5 == 0:
        phi[n // 2 :] = phi[: n - n // 2]  # duplicate rows
    scores = rng.normal(size=n)
    scores = np.round(scores, 1) if seed % 2 else scores
    weight = rng.integers(1, 4, n).astype(float) if seed % 4 == 0 else np.ones(n)
    return phi, scores, weight, float(rng.choice([0.5, 0.8, 0.9, 0.95])), rng


LAWS = [pytest.param(block, marks=pytest.mark.laws) for block in range(1, 5)]
SLOW = [pytest.param(block, marks=pytest.mark.slow) for block in range(5, 25)]


@pytest.mark.parametrize("block", [0, *LAWS, *SLOW])
def test_cutoffs_equal_one_linear_program_per_row(block):
    """With 40 problems per block. The slow blocks complete 1000 problems."""
    n_finite = n_infinite = 0
    for seed in range(40 * block, 40 * (block + 1)):
        phi, scores, weight, tau, rng = problem(seed)
        if np.linalg.matrix_rank(phi) < phi.shape[1]:
            continue
        new = np.concatenate([phi[rng.integers(0, len(phi), 3)], 2 * rng.normal(size=(2, phi.shape[1]))])
        expected = np.array([program(phi, scores, weight, row, tau) for row in new])
        found = by_path(phi, scores, weight, new, tau)
        assert_array_equal(np.isinf(found), np.isinf(expected))
        assert_allclose(found[np.isfinite(found)], expected[np.isfinite(expected)], rtol=0, atol=1e-9)
        n_finite, n_infinite = n_finite + np.isfinite(found).sum(), n_infinite + np.isinf(found).sum()
    assert n_finite > 50
    assert n_infinite > 5


@pytest.mark.parametrize("tau", [0.05, 0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [9, 19, 20, 101, 999])
def test_a_constant_gives_the_conformal_rank(n, tau):
    scores = np.random.default_rng(n).permutation(n).astype(float) + 1
    rank = np.ceil((n + 1) * tau - 1e-9)
    assert_array_equal(
        by_path(np.ones((n, 1)), scores, np.ones(n), np.ones((2, 1)), tau), rank if rank <= n else np.inf
    )


def test_weights_of_cutoffs_are_repetitions():
    phi, scores, weight, tau, _ = problem(8)
    times = weight.astype(int)
    repeated = by_path(
        np.repeat(phi, times, axis=0), np.repeat(scores, times), np.ones(times.sum()), phi, tau
    )
    assert_allclose(by_path(phi, scores, weight, phi, tau), repeated, rtol=0, atol=1e-12)


def test_the_order_of_rows_does_not_matter():
    phi, scores, weight, tau, rng = problem(9)
    order = rng.permutation(len(phi))
    shuffled = by_path(phi[order], scores[order], weight[order], phi, tau)
    assert_allclose(by_path(phi, scores, weight, phi, tau), shuffled, rtol=0, atol=1e-12)


def test_many_new_rows_are_divided_into_chunks(monkeypatch):
    phi, scores, weight, tau, rng = problem(2)
    new = rng.normal(size=(200, phi.shape[1]))
    together = by_path(phi, scores, weight, new, tau)
    monkeypatch.setattr("skuq.conformal._basis._CHUNK_FLOATS", 1)
    assert_array_equal(by_path(phi, scores, weight, new, tau), together)


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e200])
def test_the_unit_of_scores_does_not_matter(unit):
    phi, scores, weight, tau, _ = problem(2)
    expected = by_path(phi, scores, weight, phi, tau)
    assert_allclose(by_path(phi, unit * scores, weight, phi, tau) / unit, expected, rtol=1e-9)


def test_a_start_without_solution():
    phi = np.c_[np.ones(4), [0.0, 0.0, 1.0, 1.0]]
    rows = Calibration(phi, np.arange(4.0), np.full(4, -0.1), np.full(4, 0.9))
    assert start(rows, np.array([0.0, 5.0])) is None
    assert len(independent_rows(phi)) == 2
