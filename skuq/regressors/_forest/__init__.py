"""Predictive distributions of forests: trees, leaf weights, out-of-bag rows and the jackknife."""
