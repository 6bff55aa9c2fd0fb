"""Forests on bootstrap rows: their trees, leaf weights, out-of-bag rows and infinitesimal jackknife."""
