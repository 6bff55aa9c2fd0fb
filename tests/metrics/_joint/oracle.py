"""Two rows with five members and three targets, whose scores were computed with scoringrules 0.10.0."""

import numpy as np

from skuq.distributions import EmpiricalJoint

_I = np.arange(5.0)
MEMBERS = np.array(
    [
        np.column_stack([np.sin(_I + 1), np.cos(2 * _I), _I / 2]),
        np.column_stack([_I - 2, (_I - 2) ** 2 / 4, -_I / 5]),
    ]
)
Y = np.array([[0.5, -1.0, 2.0], [0.0, 0.0, 0.0]])
ENSEMBLE = EmpiricalJoint(MEMBERS)
WEIGHTED = EmpiricalJoint(MEMBERS, [[1.0, 2.0, 3.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0, 4.0]])


def positive(values):
    """Chaining function of a score of positive values."""
    return np.maximum(values, 0.0)


def of_rows(metric, dist, **options):
    """Return the metric of each row."""
    return [metric(Y[[row]], dist[[row]], **options) for row in range(len(Y))]
