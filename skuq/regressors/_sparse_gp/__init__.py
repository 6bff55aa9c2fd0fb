"""Sparse Gaussian process regression: the lower bound and the inducing points."""
