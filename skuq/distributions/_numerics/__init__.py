"""Numerical methods of the families: quadrature, tables, differences, levels and weighted ranks."""
