"""Distributions on integers, and the probabilities of atoms."""
