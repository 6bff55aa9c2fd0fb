"""Stacked modules. One torch module contains the networks of all members."""
