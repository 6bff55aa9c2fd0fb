"""Metrics of more rows than fit into memory, computed from sums over blocks of rows."""
