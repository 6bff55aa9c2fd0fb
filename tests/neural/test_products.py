"""Products by oneDNN: only where they are faster and exact, and torch's settings as they were after it."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from skuq.neural import DeepEnsembleRegressor, Loss
from skuq.neural import _products as products

LARGE = 1 << 40
SETTINGS = getattr(torch.backends.mkldnn, "matmul", None)
WEIGHTS = torch.zeros(1)

needs_setting = pytest.mark.skipif(
    not hasattr(SETTINGS, "fp32_precision") or not hasattr(torch.cpu, "get_capabilities"),
    reason="this torch cannot be told who multiplies, or not what the processor has",
)


@pytest.fixture
def asked(monkeypatch):
    """A processor on which oneDNN is asked, whatever this one is."""
    monkeypatch.setattr(products, "_onednn_is_faster_and_exact", lambda: True)


def precision():
    return SETTINGS.fp32_precision


@pytest.mark.parametrize("shape", [(20, 64, 64, 200), (40, 64, 64, 32), (3, 7, 300, 50), (1, 128, 128, 512)])
def test_products_are_as_exact_as_float32(shape):
    """On this machine, by whomever they are made; rounding to bfloat16 makes errors above 0.01."""
    m, a, b, c = shape
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(size, generator=generator) for size in ((m, a, b), (m, b, c)))
    flat = torch.zeros(m, 2 * a * c)
    view = flat[:, : a * c].view(m, a, c)
    bias = torch.ones(m, a, 1)
    exact = torch.bmm(first.double(), second.double())
    with products.fast_products(WEIGHTS, LARGE, c):
        torch.bmm(first, second, out=view)
        made = {
            "bmm": (torch.bmm(first, second), exact),
            "into a view": (view, exact),
            "baddbmm": (torch.baddbmm(bias, first, second), exact + 1),
            "transposed": (torch.bmm(second.mT, first.mT), exact.mT),
            "one": (torch.mm(first[0], second[0]), exact[0]),
        }
    for name, (product, expected) in made.items():
        assert (product - expected).abs().max() < 1e-5 * b**0.5, name
    assert not flat[:, a * c :].any()


@needs_setting
def test_only_large_products_of_float32_are_made_by_onednn(asked):
    with products.fast_products(WEIGHTS, LARGE, 32):
        assert precision() == "bf16"
    for weights, n_multiplications, n_rows in (
        (WEIGHTS, 1000, 32),
        (WEIGHTS, LARGE, 16),
        (WEIGHTS.double(), LARGE, 32),
    ):
        with products.fast_products(weights, n_multiplications, n_rows):
            assert precision() == "none"


@needs_setting
def test_the_setting_is_taken_back_after_an_error(asked):
    with pytest.raises(RuntimeError, match="inside"), products.fast_products(WEIGHTS, LARGE, 32):
        raise RuntimeError("inside")
    assert precision() == "none"


@needs_setting
@pytest.mark.parametrize("chosen", ["ieee", "bf16"])
def test_what_the_user_has_set_stays(asked, chosen):
    SETTINGS.fp32_precision = chosen
    try:
        with products.fast_products(WEIGHTS, LARGE, 32):
            assert precision() == chosen
        assert precision() == chosen
    finally:
        SETTINGS.fp32_precision = "none"


@needs_setting
def test_the_last_thread_to_leave_takes_the_setting_back(asked):
    inside, leave = threading.Event(), threading.Event()

    def other():
        with products.fast_products(WEIGHTS, LARGE, 32):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with products.fast_products(WEIGHTS, LARGE, 32):
        thread.start()
        assert inside.wait(10)
    assert precision() == "bf16"
    leave.set()
    thread.join()
    assert precision() == "none"


@needs_setting
@pytest.mark.parametrize(
    ("capabilities", "may"),
    [
        ({"cpu_name": "AMD EPYC", "avx512_bw": True}, True),
        ({"cpu_name": "AMD EPYC", "avx512_bw": False}, False),
        ({"cpu_name": "Intel(R) Xeon(R)", "avx512_bw": True}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("rounds", [False, True])
def test_where_onednn_is_slower_or_rounds_it_is_not_asked(monkeypatch, capabilities, may, rounds):
    bmm = torch.bmm

    def rounded(first, second):
        first = first.bfloat16().float() if rounds and precision() == "bf16" else first
        return bmm(first, second)

    monkeypatch.setattr(torch, "bmm", rounded)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    products._onednn_is_faster_and_exact.cache_clear()
    try:
        assert products._onednn_is_faster_and_exact() is (may and not rounds)
        assert precision() == "none"
    finally:
        products._onednn_is_faster_and_exact.cache_clear()


@pytest.mark.parametrize("lacks", ["the setting", "the capabilities"])
def test_an_older_torch_asks_nobody(monkeypatch, lacks):
    if lacks == "the setting":
        monkeypatch.setattr(torch.backends, "mkldnn", SimpleNamespace())
    else:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    products._onednn_is_faster_and_exact.cache_clear()
    try:
        assert isinstance(products.fast_products(WEIGHTS, LARGE, 32), nullcontext)
    finally:
        products._onednn_is_faster_and_exact.cache_clear()


@needs_setting
def test_what_is_exact_is_found_out_only_where_onednn_would_be_asked():
    """A product under another setting of the user's would prove nothing."""
    products._onednn_is_faster_and_exact.cache_clear()
    SETTINGS.fp32_precision = "ieee"
    try:
        assert isinstance(products.fast_products(WEIGHTS, LARGE, 32), nullcontext)
        assert products._onednn_is_faster_and_exact.cache_info().currsize == 0
    finally:
        SETTINGS.fp32_precision = "none"


@needs_setting
def test_no_code_of_the_user_sees_the_setting(asked, sine):
    """A loss, a callback and a module of their own, in steps large enough; torch's getter would raise."""
    seen = set()

    class Watching(Loss):
        def score(self, loc, variance, y):
            seen.add(torch.get_float32_matmul_precision())
            return (y - loc) ** 2 / variance + variance.log()

    class Callback(skorch.callbacks.Callback):
        def on_grad_computed(self, net, **kwargs):
            seen.add(torch.get_float32_matmul_precision())

    class Network(torch.nn.Sequential):
        def forward(self, x):
            seen.add(torch.get_float32_matmul_precision())
            return super().forward(x)

    def module(n_features, n_outputs):
        return Network(torch.nn.Linear(n_features, 64), torch.nn.ReLU(), torch.nn.Linear(64, n_outputs))

    common = {"batch_size": 75, "max_epochs": 2, "calibration": None, "device": "cpu", "random_state": 0}
    DeepEnsembleRegressor(40, loss=Watching(), callbacks=[Callback()], **common).fit(*sine)
    DeepEnsembleRegressor(40, module=module, **common).fit(*sine)
    assert seen == {"highest"}


@needs_setting
def test_large_steps_of_a_training_are_made_by_onednn(asked, monkeypatch, sine):
    """Of 40 members and 75 rows; those of 2 members are not."""
    seen = {40: set(), 2: set()}
    bmm = torch.bmm

    def watched(*args, **kwargs):
        seen[n_members].add(precision())
        return bmm(*args, **kwargs)

    monkeypatch.setattr(torch, "bmm", watched)
    for n_members in seen:
        DeepEnsembleRegressor(
            n_members, batch_size=75, max_epochs=2, calibration=None, device="cpu", random_state=0
        ).fit(*sine)
    assert seen == {40: {"bf16"}, 2: {"none"}}
    assert precision() == "none"


@pytest.mark.parametrize("event", ["on_batch_begin", "on_grad_computed", "on_batch_end"])
def test_a_callback_may_predict_in_the_middle_of_an_epoch(event, sine):
    """Prediction leaves the module in the mode for it, in which it would not learn."""
    X, y = sine
    predicted = []

    def predict(self, net, **kwargs):
        predicted.append(net.forward(torch.zeros(3, 2)))

    callback = type("Predicts", (skorch.callbacks.Callback,), {event: predict})()
    common = {"max_epochs": 3, "device": "cpu", "random_state": 0}
    plain, watched = (
        DeepEnsembleRegressor(3, callbacks=callbacks, **common).fit(X, y) for callbacks in (None, [callback])
    )
    assert len(predicted) > 6
    np.testing.assert_array_equal(watched.predict(X), plain.predict(X))
