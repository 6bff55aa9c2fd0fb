import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_validate

from skuq.displays import RootogramDisplay
from skuq.distributions import Normal
from skuq.regressors import UncertaintyRegressor

draw = RootogramDisplay.from_predictions
RNG = np.random.default_rng(0)
MEAN = np.exp(RNG.normal(0.5, 0.5, size=300))
Y = RNG.poisson(MEAN)
FORECAST = stats.poisson(MEAN)


def test_frequencies_are_sums_over_rows():
    display = draw(Y, FORECAST)
    assert_array_equal(display.counts, np.arange(Y.min(), Y.max() + 1))
    assert_array_equal(display.observed, np.bincount(Y))
    assert_allclose(display.expected[:-1], [FORECAST.pmf(k).sum() for k in display.counts[:-1]])
    assert_allclose([display.observed.sum(), display.expected.sum()], len(Y))
    assert not display.open_end


def test_weights_are_repetitions():
    weight = RNG.integers(1, 4, size=len(Y))
    weighted = draw(Y, FORECAST, sample_weight=weight)
    repeated = draw(np.repeat(Y, weight), stats.poisson(np.repeat(MEAN, weight)))
    assert_allclose(weighted.observed, repeated.observed)
    assert_allclose(weighted.expected, repeated.expected)


def test_the_last_bar_has_all_larger_counts():
    display = draw(Y, FORECAST, max_count=3)
    assert display.open_end
    assert display.observed[-1] == (Y >= 3).sum()
    assert_allclose(display.expected[-1], FORECAST.sf(2).sum())
    assert "last bar: 3 or more" in display.ax_.get_xlabel()
    assert len(draw([0, 10_000], stats.poisson([1.0, 9_000.0])).counts) == 60


@pytest.mark.parametrize("kind", ["hanging", "standing", "suspended"])
def test_bars_and_line(kind):
    display = draw(Y, FORECAST, kind=kind, name="Poisson")
    seen, expected = np.sqrt(display.observed), np.sqrt(display.expected)
    bottom = np.array([bar.get_y() for bar in display.bars_])
    top = bottom + [bar.get_height() for bar in display.bars_]
    ends = {"hanging": (expected - seen, expected), "standing": (0 * seen, seen)}.get(
        kind, (0 * seen, expected - seen)
    )
    assert_allclose((bottom, top), ends, atol=1e-12)
    assert_allclose(display.line_.get_ydata(), 0 if kind == "suspended" else expected)
    assert (display.band_ is None) == (kind == "standing")
    assert display.ax_.get_title(loc="left") == "Poisson"


def test_the_limits_are_visible_for_any_number_of_rows():
    for times in (1, 100):
        mean = np.repeat(MEAN, times)
        display = draw(np.random.default_rng(1).poisson(mean), stats.poisson(mean))
        above, below = (float(line.get_ydata()[0]) for line in display.band_)
        shares = [bar.get_height() for bar in display.bars_]
        assert (above - below) / np.ptp(shares) > 0.1


def test_a_forecast_of_real_numbers_counts_by_unit_intervals():
    display = draw([1, 2, 3], Normal(np.full(3, 2.0), 1.0))
    assert_allclose(display.expected[1], 3 * (stats.norm.cdf(0.5) - stats.norm.cdf(-0.5)))


def test_from_estimator_and_folds():
    X = MEAN[:, np.newaxis]
    model = UncertaintyRegressor(LinearRegression(), random_state=0, support="count").fit(X, Y)
    display = RootogramDisplay.from_estimator(model, X, Y, band=False)
    assert display.band_ is None
    assert_allclose(display.expected, draw(Y, model.predict_dist(X)).expected)
    results = cross_validate(model, X, Y, cv=3, return_estimator=True, return_indices=True)
    assert RootogramDisplay.from_cv_results(results, X, Y).observed.sum() == len(Y)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([0.5, 1], stats.poisson([1.0, 1.0])), {}, ValueError, "must hold integers, got 0.5 at row 0"),
        (([0, np.nan], stats.poisson([1.0, 1.0])), {}, ValueError, "`y_true` must be finite"),
        (([0, 1], [1.0, 1.0]), {}, TypeError, "`y_pred` must be a Distribution"),
        (([0, 1], stats.poisson([1.0, 1.0])), {"kind": "bar"}, ValueError, "`kind` must be one of"),
        (([0, 1], stats.poisson([1.0, 1.0])), {"band": 1}, ValueError, "`band` must be one of"),
        (([2, 5], stats.poisson([1.0, 1.0])), {"max_count": 2}, ValueError, "`max_count` must be at least 3"),
    ],
)
def test_bad_input(arguments, options, error, message):
    with pytest.raises(error, match=message):
        draw(*arguments, **options)
