"""Predictive distributions of trained networks."""
