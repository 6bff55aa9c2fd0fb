"""Variational Gaussian process, which three recalibrators use."""
