"""Recalibration of quantile models that need one fit per level."""
