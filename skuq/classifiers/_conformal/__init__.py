"""Conformal classification: the estimator, its scores and their ranks."""
