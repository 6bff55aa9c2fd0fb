"""Conformal prediction: scores, quantiles of scores, intervals and sets."""
