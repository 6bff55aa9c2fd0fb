"""The sparse Gaussian process regressor's bound and inducing points."""
