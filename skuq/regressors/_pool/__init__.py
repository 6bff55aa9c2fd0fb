"""Pools of several distributions: their members, and the weights of the least CRPS."""
