"""Stacked modules: torch modules that contain the networks of all members."""
