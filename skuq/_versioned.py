"""Version of skuq, versions of the packages that it uses, and pickles that contain the version of skuq."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from skuq._warnings import warn_user
from skuq.exceptions import InconsistentVersionWarning

__version__ = "0.1.0"

_KEY = "_skuq_version"

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib", "Jinja2")
"""Packages that affect the numbers and figures of a report."""

ClassT = TypeVar("ClassT", bound=type)


def versioned(cls: ClassT) -> ClassT:
    """Decorate a base class of estimators so that pickles warn if another version of skuq loads them."""
    base: Any = cls
    get_state, set_state = base.__getstate__, base.__setstate__

    def get_versioned_state(self: Any) -> dict[str, Any]:
        return {**get_state(self), _KEY: __version__}

    def set_versioned_state(self: Any, state: dict[str, Any]) -> None:
        attributes = dict(state)
        version = attributes.pop(_KEY, "of an unknown version")
        if version != __version__:
            warn_of_other_version(type(self).__name__, version, "predict other numbers", "fit it again")
        set_state(self, attributes)

    base.__getstate__, base.__setstate__ = get_versioned_state, set_versioned_state
    return cls


def warn_of_other_version(what: str, version: str, risk: str, remedy: str) -> None:
    """Warn that another version of skuq pickled an object."""
    warn_user(
        f"this {what} was pickled by skuq {version} and is loaded by skuq {__version__}. It may fail, or "
        f"{risk}. Load it with the version that pickled it, or {remedy}.",
        InconsistentVersionWarning,
    )


def installed_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of skuq, Python and other packages, without missing packages."""
    versions = {"skuq": __version__, "Python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
