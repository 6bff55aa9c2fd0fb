"""Connections to other packages, one module per package; no other module of skuq imports them."""
