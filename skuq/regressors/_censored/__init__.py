"""Boosting of location and scale under censoring."""
