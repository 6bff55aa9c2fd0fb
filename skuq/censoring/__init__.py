"""Censored targets: conversion, the Kaplan-Meier curve, and weights of observed rows."""

from skuq.censoring._censoring_weights import censoring_weights
from skuq.censoring._from_survival import from_survival
from skuq.censoring._kaplan_meier import kaplan_meier_curve

__all__ = [
    "censoring_weights",
    "from_survival",
    "kaplan_meier_curve",
]
