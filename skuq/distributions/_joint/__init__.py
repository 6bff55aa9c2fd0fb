"""Joint predictive distributions of several targets."""
