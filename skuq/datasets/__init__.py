"""Real and synthetic data sets of the papers."""

from skuq.datasets._fetch import (
    fetch_gal,
    fetch_uci,
    load_abalone,
    load_airfoil,
    load_auto_mpg,
    load_concrete,
)
from skuq.datasets._make import make_chung, make_wibbeke

__all__ = [
    "fetch_gal",
    "fetch_uci",
    "load_abalone",
    "load_airfoil",
    "load_auto_mpg",
    "load_concrete",
    "make_chung",
    "make_wibbeke",
]
