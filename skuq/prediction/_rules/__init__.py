"""Rules that return the predictive distribution of each kind of fitted estimator."""
