"""Distributions on integers, and masses of atoms."""
