import re
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skuq
from skuq.conformal import ConformalRegressor
from skuq.distributions import Empirical, Normal, ScipyDistribution, StudentT
from skuq.exceptions import NoDecompositionError, NotProbabilisticError, SmallSampleWarning
from skuq.regressors import BootstrapRegressor, LeastSquaresRegressor
from skuq.simulation import KnownProcess, _fits, make_known_process, simulate_coverage
from tests.simulation.processes import Oracle, Recorder, line, linear_process, uniform

pytestmark = pytest.mark.filterwarnings("ignore:coverage at a row:skuq.exceptions.SmallSampleWarning")


def study(estimator, process=None, n_simulations=5, **options):
    process = linear_process() if process is None else process
    return simulate_coverage(
        estimator, process, **{"n_simulations": n_simulations, "random_state": 0} | options
    )


# -------------------------------------------------------------------------------------------- exact values


TRUTHS = {
    "normal": line,
    "t": lambda X: StudentT(X[:, 0], 0.5, 3.0),
    "gamma": lambda X: ScipyDistribution(stats.gamma(2.0, loc=X[:, 0])),
}


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=list(TRUTHS))
def test_coverage_at_a_row_is_exact_for_the_truth_and_that_of_sampled_targets(truth):
    process = KnownProcess(truth, uniform, n_train=5, n_test=30, random_state=0)
    result = study(Oracle(truth), process, coverage=[0.5, 0.9])
    assert_allclose(result.picf, np.broadcast_to([0.5, 0.9], (30, 2)), atol=1e-12)
    assert_allclose(result.brier_score(), 0, atol=1e-20)
    assert_allclose(result.bias, 0, atol=1e-12)
    process = KnownProcess(truth, uniform, n_train=5, n_test=10, random_state=0)
    wrong = Oracle(lambda X: Normal(X[:, 0] + 0.2, 0.4))
    result = study(wrong, process, n_simulations=2, coverage=0.8)
    y, bounds = process.truth_.sample(10_000, 0), wrong.predict_dist(process.X_test_).interval(0.8)
    sampled = ((bounds[:, :1] <= y) & (y <= bounds[:, 1:])).mean(axis=1)
    assert_allclose(result.picf, sampled, atol=4 * 0.5 / 100)


def test_a_target_on_the_lower_bound_is_covered():
    def truth(X):
        return Empirical(np.column_stack([X[:, 0], X[:, 0] + 1.0, X[:, 0] + 2.0, X[:, 0] + 3.0]))

    process = KnownProcess(truth, lambda n, rng: rng.integers(0, 9, size=(n, 1)), n_train=5, n_test=10)
    inner = Oracle(lambda X: Empirical(np.column_stack([X[:, 0] + 1.0, X[:, 0] + 2.0])))
    assert_allclose(study(inner, process).picf, 0.5)
    assert_allclose(study(Oracle(truth), process).picf, 1.0)


def test_units_change_widths_and_nothing_else():
    other = KnownProcess(
        lambda X: Normal(5 + 2 * X[:, 0], 0.2), uniform, n_train=25, n_test=50, random_state=0
    )
    before, after = (study(LeastSquaresRegressor(), process) for process in (linear_process(), other))
    assert_allclose(after.prediction_coverage, before.prediction_coverage, atol=1e-9)
    assert_array_equal(after.confidence_coverage, before.confidence_coverage)
    assert_allclose(after.prediction_width, 2 * before.prediction_width)
    assert_allclose(after.bias, 2 * before.bias, atol=1e-9)


# --------------------------------------------------------------------------------------------------- seeds


def test_every_simulation_has_its_own_seeds_nested_ones_too():
    estimator = Recorder(random_state=7, inner=Recorder(random_state=7))
    result = study(estimator, n_simulations=6)
    again = study(estimator, n_simulations=6)
    assert estimator.random_state == estimator.inner.random_state == 7
    assert_array_equal(result.spread, again.spread)
    assert (result.spread[:2] > 1e6).all()  # seeds are spread over 31 bits
    assert_array_equal(result.spread[3:], 0)


def test_the_first_simulations_are_those_of_a_smaller_study():
    small, large = (study(BayesianRidge(), n_simulations=n) for n in (4, 9))
    assert_array_equal(large.prediction_coverage[:4], small.prediction_coverage)
    assert_array_equal(large.confidence_coverage[:4], small.confidence_coverage)


def test_the_seed_of_training_leaves_the_data_alone():
    one, other = (study(Recorder(), random_state=seed, n_simulations=3) for seed in (0, 1))
    assert one.spread[0] != other.spread[0]
    assert one.spread[2] == other.spread[2]
    assert one.spread[2] == pytest.approx(
        np.std([linear_process().training_set(s)[1][0] for s in range(3)], ddof=1)
    )


@pytest.mark.laws
def test_jobs_change_no_number():
    estimator = BootstrapRegressor(LinearRegression(), 10)
    one, two = (study(estimator, n_jobs=n_jobs) for n_jobs in (1, 2))
    for name in ("prediction_coverage", "confidence_coverage", "prediction_width", "bias", "spread"):
        assert_array_equal(getattr(one, name), getattr(two, name))


# ---------------------------------------------------------------------------------------------- the result


def test_single_coverages_have_no_axis():
    one, many = (study(LeastSquaresRegressor(), coverage=c) for c in (0.8, [0.8]))
    assert one.prediction_coverage.shape == one.confidence_coverage.shape == (5, 50)
    assert many.prediction_coverage.shape == many.confidence_coverage.shape == (5, 50, 1)
    assert_array_equal(one.prediction_width, many.prediction_width[:, 0])
    assert one.coverage == 0.8
    assert_array_equal(many.coverage, [0.8])


def test_bias_and_both_spreads_are_those_of_the_fits():
    process = linear_process()
    fits = [LeastSquaresRegressor().fit(*process.training_set(s)) for s in range(5)]
    dists = [fit.predict_dist(process.X_test_) for fit in fits]
    result = study(LeastSquaresRegressor(), process)
    means = np.array([dist.mean() for dist in dists])
    assert_allclose(result.bias, means.mean(axis=0) - process.X_test_[:, 0], atol=1e-14)
    assert_allclose(result.spread, means.std(axis=0, ddof=1))
    assert_allclose(result.claimed_spread, np.mean([dist.epistemic().std() for dist in dists], axis=0))
    assert_allclose(
        result.confidence_width,
        np.mean([np.diff(dist.epistemic().interval(0.9), axis=1)[:, 0] for dist in dists], axis=0),
    )


def test_least_squares_covers_at_each_x_and_bayesian_ridge_does_not():
    process = linear_process(n_test=20)
    exact = study(LeastSquaresRegressor(), process, n_simulations=200, coverage=0.8)
    assert abs(exact.picp.mean() - 0.8) < 4 * exact.picp.std() / 200**0.5
    assert abs(exact.cicp.mean() - 0.8) < 4 * exact.cicp.std() / 200**0.5
    ridge = study(BayesianRidge(), process, n_simulations=200, coverage=0.8)
    assert 0.73 < ridge.picf.mean() < 0.79
    assert 0.4 < ridge.cicf.mean() < 0.6  # its intercept has no uncertainty
    assert ridge.claimed_spread.mean() < 0.7 * ridge.spread.mean()


# --------------------------------------------------------------------------------- what cannot be separated


def test_without_a_decomposition_there_are_no_confidence_intervals():
    conformal = ConformalRegressor(LinearRegression())
    result = study(conformal, linear_process(60))
    assert result.confidence_coverage is None
    assert result.claimed_spread is None
    with pytest.raises(NoDecompositionError, match="does not separate") as caught:
        study(conformal, linear_process(60), confidence_intervals=True)
    notes = " ".join(caught.value.__notes__)
    assert "ConformalRegressor" in notes
    assert "simulation 0, counted from 0, with random_state=" in notes
    assert study(LeastSquaresRegressor(), confidence_intervals=False).confidence_coverage is None
    assert study(LeastSquaresRegressor(), confidence_intervals=True).confidence_coverage is not None


def test_a_distribution_that_separates_only_at_first():
    class Changing(Oracle):
        def fit(self, X, y):
            self.separates_ = not calls
            calls.append(1)
            return self

        def predict_dist(self, X):
            dist = super().predict_dist(X)
            return Normal(dist.mean(), 0.1, 0.05) if self.separates_ else Empirical(dist.sample(3))

    calls = []
    with pytest.raises(NoDecompositionError, match="simulation 1, counted from 0"):
        study(Changing(line))


def test_a_forecast_without_a_mean_has_no_bias():
    result = study(Oracle(lambda X: StudentT(X[:, 0], 0.1, 0.9)), coverage=0.5)
    assert np.isnan(result.bias).all()
    assert result.picf.min() > 0


# -------------------------------------------------------------------------------------- errors and warnings


def test_an_error_keeps_its_type_and_names_the_simulation():
    class Failing(Recorder):
        def fit(self, X, y):
            count.append(1)
            if len(count) == 4:
                raise ZeroDivisionError("three is enough")
            return super().fit(X, y)

    count = []
    with pytest.raises(ZeroDivisionError) as caught:
        study(Failing())
    assert any("simulation 3, counted from 0, with random_state=" in note for note in caught.value.__notes__)


def test_an_error_of_the_process_names_the_simulation_too():
    draws = []

    def draw(n, rng):
        draws.append(n)
        return rng.uniform(size=(n, 1 if len(draws) < 5 else 2))

    process = KnownProcess(line, draw, n_train=25, n_test=50, random_state=0)
    with pytest.raises(ValueError, match="`draw_X` must return the same columns") as caught:
        study(LeastSquaresRegressor(), process)
    # test rows, and the first training set, whose size is known before the first fit, come before
    assert any("simulation 2, counted from 0" in note for note in caught.value.__notes__)


def test_a_warning_is_given_once():
    class Warner(Recorder):
        def fit(self, X, y):
            warnings.warn(f"this is {y[0]:.3f}", RuntimeWarning, stacklevel=2)
            return super().fit(X, y)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        study(Warner())
    caught = [warning for warning in caught if warning.category is RuntimeWarning]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert str(caught[0].message).endswith("(The first such warning of all simulations.)")


def test_few_simulations_give_one_warning():
    with pytest.warns(SmallSampleWarning, match="0.22 with 5 simulations") as caught:
        study(LeastSquaresRegressor())
    assert len(caught) == 1


def test_constant_targets_work():
    process = KnownProcess(
        lambda X: Normal(np.zeros(len(X)), 0.0), uniform, n_train=20, n_test=5, random_state=0
    )
    for estimator in (LeastSquaresRegressor(), BayesianRidge()):
        result = study(estimator, process)
        assert_allclose(result.picf, 1.0)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_simulations": 1}, ValueError, "`n_simulations` must be at least 2, got 1"),
        ({"n_simulations": "many"}, TypeError, "`n_simulations` must be an integer"),
        ({"coverage": 90}, ValueError, "`coverage` must lie strictly between 0 and 1.*mean 0.9"),
        ({"coverage": [0.5, 1.0]}, ValueError, "`coverage`"),
        (
            {"confidence_intervals": "yes"},
            ValueError,
            "`confidence_intervals` must be one of 'auto', True, F",
        ),
        ({"random_state": "seed"}, ValueError, "`random_state`"),
        ({"process": 3}, TypeError, "`process` must be a process of skuq.simulation"),
        ({"process": KnownProcess}, TypeError, "`process` must be an instance, got the class KnownProcess"),
    ],
)
def test_bad_arguments(options, error, match):
    with pytest.raises(error, match=match):
        study(LeastSquaresRegressor(), **options)


def test_an_estimator_without_a_distribution_is_refused_before_the_first_fit():
    class NeverFitted(LinearRegression):
        def fit(self, X, y):
            raise AssertionError

    with pytest.raises(NotProbabilisticError, match="NeverFitted gives no predictive distribution"):
        study(NeverFitted())
    with pytest.raises(TypeError, match="must be an instance"):
        study(LeastSquaresRegressor)


def test_the_error_for_ones_own_interval_method_keeps_the_method():
    class Own(LinearRegression):
        def predict_interval(self, X):
            return self.predict(X)[:, np.newaxis] + [-1.0, 1.0]

    with pytest.raises(NotProbabilisticError, match="add a method") as caught:
        study(Own())
    (code,) = re.findall(r"skuq\.distributions\.Quantiles\(.*?\)", str(caught.value))

    class Repaired(Own):
        def predict_dist(self, X):
            return eval(code, {"skuq": skuq, "bounds": self.predict_interval(X)})

    assert 0 < study(Repaired()).picp.mean() <= 1


# ------------------------------------------------------------------------------------------------ progress


def test_callbacks_see_one_task_a_simulation():
    pytest.importorskip("sklearn.callback")
    begun, ended = [], []

    class Tasks:
        max_propagation_depth = None

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            begun.append(context.task_name)

        def on_fit_task_end(self, estimator, context):
            ended.append(context.task_name)

        def teardown(self, estimator, context):
            ended.append("teardown")

    estimator = LeastSquaresRegressor().set_callbacks(Tasks())
    study(estimator)
    assert begun == ["fit", *["simulation"] * 5]
    assert sorted(ended[:-1]) == sorted(begun)
    assert ended[-1] == "teardown"
    assert not hasattr(estimator, "_callback_fit_ctx")


# ------------------------------------------------------------------------------------------- stacked fits


def test_networks_of_many_simulations_are_those_fitted_one_by_one(neural):
    process = make_known_process("cubic", n_train=40, n_test=10, random_state=0)
    net = neural.BootstrapNetRegressor(
        4, hidden_layer_sizes=(8,), calibration=None, max_epochs=3, random_state=7
    )
    stacked = study(net, process, n_simulations=4, random_state=3)
    alone = study(
        make_pipeline(StandardScaler(with_mean=False, with_std=False), net),
        process,
        n_simulations=4,
        random_state=3,
    )
    assert stacked.spread.min() > 0
    for name in ("prediction_coverage", "prediction_width", "bias", "spread", "claimed_spread"):
        assert_allclose(getattr(stacked, name), getattr(alone, name), atol=1e-5)


def test_stacked_simulations_of_data_frames_and_in_several_blocks(neural, monkeypatch):
    process = KnownProcess(
        lambda X: line(X.to_numpy()),
        lambda n, rng: pd.DataFrame({"x": rng.uniform(size=n)}),
        n_train=20,
        n_test=5,
        random_state=0,
    )
    net = neural.PNNRegressor((4,), calibration=None, keep_best=False, max_epochs=2)
    at_once = study(net, process, confidence_intervals=False)
    monkeypatch.setattr(_fits, "_MOST_BYTES", 2 * 8 * 20 * 2)  # two simulations a call
    in_blocks = study(net, process, confidence_intervals=False)
    assert _fits.simulations_per_task(net, process.X_test_) > 2
    assert _fits.simulations_per_task(net, process.training_set(0)[0]) == 2
    assert_allclose(in_blocks.prediction_coverage, at_once.prediction_coverage, atol=1e-5)
