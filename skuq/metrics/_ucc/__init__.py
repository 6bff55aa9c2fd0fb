"""Coordinates, curve and area of the uncertainty characteristics curve, and the comparison of models."""
