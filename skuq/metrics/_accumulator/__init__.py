"""Metrics of more rows than memory holds: statistics of blocks of rows, which are added."""
