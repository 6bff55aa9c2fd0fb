"""Small real data sets that are part of skuq."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, cast, overload

import pandas as pd
from sklearn.utils import Bunch

from skuq._typing import FloatArray
from skuq.datasets._fetch import load_set


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
