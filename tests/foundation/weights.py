"""Random weights of TabPFN and TabICL in files, so that the packages run without a download."""

from dataclasses import asdict

import numpy as np

from tests.integrations.automl import installed as installed_module

X = np.random.default_rng(0).normal(size=(60, 3))
Y = 5.0 + X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=60)


def installed(name):
    return installed_module(name, "make test-foundation")


def write_tabpfn(path, n_bars=120):
    """Write a small TabPFN v2 whose weights are random, with bars from -4 to 4 standard deviations."""
    torch = installed("torch")
    architecture = installed("tabpfn.architectures.tabpfn_v2")
    bars = installed("tabpfn.architectures.shared.bar_distribution")
    sizes = {"emsize": 32, "nlayers": 2, "nhead": 2, "num_buckets": n_bars, "max_num_classes": 0}
    config, _ = architecture.parse_config(sizes)
    generator = torch.Generator().manual_seed(0)
    borders = torch.linspace(-4.0, 4.0, n_bars + 1)
    criterion = bars.FullSupportBarDistribution(borders).state_dict()
    state = _random(architecture.get_architecture(config).state_dict(), generator)
    state |= {f"criterion.{name}": value for name, value in criterion.items()}
    saved = {"state_dict": state, "config": asdict(config), "architecture_name": "tabpfn_v2"}
    torch.save(saved, path)
    return path


def write_tabicl(path, n_quantiles=199):
    """Write a small TabICL whose weights are random."""
    torch = installed("torch")
    sizes = {"max_classes": 0, "num_quantiles": n_quantiles, "embed_dim": 16, "row_num_cls": 2}
    sizes |= {f"{part}_num_blocks": 1 for part in ("col", "row", "icl")}
    sizes |= {f"{part}_nhead": 2 for part in ("col", "row", "icl")} | {"col_num_inds": 8}
    model = installed("tabicl._model.tabicl").TabICL(**sizes)
    generator = torch.Generator().manual_seed(0)
    torch.save({"config": sizes, "state_dict": _random(model.state_dict(), generator)}, path)
    return path


def _random(state, generator):
    """Replace zeros, which would make the prediction independent of x, by small random numbers."""
    torch = installed("torch")
    noise = {name: 0.1 * torch.randn(value.shape, generator=generator) for name, value in state.items()}
    return {
        name: value + noise[name] if value.dtype.is_floating_point else value for name, value in state.items()
    }
