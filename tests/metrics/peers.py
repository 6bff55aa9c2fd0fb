"""The packages that the metrics are compared with; tests of missing packages are skipped."""

import warnings

import pytest


def load(name):
    """Import a module of a peer, whose own warnings are not the subject, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)
