"""Recalibrated quantile models of which each level is a fit."""
