"""What holds for every recalibrator; a new one is found by the public names."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

from skuq import recalibration
from skuq.conformal import ConformalRecalibrator
from skuq.distributions import Empirical, Mixture, Normal, Quantiles, StudentT, affine
from skuq.recalibration import (
    BinnedScalingRecalibrator,
    EmpiricalRecalibrator,
    GPBetaRecalibrator,
    GPCauchyRecalibrator,
    GPNormalRecalibrator,
    IdentityRecalibrator,
    IsotonicDistributionalRecalibrator,
    IsotonicRecalibrator,
    OperatingPointRecalibrator,
    QuantileShiftRecalibrator,
    ShrunkIsotonicRecalibrator,
    StdScalingRecalibrator,
    SupportMap,
    VarianceIsotonicRecalibrator,
)
from skuq.recalibration._scaling import ScalingRecalibrator
from tests.few_rows import few_rows

RECALIBRATORS = [
    IdentityRecalibrator(),
    StdScalingRecalibrator(),
    IsotonicRecalibrator(),
    IsotonicRecalibrator(n_knots=None),
    IsotonicRecalibrator(smooth=True),
    StdScalingRecalibrator(objective="crps"),
    StdScalingRecalibrator(objective="coverage", coverage=0.8),
    StdScalingRecalibrator(robust=True),
    BinnedScalingRecalibrator(),
    BinnedScalingRecalibrator(n_bins=4),
    VarianceIsotonicRecalibrator(),
    VarianceIsotonicRecalibrator(min_rows=5),
    OperatingPointRecalibrator(miss_rate=0.1),
    OperatingPointRecalibrator(miss_rate=0.1, vary="bias"),
    OperatingPointRecalibrator(cost=1 / 11, y_axis="deficit"),
    EmpiricalRecalibrator(),
    EmpiricalRecalibrator(smooth=False),
    IsotonicDistributionalRecalibrator(),
    IsotonicDistributionalRecalibrator(by="median"),
    ConformalRecalibrator(),
    ConformalRecalibrator(symmetric=False),
    ConformalRecalibrator(group_by=2, rare_groups="pool"),
    QuantileShiftRecalibrator(),
    GPNormalRecalibrator(),
    GPNormalRecalibrator(batch_size=200, max_iter=60, random_state=0),
    GPBetaRecalibrator(n_inducing_points=6),
    GPCauchyRecalibrator(),
    ShrunkIsotonicRecalibrator(cv=2),
    SupportMap((-1e9, 1e9)),
]
CLASSES = [getattr(recalibration, name) for name in recalibration.__all__ if name != "BaseRecalibrator"]
RECALIBRATORS += [each() for each in CLASSES if each not in {type(one) for one in RECALIBRATORS}]
every_recalibrator = pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=repr)
LEVELS = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])


def quantiles_may_be_equal(recalibrator):
    """Whether the recalibrated shape has atoms: targets, residuals, or residuals that are equal."""
    atoms = isinstance(recalibrator, EmpiricalRecalibrator) and not recalibrator.smooth
    with_atoms = ConformalRecalibrator | QuantileShiftRecalibrator | IsotonicDistributionalRecalibrator
    return atoms or isinstance(recalibrator, with_atoms)


def can_be_gaussian(recalibrator):
    """Whether Gaussian predictions may come out of it; a Cauchy distribution has not even a mean."""
    return not isinstance(recalibrator, GPCauchyRecalibrator)


def uses_the_spread(recalibrator):
    """Whether the result depends on the predicted spread of a row; else its intervals rest on few rows."""
    return not isinstance(recalibrator, IsotonicDistributionalRecalibrator)


DEAR = GPNormalRecalibrator | GPBetaRecalibrator
that_keep_calibrated_data = pytest.mark.parametrize(
    "recalibrator",
    [
        pytest.param(one, marks=[pytest.mark.laws] * isinstance(one, DEAR))
        for one in RECALIBRATORS
        if can_be_gaussian(one) and uses_the_spread(one)
    ],
    ids=repr,
)


def assert_increasing(recalibrator, quantiles):
    steps = np.diff(quantiles, axis=1)
    assert (steps >= 0).all() if quantiles_may_be_equal(recalibrator) else (steps > 0).all()


def between_atoms(recalibrator):
    """LEVELS, off whole ranks for atoms: at those, reversing takes the quantile to the next atom."""
    return LEVELS * 0.9991 + 0.0003 if quantiles_may_be_equal(recalibrator) else LEVELS


def reachable(recalibrator, n):
    """LEVELS, or those that conformal ranks of n rows reach; the others are infinite, with a warning."""
    if not isinstance(recalibrator, ConformalRecalibrator):
        return LEVELS
    levels = np.union1d(LEVELS, [0.4, 0.6])
    return levels[np.maximum(levels, 1 - levels) * (n + 1) <= n]


def level_error(recalibrator):
    """Error of a level that 20 000 calibrated rows allow: at least 2.5 standard errors.

    Learned from all rows its standard error is at most .5 / sqrt(20000) = .0035; a variance that rises with
    the predicted one is learned from the rows around, 141 at the ends: .24 / sqrt(2 * 141) = .014; a shift
    that depends on the prediction from those within a correlation length, about 4000: .5 / sqrt(4000) = .008.
    """
    if isinstance(recalibrator, VarianceIsotonicRecalibrator):
        return 0.036
    return 0.02 if isinstance(recalibrator, GPBetaRecalibrator) else 0.011


def quantiles_after(recalibrator, dist, y, new, sample_weight=None, levels=LEVELS):
    fitted = clone(recalibrator).fit(dist, y, sample_weight=sample_weight)
    return fitted.transform(new).quantile(levels)


@pytest.fixture(scope="module")
def fit_once(calibration_rows):
    """Return ``fit_once(recalibrator)``, fitted to the calibration rows once for tests that only read it."""
    fitted = {}

    def fit(recalibrator):
        key = repr(recalibrator)
        if key not in fitted:
            fitted[key] = clone(recalibrator).fit(*calibration_rows)
        return fitted[key]

    return fit


@that_keep_calibrated_data
def test_calibrated_data_are_left_alone(recalibrator):
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=20_000), 0.3 + rng.random(20_000)
    dist = Normal(loc, scale)
    after = quantiles_after(recalibrator, dist, rng.normal(loc, scale), dist[:50])
    for level, column in zip(LEVELS, after.T, strict=True):
        assert_allclose(dist[:50].cdf(column), level, atol=level_error(recalibrator))


@every_recalibrator
def test_units_of_y_do_not_matter(recalibrator, dist, y, fit_once):
    levels = between_atoms(recalibrator)
    for unit, offset in ((1e-3, 5.0), (1e3, 0.0), (-1.0, 5.0)):
        other = affine(dist, offset, unit)
        mirrored = levels if unit > 0 else 1 - levels
        expected = offset + unit * fit_once(recalibrator).transform(dist[:20]).quantile(mirrored)
        after = quantiles_after(recalibrator, other, offset + unit * y, other[:20], levels=levels)
        assert_allclose(after, expected, rtol=1e-7, atol=1e-9 * abs(unit))


@every_recalibrator
def test_order_of_the_rows_does_not_matter(recalibrator, dist, y, fit_once):
    rows = np.random.default_rng(1).permutation(len(y))
    after = quantiles_after(recalibrator, dist[rows], y[rows], dist[:20])
    assert_allclose(after, fit_once(recalibrator).transform(dist[:20]).quantile(LEVELS), rtol=1e-12)


@every_recalibrator
def test_weights_count_repetitions(recalibrator, dist, y):
    y = y.copy()
    weight = np.random.default_rng(1).integers(0, 4, size=len(y))
    y[np.flatnonzero(weight == 0)[0]] = 1e30  # a row of weight 0 is absent
    rows = np.repeat(np.arange(len(y)), weight)
    assert_allclose(
        quantiles_after(recalibrator, dist, y, dist[:20], sample_weight=weight),
        quantiles_after(recalibrator, dist[rows], y[rows], dist[:20]),
        rtol=1e-12,
    )


NUMBER_OF_ROWS_DOES_NOT_MATTER = (
    IdentityRecalibrator
    | IsotonicDistributionalRecalibrator
    | OperatingPointRecalibrator
    | StdScalingRecalibrator
    | SupportMap
)


@every_recalibrator
def test_relative_weights_are_refused_if_the_number_of_rows_matters(recalibrator, calibration_rows):
    dist, y = (part[:100] for part in calibration_rows)
    weight = np.random.default_rng(1).integers(1, 4, size=100)
    atoms = isinstance(recalibrator, EmpiricalRecalibrator) and not recalibrator.smooth
    if atoms or isinstance(recalibrator, NUMBER_OF_ROWS_DOES_NOT_MATTER):
        after = quantiles_after(recalibrator, dist, y, dist[:20], sample_weight=weight / 1024)
        assert_array_equal(after, quantiles_after(recalibrator, dist, y, dist[:20], sample_weight=weight))
    else:
        with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
            clone(recalibrator).fit(dist, y, sample_weight=weight / 1024)


SCALING = [one for one in RECALIBRATORS if isinstance(one, StdScalingRecalibrator | ScalingRecalibrator)]
STANDARDIZING = [
    *SCALING,
    *(one for one in RECALIBRATORS if isinstance(one, ConformalRecalibrator | EmpiricalRecalibrator)),
    *(one for one in RECALIBRATORS if isinstance(one, GPBetaRecalibrator | GPCauchyRecalibrator)),
]


@few_rows
@pytest.mark.parametrize("recalibrator", STANDARDIZING, ids=repr)
def test_rows_that_cannot_be_standardized_are_refused(recalibrator):
    model, infinite = clone(recalibrator), StudentT([0.0, 1.0], [1.0, 1.0], 2.0)
    with pytest.raises(ValueError, match="finite mean and standard deviation in every row"):
        model.fit(infinite, [0.5, 1.5])
    with pytest.raises(ValueError, match=r"got 0 at row 1\. In this row, `y` differs"):
        model.fit(Normal([0.0, 1.0], [1.0, 0.0]), [0.5, 1.5])
    if recalibrator in SCALING:
        with pytest.raises(ValueError, match=r"got 0\. In all or most rows, `y` equals the predicted mean"):
            model.fit(Normal([0.0, 1.0], 1.0), [0.0, 1.0])


@few_rows
@pytest.mark.parametrize(
    "recalibrator", [one for one in STANDARDIZING if not isinstance(one, ConformalRecalibrator)], ids=repr
)
def test_exact_point_masses_carry_no_information_and_stay(recalibrator):
    rng = np.random.default_rng(0)
    dist, y = Normal(np.zeros(40), 0.5 + rng.random(40)), rng.normal(size=40)
    both = Normal(np.append(dist.loc, [0.3, 0.3]), np.append(dist.scale, [0.0, 0.0]))
    weight, exact = rng.integers(1, 3, size=42), 0.1 + 0.2  # up to rounding
    fitted = clone(recalibrator).fit(both, np.append(y, [exact, exact]), sample_weight=weight)
    alone = clone(recalibrator).fit(dist, y, sample_weight=weight[:40])
    after = fitted.transform(both).quantile(LEVELS)
    if isinstance(recalibrator, EmpiricalRecalibrator):
        assert (fitted.bias_, fitted.factor_) == (alone.bias_, alone.factor_)
    else:
        assert_array_equal(after[:40], alone.transform(dist).quantile(LEVELS))
    assert_allclose(after[40:], 0.3, rtol=4 * np.finfo(float).eps)
    points = Normal([1.0, 2.0], [0.0, 0.0])
    fitted = clone(recalibrator).fit(points, [1.0, 2.0])
    assert_array_equal(fitted.transform(points).quantile(LEVELS), np.repeat([[1.0], [2.0]], 7, axis=1))
    assert_array_equal(fitted.predict(points), [1.0, 2.0])
    assert getattr(fitted, "n_iter_", 0) == 0
    if not isinstance(recalibrator, GPBetaRecalibrator | GPCauchyRecalibrator):
        assert fitted.transform(points) is points


@few_rows
@every_recalibrator
def test_tied_or_few_rows_are_no_trouble(recalibrator):
    tied = np.repeat([-1.0, 0.5, 2.0], 20)
    for loc, y in ((0 * tied, tied), (np.array([0.0, 1.0]), [0.5, 0.2])):
        dist = Normal(loc, 1.0)
        after = quantiles_after(recalibrator, dist, y, dist[:2], levels=reachable(recalibrator, len(loc)))
        assert np.isfinite(after).all()
        assert_increasing(recalibrator, after)
    dist, y = Normal(np.zeros(300), np.ones(300)), np.random.default_rng(0).normal(scale=2.0, size=300)
    recalibrated = clone(recalibrator).fit(dist, y).transform(dist)
    assert_allclose(recalibrated.std(), recalibrated.std()[0])


CORRECTING = [
    one
    for one in filter(can_be_gaussian, RECALIBRATORS[1:])
    if not isinstance(one, SupportMap) and uses_the_spread(one)
]


@pytest.mark.parametrize("recalibrator", CORRECTING, ids=repr)
def test_held_out_calibration_improves(recalibrator, dist, y):
    recalibrated = clone(recalibrator).fit(dist[:400], y[:400]).transform(dist[400:])

    def miss(candidate):
        bounds = candidate.interval(0.9)
        return abs(np.mean((bounds[:, 0] <= y[400:]) & (y[400:] <= bounds[:, 1])) - 0.9)

    assert miss(dist[400:]) > 0.15
    assert miss(recalibrated) < 0.05
    assert recalibrated.crps(y[400:]).mean() < dist[400:].crps(y[400:]).mean()


@every_recalibrator
@pytest.mark.parametrize("family", ["StudentT", "Empirical", "Quantiles", "Mixture"])
def test_every_family_can_be_recalibrated(recalibrator, family):
    rng = np.random.default_rng(0)
    n = 80
    loc, one = rng.normal(size=n), np.ones(n)
    levels = np.linspace(0.05, 0.95, 19)
    dist = {
        "StudentT": lambda: StudentT(loc, one, 5),
        "Empirical": lambda: Empirical(loc[:, np.newaxis] + rng.normal(size=(n, 50))),
        "Quantiles": lambda: Quantiles(levels, Normal(loc, one).quantile(levels)),
        "Mixture": lambda: Mixture([StudentT(loc, one, 5), Normal(loc, 2 * one)]),
    }[family]()
    recalibrated = clone(recalibrator).fit(dist, rng.normal(loc, 1.1)).transform(dist[:7])
    assert len(recalibrated) == 7
    assert np.isfinite(recalibrated.crps(loc[:7])).all()
    center = recalibrated.mean() if can_be_gaussian(recalibrator) else recalibrated.median()
    assert_allclose(center, loc[:7], atol=1.0)


@every_recalibrator
def test_transform_and_predict_agree(recalibrator, dist, y, fit_once):
    fitted = fit_once(recalibrator)
    after, prediction = fitted.predict_dist(dist), fitted.predict(dist)
    assert_allclose(prediction, after.mean() if can_be_gaussian(recalibrator) else after.median(), rtol=1e-12)
    assert fitted.score(dist, y) == pytest.approx(1 - np.mean((y - prediction) ** 2) / np.var(y))
    quantiles = fitted.transform(dist).quantile(LEVELS)
    assert_allclose(quantiles[5:9], fitted.transform(dist[5:9]).quantile(LEVELS))
    assert_allclose(prediction[5:9], fitted.predict(dist[5:9]), rtol=1e-12)
    assert fitted.n_features_in_ == 2


@every_recalibrator
def test_clone_pickle_copy_and_fit_transform(recalibrator, dist, y, fit_once):
    fitted = fit_once(recalibrator)
    expected = fitted.transform(dist).quantile(LEVELS)
    assert_allclose(clone(recalibrator).fit_transform(dist, y).quantile(LEVELS), expected)
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert_array_equal(other.transform(dist).quantile(LEVELS), expected)
    for method in ("transform", "predict", "predict_dist"):
        with pytest.raises(NotFittedError):
            getattr(clone(fitted), method)(dist)


@few_rows
@every_recalibrator
def test_fit_returns_self_and_leaves_the_input_alone(recalibrator):
    dist, y = Normal([0.0, 1.0, 2.0], [1.0, 2.0, 1.0]), np.array([0.5, 0.0, 2.5])
    before = np.asarray(dist), y.copy()
    model = clone(recalibrator)
    assert model.fit(dist, y) is model
    model.transform(dist)
    assert_array_equal(np.asarray(dist), before[0])
    assert_array_equal(y, before[1])


@every_recalibrator
def test_for_scikit_learn_it_is_a_regressor_that_transforms(recalibrator, calibration_rows):
    tags = recalibrator.__sklearn_tags__()
    assert is_regressor(recalibrator)
    assert not tags.input_tags.two_d_array
    assert tags.transformer_tags is not None
    assert recalibrator.get_feature_names_out().tolist() == ["mean", "std"]
    assert clone(recalibrator).set_output(transform="pandas") is not None
    dist, y = (part[:100] for part in calibration_rows)
    assert cross_val_score(recalibrator, dist, y, cv=2, error_score="raise").shape == (2,)
    assert cross_val_predict(recalibrator, dist, y, cv=2).shape == y.shape


def test_recalibrators_chain(dist, y):
    chain = make_pipeline(StdScalingRecalibrator(), IsotonicRecalibrator()).fit(dist, y)
    recalibrated = chain.transform(dist)
    assert recalibrated.crps(y).mean() < dist.crps(y).mean()
    chain.set_output(transform="pandas")
    assert len(chain.transform(dist)) == len(y)
