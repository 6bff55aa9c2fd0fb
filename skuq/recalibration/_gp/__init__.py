"""Variational Gaussian process of three recalibrators."""
