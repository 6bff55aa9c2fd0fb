"""Versions of skuq and of the packages that it uses."""

from __future__ import annotations

import platform
import sys

from skuq._compat import PACKAGES, installed_versions

OPTIONAL = ("pyarrow", "torch", "skorch", "gpytorch", "optuna", "dask", "rich")


def show_versions() -> None:
    """Print the versions of skuq, Python and related packages, for a bug report.

    Examples
    --------
    >>> import skuq
    >>> skuq.show_versions()
    skuq: 0.1.0
    Python: ...
    """
    versions = installed_versions((*PACKAGES, *OPTIONAL))
    versions |= {"platform": platform.platform(), "executable": sys.executable}
    print(*(f"{name}: {version}" for name, version in versions.items()), sep="\n")
