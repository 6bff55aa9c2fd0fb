"""The packages that the metrics are compared with; a test that asks for one that is missing is skipped."""

import warnings

import pytest


def load(name):
    """Import a module of a peer, whose own warnings are not the subject, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)
