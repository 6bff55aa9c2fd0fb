"""Stacked modules, which contain the networks of all members in one torch module."""
