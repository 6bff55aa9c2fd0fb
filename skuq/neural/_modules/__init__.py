"""Stacked modules: the networks of all members in one torch module."""
