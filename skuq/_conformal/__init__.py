"""Conformal prediction: calibration scores, their quantiles, intervals and sets, without public names."""
