"""Numerical ground of the families: quadrature, tables, differences, levels and ranks of weighted values."""
