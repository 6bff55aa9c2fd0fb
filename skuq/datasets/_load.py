"""Small real data sets that ship with skuq."""

from __future__ import annotations

from typing import Any

from skuq.datasets._fetch import load_set


def load_abalone(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Return the age of 4177 abalone, by the rings of the shell.

    Eight features: the sex (F, I for infant, M), three lengths and four weights. The target is skewed, and
    its spread grows with the size.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=False
        Whether to return a DataFrame and a Series instead of arrays.

    Returns
    -------
    data : Bunch
        Keys ``data``, ``target``, ``units``, ``license``, ``source`` and ``DESCR``, as from `fetch_uci`.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    See Also
    --------
    fetch_uci : Downloads larger data sets; this one has the name "abalone" there.

    Examples
    --------
    >>> from skuq.datasets import load_abalone
    >>> X, y = load_abalone(return_X_y=True)
    >>> X.shape
    (4177, 8)
    """
    return load_set("abalone", return_X_y, as_frame)


def load_airfoil(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Return the noise of 1503 airfoils in a wind tunnel.

    Five features: frequency, angle of attack, chord length, velocity and displacement thickness. The target
    is the sound pressure in decibels.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=False
        Whether to return a DataFrame and a Series instead of arrays.

    Returns
    -------
    data : Bunch
        Keys ``data``, ``target``, ``units``, ``license``, ``source`` and ``DESCR``, as from `fetch_uci`.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    See Also
    --------
    fetch_uci : Downloads larger data sets; this one has the name "airfoil_self_noise" there.

    Examples
    --------
    >>> from skuq.datasets import load_airfoil
    >>> X, y = load_airfoil(return_X_y=True)
    >>> X.shape
    (1503, 5)
    """
    return load_set("airfoil_self_noise", return_X_y, as_frame)


def load_auto_mpg(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Return the fuel economy of 392 cars of the years 1970 to 1982.

    Five features: displacement, horsepower, weight, acceleration and model year. The target is in miles per
    gallon.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=False
        Whether to return a DataFrame and a Series instead of arrays.

    Returns
    -------
    data : Bunch
        Keys ``data``, ``target``, ``units``, ``license``, ``source`` and ``DESCR``, as from `fetch_uci`.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    See Also
    --------
    fetch_uci : Downloads larger data sets; this one has the name "auto_mpg" there.

    Examples
    --------
    >>> from skuq.datasets import load_auto_mpg
    >>> X, y = load_auto_mpg(return_X_y=True)
    >>> X.shape
    (392, 5)
    """
    return load_set("auto_mpg", return_X_y, as_frame)


def load_concrete(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Return the compressive strength of 1030 samples of concrete.

    Eight features: seven ingredients in kg per cubic meter and the age in days. The target is in megapascals.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.
    as_frame : bool, default=False
        Whether to return a DataFrame and a Series instead of arrays.

    Returns
    -------
    data : Bunch
        Keys ``data``, ``target``, ``units``, ``license``, ``source`` and ``DESCR``, as from `fetch_uci`.
    (data, target) : tuple if ``return_X_y`` is true
        Features and target.

    See Also
    --------
    fetch_uci : Downloads larger data sets; this one has the name "concrete_strength" there.

    Examples
    --------
    >>> from skuq.datasets import load_concrete
    >>> X, y = load_concrete(return_X_y=True)
    >>> X.shape
    (1030, 8)
    """
    return load_set("concrete_strength", return_X_y, as_frame)
