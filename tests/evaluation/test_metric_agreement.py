"""Agreement of metrics: scipy, exact enumeration, invariance, and the reports of skuq."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

from skuq.distributions import Normal
from skuq.evaluation import metric_agreement, uncertainty_report
from skuq.evaluation._metric_agreement import MetricAgreement


def table(n, m=4, seed=0, *, ties=False):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, size=(n, m)).astype(float) if ties else rng.normal(size=(n, m))
    return pd.DataFrame(values, columns=[f"m{k}" for k in range(m)])


# ------------------------------------------------------------------------------------------------- the peer


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [5, 9, 40])
def test_tau_is_that_of_scipy(n, ties):
    frame = table(n, seed=n, ties=ties)
    tau = metric_agreement(frame, directions="lower", n_resamples=1).tau
    for one, other in itertools.product(frame, frame):
        expected = stats.kendalltau(frame[one], frame[other]).statistic
        assert tau.loc[one, other] == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_the_exact_p_value_is_that_of_scipy(n):
    frame = table(n, seed=n)
    agreement = metric_agreement(frame, directions="higher")
    assert agreement.exact
    assert agreement.n_resamples == math.factorial(n)
    for one, other in itertools.product(frame, frame):
        expected = stats.kendalltau(frame[one], frame[other], method="exact").pvalue
        assert agreement.p_value.loc[one, other] == pytest.approx(expected, abs=1e-14)


def test_the_random_p_value_is_near_the_exact_one():
    frame = table(12, m=5, seed=3)
    agreement = metric_agreement(frame, directions="lower", n_resamples=4000, random_state=0)
    assert (agreement.exact, agreement.n_resamples, agreement.n_reports) == (False, 4000, 12)
    for one, other in itertools.combinations(frame, 2):
        expected = stats.kendalltau(frame[one], frame[other], method="exact").pvalue
        error = 4 * math.sqrt(expected * (1 - expected) / 4000) + 1 / 4000
        assert agreement.p_value.loc[one, other] == pytest.approx(expected, abs=error)


def test_the_exact_p_value_with_ties_counts_all_permutations():
    frame = pd.DataFrame({"a": [0.0, 0.0, 1.0, 2.0], "b": [1.0, 2.0, 2.0, 5.0]})
    own = abs(stats.kendalltau(frame["a"], frame["b"]).statistic)
    orders = itertools.permutations(frame["b"])
    extreme = [abs(stats.kendalltau(frame["a"], order).statistic) >= own - 1e-12 for order in orders]
    p_value = metric_agreement(frame, directions="lower").p_value
    assert p_value.loc["a", "b"] == pytest.approx(np.mean(extreme), abs=1e-14)


def test_the_level_of_the_test():
    """Of independent metrics, about one pair in twenty has a p-value below 0.05."""
    p_value = np.concatenate(
        [
            metric_agreement(
                table(8, m=8, seed=s), directions="lower", n_resamples=199, random_state=s
            ).p_value.to_numpy()[np.triu_indices(8, 1)]
            for s in range(40)
        ]
    )
    assert np.mean(p_value <= 0.05) == pytest.approx(0.045, abs=0.02)


# ------------------------------------------------------------------------------------------------- the laws


def test_the_matrices_are_symmetric_and_the_diagonal_is_one():
    agreement = metric_agreement(table(15, m=6, ties=True), directions="lower", random_state=0)
    for frame in (agreement.tau, agreement.p_value):
        assert_array_equal(frame, frame.T)
        assert list(frame.index) == list(frame.columns) == [f"m{k}" for k in range(6)]
    assert_array_equal(np.diag(agreement.tau), 1)
    assert agreement.tau.abs().to_numpy().max() <= 1
    assert agreement.p_value.to_numpy().min() >= 1 / 1001


def test_tau_of_equal_orders_is_exactly_one():
    for n in range(3, 30):
        values = np.arange(n)
        frame = pd.DataFrame({"a": values, "b": values**2, "c": -values})
        tau = metric_agreement(frame, directions="lower", n_resamples=1).tau
        assert (tau.loc["a", "b"], tau.loc["a", "c"]) == (1, -1)


def test_an_increasing_map_of_a_metric_changes_nothing():
    frame = table(10)
    moved = frame.assign(m0=np.exp(frame["m0"]), m1=1e6 * frame["m1"])
    results = [metric_agreement(each, directions="lower", random_state=0) for each in (frame, moved)]
    pd.testing.assert_frame_equal(results[0].tau, results[1].tau)
    pd.testing.assert_frame_equal(results[0].p_value, results[1].p_value)


def test_a_metric_that_is_better_if_higher_agrees_with_its_negative():
    frame = table(7, m=2)
    frame["loss"] = -frame["m0"]
    tau = metric_agreement(frame, directions={"m0": "higher", "m1": "lower", "loss": "lower"}).tau
    assert tau.loc["m0", "loss"] == pytest.approx(1)
    assert tau.loc["m1", "loss"] == pytest.approx(tau.loc["m1", "m0"])
    opposite = metric_agreement(frame, directions={"m0": "lower", "m1": "lower", "loss": "lower"}).tau
    assert opposite.loc["m0", "loss"] == pytest.approx(-1)


def test_a_target_ranks_by_the_distance_and_equal_distances_are_ties():
    coverage = [0.93, 0.97, 0.90, 0.99, 0.95]
    frame = pd.DataFrame({"picp": coverage, "error": [0.02, 0.02, 0.05, 0.04, 0.0]})
    tau = metric_agreement(frame, directions={"picp": 0.95, "error": "lower"}).tau
    assert abs(0.93 - 0.95) != abs(0.97 - 0.95)  # by rounding
    assert tau.loc["picp", "error"] == pytest.approx(1)


def test_infinite_values_are_ranks():
    frame = pd.DataFrame({"nll": [np.inf, 1.0, 0.0, np.inf], "crps": [3.0, 2.0, 1.0, 3.0]})
    assert metric_agreement(frame).tau.loc["nll", "crps"] == pytest.approx(1)
    assert metric_agreement(frame, directions={"nll": 0.5}).tau.loc["nll", "crps"] == pytest.approx(
        4 / math.sqrt(4 * 5)
    )


# ------------------------------------------------------------------------------------------ reports of skuq


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    y = x + rng.normal(size=600)
    return y, {f"{s}": Normal(x, s) for s in (0.6, 0.8, 1.0, 1.5, 2.5)}


METRICS = ["crps", "nll", "picp", "crpss"]
OPTIONS = {
    "metrics": METRICS,
    "n_resamples": 0,
    "n_draws": 0,
    "options": {"crpss": {"y_train": [0, 1.0]}},
}


def test_reports_state_their_directions(models):
    y, forecasts = models
    single = {name: uncertainty_report(y, dist, **OPTIONS) for name, dist in forecasts.items()}
    agreement = metric_agreement(single)
    assert isinstance(agreement, MetricAgreement)
    assert list(agreement.tau) == METRICS
    assert agreement.tau.loc["crps", "crpss"] == pytest.approx(1)
    plain = pd.DataFrame({name: each["value"] for name, each in single.items()}).T
    same = metric_agreement(plain, directions={"picp": 0.9})
    pd.testing.assert_frame_equal(agreement.tau, same.tau, check_names=False)
    together = metric_agreement(uncertainty_report(y, forecasts, **OPTIONS))
    pd.testing.assert_frame_equal(together.tau, agreement.tau)

    with pytest.raises(ValueError, match="`reports` must contain several models, got a report of one model"):
        metric_agreement(single["1.0"])
    fewer = single | {"1.0": single["1.0"].drop(index="nll")}
    with pytest.raises(ValueError, match=r"got one in 'nll' of report 1\.0\. Leave out the metric"):
        metric_agreement(fewer)
    other = single | {"0.6": uncertainty_report(y, forecasts["0.6"], coverage=0.8, **OPTIONS)}
    with pytest.raises(ValueError, match=r"must have the same optimum for 'picp', got 0\.8, 0\.9"):
        metric_agreement(other)


def test_reports_with_a_metric_of_no_direction(models):
    y, forecasts = models
    options = {**OPTIONS, "metrics": ["crps", "sharpness"], "options": None}
    reports = {name: uncertainty_report(y, dist, **options) for name, dist in forecasts.items()}
    with pytest.raises(ValueError, match=r"`directions` must state .* for 'sharpness'"):
        metric_agreement(reports)
    tau = metric_agreement(reports, directions={"sharpness": "lower"}).tau
    assert tau.loc["crps", "sharpness"] < 1
