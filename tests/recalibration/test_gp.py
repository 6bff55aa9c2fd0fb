"""The Gaussian process recalibrators: what they learn, beside truth and formulas, and edge cases."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from skuq.distributions import Empirical, Normal, NormalMixture, Quantiles, StudentT, Transformed, concat
from skuq.distributions._beta_recalibrated import BetaRecalibrated
from skuq.metrics import nll_loss, prediction_interval_coverage
from skuq.recalibration import (
    GPBetaRecalibrator,
    GPCauchyRecalibrator,
    GPNormalRecalibrator,
    IsotonicRecalibrator,
    StdScalingRecalibrator,
)
from skuq.recalibration._gp_recalibrators import BetaLikelihood, CauchyLikelihood, NormalLikelihood
from skuq.regressors import LeastSquaresRegressor

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


@pytest.mark.parametrize(
    ("unit", "offset"),
    [(1.0, 0.0), pytest.param(1e-3, 0.0, marks=pytest.mark.laws), (1e3, 5e4)],
)
def test_a_width_that_depends_on_the_mean_is_learned(unit, offset):
    corrected, scaled = (
        np.mean([excess(model, growing_spread, 1000, seed, unit=unit, offset=offset) for seed in range(2)])
        for model in (GPNormalRecalibrator(), StdScalingRecalibrator())
    )
    assert corrected <= 0.02
    assert scaled > 0.15


def test_spread_that_depends_on_the_predicted_spread_is_corrected():
    # netcal's kernel, which compares distributions by their overlap, hardly distinguishes these rows
    assert excess(StdScalingRecalibrator(), muted_spread, 1000, 0) > 0.1
    assert excess(GPNormalRecalibrator(), muted_spread, 1000, 0) < 0.01


@pytest.mark.laws
def test_bias_that_depends_on_the_prediction_is_corrected_by_the_beta_map_alone():
    beta = excess(GPBetaRecalibrator(), wandering_bias, 2000, 0)
    assert beta < 0.03
    assert excess(IsotonicRecalibrator(), wandering_bias, 2000, 0) > beta + 0.1
    assert excess(GPNormalRecalibrator(), wandering_bias, 2000, 0) > beta + 0.05


@pytest.mark.laws
def test_skew_of_the_maps_own_form_is_corrected():
    rng = np.random.default_rng(0)
    dist = Normal(rng.normal(size=4000), 1.0)
    y = BetaRecalibrated(dist, 2.0, 0.6, 0.5).sample(1, random_state=0)[:, 0]
    after = GPBetaRecalibrator().fit(dist[:2000], y[:2000]).transform(dist[2000:])
    observed = (y[2000:, np.newaxis] <= after.quantile(LEVELS)).mean(axis=0)
    assert_allclose(observed, LEVELS, atol=0.035)  # three standard errors of 2000 rows
    truth = BetaRecalibrated(dist[2000:], 2.0, 0.6, 0.5)
    assert nll_loss(y[2000:], after) < nll_loss(y[2000:], truth) + 0.02


def test_the_normal_factor_takes_a_bias_for_spread_and_leaves_the_mean():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=2000)
    dist = Normal(loc, 1.0)
    fitted = GPNormalRecalibrator().fit(dist, rng.normal(loc + 2.0, 1.0))
    assert_array_equal(fitted.predict(dist), loc)
    after = fitted.transform(dist)
    assert_allclose(after.mean(), loc, atol=1e-12)
    assert_allclose(after.std(), np.sqrt(5.0), rtol=0.1)


def test_where_one_factor_is_enough_or_far_from_all_rows_it_is_that_factor(dist, y):
    fitted = GPNormalRecalibrator().fit(dist, y)
    assert fitted.amplitudes_[0] < 0.1
    factor = fitted.transform(dist).std() / dist.std()
    assert_allclose(factor, StdScalingRecalibrator().fit(dist, y).factor_, rtol=0.05)
    fitted = GPNormalRecalibrator().fit(*growing_spread(1000, 0)[:2])
    scale = np.array([0.7, 0.7, 1e-9, 1e9])
    factor = fitted.transform(Normal([-1e3, 1e3, 0.0, 0.0], scale)).std() / scale
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


def test_a_beta_map_of_an_ensemble_is_an_ensemble_also_if_it_is_too_narrow():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=300)
    members = Empirical(loc[:, np.newaxis] + rng.normal(size=(300, 30)))
    fitted = GPBetaRecalibrator().fit(members, rng.normal(loc + 0.5, 1.0))
    assert isinstance(fitted.transform(members), Empirical)
    assert fitted.outside_share_ == pytest.approx(2 / 31, abs=0.06)
    assert np.mean(fitted.predict(members) - members.mean()) == pytest.approx(0.5, abs=0.15)
    loc, y, new = calibrated_rows()
    narrow = Empirical(loc[:, np.newaxis] + 0.01 * rng.normal(size=(400, 60)))
    fitted = GPBetaRecalibrator().fit(narrow, y)
    assert fitted.outside_share_ < 0.08
    assert prediction_interval_coverage(new, fitted.transform(narrow)) == pytest.approx(0.9, abs=0.03)


@pytest.mark.laws
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


def test_the_cauchy_scale_is_learned_and_one_gross_outlier_hardly_moves_it():
    rng = np.random.default_rng(0)
    loc = rng.uniform(-3, 3, size=3000)
    y = loc + np.where(loc < 0, 0.2, 1.0) * rng.standard_cauchy(size=3000)
    after = GPCauchyRecalibrator().fit(Normal(loc, 1.0), y).transform(Normal([-2.0, 2.0], 1.0))
    assert isinstance(after, StudentT)
    assert_array_equal(after.df, 1.0)
    assert_allclose(after.scale, [0.2, 1.0], rtol=0.15)
    dist, y, _ = growing_spread(500, 0)
    before = GPCauchyRecalibrator().fit(dist, y).transform(dist[:50]).scale
    y[3] = 1e9
    fitted = GPCauchyRecalibrator().fit(dist, y)
    assert_allclose(fitted.transform(dist[:50]).scale, before, rtol=0.1)
    assert_array_equal(fitted.predict(dist), dist.mean())  # the median, which did not move
    assert_array_equal(fitted.transform(dist).median(), dist.mean())


@pytest.mark.laws
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


# --------------------------------------------------------------------------------------------- likelihoods


def test_the_expected_normal_likelihood_is_its_closed_form():
    z, mean, variance = 1.7, 0.4, 0.3
    value = NormalLikelihood(np.log([z**2])).variational_expectations(
        slice(None), np.array([[mean]]), np.array([[[variance]]])
    )[0]

    def integrand(w):  # of log N(y | 0, exp(w)) at z, without the terms that w does not enter
        return -0.5 * (w + z**2 * np.exp(-w)) * stats.norm.pdf(w, mean, np.sqrt(variance))

    assert_allclose(value[0], integrate.quad(integrand, -12, 12, limit=200)[0], rtol=1e-8)


def test_the_beta_likelihood_is_the_slope_of_the_map():
    level, (w1, w2, w3) = 0.3, (0.2, -0.4, 0.7)
    a, b = np.exp(w1 + w2), np.exp(w1 - w2)

    def beta_map(t):
        return 1 / (1 + np.exp(-(a * np.log(t) - b * np.log(1 - t) + w3)))  # Song et al., eq. 5

    slope = (beta_map(level + 1e-6) - beta_map(level - 1e-6)) / 2e-6
    likelihood = BetaLikelihood(np.log([level]), np.log([1 - level]))
    value, _ = likelihood.at(np.array([w1, w2, w3]).reshape(3, 1, 1))
    assert_allclose(value[0, 0], np.log(slope), rtol=1e-8)


def test_the_cauchy_likelihood_is_that_of_the_scaled_law():
    # E log Cauchy(z | 0, exp(w)) less the terms without w, by brute force against 16 nodes
    z, mean, variance = 2.5, 0.3, 0.2
    value, other = (
        CauchyLikelihood(np.log([z])).variational_expectations(
            slice(None), np.array([[m]]), np.array([[[variance]]])
        )[0]
        for m in (mean, mean + 1)
    )
    draws = mean + np.sqrt(variance) * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    direct, moved = (stats.cauchy.logpdf(z, scale=np.exp(draws + m)).mean() for m in (0, 1))
    assert_allclose(other[0] - value[0], moved - direct, rtol=1e-4)


def test_the_posterior_average_of_the_beta_map_is_that_of_many_draws():
    dist, y, _ = growing_spread(200, 0)
    recalibrator = GPBetaRecalibrator().fit(dist, y)
    new = Normal([-1.5, 0.0, 2.0], 0.7)
    mean, covariance = recalibrator._process.at(new.mean(), new.std())
    rng = np.random.default_rng(1)
    at = new.mean() + 0.5
    log_lower, log_upper = stats.norm.logcdf(0.5 / 0.7), stats.norm.logsf(0.5 / 0.7)
    for row in range(3):
        w = rng.multivariate_normal(mean[:, row], covariance[:, :, row], size=100_000).T
        z = np.exp(w[0] + w[1]) * log_lower - np.exp(w[0] - w[1]) * log_upper + w[2]
        assert_allclose(recalibrator.transform(new).cdf(at)[row], (1 / (1 + np.exp(-z))).mean(), atol=2e-3)


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


# ----------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize(
    "cls", [GPNormalRecalibrator, pytest.param(GPBetaRecalibrator, marks=pytest.mark.laws)]
)
def test_batches_come_close_and_never_fall_below_their_start(cls):
    whole = cls().fit(*growing_spread(5000, 0)[:2])
    batched = cls(batch_size=300, max_iter=150, random_state=0).fit(*growing_spread(5000, 0)[:2])
    assert batched.n_iter_ == 150
    assert whole.elbo_ - 20 < batched.elbo_ < whole.elbo_ + 1
    one, other = (excess_of_fitted(fitted, growing_spread, 0) for fitted in (batched, whole))
    assert one == pytest.approx(other, abs=0.004)


def test_batches_follow_their_seed_and_a_batch_of_all_rows_is_no_batch():
    dist, y, _ = growing_spread(200, 0)

    def std(**options):
        return GPNormalRecalibrator(**options).fit(dist, y).transform(dist).std()

    batches = {"batch_size": 50, "max_iter": 60}
    assert_array_equal(std(**batches, random_state=0), std(**batches, random_state=0))
    assert not np.array_equal(std(**batches, random_state=0), std(**batches, random_state=1))
    assert_array_equal(std(batch_size=200), std())


# ------------------------------------------------------------------------------------------------- edges


@every_class
def test_rows_and_options_that_cannot_be_used_are_named(cls):
    dist, y, _ = growing_spread(50, 0)
    with pytest.raises(ValueError, match=r"got 0\. In all or most rows, `y` equals the predicted mean"):
        cls().fit(Normal([0.0, 1.0], 1.0), [0.0, 1.0])
    with pytest.raises(ValueError, match="`dist` must have a finite standard deviation"):
        cls().fit(dist, y).transform(StudentT([0.0, 1.0], [1.0, 1.0], 2))
    for options, error, message in (
        ({"n_inducing_points": 0}, ValueError, "`n_inducing_points` must be at least 1"),
        ({"batch_size": 2.5}, TypeError, "`batch_size` must be an integer"),
        ({"max_iter": 0}, ValueError, "`max_iter` must be at least 1"),
    ):
        with pytest.raises(error, match=message):
            cls(**options).fit(dist, y)


@every_class
def test_predictions_that_do_not_vary_or_hardly_vary(cls):
    rng = np.random.default_rng(0)
    loc = rng.normal(size=400)
    y = rng.normal(loc, 0.3 + 0.5 * np.abs(loc))
    new = Normal(np.linspace(-2, 2, 5), 0.7)
    plain = cls().fit(Normal(loc, 0.7), y).transform(new).quantile([0.1, 0.9])
    jitter = 1 + 1e-9 * rng.normal(size=400)
    noisy = cls().fit(Normal(loc, 0.7 * jitter), y).transform(new).quantile([0.1, 0.9])
    assert_allclose(noisy, plain, rtol=1e-4)
    for center, scale in ((np.zeros(100), 0.5 + rng.random(100)), (np.zeros(100), np.ones(100))):
        dist = Normal(center, scale)
        after = cls().fit(dist, rng.normal(center, scale)).transform(dist)
        assert np.isfinite(after.quantile([0.05, 0.5, 0.95])).all()


@every_class
def test_half_of_the_residuals_may_be_zero(cls):
    dist, y, _ = growing_spread(60, 0)
    y[::2] = dist.loc[::2]
    after = cls().fit(dist, y).transform(dist)  # a search that a step too far out has spoilt warns
    width = np.diff(after.interval(0.5), axis=1) / np.diff(dist.interval(0.5), axis=1)
    assert (width < 100).all()


@every_class
def test_a_search_that_ends_early_warns_with_advice_that_helps(cls, monkeypatch):
    dist, y, _ = growing_spread(200, 0)
    with pytest.warns(ConvergenceWarning, match="Increase `max_iter`"):
        cls(max_iter=1).fit(dist, y)
    cls().fit(dist, y)  # warnings are errors: none is given
    monkeypatch.setattr("skuq.recalibration._gp_fit._climb", lambda *_: None)  # no step leads up
    with pytest.warns(ConvergenceWarning, match=r"after 0 iterations.*More iterations have no effect"):
        cls().fit(dist, y)


@every_class
def test_extreme_units(cls):
    dist, y, _ = growing_spread(100, 0)
    plain = cls().fit(dist, y).transform(dist).quantile(LEVELS)
    for unit in (1e-150, 1e150):
        scaled = cls().fit(Normal(unit * dist.loc, unit * dist.scale), unit * y)
        after = scaled.transform(Normal(unit * dist.loc, unit * dist.scale))
        assert_allclose(after.quantile(LEVELS) / unit, plain, rtol=1e-6, atol=1e-9)


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
        ("normal", 100.0),
        ("quantiles", 1 / 100),
        *(pytest.param("normal", factor, marks=pytest.mark.laws) for factor in (1 / 100, 0.4, 8.0)),
        *(pytest.param("t3", factor, marks=pytest.mark.laws) for factor in (1 / 100, 100.0)),
        pytest.param("quantiles", 100.0, marks=pytest.mark.laws),
        pytest.param("t10", 8.0, marks=pytest.mark.laws),
        *(pytest.param("mixture", factor, marks=pytest.mark.laws) for factor in (0.4, 100.0)),
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
    [
        ("normal", 1000.0),
        *(pytest.param(family, -60.0, marks=pytest.mark.laws) for family in ("normal", "quantiles")),
        pytest.param("t3", 150.0, marks=pytest.mark.laws),
        pytest.param("quantiles", 1000.0, marks=pytest.mark.laws),
    ],
)
def test_beta_maps_correct_a_bias_of_many_deviations(family, bias):
    loc, y, new = calibrated_rows()
    dist = forecast(family, loc, np.ones(400))
    recalibrated = GPBetaRecalibrator().fit(dist, bias + y).transform(dist)
    assert prediction_interval_coverage(bias + new, recalibrated) == pytest.approx(0.9, abs=0.025)
    assert np.abs(recalibrated.mean() - bias - loc).mean() < 0.15


def test_a_large_bias_may_be_the_same_in_units_of_the_std():
    loc, y, new = calibrated_rows()
    scale = 0.3 + np.random.default_rng(1).random(400)
    dist = Normal(loc, scale)
    recalibrated = GPBetaRecalibrator().fit(dist, loc + scale * (150 + y - loc)).transform(dist)
    observed = loc + scale * (150 + new - loc)
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


def test_rows_outside_an_ensemble_are_counted_and_too_many_are_refused():
    rng = np.random.default_rng(0)
    members, y = rng.normal(size=(400, 60)), rng.normal(size=400)
    outside = np.mean((y < members.min(axis=1)) | (y > members.max(axis=1)))
    assert GPBetaRecalibrator().fit(Empirical(members), y).outside_share_ == outside > 0
    message = r"in .* of the rows, `y` is outside the support.*EmpiricalRecalibrator"
    for few in (Empirical(members[:, :5]), Empirical(0.01 * members[:, :6])):
        with pytest.raises(ValueError, match=message):
            GPBetaRecalibrator().fit(few, 2 * y)


def test_targets_may_hardly_vary_only_where_predictions_do_not_or_where_they_are_atoms():
    rng = np.random.default_rng(0)
    loc, noise = rng.normal(size=(2, 60))
    for size, n_others in itertools.product((0.0, 1e-9, 0.01), (0, 1)):
        y = 0.3 + size * noise
        y[:n_others] = -2.0
        with pytest.raises(ValueError, match=r"`y` must vary if the predictions.*StdScalingRecalibrator"):
            GPBetaRecalibrator().fit(Normal(loc, 1.0), y)
    fitted = GPBetaRecalibrator().fit(Normal(np.zeros(60), 1.0), 0.3 + 1e-9 * noise)
    assert_allclose(fitted.transform(Normal([0.0], 1.0)).interval(0.9), 0.3, atol=3e-9)
    exact = Quantiles([0.1, 0.5, 0.9], np.tile([3.0, 3.0, 4.0], (60, 1)))
    recalibrated = GPBetaRecalibrator().fit(exact, np.full(60, 3.0)).transform(exact)
    assert (recalibrated.crps(np.full(60, 3.0)) <= exact.crps(np.full(60, 3.0))).all()


@pytest.mark.laws
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
