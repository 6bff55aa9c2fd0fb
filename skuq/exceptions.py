"""Errors and warnings of skuq.

::

    SkuqError
    ├── NotProbabilisticError   (ValueError)      the estimator gives no predictive distribution
    ├── NotRefittedError        (NotFittedError)  the search was fitted with refit=False
    ├── NonFinitePredictionError (ValueError)     a wrapped estimator predicts NaN or infinity
    ├── NoDensityError          (ValueError)      the distribution has atoms and no density
    └── NoDecompositionError    (ValueError)      epistemic and aleatoric parts are not separated
    SkuqWarning                 (UserWarning)
    ├── SmallSampleWarning                        too few rows for a reliable result
    ├── ConstraintWarning                         no candidate satisfies every constraint
    ├── FoldMismatchWarning                       the refit differs from the models of the folds
    ├── SupportWarning                            forecasts of counts have probability below 0
    └── InconsistentVersionWarning                another version of skuq pickled the estimator
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
    "SupportWarning",
]


class SkuqError(Exception):
    """Base class of all errors of skuq."""


class NotProbabilisticError(SkuqError, ValueError):
    """Estimator without a predictive distribution."""


class NotRefittedError(SkuqError, NotFittedError):
    """Search that was fitted with ``refit=False`` and has no fitted estimator."""


class NonFinitePredictionError(SkuqError, ValueError):
    """Predictions of a wrapped estimator are NaN or infinite.

    Parameters
    ----------
    estimator : str
        Class of the estimator.
    n_rows : int
        Number of rows without a finite prediction.
    n : int
        Number of predicted rows.
    first : int
        First row without a finite prediction.
    places : tuple of str
        Folds or members for which the estimator was fitted. For nested estimators, the innermost fold or
        member comes first. The tuple is empty if the estimator was fitted on all rows.
    advice : str
        Remedy specific to this estimator. May be empty.
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
            f"{where}. All predictions must be finite. Change the parameters of the estimator, use another "
            f"estimator, or leave these rows out.{advice and f' {advice}'}"
        )


class NoDensityError(SkuqError, ValueError):
    """Distribution with atoms (points of positive probability), which has no density."""


class NoDecompositionError(SkuqError, ValueError):
    """Model that does not separate epistemic from aleatoric uncertainty."""


class SkuqWarning(UserWarning):
    """Base class of all warnings of skuq."""


class SmallSampleWarning(SkuqWarning):
    """Too few rows for a reliable result."""


class ConstraintWarning(SkuqWarning):
    """No candidate of a search satisfies every constraint."""


class FoldMismatchWarning(SkuqWarning):
    """Large difference between the model fitted to all rows and the models of the folds.

    Errors are measured for the models of the folds. The model that is fitted to all rows may have different
    errors. A possible cause is an estimator that stops training early on some sets of rows but not on others.
    """


class SupportWarning(SkuqWarning):
    """Forecast of counts with more than 1 % of its probability below 0."""


class InconsistentVersionWarning(SkuqWarning):
    """Estimator that was pickled by another version of skuq."""
