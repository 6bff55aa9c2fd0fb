"""Data sets from the package, a local mirror, a cache or the network."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol, cast, overload

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skuq._compat import warn_user
from skuq._typing import FloatArray, IntArray
from skuq._validation import check_integer, check_number, check_option
from skuq.datasets._download import FAILURES, download
from skuq.datasets._sets import FOLDER, DataSet, find_set
from skuq.datasets._table import read_table, store_table
from skuq.exceptions import SkuqWarning


def fetch_uci(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    n_retries: int = 3,
    delay: float = 1.0,
    return_X_y: bool = False,
    as_frame: bool = True,
) -> Any:
    """Return a data set of Wibbeke et al. (2025) [1]_, or the traffic data of Navratil et al. (2023) [2]_.

    The function looks for the table in five places, in this order: the folder in the environment variable
    SKUQ_DATA (see Notes), the package, the cache, OpenML, and the UCI repository. A checksum verifies that
    the values match the published values.

    Parameters
    ----------
    name : str
        "abalone", "airfoil_self_noise", "auction_verification", "auto_mpg", "combined_cycle_power_plant",
        "computer_hardware", "concrete_strength", "energy_efficiency", "facebook_metrics", "forest_fires",
        "grid_stability", "metro_traffic", "nhanes_age", "parkinsons_telemonitoring", "servo",
        "steel_industry", "superconductivity" or "wine_quality".
    data_home : path-like, default=None
        Folder of the cache. The tables are stored in its sub-folder ``skuq``. None means the folder of
        scikit-learn, i.e. the value of the environment variable SCIKIT_LEARN_DATA, or
        ``~/scikit_learn_data``.
    download_if_missing : bool, default=True
        Whether the table may be downloaded.
    n_retries : int, default=3
        Number of retries after an interrupted transfer. Transfers from OpenML are retried at least once, even
        if `n_retries` is 0.
    delay : float, default=1.0
        Seconds between retries.
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=True
        Whether to return a DataFrame and a Series. With False, arrays of floats are returned. The categories
        of a feature are then encoded as 0, 1, 2, ...

    Returns
    -------
    data : Bunch
        - ``data``: DataFrame of shape (n_samples, n_features), or ndarray. Columns of text are categorical.
          They are ordered if the categories have an order.
        - ``target``: Series of shape (n_samples,), or ndarray.
        - ``frame``: DataFrame with features and target. None if ``as_frame=False``.
        - ``feature_names``, ``target_names``: lists of names.
        - ``units``: unit of each column. The unit is "" if there is none.
        - ``categories``: categories of each categorical feature.
        - ``verified``: whether the values were verified by a checksum. If False, only the shape and the names
          of the columns were verified. This is the case for "superconductivity".
        - ``license``, ``source``, ``DESCR``: license, web address and description.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    Raises
    ------
    ValueError
        If the name is unknown, or if ``as_frame=False`` and the data set contains dates.
    OSError
        If the table cannot be obtained, or if a file in the folder SKUQ_DATA does not contain the published
        values.

    Warns
    -----
    SkuqWarning
        If the table cannot be stored in the cache.

    See Also
    --------
    fetch_gal : Nine data sets with published splits.
    load_concrete : Load a data set that is part of skuq.

    Notes
    -----
    If the environment variable SKUQ_DATA is the path of a folder, the table is read from
    ``paper001/<name>.csv.gz`` in this folder, or from ``other/metro_traffic.csv.gz`` for "metro_traffic". In
    these files, the values are separated by commas, and the first line contains the names of the columns.

    References
    ----------
    .. [1] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models. https://doi.org/10.48550/arXiv.2508.17761
    .. [2] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> from skuq.datasets import fetch_uci
    >>> abalone = fetch_uci("abalone")  # part of skuq
    >>> abalone.data.shape
    (4177, 8)
    >>> abalone.categories["Sex"]
    ['F', 'I', 'M']
    >>> print(abalone.license, abalone.source)
    CC BY 4.0 https://doi.org/10.24432/C55C7W
    """
    data = find_set("uci", name)
    table = _get_table(data, data_home, download_if_missing, n_retries, delay)
    return as_bunch(data, table, return_X_y=return_X_y, as_frame=as_frame)


def fetch_gal(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    n_retries: int = 3,
    delay: float = 1.0,
    return_X_y: bool = False,
    as_frame: bool = True,
) -> Any:
    """Return a data set of Gal and Ghahramani (2016) [1]_ with its published splits.

    Parameters
    ----------
    name : str
        "boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine" or "yacht".
    data_home : path-like, default=None
        Folder of the cache. See `fetch_uci`.
    download_if_missing : bool, default=True
        Whether the table may be downloaded.
    n_retries : int, default=3
        Number of retries after an interrupted transfer. Transfers from OpenML are retried at least once, even
        if `n_retries` is 0.
    delay : float, default=1.0
        Seconds between retries.
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=True
        Whether to return a DataFrame and a Series instead of arrays.

    Returns
    -------
    data : Bunch
        Bunch with the keys of `fetch_uci` and the additional key ``splits``: a list of 20 pairs (5 pairs for
        "protein") of training rows and test rows. scikit-learn accepts this list as ``cv``. The training rows
        are in the published order. This order matters, because Gal uses the last fifth of the training rows
        for validation.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    Raises
    ------
    ValueError
        If the name is unknown.
    OSError
        If the table cannot be obtained, or if a file in the folder SKUQ_DATA does not contain the published
        values.

    Warns
    -----
    SkuqWarning
        If the table cannot be stored in the cache.

    See Also
    --------
    fetch_uci : Load other data sets. Its documentation lists the places in which tables are looked for.

    Notes
    -----
    If the environment variable SKUQ_DATA is the path of a folder that contains ``gal/gal_<name>.csv.gz``, the
    table is read from this file. Otherwise, the table is downloaded from OpenML. If the values or the order
    of the rows on OpenML differ from the published table, the table is downloaded from Gal's repository.

    References
    ----------
    .. [1] Y. Gal, Z. Ghahramani, "Dropout as a Bayesian approximation", ICML 2016; splits of J. M.
       Hernandez-Lobato, R. Adams, "Probabilistic backpropagation", ICML 2015.

    Examples
    --------
    >>> from skuq.datasets import fetch_gal
    >>> concrete = fetch_gal("concrete")  # part of skuq
    >>> train, test = concrete.splits[0]
    >>> len(concrete.splits), len(train), len(test)
    (20, 927, 103)
    """
    data = find_set("gal", name)
    table = _get_table(data, data_home, download_if_missing, n_retries, delay)
    found = as_bunch(data, table, return_X_y=return_X_y, as_frame=as_frame)
    if not return_X_y:
        found["splits"] = _splits(data)
    return found


def load_set(name: str, return_X_y: bool, as_frame: bool) -> Any:
    data = find_set("uci", name)
    return as_bunch(data, _bundled(data), return_X_y=return_X_y, as_frame=as_frame)


def _bundled(data: DataSet) -> pd.DataFrame:
    return read_table(FOLDER / "data" / f"{data.bundled}.csv.gz", data)


def _get_table(
    data: DataSet, data_home: Any, download_if_missing: bool, n_retries: int, delay: float
) -> pd.DataFrame:
    """Return the table from the first of these places that has it: mirror, package, cache and network."""
    check_option(download_if_missing, "download_if_missing", (True, False))
    n_retries, delay = check_integer(n_retries, "n_retries", minimum=0), check_number(delay, "delay")
    if delay < 0:
        raise ValueError(f"`delay` must be at least 0, got {delay}.")
    if not isinstance(data_home, str | os.PathLike | None):
        raise TypeError(f"`data_home` must be a path or None, got {data_home!r}.")
    mirror = os.environ.get("SKUQ_DATA")
    if mirror and (path := Path(mirror) / f"{data.file}.csv.gz").is_file():
        try:
            return read_table(path, data)
        except FAILURES as error:
            raise OSError(
                f"{path} is not the table {data.name!r}: {error}. Replace the file, or unset SKUQ_DATA."
            ) from error
    if data.bundled:
        return _bundled(data)

    home = data_home or os.environ.get("SCIKIT_LEARN_DATA") or "~/scikit_learn_data"
    path = Path(home).expanduser() / "skuq" / f"{data.file}.csv.gz"
    try:
        return read_table(path, data)
    except FAILURES as error:
        missing = f"no {path}" if isinstance(error, FileNotFoundError) else f"{path}: {error}"
    remedy = f"Set SKUQ_DATA to a folder with {data.file}.csv.gz"
    if not download_if_missing:
        raise OSError(f"{missing}, and `download_if_missing` is False. {remedy}.")
    try:
        table = download(data, n_retries, delay)
    except OSError as error:
        raise OSError(f"{data.name!r} could not be downloaded: {error}. {remedy}, or try again.") from error
    try:
        store_table(table, path)
    except OSError as error:
        warn_user(
            f"{data.name!r} is not cached: {error}. Pass a writable folder as `data_home`.", SkuqWarning
        )
    return table


def _splits(data: DataSet) -> list[tuple[IntArray, IntArray]]:
    rng, n_train = np.random.RandomState(1), round(0.9 * data.n_rows)
    orders = [rng.choice(data.n_rows, data.n_rows, replace=False) for _ in range(data.n_splits)]
    return [(order[:n_train], order[n_train:]) for order in orders]


def as_bunch(data: DataSet, table: pd.DataFrame, *, return_X_y: bool, as_frame: bool) -> Any:
    """Return a table as a Bunch or as a tuple, like the loaders of scikit-learn."""
    check_option(return_X_y, "return_X_y", (True, False))
    categories = {}
    for name in data.text:
        if name in data.dates:
            table[name] = pd.to_datetime(table[name], format=data.dates[name])
        else:
            levels = list(data.ordered.get(name) or sorted(table[name].unique()))
            table[name] = pd.Categorical(table[name], levels, ordered=name in data.ordered)
            categories[name] = levels
    X: Any = table[data.features]
    y: Any = table[data.target]
    if not check_option(as_frame, "as_frame", (True, False)):
        if data.dates:
            raise ValueError(
                f"`as_frame` must be True for {data.name!r}, which contains dates ({', '.join(data.dates)})."
            )
        X = np.column_stack([X[name].cat.codes if name in categories else X[name] for name in X])
        X, y = X.astype(np.float64), y.to_numpy()
    if return_X_y:
        return X, y
    return Bunch(
        data=X,
        target=y,
        frame=table if as_frame else None,
        feature_names=data.features,
        target_names=[data.target],
        units=dict(data.units),
        categories=categories,
        verified=bool(data.sha256),
        license=data.license,
        source=data.source,
        DESCR=_describe(data),
    )


def _describe(data: DataSet) -> str:
    columns = [f"- {name}{f' ({unit})' if unit else ''}" for name, unit in data.units.items()]
    check = (
        "checked with the checksum of the published table"
        if data.sha256
        else "not checked, except for the shape"
    )
    return "\n".join(
        [
            data.title,
            "=" * len(data.title),
            "",
            f"{data.n_rows} rows, {len(data.features)} features; the target is {data.target}.",
            *([data.note] if data.note else []),
            "",
            *columns,
            "",
            f"Source: {data.source}",
            f"License: {data.license}",
            f"Values: {check}.",
        ]
    )


class Loader(Protocol):
    """Function that returns a Bunch, or the features and the target."""

    @overload
    def __call__(self, *, return_X_y: Literal[False] = False, as_frame: bool = False) -> Bunch: ...
    @overload
    def __call__(
        self, *, return_X_y: Literal[True], as_frame: Literal[False] = False
    ) -> tuple[FloatArray, FloatArray]: ...
    @overload
    def __call__(
        self, *, return_X_y: Literal[True], as_frame: Literal[True]
    ) -> tuple[pd.DataFrame, pd.Series[float]]: ...


def loader(function: Callable[..., Any]) -> Loader:
    """Declare the types of a function that loads a data set, without a change at run time."""
    return cast(Loader, function)


@loader
def load_abalone(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple[Any, Any]:
    """Return measurements of 4177 abalone and their numbers of rings.

    The eight features are the sex (F, M, or I for infant), three lengths and four weights. The target is the
    number of rings. The target is skewed, and its variance increases with the size of the animals.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=False
        Whether to return a DataFrame and a Series instead of arrays.

    Returns
    -------
    data : Bunch
        Bunch with the same keys as the Bunch of `fetch_uci`, such as ``data``, ``target``, ``units``,
        ``license``, ``source`` and ``DESCR``.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    See Also
    --------
    fetch_uci : Load more data sets. The name "abalone" returns these data.

    Examples
    --------
    >>> from skuq.datasets import load_abalone
    >>> X, y = load_abalone(return_X_y=True)
    >>> X.shape
    (4177, 8)
    """
    return load_set("abalone", return_X_y, as_frame)


@loader
def load_airfoil(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple[Any, Any]:
    """Return 1503 measurements of airfoil noise in a wind tunnel.

    The five features are frequency, angle of attack, chord length, velocity and displacement thickness. The
    target is the sound pressure level in decibels.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=False
        Whether to return a DataFrame and a Series instead of arrays.

    Returns
    -------
    data : Bunch
        Bunch with the same keys as the Bunch of `fetch_uci`, such as ``data``, ``target``, ``units``,
        ``license``, ``source`` and ``DESCR``.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    See Also
    --------
    fetch_uci : Load more data sets. The name "airfoil_self_noise" returns these data.

    Examples
    --------
    >>> from skuq.datasets import load_airfoil
    >>> X, y = load_airfoil(return_X_y=True)
    >>> X.shape
    (1503, 5)
    """
    return load_set("airfoil_self_noise", return_X_y, as_frame)


@loader
def load_auto_mpg(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple[Any, Any]:
    """Return the fuel economy of 392 cars of the model years 1970 to 1982.

    The five features are displacement, horsepower, weight, acceleration and model year. The target is in
    miles per gallon.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=False
        Whether to return a DataFrame and a Series instead of arrays.

    Returns
    -------
    data : Bunch
        Bunch with the same keys as the Bunch of `fetch_uci`, such as ``data``, ``target``, ``units``,
        ``license``, ``source`` and ``DESCR``.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    See Also
    --------
    fetch_uci : Load more data sets. The name "auto_mpg" returns these data.

    Examples
    --------
    >>> from skuq.datasets import load_auto_mpg
    >>> X, y = load_auto_mpg(return_X_y=True)
    >>> X.shape
    (392, 5)
    """
    return load_set("auto_mpg", return_X_y, as_frame)


@loader
def load_concrete(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple[Any, Any]:
    """Return the compressive strength of 1030 samples of concrete.

    The eight features are seven ingredients in kg per cubic meter, and the age in days. The target is in
    megapascals.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=False
        Whether to return a DataFrame and a Series instead of arrays.

    Returns
    -------
    data : Bunch
        Bunch with the same keys as the Bunch of `fetch_uci`, such as ``data``, ``target``, ``units``,
        ``license``, ``source`` and ``DESCR``.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    See Also
    --------
    fetch_uci : Load more data sets. The name "concrete_strength" returns these data.

    Examples
    --------
    >>> from skuq.datasets import load_concrete
    >>> X, y = load_concrete(return_X_y=True)
    >>> X.shape
    (1030, 8)
    """
    return load_set("concrete_strength", return_X_y, as_frame)
