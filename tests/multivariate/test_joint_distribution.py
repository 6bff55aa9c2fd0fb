"""Laws of every joint distribution, whatever its family."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import _safe_indexing

from skuq.distributions import Distribution, Mixture, Normal, Transformed, affine, as_distribution, concat
from skuq.distributions._supported import Supported
from skuq.exceptions import NoDensityError
from skuq.multivariate import CopulaJoint, EmpiricalJoint, rank_template
from skuq.recalibration import IsotonicRecalibrator
from tests.multivariate.families import ALL, NAMES, D, K, N

every = pytest.mark.parametrize("dist", ALL.values(), ids=ALL.keys())
W = np.array([1.0, 2.0, -1.0])


def same(left, right):
    """The two distributions give equal numbers."""
    assert left.names == right.names
    assert_allclose(left.mean(), right.mean(), rtol=1e-12)
    assert_allclose(left.cov(), right.cov(), rtol=1e-9, atol=1e-12)
    y = left.mean() + 0.1
    assert_allclose(left.cdf(y), right.cdf(y), rtol=1e-6)  # of the seeded integral for three targets
    assert_allclose(left.linear(W).quantile(0.8), right.linear(W).quantile(0.8), rtol=1e-9, atol=1e-12)


@every
def test_array_like_without_being_a_distribution(dist):
    array = np.asarray(dist)
    assert array.shape == dist.shape == (N, D)
    assert dist.ndim == 2
    assert len(dist) == N
    assert_array_equal(array, dist.mean())
    assert not isinstance(dist, Distribution)
    assert not hasattr(type(dist), "__iter__")
    assert dist != copy.copy(dist)
    assert repr(dist) == f"{type(dist).__name__}(n={N}, d={D})"
    with pytest.raises(TypeError):
        np.exp(dist)
    with pytest.raises(ValueError, match=r"array of means is always new"):
        np.asarray(dist, copy=False)
    with pytest.raises(AttributeError):
        dist.names = None


@every
def test_rows_can_be_selected_in_every_way(dist):
    mask = np.arange(N) % 2 == 0
    for key in (slice(2, 5), mask, [3, 0, 0, 6], np.array([-1, 2]), (slice(1, None), Ellipsis), 2):
        part = dist[key]
        rows = np.atleast_1d(np.arange(N)[key[0] if isinstance(key, tuple) else key])
        assert part.shape == (len(rows), D)
        assert_allclose(part.mean(), dist.mean()[rows], rtol=1e-12)
        assert_allclose(part.linear(W).median(), dist.linear(W).median()[rows], rtol=1e-9, atol=1e-12)
    same(_safe_indexing(dist, [1, 4]), dist[[1, 4]])
    with pytest.raises(IndexError, match=r"Select a target with dist.marginal"):
        dist[:, 0]


@every
def test_pickle_copy_and_concat_keep_everything(dist):
    twins = [pickle.loads(pickle.dumps(dist)), copy.deepcopy(dist), concat([dist[:4], dist[4:]])]
    for twin in twins:
        assert type(twin) is type(dist)
        same(twin, dist)


@pytest.mark.parametrize("name", ALL)
def test_concat_works_for_every_pair_of_families(name):
    first, second = ALL[name], ALL["members"]
    both = concat([first, second])
    assert both.shape == (2 * N, D)
    order = [N + 1, 0, N, 3]
    assert_allclose(both[order].mean(), np.concatenate([first.mean(), second.mean()])[order], rtol=1e-12)
    medians = np.concatenate([first.linear(W).median(), second.linear(W).median()])
    assert_allclose(both[order].linear(W).median(), medians[order], rtol=1e-9, atol=1e-12)


@every
def test_marginals_have_names_and_moments(dist):
    marginals = dist.marginals()
    assert len(marginals) == D
    for j, name in enumerate(NAMES):
        for found in (dist.marginal(name), dist.marginal(j), dist.marginal(j - D)):
            assert_array_equal(found.mean(), marginals[j].mean())
        assert_array_equal(dist.mean()[:, j], marginals[j].mean())
        assert_array_equal(dist.std()[:, j], marginals[j].std())


@every
def test_covariances_are_positive_semidefinite_with_the_variances(dist):
    covariance, correlation = dist.cov(), dist.corr()
    assert covariance.shape == correlation.shape == (N, D, D)
    assert_allclose(np.einsum("nii->ni", covariance), dist.std() ** 2, rtol=1e-12)
    assert_allclose(covariance, covariance.transpose(0, 2, 1), rtol=1e-12)
    assert (np.linalg.eigvalsh(correlation)[:, 0] > -1e-12).all()


@every
def test_the_mean_of_a_sum_is_the_sum_of_the_means(dist):
    total = dist.linear(W)
    assert isinstance(total, Distribution)
    assert_allclose(total.mean(), dist.mean() @ W, rtol=0, atol=1e-9)
    variance = np.einsum("i,nij,j->n", W, dist.cov(), W)
    assert_allclose(total.std(), np.sqrt(variance), rtol=0.02)


@every
def test_one_weight_gives_the_marginal(dist):
    y = dist.mean()[:, 1]
    assert_array_equal(dist.linear([0, 1, 0]).cdf(y), dist.marginal(1).cdf(y))
    assert_allclose(dist.linear([0, -2, 0]).mean(), -2 * y, rtol=1e-12)
    zero = dist.linear(np.zeros(D))
    assert_array_equal(zero.mean(), 0.0)
    assert_array_equal(zero.std(), 0.0)


@every
def test_apply_of_a_sum_is_the_sum(dist):
    by_function, closed = dist.apply(lambda y: y @ W), dist.linear(W)
    assert_allclose(by_function.quantile([0.1, 0.5, 0.9]), closed.quantile([0.1, 0.5, 0.9]), atol=0.15)


@every
def test_cdf_of_one_target_is_the_cdf_of_the_marginal(dist):
    y = np.full((N, D), np.inf)
    assert_allclose(dist.cdf(y), 1.0, rtol=1e-12)
    for j in range(D):
        y[:] = np.inf
        y[:, j] = dist.mean()[:, j] + 0.2
        assert_allclose(dist.cdf(y), dist.marginal(j).cdf(y[:, j]), rtol=1e-6)
    assert_array_equal(dist.cdf(np.where(np.arange(D) == 1, -np.inf, 0.0) * np.ones((N, 1))), 0.0)


@every
def test_cdf_is_the_probability_of_the_event(dist):
    y = dist.mean() + 0.3
    for row in (0, 7):
        probability = dist[row].probability(lambda points, row=row: (points <= y[row]).all(axis=-1))
        assert_allclose(probability, dist[row].cdf(y[[row]]), atol=0.02)


@every
def test_probabilities_of_an_event_and_its_complement_sum_to_one(dist):
    event = dist.probability(lambda y: y.sum(axis=-1) > 0.3)
    assert event.shape == (N,)
    assert_allclose(event + dist.probability(lambda y: y.sum(axis=-1) <= 0.3), 1.0, rtol=1e-12)


@every
def test_samples_follow_the_distribution(dist):
    draws = dist.sample(4000, random_state=0)
    assert draws.shape == (N, 4000, D)
    assert_array_equal(dist.sample(5, random_state=1), dist.sample(5, random_state=1))
    assert_allclose(draws.mean(axis=1), dist.mean(), atol=0.25)
    assert_allclose(np.corrcoef(draws[3].T), dist.corr()[3], atol=0.08)
    y = dist.mean() + 0.2
    share = (draws <= y[:, np.newaxis]).all(axis=2).mean(axis=1)
    assert_allclose(share, dist.cdf(y), atol=0.04)


@every
def test_a_box_contains_all_targets_with_its_coverage(dist):
    draws = dist.sample(2000, random_state=0)
    for simultaneous in (False, True):
        bounds = dist.interval(0.8, simultaneous=simultaneous)
        assert bounds.shape == (N, 2, D)
        inside = (draws >= bounds[:, [0]]) & (draws <= bounds[:, [1]])
        if simultaneous:  # members on the border of a box are inside
            assert 0.78 < inside.all(axis=2).mean() < 0.92
        else:
            assert_array_equal(bounds[..., 1], dist.marginal(1).interval(0.8))
    wide, narrow = dist.interval(0.8, simultaneous=True), dist.interval(0.8)
    assert (wide[:, 0] <= narrow[:, 0]).all()
    assert (wide[:, 1] >= narrow[:, 1]).all()


@every
def test_condition_leaves_the_unknown_targets(dist):
    y = dist.mean()
    given = dist.condition(np.where([True, False, True], y, np.nan))
    assert given.shape == (N, 1)
    assert given.names == ("price",)
    two = dist.condition(np.where([False, True, False], y, np.nan))
    assert two.names == ("load", "wind")
    assert two.shape == (N, 2)
    assert dist.condition(np.full((N, D), np.nan)) is dist
    assert_allclose(
        dist[2:5].condition(np.where([1, 0, 1], y, np.nan)[2:5]).mean(), given.mean()[2:5], rtol=1e-9
    )


@every
def test_density_or_error(dist):
    y = dist.mean() + 0.1
    if dist.has_density:
        assert np.isfinite(dist.logpdf(y)).all()
    else:
        with pytest.raises(NoDensityError, match="energy_score_loss"):
            dist.logpdf(y)


@every
def test_pit_is_uniform_on_draws(dist):
    draws = dist.sample(1, random_state=0)[:, 0]
    pit = dist.pit(draws)
    assert pit.shape == (N, D)
    assert (pit >= 0).all()
    assert (pit <= 1).all()
    assert_array_equal(pit, dist.pit(draws, random_state=0))


def test_bad_input_is_named():
    dist = ALL["template"]
    cases = [
        (lambda: dist.linear([1.0, 2.0]), "`w` must have shape"),
        (lambda: dist.linear([1.0, np.nan, 0.0]), "`w` must be finite"),
        (lambda: dist.cdf(np.zeros((N, 2))), "`y` must have shape"),
        (lambda: dist.cdf(np.zeros((N + 1, D))), f"`y` must have {N} rows"),
        (lambda: dist.cdf(np.full((N, D), np.nan)), "`y` must not contain NaN"),
        (lambda: dist.condition(np.zeros((N, D))), "at least one unknown target"),
        (lambda: dist.condition(np.where(np.eye(N, D) > 0, np.nan, 0.0)), "same columns in all rows"),
        (lambda: dist.condition(np.where([1, 0, 0], np.nan, np.inf) * np.ones((N, 1))), "`y` must be finite"),
        (lambda: dist.marginal("heat"), "`target` must be one of 'load'"),
        (lambda: dist.marginal(D), "`target` must be a column from 0 to 2"),
        (lambda: dist.interval(90), "Did you mean 0.9"),
        (lambda: dist.sample(0), "`m` must be at least 1"),
        (lambda: dist.apply(lambda y: y), "`func` must map points of shape"),
        (lambda: dist.apply(lambda y: y[..., 0] * np.nan), "`func` must be finite"),
        (lambda: dist.probability(lambda y: y > 0), "`event` must map points"),
        (lambda: dist.cdf(pd.DataFrame(np.zeros((N, D)), columns=["price", "load", "wind"])), "columns load"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    for call in (lambda: dist.marginal(True), lambda: dist.marginal(1.0)):
        with pytest.raises(TypeError, match="`target` must be the name"):
            call()


@every
def test_functions_of_one_target_name_the_methods(dist):
    for call in (
        lambda: as_distribution(dist),
        lambda: Mixture([dist, dist]),
        lambda: affine(dist, 0.0, 1.0),
        lambda: IsotonicRecalibrator().fit(dist, np.zeros(len(dist))),
        lambda: Transformed(dist, np.exp, np.log),
        lambda: Supported(dist, 0.0, 1.0),
        lambda: CopulaJoint([dist, dist], [[0.2, 0.2], [0.4, 0.4]]),
    ):
        with pytest.raises(TypeError, match=r"`\.marginal\(\.\.\.\)`.*`\.linear\(w\)`"):
            call()


def test_concat_refuses_a_mixture_of_kinds():
    dist = ALL["template"]
    for parts in ([dist, Normal(0.0, 1.0)], [Normal(0.0, 1.0), dist]):
        with pytest.raises(TypeError, match="`marginal`"):
            concat(parts)
    with pytest.raises(ValueError, match="same names"):
        concat([dist, CopulaJoint(dist.marginals(), dist.ranks)])
    with pytest.raises(ValueError, match="same number of targets"):
        concat([dist, EmpiricalJoint(np.zeros((3, 2)))])


def test_one_target():
    ranks = rank_template(np.arange(50.0)[:, np.newaxis])
    dist = CopulaJoint([Normal([0.0, 1.0], 2.0)], ranks)
    assert np.asarray(dist).shape == (2, 1)
    assert_allclose(dist.cdf([[0.3], [0.4]]), dist.marginal(0).cdf([0.3, 0.4]), rtol=1e-12)
    assert_array_equal(dist.corr(), 1.0)
    assert_allclose(dist.cov()[:, 0, 0], 4.0)
    assert len(dist.ranks) < K
