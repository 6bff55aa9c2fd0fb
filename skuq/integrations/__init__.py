"""Connections to other packages.

There is one module per package, and no other module of skuq imports them.
"""
