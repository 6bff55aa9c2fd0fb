"""Imports of private or experimental names of scikit-learn and of joblib, warnings, versions and pickles.

Names of scikit-learn have fallbacks. No other module imports these names, so that a new version of
scikit-learn affects only this file.
"""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from numbers import Integral
from types import FrameType
from typing import Any, TypeVar, cast

import numpy as np
from joblib import effective_n_jobs, parallel_config
from joblib import hash as content_hash
from joblib.externals.loky import ProcessPoolExecutor
from joblib.parallel import SequentialBackend, get_active_backend
from sklearn.ensemble._forest import ForestRegressor
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import _routing_enabled as routing_enabled
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import _BaseComposition as BaseComposition
from sklearn.utils.metaestimators import available_if as untyped_available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params as slice_fit_params
from sklearn.utils.validation import _num_samples as count_rows

from skuq.exceptions import InconsistentVersionWarning

_INTERNAL_PACKAGES = ("skuq", "sklearn", "joblib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning at the line of the user's code."""
    level = 1  # The stack level is computed, because it differs between scikit-learn versions.
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INTERNAL_PACKAGES:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


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


try:  # Callbacks report progress. They are experimental in scikit-learn 1.9.
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as untyped_with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Fallback for versions of scikit-learn without callbacks."""

    def untyped_with_callbacks(method: Any) -> Any:
        return method


try:
    from sklearn.metrics._scorer import _BaseScorer as BaseScorer
except ImportError:

    class BaseScorer:  # type: ignore[no-redef]
        """Fallback without caching and metadata routing, for versions without scikit-learn's base class."""

        def __init__(
            self, score_func: Any, sign: int, kwargs: dict[str, Any], response_method: str = "predict"
        ) -> None:
            self._score_func = score_func
            self._sign = sign
            self._kwargs = kwargs
            self._response_method = response_method

        def __call__(self, estimator: Any, X: Any, y_true: Any, *, sample_weight: Any = None) -> float:
            metadata = {} if sample_weight is None else {"sample_weight": sample_weight}
            return float(self._score(None, estimator, X, y_true, **metadata))

        def _score(self, method_caller: Any, estimator: Any, X: Any, y_true: Any, **metadata: Any) -> float:
            raise NotImplementedError("a scorer must define `_score`")

        def _accept_sample_weight(self) -> bool:
            return "sample_weight" in signature(self._score_func).parameters


__all__ = [
    "BaseComposition",
    "BaseScorer",
    "CallbackSupportMixin",
    "ForestRegressor",
    "ProcessPoolExecutor",
    "accepts_sample_weight",
    "available_if",
    "content_hash",
    "count_rows",
    "effective_n_jobs",
    "estimator_kind",
    "is_classifying",
    "is_pairwise",
    "is_regressing",
    "routing_enabled",
    "run_parallel",
    "safe_indexing",
    "sequential_in_cluster_task",
    "slice_fit_params",
    "splitter_ignores_groups",
    "splitter_needs_groups",
    "with_callbacks",
]

safe_indexing = _safe_indexing
MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def with_callbacks(method: MethodT) -> MethodT:
    """Decorate a method to set up and tear down callbacks. Its type does not change."""
    return cast(MethodT, untyped_with_callbacks(method))


def available_if(check: Callable[[Any], Any]) -> Callable[[MethodT], MethodT]:
    """Decorate a method that only some instances have. Its type does not change."""
    return cast(Callable[[MethodT], MethodT], untyped_available_if(check))


def accepts_sample_weight(scorer: Any) -> bool:
    if isinstance(scorer, BaseScorer):
        if not hasattr(scorer, "_accept_sample_weight"):  # scikit-learn before 1.7
            return "sample_weight" in signature(scorer._score_func).parameters
        return bool(scorer._accept_sample_weight())
    return "sample_weight" in signature(scorer).parameters


def is_pairwise(estimator: Any) -> bool:
    try:
        return bool(get_tags(estimator).input_tags.pairwise)
    except Exception:  # Estimators of other packages may have no tags or broken tags.
        return False


def is_classifying(estimator: Any) -> bool:
    return estimator_kind(estimator) == "classifier"


def is_regressing(estimator: Any) -> bool:
    return estimator_kind(estimator) == "regressor"


def estimator_kind(estimator: Any) -> str | None:
    try:
        return get_tags(estimator).estimator_type  # type: ignore[no-any-return]
    except Exception:  # Estimators of other packages may have no tags or broken tags.
        return None


def splitter_ignores_groups(splitter: Any) -> bool:
    if not type(splitter).__module__.startswith("sklearn."):
        return False
    return "groups" not in get_routing_for_object(splitter).split.requests


def splitter_needs_groups(splitter: Any) -> bool:
    known = type(splitter).__module__.startswith("sklearn.")
    return known and bool(get_routing_for_object(splitter).split.requests.get("groups"))


@contextmanager
def sequential_in_cluster_task() -> Iterator[None]:
    """Run parallel work in the block sequentially inside a task of a dask cluster.

    The dask backend of joblib uses all cores of the cluster for every ``n_jobs``, also inside tasks. Each
    fold and each tree would then be a separate task, and the fit would take seven times as long.
    """
    sequential = False
    # Inside a task, `distributed` is already imported. Outside of tasks, its slow import is avoided.
    if "distributed" in sys.modules:
        from distributed import get_worker

        with suppress(ValueError):  # dask raises this error outside of tasks.
            get_worker()
            sequential = get_active_backend()[0].effective_n_jobs(1) != 1
    with parallel_config("sequential") if sequential else nullcontext():
        yield


def _run_task(task: Callable[[], Any]) -> Any:
    with sequential_in_cluster_task():
        return task()


def check_jobs(n_jobs: Any, verbose: Any) -> None:
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(
            f"`n_jobs` must be an integer other than 0, or None, got {n_jobs!r}. -1 uses all cores."
        )
    if not isinstance(verbose, Integral | np.bool_) or int(verbose) < 0:
        raise ValueError(f"`verbose` must be an integer of at least 0, got {verbose!r}. 0 prints nothing.")


def run_parallel(
    tasks: Iterable[Callable[[], Any]],
    *,
    n_jobs: int | None,
    one_by_one: bool = False,
    verbose: int = 0,
    **options: Any,
) -> Iterable[Any]:
    """Return the results of the tasks, which are functions without arguments, in the order of the tasks.

    With ``verbose=1``, joblib prints about ten lines. Its own level 1 prints only at the end of a few tasks.
    """
    check_jobs(n_jobs, verbose)
    with parallel_config("sequential") if n_jobs == 1 else sequential_in_cluster_task():
        backend, n_jobs_of_backend = get_active_backend()
        gradual = one_by_one and (isinstance(backend, SequentialBackend) or backend.supports_return_generator)
        # One job runs without joblib, whose overhead is as long as a linear prediction for one row.
        requested = n_jobs_of_backend if n_jobs is None else n_jobs
        one_job = requested in (None, 1) and backend.effective_n_jobs(1) == 1 and not verbose
        returned = "generator" if gradual else "list"
        parallel = Parallel(n_jobs=n_jobs, return_as=returned, verbose=10 * verbose, **options)
    if one_job:
        here = (_run_task(task) for task in tasks)
        return here if gradual else list(here)
    results: Iterable[Any] = parallel(delayed(_run_task)(task) for task in tasks)
    return results


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
