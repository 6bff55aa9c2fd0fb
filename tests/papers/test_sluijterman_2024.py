"""The script that repeats the experiments of Sluijterman, Cator and Heskes (2024)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tables import read

pytest.importorskip("skorch")
from skuq.regressors import LeastSquaresRegressor
from skuq.simulation import KnownProcess, make_known_process, simulate_coverage

SCRIPT = "sluijterman_2024_simulation"
pytestmark = [
    pytest.mark.docs,
    pytest.mark.filterwarnings("ignore:coverage at a row:skuq.exceptions.SmallSampleWarning"),
]


# ------------------------------------------------------------------------------------------ exact numbers


@pytest.mark.parametrize(
    ("df", "level", "brier"),
    [(50, 0.9, 0.01118), (50, 0.8, 0.02260), (1e9, 0.9, 0.01182), (1e9, 0.8, 0.02282)],
)
def test_the_published_score_of_the_bootstrap_is_that_of_one_noise_for_all_x(study, df, level, brier):
    """0.011 in the paper: the true mean and the root mean variance already give it, by quadrature."""
    truth = make_known_process("cubic-heteroscedastic", n_train=2, n_test=2).truth
    process = KnownProcess(truth, study.midpoints, n_train=2, n_test=4000, random_state=0)
    oracle = study.Homoscedastic(process, df)
    result = simulate_coverage(oracle, process, n_simulations=2, coverage=level, confidence_intervals=False)
    assert result.brier_score() == pytest.approx(brier, abs=1e-5)
    if (df, level) == (50, 0.9):
        assert result.picp[0] == pytest.approx(0.907, abs=5e-4)
        assert result.prediction_width.mean() == pytest.approx(0.663, abs=5e-4)
        assert result.picf.min() == pytest.approx(0.66, abs=5e-3)
        assert result.picf.max() > 0.995


# ------------------------------------------------------------------------------------ figures 1 and 2: lines


def test_coverage_in_one_simulation_varies_where_coverage_at_each_x_is_exact(study):
    result = study.figure_1()
    assert result.picp.mean() == pytest.approx(0.8, abs=4 * result.picp.std() / np.sqrt(500))
    assert np.ptp(result.picp) > 0.3
    assert result.brier_score() < 1e-4


def test_a_line_through_the_origin_covers_everywhere_or_nowhere(study):
    result = study.figure_2()
    assert set(result.cicp) == {0.0, 1.0}
    assert result.cicp.mean() == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 500))


# -------------------------------------------------------------------------- figures 4 to 9: known functions


def test_small_networks_show_the_claims(study):
    """Too wide confidence intervals of the bootstrap, and one noise for all x."""
    size = study.Size(n_simulations=4, n_networks=8, n_epochs=40, n_test=200)
    bootstrap = study.cubic("cubic-heteroscedastic", study.bootstrap(size), size, 0.9)
    dropout = study.cubic("cubic-heteroscedastic", study.dropout(size), size, 0.9)
    assert bootstrap.brier_score() > 5 * dropout.brier_score()
    assert bootstrap.claimed_spread.mean() > 1.3 * bootstrap.spread.mean()
    x = bootstrap.X_test[:, 0]
    assert bootstrap.picf[np.abs(x) < 0.1].min() > 0.95
    assert bootstrap.picf[np.abs(x) > 0.48].max() < 0.9


# ------------------------------------------------------------------------------------------------ figure 10


@pytest.fixture
def folder(shared_data):
    """Return the folder of the data, or skip where there are none."""
    shared_data("gal/gal_boston")
    return Path(os.environ["SKUQ_DATA"])


def test_the_process_of_boston(study, folder):
    process = study.boston_process(folder, depth=15, residuals="training")
    assert len(process.X_test_) == 100
    assert len(process.train_rows_) == 406
    width = np.diff(process.truth_.interval(0.8), axis=1).mean()
    assert 1.8 < width < 2.8  # where the paper's bootstrap has 14.2
    result = simulate_coverage(
        LeastSquaresRegressor(), process, n_simulations=5, coverage=0.8, random_state=0
    )
    assert np.abs(result.bias).mean() > 3 * result.spread.mean()  # a forest's steps are out of reach


def test_a_method_without_confidence_intervals_has_a_row_too(study):
    size = study.Size(n_simulations=2, n_test=20)
    conformal, cubic = (
        study.row_of(study.cubic("cubic-heteroscedastic", study.defaults()[name], size, 0.9))
        for name in ("conformal, boosting", "least squares, cubic")
    )
    assert set(cubic) - set(conformal) == {
        "predicted spread",
        *(name for name in cubic if name.startswith("CI")),
    }
    assert cubic["PICF from"] < 0.75
    assert cubic["PICF to"] > 0.99
    assert np.isfinite(list(cubic.values())).all()


@pytest.mark.parametrize("name", ["figures-1-2", "figures-4-6", "figures-8-9", "figure-10"])
@pytest.mark.usefixtures("folder")
def test_a_tiny_study_shows_its_table(study, name, capsys, monkeypatch):
    monkeypatch.setattr(study, "SMALL", study.Size(n_simulations=2, n_networks=2, n_epochs=2, n_test=100))
    study.main(["--only", name])
    assert f"sluijterman_2024_simulation-{name}" in capsys.readouterr().out


# -------------------------------------------------------------------------------- the sentences of the page


def table(name):
    """Return a table of results as numbers, by method."""
    frame = read(f"sluijterman_2024_simulation-{name}")
    keys = [column for column in ("process", "coverage", "method") if column in frame]
    return frame.set_index(keys).replace("", "nan").astype(float)


SHORT, LONG = "dropout, 80 epochs", "dropout, 240 epochs"


def test_lines():
    lines = table("figures-1-2")
    assert lines.loc["figure 1, PICP, 80 %", "mean"] == pytest.approx(0.8, abs=0.01)
    assert tuple(lines.loc["figure 2, CICP, 95 %", ["lowest", "highest"]]) == (0, 1)


def test_figure_7():
    rows = table("figure-7")
    brier = rows["PICF Brier"]
    assert brier["bootstrap"] == pytest.approx(0.0101, abs=0.001)  # 0.011 in the paper
    assert brier[SHORT] < brier[LONG] < 0.0011  # in the paper
    ratio = rows["predicted spread"] / rows["spread"]
    assert ratio["bootstrap"] > 2
    assert ratio[LONG] < ratio[SHORT] < 0.7
    assert rows["CICP"].drop("bootstrap").max() < 0.65


def test_figures_4_to_6():
    rows = table("figures-4-6")
    assert rows["PICP"].between(0.88, 0.91).all()
    assert rows["CICP"]["bootstrap"] > 0.98
    assert rows["CICP"].drop("bootstrap").max() < 0.6


def test_figures_8_and_9():
    rows = table("figures-8-9")
    wider = rows["CI width inside"] > rows["CI width outside"]
    assert wider.to_dict() == {"bootstrap": True, SHORT: False, LONG: False}
    assert rows["PICP from"].min() > 0.7
    assert rows["PICP to"].max() < 0.87


def test_figure_10():
    rows = table("figure-10")
    for _, part in rows.groupby("process"):
        part = part.droplevel("process")  # noqa: PLW2901
        assert (part["CICP"] < 0.8).all()
        for column in ("PI width", "CI width"):
            assert part[column].idxmax() == "bootstrap"
        for column in ("PICF Brier", "CICF Brier"):
            assert part[column].idxmin() == "bootstrap"
    deep = rows.loc["depth 15, training"]
    assert deep["true width"].iloc[0] < 14.2 / 5
    assert deep.loc["bootstrap", "PICP"] == pytest.approx(0.8, abs=0.05)
    assert deep.loc["bootstrap", "PICF from"] < 0.1
    assert deep.loc["bootstrap", "PICF to"] > 0.99
    bootstrap = rows.loc[("depth 15, out of sample", "bootstrap")]
    assert bootstrap["PICF Brier"] == pytest.approx(0.027, abs=0.004)
    assert bootstrap["CI width"] == pytest.approx(4.92, abs=0.3)
    assert bootstrap["PI width"] < 13


def test_two_of_six_defaults_are_nearly_calibrated_at_each_x():
    rows = table("defaults")
    assert rows["PICP"].between(0.88, 0.92).all()
    brier = rows["PICF Brier"]
    good = ["deep ensemble", "residual, boosting"]
    assert brier[good].max() < 0.002
    assert brier.drop(good).min() > 0.0105  # 0.0112 without errors of estimation
    assert rows["CICP"].dropna().between(0.85, 1).all()
    assert rows["CICF Brier"].max() < 0.02
