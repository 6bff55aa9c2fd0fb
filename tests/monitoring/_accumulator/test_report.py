"""The report of accumulated rows beside that of all rows at once."""

import numpy as np
import pytest

from skuq.distributions import Normal
from skuq.evaluation import bootstrap_interval, uncertainty_report
from skuq.exceptions import SmallSampleWarning
from skuq.monitoring import MetricAccumulator


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=5000), np.exp(0.3 * rng.normal(size=5000))
    return loc + 1.2 * scale * rng.normal(size=5000), Normal(loc, scale)


def test_values_and_words_are_those_of_the_report(data):
    acc = MetricAccumulator("crps", "picp", "mace", "ence").update(*data)
    found, expected = (
        acc.report(random_state=0),
        uncertainty_report(*data, metrics=acc.metrics, n_resamples=0, n_draws=0),
    )
    assert list(found) == list(expected)
    assert found.attrs["summary"] == expected.attrs["summary"]
    assert found.attrs["rows"] == 5000
    for column in ("title", "calibrated", "units", "direction", "optimum"):
        assert found[column].equals(expected[column]), column
    np.testing.assert_allclose(found["value"].astype(float), expected["value"].astype(float), rtol=1e-3)
    assert found.loc["picp", "reading"] == expected.loc["picp", "reading"]
    assert "5000 rows" in str(found)


@pytest.mark.parametrize(
    "name", ["crps", "picp", "mpiw", "auucc", "auucc_gain", "miss_rate", "mace", "cals", "crpss"]
)
def test_intervals_are_those_of_resampled_rows(data, name):
    options = {"y_train": data[0][:100]} if name == "crpss" else {}
    acc = MetricAccumulator(name, options={name: options}).update(*data)
    row = acc.report(confidence=0.9, random_state=0).loc[name]
    interval = bootstrap_interval(*data, name, options=options, confidence=0.9, random_state=0)
    width = interval.high - interval.low
    assert row["low"] == pytest.approx(interval.low, abs=0.15 * width)
    assert row["high"] == pytest.approx(interval.high, abs=0.15 * width)


def test_infinite_values_and_metrics_that_need_the_rows_have_no_interval(data, few_rows):
    report = MetricAccumulator("ence", "nmpiw", "mace").update(*data).report(n_resamples=0)
    assert report[["low", "high"]].isna().all(axis=None)
    acc = MetricAccumulator("auucc", "nll").update([0.0, 1.0], Normal([0.0, 0.0], [1.0, 1.0]))
    assert np.isfinite(acc.report(random_state=0)["low"].astype(float)).all()
    broken = (
        MetricAccumulator("auucc").update([0.0, 1.0], Normal([0.0, 0.0], [1.0, 0.0])).report(random_state=0)
    )
    assert broken.loc["auucc", "value"] == np.inf
    assert np.isnan(broken.loc["auucc", "low"])


def test_weights_that_are_no_counts_raise(data):
    y, dist = data
    acc = MetricAccumulator("crps").update(y, dist, np.full(y.size, 0.1))
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        acc.report()


def test_few_rows_are_reported_with_one_warning():
    y, dist = np.arange(50.0), Normal(np.zeros(50), np.ones(50))
    few = MetricAccumulator().update(y[:5], dist[:5])
    with pytest.warns(SmallSampleWarning, match="has 5 rows. With fewer than 50") as caught:
        few.report(n_resamples=10)
    assert len(caught) == 1
    few.update(y[5:], dist[5:]).report(n_resamples=10)
