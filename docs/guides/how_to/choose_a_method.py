"""
Choose an uncertainty method
============================

:class:`~skuq.regressors.UncertaintyRegressor` selects a method that fits the
estimator: its own distribution, recalibrated unless it is an exact posterior or
was calibrated on held-out rows; recalibrated quantiles if it has a quantile loss;
and a model of its errors for all others. ``method="native"`` and ``"quantile"``
give distributions and quantiles without recalibration. The alternatives:

.. list-table::
    :header-rows: 1
    :widths: 30 35 35

    * - class
      - use it when
      - computational cost
    * - :class:`~skuq.regressors.ResidualRegressor`
      - any regressor; the scale of its errors is modelled as a function of X, their shape is empirical
      - the fits for out-of-fold residuals (``cv``), and a second model for their scale
    * - :class:`~skuq.regressors.MultiQuantileRegressor`
      - the estimator has a quantile loss (gradient boosting, quantile regression)
      - one fit per level, or one for models with several quantiles
    * - :class:`~skuq.regressors.BootstrapRegressor`
      - the epistemic uncertainty of the model is required, apart from the noise
      - one fit per member; none for a forest, whose trees are the members
    * - :class:`~skuq.regressors.ConformalRegressor`
      - guaranteed coverage is required, for any noise; combined with one of the others (``"normalized"``) for
        heteroscedastic noise
      - held-out rows, or the fits of ``"cv+"``; see :doc:`/how-to/conformal`
    * - :class:`~skuq.regressors.LeastSquaresRegressor`
      - a linear model with Student t intervals is sufficient, or there are few rows
      - one least-squares fit
    * - :class:`~skuq.regressors.SparseGaussianProcessRegressor`
      - the function is smooth, there are few features, and epistemic uncertainty is required; needs the extra ``gp``
      - about a hundred passes over the rows, each n times the square of the number of inducing points
    * - :class:`~skuq.neural.DeepEnsembleRegressor` and other networks
      - there are enough rows, and heteroscedastic noise is to be separated from epistemic uncertainty; needs the extra
        ``torch``
      - 20 networks trained in one pass, seconds for a thousand rows; see :doc:`/how-to/networks`
    * - the estimator itself
      - it has an exact posterior (``BayesianRidge``, ``ARDRegression``, ``GaussianProcessRegressor``): no wrapper is
        needed
      - none
    * - :class:`~skuq.regressors.RecalibratedRegressor`
      - the estimator has a predictive distribution fitted to the training rows (NGBoost, CatBoost, XGBoost, quantile
        forests, skpro) and is too narrow on new ones
      - the number of folds plus one fit
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge

from skuq.regressors import (
    BootstrapRegressor,
    ConformalRegressor,
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)

rng = np.random.default_rng(0)
X = rng.uniform(0, 3, size=(300, 2))
y = X[:, 0] + 0.3 * X[:, 1] * rng.standard_normal(300)

models = [
    UncertaintyRegressor(Ridge(), random_state=0),
    ResidualRegressor(Ridge(), random_state=0),
    MultiQuantileRegressor(
        HistGradientBoostingRegressor(loss="quantile", quantile=0.5, max_iter=20)
    ),
    BootstrapRegressor(
        RandomForestRegressor(n_estimators=30, random_state=0), random_state=0
    ),
    ConformalRegressor(
        ResidualRegressor(Ridge(), random_state=0), "normalized", random_state=0
    ),
    LeastSquaresRegressor(),
]
intervals = [model.fit(X, y).predict_interval(X, coverage=0.8) for model in models]

# %%
# Gradient boosting
# -----------------
#
# ``predict_dist`` supports a fitted CatBoost model with
# ``loss_function="RMSEWithUncertainty"`` or
# ``"MultiQuantile:alpha=0.05,0.5,0.95"``, and XGBoost with
# ``objective="reg:quantileerror"`` and several ``quantile_alpha``;
# ``UncertaintyRegressor`` recalibrates them. A model of one quantile, as in
# LightGBM and scikit-learn, is not a distribution; ``UncertaintyRegressor`` fits it
# at eleven levels.
#
# Several targets
# ---------------
#
# Distributions are univariate. Fit one model per target:

from sklearn.multioutput import MultiOutputRegressor

from skuq import predict_dist

both = np.column_stack([y, y**2])
multi = MultiOutputRegressor(UncertaintyRegressor(Ridge(), random_state=0)).fit(
    X, both
)
second = predict_dist(multi.estimators_[1], X)

# %%
# Confidence and prediction intervals
# -----------------------------------
#
# ``dist.interval()`` is a prediction interval, for a new observation. If a model
# separates epistemic and aleatoric uncertainty, ``dist.epistemic().interval()`` is
# the confidence interval of the regression function, and ``dist.aleatoric()`` the
# noise.

dist = LeastSquaresRegressor().fit(X, y).predict_dist(X)
prediction_interval = dist.interval(0.9)
confidence_interval = dist.epistemic().interval(0.9)

# %%
# Models that do not separate the two raise ``NoDecompositionError``.
