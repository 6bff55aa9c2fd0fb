"""Lower bound and inducing points of sparse Gaussian process regression."""
