"""Everything skuq raises or warns with, beyond Python's own errors.

::

    SkuqError
    ├── NotProbabilisticError   (ValueError)      the estimator gives no predictive distribution
    ├── NotRefittedError        (NotFittedError)  the search was run with refit=False
    ├── NonFinitePredictionError (ValueError)     a wrapped estimator predicts NaN or infinity
    ├── NoDensityError          (ValueError)      the distribution has atoms, so no density
    └── NoDecompositionError    (ValueError)      epistemic and aleatoric parts are not separated
    SkuqWarning                 (UserWarning)
    ├── SmallSampleWarning                        too few rows for the number to mean much
    ├── ConstraintWarning                         no candidate satisfies every constraint
    ├── FoldMismatchWarning                       the refit differs from the models of the folds
    └── InconsistentVersionWarning                the estimator was pickled by another version of skuq
"""

from sklearn.exceptions import NotFittedError

__all__ = [
    "ConstraintWarning",
    "FoldMismatchWarning",
    "InconsistentVersionWarning",
    "NoDecompositionError",
    "NoDensityError",
    "NonFinitePredictionError",
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


class NonFinitePredictionError(SkuqError, ValueError):
    """A wrapped estimator predicts NaN or infinity for some rows.

    Parameters
    ----------
    estimator : str
        Its class.
    n_rows : int
        How many rows have no finite prediction.
    n : int
        How many rows were predicted.
    first : int
        The first of the rows without, counted among those that were predicted.
    places : tuple of str
        The fold or member that the estimator was fitted for, from the inside outwards; empty if it was
        fitted on all rows.
    advice : str
        What helps with this estimator, in sentences; empty where nothing in particular does.
    """

    def __init__(
        self,
        estimator: str,
        n_rows: int,
        n: int,
        first: int,
        places: tuple[str, ...] = (),
        advice: str = "",
    ) -> None:
        super().__init__(estimator, n_rows, n, first, places, advice)

    def __str__(self) -> str:
        estimator, n_rows, n, first, places, advice = self.args
        where = "".join(f", in {place}" for place in places)
        return (
            f"{estimator} predicts NaN or infinity for {n_rows} of {n} rows, the first of them row {first}"
            f"{where}. Every row needs a finite prediction: give the estimator parameters with which it "
            f"predicts every row, take another estimator, or leave these rows out.{advice and f' {advice}'}"
        )


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


class FoldMismatchWarning(SkuqWarning):
    """The model fitted to all rows differs too much from the models of the folds.

    Errors are measured on the folds' models, so they say little about the model that predicts. A cause is
    an estimator that stops early on one set of rows and not on another.
    """


class InconsistentVersionWarning(SkuqWarning):
    """An estimator is loaded by another version of skuq than pickled it."""
