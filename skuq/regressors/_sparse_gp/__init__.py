"""Bound and inducing points of the sparse Gaussian process regressor."""
