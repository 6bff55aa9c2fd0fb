"""Student t distributions from few degrees of freedom to infinitely many, against mpmath."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.distributions import Normal, StudentT, concat

DF = [0.6, 1.00004, 2.0, 39.9, 40.0, 3e3, 1e8]
RARE_DF = [0.97, 1.3, 7.0, 170.0, 1e6, 1e10, 1e13, 1e15, 1e18]
Z = [-30.0, -4.0, -0.3, 0.0, 1.0, 6.0]


def reference(df, z):
    """Log density, cdf of -|z| and CRPS in 50 digits."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 50
    df, z, half = mpmath.mpf(df), mpmath.mpf(z), mpmath.mpf(1) / 2
    log_norm = mpmath.loggamma((df + 1) / 2) - mpmath.loggamma(df / 2) - mpmath.log(df * mpmath.pi) / 2

    def log_density(t):
        return log_norm - (df + 1) / 2 * mpmath.log1p(t * t / df)

    if df < 1e5:
        tail = mpmath.betainc(df / 2, half, 0, df / (df + z * z), regularized=True) / 2
    else:
        end = abs(z)
        points = [end + k * min(1 / max(end, 1), 1) for k in (0, 1, 2, 4, 8, 16, 32, 64)]
        tail = mpmath.quad(lambda t: mpmath.exp(log_density(t)), points)
    inner = 1 - 2 * tail  # P(|T| < |z|)

    def log_beta(a, b):
        return mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)

    spread = (
        2 * mpmath.sqrt(df) / (df - 1) * mpmath.exp(log_beta(half, df - half) - 2 * log_beta(half, df / 2))
    )
    density = mpmath.exp(log_density(z))
    return log_density(z), tail, abs(z) * inner + 2 * density * (df + z * z) / (df - 1) - spread


@pytest.mark.parametrize("df", [*DF, *(pytest.param(df, marks=pytest.mark.laws) for df in RARE_DF)])
def test_every_number_of_degrees_of_freedom_against_mpmath(df):
    for z in Z:
        log_density, tail, crps = (float(value) for value in reference(df, z))
        dist = StudentT(2.0, 3.0, df)
        y = 2.0 + 3.0 * z
        assert dist.logpdf(y)[0] == pytest.approx(log_density - np.log(3.0), rel=1e-12)
        assert dist.cdf(2.0 - 3.0 * abs(z))[0] == pytest.approx(tail, rel=1e-10)
        assert dist._sf(np.array([2.0 + 3.0 * abs(z)]))[0] == pytest.approx(tail, rel=1e-10)
        assert dist.crps(y)[0] == pytest.approx(3 * crps, rel=1e-10)
        assert StudentT(0.0, 1.0, df).ppf(tail)[0] == pytest.approx(-abs(z), rel=1e-10, abs=1e-10)
        assert StudentT(0.0, 1.0, df)._isf(np.asarray(tail))[0] == pytest.approx(abs(z), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("df", [1e-9 + 1, 1.0, 1 - 1e-9])
def test_the_crps_passes_one_degree_of_freedom_without_a_step(df):
    expected = [float(reference(1 + 2e-4, z)[2] + reference(1 - 2e-4, z)[2]) / 2 for z in Z]
    assert_allclose(StudentT(np.zeros(6), 1.0, df).crps(Z), expected, rtol=1e-6)


def test_the_log_density_of_a_huge_residual_is_finite():
    # the kernel is a power: -(df + 1) log|z| + df / 2 log(df) and a constant
    dist = StudentT(0.0, 1.0, 3.0)
    assert dist.logpdf(1e200)[0] - dist.logpdf(1e190)[0] == pytest.approx(-40 * np.log(10), rel=1e-12)


ROWS = {"loc": [0.0, -1.0, 2.0], "scale": [1.0, 2.0, 0.5], "epistemic_scale": [0.5, 1.0, 0.0]}


def test_infinitely_many_degrees_of_freedom_are_normal():
    dist, normal = StudentT(**ROWS, df=np.inf), Normal(**ROWS)
    y = np.array([0.3, 40.0, -2.0])
    for name in ("mean", "std", "var", "median", "interval"):
        assert_allclose(getattr(dist, name)(), getattr(normal, name)(), rtol=1e-14, atol=1e-14)
    for name in ("cdf", "pdf", "logpdf", "crps", "_sf"):
        assert_allclose(getattr(dist, name)(y), getattr(normal, name)(y), rtol=1e-13)
    for p in (0.0, 1e-300, 1e-7, 0.3, 0.5, 1.0):
        assert_allclose(dist.ppf(p), normal.ppf(p), rtol=1e-13)
        assert_allclose(dist._isf(np.asarray(p)), normal._isf(np.asarray(p)), rtol=1e-13)
    for part in ("epistemic", "aleatoric"):
        assert_allclose(getattr(dist, part)().std(), getattr(normal, part)().std(), rtol=1e-14)
    assert_allclose(dist._affine(np.ones(3), -2 * np.ones(3)).std(), 2 * normal.std(), rtol=1e-14)
    assert_array_equal(pickle.loads(pickle.dumps(dist)).df, np.inf)
    draws = dist.sample(4000, random_state=0)
    assert_allclose(draws.std(axis=1), normal.std(), rtol=0.05)


def test_rows_with_and_without_finite_degrees_of_freedom_go_together():
    df = np.array([3.0, np.inf, 0.8])
    mixed = StudentT(**ROWS, df=df)
    y = np.array([0.3, -2.0, 5.0])
    rows = [StudentT(ROWS["loc"][i], ROWS["scale"][i], df[i]) for i in range(3)]
    for name in ("cdf", "logpdf", "crps", "_sf"):
        expected = [getattr(row, name)(y[[i]])[0] for i, row in enumerate(rows)]
        assert_allclose(getattr(mixed, name)(y), expected, rtol=1e-12)
        assert_allclose(getattr(concat(rows), name)(y), expected, rtol=1e-12)
    for p in (1e-200, 0.2, 0.9):
        assert_allclose(mixed.ppf(p), [row.ppf(p)[0] for row in rows], rtol=1e-12)
    assert_array_equal(mixed[[1, 0]].df, [np.inf, 3.0])
    assert_allclose(mixed[:2].std(), [np.sqrt(3.0), 2.0])
    assert_array_equal(StudentT(0.0, 0.0, np.inf).crps(2.0), 2.0)


@pytest.mark.parametrize("df", [0.6, 1.0, 1.5, 3.0, 4.0, 6.0, 9.0, 40.0, 300.0, 1e4, 1e7])
def test_far_quantiles_invert(df):
    dist = StudentT(0.0, 1.0, df)
    for p in (0.3, 1e-30, 1e-80, 1e-95, 1e-120, 1e-200, 1e-300):
        z = dist.ppf(p)
        if z[0] > -1e150:  # beyond, the square of z overflows in scipy's cdf
            assert_allclose(dist.cdf(z), p, rtol=1e-7)


def tail_of(df, t):
    mpmath = pytest.importorskip("mpmath")
    df, t = mpmath.mpf(df), mpmath.mpf(t)
    return mpmath.betainc(df / 2, mpmath.mpf(1) / 2, 0, df / (df + t * t), regularized=True) / 2


def test_far_tails_against_mpmath():
    for df, t in ((3.0, -1e60), (5.0, -1e20), (30.0, -60.0), (2.5, -0.2)):
        assert StudentT(0.0, 1.0, df).cdf(t)[0] == pytest.approx(float(tail_of(df, t)), rel=1e-10)
    for df in (1.5, 3.0, 6.0, 9.0, 40.0):
        for p in (1e-300, 1e-150, 1e-100):  # scipy's stdtrit is infinite at 1e-300 for some df
            assert float(tail_of(df, StudentT(0.0, 1.0, df).ppf(p)[0]) / p) == pytest.approx(1.0, rel=1e-9)


def test_heavy_tails():
    cauchy = StudentT([0.0, 0.0], 1.0, [1.0, 3.0])
    with pytest.raises(ValueError, match="mean only for `df` above 1, got 1 at row 0"):
        cauchy.mean()
    assert_array_equal(StudentT(0.0, 1.0, 1.5).std(), np.inf)
    # CRPS of the standard Cauchy distribution at its center: int F^2 + (1 - F)^2 = 2 log(2) / pi
    assert_allclose(cauchy.crps(0.0)[0], 2 * np.log(2) / np.pi, rtol=1e-9)
    assert_array_equal(StudentT(0.0, 1.0, 0.4).crps(0.0), np.inf)
