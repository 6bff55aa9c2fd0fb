"""Recalibration of quantile models with one fit per level."""
