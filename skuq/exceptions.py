"""Everything skuq raises or warns with, beyond Python's own errors.

::

    SkuqError
    ├── NotProbabilisticError   (ValueError)      the estimator gives no predictive distribution
    ├── NotRefittedError        (NotFittedError)  the search was run with refit=False
    ├── NoDensityError          (ValueError)      the distribution has atoms, so no density
    └── NoDecompositionError    (ValueError)      epistemic and aleatoric parts are not separated
    SkuqWarning                 (UserWarning)
    ├── SmallSampleWarning                        too few rows for the number to mean much
    └── ConstraintWarning                         no candidate satisfies every constraint
"""

from sklearn.exceptions import NotFittedError

__all__ = [
    "ConstraintWarning",
    "NoDecompositionError",
    "NoDensityError",
    "NotProbabilisticError",
    "NotRefittedError",
    "SkuqError",
    "SkuqWarning",
    "SmallSampleWarning",
]


class SkuqError(Exception):
    """Base class of every error that skuq defines."""


class NotProbabilisticError(SkuqError, ValueError):
    """The estimator has no way to give a predictive distribution."""


class NotRefittedError(SkuqError, NotFittedError):
    """A search was fitted with ``refit=False`` and holds no fitted estimator."""


class NoDensityError(SkuqError, ValueError):
    """The distribution puts probability on single points and has no density."""


class NoDecompositionError(SkuqError, ValueError):
    """The model does not separate epistemic from aleatoric uncertainty."""


class SkuqWarning(UserWarning):
    """Base class of every warning that skuq gives."""


class SmallSampleWarning(SkuqWarning):
    """There are too few rows for the result to be reliable."""


class ConstraintWarning(SkuqWarning):
    """No candidate of a search satisfies every constraint."""
