"""The rules by which a kind of fitted estimator gives its predictive distribution."""
