"""The ground-truth rows of tables 1 and 2 of Chung et al. (2021), to every printed digit."""

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from skuq.metrics import (
    crps_loss,
    interval_score_loss,
    mean_absolute_calibration_error,
    nll_loss,
    pinball_loss,
    sharpness,
)

pytestmark = pytest.mark.usefixtures("few_rows")

TABLE_1 = [0.824, 0.530, 0.013, 0.831, -0.083, 0.370, 0.187, 1.758]
TABLE_2 = [0.962, 0.618, 0.019, 0.925, 0.187, 0.435, 0.219, 2.122]
TABLE_2_ERRORS = [0.064, 0.042, 0.002, 0.052, 0.115, 0.033, 0.017, 0.177]
PERCENT = np.arange(1, 100) / 100


def ground_truth(seed):
    """Return the test targets of section 4 (the third draw) and their true distribution."""
    rng = np.random.RandomState(seed)
    for n in (200, 100, 100):
        x = rng.uniform(-10, 10, n)
        mean = np.sin(x / 2) + x * np.cos(0.8 * x)
        noise = np.select([x < -5, x < 0, x < 5], [1.0, 0.01, 1.5], 0.5)
        y = mean + noise * rng.randn(n)
    return y, (mean, noise)


def row(seed):
    """Return RMSE, MAE, ECE, sharpness, NLL, CRPS, check and interval score, as they were printed.

    ECE is that of central intervals at 100 levels from 0 to 1, sharpness the root mean square.
    """
    y, dist = ground_truth(seed)
    return [
        root_mean_squared_error(y, dist[0]),
        mean_absolute_error(y, dist[0]),
        mean_absolute_calibration_error(y, dist, levels=np.linspace(0, 1, 100), kind="interval"),
        sharpness(y, dist, kind="rms"),
        nll_loss(y, dist),
        crps_loss(y, dist),
        pinball_loss(y, dist),
        interval_score_loss(y, dist, coverage=PERCENT),
    ]


def test_table_1():
    assert [round(value, 3) for value in row(0)] == TABLE_1


def test_table_2():
    rows = np.array([row(seed) for seed in range(5)])
    assert [round(value, 3) for value in rows.mean(axis=0)] == TABLE_2
    assert [round(value, 3) for value in rows.std(axis=0, ddof=1) / np.sqrt(5)] == TABLE_2_ERRORS


def test_the_text_of_the_paper_differs_from_its_tables():
    """The text has one-sided quantiles at 99 levels, and sharpness as the mean."""
    worlds = [ground_truth(seed) for seed in range(5)]
    assert round(np.mean([sharpness(y, dist) for y, dist in worlds]), 3) == 0.748
    assert round(np.mean([mean_absolute_calibration_error(y, dist) for y, dist in worlds]), 3) == 0.021
