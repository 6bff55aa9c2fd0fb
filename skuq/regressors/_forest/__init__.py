"""Predictive distributions of forests, from trees, leaf weights, out-of-bag rows and the jackknife."""
