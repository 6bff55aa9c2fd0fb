"""How torch is set for a training: products by oneDNN only where they are exact, and all as it was after."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.neural import DeepEnsembleRegressor
from skuq.neural import _device as device

LARGE = 1 << 40
SETTINGS = getattr(torch.backends.mkldnn, "matmul", None)

needs_setting = pytest.mark.skipif(
    not hasattr(SETTINGS, "fp32_precision") or not hasattr(torch.cpu, "get_capabilities"),
    reason="this torch cannot be told who multiplies, or not what the processor has",
)


@pytest.fixture
def exact(monkeypatch):
    """A processor whose oneDNN does not round, whatever this one is."""
    monkeypatch.setattr(device, "_onednn_is_exact", lambda: True)


@pytest.mark.parametrize("shape", [(20, 64, 64, 200), (40, 64, 64, 32), (3, 7, 300, 5), (1, 128, 128, 512)])
def test_products_are_as_exact_as_float32(shape):
    """On this machine, by whomever they are made; rounding to bfloat16 makes errors above 0.01."""
    m, a, b, c = shape
    first, second = torch.randn(m, a, b), torch.randn(m, b, c)
    with device.fast_products(LARGE):
        product = torch.bmm(first, second)
    error = (product - torch.bmm(first.double(), second.double())).abs().max()
    assert error < 1e-5 * b**0.5


@needs_setting
def test_large_steps_are_multiplied_by_onednn_and_small_ones_are_not(exact):
    with device.fast_products(LARGE):
        assert SETTINGS.fp32_precision == "bf16"
    with device.fast_products(1000):
        assert SETTINGS.fp32_precision == "none"


@needs_setting
def test_the_setting_is_taken_back_after_an_error(exact):
    with pytest.raises(RuntimeError, match="inside"), device.fast_products(LARGE):
        raise RuntimeError("inside")
    assert SETTINGS.fp32_precision == "none"


@needs_setting
@pytest.mark.parametrize("chosen", ["ieee", "bf16"])
def test_what_the_user_has_set_stays(exact, chosen):
    SETTINGS.fp32_precision = chosen
    try:
        with device.fast_products(LARGE):
            assert SETTINGS.fp32_precision == chosen
        assert SETTINGS.fp32_precision == chosen
    finally:
        SETTINGS.fp32_precision = "none"


@needs_setting
@pytest.mark.parametrize(
    ("capabilities", "is_exact"),
    [
        ({"avx2": True, "avx512_bw": True, "avx512_bf16": True, "amx_tile": False}, True),
        ({"avx2": True, "avx512_bw": True, "amx_tile": True, "amx_bf16": True}, False),
        ({"avx2": True, "avx512_bw": True, "avx10_2": True}, False),
        ({"avx2": True, "avx512_bw": False}, False),
        ({}, False),
    ],
)
def test_processors_whose_onednn_may_round_are_left_alone(monkeypatch, capabilities, is_exact):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    device._onednn_is_exact.cache_clear()
    try:
        assert device._onednn_is_exact() is is_exact
        with device.fast_products(LARGE):
            assert SETTINGS.fp32_precision == ("bf16" if is_exact else "none")
    finally:
        monkeypatch.undo()
        device._onednn_is_exact.cache_clear()


@needs_setting
def test_a_training_with_large_steps_asks_for_it(exact, monkeypatch, sine):
    """Of 40 members and 75 rows a step; one of 2 members does not."""
    seen = {40: set(), 2: set()}
    step = torch.optim.Adam.step

    def watched(self, *args, **kwargs):
        seen[n_members].add(SETTINGS.fp32_precision)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    for n_members in seen:
        DeepEnsembleRegressor(
            n_members, batch_size=60, max_epochs=2, calibration=None, device="cpu", random_state=0
        ).fit(*sine)
    assert seen == {40: {"bf16"}, 2: {"none"}}
    assert SETTINGS.fp32_precision == "none"
