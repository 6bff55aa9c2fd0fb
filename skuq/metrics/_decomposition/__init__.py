"""Isotonic recalibration of functionals, and the parts of the CRPS as metrics."""
