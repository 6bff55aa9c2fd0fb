"""Input at the edge of what floats and memory hold gives a clear error or a right number, never a raw one."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge, QuantileRegressor, Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.conformal import ConformalRecalibrator, ConformalRegressor
from skuq.distributions import (
    Empirical,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    concat,
)
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.evaluation import (
    bootstrap_interval,
    conditional_coverage_estimate,
    paired_permutation_test,
    uncertainty_report,
)
from skuq.metrics import (
    adversarial_group_calibration_curve,
    conditional_coverage,
    crps_loss,
    pinball_loss,
    reliability_table,
    set_coverage_score,
    worst_slab_coverage,
)
from skuq.metrics._spec import all_specs
from skuq.model_selection import cross_val_predict_dist
from skuq.monitoring import CoverageMonitor, MetricAccumulator, PITMonitor
from skuq.prediction import predict_dist
from skuq.recalibration import BinnedScalingRecalibrator, StdScalingRecalibrator, VarianceIsotonicRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    ForestDistributionRegressor,
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from tests.metrics.options import forecast_specs, required

N = 80
RNG = np.random.default_rng(13)
STD = np.exp(0.3 * RNG.normal(size=N))
DIST = Normal(np.zeros(N), STD)
Y = STD**2 * RNG.normal(size=N)
SMALL = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")


def forecast_for(spec):
    return DIST.interval(0.9) if spec.needs == "interval" else DIST


# ---------------------------------------------------------------------------------------- weights


@SMALL
def test_weights_out_of_range_raise_and_large_weights_count(subtests):
    for name in sorted(forecast_specs()):
        spec = all_specs()[name]
        metric = partial(spec.function, Y, forecast_for(spec), **required(spec))
        with subtests.test(name):
            with pytest.raises(ValueError, match="`sample_weight`"):
                metric(sample_weight=np.full(N, 5e-324))
            if name == "agce":  # which draws whole rows
                with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
                    metric(sample_weight=np.full(N, 1e90))
            else:
                assert metric(sample_weight=np.full(N, 1e90)) == pytest.approx(metric(), rel=1e-9)
    for weight in (1e300, 1.7e308, 1e-300, 5e-324):
        with pytest.raises(ValueError, match="`sample_weight`"):
            crps_loss(Y, DIST, sample_weight=np.full(N, weight))


def test_one_weight_may_be_tiny_beside_others():
    weight = np.ones(N)
    weight[3] = 1e-300
    rest = np.arange(N) != 3
    assert crps_loss(Y, DIST, sample_weight=weight) == pytest.approx(
        crps_loss(Y[rest], DIST[rest]), rel=1e-12
    )


def test_weights_with_a_mean_of_1_may_have_a_smaller_mean_on_a_fold():
    X = RNG.normal(size=(N, 2))
    weight = np.where(RNG.permutation(N) < N // 2, 0.05, 1.95)
    model = ResidualRegressor(Ridge())
    cross_val_predict_dist(model, X, Y, cv=KFold(3), params={"sample_weight": weight})
    small = weight < 1
    with pytest.raises(ValueError, match=r"must be at least 20, half of the number of rows .* Got 2"):
        model.fit(X[small], Y[small], sample_weight=weight[small])


@pytest.mark.parametrize("estimator", [LeastSquaresRegressor(), ResidualRegressor(Ridge())])
def test_regressors_refuse_weights_out_of_range(estimator):
    with pytest.raises(ValueError, match=r"`sample_weight` must have a sum between .*, got inf"):
        estimator.fit(STD[:, np.newaxis], Y, sample_weight=np.full(N, 1e307))


def test_resamples_refuse_more_repetitions_than_can_be_drawn():
    weight = np.full(N, 1e20)
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        bootstrap_interval(Y, DIST, "crps", sample_weight=weight, n_resamples=10)
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        paired_permutation_test(Y, DIST, DIST, "crps", sample_weight=weight)
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        adversarial_group_calibration_curve(Y, DIST, sample_weight=np.full(N, 1e8))


# ------------------------------------------------------------------------------------------ units


def test_a_variance_that_is_no_number_raises():
    for unit, word in ((1e200, "large"), (1e-200, "small")):
        with pytest.raises(ValueError, match=f"squares are too {word} for a float"):
            VarianceIsotonicRecalibrator().fit(Normal(np.zeros(N), unit * STD), unit * Y)


# ------------------------------------------------------------------------------- scipy's families


@pytest.mark.parametrize(
    ("frozen", "error", "message"),
    [
        (stats.norm(loc=np.inf), ValueError, "`loc` must be finite, got inf"),
        (
            stats.norm(loc=[0.0, 1.0], scale=[1.0, np.inf]),
            ValueError,
            "`scale` must be finite, .* row 1",
        ),
        (stats.gamma(a=np.inf), ValueError, "must have valid parameters"),
        (stats.gamma(a=[1.0, np.nan]), ValueError, "must have valid parameters"),
        (stats.poisson(mu=[2.0, np.inf]), ValueError, "must have valid parameters.* row 1"),
        (stats.norm(loc=np.array(["a", None], dtype=object)), TypeError, "`loc` must hold real numbers"),
        (stats.norm(loc=np.array([1j, 2.0])), TypeError, "`loc` must hold real numbers"),
        (stats.norm(loc=np.ma.array([1.0, 2.0], mask=[0, 1])), ValueError, "`loc` must not have masked"),
    ],
    ids=lambda value: getattr(value, "kwds", None) and str(list(value.kwds)),
)
def test_parameters_of_scipy_families_are_checked(frozen, error, message):
    with pytest.raises(error, match=message):
        ScipyDistribution(frozen)


def test_infinite_parameters_that_mean_something_pass():
    half = ScipyDistribution(stats.truncnorm(a=[0.0, -1.0], b=np.inf))
    np.testing.assert_allclose(half.cdf(1.0), stats.truncnorm([0.0, -1.0], np.inf).cdf(1.0))
    np.testing.assert_allclose(ScipyDistribution(stats.t(np.inf)).std(), 1.0)
    numbers = ScipyDistribution(stats.norm(loc=np.array([1, 2.5], dtype=object)))
    np.testing.assert_array_equal(numbers.mean(), [1.0, 2.5])


# ------------------------------------------------------------------------- functions of the user


def test_a_metric_without_weights_is_named():
    def unweighted(y_true, y_pred):
        return 0.0

    def positional(y_true, y_pred, sample_weight, /):
        return 0.0

    for metric in (unweighted, positional, lambda y, dist, *, weight=None: 0.0):
        with pytest.raises(
            TypeError, match=r"must have the argument `sample_weight`, but .* does not have it"
        ):
            bootstrap_interval(Y, DIST, metric)
        with pytest.raises(TypeError, match="`metric` must have the argument `sample_weight`"):
            paired_permutation_test(Y, DIST, DIST, metric)


def test_a_metric_with_weights_passes():
    for metric in (lambda y, dist, sample_weight=None: 1.0, lambda y, dist, **options: 1.0):
        assert bootstrap_interval(Y, DIST, metric, n_resamples=10, random_state=0).value == 1.0


# ------------------------------------------------------------------------------------------ seeds

COLUMN = STD[:, np.newaxis]
REGRESSORS = [
    BootstrapRegressor(Ridge(), 3),
    ConformalRegressor(Ridge()),
    ForestDistributionRegressor(RandomForestRegressor(20)),
    LeastSquaresRegressor(),
    MultiQuantileRegressor(QuantileRegressor(), [0.2, 0.8]),
    RecalibratedRegressor(BayesianRidge()),
    ResidualRegressor(Ridge()),
    UncertaintyRegressor(Ridge()),
]


def test_a_generator_is_no_random_state(subtests):
    calls = {
        "sample": partial(DIST.sample, 2),
        "bootstrap": partial(bootstrap_interval, Y, DIST, "crps"),
        "permutation": partial(paired_permutation_test, Y, DIST, DIST, "crps"),
        "groups": partial(adversarial_group_calibration_curve, Y, DIST),
        "folds": partial(conditional_coverage_estimate, Y, DIST, COLUMN),
        "slabs": partial(worst_slab_coverage, Y, DIST, COLUMN),
    }
    for model in REGRESSORS:
        if "random_state" in model.get_params():
            calls[type(model).__name__] = lambda random_state, model=model: (
                clone(model).set_params(random_state=random_state).fit(COLUMN, Y)
            )
    for name, call in calls.items():
        with subtests.test(name):
            for value, message in (
                (np.random.default_rng(0), r".* got a numpy Generator.*Draw an int"),
                ("seed", r"an int .* got 'seed'"),
                (-1, r"an int .* got -1"),
            ):
                with pytest.raises(ValueError, match=f"`random_state` must be {message}"):
                    call(random_state=value)


# ------------------------------------------------------------------------------------------- bins


@SMALL
def test_bins_and_levels_beyond_all_rows_are_not_allocated():
    for name in ("ence", "uce", "qce"):
        function = all_specs()[name].function
        for strategy in ("quantile", "uniform"):
            with pytest.raises(ValueError, match="`n_bins` must be at most 1000 for 80 rows, got 1000000000"):
                function(Y, DIST, n_bins=10**9, strategy=strategy)
            assert np.isfinite(function(Y, DIST, n_bins=200, strategy=strategy))
    for call in (
        partial(reliability_table, n_bins=10**9),
        partial(conditional_coverage, feature=STD, n_bins=10**9),
        lambda y, dist: BinnedScalingRecalibrator(n_bins=10**9).fit(dist, y),
    ):
        with pytest.raises(ValueError, match="`n_bins` must be at most"):
            call(Y, DIST)
    with pytest.raises(ValueError, match="`group_by` must be at most"):
        ConformalRecalibrator(group_by=10**9).fit(DIST, Y)
    for name in ("mace", "rmsce", "miscal_area", "cals", "agce"):
        with pytest.raises(ValueError, match="`levels` must be at most 1000000 levels, got 1000000000"):
            all_specs()[name].function(Y, DIST, levels=10**9)


# -------------------------------------------------------------------------------------- masked arrays

MASKED = np.ma.array(Y, mask=np.arange(N) == 7)
UNMASKED = np.ma.array(Y, mask=False)
TABLE = np.ma.array([[1.0, 2.0]], mask=[[False, True]])
MASKED_ENTRIES = {
    "y_true": lambda: crps_loss(MASKED, DIST),
    "sample_weight": lambda: crps_loss(Y, DIST, sample_weight=np.abs(MASKED)),
    "loc": lambda: Normal(MASKED, 1.0),
    "df": lambda: StudentT(0.0, 1.0, np.abs(MASKED)),
    "members": lambda: Empirical(TABLE),
    "scores": lambda: ConformalPredictive(0.0, 1.0, MASKED),
    "values": lambda: Quantiles([0.2, 0.8], TABLE),
    "levels": lambda: Quantiles(np.ma.array([0.2, 0.8], mask=[0, 1]), [[1.0, 2.0]]),
    "weights": lambda: NormalMixture([[1.0, 2.0]], 1.0, TABLE[0]),
    "p": lambda: DIST.ppf(np.ma.array(np.full(N, 0.3), mask=MASKED.mask)),
    "coverage": lambda: DIST.interval(np.ma.array([0.3, 0.4], mask=[1, 0])),
    "y": lambda: StdScalingRecalibrator().fit(DIST, MASKED),
    "y of a regressor": lambda: LeastSquaresRegressor().fit(STD[:, np.newaxis], MASKED),
    "y_pred": lambda: all_specs()["mpiw"].function(
        Y, np.ma.array(DIST.interval(), mask=np.tile(STD[:, None] > 1, 2))
    ),
    "y_pred of resamples": lambda: bootstrap_interval(
        Y, np.ma.array(DIST.interval(), mask=np.tile(STD[:, None] > 1, 2)), "mpiw"
    ),
}


def test_masked_entries_raise(subtests):
    for name, call in MASKED_ENTRIES.items():
        message = f"`{name.split()[0]}` must not have masked entries, got"
        with subtests.test(name), pytest.raises(ValueError, match=message):
            call()


def test_masked_arrays_without_masked_entries_pass():
    assert crps_loss(UNMASKED, DIST, sample_weight=np.abs(UNMASKED)) == crps_loss(
        Y, DIST, sample_weight=np.abs(Y)
    )
    np.testing.assert_array_equal(Normal(UNMASKED, 1.0).mean(), Y)
    shared = SharedEmpirical(0.0, 1.0, UNMASKED)
    assert type(Mixture([shared, shared]).ppf(0.5)) is np.ndarray


MASKED_X = np.ma.array(COLUMN, mask=np.arange(N)[:, np.newaxis] == 7)
NO_MASK = "`X` must not have masked entries, got 1, first at row 7, column 0"


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
def test_masked_features_raise_in_fit_and_in_prediction(model):
    with pytest.raises(ValueError, match=NO_MASK):
        clone(model).fit(MASKED_X, Y)
    with pytest.raises(ValueError, match=NO_MASK):
        clone(model).fit_transform(MASKED_X, Y)
    fitted = clone(model).fit(COLUMN, Y)
    for method in ("predict", "predict_dist", "predict_interval", "transform"):
        with pytest.raises(ValueError, match=NO_MASK):
            getattr(fitted, method)(MASKED_X)
    unmasked = np.ma.array(COLUMN, mask=False)
    np.testing.assert_array_equal(fitted.predict_interval(unmasked), fitted.predict_interval(COLUMN))
    assert np.isfinite(clone(model).fit(unmasked, Y).predict(COLUMN)).all()


def test_masked_features_raise_with_other_packages_models():
    fitted = make_pipeline(StandardScaler(), BayesianRidge()).fit(COLUMN, Y)
    with pytest.raises(ValueError, match=NO_MASK):
        predict_dist(fitted, MASKED_X)
    with pytest.raises(ValueError, match=NO_MASK):
        cross_val_predict_dist(BayesianRidge(), MASKED_X, Y)
    with pytest.raises(ValueError, match=NO_MASK):
        ConformalRegressor(Ridge()).fit(COLUMN, Y).partial_fit(MASKED_X, Y)


# ------------------------------------------------------------------------------------- kinds of input

RAGGED = [[1.0, 2.0], [1.0]]
LABELS = np.arange(N) % 2
CLASSES = np.tile([[0.3, 0.7]], (N, 1))
X = np.column_stack([STD, Y])


KINDS = [
    (lambda: Normal([10**400], 1.0), ValueError, "`loc` must hold numbers up to 1.8e308"),
    (lambda: crps_loss([10**400] * N, DIST), ValueError, "`y_true` must hold numbers up to"),
    (lambda: DIST.interval(10**400), ValueError, "`coverage` must hold numbers up to"),
    (lambda: Normal(RAGGED, 1.0), ValueError, "`loc` must have rows of one length"),
    (lambda: pinball_loss(Y, DIST, levels=RAGGED), ValueError, "`levels` must have rows of one length"),
    (lambda: MetricAccumulator(levels=RAGGED), ValueError, "`levels` must have rows of one length"),
    (lambda: MetricAccumulator(levels="ninety"), TypeError, "`levels` must hold real numbers"),
    (lambda: CoverageMonitor().update(Y, RAGGED), ValueError, "`y_pred` must have rows of one length"),
    (lambda: PITMonitor().update(RAGGED, DIST), ValueError, "`y_true` must have rows of one length"),
    (lambda: uncertainty_report(Y, RAGGED), ValueError, "`y_pred` must have rows of one length"),
    (lambda: set_coverage_score(RAGGED, CLASSES), ValueError, "`y_true` must have rows of one length"),
    (lambda: set_coverage_score(LABELS, RAGGED), ValueError, "`y_pred` must have rows of one length"),
    (
        lambda: set_coverage_score(np.zeros(N, [("a", float)]), CLASSES),
        TypeError,
        r"`y_true` must hold one label per row, got records with fields \('a',\)",
    ),
    (lambda: conditional_coverage(Y, DIST, groups=RAGGED), ValueError, "`groups` must have rows of one"),
    (lambda: ResidualRegressor(Ridge()).fit(X, RAGGED), ValueError, "`y` must have rows of one length"),
    (
        lambda: bootstrap_interval(Y, np.array(1.0), "crps"),
        TypeError,
        r"`y_pred` must be a Distribution, got ndarray of shape \(\)",
    ),
    (lambda: concat(np.array(1.0)), TypeError, "`parts` must be a sequence of distributions"),
    (lambda: Mixture(np.array(1.0)), TypeError, "`components` must be a sequence of distributions"),
]


def test_arrays_of_a_wrong_kind_are_named(subtests):
    for call, error, message in KINDS:
        with subtests.test(message), pytest.raises(error, match=message):
            call()


def test_options_of_a_wrong_kind_raise():
    for options in (3.0, "crps", np.ones(3), [1, 2], pd.DataFrame({"a": [1]})):
        for call in (
            partial(MetricAccumulator, "crps"),
            partial(uncertainty_report, Y, DIST),
            partial(bootstrap_interval, Y, DIST, "crps"),
            partial(paired_permutation_test, Y, DIST, DIST, "crps"),
        ):
            with pytest.raises(TypeError, match="`options` must be a mapping of names to values, got"):
                call(options=options)
    for curves in (None, 3.0, np.array(1.0), "calibration", Normal):
        with pytest.raises(TypeError, match="`curves` must be a sequence of names, got"):
            MetricAccumulator("crps", curves=curves)
    for estimator in (None, 3.0, "ridge", [], Ridge):
        with pytest.raises(TypeError, match="`estimator` must be an instance with a method `fit`, got"):
            cross_val_predict_dist(estimator, X, Y)


def test_folds_that_are_no_pairs_of_rows_raise():
    wrong = [np.ones(3), ["a", "b"], {1, 2}, range(3), np.ones((2, 3)), np.array(5), [([0], [1], [2])]]
    for cv in (*wrong, {"a": 1}):
        for call in (
            ResidualRegressor(Ridge(), cv=cv).fit,
            partial(cross_val_predict_dist, BayesianRidge(), cv=cv),
        ):
            with pytest.raises(
                TypeError, match=r"`cv` must contain pairs \(train, test\) of row indices, got"
            ):
                call(X, Y)


def test_features_of_a_wrong_kind_are_named():
    for model in (ResidualRegressor(Ridge()), ConformalRegressor(Ridge())):
        fitted = clone(model).fit(X, Y)
        for empty, error, message in (
            ([], ValueError, "must have at least one row, got an empty list"),
            ((), ValueError, "must have at least one row, got an empty tuple"),
            ({"a": Y}, TypeError, r"must be an array or DataFrame, got dict. Pass `pd.DataFrame\(X\)`"),
        ):
            for call in (
                lambda X, model=model: clone(model).fit(X, Y),
                fitted.predict_dist,
                fitted.predict,
                partial(predict_dist, fitted),
            ):
                with pytest.raises(error, match=f"`X` {message}"):
                    call(empty)


def test_groups_may_be_of_half_precision():
    groups = np.repeat([0.5, 1.5], [3, N - 3])
    table = conditional_coverage(Y, DIST, groups=groups.astype(np.float16))
    pd.testing.assert_frame_equal(table, conditional_coverage(Y, DIST, groups=groups))


def test_a_sparse_array_of_keys_is_no_mapping():
    model = ResidualRegressor(Ridge(), random_state=0).fit(sparse.dok_array(X), Y)
    expected = clone(model).fit(sparse.csr_array(X), Y).predict(sparse.csr_array(X))
    np.testing.assert_allclose(model.predict(sparse.dok_array(X)), expected)
