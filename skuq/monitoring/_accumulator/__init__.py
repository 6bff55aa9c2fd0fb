"""Metrics of more rows than memory holds, from statistics of blocks that add up."""
