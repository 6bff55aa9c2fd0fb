"""Pools of several distributions: their members, and the weights with the least CRPS."""
