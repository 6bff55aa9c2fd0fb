"""Conformal regression: the estimator, its scores and their order statistics."""
