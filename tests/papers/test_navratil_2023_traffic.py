"""The script that repeats figure 5 of Navratil et al. (2023)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.tables import read
from skuq.distributions import Normal
from skuq.evaluation import bootstrap_interval, paired_permutation_test
from skuq.metrics import auucc_gain_score

for package in ("torch", "skorch"):
    pytest.importorskip(package)

pytestmark = pytest.mark.docs

SCRIPT = "navratil_2023_traffic"
PAGE = "navratil-2023.rst"
WHOLE, FEW, FEWEST = "bandwidth, miss_rate", "miss rate up to 0.5", "miss rate up to 0.2"
N = 400


@pytest.fixture(scope="module")
def results():
    """Return the results of the full run."""
    frame = read("navratil_2023_traffic").set_index(["table", "model", "quantity"])
    return frame.replace("", "nan").astype(float).reset_index()


@pytest.fixture(scope="module")
def hours(study, shared_data):
    """Return the hours, or skip."""
    shared_data("other/metro_traffic")
    return study.read_hours()


def column(results, quantity, name="value"):
    """Return one number of each model."""
    return results[results["quantity"] == quantity].set_index("model")[name]


# ------------------------------------------------------------------------------ the claims about the full run


def test_the_gain_is_small_over_the_whole_curve_and_large_at_few_misses_and_on_other_axes(study, results):
    whole = column(results, WHOLE)
    assert set(whole.index) == {study.LSTM, *study.MODELS}
    assert whole.between(0, 0.06).all()  # 0.049 in the paper
    assert (column(results, FEW) > 4 * whole).all()
    assert (column(results, FEWEST, "low") > 0.07).all()
    low, high = column(results, "narrower from"), column(results, "narrower to")
    assert (low < 0.006).all()
    assert high.between(0.15, 0.35).all()
    assert high[study.LSTM] == pytest.approx(study.PAPER["narrower to"], abs=0.05)
    for quantity in ("bandwidth, deficit", "excess, miss_rate", "excess, deficit"):
        certain = column(results, quantity, "p_constant") < 0.01
        assert (certain | ((certain.index == "deep ensemble") & ("deficit" in quantity))).all()
        assert (column(results, quantity, "low") > 0.05)[certain].all()
        assert (column(results, quantity) > 3 * whole).all()


def test_the_lstm_has_the_largest_gain_the_worst_crps_and_significance_only_without_time_order(
    study, results
):
    by_week = [column(results, WHOLE, bound)[study.LSTM] for bound in ("low", "high")]
    by_hour = [column(results, f"gain {bound}, by hour")[study.LSTM] for bound in ("from", "to")]
    assert by_week[0] < 0 < by_hour[0] < by_hour[1] < by_week[1]
    assert column(results, WHOLE, "p_constant")[study.LSTM] > 0.05
    assert column(results, "excess, deficit").idxmax() == study.LSTM
    assert column(results, "CRPS").idxmax() == study.LSTM
    p_values = results["p_lstm"].dropna()
    assert len(p_values) == 24
    assert p_values.min() == 0.003
    assert (p_values > 0.05).sum() == 15


def test_operating_points_save_most_where_misses_are_expensive(study, results):
    saved = {ratio: column(results, f"miss {ratio:g}, saved") for ratio in study.RATIOS}
    assert saved[16.0].between(0.26, 0.45).all()
    assert (column(results, "miss 16, saved", "low") > 0.2).all()
    for ratio in study.RATIOS:
        chosen = column(results, f"miss {ratio:g}, operating point")
        assert (chosen <= 1.03 * column(results, f"miss {ratio:g}, best point")).all()
        assert ratio == 16.0 or saved[ratio].between(0, 0.12).all()
    assert column(results, "miss 16, saved over constant").between(0.15, 0.21).all()
    assert column(results, "miss 4, saved over constant").between(0.05, 0.14).all()
    assert column(results, "miss 1, saved over constant").between(-0.15, 0.05).all()
    assert column(results, "miss 1, miss rate").between(0.14, 0.24).all()


def test_the_sentences_of_the_page_have_the_numbers_of_the_tables(study, results, page):
    def whole(values):
        return f"{100 * values.min():.0f} to {100 * values.max():.0f} %"

    def columns(*names):
        return pd.concat([column(results, name) for name in names])

    lstm = results[results["model"] == study.LSTM].set_index("quantity")
    mine = results[results["model"] != study.LSTM]
    cross, gain = column(mine, "narrower to"), 100 * column(mine, WHOLE)
    factor, misses = column(results, "miss 16, factor"), column(results, "miss 1, miss rate")
    by_hour = [100 * lstm.loc[f"gain {bound}, by hour", "value"] for bound in ("from", "to")]
    few, now = column(results, FEWEST, "low"), lstm.loc[WHOLE]
    cheap = columns("miss 1, saved over constant")
    others = columns(*(f"{x}, {y}" for x, y in study.AXES[1:]))
    text = " ".join(page.split())
    for sentence in (
        f"narrower than constant bands up to a miss rate of {lstm.loc['narrower to', 'value']:.2f}.",
        f"the curves cross at miss rates between {cross.min():.2f} and {cross.max():.2f}.",
        f"It is {100 * now['value']:.1f} % for our LSTM (paper 4.9 %) and "
        f"{gain.min():.1f} to {gain.max():.1f} % for the models of skuq",
        f"contains 0 ({100 * now['low']:.0f} to {100 * now['high']:.0f} %), and the permutation test has a "
        f"p-value of {now['p_constant']:.2f}",
        f"the interval would be {by_hour[0]:.0f} to {by_hour[1]:.0f} %",
        f"the gains of all models are {whole(column(results, FEWEST))}, and the lower bounds of their 95 % "
        f"intervals are at least {100 * few.min():.0f} %",
        f"On the other three pairs of axes, the gains are {whole(others)}.",
        f"the factors are {factor.min():.1f} to {factor.max():.1f}, and the factors save "
        f"{whole(columns('miss 16, saved'))}",
        f"If a miss costs 1 or 4, the factors save {whole(columns('miss 1, saved', 'miss 4, saved'))}.",
        f"the bands of the models save {whole(columns('miss 16, saved over constant'))} if a miss costs 16, "
        f"and {whole(columns('miss 4, saved over constant'))} if a miss costs 4",
        f"miss rates of {misses.min():.2f} to {misses.max():.2f}, near the crossing",
        f"between {-100 * cheap.min():.0f} % higher and {100 * cheap.max():.0f} % lower",
    ):
        assert sentence in text, sentence


# ------------------------------------------------------------------------------------------ gains and costs


@pytest.fixture(scope="module")
def rows(study):
    """Return targets whose noise depends on the row; each row is a week."""
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.5, 3, size=N)
    return study.Rows(scale * rng.normal(size=N), np.arange(N)), Normal(np.zeros(N), scale)


def test_gains_are_those_of_the_metric(study, rows):
    rows, dist = rows
    found, weight = study.gains(rows.y, dist), np.arange(N) % 3 + 1.0
    for x_axis, y_axis in study.AXES:
        axes = {"x_axis": x_axis, "y_axis": y_axis}
        assert found[f"{x_axis}, {y_axis}"] == pytest.approx(auucc_gain_score(rows.y, dist, **axes))
    assert found[FEWEST] == pytest.approx(auucc_gain_score(rows.y, dist, y_range=(0, 0.2)))
    weighted = study.gains(rows.y, dist, weight)[FEW]
    assert weighted == pytest.approx(auucc_gain_score(rows.y, dist, y_range=(0, 0.5), sample_weight=weight))
    scaled = study.with_misses(rows.y, dist)
    assert study.gains(rows.y, scaled) == pytest.approx(found)
    assert np.mean(np.abs(rows.y) > scaled.std()) == pytest.approx(0.1, abs=1 / N)


def test_with_one_row_per_week_intervals_and_tests_are_those_of_rows(study, rows):
    rows, dist = rows
    table = study.interval_of_gains(rows, dist, 500)
    expected = bootstrap_interval(rows.y, dist, "auucc_gain", method="percentile", random_state=0)
    assert table.loc[WHOLE, "low"] == pytest.approx(expected.low, abs=0.02)
    assert table.loc[WHOLE, "high"] == pytest.approx(expected.high, abs=0.02)
    root = Normal(np.zeros(N), np.sqrt(dist.std()))
    p_values = study.swap_test(rows, dist, root, 500)
    test = paired_permutation_test(rows.y, dist, root, "auucc_gain", random_state=0)
    assert p_values[WHOLE] == pytest.approx(test.p_value, abs=0.06)
    assert study.swap_test(rows, dist, dist, 20).eq(1).all()


def test_operating_points_of_calibrated_intervals(study, rows):
    rows, dist = rows
    found = study.costs(rows, dist, rows, dist, 16.0, 50)["value"]
    assert found["miss 16, operating point"] == pytest.approx(found["miss 16, best point"])
    assert found["miss 16, operating point"] < found["miss 16, 90 % intervals"]
    assert found["miss 16, factor"] > 1
    bounds = np.array([[0.0, 2.0], [0.0, 4.0]])
    assert study.losses(np.array([1.0, 5.0]), bounds, 10.0).tolist() == [1.0, 12.0]


# ------------------------------------------------------------------------------------------ data and models


def test_there_are_48_values_between_two_midnights_and_most_hours_are_recorded(study, hours):
    assert len(hours) % 24 == 0
    assert study.rows_of(hours, study.TESTED).n_weeks == 39
    assert hours.index[0].hour == 0
    assert 0.7 < hours["traffic"].notna().mean() < 0.8
    assert not hours.drop(columns="traffic").isna().to_numpy().any()
    assert hours["holiday"].groupby(hours.index.normalize()).nunique().eq(1).all()


def test_no_model_knows_the_traffic_after_midnight(study, hours):
    now = hours.copy()
    later = now.index >= "2017-06-01"
    now.loc[later, "traffic"] += 1
    same = (now.index < "2017-06-02") & (now.index >= "2017-05-01")
    pd.testing.assert_frame_equal(study.tabular(now)[same], study.tabular(hours)[same])
    assert not study.tabular(now).equals(study.tabular(hours))
    X = study.sequences(hours)[: 2 * study.DAY][np.newaxis]
    module = study.SequenceToSequence(X.shape[2] - 2)
    changed = X.copy()
    changed[:, study.DAY :, :2] = 0
    out, again = (module(study.torch.from_numpy(each)) for each in (X, changed))
    assert study.torch.equal(out, again)
    assert out.shape == (1, 24, 2)


def test_the_joint_loss_ignores_hours_without_a_record(study):
    output = study.torch.ones(1, 3, 2)
    y = study.torch.tensor([[2.0, float("nan"), 0.0]])
    assert study.JointLoss()(output, y).item() == pytest.approx(0.5)


def test_a_small_run_shows_the_claims(study, hours, capsys):
    results = study.main(["--models", "boosting, residuals", "--resamples", "10"])
    gain, few = column(results, WHOLE).item(), column(results, FEWEST).item()
    assert -0.02 < gain < 0.08
    assert few > 0.15
    assert "navratil_2023_traffic-costs" in capsys.readouterr().out


@pytest.mark.slow
def test_the_lstm_of_a_small_run_shows_the_claims(study, hours):
    results = study.main(["--resamples", "10"])
    assert -0.03 < column(results, WHOLE)[study.LSTM] < 0.1
    assert column(results, FEWEST)[study.LSTM] > 0.15
    assert column(results, "narrower to")[study.LSTM] < 0.4
