"""Laws that every registered metric obeys, read off its record."""

import inspect
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skuq.distributions import Empirical, Normal, Quantiles, StudentT, affine
from skuq.metrics._spec import all_specs
from tests.metrics.options import forecast_specs, required

SPECS = list(forecast_specs().values())
FIXED = [spec for spec in SPECS if not spec.random]
LEVELS = np.arange(1, 1000) / 1000


def of(specs):
    return pytest.mark.parametrize("spec", specs, ids=lambda spec: spec.abbreviation)


def families(spec, dist):
    """Yield the forecast in the families that the metric takes."""
    yield dist
    yield StudentT(dist.loc, dist.scale, df=4.0)
    yield Quantiles(LEVELS[49::50], dist.quantile(LEVELS[49::50]))
    if spec.needs != "density":
        yield Empirical(dist.quantile(LEVELS[24::50]))


def value(spec, y, dist, shift=0.0, factor=1.0, **options):
    return spec.function(y, dist, **{**required(spec, shift, factor), **options})


@of(FIXED)
def test_translation_changes_nothing_and_units_are_as_declared(spec, forecast):
    y, dist = forecast
    for member in families(spec, dist):
        before = value(spec, y, member)
        moved = value(spec, y + 1000.0, affine(member, 1000.0, 1.0), shift=1000.0)
        assert moved == pytest.approx(before, rel=1e-9, abs=1e-12)
        after = value(spec, 8.0 * y, affine(member, 0.0, 8.0), factor=8.0)
        expected = before + math.log(8.0) if spec.units == "log" else before * 8.0**spec.units
        assert after == pytest.approx(expected, rel=1e-9, abs=1e-12)


@of(FIXED)
@pytest.mark.parametrize("unit", [1e-98, 2.0**-256, 2.0**256, 1e96])
def test_units_may_be_large_or_small(spec, forecast, unit):
    y, dist = forecast
    before = value(spec, y, dist)
    after = value(spec, unit * y, affine(dist, 0.0, unit), factor=unit)
    if spec.units == "log":
        assert after == pytest.approx(before + math.log(unit), rel=1e-9)
    else:
        assert after == pytest.approx(before * unit**spec.units, rel=1e-9, abs=0)


@pytest.mark.parametrize("unit", [1e-98, 1e-75, 1e75, 1e96])
def test_options_in_large_or_small_units(unit, forecast):
    y, dist = forecast
    for name, options, units in (
        ("nmpiw", {"scale": "std"}, 0),
        ("cwc", {"scale": "std"}, 0),
        ("ence", {"strategy": "uniform"}, 0),
        ("sharpness", {"kind": "rms"}, 1),
        ("sharpness", {"kind": "variance"}, 2),
        ("uce", {"on": "std"}, 2),
        ("uce", {"strategy": "quantile"}, 2),
        ("auucc", {"y_axis": "deficit"}, 2),
        ("auucc", {"y_axis": "deficit", "y_range": (0.1, 0.3)}, 2),
        ("auucc", {"x_axis": "excess", "normalize": "std"}, 0),
    ):
        function = all_specs(rooms=True)[name].function
        before = function(y, dist, **options)
        if "y_range" in options:
            options["y_range"] = tuple(unit * end for end in options["y_range"])
        after = function(unit * y, affine(dist, 0.0, unit), **options)
        assert after == pytest.approx(before * unit**units, rel=1e-9, abs=0), name


@of(FIXED)
def test_order_of_rows_does_not_matter_and_weights_equal_repetition(spec, forecast):
    y, dist = forecast
    order = np.random.default_rng(0).permutation(y.size)
    weight = np.random.default_rng(0).integers(0, 4, size=y.size)
    rows = np.repeat(np.arange(y.size), weight)
    wild = np.where(weight == 0, 1e300, y)
    for member in families(spec, dist):
        plain = value(spec, y, member)
        assert value(spec, y[order], member[order]) == pytest.approx(plain, rel=1e-12, abs=1e-14)
        weighted = value(spec, y, member, sample_weight=weight)
        assert weighted == pytest.approx(value(spec, y[rows], member[rows]), rel=1e-11, abs=1e-13)
        assert weighted != pytest.approx(plain, rel=1e-6)
        equal = value(spec, y, member, sample_weight=np.full(y.size, 3.0))
        assert equal == pytest.approx(plain, rel=1e-12, abs=1e-14)
        # A row of weight 0 is as if absent.
        assert value(spec, wild, member, sample_weight=weight) == pytest.approx(weighted, rel=1e-12)


@of([spec for spec in SPECS if spec.proper])
def test_truth_has_the_best_expected_value(spec):
    rng = np.random.default_rng(0)
    n = 40_000
    loc, scale = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    y = loc + scale * rng.normal(size=n)
    truth = value(spec, y, Normal(loc, scale))
    sign = 1 if spec.direction == "lower" else -1
    for name, rival in {
        "shifted": Normal(loc + 0.1, scale),
        "narrow": Normal(loc, 0.85 * scale),
        "wide": Normal(loc, 1.15 * scale),
        "homoscedastic": Normal(loc, np.sqrt(np.mean(scale**2))),
        "ignorant": Normal(np.zeros(n), y.std()),
        "square root": Normal(loc, np.sqrt(scale)),
    }.items():
        assert sign * (value(spec, y, rival) - truth) > 0, name


@of([spec for spec in FIXED if spec.needs != "density"])
def test_fine_ensemble_agrees_with_the_normal_it_stands_for(spec, forecast):
    y, dist = forecast
    ensemble = Empirical(dist.quantile((np.arange(2000) + 0.5) / 2000))
    steepness = spec.options.get("eta", 0.0)  # CWC grows by this rate as the coverage falls
    relative = 1e-2 + np.expm1(steepness * 1.2 / y.size)
    assert value(spec, y, ensemble) == pytest.approx(value(spec, y, dist), rel=relative, abs=1.2 / y.size)


@of(FIXED)
def test_every_way_to_pass_a_forecast_gives_the_same(spec, forecast):
    y, dist = forecast
    expected = value(spec, y, dist)
    assert value(spec, y, stats.norm(dist.loc, dist.scale)) == pytest.approx(expected, rel=1e-9)
    for target in (list(y), y[:, np.newaxis], pd.Series(y, index=np.arange(y.size)[::-1])):
        assert value(spec, target, dist) == expected
    assert value(spec, y, dist, sample_weight=pd.Series(np.ones(y.size))) == pytest.approx(
        expected, rel=1e-12
    )


@of([spec for spec in SPECS if spec.needs == "interval"])
def test_bounds_stand_for_the_distribution(spec, forecast):
    y, dist = forecast
    for coverage in (0.5, 0.9):
        bounds = dist.interval(coverage)
        expected = value(spec, y, dist, coverage=coverage)
        assert value(spec, y, bounds, coverage=coverage) == expected
        assert value(spec, y, pd.DataFrame(bounds), coverage=coverage) == expected


@of(SPECS)
def test_values_are_floats_within_the_bounds_of_the_record(spec, forecast):
    y, dist = forecast
    low, high = spec.bounds
    for bias, spread in ((0.0, 1.0), (0.0, 0.01), (0.0, 1e4), (-50.0, 0.1), (1e3, 1e-6)):
        for member in families(spec, Normal(dist.loc + bias, spread * dist.scale)):
            result = value(spec, y, member)
            assert type(result) is float
            assert low <= result <= high
            assert math.isfinite(result) or spread < 1


@of(all_specs(rooms=True).values())
def test_the_record_is_complete_and_documented(spec):
    assert spec.direction in {"lower", "higher", None}
    assert spec.needs in {"distribution", "density", "interval", "moments", "proba", "set", "joint"}
    assert spec.units == "log" or isinstance(spec.units, int)
    assert spec.source
    assert spec.function.__module__.startswith(("skuq.metrics.", "skuq.multivariate."))
    document = inspect.getdoc(spec.function)
    assert "proper" in document, "the docstring must say whether the metric is proper"
    assert ">>>" in document, "the docstring must have an example"
    second = document.split("\n\n")[1]
    opening = {"lower": "The smaller the better", "higher": "The larger the better"}.get(
        spec.direction, ("The smaller", "Neither")
    )
    assert second.startswith(opening), f"the second paragraph of the docstring must begin with {opening!r}"
    suffix = spec.function.__name__.rsplit("_", 1)[-1]
    assert suffix not in {"loss", "error"} or spec.direction == "lower", "losses and errors are to be small"
    # The share of labels in their set has the name that MAPIE gives it; sets of all classes have the largest.
    assert suffix != "score" or spec.direction == ("higher" if spec.abbreviation != "set_coverage" else None)
    if isinstance(spec.optimum, str):
        assert spec.optimum in spec.options
