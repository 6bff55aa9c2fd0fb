"""Dependence between targets, estimated from out-of-sample ranks."""
