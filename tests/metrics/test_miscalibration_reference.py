"""The miscalibration study of Wibbeke et al. (2025), section 4.4: the published numbers come back."""

from functools import cache

import numpy as np
import pytest

from tests.metrics.miscalibration import SCENARIOS, SETS, change, forecasts, measure, reference, study

N_FIRST = 3
READINGS = ("worse", "unchanged", "improved")


@cache
def first_results(name):
    return list(study(name, range(N_FIRST)))


def detections(results):
    """Return for each scenario, column and reading how many of the results give it."""
    counts = {}
    for result in results:
        for scenario in SCENARIOS:
            for column in set(result["optimal"]) - {"check"}:
                key = scenario, column, change(result["optimal"], result[scenario], column)
                counts[key] = counts.get(key, 0) + 1
    return counts


@pytest.mark.parametrize("name", SETS)
def test_every_column_of_seed_zero(name):
    expected = reference()["run0_seed0"][name]
    result = first_results(name)[0]
    assert result.keys() == expected.keys()
    for scenario, columns in expected.items():
        assert len(columns) == 14
        assert result[scenario].keys() == columns.keys()
        for column, value in columns.items():
            assert result[scenario][column] == pytest.approx(value, rel=1e-9, abs=0), (scenario, column)


@pytest.mark.parametrize("name", SETS)
def test_first_seeds_are_among_the_published_hundred(name):
    """Of a reading published for r of 100 seeds, three seeds hold no more than r and no fewer than r - 97."""
    rates = reference()["detection_rates_seeds0to99"]
    counts = detections(first_results(name))
    certain = 0
    for scenario in SCENARIOS:
        for column, shares in rates[scenario][name].items():
            for reading in READINGS:
                published, seen = round(100 * shares[reading]), counts.get((scenario, column, reading), 0)
                low, high = max(0, published - 100 + N_FIRST), min(N_FIRST, published)
                assert low <= seen <= high, (scenario, column, reading)
                certain += published == 100
    assert certain > 0  # some readings leave no room at all


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_detection_rates_over_a_hundred_seeds(name):
    rates = reference()["detection_rates_seeds0to99"]
    counts = detections(study(name, range(100)))
    for scenario in SCENARIOS:
        for column, shares in rates[scenario][name].items():
            found = {reading: counts.get((scenario, column, reading), 0) / 100 for reading in READINGS}
            assert found == pytest.approx(shares, abs=1e-12), (scenario, column)


def test_netcal_pinball_is_rebuilt_and_not_skuqs():
    """The fourteenth column is a defect of netcal's; skuq's pinball loss is the column `check`."""
    rng = np.random.default_rng(0)
    y = np.sort(rng.random(500))
    columns = measure(y, forecasts(y, 0)["optimal"])
    assert columns["pinball"] < 0.8 * columns["check"]
