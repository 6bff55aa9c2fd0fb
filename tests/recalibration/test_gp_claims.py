"""The statements in the docstrings of the Gaussian process recalibrators, and edge cases."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline

from skuq.distributions import (
    BetaRecalibrated,
    Empirical,
    Normal,
    NormalMixture,
    Quantiles,
    StudentT,
    Transformed,
    concat,
)
from skuq.metrics import nll_loss, prediction_interval_coverage
from skuq.prediction import predict_dist
from skuq.recalibration import (
    GPBetaRecalibrator,
    GPCauchyRecalibrator,
    GPNormalRecalibrator,
    IsotonicRecalibrator,
    StdScalingRecalibrator,
)
from skuq.regressors import LeastSquaresRegressor, RecalibratedRegressor
from tests.few_rows import few_rows

ALL = [GPNormalRecalibrator, GPBetaRecalibrator, GPCauchyRecalibrator]
every_class = pytest.mark.parametrize("cls", ALL)
LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def growing_spread(n, seed, low=0.0, unit=1.0, offset=0.0):
    """Predictions of one spread, where the true one is .3 + .5 |mu|."""
    rng = np.random.default_rng(seed)
    loc = rng.normal(size=n)
    truth = Normal(offset + unit * loc, unit * (0.3 + 0.5 * np.abs(loc)))
    forecast = Normal(truth.loc, unit * 0.7 * (1 + 0.01 * rng.uniform(low, 1, size=n)))
    return forecast, rng.normal(truth.loc, truth.scale), truth


def muted_spread(n, seed):
    """Small predicted spreads are too large, and large ones too small."""
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=n), np.exp(0.7 * rng.normal(size=n))
    return Normal(loc, 0.8 * np.sqrt(scale)), rng.normal(loc, scale), Normal(loc, scale)


def wandering_bias(n, seed):
    """Predictions are off by a wave of the prediction."""
    rng = np.random.default_rng(seed)
    forecast, scale = 2 * rng.normal(size=n), 0.5 + 0.5 * rng.random(n)
    truth = Normal(forecast + 0.8 * scale * np.sin(forecast), scale)
    return Normal(forecast, scale), rng.normal(truth.loc, scale), truth


def excess(recalibrator, world, n, seed, **options):
    dist, y, _ = world(n, seed, **options)
    return excess_of_fitted(recalibrator.fit(dist, y), world, seed, **options)


def excess_of_fitted(fitted, world, seed, **options):
    new, observed, truth = world(20_000, [seed, 1], **options)
    return nll_loss(observed, fitted.transform(new)) - nll_loss(observed, truth)


# --------------------------------------------------------------------------------------- what they correct


@pytest.mark.slow
@pytest.mark.parametrize("low", [0.0, -1.0])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("offset", [0.0, 5.0, -1e5])
def test_the_recipe_of_the_issue(low, unit, offset):
    excesses = [
        excess(GPNormalRecalibrator(), growing_spread, 1000, seed, low=low, unit=unit, offset=offset)
        for seed in range(10)
    ]
    assert np.mean(excesses) <= 0.02
    assert np.mean(excesses) == pytest.approx(0.0057, abs=0.001)  # the same at every unit


def test_spread_that_depends_on_the_predicted_spread_is_corrected():
    # netcal's kernel, which compares distributions by their overlap, hardly distinguishes these rows
    assert excess(StdScalingRecalibrator(), muted_spread, 1000, 0) > 0.1
    assert excess(GPNormalRecalibrator(), muted_spread, 1000, 0) < 0.01


def test_bias_that_depends_on_the_prediction_is_corrected_by_the_beta_map_alone():
    beta = excess(GPBetaRecalibrator(), wandering_bias, 2000, 0)
    assert beta < 0.03
    assert excess(IsotonicRecalibrator(), wandering_bias, 2000, 0) > beta + 0.1
    assert excess(GPNormalRecalibrator(), wandering_bias, 2000, 0) > beta + 0.05


def test_the_normal_factor_takes_a_bias_for_spread():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=2000)
    dist = Normal(loc, 1.0)
    after = GPNormalRecalibrator().fit(dist, rng.normal(loc + 2.0, 1.0)).transform(dist)
    assert_allclose(after.mean(), loc, atol=1e-12)
    assert_allclose(after.std(), np.sqrt(5.0), rtol=0.1)


def test_where_one_factor_is_enough_it_is_that_factor(calibration_rows):
    dist, y = calibration_rows
    fitted = GPNormalRecalibrator().fit(dist, y)
    assert fitted.amplitudes_[0] < 0.1
    factor = fitted.transform(dist).std() / dist.std()
    assert_allclose(factor, StdScalingRecalibrator().fit(dist, y).factor_, rtol=0.05)


def test_far_from_all_rows_the_factor_is_the_constant():
    dist, y, _ = growing_spread(1000, 0)
    fitted = GPNormalRecalibrator().fit(dist, y)
    far = fitted.transform(Normal([-1e3, 1e3, 0.0, 0.0], [0.7, 0.7, 1e-9, 1e9]))
    factor = far.std() / [0.7, 0.7, 1e-9, 1e9]
    assert_allclose(factor, factor[0], rtol=1e-6)


def test_the_family_and_its_parts_survive_a_normal_factor():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=300)
    student = StudentT(loc, np.ones(300), 5.0, epistemic_scale=np.full(300, 0.5))
    after = GPNormalRecalibrator().fit(student, rng.normal(loc, 2.0)).transform(student)
    assert isinstance(after, StudentT)
    assert_allclose(after.epistemic().std() / student.epistemic().std(), after.std() / student.std())
    members = Empirical(loc[:, np.newaxis] + rng.normal(size=(300, 30)))
    spread = GPNormalRecalibrator().fit(members, rng.normal(loc, 2.0)).transform(members)
    assert isinstance(spread, Empirical)
    assert_allclose(spread.mean(), members.mean(), atol=1e-12)


def test_a_beta_map_of_an_ensemble_is_an_ensemble():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=300)
    members = Empirical(loc[:, np.newaxis] + rng.normal(size=(300, 30)))
    fitted = GPBetaRecalibrator().fit(members, rng.normal(loc + 0.5, 1.0))
    assert isinstance(fitted.transform(members), Empirical)
    assert fitted.outside_share_ == pytest.approx(2 / 31, abs=0.06)
    assert np.mean(fitted.predict(members) - members.mean()) == pytest.approx(0.5, abs=0.15)


def test_an_ensemble_that_is_calibrated_is_left_alone():
    # 100 members and y from one law: y lies outside of them in 2 rows of 101, levels that are no level 0
    rng = np.random.default_rng(0)
    loc = 10 * rng.normal(size=4000)
    members = Empirical(loc[:, np.newaxis] + rng.normal(size=(4000, 100)))
    fitted = GPBetaRecalibrator().fit(members, rng.normal(loc, 1.0))
    assert fitted.outside_share_ == pytest.approx(2 / 101, abs=0.008)
    reached = np.cumsum(fitted.transform(members[:50]).weights, axis=1)
    assert_allclose(reached, np.broadcast_to(np.arange(1, 101) / 100, (50, 100)), atol=0.05)


def test_cauchy_intervals_are_too_wide_for_gaussian_data_and_right_for_their_own():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=2000)
    dist = Normal(loc, 1.0)
    gaussian = GPCauchyRecalibrator().fit(dist, rng.normal(loc, 1.0)).transform(dist)
    widths = np.diff(gaussian.interval(0.9), axis=1)
    assert (widths > 1.5 * np.diff(dist.interval(0.9), axis=1)).all()
    y = loc + 0.4 * rng.standard_cauchy(size=2000)
    own = GPCauchyRecalibrator().fit(dist, y).transform(dist)
    assert_allclose((y[:, np.newaxis] <= own.quantile(LEVELS)).mean(axis=0), LEVELS, atol=0.03)
    assert own.crps(y).mean() < GPNormalRecalibrator().fit(dist, y).transform(dist).crps(y).mean()


def test_one_gross_outlier_hardly_moves_the_cauchy_scale():
    dist, y, _ = growing_spread(500, 0)
    before = GPCauchyRecalibrator().fit(dist, y).transform(dist[:50]).scale
    y[3] = 1e9
    assert_allclose(GPCauchyRecalibrator().fit(dist, y).transform(dist[:50]).scale, before, rtol=0.1)


def test_cauchy_predicts_the_median_which_did_not_move():
    dist, y, _ = growing_spread(200, 0)
    fitted = GPCauchyRecalibrator().fit(dist, y)
    assert_array_equal(fitted.predict(dist), dist.mean())
    assert_array_equal(fitted.transform(dist).median(), dist.mean())


@pytest.mark.parametrize("widened", [False, True])
def test_too_narrow_by_far_is_corrected_as_it_is_and_after_widening(widened):
    rng = np.random.default_rng(0)
    loc = rng.normal(size=600)
    dist, y = Normal(loc, 0.01), rng.normal(loc + 0.3, 1.0)
    before = StdScalingRecalibrator() if widened else "passthrough"
    both = make_pipeline(before, GPBetaRecalibrator()).fit(dist, y)
    assert both[-1].outside_share_ == 0
    covered = (y[:, np.newaxis] <= both.transform(dist).quantile(LEVELS)).mean(axis=0)
    assert_allclose(covered, LEVELS, atol=0.03)


@pytest.mark.parametrize("name", ["gal/gal_energy", "paper001/abalone", "paper001/parkinsons_telemonitoring"])
def test_a_linear_model_of_curved_data_with_growing_spread(shared_data, name):
    """On ten data sets of these folders both beat what comes before them, over three splits each."""
    columns = shared_data(name).select_dtypes("number").to_numpy(float)[:2000]
    train, test = train_test_split(columns, random_state=0)
    model = LeastSquaresRegressor()
    dist = model.fit_transform(train[:, :-1], train[:, -1])  # out of fold
    new = model.predict_dist(test[:, :-1])
    scaling, normal, beta = (
        nll_loss(test[:, -1], recalibrator.fit(dist, train[:, -1]).transform(new))
        for recalibrator in (StdScalingRecalibrator(), GPNormalRecalibrator(), GPBetaRecalibrator())
    )
    assert normal < scaling - 0.01
    assert beta < normal - 0.03


# -------------------------------------------------------------------------------------------- attributes


@pytest.mark.parametrize(("cls", "latents"), zip(ALL, (1, 3, 1), strict=True))
def test_fitted_attributes_are_in_the_units_of_y(cls, latents):
    dist, y, _ = growing_spread(300, 0)
    fitted = cls(n_inducing_points=10).fit(dist, y)
    assert fitted.inducing_points_.shape == (10, 2)
    assert fitted.amplitudes_.shape == (latents,)
    assert fitted.lengthscales_.shape == (2,)
    assert 1 < fitted.n_iter_ < 100
    assert np.isfinite(fitted.elbo_)
    columns = {tuple(row) for row in np.asarray(dist).round(9)}
    assert all(tuple(row) in columns for row in fitted.inducing_points_.round(9))
    other = cls(n_inducing_points=10).fit(Normal(3 + 100 * dist.loc, 100 * dist.scale), 3 + 100 * y)
    assert_allclose(other.inducing_points_, fitted.inducing_points_ * 100 + [3, 0], rtol=1e-9)
    assert_allclose(other.lengthscales_, fitted.lengthscales_ * [100, 1], rtol=1e-5)
    assert_allclose(other.amplitudes_, fitted.amplitudes_, rtol=1e-5)


def test_more_inducing_points_raise_the_bound():
    dist, y, _ = growing_spread(1000, 0)
    bounds = [GPNormalRecalibrator(n_inducing_points=m).fit(dist, y).elbo_ for m in (1, 4, 16)]
    assert bounds[0] < bounds[1] < bounds[2]


# ----------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("cls", [GPNormalRecalibrator, GPBetaRecalibrator])
def test_batches_come_close_and_never_fall_below_their_start(cls):
    whole = cls().fit(*growing_spread(5000, 0)[:2])
    batched = cls(batch_size=300, max_iter=150, random_state=0).fit(*growing_spread(5000, 0)[:2])
    assert batched.n_iter_ == 150
    assert whole.elbo_ - 20 < batched.elbo_ < whole.elbo_ + 1
    one, other = (excess_of_fitted(fitted, growing_spread, 0) for fitted in (batched, whole))
    assert one == pytest.approx(other, abs=0.004)


def test_a_batch_of_all_rows_is_no_batch():
    dist, y, _ = growing_spread(200, 0)
    whole = GPNormalRecalibrator().fit(dist, y).transform(dist).std()
    assert_array_equal(GPNormalRecalibrator(batch_size=200).fit(dist, y).transform(dist).std(), whole)


def test_batches_follow_their_seed():
    dist, y, _ = growing_spread(500, 0)

    def std(seed):
        model = GPNormalRecalibrator(batch_size=50, max_iter=60, random_state=seed)
        return model.fit(dist, y).transform(dist).std()

    assert_array_equal(std(0), std(0))
    assert not np.array_equal(std(0), std(1))


# ------------------------------------------------------------------------------------------------- edges


@few_rows
@every_class
def test_one_row_is_enough(cls):
    after = cls().fit([[1.0, 2.0]], [3.0]).transform([[1.0, 2.0], [50.0, 0.1]])
    assert (np.diff(after.quantile(LEVELS), axis=1) > 0).all()


@every_class
def test_point_masses_stay_and_exact_ones_have_no_weight(cls):
    dist, y, _ = growing_spread(60, 0)
    loc, scale = np.append(dist.loc, 7.0), np.append(dist.scale, 0.0)
    fitted = cls().fit(Normal(loc, scale), np.append(y, 7.0))
    without = cls().fit(dist, y)
    assert_array_equal(fitted.transform(dist).quantile(LEVELS), without.transform(dist).quantile(LEVELS))
    point = fitted.transform(Normal([7.0, 2.0], [0.0, 0.7]))
    # scaled about its mean m by a factor f, a point mass is at m (1 - f) + f m, which rounding moves by a bit
    assert_allclose(point.quantile(LEVELS)[0], 7.0, rtol=4 * np.finfo(float).eps)
    assert (np.diff(point.quantile(LEVELS)[1]) > 0).all()


@few_rows
@every_class
def test_only_exact_point_masses_leave_everything_as_it_is(cls):
    points = Normal([1.0, 2.0], [0.0, 0.0])
    fitted = cls().fit(points, [1.0, 2.0])
    assert fitted.n_iter_ == 0
    assert fitted.inducing_points_.shape == (0, 2)
    assert_array_equal(fitted.transform(points).quantile(LEVELS), np.repeat([[1.0], [2.0]], 5, axis=1))
    assert_array_equal(fitted.predict(points), [1.0, 2.0])


@every_class
def test_residuals_of_zero_raise(cls):
    with pytest.raises(ValueError, match=r"got 0\. In all or most rows, `y` equals the predicted mean"):
        cls().fit(Normal([0.0, 1.0], 1.0), [0.0, 1.0])


@every_class
def test_half_of_the_residuals_may_be_zero(cls):
    dist, y, _ = growing_spread(60, 0)
    y[::2] = dist.loc[::2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a search that a step too far out has spoilt does not converge
        after = cls().fit(dist, y).transform(dist)
    width = np.diff(after.interval(0.5), axis=1) / np.diff(dist.interval(0.5), axis=1)
    assert (width < 100).all()


@every_class
def test_moments_must_be_finite(cls):
    with pytest.raises(ValueError, match="finite mean and standard deviation"):
        cls().fit(StudentT([0.0, 1.0], [1.0, 1.0], 2), [0.5, 1.5])
    dist, y, _ = growing_spread(50, 0)
    fitted = cls().fit(dist, y)
    with pytest.raises(ValueError, match="`dist` must have a finite standard deviation"):
        fitted.transform(StudentT([0.0, 1.0], [1.0, 1.0], 2))


@every_class
def test_too_few_iterations_warn(cls):
    dist, y, _ = growing_spread(200, 0)
    with pytest.warns(ConvergenceWarning, match="Increase `max_iter`"):
        cls(max_iter=1).fit(dist, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cls().fit(dist, y)


@every_class
def test_a_search_that_fails_before_the_last_iteration_gives_other_advice(cls, monkeypatch):
    dist, y, _ = growing_spread(100, 0)
    monkeypatch.setattr("skuq.recalibration._gp.search._climb", lambda *_: None)  # no step leads up
    with pytest.warns(ConvergenceWarning, match=r"after 0 iterations.*More iterations have no effect"):
        cls().fit(dist, y)


@pytest.mark.parametrize(("bias", "narrow"), [(10.0, 1.0), (0.0, 3.0), (0.0, 1 / 50)])
def test_gross_defects_converge(bias, narrow):
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=400), 0.3 + rng.random(400)
    dist, y = Normal(loc, scale / narrow), rng.normal(loc + bias * scale, scale)
    beta = GPBetaRecalibrator().fit(dist, y).transform(dist)
    assert_allclose((y[:, np.newaxis] <= beta.quantile(LEVELS)).mean(axis=0), LEVELS, atol=0.05)
    normal = GPNormalRecalibrator().fit(dist, y).transform(dist)
    assert_allclose(np.mean(((y - loc) / normal.std()) ** 2), 1.0, atol=0.1)


@every_class
def test_extreme_units(cls):
    dist, y, _ = growing_spread(100, 0)
    plain = cls().fit(dist, y).transform(dist).quantile(LEVELS)
    for unit in (1e-150, 1e150):
        scaled = cls().fit(Normal(unit * dist.loc, unit * dist.scale), unit * y)
        after = scaled.transform(Normal(unit * dist.loc, unit * dist.scale))
        assert_allclose(after.quantile(LEVELS) / unit, plain, rtol=1e-6, atol=1e-9)


@every_class
def test_inside_a_regressor_and_a_cross_validation(cls):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + (0.2 + np.abs(X[:, 1])) * rng.normal(size=120)
    model = RecalibratedRegressor(LeastSquaresRegressor(), cls(n_inducing_points=6), random_state=0)
    assert cross_val_score(clone(model), X, y, cv=3, error_score="raise").shape == (3,)
    assert predict_dist(model.fit(X, y), X).interval(0.9).shape == (120, 2)
    assert isinstance(
        predict_dist(model, X), {0: Normal, 1: BetaRecalibrated, 2: StudentT}[ALL.index(cls)] | StudentT
    )


# --------------------------------------------------------------- far from the model's own scale, and atoms


def calibrated_rows(seed=0, n=400):
    """Locations, targets and new targets; both N(location, 1) and as calibrated as n rows can be."""
    rng = np.random.default_rng(seed)
    loc = rng.normal(size=n)
    z = stats.norm.ppf((np.arange(n) + 0.5) / n)
    return loc, loc + rng.permutation(z), loc + rng.permutation(z)


def forecast(family, loc, scale):
    levels = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
    return {
        "normal": lambda: Normal(loc, scale),
        "t3": lambda: StudentT(loc, scale, 3.0),
        "t10": lambda: StudentT(loc, scale, 10.0),
        "quantiles": lambda: Quantiles(levels, Normal(loc, scale).quantile(levels)),
        "mixture": lambda: NormalMixture(np.column_stack([loc, loc]), np.outer(scale, [0.8, 1.17])),
    }[family]()


@pytest.mark.parametrize(
    ("family", "factor"),
    [
        *(("normal", factor) for factor in (1 / 100, 0.4, 8.0, 100.0)),
        *((family, factor) for family in ("t3", "quantiles") for factor in (1 / 100, 100.0)),
        ("t10", 8.0),
        ("mixture", 0.4),
        ("mixture", 100.0),
    ],
)
def test_beta_maps_correct_any_factor_of_the_std(family, factor):
    loc, y, new = calibrated_rows()
    dist = forecast(family, loc, np.full(400, 1 / factor))
    recalibrated = GPBetaRecalibrator().fit(dist, y).transform(dist)
    assert prediction_interval_coverage(new, recalibrated) == pytest.approx(0.9, abs=0.025)
    assert nll_loss(new, recalibrated) < 1.46
    assert_allclose(recalibrated.std(), 1.0, atol=0.4)  # power tails remain power tails
    assert np.median(np.diff(recalibrated.interval(0.9))) == pytest.approx(3.4, abs=0.25)


@pytest.mark.parametrize(
    ("family", "bias"),
    [("normal", -60.0), ("normal", 1000.0), ("t3", 150.0), ("quantiles", -60.0), ("quantiles", 1000.0)],
)
def test_beta_maps_correct_a_bias_of_many_deviations(family, bias):
    loc, y, new = calibrated_rows()
    dist = forecast(family, loc, np.ones(400))
    recalibrated = GPBetaRecalibrator().fit(dist, bias + y).transform(dist)
    assert prediction_interval_coverage(bias + new, recalibrated) == pytest.approx(0.9, abs=0.025)
    assert np.abs(recalibrated.mean() - bias - loc).mean() < 0.15


@pytest.mark.parametrize("per_scale", [False, True])
def test_a_large_bias_may_be_the_same_in_units_of_y_or_of_the_std(per_scale):
    loc, y, new = calibrated_rows()
    scale = 0.3 + np.random.default_rng(1).random(400)
    bias = 150 * scale if per_scale else np.full(400, 150.0)
    dist = Normal(loc, scale)
    recalibrated = GPBetaRecalibrator().fit(dist, loc + bias + scale * (y - loc)).transform(dist)
    observed = loc + bias + scale * (new - loc)
    assert prediction_interval_coverage(observed, recalibrated) == pytest.approx(0.9, abs=0.025)
    assert_allclose(recalibrated.std() / scale, 1.0, atol=0.25)


@pytest.mark.parametrize("factor", [1 / 100, 100.0])
def test_standardizing_leaves_a_transformed_target_in_its_range(factor):
    loc, y, new = calibrated_rows()
    parts = [Transformed(Normal(part, 1 / factor), np.exp, np.log) for part in (loc[:150], loc[150:300])] + [
        Transformed(Normal(-loc[300:], 1 / factor), lambda x: np.exp(-x), lambda y: -np.log(y))
    ]
    dist = concat(parts)
    recalibrated = GPBetaRecalibrator().fit(dist, np.exp(y)).transform(dist)
    assert (recalibrated.cdf(0.0) == 0).all()
    assert prediction_interval_coverage(np.exp(new), recalibrated) == pytest.approx(0.9, abs=0.025)


def test_beta_maps_correct_ensembles_that_are_too_narrow():
    rng = np.random.default_rng(0)
    loc, y, new = calibrated_rows()
    ensemble = Empirical(loc[:, np.newaxis] + 0.01 * rng.normal(size=(400, 60)))
    fitted = GPBetaRecalibrator().fit(ensemble, y)
    assert fitted.outside_share_ < 0.08
    assert prediction_interval_coverage(new, fitted.transform(ensemble)) == pytest.approx(0.9, abs=0.03)


def test_beta_maps_refuse_ensembles_of_too_few_members():
    rng = np.random.default_rng(0)
    ensemble = Empirical(0.01 * rng.normal(size=(300, 6)))
    with pytest.raises(ValueError, match=r"of the rows.*EmpiricalRecalibrator"):
        GPBetaRecalibrator().fit(ensemble, rng.normal(size=300))


@pytest.mark.parametrize("noise", [0.0, 1e-9, 0.01])
@pytest.mark.parametrize("n_others", [0, 1])
def test_beta_maps_refuse_targets_that_hardly_vary(noise, n_others):
    rng = np.random.default_rng(0)
    loc = rng.normal(size=60)
    y = 0.3 + noise * rng.normal(size=60)
    y[:n_others] = -2.0
    with pytest.raises(ValueError, match=r"`y` must vary if the predictions vary.*StdScalingRecalibrator"):
        GPBetaRecalibrator().fit(Normal(loc, 1.0), y)


def test_targets_may_hardly_vary_where_predictions_do_not_or_where_they_are_atoms():
    y = 0.3 + 1e-9 * np.random.default_rng(0).normal(size=60)
    recalibrated = GPBetaRecalibrator().fit(Normal(np.zeros(60), 1.0), y).transform([[0.0, 1.0]])
    assert_allclose(recalibrated.interval(0.9), 0.3, atol=3e-9)
    exact = Quantiles([0.1, 0.5, 0.9], np.tile([3.0, 3.0, 4.0], (60, 1)))
    recalibrated = GPBetaRecalibrator().fit(exact, np.full(60, 3.0)).transform(exact)
    assert (recalibrated.crps(np.full(60, 3.0)) <= exact.crps(np.full(60, 3.0))).all()


def test_beta_maps_leave_exact_forecasts_with_atoms_alone():
    rng = np.random.default_rng(0)
    levels = np.linspace(0.05, 0.95, 19)
    inner = np.where(levels <= 0.4, 0.0, stats.norm.ppf(np.clip((levels - 0.4) / 0.6, 1e-9, 1), 10, 1))
    unit = rng.uniform(0.5, 2, size=1000)
    dist = Quantiles(levels, np.outer(unit, inner))
    y, new = dist.ppf(rng.uniform(size=1000)), dist.ppf(rng.uniform(size=1000))
    recalibrated = GPBetaRecalibrator().fit(dist, y).transform(dist)
    assert recalibrated.crps(new).mean() <= 1.01 * dist.crps(new).mean()
    assert_allclose(recalibrated.cdf(1e-9).mean(), 0.4, atol=0.04)
