"""Least squares with a predictive distribution in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.seeds import Progress
from skuq._fitting.table import column_scale
from skuq._fitting.training_data import TrainingData, check_y
from skuq._typing import FloatArray
from skuq._validation import check_same_rows, check_sample_weight, check_unmasked, effective_rows
from skuq.distributions import Distribution, StudentT

_MIN_DF = 3
"""There are at least 3 degrees of freedom. With fewer, the predictive variance is infinite."""


class LeastSquaresRegressor(BaseUncertaintyRegressor):
    r"""Linear least squares with exact prediction and confidence intervals.

    The intervals are exact for every sample size if the mean is linear and the noise is Gaussian with a
    constant variance. Prefer `ResidualRegressor` around a linear model if the noise varies with X or is not
    Gaussian. Prefer `BootstrapRegressor` around another model if the mean is not linear.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether the model has a constant term.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Coefficients. If columns are collinear, several solutions exist. The solution with the smallest norm
        of the coefficients of the standardized columns is used.
    intercept_ : float
        Constant term, in the units of y.
    noise_scale_ : float
        Estimated standard deviation of the noise, in the units of y.
    rank_ : int
        Number of coefficients that the data determine, including the intercept.
    df_ : float
        Degrees of freedom: number of observations minus ``rank_``.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    ResidualRegressor : Distribution of the errors of any regressor.
    UncertaintyRegressor : A predictive distribution for any regressor.

    Notes
    -----
    Let :math:`h = x^T (X^T W X)^{-1} x`. The prediction at x is a Student t distribution with ``df_`` degrees
    of freedom, location :math:`x^T \hat\beta` and scale :math:`\hat\sigma \sqrt{1 + h}`. The epistemic part
    is the distribution of the regression function at x. Its scale is :math:`\hat\sigma \sqrt{h}` [1]_. The
    intervals equal the intervals of ``OLS(...).get_prediction()`` in statsmodels.

    ``sample_weight`` counts repetitions: a row with weight 2 counts as two rows. The degrees of freedom are
    the sum of the weights minus the rank. In statsmodels, ``WLS`` uses the number of rows instead of the sum
    of the weights.

    `fit_transform` returns leave-one-out distributions in closed form: a rank-one update removes each row,
    with all its repetitions, from the fit. If columns are collinear in the training data but not at x, the
    data do not determine the mean at x. The interval does not include this uncertainty.

    Cost: one singular value decomposition, O(n d²) time. A prediction takes O(d²) time per row.

    References
    ----------
    .. [1] G. A. F. Seber, A. J. Lee, "Linear Regression Analysis", Wiley 2003, section 5.3,
       doi:10.1002/9780471722199.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.regressors import LeastSquaresRegressor
    >>> X = np.arange(6.0).reshape(-1, 1)
    >>> model = LeastSquaresRegressor().fit(X, [0.1, 0.9, 2.1, 2.9, 4.1, 4.9])
    >>> model.predict_interval([[2.5], [10.0]]).round(2)
    array([[ 2.23,  2.77],
           [ 9.35, 10.39]])
    >>> model.predict_dist([[2.5]]).epistemic().interval().round(2)
    array([[2.4, 2.6]])
    """

    def __init__(self, *, fit_intercept: bool = True) -> None:
        self.fit_intercept = fit_intercept

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        if fit_params:
            raise TypeError(
                f"LeastSquaresRegressor.{caller} does not accept the parameters {sorted(fit_params)}."
            )
        check_unmasked(X, "X")
        target = check_y(y, self)
        check_same_rows(X, target)
        features, _ = validate_data(self, X, target, dtype=np.float64, ensure_min_samples=2)
        return TrainingData(features, target, check_sample_weight(sample_weight, len(target)))

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        n_observations = effective_rows(data.sample_weight, len(data))
        weight = data.repetitions
        total = weight.sum()
        self._X_mean = weight @ data.X / total if self.fit_intercept else np.zeros(data.X.shape[1])
        self._y_mean = float(weight @ data.y / total) if self.fit_intercept else 0.0
        self._X_scale = column_scale(data.X, self._X_mean, weight)
        design = np.sqrt(weight)[:, np.newaxis] * self._standardize(data.X)
        u, s, vt = np.linalg.svd(design, full_matrices=False)
        kept = s > np.finfo(np.float64).eps * max(design.shape) * s.max(initial=0.0)
        self._whiten = vt[kept].T / s[kept]
        target = np.sqrt(weight) * (data.y - self._y_mean)
        projected = u[:, kept].T @ target
        self._slope = self._whiten @ projected
        self._h_constant = 1.0 / n_observations if self.fit_intercept else 0.0
        self.rank_ = int(kept.sum()) + bool(self.fit_intercept)
        self.df_ = n_observations - self.rank_
        if self.df_ < _MIN_DF:
            raise ValueError(
                f"LeastSquaresRegressor needs at least {_MIN_DF} degrees of freedom, got {self.df_:g}: "
                f"{n_observations:g} observations minus {self.rank_} coefficients. Use more rows or fewer "
                "columns."
            )
        residual = data.y - self._location(self._standardize(data.X))
        self._rss = float(weight @ np.square(residual))
        self.noise_scale_ = float(np.sqrt(self._rss / self.df_))
        self.coef_ = self._slope / self._X_scale
        self.intercept_ = self._y_mean - float(self._X_mean @ self.coef_)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        self._fit(data, progress)
        weight = data.repetitions
        standardized = self._standardize(data.X)
        h = self._leverage(standardized)
        kept = 1.0 - weight * h  # ratio of the residual to the leave-one-out residual
        df = self.df_ - weight
        self._check_leave_one_out(kept, df)
        residual = data.y - self._location(standardized)
        residual_out = residual / kept
        rss_out = np.maximum(self._rss - weight * residual * residual_out, 0.0)
        h_out = h / kept
        scale = np.sqrt(rss_out / df)
        return StudentT(
            data.y - residual_out,
            scale * np.sqrt(1.0 + h_out),
            df,
            epistemic_scale=scale * np.sqrt(h_out),
        )

    def _check_leave_one_out(self, kept: FloatArray, df: FloatArray) -> None:
        if kept.min() < 1e-10:
            row = int(np.argmin(kept))
            raise ValueError(
                f"`X` must determine all coefficients even if one row is left out. Without row {row} "
                f"(leverage 1), one coefficient is not determined. Drop the row, drop the column that is "
                "nonzero only in this row, or use a regularized model in UncertaintyRegressor."
            )
        if df.min() < _MIN_DF:
            raise ValueError(
                f"`fit_transform` needs at least {_MIN_DF} degrees of freedom without each row, got "
                f"{df.min():g} without row {int(np.argmin(df))}. Use more rows or fewer columns."
            )

    def _predict_dist(self, X: Any) -> Distribution:
        standardized = self._standardize(validate_data(self, X, dtype=np.float64, reset=False))
        h = self._leverage(standardized)
        return StudentT(
            self._location(standardized),
            self.noise_scale_ * np.sqrt(1.0 + h),
            self.df_,
            epistemic_scale=self.noise_scale_ * np.sqrt(h),
        )

    def _point(self, X: Any) -> FloatArray:
        return self._location(self._standardize(validate_data(self, X, dtype=np.float64, reset=False)))

    def _check_new(self, X: Any) -> Any:
        check_is_fitted(self)
        check_unmasked(X, "X")
        return X

    def _standardize(self, X: FloatArray) -> FloatArray:
        standardized: FloatArray = (X - self._X_mean) / self._X_scale
        return standardized

    def _location(self, standardized: FloatArray) -> FloatArray:
        location: FloatArray = self._y_mean + standardized @ self._slope
        return location

    def _leverage(self, standardized: FloatArray) -> FloatArray:
        whitened = standardized @ self._whiten
        leverage: FloatArray = self._h_constant + np.einsum("ij,ij->i", whitened, whitened)
        return leverage
