"""Errors of constructors: the argument, the condition and the value are named."""

import numpy as np
import pytest
from scipy import sparse, stats

from skuq.distributions import (
    Binned,
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    ScipyDistribution,
    StudentT,
    Transformed,
    Truncated,
    affine,
    as_distribution,
    concat,
)
from skuq.distributions._beta_recalibrated import BetaRecalibrated
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.distributions._level_map import LevelMap
from skuq.distributions._supported import Supported
from skuq.multivariate import CopulaJoint, EmpiricalJoint, NormalJoint, normal_template, rank_template

ONE, TWO = Normal(0.0, 1.0), Normal([0.0, 1.0], 1.0)
RANKS = np.random.default_rng(0).random((30, 3))


def beta(a=1.0, b=1.0, c=0.0, weights=None):
    """Recalibrate rows with a density and rows of atoms."""
    BetaRecalibrated(Empirical([[0.0, 1.0], [2.0, 3.0]]), a, b, c, weights)
    return BetaRecalibrated(TWO, a, b, c, weights)


def conformal(scores=(1.0,), weights=None, test_weight=1.0, symmetric=False, loc=(0.0, 0.0, 0.0), scale=1.0):
    return ConformalPredictive(loc, scale, scores, weights, test_weight, symmetric)


def copula(marginals=(TWO, TWO, TWO), ranks=RANKS, **options):
    return CopulaJoint(marginals, ranks, **options)


BAD_VALUES = [
    (lambda: Normal([0.0, np.nan], 1.0), "`loc` must be finite, got nan at row 1"),
    (lambda: Normal([0.0, 0.0], [1.0, -0.3]), "`scale` must be non-negative, got -0.3 at row 1"),
    (lambda: Normal([0.0, 0.0], [1.0, 1.0, 1.0]), "`loc` must have 3 rows"),
    (lambda: Normal([], []), "`loc` must have at least one row, got none"),
    (lambda: Normal([[0.0]], 1.0), "`loc` must be a number or have shape"),
    (lambda: Normal([0.0], 1.0, 2.0), "`epistemic_scale` must not exceed `scale`"),
    (lambda: Normal([0.0], 1.0, [-1.0]), "`epistemic_scale` must be non-negative"),
    (lambda: Normal([0.0, 1.0], [1.0, 1.0], [[0.5, 0.5]]), "`epistemic_scale` must have shape"),
    (lambda: StudentT([0.0], 1.0, 0.0), "`df` must be positive, got 0.0 at row 0"),
    (lambda: StudentT(0.0, 1.0, [2.0, np.nan]), "`df` must"),
    (lambda: StudentT(0.0, np.inf, 3.0), "`scale` must be finite"),
    (lambda: NormalMixture([0.0], [1.0]), r"`loc` must have shape \(n, m\)"),
    (lambda: NormalMixture([[0.0, 1.0]], [[1.0, 1.0, 1.0]]), "`scale` must have the shape of `loc`"),
    (lambda: NormalMixture([[0.0, 1.0]], -1.0), "`scale` must be non-negative"),
    (lambda: NormalMixture([[0.0, 1.0]], 1.0, [2.0, -1.0]), "`weights` must be non-negative"),
    (lambda: Empirical([[np.nan]]), "`members` must be finite"),
    (lambda: Empirical(np.zeros((0, 3))), r"`members` must have shape \(n, m\)"),
    (lambda: Quantiles([0.2, 0.8], [[0.0, 1.0]], 9.0), "`epistemic_scale` must not exceed the standard dev"),
    (lambda: Quantiles([0.5], [[1.0]]), "at least two levels"),
    (lambda: Quantiles([0.9, 0.1], [[1.0, 2.0]]), "`levels` must be strictly increasing"),
    (lambda: Quantiles([0.1, 1.0], [[1.0, 2.0]]), "strictly between 0 and 1"),
    (lambda: Quantiles([0.1, 0.9], [[1.0, 2.0, 3.0]]), "one column per level"),
    (lambda: Mixture([]), "at least one distribution"),
    (lambda: Mixture([ONE, TWO]), "same number of rows"),
    (lambda: Mixture([ONE, ONE], ensemble="yes"), "`ensemble` must be one of True, False"),
    (lambda: LevelMap([0.5, 0.5], [0.2, 0.3]), "positive and finite slopes"),
    (lambda: LevelMap([0.4, 0.5], [0.3, 0.3]), "positive and finite slopes"),
    (lambda: LevelMap([1.4], [0.3]), "`scores` and `values` must be finite"),
    (lambda: LevelMap.from_scores([0.0, 1e-310], [0.0, 5.0]), "positive and finite slopes"),
    *(
        (
            lambda name=name, slope=slope: LevelMap.from_scores([0.0], [0.0], **{name: slope}),
            "positive and finite slopes",
        )
        for name in ("lower_slope", "upper_slope")
        for slope in (0.0, np.nan, np.inf)
    ),
    (lambda: ScipyDistribution(stats.gamma(a=[1.0, -1.0])), "scipy rejects gamma.* at row 1"),
    (lambda: ScipyDistribution(stats.norm(0, np.ones((2, 2)))), r"got shape \(2, 2\)"),
    (
        lambda: ScipyDistribution(stats.rv_discrete(values=([0.1, 0.5], [0.5, 0.5]))()),
        "must have integer atoms.*Empirical",
    ),
    (lambda: Concatenated([ONE], [1]), "`order` must contain row numbers from 0 to 0"),
    (lambda: Concatenated([ONE], []), "`order` must be a non-empty"),
    (lambda: concat([]), "at least one distribution"),
    (lambda: TWO.quantile([[0.1, 0.9]]), "`levels`"),
    # beta calibration maps
    (lambda: beta(b=[1.0, -2.0]), "`b` must be positive, got -2.0 at row 1"),
    (lambda: beta(c=[0.0, np.inf]), "`c` must be finite, got inf at row 1"),
    (lambda: beta(c=[0.0, 1.0, 2.0]), r"`a`, `b` and `c` must be numbers or have shape \(2,\) or \(2, k\)"),
    (lambda: beta(a=np.ones((2, 2, 2))), r"`a`, `b` and `c` must be numbers or have shape"),
    (lambda: beta(b=[]), r"got \[\(\), \(0,\), \(\)\]"),
    (lambda: beta(np.ones((2, 2)), weights=[-1.0, 2.0]), "`weights` must be non-negative"),
    # histograms
    (lambda: Binned([0.0], np.zeros((1, 0))), "`edges` must have shape .* with k >= 1 bins, got shape"),
    (lambda: Binned([0.0, 0.0], [[0.0]]), "`edges` must be strictly increasing"),
    (lambda: Binned([0.0, np.inf], [[0.0]]), "`edges` must be finite"),
    (lambda: Binned([0.0, 1.0], [0.0]), r"`log_weights` must have shape \(n, 1\), with one column per bin"),
    (lambda: Binned([0.0, 1.0, 2.0], [[0.0]]), r"\(n, 2\), with one column per bin, got shape \(1, 1\)"),
    (lambda: Binned([0.0, 1.0], [[0.0], [np.nan]]), "finite or minus infinity.* at row 1"),
    (lambda: Binned([0.0, 1.0], [[np.inf]]), "finite or minus infinity.* at row 0"),
    (lambda: Binned([0.0, 1.0], [[-np.inf]]), "a bin with a positive weight.* at row 0"),
    (lambda: Binned([0.0, 1.0], [[0.0]], tails=2), "`tails` must be one of True, False"),
    # conformal predictive distributions
    (lambda: conformal(scores=[]), r"`scores` must have shape \(k,\) with k >= 1"),
    (lambda: conformal(scores=[1.0, np.nan]), "`scores` must be finite, got nan at row 1"),
    (
        lambda: conformal(scores=[1.0, -2.0], symmetric=True),
        "`scores` must be non-negative, got -2.0 at row 1",
    ),
    (lambda: conformal(weights=[-1.0]), "`weights` must be non-negative"),
    (lambda: conformal(test_weight=0.0), "`test_weight` must be positive"),
    (lambda: conformal(test_weight=[1.0, 2.0]), r"`test_weight` must be a number or have shape \(3,\)"),
    (lambda: conformal(test_weight=np.inf), "`test_weight` must be finite"),
    (lambda: conformal(scale=-1.0), "`scale` must be non-negative"),
    (lambda: conformal(loc=[0.0, np.nan, 0.0]), "`loc` must be finite"),
    (lambda: conformal(symmetric="yes"), "`symmetric` must be one of True, False"),
    # bounds
    (lambda: TWO.clip(1.0, 1.0), "`lower` must be less than `upper`, got 1 >= 1 at row 0"),
    (lambda: TWO.clip([0.0, 3.0], 2.0), "`lower` must be less than `upper`, got 3 >= 2 at row 1"),
    (lambda: TWO.clip(np.nan, 1.0), "`lower` must not contain NaN"),
    (lambda: TWO.clip(0.0, [1.0, np.nan]), "`upper` must not contain NaN, got one at row 1"),
    (lambda: TWO.clip(np.inf, np.inf), "`lower` must be less than `upper`, got inf >= inf"),
    (lambda: TWO.clip([0.0, 1.0, 2.0], 9.0), r"`lower` must be a number or have shape \(2,\), got \(3,\)"),
    (
        lambda: TWO.clip(0.5, 3.0, True),
        "`lower` must be an integer or infinite with integer=True, got 0.5 at row 0",
    ),
    (lambda: TWO.clip(0.0, [3.0, 3.5], True), "`upper` must be an integer or infinite .*, got 3.5 at row"),
    (lambda: TWO.clip(0.0, 3.0, "yes"), "`integer` must be one of True, False"),
    (lambda: Supported(ONE, 2.0, 1.0), "`lower` must be less than `upper`, got 2 >= 1 at row 0"),
    (lambda: Truncated(ONE, 2.0, 1.0), "`lower` must be less than `upper`, got 2 >= 1 at row 0"),
    (lambda: Truncated(ONE, 0.0, np.nan), "`upper` must not contain NaN"),
    (lambda: Hurdle(1.2, ONE), r"`p` must lie in \[0, 1\], got 1.2"),
    (lambda: Hurdle([0.1, 0.2], ONE), r"`p` must be a number or have shape \(1,\), got \(2,\)"),
    (lambda: Hurdle(0.1, ONE, np.nan), "`at` must be finite, got nan"),
    # joint distributions
    (lambda: copula([]), "at least one"),
    (lambda: copula([TWO, TWO, ONE]), "same number of rows"),
    (lambda: copula(ranks=RANKS - 0.5), "strictly between 0 and 1"),
    (lambda: copula(ranks=RANKS[:, :2]), r"`ranks` must have shape \(K, 3\)"),
    (lambda: copula(ranks=RANKS[:1]), "K >= 2"),
    (lambda: copula(weights=np.ones(4)), "`weights` must have shape"),
    (lambda: copula(weights=np.ones(30), correlation=np.eye(3)), "`weights` must be None"),
    (lambda: copula(correlation=np.eye(2)), r"`correlation` must have shape \(3, 3\)"),
    (lambda: EmpiricalJoint(np.zeros(3)), "`members` must have shape"),
    (lambda: EmpiricalJoint(np.zeros((2, 0, 3))), "`members` must have shape"),
    (lambda: EmpiricalJoint(np.full((2, 3, 1), np.nan)), "`members` must be finite"),
    (lambda: EmpiricalJoint(np.zeros((2, 3, 1)), np.ones(2)), "`weights` must have shape"),
    (
        lambda: EmpiricalJoint(np.zeros((2, 3, 1)), [[1.0], [1.0, 2.0]]),
        "`weights` must have rows of one length",
    ),
    (lambda: NormalJoint(np.zeros(3), np.eye(3)), r"`loc` must have shape \(n, d\)"),
    (
        lambda: NormalJoint(np.zeros((2, 3)), np.eye(2)),
        r"`covariance` must have shape \(3, 3\) or \(2, 3, 3\)",
    ),
    (lambda: NormalJoint([[0.0, np.nan]], np.eye(2)), "`loc` must be finite"),
    (
        lambda: NormalJoint(np.zeros((1, 2)), [[1.0, 2.0], [2.0, 1.0]]),
        "`covariance` must be positive semidef",
    ),
    (lambda: NormalJoint(np.zeros((2, 2)), [np.eye(2), [[1, 0.1], [0.4, 1]]]), "be symmetric.*at row 1"),
    (lambda: NormalJoint(np.zeros((1, 2)), [[np.inf, 0.0], [0.0, 1.0]]), "be finite"),
    (lambda: NormalJoint(np.zeros((2, 3)), np.eye(3), names=["a", "b"]), "`names`"),
    (lambda: NormalJoint(np.zeros((2, 3)), np.eye(3), names=["a", "b", "a"]), "`names`"),
    (lambda: NormalJoint(np.zeros((2, 3)), np.eye(3)).marginal("a"), "have no names"),
    (lambda: rank_template([1.0, 2.0]), "shape"),
    (lambda: rank_template(np.empty((0, 2))), "shape"),
    (lambda: rank_template([[np.nan, 0.0]]), "NaN"),
    (lambda: normal_template([[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
    (lambda: normal_template([[1.0, 0.5], [0.2, 1.0]]), "symmetric"),
    (lambda: normal_template([[2.0, 0.5], [0.5, 1.0]]), "ones on its diagonal"),
    (lambda: normal_template([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
    (lambda: normal_template([1.0, 0.5]), "shape"),
    (lambda: normal_template(np.eye(2), size=300), r"power of 2, got 300\. Use 512"),
]
BAD_TYPES = [
    (lambda: Normal(["a"], 1.0), "`loc` must hold real numbers"),
    (lambda: Normal(sparse.csr_matrix([[0.0]]), 1.0), "dense"),
    (lambda: NormalMixture([[0.0, 1.0]], {}), "`scale` must hold real numbers, got dict"),
    (lambda: Mixture([ONE, 3]), "`components` must hold distributions, got int"),
    (lambda: Mixture(None), "`components` must be a sequence of distributions, got NoneType"),
    *(
        (lambda base=base, functions=functions: Transformed(base, *functions), message)
        for base in (TWO, Empirical([[0.0], [1.0]]), concat([TWO, Quantiles([0.1, 0.9], [[0.0, 1.0]])]))
        for functions, message in (
            ((3, np.log), "`func` must be callable, got int"),
            ((np.exp, None), "`inverse_func` must be callable, got NoneType"),
            ((np.exp, np.log, "1 / y"), "`inverse_derivative` must be callable or None, got str"),
        )
    ),
    *(
        (build, "must hold real numbers, got Normal.*not a distribution")
        for build in (
            lambda: Empirical(TWO),
            lambda: Normal(0.0, TWO),
            lambda: Quantiles([0.1, 0.9], TWO),
            lambda: Binned([0.0, 1.0, 2.0], TWO),
            lambda: Empirical([[0.0, 1.0]] * 2, TWO),
        )
    ),
    (lambda: BetaRecalibrated(3, 1.0, 1.0, 0.0), "`base` must be a Distribution, got int"),
    (lambda: Transformed([0.0], np.exp, np.log), "`base` must be a Distribution"),
    (lambda: ScipyDistribution(stats.gamma), "`frozen` must be a frozen scipy.stats distribution"),
    (lambda: concat([ONE, "x"]), "`parts` must hold distributions, got str"),
    (lambda: concat(3), "`parts` must be a sequence of distributions, got int"),
    (lambda: concat(TWO), "`parts` must be a sequence of distributions"),
    (lambda: Concatenated([3], [0]), "`parts` must hold distributions, got int"),
    (lambda: affine([0.0], 1.0, 1.0), "`dist` must be a Distribution, got list"),
    (lambda: as_distribution(Normal), "got the class Normal"),
    (lambda: as_distribution(np.zeros((3, 2))), r"got ndarray of shape \(3, 2\)"),
    (lambda: as_distribution([[0.0], [1.0]]), "got list"),
    (lambda: beta(a=["x", "y"]), "`a` must hold real numbers"),
    (lambda: conformal(scores=["a"]), "`scores` must hold real numbers"),
    (lambda: TWO.clip(0.0, None), "`upper` must be a number or an array, got None. Pass an infinite value"),
    (lambda: TWO.clip("a", 1.0), "`lower` must hold real numbers"),
    (lambda: Supported(1.0, 0.0, 1.0), "`base` must be a Distribution, got float"),
    (lambda: Truncated(1.0, 0.0), "`base` must be a Distribution, got float"),
    (lambda: Hurdle(0.1, 3.0), "`dist` must be a Distribution, got float"),
    (lambda: Hurdle("a", ONE), "`p` must hold real numbers"),
    (lambda: copula(TWO), "`marginals` must be a sequence"),
    (lambda: copula([TWO, "normal", TWO]), "must hold distributions, got str"),
    (lambda: NormalJoint(np.zeros((2, 3)), np.eye(3), names=["a", "b", 1]), "`names`"),
    (lambda: NormalJoint(np.zeros((2, 3)), np.eye(3), names="abc"), "`names`"),
]


@pytest.mark.parametrize(("error", "cases"), [(ValueError, BAD_VALUES), (TypeError, BAD_TYPES)])
def test_bad_arguments_are_named(error, cases, subtests):
    for build, message in cases:
        with subtests.test(msg=message), pytest.raises(error, match=message):
            build()


def test_an_index_has_one_dimension():
    with pytest.raises(IndexError, match="the index of a Normal must be one-dimensional"):
        TWO[np.array([[0, 1]])]
