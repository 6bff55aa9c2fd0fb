"""Connections to other packages.

There is one package per connection, and no other module of skuq imports them.
"""

import typing as _typing
from importlib import import_module as _import_module

_PACKAGES = ("dask", "flaml", "mlflow", "skore", "tpot")

# Type checkers and editors read the imports. At run time, a package is imported on its first use.
if _typing.TYPE_CHECKING:
    from skuq.integrations import dask as dask
    from skuq.integrations import flaml as flaml
    from skuq.integrations import mlflow as mlflow
    from skuq.integrations import skore as skore
    from skuq.integrations import tpot as tpot
else:

    def __getattr__(name: str) -> object:
        """Import a connection on first access."""
        if name in _PACKAGES:
            return _import_module(f"skuq.integrations.{name}")
        raise AttributeError(f"module 'skuq.integrations' has no attribute {name!r}")
