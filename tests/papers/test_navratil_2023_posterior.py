"""The script that repeats figure 4 of Navratil et al. (2023)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skuq.distributions import Normal
from skuq.metrics import prediction_interval_coverage

pytestmark = pytest.mark.docs

SCRIPT = "navratil_2023_posterior"
PAGE = "navratil-2023.rst"


@pytest.fixture(scope="module")
def frame(study):
    """Return the forecasts of the sampled network."""
    return pd.read_csv(study.FILE)


@pytest.fixture(scope="module")
def results(study, frame):
    """Return the table, and the results of the functions of the Gaussian process."""
    return study.study(frame)


def test_the_posterior_is_wide_in_the_gap_only(study, frame):
    gap = frame["x"].abs() < study.GAP
    assert frame["std"][gap].max() > 4 * frame["std"][~gap].median()
    assert frame["std"][~gap].median() < 1.2 * study.NOISE
    assert frame["r_hat"].max() < 1.1


def test_the_curves_of_the_network_cross_as_in_figure_4(study, results):
    table, _ = results
    assert study.crosses(table.loc["network"])
    assert abs(table.loc["network", study.WHOLE]) < 15  # 6.1 in the paper
    assert table.loc["network", study.FEW] > 40  # 72.7 in the paper
    assert table.loc["network", study.FEW] > 4 * abs(table.loc["network", study.WHOLE])


def test_a_calibrated_forecast_has_no_gain_over_the_whole_curve_and_a_large_one_at_few_misses(study, results):
    table, functions = results
    row = table.loc["network, if it were calibrated"]
    assert row[study.WHOLE] == pytest.approx(0, abs=1)
    assert row[study.FEW] > 35
    assert functions[study.WHOLE].median() == pytest.approx(0, abs=10)
    assert functions[study.FEW].median() > 40


def test_the_areas_of_exact_posteriors_are_those_of_constant_bands_on_average(study):
    y, dists = study.process_forecasts(200)
    areas = np.array(
        [[curve.area() for curve in study.curves(*pair).values()] for pair in zip(y, dists, strict=True)]
    )
    difference = areas[:, 0] - areas[:, 1]
    assert abs(difference.mean()) < 3 * difference.std() / np.sqrt(len(difference))
    coverage = [
        prediction_interval_coverage(*pair) for pair in zip(y, [d.interval(0.9) for d in dists], strict=True)
    ]
    assert np.mean(coverage) == pytest.approx(0.9, abs=0.02)


def test_most_functions_have_curves_that_cross_and_a_larger_gain_at_few_misses(study, results):
    larger, paper, cross = study.shares(results[1])["functions, %"]
    assert larger > 85
    assert 3 < paper < 15
    assert cross > 50


def test_gains_and_half_widths_are_those_of_the_definitions(study):
    y, dist = np.array([1.0, -1.0, 3.0, -3.0]), Normal(np.zeros(4), np.array([1.0, 1.0, 3.0, 3.0]))
    found = study.measure(y, dist)
    assert found[study.WHOLE] == pytest.approx(0)
    assert found["half width at 0.7, model"] == 2  # all targets come inside at once
    assert found["half width at 0.7, constant"] == 1
    assert found["half width at 0.2, constant"] == 3


def test_without_data_the_sampler_returns_the_prior(study):
    pytest.importorskip("pyro")
    size = study.Size(n_units=3, n_chains=1, n_draws=300, n_adapt=50)
    nothing = np.empty(0)
    draws = study.sample_network(nothing, nothing, np.array([0.0, 1.0]), size)
    assert draws.shape == (1, 300, 2)
    weights = np.random.default_rng(0).normal(size=(2, 100_000))
    for i, x in enumerate((0.0, 1.0)):
        variance = 1 + 4 * np.mean(np.tanh(2 * (weights[0] * x + weights[1])) ** 2)
        assert draws[..., i].var() == pytest.approx(variance, rel=0.35)
        assert draws[..., i].mean() == pytest.approx(0, abs=0.5)


@pytest.mark.slow
def test_another_sample_of_the_network_agrees(study, frame):
    pytest.importorskip("pyro")
    again = study.posterior_frame(study.Size(n_chains=1, n_draws=300), seed=100)
    assert np.abs(again["mean"] - frame["mean"]).max() < 0.5 * frame["std"].max()
    assert np.abs(again["std"] / frame["std"] - 1).max() < 0.5
    assert np.abs(again["std"] / frame["std"] - 1).mean() < 0.1


def test_the_script_prints_and_draws(study, page, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    study.main(["--plot", str(tmp_path / "figure.svg")])
    printed = capsys.readouterr().out
    assert "navratil_2023_posterior-functions" in printed
    assert printed.splitlines()[-1].replace("R-hat", "R-hat of the predictions") in page
    assert (tmp_path / "figure.svg").stat().st_size > 10_000
