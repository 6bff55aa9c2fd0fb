"""Stacked joint distributions of different families."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import ConcatenatedJoint, CopulaJoint, concat, rank_template
from tests.distributions._joint.families import ALL, MARGINALS, POINTS, N


def test_templates_of_folds_stay_apart():
    """The folds of a cross-validation have different templates."""
    parts = [
        CopulaJoint([part[rows] for part in MARGINALS], rank_template(POINTS[start::2]))
        for start, rows in enumerate((slice(0, 5), slice(5, N)))
    ]
    both = concat(parts)
    assert isinstance(both, ConcatenatedJoint)
    y = np.column_stack([part.mean() for part in MARGINALS])
    assert_allclose(both.cdf(y), np.concatenate([parts[0].cdf(y[:5]), parts[1].cdf(y[5:])]))
    again = concat([both[:3], both[3:]])
    assert_allclose(again.linear([1, 1, 1]).std(), both.linear([1, 1, 1]).std())


def test_equal_templates_merge():
    dist = ALL["template"]
    assert type(concat([dist[3:], dist[:3]])) is CopulaJoint


@pytest.mark.parametrize("order", [[0.5], [], [99], [[0]]])
def test_bad_order(order):
    with pytest.raises(ValueError, match="`order` must"):
        ConcatenatedJoint([ALL["template"]], order)
