"""Metrics of more rows than memory holds, from additive statistics of blocks of rows."""
